/* compile.c: walks the way that pipeline.c lists, from a model file to the file that is asked for.
 *
 * The graph part is done once. Each CPU then gets a copy of the unscheduled kernels, which is
 * scheduled, made flat and compiled for it; constants are common to all. */
#include "driver/compilation.h"

#include "artifact/cpu.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/io.h"
#include "codegen/llvm/target.h"
#include "dialect/core/core.h"
#include "dialect/loop/loop.h"
#include "driver/pipeline.h"
#include "import/onnx/onnx.h"
#include "link/link_impl.h"
#include "schedule/rules/rules.h"
#include "tilewright/runtime.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* The end of a stage that began at `start`. */
static bool end_stage(tw_context *ctx, const tw_compile_options *o, const char *stage, double start,
                      bool fine)
{
    if (o->passes.timing)
        tw_timing_add(ctx, stage, tw_seconds_now() - start);
    return fine;
}

/* ---- Import ---- */

static const char *header_of(const tw_compile_options *o)
{
    return o->emit == TW_EMIT_OBJECT ? o->header : NULL;
}

/* `output` is what will be written, or NULL. */
static tw_op *import(tw_context *ctx, const char *path, const tw_compile_options *o,
                     const char *output)
{
    size_t n_shapes = o->n_shapes + o->n_values;
    tw_import_shape *shapes = TW_NEW_ARRAY(tw_context_arena(ctx), tw_import_shape, n_shapes);
    tw_array *values = TW_NEW_ARRAY(tw_context_arena(ctx), tw_array, o->n_values);
    for (size_t i = 0; i < o->n_shapes; i++)
        shapes[i] = (tw_import_shape){o->shapes[i].input, o->shapes[i].rank, o->shapes[i].dims};
    for (size_t i = 0; i < o->n_values; i++) {
        const tw_input_value *v = &o->values[i];
        if (v->rank > TW_MAX_RANK) {
            tw_error(ctx, NULL, "the value given for input '%s' has %u dimensions; at most %d",
                     v->input, v->rank, TW_MAX_RANK);
            return NULL;
        }
        shapes[o->n_shapes + i] = (tw_import_shape){v->input, v->rank, v->dims};
        values[i] = (tw_array){.name = v->input,
                               .elem = v->elem,
                               .rank = v->rank,
                               .data = (void *)(uintptr_t)v->data,
                               .size = v->size};
        memcpy(values[i].dims, v->dims, v->rank * sizeof *v->dims);
    }
    tw_import_options options = {.shapes = shapes,
                                 .n_shapes = n_shapes,
                                 .values = values,
                                 .n_values = o->n_values,
                                 .open_inputs = o->open_inputs,
                                 .n_open_inputs = o->n_open_inputs,
                                 .extra_outputs = o->extra_outputs,
                                 .n_extra_outputs = o->n_extra_outputs,
                                 .written = {output, output ? header_of(o) : NULL},
                                 .saturate_products = o->saturate_products};
    double start = tw_seconds_now();
    tw_op *module = tw_import_onnx(ctx, path, &options);
    end_stage(ctx, o, "import", start, module != NULL);
    return module;
}

/* ---- From a module to code ---- */

/* How many features of the CPU the target's code may use. */
static unsigned count_features(const tw_target *target)
{
    tw_cpu_features features = {{0}};
    const char *unknown;
    unsigned n = 0;
    tw_cpu_parse(target->level, target->features, &features, &unknown);
    for (unsigned i = 0; tw_cpu_feature_name(i); i++)
        n += tw_cpu_test(&features, i);
    return n;
}

/* Adds a target unless it is there, behind those that use no more features than it: the runtime
 * takes the last one that it can. */
static void add_variant(tw_compilation *c, const tw_target *target)
{
    size_t at = c->n_variants;
    for (size_t i = 0; i < c->n_variants; i++)
        if (!strcmp(c->variants[i].target.name, target->name))
            return;
    for (; at && count_features(&c->variants[at - 1].target) > count_features(target); at--)
        c->variants[at] = c->variants[at - 1];
    c->variants[at] = (tw_variant){.target = *target};
    c->n_variants++;
}

