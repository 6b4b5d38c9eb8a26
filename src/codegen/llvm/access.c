/* access.c: addresses of loads and stores: strides, lanes, alignment, masks. */
#include "codegen/llvm/access.h"

#include <string.h>

tw_access tw_access_of(tw_cg *cg, tw_op *op, tw_type moved)
{
    tw_access a = {.op = op};
    tw_loop_get_access(op, &a.parts);
    tw_type buffer = a.parts.buffer->type;
    a.elem = buffer->elem;
    a.storage = tw_cg_storage(cg, a.elem);
    a.bytes = tw_elem_bits(a.elem) / 8; /* 0 for elements below 8 bits */
    a.lanes = tw_cg_lanes(moved);
    tw_cg_value *base = tw_cg_get(cg, op, a.parts.buffer);
    a.base = base->value;
    a.align = base->buffer.align;
    a.stack = base->buffer.stack;
    for (unsigned i = 0; i < buffer->rank; i++) {
        tw_cg_lin at = tw_cg_expr(cg, op, a.parts.first_index, a.parts.index->u.map.exprs[i]);
        tw_cg_lin stride = tw_cg_count(cg, op, buffer, i + 1);
        tw_cg_lin part = tw_cg_lin_mul(cg, &at, &stride);
        a.index = tw_cg_lin_add(cg, &a.index, &part, 1);
    }
    a.index.lanes = a.lanes;
    a.mask = tw_cg_set(cg, op, a.parts.first_index, a.parts.where);
    return a;
}

LLVMValueRef tw_cg_offset(tw_cg *cg, LLVMValueRef pointer, LLVMValueRef bytes)
{
    if (LLVMIsAConstantInt(bytes) && LLVMConstIntGetSExtValue(bytes) == 0)
        return pointer;
    return LLVMBuildGEP2(cg->b, cg->i8, pointer, &bytes, 1, "");
}

static LLVMValueRef element(tw_cg *cg, const tw_access *a, LLVMValueRef pointer, LLVMValueRef index)
{
    return LLVMBuildGEP2(cg->b, a->storage, pointer, &index, 1, "");
}

/* The innermost variable and the constant are added last and on their own: what comes before is
 * invariant in the inner loop and shared by unrolled copies. */
LLVMValueRef tw_access_address(tw_cg *cg, const tw_access *a, const tw_cg_lin *index)
{
    tw_cg_lin outer = tw_cg_lin_base(index), inner = outer;
    LLVMValueRef p = a->base;
    outer.constant = 0;
    inner.constant = 0;
    if (outer.n > 1) {
        outer.n--;
        inner.terms[0] = inner.terms[inner.n - 1];
        inner.n = 1;
        p = element(cg, a, p, tw_cg_lin_value(cg, &outer));
    }
    if (inner.n)
        p = element(cg, a, p, tw_cg_lin_value(cg, &inner));
    return index->constant ? element(cg, a, p, tw_cg_i64(cg, index->constant)) : p;
}

unsigned tw_access_align(const tw_access *a, const tw_cg_lin *index)
{
    uint64_t bits = a->align | (uint64_t)index->constant * a->bytes | 64;
    for (unsigned i = 0; i < index->n; i++)
        bits |= (uint64_t)index->terms[i].coef * a->bytes;
    return (unsigned)(bits & -bits);
}

LLVMValueRef tw_access_addresses(tw_cg *cg, const tw_access *a)
{
    tw_cg_lin lanes = {.lanes = a->lanes, .step = a->index.step, .vector = a->index.vector};
    return element(cg, a, tw_access_address(cg, a, &a->index), tw_cg_lin_value(cg, &lanes));
}

LLVMValueRef tw_access_reverse(tw_cg *cg, LLVMValueRef v)
{
    unsigned lanes = tw_cg_llvm_lanes(LLVMTypeOf(v));
    return tw_cg_shuffle(cg, v, NULL, lanes, (int)lanes - 1, -1);
}

tw_access tw_access_reversed(tw_cg *cg, const tw_access *a)
{
    tw_access r = *a;
    r.index.constant -= (int64_t)a->lanes - 1;
    r.index.step = 1;
    if (r.mask.lanes)
        r.mask.lanes = tw_access_reverse(cg, r.mask.lanes);
    return r;
}

LLVMValueRef tw_access_mask(tw_cg *cg, const tw_access *a)
{
    LLVMValueRef uniform = a->mask.uniform, lanes = a->mask.lanes;
    if (!uniform)
        return lanes ? lanes : tw_cg_int(LLVMVectorType(cg->i1, a->lanes), 1);
    uniform = tw_cg_splat(cg, uniform, a->lanes);
    return lanes ? LLVMBuildAnd(cg->b, uniform, lanes, "") : uniform;
}

static bool is_power_of_2(unsigned n)
{
    return n && !(n & (n - 1));
}

unsigned tw_access_prefix(tw_cg *cg, const tw_access *a, unsigned *piece)
{
    tw_cg_lanes_set lanes;
    if (!a->bytes || a->index.vector || a->index.step != 1 || !a->mask.lanes ||
        !tw_cg_mask_constant(a->mask.lanes, &lanes))
        return 0;
    /* Code generation takes vectors of odd lengths apart unless they fit one register. */
    unsigned n = tw_cg_lanes_prefix(&lanes), whole = tw_target_lanes(cg->target, 8 * a->bytes);
    *piece = is_power_of_2(n) ? n : whole;
    bool fixed_slot = a->stack && !a->index.n;
    /* One lane alone would be computed as a scalar: LLVM 19 cannot select its comparison for
     * AVX-512 ("v1i1 = scalar_to_vector"). */
    if (n < 2)
        return 0;
    return is_power_of_2(n) || fixed_slot ? n : 0;
}
