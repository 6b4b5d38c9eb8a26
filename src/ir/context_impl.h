/* context_impl.h: what a context holds; private to src/ir. */
#ifndef TW_IR_CONTEXT_IMPL_H
#define TW_IR_CONTEXT_IMPL_H

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "tilewright/ir.h"

#include <stdarg.h>

typedef struct tw_cleanup {
    struct tw_cleanup *next;
    void (*release)(void *data);
    void *data;
} tw_cleanup;

typedef struct tw_mapping tw_mapping; /* of a file, see mapped.c */

/* Immutable objects by structural hash: open addressing over pointers whose hashes are stored in
 * the objects; equality is the caller's. */
typedef struct tw_unique {
    const void **slots;
    size_t count, slot_count;
} tw_unique;

/* Seconds and changes of one pass or stage, for tw_pipeline_report. */
typedef struct tw_pass_stats {
    const char *name;
    double seconds;
    uint64_t runs, changes;
} tw_pass_stats;
typedef TW_VEC(tw_pass_stats) tw_stats_list;

struct tw_context {
    tw_arena *arena;
    jmp_buf *guard;
    tw_cleanup *cleanups;
    tw_mapping *mappings;

    tw_map strings;   /* text -> interned copy */
    tw_map locations; /* tw_location bytes -> tw_loc */
    tw_unique exprs, types, attrs;

    TW_VEC(const tw_dialect *) dialects;
    tw_map op_defs;   /* name -> tw_op_def */
    tw_map type_defs; /* name -> tw_type_def */
    tw_map ifaces;    /* (def, iface) -> impl */
    TW_VEC(const tw_pass *) passes;
    tw_map pass_names; /* name -> tw_pass */
    tw_stats_list pass_stats, stage_stats;
    const char *last_rule; /* of the rewriter: what it applied last */

    tw_diagnostic *diagnostics, *last_diagnostic;
    size_t kept_diagnostics, errors;
    tw_diagnostic out_of_memory; /* in place, as there is no memory for it then */
    tw_map sources;              /* file name -> its text, for the source lines of diagnostics */
};

/* Keeps a copy of a text file's contents, unless it is huge; locations in `file` then come with
 * their source line. */
void tw_context_add_source(tw_context *ctx, const char *file, const char *text, size_t len);
/* tw_error with its arguments in a list. */
void tw_verror(tw_context *ctx, tw_loc loc, const char *format, va_list args);

/* The object equal to `key` (by `equal`) with that hash, or NULL. */
const void *tw_unique_find(const tw_unique *u, uint64_t hash, const void *key,
                           bool (*equal)(const void *stored, const void *key),
                           uint64_t (*hash_of)(const void *stored));
/* Adds an object that tw_unique_find did not find. */
void tw_unique_add(tw_context *ctx, tw_unique *u, const void *object, uint64_t hash,
                   uint64_t (*hash_of)(const void *stored));

/* Order-dependent combination of hashes. */
static inline uint64_t tw_hash_mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

#endif
