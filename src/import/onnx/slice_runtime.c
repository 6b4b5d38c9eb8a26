/* slice_runtime.c: Slice and Pad whose positions are known only when the model runs: a gather along
 * each axis, from indices that are computed.
 *
 *     start, end, step -> in range        n = max(0, ceil((end - start) / step))
 *     y = gather(x, start + step * iota(n)) */
#include "import/onnx/arith.h"
#include "import/onnx/import.h"

#include <string.h>

/* ---- Slice ---- */

/* The vectors of the slice, one entry an axis of x. */
typedef struct spans {
    tw_value *start, *step, *count;
} spans;

/* Negative positions count from the end; then low..high. */
static tw_value *clamp(tw_gb *g, tw_value *at, tw_value *sizes, tw_value *low, tw_value *high)
{
    at = tw_gb_where(g, tw_gb_binary_scalar(g, TW_GRAPH_LESS, at, 0), ADD(at, sizes), at);
    return MAX(MIN(at, high), low);
}

/* max(0, ceil(length / step)) for step > 0, without overflow; at most `most`. */
static tw_value *count_steps(tw_gb *g, tw_value *length, tw_value *step, tw_value *most)
{
    tw_value *whole = DIV(tw_gb_binary_scalar(g, TW_GRAPH_SUB, length, 1), step);
    tw_value *n = tw_gb_binary_scalar(g, TW_GRAPH_ADD, whole, 1);
    n = tw_gb_where(g, tw_gb_binary_scalar(g, TW_GRAPH_LESS_EQUAL, length, 0), tw_onnx_number(g, 0),
                    n);
    return MIN(n, most);
}

static spans make_spans(tw_gb *g, tw_value *start, tw_value *end, tw_value *step, tw_value *sizes)
{
    tw_value *zero = tw_onnx_number(g, 0), *minus = tw_onnx_number(g, -1);
    tw_value *back = tw_gb_binary_scalar(g, TW_GRAPH_LESS, step, 0);
    tw_value *last = tw_gb_binary_scalar(g, TW_GRAPH_SUB, sizes, 1);
    tw_value *top = tw_gb_where(g, back, last, sizes);
    spans s = {.step = step};
    s.start = clamp(g, start, sizes, zero, top);
    end = clamp(g, end, sizes, tw_gb_where(g, back, minus, zero), top);
    tw_value *length = tw_gb_where(g, back, SUB(s.start, end), SUB(end, s.start));
    tw_value *stride = tw_gb_where(g, back, tw_gb_unary(g, TW_GRAPH_NEG, step), step);
    s.count = count_steps(g, length, stride, sizes);
    return s;
}

/* How many axes the lists of the node speak of: what one of them says, if any does. */
static tw_expr common_length(tw_onnx_node *n)
{
    tw_expr length = NULL;
    for (unsigned i = 1; i <= 4; i++) {
        tw_value *v = tw_onnx_in(n, i) ? tw_onnx_index_list(n, i) : NULL;
        if (tw_onnx_in(n, i) && !v)
            return NULL;
        if (v && (!length || !tw_expr_is_const(length)))
            length = v->type->dims[0];
    }
    return length ? length : tw_gb_error(n->g, "input 1 is missing");
}

/* The lists of the node, for all axes. */
static bool read_spans(tw_onnx_node *n, spans *out)
{
    tw_gb *g = n->g;
    tw_value *x = n->in[0], *axes, *step;
    unsigned rank = x->type->rank;
    tw_expr all = common_length(n);
    if (!all ||
        !tw_gb_check(g, tw_expr_sub(n->ctx, tw_gb_const(g, rank), all),
                     "%s slices of a tensor of rank %u", tw_print_expr(n->ctx, all, NULL), rank))
        return false;
    tw_value *start = tw_onnx_index_exactly(n, 1, all), *end = tw_onnx_index_exactly(n, 2, all);
    axes = tw_onnx_in(n, 3) ? tw_onnx_index_exactly(n, 3, all) : tw_gb_iota(g, TW_I64, 1, &all, 0);
    step = tw_onnx_in(n, 4) ? tw_onnx_index_exactly(n, 4, all)
                            : tw_gb_expand(g, tw_onnx_number(g, 1), 1, &all);
    if (!start || !end || !axes || !step)
        return false;
    *out = make_spans(g, tw_onnx_spread(g, axes, start, rank, 0),
                      tw_onnx_spread(g, axes, end, rank, INT64_MAX),
                      tw_onnx_spread(g, axes, step, rank, 1), tw_onnx_sizes_of(g, x));
    return out->count != NULL;
}

/* Whether axis i is among axes that are known, or may be. */
static bool may_touch(tw_onnx_node *n, unsigned axis, size_t count)
{
    size_t n_axes = count;
    const int64_t *axes = tw_onnx_in(n, 3) ? tw_known_ints(n->g, n->in[3], &n_axes) : NULL;
    if (tw_onnx_in(n, 3) && !axes)
        return true;
    int64_t rank = n->in[0]->type->rank;
    for (size_t i = 0; i < n_axes; i++)
        if ((axes ? axes[i] < 0 ? axes[i] + rank : axes[i] : (int64_t)i) == (int64_t)axis)
            return true;
    return false;
}

