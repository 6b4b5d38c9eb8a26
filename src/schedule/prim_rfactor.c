/* prim_rfactor.c: rfactor: a reduction loop makes partial results.
 *
 *     for %i { for %ko { for %ki { block "sum" (%v = %i, %w: reduce = %ko * 8 + %ki) {
 *       init { %T[%v] = 0 }  %T[%v] = %T[%v] + %X[%v, %w] } } } }
 * for %ki:
 *     for %i {
 *       for %ko { for %ki { block "sum" (%v = %i, %p = %ki, %r: reduce = %ko) {
 *         init { %P[%v, %p] = 0 }  %P[%v, %p] = %P[%v, %p] + %X[%v, %r * 8 + %p] } } }
 *       for %p { block "sum_final" (%v = %i, %p: reduce = %p) {
 *         init { %T[%v] = 0 }  %T[%v] = %T[%v] + %P[%v, %p] } } } */
#include "schedule/region.h"

#include <string.h>

typedef struct plan {
    tw_block_info block;
    unsigned level, first; /* of the loop; of the reduction's outermost loop */
    int64_t extent;        /* of the loop */
    const tw_block_access *load, *store, *init;
    tw_op *combine; /* makes the stored value from the loaded one */
    unsigned axis;
    tw_expr *where,
        *masks; /* the block's conditions over the loops: of results, of the reduction */
    unsigned n_where, n_masks;
    unsigned reduce_loops[TW_MAX_NEST], n_reduce_loops; /* levels, but for the loop's own */
} plan;

/* ---- What is reduced ----------------------------------------------------------------- */

/* The operation that joins two partial results, if the block's update is known to be one. */
static bool combiner_of(const tw_op *op, tw_loop_kind *kind)
{
    *kind = tw_loop_kind_of(op);
    switch (*kind) {
    case TW_LOOP_FMA:
    case TW_LOOP_DOT4:
        *kind = TW_LOOP_ADD;
        return true;
    case TW_LOOP_ADD:
    case TW_LOOP_MUL:
    case TW_LOOP_MAX:
    case TW_LOOP_MIN:
    case TW_LOOP_AND:
    case TW_LOOP_OR:
        return true;
    default:
        return false;
    }
}

/* Whether starting from the init value several times changes nothing. */
static bool init_is_neutral(const plan *p, tw_loop_kind combiner)
{
    if (combiner != TW_LOOP_ADD && combiner != TW_LOOP_MUL)
        return true; /* max, min, and, or: joining a value twice is joining it once */
    tw_op *value = tw_operand(p->init->op, 0)->op;
    if (!value || !tw_is_loop(value, TW_LOOP_CONST))
        return false;
    tw_attr attr = tw_op_attr(value, "value");
    double neutral = combiner == TW_LOOP_MUL;
    if (attr->kind == TW_ATTR_FLOAT)
        return attr->u.real == neutral;
    return attr->kind == TW_ATTR_INT && attr->u.integer == (int64_t)neutral;
}

static bool find_accesses(const tw_step *step, plan *p)
{
    const tw_block_info *b = &p->block;
    tw_value *buffer = tw_block_written(b, 0);
    if (tw_block_written(b, 1))
        return tw_step_refuse(step, "block \"%s\" has more than one result", b->name);
    for (unsigned i = 0; i < b->n_accesses; i++) {
        const tw_block_access *a = &b->accesses[i];
        if (a->buffer != buffer)
            continue;
        const tw_block_access **slot = !a->store ? &p->load : a->init ? &p->init : &p->store;
        if (*slot || !a->exact || a->masked || (a->init && !a->store))
            return tw_step_refuse(step, "block \"%s\" must load, store and init %%%s once each",
                                  b->name, tw_buffer_name(buffer));
        *slot = a;
    }
    if (!p->load || !p->store || !p->init)
        return tw_step_refuse(step, "block \"%s\" must load, store and init %%%s once each",
                              b->name, tw_buffer_name(buffer));
    return true;
}

/* Whether the stored value is the loaded one joined with one that does not depend on it. */
static bool check_update(const tw_step *step, plan *p)
{
    tw_value *loaded = tw_result(p->load->op, 0);
    tw_loop_kind combiner = TW_LOOP_COUNT;
    p->combine = tw_operand(p->store->op, 0)->op;
    bool fits = p->combine && tw_value_has_one_use(loaded) && loaded->uses->user == p->combine &&
                combiner_of(p->combine, &combiner) &&
                (p->combine->n_operands < 3 || loaded->uses->index == 2);
    if (!fits)
        return tw_step_refuse(step,
                              "block \"%s\" must have the form T = T op x with op add, mul, max, "
                              "min, and, or, fma or dot4",
                              p->block.name);
    return init_is_neutral(p, combiner) ||
           tw_step_refuse(step,
                          "the init of block \"%s\" is not the neutral element of its operation",
                          p->block.name);
}

