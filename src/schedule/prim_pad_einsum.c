/* prim_pad_einsum.c: pad_einsum: a product of any size becomes one of sizes that divide evenly.
 *
 *     for %i = 0 to 7, %j = 0 to 12, %k = 0 to 10 {
 *       block "mm" (%vi = %i, %vj = %j, %vk = %k) { %T[%vi, %vj] += %X[%vi, %vk] * %W[%vk, %vj] } }
 * with padding [4, 8, 4]:
 *     for … { block "X_pad" (%a, %b) { %X_pad[%a, %b] = %X[%a, %b] where (6 - %a, 9 - %b) else 0 }
 * } for … { block "W_pad" … } for %i = 0 to 8, %j = 0 to 16, %k = 0 to 12 { block "mm" … {
 * %T_pad[%vi, %vj] += %X_pad[%vi, %vk] * %W_pad[%vk, %vj] } } for %i = 0 to 7, %j = 0 to 12 { block
 * "T_unpad" { %T[%i, %j] = %T_pad[%i, %j] } }
 *
 * What is computed beyond the old sizes is not copied back. Along the reduction zeros are added,
 * products of zeros, which leave a sum as it is; that takes a sum of products of two loads. */
#include "base/checked.h"
#include "schedule/region.h"

#include <math.h>

enum { MAX_READS = 8 };

typedef struct padding {
    tw_block_info block;
    tw_op *top;
    int64_t old[TW_MAX_ITERS], extents[TW_MAX_ITERS]; /* of the variables */
    bool pads_reduction;
} padding;

/* ---- What may be padded -------------------------------------------------------------- */

static bool read_padding(const tw_step *step, padding *p)
{
    int64_t factors[TW_MAX_ITERS];
    const tw_block_info *b = &p->block;
    if (tw_op_attr(step->op, "padding")->u.array.n != b->n_iters ||
        tw_op_ints(step->op, "padding", factors, TW_MAX_ITERS) != (int)b->n_iters)
        return tw_step_refuse(step,
                              "block \"%s\" has %u variables, each to be padded to a multiple "
                              "of some number",
                              b->name, b->n_iters);
    for (unsigned i = 0; i < b->n_iters; i++) {
        p->old[i] = b->extents[i]->value;
        if (factors[i] < 1 || !tw_add_i64(p->old[i], factors[i] - 1, &p->extents[i]))
            return tw_step_refuse(step, "the padding must be above 0 and not too large");
        p->extents[i] -= p->extents[i] % factors[i];
        p->pads_reduction |= b->reduce[i] && p->extents[i] != p->old[i];
    }
    return true;
}

/* Whether each axis of the access is one variable, or a constant. */
static bool is_plain(const tw_block_info *b, const tw_block_access *a)
{
    if (!a->exact || a->masked)
        return false;
    for (unsigned d = 0; d < a->rank; d++)
        if (a->iters[d]->kind != TW_EXPR_DIM && !tw_expr_is_const(a->iters[d]))
            return false;
    return a->rank > 0 && b != NULL;
}

static bool is_load(const tw_value *value)
{
    return value->op && tw_is_loop(value->op, TW_LOOP_LOAD);
}

/* A load, or one as another type: of 0 it makes 0. */
static bool gives_zero_for_zero(const tw_value *value)
{
    return is_load(value) ||
           (value->op && tw_is_loop(value->op, TW_LOOP_CAST) && is_load(tw_operand(value->op, 0)));
}

static bool is_product(const tw_value *value)
{
    return value->op && tw_is_loop(value->op, TW_LOOP_MUL) &&
           gives_zero_for_zero(tw_operand(value->op, 0)) &&
           gives_zero_for_zero(tw_operand(value->op, 1));
}

/* Whether the stored value is T + x * y, so that zeros for x and y add nothing. */
static bool sums_products(const tw_op *store, const tw_value *buffer)
{
    const tw_op *sum = tw_operand(store, 0)->op;
    if (!sum)
        return false;
    if (tw_is_loop(sum, TW_LOOP_FMA))
        return gives_zero_for_zero(tw_operand(sum, 0)) && gives_zero_for_zero(tw_operand(sum, 1)) &&
               is_load(tw_operand(sum, 2)) && tw_operand(tw_operand(sum, 2)->op, 0) == buffer;
    for (unsigned i = 0; tw_is_loop(sum, TW_LOOP_ADD) && i < 2; i++)
        if (is_product(tw_operand(sum, i)) && is_load(tw_operand(sum, 1 - i)) &&
            tw_operand(tw_operand(sum, 1 - i)->op, 0) == buffer)
            return true;
    return false;
}

