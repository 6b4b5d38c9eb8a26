/* layout.c: how each operation of the graph dialect works on arranged data. */
#include "transform/layout.h"

#include "dialect/graph/data_axes.h"

#include <stdlib.h>
#include <string.h>

/* How an operation's attributes speak of axes. */
enum {
    AXIS = 1 << 0,     /* `axis` */
    AXES = 1 << 1,     /* `axes`, a set */
    PER_AXIS = 1 << 2, /* pads_begin, pads_end, starts, steps, repeats, scales: one per axis */
    READS = 1 << 3,    /* computes by the types' layout */
    ALL_DATA = 1 << 4, /* all operands are data, not only the first */
    KEEPDIMS = 1 << 5, /* without `keepdims` the result has fewer axes */
    WANTS = 1 << 6,    /* works best on arranged data */
};

static unsigned attributes_of(const tw_op *op)
{
    switch (tw_graph_kind_of(op)) {
    case TW_GRAPH_CONV:
    case TW_GRAPH_CONV_TRANSPOSE:
        return READS | WANTS;
    case TW_GRAPH_MAX_POOL:
    case TW_GRAPH_AVG_POOL:
    case TW_GRAPH_BATCH_NORM:
    case TW_GRAPH_INSTANCE_NORM:
    case TW_GRAPH_LRN:
        return READS;
    case TW_GRAPH_CONCAT:
    case TW_GRAPH_GATHER_ELEMENTS:
        return AXIS | ALL_DATA;
    case TW_GRAPH_SOFTMAX:
    case TW_GRAPH_LOG_SOFTMAX:
    case TW_GRAPH_CUMSUM:
        return AXIS;
    case TW_GRAPH_ARG_MAX:
    case TW_GRAPH_ARG_MIN:
        return AXIS | KEEPDIMS;
    case TW_GRAPH_REDUCE_SUM:
    case TW_GRAPH_REDUCE_MEAN:
    case TW_GRAPH_REDUCE_MAX:
    case TW_GRAPH_REDUCE_MIN:
    case TW_GRAPH_REDUCE_PROD:
        return AXES | KEEPDIMS;
    case TW_GRAPH_PAD:
    case TW_GRAPH_SLICE:
    case TW_GRAPH_TILE:
    case TW_GRAPH_RESIZE:
        return PER_AXIS;
    case TW_GRAPH_EXPAND:
        return ALL_DATA;
    default:
        return op->def->traits & TW_TRAIT_ELEMENTWISE && tw_graph_kind_of(op) != TW_GRAPH_COUNT
                   ? ALL_DATA
                   : 0;
    }
}

unsigned tw_layout_rank(const tw_op *op)
{
    bool own = attributes_of(op) & KEEPDIMS || tw_is_graph(op, TW_GRAPH_RESHAPE);
    return own ? tw_operand(op, 0)->type->rank : op->results[0].type->rank;
}

/* A reshape of the spatial axes alone: N and C stay, so what it says of N x C x space also holds of
 * N x space x C. */
static bool reshapes_space(const tw_op *op)
{
    if (!tw_is_graph(op, TW_GRAPH_RESHAPE))
        return false;
    tw_type from = tw_operand(op, 0)->type, to = op->results[0].type;
    return from->rank >= 3 && to->rank >= 3 && from->dims[0] == to->dims[0] &&
           from->dims[1] == to->dims[1];
}

/* ---- Channel shuffles ---- */

/* The operation of that kind that makes the first operand for op alone, or NULL. */
static tw_op *sole_producer(const tw_op *op, tw_graph_kind kind)
{
    const tw_value *x = tw_operand(op, 0);
    return x->op && tw_is_graph(x->op, kind) && tw_value_has_one_use(x) ? x->op : NULL;
}

/* Whether the transpose moves only axes 1 to `channels`. */
static bool moves_channels_alone(const tw_op *transpose, unsigned channels)
{
    int64_t perm[TW_MAX_RANK];
    int n = tw_op_ints(transpose, "perm", perm, TW_MAX_RANK);
    for (int i = 0; i < n; i++)
        if ((i == 0 || i > (int)channels) && perm[i] != i)
            return false;
    return true;
}

