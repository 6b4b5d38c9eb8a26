/* graph_verify.h: what must hold for graph operations beyond their table rows. */
#ifndef TW_DIALECT_GRAPH_VERIFY_H
#define TW_DIALECT_GRAPH_VERIFY_H

#include "tilewright/ir.h"

/* Element types, ranks, attribute lengths and result shapes of any graph operation. */
bool tw_graph_verify(tw_context *ctx, const tw_op *op);

#endif
