/* op_scan.c: Scan becomes a graph.loop of as many trips as its sequences have elements; it takes
 * slices by gathers. What is to run backwards or along another axis is turned round before and
 * behind. */
#include "import/onnx/loop.h"

/* States keep their sizes: those that may be others than at first are checked to be the same. */
static bool keep_sizes(tw_onnx_loop *l)
{
    for (unsigned i = 0; i < l->n_states; i++) {
        tw_value **x = &l->out[1 + i];
        tw_type is = l->op->regions[0].args[1 + i]->type;
        bool same = !tw_onnx_as_bundle(*x) && (*x)->type->rank == is->rank && !l->open[i];
        for (unsigned d = 0; same && d < is->rank; d++)
            same = !tw_gb_differ(l->g, (*x)->type->dims[d], is->dims[d]);
        if (same && !(*x = tw_gb_conform(l->g, *x, is->dims)))
            return false;
    }
    return true;
}

/* What Scan's attributes say of its sequences and stacks. */
typedef struct scan {
    tw_onnx_loop l;
    tw_value **in; /* states, then sequences */
    unsigned n_in;
    const int64_t *in_axes, *out_axes;  /* NULL: all 0 */
    const int64_t *backwards, *reverse; /* of sequences and stacks; NULL: none */
    size_t n_in_axes, n_out_axes, n_backwards, n_reverse;
    tw_expr length;
    tw_value *steps; /* of the trips those that count (an i64 scalar), or NULL: all */
} scan;

/* In a trip that is one too many states stay, and rows are of zeros. */
static bool pause_behind(scan *s)
{
    tw_onnx_loop *l = &s->l;
    tw_gb *g = l->g;
    const tw_region *region = &l->op->regions[0];
    tw_value *runs = tw_gb_binary(g, TW_GRAPH_LESS, region->args[0], s->steps);
    for (unsigned i = 1; i <= l->n_states + l->n_stacks; i++) {
        tw_value *x = l->out[i];
        if (!x || tw_onnx_as_bundle(x) || x->type->elem == TW_STRING)
            return x && tw_onnx_error(l->n, "lengths of sequences whose results are not numbers");
        tw_value *stays = i <= l->n_states ? region->args[i] : tw_gb_scalar(g, x->type->elem, 0);
        if (!(l->out[i] = tw_gb_where(g, runs, x, stays)))
            return false;
    }
    return true;
}

/* Where the trip reads sequence i; backwards it starts at the last of the steps that count. */
static tw_value *step_of(scan *s, unsigned i)
{
    tw_gb *g = s->l.g;
    tw_value *trip = s->l.op->regions[0].args[0];
    if (!s->steps || !s->backwards || !s->backwards[i])
        return trip;
    tw_value *left = tw_gb_binary(g, TW_GRAPH_SUB, s->steps, trip);
    left = tw_gb_binary_scalar(g, TW_GRAPH_SUB, left, 1);
    return tw_gb_binary_scalar(g, TW_GRAPH_MAX, left, 0);
}

static bool import_scan_body(scan *s)
{
    tw_onnx_loop *l = &s->l;
    const tw_region *region = &l->op->regions[0];
    unsigned n_in = l->n_states + l->n_sequences;
    tw_value **in = TW_NEW_ARRAY(l->n->im->arena, tw_value *, n_in + 1);
    l->out = TW_NEW_ARRAY(l->n->im->arena, tw_value *, l->body->n_output + 1);
    for (unsigned i = 0; i < l->n_states; i++)
        in[i] = region->args[1 + i];
    for (unsigned i = 0; i < l->n_sequences; i++)
        if (!(in[l->n_states + i] = tw_gb_gather(l->g, l->sequences[i], step_of(s, i), 0)))
            return false;
    l->out[0] = tw_onnx_loop_scalar(l->g, TW_BOOL, 1);
    return tw_onnx_inline_graph(l->n, l->body, in, n_in, l->out + 1) && keep_sizes(l) &&
           (!s->steps || pause_behind(s));
}

