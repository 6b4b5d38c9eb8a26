/* fuse_rules.c: which operations may share a kernel.
 *
 * Costs. Fusing a producer saves writing and reading its result once, and a kernel's start. It
 * never costs more when the kernel computes each of its elements once. Where the kernel would
 * compute an element several times (a broadcast, a gather with repeats, a window that overlaps the
 * next, a reduction with several passes over its input), only what costs no more than the load it
 * replaces may join. */
#include "transform/fuse_impl.h"

#include <string.h>

bool tw_fuse_is_kernel_op(const tw_op *op)
{
    if (!(op->def->traits & TW_TRAIT_PURE) || op->n_regions || !op->n_results ||
        tw_is_graph(op, TW_GRAPH_CONSTANT))
        return false;
    for (unsigned i = 0; i < op->n_results; i++)
        if (op->results[i].type->kind != TW_TYPE_TENSOR)
            return false;
    return true;
}

bool tw_fuse_is_injective(const tw_op *op)
{
    return tw_fuse_is_kernel_op(op) && op->n_results == 1 &&
           op->def->fusion >= TW_FUSE_ELEMENTWISE && op->def->fusion <= TW_FUSE_INJECTIVE &&
           op->n_operands <= TW_FUSE_MAX_OPERANDS;
}

bool tw_fuse_is_elementwise(const tw_op *op)
{
    return tw_fuse_is_injective(op) && op->def->fusion <= TW_FUSE_BROADCAST;
}

/* ---- Costs ---- */

typedef enum cost {
    COST_FREE,  /* only says where to load from, or converts */
    COST_CHEAP, /* a few instructions: less than a load from the second-level cache */
    COST_DEAR,  /* divisions, roots, exponentials */
} cost;

static cost cost_of(const tw_op *op)
{
    if (op->def->fusion == TW_FUSE_INJECTIVE)
        return tw_is_graph(op, TW_GRAPH_RESIZE) ? COST_DEAR : COST_FREE;
    switch (tw_graph_kind_of(op)) {
    case TW_GRAPH_CAST:
    case TW_GRAPH_BITCAST:
    case TW_GRAPH_EXPAND:
        return COST_FREE;
    case TW_GRAPH_NEG:
    case TW_GRAPH_ABS:
    case TW_GRAPH_NOT:
    case TW_GRAPH_RELU:
    case TW_GRAPH_LEAKY_RELU:
    case TW_GRAPH_ADD:
    case TW_GRAPH_SUB:
    case TW_GRAPH_MUL:
    case TW_GRAPH_MAX:
    case TW_GRAPH_MIN:
    case TW_GRAPH_AND:
    case TW_GRAPH_OR:
    case TW_GRAPH_XOR:
    case TW_GRAPH_EQUAL:
    case TW_GRAPH_LESS:
    case TW_GRAPH_LESS_EQUAL:
    case TW_GRAPH_GREATER:
    case TW_GRAPH_GREATER_EQUAL:
    case TW_GRAPH_WHERE:
    case TW_GRAPH_TRILU:
        return COST_CHEAP;
    default:
        return COST_DEAR;
    }
}

/* Whether the result surely has no more elements than the value. */
static bool is_no_larger(const tw_fuser *f, tw_type result, tw_type value)
{
    int64_t n, m;
    return tw_equal_shapes(&f->equal, result, value) ||
           (tw_type_static_count(result, &n) && tw_type_static_count(value, &m) && n <= m);
}

/* Whether `user`, computed once for each element of its result, needs elements of its operand i
 * more than once. */
static bool repeats_operand(const tw_fuser *f, const tw_op *user, unsigned i)
{
    tw_type result = user->results[0].type, value = tw_operand(user, i)->type;
    switch (tw_graph_kind_of(user)) {
    case TW_GRAPH_RESHAPE:
    case TW_GRAPH_TRANSPOSE:
    case TW_GRAPH_SLICE:
    case TW_GRAPH_CONCAT:
    case TW_GRAPH_SHAPE:
        return false;
    case TW_GRAPH_PAD:
        return i > 0 || strcmp(tw_op_string(user, "mode", "constant"), "constant") != 0;
    case TW_GRAPH_RESIZE: /* each result element reads 1 to 4 elements per axis */
        return true;
    case TW_GRAPH_GATHER:
    case TW_GRAPH_GATHER_ELEMENTS:
    case TW_GRAPH_GATHER_ND:
        return !is_no_larger(f, result, value);
    default:
        return !tw_equal_shapes(&f->equal, result, value);
    }
}

