/* flat_simplify.c: simplify-loops: what the ranges of the loop variables decide is decided here.
 *
 * Outer operations come first, so that what is learnt about a loop serves all inside:
 *   - index expressions are simplified within the bounds of their operands;
 *   - conditions that always hold, or that a loop.if around implies, are dropped; operations under
 *     conditions that never hold, or that it excludes, disappear (a masked load becomes its other
 *     value);
 *   - a loop of one trip becomes its body, one of no trip nothing;
 *   - a loop.index vanishes into the expressions that use it;
 *   - what computes or loads for nobody goes, and so do loops and conditions around nothing. */
#include "lower/flat.h"

#include "base/arena.h"
#include "base/vec.h"
#include "dialect/loop/index_map.h"
#include "dialect/loop/loop.h"
#include "dialect/loop/loop_ranges.h"

#include <string.h>

typedef enum { SOMETIMES, ALWAYS, NEVER } truth;

/* The index operands of op with their bounds. */
typedef struct operand_info {
    unsigned first, n;
    tw_range ranges[TW_MAX_EXPR_DIMS];
} operand_info;

static bool get_operands(tw_context *ctx, const tw_op *op, operand_info *info)
{
    if (!tw_index_operands(op, &info->first, &info->n) || info->n > TW_MAX_EXPR_DIMS)
        return false;
    tw_operand_ranges(ctx, op, info->ranges);
    return true;
}

static bool at_least(tw_context *ctx, tw_expr e, int64_t least, const operand_info *info)
{
    return tw_expr_at_least(ctx, e, least, info->ranges, info->n);
}

/* Condition i of a loop.if around op over op's operands; invalid when it uses others. */
static tw_expr guard_condition(tw_context *ctx, const tw_op *guard, size_t i, const tw_op *op,
                               const operand_info *info)
{
    tw_expr dims[TW_MAX_EXPR_DIMS] = {0};
    for (unsigned g = 0; g < guard->n_operands; g++) {
        dims[g] = tw_expr_invalid(ctx);
        for (unsigned k = 0; k < info->n; k++)
            if (tw_operand(op, info->first + k) == tw_operand(guard, g))
                dims[g] = tw_expr_dim(ctx, k);
    }
    return tw_expr_substitute(ctx, tw_op_attr(guard, "where")->u.map.exprs[i], dims,
                              guard->n_operands);
}

/* What the loop.ifs around op say about `condition` (>= 0, over op's index operands): it holds when
 * it is at least one that holds, and does not when it is at most the only one of an if whose else
 * op stands in. */
static truth decided_by_guards(tw_context *ctx, const tw_op *op, const operand_info *info,
                               tw_expr condition)
{
    for (tw_region *r = op->region; r && r->parent; r = r->parent->region) {
        const tw_op *guard = r->parent;
        if (!tw_is_loop(guard, TW_LOOP_IF))
            continue;
        size_t n = tw_op_attr(guard, "where")->u.map.n;
        for (size_t i = 0; i < n && (r->index == 0 || n == 1); i++) {
            tw_expr known = guard_condition(ctx, guard, i, op, info);
            tw_expr surplus = tw_expr_sub(ctx, condition, known);
            if (surplus->kind == TW_EXPR_INVALID)
                continue;
            if (r->index == 0 ? at_least(ctx, surplus, 0, info)
                              : at_least(ctx, tw_expr_mulc(ctx, surplus, -1), 0, info))
                return r->index == 0 ? ALWAYS : NEVER;
        }
    }
    return SOMETIMES;
}

