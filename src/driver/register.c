/* register.c: the list of the compiler's passes, in the order of a model's way through them. */
#include "tilewright/compiler.h"

#include "dialect/register.h"
#include "driver/fold_constants.h"
#include "interp/check_threads.h"
#include "lower/flat.h"
#include "lower/lower_passes.h"
#include "lower/to_loops.h"
#include "schedule/rules/rules.h"
#include "schedule/schedule.h"
#include "transform/transform.h"

static const tw_pass *const passes[] = {
    &tw_pass_fold_constants,   &tw_pass_lower_to_loops,   &tw_pass_place_constants,
    &tw_pass_collapse_axes,    &tw_pass_schedule_kernels, &tw_pass_lower_blocks,
    &tw_pass_specialize_loops, &tw_pass_vectorize_loops,  &tw_pass_unroll_loops,
    &tw_pass_simplify_loops,   &tw_pass_hoist_divisions,  &tw_pass_place_allocs,
    &tw_pass_hoist_workspace,  &tw_pass_order_calls,      &tw_pass_plan_memory,
    &tw_pass_map_threads,      &tw_pass_check_threads,
};

bool tw_register_all(tw_context *ctx)
{
    if (tw_pass_find(ctx, passes[0]->name))
        return true; /* registered before */
    if (!tw_register_all_dialects(ctx) || !tw_transforms_register(ctx) ||
        !tw_schedule_register(ctx))
        return false;
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
        if (!tw_pass_register(ctx, passes[i]))
            return false;
    return true;
}
