/* op_grid.c: sampling at computed places, GridSample and AffineGrid; blocks put together, Col2Im.
 */
#include "import/onnx/sample.h"

#include <math.h>
#include <string.h>

enum { MAX_POINTS = 1 << 22 };

/* ---- GridSample ---- */

/* Coordinates beyond the outermost elements come to these. Where the corners of the grid are
 * borders of elements, the half element beyond counts as inside: a cubic curve goes on there. */
static tw_value *to_border(const tw_onnx_sample *s, tw_value *x, unsigned i)
{
    tw_gb *g = s->g;
    tw_value *last = tw_onnx_plus_number(g, s->sizes[i], -1);
    tw_value *clamped = tw_onnx_hold_within(g, x, 0, last);
    if (s->mode != TW_ONNX_CUBIC || s->corners)
        return clamped;
    tw_value *held = tw_onnx_hold_within(g, x, -0.5, tw_onnx_plus_number(g, last, 0.5));
    tw_value *inside = tw_gb_binary(g, TW_GRAPH_EQUAL, x, held);
    return tw_gb_where(g, inside, x, clamped);
}

/* Coordinates of axis i: of the grid's -1..1, in elements, inside if the padding says so. */
static tw_value *place(const tw_onnx_sample *s, tw_value *grid, unsigned i)
{
    tw_gb *g = s->g;
    tw_value *half = tw_onnx_plus_number(g, s->sizes[i], s->corners ? -1 : 0);
    half = tw_onnx_times_number(g, half, 0.5);
    /* The grid's last axis has the innermost coordinate first. */
    tw_value *x =
        tw_gb_slice_axis(g, grid, 2, tw_gb_const(g, s->spatial - 1 - i), 1, tw_gb_const(g, 1));
    x = tw_onnx_plus_number(g, tw_gb_squeeze(g, x, 4), 1);
    x = tw_onnx_plus_number(g, tw_gb_binary(g, TW_GRAPH_MUL, x, half), s->corners ? 0 : -0.5);
    if (s->mode == TW_ONNX_NEAREST)
        x = tw_gb_unary(g, TW_GRAPH_ROUND, x);
    return s->padding == TW_ONNX_BORDER       ? to_border(s, x, i)
           : s->padding == TW_ONNX_REFLECTION ? tw_onnx_reflect(s, x, i)
                                              : x;
}

/* The position of a name in a list; -1 with an error. */
static int choice(tw_onnx_node *n, const char *attribute, const char *value,
                  const char *const *names)
{
    for (int i = 0; names[i]; i++)
        if (!strcmp(names[i], value))
            return i;
    tw_gb_error(n->g, "attribute '%s' has the unknown value '%s'", attribute, value);
    return -1;
}

static bool read_sample(tw_onnx_node *n, tw_onnx_sample *s)
{
    static const char *const modes[] = {"nearest", "linear", "cubic", NULL};
    static const char *const old_modes[] = {"nearest", "bilinear", "bicubic", NULL};
    static const char *const paddings[] = {"zeros", "border", "reflection", NULL};
    bool ok = true, old = n->version < 20;
    tw_type x = n->in[0]->type, grid = n->in[1]->type;
    const char *mode = tw_onnx_string(n, "mode", old ? "bilinear" : "linear", &ok);
    const char *padding = tw_onnx_string(n, "padding_mode", "zeros", &ok);
    s->corners = tw_onnx_int(n, "align_corners", 0, &ok);
    if (!ok || !tw_onnx_check_elem(n, 0, TW_ONNX_FLOATS) ||
        !tw_onnx_check_elem(n, 1, TW_ONNX_FLOATS))
        return false;
    int m = choice(n, "mode", mode, old ? old_modes : modes);
    int p = m < 0 ? -1 : choice(n, "padding_mode", padding, paddings);
    if (p < 0)
        return false;
    s->mode = (tw_onnx_interpolation)m;
    s->padding = (tw_onnx_outside)p;
    s->spatial = x->rank < 3 ? 0 : x->rank - 2;
    bool fits = s->spatial >= 1 && s->spatial <= TW_ONNX_MAX_SPATIAL && grid->rank == x->rank;
    if (!fits)
        return tw_onnx_error(n, "data %s and grid %s do not fit", tw_gb_type_text(s->g, x),
                             tw_gb_type_text(s->g, grid));
    for (unsigned i = 0; i < s->spatial; i++) {
        tw_expr least = tw_expr_addc(n->ctx, x->dims[i + 2], -1);
        if (!tw_gb_check(s->g, least, "GridSample: data without elements"))
            return false;
    }
    tw_onnx_sample_sizes(s, n->in[0]);
    return tw_gb_check_equal(s->g, x->dims[0], grid->dims[0], "batches of data and grid");
}

