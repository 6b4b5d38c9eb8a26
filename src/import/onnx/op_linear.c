/* op_linear.c: matrix products, determinants. */
#include "import/onnx/import.h"

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

enum { MAX_ELIMINATION = 128 };

/* x with the first row at row `pivot` ([batch, 1]) and that row, given apart, left out: the rows
 * below the pivot's after they are swapped. */
static tw_value *rows_below(tw_gb *g, tw_value *x, tw_value *pivot)
{
    tw_expr one = tw_gb_const(g, 1), size = x->type->dims[1];
    tw_value *at = tw_gb_iota(g, TW_I64, 2, (tw_expr[]){one, size}, 1);
    tw_value *here = tw_gb_unsqueeze(g, tw_gb_binary(g, TW_GRAPH_EQUAL, at, pivot), 4);
    tw_value *first = tw_gb_slice_axis(g, x, 1, tw_gb_const(g, 0), 1, one);
    x = tw_gb_where(g, here, first, x);
    return tw_gb_slice_axis(g, x, 1, one, 1, tw_expr_addc(g->ctx, size, -1));
}

/* Eliminates the first column of x, [batch, m, m]; multiplies *det, [batch, 1], by the pivot, the
 * largest number of the column. The rest is [batch, m - 1, m - 1]. */
static tw_value *eliminate(tw_gb *g, tw_value *x, tw_value **det)
{
    tw_expr zero = tw_gb_const(g, 0), one = tw_gb_const(g, 1), size = x->type->dims[1];
    tw_expr dims[2] = {x->type->dims[0], one}, rest = tw_expr_addc(g->ctx, size, -1);
    tw_value *column = tw_gb_squeeze(g, tw_gb_slice_axis(g, x, 2, zero, 1, one), 4);
    column = tw_gb_unary(g, TW_GRAPH_ABS, column);
    if (!column)
        return NULL;
    tw_value *pivot =
        TW_GB_EMIT(g, ARG_MAX, &column, 1, tw_type_tensor(g->ctx, TW_I64, 2, dims, NULL),
                   {"axis", tw_attr_int(g->ctx, 1)}, {"keepdims", tw_attr_bool(g->ctx, true)});
    if (!pivot)
        return NULL;
    tw_expr row_dims[3] = {dims[0], one, size};
    tw_value *operands[2] = {x, tw_gb_unsqueeze(g, pivot, 4)};
    tw_value *row = TW_GB_EMIT(g, GATHER_ND, operands, 2,
                               tw_type_tensor(g->ctx, x->type->elem, 3, row_dims, NULL),
                               {"batch_dims", tw_attr_int(g->ctx, 1)});
    tw_value *value = tw_gb_slice_axis(g, row, 2, zero, 1, one); /* [batch, 1, 1] */
    tw_value *swapped = tw_gb_binary_scalar(g, TW_GRAPH_GREATER, pivot, 0);
    tw_value *signed_value = tw_gb_squeeze(g, value, 4);
    signed_value =
        tw_gb_where(g, swapped, tw_gb_unary(g, TW_GRAPH_NEG, signed_value), signed_value);
    *det = *det ? tw_gb_binary(g, TW_GRAPH_MUL, *det, signed_value) : signed_value;
    if (tw_expr_is_const(rest) && rest->value == 0)
        return x;
    tw_value *below = rows_below(g, x, pivot);
    tw_value *divisor = tw_gb_where(g, tw_gb_binary_scalar(g, TW_GRAPH_EQUAL, value, 0),
                                    tw_gb_scalar(g, x->type->elem, 1), value);
    tw_value *factor =
        tw_gb_binary(g, TW_GRAPH_DIV, tw_gb_slice_axis(g, below, 2, zero, 1, one), divisor);
    tw_value *right = tw_gb_slice_axis(g, row, 2, one, 1, rest);
    return tw_gb_binary(g, TW_GRAPH_SUB, tw_gb_slice_axis(g, below, 2, one, 1, rest),
                        tw_gb_binary(g, TW_GRAPH_MUL, factor, right));
}

bool tw_onnx_op_det(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_type type = n->in[0]->type;
    int64_t size = 0;
    tw_value *det = NULL;
    if (!tw_onnx_check_elem(n, 0, TW_ONNX_FLOATS))
        return false;
    unsigned batch = type->rank < 2 ? 0 : type->rank - 2;
    if (type->rank < 2 || !tw_expr_as_const(type->dims[batch], &size) || size <= 0 ||
        size > MAX_ELIMINATION || tw_gb_differ(g, type->dims[batch], type->dims[batch + 1]))
        return tw_onnx_error(n, "input %s; square matrices of at most %d rows are needed",
                             tw_gb_type_text(g, type), MAX_ELIMINATION);
    tw_expr m = tw_gb_const(g, size);
    tw_value *x =
        tw_gb_reshape(g, n->in[0], 3, (tw_expr[]){tw_gb_product(g, type->dims, batch), m, m});
    for (int64_t k = 0; k < size && x; k++)
        x = eliminate(g, x, &det);
    return x && tw_onnx_set(n, 0, tw_gb_reshape(g, det, batch, type->dims));
}
