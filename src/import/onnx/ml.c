/* ml.c: attributes that are names, and what becomes of the scores of targets and classes. */
#include "import/onnx/ml.h"

#include "import/onnx/arith.h"

#include <string.h>

#define SELECT(c, a, b) tw_gb_where(g, c, a, b)
#define LESSC(a, c) tw_gb_binary_scalar(g, TW_GRAPH_LESS, a, c)
#define ABOVEC(a, c) tw_gb_binary_scalar(g, TW_GRAPH_GREATER, a, c)
#define UNARY(x, kind) tw_gb_unary(g, TW_GRAPH_##kind, x)

int64_t tw_onnx_choice(tw_onnx_node *n, const char *attribute, const char *const *names, int count,
                       int absent)
{
    bool ok = true;
    const char *name = tw_onnx_string(n, attribute, names[absent], &ok);
    for (int i = 0; ok && i < count; i++)
        if (!strcmp(name, names[i]))
            return i;
    if (ok)
        tw_gb_error(n->g, "attribute '%s' is '%s', which is not known", attribute, name);
    return -1;
}

int64_t tw_onnx_read_transform(tw_onnx_node *n)
{
    static const char *const names[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
    return tw_onnx_choice(n, "post_transform", names, TW_ONNX_TRANSFORMS, TW_ONNX_PLAIN);
}

/* sqrt(2) erfinv(2 x - 1), the inverse approximated in closed form. */
static tw_value *probit(tw_gb *g, tw_value *x)
{
    tw_value *y = ADDC(MULC(x, 2), -1);
    tw_value *log = UNARY(MUL(ADDC(MULC(y, -1), 1), ADDC(y, 1)), LOG);
    tw_value *v = ADDC(MULC(log, 0.5), 2 / (3.14159 * 0.147));
    tw_value *root = UNARY(SUB(UNARY(SUB(MUL(v, v), MULC(log, 1 / 0.147)), SQRT), v), SQRT);
    tw_value *sign = x ? SELECT(LESSC(y, 0), tw_gb_scalar(g, x->type->elem, -1),
                                tw_gb_scalar(g, x->type->elem, 1))
                       : NULL;
    return MULC(MUL(sign, root), 1.41421356);
}

/* Softmax of those that are not 0; these stay 0. */
static tw_value *softmax_zero(tw_gb *g, tw_value *x)
{
    tw_value *top = tw_gb_reduce(g, TW_GRAPH_REDUCE_MAX, x, 2, true);
    tw_value *none = tw_gb_binary(g, TW_GRAPH_AND, tw_gb_unary(g, TW_GRAPH_NOT, ABOVEC(x, 1e-7)),
                                  tw_gb_unary(g, TW_GRAPH_NOT, LESSC(x, -1e-7)));
    tw_value *power = UNARY(SUB(x, top), EXP);
    tw_value *sum =
        tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM,
                     x ? SELECT(none, tw_gb_scalar(g, x->type->elem, 0), power) : NULL, 2, true);
    return DIV(SELECT(none, MUL(x, UNARY(MULC(top, -1), EXP)), power), sum);
}

tw_value *tw_onnx_transform(tw_gb *g, int64_t transform, tw_value *x)
{
    int64_t targets = 0;
    if (transform == TW_ONNX_PROBIT)
        return probit(g, x);
    if (!x || (tw_expr_as_const(x->type->dims[1], &targets) && targets == 1))
        return x;
    switch (transform) {
    case TW_ONNX_SOFTMAX:
        return tw_gb_softmax(g, TW_GRAPH_SOFTMAX, x, 1);
    case TW_ONNX_LOGISTIC:
        return UNARY(x, SIGMOID);
    case TW_ONNX_SOFTMAX_ZERO:
        return softmax_zero(g, x);
    default:
        return x;
    }
}

tw_value *tw_onnx_score_pair(tw_gb *g, int64_t transform, tw_value *score, bool chance)
{
    bool logistic = transform == TW_ONNX_LOGISTIC;
    tw_value *minus = MULC(score, -1);
    tw_value *pair[2] = {chance && !logistic ? ADDC(minus, 1) : minus, score};
    tw_value *z = score ? tw_gb_concat(g, pair, 2, 1) : NULL;
    return logistic ? UNARY(z, SIGMOID) : z;
}

tw_value *tw_onnx_best(tw_gb *g, tw_value *scores)
{
    return scores ? TW_GB_EMIT(g, ARG_MAX, &scores, 1,
                               tw_type_tensor(g->ctx, TW_I64, 1, scores->type->dims, NULL),
                               {"axis", tw_attr_int(g->ctx, 1)},
                               {"keepdims", tw_attr_bool(g->ctx, false)})
                  : NULL;
}

tw_value *tw_onnx_floats(tw_gb *g, const float *values, size_t n)
{
    float *data = tw_context_alloc(g->ctx, (n + 1) * sizeof *data);
    if (n)
        memcpy(data, values, n * sizeof *data);
    tw_type type = tw_type_tensor_static(g->ctx, TW_F32, 1, (int64_t[]){(int64_t)n});
    return tw_gb_constant(g, type, data, n * sizeof *data, NULL);
}
