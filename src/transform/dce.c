/* dce.c: removes pure operations whose results nobody uses.
 *
 *   %0 = graph.exp %x          // only %1 used it
 *   %1 = graph.neg %0          // unused
 *   return %x                  =>  return %x
 *
 * One sweep, last operation first: users go before what they use, so chains vanish at once. */
#include "transform/transform.h"

#include "base/vec.h"

typedef struct op_list {
    tw_arena *arena;
    TW_VEC(tw_op *) ops;
} op_list;

static bool collect(tw_op *op, void *data)
{
    op_list *list = data;
    tw_vec_push(list->arena, &list->ops, op);
    return true;
}

static bool is_dead(const tw_op *op)
{
    if (!(op->def->traits & TW_TRAIT_PURE) || op->def->traits & TW_TRAIT_TERMINATOR)
        return false;
    for (unsigned i = 0; i < op->n_results; i++)
        if (op->results[i].uses)
            return false;
    return true;
}

static bool run(tw_pass_run *pass)
{
    op_list all = {.arena = tw_context_arena(pass->ctx)};
    tw_walk(pass->root, collect, &all);
    for (size_t i = all.ops.len; i-- > 1 && pass->changes < pass->max_changes;) {
        if (is_dead(all.ops.data[i])) {
            tw_op_erase(all.ops.data[i]);
            pass->changes++;
        }
    }
    return true;
}

const tw_pass tw_pass_dce = {
    .name = "dce",
    .summary = "remove pure operations whose results are unused",
    .anchor = "core.func",
    .optional = true,
    .run = run,
};
