/* interval.c: boxes of index values, with outer loops symbolic and inner loops ranging.
 *
 *     io*6 + ii, ii in 0..5          lo = io*6, width = 5
 *     (io*6 + ii) floordiv 4         lo = (io*6) floordiv 4, width = 2
 *
 * A side is kept as its lower end and its width, so that the size of a region is known even where
 * its place is not. */
#include "schedule/access.h"

static tw_interval make(tw_expr lo, tw_expr width)
{
    bool known = lo->kind != TW_EXPR_INVALID && width->kind != TW_EXPR_INVALID;
    return (tw_interval){.known = known, .lo = lo, .width = width};
}

static const tw_interval nothing = {.known = false};

static bool is_zero(tw_expr e)
{
    return tw_expr_is_const(e) && e->value == 0;
}

/* Whether a dimension from `inner` on occurs. */
static bool uses_inner(tw_expr e, const tw_nest *nest, unsigned inner)
{
    for (unsigned i = inner; i < nest->n; i++)
        if (tw_expr_uses_dim(e, i))
            return true;
    return false;
}

static tw_expr simplify(tw_context *ctx, tw_expr e, const tw_nest *nest)
{
    return tw_expr_simplify(ctx, e, nest->ranges, nest->n);
}

/* An upper bound of e without any dimension: e itself, or a number from the bounds. */
static tw_expr without_dims(tw_context *ctx, tw_expr e, const tw_nest *nest)
{
    e = simplify(ctx, e, nest);
    if (tw_expr_dim_count(e) == 0)
        return e;
    int64_t hi = tw_expr_range(e, nest->ranges, nest->n).hi;
    if (hi != INT64_MAX)
        return tw_expr_const(ctx, hi);
    tw_expr top = tw_expr_top(ctx, e, nest->ranges, nest->n);
    return top ? top : tw_expr_invalid(ctx);
}

/* Bounds of loops that use inner loops whose bounds use inner loops … are followed that far. */
enum { LOOP_DEPTH = 3 };

static tw_interval hull(tw_context *ctx, tw_expr e, const tw_nest *nest, unsigned inner, int depth);

static tw_interval hull_of_loop(tw_context *ctx, const tw_nest *nest, unsigned i, unsigned inner,
                                int depth)
{
    if (!nest->known[i] || depth == 0)
        return nothing;
    tw_interval lo = hull(ctx, nest->lo[i], nest, inner, depth - 1);
    if (!lo.known)
        return nothing;
    tw_expr last = tw_expr_addc(ctx, tw_expr_sub(ctx, nest->hi[i], lo.lo), -1);
    return make(lo.lo, without_dims(ctx, last, nest));
}

static tw_interval add(tw_context *ctx, tw_interval a, tw_interval b)
{
    return make(tw_expr_add(ctx, a.lo, b.lo), tw_expr_add(ctx, a.width, b.width));
}

static tw_interval mul(tw_context *ctx, tw_interval a, tw_expr factor)
{
    tw_range r = tw_expr_range(factor, NULL, 0);
    if (tw_expr_dim_count(factor) > 0 && !is_zero(a.width))
        return nothing;
    if (is_zero(a.width) || r.lo >= 0)
        return make(tw_expr_mul(ctx, a.lo, factor), tw_expr_mul(ctx, a.width, factor));
    if (r.hi > 0)
        return nothing;
    tw_expr end = tw_expr_add(ctx, a.lo, a.width);
    return make(tw_expr_mul(ctx, end, factor),
                tw_expr_mul(ctx, a.width, tw_expr_mulc(ctx, factor, -1)));
}

/* The quotient by a constant: the ends' quotients, as the division is monotone. */
static tw_interval divide(tw_context *ctx, tw_interval a, tw_expr by)
{
    if (is_zero(a.width))
        return make(tw_expr_binary(ctx, TW_EXPR_FLOORDIV, a.lo, by), a.width);
    if (!tw_expr_is_const(by) || by->value <= 0)
        return nothing;
    tw_expr rest = tw_expr_binary(ctx, TW_EXPR_MOD, a.lo, by);
    int64_t slack = tw_expr_is_const(rest) ? rest->value : by->value - 1;
    return make(tw_expr_binary(ctx, TW_EXPR_FLOORDIV, a.lo, by),
                tw_expr_binary(ctx, TW_EXPR_FLOORDIV, tw_expr_addc(ctx, a.width, slack), by));
}

static tw_interval modulo(tw_context *ctx, tw_interval a, tw_expr by)
{
    tw_expr rest = tw_expr_binary(ctx, TW_EXPR_MOD, a.lo, by);
    if (is_zero(a.width))
        return make(rest, a.width);
    if (tw_expr_is_const(rest) && tw_expr_is_const(by) && tw_expr_is_const(a.width) &&
        rest->value < by->value - a.width->value)
        return make(rest, a.width);
    if (tw_expr_dim_count(by) > 0)
        return nothing;
    return make(tw_expr_const(ctx, 0), tw_expr_addc(ctx, by, -1));
}

