/* op_rnn.c: recurrent layers (RNN, GRU, LSTM) of a known number of steps, unrolled.
 *
 * The inputs' share of all gates is one product for all steps; each step then takes its part and
 * adds the state's share. Inside, time is axis 0 (layout 0); layout 1 is transposed before and
 * after. Equations and gate orders (RNN: i, GRU: z r h, LSTM: i o f c) are those of the
 * specification. */
#include "import/onnx/import.h"

#include <string.h>

enum { RNN, GRU, LSTM, QUANTISED_LSTM }; /* `param` */
enum { MAX_STEPS = 1000 };
enum { SCALES = 8 }; /* input: scale and zero point of W, then of R */

static const unsigned gates_of[] = {[RNN] = 1, [GRU] = 3, [LSTM] = 4};
static const unsigned activations_of[] = {[RNN] = 1, [GRU] = 2, [LSTM] = 3};

/* What all steps of one layer share. */
typedef struct layer {
    tw_onnx_node *n;
    tw_gb *g;
    int kind;
    unsigned directions;
    bool backward; /* of a single direction */
    bool batch_first, linear_before_reset, input_forget;
    bool quantised; /* weights are [in, out] integers with scales; products are of integers */
    double clip;    /* 0: none */
    int64_t steps, hidden;
    tw_expr batch;
    tw_value *x;       /* [steps, batch, inputs] */
    tw_value *lengths; /* [batch, 1] of i64, or NULL */
    tw_onnx_activation f[6];
} layer;

/* One direction of it. */
typedef struct pass {
    tw_value *r; /* [gates * hidden, hidden]; quantised: [hidden, gates * hidden] */
    tw_value *r_scale, *r_zero;
    tw_value *share;      /* [steps, batch, gates * hidden]: of the inputs, with their bias */
    tw_value *state_bias; /* [gates * hidden], or NULL */
    tw_value *peepholes;  /* [3 * hidden], or NULL */
    const tw_onnx_activation *f;
} pass;

/* The state: h, and c for LSTM; [batch, hidden]. */
typedef struct state {
    tw_value *h, *c;
} state;

/* ---- Attributes ---- */

static bool takes_alpha(const tw_onnx_activation *f)
{
    return f->alpha != 0;
}

static bool takes_beta(const tw_onnx_activation *f)
{
    return !strcasecmp(f->name, "affine") || f->beta != 0;
}

/* Lists of parameters have entries for those functions that take one, in order. */
static bool read_activations(layer *l)
{
    static const char *const usual[][3] = {
        [RNN] = {"Tanh"}, [GRU] = {"Sigmoid", "Tanh"}, [LSTM] = {"Sigmoid", "Tanh", "Tanh"}};
    tw_onnx_node *n = l->n;
    bool ok = true;
    unsigned each = activations_of[l->kind], count = each * l->directions;
    size_t n_alpha, n_beta, alpha = 0, beta = 0;
    const float *alphas = tw_onnx_float_list(n, "activation_alpha", &n_alpha, &ok);
    const float *betas = tw_onnx_float_list(n, "activation_beta", &n_beta, &ok);
    const Onnx__AttributeProto *names = tw_onnx_attr(n, "activations");
    if (!ok)
        return false;
    if (names && names->n_strings != count)
        return tw_onnx_error(n, "%zu activation functions; %u are needed", names->n_strings, count);
    for (unsigned i = 0; i < count; i++) {
        tw_onnx_activation *f = &l->f[i];
        if (names) {
            size_t len = names->strings[i].len;
            if (len < sizeof f->name)
                memcpy(f->name, names->strings[i].data, len);
        } else {
            strcpy(f->name, usual[l->kind][i % each]);
        }
        tw_onnx_activation_defaults(f);
        bool has_alpha = takes_alpha(f), has_beta = takes_beta(f);
        if (has_alpha && alpha < n_alpha)
            f->alpha = (double)alphas[alpha++];
        if (has_beta && beta < n_beta)
            f->beta = (double)betas[beta++];
    }
    return true;
}

