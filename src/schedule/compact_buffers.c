/* compact_buffers.c: the pass compact-buffers: an allocation shrinks to what is used of it.
 *
 *     for %io = 0 to 16 {
 *       %T = loop.alloc : buffer<96x64xf32, "local">
 *       for %ii = 0 to 6 { … %T[%io * 6 + %ii, %j] … }
 * becomes
 *       %T = loop.alloc : buffer<6x64xf32, "local">
 *       for %ii = 0 to 6 { … %T[%ii, %j] … }
 *
 * Works on loops without blocks (after lower-blocks): the box of all accesses, with the loops
 * inside of the allocation's region ranging, gives the new extents and what to take off the
 * indices. What storage_align wished for is done then. */
#include "base/checked.h"
#include "base/vec.h"
#include "schedule/region.h"

enum { INDEX_DEPTH = 8 };

/* An index value over the loops of a nest; NULL when it is none. */
static tw_expr nest_expr(tw_context *ctx, const tw_nest *nest, const tw_value *value, int depth)
{
    int at = tw_nest_find(nest, value);
    if (at >= 0)
        return tw_expr_dim(ctx, (unsigned)at);
    if (!value->op || !tw_is_loop(value->op, TW_LOOP_INDEX) || depth == 0 ||
        value->op->n_operands > TW_MAX_EXPR_DIMS || value->type->kind != TW_TYPE_SCALAR)
        return NULL;
    tw_expr dims[TW_MAX_EXPR_DIMS];
    for (unsigned i = 0; i < value->op->n_operands; i++) {
        dims[i] = nest_expr(ctx, nest, tw_operand(value->op, i), depth - 1);
        if (!dims[i])
            return NULL;
    }
    return tw_expr_substitute(ctx, tw_op_attr(value->op, "expr")->u.map.exprs[0], dims,
                              value->op->n_operands);
}

/* The side of one axis of an access; not known when its index is no function of loops. */
static tw_interval axis_side(tw_context *ctx, const tw_nest *nest, const tw_op *op,
                             const tw_loop_access *access, unsigned axis, unsigned inner)
{
    tw_expr e = access->index->u.map.exprs[axis], dims[TW_MAX_EXPR_DIMS] = {0};
    for (unsigned i = 0; i < access->n_index && i < TW_MAX_EXPR_DIMS; i++) {
        if (!tw_expr_uses_dim(e, i))
            continue;
        dims[i] = nest_expr(ctx, nest, tw_operand(op, access->first_index + i), INDEX_DEPTH);
        if (!dims[i])
            return (tw_interval){.known = false};
    }
    return tw_hull(ctx, tw_expr_substitute(ctx, e, dims, access->n_index), nest, inner);
}

/* The box of all accesses; false when there is none or the buffer is used in another way. */
static bool box_of_all(tw_context *ctx, tw_op *alloc, const tw_nest *outer, tw_box *box)
{
    tw_value *buffer = tw_result(alloc, 0);
    box->rank = buffer->type->rank;
    bool first = true;
    for (tw_use *use = buffer->uses; use; use = use->next) {
        tw_loop_access access;
        tw_nest nest;
        if (!tw_loop_get_access(use->user, &access) || access.buffer != buffer ||
            access.value == buffer || tw_block_around(use->user) ||
            !tw_nest_of(ctx, use->user, &nest))
            return false;
        for (unsigned i = 0; i < box->rank; i++) {
            tw_interval side = axis_side(ctx, &nest, use->user, &access, i, outer->n);
            box->sides[i] =
                first ? side : tw_interval_join(ctx, box->sides[i], side, &nest, outer->n);
        }
        first = false;
    }
    return !first;
}

/* Whether the side is smaller than the axis for sure, or of a known size where that of the axis is
 * not. */
static bool is_smaller(tw_context *ctx, tw_interval side, tw_expr dim)
{
    if (!side.known)
        return false;
    if (tw_expr_is_const(side.width) && !tw_expr_is_const(dim))
        return true;
    tw_expr spare = tw_expr_addc(ctx, tw_expr_sub(ctx, dim, side.width), -1);
    return spare->kind != TW_EXPR_INVALID && tw_expr_range(spare, NULL, 0).lo > 0;
}

