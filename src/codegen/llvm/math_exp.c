/* math_exp.c: exp, log, tanh and erf of f32, without branches, within 2 units in the last place
 * (tests/unit/test_codegen_math.c measures).
 *
 * Range reduction as in Cody and Waite, "Software Manual for the Elementary Functions" (1980), and
 * Muller, "Elementary Functions" (3rd ed. 2016), chapters 9 and 11: x = n ln 2 + r with ln 2 in two
 * parts, the first of so few bits that its product with n is exact. Polynomials are minimax
 * approximations by Remez' algorithm; the comment at each says for which function, interval and
 * with what error. */
#include "codegen/llvm/math.h"

#include <math.h>

/* ln 2 = HIGH + LOW; HIGH has 9 significant bits. */
static const double log2_e = 1.44269504088896341, ln2_high = 0.693359375,
                    ln2_low = -2.12194440054690583e-4;

/* (e^r - 1 - r) / r^2 on |r| <= ln(2)/2: 2^-28.3 of e^r. */
static const double exp_poly[] = {0x1.fffffcp-2, 0x1.555492p-3, 0x1.5558f2p-5, 0x1.123a2p-7,
                                  0x1.6a23d0p-10};

/* e^x = 2^n * e^r: *n as integers, the result e^r. */
static LLVMValueRef exp_parts(const tw_math *m, LLVMValueRef x, LLVMValueRef *n)
{
    LLVMValueRef bits;
    LLVMValueRef scaled = LLVMBuildFMul(m->b, x, tw_math_real(m, log2_e), "");
    LLVMValueRef whole = tw_math_round(m, scaled, &bits);
    *n = LLVMBuildSub(m->b, bits, tw_math_bits(m, tw_math_real(m, 0x1.8p23)), "");
    LLVMValueRef r = tw_cg_muladd(m->cg, whole, tw_math_real(m, -ln2_high), x);
    r = tw_cg_muladd(m->cg, whole, tw_math_real(m, -ln2_low), r);
    LLVMValueRef p = tw_math_poly(m, r, exp_poly, sizeof exp_poly / sizeof *exp_poly);
    LLVMValueRef r2 = LLVMBuildFMul(m->b, r, r, "");
    LLVMValueRef y = tw_cg_muladd(m->cg, p, r2, r);
    return LLVMBuildFAdd(m->b, y, tw_math_real(m, 1), "");
}

/* 2^n as a float, -126 <= n <= 127. */
static LLVMValueRef power_of_2(const tw_math *m, LLVMValueRef n)
{
    LLVMValueRef biased = LLVMBuildAdd(m->b, n, tw_math_int(m, 127), "");
    return tw_math_float(m, LLVMBuildShl(m->b, biased, tw_math_int(m, 23), ""));
}

/* e^x for x in -87..88. */
static LLVMValueRef exp_normal(const tw_math *m, LLVMValueRef x)
{
    LLVMValueRef n, y = exp_parts(m, x, &n);
    return LLVMBuildFMul(m->b, y, power_of_2(m, n), "");
}

/* Outside of -104..89 the result is 0 or infinite as at the ends. 2^n goes in two factors, so that
 * a denormal result is rounded once and an overflow comes out infinite. */
LLVMValueRef tw_math_exp(const tw_math *m, LLVMValueRef x)
{
    x = tw_math_clamp(m, x, LLVMRealOLT, -104);
    x = tw_math_clamp(m, x, LLVMRealOGT, 89);
    LLVMValueRef n, y = exp_parts(m, x, &n);
    LLVMValueRef half = LLVMBuildAShr(m->b, n, tw_math_int(m, 1), "");
    LLVMValueRef rest = LLVMBuildSub(m->b, n, half, "");
    y = LLVMBuildFMul(m->b, y, power_of_2(m, half), "");
    return LLVMBuildFMul(m->b, y, power_of_2(m, rest), "");
}

/* (log(1 + f) - f + f^2/2) / f^3 on sqrt(1/2) <= 1 + f <= sqrt(2): 2^-30.3 of log. */
static const double log_poly[] = {0x1.555548p-2,  -0x1.000006p-2, 0x1.99a4b6p-3,
                                  -0x1.555c4ep-3, 0x1.233768p-3,  -0x1.fc2208p-4,
                                  0x1.e6f06ap-4,  -0x1.de3c12p-4, 0x1.1457a4p-4};

