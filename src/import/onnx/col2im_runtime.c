/* col2im_runtime.c: Col2Im with sizes that are known only when the model runs: every element of the
 * columns is added to the place in the image that it came from. */
#include "import/onnx/arith.h"
#include "import/onnx/import.h"

/* Attributes, one entry a spatial axis. */
typedef struct window {
    int64_t strides[TW_MAX_RANK], dilations[TW_MAX_RANK];
    int64_t begin[TW_MAX_RANK], end[TW_MAX_RANK];
} window;

static bool read_list(tw_onnx_node *n, const char *name, size_t count, int64_t absent, int64_t *out)
{
    bool ok = true;
    size_t given;
    const int64_t *list = tw_onnx_int_list(n, name, &given, &ok);
    if (!ok || (list && given != count))
        return ok &&
               tw_onnx_error(n, "attribute '%s' has %zu entries, not %zu", name, given, count);
    for (size_t i = 0; i < count; i++)
        out[i] = list ? list[i] : absent;
    return true;
}

static bool read_window(tw_onnx_node *n, size_t axes, window *w)
{
    int64_t pads[2 * TW_MAX_RANK];
    if (!read_list(n, "strides", axes, 1, w->strides) ||
        !read_list(n, "dilations", axes, 1, w->dilations) ||
        !read_list(n, "pads", 2 * axes, 0, pads))
        return false;
    for (size_t i = 0; i < axes; i++) {
        w->begin[i] = pads[i];
        w->end[i] = pads[axes + i];
        if (w->strides[i] <= 0)
            return tw_onnx_error(n, "a stride of %lld", (long long)w->strides[i]);
    }
    return true;
}

/* How many positions the block takes along an axis. */
static tw_value *positions(tw_gb *g, const window *w, size_t i, tw_value *image, tw_value *block)
{
    tw_value *extent = ADDC(MULC(ADDC(block, -1), w->dilations[i]), 1);
    tw_value *room = SUB(ADDC(image, w->begin[i] + w->end[i]), extent);
    return ADDC(DIV(room, tw_onnx_number(g, w->strides[i])), 1);
}

/* [block elements, positions]: the place in the image, or `outside` where padding is. */
static tw_value *places(tw_gb *g, const window *w, size_t axes, tw_value *const *image,
                        tw_value *const *block, tw_expr elements, tw_expr columns,
                        tw_value *outside)
{
    tw_expr one = tw_gb_const(g, 1);
    tw_value *k = tw_gb_iota(g, TW_I64, 2, (tw_expr[]){elements, one}, 0);
    tw_value *l = tw_gb_iota(g, TW_I64, 2, (tw_expr[]){one, columns}, 1);
    tw_value *at = NULL, *inside = NULL, *stride = tw_onnx_number(g, 1);
    for (size_t i = axes; i-- > 0;) { /* the innermost axis counts fastest */
        tw_value *steps = positions(g, w, i, image[i], block[i]);
        tw_value *c =
            ADD(MULC(MOD(l, steps), w->strides[i]), MULC(MOD(k, block[i]), w->dilations[i]));
        c = ADDC(c, -w->begin[i]);
        tw_value *fits =
            tw_gb_binary(g, TW_GRAPH_AND, tw_gb_binary_scalar(g, TW_GRAPH_GREATER_EQUAL, c, 0),
                         tw_gb_binary(g, TW_GRAPH_LESS, c, image[i]));
        inside = inside ? tw_gb_binary(g, TW_GRAPH_AND, inside, fits) : fits;
        at = at ? ADD(at, MUL(c, stride)) : MUL(c, stride);
        stride = MUL(stride, image[i]);
        k = DIV(k, block[i]);
        l = DIV(l, steps);
    }
    return tw_gb_where(g, inside, at, outside);
}

bool tw_onnx_col2im_runtime(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    window w;
    size_t axes, count;
    tw_type x = n->in[0]->type;
    tw_expr hints[TW_MAX_RANK], dims[TW_MAX_RANK];
    tw_value *image = tw_onnx_index_vector(n, 1, &axes),
             *block = tw_onnx_index_vector(n, 2, &count);
    tw_value *sizes[TW_MAX_RANK], *blocks[TW_MAX_RANK];
    if (!image || !block || !tw_onnx_check_elem(n, 0, TW_ONNX_FLOATS))
        return false;
    if (axes != count || axes == 0 || axes + 2 > TW_MAX_RANK || x->rank != 3)
        return tw_onnx_error(n, "%zu sizes of the image and %zu of a block for %s", axes, count,
                             tw_gb_type_text(g, x));
    if (!read_window(n, axes, &w))
        return false;
    for (size_t i = 0; i < axes; i++) {
        sizes[i] = tw_onnx_item(g, image, i);
        blocks[i] = tw_onnx_item(g, block, i);
    }
    tw_onnx_declared_dims(n, 0, (unsigned)axes + 2, hints);
    const tw_expr *bound = tw_onnx_bind_sizes(n, image, hints + 2, "image shape");
    tw_value *elements = tw_gb_reduce(g, TW_GRAPH_REDUCE_PROD, block, 1, false);
    tw_value *channels = DIV(tw_onnx_size_of(g, n->in[0], 1), elements);
    const tw_expr *parts =
        tw_onnx_bind_sizes(n, tw_onnx_join(g, (tw_value *[]){channels, elements}, 2),
                           (tw_expr[]){hints[1], NULL}, "channels, and elements of a block");
    if (!bound || !parts)
        return false;
    tw_expr area = tw_gb_product(g, bound, (unsigned)axes), more = tw_expr_addc(n->ctx, area, 1);
    tw_expr rows = tw_expr_mul(n->ctx, x->dims[0], parts[0]);
    tw_expr updates[2] = {rows, tw_expr_mul(n->ctx, parts[1], x->dims[2])};
    tw_value *total = tw_gb_reduce(g, TW_GRAPH_REDUCE_PROD, image, 1, false);
    tw_value *at = places(g, &w, axes, sizes, blocks, parts[1], x->dims[2], total);
    at = tw_gb_reshape(g, at, 2, (tw_expr[]){tw_gb_const(g, 1), updates[1]});
    tw_value *operands[3] = {tw_gb_splat(g, x->elem, 0, 2, (tw_expr[]){rows, more}),
                             tw_gb_expand(g, at, 2, updates),
                             tw_gb_reshape(g, n->in[0], 2, updates)};
    if (!operands[0])
        return false;
    tw_value *y =
        TW_GB_EMIT(g, SCATTER_ELEMENTS, operands, 3, operands[0]->type,
                   {"axis", tw_attr_int(n->ctx, 1)}, {"reduction", tw_attr_string(n->ctx, "add")});
    y = tw_gb_slice_axis(g, y, 1, tw_gb_const(g, 0), 1, area);
    dims[0] = x->dims[0];
    dims[1] = parts[0];
    for (size_t i = 0; i < axes; i++)
        dims[i + 2] = bound[i];
    return tw_onnx_set(n, 0, tw_gb_reshape(g, y, (unsigned)axes + 2, dims));
}
