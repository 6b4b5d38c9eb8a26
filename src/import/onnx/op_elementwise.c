/* op_elementwise.c: operators that compute each element alone. */
#include "import/onnx/import.h"

#include <string.h>

/* ---- One operand ---- */

bool tw_onnx_op_unary(tw_onnx_node *n)
{
    return tw_onnx_set(n, 0, tw_gb_unary(n->g, (tw_graph_kind)n->op->param, n->in[0]));
}

/* With the attribute alpha, whose default depends on the operator. */
bool tw_onnx_op_alpha(tw_onnx_node *n)
{
    bool ok = true;
    double alpha = tw_onnx_float(n, "alpha", n->op->param == TW_GRAPH_LEAKY_RELU ? 0.01f : 1, &ok);
    tw_named_attr attr = {"alpha", tw_attr_float(n->ctx, alpha)};
    return ok && tw_onnx_set(n, 0,
                             tw_gb_emit(n->g, (tw_graph_kind)n->op->param, n->in, 1, n->in[0]->type,
                                        &attr, 1));
}

bool tw_onnx_op_hard_sigmoid(tw_onnx_node *n)
{
    bool ok = true;
    double alpha = tw_onnx_float(n, "alpha", 0.2f, &ok), beta = tw_onnx_float(n, "beta", 0.5, &ok);
    return ok && tw_onnx_set(n, 0,
                             TW_GB_EMIT(n->g, HARD_SIGMOID, n->in, 1, n->in[0]->type,
                                        {"alpha", tw_attr_float(n->ctx, alpha)},
                                        {"beta", tw_attr_float(n->ctx, beta)}));
}

/* gamma * elu(x) */
bool tw_onnx_op_selu(tw_onnx_node *n)
{
    bool ok = true, old = n->version < 6;
    double alpha = tw_onnx_float(n, "alpha", old ? 1.6732f : 1.67326319217681884765625, &ok);
    double gamma = tw_onnx_float(n, "gamma", old ? 1.0507f : 1.05070102214813232421875, &ok);
    tw_value *elu =
        TW_GB_EMIT(n->g, ELU, n->in, 1, n->in[0]->type, {"alpha", tw_attr_float(n->ctx, alpha)});
    return ok && tw_onnx_set(n, 0, tw_gb_binary_scalar(n->g, TW_GRAPH_MUL, elu, gamma));
}

/* max(x, 0) + alpha * (exp(min(x, 0) / alpha) - 1) */
bool tw_onnx_op_celu(tw_onnx_node *n)
{
    bool ok = true;
    tw_gb *g = n->g;
    double alpha = tw_onnx_float(n, "alpha", 1, &ok);
    tw_value *low = tw_gb_binary_scalar(g, TW_GRAPH_MIN, n->in[0], 0);
    tw_value *scaled = tw_gb_binary_scalar(g, TW_GRAPH_DIV, low, alpha);
    tw_value *elu =
        TW_GB_EMIT(g, ELU, &scaled, 1, n->in[0]->type, {"alpha", tw_attr_float(n->ctx, 1)});
    return ok && tw_onnx_set(n, 0,
                             tw_gb_binary(g, TW_GRAPH_ADD, tw_gb_unary(g, TW_GRAPH_RELU, n->in[0]),
                                          tw_gb_binary_scalar(g, TW_GRAPH_MUL, elu, alpha)));
}

bool tw_onnx_op_gelu(tw_onnx_node *n)
{
    bool ok = true;
    const char *form = tw_onnx_string(n, "approximate", "none", &ok);
    if (ok && strcmp(form, "none") && strcmp(form, "tanh"))
        return tw_onnx_error(n, "attribute 'approximate' is '%s'; accepted are none, tanh", form);
    tw_attr approximate = ok && !strcmp(form, "tanh") ? tw_attr_bool(n->ctx, true) : NULL;
    return ok && tw_onnx_set(n, 0,
                             TW_GB_EMIT(n->g, GELU, n->in, 1, n->in[0]->type,
                                        {"approximate", approximate}));
}

