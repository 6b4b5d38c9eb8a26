/* math.c: mathematical functions. The frequent ones of f32 are own code that works on vectors
 * (math_exp.c, math_trig.c, math_pow.c), made once per module as a function of its own:
 *
 *     define internal <8 x float> @tw.exp.v8(<8 x float> %x) alwaysinline
 *
 * The others, and all of f64, call the host's C library for one lane after another. */
#include "codegen/llvm/math.h"

#include <string.h>

/* ---- Tools ---- */

tw_math tw_math_on(tw_cg *cg, LLVMTypeRef real)
{
    LLVMTypeRef bits = tw_cg_scalar(real) == cg->f64 ? cg->i64 : cg->i32;
    return (tw_math){cg, cg->b, real, tw_cg_like(bits, real)};
}

LLVMValueRef tw_math_real(const tw_math *m, double value)
{
    return tw_cg_real(m->real, value);
}

LLVMValueRef tw_math_int(const tw_math *m, int64_t value)
{
    return tw_cg_int(m->integer, value);
}

LLVMValueRef tw_math_bits(const tw_math *m, LLVMValueRef real)
{
    return LLVMBuildBitCast(m->b, real, m->integer, "");
}

LLVMValueRef tw_math_float(const tw_math *m, LLVMValueRef bits)
{
    return LLVMBuildBitCast(m->b, bits, m->real, "");
}

LLVMValueRef tw_math_poly(const tw_math *m, LLVMValueRef x, const double *c, unsigned n)
{
    LLVMValueRef y = tw_math_real(m, c[n - 1]);
    for (unsigned i = n - 1; i > 0; i--)
        y = tw_cg_muladd(m->cg, y, x, tw_math_real(m, c[i - 1]));
    return y;
}

LLVMValueRef tw_math_select(const tw_math *m, LLVMValueRef condition, LLVMValueRef a,
                            LLVMValueRef b)
{
    return LLVMBuildSelect(m->b, condition, a, b, "");
}

LLVMValueRef tw_math_clamp(const tw_math *m, LLVMValueRef x, LLVMRealPredicate pred, double bound)
{
    LLVMValueRef limit = tw_math_real(m, bound);
    return tw_math_select(m, LLVMBuildFCmp(m->b, pred, x, limit, ""), limit, x);
}

LLVMValueRef tw_math_copysign(const tw_math *m, LLVMValueRef magnitude, LLVMValueRef sign)
{
    return tw_cg_intrinsic2(m->cg, "llvm.copysign", magnitude, sign);
}

/* Adding 1.5 * 2^(mantissa bits) leaves no bits behind the point, and the integer in the low ones.
 */
LLVMValueRef tw_math_round(const tw_math *m, LLVMValueRef x, LLVMValueRef *bits)
{
    bool wide = tw_cg_scalar(m->real) == m->cg->f64;
    LLVMValueRef magic = tw_math_real(m, wide ? 0x1.8p52 : 0x1.8p23);
    LLVMValueRef sum = LLVMBuildFAdd(m->b, x, magic, "");
    if (bits)
        *bits = tw_math_bits(m, sum);
    return LLVMBuildFSub(m->b, sum, magic, "");
}

/* ---- The host's library ---- */

/* The C library's name for f64; f32 adds an f. */
static const char *const names[TW_LOOP_COUNT] = {
    [TW_LOOP_EXP] = "exp",     [TW_LOOP_LOG] = "log",     [TW_LOOP_SIN] = "sin",
    [TW_LOOP_COS] = "cos",     [TW_LOOP_TAN] = "tan",     [TW_LOOP_ASIN] = "asin",
    [TW_LOOP_ACOS] = "acos",   [TW_LOOP_ATAN] = "atan",   [TW_LOOP_SINH] = "sinh",
    [TW_LOOP_COSH] = "cosh",   [TW_LOOP_TANH] = "tanh",   [TW_LOOP_ASINH] = "asinh",
    [TW_LOOP_ACOSH] = "acosh", [TW_LOOP_ATANH] = "atanh", [TW_LOOP_ERF] = "erf",
    [TW_LOOP_POW] = "pow",     [TW_LOOP_REM] = "fmod",
};

/* Neither reads nor writes memory, ends, and may be moved. */
static void mark_pure(tw_cg *cg, LLVMValueRef f)
{
    tw_cg_attribute(cg, f, LLVMAttributeFunctionIndex, "willreturn", 0);
    tw_cg_attribute(cg, f, LLVMAttributeFunctionIndex, "memory", 0);
}

