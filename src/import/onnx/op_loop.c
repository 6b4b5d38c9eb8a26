/* op_loop.c: Loop and Scan become graph.loop.
 *
 *   Loop(M, cond, x) { (i, go, s) => (go_on, next, row) }
 *     =>
 *   %y, %rows = graph.loop %m, %cond, %x do (%i, %s) attributes {scans = 1} {
 *     …
 *     graph.yield %go_on, %next, %row
 *   }
 *
 * Within a trip the condition is true. A Scan is a loop of a known number of trips that takes its
 * inputs' slices by gathers; what is to run backwards or along another axis is turned round before
 * and behind. */
#include "import/onnx/import.h"

#include <string.h>

typedef struct loop {
    tw_onnx_node *n;
    tw_gb *g;
    const Onnx__GraphProto *body;
    tw_value *trips, *go;       /* scalars */
    tw_value *const *initial;   /* of the states */
    tw_value *const *sequences; /* Scan: inputs to take slices of, along axis 0 */
    unsigned n_states, n_sequences, n_stacks;
    tw_op *op;
    tw_builder here; /* where op stands */
    tw_value **out;  /* of the body: condition (not of Scan), states, rows */
} loop;

static tw_value *scalar(tw_gb *g, tw_elem elem, int64_t value)
{
    return tw_gb_scalar(g, elem, (double)value);
}

static bool is_true(tw_gb *g, const tw_value *value)
{
    tw_expr known;
    int64_t number;
    return tw_known_expr(g, value, &known) && tw_expr_as_const(known, &number) && number;
}

/* ---- The body ---- */

/* An argument as the body's own input declares it: exporters say [1] for a scalar. */
static tw_value *as_declared(loop *l, tw_value *x, unsigned input)
{
    const Onnx__ValueInfoProto *info = l->body->input[input];
    const Onnx__TypeProto *type = info->type;
    tw_expr one = tw_gb_const(l->g, 1);
    bool vector = type && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
                  type->tensor_type->shape && type->tensor_type->shape->n_dim == 1;
    return vector ? tw_gb_reshape(l->g, x, 1, &one) : x;
}

static void open_body(loop *l)
{
    unsigned n = l->n_states;
    tw_value **operands = TW_NEW_ARRAY(l->n->im->arena, tw_value *, n + 2);
    operands[0] = l->trips;
    operands[1] = l->go;
    for (unsigned i = 0; i < n; i++)
        operands[2 + i] = l->initial[i];
    l->op = tw_onnx_region_op(l->n, TW_GRAPH_LOOP, operands, n + 2, n + l->n_stacks);
    if (l->n_stacks)
        tw_op_set_attr(l->op, "scans", tw_attr_int(l->g->ctx, l->n_stacks));
    l->here = l->g->b;
    tw_region *region = &l->op->regions[0];
    tw_region_add_arg(region, tw_type_tensor(l->g->ctx, TW_I64, 0, NULL, NULL), "i");
    for (unsigned i = 0; i < n; i++)
        tw_region_add_arg(region, l->initial[i]->type, NULL);
    l->g->b = tw_builder_at_end(l->g->ctx, region, l->here.loc);
}

/* The body of Loop: number and condition come first, and the condition goes out first. */
static bool import_loop_body(loop *l)
{
    tw_region *region = &l->op->regions[0];
    unsigned n_in = l->n_states + 2;
    tw_value **in = TW_NEW_ARRAY(l->n->im->arena, tw_value *, n_in);
    l->out = TW_NEW_ARRAY(l->n->im->arena, tw_value *, l->body->n_output);
    in[0] = as_declared(l, region->args[0], 0);
    in[1] = as_declared(l, scalar(l->g, TW_BOOL, 1), 1);
    for (unsigned i = 0; i < l->n_states; i++)
        in[2 + i] = region->args[1 + i];
    if (!in[0] || !in[1] || !tw_onnx_inline_graph(l->n, l->body, in, n_in, l->out))
        return false;
    l->out[0] = tw_onnx_single(l->n, l->out[0], TW_BOOL, "the condition that the body gives");
    return l->out[0] != NULL;
}

static bool import_scan_body(loop *l)
{
    tw_region *region = &l->op->regions[0];
    unsigned n_in = l->n_states + l->n_sequences;
    tw_value **in = TW_NEW_ARRAY(l->n->im->arena, tw_value *, n_in + 1);
    l->out = TW_NEW_ARRAY(l->n->im->arena, tw_value *, l->body->n_output + 1);
    for (unsigned i = 0; i < l->n_states; i++)
        in[i] = region->args[1 + i];
    for (unsigned i = 0; i < l->n_sequences; i++)
        if (!(in[l->n_states + i] = tw_gb_gather(l->g, l->sequences[i], region->args[0], 0)))
            return false;
    l->out[0] = scalar(l->g, TW_BOOL, 1);
    return tw_onnx_inline_graph(l->n, l->body, in, n_in, l->out + 1);
}

