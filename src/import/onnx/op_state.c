/* op_state.c: layers that carry a state from call to call: CausalConvWithState and LinearAttention,
 * whose steps are a loop. */
#include "import/onnx/attention.h"
#include "import/onnx/loop.h"

#include <string.h>

/* ---- CausalConvWithState ---- */

/* Channels, axis 2 of three, as axis 1, and back. */
static tw_value *swap_channels(tw_gb *g, tw_value *x, bool wanted)
{
    static const int64_t swap[3] = {0, 2, 1};
    return wanted && x ? tw_gb_transpose(g, x, swap) : x;
}

/* Attributes that only com.microsoft's form has. */
static bool read_layout(tw_onnx_node *n, bool *last, int64_t *dilation)
{
    static const struct {
        const char *name;
        int64_t usual;
    } refused[] = {{"ndim", 1},
                   {"state_window", 0},
                   {"state_length", 0},
                   {"state_update_capacity", 0},
                   {"input_channels", 0},
                   {"input_channel_offset", 0},
                   {"state_channels_last", -1}};
    bool ok = true;
    *last = tw_onnx_int(n, "channels_last", 0, &ok);
    *dilation = tw_onnx_int(n, "dilation", 1, &ok);
    for (size_t i = 0; ok && i < sizeof refused / sizeof *refused; i++) {
        int64_t value = tw_onnx_int(n, refused[i].name, refused[i].usual, &ok);
        if (ok && value != refused[i].usual)
            return tw_onnx_error(n, "attribute '%s' is %lld, which is not supported",
                                 refused[i].name, (long long)value);
    }
    return ok && ((*dilation > 0 && *dilation <= INT32_MAX) ||
                  tw_onnx_error(n, "attribute 'dilation' is %lld", (long long)*dilation));
}

/* A convolution of each channel by itself as a sum over the taps, [batch, channels, length, taps]:
 * of as many channels as the run decides. */
static tw_value *sum_of_taps(tw_onnx_node *n, tw_value *x, tw_value *weights, int64_t dilation,
                             tw_expr length)
{
    tw_gb *g = n->g;
    tw_expr taps = weights->type->dims[2], one = tw_gb_const(g, 1);
    tw_value *at = tw_gb_binary_scalar(
        g, TW_GRAPH_MUL, tw_gb_iota(g, TW_I64, 2, (tw_expr[]){one, taps}, 1), (double)dilation);
    at = tw_gb_binary(g, TW_GRAPH_ADD, at, tw_gb_iota(g, TW_I64, 2, (tw_expr[]){length, one}, 0));
    tw_value *each = tw_gb_reshape(g, weights, 4, (tw_expr[]){one, x->type->dims[1], one, taps});
    tw_elem elem = x->type->elem, work = elem == TW_F64 ? TW_F64 : TW_F32;
    tw_value *found = tw_gb_cast(g, tw_gb_gather(g, x, at, 2), work);
    tw_value *products = tw_gb_binary(g, TW_GRAPH_MUL, found, tw_gb_cast(g, each, work));
    return tw_gb_cast(g, tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, products, 8, false), elem);
}

/* A convolution of each channel by itself, without padding. */
static tw_value *depthwise(tw_onnx_node *n, tw_value *x, tw_value *weights, int64_t dilation,
                           tw_expr length)
{
    int64_t channels, one = 1, zero = 0;
    tw_gb *g = n->g;
    if (!x || !tw_expr_as_const(x->type->dims[1], &channels) || channels <= 0)
        return x ? sum_of_taps(n, x, weights, dilation, length) : NULL;
    tw_expr dims[3] = {x->type->dims[0], x->type->dims[1], length};
    return TW_GB_EMIT(g, CONV, ((tw_value *[]){x, weights}), 2,
                      tw_type_tensor(n->ctx, x->type->elem, 3, dims, NULL),
                      {"strides", tw_attr_ints(n->ctx, &one, 1)},
                      {"dilations", tw_attr_ints(n->ctx, &dilation, 1)},
                      {"pads_begin", tw_attr_ints(n->ctx, &zero, 1)},
                      {"pads_end", tw_attr_ints(n->ctx, &zero, 1)},
                      {"groups", tw_attr_int(n->ctx, channels)});
}

