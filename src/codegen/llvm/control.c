/* control.c: loops, conditions, and the walk over a region's operations. */
#include "codegen/llvm/cg.h"

#include <string.h>

static LLVMBasicBlockRef new_block(tw_cg *cg, const char *name)
{
    return LLVMAppendBasicBlockInContext(cg->llvm, cg->fn->value, name);
}

/* ---- Structured control flow ---- */

LLVMBasicBlockRef tw_cg_if(tw_cg *cg, LLVMValueRef condition)
{
    LLVMBasicBlockRef then = new_block(cg, "then"), after = new_block(cg, "after");
    LLVMBuildCondBr(cg->b, condition, then, after);
    LLVMPositionBuilderAtEnd(cg->b, then);
    return after;
}

void tw_cg_endif(tw_cg *cg, LLVMBasicBlockRef after)
{
    LLVMBuildBr(cg->b, after);
    LLVMPositionBuilderAtEnd(cg->b, after);
}

/* before: [guard] -> body: phi … -> [latch] -> body | after. Rotated like this, invariant code has
 * a place to go to (`before`) where it runs only if the body does. */
tw_cg_loop tw_cg_loop_begin(tw_cg *cg, LLVMValueRef begin, LLVMValueRef end, int64_t step,
                            bool runs, const char *name)
{
    tw_cg_loop loop = {.end = end, .step = step, .after = new_block(cg, "after")};
    LLVMBasicBlockRef before = LLVMGetInsertBlock(cg->b);
    if (!runs) {
        before = new_block(cg, "guarded");
        LLVMValueRef any = LLVMBuildICmp(cg->b, LLVMIntSLT, begin, end, "");
        LLVMBuildCondBr(cg->b, any, before, loop.after);
        LLVMPositionBuilderAtEnd(cg->b, before);
    }
    loop.body = new_block(cg, "loop");
    LLVMBuildBr(cg->b, loop.body);
    LLVMPositionBuilderAtEnd(cg->b, loop.body);
    loop.phi = LLVMBuildPhi(cg->b, cg->i64, name ? name : "i");
    LLVMAddIncoming(loop.phi, &begin, &before, 1);
    return loop;
}

