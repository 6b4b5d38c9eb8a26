/* op_movement.c: operators that move elements: transposes, joins, slices, pads, tiles. */
#include "import/onnx/import.h"

#include <string.h>

bool tw_onnx_op_transpose(tw_onnx_node *n)
{
    bool ok = true;
    size_t count;
    uint32_t seen;
    int64_t reversed[TW_MAX_RANK];
    unsigned rank = n->in[0]->type->rank;
    const int64_t *perm = tw_onnx_int_list(n, "perm", &count, &ok);
    for (unsigned i = 0; i < rank; i++)
        reversed[i] = rank - 1 - i;
    if (!perm)
        return ok && tw_onnx_set(n, 0, tw_gb_transpose(n->g, n->in[0], reversed));
    if (count != rank)
        return tw_onnx_error(n, "attribute 'perm' has %zu entries for a tensor of rank %u", count,
                             rank);
    for (unsigned i = 0; i < rank; i++)
        if (perm[i] < 0)
            return tw_onnx_error(n, "attribute 'perm' has the entry %lld", (long long)perm[i]);
    return tw_onnx_axes(n, perm, count, rank, &seen) &&
           tw_onnx_set(n, 0, tw_gb_transpose(n->g, n->in[0], perm));
}

bool tw_onnx_op_concat(tw_onnx_node *n)
{
    bool ok = true;
    unsigned axis;
    if (n->version >= 4 && !tw_onnx_attr(n, "axis"))
        return tw_onnx_error(n, "attribute 'axis' is missing");
    int64_t given = tw_onnx_int(n, "axis", 1, &ok);
    for (unsigned i = 0; i < n->n_in; i++)
        if (!n->in[i])
            return tw_onnx_error(n, "input %u is missing", i);
    return ok && tw_onnx_axis(n, given, n->in[0]->type->rank, &axis) &&
           tw_onnx_set(n, 0, tw_gb_concat(n->g, n->in, n->n_in, axis));
}

/* ---- Split ---- */

/* Sizes of the parts from an input that is known when the model runs, and their sum. */
static const tw_expr *bind_parts(tw_onnx_node *n, unsigned axis)
{
    tw_gb *g = n->g;
    tw_expr dims[TW_MAX_RANK], *hints = TW_NEW_ARRAY(n->im->arena, tw_expr, n->n_out + 1);
    tw_value *parts = tw_onnx_index_exactly(n, 1, tw_gb_const(g, n->n_out));
    if (!parts)
        return NULL;
    for (unsigned i = 0; i < n->n_out; i++) {
        tw_onnx_declared_dims(n, i, n->in[0]->type->rank, dims);
        hints[i] = dims[axis];
    }
    hints[n->n_out] = n->in[0]->type->dims[axis];
    tw_value *sum = tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, parts, 1, true);
    return tw_onnx_bind_sizes(n, tw_gb_concat(g, (tw_value *[]){parts, sum}, 2, 0), hints,
                              "sizes of the parts, and their sum");
}

/* Sizes of the parts: given, or equal with a smaller last one (operator set 18). They are an
 * attribute in operator sets 2 to 12, an input since, and either in the first. */
