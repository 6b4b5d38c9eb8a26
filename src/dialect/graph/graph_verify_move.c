/* graph_verify_move.c: rules of the graph operations that move data. */
#include "dialect/graph/graph_verify_impl.h"

#include "base/checked.h"

static bool same_elem(const tw_graph_check *c)
{
    return tw_gv_expect_elem(c, "the result", tw_gv_out(c, 0), tw_gv_in(c, 0)->elem);
}

static bool check_shape_of(const tw_graph_check *c)
{
    int64_t rank = tw_gv_in(c, 0)->rank;
    int64_t start = tw_op_int(c->op, "start", 0), end = tw_op_int(c->op, "end", rank);
    if (start < 0 || end > rank || start > end)
        return tw_gv_error(c, "axes %lld to %lld are not among the %lld axes", (long long)start,
                           (long long)end, (long long)rank);
    return tw_gv_expect_elem(c, "the result", tw_gv_out(c, 0), TW_I64) &&
           tw_gv_expect_sizes(c, "the result", tw_gv_out(c, 0), 1, (int64_t[]){end - start});
}

static bool check_reshape(const tw_graph_check *c)
{
    int64_t in, out;
    bool known =
        tw_type_static_count(tw_gv_in(c, 0), &in) && tw_type_static_count(tw_gv_out(c, 0), &out);
    if (known && in != out)
        return tw_gv_error(c, "%s has not as many elements as %s",
                           tw_print_type(c->ctx, tw_gv_out(c, 0)),
                           tw_print_type(c->ctx, tw_gv_in(c, 0)));
    if (tw_op_bool(c->op, "same_sizes", false) && tw_gv_in(c, 0)->rank != tw_gv_out(c, 0)->rank)
        return tw_gv_error(c, "same_sizes needs as many axes in %s as in %s",
                           tw_print_type(c->ctx, tw_gv_out(c, 0)),
                           tw_print_type(c->ctx, tw_gv_in(c, 0)));
    return same_elem(c);
}

static bool check_words(const tw_graph_check *c)
{
    tw_type in = tw_gv_in(c, 0);
    int64_t sizes[TW_MAX_RANK];
    if ((in->elem != TW_U8 && in->elem != TW_I8) || !in->rank)
        return tw_gv_error(c, "the operand is %s, not a tensor of bytes",
                           tw_print_type(c->ctx, in));
    for (unsigned i = 0; i < in->rank; i++)
        sizes[i] = tw_gv_size(in, i);
    int64_t *last = &sizes[in->rank - 1];
    if (*last != TW_UNKNOWN_SIZE) {
        if (*last % 4)
            return tw_gv_error(c, "the last axis of %s is not made of whole words",
                               tw_print_type(c->ctx, in));
        *last /= 4;
    }
    return tw_gv_expect_elem(c, "the result", tw_gv_out(c, 0), TW_I32) &&
           tw_gv_expect_sizes(c, "the result", tw_gv_out(c, 0), in->rank, sizes);
}

static bool check_transpose(const tw_graph_check *c)
{
    tw_type in = tw_gv_in(c, 0);
    int64_t perm[TW_MAX_RANK], sizes[TW_MAX_RANK];
    unsigned seen = 0;
    if (!tw_gv_ints(c, "perm", in->rank, perm))
        return false;
    for (unsigned i = 0; i < in->rank; i++) {
        if (perm[i] < 0 || perm[i] >= in->rank || seen >> perm[i] & 1)
            return tw_gv_error(c, "'perm' names each axis once");
        seen |= 1u << perm[i];
        sizes[i] = tw_gv_size(in, (unsigned)perm[i]);
    }
    return same_elem(c) && tw_gv_expect_sizes(c, "the result", tw_gv_out(c, 0), in->rank, sizes);
}

static bool check_expand(const tw_graph_check *c)
{
    tw_type in = tw_gv_in(c, 0), out = tw_gv_out(c, 0);
    bool good = in->rank <= out->rank;
    for (unsigned i = 0; good && i < in->rank; i++) {
        int64_t from = tw_gv_size(in, i), to = tw_gv_size(out, out->rank - in->rank + i);
        good = from == 1 || tw_gv_sizes_fit(from, to);
    }
    if (!good)
        return tw_gv_error(c, "%s does not broadcast to %s", tw_print_type(c->ctx, in),
                           tw_print_type(c->ctx, out));
    return same_elem(c);
}

