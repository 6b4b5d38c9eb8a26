/* op_conv_transpose.c: the gradient of a convolution, in gather form: each result collects what
 * reaches it.
 *
 * Result position p lies at e = p + pads_begin of the uncropped result, where input position q and
 * tap k meet when q * stride + k * dilation = e. With dilation 1 only every stride-th tap takes
 * part, k = e mod stride + stride * t, and then q = e floordiv stride - t: the sum is over t and
 * has no wasted terms. Else the sum is over all k, those that do not divide being masked. */
#include "lower/window.h"

typedef struct conv_t {
    tw_lowering *l;
    tw_window w; /* kernel: number of terms per axis */
    tw_window_axes a;
    tw_expr kernel[TW_MAX_SPATIAL]; /* real sizes */
    int64_t groups;
    tw_expr inputs, outputs; /* channels per group */
    tw_elem elem;
} conv_t;

/* Whether the sum over an axis is over every stride-th tap only. */
static bool by_phase(const conv_t *c, unsigned i)
{
    return c->w.dilations[i] == 1 && c->w.strides[i] > 1;
}

/* Index of x and tap of the weights along spatial axis i, and when they exist. */
static void meet(const conv_t *c, unsigned i, tw_expr size, tw_expr *index, tw_expr *tap,
                 tw_expr *where, unsigned *n)
{
    tw_context *ctx = c->l->ctx;
    tw_expr stride = tw_expr_const(ctx, c->w.strides[i]), t = c->a.tap[i];
    tw_expr e = tw_expr_add(ctx, c->a.at[i], c->w.pads_begin[i]);
    if (by_phase(c, i)) {
        tw_expr phase = tw_expr_binary(ctx, TW_EXPR_MOD, e, stride);
        *tap = tw_expr_add(ctx, phase, tw_expr_mulc(ctx, t, c->w.strides[i]));
        *index = tw_expr_sub(ctx, tw_expr_binary(ctx, TW_EXPR_FLOORDIV, e, stride), t);
        where[(*n)++] = tw_expr_sub(ctx, tw_expr_addc(ctx, c->kernel[i], -1), *tap);
    } else {
        tw_expr rest = tw_expr_sub(ctx, e, tw_expr_mulc(ctx, t, c->w.dilations[i]));
        *tap = t;
        *index = tw_expr_binary(ctx, TW_EXPR_FLOORDIV, rest, stride);
        where[(*n)++] = tw_expr_mulc(ctx, tw_expr_binary(ctx, TW_EXPR_MOD, rest, stride), -1);
    }
    where[(*n)++] = *index;
    where[(*n)++] = tw_expr_sub(ctx, tw_expr_addc(ctx, size, -1), *index);
}

static void build(const conv_t *c, tw_stage *s, tw_value *x, tw_value *weights, tw_value *acc)
{
    tw_context *ctx = c->l->ctx;
    tw_expr index[TW_MAX_RANK], kernel[TW_MAX_RANK], result[TW_MAX_RANK];
    tw_expr where[3 * TW_MAX_SPATIAL];
    unsigned n = 0;
    tw_expr group = c->groups == 1
                        ? tw_expr_const(ctx, 0)
                        : tw_expr_binary(ctx, TW_EXPR_FLOORDIV, c->a.channel, c->outputs);
    index[0] = c->a.batch;
    tw_expr channel = tw_expr_add(ctx, tw_expr_mul(ctx, group, c->inputs), c->a.reduce_channel);
    tw_window_set_channel(ctx, &c->w.x, channel, index);
    kernel[0] = channel;
    kernel[1] = tw_expr_sub(ctx, c->a.channel, tw_expr_mul(ctx, group, c->outputs));
    for (unsigned i = 0; i < c->w.n; i++) {
        unsigned axis = c->w.x.space + i;
        meet(c, i, tw_size(x, axis), &index[axis], &kernel[2 + i], where, &n);
    }
    tw_window_result(ctx, &c->w, &c->a, result);
    tw_value *v = tw_stage_load_or(s, x, index, where, n, 0);
    /* Where x is masked its tap may lie outside the weights: clamp it. */
    for (unsigned i = 0; i < c->w.n; i++)
        if (by_phase(c, i))
            kernel[2 + i] = tw_stage_clamp(s, kernel[2 + i], tw_stage_int(s, 0),
                                           tw_expr_addc(ctx, c->kernel[i], -1));
    tw_value *k = tw_stage_load(s, weights, kernel);
    tw_stage_reduce_product(s, tw_stage_cast(s, v, c->elem), tw_stage_cast(s, k, c->elem), acc,
                            result);
}

bool tw_lower_conv_transpose(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    tw_context *ctx = l->ctx;
    conv_t c = {.l = l, .w = tw_window_of(ctx, op)};
    c.groups = tw_op_int(op, "groups", 1);
    tw_expr groups = tw_expr_const(ctx, c.groups);
    c.inputs = tw_expr_binary(ctx, TW_EXPR_FLOORDIV, tw_data_channels(ctx, tw_operand(op, 0)->type),
                              groups);
    c.outputs =
        tw_expr_binary(ctx, TW_EXPR_FLOORDIV, tw_data_channels(ctx, op->results[0].type), groups);
    for (unsigned i = 0; i < c.w.n; i++) {
        c.kernel[i] = tw_size(in[1], 2 + i);
        c.w.kernel[i] = c.kernel[i];
        if (by_phase(&c, i))
            c.w.kernel[i] = tw_expr_binary(ctx, TW_EXPR_CEILDIV, c.kernel[i],
                                           tw_expr_const(ctx, c.w.strides[i]));
    }
    c.elem = tw_product_elem(in[0], out[0]);
    c.a = tw_window_make_axes(l, &c.w, out[0], c.inputs, 1);
    tw_value *acc = tw_lower_accumulator(l, out[0], c.elem);
    tw_stage s;
    tw_stage_open(l, &s, "conv_transpose", c.a.axes, c.a.n);
    build(&c, &s, in[0], in[1], acc);
    tw_stage_close(&s);
    tw_lower_finish(l, "conv_transpose", acc, out[0]);
    return true;
}
