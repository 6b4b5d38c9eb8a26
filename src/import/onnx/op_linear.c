/* op_linear.c: matrix products. */
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
    tw_type type = y->type;
    y = tw_gb_binary(g, TW_GRAPH_ADD, y, scaled(g, c, beta));
    if (y && (y->type->rank != 2 || tw_gb_differ(g, y->type->dims[0], type->dims[0]) ||
              tw_gb_differ(g, y->type->dims[1], type->dims[1])))
        return tw_onnx_error(n, "input 2, %s, does not broadcast to the product's shape",
                             tw_gb_type_text(g, c->type));
    return tw_onnx_set(n, 0, y);
}