/* The convolution of [state | x], whose last elements are the new state. */
bool tw_onnx_op_causal_conv(tw_onnx_node *n)
{
    bool ok = true, last;
    int64_t dilation;
    tw_gb *g = n->g;
    tw_expr one = tw_gb_const(g, 1);
    tw_onnx_activation f = {.name = ""};
    const char *name = tw_onnx_string(n, "activation", "none", &ok);
    tw_type x = n->in[0]->type, w = n->in[1]->type;
    if (!ok || !read_layout(n, &last, &dilation))
        return false;
    if (x->rank != 3 || w->rank != 3 || strlen(name) >= sizeof f.name)
        return tw_onnx_error(n, "input %s and weights %s, activation '%s'", tw_gb_type_text(g, x),
                             tw_gb_type_text(g, w), name);
    tw_value *data = swap_channels(g, n->in[0], last), *past, *weights;
    if (!data || !tw_onnx_sized(n, 1, 3, (tw_expr[]){data->type->dims[1], one, NULL}, &weights))
        return false;
    tw_expr reach = tw_expr_mulc(n->ctx, tw_expr_addc(n->ctx, w->dims[2], -1), dilation);
    tw_expr batch = data->type->dims[0], channels = data->type->dims[1];
    tw_expr length = data->type->dims[2];
    if (!tw_gb_check(g, reach, "CausalConvWithState: weights without an element") ||
        !tw_onnx_sized(n, 3, 3,
                       (tw_expr[]){batch, last ? reach : channels, last ? channels : reach}, &past))
        return false;
    past = past ? swap_channels(g, past, last)
                : tw_gb_splat(g, x->elem, 0, 3, (tw_expr[]){batch, channels, reach});
    tw_value *all =
        reach == tw_gb_const(g, 0) ? data : tw_gb_concat(g, (tw_value *[]){past, data}, 2, 2);
    tw_value *y = depthwise(n, all, weights, dilation, length);
    y = tw_onnx_add_bias(n, y, tw_onnx_in(n, 2));
    strcpy(f.name, name);
    if (strcmp(name, "none"))
        y = tw_onnx_activate(g, &f, y);
    tw_value *state = tw_gb_slice_axis(g, all, 2, length, 1, reach);
    return tw_onnx_set(n, 0, swap_channels(g, y, last)) &&
           tw_onnx_set(n, 1, swap_channels(g, state, last));
}

/* ---- LinearAttention ---- */

/*     S = e^decay S + k (x) (beta (v - e^decay S^T k))      o = scale q^T S
 * The decay and the correction of v are there or not as the rule has it. */
typedef struct linear {
    tw_onnx_node *n;
    tw_gb *g;
    bool gated, delta;
    double scale;
    tw_elem elem;                        /* of the computation */
    tw_value *q, *k, *v, *factor, *beta; /* [batch, heads, steps, size]; NULL: not there */
    tw_value *state;                     /* [batch, heads, key size, value size] */
} linear;

static bool read_rule(linear *l)
{
    static const struct {
        const char *name;
        bool gated, delta;
    } rules[] = {{"linear", false, false},
                 {"gated", true, false},
                 {"delta", false, true},
                 {"gated_delta", true, true}};
    bool ok = true;
    const char *name = tw_onnx_string(l->n, "update_rule", "gated_delta", &ok);
    if (ok && tw_onnx_int(l->n, "state_window", 0, &ok))
        return tw_onnx_error(l->n, "attribute 'state_window' is not supported");
    for (size_t i = 0; ok && i < sizeof rules / sizeof *rules; i++)
        if (!strcmp(name, rules[i].name)) {
            l->gated = rules[i].gated;
            l->delta = rules[i].delta;
            return true;
        }
    return ok && tw_onnx_error(l->n,
                               "attribute 'update_rule' is '%s'; accepted are linear, gated, "
                               "delta, gated_delta",
                               name);
}

