/* scalar.h: values of every element type, with the exact meaning of conversions between them.
 *
 * Floating point rounds to nearest, ties to even. What is too large becomes infinity (NaN where
 * there is none), or with `saturate`, for formats of 8 bits alone, the largest finite value; an
 * infinity saturates too. f4e2m1fn, which has no NaN, always saturates, and NaN becomes 0. Integers
 * wrap. Floating point to integer truncates towards zero and saturates at the ends of the type; NaN
 * gives 0. Anything to bool is x != 0 (NaN: true). */
#ifndef TW_IR_SCALAR_H
#define TW_IR_SCALAR_H

#include "tilewright/ir.h"

/* One number: `real` when the element type is floating point (every one is exact in a double),
 * else `integer` (u64 as its bits, bool as 0 or 1). */
typedef union tw_number {
    double real;
    int64_t integer;
} tw_number;

/* Element i of row-major data; those below 8 bits are packed low first. Not for strings. */
tw_number tw_scalar_load(tw_elem elem, const void *data, size_t i);
/* Stores a number that is one of the element type already. */
void tw_scalar_store(tw_elem elem, void *data, size_t i, tw_number value);

/* The number as another element type. */
tw_number tw_scalar_convert(tw_number value, tw_elem from, tw_elem to, bool saturate);
/* `count` elements from one type to another. */
void tw_scalar_convert_all(tw_elem from, const void *source, tw_elem to, void *target, size_t count,
                           bool saturate);

/* The nearest double that is a value of the floating-point type. */
double tw_scalar_round(tw_elem elem, double value);
/* The integer reduced to the width of the integer type (bool: != 0). */
int64_t tw_scalar_wrap(tw_elem elem, int64_t value);
/* The floating-point value as that integer type. */
int64_t tw_scalar_truncate(tw_elem elem, double value);
/* Whether `saturate` makes a difference for the element type. */
bool tw_scalar_saturates(tw_elem elem);
/* Smallest and largest value, infinities included where there are some. */
tw_number tw_scalar_lowest(tw_elem elem);
tw_number tw_scalar_highest(tw_elem elem);

#endif
