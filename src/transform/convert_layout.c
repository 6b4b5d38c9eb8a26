/* convert_layout.c: networks of convolutions work on channels-last data, or on blocks of channels.
 *
 *   %1 = graph.conv %x, %w : tensor<1x8x6x6xf32>
 *   %2 = graph.relu %1
 *   %3 = graph.reduce_mean %2 {axes = [2, 3], keepdims = false}
 *     =>
 *   %0 = graph.transpose %x {perm = [0, 2, 3, 1]} : tensor<1x6x6x3xf32, NHWC>
 *   %1 = graph.conv %0, %w : tensor<1x6x6x8xf32, NHWC>
 *   %2 = graph.relu %1
 *   %3 = graph.reduce_mean %2 {axes = [1, 2], keepdims = false}
 *
 * or with layout=NCHW4c, a vector of four,
 *
 *   %0 = transpose (reshape %x) : tensor<1x1x6x6x3xf32, NCHW3c>
 *   %1 = graph.conv %0, %w : tensor<1x2x6x6x4xf32, NCHW4c>
 *   …
 *
 * A block is as many channels as fill a vector; where that many do not divide them, half of it, and
 * so on down to 4, else all of them. So nothing is padded, and what block a tensor has depends on
 * its number of channels alone. Operations that take blocks apart (a softmax of channels, a
 * concatenation of other blocks than the whole's) work on plain data.
 *
 * "Arranged" below is data in the layout that is wanted. Convolutions are always arranged.
 * Operations that work in either layout are at first arranged wherever a path of such operations
 * leads to a convolution. Then each of them goes back to plain when that lowers the cost: the bytes
 * of all values that must be transposed. Nothing returns from plain, so this ends after at most one
 * step per operation; an operation is looked at again only when a count that its decision depends
 * on has changed, so the whole is linear.
 * A transpose of the model costs nothing at its border with another layout: the two join.
 * Without a convolution nothing happens. */
#include "transform/layout.h"
#include "transform/transform.h"

#include "base/map.h"
#include "base/vec.h"

#include <string.h>

/* ---- State ---- */

typedef struct lay_value {
    uint64_t cost;            /* bytes to move when it is needed in the other layout */
    unsigned arranged, plain; /* uses as arranged and as plain data */
    tw_value *as_arranged[2]; /* when plain: converted, for users of its rank; broadcast to rank */
    tw_value *as_plain;       /* when arranged */
    bool is_arranged;         /* after rewriting; then */
    tw_type plain_type;       /* the type that it had */
} lay_value;

typedef struct lay_op {
    tw_op *op;
    tw_layout_role role;
    const tw_op *shuffle; /* INSIDE: the last operation of the shuffle */
    bool leads;           /* INSIDE: the first one */
    bool ends;            /* the last operation of a shuffle */
    unsigned rank;        /* of the plain data */
    bool *takes;          /* by operand: arranged, or to broadcast with arranged data */
    bool arranged;        /* the decision */
    bool queued;
} lay_op;

typedef struct layouts {
    tw_context *ctx;
    tw_layout_goal goal;
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

static bool is_produced_arranged(const layouts *l, const tw_value *value)
{
    const lay_op *o = find_op(l, value->op);
    return o && o->arranged && tw_layout_has_result(o->op);
}

/* What the value costs with so many uses of each sort. */
static uint64_t value_cost(const lay_value *v, bool produced_arranged, unsigned arranged,
                           unsigned plain)
{
    return (produced_arranged ? plain : arranged) ? v->cost : 0;
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
        bool arranged = is_produced_arranged(l, x);
        gain += (int64_t)value_cost(v, arranged, v->arranged, v->plain) -
                (int64_t)value_cost(v, arranged, v->arranged - times, v->plain + times);
    }
    if (tw_layout_has_result(op)) {
        const lay_value *v = find_value(l, &op->results[0]);
        gain += (int64_t)value_cost(v, true, v->arranged, v->plain) -
                (int64_t)value_cost(v, false, v->arranged, v->plain);
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
                ((lay_op){.op = op, .role = op->n_results ? tw_layout_role_of(&l->goal, op) : 0}));
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
    if (neighbour->arranged)
        return;
    neighbour->arranged = true;
    tw_vec_push(l->arena, &l->queue, neighbour);
}

/* All operations that a path of convertible ones joins to a convolution; false without any. */
static bool spread_from_convolutions(layouts *l)
{
    for (size_t i = 0; i < l->ops.len; i++)
        if (l->ops.data[i].role == TW_ROLE_WANTS) {
            l->ops.data[i].arranged = true;
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
            if (decider->arranged && tw_layout_is_data(decider->op, k))
                v->arranged++;
            else if (o->role != TW_ROLE_TRANSPOSE)
                v->plain++;
        }
    }
}

