/* window.c: strides, dilations and padding of convolutions and pools. */
#include "import/onnx/import.h"

#include <string.h>

static bool read_list(tw_onnx_node *n, const char *name, unsigned count, int64_t absent,
                      int64_t least, int64_t *out)
{
    bool ok = true;
    size_t given;
    const int64_t *list = tw_onnx_int_list(n, name, &given, &ok);
    if (list && given != count)
        return tw_onnx_error(n, "attribute '%s' has %zu entries; %u are needed", name, given,
                             count);
    for (unsigned i = 0; i < count; i++) {
        out[i] = list ? list[i] : absent;
        if (out[i] < least || out[i] > INT32_MAX)
            return tw_onnx_error(n, "attribute '%s' has the entry %lld", name, (long long)out[i]);
    }
    return ok;
}

bool tw_onnx_read_window(tw_onnx_node *n, unsigned spatial, tw_onnx_window *w)
{
    bool ok = true;
    int64_t pads[2 * TW_MAX_RANK];
    *w = (tw_onnx_window){.n = spatial};
    if (!read_list(n, "strides", spatial, 1, 1, w->strides) ||
        !read_list(n, "dilations", spatial, 1, 1, w->dilations) ||
        !read_list(n, "pads", 2 * spatial, 0, 0, pads))
        return false;
    for (unsigned i = 0; i < spatial; i++) {
        w->begin[i] = tw_gb_const(n->g, pads[i]);
        w->end[i] = tw_gb_const(n->g, pads[spatial + i]);
    }
    const char *mode = tw_onnx_string(n, "auto_pad", "NOTSET", &ok);
    w->lower = ok && !strcmp(mode, "SAME_LOWER");
    w->same = ok && (w->lower || !strcmp(mode, "SAME_UPPER"));
    if (ok && !w->same && strcmp(mode, "NOTSET") && strcmp(mode, "VALID"))
        return tw_onnx_error(n,
                             "attribute 'auto_pad' is '%s'; accepted are NOTSET, VALID, "
                             "SAME_UPPER, SAME_LOWER",
                             mode);
    if (ok && !strcmp(mode, "VALID"))
        for (unsigned i = 0; i < spatial; i++)
            w->begin[i] = w->end[i] = tw_gb_const(n->g, 0);
    return ok;
}

tw_expr tw_onnx_window_extent(tw_onnx_node *n, const tw_onnx_window *w, unsigned i)
{
    tw_expr reach = tw_expr_mulc(n->ctx, tw_expr_addc(n->ctx, w->kernel[i], -1), w->dilations[i]);
    return tw_expr_addc(n->ctx, reach, 1);
}

static tw_expr at_least_0(tw_onnx_node *n, tw_expr e)
{
    return tw_expr_range(e, NULL, 0).lo >= 0
               ? e
               : tw_expr_binary(n->ctx, TW_EXPR_MAX, e, tw_gb_const(n->g, 0));
}

/* What `count` windows reach over, less the unpadded size. */
static tw_expr overhang(tw_onnx_node *n, const tw_onnx_window *w, unsigned i, tw_expr count,
                        tw_expr size)
{
    tw_context *ctx = n->ctx;
    tw_expr reach = tw_expr_mulc(ctx, tw_expr_addc(ctx, count, -1), w->strides[i]);
    return tw_expr_sub(ctx, tw_expr_add(ctx, reach, tw_onnx_window_extent(n, w, i)), size);
}

/* Result size ceil(size / stride), whatever the window. */
static tw_expr same_size(tw_onnx_node *n, tw_onnx_window *w, unsigned i, tw_expr size)
{
    tw_expr count = tw_expr_binary(n->ctx, TW_EXPR_CEILDIV, size, tw_gb_const(n->g, w->strides[i]));
    tw_expr total = at_least_0(n, overhang(n, w, i, count, size));
    tw_expr half = tw_expr_binary(n->ctx, TW_EXPR_FLOORDIV, total, tw_gb_const(n->g, 2));
    tw_expr rest = tw_expr_sub(n->ctx, total, half);
    w->begin[i] = w->lower ? rest : half;
    w->end[i] = w->lower ? half : rest;
    return count;
}

