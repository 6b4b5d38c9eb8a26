/* resize_runtime.c: Resize with scales that are known only when the model runs.
 *
 * Positions in the operand are computed as a vector for each axis, and from these what is read:
 * one element (nearest), or two or four neighbours with their weights, as gathers along the axis;
 * with antialiasing, where the number of neighbours depends on the scale, a matrix of weights that
 * the axis is multiplied by. The arithmetic is that of lower/resize_table.c. */
#include "import/onnx/arith.h"
#include "import/onnx/resize.h"

#include <string.h>

/* One axis being resized. */
typedef struct axis {
    tw_gb *g;
    const tw_onnx_resize *r;
    unsigned number;
    tw_value *x;                /* what is resized */
    tw_value *scale, *in, *out; /* f32 scalars */
    tw_value *at;               /* f32: the position of each element of the result */
} axis;

static tw_value *real(tw_gb *g, double value)
{
    return tw_gb_scalar(g, TW_F32, value);
}

static tw_value *choose_above(tw_gb *g, tw_value *x, double limit, tw_value *a, tw_value *b)
{
    return tw_gb_where(g, tw_gb_binary_scalar(g, TW_GRAPH_GREATER, x, limit), a, b);
}

/* ---- Positions ---- */

static tw_value *half_pixel(const axis *a, tw_value *o)
{
    tw_gb *g = a->g;
    return ADDC(DIV(ADDC(o, 0.5), a->scale), -0.5);
}

/* x * (in - 1) / (length - 1), where the length is in * scale, or the result's size if that is as
 * good as equal. */
static tw_value *align_corners(const axis *a, tw_value *o)
{
    tw_gb *g = a->g;
    tw_value *length = MUL(a->scale, a->in);
    tw_value *near = tw_gb_binary_scalar(g, TW_GRAPH_LESS,
                                         tw_gb_unary(g, TW_GRAPH_ABS, SUB(length, a->out)), 1e-3);
    length = tw_gb_where(g, near, a->out, length);
    tw_value *x = DIV(MUL(o, ADDC(a->in, -1)), ADDC(length, -1));
    return choose_above(g, a->out, 1, x, real(g, 0));
}

static tw_value *crop(const axis *a, tw_value *o)
{
    tw_gb *g = a->g;
    tw_value *start = a->r->roi_start[a->number], *end = a->r->roi_end[a->number];
    tw_value *last = ADDC(a->in, -1);
    tw_value *step = DIV(MUL(SUB(end, start), last), ADDC(a->out, -1));
    return choose_above(g, a->out, 1, ADD(MUL(start, last), MUL(o, step)),
                        MUL(MULC(ADD(start, end), 0.5), last));
}

static tw_value *positions(const axis *a, tw_value *o)
{
    tw_gb *g = a->g;
    const char *c = a->r->coordinates;
    if (!strcmp(c, "asymmetric"))
        return DIV(o, a->scale);
    if (!strcmp(c, "align_corners"))
        return align_corners(a, o);
    if (!strcmp(c, "tf_crop_and_resize"))
        return crop(a, o);
    tw_value *x = half_pixel(a, o);
    if (!strcmp(c, "pytorch_half_pixel"))
        return choose_above(g, a->out, 1, x, real(g, 0));
    if (strcmp(c, "half_pixel_symmetric"))
        return x;
    tw_value *adjustment = DIV(a->out, MUL(a->scale, a->in));
    return ADD(MUL(MULC(a->in, 0.5), SUB(real(g, 1), adjustment)), x);
}

/* ---- Reading ---- */

/* The elements of the operand at the indices (f32 whole numbers, taken to the nearest end). */
static tw_value *read_at(const axis *a, tw_value *index)
{
    tw_gb *g = a->g;
    index = tw_gb_binary(g, TW_GRAPH_MIN, index, ADDC(a->in, -1));
    index = tw_gb_binary_scalar(g, TW_GRAPH_MAX, index, 0);
    return tw_gb_gather(g, a->x, tw_gb_cast(g, index, TW_I64), a->number);
}

