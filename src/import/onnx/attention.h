/* attention.h: the pieces that all operators of attention are made of; private to src/import/onnx.
 *
 * Heads stand apart in [batch, heads, sequence, size], together in [batch, sequence, heads * size].
 * Scores and weights are [batch, heads, queries, keys]. */
#ifndef TW_IMPORT_ONNX_ATTENTION_H
#define TW_IMPORT_ONNX_ATTENTION_H

#include "import/onnx/import.h"

/* x with its heads apart, or together again. */
tw_value *tw_onnx_split_heads(tw_gb *g, tw_value *x, int64_t heads);
tw_value *tw_onnx_join_heads(tw_gb *g, tw_value *x);
/* Earlier keys or values (or NULL), then x. */
tw_value *tw_onnx_with_past(tw_gb *g, tw_value *past, tw_value *x);
/* Each head repeated, one after the other, so that there are `heads`. */
tw_value *tw_onnx_repeat_heads(tw_gb *g, tw_value *x, tw_expr heads);

/* The scale, in q's element type; 0 stands for 1 / sqrt(size of q's heads). */
tw_value *tw_onnx_scale(tw_gb *g, tw_value *q, double scale);
/* q k^T * scale; the scale 0 stands for 1 / sqrt(size). k's heads are repeated. */
tw_value *tw_onnx_scores(tw_gb *g, tw_value *q, tw_value *k, double scale);
/* cap * tanh(scores / cap), for a cap above 0. */
tw_value *tw_onnx_softcap(tw_gb *g, tw_value *scores, double cap);
/* weights * v, v's heads repeated, as [batch, heads, queries, size]. */
tw_value *tw_onnx_weigh(tw_gb *g, tw_value *weights, tw_value *v);

/* 0, 1 … along one axis of four, as i64. */
tw_value *tw_onnx_positions(tw_gb *g, tw_expr count, unsigned axis);
/* The size of an axis, as an i64 number of the model. */
tw_value *tw_onnx_size(tw_gb *g, tw_value *x, unsigned axis);
/* Scores, and `otherwise` where the condition does not hold. */
tw_value *tw_onnx_keep_where(tw_gb *g, tw_value *condition, tw_value *scores, double otherwise);

/* Turns the first `2 * half` elements of the last axis, in pairs of halves or neighbours, by angles
 * with these cosines and sines: their last axis has `half` elements, the others broadcast. */
tw_value *tw_onnx_rotate(tw_gb *g, tw_value *x, tw_value *cosine, tw_value *sine, tw_expr half,
                         bool interleaved);

#endif
