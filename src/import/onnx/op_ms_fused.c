/* op_ms_fused.c: com.microsoft's fused forms of products, convolutions and activations. */
#include "import/onnx/import.h"

#include <string.h>

/* ---- Activations ---- */

/* gelu(x + bias), by erf or (param 1) by tanh; the bias is optional. */
bool tw_onnx_op_ms_gelu(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_value *x = n->in[0], *bias = tw_onnx_in(n, 1);
    if (!tw_onnx_check_elem(n, 0, TW_ONNX_FLOATS))
        return false;
    if (bias)
        x = tw_gb_binary(g, TW_GRAPH_ADD, x, bias);
    return x && tw_onnx_set(
                    n, 0,
                    TW_GB_EMIT(g, GELU, &x, 1, x->type,
                               {"approximate", n->op->param ? tw_attr_bool(n->ctx, true) : NULL}));
}

/* x * sigmoid(alpha * x) */
bool tw_onnx_op_quick_gelu(tw_onnx_node *n)
{
    bool ok = true;
    double alpha = tw_onnx_float(n, "alpha", 1.702f, &ok);
    tw_value *scaled = tw_gb_binary_scalar(n->g, TW_GRAPH_MUL, n->in[0], alpha);
    return ok && tw_onnx_set(n, 0,
                             tw_gb_binary(n->g, TW_GRAPH_MUL, n->in[0],
                                          tw_gb_unary(n->g, TW_GRAPH_SIGMOID, scaled)));
}

/* Reads the attribute `activation`; a name of "" says that there is none. */
static bool read_activation(tw_onnx_node *n, tw_onnx_activation *f)
{
    bool ok = true;
    const char *name = tw_onnx_string(n, "activation", "", &ok);
    *f = (tw_onnx_activation){.name = ""};
    if (!ok)
        return false;
    if (strlen(name) >= sizeof f->name)
        return tw_onnx_error(n, "the activation function '%s' is not known", name);
    strcpy(f->name, name);
    tw_onnx_activation_defaults(f);
    return true;
}

static tw_value *activated(tw_onnx_node *n, const tw_onnx_activation *f, tw_value *x)
{
    return *f->name ? tw_onnx_activate(n->g, f, x) : x;
}

/* ---- Products ---- */

/* x with the axis before the last two's batch axes, axis 0, moved behind them. */
static tw_value *rows_inwards(tw_gb *g, tw_value *x)
{
    int64_t perm[TW_MAX_RANK];
    unsigned rank = x->type->rank;
    if (rank < 3)
        return x;
    for (unsigned i = 0; i + 2 < rank; i++)
        perm[i] = i + 1;
    perm[rank - 2] = 0;
    perm[rank - 1] = rank - 1;
    return tw_gb_transpose(g, x, perm);
}

/* alpha * A * B; vectors are not transposed. */
bool tw_onnx_op_fused_matmul(tw_onnx_node *n)
{
    bool ok = true, transpose[2], rows_first[2];
    tw_gb *g = n->g;
    tw_value *operands[2] = {n->in[0], n->in[1]};
    static const char *const names[2][2] = {{"transA", "transBatchA"}, {"transB", "transBatchB"}};
    double alpha = tw_onnx_float(n, "alpha", 1, &ok);
    for (unsigned i = 0; i < 2; i++) {
        transpose[i] = tw_onnx_int(n, names[i][0], 0, &ok) && n->in[i]->type->rank >= 2;
        rows_first[i] = tw_onnx_int(n, names[i][1], 0, &ok);
        if (rows_first[i])
            operands[i] = rows_inwards(g, operands[i]);
    }
    if (!ok || !operands[0] || !operands[1])
        return false;
    bool vector = operands[0]->type->rank < 2 || operands[1]->type->rank < 2;
    for (unsigned i = 0; vector && i < 2; i++)
        if (transpose[i]) {
            int64_t perm[TW_MAX_RANK];
            unsigned rank = operands[i]->type->rank;
            for (unsigned a = 0; a < rank; a++)
                perm[a] = a + 2 < rank ? a : 2 * rank - 3 - a;
            operands[i] = tw_gb_transpose(g, operands[i], perm);
        }
    tw_value *y = vector ? tw_onnx_matmul(g, operands[0], operands[1])
                         : tw_gb_matmul(g, operands[0], operands[1], transpose[0], transpose[1]);
    return tw_onnx_set(n, 0, alpha == 1 ? y : tw_gb_binary_scalar(g, TW_GRAPH_MUL, y, alpha));
}

bool tw_onnx_op_gemm(tw_onnx_node *n);

bool tw_onnx_op_fused_gemm(tw_onnx_node *n)
{
    bool ok = true;
    tw_onnx_activation f;
    if (!read_activation(n, &f) || !tw_onnx_op_gemm(n))
        return false;
    f.alpha = tw_onnx_float(n, "activation_alpha", f.alpha, &ok);
    f.beta = tw_onnx_float(n, strcasecmp(f.name, "selu") ? "activation_beta" : "activation_gamma",
                           f.beta, &ok);
    return ok && tw_onnx_set(n, 0, activated(n, &f, n->out[0]));
}

/* ---- Convolutions ---- */

static bool read_parameters(tw_onnx_node *n, tw_onnx_activation *f)
{
    bool ok = true;
    size_t count;
    const float *params = tw_onnx_float_list(n, "activation_params", &count, &ok);
    if (!ok || !read_activation(n, f))
        return false;
    if (count > 0)
        f->alpha = (double)params[0];
    if (count > 1)
        f->beta = (double)params[1];
    return true;
}

/* activation(conv(X, W) + B + Z); param 1: X, Z and the result have their channels last. */
bool tw_onnx_op_fused_conv(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_onnx_activation f;
    bool last = n->op->param;
    if (!read_parameters(n, &f))
        return false;
    if (last && n->in[0]->type->rank < 3)
        return tw_onnx_error(n, "input 0 is %s; batch, space and channels are needed",
                             tw_gb_type_text(g, n->in[0]->type));
    tw_value *y =
        tw_onnx_conv(n, last ? tw_onnx_move_channels(g, n->in[0], true) : n->in[0], n->in[1]);
    y = tw_onnx_add_bias(n, y, tw_onnx_in(n, 2));
    if (last)
        y = tw_onnx_move_channels(g, y, false);
    if (tw_onnx_in(n, 3))
        y = tw_gb_binary(g, TW_GRAPH_ADD, y, n->in[3]);
    return tw_onnx_set(n, 0, activated(n, &f, y));
}
