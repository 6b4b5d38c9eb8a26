/* plan_memory.c: plan-memory: intermediate buffers get places in one arena.
 *
 * A buffer lives from the first to the last call that touches it or a view of it. Buffers are
 * placed from the largest to the smallest, each at the lowest offset where it meets no placed
 * buffer that lives at the same time (greedy by size: Pisarchyk and Lee, "Efficient Memory
 * Management for Deep Neural Net Inference", 2020). The function gets `arena_size`, and
 * `arena_bound`: the largest sum of sizes that live at once, below which no plan can be. */
#include "lower/lower_passes.h"

#include "base/arena.h"
#include "base/checked.h"
#include "base/vec.h"
#include "dialect/core/core.h"
#include "dialect/loop/loop.h"

#include <stdlib.h>

enum { ALIGNMENT = 64 };

typedef struct buffer {
    tw_op *alloc;
    int64_t size, offset;
    size_t first, last; /* steps: numbers of operations in the function */
    bool placed;
} buffer;

typedef TW_VEC(buffer *) buffer_list;

typedef struct planner {
    tw_context *ctx;
    tw_arena *arena;
    TW_VEC(buffer *) buffers;
    buffer_list *live; /* per step: placed buffers that live then */
    size_t steps;
    int64_t peak;
} planner;

static bool buffer_size(tw_context *ctx, tw_op *alloc, int64_t *out)
{
    int64_t count;
    tw_type type = alloc->results[0].type;
    if (!tw_type_static_count(type, &count) ||
        !tw_mul_i64(count, tw_elem_bits(type->elem), &count) ||
        !tw_add_i64(count, 8 * ALIGNMENT - 1, &count))
        return tw_error(ctx, alloc->loc, "buffer of type %s is too large",
                        tw_print_type(ctx, type));
    *out = count / (8 * ALIGNMENT) * ALIGNMENT;
    return true;
}

/* Widens the life of b by the uses of value, which is b's or a view of it. */
static void follow(buffer *b, const tw_value *value, const tw_region *body)
{
    for (const tw_use *use = value->uses; use; use = use->next) {
        tw_op *user = use->user;
        if (tw_is_loop(user, TW_LOOP_VIEW)) {
            follow(b, tw_result(user, 0), body);
            continue;
        }
        while (user->region != body)
            user = user->region->parent;
        size_t step = user->order;
        b->first = step < b->first ? step : b->first;
        b->last = step > b->last ? step : b->last;
    }
}

/* Numbers the operations 0, 1, … (their order values serve as steps) and lists the buffers. */
static bool collect(planner *p, tw_op *func)
{
    tw_region *body = &func->regions[0];
    for (tw_op *op = body->first; op; op = op->next)
        op->order = ++p->steps;
    for (tw_op *op = body->first; op; op = op->next) {
        if (!tw_is_loop(op, TW_LOOP_ALLOC))
            continue;
        buffer *b = TW_NEW(p->arena, buffer);
        *b = (buffer){.alloc = op, .first = SIZE_MAX};
        if (!buffer_size(p->ctx, op, &b->size))
            return false;
        follow(b, tw_result(op, 0), body);
        if (b->first == SIZE_MAX)
            b->first = b->last = op->order;
        tw_vec_push(p->arena, &p->buffers, b);
    }
    return true;
}

static int larger_first(const void *x, const void *y)
{
    const buffer *a = *(buffer *const *)x, *b = *(buffer *const *)y;
    if (a->size != b->size)
        return a->size < b->size ? 1 : -1;
    return a->first < b->first ? -1 : a->first > b->first; /* for the same plan each time */
}

static int lower_first(const void *x, const void *y)
{
    const buffer *a = *(buffer *const *)x, *b = *(buffer *const *)y;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* The placed buffers that live at the same time as b, by offset. */
static buffer_list neighbours(planner *p, const buffer *b)
{
    buffer_list found = {0};
    for (size_t step = b->first; step <= b->last; step++)
        for (size_t i = 0; i < p->live[step].len; i++) {
            buffer *other = p->live[step].data[i];
            /* Each is met first where both begin to live. */
            if (step == (other->first > b->first ? other->first : b->first))
                tw_vec_push(p->arena, &found, other);
        }
    if (found.len)
        qsort(found.data, found.len, sizeof *found.data, lower_first);
    return found;
}

static void place(planner *p, buffer *b)
{
    buffer_list around = neighbours(p, b);
    int64_t offset = 0, best = -1, best_gap = INT64_MAX;
    for (size_t i = 0; i < around.len; i++) {
        int64_t gap = around.data[i]->offset - offset;
        if (gap >= b->size && gap < best_gap) {
            best = offset;
            best_gap = gap;
        }
        int64_t end = around.data[i]->offset + around.data[i]->size;
        offset = end > offset ? end : offset;
    }
    b->offset = best >= 0 ? best : offset;
    for (size_t step = b->first; step <= b->last; step++)
        tw_vec_push(p->arena, &p->live[step], b);
    if (b->offset + b->size > p->peak)
        p->peak = b->offset + b->size;
}

/* The largest sum of sizes that live at one step. */
static int64_t lower_bound(const planner *p)
{
    int64_t bound = 0;
    for (size_t step = 0; step <= p->steps; step++) {
        int64_t sum = 0;
        for (size_t i = 0; i < p->live[step].len; i++)
            sum += p->live[step].data[i]->size;
        bound = sum > bound ? sum : bound;
    }
    return bound;
}

static bool total_fits(planner *p)
{
    int64_t total = 0;
    for (size_t i = 0; i < p->buffers.len; i++)
        if (!tw_add_i64(total, p->buffers.data[i]->size, &total) || total > INT64_MAX / 4)
            return tw_error(p->ctx, p->buffers.data[i]->alloc->loc,
                            "the intermediate values need more memory than can be addressed");
    return true;
}

static bool run(tw_pass_run *pass)
{
    planner p = {.ctx = pass->ctx, .arena = tw_context_arena(pass->ctx)};
    if (!collect(&p, pass->root) || !total_fits(&p))
        return false;
    p.live = TW_NEW_ARRAY(p.arena, buffer_list, p.steps + 1);
    if (p.buffers.len)
        qsort(p.buffers.data, p.buffers.len, sizeof *p.buffers.data, larger_first);
    for (size_t i = 0; i < p.buffers.len; i++) {
        buffer *b = p.buffers.data[i];
        place(&p, b);
        tw_op_set_attr(b->alloc, "offset", tw_attr_int(p.ctx, b->offset));
    }
    tw_op_set_attr(pass->root, "arena_size", tw_attr_int(p.ctx, p.peak));
    tw_op_set_attr(pass->root, "arena_bound", tw_attr_int(p.ctx, lower_bound(&p)));
    pass->changes += p.buffers.len;
    return true;
}

const tw_pass tw_pass_plan_memory = {
    .name = "plan-memory",
    .summary = "give intermediate buffers places in one arena",
    .anchor = "core.func",
    .run = run,
};
