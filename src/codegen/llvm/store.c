/* store.c: stores. Nothing outside the lanes that a mask admits is written. */
#include "codegen/llvm/access.h"

static void store_run(tw_cg *cg, const tw_access *a, const tw_cg_lin *index, LLVMValueRef v)
{
    LLVMValueRef store = LLVMBuildStore(cg->b, v, tw_access_address(cg, a, index));
    LLVMSetAlignment(store, tw_access_align(a, index));
}

static LLVMValueRef lane(tw_cg *cg, LLVMValueRef v, unsigned i)
{
    if (!tw_cg_llvm_lanes(LLVMTypeOf(v)))
        return v;
    return LLVMBuildExtractElement(cg->b, v, LLVMConstInt(cg->i32, i, false), "");
}

/* A store of an element below 8 bits replaces a part of a byte. */
static void store_packed(tw_cg *cg, const tw_access *a, const tw_cg_lin *index, LLVMValueRef v)
{
    tw_access byte = *a;
    unsigned bits = tw_elem_bits(a->elem), per = 8 / bits;
    byte.bytes = 1;
    byte.index = tw_cg_lin_divide(cg, index, per, false);
    tw_cg_lin part = tw_cg_lin_divide(cg, index, per, true);
    LLVMValueRef at = LLVMBuildTrunc(cg->b, tw_cg_lin_value(cg, &part), cg->i8, "");
    LLVMValueRef shift = LLVMBuildMul(cg->b, at, tw_cg_int(cg->i8, bits), "");
    LLVMValueRef mask = tw_cg_int(cg->i8, (1 << bits) - 1);
    LLVMValueRef put = LLVMBuildShl(cg->b, LLVMBuildAnd(cg->b, v, mask, ""), shift, "");
    LLVMValueRef keep = LLVMBuildNot(cg->b, LLVMBuildShl(cg->b, mask, shift, ""), "");
    LLVMValueRef address = tw_access_address(cg, &byte, &byte.index);
    LLVMValueRef old = LLVMBuildLoad2(cg->b, cg->i8, address, "");
    LLVMBuildStore(cg->b, LLVMBuildOr(cg->b, LLVMBuildAnd(cg->b, old, keep, ""), put, ""), address);
}

/* One element after another, in the order of the lanes. */
static void store_each(tw_cg *cg, const tw_access *a, LLVMValueRef v)
{
    for (unsigned i = 0; i < (a->lanes ? a->lanes : 1); i++) {
        LLVMBasicBlockRef after = a->mask.lanes ? tw_cg_if(cg, lane(cg, a->mask.lanes, i)) : NULL;
        tw_cg_lin index = tw_cg_lin_base(&a->index);
        index.constant += a->index.step * i;
        if (a->index.vector) {
            tw_cg_lin part = tw_cg_lin_atom(cg, lane(cg, a->index.vector, i), a->index.range);
            index = tw_cg_lin_add(cg, &index, &part, 1);
        }
        if (a->bytes)
            store_run(cg, a, &index, lane(cg, v, i));
        else
            store_packed(cg, a, &index, lane(cg, v, i));
        if (after)
            tw_cg_endif(cg, after);
    }
}

static void masked_store(tw_cg *cg, const tw_access *a, LLVMValueRef v)
{
    LLVMTypeRef type = LLVMVectorType(a->storage, a->lanes);
    LLVMValueRef args[] = {v, tw_access_address(cg, a, &a->index),
                           LLVMConstInt(cg->i32, tw_access_align(a, &a->index), false),
                           a->mask.lanes};
    tw_cg_intrinsic(cg, "llvm.masked.store", (LLVMTypeRef[]){type, cg->ptr}, 2, args, 4);
}

static void store_prefix(tw_cg *cg, const tw_access *a, unsigned n, unsigned piece, LLVMValueRef v)
{
    for (unsigned at = 0; at < n; at += piece) {
        tw_cg_lin index = tw_cg_lin_base(&a->index);
        index.constant += at;
        store_run(cg, a, &index,
                  tw_cg_shuffle(cg, v, NULL, n - at < piece ? n - at : piece, (int)at, 1));
    }
}

static void store_lanes(tw_cg *cg, const tw_access *a, LLVMValueRef v)
{
    unsigned piece, prefix = tw_access_prefix(cg, a, &piece);
    int64_t step = a->index.vector || !a->bytes ? 0 : a->index.step;
    if (prefix) {
        store_prefix(cg, a, prefix, piece, v);
    } else if (step == -1) {
        tw_access up = tw_access_reversed(cg, a);
        store_lanes(cg, &up, tw_access_reverse(cg, v));
    } else if (step == 1 && a->mask.lanes) {
        masked_store(cg, a, v);
    } else if (step == 1) {
        store_run(cg, a, &a->index, v);
    } else {
        store_each(cg, a, v);
    }
}

void tw_cg_store(tw_cg *cg, tw_op *op)
{
    tw_access a = tw_access_of(cg, op, tw_operand(op, 0)->type);
    if (a.mask.never)
        return;
    LLVMValueRef v = tw_cg_to_storage(cg, a.elem, tw_cg_use(cg, op, 0));
    LLVMBasicBlockRef after = a.mask.uniform ? tw_cg_if(cg, a.mask.uniform) : NULL;
    store_lanes(cg, &a, v);
    if (after)
        tw_cg_endif(cg, after);
}
