/* resize_table.c: coordinates, neighbours and weights of resizing along one axis. */
#include "lower/resize_table.h"

#include "base/arena.h"

#include <math.h>
#include <string.h>

typedef struct axis_spec {
    const tw_op *op;
    const char *mode, *coordinates, *nearest;
    float scale; /* out / in, as the model says */
    float roi_start, roi_end;
    int64_t in, out;
    bool exclude_outside;
    float cubic;
} axis_spec;

static double item(const tw_op *op, const char *name, size_t i, double absent)
{
    tw_attr list = tw_op_attr(op, name);
    if (!list || i >= list->u.array.n)
        return absent;
    tw_attr a = list->u.array.items[i];
    return a->kind == TW_ATTR_FLOAT ? a->u.real : (double)a->u.integer;
}

/* The length that corners are aligned to: in * scale before it is rounded down to the result's
 * size, as ONNX's test data has it. A scale that was made from a size gives that size. */
static float full_length(const axis_spec *s)
{
    float length = s->scale * (float)s->in, out = (float)s->out;
    return fabsf(length - out) < 1e-3f ? out : length;
}

/* Where position o of the result lies in the operand. */
static float coordinate(const axis_spec *s, int64_t o)
{
    float x = (float)o, in = (float)s->in, out = (float)s->out;
    const char *c = s->coordinates;
    if (!strcmp(c, "asymmetric"))
        return x / s->scale;
    if (!strcmp(c, "align_corners"))
        return s->out == 1 ? 0 : x * (in - 1) / (full_length(s) - 1);
    if (!strcmp(c, "pytorch_half_pixel"))
        return s->out > 1 ? (x + 0.5f) / s->scale - 0.5f : 0;
    if (!strcmp(c, "tf_crop_and_resize"))
        return s->out > 1 ? s->roi_start * (in - 1) +
                                x * (s->roi_end - s->roi_start) * (in - 1) / (out - 1)
                          : 0.5f * (s->roi_start + s->roi_end) * (in - 1);
    if (!strcmp(c, "half_pixel_symmetric")) {
        float adjustment = out / (s->scale * in), center = in / 2;
        return center * (1 - adjustment) + (x + 0.5f) / s->scale - 0.5f;
    }
    return (x + 0.5f) / s->scale - 0.5f;
}

static int64_t clamp(int64_t v, int64_t hi)
{
    return v < 0 ? 0 : v > hi ? hi : v;
}

static int64_t nearest(const axis_spec *s, float x)
{
    const char *n = s->nearest;
    if (!strcmp(n, "floor"))
        return (int64_t)floorf(x);
    if (!strcmp(n, "ceil"))
        return (int64_t)ceilf(x);
    bool half = x == floorf(x) + 0.5f;
    if (half)
        return (int64_t)(strcmp(n, "round_prefer_ceil") ? floorf(x) : ceilf(x));
    return (int64_t)roundf(x);
}

/* Weight of a neighbour at distance d. */
static float filter(const axis_spec *s, float d)
{
    float a = s->cubic;
    d = fabsf(d);
    if (!strcmp(s->mode, "linear"))
        return d < 1 ? 1 - d : 0;
    if (d < 1)
        return ((a + 2) * d - (a + 3)) * d * d + 1;
    return d < 2 ? (((d - 5) * d + 8) * d - 4) * a : 0;
}

/* One row: neighbours first … first + taps - 1, at distances scaled by `shrink`. */
static void weigh(const axis_spec *s, const tw_resize_axis *t, int64_t o, float x, int64_t first,
                  float shrink, bool normalise)
{
    float total = 0;
    int64_t *index = t->index + o * t->taps;
    float *weight = t->weight + o * t->taps;
    for (unsigned k = 0; k < t->taps; k++) {
        int64_t at = first + k;
        bool inside = at >= 0 && at < s->in;
        weight[k] = inside || !s->exclude_outside ? filter(s, (x - (float)at) * shrink) : 0;
        index[k] = clamp(at, s->in - 1);
        total += weight[k];
    }
    for (unsigned k = 0; k < t->taps && normalise && total != 0; k++)
        weight[k] /= total;
}

/* Two neighbours. Beyond the ends they are the same element, so that the weights, which repeat with
 * the ratio of sizes, do not matter there. */
static void interpolate(const axis_spec *s, const tw_resize_axis *t, int64_t o, float x)
{
    float low = floorf(x);
    t->index[2 * o] = clamp((int64_t)low, s->in - 1);
    t->index[2 * o + 1] = clamp((int64_t)low + 1, s->in - 1);
    t->weight[2 * o + 1] = x - low;
    t->weight[2 * o] = 1 - t->weight[2 * o + 1];
}

static void fill_row(const axis_spec *s, const tw_resize_axis *t, int64_t o, float shrink,
                     bool antialias)
{
    float x = coordinate(s, o);
    bool linear = !strcmp(s->mode, "linear");
    if (t->outside)
        t->outside[o] = x < 0 || x > (float)(s->in - 1);
    if (!strcmp(s->mode, "nearest")) {
        t->index[o] = clamp(nearest(s, x), s->in - 1);
        t->weight[o] = 1;
    } else if (antialias) {
        float support = (linear ? 1 : 2) / shrink;
        weigh(s, t, o, x, (int64_t)floorf(x + 0.5f - support), shrink, true);
    } else if (linear) {
        interpolate(s, t, o, x);
    } else {
        weigh(s, t, o, x, (int64_t)floorf(x) - 1, 1, s->exclude_outside);
    }
}

