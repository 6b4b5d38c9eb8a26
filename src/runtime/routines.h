/* routines.h: functions that models call by name for what is no loop nest; tilewright/model.h says
 * what each takes and gives, and each one's source what it computes. */
#ifndef TW_RUNTIME_ROUTINES_H
#define TW_RUNTIME_ROUTINES_H

#include "artifact/abi.h"

#include <stdbool.h>

/* The routine of that name, of the runtime, registered, or in a library of its own; NULL when there
 * is none. */
tw_abi_routine tw_routine_find(const char *name);
/* The one in the library that may hold it, loaded; NULL. The name of that library; false: none. */
tw_abi_routine tw_routine_load(const char *name);
bool tw_routine_library(const char *name, char *library, size_t size);

#define DECLARE(name)                                                                              \
    int32_t tw_rt_##name(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,           \
                         tw_abi_value *out, uint32_t n_out, const int64_t *params);
TW_ROUTINES(DECLARE)
#undef DECLARE

/* ---- For those who write routines ---- */

/* Memory for an output whose dims are set; false after host->error. */
bool tw_rt_provide(const tw_abi_host *host, tw_abi_value *out);
/* Bytes of an element, at least 1. */
size_t tw_rt_elem_bytes(uint32_t elem);
/* Order of element i of `a` and element j of `b`, which have that type, of at least a byte: below
 * 0, 0 or above. NaN equals NaN and is above all else. */
int tw_rt_compare(uint32_t elem, const void *a, int64_t i, const void *b, int64_t j);
/* Elements of a tensor. */
int64_t tw_rt_count(const tw_abi_value *v);
/* Fails with a message that begins with the routine's name. */
int32_t tw_rt_fail(const tw_abi_host *host, const char *message);
int32_t tw_rt_no_memory(const tw_abi_host *host);

#endif
