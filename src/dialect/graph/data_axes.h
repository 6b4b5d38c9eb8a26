/* data_axes.h: where the channels and the space of a tensor are, as the layout in its type says.
 *
 *   tensor<1x64x56x56xf32>               channel 1, space 2 and 3
 *   tensor<1x56x56x64xf32, NHWC>         channel 3, space 1 and 2
 *   tensor<1x4x56x56x16xf32, NCHW16c>    channel 1 (of blocks), space 2 and 3, lane 4
 *
 * Convolutions, pools and normalisations per channel compute by it: their first operand and their
 * result have one layout (a convolution's may have blocks of different sizes). To all other
 * operations a layout is a name that they carry on, and that may be missing. */
#ifndef TW_DIALECT_GRAPH_DATA_AXES_H
#define TW_DIALECT_GRAPH_DATA_AXES_H

#include "dialect/graph/graph.h"

typedef struct tw_data_axes {
    unsigned space, n_space; /* the first axis of space, and how many there are */
    unsigned channel;        /* the channels, or the blocks of them */
    unsigned lane;           /* the channels of a block; 0: there are no blocks */
    int64_t block;           /* channels of a block; 1 where there are none */
} tw_data_axes;

/* Of a tensor type of rank 2 or more. */
tw_data_axes tw_data_axes_of(tw_type type);
/* The number of channels. */
tw_expr tw_data_channels(tw_context *ctx, tw_type type);

/* Whether an operation computes by the layout of its first operand and its result. */
bool tw_reads_layout(const tw_op *op);
/* Whether two layouts of one operation's tensors go together: one of them is missing, they are
 * equal, or they differ in the size of the blocks alone. */
bool tw_layouts_agree(tw_attr a, tw_attr b);
/* Whether the operand could have that layout as well as the one it has. */
bool tw_takes_layout(const tw_use *use, tw_attr layout);

#endif
