/* sink_reshapes.c: reshapes of a product's result move behind what follows element by element, so
 * that it can become the product's epilogue.
 *
 *   %1 = graph.matmul %0, %w : tensor<64x768xf32>
 *   %2 = graph.reshape %1 : tensor<1x64x768xf32>
 *   %3 = graph.add %2, %b : tensor<1x64x768xf32>           // b: 768
 *     =>
 *   %1 = graph.matmul %0, %w : tensor<64x768xf32>
 *   %2 = graph.add %1, %b : tensor<64x768xf32>
 *   %3 = graph.reshape %2 : tensor<1x64x768xf32>
 *
 * The other operands must say the same about the shape before the reshape: one element, a part that
 * broadcasts along last axes that the reshape keeps, or the full shape (which is reshaped, a view).
 * When two products meet, the one that is not behind a reshape stays as it is; so no reshape moves
 * to and fro. */
#include "transform/transform.h"

#include "dialect/graph/graph.h"

#include <string.h>

enum { MAX_CHAIN = 8, MAX_OPERANDS = 8 };

static bool same_shape(tw_type a, tw_type b)
{
    return a->rank == b->rank && !memcmp(a->dims, b->dims, a->rank * sizeof *a->dims);
}

static bool is_elementwise(const tw_op *op)
{
    return tw_graph_kind_of(op) != TW_GRAPH_COUNT && op->def->traits & TW_TRAIT_ELEMENTWISE &&
           op->n_operands > 0 && op->n_operands <= MAX_OPERANDS;
}

/* Whether the value is a product's result, or that after element-wise operations of its shape. */
static bool is_product(const tw_value *value)
{
    for (int i = 0; i < MAX_CHAIN && value->op; i++) {
        const tw_op *op = value->op;
        if (op->def->fusion == TW_FUSE_COMPLEX)
            return true;
        if (!is_elementwise(op))
            return false;
        const tw_value *next = NULL;
        for (unsigned k = 0; k < op->n_operands && !next; k++)
            if (same_shape(tw_operand(op, k)->type, value->type) && tw_operand(op, k)->op)
                next = tw_operand(op, k);
        if (!next)
            return false;
        value = next;
    }
    return false;
}

/* The operand before the reshape that makes it, or NULL. */
static tw_value *before_reshape(const tw_value *value)
{
    return value->op && tw_is_graph(value->op, TW_GRAPH_RESHAPE) ? tw_operand(value->op, 0) : NULL;
}

static tw_type with_elem(tw_context *ctx, tw_type shape, tw_elem elem)
{
    return tw_type_tensor(ctx, elem, shape->rank, shape->dims, shape->layout);
}

/* How many last axes the two shapes share. */
static unsigned common_axes(tw_type a, tw_type b)
{
    unsigned n = 0;
    while (n < a->rank && n < b->rank && a->dims[a->rank - 1 - n] == b->dims[b->rank - 1 - n])
        n++;
    return n;
}

/* The type in which `type`, which broadcasts to `after`, says the same to `before`; NULL: none. */
static tw_type type_before(tw_context *ctx, tw_type type, tw_type after, tw_type before)
{
    tw_expr one = tw_expr_const(ctx, 1);
    unsigned lead = 0, common = common_axes(after, before);
    if (same_shape(type, after))
        return with_elem(ctx, before, type->elem);
    while (lead < type->rank && type->dims[lead] == one)
        lead++;
    if (type->rank - lead > common)
        return NULL;
    return type->rank <= common
               ? type
               : tw_type_tensor(ctx, type->elem, type->rank - lead, type->dims + lead, NULL);
}

/* The operand for the moved operation. */
static tw_value *operand_before(tw_builder *b, tw_value *x, tw_type type)
{
    tw_value *inner = before_reshape(x);
    if (x->type == type)
        return x;
    if (inner && inner->type == type)
        return inner;
    return tw_graph_build(b, TW_GRAPH_RESHAPE, &x, 1, type, NULL);
}

/* The types of all operands before the reshape that makes operand i; false when one has none or is
 * a product of the full shape itself. */
static bool find_types(tw_context *ctx, const tw_op *op, unsigned i, tw_type *types)
{
    tw_type after = tw_operand(op, i)->type, before = before_reshape(tw_operand(op, i))->type;
    for (unsigned k = 0; k < op->n_operands; k++) {
        const tw_value *x = tw_operand(op, k);
        types[k] = type_before(ctx, x->type, after, before);
        if (!types[k] || (!before_reshape(x) && same_shape(x->type, after) && is_product(x)))
            return false;
    }
    return true;
}

static bool sink(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    tw_context *ctx = tw_rw_context(rw);
    tw_type result = op->n_results == 1 ? op->results[0].type : NULL, types[MAX_OPERANDS];
    if (!is_elementwise(op))
        return false;
    for (unsigned i = 0; i < op->n_operands; i++) {
        const tw_value *y = before_reshape(tw_operand(op, i));
        if (!y || !same_shape(tw_operand(op, i)->type, result) || !is_product(y) ||
            !find_types(ctx, op, i, types))
            continue;
        tw_value *operands[MAX_OPERANDS];
        tw_builder *b = tw_rw_builder(rw, op);
        for (unsigned k = 0; k < op->n_operands; k++)
            operands[k] = operand_before(b, tw_operand(op, k), types[k]);
        tw_type type = with_elem(ctx, y->type, result->elem);
        tw_op *moved = tw_op_create(ctx, op->def, op->loc, operands, op->n_operands, &type, 1,
                                    op->attrs, op->n_attrs, 0);
        tw_op_insert(moved, b->region, b->before);
        tw_value *value = tw_result(moved, 0);
        value = tw_graph_build(b, TW_GRAPH_RESHAPE, &value, 1, result, NULL);
        tw_rw_replace(rw, op, &value);
        return true;
    }
    return false;
}

static bool run(tw_pass_run *pass)
{
    static const tw_pattern patterns[] = {{"sink-reshape", NULL, 1, sink, NULL}};
    tw_rewrite_greedily(pass->ctx, pass->root, patterns, 1, pass->max_changes, &pass->changes);
    return true;
}

const tw_pass tw_pass_sink_reshapes = {
    .name = "sink-reshapes",
    .summary = "reshapes of products move behind what can be their epilogue",
    .anchor = "core.func",
    .optional = true,
    .run = run,
};
