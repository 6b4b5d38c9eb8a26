/* tilewright_common.c: a verb's course, the compiler's context, and the way to a loaded model. */
#include "tilewright.h"

#include "base/io.h"
#include "dialect/core/core.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- A verb ---- */

void tw_report(tw_context *ctx)
{
    for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
        fprintf(stderr, "%s\n", tw_diagnostic_text(ctx, d));
    tw_diagnostics_clear(ctx);
}

bool tw_runtime_error(tw_context *ctx)
{
    return tw_error(ctx, NULL, "%s", tw_last_error());
}

int tw_run_verb(const struct argp *argp, int argc, char **argv, void *verb, tw_compile_args *args,
                bool (*work)(void *verb))
{
    jmp_buf full;
    args->ctx = tw_context_create(0);
    args->full = &full;
    if (!args->ctx || setjmp(full)) {
        fputs("tilewright: error: out of memory\n", stderr);
        return TW_EXIT_FAILED;
    }
    tw_context_guard(args->ctx, &full);
    argp_parse(argp, argc, argv, 0, NULL, verb);
    bool fine = work(verb);
    tw_report(args->ctx);
    tw_context_destroy(args->ctx);
    return fine ? TW_EXIT_OK : TW_EXIT_FAILED;
}

/* ---- Compiling ---- */

static void dump_to_stderr(void *data, const char *title, const char *text)
{
    (void)data;
    fprintf(stderr, "// ---- %s ----\n%s\n", title, text);
}

static tw_compile_options options_of(tw_compile_args *args)
{
    tw_compile_options o = args->options;
    tw_vec_push(tw_context_arena(args->ctx), &args->disabled, NULL);
    o.cpus = args->cpus.data;
    o.n_cpus = args->cpus.len;
    o.shapes = args->shapes.data;
    o.n_shapes = args->shapes.len;
    o.open_inputs = args->open_inputs.data;
    o.n_open_inputs = args->open_inputs.len;
    o.extra_outputs = args->extra_outputs.data;
    o.n_extra_outputs = args->extra_outputs.len;
    o.passes.disable = args->disabled.data;
    if (!o.passes.dump)
        o.passes.dump = dump_to_stderr;
    if (args->limits.runs != UINT64_MAX || args->limits.pass || o.passes.observe)
        o.passes.limits = &args->limits;
    return o;
}

tw_context *tw_open_compiler(tw_compile_args *args, tw_compile_options *options)
{
    *options = options_of(args);
    tw_context *compiler = tw_context_create(0);
    if (!compiler) {
        tw_out_of_memory(args->ctx);
        return NULL;
    }
    tw_context_guard(compiler, args->full);
    for (size_t i = 0; i < args->plugins.len; i++)
        if (!tw_plugin_load(compiler, args->plugins.data[i])) {
            tw_close_compiler(args, compiler);
            return NULL;
        }
    return compiler;
}

/* Where --pass-limit or --rewrite-limit stopped. */
static void report_limits(const tw_pass_limits *l)
{
    uint64_t happened = l->runs_seen < l->runs ? l->runs_seen : l->runs;
    fprintf(stderr, "%llu of %llu runs of optional passes", (unsigned long long)happened,
            (unsigned long long)l->runs_seen);
    if (l->last_pass)
        fprintf(stderr, "; the last: %s on %s, %llu changes", l->last_pass->name, l->last_root,
                (unsigned long long)l->last_changes);
    fputs(l->last_rule ? "; the last change: " : "", stderr);
    fprintf(stderr, "%s\n", l->last_rule ? l->last_rule : "");
}

void tw_close_compiler(tw_compile_args *args, tw_context *compiler)
{
    tw_report(compiler);
    if (args->limits.runs != UINT64_MAX || args->limits.pass)
        report_limits(&args->limits);
    if (args->options.passes.timing)
        fputs(tw_pipeline_report(compiler), stderr);
    tw_context_destroy(compiler);
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}

/* ---- Loading ---- */

