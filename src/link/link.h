/* link.h: ELF objects in memory into one shared object or one object, by lld in process. */
#ifndef TW_LINK_LINK_H
#define TW_LINK_LINK_H

#include "tilewright/diag.h"

typedef struct tw_bytes {
    const void *data;
    size_t size;
} tw_bytes;

typedef enum tw_link_form {
    TW_LINK_SHARED,      /* shared object that exports only `tw_model`; nothing may be undefined */
    TW_LINK_RELOCATABLE, /* one relocatable object of all */
} tw_link_form;

/* Links n relocatable objects. The result is the content of a nameless file: *fd, which the caller
 * closes. The same objects in the same order give the same bytes. May be called from any thread;
 * calls run one after another. False with lld's message as diagnostic. */
bool tw_link(tw_context *ctx, tw_link_form form, const tw_bytes *objects, size_t n, int *fd);

#endif
