/* op_roi_align.c: RoiAlign, bins of regions by the samples in them.
 *
 * With a number of samples that the model gives, all are taken at once. In the adaptive form a bin
 * has as many samples as it is large, which only the regions tell: a loop takes one sample of every
 * bin after the other, so that memory does not depend on how many there are. */
#include "import/onnx/loop.h"
#include "import/onnx/sample.h"

#include <math.h>
#include <string.h>

/* Most samples in a region that are taken at once. */
enum { MAX_REGION_POINTS = 1 << 16 };

typedef struct roi {
    tw_onnx_node *n;
    tw_gb *g;
    int64_t out[2];     /* bins along y and x */
    int64_t samples[2]; /* in each of them; in the adaptive form, of a step */
    bool adaptive;      /* as many samples as a bin is large */
    bool half_pixel, largest;
    double scale;
    tw_expr regions;
    tw_value *data, *base;       /* as tw_onnx_sample has them */
    tw_value *boxes;             /* [regions, 4] f32, in elements of the data */
    tw_value *entries;           /* [regions]: of the batch */
    tw_value *start[2], *bin[2]; /* along y and x, [regions, 1]: where it begins, a bin's size */
    /* Of the adaptive form: */
    tw_value *count[2];   /* [regions, 1] f32: samples in a bin */
    tw_value *across;     /* most samples along x of any region, an i64 scalar */
    tw_value *current[2]; /* f32 scalars: which sample of a bin the step takes */
} roi;

static bool read_roi(roi *r)
{
    bool ok = true;
    tw_onnx_node *n = r->n;
    tw_type x = n->in[0]->type, boxes = n->in[1]->type;
    const char *mode = tw_onnx_string(n, "mode", "avg", &ok);
    const char *coordinates =
        tw_onnx_string(n, "coordinate_transformation_mode",
                       n->version < 16 ? "output_half_pixel" : "half_pixel", &ok);
    r->out[0] = tw_onnx_int(n, "output_height", 1, &ok);
    r->out[1] = tw_onnx_int(n, "output_width", 1, &ok);
    int64_t samples = tw_onnx_int(n, "sampling_ratio", 0, &ok);
    r->scale = tw_onnx_float(n, "spatial_scale", 1, &ok);
    r->half_pixel = ok && !strcmp(coordinates, "half_pixel");
    r->largest = ok && !strcmp(mode, "max");
    r->adaptive = samples == 0;
    if (!ok || !tw_onnx_check_elem(n, 0, TW_ONNX_FLOATS))
        return false;
    if ((!r->largest && strcmp(mode, "avg")) ||
        (!r->half_pixel && strcmp(coordinates, "output_half_pixel")))
        return tw_onnx_error(n, "mode '%s' and coordinates '%s'", mode, coordinates);
    if (x->rank != 4 || boxes->rank != 2 || n->in[2]->type->rank != 1 || samples < 0)
        return tw_onnx_error(n, "data %s, regions %s, entries of the batch %s, %lld samples",
                             tw_gb_type_text(r->g, x), tw_gb_type_text(r->g, boxes),
                             tw_gb_type_text(r->g, n->in[2]->type), (long long)samples);
    int64_t points = 1;
    for (unsigned i = 0; i < 2; i++) {
        if (r->out[i] <= 0 || r->out[i] > MAX_REGION_POINTS)
            return tw_onnx_error(n, "%lld bins", (long long)r->out[i]);
        r->samples[i] = r->adaptive ? 1 : samples;
        if (r->samples[i] > MAX_REGION_POINTS / r->out[i] / points)
            return tw_onnx_error(n,
                                 "more than %d samples in a region; attribute 'sampling_ratio' "
                                 "limits them",
                                 MAX_REGION_POINTS);
        points *= r->samples[i] * r->out[i];
    }
    r->regions = boxes->dims[0];
    tw_expr four[2] = {NULL, tw_gb_const(r->g, 4)};
    return tw_onnx_sized(n, 1, 2, four, &r->boxes) &&
           tw_onnx_sized(n, 2, 1, &r->regions, &r->entries);
}

