/* op_resize.c: Resize and Upsample, all versions. */
#include "import/onnx/resize.h"

#include <math.h>
#include <string.h>

/* What a resize is asked to do; one entry for each axis of the input. */
typedef struct resize {
    unsigned rank;
    double scales[TW_MAX_RANK]; /* 0: the ratio of the sizes */
    tw_expr dims[TW_MAX_RANK];
    double roi[2 * TW_MAX_RANK];
    const char *mode, *coordinates, *nearest;
} resize;

static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
static const char *const policies[] = {"stretch", "not_larger", "not_smaller", NULL};

static bool one_of(tw_onnx_node *n, const char *name, const char *value, const char *const *known)
{
    for (; *known; known++)
        if (!strcmp(*known, value))
            return true;
    return tw_onnx_error(n, "attribute '%s' has the unknown value '%s'", name, value);
}

/* Whether the scale is exactly a small fraction. */
static bool is_fraction(double scale, int64_t *num, int64_t *den)
{
    enum { MAX_DEN = 1024 };
    for (*den = 1; scale > 0 && scale < 1e6 && *den <= MAX_DEN; *den *= 2) {
        double exact = (double)(float)scale * (double)*den;
        *num = (int64_t)exact;
        if (exact == floor(exact) && *num >= 1)
            return true;
    }
    return false;
}

/* floor(size * scale) in floats, as an i64 scalar. */
static tw_value *scale_size(tw_onnx_node *n, unsigned axis, tw_value *scale)
{
    tw_gb *g = n->g;
    tw_value *size = tw_gb_cast(g, tw_onnx_size_of(g, n->in[0], axis), TW_F32);
    tw_value *product = tw_gb_binary(g, TW_GRAPH_MUL, size, scale);
    return tw_gb_cast(g, tw_gb_unary(g, TW_GRAPH_FLOOR, product), TW_I64);
}

/* The same as a size; where no expression gives it, the model computes it. */
static tw_expr scaled_size(tw_onnx_node *n, unsigned axis, double scale)
{
    int64_t value, num, den;
    tw_expr size = n->in[0]->type->dims[axis], declared[TW_MAX_RANK];
    if (!(scale > 0 && scale < 1e6))
        return tw_gb_error(n->g, "the scale %g", scale);
    if (tw_expr_as_const(size, &value)) {
        double result = floorf((float)value * (float)scale);
        return result < 0x1p53 ? tw_gb_const(n->g, (int64_t)result)
                               : tw_gb_error(n->g, "the scale %g", scale);
    }
    if (is_fraction(scale, &num, &den))
        return tw_expr_binary(n->ctx, TW_EXPR_FLOORDIV, tw_expr_mulc(n->ctx, size, num),
                              tw_gb_const(n->g, den));
    tw_onnx_declared_dims(n, 0, n->in[0]->type->rank, declared);
    return tw_onnx_bind_size(n, scale_size(n, axis, tw_gb_scalar(n->g, TW_F32, scale)),
                             declared[axis], "scaled size");
}

static bool take_scales(tw_onnx_node *n, resize *r, const double *scales, size_t count,
                        const unsigned *axes)
{
    for (size_t i = 0; i < count; i++) {
        unsigned axis = axes[i];
        r->scales[axis] = scales[i];
        r->dims[axis] = scaled_size(n, axis, scales[i]);
        if (!r->dims[axis])
            return false;
    }
    return true;
}

static double ratio_of(tw_onnx_node *n, tw_expr to, tw_expr from)
{
    int64_t a, b;
    if (tw_expr_as_const(to, &a) && tw_expr_as_const(from, &b))
        return b > 0 ? (double)((float)a / (float)b) : 1;
    /* 2*h of h is 2 */
    tw_expr quotient = tw_expr_binary(n->ctx, TW_EXPR_FLOORDIV, to, from);
    return tw_expr_as_const(quotient, &a) && a > 0 && tw_expr_mulc(n->ctx, from, a) == to
               ? (double)a
               : 0;
}