bool tw_onnx_op_grid_sample(tw_onnx_node *n)
{
    static const int64_t swap[3] = {0, 2, 1};
    tw_onnx_sample s = {.g = n->g};
    tw_gb *g = n->g;
    tw_expr dims[TW_MAX_RANK];
    if (!read_sample(n, &s))
        return false;
    tw_type x = n->in[0]->type, grid = n->in[1]->type;
    tw_value *given;
    memset(dims, 0, sizeof dims);
    dims[0] = x->dims[0];
    dims[s.spatial + 1] = tw_gb_const(g, s.spatial);
    if (!tw_onnx_sized(n, 1, x->rank, dims, &given))
        return false;
    tw_expr space = tw_gb_product(g, x->dims + 2, s.spatial);
    tw_expr points = tw_gb_product(g, grid->dims + 1, s.spatial);
    tw_value *data = tw_gb_reshape(g, n->in[0], 3, (tw_expr[]){x->dims[0], x->dims[1], space});
    s.data = tw_gb_transpose(g, data, swap);
    tw_value *places = tw_gb_reshape(g, tw_gb_cast(g, given, TW_F32), 3,
                                     (tw_expr[]){x->dims[0], points, tw_gb_const(g, s.spatial)});
    for (unsigned i = 0; i < s.spatial; i++)
        s.place[i] = place(&s, places, i);
    if (!s.data)
        return false;
    tw_value *y = tw_gb_transpose(g, tw_onnx_sample_points(&s, TW_GRAPH_ADD), swap);
    dims[0] = x->dims[0];
    dims[1] = x->dims[1];
    memcpy(dims + 2, grid->dims + 1, s.spatial * sizeof *dims);
    return tw_onnx_set(n, 0, tw_gb_reshape(g, y, x->rank, dims));
}

/* ---- AffineGrid ---- */

/* Homogeneous coordinates of all points, innermost axis first, then ones: [spatial + 1, points].
 * Aligned corners of an axis of size 1 fall together, and the operator's description divides by 0:
 * the point is at 1, as in onnxruntime. */
static const float *homogeneous(tw_onnx_node *n, const int64_t *sizes, unsigned spatial,
                                int64_t points, bool corners)
{
    float *out = tw_context_alloc(n->ctx, (size_t)points * (spatial + 1) * sizeof *out);
    for (int64_t p = 0; p < points; p++) {
        int64_t rest = p;
        for (unsigned i = spatial; i-- > 0; rest /= sizes[i]) {
            double size = (double)sizes[i], at = (double)(rest % sizes[i]);
            double x = !corners ? (2 * at + 1) / size - 1 : size > 1 ? 2 * at / (size - 1) - 1 : 1;
            out[(int64_t)(spatial - 1 - i) * points + p] = (float)x;
        }
        out[(int64_t)spatial * points + p] = 1;
    }
    return out;
}

/* The same for sizes that the model computes. */
static tw_value *homogeneous_runtime(tw_onnx_node *n, tw_value *sizes, const tw_expr *dims,
                                     unsigned spatial, bool corners)
{
    tw_gb *g = n->g;
    tw_value *rows[4];
    tw_expr one = tw_gb_const(g, 1), row[2] = {one, tw_gb_product(g, dims, spatial)};
    for (unsigned i = 0; i < spatial; i++) {
        tw_value *size = tw_gb_cast(g, tw_onnx_item(g, sizes, i + 2), TW_F64);
        tw_value *at = tw_gb_iota(g, TW_F64, spatial, dims, i);
        at = tw_gb_binary_scalar(g, TW_GRAPH_MUL, at, 2);
        if (corners)
            size = tw_gb_binary_scalar(g, TW_GRAPH_SUB, size, 1);
        else
            at = tw_gb_binary_scalar(g, TW_GRAPH_ADD, at, 1);
        at = tw_gb_binary_scalar(g, TW_GRAPH_SUB, tw_gb_binary(g, TW_GRAPH_DIV, at, size), 1);
        if (corners)
            at = tw_gb_where(g, tw_gb_binary_scalar(g, TW_GRAPH_GREATER, size, 0), at,
                             tw_gb_scalar(g, TW_F64, 1));
        rows[spatial - 1 - i] = tw_gb_reshape(g, tw_gb_cast(g, at, TW_F32), 2, row);
    }
    rows[spatial] = tw_gb_splat(g, TW_F32, 1, 2, row);
    return tw_gb_concat(g, rows, spatial + 1, 0);
}

