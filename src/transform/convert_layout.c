/* convert_layout.c: networks of convolutions work on channels-last data.
 *
 *   %1 = graph.conv %x, %w : tensor<1x8x6x6xf32>
 *   %2 = graph.relu %1
 *   %3 = graph.reduce_mean %2 {axes = [2, 3], keepdims = false}
 *     =>
 *   %0 = graph.transpose %x {perm = [0, 2, 3, 1]}
 *   %1 = graph.conv %0, %w {data_layout = "NHWC"} : tensor<1x6x6x8xf32>
 *   %2 = graph.relu %1
 *   %3 = graph.reduce_mean %2 {axes = [1, 2], keepdims = false}
 *
 * Convolutions are always converted. Operations that work in either layout are at first converted
 * wherever a path of such operations leads to a convolution. Then each of them goes back to plain
 * when that lowers the cost: the bytes of all values that must be transposed. Nothing returns from
 * plain, so this ends after at most one step per operation; an operation is looked at again only
 * when a count that its decision depends on has changed, so the whole is linear.
 * A transpose of the model costs nothing at its border with another layout: the two join.
 * Without a convolution nothing happens. */
#include "transform/layout.h"
#include "transform/transform.h"

#include "base/map.h"
#include "base/vec.h"

/* ---- State ---- */

typedef struct lay_value {
    uint64_t cost;        /* bytes to move when it is needed in the other layout */
    unsigned last, plain; /* uses as channels last and as plain data */
    tw_value *as_last[2]; /* when plain: converted, for users of its rank; broadcast to rank */
    tw_value *as_plain;   /* when channels last */
    bool is_last;         /* after rewriting */
} lay_value;

typedef struct lay_op {
    tw_op *op;
    tw_layout_role role;
    const tw_op *shuffle; /* INSIDE: the last operation of the shuffle */
    bool leads;           /* INSIDE: the first one */
    bool ends;            /* the last operation of a shuffle */
    bool last;            /* the decision */
    bool queued;
} lay_op;

typedef struct layouts {
    tw_context *ctx;
    tw_arena *arena;
    TW_VEC(lay_op) ops;
    TW_VEC(lay_op *) queue;
    tw_map by_op;    /* tw_op -> lay_op */
    tw_map by_value; /* tw_value -> lay_value */
} layouts;

static lay_op *find_op(const layouts *l, const tw_op *op)
{
    return op ? tw_map_get_ptr(&l->by_op, op) : NULL;
}

/* The operation that decides for a user of a value: of a shuffle the last. */
static lay_op *find_user(const layouts *l, const tw_use *use)
{
    lay_op *o = find_op(l, use->user);
    return o && o->role == TW_ROLE_INSIDE ? find_op(l, o->shuffle) : o;
}

static lay_value *find_value(layouts *l, const tw_value *value)
{
    lay_value *v = tw_map_get_ptr(&l->by_value, value);
    if (!v) {
        v = TW_NEW(l->arena, lay_value);
        tw_map_put_ptr(&l->by_value, value, v);
    }
    return v;
}

static void enqueue(layouts *l, lay_op *o)
{
    if (!o || o->queued || o->role != TW_ROLE_EITHER)
        return;
    o->queued = true;
    tw_vec_push(l->arena, &l->queue, o);
}

/* ---- Cost ---- */

/* Bytes; unknown sizes count as 64 elements, which keeps the order of magnitude. */
static uint64_t bytes_of(tw_type type)
{
    double bytes = tw_elem_bits(type->elem) / 8.0;
    for (unsigned i = 0; i < type->rank; i++) {
        int64_t size;
        bytes *= tw_expr_as_const(type->dims[i], &size) ? (double)size : 64.0;
    }
    return bytes < 1e18 ? (uint64_t)bytes : (uint64_t)1e18;
}

/* Constants are converted at compile time; a transpose joins with the conversion. */
static uint64_t conversion_cost(const tw_value *value)
{
    tw_type type = value->type;
    if (type->kind != TW_TYPE_TENSOR || type->rank < 3 || tw_graph_constant_value(value) ||
        (value->op && tw_is_graph(value->op, TW_GRAPH_TRANSPOSE)) || tw_layout_is_view(type))
        return 0;
    return bytes_of(type);
}