static tw_value *nearest(const axis *a)
{
    tw_gb *g = a->g;
    const char *rounding = a->r->nearest;
    tw_value *low = tw_gb_unary(g, TW_GRAPH_FLOOR, a->at);
    if (!strcmp(rounding, "floor"))
        return read_at(a, low);
    if (!strcmp(rounding, "ceil"))
        return read_at(a, tw_gb_unary(g, TW_GRAPH_CEIL, a->at));
    bool up = !strcmp(rounding, "round_prefer_ceil");
    tw_value *beyond = tw_gb_binary_scalar(g, up ? TW_GRAPH_GREATER_EQUAL : TW_GRAPH_GREATER,
                                           SUB(a->at, low), 0.5);
    return read_at(a, tw_gb_where(g, beyond, ADDC(low, 1), low));
}

/* Weight of a neighbour at distance d: a triangle, or Keys' cubic kernel. */
static tw_value *filter(const axis *a, tw_value *d)
{
    tw_gb *g = a->g;
    double k = a->r->cubic;
    d = tw_gb_unary(g, TW_GRAPH_ABS, d);
    tw_value *none = real(g, 0);
    if (!strcmp(a->r->mode, "linear"))
        return tw_gb_binary(g, TW_GRAPH_MAX, SUB(real(g, 1), d), none);
    tw_value *inner = ADDC(MUL(MUL(ADDC(MULC(d, k + 2), -(k + 3)), d), d), 1);
    tw_value *outer = MULC(ADDC(MUL(ADDC(MUL(ADDC(d, -5), d), 8), d), -4), k);
    outer = tw_gb_where(g, tw_gb_binary_scalar(g, TW_GRAPH_LESS, d, 2), outer, none);
    return tw_gb_where(g, tw_gb_binary_scalar(g, TW_GRAPH_LESS, d, 1), inner, outer);
}

/* Weights of places outside become 0 if the model says so. */
static tw_value *exclude(const axis *a, tw_value *weight, tw_value *index)
{
    tw_gb *g = a->g;
    if (!a->r->exclude_outside)
        return weight;
    tw_value *inside =
        tw_gb_binary(g, TW_GRAPH_AND, tw_gb_binary_scalar(g, TW_GRAPH_GREATER_EQUAL, index, 0),
                     tw_gb_binary(g, TW_GRAPH_LESS, index, a->in));
    return tw_gb_where(g, inside, weight, real(g, 0));
}

/* A vector along the axis, for products with what is read. */
static tw_value *along(const axis *a, tw_value *v)
{
    tw_expr dims[TW_MAX_RANK];
    for (unsigned i = 0; i < a->x->type->rank; i++)
        dims[i] = i == a->number ? a->r->dims[i] : tw_gb_const(a->g, 1);
    return tw_gb_cast(a->g, tw_gb_reshape(a->g, v, a->x->type->rank, dims), a->x->type->elem);
}

/* Two neighbours, or four. */
static tw_value *interpolate(const axis *a)
{
    enum { MAX_TAPS = 4 };
    tw_gb *g = a->g;
    bool linear = !strcmp(a->r->mode, "linear");
    int taps = linear ? 2 : 4;
    tw_value *low = tw_gb_unary(g, TW_GRAPH_FLOOR, a->at), *y = NULL, *total = NULL;
    tw_value *index[MAX_TAPS], *weight[MAX_TAPS];
    for (int k = 0; k < taps; k++) {
        index[k] = ADDC(low, linear ? k : k - 1);
        weight[k] = filter(a, SUB(a->at, index[k]));
        weight[k] = linear ? weight[k] : exclude(a, weight[k], index[k]);
        total = total ? ADD(total, weight[k]) : weight[k];
    }
    for (int k = 0; k < taps; k++) {
        if (!linear && a->r->exclude_outside)
            weight[k] = DIV(weight[k], total);
        tw_value *part = MUL(read_at(a, index[k]), along(a, weight[k]));
        y = y ? ADD(y, part) : part;
    }
    return y;
}

