/* entry.c: the model's own function: calls of kernels with pointers from the host's arrays, into
 * the arena and into the constants.
 *
 *     int32_t tw_entry(host, inputs, outputs, constants, arena, symbols)
 *       if (host->kernel_begin) host->kernel_begin(host, 0)
 *       if (status = kernel(host, arena, symbols, inputs[0], constants + 64, outputs[0]))
 *         return status
 *       if (host->kernel_end) host->kernel_end(host, 0)
 *       ...
 *
 * Control flow between calls stays control flow; conditions are loaded from buffers.
 *
 * LLVM takes more than linear time for a long function. So pointers are made where they are used,
 * and many steps are spread over functions tw_entry.N that tw_entry calls. Regions with many steps
 * are cut up likewise. Sizes that the data decides are in frame.c. */
#include "codegen/llvm/cg.h"

#include "dialect/core/core.h"
#include "tilewright/model.h"

#include <string.h>

/* Arguments of a tw_abi_entry. */
enum { HOST, INPUTS, OUTPUTS, CONSTANTS, ARENA, SYMBOLS, N_ARGS };

enum { PART_STEPS = 100 }; /* in one function */

/* Calls a profiling hook of the host if there is one. */
static void hook(tw_cg *cg, size_t offset, unsigned kernel)
{
    LLVMValueRef f = tw_cg_host_field(cg, offset, cg->ptr);
    LLVMBasicBlockRef after = tw_cg_if(cg, LLVMBuildIsNotNull(cg->b, f, ""));
    LLVMTypeRef args[] = {cg->ptr, cg->i32};
    LLVMTypeRef signature = LLVMFunctionType(cg->void_t, args, 2, false);
    LLVMValueRef values[] = {cg->fn->host, LLVMConstInt(cg->i32, kernel, false)};
    LLVMBuildCall2(cg->b, signature, f, values, 2, "");
    tw_cg_endif(cg, after);
}

static void call(tw_cg *cg, tw_op *op)
{
    tw_op *kernel = tw_map_get_str(&cg->program->kernels, tw_op_string(op, "callee", ""));
    unsigned number = cg->fn->calls++, n = 0;
    LLVMValueRef *args = TW_NEW_ARRAY(cg->arena, LLVMValueRef, op->n_operands + 3);
    args[n++] = cg->fn->host;
    args[n++] = cg->fn->arena;
    args[n++] = cg->fn->symbols;
    for (unsigned i = 0; i < op->n_operands; i++)
        args[n++] = tw_cg_use(cg, op, i);
    LLVMValueRef f = tw_cg_kernel_declare(cg, kernel);
    hook(cg, offsetof(tw_abi_host, kernel_begin), number);
    LLVMValueRef status = LLVMBuildCall2(cg->b, tw_cg_kernel_type(cg, kernel), f, args, n, "");
    LLVMValueRef failed = LLVMBuildICmp(cg->b, LLVMIntNE, status, tw_cg_int(cg->i32, 0), "");
    tw_cg_return_if(cg, failed, status);
    hook(cg, offsetof(tw_abi_host, kernel_end), number);
}

/* ---- Control flow ---- */

/* Builds the operations of a region, in one way or another. */
typedef void (*region_builder)(tw_cg *cg, tw_region *region);

static LLVMBasicBlockRef new_block(tw_cg *cg, const char *name)
{
    return LLVMAppendBasicBlockInContext(cg->llvm, cg->fn->value, name);
}

static LLVMValueRef condition_holds(tw_cg *cg, tw_op *op, unsigned operand)
{
    LLVMValueRef byte = LLVMBuildLoad2(cg->b, cg->i8, tw_cg_use(cg, op, operand), "");
    return LLVMBuildICmp(cg->b, LLVMIntNE, byte, tw_cg_int(cg->i8, 0), "");
}

static void core_if(tw_cg *cg, tw_op *op, region_builder build)
{
    LLVMBasicBlockRef then = new_block(cg, "then"), otherwise = new_block(cg, "else"),
                      after = new_block(cg, "after");
    LLVMBuildCondBr(cg->b, condition_holds(cg, op, 0), then, otherwise);
    LLVMPositionBuilderAtEnd(cg->b, then);
    build(cg, &op->regions[0]);
    LLVMBuildBr(cg->b, after);
    LLVMPositionBuilderAtEnd(cg->b, otherwise);
    build(cg, &op->regions[1]);
    LLVMBuildBr(cg->b, after);
    LLVMPositionBuilderAtEnd(cg->b, after);
}

