/* canonicalize_ops.c: rewrites of casts, reductions, pools, convolutions and products. */
#include "transform/canonicalize.h"

#include "base/checked.h"
#include "dialect/graph/data_axes.h"
#include "transform/build.h"
#include "transform/constants.h"

#include <math.h>
#include <string.h>

bool tw_canon_constant_right(tw_rewriter *rw, tw_op *op)
{
    tw_value *a = tw_operand(op, 0), *b = tw_operand(op, 1);
    if (!tw_graph_constant_value(a) || tw_graph_constant_value(b))
        return false;
    tw_op_set_operand(op, 0, b);
    tw_op_set_operand(op, 1, a);
    tw_rw_changed(rw, op);
    return true;
}

/* ---- cast ---- */

/* Bits of precision and of exponent range that an element type has. */
static void precision(tw_elem e, unsigned *digits, unsigned *range)
{
    static const struct {
        unsigned digits, range;
    } floats[] = {
        [TW_F64] = {53, 1024},    [TW_F32] = {24, 128},      [TW_F16] = {11, 15},
        [TW_BF16] = {8, 127},     [TW_F8E4M3FN] = {4, 8},    [TW_F8E5M2] = {3, 15},
        [TW_F8E4M3FNUZ] = {4, 8}, [TW_F8E5M2FNUZ] = {3, 15}, [TW_F8E8M0FNU] = {1, 127},
        [TW_F4E2M1FN] = {2, 2},
    };
    if (tw_elem_is_float(e)) {
        *digits = floats[e].digits;
        *range = floats[e].range;
    } else {
        *digits = *range = e == TW_BOOL ? 1 : tw_elem_bits(e) - tw_elem_is_signed(e);
    }
}

/* Formats that lack some of -0, infinities and NaN, or reach further down than their width tells.
 */
static bool is_odd(tw_elem e)
{
    return e == TW_F8E4M3FNUZ || e == TW_F8E5M2FNUZ || e == TW_F8E8M0FNU || e == TW_F4E2M1FN;
}

/* Whether every value of `from` survives a cast to `to`. */
static bool is_lossless(tw_elem from, tw_elem to)
{
    unsigned from_digits, from_range, to_digits, to_range;
    if (from == TW_STRING || to == TW_STRING || to == TW_BOOL)
        return from == to;
    if (is_odd(to) || (is_odd(from) && tw_elem_bits(to) <= 8))
        return from == to;
    bool from_float = tw_elem_is_float(from), to_float = tw_elem_is_float(to);
    if ((from_float && !to_float) ||
        (!from_float && !to_float && tw_elem_is_signed(from) && !tw_elem_is_signed(to)))
        return false;
    if (from_float && (from == TW_F16 || from == TW_F8E5M2) && to == TW_BF16)
        return from == TW_F8E5M2; /* bf16 has the range but not f16's digits */
    precision(from, &from_digits, &from_range);
    precision(to, &to_digits, &to_range);
    bool has_infinity = from_float && from != TW_F8E4M3FN;
    return from_digits <= to_digits && from_range <= to_range &&
           !(has_infinity && to == TW_F8E4M3FN);
}

/* The second cast sees the same value either way. For bitcasts nothing is ever lost. */
bool tw_canon_cast_cast(tw_rewriter *rw, tw_op *op)
{
    const tw_op *inner = tw_operand(op, 0)->op;
    if (!inner || inner->def != op->def)
        return false;
    tw_value *x = tw_operand(inner, 0);
    tw_elem middle = op->operands[0].value->type->elem;
    bool bits = tw_is_graph(op, TW_GRAPH_BITCAST);
    if (!bits && !is_lossless(x->type->elem, middle))
        return false;
    if (x->type == op->results[0].type)
        return tw_canon_replace(rw, op, x);
    tw_op_set_operand(op, 0, x);
    tw_rw_changed(rw, op);
    return true;
}

/* ---- Reductions and pools ---- */

