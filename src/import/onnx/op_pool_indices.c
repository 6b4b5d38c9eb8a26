/* op_pool_indices.c: positions of maxima (second output of MaxPool), and MaxUnpool, which puts
 * elements at such positions.
 *
 * Each place of the window gives one strided slice of the padded input; they are joined along a new
 * last axis, whose arg_max says which place won. A position is that of the window's first place,
 * by iota, plus the offset of the place that won, from a table. */
#include "import/onnx/import.h"

#include <math.h>
#include <string.h>

enum { MAX_PLACES = 256 };

/* Distance in the tensor of neighbours along each spatial axis, as i64 scalars; storage_order 1 is
 * column-major. *space is the number of elements of one channel. */
static bool read_distances(tw_onnx_node *n, tw_value **distances, tw_value **space)
{
    bool ok = true;
    tw_type x = n->in[0]->type;
    unsigned spatial = x->rank - 2;
    int64_t order = tw_onnx_int(n, "storage_order", 0, &ok);
    *space = tw_onnx_number(n->g, 1);
    for (unsigned k = 0; ok && k < spatial; k++) {
        unsigned i = order ? k : spatial - 1 - k;
        distances[i] = *space;
        *space = tw_gb_binary(n->g, TW_GRAPH_MUL, *space, tw_onnx_size_of(n->g, n->in[0], i + 2));
    }
    return ok && *space;
}

/* The input with its padding, which no maximum is in. */
static tw_value *padded(tw_onnx_node *n, const tw_onnx_window *w)
{
    tw_expr begin[TW_MAX_RANK], end[TW_MAX_RANK], zero = tw_gb_const(n->g, 0);
    tw_elem elem = n->in[0]->type->elem;
    begin[0] = begin[1] = end[0] = end[1] = zero;
    memcpy(begin + 2, w->begin, w->n * sizeof *begin);
    memcpy(end + 2, w->end, w->n * sizeof *end);
    double lowest = tw_elem_is_float(elem)    ? -(double)INFINITY
                    : tw_elem_is_signed(elem) ? -(double)(UINT64_C(1) << (tw_elem_bits(elem) - 1))
                                              : 0;
    return tw_gb_pad(n->g, n->in[0], begin, end, "constant", tw_gb_scalar(n->g, elem, lowest));
}

/* Place k of the window, per axis. */
static void place_of(const tw_onnx_window *w, int64_t k, int64_t *at)
{
    for (unsigned i = w->n; i-- > 0; k /= w->kernel[i]->value)
        at[i] = k % w->kernel[i]->value * w->dilations[i];
}

/* What place `at` of all windows reads, with a new last axis of size 1. */
static tw_value *slice_at(tw_onnx_node *n, tw_value *x, const tw_onnx_window *w, const int64_t *at,
                          const tw_expr *dims)
{
    tw_expr starts[TW_MAX_RANK];
    int64_t steps[TW_MAX_RANK];
    starts[0] = starts[1] = tw_gb_const(n->g, 0);
    steps[0] = steps[1] = 1;
    for (unsigned i = 0; i < w->n; i++) {
        starts[i + 2] = tw_gb_const(n->g, at[i]);
        steps[i + 2] = w->strides[i];
    }
    return tw_gb_unsqueeze(n->g, tw_gb_slice(n->g, x, starts, steps, dims), 1u << (w->n + 2));
}

/* factor * (0, 1, 2 … along an axis of dims) */
static tw_value *ramp(tw_onnx_node *n, const tw_expr *dims, unsigned rank, unsigned axis,
                      tw_value *factor)
{
    tw_expr shape[TW_MAX_RANK];
    for (unsigned i = 0; i < rank; i++)
        shape[i] = i == axis ? dims[i] : tw_gb_const(n->g, 1);
    return tw_gb_binary(n->g, TW_GRAPH_MUL, tw_gb_iota(n->g, TW_I64, rank, shape, axis), factor);
}

/* numbers[i] * distances[i], summed. */
static tw_value *dot(tw_gb *g, const int64_t *numbers, tw_value *const *distances, unsigned n)
{
    tw_value *sum = tw_onnx_number(g, 0);
    for (unsigned i = 0; i < n; i++)
        sum = tw_gb_binary(
            g, TW_GRAPH_ADD, sum,
            tw_gb_binary(g, TW_GRAPH_MUL, distances[i], tw_onnx_number(g, numbers[i])));
    return sum;
}

/* The positions of the windows' first places. */
static tw_value *first_positions(tw_onnx_node *n, const tw_onnx_window *w, const tw_expr *dims,
                                 tw_value *const *distances, tw_value *space)
{
    tw_gb *g = n->g;
    unsigned rank = w->n + 2;
    tw_value *entry = tw_gb_binary(g, TW_GRAPH_MUL, tw_onnx_size_of(g, n->in[0], 1), space);
    tw_value *at =
        tw_gb_binary(g, TW_GRAPH_ADD, ramp(n, dims, rank, 0, entry), ramp(n, dims, rank, 1, space));
    for (unsigned i = 0; i < w->n; i++) {
        tw_value *step =
            tw_gb_binary(g, TW_GRAPH_MUL, distances[i], tw_onnx_number(g, w->strides[i]));
        tw_value *start =
            tw_gb_binary(g, TW_GRAPH_MUL, distances[i], tw_onnx_size_value(g, w->begin[i]));
        at = tw_gb_binary(g, TW_GRAPH_ADD, at, ramp(n, dims, rank, i + 2, step));
        at = tw_gb_binary(g, TW_GRAPH_SUB, at, start);
    }
    return at;
}