/* Drops the conditions of `where` that hold; NEVER when one cannot hold. */
static truth reduce_conditions(tw_context *ctx, tw_op *op, const operand_info *info)
{
    tw_attr where = tw_op_attr(op, "where");
    if (!where)
        return ALWAYS;
    tw_expr *kept = TW_NEW_ARRAY(tw_context_arena(ctx), tw_expr, where->u.map.n);
    size_t n = 0;
    for (size_t i = 0; i < where->u.map.n; i++) {
        tw_expr e = tw_expr_simplify(ctx, where->u.map.exprs[i], info->ranges, info->n);
        truth t = at_least(ctx, tw_expr_mulc(ctx, e, -1), 1, info) ? NEVER
                  : at_least(ctx, e, 0, info)                      ? ALWAYS
                                              : decided_by_guards(ctx, op, info, e);
        if (t == NEVER)
            return NEVER;
        if (t == SOMETIMES)
            kept[n++] = e;
    }
    if (!n)
        return ALWAYS;
    tw_op_set_attr(op, "where", tw_attr_map(ctx, info->n, kept, n));
    return SOMETIMES;
}

static void simplify_map(tw_context *ctx, tw_op *op, const char *name, const operand_info *info)
{
    tw_attr map = tw_op_attr(op, name);
    tw_expr *exprs = TW_NEW_ARRAY(tw_context_arena(ctx), tw_expr, map->u.map.n);
    for (size_t i = 0; i < map->u.map.n; i++)
        exprs[i] = tw_expr_simplify(ctx, map->u.map.exprs[i], info->ranges, info->n);
    tw_op_set_attr(op, name, tw_attr_map(ctx, info->n, exprs, map->u.map.n));
}

static void drop_other(tw_op *op)
{
    tw_value *operands[TW_MAX_EXPR_DIMS + 2];
    for (unsigned i = 0; i + 1 < op->n_operands; i++)
        operands[i] = tw_operand(op, i);
    tw_op_set_operands(op, operands, op->n_operands - 1);
}

static bool is_vector(const tw_value *value)
{
    return value->type->kind == TW_TYPE_VECTOR;
}

/* Whether one of the maps uses a vector of indices. */
static bool uses_lanes(const tw_op *op, const operand_info *info)
{
    for (unsigned i = 0; i < info->n; i++) {
        if (!is_vector(tw_operand(op, info->first + i)))
            continue;
        for (const char *const *name = tw_index_map_names(op); *name; name++) {
            tw_attr map = tw_op_attr(op, *name);
            for (size_t k = 0; map && k < map->u.map.n; k++)
                if (tw_expr_uses_dim(map->u.map.exprs[k], i))
                    return true;
        }
    }
    return false;
}

/* The scalar that all lanes of the value are, made before the builder's place; NULL when it is not
 * known to be one. */
static tw_value *scalar_of(tw_builder *b, tw_value *value)
{
    if (!value->op)
        return NULL;
    if (tw_is_loop(value->op, TW_LOOP_BROADCAST))
        return tw_operand(value->op, 0);
    if (!tw_is_loop(value->op, TW_LOOP_CONST))
        return NULL;
    tw_type type = tw_type_scalar(b->ctx, value->type->elem);
    return tw_result(tw_build(b, &tw_loop_ops[TW_LOOP_CONST], NULL, 0, &type, 1, "value",
                              tw_op_attr(value->op, "value"), NULL),
                     0);
}

/* A load of one element into all lanes loads it once; false when it cannot. */
static bool load_once(tw_context *ctx, tw_op *op, const operand_info *info)
{
    tw_value *operands[TW_MAX_EXPR_DIMS], *other = NULL;
    tw_attr index = tw_op_attr(op, "index"), where = tw_op_attr(op, "where");
    tw_builder b = tw_builder_before(ctx, op);
    if (where && !(other = scalar_of(&b, tw_operand(op, op->n_operands - 1))))
        return false;
    /* No map uses the vectors among the operands: anything may stand in their places. */
    tw_value *none = info->n ? tw_loop_const_int(&b, tw_type_scalar(ctx, TW_INDEX), 0) : NULL;
    for (unsigned i = 0; i < info->n; i++) {
        tw_value *operand = tw_operand(op, info->first + i);
        operands[i] = is_vector(operand) ? none : operand;
    }
    tw_value *value =
        tw_loop_load(&b, tw_operand(op, 0), index->u.map.exprs, operands, info->n,
                     where ? where->u.map.exprs : NULL, where ? where->u.map.n : 0, other);
    tw_index_compact(ctx, value->op);
    if (none && !none->uses)
        tw_op_erase(none->op);
    value = tw_loop_op(&b, TW_LOOP_BROADCAST, &value, 1, op->results[0].type);
    tw_value_set_name(value, op->results[0].name);
    tw_value_replace_all(tw_result(op, 0), value);
    tw_op_erase(op);
    return true;
}

