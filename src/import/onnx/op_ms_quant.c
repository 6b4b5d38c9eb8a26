/* op_ms_quant.c: com.microsoft's operators of quantised tensors.
 *
 * QLinearXxx is the operator Xxx between dequantisation of its operands and quantisation of its
 * result:
 *     quantise(Xxx((x - zero point) * scale, …))
 * Products are those of the integers less their zero points, in 32 bits. */
#include "import/onnx/import.h"

#include <string.h>

/* One number as rank 0; a vector stays. */
static tw_value *number(tw_gb *g, tw_value *v)
{
    int64_t count;
    return v && v->type->rank == 1 && tw_type_static_count(v->type, &count) && count == 1
               ? tw_gb_reshape(g, v, 0, NULL)
               : v;
}

/* ---- QLinearXxx ---- */

/* The operator inside, and the version whose semantics it has; where its operands (value, scale,
 * zero point each) and the result's scale and zero point stand among the inputs. */
static const struct qlinear {
    const char *name;
    int version;
    unsigned first, count; /* operands; count 0: all to the end */
    unsigned result;
} qlinear_ops[] = {
    {"Add", 13, 0, 2, 6},        {"AveragePool", 11, 0, 1, 3},
    {"Concat", 13, 2, 0, 0},     {"GlobalAveragePool", 1, 0, 1, 3},
    {"LeakyRelu", 6, 0, 1, 3},   {"Mul", 13, 0, 2, 6},
    {"ReduceMean", 13, 0, 1, 3}, {"Sigmoid", 13, 0, 1, 3},
    {"Softmax", 13, 0, 1, 3},    {"Where", 9, 1, 2, 7},
};

/* Operand at input i as f32. */
static tw_value *dequantised(tw_onnx_node *n, unsigned i)
{
    tw_gb *g = n->g;
    tw_value *x = tw_onnx_in(n, i), *scale = tw_onnx_in(n, i + 1);
    if (!x || !scale)
        return tw_gb_error(g, "input %u is missing", x ? i + 1 : i);
    x = tw_onnx_less_zero_point(g, x, tw_onnx_in(n, i + 2), 0);
    return tw_gb_binary(g, TW_GRAPH_MUL, tw_gb_cast(g, x, TW_F32), number(g, scale));
}

static tw_value *quantised(tw_onnx_node *n, tw_value *y, unsigned scale, tw_elem elem)
{
    tw_gb *g = n->g;
    tw_value *by = tw_onnx_in(n, scale), *zero = tw_onnx_in(n, scale + 1);
    if (!y || !by)
        return y ? tw_gb_error(g, "input %u is missing", scale) : NULL;
    y = tw_gb_binary(g, TW_GRAPH_DIV, y, number(g, by));
    return tw_onnx_to_integer(g, y, number(g, zero), zero ? zero->type->elem : elem);
}

/* Softmax of the operator set in the attribute: before version 13 over all axes from `axis` on; the
 * axis is the last one if none is given. */
static bool softmax_version(tw_onnx_node *n, tw_onnx_node *inner)
{
    bool ok = true;
    int64_t version = tw_onnx_int(n, "opset", 13, &ok);
    inner->version = tw_onnx_attr(n, "axis") ? version : 13;
    return ok;
}

bool tw_onnx_op_qlinear(tw_onnx_node *n)
{
    bool ok = true;
    const struct qlinear *op = &qlinear_ops[n->op->param];
    unsigned count = op->count ? op->count : n->n_in > op->first ? (n->n_in - op->first) / 3 : 0;
    bool last = tw_onnx_int(n, "channels_last", 0, &ok);
    tw_onnx_node inner = *n;
    inner.version = op->version;
    inner.op = tw_onnx_find("", op->name, op->version);
    if (!ok || !inner.op || (!strcmp(op->name, "Softmax") && !softmax_version(n, &inner)))
        return false;
    inner.n_in = op->first && op->count ? 1 + count : count;
    inner.in = TW_NEW_ARRAY(n->im->arena, tw_value *, inner.n_in + 1);
    inner.out = TW_NEW_ARRAY(n->im->arena, tw_value *, n->n_out + 1);
    unsigned at = inner.n_in - count; /* a condition stands before the operands */
    if (at)
        inner.in[0] = n->in[0];
    for (unsigned i = 0; i < count; i++) {
        tw_value *x = dequantised(n, op->first + 3 * i);
        inner.in[at + i] = last ? tw_onnx_move_channels(n->g, x, true) : x;
        if (!inner.in[at + i])
            return false;
    }
    if (count == 0 || !inner.op->handler(&inner))
        return count ? false : tw_onnx_error(n, "no operands");
    tw_value *y = last ? tw_onnx_move_channels(n->g, inner.out[0], false) : inner.out[0];
    return tw_onnx_set(n, 0, quantised(n, y, op->result, n->in[op->first]->type->elem));
}

bool tw_onnx_op_qlinear_conv(tw_onnx_node *n);

