/* prim_kind.c: parallel, vectorize, unroll, annotate: how a loop's iterations run.
 *
 * Iterations that run at once must not meet: of two accesses to one element, at least one a store,
 * both must be in the same iteration. Buffers allocated in the loop's body belong to the iteration.
 * A reduction may run in lanes when its update is T = T op x: lanes are then reduced. */
#include "schedule/schedule_impl.h"

#include <string.h>

enum { MAX_LANES = 256, MAX_UNROLL = 1024 };

static bool may_meet(tw_context *ctx, const tw_op *loop, unsigned level, const tw_block_info *ba,
                     const tw_block_access *a, const tw_block_info *bb, const tw_block_access *b)
{
    return a->buffer == b->buffer && !tw_is_private(a->buffer, loop) &&
           !tw_disjoint_over(ctx, ba, a, bb, b, level, level + 1, level);
}

static bool is_only_load(const tw_block_info *b, const tw_op *load)
{
    tw_value *buffer = tw_root_buffer(tw_operand(load, 0));
    for (unsigned i = 0; i < b->n_accesses; i++)
        if (!b->accesses[i].store && b->accesses[i].buffer == buffer && b->accesses[i].op != load)
            return false;
    return tw_value_has_one_use(&load->results[0]);
}

/* Whether the store's value is the old one combined with another: T = T op x. */
static bool is_accumulation(const tw_block_info *b, const tw_block_access *store)
{
    tw_op *combine = tw_operand(store->op, 0)->op;
    if (!combine)
        return false;
    switch (tw_loop_kind_of(combine)) {
    case TW_LOOP_ADD:
    case TW_LOOP_MUL:
    case TW_LOOP_MAX:
    case TW_LOOP_MIN:
        break;
    default:
        return false;
    }
    for (unsigned i = 0; i < 2; i++) {
        tw_op *load = tw_operand(combine, i)->op;
        if (load && tw_is_loop(load, TW_LOOP_LOAD) &&
            tw_root_buffer(tw_operand(load, 0)) == store->buffer && is_only_load(b, load))
            return true;
    }
    return false;
}

/* A reduction without init whose lanes all meet in one element of its result. */
static bool reduces_in_lanes(const tw_block_info *ba, const tw_block_access *a,
                             const tw_block_info *bb, unsigned level)
{
    return ba == bb && !ba->has_init && !ba->sequential && tw_loop_is_reduce(ba, level) &&
           !tw_loop_is_spatial(ba, level) && is_accumulation(ba, a);
}

/* Whether the iterations of the loop may run at once; `lanes`: in lanes of vectors. */
static bool check_at_once(const tw_step *step, tw_op *loop, bool lanes)
{
    tw_block_list list;
    if (!tw_step_serial(step, loop) || !tw_step_only_blocks(step, loop) ||
        !tw_step_blocks(step, loop, &list))
        return false;
    if (!list.n)
        return true;
    unsigned level = 0;
    while (list.blocks[0]->nest.loops[level] != loop)
        level++;
    for (unsigned p = 0; p < list.n; p++)
        for (unsigned q = 0; q < list.n; q++) {
            const tw_block_info *ba = list.blocks[p], *bb = list.blocks[q];
            for (unsigned i = 0; i < ba->n_accesses; i++)
                for (unsigned k = 0; ba->accesses[i].store && k < bb->n_accesses; k++)
                    if (may_meet(step->ctx, loop, level, ba, &ba->accesses[i], bb,
                                 &bb->accesses[k]) &&
                        !(lanes && reduces_in_lanes(ba, &ba->accesses[i], bb, level)))
                        return tw_step_refuse(
                            step,
                            "iterations of loop %%%s would meet in elements of %%%s, which block "
                            "\"%s\" writes and block \"%s\" accesses%s",
                            tw_loop_name(loop), tw_buffer_name(ba->accesses[i].buffer), ba->name,
                            bb->name,
                            tw_loop_is_reduce(ba, level) ? " (it is a loop of a reduction)" : "");
        }
    return true;
}

