/* collapse_axes.c: collapse-axes: axes that all of a kernel treats as one become one.
 *
 *     loop.kernel @k(%X: buffer<1x56x56x64xf32>, %B: buffer<64xf32>, %Y: buffer<1x56x56x64xf32>)
 *       for n in 1, h in 56, w in 56, c in 64: Y[n, h, w, c] = X[n, h, w, c] + B[c]
 * becomes
 *     loop.kernel @k(%X: buffer<3136x64xf32>, %B: buffer<64xf32>, %Y: buffer<3136x64xf32>)
 *       for w in 3136, c in 64: Y[w, c] = X[w, c] + B[c]
 *
 * and calls pass views. Axes of size 1 are dropped. Two neighbouring axes d, d+1 of a buffer join
 * when every access indexes them by two neighbouring variables i, i+1 that join, i+1 running over
 * all of d+1; two variables join when every access that uses them does so in such a pair of axes,
 * or in one linear term c * (i * extent + i+1). Starting from "all join", pairs that break a rule
 * are struck out until none is left. */
#include "lower/lower_passes.h"

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "dialect/core/core.h"
#include "dialect/loop/index_map.h"
#include "dialect/loop/loop.h"

#include <string.h>

enum { MAX_ITERS = 32 };

/* joined[d]: axis d and the next one that is not dropped are one. */
typedef struct buffer_axes {
    tw_value *buffer;
    unsigned rank;
    const tw_expr *size; /* over symbols */
    bool dropped[TW_MAX_RANK], joined[TW_MAX_RANK];
} buffer_axes;

typedef struct block_iters {
    tw_op *block;
    tw_op *outermost; /* loop, or the block itself */
    unsigned n;
    tw_expr extent[MAX_ITERS]; /* over symbols */
    bool reduce[MAX_ITERS], dropped[MAX_ITERS], joined[MAX_ITERS];
    const char *loop_name[MAX_ITERS];
} block_iters;

typedef struct collapse {
    tw_context *ctx;
    tw_arena *arena;
    TW_VEC(buffer_axes *) buffers;
    tw_map by_value; /* buffer value -> buffer_axes */
    TW_VEC(block_iters *) blocks;
    bool fits, changed;
    block_iters *current;
} collapse;

/* ---- Reading the kernel ---- */

static bool is_one(tw_expr e)
{
    return tw_expr_is_const(e) && e->value == 1;
}

static void add_buffer(collapse *c, tw_value *value)
{
    buffer_axes *b = TW_NEW(c->arena, buffer_axes);
    b->buffer = value;
    b->rank = value->type->rank;
    b->size = value->type->dims;
    unsigned kept = 0;
    for (unsigned d = 0; d < b->rank; d++) {
        b->dropped[d] = is_one(b->size[d]);
        b->joined[d] = true;
        kept += !b->dropped[d];
    }
    if (!kept && b->rank)
        b->dropped[b->rank - 1] = false; /* rank 1 at least */
    tw_vec_push(c->arena, &c->buffers, b);
    tw_map_put_ptr(&c->by_value, value, b);
}

/* A reduction over axes of size 1 stays one: one of them is kept. */
static void keep_reduction(block_iters *b)
{
    int last = -1;
    for (unsigned i = 0; i < b->n; i++)
        if (b->reduce[i]) {
            if (!b->dropped[i])
                return;
            last = (int)i;
        }
    if (last >= 0)
        b->dropped[last] = false;
}

/* Whether the conditions are the same for all iterations. */
static bool is_uniform(tw_attr where)
{
    for (size_t i = 0; where && i < where->u.map.n; i++)
        if (tw_expr_dim_count(where->u.map.exprs[i]))
            return false;
    return true;
}

