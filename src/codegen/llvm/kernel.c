/* kernel.c: a loop.kernel as a function, and what all functions have: a prologue that makes stack
 * slots and takes memory, and one exit that gives it back and returns the status. */
#include "codegen/llvm/cg.h"

#include "artifact/abi.h"

#include <string.h>

/* ---- Functions ---- */

LLVMValueRef tw_cg_host_field(tw_cg *cg, size_t offset, LLVMTypeRef type)
{
    LLVMValueRef at = tw_cg_offset(cg, cg->fn->host, tw_cg_i64(cg, (int64_t)offset));
    return LLVMBuildLoad2(cg->b, type, at, "");
}

void tw_cg_func_open(tw_cg *cg, tw_cg_func *fn)
{
    cg->fn = fn;
    fn->values = tw_map_make(cg->arena);
    fn->symbol_atoms = tw_map_make(cg->arena);
    fn->entry = LLVMAppendBasicBlockInContext(cg->llvm, fn->value, "entry");
    fn->body = LLVMAppendBasicBlockInContext(cg->llvm, fn->value, "body");
    fn->allocated = fn->entry;
    LLVMPositionBuilderAtEnd(cg->b, fn->entry);
    LLVMBuildBr(cg->b, fn->body);
    LLVMPositionBuilderAtEnd(cg->b, fn->body);
}

void tw_cg_func_begin(tw_cg *cg, tw_cg_func *fn)
{
    tw_cg_func_open(cg, fn);
    fn->exit = LLVMAppendBasicBlockInContext(cg->llvm, fn->value, "exit");
    fn->status = tw_cg_alloca(cg, cg->i32, 4, "status");
    LLVMPositionBuilderBefore(cg->side, LLVMGetBasicBlockTerminator(fn->entry));
    LLVMBuildStore(cg->side, tw_cg_int(cg->i32, 0), fn->status);
}

static void free_heap(tw_cg *cg)
{
    tw_cg_func *fn = cg->fn;
    for (size_t i = 0; i < fn->heap.len; i++) { /* nothing yet */
        LLVMPositionBuilderBefore(cg->side, LLVMGetNextInstruction(fn->heap.data[i]));
        LLVMBuildStore(cg->side, LLVMConstNull(cg->ptr), fn->heap.data[i]);
    }
    LLVMTypeRef args[] = {cg->ptr, cg->ptr};
    LLVMTypeRef signature = LLVMFunctionType(cg->void_t, args, 2, false);
    for (size_t i = fn->heap.len; i > 0; i--) {
        LLVMValueRef memory = LLVMBuildLoad2(cg->b, cg->ptr, fn->heap.data[i - 1], "");
        LLVMValueRef release = tw_cg_host_field(cg, offsetof(tw_abi_host, free), cg->ptr);
        LLVMBuildCall2(cg->b, signature, release, (LLVMValueRef[]){fn->host, memory}, 2, "");
    }
}

void tw_cg_func_end(tw_cg *cg)
{
    tw_cg_func *fn = cg->fn;
    LLVMBuildBr(cg->b, fn->exit);
    LLVMMoveBasicBlockAfter(fn->exit, LLVMGetLastBasicBlock(fn->value));
    LLVMPositionBuilderAtEnd(cg->b, fn->exit);
    free_heap(cg);
    tw_cg_frame_close(cg);
    LLVMValueRef status = LLVMBuildLoad2(cg->b, cg->i32, fn->status, "");
    if (!fn->status_out) {
        LLVMBuildRet(cg->b, status);
        return;
    }
    LLVMValueRef failed = LLVMBuildICmp(cg->b, LLVMIntNE, status, tw_cg_int(cg->i32, 0), "");
    LLVMBasicBlockRef after = tw_cg_if(cg, failed);
    LLVMValueRef store = LLVMBuildStore(cg->b, status, fn->status_out);
    LLVMSetOrdering(store, LLVMAtomicOrderingMonotonic); /* several threads may fail at once */
    LLVMSetAlignment(store, 4);
    tw_cg_endif(cg, after);
    LLVMBuildRetVoid(cg->b);
}

/* Goes on in *stay, and now builds what is done when the condition holds, up to the jump to exit.
 */
static void open_leave(tw_cg *cg, LLVMValueRef condition, LLVMBasicBlockRef *stay)
{
    LLVMBasicBlockRef leave = LLVMAppendBasicBlockInContext(cg->llvm, cg->fn->value, "leave");
    *stay = LLVMAppendBasicBlockInContext(cg->llvm, cg->fn->value, "stay");
    LLVMBuildCondBr(cg->b, condition, leave, *stay);
    LLVMPositionBuilderAtEnd(cg->b, leave);
}

static void close_leave(tw_cg *cg, LLVMValueRef status, LLVMBasicBlockRef stay)
{
    LLVMBuildStore(cg->b, status, cg->fn->status);
    LLVMBuildBr(cg->b, cg->fn->exit);
    LLVMPositionBuilderAtEnd(cg->b, stay);
}

