/* math.c: mathematical functions by the host's C library, one lane after another. */
#include "codegen/llvm/cg.h"

#include <string.h>

/* The C library's name for f64; f32 adds an f. */
static const char *const names[TW_LOOP_COUNT] = {
    [TW_LOOP_EXP] = "exp",     [TW_LOOP_LOG] = "log",     [TW_LOOP_SIN] = "sin",
    [TW_LOOP_COS] = "cos",     [TW_LOOP_TAN] = "tan",     [TW_LOOP_ASIN] = "asin",
    [TW_LOOP_ACOS] = "acos",   [TW_LOOP_ATAN] = "atan",   [TW_LOOP_SINH] = "sinh",
    [TW_LOOP_COSH] = "cosh",   [TW_LOOP_TANH] = "tanh",   [TW_LOOP_ASINH] = "asinh",
    [TW_LOOP_ACOSH] = "acosh", [TW_LOOP_ATANH] = "atanh", [TW_LOOP_ERF] = "erf",
    [TW_LOOP_POW] = "pow",     [TW_LOOP_REM] = "fmod",
};

/* A function of the C library without side effects. */
static LLVMValueRef declare(tw_cg *cg, const char *name, LLVMTypeRef type, unsigned n,
                            LLVMTypeRef *signature)
{
    LLVMTypeRef args[2] = {type, type};
    *signature = LLVMFunctionType(type, args, n, false);
    LLVMValueRef f = LLVMGetNamedFunction(cg->module, name);
    if (f)
        return f;
    f = LLVMAddFunction(cg->module, name, *signature);
    LLVMSetVisibility(f, LLVMHiddenVisibility);
    tw_cg_attribute(cg, f, LLVMAttributeFunctionIndex, "nounwind", 0);
    tw_cg_attribute(cg, f, LLVMAttributeFunctionIndex, "willreturn", 0);
    tw_cg_attribute(cg, f, LLVMAttributeFunctionIndex, "memory", 0);
    return f;
}

LLVMValueRef tw_cg_libm(tw_cg *cg, tw_loop_kind kind, LLVMValueRef a, LLVMValueRef b)
{
    LLVMTypeRef type = LLVMTypeOf(a), scalar = tw_cg_scalar(type), signature;
    const char *name =
        tw_arena_printf(cg->arena, "%s%s", names[kind], scalar == cg->f64 ? "" : "f");
    unsigned n = b ? 2 : 1, lanes = tw_cg_llvm_lanes(type);
    LLVMValueRef f = declare(cg, name, scalar, n, &signature);
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

LLVMValueRef tw_cg_math(tw_cg *cg, const tw_op *op, tw_loop_kind kind, LLVMValueRef a,
                        LLVMValueRef b)
{
    if (!names[kind])
        tw_cg_fail(cg, op, "%s has no code generation", op->def->name);
    return tw_cg_libm(cg, kind, a, b);
}
