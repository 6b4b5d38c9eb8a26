/* Tests of src/ir/scalar: every value of the small formats, rounding, conversions. */
#include "ir/scalar.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct format {
    tw_elem elem;
    int exponent_bits, mantissa_bits;
    enum { IEEE, FN, FNUZ, FINITE } kind;
} format;

static const format formats[] = {
    {TW_F16, 5, 10, IEEE},       {TW_BF16, 8, 7, IEEE},       {TW_F8E4M3FN, 4, 3, FN},
    {TW_F8E5M2, 5, 2, IEEE},     {TW_F8E4M3FNUZ, 4, 3, FNUZ}, {TW_F8E5M2FNUZ, 5, 2, FNUZ},
    {TW_F4E2M1FN, 2, 1, FINITE},
};

/* The value of bits, computed independently of the library. */
static double reference(format f, unsigned bits)
{
    int bias = (1 << (f.exponent_bits - 1)) - 1 + (f.kind == FNUZ);
    unsigned ones = (1u << f.exponent_bits) - 1, mantissa = bits & ((1u << f.mantissa_bits) - 1);
    unsigned exponent = bits >> f.mantissa_bits & ones;
    double sign = bits >> (f.exponent_bits + f.mantissa_bits) ? -1 : 1;
    double fraction = mantissa / pow(2, f.mantissa_bits);
    if (exponent == ones && f.kind == FN && mantissa == (1u << f.mantissa_bits) - 1)
        return NAN;
    if (f.kind == FNUZ && bits == 0x80)
        return NAN;
    if (exponent == ones && f.kind == IEEE)
        return mantissa ? NAN : sign * INFINITY;
    return exponent ? sign * (1 + fraction) * pow(2, (int)exponent - bias)
                    : sign * fraction * pow(2, 1 - bias);
}

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

static void every_small_value_loads_and_stores(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        format f = formats[i];
        unsigned bits = tw_elem_bits(f.elem);
        for (unsigned code = 0; code < 1u << bits; code++) {
            uint16_t data = (uint16_t)code, back = 0;
            tw_number v = tw_scalar_load(f.elem, &data, 0);
            assert_true(same(v.real, reference(f, code)));
            tw_scalar_store(f.elem, &back, 0, v);
            if (!isnan(v.real))
                assert_int_equal(back, data);
            assert_true(same(tw_scalar_round(f.elem, v.real), v.real));
        }
    }
}

/* Between each two neighbours: the middle goes to the even one, its surroundings to the nearest. */
static void rounding_is_to_nearest_even(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        format f = formats[i];
        unsigned half = 1u << (tw_elem_bits(f.elem) - 1);
        for (unsigned code = 0; code + 1 < half; code++) {
            double low = reference(f, code), high = reference(f, code + 1);
            if (!isfinite(low) || !isfinite(high))
                continue;
            double middle = (low + high) / 2;
            double even = code % 2 ? high : low;
            for (int sign = -1; sign <= 1; sign += 2) {
                if (sign < 0 && f.kind == FNUZ && code == 0)
                    continue; /* has no -0 */
                assert_true(same(tw_scalar_round(f.elem, sign * middle), sign * even));
                double below = nextafter(middle, 0), above = nextafter(middle, INFINITY);
                assert_true(same(tw_scalar_round(f.elem, sign * below), sign * low));
                assert_true(same(tw_scalar_round(f.elem, sign * above), sign * high));
            }
        }
    }
}

static double to_float(tw_elem elem, double value, bool saturate)
{
    return tw_scalar_convert((tw_number){.real = value}, TW_F64, elem, saturate).real;
}

