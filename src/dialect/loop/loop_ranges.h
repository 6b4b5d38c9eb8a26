/* loop_ranges.h: bounds of index values from the loops around them. */
#ifndef TW_DIALECT_LOOP_RANGES_H
#define TW_DIALECT_LOOP_RANGES_H

#include "tilewright/ir.h"

/* Inclusive bounds of an index value: from its loop's bounds (which may depend on outer loops),
 * from the block's extents, from the expression of a loop.index; else unknown. `top` is the bound
 * over symbols where numbers do not say it. */
tw_range tw_value_range(tw_context *ctx, const tw_value *value);

/* Bounds of the index operands of op, `ranges` having room for TW_MAX_EXPR_DIMS; their number. */
unsigned tw_operand_ranges(tw_context *ctx, const tw_op *op, tw_range *ranges);

#endif
