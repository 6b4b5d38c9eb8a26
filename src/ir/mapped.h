/* mapped.h: memory of a context that lies in files, whose pages can be given back to the system
 * while it is not looked at: models with their weights, and what is computed from weights. */
#ifndef TW_IR_MAPPED_H
#define TW_IR_MAPPED_H

#include "tilewright/ir.h"

/* These bytes are mapped from a file and never changed, or mapped shared with it, as long as the
 * context lives. */
void tw_mapped_note(tw_context *ctx, const void *data, size_t size);

/* Zeroed bytes that live as long as the context, aligned to 64: in a temporary file where that can
 * be had and they are many, else as tw_context_alloc gives them. */
void *tw_mapped_alloc(tw_context *ctx, size_t size);

/* What of these bytes lies in files needs no memory until it is read again; contents stay. */
void tw_mapped_give_back(tw_context *ctx, const void *data, size_t size);

#endif
