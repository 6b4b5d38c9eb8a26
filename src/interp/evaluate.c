/* evaluate.c: constant evaluation through the one description of each operation. */
#include "interp/evaluate.h"

#include "base/arena.h"
#include "dialect/core/core.h"
#include "interp/interp.h"
#include "ir/elem_data.h"
#include "lower/kernel.h"

/* Memory for the results, as attributes and as buffers. */
static bool make_results(tw_context *ctx, tw_op *op, tw_attr *results, tw_interp_buffer *buffers)
{
    for (unsigned i = 0; i < op->n_results; i++) {
        tw_type type = op->results[i].type;
        int64_t count = 0;
        if (!tw_type_static_count(type, &count) || count < 0 ||
            !tw_elem_bytes(type->elem, (uint64_t)count, &buffers[i].size))
            return tw_error(ctx, op->loc, "result %u of '%s' is too large", i, op->def->name);
        buffers[i].data = tw_context_alloc(ctx, buffers[i].size);
        results[i] = tw_attr_dense(ctx, type, buffers[i].data, buffers[i].size);
    }
    return true;
}

static tw_interp_buffer constant_buffer(tw_attr value)
{
    return (tw_interp_buffer){(void *)value->u.dense.data, value->u.dense.size};
}

bool tw_evaluate(tw_context *ctx, tw_op *op, const tw_attr *operands, tw_attr *results,
                 uint64_t max_steps)
{
    tw_arena *arena = tw_context_arena(ctx);
    tw_op *module = tw_core_module(ctx, NULL, op->loc);
    tw_builder b = tw_builder_at_end(ctx, tw_core_body(module), op->loc);
    tw_interp_buffer *made = TW_NEW_ARRAY(arena, tw_interp_buffer, op->n_results);
    tw_kernel_call call;
    if (!tw_lower_kernel(&b, op, &call) || !make_results(ctx, op, results, made))
        return false;
    if (!call.kernel)
        return true;
    tw_interp_buffer *buffers = TW_NEW_ARRAY(arena, tw_interp_buffer, call.n);
    for (unsigned i = 0; i < call.n; i++) {
        tw_kernel_arg a = call.args[i];
        buffers[i] = a.kind == TW_ARG_OPERAND    ? constant_buffer(operands[a.index])
                     : a.kind == TW_ARG_CONSTANT ? constant_buffer(a.constant)
                                                 : made[a.index];
    }
    tw_interp_options options = {.max_steps = max_steps};
    bool fine = tw_interp_run(ctx, call.kernel, buffers, call.n, &options);
    tw_op_erase(call.kernel);
    return fine;
}
