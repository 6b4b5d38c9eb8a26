/* op_norm.c: normalisations. */
#include "import/onnx/import.h"

#include <string.h>

/* A vector of one number for each channel (axis 1), for a tensor of that rank. */
static tw_value *per_channel(tw_gb *g, tw_value *v, unsigned rank)
{
    return v && rank > 2 ? tw_gb_unsqueeze(g, v, ((1u << (rank - 2)) - 1) << 1) : v;
}

/* Operands of a normalisation with vectors, inputs 1 to `count`, of one number for each channel:
 * all with one size, that of axis 1 of x. */
static bool read_vectors(tw_onnx_node *n, unsigned count, tw_value **operands)
{
    tw_gb *g = n->g;
    tw_type x = n->in[0]->type;
    tw_expr dims[TW_MAX_RANK];
    if (x->rank < 2)
        return tw_onnx_error(n, "input 0 is %s; batch and channels are needed",
                             tw_gb_type_text(g, x));
    memcpy(dims, x->dims, x->rank * sizeof *dims);
    for (unsigned i = 1; i <= count; i++) {
        tw_type t = n->in[i]->type;
        if (t->rank != 1 || tw_gb_differ(g, t->dims[0], dims[1]))
            return tw_onnx_error(n, "input %u is %s; one number for each channel of %s is needed",
                                 i, tw_gb_type_text(g, t), tw_gb_type_text(g, x));
        if (tw_expr_is_const(t->dims[0]))
            dims[1] = t->dims[0];
    }
    operands[0] = tw_gb_reshape(g, n->in[0], x->rank, dims);
    for (unsigned i = 1; i <= count; i++)
        operands[i] = tw_gb_reshape(g, tw_gb_cast(g, n->in[i], x->elem), 1, &dims[1]);
    return operands[0] != NULL;
}

static tw_named_attr epsilon_attr(tw_onnx_node *n, double absent, bool *ok)
{
    return (tw_named_attr){"epsilon",
                           tw_attr_float(n->ctx, tw_onnx_float(n, "epsilon", (float)absent, ok))};
}

/* old * momentum + current * (1 - momentum) */
static tw_value *running(tw_gb *g, tw_value *old, tw_value *current, double momentum)
{
    return tw_gb_binary(g, TW_GRAPH_ADD, tw_gb_binary_scalar(g, TW_GRAPH_MUL, old, momentum),
                        tw_gb_binary_scalar(g, TW_GRAPH_MUL, current, 1 - momentum));
}

/* Normalisation by the batch's own mean and variance, which also go into the running ones, and
 * (before version 14) out. */
static bool train(tw_onnx_node *n, tw_value **operands, tw_named_attr epsilon, double momentum)
{
    tw_gb *g = n->g;
    tw_value *x = operands[0], *old[2] = {operands[3], operands[4]};
    uint32_t axes = ((1u << x->type->rank) - 1) & ~2u;
    tw_value *mean = tw_gb_reduce(g, TW_GRAPH_REDUCE_MEAN, x, axes, true);
    tw_value *d = tw_gb_binary(g, TW_GRAPH_SUB, x, mean);
    operands[3] = tw_gb_reshape(g, mean, 1, &x->type->dims[1]);
    operands[4] =
        tw_gb_reduce(g, TW_GRAPH_REDUCE_MEAN, tw_gb_binary(g, TW_GRAPH_MUL, d, d), axes, false);
    tw_value *y = tw_gb_emit(g, TW_GRAPH_BATCH_NORM, operands, 5, x->type, &epsilon, 1);
    if (!tw_onnx_set(n, 0, y))
        return false;
    for (unsigned i = 0; i < 2; i++)
        if (!tw_onnx_set(n, 1 + i, running(g, old[i], operands[3 + i], momentum)) ||
            !tw_onnx_set(n, 3 + i, operands[3 + i]))
            return false;
    return true;
}

/* Gives the results their axes back: the first that of x, the others those of one sample. */
static bool unflatten(tw_onnx_node *n, tw_type x)
{
    for (unsigned i = 0; i < n->n_out && i < 5; i++)
        if (n->out[i] && !tw_onnx_set(n, i,
                                      tw_gb_reshape(n->g, n->out[i], i ? x->rank - 1 : x->rank,
                                                    i ? x->dims + 1 : x->dims)))
            return false;
    return true;
}

