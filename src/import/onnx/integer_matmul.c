/* integer_matmul.c: matrix products of integers, exact or (g->saturate_products) as processors
 * without VNNI make them.
 *
 * Without VNNI, AVX2 and AVX-512 multiply unsigned by signed bytes by vpmaddubsw, which adds the
 * products of neighbours 2 i and 2 i + 1 along the reduction with saturation to 16 bits; engines
 * that do so are off where a pair does not fit. Such a product is the exact one, of the integers
 * less their zero points, and what saturation changes, of the bytes as they are:
 *
 *     excess = sum over i of clamp(p) - p,    p = a[2 i] * b[2 i] + a[2 i + 1] * b[2 i + 1] */
#include "import/onnx/arith.h"
#include "import/onnx/import.h"

/* The axis as pairs, of which one of each is taken; K is their number. */
static tw_value *half(tw_gb *g, tw_value *x, unsigned axis, int64_t first, int64_t n_pairs)
{
    return tw_gb_slice_axis(g, x, axis, tw_gb_const(g, first), 2, tw_gb_const(g, n_pairs));
}

/* With a zero behind the axis if its size is odd. */
static tw_value *even(tw_gb *g, tw_value *x, unsigned axis, int64_t size)
{
    tw_expr begin[TW_MAX_RANK], end[TW_MAX_RANK];
    if (!x || size % 2 == 0)
        return x;
    for (unsigned i = 0; i < x->type->rank; i++) {
        begin[i] = tw_gb_const(g, 0);
        end[i] = tw_gb_const(g, i == axis);
    }
    return tw_gb_pad(g, x, begin, end, "constant", NULL);
}

/* a: [..., rows, k], b: [..., k, columns], both i32. */
static tw_value *excess_of_matrices(tw_gb *g, tw_value *a, tw_value *b)
{
    unsigned ra = a->type->rank, rb = b->type->rank;
    int64_t k;
    if (ra < 2 || rb < 2 || ra == TW_MAX_RANK || rb == TW_MAX_RANK)
        return tw_gb_error(g, "a product that saturates of %s and %s", tw_gb_type_text(g, a->type),
                           tw_gb_type_text(g, b->type));
    if (!tw_expr_as_const(b->type->dims[rb - 2], &k))
        return tw_gb_error(g,
                           "products that saturate need sizes that are known when the model is "
                           "compiled; the sum is over %s",
                           tw_gb_type_text(g, b->type));
    a = even(g, a, ra - 1, k);
    b = even(g, b, rb - 2, k);
    tw_value *sum = NULL;
    for (int64_t i = 0; i < 2; i++) {
        tw_value *x = tw_gb_unsqueeze(g, half(g, a, ra - 1, i, (k + 1) / 2), 1u << ra);
        tw_value *w = tw_gb_unsqueeze(g, half(g, b, rb - 2, i, (k + 1) / 2), 1u << (rb - 2));
        tw_value *product = MUL(x, w); /* [..., rows, k / 2, columns] */
        sum = sum ? ADD(sum, product) : product;
    }
    tw_value *fits = tw_gb_binary_scalar(g, TW_GRAPH_MAX, sum, INT16_MIN);
    fits = tw_gb_binary_scalar(g, TW_GRAPH_MIN, fits, INT16_MAX);
    tw_value *off = SUB(fits, sum);
    return off ? tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, off, 1u << (off->type->rank - 2), false)
               : NULL;
}

/* Vectors become matrices and lose the axis again, as in tw_onnx_matmul. */
static tw_value *excess(tw_gb *g, tw_value *a, tw_value *b)
{
    bool row = a->type->rank == 1, column = b->type->rank == 1;
    a = tw_gb_cast(g, row ? tw_gb_unsqueeze(g, a, 1) : a, TW_I32);
    b = tw_gb_cast(g, column ? tw_gb_unsqueeze(g, b, 2) : b, TW_I32);
    tw_value *y = a && b ? excess_of_matrices(g, a, b) : NULL;
    uint32_t gone =
        y ? (uint32_t)column << (y->type->rank - 1) | (uint32_t)row << (y->type->rank - 2) : 0;
    return gone ? tw_gb_squeeze(g, y, gone) : y;
}

tw_value *tw_onnx_integer_matmul(tw_gb *g, tw_value *a, tw_value *a_bytes, tw_value *b,
                                 tw_value *b_bytes)
{
    tw_value *y = tw_onnx_matmul(g, a, b);
    if (!y || !g->saturate_products || !a_bytes->type->rank || !b_bytes->type->rank ||
        a_bytes->type->elem != TW_U8 || b_bytes->type->elem != TW_I8)
        return y;
    return ADD(y, excess(g, a_bytes, b_bytes));
}
