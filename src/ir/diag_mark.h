/* diag_mark.h: taking back diagnostics of an attempt that may fail. */
#ifndef TW_IR_DIAG_MARK_H
#define TW_IR_DIAG_MARK_H

#include "tilewright/diag.h"

/* A place in the list of diagnostics. */
typedef struct tw_diag_mark {
    tw_diagnostic *last;
    size_t kept, errors;
} tw_diag_mark;

tw_diag_mark tw_diag_mark_here(const tw_context *ctx);
/* The first diagnostic added since, or NULL. */
const tw_diagnostic *tw_diag_since(const tw_context *ctx, tw_diag_mark mark);
/* Forgets all that was added since. */
void tw_diag_rewind(tw_context *ctx, tw_diag_mark mark);

#endif
