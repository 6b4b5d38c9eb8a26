/* cast.c: conversion between element types.
 *
 * bf16 and the 8-bit formats have no instructions to rely on: they are taken apart and put together
 * as integers, rounding to nearest even. ir/scalar.h has the exact meaning of all conversions. */
#include "codegen/llvm/cg.h"

#include "ir/scalar.h"

#include <math.h>

static LLVMTypeRef like(LLVMTypeRef t, LLVMValueRef v)
{
    return tw_cg_like(t, LLVMTypeOf(v));
}

static LLVMValueRef as(tw_cg *cg, LLVMTypeRef t, LLVMValueRef v)
{
    return LLVMBuildBitCast(cg->b, v, like(t, v), "");
}

static LLVMValueRef int_like(LLVMValueRef v, int64_t value)
{
    return tw_cg_int(LLVMTypeOf(v), value);
}

/* An integer below 8 bits, which is kept in 8. */
static bool is_narrow(tw_elem e)
{
    return tw_elem_is_int(e) && tw_elem_bits(e) < 8;
}

/* ---- Small floating point to f32: exact ---- */

/* A format of at most 8 bits by its number of mantissa bits, its bias, and codes: the sign bit; the
 * largest number, what overflow gives and NaN, all without sign. */
typedef struct small_float {
    unsigned mantissa;
    int bias, sign;
    int largest, overflow, nan;
} small_float;
static const small_float small_floats[TW_ELEM_COUNT] = {
    [TW_F8E4M3FN] = {3, 7, 0x80, 0x7e, 0x7f, 0x7f},
    [TW_F8E5M2] = {2, 15, 0x80, 0x7b, 0x7c, 0x7e},
    [TW_F8E4M3FNUZ] = {3, 8, 0x80, 0x7f, 0x80, 0x80},
    [TW_F8E5M2FNUZ] = {2, 16, 0x80, 0x7f, 0x80, 0x80},
    [TW_F4E2M1FN] = {1, 1, 8, 7, 7, 0},
};

/* Exponent and mantissa go to f32's places; a product corrects the bias, denormals included. */
static LLVMValueRef small_to_f32(tw_cg *cg, LLVMValueRef v, const small_float *s)
{
    LLVMValueRef wide = LLVMBuildZExt(cg->b, v, like(cg->i32, v), "");
    LLVMValueRef magnitude = LLVMBuildAnd(cg->b, wide, int_like(wide, s->sign - 1), "");
    LLVMValueRef sign = LLVMBuildAnd(cg->b, wide, int_like(wide, s->sign), "");
    sign = LLVMBuildShl(cg->b, sign, int_like(wide, s->sign == 8 ? 28 : 24), "");
    LLVMValueRef bits = LLVMBuildShl(cg->b, magnitude, int_like(wide, 23 - s->mantissa), "");
    LLVMValueRef f = as(cg, cg->f32, bits);
    f = LLVMBuildFMul(cg->b, f, tw_cg_real(LLVMTypeOf(f), ldexp(1, 127 - s->bias)), "");
    bits = as(cg, cg->i32, f);
    if (s->nan) {
        LLVMValueRef code = s->nan == s->sign ? wide : magnitude;
        LLVMValueRef is_nan = LLVMBuildICmp(cg->b, LLVMIntEQ, code, int_like(wide, s->nan), "");
        bits = LLVMBuildSelect(cg->b, is_nan, int_like(wide, 0x7fc00000), bits, "");
    }
    return as(cg, cg->f32, LLVMBuildOr(cg->b, bits, sign, ""));
}

/* The code is f32's exponent; 0 is a denormal there. */
static LLVMValueRef e8m0_to_f32(tw_cg *cg, LLVMValueRef v)
{
    LLVMValueRef wide = LLVMBuildZExt(cg->b, v, like(cg->i32, v), "");
    LLVMValueRef bits = LLVMBuildShl(cg->b, wide, int_like(wide, 23), "");
    LLVMValueRef least = LLVMBuildICmp(cg->b, LLVMIntEQ, wide, int_like(wide, 0), "");
    LLVMValueRef nan = LLVMBuildICmp(cg->b, LLVMIntEQ, wide, int_like(wide, 255), "");
    bits = LLVMBuildSelect(cg->b, least, int_like(wide, 0x400000), bits, "");
    return as(cg, cg->f32, LLVMBuildSelect(cg->b, nan, int_like(wide, 0x7fc00000), bits, ""));
}

