/* sink_norms.c: normalisations of rows move behind what moves whole rows.
 *
 *   %1 = graph.layer_norm %x, %s, %b {axis = 2} : tensor<56x56x96xf32>
 *   %2 = graph.reshape %1 : tensor<8x7x8x7x96xf32>
 *   %3 = graph.transpose %2 {perm = [0, 2, 1, 3, 4]} : tensor<8x8x7x7x96xf32>
 *     =>
 *   %1 = graph.reshape %x : tensor<8x7x8x7x96xf32>
 *   %2 = graph.transpose %1 {perm = [0, 2, 1, 3, 4]} : tensor<8x8x7x7x96xf32>
 *   %3 = graph.layer_norm %2, %s, %b {axis = 4} : tensor<8x8x7x7x96xf32>
 *
 * Each row is normalised by itself, wherever it lies. Nothing that moves elements is computed on a
 * reduction's result, but the reduction reads its rows from any place: so a kernel is saved. A
 * slice leaves rows out, which then are not normalised, either. Only where nothing else needs what
 * the normalisation gives: it would be computed twice. */
#include "transform/transform.h"

#include "dialect/graph/graph.h"

#include <string.h>

enum { MAX_CHAIN = 8 };

/* Whether the operation leaves the last n axes as they are. */
static bool keeps_last(tw_context *ctx, const tw_op *op, unsigned n)
{
    tw_type from = tw_operand(op, 0)->type, to = op->results[0].type;
    tw_expr starts[TW_MAX_RANK];
    int64_t numbers[TW_MAX_RANK];
    if (from->rank < n || to->rank < n)
        return false;
    for (unsigned i = 1; i <= n; i++)
        if (from->dims[from->rank - i] != to->dims[to->rank - i])
            return false;
    switch (tw_graph_kind_of(op)) {
    case TW_GRAPH_RESHAPE:
    case TW_GRAPH_TILE:
        return true;
    case TW_GRAPH_TRANSPOSE:
        tw_op_ints(op, "perm", numbers, TW_MAX_RANK);
        for (unsigned i = to->rank - n; i < to->rank; i++)
            if (numbers[i] != i)
                return false;
        return true;
    case TW_GRAPH_SLICE:
        tw_op_ints(op, "steps", numbers, TW_MAX_RANK);
        tw_graph_exprs(ctx, op, "starts", starts, TW_MAX_RANK);
        for (unsigned i = to->rank - n; i < to->rank; i++)
            if (numbers[i] != 1 || starts[i] != tw_expr_const(ctx, 0))
                return false;
        return true;
    default:
        return false;
    }
}

static bool is_norm(const tw_op *op)
{
    return op && (tw_is_graph(op, TW_GRAPH_LAYER_NORM) || tw_is_graph(op, TW_GRAPH_RMS_NORM));
}

/* The normalisation that the mover's operand comes from, through reshapes and, before a slice, the
 * tile that makes it read around an end; *n operations, the last first. NULL: there is none. */
static tw_op *norm_before(tw_op *mover, tw_op **chain, unsigned *n)
{
    chain[0] = mover;
    for (*n = 1; *n < MAX_CHAIN; (*n)++) {
        tw_value *from = tw_operand(chain[*n - 1], 0);
        if (!from->op || from->op->region != mover->region || !tw_value_has_one_use(from))
            return NULL;
        if (is_norm(from->op))
            return from->op;
        bool tile = tw_is_graph(from->op, TW_GRAPH_TILE) && *n == 1 &&
                    tw_is_graph(mover, TW_GRAPH_SLICE) &&
                    mover->results[0].type == tw_operand(from->op, 0)->type;
        if (!tile && !tw_is_graph(from->op, TW_GRAPH_RESHAPE))
            return NULL;
        chain[*n] = from->op;
    }
    return NULL;
}

static bool sink(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    tw_context *ctx = tw_rw_context(rw);
    tw_op *chain[MAX_CHAIN], *norm;
    tw_value *in[3];
    unsigned n;
    if ((norm = norm_before(op, chain, &n)) == NULL)
        return false;
    unsigned kept = norm->results[0].type->rank - (unsigned)tw_op_int(norm, "axis", 0);
    for (unsigned i = 0; i < n; i++)
        if (!keeps_last(ctx, chain[i], kept))
            return false;
    tw_builder *b = tw_rw_builder(rw, op);
    for (unsigned i = 0; i < norm->n_operands; i++)
        in[i] = tw_operand(norm, i);
    tw_elem elem = in[0]->type->elem;
    for (unsigned i = n; i-- > 0;) {
        tw_type t = chain[i]->results[0].type;
        t = tw_type_tensor(ctx, elem, t->rank, t->dims, t->layout);
        tw_op *moved = tw_op_create(ctx, chain[i]->def, chain[i]->loc, in, 1, &t, 1,
                                    chain[i]->attrs, chain[i]->n_attrs, 0);
        tw_op_insert(moved, b->region, b->before);
        in[0] = tw_result(moved, 0);
    }
    tw_type type = op->results[0].type;
    tw_op *sunk = tw_op_create(ctx, norm->def, norm->loc, in, norm->n_operands, &type, 1,
                               norm->attrs, norm->n_attrs, 0);
    tw_op_set_attr(sunk, "axis", tw_attr_int(ctx, type->rank - kept));
    tw_op_insert(sunk, b->region, b->before);
    tw_rw_changed(rw, sunk);
    tw_value *result = tw_result(sunk, 0);
    tw_rw_replace(rw, op, &result);
    return true;
}

static bool run(tw_pass_run *pass)
{
    const tw_pattern patterns[] = {
        {"norm-behind-transpose", &tw_graph_ops[TW_GRAPH_TRANSPOSE], 1, sink, NULL},
        {"norm-behind-slice", &tw_graph_ops[TW_GRAPH_SLICE], 1, sink, NULL}};
    tw_rewrite_greedily(pass->ctx, pass->root, patterns, 2, pass->max_changes, &pass->changes);
    return true;
}

const tw_pass tw_pass_sink_norms = {
    .name = "sink-norms",
    .summary = "normalisations of rows move behind what moves whole rows",
    .anchor = "core.func",
    .optional = true,
    .run = run,
};
