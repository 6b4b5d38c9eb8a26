/* prim_reverse_compute_at.c: reverse_compute_at: a consumer moves into a loop of its producers.
 *
 *     for %o = 0 to 4 { for %k = 0 to 4 { block "p" … { %T[%o * 4 + %k] = … } } }
 *     for %i = 0 to 16 { block "c" (%v = %i) { %Y[%v] = … %T[%v] … } }
 * at %o:
 *     for %o = 0 to 4 {
 *       for %k = 0 to 4 { block "p" … { %T[%o * 4 + %k] = … } }
 *       for %i = 0 to 4 { block "c" (%v = %o * 4 + %i) { %Y[%v] = … %T[%v] … } } }
 *
 * One iteration must complete a box of the buffer in between, and different iterations different
 * boxes, so that each instance of the consumer runs once and finds its inputs there. */
#include "schedule/region.h"

enum { MAX_BUFFERS = 16 };

/* A buffer that the consumer reads and the loop produces. */
typedef struct produced {
    tw_value *buffer;
    tw_box box;                    /* that one iteration completes */
    const tw_block_info *producer; /* one of them */
    unsigned makes, updates;       /* stores without and with a mask */
    bool elsewhere;                /* stores outside of the loop make a part, too */
    bool whole;                    /* all iterations together make all of it */
} produced;

typedef struct plan {
    tw_block_info consumer;
    tw_op *loop;
    tw_nest nest; /* of the loop's body */
    tw_op *after; /* last operation of the body that produces */
    produced buffers[MAX_BUFFERS];
    unsigned n_buffers;
    tw_interval iters[TW_MAX_ITERS];
    tw_conditions
        conditions; /* of the producers: where they do not run, nothing is there to read */
} plan;

static bool incomplete(const tw_step *step, const plan *p, const tw_block_info *producer)
{
    for (unsigned i = 0; i < p->nest.n; i++)
        if (tw_loop_is_reduce(producer, i))
            return !tw_step_refuse(step,
                                   "block \"%s\" completes its results outside of loop %%%s: "
                                   "its reduction has loop %%%s",
                                   producer->name, tw_loop_name(p->loop),
                                   tw_loop_name(p->nest.loops[i]));
    return false;
}

/* Adds conditions that are new. */
static void add_conditions(const tw_step *step, plan *p, tw_conditions more)
{
    tw_expr *all = TW_NEW_ARRAY(tw_context_arena(step->ctx), tw_expr, p->conditions.n + more.n);
    unsigned n = 0;
    for (unsigned i = 0; i < p->conditions.n + more.n; i++) {
        tw_expr e = i < p->conditions.n ? p->conditions.exprs[i] : more.exprs[i - p->conditions.n];
        bool known = false;
        for (unsigned k = 0; k < n; k++)
            known |= all[k] == e;
        if (!known)
            all[n++] = e;
    }
    p->conditions = (tw_conditions){all, n, true};
}

/* Whether all instances of the block together write all of the buffer. */
static bool writes_whole(const tw_block_info *b, const tw_block_access *a)
{
    tw_axis_map map;
    bool given[TW_MAX_RANK] = {false};
    if (tw_op_attr(b->op, "part") || !tw_axes_of_iters(b, a, &map))
        return false;
    for (unsigned i = 0; i < b->n_iters; i++)
        if (map.axis[i] >= 0)
            given[map.axis[i]] =
                map.shift[i] == 0 && b->extents[i] == a->buffer->type->dims[map.axis[i]];
    for (unsigned axis = 0; axis < a->rank; axis++) {
        int64_t dim;
        bool single = tw_expr_as_const(a->buffer->type->dims[axis], &dim) && dim == 1;
        if (!given[axis] && !single)
            return false;
    }
    return true;
}