static bool check_slice(const tw_graph_check *c)
{
    tw_type in = tw_gv_in(c, 0), out = tw_gv_out(c, 0);
    int64_t starts[TW_MAX_RANK], steps[TW_MAX_RANK];
    bool known[TW_MAX_RANK];
    if (!tw_gv_ints_or_exprs(c, "starts", in->rank, starts, known) ||
        !tw_gv_ints(c, "steps", in->rank, steps) ||
        !tw_gv_expect_rank(c, "the result", out, in->rank, in->rank))
        return false;
    for (unsigned i = 0; i < in->rank; i++) {
        int64_t size = tw_gv_size(in, i), n = tw_gv_size(out, i), last;
        if (!steps[i])
            return tw_gv_error(c, "step 0 on axis %u", i);
        if (!known[i] || n == 0 || n == TW_UNKNOWN_SIZE || size == TW_UNKNOWN_SIZE)
            continue;
        if (!tw_mul_i64(n - 1, steps[i], &last) || !tw_add_i64(starts[i], last, &last) ||
            starts[i] < 0 || starts[i] >= size || last < 0 || last >= size)
            return tw_gv_error(c, "%lld elements from %lld in steps of %lld leave axis %u of %s",
                               (long long)n, (long long)starts[i], (long long)steps[i], i,
                               tw_print_type(c->ctx, in));
    }
    return same_elem(c);
}

static bool check_concat(const tw_graph_check *c)
{
    tw_type first = tw_gv_in(c, 0);
    int64_t sizes[TW_MAX_RANK], sum = 0;
    unsigned axis, rank = first->rank;
    if (!tw_gv_axis(c, rank, &axis))
        return false;
    for (unsigned i = 0; i < rank; i++)
        sizes[i] = TW_UNKNOWN_SIZE;
    for (unsigned k = 0; k < c->op->n_operands; k++) {
        tw_type in = tw_gv_in(c, k);
        sizes[axis] = TW_UNKNOWN_SIZE;
        if (!tw_gv_expect_elem(c, "an operand", in, first->elem) ||
            !tw_gv_expect_sizes(c, "an operand", in, rank, sizes))
            return false;
        int64_t size = tw_gv_size(in, axis);
        if (sum != TW_UNKNOWN_SIZE && (size == TW_UNKNOWN_SIZE || !tw_add_i64(sum, size, &sum)))
            sum = TW_UNKNOWN_SIZE;
        for (unsigned i = 0; i < rank; i++)
            sizes[i] = sizes[i] == TW_UNKNOWN_SIZE ? tw_gv_size(in, i) : sizes[i];
    }
    sizes[axis] = sum;
    return same_elem(c) && tw_gv_expect_sizes(c, "the result", tw_gv_out(c, 0), rank, sizes);
}

static bool check_pad(const tw_graph_check *c)
{
    tw_type in = tw_gv_in(c, 0);
    int64_t begin[TW_MAX_RANK], end[TW_MAX_RANK], sizes[TW_MAX_RANK];
    bool known_begin[TW_MAX_RANK], known_end[TW_MAX_RANK];
    if (!tw_gv_ints_or_exprs(c, "pads_begin", in->rank, begin, known_begin) ||
        !tw_gv_ints_or_exprs(c, "pads_end", in->rank, end, known_end) ||
        !tw_gv_word(c, "mode", "constant reflect edge wrap"))
        return false;
    for (unsigned i = 0; i < in->rank; i++) {
        sizes[i] = tw_gv_size(in, i);
        if (sizes[i] != TW_UNKNOWN_SIZE &&
            (!tw_add_i64(sizes[i], begin[i], &sizes[i]) ||
             !tw_add_i64(sizes[i], end[i], &sizes[i]) || sizes[i] < 0))
            return tw_gv_error(c, "the padding of axis %u leaves no size of at least 0", i);
    }
    if (c->op->n_operands > 1 &&
        (!tw_gv_expect_elem(c, "the padding value", tw_gv_in(c, 1), in->elem) ||
         !tw_gv_expect_rank(c, "the padding value", tw_gv_in(c, 1), 0, 0)))
        return false;
    return same_elem(c) && tw_gv_expect_sizes(c, "the result", tw_gv_out(c, 0), in->rank, sizes);
}