/* ---- Types ---- */

/* A state keeps its type from trip to trip. */
static bool check_state(loop *l, unsigned i)
{
    tw_gb *g = l->g;
    tw_type from = l->initial[i]->type, to = l->out[1 + i]->type;
    bool fits = from->elem == to->elem && from->rank == to->rank;
    for (unsigned d = 0; fits && d < from->rank; d++)
        fits = from->dims[d] == to->dims[d];
    return fits ||
           tw_onnx_error(l->n, "state %u starts as %s and becomes %s; it must keep its type", i,
                         tw_gb_type_text(g, from), tw_gb_type_text(g, to));
}

/* The stack of `rows` rows of that type. */
static tw_type stack_of(loop *l, tw_type row, tw_expr rows)
{
    tw_expr dims[TW_MAX_RANK];
    if (row->rank + 1 > TW_MAX_RANK)
        return tw_gb_error(l->g, "rows of %s: their stack has more than %d dimensions",
                           tw_gb_type_text(l->g, row), TW_MAX_RANK);
    dims[0] = rows;
    for (unsigned d = 0; d < row->rank; d++)
        dims[d + 1] = row->dims[d];
    return tw_type_tensor(l->g->ctx, row->elem, row->rank + 1, dims, NULL);
}

/* Ends the body and gives the operation its types. `rows`: the number of trips. */
static bool close_body(loop *l, tw_expr rows)
{
    for (unsigned i = 0; i < l->n_states; i++) {
        if (!check_state(l, i))
            return false;
        l->op->results[i].type = l->initial[i]->type;
    }
    tw_onnx_yield(l->n, l->out, 1 + l->n_states + l->n_stacks);
    l->g->b = l->here;
    for (unsigned i = l->n_states; i < l->n_states + l->n_stacks; i++) {
        tw_type type = stack_of(l, l->out[1 + i]->type, rows);
        if (!type || !tw_gb_check_type(l->g, type))
            return false;
        l->op->results[i].type = type;
    }
    return tw_gb_verify(l->g, l->op);
}

/* ---- Loop ---- */

/* Number of trips and condition at the start, whether given or not. */
static bool read_bounds(loop *l)
{
    tw_value *m = tw_onnx_in(l->n, 0), *cond = tw_onnx_in(l->n, 1);
    l->trips = m ? tw_onnx_single(l->n, m, TW_I64, "the number of trips")
                 : tw_gb_reshape(l->g, tw_gb_ints(l->g, &(int64_t){INT64_MAX}, 1), 0, NULL);
    l->go = cond ? tw_onnx_single(l->n, cond, TW_BOOL, "the condition") : scalar(l->g, TW_BOOL, 1);
    return l->trips && l->go;
}

static bool check_counts(loop *l)
{
    if (l->body->n_input != l->n_states + 2 || l->body->n_output < 1 + l->n_states)
        return tw_onnx_error(l->n,
                             "the body has %zu inputs and %zu outputs; for %u states %u inputs and "
                             "at least %u outputs are needed",
                             l->body->n_input, l->body->n_output, l->n_states, l->n_states + 2,
                             l->n_states + 1);
    l->n_stacks = (unsigned)l->body->n_output - 1 - l->n_states;
    return l->n->n_out <= l->n_states + l->n_stacks ||
           tw_onnx_error(l->n, "%u outputs; the body gives %u", l->n->n_out,
                         l->n_states + l->n_stacks);
}

/* The number of rows, which nothing but the number of trips may decide. */
static tw_expr known_rows(loop *l)
{
    tw_expr rows;
    if (!l->n_stacks)
        return tw_gb_const(l->g, 0);
    if (!is_true(l->g, l->go) || !is_true(l->g, l->out[0]) || !tw_known_expr(l->g, l->trips, &rows))
        return tw_gb_error(l->g, "the number of trips depends on the model's data, and with it the "
                                 "size of an output; only numbers that are known when the model is "
                                 "compiled are supported");
    return tw_expr_binary(l->g->ctx, TW_EXPR_MAX, rows, tw_gb_const(l->g, 0));
}

/* ---- Trip by trip ---- */

