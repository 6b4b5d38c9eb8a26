/* push_slices.c: slices move towards the inputs where a product, a window, a reduction or a
 * normalisation then computes less.
 *
 *   %0 = graph.matmul %x, %w : tensor<197x768xf32>
 *   %1 = graph.gelu %0
 *   %2 = graph.slice %1 {starts = [0, 0], steps = [1, 1]} : tensor<1x768xf32>
 *     =>
 *   %0 = graph.slice %x {…} : tensor<1x3072xf32>
 *   %1 = graph.matmul %0, %w : tensor<1x768xf32>
 *   %2 = graph.gelu %1
 *
 * A convolution of single elements in steps is a slice in steps and a convolution: so the steps
 * become those of the windows before it.
 *
 * All that is between the slice and such an operation must have this one use; several equal slices
 * count as one. Element-wise operations alone gain nothing, since a kernel that is fused with a
 * slice computes no more than this takes; nor do slices that leave more than three quarters. */
#include "transform/canonicalize.h"

#include "dialect/graph/data_axes.h"

#include <string.h>

/* What of a value is taken, axis by axis: element i is start + i * step. */
typedef struct cut {
    unsigned rank;
    tw_expr start[TW_MAX_RANK], size[TW_MAX_RANK];
    int64_t step[TW_MAX_RANK];
} cut;

enum { MAX_DEPTH = 12, MAX_VISITS = 64 };

/* ---- Cuts ---- */

static cut whole(tw_context *ctx, tw_type type)
{
    cut c = {.rank = type->rank};
    for (unsigned i = 0; i < type->rank; i++) {
        c.start[i] = tw_expr_const(ctx, 0);
        c.size[i] = type->dims[i];
        c.step[i] = 1;
    }
    return c;
}

static bool is_whole_axis(const cut *c, tw_type type, unsigned i)
{
    return c->size[i] == type->dims[i] && c->step[i] == 1 && tw_expr_is_const(c->start[i]) &&
           c->start[i]->value == 0;
}

static bool is_whole(const cut *c, tw_type type)
{
    for (unsigned i = 0; i < c->rank; i++)
        if (!is_whole_axis(c, type, i))
            return false;
    return true;
}

static void take_axis(cut *to, unsigned i, const cut *from, unsigned k)
{
    to->start[i] = from->start[k];
    to->size[i] = from->size[k];
    to->step[i] = from->step[k];
}

static bool same_cut(const cut *a, const cut *b)
{
    for (unsigned i = 0; i < a->rank; i++)
        if (a->start[i] != b->start[i] || a->size[i] != b->size[i] || a->step[i] != b->step[i])
            return false;
    return a->rank == b->rank;
}

/* Whether at most three quarters are left; an axis of any size that shrinks to 1 is enough. What
 * is computed where the value is must not depend on sizes that are defined behind it. */
static bool is_worth_it(const cut *c, tw_type type)
{
    double left = 1;
    for (unsigned i = 0; i < c->rank; i++) {
        int64_t before, after;
        if (!tw_expr_is_const(c->start[i]))
            return false;
        if (c->size[i] == type->dims[i])
            continue;
        if (!tw_expr_as_const(c->size[i], &after) || after == 0)
            return false;
        if (tw_expr_as_const(type->dims[i], &before))
            left *= (double)after / (double)before;
        else if (after == 1)
            left *= 0.5;
        else
            return false;
    }
    return left <= 0.75;
}

static bool is_plain_product(const tw_op *op)
{
    return !tw_op_attr(op, "b_panel") && !tw_op_bool(op, "dot", false) &&
           !strcmp(tw_op_string(op, "kernel_layout", "OI"), "OI");
}