bool tw_canon_reduce_unit(tw_rewriter *rw, tw_op *op)
{
    tw_value *x = tw_operand(op, 0);
    tw_expr one = tw_expr_const(tw_rw_context(rw), 1);
    int64_t axes[TW_MAX_RANK];
    int n = tw_op_ints(op, "axes", axes, TW_MAX_RANK);
    for (int i = 0; i < n; i++)
        if (x->type->dims[axes[i]] != one)
            return false;
    return tw_canon_replace(
        rw, op,
        tw_graph_build(tw_rw_builder(rw, op), TW_GRAPH_RESHAPE, &x, 1, op->results[0].type, NULL));
}

/* reduce(transpose(x)): the reduced axes are axes of x; the others must keep their order. */
bool tw_canon_reduce_transpose(tw_rewriter *rw, tw_op *op)
{
    const tw_op *transpose = tw_operand(op, 0)->op;
    int64_t perm[TW_MAX_RANK], axes[TW_MAX_RANK], own[TW_MAX_RANK], last = -1;
    uint32_t reduced = 0;
    if (!transpose || !tw_is_graph(transpose, TW_GRAPH_TRANSPOSE) ||
        tw_op_bool(op, "keepdims", false))
        return false;
    int rank = tw_op_ints(transpose, "perm", perm, TW_MAX_RANK), n_own = 0;
    int n = tw_op_ints(op, "axes", axes, TW_MAX_RANK);
    for (int i = 0; i < n; i++)
        reduced |= 1u << perm[axes[i]];
    for (int i = 0; i < rank; i++) {
        if (reduced >> perm[i] & 1)
            continue;
        if (perm[i] < last)
            return false;
        last = perm[i];
    }
    for (int i = 0; i < rank; i++)
        if (reduced >> i & 1)
            own[n_own++] = i;
    tw_op_set_operand(op, 0, tw_operand(transpose, 0));
    tw_op_set_attr(op, "axes", tw_attr_ints(tw_rw_context(rw), own, (size_t)n_own));
    tw_rw_changed(rw, op);
    return true;
}

static bool all_equal(tw_context *ctx, const tw_op *op, const char *name, int64_t value)
{
    tw_expr v[TW_MAX_RANK];
    int n = tw_graph_exprs(ctx, op, name, v, TW_MAX_RANK);
    for (int i = 0; i < n; i++)
        if (v[i] != tw_expr_const(ctx, value))
            return false;
    return true;
}

bool tw_canon_pool_unit(tw_rewriter *rw, tw_op *op)
{
    tw_context *ctx = tw_rw_context(rw);
    return all_equal(ctx, op, "kernel", 1) && all_equal(ctx, op, "strides", 1) &&
           all_equal(ctx, op, "pads_begin", 0) && all_equal(ctx, op, "pads_end", 0) &&
           op->results[0].type == tw_operand(op, 0)->type &&
           tw_canon_replace(rw, op, tw_operand(op, 0));
}

/* ---- Convolutions and products ---- */

static bool pads_with_zero(const tw_op *pad)
{
    tw_elem elem;
    double value = 0;
    return !strcmp(tw_op_string(pad, "mode", "constant"), "constant") &&
           (pad->n_operands < 2 ||
            (tw_constant_splat(tw_operand(pad, 1), &elem, &value) && value == 0));
}

/* The sum of the pads on one side of the convolution and the pad before it; NULL when the pad
 * crops or touches the batch or channel axis. */
static tw_attr joint_pads(tw_context *ctx, const tw_op *conv, const tw_op *pad, const char *name)
{
    tw_expr own[TW_MAX_RANK], before[TW_MAX_RANK], zero = tw_expr_const(ctx, 0);
    int spatial = tw_graph_exprs(ctx, conv, name, own, TW_MAX_RANK);
    int rank = tw_graph_exprs(ctx, pad, name, before, TW_MAX_RANK);
    int first = (int)tw_data_axes_of(tw_operand(conv, 0)->type).space;
    for (int i = 0; i < rank; i++)
        if (!tw_expr_at_least(ctx, before[i], 0, NULL, 0) ||
            ((i < first || i >= first + spatial) && before[i] != zero))
            return NULL;
    for (int i = 0; i < spatial; i++) {
        own[i] = tw_expr_add(ctx, own[i], before[first + i]);
        if (own[i]->kind == TW_EXPR_INVALID)
            return NULL;
    }
    return tw_graph_exprs_attr(ctx, own, (unsigned)spatial);
}

