/* opt.c: tilewright-opt: reads IR as text, runs passes, writes IR as text. */
#include "opt.h"

#include "base/arena.h"
#include "codegen/llvm/codegen.h"
#include "codegen/llvm/target.h"
#include "driver/pipeline.h"
#include "tilewright/compiler.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_OK = 0, EXIT_BAD_INPUT = 1 };

static void print_diagnostics(tw_context *ctx)
{
    size_t shown = 0;
    for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next) {
        fprintf(stderr, "%s\n", tw_diagnostic_text(ctx, d));
        shown += d->severity == TW_ERROR;
    }
    if (tw_error_count(ctx) > shown)
        fprintf(stderr, "... and %zu more errors\n", tw_error_count(ctx) - shown);
    tw_diagnostics_clear(ctx);
}

/* All of a file, "-" being the standard input; false with a diagnostic. What has a zero byte is no
 * text, and the parser says so: no more of it is read, for a device may give them without end. */
static bool read_all(tw_context *ctx, const char *path, char **text, size_t *len)
{
    bool standard = !strcmp(path, "-");
    FILE *file = standard ? stdin : fopen(path, "rb");
    if (!file)
        return tw_error(ctx, NULL, "cannot open '%s': %m", path);
    const size_t most = (size_t)1 << 30;
    size_t cap = 1 << 16, n = 0, got;
    bool text_so_far = true;
    char *bytes = tw_context_alloc(ctx, cap);
    while (text_so_far && n < most && (got = fread(bytes + n, 1, cap - n, file)) > 0) {
        text_so_far = !memchr(bytes + n, 0, got);
        n += got;
        if (n < cap)
            continue;
        char *grown = tw_context_alloc(ctx, 2 * cap);
        memcpy(grown, bytes, n);
        bytes = grown;
        cap *= 2;
    }
    bool good = ferror(file) ? tw_error(ctx, NULL, "cannot read '%s': %m", path)
                : n < most   ? true
                             : tw_error(ctx, NULL, "'%s': more than %zu MB", path, most >> 20);
    if (!standard)
        fclose(file);
    *text = bytes;
    *len = n;
    return good;
}

static void dump(void *data, const char *title, const char *text)
{
    (void)data;
    fprintf(stderr, "// %s\n%s", title, text);
}

static bool write_text(tw_context *ctx, const char *path, const char *text)
{
    FILE *file = path ? fopen(path, "wb") : stdout;
    if (!file)
        return tw_error(ctx, NULL, "cannot open '%s' for writing: %m", path);
    bool good = fputs(text, file) >= 0 && !fflush(file);
    if (path && fclose(file))
        good = false;
    return good || tw_error(ctx, NULL, "cannot write '%s': %m", path ? path : "standard output");
}

static void list_passes(tw_context *ctx)
{
    for (size_t i = 0; i < tw_pass_count(ctx); i++) {
        const tw_pass *pass = tw_pass_at(ctx, i);
        printf("%-28s %s%s\n", pass->name, pass->summary, pass->optional ? " (optional)" : "");
        for (const tw_attr_spec *o = pass->options; o && o->name; o++)
            printf("  %-26s %s\n", o->name, o->summary);
    }
    puts("");
    for (int level = 0; level <= 3; level++)
        printf("graph passes at -O %d: %s\n", level, tw_graph_pipeline(level));
    for (int level = 0; level <= 3; level++)
        printf("loop passes at -O %d: %s\n", level, tw_loop_pipeline(level));
}

static void list_dialects(tw_context *ctx)
{
    for (size_t i = 0; i < tw_dialect_count(ctx); i++) {
        const tw_dialect *d = tw_dialect_at(ctx, i);
        printf("%s: %s\n", d->name, d->summary);
        for (size_t k = 0; k < d->n_ops; k++)
            printf("  %-28s %s\n", d->ops[k].name, d->ops[k].summary);
        for (const tw_type_def *t = d->types; t && t->name; t++)
            printf("  !%s\n", t->name);
    }
}

