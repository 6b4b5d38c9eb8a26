/* op_linear.c: matrix products, determinants. */
#include "import/onnx/loop.h"

#include <string.h>

tw_value *tw_onnx_matmul(tw_gb *g, tw_value *a, tw_value *b)
{
    if (!a || !b)
        return NULL;
    bool row = a->type->rank == 1, column = b->type->rank == 1;
    if (a->type->rank == 0 || b->type->rank == 0)
        return tw_gb_error(g, "no matrix product of %s and %s", tw_gb_type_text(g, a->type),
                           tw_gb_type_text(g, b->type));
    if (row)
        a = tw_gb_unsqueeze(g, a, 1);
    if (column)
        b = tw_gb_unsqueeze(g, b, 2);
    tw_value *y = tw_gb_matmul(g, a, b, false, false);
    if (!y || (!row && !column))
        return y;
    unsigned rank = y->type->rank;
    return tw_gb_squeeze(g, y, (row ? 1u << (rank - 2) : 0) | (column ? 1u << (rank - 1) : 0));
}

bool tw_onnx_op_matmul(tw_onnx_node *n)
{
    return tw_onnx_set(n, 0, tw_onnx_matmul(n->g, n->in[0], n->in[1]));
}

static tw_value *scaled(tw_gb *g, tw_value *x, double factor)
{
    return factor == 1 ? x : tw_gb_binary_scalar(g, TW_GRAPH_MUL, x, factor);
}

/* alpha * a * b + beta * c */
bool tw_onnx_op_gemm(tw_onnx_node *n)
{
    bool ok = true;
    tw_gb *g = n->g;
    double alpha = tw_onnx_float(n, "alpha", 1, &ok), beta = tw_onnx_float(n, "beta", 1, &ok);
    bool transpose_a = tw_onnx_int(n, "transA", 0, &ok);
    bool transpose_b = tw_onnx_int(n, "transB", 0, &ok);
    if (!ok || !tw_onnx_check_elem(n, 0, TW_ONNX_NUMBERS))
        return false;
    if (n->in[0]->type->rank != 2 || n->in[1]->type->rank != 2)
        return tw_onnx_error(n, "inputs %s and %s; matrices are needed",
                             tw_gb_type_text(g, n->in[0]->type),
                             tw_gb_type_text(g, n->in[1]->type));
    if (!tw_elem_is_float(n->in[0]->type->elem) &&
        (alpha != (double)(int64_t)alpha || beta != (double)(int64_t)beta))
        return tw_onnx_error(n, "integer operands with alpha %g and beta %g", alpha, beta);
    tw_value *y = tw_gb_matmul(g, n->in[0], n->in[1], transpose_a, transpose_b);
    y = scaled(g, y, alpha);
    tw_value *c = tw_onnx_in(n, 2);
    if (!y || !c || beta == 0)
        return tw_onnx_set(n, 0, y);
    c = tw_gb_fit(g, scaled(g, c, beta), 2, y->type->dims);
    y = tw_gb_binary(g, TW_GRAPH_ADD, y, c);
    return tw_onnx_set(n, 0, y);
}

/* ---- Determinants, by elimination ---- */

/* Row t of x, [batch, m, m], or the one that `at`, [batch, 1], says for each: [batch, 1, m]. */
static tw_value *row_of(tw_gb *g, tw_value *x, tw_value *at)
{
    tw_expr one = tw_gb_const(g, 1), dims[3] = {x->type->dims[0], one, x->type->dims[2]};
    if (!at || at->type->rank == 0)
        return tw_gb_unsqueeze(g, tw_gb_gather(g, x, at, 1), 2);
    return TW_GB_EMIT(g, GATHER_ND, ((tw_value *[]){x, tw_gb_unsqueeze(g, at, 4)}), 2,
                      tw_type_tensor(g->ctx, x->type->elem, 3, dims, NULL),
                      {"batch_dims", tw_attr_int(g->ctx, 1)});
}

