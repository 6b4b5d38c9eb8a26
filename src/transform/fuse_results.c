/* fuse_results.c: groups with several results.
 *
 * A group of injective operations and the first group that uses its value become one, which has the
 * results of both: what is needed elsewhere as well is written, but not read again.
 *
 *   %s = graph.add %x, %r                       // a residual sum, needed again further down
 *   %n = graph.layer_norm %s, %scale, %bias
 *     =>
 *   %s, %n = graph.group "add_layer_norm" (…) { … graph.yield %s, %n }
 *
 * Three kinds of groups become one like this:
 *  - element-wise ones on one shape;
 *  - a reduction along rows (the last axes) and what makes these rows before it: each row is
 *    computed once, kept in the nearest cache and gone through as often as it takes. So what costs
 *    too much for being computed again in each pass may join, too, and nothing is needed elsewhere
 *    then;
 *  - a reduction along rows and what is element-wise on them behind it, which its result broadcasts
 *    to: x / sum(x) goes through each row while it is near.
 *
 * Only when all other users stand behind the joint group, so that nothing has to move and no cycle
 * arises. */
#include "transform/fuse_impl.h"

enum {
    MAX_ROW = 16384, /* elements of a row: as many stay in a cache of the core */
};

/* ---- What may become one ---- */

/* Element-wise on one shape, all of it. */
static bool is_flat(const tw_fuser *f, const tw_fuse_group *group, tw_type shape)
{
    if (group->kind != TW_FUSE_INJECTIVE)
        return false;
    for (size_t i = 0; i < group->members.len; i++) {
        const tw_op *op = f->nodes.data[group->members.data[i]].op;
        if (!tw_fuse_is_elementwise(op) || !tw_equal_shapes(&f->equal, op->results[0].type, shape))
            return false;
    }
    return true;
}

/* The first of the axes that a reduction goes along when these are the last ones; 0 when not. */
static unsigned row_axis(const tw_op *reduction)
{
    unsigned rank = tw_operand(reduction, 0)->type->rank, first;
    switch (tw_graph_kind_of(reduction)) {
    case TW_GRAPH_LAYER_NORM:
    case TW_GRAPH_RMS_NORM:
        return (unsigned)tw_op_int(reduction, "axis", 0);
    case TW_GRAPH_SOFTMAX:
    case TW_GRAPH_LOG_SOFTMAX:
        return tw_op_int(reduction, "axis", 0) == (int64_t)rank - 1 ? rank - 1 : 0;
    case TW_GRAPH_REDUCE_SUM:
    case TW_GRAPH_REDUCE_MEAN:
    case TW_GRAPH_REDUCE_MAX:
    case TW_GRAPH_REDUCE_MIN:
    case TW_GRAPH_REDUCE_PROD: {
        tw_attr axes = tw_op_attr(reduction, "axes");
        first = rank - (unsigned)axes->u.array.n;
        for (size_t i = 0; i < axes->u.array.n; i++)
            if (axes->u.array.items[i]->u.integer < (int64_t)first)
                return 0;
        return first;
    }
    default:
        return 0;
    }
}

/* Whether the rows are known to be short enough to stay near. */
static bool has_near_rows(const tw_op *reduction, unsigned axis)
{
    tw_type type = tw_operand(reduction, 0)->type;
    int64_t size, elements = 1;
    for (unsigned i = axis; i < type->rank; i++) {
        if (!tw_expr_as_const(type->dims[i], &size) || size > MAX_ROW / elements || size == 0)
            return false;
        elements *= size;
    }
    return true;
}

/* Whether elements that lie side by side in the result are computed of such in the operands. */
static bool keeps_rows(const tw_op *op)
{
    unsigned last = op->results[0].type->rank - 1;
    tw_type from = tw_operand(op, 0)->type;
    switch (tw_graph_kind_of(op)) {
    case TW_GRAPH_TRANSPOSE:
        return tw_op_attr(op, "perm")->u.array.items[last]->u.integer == last;
    case TW_GRAPH_TILE:
        return from->dims[last] == op->results[0].type->dims[last];
    case TW_GRAPH_SLICE:
        return tw_op_attr(op, "steps")->u.array.items[last]->u.integer == 1;
    case TW_GRAPH_RESHAPE:
        return from->rank && from->dims[from->rank - 1] == op->results[0].type->dims[last];
    default:
        return tw_fuse_is_elementwise(op);
    }
}

