/* A program that uses the installed compiler: its IR, and the runtime in it. */
#include <stdio.h>

#include <tilewright/ir.h>
#include <tilewright/runtime.h>

int main(void)
{
    tw_context *ctx = tw_context_create(0);
    if (!ctx)
        return 1;
    tw_type type = tw_type_tensor_static(ctx, TW_F32, 2, (const int64_t[]){2, 3});
    int64_t count = 0;
    bool fine = tw_type_static_count(type, &count) && count == 6;
    puts(tw_print_type(ctx, type));
    tw_context_destroy(ctx);
    return fine && tw_default_threads() > 0 ? 0 : 1;
}
