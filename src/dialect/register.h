/* register.h: the dialects that come with the compiler. */
#ifndef TW_DIALECT_REGISTER_H
#define TW_DIALECT_REGISTER_H

#include "tilewright/ir.h"

/* Registers all of them. False, with a diagnostic, when a name is taken. */
bool tw_register_all_dialects(tw_context *ctx);

#endif
