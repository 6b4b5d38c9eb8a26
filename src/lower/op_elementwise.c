/* op_elementwise.c: operations that compute each element alone.
 *
 *   graph.add %a, %b   ->   loop.block "add": out[i] = a[i] + b[i], axes of size 1 broadcast */
#include "lower/lowering.h"

#include <math.h>
#include <string.h>

/* Operations that are one operation of the loop dialect. */
static const struct {
    tw_graph_kind graph;
    tw_loop_kind loop;
} direct[] = {
    {TW_GRAPH_NEG, TW_LOOP_NEG},         {TW_GRAPH_ABS, TW_LOOP_ABS},
    {TW_GRAPH_EXP, TW_LOOP_EXP},         {TW_GRAPH_LOG, TW_LOOP_LOG},
    {TW_GRAPH_SQRT, TW_LOOP_SQRT},       {TW_GRAPH_SIN, TW_LOOP_SIN},
    {TW_GRAPH_COS, TW_LOOP_COS},         {TW_GRAPH_TAN, TW_LOOP_TAN},
    {TW_GRAPH_ASIN, TW_LOOP_ASIN},       {TW_GRAPH_ACOS, TW_LOOP_ACOS},
    {TW_GRAPH_ATAN, TW_LOOP_ATAN},       {TW_GRAPH_SINH, TW_LOOP_SINH},
    {TW_GRAPH_COSH, TW_LOOP_COSH},       {TW_GRAPH_TANH, TW_LOOP_TANH},
    {TW_GRAPH_ASINH, TW_LOOP_ASINH},     {TW_GRAPH_ACOSH, TW_LOOP_ACOSH},
    {TW_GRAPH_ATANH, TW_LOOP_ATANH},     {TW_GRAPH_ERF, TW_LOOP_ERF},
    {TW_GRAPH_FLOOR, TW_LOOP_FLOOR},     {TW_GRAPH_CEIL, TW_LOOP_CEIL},
    {TW_GRAPH_ROUND, TW_LOOP_ROUND},     {TW_GRAPH_NOT, TW_LOOP_NOT},
    {TW_GRAPH_ADD, TW_LOOP_ADD},         {TW_GRAPH_SUB, TW_LOOP_SUB},
    {TW_GRAPH_MUL, TW_LOOP_MUL},         {TW_GRAPH_DIV, TW_LOOP_DIV},
    {TW_GRAPH_MAX, TW_LOOP_MAX},         {TW_GRAPH_MIN, TW_LOOP_MIN},
    {TW_GRAPH_AND, TW_LOOP_AND},         {TW_GRAPH_OR, TW_LOOP_OR},
    {TW_GRAPH_XOR, TW_LOOP_XOR},         {TW_GRAPH_SHIFT_LEFT, TW_LOOP_SHL},
    {TW_GRAPH_SHIFT_RIGHT, TW_LOOP_SHR},
};

static const struct {
    tw_graph_kind graph;
    const char *predicate;
} compares[] = {
    {TW_GRAPH_EQUAL, "eq"},   {TW_GRAPH_LESS, "lt"},          {TW_GRAPH_LESS_EQUAL, "le"},
    {TW_GRAPH_GREATER, "gt"}, {TW_GRAPH_GREATER_EQUAL, "ge"},
};

/* ---- Composed functions; x is of compute type ---- */

static tw_value *add(tw_stage *s, tw_value *a, tw_value *b)
{
    return tw_s2(s, TW_LOOP_ADD, a, b);
}

static tw_value *mul(tw_stage *s, tw_value *a, tw_value *b)
{
    return tw_s2(s, TW_LOOP_MUL, a, b);
}

static tw_value *scaled(tw_stage *s, tw_value *x, double factor)
{
    return mul(s, x, tw_like(s, x, factor));
}

static tw_value *clamp01(tw_stage *s, tw_value *x)
{
    tw_value *below = tw_s2(s, TW_LOOP_MIN, x, tw_like(s, x, 1));
    return tw_s2(s, TW_LOOP_MAX, below, tw_like(s, x, 0));
}

static tw_value *sign(tw_stage *s, tw_value *x)
{
    tw_value *zero = tw_like(s, x, 0);
    /* Zeroes of both signs give 0; what is none of the three is NaN and stays. */
    tw_value *rest = tw_stage_select(s, tw_stage_compare(s, "eq", x, zero), zero, x);
    if (tw_elem_is_signed(x->type->elem))
        rest = tw_stage_select(s, tw_stage_compare(s, "lt", x, zero), tw_like(s, x, -1), rest);
    return tw_stage_select(s, tw_stage_compare(s, "gt", x, zero), tw_like(s, x, 1), rest);
}