/* The row at or below row t that has the largest number in column t, [batch, 1]. */
static tw_value *find_pivot(tw_gb *g, tw_value *x, tw_value *t)
{
    tw_value *column = tw_gb_unary(g, TW_GRAPH_ABS, tw_gb_gather(g, x, t, 2));
    tw_value *done =
        tw_gb_binary(g, TW_GRAPH_LESS, tw_gb_iota(g, TW_I64, 1, &x->type->dims[1], 0), t);
    column = tw_gb_where(g, done, tw_gb_scalar(g, x->type->elem, -1), column);
    if (!column)
        return NULL;
    tw_expr dims[2] = {x->type->dims[0], tw_gb_const(g, 1)};
    return TW_GB_EMIT(g, ARG_MAX, &column, 1, tw_type_tensor(g->ctx, TW_I64, 2, dims, NULL),
                      {"axis", tw_attr_int(g->ctx, 1)}, {"keepdims", tw_attr_bool(g->ctx, true)});
}

/* Step t: swaps row t with the pivot's, takes multiples of it from the rows below, which leaves
 * zeros in column t, and multiplies the determinant, [batch, 1, 1], by the pivot. */
static bool eliminate(void *data, tw_value *t, tw_value *const *states, tw_value **next,
                      tw_value **row)
{
    tw_gb *g = data;
    tw_value *x = states[0], *pivot = find_pivot(g, x, t);
    if (!pivot)
        return false;
    tw_expr one = tw_gb_const(g, 1), column[3] = {one, x->type->dims[1], one};
    tw_value *rows = tw_gb_iota(g, TW_I64, 3, column, 1);
    tw_value *upper = row_of(g, x, pivot), *here = tw_gb_unsqueeze(g, pivot, 4);
    x = tw_gb_where(g, tw_gb_binary(g, TW_GRAPH_EQUAL, rows, here), row_of(g, x, t), x);
    tw_value *value = tw_gb_unsqueeze(g, tw_gb_gather(g, upper, t, 2), 4); /* [batch, 1, 1] */
    tw_value *stays = tw_gb_binary(g, TW_GRAPH_EQUAL, here, t);
    tw_value *factor = tw_gb_where(g, stays, value, tw_gb_unary(g, TW_GRAPH_NEG, value));
    tw_value *divisor = tw_gb_where(g, tw_gb_binary_scalar(g, TW_GRAPH_EQUAL, value, 0),
                                    tw_gb_scalar(g, states[0]->type->elem, 1), value);
    tw_value *share = tw_gb_unsqueeze(g, tw_gb_gather(g, x, t, 2), 4); /* [batch, m, 1] */
    share = tw_gb_binary(g, TW_GRAPH_DIV, share, divisor);
    tw_value *less = tw_gb_binary(g, TW_GRAPH_SUB, x, tw_gb_binary(g, TW_GRAPH_MUL, share, upper));
    next[0] = tw_gb_where(g, tw_gb_binary(g, TW_GRAPH_GREATER, rows, t), less, x);
    next[1] = tw_gb_binary(g, TW_GRAPH_MUL, states[1], factor);
    *row = NULL;
    return next[0] && next[1];
}

bool tw_onnx_op_det(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_type type = n->in[0]->type;
    if (!tw_onnx_check_elem(n, 0, TW_ONNX_FLOATS))
        return false;
    unsigned batch = type->rank < 2 ? 0 : type->rank - 2;
    if (type->rank < 2 || tw_gb_differ(g, type->dims[batch], type->dims[batch + 1]))
        return tw_onnx_error(n, "input %s; square matrices are needed", tw_gb_type_text(g, type));
    tw_expr m = type->dims[batch], one = tw_gb_const(g, 1);
    tw_expr all = tw_gb_product(g, type->dims, batch), dims[TW_MAX_RANK];
    memcpy(dims, type->dims, type->rank * sizeof *dims);
    dims[batch + 1] = m;
    tw_value *x = tw_gb_conform(g, n->in[0], dims);
    tw_value *states[2] = {tw_gb_reshape(g, x, 3, (tw_expr[]){all, m, m}),
                           tw_gb_splat(g, type->elem, 1, 3, (tw_expr[]){all, one, one})};
    return states[0] && tw_onnx_steps(n, states[0], 1, states, 2, eliminate, g, NULL) &&
           tw_onnx_set(n, 0, tw_gb_reshape(g, states[1], batch, type->dims));
}
