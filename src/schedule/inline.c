/* inline.c: copying bodies of blocks; see inline.h. */
#include "schedule/inline.h"

typedef struct rebind {
    tw_context *ctx;
    tw_index_subst substs[TW_MAX_ITERS];
    unsigned n;
} rebind;

/* Puts the given expressions in the place of the source block's iteration variables. */
static bool rebind_op(tw_op *op, void *data)
{
    rebind *r = data;
    unsigned first = 0, n = 0;
    bool maps = tw_index_operands(op, &first, &n);
    if (maps) {
        tw_index_substitute(r->ctx, op, r->substs, r->n);
        tw_index_operands(op, &first, &n);
        tw_simplify_maps(r->ctx, op);
    }
    for (unsigned i = 0; i < op->n_operands; i++)
        for (unsigned k = 0; k < r->n; k++)
            if (tw_operand(op, i) == r->substs[k].from) {
                tw_builder b = tw_builder_before(r->ctx, op);
                const tw_index_subst *s = &r->substs[k];
                tw_op_set_operand(op, i,
                                  tw_index_materialize(&b, s->to, s->operands, s->n_operands));
            }
    return true;
}

tw_op *tw_copy_body_op(tw_context *ctx, tw_cloner *cloner, const tw_op *block, const tw_op *op,
                       const tw_iter_values *iters, tw_op *place)
{
    tw_op *copy = tw_op_clone(cloner, op);
    tw_op_insert(copy, place->region, place);
    rebind r = {.ctx = ctx, .n = block->regions[1].n_args};
    for (unsigned i = 0; i < r.n; i++)
        r.substs[i] = (tw_index_subst){block->regions[1].args[i], iters->exprs[i], iters->operands,
                                       iters->n_operands};
    tw_walk(copy, rebind_op, &r);
    return copy;
}

bool tw_axes_of_iters(const tw_block_info *block, const tw_block_access *access, tw_axis_map *out)
{
    for (unsigned i = 0; i < block->n_iters; i++)
        out->axis[i] = -1;
    if (!access->exact)
        return false;
    bool all = true;
    for (unsigned axis = 0; axis < access->rank; axis++) {
        int64_t coefs[TW_MAX_ITERS], constant;
        if (!tw_expr_linear(access->iters[axis], coefs, block->n_iters, &constant)) {
            all = false;
            continue;
        }
        int iter = -1;
        unsigned used = 0;
        for (unsigned i = 0; i < block->n_iters; i++)
            if (coefs[i] != 0) {
                used++;
                iter = (int)i;
            }
        if (used > 1 || (used == 1 && coefs[iter] != 1)) {
            all = false;
        } else if (used == 1) {
            all &= out->axis[iter] < 0;
            if (out->axis[iter] < 0) {
                out->axis[iter] = (int)axis;
                out->shift[iter] = constant;
            }
        }
    }
    return all;
}

bool tw_axes_give_all(const tw_block_info *block, const tw_axis_map *map)
{
    for (unsigned i = 0; i < block->n_iters; i++)
        if (map->axis[i] < 0 && block->iter_ranges[i].lo < block->iter_ranges[i].hi)
            return false;
    return true;
}

typedef struct outside {
    tw_op *block, *place;
} outside;

static bool operands_dominate(tw_op *op, void *data)
{
    const outside *o = data;
    for (unsigned i = 0; op != o->block && i < op->n_operands; i++) {
        tw_value *value = tw_operand(op, i);
        const tw_op *def = value->op ? value->op : value->region->parent;
        if (!tw_op_is_ancestor(o->block, def) && !tw_value_dominates(value, o->place))
            return false;
    }
    return true;
}

bool tw_block_values_dominate(tw_op *block, tw_op *place)
{
    outside o = {block, place};
    return tw_walk(block, operands_dominate, &o);
}

void tw_erase_block(tw_op *block)
{
    tw_op *loop = block->region->parent;
    tw_op_erase(block);
    tw_erase_empty_loops(loop);
}