/* The points times theta, given the sizes of the space. */
static bool affine_points(tw_onnx_node *n, tw_value *all, const tw_expr *space, unsigned spatial)
{
    static const int64_t swap[3] = {0, 2, 1};
    tw_gb *g = n->g;
    tw_value *theta;
    tw_expr dims[TW_MAX_RANK] = {NULL, tw_gb_const(g, spatial), tw_gb_const(g, spatial + 1)};
    if (!tw_onnx_sized(n, 0, 3, dims, &theta))
        return false;
    tw_value *y = tw_gb_matmul(g, theta, tw_gb_cast(g, all, theta->type->elem), false, false);
    dims[0] = theta->type->dims[0];
    memcpy(dims + 1, space, spatial * sizeof *dims);
    dims[spatial + 1] = tw_gb_const(g, spatial);
    return tw_onnx_set(n, 0, tw_gb_reshape(g, tw_gb_transpose(g, y, swap), spatial + 2, dims));
}

static bool affine_grid_runtime(tw_onnx_node *n, bool corners)
{
    tw_gb *g = n->g;
    size_t count = 0;
    tw_type theta = n->in[0]->type;
    tw_expr declared[6], hints[6] = {NULL};
    bool known = theta->rank == 3 && tw_expr_is_const(theta->dims[1]);
    tw_value *sizes = known ? tw_onnx_index_exactly(n, 1, tw_expr_addc(n->ctx, theta->dims[1], 2))
                            : tw_onnx_index_vector(n, 1, &count);
    if (known)
        count = (size_t)theta->dims[1]->value + 2;
    if (!sizes || (count != 4 && count != 5) || theta->rank != 3)
        return sizes &&
               tw_onnx_error(n, "theta %s with %zu sizes", tw_gb_type_text(g, theta), count);
    unsigned spatial = (unsigned)count - 2;
    tw_onnx_declared_dims(n, 0, spatial + 2, declared);
    hints[0] = theta->dims[0];
    for (unsigned i = 0; i < spatial; i++)
        hints[i + 2] = declared[i + 1];
    const tw_expr *bound = tw_onnx_bind_sizes(n, sizes, hints, "sizes of the grid");
    if (!bound)
        return false;
    tw_value *all = homogeneous_runtime(n, sizes, bound + 2, spatial, corners);
    return affine_points(n, all, bound + 2, spatial);
}

bool tw_onnx_op_affine_grid(tw_onnx_node *n)
{
    bool ok = true, corners = tw_onnx_int(n, "align_corners", 0, &ok);
    tw_gb *g = n->g;
    size_t count;
    int64_t points = 1;
    tw_expr space[3];
    const int64_t *size = tw_known_ints(g, n->in[1], &count);
    if (!ok || !size)
        return ok && affine_grid_runtime(n, corners);
    unsigned spatial = (unsigned)count - 2;
    bool fits = (count == 4 || count == 5) && n->in[0]->type->rank == 3;
    for (unsigned i = 0; fits && i < spatial; i++) {
        fits = size[i + 2] > 0 && size[i + 2] <= MAX_POINTS && points <= MAX_POINTS / size[i + 2];
        points = fits ? points * size[i + 2] : 0;
        space[i] = tw_gb_const(g, size[i + 2]);
    }
    if (!fits)
        return tw_onnx_error(n, "theta %s with %zu sizes, or too many points",
                             tw_gb_type_text(g, n->in[0]->type), count);
    tw_type type = tw_type_tensor_static(n->ctx, TW_F32, 2, (int64_t[]){spatial + 1, points});
    tw_value *all = tw_gb_constant(g, type, homogeneous(n, size + 2, spatial, points, corners),
                                   (size_t)points * (spatial + 1) * sizeof(float), NULL);
    return affine_points(n, all, space, spatial);
}

