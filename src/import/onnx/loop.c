/* loop.c: the frame of graph.loop: arguments, types of states and rows, results.
 *
 *   %y, %d = graph.loop %m, %c, %x, %e do (%i, %s: tensor<s x f32>, %k: tensor<1xi64>) {
 *     graph.bind %k {symbols = ["s"]}
 *     …
 *     graph.yield %go_on, %next, %l          // %l: the sizes of %next
 *   }
 *   graph.bind %d {symbols = ["y.0"]}        // %y: tensor<y.0 x f32> */
#include "import/onnx/loop.h"

#include <string.h>

tw_value *tw_onnx_loop_scalar(tw_gb *g, tw_elem elem, int64_t value)
{
    return tw_gb_scalar(g, elem, (double)value);
}

bool tw_onnx_loop_is_true(tw_gb *g, const tw_value *value)
{
    tw_expr known;
    int64_t number;
    return tw_known_expr(g, value, &known) && tw_expr_as_const(known, &number) && number;
}

static bool is_open(const tw_onnx_loop *l, unsigned state)
{
    return l->open[state] != 0;
}

static unsigned count_open(const tw_onnx_loop *l)
{
    unsigned n = 0;
    for (unsigned i = 0; i < l->n_states; i++)
        n += is_open(l, i);
    return n;
}

/* Stacks that the operation itself makes. */
static unsigned count_scans(const tw_onnx_loop *l)
{
    return l->listed ? 0 : l->n_stacks;
}

static tw_type with_dims(tw_onnx_loop *l, tw_type type, const tw_expr *dims)
{
    return tw_type_tensor(l->g->ctx, type->elem, type->rank, dims, NULL);
}

/* ---- The beginning ---- */

/* Within a trip an open state has sizes that its vector of sizes says. */
static bool bind_arguments(tw_onnx_loop *l)
{
    tw_region *region = &l->op->regions[0];
    unsigned sizes = 1 + l->n_states;
    for (unsigned i = 0; i < l->n_states; i++) {
        tw_value *arg = region->args[1 + i];
        tw_expr hints[TW_MAX_RANK];
        if (!is_open(l, i))
            continue;
        for (unsigned d = 0; d < arg->type->rank; d++)
            hints[d] = l->open[i] >> d & 1 ? NULL : arg->type->dims[d];
        const tw_expr *dims =
            tw_onnx_bind_sizes(l->n, region->args[sizes++], hints, "sizes of a state");
        if (!dims)
            return false;
        arg->type = with_dims(l, arg->type, dims);
    }
    return true;
}

/* An empty sequence for each stack; once, however often the body is imported. */
static bool make_lists(tw_onnx_loop *l)
{
    if (l->lists || !l->listed)
        return true;
    l->lists = TW_NEW_ARRAY(l->n->im->arena, tw_value *, l->n_stacks);
    for (unsigned i = 0; i < l->n_stacks; i++)
        if (!(l->lists[i] = tw_onnx_handle_routine(l->n, "make", NULL, 0, NULL, 0)))
            return false;
    return true;
}

bool tw_onnx_loop_open(tw_onnx_loop *l)
{
    unsigned n = 0, states = l->n_states, scans = count_scans(l);
    unsigned extra = count_open(l) + l->counted + l->n_stacks;
    tw_value **operands = TW_NEW_ARRAY(l->n->im->arena, tw_value *, 2 + states + extra);
    operands[n++] = l->trips;
    operands[n++] = l->go;
    for (unsigned i = 0; i < states; i++)
        operands[n++] = l->initial[i];
    for (unsigned i = 0; i < states; i++)
        if (is_open(l, i) && !(operands[n++] = tw_onnx_sizes_of(l->g, l->initial[i])))
            return false;
    if (l->counted)
        operands[n++] = tw_onnx_loop_scalar(l->g, TW_I64, 0);
    if (!make_lists(l))
        return false;
    for (unsigned i = 0; l->listed && i < l->n_stacks; i++)
        operands[n++] = l->lists[i];
    l->op = tw_onnx_region_op(l->n, TW_GRAPH_LOOP, operands, n, n - 2 + scans);
    if (scans)
        tw_op_set_attr(l->op, "scans", tw_attr_int(l->g->ctx, scans));
    l->here = l->g->b;
    l->known_sizes = l->n->im->sizes.len;
    l->handles = l->n->im->handles;
    l->mark = tw_diag_mark_here(l->g->ctx);
    tw_region *region = &l->op->regions[0];
    tw_region_add_arg(region, tw_type_tensor(l->g->ctx, TW_I64, 0, NULL, NULL), "i");
    for (unsigned i = 2; i < n; i++)
        tw_region_add_arg(region, operands[i]->type, NULL);
    l->g->b = tw_builder_at_end(l->g->ctx, region, l->here.loc);
    return bind_arguments(l);
}

