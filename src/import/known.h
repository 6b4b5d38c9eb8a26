/* known.h: what is known, while a model is imported, about the elements of small tensors.
 *
 * Models compute shapes by Shape, Gather, Mul, Concat … on small integer tensors. Following their
 * values, as numbers or as expressions over symbolic sizes, gives every tensor a type. */
#ifndef TW_IMPORT_KNOWN_H
#define TW_IMPORT_KNOWN_H

#include "import/build.h"

enum {
    TW_KNOWN_MAX_INTS = 4096, /* elements of tensors that are followed */
    TW_KNOWN_MAX_REALS = 64,
    /* Once so many were followed in all, only tensors of so few elements are. */
    TW_KNOWN_MAX_TOTAL = 1 << 20,
    TW_KNOWN_MAX_LATE = 32,
};

/* One element: nothing is known; num / den (den > 0, and 1 in tensors of integers or bool); or a
 * floating-point constant. */
typedef struct tw_num {
    enum { TW_NUM_UNKNOWN, TW_NUM_RATIO, TW_NUM_REAL } kind;
    tw_expr num;
    int64_t den;
    double real;
} tw_num;

typedef struct tw_known {
    size_t n; /* as many as the tensor has elements, row-major */
    tw_num *items;
} tw_known;

/* The elements of a value, or NULL when none is known. */
const tw_known *tw_known_of(tw_gb *g, const tw_value *value);
/* An i64-like scalar or one-element tensor. False when it is unknown. */
bool tw_known_expr(tw_gb *g, const tw_value *value, tw_expr *out);
/* All elements as expressions (arena), or NULL; *n is their number. */
const tw_expr *tw_known_exprs(tw_gb *g, const tw_value *value, size_t *n);
/* All elements as numbers (arena), or NULL. */
const int64_t *tw_known_ints(tw_gb *g, const tw_value *value, size_t *n);
const double *tw_known_reals(tw_gb *g, const tw_value *value, size_t *n);

/* Room for n elements that are followed. */
tw_num *tw_known_items(tw_gb *g, size_t n);

/* Evaluates an operation that was just made. The result is the operation's own, or that of a
 * constant that takes its place when all elements are numbers. */
tw_value *tw_known_fold(tw_gb *g, tw_op *op);

#endif