/* -0 + 0 is 0: a sum may start with anything but -0. */
static bool starts_at_minus_zero(const tw_op *init)
{
    const tw_op *value = tw_operand(init, 0)->op;
    tw_attr number = value && tw_is_loop(value, TW_LOOP_CONST) ? tw_op_attr(value, "value") : NULL;
    return !number ||
           (number->kind == TW_ATTR_FLOAT && number->u.real == 0 && signbit(number->u.real));
}

static bool check_accesses(const tw_step *step, const padding *p, tw_value *result)
{
    const tw_block_info *b = &p->block;
    for (unsigned i = 0; i < b->n_accesses; i++) {
        const tw_block_access *a = &b->accesses[i];
        if (!is_plain(b, a))
            return tw_step_refuse(step, "block \"%s\" accesses %%%s at more than single variables",
                                  b->name, tw_buffer_name(a->buffer));
        if (a->store && ((!a->init && p->pads_reduction && !sums_products(a->op, result)) ||
                         (a->init && p->pads_reduction && starts_at_minus_zero(a->op))))
            return tw_step_refuse(step,
                                  "block \"%s\" is no sum of products of two loads that starts "
                                  "with 0: more of the reduction would change it",
                                  b->name);
    }
    return true;
}

static bool plan_padding(const tw_step *step, padding *p, tw_value **result)
{
    tw_block_info *b = &p->block;
    if (!tw_step_block(step, step->operands[0], b) || !tw_step_whole(step, b))
        return false;
    if (b->sequential || tw_op_attr(b->op, "where") || !b->n_iters ||
        (b->has_reduce && !b->has_init))
        return tw_step_refuse(step,
                              "block \"%s\" runs in order, has masks or a reduction without "
                              "its init",
                              b->name);
    p->top = tw_step_own_loops(step, b);
    *result = tw_block_written(b, 0);
    if (!p->top || !read_padding(step, p))
        return false;
    if (!*result || tw_block_written(b, 1) || tw_block_read(b, MAX_READS))
        return tw_step_refuse(step,
                              "block \"%s\" writes more than one buffer or reads more than %d",
                              b->name, MAX_READS);
    for (unsigned i = 0; i < b->n_accesses; i++)
        for (unsigned k = 0; k < i; k++) {
            const tw_block_access *x = &b->accesses[i], *y = &b->accesses[k];
            for (unsigned d = 0; x->buffer == y->buffer && d < x->rank; d++)
                if (!x->exact || !y->exact || x->iters[d] != y->iters[d])
                    return tw_step_refuse(step, "block \"%s\" reads %%%s in two places", b->name,
                                          tw_buffer_name(x->buffer));
        }
    return check_accesses(step, p, *result);
}

/* ---- Carrying out -------------------------------------------------------------------- */

/* Sizes of the buffer that the access touches, as padded. */
static bool padded_dims(const tw_step *step, const padding *p, const tw_block_access *a,
                        tw_expr *dims)
{
    bool more = false;
    for (unsigned d = 0; d < a->rank; d++) {
        tw_expr e = a->iters[d];
        dims[d] = a->buffer->type->dims[d];
        if (e->kind == TW_EXPR_DIM) {
            dims[d] = tw_expr_const(step->ctx, p->extents[e->value]);
            more |= p->extents[e->value] != p->old[e->value];
        }
    }
    return more;
}

/* A block that copies between a buffer and its padded twin, in loops of its own. `all`: over the
 * twin's elements, those beyond being 0; else over what the block made. */
