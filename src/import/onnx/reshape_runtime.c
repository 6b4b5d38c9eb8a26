/* reshape_runtime.c: operators that change the shape, by shapes or axes that are known only when
 * the model runs: the sizes of the result are computed and bound. */
#include "import/onnx/import.h"

#include <math.h>

static bool check_rank(tw_onnx_node *n, size_t rank)
{
    return rank <= TW_MAX_RANK ||
           tw_onnx_error(n, "a shape of %zu dimensions; at most %d are supported", rank,
                         TW_MAX_RANK);
}

/* The first `n` sizes of x; behind its own 1. */
static tw_value *sizes_to(tw_gb *g, tw_value *x, size_t n)
{
    tw_value *items[TW_MAX_RANK];
    for (size_t i = 0; i < n; i++)
        items[i] = i < x->type->rank ? tw_onnx_size_of(g, x, (unsigned)i) : tw_onnx_number(g, 1);
    return tw_onnx_join(g, items, n);
}

/* The sizes, and behind them how many elements these make: as many as x has. */
static const tw_expr *bind_shape(tw_onnx_node *n, tw_value *dims, size_t rank)
{
    tw_gb *g = n->g;
    tw_type x = n->in[0]->type;
    tw_expr hints[TW_MAX_RANK + 1];
    tw_value *total = tw_gb_reduce(g, TW_GRAPH_REDUCE_PROD, dims, 1, true);
    tw_onnx_declared_dims(n, 0, (unsigned)rank, hints);
    hints[rank] = tw_gb_product(g, x->dims, x->rank);
    return tw_onnx_bind_sizes(n, tw_gb_concat(g, (tw_value *[]){dims, total}, 2, 0), hints,
                              "shape, and number of elements");
}

bool tw_onnx_reshape_runtime(tw_onnx_node *n, bool allowzero)
{
    tw_gb *g = n->g;
    tw_value *x = n->in[0];
    size_t rank;
    tw_value *shape = tw_onnx_index_vector(n, 1, &rank);
    if (!shape || !check_rank(n, rank))
        return false;
    if (rank == 0)
        return tw_onnx_set(n, 0, tw_gb_reshape(g, x, 0, NULL));
    if (!allowzero)
        shape = tw_gb_where(g, tw_gb_binary_scalar(g, TW_GRAPH_EQUAL, shape, 0),
                            sizes_to(g, x, rank), shape);
    tw_value *open = tw_gb_binary_scalar(g, TW_GRAPH_EQUAL, shape, -1);
    tw_value *given = tw_gb_where(g, open, tw_onnx_number(g, 1), shape);
    tw_value *part = tw_gb_reduce(g, TW_GRAPH_REDUCE_PROD, given, 1, false);
    tw_value *all = tw_gb_reduce(g, TW_GRAPH_REDUCE_PROD, tw_onnx_sizes_of(g, x), 1, false);
    if (x->type->rank == 0)
        all = tw_onnx_number(g, 1);
    shape = tw_gb_where(g, open, tw_gb_binary(g, TW_GRAPH_DIV, all, part), shape);
    const tw_expr *dims = bind_shape(n, shape, rank);
    return dims && tw_onnx_set(n, 0, tw_gb_reshape(g, x, (unsigned)rank, dims));
}

/* Both shapes are broadcast to each other. */
bool tw_onnx_expand_runtime(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_value *x = n->in[0], *wanted[TW_MAX_RANK];
    size_t count;
    tw_expr hints[TW_MAX_RANK], one = tw_gb_const(g, 1);
    tw_value *shape = tw_onnx_index_vector(n, 1, &count);
    if (!shape || !check_rank(n, count))
        return false;
    unsigned rank = count > x->type->rank ? (unsigned)count : x->type->rank;
    unsigned own = rank - x->type->rank, given = rank - (unsigned)count;
    tw_onnx_declared_dims(n, 0, rank, hints);
    for (unsigned i = 0; i < rank; i++) {
        tw_value *has = i < own ? tw_onnx_number(g, 1) : tw_onnx_size_of(g, x, i - own);
        tw_value *to = i < given ? tw_onnx_number(g, 1) : tw_onnx_item(g, shape, i - given);
        wanted[i] = tw_gb_where(g, tw_gb_binary_scalar(g, TW_GRAPH_EQUAL, to, 1), has, to);
        if (i >= own && tw_expr_is_const(x->type->dims[i - own]) && x->type->dims[i - own] != one)
            hints[i] = x->type->dims[i - own];
    }
    const tw_expr *dims =
        tw_onnx_bind_sizes(n, tw_onnx_join(g, wanted, rank), hints, "broadcast shape");
    if (!dims)
        return false;
    if (own)
        x = tw_gb_unsqueeze(g, x, (1u << own) - 1);
    return tw_onnx_set(n, 0, tw_gb_expand(g, x, rank, dims));
}

