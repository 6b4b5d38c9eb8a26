/* op_conv.c: convolutions, their padding as masked loads.
 *
 *   graph.conv %x, %w  ->  loop.block "conv": out[n, o, y, x] = sum over rc, ry, rx of
 *       (x[n, rc, y*s + ry*d - p, …] where inside, else 0) * w[o, rc, ry, rx] */
#include "lower/window.h"

#include <string.h>

typedef struct conv {
    tw_lowering *l;
    tw_op *op;
    tw_window w;
    tw_window_axes a;
    tw_value *x, *weights;
    const char *layout; /* of the weights, see kernel_layouts */
    int64_t groups;
    tw_expr channels, outputs; /* channels summed and computed per group */
    tw_elem elem;
} conv;

/* The kernel layouts' axes: o and i are channels computed and summed, O and I blocks of them, p and
 * l what is in a block, s all axes of space. */
static const struct {
    const char *name, *axes;
} kernel_layouts[] = {{"OI", "ois"}, {"panel", "Osip"}, {"blocks", "OIslp"}, {"depthwise", "so"}};

static const char *kernel_axes(const tw_op *op)
{
    const char *name = tw_op_string(op, "kernel_layout", "OI");
    for (size_t i = 0; i < sizeof kernel_layouts / sizeof *kernel_layouts; i++)
        if (!strcmp(name, kernel_layouts[i].name))
            return kernel_layouts[i].axes;
    return kernel_layouts[0].axes;
}

static void weight_index(const conv *c, tw_expr *index)
{
    tw_context *ctx = c->l->ctx;
    unsigned n = 0;
    tw_expr panel = tw_expr_const(ctx, tw_op_int(c->op, "panel", 1));
    tw_expr block = tw_expr_const(ctx, c->w.x.block);
    for (const char *axis = c->layout; *axis; axis++) {
        bool input = strchr("iIl", *axis);
        tw_expr channel = input ? c->a.reduce_channel : c->a.channel, size = input ? block : panel;
        for (unsigned i = 0; *axis == 's' && i < c->w.n; i++)
            index[n++] = c->a.tap[i];
        if (strchr("OI", *axis))
            index[n++] = tw_expr_binary(ctx, TW_EXPR_FLOORDIV, channel, size);
        else if (strchr("pl", *axis))
            index[n++] = tw_expr_binary(ctx, TW_EXPR_MOD, channel, size);
        else if (*axis != 's')
            index[n++] = channel;
    }
}

static tw_value *load_x(const conv *c, tw_stage *s)
{
    tw_context *ctx = c->l->ctx;
    tw_expr index[TW_MAX_RANK], where[2 * TW_MAX_SPATIAL];
    unsigned n_where;
    tw_expr group =
        c->a.group ? c->a.group : tw_expr_binary(ctx, TW_EXPR_FLOORDIV, c->a.channel, c->outputs);
    if (c->groups == 1)
        group = tw_expr_const(ctx, 0);
    tw_expr channel = tw_expr_add(ctx, tw_expr_mul(ctx, group, c->channels), c->a.reduce_channel);
    tw_window_index(s, &c->w, &c->a, channel, c->x, index, where, &n_where);
    return tw_stage_cast(s, tw_stage_load_or(s, c->x, index, where, n_where, 0), c->elem);
}

/* Whether the channels that a group computes fill vectors: they then are an axis of their own,
 * along which the data is the same. */
static bool has_wide_groups(const conv *c)
{
    enum { WIDE = 8 };
    int64_t outputs;
    return c->groups > 1 && tw_expr_as_const(c->outputs, &outputs) && outputs >= WIDE &&
           outputs % c->w.to.block == 0 && strcmp(c->layout, "so") != 0;
}

bool tw_lower_conv(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    conv c = {.l = l, .op = op, .x = in[0], .weights = in[1]};
    c.w = tw_window_of(l->ctx, op);
    c.layout = kernel_axes(op);
    c.groups = tw_op_int(op, "groups", 1);
    unsigned first = (unsigned)(strchr(c.layout, 's') - c.layout);
    tw_expr groups = tw_expr_const(l->ctx, c.groups);
    c.channels = tw_expr_binary(l->ctx, TW_EXPR_FLOORDIV,
                                tw_data_channels(l->ctx, tw_operand(op, 0)->type), groups);
    c.outputs = tw_expr_binary(l->ctx, TW_EXPR_FLOORDIV,
                               tw_data_channels(l->ctx, op->results[0].type), groups);
    for (unsigned i = 0; i < c.w.n; i++)
        c.w.kernel[i] = tw_size(in[1], first + i);
    c.elem = tw_product_elem(in[0], out[0]);
    c.a = tw_window_make_axes(l, &c.w, out[0], c.channels, has_wide_groups(&c) ? c.groups : 1);

    tw_value *acc = tw_lower_accumulator(l, out[0], c.elem);
    tw_stage s;
    tw_expr result[TW_MAX_RANK], weights[TW_MAX_RANK];
    tw_stage_open(l, &s, "conv", c.a.axes, c.a.n);
    tw_window_result(l->ctx, &c.w, &c.a, result);
    weight_index(&c, weights);
    tw_value *x = load_x(&c, &s);
    tw_value *k = tw_stage_cast(&s, tw_stage_load(&s, in[1], weights), c.elem);
    if (tw_op_bool(op, "dot", false))
        tw_stage_reduce_dot(&s, x, k, acc, result);
    else
        tw_stage_reduce_product(&s, x, k, acc, result);
    tw_stage_close(&s);
    tw_lower_finish(l, "conv", acc, out[0]);
    return true;
}
