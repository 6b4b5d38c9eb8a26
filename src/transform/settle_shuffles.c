/* settle_shuffles.c: channel shuffles in front of convolutions go into their weights.
 *
 *   %1 = reshape (transpose (reshape %x))       // channels of %x in another order
 *   %2 = graph.conv %1, %w                  ->  %2 = graph.conv %x, %w'
 *
 * also through operations between the two that compute each channel for itself, the constants of
 * which are put in order as well. A part of a shuffle are neighbours in each of its groups,
 *
 *   %1 = reshape (transpose (%0 = reshape %x : 1x6x6x2x8))
 *   %2 = slice %1 : 1x6x6x8                      // behind 0, or behind 8
 *   %3 = graph.conv %2, %w : 1x6x6x4, NHWC
 *     =>
 *   %1 = slice %0 : 1x6x6x2x4, NHWC              // read where it lies
 *   %2 = graph.conv %1, %w' : 1x6x6x1x4, NHWC    // the groups are an axis of the window
 *
 * and when that was all but one of a shuffle's uses, the last, if it is a part, too, is shuffled
 * alone. A convolution sums in any order; constants are reordered by operations that fold-constants
 * evaluates. */
#include "transform/settle.h"

#include "dialect/graph/data_axes.h"
#include "transform/build.h"
#include "transform/constants.h"

#include <string.h>

/* ---- Shuffles ---- */

/* A shuffle of the channels of channels-last data. */
typedef struct shuffle {
    tw_value *x;
    tw_value *split; /* x with its channels cut into n axes */
    tw_attr perm;    /* of split; only those axes move */
    unsigned first;  /* of those axes */
    unsigned n;
    int64_t order[TW_MAX_RANK]; /* axis i of the shuffled ones is axis order[i] of split's */
    int64_t sizes[TW_MAX_RANK]; /* of the shuffled axes */
} shuffle;

static tw_op *producer(const tw_value *value, tw_graph_kind kind)
{
    return value->op && tw_is_graph(value->op, kind) ? value->op : NULL;
}

/* Whether `split` is `x` with its last axis cut in several of known sizes. */
static bool cuts_last(tw_type split, tw_type x)
{
    for (unsigned i = 0; i + 1 < x->rank; i++)
        if (split->dims[i] != x->dims[i])
            return false;
    for (unsigned i = x->rank - 1; i < split->rank; i++)
        if (!tw_expr_is_const(split->dims[i]) || split->dims[i]->value < 1)
            return false;
    return split->rank > x->rank;
}

static bool find_shuffle(const tw_value *value, shuffle *s)
{
    int64_t perm[TW_MAX_RANK];
    const tw_op *joined = producer(value, TW_GRAPH_RESHAPE);
    const tw_op *moved = joined ? producer(tw_operand(joined, 0), TW_GRAPH_TRANSPOSE) : NULL;
    const tw_op *cut = moved ? producer(tw_operand(moved, 0), TW_GRAPH_RESHAPE) : NULL;
    if (!cut || tw_operand(cut, 0)->type != value->type ||
        !cuts_last(cut->results[0].type, value->type))
        return false;
    *s = (shuffle){.x = tw_operand(cut, 0), .split = tw_operand(moved, 0)};
    s->perm = tw_op_attr(moved, "perm");
    s->first = value->type->rank - 1;
    unsigned rank = (unsigned)tw_op_ints(moved, "perm", perm, TW_MAX_RANK);
    s->n = rank - s->first;
    for (unsigned i = 0; i < rank; i++) {
        if (i < s->first ? perm[i] != i : perm[i] < s->first)
            return false;
        if (i >= s->first) {
            s->order[i - s->first] = perm[i] - s->first;
            s->sizes[i - s->first] = tw_type_dim(s->split->type, (unsigned)perm[i]);
        }
    }
    return true;
}

