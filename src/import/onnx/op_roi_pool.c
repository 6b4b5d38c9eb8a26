/* op_roi_pool.c: MaxRoiPool: the maximum of each bin of regions of pictures.
 *
 * Along each axis bin i of a region takes the positions first(i) … last(i) - 1:
 *     y[r, c, i, j] = max over h in bin i, w in bin j of x[entry(r), c, h, w];  0 of an empty bin
 * computed as the maximum over h of [regions, c, i, h, w], then over w of [regions, c, i, j, w]. */
#include "import/onnx/arith.h"
#include "import/onnx/import.h"

#include <math.h>

typedef struct pool {
    tw_gb *g;
    tw_value *rois; /* [regions, 5] f32: entry, then the corners x0, y0, x1, y1 */
    double scale;
} pool;

static tw_value *column(pool *p, int64_t i)
{
    tw_gb *g = p->g;
    return tw_gb_slice_axis(g, p->rois, 1, tw_gb_const(g, i), 1, tw_gb_const(g, 1));
}

/* A corner in positions of the data, [regions, 1]; halves are rounded away from 0. */
static tw_value *corner(pool *p, int64_t i)
{
    tw_gb *g = p->g;
    tw_value *x = MULC(column(p, i), p->scale);
    tw_value *up = tw_gb_unary(g, TW_GRAPH_FLOOR, ADDC(tw_gb_unary(g, TW_GRAPH_ABS, x), 0.5));
    return MUL(tw_gb_unary(g, TW_GRAPH_SIGN, x), up);
}

/* An end of each bin, [regions, bins], between 0 and the size of the data. */
static tw_value *ends(pool *p, tw_value *start, tw_value *step, int64_t bins, tw_value *size,
                      bool last)
{
    tw_gb *g = p->g;
    tw_expr dims[1] = {tw_gb_const(g, bins)};
    tw_value *at = tw_gb_iota(g, TW_F32, 1, dims, 0);
    at = MUL(last ? ADDC(at, 1) : at, step);
    at = ADD(tw_gb_unary(g, last ? TW_GRAPH_CEIL : TW_GRAPH_FLOOR, at), start);
    tw_value *most = tw_gb_cast(g, size, TW_F32);
    return MIN(tw_gb_binary_scalar(g, TW_GRAPH_MAX, at, 0), most);
}

/* Whether a position is in a bin, [regions, bins, size]; *none: bins without any [regions, bins].
 */
static tw_value *members(pool *p, int64_t first, int64_t bins, tw_value *data, unsigned axis,
                         tw_value **none)
{
    tw_gb *g = p->g;
    tw_value *size = tw_onnx_size_of(g, data, axis);
    tw_value *start = corner(p, first);
    tw_value *length = ADDC(SUB(corner(p, first + 2), start), 1);
    tw_value *step = tw_gb_binary_scalar(g, TW_GRAPH_MAX, length, 1);
    step = tw_gb_binary_scalar(g, TW_GRAPH_DIV, step, (double)bins);
    tw_value *low = ends(p, start, step, bins, size, false);
    tw_value *high = ends(p, start, step, bins, size, true);
    *none = tw_gb_unary(g, TW_GRAPH_NOT, LESS(low, high));
    tw_value *at = tw_gb_iota(g, TW_F32, 1, &data->type->dims[axis], 0);
    tw_value *outside = LESS(at, tw_gb_unsqueeze(g, low, 4));
    return tw_gb_binary(g, TW_GRAPH_AND, tw_gb_unary(g, TW_GRAPH_NOT, outside),
                        LESS(at, tw_gb_unsqueeze(g, high, 4)));
}

/* The maximum over the axes `over` of the elements that are members, x and `in` having been brought
 * to a common rank by new axes. */
static tw_value *largest(pool *p, tw_value *x, tw_value *in, uint32_t x_axes, uint32_t in_axes,
                         uint32_t over)
{
    tw_gb *g = p->g;
    if (!x || !in)
        return NULL;
    x = tw_gb_unsqueeze(g, x, x_axes);
    tw_value *least = x ? tw_gb_scalar(g, x->type->elem, -INFINITY) : NULL;
    return tw_gb_reduce(g, TW_GRAPH_REDUCE_MAX,
                        tw_gb_where(g, tw_gb_unsqueeze(g, in, in_axes), x, least), over, false);
}

bool tw_onnx_op_max_roi_pool(tw_onnx_node *n)
{
    bool ok = true;
    size_t count;
    tw_gb *g = n->g;
    pool p = {.g = g};
    tw_type x = n->in[0]->type, rois = n->in[1]->type;
    const int64_t *bins = tw_onnx_int_list(n, "pooled_shape", &count, &ok);
    p.scale = tw_onnx_float(n, "spatial_scale", 1, &ok);
    if (!ok || !tw_onnx_check_elem(n, 0, TW_ONNX_FLOATS) ||
        !tw_onnx_check_elem(n, 1, TW_ONNX_FLOATS))
        return false;
    if (x->rank != 4 || rois->rank != 2 || tw_gb_differ(g, rois->dims[1], tw_gb_const(g, 5)))
        return tw_onnx_error(n, "inputs %s and %s; [n, c, h, w] and [regions, 5] are needed",
                             tw_gb_type_text(g, x), tw_gb_type_text(g, rois));
    if (count != 2 || bins[0] <= 0 || bins[1] <= 0 || bins[0] > INT16_MAX || bins[1] > INT16_MAX)
        return tw_onnx_error(n, "attribute 'pooled_shape' must be two sizes");
    p.rois = tw_gb_cast(g, n->in[1], TW_F32);
    tw_value *none[2];
    tw_value *rows = members(&p, 2, bins[0], n->in[0], 2, &none[0]);
    tw_value *columns = members(&p, 1, bins[1], n->in[0], 3, &none[1]);
    tw_value *entry = tw_gb_squeeze(g, tw_gb_cast(g, column(&p, 0), TW_I64), 2);
    tw_value *y = tw_gb_gather(g, n->in[0], entry, 0); /* [regions, c, h, w] */
    y = largest(&p, y, rows, 4, 2 | 16, 8);            /* [regions, c, i, h, w] */
    y = largest(&p, y, columns, 8, 2 | 4, 16);         /* [regions, c, i, j, w] */
    tw_value *empty = tw_gb_binary(g, TW_GRAPH_OR, tw_gb_unsqueeze(g, none[0], 2 | 8),
                                   tw_gb_unsqueeze(g, none[1], 2 | 4));
    return tw_onnx_set(n, 0, tw_gb_where(g, empty, tw_gb_scalar(g, x->elem, 0), y));
}
