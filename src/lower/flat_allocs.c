/* flat_allocs.c: place-allocs: each parallel iteration gets buffers of its own.
 *
 * A loop.alloc outside a parallel loop all of whose uses are inside moves to the start of the
 * loop's body: iterations of a parallel loop share nothing, so each may have its own. */
#include "lower/flat.h"

#include "base/arena.h"
#include "base/vec.h"
#include "dialect/loop/loop.h"

#include <string.h>

static bool is_parallel(const tw_op *op)
{
    return tw_is_loop(op, TW_LOOP_FOR) && !strcmp(tw_op_string(op, "kind", ""), "parallel");
}

/* The outermost parallel loop of `region` that op stands in, or NULL. */
static tw_op *parallel_loop_below(const tw_region *region, tw_op *op)
{
    tw_op *found = NULL;
    for (tw_op *at = op; at->region != region; at = at->region->parent)
        if (is_parallel(at->region->parent))
            found = at->region->parent;
    return found;
}

/* Moves the alloc inwards until a use stands outside the next parallel loop. */
static bool place(tw_op *alloc)
{
    bool moved = false;
    for (;;) {
        tw_op *target = NULL;
        for (const tw_use *use = alloc->results[0].uses; use; use = use->next) {
            tw_op *loop = parallel_loop_below(alloc->region, use->user);
            if (!loop || (target && loop != target))
                return moved;
            target = loop;
        }
        if (!target)
            return moved;
        tw_op_insert(alloc, &target->regions[0], target->regions[0].first);
        moved = true;
    }
}

typedef struct alloc_list {
    tw_arena *arena;
    TW_VEC(tw_op *) ops;
} alloc_list;

static bool collect(tw_op *op, void *data)
{
    alloc_list *list = data;
    if (tw_is_loop(op, TW_LOOP_ALLOC))
        tw_vec_push(list->arena, &list->ops, op);
    return true;
}

static bool run(tw_pass_run *pass)
{
    alloc_list list = {.arena = tw_context_arena(pass->ctx)};
    tw_walk(pass->root, collect, &list);
    for (size_t i = 0; i < list.ops.len; i++)
        pass->changes += place(list.ops.data[i]);
    return true;
}

const tw_pass tw_pass_place_allocs = {
    .name = "place-allocs",
    .summary = "give each iteration of a parallel loop buffers of its own",
    .anchor = "loop.kernel",
    .run = run,
};
