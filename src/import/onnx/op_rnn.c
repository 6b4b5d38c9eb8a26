/* op_rnn.c: recurrent layers: RNN, GRU, LSTM. Inside, time is axis 0 (layout 0); layout 1 is
 * transposed before and after.
 *
 * A step is a trip of a loop, which takes its part of the inputs' share by its number:
 *
 *   %h, %y = graph.loop %steps, %true, %h0 do (%i, %s) attributes {scans = 1} {
 *     %x = graph.gather %share, %i
 *     …
 *     graph.yield %true, %next, %next
 *   } */
#include "import/onnx/loop.h"
#include "import/onnx/rnn.h"

#include <string.h>

enum { QUANTISED_LSTM = TW_ONNX_LSTM + 1 }; /* `param`; below it kinds */
enum { SCALES = 8 };                        /* input: scale and zero point of W, then of R */

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
static bool read_activations(tw_onnx_rnn *l)
{
    static const char *const usual[][3] = {[TW_ONNX_RNN] = {"Tanh"},
                                           [TW_ONNX_GRU] = {"Sigmoid", "Tanh"},
                                           [TW_ONNX_LSTM] = {"Sigmoid", "Tanh", "Tanh"}};
    tw_onnx_node *n = l->n;
    bool ok = true;
    unsigned each = tw_onnx_rnn_activations(l->kind), count = each * l->directions;
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

static bool read_attributes(tw_onnx_rnn *l)
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

/* ---- Inputs ---- */

/* Scales and zero points: one number for each direction, or for each of its rows. */
static bool read_scales(tw_onnx_rnn *l, tw_expr directions, tw_expr rows)
{
    for (unsigned i = 0; i < 4; i++) {
        const tw_value *v = tw_onnx_in(l->n, SCALES + i);
        if (!v)
            return tw_onnx_error(l->n, "input %u is missing", SCALES + i);
        tw_expr dims[2] = {directions, rows};
        if (!tw_onnx_sized(l->n, SCALES + i, v->type->rank == 1 ? 1 : 2, dims, &l->scales[i]))
            return false;
    }
    return true;
}

static bool read_state(tw_onnx_rnn *l, unsigned i, tw_value **out)
{
    static const int64_t swap[3] = {1, 0, 2};
    tw_expr d = tw_gb_const(l->g, l->directions);
    tw_expr dims[3] = {l->batch_first ? l->batch : d, l->batch_first ? d : l->batch, l->hidden};
    if (!tw_onnx_sized(l->n, i, 3, dims, out))
        return false;
    if (*out && l->batch_first)
        *out = tw_gb_transpose(l->g, *out, swap);
    return true;
}

static bool read_inputs(tw_onnx_rnn *l)
{
    tw_gb *g = l->g;
    tw_onnx_node *n = l->n;
    tw_expr d = tw_gb_const(g, l->directions), h = l->hidden, inputs = l->x->type->dims[2];
    tw_expr rows = tw_expr_mulc(g->ctx, h, tw_onnx_rnn_gates(l->kind));
    tw_expr twice = tw_expr_mulc(g->ctx, rows, 2), parts = tw_expr_mulc(g->ctx, h, 3);
    tw_expr w[3] = {d, l->quantised ? inputs : rows, l->quantised ? rows : inputs};
    tw_expr r[3] = {d, l->quantised ? h : rows, l->quantised ? rows : h};
    if ((l->quantised && !read_scales(l, d, rows)) || !tw_onnx_sized(n, 1, 3, w, &l->w) ||
        !tw_onnx_sized(n, 2, 3, r, &l->r) ||
        !tw_onnx_sized(n, 3, 2, (tw_expr[]){d, twice}, &l->bias) ||
        !tw_onnx_sized(n, 4, 1, &l->batch, &l->lengths) || !read_state(l, 5, &l->initial[0]) ||
        !read_state(l, 6, &l->initial[1]) ||
        !tw_onnx_sized(n, 7, 2, (tw_expr[]){d, parts}, &l->peepholes))
        return false;
    if (l->lengths)
        l->lengths = tw_gb_unsqueeze(g, tw_gb_cast(g, l->lengths, TW_I64), 2);
    return true;
}

/* The size of the state: that of the weights, or when they leave it open what the node says. */
static bool read_hidden(tw_onnx_rnn *l)
{
    tw_onnx_node *n = l->n;
    bool ok = true;
    int64_t said = tw_onnx_int(n, "hidden_size", 0, &ok), size;
    l->hidden = n->in[2]->type->dims[l->quantised ? 1 : 2];
    bool known = tw_expr_as_const(l->hidden, &size);
    if (!ok)
        return false;
    if (known && (size <= 0 || size > INT32_MAX))
        return tw_onnx_error(n, "recurrent weights %s", tw_gb_type_text(l->g, n->in[2]->type));
    if (known && said && said != size)
        return tw_onnx_error(n, "attribute 'hidden_size' is %lld, but the weights are for %lld",
                             (long long)said, (long long)size);
    if (said < 0 || said > INT32_MAX)
        return tw_onnx_error(n, "attribute 'hidden_size' is %lld", (long long)said);
    if (!known && said)
        l->hidden = tw_gb_const(l->g, said);
    return true;
}

static bool read_layer(tw_onnx_rnn *l)
{
    static const int64_t swap[3] = {1, 0, 2};
    tw_onnx_node *n = l->n;
    l->x = n->in[0];
    if (l->x->type->rank != 3 || n->in[2]->type->rank != 3)
        return tw_onnx_error(n, "inputs %s and recurrent weights %s",
                             tw_gb_type_text(l->g, l->x->type),
                             tw_gb_type_text(l->g, n->in[2]->type));
    if (l->batch_first)
        l->x = tw_gb_transpose(l->g, l->x, swap);
    l->steps = l->x->type->dims[0];
    l->batch = l->x->type->dims[1];
    return read_hidden(l) && read_inputs(l);
}

/* ---- One direction ---- */

/* The initial state of direction d, part i (h, c): given, or zeroes. */
static tw_value *initial(const tw_onnx_rnn *l, unsigned i, unsigned d)
{
    tw_expr dims[2] = {l->batch, l->hidden};
    return l->initial[i] ? tw_onnx_rnn_entry(l->g, l->initial[i], d)
                         : tw_gb_splat(l->g, l->x->type->elem, 0, 2, dims);
}

/* One direction of it: results are the state at the end, and h of all steps, [steps, batch,
 * hidden].
 */
typedef struct run {
    tw_onnx_rnn_pass p;
    tw_value *last; /* the last step's time, of a backward run; else NULL */
    tw_value *states[2], *y;
} run;

static bool step(void *data, tw_value *t, tw_value *const *states, tw_value **next, tw_value **row)
{
    run *r = data;
    bool with_c = r->p.l->kind == TW_ONNX_LSTM;
    tw_onnx_rnn_state s = {states[0], with_c ? states[1] : NULL};
    if (r->last)
        t = tw_gb_binary(r->p.l->g, TW_GRAPH_SUB, r->last, t);
    s = tw_onnx_rnn_step(&r->p, t, s, row);
    next[0] = s.h;
    if (with_c)
        next[1] = s.c;
    return *row != NULL;
}

/* Steps count upwards; the stack of a backward run is turned round behind. */
static bool run_direction(const tw_onnx_rnn *l, unsigned d, run *r)
{
    tw_gb *g = l->g;
    bool backward = l->backward || d == 1, wanted = tw_onnx_wants(l->n, 0);
    unsigned n_states = l->kind == TW_ONNX_LSTM ? 2 : 1;
    r->p = tw_onnx_rnn_begin(l, d);
    if (!r->p.share)
        return false;
    if (backward)
        r->last = tw_gb_binary_scalar(g, TW_GRAPH_SUB, tw_onnx_size_of(g, l->x, 0), 1);
    for (unsigned i = 0; i < n_states; i++)
        r->states[i] = initial(l, i, d);
    if (!tw_onnx_steps(l->n, l->x, 0, r->states, n_states, step, r, wanted ? &r->y : NULL))
        return false;
    if (r->y && backward)
        r->y = tw_gb_slice_axis(g, r->y, 0, tw_expr_addc(g->ctx, l->steps, -1), -1, l->steps);
    return r->y || !wanted;
}

/* ---- Results ---- */

/* Joins the directions along a new axis. */
static tw_value *join(const tw_onnx_rnn *l, tw_value **parts, unsigned axis)
{
    for (unsigned d = 0; d < l->directions; d++)
        parts[d] = tw_gb_unsqueeze(l->g, parts[d], 1u << axis);
    return tw_gb_concat(l->g, parts, l->directions, axis);
}

/* Of [batch, hidden] each; layout 1 has the batch first. */
static tw_value *join_states(const tw_onnx_rnn *l, const run *runs, unsigned i)
{
    tw_value *parts[2] = {runs[0].states[i], runs[1].states[i]};
    return join(l, parts, l->batch_first ? 1 : 0);
}

/* [steps, directions, batch, hidden], or for layout 1 [batch, steps, directions, hidden]. */
static tw_value *join_steps(const tw_onnx_rnn *l, const run *runs)
{
    static const int64_t swap[3] = {1, 0, 2};
    tw_value *parts[2] = {NULL};
    for (unsigned d = 0; d < l->directions; d++)
        parts[d] = l->batch_first ? tw_gb_transpose(l->g, runs[d].y, swap) : runs[d].y;
    return join(l, parts, l->batch_first ? 2 : 1);
}

bool tw_onnx_op_recurrent(tw_onnx_node *n)
{
    tw_onnx_rnn *l = TW_NEW(n->im->arena, tw_onnx_rnn);
    run runs[2] = {0};
    l->n = n;
    l->g = n->g;
    l->quantised = n->op->param == QUANTISED_LSTM;
    l->kind = l->quantised ? TW_ONNX_LSTM : n->op->param;
    if (!tw_onnx_check_elem(n, 0, l->quantised ? 1 << TW_F32 : TW_ONNX_FLOATS) ||
        !read_attributes(l) || !read_layer(l))
        return false;
    for (unsigned d = 0; d < l->directions; d++)
        if (!run_direction(l, d, &runs[d]))
            return false;
    return (!tw_onnx_wants(n, 0) || tw_onnx_set(n, 0, join_steps(l, runs))) &&
           (!tw_onnx_wants(n, 1) || tw_onnx_set(n, 1, join_states(l, runs, 0))) &&
           (!tw_onnx_wants(n, 2) || tw_onnx_set(n, 2, join_states(l, runs, 1)));
}
