/* prim_partition.c: loop_partition: the masks of a loop's edges leave its middle.
 *
 *     for %io = 0 to 4 { for %ii = 0 to 6 { block "b" … where (19 - %io * 6 - %ii) } }
 * partitioned at %io:
 *     for %io = 0 to 3 { for %ii = 0 to 6 { block "b" … } }
 *     for %io = 3 to 4 { for %ii = 0 to 6 { block "b_after" … where (19 - %io * 6 - %ii) } }
 *
 * All runs in the order in which it ran before, so that nothing but a reduction with its init may
 * stand in the way: the init would belong to one part only. */
#include "base/vec.h"
#include "schedule/schedule_impl.h"

enum { MAX_BOUNDS = 16 };

/* Where the iterations without masks begin and end: the largest of `first`, the least of `last`
 * (the iteration behind), over the loops around. */
typedef struct cut {
    tw_context *ctx;
    tw_op *loop;
    tw_nest nest; /* of the loop */
    tw_expr first[MAX_BOUNDS], last[MAX_BOUNDS];
    unsigned n_first, n_last;
    bool known; /* whether there were no more than that */
    const char *reduction;
} cut;

static void add_bound(cut *c, tw_expr *list, unsigned *n, tw_expr bound)
{
    bound = tw_expr_simplify(c->ctx, bound, c->nest.ranges, c->nest.n);
    for (unsigned i = 0; i < *n; i++)
        if (list[i] == bound)
            return;
    if (*n == MAX_BOUNDS || bound->kind == TW_EXPR_INVALID)
        c->known = false;
    else
        list[(*n)++] = bound;
}

/* Where coef * variable + rest >= 0 begins or ends. */
static void add_condition(cut *c, int64_t coef, tw_expr rest)
{
    tw_expr size = tw_expr_const(c->ctx, coef < 0 ? -coef : coef);
    if (coef > 0)
        add_bound(c, c->first, &c->n_first,
                  tw_expr_binary(c->ctx, TW_EXPR_CEILDIV, tw_expr_mulc(c->ctx, rest, -1), size));
    else
        add_bound(c, c->last, &c->n_last,
                  tw_expr_addc(c->ctx, tw_expr_binary(c->ctx, TW_EXPR_FLOORDIV, rest, size), 1));
}

static void add_block(tw_op *block, void *data)
{
    cut *c = data;
    tw_block_info b;
    const char *why;
    tw_attr where = tw_op_attr(block, "where");
    unsigned level = c->nest.n;
    if (!tw_block_analyse(c->ctx, block, &b, &why))
        return;
    if (b.has_init && tw_loop_is_reduce(&b, level))
        c->reduction = b.name;
    tw_expr dims[TW_MAX_EXPR_DIMS];
    for (unsigned i = 0; i < block->n_operands; i++)
        dims[i] = tw_expr_dim(c->ctx, (unsigned)tw_nest_find(&b.nest, tw_operand(block, i)));
    for (size_t i = 0; where && i < where->u.map.n; i++) {
        tw_expr e = tw_expr_substitute(c->ctx, where->u.map.exprs[i], dims, block->n_operands);
        tw_interval least = tw_hull(c->ctx, e, &b.nest, level + 1);
        tw_expr d = tw_expr_dim(c->ctx, level);
        if (!least.known || !tw_expr_uses_dim(least.lo, level))
            continue;
        /* The coefficient: what one more iteration adds, if that is always the same. */
        tw_expr at0[TW_MAX_NEST], at1[TW_MAX_NEST];
        for (unsigned k = 0; k <= level; k++)
            at0[k] = at1[k] = tw_expr_dim(c->ctx, k);
        at0[level] = tw_expr_const(c->ctx, 0);
        at1[level] = tw_expr_addc(c->ctx, d, 1);
        int64_t coef;
        tw_expr next = tw_expr_substitute(c->ctx, least.lo, at1, level + 1);
        if (tw_expr_as_const(tw_expr_sub(c->ctx, next, least.lo), &coef) && coef != 0)
            add_condition(c, coef, tw_expr_substitute(c->ctx, least.lo, at0, level + 1));
    }
}

