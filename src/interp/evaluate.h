/* evaluate.h: one graph operation on constant operands, by lowering and interpreting it. */
#ifndef TW_INTERP_EVALUATE_H
#define TW_INTERP_EVALUATE_H

#include "tilewright/ir.h"

/* Computes all results of `op` (a graph operation, a graph.group or one of another dialect that
 * has a lowering) from its operands' values, DENSE attributes of their types. Results are DENSE
 * attributes whose bytes live as long as the context. For small data: it takes some 5 ns per
 * scalar operation, and stops after `max_steps` (0: no bound). False with a diagnostic. */
bool tw_evaluate(tw_context *ctx, tw_op *op, const tw_attr *operands, tw_attr *results,
                 uint64_t max_steps);

#endif
