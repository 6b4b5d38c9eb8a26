/* to_loops_control.c: branches and loops of a function. */
#include "lower/to_loops_impl.h"

#include <string.h>

/* Goes on in a region of an operation that was just made; `saved` is for leave. */
static bool enter(tw_to_loops *t, tw_op *made, unsigned region, tw_builder *saved)
{
    enum { MAX_DEPTH = 200 };
    *saved = t->body;
    if (!t->depth)
        t->outer = tw_builder_before(t->ctx, made);
    t->body = tw_builder_at_end(t->ctx, &made->regions[region], made->loc);
    return ++t->depth <= MAX_DEPTH ||
           tw_error(t->ctx, made->loc, "control flow nests more than %d deep", MAX_DEPTH);
}

static void leave(tw_to_loops *t, const tw_builder *saved)
{
    t->body = *saved;
    t->depth--;
}

static bool lower_branch(tw_to_loops *t, tw_region *from, tw_op *made, unsigned region,
                         tw_value *const *results)
{
    tw_builder saved;
    if (!enter(t, made, region, &saved))
        return false;
    tw_to_loops_plan_outputs(t, from->last, results);
    tw_to_loops_place_values(t, from);
    if (!tw_to_loops_lower_ops(t, from))
        return false;
    for (unsigned i = 0; i < from->last->n_operands; i++)
        tw_to_loops_copy_output(t, tw_operand(from->last, i), results[i]);
    leave(t, &saved);
    return true;
}

/* A slot for a result, which need not be where the function's results are. */
static tw_value *slot_for(tw_to_loops *t, tw_value *result)
{
    tw_type type = tw_to_loops_buffer_of(t->ctx, result->type);
    tw_op *op = tw_build(&t->body, &tw_loop_ops[TW_LOOP_ALLOC], NULL, 0, &type, 1, "later",
                         tw_attr_unit(t->ctx), NULL);
    tw_value *slot = tw_result(op, 0);
    if (result->name)
        tw_value_set_name(slot, result->name);
    tw_map_put_ptr(&t->planned, result, NULL);
    tw_map_put_ptr(&t->buffers, result, slot);
    return slot;
}

static bool same_in_branches(const tw_op *op, unsigned i)
{
    tw_type type = op->results[i].type;
    return tw_operand(op->regions[0].last, i)->type == type &&
           tw_operand(op->regions[1].last, i)->type == type;
}

bool tw_to_loops_lower_if(tw_to_loops *t, tw_op *op)
{
    tw_value *condition = tw_to_loops_buffer_for(t, tw_operand(op, 0));
    tw_value **results = TW_NEW_ARRAY(t->arena, tw_value *, op->n_results);
    for (unsigned i = 0; i < op->n_results; i++)
        results[i] = same_in_branches(op, i) ? tw_to_loops_result_buffer(t, tw_result(op, i))
                                             : slot_for(t, tw_result(op, i));
    tw_op *made = tw_build(&t->body, &tw_core_ops[TW_CORE_IF], &condition, 1, NULL, 0, NULL);
    return lower_branch(t, &op->regions[0], made, 0, results) &&
           lower_branch(t, &op->regions[1], made, 1, results);
}

/* A graph.loop on its way to a core.loop. */
typedef struct loop_parts {
    tw_op *op;
    tw_region *body;
    tw_value *number, *condition; /* buffers */
    tw_value **states, **stacks;  /* buffers */
    unsigned n_states, n_stacks;
} loop_parts;

/* loop.kernel @store_row(%i, %x, %y): y[i, …] = x[…] */
static void store_row(tw_to_loops *t, tw_value *number, tw_value *row, tw_value *stack)
{
    tw_lowering l;
    tw_stage s;
    tw_expr index[TW_MAX_RANK];
    if (tw_to_loops_is_empty(row->type) || tw_to_loops_is_empty(stack->type))
        return;
    tw_op *kernel =
        tw_to_loops_plain_kernel(t, "store_row", (tw_type[]){number->type, row->type, stack->type},
                                 (const char *[]){"i", "x", "y"}, 3, &l);
    tw_value **args = kernel->regions[0].args;
    tw_stage_elementwise(&l, &s, "store_row", args[1]);
    for (unsigned i = 0; i < number->type->rank; i++)
        index[i] = tw_stage_int(&s, 0);
    tw_value *at = tw_stage_cast(&s, tw_stage_load(&s, args[0], index), TW_INDEX);
    tw_expr top = tw_expr_addc(t->ctx, stack->type->dims[0], -1);
    tw_range range = {.lo = 0, .hi = INT64_MAX, .top = top};
    if (tw_expr_as_const(top, &range.hi))
        range.top = NULL;
    index[0] = tw_stage_dim(&s, at, range);
    for (unsigned i = 0; i < row->type->rank; i++)
        index[i + 1] = tw_stage_axis(&s, i);
    tw_stage_store(&s, tw_stage_load_broadcast(&s, args[1], row->type->rank), args[2], index);
    tw_stage_close(&s);
    tw_to_loops_call_plain(t, kernel, "store_row", (tw_value *[]){number, row, stack}, 3);
}

