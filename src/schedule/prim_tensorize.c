/* prim_tensorize.c: tensorize: a loop nest is done by an intrinsic.
 *
 *     loop.kernel @what(%A: buffer<4xu8>, %B: buffer<4xi8>, %C: buffer<1xi32>) { for %k = 0 to 4 {
 *       block "dot" (%vk: reduce 4 = %k) { … %C[0] += %A[%vk] * %B[%vk] … } } }
 *     loop.kernel @how(%A: …, %B: …, %C: …) { … loop.dot4 … }
 *
 *     for %i { for %ko { for %ki = 0 to 4 {
 *       block "b" (…) { … %T[%vi] += %X[%vi, %ko * 4 + %ki] * %W[%ko * 4 + %ki] … } } } }
 * tensorized at %ki:
 *     for %i { for %ko { block "b" (%vi = %i, %vko = %ko) {
 *       what @how does with %X[%vi, %vko * 4 + …], %W[%vko * 4 + …], %T[%vi + …] } } }
 *
 * The description must match: the same loops, the same operations, and for each argument a part of
 * a buffer of the kernel: index = place + description's index along some axes, the place being a
 * function of outer loops. That the implementation computes what the description does is tried out
 * in the interpreter. */
#include "interp/interp.h"
#include "schedule/outer_block.h"

#include "ir/elem_data.h"
#include "ir/scalar.h"

#include <string.h>

enum { MAX_ARGS = 16 };

/* Where the description's argument lies in the kernel. */
typedef struct place {
    tw_value *buffer;          /* NULL: not met yet */
    int axis[TW_MAX_RANK];     /* the argument's axis along each axis of the buffer; -1: none */
    tw_expr base[TW_MAX_RANK]; /* per axis of the buffer, over the loops of the nest */
} place;

typedef struct match {
    const tw_step *step;
    tw_op *what, *how;
    tw_nest nest; /* of the loop: what is outside */
    tw_block_info block, described;
    place places[MAX_ARGS];
    unsigned n_args;
    tw_map values; /* of the description -> of the kernel */
} match;

/* ---- Finding the intrinsic ----------------------------------------------------------- */

static tw_op *find_kernel(const tw_op *module, const char *name)
{
    for (tw_op *op = module && module->n_regions ? module->regions[0].first : NULL; op;
         op = op->next)
        if (tw_is_loop(op, TW_LOOP_KERNEL) && !strcmp(tw_op_string(op, "sym_name", ""), name))
            return op;
    return NULL;
}

static tw_op *find_part(const tw_step *step, const char *attr)
{
    const char *name = tw_op_string(step->op, attr, "");
    const tw_op *kernel = step->s->kernel;
    tw_op *found = find_kernel(step->s->library, name);
    if (!found)
        found = find_kernel(kernel->region ? kernel->region->parent : NULL, name);
    if (!found)
        tw_step_refuse(step, "there is no kernel @%s for the %s", name, attr);
    return found;
}

static bool find_intrinsic(const tw_step *step, match *m)
{
    m->what = find_part(step, "description");
    m->how = m->what ? find_part(step, "implementation") : NULL;
    if (!m->how)
        return false;
    const tw_region *a = &m->what->regions[0], *b = &m->how->regions[0];
    bool same = a->n_args == b->n_args &&
                tw_op_int(m->what, "outputs", 0) == tw_op_int(m->how, "outputs", 0);
    for (unsigned i = 0; same && i < a->n_args; i++)
        same = a->args[i]->type == b->args[i]->type && a->args[i]->type->kind == TW_TYPE_BUFFER;
    m->n_args = a->n_args;
    return (same && m->n_args <= MAX_ARGS) ||
           tw_step_refuse(step, "@%s and @%s have not the same arguments, at most %d buffers",
                          tw_op_string(m->what, "sym_name", ""),
                          tw_op_string(m->how, "sym_name", ""), MAX_ARGS);
}

/* ---- Trying it out ------------------------------------------------------------------- */

