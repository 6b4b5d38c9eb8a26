/* region.c: boxes of elements, and loops over boxes of instances; see region.h. */
#include "schedule/region.h"

#include "ir/expr_impl.h"

#include <string.h>

/* A side that is all numbers shrinks to what the block's variables reach within their extents. */
static tw_interval clip_to_extents(tw_context *ctx, const tw_block_info *b, tw_expr index,
                                   tw_interval side)
{
    tw_range r = tw_expr_range(index, b->iter_ranges, b->n_iters);
    int64_t lo, width;
    if (!side.known || !tw_expr_as_const(side.lo, &lo) || !tw_expr_as_const(side.width, &width))
        return side;
    int64_t hi = lo + width < r.hi ? lo + width : r.hi;
    lo = lo > r.lo ? lo : r.lo;
    if (hi >= lo)
        side = (tw_interval){
            .known = true, .lo = tw_expr_const(ctx, lo), .width = tw_expr_const(ctx, hi - lo)};
    return side;
}

tw_box tw_access_box(tw_context *ctx, const tw_block_info *block, const tw_block_access *access,
                     unsigned inner)
{
    tw_box box = {.rank = access->buffer->type->rank};
    for (unsigned i = 0; i < box.rank && i < access->rank; i++) {
        box.sides[i] = tw_hull(ctx, access->loops[i], &block->nest, inner);
        if (access->iters[i])
            box.sides[i] = clip_to_extents(ctx, block, access->iters[i], box.sides[i]);
        box.sides[i] = tw_interval_clip(ctx, box.sides[i], access->buffer->type->dims[i]);
    }
    return box;
}

void tw_box_join(tw_context *ctx, tw_box *a, const tw_box *b, const tw_nest *nest, unsigned inner)
{
    for (unsigned i = 0; i < a->rank; i++)
        a->sides[i] = tw_interval_join(ctx, a->sides[i], b->sides[i], nest, inner);
}

bool tw_box_equal(const tw_box *a, const tw_box *b)
{
    for (unsigned i = 0; i < a->rank; i++)
        if (!a->sides[i].known || !b->sides[i].known || a->sides[i].lo != b->sides[i].lo ||
            a->sides[i].width != b->sides[i].width)
            return false;
    return true;
}

bool tw_box_is_full(tw_context *ctx, const tw_block_info *block, const tw_block_access *access,
                    unsigned inner)
{
    const tw_nest *nest = &block->nest;
    tw_expr volume = tw_expr_const(ctx, 1), instances = volume;
    tw_axis_map axes;
    /* What is masked for being beyond an extent falls on the box's edges only where each axis is
     * one variable. */
    if (!access->exact ||
        (tw_op_attr(block->op, "where") && !tw_axes_of_iters(block, access, &axes)))
        return false;
    for (unsigned i = 0; i < access->rank; i++) {
        tw_interval side = tw_hull(ctx, access->loops[i], nest, inner);
        if (!side.known)
            return false;
        volume = tw_expr_mul(ctx, volume, tw_expr_addc(ctx, side.width, 1));
    }
    tw_expr known[TW_MAX_NEST + TW_MAX_RANK];
    unsigned n = 0;
    for (unsigned i = 0; i < inner; i++)
        known[n++] = tw_expr_dim(ctx, i);
    for (unsigned i = 0; i < access->rank; i++)
        known[n++] = access->loops[i];
    for (unsigned i = inner; i < nest->n; i++) {
        if (tw_loop_is_reduce(block, i) && !tw_loop_is_spatial(block, i))
            continue;
        if (!nest->known[i] || !tw_determines(ctx, known, n, nest->ranges, nest->n, i))
            return false;
        instances = tw_expr_mul(ctx, instances, tw_expr_sub(ctx, nest->hi[i], nest->lo[i]));
    }
    /* As many instances as elements, no two at the same one. */
    return instances == volume && volume->kind != TW_EXPR_INVALID;
}

/* Whether the hull of e is no wider than its values: e is a sum in which each inner loop's variable
 * stands alone, and the loops' extents do not vary. */
static bool hull_is_exact(tw_context *ctx, tw_expr e, const tw_nest *nest, unsigned inner)
{
    tw_sum s;
    tw_sum_init(&s);
    tw_sum_add(&s, e, 1);
    for (size_t i = 0; i < s.n; i++)
        for (unsigned d = inner; d < nest->n; d++) {
            if (!tw_expr_uses_dim(s.terms[i].key, d))
                continue;
            if (s.terms[i].key->kind != TW_EXPR_DIM || !nest->known[d] ||
                tw_expr_dim_count(tw_expr_sub(ctx, nest->hi[d], nest->lo[d])) > 0 ||
                tw_expr_dim_count(nest->lo[d]) > 0)
                return false;
        }
    return !s.invalid;
}