static bool check_tile(const tw_graph_check *c)
{
    tw_type in = tw_gv_in(c, 0);
    int64_t repeats[TW_MAX_RANK], sizes[TW_MAX_RANK];
    if (!tw_gv_ints(c, "repeats", in->rank, repeats))
        return false;
    for (unsigned i = 0; i < in->rank; i++) {
        sizes[i] = tw_gv_size(in, i);
        if (repeats[i] < 0)
            return tw_gv_error(c, "'repeats' holds numbers of at least 0");
        if (sizes[i] != TW_UNKNOWN_SIZE && !tw_mul_i64(sizes[i], repeats[i], &sizes[i]))
            return tw_gv_error(c, "axis %u becomes too large", i);
    }
    return same_elem(c) && tw_gv_expect_sizes(c, "the result", tw_gv_out(c, 0), in->rank, sizes);
}

/* ---- Indices ---- */

static bool check_gather(const tw_graph_check *c)
{
    tw_type in = tw_gv_in(c, 0), indices = tw_gv_in(c, 1);
    int64_t sizes[2 * TW_MAX_RANK];
    unsigned axis, n = 0;
    if (!tw_gv_axis(c, in->rank, &axis) || !tw_gv_expect_integer(c, "the indices", indices))
        return false;
    for (unsigned i = 0; i < in->rank; i++)
        if (i != axis)
            sizes[n++] = tw_gv_size(in, i);
        else
            for (unsigned k = 0; k < indices->rank; k++)
                sizes[n++] = tw_gv_size(indices, k);
    return same_elem(c) && tw_gv_expect_sizes(c, "the result", tw_gv_out(c, 0), n, sizes);
}

static bool check_gather_elements(const tw_graph_check *c)
{
    tw_type in = tw_gv_in(c, 0), indices = tw_gv_in(c, 1);
    int64_t sizes[TW_MAX_RANK];
    unsigned axis;
    if (!tw_gv_axis(c, in->rank, &axis) || !tw_gv_expect_integer(c, "the indices", indices) ||
        !tw_gv_expect_rank(c, "the indices", indices, in->rank, in->rank))
        return false;
    for (unsigned i = 0; i < in->rank; i++)
        sizes[i] = tw_gv_size(indices, i);
    return same_elem(c) && tw_gv_expect_sizes(c, "the result", tw_gv_out(c, 0), in->rank, sizes);
}

static bool check_gather_nd(const tw_graph_check *c)
{
    tw_type in = tw_gv_in(c, 0), indices = tw_gv_in(c, 1);
    int64_t sizes[2 * TW_MAX_RANK], batch = tw_op_int(c->op, "batch_dims", 0);
    unsigned n = 0;
    if (!tw_gv_expect_integer(c, "the indices", indices) ||
        !tw_gv_expect_rank(c, "the indices", indices, 1, TW_MAX_RANK))
        return false;
    int64_t tuple = tw_gv_size(indices, indices->rank - 1);
    if (batch < 0 || batch >= indices->rank || batch > in->rank || tuple > in->rank - batch)
        return tw_gv_error(c, "tuples of %lld indices after %lld batch axes do not fit %s",
                           (long long)tuple, (long long)batch, tw_print_type(c->ctx, in));
    if (tuple == TW_UNKNOWN_SIZE)
        return same_elem(c);
    for (unsigned i = 0; i + 1 < indices->rank; i++)
        sizes[n++] = tw_gv_size(indices, i);
    for (unsigned i = (unsigned)(batch + tuple); i < in->rank; i++)
        sizes[n++] = tw_gv_size(in, i);
    return same_elem(c) && tw_gv_expect_sizes(c, "the result", tw_gv_out(c, 0), n, sizes);
}

