/* prim_decompose.c: decompose_reduction: a reduction's init becomes a block of its own.
 *
 *     for %i { for %k { block "sum" (%vi = %i, %vk: reduce = %k) { init { %T[%vi] = 0 } … } } }
 * at %k:
 *     for %i {
 *       block "sum_init" (%vi = %i) { %T[%vi] = 0 }
 *       for %k { block "sum" (%vi = %i, %vk: reduce = %k) { … } } } */
#include "ir/expr_impl.h"
#include "schedule/schedule_impl.h"

#include <string.h>

typedef struct plan {
    tw_block_info block;
    unsigned level; /* of the loop in the block's nest */
} plan;

/* The sum without its terms that only the first `outer` loops vary. */
static tw_expr within(tw_context *ctx, tw_expr e, unsigned outer, unsigned n_loops)
{
    tw_sum all, inner;
    tw_sum_init(&all);
    tw_sum_init(&inner);
    tw_sum_add(&all, e, 1);
    for (size_t i = 0; i < all.n; i++) {
        bool uses_outer = false, uses_inner = false;
        for (unsigned d = 0; d < n_loops; d++)
            *(d < outer ? &uses_outer : &uses_inner) |= tw_expr_uses_dim(all.terms[i].key, d);
        if (uses_inner || !uses_outer)
            tw_sum_add_term(&inner, all.terms[i].key, all.terms[i].coef);
    }
    return tw_sum_build(ctx, &inner);
}

/* Whether each store of the init tells loop `level` apart: else repeated init would be lost. The
 * first `outer` loops stay around the init, so it is about one iteration of them, any. */
static bool told_apart(tw_context *ctx, const tw_block_info *b, unsigned outer, unsigned level)
{
    tw_expr known[TW_MAX_RANK];
    for (unsigned i = 0; i < b->n_accesses; i++) {
        const tw_block_access *a = &b->accesses[i];
        if (!a->store || !a->init)
            continue;
        for (unsigned k = 0; k < a->rank; k++)
            known[k] = a->loops[k] ? within(ctx, a->loops[k], outer, b->nest.n) : NULL;
        if (!tw_determines(ctx, known, a->rank, b->nest.ranges, b->nest.n, level))
            return false;
    }
    return true;
}

static bool uses_reduce_loop(const tw_block_info *b, const tw_value *value)
{
    int at = tw_nest_find(&b->nest, value);
    return at >= 0 && tw_loop_is_reduce(b, (unsigned)at);
}

static bool check_loops(const tw_step *step, const plan *p)
{
    const tw_block_info *b = &p->block;
    for (unsigned i = 0; i < b->nest.n; i++) {
        const char *name = tw_loop_name(b->nest.loops[i]);
        bool reduce = tw_loop_is_reduce(b, i);
        if (reduce && i < p->level)
            return tw_step_refuse(step, "loop %%%s of the reduction is outside of loop %%%s", name,
                                  tw_loop_name(step->operands[1]));
        if (i < p->level)
            continue;
        if (reduce && tw_loop_is_spatial(b, i))
            return tw_step_refuse(step, "loop %%%s runs through results and reduction at once",
                                  name);
        if (!reduce && !told_apart(step->ctx, b, p->level, i))
            return tw_step_refuse(step, "block \"%s\" starts again in each iteration of loop %%%s",
                                  b->name, name);
        for (unsigned k = 0; !reduce && k < b->nest.loops[i]->n_operands; k++)
            if (uses_reduce_loop(b, tw_operand(b->nest.loops[i], k)))
                return tw_step_refuse(step, "the bounds of loop %%%s depend on the reduction",
                                      name);
    }
    return true;
}

/* A condition that has reduction loops only masks the reduction; a mixed one cannot be cut apart.
 */
static bool check_where(const tw_step *step, const plan *p)
{
    const tw_block_info *b = &p->block;
    tw_attr where = tw_op_attr(b->op, "where");
    for (size_t i = 0; where && i < where->u.map.n; i++) {
        bool reduce = false, other = false;
        for (unsigned k = 0; k < b->op->n_operands; k++)
            if (tw_expr_uses_dim(where->u.map.exprs[i], k)) {
                bool r = uses_reduce_loop(b, tw_operand(b->op, k));
                reduce |= r;
                other |= !r;
            }
        if (reduce && other)
            return tw_step_refuse(step, "a mask of block \"%s\" mixes results and reduction",
                                  b->name);
    }
    return true;
}

/* The results must be there in front of the loop, and nobody else's to write. */
static bool check_results(const tw_step *step, const plan *p)
{
    for (unsigned i = 0; tw_block_written(&p->block, i); i++) {
        tw_value *buffer = tw_block_written(&p->block, i);
        tw_buffer_uses uses;
        if (tw_is_private(buffer, step->operands[1]))
            return tw_step_refuse(step, "%%%s is allocated inside of loop %%%s",
                                  tw_buffer_name(buffer), tw_loop_name(step->operands[1]));
        bool known = tw_buffer_uses_of(step->ctx, buffer, &uses);
        for (unsigned k = 0; known && k < uses.n_stores; k++)
            known = tw_op_is_ancestor(p->block.op, uses.stores[k]) ||
                    !tw_op_is_ancestor(step->operands[1], uses.stores[k]);
        if (!known)
            return tw_step_refuse(step, "%%%s is written by other blocks in loop %%%s",
                                  tw_buffer_name(buffer), tw_loop_name(step->operands[1]));
    }
    return true;
}