/* Column i of the boxes, [regions, 1]. */
static tw_value *edge(roi *r, int64_t i)
{
    return tw_gb_slice_axis(r->g, r->boxes, 1, tw_gb_const(r->g, i), 1, tw_gb_const(r->g, 1));
}

/* Samples along y (0) or x (1). */
static tw_expr samples_along(const roi *r, unsigned axis)
{
    return tw_gb_const(r->g, r->samples[axis] * r->out[axis]);
}

/* Where regions begin along an axis, how large their bins are, and how many samples these have: as
 * onnxruntime, none in a region that ends before it begins, or whose place is not a number. */
static void measure(roi *r, unsigned axis)
{
    tw_gb *g = r->g;
    r->start[axis] = edge(r, axis == 0);
    tw_value *size = edge(r, axis == 0 ? 3 : 2);
    size = tw_gb_binary(g, TW_GRAPH_SUB, size, r->start[axis]);
    if (!r->half_pixel)
        size = tw_gb_binary_scalar(g, TW_GRAPH_MAX, size, 1);
    r->bin[axis] = tw_gb_binary_scalar(g, TW_GRAPH_DIV, size, (double)r->out[axis]);
    if (!r->adaptive)
        return;
    tw_value *count = tw_gb_unary(g, TW_GRAPH_CEIL, r->bin[axis]);
    tw_value *some = tw_gb_binary_scalar(g, TW_GRAPH_GREATER_EQUAL, count, 1);
    r->count[axis] = tw_gb_where(g, some, count, tw_gb_scalar(g, TW_F32, 0));
}

/* Coordinates of the samples along an axis, start + bin * size + (sample + 0.5) * size / samples,
 * in this order, as far outside an ulp counts: [regions, bins * samples]. */
static tw_value *coordinates(roi *r, unsigned axis)
{
    tw_gb *g = r->g;
    tw_expr bins[3] = {tw_gb_const(g, 1), tw_gb_const(g, r->out[axis]), tw_gb_const(g, 1)};
    tw_expr samples[3] = {bins[0], bins[0], tw_gb_const(g, r->samples[axis])};
    tw_value *start = tw_gb_unsqueeze(g, r->start[axis], 4), *count = NULL;
    tw_value *size = tw_gb_unsqueeze(g, r->bin[axis], 4);
    tw_value *sample = r->adaptive ? r->current[axis] : tw_gb_iota(g, TW_F32, 3, samples, 2);
    if (r->adaptive)
        count = tw_gb_binary_scalar(g, TW_GRAPH_MAX, tw_gb_unsqueeze(g, r->count[axis], 4), 1);
    else
        count = tw_gb_scalar(g, TW_F32, (double)r->samples[axis]);
    tw_value *bin = tw_gb_binary(g, TW_GRAPH_MUL, tw_gb_iota(g, TW_F32, 3, bins, 1), size);
    sample = tw_gb_binary(g, TW_GRAPH_MUL, tw_gb_binary_scalar(g, TW_GRAPH_ADD, sample, 0.5), size);
    tw_value *at = tw_gb_binary(g, TW_GRAPH_ADD, start, bin);
    at = tw_gb_binary(g, TW_GRAPH_ADD, at, tw_gb_binary(g, TW_GRAPH_DIV, sample, count));
    return tw_gb_reshape(g, at, 2, (tw_expr[]){r->regions, samples_along(r, axis)});
}

/* Whether coordinates lie at most one element outside of 0 … size. */
static tw_value *near_data(tw_gb *g, tw_value *at, tw_value *size)
{
    return tw_gb_binary(g, TW_GRAPH_AND, tw_gb_binary_scalar(g, TW_GRAPH_GREATER_EQUAL, at, -1),
                        tw_gb_binary(g, TW_GRAPH_LESS_EQUAL, at, size));
}