static LLVMValueRef widen_to_f32(tw_cg *cg, LLVMValueRef v, tw_elem from)
{
    if (from == TW_F8E8M0FNU)
        return e8m0_to_f32(cg, v);
    if (small_floats[from].sign && from != TW_F8E5M2)
        return small_to_f32(cg, v, &small_floats[from]);
    if (from == TW_BF16) {
        LLVMValueRef wide = LLVMBuildZExt(cg->b, v, like(cg->i32, v), "");
        return as(cg, cg->f32, LLVMBuildShl(cg->b, wide, int_like(wide, 16), ""));
    }
    if (from == TW_F8E5M2) { /* the upper half of an f16 */
        LLVMValueRef wide = LLVMBuildZExt(cg->b, v, like(cg->i16, v), "");
        v = as(cg, cg->half, LLVMBuildShl(cg->b, wide, int_like(wide, 8), ""));
    }
    return LLVMBuildFPExt(cg->b, v, like(cg->f32, v), "");
}

/* ---- f32 to small floating point: nearest, ties to even ---- */

/* bits + half of the last place that stays (less one for an even one), for dropping `drop` bits. */
static LLVMValueRef round_bits(tw_cg *cg, LLVMValueRef bits, unsigned drop)
{
    LLVMValueRef last = LLVMBuildLShr(cg->b, bits, int_like(bits, drop), "");
    LLVMValueRef odd = LLVMBuildAnd(cg->b, last, int_like(bits, 1), "");
    LLVMValueRef half = int_like(bits, ((int64_t)1 << (drop - 1)) - 1);
    return LLVMBuildAdd(cg->b, LLVMBuildAdd(cg->b, bits, half, ""), odd, "");
}

static LLVMValueRef f32_to_bf16(tw_cg *cg, LLVMValueRef v)
{
    LLVMValueRef bits = as(cg, cg->i32, v), nan = LLVMBuildFCmp(cg->b, LLVMRealUNO, v, v, "");
    LLVMValueRef rounded = round_bits(cg, bits, 16), quiet = int_like(bits, 0x400000);
    LLVMValueRef out =
        LLVMBuildSelect(cg->b, nan, LLVMBuildOr(cg->b, bits, quiet, ""), rounded, "");
    out = LLVMBuildLShr(cg->b, out, int_like(bits, 16), "");
    return LLVMBuildTrunc(cg->b, out, like(cg->i16, v), "");
}

static LLVMValueRef f32_to_small(tw_cg *cg, LLVMValueRef v, const small_float *f, bool saturate)
{
    LLVMValueRef magnitude = tw_cg_intrinsic1(cg, "llvm.fabs", v);
    LLVMValueRef bits = as(cg, cg->i32, magnitude);
    unsigned drop = 23 - f->mantissa;
    LLVMValueRef normal =
        LLVMBuildLShr(cg->b, round_bits(cg, bits, drop), int_like(bits, drop), "");
    normal =
        LLVMBuildSub(cg->b, normal, int_like(bits, (int64_t)(127 - f->bias) << f->mantissa), "");
    /* A denormal is a count of the smallest one: added to the power of two whose last place that
     * is, it appears in the low bits, rounded. */
    LLVMTypeRef real = LLVMTypeOf(v);
    double unit = ldexp(1, 1 - f->bias - (int)f->mantissa);
    LLVMValueRef base = tw_cg_real(real, ldexp(unit, 23));
    LLVMValueRef sum = as(cg, cg->i32, LLVMBuildFAdd(cg->b, magnitude, base, ""));
    LLVMValueRef denormal = LLVMBuildSub(cg->b, sum, as(cg, cg->i32, base), "");
    LLVMValueRef small =
        LLVMBuildFCmp(cg->b, LLVMRealOLT, magnitude, tw_cg_real(real, ldexp(1, 1 - f->bias)), "");
    LLVMValueRef code = LLVMBuildSelect(cg->b, small, denormal, normal, "");
    LLVMValueRef over = LLVMBuildICmp(cg->b, LLVMIntSGT, code, int_like(bits, f->largest), "");
    code =
        LLVMBuildSelect(cg->b, over, int_like(bits, saturate ? f->largest : f->overflow), code, "");
    LLVMValueRef nan = LLVMBuildFCmp(cg->b, LLVMRealUNO, v, v, "");
    code = LLVMBuildSelect(cg->b, nan, int_like(bits, f->nan), code, "");
    LLVMValueRef all = as(cg, cg->i32, v);
    LLVMValueRef sign = LLVMBuildLShr(cg->b, all, int_like(bits, f->sign == 8 ? 28 : 24), "");
    sign = LLVMBuildAnd(cg->b, sign, int_like(bits, f->sign), "");
    LLVMValueRef none = int_like(bits, 0);
    if (f->nan == f->sign) /* 0 has no sign */
        sign =
            LLVMBuildSelect(cg->b, LLVMBuildICmp(cg->b, LLVMIntEQ, code, none, ""), none, sign, "");
    if (!f->nan)
        sign = LLVMBuildSelect(cg->b, nan, none, sign, "");
    return LLVMBuildTrunc(cg->b, LLVMBuildOr(cg->b, code, sign, ""), like(cg->i8, v), "");
}

