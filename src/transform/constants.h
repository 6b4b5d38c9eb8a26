/* constants.h: looking into and making constants for rewrites. */
#ifndef TW_TRANSFORM_CONSTANTS_H
#define TW_TRANSFORM_CONSTANTS_H

#include "dialect/graph/graph.h"

/* True when the value is a constant of at most 64 Ki elements that all are equal; integers and
 * booleans are given as double when that is exact. */
bool tw_constant_splat(const tw_value *value, tw_elem *elem, double *out);

/* Whether the value certainly has one element. */
bool tw_is_single(const tw_value *value);

/* A constant of 64-bit integers of that shape, the bytes being copied. */
tw_value *tw_constant_i64(tw_builder *b, const int64_t *values, size_t n, unsigned rank);

/* Whether the value can be computed at compile time: it depends on constants alone, through at
 * most 64 pure operations in a row. */
bool tw_depends_on_constants(const tw_value *value);
/* Moves what such a value is made of in front of `before`, as far as it is in the same region. */
void tw_move_constant(const tw_value *value, tw_op *before);

#endif