/* Numbers small enough for sums and products in floating point to be exact. */
static void fill(tw_elem elem, unsigned char *bytes, size_t n, unsigned *state)
{
    for (size_t i = 0; i < n; i++) {
        *state = *state * 1664525u + 1013904223u;
        int value = (int)(*state >> 24);
        tw_number number = {.integer = elem == TW_BOOL ? value & 1 : value};
        if (tw_elem_is_float(elem))
            number.real = value % 17 - 8;
        else if (elem != TW_BOOL && elem != TW_U8)
            number.integer = (signed char)value;
        tw_scalar_store(elem, bytes, i, number);
    }
}

static bool run_on(const match *m, tw_op *kernel, const tw_interp_buffer *buffers)
{
    tw_interp_options options = {
        .max_steps = 1 << 24, .partial_outputs = true, .outputs_hold = true};
    return tw_interp_run(m->step->ctx, kernel, buffers, m->n_args, &options);
}

/* Runs both; false with a diagnostic when they differ. */
static bool try_out(const match *m)
{
    tw_context *ctx = m->step->ctx;
    tw_interp_buffer a[MAX_ARGS], b[MAX_ARGS];
    unsigned state = 1;
    for (unsigned i = 0; i < m->n_args; i++) {
        tw_type type = m->what->regions[0].args[i]->type;
        int64_t count;
        size_t size;
        if (!tw_type_static_count(type, &count) || count > 1 << 20 ||
            !tw_elem_bytes(type->elem, (size_t)count, &size))
            return tw_step_refuse(m->step,
                                  "argument %u of the intrinsic is too large or of no known "
                                  "size",
                                  i);
        a[i] = b[i] = (tw_interp_buffer){tw_context_alloc(ctx, size + 1), size};
        b[i].data = tw_context_alloc(ctx, size + 1);
        fill(type->elem, a[i].data, (size_t)count, &state);
        memcpy(b[i].data, a[i].data, size);
    }
    if (!run_on(m, m->what, a) || !run_on(m, m->how, b))
        return tw_step_refuse(m->step, "the intrinsic does not run");
    for (unsigned i = 0; i < m->n_args; i++)
        if (memcmp(a[i].data, b[i].data, a[i].size) != 0)
            return tw_step_refuse(
                m->step, "@%s does not compute what @%s does: argument %u differs",
                tw_op_string(m->how, "sym_name", ""), tw_op_string(m->what, "sym_name", ""), i);
    return true;
}

/* ---- Matching ------------------------------------------------------------------------ */

/* The only block below, when each loop down to it holds nothing else; else NULL. */
static tw_op *only_block(tw_op *top)
{
    while (top && tw_is_loop(top, TW_LOOP_FOR))
        top = top->regions[0].first == top->regions[0].last ? top->regions[0].first : NULL;
    return top && tw_is_loop(top, TW_LOOP_BLOCK) ? top : NULL;
}

static bool match_loops(match *m)
{
    const tw_step *step = m->step;
    tw_op *loop = step->operands[0], *body = m->what->regions[0].first;
    tw_op *block = only_block(loop),
          *described = body == m->what->regions[0].last ? only_block(body) : NULL;
    if (!described)
        return tw_step_refuse(step, "the description is not one block in perfectly nested loops");
    if (!block)
        return tw_step_refuse(step, "loop %%%s does not hold one block in perfectly nested loops",
                              tw_loop_name(loop));
    if (!tw_step_block(step, block, &m->block) || !tw_step_block(step, described, &m->described) ||
        !tw_nest_of(step->ctx, loop, &m->nest))
        return false;
    if (m->block.has_init)
        return tw_step_refuse(
            step, "block \"%s\" has its init in it (decompose the reduction first)", m->block.name);
    if (m->block.nest.n - m->nest.n != m->described.nest.n)
        return tw_step_refuse(step, "the nest has %u loops, the description %u",
                              m->block.nest.n - m->nest.n, m->described.nest.n);
    for (unsigned i = 0; i < m->described.nest.n; i++) {
        tw_op *mine = m->block.nest.loops[m->nest.n + i];
        int64_t a, b;
        if (!tw_step_serial(step, mine))
            return false;
        if (!tw_loop_const_extent(mine, &a) ||
            !tw_loop_const_extent(m->described.nest.loops[i], &b) || a != b)
            return tw_step_refuse(step, "loop %%%s has not the extent of the description's loop %u",
                                  tw_loop_name(mine), i);
    }
    return true;
}

