/* prim_pad.c: pad: a loop runs further than the data, so that it divides evenly.
 *
 *     for %j = 0 to 24 { block "matmul" (%vj: spatial 24 = %j, …) … %T[…, %vj] … }    pad 32
 * becomes
 *     for %j = 0 to 32 { block "matmul" (%vj: spatial 32 = %j, …) … %T[…, %vj] … }
 *
 * with %T, an allocation of the kernel, as much larger. What is computed beyond the old extent is
 * never read, as all other blocks stay within it. Whatever else the block reads must be there:
 * weights packed into panels with zeros behind them are. */
#include "schedule/schedule_impl.h"

/* The variable of the block that is bound to the loop alone; -1 when there is none. */
static int bound_iter(const tw_block_info *b, int level)
{
    int found = -1;
    for (unsigned i = 0; i < b->n_iters; i++) {
        if (!tw_expr_uses_dim(b->bindings[i], (unsigned)level))
            continue;
        if (found >= 0 || b->bindings[i]->kind != TW_EXPR_DIM)
            return -1;
        found = (int)i;
    }
    return found;
}

/* Whether the access stays inside its buffer when variable `iter` runs to `extent`. What an
 * allocation holds beyond the old extent nobody has written. */
static bool stays_inside(const tw_block_info *b, const tw_block_access *a, unsigned iter,
                         int64_t extent)
{
    tw_range ranges[TW_MAX_ITERS];
    for (unsigned i = 0; i < b->n_iters; i++)
        ranges[i] = b->iter_ranges[i];
    ranges[iter].hi = extent - 1;
    for (unsigned d = 0; d < a->rank; d++) {
        int64_t size;
        if (!a->iters[d])
            return false;
        tw_range r = tw_expr_range(a->iters[d], ranges, b->n_iters);
        if (tw_expr_uses_dim(a->iters[d], iter) &&
            (tw_buffer_alloc(a->buffer) || !tw_expr_as_const(a->buffer->type->dims[d], &size) ||
             r.lo < 0 || r.hi >= size))
            return false;
    }
    return a->exact;
}

/* The axis of the written buffer that the variable indexes by itself in all accesses; -1: none. */
static int written_axis(const tw_block_info *b, const tw_value *buffer, unsigned iter)
{
    int axis = -1;
    for (unsigned i = 0; i < b->n_accesses; i++) {
        const tw_block_access *a = &b->accesses[i];
        for (unsigned d = 0; a->buffer == buffer && d < a->rank; d++) {
            if (!a->iters[d])
                return -1;
            if (!tw_expr_uses_dim(a->iters[d], iter))
                continue;
            if (a->iters[d]->kind != TW_EXPR_DIM || (axis >= 0 && axis != (int)d))
                return -1;
            axis = (int)d;
        }
    }
    return axis;
}

static tw_type grown(tw_context *ctx, tw_type type, unsigned axis, int64_t extent)
{
    tw_expr dims[TW_MAX_RANK];
    for (unsigned d = 0; d < type->rank; d++)
        dims[d] = d == axis ? tw_expr_const(ctx, extent) : type->dims[d];
    return tw_type_buffer(ctx, type->elem, type->rank, dims, type->scope);
}

static void set_extent(tw_context *ctx, tw_op *block, unsigned iter, int64_t extent)
{
    tw_attr old = tw_op_attr(block, "extents");
    tw_expr exprs[TW_MAX_ITERS];
    for (size_t i = 0; i < old->u.map.n; i++)
        exprs[i] = i == iter ? tw_expr_const(ctx, extent) : old->u.map.exprs[i];
    tw_op_set_attr(block, "extents", tw_attr_map(ctx, 0, exprs, old->u.map.n));
}

bool tw_do_pad(const tw_step *step)
{
    tw_block_info b;
    tw_op *block = step->operands[0], *loop = step->operands[1];
    int64_t extent = tw_op_int(step->op, "extent", 0), old;
    if (!tw_step_block(step, block, &b) || !tw_step_serial(step, loop))
        return false;
    int level = tw_nest_find(&b.nest, tw_loop_var(loop));
    if (level < 0)
        return tw_step_refuse(step, "loop %%%s is not around block \"%s\"", tw_loop_name(loop),
                              b.name);
    int iter = bound_iter(&b, level);
    tw_value *buffer = tw_block_written(&b, 0);
    if (iter < 0 || b.reduce[iter] || b.sequential || tw_op_attr(block, "where"))
        return tw_step_refuse(
            step, "loop %%%s is not bound to one spatial variable of block \"%s\" alone",
            tw_loop_name(loop), b.name);
    if (!tw_loop_const_extent(loop, &old) || extent < old)
        return tw_step_refuse(step, "loop %%%s has no constant extent of at most %lld",
                              tw_loop_name(loop), (long long)extent);
    int axis = buffer && !tw_block_written(&b, 1) && tw_buffer_alloc(buffer)
                   ? written_axis(&b, buffer, (unsigned)iter)
                   : -1;
    if (axis < 0)
        return tw_step_refuse(step,
                              "block \"%s\" does not write one buffer of the kernel by that "
                              "variable alone",
                              b.name);
    if (b.has_reduce && !b.has_init)
        return tw_step_refuse(step, "the initialisation of block \"%s\" is a block of its own",
                              b.name);
    for (tw_op *at = block; at != loop; at = at->region->parent)
        if (at->region->first != at->region->last)
            return tw_step_refuse(step, "loop %%%s holds more than block \"%s\"",
                                  tw_loop_name(loop), b.name);
    for (unsigned i = 0; i < b.n_accesses; i++)
        if (b.accesses[i].buffer != buffer &&
            !stays_inside(&b, &b.accesses[i], (unsigned)iter, extent))
            return tw_step_refuse(step, "%%%s has nothing to read beyond",
                                  tw_buffer_name(b.accesses[i].buffer));
    tw_context *ctx = step->ctx;
    buffer->type = grown(ctx, buffer->type, (unsigned)axis, extent);
    set_extent(ctx, block, (unsigned)iter, extent);
    tw_expr bounds[2] = {tw_loop_lo(loop), tw_expr_const(ctx, extent)};
    tw_op_set_attr(loop, "bounds", tw_attr_map(ctx, loop->n_operands, bounds, 2));
    return true;
}
