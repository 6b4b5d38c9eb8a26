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
 * loop.constant_buffer. Kernels that are
 * equal up to their names are emitted once.
 *
 * graph.if becomes core.if, whose branches compute into the buffers of its results. graph.loop
 * becomes core.loop: a state has one buffer, which a trip reads and overwrites at its end; a row of
 * results is copied to its place in their stack. Where sizes differ between branches or trips the
 * buffer is a slot: loop.alloc {later}, which loop.renew gives memory for one value after another,
 * and which is seen through views of the types of what it holds.
 *
 * The module's attribute `symbols` lists the symbols that the inputs' sizes define. */
#include "lower/to_loops.h"

#include "dialect/core/core.h"
#include "lower/kernel.h"
#include "lower/lowering.h"
#include "lower/view_of.h"

#include "base/vec.h"

#include <string.h>

/* Kernels of one hash. */
typedef struct kernel_entry {
    struct kernel_entry *next;
    tw_op *kernel;
} kernel_entry;

typedef struct to_loops {
    tw_context *ctx;
    tw_arena *arena;
    tw_builder kernels; /* in front of the function */
    tw_builder body;    /* where it goes on: in the new function or a region of it */
    tw_builder outer;   /* in a region: before the operation of the function that it is in */
    unsigned depth;     /* of regions */
    tw_map buffers;     /* graph value -> buffer */
    tw_map planned;     /* graph value -> (part of) an output argument that it is computed into */
    tw_map constants;   /* contents -> buffer */
    tw_map known;       /* hash -> kernel_entry */
    tw_map names;       /* symbols in use -> how often */
    tw_map provided;    /* outputs whose size is bound that have memory by now */
    tw_map binds;       /* symbol -> graph.bind that defines it */
    const tw_op *module;
} to_loops;

static tw_type buffer_of(tw_context *ctx, tw_type tensor)
{
    return tw_type_buffer(ctx, tensor->elem, tensor->rank, tensor->dims, "");
}

/* ---- Buffers of values ---- */

/* Strings are bytes in the constants, which a routine makes addresses of. */
static tw_value *text_buffer(to_loops *t, tw_builder *at, tw_attr value, const char *name)
{
    tw_context *ctx = t->ctx;
    tw_type type = value->u.dense.type;
    char *const *texts = value->u.dense.data;
    int64_t dims[TW_MAX_RANK];
    size_t n = value->u.dense.size / sizeof *texts, size = 0;
    for (size_t i = 0; i < n; i++)
        size += strlen(texts[i]) + 1;
    char *bytes = tw_context_alloc(ctx, size + 1), *end = bytes;
    for (size_t i = 0; i < n; i++)
        end = stpcpy(end, texts[i]) + 1;
    for (unsigned i = 0; i < type->rank; i++)
        dims[i] = tw_type_dim(type, i);
    tw_type packed = tw_type_tensor_static(ctx, TW_U8, 1, (int64_t[]){(int64_t)size});
    tw_type buffer = buffer_of(ctx, packed), result = buffer_of(ctx, type);
    tw_op *op = tw_build(at, &tw_loop_ops[TW_LOOP_CONSTANT_BUFFER], NULL, 0, &buffer, 1, "value",
                         tw_attr_dense(ctx, packed, bytes, size), "name",
                         name ? tw_attr_string(ctx, name) : NULL, NULL);
    tw_value *from = tw_result(op, 0);
    return tw_result(tw_build(at, &tw_loop_ops[TW_LOOP_ROUTINE], &from, 1, &result, 1, "name",
                              tw_attr_string(ctx, "text"), "params",
                              tw_attr_ints(ctx, dims, type->rank), NULL),
                     0);
}

