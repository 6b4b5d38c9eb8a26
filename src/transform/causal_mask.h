/* causal_mask.h: masks by which a query meets no later key. */
#ifndef TW_TRANSFORM_CAUSAL_MASK_H
#define TW_TRANSFORM_CAUSAL_MASK_H

#include "dialect/graph/graph.h"

/* Of queries i (the last but one axis) and keys j (the last axis): j stays iff j <= i + offset. */
typedef struct tw_causal {
    tw_expr offset;
    double fill; /* of a mask that is added: what is added to the others, to those that stay 0 */
} tw_causal;

/* Whether booleans are such a mask, being true where keys stay, or with `inverted` where they do
 * not. *rest: what else must be true for a key to stay, or NULL. */
bool tw_causal_condition(tw_context *ctx, const tw_value *mask, bool inverted, tw_causal *out,
                         tw_value **rest);
/* Whether numbers that are added are such a mask. */
bool tw_causal_addend(tw_context *ctx, const tw_value *mask, tw_causal *out);

#endif
