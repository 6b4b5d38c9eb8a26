/* op_conv.c: convolutions. The bias becomes an addition of [1, C, 1, ...]. */
#include "import/onnx/import.h"

#include <string.h>

tw_value *tw_onnx_add_bias(tw_onnx_node *n, tw_value *y, tw_value *bias)
{
    tw_expr dims[TW_MAX_RANK];
    if (!y || !bias)
        return y;
    if (bias->type->rank != 1)
        return tw_gb_error(n->g, "the bias is %s; a vector is needed",
                           tw_gb_type_text(n->g, bias->type));
    if (tw_gb_differ(n->g, bias->type->dims[0], y->type->dims[1]))
        return tw_gb_error(n->g, "the bias is %s for a result of %s",
                           tw_gb_type_text(n->g, bias->type), tw_gb_type_text(n->g, y->type));
    for (unsigned i = 0; i < y->type->rank; i++)
        dims[i] = i == 1 ? y->type->dims[1] : tw_gb_const(n->g, 1);
    return tw_gb_binary(n->g, TW_GRAPH_ADD, y, tw_gb_reshape(n->g, bias, y->type->rank, dims));
}

tw_value *tw_onnx_move_channels(tw_gb *g, tw_value *x, bool inwards)
{
    int64_t perm[TW_MAX_RANK];
    unsigned rank = x ? x->type->rank : 0;
    if (rank < 3)
        return x;
    perm[0] = 0;
    for (unsigned i = 1; i < rank; i++)
        perm[i] = inwards ? (i == 1 ? rank - 1 : i - 1) : (i + 1 == rank ? 1 : i + 1);
    return tw_gb_transpose(g, x, perm);
}

/* Kernel sizes from the weights; the attribute kernel_shape must agree. */
static bool read_kernel(tw_onnx_node *n, tw_type weights, tw_onnx_window *w)
{
    bool ok = true;
    size_t count;
    const int64_t *declared = tw_onnx_int_list(n, "kernel_shape", &count, &ok);
    if (declared && count != w->n)
        return tw_onnx_error(n, "attribute 'kernel_shape' has %zu entries; %u are needed", count,
                             w->n);
    for (unsigned i = 0; i < w->n; i++) {
        w->kernel[i] = weights->dims[i + 2];
        if (declared && tw_gb_differ(n->g, w->kernel[i], tw_gb_const(n->g, declared[i])))
            return tw_onnx_error(n, "attribute 'kernel_shape' contradicts the weights %s",
                                 tw_gb_type_text(n->g, weights));
        if (tw_expr_is_const(w->kernel[i]) && w->kernel[i]->value <= 0)
            return tw_onnx_error(n, "weights %s with an empty window",
                                 tw_gb_type_text(n->g, weights));
    }
    return ok;
}

/* Checks ranks and element types; reads the groups. */
static bool read_groups(tw_onnx_node *n, tw_type x, tw_type w, int64_t *groups)
{
    bool ok = true;
    *groups = tw_onnx_int(n, "group", 1, &ok);
    if (!ok)
        return false;
    if (x->rank < 3 || w->rank != x->rank || w->elem != x->elem)
        return tw_onnx_error(n, "input %s and weights %s do not fit", tw_gb_type_text(n->g, x),
                             tw_gb_type_text(n->g, w));
    return (*groups > 0 && *groups <= INT32_MAX) ||
           tw_onnx_error(n, "attribute 'group' is %lld", (long long)*groups);
}

/* Channels of the input must be `channels`, and the first axis of the weights whole groups. */
static bool check_channels(tw_onnx_node *n, tw_type x, tw_type w, tw_expr channels, int64_t groups)
{
    if (tw_gb_differ(n->g, x->dims[1], channels) ||
        (tw_expr_is_const(w->dims[0]) && w->dims[0]->value % groups))
        return tw_onnx_error(n, "input %s and weights %s do not fit with %lld groups",
                             tw_gb_type_text(n->g, x), tw_gb_type_text(n->g, w), (long long)groups);
    return tw_gb_check_equal(n->g, x->dims[1], channels, "channels of input and weights");
}

tw_value *tw_onnx_conv(tw_onnx_node *n, tw_value *x, tw_value *weights)
{
    int64_t groups;
    tw_onnx_window w;
    tw_expr dims[TW_MAX_RANK];
    tw_named_attr attrs[TW_ONNX_WINDOW_ATTRS + 1];
    if (!x || !weights || !read_groups(n, x->type, weights->type, &groups))
        return NULL;
    unsigned rank = x->type->rank;
    memcpy(dims, x->type->dims, rank * sizeof *dims);
    dims[1] = tw_expr_mulc(n->ctx, weights->type->dims[1], groups);
    if (!check_channels(n, x->type, weights->type, dims[1], groups))
        return NULL;
    tw_value *operands[2] = {tw_gb_conform(n->g, x, dims), weights};
    if (!tw_onnx_read_window(n, rank - 2, &w) || !read_kernel(n, weights->type, &w) ||
        !tw_onnx_window_sizes(n, &w, x->type->dims + 2, false, dims + 2))
        return NULL;
    dims[1] = weights->type->dims[0];
    tw_onnx_window_attrs(n, &w, attrs);
    attrs[TW_ONNX_WINDOW_ATTRS] = (tw_named_attr){"groups", tw_attr_int(n->ctx, groups)};
    return tw_gb_emit(n->g, TW_GRAPH_CONV, operands, 2,
                      tw_type_tensor(n->ctx, x->type->elem, rank, dims, NULL), attrs,
                      TW_ONNX_WINDOW_ATTRS + 1);
}