/* keep_aspect_ratio_policy: one scale for all resized axes, the sizes rounded to it. */
static bool keep_ratio(tw_onnx_node *n, resize *r, const tw_expr *sizes, size_t count,
                       const unsigned *axes, bool larger)
{
    float best = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t to, from;
        if (!tw_expr_as_const(sizes[i], &to) ||
            !tw_expr_as_const(n->in[0]->type->dims[axes[i]], &from) || from <= 0)
            return tw_onnx_error(n, "%s has no elements to resize",
                                 tw_gb_type_text(n->g, n->in[0]->type));
        float scale = (float)to / (float)from;
        best = i == 0 || (larger ? scale > best : scale < best) ? scale : best;
    }
    for (size_t i = 0; i < count; i++) {
        float from = (float)n->in[0]->type->dims[axes[i]]->value;
        r->dims[axes[i]] = tw_gb_const(n->g, (int64_t)roundf(best * from));
        r->scales[axes[i]] = (double)best;
    }
    return true;
}

static bool take_sizes(tw_onnx_node *n, resize *r, const tw_expr *sizes, size_t count,
                       const unsigned *axes)
{
    bool ok = true;
    const char *policy = tw_onnx_string(n, "keep_aspect_ratio_policy", "stretch", &ok);
    if (!ok)
        return false;
    bool larger = !strcmp(policy, "not_smaller");
    if (larger || !strcmp(policy, "not_larger"))
        return keep_ratio(n, r, sizes, count, axes, larger);
    if (!one_of(n, "keep_aspect_ratio_policy", policy, policies))
        return false;
    for (size_t i = 0; i < count; i++) {
        r->dims[axes[i]] = sizes[i];
        r->scales[axes[i]] = ratio_of(n, sizes[i], n->in[0]->type->dims[axes[i]]);
    }
    return true;
}

/* The axes that scales, sizes and roi speak of: all, or those of the attribute. */
static bool read_axes(tw_onnx_node *n, unsigned *axes, size_t *count)
{
    bool ok = true;
    unsigned rank = n->in[0]->type->rank;
    uint32_t seen;
    const int64_t *given = tw_onnx_int_list(n, "axes", count, &ok);
    if (!given)
        *count = rank;
    if (!ok || (given && !tw_onnx_axes(n, given, *count, rank, &seen)))
        return false;
    for (size_t i = 0; i < *count; i++)
        if (given)
            tw_onnx_axis(n, given[i], rank, &axes[i]);
        else
            axes[i] = (unsigned)i;
    return true;
}

static void start(tw_onnx_node *n, resize *r)
{
    *r = (resize){.rank = n->in[0]->type->rank, .nearest = "floor", .coordinates = "asymmetric"};
    for (unsigned i = 0; i < r->rank; i++) {
        r->scales[i] = 1;
        r->dims[i] = n->in[0]->type->dims[i];
        r->roi[r->rank + i] = 1;
    }
}

/* The region of tf_crop_and_resize: starts, then ends, of the axes. */
static bool read_roi(tw_onnx_node *n, resize *r, const unsigned *axes, size_t count)
{
    size_t given;
    if (strcmp(r->coordinates, "tf_crop_and_resize"))
        return true;
    const double *roi = tw_onnx_in(n, 1) ? tw_onnx_known_reals(n, 1, &given)
                                         : tw_gb_error(n->g, "input 1, roi, is missing");
    if (!roi || given != 2 * count)
        return roi ? tw_onnx_error(n, "roi has %zu entries; %zu are needed", given, 2 * count)
                   : false;
    for (size_t i = 0; i < count; i++) {
        r->roi[axes[i]] = roi[i];
        r->roi[r->rank + axes[i]] = roi[count + i];
    }
    return true;
}

/* ---- The operation ---- */

/* An axis that is not keeps its elements, exactly. */
static bool is_resized(tw_onnx_node *n, const resize *r, unsigned i)
{
    return r->dims[i] != n->in[0]->type->dims[i] || r->scales[i] != 1 || r->roi[i] != 0 ||
           r->roi[r->rank + i] != 1;
}

/* Whether there are open sizes, and what graph.resize does only with known ones: weights that
 * depend on the size, or more neighbours than one loop should read. */
