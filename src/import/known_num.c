/* known_num.c: arithmetic on single known elements.
 *
 * Integers are exact or unknown: what would wrap is not followed. Floating-point results are those
 * of the element type, for double holds exact operands and is wide enough that rounding twice gives
 * the same as rounding once (Figueroa, "When is double rounding innocuous?", 1995). */
#include "base/checked.h"
#include "import/known_eval.h"
#include "ir/elem_data.h"

#include <math.h>

static const tw_num unknown = {.kind = TW_NUM_UNKNOWN};

static double round_to(tw_elem elem, double value)
{
    return elem == TW_F64 ? value : tw_elem_to_double(elem, tw_elem_from_double(elem, value));
}

/* A ratio in lowest terms as far as numbers go. */
static tw_num ratio(tw_gb *g, tw_elem elem, tw_expr num, int64_t den)
{
    if (num->kind == TW_EXPR_INVALID)
        return unknown;
    if (tw_elem_is_float(elem) && tw_expr_is_const(num))
        return tw_num_real(round_to(elem, (double)num->value / (double)den));
    if (den > 1 &&
        tw_expr_binary(g->ctx, TW_EXPR_MOD, num, tw_gb_const(g, den)) == tw_gb_const(g, 0)) {
        num = tw_expr_binary(g->ctx, TW_EXPR_FLOORDIV, num, tw_gb_const(g, den));
        den = 1;
    }
    return (tw_num){.kind = TW_NUM_RATIO, .num = num, .den = den};
}

/* An integer that the element type holds; wider ones would wrap. */
static tw_num integer(tw_elem elem, tw_expr value)
{
    unsigned bits = tw_elem_bits(elem);
    if (value->kind == TW_EXPR_INVALID)
        return unknown;
    if (tw_expr_is_const(value)) {
        int64_t v = value->value;
        bool fits = elem == TW_BOOL            ? v == 0 || v == 1
                    : !tw_elem_is_signed(elem) ? v >= 0 && (bits >= 64 || v < INT64_C(1) << bits)
                                               : bits == 64 || (v >= -(INT64_C(1) << (bits - 1)) &&
                                                                v < INT64_C(1) << (bits - 1));
        if (!fits)
            return unknown;
    }
    return (tw_num){.kind = TW_NUM_RATIO, .num = value, .den = 1};
}

static tw_num boolean(tw_gb *g, bool value)
{
    return tw_num_int(g, value);
}

static bool is_number(const tw_num *x, double *out)
{
    if (x->kind == TW_NUM_RATIO && tw_expr_is_const(x->num))
        *out = (double)x->num->value / (double)x->den;
    else if (x->kind == TW_NUM_REAL)
        *out = x->real;
    else
        return false;
    return true;
}

/* A number as a ratio with a small power of two, or a small integer, below: 0.5 -> 1/2. */
static bool as_ratio(tw_gb *g, const tw_num *x, tw_num *out)
{
    if (x->kind == TW_NUM_RATIO) {
        *out = *x;
        return true;
    }
    for (int64_t den = 1; den <= 64; den++) {
        double num = x->real * (double)den;
        if (num == rint(num) && fabs(num) < 1e9 && num / (double)den == x->real) {
            *out = (tw_num){.kind = TW_NUM_RATIO, .num = tw_gb_const(g, (int64_t)num), .den = den};
            return true;
        }
    }
    return false;
}

/* ---- Two operands ---- */

static tw_num real_binary(tw_graph_kind kind, tw_elem elem, double a, double b)
{
    switch (kind) {
    case TW_GRAPH_ADD:
        return tw_num_real(round_to(elem, a + b));
    case TW_GRAPH_SUB:
        return tw_num_real(round_to(elem, a - b));
    case TW_GRAPH_MUL:
        return tw_num_real(round_to(elem, a * b));
    case TW_GRAPH_DIV:
        return tw_num_real(round_to(elem, a / b));
    case TW_GRAPH_MAX:
        return tw_num_real(isnan(a) || a > b ? a : b);
    case TW_GRAPH_MIN:
        return tw_num_real(isnan(a) || a < b ? a : b);
    default:
        return unknown;
    }
}

