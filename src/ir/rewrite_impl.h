/* rewrite_impl.h: the worklist driver that the greedy rewriter and the conversion share. */
#ifndef TW_IR_REWRITE_IMPL_H
#define TW_IR_REWRITE_IMPL_H

#include "ir/context_impl.h"

/* Rewrites all inside root until no pattern applies, `max_changes` are made or the budget of 64
 * applications per operation is spent (a warning names the pattern). Only operations for which
 * `eligible` holds (NULL: all) are offered to patterns; dead pure ones always go. Returns the
 * number of changes: applications and removals. */
uint64_t tw_rewrite_drive(tw_context *ctx, tw_op *root, const tw_pattern *patterns, size_t n,
                          bool (*eligible)(const tw_op *op, void *data), void *data,
                          uint64_t max_changes);

#endif
