/* prim_cache.c: cache_read, cache_write, set_scope.
 *
 *     block "b" { … %X[%v] … }
 * with cache_read:
 *     %X_local = loop.alloc : buffer<…, "local">
 *     for … { block "X_local" { %X_local[%a] = %X[%a] } }      over the region that "b" reads
 *     block "b" { … %X_local[%v] … }
 * cache_write is the mirror image, with the copy behind the block's loops. */
#include "schedule/region.h"

static tw_type with_scope(tw_context *ctx, tw_type type, const char *scope)
{
    return tw_type_buffer(ctx, type->elem, type->rank, type->dims, scope);
}

/* A new buffer in front of `before`, named after another: X_local. */
static tw_value *new_buffer(const tw_step *step, const tw_value *like, tw_type type, tw_op *before)
{
    tw_builder b = tw_builder_before(step->ctx, before);
    const char *suffix = type->scope[0] ? type->scope : "copy";
    const char *name =
        tw_arena_printf(tw_context_arena(step->ctx), "%s_%s", tw_buffer_name(like), suffix);
    return tw_loop_alloc(&b, type, name);
}

/* A block that copies the box of `from` to `to`, in loops of its own at the builder's place. */
static tw_op *copy_block(const tw_step *step, tw_builder place, tw_value *from, tw_value *to,
                         const tw_box *box, const tw_nest *outer, const tw_conditions *conditions,
                         const char *name)
{
    tw_context *ctx = step->ctx;
    unsigned rank = from->type->rank;
    tw_loop_iter iters[TW_MAX_RANK];
    tw_expr dims[TW_MAX_RANK];
    tw_interval sides[TW_MAX_RANK];
    for (unsigned i = 0; i < rank; i++) {
        const char *axis = tw_arena_printf(tw_context_arena(ctx), "va%u", i);
        iters[i] = (tw_loop_iter){axis, false, from->type->dims[i], tw_expr_const(ctx, 0)};
        dims[i] = tw_expr_dim(ctx, i);
        sides[i] = box->sides[i];
        /* A part at a fixed place: the variable counts its elements, so that it covers its extent.
         */
        if (sides[i].known && tw_expr_is_const(sides[i].lo)) {
            iters[i].extent = tw_expr_addc(ctx, sides[i].width, 1);
            dims[i] = tw_expr_add(ctx, dims[i], sides[i].lo);
            sides[i].known = false;
        }
    }
    tw_op *block = tw_loop_block(&place, name, iters, rank, NULL, 0);
    tw_builder b = tw_builder_at_end(ctx, &block->regions[1], place.loc);
    tw_value **args = block->regions[1].args;
    tw_value *value = tw_loop_load(&b, from, dims, args, rank, NULL, 0, NULL);
    tw_loop_store(&b, value, to, dims, args, rank, NULL, 0);
    tw_step_name_block(step, block, name);
    /* The block itself marks the place; it moves into its loops. */
    tw_builder loops = {ctx, place.region, block, place.loc};
    tw_rebuild_loops(ctx, block, loops, sides, outer, conditions);
    return block;
}

typedef struct swap {
    tw_value *from, *to;
} swap;

static bool swap_operands(tw_op *op, void *data)
{
    const swap *s = data;
    for (unsigned i = 0; i < op->n_operands; i++)
        if (tw_operand(op, i) == s->from)
            tw_op_set_operand(op, i, s->to);
    return true;
}

static void replace_buffer(tw_op *block, tw_value *from, tw_value *to)
{
    swap s = {from, to};
    tw_walk(block, swap_operands, &s);
}

/* The box of all accesses of the block to the buffer; false when one is through a view. */
static bool box_of(const tw_step *step, const tw_block_info *b, const tw_value *buffer,
                   unsigned inner, tw_box *box)
{
    bool first = true;
    for (unsigned i = 0; i < b->n_accesses; i++) {
        const tw_block_access *a = &b->accesses[i];
        if (a->buffer != buffer)
            continue;
        if (!a->rank && buffer->type->rank > 0)
            return tw_step_refuse(step, "block \"%s\" accesses %%%s through a view", b->name,
                                  tw_buffer_name(buffer));
        tw_box one = tw_access_box(step->ctx, b, a, inner);
        if (first)
            *box = one;
        else
            tw_box_join(step->ctx, box, &one, &b->nest, inner);
        first = false;
    }
    return true;
}

/* ---- Cache read ---------------------------------------------------------------------- */

/* The outermost region around the block in which the buffer is there, all stores to the buffer come
 * before it (or stand nowhere below), and the operation of it that the block is in. */