void tw_onnx_loop_drop(tw_onnx_loop *l)
{
    l->g->b = l->here;
    tw_op_erase(l->op);
    tw_diag_rewind(l->g->ctx, l->mark);
}

/* ---- The end of the body ---- */

/* Whether the size uses a symbol that the body defines. */
static bool is_inner(const tw_onnx_loop *l, tw_expr size)
{
    if (size->lhs)
        return is_inner(l, size->lhs) || is_inner(l, size->rhs);
    if (size->kind != TW_EXPR_SYM)
        return false;
    for (size_t i = l->known_sizes; i < l->n->im->sizes.len; i++)
        if (!strcmp(l->n->im->sizes.data[i]->u.string.text, size->symbol))
            return true;
    return false;
}

/* What the body declares of the sizes of output i as numbers; NULL entries for others. */
static void declared_dims(const tw_onnx_loop *l, unsigned i, unsigned rank, tw_expr *dims)
{
    const Onnx__TypeProto *type = l->body->output[i]->type;
    const Onnx__TensorShapeProto *shape =
        type && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ? type->tensor_type->shape
                                                                        : NULL;
    for (unsigned d = 0; d < rank; d++) {
        const Onnx__TensorShapeProto__Dimension *dim =
            shape && shape->n_dim == rank ? shape->dim[d] : NULL;
        bool number =
            dim && dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        dims[d] = number && dim->dim_value >= 0 ? tw_gb_const(l->g, dim->dim_value) : NULL;
    }
}

/* x with sizes that only the trip knows replaced by what the body declares them to be. */
static tw_value *as_body_declares(tw_onnx_loop *l, tw_value *x, unsigned output)
{
    tw_expr dims[TW_MAX_RANK], sets[2 * TW_MAX_RANK];
    tw_context *ctx = l->g->ctx;
    unsigned n = 0;
    tw_type type = x->type;
    declared_dims(l, output, type->rank, dims);
    for (unsigned d = 0; d < type->rank; d++) {
        if (!dims[d] || !is_inner(l, type->dims[d])) {
            dims[d] = type->dims[d];
            continue;
        }
        sets[n++] = tw_expr_sub(ctx, dims[d], type->dims[d]);
        sets[n++] = tw_expr_sub(ctx, type->dims[d], dims[d]);
    }
    if (!n)
        return x;
    const char *message = tw_arena_printf(
        l->n->im->arena, "%s: output %u of the body has other sizes than it declares",
        l->g->b.loc->node, output);
    tw_build(&l->g->b, &tw_graph_ops[TW_GRAPH_CHECK], NULL, 0, NULL, 0, "sets",
             tw_attr_map(ctx, 0, sets, n), "message", tw_attr_string(ctx, message), NULL);
    return tw_gb_reshape(l->g, x, type->rank, dims);
}

static bool settle_state(tw_onnx_loop *l, unsigned i)
{
    tw_type is = l->op->regions[0].args[1 + i]->type, becomes = l->out[1 + i]->type;
    if (is->elem != becomes->elem || is->rank != becomes->rank)
        return tw_onnx_error(l->n, "state %u is %s and becomes %s; only its sizes may change", i,
                             tw_gb_type_text(l->g, is), tw_gb_type_text(l->g, becomes));
    for (unsigned d = 0; d < is->rank; d++)
        if (!(l->open[i] >> d & 1) && is->dims[d] != becomes->dims[d]) {
            l->open[i] |= UINT32_C(1) << d;
            l->again = true;
        }
    return true;
}

