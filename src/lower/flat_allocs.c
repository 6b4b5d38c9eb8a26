/* flat_allocs.c: place-allocs: each parallel iteration gets buffers of its own.
 *
 *     %t = loop.alloc : buffer<64xf32>
 *     loop.for %i = 0 to 8 parallel { … %t[%k] … }
 * becomes
 *     loop.for %i = 0 to 8 parallel { %t = loop.alloc : buffer<64xf32> … %t[%k] … }
 *
 * when all uses are in the loop: iterations of a parallel loop share nothing, so each may have its
 * own. A serial loop around the parallel one keeps the alloc outside: what one of its iterations
 * leaves in the buffer, the next may read. */
#include "lower/flat.h"

#include "dialect/loop/loop.h"

/* The outermost loop of `region` that op stands in if it is parallel, else NULL. */
static tw_op *parallel_loop_below(const tw_region *region, tw_op *op)
{
    tw_op *loop = NULL;
    for (tw_op *at = op; at->region != region; at = at->region->parent) {
        tw_op *parent = at->region->parent;
        if (tw_is_loop(parent, TW_LOOP_FOR) || tw_is_loop(parent, TW_LOOP_FOR_DYNAMIC))
            loop = parent;
    }
    return loop && tw_is_for_kind(loop, "parallel") ? loop : NULL;
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

static bool is_alloc(const tw_op *op)
{
    return tw_is_loop(op, TW_LOOP_ALLOC);
}

static bool run(tw_pass_run *pass)
{
    tw_loop_list allocs = tw_loop_collect(pass->ctx, pass->root, is_alloc);
    for (size_t i = 0; i < allocs.n; i++)
        pass->changes += place(allocs.ops[i]);
    return true;
}

const tw_pass tw_pass_place_allocs = {
    .name = "place-allocs",
    .summary = "give each iteration of a parallel loop buffers of its own",
    .anchor = "loop.kernel",
    .run = run,
};