static void simplify_load(tw_context *ctx, tw_op *op, const operand_info *info)
{
    tw_attr index = tw_op_attr(op, "index"), where = tw_op_attr(op, "where");
    truth t = reduce_conditions(ctx, op, info);
    if (t == NEVER) {
        tw_value_replace_all(tw_result(op, 0), tw_operand(op, op->n_operands - 1));
        tw_op_erase(op);
        return;
    }
    if (t == ALWAYS && where) {
        tw_op_set_attr(op, "where", NULL);
        drop_other(op);
    }
    simplify_map(ctx, op, "index", info);
    if (is_vector(tw_result(op, 0)) && !uses_lanes(op, info)) {
        if (load_once(ctx, op, info))
            return;
        tw_op_set_attr(op, "index", index); /* something has to hold the lanes */
        tw_op_set_attr(op, "where", where);
    }
    tw_index_compact(ctx, op);
}

static void simplify_store(tw_context *ctx, tw_op *op, const operand_info *info)
{
    tw_attr index = tw_op_attr(op, "index"), where = tw_op_attr(op, "where");
    truth t = reduce_conditions(ctx, op, info);
    if (t == NEVER) {
        tw_op_erase(op);
        return;
    }
    if (t == ALWAYS)
        tw_op_set_attr(op, "where", NULL);
    simplify_map(ctx, op, "index", info);
    if (is_vector(tw_operand(op, 0)) && !uses_lanes(op, info)) {
        tw_op_set_attr(op, "index", index);
        tw_op_set_attr(op, "where", where);
    }
    tw_index_compact(ctx, op);
}

static void simplify_if(tw_context *ctx, tw_op *op, const operand_info *info)
{
    truth t = reduce_conditions(ctx, op, info);
    if (t == SOMETIMES) {
        tw_index_compact(ctx, op);
        return;
    }
    tw_region_splice(op->region, op, &op->regions[t == ALWAYS ? 0 : 1]);
    tw_op_erase(op);
}

static tw_value **operands_of(tw_context *ctx, const tw_op *op)
{
    tw_value **operands = TW_NEW_ARRAY(tw_context_arena(ctx), tw_value *, op->n_operands);
    for (unsigned i = 0; i < op->n_operands; i++)
        operands[i] = tw_operand(op, i);
    return operands;
}

static void simplify_for(tw_context *ctx, tw_op *op, const operand_info *info)
{
    simplify_map(ctx, op, "bounds", info);
    tw_attr bounds = tw_op_attr(op, "bounds");
    tw_expr lo = bounds->u.map.exprs[0];
    tw_expr trips = tw_expr_sub(ctx, bounds->u.map.exprs[1], lo);
    int64_t count, step = tw_op_int(op, "step", 1);
    if (at_least(ctx, tw_expr_mulc(ctx, trips, -1), 0, info)) {
        tw_op_erase(op);
    } else if (tw_expr_as_const(trips, &count) && count <= step) {
        tw_index_replace_value(ctx, op->regions[0].args[0], lo, operands_of(ctx, op),
                               op->n_operands);
        tw_region_splice(op->region, op, &op->regions[0]);
        tw_op_erase(op);
    } else {
        tw_index_compact(ctx, op);
    }
}

static bool is_map_operand(const tw_use *use)
{
    unsigned first, n;
    return tw_index_operands(use->user, &first, &n) && use->index >= first &&
           use->index < first + n;
}

