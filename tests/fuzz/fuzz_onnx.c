/* fuzz_onnx.c: ONNX models. What is imported must verify. */
#include "tilewright/compiler.h"
#include "import/onnx/onnx.h"

#include <stdio.h>
#include <stdlib.h>

static const size_t MEMORY_LIMIT = (size_t)256 << 20;

static void import(tw_context *ctx, const void *data, size_t size)
{
    static const tw_import_options options = {.max_nodes = 2000};
    tw_op *module = tw_import_onnx_memory(ctx, data, size, "fuzz.onnx", NULL, &options);
    if (module ? tw_verify(ctx, module) : tw_error_count(ctx) > 0)
        return;
    for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
        fprintf(stderr, "%s\n", tw_diagnostic_text(ctx, d));
    fprintf(stderr, "%s\n", module ? tw_print(ctx, module, NULL) : "no module and no diagnostic");
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tw_context *ctx = tw_context_create(MEMORY_LIMIT);
    jmp_buf full;
    if (!ctx)
        return 0;
    if (!setjmp(full)) {
        tw_context_guard(ctx, &full);
        if (tw_register_all(ctx))
            import(ctx, data, size);
    }
    tw_context_destroy(ctx);
    return 0;
}