void tw_cg_loop_end(tw_cg *cg, tw_cg_loop *loop)
{
    LLVMValueRef next = LLVMBuildNSWAdd(cg->b, loop->phi, tw_cg_i64(cg, loop->step), "");
    LLVMValueRef more = LLVMBuildICmp(cg->b, LLVMIntSLT, next, loop->end, "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(cg->b);
    LLVMBuildCondBr(cg->b, more, loop->body, loop->after);
    LLVMAddIncoming(loop->phi, &next, &latch, 1);
    LLVMPositionBuilderAtEnd(cg->b, loop->after);
}

/* ---- Operations ---- */

static void loop_over(tw_cg *cg, tw_op *op, const tw_cg_lin *lo, const tw_cg_lin *hi, int64_t step)
{
    tw_range from = tw_cg_lin_range(cg, lo), to = tw_cg_lin_range(cg, hi);
    if (to.hi <= from.lo && to.hi != INT64_MAX)
        return; /* never runs */
    bool runs = from.hi < to.lo;
    tw_value *variable = op->regions[0].args[0];
    LLVMValueRef begin = tw_cg_lin_value(cg, lo), end = tw_cg_lin_value(cg, hi);
    tw_cg_loop loop = tw_cg_loop_begin(cg, begin, end, step, runs, variable->name);
    tw_range range = {.lo = from.lo, .hi = to.hi == INT64_MAX ? INT64_MAX : to.hi - 1};
    tw_cg_lin *lin = TW_NEW(cg->arena, tw_cg_lin);
    *lin = tw_cg_lin_atom(cg, loop.phi, range);
    tw_cg_set_value(cg, variable, (tw_cg_value){.value = loop.phi, .lin = lin});
    tw_cg_region(cg, &op->regions[0]);
    tw_cg_loop_end(cg, &loop);
}

void tw_cg_for(tw_cg *cg, tw_op *op)
{
    const char *kind = tw_op_string(op, "kind", "serial");
    if (strcmp(kind, "parallel") == 0 && !cg->fn->parallel) {
        tw_cg_parallel_for(cg, op);
        return;
    }
    if (strcmp(kind, "serial") != 0 && strcmp(kind, "parallel") != 0)
        tw_cg_fail(cg, op, "a loop of kind '%s' must be lowered before code generation", kind);
    int64_t step = tw_op_int(op, "step", 1);
    if (step <= 0)
        tw_cg_fail(cg, op, "a loop's step must be positive, not %lld", (long long)step);
    tw_attr bounds = tw_op_attr(op, "bounds");
    tw_cg_lin lo = tw_cg_expr(cg, op, 0, bounds->u.map.exprs[0]);
    tw_cg_lin hi = tw_cg_expr(cg, op, 0, bounds->u.map.exprs[1]);
    loop_over(cg, op, &lo, &hi, step);
}

static void for_dynamic(tw_cg *cg, tw_op *op)
{
    tw_cg_lin lo = tw_cg_lin_of(cg, op, tw_operand(op, 0));
    tw_cg_lin hi = tw_cg_lin_of(cg, op, tw_operand(op, 1));
    loop_over(cg, op, &lo, &hi, 1);
}

static void emit_if(tw_cg *cg, tw_op *op)
{
    tw_cg_mask mask = tw_cg_set(cg, op, 0, tw_op_attr(op, "where"));
    if (mask.lanes)
        tw_cg_fail(cg, op, "the condition of loop.if must not depend on vectors");
    if (!mask.uniform) {
        tw_cg_region(cg, &op->regions[mask.never]);
        return;
    }
    LLVMBasicBlockRef then = new_block(cg, "then"), otherwise = new_block(cg, "else"),
                      after = new_block(cg, "after");
    LLVMBuildCondBr(cg->b, mask.uniform, then, otherwise);
    LLVMPositionBuilderAtEnd(cg->b, then);
    tw_cg_region(cg, &op->regions[0]);
    LLVMBuildBr(cg->b, after);
    LLVMPositionBuilderAtEnd(cg->b, otherwise);
    tw_cg_region(cg, &op->regions[1]);
    LLVMBuildBr(cg->b, after);
    LLVMPositionBuilderAtEnd(cg->b, after);
}

/* loop.index and loop.ramp stay forms until a value is asked for. */
static void emit_index(tw_cg *cg, tw_op *op)
{
    tw_cg_lin *lin = TW_NEW(cg->arena, tw_cg_lin);
    *lin = tw_cg_expr(cg, op, 0, tw_op_attr(op, "expr")->u.map.exprs[0]);
    lin->lanes = tw_cg_lanes(op->results[0].type);
    tw_cg_set_value(cg, &op->results[0], (tw_cg_value){.lin = lin});
}

static void emit_ramp(tw_cg *cg, tw_op *op)
{
    tw_cg_lin *lin = TW_NEW(cg->arena, tw_cg_lin);
    *lin = tw_cg_lin_of(cg, op, tw_operand(op, 0));
    lin->lanes = tw_cg_lanes(op->results[0].type);
    lin->step = 1;
    tw_cg_set_value(cg, &op->results[0], (tw_cg_value){.lin = lin});
}

void tw_cg_op(tw_cg *cg, tw_op *op)
{
    for (unsigned i = 0; i < op->n_results; i++)
        if (tw_cg_lanes(op->results[i].type) > TW_CG_MAX_LANES)
            tw_cg_fail(cg, op, "vectors may have %d lanes at most", TW_CG_MAX_LANES);
    switch (tw_loop_kind_of(op)) {
    case TW_LOOP_ALLOC:
        tw_cg_alloc(cg, op);
        break;
    case TW_LOOP_CONSTANT_BUFFER:
        tw_cg_constant_buffer(cg, op);
        break;
    case TW_LOOP_VIEW:
        tw_cg_view(cg, op);
        break;
    case TW_LOOP_BIND:
        tw_cg_bind(cg, op);
        break;
    case TW_LOOP_RENEW:
        tw_cg_renew(cg, op);
        break;
    case TW_LOOP_PROVIDE:
        tw_cg_provide(cg, op);
        break;
    case TW_LOOP_ROUTINE:
        tw_cg_routine(cg, op);
        break;
    case TW_LOOP_FOR:
        tw_cg_for(cg, op);
        break;
    case TW_LOOP_FOR_DYNAMIC:
        for_dynamic(cg, op);
        break;
    case TW_LOOP_IF:
        emit_if(cg, op);
        break;
    case TW_LOOP_LOAD:
        tw_cg_load(cg, op);
        break;
    case TW_LOOP_STORE:
        tw_cg_store(cg, op);
        break;
    case TW_LOOP_INDEX:
        emit_index(cg, op);
        break;
    case TW_LOOP_RAMP:
        emit_ramp(cg, op);
        break;
    default:
        if (!tw_cg_arith(cg, op) && !tw_cg_core(cg, op))
            tw_cg_fail(cg, op, "%s has no code generation", op->def->name);
    }
}

void tw_cg_region(tw_cg *cg, tw_region *region)
{
    for (tw_op *op = region->first; op; op = op->next)
        tw_cg_op(cg, op);
}

/* ---- Values ---- */

tw_cg_value *tw_cg_get(tw_cg *cg, const tw_op *user, const tw_value *value)
{
    tw_cg_value *v = tw_map_get_ptr(&cg->fn->values, value);
    if (!v)
        v = tw_cg_model_value(cg, value);
    if (!v)
        tw_cg_fail(cg, user, "operand %%%s of %s is not available here",
                   value->name ? value->name : "", user->def->name);
    return v;
}

void tw_cg_set_value(tw_cg *cg, const tw_value *value, tw_cg_value v)
{
    tw_cg_value *slot = TW_NEW(cg->arena, tw_cg_value);
    *slot = v;
    tw_map_put_ptr(&cg->fn->values, value, slot);
}

LLVMValueRef tw_cg_use(tw_cg *cg, const tw_op *user, unsigned operand)
{
    tw_cg_value *v = tw_cg_get(cg, user, tw_operand(user, operand));
    return v->value ? v->value : tw_cg_lin_value(cg, v->lin);
}

void tw_cg_define(tw_cg *cg, tw_op *op, LLVMValueRef result)
{
    tw_cg_set_value(cg, &op->results[0], (tw_cg_value){.value = result});
}
