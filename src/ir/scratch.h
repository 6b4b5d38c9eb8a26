/* scratch.h: work that needs memory only while it lasts. */
#ifndef TW_IR_SCRATCH_H
#define TW_IR_SCRATCH_H

#include "base/arena.h"
#include "tilewright/ir.h"

/* Runs body(scratch, data) with an arena that is freed afterwards. When memory runs out, in it or
 * in the context, it is freed as well before control goes to the context's handler. */
void tw_with_scratch(tw_context *ctx, void (*body)(tw_arena *scratch, void *data), void *data);

#endif
