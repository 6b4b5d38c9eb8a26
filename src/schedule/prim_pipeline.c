/* prim_pipeline.c: software_pipeline, double_buffer: parts of an iteration run in other ones' time.
 *
 *     for %i = 0 to 8 {
 *       %S = loop.alloc : buffer<32xf32, "shared">
 *       for %a { block "load" (%va = %a, %vi = %i) { %S[%va] = %X[%vi, %va] } }
 *       for %a { block "sum" … { … %S[%va] … } } }
 * with stages [0, 1]:
 *     %S = loop.alloc : buffer<2x32xf32, "shared">
 *     for %i = 0 to 9 {
 *       for %a { block "load" (…, %vs = %i) where (7 - %i) { %S[%vs mod 2, %va] = … } }
 *       for %a { block "sum" (…, %vs = %i - 1) where (%i - 1) { … %S[%vs mod 2, %va] … } } }
 *
 * A part of stage s does in iteration i what belonged to iteration i - s; masks leave out what
 * there is not. A buffer of the iteration that passes between stages gets as many copies as
 * iterations are under way. */
#include "base/vec.h"
#include "schedule/schedule_impl.h"

enum { MAX_PARTS = 32, MAX_STAGES = 16 };

typedef struct pipeline {
    tw_op *loop;
    unsigned level; /* of the loop in the nests of its blocks */
    tw_op *parts[MAX_PARTS];
    int64_t stages[MAX_PARTS], order[MAX_PARTS];
    unsigned n;
    int64_t last; /* stage */
    TW_VEC(tw_op *) allocs;
    tw_block_list blocks;
} pipeline;

/* ---- What is there ------------------------------------------------------------------- */

static unsigned part_of(const pipeline *p, const tw_op *op)
{
    unsigned i = 0;
    while (i < p->n && !tw_op_is_ancestor(p->parts[i], op))
        i++;
    return i;
}

static bool find_parts(const tw_step *step, pipeline *p)
{
    for (tw_op *op = p->loop->regions[0].first; op; op = op->next) {
        if (tw_is_loop(op, TW_LOOP_ALLOC)) {
            tw_vec_push(tw_context_arena(step->ctx), &p->allocs, op);
            continue;
        }
        if (!tw_is_loop(op, TW_LOOP_FOR) && !tw_is_loop(op, TW_LOOP_BLOCK))
            return tw_step_refuse(step, "loop %%%s holds %s beside loops and blocks",
                                  tw_loop_name(p->loop), op->def->name);
        if (p->n == MAX_PARTS)
            return tw_step_refuse(step, "loop %%%s holds more than %d parts", tw_loop_name(p->loop),
                                  MAX_PARTS);
        p->parts[p->n++] = op;
    }
    if (!p->n)
        return tw_step_refuse(step, "loop %%%s is empty", tw_loop_name(p->loop));
    tw_nest nest;
    if (!tw_step_blocks(step, p->loop, &p->blocks) || !tw_nest_of(step->ctx, p->parts[0], &nest))
        return false;
    p->level = nest.n - 1;
    return true;
}

static bool check_loop(const tw_step *step, const pipeline *p)
{
    if (!tw_step_serial(step, p->loop) || !tw_step_only_blocks(step, p->loop))
        return false;
    return p->loop->n_operands == 0 ||
           tw_step_refuse(step, "the bounds of loop %%%s depend on other loops",
                          tw_loop_name(p->loop));
}

static bool check_stages(const tw_step *step, pipeline *p)
{
    int64_t first = MAX_STAGES;
    bool taken[MAX_PARTS] = {false};
    for (unsigned i = 0; i < p->n; i++) {
        if (p->stages[i] < 0 || p->stages[i] >= MAX_STAGES)
            return tw_step_refuse(step, "stages are from 0 to %d", MAX_STAGES - 1);
        if (p->order[i] < 0 || p->order[i] >= p->n || taken[p->order[i]])
            return tw_step_refuse(step, "the order must hold each number from 0 to %u once",
                                  p->n - 1);
        taken[p->order[i]] = true;
        first = p->stages[i] < first ? p->stages[i] : first;
        p->last = p->stages[i] > p->last ? p->stages[i] : p->last;
    }
    return first == 0 || tw_step_refuse(step, "the first stage must be 0");
}

/* ---- What may be --------------------------------------------------------------------- */

