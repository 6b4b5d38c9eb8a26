/* op_resize.c: resizing by tables that are computed here (resize_table.c), or by what the kernel
 * computes where sizes are open or tables too large (resize_symbolic.h).
 *
 * Nearest and linear are one block, with a load for each combination of neighbours; index tables
 * become expressions where a closed form exists. Cubic and antialiased modes go axis by axis, each
 * a sum over taps. */
#include "lower/lowering.h"
#include "lower/resize_symbolic.h"
#include "lower/resize_table.h"

#include <string.h>

typedef struct resize {
    tw_lowering *l;
    tw_op *op;
    unsigned rank;
    bool resized[TW_MAX_RANK], symbolic[TW_MAX_RANK]; /* symbolic: without a table */
    tw_resize_axis axes[TW_MAX_RANK];                 /* of one without a table `taps` alone */
    tw_resize_symbolic computed[TW_MAX_RANK];
    bool extrapolates;
    tw_elem elem; /* of the arithmetic */
} resize;

static bool make_tables(resize *r, const tw_value *x, const tw_value *out)
{
    bool crop = !strcmp(tw_op_string(r->op, "coordinates", ""), "tf_crop_and_resize");
    tw_attr scales = tw_op_attr(r->op, "scales");
    for (unsigned i = 0; i < r->rank; i++) {
        tw_attr scale = i < scales->u.array.n ? scales->u.array.items[i] : NULL;
        bool unit = !scale || scale->u.real == 1 || scale->kind != TW_ATTR_FLOAT;
        tw_expr from = tw_size(x, i), to = tw_size(out, i);
        int64_t in, n;
        r->resized[i] = from != to || !unit || crop;
        if (!r->resized[i])
            continue;
        bool known = tw_expr_as_const(from, &in) && tw_expr_as_const(to, &n);
        if (known && !tw_resize_table(r->l->ctx, r->op, i, in, n, &r->axes[i]))
            return false;
        r->symbolic[i] = !known || !r->axes[i].index;
        if (r->symbolic[i]) {
            if (!tw_resize_symbolic_make(r->l->ctx, r->op, i, from, to, &r->computed[i]))
                return false;
            r->axes[i].taps = r->computed[i].taps;
            r->extrapolates = r->extrapolates || crop;
            continue;
        }
        for (int64_t o = 0; r->axes[i].outside && o < r->axes[i].out; o++)
            r->extrapolates = r->extrapolates || r->axes[i].outside[o];
    }
    return true;
}

/* ---- Tables in the kernel ---- */

/* The operand's position for tap `tap` (one of all) at stage axis `at`. */
static tw_expr tap_index(resize *r, tw_stage *s, unsigned axis, unsigned tap, tw_expr at)
{
    const tw_resize_axis *t = &r->axes[axis];
    tw_context *ctx = r->l->ctx;
    int64_t a, b, c;
    if (tw_resize_closed_form(t, tap, &a, &b, &c)) {
        tw_expr e = tw_expr_addc(ctx, tw_expr_mulc(ctx, at, a), b);
        e = tw_expr_binary(ctx, TW_EXPR_FLOORDIV, e, tw_expr_const(ctx, c));
        return tw_stage_clamp(s, e, tw_stage_int(s, 0), tw_stage_int(s, t->in - 1));
    }
    int64_t *column = TW_NEW_ARRAY(r->l->arena, int64_t, (size_t)t->out);
    for (int64_t o = 0; o < t->out; o++)
        column[o] = t->index[o * t->taps + tap];
    tw_value *table =
        tw_lowering_table(r->l, TW_I64, 1, &t->out, column, (size_t)t->out * sizeof *column);
    return tw_stage_dim(s, tw_stage_load(s, table, &at), (tw_range){.lo = 0, .hi = t->in - 1});
}

static tw_value *tap_weight(resize *r, tw_stage *s, unsigned axis, unsigned tap, tw_expr at)
{
    const tw_resize_axis *t = &r->axes[axis];
    float *column = TW_NEW_ARRAY(r->l->arena, float, (size_t)t->out);
    for (int64_t o = 0; o < t->out; o++)
        column[o] = t->weight[o * t->taps + tap];
    tw_value *table =
        tw_lowering_table(r->l, TW_F32, 1, &t->out, column, (size_t)t->out * sizeof *column);
    return tw_stage_cast(s, tw_stage_load(s, table, &at), r->elem);
}

