/* entry.c: the model's own function: pointers from the host's arrays, then calls of kernels.
 *
 *     int32_t tw_entry(host, inputs, outputs, constants, arena, symbols)
 *       x = inputs[0], y = outputs[0]
 *       if (host->kernel_begin) host->kernel_begin(host, 0)
 *       if (status = kernel(host, arena, symbols, x, constants + 64, y)) return status
 *       if (host->kernel_end) host->kernel_end(host, 0)
 *       ... */
#include "codegen/llvm/cg.h"

#include "dialect/core/core.h"
#include "tilewright/model.h"

#include <string.h>

/* Arguments of a tw_abi_entry. */
enum { HOST, INPUTS, OUTPUTS, CONSTANTS, ARENA, SYMBOLS, N_ARGS };

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

/* Pointer i of an array of pointers. */
static LLVMValueRef pointer_at(tw_cg *cg, LLVMValueRef array, unsigned i)
{
    LLVMValueRef at = tw_cg_offset(cg, array, tw_cg_i64(cg, (int64_t)i * 8));
    return LLVMBuildLoad2(cg->b, cg->ptr, at, "");
}

void tw_cg_entry(tw_cg *cg, tw_op *func)
{
    LLVMTypeRef types[N_ARGS] = {cg->ptr, cg->ptr, cg->ptr, cg->ptr, cg->ptr, cg->ptr};
    LLVMValueRef f = LLVMAddFunction(cg->module, tw_cg_symbol(cg, "tw_entry"),
                                     LLVMFunctionType(cg->i32, types, N_ARGS, false));
    LLVMSetVisibility(f, LLVMHiddenVisibility);
    tw_cg_function_attributes(cg, f);
    tw_cg_func fn = {.value = f,
                     .host = LLVMGetParam(f, HOST),
                     .arena = LLVMGetParam(f, ARENA),
                     .symbols = LLVMGetParam(f, SYMBOLS),
                     .constants = LLVMGetParam(f, CONSTANTS)};
    tw_cg_func_begin(cg, &fn);
    tw_region *body = &func->regions[0];
    unsigned outputs = (unsigned)tw_op_int(func, "outputs", 0);
    unsigned inputs = outputs > body->n_args ? 0 : body->n_args - outputs;
    for (unsigned i = 0; i < body->n_args; i++) {
        tw_value *arg = body->args[i];
        bool is_output = i >= inputs;
        LLVMValueRef array = LLVMGetParam(f, is_output ? OUTPUTS : INPUTS);
        LLVMValueRef p = pointer_at(cg, array, is_output ? i - inputs : i);
        unsigned bits = tw_elem_bits(arg->type->elem);
        tw_cg_set_value(
            cg, arg,
            (tw_cg_value){
                .value = p,
                .buffer = {.root = arg, .written = is_output, .align = bits < 8 ? 1 : bits / 8}});
    }
    tw_cg_region(cg, body);
    tw_cg_func_end(cg);
}