/* One buffer for each content: small constants, as the tables of kernels, are compared by value. */
static tw_value *constant_buffer(to_loops *t, tw_attr value, const char *name)
{
    enum { SMALL = 1 << 12 };
    struct {
        const void *data;
        tw_type type;
        uint64_t hash;
    } key = {value->u.dense.data, value->u.dense.type, 0};
    if (value->u.dense.size <= SMALL) {
        key.hash = tw_hash_bytes(key.data, value->u.dense.size, 0) | 1;
        key.data = NULL;
    }
    tw_value *buffer = tw_map_get(&t->constants, &key, sizeof key);
    if (buffer)
        return buffer;
    tw_type type = buffer_of(t->ctx, value->u.dense.type);
    tw_builder at = t->depth ? t->outer : t->body; /* where all regions see it */
    at.loc = t->body.loc;
    if (type->elem == TW_STRING) {
        buffer = text_buffer(t, &at, value, name);
        tw_map_put(&t->constants, &key, sizeof key, buffer);
        return buffer;
    }
    tw_op *op = tw_build(&at, &tw_loop_ops[TW_LOOP_CONSTANT_BUFFER], NULL, 0, &type, 1, "value",
                         value, "name", name ? tw_attr_string(t->ctx, name) : NULL, NULL);
    buffer = tw_result(op, 0);
    tw_map_put(&t->constants, &key, sizeof key, buffer);
    return buffer;
}

/* The buffer's memory, `offset` elements behind its beginning, as that type of buffer. */
static tw_value *view_at(to_loops *t, tw_value *buffer, tw_type type, int64_t offset)
{
    if (buffer->op && tw_is_loop(buffer->op, TW_LOOP_VIEW) &&
        tw_operand(buffer->op, 0)->type->elem == type->elem) {
        offset += tw_op_int(buffer->op, "offset", 0);
        buffer = tw_operand(buffer->op, 0);
    }
    if (buffer->type == type && !offset)
        return buffer;
    return tw_result(tw_build(&t->body, &tw_loop_ops[TW_LOOP_VIEW], &buffer, 1, &type, 1, "offset",
                              offset ? tw_attr_int(t->ctx, offset) : NULL, NULL),
                     0);
}

static tw_value *view(to_loops *t, tw_value *buffer, tw_type tensor, int64_t offset)
{
    return view_at(t, buffer, buffer_of(t->ctx, tensor), offset);
}

/* Memory for values of several sizes. */
static bool is_slot(const tw_value *buffer)
{
    return buffer->op && tw_is_loop(buffer->op, TW_LOOP_ALLOC) && tw_op_attr(buffer->op, "later");
}

static tw_value *buffer_for(to_loops *t, tw_value *value)
{
    tw_value *buffer = tw_map_get_ptr(&t->buffers, value);
    if (buffer && is_slot(buffer))
        return view(t, buffer, value->type, 0);
    if (buffer)
        return buffer;
    tw_attr constant = tw_graph_constant_value(value);
    if (constant)
        buffer = constant_buffer(t, constant, tw_op_string(value->op, "name", NULL));
    else
        buffer = tw_loop_alloc(&t->body, buffer_of(t->ctx, value->type), NULL);
    if (value->name)
        tw_value_set_name(buffer, value->name);
    tw_map_put_ptr(&t->buffers, value, buffer);
    return buffer;
}

/* ---- Kernels ---- */

static const char *unique_symbol(to_loops *t, const char *name)
{
    for (;;) {
        uintptr_t count = (uintptr_t)tw_map_get_str(&t->names, name);
        tw_map_put_str(&t->names, name, (void *)(count + 1));
        if (!count)
            return name;
        name = tw_arena_printf(t->arena, "%s_%zu", name, (size_t)count);
    }
}