/* Reads a block in a plain nest: a serial loop from 0 for each variable, in order, nothing else. */
static bool read_block(tw_op *op, block_iters *out)
{
    tw_attr extents = tw_op_attr(op, "extents"), bindings = tw_op_attr(op, "bindings");
    *out = (block_iters){.block = op, .outermost = op, .n = (unsigned)extents->u.map.n};
    if (out->n > MAX_ITERS || !is_uniform(tw_op_attr(op, "where")) || tw_op_attr(op, "order") ||
        tw_op_attr(op, "annotations"))
        return false;
    for (unsigned i = out->n; i-- > 0;) {
        tw_op *loop = out->outermost->region->parent;
        tw_expr binding = bindings->u.map.exprs[i];
        int64_t lo;
        if (!tw_is_loop(loop, TW_LOOP_FOR) || tw_op_attr(loop, "kind") ||
            tw_op_attr(loop, "annotations") || loop->regions[0].first != loop->regions[0].last ||
            binding->kind != TW_EXPR_DIM ||
            tw_operand(op, (unsigned)binding->value) != loop->regions[0].args[0])
            return false;
        tw_attr bounds = tw_op_attr(loop, "bounds");
        out->extent[i] = extents->u.map.exprs[i];
        if (!tw_expr_as_const(bounds->u.map.exprs[0], &lo) || lo != 0 ||
            bounds->u.map.exprs[1] != out->extent[i])
            return false;
        out->reduce[i] = tw_block_iter_reduces(op, i);
        out->dropped[i] = is_one(out->extent[i]);
        out->joined[i] = true;
        out->loop_name[i] = loop->regions[0].args[0]->name;
        out->outermost = loop;
    }
    keep_reduction(out);
    return tw_is_loop(out->outermost->region->parent, TW_LOOP_KERNEL);
}

/* What may be in a kernel that is collapsed: allocations and plain nests. */
static bool read_kernel(collapse *c, tw_op *kernel)
{
    tw_region *body = &kernel->regions[0];
    for (unsigned i = 0; i < body->n_args; i++) {
        if (body->args[i]->type->kind != TW_TYPE_BUFFER)
            return false;
        add_buffer(c, body->args[i]);
    }
    for (tw_op *op = body->first; op; op = op->next) {
        if (tw_is_loop(op, TW_LOOP_ALLOC)) {
            add_buffer(c, tw_result(op, 0));
            continue;
        }
        tw_op *inner = op;
        while (tw_is_loop(inner, TW_LOOP_FOR) && inner->regions[0].first)
            inner = inner->regions[0].first;
        if (!tw_is_loop(inner, TW_LOOP_BLOCK))
            return false;
        block_iters *block = TW_NEW(c->arena, block_iters);
        if (!read_block(inner, block) || block->outermost != op)
            return false;
        tw_vec_push(c->arena, &c->blocks, block);
    }
    return true;
}

/* ---- Striking out pairs ---- */

static unsigned next_kept(const bool *dropped, unsigned n, unsigned i)
{
    for (i++; i < n && dropped[i];)
        i++;
    return i;
}

/* The variable that the expression is, or -1. */
static int plain_iter(const collapse *c, const tw_op *op, const tw_loop_access *a, tw_expr e)
{
    if (e->kind != TW_EXPR_DIM)
        return -1;
    const tw_value *v = tw_operand(op, a->first_index + (unsigned)e->value);
    bool is_iter = v->region && v->region->parent == c->current->block;
    return is_iter && !c->current->dropped[v->index] ? (int)v->index : -1;
}

static void strike(bool *joined, collapse *c)
{
    c->changed |= *joined;
    *joined = false;
}

/* Axes of the accessed buffer that are not indexed by a pair of joined variables. */
static void strike_axes(collapse *c, const tw_op *op, const tw_loop_access *a, buffer_axes *b)
{
    for (unsigned d = 0; d < b->rank; d++) {
        unsigned next = next_kept(b->dropped, b->rank, d);
        if (b->dropped[d] || next >= b->rank || !b->joined[d])
            continue;
        int i = plain_iter(c, op, a, a->index->u.map.exprs[d]);
        int j = plain_iter(c, op, a, a->index->u.map.exprs[next]);
        block_iters *block = c->current;
        if (i < 0 || j < 0 || (unsigned)j != next_kept(block->dropped, block->n, (unsigned)i) ||
            !block->joined[i] || block->extent[j] != b->size[next])
            strike(&b->joined[d], c);
    }
}

