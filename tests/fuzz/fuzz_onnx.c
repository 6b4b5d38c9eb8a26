/* fuzz_onnx.c: ONNX models. What is imported must verify, also after each pass down to flat
 * kernels; what is not, and what lowering refuses, must have a diagnostic. */
#include "driver/pipeline.h"
#include "import/onnx/onnx.h"
#include "tilewright/compiler.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static const size_t MEMORY_LIMIT = (size_t)256 << 20;

/* All of the driver's but fold-constants, which runs code. */
static const char GRAPH_PASSES[] =
    "canonicalize,eliminate-common-subexpr,integer-products,sink-reshapes,simplify-inference,"
    "canonicalize,convert-layout,canonicalize,pack-weights,eliminate-common-subexpr,dce,fuse-ops";

static void die(tw_context *ctx, const char *what)
{
    fprintf(stderr, "%s\n", what);
    for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
        fprintf(stderr, "%s\n", tw_diagnostic_text(ctx, d));
    abort();
}

/* Does not lower what needs more code than fuzzing has time for. */
static bool within(tw_op *op, void *left)
{
    (void)op;
    return (*(int *)left)-- > 0;
}

static bool is_small(tw_op *module)
{
    int left = 200;
    return tw_walk(module, within, &left);
}

static void lower(tw_context *ctx, tw_op *module)
{
    static const tw_pipeline_options passes = {.verify_each = true};
    if (!tw_run_pipeline(ctx, module, tw_lowering_pipeline(2), NULL)) {
        if (tw_error_count(ctx) == 0)
            die(ctx, "not lowered and no diagnostic");
        return;
    }
    if (!tw_run_pipeline(ctx, module, tw_loop_pipeline(3), &passes))
        die(ctx, "not valid after lowering and the loop passes");
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
    if (!tw_run_pipeline(ctx, module, GRAPH_PASSES, &passes))
        die(ctx, "not valid after the passes");
    if (is_small(module))
        lower(ctx, module);
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
