/* view_of.c: which graph operations need no copy.
 *
 *   graph.slice %x {starts = [2, 0], steps = [1, 1]} : 4x8 -> 2x8     16 elements behind %x */
#include "lower/view_of.h"

#include "dialect/graph/graph.h"

/* The axes of more than one element keep their order. */
static bool keeps_order(const tw_op *op)
{
    int64_t perm[TW_MAX_RANK], last = -1;
    int n = tw_op_ints(op, "perm", perm, TW_MAX_RANK);
    for (int i = 0; i < n; i++) {
        if (tw_type_dim(op->results[0].type, (unsigned)i) == 1)
            continue;
        if (perm[i] < last)
            return false;
        last = perm[i];
    }
    return true;
}

static bool same_count(const tw_op *op)
{
    int64_t from, to;
    return tw_type_static_count(tw_operand(op, 0)->type, &from) &&
           tw_type_static_count(op->results[0].type, &to) && from == to;
}

/* In front of the first axis with more than one element any start will do, behind it all of the
 * axis is to be taken. */
static bool is_adjacent(const tw_op *op, int64_t *offset)
{
    tw_type from = tw_operand(op, 0)->type, to = op->results[0].type;
    int64_t starts[TW_MAX_RANK], steps[TW_MAX_RANK];
    bool whole = false; /* the axes still to come are taken whole */
    int n = tw_op_ints(op, "starts", starts, TW_MAX_RANK);
    if (tw_op_ints(op, "steps", steps, TW_MAX_RANK) != n)
        return false;
    *offset = 0;
    for (int i = 0; i < n; i++) {
        int64_t size = tw_type_dim(from, (unsigned)i), taken = tw_type_dim(to, (unsigned)i);
        if ((whole && taken != size) || (taken > 1 && steps[i] != 1) || !taken)
            return false;
        whole = whole || taken > 1;
        *offset = *offset * size + starts[i];
    }
    return true;
}

/* A group that does nothing but take views, one of another. */
static bool is_chain_of_views(const tw_op *group, int64_t *offset)
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
        *offset += step;
        value = tw_operand(value->op, 0);
    }
    return true;
}

bool tw_lower_is_view(const tw_op *op, int64_t *offset)
{
    *offset = 0;
    switch (tw_graph_kind_of(op)) {
    case TW_GRAPH_RESHAPE:
        return true;
    case TW_GRAPH_TRANSPOSE:
        return keeps_order(op);
    case TW_GRAPH_EXPAND:
        return same_count(op);
    case TW_GRAPH_SLICE:
        return is_adjacent(op, offset);
    case TW_GRAPH_GROUP:
        return is_chain_of_views(op, offset);
    default:
        return false;
    }
}
