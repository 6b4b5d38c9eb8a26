/* integer_products.c: integer-products: products of quantised tensors become products of bytes.
 *
 *   %a = (cast(%x) - %zx) * %sx        x: u8 or i8, one zero point and one scale (or none)
 *   %b = (cast(%w) - %zw) * %sw        w: constant u8 or i8, one zero point and scale, or one
 *   %y = graph.matmul %a, %b                   per output channel
 *     =>
 *   %p = graph.matmul %x', %w' : tensor<…xi32>             x' of u8, w' of i8
 *   %q = %p - %zx' * sum(%w' - %zw')                       the sum is constant
 *   %y = cast(%q) * (%sx * %sw)
 *
 * and the same for convolutions and for products of i32 without scales. An i8 x becomes u8 by
 * x + 128, a u8 w becomes i8 by w - 128, zero points likewise. Where zw' is not 0, matrix products
 * take zw' * (sum of x' along the row) away as well. A convolution's padding becomes one with zx'
 * in front of it, which is a zero of the quantised tensor. With sums in 32 bits nothing is rounded:
 * sum (x - zx)(w - zw) = sum x (w - zw) - zx sum (w - zw). (Jacob et al., "Quantization and
 * Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference", 2018, section 2.3.)
 */
#include "transform/transform.h"

#include "dialect/graph/data_axes.h"
#include "transform/build.h"
#include "transform/constants.h"
#include "ir/elem_data.h"

#include <string.h>

/* (bytes - zero) * scale, the axes then permuted */
typedef struct quantised {
    tw_value *bytes; /* u8, i8; or a constant of i32 that are signed bytes */
    tw_value *zero;  /* i32; NULL: 0 */
    tw_value *scale; /* f32; NULL: 1 */
    tw_attr perm;    /* NULL: not permuted */
} quantised;

/* ---- Recognising ---- */

static bool is_bytes(const tw_value *v)
{
    return v->type->elem == TW_U8 || v->type->elem == TW_I8;
}

static tw_value *cast_of(const tw_value *v)
{
    return v->op && tw_is_graph(v->op, TW_GRAPH_CAST) ? tw_operand(v->op, 0) : NULL;
}

/* Whether the constant's numbers fit signed bytes. */
static bool is_small_constant(const tw_value *v)
{
    tw_attr dense = tw_graph_constant_value(v);
    if (!dense || v->type->elem != TW_I32)
        return false;
    for (size_t i = 0; i < dense->u.dense.size / 4; i++) {
        int64_t x = tw_elem_to_int(TW_I32, tw_elem_load(TW_I32, dense->u.dense.data, i));
        if (x < INT8_MIN || x > INT8_MAX)
            return false;
    }
    return true;
}

/* cast(bytes), or cast(bytes) - zero in i32; or what an importer has made of that. */
static bool match_integers(tw_value *v, quantised *q)
{
    if (is_small_constant(v)) {
        q->bytes = v;
        return true;
    }
    tw_value *from = cast_of(v);
    if (!from && v->op && tw_is_graph(v->op, TW_GRAPH_SUB) && v->type->elem == TW_I32) {
        from = cast_of(tw_operand(v->op, 0));
        q->zero = tw_operand(v->op, 1);
        if (tw_operand(v->op, 0)->type != v->type)
            return false; /* the zero point has a larger shape */
    }
    q->bytes = from;
    return from && is_bytes(from);
}

/* cast(integers) * scale, or without the scale. */
static bool match_reals(tw_value *v, quantised *q)
{
    for (unsigned i = 0; v->op && tw_is_graph(v->op, TW_GRAPH_MUL) && i < 2; i++) {
        tw_value *x = tw_operand(v->op, i);
        *q = (quantised){.scale = tw_operand(v->op, 1 - i)};
        if (x->type == v->type && cast_of(x) &&
            (match_integers(x, q) || match_integers(cast_of(x), q)))
            return true;
    }
    return false;
}

