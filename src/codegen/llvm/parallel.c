/* parallel.c: a parallel loop becomes a function that the host calls on pieces of its range.
 *
 *     for %i = lo to hi parallel { body using %a, %b }
 * ->
 *     captures = { host, arena, symbols, status, lo, a, b }           on the caller's stack
 *     host->parallel_for(host, count, KERNEL.parallel, captures)
 *
 *     KERNEL.parallel(captures, begin, end)  calls  KERNEL.body(host, ..., a, b, begin, end)
 *
 * Where the loop has a condition, `when`, and that does not hold, KERNEL.parallel is called at
 * once. The second function has what the loop uses as arguments, so that pointers keep their
 * noalias. */
#include "codegen/llvm/cg.h"

#include "tilewright/model.h"

#include <string.h>

/* A value from outside that the loop uses. */
typedef struct capture {
    tw_value *value;
    tw_cg_value outside;
    LLVMValueRef passed; /* NULL: a constant, nothing needs to be passed */
    tw_range range;      /* of an index form's scalar part, or of its vector */
} capture;
typedef TW_VEC(capture) captures;

/* ---- What the loop uses ---- */

typedef struct collector {
    tw_cg *cg;
    const tw_op *loop;
    tw_map seen;
    captures found;
} collector;

static capture make_capture(tw_cg *cg, const tw_op *user, tw_value *value)
{
    tw_cg_value *v = tw_cg_get(cg, user, value);
    capture c = {.value = value, .passed = v->value};
    if (value->type->kind != TW_TYPE_BUFFER && value->type->elem == TW_INDEX) {
        tw_cg_lin whole = tw_cg_lin_of(cg, user, value);
        tw_cg_lin form = whole.vector ? whole : tw_cg_lin_base(&whole);
        c.passed = tw_cg_lin_value(cg, &form);
        c.range = tw_cg_lin_range(cg, &form);
    }
    c.outside = *v;
    if (LLVMIsConstant(c.passed))
        c.passed = NULL;
    return c;
}

static bool visit(tw_op *op, void *data)
{
    collector *c = data;
    for (unsigned i = 0; op != c->loop && i < op->n_operands; i++) {
        tw_value *value = tw_operand(op, i);
        bool outside = tw_map_get_ptr(&c->cg->fn->values, value);
        if (outside && !tw_map_put_ptr(&c->seen, value, value))
            tw_vec_push(c->cg->arena, &c->found, make_capture(c->cg, op, value));
    }
    return true;
}

/* Buffers that share memory with another captured one have no noalias. */
static void mark_shared(captures *all)
{
    for (size_t i = 0; i < all->len; i++)
        for (size_t k = 0; k < all->len; k++) {
            const tw_value *root = all->data[i].outside.buffer.root;
            if (i != k && root && root == all->data[k].outside.buffer.root)
                all->data[i].outside.buffer.aliased = true;
        }
}

/* ---- The functions ---- */

/* What a function gets, in this order; the loop's values come at CAPTURES. */
enum { HOST, ARENA, SYMBOLS, STATUS, LOWER, CAPTURES };

/* The value as seen inside, where `param` carries what was passed (NULL for a constant). */
static void define_inside(tw_cg *cg, const capture *c, LLVMValueRef param)
{
    tw_cg_value v = c->outside;
    v.buffer.stack = false;
    if (param)
        v.value = param;
    if (c->outside.lin) {
        tw_cg_lin *lin = TW_NEW(cg->arena, tw_cg_lin);
        const tw_cg_lin *old = c->outside.lin;
        if (old->vector)
            *lin = (tw_cg_lin){.vector = v.value, .range = c->range};
        else
            *lin = param ? tw_cg_lin_atom(cg, param, c->range) : tw_cg_lin_const(old->constant);
        if (!old->vector)
            lin->step = old->step;
        lin->lanes = old->lanes;
        v.lin = lin;
        v.value = NULL;
    }
    tw_cg_set_value(cg, c->value, v);
}

typedef struct outlined {
    LLVMTypeRef *types; /* of the values passed: fixed ones, then captures */
    LLVMValueRef *values;
    unsigned n;
    LLVMTypeRef structure;
    LLVMValueRef body, trampoline;
    LLVMTypeRef body_type;
} outlined;

