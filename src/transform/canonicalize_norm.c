/* canonicalize_norm.c: scale and bias of layer_norm and rms_norm.
 *
 *   %n = graph.layer_norm %x {axis = 2, epsilon = 1e-05}
 *   %m = graph.mul %n, %s
 *   %r = graph.add %m, %b              =>  %r = graph.layer_norm %x, %s, %b {…}
 *
 * for parameters of the normalised shape. */
#include "transform/canonicalize.h"

#include "dialect/graph/graph.h"

#include <string.h>

/* The operation of that kind that makes the value, or NULL. */
static tw_op *made_by(const tw_value *value, tw_graph_kind kind)
{
    return value->op && tw_is_graph(value->op, kind) ? value->op : NULL;
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
