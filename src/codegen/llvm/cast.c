/* cast.c: conversion between element types.
 *
 * bf16 and the 8-bit formats have no instructions to rely on: they are taken apart and put together
 * as integers, rounding to nearest even. ir/scalar.h has the exact meaning of all conversions. */
#include "codegen/llvm/cg.h"

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

static bool is_nibble(tw_elem e)
{
    return e == TW_I4 || e == TW_U4;
}

/* ---- Small floating point to f32: exact ---- */

/* Exponent and mantissa go to f32's places; a product corrects the bias, denormals included. */
static LLVMValueRef e4m3_to_f32(tw_cg *cg, LLVMValueRef v)
{
    LLVMValueRef wide = LLVMBuildZExt(cg->b, v, like(cg->i32, v), "");
    LLVMValueRef magnitude = LLVMBuildAnd(cg->b, wide, int_like(wide, 0x7f), "");
    LLVMValueRef sign = LLVMBuildShl(cg->b, LLVMBuildAnd(cg->b, wide, int_like(wide, 0x80), ""),
                                     int_like(wide, 24), "");
    LLVMValueRef bits = LLVMBuildShl(cg->b, magnitude, int_like(wide, 20), "");
    LLVMValueRef f = as(cg, cg->f32, bits);
    f = LLVMBuildFMul(cg->b, f, tw_cg_real(LLVMTypeOf(f), ldexp(1, 120)), "");
    LLVMValueRef is_nan = LLVMBuildICmp(cg->b, LLVMIntEQ, magnitude, int_like(wide, 0x7f), "");
    LLVMValueRef plain =
        LLVMBuildSelect(cg->b, is_nan, int_like(wide, 0x7fc00000), as(cg, cg->i32, f), "");
    return as(cg, cg->f32, LLVMBuildOr(cg->b, plain, sign, ""));
}

static LLVMValueRef widen_to_f32(tw_cg *cg, LLVMValueRef v, tw_elem from)
{
    if (from == TW_F8E4M3FN)
        return e4m3_to_f32(cg, v);
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

/* An 8-bit format by its number of mantissa bits, its bias, and the codes (without sign) of the
 * largest number and of what overflow gives. */
typedef struct small_float {
    unsigned mantissa;
    int bias;
    int largest, overflow, nan;
} small_float;
static const small_float e4m3 = {3, 7, 0x7e, 0x7f, 0x7f};
static const small_float e5m2 = {2, 15, 0x7b, 0x7c, 0x7e};

static LLVMValueRef f32_to_f8(tw_cg *cg, LLVMValueRef v, const small_float *f, bool saturate)
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
    LLVMValueRef sign = LLVMBuildLShr(cg->b, as(cg, cg->i32, v), int_like(bits, 24), "");
    sign = LLVMBuildAnd(cg->b, sign, int_like(bits, 0x80), "");
    return LLVMBuildTrunc(cg->b, LLVMBuildOr(cg->b, code, sign, ""), like(cg->i8, v), "");
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
    return f32_to_f8(cg, v, to == TW_F8E4M3FN ? &e4m3 : &e5m2, saturate);
}

/* ---- Integers ---- */

static LLVMValueRef cut(tw_cg *cg, LLVMValueRef v, tw_elem to)
{
    if (!is_nibble(to))
        return v;
    LLVMValueRef four = int_like(v, 4), high = LLVMBuildShl(cg->b, v, four, "");
    return to == TW_I4 ? LLVMBuildAShr(cg->b, high, four, "")
                       : LLVMBuildLShr(cg->b, high, four, "");
}

static LLVMValueRef int_to_int(tw_cg *cg, LLVMValueRef v, tw_elem from, tw_elem to)
{
    LLVMTypeRef type = like(tw_cg_elem(cg, to), v);
    return cut(cg, LLVMBuildIntCast2(cg->b, v, type, tw_elem_is_signed(from), ""), to);
}

/* Saturates; NaN gives 0. 4-bit integers have their range cut first. */
static LLVMValueRef real_to_int(tw_cg *cg, LLVMValueRef v, tw_elem to)
{
    LLVMTypeRef real = LLVMTypeOf(v), type = like(tw_cg_elem(cg, to), v);
    bool is_signed = tw_elem_is_signed(to);
    if (is_nibble(to)) {
        LLVMValueRef low = tw_cg_real(real, is_signed ? -8 : 0);
        LLVMValueRef high = tw_cg_real(real, is_signed ? 7 : 15);
        v = LLVMBuildSelect(cg->b, LLVMBuildFCmp(cg->b, LLVMRealOLT, v, low, ""), low, v, "");
        v = LLVMBuildSelect(cg->b, LLVMBuildFCmp(cg->b, LLVMRealOGT, v, high, ""), high, v, "");
    }
    return tw_cg_intrinsic(cg, is_signed ? "llvm.fptosi.sat" : "llvm.fptoui.sat",
                           (LLVMTypeRef[]){type, real}, 2, &v, 1);
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
