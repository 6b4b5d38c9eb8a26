/* prim_layout.c: transform_layout, transform_block_layout: other axes for buffers and blocks.
 *
 *     %T = loop.alloc : buffer<8x20xf32>            … %T[%i, %j] …
 * with the map (d0, d1) -> (d1 floordiv 4, d0, d1 mod 4):
 *     %T = loop.alloc : buffer<5x8x4xf32>           … %T[%j floordiv 4, %i, %j mod 4] …
 *
 *     for %i = 0 to 8 { for %j = 0 to 20 { block "b" (%vi = %i, %vj = %j) … } }
 * with the map (d0, d1, d2) -> (d1, d0 * 4 + d2) and extents 5, 8, 4:
 *     for %v0 = 0 to 5 { for %v1 = 0 to 8 { for %v2 = 0 to 4 {
 *       block "b" (%vv0 = %v0, …) … %vi is %vv1, %vj is %vv0 * 4 + %vv2 … */
#include "base/checked.h"
#include "schedule/schedule_impl.h"

#include <string.h>

/* ---- Buffers ------------------------------------------------------------------------- */

/* Axes as if they were loops: dimension i runs from 0 to below dims[i]. */
static void nest_of_axes(tw_context *ctx, const tw_expr *dims, unsigned n, tw_nest *nest)
{
    nest->n = n;
    for (unsigned i = 0; i < n; i++) {
        nest->lo[i] = tw_expr_const(ctx, 0);
        nest->hi[i] = dims[i];
        nest->known[i] = true;
        tw_range size = tw_expr_range(dims[i], NULL, 0);
        nest->ranges[i] = (tw_range){.lo = 0, .hi = size.hi == INT64_MAX ? INT64_MAX : size.hi - 1};
    }
}

/* Extents of the new axes; false when an index may be negative or has no known bound. */
static bool new_dims(const tw_step *step, tw_attr map, const tw_nest *axes, tw_expr *out)
{
    tw_context *ctx = step->ctx;
    for (size_t i = 0; i < map->u.map.n; i++) {
        tw_interval side = tw_hull(ctx, map->u.map.exprs[i], axes, 0);
        int64_t lo;
        if (!side.known || !tw_expr_as_const(side.lo, &lo) || lo < 0)
            return tw_step_refuse(step, "new index %zu may be negative or is not bounded", i);
        out[i] = tw_expr_addc(ctx, tw_expr_add(ctx, side.lo, side.width), 1);
    }
    return true;
}

static bool check_layout(const tw_step *step, tw_value *buffer, tw_attr map, tw_buffer_uses *uses)
{
    if (!tw_buffer_alloc(buffer))
        return tw_step_refuse(step, "%%%s is not allocated by the kernel", tw_buffer_name(buffer));
    if (tw_op_attr(buffer->op, "storage_align"))
        return tw_step_refuse(step, "%%%s has its storage aligned for the old axes",
                              tw_buffer_name(buffer));
    if (!tw_buffer_uses_of(step->ctx, buffer, uses))
        return tw_step_refuse(step, "%%%s is used in an unknown way", tw_buffer_name(buffer));
    for (const tw_use *use = buffer->uses; use; use = use->next)
        if (tw_is_loop(use->user, TW_LOOP_VIEW))
            return tw_step_refuse(step, "%%%s has views", tw_buffer_name(buffer));
    if (map->u.map.n_dims != buffer->type->rank || map->u.map.n > TW_MAX_RANK)
        return tw_step_refuse(step, "the map is over %u indices, %%%s has %u axes",
                              map->u.map.n_dims, tw_buffer_name(buffer), buffer->type->rank);
    return true;
}

static void map_access(tw_context *ctx, tw_op *access, tw_attr map)
{
    tw_attr index = tw_op_attr(access, "index");
    tw_expr exprs[TW_MAX_RANK];
    for (size_t i = 0; i < map->u.map.n; i++)
        exprs[i] = tw_expr_substitute(ctx, map->u.map.exprs[i], index->u.map.exprs, index->u.map.n);
    tw_op_set_attr(access, "index", tw_attr_map(ctx, index->u.map.n_dims, exprs, map->u.map.n));
    tw_simplify_maps(ctx, access);
}

