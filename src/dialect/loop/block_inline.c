/* block_inline.c: a block becomes its body.
 *
 *     loop.block "sum" (%vi: spatial 64 = %io * 16 + %ii, %vk: reduce 8 = %k) where (63 - %io ...)
 * { init { loop.store %zero, %T[%vi] }
 *       ... %X[%vi, %vk] ...
 *     }
 * becomes
 *     loop.if (63 - %io * 16 - %ii) {
 *       loop.if (-%k) { loop.store %zero, %T[%io * 16 + %ii] }
 *       ... %X[%io * 16 + %ii, %k] ...
 *     } */
#include "dialect/loop/index_map.h"
#include "dialect/loop/loop.h"

#include "base/arena.h"

static tw_value **block_operands(tw_context *ctx, const tw_op *block)
{
    tw_value **operands = TW_NEW_ARRAY(tw_context_arena(ctx), tw_value *, block->n_operands);
    for (unsigned i = 0; i < block->n_operands; i++)
        operands[i] = tw_operand(block, i);
    return operands;
}

/* Replaces the region's arguments by the block's bindings. */
static void bind_arguments(tw_context *ctx, tw_op *block, tw_region *region)
{
    tw_attr bindings = tw_op_attr(block, "bindings");
    tw_value **operands = block_operands(ctx, block);
    for (unsigned i = 0; i < region->n_args; i++)
        tw_index_replace_value(ctx, region->args[i], bindings->u.map.exprs[i], operands,
                               block->n_operands);
}

/* A loop.if before the builder's place over operands of the block; its region to fill. */
static tw_region *guard(tw_builder *b, const tw_op *block, const tw_expr *where, size_t n)
{
    tw_op *branch =
        tw_build(b, &tw_loop_ops[TW_LOOP_IF], block_operands(b->ctx, block), block->n_operands,
                 NULL, 0, "where", tw_attr_map(b->ctx, block->n_operands, where, n), NULL);
    tw_index_compact(b->ctx, branch);
    return &branch->regions[0];
}

/* Moves the init region's operations to the builder's place, guarded by "all reduce variables are
 * 0" (they are never negative). */
static void place_init(tw_builder *b, tw_op *block)
{
    tw_region *init = &block->regions[0];
    if (!init->first)
        return;
    bind_arguments(b->ctx, block, init);
    tw_attr iters = tw_op_attr(block, "iters"), bindings = tw_op_attr(block, "bindings");
    tw_expr *first = TW_NEW_ARRAY(tw_context_arena(b->ctx), tw_expr, iters->u.array.n);
    size_t n = 0;
    for (size_t i = 0; i < iters->u.array.n; i++)
        if (tw_block_iter_reduces(block, i))
            first[n++] = tw_expr_mulc(b->ctx, bindings->u.map.exprs[i], -1);
    if (n)
        tw_region_splice(guard(b, block, first, n), NULL, init);
    else
        tw_region_splice(b->region, b->before, init);
}

void tw_block_inline(tw_context *ctx, tw_op *block)
{
    tw_builder b = tw_builder_before(ctx, block);
    tw_attr where = tw_op_attr(block, "where");
    if (where && where->u.map.n) {
        b.region = guard(&b, block, where->u.map.exprs, where->u.map.n);
        b.before = NULL;
    }
    place_init(&b, block);
    bind_arguments(ctx, block, &block->regions[1]);
    tw_region_splice(b.region, b.before, &block->regions[1]);
    tw_op_erase(block);
}
