/* prim_inline.c: compute_inline: consumers compute a producer's elements themselves.
 *
 *     block "a" (%v = …) { %T[%v + 1] = exp(%X[%v]) }
 *     block "b" (%w = …) { %Y[%w] = (%T[%w] where (%w - 1) else 0.0) * 2.0 }
 * becomes
 *     block "b" (%w = …) {
 *       %Y[%w] = select(%w - 1 >= 0, exp(%X[%w - 1] where (%w - 1) else 0.0), 0.0) * 2.0 } */
#include "base/vec.h"
#include "schedule/inline.h"

typedef struct plan {
    tw_block_info producer;
    const tw_block_access *store;
    tw_axis_map map;
    tw_buffer_uses uses; /* of the buffer in between */
} plan;

/* The only store of the block; NULL when there are several. */
static const tw_block_access *only_store(const tw_block_info *b)
{
    const tw_block_access *store = NULL;
    for (unsigned i = 0; i < b->n_accesses; i++)
        if (b->accesses[i].store) {
            if (store)
                return NULL;
            store = &b->accesses[i];
        }
    return store;
}

/* Whether a store to what the producer reads may run between the producer and the consumer. */
static bool may_change_between(tw_op *producer, tw_op *store, tw_op *consumer)
{
    if (tw_op_is_ancestor(producer, store))
        return false;
    if (!tw_program_before(store, producer))
        return !tw_program_before(consumer, store) || tw_block_around(store) == consumer;
    /* In a loop around both, the store of the next iteration follows. */
    tw_region *common = tw_common_region(store, producer);
    return common && tw_is_loop(common->parent, TW_LOOP_FOR) &&
           !tw_op_is_ancestor(common->parent, consumer);
}

static bool check_inputs(const tw_step *step, const plan *p, tw_op *consumer)
{
    for (unsigned i = 0; tw_block_read(&p->producer, i); i++) {
        tw_value *input = tw_block_read(&p->producer, i);
        tw_buffer_uses uses;
        if (!tw_buffer_uses_of(step->ctx, input, &uses))
            return tw_step_refuse(step, "%%%s is used in an unknown way", tw_buffer_name(input));
        for (unsigned k = 0; k < uses.n_stores; k++)
            if (may_change_between(p->producer.op, uses.stores[k], consumer))
                return tw_step_refuse(step,
                                      "%%%s, which block \"%s\" reads, is written before block "
                                      "\"%s\" would read it",
                                      tw_buffer_name(input), p->producer.name,
                                      tw_block_name(consumer));
    }
    return true;
}

static bool check_consumers(const tw_step *step, const plan *p)
{
    tw_value *buffer = p->store->buffer;
    for (unsigned i = 0; i < p->uses.n_loads; i++) {
        tw_op *load = p->uses.loads[i], *consumer = tw_block_around(load);
        if (!consumer || tw_operand(load, 0) != buffer)
            return tw_step_refuse(step, "%%%s is read outside of blocks or through a view",
                                  tw_buffer_name(buffer));
        if (consumer == p->producer.op || !tw_program_before(p->producer.op, consumer))
            return tw_step_refuse(step, "block \"%s\" reads %%%s before it is computed",
                                  tw_block_name(consumer), tw_buffer_name(buffer));
        if (!tw_block_values_dominate(p->producer.op, load))
            return tw_step_refuse(step, "block \"%s\" uses values that \"%s\" cannot",
                                  p->producer.name, tw_block_name(consumer));
        if (!check_inputs(step, p, consumer))
            return false;
    }
    return true;
}

static bool make_plan(const tw_step *step, plan *p)
{
    tw_block_info *b = &p->producer;
    if (!tw_step_block(step, step->operands[0], b))
        return false;
    if (!tw_step_whole(step, b))
        return false;
    if (b->has_reduce || b->has_init || b->sequential)
        return tw_step_refuse(step,
                              "block \"%s\" reduces or runs in order; only element-wise blocks "
                              "can be inlined",
                              b->name);
    p->store = only_store(b);
    if (!p->store || p->store->masked || p->store->op->region->parent != b->op ||
        !tw_buffer_alloc(p->store->buffer))
        return tw_step_refuse(step,
                              "block \"%s\" must have one store, without a condition, to a buffer "
                              "of the kernel's own",
                              b->name);
    tw_value *buffer = p->store->buffer;
    if (!tw_buffer_uses_of(step->ctx, buffer, &p->uses) || p->uses.n_stores != 1)
        return tw_step_refuse(step, "%%%s is written by other blocks, too", tw_buffer_name(buffer));
    if (!tw_axes_of_iters(b, p->store, &p->map) || !tw_axes_give_all(b, &p->map))
        return tw_step_refuse(step,
                              "an element of %%%s does not tell which instance of block \"%s\" "
                              "writes it",
                              tw_buffer_name(buffer), b->name);
    return check_consumers(step, p);
}

/* ---- Carrying out -------------------------------------------------------------------- */

/* The producer's iteration variables at a load of its buffer, over the load's index operands. */
static void iters_at(const tw_step *step, const plan *p, const tw_loop_access *access,
                     tw_expr *exprs)
{
    for (unsigned i = 0; i < p->producer.n_iters; i++)
        exprs[i] = p->map.axis[i] < 0
                       ? tw_expr_const(step->ctx, 0)
                       : tw_expr_addc(step->ctx, access->index->u.map.exprs[p->map.axis[i]],
                                      -p->map.shift[i]);
}

static tw_value *zero_of(tw_builder *b, tw_type type)
{
    return tw_elem_is_float(type->elem) ? tw_loop_const_float(b, type, 0)
                                        : tw_loop_const_int(b, type, 0);
}

