/* to_loops.c: graph groups and lone operations become kernels, and their function calls them.
 *
 *   func @main(%x: tensor<2x3xf32>) -> tensor<6xf32> {     loop.kernel @relu(%x, %y) { … }
 *     %0 = graph.relu %x : tensor<2x3xf32>                 func @main(%x: buffer<2x3xf32>,
 *     %1 = graph.reshape %0 : tensor<6xf32>           ->             %y: buffer<6xf32>) {
 *     return %1                                              %0 = loop.view %y : buffer<2x3xf32>
 *   }                                                        call @relu(%x, %0)
 *                                                            return }
 *
 * Results become arguments behind the inputs (attribute "outputs" counts them). What lies between
 * kernels is loop.alloc, a reshape (or what else moves nothing) is loop.view, a constant
 * loop.constant_buffer. Kernels that are equal up to their names are emitted once.
 *
 * graph.if becomes core.if, whose branches compute into the buffers of its results. graph.loop
 * becomes core.loop: a state has one buffer, which a trip reads and overwrites at its end; a row of
 * results is copied to its place in their stack. Where sizes differ between branches or trips the
 * buffer is a slot: loop.alloc {later}, which loop.renew gives memory for one value after another,
 * and which is seen through views of the types of what it holds.
 *
 * With the option `in-place` some values lie within others: to_loops_places.c.
 *
 * The module's attribute `symbols` lists the symbols that the inputs' sizes define. */
#include "lower/to_loops.h"

#include "lower/kernel.h"
#include "lower/to_loops_impl.h"
#include "lower/view_of.h"

tw_value *tw_to_loops_base_of(tw_value *value)
{
    while (value->op && tw_lower_is_whole_view(value->op))
        value = tw_operand(value->op, 0);
    return value;
}

static bool is_kernel_result(const tw_value *value)
{
    int64_t offset;
    return value->op && !tw_is_graph(value->op, TW_GRAPH_CONSTANT) &&
           !tw_lower_is_view(value->op, &offset);
}

static const tw_op_routine *routine_of(const tw_to_loops *t, const tw_op *op)
{
    return tw_iface_get(t->ctx, op->def, &tw_op_routine_iface);
}

bool tw_to_loops_is_routine(const tw_to_loops *t, const tw_op *op)
{
    return tw_is_graph(op, TW_GRAPH_ROUTINE) || routine_of(t, op);
}

bool tw_to_loops_bound_before(const tw_to_loops *t, tw_expr size, tw_op *op)
{
    if (!tw_core_is_bound_size(t->module, size))
        return true;
    if (size->lhs)
        return tw_to_loops_bound_before(t, size->lhs, op) &&
               tw_to_loops_bound_before(t, size->rhs, op);
    tw_op *bind = tw_map_get_str(&t->binds, size->symbol);
    return bind && bind->region == op->region && tw_op_is_before(bind, op);
}

static bool can_plan(const tw_to_loops *t, const tw_op *ret, const tw_value *base,
                     const tw_value *output)
{
    bool can = is_kernel_result(base) && base->op->region == ret->region &&
               !tw_to_loops_is_routine(t, base->op) && !tw_map_get_ptr(&t->planned, base);
    for (unsigned i = 0; can && !tw_to_loops_is_slot(output) && i < output->type->rank; i++)
        can = tw_to_loops_bound_before(t, output->type->dims[i], base->op);
    return can;
}

static bool note_bind(tw_op *op, void *data)
{
    tw_to_loops *t = data;
    tw_attr symbols = tw_is_graph(op, TW_GRAPH_BIND) || tw_to_loops_is_routine(t, op)
                          ? tw_op_attr(op, "symbols")
                          : NULL;
    for (size_t i = 0; symbols && i < symbols->u.array.n; i++)
        tw_map_put_str(&t->binds, symbols->u.array.items[i]->u.string.text, op);
    return true;
}

void tw_to_loops_plan_outputs(tw_to_loops *t, const tw_op *ret, tw_value *const *outputs)
{
    for (unsigned i = 0; i < ret->n_operands; i++) {
        tw_value *base = tw_to_loops_base_of(tw_operand(ret, i));
        if (can_plan(t, ret, base, outputs[i]))
            tw_map_put_ptr(&t->planned, base,
                           tw_to_loops_is_bound(t, outputs[i]) || tw_to_loops_is_slot(outputs[i])
                               ? outputs[i]
                               : tw_to_loops_view(t, outputs[i], base->type, 0));
    }
}

void tw_to_loops_copy_output(tw_to_loops *t, tw_value *value, tw_value *output)
{
    tw_value *planned = tw_map_get_ptr(&t->planned, tw_to_loops_base_of(value));
    tw_to_loops_provide(t, output);
    if (planned && tw_to_loops_memory_of(planned) == tw_to_loops_memory_of(output))
        return;
    tw_value *from = tw_to_loops_buffer_for(t, value);
    tw_to_loops_copy_buffer(
        t, from, tw_to_loops_is_slot(output) ? tw_to_loops_renew(t, output, from->type) : output);
}

