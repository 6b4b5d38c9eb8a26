/* settle.h: the patterns of settle-layouts that have files of their own; both are tried on
 * graph.conv. */
#ifndef TW_TRANSFORM_SETTLE_H
#define TW_TRANSFORM_SETTLE_H

#include "tilewright/ir.h"

/* settle_shuffles.c: of a convolution of shuffled channels, and of a part of them. */
bool tw_settle_shuffle(tw_rewriter *rw, tw_op *conv, const void *data);
bool tw_settle_part(tw_rewriter *rw, tw_op *conv, const void *data);

#endif