/* before -> head: i < trips? -> more: condition? -> body -> head */
static void core_loop(tw_cg *cg, tw_op *op, region_builder build)
{
    LLVMBasicBlockRef head = new_block(cg, "head"), more = new_block(cg, "more"),
                      body = new_block(cg, "body"), after = new_block(cg, "after");
    LLVMValueRef trips = LLVMBuildLoad2(cg->b, cg->i64, tw_cg_use(cg, op, 1), "trips");
    LLVMValueRef zero = tw_cg_i64(cg, 0);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(cg->b);
    LLVMBuildBr(cg->b, head);
    LLVMPositionBuilderAtEnd(cg->b, head);
    LLVMValueRef i = LLVMBuildPhi(cg->b, cg->i64, "trip");
    LLVMAddIncoming(i, &zero, &before, 1);
    LLVMBuildCondBr(cg->b, LLVMBuildICmp(cg->b, LLVMIntSLT, i, trips, ""), more, after);
    LLVMPositionBuilderAtEnd(cg->b, more);
    LLVMBuildCondBr(cg->b, condition_holds(cg, op, 2), body, after);
    LLVMPositionBuilderAtEnd(cg->b, body);
    LLVMBuildStore(cg->b, i, tw_cg_use(cg, op, 0));
    build(cg, &op->regions[0]);
    LLVMValueRef next = LLVMBuildNSWAdd(cg->b, i, tw_cg_i64(cg, 1), "");
    LLVMBasicBlockRef latch = LLVMGetInsertBlock(cg->b);
    LLVMAddIncoming(i, &next, &latch, 1);
    LLVMBuildBr(cg->b, head);
    LLVMPositionBuilderAtEnd(cg->b, after);
}

static bool emit_core(tw_cg *cg, tw_op *op, region_builder build)
{
    switch (tw_core_kind_of(op)) {
    case TW_CORE_RETURN:
        return true;
    case TW_CORE_CALL:
        call(cg, op);
        return true;
    case TW_CORE_IF:
        core_if(cg, op, build);
        return true;
    case TW_CORE_LOOP:
        core_loop(cg, op, build);
        return true;
    case TW_CORE_FAIL:
        tw_cg_exit_if(cg, tw_cg_int(cg->i1, 1), tw_op_string(op, "message", ""));
        return true;
    default:
        return false;
    }
}

static void check(tw_cg *cg, tw_op *op)
{
    tw_cg_mask set = tw_cg_set(cg, op, 0, tw_op_attr(op, "sets"));
    LLVMValueRef failed = set.never     ? LLVMConstInt(cg->i1, 1, false)
                          : set.uniform ? LLVMBuildNot(cg->b, set.uniform, "")
                                        : NULL;
    if (failed)
        tw_cg_exit_if(cg, failed,
                      tw_arena_printf(cg->arena, "%s%s", tw_cg_where(cg, op),
                                      tw_op_string(op, "message", "")));
}

bool tw_cg_core(tw_cg *cg, tw_op *op)
{
    if (tw_is_loop(op, TW_LOOP_CHECK)) {
        check(cg, op);
        return true;
    }
    return emit_core(cg, op, tw_cg_region);
}

/* ---- Places ---- */

static tw_cg_value *model_arg(tw_cg *cg, const tw_op *func, const tw_value *arg)
{
    unsigned outputs = (unsigned)tw_op_int(func, "outputs", 0), n = func->regions[0].n_args;
    unsigned inputs = outputs > n ? 0 : n - outputs;
    bool is_output = arg->index >= inputs;
    LLVMValueRef array = LLVMGetParam(cg->fn->value, is_output ? OUTPUTS : INPUTS);
    int64_t i = is_output ? arg->index - inputs : arg->index;
    LLVMValueRef at = tw_cg_offset(cg, array, tw_cg_i64(cg, i * 8));
    unsigned bits = tw_elem_bits(arg->type->elem);
    tw_cg_value *v = TW_NEW(cg->arena, tw_cg_value);
    *v = (tw_cg_value){
        .value = tw_cg_in_frame(cg, arg) ? tw_cg_frame_pointer(cg, arg)
                                         : LLVMBuildLoad2(cg->b, cg->ptr, at, ""),
        .buffer = {.root = arg, .written = is_output, .align = bits < 8 ? 1 : bits / 8}};
    return v;
}