/* ---- Loops --------------------------------------------------------------------------- */

static bool find_loops(const tw_step *step, plan *p)
{
    const tw_block_info *b = &p->block;
    tw_op *loop = step->operands[1];
    p->level = p->first = b->nest.n;
    for (unsigned i = 0; i < b->nest.n; i++) {
        if (b->nest.loops[i] == loop)
            p->level = i;
        if (!tw_loop_is_reduce(b, i))
            continue;
        if (p->first == b->nest.n)
            p->first = i;
        if (tw_loop_is_spatial(b, i))
            return tw_step_refuse(step, "loop %%%s runs through results and reduction at once",
                                  tw_loop_name(b->nest.loops[i]));
        int64_t extent;
        if (!tw_loop_const_extent(b->nest.loops[i], &extent) &&
            (!b->nest.known[i] || !tw_expr_is_const(b->nest.lo[i]) || b->nest.lo[i]->value != 0))
            return tw_step_refuse(step, "loop %%%s does not start at 0",
                                  tw_loop_name(b->nest.loops[i]));
        if (tw_expr_dim_count(tw_loop_hi(b->nest.loops[i])) > 0)
            return tw_step_refuse(step, "the bounds of loop %%%s depend on other loops",
                                  tw_loop_name(b->nest.loops[i]));
        if (i != p->level)
            p->reduce_loops[p->n_reduce_loops++] = i;
    }
    if (p->level == b->nest.n || !tw_loop_is_reduce(b, p->level))
        return tw_step_refuse(step, "loop %%%s is no loop of the reduction of block \"%s\"",
                              tw_loop_name(loop), b->name);
    if (!tw_loop_const_extent(loop, &p->extent) || p->extent < 1)
        return tw_step_refuse(step, "loop %%%s must have a constant extent", tw_loop_name(loop));
    return true;
}

/* Takes the block's conditions apart: those of results, and those of the reduction. */
static bool split_where(const tw_step *step, plan *p)
{
    const tw_block_info *b = &p->block;
    tw_attr where = tw_op_attr(b->op, "where");
    size_t n = where ? where->u.map.n : 0;
    tw_expr dims[TW_MAX_EXPR_DIMS];
    p->where = TW_NEW_ARRAY(tw_context_arena(step->ctx), tw_expr, n);
    p->masks = TW_NEW_ARRAY(tw_context_arena(step->ctx), tw_expr, n);
    for (unsigned k = 0; k < b->op->n_operands; k++)
        dims[k] = tw_expr_dim(step->ctx, (unsigned)tw_nest_find(&b->nest, tw_operand(b->op, k)));
    for (size_t i = 0; i < n; i++) {
        tw_expr e = tw_expr_substitute(step->ctx, where->u.map.exprs[i], dims, b->op->n_operands);
        bool reduce = false, other = false;
        for (unsigned k = 0; k < b->nest.n; k++)
            if (tw_expr_uses_dim(e, k)) {
                reduce |= tw_loop_is_reduce(b, k);
                other |= !tw_loop_is_reduce(b, k);
            }
        if (reduce && other)
            return tw_step_refuse(step, "a mask of block \"%s\" mixes results and reduction",
                                  b->name);
        if (reduce)
            p->masks[p->n_masks++] = e;
        else
            p->where[p->n_where++] = e;
    }
    return true;
}

static bool make_plan(const tw_step *step, plan *p)
{
    if (!tw_step_block(step, step->operands[0], &p->block))
        return false;
    const tw_block_info *b = &p->block;
    if (!tw_step_whole(step, b))
        return false;
    if (!b->has_reduce || !b->has_init || b->sequential)
        return tw_step_refuse(step, "block \"%s\" is no reduction with init", b->name);
    if (!find_loops(step, p) || !find_accesses(step, p) || !check_update(step, p) ||
        !split_where(step, p))
        return false;
    unsigned rank = p->store->rank;
    int64_t axis = tw_op_int(step->op, "axis", -1);
    axis = axis < 0 ? axis + rank + 1 : axis;
    if (axis < 0 || axis > rank || rank == TW_MAX_RANK)
        return tw_step_refuse(step, "axis must be in -%u to %u", rank + 1, rank);
    p->axis = (unsigned)axis;
    tw_axis_map map;
    if (!tw_axes_of_iters(b, p->store, &map))
        return tw_step_refuse(step, "an axis of %%%s is no variable of block \"%s\"",
                              tw_buffer_name(p->store->buffer), b->name);
    return tw_box_is_full(step->ctx, b, p->store, p->first) ||
           tw_step_refuse(step,
                          "what block \"%s\" writes below loop %%%s is not known to be a full "
                          "box",
                          b->name, tw_loop_name(b->nest.loops[p->first]));
}