static bool find_cut(tw_context *ctx, tw_op *loop, cut *c)
{
    *c = (cut){.ctx = ctx, .loop = loop, .known = true};
    if (!tw_nest_of(ctx, loop, &c->nest))
        return false;
    tw_each_block(loop, add_block, c);
    return c->known;
}

unsigned tw_partition_parts(tw_context *ctx, tw_op *loop)
{
    cut c;
    return find_cut(ctx, loop, &c) ? 1u + (c.n_first > 0) + (c.n_last > 0) : 1;
}

/* ---- Carrying out -------------------------------------------------------------------- */

/* Puts what comes out between the bounds of the loop, which are over the nest's variables. */
static tw_expr clamp(cut *c, tw_expr e, tw_expr lo, tw_expr hi)
{
    e = tw_expr_binary(c->ctx, TW_EXPR_MIN, e, hi);
    e = tw_expr_binary(c->ctx, TW_EXPR_MAX, e, lo);
    return tw_expr_simplify(c->ctx, e, c->nest.ranges, c->nest.n);
}

static void set_bounds(const cut *c, tw_op *loop, tw_expr lo, tw_expr hi)
{
    tw_expr bounds[2] = {lo, hi};
    tw_op_set_operands(loop, c->nest.vars, c->nest.n);
    tw_op_set_attr(loop, "bounds", tw_attr_map(c->ctx, c->nest.n, bounds, 2));
    tw_index_compact(c->ctx, loop);
}

typedef struct renaming {
    const tw_step *step;
    const char *suffix;
} renaming;

static void rename_block(tw_op *block, void *data)
{
    const renaming *r = data;
    const char *name =
        tw_arena_printf(tw_context_arena(r->step->ctx), "%s_%s", tw_block_name(block), r->suffix);
    tw_step_name_block(r->step, block, name);
}

static void settle_block(tw_op *block, void *data)
{
    tw_op_set_attr(block, "part", tw_attr_unit(data));
    tw_simplify_maps(data, block);
}

/* A copy of the loop from lo to below hi. */
static tw_op *copy_part(const cut *c, tw_op *before, tw_expr lo, tw_expr hi)
{
    tw_op *copy = tw_op_clone(tw_cloner_create(c->ctx), c->loop);
    tw_op_insert(copy, c->loop->region, before);
    set_bounds(c, copy, lo, hi);
    tw_each_block(copy, settle_block, c->ctx);
    return copy;
}

static void name_part(const tw_step *step, tw_op *part, const char *suffix)
{
    renaming r = {step, suffix};
    tw_each_block(part, rename_block, &r);
}

/* Whether the block may run: its masks can hold, and the loops around it, up to the part, have
 * iterations. */
static bool may_run(tw_context *ctx, const tw_op *block, const tw_op *part)
{
    tw_attr where = tw_op_attr(block, "where");
    tw_range ranges[TW_MAX_EXPR_DIMS];
    unsigned n = tw_operand_ranges(ctx, block, ranges);
    for (size_t i = 0; where && i < where->u.map.n; i++)
        if (tw_expr_range(where->u.map.exprs[i], ranges, n).hi < 0)
            return false;
    for (const tw_op *up = block; up != part;) {
        int64_t extent;
        up = up->region->parent;
        if (tw_is_loop(up, TW_LOOP_FOR) && tw_expr_as_const(tw_loop_extent(ctx, up), &extent) &&
            extent < 1)
            return false;
    }
    return true;
}

typedef struct block_vec {
    tw_context *ctx;
    const tw_op *part;
    TW_VEC(tw_op *) live, dead;
} block_vec;

static void sort_block(tw_op *block, void *data)
{
    block_vec *v = data;
    if (may_run(v->ctx, block, v->part))
        tw_vec_push(tw_context_arena(v->ctx), &v->live, block);
    else
        tw_vec_push(tw_context_arena(v->ctx), &v->dead, block);
}