/* x * sigmoid(alpha * x) */
bool tw_onnx_op_swish(tw_onnx_node *n)
{
    bool ok = true;
    tw_gb *g = n->g;
    double alpha = tw_onnx_float(n, "alpha", 1, &ok);
    if (ok && alpha == 1)
        return tw_onnx_set(n, 0, tw_gb_unary(g, TW_GRAPH_SILU, n->in[0]));
    tw_value *scaled = tw_gb_binary_scalar(g, TW_GRAPH_MUL, n->in[0], alpha);
    return ok && tw_onnx_set(n, 0,
                             tw_gb_binary(g, TW_GRAPH_MUL, n->in[0],
                                          tw_gb_unary(g, TW_GRAPH_SIGMOID, scaled)));
}

/* x / (1 + |x|) */
bool tw_onnx_op_softsign(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_value *size = tw_gb_unary(g, TW_GRAPH_ABS, n->in[0]);
    return tw_onnx_set(
        n, 0,
        tw_gb_binary(g, TW_GRAPH_DIV, n->in[0], tw_gb_binary_scalar(g, TW_GRAPH_ADD, size, 1)));
}

/* x > alpha ? x : 0 */
bool tw_onnx_op_thresholded_relu(tw_onnx_node *n)
{
    bool ok = true;
    tw_gb *g = n->g;
    double alpha = tw_onnx_float(n, "alpha", 1, &ok);
    tw_value *above = tw_gb_binary_scalar(g, TW_GRAPH_GREATER, n->in[0], alpha);
    return ok &&
           tw_onnx_set(n, 0,
                       tw_gb_where(g, above, n->in[0], tw_gb_scalar(g, n->in[0]->type->elem, 0)));
}

/* x < -lambd ? x + bias : x > lambd ? x - bias : 0 */
bool tw_onnx_op_shrink(tw_onnx_node *n)
{
    bool ok = true;
    tw_gb *g = n->g;
    tw_value *x = n->in[0];
    double lambd = tw_onnx_float(n, "lambd", 0.5, &ok), bias = tw_onnx_float(n, "bias", 0, &ok);
    if (!ok || !tw_onnx_check_elem(n, 0, TW_ONNX_NUMBERS))
        return false;
    tw_elem elem = x->type->elem, work = tw_elem_is_float(elem) ? elem : TW_F32;
    x = tw_gb_cast(g, x, work);
    tw_value *high =
        tw_gb_where(g, tw_gb_binary_scalar(g, TW_GRAPH_GREATER, x, lambd),
                    tw_gb_binary_scalar(g, TW_GRAPH_SUB, x, bias), tw_gb_scalar(g, work, 0));
    tw_value *y = tw_gb_where(g, tw_gb_binary_scalar(g, TW_GRAPH_LESS, x, -lambd),
                              tw_gb_binary_scalar(g, TW_GRAPH_ADD, x, bias), high);
    return tw_onnx_set(n, 0, tw_gb_cast(g, y, elem));
}

bool tw_onnx_op_is_inf(tw_onnx_node *n)
{
    bool ok = true;
    int64_t negative = tw_onnx_int(n, "detect_negative", 1, &ok);
    int64_t positive = tw_onnx_int(n, "detect_positive", 1, &ok);
    tw_type type = n->in[0]->type;
    return ok &&
           tw_onnx_set(n, 0,
                       TW_GB_EMIT(n->g, IS_INF, n->in, 1,
                                  tw_type_tensor(n->ctx, TW_BOOL, type->rank, type->dims, NULL),
                                  {"negative", tw_attr_bool(n->ctx, negative)},
                                  {"positive", tw_attr_bool(n->ctx, positive)}));
}

bool tw_onnx_op_identity(tw_onnx_node *n)
{
    return tw_onnx_set(n, 0, n->in[0]);
}

/* ---- Casts ---- */

static tw_value *bitcast(tw_gb *g, tw_value *x, tw_elem elem)
{
    return x ? TW_GB_EMIT(g, BITCAST, &x, 1,
                          tw_type_tensor(g->ctx, elem, x->type->rank, x->type->dims, NULL), {0})
             : NULL;
}