/* What the body gives for a state that is a sequence: a handle. What it holds may turn out to be
 * something else than in the trips before. */
static bool settle_held(tw_onnx_loop *l, unsigned i)
{
    tw_value *next = l->out[1 + i];
    bool changed = false;
    tw_onnx_content content = tw_onnx_content_of(l->n->im, next);
    if (!tw_onnx_as_bundle(next) || !tw_onnx_join_content(&l->contents[i], &content, &changed))
        return tw_onnx_error(l->n,
                             "state %u is a sequence or optional and becomes a tensor, one of "
                             "another element type, or the other",
                             i);
    l->again |= changed;
    l->out[1 + i] = tw_onnx_handle(l->n, next);
    return l->out[1 + i] != NULL;
}

bool tw_onnx_loop_settle(tw_onnx_loop *l)
{
    l->again = false;
    for (unsigned i = 0; i < l->n_states + l->n_stacks; i++) {
        if (i < l->n_states && tw_onnx_loop_holds(l, i)) {
            if (!settle_held(l, i))
                return false;
            continue;
        }
        if (tw_onnx_as_bundle(l->out[1 + i]))
            return tw_onnx_error(l->n, "output %u of the body is a sequence; %s", i,
                                 i < l->n_states ? "the state was a tensor" : "rows are tensors");
        l->out[1 + i] = as_body_declares(l, l->out[1 + i], l->first_state_out + i);
        if (!l->out[1 + i] || (i < l->n_states && !settle_state(l, i)))
            return false;
    }
    return true;
}

bool tw_onnx_loop_can_list(const tw_onnx_loop *l)
{
    for (unsigned i = 0; i < l->n_stacks; i++)
        if (tw_elem_bits(l->out[1 + l->n_states + i]->type->elem) < 8)
            return false;
    return true;
}

bool tw_onnx_loop_rows_vary(const tw_onnx_loop *l)
{
    for (unsigned i = 0; i < l->n_stacks; i++) {
        tw_type row = l->out[1 + l->n_states + i]->type;
        for (unsigned d = 0; d < row->rank; d++)
            if (is_inner(l, row->dims[d]))
                return true;
    }
    return false;
}

/* ---- Results ---- */

static void *too_deep(tw_onnx_loop *l, tw_type row)
{
    return tw_gb_error(l->g, "rows of %s: their stack has more than %d dimensions",
                       tw_gb_type_text(l->g, row), TW_MAX_RANK);
}

/* The stack of `rows` rows of that type. */
static tw_type stack_of(tw_onnx_loop *l, tw_type row, tw_expr rows)
{
    tw_expr dims[TW_MAX_RANK];
    if (row->rank + 1 > TW_MAX_RANK)
        return too_deep(l, row);
    dims[0] = rows;
    for (unsigned d = 0; d < row->rank; d++) {
        dims[d + 1] = row->dims[d];
        if (is_inner(l, row->dims[d]))
            return tw_gb_error(l->g,
                               "rows of %s, whose size only a trip knows; these may not have "
                               "elements smaller than a byte",
                               tw_gb_type_text(l->g, row));
    }
    return tw_type_tensor(l->g->ctx, row->elem, row->rank + 1, dims, NULL);
}

/* Whether an output is yielded as a handle: a state, or a stack behind the states. */
static bool is_handle(const tw_onnx_loop *l, unsigned output)
{
    return output < l->n_states ? tw_onnx_loop_holds(l, output) : l->listed;
}

/* Sequences that a trip makes and no state keeps go when it ends. `values`: what is yielded for
 * states and stacks. */
static bool drop_sequences(tw_onnx_loop *l, tw_value **values)
{
    unsigned n = 0, all = l->n_states + l->n_stacks;
    tw_value **handles = TW_NEW_ARRAY(l->n->im->arena, tw_value *, all + 1);
    if (l->n->im->handles == l->handles)
        return true;
    for (unsigned i = 0; i < all; i++)
        if (is_handle(l, i))
            handles[n++] = values[i];
    if (!tw_onnx_keep_only(l->n, l->op, handles, n))
        return false;
    n = 0;
    for (unsigned i = 0; i < all; i++)
        if (is_handle(l, i))
            values[i] = handles[n++];
    return true;
}