/* Statistics for each element of a sample (versions 1 to 8, spatial = 0): as many channels as there
 * are elements. */
static bool normalise_elements(tw_onnx_node *n, bool training, tw_named_attr epsilon,
                               double momentum)
{
    tw_gb *g = n->g;
    tw_type x = n->in[0]->type;
    tw_value *operands[5];
    tw_expr flat[2] = {x->dims[0], tw_gb_product(g, x->dims + 1, x->rank - 1)};
    operands[0] = tw_gb_reshape(g, n->in[0], 2, flat);
    for (unsigned i = 1; i < 5; i++) {
        if (!tw_onnx_sized(n, i, x->rank - 1, x->dims + 1, &operands[i]))
            return false;
        operands[i] = tw_gb_reshape(g, tw_gb_cast(g, operands[i], x->elem), 1, &flat[1]);
    }
    if (training)
        return train(n, operands, epsilon, momentum) && unflatten(n, x);
    tw_value *y = tw_gb_emit(g, TW_GRAPH_BATCH_NORM, operands, 5, operands[0]->type, &epsilon, 1);
    return tw_onnx_max_outputs(n, 1) && tw_onnx_set(n, 0, tw_gb_reshape(g, y, x->rank, x->dims));
}

bool tw_onnx_op_batch_normalization(tw_onnx_node *n)
{
    bool ok = true;
    tw_value *operands[5];
    int64_t training = tw_onnx_int(n, "training_mode", 0, &ok);
    int64_t spatial = tw_onnx_int(n, "spatial", 1, &ok);
    int64_t test = n->version < 7 ? tw_onnx_int(n, "is_test", 0, &ok) : 0;
    double momentum = tw_onnx_float(n, "momentum", 0.9f, &ok);
    tw_named_attr epsilon = epsilon_attr(n, 1e-5, &ok);
    if (!ok)
        return false;
    if (!spatial && n->in[0]->type->rank > 2)
        return normalise_elements(n, training || (!test && n->n_out > 1), epsilon, momentum);
    if (!read_vectors(n, 4, operands))
        return false;
    if (training || (n->version < 14 && !test && n->n_out > 1))
        return train(n, operands, epsilon, momentum);
    return tw_onnx_max_outputs(n, 1) && tw_onnx_set(n, 0,
                                                    tw_gb_emit(n->g, TW_GRAPH_BATCH_NORM, operands,
                                                               5, operands[0]->type, &epsilon, 1));
}

bool tw_onnx_op_instance_normalization(tw_onnx_node *n)
{
    bool ok = true;
    tw_value *operands[3];
    tw_named_attr epsilon = epsilon_attr(n, 1e-5, &ok);
    return ok && read_vectors(n, 2, operands) &&
           tw_onnx_set(n, 0,
                       tw_gb_emit(n->g, TW_GRAPH_INSTANCE_NORM, operands, 3, operands[0]->type,
                                  &epsilon, 1));
}

/* ---- Over the last axes ---- */

/* Whether v has exactly the shape of x's axes from `axis` on. */
static bool has_tail(const tw_value *v, tw_type x, unsigned axis)
{
    return v->type->rank == x->rank - axis && v->type->elem == x->elem &&
           !memcmp(v->type->dims, x->dims + axis, v->type->rank * sizeof *x->dims);
}

bool tw_onnx_norm_statistics(tw_onnx_node *n, tw_graph_kind kind, tw_value *x, unsigned axis,
                             double epsilon, unsigned mean, unsigned inverse)
{
    tw_gb *g = n->g;
    if (!tw_onnx_wants(n, mean) && !tw_onnx_wants(n, inverse))
        return true;
    x = tw_gb_cast(g, x, TW_F32);
    if (!x)
        return false;
    uint32_t axes = ((1u << x->type->rank) - 1) & ~((1u << axis) - 1);
    if (kind == TW_GRAPH_LAYER_NORM) {
        tw_value *average = tw_gb_reduce(g, TW_GRAPH_REDUCE_MEAN, x, axes, true);
        x = tw_gb_binary(g, TW_GRAPH_SUB, x, average);
        if (!tw_onnx_set(n, mean, average))
            return false;
    }
    tw_value *variance =
        tw_gb_reduce(g, TW_GRAPH_REDUCE_MEAN, tw_gb_binary(g, TW_GRAPH_MUL, x, x), axes, true);
    tw_value *deviation =
        tw_gb_unary(g, TW_GRAPH_SQRT, tw_gb_binary_scalar(g, TW_GRAPH_ADD, variance, epsilon));
    return tw_onnx_set(n, inverse, tw_gb_unary(g, TW_GRAPH_RECIPROCAL, deviation));
}

