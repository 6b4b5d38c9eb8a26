/* op_resize_symbolic.c: resizing along an axis of symbolic size, or of one that is too large for a
 * table: what resize_table.c computes is computed in the kernel, in the same steps.
 *
 * Where the sizes have a fixed ratio, the positions may have a form in integers that tables of some
 * sizes show: of nearest, twice as large, position o comes from o floordiv 2. */
#include "lower/resize_symbolic.h"

#include <math.h>
#include <string.h>

/* ---- Closed forms ---- */

/* Whether out is a multiple of in. */
static bool is_multiple(tw_context *ctx, tw_expr in, tw_expr out, int64_t *factor)
{
    tw_expr quotient = tw_expr_binary(ctx, TW_EXPR_FLOORDIV, out, in);
    return tw_expr_as_const(quotient, factor) && *factor > 0 &&
           tw_expr_mulc(ctx, in, *factor) == out;
}

/* The positions of tap `tap` as clamp((o * a + b) floordiv c) when tables of several sizes agree.
 */
static bool closed_form(const tw_resize_symbolic *r, unsigned tap, int64_t *a, int64_t *b,
                        int64_t *c)
{
    static const int64_t samples[] = {17, 1, 2, 3, 4, 8, 31, 64};
    int64_t factor;
    if (!is_multiple(r->ctx, r->in, r->out, &factor) || factor > 16)
        return false;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        tw_resize_axis table;
        int64_t in = samples[i];
        if (!tw_resize_table(r->ctx, r->op, r->axis, in, in * factor, &table) ||
            !(i ? tw_resize_fits(&table, tap, *a, *b, *c)
                : tw_resize_closed_form(&table, tap, a, b, c)))
            return false;
    }
    return true;
}

/* ---- Coordinates ---- */

static tw_value *f32(tw_stage *s, double value)
{
    return tw_stage_const(s, TW_F32, value);
}

static double item(const tw_op *op, const char *name, size_t i, double absent)
{
    tw_attr list = tw_op_attr(op, name);
    return list && i < list->u.array.n ? list->u.array.items[i]->u.real : absent;
}

static tw_value *minus(tw_stage *s, tw_value *a, double b)
{
    return tw_s2(s, TW_LOOP_SUB, a, f32(s, b));
}

/* (x + 0.5) / scale - 0.5 */
static tw_value *half_pixel(tw_stage *s, tw_value *x, tw_value *scale)
{
    tw_value *middle = tw_s2(s, TW_LOOP_ADD, x, f32(s, 0.5));
    return minus(s, tw_s2(s, TW_LOOP_DIV, middle, scale), 0.5);
}

/* `value` where the result has more than one element, else `single`. */
static tw_value *unless_single(tw_stage *s, tw_value *out, tw_value *value, tw_value *single)
{
    return tw_stage_select(s, tw_stage_compare(s, "gt", out, f32(s, 1)), value, single);
}

/* The length that corners are aligned to, see resize_table.c. */
static tw_value *full_length(const tw_resize_symbolic *r, tw_stage *s, tw_value *in, tw_value *out,
                             tw_value *scale)
{
    if (r->scale == 0)
        return out;
    tw_value *length = tw_s2(s, TW_LOOP_MUL, scale, in);
    tw_value *off = tw_s1(s, TW_LOOP_ABS, tw_s2(s, TW_LOOP_SUB, length, out));
    return tw_stage_select(s, tw_stage_compare(s, "lt", off, f32(s, 1e-3)), out, length);
}

/* start * (in - 1) + x * (end - start) * (in - 1) / (out - 1) */
static tw_value *crop(const tw_resize_symbolic *r, tw_stage *s, tw_value *x, tw_value *in,
                      tw_value *out)
{
    size_t rank = tw_operand(r->op, 0)->type->rank;
    float start = (float)item(r->op, "roi", r->axis, 0);
    float end = (float)item(r->op, "roi", rank + r->axis, 1);
    tw_value *last = minus(s, in, 1);
    tw_value *step = tw_s2(s, TW_LOOP_MUL, x, f32(s, (double)(end - start)));
    step = tw_s2(s, TW_LOOP_DIV, tw_s2(s, TW_LOOP_MUL, step, last), minus(s, out, 1));
    tw_value *at = tw_s2(s, TW_LOOP_ADD, tw_s2(s, TW_LOOP_MUL, f32(s, (double)start), last), step);
    tw_value *middle = tw_s2(s, TW_LOOP_MUL, f32(s, (double)(0.5f * (start + end))), last);
    return unless_single(s, out, at, middle);
}