/* Users of a value decide anew when a count reaches one of the values that matter. */
static void recount(layouts *l, const tw_value *x)
{
    lay_value *v = find_value(l, x);
    v->arranged--;
    v->plain++;
    if (v->arranged > 2 && v->plain != 1)
        return;
    enqueue(l, find_op(l, x->op));
    for (const tw_use *u = x->uses; u; u = u->next)
        enqueue(l, find_user(l, u));
}

static void make_plain(layouts *l, lay_op *o)
{
    o->arranged = false;
    for (unsigned i = 0; i < o->op->n_operands; i++)
        if (tw_layout_is_data(o->op, i))
            recount(l, tw_layout_operand(o->op, i));
    if (tw_layout_has_result(o->op))
        visit_neighbours(l, o->op, enqueue);
}

static void go_back_where_cheaper(layouts *l)
{
    for (size_t i = 0; i < l->ops.len; i++)
        if (l->ops.data[i].arranged)
            enqueue(l, &l->ops.data[i]);
    while (l->queue.len) {
        lay_op *o = l->queue.data[--l->queue.len];
        o->queued = false;
        if (o->arranged && gain_of_plain(l, o->op) > 0)
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

/* The value in the other layout: a transpose, or a reshape where no element moves. Channels are cut
 * into blocks by a reshape before, or put together by one behind. `plain` is its plain type. */
static tw_value *convert(layouts *l, tw_value *x, tw_type plain, bool arrange)
{
    int64_t perm[TW_MAX_RANK];
    unsigned rank = plain->rank, blocks = l->goal.block > 0, n = rank + blocks;
    tw_type arranged = tw_layout_type(&l->goal, plain), type = arrange ? arranged : plain;
    tw_builder b = behind(l, x);
    if (tw_layout_is_view(plain))
        return tw_graph_build(&b, TW_GRAPH_RESHAPE, &x, 1, type, NULL);
    /* From [N, (C / c,) c, spatial…] to [N, (C / c,) spatial…, c], or back. */
    unsigned lane = 1 + blocks;
    for (unsigned i = 0; i < n; i++)
        perm[i] = i < lane ? i : arrange ? (i + 1 < n ? i + 1 : lane) : i == lane ? n - 1 : i - 1;
    tw_attr order = tw_attr_ints(l->ctx, perm, n);
    if (!blocks)
        return tw_graph_build(&b, TW_GRAPH_TRANSPOSE, &x, 1, type, "perm", order, NULL);
    tw_expr cut[TW_MAX_RANK] = {plain->dims[0], arranged->dims[1], arranged->dims[rank]};
    memcpy(cut + 3, plain->dims + 2, (rank - 2) * sizeof *cut);
    tw_type apart = tw_type_tensor(l->ctx, plain->elem, n, cut, NULL);
    tw_value *y = arrange ? tw_graph_build(&b, TW_GRAPH_RESHAPE, &x, 1, apart, NULL) : x;
    y = tw_graph_build(&b, TW_GRAPH_TRANSPOSE, &y, 1, arrange ? type : apart, "perm", order, NULL);
    return arrange ? y : tw_graph_build(&b, TW_GRAPH_RESHAPE, &y, 1, type, NULL);
}

static tw_value *as_plain(layouts *l, tw_value *x)
{
    lay_value *v = find_value(l, x);
    if (!v->is_arranged)
        return x;
    if (!v->as_plain)
        v->as_plain = convert(l, x, v->plain_type, false);
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

/* x for an operation on arranged data of that rank; of lower rank when it broadcasts. */
static tw_value *as_arranged(layouts *l, tw_value *x, unsigned rank)
{
    lay_value *v = find_value(l, x);
    tw_type type = v->is_arranged ? v->plain_type : x->type;
    bool lower = type->rank < rank;
    if (v->is_arranged && !lower)
        return x;
    if (is_one_element(type) && lower)
        return x;
    tw_value **kept = &v->as_arranged[lower];
    if (!*kept || (*kept)->type->rank != rank + (l->goal.block > 0)) {
        tw_value *plain = to_rank(l, as_plain(l, x), rank);
        *kept = convert(l, plain, plain->type, true);
    }
    return *kept;
}

/* Whether operand i takes part in broadcasting against arranged data. */
static bool broadcasts(const tw_op *op, unsigned i)
{
    return (op->def->traits & TW_TRAIT_ELEMENTWISE || tw_is_graph(op, TW_GRAPH_EXPAND)) &&
           !tw_layout_is_data(op, i);
}

/* What the types say, before the first one changes. */
static void read_operands(layouts *l, lay_op *o)
{
    o->rank = tw_layout_rank(o->op);
    o->takes = TW_NEW_ARRAY(l->arena, bool, o->op->n_operands);
    for (unsigned i = 0; i < o->op->n_operands; i++)
        o->takes[i] = tw_layout_is_data(o->op, i) || broadcasts(o->op, i);
}

/* A result without a layout, channels in blocks being two of its axes, in its plain shape. */
static void put_together(layouts *l, tw_op *op, tw_type plain)
{
    tw_value *result = tw_result(op, 0);
    if (result->type == plain)
        return;
    tw_builder b = behind(l, result);
    tw_value *whole = tw_graph_build(&b, TW_GRAPH_RESHAPE, &result, 1, plain, NULL);
    for (tw_use *u = result->uses, *next; u; u = next) {
        next = u->next;
        if (u->user != whole->op)
            tw_op_set_operand(u->user, u->index, whole);
    }
}

static void arrange(layouts *l, lay_op *o)
{
    tw_value *result = tw_result(o->op, 0);
    tw_type plain = result->type;
    tw_layout_apply(&l->goal, o->op, o->rank);
    if (tw_layout_has_result(o->op)) {
        lay_value *v = find_value(l, result);
        v->is_arranged = true;
        v->plain_type = plain;
    } else {
        put_together(l, o->op, plain);
    }
}

static void rewrite(layouts *l, lay_op *o)
{
    tw_op *op = o->op;
    if (o->role == TW_ROLE_INSIDE && find_op(l, o->shuffle)->arranged) {
        if (o->leads) {
            unsigned rank = o->shuffle->results[0].type->rank;
            tw_op_set_operand(op, 0, as_arranged(l, tw_operand(op, 0), rank));
            tw_layout_shuffle_apply(l->ctx, op);
        }
        return;
    }
    bool shuffled = o->arranged && o->ends; /* its operand is right */
    for (unsigned i = 0; i < op->n_operands && !shuffled; i++) {
        tw_value *x = tw_operand(op, i);
        tw_value *y = o->arranged && o->takes[i] ? as_arranged(l, x, o->rank) : as_plain(l, x);
        if (y != x)
            tw_op_set_operand(op, i, y);
    }
    if (o->arranged)
        arrange(l, o);
}

/* ---- The pass ---- */

/* The block of `NCHWc`: a vector of the narrowest type that networks compute in. */
static int64_t target_block(const tw_pass_run *pass)
{
    enum { USUAL_LANES = 16 };
    const tw_transform_options *options = pass->user;
    return options && options->lanes ? options->lanes : USUAL_LANES;
}

/* Reads the option; false for a word that is none. */
static bool read_goal(const tw_pass_run *pass, tw_layout_goal *goal, bool *plain)
{
    const char *word = tw_pass_string(pass, "layout", "NHWC");
    *goal = (tw_layout_goal){.ctx = pass->ctx};
    *plain = !strcmp(word, "plain");
    if (!strcmp(word, "NCHWc"))
        goal->block = target_block(pass);
    else if (!*plain &&
             tw_layout_read(tw_attr_string(pass->ctx, word), &goal->block) == TW_LAYOUT_UNKNOWN)
        return tw_error(pass->ctx, NULL,
                        "pass 'convert-layout': layout is '%s', must be NHWC, NCHWc, NCHW16c with "
                        "any number, or plain",
                        word);
    if (!strcmp(word, "NHWC"))
        goal->block = 0;
    return true;
}

static bool run(tw_pass_run *pass)
{
    tw_arena *arena = tw_context_arena(pass->ctx);
    layouts l = {.ctx = pass->ctx,
                 .arena = arena,
                 .by_op = tw_map_make(arena),
                 .by_value = tw_map_make(arena)};
    bool plain;
    if (!read_goal(pass, &l.goal, &plain))
        return false;
    if (plain)
        return true;
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
        o->arranged = o->arranged && pass->changes < pass->max_changes;
        pass->changes += o->arranged;
        if (o->arranged)
            read_operands(&l, o);
    }
    for (size_t i = 0; i < l.ops.len; i++)
        rewrite(&l, &l.ops.data[i]);
    return true;
}

static const tw_attr_spec options[] = {
    {"layout", TW_ATTR_STRING, false,
     "NHWC (default), NCHWc with blocks of the target's vectors, NCHW16c …, or plain: none"},
    {0},
};

const tw_pass tw_pass_convert_layout = {
    .name = "convert-layout",
    .summary = "networks of convolutions work on channels-last data",
    .anchor = "core.func",
    .optional = true,
    .run = run,
    .options = options,
};