static bool read_attributes(layer *l)
{
    tw_onnx_node *n = l->n;
    bool ok = true;
    const char *direction = tw_onnx_string(n, "direction", "forward", &ok);
    l->batch_first = tw_onnx_int(n, "layout", 0, &ok);
    l->linear_before_reset = tw_onnx_int(n, "linear_before_reset", 0, &ok);
    l->input_forget = tw_onnx_int(n, "input_forget", 0, &ok);
    l->clip = tw_onnx_float(n, "clip", 0, &ok);
    if (!ok)
        return false;
    l->directions = !strcmp(direction, "bidirectional") ? 2 : 1;
    l->backward = !strcmp(direction, "reverse");
    if (l->directions == 1 && !l->backward && strcmp(direction, "forward"))
        return tw_onnx_error(n,
                             "attribute 'direction' is '%s'; accepted are forward, reverse, "
                             "bidirectional",
                             direction);
    return read_activations(l);
}

/* Whether v has that shape; an error names the input. */
static bool check_shape(layer *l, unsigned i, unsigned rank, const tw_expr *dims)
{
    const tw_value *v = tw_onnx_in(l->n, i);
    bool fits = !v || v->type->rank == rank;
    for (unsigned a = 0; v && fits && a < rank; a++)
        fits = !tw_gb_differ(l->g, v->type->dims[a], dims[a]);
    if (!fits)
        return tw_onnx_error(
            l->n, "input %u is %s; %s is needed", i, tw_gb_type_text(l->g, v->type),
            tw_gb_type_text(l->g, tw_type_tensor(l->g->ctx, v->type->elem, rank, dims, NULL)));
    for (unsigned a = 0; v && a < rank; a++)
        if (!tw_gb_check_equal(l->g, v->type->dims[a], dims[a], "inputs of a recurrent layer"))
            return false;
    return true;
}

/* Scales and zero points: one number for each direction, or for each of its rows. */
static bool check_scales(layer *l, tw_expr directions, tw_expr rows)
{
    for (unsigned i = SCALES; i < SCALES + 4; i++) {
        const tw_value *v = tw_onnx_in(l->n, i);
        if (!v)
            return tw_onnx_error(l->n, "input %u is missing", i);
        if (!check_shape(l, i, v->type->rank == 1 ? 1 : 2, (tw_expr[]){directions, rows}))
            return false;
    }
    return true;
}

static bool check_shapes(layer *l)
{
    tw_gb *g = l->g;
    int64_t rows = gates_of[l->kind] * l->hidden;
    tw_expr d = tw_gb_const(g, l->directions), h = tw_gb_const(g, l->hidden);
    tw_expr inputs = l->x->type->dims[2], steps = tw_gb_const(g, rows);
    tw_expr first = l->batch_first ? l->batch : d, second = l->batch_first ? d : l->batch;
    tw_expr w[3] = {d, l->quantised ? inputs : steps, l->quantised ? steps : inputs};
    tw_expr r[3] = {d, l->quantised ? h : steps, l->quantised ? steps : h};
    return (!l->quantised || check_scales(l, d, steps)) && check_shape(l, 1, 3, w) &&
           check_shape(l, 2, 3, r) &&
           check_shape(l, 3, 2, (tw_expr[]){d, tw_gb_const(g, 2 * rows)}) &&
           check_shape(l, 4, 1, (tw_expr[]){l->batch}) &&
           check_shape(l, 5, 3, (tw_expr[]){first, second, h}) &&
           check_shape(l, 6, 3, (tw_expr[]){first, second, h}) &&
           check_shape(l, 7, 2, (tw_expr[]){d, tw_gb_const(g, 3 * l->hidden)});
}

static bool read_layer(layer *l)
{
    static const int64_t swap[3] = {1, 0, 2};
    tw_onnx_node *n = l->n;
    tw_type r = n->in[2]->type;
    l->x = n->in[0];
    unsigned axis = l->quantised ? 1 : 2;
    if (l->x->type->rank != 3 || r->rank != 3 || !tw_expr_as_const(r->dims[axis], &l->hidden) ||
        l->hidden <= 0 || l->hidden > INT32_MAX)
        return tw_onnx_error(n, "inputs %s and recurrent weights %s",
                             tw_gb_type_text(l->g, l->x->type), tw_gb_type_text(l->g, r));
    bool ok = true;
    int64_t said = tw_onnx_int(n, "hidden_size", l->hidden, &ok);
    if (!ok || said != l->hidden)
        return ok &&
               tw_onnx_error(n, "attribute 'hidden_size' is %lld, but the weights are for %lld",
                             (long long)said, (long long)l->hidden);
    if (l->batch_first)
        l->x = tw_gb_transpose(l->g, l->x, swap);
    if (!tw_expr_as_const(l->x->type->dims[0], &l->steps))
        return tw_onnx_error(n, "the number of steps, %s, must be known; fix it (--shape)",
                             tw_print_expr(n->ctx, l->x->type->dims[0], NULL));
    if (l->steps <= 0 || l->steps > MAX_STEPS)
        return tw_onnx_error(n, "%lld steps; 1 to %d are supported", (long long)l->steps,
                             MAX_STEPS);
    l->batch = l->x->type->dims[1];
    if (!check_shapes(l))
        return false;
    if (tw_onnx_in(n, 4))
        l->lengths = tw_gb_unsqueeze(l->g, tw_gb_cast(l->g, n->in[4], TW_I64), 2);
    return true;
}