/* x = 2^e * (1 + f), then log x = e ln 2 + log(1 + f). Denormals are scaled up by 2^23. */
LLVMValueRef tw_math_log(const tw_math *m, LLVMValueRef x)
{
    LLVMValueRef tiny = LLVMBuildFCmp(m->b, LLVMRealOLT, x, tw_math_real(m, 0x1p-126), "");
    LLVMValueRef up = LLVMBuildFMul(m->b, x, tw_math_real(m, 0x1p23), "");
    LLVMValueRef bits = tw_math_bits(m, tw_math_select(m, tiny, up, x));
    LLVMValueRef root = tw_math_int(m, 0x3f3504f3); /* sqrt(1/2) */
    LLVMValueRef above = LLVMBuildSub(m->b, bits, root, "");
    LLVMValueRef e = LLVMBuildAShr(m->b, above, tw_math_int(m, 23), "");
    LLVMValueRef mantissa = LLVMBuildAnd(m->b, above, tw_math_int(m, 0x7fffff), "");
    LLVMValueRef f = tw_math_float(m, LLVMBuildAdd(m->b, mantissa, root, ""));
    f = LLVMBuildFSub(m->b, f, tw_math_real(m, 1), "");
    LLVMValueRef shift = tw_math_select(m, tiny, tw_math_int(m, 23), tw_math_int(m, 0));
    e = LLVMBuildSIToFP(m->b, LLVMBuildSub(m->b, e, shift, ""), m->real, "");

    LLVMValueRef f2 = LLVMBuildFMul(m->b, f, f, "");
    LLVMValueRef p = tw_math_poly(m, f, log_poly, sizeof log_poly / sizeof *log_poly);
    LLVMValueRef y = LLVMBuildFMul(m->b, e, tw_math_real(m, ln2_low), "");
    y = tw_cg_muladd(m->cg, LLVMBuildFMul(m->b, f2, f, ""), p, y);
    y = tw_cg_muladd(m->cg, f2, tw_math_real(m, -0.5), y);
    y = LLVMBuildFAdd(m->b, y, f, "");
    y = tw_cg_muladd(m->cg, e, tw_math_real(m, ln2_high), y);

    LLVMValueRef zero = tw_math_real(m, 0), infinite = tw_math_real(m, INFINITY);
    LLVMValueRef is_zero = LLVMBuildFCmp(m->b, LLVMRealOEQ, x, zero, "");
    LLVMValueRef bad = tw_math_select(m, is_zero, tw_math_real(m, -INFINITY), tw_math_real(m, NAN));
    y = tw_math_select(m, LLVMBuildFCmp(m->b, LLVMRealOGT, x, zero, ""), y, bad);
    return tw_math_select(m, LLVMBuildFCmp(m->b, LLVMRealOLT, x, infinite, ""), y, x);
}

/* (tanh x - x) / x^3 by x^2 on |x| <= 0.625: 2^-27.8 of tanh. */
static const double tanh_poly[] = {-0x1.555532p-2, 0x1.110726p-3, -0x1.b83c5ap-5, 0x1.52269cp-6,
                                   -0x1.75e1cep-8};

/* Near 0 a polynomial, else 1 - 2 / (e^2|x| + 1), which is 1 from 9.1 on. */
LLVMValueRef tw_math_tanh(const tw_math *m, LLVMValueRef x)
{
    LLVMValueRef a = tw_cg_intrinsic1(m->cg, "llvm.fabs", x), one = tw_math_real(m, 1);
    LLVMValueRef x2 = LLVMBuildFMul(m->b, x, x, "");
    LLVMValueRef p = tw_math_poly(m, x2, tanh_poly, sizeof tanh_poly / sizeof *tanh_poly);
    LLVMValueRef near = tw_cg_muladd(m->cg, LLVMBuildFMul(m->b, p, x2, ""), x, x);
    LLVMValueRef far = tw_math_clamp(m, a, LLVMRealOGT, 10);
    far = exp_normal(m, LLVMBuildFAdd(m->b, far, far, ""));
    far = LLVMBuildFDiv(m->b, tw_math_real(m, 2), LLVMBuildFAdd(m->b, far, one, ""), "");
    far = tw_math_copysign(m, LLVMBuildFSub(m->b, one, far, ""), x);
    LLVMValueRef is_near = LLVMBuildFCmp(m->b, LLVMRealOLT, a, tw_math_real(m, 0.625), "");
    return tw_math_select(m, is_near, near, far);
}

/* erf(x)/x - 1 by x^2 on |x| <= 0.92: 2^-31.2 of erf. */
static const double erf_near[] = {0x1.06eba8p-3, -0x1.812744p-2,  0x1.ce2e24p-4, -0x1.b810e8p-6,
                                  0x1.54df1ap-8, -0x1.ab105cp-11, 0x1.5f953cp-14};
/* log(1 - erf x) on 0.92..3.95: 2^-34.3 of erf. */
static const double erf_far[] = {0x1.6e564ep-13, -0x1.2127e4p+0, -0x1.44460cp-1, -0x1.bb83e2p-4,
                                 0x1.9b8e78p-6,  -0x1.115acp-8,  0x1.c790e8p-12, -0x1.61ea2ap-16};

/* Beyond 3.95 erf is 1 in f32. */
LLVMValueRef tw_math_erf(const tw_math *m, LLVMValueRef x)
{
    LLVMValueRef a = tw_cg_intrinsic1(m->cg, "llvm.fabs", x);
    LLVMValueRef x2 = LLVMBuildFMul(m->b, x, x, "");
    LLVMValueRef p = tw_math_poly(m, x2, erf_near, sizeof erf_near / sizeof *erf_near);
    LLVMValueRef near = tw_cg_muladd(m->cg, p, x, x);
    LLVMValueRef far = tw_math_clamp(m, a, LLVMRealOGT, 3.95);
    far = tw_math_poly(m, far, erf_far, sizeof erf_far / sizeof *erf_far);
    far = LLVMBuildFSub(m->b, tw_math_real(m, 1), exp_normal(m, far), "");
    far = tw_math_copysign(m, far, x);
    LLVMValueRef is_near = LLVMBuildFCmp(m->b, LLVMRealOLT, a, tw_math_real(m, 0.92), "");
    return tw_math_select(m, is_near, near, far);
}