static bool goes_by_axes(tw_onnx_node *n, const resize *r, bool exclude, bool antialias)
{
    enum { MAX_NEIGHBOURS = 16 };
    unsigned taps = !strcmp(r->mode, "nearest") ? 1 : !strcmp(r->mode, "linear") ? 2 : 4, all = 1;
    bool open = false;
    for (unsigned i = 0; i < r->rank; i++) {
        bool resized = is_resized(n, r, i) || !strcmp(r->coordinates, "tf_crop_and_resize");
        open |= resized &&
                (!tw_expr_is_const(r->dims[i]) || !tw_expr_is_const(n->in[0]->type->dims[i]));
        all *= resized && all <= MAX_NEIGHBOURS ? taps : 1;
    }
    return open && ((antialias && taps > 1) || (exclude && taps == 4) || all > MAX_NEIGHBOURS);
}

static bool read_numbers(tw_onnx_node *n, const resize *from, tw_onnx_resize *r)
{
    bool ok = true;
    *r = (tw_onnx_resize){.mode = from->mode,
                          .coordinates = from->coordinates,
                          .nearest = from->nearest,
                          .cubic = tw_onnx_float(n, "cubic_coeff_a", -0.75, &ok),
                          .outside = tw_onnx_float(n, "extrapolation_value", 0, &ok),
                          .exclude_outside = tw_onnx_int(n, "exclude_outside", 0, &ok),
                          .antialias = tw_onnx_int(n, "antialias", 0, &ok)};
    return ok;
}

/* The scale of an axis as the ratio of its sizes. */
static tw_value *size_ratio(tw_onnx_node *n, tw_value *size, unsigned axis)
{
    tw_gb *g = n->g;
    return tw_gb_binary(g, TW_GRAPH_DIV, tw_gb_cast(g, size, TW_F32),
                        tw_gb_cast(g, tw_onnx_size_of(g, n->in[0], axis), TW_F32));
}

/* One axis after the other, with scales that are known or follow from sizes. */
static bool finish_by_axes(tw_onnx_node *n, const resize *from)
{
    tw_gb *g = n->g;
    tw_onnx_resize r;
    if (!read_numbers(n, from, &r))
        return false;
    for (unsigned i = 0; i < from->rank; i++) {
        r.dims[i] = from->dims[i];
        if (!is_resized(n, from, i))
            continue;
        r.size[i] = tw_onnx_size_value(g, from->dims[i]);
        r.scale[i] = from->scales[i] ? tw_gb_scalar(g, TW_F32, from->scales[i])
                                     : size_ratio(n, r.size[i], i);
        r.roi_start[i] = tw_gb_scalar(g, TW_F32, from->roi[i]);
        r.roi_end[i] = tw_gb_scalar(g, TW_F32, from->roi[from->rank + i]);
    }
    return tw_onnx_set(n, 0, tw_onnx_resize_axes(n, n->in[0], &r));
}

static bool finish(tw_onnx_node *n, const resize *r)
{
    bool ok = true;
    tw_gb *g = n->g;
    tw_attr scales[TW_MAX_RANK], roi[2 * TW_MAX_RANK];
    double cubic = tw_onnx_float(n, "cubic_coeff_a", -0.75, &ok);
    double outside = tw_onnx_float(n, "extrapolation_value", 0, &ok);
    int64_t exclude = tw_onnx_int(n, "exclude_outside", 0, &ok);
    int64_t antialias = tw_onnx_int(n, "antialias", 0, &ok);
    bool same = true, crop = !strcmp(r->coordinates, "tf_crop_and_resize");
    for (unsigned i = 0; i < r->rank; i++) {
        scales[i] = tw_attr_float(n->ctx, r->scales[i]);
        same &= !is_resized(n, r, i);
        roi[i] = tw_attr_float(n->ctx, r->roi[i]);
        roi[r->rank + i] = tw_attr_float(n->ctx, r->roi[r->rank + i]);
    }
    if (!ok || same)
        return ok && tw_onnx_set(n, 0, n->in[0]);
    if (goes_by_axes(n, r, exclude, antialias))
        return finish_by_axes(n, r);
    bool nearest = !strcmp(r->mode, "nearest"), is_cubic = !strcmp(r->mode, "cubic");
    return tw_onnx_set(
        n, 0,
        TW_GB_EMIT(g, RESIZE, n->in, 1,
                   tw_type_tensor(n->ctx, n->in[0]->type->elem, r->rank, r->dims, NULL),
                   {"scales", tw_attr_array(n->ctx, scales, r->rank)},
                   {"mode", tw_attr_string(n->ctx, r->mode)},
                   {"coordinates", tw_attr_string(n->ctx, r->coordinates)},
                   {"nearest", nearest ? tw_attr_string(n->ctx, r->nearest) : NULL},
                   {"cubic_coeff", is_cubic ? tw_attr_float(n->ctx, cubic) : NULL},
                   {"exclude_outside", exclude ? tw_attr_bool(n->ctx, true) : NULL},
                   {"antialias", antialias ? tw_attr_bool(n->ctx, true) : NULL},
                   {"extrapolation", crop ? tw_attr_float(n->ctx, outside) : NULL},
                   {"roi", crop ? tw_attr_array(n->ctx, roi, 2 * (size_t)r->rank) : NULL}));
}