/* Whether all conditions of the load hold, as a value. */
static tw_value *mask_value(tw_builder *b, const tw_loop_access *access, tw_value *const *operands)
{
    tw_value *all = NULL;
    tw_value *zero = tw_loop_const_int(b, tw_type_scalar(b->ctx, TW_INDEX), 0);
    for (size_t i = 0; i < access->where->u.map.n; i++) {
        tw_value *left =
            tw_index_materialize(b, access->where->u.map.exprs[i], operands, access->n_index);
        tw_value *holds = tw_loop_cmp(b, "ge", left, zero);
        all = all ? tw_loop_op(b, TW_LOOP_AND, (tw_value *[]){all, holds}, 2, NULL) : holds;
    }
    return all;
}

/* What of a load is needed while it is replaced. */
typedef struct site {
    const tw_step *step;
    const plan *p;
    tw_op *load;
    tw_loop_access access;
    tw_value **operands; /* index operands of the load */
    tw_cloner *cloner;
    tw_value *stored; /* by the producer */
    bool plain;       /* the producer stores what an unmasked load gives: no select is needed */
} site;

/* Loads of the copied body are masked as the replaced load was: outside, the producer's element,
 * and what it is computed from, may not exist. */
static bool mask_load(tw_op *op, void *data)
{
    site *s = data;
    if (!tw_is_loop(op, TW_LOOP_LOAD))
        return true;
    tw_builder b = tw_builder_before(s->step->ctx, op);
    bool value = s->plain && tw_cloner_lookup(s->cloner, s->stored) == tw_result(op, 0);
    tw_access_add_where(s->step->ctx, op, s->access.where, s->operands,
                        value ? s->access.other : zero_of(&b, op->results[0].type));
    tw_simplify_maps(s->step->ctx, op);
    return true;
}

static tw_value *copy_body(site *s)
{
    tw_context *ctx = s->step->ctx;
    const tw_op *block = s->p->producer.op;
    tw_expr exprs[TW_MAX_ITERS];
    iters_at(s->step, s->p, &s->access, exprs);
    tw_iter_values iters = {exprs, s->operands, s->access.n_index};
    for (tw_op *op = block->regions[1].first; op; op = op->next) {
        if (op == s->p->store->op)
            continue;
        tw_op *copy = tw_copy_body_op(ctx, s->cloner, block, op, &iters, s->load);
        if (s->access.where)
            tw_walk(copy, mask_load, s);
    }
    /* The stored value may be an iteration variable itself. */
    for (unsigned i = 0; i < block->regions[1].n_args; i++)
        if (s->stored == block->regions[1].args[i]) {
            tw_builder b = tw_builder_before(ctx, s->load);
            return tw_index_materialize(&b, exprs[i], s->operands, s->access.n_index);
        }
    return tw_cloner_lookup(s->cloner, s->stored);
}

static void replace_load(const tw_step *step, const plan *p, tw_op *load)
{
    site s = {.step = step,
              .p = p,
              .load = load,
              .cloner = tw_cloner_create(step->ctx),
              .stored = tw_operand(p->store->op, 0)};
    tw_loop_get_access(load, &s.access);
    s.plain = s.stored->op && tw_is_loop(s.stored->op, TW_LOOP_LOAD) &&
              !tw_op_attr(s.stored->op, "where") && s.stored->op->region->parent == p->producer.op;
    s.operands = TW_NEW_ARRAY(tw_context_arena(step->ctx), tw_value *, s.access.n_index);
    for (unsigned i = 0; i < s.access.n_index; i++)
        s.operands[i] = tw_operand(load, s.access.first_index + i);
    tw_value *value = copy_body(&s);
    if (s.access.where && !s.plain) {
        tw_builder b = tw_builder_before(step->ctx, load);
        tw_value *mask = mask_value(&b, &s.access, s.operands);
        value = tw_loop_op(&b, TW_LOOP_SELECT, (tw_value *[]){mask, value, s.access.other}, 3,
                           value->type);
    }
    tw_value_replace_all(tw_result(load, 0), value);
    tw_op_erase(load);
}

static bool same_operation(const tw_op *a, const tw_op *b)
{
    if (a->region != b->region || a->n_operands != b->n_operands ||
        tw_op_attr(a, "index") != tw_op_attr(b, "index") ||
        tw_op_attr(a, "where") != tw_op_attr(b, "where"))
        return false;
    for (unsigned i = 0; i < a->n_operands; i++)
        if (tw_operand(a, i) != tw_operand(b, i))
            return false;
    return true;
}

/* Equal loads in one region are joined first, so that the body is copied once for them: a buffer
 * whose only store is elsewhere does not change between them. */
static void join_equal_loads(plan *p)
{
    unsigned n = 0;
    for (unsigned i = 0; i < p->uses.n_loads; i++) {
        tw_op *load = p->uses.loads[i], *equal = NULL;
        for (unsigned k = 0; k < n && !equal; k++)
            if (same_operation(p->uses.loads[k], load))
                equal = p->uses.loads[k];
        if (!equal) {
            p->uses.loads[n++] = load;
            continue;
        }
        if (tw_op_is_before(load, equal))
            tw_op_insert(equal, load->region, load);
        tw_value_replace_all(tw_result(load, 0), tw_result(equal, 0));
        tw_op_erase(load);
    }
    p->uses.n_loads = n;
}

bool tw_do_compute_inline(const tw_step *step)
{
    plan p;
    if (!make_plan(step, &p))
        return false;
    join_equal_loads(&p);
    for (unsigned i = 0; i < p.uses.n_loads; i++)
        replace_load(step, &p, p.uses.loads[i]);
    tw_value *buffer = p.store->buffer;
    tw_erase_block(p.producer.op);
    tw_erase_if_unused(buffer);
    return true;
}
