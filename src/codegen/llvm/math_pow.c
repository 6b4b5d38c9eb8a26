/* math_pow.c: x^y of f32 as 2^(y log2 |x|) in f64, within 1 unit in the last place, with the
 * special cases of C's pow (C17 F.10.4.4).
 *
 * log2 by atanh: m in sqrt(1/2)..sqrt(2), s = (m - 1) / (m + 1), log2 m = 2/ln 2 atanh s (Muller,
 * "Elementary Functions", chapter 11). */
#include "codegen/llvm/math.h"

#include <math.h>

/* 2 atanh(s) / (s ln 2) by s^2: 2^-45. */
static const double log2_poly[] = {0x1.71547652b8251p+1, 0x1.ec709dc53c677p-1,
                                   0x1.2776c2933e373p-1, 0x1.a61a2ec9ff47ap-2,
                                   0x1.4795562de886cp-2, 0x1.21b0ead16be5bp-2};
/* 2^f on |f| <= 1/2: 2^-34.5. */
static const double exp2_poly[] = {
    0x1.ffffffffab11ap-1, 0x1.62e42ff1191f6p-1,  0x1.ebfbe0a5c5f47p-3,  0x1.c6b08aaaf350bp-5,
    0x1.3b29db61f664bp-7, 0x1.5d8a7309f6e42p-10, 0x1.446ad3e3d3f5ep-13, 0x1.fe16a39a3d8a3p-17};

/* Of |x| in f64, where denormals of f32 are normal; -infinity for 0. */
static LLVMValueRef log2_of(const tw_math *w, LLVMValueRef x)
{
    LLVMValueRef root = tw_math_int(w, 0x3fe6a09e667f3bcd), one = tw_math_real(w, 1);
    LLVMValueRef above = LLVMBuildSub(w->b, tw_math_bits(w, x), root, "");
    LLVMValueRef e = LLVMBuildAShr(w->b, above, tw_math_int(w, 52), "");
    LLVMValueRef mantissa = LLVMBuildAnd(w->b, above, tw_math_int(w, 0xfffffffffffff), "");
    LLVMValueRef m = tw_math_float(w, LLVMBuildAdd(w->b, mantissa, root, ""));
    LLVMValueRef s =
        LLVMBuildFDiv(w->b, LLVMBuildFSub(w->b, m, one, ""), LLVMBuildFAdd(w->b, m, one, ""), "");
    LLVMValueRef s2 = LLVMBuildFMul(w->b, s, s, "");
    LLVMValueRef p = tw_math_poly(w, s2, log2_poly, sizeof log2_poly / sizeof *log2_poly);
    /* 64-bit integers convert in vectors only with AVX-512; these have 12 bits. */
    LLVMTypeRef small = tw_cg_like(w->cg->i32, w->real);
    LLVMValueRef whole = LLVMBuildSIToFP(w->b, LLVMBuildTrunc(w->b, e, small, ""), w->real, "");
    LLVMValueRef y = tw_cg_muladd(w->cg, p, s, whole);
    LLVMValueRef zero = LLVMBuildFCmp(w->b, LLVMRealOEQ, x, tw_math_real(w, 0), "");
    LLVMValueRef finite = LLVMBuildFCmp(w->b, LLVMRealOLT, x, tw_math_real(w, INFINITY), "");
    y = tw_math_select(w, zero, tw_math_real(w, -INFINITY), y);
    return tw_math_select(w, finite, y, x);
}

