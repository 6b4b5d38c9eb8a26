/* op_matmul.c: matrix products.
 *
 *   graph.matmul %a, %b  ->  loop.block "matmul": out[b…, i, j] = sum over k of a[b…, i, k] * b[b…,
 * k, j] */
#include "lower/lowering.h"

/* What products of these elements are summed in: float for narrower floating point, i32 for
 * narrower integers. */
static tw_elem accumulate_elem(tw_elem a, tw_elem out)
{
    if (tw_elem_is_float(a))
        return tw_compute_elem(a);
    return tw_elem_bits(a) < 32 ? TW_I32 : out;
}

tw_elem tw_product_elem(const tw_value *a, const tw_value *out)
{
    return accumulate_elem(a->type->elem, out->type->elem);
}

/* The index of an operand's leading axes, broadcast to the result's. */
static void batch_index(tw_stage *s, const tw_value *operand, unsigned operand_batch,
                        unsigned result_batch, tw_expr *index)
{
    for (unsigned i = 0; i < operand_batch; i++)
        index[i] = tw_is_size(tw_size(operand, i), 1)
                       ? tw_stage_int(s, 0)
                       : tw_stage_axis(s, result_batch - operand_batch + i);
}

static tw_value *load_a(tw_stage *s, tw_op *op, tw_value *a, unsigned batch, tw_elem elem)
{
    tw_expr index[TW_MAX_RANK], i = tw_stage_axis(s, batch), k = tw_stage_axis(s, batch + 2);
    unsigned own = a->type->rank - 2;
    bool transposed = tw_op_bool(op, "transpose_a", false);
    batch_index(s, a, own, batch, index);
    index[own] = transposed ? k : i;
    index[own + 1] = transposed ? i : k;
    return tw_stage_cast(s, tw_stage_load(s, a, index), elem);
}

static tw_value *load_b(tw_stage *s, tw_op *op, tw_value *b, unsigned batch, tw_elem elem)
{
    tw_context *ctx = s->l->ctx;
    tw_expr index[TW_MAX_RANK], j = tw_stage_axis(s, batch + 1), k = tw_stage_axis(s, batch + 2);
    int64_t panel = tw_op_int(op, "b_panel", 0);
    unsigned own = b->type->rank - (panel ? 3 : 2);
    bool transposed = tw_op_bool(op, "transpose_b", false);
    batch_index(s, b, own, batch, index);
    index[own] = transposed ? j : k;
    index[own + 1] = transposed ? k : j;
    if (panel) {
        tw_expr p = tw_expr_const(ctx, panel);
        index[own] = tw_expr_binary(ctx, TW_EXPR_FLOORDIV, j, p);
        index[own + 1] = k;
        index[own + 2] = tw_expr_binary(ctx, TW_EXPR_MOD, j, p);
    }
    return tw_stage_cast(s, tw_stage_load(s, b, index), elem);
}

bool tw_lower_matmul(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    unsigned rank = out[0]->type->rank, batch = rank - 2, n = 0;
    tw_axis axes[TW_MAX_RANK + 1];
    for (; n < batch; n++)
        axes[n] = (tw_axis){tw_arena_printf(l->arena, "b%u", n), tw_size(out[0], n), false};
    axes[n++] = (tw_axis){"i", tw_size(out[0], rank - 2), false};
    axes[n++] = (tw_axis){"j", tw_size(out[0], rank - 1), false};
    unsigned k_axis = in[0]->type->rank - (tw_op_bool(op, "transpose_a", false) ? 2 : 1);
    axes[n++] = (tw_axis){"k", tw_size(in[0], k_axis), true};

    tw_elem elem = tw_product_elem(in[0], out[0]);
    tw_value *acc = tw_lower_accumulator(l, out[0], elem);
    tw_stage s;
    tw_stage_open(l, &s, "matmul", axes, n);
    tw_expr index[TW_MAX_RANK];
    for (unsigned i = 0; i < rank; i++)
        index[i] = tw_stage_axis(&s, i);
    tw_value *a = load_a(&s, op, in[0], batch, elem);
    tw_value *b = load_b(&s, op, in[1], batch, elem);
    if (tw_op_bool(op, "dot", false))
        tw_stage_reduce_dot(&s, a, b, acc, index);
    else
        tw_stage_reduce_product(&s, a, b, acc, index);
    tw_stage_close(&s);
    tw_lower_finish(l, "matmul", acc, out[0]);
    return true;
}
