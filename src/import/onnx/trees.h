/* trees.h: ensembles of decision trees, as the routine that evaluates them takes them
 * (runtime/routine_trees.c). */
#ifndef TW_IMPORT_ONNX_TREES_H
#define TW_IMPORT_ONNX_TREES_H

#include "import/onnx/import.h"

/* A child or root is the number of a node, or ~ that of a leaf. */
typedef struct tw_onnx_trees {
    tw_onnx_node *n;
    tw_elem elem;          /* of thresholds and weights: f64 when the model has doubles, else f32 */
    TW_VEC(int32_t) nodes; /* four each: feature, TW_TREE_ bits, child where it holds, and else */
    TW_VEC(double) thresholds;
    TW_VEC(int32_t) roots;
    int32_t *starts; /* votes of leaf i: starts[i] … starts[i + 1] - 1 */
    size_t n_leaves, n_votes;
    int32_t *targets; /* of each vote */
    double *weights;
    int64_t n_targets;
} tw_onnx_trees;

/* Read the attributes of TreeEnsemble, or of TreeEnsembleRegressor and TreeEnsembleClassifier,
 * whose votes are called "target" and "class"; n_targets is set before. False with an error. */
bool tw_onnx_read_trees(tw_onnx_trees *t);
bool tw_onnx_read_old_trees(tw_onnx_trees *t, const char *votes);

/* The aggregated votes for each row of input 0, [rows, targets], and which targets had any (bool);
 * 0 where not. False with an error. */
bool tw_onnx_trees_scores(tw_onnx_trees *t, int64_t aggregate, tw_value **scores, tw_value **voted);

/* Numbers of an attribute that is a list or, as "NAME_as_tensor", a tensor; NULL and *count = 0
 * when neither is there. Doubles make t->elem f64. */
const double *tw_onnx_trees_reals(tw_onnx_trees *t, const char *name, size_t *count, bool *ok);

/* A vector of that many numbers, of type t->elem. */
tw_value *tw_onnx_trees_constant(tw_onnx_trees *t, const double *values, size_t n);

#endif