static const tw_expr *split_sizes(tw_onnx_node *n, unsigned axis)
{
    tw_expr size = n->in[0]->type->dims[axis];
    bool ok = true;
    size_t count = 0;
    tw_gb *g = n->g;
    const tw_expr *given = NULL;
    bool attribute = n->version < 13 && !tw_onnx_in(n, 1);
    tw_expr *sizes = TW_NEW_ARRAY(n->im->arena, tw_expr, n->n_out + 1);
    if (!attribute && !tw_onnx_is_known(n, 1))
        return bind_parts(n, axis);
    if (tw_onnx_in(n, 1)) {
        given = tw_onnx_known_exprs(n, 1, &count);
        if (!given)
            return NULL;
    } else if (attribute) {
        const int64_t *ints = tw_onnx_int_list(n, "split", &count, &ok);
        for (size_t i = 0; ints && i < count && i < n->n_out; i++)
            sizes[i] = tw_gb_const(g, ints[i]);
        given = ints ? sizes : NULL;
    }
    if (!ok)
        return NULL;
    if (given && count != n->n_out)
        return tw_gb_error(g, "%zu sizes for %u outputs", count, n->n_out);
    if (given)
        return given;
    tw_expr parts = tw_gb_const(g, n->n_out);
    tw_expr part = tw_expr_binary(n->ctx, TW_EXPR_CEILDIV, size, parts);
    tw_expr rest = tw_expr_sub(n->ctx, size, tw_expr_mulc(n->ctx, part, (int64_t)n->n_out - 1));
    if (tw_expr_is_const(size) && (rest->value < 0 || (n->version < 18 && rest != part)))
        return tw_gb_error(g, "size %lld cannot be split into %u parts", (long long)size->value,
                           n->n_out);
    if (n->version < 18)
        rest = part = tw_expr_binary(n->ctx, TW_EXPR_FLOORDIV, size, parts);
    for (unsigned i = 0; i < n->n_out; i++)
        sizes[i] = i + 1 < n->n_out ? part : rest;
    return sizes;
}

bool tw_onnx_op_split(tw_onnx_node *n)
{
    bool ok = true;
    unsigned axis;
    tw_value *x = n->in[0];
    int64_t given = tw_onnx_int(n, "axis", 0, &ok);
    int64_t parts = tw_onnx_int(n, "num_outputs", n->n_out, &ok);
    if (!ok || !tw_onnx_axis(n, given, x->type->rank, &axis))
        return false;
    if (n->n_out == 0 || parts != n->n_out)
        return tw_onnx_error(n, "%lld parts, but %u outputs", (long long)parts, n->n_out);
    if (n->version < 2 && tw_onnx_in(n, 1)) /* of the type of x */
        n->in[1] = tw_gb_cast(n->g, n->in[1], TW_I64);
    const tw_expr *sizes = split_sizes(n, axis);
    tw_expr start = tw_gb_const(n->g, 0);
    for (unsigned i = 0; sizes && i < n->n_out; i++) {
        if (tw_expr_is_const(sizes[i]) && sizes[i]->value < 0)
            return tw_onnx_error(n, "a part of size %lld", (long long)sizes[i]->value);
        n->out[i] = tw_gb_slice_axis(n->g, x, axis, start, 1, sizes[i]);
        if (!n->out[i])
            return false;
        start = tw_expr_add(n->ctx, start, sizes[i]);
    }
    if (sizes && tw_gb_differ(n->g, start, x->type->dims[axis]))
        return tw_onnx_error(n, "the parts do not add up to axis %u of %s", axis,
                             tw_gb_type_text(n->g, x->type));
    return sizes != NULL;
}

/* ---- Slice ---- */

/* Whether a >= b whatever the symbols are. */
static bool is_no_less(tw_onnx_node *n, tw_expr a, tw_expr b)
{
    return tw_expr_at_least(n->ctx, tw_expr_sub(n->ctx, a, b), 0, NULL, 0);
}

static tw_expr least(tw_onnx_node *n, tw_expr a, tw_expr b)
{
    return is_no_less(n, b, a)   ? a
           : is_no_less(n, a, b) ? b
                                 : tw_expr_binary(n->ctx, TW_EXPR_MIN, a, b);
}

static tw_expr largest(tw_onnx_node *n, tw_expr a, tw_expr b)
{
    return is_no_less(n, a, b)   ? a
           : is_no_less(n, b, a) ? b
                                 : tw_expr_binary(n->ctx, TW_EXPR_MAX, a, b);
}

/* A position whose sign the sizes decide is taken not to count from the end, which is checked; of
 * an axis without elements all positions are one. */