/* A buffer of its own from the host. */
static tw_cg_value *frame_buffer(tw_cg *cg, const tw_value *value)
{
    tw_cg_value *v = TW_NEW(cg->arena, tw_cg_value);
    *v = (tw_cg_value){.value = tw_cg_frame_pointer(cg, value),
                       .buffer = {.root = value, .written = true, .align = TW_ABI_ALIGN}};
    return v;
}

/* Whether an operation of the function only says where something lies. */
static bool is_place(const tw_op *op)
{
    return tw_is_loop(op, TW_LOOP_VIEW) || tw_is_loop(op, TW_LOOP_CONSTANT_BUFFER) ||
           (tw_is_loop(op, TW_LOOP_ALLOC) && tw_op_attr(op, "offset"));
}

/* Whether it does something, and leaves nothing but memory and symbols to what follows. */
static bool is_step(const tw_cg *cg, const tw_op *op)
{
    return tw_is_core(op, TW_CORE_CALL) || tw_is_loop(op, TW_LOOP_BIND) ||
           tw_is_loop(op, TW_LOOP_PROVIDE) || tw_is_loop(op, TW_LOOP_RENEW) ||
           tw_is_loop(op, TW_LOOP_CHECK) || tw_is_loop(op, TW_LOOP_ROUTINE) ||
           (tw_is_loop(op, TW_LOOP_ALLOC) && tw_cg_in_frame(cg, &op->results[0]));
}

static void make_place(tw_cg *cg, tw_op *op)
{
    if (tw_is_loop(op, TW_LOOP_VIEW))
        tw_cg_view(cg, op);
    else if (tw_is_loop(op, TW_LOOP_ALLOC))
        tw_cg_alloc(cg, op);
    else
        tw_cg_constant_buffer(cg, op);
}

tw_cg_value *tw_cg_model_value(tw_cg *cg, const tw_value *value)
{
    const tw_op *func = cg->fn->model;
    if (!func)
        return NULL;
    if (!value->op)
        return value->region == &func->regions[0] ? model_arg(cg, func, value) : NULL;
    if (tw_cg_in_frame(cg, value))
        return frame_buffer(cg, value);
    TW_VEC(tw_op *) missing = {0}; /* a view, what it is a view of, and so on */
    for (const tw_value *v = value;
         v->op && !tw_map_get_ptr(&cg->fn->values, v) && !tw_cg_in_frame(cg, v);) {
        if (!is_place(v->op))
            return NULL;
        tw_vec_push(cg->arena, &missing, v->op);
        if (tw_is_loop(v->op, TW_LOOP_VIEW))
            v = tw_operand(v->op, 0);
        else
            break;
    }
    for (size_t i = missing.len; i-- > 0;)
        make_place(cg, missing.data[i]);
    tw_cg_value *made = tw_map_get_ptr(&cg->fn->values, value);
    for (size_t i = 0; i < missing.len; i++) /* not valid in other branches */
        tw_map_put_ptr(&cg->fn->values, tw_result(missing.data[i], 0), NULL);
    return made;
}

/* ---- Functions ---- */

static LLVMTypeRef entry_type(tw_cg *cg)
{
    LLVMTypeRef types[N_ARGS] = {cg->ptr, cg->ptr, cg->ptr, cg->ptr, cg->ptr, cg->ptr};
    return LLVMFunctionType(cg->i32, types, N_ARGS, false);
}

