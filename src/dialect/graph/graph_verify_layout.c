/* graph_verify_layout.c: the layouts of an operation's operands and results go together. */
#include "dialect/graph/data_axes.h"
#include "dialect/graph/graph_verify_impl.h"

#include <stdio.h>

/* A tensor of the operation; results are numbered behind the operands. */
static tw_type tensor(const tw_graph_check *c, unsigned i)
{
    return i < c->op->n_operands ? tw_gv_in(c, i) : tw_gv_out(c, i - c->op->n_operands);
}

static const char *name(const tw_graph_check *c, unsigned i, char *room, size_t size)
{
    bool result = i >= c->op->n_operands;
    snprintf(room, size, "%s %u", result ? "result" : "operand",
             result ? i - c->op->n_operands : i);
    return room;
}

static bool contradict(const tw_graph_check *c, unsigned i, unsigned k, const char *rule)
{
    char a[32], b[32];
    return tw_gv_error(c, "%s is %s, but %s is %s; %s", name(c, i, a, sizeof a),
                       tw_print_type(c->ctx, tensor(c, i)), name(c, k, b, sizeof b),
                       tw_print_type(c->ctx, tensor(c, k)), rule);
}

/* A convolution computes from any blocks to any; the others keep them. */
static bool check_read(const tw_graph_check *c)
{
    tw_graph_kind kind = tw_graph_kind_of(c->op);
    tw_attr in = tw_gv_in(c, 0)->layout, out = tw_gv_out(c, 0)->layout;
    bool any_block = kind == TW_GRAPH_CONV || kind == TW_GRAPH_CONV_TRANSPOSE;
    return in == out || (any_block && in && out && tw_layouts_agree(in, out)) ||
           contradict(c, 0, c->op->n_operands, "the operation computes by one layout");
}

/* Operations that name no axes of their own, or axes of the result as of the operands. */
static bool keeps_layout(const tw_op *op)
{
    switch (tw_graph_kind_of(op)) {
    case TW_GRAPH_EXPAND:
    case TW_GRAPH_SLICE:
    case TW_GRAPH_CONCAT:
    case TW_GRAPH_PAD:
    case TW_GRAPH_TILE:
    case TW_GRAPH_GATHER_ELEMENTS:
    case TW_GRAPH_SCATTER_ELEMENTS:
    case TW_GRAPH_RESIZE:
    case TW_GRAPH_SOFTMAX:
    case TW_GRAPH_LOG_SOFTMAX:
    case TW_GRAPH_CUMSUM:
    case TW_GRAPH_TOP_K:
    case TW_GRAPH_LAYER_NORM:
    case TW_GRAPH_RMS_NORM:
        return true;
    default:
        return op->def->traits & TW_TRAIT_ELEMENTWISE || tw_op_bool(op, "keepdims", false);
    }
}

bool tw_graph_verify_layouts(const tw_graph_check *c)
{
    if (tw_reads_layout(c->op))
        return check_read(c);
    unsigned named = 0, n = c->op->n_operands + c->op->n_results;
    for (unsigned i = 0; i < n && keeps_layout(c->op); i++)
        if (!tensor(c, named)->layout)
            named = i;
        else if (!tw_layouts_agree(tensor(c, named)->layout, tensor(c, i)->layout))
            return contradict(c, named, i, "an operation's tensors have one layout");
    return true;
}