static LLVMValueRef new_function(tw_cg *cg, const char *part, LLVMTypeRef type)
{
    size_t len;
    const char *outer = LLVMGetValueName2(cg->fn->value, &len);
    LLVMValueRef f =
        LLVMAddFunction(cg->module, tw_arena_printf(cg->arena, "%s.%s", outer, part), type);
    LLVMSetLinkage(f, LLVMInternalLinkage);
    tw_cg_function_attributes(cg, f);
    return f;
}

static void declare(tw_cg *cg, outlined *o)
{
    LLVMTypeRef *types = TW_NEW_ARRAY(cg->arena, LLVMTypeRef, o->n + 2);
    memcpy(types, o->types, o->n * sizeof *types);
    types[o->n] = types[o->n + 1] = cg->i64;
    o->structure = LLVMStructTypeInContext(cg->llvm, o->types, o->n, false);
    o->body_type = LLVMFunctionType(cg->void_t, types, o->n + 2, false);
    o->body = new_function(cg, "body", o->body_type);
    LLVMTypeRef entry[] = {cg->ptr, cg->i64, cg->i64};
    o->trampoline = new_function(cg, "parallel", LLVMFunctionType(cg->void_t, entry, 3, false));
}

/* Unpacks the structure and goes to the body. */
static void emit_trampoline(tw_cg *cg, const outlined *o)
{
    LLVMBasicBlockRef block = LLVMAppendBasicBlockInContext(cg->llvm, o->trampoline, "entry");
    LLVMPositionBuilderAtEnd(cg->b, block);
    LLVMValueRef *args = TW_NEW_ARRAY(cg->arena, LLVMValueRef, o->n + 2);
    for (unsigned i = 0; i < o->n; i++) {
        LLVMValueRef at =
            LLVMBuildStructGEP2(cg->b, o->structure, LLVMGetParam(o->trampoline, 0), i, "");
        args[i] = LLVMBuildLoad2(cg->b, o->types[i], at, "");
    }
    args[o->n] = LLVMGetParam(o->trampoline, 1);
    args[o->n + 1] = LLVMGetParam(o->trampoline, 2);
    LLVMValueRef call = LLVMBuildCall2(cg->b, o->body_type, o->body, args, o->n + 2, "");
    LLVMSetTailCall(call, true);
    LLVMBuildRetVoid(cg->b);
}

/* The loop from `begin` to `end` in counts of its iterations. True when it may fail. */
static bool emit_body(tw_cg *cg, tw_op *op, const outlined *o, const captures *found,
                      tw_range counts, tw_range lower)
{
    tw_cg_func fn = {.value = o->body,
                     .host = LLVMGetParam(o->body, HOST),
                     .arena = LLVMGetParam(o->body, ARENA),
                     .symbols = LLVMGetParam(o->body, SYMBOLS),
                     .status_out = LLVMGetParam(o->body, STATUS),
                     .parallel = true};
    tw_cg_func_begin(cg, &fn);
    unsigned next = CAPTURES;
    for (size_t i = 0; i < found->len; i++) {
        const capture *c = &found->data[i];
        if (c->passed && c->value->type->kind == TW_TYPE_BUFFER)
            tw_cg_buffer_attributes(cg, o->body, next, &c->outside.buffer);
        define_inside(cg, c, c->passed ? LLVMGetParam(o->body, next++) : NULL);
    }
    tw_value *variable = op->regions[0].args[0];
    tw_cg_loop loop = tw_cg_loop_begin(cg, LLVMGetParam(o->body, o->n),
                                       LLVMGetParam(o->body, o->n + 1), 1, false, variable->name);
    tw_cg_lin count = tw_cg_lin_atom(cg, loop.phi, counts);
    tw_cg_lin first = tw_cg_lin_atom(cg, LLVMGetParam(o->body, LOWER), lower);
    if (lower.lo == lower.hi)
        first = tw_cg_lin_const(lower.lo);
    tw_cg_lin *lin = TW_NEW(cg->arena, tw_cg_lin);
    *lin = tw_cg_lin_add(cg, &first, &count, tw_op_int(op, "step", 1));
    tw_cg_set_value(cg, variable, (tw_cg_value){.lin = lin});
    tw_cg_region(cg, &op->regions[0]);
    tw_cg_loop_end(cg, &loop);
    tw_cg_func_end(cg);
    return fn.heap.len > 0;
}

/* ---- The call ---- */