/* To a power of two, from the bits of f32: the exponent field, rounded by the fraction below it.
 * The sign does not count; infinities and NaN become NaN. */
static tw_value *cast_to_power(tw_onnx_node *n, bool *ok)
{
    tw_gb *g = n->g;
    bool saturate = tw_onnx_int(n, "saturate", 1, ok);
    const char *mode = tw_onnx_string(n, "round_mode", "up", ok);
    tw_value *bits = bitcast(g, tw_gb_cast(g, n->in[0], TW_F32), TW_U32);
    tw_value *magnitude = tw_gb_binary_scalar(g, TW_GRAPH_AND, bits, 0x7fffffff);
    tw_value *exponent = tw_gb_binary_scalar(g, TW_GRAPH_SHIFT_RIGHT, magnitude, 23);
    tw_value *fraction = tw_gb_binary_scalar(g, TW_GRAPH_AND, bits, 0x7fffff), *code = exponent;
    double least = 0;               /* fraction that is not rounded up */
    if (!strcmp(mode, "nearest")) { /* ties go up but between the two smallest */
        fraction = tw_gb_binary(g, TW_GRAPH_ADD, fraction,
                                tw_gb_binary_scalar(g, TW_GRAPH_MIN, exponent, 1));
        least = 0x400000;
    } else if (strcmp(mode, "up") && strcmp(mode, "down")) {
        return tw_gb_error(g, "attribute 'round_mode' is '%s'; accepted are up, down, nearest",
                           mode);
    }
    tw_value *up = tw_gb_binary_scalar(g, TW_GRAPH_GREATER, fraction, least);
    if (strcmp(mode, "down"))
        code = tw_gb_binary(g, TW_GRAPH_ADD, exponent, tw_gb_cast(g, up, TW_U32));
    if (saturate)
        code = tw_gb_binary_scalar(g, TW_GRAPH_MIN, code, 254);
    tw_value *special = tw_gb_binary_scalar(g, TW_GRAPH_EQUAL, exponent, 255);
    code = tw_gb_where(g, special, exponent, code);
    return bitcast(g, tw_gb_cast(g, code, TW_U8), TW_F8E8M0FNU);
}

static bool cast_to(tw_onnx_node *n, tw_elem elem)
{
    bool ok = true;
    tw_value *x = n->in[0];
    if (x->type->elem == elem)
        return tw_onnx_set(n, 0, x);
    if (x->type->elem == TW_STRING || elem == TW_STRING)
        return tw_onnx_set(n, 0, tw_onnx_cast_text(n, x, elem));
    if (elem == TW_F8E8M0FNU)
        return tw_onnx_set(n, 0, cast_to_power(n, &ok)) && ok;
    if (tw_elem_is_int(elem) && tw_elem_bits(elem) < 8) /* wraps, as integers do */
        x = tw_gb_cast(n->g, x, TW_I32);
    bool saturate = tw_onnx_int(n, "saturate", 1, &ok);
    tw_type type = tw_type_tensor(n->ctx, elem, x->type->rank, x->type->dims, NULL);
    return ok &&
           tw_onnx_set(n, 0,
                       TW_GB_EMIT(n->g, CAST, &x, 1, type,
                                  {"saturate", saturate ? NULL : tw_attr_bool(n->ctx, false)}));
}

/* The attribute `to`: a number, or in old models the name of a type. */
static bool target_elem(tw_onnx_node *n, tw_elem *out)
{
    bool ok = true;
    int64_t to = 0;
    if (n->version >= 6) {
        to = tw_onnx_int(n, "to", 0, &ok);
    } else {
        const char *name = tw_onnx_string(n, "to", "", &ok);
        for (int32_t i = 1; i < 32; i++)
            if (!strcasecmp(tw_onnx_elem_name(i), name))
                to = i;
    }
    if (ok && (to < 0 || to > 255 || !tw_onnx_elem((int32_t)to, out)))
        return tw_onnx_error(n,
                             "attribute 'to' names the element type %s (%lld), which is not "
                             "supported",
                             to > 0 && to < 255 ? tw_onnx_elem_name((int32_t)to) : "undefined",
                             (long long)to);
    return ok;
}

