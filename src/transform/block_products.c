/* block_products.c: block-products: weights of few bits stay packed until they are multiplied.
 *
 *   %a = (cast(%q) - %z) * %s           q: constant u4 (i4, u2, i2, u8, i8), z and s: one for each
 *   %y = graph.matmul %x, %a                column and block of rows, or for each column
 *     =>
 *   %y = graph.matmul_bits %x, %words, %scales, %zeros {bits = 4, block = 32}
 *
 * With few rows the time of a product is that of reading its weights; with many, a tile of them
 * shares the unpacking. Weights are laid out in panels of columns like those of pack-weights, those
 * of a column that follow one another in one word. Signed weights become unsigned by adding half of
 * their range, to their zero points too. */
#include "transform/transform.h"

#include "dialect/graph/graph.h"
#include "ir/elem_data.h"
#include "transform/build.h"
#include "transform/constants.h"

#include <string.h>

enum { PANEL = 16, WORD = 32 };

/* (q - zero) * scale; zero and scale as [N, blocks], or single numbers. */
typedef struct weights {
    tw_builder *b;
    tw_attr q;              /* dense */
    tw_value *zero, *scale; /* zero may be NULL */
    int64_t k, n, blocks, block;
    bool columns; /* q is [k, n], not [n, k'] */
} weights;

/* ---- Recognising ---- */

static tw_value *operand_of(const tw_value *v, tw_graph_kind kind)
{
    return v->op && tw_is_graph(v->op, kind) ? tw_operand(v->op, 0) : NULL;
}

/* What a slice of the first elements of each axis is taken from; else the value itself. */
static tw_value *uncut(tw_value *v)
{
    tw_expr starts[TW_MAX_RANK], steps[TW_MAX_RANK];
    if (!operand_of(v, TW_GRAPH_SLICE))
        return v;
    tw_context *ctx = tw_op_context(v->op);
    int n = tw_graph_exprs(ctx, v->op, "starts", starts, TW_MAX_RANK);
    bool plain = n == tw_graph_exprs(ctx, v->op, "steps", steps, TW_MAX_RANK);
    for (int i = 0; plain && i < n; i++)
        plain = starts[i] == tw_expr_const(ctx, 0) && steps[i] == tw_expr_const(ctx, 1);
    return plain ? tw_operand(v->op, 0) : v;
}

/* The packed constant behind cast(q), cast(q) - zero or cast(cast(q) - zero). */
static bool match_numbers(tw_value *v, weights *w)
{
    tw_value *from = operand_of(v, TW_GRAPH_CAST);
    if (from && operand_of(from, TW_GRAPH_SUB))
        v = from;
    tw_value *x = operand_of(v, TW_GRAPH_SUB);
    if (x) {
        w->zero = tw_operand(v->op, 1);
        if (x->type != v->type)
            return false;
        from = operand_of(x, TW_GRAPH_CAST);
    }
    w->q = from ? tw_graph_constant_value(from) : NULL;
    return w->q && tw_elem_is_int(from->type->elem) && tw_elem_bits(from->type->elem) <= 8;
}

static bool match_scaled(tw_value *v, weights *w)
{
    for (unsigned i = 0; operand_of(v, TW_GRAPH_MUL) && i < 2; i++) {
        tw_value *x = tw_operand(v->op, i);
        w->zero = NULL;
        w->scale = tw_operand(v->op, 1 - i);
        if (x->type == v->type && match_numbers(x, w))
            return true;
    }
    return false;
}

/* A part [n, blocks, 1] of weights [n, blocks, block] as it is to be: [n, blocks]. */
static bool match_part(const weights *w, tw_value **part)
{
    tw_value *v = *part;
    if (!v || tw_is_single(v))
        return true;
    if (v->type->rank != 3 || tw_type_dim(v->type, 0) != w->n ||
        tw_type_dim(v->type, 1) != w->blocks || tw_type_dim(v->type, 2) != 1)
        return false;
    *part = tw_build_reshape(w->b, v, 2, v->type->dims);
    return true;
}

/* Weights [n, blocks, block], reshaped and perhaps cut to [n, k]. */
static bool match_in_blocks(tw_value *v, weights *w)
{
    tw_value *from = operand_of(uncut(v), TW_GRAPH_RESHAPE);
    if (!from || from->type->rank != 3 || !tw_type_is_static(from->type) ||
        tw_type_dim(from->type, 0) != w->n || !match_scaled(from, w))
        return false;
    w->blocks = tw_type_dim(from->type, 1);
    w->block = tw_type_dim(from->type, 2);
    return match_part(w, &w->zero) && match_part(w, &w->scale);
}

/* A part that was repeated along axis k of the weights, or is one along it, as [n, blocks]; the
 * number of rows of a block. False when it is none of these. */
