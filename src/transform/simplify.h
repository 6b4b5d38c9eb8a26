/* simplify.h: patterns of simplify-inference that stand in a file of their own. */
#ifndef TW_TRANSFORM_SIMPLIFY_H
#define TW_TRANSFORM_SIMPLIFY_H

#include "tilewright/ir.h"

/* simplify_scales.c: on products and quotients; on sums and differences. */
bool tw_join_scales(tw_rewriter *rw, tw_op *op, const void *data);
bool tw_join_shifts(tw_rewriter *rw, tw_op *op, const void *data);
/* Whether both are constants, or such negated, and one takes back what the other adds, so that x +
 * a + b rounds x. */
bool tw_shifts_cancel(tw_value *a, tw_value *b);

#endif