bool tw_side_within(tw_context *ctx, const tw_block_info *witness, tw_interval side, tw_expr extent,
                    unsigned inner)
{
    if (!side.known || tw_op_attr(witness->op, "where"))
        return false;
    for (unsigned i = 0; i < witness->n_iters; i++) {
        tw_interval w = tw_hull(ctx, witness->bindings[i], &witness->nest, inner);
        if (w.known && w.lo == side.lo && w.width == side.width && witness->extents[i] == extent &&
            hull_is_exact(ctx, witness->bindings[i], &witness->nest, inner))
            return true;
    }
    return false;
}

/* The boxes of what one iteration of the loops around a region loads and stores of a buffer. */
typedef struct traffic {
    tw_context *ctx;
    const tw_value *buffer;
    const tw_nest *nest; /* around the region */
    tw_box loaded, stored;
    bool loads, stores, known;
} traffic;

static void add_traffic(tw_op *block, void *data)
{
    traffic *t = data;
    tw_block_info info;
    const char *why;
    if (!t->known || !tw_block_analyse(t->ctx, block, &info, &why)) {
        t->known = false;
        return;
    }
    for (unsigned i = 0; i < info.n_accesses; i++) {
        const tw_block_access *a = &info.accesses[i];
        if (a->buffer != t->buffer)
            continue;
        tw_box box = tw_access_box(t->ctx, &info, a, t->nest->n),
               *sum = a->store ? &t->stored : &t->loaded;
        bool *any = a->store ? &t->stores : &t->loads;
        if (*any)
            tw_box_join(t->ctx, sum, &box, t->nest, t->nest->n);
        else
            *sum = box;
        *any = true;
    }
}

/* Whether all that an iteration loads lies in what it stores. */
static bool lives_in_iteration(tw_context *ctx, const tw_value *buffer, tw_region *region)
{
    tw_nest nest;
    traffic t = {.ctx = ctx, .buffer = buffer, .nest = &nest, .known = true};
    if (!tw_nest_of(ctx, region->first, &nest))
        return false;
    tw_each_block(region->parent, add_traffic, &t);
    if (!t.known || !t.loads || !t.stores)
        return false;
    for (unsigned i = 0; i < t.stored.rank; i++)
        if (!tw_interval_contains(ctx, t.stored.sides[i], t.loaded.sides[i], &nest, nest.n))
            return false;
    return true;
}

void tw_sink_alloc(tw_context *ctx, tw_value *buffer, tw_region *region)
{
    tw_op *alloc = tw_buffer_alloc(buffer);
    if (!alloc || tw_op_is_ancestor(region->parent, alloc))
        return;
    for (tw_use *use = buffer->uses; use; use = use->next)
        if (!tw_child_in(region, use->user) || tw_is_loop(use->user, TW_LOOP_VIEW))
            return;
    if (lives_in_iteration(ctx, buffer, region))
        tw_op_insert(alloc, region, region->first);
}

/* Whether the condition just keeps an iteration variable of the block within its extent. */
static bool is_extent_check(tw_context *ctx, const tw_block_info *b, tw_expr condition)
{
    for (unsigned i = 0; i < b->n_iters; i++) {
        tw_expr left = tw_expr_addc(ctx, tw_expr_sub(ctx, b->extents[i], b->bindings[i]), -1);
        left = tw_expr_simplify(ctx, left, b->nest.ranges, b->nest.n);
        if (condition == left || condition == b->bindings[i])
            return true;
    }
    return false;
}

tw_conditions tw_outer_conditions(tw_context *ctx, const tw_block_info *block, unsigned inner)
{
    tw_attr where = tw_op_attr(block->op, "where");
    tw_conditions out = {.complete = true};
    tw_expr dims[TW_MAX_EXPR_DIMS];
    out.exprs = TW_NEW_ARRAY(tw_context_arena(ctx), tw_expr, where ? where->u.map.n : 0);
    for (unsigned i = 0; i < block->op->n_operands; i++)
        dims[i] = tw_expr_dim(ctx, (unsigned)tw_nest_find(&block->nest, tw_operand(block->op, i)));
    for (size_t i = 0; where && i < where->u.map.n; i++) {
        tw_expr e = tw_expr_substitute(ctx, where->u.map.exprs[i], dims, block->op->n_operands);
        e = tw_expr_simplify(ctx, e, block->nest.ranges, block->nest.n);
        tw_interval side = tw_hull(ctx, e, &block->nest, inner);
        bool outer_only = side.known && tw_expr_is_const(side.width) && side.width->value == 0;
        if (!outer_only && !is_extent_check(ctx, block, e))
            out.complete = false;
        tw_expr most = side.known ? tw_expr_add(ctx, side.lo, side.width) : NULL;
        /* Of sizes alone: what is computed for no instance harms nobody, but what is not computed
         * may be asked for by another block. */
        if (most && tw_expr_dim_count(most) &&
            !tw_expr_at_least(ctx, most, 0, block->nest.ranges, inner))
            out.exprs[out.n++] = tw_expr_simplify(ctx, most, block->nest.ranges, inner);
    }
    return out;
}

