/* wrong.c: passes that are wrong on purpose, for the tests of bisection.
 *
 * swap-operands swaps the operands of products, which is right, and of differences, which is not;
 * stop-at-exp aborts at an exponential. */
#include <tilewright/ir.h>

#include <stdlib.h>

static bool swap(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    if (tw_op_attr(op, "wrong.swapped"))
        return false;
    tw_value *operands[] = {tw_operand(op, 1), tw_operand(op, 0)};
    tw_op_set_operands(op, operands, 2);
    tw_op_set_attr(op, "wrong.swapped", tw_attr_unit(tw_rw_context(rw)));
    tw_rw_changed(rw, op);
    return true;
}

static bool run_swap(tw_pass_run *run)
{
    const tw_pattern patterns[] = {
        {"mul(x, y) -> mul(y, x)", tw_op_def_find(run->ctx, "graph.mul"), 1, swap, NULL},
        {"sub(x, y) -> sub(y, x)", tw_op_def_find(run->ctx, "graph.sub"), 1, swap, NULL},
    };
    tw_rewrite_greedily(run->ctx, run->root, patterns, 2, run->max_changes, &run->changes);
    return true;
}

static bool stop(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)rw;
    (void)op;
    (void)data;
    abort();
}

static bool run_stop(tw_pass_run *run)
{
    const tw_pattern patterns[] = {
        {"mul(x, y) -> mul(y, x)", tw_op_def_find(run->ctx, "graph.mul"), 1, swap, NULL},
        {"exp(x) -> abort", tw_op_def_find(run->ctx, "graph.exp"), 1, stop, NULL},
    };
    tw_rewrite_greedily(run->ctx, run->root, patterns, 2, run->max_changes, &run->changes);
    return true;
}

static const tw_pass swap_operands = {
    .name = "swap-operands",
    .summary = "wrong for differences",
    .anchor = "core.func",
    .optional = true,
    .run = run_swap,
};

static const tw_pass stop_at_exp = {
    .name = "stop-at-exp",
    .summary = "aborts",
    .anchor = "core.func",
    .optional = true,
    .run = run_stop,
};

__attribute__((visibility("default"))) bool tw_plugin_register(tw_context *ctx, int api_version)
{
    return api_version == TW_PLUGIN_API && tw_pass_register(ctx, &swap_operands) &&
           tw_pass_register(ctx, &stop_at_exp);
}