static bool place_of_copy(const tw_step *step, tw_op *block, const tw_value *buffer,
                          const tw_buffer_uses *uses, tw_op **child)
{
    const tw_op *alloc = tw_buffer_alloc(buffer);
    tw_region *region = alloc ? alloc->region : &step->s->kernel->regions[0];
    for (unsigned i = 0; i < uses->n_stores; i++) {
        tw_region *common = tw_common_region(uses->stores[i], block);
        if (!common || tw_block_around(uses->stores[i]) == block)
            return tw_step_refuse(step, "block \"%s\" writes the buffer itself",
                                  tw_block_name(block));
        if (tw_op_is_ancestor(region->parent, common->parent))
            region = common;
    }
    *child = tw_child_in(region, block);
    for (unsigned i = 0; i < uses->n_stores; i++) {
        tw_op *store = tw_child_in(region, uses->stores[i]);
        if (store && !tw_op_is_before(store, *child))
            return tw_step_refuse(step, "the buffer is written behind block \"%s\", too",
                                  tw_block_name(block));
    }
    return true;
}

/* Whether the store alone writes the whole buffer, for each time that it is allocated. */
static bool writes_all(const tw_step *step, tw_op *store)
{
    tw_context *ctx = step->ctx;
    tw_block_info b;
    const char *why;
    tw_op *block = tw_block_around(store);
    tw_nest around = {.n = 0};
    if (!block || !tw_block_analyse(ctx, block, &b, &why))
        return false;
    const tw_op *alloc = tw_buffer_alloc(tw_root_buffer(tw_operand(store, 1)));
    if (alloc && !tw_nest_of(ctx, alloc, &around))
        return false;
    for (unsigned i = 0; i < b.n_accesses; i++) {
        const tw_block_access *a = &b.accesses[i];
        tw_conditions conditions = tw_outer_conditions(ctx, &b, around.n);
        if (a->op != store || !conditions.complete || conditions.n || a->masked ||
            !tw_box_is_full(ctx, &b, a, around.n))
            continue;
        tw_box box = tw_access_box(ctx, &b, a, around.n), all = {.rank = box.rank};
        for (unsigned d = 0; d < box.rank; d++)
            all.sides[d] = (tw_interval){.known = true,
                                         .lo = tw_expr_const(ctx, 0),
                                         .width = tw_expr_addc(ctx, a->buffer->type->dims[d], -1)};
        return tw_box_equal(&box, &all);
    }
    return false;
}

/* Whether all elements of the box are there to be copied: the block itself reads them all, or one
 * block writes the whole buffer. */
static bool all_is_there(const tw_step *step, const tw_block_info *b, tw_value *buffer,
                         const tw_box *box, unsigned inner, const tw_buffer_uses *uses)
{
    if (!uses->n_stores && !tw_buffer_alloc(buffer))
        return true;
    bool complete = tw_outer_conditions(step->ctx, b, inner).complete;
    for (unsigned i = 0; complete && i < b->n_accesses; i++) {
        const tw_block_access *a = &b->accesses[i];
        if (a->buffer != buffer || a->store || a->masked || !tw_box_is_full(step->ctx, b, a, inner))
            continue;
        tw_box one = tw_access_box(step->ctx, b, a, inner);
        if (tw_box_equal(&one, box))
            return true;
    }
    for (unsigned i = 0; i < uses->n_stores; i++)
        if (writes_all(step, uses->stores[i]))
            return true;
    return tw_step_refuse(step,
                          "not all elements of the region of %%%s that block \"%s\" reads "
                          "are known to be written",
                          tw_buffer_name(buffer), b->name);
}

bool tw_do_cache_read(const tw_step *step)
{
    tw_context *ctx = step->ctx;
    tw_block_info b;
    tw_buffer_uses uses;
    tw_op *child;
    tw_nest outer;
    tw_box box = {0};
    if (!tw_step_block(step, step->operands[0], &b))
        return false;
    int64_t read = tw_op_int(step->op, "read", 0);
    tw_value *buffer = read >= 0 && read < INT32_MAX ? tw_block_read(&b, (unsigned)read) : NULL;
    if (!buffer)
        return tw_step_refuse(step, "block \"%s\" has no read buffer number %lld", b.name,
                              (long long)read);
    if (!tw_buffer_uses_of(ctx, buffer, &uses) ||
        !place_of_copy(step, b.op, buffer, &uses, &child) || !tw_nest_of(ctx, child, &outer) ||
        !box_of(step, &b, buffer, outer.n, &box))
        return false;
    tw_conditions conditions = tw_outer_conditions(ctx, &b, outer.n);
    if (!conditions.complete && outer.n > 0 && uses.n_stores > 0)
        return tw_step_refuse(step,
                              "masks of block \"%s\" leave open which elements of %%%s are there "
                              "to be copied",
                              b.name, tw_buffer_name(buffer));
    if (!all_is_there(step, &b, buffer, &box, outer.n, &uses))
        return false;
    const char *scope = tw_op_string(step->op, "scope", "");
    tw_value *copy = new_buffer(step, buffer, with_scope(ctx, buffer->type, scope), child);
    replace_buffer(b.op, buffer, copy);
    step->results[0] = copy_block(step, tw_builder_before(ctx, child), buffer, copy, &box, &outer,
                                  &conditions, copy->name);
    tw_block_inherit(step->results[0], b.op);
    return true;
}