/* Scale and bias of the normalised shape go into the operation, others (which broadcast) behind
 * it. */
tw_value *tw_onnx_last_axes_norm(tw_onnx_node *n, tw_graph_kind kind, tw_value *x, tw_value *scale,
                                 tw_value *bias, unsigned axis, double epsilon)
{
    tw_gb *g = n->g;
    tw_value *operands[3] = {x};
    unsigned count = 1;
    tw_named_attr attrs[2] = {{"axis", tw_attr_int(n->ctx, axis)},
                              {"epsilon", tw_attr_float(n->ctx, epsilon)}};
    if (!x)
        return NULL;
    if (scale && has_tail(scale, x->type, axis) && (!bias || has_tail(bias, x->type, axis))) {
        operands[count++] = scale;
        if (bias)
            operands[count++] = bias;
        scale = bias = NULL;
    }
    tw_value *y = tw_gb_emit(g, kind, operands, count, x->type, attrs, 2);
    if (scale)
        y = tw_gb_binary(g, TW_GRAPH_MUL, y, tw_gb_cast(g, scale, x->type->elem));
    if (bias)
        y = tw_gb_binary(g, TW_GRAPH_ADD, y, tw_gb_cast(g, bias, x->type->elem));
    return y;
}

/* LayerNormalization and, without bias and mean, RMSNormalization and SimplifiedLayerNormalization,
 * whose result has the scale's type. `param` is the operation. */
bool tw_onnx_op_last_axes_normalization(tw_onnx_node *n)
{
    bool ok = true;
    unsigned axis;
    tw_graph_kind kind = (tw_graph_kind)n->op->param;
    bool centred = kind == TW_GRAPH_LAYER_NORM;
    int64_t given = tw_onnx_int(n, "axis", -1, &ok);
    double epsilon = tw_onnx_float(n, "epsilon", 1e-5f, &ok);
    if (!ok || !tw_onnx_axis(n, given, n->in[0]->type->rank, &axis))
        return false;
    tw_value *y = tw_onnx_last_axes_norm(n, kind, n->in[0], n->in[1],
                                         centred ? tw_onnx_in(n, 2) : NULL, axis, epsilon);
    return tw_onnx_set(n, 0, tw_gb_cast(n->g, y, n->in[1]->type->elem)) &&
           tw_onnx_norm_statistics(n, kind, n->in[0], axis, epsilon, 1, centred ? 2 : 1);
}

/* x as [N, groups, rest], normalised over the last axis. Scale and bias are per group in version
 * 18 and per channel from 21 on. */
bool tw_onnx_op_group_normalization(tw_onnx_node *n)
{
    bool ok = true;
    tw_gb *g = n->g;
    tw_type x = n->in[0]->type;
    int64_t groups = tw_onnx_int(n, "num_groups", 0, &ok);
    tw_expr count = tw_gb_const(g, groups), each = NULL;
    tw_named_attr attrs[2] = {{"axis", tw_attr_int(n->ctx, 2)}, epsilon_attr(n, 1e-5, &ok)};
    if (!ok)
        return false;
    if (x->rank >= 3 && groups > 0)
        each = tw_gb_quotient(g, x->dims + 1, 1, &count, 1);
    if (!each)
        return tw_onnx_error(n, "%s with %lld groups", tw_gb_type_text(g, x), (long long)groups);
    tw_expr rest = tw_expr_mul(n->ctx, tw_gb_product(g, x->dims + 2, x->rank - 2), each);
    tw_value *y = tw_gb_reshape(g, n->in[0], 3, (tw_expr[]){x->dims[0], count, rest});
    y = y ? tw_gb_emit(g, TW_GRAPH_LAYER_NORM, &y, 1, y->type, attrs, 2) : NULL;
    if (n->version >= 21)
        y = tw_gb_reshape(g, y, x->rank, x->dims);
    y = tw_gb_binary(
        g, TW_GRAPH_MUL, y,
        per_channel(g, tw_gb_cast(g, n->in[1], x->elem), n->version >= 21 ? x->rank : 3));
    y = tw_gb_binary(
        g, TW_GRAPH_ADD, y,
        per_channel(g, tw_gb_cast(g, n->in[2], x->elem), n->version >= 21 ? x->rank : 3));
    return tw_onnx_set(n, 0, tw_gb_reshape(g, y, x->rank, x->dims));
}

