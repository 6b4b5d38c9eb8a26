/* view_of.h: graph operations that give the same memory another shape. */
#ifndef TW_LOWER_VIEW_OF_H
#define TW_LOWER_VIEW_OF_H

#include "tilewright/ir.h"

/* Whether the result's elements lie in the operand's memory in the result's order, `*offset`
 * elements behind its beginning: reshapes, transposes that move axes of size 1 only, expansions by
 * such axes, slices of adjacent elements, words of bytes. Sizes may be symbolic, where that is
 * certain. */
bool tw_lower_is_view(const tw_op *op, int64_t *offset);

/* The same for views that are all of the operand. */
bool tw_lower_is_whole_view(const tw_op *op);

#endif