/* ---- One direction ---- */

/* Entry `index` of axis 0, without the axis; NULL of NULL. */
static tw_value *entry(tw_gb *g, tw_value *x, int64_t index)
{
    if (!x)
        return NULL;
    x = tw_gb_slice_axis(g, x, 0, tw_gb_const(g, index), 1, tw_gb_const(g, 1));
    return tw_gb_squeeze(g, x, 1);
}

/* Part `index` of `size` along the last axis. */
static tw_value *part(tw_gb *g, tw_value *x, int64_t index, int64_t size)
{
    return x ? tw_gb_slice_axis(g, x, x->type->rank - 1, tw_gb_const(g, index * size), 1,
                                tw_gb_const(g, size))
             : NULL;
}

static tw_value *plus(tw_gb *g, tw_value *a, tw_value *b)
{
    return b ? tw_gb_binary(g, TW_GRAPH_ADD, a, b) : a;
}

static tw_value *times(tw_gb *g, tw_value *a, tw_value *b)
{
    return tw_gb_binary(g, TW_GRAPH_MUL, a, b);
}

static tw_value *clipped(layer *l, tw_value *x)
{
    if (l->clip <= 0)
        return x;
    x = tw_gb_binary_scalar(l->g, TW_GRAPH_MAX, x, -l->clip);
    return tw_gb_binary_scalar(l->g, TW_GRAPH_MIN, x, l->clip);
}

/* x times the transposed weights. */
static tw_value *product(layer *l, tw_value *x, tw_value *w, tw_value *scale, tw_value *zero)
{
    return l->quantised ? tw_onnx_dynamic_matmul(l->g, x, w, scale, zero)
                        : tw_gb_matmul(l->g, x, w, false, true);
}

/* The inputs as they are quantised: what no sequence has does not count in their range. */
static tw_value *range_of_inputs(layer *l)
{
    tw_gb *g = l->g;
    if (!l->quantised || !l->lengths)
        return l->x;
    tw_value *longest = tw_gb_reduce(g, TW_GRAPH_REDUCE_MAX, l->lengths, 3, false);
    tw_expr one = tw_gb_const(g, 1), dims[3] = {l->x->type->dims[0], one, one};
    tw_value *step = tw_gb_iota(g, TW_I64, 3, dims, 0);
    return tw_gb_where(g, tw_gb_binary(g, TW_GRAPH_LESS, step, longest), l->x,
                       tw_gb_scalar(g, l->x->type->elem, 0));
}

/* x W^T + bias for all steps. GRU with linear_before_reset keeps the state's bias apart. */
static pass make_pass(layer *l, unsigned d)
{
    tw_gb *g = l->g;
    tw_onnx_node *n = l->n;
    int64_t rows = gates_of[l->kind] * l->hidden;
    tw_value *bias = entry(g, tw_onnx_in(n, 3), d);
    pass p = {.r = entry(g, n->in[2], d),
              .peepholes = l->kind == LSTM ? entry(g, tw_onnx_in(n, 7), d) : NULL,
              .f = &l->f[d * activations_of[l->kind]]};
    tw_value *w = entry(g, n->in[1], d), *scale = NULL, *zero = NULL;
    if (l->quantised) {
        scale = entry(g, n->in[SCALES], d);
        zero = entry(g, n->in[SCALES + 1], d);
        p.r_scale = entry(g, n->in[SCALES + 2], d);
        p.r_zero = entry(g, n->in[SCALES + 3], d);
    }
    p.share = product(l, range_of_inputs(l), tw_gb_unsqueeze(g, w, 1), scale, zero);
    p.share = plus(g, p.share, part(g, bias, 0, rows));
    tw_value *state_bias = part(g, bias, 1, rows);
    if (l->kind == GRU && l->linear_before_reset)
        p.state_bias = state_bias;
    else
        p.share = plus(g, p.share, state_bias);
    return p;
}

