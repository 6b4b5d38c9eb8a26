/* rnn_cell.c: what a step of RNN, GRU and LSTM computes.
 *
 * The inputs' share of all gates is one product for all steps; each step takes its part and adds
 * the state's share. Equations and gate orders (RNN: i, GRU: z r h, LSTM: i o f c) are those of the
 * specification. */
#include "import/onnx/rnn.h"

unsigned tw_onnx_rnn_gates(int kind)
{
    static const unsigned gates[] = {[TW_ONNX_RNN] = 1, [TW_ONNX_GRU] = 3, [TW_ONNX_LSTM] = 4};
    return gates[kind];
}

unsigned tw_onnx_rnn_activations(int kind)
{
    static const unsigned functions[] = {[TW_ONNX_RNN] = 1, [TW_ONNX_GRU] = 2, [TW_ONNX_LSTM] = 3};
    return functions[kind];
}

/* ---- Pieces ---- */

tw_value *tw_onnx_rnn_entry(tw_gb *g, tw_value *x, int64_t index)
{
    if (!x)
        return NULL;
    x = tw_gb_slice_axis(g, x, 0, tw_gb_const(g, index), 1, tw_gb_const(g, 1));
    return tw_gb_squeeze(g, x, 1);
}

/* Gates first … first + count - 1 along an axis of gates * hidden. */
static tw_value *gates(const tw_onnx_rnn *l, tw_value *x, unsigned axis, int64_t first,
                       int64_t count)
{
    return x ? tw_gb_slice_axis(l->g, x, axis, tw_expr_mulc(l->g->ctx, l->hidden, first), 1,
                                tw_expr_mulc(l->g->ctx, l->hidden, count))
             : NULL;
}

static tw_value *part(const tw_onnx_rnn *l, tw_value *x, int64_t index)
{
    return x ? gates(l, x, x->type->rank - 1, index, 1) : NULL;
}

static tw_value *plus(tw_gb *g, tw_value *a, tw_value *b)
{
    return b ? tw_gb_binary(g, TW_GRAPH_ADD, a, b) : a;
}

static tw_value *times(tw_gb *g, tw_value *a, tw_value *b)
{
    return tw_gb_binary(g, TW_GRAPH_MUL, a, b);
}

static tw_value *one_minus(tw_gb *g, tw_value *x)
{
    return x ? tw_gb_binary_scalar(g, TW_GRAPH_ADD, tw_gb_unary(g, TW_GRAPH_NEG, x), 1) : NULL;
}

static tw_value *gate(const tw_onnx_rnn *l, const tw_onnx_activation *f, tw_value *x)
{
    if (l->clip > 0) {
        x = tw_gb_binary_scalar(l->g, TW_GRAPH_MAX, x, -l->clip);
        x = tw_gb_binary_scalar(l->g, TW_GRAPH_MIN, x, l->clip);
    }
    return tw_onnx_activate(l->g, f, x);
}

/* x times the transposed weights. */
static tw_value *product(const tw_onnx_rnn *l, tw_value *x, tw_value *w, tw_value *scale,
                         tw_value *zero)
{
    return l->quantised ? tw_onnx_dynamic_matmul(l->g, x, w, scale, zero)
                        : tw_gb_matmul(l->g, x, w, false, true);
}

/* ---- In front of the steps ---- */

/* The inputs as they are quantised: what no sequence has does not count in their range. */
static tw_value *range_of_inputs(const tw_onnx_rnn *l)
{
    tw_gb *g = l->g;
    if (!l->quantised || !l->lengths)
        return l->x;
    tw_value *longest = tw_gb_reduce(g, TW_GRAPH_REDUCE_MAX, l->lengths, 3, false);
    tw_expr one = tw_gb_const(g, 1), dims[3] = {l->steps, one, one};
    tw_value *step = tw_gb_iota(g, TW_I64, 3, dims, 0);
    return tw_gb_where(g, tw_gb_binary(g, TW_GRAPH_LESS, step, longest), l->x,
                       tw_gb_scalar(g, l->x->type->elem, 0));
}

/* x W^T: the inputs of all steps and sequences are the rows of one matrix. */
static tw_value *input_share(const tw_onnx_rnn *l, tw_value *w, tw_value *scale, tw_value *zero)
{
    tw_gb *g = l->g;
    tw_expr rows[2] = {tw_gb_product(g, l->x->type->dims, 2), l->x->type->dims[2]};
    tw_value *all = product(l, tw_gb_reshape(g, range_of_inputs(l), 2, rows), w, scale, zero);
    if (!all)
        return NULL;
    tw_expr dims[3] = {l->steps, l->batch, all->type->dims[1]};
    return tw_gb_reshape(g, all, 3, dims);
}

/* The rows of R, and their bias, that product k of a step takes. */
static void cut_state_weights(tw_onnx_rnn_pass *p, tw_value *r, tw_value *bias)
{
    const tw_onnx_rnn *l = p->l;
    int64_t all = tw_onnx_rnn_gates(l->kind), first = l->kind == TW_ONNX_GRU ? 2 : all;
    p->r[0] = l->quantised ? r : gates(l, r, 0, 0, first);
    p->state_bias[0] = gates(l, bias, 0, 0, first);
    if (first < all) {
        p->r[1] = gates(l, r, 0, first, all - first);
        p->state_bias[1] = gates(l, bias, 0, first, all - first);
    }
}

