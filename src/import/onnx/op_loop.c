/* op_loop.c: Loop becomes graph.loop.
 *
 *   Loop(M, cond, x) { (i, go, s) => (go_on, next, row) }
 *     =>
 *   %y, %rows = graph.loop %m, %cond, %x do (%i, %s) attributes {scans = 1} {
 *     …
 *     graph.yield %go_on, %next, %row
 *   }
 *
 * Within a trip the condition is true. The body is imported with states of the types that they
 * start with; where it gives other sizes, once more with sizes of its own for these. */
#include "import/onnx/loop.h"

/* Most rows that room is made for before it is known how many there will be, and most trips that a
 * body is repeated for. */
enum { MAX_ROWS = 256, MAX_UNROLLED = 64 };

tw_value *tw_onnx_loop_argument(tw_onnx_loop *l, tw_value *x, unsigned input)
{
    const Onnx__TypeProto *type = l->body->input[input]->type;
    tw_expr one = tw_gb_const(l->g, 1);
    bool vector = type && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
                  type->tensor_type->shape && type->tensor_type->shape->n_dim == 1;
    return vector ? tw_gb_reshape(l->g, x, 1, &one) : x;
}

/* ---- Bounds ---- */

/* Number of trips and condition at the start, whether given or not. */
static bool read_bounds(tw_onnx_loop *l)
{
    tw_value *m = tw_onnx_in(l->n, 0), *cond = tw_onnx_in(l->n, 1);
    l->trips = m ? tw_onnx_single(l->n, m, TW_I64, "the number of trips")
                 : tw_onnx_number(l->g, INT64_MAX);
    l->go = cond ? tw_onnx_single(l->n, cond, TW_BOOL, "the condition")
                 : tw_onnx_loop_scalar(l->g, TW_BOOL, 1);
    return l->trips && l->go;
}

static bool check_counts(tw_onnx_loop *l)
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

/* Before the operation: the number of trips as no less than 0, and 0 when it does not start. */
static bool trim_trips(tw_onnx_loop *l)
{
    tw_gb *g = l->g;
    tw_expr known;
    int64_t count;
    if (tw_known_expr(g, l->trips, &known) && tw_expr_as_const(known, &count) && count >= 0 &&
        tw_onnx_loop_is_true(g, l->go))
        return true;
    tw_value *zero = tw_onnx_number(g, 0);
    l->trips = tw_gb_binary(g, TW_GRAPH_MAX, l->trips, zero);
    if (!tw_onnx_loop_is_true(g, l->go))
        l->trips = l->trips ? tw_gb_where(g, l->go, l->trips, zero) : NULL;
    return l->trips != NULL;
}

/* The size that the model declares the first stack to have, or NULL. */
static tw_expr declared_rows(tw_onnx_loop *l)
{
    tw_expr hint[TW_MAX_RANK] = {0};
    unsigned rank = l->out[1 + l->n_states]->type->rank + 1;
    if (rank <= TW_MAX_RANK)
        tw_onnx_declared_dims(l->n, l->n_states, rank, hint);
    return hint[0];
}

static bool is_few(tw_expr size)
{
    int64_t count;
    return size && tw_expr_as_const(size, &count) && count <= MAX_ROWS;
}

/* Whether there may be more rows than room is made for when a condition decides how many. */
static bool may_be_many(tw_onnx_loop *l)
{
    tw_expr known;
    bool fixed = tw_known_expr(l->g, l->trips, &known);
    return !(fixed && is_few(known)) && !is_few(declared_rows(l));
}

/* How many rows to make room for when the trips are counted: as many as there may be, or one more
 * than the model declares, so that one too many is seen. Sets the bound on the trips. */
static tw_expr most_rows(tw_onnx_loop *l)
{
    tw_gb *g = l->g;
    tw_expr known, declared = declared_rows(l);
    int64_t most;
    bool fixed = tw_known_expr(g, l->trips, &known) && tw_expr_as_const(known, &most);
    if (fixed && (most <= MAX_ROWS || !declared))
        return known;
    if (!declared)
        return tw_onnx_bind_size(l->n, l->trips, NULL, "number of trips");
    most = declared->value + 1;
    tw_value *limit = tw_onnx_number(g, most);
    l->trips = tw_gb_binary(g, TW_GRAPH_MIN, l->trips, limit);
    return l->trips ? tw_gb_const(g, most) : NULL;
}

