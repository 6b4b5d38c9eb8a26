/* op_gather.c: operators that read or write elements at computed indices. */
#include "import/onnx/import.h"

#include <limits.h>
#include <string.h>

static tw_type like(tw_onnx_node *n, unsigned rank, const tw_expr *dims)
{
    return tw_type_tensor(n->ctx, n->in[0]->type->elem, rank, dims, NULL);
}

static bool read_axis(tw_onnx_node *n, unsigned *axis)
{
    bool ok = true;
    int64_t given = tw_onnx_int(n, "axis", 0, &ok);
    return ok && tw_onnx_axis(n, given, n->in[0]->type->rank, axis);
}

/* ---- Reading ---- */

/* One index that is known: a slice, which fuses better than a gather. NULL when it is not so. */
static tw_value *gather_one(tw_onnx_node *n, unsigned axis)
{
    tw_gb *g = n->g;
    tw_value *x = n->in[0], *indices = n->in[1];
    tw_expr index;
    int64_t at, size;
    if (indices->type->rank != 0 || !tw_known_expr(g, indices, &index) ||
        !tw_expr_as_const(index, &at) || !tw_expr_as_const(x->type->dims[axis], &size))
        return NULL;
    at = at < 0 ? at + size : at;
    if (at < 0 || at >= size)
        return NULL;
    tw_value *slice = tw_gb_slice_axis(g, x, axis, tw_gb_const(g, at), 1, tw_gb_const(g, 1));
    return tw_gb_squeeze(g, slice, 1u << axis);
}

/* Known indices are checked now. */
static bool check_indices(tw_onnx_node *n, unsigned axis)
{
    size_t count;
    int64_t size;
    const int64_t *indices = tw_known_ints(n->g, n->in[1], &count);
    if (!indices || !tw_expr_as_const(n->in[0]->type->dims[axis], &size))
        return true;
    for (size_t i = 0; i < count; i++)
        if (indices[i] < -size || indices[i] >= size)
            return tw_onnx_error(n, "index %lld is out of range for axis %u of %s",
                                 (long long)indices[i], axis,
                                 tw_gb_type_text(n->g, n->in[0]->type));
    return true;
}

bool tw_onnx_op_gather(tw_onnx_node *n)
{
    unsigned axis;
    if (!read_axis(n, &axis) || !tw_onnx_check_elem(n, 1, TW_ONNX_INDICES) ||
        !check_indices(n, axis))
        return false;
    tw_value *one = gather_one(n, axis);
    return tw_onnx_set(n, 0, one ? one : tw_gb_gather(n->g, n->in[0], n->in[1], axis));
}

/* Indices reach no further than the data, save along the axis that they choose from. */
static bool check_within(tw_onnx_node *n, tw_type x, tw_type indices, unsigned axis)
{
    for (unsigned i = 0; i < x->rank; i++)
        if (i != axis && !tw_gb_check(n->g, tw_expr_sub(n->ctx, x->dims[i], indices->dims[i]),
                                      "indices %s are larger than data %s",
                                      tw_gb_type_text(n->g, indices), tw_gb_type_text(n->g, x)))
            return false;
    return true;
}

bool tw_onnx_op_gather_elements(tw_onnx_node *n)
{
    unsigned axis;
    tw_type x = n->in[0]->type, indices = n->in[1]->type;
    if (!read_axis(n, &axis) || !tw_onnx_check_elem(n, 1, TW_ONNX_INDICES))
        return false;
    if (indices->rank != x->rank)
        return tw_onnx_error(n, "data %s and indices %s must have the same rank",
                             tw_gb_type_text(n->g, x), tw_gb_type_text(n->g, indices));
    if (!check_within(n, x, indices, axis))
        return false;
    return tw_onnx_set(n, 0,
                       TW_GB_EMIT(n->g, GATHER_ELEMENTS, n->in, 2,
                                  like(n, indices->rank, indices->dims),
                                  {"axis", tw_attr_int(n->ctx, axis)}));
}

