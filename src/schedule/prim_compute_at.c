/* prim_compute_at.c: compute_at: a producer moves into a loop of its consumers.
 *
 *     for %i = 0 to 16 { block "p" (%v = %i) { %T[%v] = … } }
 *     for %o = 0 to 4 { for %k = 0 to 4 { block "c" … { … %T[%o * 4 + %k] … } } }
 * at %o:
 *     for %o = 0 to 4 {
 *       for %i = 0 to 4 { block "p" (%v = %o * 4 + %i) { %T[%v] = … } }
 *       for %k = 0 to 4 { block "c" … { … %T[%o * 4 + %k] … } } }
 *
 * The region of each buffer that one iteration of the loop reads is a box, by interval analysis
 * with inner loops ranging; the producer's variables follow from the box through its store's index.
 */
#include "schedule/region.h"

enum { MAX_CONSUMERS = 4 };

typedef struct plan {
    tw_block_info producer;
    tw_op *loop;
    tw_nest nest;  /* of the loop's body: the loop is the last */
    tw_op *before; /* first operation of the body that consumes */
    tw_interval iters[TW_MAX_ITERS];
    tw_conditions conditions; /* common to all consumers */
    unsigned n_consumers;
    const tw_block_info *consumers[MAX_CONSUMERS]; /* the first of them */
    tw_value *buffers[TW_MAX_ITERS];               /* written */
    unsigned n_buffers;
} plan;

static bool check_kind(const tw_step *step, const tw_block_info *b)
{
    if (!tw_step_whole(step, b))
        return false;
    if (b->sequential)
        return tw_step_refuse(step, "block \"%s\" runs in order", b->name);
    if (b->has_reduce && !b->has_init)
        return tw_step_refuse(step, "the reduction of block \"%s\" has been decomposed", b->name);
    return true;
}

/* What the producer reads must be the same at the new place. */
static bool check_inputs(const tw_step *step, const plan *p)
{
    for (unsigned i = 0; tw_block_read(&p->producer, i); i++) {
        tw_value *input = tw_block_read(&p->producer, i);
        tw_buffer_uses uses;
        if (!tw_buffer_uses_of(step->ctx, input, &uses))
            return tw_step_refuse(step, "%%%s is used in an unknown way", tw_buffer_name(input));
        for (unsigned k = 0; k < uses.n_stores; k++) {
            tw_op *store = uses.stores[k];
            tw_region *common = tw_common_region(store, p->producer.op);
            bool loop_left = common && tw_is_loop(common->parent, TW_LOOP_FOR) &&
                             !tw_op_is_ancestor(common->parent, p->loop);
            if (loop_left || !tw_program_before(store, p->producer.op))
                return tw_step_refuse(step,
                                      "%%%s, which block \"%s\" reads, is written before loop "
                                      "%%%s would read it",
                                      tw_buffer_name(input), p->producer.name,
                                      tw_loop_name(p->loop));
        }
    }
    return true;
}

/* Keeps the conditions that the next consumer has as well. */
static void meet_conditions(const tw_step *step, plan *p, const tw_block_info *consumer)
{
    tw_conditions c = tw_outer_conditions(step->ctx, consumer, p->nest.n);
    unsigned kept = 0;
    if (p->n_consumers++ == 0) {
        p->conditions = c;
        return;
    }
    for (unsigned i = 0; i < p->conditions.n; i++) {
        bool shared = false;
        for (unsigned k = 0; k < c.n; k++)
            shared |= c.exprs[k] == p->conditions.exprs[i];
        if (shared)
            p->conditions.exprs[kept++] = p->conditions.exprs[i];
    }
    p->conditions.n = kept;
}

