/* Schedules a kernel in C: parses it, takes it apart step by step, meets a refusal, and prints the
 * trace and what has become of the kernel. The trace, saved, does the same by
 * `tilewright-opt k.tw --schedule trace.tw`. */
#include <stdio.h>
#include <string.h>

#include <tilewright/compiler.h>
#include <tilewright/schedule.h>

static const char text[] =
    "loop.kernel @matmul(%X: buffer<60x64xf32>, %W: buffer<64x48xf32>, %Y: buffer<60x48xf32>)\n"
    "    attributes {outputs = 1} {\n"
    "  loop.for %i = 0 to 60 {\n"
    "    loop.for %j = 0 to 48 {\n"
    "      loop.for %k = 0 to 64 {\n"
    "        loop.block \"mm\" (%vi: spatial 60 = %i, %vj: spatial 48 = %j, %vk: reduce 64 = %k) "
    "{\n"
    "          init {\n"
    "            %zero = loop.const {value = 0.0} : f32\n"
    "            loop.store %zero, %Y[%vi, %vj]\n"
    "          }\n"
    "          %x = loop.load %X[%vi, %vk] : f32\n"
    "          %w = loop.load %W[%vk, %vj] : f32\n"
    "          %y = loop.load %Y[%vi, %vj] : f32\n"
    "          %s = loop.fma %x, %w, %y : f32\n"
    "          loop.store %s, %Y[%vi, %vj]\n"
    "        }\n"
    "      }\n"
    "    }\n"
    "  }\n"
    "}\n";

static void tell(tw_context *ctx)
{
    for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
        printf("%s\n", tw_diagnostic_text(ctx, d));
    tw_diagnostics_clear(ctx);
}

/* Tiles in registers, 4 rows by 16 columns, in lanes of 8. */
static bool schedule(tw_schedule *s)
{
    tw_value *block = tw_sched_get_block(s, "mm"), *loops[3], *tile[4], *lanes[2];
    if (!block || tw_sched_get_loops(s, block, loops, 3) != 3 ||
        !tw_sched_tile(s, loops, (int64_t[]){4, 16}, 2, tile))
        return false;
    tw_value *order[] = {tile[0], tile[1], loops[2], tile[2], tile[3]};
    return tw_sched_reorder(s, order, 5) && tw_sched_decompose_reduction(s, block, loops[2]) &&
           tw_sched_split(s, tile[3], (int64_t[]){0, 8}, 2, lanes) &&
           tw_sched_vectorize(s, lanes[1]) && tw_sched_unroll(s, lanes[0]) &&
           tw_sched_unroll(s, tile[2]) && tw_sched_parallel(s, tile[0], NULL);
}

int main(void)
{
    tw_context *ctx = tw_context_create(0);
    if (!ctx || !tw_register_all(ctx))
        return 1;
    tw_op *module = tw_parse(ctx, text, strlen(text), "matmul");
    if (!module || !tw_verify(ctx, module)) {
        tell(ctx);
        return 1;
    }
    tw_op *kernel = module->regions[0].first;
    tw_schedule *s = tw_schedule_create(ctx, kernel, "x86-64-v3");

    /* The iterations of the sum meet in one element each: they cannot run on several threads. */
    tw_value *block = tw_sched_get_block(s, "mm"), *loops[3];
    if (!block || tw_sched_get_loops(s, block, loops, 3) != 3 ||
        tw_sched_parallel(s, loops[2], NULL))
        return 1;
    puts("refused, as it should be:");
    tell(ctx);

    bool good = schedule(s);
    if (good)
        printf("\n%s\n%s", tw_schedule_text(s), tw_print(ctx, kernel, &(tw_print_options){0}));
    tell(ctx);
    tw_context_destroy(ctx);
    return good ? 0 : 1;
}