/* The group's own name, or its operations': "conv_add_relu". */
static const char *kernel_name(to_loops *t, const tw_op *op)
{
    enum { MAX_PARTS = 4 };
    const char *name = tw_op_string(op, "sym_name", NULL);
    unsigned parts = 0;
    if (name || !tw_is_graph(op, TW_GRAPH_GROUP))
        return name ? name : tw_short_name(op);
    for (const tw_op *o = op->regions[0].first; o; o = o->next) {
        if (tw_is_graph(o, TW_GRAPH_CONSTANT) || tw_is_graph(o, TW_GRAPH_YIELD))
            continue;
        if (parts++ == MAX_PARTS)
            return tw_arena_printf(t->arena, "%s_etc", name);
        name = name ? tw_arena_printf(t->arena, "%s_%s", name, tw_short_name(o)) : tw_short_name(o);
    }
    return name ? name : "group";
}

/* The kernel, or the equal one that is there already. */
static tw_op *merged(to_loops *t, tw_op *kernel, const char *name)
{
    uint64_t hash = tw_kernel_hash(kernel);
    kernel_entry *first = tw_map_get(&t->known, &hash, sizeof hash);
    for (kernel_entry *e = first; e; e = e->next)
        if (tw_kernel_equal(e->kernel, kernel)) {
            tw_op_erase(kernel);
            return e->kernel;
        }
    kernel_entry *entry = TW_NEW(t->arena, kernel_entry);
    *entry = (kernel_entry){first, kernel};
    tw_map_put(&t->known, &hash, sizeof hash, entry);
    tw_op_set_attr(kernel, "sym_name", tw_attr_symbol(t->ctx, unique_symbol(t, name)));
    return kernel;
}

/* Whether the buffer is an output of a size that the model computes. */
static bool is_bound(const to_loops *t, const tw_value *output)
{
    return !output->op && tw_core_is_bound_type(t->module, output->type);
}

/* Such an output has memory from its first use on. */
static void provide(to_loops *t, tw_value *output)
{
    if (is_bound(t, output) && !tw_map_put_ptr(&t->provided, output, t))
        tw_build(&t->body, &tw_loop_ops[TW_LOOP_PROVIDE], &output, 1, NULL, 0, NULL);
}

/* The slot's memory, made anew for that type. */
static tw_value *renew(to_loops *t, tw_value *slot, tw_type type)
{
    tw_build(&t->body, &tw_loop_ops[TW_LOOP_RENEW], &slot, 1, NULL, 0, "type",
             tw_attr_type(t->ctx, type), NULL);
    return view_at(t, slot, type, 0);
}

/* Where a result is to be computed: an output argument or fresh memory. */
static tw_value *result_buffer(to_loops *t, tw_value *result)
{
    tw_value *planned = tw_map_get_ptr(&t->planned, result);
    if (planned && is_slot(planned))
        planned = renew(t, planned, buffer_of(t->ctx, result->type));
    if (planned && is_bound(t, planned)) {
        provide(t, planned);
        planned = view(t, planned, result->type, 0);
    }
    if (planned)
        tw_map_put_ptr(&t->buffers, result, planned);
    return planned ? planned : buffer_for(t, result);
}

static bool call_kernel(to_loops *t, tw_op *op)
{
    tw_kernel_call call;
    if (!tw_lower_kernel(&t->kernels, op, &call))
        return false;
    if (!call.kernel)
        return true;
    tw_op *kernel = merged(t, call.kernel, kernel_name(t, op));
    tw_value **args = TW_NEW_ARRAY(t->arena, tw_value *, call.n);
    for (unsigned i = 0; i < call.n; i++) {
        tw_kernel_arg a = call.args[i];
        args[i] = a.kind == TW_ARG_OPERAND    ? buffer_for(t, tw_operand(op, a.index))
                  : a.kind == TW_ARG_CONSTANT ? constant_buffer(t, a.constant, NULL)
                                              : result_buffer(t, tw_result(op, a.index));
    }
    tw_core_call(&t->body, tw_op_string(kernel, "sym_name", NULL), args, call.n, NULL, 0);
    return true;
}

/* ---- Functions ---- */

