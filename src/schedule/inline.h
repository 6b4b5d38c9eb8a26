/* inline.h: copying a block's body to a place where its iteration variables are given. */
#ifndef TW_SCHEDULE_INLINE_H
#define TW_SCHEDULE_INLINE_H

#include "schedule/schedule_impl.h"

/* What the iteration variables of a block become: expressions over `operands`. */
typedef struct tw_iter_values {
    const tw_expr *exprs; /* one per iteration variable */
    tw_value *const *operands;
    unsigned n_operands;
} tw_iter_values;

/* Copies one operation of the block's body before `place`, with values mapped by the cloner. */
tw_op *tw_copy_body_op(tw_context *ctx, tw_cloner *cloner, const tw_op *block, const tw_op *op,
                       const tw_iter_values *iters, tw_op *place);

/* Which axis of an access gives each iteration variable, and the constant that it adds there:
 * axis = variable + shift. -1 for variables that no axis gives. False when an axis is anything else
 * than such a sum or a constant. */
typedef struct tw_axis_map {
    int axis[TW_MAX_ITERS];
    int64_t shift[TW_MAX_ITERS];
} tw_axis_map;
bool tw_axes_of_iters(const tw_block_info *block, const tw_block_access *access, tw_axis_map *out);
/* Whether each variable that takes more than one value is given by an axis. */
bool tw_axes_give_all(const tw_block_info *block, const tw_axis_map *map);

/* Whether all values that the block's regions use from outside may be used at `place`. */
bool tw_block_values_dominate(tw_op *block, tw_op *place);

/* Removes a block, its loops as far as they are empty then, and its name. */
void tw_erase_block(tw_op *block);

#endif