bool tw_onnx_op_cast(tw_onnx_node *n)
{
    tw_elem elem;
    return target_elem(n, &elem) && cast_to(n, elem);
}

bool tw_onnx_op_cast_like(tw_onnx_node *n)
{
    return cast_to(n, n->in[1]->type->elem);
}

bool tw_onnx_op_bit_cast(tw_onnx_node *n)
{
    tw_elem elem;
    tw_type type = n->in[0]->type;
    if (!target_elem(n, &elem))
        return false;
    if (tw_elem_bits(elem) != tw_elem_bits(type->elem) || elem == TW_STRING ||
        type->elem == TW_STRING)
        return tw_onnx_error(n, "%s and %s have different widths", tw_elem_name(type->elem),
                             tw_elem_name(elem));
    if (elem == type->elem)
        return tw_onnx_set(n, 0, n->in[0]);
    return tw_onnx_set(n, 0, bitcast(n->g, n->in[0], elem));
}

/* ---- Two operands ---- */

/* Before version 7 the second operand was broadcast only when asked to, aligned at `axis`. */
static tw_value *second_operand(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_value *a = n->in[0], *b = n->in[1];
    bool ok = true;
    unsigned axis;
    if (n->version >= 7 || !tw_onnx_int(n, "broadcast", 0, &ok) || !tw_onnx_attr(n, "axis"))
        return ok ? b : NULL;
    int64_t given = tw_onnx_int(n, "axis", 0, &ok);
    if (!ok || b->type->rank > a->type->rank || !tw_onnx_axis(n, given, a->type->rank + 1, &axis))
        return NULL;
    unsigned end = axis + b->type->rank;
    if (end >= a->type->rank)
        return b;
    return tw_gb_unsqueeze(g, b, ((1u << (a->type->rank - end)) - 1) << b->type->rank);
}

bool tw_onnx_op_binary(tw_onnx_node *n)
{
    if (n->op->param == TW_GRAPH_EQUAL && n->in[0]->type->elem == TW_STRING)
        return tw_onnx_set(n, 0, tw_onnx_equal_text(n));
    return tw_onnx_set(
        n, 0, tw_gb_binary(n->g, (tw_graph_kind)n->op->param, n->in[0], second_operand(n)));
}

bool tw_onnx_op_mod(tw_onnx_node *n)
{
    bool ok = true;
    tw_gb *g = n->g;
    unsigned rank;
    tw_expr dims[TW_MAX_RANK];
    bool fmod = tw_onnx_int(n, "fmod", 0, &ok);
    if (!ok || !tw_gb_broadcast_dims(g, n->in, 2, &rank, dims))
        return false;
    if (!fmod && tw_elem_is_float(n->in[0]->type->elem))
        return tw_onnx_error(n, "floating-point operands need the attribute fmod = 1");
    if (!fmod)
        return tw_onnx_set(n, 0, tw_gb_binary(g, TW_GRAPH_MOD, n->in[0], n->in[1]));
    if (n->in[0]->type->elem != n->in[1]->type->elem)
        return tw_onnx_error(n, "operands of different element types");
    tw_value *operands[2] = {tw_gb_fit(g, n->in[0], rank, dims),
                             tw_gb_fit(g, n->in[1], rank, dims)};
    return tw_onnx_set(n, 0,
                       TW_GB_EMIT(g, MOD, operands, 2,
                                  tw_type_tensor(n->ctx, n->in[0]->type->elem, rank, dims, NULL),
                                  {"fmod", tw_attr_bool(n->ctx, true)}));
}

/* The exponent takes the base's type; an integer base with a floating-point exponent is computed
 * in that type and cut. */