tw_op *tw_layout_shuffle(const tw_op *op)
{
    if (!tw_is_graph(op, TW_GRAPH_RESHAPE))
        return NULL;
    const tw_op *transpose = sole_producer(op, TW_GRAPH_TRANSPOSE);
    tw_op *first = transpose ? sole_producer(transpose, TW_GRAPH_RESHAPE) : NULL;
    tw_type type = op->results[0].type;
    if (!first || tw_operand(first, 0)->type != type || type->rank < 3)
        return NULL;
    tw_type split = first->results[0].type;
    if (split->rank <= type->rank || split->dims[0] != type->dims[0])
        return NULL;
    unsigned more = split->rank - type->rank;
    for (unsigned i = 2; i < type->rank; i++)
        if (split->dims[i + more] != type->dims[i])
            return NULL;
    return moves_channels_alone(transpose, 1 + more) ? first : NULL;
}

tw_value *tw_layout_operand(const tw_op *op, unsigned i)
{
    const tw_op *first = i == 0 ? tw_layout_shuffle(op) : NULL;
    return tw_operand(first ? first : op, i);
}

/* N x C… x space -> N x space x C…, with `channels` axes of C. */
static tw_type split_last(tw_context *ctx, tw_type type, unsigned channels)
{
    tw_expr dims[TW_MAX_RANK];
    unsigned space = type->rank - 1 - channels;
    for (unsigned i = 0; i < type->rank; i++)
        dims[i == 0 ? 0 : i <= channels ? i + space : i - channels] = type->dims[i];
    return tw_type_tensor(ctx, type->elem, type->rank, dims, NULL);
}

void tw_layout_shuffle_apply(tw_context *ctx, tw_op *first)
{
    tw_op *transpose = first->results[0].uses->user;
    int64_t old[TW_MAX_RANK], perm[TW_MAX_RANK];
    unsigned rank = (unsigned)tw_op_ints(transpose, "perm", old, TW_MAX_RANK);
    unsigned space = tw_operand(first, 0)->type->rank - 2, channels = rank - 1 - space;
    for (unsigned i = 0; i <= space; i++)
        perm[i] = i;
    for (unsigned i = 1; i <= channels; i++)
        perm[space + i] = (int64_t)space + old[i];
    first->results[0].type = split_last(ctx, first->results[0].type, channels);
    transpose->results[0].type = split_last(ctx, transpose->results[0].type, channels);
    tw_op_set_attr(transpose, "perm", tw_attr_ints(ctx, perm, rank));
}

/* ---- Axes ---- */

/* Where axis `a` of plain data is in arranged data; of the channels, where their blocks are. */
static int64_t renamed(const tw_layout_goal *goal, int64_t a, unsigned rank)
{
    if (goal->block || a == 0)
        return a;
    return a == 1 ? (int64_t)rank - 1 : a - 1;
}

/* The axes that a reduction takes away or keeps with size 1. */
static int reduced_axes(const tw_op *op, int64_t *axes)
{
    int n = tw_op_ints(op, "axes", axes, TW_MAX_RANK);
    if (n >= 0)
        return n;
    axes[0] = tw_op_int(op, "axis", 0);
    return 1;
}

/* Whether the axes that are left have the same order in both layouts: the channels are gone or
 * nothing is left behind them. */
static bool keeps_order(const tw_op *op)
{
    int64_t axes[TW_MAX_RANK];
    int n = reduced_axes(op, axes);
    bool channels = false;
    int spatial = 0;
    for (int i = 0; i < n; i++) {
        channels |= axes[i] == 1;
        spatial += axes[i] > 1;
    }
    return channels || spatial == (int)tw_layout_rank(op) - 2;
}

bool tw_layout_has_result(const tw_op *op)
{
    return !(attributes_of(op) & KEEPDIMS) || tw_op_bool(op, "keepdims", true);
}

bool tw_layout_is_data(const tw_op *op, unsigned i)
{
    return (i == 0 || attributes_of(op) & ALL_DATA) &&
           tw_layout_operand(op, i)->type->rank == tw_layout_rank(op);
}

/* ---- Blocks ---- */

/* The channels of a block: as many as fill a vector or a part of one, or else all; 0 when the
 * number of channels is not known, or none. */
static int64_t block_of(const tw_layout_goal *goal, tw_expr channels)
{
    enum { LEAST = 4 };
    int64_t n;
    if (!tw_expr_as_const(channels, &n) || n < 1)
        return 0;
    for (int64_t block = goal->block; block >= LEAST; block /= 2)
        if (n % block == 0)
            return block;
    return n;
}

static int64_t block_of_type(const tw_layout_goal *goal, tw_type plain)
{
    return block_of(goal, plain->dims[1]);
}

/* The size of axis 1 of `rank` of an operand that broadcasts to it. */
static tw_expr broadcast_channels(const tw_layout_goal *goal, tw_type type, unsigned rank)
{
    unsigned missing = rank - type->rank;
    return missing > 1 ? tw_expr_const(goal->ctx, 1) : type->dims[1 - missing];
}