/* Adds what a store inside the loop makes in one iteration. */
static bool add_store(const tw_step *step, plan *p, produced *b, tw_op *store)
{
    tw_op *child = tw_child_in(&p->loop->regions[0], store), *producer = tw_block_around(store);
    if (!producer)
        return tw_step_refuse(step, "%%%s is written outside of blocks", tw_buffer_name(b->buffer));
    if (!p->after || tw_op_is_before(p->after, child))
        p->after = child;
    tw_block_info *info = TW_NEW(tw_context_arena(step->ctx), tw_block_info);
    if (!tw_step_block(step, producer, info) || incomplete(step, p, info))
        return false;
    add_conditions(step, p, tw_outer_conditions(step->ctx, info, p->nest.n));
    b->producer = info;
    for (unsigned i = 0; i < info->n_accesses; i++) {
        const tw_block_access *a = &info->accesses[i];
        if (a->op != store)
            continue;
        if (a->masked) { /* updates some of what another store has made */
            b->updates++;
            continue;
        }
        b->makes++;
        if (!tw_box_is_full(step->ctx, info, a, p->nest.n))
            return tw_step_refuse(step,
                                  "what block \"%s\" writes to %%%s in one iteration of loop "
                                  "%%%s is not known to be a full box",
                                  info->name, tw_buffer_name(b->buffer), tw_loop_name(p->loop));
        tw_box box = tw_access_box(step->ctx, info, a, p->nest.n);
        if (b->makes > 1 && !tw_box_equal(&b->box, &box))
            return tw_step_refuse(step, "blocks write different parts of %%%s in loop %%%s",
                                  tw_buffer_name(b->buffer), tw_loop_name(p->loop));
        b->box = box;
        b->whole = (b->makes == 1 || b->whole) && writes_whole(info, a);
    }
    return true;
}

/* Sorts out one buffer that the consumer reads. */
static bool add_input(const tw_step *step, plan *p, tw_value *buffer)
{
    tw_buffer_uses uses;
    if (!tw_buffer_uses_of(step->ctx, buffer, &uses))
        return tw_step_refuse(step, "%%%s is used in an unknown way", tw_buffer_name(buffer));
    produced b = {.buffer = buffer};
    bool inside = false;
    for (unsigned i = 0; i < uses.n_stores; i++) {
        tw_op *store = uses.stores[i];
        if (tw_op_is_ancestor(p->loop, store)) {
            if (!add_store(step, p, &b, store))
                return false;
            inside = true;
        } else if (!tw_program_before(store, p->loop)) {
            if (!tw_program_before(p->consumer.op, store))
                return tw_step_refuse(step, "%%%s is written between loop %%%s and block \"%s\"",
                                      tw_buffer_name(buffer), tw_loop_name(p->loop),
                                      p->consumer.name);
        } else {
            b.elsewhere = true;
        }
    }
    if (!inside)
        return true;
    if (!b.makes)
        return tw_step_refuse(step, "loop %%%s only updates parts of %%%s", tw_loop_name(p->loop),
                              tw_buffer_name(buffer));
    if (p->n_buffers == MAX_BUFFERS)
        return tw_step_refuse(step, "block \"%s\" reads too many buffers", p->consumer.name);
    p->buffers[p->n_buffers++] = b;
    return true;
}

static bool find_inputs(const tw_step *step, plan *p)
{
    for (unsigned i = 0; tw_block_read(&p->consumer, i); i++)
        if (!add_input(step, p, tw_block_read(&p->consumer, i)))
            return false;
    return p->n_buffers > 0 ||
           tw_step_refuse(step, "block \"%s\" reads nothing that loop %%%s makes", p->consumer.name,
                          tw_loop_name(p->loop));
}

static const produced *find_produced(const plan *p, const tw_value *buffer)
{
    for (unsigned i = 0; i < p->n_buffers; i++)
        if (p->buffers[i].buffer == buffer)
            return &p->buffers[i];
    return NULL;
}

/* The sides of the consumer's spatial variables by one access; the number of those that are not the
 * whole extent. */
static unsigned map_by_access(const tw_step *step, const plan *p, const tw_block_access *a,
                              const produced *b, tw_interval *iters)
{
    const tw_block_info *c = &p->consumer;
    tw_axis_map map;
    unsigned n = 0;
    tw_axes_of_iters(c, a, &map);
    for (unsigned k = 0; k < c->n_iters; k++) {
        iters[k] = (tw_interval){.known = false};
        if (map.axis[k] < 0 || c->reduce[k])
            continue;
        tw_interval side = b->box.sides[map.axis[k]];
        side.lo = tw_expr_addc(step->ctx, side.lo, -map.shift[k]);
        side = tw_interval_clip(step->ctx, side, c->extents[k]);
        bool whole = tw_expr_is_const(side.lo) && side.lo->value == 0 &&
                     side.width == tw_expr_addc(step->ctx, c->extents[k], -1);
        if (!whole) {
            iters[k] = side;
            n++;
        }
    }
    return n;
}

