/* fuzz_ir.c: textual IR. What parses and verifies must print as text that parses and prints the
 * same. */
#include "tilewright/compiler.h"
#include "tilewright/ir.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t MEMORY_LIMIT = (size_t)256 << 20;

static void round_trip(tw_context *ctx, const char *text, size_t size)
{
    tw_op *module = tw_parse(ctx, text, size, "fuzz.tw");
    if (!module || !tw_verify(ctx, module))
        return;
    const char *once = tw_print(ctx, module, NULL);
    tw_op *again = tw_parse(ctx, once, strlen(once), "again.tw");
    const char *twice = again ? tw_print(ctx, again, NULL) : "";
    if (strcmp(once, twice) != 0) {
        for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
            fprintf(stderr, "%s\n", tw_diagnostic_text(ctx, d));
        fprintf(stderr, "printed:\n%s\nparsed and printed:\n%s\n", once, twice);
        abort();
    }
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
            round_trip(ctx, (const char *)data, size);
    }
    tw_context_destroy(ctx);
    return 0;
}