/* Two accesses to one buffer, one of them a store, by parts a before b of an iteration. */
static bool check_pair(const tw_step *step, const pipeline *p, unsigned a, unsigned b,
                       const tw_block_info *ba, const tw_block_access *x, const tw_block_info *bb,
                       const tw_block_access *y)
{
    bool kept =
        p->stages[a] < p->stages[b] || (p->stages[a] == p->stages[b] && p->order[a] < p->order[b]);
    if (!kept)
        return tw_step_refuse(step,
                              "block \"%s\" must stay behind block \"%s\": both access %%%s in an "
                              "iteration of loop %%%s",
                              bb->name, ba->name, tw_buffer_name(x->buffer), tw_loop_name(p->loop));
    if (p->stages[a] == p->stages[b] || tw_is_private(x->buffer, p->loop) ||
        tw_disjoint_over(step->ctx, ba, x, bb, y, p->level, p->level + 1, p->level))
        return true;
    return tw_step_refuse(step,
                          "blocks \"%s\" and \"%s\", of different stages, access elements of %%%s "
                          "in different iterations of loop %%%s (move what makes the buffer into "
                          "the loop by compute_at)",
                          ba->name, bb->name, tw_buffer_name(x->buffer), tw_loop_name(p->loop));
}

static bool check_dependences(const tw_step *step, const pipeline *p)
{
    for (unsigned i = 0; i < p->blocks.n; i++)
        for (unsigned k = 0; k < p->blocks.n; k++) {
            const tw_block_info *ba = p->blocks.blocks[i], *bb = p->blocks.blocks[k];
            unsigned a = part_of(p, ba->op), b = part_of(p, bb->op);
            for (unsigned x = 0; a < b && x < ba->n_accesses; x++)
                for (unsigned y = 0; y < bb->n_accesses; y++) {
                    const tw_block_access *m = &ba->accesses[x], *n = &bb->accesses[y];
                    if (m->buffer == n->buffer && (m->store || n->store) &&
                        !check_pair(step, p, a, b, ba, m, bb, n))
                        return false;
                }
        }
    return true;
}

/* Copies that the buffer of an allocation needs; 0 when it is used in a way that is not known. */
static int64_t copies_of(const tw_step *step, const pipeline *p, const tw_op *alloc)
{
    tw_buffer_uses uses;
    int64_t first = MAX_STAGES, last = 0;
    for (const tw_use *use = alloc->results[0].uses; use; use = use->next)
        if (tw_is_loop(use->user, TW_LOOP_VIEW))
            return 0;
    if (!tw_buffer_uses_of(step->ctx, tw_result((tw_op *)alloc, 0), &uses))
        return 0;
    for (unsigned i = 0; i < uses.n_loads + uses.n_stores; i++) {
        tw_op *use = i < uses.n_loads ? uses.loads[i] : uses.stores[i - uses.n_loads];
        unsigned part = part_of(p, use);
        if (part == p->n || !tw_block_around(use))
            return 0;
        first = p->stages[part] < first ? p->stages[part] : first;
        last = p->stages[part] > last ? p->stages[part] : last;
    }
    return last >= first ? last - first + 1 : 1;
}

static bool check_allocs(const tw_step *step, const pipeline *p)
{
    for (size_t i = 0; i < p->allocs.len; i++) {
        const tw_value *buffer = tw_result(p->allocs.data[i], 0);
        int64_t copies = copies_of(step, p, p->allocs.data[i]);
        if (copies == 0 || (copies > 1 && tw_op_attr(buffer->op, "storage_align")) ||
            (copies > 1 && buffer->type->rank == TW_MAX_RANK))
            return tw_step_refuse(step,
                                  "%%%s cannot have several copies: it has views, its storage "
                                  "aligned, or %d axes",
                                  tw_buffer_name(buffer), TW_MAX_RANK);
    }
    for (unsigned i = 0; i < p->blocks.n; i++)
        if (p->blocks.blocks[i]->n_iters == TW_MAX_ITERS)
            return tw_step_refuse(step, "block \"%s\" has too many variables",
                                  p->blocks.blocks[i]->name);
    return true;
}

/* ---- Carrying out -------------------------------------------------------------------- */

/* The number of the iteration (from 0 on) as a further variable of the block. Instances that share
 * a copy must then keep their order. */