/* The operand of op's maps that is variable i, or -1. */
static int operand_of(const collapse *c, const tw_op *op, unsigned first, unsigned n, unsigned i)
{
    for (unsigned k = 0; k < n; k++) {
        const tw_value *v = tw_operand(op, first + k);
        if (v->region && v->region->parent == c->current->block && v->index == i)
            return (int)k;
    }
    return -1;
}

/* Whether one expression treats the operands p (outer) and q as p * extent + q, or uses neither. */
static bool is_joint_term(tw_context *ctx, tw_expr e, int p, int q, tw_expr extent)
{
    bool uses_p = p >= 0 && tw_expr_uses_dim(e, (unsigned)p);
    bool uses_q = q >= 0 && tw_expr_uses_dim(e, (unsigned)q);
    if (!uses_p && !uses_q)
        return true;
    if (!uses_p || !uses_q)
        return false;
    tw_expr at[TW_MAX_EXPR_DIMS] = {0};
    at[p] = at[q] = tw_expr_const(ctx, 0);
    tw_expr rest = tw_expr_substitute(ctx, e, at, TW_MAX_EXPR_DIMS);
    at[q] = tw_expr_const(ctx, 1);
    tw_expr step = tw_expr_sub(ctx, tw_expr_substitute(ctx, e, at, TW_MAX_EXPR_DIMS), rest);
    tw_expr outer = tw_expr_mul(ctx, tw_expr_dim(ctx, (unsigned)p), extent);
    tw_expr joint = tw_expr_add(ctx, outer, tw_expr_dim(ctx, (unsigned)q));
    return step->kind != TW_EXPR_INVALID && tw_expr_dim_count(step) == 0 &&
           tw_expr_sub(ctx, e, rest) == tw_expr_mul(ctx, step, joint);
}

/* Whether op (any operation in the block) treats the variables i, j as one. */
static bool treats_as_one(collapse *c, const tw_op *op, unsigned i, unsigned j)
{
    unsigned first, n;
    if (!tw_index_operands(op, &first, &n)) { /* a plain use of either is no pair */
        for (unsigned k = 0; k < op->n_operands; k++) {
            const tw_value *v = tw_operand(op, k);
            if (v->region && v->region->parent == c->current->block &&
                (v->index == i || v->index == j))
                return false;
        }
        return true;
    }
    int p = operand_of(c, op, first, n, i), q = operand_of(c, op, first, n, j);
    if (p < 0 && q < 0)
        return true;
    tw_expr extent = c->current->extent[j];
    tw_loop_access a;
    buffer_axes *b = tw_loop_get_access(op, &a) ? tw_map_get_ptr(&c->by_value, a.buffer) : NULL;
    for (const char *const *name = tw_index_map_names(op); *name; name++) {
        tw_attr map = tw_op_attr(op, *name);
        for (size_t e = 0; map && e < map->u.map.n; e++) {
            bool paired = false;
            if (b && map == a.index && b->joined[e] && !b->dropped[e]) {
                unsigned next = next_kept(b->dropped, b->rank, (unsigned)e);
                paired = next < b->rank && plain_iter(c, op, &a, map->u.map.exprs[e]) == (int)i &&
                         plain_iter(c, op, &a, map->u.map.exprs[next]) == (int)j;
                if (paired)
                    e = next;
            }
            if (!paired && !is_joint_term(c->ctx, map->u.map.exprs[e], p, q, extent))
                return false;
        }
    }
    return true;
}

static bool strike_in_op(tw_op *op, void *data)
{
    collapse *c = data;
    block_iters *block = c->current;
    if (op == block->block)
        return true;
    tw_loop_access a;
    if (tw_loop_get_access(op, &a)) {
        buffer_axes *b = tw_map_get_ptr(&c->by_value, a.buffer);
        if (!b)
            return c->fits = false;
        strike_axes(c, op, &a, b);
    }
    for (unsigned i = 0; i < block->n; i++) {
        unsigned j = next_kept(block->dropped, block->n, i);
        if (block->dropped[i] || j >= block->n || !block->joined[i])
            continue;
        if (block->reduce[i] != block->reduce[j] || !treats_as_one(c, op, i, j))
            strike(&block->joined[i], c);
    }
    return true;
}