static bool lower_bind(tw_to_loops *t, const tw_op *op)
{
    tw_value *sizes = tw_to_loops_buffer_for(t, tw_operand(op, 0));
    tw_build(&t->body, &tw_loop_ops[TW_LOOP_BIND], &sizes, 1, NULL, 0, "symbols",
             tw_op_attr(op, "symbols"), "expect", tw_op_attr(op, "expect"), "what",
             tw_op_attr(op, "what"), NULL);
    return true;
}

/* The results are where the routine puts them. */
static bool lower_routine(tw_to_loops *t, tw_op *op)
{
    const tw_op_routine *other = routine_of(t, op);
    tw_value **in = TW_NEW_ARRAY(t->arena, tw_value *, op->n_operands + 1);
    tw_type *types = TW_NEW_ARRAY(t->arena, tw_type, op->n_results + 1);
    tw_attr name = other ? tw_attr_string(t->ctx, other->name) : tw_op_attr(op, "name");
    tw_attr params = !other          ? tw_op_attr(op, "params")
                     : other->params ? other->params(t->ctx, op)
                                     : NULL;
    for (unsigned i = 0; i < op->n_operands; i++)
        in[i] = tw_to_loops_buffer_for(t, tw_operand(op, i));
    for (unsigned i = 0; i < op->n_results; i++)
        types[i] = tw_to_loops_buffer_of(t->ctx, op->results[i].type);
    tw_op *made = tw_build(&t->body, &tw_loop_ops[TW_LOOP_ROUTINE], in, op->n_operands, types,
                           op->n_results, "name", name, "params", params, "symbols",
                           tw_op_attr(op, "symbols"), "what", tw_op_attr(op, "what"), NULL);
    for (unsigned i = 0; i < op->n_results; i++) {
        tw_value_set_name(tw_result(made, i), op->results[i].name);
        tw_map_put_ptr(&t->buffers, tw_result(op, i), tw_result(made, i));
    }
    return true;
}

/* Whether the sizes that it is about are known when the function begins. */
static bool is_early(const tw_to_loops *t, const tw_op *check)
{
    tw_attr sets = tw_op_attr(check, "sets");
    for (size_t i = 0; i < sets->u.map.n; i++)
        if (tw_core_is_bound_size(t->module, sets->u.map.exprs[i]))
            return false;
    return check->region->parent->def == &tw_core_ops[TW_CORE_FUNC];
}

static void build_check(tw_to_loops *t, const tw_op *op)
{
    tw_build(&t->body, &tw_loop_ops[TW_LOOP_CHECK], NULL, 0, NULL, 0, "sets",
             tw_op_attr(op, "sets"), "message", tw_op_attr(op, "message"), NULL);
}

/* What can be checked before anything is computed is. */
static void lower_early_checks(tw_to_loops *t, const tw_region *body)
{
    for (const tw_op *op = body->first; op; op = op->next)
        if (tw_is_graph(op, TW_GRAPH_CHECK) && is_early(t, op)) {
            t->body.loc = op->loc;
            build_check(t, op);
        }
}

static bool lower_check(tw_to_loops *t, const tw_op *op)
{
    if (!is_early(t, op))
        build_check(t, op);
    return true;
}

static bool lower_fail(tw_to_loops *t, const tw_op *op)
{
    tw_build(&t->body, &tw_core_ops[TW_CORE_FAIL], NULL, 0, NULL, 0, "message",
             tw_op_attr(op, "message"), NULL);
    return true;
}

static bool lower_op(tw_to_loops *t, tw_op *op)
{
    int64_t offset;
    t->body.loc = t->kernels.loc = op->loc;
    if (tw_is_graph(op, TW_GRAPH_CONSTANT))
        return true; /* when it is used */
    if (!tw_to_loops_is_routine(t, op) && !tw_lower_check_types(t->ctx, op))
        return false;
    switch (tw_graph_kind_of(op)) {
    case TW_GRAPH_IF:
        return tw_to_loops_lower_if(t, op);
    case TW_GRAPH_LOOP:
        return tw_to_loops_lower_loop(t, op);
    case TW_GRAPH_FAIL:
        return lower_fail(t, op);
    case TW_GRAPH_BIND:
        return lower_bind(t, op);
    case TW_GRAPH_CHECK:
        return lower_check(t, op);
    default:
        if (tw_to_loops_is_routine(t, op))
            return lower_routine(t, op);
        break;
    }
    if (tw_to_loops_reads_in_place(t, op) || tw_to_loops_complete_concat(t, op))
        return true;
    if (!tw_lower_is_view(op, &offset))
        return tw_to_loops_call_kernel(t, op);
    tw_map_put_ptr(&t->buffers, tw_result(op, 0),
                   tw_to_loops_view(t, tw_to_loops_buffer_for(t, tw_operand(op, 0)),
                                    op->results[0].type, offset));
    return true;
}