static bool find_targets(tw_compilation *c)
{
    const tw_compile_options *o = c->options;
    size_t n = o->n_cpus ? o->n_cpus : 1;
    c->variants = TW_NEW_ARRAY(tw_context_arena(c->ctx), tw_variant, n);
    c->n_variants = 0;
    for (size_t i = 0; i < n; i++) {
        tw_target target;
        if (!tw_target_resolve(c->ctx, o->n_cpus ? o->cpus[i] : "host", &target))
            return false;
        if (i && target.arch != c->variants[0].target.arch)
            return tw_error(c->ctx, NULL, "'%s' and '%s' do not go into one file",
                            c->variants[0].target.name, target.name);
        add_variant(c, &target);
    }
    for (size_t i = 0; i < c->n_variants; i++)
        c->variants[i].suffix =
            c->n_variants == 1 ? "" : tw_arena_printf(tw_context_arena(c->ctx), ".%zu", i);
    return true;
}

/* The passes that are off, and with `precise` the one that puts sums of attention in another order.
 */
static const char *const *disabled_passes(tw_compilation *c)
{
    const char *const *given = c->options->passes.disable;
    size_t n = 0;
    if (!c->options->precise)
        return given;
    while (given && given[n])
        n++;
    const char **all = TW_NEW_ARRAY(tw_context_arena(c->ctx), const char *, n + 2);
    for (size_t i = 0; i < n; i++)
        all[i] = given[i];
    all[n] = "fuse-attention";
    return all;
}

static bool run_passes(tw_compilation *c, tw_op *module, const char *pipeline, void *user)
{
    tw_pipeline_options passes = c->options->passes;
    passes.user = user;
    passes.disable = disabled_passes(c);
    return tw_run_pipeline(c->ctx, module, pipeline, &passes);
}

static bool read_signature(tw_compilation *c)
{
    tw_op *main = tw_core_lookup(c->graph, "main");
    if (!main)
        return tw_error(c->ctx, c->graph->loc, "the module has no function @main");
    c->signature = tw_core_func_type(main);
    return true;
}

/* For graph passes, which serve all targets: the widest vector. */
static void note_lanes(tw_compilation *c)
{
    for (size_t i = 0; i < c->n_variants; i++) {
        unsigned lanes = tw_target_lanes(&c->variants[i].target, 32);
        c->transforms.lanes = lanes > c->transforms.lanes ? lanes : c->transforms.lanes;
    }
}

static bool compile_graph(tw_compilation *c)
{
    if (!c->n_variants && !find_targets(c))
        return false;
    note_lanes(c);
    const tw_compile_options *o = c->options;
    const char *pipeline = o->pipeline ? o->pipeline : tw_graph_pipeline(o->opt_level);
    double start = tw_seconds_now();
    return end_stage(c->ctx, o, "graph passes", start, run_passes(c, c->graph, pipeline, c));
}

static bool make_loops(tw_compilation *c)
{
    if (!read_signature(c) ||
        !run_passes(c, c->graph, tw_lowering_pipeline(c->options->opt_level), c) ||
        !run_passes(c, c->graph, "func(place-constants)", c))
        return false;
    for (size_t i = 0; i < c->n_variants; i++) {
        tw_variant *v = &c->variants[i];
        tw_rule_options rule_options = {.target = &v->target, .precise = c->options->precise};
        v->module =
            i + 1 < c->n_variants ? tw_op_clone(tw_cloner_create(c->ctx), c->graph) : c->graph;
        if (!run_passes(c, v->module, tw_loop_pipeline(c->options->opt_level), &rule_options))
            return false;
    }
    return true;
}

static bool compile_loops(tw_compilation *c)
{
    double start = tw_seconds_now();
    return end_stage(c->ctx, c->options, "lowering and loop passes", start, make_loops(c));
}

static bool make_code(tw_compilation *c, tw_code_form form)
{
    unsigned threads = c->options->threads ? c->options->threads : tw_default_threads();
    for (size_t i = 0; i < c->n_variants; i++) {
        tw_variant *v = &c->variants[i];
        tw_codegen_options options = {.target = &v->target,
                                      .form = form,
                                      .opt_level = (unsigned)c->options->opt_level,
                                      .threads = threads,
                                      .precise = c->options->precise,
                                      .suffix = v->suffix};
        if (!tw_codegen_module(c->ctx, v->module, &options, &v->code))
            return false;
    }
    return true;
}

static bool generate_code(tw_compilation *c, tw_code_form form)
{
    double start = tw_seconds_now();
    return end_stage(c->ctx, c->options, "code generation", start, make_code(c, form));
}