/* The consumer's instances from the box of what it reads without a mask: by that one access which
 * says most. (By several, only instances whose inputs are made in one iteration would run.) */
static void map_instances(const tw_step *step, plan *p)
{
    unsigned best = 0;
    for (unsigned i = 0; i < p->consumer.n_accesses; i++) {
        const tw_block_access *a = &p->consumer.accesses[i];
        const produced *b = find_produced(p, a->buffer);
        tw_interval iters[TW_MAX_ITERS];
        if (!b || a->store || a->masked || !a->rank)
            continue;
        unsigned n = map_by_access(step, p, a, b, iters);
        for (unsigned k = 0; n > best && k < p->consumer.n_iters; k++)
            p->iters[k] = iters[k];
        best = n > best ? n : best;
    }
}

/* Number of loops around both the target loop's body and the consumer. */
static unsigned shared_loops(const plan *p)
{
    unsigned n = 0;
    while (n < p->nest.n && n < p->consumer.nest.n && p->nest.loops[n] == p->consumer.nest.loops[n])
        n++;
    return n;
}

/* In one iteration of the loops that stay around it only the instances run that these bind. */
static void map_by_shared_loops(const tw_step *step, plan *p)
{
    tw_block_info *c = &p->consumer;
    unsigned shared = shared_loops(p);
    for (unsigned k = 0; k < c->n_iters; k++) {
        bool outside = false, inside = false;
        for (unsigned i = 0; i < c->nest.n; i++)
            if (tw_expr_uses_dim(c->bindings[k], i))
                *(i < shared ? &outside : &inside) = true;
        if (outside && (!inside || !p->iters[k].known))
            p->iters[k] = tw_hull(step->ctx, c->bindings[k], &c->nest, shared);
    }
}

/* The nest of the consumer at the new place: its variables as loops inside of the target. */
static bool instance_nest(const tw_step *step, const plan *p, tw_nest *out)
{
    tw_context *ctx = step->ctx;
    *out = p->nest;
    if (p->nest.n + p->consumer.n_iters > TW_MAX_NEST)
        return tw_step_refuse(step, "more than %d loops", TW_MAX_NEST);
    for (unsigned i = 0; i < p->consumer.n_iters; i++) {
        tw_interval s = p->iters[i];
        unsigned at = out->n++;
        out->known[at] = true;
        out->lo[at] = s.known ? s.lo : tw_expr_const(ctx, 0);
        out->hi[at] = s.known ? tw_expr_addc(ctx, tw_expr_add(ctx, s.lo, s.width), 1)
                              : p->consumer.extents[i];
        out->ranges[at] = p->consumer.iter_ranges[i];
    }
    return true;
}

/* Whether all that the consumer reads of the buffers made in the loop lies in the boxes. */
static bool check_contained(const tw_step *step, const plan *p)
{
    tw_context *ctx = step->ctx;
    const tw_block_info *c = &p->consumer;
    tw_nest nest;
    tw_expr dims[TW_MAX_ITERS];
    if (!instance_nest(step, p, &nest))
        return false;
    for (unsigned i = 0; i < c->n_iters; i++)
        dims[i] = tw_expr_dim(ctx, p->nest.n + i);
    for (unsigned i = 0; i < c->n_accesses; i++) {
        const tw_block_access *a = &c->accesses[i];
        const produced *b = find_produced(p, a->buffer);
        for (unsigned axis = 0; b && !a->store && axis < b->box.rank; axis++) {
            tw_expr e = a->rank && a->iters[axis]
                            ? tw_expr_substitute(ctx, a->iters[axis], dims, c->n_iters)
                            : NULL;
            tw_interval read = tw_interval_clip(ctx, tw_hull(ctx, e, &nest, p->nest.n),
                                                b->buffer->type->dims[axis]);
            if (!tw_interval_contains(ctx, b->box.sides[axis], read, &p->nest, p->nest.n))
                return tw_step_refuse(step,
                                      "block \"%s\" reads more of %%%s (axis %u) than one "
                                      "iteration of loop %%%s makes",
                                      c->name, tw_buffer_name(b->buffer), axis,
                                      tw_loop_name(p->loop));
        }
    }
    return true;
}