static bool check_position(tw_onnx_node *n, tw_expr at, tw_expr size)
{
    tw_expr fine = tw_expr_binary(n->ctx, TW_EXPR_MAX, at, tw_expr_mulc(n->ctx, size, -1));
    return tw_expr_is_const(at) || tw_expr_at_least(n->ctx, at, 0, NULL, 0) ||
           tw_expr_range(at, NULL, 0).hi < 0 ||
           tw_gb_check(n->g, fine, "the position '%s' of a slice is negative",
                       tw_print_expr(n->ctx, at, NULL));
}

/* A position along an axis: negative ones count from the end; then into low..size + high. */
static tw_expr clamp(tw_onnx_node *n, tw_expr at, tw_expr size, int64_t low, int64_t high)
{
    tw_context *ctx = n->ctx;
    tw_expr top = tw_expr_addc(ctx, size, high), bottom = tw_expr_const(ctx, low);
    if (tw_expr_is_const(at)) {
        if (at->value >= INT32_MAX) /* "to the end", as exporters write it */
            return largest(n, top, bottom);
        if (at->value <= -INT32_MAX)
            return bottom;
        if (at->value < 0)
            at = tw_expr_add(ctx, at, size);
    } else if (tw_expr_range(at, NULL, 0).hi < 0) {
        at = tw_expr_add(ctx, at, size);
    }
    return largest(n, least(n, at, top), bottom);
}

/* Start, step and number of elements along one axis. */
typedef struct span {
    tw_expr start, size;
    int64_t step;
} span;

static span make_span(tw_onnx_node *n, tw_expr start, tw_expr end, int64_t step, tw_expr size)
{
    tw_context *ctx = n->ctx;
    span s = {.step = step};
    tw_expr length;
    if (step > 0) {
        s.start = clamp(n, start, size, 0, 0);
        length = tw_expr_sub(ctx, clamp(n, end, size, 0, 0), s.start);
    } else {
        s.start = clamp(n, start, size, 0, -1);
        length = tw_expr_sub(ctx, s.start, clamp(n, end, size, -1, -1));
    }
    tw_expr count =
        tw_expr_binary(ctx, TW_EXPR_CEILDIV, length, tw_expr_const(ctx, step > 0 ? step : -step));
    if (step < 0) /* start is 0 at least, even where there is no element 0 */
        count = least(n, count, size);
    s.size = largest(n, count, tw_expr_const(ctx, 0));
    if (s.size == tw_expr_const(ctx, 0))
        s.start = s.size;
    return s;
}

/* The lists of a slice. */
typedef struct slice_lists {
    const tw_expr *starts, *ends;
    const int64_t *axes, *steps;
    size_t n, n_ends, n_axes, n_steps;
} slice_lists;

static const tw_expr *attr_exprs(tw_onnx_node *n, const char *name, size_t *count, bool *ok)
{
    const int64_t *ints = tw_onnx_int_list(n, name, count, ok);
    if (!ints)
        *ok = *ok && tw_onnx_error(n, "attribute '%s' is missing", name);
    tw_expr *exprs = TW_NEW_ARRAY(n->im->arena, tw_expr, *count + 1);
    for (size_t i = 0; i < *count; i++)
        exprs[i] = tw_gb_const(n->g, ints[i]);
    return exprs;
}

static bool read_lists(tw_onnx_node *n, slice_lists *l)
{
    bool ok = true;
    *l = (slice_lists){0};
    if (n->version < 10) {
        l->starts = attr_exprs(n, "starts", &l->n, &ok);
        l->ends = attr_exprs(n, "ends", &l->n_ends, &ok);
        l->axes = tw_onnx_int_list(n, "axes", &l->n_axes, &ok);
    } else {
        if (!tw_onnx_in(n, 1) || !tw_onnx_in(n, 2))
            return tw_onnx_error(n, "inputs 1 and 2, starts and ends, are needed");
        ok = (l->starts = tw_onnx_known_exprs(n, 1, &l->n)) &&
             (l->ends = tw_onnx_known_exprs(n, 2, &l->n_ends)) &&
             (!tw_onnx_in(n, 3) || (l->axes = tw_onnx_known_ints(n, 3, &l->n_axes))) &&
             (!tw_onnx_in(n, 4) || (l->steps = tw_onnx_known_ints(n, 4, &l->n_steps)));
    }
    if (!ok)
        return false;
    if (l->n_ends != l->n || (l->axes && l->n_axes != l->n) || (l->steps && l->n_steps != l->n))
        return tw_onnx_error(n, "starts, ends, axes and steps have different lengths");
    return true;
}

