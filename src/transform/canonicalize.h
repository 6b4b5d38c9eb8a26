/* canonicalize.h: the functions behind the canonicalisation rules that a line cannot express. Each
 * is tried on an operation of its rule's root and returns whether it rewrote. */
#ifndef TW_TRANSFORM_CANONICALIZE_H
#define TW_TRANSFORM_CANONICALIZE_H

#include "transform/rules.h"

/* canonicalize_layout.c */
/* Replaces op's result by a value that differs in the layout of its type at most; true. */
bool tw_canon_replace(tw_rewriter *rw, tw_op *op, tw_value *value);
bool tw_canon_layout_name(tw_rewriter *rw, tw_op *op);

/* canonicalize_moves.c */
bool tw_canon_concat_one(tw_rewriter *rw, tw_op *op);
bool tw_canon_concat_empty(tw_rewriter *rw, tw_op *op);
bool tw_canon_concat_concat(tw_rewriter *rw, tw_op *op);
bool tw_canon_concat_slices(tw_rewriter *rw, tw_op *op);
bool tw_canon_slice_identity(tw_rewriter *rw, tw_op *op);
bool tw_canon_slice_slice(tw_rewriter *rw, tw_op *op);
bool tw_canon_slice_concat(tw_rewriter *rw, tw_op *op);
bool tw_canon_slice_less_concat(tw_rewriter *rw, tw_op *op);
bool tw_canon_slice_pad(tw_rewriter *rw, tw_op *op);
bool tw_canon_gather_slice(tw_rewriter *rw, tw_op *op);
bool tw_canon_pad_nothing(tw_rewriter *rw, tw_op *op);
bool tw_canon_pad_crop(tw_rewriter *rw, tw_op *op);
bool tw_canon_pad_pad(tw_rewriter *rw, tw_op *op);
bool tw_canon_expand_operand(tw_rewriter *rw, tw_op *op);
bool tw_canon_shape_static(tw_rewriter *rw, tw_op *op);

/* reshape_chain.c: a chain of reshapes and transposes that as a whole moves nothing. */
bool tw_canon_reshape_chain(tw_rewriter *rw, tw_op *op);

/* push_slices.c */
bool tw_canon_push_slice(tw_rewriter *rw, tw_op *op);

/* canonicalize_norm.c: scale and bias of normalisations */
bool tw_canon_norm_scale(tw_rewriter *rw, tw_op *op);
bool tw_canon_norm_bias(tw_rewriter *rw, tw_op *op);

/* canonicalize_control.c */
bool tw_canon_if_known(tw_rewriter *rw, tw_op *op);
bool tw_canon_if_results(tw_rewriter *rw, tw_op *op);
bool tw_canon_loop_never(tw_rewriter *rw, tw_op *op);
bool tw_canon_loop_results(tw_rewriter *rw, tw_op *op);
bool tw_canon_loop_invariant(tw_rewriter *rw, tw_op *op);

/* canonicalize_ops.c */
bool tw_canon_constant_right(tw_rewriter *rw, tw_op *op);
bool tw_canon_reduce_unit(tw_rewriter *rw, tw_op *op);
bool tw_canon_cast_cast(tw_rewriter *rw, tw_op *op);
bool tw_canon_pool_unit(tw_rewriter *rw, tw_op *op);
bool tw_canon_conv_pad(tw_rewriter *rw, tw_op *op);
bool tw_canon_pool_pad(tw_rewriter *rw, tw_op *op);
bool tw_canon_reduce_transpose(tw_rewriter *rw, tw_op *op);
bool tw_canon_matmul_transpose(tw_rewriter *rw, tw_op *op);
bool tw_canon_matmul_conv(tw_rewriter *rw, tw_op *op);

/* rules_forms.c: tables of what models spell out. */
extern const tw_rule tw_rules_activations[], tw_rules_norms[];

/* rules_when.c: conditions, over the names that the lines use. */
bool tw_when_positive(const tw_rule_match *m);              /* #c > 0 */
bool tw_when_one_axis(const tw_rule_match *m);              /* A is one axis */
bool tw_when_last_axes(const tw_rule_match *m);             /* A are x's last axes */
bool tw_when_last_axes_and_epsilon(const tw_rule_match *m); /* and #e > 0 */
/* A reshape to what keepdims had made; nothing else uses the reduction of x along A. */
bool tw_when_axes_come_back(const tw_rule_match *m);

#endif
