/* pack_weights.c: constant weights in the order in which kernels read them.
 *
 *   %1 = graph.matmul %x, %w                          // w: K x N
 *     =>
 *   %p = transpose(reshape(pad(%w)))                  // N/16 x K x 16, zeros behind N
 *   %1 = graph.matmul %x, %p {b_panel = 16}
 *
 * A panel holds `panel` output columns (of a convolution: output channels), the width of a register
 * tile, for all of the inner dimension; so the innermost loop reads memory front to back.
 * Products of unsigned by signed bytes read four of them as a word:
 *
 *   %1 = graph.matmul %x, %w                          // x: M x K of u8, w: K x N of i8
 *     =>
 *   %p = words of four bytes along K                  // N/16 x K/4 x 16 of i32
 *   %1 = graph.matmul (words %x), %p {b_panel = 16, dot = true}
 *
 * Operands that are not constants but transposed are put straight where many tiles read them, whose
 * rows would be scattered over memory:
 *
 *   %1 = graph.matmul %x, %y {transpose_b = true}
 *     =>
 *   %1 = graph.matmul %x, (transpose %y)
 *
 * A panel of a convolution is of one group. Depthwise kernels get their channels last. Where the
 * data is in blocks of channels (NCHW16c), so are the weights: [O/p, I/c, spatial…, c, p] for
 * blocks of c and p. The packing is operations on constants, which fold-constants evaluates.
 * Convolutions of plain data keep their form. */
#include "transform/transform.h"

#include "dialect/graph/data_axes.h"
#include "transform/build.h"
#include "transform/constants.h"

#include <string.h>

enum { DEFAULT_PANEL = 16, LEAST_PANEL = 8 };

/* The panel width for n columns: few columns do not fill a wide one. */
static int64_t panel_width(int64_t panel, int64_t n)
{
    while (panel / 2 >= n && panel / 2 >= LEAST_PANEL)
        panel /= 2;
    return panel;
}

static tw_value *reshape(tw_builder *b, tw_value *x, const int64_t *dims, unsigned rank)
{
    tw_type type = tw_type_tensor_static(b->ctx, x->type->elem, rank, dims);
    return tw_graph_build(b, TW_GRAPH_RESHAPE, &x, 1, type, NULL);
}

static tw_value *transpose(tw_builder *b, tw_value *x, const int64_t *perm)
{
    return tw_build_transpose(b, x, tw_attr_ints(b->ctx, perm, x->type->rank));
}

/* ---- Bytes ---- */

/* Whether op is a product of unsigned by signed bytes, summed along the last axis of its data. */
static bool is_of_bytes(const tw_op *op)
{
    return tw_operand(op, 0)->type->elem == TW_U8 && tw_operand(op, 1)->type->elem == TW_I8 &&
           op->results[0].type->elem == TW_I32;
}

/* Four bytes of an axis that comes last as one word, zeros behind it. */
static tw_value *words(tw_builder *b, tw_value *x)
{
    tw_expr dims[TW_MAX_RANK];
    unsigned rank = x->type->rank;
    x = tw_build_pad_to(b, x, rank - 1, 4);
    memcpy(dims, x->type->dims, rank * sizeof *dims);
    dims[rank - 1] = tw_expr_const(b->ctx, tw_type_dim(x->type, rank - 1) / 4);
    tw_type type = tw_type_tensor(b->ctx, TW_I32, rank, dims, x->type->layout);
    return tw_graph_build(b, TW_GRAPH_WORDS, &x, 1, type, NULL);
}

/* With the last two axes swapped. */
static tw_value *swap_last(tw_builder *b, tw_value *x)
{
    int64_t perm[TW_MAX_RANK];
    unsigned rank = x->type->rank;
    for (unsigned i = 0; i < rank; i++)
        perm[i] = i;
    perm[rank - 2] = rank - 1;
    perm[rank - 1] = rank - 2;
    return transpose(b, x, perm);
}

/* Packed weights whose last two axes are that of the sum and that of the panel: words of the sum's
 * axis, in front of the panel's. */
static tw_value *words_of_panels(tw_builder *b, tw_value *w)
{
    return swap_last(b, words(b, swap_last(b, w)));
}

/* The product in words: `w` are its packed weights. */
static tw_value *make_dot(tw_builder *b, tw_op *op, tw_value *w)
{
    tw_op_set_operand(op, 0, words(b, tw_operand(op, 0)));
    tw_op_set_attr(op, "dot", tw_attr_bool(b->ctx, true));
    return words_of_panels(b, w);
}

/* ---- Weights ---- */

/* Whether operand 1 can be packed: known at compile time, not empty, of constant shape. */
static bool has_weights(const tw_op *op)
{
    const tw_value *w = tw_operand(op, 1);
    int64_t n;
    return tw_type_static_count(w->type, &n) && n > 0 && tw_depends_on_constants(w);
}