/* Whether input i is left out or holds known numbers. */
static bool is_number(tw_onnx_node *n, unsigned i)
{
    size_t count;
    return !tw_onnx_in(n, i) || tw_known_ints(n->g, n->in[i], &count);
}

bool tw_onnx_op_slice(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_type x = n->in[0]->type;
    slice_lists l;
    uint32_t seen = 0;
    tw_expr starts[TW_MAX_RANK], sizes[TW_MAX_RANK];
    int64_t steps[TW_MAX_RANK];
    if (n->version >= 10 && !(tw_onnx_is_known(n, 1) && tw_onnx_is_known(n, 2) &&
                              tw_onnx_is_known(n, 3) && is_number(n, 4)))
        return tw_onnx_slice_runtime(n);
    if (!read_lists(n, &l))
        return false;
    for (unsigned i = 0; i < x->rank; i++) {
        starts[i] = tw_gb_const(g, 0);
        sizes[i] = x->dims[i];
        steps[i] = 1;
    }
    for (size_t i = 0; i < l.n; i++) {
        unsigned axis;
        int64_t step = l.steps ? l.steps[i] : 1;
        if (!tw_onnx_axis(n, l.axes ? l.axes[i] : (int64_t)i, x->rank, &axis))
            return false;
        if (seen >> axis & 1 || step == 0 || step == INT64_MIN)
            return step == 0 || step == INT64_MIN
                       ? tw_onnx_error(n, "a step of %lld", (long long)step)
                       : tw_onnx_error(n, "axis %u occurs twice", axis);
        seen |= 1u << axis;
        if (!check_position(n, l.starts[i], x->dims[axis]) ||
            !check_position(n, l.ends[i], x->dims[axis]))
            return false;
        span s = make_span(n, l.starts[i], l.ends[i], step, x->dims[axis]);
        starts[axis] = s.start;
        sizes[axis] = s.size;
        steps[axis] = s.step;
    }
    return tw_onnx_set(n, 0, tw_gb_slice(g, n->in[0], starts, steps, sizes));
}

/* ---- Pad ---- */

/* Begin and end of each axis, from a list of begins, then ends, of the axes in it. */
static bool read_pads(tw_onnx_node *n, tw_expr *begin, tw_expr *end)
{
    bool ok = true;
    unsigned rank = n->in[0]->type->rank;
    size_t count, n_axes = rank;
    const int64_t *axes = NULL;
    const tw_expr *pads;
    if (n->version < 11) {
        pads = attr_exprs(n, n->version < 2 ? "paddings" : "pads", &count, &ok);
    } else {
        if (!tw_onnx_in(n, 1))
            return tw_onnx_error(n, "input 1 is missing");
        pads = tw_onnx_known_exprs(n, 1, &count);
        if (pads && tw_onnx_in(n, 3))
            ok = (axes = tw_onnx_known_ints(n, 3, &n_axes));
    }
    if (!ok || !pads)
        return false;
    if (count != 2 * n_axes)
        return tw_onnx_error(n, "%zu pads for %zu axes; two for each are needed", count, n_axes);
    for (unsigned i = 0; i < rank; i++)
        begin[i] = end[i] = tw_gb_const(n->g, 0);
    for (size_t i = 0; i < n_axes; i++) {
        unsigned axis;
        if (!tw_onnx_axis(n, axes ? axes[i] : (int64_t)i, rank, &axis))
            return false;
        begin[axis] = pads[i];
        end[axis] = pads[n_axes + i];
    }
    return true;
}

