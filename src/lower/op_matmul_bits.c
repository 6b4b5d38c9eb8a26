/* op_matmul_bits.c: matrix products whose weights stay packed in memory.
 *
 *   graph.matmul_bits %x, %words, %scales, %zeros  ->  loop.block "matmul": out[…, i, j] = sum over
 *       blocks kb, words kw of a block, weights kt of a word of x[…, i, k] * (q - zero) * scale
 *   where q = words[j / p, kb * words of a block + kw, j mod p] >> kt * bits, cut to its bits
 *
 * What is loaded for a word is the same for all its weights, and with the rows of a register tile
 * around, each weight is unpacked once a tile. */
#include "lower/lowering.h"

typedef struct product {
    tw_lowering *l;
    tw_stage *s;
    tw_op *op;
    unsigned rank; /* of the result: so many axes in front of the three of the sum */
    int64_t bits, block, in_word, words; /* weights in a word, words in a block */
} product;

static tw_expr constant(const product *p, int64_t value)
{
    return tw_expr_const(p->l->ctx, value);
}

/* Element [j / p, at, j mod p] of packed weights and what belongs to them. */
static tw_value *load_packed(const product *p, tw_value *buffer, tw_expr at)
{
    tw_expr j = tw_stage_axis(p->s, p->rank - 1), panel = buffer->type->dims[2];
    tw_expr index[3] = {tw_expr_binary(p->l->ctx, TW_EXPR_FLOORDIV, j, panel), at,
                        tw_expr_binary(p->l->ctx, TW_EXPR_MOD, j, panel)};
    return tw_stage_load(p->s, buffer, index);
}

/* The weight as a number: (q - zero) * scale. */
static tw_value *weight(const product *p, tw_value *const *in, tw_value *scales, tw_value *zeros)
{
    tw_context *ctx = p->l->ctx;
    tw_stage *s = p->s;
    tw_expr kb = tw_stage_axis(s, p->rank), kw = tw_stage_axis(s, p->rank + 1);
    tw_expr kt = tw_stage_axis(s, p->rank + 2);
    tw_value *word = load_packed(p, in[1], tw_expr_add(ctx, tw_expr_mulc(ctx, kb, p->words), kw));
    tw_value *shift = tw_stage_cast(s, tw_stage_index(s, tw_expr_mulc(ctx, kt, p->bits)), TW_I32);
    tw_value *q = tw_stage_op(s, "and", tw_stage_op(s, "shr", word, shift, NULL),
                              tw_stage_const(s, TW_I32, (double)((1 << p->bits) - 1)), NULL);
    tw_value *zero = zeros ? tw_stage_cast(s, load_packed(p, zeros, kb), TW_F32)
                           : tw_stage_const(s, TW_F32, (double)tw_op_int(p->op, "zero", 0));
    tw_value *scale = tw_stage_cast(s, load_packed(p, scales, kb), TW_F32);
    q = tw_stage_op(s, "sub", tw_stage_cast(s, q, TW_F32), zero, NULL);
    return tw_stage_op(s, "mul", q, scale, NULL);
}

/* x[…, i, k], 0 behind the last k: the last block may be longer than what is left. */
static tw_value *load_x(const product *p, tw_value *x, tw_expr blocks)
{
    tw_context *ctx = p->l->ctx;
    tw_stage *s = p->s;
    tw_expr index[TW_MAX_RANK], size = tw_size(x, p->rank - 1);
    for (unsigned i = 0; i + 1 < p->rank; i++)
        index[i] = tw_stage_axis(s, i);
    tw_expr word = tw_expr_add(ctx, tw_expr_mulc(ctx, tw_stage_axis(s, p->rank), p->words),
                               tw_stage_axis(s, p->rank + 1));
    tw_expr k =
        tw_expr_add(ctx, tw_expr_mulc(ctx, word, p->in_word), tw_stage_axis(s, p->rank + 2));
    index[p->rank - 1] = k;
    tw_expr inside = tw_expr_addc(ctx, tw_expr_sub(ctx, size, k), -1);
    if (size == tw_expr_mulc(ctx, blocks, p->block))
        return tw_stage_cast(s, tw_stage_load(s, x, index), TW_F32);
    tw_value *zero = tw_stage_const(s, x->type->elem, 0);
    return tw_stage_cast(s, tw_stage_load_where(s, x, index, &inside, 1, zero), TW_F32);
}

bool tw_lower_matmul_bits(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    enum { WORD = 32 };
    product p = {.l = l,
                 .op = op,
                 .rank = out[0]->type->rank,
                 .bits = tw_op_int(op, "bits", 4),
                 .block = tw_op_int(op, "block", 32)};
    p.in_word = WORD / p.bits;
    p.words = p.block / p.in_word;
    unsigned n = 0;
    tw_axis axes[TW_MAX_RANK + 3];
    for (; n + 2 < p.rank; n++)
        axes[n] = (tw_axis){tw_arena_printf(l->arena, "b%u", n), tw_size(out[0], n), false};
    axes[n] = (tw_axis){"i", tw_size(out[0], n), false};
    n++;
    axes[n] = (tw_axis){"j", tw_size(out[0], n), false};
    n++;
    axes[n++] = (tw_axis){"kb", tw_size(in[2], 1), true};
    axes[n++] = (tw_axis){"kw", constant(&p, p.words), true};
    axes[n++] = (tw_axis){"kt", constant(&p, p.in_word), true};

    tw_value *acc = tw_lower_accumulator(l, out[0], TW_F32);
    tw_stage s;
    tw_stage_open(l, &s, "matmul", axes, n);
    p.s = &s;
    tw_expr index[TW_MAX_RANK];
    for (unsigned i = 0; i < p.rank; i++)
        index[i] = tw_stage_axis(&s, i);
    tw_value *x = load_x(&p, in[0], tw_size(in[2], 1));
    tw_value *w = weight(&p, in, in[2], op->n_operands > 3 ? in[3] : NULL);
    tw_stage_reduce_product(&s, x, w, acc, index);
    tw_stage_close(&s);
    tw_lower_finish(l, "matmul", acc, out[0]);
    return true;
}
