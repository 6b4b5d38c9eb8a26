/* fuzz_onnx.c: ONNX models. What is imported must verify, also after the graph passes; what is not
 * must have a diagnostic. */
#include "import/onnx/onnx.h"
#include "tilewright/compiler.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static const size_t MEMORY_LIMIT = (size_t)256 << 20;
static const char PASSES[] =
    "canonicalize,simplify-inference,eliminate-common-subexpr,dce,fuse-ops";

static void die(tw_context *ctx, const char *what)
{
    fprintf(stderr, "%s\n", what);
    for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
        fprintf(stderr, "%s\n", tw_diagnostic_text(ctx, d));
    abort();
}

static void import(tw_context *ctx, const uint8_t *data, size_t size)
{
    static const tw_import_options options = {.max_tensor_bytes = 64 << 20, .max_nodes = 2000};
    static const tw_pipeline_options passes = {.verify_each = true};
    tw_op *module = tw_import_onnx_memory(ctx, data, size, "fuzz.onnx", NULL, &options);
    if (!module) {
        if (tw_error_count(ctx) == 0)
            die(ctx, "no module and no diagnostic");
        return;
    }
    if (!tw_verify(ctx, module))
        die(ctx, "not valid after import");
    if (!tw_run_pipeline(ctx, module, PASSES, &passes))
        die(ctx, "not valid after the passes");
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
