/* flat_divisions.c: hoist-divisions: what is divided by a size that is known only at run time is
 * divided once, where the loop begins whose variable it is.
 *
 *     loop.for %i = 0 to n * m {
 *       loop.for %j = 0 to 9 { loop.if (…) { … %X[%i floordiv m, %j] … %X[%i floordiv m, %j + 1] …
 * } } becomes loop.for %i = 0 to n * m { %q = loop.index %i floordiv max(m, 1) loop.for %j = 0 to 9
 * { loop.if (…) { … %X[%q, %j] … %X[%q, %j + 1] … } }
 *
 * Divisions are slow, and what stands under conditions is not moved by the compiler behind. As the
 * size may be 0 where nothing would have been divided, it counts as 1 then. */
#include "lower/flat.h"

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "dialect/loop/index_map.h"
#include "dialect/loop/loop.h"

/* A division that has been made: `expr` over `operands`. */
typedef struct division {
    tw_value *operands[TW_MAX_EXPR_DIMS];
    unsigned n;
    tw_value *result;
    struct division *next; /* of the same expression, over other operands */
} division;

typedef struct hoister {
    tw_context *ctx;
    tw_map made; /* expression -> division */
    tw_op *op;   /* whose maps are rewritten */
    unsigned first, n;
    TW_VEC(tw_value *) operands; /* of its maps: those it had, then new ones */
    uint64_t changes;
} hoister;

static bool is_division(tw_expr e)
{
    return e->kind == TW_EXPR_FLOORDIV || e->kind == TW_EXPR_CEILDIV || e->kind == TW_EXPR_MOD;
}

static unsigned depth_of(const tw_region *region)
{
    unsigned depth = 0;
    for (; region; region = region->parent->region)
        depth++;
    return depth;
}

/* The innermost region that one of the values is the variable of; NULL when there are vectors or
 * results of operations among them. */
static tw_region *variables_region(tw_value *const *values, unsigned n)
{
    tw_region *found = NULL;
    unsigned most = 0;
    for (unsigned i = 0; i < n; i++) {
        if (!values[i]->region || values[i]->type->kind != TW_TYPE_SCALAR)
            return NULL;
        unsigned depth = depth_of(values[i]->region);
        if (depth > most) {
            most = depth;
            found = values[i]->region;
        }
    }
    return found;
}

/* The divisor is at least 1 in the expression given back. */
static tw_expr guarded(tw_context *ctx, tw_expr e)
{
    tw_expr one = tw_expr_const(ctx, 1);
    if (tw_expr_range(e->rhs, NULL, 0).lo >= 1)
        return e;
    return tw_expr_binary(ctx, e->kind, e->lhs, tw_expr_binary(ctx, TW_EXPR_MAX, e->rhs, one));
}

/* The value of a division of the operation's maps; NULL when it stays. */
static tw_value *hoist(hoister *h, tw_expr e)
{
    division key = {.n = 0};
    tw_expr dims[TW_MAX_EXPR_DIMS] = {0};
    for (unsigned i = 0; i < h->n; i++)
        if (tw_expr_uses_dim(e, i)) {
            dims[i] = tw_expr_dim(h->ctx, key.n);
            key.operands[key.n++] = tw_operand(h->op, h->first + i);
        }
    tw_region *region = variables_region(key.operands, key.n);
    if (!region || tw_expr_dim_count(e->rhs))
        return NULL;
    e = guarded(h->ctx, tw_expr_substitute(h->ctx, e, dims, h->n));
    if (!is_division(e))
        return NULL;
    division *known = tw_map_get_ptr(&h->made, e);
    for (division *d = known; d; d = d->next) {
        bool same = d->n == key.n;
        for (unsigned i = 0; same && i < key.n; i++)
            same = d->operands[i] == key.operands[i];
        if (same)
            return d->result;
    }
    tw_builder b = {h->ctx, region, region->first, h->op->loc};
    key.result = tw_index_materialize(&b, e, key.operands, key.n);
    key.next = known;
    division *kept = TW_NEW(tw_context_arena(h->ctx), division);
    *kept = key;
    tw_map_put_ptr(&h->made, e, kept);
    return key.result;
}

/* The expression with its divisions by sizes taken out. Expressions are shallow. */
static tw_expr rewrite(hoister *h, tw_expr e)
{
    if (!e->lhs || !tw_expr_dim_count(e))
        return e;
    bool fits = h->operands.len < TW_MAX_EXPR_DIMS;
    tw_value *value = fits && is_division(e) && !tw_expr_is_const(e->rhs) ? hoist(h, e) : NULL;
    if (!value)
        return tw_expr_binary(h->ctx, e->kind, rewrite(h, e->lhs), rewrite(h, e->rhs));
    unsigned i = 0;
    while (i < h->operands.len && h->operands.data[i] != value)
        i++;
    if (i == h->operands.len) {
        tw_vec_push(tw_context_arena(h->ctx), &h->operands, value);
        h->changes++;
    }
    return tw_expr_dim(h->ctx, i);
}

static void set_operands(hoister *h)
{
    tw_op *op = h->op;
    unsigned count = 0, behind = op->n_operands - h->first - h->n;
    tw_value **all =
        TW_NEW_ARRAY(tw_context_arena(h->ctx), tw_value *, h->first + h->operands.len + behind);
    for (unsigned i = 0; i < h->first; i++)
        all[count++] = tw_operand(op, i);
    for (size_t i = 0; i < h->operands.len; i++)
        all[count++] = h->operands.data[i];
    for (unsigned i = 0; i < behind; i++)
        all[count++] = tw_operand(op, h->first + h->n + i);
    tw_op_set_operands(op, all, count);
    tw_index_compact(h->ctx, op);
}

static bool visit(tw_op *op, void *data)
{
    hoister *h = data;
    tw_arena *arena = tw_context_arena(h->ctx);
    if (!tw_index_operands(op, &h->first, &h->n))
        return true;
    h->op = op;
    h->operands.len = 0;
    for (unsigned i = 0; i < h->n; i++)
        tw_vec_push(arena, &h->operands, tw_operand(op, h->first + i));
    const char *const *names = tw_index_map_names(op);
    tw_expr *exprs[2] = {NULL, NULL};
    for (unsigned m = 0; names[m]; m++) {
        tw_attr map = tw_op_attr(op, names[m]);
        exprs[m] = map ? TW_NEW_ARRAY(arena, tw_expr, map->u.map.n) : NULL;
        for (size_t i = 0; map && i < map->u.map.n; i++)
            exprs[m][i] = rewrite(h, map->u.map.exprs[i]);
    }
    if (h->operands.len == h->n)
        return true;
    for (unsigned m = 0; names[m]; m++)
        if (exprs[m])
            tw_op_set_attr(op, names[m],
                           tw_attr_map(h->ctx, (unsigned)h->operands.len, exprs[m],
                                       tw_op_attr(op, names[m])->u.map.n));
    set_operands(h);
    return true;
}

static bool run(tw_pass_run *pass)
{
    hoister h = {.ctx = pass->ctx, .made = tw_map_make(tw_context_arena(pass->ctx))};
    tw_region *body = &pass->root->regions[0];
    for (tw_op *op = body->first, *next; op; op = next) {
        next = op->next;
        tw_walk(op, visit, &h);
    }
    pass->changes += h.changes;
    return true;
}

const tw_pass tw_pass_hoist_divisions = {
    .name = "hoist-divisions",
    .summary = "divide by sizes where a loop begins, not in it",
    .anchor = "loop.kernel",
    .optional = true,
    .run = run,
};