bool tw_do_transform_layout(const tw_step *step)
{
    tw_context *ctx = step->ctx;
    tw_block_info b;
    tw_buffer_uses uses;
    tw_nest axes;
    tw_expr dims[TW_MAX_RANK];
    if (!tw_step_block(step, step->operands[0], &b))
        return false;
    tw_attr map = tw_op_attr(step->op, "map");
    tw_value *buffer = tw_step_written(step, &b);
    if (!buffer || !check_layout(step, buffer, map, &uses))
        return false;
    nest_of_axes(ctx, buffer->type->dims, buffer->type->rank, &axes);
    if (!new_dims(step, map, &axes, dims))
        return false;
    for (unsigned i = 0; i < axes.n; i++)
        if (!tw_determines(ctx, map->u.map.exprs, (unsigned)map->u.map.n, axes.ranges, axes.n, i))
            return tw_step_refuse(step,
                                  "the map is not known to send elements of %%%s that differ "
                                  "along axis %u to different places",
                                  tw_buffer_name(buffer), i);
    buffer->type =
        tw_type_buffer(ctx, buffer->type->elem, (unsigned)map->u.map.n, dims, buffer->type->scope);
    for (unsigned i = 0; i < uses.n_loads; i++)
        map_access(ctx, uses.loads[i], map);
    for (unsigned i = 0; i < uses.n_stores; i++)
        map_access(ctx, uses.stores[i], map);
    return true;
}

/* ---- Blocks -------------------------------------------------------------------------- */

typedef struct axes {
    tw_block_info block;
    tw_op *top; /* outermost loop of the block's own */
    tw_attr map;
    int64_t extents[TW_MAX_ITERS];
    unsigned n;
    bool reduce[TW_MAX_ITERS]; /* new ones */
} axes;

/* Whether the map reaches each instance once: it tells all new variables apart, stays inside the
 * old extents, and there are as many new instances as old ones. */
static bool check_bijection(const tw_step *step, const axes *a)
{
    const tw_block_info *b = &a->block;
    tw_range ranges[TW_MAX_ITERS];
    int64_t had = 1, has = 1;
    for (unsigned i = 0; i < a->n; i++) {
        if (a->extents[i] < 1 || !tw_mul_i64(has, a->extents[i], &has))
            return tw_step_refuse(step, "the extents must be above 0 and not too large");
        ranges[i] = (tw_range){.lo = 0, .hi = a->extents[i] - 1};
    }
    for (unsigned i = 0; i < b->n_iters; i++) {
        tw_range r = tw_expr_range(a->map->u.map.exprs[i], ranges, a->n);
        int64_t extent = b->extents[i]->value;
        if (r.lo < 0 || r.hi >= extent)
            return tw_step_refuse(step, "the map may leave the extent %lld of variable %u",
                                  (long long)extent, i);
        if (!tw_mul_i64(had, extent, &had))
            return tw_step_refuse(step, "the extents of block \"%s\" are too large", b->name);
    }
    if (had != has)
        return tw_step_refuse(step, "the new extents have %lld instances, block \"%s\" has %lld",
                              (long long)has, b->name, (long long)had);
    for (unsigned i = 0; i < a->n; i++)
        if (!tw_determines(step->ctx, a->map->u.map.exprs, b->n_iters, ranges, a->n, i))
            return tw_step_refuse(step, "the map is not known to tell new variable %u apart", i);
    return true;
}

/* A new variable is one of the reduction when old ones of the reduction use it, and only they. */
static bool find_kinds(const tw_step *step, axes *a)
{
    for (unsigned i = 0; i < a->n; i++) {
        bool spatial = false;
        for (unsigned k = 0; k < a->block.n_iters; k++)
            if (tw_expr_uses_dim(a->map->u.map.exprs[k], i)) {
                a->reduce[i] |= a->block.reduce[k];
                spatial |= !a->block.reduce[k];
            }
        if (a->reduce[i] && spatial)
            return tw_step_refuse(step, "new variable %u mixes results and reduction", i);
    }
    return true;
}

