/* op_norm.c: normalisations. Means and variances take two passes over the data, as the difference
 * of large sums would lose what matters.
 *
 *   graph.layer_norm %x  ->  "layer_norm_sum":     s = sum of x           "layer_norm_mean": m = s
 * / n "layer_norm_squares": q = sum of (x - m)^2 "layer_norm_scale":   r = 1 / sqrt(q / n +
 * epsilon) "layer_norm":         y = (x - m) * r * scale + bias */
#include "lower/lowering.h"
#include "lower/window.h"

/* Statistics over some axes of x. */
typedef struct statistics {
    tw_lowering *l;
    const char *name;
    tw_value *x;
    tw_elem elem;
    bool reduced[TW_MAX_RANK];
    tw_axis axes[TW_MAX_RANK];                       /* kept axes, then reduced ones */
    tw_expr index[TW_MAX_RANK], result[TW_MAX_RANK]; /* over them */
    tw_expr dims[TW_MAX_RANK];                       /* of results: 1 where reduced */
    unsigned rank;
    tw_expr count; /* of elements per result */
    unsigned lane; /* of x with blocks of channels, and parameters per channel; else 0 */
    int64_t block;
} statistics;

static void add_axes(statistics *t, bool reduced, unsigned *n)
{
    for (unsigned i = 0; i < t->rank; i++) {
        if (t->reduced[i] != reduced)
            continue;
        const char *name = tw_arena_printf(t->l->arena, reduced ? "r%u" : "i%u", i);
        t->axes[*n] = (tw_axis){name, tw_size(t->x, i), reduced};
        t->index[i] = tw_expr_dim(t->l->ctx, (*n)++);
        t->result[i] = reduced ? tw_expr_const(t->l->ctx, 0) : t->index[i];
        t->dims[i] = reduced ? tw_expr_const(t->l->ctx, 1) : tw_size(t->x, i);
        if (reduced)
            t->count = tw_expr_mul(t->l->ctx, t->count, tw_size(t->x, i));
    }
}

static statistics make_statistics(tw_lowering *l, const tw_op *op, tw_value *x, const bool *reduced)
{
    statistics t = {.l = l, .name = tw_short_name(op), .x = x, .rank = x->type->rank};
    unsigned n = 0;
    t.elem = tw_compute_elem(x->type->elem);
    t.count = tw_expr_const(l->ctx, 1);
    for (unsigned i = 0; i < t.rank; i++)
        t.reduced[i] = reduced[i];
    add_axes(&t, false, &n);
    add_axes(&t, true, &n);
    return t;
}

static tw_value *result_buffer(statistics *t, const char *name)
{
    return tw_lowering_alloc(t->l, t->elem, t->rank, t->dims, name);
}

/* Sum of x - mean, squared when asked; mean may be NULL for 0. */
static tw_value *sum(statistics *t, const char *suffix, tw_value *mean, bool square)
{
    tw_value *to = result_buffer(t, suffix + 1);
    tw_stage s;
    tw_stage_open(t->l, &s, tw_name(t->l, t->name, suffix), t->axes, t->rank);
    s.read_when_empty = true;
    tw_value *x = tw_load(&s, t->x, t->index);
    if (mean)
        x = tw_s2(&s, TW_LOOP_SUB, x, tw_stage_load(&s, mean, t->result));
    if (square)
        tw_stage_reduce_product(&s, x, x, to, t->result);
    else
        tw_stage_reduce(&s, "add", 0, x, to, t->result);
    tw_stage_close(&s);
    return to;
}

/* sum / count, or 1 / sqrt(sum / count + epsilon). */
static tw_value *finish_sum(statistics *t, const char *suffix, tw_value *sum, bool root,
                            double epsilon)
{
    tw_value *to = result_buffer(t, suffix + 1);
    tw_stage s;
    tw_stage_elementwise(t->l, &s, tw_name(t->l, t->name, suffix), to);
    tw_value *v = tw_stage_load_broadcast(&s, sum, t->rank);
    v = tw_s2(&s, TW_LOOP_DIV, v, tw_stage_size(&s, v->type->elem, t->count));
    if (root) {
        v = tw_s1(&s, TW_LOOP_SQRT, tw_s2(&s, TW_LOOP_ADD, v, tw_like(&s, v, epsilon)));
        v = tw_s2(&s, TW_LOOP_DIV, tw_like(&s, v, 1), v);
    }
    tw_stage_store_here(&s, v, to);
    tw_stage_close(&s);
    return to;
}

