/* math_trig.c: sine and cosine of f32, within 2 units in the last place.
 *
 * The argument is reduced in f64: x = n pi/2 + r with pi/2 in three parts, two of 33 bits whose
 * products with n are exact up to |x| = 10^6 (Cody and Waite; Muller, "Elementary Functions",
 * chapter 11). Beyond, which neural networks have no use for, the host's function is called. */
#include "codegen/llvm/math.h"

static const double two_over_pi = 0.63661977236758134308;
/* pi/2, each part with the bits after the one before. */
static const double pio2[] = {0x1.921fb544p+0, 0x1.0b4611a6p-34, 0x1.3198a2e037073p-69};
static const double limit = 1e6;

/* (sin r - r) / r^3 by r^2 on |r| <= pi/4: 2^-37.5 of sin; (cos r - 1 + r^2/2) / r^4: 2^-33. */
static const double sin_poly[] = {-0x1.555556p-3, 0x1.111108p-7, -0x1.a00f7ep-13, 0x1.6cd1b0p-19};
static const double cos_poly[] = {0x1.55554ap-5, -0x1.6c0c32p-10, 0x1.99eb4ap-16};

/* r as f32; *quadrant: n in its low bits. */
static LLVMValueRef reduce(const tw_math *m, LLVMValueRef x, LLVMValueRef *quadrant)
{
    tw_math wide = tw_math_on(m->cg, tw_cg_like(m->cg->f64, m->real));
    LLVMValueRef r = LLVMBuildFPExt(m->b, x, wide.real, ""), bits;
    LLVMValueRef turns = LLVMBuildFMul(m->b, r, tw_math_real(&wide, two_over_pi), "");
    LLVMValueRef n = tw_math_round(&wide, turns, &bits);
    for (unsigned i = 0; i < 3; i++)
        r = tw_cg_muladd(m->cg, n, tw_math_real(&wide, -pio2[i]), r);
    *quadrant = LLVMBuildTrunc(m->b, bits, m->integer, "");
    return LLVMBuildFPTrunc(m->b, r, m->real, "");
}

static LLVMValueRef near_zero(const tw_math *m, LLVMValueRef r, LLVMValueRef quadrant)
{
    LLVMValueRef r2 = LLVMBuildFMul(m->b, r, r, "");
    LLVMValueRef p = tw_math_poly(m, r2, sin_poly, sizeof sin_poly / sizeof *sin_poly);
    LLVMValueRef sine = tw_cg_muladd(m->cg, LLVMBuildFMul(m->b, p, r2, ""), r, r);
    LLVMValueRef q = tw_math_poly(m, r2, cos_poly, sizeof cos_poly / sizeof *cos_poly);
    LLVMValueRef cosine = tw_cg_muladd(m->cg, r2, tw_math_real(m, -0.5), tw_math_real(m, 1));
    cosine = tw_cg_muladd(m->cg, LLVMBuildFMul(m->b, q, r2, ""), r2, cosine);
    LLVMValueRef odd = LLVMBuildAnd(m->b, quadrant, tw_math_int(m, 1), "");
    odd = LLVMBuildICmp(m->b, LLVMIntNE, odd, tw_math_int(m, 0), "");
    LLVMValueRef value = tw_math_bits(m, tw_math_select(m, odd, cosine, sine));
    LLVMValueRef lower = LLVMBuildAnd(m->b, quadrant, tw_math_int(m, 2), "");
    LLVMValueRef sign = LLVMBuildShl(m->b, lower, tw_math_int(m, 30), "");
    return tw_math_float(m, LLVMBuildXor(m->b, value, sign, ""));
}

/* fast, but the host's function where |x| is large, if it is in any lane. */
static LLVMValueRef large_by_host(const tw_math *m, tw_loop_kind kind, LLVMValueRef x,
                                  LLVMValueRef fast)
{
    tw_cg *cg = m->cg;
    LLVMValueRef f = LLVMGetBasicBlockParent(LLVMGetInsertBlock(m->b));
    LLVMValueRef large = LLVMBuildFCmp(m->b, LLVMRealOGT, tw_cg_intrinsic1(cg, "llvm.fabs", x),
                                       tw_math_real(m, limit), "");
    LLVMValueRef any = large;
    if (tw_cg_llvm_lanes(m->real))
        any = tw_cg_intrinsic1(cg, "llvm.vector.reduce.or", large);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(m->b);
    LLVMBasicBlockRef slow = LLVMAppendBasicBlockInContext(cg->llvm, f, "slow");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(cg->llvm, f, "done");
    LLVMBuildCondBr(m->b, any, slow, done);
    LLVMPositionBuilderAtEnd(m->b, slow);
    LLVMValueRef exact = tw_math_select(m, large, tw_cg_libm(cg, kind, x, NULL), fast);
    LLVMBuildBr(m->b, done);
    LLVMPositionBuilderAtEnd(m->b, done);
    LLVMValueRef phi = LLVMBuildPhi(m->b, m->real, "");
    LLVMAddIncoming(phi, (LLVMValueRef[]){fast, exact}, (LLVMBasicBlockRef[]){from, slow}, 2);
    return phi;
}

LLVMValueRef tw_math_sin(const tw_math *m, LLVMValueRef x)
{
    LLVMValueRef quadrant, r = reduce(m, x, &quadrant);
    return large_by_host(m, TW_LOOP_SIN, x, near_zero(m, r, quadrant));
}

/* cos x = sin(x + pi/2) */
LLVMValueRef tw_math_cos(const tw_math *m, LLVMValueRef x)
{
    LLVMValueRef quadrant, r = reduce(m, x, &quadrant);
    quadrant = LLVMBuildAdd(m->b, quadrant, tw_math_int(m, 1), "");
    return large_by_host(m, TW_LOOP_COS, x, near_zero(m, r, quadrant));
}