/* The number of rows; what must be computed for it stands before the operation. */
static tw_expr find_rows(tw_onnx_loop *l)
{
    tw_gb *g = l->g;
    tw_builder inside = g->b;
    tw_expr rows = tw_gb_const(g, 0);
    bool all = tw_onnx_loop_is_true(g, l->out[0]); /* of the trips, once it starts */
    if (!l->n_stacks)
        return rows;
    g->b = l->here;
    g->b.before = l->op;
    tw_value *go_on = tw_onnx_loop_scalar(g, TW_BOOL, 1);
    rows = !trim_trips(l) ? NULL
           : all          ? tw_onnx_bind_size(l->n, l->trips, declared_rows(l), "number of trips")
                          : most_rows(l);
    g->b = inside;
    if (!rows)
        return NULL;
    tw_op_set_operand(l->op, 0, l->trips);
    if (all)
        tw_op_set_operand(l->op, 1, go_on);
    return rows;
}

/* ---- The body ---- */

/* Number and condition come first, and the condition goes out first. */
static bool import_body(tw_onnx_loop *l)
{
    const tw_region *region = &l->op->regions[0];
    unsigned n_in = l->n_states + 2;
    tw_value **in = TW_NEW_ARRAY(l->n->im->arena, tw_value *, n_in);
    l->out = TW_NEW_ARRAY(l->n->im->arena, tw_value *, l->body->n_output);
    in[0] = tw_onnx_loop_argument(l, region->args[0], 0);
    in[1] = tw_onnx_loop_argument(l, tw_onnx_loop_scalar(l->g, TW_BOOL, 1), 1);
    for (unsigned i = 0; i < l->n_states; i++)
        in[2 + i] = tw_onnx_loop_holds(l, i)
                        ? tw_onnx_held(l->n->im, &l->contents[i], region->args[1 + i])
                        : region->args[1 + i];
    if (!in[0] || !in[1] || !tw_onnx_inline_graph(l->n, l->body, in, n_in, l->out))
        return false;
    l->out[0] = tw_onnx_single(l->n, l->out[0], TW_BOOL, "the condition that the body gives");
    return l->out[0] != NULL;
}

/* ---- All ---- */

/* Whether the body can be repeated instead, which keeps all sizes known. */
static bool has_known_trips(tw_onnx_loop *l)
{
    tw_expr known;
    int64_t trips;
    return tw_known_expr(l->g, l->trips, &known) && tw_expr_as_const(known, &trips) &&
           trips <= MAX_UNROLLED && tw_onnx_loop_is_true(l->g, l->go);
}

static bool can_unroll(tw_onnx_loop *l)
{
    return has_known_trips(l) && tw_onnx_loop_is_true(l->g, l->out[0]);
}

static bool changes_kind(const tw_onnx_loop *l)
{
    for (unsigned i = 0; i < l->n_states; i++) {
        tw_type from = l->initial[i]->type, to = l->out[1 + i]->type;
        if (!tw_onnx_loop_holds(l, i) &&
            (to->kind != from->kind || to->elem != from->elem || to->rank != from->rank))
            return true;
    }
    return false;
}

/* A sequence as state that holds nothing to begin with may be read in a trip. Of what type a tensor
 * is that it gives is not known before what the trip puts in is. So the body is first imported on
 * trial: what depends on such a tensor is unknown, and left out. */
static bool is_trial(const tw_onnx_loop *l)
{
    bool trial = false;
    for (unsigned i = 0; i < l->n_states; i++)
        trial |= tw_onnx_loop_holds(l, i) && l->contents[i].rank == TW_ONNX_NO_TENSOR;
    return trial;
}

/* What the trial has found out about the states; then the body is imported anew. Sets *settled when
 * that is nothing. */
static void end_trial(tw_onnx_loop *l, bool *settled)
{
    tw_onnx *im = l->n->im;
    *settled = true;
    for (unsigned i = 0; i < l->n_states; i++) {
        tw_value *next = l->out[1 + i];
        bool changed = false;
        if (!tw_onnx_loop_holds(l, i) || !next || next == &im->unknown->value ||
            !tw_onnx_as_bundle(next))
            continue;
        tw_onnx_content content = tw_onnx_content_of(im, next);
        tw_onnx_join_content(&l->contents[i], &content, &changed);
        *settled = *settled && !changed;
    }
    tw_onnx_loop_drop(l);
    im->unknowns = l->n->unknowns;
}