/* The description's expression over the kernel's loops. */
static tw_expr renamed(const match *m, tw_expr e)
{
    tw_expr dims[TW_MAX_NEST];
    for (unsigned i = 0; i < m->described.nest.n; i++)
        dims[i] = tw_expr_dim(m->step->ctx, m->nest.n + i);
    return tw_expr_substitute(m->step->ctx, e, dims, m->described.nest.n);
}

static bool uses_inner(const match *m, tw_expr e)
{
    for (unsigned i = m->nest.n; i < m->block.nest.n; i++)
        if (tw_expr_uses_dim(e, i))
            return true;
    return false;
}

static const tw_block_access *access_of(const tw_block_info *b, const tw_op *op)
{
    for (unsigned i = 0; i < b->n_accesses; i++)
        if (b->accesses[i].op == op)
            return &b->accesses[i];
    return NULL;
}

/* Whether the access touches the place that the description's touches of argument `arg`; the first
 * access says where the argument lies. */
static bool match_access(match *m, const tw_block_access *mine, const tw_block_access *its)
{
    place *at = &m->places[its->buffer->index];
    place found = {.buffer = mine->buffer};
    unsigned next = 0;
    if (!mine->exact || !its->exact || mine->masked || its->masked || its->buffer->op ||
        mine->buffer->type->elem != its->buffer->type->elem)
        return false;
    for (unsigned d = 0; d < mine->rank; d++) {
        tw_expr rest = mine->loops[d];
        found.axis[d] = -1;
        if (next < its->rank) {
            tw_expr less = tw_expr_simplify(
                m->step->ctx,
                tw_expr_sub(m->step->ctx, mine->loops[d], renamed(m, its->loops[next])),
                m->block.nest.ranges, m->block.nest.n);
            /* The last axes are the argument's: what is left there must be its own. */
            bool must = mine->rank - d == its->rank - next;
            if (less->kind != TW_EXPR_INVALID && !uses_inner(m, less) &&
                (must || uses_inner(m, mine->loops[d]))) {
                rest = less;
                found.axis[d] = (int)next++;
            }
        }
        if (uses_inner(m, rest))
            return false;
        found.base[d] = rest;
    }
    if (next < its->rank)
        return false;
    if (!at->buffer)
        *at = found;
    if (at->buffer != found.buffer)
        return false;
    for (unsigned d = 0; d < mine->rank; d++)
        if (at->axis[d] != found.axis[d] || at->base[d] != found.base[d])
            return false;
    return true;
}

static bool same_attrs(const tw_op *a, const tw_op *b)
{
    bool access = tw_is_loop(a, TW_LOOP_LOAD) || tw_is_loop(a, TW_LOOP_STORE);
    if (!access && a->n_attrs != b->n_attrs)
        return false;
    for (unsigned i = 0; !access && i < a->n_attrs; i++)
        if (tw_op_attr(b, a->attrs[i].name) != a->attrs[i].value)
            return false;
    return true;
}

static bool match_op(match *m, tw_op *mine, tw_op *its)
{
    if (mine->def != its->def || mine->n_results != its->n_results || mine->n_regions ||
        !same_attrs(mine, its))
        return false;
    tw_loop_access access;
    if (tw_loop_get_access(mine, &access)) {
        const tw_block_access *a = access_of(&m->block, mine), *b = access_of(&m->described, its);
        if (!match_access(m, a, b) ||
            (access.value && tw_map_get_ptr(&m->values, tw_operand(its, 0)) != access.value))
            return false;
    } else {
        if (mine->n_operands != its->n_operands)
            return false;
        for (unsigned i = 0; i < mine->n_operands; i++)
            if (tw_map_get_ptr(&m->values, tw_operand(its, i)) != tw_operand(mine, i))
                return false;
    }
    for (unsigned i = 0; i < mine->n_results; i++) {
        if (mine->results[i].type != its->results[i].type)
            return false;
        tw_map_put_ptr(&m->values, &its->results[i], &mine->results[i]);
    }
    return true;
}