static bool list(scan *s, const char *name, const int64_t **out, size_t *count, size_t wanted)
{
    bool ok = true;
    *out = tw_onnx_int_list(s->l.n, name, count, &ok);
    return ok && (!*out || *count == wanted ||
                  tw_onnx_error(s->l.n, "attribute '%s' has %zu entries; %zu are needed", name,
                                *count, wanted));
}

/* Directions: 0 forward, 1 backward. */
static bool directions(scan *s, const char *name, const int64_t **out, size_t *count, size_t wanted)
{
    if (!list(s, name, out, count, wanted))
        return false;
    for (size_t i = 0; i < *count; i++)
        if ((*out)[i] != 0 && (*out)[i] != 1)
            return tw_onnx_error(s->l.n, "attribute '%s' has the entry %lld; accepted are 0 and 1",
                                 name, (long long)(*out)[i]);
    return true;
}

static bool read_scan(scan *s)
{
    tw_onnx_loop *l = &s->l;
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
    tw_onnx_loop *l = &s->l;
    tw_value **turned = TW_NEW_ARRAY(l->n->im->arena, tw_value *, l->n_sequences);
    for (unsigned i = 0; i < l->n_sequences; i++) {
        tw_value *x = s->in[l->n_states + i];
        unsigned axis;
        if (!tw_onnx_axis(l->n, s->in_axes ? s->in_axes[i] : 0, x->type->rank, &axis))
            return false;
        x = move_axis(l->g, x, axis, 0);
        if (x && s->backwards && s->backwards[i] && !s->steps)
            x = flip(l->g, x);
        if (!x)
            return false;
        if (s->length && tw_gb_differ(l->g, s->length, x->type->dims[0]))
            return tw_onnx_error(l->n, "sequences of %s and %s steps",
                                 tw_print_expr(l->g->ctx, s->length, NULL),
                                 tw_print_expr(l->g->ctx, x->type->dims[0], NULL));
        if (s->length && !tw_gb_check_equal(l->g, s->length, x->type->dims[0], "sequences"))
            return false;
        s->length = s->length ? s->length : x->type->dims[0];
        turned[i] = x;
    }
    l->sequences = turned;
    return true;
}