/* Indices that are tuples of that length. */
static tw_value *with_tuples(tw_onnx_node *n, tw_value *indices, int64_t tuple)
{
    tw_expr dims[TW_MAX_RANK];
    unsigned outer = indices->type->rank - 1;
    memcpy(dims, indices->type->dims, outer * sizeof *dims);
    dims[outer] = tw_gb_const(n->g, tuple);
    return tw_gb_conform(n->g, indices, dims);
}

bool tw_onnx_op_gather_nd(tw_onnx_node *n)
{
    bool ok = true;
    tw_type x = n->in[0]->type, indices = n->in[1]->type;
    int64_t batch = tw_onnx_int(n, "batch_dims", 0, &ok), tuple = 0;
    unsigned outer = indices->rank ? indices->rank - 1 : 0, declared = tw_onnx_declared_rank(n, 0);
    tw_expr dims[2 * TW_MAX_RANK];
    unsigned rank = 0;
    if (!ok || !tw_onnx_check_elem(n, 1, TW_ONNX_INDICES))
        return false;
    bool known = indices->rank > 0 && tw_expr_as_const(indices->dims[outer], &tuple);
    if (indices->rank > 0 && !known) {
        if (declared == UINT_MAX)
            return tw_onnx_error(n,
                                 "the number of dimensions of the result depends on the last size "
                                 "of the indices, %s, which must be known",
                                 tw_gb_type_text(n->g, indices));
        tuple = (int64_t)outer + x->rank - batch - declared;
    }
    if (indices->rank == 0 || batch < 0 || batch >= indices->rank || tuple < 0 ||
        batch + tuple > x->rank)
        return tw_onnx_error(n, "indices %s do not fit data %s", tw_gb_type_text(n->g, indices),
                             tw_gb_type_text(n->g, x));
    for (unsigned i = 0; i < batch; i++)
        if (!tw_gb_check_equal(n->g, x->dims[i], indices->dims[i], "batches of data and indices"))
            return false;
    tw_value *operands[2] = {n->in[0], with_tuples(n, n->in[1], tuple)};
    for (unsigned i = 0; i + 1 < indices->rank; i++)
        dims[rank++] = indices->dims[i];
    for (unsigned i = (unsigned)(batch + tuple); i < x->rank; i++)
        dims[rank++] = x->dims[i];
    if (rank > TW_MAX_RANK)
        return tw_onnx_error(n, "a tensor of more than %d dimensions", TW_MAX_RANK);
    return tw_onnx_set(n, 0,
                       TW_GB_EMIT(n->g, GATHER_ND, operands, 2, like(n, rank, dims),
                                  {"batch_dims", batch ? tw_attr_int(n->ctx, batch) : NULL}));
}

/* The elements where the condition, which must be known, holds. */
bool tw_onnx_op_compress(tw_onnx_node *n)
{
    bool ok = true;
    unsigned axis = 0;
    size_t count, kept = 0;
    tw_gb *g = n->g;
    tw_value *x = n->in[0];
    const int64_t *condition = tw_known_ints(g, n->in[1], &count);
    if (n->in[1]->type->rank != 1)
        return tw_onnx_error(n, "the condition is %s; a vector is needed",
                             tw_gb_type_text(g, n->in[1]->type));
    if (!tw_onnx_attr(n, "axis")) {
        tw_expr size = tw_gb_product(g, x->type->dims, x->type->rank);
        x = tw_gb_reshape(g, x, 1, &size);
    } else if (!tw_onnx_axis(n, tw_onnx_int(n, "axis", 0, &ok), x->type->rank, &axis) || !ok) {
        return false;
    }
    if (!x)
        return false;
    tw_expr size = x->type->dims[axis];
    if (!condition) {
        tw_expr dims[TW_MAX_RANK];
        tw_onnx_declared_dims(n, 0, x->type->rank, dims);
        tw_expr used = tw_expr_binary(n->ctx, TW_EXPR_MIN, n->in[1]->type->dims[0], size);
        tw_value *first = tw_gb_slice_axis(g, n->in[1], 0, tw_gb_const(g, 0), 1, used);
        return tw_onnx_set(n, 0, tw_gb_gather(g, x, tw_onnx_nonzero(n, first, dims[axis]), axis));
    }
    int64_t *indices = TW_NEW_ARRAY(n->im->arena, int64_t, count + 1);
    for (size_t i = 0; i < count && !(tw_expr_is_const(size) && (int64_t)i >= size->value); i++)
        if (condition[i])
            indices[kept++] = (int64_t)i;
    if (kept && !tw_gb_check(g, tw_expr_addc(n->ctx, size, -1 - indices[kept - 1]),
                             "the condition chooses element %lld of an axis of '%s'",
                             (long long)indices[kept - 1], tw_print_expr(n->ctx, size, NULL)))
        return false;
    return tw_onnx_set(n, 0, tw_gb_gather(g, x, tw_gb_ints(g, indices, kept), axis));
}