bool tw_to_loops_lower_ops(tw_to_loops *t, tw_region *region)
{
    for (tw_op *op = region->first; op != region->last; op = op->next)
        if (!lower_op(t, op))
            return false;
    t->body.loc = t->kernels.loc = region->last->loc;
    return true;
}

/* An empty function over buffers with the attributes of `func`; its outputs are the last args. */
static tw_op *new_function(tw_to_loops *t, tw_op *func, const tw_op *ret)
{
    const tw_region *region = &func->regions[0];
    unsigned n_in = region->n_args, n = n_in + ret->n_operands;
    tw_type *types = TW_NEW_ARRAY(t->arena, tw_type, n);
    const char **names = TW_NEW_ARRAY(t->arena, const char *, n);
    tw_attr output_names = tw_op_attr(func, "output_names");
    for (unsigned i = 0; i < n; i++) {
        const tw_value *v = i < n_in ? region->args[i] : tw_operand(ret, i - n_in);
        types[i] = tw_to_loops_buffer_of(t->ctx, v->type);
        names[i] = v->name;
        if (i >= n_in && output_names && i - n_in < output_names->u.array.n)
            names[i] = output_names->u.array.items[i - n_in]->u.string.text;
    }
    tw_builder b = tw_builder_before(t->ctx, func);
    tw_op *made = tw_core_func(&b, tw_op_string(func, "sym_name", ""),
                               tw_type_func(t->ctx, types, n, NULL, 0), names);
    for (unsigned i = 0; i < func->n_attrs; i++)
        if (!tw_op_attr(made, func->attrs[i].name))
            tw_op_set_attr(made, func->attrs[i].name, func->attrs[i].value);
    tw_op_set_attr(made, "outputs", tw_attr_int(t->ctx, ret->n_operands));
    return made;
}

static bool lower_function(tw_to_loops *t, tw_op *func)
{
    tw_op *ret = tw_core_func_return(func);
    tw_region *old = &func->regions[0];
    tw_op *made = new_function(t, func, ret);
    t->kernels = tw_builder_before(t->ctx, made);
    t->body = tw_builder_at_end(t->ctx, &made->regions[0], func->loc);
    t->buffers = tw_map_make(t->arena);
    t->planned = tw_map_make(t->arena);
    t->constants = tw_map_make(t->arena);
    t->provided = tw_map_make(t->arena);
    t->binds = tw_map_make(t->arena);
    t->places = tw_map_make(t->arena);
    tw_walk(func, note_bind, t);
    for (unsigned i = 0; i < old->n_args; i++)
        tw_map_put_ptr(&t->buffers, old->args[i], made->regions[0].args[i]);
    tw_value **outputs = made->regions[0].args + old->n_args;
    tw_to_loops_plan_outputs(t, ret, outputs);
    tw_to_loops_place_values(t, old);
    lower_early_checks(t, old);
    if (!tw_to_loops_lower_ops(t, old))
        return false;
    for (unsigned i = 0; i < ret->n_operands; i++)
        tw_to_loops_copy_output(t, tw_operand(ret, i), outputs[i]);
    tw_core_return(&t->body, NULL, 0);
    tw_op_erase(func);
    return true;
}

static bool has_graph(const tw_op *func)
{
    for (unsigned i = 0; i < func->regions[0].n_args; i++)
        if (func->regions[0].args[i]->type->kind == TW_TYPE_TENSOR)
            return true;
    for (const tw_op *op = func->regions[0].first; op; op = op->next)
        if (tw_graph_kind_of(op) != TW_GRAPH_COUNT)
            return true;
    return false;
}

static bool run(tw_pass_run *pass)
{
    tw_context *ctx = pass->ctx;
    tw_arena *arena = tw_context_arena(ctx);
    tw_to_loops t = {.ctx = ctx,
                     .arena = arena,
                     .known = tw_map_make(arena),
                     .names = tw_map_make(arena),
                     .in_place = tw_pass_int(pass, "in-place", 0) != 0,
                     .module = pass->root};
    if (!tw_dialect_register(ctx, &tw_loop_dialect))
        return false;
    tw_to_loops_list_symbols(ctx, pass->root);
    tw_region *body = tw_core_body(pass->root);
    for (tw_op *op = body->first; op; op = op->next)
        if (op->def->traits & TW_TRAIT_SYMBOL)
            tw_to_loops_unique_symbol(&t, tw_op_string(op, "sym_name", ""));
    for (tw_op *op = body->first, *next; op; op = next) {
        next = op->next;
        if (!tw_is_core(op, TW_CORE_FUNC) || tw_core_is_declaration(op) || !has_graph(op))
            continue;
        if (!lower_function(&t, op))
            return false;
        pass->changes++;
    }
    return true;
}

static const tw_attr_spec options[] = {
    {"in-place", TW_ATTR_UNIT, false, "parts of concatenations and slices need no copies"},
    {0},
};

const tw_pass tw_pass_lower_to_loops = {
    .name = "lower-to-loops",
    .summary = "graph operations and groups become kernels over buffers",
    .anchor = "core.module",
    .run = run,
    .options = options,
};
