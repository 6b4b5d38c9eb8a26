/* build_ops.c: makers of graph operations that infer their result types. */
#include "import/build.h"
#include "import/known.h"

#include <string.h>

static tw_type tensor(tw_gb *g, tw_elem elem, unsigned rank, const tw_expr *dims)
{
    if (rank > TW_MAX_RANK)
        return tw_gb_error(g, "a tensor of %u dimensions; at most %d are supported", rank,
                           TW_MAX_RANK);
    return tw_type_tensor(g->ctx, elem, rank, dims, NULL);
}

static tw_attr ints_attr(tw_gb *g, const int64_t *values, unsigned n)
{
    return tw_attr_ints(g->ctx, values, n);
}

/* An array of numbers, or of `() -> (expression)` where a value is symbolic. */
static tw_attr exprs_attr(tw_gb *g, const tw_expr *values, unsigned n)
{
    tw_attr items[TW_MAX_RANK];
    for (unsigned i = 0; i < n; i++)
        items[i] = tw_expr_is_const(values[i]) ? tw_attr_int(g->ctx, values[i]->value)
                                               : tw_attr_map(g->ctx, 0, &values[i], 1);
    return tw_attr_array(g->ctx, items, n);
}

/* ---- Element-wise ---- */

tw_value *tw_gb_unary(tw_gb *g, tw_graph_kind kind, tw_value *x)
{
    bool test = kind == TW_GRAPH_IS_NAN || kind == TW_GRAPH_IS_INF;
    return x ? tw_gb_emit(g, kind, &x, 1,
                          test ? tensor(g, TW_BOOL, x->type->rank, x->type->dims) : x->type, NULL,
                          0)
             : NULL;
}

static bool is_comparison(tw_graph_kind kind)
{
    return kind >= TW_GRAPH_EQUAL && kind <= TW_GRAPH_GREATER_EQUAL;
}

bool tw_gb_broadcast_dims(tw_gb *g, tw_value *const *values, unsigned n, unsigned *rank,
                          tw_expr *dims)
{
    *rank = 0;
    for (unsigned v = 0; v < n; v++)
        if (values[v]->type->rank > *rank)
            *rank = values[v]->type->rank;
    for (unsigned i = 0; i < *rank; i++) { /* from the last axis */
        tw_expr size = tw_gb_const(g, 1);
        for (unsigned v = 0; v < n; v++) {
            tw_type t = values[v]->type;
            if (i < t->rank)
                size = tw_gb_common_size(g, size, t->dims[t->rank - 1 - i]);
            if (!size)
                return tw_gb_error(g, "shapes do not broadcast: %s and %s",
                                   tw_gb_type_text(g, values[0]->type), tw_gb_type_text(g, t));
        }
        dims[*rank - 1 - i] = size;
    }
    return true;
}

static tw_value *emit_reshape(tw_gb *g, tw_value *x, tw_type type)
{
    return type == x->type ? x : tw_gb_emit(g, TW_GRAPH_RESHAPE, &x, 1, type, NULL, 0);
}

tw_value *tw_gb_conform(tw_gb *g, tw_value *x, const tw_expr *dims)
{
    if (!x)
        return NULL;
    for (unsigned i = 0; i < x->type->rank; i++)
        if (!tw_gb_check_equal(g, x->type->dims[i], dims[i], "sizes that must agree"))
            return NULL;
    tw_type type = tensor(g, x->type->elem, x->type->rank, dims);
    tw_named_attr same = {"same_sizes", tw_attr_bool(g->ctx, true)};
    return type == x->type ? x : tw_gb_emit(g, TW_GRAPH_RESHAPE, &x, 1, type, &same, 1);
}

