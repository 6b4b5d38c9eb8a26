/* simplify_inference.c: what only training needed goes, and constant scales move into weights.
 *
 *   %1 = graph.conv %x, %w …
 *   %2 = graph.batch_norm %1, %scale, %bias, %mean, %variance {epsilon = 1e-05}
 *     =>
 *   %s = scale / sqrt(variance + epsilon)              // operations on constants, which
 *   %t = bias - mean * s                               // fold-constants evaluates
 *   %1 = graph.conv %x, %w * reshape(%s) …
 *   %2 = graph.add %1, reshape(%t)
 *
 * A scale moves into weights only when these depend on constants, the scale does and is one number
 * per output channel (or one for all), and nothing else uses the unscaled result. This changes the
 * order of roundings, as folding a normalisation always does. */
#include "transform/transform.h"

#include "dialect/graph/data_axes.h"
#include "transform/build.h"
#include "transform/constants.h"
#include "transform/simplify.h"

#include <string.h>

/* ---- Building ---- */

/* x, of `n` elements, so that it broadcasts along `axis` of rank `rank`: n x 1 x … x 1. */
static tw_value *along_axis(tw_builder *b, tw_value *x, tw_expr n, unsigned rank, unsigned axis)
{
    tw_expr dims[TW_MAX_RANK];
    for (unsigned i = axis; i < rank; i++)
        dims[i - axis] = i == axis ? n : tw_expr_const(b->ctx, 1);
    tw_type type = tw_type_tensor(b->ctx, x->type->elem, rank - axis, dims, NULL);
    return x->type == type ? x : tw_graph_build(b, TW_GRAPH_RESHAPE, &x, 1, type, NULL);
}

/* ---- batch_norm -> scale, shift ---- */

static bool expand_batch_norm(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    tw_builder *b = tw_rw_builder(rw, op);
    tw_value *x = tw_operand(op, 0), *scale = tw_operand(op, 1), *bias = tw_operand(op, 2);
    tw_value *mean = tw_operand(op, 3), *variance = tw_operand(op, 4);
    tw_data_axes axes = tw_data_axes_of(x->type);
    tw_expr channels = x->type->dims[axes.channel];
    if (axes.lane)
        return false; /* two axes */
    for (unsigned i = 1; i < op->n_operands; i++)
        if (tw_operand(op, i)->type->dims[0] != channels)
            return false; /* symbols that are equal only when the model runs */
    tw_value *epsilon = tw_graph_scalar(b, variance->type->elem, tw_op_float(op, "epsilon", 1e-5));
    tw_value *deviation =
        tw_build_unary(b, TW_GRAPH_SQRT, tw_build_binary(b, TW_GRAPH_ADD, variance, epsilon));
    tw_value *factor = tw_build_binary(b, TW_GRAPH_DIV, scale, deviation);
    tw_value *shift =
        tw_build_binary(b, TW_GRAPH_SUB, bias, tw_build_binary(b, TW_GRAPH_MUL, mean, factor));
    unsigned axis = axes.channel, rank = x->type->rank;
    factor = along_axis(b, tw_build_cast(b, factor, x->type->elem), channels, rank, axis);
    shift = along_axis(b, tw_build_cast(b, shift, x->type->elem), channels, rank, axis);
    tw_type type = op->results[0].type;
    tw_value *scaled = tw_graph_build(b, TW_GRAPH_MUL, ((tw_value *[]){x, factor}), 2, type, NULL);
    tw_value *result =
        tw_graph_build(b, TW_GRAPH_ADD, ((tw_value *[]){scaled, shift}), 2, type, NULL);
    tw_rw_replace(rw, op, &result);
    return true;
}

/* ---- Products with constant weights ---- */

/* The convolution or matrix product that makes `value` for one user alone and whose weights depend
 * on constants and are not packed; or NULL. */
static tw_op *weighted(const tw_value *value)
{
    tw_op *op = value->op;
    if (!op || !tw_value_has_one_use(value))
        return NULL;
    tw_graph_kind kind = tw_graph_kind_of(op);
    bool product =
        kind == TW_GRAPH_CONV || kind == TW_GRAPH_CONV_TRANSPOSE || kind == TW_GRAPH_MATMUL;
    if (!product || tw_op_attr(op, "b_panel") || tw_data_axes_of(value->type).lane ||
        strcmp(tw_op_string(op, "kernel_layout", "OI"), "OI") != 0 ||
        !tw_elem_is_float(value->type->elem) || !tw_depends_on_constants(tw_operand(op, 1)))
        return NULL;
    return op;
}

static unsigned channel_axis(tw_type type)
{
    return tw_data_axes_of(type).channel;
}

static unsigned output_axis(const tw_op *product)
{
    return tw_is_graph(product, TW_GRAPH_MATMUL) ? product->results[0].type->rank - 1
                                                 : channel_axis(product->results[0].type);
}

