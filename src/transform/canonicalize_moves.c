/* canonicalize_moves.c: rewrites of slices, concatenations, pads, broadcasts and shapes. */
#include "transform/canonicalize.h"

#include "base/arena.h"
#include "base/checked.h"
#include "base/vec.h"
#include "dialect/graph/graph.h"
#include "ir/elem_data.h"
#include "transform/constants.h"

#include <string.h>

/* The operation of that kind that makes operand i, or NULL. */
static tw_op *producer(const tw_op *op, unsigned i, tw_graph_kind kind)
{
    tw_op *p = tw_operand(op, i)->op;
    return p && tw_is_graph(p, kind) ? p : NULL;
}

/* ---- concat ---- */

bool tw_canon_concat_one(tw_rewriter *rw, tw_op *op)
{
    return op->n_operands == 1 && tw_canon_replace(rw, op, tw_operand(op, 0));
}

/* Replaces the operands of a concatenation in place. */
static bool set_parts(tw_rewriter *rw, tw_op *op, tw_value *const *parts, unsigned n)
{
    tw_op_set_operands(op, parts, n);
    tw_rw_changed(rw, op);
    return true;
}

bool tw_canon_concat_empty(tw_rewriter *rw, tw_op *op)
{
    int64_t axis = tw_op_int(op, "axis", 0);
    tw_arena *arena = tw_context_arena(tw_rw_context(rw));
    tw_expr zero = tw_expr_const(tw_rw_context(rw), 0);
    TW_VEC(tw_value *) parts = {0};
    for (unsigned i = 0; i < op->n_operands; i++)
        if (tw_operand(op, i)->type->dims[axis] != zero)
            tw_vec_push(arena, &parts, tw_operand(op, i));
    return parts.len && parts.len < op->n_operands &&
           set_parts(rw, op, parts.data, (unsigned)parts.len);
}

/* More parts than this are not joined: a chain of concatenations would cost the square of its
 * length. */
enum { MAX_JOINED_PARTS = 256 };

/* Only an inner concatenation that nothing else needs, so that nothing is copied twice. */
bool tw_canon_concat_concat(tw_rewriter *rw, tw_op *op)
{
    tw_attr axis = tw_op_attr(op, "axis");
    tw_arena *arena = tw_context_arena(tw_rw_context(rw));
    TW_VEC(tw_value *) parts = {0};
    bool found = false;
    for (unsigned i = 0; i < op->n_operands; i++) {
        tw_op *inner = producer(op, i, TW_GRAPH_CONCAT);
        if (inner && tw_op_attr(inner, "axis") == axis && tw_value_has_one_use(tw_operand(op, i))) {
            for (unsigned k = 0; k < inner->n_operands; k++)
                tw_vec_push(arena, &parts, tw_operand(inner, k));
            found = true;
        } else {
            tw_vec_push(arena, &parts, tw_operand(op, i));
        }
    }
    return found && parts.len <= MAX_JOINED_PARTS &&
           set_parts(rw, op, parts.data, (unsigned)parts.len);
}

/* Whether b, a slice, goes on along the axis where slice a ends, in step. */
static bool goes_on(tw_context *ctx, const tw_op *a, const tw_op *b, int64_t axis)
{
    tw_expr at[TW_MAX_RANK], next[TW_MAX_RANK];
    int64_t step[TW_MAX_RANK], other_step[TW_MAX_RANK];
    int n = tw_graph_exprs(ctx, a, "starts", at, TW_MAX_RANK);
    tw_graph_exprs(ctx, b, "starts", next, TW_MAX_RANK);
    tw_op_ints(a, "steps", step, TW_MAX_RANK);
    tw_op_ints(b, "steps", other_step, TW_MAX_RANK);
    at[axis] =
        tw_expr_add(ctx, at[axis], tw_expr_mulc(ctx, a->results[0].type->dims[axis], step[axis]));
    for (int i = 0; i < n; i++)
        if (at[i] != next[i] || step[i] != other_step[i])
            return false;
    return true;
}

/* One slice for two that follow one another in the concatenation. The first must not be empty:
 * nothing says that its start lies in the tensor. */
