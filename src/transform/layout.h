/* layout.h: what an operation needs to work on arranged data; shared by the two halves of
 * convert-layout.
 *
 * Arranged is a tensor of rank r >= 3 in the layout that the pass is to give: channels last, the
 * transpose by (0, 2, …, r-1, 1), or in blocks, [N, C / c, spatial…, c]. */
#ifndef TW_TRANSFORM_LAYOUT_H
#define TW_TRANSFORM_LAYOUT_H

#include "dialect/graph/graph.h"

typedef struct tw_layout_goal {
    tw_context *ctx;
    int64_t block; /* channels of a block at most; 0: channels last */
} tw_layout_goal;

/* What stands in for an operation when layouts are chosen. */
typedef enum tw_layout_role {
    TW_ROLE_PLAIN,     /* works on plain data only */
    TW_ROLE_EITHER,    /* works on either, its axes being renamed */
    TW_ROLE_WANTS,     /* convolutions: always arranged */
    TW_ROLE_TRANSPOSE, /* a transpose: joins with the transpose before or behind it */
    TW_ROLE_INSIDE,    /* the first two operations of a channel shuffle: as its last says */
} tw_layout_role;

tw_layout_role tw_layout_role_of(const tw_layout_goal *goal, const tw_op *op);

/* A channel shuffle is three operations that count as one, the last, which works in either layout:
 *   %1 = reshape %0 : N x C… x space        // C… being several sizes whose product is C
 *   %2 = transpose %1                        // of the axes of C… alone
 *   %3 = reshape %2 : N x C x space
 * The first of them when op is the last, and nothing else uses what is between; else NULL. */
tw_op *tw_layout_shuffle(const tw_op *op);
/* Makes the first two of a shuffle work on channels-last data; the operand is the caller's. With
 * blocks shuffles stay plain. */
void tw_layout_shuffle_apply(tw_context *ctx, tw_op *first);

/* The value that counts as operand i: the operand, or that of a shuffle's first operation. */
tw_value *tw_layout_operand(const tw_op *op, unsigned i);

/* Of plain operations: whether operand i is data in the layout of the operation (of its rank, not
 * weights or indices); other operands stay plain. */
bool tw_layout_is_data(const tw_op *op, unsigned i);
/* Whether the result has the operation's layout; else it is plain (a reduction of axes away). */
bool tw_layout_has_result(const tw_op *op);
/* The rank of the data: 3 or more. */
unsigned tw_layout_rank(const tw_op *op);

/* Whether arranging data of that plain type moves no element: only one of channels and space is
 * larger than 1. */
bool tw_layout_is_view(tw_type type);
/* The arranged type. */
tw_type tw_layout_type(const tw_layout_goal *goal, tw_type type);

/* Renames axes in the attributes, and arranges the result type; the operands are arranged already.
 * `rank` is that of the plain data. A result without a layout of its own may have its axes split in
 * two (the channels in blocks). */
void tw_layout_apply(const tw_layout_goal *goal, tw_op *op, unsigned rank);

#endif
