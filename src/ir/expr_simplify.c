/* expr_simplify.c: simplification with the bounds of the dimensions.
 *
 * A division by c is split at a divisor g of c: terms whose coefficients g divides, and a rest. If
 * the rest stays within one multiple of g, it takes no part in the division:
 *
 *     d0 < 4, d1 < 6:  (d0*6 + d1) floordiv 6   ->  d0
 *                      (d0*6 + d1) floordiv 12  ->  d0 floordiv 2
 *                      (d0*6 + d1) mod 12       ->  d0 mod 2 * 6 + d1
 *
 * A divisor over symbols is split likewise, at itself or at what it shares with a term:
 *
 *     d1 in 0..n - 1:  (d0*n + d1) floordiv n        ->  d0
 *                      (d0*n + d1) floordiv (h*n)    ->  d0 floordiv h */
#include "base/checked.h"
#include "ir/expr_impl.h"

typedef struct bounds {
    tw_context *ctx;
    const tw_range *dims;
    size_t n;
} bounds;

static tw_expr simplify_once(const bounds *b, tw_expr e);

static bool is_bounded(tw_range r)
{
    return r.lo != INT64_MIN && r.hi != INT64_MAX;
}

/* The quotient of all values by g when it is one and the same. */
static bool one_quotient(tw_range r, int64_t g, int64_t *quotient)
{
    if (!is_bounded(r))
        return false;
    *quotient = tw_floordiv_i64(r.lo, g);
    return *quotient == tw_floordiv_i64(r.hi, g);
}

/* Bounds of the terms that g does not divide, with the constant modulo g. */
static tw_range rest_range(const bounds *b, const tw_sum *s, int64_t g)
{
    int64_t constant = tw_mod_i64(s->constant, g);
    tw_range r = {.lo = constant, .hi = constant};
    for (size_t i = 0; i < s->n; i++) {
        tw_term t = s->terms[i];
        if (t.coef % g != 0)
            r = tw_range_add(r, tw_range_mul(tw_expr_range(t.key, b->dims, b->n),
                                             (tw_range){.lo = t.coef, .hi = t.coef}));
    }
    return r;
}

/* The largest divisor g > 1 of c at which the sum can be split; 0 when there is none. */
static int64_t find_split(const bounds *b, const tw_sum *s, int64_t c, int64_t *quotient)
{
    int64_t best = 0, q;
    if (one_quotient(rest_range(b, s, c), c, quotient))
        return c;
    for (size_t i = 0; i < s->n; i++) {
        int64_t g = tw_gcd_i64(c, s->terms[i].coef);
        if (g > 1 && g > best && one_quotient(rest_range(b, s, g), g, &q)) {
            best = g;
            *quotient = q;
        }
    }
    return best;
}

/* e floordiv c or e mod c with both simplified and c > 0. */
static tw_expr simplify_division(const bounds *b, tw_expr_kind kind, tw_expr e, int64_t c)
{
    tw_sum s, whole, rest;
    int64_t quotient = 0, small;
    tw_sum_init(&s);
    tw_sum_add(&s, e, 1);
    int64_t g = find_split(b, &s, c, &quotient);
    if (!g)
        return tw_expr_binary(b->ctx, kind, e, tw_expr_const(b->ctx, c));
    tw_sum_init(&whole);
    tw_sum_init(&rest);
    whole.constant = tw_floordiv_i64(s.constant, g);
    rest.constant = tw_mod_i64(s.constant, g);
    for (size_t i = 0; i < s.n; i++) {
        tw_term t = s.terms[i];
        if (t.coef % g == 0)
            tw_sum_add_term(&whole, t.key, t.coef / g);
        else
            tw_sum_add_term(&rest, t.key, t.coef);
    }
    /* Now e = g * (whole + quotient) + (rest - g * quotient), the latter in 0..g-1. */
    tw_sum_add_const(&whole, quotient);
    if (!tw_mul_i64(quotient, -g, &small))
        rest.invalid = true;
    tw_sum_add_const(&rest, small);
    tw_expr outer =
        tw_expr_binary(b->ctx, kind, tw_sum_build(b->ctx, &whole), tw_expr_const(b->ctx, c / g));
    if (kind == TW_EXPR_FLOORDIV)
        return outer;
    return tw_expr_add(b->ctx, tw_expr_mulc(b->ctx, outer, g), tw_sum_build(b->ctx, &rest));
}

/* The symbolic divisor c = whole * g at a divisor g such that the rest of e stays within one g:
 * then *out is e floordiv c or e mod c. */
