/* buffer.c: where buffers lie: arena, stack, host's memory, constants; views of them. */
#include "codegen/llvm/cg.h"

#include "tilewright/model.h"

#include <string.h>

/* Larger buffers, and all once a function's stack holds that much, come from the host. */
enum { STACK_BUFFER = 64 * 1024, STACK_TOTAL = 256 * 1024 };

LLVMBuilderRef tw_cg_at_entry(tw_cg *cg)
{
    LLVMValueRef first = LLVMGetFirstInstruction(cg->fn->entry);
    if (first)
        LLVMPositionBuilderBefore(cg->side, first);
    else
        LLVMPositionBuilderAtEnd(cg->side, cg->fn->entry);
    return cg->side;
}

LLVMValueRef tw_cg_alloca(tw_cg *cg, LLVMTypeRef type, unsigned align, const char *name)
{
    LLVMValueRef slot = LLVMBuildAlloca(tw_cg_at_entry(cg), type, name);
    LLVMSetAlignment(slot, align);
    return slot;
}

/* What a pointer is a multiple of, `offset` bytes behind one that is a multiple of `align`. */
static unsigned common_align(unsigned align, int64_t offset)
{
    uint64_t bits = align | (uint64_t)offset;
    return (unsigned)(bits & -bits);
}

/* Calls host->alloc behind the entry, leaving the function when there is no memory. The size
 * depends on symbols at most. */
static LLVMValueRef host_alloc(tw_cg *cg, tw_op *op, tw_type type)
{
    tw_cg_func *fn = cg->fn;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(cg->b);
    LLVMInstructionEraseFromParent(LLVMGetBasicBlockTerminator(fn->allocated));
    LLVMPositionBuilderAtEnd(cg->b, fn->allocated);
    tw_cg_lin count = tw_cg_count(cg, op, type, 0);
    count = tw_cg_lin_mul(cg, &count, &(tw_cg_lin){.constant = tw_elem_bits(type->elem)});
    count.constant += 7;
    count = tw_cg_lin_divide(cg, &count, 8, false);
    LLVMTypeRef args[] = {cg->ptr, cg->i64};
    LLVMTypeRef signature = LLVMFunctionType(cg->ptr, args, 2, false);
    LLVMValueRef alloc = tw_cg_host_field(cg, offsetof(tw_abi_host, alloc), cg->ptr);
    LLVMValueRef values[] = {fn->host, tw_cg_lin_value(cg, &count)};
    LLVMValueRef memory = LLVMBuildCall2(cg->b, signature, alloc, values, 2, "");
    LLVMValueRef slot = tw_cg_alloca(cg, cg->ptr, 8, "");
    LLVMBuildStore(cg->b, memory, slot);
    LLVMValueRef none = LLVMBuildIsNull(cg->b, memory, "");
    tw_cg_exit_if(cg, none, "no memory for a kernel's buffer");
    fn->allocated = LLVMGetInsertBlock(cg->b);
    LLVMBuildBr(cg->b, fn->body);
    tw_vec_push(cg->arena, &fn->heap, slot);
    LLVMPositionBuilderAtEnd(cg->b, here);
    return memory;
}

/* `offset` is a number, or a MAP with one expression over symbols. */
static LLVMValueRef arena_place(tw_cg *cg, tw_op *op, tw_attr offset, unsigned *align)
{
    tw_cg_lin at = offset->kind == TW_ATTR_MAP ? tw_cg_expr(cg, op, 0, offset->u.map.exprs[0])
                                               : tw_cg_lin_const(offset->u.integer);
    *align = common_align(TW_ABI_ALIGN, at.constant);
    for (unsigned i = 0; i < at.n; i++)
        *align = common_align(*align, at.terms[i].coef);
    return tw_cg_offset(cg, cg->fn->arena, tw_cg_lin_value(cg, &at));
}

void tw_cg_alloc(tw_cg *cg, tw_op *op)
{
    tw_type type = op->results[0].type;
    tw_attr offset = tw_op_attr(op, "offset");
    tw_cg_value out = {.buffer = {.root = &op->results[0], .written = true, .align = TW_ABI_ALIGN}};
    int64_t count = 0;
    uint64_t bytes = 0;
    bool known = tw_type_static_count(type, &count) && count <= STACK_BUFFER;
    if (known)
        bytes = ((uint64_t)count * tw_elem_bits(type->elem) + 7) / 8;
    if (tw_cg_in_frame(cg, &op->results[0])) {
        tw_cg_frame_alloc(cg, op);
        return;
    }
    if (offset) {
        out.value = arena_place(cg, op, offset, &out.buffer.align);
    } else if (known && bytes <= STACK_BUFFER && cg->fn->stack_bytes + bytes <= STACK_TOTAL) {
        const char *name = op->results[0].name;
        cg->fn->stack_bytes += bytes;
        out.buffer.stack = true;
        out.value = tw_cg_alloca(cg, LLVMArrayType2(cg->i8, bytes ? bytes : 1), TW_ABI_ALIGN,
                                 name ? name : "");
    } else {
        out.value = host_alloc(cg, op, type);
    }
    tw_cg_set_value(cg, &op->results[0], out);
}

void tw_cg_view(tw_cg *cg, tw_op *op)
{
    tw_cg_value base = *tw_cg_get(cg, op, tw_operand(op, 0));
    int64_t bytes = tw_op_int(op, "offset", 0) * tw_elem_bits(op->results[0].type->elem) / 8;
    base.buffer.align = common_align(base.buffer.align, bytes);
    base.value = tw_cg_offset(cg, base.value, tw_cg_i64(cg, bytes));
    tw_cg_set_value(cg, &op->results[0], base);
}

/* The entry's constants lie in the model's file; those of a kernel become data of its object. */
void tw_cg_constant_buffer(tw_cg *cg, tw_op *op)
{
    tw_cg_value out = {.buffer = {.root = &op->results[0], .align = TW_ABI_ALIGN}};
    int64_t offset = tw_op_int(op, "const_offset", -1);
    if (cg->fn->constants && offset >= 0) {
        out.value = tw_cg_offset(cg, cg->fn->constants, tw_cg_i64(cg, offset));
        out.buffer.align = common_align(TW_ABI_ALIGN, offset);
    } else {
        tw_attr value = tw_op_attr(op, "value");
        size_t size = value->u.dense.size;
        LLVMValueRef bytes = LLVMConstStringInContext2(cg->llvm, value->u.dense.data, size, true);
        out.value = LLVMAddGlobal(cg->module, LLVMTypeOf(bytes), "");
        LLVMSetInitializer(out.value, bytes);
        LLVMSetGlobalConstant(out.value, true);
        LLVMSetLinkage(out.value, LLVMPrivateLinkage);
        LLVMSetAlignment(out.value, TW_ABI_ALIGN);
    }
    tw_cg_set_value(cg, &op->results[0], out);
}