/* Positions of all elements that are not zero, and these as coordinates: one row an axis. */
bool tw_onnx_op_non_zero(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_value *x = n->in[0], *rows[TW_MAX_RANK];
    unsigned rank = x->type->rank;
    tw_expr hints[2], all = tw_gb_product(g, x->type->dims, rank);
    if (!tw_onnx_check_elem(n, 0, TW_ONNX_NUMBERS | 1 << TW_BOOL))
        return false;
    tw_onnx_declared_dims(n, 0, 2, hints);
    tw_value *at = tw_onnx_nonzero(n, tw_gb_reshape(g, x, 1, &all), hints[1]);
    if (!at)
        return false;
    if (rank == 0)
        return tw_onnx_set(
            n, 0, tw_gb_splat(g, TW_I64, 0, 2, (tw_expr[]){tw_gb_const(g, 0), at->type->dims[0]}));
    for (unsigned i = rank; i-- > 0;) {
        tw_value *size = tw_onnx_size_of(g, x, i);
        rows[i] = tw_gb_unsqueeze(g, i ? tw_gb_binary(g, TW_GRAPH_MOD, at, size) : at, 1);
        at = tw_gb_binary(g, TW_GRAPH_DIV, at, size);
    }
    return tw_onnx_set(n, 0, tw_gb_concat(g, rows, rank, 0));
}

/* Element t of a sequence of length s is read at t < s ? s - 1 - t : t. */
bool tw_onnx_op_reverse_sequence(tw_onnx_node *n)
{
    bool ok = true;
    tw_gb *g = n->g;
    tw_type x = n->in[0]->type;
    int64_t time = tw_onnx_int(n, "time_axis", 0, &ok),
            batch = tw_onnx_int(n, "batch_axis", 1, &ok);
    if (!ok)
        return false;
    if (x->rank < 2 || n->in[1]->type->rank != 1 || time + batch != 1 || time < 0 || batch < 0)
        return tw_onnx_error(n,
                             "time and batch must be axes 0 and 1 of the data, in any order, and "
                             "the lengths a vector");
    tw_expr one = tw_gb_const(g, 1), along[2], across[2];
    along[time] = x->dims[time], along[batch] = one;
    across[time] = one, across[batch] = x->dims[batch];
    tw_value *t = tw_gb_iota(g, TW_I64, 2, along, (unsigned)time);
    tw_value *s = tw_gb_reshape(g, tw_gb_cast(g, n->in[1], TW_I64), 2, across);
    tw_value *from = tw_gb_binary(g, TW_GRAPH_SUB, tw_gb_binary_scalar(g, TW_GRAPH_SUB, s, 1), t);
    tw_value *index = tw_gb_where(g, tw_gb_binary(g, TW_GRAPH_LESS, t, s), from, t);
    tw_expr dims[TW_MAX_RANK];
    for (unsigned i = 0; i < x->rank; i++)
        dims[i] = i < 2 ? x->dims[i] : one;
    index = tw_gb_expand(g, tw_gb_reshape(g, index, x->rank, dims), x->rank, x->dims);
    return tw_onnx_set(n, 0,
                       TW_GB_EMIT(g, GATHER_ELEMENTS, ((tw_value *[]){n->in[0], index}), 2, x,
                                  {"axis", tw_attr_int(n->ctx, time)}));
}