static void overflow_saturates_only_when_asked(void **state)
{
    (void)state;
    assert_true(isnan(to_float(TW_F8E4M3FN, 465, false)));
    assert_true(to_float(TW_F8E4M3FN, 464, false) == 448); /* the tie goes to the even 448 */
    assert_true(to_float(TW_F8E4M3FN, 465, true) == 448);
    assert_true(to_float(TW_F8E4M3FN, -INFINITY, true) == -448);
    assert_true(isnan(to_float(TW_F8E4M3FN, NAN, true)));
    assert_true(isinf(to_float(TW_F8E5M2, 61440, false)));
    assert_true(to_float(TW_F8E5M2, 61439, false) == 57344);
    assert_true(to_float(TW_F8E5M2, 1e9, true) == 57344);
    assert_true(isinf(to_float(TW_F8E5M2, INFINITY, false)));
    assert_true(isinf(to_float(TW_F16, 65520, true))); /* saturate is for float8 alone */
    assert_true(to_float(TW_F16, 65519, false) == 65504);
    assert_true(isinf(to_float(TW_F32, 1e39, false)));
    assert_true(to_float(TW_F8E4M3FNUZ, 1e6, true) == 240);
    assert_true(isnan(to_float(TW_F8E4M3FNUZ, -1e6, false)));
    assert_true(same(to_float(TW_F8E5M2FNUZ, -1e-9, true), 0));
    assert_true(to_float(TW_F4E2M1FN, -INFINITY, false) == -6);
    assert_true(same(to_float(TW_F4E2M1FN, NAN, false), 0));
}

