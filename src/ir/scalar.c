/* scalar.c: conversions between element types, by way of their bits (elem_data.h). */
#include "ir/scalar.h"

#include "ir/elem_data.h"

#include <math.h>
#include <string.h>

tw_number tw_scalar_load(tw_elem elem, const void *data, size_t i)
{
    if (elem == TW_F32) {
        float value;
        memcpy(&value, (const char *)data + i * sizeof value, sizeof value);
        return (tw_number){.real = value};
    }
    uint64_t bits = tw_elem_load(elem, data, i);
    if (tw_elem_is_float(elem))
        return (tw_number){.real = tw_elem_to_double(elem, bits)};
    if (elem == TW_BOOL)
        return (tw_number){.integer = bits != 0};
    return (tw_number){.integer = tw_elem_to_int(elem, bits)};
}

void tw_scalar_store(tw_elem elem, void *data, size_t i, tw_number value)
{
    if (tw_elem_is_float(elem))
        tw_elem_store(elem, data, i, tw_elem_from_double(elem, value.real));
    else
        tw_elem_store(elem, data, i, (uint64_t)value.integer);
}

double tw_scalar_round(tw_elem elem, double value)
{
    if (elem == TW_F64)
        return value;
    if (elem == TW_F32)
        return (float)value;
    return tw_elem_to_double(elem, tw_elem_from_double(elem, value));
}

int64_t tw_scalar_wrap(tw_elem elem, int64_t value)
{
    unsigned bits = tw_elem_bits(elem);
    if (elem == TW_BOOL)
        return value != 0;
    if (bits == 64)
        return value;
    uint64_t mask = ((uint64_t)1 << bits) - 1;
    return tw_elem_to_int(elem, (uint64_t)value & mask);
}

/* The largest finite value of a format of at most 8 bits. */
static double largest_small(tw_elem elem)
{
    switch (elem) {
    case TW_F8E4M3FN:
        return 448;
    case TW_F8E4M3FNUZ:
        return 240;
    case TW_F8E8M0FNU:
        return 0x1p127;
    case TW_F4E2M1FN:
        return 6;
    default:
        return 57344;
    }
}

bool tw_scalar_saturates(tw_elem elem)
{
    return tw_elem_is_float(elem) && tw_elem_bits(elem) == 8;
}

static double highest_float(tw_elem elem)
{
    bool small = tw_elem_bits(elem) <= 8 && elem != TW_F8E5M2;
    return small ? largest_small(elem) : INFINITY;
}

tw_number tw_scalar_lowest(tw_elem elem)
{
    if (elem == TW_F8E8M0FNU)
        return (tw_number){.real = 0x1p-127};
    if (tw_elem_is_float(elem))
        return (tw_number){.real = -highest_float(elem)};
    if (!tw_elem_is_signed(elem))
        return (tw_number){.integer = 0};
    return (tw_number){.integer = (int64_t)(UINT64_MAX << (tw_elem_bits(elem) - 1))};
}

tw_number tw_scalar_highest(tw_elem elem)
{
    unsigned bits = tw_elem_bits(elem);
    if (tw_elem_is_float(elem))
        return (tw_number){.real = highest_float(elem)};
    if (elem == TW_BOOL)
        return (tw_number){.integer = 1};
    return (tw_number){.integer = (int64_t)(UINT64_MAX >> (64 - bits + tw_elem_is_signed(elem)))};
}

int64_t tw_scalar_truncate(tw_elem elem, double value)
{
    if (elem == TW_BOOL)
        return value != 0; /* NaN != 0 */
    if (isnan(value))
        return 0;
    unsigned bits = tw_elem_bits(elem) - tw_elem_is_signed(elem);
    if (value >= ldexp(1, (int)bits)) /* the largest value plus one: exact */
        return tw_scalar_highest(elem).integer;
    if (value <= (tw_elem_is_signed(elem) ? -ldexp(1, (int)bits) : 0))
        return tw_scalar_lowest(elem).integer;
    return elem == TW_U64 ? (int64_t)(uint64_t)value : (int64_t)value;
}

/* An integer as floating point, rounded once. */
static double real_of(int64_t value, tw_elem from, tw_elem to)
{
    bool is_unsigned = from == TW_U64;
    if (to == TW_F64)
        return is_unsigned ? (double)(uint64_t)value : (double)value;
    if (to == TW_F32)
        return is_unsigned ? (float)(uint64_t)value : (float)value;
    /* Below 2^53 double is exact; above, these formats keep at most 11 bits, and a sticky low bit
     * keeps ties apart. */
    uint64_t magnitude = !is_unsigned && value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    uint64_t lost = magnitude & 0xfff;
    double exact =
        (double)(magnitude - lost) + (magnitude >> 52 ? (lost ? 2048 : 0) : (double)lost);
    return tw_scalar_round(to, !is_unsigned && value < 0 ? -exact : exact);
}

static double saturated(tw_elem elem, double value)
{
    double largest = largest_small(elem);
    return value > largest ? largest : value < -largest ? -largest : value;
}

tw_number tw_scalar_convert(tw_number value, tw_elem from, tw_elem to, bool saturate)
{
    bool clamps = saturate && tw_scalar_saturates(to);
    if (tw_elem_is_float(from) && tw_elem_is_float(to)) {
        double clamped = clamps ? saturated(to, value.real) : value.real;
        return (tw_number){.real = tw_scalar_round(to, clamped)};
    }
    if (tw_elem_is_float(from))
        return (tw_number){.integer = tw_scalar_truncate(to, value.real)};
    if (!tw_elem_is_float(to))
        return (tw_number){.integer = tw_scalar_wrap(to, value.integer)};
    if (clamps) {
        double real = from == TW_U64 ? (double)(uint64_t)value.integer : (double)value.integer;
        return (tw_number){.real = tw_scalar_round(to, saturated(to, real))};
    }
    return (tw_number){.real = real_of(value.integer, from, to)};
}

void tw_scalar_convert_all(tw_elem from, const void *source, tw_elem to, void *target, size_t count,
                           bool saturate)
{
    for (size_t i = 0; i < count; i++)
        tw_scalar_store(to, target, i,
                        tw_scalar_convert(tw_scalar_load(from, source, i), from, to, saturate));
}