static tw_value *add_variable(const tw_step *step, const pipeline *p, const tw_block_info *b)
{
    tw_context *ctx = step->ctx;
    tw_op *block = b->op;
    tw_attr iters = tw_op_attr(block, "iters"), extents = tw_op_attr(block, "extents"),
            bindings = tw_op_attr(block, "bindings"), where = tw_op_attr(block, "where");
    unsigned n = b->n_iters, n_operands = block->n_operands;
    tw_attr kinds[TW_MAX_ITERS];
    tw_expr sizes[TW_MAX_ITERS], values[TW_MAX_ITERS];
    for (unsigned i = 0; i < n; i++) {
        kinds[i] = iters->u.array.items[i];
        sizes[i] = extents->u.map.exprs[i];
        values[i] = bindings->u.map.exprs[i];
    }
    tw_value **operands = TW_NEW_ARRAY(tw_context_arena(ctx), tw_value *, n_operands + 1);
    for (unsigned i = 0; i < n_operands; i++)
        operands[i] = tw_operand(block, i);
    operands[n_operands] = tw_loop_var(p->loop);
    /* The init runs when all variables of the reduction are 0: with a loop that goes through
     * results as well this one may not be among them. */
    bool reduce = tw_loop_is_reduce(b, p->level) && !tw_loop_is_spatial(b, p->level);
    kinds[n] = tw_attr_string(ctx, reduce ? "reduce" : "spatial");
    sizes[n] = tw_loop_extent(ctx, p->loop);
    values[n] = tw_expr_sub(ctx, tw_expr_dim(ctx, n_operands), tw_loop_lo(p->loop));
    tw_op_set_operands(block, operands, n_operands + 1);
    tw_op_set_attr(block, "iters", tw_attr_array(ctx, kinds, n + 1));
    tw_op_set_attr(block, "extents", tw_attr_map(ctx, 0, sizes, n + 1));
    tw_op_set_attr(block, "bindings", tw_attr_map(ctx, n_operands + 1, values, n + 1));
    if (where)
        tw_op_set_attr(block, "where",
                       tw_attr_map(ctx, n_operands + 1, where->u.map.exprs, where->u.map.n));
    tw_op_set_attr(block, "order", tw_attr_string(ctx, "sequential"));
    tw_region_add_arg(&block->regions[0], tw_type_scalar(ctx, TW_INDEX), "vs");
    tw_region_add_arg(&block->regions[1], tw_type_scalar(ctx, TW_INDEX), "vs");
    return block->regions[1].args[n];
}

/* The access goes to the copy of its iteration: a first index, variable mod copies. */
static void choose_copy(tw_context *ctx, tw_op *access, tw_value *variable, int64_t copies)
{
    tw_loop_access a;
    tw_loop_get_access(access, &a);
    unsigned n = 0, at = a.first_index + a.n_index;
    tw_value **operands = TW_NEW_ARRAY(tw_context_arena(ctx), tw_value *, access->n_operands + 1);
    for (unsigned i = 0; i < access->n_operands + 1; i++)
        operands[n++] = i < at    ? tw_operand(access, i)
                        : i == at ? variable
                                  : tw_operand(access, i - 1);
    tw_expr exprs[TW_MAX_RANK];
    exprs[0] =
        tw_expr_binary(ctx, TW_EXPR_MOD, tw_expr_dim(ctx, a.n_index), tw_expr_const(ctx, copies));
    for (size_t i = 0; i < a.index->u.map.n; i++)
        exprs[i + 1] = a.index->u.map.exprs[i];
    tw_op_set_attr(access, "index", tw_attr_map(ctx, a.n_index + 1, exprs, a.index->u.map.n + 1));
    if (a.where)
        tw_op_set_attr(access, "where",
                       tw_attr_map(ctx, a.n_index + 1, a.where->u.map.exprs, a.where->u.map.n));
    tw_op_set_operands(access, operands, n);
    tw_index_compact(ctx, access);
}

/* Gives the buffer its copies, in front of the loop. */
static void copy_buffer(const tw_step *step, const pipeline *p, tw_op *alloc, int64_t copies)
{
    tw_context *ctx = step->ctx;
    tw_value *buffer = tw_result(alloc, 0);
    tw_expr dims[TW_MAX_RANK];
    dims[0] = tw_expr_const(ctx, copies);
    for (unsigned i = 0; i < buffer->type->rank; i++)
        dims[i + 1] = buffer->type->dims[i];
    for (unsigned i = 0; i < p->blocks.n; i++) {
        tw_block_info *b = p->blocks.blocks[i];
        tw_value *variable = NULL;
        for (unsigned k = 0; k < b->n_accesses; k++) {
            tw_op *access = b->accesses[k].op;
            if (b->accesses[k].buffer != buffer)
                continue;
            if (!variable)
                variable = b->op->regions[1].n_args > b->n_iters
                               ? b->op->regions[1].args[b->n_iters]
                               : add_variable(step, p, b);
            tw_region *region = b->accesses[k].init ? &b->op->regions[0] : &b->op->regions[1];
            choose_copy(ctx, access, region->args[b->n_iters], copies);
        }
    }
    buffer->type =
        tw_type_buffer(ctx, buffer->type->elem, buffer->type->rank + 1, dims, buffer->type->scope);
    tw_op_insert(alloc, p->loop->region, p->loop);
}

typedef struct mask {
    tw_context *ctx;
    tw_value *var;
    tw_expr conditions[2];
    unsigned n;
} mask;

static void mask_block(tw_op *block, void *data)
{
    mask *m = data;
    for (unsigned i = 0; i < m->n; i++)
        tw_block_add_where(m->ctx, block, m->conditions[i], &m->var, 1);
}