/* A tie goes up. */
static void powers_of_two(void **state)
{
    (void)state;
    static const struct {
        double x, y;
    } cases[] = {{0, 0x1p-127},
                 {-0.0, 0x1p-127},
                 {1e-40, 0x1p-127},
                 {0x1.7p-127, 0x1p-127},
                 {0x1.8p-127, 0x1p-126},
                 {1, 1},
                 {1.49, 1},
                 {1.5, 2},
                 {3, 4},
                 {0x1.7p127, 0x1p127},
                 {0x1.8p127, NAN},
                 {-1, NAN},
                 {INFINITY, NAN},
                 {NAN, NAN}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(same(to_float(TW_F8E8M0FNU, cases[i].x, false), cases[i].y));
    assert_true(to_float(TW_F8E8M0FNU, INFINITY, true) == 0x1p127);
}

static int64_t to_int(tw_elem elem, double value)
{
    return tw_scalar_convert((tw_number){.real = value}, TW_F64, elem, false).integer;
}

static void float_to_int_truncates_and_saturates(void **state)
{
    (void)state;
    assert_int_equal(to_int(TW_I8, -1.9), -1);
    assert_int_equal(to_int(TW_I8, 127.9), 127);
    assert_int_equal(to_int(TW_I8, 128), 127);
    assert_int_equal(to_int(TW_I8, -1e30), -128);
    assert_int_equal(to_int(TW_U8, -0.9), 0);
    assert_int_equal(to_int(TW_U8, -5), 0);
    assert_int_equal(to_int(TW_U8, 255.5), 255);
    assert_int_equal(to_int(TW_U8, 256), 255);
    assert_int_equal(to_int(TW_I4, 9), 7);
    assert_int_equal(to_int(TW_U4, 16), 15);
    assert_int_equal(to_int(TW_I64, 1e19), INT64_MAX);
    assert_int_equal(to_int(TW_I64, -1e19), INT64_MIN);
    assert_int_equal((uint64_t)to_int(TW_U64, 1e19), 10000000000000000000u);
    assert_int_equal((uint64_t)to_int(TW_U64, 1e20), UINT64_MAX);
    assert_int_equal(to_int(TW_I32, NAN), 0);
    assert_int_equal(to_int(TW_BOOL, 0.1), 1);
    assert_int_equal(to_int(TW_BOOL, -0.0), 0);
    assert_int_equal(to_int(TW_BOOL, NAN), 1);
}

static int64_t wrapped(tw_elem to, int64_t value)
{
    return tw_scalar_convert((tw_number){.integer = value}, TW_I64, to, false).integer;
}

static void integers_wrap(void **state)
{
    (void)state;
    assert_int_equal(wrapped(TW_I8, 200), -56);
    assert_int_equal(wrapped(TW_U8, -1), 255);
    assert_int_equal(wrapped(TW_I4, 8), -8);
    assert_int_equal(wrapped(TW_I2, 3), -1);
    assert_int_equal(wrapped(TW_U2, -2), 2);
    assert_int_equal(wrapped(TW_U4, -1), 15);
    assert_int_equal(wrapped(TW_I32, INT64_MAX), -1);
    assert_int_equal(wrapped(TW_BOOL, 256), 1);
    for (int64_t v = -300; v < 300; v++) {
        assert_int_equal(wrapped(TW_I8, v), (int8_t)v);
        assert_int_equal(wrapped(TW_U16, v), (uint16_t)v);
    }
}

static double int_to_float(tw_elem from, int64_t value, tw_elem to)
{
    return tw_scalar_convert((tw_number){.integer = value}, from, to, false).real;
}

static void int_to_float_rounds_once(void **state)
{
    (void)state;
    int64_t above_tie = (int64_t)((1u << 24) + 1); /* 2^24 + 1: a tie in f32 */
    assert_true(int_to_float(TW_I64, above_tie, TW_F32) == 16777216);
    assert_true(int_to_float(TW_I64, (above_tie << 32) + 1, TW_F32) == 16777218.0 * 4294967296.0);
    assert_true(int_to_float(TW_U64, -1, TW_F32) == 18446744073709551616.0);
    assert_true(int_to_float(TW_U64, -1, TW_F64) == 18446744073709551616.0);
    /* 257 * 2^47 is a tie in bf16; one more is not, although double cannot tell them apart. */
    int64_t tie = (int64_t)257 << 54;
    assert_true(int_to_float(TW_I64, tie, TW_BF16) == ldexp(256, 54));
    assert_true(int_to_float(TW_I64, tie + 1, TW_BF16) == ldexp(258, 54));
    assert_true(int_to_float(TW_I64, -tie - 1, TW_BF16) == -ldexp(258, 54));
    assert_true(isinf(int_to_float(TW_I32, 70000, TW_F16)));
}

static void four_bits_are_packed_low_first(void **state)
{
    (void)state;
    unsigned char data[2] = {0x2f, 0x81};
    const int64_t as_signed[] = {-1, 2, 1, -8}, as_unsigned[] = {15, 2, 1, 8};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(tw_scalar_load(TW_I4, data, i).integer, as_signed[i]);
        assert_int_equal(tw_scalar_load(TW_U4, data, i).integer, as_unsigned[i]);
    }
    tw_scalar_store(TW_I4, data, 1, (tw_number){.integer = -3});
    assert_int_equal(data[0], 0xdf);
    float wide[4];
    tw_scalar_convert_all(TW_I4, data, TW_F32, wide, 4, false);
    assert_true(wide[0] == -1 && wide[1] == -3 && wide[2] == 1 && wide[3] == -8);
}

static void extremes(void **state)
{
    (void)state;
    assert_int_equal(tw_scalar_lowest(TW_I8).integer, -128);
    assert_int_equal(tw_scalar_highest(TW_I8).integer, 127);
    assert_int_equal(tw_scalar_highest(TW_U8).integer, 255);
    assert_int_equal(tw_scalar_lowest(TW_I64).integer, INT64_MIN);
    assert_int_equal((uint64_t)tw_scalar_highest(TW_U64).integer, UINT64_MAX);
    assert_int_equal(tw_scalar_lowest(TW_I4).integer, -8);
    assert_true(tw_scalar_lowest(TW_F16).real == -INFINITY);
    assert_true(tw_scalar_highest(TW_F8E4M3FN).real == 448);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_value_loads_and_stores),
        cmocka_unit_test(rounding_is_to_nearest_even),
        cmocka_unit_test(overflow_saturates_only_when_asked),
        cmocka_unit_test(powers_of_two),
        cmocka_unit_test(float_to_int_truncates_and_saturates),
        cmocka_unit_test(integers_wrap),
        cmocka_unit_test(int_to_float_rounds_once),
        cmocka_unit_test(four_bits_are_packed_low_first),
        cmocka_unit_test(extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
