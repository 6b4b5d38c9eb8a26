/* rule.h: what the rules share; private to this folder. */
#ifndef TW_SCHEDULE_RULES_RULE_H
#define TW_SCHEDULE_RULES_RULE_H

#include "base/target.h"
#include "schedule/rules/analysis.h"
#include "schedule/schedule.h"

enum { TW_RULE_MAX_LOOPS = 48 };

typedef struct tw_rule {
    tw_context *ctx;
    const tw_target *target;
    bool precise;          /* no reassociation */
    int64_t parallel_work; /* of a kernel that is worth it */
    tw_schedule *s;
    tw_op *kernel;
    tw_kernel_blocks *k; /* of the kernel as it is when the rule starts */
} tw_rule;

/* Whether the rule is made for such kernels, and its schedule; false with diagnostics when a
 * primitive refuses. */
bool tw_rule_fits_tiles(const tw_rule *r);
bool tw_rule_tiles(tw_rule *r);
bool tw_rule_fits_blocks(const tw_rule *r);
bool tw_rule_blocks(tw_rule *r);
bool tw_rule_fits_rows(const tw_rule *r);
bool tw_rule_rows(tw_rule *r);
bool tw_rule_nests(tw_rule *r);
bool tw_rule_fits_shared(const tw_rule *r);
bool tw_rule_shared(tw_rule *r);

/* Computes element-wise blocks where their results are read, when that costs less than storing. */
bool tw_rule_inline(tw_rule *r);

/* Removes the blocks of the kernel that store what a reduction gives of nothing (masked by its
 * having no iterations): each rule sets the results of reductions before these, whether they have
 * iterations or not. Whether that was done is for the rule's end to see. */
void tw_rule_drop_empty(tw_context *ctx, tw_op *kernel);
/* Whether no reduction that may have no iterations still sets its result in the first of them. What
 * ends a reduction of partial results, a block that is not in the original kernel, does so then
 * even if there are no iterations. */
bool tw_rule_all_set(tw_context *ctx, tw_op *original, tw_op *kernel);

/* ---- Pieces of schedules ---- */

/* Lanes for vectors of the element type over an axis of that extent: a power of two, at most what a
 * register of the target holds; 1 when vectors do not pay. */
unsigned tw_rule_lanes(const tw_rule *r, tw_elem elem, int64_t extent);

/* Of all loops around a block, those below the first `depth`: the last is cut into vectors (and the
 * rest of it), the others unrolled if `unroll`. */
bool tw_rule_vectorize_inner(tw_rule *r, tw_value *block, unsigned depth, unsigned lanes,
                             bool unroll);

/* Makes the outermost of `n` loops parallel, joined with as many of the next ones as it takes for
 * enough pieces; leaves kernels of little work alone (rule.parallel_work): where that depends on
 * sizes, at run time. `work` in scalar operations. The loops that are joined are replaced in the
 * array by the new one; *n is the new number. */
bool tw_rule_parallelize(tw_rule *r, tw_value **loops, unsigned *n, unsigned joinable,
                         tw_expr work);

/* Register tiles for a reduction whose first `first` loops, which hold other blocks, too, stay as
 * they are. `after`: the element-wise block that alone reads its results, or NULL. */
bool tw_rule_tile_inner(tw_rule *r, const tw_rule_block *main, const tw_rule_block *after,
                        unsigned first);

/* ---- Register tiles ---- */

typedef struct tw_rule_tile {
    int v, r; /* iteration variables; r is -1 when there is only one axis */
    unsigned lanes, vectors, rows;
    bool padded; /* v runs on to a multiple of the tile's width */
} tw_rule_tile;

/* The tile of a reduction that takes least time; its first `first` loops stay as they are. */
tw_rule_tile tw_choose_tile(const tw_rule *r, const tw_rule_block *b, unsigned first);

/* The kernel's reduction if it has one alone, or NULL. */
const tw_rule_block *tw_only_reduction(const tw_kernel_blocks *k);
/* The block that reads the reduction's result, or NULL; false when there is more to it. */
bool tw_find_epilogue(const tw_kernel_blocks *k, const tw_rule_block *main,
                      const tw_rule_block **epilogue);

int64_t tw_rule_extent(const tw_rule *r, tw_value *loop);

#endif