/* What unrolling has come to. */
typedef struct unrolled {
    tw_value **states, *go;
    tw_value ***rows; /* per stack, per trip */
    int64_t trips;
} unrolled;

/* The number of trips of a loop that is to be unrolled. */
static bool known_trips(loop *l, int64_t *trips)
{
    enum { MAX_TRIPS = 1000, MAX_NODES = 100000 };
    tw_expr known;
    if (!tw_known_expr(l->g, l->trips, &known) || !tw_expr_as_const(known, trips))
        return tw_onnx_error(l->n,
                             "a state is a sequence or changes its shape: the number of trips "
                             "must be known when the model is compiled");
    *trips = *trips < 0 ? 0 : *trips;
    return (*trips <= MAX_TRIPS && *trips * (int64_t)l->body->n_node <= MAX_NODES) ||
           tw_onnx_error(l->n,
                         "a state is a sequence or changes its shape, and there are %lld trips of "
                         "%zu nodes; %d trips and %d nodes in all are accepted",
                         (long long)*trips, l->body->n_node, MAX_TRIPS, MAX_NODES);
}

static bool unroll_trip(loop *l, unrolled *u)
{
    unsigned n_in = l->n_states + 2;
    tw_value **in = TW_NEW_ARRAY(l->n->im->arena, tw_value *, n_in);
    tw_value **out = TW_NEW_ARRAY(l->n->im->arena, tw_value *, l->body->n_output);
    in[0] = as_declared(l, scalar(l->g, TW_I64, u->trips), 0);
    in[1] = as_declared(l, scalar(l->g, TW_BOOL, 1), 1);
    for (unsigned i = 0; i < l->n_states; i++)
        in[2 + i] = u->states[i];
    if (!in[0] || !in[1] || !tw_onnx_inline_graph(l->n, l->body, in, n_in, out))
        return false;
    u->go = out[0];
    u->states = out + 1;
    for (unsigned i = 0; i < l->n_stacks; i++)
        u->rows[i][u->trips] = out[1 + l->n_states + i];
    u->trips++;
    return true;
}

static tw_value *stack_rows(loop *l, tw_value **rows, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (tw_onnx_as_bundle(rows[i]))
            return tw_gb_error(l->g, "rows that are sequences");
        if (!(rows[i] = tw_gb_unsqueeze(l->g, rows[i], 1)))
            return NULL;
    }
    return n ? tw_gb_concat(l->g, rows, (unsigned)n, 0)
             : tw_gb_error(l->g, "rows of a loop without a trip whose states change their shapes");
}

/* One body after the other: for states that change what they are, if the trips are known. */
static bool unroll(loop *l)
{
    int64_t most, go;
    tw_expr known;
    unrolled u = {.states = (tw_value **)l->initial, .go = l->go};
    if (!known_trips(l, &most))
        return false;
    u.rows = TW_NEW_ARRAY(l->n->im->arena, tw_value **, l->n_stacks + 1);
    for (unsigned i = 0; i < l->n_stacks; i++)
        u.rows[i] = TW_NEW_ARRAY(l->n->im->arena, tw_value *, (size_t)most + 1);
    while (u.trips < most) {
        if (!tw_known_expr(l->g, u.go, &known) || !tw_expr_as_const(known, &go))
            return tw_onnx_error(l->n, "a state is a sequence or changes its shape: the condition "
                                       "must be known when the model is compiled");
        if (!go)
            break;
        if (!unroll_trip(l, &u))
            return false;
    }
    for (unsigned i = 0; i < l->n->n_out; i++)
        if (!tw_onnx_set(l->n, i,
                         i < l->n_states ? u.states[i]
                                         : stack_rows(l, u.rows[i - l->n_states], u.trips)))
            return false;
    return true;
}

static bool has_bundles(tw_value *const *values, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (tw_onnx_as_bundle(values[i]))
            return true;
    return false;
}

static bool keeps_types(const loop *l)
{
    for (unsigned i = 0; i < l->n_states; i++)
        if (l->initial[i]->type != l->out[1 + i]->type)
            return false;
    return true;
}

