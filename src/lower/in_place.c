/* in_place.c: kernels that may compute into the memory of an argument.
 *
 *     loop.kernel @k(%x: buffer<8x4xf32>, %b: buffer<4xf32>, %y: buffer<8x4xf32>)
 *       for i in 8, j in 4: y[i, j] = x[i, j] + b[j]
 * gets `in_place = [0]`: when x is not needed behind a call, y may be x.
 *
 * It may when every element depends on that element of x alone: all blocks go over the elements of
 * the result, and index x, the result and what is between them by just their variables. No order
 * of loops, no inlining and no sharing of loops then reads an element of x after it has been
 * overwritten. Decided of kernels as they are lowered; what schedules make of them keeps it. */
#include "lower/kernel.h"

#include "base/arena.h"
#include "base/vec.h"
#include "dialect/loop/loop.h"

/* A kernel that is looked at. */
typedef struct look {
    const tw_op *kernel;
    tw_type result;
    bool *wrong; /* per argument: accessed in another way */
    bool fits;
} look;

static bool is_one(tw_expr e)
{
    return tw_expr_is_const(e) && e->value == 1;
}

/* Whether index k is variable k of the block, or 0 along an axis of size 1. */
static bool is_identity(const tw_op *op, const tw_loop_access *a, const tw_op *block)
{
    tw_type type = a->buffer->type;
    for (unsigned k = 0; k < type->rank; k++) {
        tw_expr e = a->index->u.map.exprs[k];
        if (is_one(type->dims[k]) && tw_expr_is_const(e) && e->value == 0)
            continue;
        if (e->kind != TW_EXPR_DIM)
            return false;
        const tw_value *v = tw_operand(op, a->first_index + (unsigned)e->value);
        if (!v->region || v->region->parent != block || v->index != k)
            return false;
    }
    return true;
}

/* Whether the block goes over the elements of the result, each once. */
static bool goes_over(const tw_op *block, tw_type result)
{
    tw_attr extents = tw_op_attr(block, "extents");
    if (extents->u.map.n != result->rank || tw_op_attr(block, "where") ||
        tw_op_attr(block, "order") || block->regions[0].first)
        return false;
    for (unsigned i = 0; i < result->rank; i++)
        if (tw_block_iter_reduces(block, i) || extents->u.map.exprs[i] != result->dims[i])
            return false;
    return true;
}

static bool visit(tw_op *op, void *data)
{
    look *l = data;
    tw_loop_access a;
    if (tw_is_loop(op, TW_LOOP_VIEW))
        return l->fits = false;
    if (!tw_loop_get_access(op, &a))
        return true;
    const tw_op *block = op->region->parent;
    bool argument = a.buffer->region == &l->kernel->regions[0];
    bool written = !argument || a.buffer->index + 1 == l->kernel->regions[0].n_args;
    bool right = tw_is_loop(block, TW_LOOP_BLOCK) && goes_over(block, l->result) &&
                 a.buffer->type->rank == l->result->rank && is_identity(op, &a, block);
    if (written)
        return l->fits = right; /* the result, and what lies between */
    l->wrong[a.buffer->index] |= !right;
    return true;
}

void tw_kernel_find_in_place(tw_op *kernel)
{
    tw_context *ctx = tw_op_context(kernel);
    tw_arena *arena = tw_context_arena(ctx);
    const tw_region *body = &kernel->regions[0];
    TW_VEC(int64_t) numbers = {0};
    if (tw_op_int(kernel, "outputs", 0) != 1)
        return;
    look l = {.kernel = kernel,
              .result = body->args[body->n_args - 1]->type,
              .wrong = TW_NEW_ARRAY(arena, bool, body->n_args),
              .fits = true};
    tw_walk(kernel, visit, &l);
    for (unsigned i = 0; l.fits && i + 1 < body->n_args; i++)
        if (!l.wrong[i] && body->args[i]->type == l.result)
            tw_vec_push(arena, &numbers, i);
    if (numbers.len)
        tw_op_set_attr(kernel, "in_place", tw_attr_ints(ctx, numbers.data, numbers.len));
}
