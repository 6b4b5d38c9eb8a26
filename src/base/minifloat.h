/* minifloat.h: floating-point formats of at most 16 bits, as double and back. */
#ifndef TW_BASE_MINIFLOAT_H
#define TW_BASE_MINIFLOAT_H

#include <stdbool.h>
#include <stdint.h>

/* What is beyond the numbers. */
typedef enum tw_minifloat_kind {
    TW_MINIFLOAT_IEEE,   /* the largest exponent means infinity and NaNs */
    TW_MINIFLOAT_FN,     /* OCP: no infinities; NaN has all bits of exponent and mantissa set */
    TW_MINIFLOAT_FNUZ,   /* neither infinities nor -0, whose code is NaN; the bias is one more */
    TW_MINIFLOAT_FINITE, /* numbers alone */
} tw_minifloat_kind;

/* Sign, exponent and mantissa fields. */
typedef struct tw_minifloat {
    unsigned exponent_bits, mantissa_bits;
    tw_minifloat_kind kind;
} tw_minifloat;

static const tw_minifloat tw_minifloat_f16 = {5, 10, TW_MINIFLOAT_IEEE};
static const tw_minifloat tw_minifloat_bf16 = {8, 7, TW_MINIFLOAT_IEEE};
static const tw_minifloat tw_minifloat_f8e4m3fn = {4, 3, TW_MINIFLOAT_FN};
static const tw_minifloat tw_minifloat_f8e5m2 = {5, 2, TW_MINIFLOAT_IEEE};
static const tw_minifloat tw_minifloat_f8e4m3fnuz = {4, 3, TW_MINIFLOAT_FNUZ};
static const tw_minifloat tw_minifloat_f8e5m2fnuz = {5, 2, TW_MINIFLOAT_FNUZ};
static const tw_minifloat tw_minifloat_f4e2m1fn = {2, 1, TW_MINIFLOAT_FINITE};

/* The exact value. A NaN's sign and payload are lost. */
double tw_minifloat_decode(tw_minifloat format, uint32_t bits);

/* The nearest value, ties to even. What is too large becomes infinity, or NaN where there is none,
 * or the largest number where there is no NaN either; NaN becomes the quiet NaN of the same sign
 * if there is one, or 0 where there is no NaN. */
uint32_t tw_minifloat_encode(tw_minifloat format, double value);

/* The same for powers of two without sign, 2^(code - 127) and NaN for 255 (OCP's scale format
 * E8M0). What is not above 0 becomes the least power, negative numbers NaN. A tie goes up. */
double tw_e8m0_decode(uint32_t bits);
uint32_t tw_e8m0_encode(double value);

#endif