/* Whether the constant is one number for all of `type` or one for each position of `axis`. */
static bool is_per_channel(const tw_value *constant, tw_type type, unsigned axis)
{
    tw_type t = constant->type;
    if (t->rank > type->rank || !tw_depends_on_constants(constant))
        return false;
    for (unsigned i = 0; i < t->rank; i++) {
        unsigned at = type->rank - t->rank + i;
        int64_t size;
        if (!tw_expr_as_const(t->dims[i], &size) ||
            (size != 1 && (at != axis || t->dims[i] != type->dims[axis])))
            return false;
    }
    return true;
}

/* conv_transpose has weights [I, O / groups, …]: output channel g * (O / groups) + o takes part in
 * the rows of group g, so both are seen as [groups, I / groups, O / groups, …]. */
static tw_value *scale_transposed(tw_builder *b, const tw_op *op, tw_value *w, tw_value *scale)
{
    tw_expr dims[TW_MAX_RANK];
    unsigned rank = w->type->rank;
    int64_t groups = tw_op_int(op, "groups", 1);
    dims[0] = tw_expr_const(b->ctx, groups);
    dims[1] = tw_expr_const(b->ctx, tw_type_dim(w->type, 0) / groups);
    for (unsigned i = 1; i < rank; i++)
        dims[i + 1] = w->type->dims[i];
    tw_type grouped = tw_type_tensor(b->ctx, w->type->elem, rank + 1, dims, NULL);
    dims[1] = tw_expr_const(b->ctx, 1);
    for (unsigned i = 3; i <= rank; i++)
        dims[i] = dims[1];
    tw_type shape = tw_type_tensor(b->ctx, w->type->elem, rank + 1, dims, NULL);
    tw_value *x = tw_graph_build(b, TW_GRAPH_RESHAPE, &w, 1, grouped, NULL);
    tw_value *s = tw_graph_build(b, TW_GRAPH_RESHAPE, &scale, 1, shape, NULL);
    x = tw_build_binary(b, TW_GRAPH_MUL, x, s);
    return tw_graph_build(b, TW_GRAPH_RESHAPE, &x, 1, w->type, NULL);
}

/* The weights of a product, scaled per output channel. */
static tw_value *scale_weights(tw_builder *b, const tw_op *product, tw_value *scale)
{
    tw_value *w = tw_operand(product, 1);
    unsigned rank = w->type->rank;
    if (tw_is_single(scale))
        return tw_build_binary(b, TW_GRAPH_MUL, w,
                               along_axis(b, scale, tw_expr_const(b->ctx, 1), 0, 0));
    tw_expr n = product->results[0].type->dims[output_axis(product)];
    switch (tw_graph_kind_of(product)) {
    case TW_GRAPH_CONV:
        return tw_build_binary(b, TW_GRAPH_MUL, w, along_axis(b, scale, n, rank, 0));
    case TW_GRAPH_CONV_TRANSPOSE:
        return scale_transposed(b, product, w, scale);
    default: { /* matmul */
        unsigned axis = tw_op_bool(product, "transpose_b", false) ? rank - 2 : rank - 1;
        return tw_build_binary(b, TW_GRAPH_MUL, w, along_axis(b, scale, n, rank, axis));
    }
    }
}

/* The product again, before the builder's place, with another operand. */
static tw_value *rebuild(tw_builder *b, const tw_op *product, unsigned i, tw_value *operand)
{
    tw_value *operands[2] = {tw_operand(product, 0), tw_operand(product, 1)};
    tw_type type = product->results[0].type;
    operands[i] = operand;
    tw_op *op = tw_op_create(b->ctx, product->def, product->loc, operands, 2, &type, 1,
                             product->attrs, product->n_attrs, 0);
    tw_op_insert(op, b->region, b->before);
    return tw_result(op, 0);
}

/* mul(product(x, w), s) -> product(x, w * s), and div likewise. */
static bool scale_after(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    bool division = tw_is_graph(op, TW_GRAPH_DIV);
    for (unsigned i = 0; i < (division ? 1 : 2); i++) {
        const tw_op *product = weighted(tw_operand(op, i));
        tw_value *scale = tw_operand(op, 1 - i);
        if (!product || !is_per_channel(scale, product->results[0].type, output_axis(product)))
            continue;
        tw_builder *b = tw_rw_builder(rw, op);
        if (division)
            scale = tw_build_unary(b, TW_GRAPH_RECIPROCAL, scale);
        tw_value *result = rebuild(b, product, 1, scale_weights(b, product, scale));
        tw_rw_replace(rw, op, &result);
        return true;
    }
    return false;
}

