/* elem_data.h: single elements of constant data. An element is handled as its bits, zero-extended
 * to 64. */
#ifndef TW_IR_ELEM_DATA_H
#define TW_IR_ELEM_DATA_H

#include "tilewright/ir.h"

/* Element i of row-major little-endian data; those below 8 bits are packed low first. Not for
 * strings. */
uint64_t tw_elem_load(tw_elem elem, const void *data, size_t i);
/* Stores it. */
void tw_elem_store(tw_elem elem, void *data, size_t i, uint64_t bits);

/* Floating-point elements: the exact value, and the nearest element (ties to even; what is too
 * large becomes infinity or, where there is none, NaN). */
double tw_elem_to_double(tw_elem elem, uint64_t bits);
uint64_t tw_elem_from_double(tw_elem elem, double value);
/* Integers: sign-extended as the type says. */
int64_t tw_elem_to_int(tw_elem elem, uint64_t bits);

/* Bytes of `count` elements; false on overflow. */
bool tw_elem_bytes(tw_elem elem, uint64_t count, size_t *out);
/* The number of elements of a dense attribute; false when its type is not a static tensor or its
 * size is not that of the type. */
bool tw_dense_count(tw_attr attr, size_t *count);

#endif