/* ---- Writing ---- */

static bool read_reduction(tw_onnx_node *n, tw_attr *out)
{
    bool ok = true;
    const char *name = tw_onnx_string(n, "reduction", "none", &ok);
    static const char *const known[] = {"none", "add", "mul", "max", "min"};
    *out = NULL;
    for (size_t i = 0; ok && i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i])) {
            *out = i ? tw_attr_string(n->ctx, name) : NULL;
            return true;
        }
    return ok && tw_onnx_error(n,
                               "attribute 'reduction' is '%s'; accepted are none, add, mul, max, "
                               "min",
                               name);
}

static bool check_updates(tw_onnx_node *n)
{
    return n->in[2]->type->elem == n->in[0]->type->elem ||
           tw_onnx_error(n, "the updates are %s, the data %s", tw_elem_name(n->in[2]->type->elem),
                         tw_elem_name(n->in[0]->type->elem));
}

/* Strings are written by their places. */
static bool scatter_text(tw_onnx_node *n, tw_onnx_handler handler)
{
    static const unsigned moved[2] = {0, 2};
    tw_attr reduction;
    if (!read_reduction(n, &reduction) || !check_updates(n))
        return false;
    if (reduction)
        return tw_onnx_error(n, "attribute 'reduction' is '%s', but the data are strings",
                             reduction->u.string.text);
    return tw_onnx_move_text(n, moved, 2, NULL, handler);
}

bool tw_onnx_op_scatter_elements(tw_onnx_node *n)
{
    if (n->in[0]->type->elem == TW_STRING)
        return scatter_text(n, tw_onnx_op_scatter_elements);
    unsigned axis;
    tw_attr reduction;
    tw_type x = n->in[0]->type, indices = n->in[1]->type, updates = n->in[2]->type;
    if (!read_axis(n, &axis) || !read_reduction(n, &reduction) || !check_updates(n) ||
        !tw_onnx_check_elem(n, 1, TW_ONNX_INDICES))
        return false;
    bool fits = indices->rank == x->rank && updates->rank == x->rank;
    for (unsigned i = 0; fits && i < x->rank; i++)
        fits = !tw_gb_differ(n->g, indices->dims[i], updates->dims[i]);
    if (!fits)
        return tw_onnx_error(n, "data %s, indices %s and updates %s do not fit",
                             tw_gb_type_text(n->g, x), tw_gb_type_text(n->g, indices),
                             tw_gb_type_text(n->g, updates));
    if (!check_within(n, x, indices, axis))
        return false;
    tw_value *operands[3] = {n->in[0], n->in[1], tw_gb_conform(n->g, n->in[2], indices->dims)};
    return tw_onnx_set(n, 0,
                       TW_GB_EMIT(n->g, SCATTER_ELEMENTS, operands, 3, x,
                                  {"axis", tw_attr_int(n->ctx, axis)}, {"reduction", reduction}));
}

