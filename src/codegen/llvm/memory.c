/* memory.c: loads, stores and the memory they touch.
 *
 * How the flattened index moves from lane to lane decides the instructions:
 *   not at all            one scalar, in all lanes
 *   by 1 (or -1)          one vector (reversed)
 *   by 2..4               a few vectors and a shuffle
 *   otherwise             gather, or one element after another
 * A mask that is the same in all lanes costs no branch on loads: the address is then that of a
 * constant. Masks that differ take the target's masked instructions. Nothing outside the lanes that
 * a mask admits is touched. */
#include "codegen/llvm/cg.h"

#include "tilewright/model.h"

#include <string.h>

/* One access, taken apart. */
typedef struct access {
    const tw_op *op;
    tw_loop_access parts;
    tw_elem elem;
    LLVMTypeRef storage; /* one element in memory */
    unsigned bytes;      /* of one element; 0: two elements to a byte */
    unsigned lanes;      /* of the value moved; 0: scalar */
    LLVMValueRef base;
    unsigned align;  /* of base */
    tw_cg_lin index; /* in elements */
    tw_cg_mask mask;
} access;

static bool is_nibble(tw_elem elem)
{
    return elem == TW_I4 || elem == TW_U4;
}

static access take_apart(tw_cg *cg, tw_op *op, tw_type moved)
{
    access a = {.op = op};
    tw_loop_get_access(op, &a.parts);
    tw_type buffer = a.parts.buffer->type;
    a.elem = buffer->elem;
    a.storage = tw_cg_storage(cg, a.elem);
    a.bytes = is_nibble(a.elem) ? 0 : tw_elem_bits(a.elem) / 8;
    a.lanes = tw_cg_lanes(moved);
    tw_cg_value *base = tw_cg_get(cg, op, a.parts.buffer);
    a.base = base->value;
    a.align = base->buffer.align;
    for (unsigned i = 0; i < buffer->rank; i++) {
        tw_cg_lin at = tw_cg_expr(cg, op, a.parts.first_index, a.parts.index->u.map.exprs[i]);
        tw_cg_lin stride = tw_cg_count(cg, op, buffer, i + 1);
        tw_cg_lin part = tw_cg_lin_mul(cg, &at, &stride);
        a.index = tw_cg_lin_add(cg, &a.index, &part, 1);
    }
    a.index.lanes = a.lanes;
    a.mask = tw_cg_set(cg, op, a.parts.first_index, a.parts.where, a.lanes);
    return a;
}

/* ---- Addresses ---- */

LLVMValueRef tw_cg_offset(tw_cg *cg, LLVMValueRef pointer, LLVMValueRef bytes)
{
    if (LLVMIsAConstantInt(bytes) && LLVMConstIntGetSExtValue(bytes) == 0)
        return pointer;
    return LLVMBuildGEP2(cg->b, cg->i8, pointer, &bytes, 1, "");
}

static LLVMValueRef element(tw_cg *cg, const access *a, LLVMValueRef pointer, LLVMValueRef index)
{
    return LLVMBuildGEP2(cg->b, a->storage, pointer, &index, 1, "");
}

/* The address of the form's first lane. The innermost variable and the constant are added last and
 * on their own: what comes before is invariant in the inner loop and shared by unrolled copies. */
static LLVMValueRef address(tw_cg *cg, const access *a, const tw_cg_lin *index)
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

/* The largest power of two up to 64 that the address of the form is a multiple of. */
static unsigned alignment(const access *a, const tw_cg_lin *index)
{
    uint64_t bits = a->align | (uint64_t)index->constant * a->bytes | 64;
    for (unsigned i = 0; i < index->n; i++)
        bits |= (uint64_t)index->terms[i].coef * a->bytes;
    return (unsigned)(bits & -bits);
}

/* Zeros to load from where a mask forbids the real place. */
static LLVMValueRef zeros(tw_cg *cg)
{
    LLVMValueRef g = LLVMGetNamedGlobal(cg->module, "tw.zeros");
    if (!g) {
        LLVMTypeRef type = LLVMArrayType2(cg->i8, TW_CG_MAX_LANES * 8);
        g = LLVMAddGlobal(cg->module, type, "tw.zeros");
        LLVMSetInitializer(g, LLVMConstNull(type));
        LLVMSetGlobalConstant(g, true);
        LLVMSetLinkage(g, LLVMPrivateLinkage);
        LLVMSetAlignment(g, 64);
    }
    return g;
}

/* ---- Register and memory form of bool ---- */

LLVMValueRef tw_cg_from_storage(tw_cg *cg, tw_elem elem, LLVMValueRef v)
{
    if (elem != TW_BOOL)
        return v;
    return LLVMBuildICmp(cg->b, LLVMIntNE, v, LLVMConstNull(LLVMTypeOf(v)), "");
}