/* a op b for symbolic sizes in a floating-point tensor. */
static tw_num ratio_binary(tw_gb *g, tw_graph_kind kind, tw_elem elem, tw_num a, tw_num b)
{
    int64_t den, whole;
    if (!tw_mul_i64(a.den, b.den, &den))
        return unknown;
    tw_expr left = tw_expr_mulc(g->ctx, a.num, b.den), right = tw_expr_mulc(g->ctx, b.num, a.den);
    switch (kind) {
    case TW_GRAPH_ADD:
        return ratio(g, elem, tw_expr_add(g->ctx, left, right), den);
    case TW_GRAPH_SUB:
        return ratio(g, elem, tw_expr_sub(g->ctx, left, right), den);
    case TW_GRAPH_MUL:
        return ratio(g, elem, tw_expr_mul(g->ctx, a.num, b.num), den);
    case TW_GRAPH_DIV:
        return tw_expr_as_const(right, &whole) && whole > 0 ? ratio(g, elem, left, whole) : unknown;
    default:
        return unknown;
    }
}

/* Quotient rounded towards zero. */
static tw_expr int_div(tw_gb *g, tw_expr a, tw_expr b)
{
    tw_context *ctx = g->ctx;
    if (tw_expr_is_const(a) && tw_expr_is_const(b))
        return b->value == 0 || (b->value == -1 && a->value == INT64_MIN)
                   ? tw_expr_invalid(ctx)
                   : tw_expr_const(ctx, a->value / b->value);
    if (tw_expr_is_const(b) && b->value < 0)
        return tw_expr_invalid(ctx);
    tw_expr q = tw_expr_binary(ctx, TW_EXPR_FLOORDIV, a, b);
    bool exact = tw_expr_is_const(b) && tw_expr_mul(ctx, q, b) == a;
    return exact || tw_expr_range(a, NULL, 0).lo >= 0 ? q : tw_expr_invalid(ctx);
}

static tw_expr int_mod(tw_gb *g, const tw_op *op, tw_expr a, tw_expr b)
{
    bool fmod = tw_op_bool(op, "fmod", false);
    if (tw_expr_is_const(a) && tw_expr_is_const(b)) {
        if (b->value == 0 || b->value == -1)
            return b->value ? tw_gb_const(g, 0) : tw_expr_invalid(g->ctx);
        return tw_gb_const(g, fmod ? a->value % b->value : tw_mod_i64(a->value, b->value));
    }
    if ((fmod && tw_expr_range(a, NULL, 0).lo < 0) || tw_expr_range(b, NULL, 0).lo < 0)
        return tw_expr_invalid(g->ctx);
    return tw_expr_binary(g->ctx, TW_EXPR_MOD, a, b);
}

static tw_expr int_pow(tw_gb *g, tw_expr a, tw_expr b)
{
    tw_expr result = tw_gb_const(g, 1);
    int64_t n;
    if (!tw_expr_as_const(b, &n) || n < 0 || n > 64)
        return tw_expr_invalid(g->ctx);
    for (; n > 0; n--)
        result = tw_expr_mul(g->ctx, result, a);
    return result;
}

/* and, or, xor of numbers. */
static tw_expr bitwise(tw_gb *g, tw_graph_kind kind, tw_expr a, tw_expr b)
{
    int64_t x, y;
    if (!tw_expr_as_const(a, &x) || !tw_expr_as_const(b, &y))
        return tw_expr_invalid(g->ctx);
    return tw_gb_const(g, kind == TW_GRAPH_AND ? x & y : kind == TW_GRAPH_OR ? x | y : x ^ y);
}