/* The extrapolated value where some axis lies outside, else v. */
static tw_value *extrapolate(resize *r, tw_stage *s, tw_value *v)
{
    tw_value *other = tw_like(s, v, tw_op_float(r->op, "extrapolation", 0));
    for (unsigned i = 0; i < r->rank && r->extrapolates; i++) {
        const tw_resize_axis *t = &r->axes[i];
        if (!r->resized[i])
            continue;
        if (r->symbolic[i]) {
            tw_value *outside = tw_resize_symbolic_outside(&r->computed[i], s, tw_stage_axis(s, i));
            v = tw_stage_select(s, outside, other, v);
            continue;
        }
        tw_value *table = tw_lowering_table(r->l, TW_BOOL, 1, &t->out, t->outside, (size_t)t->out);
        tw_expr at = tw_stage_axis(s, i);
        v = tw_stage_select(s, tw_stage_load(s, table, &at), other, v);
    }
    if (!other->uses)
        tw_op_erase(other->op);
    return v;
}

/* ---- Nearest and linear, and all of symbolic sizes ---- */

enum { MAX_TAPS = 4 };

/* Interpolates the axes from `axis` on; those in front have their index. The number of resized
 * axes bounds the depth. */
static tw_value *interpolate(resize *r, tw_stage *s, tw_value *x, unsigned axis, tw_expr *index,
                             tw_expr (*taps)[MAX_TAPS], tw_value *(*weights)[MAX_TAPS])
{
    while (axis < r->rank && !r->resized[axis])
        axis++;
    if (axis == r->rank)
        return tw_stage_cast(s, tw_stage_load(s, x, index), r->elem);
    tw_value *sum = NULL;
    for (unsigned k = 0; k < r->axes[axis].taps; k++) {
        index[axis] = taps[axis][k];
        tw_value *v = interpolate(r, s, x, axis + 1, index, taps, weights);
        if (r->axes[axis].taps > 1)
            v = tw_s2(s, TW_LOOP_MUL, v, weights[axis][k]);
        sum = sum ? tw_s2(s, TW_LOOP_ADD, sum, v) : v;
    }
    return sum;
}

static bool lower_direct(resize *r, tw_value *x, tw_value *out)
{
    tw_stage s;
    tw_expr index[TW_MAX_RANK], taps[TW_MAX_RANK][MAX_TAPS];
    tw_value *weights[TW_MAX_RANK][MAX_TAPS];
    tw_stage_elementwise(r->l, &s, "resize", out);
    for (unsigned i = 0; i < r->rank; i++) {
        index[i] = tw_stage_axis(&s, i);
        if (r->symbolic[i]) {
            tw_resize_symbolic_taps(&r->computed[i], &s, index[i], taps[i], weights[i], r->elem);
            continue;
        }
        for (unsigned k = 0; r->resized[i] && k < r->axes[i].taps; k++) {
            taps[i][k] = tap_index(r, &s, i, k, index[i]);
        }
        if (r->resized[i] && r->axes[i].taps == 2) {
            weights[i][1] = tap_weight(r, &s, i, 1, index[i]);
            weights[i][0] = tw_s2(&s, TW_LOOP_SUB, tw_like(&s, weights[i][1], 1), weights[i][1]);
        }
        for (unsigned k = 0; r->resized[i] && r->axes[i].taps > 2 && k < r->axes[i].taps; k++)
            weights[i][k] = tap_weight(r, &s, i, k, index[i]);
    }
    tw_value *v = interpolate(r, &s, x, 0, index, taps, weights);
    tw_stage_store_here(&s, extrapolate(r, &s, v), out);
    return tw_stage_close(&s);
}

/* ---- Axis by axis ---- */

/* Position and weight of the tap that the stage's last axis counts. */
static tw_value *table_tap(resize *r, tw_stage *s, unsigned axis, tw_expr *position)
{
    const tw_resize_axis *t = &r->axes[axis];
    int64_t shape[] = {t->out, t->taps};
    size_t n = (size_t)t->out * t->taps;
    tw_value *positions = tw_lowering_table(r->l, TW_I64, 2, shape, t->index, n * sizeof *t->index);
    tw_value *weights = tw_lowering_table(r->l, TW_F32, 2, shape, t->weight, n * sizeof *t->weight);
    tw_expr at[] = {tw_stage_axis(s, axis), tw_stage_axis(s, r->rank)};
    *position =
        tw_stage_dim(s, tw_stage_load(s, positions, at), (tw_range){.lo = 0, .hi = t->in - 1});
    return tw_stage_load(s, weights, at);
}

