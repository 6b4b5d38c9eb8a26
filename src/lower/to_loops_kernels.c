/* to_loops_kernels.c: kernels of graph operations, and their calls. */
#include "lower/to_loops_impl.h"

#include "lower/kernel.h"

#include <string.h>

/* Kernels of one hash. */
typedef struct kernel_entry {
    struct kernel_entry *next;
    tw_op *kernel;
} kernel_entry;

const char *tw_to_loops_unique_symbol(tw_to_loops *t, const char *name)
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
static const char *kernel_name(tw_to_loops *t, const tw_op *op)
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
static tw_op *merged(tw_to_loops *t, tw_op *kernel, const char *name)
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
    tw_op_set_attr(kernel, "sym_name", tw_attr_symbol(t->ctx, tw_to_loops_unique_symbol(t, name)));
    return kernel;
}

/* Buffers that a value is a part of give the arguments their sizes, that is, strides. */
static void fit_arguments(tw_op *kernel, tw_value *const *args, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        kernel->regions[0].args[i]->type = args[i]->type;
}

bool tw_to_loops_call_kernel(tw_to_loops *t, tw_op *op)
{
    tw_kernel_call call;
    if (!tw_lower_kernel(&t->kernels, op, &call))
        return false;
    if (!call.kernel)
        return true;
    tw_value **args = TW_NEW_ARRAY(t->arena, tw_value *, call.n);
    for (unsigned i = 0; i < call.n; i++) {
        tw_kernel_arg a = call.args[i];
        args[i] = a.kind == TW_ARG_OPERAND ? tw_to_loops_buffer_for(t, tw_operand(op, a.index))
                  : a.kind == TW_ARG_CONSTANT
                      ? tw_to_loops_constant_buffer(t, a.constant, NULL)
                      : tw_to_loops_result_buffer(t, tw_result(op, a.index));
    }
    fit_arguments(call.kernel, args, call.n);
    tw_op *kernel = merged(t, call.kernel, kernel_name(t, op));
    tw_core_call(&t->body, tw_op_string(kernel, "sym_name", NULL), args, call.n, NULL, 0);
    return true;
}

tw_op *tw_to_loops_plain_kernel(tw_to_loops *t, const char *name, const tw_type *types,
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

void tw_to_loops_call_plain(tw_to_loops *t, tw_op *kernel, const char *name, tw_value *const *args,
                            unsigned n)
{
    tw_kernel_describe(kernel, kernel);
    fit_arguments(kernel, args, n);
    kernel = merged(t, kernel, name);
    tw_core_call(&t->body, tw_op_string(kernel, "sym_name", NULL), args, n, NULL, 0);
}

bool tw_to_loops_is_empty(tw_type type)
{
    int64_t count;
    return tw_type_static_count(type, &count) && !count;
}

void tw_to_loops_copy_shape(tw_to_loops *t, tw_value *from, tw_value *to, tw_type shape)
{
    tw_lowering l;
    tw_stage s;
    if (tw_to_loops_is_empty(shape))
        return;
    tw_op *kernel = tw_to_loops_plain_kernel(t, "copy", (tw_type[]){shape, shape},
                                             (const char *[]){"x", "y"}, 2, &l);
    tw_region *body = &kernel->regions[0];
    tw_stage_elementwise(&l, &s, "copy", body->args[1]);
    tw_stage_store_here(&s, tw_stage_load_broadcast(&s, body->args[0], shape->rank), body->args[1]);
    tw_stage_close(&s);
    tw_to_loops_call_plain(t, kernel, "copy", (tw_value *[]){from, to}, 2);
}

void tw_to_loops_copy_buffer(tw_to_loops *t, tw_value *from, tw_value *to)
{
    if (!tw_to_loops_is_empty(to->type))
        tw_to_loops_copy_shape(t, tw_to_loops_view_at(t, from, to->type, 0), to, to->type);
}
