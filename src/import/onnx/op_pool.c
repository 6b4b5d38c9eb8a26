/* op_pool.c: pooling over windows and over all of space. */
#include "import/onnx/import.h"

#include <math.h>
#include <string.h>

bool tw_onnx_read_kernel(tw_onnx_node *n, tw_onnx_window *w)
{
    bool ok = true;
    size_t count;
    const int64_t *kernel = tw_onnx_int_list(n, "kernel_shape", &count, &ok);
    if (!ok)
        return false;
    if (!kernel || count != w->n)
        return tw_onnx_error(n, "attribute 'kernel_shape' must have %u entries for input %s", w->n,
                             tw_gb_type_text(n->g, n->in[0]->type));
    for (unsigned i = 0; i < w->n; i++) {
        if (kernel[i] <= 0 || kernel[i] > INT32_MAX)
            return tw_onnx_error(n, "attribute 'kernel_shape' has the entry %lld",
                                 (long long)kernel[i]);
        w->kernel[i] = tw_gb_const(n->g, kernel[i]);
    }
    return true;
}

static bool read_pool(tw_onnx_node *n, tw_onnx_window *w, bool *ceil_mode)
{
    bool ok = true;
    tw_type x = n->in[0]->type;
    *ceil_mode = tw_onnx_int(n, "ceil_mode", 0, &ok);
    if (x->rank < 3)
        return tw_onnx_error(n, "input 0 is %s; batch, channels and space are needed",
                             tw_gb_type_text(n->g, x));
    return ok && tw_onnx_read_window(n, x->rank - 2, w) && tw_onnx_read_kernel(n, w);
}

/* Sizes of the result; enlarges the padding at the end to what ceil_mode needs. */
static bool pool_dims(tw_onnx_node *n, tw_onnx_window *w, bool ceil_mode, tw_expr *dims)
{
    tw_type x = n->in[0]->type;
    dims[0] = x->dims[0];
    dims[1] = x->dims[1];
    return tw_onnx_window_sizes(n, w, x->dims + 2, ceil_mode, dims + 2);
}

static tw_value *pool(tw_onnx_node *n, tw_graph_kind kind, tw_value *x, const tw_onnx_window *w,
                      const tw_expr *dims, bool count_pad)
{
    int64_t kernel[TW_MAX_RANK];
    tw_named_attr attrs[TW_ONNX_WINDOW_ATTRS + 2];
    if (!x)
        return NULL;
    for (unsigned i = 0; i < w->n; i++)
        kernel[i] = w->kernel[i]->value;
    tw_onnx_window_attrs(n, w, attrs);
    attrs[TW_ONNX_WINDOW_ATTRS] = (tw_named_attr){"kernel", tw_attr_ints(n->ctx, kernel, w->n)};
    attrs[TW_ONNX_WINDOW_ATTRS + 1] =
        (tw_named_attr){"count_pad", count_pad ? tw_attr_bool(n->ctx, true) : NULL};
    return tw_gb_emit(n->g, kind, &x, 1,
                      tw_type_tensor(n->ctx, x->type->elem, x->type->rank, dims, NULL), attrs,
                      TW_ONNX_WINDOW_ATTRS + 2);
}

bool tw_onnx_op_max_pool(tw_onnx_node *n)
{
    bool ceil_mode;
    tw_onnx_window w;
    tw_expr dims[TW_MAX_RANK];
    return read_pool(n, &w, &ceil_mode) && pool_dims(n, &w, ceil_mode, dims) &&
           tw_onnx_set(n, 0, pool(n, TW_GRAPH_MAX_POOL, n->in[0], &w, dims, false)) &&
           (!tw_onnx_wants(n, 1) || tw_onnx_set(n, 1, tw_onnx_pool_indices(n, &w, dims)));
}

/* Sum or mean in which the declared padding counts, but not what ceil_mode adds: the former becomes
 * zeros of the data. */