static bool pad(tw_onnx_node *n)
{
    bool ok = true;
    tw_gb *g = n->g;
    tw_value *x = n->in[0], *value = NULL;
    tw_expr begin[TW_MAX_RANK], end[TW_MAX_RANK];
    const char *mode = tw_onnx_string(n, "mode", "constant", &ok);
    bool known = n->version < 11 || (tw_onnx_is_known(n, 1) && tw_onnx_is_known(n, 3));
    if (!ok || (known && !read_pads(n, begin, end)))
        return false;
    if (strcmp(mode, "constant") && strcmp(mode, "reflect") && strcmp(mode, "edge") &&
        (strcmp(mode, "wrap") || n->version < 19))
        return tw_onnx_error(n,
                             "attribute 'mode' is '%s'; accepted are constant, reflect, edge, "
                             "wrap (from version 19)",
                             mode);
    if (!strcmp(mode, "constant")) {
        if (n->version >= 11)
            value = tw_onnx_in(n, 2) ? tw_gb_reshape(g, n->in[2], 0, NULL)
                                     : tw_gb_scalar(g, x->type->elem, 0);
        else
            value = tw_gb_scalar(g, x->type->elem, tw_onnx_float(n, "value", 0, &ok));
        if (!ok || !value)
            return false;
        if (value->type->elem != x->type->elem)
            return tw_onnx_error(n, "the value is %s, the data %s", tw_elem_name(value->type->elem),
                                 tw_elem_name(x->type->elem));
    }
    return known ? tw_onnx_set(n, 0, tw_gb_pad(g, x, begin, end, mode, value))
                 : tw_onnx_pad_runtime(n, mode, value);
}

/* What strings are padded with is their place 0, which is what numbers are padded with. */
static bool pad_text(tw_onnx_node *n)
{
    tw_value *filler = tw_onnx_in(n, 2);
    if (filler && filler->type->elem != TW_STRING)
        return tw_onnx_error(n, "the value is %s, the data %s", tw_elem_name(filler->type->elem),
                             tw_elem_name(TW_STRING));
    if (filler)
        n->in[2] = NULL;
    return tw_onnx_move_text(n, (const unsigned[]){0}, 1, filler, pad);
}

bool tw_onnx_op_pad(tw_onnx_node *n)
{
    return n->in[0]->type->elem == TW_STRING ? pad_text(n) : pad(n);
}

/* Likewise, with sizes known when the model runs. */
static bool crop_or_pad(tw_onnx_node *n, tw_value *given, const int64_t *axes, size_t count)
{
    tw_gb *g = n->g;
    tw_value *x = n->in[0];
    tw_expr declared[TW_MAX_RANK], hints[TW_MAX_RANK];
    unsigned axis[TW_MAX_RANK];
    tw_onnx_declared_dims(n, 0, x->type->rank, declared);
    for (size_t i = 0; i < count; i++) {
        if (!tw_onnx_axis(n, axes ? axes[i] : (int64_t)i, x->type->rank, &axis[i]))
            return false;
        hints[i] = declared[axis[i]];
    }
    const tw_expr *sizes = tw_onnx_bind_sizes(n, given, hints, "sizes to crop or pad to");
    for (size_t i = 0; sizes && i < count; i++) {
        tw_value *more = tw_gb_binary(g, TW_GRAPH_SUB, tw_onnx_item(g, given, i),
                                      tw_onnx_size_of(g, x, axis[i]));
        tw_value *begin = tw_gb_binary(g, TW_GRAPH_DIV, more, tw_onnx_number(g, 2));
        x = tw_onnx_pad_axis(g, x, axis[i], begin, sizes[i], "constant",
                             tw_gb_scalar(g, n->in[0]->type->elem, 0));
        if (!x)
            return false;
    }
    return sizes && tw_onnx_set(n, 0, x);
}

