/* load.c: loads. A condition that is the same for all lanes costs no branch: the address is then
 * that of a constant. Nothing outside the lanes that a mask admits is touched. */
#include "codegen/llvm/access.h"

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

/* ---- Shapes of access ---- */

/* Zeros to load from where a condition forbids the real place. */
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

/* `lanes` neighbours from the form on (0: one element). */
static LLVMValueRef load_run(tw_cg *cg, const tw_access *a, const tw_cg_lin *index, unsigned lanes,
                             LLVMValueRef condition)
{
    LLVMValueRef at = tw_access_address(cg, a, index);
    if (condition)
        at = LLVMBuildSelect(cg->b, condition, at, zeros(cg), "");
    LLVMValueRef v = LLVMBuildLoad2(cg->b, tw_cg_vector(a->storage, lanes), at, "");
    LLVMSetAlignment(v, tw_access_align(a, index));
    return v;
}

/* Puts the lanes of `piece` into `whole` (NULL: nothing yet) from lane `at` on. */
static LLVMValueRef join(tw_cg *cg, LLVMValueRef whole, LLVMValueRef piece, unsigned at,
                         unsigned lanes)
{
    unsigned n = tw_cg_llvm_lanes(LLVMTypeOf(piece));
    LLVMValueRef picks[TW_CG_MAX_LANES];
    for (unsigned i = 0; i < lanes; i++)
        picks[i] = LLVMConstInt(cg->i32, i < n ? i : n, false);
    LLVMValueRef wide = LLVMBuildShuffleVector(cg->b, piece, LLVMGetPoison(LLVMTypeOf(piece)),
                                               LLVMConstVector(picks, lanes), "");
    if (!whole)
        return wide;
    for (unsigned i = 0; i < lanes; i++)
        picks[i] = LLVMConstInt(cg->i32, i < at ? i : lanes + i - at, false);
    return LLVMBuildShuffleVector(cg->b, whole, wide, LLVMConstVector(picks, lanes), "");
}

/* The first n lanes of a run; others are anything. */
static LLVMValueRef load_prefix(tw_cg *cg, const tw_access *a, unsigned n, unsigned piece)
{
    LLVMValueRef out = NULL;
    for (unsigned at = 0; at < n; at += piece) {
        tw_cg_lin index = tw_cg_lin_base(&a->index);
        index.constant += at;
        unsigned lanes = n - at < piece ? n - at : piece;
        out = join(cg, out, load_run(cg, a, &index, lanes, a->mask.uniform), at, a->lanes);
    }
    return out;
}

static LLVMValueRef masked_load(tw_cg *cg, const tw_access *a, LLVMValueRef other)
{
    LLVMTypeRef type = LLVMVectorType(a->storage, a->lanes);
    LLVMValueRef args[] = {tw_access_address(cg, a, &a->index),
                           LLVMConstInt(cg->i32, tw_access_align(a, &a->index), false),
                           tw_access_mask(cg, a), other};
    return tw_cg_intrinsic(cg, "llvm.masked.load", (LLVMTypeRef[]){type, cg->ptr}, 2, args, 4);
}

static LLVMValueRef gather(tw_cg *cg, const tw_access *a, LLVMValueRef other)
{
    LLVMTypeRef type = LLVMVectorType(a->storage, a->lanes);
    LLVMValueRef at = tw_access_addresses(cg, a);
    LLVMValueRef args[] = {at, LLVMConstInt(cg->i32, a->bytes, false), tw_access_mask(cg, a),
                           other};
    return tw_cg_intrinsic(cg, "llvm.masked.gather", (LLVMTypeRef[]){type, LLVMTypeOf(at)}, 2, args,
                           4);
}

/* Lanes `step` elements apart, 2 <= step <= 4: whole vectors that begin at every lanes-th element,
 * the last one pulled back to end at the last element wanted, so that nothing beyond is read. */