/* What a user takes of its first operand: a slice, or a convolution of single elements in steps. */
static bool cut_of_user(tw_context *ctx, const tw_op *op, cut *c)
{
    tw_type type = op->n_operands ? tw_operand(op, 0)->type : NULL;
    if (tw_is_graph(op, TW_GRAPH_SLICE)) {
        c->rank = type->rank;
        tw_graph_exprs(ctx, op, "starts", c->start, TW_MAX_RANK);
        tw_op_ints(op, "steps", c->step, TW_MAX_RANK);
        memcpy(c->size, op->results[0].type->dims, type->rank * sizeof *c->size);
        return true;
    }
    if (!tw_is_graph(op, TW_GRAPH_CONV) || !is_plain_product(op) ||
        tw_operand(op, 0) == tw_operand(op, 1) || tw_data_axes_of(type).lane)
        return false;
    tw_data_axes axes = tw_data_axes_of(type);
    unsigned first = axes.space, spatial = axes.n_space;
    tw_expr begin[TW_MAX_RANK], end[TW_MAX_RANK], zero = tw_expr_const(ctx, 0);
    *c = whole(ctx, type);
    tw_op_ints(op, "strides", c->step + first, TW_MAX_RANK);
    tw_graph_exprs(ctx, op, "pads_begin", begin, TW_MAX_RANK);
    tw_graph_exprs(ctx, op, "pads_end", end, TW_MAX_RANK);
    for (unsigned i = 0; i < spatial; i++) {
        if (begin[i] != zero || end[i] != zero ||
            tw_operand(op, 1)->type->dims[2 + i] != tw_expr_const(ctx, 1))
            return false;
        c->size[first + i] = op->results[0].type->dims[first + i];
    }
    return !is_whole(c, type);
}

/* Whether all that uses the value takes the same of it. */
static bool same_users(tw_context *ctx, const tw_value *value, const cut *c)
{
    for (const tw_use *use = value->uses; use; use = use->next) {
        cut other;
        if (use->index != 0 || !cut_of_user(ctx, use->user, &other) || !same_cut(c, &other))
            return false;
    }
    return true;
}

/* ---- Through an operation ---- */

/* Operand axes that broadcast to the last axes of the result, from axis 0 to `n` of the operand. */
static bool cut_broadcast(const cut *c, tw_type result, tw_type type, unsigned n, cut *out)
{
    unsigned offset = result->rank - type->rank;
    for (unsigned i = 0; i < n; i++)
        if (type->dims[i] == result->dims[i + offset])
            take_axis(out, i, c, i + offset);
        else if (!tw_expr_is_const(type->dims[i]) || type->dims[i]->value != 1)
            return false;
    return true;
}

/* Axes of the same size from the front and from the back, axes of size 1 aside, are one axis. */
static bool cut_reshape(const cut *c, tw_type result, tw_type type, cut *out)
{
    bool done[TW_MAX_RANK] = {0};
    for (int back = 0; back < 2; back++) {
        unsigned i = 0, k = 0;
        while (i < result->rank && k < type->rank) {
            unsigned r = back ? result->rank - 1 - i : i, x = back ? type->rank - 1 - k : k;
            bool unit = tw_expr_is_const(result->dims[r]) && result->dims[r]->value == 1;
            if (result->dims[r] == type->dims[x]) {
                take_axis(out, x, c, r);
                done[r] = true;
                i++;
                k++;
            } else if (unit) {
                i++;
            } else if (tw_expr_is_const(type->dims[x]) && type->dims[x]->value == 1) {
                k++;
            } else {
                break;
            }
        }
    }
    for (unsigned i = 0; i < result->rank; i++)
        if (!done[i] && !is_whole_axis(c, result, i))
            return false;
    return true;
}

/* Whether both operands are batches: so are scores and values of attention, which is one operation
 * with a kernel for all rows. */
static bool is_of_batches(const tw_op *op)
{
    tw_type a = tw_operand(op, 0)->type, b = tw_operand(op, 1)->type;
    for (unsigned i = 2; i < a->rank && i < b->rank; i++) {
        tw_expr m = a->dims[a->rank - 1 - i], n = b->dims[b->rank - 1 - i];
        if ((!tw_expr_is_const(m) || m->value != 1) && (!tw_expr_is_const(n) || n->value != 1))
            return true;
    }
    return false;
}

static bool cut_product(const tw_op *op, unsigned i, const cut *c, cut *out)
{
    tw_type result = op->results[0].type, type = tw_operand(op, i)->type;
    bool swapped = tw_op_bool(op, i ? "transpose_b" : "transpose_a", false);
    if (!is_plain_product(op) || is_of_batches(op) ||
        !cut_broadcast(c, result, type, type->rank - 2, out))
        return false;
    unsigned own = type->rank - ((i == 0) == swapped ? 1 : 2);
    take_axis(out, own, c, result->rank - (i ? 1 : 2));
    return true;
}

/* Windows at every step-th place from the first on. */
static bool steps_over_windows(const cut *c, tw_type result, unsigned i)
{
    int64_t before, after;
    return is_whole_axis(c, result, i) ||
           (tw_expr_is_const(c->start[i]) && c->start[i]->value == 0 && c->step[i] > 0 &&
            tw_expr_as_const(result->dims[i], &before) && tw_expr_as_const(c->size[i], &after) &&
            after == (before + c->step[i] - 1) / c->step[i]);
}