/* Crops or pads axes evenly to given sizes; an odd one more goes to the end. */
bool tw_onnx_op_center_crop_pad(tw_onnx_node *n)
{
    if (n->in[0]->type->elem == TW_STRING)
        return tw_onnx_move_text(n, (const unsigned[]){0}, 1, NULL, tw_onnx_op_center_crop_pad);
    bool ok = true;
    tw_gb *g = n->g;
    tw_value *x = n->in[0];
    size_t count = 0;
    tw_expr begin[TW_MAX_RANK], end[TW_MAX_RANK];
    const int64_t *axes = tw_onnx_int_list(n, "axes", &count, &ok);
    if (!axes)
        count = x->type->rank;
    tw_value *given = ok ? tw_onnx_index_exactly(n, 1, tw_gb_const(g, (int64_t)count)) : NULL;
    if (!given)
        return false;
    if (!tw_known_ints(g, given, &count) || !tw_type_is_static(x->type))
        return crop_or_pad(n, given, axes, count);
    const int64_t *sizes = tw_known_ints(g, given, &count);
    for (unsigned i = 0; i < x->type->rank; i++)
        begin[i] = end[i] = tw_gb_const(g, 0);
    for (size_t i = 0; i < count; i++) {
        unsigned axis;
        int64_t has;
        if (!tw_onnx_axis(n, axes ? axes[i] : (int64_t)i, x->type->rank, &axis))
            return false;
        if (!tw_expr_as_const(x->type->dims[axis], &has))
            return tw_onnx_error(n, "axis %u of %s must have a known size", axis,
                                 tw_gb_type_text(g, x->type));
        if (sizes[i] < 0 || sizes[i] > INT32_MAX || has > INT32_MAX)
            return tw_onnx_error(n, "the size %lld", (long long)sizes[i]);
        int64_t more = sizes[i] - has, first = more >= 0 ? more / 2 : -((-more) / 2);
        begin[axis] = tw_gb_const(g, first);
        end[axis] = tw_gb_const(g, more - first);
    }
    return tw_onnx_set(n, 0,
                       tw_gb_pad(g, x, begin, end, "constant", tw_gb_scalar(g, x->type->elem, 0)));
}

/* ---- Tile ---- */

/* A symbolic repeat: a new axis, expanded, joined with its own. */
static tw_value *repeat_axis(tw_gb *g, tw_value *x, unsigned axis, tw_expr times)
{
    tw_expr dims[TW_MAX_RANK];
    if (!x)
        return NULL;
    unsigned rank = x->type->rank;
    x = tw_gb_unsqueeze(g, x, 1u << axis);
    if (!x)
        return NULL;
    memcpy(dims, x->type->dims, (rank + 1) * sizeof *dims);
    dims[axis] = times;
    x = tw_gb_expand(g, x, rank + 1, dims);
    dims[axis + 1] = tw_expr_mul(g->ctx, dims[axis], dims[axis + 1]);
    memmove(dims + axis, dims + axis + 1, (rank - axis) * sizeof *dims);
    return tw_gb_reshape(g, x, rank, dims);
}

static const tw_expr *read_repeats(tw_onnx_node *n, size_t *count)
{
    tw_type x = n->in[0]->type;
    tw_expr hints[TW_MAX_RANK];
    if (n->version < 6 || tw_onnx_is_known(n, 1))
        return tw_onnx_known_exprs(n, 1, count);
    tw_value *v = tw_onnx_index_exactly(n, 1, tw_gb_const(n->g, x->rank));
    if (!v)
        return NULL;
    *count = x->rank;
    tw_onnx_declared_dims(n, 0, x->rank, hints);
    for (unsigned i = 0; i < x->rank; i++) {
        int64_t from = 0;
        bool whole = hints[i] && tw_expr_as_const(x->dims[i], &from) && from > 0 &&
                     hints[i]->value % from == 0;
        hints[i] = whole ? tw_gb_const(n->g, hints[i]->value / from) : NULL;
    }
    return tw_onnx_bind_sizes(n, v, hints, "repeats");
}