/* Takes blocks that never run out of a part; false when no other is left. */
static bool clean_part(tw_context *ctx, tw_op *part)
{
    block_vec v = {.ctx = ctx, .part = part};
    tw_each_block(part, sort_block, &v);
    for (size_t i = 0; v.live.len && i < v.dead.len; i++) {
        tw_op *loop = v.dead.data[i]->region->parent;
        tw_op_erase(v.dead.data[i]);
        tw_erase_empty_loops(loop);
    }
    return v.live.len > 0;
}

/* Parts that run nothing are no place for later steps. */
static bool check_parts(const tw_step *step, tw_op *before, tw_op *after, tw_expr first,
                        tw_expr last)
{
    int64_t middle;
    bool empty = tw_expr_as_const(tw_expr_sub(step->ctx, last, first), &middle) && middle < 1;
    if (!empty && (!before || clean_part(step->ctx, before)) &&
        (!after || clean_part(step->ctx, after)))
        return true;
    if (before)
        tw_op_erase(before);
    if (after)
        tw_op_erase(after);
    return tw_step_refuse(step, "a part of loop %%%s would run nothing",
                          tw_loop_name(step->operands[0]));
}

bool tw_do_loop_partition(const tw_step *step)
{
    tw_context *ctx = step->ctx;
    tw_op *loop = step->operands[0];
    tw_block_list list;
    cut c;
    if (!tw_step_serial(step, loop) || !tw_step_only_blocks(step, loop) ||
        !tw_step_blocks(step, loop, &list))
        return false;
    if (!find_cut(ctx, loop, &c) || (c.n_first == 0 && c.n_last == 0))
        return tw_step_refuse(step, "no mask in loop %%%s can be told from its variable",
                              tw_loop_name(loop));
    for (unsigned k = 0; k < loop->n_operands; k++)
        if (tw_nest_find(&c.nest, tw_operand(loop, k)) < 0)
            return tw_step_refuse(step,
                                  "the bounds of loop %%%s are no function of the loops "
                                  "around it",
                                  tw_loop_name(loop));
    if (c.reduction)
        return tw_step_refuse(step,
                              "loop %%%s is one of the reduction of block \"%s\", which has its "
                              "init in it (decompose the reduction first)",
                              tw_loop_name(loop), c.reduction);
    if (step->op->n_results != 1u + (c.n_first > 0) + (c.n_last > 0))
        return tw_step_refuse(step, "loop %%%s becomes %d loops, not %u", tw_loop_name(loop),
                              1 + (c.n_first > 0) + (c.n_last > 0), step->op->n_results);
    tw_expr dims[TW_MAX_EXPR_DIMS];
    for (unsigned k = 0; k < loop->n_operands; k++)
        dims[k] = tw_expr_dim(ctx, (unsigned)tw_nest_find(&c.nest, tw_operand(loop, k)));
    tw_expr lo = tw_expr_substitute(ctx, tw_loop_lo(loop), dims, loop->n_operands),
            hi = tw_expr_substitute(ctx, tw_loop_hi(loop), dims, loop->n_operands), first = lo,
            last = hi;
    for (unsigned i = 0; i < c.n_first; i++)
        first = tw_expr_binary(ctx, TW_EXPR_MAX, first, c.first[i]);
    for (unsigned i = 0; i < c.n_last; i++)
        last = tw_expr_binary(ctx, TW_EXPR_MIN, last, c.last[i]);
    first = clamp(&c, first, lo, hi);
    last = clamp(&c, last, first, hi);
    tw_op *before = c.n_first ? copy_part(&c, loop, lo, first) : NULL,
          *after = c.n_last ? copy_part(&c, loop->next, last, hi) : NULL;
    if (!check_parts(step, before, after, first, last))
        return false;
    unsigned n = 0;
    if (before) {
        name_part(step, before, "before");
        step->results[n++] = before;
    }
    step->results[n++] = loop;
    if (after) {
        name_part(step, after, "after");
        step->results[n++] = after;
    }
    set_bounds(&c, loop, first, last);
    tw_each_block(loop, settle_block, ctx);
    return true;
}