/* ---- Scales and sizes known when the model runs ---- */

/* Element i of a vector of floats, as an f32 scalar. */
static tw_value *real_item(tw_gb *g, tw_value *v, size_t i)
{
    return tw_gb_cast(g, tw_onnx_item(g, v, i), TW_F32);
}

/* A vector input, which must have `count` elements. */
static tw_value *vector_of(tw_onnx_node *n, unsigned i, size_t count)
{
    tw_expr size = tw_gb_const(n->g, (int64_t)count);
    tw_value *v = tw_onnx_in(n, i);
    if (!v || v->type->rank != 1 || tw_gb_differ(n->g, v->type->dims[0], size))
        return tw_gb_error(n->g, "input %u must have %zu elements", i, count);
    return tw_gb_conform(n->g, v, &size);
}

/* keep_aspect_ratio_policy: the smallest or largest scale for all axes. */
static bool keep_ratio_runtime(tw_onnx_node *n, tw_onnx_resize *r, tw_value *sizes, size_t count,
                               const unsigned *axes, bool larger)
{
    tw_gb *g = n->g;
    tw_value *best = NULL;
    for (size_t i = 0; i < count; i++) {
        tw_value *scale = size_ratio(n, tw_onnx_item(g, sizes, i), axes[i]);
        best = best ? tw_gb_binary(g, larger ? TW_GRAPH_MAX : TW_GRAPH_MIN, best, scale) : scale;
    }
    for (size_t i = 0; i < count; i++) {
        tw_value *from = tw_gb_cast(g, tw_onnx_size_of(g, n->in[0], axes[i]), TW_F32);
        tw_value *size = tw_gb_cast(g, tw_gb_binary(g, TW_GRAPH_MUL, best, from), TW_F64);
        size = tw_gb_binary_scalar(g, TW_GRAPH_ADD, size, 0.5);
        r->size[axes[i]] = tw_gb_cast(g, tw_gb_unary(g, TW_GRAPH_FLOOR, size), TW_I64);
        r->scale[axes[i]] = best;
    }
    return best != NULL;
}

/* Sizes, and scales that follow from them. */
static bool sizes_runtime(tw_onnx_node *n, tw_onnx_resize *r, size_t count, const unsigned *axes)
{
    bool ok = true;
    tw_gb *g = n->g;
    tw_value *sizes = tw_gb_cast(g, vector_of(n, 3, count), TW_I64);
    const char *policy = tw_onnx_string(n, "keep_aspect_ratio_policy", "stretch", &ok);
    if (!ok || !sizes)
        return false;
    if (!one_of(n, "keep_aspect_ratio_policy", policy, policies))
        return false;
    if (strcmp(policy, "stretch"))
        return keep_ratio_runtime(n, r, sizes, count, axes, !strcmp(policy, "not_smaller"));
    for (size_t i = 0; i < count; i++) {
        r->size[axes[i]] = tw_onnx_item(g, sizes, i);
        r->scale[axes[i]] = size_ratio(n, r->size[axes[i]], axes[i]);
    }
    return true;
}