/* ---- Loops over boxes ---------------------------------------------------------------- */

/* The loop variable's name from the iteration variable's: vi -> i. */
static const char *loop_name(const tw_value *iter)
{
    const char *name = iter->name ? iter->name : "i";
    return name[0] == 'v' && name[1] ? name + 1 : name;
}

/* The making of loops for one block. Dimensions: values. */
typedef struct rebuild {
    tw_context *ctx;
    tw_op *block;
    tw_builder b;
    tw_values values;
    tw_expr *bindings;
    tw_expr *where;
    size_t n_where;
} rebuild;

/* A side that is the whole extent needs no offset and no mask. */
static bool is_whole(tw_context *ctx, tw_interval side, tw_expr extent)
{
    return tw_expr_is_const(side.lo) && side.lo->value == 0 &&
           side.width == tw_expr_addc(ctx, extent, -1);
}

/* A loop for iteration variable i over its side of the box. */
static void make_loop(rebuild *r, unsigned i, tw_interval side, tw_expr extent)
{
    tw_context *ctx = r->ctx;
    side.known &= side.known && !is_whole(ctx, side, extent);
    tw_expr size = side.known ? tw_expr_addc(ctx, side.width, 1) : extent;
    tw_expr index = side.known ? side.lo : tw_expr_const(ctx, 0);
    if (!tw_expr_is_const(size) || size->value != 1) {
        tw_op *loop = tw_loop_for(&r->b, tw_expr_const(ctx, 0), size, NULL, 0, NULL,
                                  loop_name(r->block->regions[1].args[i]));
        r->b = tw_builder_at_end(ctx, &loop->regions[0], r->block->loc);
        index = tw_expr_add(ctx, index, tw_values_dim(ctx, &r->values, tw_loop_var(loop)));
    }
    r->bindings[i] = index;
    if (side.known && !side.within) {
        r->where[r->n_where++] = index;
        r->where[r->n_where++] = tw_expr_addc(ctx, tw_expr_sub(ctx, extent, index), -1);
    }
}

void tw_rebuild_loops(tw_context *ctx, tw_op *block, tw_builder place, const tw_interval *iters,
                      const tw_nest *outer, const tw_conditions *conditions)
{
    unsigned n = block->regions[1].n_args, n_conditions = conditions ? conditions->n : 0;
    tw_arena *arena = tw_context_arena(ctx);
    rebuild r = {.ctx = ctx, .block = block, .b = place};
    r.bindings = TW_NEW_ARRAY(arena, tw_expr, n);
    r.where = TW_NEW_ARRAY(arena, tw_expr, 2 * (size_t)n + n_conditions);
    for (unsigned i = 0; i < n_conditions; i++)
        r.where[r.n_where++] = conditions->exprs[i];
    /* The outer variables come first: the intervals' dimensions are right as they are. */
    for (unsigned i = 0; i < outer->n; i++)
        tw_values_dim(ctx, &r.values, outer->vars[i]);
    tw_attr extents = tw_op_attr(block, "extents");
    for (unsigned i = 0; i < n; i++)
        make_loop(&r, i, iters[i], extents->u.map.exprs[i]);
    tw_op *old = block->region ? block->region->parent : NULL;
    tw_op_insert(block, r.b.region, r.b.before);
    if (old)
        tw_erase_empty_loops(old);
    tw_op_set_operands(block, r.values.v, r.values.n);
    tw_op_set_attr(block, "bindings", tw_attr_map(ctx, r.values.n, r.bindings, n));
    tw_op_set_attr(block, "where",
                   r.n_where ? tw_attr_map(ctx, r.values.n, r.where, r.n_where) : NULL);
    tw_simplify_maps(ctx, block);
}

bool tw_instances_tell(tw_context *ctx, const tw_interval *iters, unsigned n, const tw_nest *outer,
                       unsigned shared, unsigned level)
{
    tw_expr known[TW_MAX_NEST + TW_MAX_ITERS];
    unsigned n_known = 0;
    for (unsigned i = 0; i < shared; i++)
        known[n_known++] = tw_expr_dim(ctx, i);
    for (unsigned i = 0; i < n; i++)
        if (tw_interval_tells(ctx, iters[i], iters[i], shared, outer->n))
            known[n_known++] = iters[i].lo;
    return tw_determines(ctx, known, n_known, outer->ranges, outer->n, level);
}