/* Whether group g computes the rows that the reduction of `into` goes along. */
static bool makes_rows(const tw_fuser *f, const tw_fuse_group *g, const tw_fuse_group *into)
{
    if (into->kind != TW_FUSE_REDUCTION)
        return false;
    const tw_op *anchor = f->nodes.data[into->anchor].op;
    tw_type rows = tw_operand(anchor, 0)->type;
    unsigned axis = row_axis(anchor);
    if (!axis || !has_near_rows(anchor, axis))
        return false;
    for (size_t i = 0; i < g->members.len; i++) {
        const tw_op *op = f->nodes.data[g->members.data[i]].op;
        if (!op->results[0].type->rank || !keeps_rows(op))
            return false;
        for (const tw_use *u = op->results[0].uses; u; u = u->next) {
            int user = tw_fuse_number(f, u->user);
            if (user < 0 || f->nodes.data[user].group < 0 ||
                &f->groups.data[f->nodes.data[user].group] != into)
                continue;
            tw_type made = u->user == anchor ? rows : u->user->results[0].type;
            if ((u->user == anchor && u->index > 0) ||
                !tw_equal_shapes(&f->equal, op->results[0].type, rows) ||
                !tw_equal_shapes(&f->equal, made, rows))
                return false;
        }
    }
    return true;
}

/* Whether `into` is element-wise on the rows that the reduction of group g goes along, of which the
 * result keeps the axes. */
static bool spreads_to_rows(const tw_fuser *f, const tw_fuse_group *g, const tw_fuse_group *into)
{
    const tw_op *anchor = f->nodes.data[g->anchor].op;
    tw_type rows = tw_operand(anchor, 0)->type;
    unsigned axis = row_axis(anchor);
    return axis && has_near_rows(anchor, axis) && anchor->results[0].type->rank == rows->rank &&
           is_flat(f, into, rows);
}

static bool become_one(const tw_fuser *f, const tw_fuse_group *g, const tw_fuse_group *into)
{
    tw_type shape = f->nodes.data[g->anchor].op->results[0].type;
    return g->kind == TW_FUSE_REDUCTION
               ? spreads_to_rows(f, g, into)
               : (is_flat(f, g, shape) && is_flat(f, into, shape)) || makes_rows(f, g, into);
}

/* ---- Who uses them ---- */

/* The place where the user will stand: that of its group, or its own. */
static unsigned place_of(const tw_fuser *f, const tw_op *user)
{
    int n = tw_fuse_number(f, user);
    while (n < 0 && user->region) { /* in a nested region: where the outer operation stands */
        user = user->region->parent;
        n = tw_fuse_number(f, user);
    }
    int group = f->nodes.data[n].group;
    return group >= 0 ? f->groups.data[group].place : (unsigned)n;
}

/* The group of the first user of any result of `group`, when all others will stand behind it. */
static int first_consumer(const tw_fuser *f, int group)
{
    const tw_fuse_group *g = &f->groups.data[group];
    int best = -1;
    unsigned place = 0;
    bool first = true;
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < g->members.len; i++) {
            const tw_op *op = f->nodes.data[g->members.data[i]].op;
            for (const tw_use *u = op->results[0].uses; u; u = u->next) {
                int n = tw_fuse_number(f, u->user);
                int other = n >= 0 ? f->nodes.data[n].group : -1;
                if (other == group)
                    continue;
                unsigned p = place_of(f, u->user);
                if (round == 0 && other >= 0 && (best < 0 || p < place)) {
                    best = other;
                    place = p;
                }
                first &= round == 0 || other == best || p > place;
            }
        }
    return first ? best : -1;
}

void tw_fuse_join_consumers(tw_fuser *f)
{
    for (size_t i = 0; i < f->groups.len; i++) { /* groups of later operations come first */
        tw_fuse_group *g = &f->groups.data[i];
        bool kind = g->kind == TW_FUSE_INJECTIVE || g->kind == TW_FUSE_REDUCTION;
        int consumer = kind && g->members.len ? first_consumer(f, (int)i) : -1;
        tw_fuse_group *into = consumer < 0 ? NULL : &f->groups.data[consumer];
        if (!into || into->members.len + g->members.len > TW_FUSE_MAX_OPS ||
            !become_one(f, g, into))
            continue;
        for (size_t k = 0; k < g->members.len; k++)
            tw_fuse_add_member(f, g->members.data[k], consumer);
        tw_fuse_sort_members(into);
        if (g->kind == TW_FUSE_REDUCTION) {
            into->kind = TW_FUSE_REDUCTION;
            into->anchor = g->anchor;
            into->stop = g->stop;
            into->why = g->why;
        }
        g->members.len = 0;
    }
}
