/* prim_kind.c: parallel, vectorize, unroll, bind, pragma, annotate: how a loop's iterations run.
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

static bool is_unbound(tw_op *op, void *data)
{
    (void)data;
    return !tw_is_loop(op, TW_LOOP_FOR) || !tw_loop_is_bound(op);
}

/* Whether no loop around or inside runs on a GPU's threads; else refuses. */
static bool no_bound(const tw_step *step, tw_op *loop)
{
    bool found = !tw_walk(loop, is_unbound, NULL);
    for (tw_op *up = loop->region->parent; up->region; up = up->region->parent)
        found |= !is_unbound(up, NULL);
    return !found || tw_step_refuse(step, "a loop around or in %%%s is bound to threads of a GPU",
                                    tw_loop_name(loop));
}

bool tw_do_parallel(const tw_step *step)
{
    tw_op *loop = step->operands[0];
    for (tw_op *up = loop->region->parent; up->region; up = up->region->parent)
        if (tw_is_loop(up, TW_LOOP_FOR) && !strcmp(tw_loop_for_kind(up), "vectorize"))
            return tw_step_refuse(step, "loop %%%s is inside of %%%s, which runs in lanes",
                                  tw_loop_name(loop), tw_loop_name(up));
    if (!no_nested(step, loop, "parallel") || !no_bound(step, loop) ||
        !check_at_once(step, loop, false))
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

/* ---- Threads of a GPU ---------------------------------------------------------------- */

enum { MAX_THREADS = 1024 };

/* What may stand around what: blocks around threads. */
static int bound_depth(const char *kind)
{
    return kind[0] == 'b' ? 1 : kind[0] == 't' ? 2 : 3;
}

typedef struct bind_check {
    const tw_step *step;
    const char *kind;
    bool good;
} bind_check;

/* Whether a loop around or inside (itself not included) goes together with the binding. */
static bool fits(const bind_check *c, tw_op *other, bool inside)
{
    const char *kind = tw_loop_for_kind(other), *name = tw_loop_name(other);
    const tw_op *loop = c->step->operands[0];
    if (other == loop || !strcmp(kind, "serial") || !strcmp(kind, "unroll"))
        return true;
    if (!tw_loop_is_bound(other))
        return (inside && !strcmp(kind, "vectorize")) ||
               tw_step_refuse(c->step, "loop %%%s %s %%%s is marked %s", name,
                              inside ? "in" : "around", tw_loop_name(loop), kind);
    if (!strcmp(kind, c->kind) && strcmp(kind, "vthread") != 0)
        return tw_step_refuse(c->step, "loop %%%s %s %%%s is bound to %s already", name,
                              inside ? "in" : "around", tw_loop_name(loop), kind);
    int mine = bound_depth(c->kind), its = bound_depth(kind);
    /* Virtual threads may stand anywhere inside of the blocks. */
    bool order = mine == 3 || its == 3 ? (mine != 1 && its != 1) || (mine == 1) == inside
                                       : (inside ? mine <= its : its <= mine);
    return order || tw_step_refuse(c->step, "loop %%%s %s %%%s is bound to %s, which is %s of %s",
                                   name, inside ? "in" : "around", tw_loop_name(loop), kind,
                                   inside ? "outside" : "inside", c->kind);
}

static bool fits_inside(tw_op *op, void *data)
{
    const bind_check *c = data;
    return !tw_is_loop(op, TW_LOOP_FOR) || fits(c, op, true);
}

bool tw_do_bind(const tw_step *step)
{
    tw_op *loop = step->operands[0];
    bind_check c = {.step = step, .kind = tw_op_string(step->op, "thread", "")};
    bool thread = c.kind[0] == 't';
    if (!tw_loop_kind_is_bound(c.kind))
        return tw_step_refuse(
            step, "\"%s\" is none of blockIdx.x, .y, .z, threadIdx.x, .y, .z, vthread", c.kind);
    if (c.kind[0] != 'b' && !constant_extent(step, loop, thread ? MAX_THREADS : MAX_UNROLL))
        return false;
    int64_t lo;
    if (!tw_expr_as_const(tw_loop_lo(loop), &lo) || lo != 0)
        return tw_step_refuse(step, "loop %%%s does not start at 0", tw_loop_name(loop));
    for (tw_op *up = loop->region->parent; up->region; up = up->region->parent)
        if (tw_is_loop(up, TW_LOOP_FOR) && !fits(&c, up, false))
            return false;
    if (!tw_walk(loop, fits_inside, &c) || !check_at_once(step, loop, false))
        return false;
    mark(step, c.kind);
    return true;
}

/* ---- Hints --------------------------------------------------------------------------- */

/* The value of the step: its attribute, or a size that was sampled. */
static tw_attr value_of(const tw_step *step)
{
    tw_attr value = tw_op_attr(step->op, "value");
    if (step->op->n_operands == 2 && !value)
        return tw_attr_int(step->ctx, step->sizes[1]);
    return step->op->n_operands == 1 ? value : NULL;
}

bool tw_do_annotate(const tw_step *step)
{
    tw_context *ctx = step->ctx;
    tw_op *op = step->operands[0];
    const char *key = tw_op_string(step->op, "key", "");
    tw_attr value = value_of(step);
    if (!value)
        return tw_step_refuse(step, "there must be one value");
    tw_attr old = tw_op_attr(op, "annotations");
    size_t n = 0, had = old ? old->u.dict.n : 0;
    tw_named_attr *items = TW_NEW_ARRAY(tw_context_arena(ctx), tw_named_attr, had + 1);
    for (size_t i = 0; i < had; i++)
        if (strcmp(old->u.dict.items[i].name, key) != 0)
            items[n++] = old->u.dict.items[i];
    items[n++] = (tw_named_attr){tw_intern(ctx, key, strlen(key)), value};
    tw_op_set_attr(op, "annotations", tw_attr_dict(ctx, items, n));
    return true;
}

bool tw_do_pragma(const tw_step *step)
{
    static const struct {
        const char *key;
        tw_attr_kind kind;
        int64_t most;
    } pragmas[] = {
        {"unroll_explicit", TW_ATTR_BOOL, 1},
        {"auto_unroll_max_step", TW_ATTR_INT, 1 << 14},
        {"prefetch", TW_ATTR_INT, 1 << 10},
        {"non_temporal", TW_ATTR_BOOL, 1},
    };
    const char *key = tw_op_string(step->op, "key", "");
    tw_attr value = value_of(step);
    for (size_t i = 0; i < sizeof pragmas / sizeof *pragmas; i++) {
        if (strcmp(key, pragmas[i].key) != 0)
            continue;
        if (!value || value->kind != pragmas[i].kind ||
            (value->kind == TW_ATTR_INT &&
             (value->u.integer < 0 || value->u.integer > pragmas[i].most)))
            return tw_step_refuse(step, "the value of \"%s\" is %s from 0 to %lld", key,
                                  pragmas[i].kind == TW_ATTR_BOOL ? "a bool, that is"
                                                                  : "an integer",
                                  (long long)pragmas[i].most);
        return tw_do_annotate(step);
    }
    return tw_step_refuse(
        step, "\"%s\" is none of unroll_explicit, auto_unroll_max_step, prefetch, non_temporal",
        key);
}