/* What scales or shifts a product's first operand per input channel, for the product alone: that
 * operation, *c its constant and *axis the axis of the weights that the channels are; or NULL. */
static tw_op *before_product(const tw_op *op, tw_graph_kind kind, tw_value **c, unsigned *axis)
{
    tw_op *before = tw_operand(op, 0)->op;
    bool matmul = tw_is_graph(op, TW_GRAPH_MATMUL);
    if (!before || !tw_is_graph(before, kind) || !tw_value_has_one_use(tw_operand(op, 0)) ||
        tw_op_int(op, "groups", 1) != 1 || tw_op_attr(op, "b_panel") ||
        strcmp(tw_op_string(op, "kernel_layout", "OI"), "OI") != 0 ||
        !tw_elem_is_float(before->results[0].type->elem) ||
        !tw_depends_on_constants(tw_operand(op, 1)))
        return NULL;
    tw_type type = before->results[0].type;
    unsigned rank = tw_operand(op, 1)->type->rank;
    unsigned last = type->rank - (tw_op_bool(op, "transpose_a", false) ? 2 : 1);
    *c = tw_operand(before, 1);
    *axis = !matmul ? 1 : tw_op_bool(op, "transpose_b", false) ? rank - 1 : rank - 2;
    return tw_operand(before, 0)->type == type && !tw_data_axes_of(type).lane &&
                   is_per_channel(*c, type, matmul ? last : channel_axis(type))
               ? before
               : NULL;
}

/* The weights times the constant along their input channels. */
static tw_value *times_weights(tw_builder *b, const tw_op *op, tw_value *c, unsigned axis)
{
    tw_value *w = tw_operand(op, 1);
    c = tw_is_single(c) ? along_axis(b, c, tw_expr_const(b->ctx, 1), 0, 0)
                        : along_axis(b, c, w->type->dims[axis], w->type->rank, axis);
    return tw_build_binary(b, TW_GRAPH_MUL, w, c);
}

/* conv(mul(x, s), w) -> conv(x, w * s) along the input channels, matmul(mul(x, s), w) likewise. */
static bool scale_before(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    tw_value *scale;
    unsigned axis;
    tw_op *mul = before_product(op, TW_GRAPH_MUL, &scale, &axis);
    if (!mul)
        return false;
    tw_builder *b = tw_rw_builder(rw, op);
    tw_value *result = rebuild(b, op, 1, times_weights(b, op, scale, axis));
    tw_op_set_operand(result->op, 0, tw_operand(mul, 0));
    tw_rw_replace(rw, op, &result);
    return true;
}

static bool pads_nothing(tw_context *ctx, const tw_op *conv)
{
    tw_expr pads[2 * TW_MAX_RANK];
    int n = tw_graph_exprs(ctx, conv, "pads_begin", pads, TW_MAX_RANK);
    n += tw_graph_exprs(ctx, conv, "pads_end", pads + n, TW_MAX_RANK);
    for (int i = 0; i < n; i++)
        if (pads[i] != tw_expr_const(ctx, 0))
            return false;
    return true;
}

/* conv(add(mul(x, s), t), w) -> add(conv(mul(x, s), w), sums of w * t): where there is padding it
 * is not shifted. Of a matrix product likewise. The scale is asked for since it makes the shift's
 * own error as large as what is lost here when both nearly cancel. */
static bool shift_before(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    tw_value *shift;
    unsigned axis;
    bool matmul = tw_is_graph(op, TW_GRAPH_MATMUL);
    tw_op *add = before_product(op, TW_GRAPH_ADD, &shift, &axis);
    const tw_op *mul = add ? tw_operand(add, 0)->op : NULL;
    if (!mul || !tw_is_graph(mul, TW_GRAPH_MUL) || !tw_depends_on_constants(tw_operand(mul, 1)) ||
        (matmul ? tw_operand(op, 1)->type->rank != 2 : !pads_nothing(tw_rw_context(rw), op)))
        return false;
    tw_builder *b = tw_rw_builder(rw, op);
    tw_value *w = times_weights(b, op, shift, axis);
    uint32_t out = matmul ? 1 - axis : 0, all = (1u << w->type->rank) - 1;
    tw_value *sums = tw_build_sum(b, w, all & ~(1u << out));
    tw_type type = op->results[0].type;
    sums = along_axis(b, sums, w->type->dims[out], type->rank, output_axis(op));
    tw_value *product = rebuild(b, op, 0, tw_operand(add, 0));
    tw_value *result = tw_build_binary(b, TW_GRAPH_ADD, product, sums);
    tw_rw_replace(rw, op, &result);
    return true;
}

/* ---- Order of scales and shifts after a product ---- */