tw_value *tw_gb_binary(tw_gb *g, tw_graph_kind kind, tw_value *a, tw_value *b)
{
    unsigned rank;
    tw_expr dims[TW_MAX_RANK];
    if (!a || !b)
        return NULL;
    if (a->type->elem != b->type->elem && kind != TW_GRAPH_POW)
        return tw_gb_error(g, "operands of different element types: %s and %s",
                           tw_gb_type_text(g, a->type), tw_gb_type_text(g, b->type));
    if (!tw_gb_broadcast_dims(g, (tw_value *[]){a, b}, 2, &rank, dims))
        return NULL;
    tw_value *operands[2] = {tw_gb_fit(g, a, rank, dims), tw_gb_fit(g, b, rank, dims)};
    return tw_gb_emit(g, kind, operands, 2,
                      tensor(g, is_comparison(kind) ? TW_BOOL : a->type->elem, rank, dims), NULL,
                      0);
}

tw_value *tw_gb_binary_scalar(tw_gb *g, tw_graph_kind kind, tw_value *x, double value)
{
    return x ? tw_gb_binary(g, kind, x, tw_gb_scalar(g, x->type->elem, value)) : NULL;
}

tw_value *tw_gb_where(tw_gb *g, tw_value *condition, tw_value *a, tw_value *b)
{
    unsigned rank;
    tw_expr dims[TW_MAX_RANK];
    if (!condition || !a || !b)
        return NULL;
    if (condition->type->elem != TW_BOOL)
        return tw_gb_error(g, "the condition is %s; bool is needed",
                           tw_gb_type_text(g, condition->type));
    if (a->type->elem != b->type->elem)
        return tw_gb_error(g, "operands of different element types: %s and %s",
                           tw_gb_type_text(g, a->type), tw_gb_type_text(g, b->type));
    if (!tw_gb_broadcast_dims(g, (tw_value *[]){condition, a, b}, 3, &rank, dims))
        return NULL;
    tw_value *operands[3] = {tw_gb_fit(g, condition, rank, dims), tw_gb_fit(g, a, rank, dims),
                             tw_gb_fit(g, b, rank, dims)};
    return TW_GB_EMIT(g, WHERE, operands, 3, tensor(g, a->type->elem, rank, dims), {0});
}

tw_value *tw_gb_cast(tw_gb *g, tw_value *x, tw_elem elem)
{
    if (!x || x->type->elem == elem)
        return x;
    return tw_gb_emit(g, TW_GRAPH_CAST, &x, 1, tensor(g, elem, x->type->rank, x->type->dims), NULL,
                      0);
}

/* ---- Movement ---- */

tw_value *tw_gb_reshape(tw_gb *g, tw_value *x, unsigned rank, const tw_expr *dims)
{
    tw_type type = x ? tensor(g, x->type->elem, rank, dims) : NULL;
    if (!type || type == x->type)
        return type ? x : NULL;
    int64_t from, to;
    if (tw_type_static_count(x->type, &from) && tw_type_static_count(type, &to) && from != to)
        return tw_gb_error(g, "%s cannot be reshaped to %s: the numbers of elements differ",
                           tw_gb_type_text(g, x->type), tw_gb_type_text(g, type));
    if (!tw_gb_check_equal(g, tw_gb_product(g, x->type->dims, x->type->rank),
                           tw_gb_product(g, dims, rank), "numbers of elements before and after"))
        return NULL;
    return emit_reshape(g, x, type);
}

tw_value *tw_gb_transpose(tw_gb *g, tw_value *x, const int64_t *perm)
{
    tw_expr dims[TW_MAX_RANK];
    bool same = true;
    if (!x)
        return NULL;
    for (unsigned i = 0; i < x->type->rank; i++) {
        dims[i] = x->type->dims[perm[i]];
        same &= perm[i] == i;
    }
    if (same)
        return x;
    return TW_GB_EMIT(g, TRANSPOSE, &x, 1, tensor(g, x->type->elem, x->type->rank, dims),
                      {"perm", ints_attr(g, perm, x->type->rank)});
}

tw_value *tw_gb_expand(tw_gb *g, tw_value *x, unsigned rank, const tw_expr *dims)
{
    tw_type type = x ? tensor(g, x->type->elem, rank, dims) : NULL;
    if (!type || type == x->type)
        return type ? x : NULL;
    x = tw_gb_fit(g, x, rank, dims);
    return x && x->type != type ? tw_gb_emit(g, TW_GRAPH_EXPAND, &x, 1, type, NULL, 0) : x;
}

