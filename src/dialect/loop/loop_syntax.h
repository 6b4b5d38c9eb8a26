/* loop_syntax.h: text and rules of the loop dialect's operations (loop.def shows the syntax). */
#ifndef TW_DIALECT_LOOP_SYNTAX_H
#define TW_DIALECT_LOOP_SYNTAX_H

#include "tilewright/ir.h"

/* Custom forms of kernel, for, block, if, load, store and index; the rest is generic. */
bool tw_loop_print(tw_printer *p, const tw_op *op);
bool tw_loop_parse(tw_parser *p, const tw_op_def *def, tw_op **out);

/* Words for the attribute `kind` of loop.for; NULL ends the list. */
extern const char *const tw_loop_for_kinds[];

/* What must hold beyond the tables: map arities, index counts against ranks, element types, iters.
 */
bool tw_loop_verify(tw_context *ctx, const tw_op *op);

#endif