/* Adds what one load of the buffer needs to the box. */
static bool add_load(const tw_step *step, plan *p, tw_op *load, tw_box *box, bool first)
{
    tw_op *consumer = tw_block_around(load);
    tw_op *child = tw_child_in(&p->loop->regions[0], load);
    if (!consumer || !child)
        return tw_step_refuse(
            step, "%s%s%s, which reads from block \"%s\", is outside of loop %%%s",
            consumer ? "block \"" : "an operation", consumer ? tw_block_name(consumer) : "",
            consumer ? "\"" : "", p->producer.name, tw_loop_name(p->loop));
    if (!p->before || tw_op_is_before(child, p->before))
        p->before = child;
    tw_block_info *info = TW_NEW(tw_context_arena(step->ctx), tw_block_info);
    if (!tw_step_block(step, consumer, info))
        return false;
    if (p->n_consumers < MAX_CONSUMERS)
        p->consumers[p->n_consumers] = info;
    meet_conditions(step, p, info);
    for (unsigned i = 0; i < info->n_accesses; i++)
        if (info->accesses[i].op == load) {
            tw_box b = tw_access_box(step->ctx, info, &info->accesses[i], p->nest.n);
            if (first)
                *box = b;
            else
                tw_box_join(step->ctx, box, &b, &p->nest, p->nest.n);
        }
    return true;
}

/* The box of the buffer that one iteration of the loop reads. *any: whether it reads at all. */
static bool required_box(const tw_step *step, plan *p, tw_value *buffer, tw_box *box, bool *any)
{
    tw_buffer_uses uses;
    *any = false;
    if (!tw_buffer_alloc(buffer))
        return tw_step_refuse(step, "block \"%s\" writes %%%s, which is not the kernel's own",
                              p->producer.name, tw_buffer_name(buffer));
    if (!tw_buffer_uses_of(step->ctx, buffer, &uses))
        return tw_step_refuse(step, "%%%s is used in an unknown way", tw_buffer_name(buffer));
    for (unsigned i = 0; i < uses.n_stores; i++)
        if (!tw_op_is_ancestor(p->producer.op, uses.stores[i]))
            return tw_step_refuse(step, "%%%s is written by other blocks, too",
                                  tw_buffer_name(buffer));
    for (unsigned i = 0; i < uses.n_loads; i++) {
        if (tw_op_is_ancestor(p->producer.op, uses.loads[i]))
            continue;
        if (!add_load(step, p, uses.loads[i], box, !*any))
            return false;
        *any = true;
    }
    return true;
}

/* Takes the side of each variable that the store's axes give; the union over all buffers. */
static void need_instances(const tw_step *step, plan *p, const tw_block_access *store,
                           const tw_box *box, bool first)
{
    tw_axis_map map;
    tw_axes_of_iters(&p->producer, store, &map);
    for (unsigned i = 0; i < p->producer.n_iters; i++) {
        tw_interval side = {.known = false};
        if (map.axis[i] >= 0 && !p->producer.reduce[i] && box->sides[map.axis[i]].known) {
            side = box->sides[map.axis[i]];
            side.lo = tw_expr_addc(step->ctx, side.lo, -map.shift[i]);
            side = tw_interval_clip(step->ctx, side, p->producer.extents[i]);
        }
        p->iters[i] =
            first ? side : tw_interval_join(step->ctx, p->iters[i], side, &p->nest, p->nest.n);
    }
}

static bool plan_buffers(const tw_step *step, plan *p)
{
    bool first = true;
    for (unsigned i = 0; i < p->producer.n_accesses; i++) {
        const tw_block_access *store = &p->producer.accesses[i];
        if (!store->store)
            continue;
        tw_box box;
        bool any;
        if (!required_box(step, p, store->buffer, &box, &any))
            return false;
        if (any) {
            need_instances(step, p, store, &box, first);
            first = false;
        }
        if (p->n_buffers < TW_MAX_ITERS)
            p->buffers[p->n_buffers++] = store->buffer;
    }
    return !first || tw_step_refuse(step, "block \"%s\" has no consumer", p->producer.name);
}

/* Notes the sides that consumers show to be within the extents. */
static void note_within(const tw_step *step, plan *p)
{
    for (unsigned i = 0; i < p->producer.n_iters; i++)
        for (unsigned k = 0; k < p->n_consumers && k < MAX_CONSUMERS; k++)
            p->iters[i].within |= tw_side_within(step->ctx, p->consumers[k], p->iters[i],
                                                 p->producer.extents[i], p->nest.n);
}

/* Masks what variable k is below (or, `upper`, above) the side that is over the first `shared`
 * loops.
 */