/* A constant that is shuffled along an axis, in the order of the shuffle's operand. */
static tw_value *unshuffled(tw_builder *b, const shuffle *s, tw_value *c, unsigned axis)
{
    tw_expr dims[TW_MAX_RANK];
    int64_t perm[TW_MAX_RANK];
    unsigned rank = c->type->rank;
    for (unsigned i = 0; i < rank + s->n - 1; i++) {
        bool within = i >= axis && i < axis + s->n;
        perm[within ? axis + s->order[i - axis] : i] = i;
        dims[i] = within ? tw_expr_const(b->ctx, s->sizes[i - axis])
                         : c->type->dims[i < axis ? i : i - s->n + 1];
    }
    tw_value *cut = tw_build_reshape(b, c, rank + s->n - 1, dims);
    cut = tw_build_transpose(b, cut, tw_attr_ints(b->ctx, perm, rank + s->n - 1));
    return tw_build_reshape(b, cut, rank, c->type->dims);
}

/* ---- Convolutions that read a shuffle ---- */

/* Weights in the form of the model, known at compile time. */
static bool has_plain_weights(const tw_op *conv)
{
    const tw_value *w = tw_operand(conv, 1);
    int64_t n;
    return !strcmp(tw_op_string(conv, "kernel_layout", "OI"), "OI") &&
           tw_operand(conv, 0)->type->layout == tw_layout_nhwc(tw_op_context(conv)) &&
           tw_type_static_count(w->type, &n) && n && w->type->rank + 3 <= TW_MAX_RANK &&
           tw_depends_on_constants(w);
}

static bool is_depthwise(const tw_op *op)
{
    return tw_is_graph(op, TW_GRAPH_CONV) && has_plain_weights(op) &&
           tw_type_dim(tw_operand(op, 1)->type, 1) == 1 &&
           tw_op_int(op, "groups", 1) == tw_type_dim(tw_operand(op, 1)->type, 0);
}

/* A step between a shuffle and a convolution: the operand that data come through and the one that
 * is a constant with an axis of channels, or none: -1. */
typedef struct step {
    tw_op *op;
    unsigned data;
    int constant;
    unsigned axis;
} step;

/* Whether the operand is a constant, and *axis that of its channels, if it has one of that size. */
static bool is_constant_of(const tw_value *c, int64_t channels, bool *has_axis)
{
    int64_t n;
    if (!tw_type_static_count(c->type, &n) || !tw_depends_on_constants(c) ||
        c->type->rank + 3 > TW_MAX_RANK)
        return false;
    *has_axis = c->type->rank && tw_type_dim(c->type, c->type->rank - 1) == channels;
    return *has_axis || !c->type->rank || tw_type_dim(c->type, c->type->rank - 1) == 1;
}

/* The operation, which computes each channel of its result from that channel of one operand. */
static bool read_step(tw_op *op, int64_t channels, step *out)
{
    *out = (step){.op = op, .constant = -1};
    if (is_depthwise(op)) {
        out->constant = 1;
        return true;
    }
    if (tw_is_graph(op, TW_GRAPH_MAX_POOL) || tw_is_graph(op, TW_GRAPH_AVG_POOL))
        return true;
    if (!(op->def->traits & TW_TRAIT_ELEMENTWISE) || op->n_operands < 1 || op->n_operands > 2)
        return false;
    if (op->n_operands == 1)
        return true;
    for (unsigned i = 0; i < 2; i++) {
        const tw_value *c = tw_operand(op, i);
        bool has_axis;
        if (!is_constant_of(c, channels, &has_axis) ||
            tw_operand(op, 1 - i)->type->rank != op->results[0].type->rank)
            continue;
        out->data = 1 - i;
        out->constant = has_axis ? (int)i : -1;
        out->axis = c->type->rank - 1;
        return true;
    }
    return false;
}

enum { MAX_STEPS = 8 };

/* The steps from the convolution up to a shuffle; false when none is there. */
static bool find_steps(const tw_op *conv, step *steps, unsigned *n, shuffle *s)
{
    const tw_value *v = tw_operand(conv, 0);
    int64_t channels;
    if (!tw_expr_as_const(v->type->dims[v->type->rank - 1], &channels))
        return false;
    for (*n = 0; *n < MAX_STEPS; ++*n) {
        if (find_shuffle(v, s))
            return true;
        if (!v->op || !tw_value_has_one_use(v) || tw_graph_kind_of(v->op) == TW_GRAPH_COUNT ||
            !read_step(v->op, channels, &steps[*n]))
            return false;
        v = tw_operand(v->op, steps[*n].data);
    }
    return false;
}

