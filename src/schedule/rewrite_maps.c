/* rewrite_maps.c: replacing loop variables in all maps that use them, and simplifying what results.
 *
 *     %v = %i floordiv 4         with %i := %io * 4 + %ii, %ii in 0..3
 *     %v = %io */
#include "base/arena.h"
#include "base/vec.h"
#include "schedule/nest.h"

tw_expr tw_values_dim(tw_context *ctx, tw_values *values, tw_value *value)
{
    for (unsigned i = 0; i < values->n; i++)
        if (values->v[i] == value)
            return tw_expr_dim(ctx, i);
    if (values->n == TW_MAX_EXPR_DIMS)
        return tw_expr_invalid(ctx);
    values->v[values->n] = value;
    return tw_expr_dim(ctx, values->n++);
}

/* Whether condition i follows from another one that stays: it is never smaller. */
static bool is_implied(tw_context *ctx, const tw_expr *conditions, size_t n, size_t i,
                       const tw_range *ranges, unsigned n_ranges)
{
    for (size_t k = 0; k < n; k++) {
        tw_expr surplus = tw_expr_sub(ctx, conditions[i], conditions[k]);
        if (k != i && tw_expr_at_least(ctx, surplus, 0, ranges, n_ranges))
            return true;
    }
    return false;
}

/* Leaves out conditions that others imply; returns how many are left. */
static size_t drop_implied(tw_context *ctx, tw_expr *conditions, size_t n, const tw_range *ranges,
                           unsigned n_ranges)
{
    for (size_t i = 0; i < n;) {
        if (!is_implied(ctx, conditions, n, i, ranges, n_ranges)) {
            i++;
            continue;
        }
        n--;
        for (size_t k = i; k < n; k++)
            conditions[k] = conditions[k + 1];
    }
    return n;
}

/* Drops the value that a load gives where its (now empty) mask does not hold. */
static void drop_other(tw_context *ctx, tw_op *load)
{
    tw_value **operands = TW_NEW_ARRAY(tw_context_arena(ctx), tw_value *, load->n_operands);
    unsigned n = load->n_operands - 1;
    for (unsigned i = 0; i < n; i++)
        operands[i] = tw_operand(load, i);
    tw_op_set_operands(load, operands, n);
}

void tw_simplify_maps(tw_context *ctx, tw_op *op)
{
    tw_range ranges[TW_MAX_EXPR_DIMS];
    unsigned n = tw_operand_ranges(ctx, op, ranges);
    for (const char *const *name = tw_index_map_names(op); *name; name++) {
        tw_attr map = tw_op_attr(op, *name);
        if (!map)
            continue;
        /* A vector load may have its lanes from the mask alone. */
        bool vector = op->n_results && op->results[0].type->kind == TW_TYPE_VECTOR;
        bool mask = (*name)[0] == 'w' && !tw_is_loop(op, TW_LOOP_IF) && !vector;
        tw_expr *exprs = TW_NEW_ARRAY(tw_context_arena(ctx), tw_expr, map->u.map.n);
        size_t kept = 0;
        for (size_t i = 0; i < map->u.map.n; i++) {
            tw_expr e = tw_expr_simplify(ctx, map->u.map.exprs[i], ranges, n);
            if (!mask || !tw_expr_at_least(ctx, e, 0, ranges, n))
                exprs[kept++] = e;
        }
        if (mask)
            kept = drop_implied(ctx, exprs, kept, ranges, n);
        bool gone = mask && kept == 0;
        tw_op_set_attr(op, *name, gone ? NULL : tw_attr_map(ctx, map->u.map.n_dims, exprs, kept));
        if (gone && tw_is_loop(op, TW_LOOP_LOAD))
            drop_other(ctx, op);
    }
    tw_index_compact(ctx, op);
}

/* Another use of `from` than by the maps of its user: a value is made in front of the user. */
static bool is_map_operand(const tw_use *use)
{
    unsigned first, n;
    return tw_index_operands(use->user, &first, &n) && use->index >= first &&
           use->index < first + n;
}

void tw_replace_vars(tw_context *ctx, const tw_index_subst *by, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        while (by[i].from->uses) {
            tw_use *use = by[i].from->uses;
            tw_op *user = use->user;
            if (is_map_operand(use)) {
                tw_index_substitute(ctx, user, by, n);
                tw_simplify_maps(ctx, user);
                continue;
            }
            tw_builder b = tw_builder_before(ctx, user);
            tw_op_set_operand(user, use->index,
                              tw_index_materialize(&b, by[i].to, by[i].operands, by[i].n_operands));
        }
}

void tw_block_add_where(tw_context *ctx, tw_op *block, tw_expr condition, tw_value *const *operands,
                        unsigned n_operands)
{
    tw_arena *arena = tw_context_arena(ctx);
    unsigned n = block->n_operands;
    tw_value **all = TW_NEW_ARRAY(arena, tw_value *, n + n_operands);
    tw_expr shifted[TW_MAX_EXPR_DIMS];
    for (unsigned i = 0; i < n; i++)
        all[i] = tw_operand(block, i);
    for (unsigned i = 0; i < n_operands; i++) {
        unsigned at = 0;
        while (at < n && all[at] != operands[i])
            at++;
        all[at] = operands[i];
        n += at == n;
        shifted[i] = tw_expr_dim(ctx, at);
    }
    condition = tw_expr_substitute(ctx, condition, shifted, n_operands);

    tw_attr old = tw_op_attr(block, "where"), bindings = tw_op_attr(block, "bindings");
    size_t had = old ? old->u.map.n : 0;
    tw_expr *where = TW_NEW_ARRAY(arena, tw_expr, had + 1);
    for (size_t i = 0; i < had; i++) {
        where[i] = old->u.map.exprs[i];
        if (where[i] == condition)
            return;
    }
    where[had] = condition;
    tw_op_set_attr(block, "bindings",
                   tw_attr_map(ctx, n, bindings->u.map.exprs, bindings->u.map.n));
    tw_op_set_attr(block, "where", tw_attr_map(ctx, n, where, had + 1));
    tw_op_set_operands(block, all, n);
    tw_simplify_maps(ctx, block);
}
