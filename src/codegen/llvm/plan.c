/* plan.c: the function that says, for given symbols, what memory a run takes and which shapes its
 * outputs have.
 *
 *     int64_t tw_plan(const int64_t *symbols, int64_t *output_dims, int64_t *work)
 *
 * Sizes are computed in 64 bits, and in floating point as well, to see what would not fit. */
#include "codegen/llvm/cg.h"

#include "dialect/core/core.h"

#include <string.h>

/* Symbols above this, and sizes in bytes above the other, are refused. */
static const int64_t largest_symbol = INT32_MAX;
static const double largest_size = 0x1p62;

/* ---- Sizes in floating point ---- */

static LLVMValueRef real_symbol(tw_cg *cg, const tw_op *op, tw_expr e)
{
    tw_cg_lin symbol = tw_cg_expr(cg, op, 0, e);
    return LLVMBuildSIToFP(cg->b, tw_cg_lin_value(cg, &symbol), cg->f64, "");
}

/* Of a remainder the largest value that it can have. */
static LLVMValueRef real_size(tw_cg *cg, const tw_op *op, tw_expr e)
{
    if (e->kind == TW_EXPR_CONST)
        return tw_cg_real(cg->f64, (double)e->value);
    if (e->kind == TW_EXPR_SYM)
        return real_symbol(cg, op, e);
    if (e->kind == TW_EXPR_DIM || e->kind == TW_EXPR_INVALID)
        tw_cg_fail(cg, op, "a size of the model is not an expression of its symbols");
    LLVMValueRef a = real_size(cg, op, e->lhs), b = real_size(cg, op, e->rhs);
    switch (e->kind) {
    case TW_EXPR_ADD:
        return LLVMBuildFAdd(cg->b, a, b, "");
    case TW_EXPR_MUL:
        return LLVMBuildFMul(cg->b, a, b, "");
    case TW_EXPR_MOD:
        return b;
    case TW_EXPR_MIN:
        return tw_cg_intrinsic2(cg, "llvm.minnum", a, b);
    case TW_EXPR_MAX:
        return tw_cg_intrinsic2(cg, "llvm.maxnum", a, b);
    default: /* by 0 counts as by 1, as for integers */
        b = tw_cg_intrinsic2(cg, "llvm.maxnum", b, tw_cg_real(cg->f64, 1));
        return LLVMBuildFAdd(cg->b, LLVMBuildFDiv(cg->b, a, b, ""), tw_cg_real(cg->f64, 1), "");
    }
}

/* ---- The function ---- */

/* Collects in *fine whether what holds so far and the condition hold. */
static void require(tw_cg *cg, LLVMValueRef *fine, LLVMValueRef condition)
{
    *fine = *fine ? LLVMBuildAnd(cg->b, *fine, condition, "") : condition;
}

static void check_symbols(tw_cg *cg, LLVMValueRef *fine)
{
    for (size_t i = 0; i < cg->program->input_symbols; i++) {
        LLVMValueRef at = tw_cg_offset(cg, cg->fn->symbols, tw_cg_i64(cg, (int64_t)(8 * i)));
        LLVMValueRef value = LLVMBuildLoad2(cg->b, cg->i64, at, "");
        require(cg, fine,
                LLVMBuildICmp(cg->b, LLVMIntULE, value, tw_cg_i64(cg, largest_symbol), ""));
    }
}

LLVMValueRef tw_cg_size_fits(tw_cg *cg, const tw_op *op, tw_type type)
{
    LLVMValueRef fine = NULL, bytes = tw_cg_real(cg->f64, tw_elem_bits(type->elem) / 8.0);
    for (unsigned i = 0; i < type->rank; i++) {
        tw_cg_lin dim = tw_cg_expr(cg, op, 0, type->dims[i]);
        LLVMValueRef value = tw_cg_lin_value(cg, &dim);
        require(cg, &fine, LLVMBuildICmp(cg->b, LLVMIntSGE, value, tw_cg_i64(cg, 0), ""));
        bytes = LLVMBuildFMul(cg->b, bytes, real_size(cg, op, type->dims[i]), "");
    }
    require(cg, &fine,
            LLVMBuildFCmp(cg->b, LLVMRealOLT, bytes, tw_cg_real(cg->f64, largest_size), ""));
    return fine;
}

/* Writes the dims of a tensor from output_dims[at] on: -1 where they are not known before the run.
 */