static void set_weights(tw_rewriter *rw, tw_op *op, tw_value *w)
{
    tw_op_set_operand(op, 1, w);
    tw_rw_changed(rw, op);
}

static bool pack_matmul(tw_rewriter *rw, tw_op *op, const void *data)
{
    tw_value *w = tw_operand(op, 1);
    if (w->type->rank != 2 || tw_op_attr(op, "b_panel") || !has_weights(op))
        return false;
    bool transposed = tw_op_bool(op, "transpose_b", false);
    bool dot = is_of_bytes(op) && !tw_op_bool(op, "transpose_a", false);
    unsigned axis = transposed ? 0 : 1;
    int64_t k = tw_type_dim(w->type, 1 - axis), n = tw_type_dim(w->type, axis);
    int64_t p = panel_width(*(const int64_t *)data, n), panels = (n + p - 1) / p;
    tw_builder *b = tw_rw_builder(rw, op);
    w = tw_build_pad_to(b, w, axis, p);
    if (transposed) {
        w = reshape(b, w, (int64_t[]){panels, p, k}, 3);
        w = transpose(b, w, (int64_t[]){0, 2, 1});
    } else {
        w = reshape(b, w, (int64_t[]){k, panels, p}, 3);
        w = transpose(b, w, (int64_t[]){1, 0, 2});
    }
    if (dot)
        w = make_dot(b, op, w);
    tw_op_set_attr(op, "transpose_b", NULL);
    tw_op_set_attr(op, "b_panel", tw_attr_int(b->ctx, p));
    set_weights(rw, op, w);
    return true;
}

/* ---- Transposed operands ---- */

/* Fewer rows do not pay for the pass over the other operand; a transposed left operand is read
 * well, a few neighbours at a time, as long as it stays in a cache. */
enum { STRAIGHT_ROWS = 8, NEAR_ELEMENTS = 256 << 10 };

static bool make_straight(tw_rewriter *rw, tw_op *op, unsigned i, const char *attr)
{
    tw_value *x = tw_operand(op, i);
    tw_builder *b = tw_rw_builder(rw, op);
    tw_op_set_operand(op, i, swap_last(b, x));
    tw_op_set_attr(op, attr, NULL);
    tw_rw_changed(rw, op);
    return true;
}

static bool straighten(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    const tw_type a = tw_operand(op, 0)->type, b = tw_operand(op, 1)->type;
    const tw_type c = op->results[0].type;
    int64_t size;
    if (!tw_type_is_static(a) || !tw_type_is_static(b) || tw_op_attr(op, "b_panel") ||
        tw_type_dim(c, c->rank - 2) < STRAIGHT_ROWS || tw_type_dim(c, c->rank - 1) < STRAIGHT_ROWS)
        return false;
    if (tw_op_bool(op, "transpose_b", false) && !has_weights(op))
        return make_straight(rw, op, 1, "transpose_b");
    return tw_op_bool(op, "transpose_a", false) && tw_type_static_count(a, &size) &&
           size > NEAR_ELEMENTS && make_straight(rw, op, 0, "transpose_a");
}

/* O, I, spatial… -> O/p, p, I, spatial… -> O/p, spatial…, I, p. */
static tw_value *conv_panels(tw_builder *b, tw_value *w, int64_t p)
{
    int64_t dims[TW_MAX_RANK], perm[TW_MAX_RANK];
    unsigned rank = w->type->rank;
    w = tw_build_pad_to(b, w, 0, p);
    dims[0] = tw_type_dim(w->type, 0) / p;
    dims[1] = p;
    for (unsigned i = 1; i < rank; i++)
        dims[i + 1] = tw_type_dim(w->type, i);
    perm[0] = 0;
    for (unsigned i = 1; i + 1 < rank; i++)
        perm[i] = i + 2;
    perm[rank - 1] = 2;
    perm[rank] = 1;
    return transpose(b, reshape(b, w, dims, rank + 1), perm);
}

/* O, I, spatial… -> O/p, p, I/c, c, spatial… -> O/p, I/c, spatial…, c, p. */
static tw_value *conv_blocks(tw_builder *b, tw_value *w, int64_t c, int64_t p)
{
    int64_t dims[TW_MAX_RANK], perm[TW_MAX_RANK];
    unsigned rank = w->type->rank;
    int64_t cut[] = {tw_type_dim(w->type, 0) / p, p, tw_type_dim(w->type, 1) / c, c};
    memcpy(dims, cut, sizeof cut);
    for (unsigned i = 2; i < rank; i++) {
        dims[i + 2] = tw_type_dim(w->type, i);
        perm[i] = i + 2;
    }
    perm[0] = 0;
    perm[1] = 2;
    perm[rank] = 3;
    perm[rank + 1] = 1;
    return transpose(b, reshape(b, w, dims, rank + 2), perm);
}