/* ---- Others ---- */

bool tw_onnx_op_lrn(tw_onnx_node *n)
{
    bool ok = true;
    int64_t size = tw_onnx_int(n, "size", 0, &ok);
    double alpha = tw_onnx_float(n, "alpha", 1e-4f, &ok),
           beta = tw_onnx_float(n, "beta", 0.75, &ok);
    double bias = tw_onnx_float(n, "bias", 1, &ok);
    if (ok && (size <= 0 || n->in[0]->type->rank < 2))
        return tw_onnx_error(n, "size %lld of input %s", (long long)size,
                             tw_gb_type_text(n->g, n->in[0]->type));
    return ok && tw_onnx_set(n, 0,
                             TW_GB_EMIT(n->g, LRN, n->in, 1, n->in[0]->type,
                                        {"size", tw_attr_int(n->ctx, size)},
                                        {"alpha", tw_attr_float(n->ctx, alpha)},
                                        {"beta", tw_attr_float(n->ctx, beta)},
                                        {"bias", tw_attr_float(n->ctx, bias)}));
}

/* (x - mean) / (deviation + 1e-9) */
bool tw_onnx_op_mean_variance_normalization(tw_onnx_node *n)
{
    static const int64_t usual[3] = {0, 2, 3};
    bool ok = true;
    tw_gb *g = n->g;
    uint32_t set;
    size_t count = 3;
    const int64_t *axes = tw_onnx_int_list(n, "axes", &count, &ok);
    if (!axes)
        count = 3;
    if (!ok || !tw_onnx_axes(n, axes ? axes : usual, count, n->in[0]->type->rank, &set))
        return false;
    tw_elem elem = n->in[0]->type->elem, work = tw_elem_bits(elem) < 32 ? TW_F32 : elem;
    tw_value *x = tw_gb_cast(g, n->in[0], work); /* half precision keeps little of x - mean */
    tw_value *mean = tw_gb_reduce(g, TW_GRAPH_REDUCE_MEAN, x, set, true);
    tw_value *d = tw_gb_binary(g, TW_GRAPH_SUB, x, mean);
    tw_value *variance =
        tw_gb_reduce(g, TW_GRAPH_REDUCE_MEAN, tw_gb_binary(g, TW_GRAPH_MUL, d, d), set, true);
    tw_value *deviation =
        tw_gb_binary_scalar(g, TW_GRAPH_ADD, tw_gb_unary(g, TW_GRAPH_SQRT, variance), 1e-9);
    return tw_onnx_set(n, 0, tw_gb_cast(g, tw_gb_binary(g, TW_GRAPH_DIV, d, deviation), elem));
}

/* x / norm along an axis; 0 where the norm is 0 */
bool tw_onnx_op_lp_normalization(tw_onnx_node *n)
{
    bool ok = true;
    unsigned axis;
    tw_gb *g = n->g;
    tw_value *x = n->in[0];
    int64_t given = tw_onnx_int(n, "axis", -1, &ok), p = tw_onnx_int(n, "p", 2, &ok);
    if (!ok || !tw_onnx_axis(n, given, x->type->rank, &axis))
        return false;
    if (p != 1 && p != 2)
        return tw_onnx_error(n, "attribute 'p' is %lld; accepted are 1, 2", (long long)p);
    tw_value *size = p == 1 ? tw_gb_unary(g, TW_GRAPH_ABS, x) : tw_gb_binary(g, TW_GRAPH_MUL, x, x);
    tw_value *norm = tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, size, 1u << axis, true);
    norm = p == 2 ? tw_gb_unary(g, TW_GRAPH_SQRT, norm) : norm;
    tw_value *zero = tw_gb_binary_scalar(g, TW_GRAPH_EQUAL, norm, 0);
    norm = tw_gb_where(g, zero, tw_gb_scalar(g, x->type->elem, 1), norm);
    return tw_onnx_set(n, 0, tw_gb_binary(g, TW_GRAPH_DIV, x, norm));
}
