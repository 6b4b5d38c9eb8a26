/* op_deform.c: operators that sample at places that the model computes: DeformConv and RoiAlign. */
#include "import/onnx/sample.h"

#include <string.h>

/* Most samples in a region of RoiAlign. */
enum { MAX_REGION_POINTS = 1 << 16 };

/* ---- DeformConv: a product of the weights and what is found at the displaced places ---- */

typedef struct deform {
    tw_onnx_node *n;
    tw_gb *g;
    tw_onnx_window w;
    int64_t groups, offset_groups;
    tw_expr out[TW_MAX_RANK];
    tw_expr taps, places; /* products of kernel and out */
    tw_expr each;         /* input channels of a group */
    tw_value *weights;
} deform;

static bool read_sizes(deform *d)
{
    tw_onnx_node *n = d->n;
    tw_type x = n->in[0]->type, weights = n->in[1]->type;
    unsigned spatial = x->rank < 3 ? 0 : x->rank - 2;
    if (spatial == 0 || spatial > TW_ONNX_MAX_SPATIAL || weights->rank != x->rank ||
        n->in[2]->type->rank != x->rank)
        return tw_onnx_error(n, "input %s, weights %s and offsets %s do not fit",
                             tw_gb_type_text(d->g, x), tw_gb_type_text(d->g, weights),
                             tw_gb_type_text(d->g, n->in[2]->type));
    if (!tw_onnx_read_window(n, spatial, &d->w))
        return false;
    for (unsigned i = 0; i < spatial; i++)
        d->w.kernel[i] = weights->dims[i + 2];
    if (!tw_onnx_window_sizes(n, &d->w, x->dims + 2, false, d->out))
        return false;
    d->taps = tw_gb_product(d->g, d->w.kernel, spatial);
    d->places = tw_gb_product(d->g, d->out, spatial);
    return true;
}

static bool read_deform(deform *d)
{
    bool ok = true;
    tw_onnx_node *n = d->n;
    tw_gb *g = d->g;
    tw_type x = n->in[0]->type, weights = n->in[1]->type;
    d->groups = tw_onnx_int(n, "group", 1, &ok);
    d->offset_groups = tw_onnx_int(n, "offset_group", 1, &ok);
    if (!ok || !tw_onnx_check_elem(n, 0, TW_ONNX_FLOATS) || !read_sizes(d))
        return false;
    tw_expr dims[TW_MAX_RANK] = {NULL}, groups = tw_gb_const(g, d->groups);
    tw_expr offsets = tw_gb_const(g, d->offset_groups);
    if (d->groups > 0 && d->offset_groups > 0 && d->groups <= INT32_MAX &&
        d->offset_groups <= INT32_MAX && tw_gb_quotient(g, &x->dims[1], 1, &offsets, 1) &&
        tw_gb_quotient(g, &weights->dims[0], 1, &groups, 1))
        d->each = tw_gb_quotient(g, &x->dims[1], 1, &groups, 1);
    if (!d->each || tw_gb_differ(g, d->each, weights->dims[1]))
        return tw_onnx_error(
            n, "input %s and weights %s do not fit with %lld groups and %lld of offsets",
            tw_gb_type_text(g, x), tw_gb_type_text(g, weights), (long long)d->groups,
            (long long)d->offset_groups);
    dims[1] = d->each;
    return tw_gb_check_equal(g, tw_expr_mul(n->ctx, d->each, groups), x->dims[1], "channels") &&
           tw_onnx_sized(n, 1, x->rank, dims, &d->weights);
}

/* Coordinates along axis i without offsets, [taps, places]: those of Conv. */
static tw_value *regular_places(deform *d, unsigned i)
{
    tw_gb *g = d->g;
    unsigned n = d->w.n;
    tw_expr all[2 * TW_ONNX_MAX_SPATIAL], one = tw_gb_const(g, 1);
    tw_expr tap[2 * TW_ONNX_MAX_SPATIAL], place[2 * TW_ONNX_MAX_SPATIAL];
    for (unsigned j = 0; j < n; j++) {
        all[j] = d->w.kernel[j];
        all[n + j] = d->out[j];
    }
    for (unsigned j = 0; j < 2 * n; j++) {
        tap[j] = j == i ? all[j] : one;
        place[j] = j == n + i ? all[j] : one;
    }
    tw_value *from = tw_onnx_times_number(g, tw_gb_iota(g, TW_I64, 2 * n, place, n + i),
                                          (double)d->w.strides[i]);
    tw_value *by =
        tw_onnx_times_number(g, tw_gb_iota(g, TW_I64, 2 * n, tap, i), (double)d->w.dilations[i]);
    tw_value *at = tw_gb_binary(g, TW_GRAPH_SUB, tw_gb_binary(g, TW_GRAPH_ADD, from, by),
                                tw_onnx_size_value(g, d->w.begin[i]));
    at = tw_gb_expand(g, tw_gb_cast(g, at, TW_F32), 2 * n, all);
    return tw_gb_reshape(g, at, 2, (tw_expr[]){d->taps, d->places});
}

