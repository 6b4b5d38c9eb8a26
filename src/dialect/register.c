/* register.c: the list of the compiler's dialects. */
#include "dialect/register.h"

#include "dialect/core/core.h"
#include "dialect/graph/graph.h"
#include "dialect/loop/loop.h"

bool tw_register_all_dialects(tw_context *ctx)
{
    static const tw_dialect *const dialects[] = {&tw_core_dialect, &tw_graph_dialect,
                                                 &tw_loop_dialect};
    for (size_t i = 0; i < sizeof dialects / sizeof *dialects; i++)
        if (!tw_dialect_register(ctx, dialects[i]))
            return false;
    return true;
}