/* x with its heads apart, in the type of the computation. */
static tw_value *heads_of(linear *l, tw_value *x, int64_t heads)
{
    return x ? tw_onnx_split_heads(l->g, tw_gb_cast(l->g, x, l->elem), heads) : NULL;
}

/* Input i, [batch, steps, part * heads] or one for each of `part`, with part * heads columns: when
 * only the run knows which it is, column j is read at j or at j / heads. */
static tw_value *spread(linear *l, unsigned i, tw_expr few, tw_expr all)
{
    tw_gb *g = l->g;
    tw_value *x = l->n->in[i];
    int64_t known;
    if (x->type->rank != 3 || tw_expr_as_const(x->type->dims[2], &known))
        return x;
    tw_expr d = x->type->dims[2];
    tw_expr off = tw_expr_mul(g->ctx, tw_expr_sub(g->ctx, d, few), tw_expr_sub(g->ctx, d, all));
    if (!tw_gb_check_equal(g, off, tw_gb_const(g, 0), "columns of a decay or a rate"))
        return NULL;
    tw_value *j = tw_gb_iota(g, TW_I64, 1, &all, 0);
    tw_value *share =
        tw_gb_binary(g, TW_GRAPH_DIV, tw_onnx_size_value(g, all), tw_onnx_size_of(g, x, 2));
    return tw_gb_gather(g, x, tw_gb_binary(g, TW_GRAPH_DIV, j, share), 2);
}

static bool read_linear(linear *l)
{
    bool ok = true;
    tw_onnx_node *n = l->n;
    tw_gb *g = l->g;
    int64_t q_heads = tw_onnx_int(n, "q_num_heads", 0, &ok);
    int64_t heads = tw_onnx_int(n, "kv_num_heads", 0, &ok);
    l->scale = tw_onnx_float(n, "scale", 0, &ok);
    l->elem = n->in[0]->type->elem == TW_F64 ? TW_F64 : TW_F32;
    if (!ok || !read_rule(l) || !tw_onnx_check_elem(n, 0, TW_ONNX_FLOATS))
        return false;
    if ((l->gated && !tw_onnx_in(n, 4)) || (l->delta && !tw_onnx_in(n, 5)))
        return tw_onnx_error(n, "the update rule needs input %d", l->gated ? 4 : 5);
    l->q = heads_of(l, n->in[0], q_heads);
    l->k = heads_of(l, n->in[1], heads);
    l->v = heads_of(l, n->in[2], heads);
    if (!l->q || !l->k || !l->v)
        return false;
    const tw_expr *q = l->q->type->dims, *k = l->k->type->dims;
    l->k = tw_gb_conform(g, l->k, (tw_expr[]){q[0], k[1], q[2], q[3]});
    l->v = tw_gb_conform(g, l->v, (tw_expr[]){q[0], k[1], q[2], l->v->type->dims[3]});
    if (!l->k || !l->v)
        return false;
    if (heads > q_heads)
        l->q = tw_onnx_repeat_heads(g, l->q, l->k->type->dims[1]);
    tw_expr count = tw_gb_const(g, heads), one = tw_gb_const(g, 1);
    if (l->gated) {
        tw_expr all = tw_expr_mul(n->ctx, count, q[3]);
        l->factor = tw_gb_unary(g, TW_GRAPH_EXP, heads_of(l, spread(l, 4, count, all), heads));
    }
    if (l->delta) {
        tw_value *beta = spread(l, 5, one, count);
        bool single = beta && beta->type->rank == 3 && beta->type->dims[2] == one;
        l->beta = heads_of(l, beta, single ? 1 : heads);
    }
    k = l->k->type->dims;
    tw_expr dims[4] = {k[0], k[1], k[3], l->v->type->dims[3]};
    if (!tw_onnx_sized(n, 3, 4, dims, &l->state))
        return false;
    l->state = l->state ? tw_gb_cast(g, l->state, l->elem) : tw_gb_splat(g, l->elem, 0, 4, dims);
    return l->state && (!l->gated || l->factor) && (!l->delta || l->beta);
}