/* Results as the model wants them. */
static bool turn_stacks(scan *s, tw_value **results)
{
    tw_onnx_loop *l = &s->l;
    for (unsigned i = 0; i < l->n_states + l->n_stacks; i++) {
        tw_value *x = l->results[i];
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

/* Whether the imported body is to be imported anew, for it shows that rows must be listed. */
static bool begin_anew(tw_onnx_loop *l)
{
    bool listed = tw_onnx_loop_rows_vary(l) && tw_onnx_loop_can_list(l);
    if (listed == l->listed)
        return false;
    l->listed = listed;
    tw_onnx_loop_drop(l);
    return true;
}

/* The loop over s->in at the builder's place. */
static bool build_scan(scan *s, tw_value **results)
{
    tw_onnx_loop *l = &s->l;
    if (!turn_sequences(s))
        return false;
    l->trips = tw_onnx_size_of(l->g, l->sequences[0], 0);
    l->go = tw_onnx_loop_scalar(l->g, TW_BOOL, 1);
    if (!l->trips)
        return false;
    l->open = TW_NEW_ARRAY(l->n->im->arena, uint32_t, l->n_states + 1);
    for (;;) {
        if (!tw_onnx_loop_open(l) || !import_scan_body(s) || !tw_onnx_loop_settle(l))
            return false;
        if (l->again)
            tw_onnx_loop_drop(l);
        else if (!begin_anew(l))
            return tw_onnx_loop_close(l, s->length) && turn_stacks(s, results);
    }
}

static void set_results(tw_onnx_node *n, tw_value **results)
{
    for (unsigned i = 0; i < n->n_out; i++)
        tw_onnx_set(n, i, results[i]);
}

bool tw_onnx_op_scan(tw_onnx_node *n)
{
    scan s = {.l = {.n = n, .g = n->g}, .in = n->in, .n_in = n->n_in};
    tw_onnx_loop *l = &s.l;
    if (!read_scan(&s) || !list(&s, "scan_input_axes", &s.in_axes, &s.n_in_axes, l->n_sequences) ||
        !list(&s, "scan_output_axes", &s.out_axes, &s.n_out_axes, l->n_stacks) ||
        !directions(&s, "scan_input_directions", &s.backwards, &s.n_backwards, l->n_sequences) ||
        !directions(&s, "scan_output_directions", &s.reverse, &s.n_reverse, l->n_stacks))
        return false;
    tw_value **results = TW_NEW_ARRAY(n->im->arena, tw_value *, l->body->n_output);
    if (!build_scan(&s, results))
        return false;
    set_results(n, results);
    return true;
}

/* Lengths of a batch's sequences, input 0; running checks that the sequences are as long. */
static tw_value *read_lengths(scan *s)
{
    tw_onnx_node *n = s->l.n;
    tw_gb *g = n->g;
    tw_value *x = s->in[s->l.n_states], *lengths = tw_onnx_index_exactly(n, 0, x->type->dims[0]);
    if (x->type->rank < 2)
        return tw_gb_error(g, "a sequence of %s; batch and steps are needed",
                           tw_gb_type_text(g, x->type));
    tw_value *wrong =
        tw_gb_binary(g, TW_GRAPH_OR, tw_gb_binary_scalar(g, TW_GRAPH_LESS, lengths, 0),
                     tw_gb_binary(g, TW_GRAPH_GREATER, lengths, tw_onnx_size_of(g, x, 1)));
    wrong = tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, tw_gb_cast(g, wrong, TW_I64), 1, false);
    return tw_onnx_bind_size(n, wrong, tw_gb_const(g, 0), "number of lengths that no sequence has")
               ? lengths
               : NULL;
}

/* Within the loop over a batch: the scan of one item. */
static bool scan_item(tw_onnx_loop *batch, scan s, tw_value *lengths)
{
    tw_value **items = TW_NEW_ARRAY(batch->n->im->arena, tw_value *, s.n_in);
    for (unsigned i = 0; i < s.n_in; i++)
        if (!(items[i] = tw_gb_gather(batch->g, s.in[i], batch->op->regions[0].args[0], 0)))
            return false;
    if (lengths && !(s.steps = tw_gb_gather(batch->g, lengths, batch->op->regions[0].args[0], 0)))
        return false;
    s.l.initial = s.in = items;
    batch->out[0] = tw_onnx_loop_scalar(batch->g, TW_BOOL, 1);
    return build_scan(&s, batch->out + 1);
}

/* Version 8 scans each item of a batch: a loop around that of the scan. */
bool tw_onnx_op_scan_8(tw_onnx_node *n)
{
    scan s = {.l = {.n = n, .g = n->g}, .in = n->in + 1, .n_in = n->n_in - 1};
    tw_value *lengths = NULL;
    if (!read_scan(&s) ||
        !directions(&s, "directions", &s.backwards, &s.n_backwards, s.l.n_sequences) ||
        (n->in[0] && !(lengths = read_lengths(&s))))
        return false;
    unsigned n_results = (unsigned)s.l.body->n_output;
    tw_onnx_loop batch = {.n = n, .g = n->g, .n_stacks = n_results};
    batch.trips = tw_onnx_size_of(n->g, s.in[0], 0);
    batch.go = tw_onnx_loop_scalar(n->g, TW_BOOL, 1);
    if (!batch.trips)
        return false;
    tw_expr size = s.in[0]->type->dims[0];
    batch.out = TW_NEW_ARRAY(n->im->arena, tw_value *, n_results + 1);
    do {
        if (!tw_onnx_loop_open(&batch) || !scan_item(&batch, s, lengths))
            return false;
    } while (begin_anew(&batch));
    if (!tw_onnx_loop_close(&batch, size))
        return false;
    for (unsigned i = 0; i < n->n_out; i++)
        tw_onnx_set(n, i, batch.results[i]);
    return true;
}