/* ---- Epilogues ---- */

tw_fuse_why tw_fuse_fits_epilogue(const tw_fuser *f, const tw_op *op, const tw_op *anchor)
{
    if (op->def->traits & TW_TRAIT_TERMINATOR)
        return TW_FUSE_WHY_OUTPUT;
    if (tw_is_graph(op, TW_GRAPH_RESHAPE))
        return TW_FUSE_WHY_VIEW;
    if (!tw_fuse_is_kernel_op(op) || op->def->fusion == TW_FUSE_OPAQUE)
        return TW_FUSE_WHY_OPAQUE;
    if (op->def->fusion == TW_FUSE_COMPLEX)
        return anchor->def->fusion == TW_FUSE_COMPLEX ? TW_FUSE_WHY_BOTH_COMPLEX
                                                      : TW_FUSE_WHY_COMPLEX_LAST;
    if (op->def->fusion == TW_FUSE_REDUCTION)
        return TW_FUSE_WHY_REDUCTION_ROOT;
    if (op->def->fusion == TW_FUSE_INJECTIVE)
        return TW_FUSE_WHY_MOVES;
    if (!tw_fuse_is_elementwise(op))
        return TW_FUSE_WHY_LARGE;
    if (tw_is_graph(anchor, TW_GRAPH_ATTENTION))
        return TW_FUSE_WHY_ROWS;
    return tw_equal_shapes(&f->equal, op->results[0].type, anchor->results[0].type)
               ? TW_FUSE_WHY_JOINS
               : TW_FUSE_WHY_SHAPE;
}

/* ---- Prologues of reductions ---- */

typedef struct prologue_rule {
    bool moves; /* index maps too, not only element-wise operations */
    cost most;  /* of what may join */
} prologue_rule;

/* What a reduction takes before it. Windows and several passes repeat; where a window's padding is
 * decided by position, other index maps do not mix in. */
static prologue_rule prologue_of(const tw_op *reduction)
{
    switch (tw_graph_kind_of(reduction)) {
    case TW_GRAPH_REDUCE_SUM:
    case TW_GRAPH_REDUCE_MEAN:
    case TW_GRAPH_REDUCE_MAX:
    case TW_GRAPH_REDUCE_MIN:
    case TW_GRAPH_REDUCE_PROD:
    case TW_GRAPH_ARG_MAX:
    case TW_GRAPH_ARG_MIN:
        return (prologue_rule){true, COST_DEAR};
    case TW_GRAPH_SOFTMAX:
    case TW_GRAPH_LOG_SOFTMAX:
    case TW_GRAPH_LAYER_NORM:
    case TW_GRAPH_RMS_NORM:
    case TW_GRAPH_INSTANCE_NORM:
        return (prologue_rule){false, COST_CHEAP};
    case TW_GRAPH_ATTENTION: /* reads keys and values again for each block of rows */
        return (prologue_rule){true, COST_FREE};
    default: /* pools, lrn, reductions of other dialects */
        return (prologue_rule){false, COST_CHEAP};
    }
}

/* ---- Joining ---- */

/* A node whose users are all in a reduction's group: before the anchor it must suit the anchor,
 * behind it be element-wise on the reduced shape. */