static LLVMValueRef load_strided(tw_cg *cg, const tw_access *a)
{
    int64_t lanes = a->lanes, step = a->index.step, span = (lanes - 1) * step + 1;
    LLVMValueRef out = NULL;
    for (int64_t begin = 0, lane = 0; lane < lanes; begin += lanes) {
        int64_t at = begin + lanes > span ? span - lanes : begin, end = lane;
        tw_cg_lin index = tw_cg_lin_base(&a->index);
        index.constant += at;
        LLVMValueRef run = load_run(cg, a, &index, a->lanes, a->mask.uniform);
        LLVMValueRef picks[TW_CG_MAX_LANES];
        while (end < lanes && end * step < at + lanes)
            end++;
        for (int64_t i = 0; i < lanes; i++) { /* earlier lanes from `out`, these from `run` */
            int64_t here = (out ? lanes : 0) + i * step - at;
            picks[i] = LLVMConstInt(cg->i32, (uint64_t)(i < lane ? i : i < end ? here : 0), false);
        }
        LLVMValueRef nothing = LLVMGetPoison(LLVMTypeOf(run));
        out = LLVMBuildShuffleVector(cg->b, out ? out : run, out ? run : nothing,
                                     LLVMConstVector(picks, a->lanes), "");
        lane = end;
    }
    return out;
}

/* Lanes at constant distances, one by one: quicker than a gather, which on many processors is no
 * more than that with address arithmetic. */
static LLVMValueRef load_each(tw_cg *cg, const tw_access *a, const tw_cg_lanes_set *lanes)
{
    LLVMValueRef out = LLVMGetPoison(LLVMVectorType(a->storage, a->lanes));
    for (unsigned i = 0; i < a->lanes; i++) {
        if (!(lanes->words[i / 64] >> (i % 64) & 1))
            continue;
        tw_cg_lin index = tw_cg_lin_base(&a->index);
        index.constant += a->index.step * i;
        LLVMValueRef v = load_run(cg, a, &index, 0, a->mask.uniform);
        out = LLVMBuildInsertElement(cg->b, out, v, LLVMConstInt(cg->i32, i, false), "");
    }
    return out;
}

/* One element for all lanes; read when any lane wants it. */
static LLVMValueRef load_uniform(tw_cg *cg, const tw_access *a)
{
    LLVMValueRef condition = a->mask.uniform;
    if (a->mask.lanes) {
        LLVMValueRef any = tw_cg_intrinsic1(cg, "llvm.vector.reduce.or", a->mask.lanes);
        condition = condition ? LLVMBuildAnd(cg->b, condition, any, "") : any;
    }
    return tw_cg_splat(cg, load_run(cg, a, &a->index, 0, condition), a->lanes);
}

/* ---- Choice ---- */

/* A value in storage form, and whether lanes that the mask forbids hold the other value already. */
typedef struct loaded {
    LLVMValueRef v;
    bool settled;
} loaded;

static loaded load_lanes(tw_cg *cg, const tw_access *a, LLVMValueRef other)
{
    unsigned piece, prefix = tw_access_prefix(cg, a, &piece);
    int64_t step = a->index.vector ? 0 : a->index.step;
    if (prefix)
        return (loaded){load_prefix(cg, a, prefix, piece), false};
    if (step == 1 && !a->mask.lanes)
        return (loaded){load_run(cg, a, &a->index, a->lanes, a->mask.uniform), false};
    if (step == 1)
        return (loaded){masked_load(cg, a, other), true};
    if (step == -1) {
        tw_access up = tw_access_reversed(cg, a);
        loaded l = load_lanes(cg, &up, tw_access_reverse(cg, other));
        return (loaded){tw_access_reverse(cg, l.v), l.settled};
    }
    if (step >= 2 && step <= 4 && !a->mask.lanes)
        return (loaded){load_strided(cg, a), false};
    tw_cg_lanes_set lanes = tw_cg_all_lanes(a->lanes);
    bool known = !a->mask.lanes || tw_cg_mask_constant(a->mask.lanes, &lanes);
    if (step && known)
        return (loaded){load_each(cg, a, &lanes), false};
    return (loaded){gather(cg, a, other), true};
}

