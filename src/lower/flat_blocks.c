/* flat_blocks.c: lower-blocks: blocks become their bodies over loop variables (tw_block_inline).
 *
 * The annotation `fetch_ahead = [n, d]` of a block goes to its loads of the n-th buffer that it
 * reads:
 *
 *     loop.block "b" … annotations {fetch_ahead = [1, 32]} { … %w = loop.load %W[…] … }
 *     ->  %w = loop.load %W[…] {ahead = 32} */
#include "lower/flat.h"

#include "dialect/loop/loop.h"

#include <string.h>

static bool is_block(const tw_op *op)
{
    return tw_is_loop(op, TW_LOOP_BLOCK);
}

/* The annotation; NULL when there is none. */
static tw_attr fetch_ahead(const tw_op *block)
{
    tw_attr all = tw_op_attr(block, "annotations"), found = NULL;
    for (size_t i = 0; all && i < all->u.dict.n; i++)
        if (strcmp(all->u.dict.items[i].name, "fetch_ahead") == 0)
            found = all->u.dict.items[i].value;
    bool fits = found && found->kind == TW_ATTR_ARRAY && found->u.array.n == 2;
    for (size_t i = 0; fits && i < 2; i++)
        fits = found->u.array.items[i]->kind == TW_ATTR_INT;
    return fits ? found : NULL;
}

static bool is_stored(const tw_op *block, const tw_value *buffer)
{
    for (const tw_op *op = block->regions[1].first; op; op = op->next)
        if (tw_is_loop(op, TW_LOOP_STORE) && tw_operand(op, 1) == buffer)
            return true;
    return false;
}

static void pass_on(tw_context *ctx, tw_op *block, tw_attr annotation)
{
    int64_t number = annotation->u.array.items[0]->u.integer;
    const tw_value *wanted = NULL;
    for (tw_op *op = block->regions[1].first; op; op = op->next) {
        const tw_value *buffer = tw_is_loop(op, TW_LOOP_LOAD) ? tw_operand(op, 0) : NULL;
        if (!buffer || is_stored(block, buffer))
            continue;
        bool seen = false;
        for (const tw_op *before = block->regions[1].first; before != op; before = before->next)
            seen |= tw_is_loop(before, TW_LOOP_LOAD) && tw_operand(before, 0) == buffer;
        if (!seen && number-- == 0)
            wanted = buffer;
        if (buffer == wanted)
            tw_op_set_attr(op, "ahead", tw_attr_int(ctx, annotation->u.array.items[1]->u.integer));
    }
}

static bool run(tw_pass_run *pass)
{
    tw_loop_list blocks = tw_loop_collect(pass->ctx, pass->root, is_block);
    for (size_t i = 0; i < blocks.n; i++) {
        tw_attr ahead = fetch_ahead(blocks.ops[i]);
        if (ahead)
            pass_on(pass->ctx, blocks.ops[i], ahead);
        tw_block_inline(pass->ctx, blocks.ops[i]);
    }
    pass->changes += blocks.n;
    return true;
}

const tw_pass tw_pass_lower_blocks = {
    .name = "lower-blocks",
    .summary = "replace blocks by their bodies over loop variables",
    .anchor = "loop.kernel",
    .run = run,
};
