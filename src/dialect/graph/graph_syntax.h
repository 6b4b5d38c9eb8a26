/* graph_syntax.h: text of the graph dialect's operations that have a syntax of their own:
 *
 *     %w = graph.constant @fc1.weight dense<…> : tensor<784x128xf32>
 *     %y = graph.group @matmul_relu(%a = %x, %b = %w) {
 *       …
 *       graph.yield %1
 *     } : tensor<batch x 128 x f32>
 *
 *     %a, %b = graph.if %condition {
 *       …
 *       graph.yield %1, %2
 *     } else {
 *       …
 *       graph.yield %3, %4
 *     } : tensor<4xf32>, tensor<i64>
 *     %s, %rows = graph.loop %trips, %condition, %init do (%i: tensor<i64>, %state: tensor<4xf32>)
 *         attributes {scans = 1} {
 *       …
 *       graph.yield %go_on, %next, %row
 *     } : tensor<4xf32>, tensor<trips x 4 x f32>
 *
 * The name of a constant may be absent, as may that of a group. */
#ifndef TW_DIALECT_GRAPH_SYNTAX_H
#define TW_DIALECT_GRAPH_SYNTAX_H

#include "tilewright/ir.h"

bool tw_graph_print(tw_printer *p, const tw_op *op);
bool tw_graph_parse(tw_parser *p, const tw_op_def *def, tw_op **out);

#endif