/* ---- Cache write --------------------------------------------------------------------- */

/* The block's outermost loop, of those that the buffer is not allocated in, with nothing else
 * around that touches the buffer; `outer` are the loops around it. */
static bool check_cache_write(const tw_step *step, const tw_block_info *b, tw_value *buffer,
                              tw_op **child, tw_nest *outer)
{
    tw_buffer_uses uses;
    const tw_op *alloc = tw_buffer_alloc(buffer);
    *child = tw_child_in(alloc ? alloc->region : &step->s->kernel->regions[0], b->op);
    if (!tw_nest_of(step->ctx, *child, outer))
        return false;
    if (!tw_buffer_uses_of(step->ctx, buffer, &uses))
        return tw_step_refuse(step, "%%%s is used in an unknown way", tw_buffer_name(buffer));
    for (unsigned i = 0; i < uses.n_stores + uses.n_loads; i++) {
        tw_op *use = i < uses.n_stores ? uses.stores[i] : uses.loads[i - uses.n_stores];
        if (tw_op_is_ancestor(*child, use) && !tw_op_is_ancestor(b->op, use))
            return tw_step_refuse(step,
                                  "%%%s is accessed by other blocks in the loops of block "
                                  "\"%s\"",
                                  tw_buffer_name(buffer), b->name);
    }
    for (unsigned i = 0; i < b->n_accesses; i++) {
        const tw_block_access *a = &b->accesses[i];
        if (a->buffer == buffer && a->store &&
            (a->masked || !tw_box_is_full(step->ctx, b, a, outer->n)))
            return tw_step_refuse(step,
                                  "what block \"%s\" writes to %%%s is not known to be a full "
                                  "box",
                                  b->name, tw_buffer_name(buffer));
    }
    return !b->has_reduce || b->has_init ||
           tw_step_refuse(step, "the reduction of block \"%s\" has been decomposed", b->name);
}

bool tw_do_cache_write(const tw_step *step)
{
    tw_context *ctx = step->ctx;
    tw_block_info b;
    tw_op *child;
    tw_nest outer;
    tw_box box = {0};
    if (!tw_step_block(step, step->operands[0], &b))
        return false;
    tw_value *buffer = tw_step_written(step, &b);
    if (!buffer)
        return false;
    if (!tw_step_whole(step, &b))
        return false;
    if (b.sequential)
        return tw_step_refuse(step, "block \"%s\" runs in order", b.name);
    if (!check_cache_write(step, &b, buffer, &child, &outer) ||
        !box_of(step, &b, buffer, outer.n, &box))
        return false;
    tw_conditions conditions = tw_outer_conditions(ctx, &b, outer.n);
    if (!conditions.complete && outer.n > 0)
        return tw_step_refuse(step,
                              "masks of block \"%s\" leave open which elements of %%%s are there "
                              "to be copied",
                              b.name, tw_buffer_name(buffer));
    const char *scope = tw_op_string(step->op, "scope", "");
    tw_value *between = new_buffer(step, buffer, with_scope(ctx, buffer->type, scope), child);
    replace_buffer(b.op, buffer, between);
    tw_builder place = {ctx, child->region, child->next, child->loc};
    const char *name = tw_arena_printf(tw_context_arena(ctx), "%s_write", tw_buffer_name(buffer));
    step->results[0] = copy_block(step, place, between, buffer, &box, &outer, &conditions, name);
    return true;
}

/* ---- Scope --------------------------------------------------------------------------- */

bool tw_do_set_scope(const tw_step *step)
{
    tw_block_info b;
    if (!tw_step_block(step, step->operands[0], &b))
        return false;
    tw_value *buffer = tw_step_own_written(step, &b);
    if (!buffer)
        return false;
    buffer->type = with_scope(step->ctx, buffer->type, tw_op_string(step->op, "scope", ""));
    return true;
}