/* The quantised form of an operand. */
static bool match(tw_value *v, quantised *q)
{
    *q = (quantised){0};
    if (v->type->elem == TW_I32)
        return match_integers(v, q);
    if (v->type->elem != TW_F32)
        return false;
    if (!v->op || !tw_is_graph(v->op, TW_GRAPH_TRANSPOSE))
        return match_reals(v, q);
    if (!match_reals(tw_operand(v->op, 0), q))
        return false;
    q->perm = tw_op_attr(v->op, "perm");
    return true;
}

/* ---- The product ---- */

typedef struct product {
    tw_builder *b;
    tw_op *op;
    bool conv;
    quantised x, w;
    unsigned axis; /* of the output channels, in the result */
    unsigned from; /* of the output channels, in the weights */
    unsigned rank; /* of the result */
} product;

/* The one number that a constant, perhaps converted, consists of. */
static bool is_splat(const tw_value *v, double *value)
{
    tw_elem elem;
    while (v->op && (tw_is_graph(v->op, TW_GRAPH_CAST) || tw_is_graph(v->op, TW_GRAPH_RESHAPE)))
        v = tw_operand(v->op, 0);
    return !tw_elem_is_float(v->type->elem) && tw_constant_splat(v, &elem, value);
}

static bool is_zero(const tw_value *v)
{
    double value;
    return !v || (is_splat(v, &value) && value == 0);
}

/* Whether a part of quantised weights is constant, and one number or one for each position of
 * `axis` of the weights as the product sees them. */
static bool is_along(const quantised *q, const tw_value *v, unsigned axis)
{
    unsigned rank = q->bytes->type->rank;
    if (q->perm)
        axis = (unsigned)q->perm->u.array.items[axis]->u.integer;
    for (unsigned i = 0; v && i < v->type->rank; i++)
        if (tw_type_dim(v->type, i) != 1 && rank - v->type->rank + i != axis)
            return false;
    return !v || (tw_type_is_static(v->type) && tw_depends_on_constants(v));
}

static bool read_product(tw_op *op, product *p)
{
    tw_type type = op->results[0].type, w = tw_operand(op, 1)->type;
    *p = (product){.op = op, .conv = tw_is_graph(op, TW_GRAPH_CONV), .rank = type->rank};
    if (type->elem != TW_I32 && type->elem != TW_F32)
        return false;
    if (!tw_type_is_static(w) || tw_data_axes_of(type).lane ||
        !tw_depends_on_constants(tw_operand(op, 1)))
        return false;
    if (p->conv) {
        p->axis = tw_data_axes_of(op->results[0].type).channel;
        p->from = 0;
        if (strcmp(tw_op_string(op, "kernel_layout", "OI"), "OI") != 0)
            return false;
    } else {
        p->axis = p->rank - 1;
        p->from = tw_op_bool(op, "transpose_b", false) ? 0 : 1;
        if (w->rank != 2 || tw_op_attr(op, "b_panel"))
            return false;
    }
    return match(tw_operand(op, 0), &p->x) && match(tw_operand(op, 1), &p->w);
}

static bool is_single_or_none(const tw_value *v)
{
    return !v || tw_is_single(v);
}

/* Whether scales and zero points are of forms that can be taken out of the product. */
static bool can_rewrite(const product *p)
{
    if (!is_single_or_none(p->x.zero) || !is_single_or_none(p->x.scale) ||
        !is_along(&p->w, p->w.zero, p->from) || !is_along(&p->w, p->w.scale, p->from))
        return false;
    if (!p->conv && !tw_op_bool(p->op, "transpose_a", false))
        return true;
    double zero = 0; /* of the weights as signed bytes it must be 0 */
    return (!p->w.zero || is_splat(p->w.zero, &zero)) &&
           zero == (p->w.bytes->type->elem == TW_U8 ? 128 : 0);
}

/* x' of u8 and w' of i8, with their zero points: adds 128 to or takes it from bytes of the other
 * kind, which is to turn their highest bit around. */