bool tw_onnx_slice_runtime(tw_onnx_node *n)
{
    spans s;
    tw_gb *g = n->g;
    tw_value *x = n->in[0];
    unsigned rank = x->type->rank;
    tw_expr hints[TW_MAX_RANK];
    int64_t count = rank;
    if (!read_spans(n, &s))
        return false;
    tw_expr_as_const(common_length(n), &count);
    tw_onnx_declared_dims(n, 0, rank, hints);
    for (unsigned i = 0; i < rank; i++)
        if (!may_touch(n, i, (size_t)count))
            hints[i] = x->type->dims[i];
    const tw_expr *sizes = tw_onnx_bind_sizes(n, s.count, hints, "sizes of the slice");
    for (unsigned i = 0; sizes && i < rank; i++) {
        if (!may_touch(n, i, (size_t)count))
            continue;
        tw_value *at = MUL(tw_gb_iota(g, TW_I64, 1, &sizes[i], 0), tw_onnx_item(g, s.step, i));
        x = tw_gb_gather(g, x, ADD(at, tw_onnx_item(g, s.start, i)), i);
    }
    return sizes && tw_onnx_set(n, 0, x);
}

/* ---- Pad ---- */

/* Where index `at`, which may lie outside, is read from. */
static tw_value *source(tw_gb *g, tw_value *at, tw_value *size, const char *mode)
{
    tw_value *zero = tw_onnx_number(g, 0), *one = tw_onnx_number(g, 1);
    tw_value *last = MAX(SUB(size, one), zero);
    if (strcmp(mode, "reflect"))
        return MAX(MIN(at, last), zero);
    tw_value *period = MAX(ADD(last, last), one);
    tw_value *m = tw_gb_binary(g, TW_GRAPH_MOD, at, period);
    return MIN(m, SUB(ADD(last, last), m));
}

/* Likewise where what the pads leave repeats: the positions from 0 or, where the beginning is
 * cropped, -begin, to `size`, or `end` where that is less. */
static tw_value *wrapped(tw_gb *g, tw_value *at, tw_value *size, tw_value *begin, tw_value *end)
{
    tw_value *low = MAX(tw_gb_unary(g, TW_GRAPH_NEG, begin), tw_onnx_number(g, 0));
    tw_value *period = MAX(SUB(MIN(size, end), low), tw_onnx_number(g, 1));
    return ADD(low, tw_gb_binary(g, TW_GRAPH_MOD, SUB(at, low), period));
}

tw_value *tw_onnx_pad_axis(tw_gb *g, tw_value *x, unsigned axis, tw_value *begin, tw_expr size,
                           const char *mode, tw_value *value)
{
    tw_expr dims[TW_MAX_RANK];
    if (!x)
        return NULL;
    unsigned rank = x->type->rank;
    tw_value *at = SUB(tw_gb_iota(g, TW_I64, 1, &size, 0), begin);
    tw_value *has = tw_onnx_size_of(g, x, axis);
    bool constant = !strcmp(mode, "constant");
    tw_expr old = x->type->dims[axis];
    for (unsigned i = 0; i < rank; i++)
        dims[i] = i == axis ? size : x->type->dims[i];
    if (constant && tw_expr_is_const(old) && old->value == 0)
        return tw_gb_expand(g, value, rank, dims);
    tw_value *from = strcmp(mode, "wrap")
                         ? source(g, at, has, mode)
                         : wrapped(g, at, has, begin, SUB(tw_onnx_size_value(g, size), begin));
    tw_value *y = tw_gb_gather(g, x, from, axis);
    if (!constant || !y)
        return y;
    tw_value *inside = tw_gb_binary(
        g, TW_GRAPH_AND, tw_gb_binary_scalar(g, TW_GRAPH_GREATER_EQUAL, at, 0), LESS(at, has));
    for (unsigned i = 0; i < rank; i++)
        dims[i] = i == axis ? size : tw_gb_const(g, 1);
    return tw_gb_where(g, tw_gb_reshape(g, inside, rank, dims), y, value);
}

bool tw_onnx_pad_runtime(tw_onnx_node *n, const char *mode, tw_value *value)
{
    tw_gb *g = n->g;
    tw_value *x = n->in[0], *axes;
    unsigned rank = x->type->rank;
    tw_expr hints[TW_MAX_RANK], all = tw_gb_const(g, rank);
    axes = tw_onnx_in(n, 3) ? tw_onnx_index_list(n, 3) : tw_gb_iota(g, TW_I64, 1, &all, 0);
    if (!axes)
        return false;
    tw_expr half = axes->type->dims[0];
    tw_value *pads = tw_onnx_index_exactly(n, 1, tw_expr_mulc(n->ctx, half, 2));
    if (!pads)
        return false;
    tw_value *begin = tw_gb_slice_axis(g, pads, 0, tw_gb_const(g, 0), 1, half);
    tw_value *end = tw_gb_slice_axis(g, pads, 0, half, 1, half);
    begin = tw_onnx_spread(g, axes, begin, rank, 0);
    end = tw_onnx_spread(g, axes, end, rank, 0);
    tw_onnx_declared_dims(n, 0, rank, hints);
    const tw_expr *sizes =
        tw_onnx_bind_sizes(n, ADD(ADD(tw_onnx_sizes_of(g, x), begin), end), hints, "padded sizes");
    for (unsigned i = 0; sizes && i < rank; i++)
        x = tw_onnx_pad_axis(g, x, i, tw_onnx_item(g, begin, i), sizes[i], mode, value);
    return sizes && tw_onnx_set(n, 0, x);
}