/* [regions, y samples] and [regions, x samples] on all points, [regions, points]. */
static tw_value *on_points(roi *r, tw_value *v, unsigned axis)
{
    tw_gb *g = r->g;
    tw_expr dims[3] = {r->regions, samples_along(r, 0), samples_along(r, 1)};
    v = tw_gb_expand(g, tw_gb_unsqueeze(g, v, axis == 0 ? 4 : 2), 3, dims);
    return tw_gb_reshape(g, v, 2, (tw_expr[]){r->regions, tw_expr_mul(g->ctx, dims[1], dims[2])});
}

/* The data with channels last, and where each region's entry of the batch begins. */
static bool order_data(roi *r)
{
    static const int64_t last[4] = {0, 2, 3, 1};
    tw_gb *g = r->g;
    tw_type x = r->n->in[0]->type;
    tw_expr space = tw_gb_product(g, x->dims + 2, 2);
    tw_expr rows[2] = {tw_expr_mul(g->ctx, x->dims[0], space), x->dims[1]};
    r->data = tw_gb_reshape(g, tw_gb_transpose(g, r->n->in[0], last), 2, rows);
    tw_value *entry = tw_gb_unsqueeze(g, tw_gb_cast(g, r->entries, TW_I64), 2);
    r->base = tw_gb_binary(g, TW_GRAPH_MUL, entry, tw_onnx_size_value(g, space));
    return r->data && r->base;
}

/* All samples, [regions, points, channels]: 0 far outside of the data. */
static tw_value *samples_of(roi *r)
{
    tw_gb *g = r->g;
    tw_onnx_sample s = {.g = g,
                        .spatial = 2,
                        .mode = TW_ONNX_LINEAR,
                        .padding = TW_ONNX_BORDER,
                        .data = r->data,
                        .base = r->base};
    tw_value *valid = NULL;
    tw_onnx_sample_sizes(&s, r->n->in[0]);
    for (unsigned i = 0; i < 2; i++) {
        tw_value *at = coordinates(r, i), *inside = near_data(g, at, s.sizes[i]);
        at = tw_onnx_hold_within(g, at, 0, tw_onnx_plus_number(g, s.sizes[i], -1));
        s.place[i] = on_points(r, at, i);
        inside = on_points(r, inside, i);
        valid = valid ? tw_gb_binary(g, TW_GRAPH_AND, valid, inside) : inside;
        if (!s.place[i] || !valid)
            return NULL;
    }
    tw_value *y = tw_onnx_sample_points(&s, r->largest ? TW_GRAPH_MAX : TW_GRAPH_ADD);
    return tw_gb_where(g, tw_gb_unsqueeze(g, valid, 4), y, tw_gb_scalar(g, r->data->type->elem, 0));
}

/* The regions' bins, of all their samples: the largest, or the mean. */
static tw_value *bins_of_all(roi *r)
{
    tw_gb *g = r->g;
    tw_expr dims[6] = {r->regions,
                       tw_gb_const(g, r->out[0]),
                       tw_gb_const(g, r->samples[0]),
                       tw_gb_const(g, r->out[1]),
                       tw_gb_const(g, r->samples[1]),
                       r->n->in[0]->type->dims[1]};
    return tw_gb_reduce(g, r->largest ? TW_GRAPH_REDUCE_MAX : TW_GRAPH_REDUCE_MEAN,
                        tw_gb_reshape(g, samples_of(r), 6, dims), 1u << 2 | 1u << 4, false);
}

/* ---- The adaptive form: a step for each sample that a bin of some region has ---- */

/* The most that any region has, an i64 scalar; what is more than loops can count stays so. */
static tw_value *most_of(tw_gb *g, tw_value *count)
{
    count = tw_gb_reduce(g, TW_GRAPH_REDUCE_MAX, count, 3, false);
    count = tw_onnx_hold_within(g, count, 0, tw_gb_scalar(g, TW_F32, 0x1p31));
    return tw_gb_cast(g, count, TW_I64);
}