static void set_sign(tw_builder *b, quantised *q, tw_elem want)
{
    if (q->bytes->type->elem == TW_I32)
        q->bytes = tw_build_cast(b, q->bytes, TW_I8);
    if (q->bytes->type->elem == want)
        return;
    tw_value *bytes = tw_build_bitcast(b, q->bytes, TW_U8);
    bytes = tw_build_binary(b, TW_GRAPH_XOR, bytes, tw_graph_scalar(b, TW_U8, 128));
    q->bytes = tw_build_bitcast(b, bytes, want);
    double shift = want == TW_U8 ? 128 : -128, zero;
    tw_value *by = tw_graph_scalar(b, TW_I32, shift);
    if (q->zero && is_splat(q->zero, &zero) && zero == -shift)
        q->zero = NULL;
    else
        q->zero = q->zero ? tw_build_binary(b, TW_GRAPH_ADD, q->zero, by) : by;
}

/* The parts of a permuted tensor with its axes as the product sees them. */
static void permute(tw_builder *b, quantised *q)
{
    tw_value **parts[] = {&q->bytes, &q->zero, &q->scale};
    unsigned rank = q->bytes->type->rank;
    for (unsigned i = 0; q->perm && i < 3; i++) {
        tw_expr dims[TW_MAX_RANK];
        if (!*parts[i] || tw_is_single(*parts[i]))
            continue;
        unsigned missing = rank - (*parts[i])->type->rank;
        for (unsigned k = 0; k < rank; k++)
            dims[k] = k < missing ? tw_expr_const(b->ctx, 1) : (*parts[i])->type->dims[k - missing];
        *parts[i] = tw_build_transpose(b, tw_build_reshape(b, *parts[i], rank, dims), q->perm);
    }
}

static bool no_pads(const tw_op *op)
{
    tw_context *ctx = tw_op_context(op);
    tw_expr pads[TW_MAX_RANK], none = tw_expr_const(ctx, 0);
    const char *const names[] = {"pads_begin", "pads_end"};
    for (unsigned k = 0; k < 2; k++) {
        int n = tw_graph_exprs(ctx, op, names[k], pads, TW_MAX_RANK);
        for (int i = 0; i < n; i++)
            if (pads[i] != none)
                return false;
    }
    return true;
}

/* x padded by its zero point as the convolution would pad it by zeros; op's pads become none. */
static tw_value *pad(const product *p, tw_value *x, tw_op *op)
{
    tw_expr pads[2][TW_MAX_RANK], given[TW_MAX_RANK], dims[TW_MAX_RANK];
    static const int64_t none[TW_MAX_RANK];
    tw_context *ctx = p->b->ctx;
    unsigned first = tw_data_axes_of(x->type).space, rank = x->type->rank;
    memcpy(dims, x->type->dims, rank * sizeof *dims);
    const char *const names[] = {"pads_begin", "pads_end"};
    for (unsigned k = 0; k < 2; k++) {
        int n = tw_graph_exprs(ctx, p->op, names[k], given, TW_MAX_RANK);
        for (unsigned i = 0; i < rank; i++)
            pads[k][i] = tw_expr_const(ctx, 0);
        for (int i = 0; i < n; i++) {
            pads[k][first + (unsigned)i] = given[i];
            dims[first + (unsigned)i] = tw_expr_add(ctx, dims[first + (unsigned)i], given[i]);
        }
        tw_op_set_attr(op, names[k], tw_attr_ints(ctx, none, rank - 2));
    }
    tw_value *zero = tw_build_reshape(p->b, tw_build_cast(p->b, p->x.zero, TW_U8), 0, NULL);
    tw_type type = tw_type_tensor(ctx, TW_U8, rank, dims, x->type->layout);
    return tw_graph_build(p->b, TW_GRAPH_PAD, ((tw_value *[]){x, zero}), 2, type, "pads_begin",
                          tw_graph_exprs_attr(ctx, pads[0], rank), "pads_end",
                          tw_graph_exprs_attr(ctx, pads[1], rank), NULL);
}

/* A value per output channel (or one number), whose channels are axis `from` of `rank`, in a shape
 * that broadcasts with the result. */
static tw_value *per_channel(const product *p, tw_value *v, unsigned rank)
{
    tw_expr dims[TW_MAX_RANK], one = tw_expr_const(p->b->ctx, 1);
    if (tw_is_single(v))
        return tw_build_reshape(p->b, v, 0, NULL);
    dims[0] = v->type->dims[v->type->rank - (rank - p->from)];
    for (unsigned i = 1; i < p->rank - p->axis; i++)
        dims[i] = one;
    return tw_build_reshape(p->b, v, p->rank - p->axis, dims);
}

