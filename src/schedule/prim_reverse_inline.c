/* prim_reverse_inline.c: reverse_compute_inline: a producer computes its only consumer's elements.
 *
 *     block "a" (%v = …) { %T[%v] = exp(%X[%v]) }
 *     block "b" (%w = …) { %Y[%w] = %T[%w] * 2.0 }
 * becomes
 *     block "a" (%v = …) { %Y[%v] = exp(%X[%v]) * 2.0 } */
#include "schedule/inline.h"

typedef struct plan {
    tw_block_info consumer, producer;
    const tw_block_access *store; /* of the producer, to the buffer in between */
    tw_axis_map map;              /* of the consumer's loads of it */
    tw_value *buffer;
} plan;

/* The first buffer that the consumer reads and one other block alone writes. */
static bool find_producer(const tw_step *step, plan *p)
{
    for (unsigned i = 0; tw_block_read(&p->consumer, i); i++) {
        tw_value *buffer = tw_block_read(&p->consumer, i);
        tw_buffer_uses uses;
        if (!tw_buffer_alloc(buffer) || !tw_buffer_uses_of(step->ctx, buffer, &uses) ||
            uses.n_stores != 1 || !tw_block_around(uses.stores[0]))
            continue;
        p->buffer = buffer;
        for (unsigned k = 0; k < uses.n_loads; k++)
            if (tw_block_around(uses.loads[k]) != p->consumer.op)
                return tw_step_refuse(step, "%%%s has other consumers", tw_buffer_name(buffer));
        return tw_step_block(step, tw_block_around(uses.stores[0]), &p->producer);
    }
    return tw_step_refuse(step,
                          "block \"%s\" reads no buffer of the kernel's own that one store writes",
                          p->consumer.name);
}

static bool check_producer(const tw_step *step, plan *p)
{
    tw_block_info *b = &p->producer;
    for (unsigned i = 0; i < b->n_accesses; i++)
        if (b->accesses[i].store && b->accesses[i].buffer == p->buffer)
            p->store = &b->accesses[i];
    if (b->has_reduce || b->has_init || b->sequential || p->store->masked || !p->store->exact ||
        p->store->op->region->parent != b->op)
        return tw_step_refuse(step,
                              "block \"%s\", which makes %%%s, reduces, runs in order or stores "
                              "under a condition",
                              b->name, tw_buffer_name(p->buffer));
    return tw_program_before(b->op, p->consumer.op) ||
           tw_step_refuse(step, "block \"%s\" comes after its consumer", b->name);
}

/* All loads of the buffer read the element that the consumer's instance stands for, and the
 * instances are just the elements. */
static bool check_loads(const tw_step *step, plan *p)
{
    tw_block_info *c = &p->consumer;
    tw_expr *index = NULL;
    for (unsigned i = 0; i < c->n_accesses; i++) {
        const tw_block_access *a = &c->accesses[i];
        if (a->buffer != p->buffer)
            continue;
        bool fits = !a->masked && a->op->region->parent == c->op &&
                    tw_axes_of_iters(c, a, &p->map) && tw_axes_give_all(c, &p->map);
        for (unsigned axis = 0; fits && index && axis < a->rank; axis++)
            fits = a->iters[axis] == index[axis];
        for (unsigned k = 0; fits && k < c->n_iters; k++)
            if (p->map.axis[k] >= 0)
                fits =
                    p->map.shift[k] == 0 && c->extents[k] == p->buffer->type->dims[p->map.axis[k]];
        if (!fits)
            return tw_step_refuse(step,
                                  "block \"%s\" must read just the element of %%%s that its "
                                  "instance stands for",
                                  c->name, tw_buffer_name(p->buffer));
        index = a->iters;
    }
    return true;
}

/* Inputs of the consumer are complete where the producer runs; nothing in between touches its
 * results. */
static bool check_others(const tw_step *step, const plan *p)
{
    const tw_block_info *c = &p->consumer;
    tw_op *producer = p->producer.op;
    for (unsigned i = 0; i < c->n_accesses; i++) {
        tw_value *buffer = c->accesses[i].buffer;
        bool written = c->accesses[i].store;
        tw_buffer_uses uses;
        if (buffer == p->buffer)
            continue;
        if (!tw_buffer_uses_of(step->ctx, buffer, &uses))
            return tw_step_refuse(step, "%%%s is used in an unknown way", tw_buffer_name(buffer));
        for (unsigned k = 0; k < uses.n_stores + (written ? uses.n_loads : 0); k++) {
            tw_op *use = k < uses.n_stores ? uses.stores[k] : uses.loads[k - uses.n_stores];
            if (tw_op_is_ancestor(c->op, use))
                continue;
            tw_region *common =
                tw_op_is_ancestor(producer, use) ? NULL : tw_common_region(use, producer);
            bool before = common && !tw_is_loop(common->parent, TW_LOOP_FOR) &&
                          tw_program_before(use, producer);
            if (!before && !tw_program_before(c->op, use))
                return tw_step_refuse(step, "%%%s is accessed between blocks \"%s\" and \"%s\"",
                                      tw_buffer_name(buffer), p->producer.name, c->name);
        }
    }
    return true;
}

static bool make_plan(const tw_step *step, plan *p)
{
    if (!tw_step_block(step, step->operands[0], &p->consumer))
        return false;
    if (!tw_step_whole(step, &p->consumer))
        return false;
    if (p->consumer.has_reduce || p->consumer.has_init || p->consumer.sequential)
        return tw_step_refuse(step,
                              "block \"%s\" reduces or runs in order; only element-wise blocks "
                              "can be inlined",
                              p->consumer.name);
    if (!find_producer(step, p) || !check_producer(step, p) || !check_loads(step, p) ||
        !check_others(step, p))
        return false;
    return tw_block_values_dominate(p->consumer.op, p->store->op) ||
           tw_step_refuse(step, "block \"%s\" uses values that \"%s\" cannot", p->consumer.name,
                          p->producer.name);
}

bool tw_do_reverse_compute_inline(const tw_step *step)
{
    plan p = {.store = NULL};
    if (!make_plan(step, &p))
        return false;
    tw_context *ctx = step->ctx;
    tw_loop_access store;
    tw_loop_get_access(p.store->op, &store);
    tw_value **operands = TW_NEW_ARRAY(tw_context_arena(ctx), tw_value *, store.n_index);
    for (unsigned i = 0; i < store.n_index; i++)
        operands[i] = tw_operand(p.store->op, store.first_index + i);
    tw_expr exprs[TW_MAX_ITERS];
    for (unsigned i = 0; i < p.consumer.n_iters; i++)
        exprs[i] =
            p.map.axis[i] < 0 ? tw_expr_const(ctx, 0) : store.index->u.map.exprs[p.map.axis[i]];
    tw_iter_values iters = {exprs, operands, store.n_index};
    tw_cloner *cloner = tw_cloner_create(ctx);
    for (tw_op *op = p.consumer.op->regions[1].first; op; op = op->next) {
        if (tw_is_loop(op, TW_LOOP_LOAD) && tw_operand(op, 0) == p.buffer)
            tw_cloner_map(cloner, tw_result(op, 0), store.value);
        else
            tw_copy_body_op(ctx, cloner, p.consumer.op, op, &iters, p.store->op);
    }
    tw_op_erase(p.store->op);
    tw_erase_block(p.consumer.op);
    tw_erase_if_unused(p.buffer);
    return true;
}