/* Instances whose inputs come from elsewhere must find them in the boxes, too. */
static bool check_covered(const tw_step *step, const plan *p)
{
    for (unsigned i = 0; i < p->n_buffers; i++)
        if (p->buffers[i].elsewhere && !p->buffers[i].whole)
            return tw_step_refuse(step, "a part of %%%s is written outside of loop %%%s",
                                  tw_buffer_name(p->buffers[i].buffer), tw_loop_name(p->loop));
    return true;
}

static bool check_once(const tw_step *step, const plan *p)
{
    unsigned shared = shared_loops(p);
    for (unsigned level = shared; level < p->nest.n; level++)
        if (!tw_instances_tell(step->ctx, p->iters, p->consumer.n_iters, &p->nest, shared, level))
            return tw_step_refuse(step,
                                  "block \"%s\" would run again in each iteration of loop %%%s",
                                  p->consumer.name, tw_loop_name(p->nest.loops[level]));
    return true;
}

/* Nobody may access the consumer's results between the new place and the old one. */
static bool check_outputs(const tw_step *step, const plan *p)
{
    for (unsigned i = 0; tw_block_written(&p->consumer, i); i++) {
        tw_value *buffer = tw_block_written(&p->consumer, i);
        tw_buffer_uses uses;
        if (!tw_buffer_uses_of(step->ctx, buffer, &uses))
            return tw_step_refuse(step, "%%%s is used in an unknown way", tw_buffer_name(buffer));
        for (unsigned k = 0; k < uses.n_stores + uses.n_loads; k++) {
            tw_op *use = k < uses.n_stores ? uses.stores[k] : uses.loads[k - uses.n_stores];
            if (tw_op_is_ancestor(p->consumer.op, use))
                continue;
            bool inside = tw_op_is_ancestor(p->loop, use);
            if (inside ||
                (!tw_program_before(use, p->loop) && !tw_program_before(p->consumer.op, use)))
                return tw_step_refuse(step,
                                      "%%%s, which block \"%s\" writes, is accessed before it",
                                      tw_buffer_name(buffer), p->consumer.name);
        }
    }
    return true;
}

static bool make_plan(const tw_step *step, plan *p)
{
    if (!tw_step_target_loop(step, step->operands[0], p->loop, &p->nest) ||
        !tw_step_block(step, step->operands[0], &p->consumer))
        return false;
    if (!tw_step_whole(step, &p->consumer))
        return false;
    if (p->consumer.sequential || (p->consumer.has_reduce && !p->consumer.has_init))
        return tw_step_refuse(step, "block \"%s\" runs in order or is a decomposed reduction",
                              p->consumer.name);
    if (!tw_program_before(p->loop, p->consumer.op))
        return tw_step_refuse(step, "block \"%s\" does not come after loop %%%s", p->consumer.name,
                              tw_loop_name(p->loop));
    if (!find_inputs(step, p) || !check_covered(step, p))
        return false;
    map_instances(step, p);
    map_by_shared_loops(step, p);
    tw_conditions own = tw_outer_conditions(step->ctx, &p->consumer, shared_loops(p));
    if (!own.complete)
        return tw_step_refuse(step, "block \"%s\" has masks of its own", p->consumer.name);
    add_conditions(step, p, own);
    return check_contained(step, p) && check_once(step, p) && check_outputs(step, p);
}

/* Notes the sides that producers show to be within the extents. */
static void note_within(const tw_step *step, plan *p)
{
    for (unsigned i = 0; i < p->consumer.n_iters; i++)
        for (unsigned k = 0; k < p->n_buffers; k++)
            p->iters[i].within |= tw_side_within(step->ctx, p->buffers[k].producer, p->iters[i],
                                                 p->consumer.extents[i], p->nest.n);
}

bool tw_do_reverse_compute_at(const tw_step *step)
{
    plan p = {.loop = step->operands[1]};
    if (!make_plan(step, &p))
        return false;
    if (!tw_block_values_dominate(p.consumer.op, p.after))
        return tw_step_refuse(step, "block \"%s\" uses values that are not to be had in loop %%%s",
                              p.consumer.name, tw_loop_name(p.loop));
    note_within(step, &p);
    tw_builder place = {step->ctx, &p.loop->regions[0], p.after->next, p.consumer.op->loc};
    tw_rebuild_loops(step->ctx, p.consumer.op, place, p.iters, &p.nest, &p.conditions);
    for (unsigned i = 0; i < p.n_buffers; i++)
        tw_sink_alloc(step->ctx, p.buffers[i].buffer, &p.loop->regions[0]);
    return true;
}