bool tw_onnx_op_loop(tw_onnx_node *n)
{
    loop l = {.n = n, .g = n->g, .body = tw_onnx_graph(n, "body")};
    l.initial = n->in + 2;
    l.n_states = n->n_in > 2 ? n->n_in - 2 : 0;
    if (!l.body || !check_counts(&l) || !read_bounds(&l))
        return false;
    for (unsigned i = 0; i < l.n_states; i++)
        if (!l.initial[i])
            return tw_onnx_error(n, "input %u is missing: a state needs a value to start with",
                                 i + 2);
    if (has_bundles(l.initial, l.n_states))
        return unroll(&l);
    open_body(&l);
    if (!import_loop_body(&l))
        return false;
    if (!keeps_types(&l)) {
        l.g->b = l.here;
        tw_op_erase(l.op);
        return unroll(&l);
    }
    tw_expr rows = known_rows(&l);
    if (!rows || !close_body(&l, rows))
        return false;
    for (unsigned i = 0; i < n->n_out; i++)
        tw_onnx_set(n, i, tw_result(l.op, i));
    return true;
}

/* ---- Scan ---- */

/* What Scan's attributes say of its sequences and stacks. */
typedef struct scan {
    loop l;
    tw_value **in; /* states, then sequences */
    unsigned n_in;
    const int64_t *in_axes, *out_axes;  /* NULL: all 0 */
    const int64_t *backwards, *reverse; /* of sequences and stacks; NULL: none */
    size_t n_in_axes, n_out_axes, n_backwards, n_reverse;
    tw_expr length;
} scan;

static bool list(scan *s, const char *name, const int64_t **out, size_t *count, size_t wanted)
{
    bool ok = true;
    *out = tw_onnx_int_list(s->l.n, name, count, &ok);
    return ok && (!*out || *count == wanted ||
                  tw_onnx_error(s->l.n, "attribute '%s' has %zu entries; %zu are needed", name,
                                *count, wanted));
}

static bool read_scan(scan *s)
{
    loop *l = &s->l;
    bool ok = true;
    unsigned inputs = s->n_in;
    int64_t sequences = tw_onnx_int(l->n, "num_scan_inputs", 0, &ok);
    l->body = tw_onnx_graph(l->n, "body");
    if (!ok || !l->body)
        return false;
    if (sequences < 1 || sequences > inputs)
        return tw_onnx_error(l->n, "attribute 'num_scan_inputs' is %lld for %u inputs",
                             (long long)sequences, inputs);
    l->n_sequences = (unsigned)sequences;
    l->n_states = inputs - l->n_sequences;
    if (l->body->n_input != inputs || l->body->n_output < l->n_states)
        return tw_onnx_error(l->n,
                             "the body has %zu inputs and %zu outputs for %u inputs and %u "
                             "states",
                             l->body->n_input, l->body->n_output, inputs, l->n_states);
    l->n_stacks = (unsigned)l->body->n_output - l->n_states;
    for (unsigned i = 0; i < inputs; i++)
        if (!s->in[i])
            return tw_onnx_error(l->n, "input %u is missing", i + l->n->n_in - inputs);
    l->initial = s->in;
    return l->n->n_out <= l->body->n_output ||
           tw_onnx_error(l->n, "%u outputs; the body gives %zu", l->n->n_out, l->body->n_output);
}

/* The axis moved to the front (or back from there). */
static tw_value *move_axis(tw_gb *g, tw_value *x, unsigned from, unsigned to)
{
    int64_t perm[TW_MAX_RANK];
    unsigned rank = x->type->rank, k = 0;
    if (from == to)
        return x;
    for (unsigned i = 0; i < rank; i++) {
        k += k == from;
        perm[i] = i == to ? from : k++;
    }
    return tw_gb_transpose(g, x, perm);
}

static tw_value *flip(tw_gb *g, tw_value *x)
{
    tw_expr size = x->type->dims[0];
    return tw_gb_slice_axis(g, x, 0, tw_expr_addc(g->ctx, size, -1), -1, size);
}

/* Inputs with the axis of the sequence in front, in the order of the trips. */
static bool turn_sequences(scan *s)
{
    loop *l = &s->l;
    tw_value **turned = TW_NEW_ARRAY(l->n->im->arena, tw_value *, l->n_sequences);
    for (unsigned i = 0; i < l->n_sequences; i++) {
        tw_value *x = s->in[l->n_states + i];
        unsigned axis;
        if (!tw_onnx_axis(l->n, s->in_axes ? s->in_axes[i] : 0, x->type->rank, &axis))
            return false;
        x = move_axis(l->g, x, axis, 0);
        if (x && s->backwards && s->backwards[i])
            x = flip(l->g, x);
        if (!x)
            return false;
        if (s->length && tw_gb_differ(l->g, s->length, x->type->dims[0]))
            return tw_onnx_error(l->n, "sequences of %s and %s steps",
                                 tw_print_expr(l->g->ctx, s->length, NULL),
                                 tw_print_expr(l->g->ctx, x->type->dims[0], NULL));
        s->length = s->length ? s->length : x->type->dims[0];
        turned[i] = x;
    }
    l->sequences = turned;
    return true;
}