tw_value *tw_gb_squeeze(tw_gb *g, tw_value *x, uint32_t axes)
{
    tw_expr dims[TW_MAX_RANK];
    unsigned rank = 0;
    if (!x)
        return NULL;
    for (unsigned i = 0; i < x->type->rank; i++)
        if (!(axes >> i & 1))
            dims[rank++] = x->type->dims[i];
        else if (tw_gb_differ(g, x->type->dims[i], tw_gb_const(g, 1)))
            return tw_gb_error(g, "axis %u of %s does not have size 1", i,
                               tw_gb_type_text(g, x->type));
        else if (!tw_gb_check_equal(g, x->type->dims[i], tw_gb_const(g, 1), "an axis to drop"))
            return NULL;
    return emit_reshape(g, x, tensor(g, x->type->elem, rank, dims));
}

tw_value *tw_gb_unsqueeze(tw_gb *g, tw_value *x, uint32_t axes)
{
    tw_expr dims[TW_MAX_RANK];
    if (!x)
        return NULL;
    unsigned rank = x->type->rank + (unsigned)__builtin_popcount(axes), from = 0;
    if (rank > TW_MAX_RANK)
        return tw_gb_error(g, "a tensor of %u dimensions; at most %d are supported", rank,
                           TW_MAX_RANK);
    if (axes >> rank)
        return tw_gb_error(g, "%s has too few dimensions", tw_gb_type_text(g, x->type));
    for (unsigned i = 0; i < rank; i++)
        dims[i] = axes >> i & 1 ? tw_gb_const(g, 1) : x->type->dims[from++];
    return tw_gb_reshape(g, x, rank, dims);
}

tw_value *tw_gb_slice(tw_gb *g, tw_value *x, const tw_expr *starts, const int64_t *steps,
                      const tw_expr *sizes)
{
    if (!x)
        return NULL;
    bool whole = true;
    for (unsigned i = 0; i < x->type->rank; i++)
        whole &= sizes[i] == x->type->dims[i] && steps[i] == 1;
    if (whole)
        return x;
    return TW_GB_EMIT(g, SLICE, &x, 1, tensor(g, x->type->elem, x->type->rank, sizes),
                      {"starts", exprs_attr(g, starts, x->type->rank)},
                      {"steps", ints_attr(g, steps, x->type->rank)});
}

tw_value *tw_gb_slice_axis(tw_gb *g, tw_value *x, unsigned axis, tw_expr start, int64_t step,
                           tw_expr size)
{
    tw_expr starts[TW_MAX_RANK], sizes[TW_MAX_RANK];
    int64_t steps[TW_MAX_RANK];
    if (!x)
        return NULL;
    for (unsigned i = 0; i < x->type->rank; i++) {
        starts[i] = i == axis ? start : tw_gb_const(g, 0);
        steps[i] = i == axis ? step : 1;
        sizes[i] = i == axis ? size : x->type->dims[i];
    }
    return tw_gb_slice(g, x, starts, steps, sizes);
}

/* More parts than that are joined in steps: a kernel of thousands takes LLVM more than linear
 * time. */
enum { MAX_PARTS = 256 };

static tw_value *concat_in_steps(tw_gb *g, tw_value *const *values, unsigned n, unsigned axis)
{
    unsigned n_parts = 0;
    tw_value **parts = TW_NEW_ARRAY(g->arena, tw_value *, n / MAX_PARTS + 1);
    for (unsigned i = 0; i < n; i += MAX_PARTS)
        parts[n_parts++] = tw_gb_concat(g, values + i, n - i < MAX_PARTS ? n - i : MAX_PARTS, axis);
    return tw_gb_concat(g, parts, n_parts, axis);
}