static bool is_produced_last(const layouts *l, const tw_value *value)
{
    const lay_op *o = find_op(l, value->op);
    return o && o->last && tw_layout_has_result(o->op);
}

/* What the value costs with so many uses of each sort. */
static uint64_t value_cost(const lay_value *v, bool produced_last, unsigned last, unsigned plain)
{
    return (produced_last ? plain : last) ? v->cost : 0;
}

/* The gain in bytes when the operation goes back to plain; negative when that costs more. An
 * operand that occurs twice counts as two uses, both of which change. */
static int64_t gain_of_plain(layouts *l, const tw_op *op)
{
    int64_t gain = 0;
    for (unsigned i = 0; i < op->n_operands; i++) {
        if (!tw_layout_is_data(op, i))
            continue;
        const tw_value *x = tw_layout_operand(op, i);
        const lay_value *v = find_value(l, x);
        unsigned times = 0;
        bool first = true;
        for (unsigned k = 0; k < op->n_operands; k++) {
            times += tw_layout_is_data(op, k) && tw_layout_operand(op, k) == x;
            first &= k >= i || tw_layout_operand(op, k) != x;
        }
        if (!first)
            continue;
        bool last = is_produced_last(l, x);
        gain += (int64_t)value_cost(v, last, v->last, v->plain) -
                (int64_t)value_cost(v, last, v->last - times, v->plain + times);
    }
    if (tw_layout_has_result(op)) {
        const lay_value *v = find_value(l, &op->results[0]);
        gain += (int64_t)value_cost(v, true, v->last, v->plain) -
                (int64_t)value_cost(v, false, v->last, v->plain);
    }
    return gain;
}

/* ---- Choosing ---- */

static bool add_op(tw_op *op, void *data)
{
    layouts *l = data;
    if (tw_is_graph(op, TW_GRAPH_GROUP) ||
        (op->region && op->region->parent->def == &tw_graph_ops[TW_GRAPH_GROUP]))
        return true; /* kernels are formed already */
    tw_vec_push(l->arena, &l->ops,
                ((lay_op){.op = op, .role = op->n_results ? tw_layout_role_of(op) : 0}));
    return true;
}

/* The first two operations of a shuffle have no say of their own. */
static void mark_shuffle(layouts *l, const tw_op *op)
{
    const tw_op *first = tw_layout_shuffle(op);
    if (!first)
        return;
    lay_op *inside[2] = {find_op(l, first), find_op(l, first->results[0].uses->user)};
    for (int i = 0; i < 2; i++) {
        inside[i]->role = TW_ROLE_INSIDE;
        inside[i]->shuffle = op;
    }
    inside[0]->leads = true;
    find_op(l, op)->ends = true;
}

static void visit_neighbours(layouts *l, const tw_op *op,
                             void (*visit)(layouts *l, lay_op *neighbour))
{
    for (unsigned i = 0; i < op->n_operands; i++) {
        lay_op *producer =
            tw_layout_is_data(op, i) ? find_op(l, tw_layout_operand(op, i)->op) : NULL;
        if (producer && producer->role == TW_ROLE_EITHER && tw_layout_has_result(producer->op))
            visit(l, producer);
    }
    for (const tw_use *u = op->results[0].uses; u && tw_layout_has_result(op); u = u->next) {
        lay_op *user = find_user(l, u);
        if (user && user->role == TW_ROLE_EITHER && tw_layout_is_data(user->op, u->index))
            visit(l, user);
    }
}

static void spread_to(layouts *l, lay_op *neighbour)
{
    if (neighbour->last)
        return;
    neighbour->last = true;
    tw_vec_push(l->arena, &l->queue, neighbour);
}

/* All operations that a path of convertible ones joins to a convolution; false without any. */
static bool spread_from_convolutions(layouts *l)
{
    for (size_t i = 0; i < l->ops.len; i++)
        if (l->ops.data[i].role == TW_ROLE_LAST) {
            l->ops.data[i].last = true;
            tw_vec_push(l->arena, &l->queue, &l->ops.data[i]);
        }
    bool any = l->queue.len > 0;
    while (l->queue.len)
        visit_neighbours(l, l->queue.data[--l->queue.len]->op, spread_to);
    return any;
}