/* GRU with linear_before_reset keeps the state's bias apart. */
tw_onnx_rnn_pass tw_onnx_rnn_begin(const tw_onnx_rnn *l, unsigned direction)
{
    tw_gb *g = l->g;
    int64_t n = tw_onnx_rnn_gates(l->kind);
    bool apart = l->kind == TW_ONNX_GRU && l->linear_before_reset;
    tw_value *scales[4], *bias = tw_onnx_rnn_entry(g, l->bias, direction);
    tw_value *state_bias = bias ? gates(l, bias, 0, n, n) : NULL;
    tw_value *peepholes = tw_onnx_rnn_entry(g, l->peepholes, direction);
    tw_onnx_rnn_pass p = {.l = l, .f = &l->f[direction * tw_onnx_rnn_activations(l->kind)]};
    for (unsigned i = 0; i < 4; i++)
        scales[i] = tw_onnx_rnn_entry(g, l->scales[i], direction);
    p.r_scale = scales[2];
    p.r_zero = scales[3];
    p.share = input_share(l, tw_onnx_rnn_entry(g, l->w, direction), scales[0], scales[1]);
    p.share = plus(g, p.share, bias ? gates(l, bias, 0, 0, n) : NULL);
    if (!apart)
        p.share = plus(g, p.share, state_bias);
    cut_state_weights(&p, tw_onnx_rnn_entry(g, l->r, direction), apart ? state_bias : NULL);
    for (unsigned i = 0; i < 3; i++)
        p.peepholes[i] = part(l, peepholes, i);
    return p;
}

/* ---- A step ---- */

/* h R^T + bias, of product k. */
static tw_value *state_share(const tw_onnx_rnn_pass *p, tw_value *h, unsigned k)
{
    return plus(p->l->g, product(p->l, h, p->r[k], p->r_scale, p->r_zero), p->state_bias[k]);
}

static tw_onnx_rnn_state rnn_step(const tw_onnx_rnn_pass *p, tw_value *x, tw_onnx_rnn_state s)
{
    tw_value *sum = tw_gb_binary(p->l->g, TW_GRAPH_ADD, x, state_share(p, s.h, 0));
    return (tw_onnx_rnn_state){.h = gate(p->l, &p->f[0], sum)};
}

/* h' = (1 - z) n + z h */
static tw_onnx_rnn_state gru_step(const tw_onnx_rnn_pass *p, tw_value *x, tw_onnx_rnn_state s)
{
    const tw_onnx_rnn *l = p->l;
    tw_gb *g = l->g;
    tw_value *zr = state_share(p, s.h, 0), *inner;
    tw_value *z = gate(l, &p->f[0], tw_gb_binary(g, TW_GRAPH_ADD, part(l, x, 0), part(l, zr, 0)));
    tw_value *r = gate(l, &p->f[0], tw_gb_binary(g, TW_GRAPH_ADD, part(l, x, 1), part(l, zr, 1)));
    if (l->linear_before_reset)
        inner = times(g, r, state_share(p, s.h, 1));
    else
        inner = state_share(p, times(g, r, s.h), 1);
    tw_value *fresh = gate(l, &p->f[1], tw_gb_binary(g, TW_GRAPH_ADD, part(l, x, 2), inner));
    return (tw_onnx_rnn_state){
        .h = tw_gb_binary(g, TW_GRAPH_ADD, times(g, one_minus(g, z), fresh), times(g, z, s.h))};
}

/* A gate of LSTM: with its part of the peepholes times c. */
static tw_value *lstm_gate(const tw_onnx_rnn_pass *p, tw_value *sum, unsigned index,
                           tw_value *peephole, tw_value *c)
{
    tw_value *x = part(p->l, sum, index);
    return gate(p->l, &p->f[0], peephole ? plus(p->l->g, x, times(p->l->g, peephole, c)) : x);
}

/* c' = f c + i g;  h' = o activation(c') */
static tw_onnx_rnn_state lstm_step(const tw_onnx_rnn_pass *p, tw_value *x, tw_onnx_rnn_state s)
{
    const tw_onnx_rnn *l = p->l;
    tw_gb *g = l->g;
    tw_value *sum = tw_gb_binary(g, TW_GRAPH_ADD, x, state_share(p, s.h, 0));
    tw_value *i = lstm_gate(p, sum, 0, p->peepholes[0], s.c);
    tw_value *f = l->input_forget ? one_minus(g, i) : lstm_gate(p, sum, 2, p->peepholes[2], s.c);
    tw_value *fresh = gate(l, &p->f[1], part(l, sum, 3));
    tw_value *c = tw_gb_binary(g, TW_GRAPH_ADD, times(g, f, s.c), times(g, i, fresh));
    tw_value *o = lstm_gate(p, sum, 1, p->peepholes[1], c);
    return (tw_onnx_rnn_state){.h = times(g, o, tw_onnx_activate(g, &p->f[2], c)), .c = c};
}

tw_onnx_rnn_state tw_onnx_rnn_step(const tw_onnx_rnn_pass *p, tw_value *t, tw_onnx_rnn_state s,
                                   tw_value **y)
{
    const tw_onnx_rnn *l = p->l;
    tw_gb *g = l->g;
    tw_value *x = tw_gb_gather(g, p->share, t, 0);
    tw_onnx_rnn_state next = l->kind == TW_ONNX_RNN   ? rnn_step(p, x, s)
                             : l->kind == TW_ONNX_GRU ? gru_step(p, x, s)
                                                      : lstm_step(p, x, s);
    *y = next.h;
    if (l->lengths && next.h) {
        tw_value *on = tw_gb_binary(g, TW_GRAPH_GREATER, l->lengths, t);
        *y = tw_gb_where(g, on, next.h, tw_gb_scalar(g, next.h->type->elem, 0));
        next.h = tw_gb_where(g, on, next.h, s.h);
        next.c = next.c ? tw_gb_where(g, on, next.c, s.c) : NULL;
    }
    return next;
}
