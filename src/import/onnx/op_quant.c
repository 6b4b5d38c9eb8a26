/* op_quant.c: quantisation, and products of quantised tensors.
 *
 *     quantise:    clamp(round(x / scale) + zero point)      round: halves to even
 *     dequantise:  (x - zero point) * scale
 * Products are those of the integers less their zero points, in 32 bits. */
#include "import/onnx/import.h"

#include <string.h>

/* ---- Scales and zero points ---- */

/* The lists of numbers for blocks of `block` elements along the axis: each repeated, then cut to
 * x's size. */
static tw_value *blocks(tw_onnx_node *n, tw_value *v, tw_type x, unsigned axis, int64_t block)
{
    tw_gb *g = n->g;
    tw_expr dims[TW_MAX_RANK], zero = tw_gb_const(g, 0);
    if (block <= 0 || block > INT32_MAX || x->rank == TW_MAX_RANK)
        return tw_gb_error(g, "blocks of %lld elements", (long long)block);
    unsigned rank = x->rank + 1;
    v = tw_gb_unsqueeze(g, v, 1u << (axis + 1));
    if (!v)
        return NULL;
    memcpy(dims, v->type->dims, rank * sizeof *dims);
    dims[axis + 1] = tw_gb_const(g, block);
    v = tw_gb_expand(g, v, rank, dims);
    dims[axis] = tw_expr_mulc(n->ctx, dims[axis], block);
    memmove(dims + axis + 1, dims + axis + 2, (rank - axis - 2) * sizeof *dims);
    v = tw_gb_reshape(g, v, x->rank, dims);
    if (v && tw_expr_range(tw_expr_sub(n->ctx, dims[axis], x->dims[axis]), NULL, 0).hi < 0)
        return tw_gb_error(g, "the blocks do not cover axis %u of %s", axis, tw_gb_type_text(g, x));
    return tw_gb_slice_axis(g, v, axis, zero, 1, x->dims[axis]);
}

/* A scale or zero point in a shape that broadcasts with x: one number, one for each index of an
 * axis, or one for each block. */
static tw_value *spread(tw_onnx_node *n, tw_value *v, tw_type x)
{
    bool ok = true;
    unsigned axis;
    tw_gb *g = n->g;
    int64_t count, given = tw_onnx_int(n, "axis", 1, &ok);
    int64_t block = tw_onnx_int(n, "block_size", 0, &ok);
    if (!v || !ok)
        return NULL;
    if (v->type->rank <= 1 && tw_type_static_count(v->type, &count) && count == 1)
        return tw_gb_reshape(g, v, 0, NULL);
    if (!tw_onnx_axis(n, given, x->rank, &axis))
        return NULL;
    if (v->type->rank == 1)
        return tw_gb_unsqueeze(g, v, ((1u << (x->rank - 1 - axis)) - 1) << 1);
    if (v->type->rank != x->rank)
        return tw_gb_error(g, "a scale of %s for %s", tw_gb_type_text(g, v->type),
                           tw_gb_type_text(g, x));
    return block ? blocks(n, v, x, axis, block) : v;
}

/* ---- To and from integers ---- */

/* Least and largest value of an integer type of at most 32 bits. */
static void bounds_of(tw_elem elem, double *low, double *high)
{
    double span = (double)(UINT64_C(1) << tw_elem_bits(elem));
    *low = tw_elem_is_signed(elem) ? -span / 2 : 0;
    *high = *low + span - 1;
}

tw_value *tw_onnx_to_integer(tw_gb *g, tw_value *x, tw_value *zero, tw_elem elem)
{
    double low, high;
    bounds_of(elem, &low, &high);
    x = tw_gb_unary(g, TW_GRAPH_ROUND, x);
    if (zero)
        x = tw_gb_binary(g, TW_GRAPH_ADD, x, tw_gb_cast(g, zero, TW_F32));
    x = tw_gb_binary_scalar(g, TW_GRAPH_MAX, x, low);
    return tw_gb_cast(g, tw_gb_binary_scalar(g, TW_GRAPH_MIN, x, high), elem);
}

/* An element type attribute, or `absent`. */
static bool elem_attr(tw_onnx_node *n, const char *name, tw_elem absent, tw_elem *out)
{
    bool ok = true;
    int64_t type = tw_onnx_int(n, name, 0, &ok);
    *out = absent;
    if (ok && type && (type > 255 || !tw_onnx_elem((int32_t)type, out)))
        return tw_onnx_error(n, "attribute '%s' names the element type %s, which is not supported",
                             name, type < 255 ? tw_onnx_elem_name((int32_t)type) : "undefined");
    return ok;
}

static bool is_small_float(tw_elem elem)
{
    return tw_elem_is_float(elem) && tw_elem_bits(elem) <= 8;
}