bool tw_canon_concat_slices(tw_rewriter *rw, tw_op *op)
{
    tw_context *ctx = tw_rw_context(rw);
    int64_t axis = tw_op_int(op, "axis", 0);
    for (unsigned i = 0; i + 1 < op->n_operands; i++) {
        const tw_op *a = producer(op, i, TW_GRAPH_SLICE), *b = producer(op, i + 1, TW_GRAPH_SLICE);
        if (!a || !b || tw_operand(a, 0) != tw_operand(b, 0) || !goes_on(ctx, a, b, axis) ||
            !tw_expr_at_least(ctx, a->results[0].type->dims[axis], 1, NULL, 0))
            continue;
        tw_type type = a->results[0].type;
        tw_expr dims[TW_MAX_RANK];
        memcpy(dims, type->dims, type->rank * sizeof *dims);
        dims[axis] = tw_expr_add(ctx, dims[axis], b->results[0].type->dims[axis]);
        type = tw_type_tensor(ctx, type->elem, type->rank, dims, type->layout);
        tw_value *x = tw_operand(a, 0);
        TW_VEC(tw_value *) parts = {0};
        for (unsigned k = 0; k < op->n_operands; k++)
            if (k != i + 1)
                tw_vec_push(tw_context_arena(ctx), &parts, tw_operand(op, k));
        parts.data[i] =
            tw_graph_build(tw_rw_builder(rw, op), TW_GRAPH_SLICE, &x, 1, type, "starts",
                           tw_op_attr(a, "starts"), "steps", tw_op_attr(a, "steps"), NULL);
        return set_parts(rw, op, parts.data, (unsigned)parts.len);
    }
    return false;
}

/* ---- slice ---- */

static bool all_equal(tw_context *ctx, const tw_op *op, const char *name, int64_t value)
{
    tw_expr v[TW_MAX_RANK];
    int n = tw_graph_exprs(ctx, op, name, v, TW_MAX_RANK);
    for (int i = 0; i < n; i++)
        if (v[i] != tw_expr_const(ctx, value))
            return false;
    return true;
}

bool tw_canon_slice_identity(tw_rewriter *rw, tw_op *op)
{
    tw_context *ctx = tw_rw_context(rw);
    return op->results[0].type == tw_operand(op, 0)->type && all_equal(ctx, op, "starts", 0) &&
           all_equal(ctx, op, "steps", 1) && tw_canon_replace(rw, op, tw_operand(op, 0));
}

static tw_value *build_slice(tw_builder *b, tw_value *x, tw_type type, const tw_expr *starts,
                             const int64_t *steps)
{
    return tw_graph_build(b, TW_GRAPH_SLICE, &x, 1, type, "starts",
                          tw_graph_exprs_attr(b->ctx, starts, type->rank), "steps",
                          tw_attr_ints(b->ctx, steps, type->rank), NULL);
}

bool tw_canon_slice_slice(tw_rewriter *rw, tw_op *op)
{
    const tw_op *inner = producer(op, 0, TW_GRAPH_SLICE);
    tw_context *ctx = tw_rw_context(rw);
    tw_expr start[TW_MAX_RANK], inner_start[TW_MAX_RANK];
    int64_t step[TW_MAX_RANK], inner_step[TW_MAX_RANK];
    if (!inner)
        return false;
    int n = tw_graph_exprs(ctx, op, "starts", start, TW_MAX_RANK);
    tw_op_ints(op, "steps", step, TW_MAX_RANK);
    tw_graph_exprs(ctx, inner, "starts", inner_start, TW_MAX_RANK);
    tw_op_ints(inner, "steps", inner_step, TW_MAX_RANK);
    for (int i = 0; i < n; i++) {
        start[i] = tw_expr_add(ctx, tw_expr_mulc(ctx, start[i], inner_step[i]), inner_start[i]);
        if (start[i]->kind == TW_EXPR_INVALID || !tw_mul_i64(step[i], inner_step[i], &step[i]))
            return false;
    }
    tw_builder *b = tw_rw_builder(rw, op);
    return tw_canon_replace(rw, op,
                            build_slice(b, tw_operand(inner, 0), op->results[0].type, start, step));
}

/* The part of a concatenation in which positions first..last of the axis lie; *offset is where it
 * begins. NULL when none has all of them, or sizes before it are not known. */
static tw_value *part_of(const tw_op *concat, int64_t axis, int64_t first, int64_t last,
                         int64_t *offset)
{
    *offset = 0;
    for (unsigned i = 0; i < concat->n_operands; i++) {
        int64_t size;
        if (!tw_expr_as_const(tw_operand(concat, i)->type->dims[axis], &size))
            return NULL;
        if (first >= *offset && last >= *offset && first < *offset + size && last < *offset + size)
            return tw_operand(concat, i);
        *offset += size;
    }
    return NULL;
}