/* Whether the condition is true as long as the loop runs, so that nothing need set it. */
static bool runs_to_the_end(const tw_op *loop)
{
    const tw_value *values[] = {tw_operand(loop, 1), tw_operand(loop->regions[0].last, 0)};
    for (int i = 0; i < 2; i++) {
        tw_attr constant = tw_graph_constant_value(values[i]);
        if (!constant || !*(const char *)constant->u.dense.data)
            return false;
    }
    return true;
}

/* Whether a state has one type throughout. */
static bool keeps_type(const loop_parts *p, unsigned i)
{
    tw_type type = p->op->results[i].type;
    return tw_operand(p->op, 2 + i)->type == type && p->body->args[1 + i]->type == type &&
           tw_operand(p->body->last, 1 + i)->type == type;
}

static void set_state(tw_to_loops *t, tw_value *state, tw_value *value)
{
    tw_to_loops_copy_buffer(
        t, value, tw_to_loops_is_slot(state) ? tw_to_loops_renew(t, state, value->type) : state);
}

static void open_loop(tw_to_loops *t, loop_parts *p)
{
    tw_op *op = p->op;
    p->body = &op->regions[0];
    p->n_states = op->n_operands - 2;
    p->n_stacks = op->n_results - p->n_states;
    p->number =
        tw_loop_alloc(&t->body, tw_to_loops_buffer_of(t->ctx, p->body->args[0]->type), "trip");
    tw_value *initial = tw_to_loops_buffer_for(t, tw_operand(op, 1));
    p->condition = initial;
    if (!runs_to_the_end(op)) {
        p->condition = tw_loop_alloc(&t->body, initial->type, "go_on");
        tw_to_loops_copy_buffer(t, initial, p->condition);
    }
    p->states = TW_NEW_ARRAY(t->arena, tw_value *, op->n_results + 1);
    p->stacks = p->states + p->n_states;
    for (unsigned i = 0; i < op->n_results; i++)
        p->states[i] = i < p->n_states && !keeps_type(p, i)
                           ? slot_for(t, tw_result(op, i))
                           : tw_to_loops_result_buffer(t, tw_result(op, i));
    for (unsigned i = 0; i < p->n_states; i++)
        set_state(t, p->states[i], tw_to_loops_buffer_for(t, tw_operand(op, 2 + i)));
}

/* A copy of the value when its memory is that of a state: another state's next value must not be
 * overwritten by its own. NULL when it is the state itself. */
static tw_value *next_state(tw_to_loops *t, const loop_parts *p, unsigned i)
{
    tw_value *next = tw_operand(p->body->last, 1 + i);
    if (next == p->body->args[1 + i])
        return NULL;
    tw_value *value = tw_to_loops_buffer_for(t, next);
    for (unsigned k = 0; k < p->n_states; k++)
        if (tw_to_loops_memory_of(value) == tw_to_loops_memory_of(p->states[k])) {
            tw_value *copy = tw_loop_alloc(&t->body, value->type, NULL);
            tw_to_loops_copy_buffer(t, value, copy);
            return copy;
        }
    return value;
}

/* The end of a trip. */
static void close_trip(tw_to_loops *t, const loop_parts *p)
{
    const tw_op *last = p->body->last;
    for (unsigned i = 0; i < p->n_stacks; i++)
        store_row(t, p->number, tw_to_loops_buffer_for(t, tw_operand(last, 1 + p->n_states + i)),
                  p->stacks[i]);
    if (!runs_to_the_end(p->op))
        tw_to_loops_copy_buffer(t, tw_to_loops_buffer_for(t, tw_operand(last, 0)), p->condition);
    tw_value **next = TW_NEW_ARRAY(t->arena, tw_value *, p->n_states);
    for (unsigned i = 0; i < p->n_states; i++)
        next[i] = next_state(t, p, i);
    for (unsigned i = 0; i < p->n_states; i++)
        if (next[i])
            set_state(t, p->states[i], next[i]);
}

bool tw_to_loops_lower_loop(tw_to_loops *t, tw_op *op)
{
    loop_parts p = {.op = op};
    tw_builder saved;
    open_loop(t, &p);
    tw_value *operands[] = {p.number, tw_to_loops_buffer_for(t, tw_operand(op, 0)), p.condition};
    tw_op *made = tw_build(&t->body, &tw_core_ops[TW_CORE_LOOP], operands, 3, NULL, 0, NULL);
    if (!enter(t, made, 0, &saved))
        return false;
    tw_map_put_ptr(&t->buffers, p.body->args[0], p.number);
    for (unsigned i = 0; i < p.n_states; i++)
        tw_map_put_ptr(&t->buffers, p.body->args[1 + i], p.states[i]);
    tw_to_loops_place_values(t, p.body);
    if (!tw_to_loops_lower_ops(t, p.body))
        return false;
    close_trip(t, &p);
    leave(t, &saved);
    return true;
}