/* The value whose memory this one is a view of all of. */
static tw_value *base_of(tw_value *value)
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

static const tw_op_routine *routine_of(const to_loops *t, const tw_op *op)
{
    return tw_iface_get(t->ctx, op->def, &tw_op_routine_iface);
}

static bool is_routine(const to_loops *t, const tw_op *op)
{
    return tw_is_graph(op, TW_GRAPH_ROUTINE) || routine_of(t, op);
}

/* Whether the size is known before op, which comes behind the binds of all its symbols. */
static bool is_bound_before(const to_loops *t, tw_expr size, tw_op *op)
{
    if (!tw_core_is_bound_size(t->module, size))
        return true;
    if (size->lhs)
        return is_bound_before(t, size->lhs, op) && is_bound_before(t, size->rhs, op);
    tw_op *bind = tw_map_get_str(&t->binds, size->symbol);
    return bind && bind->region == op->region && tw_op_is_before(bind, op);
}

static bool can_plan(const to_loops *t, const tw_op *ret, const tw_value *base,
                     const tw_value *output)
{
    bool can = is_kernel_result(base) && base->op->region == ret->region &&
               !is_routine(t, base->op) && !tw_map_get_ptr(&t->planned, base);
    for (unsigned i = 0; can && !is_slot(output) && i < output->type->rank; i++)
        can = is_bound_before(t, output->type->dims[i], base->op);
    return can;
}

static bool note_bind(tw_op *op, void *data)
{
    to_loops *t = data;
    tw_attr symbols =
        tw_is_graph(op, TW_GRAPH_BIND) || is_routine(t, op) ? tw_op_attr(op, "symbols") : NULL;
    for (size_t i = 0; symbols && i < symbols->u.array.n; i++)
        tw_map_put_str(&t->binds, symbols->u.array.items[i]->u.string.text, op);
    return true;
}

/* What a region gives is computed straight into the output buffers where it can be. */
static void plan_outputs(to_loops *t, const tw_op *ret, tw_value *const *outputs)
{
    for (unsigned i = 0; i < ret->n_operands; i++) {
        tw_value *base = base_of(tw_operand(ret, i));
        if (can_plan(t, ret, base, outputs[i]))
            tw_map_put_ptr(&t->planned, base,
                           is_bound(t, outputs[i]) || is_slot(outputs[i])
                               ? outputs[i]
                               : view(t, outputs[i], base->type, 0));
    }
}

/* A kernel without a body over arguments of these types, the last of which it writes, and the state
 * to build its blocks with. */
static tw_op *plain_kernel(to_loops *t, const char *name, const tw_type *types,
                           const char *const *names, unsigned n, tw_lowering *l)
{
    tw_builder b = t->kernels;
    b.loc = t->body.loc;
    tw_op *kernel = tw_loop_kernel(&b, name, types, names, n, 1);
    *l = (tw_lowering){.ctx = t->ctx,
                       .arena = t->arena,
                       .kernel = kernel,
                       .op = kernel,
                       .names = tw_map_make(t->arena)};
    return kernel;
}

static void call_plain(to_loops *t, tw_op *kernel, const char *name, tw_value *const *args,
                       unsigned n)
{
    tw_kernel_describe(kernel, kernel);
    kernel = merged(t, kernel, name);
    tw_core_call(&t->body, tw_op_string(kernel, "sym_name", NULL), args, n, NULL, 0);
}

static bool is_empty(tw_type type)
{
    int64_t count;
    return tw_type_static_count(type, &count) && !count;
}

