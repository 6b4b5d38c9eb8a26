/* core_syntax.h: text and rules of the core dialect's operations (core.def shows the syntax). */
#ifndef TW_DIALECT_CORE_SYNTAX_H
#define TW_DIALECT_CORE_SYNTAX_H

#include "tilewright/ir.h"

bool tw_core_print_module(tw_printer *p, const tw_op *op);
bool tw_core_parse_module(tw_parser *p, const tw_op_def *def, tw_op **out);
bool tw_core_print_func(tw_printer *p, const tw_op *op);
bool tw_core_parse_func(tw_parser *p, const tw_op_def *def, tw_op **out);
bool tw_core_print_call(tw_printer *p, const tw_op *op);
bool tw_core_parse_call(tw_parser *p, const tw_op_def *def, tw_op **out);
bool tw_core_print_if(tw_printer *p, const tw_op *op);
bool tw_core_parse_if(tw_parser *p, const tw_op_def *def, tw_op **out);
bool tw_core_print_loop(tw_printer *p, const tw_op *op);
bool tw_core_parse_loop(tw_parser *p, const tw_op_def *def, tw_op **out);

/* A module's calls name functions of their types; a function's arguments and returned values have
 * its type. */
bool tw_core_verify(tw_context *ctx, const tw_op *op);

#endif
