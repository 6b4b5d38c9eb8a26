/* kernel.c: builds the kernel of a graph operation or group.
 *
 *   graph.group(%x, %w) {            loop.kernel(%x, %w, %y) {
 *     %0 = graph.matmul %x, %w         %0 = loop.alloc
 *     %1 = graph.relu %0         ->    "matmul": %0[i, j] = …
 *     yield %1 }                       "relu": %y[i, j] = max(%0[i, j], 0) }
 *
 * Blocks are built in a draft whose arguments are all operands and results; the kernel proper then
 * gets those that are used, and the tables that blocks brought along. */
#include "lower/kernel.h"

#include "lower/lowering.h"

#include <limits.h>

/* ---- Types ---- */

/* Whether the operation moves elements of any type, or holds others that are asked themselves. */
static bool only_moves(const tw_op *op)
{
    static const tw_graph_kind kinds[] = {
        TW_GRAPH_GROUP,   TW_GRAPH_YIELD,     TW_GRAPH_IF,      TW_GRAPH_LOOP,
        TW_GRAPH_ROUTINE, TW_GRAPH_SHAPE,     TW_GRAPH_RESHAPE, TW_GRAPH_TRANSPOSE,
        TW_GRAPH_EXPAND,  TW_GRAPH_SLICE,     TW_GRAPH_CONCAT,  TW_GRAPH_TILE,
        TW_GRAPH_GATHER,  TW_GRAPH_GATHER_ND, TW_GRAPH_WHERE,   TW_GRAPH_GATHER_ELEMENTS};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (tw_is_graph(op, kinds[i]))
            return true;
    return false;
}

static bool check_type(tw_context *ctx, const tw_op *op, tw_type type, const char *what, unsigned i)
{
    if (type->kind != TW_TYPE_TENSOR)
        return tw_error(ctx, op->loc, "%s %u of '%s' is no tensor", what, i, op->def->name);
    if (type->elem == TW_STRING && !only_moves(op))
        return tw_error(ctx, op->loc,
                        "%s %u of '%s' has strings, which no kernel computes with; "
                        "numbers are accepted",
                        what, i, op->def->name);
    if (tw_type_is_static(type) && !tw_type_static_count(type, NULL))
        return tw_error(ctx, op->loc, "%s %u of '%s' has too many elements", what, i,
                        op->def->name);
    return true;
}

bool tw_lower_check_types(tw_context *ctx, const tw_op *op)
{
    for (unsigned i = 0; i < op->n_operands; i++)
        if (!check_type(ctx, op, tw_operand(op, i)->type, "operand", i))
            return false;
    for (unsigned i = 0; i < op->n_results; i++)
        if (!check_type(ctx, op, op->results[i].type, "result", i))
            return false;
    return true;
}

static tw_type buffer_of(tw_context *ctx, tw_type tensor)
{
    return tw_type_buffer(ctx, tensor->elem, tensor->rank, tensor->dims, "");
}

static bool is_empty(tw_type type)
{
    int64_t count;
    return tw_type_static_count(type, &count) && count == 0;
}

/* ---- The draft ---- */

typedef struct draft {
    tw_lowering l;
    tw_op *op;          /* group or single operation */
    tw_value **inputs;  /* per operand of op: argument of the draft or small constant */
    tw_value **outputs; /* per result of op */
    tw_map buffers;     /* values in the group -> buffers */
} draft;

static tw_value *constant_buffer(draft *d, tw_attr value)
{
    tw_builder b = {d->l.ctx, &d->l.kernel->regions[0], d->l.kernel->regions[0].first, d->op->loc};
    tw_type type = buffer_of(d->l.ctx, value->u.dense.type);
    return tw_result(tw_build(&b, &tw_loop_ops[TW_LOOP_CONSTANT_BUFFER], NULL, 0, &type, 1, "value",
                              value, NULL),
                     0);
}

/* The type in which the operation sees an operand. */
static tw_type type_inside(tw_op *op, unsigned i)
{
    return tw_is_graph(op, TW_GRAPH_GROUP) ? op->regions[0].args[i]->type : tw_operand(op, i)->type;
}