bool tw_onnx_op_tile(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_value *x = n->in[0];
    size_t count;
    unsigned axis;
    tw_expr dims[TW_MAX_RANK];
    int64_t repeats[TW_MAX_RANK];
    for (unsigned i = 1; n->version < 6 && i < n->n_in; i++)
        n->in[i] = tw_gb_cast(g, n->in[i], TW_I64); /* they have the type of x */
    const tw_expr *times = read_repeats(n, &count);
    if (!times)
        return false;
    if (n->version < 6) { /* inputs: tiles, axis */
        size_t one;
        const int64_t *along = tw_onnx_in(n, 2) ? tw_onnx_known_ints(n, 2, &one)
                                                : tw_gb_error(g, "input 2 is missing");
        if (!along || count != 1 || one != 1 || !tw_onnx_axis(n, *along, x->type->rank, &axis))
            return along && tw_onnx_error(n, "tiles and axis must be scalars");
        return tw_onnx_set(n, 0, repeat_axis(g, x, axis, *times));
    }
    if (count != x->type->rank)
        return tw_onnx_error(n, "%zu repeats for a tensor of rank %u", count, x->type->rank);
    bool none = true;
    for (unsigned i = 0; i < count; i++) {
        if (!tw_expr_is_const(times[i])) {
            x = repeat_axis(g, x, i, times[i]);
            repeats[i] = 1;
        } else if ((repeats[i] = times[i]->value) < 0) {
            return tw_onnx_error(n, "%lld repeats", (long long)repeats[i]);
        }
        if (!x)
            return false;
        none &= repeats[i] == 1;
    }
    for (unsigned i = 0; i < count; i++)
        dims[i] = tw_expr_mulc(n->ctx, x->type->dims[i], repeats[i]);
    if (none)
        return tw_onnx_set(n, 0, x);
    return tw_onnx_set(n, 0,
                       TW_GB_EMIT(g, TILE, &x, 1,
                                  tw_type_tensor(n->ctx, x->type->elem, x->type->rank, dims, NULL),
                                  {"repeats", tw_attr_ints(n->ctx, repeats, count)}));
}

/* ---- Blocks of depth and space ---- */

static bool read_block(tw_onnx_node *n, int64_t *block)
{
    bool ok = true;
    *block = tw_onnx_int(n, "blocksize", 0, &ok);
    if (ok && (*block <= 0 || *block > INT16_MAX || n->in[0]->type->rank != 4))
        return tw_onnx_error(n, "block size %lld of %s; a positive one and rank 4 are needed",
                             (long long)*block, tw_gb_type_text(n->g, n->in[0]->type));
    return ok;
}

static tw_expr divided(tw_onnx_node *n, tw_expr size, int64_t by)
{
    if (tw_expr_is_const(size) && size->value % by)
        return tw_gb_error(n->g, "%s cannot be cut into blocks of %lld",
                           tw_gb_type_text(n->g, n->in[0]->type), (long long)by);
    return tw_expr_binary(n->ctx, TW_EXPR_FLOORDIV, size, tw_expr_const(n->ctx, by));
}