/* Gives the result its sizes. */
static bool bind_resized(tw_onnx_node *n, tw_onnx_resize *r, unsigned rank)
{
    tw_gb *g = n->g;
    tw_expr hints[TW_MAX_RANK];
    tw_onnx_declared_dims(n, 0, rank, hints);
    for (unsigned i = 0; i < rank; i++) {
        if (r->scale[i])
            continue;
        r->size[i] = tw_onnx_size_of(g, n->in[0], i);
        hints[i] = n->in[0]->type->dims[i];
    }
    const tw_expr *dims =
        tw_onnx_bind_sizes(n, tw_onnx_join(g, r->size, rank), hints, "resized shape");
    if (dims)
        memcpy(r->dims, dims, rank * sizeof *dims);
    return dims != NULL;
}

static bool roi_runtime(tw_onnx_node *n, tw_onnx_resize *r, size_t count, const unsigned *axes)
{
    if (strcmp(r->coordinates, "tf_crop_and_resize"))
        return true;
    tw_value *roi = vector_of(n, 1, 2 * count);
    for (size_t i = 0; roi && i < count; i++) {
        r->roi_start[axes[i]] = real_item(n->g, roi, i);
        r->roi_end[axes[i]] = real_item(n->g, roi, count + i);
    }
    return roi != NULL;
}

static bool run_runtime(tw_onnx_node *n, const resize *from, size_t count, const unsigned *axes,
                        unsigned scales_at)
{
    bool by_size = tw_onnx_in(n, 3);
    tw_onnx_resize r;
    if (!read_numbers(n, from, &r))
        return false;
    tw_value *scales = by_size ? NULL : vector_of(n, scales_at, count);
    for (size_t i = 0; scales && i < count; i++) {
        r.scale[axes[i]] = real_item(n->g, scales, i);
        r.size[axes[i]] = scale_size(n, axes[i], r.scale[axes[i]]);
    }
    return (by_size ? sizes_runtime(n, &r, count, axes) : scales != NULL) &&
           roi_runtime(n, &r, count, axes) && bind_resized(n, &r, from->rank) &&
           tw_onnx_set(n, 0, tw_onnx_resize_axes(n, n->in[0], &r));
}

/* Whether sizes that keep the ratio follow from sizes that are not known. */
static bool keeps_open_ratio(tw_onnx_node *n, size_t count, const unsigned *axes)
{
    bool ok = true, open = false;
    size_t given;
    const tw_expr *sizes = tw_onnx_in(n, 3) ? tw_known_exprs(n->g, n->in[3], &given) : NULL;
    const char *policy = tw_onnx_string(n, "keep_aspect_ratio_policy", "stretch", &ok);
    for (size_t i = 0; sizes && given == count && i < count; i++)
        open |= !tw_expr_is_const(sizes[i]) || !tw_expr_is_const(n->in[0]->type->dims[axes[i]]);
    return ok && open && strcmp(policy, "stretch");
}

/* Whether the numbers of input i are not known. */
static bool is_open(tw_onnx_node *n, unsigned i)
{
    size_t count;
    tw_value *v = tw_onnx_in(n, i);
    return v && !tw_known_reals(n->g, v, &count) && !tw_known_exprs(n->g, v, &count);
}

/* ---- Modes ---- */

/* tf_half_pixel_for_nn is half_pixel moved by a half, which another rounding makes up for. */
static bool half_pixel_for_nearest(tw_onnx_node *n, resize *r)
{
    bool down = !strcmp(r->nearest, "floor"), up = !strcmp(r->nearest, "round_prefer_floor");
    if (strcmp(r->mode, "nearest") || (!down && !up))
        return tw_onnx_error(n,
                             "the coordinates tf_half_pixel_for_nn are supported in mode nearest "
                             "with floor or round_prefer_floor");
    r->coordinates = "half_pixel";
    r->nearest = down ? "round_prefer_ceil" : "ceil";
    return true;
}