tw_value *tw_onnx_pool_indices(tw_onnx_node *n, const tw_onnx_window *w, const tw_expr *dims)
{
    tw_gb *g = n->g;
    int64_t count = 1, at[TW_MAX_RANK];
    tw_value *places[MAX_PLACES], *offsets[MAX_PLACES], *distances[TW_MAX_RANK], *space;
    if (w->n + 3 > TW_MAX_RANK || !read_distances(n, distances, &space))
        return NULL;
    for (unsigned i = 0; i < w->n; i++) {
        count *= w->kernel[i]->value;
        if (count > MAX_PLACES)
            return tw_gb_error(g, "indices for windows of more than %d elements", MAX_PLACES);
    }
    tw_value *x = padded(n, w);
    for (int64_t k = 0; k < count; k++) {
        place_of(w, k, at);
        places[k] = slice_at(n, x, w, at, dims);
        offsets[k] = dot(g, at, distances, w->n);
    }
    tw_value *all = tw_gb_concat(g, places, (unsigned)count, w->n + 2);
    if (!all)
        return NULL;
    tw_value *which = TW_GB_EMIT(
        g, ARG_MAX, &all, 1, tw_type_tensor(n->ctx, TW_I64, w->n + 2, dims, NULL),
        {"axis", tw_attr_int(n->ctx, w->n + 2)}, {"keepdims", tw_attr_bool(n->ctx, false)});
    tw_value *offset = tw_gb_gather(g, tw_onnx_join(g, offsets, (size_t)count), which, 0);
    return tw_gb_binary(g, TW_GRAPH_ADD, first_positions(n, w, dims, distances, space), offset);
}

/* ---- MaxUnpool ---- */

/* Zeros of the shape that the pooled tensor had, with the elements at their positions; a given
 * output shape adds zeros at the ends. */
bool tw_onnx_op_max_unpool(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_onnx_window w;
    tw_type x = n->in[0]->type;
    tw_expr dims[TW_MAX_RANK], begin[TW_MAX_RANK], end[TW_MAX_RANK];
    tw_value *indices;
    if (x->rank < 3)
        return tw_onnx_error(n, "input %s", tw_gb_type_text(g, x));
    if (!tw_onnx_check_elem(n, 1, 1 << TW_I64) || !tw_onnx_sized(n, 1, x->rank, x->dims, &indices))
        return false;
    if (!tw_onnx_read_window(n, x->rank - 2, &w) || !tw_onnx_read_kernel(n, &w))
        return false;
    memcpy(dims, x->dims, 2 * sizeof *dims);
    for (unsigned i = 0; i < w.n; i++) {
        tw_expr reach =
            tw_expr_mulc(n->ctx, tw_expr_addc(n->ctx, x->dims[i + 2], -1), w.strides[i]);
        tw_expr cut = tw_expr_add(n->ctx, w.begin[i], w.end[i]);
        dims[i + 2] = tw_expr_sub(n->ctx, tw_expr_add(n->ctx, reach, w.kernel[i]), cut);
    }
    tw_expr all = tw_gb_product(g, dims, x->rank), some = tw_gb_product(g, x->dims, x->rank);
    tw_value *operands[3] = {tw_gb_splat(g, x->elem, 0, 1, &all),
                             tw_gb_reshape(g, indices, 1, &some),
                             tw_gb_reshape(g, n->in[0], 1, &some)};
    tw_value *y =
        TW_GB_EMIT(g, SCATTER_ELEMENTS, operands, 3, tw_type_tensor(n->ctx, x->elem, 1, &all, NULL),
                   {"axis", tw_attr_int(n->ctx, 0)});
    y = tw_gb_reshape(g, y, x->rank, dims);
    if (!tw_onnx_in(n, 2))
        return tw_onnx_set(n, 0, y);
    tw_value *given = tw_onnx_index_exactly(n, 2, tw_gb_const(g, x->rank));
    if (!given)
        return false;
    tw_onnx_declared_dims(n, 0, x->rank, end);
    const tw_expr *shape = tw_onnx_bind_sizes(n, given, end, "output shape");
    if (!shape)
        return false;
    for (unsigned i = 0; i < x->rank; i++) {
        begin[i] = tw_gb_const(g, 0);
        end[i] = tw_expr_sub(n->ctx, shape[i], dims[i]);
    }
    return tw_onnx_set(n, 0, tw_gb_pad(g, y, begin, end, "constant", tw_gb_scalar(g, x->elem, 0)));
}