bool tw_canon_conv_pad(tw_rewriter *rw, tw_op *op)
{
    const tw_op *pad = tw_operand(op, 0)->op;
    if (!pad || !tw_is_graph(pad, TW_GRAPH_PAD) || !pads_with_zero(pad))
        return false;
    tw_attr begin = joint_pads(tw_rw_context(rw), op, pad, "pads_begin");
    tw_attr end = joint_pads(tw_rw_context(rw), op, pad, "pads_end");
    if (!begin || !end)
        return false;
    tw_op_set_operand(op, 0, tw_operand(pad, 0));
    tw_op_set_attr(op, "pads_begin", begin);
    tw_op_set_attr(op, "pads_end", end);
    tw_rw_changed(rw, op);
    return true;
}

/* Whether no window reaches beyond the data and the pads of the pad before it. */
static bool fits_exactly(const tw_op *pool)
{
    int64_t kernel[TW_MAX_RANK], strides[TW_MAX_RANK], dilations[TW_MAX_RANK], in, out;
    unsigned first = tw_data_axes_of(tw_operand(pool, 0)->type).space;
    int spatial = tw_op_ints(pool, "kernel", kernel, TW_MAX_RANK);
    tw_op_ints(pool, "strides", strides, TW_MAX_RANK);
    tw_op_ints(pool, "dilations", dilations, TW_MAX_RANK);
    for (int i = 0; i < spatial; i++)
        if (!tw_expr_as_const(tw_operand(pool, 0)->type->dims[first + (unsigned)i], &in) ||
            !tw_expr_as_const(pool->results[0].type->dims[first + (unsigned)i], &out) ||
            (out - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 > in)
            return false;
    return true;
}

/* Lowest values before a max_pool, in any sum with its own pads; zeros before an avg_pool that has
 * no pads, so that each window counts all its elements. */
bool tw_canon_pool_pad(tw_rewriter *rw, tw_op *op)
{
    tw_context *ctx = tw_rw_context(rw);
    const tw_op *pad = tw_operand(op, 0)->op;
    bool largest = tw_is_graph(op, TW_GRAPH_MAX_POOL);
    tw_elem elem;
    double value;
    if (!pad || !tw_is_graph(pad, TW_GRAPH_PAD))
        return false;
    if (largest
            ? strcmp(tw_op_string(pad, "mode", "constant"), "constant") != 0 ||
                  pad->n_operands < 2 || !tw_constant_splat(tw_operand(pad, 1), &elem, &value) ||
                  !tw_elem_is_float(elem) || value != -INFINITY
            : !pads_with_zero(pad) || !all_equal(ctx, op, "pads_begin", 0) ||
                  !all_equal(ctx, op, "pads_end", 0) || !fits_exactly(op))
        return false;
    tw_attr begin = joint_pads(ctx, op, pad, "pads_begin");
    tw_attr end = joint_pads(ctx, op, pad, "pads_end");
    if (!begin || !end)
        return false;
    tw_op_set_operand(op, 0, tw_operand(pad, 0));
    tw_op_set_attr(op, "pads_begin", begin);
    tw_op_set_attr(op, "pads_end", end);
    if (!largest)
        tw_op_set_attr(op, "count_pad", tw_attr_bool(ctx, true));
    tw_rw_changed(rw, op);
    return true;
}

/* Whether the transpose swaps the last two axes and keeps the others. */
static bool swaps_last_two(const tw_op *transpose)
{
    int64_t perm[TW_MAX_RANK];
    int n = tw_op_ints(transpose, "perm", perm, TW_MAX_RANK);
    for (int i = 0; i < n - 2; i++)
        if (perm[i] != i)
            return false;
    return n >= 2 && perm[n - 2] == n - 1;
}

bool tw_canon_matmul_transpose(tw_rewriter *rw, tw_op *op)
{
    static const char *const names[] = {"transpose_a", "transpose_b"};
    if (tw_op_attr(op, "b_panel"))
        return false;
    for (unsigned i = 0; i < 2; i++) {
        const tw_op *t = tw_operand(op, i)->op;
        if (!t || !tw_is_graph(t, TW_GRAPH_TRANSPOSE) || !swaps_last_two(t))
            continue;
        bool flag = !tw_op_bool(op, names[i], false);
        tw_op_set_operand(op, i, tw_operand(t, 0));
        tw_op_set_attr(op, names[i], flag ? tw_attr_bool(tw_rw_context(rw), true) : NULL);
        tw_rw_changed(rw, op);
        return true;
    }
    return false;
}

/* ---- A product as a convolution ---- */

/* For a product's second operand [N, C, S] or [C, S] the value [N, C, space…] whose axes of space
 * are S, which may be reshaped to it before `b`'s place. */
static tw_value *with_space(tw_builder *b, tw_value *y)
{
    tw_type type = y->type;
    const tw_op *reshape = y->op && tw_is_graph(y->op, TW_GRAPH_RESHAPE) ? y->op : NULL;
    tw_value *x = reshape ? tw_operand(reshape, 0) : y;
    tw_expr one = tw_expr_const(b->ctx, 1), dims[TW_MAX_RANK];
    tw_expr batch = type->rank == 3 ? type->dims[0] : one, channels = type->dims[type->rank - 2];
    int64_t space = 1, size, merged;
    for (unsigned i = 2; i < x->type->rank; i++)
        if (!tw_expr_as_const(x->type->dims[i], &size) || !tw_mul_i64(space, size, &space))
            space = -1;
    if (x->type->rank >= 3 && x->type->dims[0] == batch && x->type->dims[1] == channels &&
        !x->type->layout && tw_expr_as_const(type->dims[type->rank - 1], &merged) &&
        merged == space)
        return x;
    dims[0] = batch;
    dims[1] = channels;
    dims[2] = type->dims[type->rank - 1];
    return tw_build_reshape(b, y, 3, dims);
}

/* Constant weights on the left are no weights that the product's kernels know to pack; a
 * convolution of single elements packs them. With one thread on AVX-512, 1024 x 256 at 14 x 14
 * positions takes 0.59 ms instead of 2.0, 1280 x 1000 at one 0.04 instead of 0.85. With more
 * positions than channels it is slower by itself, since data go to channels last and back. The
 * other way nothing is gained: with its channels last a convolution of single elements takes as
 * long as the product. */
bool tw_canon_matmul_conv(tw_rewriter *rw, tw_op *op)
{
    tw_value *w = tw_operand(op, 0), *y = tw_operand(op, 1);
    int64_t in, out, positions;
    if (w->type->rank != 2 || y->type->rank < 2 || y->type->rank > 3 || op->n_attrs ||
        y->type->layout || !tw_elem_is_float(y->type->elem) || !tw_depends_on_constants(w) ||
        tw_depends_on_constants(y) || !tw_expr_as_const(w->type->dims[0], &out) ||
        !tw_expr_as_const(w->type->dims[1], &in) ||
        !tw_expr_as_const(y->type->dims[y->type->rank - 1], &positions) || positions == 0 ||
        in == 0 || (in + out) / 5 * 4 < positions)
        return false;
    tw_builder *b = tw_rw_builder(rw, op);
    tw_value *x = with_space(b, y);
    int64_t ones[TW_MAX_RANK], zeros[TW_MAX_RANK] = {0};
    tw_expr dims[TW_MAX_RANK], weights[TW_MAX_RANK];
    unsigned rank = x->type->rank, space = rank - 2;
    for (unsigned i = 0; i < rank; i++) {
        ones[i] = 1;
        dims[i] = i == 1 ? w->type->dims[0] : x->type->dims[i];
        weights[i] = i < 2 ? w->type->dims[i] : tw_expr_const(b->ctx, 1);
    }
    tw_value *operands[] = {x, tw_build_reshape(b, w, rank, weights)};
    tw_type type = tw_type_tensor(b->ctx, x->type->elem, rank, dims, NULL);
    tw_value *conv = tw_graph_build(
        b, TW_GRAPH_CONV, operands, 2, type, "groups", tw_attr_int(b->ctx, 1), "strides",
        tw_attr_ints(b->ctx, ones, space), "dilations", tw_attr_ints(b->ctx, ones, space),
        "pads_begin", tw_attr_ints(b->ctx, zeros, space), "pads_end",
        tw_attr_ints(b->ctx, zeros, space), NULL);
    type = op->results[0].type;
    return tw_canon_replace(rw, op, tw_build_reshape(b, conv, type->rank, type->dims));
}
