/* access.c: the accesses of a block, resolved to its iteration variables and loops. */
#include "schedule/access.h"

#include "base/arena.h"
#include "base/vec.h"

#include <string.h>

tw_value *tw_root_buffer(tw_value *buffer)
{
    while (tw_is_view(buffer))
        buffer = tw_operand(buffer->op, 0);
    return buffer;
}

bool tw_is_view(const tw_value *buffer)
{
    return buffer->op && tw_is_loop(buffer->op, TW_LOOP_VIEW);
}

tw_op *tw_buffer_alloc(const tw_value *buffer)
{
    return buffer->op && tw_is_loop(buffer->op, TW_LOOP_ALLOC) ? buffer->op : NULL;
}

const char *tw_buffer_name(const tw_value *buffer)
{
    return buffer->name ? buffer->name : "?";
}

typedef TW_VEC(tw_op *) op_vec;

static bool collect_uses(tw_context *ctx, tw_value *buffer, op_vec *loads, op_vec *stores)
{
    for (tw_use *use = buffer->uses; use; use = use->next) {
        tw_op *user = use->user;
        if (tw_is_loop(user, TW_LOOP_LOAD) && use->index == 0) {
            tw_vec_push(tw_context_arena(ctx), loads, user);
        } else if (tw_is_loop(user, TW_LOOP_STORE) && use->index == 1) {
            tw_vec_push(tw_context_arena(ctx), stores, user);
        } else if (tw_is_loop(user, TW_LOOP_VIEW)) {
            if (!collect_uses(ctx, tw_result(user, 0), loads, stores))
                return false;
        } else {
            return false;
        }
    }
    return true;
}

bool tw_buffer_uses_of(tw_context *ctx, tw_value *root, tw_buffer_uses *out)
{
    op_vec loads = {0}, stores = {0};
    bool all = collect_uses(ctx, root, &loads, &stores);
    *out = (tw_buffer_uses){loads.data, stores.data, (unsigned)loads.len, (unsigned)stores.len};
    return all;
}

/* ---- Index operands over iteration variables ----------------------------------------- */

enum { INDEX_DEPTH = 8 };

/* An index value inside a block over the block's iteration variables; NULL when not affine. */
static tw_expr iter_expr(tw_context *ctx, const tw_op *block, const tw_value *value, int depth)
{
    if (value->region && value->region->parent == block)
        return tw_expr_dim(ctx, value->index);
    if (!value->op || !tw_is_loop(value->op, TW_LOOP_INDEX) || depth == 0 ||
        value->op->n_operands > TW_MAX_EXPR_DIMS)
        return NULL;
    tw_expr dims[TW_MAX_EXPR_DIMS];
    for (unsigned i = 0; i < value->op->n_operands; i++) {
        dims[i] = iter_expr(ctx, block, tw_operand(value->op, i), depth - 1);
        if (!dims[i])
            return NULL;
    }
    return tw_expr_substitute(ctx, tw_op_attr(value->op, "expr")->u.map.exprs[0], dims,
                              value->op->n_operands);
}

static void resolve_axes(tw_context *ctx, const tw_block_info *block, tw_block_access *a,
                         const tw_loop_access *access)
{
    tw_expr dims[TW_MAX_EXPR_DIMS] = {0};
    unsigned n = access->n_index < TW_MAX_EXPR_DIMS ? access->n_index : TW_MAX_EXPR_DIMS;
    for (unsigned i = 0; i < n; i++)
        dims[i] =
            iter_expr(ctx, block->op, tw_operand(a->op, access->first_index + i), INDEX_DEPTH);
    a->rank = (unsigned)access->index->u.map.n;
    a->iters = TW_NEW_ARRAY(tw_context_arena(ctx), tw_expr, a->rank);
    a->loops = TW_NEW_ARRAY(tw_context_arena(ctx), tw_expr, a->rank);
    for (unsigned axis = 0; axis < a->rank; axis++) {
        tw_expr e = access->index->u.map.exprs[axis];
        bool known = tw_expr_dim_count(e) <= n;
        for (unsigned i = 0; known && i < n; i++)
            known = !tw_expr_uses_dim(e, i) || dims[i];
        a->exact &= known;
        if (!known)
            continue;
        e = tw_expr_substitute(ctx, e, dims, n);
        a->iters[axis] = tw_expr_simplify(ctx, e, block->iter_ranges, block->n_iters);
        e = tw_expr_substitute(ctx, e, block->bindings, block->n_iters);
        a->loops[axis] = tw_expr_simplify(ctx, e, block->nest.ranges, block->nest.n);
    }
}

typedef struct collect {
    tw_context *ctx;
    tw_block_info *block;
    TW_VEC(tw_block_access) accesses;
} collect;

static bool collect_access(tw_op *op, void *data)
{
    collect *c = data;
    tw_loop_access access;
    if (!tw_loop_get_access(op, &access))
        return true;
    const tw_op *inside = op;
    bool masked = access.where != NULL;
    for (; inside->region->parent != c->block->op; inside = inside->region->parent)
        masked |= tw_is_loop(inside->region->parent, TW_LOOP_IF);
    tw_block_access a = {.op = op,
                         .buffer = tw_root_buffer(access.buffer),
                         .store = access.value != NULL,
                         .init = inside->region->index == 0,
                         .masked = masked,
                         .exact = !tw_is_view(access.buffer)};
    if (a.exact)
        resolve_axes(c->ctx, c->block, &a, &access);
    tw_vec_push(tw_context_arena(c->ctx), &c->accesses, a);
    return true;
}