LLVMValueRef tw_cg_to_storage(tw_cg *cg, tw_elem elem, LLVMValueRef v)
{
    if (elem != TW_BOOL)
        return v;
    return LLVMBuildZExt(cg->b, v, tw_cg_like(cg->i8, LLVMTypeOf(v)), "");
}

/* ---- Loads ---- */

static LLVMValueRef plain_load(tw_cg *cg, LLVMTypeRef type, LLVMValueRef at, unsigned align)
{
    LLVMValueRef v = LLVMBuildLoad2(cg->b, type, at, "");
    LLVMSetAlignment(v, align);
    return v;
}

/* Loads `lanes` neighbours (0: one); a condition that fails diverts the load to zeros. */
static LLVMValueRef load_run(tw_cg *cg, const access *a, const tw_cg_lin *index, unsigned lanes,
                             LLVMValueRef condition)
{
    LLVMValueRef at = address(cg, a, index);
    if (condition)
        at = LLVMBuildSelect(cg->b, condition, at, zeros(cg), "");
    return plain_load(cg, tw_cg_vector(a->storage, lanes), at, alignment(a, index));
}

static LLVMValueRef masked_load(tw_cg *cg, const access *a, LLVMValueRef other)
{
    LLVMTypeRef type = LLVMVectorType(a->storage, a->lanes);
    LLVMValueRef args[] = {address(cg, a, &a->index),
                           LLVMConstInt(cg->i32, alignment(a, &a->index), false), a->mask.value,
                           other};
    return tw_cg_intrinsic(cg, "llvm.masked.load", (LLVMTypeRef[]){type, cg->ptr}, 2, args, 4);
}

/* <lanes x ptr> */
static LLVMValueRef addresses(tw_cg *cg, const access *a)
{
    tw_cg_lin lanes = {.lanes = a->lanes, .step = a->index.step, .vector = a->index.vector};
    return element(cg, a, address(cg, a, &a->index), tw_cg_lin_value(cg, &lanes));
}

static LLVMValueRef gather(tw_cg *cg, const access *a, LLVMValueRef mask, LLVMValueRef other)
{
    LLVMTypeRef type = LLVMVectorType(a->storage, a->lanes);
    LLVMValueRef at = addresses(cg, a);
    LLVMValueRef args[] = {at, LLVMConstInt(cg->i32, a->bytes, false), mask, other};
    return tw_cg_intrinsic(cg, "llvm.masked.gather", (LLVMTypeRef[]){type, LLVMTypeOf(at)}, 2, args,
                           4);
}

/* Lanes `step` elements apart, 2 <= step <= 4: whole vectors that begin at every lanes-th element,
 * the last one pulled back to end at the last element wanted, so that nothing beyond is read. */
static LLVMValueRef load_strided(tw_cg *cg, const access *a, LLVMValueRef condition)
{
    int64_t lanes = a->lanes, step = a->index.step, span = (lanes - 1) * step + 1;
    LLVMValueRef out = NULL;
    for (int64_t begin = 0, lane = 0; lane < lanes; begin += lanes) {
        int64_t at = begin + lanes > span ? span - lanes : begin;
        tw_cg_lin index = a->index;
        index.constant += at;
        LLVMValueRef run = load_run(cg, a, &index, a->lanes, condition);
        LLVMValueRef picks[TW_CG_MAX_LANES];
        int64_t end = lane;
        while (end < lanes && end * step < at + lanes)
            end++;
        for (int64_t i = 0; i < lanes; i++) /* earlier lanes from `out`, these from `run` */
            picks[i] = LLVMConstInt(cg->i32,
                                    (uint64_t)(i < lane  ? i
                                               : i < end ? (out ? lanes : 0) + i * step - at
                                                         : 0),
                                    false);
        out = LLVMBuildShuffleVector(cg->b, out ? out : run,
                                     out ? run : LLVMGetPoison(LLVMTypeOf(run)),
                                     LLVMConstVector(picks, a->lanes), "");
        lane = end;
    }
    return out;
}

static LLVMValueRef reverse(tw_cg *cg, LLVMValueRef v)
{
    unsigned lanes = tw_cg_llvm_lanes(LLVMTypeOf(v));
    return tw_cg_shuffle(cg, v, NULL, lanes, (int)lanes - 1, -1);
}

/* The access of a descending run as one of the ascending run over the same elements. */
static access reversed(tw_cg *cg, const access *a)
{
    access r = *a;
    r.index.constant -= (int64_t)a->lanes - 1;
    r.index.step = 1;
    if (r.mask.kind == TW_MASK_LANES)
        r.mask.value = reverse(cg, r.mask.value);
    return r;
}