/* ---- Partial results ----------------------------------------------------------------- */

static tw_value *make_partial_buffer(const tw_step *step, const plan *p)
{
    tw_value *result = p->store->buffer;
    tw_expr dims[TW_MAX_RANK];
    unsigned n = 0;
    for (unsigned i = 0; i <= result->type->rank; i++)
        dims[i] = i == p->axis ? tw_expr_const(step->ctx, p->extent) : result->type->dims[n++];
    tw_type type = tw_type_buffer(step->ctx, result->type->elem, result->type->rank + 1, dims,
                                  tw_buffer_alloc(result) ? result->type->scope : "");
    tw_builder b = tw_builder_before(step->ctx, p->block.nest.loops[p->first]);
    return tw_loop_alloc(
        &b, type, tw_arena_printf(tw_context_arena(step->ctx), "%s_rf", tw_buffer_name(result)));
}

/* The new variables of the block: the spatial ones, the loop's, one for each other reduction loop.
 */
static unsigned partial_iters(const tw_step *step, const plan *p, tw_loop_iter *iters)
{
    const tw_block_info *b = &p->block;
    unsigned n = 0;
    for (unsigned i = 0; i < b->n_iters; i++)
        if (!b->reduce[i])
            iters[n++] = (tw_loop_iter){b->op->regions[1].args[i]->name, false, b->extents[i],
                                        b->bindings[i]};
    iters[n++] = (tw_loop_iter){
        tw_arena_printf(tw_context_arena(step->ctx), "v%s", tw_loop_name(step->operands[1])), false,
        tw_expr_const(step->ctx, p->extent), tw_expr_dim(step->ctx, p->level)};
    for (unsigned i = 0; i < p->n_reduce_loops; i++) {
        unsigned level = p->reduce_loops[i];
        iters[n++] = (tw_loop_iter){
            tw_arena_printf(tw_context_arena(step->ctx), "v%s", tw_loop_name(b->nest.loops[level])),
            true, b->nest.hi[level], tw_expr_dim(step->ctx, level)};
    }
    return n;
}

/* The reduction's loops as the new block's variables: the spatial ones come first, then the loop's,
 * then those of the other reduction loops. */
static void reduction_dims(const tw_step *step, const plan *p, tw_expr *dims)
{
    unsigned n = 0;
    memset(dims, 0, TW_MAX_NEST * sizeof *dims);
    for (unsigned i = 0; i < p->block.n_iters; i++)
        n += !p->block.reduce[i];
    dims[p->level] = tw_expr_dim(step->ctx, n++);
    for (unsigned i = 0; i < p->n_reduce_loops; i++)
        dims[p->reduce_loops[i]] = tw_expr_dim(step->ctx, n++);
}

/* Moves one region of the old block to the new one, with the reduction variables expressed by the
 * new variables. */
static void move_region(const tw_step *step, const plan *p, tw_op *to, unsigned r)
{
    const tw_block_info *b = &p->block;
    tw_value **args = to->regions[r].args;
    tw_expr dims[TW_MAX_NEST];
    reduction_dims(step, p, dims);
    unsigned spatial = 0;
    for (unsigned i = 0; i < b->n_iters; i++) {
        tw_value *old = b->op->regions[r].args[i];
        if (b->reduce[i])
            tw_index_replace_value(step->ctx, old,
                                   tw_expr_substitute(step->ctx, b->bindings[i], dims, b->nest.n),
                                   args, to->regions[r].n_args);
        else if (old->uses)
            tw_value_replace_all(old, args[spatial]);
        spatial += !b->reduce[i];
    }
    tw_region_splice(&to->regions[r], NULL, &b->op->regions[r]);
}