/* The sum of the weights of each position, which is computed once. */
static tw_value *lower_totals(resize *r, unsigned axis)
{
    const tw_resize_symbolic *c = &r->computed[axis];
    tw_context *ctx = r->l->ctx;
    tw_expr out = c->out, o = tw_expr_dim(ctx, 0), unused;
    tw_axis axes[] = {{"o", out, false}, {"t", tw_expr_const(ctx, c->taps), true}};
    tw_value *totals = tw_lowering_alloc(r->l, TW_F32, 1, &out, "totals");
    tw_stage s;
    tw_stage_open(r->l, &s, "resize_weights", axes, 2);
    tw_value *w = tw_resize_symbolic_tap(c, &s, o, tw_stage_axis(&s, 1), &unused);
    tw_stage_reduce(&s, "add", 0, w, totals, &o);
    tw_stage_close(&s);
    return totals;
}

static tw_value *computed_tap(resize *r, tw_stage *s, unsigned axis, tw_value *totals,
                              tw_expr *position)
{
    tw_expr o = tw_stage_axis(s, axis);
    tw_value *w =
        tw_resize_symbolic_tap(&r->computed[axis], s, o, tw_stage_axis(s, r->rank), position);
    if (!totals)
        return w;
    tw_value *total = tw_stage_load(s, totals, &o);
    tw_value *some = tw_stage_compare(s, "ne", total, tw_like(s, total, 0));
    return tw_stage_select(s, some, tw_s2(s, TW_LOOP_DIV, w, total), w);
}

static tw_value *lower_axis(resize *r, unsigned axis, tw_value *x, tw_expr *dims, tw_expr size)
{
    tw_axis axes[TW_MAX_RANK + 1];
    tw_context *ctx = r->l->ctx;
    tw_expr index[TW_MAX_RANK], result[TW_MAX_RANK];
    dims[axis] = size;
    for (unsigned i = 0; i < r->rank; i++) {
        axes[i] = (tw_axis){tw_arena_printf(r->l->arena, "i%u", i), dims[i], false};
        index[i] = result[i] = tw_expr_dim(ctx, i);
    }
    axes[r->rank] = (tw_axis){"t", tw_expr_const(ctx, r->axes[axis].taps), true};
    tw_value *to = tw_lowering_alloc(r->l, r->elem, r->rank, dims, "resized");
    bool computed = r->symbolic[axis];
    tw_value *totals = computed && r->computed[axis].row ? lower_totals(r, axis) : NULL;
    tw_stage s;
    tw_stage_open(r->l, &s, "resize_axis", axes, r->rank + 1);
    tw_value *w = computed ? computed_tap(r, &s, axis, totals, &index[axis])
                           : table_tap(r, &s, axis, &index[axis]);
    w = tw_stage_cast(&s, w, r->elem);
    tw_value *v = tw_stage_cast(&s, tw_stage_load(&s, x, index), r->elem);
    tw_stage_reduce_product(&s, v, w, to, result);
    tw_stage_close(&s);
    return to;
}

static bool lower_separable(resize *r, tw_value *x, tw_value *out)
{
    tw_expr dims[TW_MAX_RANK];
    for (unsigned i = 0; i < r->rank; i++)
        dims[i] = tw_size(x, i);
    for (unsigned i = 0; i < r->rank; i++)
        if (r->resized[i])
            x = lower_axis(r, i, x, dims, tw_size(out, i));
    tw_stage s;
    tw_stage_elementwise(r->l, &s, "resize", out);
    tw_value *v = tw_stage_load_broadcast(&s, x, r->rank);
    tw_stage_store_here(&s, extrapolate(r, &s, v), out);
    return tw_stage_close(&s);
}

bool tw_lower_resize(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    resize r = {.l = l, .op = op, .rank = in[0]->type->rank};
    enum { MAX_CORNERS = 16 }; /* loads for one element */
    bool symbolic = false, is_nearest = !strcmp(tw_op_string(op, "mode", "nearest"), "nearest"),
         few = true;
    unsigned corners = 1;
    tw_elem elem = in[0]->type->elem;
    r.elem = is_nearest ? elem : elem == TW_F64 ? TW_F64 : TW_F32;
    if (tw_is_empty(in[0]))
        return tw_lower_from_nothing(l, op, out[0]);
    if (!make_tables(&r, in[0], out[0]))
        return false;
    for (unsigned i = 0; i < r.rank; i++)
        symbolic = symbolic || r.symbolic[i];
    for (unsigned i = 0; i < r.rank; i++)
        if (r.resized[i]) {
            few = few && r.axes[i].taps <= (symbolic ? MAX_TAPS : 2) && !r.computed[i].row;
            corners *= few ? r.axes[i].taps : 1;
            few = few && corners <= MAX_CORNERS;
        }
    return few ? lower_direct(&r, in[0], out[0]) : lower_separable(&r, in[0], out[0]);
}