/* h R^T + bias for some of the gates. */
static tw_value *state_share(layer *l, const pass *p, tw_value *h, int64_t first, int64_t count)
{
    tw_gb *g = l->g;
    if (!p->r)
        return NULL;
    if (l->quantised)
        return product(l, h, p->r, p->r_scale, p->r_zero);
    tw_value *rows = tw_gb_slice_axis(g, p->r, 0, tw_gb_const(g, first * l->hidden), 1,
                                      tw_gb_const(g, count * l->hidden));
    tw_value *bias = p->state_bias
                         ? tw_gb_slice_axis(g, p->state_bias, 0, tw_gb_const(g, first * l->hidden),
                                            1, tw_gb_const(g, count * l->hidden))
                         : NULL;
    return plus(g, product(l, h, rows, NULL, NULL), bias);
}

static tw_value *gate(layer *l, const tw_onnx_activation *f, tw_value *x)
{
    return tw_onnx_activate(l->g, f, clipped(l, x));
}

static state rnn_step(layer *l, const pass *p, tw_value *x, state s)
{
    tw_value *sum = plus(l->g, x, state_share(l, p, s.h, 0, 1));
    return (state){.h = s.h && sum ? gate(l, &p->f[0], sum) : NULL};
}

/* h' = (1 - z) n + z h */
static state gru_step(layer *l, const pass *p, tw_value *x, state s)
{
    tw_gb *g = l->g;
    int64_t size = l->hidden;
    tw_value *zr = state_share(l, p, s.h, 0, 2), *inner;
    tw_value *z =
        gate(l, &p->f[0], tw_gb_binary(g, TW_GRAPH_ADD, part(g, x, 0, size), part(g, zr, 0, size)));
    tw_value *r =
        gate(l, &p->f[0], tw_gb_binary(g, TW_GRAPH_ADD, part(g, x, 1, size), part(g, zr, 1, size)));
    if (l->linear_before_reset)
        inner = times(g, r, state_share(l, p, s.h, 2, 1));
    else
        inner = state_share(l, p, times(g, r, s.h), 2, 1);
    tw_value *fresh = gate(l, &p->f[1], tw_gb_binary(g, TW_GRAPH_ADD, part(g, x, 2, size), inner));
    tw_value *rest = tw_gb_binary_scalar(g, TW_GRAPH_ADD, tw_gb_unary(g, TW_GRAPH_NEG, z), 1);
    return (state){.h = tw_gb_binary(g, TW_GRAPH_ADD, times(g, rest, fresh), times(g, z, s.h))};
}

/* A gate of LSTM: with its part of the peepholes times c. */
static tw_value *lstm_gate(layer *l, const pass *p, tw_value *sum, int64_t index, int64_t peephole,
                           tw_value *c, const tw_onnx_activation *f)
{
    tw_value *x = part(l->g, sum, index, l->hidden);
    if (p->peepholes)
        x = tw_gb_binary(l->g, TW_GRAPH_ADD, x,
                         times(l->g, part(l->g, p->peepholes, peephole, l->hidden), c));
    return gate(l, f, x);
}

/* c' = f c + i g;  h' = o activation(c') */
static state lstm_step(layer *l, const pass *p, tw_value *x, state s)
{
    tw_gb *g = l->g;
    tw_value *share = state_share(l, p, s.h, 0, 4);
    tw_value *sum = x && share ? plus(g, x, share) : NULL;
    tw_value *i = lstm_gate(l, p, sum, 0, 0, s.c, &p->f[0]);
    tw_value *f = l->input_forget
                      ? tw_gb_binary_scalar(g, TW_GRAPH_ADD, tw_gb_unary(g, TW_GRAPH_NEG, i), 1)
                      : lstm_gate(l, p, sum, 2, 2, s.c, &p->f[0]);
    tw_value *fresh = gate(l, &p->f[1], part(g, sum, 3, l->hidden));
    tw_value *c = tw_gb_binary(g, TW_GRAPH_ADD, times(g, f, s.c), times(g, i, fresh));
    tw_value *o = lstm_gate(l, p, sum, 1, 1, c, &p->f[0]);
    return (state){.h = times(g, o, tw_onnx_activate(l->g, &p->f[2], c)), .c = c};
}

