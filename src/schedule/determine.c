/* determine.c: whether index values tell loop iterations apart.
 *
 * A set of known values is closed under what follows from them:
 *   - a sum whose other terms are known gives the last term;
 *   - s*a + r with 0 <= r - min(r) < s gives a and r (digits of a mixed-radix number), s being a
 *     number or a product of sizes;
 *   - x floordiv c and x mod c give x.
 * A loop whose variable comes out is told apart. */
#include "schedule/access.h"

#include "ir/expr_impl.h"

enum { MAX_KNOWN = 64 };

typedef struct closure {
    tw_context *ctx;
    const tw_range *ranges;
    unsigned n_dims;
    tw_expr known[MAX_KNOWN];
    unsigned n;
} closure;

static bool is_known(const closure *c, tw_expr e)
{
    if (tw_expr_dim_count(e) == 0)
        return true;
    for (unsigned i = 0; i < c->n; i++)
        if (c->known[i] == e)
            return true;
    return false;
}

/* Whether e follows from known values: it is one, or a sum of them. */
static bool follows(const closure *c, tw_expr e)
{
    for (; e->kind == TW_EXPR_ADD; e = e->lhs)
        if (!is_known(c, tw_term_of(e->rhs).key))
            return is_known(c, e);
    return is_known(c, tw_term_of(e).key) || is_known(c, e);
}

static bool add(closure *c, tw_expr e)
{
    e = tw_expr_simplify(c->ctx, e, c->ranges, c->n_dims);
    if (e->kind == TW_EXPR_INVALID || is_known(c, e) || c->n == MAX_KNOWN)
        return false;
    c->known[c->n++] = e;
    return true;
}

static uint64_t size_of(int64_t coef)
{
    return coef < 0 ? -(uint64_t)coef : (uint64_t)coef;
}

/* Takes the term of the largest coefficient off the sum when the rest is smaller than a step. */
static bool split_digit(closure *c, const tw_sum *s)
{
    size_t top = 0;
    for (size_t i = 1; i < s->n; i++)
        if (size_of(s->terms[i].coef) > size_of(s->terms[top].coef))
            top = i;
    tw_sum rest;
    tw_sum_init(&rest);
    for (size_t i = 0; i < s->n; i++)
        if (i != top)
            tw_sum_add_term(&rest, s->terms[i].key, s->terms[i].coef);
    tw_expr r = tw_sum_build(c->ctx, &rest);
    tw_range range = tw_expr_range(r, c->ranges, c->n_dims);
    if (range.lo == INT64_MIN || range.hi == INT64_MAX || range.hi < range.lo ||
        (uint64_t)range.hi - (uint64_t)range.lo >= size_of(s->terms[top].coef))
        return false;
    bool more = add(c, s->terms[top].key);
    return add(c, r) || more;
}

/* Splits a term into value * step, the step being all that does not vary. False when there are no
 * symbols in the step. */
static bool symbolic_step(tw_context *ctx, tw_term t, tw_expr *value, tw_expr *step)
{
    *step = tw_expr_const(ctx, t.coef);
    *value = NULL;
    for (tw_expr x = t.key; x; x = x->kind == TW_EXPR_MUL ? x->lhs : NULL) {
        tw_expr factor = x->kind == TW_EXPR_MUL ? x->rhs : x;
        tw_expr *part = tw_expr_dim_count(factor) ? value : step;
        *part = *part ? tw_expr_mul(ctx, *part, factor) : factor;
    }
    return *value && !tw_expr_is_const(*step) && (*step)->kind != TW_EXPR_INVALID;
}

/* The same with a step over symbols. */
static bool split_symbolic_digit(closure *c, const tw_sum *s)
{
    for (size_t i = 0; i < s->n; i++) {
        tw_expr value, step;
        if (!symbolic_step(c->ctx, s->terms[i], &value, &step))
            continue;
        tw_sum rest;
        tw_sum_init(&rest);
        for (size_t k = 0; k < s->n; k++)
            if (k != i)
                tw_sum_add_term(&rest, s->terms[k].key, s->terms[k].coef);
        tw_expr r = tw_sum_build(c->ctx, &rest);
        tw_range range = tw_expr_range(r, c->ranges, c->n_dims);
        tw_expr room = tw_expr_sub(c->ctx, step, r);
        if (range.lo <= -INT32_MAX ||
            !tw_expr_at_least(c->ctx, room, 1 - range.lo, c->ranges, c->n_dims))
            continue;
        bool more = add(c, value);
        return add(c, r) || more;
    }
    return false;
}

