/* window.h: what convolutions and pools share: layouts and sliding windows. */
#ifndef TW_LOWER_WINDOW_H
#define TW_LOWER_WINDOW_H

#include "dialect/graph/data_axes.h"
#include "lower/lowering.h"

enum { TW_MAX_SPATIAL = TW_MAX_RANK - 2 };

/* The attributes of an operation over windows. Spatial axes are numbered 0 … n-1. */
typedef struct tw_window {
    unsigned n;
    tw_data_axes x, to; /* of the tensor that windows slide over, and of the result */
    int64_t strides[TW_MAX_SPATIAL], dilations[TW_MAX_SPATIAL];
    tw_expr kernel[TW_MAX_SPATIAL], pads_begin[TW_MAX_SPATIAL], pads_end[TW_MAX_SPATIAL];
} tw_window;

/* Reads all; kernels without the attribute are 1 wide. */
tw_window tw_window_of(tw_context *ctx, const tw_op *op);

/* The part of an index that says which channel. */
void tw_window_set_channel(tw_context *ctx, const tw_data_axes *axes, tw_expr channel,
                           tw_expr *index);

/* Axes of a stage over windows: those of the result in its order, then the reduction. */
typedef struct tw_window_axes {
    tw_axis axes[2 * TW_MAX_RANK];
    unsigned n;
    tw_expr channel, batch;      /* the channel is over two axes where there are blocks */
    tw_expr group;               /* of groups of channels that have an axis; else NULL */
    tw_expr at[TW_MAX_SPATIAL];  /* position in the result, per spatial axis */
    tw_expr tap[TW_MAX_SPATIAL]; /* position in the window; 0 when the window is 1 wide */
    tw_expr reduce_channel;      /* likewise among the channels that are summed */
} tw_window_axes;

/* `channels` are summed over (1: none). Reduction axes of size 1 are left out, save when no other
 * would be left. With `groups` above 1 the result's channels (or blocks) are two axes: groups and
 * those of one, of which there is a whole number. */
tw_window_axes tw_window_make_axes(tw_lowering *l, const tw_window *w, const tw_value *result,
                                   tw_expr channels, int64_t groups);

/* The index of x that tap t of the window at the result's position falls on, and the conditions
 * (two per spatial axis) of lying inside; `index` gets all but the channel. */
void tw_window_index(const tw_stage *s, const tw_window *w, const tw_window_axes *a,
                     tw_expr channel, const tw_value *x, tw_expr *index, tw_expr *where,
                     unsigned *n_where);

/* A result's index from its parts. */
void tw_window_result(tw_context *ctx, const tw_window *w, const tw_window_axes *a, tw_expr *index);

#endif
