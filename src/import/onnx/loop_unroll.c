/* loop_unroll.c: a Loop trip by trip: its body once for each, so that states may be sequences or
 * change what they are. For numbers of trips that are known, and not too large. */
#include "import/onnx/loop.h"

/* What unrolling has come to. */
typedef struct unrolled {
    tw_value **states, *go;
    tw_value ***rows; /* per stack, per trip */
    int64_t trips;
} unrolled;

/* The number of trips of a loop that is to be unrolled. */
static bool known_trips(tw_onnx_loop *l, int64_t *trips)
{
    enum { MAX_TRIPS = 1000, MAX_NODES = 100000 };
    tw_expr known;
    if (!tw_known_expr(l->g, l->trips, &known) || !tw_expr_as_const(known, trips))
        return tw_onnx_error(l->n,
                             "a state changes its number of dimensions: the number of trips must "
                             "be known when the model is compiled");
    *trips = *trips < 0 ? 0 : *trips;
    return (*trips <= MAX_TRIPS && *trips * (int64_t)l->body->n_node <= MAX_NODES) ||
           tw_onnx_error(l->n,
                         "a state changes its number of dimensions, and there are %lld trips of "
                         "%zu nodes; %d trips and %d nodes in all are accepted",
                         (long long)*trips, l->body->n_node, MAX_TRIPS, MAX_NODES);
}

static bool unroll_trip(tw_onnx_loop *l, unrolled *u)
{
    unsigned n_in = l->n_states + 2;
    tw_value **in = TW_NEW_ARRAY(l->n->im->arena, tw_value *, n_in);
    tw_value **out = TW_NEW_ARRAY(l->n->im->arena, tw_value *, l->body->n_output);
    in[0] = tw_onnx_loop_argument(l, tw_onnx_loop_scalar(l->g, TW_I64, u->trips), 0);
    in[1] = tw_onnx_loop_argument(l, tw_onnx_loop_scalar(l->g, TW_BOOL, 1), 1);
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

static tw_value *stack_rows(tw_onnx_loop *l, tw_value **rows, int64_t n)
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

bool tw_onnx_unroll(tw_onnx_loop *l, tw_value *const *initial)
{
    int64_t most, go;
    tw_expr known;
    unrolled u = {.states = (tw_value **)initial, .go = l->go};
    if (!known_trips(l, &most))
        return false;
    u.rows = TW_NEW_ARRAY(l->n->im->arena, tw_value **, l->n_stacks + 1);
    for (unsigned i = 0; i < l->n_stacks; i++)
        u.rows[i] = TW_NEW_ARRAY(l->n->im->arena, tw_value *, (size_t)most + 1);
    while (u.trips < most) {
        if (!tw_known_expr(l->g, u.go, &known) || !tw_expr_as_const(known, &go))
            return tw_onnx_error(l->n, "a state changes its number of dimensions: the condition "
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