/* Where position o of the result lies in the operand. */
static tw_value *coordinate(const tw_resize_symbolic *r, tw_stage *s, tw_expr o)
{
    const char *c = tw_op_string(r->op, "coordinates", "half_pixel");
    tw_value *x = tw_stage_cast(s, tw_stage_index(s, o), TW_F32);
    tw_value *in = tw_stage_size(s, TW_F32, r->in), *out = tw_stage_size(s, TW_F32, r->out);
    tw_value *scale = r->scale == 0 ? tw_s2(s, TW_LOOP_DIV, out, in) : f32(s, r->scale);
    if (!strcmp(c, "asymmetric"))
        return tw_s2(s, TW_LOOP_DIV, x, scale);
    if (!strcmp(c, "align_corners")) {
        tw_value *length = minus(s, full_length(r, s, in, out, scale), 1);
        tw_value *at = tw_s2(s, TW_LOOP_MUL, x, minus(s, in, 1));
        return unless_single(s, out, tw_s2(s, TW_LOOP_DIV, at, length), f32(s, 0));
    }
    if (!strcmp(c, "tf_crop_and_resize"))
        return crop(r, s, x, in, out);
    tw_value *at = half_pixel(s, x, scale);
    if (!strcmp(c, "pytorch_half_pixel"))
        return unless_single(s, out, at, f32(s, 0));
    if (strcmp(c, "half_pixel_symmetric"))
        return at;
    tw_value *adjustment = tw_s2(s, TW_LOOP_DIV, out, tw_s2(s, TW_LOOP_MUL, scale, in));
    tw_value *center = tw_s2(s, TW_LOOP_DIV, in, f32(s, 2));
    tw_value *rest = tw_s2(s, TW_LOOP_SUB, f32(s, 1), adjustment);
    return tw_s2(s, TW_LOOP_ADD, tw_s2(s, TW_LOOP_MUL, center, rest), at);
}

/* ---- Neighbours ---- */

static tw_value *nearest(const tw_resize_symbolic *r, tw_stage *s, tw_value *x)
{
    const char *n = tw_op_string(r->op, "nearest", "round_prefer_floor");
    tw_value *floor = tw_s1(s, TW_LOOP_FLOOR, x);
    if (!strcmp(n, "floor"))
        return floor;
    if (!strcmp(n, "ceil"))
        return tw_s1(s, TW_LOOP_CEIL, x);
    tw_value *middle = tw_s2(s, TW_LOOP_ADD, floor, f32(s, 0.5));
    tw_value *end = strcmp(n, "round_prefer_ceil") ? floor : tw_s1(s, TW_LOOP_CEIL, x);
    return tw_stage_select(s, tw_stage_compare(s, "eq", x, middle), end,
                           tw_s1(s, TW_LOOP_ROUND, x));
}

/* A whole number in floating point as a position of the operand. */
static tw_expr position(const tw_resize_symbolic *r, tw_stage *s, tw_value *at)
{
    tw_value *index = tw_stage_cast(s, at, TW_INDEX);
    tw_expr any = tw_stage_dim(s, index, (tw_range){.lo = INT64_MIN, .hi = INT64_MAX});
    return tw_stage_clamp(s, any, tw_stage_int(s, 0), tw_expr_addc(r->ctx, r->in, -1));
}

/* The cubic filter's weight at distance d. */
static tw_value *cubic(const tw_resize_symbolic *r, tw_stage *s, tw_value *d)
{
    float a = (float)tw_op_float(r->op, "cubic_coeff", -0.75);
    const double near[] = {a + 2, -(a + 3), 0, 1}, far[] = {a, -5 * a, 8 * a, -4 * a};
    d = tw_s1(s, TW_LOOP_ABS, d);
    tw_value *sums[2] = {f32(s, near[0]), f32(s, far[0])};
    for (int i = 1; i < 4; i++) {
        sums[0] = tw_s2(s, TW_LOOP_ADD, tw_s2(s, TW_LOOP_MUL, sums[0], d), f32(s, near[i]));
        sums[1] = tw_s2(s, TW_LOOP_ADD, tw_s2(s, TW_LOOP_MUL, sums[1], d), f32(s, far[i]));
    }
    tw_value *outer =
        tw_stage_select(s, tw_stage_compare(s, "lt", d, f32(s, 2)), sums[1], f32(s, 0));
    return tw_stage_select(s, tw_stage_compare(s, "lt", d, f32(s, 1)), sums[0], outer);
}

/* ---- What op_resize.c uses ---- */

