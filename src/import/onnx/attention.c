/* attention.c: the pieces that all operators of attention are made of. */
#include "import/onnx/attention.h"

#include <math.h>
#include <string.h>

static const int64_t swap_heads[4] = {0, 2, 1, 3};

/* ---- Heads ---- */

tw_value *tw_onnx_split_heads(tw_gb *g, tw_value *x, int64_t heads)
{
    if (!x)
        return NULL;
    bool fits = x->type->rank == 3 && heads > 0 && heads <= INT32_MAX;
    tw_expr count = tw_gb_const(g, heads);
    tw_expr size = fits ? tw_gb_quotient(g, &x->type->dims[2], 1, &count, 1) : NULL;
    if (!size)
        return tw_gb_error(g, "%s has no %lld heads", tw_gb_type_text(g, x->type),
                           (long long)heads);
    tw_expr dims[4] = {x->type->dims[0], x->type->dims[1], count, size};
    return tw_gb_transpose(g, tw_gb_reshape(g, x, 4, dims), swap_heads);
}

tw_value *tw_onnx_join_heads(tw_gb *g, tw_value *x)
{
    if (!x)
        return NULL;
    const tw_expr *d = x->type->dims;
    tw_expr dims[3] = {d[0], d[2], tw_expr_mul(g->ctx, d[1], d[3])};
    return tw_gb_reshape(g, tw_gb_transpose(g, x, swap_heads), 3, dims);
}

tw_value *tw_onnx_with_past(tw_gb *g, tw_value *past, tw_value *x)
{
    if (!past || !x)
        return x;
    if (past->type->rank != 4)
        return tw_gb_error(g, "the earlier state is %s; rank 4 is needed",
                           tw_gb_type_text(g, past->type));
    return tw_gb_concat(g, (tw_value *[]){past, x}, 2, 2);
}

tw_value *tw_onnx_repeat_heads(tw_gb *g, tw_value *x, tw_expr heads)
{
    if (!x || x->type->dims[1] == heads)
        return x;
    tw_expr times = tw_gb_quotient(g, &heads, 1, &x->type->dims[1], 1);
    if (!times)
        return tw_gb_error(g, "%s has no whole part of the %s heads of the queries",
                           tw_gb_type_text(g, x->type), tw_print_expr(g->ctx, heads, NULL));
    const tw_expr *d = x->type->dims;
    tw_expr wide[5] = {d[0], d[1], times, d[2], d[3]};
    tw_expr dims[4] = {d[0], heads, d[2], d[3]};
    return tw_gb_reshape(g, tw_gb_expand(g, tw_gb_unsqueeze(g, x, 4), 5, wide), 4, dims);
}

/* ---- Scores and weights ---- */

tw_value *tw_onnx_scale(tw_gb *g, tw_value *q, double scale)
{
    int64_t size;
    if (scale != 0)
        return tw_gb_scalar(g, q->type->elem, scale);
    if (tw_expr_as_const(q->type->dims[3], &size))
        return size > 0 ? tw_gb_scalar(g, q->type->elem, 1 / sqrt((double)size))
                        : tw_gb_error(g, "heads of size 0");
    tw_value *root = tw_gb_unary(g, TW_GRAPH_SQRT, tw_gb_cast(g, tw_onnx_size(g, q, 3), TW_F32));
    return tw_gb_cast(g, tw_gb_unary(g, TW_GRAPH_RECIPROCAL, root), q->type->elem);
}

tw_value *tw_onnx_scores(tw_gb *g, tw_value *q, tw_value *k, double scale)
{
    if (!q || !k)
        return NULL;
    k = tw_onnx_repeat_heads(g, k, q->type->dims[1]);
    return tw_gb_binary(g, TW_GRAPH_MUL, tw_gb_matmul(g, q, k, false, true),
                        tw_onnx_scale(g, q, scale));
}

tw_value *tw_onnx_softcap(tw_gb *g, tw_value *scores, double cap)
{
    if (cap <= 0)
        return scores;
    scores = tw_gb_unary(g, TW_GRAPH_TANH, tw_gb_binary_scalar(g, TW_GRAPH_DIV, scores, cap));
    return tw_gb_binary_scalar(g, TW_GRAPH_MUL, scores, cap);
}