/* The exponent, rounded up from halfway to the next power of two on; 0 is between two denormals. */
static LLVMValueRef f32_to_e8m0(tw_cg *cg, LLVMValueRef v, bool saturate)
{
    LLVMValueRef bits = as(cg, cg->i32, v);
    LLVMValueRef code = LLVMBuildAdd(cg->b, bits, int_like(bits, 0x400000), "");
    code = LLVMBuildLShr(cg->b, code, int_like(bits, 23), "");
    LLVMValueRef least = LLVMBuildICmp(cg->b, LLVMIntULT, bits, int_like(bits, 0x600000), "");
    code = LLVMBuildSelect(cg->b, least, int_like(bits, 0), code, "");
    LLVMValueRef top = int_like(bits, 255), large = saturate ? int_like(bits, 254) : top;
    LLVMValueRef over = LLVMBuildICmp(cg->b, LLVMIntUGE, code, top, "");
    code = LLVMBuildSelect(cg->b, over, large, code, "");
    LLVMValueRef zero = tw_cg_real(LLVMTypeOf(v), 0);
    LLVMValueRef bad = LLVMBuildFCmp(cg->b, LLVMRealULT, v, zero, "");
    LLVMValueRef none = LLVMBuildFCmp(cg->b, LLVMRealOEQ, v, zero, ""); /* of either sign */
    code = LLVMBuildSelect(cg->b, bad, top, code, "");
    code = LLVMBuildSelect(cg->b, none, int_like(bits, 0), code, "");
    return LLVMBuildTrunc(cg->b, code, like(cg->i8, v), "");
}

/* f64 to f32, rounded to odd when not exact, so that a second rounding to fewer bits comes out as
 * one would (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008). */
static LLVMValueRef f64_to_f32_odd(tw_cg *cg, LLVMValueRef v)
{
    LLVMValueRef near = LLVMBuildFPTrunc(cg->b, v, like(cg->f32, v), "");
    LLVMValueRef back = LLVMBuildFPExt(cg->b, near, LLVMTypeOf(v), "");
    LLVMValueRef exact = LLVMBuildFCmp(cg->b, LLVMRealUEQ, back, v, "");
    LLVMValueRef above = LLVMBuildFCmp(cg->b, LLVMRealOGT, tw_cg_intrinsic1(cg, "llvm.fabs", back),
                                       tw_cg_intrinsic1(cg, "llvm.fabs", v), "");
    LLVMValueRef bits = as(cg, cg->i32, near), one = int_like(bits, 1);
    LLVMValueRef down =
        LLVMBuildSub(cg->b, bits, LLVMBuildZExt(cg->b, above, LLVMTypeOf(bits), ""), "");
    LLVMValueRef odd = LLVMBuildOr(cg->b, down, one, "");
    return as(cg, cg->f32, LLVMBuildSelect(cg->b, exact, bits, odd, ""));
}

static LLVMValueRef narrow_float(tw_cg *cg, LLVMValueRef v, tw_elem from, tw_elem to, bool saturate)
{
    if (to == TW_F16)
        return LLVMBuildFPTrunc(cg->b, v, like(cg->half, v), "");
    if (from == TW_F64)
        v = f64_to_f32_odd(cg, v);
    if (to == TW_BF16)
        return f32_to_bf16(cg, v);
    if (to == TW_F8E8M0FNU)
        return f32_to_e8m0(cg, v, saturate);
    return f32_to_small(cg, v, &small_floats[to], saturate);
}

/* ---- Integers ---- */

LLVMValueRef tw_cg_cut(tw_cg *cg, LLVMValueRef v, tw_elem elem)
{
    LLVMValueRef unused = int_like(v, 8 - tw_elem_bits(elem));
    LLVMValueRef high = LLVMBuildShl(cg->b, v, unused, "");
    return tw_elem_is_int(elem) && tw_elem_is_signed(elem) ? LLVMBuildAShr(cg->b, high, unused, "")
                                                           : LLVMBuildLShr(cg->b, high, unused, "");
}

static LLVMValueRef cut(tw_cg *cg, LLVMValueRef v, tw_elem to)
{
    return is_narrow(to) ? tw_cg_cut(cg, v, to) : v;
}