static bool split_at_term(const bounds *b, tw_expr_kind kind, tw_expr e, tw_expr c, tw_expr g,
                          tw_expr *out)
{
    tw_context *ctx = b->ctx;
    tw_sum whole, rest, ratio, none;
    tw_sum_split(ctx, e, g, &whole, &rest);
    tw_expr r = tw_sum_build(ctx, &rest);
    if (!tw_expr_at_least(ctx, r, 0, b->dims, b->n) ||
        !tw_expr_at_least(ctx, tw_expr_sub(ctx, g, r), 1, b->dims, b->n))
        return false;
    tw_sum_split(ctx, c, g, &ratio, &none);
    tw_expr outer = tw_expr_binary(ctx, kind, tw_sum_build(ctx, &whole), tw_sum_build(ctx, &ratio));
    *out = kind == TW_EXPR_FLOORDIV ? outer : tw_expr_add(ctx, tw_expr_mul(ctx, outer, g), r);
    return (*out)->kind != TW_EXPR_INVALID;
}

/* e floordiv c or e mod c with both simplified and c over symbols. */
static tw_expr simplify_symbolic_division(const bounds *b, tw_expr_kind kind, tw_expr e, tw_expr c)
{
    tw_expr out;
    if (c->kind == TW_EXPR_ADD) { /* no term: all of e is rest */
        if (tw_expr_at_least(b->ctx, e, 0, b->dims, b->n) &&
            tw_expr_at_least(b->ctx, tw_expr_sub(b->ctx, c, e), 1, b->dims, b->n))
            return kind == TW_EXPR_FLOORDIV ? tw_expr_const(b->ctx, 0) : e;
    } else if (tw_term_of(c).coef > 0) {
        if (split_at_term(b, kind, e, c, c, &out))
            return out;
        for (tw_expr x = e; x; x = x->kind == TW_EXPR_ADD ? x->lhs : NULL) {
            tw_expr g = tw_term_gcd(b->ctx, x->kind == TW_EXPR_ADD ? x->rhs : x, c);
            if (g->kind != TW_EXPR_CONST && g != c && split_at_term(b, kind, e, c, g, &out))
                return out;
        }
    }
    return tw_expr_binary(b->ctx, kind, e, c);
}

/* The smaller or larger of two simplified expressions when the bounds decide it. */
static tw_expr simplify_extremum(const bounds *b, tw_expr_kind kind, tw_expr x, tw_expr y)
{
    if (tw_expr_at_least(b->ctx, tw_expr_sub(b->ctx, y, x), 0, b->dims, b->n))
        return kind == TW_EXPR_MIN ? x : y;
    if (tw_expr_at_least(b->ctx, tw_expr_sub(b->ctx, x, y), 0, b->dims, b->n))
        return kind == TW_EXPR_MIN ? y : x;
    /* A nested minimum may be beaten in part: min(min(p, q), y) with y <= q. */
    if (x->kind == kind) {
        tw_expr part = simplify_extremum(b, kind, x->rhs, y);
        if (part == x->rhs || part == y)
            return simplify_extremum(b, kind, x->lhs, part);
    }
    return tw_expr_binary(b->ctx, kind, x, y);
}

static tw_expr simplify_sum(const bounds *b, tw_expr e)
{
    tw_sum in, out;
    tw_sum_init(&in);
    tw_sum_init(&out);
    tw_sum_add(&in, e, 1);
    out.constant = in.constant;
    for (size_t i = 0; i < in.n; i++)
        tw_sum_add(&out, simplify_once(b, in.terms[i].key), in.terms[i].coef);
    return tw_sum_build(b->ctx, &out);
}

static tw_expr simplify_once(const bounds *b, tw_expr e)
{
    if (e->kind == TW_EXPR_CONST || e->kind == TW_EXPR_INVALID)
        return e;
    tw_range r = tw_expr_range(e, b->dims, b->n);
    if (r.lo == r.hi && is_bounded(r))
        return tw_expr_const(b->ctx, r.lo);
    if (!e->lhs)
        return e;
    if (e->kind == TW_EXPR_ADD)
        return simplify_sum(b, e);
    tw_expr x = simplify_once(b, e->lhs), y = simplify_once(b, e->rhs);
    if (e->kind == TW_EXPR_FLOORDIV || e->kind == TW_EXPR_MOD) {
        if (y->kind == TW_EXPR_CONST && y->value > 0)
            return simplify_division(b, e->kind, x, y->value);
        if (y->kind != TW_EXPR_CONST && tw_expr_dim_count(y) == 0)
            return simplify_symbolic_division(b, e->kind, x, y);
    }
    if (e->kind == TW_EXPR_MIN || e->kind == TW_EXPR_MAX)
        return simplify_extremum(b, e->kind, x, y);
    return tw_expr_binary(b->ctx, e->kind, x, y);
}

tw_expr tw_expr_simplify(tw_context *ctx, tw_expr e, const tw_range *dims, size_t n)
{
    /* One simplification can open the way for another; a few rounds reach a fixed point. */
    bounds b = {ctx, dims, n};
    for (int round = 0; round < 4; round++) {
        tw_expr next = simplify_once(&b, e);
        if (next == e || next->kind == TW_EXPR_INVALID)
            break;
        e = next;
    }
    return e;
}