bool tw_compile_module(tw_compilation *c)
{
    return compile_graph(c) && compile_loops(c) && generate_code(c, TW_CODE_OBJECT);
}

/* ---- Output ---- */

typedef struct text_parts {
    const char *path;
    const char *const *parts;
    const size_t *sizes;
    size_t n;
} text_parts;

static bool write_parts(tw_context *ctx, void *data, int fd)
{
    const text_parts *text = data;
    for (size_t i = 0; i < text->n; i++)
        if (!tw_write_all(fd, text->parts[i], text->sizes[i]))
            return tw_error(ctx, NULL, "%s: %s", text->path, strerror(errno));
    return true;
}

static bool write_text(tw_context *ctx, const char *path, const char *const *parts,
                       const size_t *sizes, size_t n)
{
    text_parts text = {path, parts, sizes, n};
    return tw_artifact_replace_file(ctx, path, 0666, write_parts, &text);
}

static bool write_ir(tw_compilation *c, tw_op *module, const char *path)
{
    enum { USUAL_ELIDE = 256 };
    size_t elide = c->options->elide ? c->options->elide : USUAL_ELIDE;
    const char *text = tw_print(c->ctx, module, &(tw_print_options){.elide = elide});
    size_t size = strlen(text);
    return write_text(c->ctx, path, &text, &size, 1);
}

static bool write_code_text(tw_compilation *c, const char *path)
{
    size_t n = 0;
    for (size_t v = 0; v < c->n_variants; v++)
        n += c->variants[v].code.n_pieces;
    const char **parts = TW_NEW_ARRAY(tw_context_arena(c->ctx), const char *, n);
    size_t *sizes = TW_NEW_ARRAY(tw_context_arena(c->ctx), size_t, n);
    n = 0;
    for (size_t v = 0; v < c->n_variants; v++)
        for (size_t i = 0; i < c->variants[v].code.n_pieces; i++) {
            parts[n] = (const char *)c->variants[v].code.pieces[i].bytes;
            sizes[n++] = c->variants[v].code.pieces[i].size;
        }
    return write_text(c->ctx, path, parts, sizes, n);
}

static bool link_model(tw_compilation *c, const char *path)
{
    tw_artifact artifact;
    return tw_describe_artifact(c, &artifact) && tw_artifact_write(c->ctx, &artifact, path);
}

static bool link_object(tw_compilation *c, const char *path)
{
    tw_artifact artifact;
    const char *prefix = tw_artifact_prefix(c->ctx, path);
    return tw_describe_artifact(c, &artifact) &&
           tw_artifact_write_object(c->ctx, &artifact, prefix, path) &&
           (!c->options->header ||
            tw_artifact_write_header(c->ctx, &artifact, prefix, c->options->header));
}

/* A nameless file that is written, and closed unless all is well. */
typedef struct temporary {
    tw_compilation *c;
    tw_artifact artifact;
    int fd;
    bool done;
} temporary;

static bool write_temporary(void *data)
{
    temporary *t = data;
    return t->done = tw_artifact_write_fd(t->c->ctx, &t->artifact, t->fd);
}

static void end_temporary(void *data)
{
    temporary *t = data;
    if (!t->done)
        close(t->fd);
}

int tw_link_temporary(tw_compilation *c)
{
    temporary t = {.c = c};
    if (!tw_describe_artifact(c, &t.artifact))
        return -1;
    t.fd = tw_artifact_temporary(c->ctx, t.artifact.model.constants_size);
    bool fine = t.fd >= 0 && tw_context_finally(c->ctx, write_temporary, end_temporary, &t);
    return fine ? t.fd : -1;
}

static bool link_files(tw_compilation *c, const char *path)
{
    double start = tw_seconds_now();
    bool fine = c->options->emit == TW_EMIT_OBJECT ? link_object(c, path) : link_model(c, path);
    return end_stage(c->ctx, c->options, "link", start, fine);
}

static bool emit(tw_compilation *c, const char *path)
{
    switch (c->options->emit) {
    case TW_EMIT_MODEL:
    case TW_EMIT_OBJECT:
        return tw_compile_module(c) && link_files(c, path);
    case TW_EMIT_ASM:
        return compile_graph(c) && compile_loops(c) && generate_code(c, TW_CODE_ASM) &&
               write_code_text(c, path);
    case TW_EMIT_LLVM:
        return compile_graph(c) && compile_loops(c) && generate_code(c, TW_CODE_LLVM) &&
               write_code_text(c, path);
    case TW_EMIT_LOOP:
        if (c->n_variants > 1)
            return tw_error(c->ctx, NULL, "loop IR is for one CPU, not for %zu", c->n_variants);
        return compile_graph(c) && compile_loops(c) && write_ir(c, c->variants[0].module, path);
    case TW_EMIT_GRAPH:
        return compile_graph(c) && write_ir(c, c->graph, path);
    }
    return tw_error(c->ctx, NULL, "there is nothing of that kind to emit");
}