static tw_fuse_why fits_reduction(const tw_fuser *f, const tw_op *op, const tw_fuse_group *group)
{
    const tw_op *anchor = f->nodes.data[group->anchor].op;
    prologue_rule rule = prologue_of(anchor);
    bool before = false, behind = false;
    for (const tw_use *u = op->results[0].uses; u; u = u->next) {
        const tw_fuse_node *user = &f->nodes.data[tw_fuse_number(f, u->user)];
        if (u->user == anchor && u->index > 0 && !tw_is_graph(anchor, TW_GRAPH_ATTENTION))
            return TW_FUSE_WHY_SCALE; /* small, kept whole */
        behind |= user->epilogue;
        before |= !user->epilogue;
    }
    if (behind)
        return before ? TW_FUSE_WHY_CYCLE : tw_fuse_fits_epilogue(f, op, anchor);
    if (!rule.moves && !tw_fuse_is_elementwise(op))
        return TW_FUSE_WHY_MOVES;
    return cost_of(op) <= rule.most ? TW_FUSE_WHY_JOINS : TW_FUSE_WHY_PASSES;
}

/* Whether all axes in front of that of the concatenation have size 1. */
static bool is_outermost(const tw_op *concat)
{
    int64_t axis = tw_op_int(concat, "axis", 0), size;
    for (int64_t i = 0; i < axis; i++)
        if (!tw_expr_as_const(concat->results[0].type->dims[i], &size) || size != 1)
            return false;
    return true;
}

/* Whether a part of the concatenation is computed by another kernel, which can put it where it
 * belongs in the whole: then all parts get kernels that do, and nothing is copied. */
static bool is_done_in_place(const tw_fuser *f, const tw_op *concat, int group)
{
    bool outermost = is_outermost(concat);
    for (unsigned i = 0; i < concat->n_operands; i++) {
        const tw_value *part = tw_operand(concat, i);
        while (outermost && part->op && tw_is_graph(part->op, TW_GRAPH_RESHAPE))
            part = tw_operand(part->op, 0);
        int n = part->op ? tw_fuse_number(f, part->op) : -1;
        if (n >= 0 && tw_fuse_is_kernel_op(part->op) &&
            (!tw_fuse_is_injective(part->op) ||
             (f->nodes.data[n].group >= 0 && f->nodes.data[n].group != group)))
            return true;
    }
    return false;
}

tw_fuse_why tw_fuse_fits_group(const tw_fuser *f, unsigned n, const tw_fuse_group *group,
                               bool *replicated)
{
    const tw_op *op = f->nodes.data[n].op;
    *replicated = false;
    /* Of an open expand nothing is left in the fast version. */
    if (tw_graph_is_open_expand(op) && group->kind != TW_FUSE_OPAQUE)
        return group->members.len < TW_FUSE_MAX_OPS ? TW_FUSE_WHY_JOINS : TW_FUSE_WHY_LARGE;
    if (tw_is_graph(op, TW_GRAPH_CONCAT))
        return TW_FUSE_WHY_CONCAT;
    if (!tw_fuse_is_injective(op) || group->kind == TW_FUSE_OPAQUE)
        return TW_FUSE_WHY_OPAQUE;
    if (group->kind == TW_FUSE_COMPLEX)
        return TW_FUSE_WHY_COMPLEX_LAST;
    if (group->members.len >= TW_FUSE_MAX_OPS)
        return TW_FUSE_WHY_LARGE;
    const tw_op *anchor = f->nodes.data[group->anchor].op;
    if (tw_is_graph(anchor, TW_GRAPH_CONCAT) &&
        is_done_in_place(f, anchor, (int)(group - f->groups.data)))
        return TW_FUSE_WHY_IN_PLACE;
    for (const tw_use *u = op->results[0].uses; u; u = u->next) {
        const tw_fuse_node *user = &f->nodes.data[tw_fuse_number(f, u->user)];
        bool is_anchor =
            group->kind == TW_FUSE_REDUCTION && u->user->def->fusion == TW_FUSE_REDUCTION;
        *replicated |= user->replicated || (!is_anchor && repeats_operand(f, u->user, u->index));
    }
    if (*replicated && cost_of(op) != COST_FREE)
        return TW_FUSE_WHY_DEAR;
    return group->kind == TW_FUSE_INJECTIVE ? TW_FUSE_WHY_JOINS : fits_reduction(f, op, group);
}