/* Whether all operands have the channels of the result or one, each in blocks. */
static bool blocks_broadcast(const tw_layout_goal *goal, const tw_op *op)
{
    tw_type result = op->results[0].type;
    for (unsigned i = 0; i < op->n_operands; i++) {
        tw_expr n = broadcast_channels(goal, tw_operand(op, i)->type, result->rank);
        if (n != result->dims[1] && n != tw_expr_const(goal->ctx, 1))
            return false;
    }
    return true;
}

/* Whether an array of numbers has that one for the channels. */
static bool has_channel_number(const tw_op *op, const char *name, int64_t value)
{
    tw_attr list = tw_op_attr(op, name);
    if (!list || list->kind != TW_ATTR_ARRAY || list->u.array.n < 2)
        return true;
    tw_attr item = list->u.array.items[1];
    return item->kind == TW_ATTR_INT && item->u.integer == value;
}

/* Whether the operation takes channels in whole blocks, equal ones before and after. */
static bool keeps_blocks(const tw_layout_goal *goal, const tw_op *op)
{
    tw_attr starts = tw_op_attr(op, "starts");
    int64_t block = block_of_type(goal, op->results[0].type), start = 0;
    if (starts && starts->u.array.items[1]->kind != TW_ATTR_INT)
        return false;
    start = starts ? starts->u.array.items[1]->u.integer : 0;
    for (unsigned i = 0; i < op->n_operands; i++)
        if (tw_layout_is_data(op, i) && block_of_type(goal, tw_operand(op, i)->type) != block)
            return false;
    return start % block == 0 && has_channel_number(op, "steps", 1) &&
           has_channel_number(op, "pads_begin", 0) && has_channel_number(op, "pads_end", 0);
}

/* Whether an operation that works on either order works on blocks, too. */
static bool works_on_blocks(const tw_layout_goal *goal, const tw_op *op)
{
    unsigned attributes = attributes_of(op);
    tw_type x = tw_operand(op, 0)->type, result = op->results[0].type;
    if (x->rank == TW_MAX_RANK || result->rank == TW_MAX_RANK)
        return false;
    if (attributes & KEEPDIMS)
        return block_of_type(goal, x) && !(attributes & AXIS && tw_op_int(op, "axis", 0) == 1);
    if (!block_of_type(goal, result))
        return false;
    if (attributes & ALL_DATA && !(attributes & AXIS))
        return blocks_broadcast(goal, op);
    if (!block_of_type(goal, x))
        return false;
    if (tw_is_graph(op, TW_GRAPH_CONCAT))
        return keeps_blocks(goal, op);
    if (attributes & AXIS)
        return tw_op_int(op, "axis", 0) != 1 && keeps_blocks(goal, op);
    if (tw_is_graph(op, TW_GRAPH_RESIZE))
        return !tw_op_attr(op, "roi") && result->dims[1] == tw_operand(op, 0)->type->dims[1];
    return !(attributes & PER_AXIS) || keeps_blocks(goal, op);
}

/* ---- Roles ---- */

tw_layout_role tw_layout_role_of(const tw_layout_goal *goal, const tw_op *op)
{
    if (tw_is_graph(op, TW_GRAPH_TRANSPOSE))
        return TW_ROLE_TRANSPOSE;
    bool shuffle = tw_layout_shuffle(op);
    unsigned attributes = attributes_of(op);
    if (shuffle || reshapes_space(op))
        return !goal->block || (!shuffle && works_on_blocks(goal, op)) ? TW_ROLE_EITHER
                                                                       : TW_ROLE_PLAIN;
    if (!attributes || op->n_results != 1 || tw_layout_rank(op) < 3 ||
        op->results[0].type->layout || tw_operand(op, 0)->type->layout ||
        (!tw_layout_has_result(op) && !keeps_order(op)) ||
        (goal->block && !works_on_blocks(goal, op)))
        return TW_ROLE_PLAIN;
    return attributes & WANTS ? TW_ROLE_WANTS : TW_ROLE_EITHER;
}

/* ---- Types ---- */

bool tw_layout_is_view(tw_type type)
{
    int64_t size;
    bool space = false;
    for (unsigned i = 2; i < type->rank; i++)
        space |= !tw_expr_as_const(type->dims[i], &size) || size != 1;
    return !space || (tw_expr_as_const(type->dims[1], &size) && size == 1);
}

