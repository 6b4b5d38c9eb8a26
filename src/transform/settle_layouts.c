/* settle_layouts.c: settle-layouts: transposes that are left in front of products go into weights.
 *
 *   %1 = graph.transpose %x {perm = [0, 3, 1, 2]}        %w' = %w with its rows in %x's order
 *   %2 = graph.reshape %1 : 1x(c h w)              ->    %2 = graph.reshape %x : 1x(h w c)
 *   %3 = graph.matmul %2, %w                             %3 = graph.matmul %2, %w'
 *
 * A product sums in any order of its inner axis; constant weights are reordered by operations that
 * fold-constants evaluates. So a network of convolutions ends in its own layout. Channel shuffles
 * in front of convolutions: settle_shuffles.c. */
#include "transform/transform.h"

#include "dialect/graph/graph.h"
#include "transform/build.h"
#include "transform/constants.h"
#include "transform/settle.h"

/* The operation of that kind that makes the value for one user, or NULL. */
static tw_op *sole_producer(const tw_value *value, tw_graph_kind kind)
{
    return value->op && tw_is_graph(value->op, kind) && tw_value_has_one_use(value) ? value->op
                                                                                    : NULL;
}

/* Whether the reshape keeps the first axis and makes one of all others, whose sizes are known. */
static bool flattens(const tw_op *reshape)
{
    tw_type from = tw_operand(reshape, 0)->type, to = reshape->results[0].type;
    for (unsigned i = 1; i < from->rank; i++)
        if (!tw_expr_is_const(from->dims[i]))
            return false;
    return to->rank == 2 && from->rank > 2 && to->dims[0] == from->dims[0];
}

/* The weights, whose inner axis runs over `order`'s result without its first axis, in the order of
 * its operand. */
static tw_value *reorder_weights(tw_builder *b, tw_value *w, const tw_op *order, bool transposed)
{
    int64_t moved[TW_MAX_RANK], perm[TW_MAX_RANK];
    tw_type type = order->results[0].type;
    unsigned n = (unsigned)tw_op_ints(order, "perm", moved, TW_MAX_RANK) - 1, at = transposed;
    tw_expr dims[TW_MAX_RANK];
    dims[transposed ? 0 : n] = w->type->dims[transposed ? 0 : 1];
    perm[transposed ? 0 : n] = transposed ? 0 : n;
    for (unsigned i = 0; i < n; i++) {
        dims[at + i] = type->dims[i + 1];
        perm[at + moved[i + 1] - 1] = at + i;
    }
    tw_value *cut = tw_build_reshape(b, w, n + 1, dims);
    cut = tw_build_transpose(b, cut, tw_attr_ints(b->ctx, perm, n + 1));
    return tw_build_reshape(b, cut, 2, w->type->dims);
}

static bool flatten(tw_rewriter *rw, tw_op *op, const void *data)
{
    const tw_op *flat = sole_producer(tw_operand(op, 0), TW_GRAPH_RESHAPE);
    const tw_op *order = flat ? sole_producer(tw_operand(flat, 0), TW_GRAPH_TRANSPOSE) : NULL;
    tw_value *w = tw_operand(op, 1);
    int64_t perm[TW_MAX_RANK], count;
    (void)data;
    if (!order || !flattens(flat) || tw_op_ints(order, "perm", perm, TW_MAX_RANK) < 2 || perm[0] ||
        tw_op_bool(op, "transpose_a", false) || tw_op_attr(op, "b_panel") || w->type->rank != 2 ||
        !tw_type_static_count(w->type, &count) || !count || !tw_depends_on_constants(w))
        return false;
    tw_builder *b = tw_rw_builder(rw, op);
    w = reorder_weights(b, w, order, tw_op_bool(op, "transpose_b", false));
    tw_op_set_operand(op, 0,
                      tw_build_reshape(b, tw_operand(order, 0), 2, flat->results[0].type->dims));
    tw_op_set_operand(op, 1, w);
    tw_rw_changed(rw, op);
    return true;
}

static bool run(tw_pass_run *pass)
{
    static const tw_pattern patterns[] = {
        {"flatten-in-order", &tw_graph_ops[TW_GRAPH_MATMUL], 1, flatten, NULL},
        {"shuffle-in-order", &tw_graph_ops[TW_GRAPH_CONV], 1, tw_settle_shuffle, NULL},
        {"part-of-shuffle", &tw_graph_ops[TW_GRAPH_CONV], 1, tw_settle_part, NULL},
    };
    tw_rewrite_greedily(pass->ctx, pass->root, patterns, 3, pass->max_changes, &pass->changes);
    return true;
}

const tw_pass tw_pass_settle_layouts = {
    .name = "settle-layouts",
    .summary = "transposes in front of products go into constant weights",
    .anchor = "core.func",
    .optional = true,
    .run = run,
};
