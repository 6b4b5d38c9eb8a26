/* join_convolutions.c: convolutions of one input with the same window become one convolution.
 *
 *   %a = graph.relu (graph.add (graph.conv %x, %v), %b)      // in front of the wider windows of
 *   %c = graph.relu (graph.add (graph.conv %x, %w), %d)      // an Inception module
 *   graph.conv %a, …      graph.conv %c, …
 *     =>
 *   %vw = graph.concat %v, %w {axis = 0}                     // which fold-constants evaluates,
 *   %bd = graph.concat %b, %d {axis = 0}
 *   %0 = graph.relu (graph.add (graph.conv %x, %vw), %bd)
 *   %a = graph.slice %0 …                                    // read where they lie
 *   %c = graph.slice %0 …
 *
 * Cost: joining reads x once instead of once for each convolution, saves a kernel, and fills panels
 * of output channels that are narrow on their own. In return users read their channels at the
 * distance of all; lines of the cache that hold a part of each are read twice. That is less than
 * what is saved, but copying a part would be more. So each result is used by convolutions and pools
 * alone, which read it where it lies. Of a concatenation it would be a part that has to be copied
 * (unjoined it is computed in place), of anything element-wise it would have been the epilogue; a
 * reshape or an output needs it in one piece.
 *
 * What is element-wise behind a convolution and has constants for its other operands comes along
 * when it is the same behind all of them. */
#include "transform/transform.h"

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "dialect/graph/data_axes.h"
#include "transform/build.h"
#include "transform/constants.h"

#include <string.h>

enum { MAX_JOINED = 16, MAX_STEPS = 6, MAX_OPERANDS = 3 };

/* One convolution that may be joined, and what is element-wise behind it. */
typedef struct part {
    tw_op *conv;
    tw_op *steps[MAX_STEPS];
    unsigned n_steps;
    tw_value *result; /* of the last step */
} part;

/* ---- What may be joined ---- */

/* Whether all users read the value where it lies. */
static bool is_read_in_place(const tw_value *value)
{
    bool fine = value->uses != NULL;
    for (const tw_use *u = value->uses; u && fine; u = u->next)
        fine = u->index == 0 &&
               (tw_is_graph(u->user, TW_GRAPH_CONV) || tw_is_graph(u->user, TW_GRAPH_MAX_POOL) ||
                tw_is_graph(u->user, TW_GRAPH_AVG_POOL));
    return fine;
}

/* The axis of a convolution's channels. */
static unsigned channels_of(const tw_op *conv)
{
    return tw_data_axes_of(conv->results[0].type).channel;
}

/* The axis of an operand of a step that runs along the channels of the convolution; -1: none. */
static int channel_axis(const tw_op *conv, const tw_value *operand)
{
    return (int)channels_of(conv) + operand->type->rank - conv->results[0].type->rank;
}

/* Whether the operand is a constant with a value for each channel, or one for all. */
static bool is_constant_of_channels(const tw_op *conv, const tw_value *operand)
{
    int axis = channel_axis(conv, operand);
    if (tw_graph_constant_value(operand) && tw_is_single(operand))
        return true;
    if (axis < 0 || !tw_depends_on_constants(operand))
        return false;
    for (unsigned i = 0; i < operand->type->rank; i++)
        if (operand->type->dims[i] != ((int)i == axis
                                           ? conv->results[0].type->dims[channels_of(conv)]
                                           : tw_expr_const(tw_op_context(conv), 1)))
            return false;
    return true;
}

/* The element-wise operation that alone uses the value, all others of its operands being constants
 * of the channels; or NULL. */
static tw_op *next_step(const tw_op *conv, const tw_value *value)
{
    tw_op *op = tw_value_has_one_use(value) ? value->uses->user : NULL;
    if (!op || op->region != conv->region || !(op->def->traits & TW_TRAIT_ELEMENTWISE) ||
        op->n_results != 1 || op->n_operands > MAX_OPERANDS || op->results[0].type != value->type)
        return NULL;
    for (unsigned i = 0; i < op->n_operands; i++)
        if (tw_operand(op, i) != value && !is_constant_of_channels(conv, tw_operand(op, i)))
            return NULL;
    return op;
}