static void write_dims(tw_cg *cg, const tw_op *func, tw_type type, LLVMValueRef out, unsigned at,
                       LLVMValueRef *fine)
{
    const tw_op *module = tw_op_enclosing(func, &tw_core_ops[TW_CORE_MODULE]);
    bool later = module && tw_core_is_bound_type(module, type);
    for (unsigned i = 0; i < type->rank; i++) {
        tw_cg_lin dim = later ? tw_cg_lin_const(-1) : tw_cg_expr(cg, func, 0, type->dims[i]);
        LLVMBuildStore(cg->b, tw_cg_lin_value(cg, &dim),
                       tw_cg_offset(cg, out, tw_cg_i64(cg, 8 * (int64_t)(at + i))));
    }
    if (!later)
        require(cg, fine, tw_cg_size_fits(cg, func, type));
}

static LLVMValueRef arena_size(tw_cg *cg, const tw_op *func, LLVMValueRef *fine)
{
    tw_attr size = tw_op_attr(func, "arena_size");
    if (!size || size->kind == TW_ATTR_INT)
        return tw_cg_i64(cg, size ? size->u.integer : 0);
    tw_expr e = size->u.map.exprs[0];
    require(cg, fine,
            LLVMBuildFCmp(cg->b, LLVMRealOLT, real_size(cg, func, e),
                          tw_cg_real(cg->f64, largest_size), ""));
    tw_cg_lin bytes = tw_cg_expr(cg, func, 0, e);
    return tw_cg_lin_value(cg, &bytes);
}

/* Operations and bytes of one call of a kernel; 0 where they depend on what is known later. */
static LLVMValueRef work_of(tw_cg *cg, const tw_op *func, const tw_op *kernel, unsigned which)
{
    tw_attr work = kernel ? tw_op_attr(kernel, "work") : NULL;
    if (!work)
        return tw_cg_i64(cg, kernel ? tw_op_int(kernel, which ? "bytes" : "flops", 0) : 0);
    tw_expr e = work->u.map.exprs[which];
    if (tw_core_is_bound_size(tw_op_enclosing(func, &tw_core_ops[TW_CORE_MODULE]), e))
        return tw_cg_i64(cg, 0);
    tw_cg_lin value = tw_cg_expr(cg, func, 0, e);
    return tw_cg_lin_value(cg, &value);
}

/* What each call does, if it is asked for. */
static void write_work(tw_cg *cg, const tw_op *func, LLVMValueRef out)
{
    LLVMValueRef wanted = LLVMBuildIsNotNull(cg->b, out, "");
    LLVMBasicBlockRef after = tw_cg_if(cg, wanted);
    for (size_t i = 0; i < cg->program->n_calls; i++) {
        const char *callee = tw_op_string(cg->program->calls[i], "callee", "");
        const tw_op *module = tw_op_enclosing(func, &tw_core_ops[TW_CORE_MODULE]);
        const tw_op *kernel = tw_core_lookup((tw_op *)module, callee);
        for (unsigned k = 0; k < 2; k++)
            LLVMBuildStore(cg->b, work_of(cg, func, kernel, k),
                           tw_cg_offset(cg, out, tw_cg_i64(cg, 8 * (int64_t)(2 * i + k))));
    }
    tw_cg_endif(cg, after);
}

void tw_cg_plan(tw_cg *cg, tw_op *func)
{
    LLVMTypeRef types[] = {cg->ptr, cg->ptr, cg->ptr};
    LLVMValueRef f = LLVMAddFunction(cg->module, tw_cg_symbol(cg, "tw_plan"),
                                     LLVMFunctionType(cg->i64, types, 3, false));
    LLVMSetVisibility(f, LLVMHiddenVisibility);
    tw_cg_function_attributes(cg, f);
    tw_cg_func fn = {.value = f, .symbols = LLVMGetParam(f, 0)};
    tw_cg_func_open(cg, &fn);
    LLVMValueRef fine = NULL;
    check_symbols(cg, &fine);
    tw_region *body = &func->regions[0];
    unsigned outputs = (unsigned)tw_op_int(func, "outputs", 0), at = 0;
    for (unsigned i = outputs > body->n_args ? 0 : body->n_args - outputs; i < body->n_args; i++) {
        write_dims(cg, func, body->args[i]->type, LLVMGetParam(f, 1), at, &fine);
        at += body->args[i]->type->rank;
    }
    LLVMValueRef size = arena_size(cg, func, &fine);
    write_work(cg, func, LLVMGetParam(f, 2));
    LLVMBuildRet(cg->b, LLVMBuildSelect(cg->b, fine, size, tw_cg_i64(cg, -1), ""));
}