/* The sums of w - zero for each output channel. */
static tw_value *weight_sums(const product *p)
{
    tw_builder *b = p->b;
    tw_value *w = tw_build_cast(b, p->w.bytes, TW_I32);
    if (!is_zero(p->w.zero))
        w = tw_build_binary(b, TW_GRAPH_SUB, w, p->w.zero);
    uint32_t axes = ((1u << w->type->rank) - 1) & ~(1u << p->from);
    return per_channel(p, tw_build_sum(b, w, axes), w->type->rank);
}

static tw_value *build_product(const product *p)
{
    tw_builder *b = p->b;
    tw_type shape = p->op->results[0].type;
    tw_type type = tw_type_tensor(b->ctx, TW_I32, shape->rank, shape->dims, shape->layout);
    tw_value *operands[] = {p->x.bytes, p->w.bytes};
    tw_op *op = tw_op_create(b->ctx, p->op->def, p->op->loc, operands, 2, &type, 1, p->op->attrs,
                             p->op->n_attrs, 0);
    if (p->conv && !is_zero(p->x.zero) && !no_pads(p->op))
        tw_op_set_operand(op, 0, pad(p, p->x.bytes, op));
    tw_op_insert(op, b->region, b->before);
    tw_value *y = tw_result(op, 0);
    if (!is_zero(p->x.zero)) {
        tw_value *zero = tw_build_reshape(b, p->x.zero, 0, NULL);
        tw_value *shift = tw_build_binary(b, TW_GRAPH_MUL, weight_sums(p), zero);
        y = tw_build_binary(b, TW_GRAPH_SUB, y, shift);
    }
    if (!is_zero(p->w.zero)) {
        tw_value *x = tw_build_cast(b, p->x.bytes, TW_I32);
        tw_value *sums = tw_build_sum(b, x, 1u << (x->type->rank - 1));
        tw_value *shift = tw_build_binary(b, TW_GRAPH_MUL, sums, per_channel(p, p->w.zero, 2));
        y = tw_build_binary(b, TW_GRAPH_SUB, y, shift);
    }
    return y;
}

/* The result's scale in a shape that broadcasts with it, or NULL. */
static tw_value *result_scale(const product *p)
{
    unsigned rank = p->w.bytes->type->rank;
    tw_value *x = p->x.scale ? per_channel(p, p->x.scale, rank) : NULL;
    tw_value *w = p->w.scale ? per_channel(p, p->w.scale, rank) : NULL;
    return x && w ? tw_build_binary(p->b, TW_GRAPH_MUL, w, x) : x ? x : w;
}

static bool rewrite(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    product p;
    if (!read_product(op, &p) || !can_rewrite(&p))
        return false;
    p.b = tw_rw_builder(rw, op);
    permute(p.b, &p.x);
    permute(p.b, &p.w);
    set_sign(p.b, &p.x, TW_U8);
    set_sign(p.b, &p.w, TW_I8);
    tw_value *y = tw_build_cast(p.b, build_product(&p), op->results[0].type->elem);
    tw_value *scale = result_scale(&p);
    if (scale)
        y = tw_build_binary(p.b, TW_GRAPH_MUL, y, scale);
    tw_rw_replace(rw, op, &y);
    return true;
}

static bool run(tw_pass_run *pass)
{
    const tw_pattern patterns[] = {
        {"integer-matmul", &tw_graph_ops[TW_GRAPH_MATMUL], 1, rewrite, NULL},
        {"integer-conv", &tw_graph_ops[TW_GRAPH_CONV], 1, rewrite, NULL},
    };
    tw_rewrite_greedily(pass->ctx, pass->root, patterns, 2, pass->max_changes, &pass->changes);
    return true;
}

const tw_pass tw_pass_integer_products = {
    .name = "integer-products",
    .summary = "products of quantised tensors become products of bytes",
    .anchor = "core.func",
    .optional = true,
    .run = run,
};