/* The channel at the stage's place. */
static tw_expr channel_here(tw_stage *s, unsigned channel, unsigned lane, int64_t block)
{
    tw_expr at = tw_expr_mulc(s->l->ctx, tw_stage_axis(s, channel), block);
    return lane ? tw_expr_add(s->l->ctx, at, tw_stage_axis(s, lane)) : at;
}

/* A parameter whose first axis is axis `first` of the result. */
static tw_value *load_parameter(const statistics *t, tw_stage *s, tw_value *parameter,
                                unsigned first)
{
    tw_expr index[TW_MAX_RANK];
    if (t->lane) {
        index[0] = channel_here(s, first, t->lane, t->block);
        return tw_load(s, parameter, index);
    }
    for (unsigned i = 0; i < parameter->type->rank; i++)
        index[i] =
            tw_is_size(tw_size(parameter, i), 1) ? tw_stage_int(s, 0) : tw_stage_axis(s, first + i);
    return tw_load(s, parameter, index);
}

/* y = (x - mean) * factor * scale + bias, the last two with their first axis at `first`. */
static bool normalise(statistics *t, tw_value *mean, tw_value *factor, tw_value *scale,
                      tw_value *bias, unsigned first, tw_value *out)
{
    tw_stage s;
    tw_stage_elementwise(t->l, &s, t->name, out);
    tw_value *y = tw_stage_cast(&s, tw_stage_load_broadcast(&s, t->x, t->rank), t->elem);
    if (mean)
        y = tw_s2(&s, TW_LOOP_SUB, y, tw_stage_load_broadcast(&s, mean, t->rank));
    y = tw_s2(&s, TW_LOOP_MUL, y, tw_stage_load_broadcast(&s, factor, t->rank));
    if (scale)
        y = tw_s2(&s, TW_LOOP_MUL, y, load_parameter(t, &s, scale, first));
    if (bias)
        y = tw_s2(&s, TW_LOOP_ADD, y, load_parameter(t, &s, bias, first));
    tw_stage_store_here(&s, y, out);
    return tw_stage_close(&s);
}

static bool normalise_all(statistics *t, const tw_op *op, tw_value *scale, tw_value *bias,
                          unsigned first, tw_value *out)
{
    double epsilon = tw_op_float(op, "epsilon", 0);
    tw_value *mean = finish_sum(t, "_mean", sum(t, "_sum", NULL, false), false, 0);
    tw_value *factor = finish_sum(t, "_scale", sum(t, "_squares", mean, true), true, epsilon);
    return normalise(t, mean, factor, scale, bias, first, out);
}

static void reduce_from(const tw_value *x, unsigned axis, bool *reduced)
{
    for (unsigned i = 0; i < x->type->rank; i++)
        reduced[i] = i >= axis;
}

bool tw_lower_layer_norm(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    bool reduced[TW_MAX_RANK];
    unsigned axis = (unsigned)tw_op_int(op, "axis", 0);
    reduce_from(in[0], axis, reduced);
    statistics t = make_statistics(l, op, in[0], reduced);
    return normalise_all(&t, op, op->n_operands > 1 ? in[1] : NULL,
                         op->n_operands > 2 ? in[2] : NULL, axis, out[0]);
}

bool tw_lower_rms_norm(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    bool reduced[TW_MAX_RANK];
    unsigned axis = (unsigned)tw_op_int(op, "axis", 0);
    reduce_from(in[0], axis, reduced);
    statistics t = make_statistics(l, op, in[0], reduced);
    tw_value *factor = finish_sum(&t, "_scale", sum(&t, "_squares", NULL, true), true,
                                  tw_op_float(op, "epsilon", 0));
    return normalise(&t, NULL, factor, op->n_operands > 1 ? in[1] : NULL, NULL, axis, out[0]);
}

bool tw_lower_instance_norm(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    tw_data_axes axes = tw_data_axes_of(tw_operand(op, 0)->type);
    bool reduced[TW_MAX_RANK];
    for (unsigned i = 0; i < in[0]->type->rank; i++)
        reduced[i] = i >= axes.space && i < axes.space + axes.n_space;
    statistics t = make_statistics(l, op, in[0], reduced);
    t.lane = axes.lane;
    t.block = axes.block;
    return normalise_all(&t, op, in[1], in[2], axes.channel, out[0]);
}