bool tw_resize_symbolic_make(tw_context *ctx, const tw_op *op, unsigned axis, tw_expr in,
                             tw_expr out, tw_resize_symbolic *r)
{
    const char *mode = tw_op_string(op, "mode", "nearest");
    *r = (tw_resize_symbolic){.ctx = ctx, .op = op, .axis = axis, .in = in, .out = out};
    r->scale = (double)(float)item(op, "scales", axis, 0);
    if (r->scale == 0 && tw_expr_is_const(in) && tw_expr_is_const(out))
        r->scale = (double)((float)out->value / (float)in->value);
    r->taps = !strcmp(mode, "nearest") ? 1 : !strcmp(mode, "linear") ? 2 : 4;
    r->shrink = 1;
    bool antialias = r->taps > 1 && tw_op_bool(op, "antialias", false);
    if (antialias && r->scale == 0)
        return tw_error(ctx, op->loc,
                        "resizing with antialias needs known sizes, but axis %u goes from '%s' to "
                        "'%s'; fix them with --shape NAME=…",
                        axis, tw_print_expr(ctx, in, NULL), tw_print_expr(ctx, out, NULL));
    antialias = antialias && r->scale < 1;
    r->row = antialias || (r->taps == 4 && tw_op_bool(op, "exclude_outside", false));
    if (antialias) {
        r->shrink = r->scale;
        r->taps = (unsigned)fminf(ceilf((float)r->taps / (float)r->scale), 0x1p30f) + 1;
    }
    return true;
}

void tw_resize_symbolic_taps(const tw_resize_symbolic *r, tw_stage *s, tw_expr o, tw_expr *taps,
                             tw_value **weights, tw_elem elem)
{
    int64_t a, b, c;
    bool closed = r->taps == 1 && closed_form(r, 0, &a, &b, &c);
    if (closed) {
        tw_expr e = tw_expr_addc(r->ctx, tw_expr_mulc(r->ctx, o, a), b);
        e = tw_expr_binary(r->ctx, TW_EXPR_FLOORDIV, e, tw_expr_const(r->ctx, c));
        taps[0] = tw_stage_clamp(s, e, tw_stage_int(s, 0), tw_expr_addc(r->ctx, r->in, -1));
        return;
    }
    tw_value *x = coordinate(r, s, o);
    if (r->taps == 1) {
        taps[0] = position(r, s, nearest(r, s, x));
        return;
    }
    tw_value *low = tw_s1(s, TW_LOOP_FLOOR, x);
    for (unsigned k = 0; k < r->taps; k++) {
        double offset = r->taps == 2 ? (double)k : (double)k - 1;
        tw_value *at = tw_s2(s, TW_LOOP_ADD, low, f32(s, offset));
        taps[k] = position(r, s, at);
        if (r->taps == 4)
            weights[k] = tw_stage_cast(s, cubic(r, s, tw_s2(s, TW_LOOP_SUB, x, at)), elem);
    }
    if (r->taps == 2) {
        weights[1] = tw_stage_cast(s, tw_s2(s, TW_LOOP_SUB, x, low), elem);
        weights[0] = tw_s2(s, TW_LOOP_SUB, tw_like(s, weights[1], 1), weights[1]);
    }
}

tw_value *tw_resize_symbolic_tap(const tw_resize_symbolic *r, tw_stage *s, tw_expr o, tw_expr t,
                                 tw_expr *at)
{
    bool linear = !strcmp(tw_op_string(r->op, "mode", "nearest"), "linear");
    tw_value *x = coordinate(r, s, o), *zero = f32(s, 0);
    double support = (double)((linear ? 1 : 2) / (float)r->shrink);
    tw_value *first = r->shrink < 1 ? minus(s, tw_s2(s, TW_LOOP_ADD, x, f32(s, 0.5)), support)
                      : linear      ? x
                                    : minus(s, x, 1);
    tw_value *tap = tw_stage_cast(s, tw_stage_index(s, t), TW_F32);
    tw_value *place = tw_s2(s, TW_LOOP_ADD, tw_s1(s, TW_LOOP_FLOOR, first), tap);
    tw_value *distance = tw_s2(s, TW_LOOP_MUL, tw_s2(s, TW_LOOP_SUB, x, place), f32(s, r->shrink));
    tw_value *weight =
        linear ? tw_s2(s, TW_LOOP_MAX,
                       tw_s2(s, TW_LOOP_SUB, f32(s, 1), tw_s1(s, TW_LOOP_ABS, distance)), zero)
               : cubic(r, s, distance);
    *at = position(r, s, place);
    if (!tw_op_bool(r->op, "exclude_outside", false) || (linear && r->shrink == 1))
        return weight;
    tw_value *below = tw_stage_compare(s, "lt", place, zero);
    tw_value *above = tw_stage_compare(s, "ge", place, tw_stage_size(s, TW_F32, r->in));
    return tw_stage_select(s, tw_s2(s, TW_LOOP_OR, below, above), zero, weight);
}

tw_value *tw_resize_symbolic_outside(const tw_resize_symbolic *r, tw_stage *s, tw_expr o)
{
    tw_value *x = coordinate(r, s, o), *last = minus(s, tw_stage_size(s, TW_F32, r->in), 1);
    tw_value *below = tw_stage_compare(s, "lt", x, f32(s, 0));
    return tw_s2(s, TW_LOOP_OR, below, tw_stage_compare(s, "gt", x, last));
}
