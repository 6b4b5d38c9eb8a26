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
 * LLVM takes more than linear time for a long function. So pointers are made where they are used,
 * and many calls are spread over functions tw_entry.0, .1, … that tw_entry calls. Sizes that the
 * data decides are in frame.c. */
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

bool tw_cg_core(tw_cg *cg, tw_op *op)
{
    if (tw_is_core(op, TW_CORE_RETURN))
        return true;
    if (!tw_is_core(op, TW_CORE_CALL))
        return false;
    call(cg, op);
    return true;
}

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
           tw_is_loop(op, TW_LOOP_PROVIDE) ||
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
    return tw_map_get_ptr(&cg->fn->values, value);
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

/* Operations that do something, or 0 when there are some that cannot stand in functions apart. */
static size_t count_steps(const tw_cg *cg, const tw_op *func)
{
    size_t n = 0;
    for (const tw_op *op = func->regions[0].first; op; op = op->next)
        if (is_step(cg, op))
            n++;
        else if (!tw_is_core(op, TW_CORE_RETURN) && !is_place(op))
            return 0;
    return n;
}

/* A function for the next PART_STEPS steps from *next on, whose calls are numbered from *calls on.
 */
static LLVMValueRef make_part(tw_cg *cg, tw_op *func, const tw_cg_frame *frame, size_t number,
                              tw_op **next, unsigned *calls)
{
    tw_cg_func fn;
    begin(cg, func, tw_arena_printf(cg->arena, "tw_entry.%zu", number), &fn);
    fn.calls = *calls;
    fn.frame = frame;
    for (size_t steps = 0; *next && steps < PART_STEPS; *next = (*next)->next)
        if (is_step(cg, *next)) {
            tw_cg_op(cg, *next);
            steps++;
        }
    tw_cg_func_end(cg);
    *calls = fn.calls;
    return fn.value;
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

void tw_cg_entry(tw_cg *cg, tw_op *func)
{
    const tw_cg_frame *frame = tw_cg_frame_of(cg, func);
    TW_VEC(LLVMValueRef) parts = {0};
    tw_cg_func fn = {.frame = frame};
    cg->fn = &fn; /* what stands in the frame is asked for before a function begins */
    if (count_steps(cg, func) > PART_STEPS) {
        unsigned calls = 0;
        for (tw_op *next = func->regions[0].first; next;) {
            LLVMValueRef part = make_part(cg, func, frame, parts.len, &next, &calls);
            tw_vec_push(cg->arena, &parts, part);
        }
    }
    begin(cg, func, "tw_entry", &fn);
    if (frame)
        tw_cg_frame_open(cg, frame);
    for (size_t i = 0; i < parts.len; i++)
        call_part(cg, parts.data[i]);
    if (!parts.len)
        tw_cg_region(cg, &func->regions[0]);
    tw_cg_func_end(cg);
}
