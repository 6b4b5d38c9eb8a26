/* op_shape.c: operators that ask for shapes, change them, or make tensors of a given shape. */
#include "import/onnx/import.h"

#include <math.h>
#include <string.h>

/* ---- Asking ---- */

static int64_t clamp(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

bool tw_onnx_op_shape(tw_onnx_node *n)
{
    bool ok = true;
    int64_t rank = n->in[0]->type->rank;
    int64_t start = tw_onnx_int(n, "start", 0, &ok), end = tw_onnx_int(n, "end", rank, &ok);
    if (!ok)
        return false;
    start = clamp(start < 0 ? start + rank : start, 0, rank);
    end = clamp(end < 0 ? end + rank : end, start, rank);
    tw_type type = tw_type_tensor_static(n->ctx, TW_I64, 1, (int64_t[]){end - start});
    bool all = start == 0 && end == rank;
    return tw_onnx_set(n, 0,
                       TW_GB_EMIT(n->g, SHAPE, n->in, 1, type,
                                  {"start", all ? NULL : tw_attr_int(n->ctx, start)},
                                  {"end", all ? NULL : tw_attr_int(n->ctx, end)}));
}

/* The product of the shape. */
bool tw_onnx_op_size(tw_onnx_node *n)
{
    tw_type type = tw_type_tensor_static(n->ctx, TW_I64, 1, (int64_t[]){n->in[0]->type->rank});
    tw_value *shape = TW_GB_EMIT(n->g, SHAPE, n->in, 1, type, {0});
    return tw_onnx_set(n, 0, tw_gb_reduce(n->g, TW_GRAPH_REDUCE_PROD, shape, 1, false));
}

/* ---- Changing ---- */

/* Result sizes of Reshape: 0 copies (unless allowzero), -1 is what is left. */
static bool reshape_dims(tw_onnx_node *n, const tw_expr *shape, size_t count, bool allowzero,
                         tw_expr *dims)
{
    tw_gb *g = n->g;
    tw_type x = n->in[0]->type;
    size_t open = SIZE_MAX;
    tw_expr part[TW_MAX_RANK];
    unsigned n_part = 0;
    if (count > TW_MAX_RANK)
        return tw_onnx_error(n, "a shape of %zu dimensions; at most %d are supported", count,
                             TW_MAX_RANK);
    for (size_t i = 0; i < count; i++) {
        dims[i] = shape[i];
        if (shape[i] == tw_gb_const(g, -1)) {
            if (open != SIZE_MAX)
                return tw_onnx_error(n, "the shape has -1 twice");
            open = i;
            continue;
        }
        if (shape[i] == tw_gb_const(g, 0) && !allowzero) {
            if (i >= x->rank)
                return tw_onnx_error(n, "the shape copies dimension %zu of %s", i,
                                     tw_gb_type_text(g, x));
            dims[i] = x->dims[i];
        }
        part[n_part++] = dims[i];
    }
    if (open == SIZE_MAX)
        return true;
    dims[open] = tw_gb_quotient(g, x->dims, x->rank, part, n_part);
    return dims[open] || tw_onnx_error(n, "%s cannot be reshaped: -1 stands for no whole number",
                                       tw_gb_type_text(g, x));
}

bool tw_onnx_op_reshape(tw_onnx_node *n)
{
    bool ok = true;
    size_t count;
    tw_expr dims[TW_MAX_RANK];
    const tw_expr *shape;
    if (n->version < 5) {
        const int64_t *ints = tw_onnx_int_list(n, "shape", &count, &ok);
        tw_expr *exprs = TW_NEW_ARRAY(n->im->arena, tw_expr, count + 1);
        for (size_t i = 0; i < count; i++)
            exprs[i] = tw_gb_const(n->g, ints[i]);
        shape = exprs;
    } else {
        if (!tw_onnx_in(n, 1))
            return tw_onnx_error(n, "input 1 is missing");
        if (!tw_onnx_is_known(n, 1)) {
            bool allow = tw_onnx_int(n, "allowzero", 0, &ok);
            return ok && tw_onnx_reshape_runtime(n, allow);
        }
        shape = tw_onnx_known_exprs(n, 1, &count);
    }
    bool allowzero = tw_onnx_int(n, "allowzero", 0, &ok);
    return ok && shape && reshape_dims(n, shape, count, allowzero, dims) &&
           tw_onnx_set(n, 0, tw_gb_reshape(n->g, n->in[0], (unsigned)count, dims));
}

bool tw_onnx_op_flatten(tw_onnx_node *n)
{
    bool ok = true;
    tw_type x = n->in[0]->type;
    unsigned axis = 0;
    int64_t given = tw_onnx_int(n, "axis", 1, &ok);
    if (!ok)
        return false;
    if (given == x->rank)
        axis = x->rank;
    else if (!tw_onnx_axis(n, given, x->rank, &axis))
        return false;
    tw_expr dims[2] = {tw_gb_product(n->g, x->dims, axis),
                       tw_gb_product(n->g, x->dims + axis, x->rank - axis)};
    return tw_onnx_set(n, 0, tw_gb_reshape(n->g, n->in[0], 2, dims));
}

bool tw_onnx_op_squeeze(tw_onnx_node *n)
{
    bool given;
    uint32_t axes;
    tw_type x = n->in[0]->type;
    if (n->version >= 13 && !tw_onnx_is_known(n, 1))
        return tw_onnx_squeeze_runtime(n);
    if (!tw_onnx_axes_operand(n, 1, 13, x->rank, &axes, &given))
        return false;
    for (unsigned i = 0; !given && i < x->rank; i++)
        if (x->dims[i] == tw_gb_const(n->g, 1))
            axes |= 1u << i;
    return tw_onnx_set(n, 0, tw_gb_squeeze(n->g, n->in[0], axes));
}

bool tw_onnx_op_unsqueeze(tw_onnx_node *n)
{
    bool given, ok = true;
    uint32_t axes;
    size_t count = 0;
    if (n->version >= 13 && !tw_onnx_is_known(n, 1))
        return tw_onnx_unsqueeze_runtime(n);
    if (n->version < 13)
        tw_onnx_int_list(n, "axes", &count, &ok);
    else if (!tw_onnx_in(n, 1) || !tw_onnx_known_ints(n, 1, &count))
        return tw_onnx_in(n, 1) ? false : tw_onnx_error(n, "input 1 is missing");
    if (!ok)
        return false;
    if (n->in[0]->type->rank + count > TW_MAX_RANK)
        return tw_onnx_error(n, "a tensor of more than %d dimensions", TW_MAX_RANK);
    return tw_onnx_axes_operand(n, 1, 13, n->in[0]->type->rank + (unsigned)count, &axes, &given) &&
           tw_onnx_set(n, 0, tw_gb_unsqueeze(n->g, n->in[0], axes));
}

/* Both shapes are broadcast to each other. */
bool tw_onnx_op_expand(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    size_t count;
    if (!tw_onnx_is_known(n, 1))
        return tw_onnx_expand_runtime(n);
    const tw_expr *shape = tw_onnx_known_exprs(n, 1, &count);
    tw_type x = n->in[0]->type;
    tw_expr dims[TW_MAX_RANK], one = tw_gb_const(g, 1);
    if (!shape)
        return false;
    if (count > TW_MAX_RANK)
        return tw_onnx_error(n, "a shape of %zu dimensions; at most %d are supported", count,
                             TW_MAX_RANK);
    unsigned rank = count > x->rank ? (unsigned)count : x->rank;
    for (unsigned i = 0; i < rank; i++) { /* from the last axis */
        tw_expr own = i < x->rank ? x->dims[x->rank - 1 - i] : one;
        tw_expr to = i < count ? shape[count - 1 - i] : one;
        tw_expr size = tw_gb_common_size(g, own, to);
        if (!size)
            return tw_onnx_error(n, "%s does not broadcast to dimension %u of the given shape",
                                 tw_gb_type_text(g, x), (unsigned)count - 1 - i);
        dims[rank - 1 - i] = size;
        if (!tw_gb_check_common(g, to, size))
            return false;
    }
    tw_value *y = n->in[0];
    if (rank > y->type->rank)
        y = tw_gb_unsqueeze(g, y, (1u << (rank - y->type->rank)) - 1);
    return tw_onnx_set(n, 0, tw_gb_expand(g, y, rank, dims));
}

/* ---- Making ---- */

/* The tensor of an attribute. */
static tw_value *tensor_attr(tw_onnx_node *n, const Onnx__AttributeProto *a)
{
    if (!a->t)
        return tw_gb_error(n->g, "attribute '%s' must be a tensor", a->name);
    return tw_onnx_tensor(n->im, a->t, tw_onnx_wants(n, 0) ? n->proto->output[0] : "");
}

tw_value *tw_onnx_text_constant(tw_onnx_node *n, const ProtobufCBinaryData *items, size_t count,
                                unsigned rank)
{
    char **data = tw_context_alloc(n->ctx, (count + 1) * sizeof *data);
    for (size_t i = 0; i < count; i++) {
        if (items[i].len && memchr(items[i].data, 0, items[i].len))
            return tw_gb_error(n->g, "a string with a zero byte");
        data[i] =
            tw_arena_strndup(tw_context_arena(n->ctx), (const char *)items[i].data, items[i].len);
    }
    tw_type type = tw_type_tensor_static(n->ctx, TW_STRING, rank, (int64_t[]){(int64_t)count});
    return tw_gb_constant(n->g, type, data, count * sizeof *data, NULL);
}

static tw_value *float_constant(tw_onnx_node *n, const float *values, size_t count, unsigned rank)
{
    float *data = tw_context_alloc(n->ctx, (count + 1) * sizeof *data);
    if (count)
        memcpy(data, values, count * sizeof *data);
    tw_type type = tw_type_tensor_static(n->ctx, TW_F32, rank, (int64_t[]){(int64_t)count});
    return tw_gb_constant(n->g, type, data, count * sizeof *data, NULL);
}

bool tw_onnx_op_constant(tw_onnx_node *n)
{
    const Onnx__AttributeProto *a;
    tw_value *y = NULL;
    if ((a = tw_onnx_attr(n, "value")))
        y = tensor_attr(n, a);
    else if ((a = tw_onnx_attr(n, "sparse_value")) && a->sparse_tensor)
        y = tw_onnx_sparse_tensor(n->im, a->sparse_tensor, "sparse_value");
    else if ((a = tw_onnx_attr(n, "value_float")))
        y = float_constant(n, &a->f, 1, 0);
    else if ((a = tw_onnx_attr(n, "value_floats")))
        y = float_constant(n, a->floats, a->n_floats, 1);
    else if ((a = tw_onnx_attr(n, "value_int")))
        y = tw_gb_reshape(n->g, tw_gb_ints(n->g, &a->i, 1), 0, NULL);
    else if ((a = tw_onnx_attr(n, "value_ints")))
        y = tw_gb_ints(n->g, a->ints, a->n_ints);
    else if ((a = tw_onnx_attr(n, "value_string")))
        y = tw_onnx_text_constant(n, &a->s, 1, 0);
    else if ((a = tw_onnx_attr(n, "value_strings")))
        y = tw_onnx_text_constant(n, a->strings, a->n_strings, 1);
    else
        return tw_onnx_error(
            n, "the constant has no value of a supported kind (value, "
               "sparse_value, value_float, value_int, value_string and lists of these)");
    return tw_onnx_set(n, 0, y);
}

/* The sizes in input 0. */
static const tw_expr *read_shape(tw_onnx_node *n, size_t *count)
{
    tw_expr hints[TW_MAX_RANK];
    if (tw_onnx_is_known(n, 0))
        return tw_onnx_known_exprs(n, 0, count);
    tw_value *v = tw_onnx_index_vector(n, 0, count);
    if (!v || *count > TW_MAX_RANK)
        return v ? tw_gb_error(n->g, "a shape of %zu dimensions; at most %d are supported", *count,
                               TW_MAX_RANK)
                 : NULL;
    tw_onnx_declared_dims(n, 0, (unsigned)*count, hints);
    return tw_onnx_bind_sizes(n, v, hints, "shape");
}

/* One number, expanded: no memory, however large. */
bool tw_onnx_op_constant_of_shape(tw_onnx_node *n)
{
    size_t count;
    int64_t elements;
    const tw_expr *shape = read_shape(n, &count);
    const Onnx__AttributeProto *a = tw_onnx_attr(n, "value");
    if (!shape)
        return false;
    if (count > TW_MAX_RANK)
        return tw_onnx_error(n, "a shape of %zu dimensions; at most %d are supported", count,
                             TW_MAX_RANK);
    tw_value *one = a ? tensor_attr(n, a) : tw_gb_scalar(n->g, TW_F32, 0);
    if (!one)
        return false;
    if (!tw_type_static_count(one->type, &elements) || elements != 1)
        return tw_onnx_error(n, "attribute 'value' must have one element, but is %s",
                             tw_gb_type_text(n->g, one->type));
    return tw_onnx_set(
        n, 0, tw_gb_expand(n->g, tw_gb_reshape(n->g, one, 0, NULL), (unsigned)count, shape));
}

/* max(0, ceil((limit - start) / delta)) */
static tw_expr range_size(tw_onnx_node *n)
{
    tw_context *ctx = n->ctx;
    tw_expr start, limit;
    int64_t delta;
    size_t count[3];
    const double *reals[3];
    if (!tw_elem_is_float(n->in[0]->type->elem)) {
        const int64_t *step = tw_onnx_known_ints(n, 2, &count[2]);
        const tw_expr *a = step ? tw_onnx_known_exprs(n, 0, &count[0]) : NULL;
        const tw_expr *b = a ? tw_onnx_known_exprs(n, 1, &count[1]) : NULL;
        if (!b)
            return NULL;
        start = *a, limit = *b, delta = *step;
        if (delta == 0 || delta == INT64_MIN)
            return tw_gb_error(n->g, "a step of %lld", (long long)delta);
        tw_expr length =
            delta > 0 ? tw_expr_sub(ctx, limit, start) : tw_expr_sub(ctx, start, limit);
        tw_expr size = tw_expr_binary(ctx, TW_EXPR_CEILDIV, length,
                                      tw_expr_const(ctx, delta > 0 ? delta : -delta));
        return tw_expr_range(size, NULL, 0).lo >= 0
                   ? size
                   : tw_expr_binary(ctx, TW_EXPR_MAX, size, tw_expr_const(ctx, 0));
    }
    for (unsigned i = 0; i < 3; i++)
        if (!(reals[i] = tw_onnx_known_reals(n, i, &count[i])))
            return NULL;
    double size = ceil((*reals[1] - *reals[0]) / *reals[2]);
    if (!(fabs(size) < 0x1p53))
        return tw_gb_error(n->g, "a range of %g elements", size);
    return tw_expr_const(ctx, size > 0 ? (int64_t)size : 0);
}

bool tw_onnx_op_range(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    size_t count;
    tw_value *scalars[3];
    for (unsigned i = 0; i < 3; i++) {
        int64_t count;
        if (n->in[i]->type->elem != n->in[0]->type->elem ||
            !tw_type_static_count(n->in[i]->type, &count) || count != 1)
            return tw_onnx_error(n, "input %u is %s; a scalar of the type of input 0 is needed", i,
                                 tw_gb_type_text(g, n->in[i]->type));
        scalars[i] = tw_gb_reshape(g, n->in[i], 0, NULL);
    }
    bool known = tw_onnx_is_known(n, 0) && tw_onnx_is_known(n, 1) && tw_onnx_is_known(n, 2);
    if (tw_elem_is_float(n->in[0]->type->elem) || (known && !tw_known_ints(g, n->in[2], &count)))
        known = tw_known_reals(g, n->in[0], &count) && tw_known_reals(g, n->in[1], &count) &&
                tw_known_reals(g, n->in[2], &count);
    tw_expr size = known ? range_size(n) : tw_onnx_range_size(n, scalars);
    return size &&
           tw_onnx_set(n, 0,
                       TW_GB_EMIT(g, RANGE, scalars, 3,
                                  tw_type_tensor(n->ctx, n->in[0]->type->elem, 1, &size, NULL),
                                  {0}));
}

/* column == row + k ? 1 : 0 */
bool tw_onnx_op_eye_like(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    bool ok = true;
    tw_type x = n->in[0]->type;
    tw_elem elem = x->elem;
    int64_t k = tw_onnx_int(n, "k", 0, &ok), type = tw_onnx_int(n, "dtype", 0, &ok);
    if (!ok)
        return false;
    if (x->rank != 2)
        return tw_onnx_error(n, "input 0 is %s; a matrix is needed", tw_gb_type_text(g, x));
    if (tw_onnx_attr(n, "dtype") && (type > 255 || !tw_onnx_elem((int32_t)type, &elem)))
        return tw_onnx_error(n, "attribute 'dtype' is %lld, which is not supported",
                             (long long)type);
    tw_expr one = tw_gb_const(g, 1);
    tw_value *row = tw_gb_iota(g, TW_I64, 2, (tw_expr[]){x->dims[0], one}, 0);
    tw_value *column = tw_gb_iota(g, TW_I64, 2, (tw_expr[]){one, x->dims[1]}, 1);
    tw_value *offset = tw_gb_reshape(g, tw_gb_ints(g, &k, 1), 0, NULL);
    tw_value *hit =
        tw_gb_binary(g, TW_GRAPH_EQUAL, tw_gb_binary(g, TW_GRAPH_ADD, row, offset), column);
    return tw_onnx_set(n, 0,
                       tw_gb_where(g, hit, tw_gb_scalar(g, elem, 1), tw_gb_scalar(g, elem, 0)));
}

/* index == position along the new axis ? on : off */
bool tw_onnx_op_one_hot(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    bool ok = true;
    unsigned axis;
    size_t count;
    tw_expr dims[TW_MAX_RANK];
    int64_t given = tw_onnx_int(n, "axis", -1, &ok);
    unsigned rank = n->in[0]->type->rank + 1;
    if (!ok || !tw_onnx_check_elem(n, 0, TW_ONNX_NUMBERS))
        return false;
    if (rank > TW_MAX_RANK)
        return tw_onnx_error(n, "a tensor of more than %d dimensions", TW_MAX_RANK);
    tw_value *depth_value = n->in[1] = tw_gb_cast(g, n->in[1], TW_I64); /* of any number type */
    const tw_expr *known = tw_known_exprs(g, depth_value, &count);
    if (!tw_onnx_axis(n, given, rank, &axis))
        return false;
    tw_onnx_declared_dims(n, 0, rank, dims);
    tw_value *scalar = tw_onnx_index_scalar(n, 1);
    tw_expr depth = known ? *known : tw_onnx_bind_size(n, scalar, dims[axis], "depth");
    if (!scalar || !depth)
        return false;
    tw_value *index = tw_gb_cast(g, n->in[0], TW_I64);
    tw_value *turned = tw_gb_binary(g, TW_GRAPH_ADD, index, tw_gb_reshape(g, depth_value, 0, NULL));
    index = tw_gb_where(g, tw_gb_binary_scalar(g, TW_GRAPH_LESS, index, 0), turned, index);
    for (unsigned i = 0; i < rank; i++)
        dims[i] = i == axis ? depth : tw_gb_const(g, 1);
    tw_value *hit = tw_gb_binary(g, TW_GRAPH_EQUAL, tw_gb_unsqueeze(g, index, 1u << axis),
                                 tw_gb_iota(g, TW_I64, rank, dims, axis));
    tw_expr zero = tw_gb_const(g, 0), one = tw_gb_const(g, 1);
    tw_value *off = tw_gb_slice_axis(g, n->in[2], 0, zero, 1, one);
    tw_value *on = tw_gb_slice_axis(g, n->in[2], 0, one, 1, one);
    return tw_onnx_set(
        n, 0, tw_gb_where(g, hit, tw_gb_reshape(g, on, 0, NULL), tw_gb_reshape(g, off, 0, NULL)));
}