/* f32's range ends well within -200..200. */
static LLVMValueRef exp2_of(const tw_math *w, LLVMValueRef t)
{
    LLVMValueRef bits;
    t = tw_math_clamp(w, t, LLVMRealOLT, -200);
    t = tw_math_clamp(w, t, LLVMRealOGT, 200);
    LLVMValueRef n = tw_math_round(w, t, &bits);
    LLVMValueRef f = LLVMBuildFSub(w->b, t, n, "");
    LLVMValueRef p = tw_math_poly(w, f, exp2_poly, sizeof exp2_poly / sizeof *exp2_poly);
    LLVMValueRef biased = LLVMBuildAdd(w->b, bits, tw_math_int(w, 1023), "");
    LLVMValueRef power = tw_math_float(w, LLVMBuildShl(w->b, biased, tw_math_int(w, 52), ""));
    return LLVMBuildFMul(w->b, p, power, "");
}

typedef struct parity {
    LLVMValueRef integer, odd;
} parity;

static parity parity_of(const tw_math *w, LLVMValueRef y)
{
    LLVMValueRef half = LLVMBuildFMul(w->b, y, tw_math_real(w, 0.5), "");
    LLVMValueRef whole =
        LLVMBuildFCmp(w->b, LLVMRealOEQ, tw_cg_intrinsic1(w->cg, "llvm.trunc", y), y, "");
    LLVMValueRef even =
        LLVMBuildFCmp(w->b, LLVMRealOEQ, tw_cg_intrinsic1(w->cg, "llvm.trunc", half), half, "");
    LLVMValueRef odd = LLVMBuildAnd(w->b, whole, LLVMBuildNot(w->b, even, ""), "");
    return (parity){whole, odd};
}

LLVMValueRef tw_math_pow(const tw_math *m, LLVMValueRef x, LLVMValueRef y)
{
    tw_math w = tw_math_on(m->cg, tw_cg_like(m->cg->f64, m->real));
    LLVMValueRef a = LLVMBuildFPExt(m->b, tw_cg_intrinsic1(m->cg, "llvm.fabs", x), w.real, "");
    LLVMValueRef wide_y = LLVMBuildFPExt(m->b, y, w.real, "");
    LLVMValueRef t = LLVMBuildFMul(m->b, wide_y, log2_of(&w, a), "");
    LLVMValueRef r = LLVMBuildFPTrunc(m->b, exp2_of(&w, t), m->real, "");

    LLVMValueRef zero = tw_math_real(m, 0), one = tw_math_real(m, 1);
    LLVMValueRef infinite = tw_math_real(m, INFINITY);
    parity p = parity_of(m, y);
    /* The sign bit of x, for odd y. */
    LLVMValueRef sign = tw_math_select(m, p.odd, x, zero);
    r = tw_math_copysign(m, r, sign);
    /* A negative finite number to a power that is no integer. */
    LLVMValueRef below = LLVMBuildFCmp(m->b, LLVMRealOLT, x, zero, "");
    LLVMValueRef finite = LLVMBuildFCmp(m->b, LLVMRealOGT, x, tw_math_real(m, -INFINITY), "");
    LLVMValueRef bad = LLVMBuildAnd(m->b, below, LLVMBuildNot(m->b, p.integer, ""), "");
    bad = LLVMBuildAnd(m->b, bad, finite, "");
    r = tw_math_select(m, bad, tw_math_real(m, NAN), r);
    /* 1 to any power, anything to the power 0, -1 to an infinite power. */
    LLVMValueRef unit = LLVMBuildFCmp(m->b, LLVMRealOEQ, x, one, "");
    LLVMValueRef none = LLVMBuildFCmp(m->b, LLVMRealOEQ, y, zero, "");
    LLVMValueRef minus = LLVMBuildFCmp(m->b, LLVMRealOEQ, x, tw_math_real(m, -1), "");
    LLVMValueRef endless =
        LLVMBuildFCmp(m->b, LLVMRealOEQ, tw_cg_intrinsic1(m->cg, "llvm.fabs", y), infinite, "");
    LLVMValueRef is_one = LLVMBuildOr(m->b, LLVMBuildOr(m->b, unit, none, ""),
                                      LLVMBuildAnd(m->b, minus, endless, ""), "");
    return tw_math_select(m, is_one, one, r);
}