/* The code of the module's kernels as text. */
static bool emit_code(tw_context *ctx, tw_op *module, const tw_opt_args *args, const char **text)
{
    tw_target target;
    tw_codegen_result code;
    tw_codegen_options options = {
        .target = &target,
        .form = strcmp(args->emit, "asm") ? TW_CODE_LLVM : TW_CODE_ASM,
        .opt_level = args->opt_level,
    };
    if (!tw_target_resolve(ctx, args->cpu, &target) ||
        !tw_codegen_module(ctx, module, &options, &code))
        return false;
    size_t size = 0, at = 0;
    for (size_t i = 0; i < code.n_pieces; i++)
        size += code.pieces[i].size;
    char *all = tw_context_alloc(ctx, size + 1);
    for (size_t i = 0; i < code.n_pieces; at += code.pieces[i++].size)
        memcpy(all + at, code.pieces[i].bytes, code.pieces[i].size);
    *text = all;
    return true;
}

/* The passes to run, with the replay of schedules, of a file or of the module, in front. */
static const char *pipeline_of(tw_context *ctx, const tw_opt_args *args)
{
    tw_arena *arena = tw_context_arena(ctx);
    if (!args->schedule && !args->seed)
        return args->passes;
    const char *file = args->schedule ? tw_arena_printf(arena, "file=\"%s\"", args->schedule) : "";
    const char *seed = args->seed ? tw_arena_printf(arena, " seed=%s", args->seed) : "";
    return tw_arena_printf(arena, "apply-schedule{%s%s}%s%s", file, seed,
                           args->passes[0] ? "," : "", args->passes);
}

/* Reads, runs and writes; false with diagnostics. */
static bool process(tw_context *ctx, const tw_opt_args *args)
{
    char *text;
    size_t len;
    const char *name = strcmp(args->file, "-") ? args->file : "<stdin>";
    if (!read_all(ctx, args->file, &text, &len))
        return false;
    tw_op *module = tw_parse(ctx, text, len, name);
    if (!module || (args->verify_each && !tw_verify(ctx, module)))
        return false;
    tw_pipeline_options options = {
        .verify_each = args->verify_each,
        .timing = args->timing,
        .dump_before = args->dump_before,
        .dump_after = args->dump_after,
        .disable = args->disabled,
        .dump = dump,
    };
    bool good = tw_run_pipeline(ctx, module, pipeline_of(ctx, args), &options);
    if (args->timing)
        fputs(tw_pipeline_report(ctx), stderr);
    if (!good)
        return false;
    tw_print_options print = {args->show_locations, args->elide};
    const char *output;
    if (!args->emit)
        output = tw_print(ctx, module, &print);
    else if (!emit_code(ctx, module, args, &output))
        return false;
    return write_text(ctx, args->output, output);
}

static bool run(tw_context *ctx, const tw_opt_args *args)
{
    if (!tw_register_all(ctx))
        return false;
    for (unsigned i = 0; i < args->n_plugins; i++)
        if (!tw_plugin_load(ctx, args->plugins[i]))
            return false;
    if (args->list_passes)
        list_passes(ctx);
    if (args->list_dialects)
        list_dialects(ctx);
    return args->list_passes || args->list_dialects || process(ctx, args);
}

int main(int argc, char **argv)
{
    static tw_opt_args args; /* static: used after the jump */
    tw_opt_parse_args(&args, argc, argv);
    tw_context *ctx = tw_context_create(args.memory_limit);
    jmp_buf full;
    if (!ctx || setjmp(full)) {
        fprintf(stderr, "tilewright-opt: error: out of memory\n");
        return EXIT_BAD_INPUT;
    }
    tw_context_guard(ctx, &full);
    bool good = run(ctx, &args);
    print_diagnostics(ctx);
    tw_context_destroy(ctx);
    return good ? EXIT_OK : EXIT_BAD_INPUT;
}