static bool match_body(match *m)
{
    m->values = tw_map_make(tw_context_arena(m->step->ctx));
    tw_op *mine = m->block.op->regions[1].first, *its = m->described.op->regions[1].first;
    for (; mine && its; mine = mine->next, its = its->next)
        if (!match_op(m, mine, its))
            return tw_step_refuse(m->step,
                                  "block \"%s\" does not compute what @%s does: %s is not what "
                                  "stands there (%s)",
                                  m->block.name, tw_op_string(m->what, "sym_name", ""),
                                  mine->def->name, its->def->name);
    if (mine || its || m->described.has_init)
        return tw_step_refuse(m->step, "block \"%s\" and @%s have not the same operations",
                              m->block.name, tw_op_string(m->what, "sym_name", ""));
    for (unsigned i = 0; i < m->n_args; i++)
        if (!m->places[i].buffer)
            return tw_step_refuse(m->step, "@%s does not use its argument %u",
                                  tw_op_string(m->what, "sym_name", ""), i);
    return true;
}

/* Two arguments in one buffer: the implementation may do in another order what the description
 * does. */
static bool check_overlap(const match *m)
{
    unsigned inputs = m->n_args - (unsigned)tw_op_int(m->what, "outputs", 0);
    for (unsigned i = inputs; i < m->n_args; i++)
        for (unsigned k = 0; k < i; k++)
            if (m->places[i].buffer == m->places[k].buffer)
                return tw_step_refuse(m->step, "%%%s stands for two arguments of the intrinsic",
                                      tw_buffer_name(m->places[i].buffer));
    return true;
}

/* The masks of the block, which may not tell the iterations of the nest apart, over the loops. */
static bool outer_masks(const match *m, bool *used, tw_expr *out, unsigned *n)
{
    const tw_op *block = m->block.op;
    tw_attr where = tw_op_attr(block, "where");
    tw_expr dims[TW_MAX_EXPR_DIMS];
    *n = 0;
    for (unsigned i = 0; i < block->n_operands; i++)
        dims[i] =
            tw_expr_dim(m->step->ctx, (unsigned)tw_nest_find(&m->block.nest, tw_operand(block, i)));
    for (size_t i = 0; where && i < where->u.map.n; i++) {
        tw_expr e =
            tw_expr_substitute(m->step->ctx, where->u.map.exprs[i], dims, block->n_operands);
        if (uses_inner(m, e) || *n == TW_MAX_RANK)
            return tw_step_refuse(m->step,
                                  "a mask of block \"%s\" cuts the nest (loop_partition or "
                                  "pad_einsum it first)",
                                  m->block.name);
        out[(*n)++] = e;
        for (unsigned k = 0; k < m->nest.n; k++)
            used[k] |= tw_expr_uses_dim(e, k);
    }
    return true;
}

/* ---- Carrying out -------------------------------------------------------------------- */

/* An access of the implementation to its argument becomes one of the kernel's buffer. */
static void redirect(const match *m, const tw_outer_block *outer, tw_op *op, const place *at)
{
    tw_context *ctx = m->step->ctx;
    tw_loop_access a;
    tw_loop_get_access(op, &a);
    unsigned total = a.n_index + outer->n, n = 0;
    tw_value **operands =
        TW_NEW_ARRAY(tw_context_arena(ctx), tw_value *, op->n_operands + outer->n);
    for (unsigned i = 0; i < a.first_index + a.n_index; i++)
        operands[n++] = tw_operand(op, i);
    for (unsigned i = 0; i < outer->n; i++)
        operands[n++] = outer->args[i];
    for (unsigned i = a.first_index + a.n_index; i < op->n_operands; i++)
        operands[n++] = tw_operand(op, i);
    operands[a.first_index - 1] = at->buffer;
    tw_expr dims[TW_MAX_NEST], index[TW_MAX_RANK];
    for (unsigned k = 0, next = 0; k < m->nest.n; k++)
        dims[k] = outer->vars[k] ? tw_expr_dim(ctx, a.n_index + next++) : tw_expr_const(ctx, 0);
    unsigned rank = at->buffer->type->rank;
    for (unsigned d = 0; d < rank; d++) {
        index[d] = tw_expr_substitute(ctx, at->base[d], dims, m->nest.n);
        if (at->axis[d] >= 0)
            index[d] = tw_expr_add(ctx, index[d], a.index->u.map.exprs[at->axis[d]]);
    }
    tw_op_set_attr(op, "index", tw_attr_map(ctx, total, index, rank));
    if (a.where)
        tw_op_set_attr(op, "where",
                       tw_attr_map(ctx, total, a.where->u.map.exprs, a.where->u.map.n));
    tw_op_set_operands(op, operands, n);
    tw_index_compact(ctx, op);
}

