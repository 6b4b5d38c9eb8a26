/* ml.h: what operators of ai.onnx.ml share: attributes that are names, and what becomes of scores.
 */
#ifndef TW_IMPORT_ONNX_ML_H
#define TW_IMPORT_ONNX_ML_H

#include "import/onnx/import.h"

/* Values of post_transform, in the order of TreeEnsemble's attribute. */
enum {
    TW_ONNX_PLAIN,
    TW_ONNX_SOFTMAX,
    TW_ONNX_LOGISTIC,
    TW_ONNX_SOFTMAX_ZERO,
    TW_ONNX_PROBIT,
    TW_ONNX_TRANSFORMS
};

/* An attribute that is one of the names, as its number; -1 with an error. */
int64_t tw_onnx_choice(tw_onnx_node *n, const char *attribute, const char *const *names, int count,
                       int absent);
/* The attribute post_transform. */
int64_t tw_onnx_read_transform(tw_onnx_node *n);
/* Scores [rows, targets], transformed; a single target only by PROBIT. */
tw_value *tw_onnx_transform(tw_gb *g, int64_t transform, tw_value *x);
/* The scores of two classes, [rows, 2], of which only the second one's is known, [rows, 1]: a
 * chance whose rest is the first one's, or a number that is turned around. */
tw_value *tw_onnx_score_pair(tw_gb *g, int64_t transform, tw_value *score, bool chance);
/* The index of the largest score of each row. */
tw_value *tw_onnx_best(tw_gb *g, tw_value *scores);
/* A vector of f32. */
tw_value *tw_onnx_floats(tw_gb *g, const float *values, size_t n);

#endif
