/* minifloat.c: conversion of small floating-point formats through integer steps of double. */
#include "base/minifloat.h"

#include <math.h>

/* Codes without sign. */
typedef struct codes {
    uint32_t sign, infinity, ones; /* sign bit; all exponent bits; those and all mantissa bits */
    uint32_t largest, overflow, nan;
} codes;

static codes codes_of(tw_minifloat f)
{
    codes c = {.sign = 1u << (f.mantissa_bits + f.exponent_bits),
               .infinity = ((1u << f.exponent_bits) - 1) << f.mantissa_bits};
    c.ones = c.infinity | ((1u << f.mantissa_bits) - 1);
    switch (f.kind) {
    case TW_MINIFLOAT_IEEE:
        c.largest = c.infinity - 1;
        c.overflow = c.infinity;
        c.nan = c.infinity | 1u << (f.mantissa_bits - 1);
        break;
    case TW_MINIFLOAT_FN:
        c.largest = c.ones - 1;
        c.overflow = c.nan = c.ones;
        break;
    case TW_MINIFLOAT_FNUZ:
        c.largest = c.ones;
        c.overflow = c.nan = c.sign;
        break;
    case TW_MINIFLOAT_FINITE:
        c.largest = c.overflow = c.ones;
        break;
    }
    return c;
}

static int bias(tw_minifloat f)
{
    return (1 << (f.exponent_bits - 1)) - 1 + (f.kind == TW_MINIFLOAT_FNUZ);
}

static bool is_special(tw_minifloat f, const codes *c, uint32_t bits)
{
    switch (f.kind) {
    case TW_MINIFLOAT_IEEE:
        return (bits & c->infinity) == c->infinity;
    case TW_MINIFLOAT_FN:
        return (bits & c->ones) == c->ones;
    case TW_MINIFLOAT_FNUZ:
        return bits == c->sign;
    default:
        return false;
    }
}

double tw_minifloat_decode(tw_minifloat f, uint32_t bits)
{
    codes c = codes_of(f);
    uint32_t mantissa = bits & ((1u << f.mantissa_bits) - 1);
    uint32_t exponent = (bits & c.infinity) >> f.mantissa_bits;
    double sign = bits & c.sign ? -1.0 : 1.0;
    if (is_special(f, &c, bits))
        return (bits & c.ones) == c.infinity ? sign * INFINITY : copysign(NAN, sign);
    if (!exponent)
        return sign * ldexp(mantissa, 1 - bias(f) - (int)f.mantissa_bits);
    return sign *
           ldexp(mantissa | 1u << f.mantissa_bits, (int)exponent - bias(f) - (int)f.mantissa_bits);
}

/* The code of a number that is not negative. */
static uint32_t encode_magnitude(tw_minifloat f, const codes *c, double magnitude)
{
    int exponent, top = (int)(c->infinity >> f.mantissa_bits);
    if (magnitude == 0)
        return 0;
    if (isinf(magnitude))
        return c->overflow;
    frexp(magnitude, &exponent); /* magnitude = [0.5, 1) * 2^exponent */
    int lowest = 1 - bias(f);
    int e = exponent - 1 < lowest ? lowest : exponent - 1;
    if (e > top - bias(f))
        return c->overflow;
    /* In units of the last place; a mantissa that rounds up to the next power of two carries into
     * the exponent field by itself. */
    double units = nearbyint(ldexp(magnitude, (int)f.mantissa_bits - e));
    uint32_t code = ((uint32_t)(e - lowest) << f.mantissa_bits) + (uint32_t)units;
    return code > c->largest ? c->overflow : code;
}

uint32_t tw_minifloat_encode(tw_minifloat f, double value)
{
    codes c = codes_of(f);
    uint32_t code = isnan(value) ? c.nan : encode_magnitude(f, &c, fabs(value));
    bool plain = (f.kind == TW_MINIFLOAT_FNUZ && (code == 0 || code == c.nan)) ||
                 (f.kind == TW_MINIFLOAT_FINITE && isnan(value));
    return signbit(value) && !plain ? code | c.sign : code;
}

enum { E8M0_BIAS = 127, E8M0_NAN = 255 };

double tw_e8m0_decode(uint32_t bits)
{
    return bits == E8M0_NAN ? (double)NAN : ldexp(1, (int)bits - E8M0_BIAS);
}

uint32_t tw_e8m0_encode(double value)
{
    int exponent;
    if (isnan(value) || isinf(value) || value < 0)
        return E8M0_NAN;
    double fraction = frexp(value, &exponent); /* [0.5, 1), 0 for 0 */
    int code = exponent - 1 + E8M0_BIAS + (fraction >= 0.75);
    return fraction == 0 || code < 0 ? 0 : code > E8M0_NAN ? E8M0_NAN : (uint32_t)code;
}