/* Puts the expression into the maps that use it; other uses keep the operation. */
static void simplify_index(tw_context *ctx, tw_op *op, const operand_info *info)
{
    tw_value *result = tw_result(op, 0);
    simplify_map(ctx, op, "expr", info);
    bool lanes = uses_lanes(op, info);
    tw_index_compact(ctx, op);
    tw_index_subst subst = {result, tw_op_attr(op, "expr")->u.map.exprs[0], operands_of(ctx, op),
                            op->n_operands};
    /* Substitution rebuilds a user's operands, and with them the list of uses: noted first. */
    TW_VEC(tw_op *) users = {0};
    for (tw_use *use = result->uses; use; use = use->next)
        if (is_map_operand(use))
            tw_vec_push(tw_context_arena(ctx), &users, use->user);
    for (size_t i = 0; i < users.len; i++) /* again for a user that is listed twice: no harm */
        tw_index_substitute(ctx, users.data[i], &subst, 1);
    if (result->uses && is_vector(result) && !lanes) {
        tw_builder b = tw_builder_before(ctx, op);
        tw_value *one = tw_index_materialize(&b, subst.to, subst.operands, subst.n_operands);
        tw_value_replace_all(result, tw_loop_op(&b, TW_LOOP_BROADCAST, &one, 1, result->type));
    }
    if (!result->uses)
        tw_op_erase(op);
}

static void simplify_op(tw_context *ctx, tw_op *op)
{
    operand_info info;
    if (!get_operands(ctx, op, &info))
        return;
    switch (tw_loop_kind_of(op)) {
    case TW_LOOP_LOAD:
        simplify_load(ctx, op, &info);
        break;
    case TW_LOOP_STORE:
        simplify_store(ctx, op, &info);
        break;
    case TW_LOOP_IF:
        simplify_if(ctx, op, &info);
        break;
    case TW_LOOP_FOR:
        simplify_for(ctx, op, &info);
        break;
    case TW_LOOP_INDEX:
        simplify_index(ctx, op, &info);
        break;
    default:
        break;
    }
}

/* ---- The walk ---- */

static bool is_unused(const tw_op *op)
{
    for (unsigned i = 0; i < op->n_results; i++)
        if (op->results[i].uses)
            return false;
    if (tw_is_loop(op, TW_LOOP_FOR) || tw_is_loop(op, TW_LOOP_IF)) {
        for (unsigned r = 0; r < op->n_regions; r++)
            if (op->regions[r].first)
                return false;
        return true;
    }
    return tw_is_loop(op, TW_LOOP_LOAD) || op->def->traits & TW_TRAIT_PURE;
}

/* Whether op still stands where root stood: in it, or in what root left behind. */
static bool is_there(const tw_op *root, const tw_region *around, const tw_op *op)
{
    while (op != root && op->region && op->region != around)
        op = op->region->parent;
    return op == root ? root->region == around : op->region != NULL;
}

void tw_simplify_loops(tw_context *ctx, tw_op *root)
{
    tw_loop_list list = tw_loop_collect(ctx, root, NULL);
    const tw_region *around = root->region;
    for (size_t i = 0; i < list.n; i++)
        if (is_there(root, around, list.ops[i]))
            simplify_op(ctx, list.ops[i]);
    for (size_t i = list.n; i-- > 0;)
        if (is_there(root, around, list.ops[i]) && list.ops[i]->region && is_unused(list.ops[i]))
            tw_op_erase(list.ops[i]);
}

static bool run(tw_pass_run *pass)
{
    tw_simplify_loops(pass->ctx, pass->root);
    return true;
}

const tw_pass tw_pass_simplify_loops = {
    .name = "simplify-loops",
    .summary = "use the bounds of loop variables to decide conditions and shorten expressions",
    .anchor = "loop.kernel",
    .optional = true,
    .run = run,
};
