/* canonicalize.h: the functions behind the canonicalisation rules that a line cannot express. Each
 * is tried on an operation of its rule's root and returns whether it rewrote. */
#ifndef TW_TRANSFORM_CANONICALIZE_H
#define TW_TRANSFORM_CANONICALIZE_H

#include "tilewright/ir.h"

/* canonicalize_moves.c */
bool tw_canon_concat_one(tw_rewriter *rw, tw_op *op);
bool tw_canon_concat_empty(tw_rewriter *rw, tw_op *op);
bool tw_canon_concat_concat(tw_rewriter *rw, tw_op *op);
bool tw_canon_slice_identity(tw_rewriter *rw, tw_op *op);
bool tw_canon_slice_slice(tw_rewriter *rw, tw_op *op);
bool tw_canon_slice_concat(tw_rewriter *rw, tw_op *op);
bool tw_canon_pad_nothing(tw_rewriter *rw, tw_op *op);
bool tw_canon_pad_pad(tw_rewriter *rw, tw_op *op);
bool tw_canon_expand_operand(tw_rewriter *rw, tw_op *op);
bool tw_canon_shape_static(tw_rewriter *rw, tw_op *op);

/* reshape_chain.c: a chain of reshapes and transposes that as a whole moves nothing. */
bool tw_canon_reshape_chain(tw_rewriter *rw, tw_op *op);

/* canonicalize_norm.c: normalisations that a model spells out */
bool tw_canon_layer_norm(tw_rewriter *rw, tw_op *op);
bool tw_canon_rms_norm(tw_rewriter *rw, tw_op *op);
bool tw_canon_norm_scale(tw_rewriter *rw, tw_op *op);
bool tw_canon_norm_bias(tw_rewriter *rw, tw_op *op);
bool tw_canon_softmax(tw_rewriter *rw, tw_op *op);

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
bool tw_canon_matmul_transpose(tw_rewriter *rw, tw_op *op);

#endif