static void make_draft(draft *d, tw_builder *at)
{
    tw_context *ctx = d->l.ctx;
    tw_op *op = d->op;
    tw_builder b = *at;
    b.loc = op->loc;
    d->l.kernel = tw_loop_kernel(&b, "draft", NULL, NULL, 0, 0);
    tw_region *body = &d->l.kernel->regions[0];
    d->inputs = TW_NEW_ARRAY(d->l.arena, tw_value *, op->n_operands);
    d->outputs = TW_NEW_ARRAY(d->l.arena, tw_value *, op->n_results);
    for (unsigned i = 0; i < op->n_operands; i++) {
        tw_value *operand = tw_operand(op, i);
        tw_attr constant = tw_graph_constant_value(operand);
        int64_t count;
        for (unsigned k = 0; k < i && !d->inputs[i]; k++)
            if (tw_operand(op, k) == operand)
                d->inputs[i] = d->inputs[k];
        /* A text is known by its address, which only the compiled model has. */
        bool inner = constant && operand->type->elem != TW_STRING;
        if (!d->inputs[i] && inner && tw_type_static_count(operand->type, &count) && count == 1)
            d->inputs[i] = constant_buffer(d, constant);
        if (!d->inputs[i])
            d->inputs[i] =
                tw_region_add_arg(body, buffer_of(ctx, type_inside(op, i)), operand->name);
    }
    for (unsigned i = 0; i < op->n_results; i++)
        d->outputs[i] =
            tw_region_add_arg(body, buffer_of(ctx, op->results[i].type), op->results[i].name);
}

static bool lower_one(draft *d, tw_op *op, tw_value **in, tw_value **out)
{
    bool empty = true;
    for (unsigned i = 0; i < op->n_results; i++)
        empty = empty && is_empty(op->results[i].type);
    if (empty)
        return true;
    tw_graph_kind kind = tw_graph_kind_of(op);
    const tw_op_lowering *other = tw_iface_get(d->l.ctx, op->def, &tw_op_lowering_iface);
    tw_lower_fn lower = other                   ? other->lower
                        : kind < TW_GRAPH_COUNT ? tw_graph_lowerings[kind]
                                                : NULL;
    if (!lower)
        return tw_error(d->l.ctx, op->loc, "'%s' has no lowering to loops", op->def->name);
    d->l.op = op;
    d->l.is_last = true;
    for (const tw_use *use = op->results[0].uses; use && d->op != op; use = use->next)
        d->l.is_last = d->l.is_last && tw_is_graph(use->user, TW_GRAPH_YIELD);
    return lower(&d->l, op, in, out);
}

/* ---- Groups ---- */

static tw_value *group_input(draft *d, const tw_value *value)
{
    return tw_map_get_ptr(&d->buffers, value);
}

/* Where the results of an operation in the group go: into the kernel's outputs when they are
 * yielded, else into memory of the kernel. */
static tw_value *group_output(draft *d, tw_op *op, unsigned i, const tw_op *yield)
{
    const tw_value *result = &op->results[i];
    unsigned place = UINT_MAX; /* the first at which it is yielded */
    for (const tw_use *use = result->uses; use; use = use->next)
        if (use->user == yield && use->index < place)
            place = use->index;
    tw_value *buffer = place == UINT_MAX ? NULL : d->outputs[place];
    if (!buffer) {
        tw_builder b = tw_builder_at_end(d->l.ctx, &d->l.kernel->regions[0], op->loc);
        const char *name = result->name ? result->name : tw_short_name(op);
        buffer = tw_loop_alloc(&b, buffer_of(d->l.ctx, result->type), name);
    }
    tw_map_put_ptr(&d->buffers, result, buffer);
    return buffer;
}

static bool lower_in_group(draft *d, tw_op *op, const tw_op *yield)
{
    if (!tw_lower_check_types(d->l.ctx, op))
        return false;
    if (tw_is_graph(op, TW_GRAPH_CONSTANT)) {
        tw_map_put_ptr(&d->buffers, tw_result(op, 0), constant_buffer(d, tw_op_attr(op, "value")));
        return true;
    }
    tw_value **in = TW_NEW_ARRAY(d->l.arena, tw_value *, op->n_operands);
    tw_value **out = TW_NEW_ARRAY(d->l.arena, tw_value *, op->n_results);
    for (unsigned i = 0; i < op->n_operands; i++)
        in[i] = group_input(d, tw_operand(op, i));
    for (unsigned i = 0; i < op->n_results; i++)
        out[i] = group_output(d, op, i, yield);
    return lower_one(d, op, in, out);
}

static void copy_buffer(draft *d, tw_value *from, tw_value *to)
{
    tw_stage s;
    if (is_empty(to->type))
        return;
    tw_stage_elementwise(&d->l, &s, "copy", to);
    tw_stage_store_here(&s, tw_stage_load_broadcast(&s, from, to->type->rank), to);
    tw_stage_close(&s);
}