static void copy_block(const tw_step *step, const padding *p, tw_builder place,
                       const tw_block_access *a, tw_value *from, tw_value *to, bool all,
                       const char *name)
{
    tw_context *ctx = step->ctx;
    tw_loop_iter iters[TW_MAX_RANK];
    tw_expr index[TW_MAX_RANK], where[TW_MAX_RANK];
    tw_value *vars[TW_MAX_RANK];
    unsigned n_where = 0;
    for (unsigned d = 0; d < a->rank; d++) {
        const char *axis = tw_arena_printf(tw_context_arena(ctx), "a%u", d);
        tw_expr e = a->iters[d], extent = tw_expr_const(ctx, 1);
        index[d] = tw_expr_dim(ctx, d);
        if (e->kind == TW_EXPR_DIM) {
            int64_t old = p->old[e->value], size = all ? p->extents[e->value] : old;
            extent = tw_expr_const(ctx, size);
            if (size != old)
                where[n_where++] = tw_expr_addc(ctx, tw_expr_mulc(ctx, index[d], -1), old - 1);
        } else {
            index[d] = tw_expr_add(ctx, index[d], e);
        }
        tw_op *loop = tw_loop_for(&place, tw_expr_const(ctx, 0), extent, NULL, 0, NULL, axis);
        vars[d] = tw_loop_var(loop);
        iters[d] = (tw_loop_iter){tw_arena_printf(tw_context_arena(ctx), "v%s", axis), false,
                                  extent, tw_expr_dim(ctx, d)};
        place = tw_builder_at_end(ctx, &loop->regions[0], place.loc);
    }
    tw_op *block = tw_loop_block(&place, name, iters, a->rank, vars, a->rank);
    tw_builder b = tw_builder_at_end(ctx, &block->regions[1], place.loc);
    tw_value **args = block->regions[1].args, *zero = NULL;
    if (n_where)
        zero = tw_elem_is_float(from->type->elem)
                   ? tw_loop_const_float(&b, tw_type_scalar(ctx, from->type->elem), 0)
                   : tw_loop_const_int(&b, tw_type_scalar(ctx, from->type->elem), 0);
    tw_value *value = tw_loop_load(&b, from, index, args, a->rank, where, n_where, zero);
    tw_loop_store(&b, value, to, index, args, a->rank, NULL, 0);
    for (tw_op *op = block->regions[1].first; op; op = op->next)
        if (tw_index_map_names(op)[0])
            tw_index_compact(ctx, op);
    tw_step_name_block(step, block, name);
}

/* Lets all accesses of the block to the buffer go to its padded twin; makes the twin and the copy.
 */
static void pad_buffer(const tw_step *step, const padding *p, tw_value *buffer, bool written)
{
    tw_context *ctx = step->ctx;
    const tw_block_info *b = &p->block;
    const tw_block_access *first = NULL;
    for (unsigned i = b->n_accesses; i-- > 0;)
        if (b->accesses[i].buffer == buffer)
            first = &b->accesses[i];
    tw_expr dims[TW_MAX_RANK];
    if (!first || !padded_dims(step, p, first, dims))
        return;
    tw_builder before = tw_builder_before(ctx, p->top);
    const char *name = tw_arena_printf(tw_context_arena(ctx), "%s_pad", tw_buffer_name(buffer));
    tw_type type = tw_type_buffer(ctx, buffer->type->elem, first->rank, dims,
                                  written ? buffer->type->scope : "");
    tw_value *twin = tw_loop_alloc(&before, type, name);
    if (!written)
        copy_block(step, p, before, first, buffer, twin, true, name);
    for (unsigned i = 0; i < b->n_accesses; i++)
        if (b->accesses[i].buffer == buffer)
            tw_op_set_operand(b->accesses[i].op, b->accesses[i].store ? 1 : 0, twin);
    if (written) {
        tw_builder after = {ctx, p->top->region, p->top->next, p->top->loc};
        name = tw_arena_printf(tw_context_arena(ctx), "%s_unpad", tw_buffer_name(buffer));
        copy_block(step, p, after, first, twin, buffer, false, name);
    }
}

bool tw_do_pad_einsum(const tw_step *step)
{
    tw_context *ctx = step->ctx;
    padding p = {.top = NULL};
    tw_value *result, *reads[MAX_READS];
    if (!plan_padding(step, &p, &result))
        return false;
    const tw_block_info *b = &p.block;
    unsigned n_reads = 0;
    while (n_reads < MAX_READS && (reads[n_reads] = tw_block_read(b, n_reads)))
        n_reads++;
    for (unsigned i = 0; i < n_reads; i++)
        pad_buffer(step, &p, reads[i], false);
    pad_buffer(step, &p, result, true);
    tw_expr extents[TW_MAX_ITERS];
    for (unsigned i = 0; i < b->n_iters; i++) {
        tw_op *loop = b->nest.loops[b->bindings[i]->value];
        extents[i] = tw_expr_const(ctx, p.extents[i]);
        tw_expr bounds[2] = {tw_expr_const(ctx, 0), extents[i]};
        tw_op_set_attr(loop, "bounds", tw_attr_map(ctx, 0, bounds, 2));
    }
    tw_op_set_attr(b->op, "extents", tw_attr_map(ctx, 0, extents, b->n_iters));
    return true;
}