static bool read_modes(tw_onnx_node *n, resize *r)
{
    static const char *const coordinates[] = {
        "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",   "align_corners",
        "asymmetric", "tf_crop_and_resize",   "tf_half_pixel_for_nn", NULL};
    static const char *const nearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                          "ceil", NULL};
    bool ok = true;
    r->mode = tw_onnx_string(n, "mode", "nearest", &ok);
    if (n->version >= 11) {
        r->coordinates = tw_onnx_string(n, "coordinate_transformation_mode", "half_pixel", &ok);
        r->nearest = tw_onnx_string(n, "nearest_mode", "round_prefer_floor", &ok);
    }
    if (!ok || !one_of(n, "mode", r->mode, modes) ||
        !one_of(n, "coordinate_transformation_mode", r->coordinates, coordinates) ||
        !one_of(n, "nearest_mode", r->nearest, nearest))
        return false;
    return strcmp(r->coordinates, "tf_half_pixel_for_nn") || half_pixel_for_nearest(n, r);
}

bool tw_onnx_op_resize(tw_onnx_node *n)
{
    resize r;
    size_t count, given;
    unsigned axes[TW_MAX_RANK];
    unsigned scales_at = n->version < 11 ? 1 : 2;
    start(n, &r);
    if (!read_axes(n, axes, &count) || !read_modes(n, &r))
        return false;
    bool crops = !strcmp(r.coordinates, "tf_crop_and_resize");
    if (is_open(n, scales_at) || is_open(n, 3) || (crops && is_open(n, 1)) ||
        keeps_open_ratio(n, count, axes))
        return run_runtime(n, &r, count, axes, scales_at);
    if (!read_roi(n, &r, axes, count))
        return false;
    if (tw_onnx_in(n, 3)) {
        const tw_expr *sizes = tw_onnx_known_exprs(n, 3, &given);
        if (!sizes || given != count)
            return sizes ? tw_onnx_error(n, "%zu sizes for %zu axes", given, count) : false;
        return take_sizes(n, &r, sizes, count, axes) && finish(n, &r);
    }
    if (!tw_onnx_in(n, scales_at))
        return tw_onnx_error(n, "neither scales nor sizes are given");
    const double *scales = tw_onnx_known_reals(n, scales_at, &given);
    if (!scales || given != count)
        return scales ? tw_onnx_error(n, "%zu scales for %zu axes", given, count) : false;
    return take_scales(n, &r, scales, count, axes) && finish(n, &r);
}

/* Scales: two attributes in version 1, a list in 7, an input in 9. */
bool tw_onnx_op_upsample(tw_onnx_node *n)
{
    resize r;
    bool ok = true;
    size_t count = 0;
    unsigned axes[TW_MAX_RANK];
    double list[TW_MAX_RANK];
    const double *scales = list;
    start(n, &r);
    r.mode = tw_onnx_string(n, "mode", "nearest", &ok);
    if (!strcmp(r.mode, "bilinear"))
        r.mode = "linear";
    for (unsigned i = 0; i < r.rank; i++)
        axes[i] = i;
    if (n->version >= 9 && is_open(n, 1))
        return ok && one_of(n, "mode", r.mode, modes) && run_runtime(n, &r, r.rank, axes, 1);
    if (n->version >= 9) {
        scales = tw_onnx_in(n, 1) ? tw_onnx_known_reals(n, 1, &count)
                                  : tw_gb_error(n->g, "input 1 is missing");
    } else if (n->version >= 7) {
        const float *floats = tw_onnx_float_list(n, "scales", &count, &ok);
        for (size_t i = 0; i < count && i < TW_MAX_RANK; i++)
            list[i] = (double)floats[i];
    } else {
        list[0] = list[1] = 1;
        list[2] = tw_onnx_float(n, "height_scale", 1, &ok);
        list[3] = tw_onnx_float(n, "width_scale", 1, &ok);
        count = 4;
    }
    if (!ok || !scales || !one_of(n, "mode", r.mode, modes))
        return false;
    if (count != r.rank)
        return tw_onnx_error(n, "%zu scales for %u axes", count, r.rank);
    return take_scales(n, &r, scales, count, axes) && finish(n, &r);
}