/* Step t of [batch, heads, steps, size]: [batch, heads, 1, size]; as a column, [batch, heads, size,
 * 1]. */
static tw_value *row_at(linear *l, tw_value *x, tw_value *t)
{
    return tw_gb_unsqueeze(l->g, tw_gb_gather(l->g, x, t, 2), 4);
}

static tw_value *column_at(linear *l, tw_value *x, tw_value *t)
{
    return tw_gb_unsqueeze(l->g, tw_gb_gather(l->g, x, t, 2), 8);
}

/* q^T S, [batch, heads, size]: each head of the state serves a group of queries. */
static tw_value *read_state(linear *l, tw_value *t, tw_value *state)
{
    tw_gb *g = l->g;
    tw_value *q = tw_gb_gather(g, l->q, t, 2);
    if (!q || !state)
        return NULL;
    const tw_expr *d = q->type->dims, *s = state->type->dims;
    tw_expr each = tw_gb_quotient(g, &d[1], 1, &s[1], 1);
    if (!each)
        return tw_gb_error(g, "%s has no whole part of the heads of the queries",
                           tw_gb_type_text(g, state->type));
    q = tw_gb_reshape(g, q, 4, (tw_expr[]){d[0], s[1], each, d[2]});
    tw_value *y = tw_gb_matmul(g, q, state, false, false);
    return tw_gb_reshape(g, y, 3, (tw_expr[]){d[0], d[1], s[3]});
}

static bool step(void *data, tw_value *t, tw_value *const *states, tw_value **next, tw_value **row)
{
    linear *l = data;
    tw_gb *g = l->g;
    tw_value *state = states[0], *v = row_at(l, l->v, t);
    if (l->gated)
        state = tw_gb_binary(g, TW_GRAPH_MUL, state, column_at(l, l->factor, t));
    if (l->delta) {
        tw_value *found = tw_gb_matmul(g, row_at(l, l->k, t), state, false, false);
        v = tw_gb_binary(g, TW_GRAPH_SUB, v, found);
        v = tw_gb_binary(g, TW_GRAPH_MUL, v, row_at(l, l->beta, t));
    }
    tw_value *product = tw_gb_binary(g, TW_GRAPH_MUL, column_at(l, l->k, t), v);
    state = tw_gb_binary(g, TW_GRAPH_ADD, state, product);
    next[0] = state ? tw_gb_conform(g, state, states[0]->type->dims) : NULL;
    *row = read_state(l, t, next[0]);
    return *row != NULL;
}

bool tw_onnx_op_linear_attention(tw_onnx_node *n)
{
    static const int64_t steps_inside[4] = {1, 2, 0, 3};
    linear l = {.n = n, .g = n->g};
    tw_gb *g = n->g;
    tw_value *all;
    if (!read_linear(&l) || !tw_onnx_steps(n, l.q, 2, &l.state, 1, step, &l, &all))
        return false;
    all = tw_gb_binary(g, TW_GRAPH_MUL, tw_gb_transpose(g, all, steps_inside),
                       tw_onnx_scale(g, l.q, l.scale));
    all = tw_onnx_join_heads(g, all);
    tw_elem state = tw_onnx_in(n, 3) ? n->in[3]->type->elem : n->in[0]->type->elem;
    return tw_onnx_set(n, 0, tw_gb_cast(g, all, n->in[0]->type->elem)) &&
           tw_onnx_set(n, 1, tw_gb_cast(g, l.state, state));
}