/* What is yielded for states and stacks; NULL with an error. */
static tw_value **find_yielded(tw_onnx_loop *l)
{
    const tw_region *region = &l->op->regions[0];
    unsigned all = l->n_states + l->n_stacks, first = region->n_args - l->n_stacks;
    tw_value **values = TW_NEW_ARRAY(l->n->im->arena, tw_value *, all + 1);
    memcpy(values, l->out + 1, all * sizeof *values);
    for (unsigned i = 0; l->listed && i < l->n_stacks; i++) {
        tw_value *operands[2] = {region->args[first + i], values[l->n_states + i]};
        values[l->n_states + i] = tw_onnx_handle_routine(l->n, "insert", operands, 2, NULL, 0);
        if (!values[l->n_states + i])
            return NULL;
    }
    return drop_sequences(l, values) ? values : NULL;
}

static bool yield_all(tw_onnx_loop *l)
{
    unsigned n = 0, states = l->n_states;
    tw_value **yielded = find_yielded(l);
    tw_value **values =
        TW_NEW_ARRAY(l->n->im->arena, tw_value *, 2 + states + count_open(l) + l->n_stacks);
    if (!yielded)
        return false;
    values[n++] = l->out[0];
    for (unsigned i = 0; i < states; i++)
        values[n++] = yielded[i];
    for (unsigned i = 0; i < states; i++)
        if (is_open(l, i) && !(values[n++] = tw_onnx_sizes_of(l->g, l->out[1 + i])))
            return false;
    if (l->counted &&
        !(values[n++] = tw_gb_binary_scalar(l->g, TW_GRAPH_ADD, l->op->regions[0].args[0], 1)))
        return false;
    for (unsigned i = 0; i < l->n_stacks; i++)
        values[n++] = yielded[states + i];
    tw_onnx_yield(l->n, values, n);
    return true;
}

/* Behind the loop: sizes of open states and the number of rows. */
static bool bind_results(tw_onnx_loop *l)
{
    unsigned sizes = l->n_states, first = l->op->n_results - l->n_stacks;
    for (unsigned i = 0; i < l->n_states; i++) {
        tw_value *result = tw_result(l->op, i);
        tw_expr hints[TW_MAX_RANK];
        l->results[i] = result;
        if (tw_onnx_loop_holds(l, i))
            l->results[i] = tw_onnx_held(l->n->im, &l->contents[i], result);
        if (!is_open(l, i))
            continue;
        tw_onnx_declared_dims(l->n, i, result->type->rank, hints);
        for (unsigned d = 0; d < result->type->rank; d++)
            hints[d] = l->open[i] >> d & 1 ? hints[d] : result->type->dims[d];
        const tw_expr *dims = tw_onnx_bind_sizes(l->n, tw_result(l->op, sizes++), hints,
                                                 "sizes of a state behind the loop");
        if (!dims)
            return false;
        result->type = with_dims(l, result->type, dims);
    }
    for (unsigned i = 0; i < l->n_stacks; i++)
        l->results[l->n_states + i] = tw_result(l->op, first + i);
    return true;
}

/* The stack that a list of rows of that type is. A size that only a trip knows is the list's; when
 * the list is empty, 0. */
static tw_value *stack_list(tw_onnx_loop *l, tw_value *list, tw_type row, tw_expr rows)
{
    tw_onnx_result result = {.elem = row->elem, .rank = row->rank + 1};
    tw_expr empty[TW_MAX_RANK];
    if (result.rank > TW_MAX_RANK)
        return too_deep(l, row);
    result.dims[0] = rows;
    empty[0] = tw_gb_const(l->g, 0);
    for (unsigned d = 0; d < row->rank; d++) {
        bool inner = is_inner(l, row->dims[d]);
        result.dims[1 + d] = inner ? tw_onnx_new_size(l->n) : row->dims[d];
        empty[1 + d] = inner ? empty[0] : row->dims[d];
    }
    tw_value *none = tw_gb_splat(l->g, TW_BOOL, 0, result.rank, empty);
    tw_value *out, *operands[2] = {list, none ? tw_onnx_sizes_of(l->g, none) : NULL};
    return tw_onnx_routine(l->n, "sequence_concat", operands, 2, (int64_t[]){0, 1}, 2, &result, 1,
                           &out)
               ? out
               : NULL;
}

