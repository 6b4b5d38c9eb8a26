/* sample.c: elements of tensors at computed places: for each place, the elements around it (1, 2^n
 * or 4^n of them) are gathered and joined with the weights of the interpolation. */
#include "import/onnx/sample.h"

/* ---- Places ---- */

void tw_onnx_sample_sizes(tw_onnx_sample *s, tw_value *x)
{
    for (unsigned i = 0; i < s->spatial; i++)
        s->sizes[i] = tw_gb_cast(s->g, tw_onnx_size_value(s->g, x->type->dims[i + 2]), TW_F32);
}

/* Mirrors coordinates at the borders of axis i until they lie inside. An axis of one element, of
 * which the corners are one, has no inside but 0. */
tw_value *tw_onnx_reflect(const tw_onnx_sample *s, tw_value *x, unsigned i)
{
    tw_gb *g = s->g;
    double low = s->corners ? 0 : -0.5;
    tw_value *span = tw_onnx_plus_number(g, s->sizes[i], s->corners ? -1 : 0);
    tw_value *none = tw_gb_binary_scalar(g, TW_GRAPH_LESS_EQUAL, span, 0);
    tw_value *period =
        tw_onnx_times_number(g, tw_gb_where(g, none, tw_gb_scalar(g, TW_F32, 1), span), 2);
    x = tw_onnx_plus_number(g, x, -low);
    tw_value *turns = tw_gb_unary(g, TW_GRAPH_FLOOR, tw_gb_binary(g, TW_GRAPH_DIV, x, period));
    x = tw_gb_binary(g, TW_GRAPH_SUB, x, tw_gb_binary(g, TW_GRAPH_MUL, turns, period));
    tw_value *back = tw_gb_binary(g, TW_GRAPH_SUB, period, x);
    x = tw_onnx_plus_number(g, tw_gb_binary(g, TW_GRAPH_MIN, x, back), low);
    return tw_gb_where(g, none, tw_gb_scalar(g, TW_F32, 0), x);
}

/* ---- Weights ---- */

/* ((a t + b) t + c) t + d */
static tw_value *polynomial(tw_gb *g, tw_value *t, double a, double b, double c, double d)
{
    tw_value *y = tw_onnx_plus_number(g, tw_onnx_times_number(g, t, a), b);
    y = tw_onnx_plus_number(g, tw_gb_binary(g, TW_GRAPH_MUL, y, t), c);
    return tw_onnx_plus_number(g, tw_gb_binary(g, TW_GRAPH_MUL, y, t), d);
}

/* Of the elements floor(x) - 1 … floor(x) + 2 (cubic: Keys' convolution with -0.75) or floor(x),
 * floor(x) + 1 (linear). */
static void make_weights(tw_onnx_sample *s, unsigned i)
{
    static const double a = -0.75;
    tw_gb *g = s->g;
    tw_value *t = tw_gb_binary(g, TW_GRAPH_SUB, s->place[i], s->whole[i]);
    if (s->mode == TW_ONNX_LINEAR) {
        s->weights[i][0] = tw_onnx_plus_number(g, tw_gb_unary(g, TW_GRAPH_NEG, t), 1);
        s->weights[i][1] = t;
    } else if (s->mode == TW_ONNX_CUBIC) {
        s->weights[i][0] = polynomial(g, t, a, -2 * a, a, 0);
        s->weights[i][1] = polynomial(g, t, a + 2, -(a + 3), 0, 1);
        s->weights[i][2] = polynomial(g, t, -(a + 2), 2 * a + 3, -a, 0);
        s->weights[i][3] = polynomial(g, t, -a, a, 0, 0);
    }
}

/* ---- Elements ---- */

