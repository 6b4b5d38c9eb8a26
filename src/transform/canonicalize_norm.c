/* canonicalize_norm.c: layer_norm, rms_norm and softmax that a model spells out.
 *
 *   %m = graph.reduce_mean %x {axes = [2], keepdims = true}
 *   %d = graph.sub %x, %m
 *   %q = graph.mul %d, %d
 *   %v = graph.reduce_mean %q {axes = [2], keepdims = true}
 *   %e = graph.add %v, 1e-05
 *   %r = graph.sqrt %e
 *   %n = graph.div %d, %r                =>  %n = graph.layer_norm %x {axis = 2, epsilon = 1e-05}
 *
 * and then a product with a scale and a sum with a bias of the normalised shape. The operation's
 * kernels read x from memory once; ten element-wise kernels would not. */
#include "transform/canonicalize.h"

#include "dialect/graph/graph.h"
#include "transform/constants.h"

#include <string.h>

/* The operation of that kind that makes the value, or NULL. */
static tw_op *made_by(const tw_value *value, tw_graph_kind kind)
{
    return value->op && tw_is_graph(value->op, kind) ? value->op : NULL;
}

/* The operand of a reduction of that kind along `axes` with keepdims; `axes` NULL: any, and set. */
static tw_value *reduced(const tw_value *value, tw_graph_kind kind, tw_attr *axes)
{
    const tw_op *op = made_by(value, kind);
    if (!op || !tw_op_bool(op, "keepdims", false) || (*axes && tw_op_attr(op, "axes") != *axes))
        return NULL;
    *axes = tw_op_attr(op, "axes");
    return tw_operand(op, 0);
}

/* The first of the last axes that `axes` are, all to the end; -1 when they are others. */
static int64_t first_of_last(tw_attr axes, unsigned rank)
{
    size_t n = axes->u.array.n;
    for (size_t i = 0; i < n; i++)
        if (axes->u.array.items[i]->u.integer != (int64_t)(rank - n + i))
            return -1;
    return n ? (int64_t)(rank - n) : -1;
}

/* For sqrt(mean(d * d) + epsilon) the value d; NULL when it is something else. */
static tw_value *deviation_of(const tw_value *root, tw_attr *axes, double *epsilon)
{
    const tw_op *sqrt = made_by(root, TW_GRAPH_SQRT);
    const tw_op *add = sqrt ? made_by(tw_operand(sqrt, 0), TW_GRAPH_ADD) : NULL;
    tw_elem elem;
    for (unsigned i = 0; add && i < 2; i++) {
        if (!tw_constant_splat(tw_operand(add, 1 - i), &elem, epsilon))
            continue;
        const tw_value *square = reduced(tw_operand(add, i), TW_GRAPH_REDUCE_MEAN, axes);
        const tw_op *mul = square ? made_by(square, TW_GRAPH_MUL) : NULL;
        if (mul && tw_operand(mul, 0) == tw_operand(mul, 1))
            return tw_operand(mul, 0);
    }
    return NULL;
}

/* The quotient d / sqrt(mean(d * d) + epsilon), or its product with the reciprocal: d, or NULL. */
static tw_value *normalised(const tw_op *op, tw_attr *axes, double *epsilon)
{
    if (tw_is_graph(op, TW_GRAPH_DIV)) {
        tw_value *d = tw_operand(op, 0);
        return deviation_of(tw_operand(op, 1), axes, epsilon) == d ? d : NULL;
    }
    for (unsigned i = 0; i < 2; i++) {
        const tw_op *reciprocal = made_by(tw_operand(op, 1 - i), TW_GRAPH_RECIPROCAL);
        *axes = NULL;
        tw_value *d = tw_operand(op, i);
        if (reciprocal && deviation_of(tw_operand(reciprocal, 0), axes, epsilon) == d)
            return d;
    }
    return NULL;
}

static bool replace_by_norm(tw_rewriter *rw, tw_op *op, tw_graph_kind kind, tw_value *x,
                            tw_attr axes, double epsilon)
{
    int64_t axis = first_of_last(axes, x->type->rank);
    if (axis < 0 || x->type != op->results[0].type || !tw_elem_is_float(x->type->elem))
        return false;
    tw_builder *b = tw_rw_builder(rw, op);
    tw_value *value = tw_graph_build(b, kind, &x, 1, x->type, "axis", tw_attr_int(b->ctx, axis),
                                     "epsilon", tw_attr_float(b->ctx, epsilon), NULL);
    tw_rw_replace(rw, op, &value);
    return true;
}