static bool lower_group(draft *d)
{
    tw_region *region = &d->op->regions[0];
    tw_op *yield = region->last;
    for (unsigned i = 0; i < region->n_args; i++)
        tw_map_put_ptr(&d->buffers, region->args[i], d->inputs[i]);
    for (tw_op *op = region->first; op && op != yield; op = op->next)
        if (!lower_in_group(d, op, yield))
            return false;
    d->l.op = d->op;
    for (unsigned i = 0; yield && i < yield->n_operands; i++) {
        tw_value *buffer = tw_map_get_ptr(&d->buffers, tw_operand(yield, i));
        if (buffer != d->outputs[i])
            copy_buffer(d, buffer, d->outputs[i]);
    }
    return true;
}

/* ---- The kernel proper ---- */

static void add_arg(tw_kernel_call *call, tw_value *from, tw_kernel_arg what)
{
    tw_region *body = &call->kernel->regions[0];
    tw_value *arg = tw_region_add_arg(body, from->type, from->name);
    if (from->uses)
        tw_value_replace_all(from, arg);
    call->args[call->n++] = what;
}

static unsigned count_constants(const draft *d)
{
    unsigned n = 0;
    for (tw_op *op = d->l.kernel->regions[0].first; op; op = op->next)
        n += tw_is_loop(op, TW_LOOP_CONSTANT_BUFFER);
    return n;
}

/* Memory of the kernel stands in front of all blocks: when these share the loops of the first of
 * several results, it is there already. */
static void hoist_allocs(tw_region *body)
{
    tw_op *place = body->first;
    for (tw_op *op = body->first, *next; op; op = next) {
        next = op->next;
        if (op != place && tw_is_loop(op, TW_LOOP_ALLOC))
            tw_op_insert(op, body, place);
        else if (op == place && tw_is_loop(op, TW_LOOP_ALLOC))
            place = next;
    }
}

static void finish(draft *d, tw_builder *at, tw_kernel_call *call)
{
    tw_op *op = d->op;
    unsigned most = op->n_operands + op->n_results + count_constants(d), outputs = 0;
    tw_builder b = *at;
    b.loc = op->loc;
    call->args = TW_NEW_ARRAY(d->l.arena, tw_kernel_arg, most);
    call->kernel = tw_loop_kernel(&b, "kernel", NULL, NULL, 0, 0);
    for (unsigned i = 0; i < op->n_operands; i++)
        if (d->inputs[i]->region && d->inputs[i]->uses)
            add_arg(call, d->inputs[i], (tw_kernel_arg){.kind = TW_ARG_OPERAND, .index = i});
    for (tw_op *o = d->l.kernel->regions[0].first, *next; o; o = next) {
        next = o->next;
        if (!tw_is_loop(o, TW_LOOP_CONSTANT_BUFFER))
            continue;
        if (o->results[0].uses)
            add_arg(call, tw_result(o, 0),
                    (tw_kernel_arg){.kind = TW_ARG_CONSTANT, .constant = tw_op_attr(o, "value")});
        tw_op_erase(o);
    }
    for (unsigned i = 0; i < op->n_results; i++)
        if (!is_empty(op->results[i].type)) {
            add_arg(call, d->outputs[i], (tw_kernel_arg){.kind = TW_ARG_RESULT, .index = i});
            outputs++;
        }
    tw_region_splice(&call->kernel->regions[0], NULL, &d->l.kernel->regions[0]);
    if (outputs > 1)
        hoist_allocs(&call->kernel->regions[0]);
    tw_op_set_attr(call->kernel, "outputs", tw_attr_int(d->l.ctx, outputs));
    tw_op_erase(d->l.kernel);
    if (!outputs) {
        tw_op_erase(call->kernel);
        call->kernel = NULL;
    }
}

bool tw_lower_kernel(tw_builder *at, tw_op *op, tw_kernel_call *out)
{
    tw_arena *arena = tw_context_arena(at->ctx);
    draft d = {.l = {.ctx = at->ctx, .arena = arena, .op = op, .names = tw_map_make(arena)},
               .op = op,
               .buffers = tw_map_make(arena)};
    *out = (tw_kernel_call){.n = 0};
    if (!tw_dialect_register(at->ctx, &tw_loop_dialect) || !tw_lower_check_types(at->ctx, op))
        return false;
    make_draft(&d, at);
    bool fine =
        tw_is_graph(op, TW_GRAPH_GROUP) ? lower_group(&d) : lower_one(&d, op, d.inputs, d.outputs);
    if (!fine) {
        tw_op_erase(d.l.kernel);
        return false;
    }
    finish(&d, at, out);
    if (out->kernel)
        tw_kernel_describe(out->kernel, op);
    return true;
}