static tw_value *pool_counting(tw_onnx_node *n, tw_value *x, const tw_onnx_window *declared,
                               bool ceil_mode)
{
    tw_expr begin[TW_MAX_RANK], end[TW_MAX_RANK], dims[TW_MAX_RANK], zero = tw_gb_const(n->g, 0);
    tw_onnx_window w = *declared;
    if (!pool_dims(n, &w, ceil_mode, dims))
        return NULL;
    if (!ceil_mode)
        return pool(n, TW_GRAPH_AVG_POOL, x, &w, dims, true);
    begin[0] = begin[1] = end[0] = end[1] = zero;
    for (unsigned i = 0; i < w.n; i++) {
        begin[i + 2] = declared->begin[i];
        end[i + 2] = declared->end[i];
        w.begin[i] = zero;
        w.end[i] = tw_expr_sub(n->ctx, w.end[i], declared->end[i]);
    }
    x = tw_gb_pad(n->g, x, begin, end, "constant", tw_gb_scalar(n->g, x->type->elem, 0));
    return pool(n, TW_GRAPH_AVG_POOL, x, &w, dims, false);
}

bool tw_onnx_op_average_pool(tw_onnx_node *n)
{
    bool ok = true, ceil_mode;
    tw_onnx_window w;
    tw_expr dims[TW_MAX_RANK];
    bool count_pad = tw_onnx_int(n, "count_include_pad", 0, &ok);
    if (!ok || !read_pool(n, &w, &ceil_mode))
        return false;
    if (count_pad)
        return tw_onnx_set(n, 0, pool_counting(n, n->in[0], &w, ceil_mode));
    return pool_dims(n, &w, ceil_mode, dims) &&
           tw_onnx_set(n, 0, pool(n, TW_GRAPH_AVG_POOL, n->in[0], &w, dims, false));
}

/* ---- Power means ---- */

/* p: an integer since version 2, a float before. */
static bool read_p(tw_onnx_node *n, double *p)
{
    bool ok = true;
    *p = n->version < 2 ? tw_onnx_float(n, "p", 2, &ok) : (double)tw_onnx_int(n, "p", 2, &ok);
    return ok && (*p > 0 || tw_onnx_error(n, "attribute 'p' is %g", *p));
}

static tw_value *power(tw_gb *g, tw_value *x, double p)
{
    tw_value *size = tw_gb_unary(g, TW_GRAPH_ABS, x);
    return p == 1   ? size
           : p == 2 ? tw_gb_binary(g, TW_GRAPH_MUL, x, x)
                    : tw_gb_binary_scalar(g, TW_GRAPH_POW, size, p);
}

static tw_value *root(tw_gb *g, tw_value *x, double p)
{
    return p == 1   ? x
           : p == 2 ? tw_gb_unary(g, TW_GRAPH_SQRT, x)
                    : tw_gb_binary_scalar(g, TW_GRAPH_POW, x, 1 / p);
}

/* (sum |x|^p)^(1/p): the mean with padding counted, times the window's size, is the sum. */
bool tw_onnx_op_lp_pool(tw_onnx_node *n)
{
    bool ceil_mode;
    double p, count = 1;
    tw_onnx_window w;
    tw_expr dims[TW_MAX_RANK];
    tw_gb *g = n->g;
    if (!read_p(n, &p) || !read_pool(n, &w, &ceil_mode) || !pool_dims(n, &w, ceil_mode, dims))
        return false;
    for (unsigned i = 0; i < w.n; i++)
        count *= (double)w.kernel[i]->value;
    tw_value *mean = pool(n, TW_GRAPH_AVG_POOL, power(g, n->in[0], p), &w, dims, true);
    tw_value *sum = tw_gb_binary_scalar(g, TW_GRAPH_MUL, mean, count);
    return tw_onnx_set(n, 0, root(g, sum, p));
}

/* ---- All of space ---- */

static bool spatial_axes(tw_onnx_node *n, uint32_t *axes)
{
    unsigned rank = n->in[0]->type->rank;
    *axes = ((1u << rank) - 1) & ~3u;
    return rank >= 2 || tw_onnx_error(n, "input 0 is %s; batch and channels are needed",
                                      tw_gb_type_text(n->g, n->in[0]->type));
}

bool tw_onnx_op_global_pool(tw_onnx_node *n)
{
    uint32_t axes;
    return spatial_axes(n, &axes) &&
           tw_onnx_set(n, 0, tw_gb_reduce(n->g, (tw_graph_kind)n->op->param, n->in[0], axes, true));
}

bool tw_onnx_op_global_lp_pool(tw_onnx_node *n)
{
    uint32_t axes;
    double p;
    tw_gb *g = n->g;
    if (!spatial_axes(n, &axes) || !read_p(n, &p))
        return false;
    tw_value *sum = tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, power(g, n->in[0], p), axes, true);
    return tw_onnx_set(n, 0, root(g, sum, p));
}