/* QLinearConv with the attribute channels_last: x and the result are N, space, C. */
bool tw_onnx_op_ms_qlinear_conv(tw_onnx_node *n)
{
    bool ok = true, last = tw_onnx_int(n, "channels_last", 0, &ok);
    if (!ok || !last)
        return ok && tw_onnx_op_qlinear_conv(n);
    n->in[0] = tw_onnx_move_channels(n->g, n->in[0], true);
    return n->in[0] && tw_onnx_op_qlinear_conv(n) &&
           tw_onnx_set(n, 0, tw_onnx_move_channels(n->g, n->out[0], false));
}

bool tw_onnx_op_max_pool(tw_onnx_node *n);

bool tw_onnx_op_nhwc_max_pool(tw_onnx_node *n)
{
    n->in[0] = tw_onnx_move_channels(n->g, n->in[0], true);
    return n->in[0] && tw_onnx_max_outputs(n, 1) && tw_onnx_op_max_pool(n) &&
           tw_onnx_set(n, 0, tw_onnx_move_channels(n->g, n->out[0], false));
}

/* (A - zero) * (B - zero) in 32 bits */
bool tw_onnx_op_mul_integer(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    if (!tw_onnx_in(n, 2))
        return tw_onnx_error(n, "input 2 is missing");
    tw_value *a = tw_onnx_less_zero_point(g, n->in[0], number(g, tw_onnx_in(n, 1)), 0);
    tw_value *b = tw_onnx_less_zero_point(g, n->in[2], number(g, tw_onnx_in(n, 3)), 0);
    return tw_onnx_set(n, 0, tw_gb_binary(g, TW_GRAPH_MUL, a, b));
}

/* ---- Products ---- */

static unsigned last_axis(const tw_value *x)
{
    return x->type->rank ? x->type->rank - 1 : 0;
}

static tw_value *plus(tw_gb *g, tw_value *y, tw_value *bias)
{
    return bias ? tw_gb_binary(g, TW_GRAPH_ADD, y, bias) : y;
}

/* Per-column quantisation of stacks of matrices is [..., 1, columns]: it broadcasts as it is. */
static tw_value *less_zero(tw_gb *g, tw_value *x, tw_value *zero)
{
    return tw_onnx_less_zero_point(g, x, number(g, zero), last_axis(x));
}

bool tw_onnx_op_dynamic_quantize_matmul(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_value *y = tw_onnx_dynamic_matmul(g, n->in[0], n->in[1], number(g, n->in[2]),
                                         number(g, tw_onnx_in(n, 3)));
    return tw_onnx_set(n, 0, plus(g, y, tw_onnx_in(n, 4)));
}

bool tw_onnx_op_matmul_integer_to_float(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_value *a = less_zero(g, n->in[0], tw_onnx_in(n, 4));
    tw_value *b = less_zero(g, n->in[1], tw_onnx_in(n, 5));
    tw_value *scale = tw_gb_binary(g, TW_GRAPH_MUL, number(g, n->in[2]), number(g, n->in[3]));
    tw_value *y = tw_onnx_integer_matmul(g, a, n->in[0], b, n->in[1]);
    y = tw_gb_cast(g, y, n->in[2]->type->elem);
    return tw_onnx_set(n, 0, plus(g, tw_gb_binary(g, TW_GRAPH_MUL, y, scale), tw_onnx_in(n, 6)));
}

static tw_value *matrix(tw_gb *g, tw_value *x, bool transpose)
{
    return transpose ? tw_gb_transpose(g, x, (const int64_t[]){1, 0}) : x;
}

/* alpha * scales * (A * B + C); quantised when the result's scale is given. */
bool tw_onnx_op_qgemm(tw_onnx_node *n)
{
    bool ok = true;
    tw_gb *g = n->g;
    double alpha = tw_onnx_float(n, "alpha", 1, &ok);
    bool transpose_a = tw_onnx_int(n, "transA", 0, &ok);
    bool transpose_b = tw_onnx_int(n, "transB", 0, &ok);
    tw_value *b = n->in[3];
    if (!ok)
        return false;
    if (n->in[0]->type->rank != 2 || b->type->rank != 2)
        return tw_onnx_error(n, "inputs %s and %s; matrices are needed",
                             tw_gb_type_text(g, n->in[0]->type), tw_gb_type_text(g, b->type));
    tw_value *a = less_zero(g, n->in[0], tw_onnx_in(n, 2));
    b = tw_onnx_less_zero_point(g, b, tw_onnx_in(n, 5), transpose_b ? 0 : 1);
    tw_value *y =
        tw_onnx_integer_matmul(g, matrix(g, a, transpose_a), matrix(g, n->in[0], transpose_a),
                               matrix(g, b, transpose_b), matrix(g, n->in[3], transpose_b));
    y = plus(g, y, tw_onnx_in(n, 6));
    tw_value *scale = tw_gb_binary(g, TW_GRAPH_MUL, number(g, n->in[1]), number(g, n->in[4]));
    if (alpha != 1)
        scale = tw_gb_binary_scalar(g, TW_GRAPH_MUL, scale, alpha);
    y = tw_gb_binary(g, TW_GRAPH_MUL, tw_gb_cast(g, y, TW_F32), scale);
    if (tw_onnx_in(n, 7))
        y = quantised(n, y, 7, n->in[0]->type->elem);
    return tw_onnx_set(n, 0, y);
}
