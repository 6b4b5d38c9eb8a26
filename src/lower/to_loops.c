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
 * equal up to their names are emitted once. */
#include "lower/to_loops.h"

#include "dialect/core/core.h"
#include "lower/kernel.h"
#include "lower/lowering.h"
#include "lower/view_of.h"

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
    tw_builder body;    /* of the new function */
    tw_map buffers;     /* graph value -> buffer */
    tw_map planned;     /* graph value -> (part of) an output argument that it is computed into */
    tw_map constants;   /* contents -> buffer */
    tw_map known;       /* hash -> kernel_entry */
    tw_map names;       /* symbols in use -> how often */
    tw_map provided;    /* outputs whose size is bound that have memory by now */
    const tw_op *module;
} to_loops;

static tw_type buffer_of(tw_context *ctx, tw_type tensor)
{
    return tw_type_buffer(ctx, tensor->elem, tensor->rank, tensor->dims, "");
}

/* ---- Buffers of values ---- */

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
    tw_op *op = tw_build(&t->body, &tw_loop_ops[TW_LOOP_CONSTANT_BUFFER], NULL, 0, &type, 1,
                         "value", value, "name", name ? tw_attr_string(t->ctx, name) : NULL, NULL);
    buffer = tw_result(op, 0);
    tw_map_put(&t->constants, &key, sizeof key, buffer);
    return buffer;
}

/* The buffer's memory, `offset` elements behind its beginning, in another shape. */
static tw_value *view(to_loops *t, tw_value *buffer, tw_type tensor, int64_t offset)
{
    tw_type type = buffer_of(t->ctx, tensor);
    if (buffer->op && tw_is_loop(buffer->op, TW_LOOP_VIEW)) {
        offset += tw_op_int(buffer->op, "offset", 0);
        buffer = tw_operand(buffer->op, 0);
    }
    if (buffer->type == type && !offset)
        return buffer;
    return tw_result(tw_build(&t->body, &tw_loop_ops[TW_LOOP_VIEW], &buffer, 1, &type, 1, "offset",
                              offset ? tw_attr_int(t->ctx, offset) : NULL, NULL),
                     0);
}

