/* empty.c: reductions that may turn out to have no iterations.
 *
 *     block "sum" (…, %k: reduce n) { init { %S[…] = 0 } %S[…] += … }
 *     block "empty" (…) where (-n) { %S[…] = 0 }
 *
 * A schedule puts the init in front of the reduction's loops; then it runs for n = 0 as well, and
 * "empty" is not needed. */
#include "base/arena.h"
#include "schedule/nest.h"
#include "schedule/rules/rule.h"

#include <string.h>

static bool is_block(const tw_op *op)
{
    return tw_is_loop(op, TW_LOOP_BLOCK);
}

/* The store of a region that consists of a constant and its store; else NULL. */
static const tw_op *constant_store(const tw_region *region)
{
    const tw_op *value = region->first, *store = value ? value->next : NULL;
    bool fits = store && !store->next && tw_is_loop(value, TW_LOOP_CONST) &&
                tw_is_loop(store, TW_LOOP_STORE) && tw_operand(store, 0)->op == value;
    return fits ? store : NULL;
}

/* The product of the extents that the block reduces over. */
static tw_expr reduced_count(tw_context *ctx, const tw_op *block)
{
    tw_attr extents = tw_op_attr(block, "extents");
    tw_expr count = tw_expr_const(ctx, 1);
    for (size_t i = 0; i < extents->u.map.n; i++)
        if (tw_block_iter_reduces(block, i))
            count = tw_expr_mul(ctx, count, extents->u.map.exprs[i]);
    return count;
}

/* Whether `empty` stores what the reduction sets first, just when that has no iterations. */
static bool stands_for(tw_context *ctx, const tw_op *empty, const tw_op *reduction)
{
    const tw_op *a = constant_store(&empty->regions[1]),
                *b = constant_store(&reduction->regions[0]);
    tw_attr where = tw_op_attr(empty, "where");
    tw_loop_access to_a, to_b;
    return a && b && tw_loop_get_access(a, &to_a) && tw_loop_get_access(b, &to_b) &&
           to_a.buffer == to_b.buffer && !to_a.where && !to_b.where && where->u.map.n == 1 &&
           where->u.map.exprs[0] == tw_expr_mulc(ctx, reduced_count(ctx, reduction), -1) &&
           tw_op_attr(tw_operand(a, 0)->op, "value") == tw_op_attr(tw_operand(b, 0)->op, "value");
}

void tw_rule_drop_empty(tw_context *ctx, tw_op *kernel)
{
    tw_loop_list list = tw_loop_collect(ctx, kernel, is_block);
    for (size_t i = 0; i < list.n; i++) {
        bool dropped = false;
        for (size_t k = 0; k < i && tw_op_attr(list.ops[i], "where") && !dropped; k++)
            dropped = list.ops[k] && stands_for(ctx, list.ops[i], list.ops[k]);
        if (!dropped)
            continue;
        tw_op *loop = list.ops[i]->region->parent;
        tw_op_erase(list.ops[i]);
        list.ops[i] = NULL;
        if (tw_is_loop(loop, TW_LOOP_FOR))
            tw_erase_empty_loops(loop);
    }
}

/* Drops conditions that ask for sizes alone not to be 0: partial results are set as well then. */
static void end_anyway(tw_context *ctx, tw_op *block)
{
    tw_attr where = tw_op_attr(block, "where");
    tw_expr kept[TW_MAX_EXPR_DIMS];
    size_t n = 0;
    for (size_t i = 0; where && i < where->u.map.n; i++) {
        tw_expr e = where->u.map.exprs[i];
        bool asks = tw_expr_dim_count(e) == 0 && tw_expr_at_least(ctx, e, -1, NULL, 0);
        if (n == TW_MAX_EXPR_DIMS)
            return;
        if (!asks)
            kept[n++] = e;
    }
    if (where)
        tw_op_set_attr(block, "where", n ? tw_attr_map(ctx, where->u.map.n_dims, kept, n) : NULL);
}

static bool has_block(const tw_loop_list *blocks, const char *name)
{
    for (size_t i = 0; i < blocks->n; i++)
        if (!strcmp(tw_op_string(blocks->ops[i], "sym_name", ""), name))
            return true;
    return false;
}

bool tw_rule_all_set(tw_context *ctx, tw_op *original, tw_op *kernel)
{
    tw_loop_list list = tw_loop_collect(ctx, kernel, is_block);
    tw_loop_list old = tw_loop_collect(ctx, original, is_block);
    for (size_t i = 0; i < list.n; i++)
        if (!has_block(&old, tw_op_string(list.ops[i], "sym_name", "")))
            end_anyway(ctx, list.ops[i]);
    for (size_t i = 0; i < list.n; i++)
        if (list.ops[i]->regions[0].first && !tw_expr_is_const(reduced_count(ctx, list.ops[i])))
            return false;
    return true;
}
