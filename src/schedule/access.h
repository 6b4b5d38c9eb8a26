/* access.h: what blocks read and write, over their iteration variables and over the loops. */
#ifndef TW_SCHEDULE_ACCESS_H
#define TW_SCHEDULE_ACCESS_H

#include "schedule/nest.h"

enum { TW_MAX_ITERS = 32 };

/* One load or store of a block. */
typedef struct tw_block_access {
    tw_op *op;
    tw_value *buffer; /* the allocation or argument, seen through views */
    bool store, init; /* init: stands in the init region */
    bool masked;
    bool exact;     /* every axis is known */
    unsigned rank;  /* 0 with `exact` false when made through a view */
    tw_expr *iters; /* index per axis over the iteration variables; NULL where it is not known */
    tw_expr *loops; /* the same over the loops of the nest */
} tw_block_access;

/* A block with all that the primitives ask about it. */
typedef struct tw_block_info {
    tw_op *op;
    const char *name;
    unsigned n_iters;
    bool reduce[TW_MAX_ITERS];
    tw_expr extents[TW_MAX_ITERS];  /* over symbols */
    tw_expr bindings[TW_MAX_ITERS]; /* over the loops of the nest */
    tw_range iter_ranges[TW_MAX_ITERS];
    bool has_reduce; /* a reduction variable occurs */
    bool has_init;
    bool sequential; /* order matters: scans and the like */
    tw_nest nest;
    tw_block_access *accesses;
    unsigned n_accesses;
} tw_block_info;

/* Fills in the block. False with the reason (to follow `block "x"`) when it cannot be analysed:
 * nested too deep, or bound to something that is no loop around it. */
bool tw_block_analyse(tw_context *ctx, tw_op *block, tw_block_info *out, const char **why);

/* The allocation or argument behind a buffer value. */
tw_value *tw_root_buffer(tw_value *buffer);
bool tw_is_view(const tw_value *buffer);
/* The loop.alloc of a root buffer; NULL for arguments and constants. */
tw_op *tw_buffer_alloc(const tw_value *buffer);
const char *tw_buffer_name(const tw_value *buffer);

/* Loads and stores of a root buffer, also those through views, in no order. `uses` grows on the
 * arena of ctx. False when something else uses it (it escapes the analysis). */
typedef struct tw_buffer_uses {
    tw_op **loads, **stores;
    unsigned n_loads, n_stores;
} tw_buffer_uses;
bool tw_buffer_uses_of(tw_context *ctx, tw_value *root, tw_buffer_uses *out);

/* Distinct buffers that the block reads or writes, in order of first access; a buffer that a
 * reduction reads and writes counts as written only. NULL past the end. */
tw_value *tw_block_read(const tw_block_info *block, unsigned i);
tw_value *tw_block_written(const tw_block_info *block, unsigned i);

/* Whether loop variable i of the nest occurs in bindings of spatial / of reduction variables. */
bool tw_loop_is_spatial(const tw_block_info *block, unsigned i);
bool tw_loop_is_reduce(const tw_block_info *block, unsigned i);

/* Whether the values of `known` (over n_dims dimensions with these bounds) determine dimension
 * `target`: equal values only for equal target. Conservative.
 *     {f floordiv 8, f mod 8} determines f;  {i * 4 + j} with 0 <= j < 4 determines i and j */
bool tw_determines(tw_context *ctx, const tw_expr *known, unsigned n_known, const tw_range *ranges,
                   unsigned n_dims, unsigned target);

/* A box side: the values lo + 0 … lo + width; lo over outer dimensions, width over symbols only.
 * Without `known`, nothing is known. */
typedef struct tw_interval {
    bool known;
    bool within; /* of instances: all within the extent for sure */
    tw_expr lo, width;
} tw_interval;

/* The values of e when the dimensions from `inner` on run through their loops of the nest. */
tw_interval tw_hull(tw_context *ctx, tw_expr e, const tw_nest *nest, unsigned inner);
/* The smallest interval found that holds both. */
tw_interval tw_interval_join(tw_context *ctx, tw_interval a, tw_interval b, const tw_nest *nest,
                             unsigned inner);
/* Whether b lies in a for sure. */
bool tw_interval_contains(tw_context *ctx, tw_interval a, tw_interval b, const tw_nest *nest,
                          unsigned inner);
/* Removes what the bounds of the buffer axis cut off: an interval as wide as the axis is the axis.
 */
tw_interval tw_interval_clip(tw_context *ctx, tw_interval a, tw_expr dim);

/* Two sides, a.lo + 0…wa and b.lo + 0…wb, whose ends are one function of the first `inner` loops up
 * to a constant. Whether an element in common means equal a.lo, given equal iterations of the first
 * `shared` loops: every step of a.lo is larger than what the sides span. */
bool tw_interval_tells(tw_context *ctx, tw_interval a, tw_interval b, unsigned shared,
                       unsigned inner);

/* Whether a and b touch an element in common only in one and the same iteration of loop `level`,
 * given equal iterations of the first `shared` loops. Both nests have the first `inner` loops in
 * common, `level` among them. */
bool tw_disjoint_over(tw_context *ctx, const tw_block_info *ba, const tw_block_access *a,
                      const tw_block_info *bb, const tw_block_access *b, unsigned shared,
                      unsigned inner, unsigned level);

#endif