tw_value *tw_gb_concat(tw_gb *g, tw_value *const *values, unsigned n, unsigned axis)
{
    if (n > MAX_PARTS)
        return concat_in_steps(g, values, n, axis);
    tw_expr dims[TW_MAX_RANK], total = tw_gb_const(g, 0);
    tw_value **operands = TW_NEW_ARRAY(g->arena, tw_value *, n);
    for (unsigned v = 0; v < n; v++) {
        if (!values[v])
            return NULL;
        tw_type t = values[v]->type, first = values[0]->type;
        bool fits = t->rank == first->rank && t->elem == first->elem;
        for (unsigned i = 0; fits && i < t->rank; i++) {
            fits = i == axis || !tw_gb_differ(g, t->dims[i], first->dims[i]);
            if (v == 0 || (tw_expr_is_const(t->dims[i]) && i != axis))
                dims[i] = t->dims[i];
        }
        if (!fits)
            return tw_gb_error(g, "%s and %s cannot be joined along axis %u",
                               tw_gb_type_text(g, first), tw_gb_type_text(g, t), axis);
        total = tw_expr_add(g->ctx, total, t->dims[axis]);
    }
    for (unsigned v = 0; v < n; v++) {
        dims[axis] = values[v]->type->dims[axis];
        operands[v] = tw_gb_conform(g, values[v], dims);
    }
    if (n == 1)
        return operands[0];
    dims[axis] = total;
    return TW_GB_EMIT(g, CONCAT, operands, n,
                      tensor(g, values[0]->type->elem, values[0]->type->rank, dims),
                      {"axis", tw_attr_int(g->ctx, axis)});
}

tw_value *tw_gb_pad(tw_gb *g, tw_value *x, const tw_expr *begin, const tw_expr *end,
                    const char *mode, tw_value *value)
{
    tw_expr dims[TW_MAX_RANK];
    if (!x)
        return NULL;
    for (unsigned i = 0; i < x->type->rank; i++)
        dims[i] = tw_expr_add(g->ctx, tw_expr_add(g->ctx, x->type->dims[i], begin[i]), end[i]);
    tw_type type = tensor(g, x->type->elem, x->type->rank, dims);
    bool none = true;
    for (unsigned i = 0; i < x->type->rank; i++)
        none &= begin[i] == tw_gb_const(g, 0) && end[i] == begin[i];
    if (none)
        return x;
    return TW_GB_EMIT(g, PAD, ((tw_value *[]){x, value}), value ? 2 : 1, type,
                      {"pads_begin", exprs_attr(g, begin, x->type->rank)},
                      {"pads_end", exprs_attr(g, end, x->type->rank)},
                      {"mode", tw_attr_string(g->ctx, mode)});
}

tw_value *tw_gb_gather(tw_gb *g, tw_value *x, tw_value *indices, unsigned axis)
{
    tw_expr dims[2 * TW_MAX_RANK];
    unsigned rank = 0;
    if (!x || !indices)
        return NULL;
    for (unsigned i = 0; i < axis; i++)
        dims[rank++] = x->type->dims[i];
    for (unsigned i = 0; i < indices->type->rank; i++)
        dims[rank++] = indices->type->dims[i];
    for (unsigned i = axis + 1; i < x->type->rank; i++)
        dims[rank++] = x->type->dims[i];
    return TW_GB_EMIT(g, GATHER, ((tw_value *[]){x, indices}), 2,
                      tensor(g, x->type->elem, rank, dims), {"axis", tw_attr_int(g->ctx, axis)});
}

tw_value *tw_gb_iota(tw_gb *g, tw_elem elem, unsigned rank, const tw_expr *dims, unsigned axis)
{
    return TW_GB_EMIT(g, IOTA, NULL, 0, tensor(g, elem, rank, dims),
                      {"axis", tw_attr_int(g->ctx, axis)});
}

/* ---- Reductions and products ---- */

tw_value *tw_gb_reduce(tw_gb *g, tw_graph_kind kind, tw_value *x, uint32_t axes, bool keepdims)
{
    tw_expr dims[TW_MAX_RANK];
    int64_t list[TW_MAX_RANK];
    unsigned n = 0, rank = 0;
    if (!x || !axes)
        return x;
    for (unsigned i = 0; i < x->type->rank; i++) {
        bool reduced = axes >> i & 1;
        if (reduced)
            list[n++] = i;
        if (!reduced || keepdims)
            dims[rank++] = reduced ? tw_gb_const(g, 1) : x->type->dims[i];
    }
    tw_named_attr attrs[] = {{"axes", ints_attr(g, list, n)},
                             {"keepdims", tw_attr_bool(g->ctx, keepdims)}};
    return tw_gb_emit(g, kind, &x, 1, tensor(g, x->type->elem, rank, dims), attrs, 2);
}