bool tw_canon_slice_concat(tw_rewriter *rw, tw_op *op)
{
    const tw_op *concat = producer(op, 0, TW_GRAPH_CONCAT);
    tw_type type = op->results[0].type;
    tw_expr start[TW_MAX_RANK];
    int64_t step[TW_MAX_RANK], first, size, span, last, offset;
    if (!concat)
        return false;
    int64_t axis = tw_op_int(concat, "axis", 0);
    tw_graph_exprs(tw_rw_context(rw), op, "starts", start, TW_MAX_RANK);
    tw_op_ints(op, "steps", step, TW_MAX_RANK);
    if (!tw_expr_as_const(type->dims[axis], &size) || size == 0 ||
        !tw_expr_as_const(start[axis], &first) || !tw_mul_i64(size - 1, step[axis], &span) ||
        !tw_add_i64(first, span, &last))
        return false;
    tw_value *part = part_of(concat, axis, first, last, &offset);
    if (!part)
        return false;
    start[axis] = tw_expr_const(tw_rw_context(rw), first - offset);
    return tw_canon_replace(rw, op, build_slice(tw_rw_builder(rw, op), part, type, start, step));
}

/* Positions first..last of the slice's axis; false when they are not known or none. */
static bool known_range(tw_context *ctx, const tw_op *slice, unsigned axis, int64_t *first,
                        int64_t *last)
{
    tw_expr start[TW_MAX_RANK];
    int64_t step[TW_MAX_RANK], size, span;
    tw_graph_exprs(ctx, slice, "starts", start, TW_MAX_RANK);
    tw_op_ints(slice, "steps", step, TW_MAX_RANK);
    return tw_expr_as_const(slice->results[0].type->dims[axis], &size) && size > 0 &&
           tw_expr_as_const(start[axis], first) && tw_mul_i64(size - 1, step[axis], &span) &&
           tw_add_i64(*first, span, last);
}

/* A concatenation that nothing else uses, without the parts that the slice does not touch. */
bool tw_canon_slice_less_concat(tw_rewriter *rw, tw_op *op)
{
    const tw_op *concat = producer(op, 0, TW_GRAPH_CONCAT);
    tw_context *ctx = tw_rw_context(rw);
    int64_t first, last, end = 0, size, dropped = 0;
    if (!concat || !tw_value_has_one_use(tw_operand(op, 0)))
        return false;
    unsigned axis = (unsigned)tw_op_int(concat, "axis", 0);
    if (!known_range(ctx, op, axis, &first, &last))
        return false;
    int64_t low = first < last ? first : last, high = first < last ? last : first;
    TW_VEC(tw_value *) parts = {0};
    for (unsigned i = 0; i < concat->n_operands && end <= high; i++) {
        if (!tw_expr_as_const(tw_operand(concat, i)->type->dims[axis], &size))
            return false;
        end += size;
        if (end <= low)
            dropped = end;
        else
            tw_vec_push(tw_context_arena(ctx), &parts, tw_operand(concat, i));
    }
    if (parts.len == concat->n_operands || parts.len == 0)
        return false;
    tw_expr dims[TW_MAX_RANK], start[TW_MAX_RANK];
    int64_t step[TW_MAX_RANK];
    tw_type type = tw_operand(op, 0)->type;
    memcpy(dims, type->dims, type->rank * sizeof *dims);
    dims[axis] = tw_expr_const(ctx, end - dropped);
    type = tw_type_tensor(ctx, type->elem, type->rank, dims, type->layout);
    tw_builder *b = tw_rw_builder(rw, op);
    tw_value *less = tw_graph_build(b, TW_GRAPH_CONCAT, parts.data, (unsigned)parts.len, type,
                                    "axis", tw_attr_int(ctx, axis), NULL);
    tw_graph_exprs(ctx, op, "starts", start, TW_MAX_RANK);
    tw_op_ints(op, "steps", step, TW_MAX_RANK);
    start[axis] = tw_expr_const(ctx, first - dropped);
    return tw_canon_replace(rw, op, build_slice(b, less, op->results[0].type, start, step));
}

