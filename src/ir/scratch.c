/* scratch.c: a temporary arena that survives neither return nor exhaustion. */
#include "ir/scratch.h"

#include <setjmp.h>

void tw_with_scratch(tw_context *ctx, void (*body)(tw_arena *scratch, void *data), void *data)
{
    tw_arena *scratch = tw_arena_create(0);
    volatile bool done = false;
    jmp_buf full;
    jmp_buf *outer = tw_context_guard(ctx, &full);
    if (scratch && !setjmp(full)) {
        tw_arena_on_exhausted(scratch, &full);
        body(scratch, data);
        done = true;
    }
    tw_context_guard(ctx, outer);
    tw_arena_destroy(scratch);
    if (!done)
        tw_arena_exhausted(tw_context_arena(ctx));
}
