/* to_loops_kernels.c: kernels of graph operations, and their calls. */
#include "lower/to_loops_impl.h"

#include "dialect/graph/open_sizes.h"
#include "base/vec.h"
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

/* A kernel and what a call of it passes. */
typedef struct kernel_version {
    tw_kernel_call call;
    tw_value **args;
    unsigned n;
} kernel_version;

static bool make_kernel(tw_to_loops *t, tw_op *op, kernel_version *out)
{
    *out = (kernel_version){.n = 0};
    if (!tw_lower_kernel(&t->kernels, op, &out->call))
        return false;
    out->n = out->call.n;
    out->args = TW_NEW_ARRAY(t->arena, tw_value *, out->n + 1);
    return true;
}

static void call(tw_to_loops *t, const kernel_version *v, const char *name)
{
    if (t->in_place)
        tw_kernel_find_in_place(v->call.kernel);
    fit_arguments(v->call.kernel, v->args, v->n);
    tw_op *kernel = merged(t, v->call.kernel, name);
    tw_core_call(&t->body, tw_op_string(kernel, "sym_name", NULL), v->args, v->n, NULL, 0);
}

static void bind_arguments(tw_to_loops *t, tw_op *op, kernel_version *v)
{
    for (unsigned i = 0; i < v->n; i++) {
        tw_kernel_arg a = v->call.args[i];
        tw_value *result = a.kind == TW_ARG_RESULT ? tw_result(op, a.index) : NULL;
        tw_value *made = result ? tw_map_get_ptr(&t->buffers, result) : NULL;
        v->args[i] = a.kind == TW_ARG_OPERAND ? tw_to_loops_buffer_for(t, tw_operand(op, a.index))
                     : a.kind == TW_ARG_CONSTANT ? tw_to_loops_constant_buffer(t, a.constant, NULL)
                     : made                      ? made
                                                 : tw_to_loops_result_buffer(t, result);
    }
}

/* The group with the sizes of its open expands taken to be equal, in front of it; these expands are
 * gone then. */
static tw_op *fast_version(tw_to_loops *t, tw_op *group, const tw_equal_sizes *equal)
{
    tw_op *fast = tw_op_clone(tw_cloner_create(t->ctx), group);
    tw_region *body = &fast->regions[0];
    tw_op_insert(fast, group->region, group);
    for (unsigned i = 0; i < fast->n_results; i++)
        fast->results[i].type = tw_equal_type(equal, fast->results[i].type);
    for (unsigned i = 0; i < body->n_args; i++)
        body->args[i]->type = tw_equal_type(equal, body->args[i]->type);
    for (tw_op *op = body->first, *next; op; op = next) {
        next = op->next;
        for (unsigned i = 0; i < op->n_results; i++)
            op->results[i].type = tw_equal_type(equal, op->results[i].type);
        if (tw_is_graph(op, TW_GRAPH_EXPAND) && op->results[0].type == tw_operand(op, 0)->type) {
            tw_value_replace_all(tw_result(op, 0), tw_operand(op, 0));
            tw_op_erase(op);
        }
    }
    return fast;
}

/* The types that a version's arguments have there; a part of a buffer keeps the sizes of that. */
static void see_as_version(tw_to_loops *t, const tw_op *version, kernel_version *v)
{
    for (unsigned i = 0; i < v->n; i++) {
        tw_kernel_arg a = v->call.args[i];
        if (a.kind != TW_ARG_CONSTANT && !tw_to_loops_is_part(v->args[i]))
            v->args[i] =
                tw_to_loops_view(t, v->args[i],
                                 a.kind == TW_ARG_RESULT ? version->results[a.index].type
                                                         : version->regions[0].args[a.index]->type,
                                 0);
    }
}

/* What is >= 0 when the sizes of the group's open expands are equal. */
static tw_attr all_equal(tw_to_loops *t, const tw_op *group)
{
    TW_VEC(tw_expr) sets = {0};
    for (const tw_op *op = group->regions[0].first; op; op = op->next) {
        if (!tw_graph_is_open_expand(op))
            continue;
        tw_type from = tw_operand(op, 0)->type, to = op->results[0].type;
        for (unsigned i = 0; i < from->rank; i++) {
            tw_expr a = from->dims[i], b = to->dims[to->rank - from->rank + i];
            if (!tw_is_open_size(a, b))
                continue;
            tw_vec_push(t->arena, &sets, tw_expr_sub(t->ctx, a, b));
            tw_vec_push(t->arena, &sets, tw_expr_sub(t->ctx, b, a));
        }
    }
    return tw_attr_map(t->ctx, 0, sets.data, sets.len);
}

/* Sizes that meet in broadcasting are mostly equal, and kernels are fast when they are written for
 * that:
 *
 *     loop.if where (m - n, n - m) { call @add(…) } else { call @add_any(…) } */
static bool call_versions(tw_to_loops *t, tw_op *group, const tw_equal_sizes *equal)
{
    tw_op *version[2] = {fast_version(t, group, equal), group};
    kernel_version made[2];
    const char *name = kernel_name(t, group);
    bool fine = make_kernel(t, version[0], &made[0]) && make_kernel(t, group, &made[1]);
    if (fine && made[0].call.kernel) {
        bind_arguments(t, group, &made[0]);
        bind_arguments(t, group, &made[1]);
        tw_op *choice = tw_build(&t->body, &tw_loop_ops[TW_LOOP_IF], NULL, 0, NULL, 0, "where",
                                 all_equal(t, group), NULL);
        tw_builder outside = t->body;
        for (unsigned v = 0; v < 2; v++) {
            t->body = tw_builder_at_end(t->ctx, &choice->regions[v], choice->loc);
            see_as_version(t, version[v], &made[v]);
            call(t, &made[v], v ? tw_arena_printf(t->arena, "%s_any", name) : name);
        }
        t->body = outside;
    }
    tw_op_erase(version[0]);
    return fine;
}

/* Notes which sizes a group leaves open; false when it leaves none. */
static bool note_open_sizes(const tw_op *op, tw_equal_sizes *equal)
{
    bool any = false;
    if (!tw_is_graph(op, TW_GRAPH_GROUP))
        return false;
    for (const tw_op *o = op->regions[0].first; o; o = o->next)
        if (tw_graph_is_open_expand(o)) {
            tw_equal_sizes_add(equal, o);
            any = true;
        }
    return any;
}

bool tw_to_loops_call_kernel(tw_to_loops *t, tw_op *op)
{
    kernel_version made;
    tw_equal_sizes equal = {t->ctx, tw_map_make(t->arena)};
    if (note_open_sizes(op, &equal))
        return call_versions(t, op, &equal);
    if (!make_kernel(t, op, &made))
        return false;
    for (unsigned i = 0; i < op->n_results; i++) /* nothing computes them, but others name them */
        if (tw_to_loops_is_empty(op->results[i].type))
            tw_to_loops_result_buffer(t, tw_result(op, i));
    if (!made.call.kernel)
        return true;
    bind_arguments(t, op, &made);
    call(t, &made, kernel_name(t, op));
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
