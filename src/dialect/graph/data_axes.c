/* data_axes.c: where the channels and the space of a tensor are. */
#include "dialect/graph/data_axes.h"

tw_data_axes tw_data_axes_of(tw_type type)
{
    int64_t block;
    unsigned rank = type->rank;
    switch (tw_layout_read(type->layout, &block)) {
    case TW_LAYOUT_NHWC:
        return (tw_data_axes){.space = 1, .n_space = rank - 2, .channel = rank - 1, .block = 1};
    case TW_LAYOUT_NCHWC:
        return (tw_data_axes){
            .space = 2, .n_space = rank - 3, .channel = 1, .lane = rank - 1, .block = block};
    default:
        return (tw_data_axes){.space = 2, .n_space = rank - 2, .channel = 1, .block = 1};
    }
}

tw_expr tw_data_channels(tw_context *ctx, tw_type type)
{
    tw_data_axes axes = tw_data_axes_of(type);
    return tw_expr_mulc(ctx, type->dims[axes.channel], axes.block);
}

bool tw_reads_layout(const tw_op *op)
{
    switch (tw_graph_kind_of(op)) {
    case TW_GRAPH_CONV:
    case TW_GRAPH_CONV_TRANSPOSE:
    case TW_GRAPH_MAX_POOL:
    case TW_GRAPH_AVG_POOL:
    case TW_GRAPH_BATCH_NORM:
    case TW_GRAPH_INSTANCE_NORM:
    case TW_GRAPH_LRN:
        return true;
    default:
        return false;
    }
}

bool tw_layouts_agree(tw_attr a, tw_attr b)
{
    int64_t block;
    return !a || !b || a == b ||
           (tw_layout_read(a, &block) == TW_LAYOUT_NCHWC &&
            tw_layout_read(b, &block) == TW_LAYOUT_NCHWC);
}

/* Whether all types of the operand's operation go with the layout. */
static bool all_agree(const tw_op *op, tw_attr layout)
{
    for (unsigned i = 0; i < op->n_operands; i++)
        if (!tw_layouts_agree(tw_operand(op, i)->type->layout, layout))
            return false;
    for (unsigned i = 0; i < op->n_results; i++)
        if (!tw_layouts_agree(op->results[i].type->layout, layout))
            return false;
    return true;
}

bool tw_takes_layout(const tw_use *use, tw_attr layout)
{
    switch (tw_graph_kind_of(use->user)) {
    case TW_GRAPH_COUNT: /* of another dialect: types are signatures */
    case TW_GRAPH_GROUP:
    case TW_GRAPH_YIELD:
    case TW_GRAPH_IF:
    case TW_GRAPH_LOOP:
        return false;
    case TW_GRAPH_RESHAPE:
    case TW_GRAPH_TRANSPOSE:
        return true;
    default:
        return (use->index || !tw_reads_layout(use->user)) && all_agree(use->user, layout);
    }
}
