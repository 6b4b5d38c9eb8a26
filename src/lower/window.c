/* window.c: axes and indices of convolutions and pools. */
#include "lower/window.h"

#include <string.h>

tw_window tw_window_of(tw_context *ctx, const tw_op *op, unsigned rank)
{
    tw_window w = {.n = rank - 2};
    w.channels_last = !strcmp(tw_op_string(op, "data_layout", "NC"), "NHWC");
    for (unsigned i = 0; i < w.n; i++) {
        w.strides[i] = w.dilations[i] = 1;
        w.kernel[i] = tw_expr_const(ctx, 1);
        w.pads_begin[i] = w.pads_end[i] = tw_expr_const(ctx, 0);
    }
    tw_graph_exprs(ctx, op, "kernel", w.kernel, w.n);
    tw_op_ints(op, "strides", w.strides, (int)w.n);
    tw_op_ints(op, "dilations", w.dilations, (int)w.n);
    tw_graph_exprs(ctx, op, "pads_begin", w.pads_begin, w.n);
    tw_graph_exprs(ctx, op, "pads_end", w.pads_end, w.n);
    return w;
}

unsigned tw_window_spatial(const tw_window *w, unsigned i)
{
    return w->channels_last ? 1 + i : 2 + i;
}

unsigned tw_window_channel(const tw_window *w)
{
    return w->channels_last ? w->n + 1 : 1;
}

/* z, y, x for up to three axes, else numbers. */
static const char *spatial_name(tw_lowering *l, const tw_window *w, unsigned i, const char *prefix)
{
    static const char *const names[] = {"z", "y", "x"};
    if (w->n <= 3)
        return tw_arena_printf(l->arena, "%s%s", prefix, names[3 - w->n + i]);
    return tw_arena_printf(l->arena, "%ss%u", prefix, i);
}

static tw_expr add_axis(tw_lowering *l, tw_window_axes *a, const char *name, tw_expr extent,
                        bool reduce)
{
    a->axes[a->n] = (tw_axis){name, extent, reduce};
    return tw_expr_dim(l->ctx, a->n++);
}

static void add_reduction(tw_lowering *l, const tw_window *w, tw_window_axes *a, tw_expr channels)
{
    unsigned before = a->n;
    bool several = !tw_is_size(channels, 1);
    tw_expr zero = tw_expr_const(l->ctx, 0);
    a->reduce_channel = zero;
    if (!w->channels_last && several)
        a->reduce_channel = add_axis(l, a, "rc", channels, true);
    for (unsigned i = 0; i < w->n; i++) {
        a->tap[i] = zero;
        if (!tw_is_size(w->kernel[i], 1))
            a->tap[i] = add_axis(l, a, spatial_name(l, w, i, "r"), w->kernel[i], true);
    }
    if ((w->channels_last && several) || a->n == before)
        a->reduce_channel = add_axis(l, a, "rc", channels, true);
}

static void add_channels(tw_lowering *l, const tw_window *w, tw_window_axes *a,
                         const tw_value *result, int64_t groups)
{
    tw_expr size = tw_size(result, tw_window_channel(w)), n = tw_expr_const(l->ctx, groups);
    if (groups <= 1) {
        a->channel = add_axis(l, a, "o", size, false);
        return;
    }
    tw_expr each = tw_expr_binary(l->ctx, TW_EXPR_FLOORDIV, size, n);
    a->group = add_axis(l, a, "g", n, false);
    a->channel =
        tw_expr_add(l->ctx, tw_expr_mul(l->ctx, a->group, each), add_axis(l, a, "o", each, false));
}

tw_window_axes tw_window_make_axes(tw_lowering *l, const tw_window *w, const tw_value *result,
                                   tw_expr channels, int64_t groups)
{
    tw_window_axes a = {.n = 0};
    a.batch = add_axis(l, &a, "n", tw_size(result, 0), false);
    if (!w->channels_last)
        add_channels(l, w, &a, result, groups);
    for (unsigned i = 0; i < w->n; i++)
        a.at[i] = add_axis(l, &a, spatial_name(l, w, i, ""),
                           tw_size(result, tw_window_spatial(w, i)), false);
    if (w->channels_last)
        add_channels(l, w, &a, result, groups);
    add_reduction(l, w, &a, channels);
    return a;
}

void tw_window_index(const tw_stage *s, const tw_window *w, const tw_window_axes *a,
                     tw_expr channel, const tw_value *x, tw_expr *index, tw_expr *where,
                     unsigned *n_where)
{
    tw_context *ctx = s->l->ctx;
    index[0] = a->batch;
    index[tw_window_channel(w)] = channel;
    *n_where = 0;
    for (unsigned i = 0; i < w->n; i++) {
        unsigned axis = tw_window_spatial(w, i);
        tw_expr e = tw_expr_add(ctx, tw_expr_mulc(ctx, a->at[i], w->strides[i]),
                                tw_expr_mulc(ctx, a->tap[i], w->dilations[i]));
        e = tw_expr_sub(ctx, e, w->pads_begin[i]);
        index[axis] = e;
        where[(*n_where)++] = e;
        where[(*n_where)++] = tw_expr_sub(ctx, tw_expr_addc(ctx, tw_size(x, axis), -1), e);
    }
}

void tw_window_result(const tw_window *w, const tw_window_axes *a, tw_expr *index)
{
    index[0] = a->batch;
    index[tw_window_channel(w)] = a->channel;
    for (unsigned i = 0; i < w->n; i++)
        index[tw_window_spatial(w, i)] = a->at[i];
}