static void count_uses(layouts *l)
{
    for (size_t i = 0; i < l->ops.len; i++) {
        const lay_op *o = &l->ops.data[i];
        for (unsigned k = 0; k < o->op->n_results; k++)
            find_value(l, &o->op->results[k])->cost = conversion_cost(&o->op->results[k]);
        for (unsigned k = 0; k < o->op->n_operands; k++) {
            const tw_value *x = tw_operand(o->op, k);
            lay_value *v = find_value(l, x);
            if (!x->op)
                v->cost = conversion_cost(x);
            const lay_op *decider = o->role == TW_ROLE_INSIDE ? find_op(l, o->shuffle) : o;
            if (decider->last && tw_layout_is_data(decider->op, k))
                v->last++;
            else if (o->role != TW_ROLE_TRANSPOSE)
                v->plain++;
        }
    }
}

/* Users of a value decide anew when a count reaches one of the values that matter. */
static void recount(layouts *l, const tw_value *x)
{
    lay_value *v = find_value(l, x);
    v->last--;
    v->plain++;
    if (v->last > 2 && v->plain != 1)
        return;
    enqueue(l, find_op(l, x->op));
    for (const tw_use *u = x->uses; u; u = u->next)
        enqueue(l, find_user(l, u));
}

static void make_plain(layouts *l, lay_op *o)
{
    o->last = false;
    for (unsigned i = 0; i < o->op->n_operands; i++)
        if (tw_layout_is_data(o->op, i))
            recount(l, tw_layout_operand(o->op, i));
    if (tw_layout_has_result(o->op))
        visit_neighbours(l, o->op, enqueue);
}

static void go_back_where_cheaper(layouts *l)
{
    for (size_t i = 0; i < l->ops.len; i++)
        if (l->ops.data[i].last)
            enqueue(l, &l->ops.data[i]);
    while (l->queue.len) {
        lay_op *o = l->queue.data[--l->queue.len];
        o->queued = false;
        if (o->last && gain_of_plain(l, o->op) > 0)
            make_plain(l, o);
    }
}

/* ---- Rewriting ---- */

/* A builder right behind the definition of the value, which dominates all its uses. */
static tw_builder behind(layouts *l, const tw_value *value)
{
    tw_region *region = value->op ? value->op->region : value->region;
    return (tw_builder){l->ctx, region, value->op ? value->op->next : region->first,
                        value->op ? value->op->loc : region->parent->loc};
}

/* The value in the other layout: a transpose, or a reshape where no element moves. */
static tw_value *convert(layouts *l, tw_value *x, bool to_last)
{
    int64_t perm[TW_MAX_RANK];
    unsigned rank = x->type->rank;
    tw_expr dims[TW_MAX_RANK];
    for (unsigned i = 0; i < rank; i++) {
        unsigned first = to_last ? rank - 1 : 1; /* where the channels go */
        unsigned channels = to_last ? 1 : rank - 1;
        perm[i] = i == 0 ? 0 : i == first ? channels : to_last ? i + 1 : i - 1;
        dims[i] = x->type->dims[perm[i]];
    }
    tw_attr layout = to_last ? tw_layout_nhwc(l->ctx) : NULL;
    tw_type type = tw_type_tensor(l->ctx, x->type->elem, rank, dims, layout);
    tw_type plain = to_last ? x->type : type;
    tw_builder b = behind(l, x);
    if (tw_layout_is_view(plain))
        return type == x->type ? x : tw_graph_build(&b, TW_GRAPH_RESHAPE, &x, 1, type, NULL);
    return tw_graph_build(&b, TW_GRAPH_TRANSPOSE, &x, 1, type, "perm",
                          tw_attr_ints(l->ctx, perm, rank), NULL);
}

static tw_value *as_plain(layouts *l, tw_value *x)
{
    lay_value *v = find_value(l, x);
    if (!v->is_last)
        return x;
    if (!v->as_plain)
        v->as_plain = convert(l, x, false);
    return v->as_plain;
}