void tw_cg_return_if(tw_cg *cg, LLVMValueRef condition, LLVMValueRef status)
{
    LLVMBasicBlockRef stay;
    open_leave(cg, condition, &stay);
    close_leave(cg, status, stay);
}

/* host->error(host, code, text) */
static LLVMValueRef tell(tw_cg *cg, LLVMValueRef host, int code, LLVMValueRef text)
{
    LLVMTypeRef args[] = {cg->ptr, cg->i32, cg->ptr};
    LLVMTypeRef signature = LLVMFunctionType(cg->i32, args, 3, false);
    LLVMValueRef at = tw_cg_offset(cg, host, tw_cg_i64(cg, offsetof(tw_abi_host, error)));
    LLVMValueRef error = LLVMBuildLoad2(cg->b, cg->ptr, at, "");
    LLVMValueRef values[] = {host, tw_cg_int(cg->i32, code), text};
    return LLVMBuildCall2(cg->b, signature, error, values, 3, "");
}

static LLVMValueRef report(tw_cg *cg, int code, const char *message)
{
    return tell(cg, cg->fn->host, code, LLVMBuildGlobalStringPtr(cg->b, message, ""));
}

/* Writes the digits from the end of the buffer on, then tells the host. */
static void define_number(tw_cg *cg, LLVMValueRef f)
{
    enum { SIZE = 24 };
    LLVMValueRef host = LLVMGetParam(f, 0), value = LLVMGetParam(f, 1), zero = tw_cg_i64(cg, 0);
    LLVMBasicBlockRef entry = LLVMAppendBasicBlockInContext(cg->llvm, f, "entry");
    LLVMBasicBlockRef digit = LLVMAppendBasicBlockInContext(cg->llvm, f, "digit");
    LLVMBasicBlockRef done = LLVMAppendBasicBlockInContext(cg->llvm, f, "done");
    LLVMPositionBuilderAtEnd(cg->b, entry);
    LLVMValueRef text = LLVMBuildAlloca(cg->b, LLVMArrayType2(cg->i8, SIZE), "text");
    LLVMBuildStore(cg->b, tw_cg_int(cg->i8, 0), tw_cg_offset(cg, text, tw_cg_i64(cg, SIZE - 1)));
    LLVMValueRef negative = LLVMBuildICmp(cg->b, LLVMIntSLT, value, zero, "");
    LLVMValueRef size = LLVMBuildSelect(cg->b, negative, LLVMBuildNeg(cg->b, value, ""), value, "");
    LLVMBuildBr(cg->b, digit);
    LLVMPositionBuilderAtEnd(cg->b, digit);
    LLVMValueRef behind = LLVMBuildPhi(cg->b, cg->i64, ""), rest = LLVMBuildPhi(cg->b, cg->i64, "");
    LLVMValueRef at = LLVMBuildSub(cg->b, behind, tw_cg_i64(cg, 1), "");
    LLVMValueRef low = LLVMBuildURem(cg->b, rest, tw_cg_i64(cg, 10), "");
    LLVMValueRef ascii = LLVMBuildAdd(cg->b, low, tw_cg_i64(cg, '0'), "");
    LLVMBuildStore(cg->b, LLVMBuildTrunc(cg->b, ascii, cg->i8, ""), tw_cg_offset(cg, text, at));
    LLVMValueRef left = LLVMBuildUDiv(cg->b, rest, tw_cg_i64(cg, 10), "");
    LLVMBuildCondBr(cg->b, LLVMBuildICmp(cg->b, LLVMIntNE, left, zero, ""), digit, done);
    LLVMBasicBlockRef from[] = {entry, digit};
    LLVMAddIncoming(behind, (LLVMValueRef[]){tw_cg_i64(cg, SIZE - 1), at}, from, 2);
    LLVMAddIncoming(rest, (LLVMValueRef[]){size, left}, from, 2);
    LLVMPositionBuilderAtEnd(cg->b, done);
    LLVMValueRef sign = LLVMBuildSub(cg->b, at, tw_cg_i64(cg, 1), "");
    LLVMBuildStore(cg->b, tw_cg_int(cg->i8, '-'), tw_cg_offset(cg, text, sign));
    LLVMValueRef first = LLVMBuildSelect(cg->b, negative, sign, at, "");
    tell(cg, host, 0, tw_cg_offset(cg, text, first));
    LLVMBuildRetVoid(cg->b);
}

/* Puts the number in front of the error that has been recorded. */
static void report_number(tw_cg *cg, LLVMValueRef value)
{
    static const char name[] = "tw.number";
    LLVMTypeRef args[] = {cg->ptr, cg->i64};
    LLVMTypeRef signature = LLVMFunctionType(cg->void_t, args, 2, false);
    LLVMValueRef f = LLVMGetNamedFunction(cg->module, name);
    if (!f) {
        LLVMBasicBlockRef here = LLVMGetInsertBlock(cg->b);
        f = LLVMAddFunction(cg->module, name, signature);
        LLVMSetLinkage(f, LLVMInternalLinkage);
        tw_cg_function_attributes(cg, f);
        define_number(cg, f);
        LLVMPositionBuilderAtEnd(cg->b, here);
    }
    LLVMBuildCall2(cg->b, signature, f, (LLVMValueRef[]){cg->fn->host, value}, 2, "");
}