static LLVMValueRef int_to_int(tw_cg *cg, LLVMValueRef v, tw_elem from, tw_elem to)
{
    LLVMTypeRef type = like(tw_cg_elem(cg, to), v);
    return cut(cg, LLVMBuildIntCast2(cg->b, v, type, tw_elem_is_signed(from), ""), to);
}

/* Saturates; NaN gives 0. Integers below 8 bits have their range cut first. */
static LLVMValueRef real_to_int(tw_cg *cg, LLVMValueRef v, tw_elem to)
{
    LLVMTypeRef real = LLVMTypeOf(v), type = like(tw_cg_elem(cg, to), v);
    bool is_f32 = tw_cg_scalar(real) == cg->f32, is_signed = tw_elem_is_signed(to);
    unsigned bits = tw_elem_bits(to) - is_signed;
    double low = is_signed ? -ldexp(1, (int)bits) : 0, over = ldexp(1, (int)bits);
    bool exact = bits <= (is_f32 ? 24 : 53); /* whether over - 1 is a number of the type */
    double high = exact ? over - 1 : is_f32 ? nextafterf((float)over, 0) : nextafter(over, 0);
    LLVMValueRef least = tw_cg_real(real, low), most = tw_cg_real(real, high), x = v;
    x = LLVMBuildSelect(cg->b, LLVMBuildFCmp(cg->b, LLVMRealOLT, x, least, ""), least, x, "");
    x = LLVMBuildSelect(cg->b, LLVMBuildFCmp(cg->b, LLVMRealOGT, x, most, ""), most, x, "");
    LLVMValueRef is_nan = LLVMBuildFCmp(cg->b, LLVMRealUNO, v, v, "");
    x = LLVMBuildSelect(cg->b, is_nan, LLVMConstNull(real), x, "");
    if (bits < 31) /* vectors convert to 32 bits in one instruction */
        return LLVMBuildTrunc(cg->b, LLVMBuildFPToSI(cg->b, x, like(cg->i32, v), ""), type, "");
    x = is_signed ? LLVMBuildFPToSI(cg->b, x, type, "") : LLVMBuildFPToUI(cg->b, x, type, "");
    LLVMValueRef beyond = LLVMBuildFCmp(cg->b, LLVMRealOGE, v, tw_cg_real(real, over), "");
    LLVMValueRef highest = tw_cg_int(type, tw_scalar_highest(to).integer);
    return exact ? x : LLVMBuildSelect(cg->b, beyond, highest, x, "");
}

static LLVMValueRef int_to_real(tw_cg *cg, LLVMValueRef v, tw_elem from, LLVMTypeRef real)
{
    LLVMTypeRef type = like(real, v);
    return tw_elem_is_signed(from) ? LLVMBuildSIToFP(cg->b, v, type, "")
                                   : LLVMBuildUIToFP(cg->b, v, type, "");
}

static LLVMValueRef to_bool(tw_cg *cg, LLVMValueRef v, bool real)
{
    LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(v));
    return real ? LLVMBuildFCmp(cg->b, LLVMRealUNE, v, zero, "")
                : LLVMBuildICmp(cg->b, LLVMIntNE, v, zero, "");
}

/* ---- All of them ---- */

LLVMValueRef tw_cg_cast(tw_cg *cg, LLVMValueRef v, tw_elem from, tw_elem to, bool saturate)
{
    if (from == to && !(saturate && to == TW_F8E5M2)) /* whose infinities saturate too */
        return v;
    if (from == TW_STRING || to == TW_STRING)
        tw_cg_fail(cg, NULL, "there is no cast from %s to %s", tw_elem_name(from),
                   tw_elem_name(to));
    bool real = tw_elem_is_float(from);
    if (real && from != TW_F64 && from != TW_F32) {
        v = widen_to_f32(cg, v, from);
        from = TW_F32;
    }
    if (to == TW_BOOL)
        return to_bool(cg, v, real);
    if (!tw_elem_is_float(to))
        return real ? real_to_int(cg, v, to) : int_to_int(cg, v, from, to);
    if (!real) { /* integers of 32 bits and more round in f32 already */
        bool wide = to == TW_F64 || (to == TW_BF16 && tw_elem_bits(from) >= 32);
        v = int_to_real(cg, v, from, wide ? cg->f64 : cg->f32);
        from = wide ? TW_F64 : TW_F32;
    }
    if (to == from)
        return v;
    if (to == TW_F64)
        return LLVMBuildFPExt(cg->b, v, like(cg->f64, v), "");
    if (to == TW_F32)
        return LLVMBuildFPTrunc(cg->b, v, like(cg->f32, v), "");
    return narrow_float(cg, v, from, to, saturate);
}
