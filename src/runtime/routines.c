/* routines.c: the table of routines, and what they are written with. */
#include "runtime/routines.h"

#include "runtime/error.h"
#include "runtime/model.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- The table ---- */

typedef struct entry {
    const char *name;
    tw_abi_routine function;
} entry;

static const entry own[] = {
#define ENTRY(name) {TW_ROUTINE_PREFIX #name, tw_rt_##name},
    TW_ROUTINES(ENTRY)
#undef ENTRY
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static entry *registered;
static size_t n_registered;

static tw_abi_routine look_up(const char *name)
{
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (!strcmp(own[i].name, name))
            return own[i].function;
    for (size_t i = 0; i < n_registered; i++)
        if (!strcmp(registered[i].name, name))
            return registered[i].function;
    return NULL;
}

tw_abi_routine tw_routine_find(const char *name)
{
    pthread_mutex_lock(&lock);
    tw_abi_routine found = look_up(name);
    pthread_mutex_unlock(&lock);
    return found ? found : tw_routine_load(name);
}

static tw_status add(const char *name, tw_abi_routine function)
{
    tw_abi_routine known = look_up(name);
    if (known == function)
        return TW_STATUS_OK;
    if (known)
        return tw_fail(TW_STATUS_INVALID, "another routine has the name '%s'", name);
    entry *more = realloc(registered, (n_registered + 1) * sizeof *more);
    char *copy = strdup(name);
    if (more)
        registered = more;
    if (!more || !copy) {
        free(copy);
        return tw_fail_memory();
    }
    registered[n_registered++] = (entry){copy, function};
    return TW_STATUS_OK;
}

tw_status tw_routine_register(const char *name, tw_abi_routine function)
{
    if (!name || !function || strncmp(name, TW_ROUTINE_PREFIX, strlen(TW_ROUTINE_PREFIX)))
        return tw_fail(TW_STATUS_INVALID, "a routine's name begins with \"%s\"", TW_ROUTINE_PREFIX);
    pthread_mutex_lock(&lock);
    tw_status status = add(name, function);
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- Tools ---- */

int64_t tw_rt_count(const tw_abi_value *v)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < v->rank; i++)
        n *= v->dims[i];
    return n;
}

size_t tw_rt_elem_bytes(uint32_t elem)
{
    return (tw_runtime_elem_bits((tw_elem)elem) + 7) / 8;
}

int32_t tw_rt_fail(const tw_abi_host *host, const char *message)
{
    return host->error(host, 1, message);
}

int32_t tw_rt_no_memory(const tw_abi_host *host)
{
    return host->error(host, 1, "no memory for what a routine computes");
}

bool tw_rt_provide(const tw_abi_host *host, tw_abi_value *out)
{
    size_t bytes;
    if (!tw_tensor_bytes((tw_elem)out->elem, out->dims, out->rank, &bytes)) {
        tw_rt_fail(host, "a tensor that a routine computes is too large");
        return false;
    }
    out->data = host->alloc(host, bytes);
    if (!out->data)
        tw_rt_no_memory(host);
    return out->data != NULL;
}

/* ---- Order ---- */

static int order(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) - isnan(b);
    return (a > b) - (a < b);
}

static float narrow_value(uint32_t elem, uint16_t bits)
{
    if (elem == TW_BF16) {
        uint32_t wide = (uint32_t)bits << 16;
        float f;
        memcpy(&f, &wide, sizeof f);
        return f;
    }
    _Float16 h;
    memcpy(&h, &bits, sizeof h);
    return (float)h;
}

#define INTEGER(ELEM, type)                                                                        \
    case ELEM: {                                                                                   \
        type x = ((const type *)a)[i], y = ((const type *)b)[j];                                   \
        return (x > y) - (x < y);                                                                  \
    }

int tw_rt_compare(uint32_t elem, const void *a, int64_t i, const void *b, int64_t j)
{
    switch (elem) {
    case TW_F64:
        return order(((const double *)a)[i], ((const double *)b)[j]);
    case TW_F32:
        return order((double)((const float *)a)[i], (double)((const float *)b)[j]);
    case TW_F16:
    case TW_BF16:
        return order((double)narrow_value(elem, ((const uint16_t *)a)[i]),
                     (double)narrow_value(elem, ((const uint16_t *)b)[j]));
    case TW_STRING:
        return strcmp(((char *const *)a)[i], ((char *const *)b)[j]);
        INTEGER(TW_I64, int64_t)
        INTEGER(TW_I32, int32_t)
        INTEGER(TW_I16, int16_t)
        INTEGER(TW_I8, int8_t)
        INTEGER(TW_U64, uint64_t)
        INTEGER(TW_U32, uint32_t)
        INTEGER(TW_U16, uint16_t)
        INTEGER(TW_U8, uint8_t)
    default:
        INTEGER(TW_BOOL, uint8_t)
    }
}