static tw_value *buffer_for(to_loops *t, tw_value *value)
{
    tw_value *buffer = tw_map_get_ptr(&t->buffers, value);
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

/* Where a result is to be computed: an output argument or fresh memory. */
static tw_value *result_buffer(to_loops *t, tw_value *result)
{
    tw_value *planned = tw_map_get_ptr(&t->planned, result);
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
    int64_t offset, whole, part;
    while (value->op && tw_lower_is_view(value->op, &offset) && !offset) {
        tw_value *from = tw_operand(value->op, 0);
        if (!tw_type_static_count(from->type, &whole) ||
            !tw_type_static_count(value->type, &part) || whole != part)
            break;
        value = from;
    }
    return value;
}

static bool is_kernel_result(const tw_value *value)
{
    int64_t offset;
    return value->op && !tw_is_graph(value->op, TW_GRAPH_CONSTANT) &&
           !tw_lower_is_view(value->op, &offset);
}

/* Results are computed straight into the output arguments where they can be. */
static void plan_outputs(to_loops *t, const tw_op *ret, tw_value *const *outputs)
{
    for (unsigned i = 0; i < ret->n_operands; i++) {
        tw_value *base = base_of(tw_operand(ret, i));
        if (is_kernel_result(base) && !tw_map_get_ptr(&t->planned, base))
            tw_map_put_ptr(&t->planned, base,
                           is_bound(t, outputs[i]) ? outputs[i]
                                                   : view(t, outputs[i], base->type, 0));
    }
}

/* loop.kernel @copy(%x, %y) of that type. */
static tw_op *copy_kernel(to_loops *t, tw_type type)
{
    tw_builder b = t->kernels;
    b.loc = t->body.loc;
    tw_op *kernel =
        tw_loop_kernel(&b, "copy", (tw_type[]){type, type}, (const char *[]){"x", "y"}, 2, 1);
    tw_lowering l = {.ctx = t->ctx,
                     .arena = t->arena,
                     .kernel = kernel,
                     .op = kernel,
                     .names = tw_map_make(t->arena)};
    tw_stage s;
    tw_region *body = &kernel->regions[0];
    tw_stage_elementwise(&l, &s, "copy", body->args[1]);
    tw_stage_store_here(&s, tw_stage_load_broadcast(&s, body->args[0], type->rank), body->args[1]);
    tw_stage_close(&s);
    tw_kernel_describe(kernel, kernel);
    return merged(t, kernel, "copy");
}

/* Copies what is no result of a kernel, or is one more output of the same. */
static void copy_output(to_loops *t, tw_value *value, tw_value *output)
{
    tw_value *planned = tw_map_get_ptr(&t->planned, base_of(value));
    if (planned && planned->op)
        planned = tw_operand(planned->op, 0);
    int64_t count = 1;
    tw_type_static_count(value->type, &count);
    provide(t, output);
    if (planned == output || !count)
        return;
    tw_op *kernel = copy_kernel(t, output->type);
    tw_value *args[] = {buffer_for(t, value), output};
    tw_core_call(&t->body, tw_op_string(kernel, "sym_name", NULL), args, 2, NULL, 0);
}

static bool lower_op(to_loops *t, tw_op *op, tw_value *const *outputs)
{
    t->body.loc = t->kernels.loc = op->loc;
    if (tw_is_graph(op, TW_GRAPH_CONSTANT))
        return true; /* when it is used */
    if (tw_is_core(op, TW_CORE_RETURN)) {
        for (unsigned i = 0; i < op->n_operands; i++)
            copy_output(t, tw_operand(op, i), outputs[i]);
        tw_core_return(&t->body, NULL, 0);
        return true;
    }
    if (tw_is_graph(op, TW_GRAPH_BIND)) {
        tw_value *sizes = buffer_for(t, tw_operand(op, 0));
        tw_build(&t->body, &tw_loop_ops[TW_LOOP_BIND], &sizes, 1, NULL, 0, "symbols",
                 tw_op_attr(op, "symbols"), "expect", tw_op_attr(op, "expect"), "what",
                 tw_op_attr(op, "what"), NULL);
        return true;
    }
    int64_t offset;
    if (!tw_lower_check_types(t->ctx, op))
        return false;
    if (!tw_lower_is_view(op, &offset))
        return call_kernel(t, op);
    tw_map_put_ptr(&t->buffers, tw_result(op, 0),
                   view(t, buffer_for(t, tw_operand(op, 0)), op->results[0].type, offset));
    return true;
}

static bool check_inputs(tw_context *ctx, const tw_op *func)
{
    const tw_region *region = &func->regions[0];
    for (unsigned i = 0; i < region->n_args; i++)
        if (!tw_type_is_static(region->args[i]->type)) {
            const char *name = region->args[i]->name ? region->args[i]->name : "?";
            return tw_error(ctx, func->loc,
                            "input '%s' has symbolic sizes, %s; fix them with "
                            "--shape %s=…",
                            name, tw_print_type(ctx, region->args[i]->type), name);
        }
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
    if (!check_inputs(t->ctx, func))
        return false;
    tw_region *old = &func->regions[0];
    tw_op *made = new_function(t, func, ret);
    t->kernels = tw_builder_before(t->ctx, made);
    t->body = tw_builder_at_end(t->ctx, &made->regions[0], func->loc);
    t->buffers = tw_map_make(t->arena);
    t->planned = tw_map_make(t->arena);
    t->constants = tw_map_make(t->arena);
    t->provided = tw_map_make(t->arena);
    for (unsigned i = 0; i < old->n_args; i++)
        tw_map_put_ptr(&t->buffers, old->args[i], made->regions[0].args[i]);
    tw_value **outputs = made->regions[0].args + old->n_args;
    plan_outputs(t, ret, outputs);
    for (tw_op *op = old->first; op; op = op->next)
        if (!lower_op(t, op, outputs))
            return false;
    tw_op_erase(func);
    return true;
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