/* Adds the new axis to an access of the result and sends it to the partial results. */
static void redirect(const tw_step *step, const plan *p, tw_op *op, tw_value *partial,
                     tw_value *lane)
{
    tw_loop_access access;
    tw_loop_get_access(op, &access);
    unsigned n = access.n_index, rank = (unsigned)access.index->u.map.n, at = 0;
    tw_expr index[TW_MAX_RANK];
    for (unsigned i = 0; i <= rank; i++)
        index[i] = i == p->axis ? tw_expr_dim(step->ctx, n) : access.index->u.map.exprs[at++];
    tw_value **operands = TW_NEW_ARRAY(tw_context_arena(step->ctx), tw_value *, op->n_operands + 1);
    for (unsigned i = 0; i < op->n_operands; i++)
        operands[i] = tw_operand(op, i) == access.buffer ? partial : tw_operand(op, i);
    operands[op->n_operands] = lane;
    tw_op_set_attr(op, "index", tw_attr_map(step->ctx, n + 1, index, rank + 1));
    tw_op_set_operands(op, operands, op->n_operands + 1);
    tw_index_compact(step->ctx, op);
}

typedef struct masking {
    const tw_step *step;
    const plan *p;
    tw_attr masks; /* over the block's variables */
    tw_value **args;
} masking;

static bool mask_access(tw_op *op, void *data)
{
    const masking *m = data;
    tw_loop_access access;
    if (!tw_loop_get_access(op, &access) || op == m->p->load->op)
        return true;
    tw_value *other = NULL;
    tw_builder b = tw_builder_before(m->step->ctx, op);
    if (!access.value)
        other = tw_elem_is_float(op->results[0].type->elem)
                    ? tw_loop_const_float(&b, op->results[0].type, 0)
                    : tw_loop_const_int(&b, op->results[0].type, 0);
    tw_access_add_where(m->step->ctx, op, m->masks, m->args, other);
    return true;
}

/* Masks of the reduction (a last part that is not full) become masks of the update: the variables
 * of partial results and of the reduction are independent of each other, as a block's must be. */
static void mask_update(const tw_step *step, const plan *p, tw_op *block)
{
    tw_expr dims[TW_MAX_NEST];
    if (!p->n_masks)
        return;
    reduction_dims(step, p, dims);
    for (unsigned i = 0; i < p->n_masks; i++)
        p->masks[i] = tw_expr_substitute(step->ctx, p->masks[i], dims, p->block.nest.n);
    masking m = {step, p, NULL, block->regions[1].args};
    m.masks = tw_attr_map(step->ctx, block->regions[1].n_args, p->masks, p->n_masks);
    for (tw_op *op = block->regions[1].first; op; op = op->next)
        tw_walk(op, mask_access, &m);
}

/* The block of the partial results in the old one's place; it takes over its name and regions. */
static tw_op *make_partial_block(const tw_step *step, const plan *p, tw_value *partial)
{
    tw_context *ctx = step->ctx;
    const tw_block_info *b = &p->block;
    tw_loop_iter iters[TW_MAX_NEST + TW_MAX_ITERS];
    unsigned n = partial_iters(step, p, iters), lane = 0;
    tw_value *vars[TW_MAX_NEST];
    for (unsigned i = 0; i < b->nest.n; i++)
        vars[i] = b->nest.vars[i];
    tw_builder at = tw_builder_before(ctx, b->op);
    tw_op *block = tw_loop_block(&at, b->name, iters, n, vars, b->nest.n);
    if (p->n_where)
        tw_op_set_attr(block, "where", tw_attr_map(ctx, b->nest.n, p->where, p->n_where));
    tw_index_compact(ctx, block);
    while (iters[lane].reduce || iters[lane].binding != tw_expr_dim(ctx, p->level))
        lane++;
    move_region(step, p, block, 0);
    move_region(step, p, block, 1);
    redirect(step, p, p->init->op, partial, block->regions[0].args[lane]);
    redirect(step, p, p->load->op, partial, block->regions[1].args[lane]);
    redirect(step, p, p->store->op, partial, block->regions[1].args[lane]);
    mask_update(step, p, block);
    return block;
}

/* ---- Final result -------------------------------------------------------------------- */

