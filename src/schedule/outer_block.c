/* outer_block.c: a block in the place of a loop nest; see outer_block.h.
 *
 *     for %i = 0 to 8 { for %j { … } }          block (%vi: spatial 8 = %i) { … } in the place of
 * %j */
#include "schedule/outer_block.h"

bool tw_outer_block_fits(const tw_step *step, const tw_op *loop, const tw_nest *nest,
                         const bool *used)
{
    unsigned n = 0;
    for (unsigned i = 0; i < nest->n; i++) {
        int64_t lo;
        n += used[i];
        if (used[i] && (!tw_expr_as_const(tw_loop_lo(nest->loops[i]), &lo) || lo != 0 ||
                        nest->loops[i]->n_operands || tw_op_int(nest->loops[i], "step", 1) != 1))
            return tw_step_refuse(step, "loop %%%s around %%%s does not run from 0 to a size by 1",
                                  tw_loop_name(nest->loops[i]), tw_loop_name(loop));
    }
    return n <= TW_MAX_ITERS || tw_step_refuse(step, "loop %%%s uses more than %d loops around it",
                                               tw_loop_name(loop), TW_MAX_ITERS);
}

tw_outer_block tw_outer_block_make(const tw_step *step, tw_op *loop, const tw_nest *nest,
                                   const bool *used, const bool *reduce)
{
    tw_context *ctx = step->ctx;
    tw_outer_block out = {.n = 0};
    tw_loop_iter iters[TW_MAX_ITERS];
    tw_value *operands[TW_MAX_ITERS];
    unsigned level[TW_MAX_ITERS];
    for (unsigned i = 0; i < nest->n; i++) {
        if (!used[i])
            continue;
        level[out.n] = i;
        operands[out.n] = nest->vars[i];
        iters[out.n] = (tw_loop_iter){
            tw_arena_printf(tw_context_arena(ctx), "v%s", tw_loop_name(nest->loops[i])), reduce[i],
            tw_loop_hi(nest->loops[i]), tw_expr_dim(ctx, out.n)};
        out.n++;
    }
    tw_builder place = tw_builder_before(ctx, loop);
    out.block = tw_loop_block(&place, "outer", iters, out.n, operands, out.n);
    for (unsigned i = 0; i < out.n; i++)
        out.args[i] = out.vars[level[i]] = out.block->regions[1].args[i];
    return out;
}