static bool plan_axes(const tw_step *step, axes *a)
{
    tw_attr extents = tw_op_attr(step->op, "extents");
    if (!tw_step_block(step, step->operands[0], &a->block))
        return false;
    const tw_block_info *b = &a->block;
    a->map = tw_op_attr(step->op, "map");
    a->n = (unsigned)a->map->u.map.n_dims;
    if (a->n < 1 || a->n > TW_MAX_ITERS || a->map->u.map.n != b->n_iters ||
        extents->u.array.n != a->n || step->op->n_results != a->n ||
        tw_op_ints(step->op, "extents", a->extents, TW_MAX_ITERS) != (int)a->n)
        return tw_step_refuse(step,
                              "the map gives each of the %u variables of block \"%s\" over 1 to "
                              "%d new ones, each with an extent and a result",
                              b->n_iters, b->name, TW_MAX_ITERS);
    if (b->sequential)
        return tw_step_refuse(step, "block \"%s\" runs in order", b->name);
    if (b->n_iters == 0 || tw_op_attr(b->op, "where"))
        return tw_step_refuse(step, "block \"%s\" has no variables, or masks", b->name);
    a->top = tw_step_own_loops(step, b);
    return a->top && check_bijection(step, a) && find_kinds(step, a);
}

/* Gives both regions the new variables in the place of the old ones. */
static void replace_variables(tw_context *ctx, const axes *a)
{
    tw_type index = tw_type_scalar(ctx, TW_INDEX);
    for (unsigned r = 0; r < 2; r++) {
        tw_region *region = &a->block.op->regions[r];
        tw_value *vars[TW_MAX_ITERS];
        for (unsigned i = 0; i < a->n; i++) {
            const char *name = tw_arena_printf(tw_context_arena(ctx), "vv%u", i);
            vars[i] = tw_region_add_arg(region, index, name);
        }
        for (unsigned i = 0; i < a->block.n_iters; i++) {
            tw_index_replace_value(ctx, region->args[0], a->map->u.map.exprs[i], vars, a->n);
            tw_region_remove_arg(region, 0);
        }
    }
}

static bool simplify_op(tw_op *op, void *data)
{
    if (tw_index_map_names(op)[0])
        tw_simplify_maps(data, op);
    return true;
}

bool tw_do_transform_block_layout(const tw_step *step)
{
    tw_context *ctx = step->ctx;
    axes a = {.n = 0};
    if (!plan_axes(step, &a))
        return false;
    tw_op *block = a.block.op;
    tw_value *vars[TW_MAX_ITERS];
    tw_expr extents[TW_MAX_ITERS], bindings[TW_MAX_ITERS];
    tw_attr kinds[TW_MAX_ITERS];
    tw_builder b = tw_builder_before(ctx, a.top);
    for (unsigned i = 0; i < a.n; i++) {
        const char *name = tw_arena_printf(tw_context_arena(ctx), "v%u", i);
        extents[i] = tw_expr_const(ctx, a.extents[i]);
        bindings[i] = tw_expr_dim(ctx, i);
        kinds[i] = tw_attr_string(ctx, a.reduce[i] ? "reduce" : "spatial");
        tw_op *loop = tw_loop_for(&b, tw_expr_const(ctx, 0), extents[i], NULL, 0, NULL, name);
        vars[i] = tw_loop_var(loop);
        step->results[i] = loop;
        b = tw_builder_at_end(ctx, &loop->regions[0], block->loc);
    }
    tw_op_insert(block, b.region, NULL);
    tw_erase_empty_loops(a.block.nest.loops[a.block.nest.n - 1]);
    replace_variables(ctx, &a);
    tw_op_set_operands(block, vars, a.n);
    tw_op_set_attr(block, "iters", tw_attr_array(ctx, kinds, a.n));
    tw_op_set_attr(block, "extents", tw_attr_map(ctx, 0, extents, a.n));
    tw_op_set_attr(block, "bindings", tw_attr_map(ctx, a.n, bindings, a.n));
    tw_walk(block, simplify_op, ctx);
    return true;
}