/* Row o of the matrix has the weights of the places -in .. 2 * in - 1, which a filter reaches. */
static tw_value *multiply(const axis *a)
{
    tw_gb *g = a->g;
    unsigned rank = a->x->type->rank;
    int64_t perm[TW_MAX_RANK];
    tw_expr dims[TW_MAX_RANK], reach = tw_expr_mulc(g->ctx, a->x->type->dims[a->number], 3);
    tw_value *place = SUB(tw_gb_iota(g, TW_F32, 1, &reach, 0), a->in);
    tw_value *shrink = tw_gb_binary_scalar(g, TW_GRAPH_MIN, a->scale, 1);
    tw_value *row = tw_gb_unsqueeze(g, place, 1);
    tw_value *distance = MUL(SUB(tw_gb_unsqueeze(g, a->at, 2), row), shrink);
    tw_value *weight = exclude(a, filter(a, distance), row);
    weight = DIV(weight, tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, weight, 2, true));
    for (unsigned i = 0; i < rank; i++) /* the axis last; its own inverse */
        perm[i] = i == a->number ? rank - 1 : i + 1 == rank ? a->number : i;
    tw_value *x = tw_gb_transpose(g, read_at(a, place), perm);
    if (!x || !weight)
        return NULL;
    memcpy(dims, x->type->dims, rank * sizeof *dims);
    tw_expr flat[2] = {tw_gb_product(g, dims, rank - 1), reach};
    tw_value *y = tw_gb_matmul(g, tw_gb_reshape(g, x, 2, flat),
                               tw_gb_cast(g, weight, x->type->elem), false, true);
    dims[rank - 1] = a->r->dims[a->number];
    return tw_gb_transpose(g, tw_gb_reshape(g, y, rank, dims), perm);
}

/* ---- All axes ---- */

/* Where the position is outside, so is the whole row: *outside, bool, joined with `earlier`. */
static tw_value *note_outside(const axis *a, tw_value *earlier)
{
    tw_gb *g = a->g;
    tw_expr dims[TW_MAX_RANK];
    tw_value *is = tw_gb_binary(g, TW_GRAPH_OR, tw_gb_binary_scalar(g, TW_GRAPH_LESS, a->at, 0),
                                tw_gb_binary(g, TW_GRAPH_GREATER, a->at, ADDC(a->in, -1)));
    for (unsigned i = 0; i < a->x->type->rank; i++)
        dims[i] = i == a->number ? a->r->dims[i] : tw_gb_const(g, 1);
    is = tw_gb_reshape(g, is, a->x->type->rank, dims);
    return earlier ? tw_gb_binary(g, TW_GRAPH_OR, earlier, is) : is;
}

tw_value *tw_onnx_resize_axes(tw_onnx_node *n, tw_value *x, const tw_onnx_resize *r)
{
    tw_gb *g = n->g;
    tw_value *outside = NULL;
    if (!x)
        return NULL;
    tw_elem elem = x->type->elem;
    bool is_nearest = !strcmp(r->mode, "nearest");
    bool crops = !strcmp(r->coordinates, "tf_crop_and_resize");
    if (!is_nearest && !tw_elem_is_float(elem))
        x = tw_gb_cast(g, x, TW_F32);
    for (unsigned i = 0; x && i < x->type->rank; i++) {
        if (!r->scale[i])
            continue;
        axis a = {.g = g, .r = r, .number = i, .x = x, .scale = r->scale[i]};
        a.in = tw_gb_cast(g, tw_onnx_size_of(g, x, i), TW_F32);
        a.out = tw_gb_cast(g, r->size[i], TW_F32);
        a.at = positions(&a, tw_gb_iota(g, TW_F32, 1, &r->dims[i], 0));
        if (!a.at)
            return NULL;
        outside = crops ? note_outside(&a, outside) : NULL;
        x = is_nearest ? nearest(&a) : r->antialias ? multiply(&a) : interpolate(&a);
    }
    if (outside && x)
        x = tw_gb_where(g, outside, tw_gb_scalar(g, x->type->elem, r->outside), x);
    return tw_gb_cast(g, x, elem);
}