static bool cut_windows(const tw_op *op, unsigned i, const cut *c, cut *out)
{
    tw_type result = op->results[0].type;
    tw_data_axes axes = tw_data_axes_of(result);
    unsigned channel = axes.channel;
    bool conv = tw_is_graph(op, TW_GRAPH_CONV);
    for (unsigned k = 1; k < result->rank; k++)
        if (k != channel && !steps_over_windows(c, result, k))
            return false;
    if (axes.lane)
        return false; /* channels are two axes */
    if (conv && (!is_plain_product(op) ||
                 (tw_op_int(op, "groups", 1) != 1 && !is_whole_axis(c, result, channel))))
        return false;
    if (i == 0)
        take_axis(out, 0, c, 0);
    if (!conv || i == 1)
        take_axis(out, conv ? 0 : channel, c, channel);
    return true;
}

static bool cut_reduction(const tw_op *op, const cut *c, cut *out)
{
    int64_t axes[TW_MAX_RANK];
    int n = tw_op_ints(op, "axes", axes, TW_MAX_RANK), next = 0;
    bool keep = tw_op_bool(op, "keepdims", false);
    for (unsigned i = 0, k = 0; i < out->rank; i++) {
        if (next < n && axes[next] == (int64_t)i) {
            next++;
            if (keep && !is_whole_axis(c, op->results[0].type, k++))
                return false;
        } else {
            take_axis(out, i, c, k++);
        }
    }
    return true;
}

/* Axes from `first` up to `end` must stay whole; the others are those of the first operand. */
static bool cut_rows(const tw_op *op, unsigned i, const cut *c, int64_t first, int64_t end,
                     cut *out)
{
    for (int64_t k = first; k < end; k++)
        if (!is_whole_axis(c, op->results[0].type, (unsigned)k))
            return false;
    if (i == 0)
        *out = *c;
    return true;
}

/* What is taken of operand i when the operation's result is cut; false when that cannot be. */
static bool cut_operand(tw_context *ctx, const tw_op *op, unsigned i, const cut *c, cut *out)
{
    tw_type result = op->results[0].type, type = tw_operand(op, i)->type;
    int64_t perm[TW_MAX_RANK], axis;
    *out = whole(ctx, type);
    switch (tw_graph_kind_of(op)) {
    case TW_GRAPH_TRANSPOSE:
        tw_op_ints(op, "perm", perm, TW_MAX_RANK);
        for (unsigned k = 0; k < type->rank; k++)
            take_axis(out, (unsigned)perm[k], c, k);
        return true;
    case TW_GRAPH_RESHAPE:
        return !tw_op_bool(op, "same_sizes", false) && cut_reshape(c, result, type, out);
    case TW_GRAPH_MATMUL:
        return cut_product(op, i, c, out);
    case TW_GRAPH_CONV:
    case TW_GRAPH_MAX_POOL:
    case TW_GRAPH_AVG_POOL:
        return cut_windows(op, i, c, out);
    case TW_GRAPH_REDUCE_SUM:
    case TW_GRAPH_REDUCE_MEAN:
    case TW_GRAPH_REDUCE_MAX:
    case TW_GRAPH_REDUCE_MIN:
    case TW_GRAPH_REDUCE_PROD:
        return cut_reduction(op, c, out);
    case TW_GRAPH_SOFTMAX:
    case TW_GRAPH_LOG_SOFTMAX:
        axis = tw_op_int(op, "axis", 0);
        return cut_rows(op, i, c, axis, axis + 1, out);
    case TW_GRAPH_LAYER_NORM:
    case TW_GRAPH_RMS_NORM:
        return cut_rows(op, i, c, tw_op_int(op, "axis", 0), result->rank, out);
    case TW_GRAPH_BATCH_NORM:
        axis = tw_data_axes_of(result).channel;
        return !tw_data_axes_of(result).lane && cut_rows(op, i, c, axis, axis + 1, out);
    case TW_GRAPH_COUNT:
    case TW_GRAPH_CONSTANT:
        return false;
    default:
        return op->def->traits & TW_TRAIT_ELEMENTWISE &&
               cut_broadcast(c, result, type, type->rank, out);
    }
}

/* ---- Looking ahead ---- */

typedef enum gain {
    GAIN_NONE,
    GAIN_SOME,
    GAIN_BLOCKED, /* an operation that cannot be cut would lose what is fused behind it */
} gain;

static bool does_work(const tw_op *op)
{
    return op->def->fusion == TW_FUSE_COMPLEX || op->def->fusion == TW_FUSE_REDUCTION;
}