/* Uses of the loop's variable in the part become those of `stage` iterations before. */
static void shift_part(const tw_step *step, const pipeline *p, unsigned part, tw_expr lo,
                       tw_expr hi)
{
    tw_context *ctx = step->ctx;
    int64_t stage = p->stages[part];
    tw_value *var = tw_loop_var(p->loop);
    tw_expr now = tw_expr_dim(ctx, 0), then = tw_expr_addc(ctx, now, -stage);
    /* Another value stands for the variable while it is replaced. */
    tw_builder b = tw_builder_before(ctx, p->loop);
    tw_type type = tw_type_scalar(ctx, TW_INDEX);
    tw_expr zero = tw_expr_const(ctx, 0);
    tw_op *other = tw_build(&b, &tw_loop_ops[TW_LOOP_INDEX], NULL, 0, &type, 1, "expr",
                            tw_attr_map(ctx, 0, &zero, 1), NULL);
    for (tw_use *use = var->uses, *next; use; use = next) {
        next = use->next;
        if (tw_op_is_ancestor(p->parts[part], use->user))
            tw_op_set_operand(use->user, use->index, tw_result(other, 0));
    }
    tw_index_subst subst = {tw_result(other, 0), then, &var, 1};
    tw_replace_vars(ctx, &subst, 1);
    tw_op_erase(other);
    mask m = {.ctx = ctx, .var = var};
    if (stage > 0)
        m.conditions[m.n++] = tw_expr_sub(ctx, then, lo);
    if (stage < p->last)
        m.conditions[m.n++] = tw_expr_addc(ctx, tw_expr_sub(ctx, hi, then), -1);
    tw_each_block(p->parts[part], mask_block, &m);
}

static bool run_pipeline(const tw_step *step, pipeline *p)
{
    tw_context *ctx = step->ctx;
    if (!check_stages(step, p) || !check_dependences(step, p) || !check_allocs(step, p))
        return false;
    for (size_t i = 0; i < p->allocs.len; i++) {
        int64_t copies = copies_of(step, p, p->allocs.data[i]);
        if (copies > 1)
            copy_buffer(step, p, p->allocs.data[i], copies);
    }
    /* The ranges of variables follow the loop's bounds: the new ones come first. */
    tw_expr lo = tw_loop_lo(p->loop), hi = tw_loop_hi(p->loop);
    tw_expr bounds[2] = {lo, tw_expr_addc(ctx, hi, p->last)};
    tw_op_set_attr(p->loop, "bounds", tw_attr_map(ctx, 0, bounds, 2));
    for (unsigned i = 0; i < p->n; i++)
        shift_part(step, p, i, lo, hi);
    for (int64_t at = 0; at < p->n; at++)
        for (unsigned i = 0; i < p->n; i++)
            if (p->order[i] == at)
                tw_op_insert(p->parts[i], &p->loop->regions[0], NULL);
    return true;
}

bool tw_do_software_pipeline(const tw_step *step)
{
    pipeline p = {.loop = step->operands[0]};
    if (!check_loop(step, &p) || !find_parts(step, &p))
        return false;
    bool ordered = tw_op_attr(step->op, "order") != NULL;
    if (tw_op_attr(step->op, "stages")->u.array.n != p.n ||
        tw_op_ints(step->op, "stages", p.stages, MAX_PARTS) != (int)p.n ||
        (ordered && (tw_op_attr(step->op, "order")->u.array.n != p.n ||
                     tw_op_ints(step->op, "order", p.order, MAX_PARTS) != (int)p.n)))
        return tw_step_refuse(step,
                              "loop %%%s has %u parts, each with a stage and, if there is an "
                              "order, a place in it",
                              tw_loop_name(p.loop), p.n);
    for (unsigned i = 0; !ordered && i < p.n; i++)
        p.order[i] = i;
    return run_pipeline(step, &p);
}

bool tw_do_double_buffer(const tw_step *step)
{
    pipeline p = {.loop = step->operands[1]};
    if (!check_loop(step, &p) || !find_parts(step, &p))
        return false;
    unsigned filler = part_of(&p, step->operands[0]);
    if (filler == p.n)
        return tw_step_refuse(step, "block \"%s\" is not in loop %%%s",
                              tw_block_name(step->operands[0]), tw_loop_name(p.loop));
    for (unsigned i = 0; i < p.n; i++) {
        p.stages[i] = i != filler;
        p.order[i] = i;
    }
    if (p.n == 1)
        return tw_step_refuse(step, "loop %%%s has no part beside block \"%s\"",
                              tw_loop_name(p.loop), tw_block_name(step->operands[0]));
    return run_pipeline(step, &p);
}