static void keep_side(const tw_step *step, const plan *p, unsigned k, tw_interval side,
                      unsigned shared, bool upper)
{
    tw_context *ctx = step->ctx;
    tw_op *block = p->producer.op;
    unsigned n = block->n_operands;
    tw_value *values[TW_MAX_EXPR_DIMS + TW_MAX_NEST];
    tw_expr outer[TW_MAX_NEST];
    if (n + shared > TW_MAX_EXPR_DIMS)
        return;
    for (unsigned i = 0; i < n; i++)
        values[i] = tw_operand(block, i);
    for (unsigned i = 0; i < shared; i++) {
        values[n + i] = p->nest.vars[i];
        outer[i] = tw_expr_dim(ctx, n + i);
    }
    tw_expr past = tw_expr_sub(ctx, tw_op_attr(block, "bindings")->u.map.exprs[k],
                               tw_expr_substitute(ctx, side.lo, outer, shared));
    tw_block_add_where(ctx, block, upper ? tw_expr_sub(ctx, side.width, past) : past, values,
                       n + shared);
}

/* Only those instances may run that ran in one iteration of the loops that stay around the
 * producer: beyond them consumers seem to need what their masks leave out, and inputs may not be
 * there. */
static void keep_instances(const tw_step *step, const plan *p, const tw_interval *had,
                           unsigned shared)
{
    for (unsigned k = 0; k < p->producer.n_iters; k++)
        if (had[k].known && !p->producer.reduce[k] &&
            had[k].width != tw_expr_addc(step->ctx, p->producer.extents[k], -1)) {
            keep_side(step, p, k, had[k], shared, false);
            keep_side(step, p, k, had[k], shared, true);
        }
}

/* Whether iterations of the loop run at once. */
static bool runs_at_once(const tw_op *loop)
{
    return tw_loop_is_bound(loop) || tw_is_for_kind(loop, "parallel");
}

/* The outermost loop whose iterations, running at once, would compute the same elements of a buffer
 * that is not theirs alone; NULL when there is none. */
static const tw_op *meeting_loop(const tw_step *step, const plan *p)
{
    for (unsigned level = 0; level < p->nest.n; level++) {
        const tw_op *loop = p->nest.loops[level];
        bool shared = false;
        for (unsigned i = 0; i < p->n_buffers; i++)
            shared |= !tw_is_private(p->buffers[i], loop);
        if (runs_at_once(loop) && shared &&
            !tw_instances_tell(step->ctx, p->iters, p->producer.n_iters, &p->nest, level, level))
            return loop;
    }
    return NULL;
}

bool tw_do_compute_at(const tw_step *step)
{
    plan p = {.loop = step->operands[1]};
    tw_checkpoint *before = NULL;
    if (!tw_step_target_loop(step, step->operands[0], p.loop, &p.nest) ||
        !tw_step_block(step, step->operands[0], &p.producer) || !check_kind(step, &p.producer) ||
        !plan_buffers(step, &p) || !check_inputs(step, &p))
        return false;
    if (!tw_block_values_dominate(p.producer.op, p.before))
        return tw_step_refuse(step, "block \"%s\" uses values that are not to be had in loop %%%s",
                              p.producer.name, tw_loop_name(p.loop));
    note_within(step, &p);
    for (unsigned i = 0; i < p.nest.n && !before; i++)
        if (runs_at_once(p.nest.loops[i]))
            before = tw_checkpoint_take(step->s);
    tw_interval had[TW_MAX_ITERS];
    unsigned shared = 0;
    while (shared < p.nest.n && shared < p.producer.nest.n &&
           p.nest.loops[shared] == p.producer.nest.loops[shared])
        shared++;
    for (unsigned k = 0; k < p.producer.n_iters; k++)
        had[k] = tw_hull(step->ctx, p.producer.bindings[k], &p.producer.nest, shared);
    tw_rebuild_loops(step->ctx, p.producer.op, tw_builder_before(step->ctx, p.before), p.iters,
                     &p.nest, &p.conditions);
    keep_instances(step, &p, had, shared);
    for (unsigned i = 0; i < p.n_buffers; i++)
        tw_sink_alloc(step->ctx, p.buffers[i], &p.loop->regions[0]);
    const tw_op *meeting = before ? meeting_loop(step, &p) : NULL;
    if (!meeting)
        return true;
    tw_checkpoint_restore(before);
    return tw_step_refuse(step,
                          "iterations of loop %%%s, which run at once, would both compute elements "
                          "that block \"%s\" writes",
                          tw_loop_name(meeting), p.producer.name);
}