/* Takes the sides' lower ends off the indices of one access. */
static void shift_access(tw_context *ctx, tw_op *op, const tw_box *box, const bool *shrink,
                         const tw_nest *outer)
{
    tw_loop_access access;
    tw_loop_get_access(op, &access);
    unsigned n = access.n_index, total = n + outer->n, at = 0;
    tw_expr dims[TW_MAX_NEST], index[TW_MAX_RANK];
    for (unsigned i = 0; i < outer->n; i++)
        dims[i] = tw_expr_dim(ctx, n + i);
    for (unsigned i = 0; i < box->rank; i++) {
        index[i] = access.index->u.map.exprs[i];
        if (shrink[i])
            index[i] = tw_expr_sub(ctx, index[i],
                                   tw_expr_substitute(ctx, box->sides[i].lo, dims, outer->n));
    }
    tw_value **operands =
        TW_NEW_ARRAY(tw_context_arena(ctx), tw_value *, op->n_operands + outer->n);
    for (unsigned i = 0; i < op->n_operands + outer->n; i++) {
        unsigned first = access.first_index;
        bool old = i < first + n, added = !old && i < first + total;
        operands[at++] = old     ? tw_operand(op, i)
                         : added ? outer->vars[i - first - n]
                                 : tw_operand(op, i - outer->n);
    }
    tw_op_set_attr(op, "index", tw_attr_map(ctx, total, index, box->rank));
    if (access.where)
        tw_op_set_attr(op, "where",
                       tw_attr_map(ctx, total, access.where->u.map.exprs, access.where->u.map.n));
    tw_op_set_operands(op, operands, at);
    tw_index_compact(ctx, op);
    tw_simplify_maps(ctx, op);
}

/* The length of the axis behind the one whose stride is to be offset more than a multiple of
 * factor: the next that gives it, the old one when none does. */
static int64_t aligned_length(int64_t length, int64_t inner, int64_t factor, int64_t offset)
{
    for (int64_t more = 0; more < factor; more++)
        if ((length + more) * inner % factor == offset)
            return length + more;
    return length;
}

/* Does what storage_align asked for. */
static bool align_storage(tw_context *ctx, tw_op *alloc)
{
    tw_type type = tw_result(alloc, 0)->type;
    int64_t wish[3], length, inner = 1, size;
    tw_expr dims[TW_MAX_RANK];
    if (tw_op_ints(alloc, "storage_align", wish, 3) != 3)
        return false;
    for (unsigned i = 0; i < type->rank; i++) {
        dims[i] = type->dims[i];
        if ((int64_t)i < wish[0] + 2)
            continue;
        if (!tw_expr_as_const(dims[i], &size) || !tw_mul_i64(inner, size, &inner))
            return false;
    }
    unsigned next = (unsigned)wish[0] + 1;
    if (next >= type->rank || !tw_expr_as_const(dims[next], &length) || length > INT32_MAX ||
        inner > INT32_MAX)
        return false;
    dims[next] = tw_expr_const(ctx, aligned_length(length, inner, wish[1], wish[2]));
    tw_result(alloc, 0)->type = tw_type_buffer(ctx, type->elem, type->rank, dims, type->scope);
    return dims[next] != type->dims[next];
}

static bool compact(tw_context *ctx, tw_op *alloc)
{
    tw_value *buffer = tw_result(alloc, 0);
    tw_nest outer;
    tw_box box = {0};
    if (!tw_nest_of(ctx, alloc, &outer) || !box_of_all(ctx, alloc, &outer, &box))
        return false;
    bool shrink[TW_MAX_RANK], any = false;
    tw_expr dims[TW_MAX_RANK];
    for (unsigned i = 0; i < box.rank; i++) {
        shrink[i] = is_smaller(ctx, box.sides[i], buffer->type->dims[i]);
        any |= shrink[i];
        dims[i] = shrink[i] ? tw_expr_addc(ctx, box.sides[i].width, 1) : buffer->type->dims[i];
    }
    if (!any)
        return false;
    /* The rewriting moves uses in the list: they are noted first. */
    TW_VEC(tw_op *) users = {0};
    for (tw_use *use = buffer->uses; use; use = use->next)
        tw_vec_push(tw_context_arena(ctx), &users, use->user);
    buffer->type = tw_type_buffer(ctx, buffer->type->elem, box.rank, dims, buffer->type->scope);
    for (size_t i = 0; i < users.len; i++)
        shift_access(ctx, users.data[i], &box, shrink, &outer);
    return true;
}

typedef struct allocs {
    tw_arena *arena;
    TW_VEC(tw_op *) ops;
} allocs;

static bool collect(tw_op *op, void *data)
{
    allocs *a = data;
    if (tw_is_loop(op, TW_LOOP_ALLOC))
        tw_vec_push(a->arena, &a->ops, op);
    return true;
}

static bool compact_buffers(tw_pass_run *run)
{
    allocs a = {.arena = tw_context_arena(run->ctx)};
    tw_walk(run->root, collect, &a);
    for (size_t i = 0; i < a.ops.len; i++)
        run->changes += compact(run->ctx, a.ops.data[i]) + align_storage(run->ctx, a.ops.data[i]);
    return true;
}

const tw_pass tw_pass_compact_buffers = {
    .name = "compact-buffers",
    .summary = "shrink each allocation to the region that is used of it",
    .anchor = "loop.kernel",
    .run = compact_buffers,
};