bool tw_onnx_op_conv(tw_onnx_node *n)
{
    tw_value *y = tw_onnx_conv(n, n->in[0], n->in[1]);
    return tw_onnx_set(n, 0, tw_onnx_add_bias(n, y, tw_onnx_in(n, 2)));
}

/* ---- Transposed ---- */

/* A list attribute with one entry for each spatial axis; false with an error when it is broken. */
static bool spatial_list(tw_onnx_node *n, const char *name, unsigned spatial, const int64_t **out)
{
    bool ok = true;
    size_t count;
    *out = tw_onnx_int_list(n, name, &count, &ok);
    if (ok && *out && count != spatial)
        return tw_onnx_error(n, "attribute '%s' has %zu entries; %u are needed", name, count,
                             spatial);
    for (unsigned i = 0; ok && *out && i < spatial; i++)
        if ((*out)[i] < 0 || (*out)[i] > INT32_MAX)
            return tw_onnx_error(n, "attribute '%s' has the entry %lld", name,
                                 (long long)(*out)[i]);
    return ok;
}

/* stride * (size - 1) + extent + output_padding: the result's size without cropping. */
static tw_expr full_size(tw_onnx_node *n, const tw_onnx_window *w, unsigned i, tw_expr size,
                         int64_t extra)
{
    tw_context *ctx = n->ctx;
    tw_expr reach = tw_expr_mulc(ctx, tw_expr_addc(ctx, size, -1), w->strides[i]);
    return tw_expr_addc(ctx, tw_expr_add(ctx, reach, tw_onnx_window_extent(n, w, i)), extra);
}

/* Result sizes; a given or "same" one decides the cropping. */
static bool transposed_sizes(tw_onnx_node *n, tw_onnx_window *w, const tw_expr *sizes, tw_expr *out)
{
    tw_context *ctx = n->ctx;
    const int64_t *extra, *shape;
    tw_expr zero = tw_gb_const(n->g, 0), two = tw_gb_const(n->g, 2);
    if (!spatial_list(n, "output_padding", w->n, &extra) ||
        !spatial_list(n, "output_shape", w->n, &shape))
        return false;
    for (unsigned i = 0; i < w->n; i++) {
        tw_expr full = full_size(n, w, i, sizes[i], extra ? extra[i] : 0);
        if (!shape && !w->same) {
            out[i] = tw_expr_sub(ctx, tw_expr_sub(ctx, full, w->begin[i]), w->end[i]);
            continue;
        }
        out[i] = shape ? tw_gb_const(n->g, shape[i]) : tw_expr_mulc(ctx, sizes[i], w->strides[i]);
        tw_expr total = tw_expr_sub(ctx, full, out[i]);
        if (tw_expr_range(total, NULL, 0).lo < 0)
            total = tw_expr_binary(ctx, TW_EXPR_MAX, total, zero);
        tw_expr half = tw_expr_binary(ctx, TW_EXPR_FLOORDIV, total, two);
        bool upper = w->same && !w->lower;
        w->begin[i] = upper ? half : tw_expr_sub(ctx, total, half);
        w->end[i] = tw_expr_sub(ctx, total, w->begin[i]);
    }
    return true;
}

bool tw_onnx_op_conv_transpose(tw_onnx_node *n)
{
    int64_t groups;
    tw_onnx_window w;
    tw_expr dims[TW_MAX_RANK];
    tw_named_attr attrs[TW_ONNX_WINDOW_ATTRS + 1];
    tw_type x = n->in[0]->type, weights = n->in[1]->type;
    if (!read_groups(n, x, weights, &groups) ||
        !check_channels(n, x, weights, weights->dims[0], groups) ||
        !tw_onnx_read_window(n, x->rank - 2, &w) || !read_kernel(n, weights, &w) ||
        !transposed_sizes(n, &w, x->dims + 2, dims + 2))
        return false;
    dims[0] = x->dims[0];
    dims[1] = tw_expr_mulc(n->ctx, weights->dims[1], groups);
    tw_onnx_window_attrs(n, &w, attrs);
    attrs[TW_ONNX_WINDOW_ATTRS] = (tw_named_attr){"groups", tw_attr_int(n->ctx, groups)};
    tw_value *y = tw_gb_emit(n->g, TW_GRAPH_CONV_TRANSPOSE, n->in, 2,
                             tw_type_tensor(n->ctx, x->elem, x->rank, dims, NULL), attrs,
                             TW_ONNX_WINDOW_ATTRS + 1);
    return tw_onnx_set(n, 0, tw_onnx_add_bias(n, y, tw_onnx_in(n, 2)));
}