bool tw_onnx_op_quantize_linear(tw_onnx_node *n)
{
    bool ok = true;
    tw_gb *g = n->g;
    tw_value *x = n->in[0], *zero = tw_onnx_in(n, 2);
    tw_elem elem, work;
    int64_t saturate = tw_onnx_int(n, "saturate", 1, &ok);
    if (!ok || !elem_attr(n, "output_dtype", TW_U8, &elem) ||
        !elem_attr(n, "precision", n->in[1]->type->elem, &work))
        return false;
    if (zero)
        elem = zero->type->elem;
    if (!is_small_float(elem) && (!tw_elem_is_int(elem) || tw_elem_bits(elem) > 16))
        return tw_onnx_error(n, "the result type %s", tw_elem_name(elem));
    tw_value *scale = spread(n, tw_gb_cast(g, n->in[1], work), x->type);
    tw_value *y = tw_gb_binary(g, TW_GRAPH_DIV, tw_gb_cast(g, x, work), scale);
    if (is_small_float(elem))
        return y && tw_onnx_set(
                        n, 0,
                        TW_GB_EMIT(g, CAST, &y, 1,
                                   tw_type_tensor(n->ctx, elem, y->type->rank, y->type->dims, NULL),
                                   {"saturate", saturate ? NULL : tw_attr_bool(n->ctx, false)}));
    zero = zero ? spread(n, zero, x->type) : NULL;
    if (tw_onnx_in(n, 2) && !zero)
        return false;
    return tw_onnx_set(n, 0, tw_onnx_to_integer(g, tw_gb_cast(g, y, TW_F32), zero, elem));
}

bool tw_onnx_op_dequantize_linear(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_value *x = n->in[0], *zero = tw_onnx_in(n, 2), *scale = n->in[1];
    tw_type type = x->type;
    tw_elem elem;
    if (!elem_attr(n, "output_dtype", scale->type->elem, &elem))
        return false;
    tw_elem work = scale->type->elem;
    if (zero && !tw_elem_is_float(type->elem)) {
        zero = spread(n, tw_gb_cast(g, zero, TW_I32), type);
        x = tw_gb_binary(g, TW_GRAPH_SUB, tw_gb_cast(g, x, TW_I32), zero);
    }
    tw_value *y = tw_gb_binary(g, TW_GRAPH_MUL, tw_gb_cast(g, x, work), spread(n, scale, type));
    return tw_onnx_set(n, 0, tw_gb_cast(g, y, elem));
}

tw_value *tw_onnx_dynamic_quantize(tw_gb *g, tw_value *x, tw_value **scale, tw_value **zero)
{
    uint32_t all = x ? (uint32_t)((UINT64_C(1) << x->type->rank) - 1) : 0;
    tw_value *high = tw_gb_binary_scalar(g, TW_GRAPH_MAX,
                                         tw_gb_reduce(g, TW_GRAPH_REDUCE_MAX, x, all, false), 0);
    tw_value *low = tw_gb_binary_scalar(g, TW_GRAPH_MIN,
                                        tw_gb_reduce(g, TW_GRAPH_REDUCE_MIN, x, all, false), 0);
    tw_value *range = tw_gb_binary(g, TW_GRAPH_SUB, high, low);
    /* Of zeroes alone the scale is 1. */
    tw_value *flat = tw_gb_binary_scalar(g, TW_GRAPH_EQUAL, range, 0);
    range = tw_gb_where(g, flat, tw_gb_scalar(g, TW_F32, 255), range);
    *scale = tw_gb_binary_scalar(g, TW_GRAPH_DIV, range, 255);
    *zero = tw_gb_unary(g, TW_GRAPH_NEG, tw_gb_binary(g, TW_GRAPH_DIV, low, *scale));
    *zero = tw_onnx_to_integer(g, *zero, NULL, TW_U8);
    return tw_onnx_to_integer(g, tw_gb_binary(g, TW_GRAPH_DIV, x, *scale), *zero, TW_U8);
}

bool tw_onnx_op_dynamic_quantize_linear(tw_onnx_node *n)
{
    tw_value *scale, *zero;
    if (!tw_onnx_check_elem(n, 0, 1 << TW_F32))
        return false;
    tw_value *y = tw_onnx_dynamic_quantize(n->g, n->in[0], &scale, &zero);
    return tw_onnx_set(n, 0, y) && tw_onnx_set(n, 1, scale) && tw_onnx_set(n, 2, zero);
}

/* ---- Products ---- */

/* Whether the values are known, and all 0. */
static bool is_zero(tw_gb *g, const tw_value *v)
{
    size_t count;
    const int64_t *known = tw_known_ints(g, v, &count);
    for (size_t i = 0; known && i < count; i++)
        if (known[i])
            return false;
    return known != NULL;
}

tw_value *tw_onnx_less_zero_point(tw_gb *g, tw_value *x, tw_value *zero, unsigned axis)
{
    int64_t count;
    x = tw_gb_cast(g, x, TW_I32);
    if (!x || !zero || is_zero(g, zero))
        return x;
    zero = tw_gb_cast(g, zero, TW_I32);
    if (zero && zero->type->rank == 1 && tw_type_static_count(zero->type, &count) && count == 1)
        zero = tw_gb_reshape(g, zero, 0, NULL);
    if (zero && zero->type->rank == 1 && axis + 1 < x->type->rank)
        zero = tw_gb_unsqueeze(g, zero, ((1u << (x->type->rank - 1 - axis)) - 1) << 1);
    return tw_gb_binary(g, TW_GRAPH_SUB, x, zero);
}