/* The slice reads x alone, nothing of the padding. */
bool tw_canon_slice_pad(tw_rewriter *rw, tw_op *op)
{
    const tw_op *pad = producer(op, 0, TW_GRAPH_PAD);
    tw_context *ctx = tw_rw_context(rw);
    tw_expr begin[TW_MAX_RANK], end[TW_MAX_RANK], start[TW_MAX_RANK], zero = tw_expr_const(ctx, 0);
    int64_t step[TW_MAX_RANK], before, size, first, last;
    if (!pad)
        return false;
    tw_value *x = tw_operand(pad, 0);
    int n = tw_graph_exprs(ctx, pad, "pads_begin", begin, TW_MAX_RANK);
    tw_graph_exprs(ctx, pad, "pads_end", end, TW_MAX_RANK);
    tw_graph_exprs(ctx, op, "starts", start, TW_MAX_RANK);
    tw_op_ints(op, "steps", step, TW_MAX_RANK);
    for (int i = 0; i < n; i++) {
        if (begin[i] == zero && end[i] == zero)
            continue;
        if (!tw_expr_as_const(begin[i], &before) || !tw_expr_as_const(x->type->dims[i], &size) ||
            !known_range(ctx, op, (unsigned)i, &first, &last) ||
            !tw_sub_i64(first, before, &first) || !tw_sub_i64(last, before, &last) || first < 0 ||
            last < 0 || first >= size || last >= size)
            return false;
        start[i] = tw_expr_const(ctx, first);
    }
    return tw_canon_replace(
        rw, op, build_slice(tw_rw_builder(rw, op), x, op->results[0].type, start, step));
}

/* ---- gather ---- */

/* The integers of a constant, in order: whether they go up or down by one step from *first on. */
static bool is_progression(const tw_value *indices, int64_t *first, int64_t *step, size_t *n)
{
    tw_attr dense = tw_graph_constant_value(indices);
    if (!dense || !tw_dense_count(dense, n) || *n == 0 || indices->type->rank > 1)
        return false;
    tw_elem elem = dense->u.dense.type->elem;
    *first = tw_elem_to_int(elem, tw_elem_load(elem, dense->u.dense.data, 0));
    *step = 1;
    for (size_t i = 1; i < *n; i++) {
        int64_t value = tw_elem_to_int(elem, tw_elem_load(elem, dense->u.dense.data, i)), gap;
        int64_t before = tw_elem_to_int(elem, tw_elem_load(elem, dense->u.dense.data, i - 1));
        if (!tw_sub_i64(value, before, &gap) || gap == 0 || (i > 1 && gap != *step) ||
            (value < 0) != (*first < 0))
            return false;
        *step = gap;
    }
    return true;
}

bool tw_canon_gather_slice(tw_rewriter *rw, tw_op *op)
{
    tw_context *ctx = tw_rw_context(rw);
    tw_value *x = tw_operand(op, 0);
    unsigned axis = (unsigned)tw_op_int(op, "axis", 0);
    int64_t first, step, size, least, steps[TW_MAX_RANK];
    size_t n;
    if (!is_progression(tw_operand(op, 1), &first, &step, &n))
        return false;
    if (first < 0 &&
        (!tw_expr_as_const(x->type->dims[axis], &size) || !tw_add_i64(first, size, &first)))
        return false;
    int64_t last = first + (int64_t)(n - 1) * step; /* a sum of a constant's elements */
    if (first < 0 || last < 0 || !tw_add_i64(first > last ? first : last, 1, &least) ||
        !tw_expr_at_least(ctx, x->type->dims[axis], least, NULL, 0))
        return false;
    tw_expr starts[TW_MAX_RANK], dims[TW_MAX_RANK];
    for (unsigned i = 0; i < x->type->rank; i++) {
        starts[i] = tw_expr_const(ctx, i == axis ? first : 0);
        dims[i] = i == axis ? tw_expr_const(ctx, (int64_t)n) : x->type->dims[i];
        steps[i] = i == axis ? step : 1;
    }
    tw_type type = tw_type_tensor(ctx, x->type->elem, x->type->rank, dims, x->type->layout);
    tw_builder *b = tw_rw_builder(rw, op);
    tw_value *value = build_slice(b, x, type, starts, steps);
    if (tw_operand(op, 1)->type->rank == 0)
        value = tw_graph_build(b, TW_GRAPH_RESHAPE, &value, 1, op->results[0].type, NULL);
    return tw_canon_replace(rw, op, value);
}

/* ---- pad ---- */

bool tw_canon_pad_nothing(tw_rewriter *rw, tw_op *op)
{
    tw_context *ctx = tw_rw_context(rw);
    return all_equal(ctx, op, "pads_begin", 0) && all_equal(ctx, op, "pads_end", 0) &&
           tw_canon_replace(rw, op, tw_operand(op, 0));
}