static tw_expr int_binary(tw_gb *g, const tw_op *op, tw_expr a, tw_expr b)
{
    tw_graph_kind kind = tw_graph_kind_of(op);
    switch (kind) {
    case TW_GRAPH_ADD:
        return tw_expr_add(g->ctx, a, b);
    case TW_GRAPH_SUB:
        return tw_expr_sub(g->ctx, a, b);
    case TW_GRAPH_MUL:
        return tw_expr_mul(g->ctx, a, b);
    case TW_GRAPH_DIV:
        return int_div(g, a, b);
    case TW_GRAPH_MOD:
        return int_mod(g, op, a, b);
    case TW_GRAPH_POW:
        return int_pow(g, a, b);
    case TW_GRAPH_MAX:
        return tw_expr_binary(g->ctx, TW_EXPR_MAX, a, b);
    case TW_GRAPH_MIN:
        return tw_expr_binary(g->ctx, TW_EXPR_MIN, a, b);
    case TW_GRAPH_AND:
    case TW_GRAPH_OR:
    case TW_GRAPH_XOR:
        return bitwise(g, kind, a, b);
    default:
        return tw_expr_invalid(g->ctx);
    }
}

/* Comparison of expressions where their bounds decide it. */
static tw_num compare_exprs(tw_gb *g, tw_graph_kind kind, tw_expr a, tw_expr b)
{
    tw_range d = tw_expr_range(tw_expr_sub(g->ctx, a, b), NULL, 0);
    bool zero = d.lo == 0 && d.hi == 0, differ = d.lo > 0 || d.hi < 0;
    switch (kind) {
    case TW_GRAPH_EQUAL:
        return zero || differ ? boolean(g, zero) : unknown;
    case TW_GRAPH_LESS:
        return d.hi < 0 || d.lo >= 0 ? boolean(g, d.hi < 0) : unknown;
    case TW_GRAPH_LESS_EQUAL:
        return d.hi <= 0 || d.lo > 0 ? boolean(g, d.hi <= 0) : unknown;
    case TW_GRAPH_GREATER:
        return d.lo > 0 || d.hi <= 0 ? boolean(g, d.lo > 0) : unknown;
    default:
        return d.lo >= 0 || d.hi < 0 ? boolean(g, d.lo >= 0) : unknown;
    }
}

static tw_num compare(tw_gb *g, tw_graph_kind kind, const tw_num *a, const tw_num *b)
{
    double x, y;
    if (a->kind == TW_NUM_RATIO && b->kind == TW_NUM_RATIO && a->den == 1 && b->den == 1)
        return compare_exprs(g, kind, a->num, b->num);
    if (!is_number(a, &x) || !is_number(b, &y))
        return unknown;
    return boolean(g, kind == TW_GRAPH_EQUAL        ? x == y
                      : kind == TW_GRAPH_LESS       ? x < y
                      : kind == TW_GRAPH_LESS_EQUAL ? x <= y
                      : kind == TW_GRAPH_GREATER    ? x > y
                                                    : x >= y);
}

static tw_num binary(tw_gb *g, const tw_op *op, tw_elem elem, const tw_num *a, const tw_num *b)
{
    tw_graph_kind kind = tw_graph_kind_of(op);
    tw_num x, y;
    if (kind >= TW_GRAPH_EQUAL && kind <= TW_GRAPH_GREATER_EQUAL)
        return compare(g, kind, a, b);
    if (!tw_elem_is_float(elem))
        return a->kind == TW_NUM_RATIO && b->kind == TW_NUM_RATIO && b->den == 1
                   ? integer(elem, int_binary(g, op, a->num, b->num))
                   : unknown;
    if (a->kind == TW_NUM_REAL && b->kind == TW_NUM_REAL)
        return real_binary(kind, elem, a->real, b->real);
    return as_ratio(g, a, &x) && as_ratio(g, b, &y) ? ratio_binary(g, kind, elem, x, y) : unknown;
}

/* ---- One operand ---- */