/* Step t adds sample t of all bins, in rows, to the states: what the bins are so far. */
static bool take_sample(void *data, tw_value *t, tw_value *const *states, tw_value **next,
                        tw_value **row)
{
    roi *r = data;
    tw_gb *g = r->g;
    tw_value *down = tw_gb_binary(g, TW_GRAPH_DIV, t, r->across), *taken = NULL;
    tw_value *right =
        tw_gb_binary(g, TW_GRAPH_SUB, t, tw_gb_binary(g, TW_GRAPH_MUL, down, r->across));
    (void)row;
    r->current[0] = tw_gb_cast(g, down, TW_F32);
    r->current[1] = tw_gb_cast(g, right, TW_F32);
    for (unsigned i = 0; i < 2; i++) {
        tw_value *own = tw_gb_binary(g, TW_GRAPH_LESS, r->current[i], r->count[i]);
        taken = taken ? tw_gb_binary(g, TW_GRAPH_AND, taken, own) : own;
    }
    tw_value *y = tw_gb_cast(g, samples_of(r), states[0]->type->elem);
    y = tw_gb_binary(g, r->largest ? TW_GRAPH_MAX : TW_GRAPH_ADD, states[0], y);
    next[0] = tw_gb_where(g, tw_gb_unsqueeze(g, taken, 4), y, states[0]);
    return next[0] != NULL;
}

/* As bins_of_all; a bin without samples is 0. */
static tw_value *bins_of_steps(roi *r)
{
    tw_gb *g = r->g;
    tw_type x = r->n->in[0]->type;
    tw_elem elem = x->elem == TW_F64 ? TW_F64 : TW_F32;
    tw_expr dims[4] = {r->regions, tw_gb_const(g, r->out[0]), tw_gb_const(g, r->out[1]),
                       x->dims[1]};
    tw_expr rows[3] = {dims[0], tw_gb_const(g, r->out[0] * r->out[1]), dims[3]};
    r->across = most_of(g, r->count[1]);
    tw_value *steps = tw_gb_binary(g, TW_GRAPH_MUL, most_of(g, r->count[0]), r->across);
    tw_expr n_steps = steps ? tw_onnx_bind_size(r->n, steps, NULL, "samples of a bin") : NULL;
    tw_value *y = tw_gb_splat(g, elem, r->largest ? -INFINITY : 0, 3, rows);
    if (!n_steps ||
        !tw_onnx_steps(r->n, tw_gb_iota(g, TW_I64, 1, &n_steps, 0), 0, &y, 1, take_sample, r, NULL))
        return NULL;
    tw_value *count =
        tw_gb_unsqueeze(g, tw_gb_binary(g, TW_GRAPH_MUL, r->count[0], r->count[1]), 4);
    if (r->largest)
        y = tw_gb_where(g, tw_gb_binary_scalar(g, TW_GRAPH_GREATER, count, 0), y,
                        tw_gb_scalar(g, elem, 0));
    else
        y = tw_gb_binary(g, TW_GRAPH_DIV, y,
                         tw_gb_cast(g, tw_gb_binary_scalar(g, TW_GRAPH_MAX, count, 1), elem));
    return tw_gb_reshape(g, tw_gb_cast(g, y, x->elem), 4, dims);
}

bool tw_onnx_op_roi_align(tw_onnx_node *n)
{
    static const int64_t first[4] = {0, 3, 1, 2};
    roi r = {.n = n, .g = n->g};
    tw_gb *g = n->g;
    if (!read_roi(&r) || !order_data(&r))
        return false;
    r.boxes = tw_gb_binary_scalar(g, TW_GRAPH_MUL, tw_gb_cast(g, r.boxes, TW_F32), r.scale);
    if (r.half_pixel)
        r.boxes = tw_gb_binary_scalar(g, TW_GRAPH_SUB, r.boxes, 0.5);
    measure(&r, 0);
    measure(&r, 1);
    tw_value *y = r.adaptive ? bins_of_steps(&r) : bins_of_all(&r);
    return tw_onnx_set(n, 0, tw_gb_transpose(g, y, first));
}