/* loop.kernel @copy(%x, %y) of one type. */
static void copy_buffer(to_loops *t, tw_value *from, tw_value *to)
{
    tw_lowering l;
    tw_stage s;
    if (is_empty(to->type))
        return;
    tw_op *kernel =
        plain_kernel(t, "copy", (tw_type[]){to->type, to->type}, (const char *[]){"x", "y"}, 2, &l);
    tw_region *body = &kernel->regions[0];
    tw_stage_elementwise(&l, &s, "copy", body->args[1]);
    tw_stage_store_here(&s, tw_stage_load_broadcast(&s, body->args[0], to->type->rank),
                        body->args[1]);
    tw_stage_close(&s);
    call_plain(t, kernel, "copy", (tw_value *[]){view_at(t, from, to->type, 0), to}, 2);
}

/* The memory that a buffer is a view of. */
static tw_value *memory_of(tw_value *buffer)
{
    while (buffer->op && tw_is_loop(buffer->op, TW_LOOP_VIEW))
        buffer = tw_operand(buffer->op, 0);
    return buffer;
}

/* Copies what is no result of a kernel, or is one more output of the same. */
static void copy_output(to_loops *t, tw_value *value, tw_value *output)
{
    tw_value *planned = tw_map_get_ptr(&t->planned, base_of(value));
    provide(t, output);
    if (planned && memory_of(planned) == memory_of(output))
        return;
    tw_value *from = buffer_for(t, value);
    copy_buffer(t, from, is_slot(output) ? renew(t, output, from->type) : output);
}

/* ---- Control flow ---- */

static bool lower_ops(to_loops *t, tw_region *region);

/* Goes on in a region of an operation that was just made; `saved` is for leave. */
static bool enter(to_loops *t, tw_op *made, unsigned region, tw_builder *saved)
{
    enum { MAX_DEPTH = 200 };
    *saved = t->body;
    if (!t->depth)
        t->outer = tw_builder_before(t->ctx, made);
    t->body = tw_builder_at_end(t->ctx, &made->regions[region], made->loc);
    return ++t->depth <= MAX_DEPTH ||
           tw_error(t->ctx, made->loc, "control flow nests more than %d deep", MAX_DEPTH);
}

static void leave(to_loops *t, const tw_builder *saved)
{
    t->body = *saved;
    t->depth--;
}

static bool lower_branch(to_loops *t, tw_region *from, tw_op *made, unsigned region,
                         tw_value *const *results)
{
    tw_builder saved;
    if (!enter(t, made, region, &saved))
        return false;
    plan_outputs(t, from->last, results);
    if (!lower_ops(t, from))
        return false;
    for (unsigned i = 0; i < from->last->n_operands; i++)
        copy_output(t, tw_operand(from->last, i), results[i]);
    leave(t, &saved);
    return true;
}