static tw_num cast(tw_gb *g, tw_elem to, const tw_num *x)
{
    if (tw_elem_is_float(to)) {
        double value;
        if (is_number(x, &value))
            return tw_num_real(round_to(to, value));
        return *x;
    }
    if (to == TW_BOOL) {
        double value;
        if (is_number(x, &value))
            return boolean(g, value != 0);
        return tw_expr_range(x->num, NULL, 0).lo > 0 ? boolean(g, true) : unknown;
    }
    if (x->kind == TW_NUM_REAL)
        return fabs(x->real) < 0x1p62 ? integer(to, tw_gb_const(g, (int64_t)x->real)) : unknown;
    if (x->den == 1)
        return integer(to, x->num);
    return tw_expr_range(x->num, NULL, 0).lo >= 0
               ? integer(to,
                         tw_expr_binary(g->ctx, TW_EXPR_FLOORDIV, x->num, tw_gb_const(g, x->den)))
               : unknown;
}

static tw_num real_unary(tw_graph_kind kind, tw_elem elem, double x)
{
    switch (kind) {
    case TW_GRAPH_NEG:
        return tw_num_real(-x);
    case TW_GRAPH_ABS:
        return tw_num_real(fabs(x));
    case TW_GRAPH_SQRT:
        return tw_num_real(round_to(elem, sqrt(x)));
    case TW_GRAPH_RECIPROCAL:
        return tw_num_real(round_to(elem, 1 / x));
    case TW_GRAPH_FLOOR:
        return tw_num_real(floor(x));
    case TW_GRAPH_CEIL:
        return tw_num_real(ceil(x));
    case TW_GRAPH_ROUND:
        return tw_num_real(rint(x));
    default:
        return unknown;
    }
}

/* Of an integer, or of a symbolic ratio in a floating-point tensor. */
static tw_num ratio_unary(tw_gb *g, tw_graph_kind kind, tw_elem elem, const tw_num *x)
{
    tw_expr den = tw_gb_const(g, x->den);
    switch (kind) {
    case TW_GRAPH_NEG:
        return tw_elem_is_float(elem) ? ratio(g, elem, tw_expr_mulc(g->ctx, x->num, -1), x->den)
                                      : integer(elem, tw_expr_mulc(g->ctx, x->num, -1));
    case TW_GRAPH_ABS:
    case TW_GRAPH_RELU:
        if (tw_expr_range(x->num, NULL, 0).lo >= 0)
            return *x;
        return tw_expr_is_const(x->num) && x->den == 1 && x->num->value > INT64_MIN
                   ? integer(elem, tw_gb_const(g, kind == TW_GRAPH_RELU ? 0 : -x->num->value))
                   : unknown;
    case TW_GRAPH_FLOOR:
        return ratio(g, elem, tw_expr_binary(g->ctx, TW_EXPR_FLOORDIV, x->num, den), 1);
    case TW_GRAPH_CEIL:
        return ratio(g, elem, tw_expr_binary(g->ctx, TW_EXPR_CEILDIV, x->num, den), 1);
    case TW_GRAPH_NOT:
        return elem == TW_BOOL && tw_expr_is_const(x->num) ? boolean(g, !x->num->value) : unknown;
    default:
        return unknown;
    }
}

tw_num tw_num_apply(tw_gb *g, const tw_op *op, tw_elem elem, tw_elem to, const tw_num *args)
{
    tw_graph_kind kind = tw_graph_kind_of(op);
    int64_t condition;
    if (kind == TW_GRAPH_WHERE)
        return args[0].kind == TW_NUM_RATIO && tw_expr_as_const(args[0].num, &condition)
                   ? args[condition ? 1 : 2]
                   : unknown;
    for (unsigned i = 0; i < op->n_operands; i++)
        if (args[i].kind == TW_NUM_UNKNOWN)
            return unknown;
    if (kind == TW_GRAPH_CAST)
        return cast(g, to, &args[0]);
    if (op->n_operands == 2)
        return binary(g, op, elem, &args[0], &args[1]);
    return args[0].kind == TW_NUM_REAL ? real_unary(kind, elem, args[0].real)
                                       : ratio_unary(g, kind, elem, &args[0]);
}
