/* expr_range.c: conservative bounds of expressions by interval arithmetic. */
#include "base/checked.h"
#include "ir/expr_impl.h"

static const tw_range all = {.lo = INT64_MIN, .hi = INT64_MAX};

/* a + b where either may be infinite, of the sign of `infinity`. */
static int64_t add_end(int64_t a, int64_t b, int64_t infinity)
{
    int64_t sum;
    if (a == infinity || b == infinity)
        return infinity;
    if (tw_add_i64(a, b, &sum))
        return sum;
    return a > 0 ? INT64_MAX : INT64_MIN;
}

tw_range tw_range_add(tw_range a, tw_range b)
{
    return (tw_range){.lo = add_end(a.lo, b.lo, INT64_MIN), .hi = add_end(a.hi, b.hi, INT64_MAX)};
}

/* Product of two ends; overflow and infinities saturate. */
static int64_t mul_end(int64_t a, int64_t b)
{
    int64_t product;
    if (tw_mul_i64(a, b, &product))
        return a != 0 && (b == INT64_MIN || b == INT64_MAX)
                   ? ((a > 0) == (b > 0) ? INT64_MAX : INT64_MIN)
                   : product;
    return (a > 0) == (b > 0) ? INT64_MAX : INT64_MIN;
}

tw_range tw_range_mul(tw_range a, tw_range b)
{
    int64_t ends[4] = {mul_end(a.lo, b.lo), mul_end(a.lo, b.hi), mul_end(a.hi, b.lo),
                       mul_end(a.hi, b.hi)};
    tw_range r = {.lo = ends[0], .hi = ends[0]};
    for (int i = 1; i < 4; i++) {
        r.lo = ends[i] < r.lo ? ends[i] : r.lo;
        r.hi = ends[i] > r.hi ? ends[i] : r.hi;
    }
    return r;
}

/* One end divided by a positive number, or by infinity. */
static int64_t div_end(int64_t a, int64_t b)
{
    if (a == INT64_MIN || a == INT64_MAX)
        return a;
    return tw_floordiv_i64(a, b);
}

/* Floor or ceiling of a / b; b is at least 1 where the quotient exists at all. */
static tw_range range_div(tw_range a, tw_range b, bool up)
{
    if (b.hi < 1)
        return all;
    b.lo = b.lo < 1 ? 1 : b.lo;
    /* Ends of largest and smallest size; the ceiling is at most the floor plus one. */
    tw_range r = {.lo = div_end(a.lo, a.lo < 0 ? b.lo : b.hi),
                  .hi = div_end(a.hi, a.hi < 0 ? b.hi : b.lo)};
    if (up)
        r.hi = add_end(r.hi, 1, INT64_MAX);
    return r;
}

static tw_range range_mod(tw_range a, tw_range b)
{
    if (b.hi < 1)
        return all;
    tw_range r = {.lo = 0, .hi = b.hi == INT64_MAX ? INT64_MAX : b.hi - 1};
    if (b.lo == b.hi && a.lo != INT64_MIN && a.hi != INT64_MAX &&
        tw_floordiv_i64(a.lo, b.lo) == tw_floordiv_i64(a.hi, b.lo))
        return (tw_range){.lo = tw_mod_i64(a.lo, b.lo), .hi = tw_mod_i64(a.hi, b.lo)};
    if (a.lo >= 0 && a.hi < r.hi)
        r.hi = a.hi;
    return r;
}

static int64_t min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

tw_range tw_expr_range(tw_expr e, const tw_range *dims, size_t n)
{
    switch (e->kind) {
    case TW_EXPR_CONST:
        return (tw_range){.lo = e->value, .hi = e->value};
    case TW_EXPR_DIM:
        return (size_t)e->value < n ? dims[e->value] : all;
    case TW_EXPR_SYM:
        return (tw_range){.lo = 0, .hi = INT64_MAX};
    case TW_EXPR_INVALID:
        return all;
    default:
        break;
    }
    tw_range a = tw_expr_range(e->lhs, dims, n), b = tw_expr_range(e->rhs, dims, n);
    switch (e->kind) {
    case TW_EXPR_ADD:
        return tw_range_add(a, b);
    case TW_EXPR_MUL:
        return tw_range_mul(a, b);
    case TW_EXPR_FLOORDIV:
    case TW_EXPR_CEILDIV:
        return range_div(a, b, e->kind == TW_EXPR_CEILDIV);
    case TW_EXPR_MOD:
        return range_mod(a, b);
    case TW_EXPR_MIN:
        return (tw_range){.lo = min_i64(a.lo, b.lo), .hi = min_i64(a.hi, b.hi)};
    case TW_EXPR_MAX:
        return (tw_range){.lo = max_i64(a.lo, b.lo), .hi = max_i64(a.hi, b.hi)};
    default:
        return all;
    }
}
