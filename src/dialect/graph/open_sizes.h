/* open_sizes.h: sizes that are equal in the common case, but may be 1 when the model runs.
 *
 *     graph.expand %x : tensor<m x 3 x f32> -> tensor<n x 3 x f32>
 *
 * is an open expand: m is n or 1. Fusion and the fast version of a kernel go by m = n, the general
 * version does not. */
#ifndef TW_DIALECT_GRAPH_OPEN_SIZES_H
#define TW_DIALECT_GRAPH_OPEN_SIZES_H

#include "base/map.h"
#include "tilewright/ir.h"

/* Whether a size of `from` is left open when it is expanded to the size `to`. */
bool tw_is_open_size(tw_expr from, tw_expr to);
bool tw_graph_is_open_expand(const tw_op *op);

/* Sizes that are taken to be equal; start with ctx and an empty map. */
typedef struct tw_equal_sizes {
    tw_context *ctx;
    tw_map same; /* size -> an equal one, which is simpler */
} tw_equal_sizes;

/* Those of an open expand, before and after. */
void tw_equal_sizes_add(tw_equal_sizes *e, const tw_op *expand);
/* The expression with the simplest equal sizes; the tensor type of these. */
tw_expr tw_equal_size(const tw_equal_sizes *e, tw_expr size);
tw_type tw_equal_type(const tw_equal_sizes *e, tw_type type);
bool tw_equal_shapes(const tw_equal_sizes *e, tw_type a, tw_type b);

#endif
