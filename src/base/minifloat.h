/* minifloat.h: floating-point formats of at most 16 bits, as double and back. */
#ifndef TW_BASE_MINIFLOAT_H
#define TW_BASE_MINIFLOAT_H

#include <stdbool.h>
#include <stdint.h>

/* Sign, exponent and mantissa fields, IEEE-like; `finite_only` formats (OCP's "FN") have no
 * infinities and one NaN: all bits of exponent and mantissa set. */
typedef struct tw_minifloat {
    unsigned exponent_bits, mantissa_bits;
    bool finite_only;
} tw_minifloat;

static const tw_minifloat tw_minifloat_f16 = {5, 10, false};
static const tw_minifloat tw_minifloat_bf16 = {8, 7, false};
static const tw_minifloat tw_minifloat_f8e4m3fn = {4, 3, true};
static const tw_minifloat tw_minifloat_f8e5m2 = {5, 2, false};

/* The exact value. A NaN's sign and payload are lost. */
double tw_minifloat_decode(tw_minifloat format, uint32_t bits);

/* The nearest value, ties to even. What is too large becomes infinity, or NaN where there is
 * none; NaN becomes the quiet NaN of the same sign. */
uint32_t tw_minifloat_encode(tw_minifloat format, double value);

#endif