static bool find_part(tw_op *op, part *out)
{
    if (!tw_is_graph(op, TW_GRAPH_CONV) || tw_op_int(op, "groups", 1) != 1 ||
        tw_op_attr(op, "kernel_layout") || tw_op_bool(op, "dot", false))
        return false;
    const tw_value *w = tw_operand(op, 1);
    if (tw_data_axes_of(op->results[0].type).block > 1 || !tw_type_is_static(w->type) ||
        !tw_depends_on_constants(w))
        return false;
    *out = (part){.conv = op, .result = tw_result(op, 0)};
    tw_op *step;
    while (out->n_steps < MAX_STEPS && (step = next_step(op, out->result)) != NULL) {
        out->steps[out->n_steps++] = step;
        out->result = tw_result(step, 0);
    }
    return is_read_in_place(out->result);
}

static bool same_attributes(const tw_op *a, const tw_op *b)
{
    bool same = a->n_attrs == b->n_attrs;
    for (unsigned i = 0; i < a->n_attrs && same; i++)
        same = tw_op_attr(b, a->attrs[i].name) == a->attrs[i].value;
    return same;
}

/* Whether the operands can stand beside one another, or are the same number. */
static bool operands_fit(const part *p, const tw_value *a, const part *q, const tw_value *b)
{
    bool split = channel_axis(p->conv, a) >= 0 && !tw_is_single(a);
    if (split || !tw_is_single(b))
        return split && !tw_is_single(b) && a->type->rank == b->type->rank &&
               a->type->elem == b->type->elem && channel_axis(q->conv, b) >= 0;
    return a->type == b->type && tw_graph_constant_value(a) &&
           tw_graph_constant_value(a) == tw_graph_constant_value(b);
}

static bool steps_fit(const part *p, const part *q)
{
    bool fit = p->n_steps == q->n_steps;
    const tw_value *a = tw_result(p->conv, 0), *b = tw_result(q->conv, 0);
    for (unsigned i = 0; fit && i < p->n_steps; i++) {
        const tw_op *s = p->steps[i], *t = q->steps[i];
        fit = s->def == t->def && s->n_operands == t->n_operands && same_attributes(s, t);
        for (unsigned k = 0; fit && k < s->n_operands; k++)
            fit = tw_operand(s, k) == a
                      ? tw_operand(t, k) == b
                      : tw_operand(t, k) != b &&
                            operands_fit(p, tw_operand(s, k), q, tw_operand(t, k));
        a = &s->results[0];
        b = &t->results[0];
    }
    return fit;
}

/* Whether q can stand beside p in one convolution. */
static bool fits(const part *p, const part *q)
{
    tw_type v = tw_operand(p->conv, 1)->type, w = tw_operand(q->conv, 1)->type;
    bool same = p->conv->region == q->conv->region &&
                tw_operand(p->conv, 0) == tw_operand(q->conv, 0) &&
                same_attributes(p->conv, q->conv) && v->elem == w->elem && v->rank == w->rank &&
                p->conv->results[0].type->elem == q->conv->results[0].type->elem &&
                p->conv->results[0].type->layout == q->conv->results[0].type->layout;
    for (unsigned i = 1; same && i < v->rank; i++) /* axis 0: output channels */
        same = v->dims[i] == w->dims[i];
    return same && steps_fit(p, q);
}

/* ---- Joining ---- */

/* The operands of all parts beside one another, in front of the first convolution. */
static tw_value *join_operands(tw_builder *b, const part *parts, tw_value **operands, unsigned n,
                               int axis)
{
    if (axis < 0 || tw_is_single(operands[0]))
        return operands[0];
    for (unsigned i = 0; i < n; i++)
        tw_move_constant(operands[i], parts[0].conv);
    return tw_build_concat(b, operands, n, (unsigned)axis);
}

/* The same operation with other operands, wider by the channels of all parts. */
static tw_value *widen(tw_builder *b, tw_op *op, tw_value *const *operands, unsigned axis,
                       tw_expr channels)
{
    tw_expr dims[TW_MAX_RANK];
    tw_type type = op->results[0].type;
    memcpy(dims, type->dims, type->rank * sizeof *dims);
    dims[axis] = channels;
    type = tw_type_tensor(b->ctx, type->elem, type->rank, dims, type->layout);
    tw_op *wide = tw_op_create(b->ctx, op->def, op->loc, operands, op->n_operands, &type, 1,
                               op->attrs, op->n_attrs, 0);
    tw_op_insert(wide, b->region, b->before);
    return tw_result(wide, 0);
}