/* [N, b, b, C, H, W] (DCR) or [N, C, b, b, H, W] (CRD) -> [N, C, H, b, W, b] */
bool tw_onnx_op_depth_to_space(tw_onnx_node *n)
{
    static const int64_t dcr[6] = {0, 3, 4, 1, 5, 2}, crd[6] = {0, 1, 4, 2, 5, 3};
    bool ok = true;
    int64_t b;
    const tw_expr *d = n->in[0]->type->dims;
    const char *mode = tw_onnx_string(n, "mode", "DCR", &ok);
    if (!ok || !read_block(n, &b))
        return false;
    bool depth_first = !strcmp(mode, "DCR");
    if (!depth_first && strcmp(mode, "CRD"))
        return tw_onnx_error(n, "attribute 'mode' is '%s'; accepted are DCR, CRD", mode);
    tw_expr block = tw_gb_const(n->g, b), c = divided(n, d[1], b * b);
    if (!c)
        return false;
    tw_expr split[2][6] = {{d[0], c, block, block, d[2], d[3]},
                           {d[0], block, block, c, d[2], d[3]}};
    tw_value *x = tw_gb_reshape(n->g, n->in[0], 6, split[depth_first]);
    x = tw_gb_transpose(n->g, x, depth_first ? dcr : crd);
    tw_expr dims[4] = {d[0], c, tw_expr_mulc(n->ctx, d[2], b), tw_expr_mulc(n->ctx, d[3], b)};
    return tw_onnx_set(n, 0, tw_gb_reshape(n->g, x, 4, dims));
}

/* [N, C, H, b, W, b] -> [N, b, b, C, H, W] */
bool tw_onnx_op_space_to_depth(tw_onnx_node *n)
{
    static const int64_t perm[6] = {0, 3, 5, 1, 2, 4};
    int64_t b;
    const tw_expr *d = n->in[0]->type->dims;
    if (!read_block(n, &b))
        return false;
    tw_expr block = tw_gb_const(n->g, b), h = divided(n, d[2], b), w = divided(n, d[3], b);
    if (!h || !w)
        return false;
    tw_value *x = tw_gb_reshape(n->g, n->in[0], 6, (tw_expr[]){d[0], d[1], h, block, w, block});
    x = tw_gb_transpose(n->g, x, perm);
    tw_expr dims[4] = {d[0], tw_expr_mulc(n->ctx, d[1], b * b), h, w};
    return tw_onnx_set(n, 0, tw_gb_reshape(n->g, x, 4, dims));
}

/* column - row against a diagonal that is known when the model runs. */
static bool trilu_runtime(tw_onnx_node *n, bool upper)
{
    tw_gb *g = n->g;
    tw_type x = n->in[0]->type;
    tw_expr one = tw_gb_const(g, 1), size[2] = {x->dims[x->rank - 2], x->dims[x->rank - 1]};
    tw_value *k = tw_onnx_index_scalar(n, 1);
    tw_value *row = tw_gb_iota(g, TW_I64, 2, (tw_expr[]){size[0], one}, 0);
    tw_value *column = tw_gb_iota(g, TW_I64, 2, (tw_expr[]){one, size[1]}, 1);
    tw_value *distance = tw_gb_binary(g, TW_GRAPH_SUB, column, row);
    tw_value *keep =
        tw_gb_binary(g, upper ? TW_GRAPH_GREATER_EQUAL : TW_GRAPH_LESS_EQUAL, distance, k);
    return tw_onnx_set(n, 0, tw_gb_where(g, keep, n->in[0], tw_gb_scalar(g, x->elem, 0)));
}

bool tw_onnx_op_trilu(tw_onnx_node *n)
{
    if (n->in[0]->type->elem == TW_STRING)
        return tw_onnx_move_text(n, (const unsigned[]){0}, 1, NULL, tw_onnx_op_trilu);
    bool ok = true;
    size_t count;
    int64_t upper = tw_onnx_int(n, "upper", 1, &ok), zero = 0;
    if (n->in[0]->type->rank < 2)
        return tw_onnx_error(n, "input 0 is %s; a matrix is needed",
                             tw_gb_type_text(n->g, n->in[0]->type));
    if (ok && !is_number(n, 1))
        return trilu_runtime(n, upper);
    const int64_t *k = tw_onnx_in(n, 1) ? tw_onnx_known_ints(n, 1, &count) : &zero;
    if (!ok || !k)
        return false;
    return tw_onnx_set(n, 0,
                       TW_GB_EMIT(n->g, TRILU, n->in, 1, n->in[0]->type,
                                  {"upper", tw_attr_bool(n->ctx, upper)},
                                  {"k", tw_attr_int(n->ctx, *k)}));
}