/* Whether the file is an ELF file, as compiled models are. */
bool tw_is_compiled(const char *path)
{
    char start[4];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is not waited for */
    if (fd < 0)
        return false;
    bool elf = tw_pread_all(fd, start, sizeof start, 0) && !memcmp(start, "\177ELF", sizeof start);
    close(fd);
    return elf;
}

static void add_shape(tw_compile_args *args, const char *name, unsigned rank, const int64_t *dims)
{
    tw_vec_push(tw_context_arena(args->ctx), &args->shapes, ((tw_shape){name, rank, dims}));
}

/* Symbolic sizes of an input become 1, told on stderr. */
static void close_shape(tw_compile_args *args, const char *name, tw_type type)
{
    int64_t *dims = TW_NEW_ARRAY(tw_context_arena(args->ctx), int64_t, type->rank);
    fprintf(stderr, "input '%s': open sizes taken as 1: ", name);
    for (unsigned d = 0; d < type->rank; d++) {
        if (!tw_expr_as_const(type->dims[d], &dims[d]))
            dims[d] = 1;
        fprintf(stderr, "%s%lld", d ? "x" : "", (long long)dims[d]);
    }
    fputs(" (see --shape)\n", stderr);
    add_shape(args, tw_intern(args->ctx, name, strlen(name)), type->rank, dims);
}

/* Fixes the sizes of main's inputs that are not numbers. */
static void close_shapes(tw_compile_args *args, tw_op *module)
{
    tw_op *main = tw_core_lookup(module, "main");
    tw_attr names = main ? tw_op_attr(main, "input_names") : NULL;
    tw_region *body = main ? tw_core_body(main) : NULL;
    for (unsigned i = 0; names && i < body->n_args && i < names->u.array.n; i++)
        if (!tw_type_is_static(body->args[i]->type))
            close_shape(args, names->u.array.items[i]->u.string.text, body->args[i]->type);
}

/* Compiles into a nameless file; -1 after diagnostics in the compiler's context. */
static int compile(tw_compile_args *args, tw_context *compiler, tw_compile_options *options)
{
    tw_op *module = tw_import_file(compiler, args->model, options);
    if (!module)
        return -1;
    if (args->imported)
        args->imported(args->imported_data, compiler, module);
    if (!args->keep_open)
        close_shapes(args, module);
    options->shapes = args->shapes.data;
    options->n_shapes = args->shapes.len;
    int fd;
    tw_compile_to_fd(compiler, args->model, options, &fd);
    return fd;
}

static bool compile_and_load(tw_compile_args *args, tw_model **model)
{
    tw_compile_options options;
    tw_context *compiler = tw_open_compiler(args, &options);
    if (!compiler)
        return false;
    int fd = compile(args, compiler, &options);
    tw_close_compiler(args, compiler);
    if (fd < 0)
        return false;
    tw_status status = tw_model_load_fd(fd, args->model, NULL, model);
    close(fd);
    return status == TW_STATUS_OK || tw_runtime_error(args->ctx);
}

static bool load_compiled(tw_compile_args *args, tw_model **model)
{
    if (tw_model_load(args->model, NULL, model) != TW_STATUS_OK)
        return tw_runtime_error(args->ctx);
    for (size_t i = 0; i < args->shapes.len; i++)
        if (!tw_shape_fits(args->ctx, *model, &args->shapes.data[i])) {
            tw_model_free(*model);
            return false;
        }
    return true;
}

bool tw_load_model(tw_compile_args *args, const tw_arrays *inputs, tw_model **model)
{
    if (tw_is_compiled(args->model))
        return load_compiled(args, model);
    for (size_t i = 0; i < inputs->n; i++)
        tw_vec_push(tw_context_arena(args->ctx), &args->open_inputs, inputs->items[i].name);
    for (size_t i = 0; i < inputs->n; i++)
        if (inputs->items[i].data && !strstr(inputs->items[i].name, "[]"))
            add_shape(args, inputs->items[i].name, inputs->items[i].rank, inputs->items[i].dims);
    return compile_and_load(args, model);
}