tw_value *tw_gb_softmax(tw_gb *g, tw_graph_kind kind, tw_value *x, unsigned axis)
{
    return x ? tw_gb_emit(g, kind, &x, 1, x->type,
                          &(tw_named_attr){"axis", tw_attr_int(g->ctx, axis)}, 1)
             : NULL;
}

/* The size that two equal ones have: a number if one is; NULL when they differ. */
static tw_expr agree(tw_gb *g, tw_expr a, tw_expr b)
{
    return tw_gb_differ(g, a, b) ? NULL : tw_expr_is_const(b) ? b : a;
}

/* Stacks of matrices whose leading axes broadcast to those sizes. */
static tw_value *fit_batches(tw_gb *g, tw_value *x, unsigned rank, const tw_expr *batches)
{
    tw_expr dims[TW_MAX_RANK];
    if (!x)
        return NULL;
    memcpy(dims, batches, rank * sizeof *dims);
    memcpy(dims + rank - 2, x->type->dims + x->type->rank - 2, 2 * sizeof *dims);
    return tw_gb_fit(g, x, rank, dims);
}

tw_value *tw_gb_matmul(tw_gb *g, tw_value *a, tw_value *b, bool transpose_a, bool transpose_b)
{
    if (!a || !b)
        return NULL;
    tw_type ta = a->type, tb = b->type;
    if (ta->rank < 2 || tb->rank < 2 || ta->elem != tb->elem)
        return tw_gb_error(g, "no matrix product of %s and %s", tw_gb_type_text(g, ta),
                           tw_gb_type_text(g, tb));
    tw_expr da[TW_MAX_RANK], db[TW_MAX_RANK], dims[TW_MAX_RANK], one = tw_gb_const(g, 1);
    memcpy(da, ta->dims, ta->rank * sizeof *da);
    memcpy(db, tb->dims, tb->rank * sizeof *db);
    tw_expr *ka = &da[ta->rank - (transpose_a ? 2 : 1)],
            *kb = &db[tb->rank - (transpose_b ? 1 : 2)];
    *ka = *kb = agree(g, *ka, *kb);
    if (!*ka)
        return tw_gb_error(g, "no matrix product of %s%s and %s%s: inner sizes differ",
                           tw_gb_type_text(g, ta), transpose_a ? " transposed" : "",
                           tw_gb_type_text(g, tb), transpose_b ? " transposed" : "");
    unsigned rank = ta->rank > tb->rank ? ta->rank : tb->rank;
    for (unsigned i = 2; i < rank; i++) { /* batch axes, from the last */
        tw_expr size = tw_gb_common_size(g, i < ta->rank ? ta->dims[ta->rank - 1 - i] : one,
                                         i < tb->rank ? tb->dims[tb->rank - 1 - i] : one);
        if (!size)
            return tw_gb_error(g, "no matrix product of %s and %s: the batches do not broadcast",
                               tw_gb_type_text(g, ta), tw_gb_type_text(g, tb));
        dims[rank - 1 - i] = size;
    }
    dims[rank - 2] = da[ta->rank - (transpose_a ? 1 : 2)];
    dims[rank - 1] = db[tb->rank - (transpose_b ? 2 : 1)];
    tw_value *operands[2] = {fit_batches(g, tw_gb_conform(g, a, da), rank, dims),
                             fit_batches(g, tw_gb_conform(g, b, db), rank, dims)};
    return TW_GB_EMIT(g, MATMUL, operands, 2, tensor(g, ta->elem, rank, dims),
                      {"transpose_a", transpose_a ? tw_attr_bool(g->ctx, true) : NULL},
                      {"transpose_b", transpose_b ? tw_attr_bool(g->ctx, true) : NULL});
}