/* Nothing is added on any side, so the mode does not matter. */
bool tw_canon_pad_crop(tw_rewriter *rw, tw_op *op)
{
    static const char *const names[] = {"pads_begin", "pads_end"};
    tw_context *ctx = tw_rw_context(rw);
    tw_expr pads[2][TW_MAX_RANK], minus;
    int64_t steps[TW_MAX_RANK];
    int n = 0;
    for (int side = 2; side-- > 0;) {
        n = tw_graph_exprs(ctx, op, names[side], pads[side], TW_MAX_RANK);
        for (int i = 0; i < n; i++) {
            minus = tw_expr_mulc(ctx, pads[side][i], -1);
            if (!tw_expr_at_least(ctx, minus, 0, NULL, 0))
                return false;
            pads[side][i] = minus;
            steps[i] = 1;
        }
    }
    return tw_canon_replace(
        rw, op,
        build_slice(tw_rw_builder(rw, op), tw_operand(op, 0), op->results[0].type, pads[0], steps));
}

/* The bits of a constant-mode pad's value; false for other modes and values not known. */
static bool pad_value(const tw_op *pad, double *out)
{
    tw_elem elem;
    *out = 0;
    return !strcmp(tw_op_string(pad, "mode", "constant"), "constant") &&
           (pad->n_operands < 2 || tw_constant_splat(tw_operand(pad, 1), &elem, out));
}

bool tw_canon_pad_pad(tw_rewriter *rw, tw_op *op)
{
    static const char *const names[] = {"pads_begin", "pads_end"};
    const tw_op *inner = producer(op, 0, TW_GRAPH_PAD);
    double value, inner_value;
    tw_attr sums[2];
    if (!inner || !pad_value(op, &value) || !pad_value(inner, &inner_value) ||
        memcmp(&value, &inner_value, sizeof value) != 0)
        return false;
    for (int side = 0; side < 2; side++) {
        tw_context *ctx = tw_rw_context(rw);
        tw_expr a[TW_MAX_RANK], b[TW_MAX_RANK];
        int n = tw_graph_exprs(ctx, op, names[side], a, TW_MAX_RANK);
        tw_graph_exprs(ctx, inner, names[side], b, TW_MAX_RANK);
        for (int i = 0; i < n; i++) {
            if (!tw_expr_at_least(ctx, a[i], 0, NULL, 0) ||
                !tw_expr_at_least(ctx, b[i], 0, NULL, 0))
                return false; /* a crop between two pads cuts data */
            a[i] = tw_expr_add(ctx, a[i], b[i]);
            if (a[i]->kind == TW_EXPR_INVALID)
                return false;
        }
        sums[side] = tw_graph_exprs_attr(ctx, a, (unsigned)n);
    }
    tw_op_set_operand(op, 0, tw_operand(inner, 0));
    tw_op_set_attr(op, names[0], sums[0]);
    tw_op_set_attr(op, names[1], sums[1]);
    tw_rw_changed(rw, op);
    return true;
}

/* ---- expand, shape ---- */

/* The type that the operation's operands broadcast to when operand `i` is `x`. */
static tw_type broadcast_with(tw_context *ctx, const tw_op *op, unsigned i, const tw_value *x)
{
    tw_type type = NULL;
    for (unsigned k = 0; k < op->n_operands; k++) {
        tw_type t = k == i ? x->type : tw_operand(op, k)->type;
        type = k && type ? tw_graph_broadcast_type(ctx, type, t) : t;
        if (!type)
            return NULL;
    }
    return type;
}

bool tw_canon_expand_operand(tw_rewriter *rw, tw_op *op)
{
    if (!(op->def->traits & TW_TRAIT_ELEMENTWISE) || tw_graph_kind_of(op) == TW_GRAPH_COUNT)
        return false;
    tw_type result = op->results[0].type;
    for (unsigned i = 0; i < op->n_operands; i++) {
        const tw_op *expand = producer(op, i, TW_GRAPH_EXPAND);
        if (!expand)
            continue;
        tw_type type = broadcast_with(tw_rw_context(rw), op, i, tw_operand(expand, 0));
        if (!type || type->rank != result->rank ||
            memcmp(type->dims, result->dims, type->rank * sizeof *type->dims) != 0)
            continue;
        tw_op_set_operand(op, i, tw_operand(expand, 0));
        tw_rw_changed(rw, op);
        return true;
    }
    return false;
}

bool tw_canon_shape_static(tw_rewriter *rw, tw_op *op)
{
    tw_type type = tw_operand(op, 0)->type;
    int64_t begin = tw_op_int(op, "start", 0), end = tw_op_int(op, "end", type->rank);
    int64_t sizes[TW_MAX_RANK];
    size_t n = 0;
    for (int64_t i = begin; i < end && i < type->rank; i++)
        if (!tw_expr_as_const(type->dims[i], &sizes[n++]))
            return false;
    return tw_canon_replace(rw, op, tw_constant_i64(tw_rw_builder(rw, op), sizes, n, 1));
}