static tw_value *sigmoid(tw_stage *s, tw_value *x)
{
    tw_value *one = tw_like(s, x, 1);
    tw_value *e = tw_s1(s, TW_LOOP_EXP, tw_s1(s, TW_LOOP_NEG, x));
    return tw_s2(s, TW_LOOP_DIV, one, add(s, one, e));
}

static tw_value *sub(tw_stage *s, tw_value *a, tw_value *b)
{
    return tw_s2(s, TW_LOOP_SUB, a, b);
}

/* exp(-|x|), between 0 and 1 */
static tw_value *exp_down(tw_stage *s, tw_value *x)
{
    return tw_s1(s, TW_LOOP_EXP, tw_s1(s, TW_LOOP_NEG, tw_s1(s, TW_LOOP_ABS, x)));
}

/* max(x, 0) + log(1 + e), e = exp(-|x|); what rounding takes from e in the sum u = 1 + e, which is
 * all of it when x is far below zero, comes back as (e - (u - 1)) / u. */
static tw_value *softplus(tw_stage *s, tw_value *x)
{
    tw_value *one = tw_like(s, x, 1), *e = exp_down(s, x), *u = add(s, one, e);
    tw_value *lost = tw_s2(s, TW_LOOP_DIV, sub(s, e, sub(s, u, one)), u);
    tw_value *log1 = add(s, tw_s1(s, TW_LOOP_LOG, u), lost);
    return add(s, tw_s2(s, TW_LOOP_MAX, x, tw_like(s, x, 0)), log1);
}

/* x < 0 ? low : high */
static tw_value *below_zero(tw_stage *s, tw_value *x, tw_value *low, tw_value *high)
{
    return tw_stage_select(s, tw_stage_compare(s, "lt", x, tw_like(s, x, 0)), low, high);
}

/* x tanh(softplus(x)): with e = exp(-|x|), x (e^2 + 2 e) / (e^2 + 2 e + 2) below zero and
 * x (1 + 2 e) / (1 + 2 e + 2 e^2) above, where nothing cancels or overflows. */
static tw_value *mish(tw_stage *s, tw_value *x)
{
    tw_value *e = exp_down(s, x), *square = mul(s, e, e), *twice = scaled(s, e, 2);
    tw_value *low = add(s, square, twice), *high = add(s, tw_like(s, x, 1), twice);
    tw_value *over = below_zero(s, x, low, high);
    tw_value *under =
        below_zero(s, x, add(s, low, tw_like(s, x, 2)), add(s, high, scaled(s, square, 2)));
    return mul(s, x, tw_s2(s, TW_LOOP_DIV, over, under));
}

static tw_value *elu(tw_stage *s, tw_value *x, double alpha)
{
    tw_value *e = tw_s2(s, TW_LOOP_SUB, tw_s1(s, TW_LOOP_EXP, x), tw_like(s, x, 1));
    return below_zero(s, x, scaled(s, e, alpha), x);
}

static tw_value *hard_sigmoid(tw_stage *s, tw_value *x, double alpha, double beta)
{
    return clamp01(s, add(s, scaled(s, x, alpha), tw_like(s, x, beta)));
}

static tw_value *gelu(tw_stage *s, tw_value *x, bool approximate)
{
    tw_value *inner;
    if (approximate) {
        tw_value *cube = scaled(s, mul(s, mul(s, x, x), x), 0.044715);
        inner = tw_s1(s, TW_LOOP_TANH, scaled(s, add(s, x, cube), sqrt(2 / M_PI)));
    } else {
        inner = tw_s1(s, TW_LOOP_ERF, scaled(s, x, M_SQRT1_2));
    }
    return mul(s, scaled(s, x, 0.5), add(s, tw_like(s, x, 1), inner));
}

static tw_value *is_inf(tw_stage *s, tw_op *op, tw_value *x)
{
    bool positive = tw_op_bool(op, "positive", true), negative = tw_op_bool(op, "negative", true);
    if (!tw_elem_is_float(x->type->elem) || (!positive && !negative))
        return tw_stage_const(s, TW_BOOL, 0);
    if (positive && negative)
        x = tw_s1(s, TW_LOOP_ABS, x);
    return tw_stage_compare(s, "eq", x, tw_like(s, x, positive ? INFINITY : -INFINITY));
}

/* In the wider of the two types when they differ; an integer's fractional power in double. */
static tw_value *power(tw_stage *s, tw_value *a, tw_value *b)
{
    tw_elem ea = a->type->elem, eb = b->type->elem, result = ea;
    if (ea != eb && !tw_elem_is_float(ea) && tw_elem_is_float(eb))
        ea = TW_F64;
    else if (tw_elem_is_float(ea) && eb == TW_F64)
        ea = TW_F64;
    else if (!tw_elem_is_float(ea) && tw_elem_bits(eb) > tw_elem_bits(ea))
        ea = eb;
    double exponent = 0;
    if (b->op && tw_is_loop(b->op, TW_LOOP_CONST))
        exponent = tw_op_float(b->op, "value", (double)tw_op_int(b->op, "value", 0));
    a = tw_stage_cast(s, a, ea);
    if (exponent == 2 || exponent == 3) {
        tw_value *square = mul(s, a, a);
        return tw_stage_cast(s, exponent == 2 ? square : mul(s, square, a), result);
    }
    return tw_stage_cast(s, tw_s2(s, TW_LOOP_POW, a, tw_stage_cast(s, b, ea)), result);
}