/* All lanes' values in storage form; lanes that the mask forbids are `other` or anything. */
static LLVMValueRef load_lanes(tw_cg *cg, const access *a, LLVMValueRef other)
{
    LLVMValueRef condition = a->mask.kind == TW_MASK_UNIFORM ? a->mask.value : NULL;
    bool varying = a->mask.kind == TW_MASK_LANES;
    if (!a->index.vector && a->index.step == 1)
        return varying ? masked_load(cg, a, other)
                       : load_run(cg, a, &a->index, a->lanes, condition);
    if (!a->index.vector && a->index.step == -1) {
        access up = reversed(cg, a);
        return reverse(cg, load_lanes(cg, &up, varying ? reverse(cg, other) : other));
    }
    if (!a->index.vector && a->index.step >= 2 && a->index.step <= 4 && !varying)
        return load_strided(cg, a, condition);
    LLVMValueRef mask =
        varying ? a->mask.value
                : tw_cg_splat(cg, condition ? condition : LLVMConstInt(cg->i1, 1, false), a->lanes);
    return gather(cg, a, mask, other);
}

/* One element for all lanes; read when any lane wants it. */
static LLVMValueRef load_uniform(tw_cg *cg, const access *a)
{
    LLVMValueRef condition = NULL;
    if (a->mask.kind == TW_MASK_UNIFORM)
        condition = a->mask.value;
    else if (a->mask.kind == TW_MASK_LANES)
        condition = tw_cg_intrinsic1(cg, "llvm.vector.reduce.or", a->mask.value);
    return tw_cg_splat(cg, load_run(cg, a, &a->index, 0, condition), a->lanes);
}

/* Two 4-bit elements lie in a byte, the even one low. */
static LLVMValueRef load_nibbles(tw_cg *cg, const access *a)
{
    access bytes = *a;
    bytes.bytes = 1;
    bytes.index = tw_cg_lin_divide(cg, &a->index, 2, false);
    bytes.index.lanes = a->lanes;
    LLVMTypeRef type = tw_cg_vector(cg->i8, a->lanes);
    LLVMValueRef v = tw_cg_lin_uniform(&bytes.index) ? load_uniform(cg, &bytes)
                                                     : load_lanes(cg, &bytes, LLVMConstNull(type));
    tw_cg_lin half = tw_cg_lin_divide(cg, &a->index, 2, true);
    half.lanes = a->lanes;
    LLVMValueRef odd =
        LLVMBuildTrunc(cg->b, tw_cg_lin_value(cg, &half), tw_cg_like(cg->i1, type), "");
    LLVMValueRef four = tw_cg_int(type, 4);
    LLVMValueRef high = LLVMBuildSelect(cg->b, odd, v, LLVMBuildShl(cg->b, v, four, ""), "");
    return a->elem == TW_I4 ? LLVMBuildAShr(cg->b, high, four, "")
                            : LLVMBuildLShr(cg->b, high, four, "");
}

void tw_cg_load(tw_cg *cg, tw_op *op)
{
    access a = take_apart(cg, op, op->results[0].type);
    LLVMValueRef other = NULL, v;
    if (a.parts.other)
        other = tw_cg_splat(cg, tw_cg_use(cg, op, op->n_operands - 1), a.lanes);
    if (a.mask.kind == TW_MASK_NONE) {
        tw_cg_define(cg, op, other);
        return;
    }
    LLVMTypeRef type = tw_cg_vector(a.storage, a.lanes);
    LLVMValueRef stored = other ? tw_cg_to_storage(cg, a.elem, other) : LLVMGetPoison(type);
    if (!a.bytes)
        v = load_nibbles(cg, &a);
    else if (tw_cg_lin_uniform(&a.index))
        v = load_uniform(cg, &a);
    else
        v = load_lanes(cg, &a, stored);
    v = tw_cg_from_storage(cg, a.elem, v);
    if (a.mask.kind != TW_MASK_ALL)
        v = LLVMBuildSelect(cg->b, a.mask.value, v, other, "");
    tw_cg_define(cg, op, v);
}

/* ---- Stores ---- */

static void plain_store(tw_cg *cg, LLVMValueRef v, LLVMValueRef at, unsigned align)
{
    LLVMSetAlignment(LLVMBuildStore(cg->b, v, at), align);
}

static LLVMValueRef lane(tw_cg *cg, LLVMValueRef v, unsigned i)
{
    if (!tw_cg_llvm_lanes(LLVMTypeOf(v)))
        return v;
    return LLVMBuildExtractElement(cg->b, v, LLVMConstInt(cg->i32, i, false), "");
}

static LLVMBasicBlockRef guard(tw_cg *cg, LLVMValueRef condition)
{
    return condition ? tw_cg_if(cg, condition) : NULL;
}