/* The initial state of direction d: input i, or zeroes. */
static tw_value *initial(layer *l, unsigned i, unsigned d)
{
    static const int64_t swap[3] = {1, 0, 2};
    tw_expr dims[2] = {l->batch, tw_gb_const(l->g, l->hidden)};
    tw_value *given = tw_onnx_in(l->n, i);
    if (!given)
        return tw_gb_splat(l->g, l->x->type->elem, 0, 2, dims);
    return entry(l->g, l->batch_first ? tw_gb_transpose(l->g, given, swap) : given, d);
}

/* All steps of direction d. y[t] is h after step t, [batch, hidden]. Steps beyond a sequence's
 * length leave its state alone and give 0. */
static state run(layer *l, unsigned d, tw_value **y)
{
    tw_gb *g = l->g;
    pass p = make_pass(l, d);
    state s = {.h = initial(l, 5, d), .c = l->kind == LSTM ? initial(l, 6, d) : NULL};
    bool backward = l->backward || d == 1;
    for (int64_t k = 0; k < l->steps && s.h && p.share; k++) {
        int64_t t = backward ? l->steps - 1 - k : k;
        tw_value *x = entry(g, p.share, t);
        state next = l->kind == RNN   ? rnn_step(l, &p, x, s)
                     : l->kind == GRU ? gru_step(l, &p, x, s)
                                      : lstm_step(l, &p, x, s);
        y[t] = next.h;
        if (l->lengths && next.h) {
            tw_value *on = tw_gb_binary_scalar(g, TW_GRAPH_GREATER, l->lengths, (double)t);
            y[t] = tw_gb_where(g, on, next.h, tw_gb_scalar(g, next.h->type->elem, 0));
            next.h = tw_gb_where(g, on, next.h, s.h);
            next.c = next.c ? tw_gb_where(g, on, next.c, s.c) : NULL;
        }
        s = next;
    }
    return p.share && s.h ? s : (state){NULL, NULL};
}

/* ---- Results ---- */

/* Joins one [batch, hidden] for each direction to [directions, batch, hidden]; layout 1 has the
 * batch first. */
static tw_value *join_directions(layer *l, tw_value *const *parts)
{
    tw_value *rows[2];
    unsigned axis = l->batch_first ? 1 : 0;
    for (unsigned d = 0; d < l->directions; d++)
        rows[d] = tw_gb_unsqueeze(l->g, parts[d], 1u << axis);
    return tw_gb_concat(l->g, rows, l->directions, axis);
}

/* [steps, directions, batch, hidden], or for layout 1 [batch, steps, directions, hidden]. */
static tw_value *join_steps(layer *l, tw_value **const *y)
{
    tw_value **steps = TW_NEW_ARRAY(l->g->arena, tw_value *, (size_t)l->steps);
    unsigned axis = l->batch_first ? 1 : 0;
    for (int64_t t = 0; t < l->steps; t++) {
        tw_value *parts[2] = {y[0][t], l->directions > 1 ? y[1][t] : NULL};
        steps[t] = tw_gb_unsqueeze(l->g, join_directions(l, parts), 1u << axis);
    }
    return tw_gb_concat(l->g, steps, (unsigned)l->steps, axis);
}

bool tw_onnx_op_recurrent(tw_onnx_node *n)
{
    layer *l = TW_NEW(n->im->arena, layer);
    tw_value **y[2], *h[2], *c[2];
    l->n = n;
    l->g = n->g;
    l->quantised = n->op->param == QUANTISED_LSTM;
    l->kind = l->quantised ? LSTM : n->op->param;
    if (!tw_onnx_check_elem(n, 0, l->quantised ? 1 << TW_F32 : TW_ONNX_FLOATS) ||
        !read_attributes(l) || !read_layer(l))
        return false;
    for (unsigned d = 0; d < l->directions; d++) {
        y[d] = TW_NEW_ARRAY(n->im->arena, tw_value *, (size_t)l->steps);
        state s = run(l, d, y[d]);
        if (!s.h)
            return false;
        h[d] = s.h;
        c[d] = s.c;
    }
    if (tw_onnx_wants(n, 0) && !tw_onnx_set(n, 0, join_steps(l, (tw_value * *const *)y)))
        return false;
    if (tw_onnx_wants(n, 1) && !tw_onnx_set(n, 1, join_directions(l, h)))
        return false;
    return !tw_onnx_wants(n, 2) || tw_onnx_set(n, 2, join_directions(l, c));
}
