/* trees.h: what compiler and runtime agree on about decision trees (runtime/routine_trees.c). */
#ifndef TW_ARTIFACT_TREES_H
#define TW_ARTIFACT_TREES_H

/* Outcomes of comparing a feature with a threshold, as a set: those for which the comparison of a
 * node holds. */
enum {
    TW_TREE_BELOW = 1,
    TW_TREE_EQUAL = 2,
    TW_TREE_ABOVE = 4,
    TW_TREE_NAN = 8, /* the feature is NaN; a threshold never is */
    TW_TREE_ALWAYS = 15,
};

/* How the votes of all trees for a target become its score. */
enum { TW_TREES_AVERAGE, TW_TREES_SUM, TW_TREES_MIN, TW_TREES_MAX };

#endif