bool tw_onnx_op_pow(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_value *a = n->in[0], *b = second_operand(n);
    if (!b)
        return false;
    tw_elem elem = a->type->elem;
    bool wide = !tw_elem_is_float(elem) && tw_elem_is_float(b->type->elem);
    tw_elem work = wide ? b->type->elem : elem;
    tw_value *y = tw_gb_binary(g, TW_GRAPH_POW, tw_gb_cast(g, a, work), tw_gb_cast(g, b, work));
    return tw_onnx_set(n, 0, tw_gb_cast(g, y, elem));
}

bool tw_onnx_op_bit_shift(tw_onnx_node *n)
{
    bool ok = true;
    const char *direction = tw_onnx_string(n, "direction", "", &ok);
    bool left = ok && !strcmp(direction, "LEFT");
    if (ok && !left && strcmp(direction, "RIGHT"))
        return tw_onnx_error(n, "attribute 'direction' is '%s'; accepted are LEFT, RIGHT",
                             direction);
    return ok && tw_onnx_check_elem(n, 0, TW_ONNX_UNSIGNED) &&
           tw_onnx_set(n, 0,
                       tw_gb_binary(n->g, left ? TW_GRAPH_SHIFT_LEFT : TW_GRAPH_SHIFT_RIGHT,
                                    n->in[0], n->in[1]));
}

/* x < 0 ? slope * x : x */
bool tw_onnx_op_prelu(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_value *x = n->in[0], *slope = n->in[1];
    if (n->version < 7 && slope->type->rank == 1 && x->type->rank > 2)
        slope = tw_gb_unsqueeze(g, slope, ((1u << (x->type->rank - 2)) - 1) << 1);
    tw_value *scaled = tw_gb_binary(g, TW_GRAPH_MUL, x, slope);
    return tw_onnx_set(n, 0,
                       tw_gb_where(g, tw_gb_binary_scalar(g, TW_GRAPH_LESS, x, 0), scaled, x));
}

bool tw_onnx_op_where(tw_onnx_node *n)
{
    return tw_onnx_set(n, 0, tw_gb_where(n->g, n->in[0], n->in[1], n->in[2]));
}

/* ---- Any number of operands ---- */

static tw_value *join(tw_onnx_node *n, tw_graph_kind kind)
{
    tw_value *result = n->in[0];
    for (unsigned i = 1; i < n->n_in; i++)
        result = n->in[i] ? tw_gb_binary(n->g, kind, result, n->in[i])
                          : tw_gb_error(n->g, "input %u is missing", i);
    return result;
}

bool tw_onnx_op_variadic(tw_onnx_node *n)
{
    return tw_onnx_set(n, 0, join(n, (tw_graph_kind)n->op->param));
}

bool tw_onnx_op_mean(tw_onnx_node *n)
{
    return tw_onnx_set(n, 0,
                       tw_gb_binary_scalar(n->g, TW_GRAPH_DIV, join(n, TW_GRAPH_ADD), n->n_in));
}

/* min(max(x, low), high): NaN stays, and a high below low wins, as the specification has it. */
bool tw_onnx_op_clip(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_value *x = n->in[0], *bounds[2] = {NULL, NULL};
    static const char *const names[2] = {"min", "max"};
    for (unsigned i = 0; i < 2; i++) {
        bool ok = true;
        if (n->version >= 11)
            bounds[i] = tw_onnx_in(n, i + 1);
        else if (tw_onnx_attr(n, names[i]))
            bounds[i] = tw_gb_scalar(g, x->type->elem, tw_onnx_float(n, names[i], 0, &ok));
        if (!ok)
            return false;
        if (bounds[i] && bounds[i]->type->rank) /* [1] is accepted as a scalar */
            bounds[i] = tw_gb_reshape(g, bounds[i], 0, NULL);
        if (n->version >= 11 && tw_onnx_in(n, i + 1) && !bounds[i])
            return false;
    }
    if (bounds[0])
        x = tw_gb_binary(g, TW_GRAPH_MAX, x, bounds[0]);
    if (bounds[1])
        x = tw_gb_binary(g, TW_GRAPH_MIN, x, bounds[1]);
    return tw_onnx_set(n, 0, x);
}