/* ---- Blocks -------------------------------------------------------------------------- */

static bool bind_iters(tw_context *ctx, tw_block_info *b, const char **why)
{
    tw_op *op = b->op;
    tw_attr extents = tw_op_attr(op, "extents"), bindings = tw_op_attr(op, "bindings");
    tw_expr dims[TW_MAX_EXPR_DIMS];
    for (unsigned i = 0; i < op->n_operands; i++) {
        int at = tw_nest_find(&b->nest, tw_operand(op, i));
        if (at < 0) {
            *why = tw_arena_printf(tw_context_arena(ctx),
                                   "is bound to %%%s, which is no loop around it",
                                   tw_buffer_name(tw_operand(op, i)));
            return false;
        }
        dims[i] = tw_expr_dim(ctx, (unsigned)at);
    }
    for (unsigned i = 0; i < b->n_iters; i++) {
        b->reduce[i] = tw_block_iter_reduces(op, i);
        b->has_reduce |= b->reduce[i];
        b->extents[i] = extents->u.map.exprs[i];
        b->bindings[i] = tw_expr_substitute(ctx, bindings->u.map.exprs[i], dims, op->n_operands);
        b->iter_ranges[i] = tw_value_range(ctx, op->regions[1].args[i]);
    }
    return true;
}

/* A block that reads what it writes at another place runs in order, whether it says so or not. */
static bool reads_elsewhere(const tw_block_info *b)
{
    for (unsigned i = 0; i < b->n_accesses; i++)
        for (unsigned k = 0; k < b->n_accesses; k++) {
            const tw_block_access *w = &b->accesses[i], *r = &b->accesses[k];
            if (!w->store || r->store || w->buffer != r->buffer)
                continue;
            if (!w->exact || !r->exact ||
                (w->rank > 0 && memcmp(w->iters, r->iters, w->rank * sizeof *w->iters) != 0))
                return true;
        }
    return false;
}

bool tw_block_analyse(tw_context *ctx, tw_op *block, tw_block_info *out, const char **why)
{
    *out = (tw_block_info){.op = block, .name = tw_op_string(block, "sym_name", "?")};
    out->n_iters = block->regions[1].n_args;
    if (!tw_nest_of(ctx, block, &out->nest) || out->n_iters > TW_MAX_ITERS ||
        block->n_operands > TW_MAX_EXPR_DIMS) {
        *why = tw_arena_printf(tw_context_arena(ctx),
                               "has more than %d loops or %d iteration variables", TW_MAX_NEST,
                               TW_MAX_ITERS);
        return false;
    }
    for (const tw_op *up = block->region->parent; up->region && !tw_is_loop(up, TW_LOOP_KERNEL);
         up = up->region->parent)
        if (!tw_is_loop(up, TW_LOOP_FOR)) {
            *why = tw_arena_printf(tw_context_arena(ctx), "is inside of a %s", up->def->name);
            return false;
        }
    if (!bind_iters(ctx, out, why))
        return false;
    out->has_init = block->regions[0].first != NULL;
    collect c = {.ctx = ctx, .block = out};
    tw_walk(block, collect_access, &c);
    out->accesses = c.accesses.data;
    out->n_accesses = (unsigned)c.accesses.len;
    out->sequential =
        !strcmp(tw_op_string(block, "order", ""), "sequential") || reads_elsewhere(out);
    return true;
}

/* The i-th distinct buffer among the accesses that are stores or not. */
static tw_value *distinct_buffer(const tw_block_info *b, unsigned i, bool store)
{
    for (unsigned k = 0; k < b->n_accesses; k++) {
        const tw_block_access *a = &b->accesses[k];
        bool counts = a->store == store;
        for (unsigned j = 0; counts && j < b->n_accesses; j++) {
            const tw_block_access *other = &b->accesses[j];
            if (other->buffer == a->buffer &&
                ((j < k && other->store == store) || (!store && other->store)))
                counts = false;
        }
        if (counts && i-- == 0)
            return a->buffer;
    }
    return NULL;
}

tw_value *tw_block_read(const tw_block_info *block, unsigned i)
{
    return distinct_buffer(block, i, false);
}

tw_value *tw_block_written(const tw_block_info *block, unsigned i)
{
    return distinct_buffer(block, i, true);
}

static bool bound_to(const tw_block_info *block, unsigned loop, bool reduce)
{
    for (unsigned i = 0; i < block->n_iters; i++)
        if (block->reduce[i] == reduce && tw_expr_uses_dim(block->bindings[i], loop))
            return true;
    return false;
}

bool tw_loop_is_spatial(const tw_block_info *block, unsigned i)
{
    return bound_to(block, i, false);
}

bool tw_loop_is_reduce(const tw_block_info *block, unsigned i)
{
    return bound_to(block, i, true);
}