static bool make_plan(const tw_step *step, plan *p)
{
    if (!tw_step_block(step, step->operands[0], &p->block))
        return false;
    const tw_block_info *b = &p->block;
    if (!b->has_reduce || !b->has_init)
        return tw_step_refuse(step, "block \"%s\" has no init and reduction to take apart",
                              b->name);
    while (p->level < b->nest.n && b->nest.loops[p->level] != step->operands[1])
        p->level++;
    if (p->level == b->nest.n)
        return tw_step_refuse(step, "loop %%%s is not around block \"%s\"",
                              tw_loop_name(step->operands[1]), b->name);
    return check_loops(step, p) && check_where(step, p) && check_results(step, p);
}

/* ---- Carrying out -------------------------------------------------------------------- */

/* Loops for the init like those of the block from the level on, without the reduction's; variables
 * are mapped to those of the copies. */
static tw_builder copy_loops(const tw_step *step, const plan *p, tw_cloner *cloner)
{
    const tw_block_info *b = &p->block;
    tw_builder at = tw_builder_before(step->ctx, step->operands[1]);
    for (unsigned i = p->level; i < b->nest.n; i++) {
        const tw_op *loop = b->nest.loops[i];
        if (tw_loop_is_reduce(b, i))
            continue;
        tw_value *operands[TW_MAX_EXPR_DIMS];
        for (unsigned k = 0; k < loop->n_operands; k++)
            operands[k] = tw_cloner_lookup(cloner, tw_operand(loop, k));
        const char *kind = tw_loop_for_kind(loop);
        tw_op *copy =
            tw_loop_for(&at, tw_loop_lo(loop), tw_loop_hi(loop), operands, loop->n_operands,
                        strcmp(kind, "parallel") ? kind : NULL, tw_loop_name(loop));
        tw_cloner_map(cloner, tw_loop_var(loop), tw_loop_var(copy));
        at = tw_builder_at_end(step->ctx, &copy->regions[0], loop->loc);
    }
    return at;
}

/* The init block with the spatial variables of the reduction. */
static tw_op *make_init_block(const tw_step *step, const plan *p, tw_builder *at, tw_cloner *cloner)
{
    tw_context *ctx = step->ctx;
    const tw_block_info *b = &p->block;
    tw_attr bindings = tw_op_attr(b->op, "bindings"), where = tw_op_attr(b->op, "where");
    tw_value *operands[TW_MAX_EXPR_DIMS];
    tw_loop_iter iters[TW_MAX_ITERS];
    unsigned n = 0;
    for (unsigned i = 0; i < b->op->n_operands; i++)
        operands[i] = tw_cloner_lookup(cloner, tw_operand(b->op, i));
    for (unsigned i = 0; i < b->n_iters; i++)
        if (!b->reduce[i])
            iters[n++] = (tw_loop_iter){b->op->regions[0].args[i]->name, false, b->extents[i],
                                        bindings->u.map.exprs[i]};
    tw_op *block = tw_loop_block(at, b->name, iters, n, operands, b->op->n_operands);
    tw_block_inherit(block, b->op);
    tw_expr *kept = TW_NEW_ARRAY(tw_context_arena(ctx), tw_expr, where ? where->u.map.n : 0);
    size_t n_kept = 0;
    for (size_t i = 0; where && i < where->u.map.n; i++) {
        bool reduce = false;
        for (unsigned k = 0; k < b->op->n_operands; k++)
            reduce |= tw_expr_uses_dim(where->u.map.exprs[i], k) &&
                      uses_reduce_loop(b, tw_operand(b->op, k));
        if (!reduce)
            kept[n_kept++] = where->u.map.exprs[i];
    }
    if (n_kept)
        tw_op_set_attr(block, "where", tw_attr_map(ctx, b->op->n_operands, kept, n_kept));
    tw_index_compact(ctx, block);
    return block;
}

bool tw_do_decompose_reduction(const tw_step *step)
{
    plan p = {.level = 0};
    if (!make_plan(step, &p))
        return false;
    tw_context *ctx = step->ctx;
    tw_op *old = p.block.op;
    tw_cloner *cloner = tw_cloner_create(ctx);
    tw_builder at = copy_loops(step, &p, cloner);
    tw_op *block = make_init_block(step, &p, &at, cloner);
    unsigned n = 0;
    for (unsigned i = 0; i < p.block.n_iters; i++) {
        tw_value *arg = old->regions[0].args[i];
        if (p.block.reduce[i])
            tw_index_replace_value(ctx, arg, tw_expr_const(ctx, 0), NULL, 0);
        else if (arg->uses)
            tw_value_replace_all(arg, block->regions[1].args[n]);
        n += !p.block.reduce[i];
    }
    tw_region_splice(&block->regions[1], NULL, &old->regions[0]);
    tw_step_name_block(step, block,
                       tw_arena_printf(tw_context_arena(ctx), "%s_init", p.block.name));
    step->results[0] = block;
    return true;
}