static bool find_joints(collapse *c)
{
    c->fits = true;
    do {
        c->changed = false;
        for (size_t i = 0; i < c->blocks.len && c->fits; i++) {
            c->current = c->blocks.data[i];
            tw_walk(c->current->block, strike_in_op, c);
        }
    } while (c->changed && c->fits);
    return c->fits;
}

/* ---- Rewriting ---- */

/* Sizes after collapsing: groups of joined axes; returns their number. */
static unsigned groups(tw_context *ctx, const bool *dropped, const bool *joined,
                       const tw_expr *size, unsigned n, tw_expr *out)
{
    unsigned count = 0;
    bool open = false;
    for (unsigned i = 0; i < n; i++) {
        if (dropped[i])
            continue;
        if (!open)
            out[count++] = tw_expr_const(ctx, 1);
        out[count - 1] = tw_expr_mul(ctx, out[count - 1], size[i]);
        open = joined[i] && next_kept(dropped, n, i) < n;
    }
    return count;
}

static bool rewrite_access(tw_op *op, void *data)
{
    collapse *c = data;
    tw_loop_access a;
    if (!tw_loop_get_access(op, &a))
        return true;
    const buffer_axes *b = tw_map_get_ptr(&c->by_value, a.buffer);
    tw_expr index[TW_MAX_RANK];
    unsigned count = 0;
    bool open = false;
    for (unsigned d = 0; d < b->rank; d++) {
        if (b->dropped[d])
            continue;
        tw_expr e = a.index->u.map.exprs[d];
        index[open ? count - 1 : count] =
            open ? tw_expr_add(c->ctx, tw_expr_mul(c->ctx, index[count - 1], b->size[d]), e) : e;
        count += !open;
        open = b->joined[d] && next_kept(b->dropped, b->rank, d) < b->rank;
    }
    tw_op_set_attr(op, "index", tw_attr_map(c->ctx, a.index->u.map.n_dims, index, count));
    return true;
}

/* Replaces a variable in both regions by 0 or by the variable of the new block. */
static void replace_iter(collapse *c, tw_op *block, unsigned i, tw_value *const *by)
{
    for (unsigned r = 0; r < 2; r++) {
        tw_expr e = by ? tw_expr_dim(c->ctx, 0) : tw_expr_const(c->ctx, 0);
        tw_index_replace_value(c->ctx, block->regions[r].args[i], e, by ? &by[r] : NULL,
                               by != NULL);
    }
}

/* A new nest with one variable a group in front of the old one, which is erased. */
static void rebuild_block(collapse *c, block_iters *block)
{
    tw_loop_iter iters[MAX_ITERS];
    unsigned last[MAX_ITERS], count = 0; /* the old variable that a group's one stands for */
    tw_expr extent[MAX_ITERS];
    groups(c->ctx, block->dropped, block->joined, block->extent, block->n, extent);
    tw_builder b = tw_builder_before(c->ctx, block->outermost);
    tw_value *vars[MAX_ITERS];
    for (unsigned i = 0; i < block->n; i++) {
        unsigned next = next_kept(block->dropped, block->n, i);
        if (block->dropped[i] || (block->joined[i] && next < block->n))
            continue;
        tw_op *loop = tw_loop_for(&b, tw_expr_const(c->ctx, 0), extent[count], NULL, 0, "serial",
                                  block->loop_name[i]);
        vars[count] = loop->regions[0].args[0];
        b = tw_builder_at_end(c->ctx, &loop->regions[0], block->block->loc);
        iters[count] = (tw_loop_iter){block->block->regions[1].args[i]->name, block->reduce[i],
                                      extent[count], tw_expr_dim(c->ctx, count)};
        last[count++] = i;
    }
    tw_op *fresh =
        tw_loop_block(&b, tw_op_string(block->block, "sym_name", ""), iters, count, vars, count);
    tw_attr where = tw_op_attr(block->block, "where");
    if (where)
        tw_op_set_attr(fresh, "where",
                       tw_attr_map(c->ctx, count, where->u.map.exprs, where->u.map.n));
    for (unsigned i = 0; i < block->n; i++) {
        tw_value *by[2] = {NULL, NULL};
        for (unsigned g = 0; g < count; g++)
            if (last[g] == i) {
                by[0] = fresh->regions[0].args[g];
                by[1] = fresh->regions[1].args[g];
            }
        replace_iter(c, block->block, i, by[0] ? by : NULL);
    }
    for (unsigned r = 0; r < 2; r++)
        tw_region_splice(&fresh->regions[r], NULL, &block->block->regions[r]);
    tw_op_erase(block->outermost);
    block->block = fresh;
}