static bool match_spread(const weights *w, tw_value **part, int64_t *block)
{
    tw_value *v = *part;
    if (!v || tw_is_single(v))
        return true;
    unsigned axis = w->columns ? 0 : 1;
    int64_t size = w->k;
    tw_value *wide = operand_of(uncut(v), TW_GRAPH_RESHAPE);
    tw_value *narrow = wide ? operand_of(wide, TW_GRAPH_EXPAND) : NULL;
    if (narrow && narrow->type->rank == 3 && wide->type->rank == 3) {
        size = tw_type_dim(wide->type, axis + 1);
        if (tw_type_dim(narrow->type, axis + 1) != 1 ||
            tw_type_dim(narrow->type, axis) != (w->k + size - 1) / size)
            return false;
        v = narrow;
    } else if (v->type->rank > 2 || (v->type->rank == 2 && tw_type_dim(v->type, axis) != 1) ||
               (v->type->rank == 1 && !w->columns)) {
        return false;
    }
    int64_t count, blocks = (w->k + size - 1) / size;
    if (!tw_type_static_count(v->type, &count) || count != w->n * blocks ||
        (*block && *block != size))
        return false;
    tw_context *ctx = w->b->ctx;
    tw_expr dims[2] = {tw_expr_const(ctx, w->columns ? blocks : w->n),
                       tw_expr_const(ctx, w->columns ? w->n : blocks)};
    v = tw_build_reshape(w->b, v, 2, dims);
    if (w->columns)
        v = tw_build_transpose(w->b, v, tw_attr_ints(ctx, (int64_t[]){1, 0}, 2));
    *block = size;
    *part = v;
    return true;
}

/* Weights of at most 4 bits of the shape that they are multiplied in, [k, n] or [n, k]. */
static bool match_in_place(tw_value *v, weights *w)
{
    int64_t block = 0;
    if (!match_scaled(v, w) || tw_elem_bits(w->q->u.dense.type->elem) > 4 ||
        !match_spread(w, &w->scale, &block) || !match_spread(w, &w->zero, &block))
        return false;
    w->block = block ? block : w->k;
    w->blocks = (w->k + w->block - 1) / w->block;
    return true;
}

static bool match(tw_op *op, weights *w)
{
    tw_value *v = tw_operand(op, 1);
    tw_elem elem = tw_operand(op, 0)->type->elem;
    if (v->type->rank != 2 || !tw_type_is_static(v->type) || !tw_elem_is_float(elem) ||
        tw_elem_bits(elem) > 32 || tw_op_attr(op, "b_panel") ||
        tw_op_bool(op, "transpose_a", false) || !tw_depends_on_constants(v))
        return false;
    w->columns = !tw_op_bool(op, "transpose_b", false);
    w->k = tw_type_dim(v->type, w->columns ? 0 : 1);
    w->n = tw_type_dim(v->type, w->columns ? 1 : 0);
    if (!w->k || !w->n || ((w->columns || !match_in_blocks(v, w)) && !match_in_place(v, w)))
        return false;
    unsigned bits = tw_elem_bits(w->q->u.dense.type->elem);
    return w->block * bits % WORD == 0 && tw_elem_is_float(w->scale->type->elem);
}

/* ---- Packing ---- */

/* The word of weights of column n from row k on; those behind the last row are 0. */
static uint32_t word_at(const weights *w, int64_t n, int64_t k)
{
    tw_elem elem = w->q->u.dense.type->elem;
    unsigned bits = tw_elem_bits(elem);
    uint32_t half = tw_elem_is_signed(elem) ? UINT32_C(1) << (bits - 1) : 0, word = 0;
    uint32_t mask = (UINT32_C(1) << bits) - 1;
    /* [n, blocks, block] has all rows of its blocks, [n, k] and [k, n] those that there are. */
    int64_t rows = w->q->u.dense.type->rank == 3 ? w->blocks * w->block : w->k;
    for (int64_t i = 0; i < WORD / bits && k + i < rows; i++) {
        size_t at = (size_t)(w->columns ? (k + i) * w->n + n : n * rows + k + i);
        uint32_t q = (uint32_t)tw_elem_load(elem, w->q->u.dense.data, at) & mask;
        word |= (q ^ half) << ((unsigned)i * bits);
    }
    return word;
}