tw_type tw_layout_type(const tw_layout_goal *goal, tw_type type)
{
    tw_expr dims[TW_MAX_RANK];
    unsigned rank = type->rank;
    for (unsigned i = 0; i < rank; i++)
        dims[renamed(goal, i, rank)] = type->dims[i];
    if (!goal->block)
        return tw_type_tensor(goal->ctx, type->elem, rank, dims, tw_layout_nhwc(goal->ctx));
    int64_t block = block_of_type(goal, type);
    dims[rank] = tw_expr_const(goal->ctx, block);
    dims[1] = tw_expr_binary(goal->ctx, TW_EXPR_FLOORDIV, dims[1], dims[rank]);
    return tw_type_tensor(goal->ctx, type->elem, rank + 1, dims, tw_layout_nchwc(goal->ctx, block));
}

/* ---- Rewriting ---- */

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void rename_axes(const tw_layout_goal *goal, tw_op *op, unsigned rank)
{
    int64_t axes[TW_MAX_RANK + 1];
    int n = tw_op_ints(op, "axes", axes, TW_MAX_RANK);
    bool channels = false;
    for (int i = 0; i < n; i++) {
        channels |= axes[i] == 1;
        axes[i] = renamed(goal, axes[i], rank);
    }
    if (channels && goal->block)
        axes[n++] = rank; /* those of a block as well as the blocks */
    qsort(axes, (size_t)n, sizeof *axes, ascending);
    tw_op_set_attr(op, "axes", tw_attr_ints(goal->ctx, axes, (size_t)n));
}

/* Arrays of one item per axis. Channels come in whole blocks, so within a block the item is the one
 * that changes nothing. */
static const struct {
    const char *name;
    int64_t none;
    bool real;
    bool counts; /* channels, so it is divided by those of a block */
} per_axis[] = {
    {"pads_begin", 0, false, false}, {"pads_end", 0, false, false}, {"starts", 0, false, true},
    {"steps", 1, false, false},      {"repeats", 1, false, false},  {"scales", 1, true, false},
    {"roi", 0, true, false},
};

/* Reorders such an array, or one of several such runs (a region of interest). */
static void reorder(const tw_layout_goal *goal, tw_op *op, size_t which, unsigned rank)
{
    const char *name = per_axis[which].name;
    tw_attr old = tw_op_attr(op, name), items[2 * TW_MAX_RANK + 1];
    if (!old || old->kind != TW_ATTR_ARRAY || old->u.array.n > 2 * (size_t)rank)
        return;
    size_t n = old->u.array.n;
    for (size_t i = 0; i < n; i++)
        items[i / rank * rank + (size_t)renamed(goal, (int64_t)(i % rank), rank)] =
            old->u.array.items[i];
    if (goal->block) {
        int64_t block = block_of_type(goal, op->results[0].type);
        if (per_axis[which].counts)
            items[1] = tw_attr_int(goal->ctx, items[1]->u.integer / block);
        items[n++] = per_axis[which].real ? tw_attr_float(goal->ctx, (double)per_axis[which].none)
                                          : tw_attr_int(goal->ctx, per_axis[which].none);
    }
    tw_op_set_attr(op, name, tw_attr_array(goal->ctx, items, n));
}

/* The type of an arranged operand without the axes of a reduction. */
static tw_type reduced_type(tw_context *ctx, const tw_op *op)
{
    tw_type from = tw_operand(op, 0)->type;
    int64_t axes[TW_MAX_RANK];
    int n = reduced_axes(op, axes);
    tw_expr dims[TW_MAX_RANK];
    unsigned rank = 0;
    for (unsigned i = 0; i < from->rank; i++) {
        bool gone = false;
        for (int k = 0; k < n; k++)
            gone |= axes[k] == i;
        if (!gone)
            dims[rank++] = from->dims[i];
    }
    return tw_type_tensor(ctx, op->results[0].type->elem, rank, dims, NULL);
}

void tw_layout_apply(const tw_layout_goal *goal, tw_op *op, unsigned rank)
{
    unsigned attributes = attributes_of(op);
    if (attributes & AXIS)
        tw_op_set_attr(op, "axis",
                       tw_attr_int(goal->ctx, renamed(goal, tw_op_int(op, "axis", 0), rank)));
    if (attributes & AXES)
        rename_axes(goal, op, rank);
    if (attributes & PER_AXIS)
        for (size_t i = 0; i < sizeof per_axis / sizeof *per_axis; i++)
            reorder(goal, op, i, rank);
    if (tw_layout_has_result(op))
        op->results[0].type = tw_layout_type(goal, op->results[0].type);
    else if (goal->block)
        op->results[0].type = reduced_type(goal->ctx, op);
}