bool tw_lower_batch_norm(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    tw_data_axes axes = tw_data_axes_of(tw_operand(op, 0)->type);
    tw_stage s;
    tw_stage_elementwise(l, &s, "batch_norm", out[0]);
    tw_elem elem = tw_compute_elem(out[0]->type->elem);
    tw_value *v[5];
    tw_expr channel = channel_here(&s, axes.channel, axes.lane, axes.block);
    for (unsigned i = 0; i < 5; i++) {
        v[i] = i ? tw_stage_load(&s, in[i], &channel)
                 : tw_stage_load_broadcast(&s, in[0], out[0]->type->rank);
        v[i] = tw_stage_cast(&s, v[i], elem);
    }
    tw_value *epsilon = tw_stage_const(&s, elem, tw_op_float(op, "epsilon", 0));
    tw_value *deviation = tw_s1(&s, TW_LOOP_SQRT, tw_s2(&s, TW_LOOP_ADD, v[4], epsilon));
    tw_value *y = tw_s2(&s, TW_LOOP_DIV, tw_s2(&s, TW_LOOP_SUB, v[0], v[3]), deviation);
    y = tw_s2(&s, TW_LOOP_ADD, tw_s2(&s, TW_LOOP_MUL, y, v[1]), v[2]);
    tw_stage_store_here(&s, y, out[0]);
    return tw_stage_close(&s);
}

/* ---- Local response ---- */

/* Squares of `size` channels around each, then x / (bias + alpha / size * squares) ^ beta. */
bool tw_lower_lrn(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    tw_data_axes data = tw_data_axes_of(tw_operand(op, 0)->type);
    unsigned rank = in[0]->type->rank;
    int64_t size = tw_op_int(op, "size", 1);
    tw_axis axes[TW_MAX_RANK + 1];
    tw_expr here[TW_MAX_RANK], index[TW_MAX_RANK];
    for (unsigned i = 0; i < rank; i++) {
        axes[i] = (tw_axis){tw_arena_printf(l->arena, "i%u", i), tw_size(in[0], i), false};
        here[i] = index[i] = tw_expr_dim(l->ctx, i);
    }
    axes[rank] = (tw_axis){"rc", tw_expr_const(l->ctx, size), true};
    tw_elem elem = tw_compute_elem(in[0]->type->elem);
    tw_value *squares = tw_lowering_alloc(l, elem, rank, in[0]->type->dims, "squares");
    tw_stage s;
    tw_stage_open(l, &s, "lrn_squares", axes, rank + 1);
    tw_expr at = tw_expr_add(l->ctx, channel_here(&s, data.channel, data.lane, data.block),
                             tw_expr_dim(l->ctx, rank));
    at = tw_expr_addc(l->ctx, at, -((size - 1) / 2));
    tw_window_set_channel(l->ctx, &data, at, index);
    tw_expr last = tw_expr_addc(l->ctx, tw_data_channels(l->ctx, tw_operand(op, 0)->type), -1);
    tw_expr where[] = {at, tw_expr_sub(l->ctx, last, at)};
    tw_value *x = tw_stage_load_or(&s, in[0], index, where, 2, 0);
    x = tw_stage_cast(&s, x, elem);
    tw_stage_reduce_product(&s, x, x, squares, here);
    tw_stage_close(&s);

    tw_stage_elementwise(l, &s, "lrn", out[0]);
    tw_value *sum = tw_stage_load(&s, squares, here);
    tw_value *factor = tw_like(&s, sum, tw_op_float(op, "alpha", 0) / (double)size);
    sum = tw_s2(&s, TW_LOOP_ADD, tw_like(&s, sum, tw_op_float(op, "bias", 1)),
                tw_s2(&s, TW_LOOP_MUL, factor, sum));
    sum = tw_s2(&s, TW_LOOP_POW, sum, tw_like(&s, sum, tw_op_float(op, "beta", 0)));
    tw_stage_store_here(&s, tw_s2(&s, TW_LOOP_DIV, tw_load(&s, in[0], here), sum), out[0]);
    return tw_stage_close(&s);
}
