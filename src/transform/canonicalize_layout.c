/* canonicalize_layout.c: reshapes that change nothing but the layout that a type names.
 *
 *   %1 = graph.reshape %0 : tensor<1x6x6x3xf32>      // %0: tensor<1x6x6x3xf32, NHWC>
 *   %2 = graph.layer_norm %1                  =>     %2 = graph.layer_norm %0
 *
 * Where it matters (graph.conv, a function's signature) they stay, and are views. */
#include "transform/canonicalize.h"

#include "dialect/graph/data_axes.h"

bool tw_canon_replace(tw_rewriter *rw, tw_op *op, tw_value *value)
{
    tw_type type = op->results[0].type;
    if (value->type->layout != type->layout)
        value = tw_graph_build(tw_rw_builder(rw, op), TW_GRAPH_RESHAPE, &value, 1, type, NULL);
    tw_rw_replace(rw, op, &value);
    return true;
}

static bool all_take(const tw_value *value, const tw_op *except, tw_attr layout)
{
    for (const tw_use *u = value->uses; u; u = u->next)
        if (u->user != except && !tw_takes_layout(u, layout))
            return false;
    return true;
}

/* Whether the operation could give its result that layout as well as none. */
static bool could_name(const tw_op *op, tw_attr layout)
{
    switch (tw_graph_kind_of(op)) {
    case TW_GRAPH_COUNT:
    case TW_GRAPH_CONSTANT:
    case TW_GRAPH_GROUP:
    case TW_GRAPH_IF:
    case TW_GRAPH_LOOP:
        return false;
    default:
        break;
    }
    for (unsigned i = 0; i < op->n_operands; i++)
        if (!tw_layouts_agree(tw_operand(op, i)->type->layout, layout))
            return false;
    return op->n_results == 1 && !tw_reads_layout(op);
}

bool tw_canon_layout_name(tw_rewriter *rw, tw_op *op)
{
    tw_value *x = tw_operand(op, 0), *y = tw_result(op, 0);
    tw_context *ctx = tw_rw_context(rw);
    tw_attr had = x->type->layout, wanted = y->type->layout;
    if (had == wanted || tw_type_with_layout(ctx, y->type, had) != x->type)
        return false;
    if (!all_take(y, NULL, had)) {
        if (had || !x->op || !could_name(x->op, wanted) || !all_take(x, op, wanted))
            return false;
        x->type = y->type;
        tw_rw_changed(rw, x->op);
    }
    tw_rw_replace(rw, op, &x);
    return true;
}
