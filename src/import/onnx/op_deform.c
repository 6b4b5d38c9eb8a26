/* op_deform.c: DeformConv, a convolution that samples at displaced places. */
#include "import/onnx/sample.h"

#include <string.h>

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