/* Several elements below 8 bits lie in a byte, the first one lowest. */
static LLVMValueRef load_packed(tw_cg *cg, const tw_access *a)
{
    tw_access bytes = *a;
    unsigned bits = tw_elem_bits(a->elem), per = 8 / bits;
    bytes.bytes = 1;
    bytes.index = tw_cg_lin_divide(cg, &a->index, per, false);
    bytes.index.lanes = a->lanes;
    LLVMTypeRef type = tw_cg_vector(cg->i8, a->lanes);
    LLVMValueRef v = tw_cg_lin_uniform(&bytes.index)
                         ? load_uniform(cg, &bytes)
                         : load_lanes(cg, &bytes, LLVMConstNull(type)).v;
    tw_cg_lin part = tw_cg_lin_divide(cg, &a->index, per, true);
    part.lanes = a->lanes;
    LLVMValueRef at = LLVMBuildTrunc(cg->b, tw_cg_lin_value(cg, &part), type, "");
    LLVMValueRef out = tw_cg_cut(cg, v, a->elem);
    for (unsigned i = 1; i < per; i++) {
        LLVMValueRef down = LLVMBuildLShr(cg->b, v, tw_cg_int(type, i * bits), "");
        LLVMValueRef is_it = LLVMBuildICmp(cg->b, LLVMIntEQ, at, tw_cg_int(type, i), "");
        out = LLVMBuildSelect(cg->b, is_it, tw_cg_cut(cg, down, a->elem), out, "");
    }
    return out;
}

static loaded load(tw_cg *cg, const tw_access *a, LLVMValueRef other)
{
    if (!a->bytes)
        return (loaded){load_packed(cg, a), false};
    if (tw_cg_lin_uniform(&a->index))
        return (loaded){load_uniform(cg, a), false};
    return load_lanes(cg, a, other);
}

/* Nobody sees the lanes that the mask of lanes, a constant, forbids. */
static bool lanes_are_free(const tw_access *a)
{
    tw_cg_lanes_set lanes;
    return tw_cg_mask_constant(a->mask.lanes, &lanes) &&
           tw_cg_only_lanes_matter(&a->op->results[0], &lanes);
}

/* ---- Fetching ahead ---- */

static bool same_place(const tw_cg_fetch *f, const tw_access *a, const tw_cg_lin *index)
{
    bool same =
        f->base == a->base && f->index.constant == index->constant && f->index.n == index->n;
    for (unsigned i = 0; same && i < index->n; i++)
        same = f->index.terms[i].atom == index->terms[i].atom &&
               f->index.terms[i].coef == index->terms[i].coef;
    return same;
}

/* Into the second cache, once for all copies of the load in an unrolled body. */
static void fetch_ahead(tw_cg *cg, const tw_access *a, int64_t ahead)
{
    tw_cg_func *fn = cg->fn;
    if (!ahead || !a->bytes || a->index.vector || a->index.step > 1 || a->index.step < 0)
        return;
    if (fn->fetching != LLVMGetInsertBlock(cg->b))
        fn->fetched.len = 0;
    fn->fetching = LLVMGetInsertBlock(cg->b);
    tw_cg_fetch place = {a->base, tw_cg_lin_base(&a->index)};
    place.index.constant += ahead;
    for (size_t i = 0; i < fn->fetched.len; i++)
        if (same_place(&fn->fetched.data[i], a, &place.index))
            return;
    tw_vec_push(cg->arena, &fn->fetched, place);
    LLVMValueRef args[] = {tw_access_address(cg, a, &place.index), tw_cg_int(cg->i32, 0),
                           tw_cg_int(cg->i32, 2), tw_cg_int(cg->i32, 1)};
    tw_cg_intrinsic(cg, "llvm.prefetch", &cg->ptr, 1, args, 4);
}

void tw_cg_load(tw_cg *cg, tw_op *op)
{
    tw_access a = tw_access_of(cg, op, op->results[0].type);
    LLVMValueRef other = NULL;
    if (a.parts.other)
        other = tw_cg_splat(cg, tw_cg_use(cg, op, op->n_operands - 1), a.lanes);
    if (a.mask.never) {
        tw_cg_define(cg, op, other);
        return;
    }
    LLVMValueRef stored = other ? tw_cg_to_storage(cg, a.elem, other)
                                : LLVMGetPoison(tw_cg_vector(a.storage, a.lanes));
    loaded l = load(cg, &a, stored);
    fetch_ahead(cg, &a, tw_op_int(op, "ahead", 0));
    LLVMValueRef v = tw_cg_from_storage(cg, a.elem, l.v);
    if (!l.settled && a.mask.lanes && !lanes_are_free(&a))
        v = LLVMBuildSelect(cg->b, a.mask.lanes, v, other, "");
    if (!l.settled && a.mask.uniform)
        v = LLVMBuildSelect(cg->b, a.mask.uniform, v, other, "");
    tw_cg_define(cg, op, v);
}
