/* index_map.c: substitution of index values by expressions.
 *
 *   %v := d0 * 16 + d1 over (%i, %j)
 *   loop.load %X[%v + 1]            becomes  loop.load %X[%i * 16 + %j + 1] */
#include "dialect/loop/index_map.h"

#include <assert.h>

#include "base/arena.h"
#include "dialect/loop/loop.h"

bool tw_index_operands(const tw_op *op, unsigned *first, unsigned *n)
{
    tw_loop_access access;
    if (tw_loop_get_access(op, &access)) {
        *first = access.first_index;
        *n = access.n_index;
        return true;
    }
    switch (tw_loop_kind_of(op)) {
    case TW_LOOP_FOR:
    case TW_LOOP_BLOCK:
    case TW_LOOP_IF:
    case TW_LOOP_INDEX:
        *first = 0;
        *n = op->n_operands;
        return true;
    default:
        return false;
    }
}

const char *const *tw_index_map_names(const tw_op *op)
{
    static const char *const access[] = {"index", "where", NULL};
    static const char *const loop[] = {"bounds", NULL};
    static const char *const block[] = {"bindings", "where", NULL};
    static const char *const branch[] = {"where", NULL};
    static const char *const index[] = {"expr", NULL};
    static const char *const none[] = {NULL};
    switch (tw_loop_kind_of(op)) {
    case TW_LOOP_LOAD:
    case TW_LOOP_STORE:
        return access;
    case TW_LOOP_FOR:
        return loop;
    case TW_LOOP_BLOCK:
        return block;
    case TW_LOOP_IF:
        return branch;
    case TW_LOOP_INDEX:
        return index;
    default:
        return none;
    }
}

/* The operand list under construction: distinct values. */
typedef struct operand_list {
    tw_value *values[TW_MAX_EXPR_DIMS];
    unsigned n;
} operand_list;

static tw_expr dim_of(tw_context *ctx, operand_list *list, tw_value *value)
{
    unsigned i = 0;
    while (i < list->n && list->values[i] != value)
        i++;
    if (i == list->n) {
        assert(list->n < TW_MAX_EXPR_DIMS);
        list->values[list->n++] = value;
    }
    return tw_expr_dim(ctx, i);
}

/* The expression that stands for one old operand. */
static tw_expr replacement(tw_context *ctx, operand_list *list, tw_value *value,
                           const tw_index_subst *substs, size_t n)
{
    for (size_t s = 0; s < n; s++) {
        if (substs[s].from != value)
            continue;
        tw_expr dims[TW_MAX_EXPR_DIMS] = {0};
        for (unsigned i = 0; i < substs[s].n_operands; i++)
            if (tw_expr_uses_dim(substs[s].to, i))
                dims[i] = dim_of(ctx, list, substs[s].operands[i]);
        return tw_expr_substitute(ctx, substs[s].to, dims, substs[s].n_operands);
    }
    return dim_of(ctx, list, value);
}

static tw_attr substitute_map(tw_context *ctx, tw_attr map, const tw_expr *dims, unsigned n,
                              unsigned new_dims)
{
    tw_expr *exprs = TW_NEW_ARRAY(tw_context_arena(ctx), tw_expr, map->u.map.n);
    for (size_t i = 0; i < map->u.map.n; i++)
        exprs[i] = tw_expr_substitute(ctx, map->u.map.exprs[i], dims, n);
    return tw_attr_map(ctx, new_dims, exprs, map->u.map.n);
}

static bool map_uses(const tw_op *op, unsigned dim)
{
    for (const char *const *name = tw_index_map_names(op); *name; name++) {
        tw_attr map = tw_op_attr(op, *name);
        for (size_t i = 0; map && i < map->u.map.n; i++)
            if (tw_expr_uses_dim(map->u.map.exprs[i], dim))
                return true;
    }
    return false;
}