/* The last window must start inside the data or the padding before it. */
static tw_expr ceil_size(tw_onnx_node *n, tw_onnx_window *w, unsigned i, tw_expr size, tw_expr room)
{
    tw_context *ctx = n->ctx;
    tw_expr stride = tw_gb_const(n->g, w->strides[i]);
    tw_expr up = tw_expr_addc(ctx, tw_expr_binary(ctx, TW_EXPR_CEILDIV, room, stride), 1);
    tw_expr starts =
        tw_expr_binary(ctx, TW_EXPR_CEILDIV, tw_expr_add(ctx, size, w->begin[i]), stride);
    tw_expr count = tw_expr_binary(ctx, TW_EXPR_MIN, up, starts);
    tw_expr need = tw_expr_sub(ctx, overhang(n, w, i, count, size), w->begin[i]);
    if (tw_expr_range(tw_expr_sub(ctx, need, w->end[i]), NULL, 0).hi > 0)
        w->end[i] = tw_expr_binary(ctx, TW_EXPR_MAX, need, w->end[i]);
    return count;
}

bool tw_onnx_window_sizes(tw_onnx_node *n, tw_onnx_window *w, const tw_expr *sizes, bool ceil_mode,
                          tw_expr *out)
{
    tw_context *ctx = n->ctx;
    for (unsigned i = 0; i < w->n; i++) {
        if (w->same) {
            out[i] = same_size(n, w, i, sizes[i]);
            continue;
        }
        tw_expr padded = tw_expr_add(ctx, tw_expr_add(ctx, sizes[i], w->begin[i]), w->end[i]);
        tw_expr room = tw_expr_sub(ctx, padded, tw_onnx_window_extent(n, w, i));
        /* with ceil_mode a window may hang out at the end by less than a stride */
        tw_expr spare = tw_expr_addc(ctx, room, ceil_mode ? w->strides[i] - 1 : 0);
        if (tw_expr_range(spare, NULL, 0).hi < 0)
            return tw_onnx_error(n,
                                 "the window does not fit into spatial axis %u of the input "
                                 "(window %s, padded size %s)",
                                 i, tw_print_expr(ctx, tw_onnx_window_extent(n, w, i), NULL),
                                 tw_print_expr(ctx, padded, NULL));
        if (!tw_gb_check(n->g, spare,
                         "the window does not fit into the input (window %s, padded size %s)",
                         tw_print_expr(ctx, tw_onnx_window_extent(n, w, i), NULL),
                         tw_print_expr(ctx, padded, NULL)))
            return false;
        out[i] = ceil_mode ? ceil_size(n, w, i, sizes[i], room)
                           : tw_expr_addc(ctx,
                                          tw_expr_binary(ctx, TW_EXPR_FLOORDIV, room,
                                                         tw_gb_const(n->g, w->strides[i])),
                                          1);
    }
    return true;
}

/* Numbers, or `() -> (expression)` for symbolic ones. */
static tw_attr exprs_attr(tw_onnx_node *n, const tw_expr *values, unsigned count)
{
    tw_attr items[TW_MAX_RANK];
    for (unsigned i = 0; i < count; i++)
        items[i] = tw_expr_is_const(values[i]) ? tw_attr_int(n->ctx, values[i]->value)
                                               : tw_attr_map(n->ctx, 0, &values[i], 1);
    return tw_attr_array(n->ctx, items, count);
}

void tw_onnx_window_attrs(tw_onnx_node *n, const tw_onnx_window *w, tw_named_attr *attrs)
{
    attrs[0] = (tw_named_attr){"strides", tw_attr_ints(n->ctx, w->strides, w->n)};
    attrs[1] = (tw_named_attr){"dilations", tw_attr_ints(n->ctx, w->dilations, w->n)};
    attrs[2] = (tw_named_attr){"pads_begin", exprs_attr(n, w->begin, w->n)};
    attrs[3] = (tw_named_attr){"pads_end", exprs_attr(n, w->end, w->n)};
}
