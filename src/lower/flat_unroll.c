/* flat_unroll.c: unroll-loops: a loop marked `unroll` becomes one copy of its body per trip.
 *
 *     loop.for %i = 0 to 2 unroll { loop.store %x, %Y[%i] }
 * becomes
 *     loop.store %x, %Y[0]
 *     loop.store %x, %Y[1]
 *
 * In a loop with the annotation auto_unroll_max_step = n, loops of which all copies together have
 * no more than n operations are taken for marked, inner ones first. Virtual threads are copies,
 * too. */
#include "lower/flat.h"

#include "base/arena.h"
#include "dialect/loop/index_map.h"
#include "dialect/loop/loop.h"

#include <string.h>

/* A loop of more trips, or of more operations in all its copies, stays a loop: unrolling is for
 * register tiles and small windows. */
enum { MAX_TRIPS = 64, MAX_COPIED_OPS = 1 << 14 };

static bool is_unrolled(const tw_op *op)
{
    return tw_is_for_kind(op, "unroll") || tw_is_for_kind(op, "vthread");
}

/* Copies the body in front of the loop with the variable replaced by `value`. */
static void copy_body(tw_context *ctx, tw_op *loop, tw_expr value, tw_value *const *operands)
{
    tw_region *body = &loop->regions[0];
    tw_cloner *cloner = tw_cloner_create(ctx);
    tw_builder b = tw_builder_before(ctx, loop);
    /* Each copy uses a loop.index as its variable, which is then put into the expressions. */
    tw_type type = tw_type_scalar(ctx, TW_INDEX);
    tw_op *variable = tw_build(&b, &tw_loop_ops[TW_LOOP_INDEX], operands, loop->n_operands, &type,
                               1, "expr", tw_attr_map(ctx, loop->n_operands, &value, 1), NULL);
    tw_index_compact(ctx, variable);
    tw_cloner_map(cloner, body->args[0], tw_result(variable, 0));
    for (tw_op *op = body->first; op; op = op->next)
        tw_op_insert(tw_op_clone(cloner, op), loop->region, loop);

    tw_value *inputs[TW_MAX_EXPR_DIMS];
    for (unsigned i = 0; i < variable->n_operands; i++)
        inputs[i] = tw_operand(variable, i);
    tw_expr e = tw_op_attr(variable, "expr")->u.map.exprs[0];
    tw_index_replace_value(ctx, tw_result(variable, 0), e, inputs, variable->n_operands);
    tw_op_erase(variable);
}

static void unroll(tw_context *ctx, tw_op *loop)
{
    tw_attr bounds = tw_op_attr(loop, "bounds");
    tw_expr lo = bounds->u.map.exprs[0];
    int64_t trips;
    tw_op_set_attr(loop, "kind", NULL);
    if (!tw_expr_as_const(tw_expr_sub(ctx, bounds->u.map.exprs[1], lo), &trips) ||
        trips > MAX_TRIPS || tw_op_int(loop, "step", 1) != 1 ||
        (trips > 1 && (size_t)trips * tw_loop_collect(ctx, loop, NULL).n > MAX_COPIED_OPS))
        return;
    tw_value **operands = TW_NEW_ARRAY(tw_context_arena(ctx), tw_value *, loop->n_operands);
    for (unsigned i = 0; i < loop->n_operands; i++)
        operands[i] = tw_operand(loop, i);
    for (int64_t t = 0; t < trips; t++)
        copy_body(ctx, loop, tw_expr_addc(ctx, lo, t), operands);
    tw_op_erase(loop);
}

/* The annotation of the loop or the closest one around it that has it; 0 without. */
static int64_t unroll_limit(const tw_op *loop)
{
    for (; loop->region; loop = loop->region->parent) {
        tw_attr hints = tw_is_loop(loop, TW_LOOP_FOR) ? tw_op_attr(loop, "annotations") : NULL;
        for (size_t i = 0; hints && i < hints->u.dict.n; i++)
            if (!strcmp(hints->u.dict.items[i].name, "auto_unroll_max_step"))
                return hints->u.dict.items[i].value->u.integer;
    }
    return 0;
}

/* Operations of all copies of the loop's body, INT32_MAX when there is a loop in it that
 * stays. */
static int64_t copied_ops(tw_context *ctx, tw_op *loop)
{
    int64_t sum = 0, trips;
    for (tw_op *op = loop->regions[0].first; op; op = op->next) {
        if (tw_is_loop(op, TW_LOOP_FOR))
            sum += is_unrolled(op) ? copied_ops(ctx, op) : INT32_MAX;
        else
            sum += (int64_t)tw_loop_collect(ctx, op, NULL).n;
        if (sum >= INT32_MAX)
            return INT32_MAX;
    }
    tw_attr bounds = tw_op_attr(loop, "bounds");
    tw_expr extent = tw_expr_sub(ctx, bounds->u.map.exprs[1], bounds->u.map.exprs[0]);
    bool known = tw_expr_as_const(extent, &trips) && trips >= 0 && trips <= MAX_TRIPS;
    return known && sum * trips < INT32_MAX ? sum * trips : INT32_MAX;
}

static bool is_serial(const tw_op *op)
{
    return tw_is_for_kind(op, "serial");
}

static void mark_small_loops(tw_context *ctx, tw_op *root)
{
    tw_loop_list loops = tw_loop_collect(ctx, root, is_serial);
    for (size_t i = loops.n; i-- > 0;) /* inner ones first */
        if (copied_ops(ctx, loops.ops[i]) <= unroll_limit(loops.ops[i]))
            tw_op_set_attr(loops.ops[i], "kind", tw_attr_string(ctx, "unroll"));
}

static bool run(tw_pass_run *pass)
{
    mark_small_loops(pass->ctx, pass->root);
    tw_loop_list loops = tw_loop_collect(pass->ctx, pass->root, is_unrolled);
    for (size_t i = loops.n; i-- > 0;) /* inner ones first */
        unroll(pass->ctx, loops.ops[i]);
    pass->changes += loops.n;
    return true;
}

const tw_pass tw_pass_unroll_loops = {
    .name = "unroll-loops",
    .summary = "copy the bodies of loops marked `unroll`",
    .anchor = "loop.kernel",
    .run = run,
};