/* The first size of x as a scalar. */
static tw_value *first_size(tw_gb *g, tw_value *x)
{
    tw_type one = tw_type_tensor_static(g->ctx, TW_I64, 1, (int64_t[]){1});
    return tw_gb_reshape(g,
                         TW_GB_EMIT(g, SHAPE, &x, 1, one, {"start", tw_attr_int(g->ctx, 0)},
                                    {"end", tw_attr_int(g->ctx, 1)}),
                         0, NULL);
}

/* Results as the model wants them. */
static bool turn_stacks(scan *s, tw_value **results)
{
    loop *l = &s->l;
    for (unsigned i = 0; i < l->n_states + l->n_stacks; i++) {
        tw_value *x = tw_result(l->op, i);
        unsigned axis, k = i - l->n_states;
        if (i >= l->n_states) {
            if (!tw_onnx_axis(l->n, s->out_axes ? s->out_axes[k] : 0, x->type->rank, &axis))
                return false;
            x = s->reverse && s->reverse[k] ? flip(l->g, x) : x;
            x = x ? move_axis(l->g, x, 0, axis) : NULL;
        }
        if (!(results[i] = x))
            return false;
    }
    return true;
}

/* The loop over s->in at the builder's place. */
static bool build_scan(scan *s, tw_value **results)
{
    loop *l = &s->l;
    if (!turn_sequences(s))
        return false;
    l->trips = first_size(l->g, l->sequences[0]);
    l->go = scalar(l->g, TW_BOOL, 1);
    if (!l->trips)
        return false;
    open_body(l);
    return import_scan_body(l) && close_body(l, s->length) && turn_stacks(s, results);
}

static void set_results(tw_onnx_node *n, tw_value **results)
{
    for (unsigned i = 0; i < n->n_out; i++)
        tw_onnx_set(n, i, results[i]);
}

bool tw_onnx_op_scan(tw_onnx_node *n)
{
    scan s = {.l = {.n = n, .g = n->g}, .in = n->in, .n_in = n->n_in};
    loop *l = &s.l;
    if (!read_scan(&s) || !list(&s, "scan_input_axes", &s.in_axes, &s.n_in_axes, l->n_sequences) ||
        !list(&s, "scan_output_axes", &s.out_axes, &s.n_out_axes, l->n_stacks) ||
        !list(&s, "scan_input_directions", &s.backwards, &s.n_backwards, l->n_sequences) ||
        !list(&s, "scan_output_directions", &s.reverse, &s.n_reverse, l->n_stacks))
        return false;
    tw_value **results = TW_NEW_ARRAY(n->im->arena, tw_value *, l->body->n_output);
    if (!build_scan(&s, results))
        return false;
    set_results(n, results);
    return true;
}

/* Version 8 scans each item of a batch: a loop around that of the scan. */
bool tw_onnx_op_scan_8(tw_onnx_node *n)
{
    scan s = {.l = {.n = n, .g = n->g}, .in = n->in + 1, .n_in = n->n_in - 1};
    if (n->in[0])
        return tw_onnx_error(n, "input 0: lengths of the sequences are not supported; it may be "
                                "left out");
    if (!read_scan(&s) || !list(&s, "directions", &s.backwards, &s.n_backwards, s.l.n_sequences))
        return false;
    unsigned n_results = (unsigned)s.l.body->n_output;
    loop batch = {.n = n, .g = n->g, .n_stacks = n_results};
    batch.trips = first_size(n->g, s.in[0]);
    batch.go = scalar(n->g, TW_BOOL, 1);
    if (!batch.trips)
        return false;
    tw_expr size = s.in[0]->type->dims[0];
    tw_value **items = TW_NEW_ARRAY(n->im->arena, tw_value *, s.n_in);
    batch.out = TW_NEW_ARRAY(n->im->arena, tw_value *, n_results + 1);
    open_body(&batch);
    for (unsigned i = 0; i < s.n_in; i++)
        if (!(items[i] = tw_gb_gather(n->g, s.in[i], batch.op->regions[0].args[0], 0)))
            return false;
    s.l.initial = s.in = items;
    batch.out[0] = scalar(n->g, TW_BOOL, 1);
    if (!build_scan(&s, batch.out + 1) || !close_body(&batch, size))
        return false;
    for (unsigned i = 0; i < n->n_out; i++)
        tw_onnx_set(n, i, tw_result(batch.op, i));
    return true;
}
