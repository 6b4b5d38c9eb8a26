/* transform.h: the graph-to-graph passes; each is one file that opens with its specification. */
#ifndef TW_TRANSFORM_TRANSFORM_H
#define TW_TRANSFORM_TRANSFORM_H

#include "tilewright/ir.h"

extern const tw_pass tw_pass_canonicalize;
extern const tw_pass tw_pass_convert_layout;
extern const tw_pass tw_pass_dce;
extern const tw_pass tw_pass_eliminate_common_subexpr;
extern const tw_pass tw_pass_find_rolls;
extern const tw_pass tw_pass_fuse_attention;
extern const tw_pass tw_pass_fuse_ops;
extern const tw_pass tw_pass_integer_products;
extern const tw_pass tw_pass_join_convolutions;
extern const tw_pass tw_pass_join_products;
extern const tw_pass tw_pass_block_products;
extern const tw_pass tw_pass_nest_concats;
extern const tw_pass tw_pass_pack_weights;
extern const tw_pass tw_pass_settle_layouts;
extern const tw_pass tw_pass_simplify_inference;
extern const tw_pass tw_pass_sink_norms;
extern const tw_pass tw_pass_sink_reshapes;

/* What the `user` of a pipeline with these passes begins with, if there is one. */
typedef struct tw_transform_options {
    unsigned lanes; /* f32 in a vector of the target; 0: not known */
} tw_transform_options;

/* Makes all passes of this folder known by name. */
bool tw_transforms_register(tw_context *ctx);

#endif