static bool known(tw_context *ctx, const tw_op *op, const char *what, const char *value,
                  const char *const *values)
{
    for (; *values; values++)
        if (!strcmp(*values, value))
            return true;
    return tw_error(ctx, op->loc, "graph.resize has no %s '%s'", what, value);
}

static bool check(tw_context *ctx, const axis_spec *s)
{
    static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
    static const char *const coordinates[] = {"half_pixel",
                                              "half_pixel_symmetric",
                                              "pytorch_half_pixel",
                                              "align_corners",
                                              "asymmetric",
                                              "tf_crop_and_resize",
                                              NULL};
    static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                            "ceil", NULL};
    if (!(s->scale > 0) || s->in <= 0)
        return tw_error(ctx, s->op->loc, "graph.resize needs scales above 0 and no empty axis");
    return known(ctx, s->op, "mode", s->mode, modes) &&
           known(ctx, s->op, "coordinates", s->coordinates, coordinates) &&
           known(ctx, s->op, "rounding", s->nearest, roundings);
}

bool tw_resize_table(tw_context *ctx, const tw_op *op, unsigned axis, int64_t in, int64_t out,
                     tw_resize_axis *table)
{
    tw_attr scales = tw_op_attr(op, "scales");
    size_t rank = scales->u.array.n;
    axis_spec s = {.op = op,
                   .mode = tw_op_string(op, "mode", "nearest"),
                   .coordinates = tw_op_string(op, "coordinates", "half_pixel"),
                   .nearest = tw_op_string(op, "nearest", "round_prefer_floor"),
                   .scale = (float)item(op, "scales", axis, 0),
                   .roi_start = (float)item(op, "roi", axis, 0),
                   .roi_end = (float)item(op, "roi", rank + axis, 1),
                   .in = in,
                   .out = out,
                   .exclude_outside = tw_op_bool(op, "exclude_outside", false),
                   .cubic = (float)tw_op_float(op, "cubic_coeff", -0.75)};
    if (s.scale == 0) /* the ratio of the sizes */
        s.scale = (float)out / (float)in;
    if (!check(ctx, &s))
        return false;
    bool is_nearest = !strcmp(s.mode, "nearest"), linear = !strcmp(s.mode, "linear");
    bool antialias = tw_op_bool(op, "antialias", false) && s.scale < 1 && !is_nearest;
    float shrink = antialias ? s.scale : 1;
    *table = (tw_resize_axis){.in = in, .out = out, .taps = is_nearest ? 1 : linear ? 2 : 4};
    if (antialias)
        table->taps = (unsigned)fminf(ceilf(2 * (linear ? 1 : 2) / shrink), 0x1p30f) + 1;
    if (out > TW_RESIZE_MAX_ENTRIES / table->taps)
        return true;
    size_t n = (size_t)out * table->taps;
    tw_arena *arena = tw_context_arena(ctx);
    table->index = TW_NEW_ARRAY(arena, int64_t, n);
    table->weight = TW_NEW_ARRAY(arena, float, n);
    if (!strcmp(s.coordinates, "tf_crop_and_resize"))
        table->outside = TW_NEW_ARRAY(arena, bool, (size_t)out);
    for (int64_t o = 0; o < out; o++)
        fill_row(&s, table, o, shrink, antialias);
    return true;
}

/* ---- Closed form ---- */

bool tw_resize_fits(const tw_resize_axis *t, unsigned tap, int64_t a, int64_t b, int64_t c)
{
    for (int64_t o = 0; o < t->out; o++) {
        int64_t n = o * a + b;
        int64_t q = n >= 0 ? n / c : -((-n + c - 1) / c);
        if (clamp(q, t->in - 1) != t->index[o * t->taps + tap])
            return false;
    }
    return true;
}

static int64_t gcd(int64_t a, int64_t b)
{
    return b ? gcd(b, a % b) : a;
}

/* Tries the ratios in/out and (in-1)/(out-1) with offsets in halves of a step. */
bool tw_resize_closed_form(const tw_resize_axis *t, unsigned tap, int64_t *a, int64_t *b,
                           int64_t *c)
{
    enum { MAX_DENOMINATOR = 64 };
    const int64_t ratios[2][2] = {{t->in, t->out}, {t->in - 1, t->out - 1}};
    for (int r = 0; r < 2; r++) {
        if (ratios[r][0] <= 0 || ratios[r][1] <= 0)
            continue;
        int64_t g = gcd(ratios[r][0], ratios[r][1]);
        for (int half = 1; half <= 2; half++) {
            *a = half * ratios[r][0] / g;
            *c = half * ratios[r][1] / g;
            if (*c > MAX_DENOMINATOR || *a > INT32_MAX)
                continue;
            for (*b = -*c; *b <= *c + *a; (*b)++)
                if (tw_resize_fits(t, tap, *a, *b, *c))
                    return true;
        }
    }
    return false;
}