typedef struct redirection {
    const match *m;
    const tw_outer_block *outer;
} redirection;

static bool redirect_op(tw_op *op, void *data)
{
    const redirection *r = data;
    const tw_region *args = &r->m->how->regions[0];
    tw_loop_access a;
    if (tw_loop_get_access(op, &a) && a.buffer->region == args)
        redirect(r->m, r->outer, op, &r->m->places[a.buffer->index]);
    return true;
}

static bool only_accessed(const match *m)
{
    for (unsigned i = 0; i < m->n_args; i++)
        for (const tw_use *use = m->how->regions[0].args[i]->uses; use; use = use->next)
            if (!tw_is_loop(use->user, TW_LOOP_LOAD) && !tw_is_loop(use->user, TW_LOOP_STORE))
                return tw_step_refuse(m->step,
                                      "@%s uses argument %u otherwise than by load and store",
                                      tw_op_string(m->how, "sym_name", ""), i);
    return true;
}

static bool is_block(const tw_op *op)
{
    return tw_is_loop(op, TW_LOOP_BLOCK);
}

static void replace_nest(match *m, const bool *used, const tw_expr *where, unsigned n_where)
{
    tw_context *ctx = m->step->ctx;
    bool reduce[TW_MAX_NEST] = {false};
    for (unsigned i = 0; i < m->nest.n; i++)
        reduce[i] = tw_loop_is_reduce(&m->block, i) && !tw_loop_is_spatial(&m->block, i);
    tw_outer_block outer =
        tw_outer_block_make(m->step, m->step->operands[0], &m->nest, used, reduce);
    tw_cloner *cloner = tw_cloner_create(ctx);
    for (const tw_op *op = m->how->regions[0].first; op; op = op->next)
        tw_op_insert(tw_op_clone(cloner, op), &outer.block->regions[1], NULL);
    tw_loop_list blocks = tw_loop_collect(ctx, outer.block, is_block);
    for (size_t i = 0; i < blocks.n; i++)
        if (blocks.ops[i] != outer.block)
            tw_block_inline(ctx, blocks.ops[i]);
    redirection r = {m, &outer};
    tw_walk(outer.block, redirect_op, &r);
    tw_expr dims[TW_MAX_NEST], conditions[TW_MAX_RANK];
    for (unsigned k = 0, next = 0; k < m->nest.n; k++)
        dims[k] = outer.vars[k] ? tw_expr_dim(ctx, next++) : tw_expr_const(ctx, 0);
    for (unsigned i = 0; i < n_where; i++)
        conditions[i] = tw_expr_substitute(ctx, where[i], dims, m->nest.n);
    if (n_where)
        tw_op_set_attr(outer.block, "where", tw_attr_map(ctx, outer.n, conditions, n_where));
    tw_op_set_attr(outer.block, "order", tw_attr_string(ctx, "sequential"));
    tw_block_inherit(outer.block, m->block.op);
    tw_op_set_attr(outer.block, "sym_name", tw_attr_string(ctx, m->block.name));
    tw_step_replaced(m->step, m->block.op, outer.block);
    tw_op_erase(m->step->operands[0]);
    m->step->results[0] = outer.block;
}

bool tw_do_tensorize(const tw_step *step)
{
    match m = {.step = step};
    bool used[TW_MAX_NEST] = {false};
    tw_expr where[TW_MAX_RANK];
    unsigned n_where;
    if (!find_intrinsic(step, &m) || !match_loops(&m) || !match_body(&m) || !check_overlap(&m) ||
        !only_accessed(&m) || !outer_masks(&m, used, where, &n_where) || !try_out(&m))
        return false;
    for (unsigned i = 0; i < m.n_args; i++)
        for (unsigned d = 0; d < m.places[i].buffer->type->rank; d++)
            for (unsigned k = 0; k < m.nest.n; k++)
                used[k] |= tw_expr_uses_dim(m.places[i].base[d], k);
    if (!tw_outer_block_fits(step, step->operands[0], &m.nest, used))
        return false;
    replace_nest(&m, used, where, n_where);
    return true;
}