static void begin(tw_cg *cg, tw_op *func, const char *name, tw_cg_func *fn)
{
    LLVMValueRef f = LLVMAddFunction(cg->module, tw_cg_symbol(cg, name), entry_type(cg));
    LLVMSetVisibility(f, LLVMHiddenVisibility);
    tw_cg_function_attributes(cg, f);
    *fn = (tw_cg_func){.value = f,
                       .model = func,
                       .host = LLVMGetParam(f, HOST),
                       .arena = LLVMGetParam(f, ARENA),
                       .symbols = LLVMGetParam(f, SYMBOLS),
                       .constants = LLVMGetParam(f, CONSTANTS)};
    tw_cg_func_begin(cg, fn);
}

/* What an operation and all inside are to the entry. */
typedef struct census {
    const tw_cg *cg;
    size_t steps;
    bool divisible; /* whatever is there can stand in a function apart */
} census;

static bool count_op(tw_op *op, void *data)
{
    census *c = data;
    bool step = is_step(c->cg, op);
    c->steps += step;
    c->divisible = c->divisible && (step || is_place(op) || tw_is_loop(op, TW_LOOP_IF) ||
                                    tw_core_kind_of(op) != TW_CORE_COUNT);
    return true;
}

static census count_steps(const tw_cg *cg, tw_op *op)
{
    census c = {.cg = cg, .divisible = true};
    tw_walk(op, count_op, &c);
    return c;
}

static void build_in_parts(tw_cg *cg, tw_region *region);

static void build_step(tw_cg *cg, tw_op *op)
{
    if (!is_place(op) && !emit_core(cg, op, build_in_parts))
        tw_cg_op(cg, op);
}

static void call_part(tw_cg *cg, LLVMValueRef part)
{
    LLVMValueRef args[N_ARGS];
    LLVMGetParams(cg->fn->value, args);
    args[SYMBOLS] = cg->fn->symbols;
    LLVMValueRef status = LLVMBuildCall2(cg->b, entry_type(cg), part, args, N_ARGS, "");
    LLVMValueRef failed = LLVMBuildICmp(cg->b, LLVMIntNE, status, tw_cg_int(cg->i32, 0), "");
    tw_cg_return_if(cg, failed, status);
}

/* Calls a function for the operations from `first` up to `end`, which are few steps. */
static void make_part(tw_cg *cg, tw_op *first, const tw_op *end)
{
    tw_cg_func fn, *outer = cg->fn;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(cg->b);
    begin(cg, (tw_op *)outer->model, tw_arena_printf(cg->arena, "tw_entry.%u", outer->calls), &fn);
    fn.calls = outer->calls;
    fn.frame = outer->frame;
    for (tw_op *op = first; op != end; op = op->next)
        build_step(cg, op);
    tw_cg_func_end(cg);
    outer->calls = fn.calls;
    cg->fn = outer;
    LLVMPositionBuilderAtEnd(cg->b, here);
    call_part(cg, fn.value);
}

/* Operations one by one; of a long region in functions of some PART_STEPS steps, save control flow
 * with more than that inside, which stays here. */
static void build_in_parts(tw_cg *cg, tw_region *region)
{
    size_t total = 0, n = 0;
    for (tw_op *op = region->first; op; op = op->next)
        total += count_steps(cg, op).steps;
    tw_op *first = region->first;
    for (tw_op *op = first; op; op = op->next) {
        size_t steps = total > PART_STEPS ? count_steps(cg, op).steps : PART_STEPS + 1;
        if (n && n + steps > PART_STEPS) {
            make_part(cg, first, op);
            n = 0;
        }
        if (!n)
            first = op;
        n += steps;
        if (n > PART_STEPS) {
            build_step(cg, op);
            n = 0;
        }
    }
    if (n)
        make_part(cg, first, NULL);
}

void tw_cg_entry(tw_cg *cg, tw_op *func)
{
    const tw_cg_frame *frame = tw_cg_frame_of(cg, func);
    tw_cg_func fn;
    begin(cg, func, "tw_entry", &fn);
    if (frame)
        tw_cg_frame_open(cg, frame);
    bool divisible = true;
    size_t steps = 0;
    for (tw_op *op = func->regions[0].first; op; op = op->next) {
        census c = count_steps(cg, op);
        divisible = divisible && c.divisible;
        steps += c.steps;
    }
    if (divisible && steps > PART_STEPS)
        build_in_parts(cg, &func->regions[0]);
    else
        tw_cg_region(cg, &func->regions[0]);
    tw_cg_func_end(cg);
}