/* ---- Public functions ---- */

static bool start(tw_compilation *c, tw_context *ctx, const char *model,
                  const tw_compile_options *options, const char *output)
{
    const char *slash = strrchr(model, '/');
    *c = (tw_compilation){.ctx = ctx, .options = options, .name = slash ? slash + 1 : model};
    if (options->opt_level < 0 || options->opt_level > 3)
        return tw_error(ctx, NULL, "optimisation level %d is not in 0..3", options->opt_level);
    if (!tw_register_all(ctx) || !find_targets(c))
        return false;
    c->graph = import(ctx, model, options, output);
    return c->graph != NULL;
}

/* Work that runs under a handler for exhausted memory; one per public function. */
typedef struct job {
    tw_context *ctx;
    const char *model, *output;
    const tw_compile_options *options;
    int *fd;
    tw_op **module;
} job;

/* Nothing is lost by a mistake in the command: an output never replaces the model or another
 * output.
 */
static bool check_paths(const job *j)
{
    const char *header = header_of(j->options);
    if (tw_file_same(j->output, j->model) || (header && tw_file_same(header, j->model)))
        return tw_error(j->ctx, NULL, "%s is the model; the output needs another name", j->model);
    return !header || !tw_file_same(header, j->output) ||
           tw_error(j->ctx, NULL, "%s: the object file and its header need different names",
                    header);
}

static bool compile_to_file(job *j)
{
    tw_compilation c;
    return check_paths(j) && start(&c, j->ctx, j->model, j->options, j->output) &&
           emit(&c, j->output);
}

static bool compile_to_fd(job *j)
{
    tw_compilation c;
    if (!start(&c, j->ctx, j->model, j->options, NULL) || !tw_compile_module(&c))
        return false;
    double begin = tw_seconds_now();
    *j->fd = tw_link_temporary(&c);
    return end_stage(j->ctx, j->options, "link", begin, *j->fd >= 0);
}

static bool import_only(job *j)
{
    *j->module = tw_register_all(j->ctx) ? import(j->ctx, j->model, j->options, NULL) : NULL;
    return *j->module != NULL;
}

static bool import_and_optimize(job *j)
{
    tw_compilation c;
    bool fine = start(&c, j->ctx, j->model, j->options, NULL) && compile_graph(&c);
    *j->module = fine ? c.graph : NULL;
    return fine;
}

static bool guarded(job *j, bool (*work)(job *j))
{
    jmp_buf handler;
    jmp_buf *volatile earlier = tw_context_guard(j->ctx, NULL);
    volatile bool fine = false;
    if (setjmp(handler) == 0) {
        tw_context_guard(j->ctx, &handler);
        fine = work(j);
    } else {
        tw_out_of_memory(j->ctx);
    }
    tw_context_guard(j->ctx, earlier);
    return fine;
}

bool tw_compile_file(tw_context *ctx, const char *model, const tw_compile_options *options,
                     const char *output)
{
    job j = {.ctx = ctx, .model = model, .options = options, .output = output};
    return guarded(&j, compile_to_file);
}

bool tw_compile_to_fd(tw_context *ctx, const char *model, const tw_compile_options *options,
                      int *fd)
{
    job j = {.ctx = ctx, .model = model, .options = options, .fd = fd};
    *fd = -1;
    return guarded(&j, compile_to_fd);
}

static tw_op *make_module(tw_context *ctx, const char *model, const tw_compile_options *options,
                          bool (*work)(job *j))
{
    tw_op *module = NULL;
    job j = {.ctx = ctx, .model = model, .options = options, .module = &module};
    guarded(&j, work);
    return module;
}

tw_op *tw_import_file(tw_context *ctx, const char *model, const tw_compile_options *options)
{
    return make_module(ctx, model, options, import_only);
}

tw_op *tw_optimize_file(tw_context *ctx, const char *model, const tw_compile_options *options)
{
    return make_module(ctx, model, options, import_and_optimize);
}