bool tw_onnx_op_scatter_nd(tw_onnx_node *n)
{
    if (n->in[0]->type->elem == TW_STRING)
        return scatter_text(n, tw_onnx_op_scatter_nd);
    tw_attr reduction;
    tw_gb *g = n->g;
    tw_type x = n->in[0]->type, indices = n->in[1]->type, updates = n->in[2]->type;
    int64_t tuple = 0;
    tw_expr dims[2 * TW_MAX_RANK];
    unsigned rank = 0, outer = indices->rank ? indices->rank - 1 : 0;
    if (!read_reduction(n, &reduction) || !check_updates(n) ||
        !tw_onnx_check_elem(n, 1, TW_ONNX_INDICES))
        return false;
    /* How long the tuples are follows from the ranks. */
    tuple = (int64_t)x->rank + outer - updates->rank;
    bool fits = indices->rank > 0 && tuple >= 0 && tuple <= x->rank &&
                !tw_gb_differ(g, indices->dims[outer], tw_gb_const(g, tuple));
    for (unsigned i = 0; fits && i < outer; i++)
        dims[rank++] = indices->dims[i];
    for (unsigned i = (unsigned)tuple; fits && i < x->rank; i++)
        dims[rank++] = x->dims[i];
    fits = fits && rank == updates->rank;
    for (unsigned i = 0; fits && i < rank; i++)
        fits = !tw_gb_differ(g, dims[i], updates->dims[i]);
    if (!fits)
        return tw_onnx_error(n, "data %s, indices %s and updates %s do not fit",
                             tw_gb_type_text(g, x), tw_gb_type_text(g, indices),
                             tw_gb_type_text(g, updates));
    tw_value *operands[3] = {n->in[0], with_tuples(n, n->in[1], tuple),
                             tw_gb_conform(g, n->in[2], dims)};
    return tw_onnx_set(n, 0, TW_GB_EMIT(g, SCATTER_ND, operands, 3, x, {"reduction", reduction}));
}

/* A cache whose entries from a place on (one for each batch) are replaced; circular: going on at
 * the start. */
bool tw_onnx_op_tensor_scatter(tw_onnx_node *n)
{
    bool ok = true;
    unsigned axis;
    tw_gb *g = n->g;
    tw_type x = n->in[0]->type, update = n->in[1]->type;
    tw_expr along[TW_MAX_RANK], batch[TW_MAX_RANK];
    int64_t given = tw_onnx_int(n, "axis", -2, &ok);
    const char *mode = tw_onnx_string(n, "mode", "linear", &ok);
    if (!ok || !tw_onnx_axis(n, given, x->rank, &axis))
        return false;
    bool circular = !strcmp(mode, "circular"),
         fits = update->rank == x->rank && axis > 0 && update->elem == x->elem;
    for (unsigned i = 0; fits && i < x->rank; i++) {
        fits = i == axis || !tw_gb_differ(g, update->dims[i], x->dims[i]);
        along[i] = i == axis ? update->dims[i] : tw_gb_const(g, 1);
        batch[i] = i == 0 ? x->dims[0] : tw_gb_const(g, 1);
    }
    if (!fits || (!circular && strcmp(mode, "linear")))
        return tw_onnx_error(n,
                             "cache %s and update %s do not fit, or the mode '%s' is neither "
                             "linear nor circular",
                             tw_gb_type_text(g, x), tw_gb_type_text(g, update), mode);
    for (unsigned i = 0; i < x->rank; i++)
        if (i != axis && !tw_gb_check_equal(g, x->dims[i], update->dims[i], "cache and update"))
            return false;
    tw_value *index = tw_gb_iota(g, TW_I64, x->rank, along, axis);
    if (tw_onnx_in(n, 2))
        index = tw_gb_binary(g, TW_GRAPH_ADD, index,
                             tw_gb_reshape(g, tw_gb_cast(g, n->in[2], TW_I64), x->rank, batch));
    if (circular) {
        tw_type one = tw_type_tensor_static(n->ctx, TW_I64, 1, (int64_t[]){1});
        tw_value *size = TW_GB_EMIT(g, SHAPE, n->in, 1, one, {"start", tw_attr_int(n->ctx, axis)},
                                    {"end", tw_attr_int(n->ctx, axis + 1)});
        index = tw_gb_binary(g, TW_GRAPH_MOD, index, tw_gb_reshape(g, size, 0, NULL));
    }
    index = tw_gb_expand(g, index, x->rank, update->dims);
    tw_value *operands[3] = {n->in[0], index, n->in[1]};
    return tw_onnx_set(
        n, 0, TW_GB_EMIT(g, SCATTER_ELEMENTS, operands, 3, x, {"axis", tw_attr_int(n->ctx, axis)}));
}