/* What is found at all places, [batch, groups, channels of one * taps, places]. */
static tw_value *columns(deform *d)
{
    static const int64_t swap[3] = {0, 2, 1}, order[5] = {0, 1, 4, 2, 3};
    tw_gb *g = d->g;
    tw_onnx_node *n = d->n;
    tw_type x = n->in[0]->type;
    tw_onnx_sample s = {.g = g, .spatial = d->w.n, .mode = TW_ONNX_LINEAR};
    tw_expr offset_groups = tw_gb_const(g, d->offset_groups), axes = tw_gb_const(g, d->w.n);
    tw_expr batch = tw_expr_mulc(g->ctx, x->dims[0], d->offset_groups);
    tw_expr points = tw_expr_mul(g->ctx, d->taps, d->places);
    tw_expr each = tw_gb_quotient(g, &x->dims[1], 1, &offset_groups, 1);
    tw_expr space = tw_gb_product(g, x->dims + 2, d->w.n);
    s.data =
        tw_gb_transpose(g, tw_gb_reshape(g, n->in[0], 3, (tw_expr[]){batch, each, space}), swap);
    tw_value *offsets = tw_gb_reshape(g, tw_gb_cast(g, n->in[2], TW_F32), 4,
                                      (tw_expr[]){batch, d->taps, axes, d->places});
    tw_onnx_sample_sizes(&s, n->in[0]);
    for (unsigned i = 0; i < d->w.n; i++) {
        tw_value *own = tw_gb_squeeze(
            g, tw_gb_slice_axis(g, offsets, 2, tw_gb_const(g, i), 1, tw_gb_const(g, 1)), 4);
        own = tw_gb_binary(g, TW_GRAPH_ADD, own, regular_places(d, i));
        s.place[i] = tw_gb_reshape(g, own, 2, (tw_expr[]){batch, points});
        if (!s.place[i] || !s.data)
            return NULL;
    }
    tw_value *y = tw_onnx_sample_points(&s, TW_GRAPH_ADD), *mask = tw_onnx_in(n, 4);
    if (mask)
        y = tw_gb_binary(g, TW_GRAPH_MUL, y,
                         tw_gb_reshape(g, mask, 3, (tw_expr[]){batch, points, tw_gb_const(g, 1)}));
    y = tw_gb_reshape(g, y, 5, (tw_expr[]){x->dims[0], offset_groups, d->taps, d->places, each});
    tw_expr rows = tw_expr_mul(g->ctx, d->each, d->taps);
    return tw_gb_reshape(g, tw_gb_transpose(g, y, order), 4,
                         (tw_expr[]){x->dims[0], tw_gb_const(g, d->groups), rows, d->places});
}

bool tw_onnx_op_deform_conv(tw_onnx_node *n)
{
    deform d = {.n = n, .g = n->g};
    tw_gb *g = n->g;
    tw_expr dims[TW_MAX_RANK], one = tw_gb_const(g, 1);
    if (!read_deform(&d))
        return false;
    tw_expr outputs = n->in[1]->type->dims[0], groups = tw_gb_const(g, d.groups);
    tw_expr weights[4] = {one, groups, tw_gb_quotient(g, &outputs, 1, &groups, 1),
                          tw_expr_mul(n->ctx, d.each, d.taps)};
    tw_value *y =
        tw_gb_matmul(g, tw_gb_reshape(g, d.weights, 4, weights), columns(&d), false, false);
    dims[0] = n->in[0]->type->dims[0];
    dims[1] = outputs;
    memcpy(dims + 2, d.out, d.w.n * sizeof *dims);
    y = tw_gb_reshape(g, y, d.w.n + 2, dims);
    return tw_onnx_set(n, 0, tw_onnx_add_bias(n, y, tw_onnx_in(n, 3)));
}

/* ---- RoiAlign ---- */