bool tw_canon_layer_norm(tw_rewriter *rw, tw_op *op)
{
    tw_attr axes = NULL;
    double epsilon;
    const tw_value *d = normalised(op, &axes, &epsilon);
    const tw_op *sub = d ? made_by(d, TW_GRAPH_SUB) : NULL;
    if (!sub)
        return false;
    tw_value *x = tw_operand(sub, 0);
    return reduced(tw_operand(sub, 1), TW_GRAPH_REDUCE_MEAN, &axes) == x &&
           replace_by_norm(rw, op, TW_GRAPH_LAYER_NORM, x, axes, epsilon);
}

bool tw_canon_rms_norm(tw_rewriter *rw, tw_op *op)
{
    tw_attr axes = NULL;
    double epsilon;
    tw_value *x = normalised(op, &axes, &epsilon);
    return x && replace_by_norm(rw, op, TW_GRAPH_RMS_NORM, x, axes, epsilon);
}

/* Whether the value has exactly the normalised shape, or that with axes of size 1 in front; then
 * it, reshaped if need be, else NULL. */
static tw_value *parameter(tw_rewriter *rw, tw_op *at, const tw_op *norm, tw_value *value)
{
    tw_context *ctx = tw_rw_context(rw);
    tw_type x = norm->results[0].type, type = value->type;
    unsigned n = x->rank - (unsigned)tw_op_int(norm, "axis", 0);
    if (type->rank < n || type->elem != x->elem ||
        memcmp(type->dims + type->rank - n, x->dims + x->rank - n, n * sizeof *x->dims) != 0)
        return NULL;
    for (unsigned i = 0; i + n < type->rank; i++)
        if (type->dims[i] != tw_expr_const(ctx, 1))
            return NULL;
    if (type->rank == n)
        return value;
    tw_type shape = tw_type_tensor(ctx, type->elem, n, type->dims + type->rank - n, NULL);
    return tw_graph_build(tw_rw_builder(rw, at), TW_GRAPH_RESHAPE, &value, 1, shape, NULL);
}

/* op(norm, p) -> norm with one operand more, for the norm's result that only op uses. */
static bool take_parameter(tw_rewriter *rw, tw_op *op, tw_graph_kind kind, unsigned operands)
{
    for (unsigned i = 0; i < 2; i++) {
        const tw_op *norm = made_by(tw_operand(op, i), kind);
        if (!norm || norm->n_operands != operands || !tw_value_has_one_use(tw_operand(op, i)) ||
            op->results[0].type != norm->results[0].type)
            continue;
        tw_value *p = parameter(rw, op, norm, tw_operand(op, 1 - i));
        if (!p)
            continue;
        tw_value *all[3] = {tw_operand(norm, 0), operands > 1 ? tw_operand(norm, 1) : p, p};
        tw_builder *b = tw_rw_builder(rw, op);
        tw_type type = norm->results[0].type;
        tw_op *whole = tw_op_create(b->ctx, norm->def, op->loc, all, operands + 1, &type, 1,
                                    norm->attrs, norm->n_attrs, 0);
        tw_op_insert(whole, b->region, b->before);
        tw_rw_replace(rw, op, (tw_value *[]){tw_result(whole, 0)});
        return true;
    }
    return false;
}

bool tw_canon_norm_scale(tw_rewriter *rw, tw_op *op)
{
    return take_parameter(rw, op, TW_GRAPH_LAYER_NORM, 1) ||
           take_parameter(rw, op, TW_GRAPH_RMS_NORM, 1);
}

bool tw_canon_norm_bias(tw_rewriter *rw, tw_op *op)
{
    return take_parameter(rw, op, TW_GRAPH_LAYER_NORM, 2);
}

bool tw_canon_softmax(tw_rewriter *rw, tw_op *op)
{
    tw_attr axes = NULL;
    const tw_op *exp = made_by(tw_operand(op, 0), TW_GRAPH_EXP);
    const tw_op *sub = exp ? made_by(tw_operand(exp, 0), TW_GRAPH_SUB) : NULL;
    if (!sub || reduced(tw_operand(op, 1), TW_GRAPH_REDUCE_SUM, &axes) != tw_operand(op, 0))
        return false;
    tw_value *x = tw_operand(sub, 0);
    if (reduced(tw_operand(sub, 1), TW_GRAPH_REDUCE_MAX, &axes) != x || axes->u.array.n != 1 ||
        x->type != op->results[0].type)
        return false;
    tw_builder *b = tw_rw_builder(rw, op);
    tw_value *value =
        tw_graph_build(b, TW_GRAPH_SOFTMAX, &x, 1, x->type, "axis", axes->u.array.items[0], NULL);
    tw_rw_replace(rw, op, &value);
    return true;
}