/* States are of one type throughout. */
static bool end_outer_trial(tw_onnx_loop *l)
{
    l->g->b = l->here;
    for (unsigned i = 0; i < l->n_states && i < l->n->n_out; i++)
        l->n->out[i] = tw_onnx_stand_in(l->n, l->n->in[2 + i]);
    return false;
}

/* Imports the body until it is known what it needs. False with an error, or when a trial of a loop
 * around this one is to find out more. */
static bool import_known(tw_onnx_loop *l)
{
    tw_onnx *im = l->n->im;
    for (bool settled = false;;) {
        bool trial = !settled && is_trial(l);
        im->trials += trial;
        bool fine = tw_onnx_loop_open(l) && import_body(l);
        im->trials -= trial;
        if (!tw_onnx_met_unknown(l->n) || im->malformed)
            return fine;
        if (!trial)
            return end_outer_trial(l);
        end_trial(l, &settled);
    }
}

/* Imports the body until the sizes that it keeps are known. Sets *unrolled when that is not how the
 * loop is to be imported. */
static bool build(tw_onnx_loop *l, bool *unrolled)
{
    for (;;) {
        if (!import_known(l))
            return false;
        bool kind = changes_kind(l);
        if (!kind && !tw_onnx_loop_settle(l))
            return false;
        *unrolled = (kind || l->again || l->contents) && can_unroll(l);
        if (kind && !*unrolled)
            return tw_onnx_loop_settle(l); /* says what is wrong */
        bool open = !*unrolled && l->n_stacks && !tw_onnx_loop_is_true(l->g, l->out[0]);
        bool listed = !*unrolled && tw_onnx_loop_can_list(l) &&
                      (tw_onnx_loop_rows_vary(l) || (open && may_be_many(l)));
        bool counted = open && !listed;
        if (!*unrolled && !l->again && counted == l->counted && listed == l->listed)
            return true;
        l->counted = counted;
        l->listed = listed;
        tw_onnx_loop_drop(l);
        if (*unrolled)
            return true;
    }
}

/* Whether a failed attempt is to be made anew trip by trip: some sequence may be no handle. */
static bool try_unrolling(tw_onnx_loop *l)
{
    if (!l->contents || !l->op || l->n->im->malformed || tw_onnx_met_unknown(l->n) ||
        !has_known_trips(l))
        return false;
    tw_onnx_loop_drop(l);
    return true;
}

/* The states to begin with, sequences among them as handles. */
static bool read_states(tw_onnx_loop *l)
{
    tw_onnx_node *n = l->n;
    tw_value **initial = TW_NEW_ARRAY(n->im->arena, tw_value *, l->n_states + 1);
    l->initial = initial;
    for (unsigned i = 0; i < l->n_states; i++) {
        if (!n->in[2 + i])
            return tw_onnx_error(n, "input %u is missing: a state needs a value to start with",
                                 i + 2);
        initial[i] = n->in[2 + i];
        if (!tw_onnx_as_bundle(initial[i]))
            continue;
        if (!l->contents)
            l->contents = TW_NEW_ARRAY(n->im->arena, tw_onnx_content, l->n_states);
        l->contents[i] = tw_onnx_content_of(n->im, initial[i]);
        if (!(initial[i] = tw_onnx_handle(n, initial[i])))
            return false;
    }
    return true;
}

bool tw_onnx_op_loop(tw_onnx_node *n)
{
    tw_onnx_loop l = {.n = n, .g = n->g, .body = tw_onnx_graph(n, "body"), .first_state_out = 1};
    bool unrolled = false;
    l.n_states = n->n_in > 2 ? n->n_in - 2 : 0;
    if (!l.body || !check_counts(&l) || !read_bounds(&l) || !read_states(&l))
        return false;
    l.open = TW_NEW_ARRAY(n->im->arena, uint32_t, l.n_states + 1);
    if (!build(&l, &unrolled) && !(unrolled = try_unrolling(&l)))
        return false;
    if (unrolled)
        return tw_onnx_unroll(&l, n->in + 2);
    tw_expr rows = l.listed ? declared_rows(&l) : find_rows(&l);
    if ((!rows && !l.listed) || !tw_onnx_loop_close(&l, rows))
        return false;
    for (unsigned i = 0; i < n->n_out; i++)
        tw_onnx_set(n, i, l.results[i]);
    return true;
}
