/* region.h: boxes of instances and elements, and loops over them. */
#ifndef TW_SCHEDULE_REGION_H
#define TW_SCHEDULE_REGION_H

#include "schedule/inline.h"

/* The box of elements that the accesses of one buffer touch, with the first `inner` loops symbolic.
 */
typedef struct tw_box {
    unsigned rank;
    tw_interval sides[TW_MAX_RANK]; /* not known: anywhere */
} tw_box;

/* Box of one access. */
tw_box tw_access_box(tw_context *ctx, const tw_block_info *block, const tw_block_access *access,
                     unsigned inner);
/* Joins b into a; both over the first `inner` loops of the nest. */
void tw_box_join(tw_context *ctx, tw_box *a, const tw_box *b, const tw_nest *nest, unsigned inner);
bool tw_box_equal(const tw_box *a, const tw_box *b);

/* Whether the access touches each element of its box (as far as its block's variables are within
 * their extents), and each once for given values of reduction loops. */
bool tw_box_is_full(tw_context *ctx, const tw_block_info *block, const tw_block_access *access,
                    unsigned inner);

/* Conditions (>= 0, over the first `inner` loops of the block's nest) that hold in each iteration
 * of these loops in which an instance of the block runs. */
typedef struct tw_conditions {
    tw_expr *exprs;
    unsigned n;
    bool complete; /* the others of the block's conditions just keep variables within extents */
} tw_conditions;
tw_conditions tw_outer_conditions(tw_context *ctx, const tw_block_info *block, unsigned inner);

/* Moves the block to the builder's place, in new loops over the box of instances given by one
 * interval per iteration variable (over the variables of `outer`, the loops around the place); one
 * that is not known runs over its whole extent. Instances outside of the extents are masked, as are
 * all where one of the conditions (may be NULL) does not hold. The old loops go where they are
 * empty. */
void tw_rebuild_loops(tw_context *ctx, tw_op *block, tw_builder place, const tw_interval *iters,
                      const tw_nest *outer, const tw_conditions *conditions);

/* Whether equal instances (of the box given by the intervals) are in equal iterations of loop
 * `level` of the outer nest, given equal iterations of the first `shared` loops. */
bool tw_instances_tell(tw_context *ctx, const tw_interval *iters, unsigned n, const tw_nest *outer,
                       unsigned shared, unsigned level);

/* Whether a side of instances is within the extent because the witness, a block that runs unmasked
 * in the same iterations of the `inner` outer loops, has a variable with this side and extent. */
bool tw_side_within(tw_context *ctx, const tw_block_info *witness, tw_interval side, tw_expr extent,
                    unsigned inner);

/* Moves the buffer's allocation to the front of the region, a loop's body, when all its uses are
 * inside and an iteration loads only what it has stored. All stores complete their results within
 * the iteration (no reduction goes on from one to the next). */
void tw_sink_alloc(tw_context *ctx, tw_value *buffer, tw_region *region);

#endif
