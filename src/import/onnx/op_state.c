/* op_state.c: layers that carry a state from call to call: CausalConvWithState and LinearAttention,
 * the latter of a known number of steps, unrolled. */
#include "import/onnx/attention.h"

#include <math.h>
#include <string.h>

enum { MAX_STEPS = 1000 };

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

/* A convolution of each channel by itself, without padding. */
static tw_value *depthwise(tw_onnx_node *n, tw_value *x, tw_value *weights, int64_t dilation,
                           tw_expr length)
{
    int64_t channels, one = 1, zero = 0;
    tw_gb *g = n->g;
    if (!x || !tw_expr_as_const(x->type->dims[1], &channels) || channels <= 0)
        return x ? tw_gb_error(g, "the number of channels of %s must be known",
                               tw_gb_type_text(g, x->type))
                 : NULL;
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
    int64_t dilation, taps;
    tw_gb *g = n->g;
    tw_onnx_activation f = {.name = ""};
    const char *name = tw_onnx_string(n, "activation", "none", &ok);
    tw_type x = n->in[0]->type, w = n->in[1]->type;
    if (!ok || !read_layout(n, &last, &dilation))
        return false;
    if (x->rank != 3 || w->rank != 3 || !tw_expr_as_const(w->dims[2], &taps) || taps <= 0 ||
        strlen(name) >= sizeof f.name)
        return tw_onnx_error(n, "input %s and weights %s, activation '%s'", tw_gb_type_text(g, x),
                             tw_gb_type_text(g, w), name);
    tw_value *data = swap_channels(g, n->in[0], last), *past = tw_onnx_in(n, 3);
    if (!data || (past && past->type->rank != 3))
        return data && tw_onnx_error(n, "the state is %s; three axes are needed",
                                     tw_gb_type_text(g, past->type));
    tw_expr reach = tw_gb_const(g, (taps - 1) * dilation), length = data->type->dims[2];
    past = past ? swap_channels(g, past, last)
                : tw_gb_splat(g, x->elem, 0, 3,
                              (tw_expr[]){data->type->dims[0], data->type->dims[1], reach});
    tw_value *all = taps > 1 ? tw_gb_concat(g, (tw_value *[]){past, data}, 2, 2) : data;
    tw_value *y = depthwise(n, all, n->in[1], dilation, length);
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
    int64_t steps;
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

/* Input i with its heads apart, in the type of the computation; NULL when it is left out. */
static tw_value *heads_of(linear *l, unsigned i, int64_t heads)
{
    tw_value *x = tw_onnx_in(l->n, i);
    return x ? tw_onnx_split_heads(l->g, tw_gb_cast(l->g, x, l->elem), heads) : NULL;
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
    l->q = heads_of(l, 0, q_heads);
    l->k = heads_of(l, 1, heads);
    l->v = heads_of(l, 2, heads);
    if (!l->q || !l->k || !l->v)
        return false;
    if (!tw_expr_as_const(l->q->type->dims[2], &l->steps) || l->steps > MAX_STEPS)
        return tw_onnx_error(n, "%s steps; a known number of at most %d is needed",
                             tw_print_expr(n->ctx, l->q->type->dims[2], NULL), MAX_STEPS);
    if (heads > q_heads)
        l->q = tw_onnx_repeat_heads(g, l->q, l->k->type->dims[1]);
    if (l->gated)
        l->factor = tw_gb_unary(g, TW_GRAPH_EXP, heads_of(l, 4, heads));
    if (l->delta) {
        bool one = n->in[5]->type->rank == 3 && n->in[5]->type->dims[2] == tw_gb_const(g, 1);
        l->beta = heads_of(l, 5, one ? 1 : heads);
    }
    const tw_expr *k = l->k->type->dims;
    l->state = tw_onnx_in(n, 3) ? tw_gb_cast(g, n->in[3], l->elem)
                                : tw_gb_splat(g, l->elem, 0, 4,
                                              (tw_expr[]){k[0], k[1], k[3], l->v->type->dims[3]});
    return l->state && (!l->gated || l->factor) && (!l->delta || l->beta);
}

/* Step t of [batch, heads, steps, size]; as a column, [batch, heads, size, 1]. */
static tw_value *row_at(linear *l, tw_value *x, int64_t t)
{
    return tw_gb_slice_axis(l->g, x, 2, tw_gb_const(l->g, t), 1, tw_gb_const(l->g, 1));
}

static tw_value *column_at(linear *l, tw_value *x, int64_t t)
{
    static const int64_t swap[4] = {0, 1, 3, 2};
    return tw_gb_transpose(l->g, row_at(l, x, t), swap);
}

/* q^T S: each head of the state serves a group of queries. */
static tw_value *read_state(linear *l, int64_t t)
{
    tw_gb *g = l->g;
    tw_value *q = row_at(l, l->q, t);
    if (!q || !l->state)
        return NULL;
    const tw_expr *d = q->type->dims, *s = l->state->type->dims;
    tw_expr each = tw_gb_quotient(g, &d[1], 1, &s[1], 1);
    if (!each)
        return tw_gb_error(g, "%s has no whole part of the heads of the queries",
                           tw_gb_type_text(g, l->state->type));
    q = tw_gb_reshape(g, q, 4, (tw_expr[]){d[0], s[1], each, d[3]});
    tw_value *y = tw_gb_matmul(g, q, l->state, false, false);
    return tw_gb_reshape(g, y, 4, (tw_expr[]){d[0], d[1], tw_gb_const(g, 1), s[3]});
}

static tw_value *step(linear *l, int64_t t)
{
    tw_gb *g = l->g;
    if (l->gated)
        l->state = tw_gb_binary(g, TW_GRAPH_MUL, l->state, column_at(l, l->factor, t));
    tw_value *v = row_at(l, l->v, t);
    if (l->delta) {
        tw_value *found = tw_gb_matmul(g, row_at(l, l->k, t), l->state, false, false);
        v = tw_gb_binary(g, TW_GRAPH_SUB, v, found);
        v = tw_gb_binary(g, TW_GRAPH_MUL, v, row_at(l, l->beta, t));
    }
    tw_value *product = tw_gb_binary(g, TW_GRAPH_MUL, column_at(l, l->k, t), v);
    l->state = tw_gb_binary(g, TW_GRAPH_ADD, l->state, product);
    return read_state(l, t);
}

bool tw_onnx_op_linear_attention(tw_onnx_node *n)
{
    linear l = {.n = n, .g = n->g};
    tw_gb *g = n->g;
    int64_t size;
    if (!read_linear(&l))
        return false;
    if (l.scale == 0) {
        if (!tw_expr_as_const(l.q->type->dims[3], &size) || size <= 0)
            return tw_onnx_error(n, "the size of a head must be known");
        l.scale = 1 / sqrt((double)size);
    }
    tw_value **y = TW_NEW_ARRAY(n->im->arena, tw_value *, (size_t)l.steps + 1);
    for (int64_t t = 0; t < l.steps; t++)
        if (!(y[t] = step(&l, t)))
            return false;
    if (l.steps == 0)
        return tw_onnx_error(n, "no steps");
    tw_value *all = tw_gb_concat(g, y, (unsigned)l.steps, 2);
    all = tw_onnx_join_heads(g, tw_gb_binary_scalar(g, TW_GRAPH_MUL, all, l.scale));
    tw_elem state = tw_onnx_in(n, 3) ? n->in[3]->type->elem : n->in[0]->type->elem;
    return tw_onnx_set(n, 0, tw_gb_cast(g, all, n->in[0]->type->elem)) &&
           tw_onnx_set(n, 1, tw_gb_cast(g, l.state, state));
}