void tw_cg_exit_if(tw_cg *cg, LLVMValueRef condition, const char *message)
{
    LLVMBasicBlockRef stay;
    open_leave(cg, condition, &stay);
    close_leave(cg, report(cg, TW_CG_FAILED, message), stay);
}

void tw_cg_exit_with(tw_cg *cg, LLVMValueRef condition, const char *const *texts,
                     const LLVMValueRef *values, size_t n)
{
    LLVMBasicBlockRef stay;
    open_leave(cg, condition, &stay);
    LLVMValueRef code = report(cg, TW_CG_FAILED, texts[n]);
    for (size_t i = n; i-- > 0;) {
        report_number(cg, values[i]);
        report(cg, 0, texts[i]);
    }
    close_leave(cg, code, stay);
}

void tw_cg_return_at(tw_cg *cg, LLVMValueRef condition, LLVMValueRef status, const char *where)
{
    LLVMBasicBlockRef stay;
    open_leave(cg, condition, &stay);
    if (*where)
        report(cg, 0, where);
    close_leave(cg, status, stay);
}

/* ---- Kernels ---- */

/* Arguments before the kernel's own: host, arena, symbols. */
enum { HIDDEN = 3 };

LLVMTypeRef tw_cg_kernel_type(tw_cg *cg, const tw_op *kernel)
{
    const tw_region *body = &kernel->regions[0];
    LLVMTypeRef *args = TW_NEW_ARRAY(cg->arena, LLVMTypeRef, body->n_args + HIDDEN);
    for (unsigned i = 0; i < HIDDEN; i++)
        args[i] = cg->ptr;
    for (unsigned i = 0; i < body->n_args; i++)
        args[HIDDEN + i] = tw_cg_type(cg, body->args[i]->type);
    return LLVMFunctionType(cg->i32, args, body->n_args + HIDDEN, false);
}

/* Whether code may call a function of that name that is no kernel. */
static bool is_import(const char *name)
{
#define NAME(import, signature) #import,
    static const char *const imports[] = {TW_IMPORTS(NAME)};
#undef NAME
    for (size_t i = 0; i < sizeof imports / sizeof *imports; i++)
        if (!strcmp(imports[i], name))
            return true;
    return false;
}

const char *tw_cg_symbol(tw_cg *cg, const char *name)
{
    const char *suffix = cg->options->suffix ? cg->options->suffix : "";
    return tw_arena_printf(cg->arena, "%s%s%s", name, is_import(name) ? "_kernel" : "", suffix);
}

LLVMValueRef tw_cg_kernel_declare(tw_cg *cg, const tw_op *kernel)
{
    const char *name = tw_cg_symbol(cg, tw_op_string(kernel, "sym_name", ""));
    LLVMValueRef f = LLVMGetNamedFunction(cg->module, name);
    if (f)
        return f;
    f = LLVMAddFunction(cg->module, name, tw_cg_kernel_type(cg, kernel));
    LLVMSetVisibility(f, LLVMHiddenVisibility);
    tw_cg_function_attributes(cg, f);
    return f;
}

void tw_cg_buffer_attributes(tw_cg *cg, LLVMValueRef f, unsigned at, const tw_cg_buffer *buffer)
{
    LLVMAttributeIndex i = at + 1;
    if (!buffer->aliased)
        tw_cg_attribute(cg, f, i, "noalias", 0);
    if (!buffer->written)
        tw_cg_attribute(cg, f, i, "readonly", 0);
    tw_cg_attribute(cg, f, i, "nocapture", 0);
    tw_cg_attribute(cg, f, i, "align", buffer->align);
}

void tw_cg_kernel(tw_cg *cg, tw_op *kernel)
{
    tw_region *body = &kernel->regions[0];
    const tw_cg_buffer *args = tw_map_get_ptr(&cg->program->args, kernel);
    LLVMValueRef f = tw_cg_kernel_declare(cg, kernel);
    tw_cg_func fn = {.value = f,
                     .host = LLVMGetParam(f, 0),
                     .arena = LLVMGetParam(f, 1),
                     .symbols = LLVMGetParam(f, 2)};
    tw_cg_func_begin(cg, &fn);
    for (unsigned i = 0; i < body->n_args; i++) {
        tw_value *arg = body->args[i];
        LLVMValueRef param = LLVMGetParam(f, i + HIDDEN);
        if (arg->name)
            LLVMSetValueName2(param, arg->name, strlen(arg->name));
        if (arg->type->kind == TW_TYPE_BUFFER)
            tw_cg_buffer_attributes(cg, f, i + HIDDEN, &args[i]);
        tw_cg_set_value(cg, arg, (tw_cg_value){.value = param, .buffer = args[i]});
    }
    tw_cg_region(cg, body);
    tw_cg_func_end(cg);
}
