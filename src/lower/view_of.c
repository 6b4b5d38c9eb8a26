/* view_of.c: which graph operations need no copy.
 *
 *   graph.slice %x {starts = [2, 0], steps = [1, 1]} : 4x8 -> 2x8     16 elements behind %x */
#include "lower/view_of.h"

#include "base/checked.h"
#include "dialect/graph/graph.h"

static bool is_number(tw_expr size, int64_t value)
{
    return tw_expr_is_const(size) && size->value == value;
}

/* The axes of more than one element keep their order. */
static bool keeps_order(const tw_op *op)
{
    int64_t perm[TW_MAX_RANK], last = -1;
    int n = tw_op_ints(op, "perm", perm, TW_MAX_RANK);
    for (int i = 0; i < n; i++) {
        if (is_number(op->results[0].type->dims[i], 1))
            continue;
        if (perm[i] < last)
            return false;
        last = perm[i];
    }
    return true;
}

static tw_expr count(tw_context *ctx, tw_type type)
{
    tw_expr product = tw_expr_const(ctx, 1);
    for (unsigned i = 0; i < type->rank; i++)
        product = tw_expr_mul(ctx, product, type->dims[i]);
    return product;
}

static bool same_count(const tw_op *op)
{
    tw_context *ctx = tw_op_context(op);
    tw_expr from = count(ctx, tw_operand(op, 0)->type);
    return from->kind != TW_EXPR_INVALID && from == count(ctx, op->results[0].type);
}

/* In front of the first axis with more than one element any start will do, behind it all of the
 * axis is to be taken. */
static bool is_adjacent(const tw_op *op, int64_t *offset)
{
    tw_type from = tw_operand(op, 0)->type, to = op->results[0].type;
    tw_context *ctx = tw_op_context(op);
    tw_expr starts[TW_MAX_RANK], at = tw_expr_const(ctx, 0);
    int64_t steps[TW_MAX_RANK];
    bool whole = false; /* the axes still to come are taken whole */
    int n = tw_graph_exprs(ctx, op, "starts", starts, TW_MAX_RANK);
    if (tw_op_ints(op, "steps", steps, TW_MAX_RANK) != n)
        return false;
    for (int i = 0; i < n; i++) {
        tw_expr size = from->dims[i], taken = to->dims[i];
        bool several = !is_number(taken, 1);
        if ((whole && taken != size) || (several && steps[i] != 1) || is_number(taken, 0))
            return false;
        whole = whole || several;
        at = tw_expr_add(ctx, tw_expr_mul(ctx, at, size), starts[i]);
    }
    return tw_expr_as_const(at, offset);
}

/* A group that does nothing but take views, one of another. `whole` is cleared when one is not all
 * of its operand. */
static bool is_chain_of_views(const tw_op *group, int64_t *offset, bool *whole)
{
    const tw_region *body = &group->regions[0];
    if (group->n_operands != 1 || group->n_results != 1 || !body->last ||
        !tw_is_graph(body->last, TW_GRAPH_YIELD))
        return false;
    const tw_value *value = tw_operand(body->last, 0);
    while (value->op) {
        int64_t step;
        if (tw_is_graph(value->op, TW_GRAPH_GROUP) || !tw_lower_is_view(value->op, &step))
            return false;
        if (!tw_add_i64(*offset, step, offset))
            return false;
        *whole = *whole && tw_lower_is_whole_view(value->op);
        value = tw_operand(value->op, 0);
    }
    return true;
}

bool tw_lower_is_whole_view(const tw_op *op)
{
    int64_t offset;
    bool whole = true;
    if (tw_is_graph(op, TW_GRAPH_GROUP))
        return is_chain_of_views(op, &offset, &whole) && whole;
    return tw_lower_is_view(op, &offset) && same_count(op);
}

bool tw_lower_is_view(const tw_op *op, int64_t *offset)
{
    bool whole = true;
    *offset = 0;
    switch (tw_graph_kind_of(op)) {
    case TW_GRAPH_RESHAPE:
    case TW_GRAPH_WORDS:
        return true;
    case TW_GRAPH_TRANSPOSE:
        return keeps_order(op);
    case TW_GRAPH_EXPAND:
        return same_count(op);
    case TW_GRAPH_SLICE:
        return is_adjacent(op, offset);
    case TW_GRAPH_GROUP:
        return is_chain_of_views(op, offset, &whole);
    default:
        return false;
    }
}