static void mark(const tw_step *step, const char *kind)
{
    tw_op_set_attr(step->operands[0], "kind", tw_attr_string(step->ctx, kind));
}

static bool holds_kind(tw_op *op, void *data)
{
    return !tw_is_loop(op, TW_LOOP_FOR) || strcmp(tw_loop_for_kind(op), data) != 0;
}

/* Whether a loop of that kind is around or inside of this one; then refuses. */
static bool no_nested(const tw_step *step, tw_op *loop, char *kind)
{
    bool found = !tw_walk(loop, holds_kind, kind);
    for (tw_op *up = loop->region->parent; up->region; up = up->region->parent)
        found |= !holds_kind(up, kind);
    return !found || tw_step_refuse(step, "another loop around or in %%%s is marked %s already",
                                    tw_loop_name(loop), kind);
}

bool tw_do_parallel(const tw_step *step)
{
    tw_op *loop = step->operands[0];
    for (tw_op *up = loop->region->parent; up->region; up = up->region->parent)
        if (tw_is_loop(up, TW_LOOP_FOR) && !strcmp(tw_loop_for_kind(up), "vectorize"))
            return tw_step_refuse(step, "loop %%%s is inside of %%%s, which runs in lanes",
                                  tw_loop_name(loop), tw_loop_name(up));
    if (!no_nested(step, loop, "parallel") || !check_at_once(step, loop, false))
        return false;
    mark(step, "parallel");
    tw_op_set_attr(loop, "when", tw_op_attr(step->op, "when"));
    return true;
}

static bool no_alloc(tw_op *op, void *data)
{
    (void)data;
    return !tw_is_loop(op, TW_LOOP_ALLOC) &&
           !(tw_is_loop(op, TW_LOOP_FOR) && !strcmp(tw_loop_for_kind(op), "parallel"));
}

static bool constant_extent(const tw_step *step, tw_op *loop, int64_t max)
{
    int64_t extent;
    if (!tw_expr_as_const(tw_loop_extent(step->ctx, loop), &extent) || extent > max)
        return tw_step_refuse(step, "loop %%%s has no constant extent of at most %lld (split it)",
                              tw_loop_name(loop), (long long)max);
    return true;
}

bool tw_do_vectorize(const tw_step *step)
{
    tw_op *loop = step->operands[0];
    if (!constant_extent(step, loop, MAX_LANES) || !no_nested(step, loop, "vectorize"))
        return false;
    if (!tw_walk(loop, no_alloc, NULL))
        return tw_step_refuse(step, "loop %%%s holds an allocation or a parallel loop",
                              tw_loop_name(loop));
    if (!check_at_once(step, loop, true))
        return false;
    mark(step, "vectorize");
    return true;
}

bool tw_do_unroll(const tw_step *step)
{
    if (!tw_step_serial(step, step->operands[0]) ||
        !constant_extent(step, step->operands[0], MAX_UNROLL))
        return false;
    mark(step, "unroll");
    return true;
}

bool tw_do_annotate(const tw_step *step)
{
    tw_context *ctx = step->ctx;
    tw_op *op = step->operands[0];
    const char *key = tw_op_string(step->op, "key", "");
    tw_attr old = tw_op_attr(op, "annotations");
    size_t n = 0, had = old ? old->u.dict.n : 0;
    tw_named_attr *items = TW_NEW_ARRAY(tw_context_arena(ctx), tw_named_attr, had + 1);
    for (size_t i = 0; i < had; i++)
        if (strcmp(old->u.dict.items[i].name, key) != 0)
            items[n++] = old->u.dict.items[i];
    items[n++] = (tw_named_attr){tw_intern(ctx, key, strlen(key)), tw_op_attr(step->op, "value")};
    tw_op_set_attr(op, "annotations", tw_attr_dict(ctx, items, n));
    return true;
}