typedef struct roi {
    tw_onnx_node *n;
    tw_gb *g;
    int64_t out[2];     /* bins along y and x */
    tw_expr samples[2]; /* in each of them */
    bool adaptive;      /* as many samples as a bin is large */
    bool half_pixel, largest;
    double scale;
    tw_expr regions;
    tw_value *boxes;    /* [regions, 4] f32, in elements of the data */
    tw_value *entries;  /* [regions]: of the batch */
    tw_value *count[2]; /* adaptive: [regions, 1] samples */
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
        int64_t known;
        if (r->out[i] <= 0 || r->out[i] > MAX_REGION_POINTS)
            return tw_onnx_error(n, "%lld bins", (long long)r->out[i]);
        tw_expr up = tw_expr_addc(n->ctx, x->dims[i + 2], r->out[i] - 1);
        r->samples[i] =
            samples ? tw_gb_const(r->g, samples)
                    : tw_expr_binary(n->ctx, TW_EXPR_FLOORDIV, up, tw_gb_const(r->g, r->out[i]));
        if (!tw_expr_as_const(r->samples[i], &known))
            continue;
        if (known > MAX_REGION_POINTS / r->out[i] / points)
            return tw_onnx_error(n,
                                 "more than %d samples in a region; attribute 'sampling_ratio' "
                                 "limits them",
                                 MAX_REGION_POINTS);
        points *= known * r->out[i];
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
    return tw_expr_mulc(r->g->ctx, r->samples[axis], r->out[axis]);
}

/* Samples of a bin, as an f32 scalar. */
static tw_value *most_samples(const roi *r, unsigned axis)
{
    return tw_gb_cast(r->g, tw_onnx_size_value(r->g, r->samples[axis]), TW_F32);
}

/* The place of each sample along y (0) or x (1) in bins: bin + (sample + 0.5) / samples; in the
 * adaptive form [regions, bins * samples], else [1, bins * samples]. */
static tw_value *in_bins(roi *r, unsigned axis)
{
    tw_gb *g = r->g;
    tw_expr dims[3] = {tw_gb_const(g, 1), tw_gb_const(g, r->out[axis]), r->samples[axis]};
    tw_value *bin = tw_gb_iota(g, TW_F32, 3, dims, 1), *sample = tw_gb_iota(g, TW_F32, 3, dims, 2);
    sample = tw_gb_binary_scalar(g, TW_GRAPH_ADD, sample, 0.5);
    sample =
        tw_gb_binary(g, TW_GRAPH_DIV, sample,
                     r->adaptive ? tw_gb_unsqueeze(g, r->count[axis], 4) : most_samples(r, axis));
    tw_value *at = tw_gb_binary(g, TW_GRAPH_ADD, bin, sample);
    if (!at)
        return NULL;
    return tw_gb_reshape(g, at, 2, (tw_expr[]){at->type->dims[0], samples_along(r, axis)});
}

/* Coordinates of all samples along an axis, [regions, bins * samples]. */
static tw_value *coordinates(roi *r, unsigned axis)
{
    tw_gb *g = r->g;
    tw_value *start = edge(r, axis == 0), *size = edge(r, axis == 0 ? 3 : 2);
    size = tw_gb_binary(g, TW_GRAPH_SUB, size, start);
    if (!r->half_pixel)
        size = tw_gb_binary_scalar(g, TW_GRAPH_MAX, size, 1);
    tw_value *bin = tw_gb_binary_scalar(g, TW_GRAPH_DIV, size, (double)r->out[axis]);
    if (r->adaptive)
        r->count[axis] = tw_gb_binary(g, TW_GRAPH_MIN, tw_gb_unary(g, TW_GRAPH_CEIL, bin),
                                      most_samples(r, axis));
    tw_value *at = tw_gb_binary(g, TW_GRAPH_MUL, bin, in_bins(r, axis));
    return tw_gb_binary(g, TW_GRAPH_ADD, start, at);
}

/* Whether coordinates lie at most one element outside of 0 … size. */
static tw_value *near_data(tw_gb *g, tw_value *at, tw_value *size)
{
    return tw_gb_binary(g, TW_GRAPH_AND, tw_gb_binary_scalar(g, TW_GRAPH_GREATER_EQUAL, at, -1),
                        tw_gb_binary(g, TW_GRAPH_LESS_EQUAL, at, size));
}

/* Whether the sample is one of those that the region has, [regions, bins * samples]. */
static tw_value *is_taken(roi *r, unsigned axis)
{
    tw_gb *g = r->g;
    tw_expr dims[3] = {r->regions, tw_gb_const(g, r->out[axis]), r->samples[axis]};
    tw_value *taken = tw_gb_binary(g, TW_GRAPH_LESS, tw_gb_iota(g, TW_F32, 3, dims, 2),
                                   tw_gb_unsqueeze(g, r->count[axis], 4));
    return tw_gb_reshape(g, taken, 2, (tw_expr[]){r->regions, samples_along(r, axis)});
}

/* [regions, y samples] and [regions, x samples] on all points, [regions, points]. */
static tw_value *on_points(roi *r, tw_value *v, unsigned axis)
{
    tw_gb *g = r->g;
    tw_expr dims[3] = {r->regions, samples_along(r, 0), samples_along(r, 1)};
    v = tw_gb_expand(g, tw_gb_unsqueeze(g, v, axis == 0 ? 4 : 2), 3, dims);
    return tw_gb_reshape(g, v, 2, (tw_expr[]){r->regions, tw_expr_mul(g->ctx, dims[1], dims[2])});
}

