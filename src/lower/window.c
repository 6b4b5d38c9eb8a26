/* window.c: axes and indices of convolutions and pools. */
#include "lower/window.h"

tw_window tw_window_of(tw_context *ctx, const tw_op *op)
{
    tw_window w = {.x = tw_data_axes_of(tw_operand(op, 0)->type),
                   .to = tw_data_axes_of(op->results[0].type)};
    w.n = w.x.n_space;
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

void tw_window_set_channel(tw_context *ctx, const tw_data_axes *axes, tw_expr channel,
                           tw_expr *index)
{
    tw_expr block = tw_expr_const(ctx, axes->block);
    index[axes->channel] =
        axes->lane ? tw_expr_binary(ctx, TW_EXPR_FLOORDIV, channel, block) : channel;
    if (axes->lane)
        index[axes->lane] = tw_expr_binary(ctx, TW_EXPR_MOD, channel, block);
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

/* The channels that are summed stand where they are in the data: in front of the window, behind it,
 * or blocks in front and lanes behind. */
static void add_reduction(tw_lowering *l, const tw_window *w, tw_window_axes *a, tw_expr channels)
{
    tw_context *ctx = l->ctx;
    unsigned before = a->n;
    bool several = !tw_is_size(channels, 1), last = w->x.channel > w->x.space;
    tw_expr zero = tw_expr_const(ctx, 0), block = tw_expr_const(ctx, w->x.block);
    bool blocks = w->x.lane && tw_expr_binary(ctx, TW_EXPR_MOD, channels, block) == zero && several;
    a->reduce_channel = zero;
    if (blocks)
        channels = tw_expr_binary(ctx, TW_EXPR_FLOORDIV, channels, block);
    if (!last && !tw_is_size(channels, 1))
        a->reduce_channel =
            tw_expr_mulc(ctx, add_axis(l, a, "rc", channels, true), blocks ? w->x.block : 1);
    for (unsigned i = 0; i < w->n; i++) {
        a->tap[i] = zero;
        if (!tw_is_size(w->kernel[i], 1))
            a->tap[i] = add_axis(l, a, spatial_name(l, w, i, "r"), w->kernel[i], true);
    }
    if (blocks && w->x.block > 1)
        a->reduce_channel = tw_expr_add(ctx, a->reduce_channel, add_axis(l, a, "rl", block, true));
    if ((last && several) || a->n == before)
        a->reduce_channel = add_axis(l, a, "rc", channels, true);
}

/* The channels, or their blocks, as one axis or as two. */
static void add_channels(tw_lowering *l, const tw_window *w, tw_window_axes *a,
                         const tw_value *result, int64_t groups)
{
    tw_expr size = tw_size(result, w->to.channel), n = tw_expr_const(l->ctx, groups);
    if (groups <= 1) {
        a->channel = add_axis(l, a, "o", size, false);
    } else {
        tw_expr each = tw_expr_binary(l->ctx, TW_EXPR_FLOORDIV, size, n);
        a->group = add_axis(l, a, "g", n, false);
        a->channel = tw_expr_add(l->ctx, tw_expr_mul(l->ctx, a->group, each),
                                 add_axis(l, a, "o", each, false));
    }
    a->channel = tw_expr_mulc(l->ctx, a->channel, w->to.block);
}

tw_window_axes tw_window_make_axes(tw_lowering *l, const tw_window *w, const tw_value *result,
                                   tw_expr channels, int64_t groups)
{
    tw_window_axes a = {.n = 0};
    bool last = w->to.channel > w->to.space;
    a.batch = add_axis(l, &a, "n", tw_size(result, 0), false);
    if (!last)
        add_channels(l, w, &a, result, groups);
    for (unsigned i = 0; i < w->n; i++)
        a.at[i] =
            add_axis(l, &a, spatial_name(l, w, i, ""), tw_size(result, w->to.space + i), false);
    if (last)
        add_channels(l, w, &a, result, groups);
    if (w->to.lane)
        a.channel = tw_expr_add(l->ctx, a.channel,
                                add_axis(l, &a, "l", tw_size(result, w->to.lane), false));
    add_reduction(l, w, &a, channels);
    return a;
}

void tw_window_index(const tw_stage *s, const tw_window *w, const tw_window_axes *a,
                     tw_expr channel, const tw_value *x, tw_expr *index, tw_expr *where,
                     unsigned *n_where)
{
    tw_context *ctx = s->l->ctx;
    index[0] = a->batch;
    tw_window_set_channel(ctx, &w->x, channel, index);
    *n_where = 0;
    for (unsigned i = 0; i < w->n; i++) {
        unsigned axis = w->x.space + i;
        tw_expr e = tw_expr_add(ctx, tw_expr_mulc(ctx, a->at[i], w->strides[i]),
                                tw_expr_mulc(ctx, a->tap[i], w->dilations[i]));
        e = tw_expr_sub(ctx, e, w->pads_begin[i]);
        index[axis] = e;
        where[(*n_where)++] = e;
        where[(*n_where)++] = tw_expr_sub(ctx, tw_expr_addc(ctx, tw_size(x, axis), -1), e);
    }
}

void tw_window_result(tw_context *ctx, const tw_window *w, const tw_window_axes *a, tw_expr *index)
{
    index[0] = a->batch;
    tw_window_set_channel(ctx, &w->to, a->channel, index);
    for (unsigned i = 0; i < w->n; i++)
        index[w->to.space + i] = a->at[i];
}