/* x with sizes of 1 in front, up to the rank. */
static tw_value *to_rank(layouts *l, tw_value *x, unsigned rank)
{
    tw_expr dims[TW_MAX_RANK];
    unsigned missing = rank - x->type->rank;
    for (unsigned i = 0; i < rank; i++)
        dims[i] = i < missing ? tw_expr_const(l->ctx, 1) : x->type->dims[i - missing];
    tw_type type = tw_type_tensor(l->ctx, x->type->elem, rank, dims, NULL);
    tw_builder b = behind(l, x);
    return missing ? tw_graph_build(&b, TW_GRAPH_RESHAPE, &x, 1, type, NULL) : x;
}

static bool is_one_element(tw_type type)
{
    int64_t n;
    return tw_type_static_count(type, &n) && n == 1;
}

/* x for an operation on channels-last data of that rank; of lower rank when it broadcasts. */
static tw_value *as_last(layouts *l, tw_value *x, unsigned rank)
{
    lay_value *v = find_value(l, x);
    bool lower = x->type->rank < rank;
    if (v->is_last && !lower)
        return x;
    if (is_one_element(x->type) && lower)
        return x;
    if (!v->as_last[lower] || v->as_last[lower]->type->rank != rank)
        v->as_last[lower] = convert(l, to_rank(l, as_plain(l, x), rank), true);
    return v->as_last[lower];
}

/* Whether operand i takes part in broadcasting against channels-last data. */
static bool broadcasts(const tw_op *op, unsigned i)
{
    return (op->def->traits & TW_TRAIT_ELEMENTWISE || tw_is_graph(op, TW_GRAPH_EXPAND)) &&
           !tw_layout_is_data(op, i);
}

static void rewrite(layouts *l, lay_op *o)
{
    tw_op *op = o->op;
    if (o->role == TW_ROLE_INSIDE && find_op(l, o->shuffle)->last) {
        if (o->leads) {
            unsigned rank = o->shuffle->results[0].type->rank;
            tw_op_set_operand(op, 0, as_last(l, tw_operand(op, 0), rank));
            tw_layout_shuffle_make_last(l->ctx, op);
        }
        return;
    }
    unsigned rank = o->last ? tw_layout_rank(op) : 0;
    bool shuffled = o->last && o->ends; /* its operand is right */
    for (unsigned i = 0; i < op->n_operands && !shuffled; i++) {
        tw_value *x = tw_operand(op, i);
        bool last = o->last && (tw_layout_is_data(op, i) || broadcasts(op, i));
        tw_value *y = last ? as_last(l, x, rank) : as_plain(l, x);
        if (y != x)
            tw_op_set_operand(op, i, y);
    }
    if (!o->last)
        return;
    if (tw_layout_has_result(op))
        find_value(l, &op->results[0])->is_last = true;
    tw_layout_make_last(l->ctx, op);
}

static bool run(tw_pass_run *pass)
{
    tw_arena *arena = tw_context_arena(pass->ctx);
    layouts l = {.ctx = pass->ctx,
                 .arena = arena,
                 .by_op = tw_map_make(arena),
                 .by_value = tw_map_make(arena)};
    tw_walk(pass->root, add_op, &l);
    for (size_t i = 0; i < l.ops.len; i++)
        tw_map_put_ptr(&l.by_op, l.ops.data[i].op, &l.ops.data[i]);
    for (size_t i = 0; i < l.ops.len; i++)
        mark_shuffle(&l, l.ops.data[i].op);
    if (!spread_from_convolutions(&l))
        return true;
    count_uses(&l);
    go_back_where_cheaper(&l);
    for (size_t i = 0; i < l.ops.len; i++) {
        lay_op *o = &l.ops.data[i];
        o->last = o->last && pass->changes < pass->max_changes;
        pass->changes += o->last;
        rewrite(&l, o);
    }
    return true;
}

const tw_pass tw_pass_convert_layout = {
    .name = "convert-layout",
    .summary = "networks of convolutions work on channels-last data",
    .anchor = "core.func",
    .optional = true,
    .run = run,
};
