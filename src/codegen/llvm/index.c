/* index.c: index arithmetic. Expressions become linear forms over values that are at hand, so that
 * constants meet, like terms join, and an access knows how its address moves from lane to lane:
 *
 *   %X[%i + 1, %r * 2] of buffer<8x64xf32>, %r = ramp %j   ->   64 * i + 2 * j + 64, 2 per lane
 *
 * Quotients and remainders that the forms cannot express are computed, and are then atoms (or, when
 * they differ from lane to lane, the form's vector). Bounds of the atoms tell how. */
#include "codegen/llvm/cg.h"

#include "base/checked.h"

#include <string.h>

static const tw_range unknown = {.lo = INT64_MIN, .hi = INT64_MAX};

/* Index arithmetic wraps at 64 bits, as the machine's does; shapes are checked for overflow long
 * before. */
static int64_t add_wrap(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t mul_wrap(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* ---- Ranges ---- */

static int64_t saturating_mul(int64_t a, int64_t b)
{
    int64_t out;
    if (a == INT64_MIN || a == INT64_MAX)
        return !b ? 0 : (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
    if (tw_mul_i64(a, b, &out))
        return out;
    return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}

/* Sums of lower (upper) bounds; INT64_MIN (INT64_MAX) is not known and stays so. */
static int64_t add_lower(int64_t a, int64_t b)
{
    int64_t out;
    return a != INT64_MIN && b != INT64_MIN && tw_add_i64(a, b, &out) ? out : INT64_MIN;
}

static int64_t add_upper(int64_t a, int64_t b)
{
    int64_t out;
    return a != INT64_MAX && b != INT64_MAX && tw_add_i64(a, b, &out) ? out : INT64_MAX;
}

/* r + coef * t */
static tw_range range_add(tw_range r, tw_range t, int64_t coef)
{
    int64_t lo = saturating_mul(t.lo, coef), hi = saturating_mul(t.hi, coef);
    return (tw_range){.lo = add_lower(r.lo, coef < 0 ? hi : lo),
                      .hi = add_upper(r.hi, coef < 0 ? lo : hi)};
}

tw_range tw_cg_lin_range(tw_cg *cg, const tw_cg_lin *a)
{
    tw_range r = {.lo = a->constant, .hi = a->constant};
    for (unsigned i = 0; i < a->n; i++)
        r = range_add(r, cg->fn->atoms.data[a->terms[i].atom].range, a->terms[i].coef);
    if (a->lanes)
        r = range_add(r, (tw_range){.lo = 0, .hi = a->lanes - 1}, a->step);
    return a->vector ? range_add(r, a->range, 1) : r;
}

static bool fits_i32(tw_range r)
{
    return r.lo >= INT32_MIN && r.hi <= INT32_MAX;
}

/* ---- Forms ---- */

tw_cg_lin tw_cg_lin_const(int64_t value)
{
    return (tw_cg_lin){.constant = value};
}

tw_cg_lin tw_cg_lin_atom(tw_cg *cg, LLVMValueRef value, tw_range range)
{
    if (LLVMIsAConstantInt(value))
        return tw_cg_lin_const(LLVMConstIntGetSExtValue(value));
    tw_vec_push(cg->arena, &cg->fn->atoms, ((tw_cg_atom){value, range}));
    return (tw_cg_lin){.n = 1, .terms = {{(unsigned)cg->fn->atoms.len - 1, 1}}};
}

/* The form of lane-varying values that only exist as a vector. */
static tw_cg_lin lin_vector(LLVMValueRef value, tw_range range)
{
    return (tw_cg_lin){
        .lanes = tw_cg_llvm_lanes(LLVMTypeOf(value)), .vector = value, .range = range};
}

tw_cg_lin tw_cg_lin_base(const tw_cg_lin *a)
{
    tw_cg_lin base = *a;
    base.step = 0;
    base.lanes = 0;
    base.vector = NULL;
    return base;
}

bool tw_cg_lin_uniform(const tw_cg_lin *a)
{
    return !a->vector && !a->step;
}

/* Replaces the terms and the constant by one atom, to make room. */
static tw_cg_lin collapse(tw_cg *cg, const tw_cg_lin *a)
{
    tw_cg_lin base = tw_cg_lin_base(a);
    tw_cg_lin out = tw_cg_lin_atom(cg, tw_cg_lin_value(cg, &base), tw_cg_lin_range(cg, &base));
    out.step = a->step;
    out.lanes = a->lanes;
    out.vector = a->vector;
    out.range = a->range;
    return out;
}

/* Merges the terms of b, times factor, into a; false when there are too many. */
static bool merge_terms(tw_cg_lin *a, const tw_cg_lin *b, int64_t factor)
{
    tw_cg_term merged[2 * TW_CG_MAX_TERMS];
    unsigned n = 0, i = 0, k = 0;
    while (i < a->n || k < b->n) {
        bool take_a = k == b->n || (i < a->n && a->terms[i].atom <= b->terms[k].atom);
        bool take_b = i == a->n || (k < b->n && b->terms[k].atom <= a->terms[i].atom);
        tw_cg_term t = {take_a ? a->terms[i].atom : b->terms[k].atom, 0};
        if (take_a)
            t.coef = a->terms[i++].coef;
        if (take_b)
            t.coef = add_wrap(t.coef, mul_wrap(b->terms[k++].coef, factor));
        if (t.coef)
            merged[n++] = t;
    }
    if (n > TW_CG_MAX_TERMS)
        return false;
    memcpy(a->terms, merged, n * sizeof *merged);
    a->n = n;
    return true;
}

tw_cg_lin tw_cg_lin_add(tw_cg *cg, const tw_cg_lin *a, const tw_cg_lin *b, int64_t factor)
{
    if (!factor)
        return *a;
    tw_cg_lin out = *a;
    if (!merge_terms(&out, b, factor)) {
        tw_cg_lin small_a = collapse(cg, a), small_b = collapse(cg, b);
        return tw_cg_lin_add(cg, &small_a, &small_b, factor);
    }
    out.constant = add_wrap(a->constant, mul_wrap(b->constant, factor));
    out.step = add_wrap(a->step, mul_wrap(b->step, factor));
    out.lanes = a->lanes ? a->lanes : b->lanes;
    if (b->vector) {
        LLVMValueRef v = b->vector;
        if (factor != 1)
            v = LLVMBuildNSWMul(cg->b, v, tw_cg_int(LLVMTypeOf(v), factor), "");
        tw_range zero = {.lo = 0, .hi = 0};
        out.range = range_add(a->vector ? a->range : zero, b->range, factor);
        out.vector = a->vector ? LLVMBuildNSWAdd(cg->b, a->vector, v, "") : v;
    }
    return out;
}

static tw_cg_lin scale(tw_cg *cg, const tw_cg_lin *a, int64_t factor)
{
    tw_cg_lin zero = {.lanes = a->lanes};
    return tw_cg_lin_add(cg, &zero, a, factor);
}

static bool is_const(const tw_cg_lin *a)
{
    return !a->n && tw_cg_lin_uniform(a);
}

/* The form of a computed value: an atom, or a vector when lanes differ. */
static tw_cg_lin computed(tw_cg *cg, LLVMValueRef value, tw_range range)
{
    if (tw_cg_llvm_lanes(LLVMTypeOf(value)))
        return lin_vector(value, range);
    return tw_cg_lin_atom(cg, value, range);
}

/* Both as values of one shape: vectors if one differs from lane to lane. */
static void common_shape(tw_cg *cg, const tw_cg_lin *a, const tw_cg_lin *b, LLVMValueRef *va,
                         LLVMValueRef *vb)
{
    unsigned lanes = tw_cg_lin_uniform(a) && tw_cg_lin_uniform(b) ? 0
                     : a->lanes                                   ? a->lanes
                                                                  : b->lanes;
    tw_cg_lin shaped_a = *a, shaped_b = *b;
    shaped_a.lanes = shaped_b.lanes = lanes;
    *va = tw_cg_lin_value(cg, &shaped_a);
    *vb = tw_cg_lin_value(cg, &shaped_b);
}

tw_cg_lin tw_cg_lin_mul(tw_cg *cg, const tw_cg_lin *a, const tw_cg_lin *b)
{
    if (is_const(a))
        return scale(cg, b, a->constant);
    if (is_const(b))
        return scale(cg, a, b->constant);
    LLVMValueRef va, vb;
    common_shape(cg, a, b, &va, &vb);
    tw_range ra = tw_cg_lin_range(cg, a), rb = tw_cg_lin_range(cg, b), r = unknown;
    if (ra.lo >= 0 && rb.lo >= 0)
        r = (tw_range){.lo = saturating_mul(ra.lo, rb.lo), .hi = saturating_mul(ra.hi, rb.hi)};
    return computed(cg, LLVMBuildNSWMul(cg->b, va, vb, ""), r);
}

LLVMValueRef tw_cg_lin_value(tw_cg *cg, const tw_cg_lin *a)
{
    LLVMValueRef sum = NULL;
    for (unsigned i = 0; i < a->n; i++) {
        LLVMValueRef v = cg->fn->atoms.data[a->terms[i].atom].value;
        if (a->terms[i].coef != 1)
            v = LLVMBuildNSWMul(cg->b, v, tw_cg_i64(cg, a->terms[i].coef), "");
        sum = sum ? LLVMBuildNSWAdd(cg->b, sum, v, "") : v;
    }
    if (!sum)
        sum = tw_cg_i64(cg, a->constant);
    else if (a->constant)
        sum = LLVMBuildNSWAdd(cg->b, sum, tw_cg_i64(cg, a->constant), "");
    if (!a->lanes)
        return sum;
    sum = tw_cg_splat(cg, sum, a->lanes);
    if (a->step)
        sum = LLVMBuildNSWAdd(cg->b, sum, tw_cg_iota(cg->i64, a->lanes, 0, a->step), "");
    return a->vector ? LLVMBuildNSWAdd(cg->b, sum, a->vector, "") : sum;
}

/* ---- Division ---- */

/* Splits a into quotient * c + rest where the rest's terms have coefficients that c does not
 * divide; the rest keeps the constant. */
static void split_by(const tw_cg_lin *a, int64_t c, tw_cg_lin *quotient, tw_cg_lin *rest)
{
    *quotient = (tw_cg_lin){.lanes = a->lanes};
    *rest = (tw_cg_lin){
        .lanes = a->lanes, .constant = a->constant, .vector = a->vector, .range = a->range};
    for (unsigned i = 0; i < a->n; i++) {
        tw_cg_lin *side = a->terms[i].coef % c ? rest : quotient;
        int64_t coef = side == rest ? a->terms[i].coef : a->terms[i].coef / c;
        side->terms[side->n++] = (tw_cg_term){a->terms[i].atom, coef};
    }
    if (a->step % c)
        rest->step = a->step;
    else
        quotient->step = a->step / c;
}

/* Works on i32 lanes where the values fit: there are no 64-bit vector multiplications before
 * AVX-512. */
static LLVMValueRef narrow(tw_cg *cg, LLVMValueRef v, tw_range r)
{
    LLVMTypeRef type = LLVMTypeOf(v);
    if (!tw_cg_llvm_lanes(type) || !fits_i32(r))
        return v;
    return LLVMBuildTrunc(cg->b, v, tw_cg_like(cg->i32, type), "");
}

static LLVMValueRef widen(tw_cg *cg, LLVMValueRef v)
{
    LLVMTypeRef type = LLVMTypeOf(v);
    if (tw_cg_scalar(type) == cg->i64)
        return v;
    return LLVMBuildSExt(cg->b, v, tw_cg_like(cg->i64, type), "");
}

/* v floordiv c or v mod c for a constant c > 0. */
static LLVMValueRef divide_const(tw_cg *cg, LLVMValueRef v, tw_range r, int64_t c, bool mod)
{
    if (c <= INT32_MAX)
        v = narrow(cg, v, r);
    LLVMTypeRef type = LLVMTypeOf(v);
    LLVMValueRef divisor = tw_cg_int(type, c), zero = tw_cg_int(type, 0), out;
    if ((c & (c - 1)) == 0) {
        LLVMValueRef shift = tw_cg_int(type, __builtin_ctzll((uint64_t)c));
        out = mod ? LLVMBuildAnd(cg->b, v, tw_cg_int(type, c - 1), "")
                  : LLVMBuildAShr(cg->b, v, shift, "");
    } else if (r.lo >= 0) {
        out = mod ? LLVMBuildURem(cg->b, v, divisor, "") : LLVMBuildUDiv(cg->b, v, divisor, "");
    } else {
        LLVMValueRef quotient = LLVMBuildSDiv(cg->b, v, divisor, "");
        LLVMValueRef rest = LLVMBuildSub(cg->b, v, LLVMBuildMul(cg->b, quotient, divisor, ""), "");
        LLVMValueRef below = LLVMBuildICmp(cg->b, LLVMIntSLT, rest, zero, "");
        out = mod ? LLVMBuildSelect(cg->b, below, LLVMBuildAdd(cg->b, rest, divisor, ""), rest, "")
                  : LLVMBuildAdd(cg->b, quotient, LLVMBuildSExt(cg->b, below, type, ""), "");
    }
    return widen(cg, out);
}

static tw_range quotient_range(tw_range r, int64_t c)
{
    return (tw_range){.lo = r.lo == INT64_MIN ? INT64_MIN : tw_floordiv_i64(r.lo, c),
                      .hi = r.hi == INT64_MAX ? INT64_MAX : tw_floordiv_i64(r.hi, c)};
}

tw_cg_lin tw_cg_lin_divide(tw_cg *cg, const tw_cg_lin *a, int64_t c, bool mod)
{
    tw_cg_lin quotient, rest;
    split_by(a, c, &quotient, &rest);
    tw_range r = tw_cg_lin_range(cg, &rest), q = quotient_range(r, c);
    bool known = r.lo != INT64_MIN && r.hi != INT64_MAX && q.lo == q.hi;
    if (known && mod) { /* the rest stays within one multiple of c */
        rest.constant = add_wrap(rest.constant, -mul_wrap(q.lo, c));
        return rest;
    }
    if (known) {
        quotient.constant = q.lo;
        return quotient;
    }
    if (tw_cg_lin_uniform(&rest))
        rest.lanes = 0;
    LLVMValueRef value = divide_const(cg, tw_cg_lin_value(cg, &rest), r, c, mod);
    tw_cg_lin part = computed(cg, value, mod ? (tw_range){.lo = 0, .hi = c - 1} : q);
    if (mod) {
        part.lanes = a->lanes;
        return part;
    }
    return tw_cg_lin_add(cg, &quotient, &part, 1);
}

/* By a value that is not known: sizes, which are at least 0; 0 counts as 1. */
static tw_cg_lin floordiv_value(tw_cg *cg, const tw_cg_lin *a, const tw_cg_lin *b, bool mod)
{
    LLVMValueRef va, vb;
    common_shape(cg, a, b, &va, &vb);
    LLVMTypeRef type = LLVMTypeOf(va);
    LLVMValueRef zero = tw_cg_int(type, 0);
    vb = tw_cg_intrinsic2(cg, "llvm.smax", vb, tw_cg_int(type, 1));
    tw_range ra = tw_cg_lin_range(cg, a), r = unknown;
    if (ra.lo >= 0)
        r = (tw_range){.lo = 0, .hi = ra.hi};
    LLVMValueRef rest = LLVMBuildSRem(cg->b, va, vb, "");
    LLVMValueRef below = LLVMBuildICmp(cg->b, LLVMIntSLT, rest, zero, "");
    if (mod)
        return computed(cg,
                        LLVMBuildSelect(cg->b, below, LLVMBuildAdd(cg->b, rest, vb, ""), rest, ""),
                        (tw_range){.lo = 0, .hi = INT64_MAX});
    LLVMValueRef quotient = LLVMBuildSDiv(cg->b, va, vb, "");
    return computed(cg, LLVMBuildAdd(cg->b, quotient, LLVMBuildSExt(cg->b, below, type, ""), ""),
                    r);
}

static tw_cg_lin divide(tw_cg *cg, const tw_cg_lin *a, const tw_cg_lin *b, tw_expr_kind kind)
{
    tw_cg_lin sum = *a;
    if (kind == TW_EXPR_CEILDIV) { /* ceil(a / b) = floor((a + b - 1) / b) */
        sum = tw_cg_lin_add(cg, a, b, 1);
        sum.constant = add_wrap(sum.constant, -1);
    }
    bool mod = kind == TW_EXPR_MOD;
    if (is_const(b))
        return tw_cg_lin_divide(cg, &sum, b->constant > 0 ? b->constant : 1, mod);
    return floordiv_value(cg, &sum, b, mod);
}

static tw_cg_lin min_max(tw_cg *cg, const tw_cg_lin *a, const tw_cg_lin *b, bool max)
{
    tw_cg_lin difference = tw_cg_lin_add(cg, a, b, -1);
    tw_range d = tw_cg_lin_range(cg, &difference);
    if (d.lo >= 0)
        return max ? *a : *b;
    if (d.hi <= 0)
        return max ? *b : *a;
    tw_range ra = tw_cg_lin_range(cg, a), rb = tw_cg_lin_range(cg, b);
    tw_range r = {.lo = max == (ra.lo > rb.lo) ? ra.lo : rb.lo,
                  .hi = max == (ra.hi > rb.hi) ? ra.hi : rb.hi};
    LLVMValueRef va, vb;
    common_shape(cg, a, b, &va, &vb);
    return computed(cg, tw_cg_intrinsic2(cg, max ? "llvm.smax" : "llvm.smin", va, vb), r);
}

/* ---- Expressions ---- */

size_t tw_cg_symbol_place(tw_cg *cg, const tw_op *op, const char *name)
{
    size_t place = (size_t)tw_map_get_str(&cg->program->symbol_places, name);
    if (!place)
        tw_cg_fail(cg, op, "symbol '%s' is not in the module's `symbols`", name);
    return place - 1;
}

/* A symbol's value, loaded once at the function's entry; in the model's own function, where binds
 * define symbols, each time. */
static tw_cg_lin symbol(tw_cg *cg, const tw_op *op, const char *name)
{
    tw_cg_func *fn = cg->fn;
    size_t atom = fn->model ? 0 : (size_t)tw_map_get_str(&fn->symbol_atoms, name);
    if (!atom) {
        LLVMValueRef offset = tw_cg_i64(cg, (int64_t)tw_cg_symbol_place(cg, op, name));
        LLVMBuilderRef b = fn->model ? cg->b : tw_cg_at_entry(cg);
        LLVMValueRef at = LLVMBuildGEP2(b, cg->i64, fn->symbols, &offset, 1, "");
        LLVMValueRef value = LLVMBuildLoad2(b, cg->i64, at, name);
        tw_cg_lin_atom(cg, value, (tw_range){.lo = 0, .hi = INT64_MAX});
        atom = fn->atoms.len;
        tw_map_put_str(&fn->symbol_atoms, name, (void *)atom);
    }
    return (tw_cg_lin){.n = 1, .terms = {{(unsigned)atom - 1, 1}}};
}

tw_cg_lin tw_cg_expr(tw_cg *cg, const tw_op *op, unsigned first, tw_expr e)
{
    switch (e->kind) {
    case TW_EXPR_CONST:
        return tw_cg_lin_const(e->value);
    case TW_EXPR_SYM:
        return symbol(cg, op, e->symbol);
    case TW_EXPR_DIM:
        return tw_cg_lin_of(cg, op, tw_operand(op, first + (unsigned)e->value));
    case TW_EXPR_INVALID:
        tw_cg_fail(cg, op, "an index expression is invalid (it overflows)");
    default:
        break;
    }
    tw_cg_lin a = tw_cg_expr(cg, op, first, e->lhs), b = tw_cg_expr(cg, op, first, e->rhs);
    switch (e->kind) {
    case TW_EXPR_ADD:
        return tw_cg_lin_add(cg, &a, &b, 1);
    case TW_EXPR_MUL:
        return tw_cg_lin_mul(cg, &a, &b);
    case TW_EXPR_MIN:
    case TW_EXPR_MAX:
        return min_max(cg, &a, &b, e->kind == TW_EXPR_MAX);
    default:
        return divide(cg, &a, &b, e->kind);
    }
}

tw_cg_lin tw_cg_lin_of(tw_cg *cg, const tw_op *user, tw_value *value)
{
    tw_cg_value *v = tw_cg_get(cg, user, value);
    if (!v->lin) { /* computed by arithmetic, or loaded */
        tw_cg_lin *lin = TW_NEW(cg->arena, tw_cg_lin);
        *lin = computed(cg, v->value, unknown);
        v->lin = lin;
    }
    return *v->lin;
}

tw_cg_lin tw_cg_count(tw_cg *cg, const tw_op *op, tw_type buffer, unsigned from)
{
    tw_cg_lin count = tw_cg_lin_const(1);
    for (unsigned i = buffer->rank; i > from; i--) {
        tw_cg_lin dim = tw_cg_expr(cg, op, 0, buffer->dims[i - 1]);
        count = tw_cg_lin_mul(cg, &dim, &count);
    }
    return count;
}

/* ---- Sets ---- */

/* base + step * lane >= 0 with step +-1 as a comparison of small lane numbers: the usual tail. */
static LLVMValueRef tail_mask(tw_cg *cg, const tw_cg_lin *a)
{
    int64_t lanes = a->lanes;
    tw_cg_lin base = tw_cg_lin_base(a);
    LLVMValueRef first = tw_cg_lin_value(cg, &base), lane = tw_cg_iota(cg->i32, a->lanes, 0, 1);
    if (a->step > 0) /* lane >= -base */
        first = LLVMBuildNSWSub(cg->b, tw_cg_i64(cg, 0), first, "");
    first = tw_cg_intrinsic2(cg, "llvm.smax", first, tw_cg_i64(cg, -1));
    first = tw_cg_intrinsic2(cg, "llvm.smin", first, tw_cg_i64(cg, lanes));
    first = tw_cg_splat(cg, LLVMBuildTrunc(cg->b, first, cg->i32, ""), a->lanes);
    return LLVMBuildICmp(cg->b, a->step > 0 ? LLVMIntSGE : LLVMIntSLE, lane, first, "");
}

/* A form without variables: a constant mask. */
static LLVMValueRef constant_mask(tw_cg *cg, const tw_cg_lin *a)
{
    LLVMValueRef lanes[TW_CG_MAX_LANES];
    for (unsigned i = 0; i < a->lanes; i++)
        lanes[i] = LLVMConstInt(cg->i1, add_wrap(a->constant, mul_wrap(a->step, i)) >= 0, false);
    return LLVMConstVector(lanes, a->lanes);
}

static LLVMValueRef not_negative(tw_cg *cg, const tw_cg_lin *a)
{
    if (tw_cg_lin_uniform(a)) {
        tw_cg_lin base = tw_cg_lin_base(a);
        return LLVMBuildICmp(cg->b, LLVMIntSGE, tw_cg_lin_value(cg, &base), tw_cg_i64(cg, 0), "");
    }
    if (!a->vector && !a->n)
        return constant_mask(cg, a);
    if (!a->vector && (a->step == 1 || a->step == -1))
        return tail_mask(cg, a);
    LLVMValueRef v = narrow(cg, tw_cg_lin_value(cg, a), tw_cg_lin_range(cg, a));
    return LLVMBuildICmp(cg->b, LLVMIntSGE, v, tw_cg_int(LLVMTypeOf(v), 0), "");
}

static LLVMValueRef both(tw_cg *cg, LLVMValueRef a, LLVMValueRef b)
{
    return a && b ? LLVMBuildAnd(cg->b, a, b, "") : a ? a : b;
}

tw_cg_mask tw_cg_set(tw_cg *cg, const tw_op *op, unsigned first, tw_attr set)
{
    tw_cg_mask mask = {false, NULL, NULL};
    for (size_t i = 0; set && i < set->u.map.n; i++) {
        tw_cg_lin a = tw_cg_expr(cg, op, first, set->u.map.exprs[i]);
        tw_range r = tw_cg_lin_range(cg, &a);
        if (r.lo >= 0)
            continue;
        if (r.hi < 0)
            return (tw_cg_mask){.never = true};
        LLVMValueRef *part = tw_cg_lin_uniform(&a) ? &mask.uniform : &mask.lanes;
        *part = both(cg, *part, not_negative(cg, &a));
    }
    return mask;
}