/* What cutting a value with no other use brings. */
static gain gain_of(tw_context *ctx, const tw_value *value, const cut *c, unsigned depth,
                    unsigned *visits)
{
    const tw_op *op = value->op;
    gain best = GAIN_NONE;
    if (!op || op->n_results != 1 || tw_graph_kind_of(op) == TW_GRAPH_COUNT || op->n_regions ||
        depth > MAX_DEPTH || (*visits)-- <= 1)
        return GAIN_NONE;
    for (unsigned i = 0; i < op->n_operands; i++) {
        cut inner;
        if (!cut_operand(ctx, op, i, c, &inner))
            return does_work(op) ? GAIN_BLOCKED : GAIN_NONE;
        if (does_work(op))
            best = GAIN_SOME;
        const tw_value *x = tw_operand(op, i);
        if (does_work(op) || is_whole(&inner, x->type) || !tw_value_has_one_use(x))
            continue;
        gain g = gain_of(ctx, x, &inner, depth + 1, visits);
        if (g == GAIN_BLOCKED)
            return g;
        best = g == GAIN_SOME ? g : best;
    }
    return best;
}

/* ---- Rewriting ---- */

static tw_value *take(tw_builder *b, tw_value *x, const cut *c)
{
    if (is_whole(c, x->type))
        return x;
    tw_type type = tw_type_tensor(b->ctx, x->type->elem, c->rank, c->size, x->type->layout);
    return tw_graph_build(b, TW_GRAPH_SLICE, &x, 1, type, "starts",
                          tw_graph_exprs_attr(b->ctx, c->start, c->rank), "steps",
                          tw_attr_ints(b->ctx, c->step, c->rank), NULL);
}

/* Windows in the steps of the cut as well. */
static void widen_strides(tw_context *ctx, tw_op *op, const cut *c)
{
    int64_t strides[TW_MAX_RANK];
    int n = tw_op_ints(op, "strides", strides, TW_MAX_RANK);
    unsigned first = tw_data_axes_of(op->results[0].type).space;
    for (int i = 0; i < n; i++)
        strides[i] *= c->step[first + (unsigned)i];
    tw_op_set_attr(op, "strides", tw_attr_ints(ctx, strides, (size_t)n));
}

/* The operation again, before the builder's place, for the cut alone. */
static tw_value *rebuild(tw_builder *b, const tw_op *op, const cut *c)
{
    tw_value *operands[5];
    for (unsigned i = 0; i < op->n_operands; i++) {
        cut inner;
        cut_operand(b->ctx, op, i, c, &inner);
        operands[i] = take(b, tw_operand(op, i), &inner);
    }
    tw_type type = op->results[0].type;
    type = tw_type_tensor(b->ctx, type->elem, c->rank, c->size, type->layout);
    tw_op *made = tw_op_create(b->ctx, op->def, op->loc, operands, op->n_operands, &type, 1,
                               op->attrs, op->n_attrs, 0);
    tw_op_insert(made, b->region, b->before);
    if (tw_op_attr(op, "strides"))
        widen_strides(b->ctx, made, c);
    return tw_result(made, 0);
}

/* The user takes the cut value, of which it needs all. */
static void use_cut(tw_rewriter *rw, tw_op *user, tw_value *value)
{
    if (tw_is_graph(user, TW_GRAPH_SLICE)) {
        tw_rw_replace(rw, user, &value);
        return;
    }
    int64_t ones[TW_MAX_RANK];
    for (unsigned i = 0; i < TW_MAX_RANK; i++)
        ones[i] = 1;
    tw_op_set_operand(user, 0, value);
    tw_op_set_attr(user, "strides", tw_attr_ints(tw_rw_context(rw), ones, value->type->rank - 2));
    tw_rw_changed(rw, user);
}

bool tw_canon_push_slice(tw_rewriter *rw, tw_op *op)
{
    tw_context *ctx = tw_rw_context(rw);
    unsigned visits = MAX_VISITS;
    cut c;
    tw_value *x = tw_operand(op, 0);
    if (!x->op || x->op->n_operands > 5 || !cut_of_user(ctx, op, &c) || !is_worth_it(&c, x->type) ||
        !same_users(ctx, x, &c) || gain_of(ctx, x, &c, 0, &visits) != GAIN_SOME)
        return false;
    tw_op *producer = x->op;
    tw_value *value = rebuild(tw_rw_builder(rw, producer), producer, &c);
    while (x->uses)
        use_cut(rw, x->uses->user, value);
    return true;
}
