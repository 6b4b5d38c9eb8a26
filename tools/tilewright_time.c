/* tilewright_time.c: the time of one scheduled kernel, compiled for this machine.
 *
 * The kernel goes through the passes behind scheduling, into a model whose @main calls it, and runs
 * on ones until a second has passed; the best run counts. */
#include "tilewright.h"

#include "base/arena.h"
#include "base/clock.h"
#include "codegen/llvm/codegen.h"
#include "codegen/llvm/target.h"
#include "dialect/core/core.h"
#include "driver/pipeline.h"
#include "link/artifact.h"

#include <string.h>
#include <unistd.h>

enum { MIN_RUNS = 3, MAX_RUNS = 1000 };

/* A module of the kernel and a function that passes its arguments on to it; NULL after a
 * diagnostic. */
static tw_op *module_of(tw_context *ctx, const tw_op *kernel)
{
    tw_arena *arena = tw_context_arena(ctx);
    const tw_region *body = &kernel->regions[0];
    const char *types = "", *args = "";
    for (unsigned i = 0; i < body->n_args; i++) {
        const char *comma = i ? ", " : "";
        types = tw_arena_printf(arena, "%s%s%%a%u: %s", types, comma, i,
                                tw_print_type(ctx, body->args[i]->type));
        args = tw_arena_printf(arena, "%s%s%%a%u", args, comma, i);
    }
    const char *text = tw_arena_printf(arena,
                                       "module {\n%s\nfunc @main(%s) attributes {outputs = %lld} "
                                       "{\n  call @%s(%s)\n  return\n}\n}\n",
                                       tw_print(ctx, kernel, &(tw_print_options){0}), types,
                                       (long long)tw_op_int(kernel, "outputs", 0),
                                       tw_op_string(kernel, "sym_name", ""), args);
    tw_op *module = tw_parse(ctx, text, strlen(text), "kernel");
    return module && tw_verify(ctx, module) ? module : NULL;
}

/* The passes behind scheduling. */
static bool lower(tw_context *ctx, tw_op *module)
{
    const char *passes = strstr(tw_loop_pipeline(2), "loop.kernel(");
    return tw_run_pipeline(ctx, module, passes ? passes : "", &(tw_pipeline_options){0});
}

static bool describe(tw_context *ctx, const tw_region *body, tw_abi_tensor *out)
{
    for (unsigned i = 0; i < body->n_args; i++) {
        tw_type type = body->args[i]->type;
        int64_t count, *dims = TW_NEW_ARRAY(tw_context_arena(ctx), int64_t, type->rank + 1);
        if (type->kind != TW_TYPE_BUFFER || !tw_type_static_count(type, &count))
            return tw_error(ctx, NULL, "a kernel with open sizes cannot be timed");
        for (unsigned k = 0; k < type->rank; k++)
            dims[k] = tw_type_dim(type, k);
        out[i] = (tw_abi_tensor){.name = tw_arena_printf(tw_context_arena(ctx), "a%u", i),
                                 .elem = type->elem,
                                 .rank = type->rank,
                                 .dims = dims};
    }
    return true;
}

/* The module as a loaded model; NULL after a diagnostic. */
static tw_model *load(tw_context *ctx, tw_op *module, const char *cpu)
{
    tw_arena *arena = tw_context_arena(ctx);
    tw_target target;
    tw_codegen_result code = {0};
    tw_codegen_options options = {
        .target = &target, .form = TW_CODE_OBJECT, .opt_level = 2, .threads = 1};
    tw_op *main_func = tw_core_lookup(module, "main");
    const tw_region *body = tw_core_body(main_func);
    unsigned outputs = (unsigned)tw_op_int(main_func, "outputs", 0);
    tw_abi_tensor *tensors = TW_NEW_ARRAY(arena, tw_abi_tensor, body->n_args + 1);
    if (!describe(ctx, body, tensors) || !tw_target_resolve(ctx, cpu, &target) ||
        !tw_codegen_module(ctx, module, &options, &code))
        return NULL;
    tw_abi_kernel kernel = {.name = "kernel", .operators = ""};
    tw_abi_variant variant = {.cpu = cpu,
                              .arena_size = (uint64_t)tw_op_int(main_func, "arena_size", 0),
                              .n_kernels = 1,
                              .kernels = &kernel};
    tw_artifact_code entry = {.entry = code.entry, .plan = code.plan};
    tw_bytes *objects = TW_NEW_ARRAY(arena, tw_bytes, code.n_pieces);
    for (size_t i = 0; i < code.n_pieces; i++)
        objects[i] = (tw_bytes){code.pieces[i].bytes, code.pieces[i].size};
    tw_artifact artifact = {.model = {.name = "kernel",
                                      .target = "x86_64-unknown-linux-gnu",
                                      .n_inputs = body->n_args - outputs,
                                      .n_outputs = outputs,
                                      .n_variants = 1,
                                      .inputs = tensors,
                                      .outputs = tensors + body->n_args - outputs,
                                      .variants = &variant},
                            .code = &entry,
                            .objects = objects,
                            .n_objects = code.n_pieces};
    tw_model *model = NULL;
    int fd = tw_artifact_temporary(ctx, 0);
    if (fd >= 0 && tw_artifact_write_fd(ctx, &artifact, fd) &&
        tw_model_load_fd(fd, "kernel", NULL, &model) != TW_STATUS_OK)
        tw_runtime_error(ctx);
    if (fd >= 0)
        close(fd);
    return model;
}

/* Best of the runs of a second. */
static bool measure(tw_context *ctx, tw_session *session, double *seconds)
{
    double start = tw_seconds_now();
    *seconds = 0;
    for (int i = 0; i < MIN_RUNS || (i < MAX_RUNS && tw_seconds_now() - start < 1); i++) {
        double before = tw_seconds_now();
        if (tw_session_run(session) != TW_STATUS_OK)
            return tw_runtime_error(ctx);
        double took = tw_seconds_now() - before;
        *seconds = i == 0 || took < *seconds ? took : *seconds;
    }
    return true;
}

static bool run_model(tw_context *ctx, tw_model *model, const tw_op *kernel, unsigned threads,
                      double *seconds)
{
    tw_session_options options = {.threads = threads};
    tw_session *session;
    if (tw_session_create(model, &options, &session) != TW_STATUS_OK)
        return tw_runtime_error(ctx);
    size_t inputs = tw_model_get_info(model)->inputs;
    bool good = true;
    for (size_t i = 0; good && i < inputs; i++) {
        tw_type type = kernel->regions[0].args[i]->type;
        int64_t count = 0;
        tw_type_static_count(type, &count);
        size_t size = (size_t)count * tw_elem_bits(type->elem) / 8;
        unsigned char *ones = tw_context_alloc(ctx, size + 1);
        for (int64_t k = 0; type->elem == TW_F32 && k < count; k++)
            ((float *)ones)[k] = 1;
        good =
            tw_session_set_input(session, i, ones, size) == TW_STATUS_OK || tw_runtime_error(ctx);
    }
    good = good && measure(ctx, session, seconds);
    tw_session_destroy(session);
    return good;
}

bool tw_time_kernel(tw_context *ctx, const tw_op *kernel, unsigned threads, double *seconds)
{
    tw_op *module = module_of(ctx, kernel);
    tw_model *model = module && lower(ctx, module) ? load(ctx, module, "host") : NULL;
    bool good = model && run_model(ctx, model, kernel, threads, seconds);
    tw_model_free(model);
    return good;
}
