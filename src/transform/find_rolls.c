/* find_rolls.c: two parts of a tensor that change places are read around its end.
 *
 *   %1 = graph.slice %x {starts = [0, 3, 0]} : tensor<1x53x96xf32>      // x: 1x56x96
 *   %2 = graph.slice %x {starts = [0, 0, 0]} : tensor<1x3x96xf32>
 *   %3 = graph.concat %1, %2 {axis = 1} : tensor<1x56x96xf32>
 *     =>
 *   %1 = graph.tile %x {repeats = [1, 2, 1]} : tensor<1x112x96xf32>
 *   %3 = graph.slice %1 {starts = [0, 3, 0]} : tensor<1x56x96xf32>
 *
 * A concatenation is written part by part and so ends its kernel; a slice of a tile is an index
 * map, x[(i + 3) mod 56], which becomes a part of the kernels around it. Not along the last axis,
 * nor in front of few elements: there the division is paid for each vector, not for each row. */
#include "transform/transform.h"

#include "dialect/graph/graph.h"

enum { MIN_ROW = 8 };

/* The slice of all of x but along the axis, where it begins at *start. */
static const tw_op *part_along(tw_context *ctx, const tw_value *part, unsigned axis, tw_expr *start)
{
    const tw_op *op = part->op;
    tw_expr starts[TW_MAX_RANK];
    int64_t steps[TW_MAX_RANK];
    unsigned rank = part->type->rank;
    if (!op || !tw_is_graph(op, TW_GRAPH_SLICE) ||
        tw_graph_exprs(ctx, op, "starts", starts, TW_MAX_RANK) != (int)rank ||
        tw_op_ints(op, "steps", steps, TW_MAX_RANK) != (int)rank)
        return NULL;
    for (unsigned i = 0; i < rank; i++)
        if (steps[i] != 1 ||
            (i != axis && (starts[i] != tw_expr_const(ctx, 0) ||
                           part->type->dims[i] != tw_operand(op, 0)->type->dims[i])))
            return NULL;
    *start = starts[axis];
    return op;
}

/* Elements behind the axis: at least so many, as far as is known. */
static bool has_rows(tw_type type, unsigned axis)
{
    int64_t row = 1;
    for (unsigned i = axis + 1; i < type->rank && row < MIN_ROW; i++)
        row *= tw_expr_range(type->dims[i], NULL, 0).lo;
    return row >= MIN_ROW;
}

static bool roll(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    tw_context *ctx = tw_rw_context(rw);
    unsigned axis = (unsigned)tw_op_int(op, "axis", 0);
    tw_expr first_start, second_start, dims[TW_MAX_RANK], starts[TW_MAX_RANK];
    tw_type type = op->results[0].type;
    if (op->n_operands != 2 || !has_rows(type, axis))
        return false;
    const tw_op *first = part_along(ctx, tw_operand(op, 0), axis, &first_start);
    const tw_op *second = part_along(ctx, tw_operand(op, 1), axis, &second_start);
    if (!first || !second || tw_operand(first, 0) != tw_operand(second, 0) ||
        tw_operand(first, 0)->type != type || second_start != tw_expr_const(ctx, 0) ||
        first_start != second->results[0].type->dims[axis] ||
        tw_expr_add(ctx, first->results[0].type->dims[axis], first_start) != type->dims[axis])
        return false;
    int64_t repeats[TW_MAX_RANK];
    for (unsigned i = 0; i < type->rank; i++) {
        repeats[i] = i == axis ? 2 : 1;
        dims[i] = tw_expr_mulc(ctx, type->dims[i], repeats[i]);
        starts[i] = i == axis ? first_start : tw_expr_const(ctx, 0);
    }
    tw_builder *b = tw_rw_builder(rw, op);
    tw_value *x = tw_operand(first, 0);
    tw_type twice = tw_type_tensor(ctx, type->elem, type->rank, dims, type->layout);
    x = tw_graph_build(b, TW_GRAPH_TILE, &x, 1, twice, "repeats",
                       tw_attr_ints(ctx, repeats, type->rank), NULL);
    for (unsigned i = 0; i < type->rank; i++)
        repeats[i] = 1;
    x = tw_graph_build(b, TW_GRAPH_SLICE, &x, 1, type, "starts",
                       tw_graph_exprs_attr(ctx, starts, type->rank), "steps",
                       tw_attr_ints(ctx, repeats, type->rank), NULL);
    tw_rw_replace(rw, op, &x);
    return true;
}

static bool run(tw_pass_run *pass)
{
    const tw_pattern pattern = {"roll", &tw_graph_ops[TW_GRAPH_CONCAT], 1, roll, NULL};
    tw_rewrite_greedily(pass->ctx, pass->root, &pattern, 1, pass->max_changes, &pass->changes);
    return true;
}

const tw_pass tw_pass_find_rolls = {
    .name = "find-rolls",
    .summary = "parts of a tensor that change places are read around its end",
    .anchor = "core.func",
    .optional = true,
    .run = run,
};