static void unguard(tw_cg *cg, LLVMBasicBlockRef after)
{
    if (after)
        tw_cg_endif(cg, after);
}

/* A 4-bit store replaces half of a byte. */
static void store_nibble(tw_cg *cg, const access *a, LLVMValueRef v, const tw_cg_lin *index)
{
    access byte = *a;
    byte.bytes = 1;
    byte.index = tw_cg_lin_divide(cg, index, 2, false);
    tw_cg_lin half = tw_cg_lin_divide(cg, index, 2, true);
    LLVMValueRef odd = LLVMBuildTrunc(cg->b, tw_cg_lin_value(cg, &half), cg->i1, "");
    LLVMValueRef at = address(cg, &byte, &byte.index);
    LLVMValueRef high_half = tw_cg_int(cg->i8, 0xf0), low_half = tw_cg_int(cg->i8, 15);
    LLVMValueRef low = LLVMBuildAnd(cg->b, v, low_half, "");
    LLVMValueRef high = LLVMBuildShl(cg->b, v, tw_cg_int(cg->i8, 4), "");
    LLVMValueRef kept = LLVMBuildAnd(cg->b, plain_load(cg, cg->i8, at, 1),
                                     LLVMBuildSelect(cg->b, odd, low_half, high_half, ""), "");
    LLVMValueRef put = LLVMBuildSelect(cg->b, odd, high, low, "");
    plain_store(cg, LLVMBuildOr(cg->b, kept, put, ""), at, 1);
}

/* One element after another, in the order of the lanes. */
static void store_each(tw_cg *cg, const access *a, LLVMValueRef v)
{
    bool varying = a->mask.kind == TW_MASK_LANES;
    LLVMBasicBlockRef all = guard(cg, a->mask.kind == TW_MASK_UNIFORM ? a->mask.value : NULL);
    for (unsigned i = 0; i < (a->lanes ? a->lanes : 1); i++) {
        LLVMBasicBlockRef one = guard(cg, varying ? lane(cg, a->mask.value, i) : NULL);
        tw_cg_lin index = tw_cg_lin_base(&a->index);
        index.constant += a->index.step * i;
        if (a->index.vector) {
            tw_cg_lin part = tw_cg_lin_atom(cg, lane(cg, a->index.vector, i), a->index.range);
            index = tw_cg_lin_add(cg, &index, &part, 1);
        }
        if (!a->bytes)
            store_nibble(cg, a, lane(cg, v, i), &index);
        else
            plain_store(cg, lane(cg, v, i), address(cg, a, &index), alignment(a, &index));
        unguard(cg, one);
    }
    unguard(cg, all);
}

static void masked_store(tw_cg *cg, const access *a, LLVMValueRef v)
{
    LLVMTypeRef type = LLVMVectorType(a->storage, a->lanes);
    LLVMValueRef args[] = {v, address(cg, a, &a->index),
                           LLVMConstInt(cg->i32, alignment(a, &a->index), false), a->mask.value};
    tw_cg_intrinsic(cg, "llvm.masked.store", (LLVMTypeRef[]){type, cg->ptr}, 2, args, 4);
}

static void store_lanes(tw_cg *cg, const access *a, LLVMValueRef v)
{
    bool run = a->bytes && !a->index.vector;
    if (run && a->index.step == -1) {
        access up = reversed(cg, a);
        store_lanes(cg, &up, reverse(cg, v));
    } else if (run && a->index.step == 1 && a->mask.kind == TW_MASK_LANES) {
        masked_store(cg, a, v);
    } else if (run && a->index.step == 1) {
        LLVMBasicBlockRef after = guard(cg, a->mask.kind == TW_MASK_UNIFORM ? a->mask.value : NULL);
        plain_store(cg, v, address(cg, a, &a->index), alignment(a, &a->index));
        unguard(cg, after);
    } else {
        store_each(cg, a, v);
    }
}

void tw_cg_store(tw_cg *cg, tw_op *op)
{
    unsigned lanes = tw_cg_lanes(tw_operand(op, 0)->type);
    access a = take_apart(cg, op, tw_operand(op, 0)->type);
    for (unsigned i = 0; i < a.parts.n_index; i++) /* a scalar may go to all lanes' places */
        if (!lanes)
            lanes = tw_cg_lanes(tw_operand(op, a.parts.first_index + i)->type);
    a.lanes = a.index.lanes = lanes;
    if (a.mask.kind == TW_MASK_NONE)
        return;
    LLVMValueRef v = tw_cg_splat(cg, tw_cg_use(cg, op, 0), lanes);
    store_lanes(cg, &a, tw_cg_to_storage(cg, a.elem, v));
}