/* What a known sum gives. */
static bool open_sum(closure *c, tw_expr e)
{
    tw_sum s;
    tw_sum_init(&s);
    tw_sum_add(&s, e, 1);
    size_t unknown = 0, last = 0;
    for (size_t i = 0; i < s.n; i++)
        if (!is_known(c, s.terms[i].key)) {
            unknown++;
            last = i;
        }
    if (unknown == 1)
        return add(c, s.terms[last].key);
    return unknown > 1 && (split_digit(c, &s) || split_symbolic_digit(c, &s));
}

/* x mod k known: with x floordiv k known, x is. */
static bool join_division(closure *c, tw_expr e)
{
    tw_expr_kind other = e->kind == TW_EXPR_MOD ? TW_EXPR_FLOORDIV : TW_EXPR_MOD;
    tw_expr partner = tw_expr_binary(c->ctx, other, e->lhs, e->rhs);
    partner = tw_expr_simplify(c->ctx, partner, c->ranges, c->n_dims);
    return partner->kind != TW_EXPR_INVALID && follows(c, partner) && add(c, e->lhs);
}

bool tw_determines(tw_context *ctx, const tw_expr *known, unsigned n_known, const tw_range *ranges,
                   unsigned n_dims, unsigned target)
{
    closure c = {.ctx = ctx, .ranges = ranges, .n_dims = n_dims};
    tw_expr wanted = tw_expr_dim(ctx, target);
    if (ranges[target].lo >= ranges[target].hi)
        return true; /* at most one iteration */
    for (unsigned i = 0; i < n_known; i++)
        if (known[i])
            add(&c, known[i]);
    for (bool again = true; again && !is_known(&c, wanted);) {
        again = false;
        for (unsigned i = 0; i < c.n; i++) {
            tw_expr e = c.known[i];
            if (e->kind == TW_EXPR_MOD || e->kind == TW_EXPR_FLOORDIV)
                again |= join_division(&c, e);
            else
                again |= open_sum(&c, e);
        }
    }
    return is_known(&c, wanted);
}

/* ---- Pairs of accesses --------------------------------------------------------------- */

static bool same_place(const tw_block_info *ba, const tw_block_access *a, const tw_block_info *bb,
                       const tw_block_access *b)
{
    if (ba != bb || a->rank != b->rank)
        return false;
    for (unsigned i = 0; i < a->rank; i++)
        if (!a->iters[i] || a->iters[i] != b->iters[i])
            return false;
    return true;
}

bool tw_interval_tells(tw_context *ctx, tw_interval a, tw_interval b, unsigned shared,
                       unsigned inner)
{
    int64_t shift, wa, wb, step = 0;
    if (!a.known || !b.known || !tw_expr_as_const(tw_expr_sub(ctx, b.lo, a.lo), &shift) ||
        !tw_expr_as_const(a.width, &wa) || !tw_expr_as_const(b.width, &wb))
        return false;
    tw_range span =
        tw_range_add((tw_range){.lo = -wa, .hi = wb}, (tw_range){.lo = shift, .hi = shift});
    tw_sum s;
    tw_sum_init(&s);
    tw_sum_add(&s, a.lo, 1);
    for (size_t i = 0; i < s.n; i++) {
        bool varies = false; /* terms of shared loops are equal on both sides */
        for (unsigned d = shared; d < inner; d++)
            varies |= tw_expr_uses_dim(s.terms[i].key, d);
        if (varies)
            step = tw_gcd_i64(step, s.terms[i].coef);
    }
    /* Equal elements mean a difference of the ends within the span: less than one step is none. */
    return step > span.hi && step > -span.lo;
}

bool tw_disjoint_over(tw_context *ctx, const tw_block_info *ba, const tw_block_access *a,
                      const tw_block_info *bb, const tw_block_access *b, unsigned shared,
                      unsigned inner, unsigned level)
{
    const tw_nest *na = &ba->nest, *nb = &bb->nest;
    tw_expr known[TW_MAX_NEST + TW_MAX_RANK];
    unsigned n = 0;
    for (unsigned i = 0; i < shared; i++)
        known[n++] = tw_expr_dim(ctx, i);
    if (same_place(ba, a, bb, b)) {
        for (unsigned axis = 0; axis < a->rank; axis++)
            known[n++] = a->loops[axis];
        return tw_determines(ctx, known, n, na->ranges, na->n, level);
    }
    for (unsigned axis = 0; a->rank == b->rank && axis < a->rank; axis++) {
        tw_interval sa = tw_hull(ctx, a->loops[axis], na, inner);
        tw_interval sb = tw_hull(ctx, b->loops[axis], nb, inner);
        if (tw_interval_tells(ctx, sa, sb, shared, inner))
            known[n++] = sa.lo;
    }
    return tw_determines(ctx, known, n, na->ranges, inner, level);
}
