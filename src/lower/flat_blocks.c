/* flat_blocks.c: lower-blocks: blocks become their bodies over loop variables (tw_block_inline). */
#include "lower/flat.h"

#include "dialect/loop/loop.h"

static bool is_block(const tw_op *op)
{
    return tw_is_loop(op, TW_LOOP_BLOCK);
}

static bool run(tw_pass_run *pass)
{
    tw_loop_list blocks = tw_loop_collect(pass->ctx, pass->root, is_block);
    for (size_t i = 0; i < blocks.n; i++)
        tw_block_inline(pass->ctx, blocks.ops[i]);
    pass->changes += blocks.n;
    return true;
}

const tw_pass tw_pass_lower_blocks = {
    .name = "lower-blocks",
    .summary = "replace blocks by their bodies over loop variables",
    .anchor = "loop.kernel",
    .run = run,
};
