/* prim_blockize.c: blockize: a loop nest becomes the body of one block.
 *
 *     for %i = 0 to 8 { for %j = 0 to 4 { block "b" (%vi = %i, %vj = %j) { … %T[%vi, %vj] … } } }
 * at %j:
 *     for %i = 0 to 8 { block "b_outer" (%v: spatial 8 = %i) {
 *       for %j = 0 to 4 { … %T[%v, %j] … } } }
 *
 * It then moves as one piece: what is in it is no longer seen by other steps, which take care
 * accordingly. A nest that goes on with a reduction from outer loops, or has its init, keeps the
 * order of its iterations. */
#include "schedule/outer_block.h"

#include "base/vec.h"

typedef struct inner {
    tw_arena *arena;
    TW_VEC(tw_op *) blocks;
} inner;

static void list_block(tw_op *block, void *data)
{
    inner *in = data;
    tw_vec_push(in->arena, &in->blocks, block);
}

typedef struct uses {
    const tw_nest *nest;
    bool *used;
} uses;

static bool note_uses(tw_op *op, void *data)
{
    const uses *u = data;
    for (unsigned i = 0; i < op->n_operands; i++) {
        int at = tw_nest_find(u->nest, tw_operand(op, i));
        if (at >= 0)
            u->used[at] = true;
    }
    return true;
}

static bool is_unbound(tw_op *op, void *data)
{
    (void)data;
    return !tw_is_loop(op, TW_LOOP_FOR) || !tw_loop_is_bound(op);
}

bool tw_do_blockize(const tw_step *step)
{
    tw_context *ctx = step->ctx;
    tw_op *loop = step->operands[0];
    tw_block_list list;
    tw_nest nest;
    bool used[TW_MAX_NEST] = {false}, reduce[TW_MAX_NEST] = {false};
    if (!tw_step_serial(step, loop) || !tw_step_only_blocks(step, loop) ||
        !tw_step_blocks(step, loop, &list) || !tw_nest_of(ctx, loop, &nest))
        return false;
    if (!tw_walk(loop, is_unbound, NULL))
        return tw_step_refuse(step, "a loop in %%%s is bound to threads, which run in no block",
                              tw_loop_name(loop));
    if (!list.n)
        return tw_step_refuse(step, "loop %%%s holds no block", tw_loop_name(loop));
    uses u = {&nest, used};
    tw_walk(loop, note_uses, &u);
    for (unsigned i = 0; i < list.n; i++)
        for (unsigned k = 0; k < nest.n; k++)
            reduce[k] |= tw_loop_is_reduce(list.blocks[i], k);
    if (!tw_outer_block_fits(step, loop, &nest, used))
        return false;
    inner in = {.arena = tw_context_arena(ctx)};
    tw_each_block(loop, list_block, &in);
    const char *name =
        tw_arena_printf(tw_context_arena(ctx), "%s_outer", tw_block_name(in.blocks.data[0]));
    for (size_t i = 0; i < in.blocks.len; i++)
        tw_block_inline(ctx, in.blocks.data[i]);
    tw_outer_block outer = tw_outer_block_make(step, loop, &nest, used, reduce);
    tw_cloner *cloner = tw_cloner_create(ctx);
    for (unsigned i = 0; i < nest.n; i++)
        if (used[i])
            tw_cloner_map(cloner, nest.vars[i], outer.vars[i]);
    tw_op_insert(tw_op_clone(cloner, loop), &outer.block->regions[1], NULL);
    tw_op_erase(loop);
    tw_op_set_attr(outer.block, "order", tw_attr_string(ctx, "sequential"));
    tw_step_name_block(step, outer.block, name);
    step->results[0] = outer.block;
    return true;
}