/* All samples, [regions, points, channels]: 0 far outside of the data; *taken: those that count,
 * in the adaptive form. */
static tw_value *samples_of(roi *r, tw_value **taken)
{
    static const int64_t last[4] = {0, 2, 3, 1};
    tw_gb *g = r->g;
    tw_type x = r->n->in[0]->type;
    tw_onnx_sample s = {.g = g, .spatial = 2, .mode = TW_ONNX_LINEAR, .padding = TW_ONNX_BORDER};
    tw_value *valid = NULL;
    *taken = NULL;
    tw_onnx_sample_sizes(&s, r->n->in[0]);
    for (unsigned i = 0; i < 2; i++) {
        tw_value *at = coordinates(r, i), *inside = near_data(g, at, s.sizes[i]);
        at = tw_onnx_hold_within(g, at, 0, tw_onnx_plus_number(g, s.sizes[i], -1));
        s.place[i] = on_points(r, at, i);
        inside = on_points(r, inside, i);
        valid = valid ? tw_gb_binary(g, TW_GRAPH_AND, valid, inside) : inside;
        if (r->adaptive) {
            tw_value *own = on_points(r, is_taken(r, i), i);
            *taken = *taken ? tw_gb_binary(g, TW_GRAPH_AND, *taken, own) : own;
        }
        if (!s.place[i] || !valid)
            return NULL;
    }
    tw_expr space = tw_gb_product(g, x->dims + 2, 2);
    tw_expr rows = tw_expr_mul(g->ctx, x->dims[0], space);
    s.data =
        tw_gb_reshape(g, tw_gb_transpose(g, r->n->in[0], last), 2, (tw_expr[]){rows, x->dims[1]});
    tw_value *entry = tw_gb_unsqueeze(g, tw_gb_cast(g, r->entries, TW_I64), 2);
    s.base = tw_gb_binary(g, TW_GRAPH_MUL, entry, tw_onnx_size_value(g, space));
    if (!s.data || !s.base)
        return NULL;
    tw_value *y = tw_onnx_sample_points(&s, r->largest ? TW_GRAPH_MAX : TW_GRAPH_ADD);
    return tw_gb_where(g, tw_gb_unsqueeze(g, valid, 4), y, tw_gb_scalar(g, x->elem, 0));
}

/* The regions' bins, of all their samples: the largest, or the mean. */
static tw_value *bins_of(roi *r, tw_value *y, tw_value *taken)
{
    tw_gb *g = r->g;
    tw_expr dims[6] = {r->regions,    tw_gb_const(g, r->out[0]),
                       r->samples[0], tw_gb_const(g, r->out[1]),
                       r->samples[1], r->n->in[0]->type->dims[1]};
    tw_elem elem = r->n->in[0]->type->elem;
    tw_graph_kind kind = r->largest ? TW_GRAPH_REDUCE_MAX : TW_GRAPH_REDUCE_MEAN;
    if (taken) {
        double none = r->largest ? -65504 : 0;
        kind = r->largest ? kind : TW_GRAPH_REDUCE_SUM;
        y = tw_gb_where(g, tw_gb_unsqueeze(g, taken, 4), y, tw_gb_scalar(g, elem, none));
    }
    y = tw_gb_reduce(g, kind, tw_gb_reshape(g, y, 6, dims), 1u << 2 | 1u << 4, false);
    if (!taken || r->largest)
        return y;
    tw_value *count = tw_gb_binary(g, TW_GRAPH_MUL, r->count[0], r->count[1]);
    count = tw_gb_binary_scalar(g, TW_GRAPH_MAX, count, 1);
    return tw_gb_binary(g, TW_GRAPH_DIV, y, tw_gb_cast(g, tw_gb_unsqueeze(g, count, 12), elem));
}

bool tw_onnx_op_roi_align(tw_onnx_node *n)
{
    static const int64_t first[4] = {0, 3, 1, 2};
    roi r = {.n = n, .g = n->g};
    tw_gb *g = n->g;
    tw_value *taken;
    if (!read_roi(&r))
        return false;
    r.boxes = tw_gb_binary_scalar(g, TW_GRAPH_MUL, tw_gb_cast(g, r.boxes, TW_F32), r.scale);
    if (r.half_pixel)
        r.boxes = tw_gb_binary_scalar(g, TW_GRAPH_SUB, r.boxes, 0.5);
    tw_value *y = samples_of(&r, &taken);
    y = y ? bins_of(&r, y, taken) : NULL;
    return tw_onnx_set(n, 0, tw_gb_transpose(g, y, first));
}