static void call_parallel_for(tw_cg *cg, const outlined *o, LLVMValueRef count,
                              LLVMValueRef structure)
{
    LLVMTypeRef args[] = {cg->ptr, cg->i64, cg->ptr, cg->ptr};
    LLVMTypeRef signature = LLVMFunctionType(cg->void_t, args, 4, false);
    LLVMValueRef f = tw_cg_host_field(cg, offsetof(tw_abi_host, parallel_for), cg->ptr);
    LLVMValueRef values[] = {cg->fn->host, count, o->trampoline, structure};
    LLVMBuildCall2(cg->b, signature, f, values, 4, "");
}

static void call_alone(tw_cg *cg, const outlined *o, LLVMValueRef count, LLVMValueRef structure)
{
    LLVMValueRef values[] = {structure, tw_cg_i64(cg, 0), count};
    LLVMBuildCall2(cg->b, LLVMGlobalGetValueType(o->trampoline), o->trampoline, values, 3, "");
}

static void call_host(tw_cg *cg, tw_op *op, const outlined *o, LLVMValueRef count, bool may_fail)
{
    LLVMValueRef structure = tw_cg_alloca(cg, o->structure, 64, "captures");
    for (unsigned i = 0; i < o->n; i++)
        LLVMBuildStore(cg->b, o->values[i],
                       LLVMBuildStructGEP2(cg->b, o->structure, structure, i, ""));
    tw_cg_mask mask = tw_cg_set(cg, op, 0, tw_op_attr(op, "when"));
    if (mask.uniform) {
        LLVMBasicBlockRef after = tw_cg_if(cg, LLVMBuildNot(cg->b, mask.uniform, ""));
        call_alone(cg, o, count, structure);
        tw_cg_endif(cg, after);
        after = tw_cg_if(cg, mask.uniform);
        call_parallel_for(cg, o, count, structure);
        tw_cg_endif(cg, after);
    } else if (mask.never) {
        call_alone(cg, o, count, structure);
    } else {
        call_parallel_for(cg, o, count, structure);
    }
    if (!may_fail)
        return;
    LLVMValueRef status = LLVMBuildLoad2(cg->b, cg->i32, cg->fn->status, "");
    LLVMValueRef failed = LLVMBuildICmp(cg->b, LLVMIntNE, status, tw_cg_int(cg->i32, 0), "");
    tw_cg_return_if(cg, failed, status);
}

void tw_cg_parallel_for(tw_cg *cg, tw_op *op)
{
    collector c = {.cg = cg, .loop = op, .seen = tw_map_make(cg->arena)};
    tw_walk(op, visit, &c);
    mark_shared(&c.found);

    tw_attr bounds = tw_op_attr(op, "bounds");
    tw_cg_lin lo = tw_cg_expr(cg, op, 0, bounds->u.map.exprs[0]);
    tw_cg_lin hi = tw_cg_expr(cg, op, 0, bounds->u.map.exprs[1]);
    tw_cg_lin count = tw_cg_lin_add(cg, &hi, &lo, -1);
    int64_t step = tw_op_int(op, "step", 1);
    count.constant += step - 1;
    count = tw_cg_lin_divide(cg, &count, step, false);
    tw_range counts = {.lo = 0, .hi = tw_cg_lin_range(cg, &count).hi};
    if (counts.hi != INT64_MAX)
        counts.hi--;

    outlined o = {0};
    o.types = TW_NEW_ARRAY(cg->arena, LLVMTypeRef, c.found.len + CAPTURES);
    o.values = TW_NEW_ARRAY(cg->arena, LLVMValueRef, c.found.len + CAPTURES);
    LLVMValueRef fixed[] = {cg->fn->host, cg->fn->arena, cg->fn->symbols, cg->fn->status,
                            tw_cg_lin_value(cg, &lo)};
    for (; o.n < CAPTURES; o.n++)
        o.values[o.n] = fixed[o.n];
    for (size_t i = 0; i < c.found.len; i++)
        if (c.found.data[i].passed)
            o.values[o.n++] = c.found.data[i].passed;
    for (unsigned i = 0; i < o.n; i++)
        o.types[i] = LLVMTypeOf(o.values[i]);

    declare(cg, &o);
    tw_cg_func *outer = cg->fn;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(cg->b);
    emit_trampoline(cg, &o);
    bool may_fail = emit_body(cg, op, &o, &c.found, counts, tw_cg_lin_range(cg, &lo));
    cg->fn = outer;
    LLVMPositionBuilderAtEnd(cg->b, here);
    call_host(cg, op, &o, tw_cg_lin_value(cg, &count), may_fail);
}