/* Of the axes that stay the sizes, in order. */
bool tw_onnx_squeeze_runtime(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_value *x = n->in[0];
    size_t count;
    unsigned rank = x->type->rank;
    tw_value *axes = tw_onnx_index_vector(n, 1, &count);
    if (!axes || count > rank)
        return axes && tw_onnx_error(n, "%zu axes of a tensor of rank %u", count, rank);
    tw_expr all = tw_gb_const(g, (int64_t)count);
    tw_value *gone =
        tw_onnx_spread(g, axes, tw_gb_expand(g, tw_onnx_number(g, 1), 1, &all), rank, 0);
    tw_value *keep = tw_gb_binary_scalar(g, TW_GRAPH_EQUAL, gone, 0);
    rank -= (unsigned)count;
    const tw_expr *dims =
        bind_shape(n, tw_onnx_gather_kept(g, keep, tw_onnx_sizes_of(g, x), rank), rank);
    return dims && tw_onnx_set(n, 0, tw_gb_reshape(g, x, rank, dims));
}

/* Position i of the result is new, or takes the next size of x. */
bool tw_onnx_unsqueeze_runtime(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_value *x = n->in[0];
    size_t count;
    tw_value *axes = tw_onnx_index_vector(n, 1, &count);
    if (!axes || !check_rank(n, count + x->type->rank))
        return false;
    unsigned rank = x->type->rank + (unsigned)count;
    tw_expr all = tw_gb_const(g, (int64_t)count);
    tw_value *made =
        tw_onnx_spread(g, axes, tw_gb_expand(g, tw_onnx_number(g, 1), 1, &all), rank, 0);
    tw_value *old = tw_gb_binary_scalar(g, TW_GRAPH_EQUAL, made, 0);
    tw_value *ones = tw_gb_cast(g, old, TW_I64);
    tw_value *from = TW_GB_EMIT(g, CUMSUM, &ones, 1, ones->type, {"axis", tw_attr_int(n->ctx, 0)},
                                {"exclusive", tw_attr_bool(n->ctx, true)});
    tw_value *own = tw_gb_concat(
        g, (tw_value *[]){tw_onnx_sizes_of(g, x), tw_gb_ints(g, (int64_t[]){1}, 1)}, 2, 0);
    tw_value *dims = tw_gb_where(g, old, tw_gb_gather(g, own, from, 0), tw_onnx_number(g, 1));
    const tw_expr *bound = bind_shape(n, dims, rank);
    return bound && tw_onnx_set(n, 0, tw_gb_reshape(g, x, rank, bound));
}

/* max(0, ceil((limit - start) / delta)) */
tw_expr tw_onnx_range_size(tw_onnx_node *n, tw_value *const *scalars)
{
    tw_gb *g = n->g;
    tw_expr hint;
    tw_elem elem = scalars[0]->type->elem;
    tw_value *size;
    tw_elem wide = tw_elem_is_float(elem) ? TW_F64 : TW_I64;
    tw_value *length = tw_gb_binary(g, TW_GRAPH_SUB, tw_gb_cast(g, scalars[1], wide),
                                    tw_gb_cast(g, scalars[0], wide));
    tw_value *delta = tw_gb_cast(g, scalars[2], wide);
    tw_onnx_declared_dims(n, 0, 1, &hint);
    if (tw_elem_is_float(elem)) {
        tw_value *steps = tw_gb_binary(g, TW_GRAPH_DIV, length, delta);
        size = tw_gb_cast(g, tw_gb_unary(g, TW_GRAPH_CEIL, steps), TW_I64);
    } else {
        tw_value *whole = tw_gb_binary(g, TW_GRAPH_DIV, length, delta);
        tw_value *rest =
            tw_gb_binary(g, TW_GRAPH_SUB, length, tw_gb_binary(g, TW_GRAPH_MUL, whole, delta));
        /* A rest of the sign of delta is part of one more. */
        tw_value *more =
            tw_gb_binary_scalar(g, TW_GRAPH_GREATER,
                                tw_gb_binary(g, TW_GRAPH_MUL, tw_gb_unary(g, TW_GRAPH_SIGN, rest),
                                             tw_gb_unary(g, TW_GRAPH_SIGN, delta)),
                                0);
        size = tw_gb_binary(g, TW_GRAPH_ADD, whole, tw_gb_cast(g, more, TW_I64));
    }
    return tw_onnx_bind_size(n, tw_gb_binary(g, TW_GRAPH_MAX, size, tw_onnx_number(g, 0)), hint,
                             "length of the range");
}