/* ---- Col2Im: a transposed convolution that puts element k of a block at place k ---- */

/* [channels * block, 1, block shape...]: 1 where the row is the place. */
static tw_value *unit_filters(tw_onnx_node *n, tw_elem elem, int64_t channels, int64_t block,
                              const int64_t *shape, unsigned spatial)
{
    int64_t dims[TW_MAX_RANK] = {channels * block, 1};
    float *data = tw_context_alloc(n->ctx, (size_t)(channels * block * block) * sizeof *data);
    for (int64_t c = 0; c < channels; c++)
        for (int64_t k = 0; k < block; k++)
            data[(c * block + k) * block + k] = 1;
    memcpy(dims + 2, shape, spatial * sizeof *dims);
    tw_type type = tw_type_tensor_static(n->ctx, TW_F32, spatial + 2, dims);
    tw_value *filters =
        tw_gb_constant(n->g, type, data, (size_t)(channels * block * block) * sizeof *data, NULL);
    return tw_gb_cast(n->g, filters, elem);
}

static bool read_blocks(tw_onnx_node *n, tw_onnx_window *w, const int64_t **image,
                        const int64_t **shape, int64_t *block)
{
    size_t n_image, n_shape;
    *image = tw_onnx_known_ints(n, 1, &n_image);
    *shape = *image ? tw_onnx_known_ints(n, 2, &n_shape) : NULL;
    if (!*shape)
        return false;
    if (n_image != n_shape || n_image == 0 || n_image + 2 > TW_MAX_RANK)
        return tw_onnx_error(n, "%zu sizes of the image and %zu of a block", n_image, n_shape);
    if (!tw_onnx_read_window(n, (unsigned)n_image, w))
        return false;
    *block = 1;
    for (unsigned i = 0; i < w->n; i++) {
        if ((*shape)[i] <= 0 || (*image)[i] <= 0 || (*image)[i] > INT32_MAX ||
            (*shape)[i] > 4096 / *block)
            return tw_onnx_error(n, "a block that is empty or has more than 4096 elements");
        *block *= (*shape)[i];
        w->kernel[i] = tw_gb_const(n->g, (*shape)[i]);
    }
    return true;
}

bool tw_onnx_op_col2im(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_onnx_window w;
    const int64_t *image, *shape;
    int64_t block, rows = 0;
    size_t count;
    tw_expr dims[TW_MAX_RANK], sizes[TW_MAX_RANK];
    tw_named_attr attrs[TW_ONNX_WINDOW_ATTRS + 1];
    tw_type x = n->in[0]->type;
    if (!tw_known_ints(g, n->in[1], &count) || !tw_known_ints(g, n->in[2], &count))
        return tw_onnx_col2im_runtime(n);
    if (!tw_onnx_check_elem(n, 0, TW_ONNX_FLOATS) || !read_blocks(n, &w, &image, &shape, &block))
        return false;
    if (x->rank != 3 || !tw_expr_as_const(x->dims[1], &rows) || rows <= 0 || rows % block ||
        rows > MAX_POINTS / block)
        return tw_onnx_error(n, "input %s with blocks of %lld", tw_gb_type_text(g, x),
                             (long long)block);
    for (unsigned i = 0; i < w.n; i++)
        sizes[i] = tw_gb_const(g, image[i]);
    if (!tw_onnx_window_sizes(n, &w, sizes, false, dims + 2))
        return false;
    dims[0] = x->dims[0];
    dims[1] = x->dims[1];
    tw_value *filters = unit_filters(n, x->elem, rows / block, block, shape, w.n);
    tw_value *operands[2] = {tw_gb_reshape(g, n->in[0], w.n + 2, dims), filters};
    tw_onnx_window_attrs(n, &w, attrs);
    attrs[TW_ONNX_WINDOW_ATTRS] = (tw_named_attr){"groups", tw_attr_int(n->ctx, rows / block)};
    memcpy(dims + 2, sizes, w.n * sizeof *dims);
    dims[1] = tw_gb_const(g, rows / block);
    return tw_onnx_set(n, 0,
                       tw_gb_emit(g, TW_GRAPH_CONV_TRANSPOSE, operands, 2,
                                  tw_type_tensor(n->ctx, x->elem, w.n + 2, dims, NULL), attrs,
                                  TW_ONNX_WINDOW_ATTRS + 1));
}
