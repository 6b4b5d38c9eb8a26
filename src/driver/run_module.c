/* run_module.c: a module is lowered and interpreted, or compiled, loaded from memory and run.
 *
 * Compiling takes some 50 milliseconds whatever there is to compute; the interpreter manages that
 * time for a few hundred thousand operations. */
#include "driver/run_module.h"

#include "base/checked.h"
#include "base/map.h"
#include "dialect/core/core.h"
#include "dialect/loop/loop.h"
#include "driver/compilation.h"
#include "driver/pipeline.h"
#include "tilewright/runtime.h"

#include <unistd.h>

enum { MAX_INTERPRETED = 1 << 18 };

/* Operations and bytes of all kernels that @main of a lowered module calls. */
static int64_t work_of(tw_context *ctx, tw_op *module)
{
    tw_map kernels = tw_map_make(tw_context_arena(ctx));
    int64_t work = 0;
    for (tw_op *op = tw_core_body(module)->first; op; op = op->next)
        if (tw_is_loop(op, TW_LOOP_KERNEL))
            tw_map_put_str(&kernels, tw_op_string(op, "sym_name", ""), op);
    for (tw_op *op = tw_core_body(tw_core_lookup(module, "main"))->first; op; op = op->next) {
        const tw_op *kernel = tw_is_core(op, TW_CORE_CALL)
                                  ? tw_map_get_str(&kernels, tw_op_string(op, "callee", ""))
                                  : NULL;
        if (kernel && (!tw_add_i64(work, tw_op_int(kernel, "flops", 0), &work) ||
                       !tw_add_i64(work, tw_op_int(kernel, "bytes", 0), &work)))
            return INT64_MAX;
    }
    return work;
}

/* A compiled module on its way to results. */
typedef struct execution {
    tw_context *ctx;
    int fd;
    tw_model *model;
    tw_session *session;
    const tw_interp_buffer *buffers; /* inputs, then results */
} execution;

static bool execute(const tw_interp_buffer *buffers, tw_model *model, tw_session *session)
{
    const tw_model_info *info = tw_model_get_info(model);
    for (size_t i = 0; i < info->inputs; i++)
        if (tw_session_set_input(session, i, buffers[i].data, buffers[i].size) != TW_STATUS_OK)
            return false;
    for (size_t i = 0; i < info->outputs; i++) {
        const tw_interp_buffer *result = &buffers[info->inputs + i];
        if (tw_session_set_output(session, i, result->data, result->size) != TW_STATUS_OK)
            return false;
    }
    return tw_session_run(session) == TW_STATUS_OK;
}

static bool load_and_run(void *data)
{
    execution *e = data;
    static const tw_session_options options = {.unaligned = true}; /* constants of mapped files */
    return (tw_model_load_fd(e->fd, "constants", NULL, &e->model) == TW_STATUS_OK &&
            tw_session_create(e->model, &options, &e->session) == TW_STATUS_OK &&
            execute(e->buffers, e->model, e->session)) ||
           tw_error(e->ctx, NULL, "constants cannot be computed: %s", tw_last_error());
}

static void end_execution(void *data)
{
    execution *e = data;
    tw_session_destroy(e->session);
    tw_model_free(e->model);
    close(e->fd);
}

static bool run_compiled(tw_context *ctx, tw_op *module, const tw_compile_options *options,
                         const tw_interp_buffer *buffers)
{
    /* For this machine, and without the user's dumps and switches. */
    tw_compile_options own = {.opt_level = options->opt_level ? options->opt_level : 1,
                              .precise = options->precise,
                              .threads = options->threads,
                              .pipeline = "fuse-ops"};
    tw_compilation c = {.ctx = ctx, .options = &own, .name = "constants", .graph = module};
    execution e = {.ctx = ctx, .buffers = buffers};
    e.fd = tw_compile_module(&c) ? tw_link_temporary(&c) : -1;
    return e.fd >= 0 && tw_context_finally(ctx, load_and_run, end_execution, &e);
}

bool tw_run_module(tw_context *ctx, tw_op *module, const tw_compile_options *options,
                   const tw_interp_buffer *buffers, size_t n)
{
    tw_op *lowered = tw_op_clone(tw_cloner_create(ctx), module);
    if (!tw_run_pipeline(ctx, lowered, tw_lowering_pipeline(options->opt_level), NULL))
        return false;
    if (work_of(ctx, lowered) > MAX_INTERPRETED)
        return run_compiled(ctx, module, options, buffers);
    return tw_interp_run(ctx, tw_core_lookup(lowered, "main"), buffers, (unsigned)n, NULL);
}
