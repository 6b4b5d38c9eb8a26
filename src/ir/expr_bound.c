/* expr_bound.c: bounds over symbols, where numbers do not do.
 *
 * A dimension is replaced by the end of its range that makes the expression least (or largest).
 * What cancels then is gone:
 *
 *     d0 in 0..n - 1:  n - 1 - d0               at least  n - 1 - (n - 1) = 0
 *     d0 in 0..n - 1:  d0 * m + m - 1           at most   n * m - 1
 *
 * What is left is over symbols; each of them is at least 0, and at least 1 if it takes that for a
 * dimension's range not to be empty. */
#include "base/checked.h"
#include "ir/expr_impl.h"

typedef struct dims {
    tw_context *ctx;
    const tw_range *ranges;
    size_t n;
} dims;

static tw_expr bound(const dims *d, tw_expr e, bool up);

static bool has_dims(tw_expr e)
{
    return tw_expr_node_of(e)->dims > 0;
}

static tw_expr valid(tw_expr e)
{
    return e && e->kind != TW_EXPR_INVALID ? e : NULL;
}

static tw_expr bound_dim(const dims *d, size_t i, bool up)
{
    if (i >= d->n)
        return NULL;
    tw_range r = d->ranges[i];
    if (up && r.top)
        return r.top;
    int64_t end = up ? r.hi : r.lo;
    return end == INT64_MIN || end == INT64_MAX ? NULL : tw_expr_const(d->ctx, end);
}

/* x * factor, for a factor without dimensions, whose sign is to be known. */
static tw_expr bound_scaled(const dims *d, tw_expr x, tw_expr factor, bool up)
{
    tw_range r = tw_expr_range(factor, NULL, 0);
    if (r.lo < 0 && r.hi > 0)
        return NULL;
    x = bound(d, x, r.lo >= 0 ? up : !up);
    return x ? tw_expr_mul(d->ctx, x, factor) : NULL;
}

static tw_expr bound_product(const dims *d, tw_expr x, tw_expr y, bool up)
{
    if (!has_dims(y))
        return bound_scaled(d, x, y, up);
    if (!has_dims(x))
        return bound_scaled(d, y, x, up);
    if (tw_expr_range(x, d->ranges, d->n).lo < 0 || tw_expr_range(y, d->ranges, d->n).lo < 0)
        return NULL;
    x = bound(d, x, up);
    y = bound(d, y, up);
    return x && y ? tw_expr_mul(d->ctx, x, y) : NULL;
}

/* By something positive (else there is no value), which has to be the same throughout. */
static tw_expr bound_quotient(const dims *d, tw_expr e, bool up)
{
    tw_expr x = has_dims(e->rhs) ? NULL : bound(d, e->lhs, up);
    return x ? tw_expr_binary(d->ctx, e->kind, x, e->rhs) : NULL;
}

static tw_expr bound_remainder(const dims *d, tw_expr e, bool up)
{
    if (!up)
        return tw_expr_const(d->ctx, 0);
    tw_expr top = bound(d, e->rhs, true);
    return top ? tw_expr_addc(d->ctx, top, -1) : NULL;
}

/* One argument bounds the smaller one from above, the larger one from below. */
static tw_expr bound_extremum(const dims *d, tw_expr e, bool up)
{
    tw_expr x = bound(d, e->lhs, up), y = bound(d, e->rhs, up);
    if (x && y)
        return tw_expr_binary(d->ctx, e->kind, x, y);
    return (e->kind == TW_EXPR_MIN) == up ? (x ? x : y) : NULL;
}

/* An expression over symbols that e is never above (up) or below; NULL when none is found. */
static tw_expr bound(const dims *d, tw_expr e, bool up)
{
    if (e->kind == TW_EXPR_INVALID || !has_dims(e))
        return valid(e);
    tw_expr x, y;
    switch (e->kind) {
    case TW_EXPR_DIM:
        return bound_dim(d, (size_t)e->value, up);
    case TW_EXPR_ADD:
        x = bound(d, e->lhs, up);
        y = x ? bound(d, e->rhs, up) : NULL;
        return y ? valid(tw_expr_add(d->ctx, x, y)) : NULL;
    case TW_EXPR_MUL:
        return valid(bound_product(d, e->lhs, e->rhs, up));
    case TW_EXPR_FLOORDIV:
    case TW_EXPR_CEILDIV:
        return valid(bound_quotient(d, e, up));
    case TW_EXPR_MOD:
        return valid(bound_remainder(d, e, up));
    default:
        return valid(bound_extremum(d, e, up));
    }
}