static bool check_scatter(const tw_graph_check *c)
{
    tw_type in = tw_gv_in(c, 0), indices = tw_gv_in(c, 1), updates = tw_gv_in(c, 2);
    unsigned axis;
    bool elements = tw_is_graph(c->op, TW_GRAPH_SCATTER_ELEMENTS);
    if (elements && (!tw_gv_axis(c, in->rank, &axis) ||
                     !tw_gv_expect_rank(c, "the indices", indices, in->rank, in->rank) ||
                     !tw_gv_expect_rank(c, "the updates", updates, in->rank, in->rank)))
        return false;
    return tw_gv_expect_integer(c, "the indices", indices) &&
           tw_gv_expect_elem(c, "the updates", updates, in->elem) &&
           tw_gv_word(c, "reduction", "none add mul max min") && tw_gv_expect_result_like(c, 0);
}

/* ---- Made from nothing, or from coordinates ---- */

static bool check_iota(const tw_graph_check *c)
{
    unsigned axis;
    return tw_gv_axis(c, tw_gv_out(c, 0)->rank, &axis);
}

static bool check_range(const tw_graph_check *c)
{
    for (unsigned i = 0; i < 3; i++)
        if (!tw_gv_expect_rank(c, "an operand", tw_gv_in(c, i), 0, 0) ||
            !tw_gv_expect_elem(c, "an operand", tw_gv_in(c, i), tw_gv_out(c, 0)->elem))
            return false;
    return tw_gv_expect_rank(c, "the result", tw_gv_out(c, 0), 1, 1);
}

static bool check_resize(const tw_graph_check *c)
{
    tw_type in = tw_gv_in(c, 0);
    tw_attr scales = tw_op_attr(c->op, "scales"), roi = tw_op_attr(c->op, "roi");
    if (scales->u.array.n != in->rank || (roi && roi->u.array.n != 2u * in->rank))
        return tw_gv_error(c, "'scales' needs %u numbers, 'roi' twice as many", in->rank);
    for (unsigned i = 0; i < in->rank; i++)
        if (scales->u.array.items[i]->kind != TW_ATTR_FLOAT)
            return tw_gv_error(c, "'scales' needs floating-point numbers");
    return tw_gv_word(c, "mode", "nearest linear cubic") &&
           tw_gv_word(c, "coordinates",
                      "half_pixel half_pixel_symmetric pytorch_half_pixel align_corners "
                      "asymmetric tf_crop_and_resize") &&
           tw_gv_word(c, "nearest", "round_prefer_floor round_prefer_ceil floor ceil") &&
           tw_gv_expect_rank(c, "the result", tw_gv_out(c, 0), in->rank, in->rank) && same_elem(c);
}

static bool check_trilu(const tw_graph_check *c)
{
    return tw_gv_expect_rank(c, "the operand", tw_gv_in(c, 0), 2, TW_MAX_RANK) &&
           tw_gv_expect_result_like(c, 0);
}

tw_graph_rule tw_graph_movement_rule(tw_graph_kind kind)
{
    static const tw_graph_rule rules[TW_GRAPH_COUNT] = {
        [TW_GRAPH_SHAPE] = check_shape_of,
        [TW_GRAPH_RESHAPE] = check_reshape,
        [TW_GRAPH_WORDS] = check_words,
        [TW_GRAPH_TRANSPOSE] = check_transpose,
        [TW_GRAPH_EXPAND] = check_expand,
        [TW_GRAPH_SLICE] = check_slice,
        [TW_GRAPH_CONCAT] = check_concat,
        [TW_GRAPH_PAD] = check_pad,
        [TW_GRAPH_TILE] = check_tile,
        [TW_GRAPH_GATHER] = check_gather,
        [TW_GRAPH_GATHER_ELEMENTS] = check_gather_elements,
        [TW_GRAPH_GATHER_ND] = check_gather_nd,
        [TW_GRAPH_SCATTER_ELEMENTS] = check_scatter,
        [TW_GRAPH_SCATTER_ND] = check_scatter,
        [TW_GRAPH_IOTA] = check_iota,
        [TW_GRAPH_RANGE] = check_range,
        [TW_GRAPH_RESIZE] = check_resize,
        [TW_GRAPH_TRILU] = check_trilu,
    };
    return kind < TW_GRAPH_COUNT ? rules[kind] : NULL;
}