/* Index along axis i, inside; *valid becomes false where it was not (zeros). */
static tw_value *index_of(const tw_onnx_sample *s, unsigned i, int64_t offset, tw_value **valid)
{
    tw_gb *g = s->g;
    tw_value *last = tw_onnx_plus_number(g, s->sizes[i], -1);
    tw_value *x = tw_onnx_plus_number(g, s->whole[i], (double)offset);
    if (s->padding == TW_ONNX_REFLECTION)
        x = tw_gb_cast(g, tw_gb_cast(g, tw_onnx_reflect(s, x, i), TW_I64), TW_F32);
    if (s->padding == TW_ONNX_ZEROS) {
        tw_value *inside =
            tw_gb_binary(g, TW_GRAPH_AND, tw_gb_binary_scalar(g, TW_GRAPH_GREATER_EQUAL, x, 0),
                         tw_gb_binary(g, TW_GRAPH_LESS_EQUAL, x, last));
        *valid = *valid ? tw_gb_binary(g, TW_GRAPH_AND, *valid, inside) : inside;
    }
    return tw_gb_cast(g, tw_onnx_hold_within(g, x, 0, last), TW_I64);
}

/* The data at indices of space, [batch, points]. */
static tw_value *fetch(const tw_onnx_sample *s, tw_value *at)
{
    tw_gb *g = s->g;
    tw_type data = s->data->type;
    if (s->base)
        return tw_gb_gather(g, s->data, tw_gb_binary(g, TW_GRAPH_ADD, at, s->base), 0);
    at = tw_gb_unsqueeze(g, at, 4);
    if (!at)
        return NULL;
    tw_expr dims[3] = {at->type->dims[0], at->type->dims[1], data->dims[2]};
    return TW_GB_EMIT(g, GATHER_ND, ((tw_value *[]){s->data, at}), 2,
                      tw_type_tensor(g->ctx, data->elem, 3, dims, NULL),
                      {"batch_dims", tw_attr_int(g->ctx, 1)});
}

/* The elements at an offset from the floors, times their weight: [batch, points, channels]. */
static tw_value *tap(const tw_onnx_sample *s, const int64_t *offsets, const unsigned *which)
{
    tw_gb *g = s->g;
    tw_value *valid = NULL, *at = NULL, *weight = NULL;
    for (unsigned i = 0; i < s->spatial; i++) {
        tw_value *index = index_of(s, i, offsets[i], &valid);
        tw_value *size = tw_gb_cast(g, s->sizes[i], TW_I64);
        at = at ? tw_gb_binary(g, TW_GRAPH_ADD, tw_gb_binary(g, TW_GRAPH_MUL, at, size), index)
                : index;
        tw_value *w = s->mode == TW_ONNX_NEAREST ? NULL : s->weights[i][which[i]];
        weight = weight && w ? tw_gb_binary(g, TW_GRAPH_MUL, weight, w) : w ? w : weight;
    }
    tw_elem elem = s->data->type->elem;
    tw_value *x = fetch(s, at);
    if (valid)
        x = tw_gb_where(g, tw_gb_unsqueeze(g, valid, 4), x, tw_gb_scalar(g, elem, 0));
    return weight ? tw_gb_binary(g, TW_GRAPH_MUL, x,
                                 tw_gb_cast(g, tw_gb_unsqueeze(g, weight, 4), elem))
                  : x;
}

tw_value *tw_onnx_sample_points(tw_onnx_sample *s, tw_graph_kind join)
{
    unsigned each = s->mode == TW_ONNX_NEAREST ? 1 : s->mode == TW_ONNX_LINEAR ? 2 : 4, count = 1;
    tw_value *sum = NULL;
    for (unsigned i = 0; i < s->spatial; i++) {
        s->whole[i] = tw_gb_unary(s->g, TW_GRAPH_FLOOR, s->place[i]);
        make_weights(s, i);
        count *= each;
    }
    for (unsigned k = 0; k < count; k++) {
        int64_t offsets[TW_ONNX_MAX_SPATIAL];
        unsigned which[TW_ONNX_MAX_SPATIAL], rest = k;
        for (unsigned i = 0; i < s->spatial; i++, rest /= each) {
            which[i] = rest % each;
            offsets[i] = (int64_t)which[i] - (s->mode == TW_ONNX_CUBIC ? 1 : 0);
        }
        tw_value *x = tap(s, offsets, which);
        sum = sum ? tw_gb_binary(s->g, join, sum, x) : x;
        if (!sum)
            return NULL;
    }
    return sum;
}
