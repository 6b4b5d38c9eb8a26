/* open_sizes.c: classes of sizes that are taken to be equal, each known by its simplest member: a
 * number, or the expression of fewest parts. */
#include "dialect/graph/open_sizes.h"

#include "dialect/graph/graph.h"

bool tw_is_open_size(tw_expr from, tw_expr to)
{
    return from != to && !tw_expr_is_const(from);
}

/* The axis of the operand that belongs to axis i of the result; NULL when there is none. */
static tw_expr size_before(const tw_op *expand, unsigned i)
{
    tw_type from = tw_operand(expand, 0)->type;
    unsigned added = expand->results[0].type->rank - from->rank;
    return i < added ? NULL : from->dims[i - added];
}

bool tw_graph_is_open_expand(const tw_op *op)
{
    if (!tw_is_graph(op, TW_GRAPH_EXPAND))
        return false;
    tw_type to = op->results[0].type;
    for (unsigned i = 0; i < to->rank; i++) {
        tw_expr from = size_before(op, i);
        if (from && tw_is_open_size(from, to->dims[i]))
            return true;
    }
    return false;
}

static tw_expr simplest(const tw_equal_sizes *e, tw_expr size)
{
    for (tw_expr next; (next = tw_map_get_ptr(&e->same, size));)
        size = next;
    return size;
}

/* The depth of expressions is bounded by construction. */
static unsigned count_parts(tw_expr e)
{
    return tw_expr_is_const(e) ? 0 : e->lhs ? 1 + count_parts(e->lhs) + count_parts(e->rhs) : 1;
}

void tw_equal_sizes_add(tw_equal_sizes *e, const tw_op *expand)
{
    tw_type to = expand->results[0].type;
    for (unsigned i = 0; i < to->rank; i++) {
        tw_expr from = size_before(expand, i);
        if (!from || !tw_is_open_size(from, to->dims[i]))
            continue;
        tw_expr a = simplest(e, from), b = simplest(e, to->dims[i]);
        bool keep_a = count_parts(a) <= count_parts(b);
        if (a != b && !(tw_expr_is_const(a) && tw_expr_is_const(b)))
            tw_map_put_ptr(&e->same, keep_a ? b : a, (void *)(keep_a ? a : b));
    }
}

tw_expr tw_equal_size(const tw_equal_sizes *e, tw_expr size)
{
    tw_expr same = simplest(e, size);
    if (same != size || !size->lhs)
        return same;
    tw_expr lhs = tw_equal_size(e, size->lhs), rhs = tw_equal_size(e, size->rhs);
    return lhs == size->lhs && rhs == size->rhs ? size
                                                : tw_expr_binary(e->ctx, size->kind, lhs, rhs);
}

tw_type tw_equal_type(const tw_equal_sizes *e, tw_type type)
{
    tw_expr dims[TW_MAX_RANK];
    if (type->kind != TW_TYPE_TENSOR)
        return type;
    for (unsigned i = 0; i < type->rank; i++)
        dims[i] = tw_equal_size(e, type->dims[i]);
    return tw_type_tensor(e->ctx, type->elem, type->rank, dims, type->layout);
}

bool tw_equal_shapes(const tw_equal_sizes *e, tw_type a, tw_type b)
{
    if (a->rank != b->rank)
        return false;
    for (unsigned i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i] && simplest(e, a->dims[i]) != simplest(e, b->dims[i]))
            return false;
    return true;
}