/* The init of the final block: a copy of the partial results' with the result's own place. */
static void copy_init(const tw_step *step, const plan *p, tw_op *partial, tw_op *block,
                      const tw_expr *index, unsigned n_spatial)
{
    tw_context *ctx = step->ctx;
    tw_cloner *cloner = tw_cloner_create(ctx);
    for (unsigned i = 0; i < n_spatial; i++)
        tw_cloner_map(cloner, partial->regions[0].args[i], block->regions[0].args[i]);
    tw_builder b = tw_builder_at_end(ctx, &block->regions[0], partial->loc);
    for (const tw_op *op = partial->regions[0].first; op; op = op->next)
        if (op != p->init->op)
            tw_op_insert(tw_op_clone(cloner, op), b.region, NULL);
    tw_loop_store(&b, tw_cloner_lookup(cloner, tw_operand(p->init->op, 0)), p->store->buffer, index,
                  block->regions[0].args, n_spatial, NULL, 0);
}

/* T[s] = combine(T[s], P[s, lane]) */
static void make_update(const tw_step *step, const plan *p, tw_value *partial, tw_op *block,
                        const tw_expr *index, unsigned n_spatial)
{
    tw_context *ctx = step->ctx;
    tw_builder b = tw_builder_at_end(ctx, &block->regions[1], block->loc);
    tw_value **args = block->regions[1].args, *result = p->store->buffer;
    tw_expr with_lane[TW_MAX_RANK];
    unsigned at = 0;
    for (unsigned i = 0; i <= p->store->rank; i++)
        with_lane[i] = i == p->axis ? tw_expr_dim(ctx, n_spatial) : index[at++];
    tw_value *part = tw_loop_load(&b, partial, with_lane, args, n_spatial + 1, NULL, 0, NULL);
    tw_value *old = tw_loop_load(&b, result, index, args, n_spatial, NULL, 0, NULL);
    tw_loop_kind combiner;
    combiner_of(p->combine, &combiner);
    tw_value *sum = tw_loop_op(&b, combiner, (tw_value *[]){old, part}, 2, NULL);
    tw_loop_store(&b, sum, result, index, args, n_spatial, NULL, 0);
    for (tw_op *op = block->regions[1].first; op; op = op->next)
        tw_index_compact(ctx, op);
    tw_index_compact(ctx, block->regions[0].last);
}

static tw_op *make_final_block(const tw_step *step, const plan *p, tw_value *partial_buffer,
                               tw_op *partial)
{
    tw_context *ctx = step->ctx;
    const tw_block_info *b = &p->block;
    tw_loop_iter iters[TW_MAX_ITERS + 1];
    tw_interval sides[TW_MAX_ITERS + 1];
    tw_expr dims[TW_MAX_ITERS] = {0}, index[TW_MAX_RANK];
    unsigned n = 0;
    for (unsigned i = 0; i < b->n_iters; i++)
        if (!b->reduce[i]) {
            dims[i] = tw_expr_dim(ctx, n);
            sides[n] = tw_interval_clip(ctx, tw_hull(ctx, b->bindings[i], &b->nest, p->first),
                                        b->extents[i]);
            iters[n] = (tw_loop_iter){partial->regions[1].args[n]->name, false, b->extents[i],
                                      tw_expr_const(ctx, 0)};
            n++;
        }
    iters[n] = (tw_loop_iter){partial->regions[1].args[n]->name, true,
                              tw_expr_const(ctx, p->extent), tw_expr_const(ctx, 0)};
    sides[n].known = false;
    for (unsigned i = 0; i < p->store->rank; i++)
        index[i] = tw_expr_substitute(ctx, p->store->iters[i], dims, b->n_iters);
    tw_op *loop = b->nest.loops[p->first];
    tw_builder at = {ctx, loop->region, loop->next, loop->loc};
    tw_op *block = tw_loop_block(&at, b->name, iters, n + 1, NULL, 0);
    copy_init(step, p, partial, block, index, n);
    make_update(step, p, partial_buffer, block, index, n);
    tw_nest outer;
    tw_nest_of(ctx, loop, &outer);
    at.before = block;
    tw_conditions conditions = tw_outer_conditions(ctx, b, p->first);
    tw_rebuild_loops(ctx, block, at, sides, &outer, &conditions);
    tw_step_name_block(step, block, tw_arena_printf(tw_context_arena(ctx), "%s_final", b->name));
    return block;
}

bool tw_do_rfactor(const tw_step *step)
{
    plan p = {.level = 0};
    if (!make_plan(step, &p))
        return false;
    tw_value *partial = make_partial_buffer(step, &p);
    tw_op *block = make_partial_block(step, &p, partial);
    step->results[0] = make_final_block(step, &p, partial, block);
    tw_step_replaced(step, p.block.op, block);
    tw_op_erase(p.block.op);
    return true;
}