/* The product under add(product, bias) with a constant bias per channel and one use; or NULL. */
static const tw_op *biased(const tw_value *value, tw_value **bias)
{
    const tw_op *add = value->op;
    if (!add || !tw_is_graph(add, TW_GRAPH_ADD) || !tw_value_has_one_use(value))
        return NULL;
    for (unsigned i = 0; i < 2; i++) {
        const tw_op *product = weighted(tw_operand(add, i));
        *bias = tw_operand(add, 1 - i);
        if (product && is_per_channel(*bias, product->results[0].type, output_axis(product)))
            return product;
    }
    return NULL;
}

/* mul(add(product, b), s) -> add(mul(product, s), b * s), so that s reaches the weights. */
static bool scale_over_shift(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    for (unsigned i = 0; i < 2; i++) {
        tw_value *bias, *scale = tw_operand(op, 1 - i);
        const tw_op *product = biased(tw_operand(op, i), &bias);
        if (!product || !is_per_channel(scale, product->results[0].type, output_axis(product)))
            continue;
        tw_builder *b = tw_rw_builder(rw, op);
        tw_value *sum = tw_build_binary(b, TW_GRAPH_MUL, (tw_value *)&product->results[0], scale);
        tw_value *result =
            tw_build_binary(b, TW_GRAPH_ADD, sum, tw_build_binary(b, TW_GRAPH_MUL, bias, scale));
        tw_rw_replace(rw, op, &result);
        return true;
    }
    return false;
}

/* add(add(product, b), c) -> add(product, b + c). */
static bool join_shifts(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    for (unsigned i = 0; i < 2; i++) {
        tw_value *bias, *more = tw_operand(op, 1 - i);
        const tw_op *product = biased(tw_operand(op, i), &bias);
        if (!product || !is_per_channel(more, product->results[0].type, output_axis(product)) ||
            tw_shifts_cancel(bias, more))
            continue;
        tw_builder *b = tw_rw_builder(rw, op);
        tw_value *sum = tw_build_binary(b, TW_GRAPH_ADD, bias, more);
        tw_value *result = tw_build_binary(b, TW_GRAPH_ADD, (tw_value *)&product->results[0], sum);
        tw_rw_replace(rw, op, &result);
        return true;
    }
    return false;
}

/* sub(product, c) -> add(product, -c): IEEE defines the one by the other. */
static bool shift_by_sub(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    const tw_op *product = weighted(tw_operand(op, 0));
    tw_value *c = tw_operand(op, 1);
    if (!product || !is_per_channel(c, product->results[0].type, output_axis(product)))
        return false;
    tw_builder *b = tw_rw_builder(rw, op);
    tw_value *result = tw_build_binary(b, TW_GRAPH_ADD, (tw_value *)&product->results[0],
                                       tw_build_unary(b, TW_GRAPH_NEG, c));
    tw_rw_replace(rw, op, &result);
    return true;
}

static bool run(tw_pass_run *pass)
{
    const tw_op_def *ops = tw_graph_ops;
    const tw_pattern patterns[] = {
        {"batch-norm", &ops[TW_GRAPH_BATCH_NORM], 1, expand_batch_norm, NULL},
        {"scale-after-product", &ops[TW_GRAPH_MUL], 2, scale_after, NULL},
        {"division-after-product", &ops[TW_GRAPH_DIV], 1, scale_after, NULL},
        {"scale-over-shift", &ops[TW_GRAPH_MUL], 1, scale_over_shift, NULL},
        {"join-shifts", &ops[TW_GRAPH_ADD], 1, join_shifts, NULL},
        {"shift-by-sub", &ops[TW_GRAPH_SUB], 1, shift_by_sub, NULL},
        {"join-scales", &ops[TW_GRAPH_MUL], 1, tw_join_scales, NULL},
        {"join-quotients", &ops[TW_GRAPH_DIV], 1, tw_join_scales, NULL},
        {"join-sums", &ops[TW_GRAPH_ADD], 1, tw_join_shifts, NULL},
        {"join-differences", &ops[TW_GRAPH_SUB], 1, tw_join_shifts, NULL},
        {"shift-before-conv", &ops[TW_GRAPH_CONV], 1, shift_before, NULL},
        {"shift-before-matmul", &ops[TW_GRAPH_MATMUL], 1, shift_before, NULL},
        {"scale-before-conv", &ops[TW_GRAPH_CONV], 1, scale_before, NULL},
        {"scale-before-matmul", &ops[TW_GRAPH_MATMUL], 1, scale_before, NULL},
    };
    tw_rewrite_greedily(pass->ctx, pass->root, patterns, sizeof patterns / sizeof *patterns,
                        pass->max_changes, &pass->changes);
    return true;
}

const tw_pass tw_pass_simplify_inference = {
    .name = "simplify-inference",
    .summary = "normalisations to scale and shift, scales into weights",
    .anchor = "core.func",
    .optional = true,
    .run = run,
};