/* `declared`: how many rows the model says that there are, or NULL. */
static bool stack_lists(tw_onnx_loop *l, tw_expr declared)
{
    tw_value *length, **lists = l->results + l->n_states;
    tw_onnx_result scalar = {.elem = TW_I64};
    if (!tw_onnx_routine(l->n, "sequence_length", lists, 1, NULL, 0, &scalar, 1, &length))
        return false;
    tw_expr rows = tw_onnx_bind_size(l->n, length, declared, "number of trips");
    for (unsigned i = 0; rows && i < l->n_stacks; i++)
        if (!(lists[i] = stack_list(l, lists[i], l->out[1 + l->n_states + i]->type, rows)))
            return false;
    return rows != NULL;
}

/* Of stacks with room for all rows, those that there are. */
static bool cut_stacks(tw_onnx_loop *l)
{
    tw_expr hint[TW_MAX_RANK], rows, zero = tw_gb_const(l->g, 0);
    tw_value *count = tw_result(l->op, l->n_states + count_open(l));
    tw_onnx_declared_dims(l->n, l->n_states, l->results[l->n_states]->type->rank, hint);
    rows = tw_onnx_bind_size(l->n, count, hint[0], "number of trips");
    for (unsigned i = l->n_states; rows && i < l->n_states + l->n_stacks; i++)
        if (!(l->results[i] = tw_gb_slice_axis(l->g, l->results[i], 0, zero, 1, rows)))
            return false;
    return rows != NULL;
}

bool tw_onnx_loop_close(tw_onnx_loop *l, tw_expr rows)
{
    unsigned first = l->op->n_results - count_scans(l);
    if (!yield_all(l))
        return false;
    l->g->b = l->here;
    for (unsigned i = 0; i < first; i++)
        l->op->results[i].type = tw_operand(l->op, 2 + i)->type;
    for (unsigned i = 0; i < count_scans(l); i++) {
        tw_type type = stack_of(l, l->out[1 + l->n_states + i]->type, rows);
        if (!type || !tw_gb_check_type(l->g, type))
            return false;
        l->op->results[first + i].type = type;
    }
    l->results = TW_NEW_ARRAY(l->n->im->arena, tw_value *, l->n_states + l->n_stacks + 1);
    if (!bind_results(l) || !tw_gb_verify(l->g, l->op))
        return false;
    return l->listed ? stack_lists(l, rows) : !l->counted || !l->n_stacks || cut_stacks(l);
}

/* ---- Bodies that C code makes ---- */

bool tw_onnx_steps(tw_onnx_node *n, tw_value *like, unsigned axis, tw_value **states,
                   unsigned n_states, tw_onnx_step step, void *data, tw_value **stack)
{
    tw_onnx_loop l = {.n = n,
                      .g = n->g,
                      .trips = tw_onnx_size_of(n->g, like, axis),
                      .go = tw_onnx_loop_scalar(n->g, TW_BOOL, 1),
                      .initial = states,
                      .n_states = n_states,
                      .n_stacks = stack ? 1 : 0,
                      .open = TW_NEW_ARRAY(n->im->arena, uint32_t, n_states + 1),
                      .out = TW_NEW_ARRAY(n->im->arena, tw_value *, n_states + 2)};
    for (unsigned i = 0; i < n_states; i++)
        if (!states[i])
            return false;
    if (!l.trips || !tw_onnx_loop_open(&l))
        return false;
    tw_value *const *args = l.op->regions[0].args;
    l.out[0] = tw_onnx_loop_scalar(n->g, TW_BOOL, 1);
    if (!step(data, args[0], args + 1, l.out + 1, &l.out[n_states + 1]))
        return false;
    for (unsigned i = 0; i < n_states; i++)
        if (!(l.out[1 + i] = tw_gb_conform(n->g, l.out[1 + i], states[i]->type->dims)))
            return false;
    if (!tw_onnx_loop_close(&l, like->type->dims[axis]))
        return false;
    memcpy(states, l.results, n_states * sizeof *states);
    if (stack)
        *stack = l.results[n_states];
    return true;
}