/* [panels, words of a column, PANEL] */
static tw_value *pack_words(const weights *w)
{
    unsigned in_word = WORD / tw_elem_bits(w->q->u.dense.type->elem);
    int64_t panels = (w->n + PANEL - 1) / PANEL, words = w->blocks * w->block / in_word;
    size_t size = (size_t)(panels * words) * PANEL * sizeof(uint32_t), at = 0;
    uint32_t *data = tw_context_alloc(w->b->ctx, size);
    for (int64_t p = 0; p < panels; p++)
        for (int64_t k = 0; k < words; k++)
            for (int64_t n = p * PANEL; n < (p + 1) * PANEL; n++)
                data[at++] = n < w->n ? word_at(w, n, k * in_word) : 0;
    tw_type type = tw_type_tensor_static(w->b->ctx, TW_I32, 3, (int64_t[]){panels, words, PANEL});
    return tw_graph_constant(w->b, type, data, size, NULL);
}

/* [n, blocks] or one number as [panels, blocks, PANEL]. */
static tw_value *pack_part(const weights *w, tw_value *v)
{
    tw_context *ctx = w->b->ctx;
    int64_t panels = (w->n + PANEL - 1) / PANEL;
    if (tw_is_single(v)) {
        tw_expr one = tw_expr_const(ctx, 1);
        v = tw_build_reshape(w->b, v, 2, (tw_expr[]){one, one});
        tw_type type = tw_type_tensor_static(ctx, v->type->elem, 2, (int64_t[]){w->n, w->blocks});
        v = tw_graph_build(w->b, TW_GRAPH_EXPAND, &v, 1, type, NULL);
    }
    v = tw_build_pad_to(w->b, v, 0, PANEL);
    tw_expr dims[3] = {tw_expr_const(ctx, panels), tw_expr_const(ctx, PANEL),
                       tw_expr_const(ctx, w->blocks)};
    v = tw_build_reshape(w->b, v, 3, dims);
    return tw_build_transpose(w->b, v, tw_attr_ints(ctx, (int64_t[]){0, 2, 1}, 3));
}

/* Zero points that were bytes or fewer bits, before they became numbers for the subtraction. */
static tw_value *as_bytes(tw_value *v)
{
    while (v->op &&
           (tw_is_graph(v->op, TW_GRAPH_CAST) || tw_is_graph(v->op, TW_GRAPH_RESHAPE) ||
            tw_is_graph(v->op, TW_GRAPH_TRANSPOSE)) &&
           !(tw_elem_is_int(v->type->elem) && tw_elem_bits(v->type->elem) <= 8))
        v = tw_operand(v->op, 0);
    return tw_elem_is_int(v->type->elem) && tw_elem_bits(v->type->elem) <= 8 ? v : NULL;
}

/* The operand of zero points; NULL when they all are *number. */
static tw_value *pack_zeros(const weights *w, int64_t *number)
{
    tw_elem elem = w->q->u.dense.type->elem, kind;
    int64_t half = tw_elem_is_signed(elem) ? INT64_C(1) << (tw_elem_bits(elem) - 1) : 0;
    double value = 0;
    *number = half;
    if (!w->zero)
        return NULL;
    if (tw_constant_splat(w->zero, &kind, &value) && value == (double)(int)value) {
        *number += (int64_t)value;
        return NULL;
    }
    tw_value *bytes = as_bytes(w->zero), *zero = w->zero;
    bool fits = bytes && tw_elem_is_signed(bytes->type->elem) == (half != 0);
    if (half)
        zero = tw_build_binary(w->b, TW_GRAPH_ADD, zero,
                               tw_graph_scalar(w->b, zero->type->elem, (double)half));
    return pack_part(w, fits ? tw_build_cast(w->b, zero, TW_U8) : zero);
}

static bool rewrite(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    weights w = {.b = tw_rw_builder(rw, op)};
    if (!match(op, &w))
        return false;
    tw_context *ctx = w.b->ctx;
    int64_t number;
    tw_value *operands[] = {tw_operand(op, 0), pack_words(&w), pack_part(&w, w.scale),
                            pack_zeros(&w, &number)};
    tw_value *y = tw_graph_build(
        w.b, TW_GRAPH_MATMUL_BITS, operands, operands[3] ? 4 : 3, op->results[0].type, "bits",
        tw_attr_int(ctx, tw_elem_bits(w.q->u.dense.type->elem)), "block", tw_attr_int(ctx, w.block),
        "zero", operands[3] ? NULL : tw_attr_int(ctx, number), NULL);
    tw_rw_replace(rw, op, &y);
    return true;
}

static bool run(tw_pass_run *pass)
{
    const tw_pattern pattern = {"product-of-bits", &tw_graph_ops[TW_GRAPH_MATMUL], 1, rewrite,
                                NULL};
    tw_rewrite_greedily(pass->ctx, pass->root, &pattern, 1, pass->max_changes, &pass->changes);
    return true;
}

const tw_pass tw_pass_block_products = {
    .name = "block-products",
    .summary = "weights of few bits stay packed until they are multiplied",
    .anchor = "core.func",
    .optional = true,
    .run = run,
};