/* Input i less the zero point in input `zero_at`. */
static tw_value *less_zero_point(tw_onnx_node *n, unsigned i, unsigned zero_at, unsigned axis)
{
    return tw_onnx_less_zero_point(n->g, n->in[i], tw_onnx_in(n, zero_at), axis);
}

/* The axis of the rows of a left operand. */
static unsigned row_axis(const tw_value *x)
{
    return x->type->rank >= 2 ? x->type->rank - 2 : 0;
}

static unsigned last_axis(const tw_value *x)
{
    return x->type->rank ? x->type->rank - 1 : 0;
}

bool tw_onnx_op_matmul_integer(tw_onnx_node *n)
{
    tw_value *a = less_zero_point(n, 0, 2, row_axis(n->in[0]));
    tw_value *b = less_zero_point(n, 1, 3, last_axis(n->in[1]));
    return tw_onnx_set(n, 0, tw_onnx_integer_matmul(n->g, a, n->in[0], b, n->in[1]));
}

tw_value *tw_onnx_dynamic_matmul(tw_gb *g, tw_value *a, tw_value *b, tw_value *scale,
                                 tw_value *zero)
{
    tw_value *a_scale, *a_zero;
    if (!a || !b)
        return NULL;
    a = tw_onnx_dynamic_quantize(g, a, &a_scale, &a_zero);
    tw_value *y = tw_onnx_integer_matmul(g, tw_onnx_less_zero_point(g, a, a_zero, 0), a,
                                         tw_onnx_less_zero_point(g, b, zero, last_axis(b)), b);
    return tw_gb_binary(g, TW_GRAPH_MUL, tw_gb_cast(g, y, TW_F32),
                        tw_gb_binary(g, TW_GRAPH_MUL, scale, a_scale));
}

bool tw_onnx_op_conv_integer(tw_onnx_node *n)
{
    tw_value *x = less_zero_point(n, 0, 2, last_axis(n->in[0]));
    return tw_onnx_set(n, 0, tw_onnx_conv(n, x, less_zero_point(n, 1, 3, 0)));
}

/* A product of integers as the quantised result: y * (scale_a * scale_b / scale_y) + zero point. */
static tw_value *requantise(tw_onnx_node *n, tw_value *y, tw_value *scale_a, tw_value *scale_b,
                            tw_value *scale_y, tw_value *zero)
{
    tw_gb *g = n->g;
    tw_value *factor = tw_gb_binary(g, TW_GRAPH_DIV,
                                    tw_gb_binary(g, TW_GRAPH_MUL, tw_gb_cast(g, scale_a, TW_F32),
                                                 tw_gb_cast(g, scale_b, TW_F32)),
                                    tw_gb_cast(g, scale_y, TW_F32));
    y = tw_gb_binary(g, TW_GRAPH_MUL, tw_gb_cast(g, y, TW_F32), factor);
    return tw_onnx_to_integer(g, y, zero, zero->type->elem);
}

/* One number as rank 0; a vector as a column of a left operand's rows. */
static tw_value *row_scale(tw_gb *g, tw_value *scale)
{
    int64_t count;
    if (scale->type->rank == 1)
        return tw_type_static_count(scale->type, &count) && count == 1
                   ? tw_gb_reshape(g, scale, 0, NULL)
                   : tw_gb_unsqueeze(g, scale, 2);
    return scale;
}

bool tw_onnx_op_qlinear_matmul(tw_onnx_node *n)
{
    tw_value *a = less_zero_point(n, 0, 2, row_axis(n->in[0]));
    tw_value *b = less_zero_point(n, 3, 5, last_axis(n->in[3]));
    tw_value *y = tw_onnx_integer_matmul(n->g, a, n->in[0], b, n->in[3]);
    return tw_onnx_set(
        n, 0,
        requantise(n, y, row_scale(n->g, n->in[1]), n->in[4], row_scale(n->g, n->in[6]), n->in[7]));
}

bool tw_onnx_op_qlinear_conv(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_value *x = less_zero_point(n, 0, 2, last_axis(n->in[0]));
    tw_value *y = tw_onnx_conv(n, x, less_zero_point(n, 3, 5, 0));
    y = tw_onnx_add_bias(n, y, tw_onnx_in(n, 8));
    tw_value *scale = n->in[4]; /* one number, or one for each channel of the result */
    if (y && scale->type->rank == 1)
        scale = tw_gb_unsqueeze(g, scale, ((1u << (y->type->rank - 2)) - 1) << 1);
    return y && scale && tw_onnx_set(n, 0, requantise(n, y, n->in[1], scale, n->in[6], n->in[7]));
}