static bool rebuild_buffer(collapse *c, buffer_axes *b)
{
    tw_expr dims[TW_MAX_RANK];
    unsigned rank = groups(c->ctx, b->dropped, b->joined, b->size, b->rank, dims);
    if (rank == b->rank)
        return false;
    b->buffer->type =
        tw_type_buffer(c->ctx, b->buffer->type->elem, rank, dims, b->buffer->type->scope);
    return true;
}

/* Collapses one kernel; true when types of its arguments changed. */
static bool collapse_kernel(tw_context *ctx, tw_op *kernel)
{
    collapse c = {.ctx = ctx, .arena = tw_context_arena(ctx)};
    c.by_value = tw_map_make(c.arena);
    if (!read_kernel(&c, kernel) || !find_joints(&c))
        return false;
    for (size_t i = 0; i < c.blocks.len; i++)
        rebuild_block(&c, c.blocks.data[i]);
    for (size_t i = 0; i < c.blocks.len; i++)
        tw_walk(c.blocks.data[i]->block, rewrite_access, &c);
    bool changed = false;
    for (size_t i = 0; i < c.buffers.len; i++)
        changed |= rebuild_buffer(&c, c.buffers.data[i]) && c.buffers.data[i]->buffer->region;
    return changed;
}

typedef struct call_fixer {
    tw_context *ctx;
    tw_map kernels; /* name -> kernel whose arguments changed */
} call_fixer;

static bool fix_call(tw_op *op, void *data)
{
    call_fixer *f = data;
    tw_op *kernel = tw_is_core(op, TW_CORE_CALL)
                        ? tw_map_get_str(&f->kernels, tw_op_string(op, "callee", ""))
                        : NULL;
    for (unsigned i = 0; kernel && i < op->n_operands; i++) {
        tw_type type = kernel->regions[0].args[i]->type;
        tw_value *buffer = tw_operand(op, i);
        if (buffer->type == type)
            continue;
        tw_builder b = tw_builder_before(f->ctx, op);
        tw_op *view = tw_build(&b, &tw_loop_ops[TW_LOOP_VIEW], &buffer, 1, &type, 1, NULL);
        tw_value_set_name(tw_result(view, 0), buffer->name);
        tw_op_set_operand(op, i, tw_result(view, 0));
    }
    return true;
}

static bool run(tw_pass_run *pass)
{
    call_fixer f = {.ctx = pass->ctx, .kernels = tw_map_make(tw_context_arena(pass->ctx))};
    for (tw_op *op = tw_core_body(pass->root)->first; op; op = op->next)
        if (tw_is_loop(op, TW_LOOP_KERNEL) && collapse_kernel(pass->ctx, op)) {
            tw_map_put_str(&f.kernels, tw_op_string(op, "sym_name", ""), op);
            pass->changes++;
        }
    tw_walk(pass->root, fix_call, &f);
    return true;
}

const tw_pass tw_pass_collapse_axes = {
    .name = "collapse-axes",
    .summary = "make axes one that a kernel treats as one",
    .anchor = "core.module",
    .optional = true,
    .run = run,
};