void tw_index_substitute(tw_context *ctx, tw_op *op, const tw_index_subst *substs, size_t n_substs)
{
    unsigned first, n;
    if (!tw_index_operands(op, &first, &n))
        return;
    operand_list list = {.n = 0};
    tw_expr dims[TW_MAX_EXPR_DIMS] = {0};
    for (unsigned i = 0; i < n; i++)
        if (map_uses(op, i))
            dims[i] = replacement(ctx, &list, tw_operand(op, first + i), substs, n_substs);
    for (const char *const *name = tw_index_map_names(op); *name; name++) {
        tw_attr map = tw_op_attr(op, *name);
        if (map)
            tw_op_set_attr(op, *name, substitute_map(ctx, map, dims, n, list.n));
    }
    tw_value **operands =
        TW_NEW_ARRAY(tw_context_arena(ctx), tw_value *, op->n_operands - n + list.n);
    unsigned count = 0;
    for (unsigned i = 0; i < first; i++)
        operands[count++] = tw_operand(op, i);
    for (unsigned i = 0; i < list.n; i++)
        operands[count++] = list.values[i];
    for (unsigned i = first + n; i < op->n_operands; i++)
        operands[count++] = tw_operand(op, i);
    tw_op_set_operands(op, operands, count);
}

void tw_index_compact(tw_context *ctx, tw_op *op)
{
    tw_index_substitute(ctx, op, NULL, 0);
}

tw_value *tw_index_materialize(tw_builder *b, tw_expr e, tw_value *const *operands, unsigned n)
{
    if (e->kind == TW_EXPR_DIM)
        return operands[e->value];
    tw_type type = tw_type_scalar(b->ctx, TW_INDEX);
    for (unsigned i = 0; i < n; i++)
        if (operands[i]->type->kind == TW_TYPE_VECTOR && tw_expr_uses_dim(e, i))
            type = operands[i]->type;
    tw_op *op = tw_build(b, &tw_loop_ops[TW_LOOP_INDEX], operands, n, &type, 1, "expr",
                         tw_attr_map(b->ctx, n, &e, 1), NULL);
    tw_index_compact(b->ctx, op);
    return tw_result(op, 0);
}

void tw_index_replace_value(tw_context *ctx, tw_value *from, tw_expr to, tw_value *const *operands,
                            unsigned n)
{
    tw_index_subst subst = {from, to, operands, n};
    while (from->uses) {
        tw_op *user = from->uses->user;
        unsigned index = from->uses->index, first, count;
        if (tw_index_operands(user, &first, &count) && index >= first && index < first + count) {
            tw_index_substitute(ctx, user, &subst, 1);
        } else {
            tw_builder b = tw_builder_before(ctx, user);
            tw_op_set_operand(user, index, tw_index_materialize(&b, to, operands, n));
        }
    }
}

void tw_access_add_where(tw_context *ctx, tw_op *op, tw_attr conditions, tw_value *const *operands,
                         tw_value *other)
{
    tw_loop_access access;
    bool is_access = tw_loop_get_access(op, &access);
    assert(is_access);
    (void)is_access;
    tw_arena *arena = tw_context_arena(ctx);
    unsigned added = conditions->u.map.n_dims, n = 0;
    tw_value **all = TW_NEW_ARRAY(arena, tw_value *, op->n_operands + added + 1);
    for (unsigned i = 0; i < access.first_index + access.n_index; i++)
        all[n++] = tw_operand(op, i);
    for (unsigned i = 0; i < added; i++)
        all[n++] = operands[i];
    if (!access.value)
        all[n++] = access.other ? access.other : other;

    size_t had = access.where ? access.where->u.map.n : 0, count = had + conditions->u.map.n;
    tw_expr *where = TW_NEW_ARRAY(arena, tw_expr, count);
    for (size_t i = 0; i < had; i++)
        where[i] = access.where->u.map.exprs[i];
    tw_expr *shifted = TW_NEW_ARRAY(arena, tw_expr, added);
    for (unsigned i = 0; i < added; i++)
        shifted[i] = tw_expr_dim(ctx, access.n_index + i);
    for (size_t i = 0; i < conditions->u.map.n; i++)
        where[had + i] = tw_expr_substitute(ctx, conditions->u.map.exprs[i], shifted, added);

    unsigned dims = access.n_index + added;
    tw_op_set_attr(op, "index",
                   tw_attr_map(ctx, dims, access.index->u.map.exprs, access.index->u.map.n));
    tw_op_set_attr(op, "where", tw_attr_map(ctx, dims, where, count));
    tw_op_set_operands(op, all, n);
    tw_index_compact(ctx, op);
}
