/* pipeline.c: the whole journey of a model, from top to bottom.
 *
 *     model file ──import──▶ graph ──GRAPH passes──▶ groups ──LOWERING──▶ kernels
 *         ──LOOP passes──▶ flat kernels, planned memory ──codegen, link──▶ one file
 *
 * compile.c walks it. The lists below are the passes of each part; any optional one can be switched
 * off by name (--disable-pass), printed after (--dump-after) and timed (--timing). */
#include "driver/pipeline.h"

#include "tilewright/compiler.h"

/* Level 0 keeps every operation as it was imported, each a kernel of its own. */
static const char *const graph_passes[] = {
    /* 0 */
    "dce",
    /* 1: what is known is computed, what is near is fused */
    "canonicalize,"
    "eliminate-common-subexpr,"
    "fold-constants,"
    "dce,"
    "fuse-ops",
    /* 2 and 3: quantised products in integers, the network in the layout that the kernels want,
     * weights packed */
    "canonicalize,"
    "eliminate-common-subexpr,"
    "integer-products,"
    "block-products,"
    "fold-constants,"
    "sink-reshapes,"
    "simplify-inference,"
    "canonicalize,"
    "convert-layout,"
    "canonicalize,"
    "settle-layouts,"
    "sink-reshapes,"
    "find-rolls,"
    "sink-norms,"
    "fuse-attention,"
    "join-products,"
    "join-convolutions,"
    "pack-weights,"
    "eliminate-common-subexpr," /* weights that several operations use are packed once */
    "fold-constants,"
    "eliminate-common-subexpr,"
    "nest-concats,"
    "dce,"
    "fuse-ops",
};

static const char *const lowering_passes[] = {
    /* 0 */ "lower-to-loops",
    /* 1 to 3 */ "lower-to-loops{in-place}",
};

/* Of scheduled kernels; `schedule-kernels` applies the default rules of the target. */
static const char *const loop_passes[] = {
    /* 0: loops as they are */
    "loop.kernel(lower-blocks,simplify-loops,place-allocs),"
    "hoist-workspace,"
    "func(plan-memory)",
    /* 1 to 3 */
    "collapse-axes,"
    "schedule-kernels,"
    "loop.kernel("
    "lower-blocks,"
    "place-allocs,"
    "compact-buffers,"
    "simplify-loops,"
    "specialize-loops,"
    "vectorize-loops,"
    "unroll-loops,"
    "simplify-loops,"
    "hoist-divisions),"
    "hoist-workspace,"
    "func(order-calls,plan-memory)",
};

const char *tw_graph_pipeline(int opt_level)
{
    return graph_passes[opt_level < 0 ? 0 : opt_level > 2 ? 2 : opt_level];
}

const char *tw_lowering_pipeline(int opt_level)
{
    return lowering_passes[opt_level > 0];
}

const char *tw_loop_pipeline(int opt_level)
{
    return loop_passes[opt_level > 0];
}
