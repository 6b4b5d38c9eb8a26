/* register.h: all dialects and passes that come with the compiler. */
#ifndef TW_DRIVER_REGISTER_H
#define TW_DRIVER_REGISTER_H

#include "tilewright/ir.h"

/* Makes them known to the context by name. False, with a diagnostic, when a name is taken. */
bool tw_register_all(tw_context *ctx);

#endif