bool tw_settle_shuffle(tw_rewriter *rw, tw_op *conv, const void *data)
{
    step steps[MAX_STEPS];
    shuffle s;
    unsigned n;
    (void)data;
    if (!has_plain_weights(conv) || tw_op_int(conv, "groups", 1) != 1 ||
        !find_steps(conv, steps, &n, &s))
        return false;
    for (unsigned i = 0; i < n; i++) {
        if (steps[i].constant < 0)
            continue;
        unsigned at = (unsigned)steps[i].constant;
        tw_builder *b = tw_rw_builder(rw, steps[i].op);
        tw_op_set_operand(steps[i].op, at,
                          unshuffled(b, &s, tw_operand(steps[i].op, at), steps[i].axis));
    }
    tw_op *first = n ? steps[n - 1].op : conv;
    tw_op_set_operand(first, n ? steps[n - 1].data : 0, s.x);
    tw_rw_changed(rw, first);
    tw_op_set_operand(conv, 1, unshuffled(tw_rw_builder(rw, conv), &s, tw_operand(conv, 1), 1));
    tw_rw_changed(rw, conv);
    return true;
}

/* ---- Parts of a shuffle ---- */

/* Neighbours in each of the groups: `taken` of the last axis of split, behind `start`. */
typedef struct part {
    shuffle s;
    int64_t groups, start, taken;
} part;

/* Whether the slice takes such a part of the channels of a shuffle in two axes. */
static bool find_part(const tw_op *slice, part *p)
{
    int64_t starts[TW_MAX_RANK], steps[TW_MAX_RANK], size;
    tw_type from = tw_operand(slice, 0)->type, to = slice->results[0].type;
    unsigned rank = to->rank;
    if (!find_shuffle(tw_operand(slice, 0), &p->s) || p->s.n != 2 || !p->s.order[0] ||
        tw_op_ints(slice, "starts", starts, TW_MAX_RANK) != (int)rank ||
        tw_op_ints(slice, "steps", steps, TW_MAX_RANK) != (int)rank ||
        !tw_expr_as_const(to->dims[rank - 1], &size) || size < 1)
        return false;
    for (unsigned i = 0; i < rank; i++)
        if (steps[i] != 1 || (i + 1 < rank && (starts[i] || to->dims[i] != from->dims[i])))
            return false;
    p->groups = p->s.sizes[1];
    p->start = starts[rank - 1] / p->groups;
    p->taken = size / p->groups;
    return starts[rank - 1] % p->groups == 0 && size % p->groups == 0;
}

/* The part before it is shuffled: [N, space…, groups, taken]. */
static tw_value *build_part(tw_builder *b, const part *p, tw_attr layout)
{
    tw_expr dims[TW_MAX_RANK];
    int64_t starts[TW_MAX_RANK] = {0}, steps[TW_MAX_RANK];
    tw_value *split = p->s.split;
    unsigned rank = split->type->rank;
    for (unsigned i = 0; i < rank; i++) {
        dims[i] = split->type->dims[i];
        steps[i] = 1;
    }
    dims[rank - 1] = tw_expr_const(b->ctx, p->taken);
    starts[rank - 1] = p->start;
    tw_type type = tw_type_tensor(b->ctx, split->type->elem, rank, dims, layout);
    return tw_graph_build(b, TW_GRAPH_SLICE, &split, 1, type, "starts",
                          tw_attr_ints(b->ctx, starts, rank), "steps",
                          tw_attr_ints(b->ctx, steps, rank), NULL);
}