/* C * multiplier, 1, spatial… -> spatial…, C * multiplier. */
static tw_value *depthwise_kernel(tw_builder *b, tw_value *w)
{
    int64_t dims[TW_MAX_RANK], perm[TW_MAX_RANK];
    unsigned rank = w->type->rank;
    dims[0] = tw_type_dim(w->type, 0);
    for (unsigned i = 2; i < rank; i++)
        dims[i - 1] = tw_type_dim(w->type, i);
    for (unsigned i = 0; i + 1 < rank; i++)
        perm[i] = (i + 1) % (rank - 1);
    return transpose(b, reshape(b, w, dims, rank - 1), perm);
}

static void set_kernel(tw_rewriter *rw, tw_op *op, tw_value *w, const char *layout, int64_t panel)
{
    tw_context *ctx = tw_rw_context(rw);
    tw_op_set_attr(op, "kernel_layout", tw_attr_string(ctx, layout));
    if (panel)
        tw_op_set_attr(op, "panel", tw_attr_int(ctx, panel));
    set_weights(rw, op, w);
}

/* Blocks that are of one group alone; weights of other groups keep their form. */
static bool pack_blocks(tw_rewriter *rw, tw_op *op)
{
    tw_value *w = tw_operand(op, 1);
    int64_t p = tw_data_axes_of(op->results[0].type).block;
    int64_t c = tw_data_axes_of(tw_operand(op, 0)->type).block;
    if (tw_type_dim(w->type, 0) / tw_op_int(op, "groups", 1) % p || tw_type_dim(w->type, 1) % c)
        return false;
    set_kernel(rw, op, conv_blocks(tw_rw_builder(rw, op), w, c, p), "blocks", p);
    return true;
}

static bool pack_panels(tw_rewriter *rw, tw_op *op, int64_t p)
{
    tw_value *w = tw_operand(op, 1);
    int64_t groups = tw_op_int(op, "groups", 1);
    bool whole_words = groups == 1 || tw_type_dim(w->type, 1) % 4 == 0;
    int64_t outputs = tw_type_dim(w->type, 0) / groups; /* of a group */
    p = panel_width(p, outputs);
    while (groups > 1 && p >= LEAST_PANEL && outputs % p)
        p /= 2; /* a panel is of one group */
    if (groups > 1 && p < LEAST_PANEL)
        return false;
    tw_builder *b = tw_rw_builder(rw, op);
    w = conv_panels(b, w, p);
    if (is_of_bytes(op) && whole_words)
        w = make_dot(b, op, w);
    set_kernel(rw, op, w, "panel", p);
    return true;
}

static bool pack_conv(tw_rewriter *rw, tw_op *op, const void *data)
{
    tw_value *w = tw_operand(op, 1);
    tw_data_axes axes = tw_data_axes_of(tw_operand(op, 0)->type);
    if (!op->results[0].type->layout ||
        strcmp(tw_op_string(op, "kernel_layout", "OI"), "OI") != 0 || w->type->rank < 3 ||
        w->type->rank + 2 > TW_MAX_RANK || !has_weights(op))
        return false;
    if (tw_op_int(op, "groups", 1) > 1 && tw_type_dim(w->type, 1) == 1) {
        set_kernel(rw, op, depthwise_kernel(tw_rw_builder(rw, op), w), "depthwise", 0);
        return true;
    }
    return axes.lane ? pack_blocks(rw, op) : pack_panels(rw, op, *(const int64_t *)data);
}

static bool run(tw_pass_run *pass)
{
    int64_t panel = tw_pass_int(pass, "panel", DEFAULT_PANEL);
    if (panel < 1 || panel > 1024)
        return tw_error(pass->ctx, NULL, "pass 'pack-weights': panel is %lld, must be in 1..1024",
                        (long long)panel);
    const tw_pattern patterns[] = {
        {"pack-matmul", &tw_graph_ops[TW_GRAPH_MATMUL], 1, pack_matmul, &panel},
        {"straighten-matmul", &tw_graph_ops[TW_GRAPH_MATMUL], 1, straighten, NULL},
        {"pack-conv", &tw_graph_ops[TW_GRAPH_CONV], 1, pack_conv, &panel},
    };
    tw_rewrite_greedily(pass->ctx, pass->root, patterns, 3, pass->max_changes, &pass->changes);
    return true;
}

static const tw_attr_spec options[] = {
    {"panel", TW_ATTR_INT, false, "columns of a panel; default 16"},
    {0},
};

const tw_pass tw_pass_pack_weights = {
    .name = "pack-weights",
    .summary = "constant weights in the order in which kernels read them",
    .anchor = "core.func",
    .optional = true,
    .run = run,
    .options = options,
};
