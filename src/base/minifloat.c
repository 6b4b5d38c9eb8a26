/* minifloat.c: conversion of small floating-point formats through integer steps of double. */
#include "base/minifloat.h"

#include <math.h>

static int bias(tw_minifloat f)
{
    return (1 << (f.exponent_bits - 1)) - 1;
}

double tw_minifloat_decode(tw_minifloat f, uint32_t bits)
{
    uint32_t mantissa = bits & ((1u << f.mantissa_bits) - 1);
    uint32_t top = (1u << f.exponent_bits) - 1;
    uint32_t exponent = bits >> f.mantissa_bits & top;
    double sign = bits >> (f.mantissa_bits + f.exponent_bits) & 1 ? -1.0 : 1.0;
    bool special = exponent == top && (!f.finite_only || mantissa == (1u << f.mantissa_bits) - 1);
    if (special)
        return mantissa ? copysign(NAN, sign) : sign * INFINITY;
    if (!exponent)
        return sign * ldexp(mantissa, 1 - bias(f) - (int)f.mantissa_bits);
    return sign *
           ldexp(mantissa | 1u << f.mantissa_bits, (int)exponent - bias(f) - (int)f.mantissa_bits);
}

uint32_t tw_minifloat_encode(tw_minifloat f, double value)
{
    uint32_t sign = signbit(value) ? 1u << (f.mantissa_bits + f.exponent_bits) : 0;
    uint32_t infinity = ((1u << f.exponent_bits) - 1) << f.mantissa_bits;
    uint32_t all_ones = infinity | ((1u << f.mantissa_bits) - 1);
    uint32_t nan = f.finite_only ? all_ones : infinity | 1u << (f.mantissa_bits - 1);
    uint32_t overflow = f.finite_only ? all_ones : infinity;
    double magnitude = fabs(value);
    if (isnan(value))
        return sign | nan;
    if (isinf(value))
        return sign | overflow;
    if (magnitude == 0)
        return sign;
    int exponent;
    frexp(magnitude, &exponent); /* magnitude = [0.5, 1) * 2^exponent */
    int lowest = 1 - bias(f);
    int e = exponent - 1 < lowest ? lowest : exponent - 1;
    /* In units of the last place; a mantissa that rounds up to the next power of two carries into
     * the exponent field by itself. */
    double units = nearbyint(ldexp(magnitude, (int)f.mantissa_bits - e));
    if (e > bias(f) + 1)
        return sign | overflow;
    uint64_t field = (uint64_t)(e - lowest) << f.mantissa_bits;
    uint64_t bits = field + (uint64_t)units;
    return bits >= (f.finite_only ? all_ones : infinity) ? sign | overflow : sign | (uint32_t)bits;
}