/* [O, taken * groups, spatial…] -> [O, taken, spatial…, groups]. */
static tw_value *part_weights(tw_builder *b, const part *p, tw_value *w)
{
    tw_expr dims[TW_MAX_RANK];
    int64_t perm[TW_MAX_RANK];
    unsigned rank = w->type->rank;
    dims[0] = w->type->dims[0];
    dims[1] = tw_expr_const(b->ctx, p->taken);
    dims[2] = tw_expr_const(b->ctx, p->groups);
    perm[0] = 0;
    perm[1] = 1;
    perm[rank] = 2;
    for (unsigned i = 2; i < rank; i++) {
        dims[i + 1] = w->type->dims[i];
        perm[i] = i + 1;
    }
    return tw_build_transpose(b, tw_build_reshape(b, w, rank + 1, dims),
                              tw_attr_ints(b->ctx, perm, rank + 1));
}

/* One more axis of space for the window, the last. */
static void widen(tw_op *conv)
{
    static const struct {
        const char *name;
        int64_t value;
    } attributes[] = {{"strides", 1}, {"dilations", 1}, {"pads_begin", 0}, {"pads_end", 0}};
    tw_context *ctx = tw_op_context(conv);
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        tw_expr values[TW_MAX_RANK + 1];
        int n = tw_graph_exprs(ctx, conv, attributes[i].name, values, TW_MAX_RANK);
        values[n] = tw_expr_const(ctx, attributes[i].value);
        tw_op_set_attr(conv, attributes[i].name, tw_graph_exprs_attr(ctx, values, (unsigned)n + 1));
    }
}

/* The only operation but `except` that uses the value; NULL when there are more. */
static tw_op *other_user(const tw_value *value, const tw_op *except)
{
    tw_op *found = NULL;
    for (const tw_use *u = value->uses; u; u = u->next) {
        if (u->user == except)
            continue;
        if (found)
            return NULL;
        found = u->user;
    }
    return found;
}

/* Whether a convolution alone reads the value, which may settle it as well. */
static bool feeds_convolution(const tw_value *value)
{
    return tw_value_has_one_use(value) && tw_is_graph(value->uses->user, TW_GRAPH_CONV);
}

/* shuffle, then slice -> slice, then shuffle. */
static void shuffle_part_alone(tw_rewriter *rw, tw_op *slice)
{
    part p;
    if (!slice || !tw_is_graph(slice, TW_GRAPH_SLICE) || !find_part(slice, &p) ||
        feeds_convolution(tw_result(slice, 0)))
        return;
    tw_builder *b = tw_rw_builder(rw, slice);
    tw_type type = slice->results[0].type;
    tw_value *y = tw_build_transpose(b, build_part(b, &p, NULL), p.s.perm);
    y = tw_graph_build(b, TW_GRAPH_RESHAPE, &y, 1, type, NULL);
    tw_rw_replace(rw, slice, &y);
}

bool tw_settle_part(tw_rewriter *rw, tw_op *conv, const void *data)
{
    tw_op *slice = producer(tw_operand(conv, 0), TW_GRAPH_SLICE);
    tw_type type = conv->results[0].type;
    part p;
    (void)data;
    if (!slice || !has_plain_weights(conv) || tw_op_int(conv, "groups", 1) != 1 ||
        !tw_elem_is_float(type->elem) || !tw_value_has_one_use(tw_operand(conv, 0)) ||
        !find_part(slice, &p))
        return false;
    tw_builder *b = tw_rw_builder(rw, conv);
    tw_value *operands[] = {build_part(b, &p, type->layout),
                            part_weights(b, &p, tw_operand(conv, 1))};
    tw_expr dims[TW_MAX_RANK];
    unsigned rank = type->rank;
    memcpy(dims, type->dims, rank * sizeof *dims);
    dims[rank] = dims[rank - 1];
    dims[rank - 1] = tw_expr_const(b->ctx, 1);
    tw_type wide = tw_type_tensor(b->ctx, type->elem, rank + 1, dims, type->layout);
    tw_op *op = tw_op_create(b->ctx, conv->def, conv->loc, operands, 2, &wide, 1, conv->attrs,
                             conv->n_attrs, 0);
    widen(op);
    tw_op_insert(op, b->region, b->before);
    tw_value *y = tw_result(op, 0);
    y = tw_graph_build(b, TW_GRAPH_RESHAPE, &y, 1, type, NULL);
    shuffle_part_alone(rw, other_user(tw_operand(slice, 0), slice));
    tw_rw_replace(rw, conv, &y);
    return true;
}