static tw_value *composed(tw_stage *s, tw_op *op, tw_value *const *args)
{
    tw_value *x = args[0];
    switch (tw_graph_kind_of(op)) {
    case TW_GRAPH_SIGN:
        return sign(s, x);
    case TW_GRAPH_RECIPROCAL:
        return tw_s2(s, TW_LOOP_DIV, tw_like(s, x, 1), x);
    case TW_GRAPH_IS_NAN:
        return tw_stage_compare(s, "ne", x, x);
    case TW_GRAPH_IS_INF:
        return is_inf(s, op, x);
    case TW_GRAPH_RELU:
        return tw_s2(s, TW_LOOP_MAX, x, tw_like(s, x, 0));
    case TW_GRAPH_LEAKY_RELU:
        return below_zero(s, x, scaled(s, x, tw_op_float(op, "alpha", 0)), x);
    case TW_GRAPH_ELU:
        return elu(s, x, tw_op_float(op, "alpha", 1));
    case TW_GRAPH_SOFTPLUS:
        return softplus(s, x);
    case TW_GRAPH_SIGMOID:
        return sigmoid(s, x);
    case TW_GRAPH_HARD_SIGMOID:
        return hard_sigmoid(s, x, tw_op_float(op, "alpha", 0), tw_op_float(op, "beta", 0));
    case TW_GRAPH_HARD_SWISH:
        return mul(s, x, hard_sigmoid(s, x, 1.0 / 6, 0.5));
    case TW_GRAPH_SILU:
        return mul(s, x, sigmoid(s, x));
    case TW_GRAPH_GELU:
        return gelu(s, x, tw_op_bool(op, "approximate", false));
    case TW_GRAPH_MISH:
        return mish(s, x);
    case TW_GRAPH_MOD:
        return tw_s2(s, tw_op_bool(op, "fmod", false) ? TW_LOOP_REM : TW_LOOP_MOD, x, args[1]);
    case TW_GRAPH_POW:
        return power(s, x, args[1]);
    case TW_GRAPH_WHERE:
        return tw_stage_select(s, x, args[1], args[2]);
    default:
        return NULL;
    }
}

tw_value *tw_lower_scalar(tw_stage *s, tw_op *op, tw_value *const *args)
{
    tw_graph_kind kind = tw_graph_kind_of(op);
    for (size_t i = 0; i < sizeof direct / sizeof *direct; i++)
        if (direct[i].graph == kind)
            return tw_loop_op(&s->b, direct[i].loop, args, op->n_operands, NULL);
    for (size_t i = 0; i < sizeof compares / sizeof *compares; i++)
        if (compares[i].graph == kind)
            return tw_stage_compare(s, compares[i].predicate, args[0], args[1]);
    return composed(s, op, args);
}

/* Casts work on the element type itself: going through f32 could round twice. */
static tw_value *convert(tw_stage *s, tw_op *op, tw_value *x, tw_elem elem)
{
    bool cast = tw_is_graph(op, TW_GRAPH_CAST);
    if (cast && x->type->elem == elem)
        return x;
    tw_attr saturate = cast ? tw_op_attr(op, "saturate") : NULL;
    tw_type type = tw_type_scalar(s->l->ctx, elem);
    return tw_result(tw_build(&s->b, &tw_loop_ops[cast ? TW_LOOP_CAST : TW_LOOP_BITCAST], &x, 1,
                              &type, 1, "saturate", saturate, NULL),
                     0);
}

bool tw_lower_elementwise(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    tw_stage s;
    tw_stage_elementwise(l, &s, tw_short_name(op), out[0]);
    bool converts = tw_is_graph(op, TW_GRAPH_CAST) || tw_is_graph(op, TW_GRAPH_BITCAST);
    tw_value *args[3];
    for (unsigned i = 0; i < op->n_operands && i < 3; i++) {
        args[i] = tw_stage_load_broadcast(&s, in[i], out[0]->type->rank);
        if (!converts)
            args[i] = tw_stage_cast(&s, args[i], tw_compute_elem(args[i]->type->elem));
    }
    tw_value *y =
        converts ? convert(&s, op, args[0], out[0]->type->elem) : tw_lower_scalar(&s, op, args);
    if (!y)
        return tw_error(l->ctx, op->loc, "'%s' has no lowering", op->def->name);
    tw_stage_store_here(&s, y, out[0]);
    return tw_stage_close(&s);
}
