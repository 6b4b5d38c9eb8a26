/* hoist_workspace.c: hoist-workspace: a kernel's own global buffers become arguments.
 *
 *     loop.kernel @k(%x, %y) { %t = loop.alloc : buffer<64xf32> … }      call @k(%a, %b)
 * becomes
 *     loop.kernel @k(%x, %y, %t) { … }     %w = loop.alloc : buffer<64xf32>  call @k(%a, %b, %w) */
#include "lower/lower_passes.h"

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "dialect/core/core.h"
#include "dialect/loop/loop.h"

/* Register tiles and small scratch stay in the kernel, on the stack. */
enum { MAX_STACK_BYTES = 16 << 10 };

typedef struct workspace {
    TW_VEC(tw_type) types;
    TW_VEC(const char *) names;
} workspace;

static bool belongs_outside(const tw_op *op)
{
    int64_t count;
    tw_type type = op->n_results ? op->results[0].type : NULL;
    if (!tw_is_loop(op, TW_LOOP_ALLOC))
        return false;
    return !type->scope[0] || !tw_type_static_count(type, &count) ||
           count > MAX_STACK_BYTES * 8 / tw_elem_bits(type->elem);
}

static workspace *hoist_from(tw_context *ctx, tw_op *kernel)
{
    tw_arena *arena = tw_context_arena(ctx);
    workspace *w = NULL;
    for (tw_op *op = kernel->regions[0].first, *next; op; op = next) {
        next = op->next;
        if (!belongs_outside(op))
            continue;
        if (!w)
            w = TW_NEW(arena, workspace);
        tw_value *buffer = tw_result(op, 0);
        tw_type global =
            tw_type_buffer(ctx, buffer->type->elem, buffer->type->rank, buffer->type->dims, "");
        tw_vec_push(arena, &w->types, global);
        tw_vec_push(arena, &w->names, buffer->name);
        tw_value *arg = tw_region_add_arg(&kernel->regions[0], global, buffer->name);
        tw_value_replace_all(buffer, arg);
        tw_op_erase(op);
    }
    if (w)
        tw_op_set_attr(kernel, "outputs",
                       tw_attr_int(ctx, tw_op_int(kernel, "outputs", 0) + (int64_t)w->types.len));
    return w;
}

static void extend_call(tw_context *ctx, tw_op *call, const workspace *w)
{
    tw_builder b = tw_builder_before(ctx, call);
    size_t n = call->n_operands + w->types.len;
    tw_value **operands = TW_NEW_ARRAY(tw_context_arena(ctx), tw_value *, n);
    for (unsigned i = 0; i < call->n_operands; i++)
        operands[i] = tw_operand(call, i);
    for (size_t i = 0; i < w->types.len; i++)
        operands[call->n_operands + i] = tw_loop_alloc(&b, w->types.data[i], w->names.data[i]);
    tw_op_set_operands(call, operands, (unsigned)n);
}

typedef struct hoist {
    tw_context *ctx;
    tw_map kernels; /* name -> workspace */
} hoist;

static bool visit_call(tw_op *op, void *data)
{
    hoist *h = data;
    if (!tw_is_core(op, TW_CORE_CALL))
        return true;
    const workspace *w = tw_map_get_str(&h->kernels, tw_op_string(op, "callee", ""));
    if (w)
        extend_call(h->ctx, op, w);
    return true;
}

static bool run(tw_pass_run *pass)
{
    hoist h = {.ctx = pass->ctx, .kernels = tw_map_make(tw_context_arena(pass->ctx))};
    for (tw_op *op = tw_core_body(pass->root)->first; op; op = op->next) {
        workspace *w = tw_is_loop(op, TW_LOOP_KERNEL) ? hoist_from(pass->ctx, op) : NULL;
        if (!w)
            continue;
        tw_map_put_str(&h.kernels, tw_op_string(op, "sym_name", ""), w);
        pass->changes += w->types.len;
    }
    if (h.kernels.len)
        tw_walk(pass->root, visit_call, &h);
    return true;
}

const tw_pass tw_pass_hoist_workspace = {
    .name = "hoist-workspace",
    .summary = "pass kernels' large buffers as arguments, for the memory plan",
    .anchor = "core.module",
    .run = run,
};