tw_value *tw_onnx_weigh(tw_gb *g, tw_value *weights, tw_value *v)
{
    return weights ? tw_gb_matmul(g, weights, tw_onnx_repeat_heads(g, v, weights->type->dims[1]),
                                  false, false)
                   : NULL;
}

/* ---- Masks ---- */

tw_value *tw_onnx_positions(tw_gb *g, tw_expr count, unsigned axis)
{
    tw_expr dims[4];
    for (unsigned i = 0; i < 4; i++)
        dims[i] = i == axis ? count : tw_gb_const(g, 1);
    return tw_gb_iota(g, TW_I64, 4, dims, axis);
}

tw_value *tw_onnx_size(tw_gb *g, tw_value *x, unsigned axis)
{
    tw_type type = tw_type_tensor_static(g->ctx, TW_I64, 1, (int64_t[]){1});
    tw_value *size = TW_GB_EMIT(g, SHAPE, &x, 1, type, {"start", tw_attr_int(g->ctx, axis)},
                                {"end", tw_attr_int(g->ctx, axis + 1)});
    return tw_gb_reshape(g, size, 0, NULL);
}

tw_value *tw_onnx_keep_where(tw_gb *g, tw_value *condition, tw_value *scores, double otherwise)
{
    return scores
               ? tw_gb_where(g, condition, scores, tw_gb_scalar(g, scores->type->elem, otherwise))
               : NULL;
}

/* ---- Rotation ---- */

/* `count` elements of the last axis. */
static tw_value *part(tw_gb *g, tw_value *x, tw_expr start, int64_t step, tw_expr count)
{
    return tw_gb_slice_axis(g, x, x->type->rank - 1, start, step, count);
}

/* Pairs from two lists of their first and second elements: neighbours. */
static tw_value *interleave(tw_gb *g, tw_value *first, tw_value *second, tw_expr half)
{
    tw_expr dims[TW_MAX_RANK];
    if (!first || !second)
        return NULL;
    unsigned rank = first->type->rank;
    memcpy(dims, first->type->dims, rank * sizeof *dims);
    dims[rank - 1] = tw_expr_mulc(g->ctx, half, 2);
    tw_value *pairs[2] = {tw_gb_unsqueeze(g, first, 1u << rank),
                          tw_gb_unsqueeze(g, second, 1u << rank)};
    return tw_gb_reshape(g, tw_gb_concat(g, pairs, 2, rank), rank, dims);
}

tw_value *tw_onnx_rotate(tw_gb *g, tw_value *x, tw_value *cosine, tw_value *sine, tw_expr half,
                         bool interleaved)
{
    if (!x || !cosine || !sine)
        return NULL;
    tw_expr both = tw_expr_mulc(g->ctx, half, 2), size = x->type->dims[x->type->rank - 1];
    int64_t step = interleaved ? 2 : 1;
    tw_value *a = part(g, x, tw_gb_const(g, 0), step, half);
    tw_value *b = part(g, x, interleaved ? tw_gb_const(g, 1) : half, step, half);
    tw_value *real = tw_gb_binary(g, TW_GRAPH_SUB, tw_gb_binary(g, TW_GRAPH_MUL, cosine, a),
                                  tw_gb_binary(g, TW_GRAPH_MUL, sine, b));
    tw_value *imaginary = tw_gb_binary(g, TW_GRAPH_ADD, tw_gb_binary(g, TW_GRAPH_MUL, sine, a),
                                       tw_gb_binary(g, TW_GRAPH_MUL, cosine, b));
    unsigned last = x->type->rank - 1;
    tw_value *y = interleaved ? interleave(g, real, imaginary, half)
                              : tw_gb_concat(g, (tw_value *[]){real, imaginary}, 2, last);
    if (size == both)
        return y;
    tw_value *rest = part(g, x, both, 1, tw_expr_sub(g->ctx, size, both));
    return tw_gb_concat(g, (tw_value *[]){y, rest}, 2, last);
}