/* A slot for a result, which need not be where the function's results are. */
static tw_value *slot_for(to_loops *t, tw_value *result)
{
    tw_type type = buffer_of(t->ctx, result->type);
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

static bool lower_if(to_loops *t, tw_op *op)
{
    tw_value *condition = buffer_for(t, tw_operand(op, 0));
    tw_value **results = TW_NEW_ARRAY(t->arena, tw_value *, op->n_results);
    for (unsigned i = 0; i < op->n_results; i++)
        results[i] = same_in_branches(op, i) ? result_buffer(t, tw_result(op, i))
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
static void store_row(to_loops *t, tw_value *number, tw_value *row, tw_value *stack)
{
    tw_lowering l;
    tw_stage s;
    tw_expr index[TW_MAX_RANK];
    if (is_empty(row->type) || is_empty(stack->type))
        return;
    tw_op *kernel = plain_kernel(t, "store_row", (tw_type[]){number->type, row->type, stack->type},
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
    call_plain(t, kernel, "store_row", (tw_value *[]){number, row, stack}, 3);
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

static void set_state(to_loops *t, tw_value *state, tw_value *value)
{
    copy_buffer(t, value, is_slot(state) ? renew(t, state, value->type) : state);
}

static void open_loop(to_loops *t, loop_parts *p)
{
    tw_op *op = p->op;
    p->body = &op->regions[0];
    p->n_states = op->n_operands - 2;
    p->n_stacks = op->n_results - p->n_states;
    p->number = tw_loop_alloc(&t->body, buffer_of(t->ctx, p->body->args[0]->type), "trip");
    tw_value *initial = buffer_for(t, tw_operand(op, 1));
    p->condition = initial;
    if (!runs_to_the_end(op)) {
        p->condition = tw_loop_alloc(&t->body, initial->type, "go_on");
        copy_buffer(t, initial, p->condition);
    }
    p->states = TW_NEW_ARRAY(t->arena, tw_value *, op->n_results + 1);
    p->stacks = p->states + p->n_states;
    for (unsigned i = 0; i < op->n_results; i++)
        p->states[i] = i < p->n_states && !keeps_type(p, i) ? slot_for(t, tw_result(op, i))
                                                            : result_buffer(t, tw_result(op, i));
    for (unsigned i = 0; i < p->n_states; i++)
        set_state(t, p->states[i], buffer_for(t, tw_operand(op, 2 + i)));
}

/* A copy of the value when its memory is that of a state: another state's next value must not be
 * overwritten by its own. NULL when it is the state itself. */
static tw_value *next_state(to_loops *t, const loop_parts *p, unsigned i)
{
    tw_value *next = tw_operand(p->body->last, 1 + i);
    if (next == p->body->args[1 + i])
        return NULL;
    tw_value *value = buffer_for(t, next);
    for (unsigned k = 0; k < p->n_states; k++)
        if (memory_of(value) == memory_of(p->states[k])) {
            tw_value *copy = tw_loop_alloc(&t->body, value->type, NULL);
            copy_buffer(t, value, copy);
            return copy;
        }
    return value;
}

/* The end of a trip. */
static void close_trip(to_loops *t, const loop_parts *p)
{
    const tw_op *last = p->body->last;
    for (unsigned i = 0; i < p->n_stacks; i++)
        store_row(t, p->number, buffer_for(t, tw_operand(last, 1 + p->n_states + i)), p->stacks[i]);
    if (!runs_to_the_end(p->op))
        copy_buffer(t, buffer_for(t, tw_operand(last, 0)), p->condition);
    tw_value **next = TW_NEW_ARRAY(t->arena, tw_value *, p->n_states);
    for (unsigned i = 0; i < p->n_states; i++)
        next[i] = next_state(t, p, i);
    for (unsigned i = 0; i < p->n_states; i++)
        if (next[i])
            set_state(t, p->states[i], next[i]);
}

static bool lower_loop(to_loops *t, tw_op *op)
{
    loop_parts p = {.op = op};
    tw_builder saved;
    open_loop(t, &p);
    tw_value *operands[] = {p.number, buffer_for(t, tw_operand(op, 0)), p.condition};
    tw_op *made = tw_build(&t->body, &tw_core_ops[TW_CORE_LOOP], operands, 3, NULL, 0, NULL);
    if (!enter(t, made, 0, &saved))
        return false;
    tw_map_put_ptr(&t->buffers, p.body->args[0], p.number);
    for (unsigned i = 0; i < p.n_states; i++)
        tw_map_put_ptr(&t->buffers, p.body->args[1 + i], p.states[i]);
    if (!lower_ops(t, p.body))
        return false;
    close_trip(t, &p);
    leave(t, &saved);
    return true;
}

static bool lower_bind(to_loops *t, const tw_op *op)
{
    tw_value *sizes = buffer_for(t, tw_operand(op, 0));
    tw_build(&t->body, &tw_loop_ops[TW_LOOP_BIND], &sizes, 1, NULL, 0, "symbols",
             tw_op_attr(op, "symbols"), "expect", tw_op_attr(op, "expect"), "what",
             tw_op_attr(op, "what"), NULL);
    return true;
}

/* The results are where the routine puts them. */
static bool lower_routine(to_loops *t, tw_op *op)
{
    const tw_op_routine *other = routine_of(t, op);
    tw_value **in = TW_NEW_ARRAY(t->arena, tw_value *, op->n_operands + 1);
    tw_type *types = TW_NEW_ARRAY(t->arena, tw_type, op->n_results + 1);
    tw_attr name = other ? tw_attr_string(t->ctx, other->name) : tw_op_attr(op, "name");
    tw_attr params = !other          ? tw_op_attr(op, "params")
                     : other->params ? other->params(t->ctx, op)
                                     : NULL;
    for (unsigned i = 0; i < op->n_operands; i++)
        in[i] = buffer_for(t, tw_operand(op, i));
    for (unsigned i = 0; i < op->n_results; i++)
        types[i] = buffer_of(t->ctx, op->results[i].type);
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
static bool is_early(const to_loops *t, const tw_op *check)
{
    tw_attr sets = tw_op_attr(check, "sets");
    for (size_t i = 0; i < sets->u.map.n; i++)
        if (tw_core_is_bound_size(t->module, sets->u.map.exprs[i]))
            return false;
    return check->region->parent->def == &tw_core_ops[TW_CORE_FUNC];
}

static void build_check(to_loops *t, const tw_op *op)
{
    tw_build(&t->body, &tw_loop_ops[TW_LOOP_CHECK], NULL, 0, NULL, 0, "sets",
             tw_op_attr(op, "sets"), "message", tw_op_attr(op, "message"), NULL);
}

/* What can be checked before anything is computed is. */
static void lower_early_checks(to_loops *t, const tw_region *body)
{
    for (const tw_op *op = body->first; op; op = op->next)
        if (tw_is_graph(op, TW_GRAPH_CHECK) && is_early(t, op)) {
            t->body.loc = op->loc;
            build_check(t, op);
        }
}

static bool lower_check(to_loops *t, const tw_op *op)
{
    if (!is_early(t, op))
        build_check(t, op);
    return true;
}

static bool lower_fail(to_loops *t, const tw_op *op)
{
    tw_build(&t->body, &tw_core_ops[TW_CORE_FAIL], NULL, 0, NULL, 0, "message",
             tw_op_attr(op, "message"), NULL);
    return true;
}

/* ---- Operations ---- */

static bool lower_op(to_loops *t, tw_op *op)
{
    int64_t offset;
    t->body.loc = t->kernels.loc = op->loc;
    if (tw_is_graph(op, TW_GRAPH_CONSTANT))
        return true; /* when it is used */
    if (!is_routine(t, op) && !tw_lower_check_types(t->ctx, op))
        return false;
    switch (tw_graph_kind_of(op)) {
    case TW_GRAPH_IF:
        return lower_if(t, op);
    case TW_GRAPH_LOOP:
        return lower_loop(t, op);
    case TW_GRAPH_FAIL:
        return lower_fail(t, op);
    case TW_GRAPH_BIND:
        return lower_bind(t, op);
    case TW_GRAPH_CHECK:
        return lower_check(t, op);
    default:
        if (is_routine(t, op))
            return lower_routine(t, op);
        break;
    }
    if (!tw_lower_is_view(op, &offset))
        return call_kernel(t, op);
    tw_map_put_ptr(&t->buffers, tw_result(op, 0),
                   view(t, buffer_for(t, tw_operand(op, 0)), op->results[0].type, offset));
    return true;
}

/* All of a region but what ends it. */
static bool lower_ops(to_loops *t, tw_region *region)
{
    for (tw_op *op = region->first; op != region->last; op = op->next)
        if (!lower_op(t, op))
            return false;
    t->body.loc = t->kernels.loc = region->last->loc;
    return true;
}

/* An empty function over buffers with the attributes of `func`; its outputs are the last args. */
static tw_op *new_function(to_loops *t, tw_op *func, const tw_op *ret)
{
    const tw_region *region = &func->regions[0];
    unsigned n_in = region->n_args, n = n_in + ret->n_operands;
    tw_type *types = TW_NEW_ARRAY(t->arena, tw_type, n);
    const char **names = TW_NEW_ARRAY(t->arena, const char *, n);
    tw_attr output_names = tw_op_attr(func, "output_names");
    for (unsigned i = 0; i < n; i++) {
        const tw_value *v = i < n_in ? region->args[i] : tw_operand(ret, i - n_in);
        types[i] = buffer_of(t->ctx, v->type);
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

static bool lower_function(to_loops *t, tw_op *func)
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
    tw_walk(func, note_bind, t);
    for (unsigned i = 0; i < old->n_args; i++)
        tw_map_put_ptr(&t->buffers, old->args[i], made->regions[0].args[i]);
    tw_value **outputs = made->regions[0].args + old->n_args;
    plan_outputs(t, ret, outputs);
    lower_early_checks(t, old);
    if (!lower_ops(t, old))
        return false;
    for (unsigned i = 0; i < ret->n_operands; i++)
        copy_output(t, tw_operand(ret, i), outputs[i]);
    tw_core_return(&t->body, NULL, 0);
    tw_op_erase(func);
    return true;
}

/* ---- Symbols ---- */

typedef struct symbols {
    tw_arena *arena;
    tw_map seen;
    TW_VEC(tw_attr) names;
} symbols;

static void add_symbol(tw_context *ctx, symbols *s, const char *name)
{
    if (!tw_map_put_str(&s->seen, name, s))
        tw_vec_push(s->arena, &s->names, tw_attr_string(ctx, name));
}

/* The depth of expressions is bounded by construction. */
static void add_symbols_of(tw_context *ctx, symbols *s, tw_expr e)
{
    if (e->kind == TW_EXPR_SYM)
        add_symbol(ctx, s, e->symbol);
    if (!e->lhs)
        return;
    add_symbols_of(ctx, s, e->lhs);
    add_symbols_of(ctx, s, e->rhs);
}

/* The module's `symbols`: those of the inputs of @main, then others that it lists. */
static void list_symbols(tw_context *ctx, tw_op *module)
{
    tw_arena *arena = tw_context_arena(ctx);
    symbols s = {.arena = arena, .seen = tw_map_make(arena)};
    tw_attr listed = tw_op_attr(module, "symbols");
    const tw_op *main = tw_core_lookup(module, "main");
    for (unsigned i = 0; main && i < main->regions[0].n_args; i++) {
        tw_type type = main->regions[0].args[i]->type;
        for (unsigned d = 0; d < type->rank; d++)
            add_symbols_of(ctx, &s, type->dims[d]);
    }
    if (tw_op_attr(module, "input_symbols"))
        tw_op_set_attr(module, "input_symbols", tw_attr_int(ctx, (int64_t)s.names.len));
    for (size_t i = 0; listed && i < listed->u.array.n; i++)
        add_symbol(ctx, &s, listed->u.array.items[i]->u.string.text);
    if (s.names.len)
        tw_op_set_attr(module, "symbols", tw_attr_array(ctx, s.names.data, s.names.len));
}

/* ---- The pass ---- */

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
    to_loops t = {.ctx = ctx,
                  .arena = arena,
                  .known = tw_map_make(arena),
                  .names = tw_map_make(arena),
                  .module = pass->root};
    if (!tw_dialect_register(ctx, &tw_loop_dialect))
        return false;
    list_symbols(ctx, pass->root);
    tw_region *body = tw_core_body(pass->root);
    for (tw_op *op = body->first; op; op = op->next)
        if (op->def->traits & TW_TRAIT_SYMBOL)
            unique_symbol(&t, tw_op_string(op, "sym_name", ""));
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

const tw_pass tw_pass_lower_to_loops = {
    .name = "lower-to-loops",
    .summary = "graph operations and groups become kernels over buffers",
    .anchor = "core.module",
    .run = run,
};