/* In front of the first part, as results of all others may be used from there on. */
static void join(tw_context *ctx, const part *parts, unsigned n)
{
    const part *first = &parts[0];
    tw_builder b = tw_builder_before(ctx, first->conv);
    unsigned axis = channels_of(first->conv);
    tw_value *same[MAX_JOINED], *in[MAX_OPERANDS] = {tw_operand(first->conv, 0)};
    for (unsigned i = 0; i < n; i++)
        same[i] = tw_operand(parts[i].conv, 1);
    in[1] = join_operands(&b, parts, same, n, 0);
    tw_expr channels = in[1]->type->dims[0];
    tw_value *joined = widen(&b, first->conv, in, axis, channels);
    const tw_value *before = tw_result(first->conv, 0);
    for (unsigned s = 0; s < first->n_steps; s++) {
        tw_op *step = first->steps[s];
        for (unsigned k = 0; k < step->n_operands; k++) {
            for (unsigned i = 0; i < n; i++)
                same[i] = tw_operand(parts[i].steps[s], k);
            in[k] = tw_operand(step, k) == before
                        ? joined
                        : join_operands(&b, parts, same, n, channel_axis(first->conv, same[0]));
        }
        joined = widen(&b, step, in, axis, channels);
        before = tw_result(step, 0);
    }
    int64_t at = 0;
    for (unsigned i = 0; i < n; i++) {
        tw_type type = parts[i].result->type;
        tw_value_replace_all(parts[i].result, tw_build_part(&b, joined, axis, at, type));
        at += tw_type_dim(type, axis);
    }
    for (unsigned i = 0; i < n; i++) {
        for (unsigned s = parts[i].n_steps; s-- > 0;)
            tw_op_erase(parts[i].steps[s]);
        tw_op_erase(parts[i].conv);
    }
}

/* All that fit to the first, in order of the program. */
static unsigned collect(tw_op *op, part *parts)
{
    unsigned n = 1;
    if (!find_part(op, &parts[0]))
        return 0;
    for (const tw_use *u = tw_operand(op, 0)->uses; u && n < MAX_JOINED; u = u->next) {
        part p;
        if (u->user == op || u->index != 0 || !find_part(u->user, &p) || !fits(&parts[0], &p) ||
            !tw_op_is_before(op, u->user))
            continue;
        unsigned at = n++;
        for (; at > 1 && tw_op_is_before(p.conv, parts[at - 1].conv); at--)
            parts[at] = parts[at - 1];
        parts[at] = p;
    }
    return n;
}

typedef struct op_list {
    tw_arena *arena;
    tw_map seen; /* inputs whose convolutions were looked at */
    TW_VEC(tw_op *) convolutions;
} op_list;

/* The first convolution of each input: so each input's uses are looked at once. */
static bool add_convolution(tw_op *op, void *data)
{
    op_list *list = data;
    part p;
    if (!tw_is_graph(op, TW_GRAPH_CONV) || tw_map_get_ptr(&list->seen, tw_operand(op, 0)) ||
        !find_part(op, &p))
        return true;
    tw_map_put_ptr(&list->seen, tw_operand(op, 0), op);
    tw_vec_push(list->arena, &list->convolutions, op);
    return true;
}

static bool run(tw_pass_run *pass)
{
    tw_arena *arena = tw_context_arena(pass->ctx);
    op_list list = {.arena = arena, .seen = tw_map_make(arena)};
    tw_walk(pass->root, add_convolution, &list);
    for (size_t i = 0; i < list.convolutions.len && pass->changes < pass->max_changes; i++) {
        part parts[MAX_JOINED];
        unsigned n = collect(list.convolutions.data[i], parts);
        if (n < 2)
            continue;
        join(pass->ctx, parts, n);
        pass->changes++;
    }
    return true;
}

const tw_pass tw_pass_join_convolutions = {
    .name = "join-convolutions",
    .summary = "convolutions of one input with the same window become one",
    .anchor = "core.func",
    .optional = true,
    .run = run,
};
