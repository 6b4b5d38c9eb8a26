/* activation.c: activation functions that other operators name in an attribute. */
#include "import/onnx/import.h"

#include <string.h>

static tw_value *scaled(tw_gb *g, tw_value *x, double factor)
{
    return tw_gb_binary_scalar(g, TW_GRAPH_MUL, x, factor);
}

static tw_value *plus(tw_gb *g, tw_value *x, double value)
{
    return tw_gb_binary_scalar(g, TW_GRAPH_ADD, x, value);
}

static tw_value *with_alpha(tw_gb *g, tw_graph_kind kind, tw_value *x, double alpha)
{
    tw_named_attr attr = {"alpha", tw_attr_float(g->ctx, alpha)};
    return x ? tw_gb_emit(g, kind, &x, 1, x->type, &attr, 1) : NULL;
}

/* ---- Those that are no plain operation ---- */

static tw_value *affine(tw_gb *g, tw_value *x, double alpha, double beta)
{
    return plus(g, scaled(g, x, alpha), beta);
}

static tw_value *leaky_relu(tw_gb *g, tw_value *x, double alpha, double beta)
{
    (void)beta;
    return with_alpha(g, TW_GRAPH_LEAKY_RELU, x, alpha);
}

static tw_value *elu(tw_gb *g, tw_value *x, double alpha, double beta)
{
    (void)beta;
    return with_alpha(g, TW_GRAPH_ELU, x, alpha);
}

static tw_value *selu(tw_gb *g, tw_value *x, double alpha, double beta)
{
    return scaled(g, with_alpha(g, TW_GRAPH_ELU, x, alpha), beta);
}

static tw_value *scaled_tanh(tw_gb *g, tw_value *x, double alpha, double beta)
{
    return scaled(g, tw_gb_unary(g, TW_GRAPH_TANH, scaled(g, x, beta)), alpha);
}

static tw_value *parametric_softplus(tw_gb *g, tw_value *x, double alpha, double beta)
{
    return scaled(g, tw_gb_unary(g, TW_GRAPH_SOFTPLUS, scaled(g, x, beta)), alpha);
}

static tw_value *hard_sigmoid(tw_gb *g, tw_value *x, double alpha, double beta)
{
    return TW_GB_EMIT(g, HARD_SIGMOID, &x, 1, x->type, {"alpha", tw_attr_float(g->ctx, alpha)},
                      {"beta", tw_attr_float(g->ctx, beta)});
}

static tw_value *thresholded_relu(tw_gb *g, tw_value *x, double alpha, double beta)
{
    (void)beta;
    return tw_gb_where(g, tw_gb_binary_scalar(g, TW_GRAPH_GREATER, x, alpha), x,
                       tw_gb_scalar(g, x->type->elem, 0));
}

static tw_value *softsign(tw_gb *g, tw_value *x, double alpha, double beta)
{
    (void)alpha, (void)beta;
    return tw_gb_binary(g, TW_GRAPH_DIV, x, plus(g, tw_gb_unary(g, TW_GRAPH_ABS, x), 1));
}

static tw_value *clip(tw_gb *g, tw_value *x, double alpha, double beta)
{
    x = tw_gb_binary_scalar(g, TW_GRAPH_MAX, x, alpha);
    return tw_gb_binary_scalar(g, TW_GRAPH_MIN, x, beta);
}

/* ---- The table ---- */

/* Parameters are the defaults; without `make` the function is the operation `kind`. */
static const struct entry {
    const char *name;
    tw_graph_kind kind;
    tw_value *(*make)(tw_gb *g, tw_value *x, double alpha, double beta);
    float alpha, beta;
} table[] = {
    {"affine", 0, affine, 1, 0},
    {"clip", 0, clip, -3.402823466e38f, 3.402823466e38f},
    {"elu", 0, elu, 1, 0},
    {"hardsigmoid", 0, hard_sigmoid, 0.2f, 0.5f},
    {"leakyrelu", 0, leaky_relu, 0.01f, 0},
    {"parametricsoftplus", 0, parametric_softplus, 1, 1},
    {"relu", TW_GRAPH_RELU, NULL, 0, 0},
    {"scaledtanh", 0, scaled_tanh, 1.7159f, 0.66667f},
    {"selu", 0, selu, 1.67326319217681884765625f, 1.05070102214813232421875f},
    {"sigmoid", TW_GRAPH_SIGMOID, NULL, 0, 0},
    {"silu", TW_GRAPH_SILU, NULL, 0, 0},
    {"softplus", TW_GRAPH_SOFTPLUS, NULL, 0, 0},
    {"softsign", 0, softsign, 0, 0},
    {"swish", TW_GRAPH_SILU, NULL, 0, 0},
    {"tanh", TW_GRAPH_TANH, NULL, 0, 0},
    {"thresholdedrelu", 0, thresholded_relu, 1, 0},
};

static const struct entry *find(const char *name)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcasecmp(name, table[i].name))
            return &table[i];
    return NULL;
}

void tw_onnx_activation_defaults(tw_onnx_activation *f)
{
    const struct entry *e = find(f->name);
    f->alpha = e ? (double)e->alpha : 0;
    f->beta = e ? (double)e->beta : 0;
}

tw_value *tw_onnx_activate(tw_gb *g, const tw_onnx_activation *f, tw_value *x)
{
    const struct entry *e = find(f->name);
    if (!x)
        return NULL;
    if (!e)
        return tw_gb_error(g, "the activation function '%s' is not known", f->name);
    return e->make ? e->make(g, x, f->alpha, f->beta) : tw_gb_unary(g, e->kind, x);
}
