/* place_constants.c: place-constants: offsets of constants in the constants section.
 *
 * Constants of the same bytes (by their dense attribute) share a place; the section's order is that
 * of first use, so equal models give equal files. */
#include "lower/lower_passes.h"

#include "base/arena.h"
#include "base/checked.h"
#include "base/map.h"
#include "dialect/core/core.h"
#include "dialect/loop/loop.h"

enum { ALIGNMENT = 64 };

static bool run(tw_pass_run *pass)
{
    tw_context *ctx = pass->ctx;
    tw_map places = tw_map_make(tw_context_arena(ctx)); /* dense attribute -> offset attribute */
    int64_t end = 0;
    for (tw_op *op = pass->root->regions[0].first; op; op = op->next) {
        if (!tw_is_loop(op, TW_LOOP_CONSTANT_BUFFER))
            continue;
        tw_attr value = tw_op_attr(op, "value");
        void *place = tw_map_get_ptr(&places, value);
        if (!place) {
            place = (void *)tw_attr_int(ctx, end);
            tw_map_put_ptr(&places, value, place);
            if (value->u.dense.size > INT64_MAX / 2 ||
                !tw_add_i64(end, (int64_t)value->u.dense.size + ALIGNMENT - 1, &end))
                return tw_error(ctx, op->loc,
                                "the constants need more memory than can be addressed");
            end = end / ALIGNMENT * ALIGNMENT;
        }
        tw_op_set_attr(op, "const_offset", place);
        pass->changes++;
    }
    tw_op_set_attr(pass->root, "constants_size", tw_attr_int(ctx, end));
    return true;
}

const tw_pass tw_pass_place_constants = {
    .name = "place-constants",
    .summary = "give constants offsets in the constants section",
    .anchor = "core.func",
    .run = run,
};