tw_expr tw_expr_top(tw_context *ctx, tw_expr e, const tw_range *ranges, size_t n)
{
    return bound(&(dims){ctx, ranges, n}, e, true);
}

/* ---- What symbols are at least ----------------------------------------------------------- */

enum { MAX_SYMBOLS = 16 };

typedef struct minima {
    tw_context *ctx;
    struct {
        const char *symbol;
        int64_t least;
    } of[MAX_SYMBOLS];
    unsigned n;
} minima;

static void note_symbol(minima *m, const char *symbol, int64_t least)
{
    unsigned i = 0;
    while (i < m->n && m->of[i].symbol != symbol)
        i++;
    if (i == MAX_SYMBOLS)
        return;
    if (i == m->n)
        m->n++;
    m->of[i].symbol = symbol;
    m->of[i].least = m->of[i].least > least ? m->of[i].least : least;
}

/* Notes what follows from e >= least for e over symbols: k*x + c with one term, whose factors are
 * not negative. */
static void note_fact(minima *m, tw_expr e, int64_t least)
{
    int64_t constant = 0, product;
    if (e->kind == TW_EXPR_ADD && e->rhs->kind == TW_EXPR_CONST) {
        constant = e->rhs->value;
        e = e->lhs;
    }
    tw_term t = tw_term_of(e);
    if (e->kind == TW_EXPR_ADD || t.coef < 1 || !tw_sub_i64(least, constant, &least) || least < 1 ||
        least > INT32_MAX)
        return;
    least = (least + t.coef - 1) / t.coef;
    for (tw_expr x = t.key; x->kind == TW_EXPR_MUL; x = x->lhs)
        if (tw_expr_range(x->lhs, NULL, 0).lo < 0 || tw_expr_range(x->rhs, NULL, 0).lo < 0)
            return; /* both may be negative */
    for (; t.key->kind == TW_EXPR_MUL; t.key = t.key->lhs, least = 1)
        note_fact(m, t.key->rhs, 1);
    if (t.key->kind == TW_EXPR_SYM)
        note_symbol(m, t.key->symbol, least);
    else if (t.key->kind == TW_EXPR_FLOORDIV && t.key->rhs->kind == TW_EXPR_CONST &&
             tw_mul_i64(least, t.key->rhs->value, &product))
        note_fact(m, t.key->lhs, product);
}

/* n -> n + least, which is to say that n is at least that. */
static tw_expr raise(void *data, const char *symbol)
{
    const minima *m = data;
    for (unsigned i = 0; i < m->n; i++)
        if (m->of[i].symbol == symbol)
            return tw_expr_addc(m->ctx, tw_expr_sym(m->ctx, symbol), m->of[i].least);
    return NULL;
}

static bool has_tops(const tw_range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ranges[i].top)
            return true;
    return false;
}

bool tw_expr_at_least(tw_context *ctx, tw_expr e, int64_t least, const tw_range *ranges, size_t n)
{
    if (e->kind == TW_EXPR_INVALID)
        return false;
    if (tw_expr_range(e, ranges, n).lo >= least)
        return true;
    if (!tw_expr_node_of(e)->symbols || !has_tops(ranges, n) || least == INT64_MIN)
        return false;
    dims d = {ctx, ranges, n};
    tw_expr lowest = bound(&d, tw_expr_addc(ctx, e, -least), false);
    if (!lowest)
        return false;
    minima m = {.ctx = ctx};
    for (size_t i = 0; i < n; i++)
        if (ranges[i].top && ranges[i].lo > -INT32_MAX)
            note_fact(&m, ranges[i].top, ranges[i].lo);
    lowest = tw_expr_bind_symbols(ctx, lowest, raise, &m);
    return lowest->kind != TW_EXPR_INVALID && tw_expr_range(lowest, NULL, 0).lo >= 0;
}
