/* register.c: the list of graph-to-graph passes. */
#include "transform/transform.h"

static const tw_pass *const passes[] = {
    &tw_pass_canonicalize,
    &tw_pass_convert_layout,
    &tw_pass_dce,
    &tw_pass_eliminate_common_subexpr,
    &tw_pass_find_rolls,
    &tw_pass_fuse_attention,
    &tw_pass_fuse_ops,
    &tw_pass_integer_products,
    &tw_pass_join_convolutions,
    &tw_pass_join_products,
    &tw_pass_block_products,
    &tw_pass_nest_concats,
    &tw_pass_pack_weights,
    &tw_pass_settle_layouts,
    &tw_pass_simplify_inference,
    &tw_pass_sink_norms,
    &tw_pass_sink_reshapes,
};

bool tw_transforms_register(tw_context *ctx)
{
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
        if (!tw_pass_register(ctx, passes[i]))
            return false;
    return true;
}