static LLVMValueRef declare(tw_cg *cg, const char *name, LLVMTypeRef signature)
{
    LLVMValueRef f = LLVMGetNamedFunction(cg->module, name);
    if (f)
        return f;
    f = LLVMAddFunction(cg->module, name, signature);
    LLVMSetVisibility(f, LLVMHiddenVisibility);
    tw_cg_attribute(cg, f, LLVMAttributeFunctionIndex, "nounwind", 0);
    mark_pure(cg, f);
    return f;
}

LLVMValueRef tw_cg_libm(tw_cg *cg, tw_loop_kind kind, LLVMValueRef a, LLVMValueRef b)
{
    LLVMTypeRef type = LLVMTypeOf(a), scalar = tw_cg_scalar(type);
    unsigned n = b ? 2 : 1, lanes = tw_cg_llvm_lanes(type);
    LLVMTypeRef signature = LLVMFunctionType(scalar, (LLVMTypeRef[]){scalar, scalar}, n, false);
    const char *suffix = scalar == cg->f64 ? "" : "f";
    LLVMValueRef f =
        declare(cg, tw_arena_printf(cg->arena, "%s%s", names[kind], suffix), signature);
    if (!lanes)
        return LLVMBuildCall2(cg->b, signature, f, (LLVMValueRef[]){a, b}, n, "");
    LLVMValueRef out = LLVMGetPoison(type);
    for (unsigned i = 0; i < lanes; i++) {
        LLVMValueRef at = LLVMConstInt(cg->i32, i, false), args[2];
        args[0] = LLVMBuildExtractElement(cg->b, a, at, "");
        if (b)
            args[1] = LLVMBuildExtractElement(cg->b, b, at, "");
        LLVMValueRef r = LLVMBuildCall2(cg->b, signature, f, args, n, "");
        out = LLVMBuildInsertElement(cg->b, out, r, at, "");
    }
    return out;
}

/* ---- Own functions ---- */

typedef struct own_function {
    LLVMValueRef (*one)(const tw_math *m, LLVMValueRef x);
    LLVMValueRef (*two)(const tw_math *m, LLVMValueRef x, LLVMValueRef y);
    bool small; /* enough to be inlined everywhere */
} own_function;
static const own_function own[TW_LOOP_COUNT] = {
    [TW_LOOP_EXP] = {tw_math_exp, NULL, true},   [TW_LOOP_LOG] = {tw_math_log, NULL, true},
    [TW_LOOP_TANH] = {tw_math_tanh, NULL, true}, [TW_LOOP_ERF] = {tw_math_erf, NULL, true},
    [TW_LOOP_SIN] = {tw_math_sin, NULL, false},  [TW_LOOP_COS] = {tw_math_cos, NULL, false},
    [TW_LOOP_POW] = {NULL, tw_math_pow, false},
};

static void define(tw_cg *cg, LLVMValueRef f, const own_function *own, LLVMTypeRef type)
{
    LLVMSetLinkage(f, LLVMInternalLinkage);
    tw_cg_function_attributes(cg, f);
    mark_pure(cg, f);
    if (own->small)
        tw_cg_attribute(cg, f, LLVMAttributeFunctionIndex, "alwaysinline", 0);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(cg->b);
    LLVMPositionBuilderAtEnd(cg->b, LLVMAppendBasicBlockInContext(cg->llvm, f, "entry"));
    tw_math m = tw_math_on(cg, type);
    LLVMBuildRet(cg->b, own->one ? own->one(&m, LLVMGetParam(f, 0))
                                 : own->two(&m, LLVMGetParam(f, 0), LLVMGetParam(f, 1)));
    LLVMPositionBuilderAtEnd(cg->b, here);
}

LLVMValueRef tw_cg_math(tw_cg *cg, const tw_op *op, tw_loop_kind kind, LLVMValueRef a,
                        LLVMValueRef b)
{
    LLVMTypeRef type = LLVMTypeOf(a);
    const own_function *mine = &own[kind];
    if (!names[kind])
        tw_cg_fail(cg, op, "%s has no code generation", op->def->name);
    if (tw_cg_scalar(type) != cg->f32 || (!mine->one && !mine->two))
        return tw_cg_libm(cg, kind, a, b);
    unsigned n = b ? 2 : 1, lanes = tw_cg_llvm_lanes(type);
    LLVMTypeRef signature = LLVMFunctionType(type, (LLVMTypeRef[]){type, type}, n, false);
    const char *name = lanes ? tw_arena_printf(cg->arena, "tw.%s.v%u", names[kind], lanes)
                             : tw_arena_printf(cg->arena, "tw.%s", names[kind]);
    LLVMValueRef f = LLVMGetNamedFunction(cg->module, name);
    if (!f) {
        f = LLVMAddFunction(cg->module, name, signature);
        define(cg, f, mine, type);
    }
    return LLVMBuildCall2(cg->b, signature, f, (LLVMValueRef[]){a, b}, n, "");
}
