/* build.h: graph operations as rewrites make them; result types follow from the operands. */
#ifndef TW_TRANSFORM_BUILD_H
#define TW_TRANSFORM_BUILD_H

#include "dialect/graph/graph.h"

/* Element-wise; the operands of a binary one broadcast, and the result has x's element type. */
tw_value *tw_build_unary(tw_builder *b, tw_graph_kind kind, tw_value *x);
tw_value *tw_build_binary(tw_builder *b, tw_graph_kind kind, tw_value *x, tw_value *y);
/* x itself when it has the element type. */
tw_value *tw_build_cast(tw_builder *b, tw_value *x, tw_elem elem);
tw_value *tw_build_bitcast(tw_builder *b, tw_value *x, tw_elem elem);

/* x itself when it has the shape. */
tw_value *tw_build_reshape(tw_builder *b, tw_value *x, unsigned rank, const tw_expr *dims);
/* `perm` is the attribute of graph.transpose. */
tw_value *tw_build_transpose(tw_builder *b, tw_value *x, tw_attr perm);
/* x, not of symbolic size along `axis`, with zeros behind up to the next multiple of n; x itself
 * when there is nothing to add. */
tw_value *tw_build_pad_to(tw_builder *b, tw_value *x, unsigned axis, int64_t n);

/* Parts whose types differ in their constant sizes along `axis` alone. */
tw_value *tw_build_concat(tw_builder *b, tw_value *const *parts, unsigned n, unsigned axis);
/* The slice of `type` that starts with element `at` of the axis. */
tw_value *tw_build_part(tw_builder *b, tw_value *x, unsigned axis, int64_t at, tw_type type);

/* The sum over a set of axes (bits), which stay with size 1. */
tw_value *tw_build_sum(tw_builder *b, tw_value *x, uint32_t axes);

#endif