/* The smaller or larger of two: between the smaller or larger ends. */
static tw_interval extremum(tw_context *ctx, tw_expr_kind kind, tw_interval a, tw_interval b,
                            const tw_nest *nest)
{
    tw_expr lo = tw_expr_binary(ctx, kind, a.lo, b.lo);
    tw_expr hi =
        tw_expr_binary(ctx, kind, tw_expr_add(ctx, a.lo, a.width), tw_expr_add(ctx, b.lo, b.width));
    return make(lo, without_dims(ctx, tw_expr_sub(ctx, hi, lo), nest));
}

static tw_interval hull(tw_context *ctx, tw_expr e, const tw_nest *nest, unsigned inner, int depth)
{
    if (e->kind == TW_EXPR_INVALID)
        return nothing;
    if (!uses_inner(e, nest, inner))
        return make(e, tw_expr_const(ctx, 0));
    if (e->kind == TW_EXPR_DIM)
        return hull_of_loop(ctx, nest, (unsigned)e->value, inner, depth);
    tw_interval a = hull(ctx, e->lhs, nest, inner, depth);
    tw_interval b = a.known ? hull(ctx, e->rhs, nest, inner, depth) : nothing;
    if (!a.known || !b.known)
        return nothing;
    switch (e->kind) {
    case TW_EXPR_ADD:
        return add(ctx, a, b);
    case TW_EXPR_MUL:
        return is_zero(b.width)   ? mul(ctx, a, b.lo)
               : is_zero(a.width) ? mul(ctx, b, a.lo)
                                  : nothing;
    case TW_EXPR_FLOORDIV:
        return is_zero(b.width) ? divide(ctx, a, b.lo) : nothing;
    case TW_EXPR_MOD:
        return is_zero(b.width) ? modulo(ctx, a, b.lo) : nothing;
    case TW_EXPR_MIN:
    case TW_EXPR_MAX:
        return extremum(ctx, e->kind, a, b, nest);
    default:
        return nothing;
    }
}

tw_interval tw_hull(tw_context *ctx, tw_expr e, const tw_nest *nest, unsigned inner)
{
    if (!e)
        return nothing;
    tw_interval r = hull(ctx, e, nest, inner, LOOP_DEPTH);
    if (!r.known)
        return nothing;
    return make(simplify(ctx, r.lo, nest), without_dims(ctx, r.width, nest));
}

tw_interval tw_interval_join(tw_context *ctx, tw_interval a, tw_interval b, const tw_nest *nest,
                             unsigned inner)
{
    tw_nest outer = *nest; /* the ends use outer loops only */
    outer.n = inner;
    if (!a.known || !b.known)
        return nothing;
    if (tw_interval_contains(ctx, a, b, nest, inner))
        return a;
    if (tw_interval_contains(ctx, b, a, nest, inner))
        return b;
    tw_expr lo = simplify(ctx, tw_expr_binary(ctx, TW_EXPR_MIN, a.lo, b.lo), &outer);
    tw_expr hi = tw_expr_binary(ctx, TW_EXPR_MAX, tw_expr_add(ctx, a.lo, a.width),
                                tw_expr_add(ctx, b.lo, b.width));
    return make(lo, without_dims(ctx, tw_expr_sub(ctx, hi, lo), &outer));
}

bool tw_interval_contains(tw_context *ctx, tw_interval a, tw_interval b, const tw_nest *nest,
                          unsigned inner)
{
    if (!a.known || !b.known)
        return false;
    tw_expr below = tw_expr_sub(ctx, b.lo, a.lo);
    tw_expr above =
        tw_expr_sub(ctx, tw_expr_add(ctx, a.lo, a.width), tw_expr_add(ctx, b.lo, b.width));
    return tw_expr_at_least(ctx, below, 0, nest->ranges, inner) &&
           tw_expr_at_least(ctx, above, 0, nest->ranges, inner);
}

tw_interval tw_interval_clip(tw_context *ctx, tw_interval a, tw_expr dim)
{
    tw_expr whole = tw_expr_addc(ctx, dim, -1);
    if (!a.known)
        return make(tw_expr_const(ctx, 0), whole);
    tw_expr more = tw_expr_sub(ctx, a.width, whole);
    bool wide = more->kind != TW_EXPR_INVALID && tw_expr_range(more, NULL, 0).lo >= 0;
    int64_t lo, width, size;
    if (wide || !tw_expr_as_const(a.lo, &lo) || !tw_expr_as_const(a.width, &width) ||
        !tw_expr_as_const(whole, &size))
        return wide ? make(tw_expr_const(ctx, 0), whole) : a;
    /* What lies outside is touched by masked accesses only, that is, not at all. */
    int64_t from = lo > 0 ? lo : 0, to = lo + width < size ? lo + width : size;
    from = from < size ? from : size;
    to = to > from ? to : from;
    return make(tw_expr_const(ctx, from), tw_expr_const(ctx, to - from));
}
