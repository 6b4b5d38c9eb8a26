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

static bool run_session(tw_context *ctx, tw_model *model, const tw_interp_buffer *buffers)
{
    const tw_model_info *info = tw_model_get_info(model);
    tw_session *session;
    static const tw_session_options options = {.unaligned = true}; /* constants of mapped files */
    bool fine = tw_session_create(model, &options, &session) == TW_STATUS_OK;
    for (size_t i = 0; fine && i < info->inputs; i++)
        fine = tw_session_set_input(session, i, buffers[i].data, buffers[i].size) == TW_STATUS_OK;
    for (size_t i = 0; fine && i < info->outputs; i++)
        fine = tw_session_set_output(session, i, buffers[info->inputs + i].data,
                                     buffers[info->inputs + i].size) == TW_STATUS_OK;
    fine = fine && tw_session_run(session) == TW_STATUS_OK;
    if (!fine)
        tw_error(ctx, NULL, "constants cannot be computed: %s", tw_last_error());
    tw_session_destroy(session);
    return fine;
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
    int fd = tw_compile_module(&c) ? tw_link_temporary(&c) : -1;
    if (fd < 0)
        return false;
    tw_model *model = NULL;
    bool fine = true;
    if (tw_model_load_fd(fd, "constants", NULL, &model) != TW_STATUS_OK)
        fine = tw_error(ctx, NULL, "constants cannot be computed: %s", tw_last_error());
    fine = fine && run_session(ctx, model, buffers);
    tw_model_free(model);
    close(fd);
    return fine;
}

bool tw_run_module(tw_context *ctx, tw_op *module, const tw_compile_options *options,
                   const tw_interp_buffer *buffers, size_t n)
{
    tw_op *lowered = tw_op_clone(tw_cloner_create(ctx), module);
    if (!tw_run_pipeline(ctx, lowered, tw_lowering_pipeline(), NULL))
        return false;
    if (work_of(ctx, lowered) > MAX_INTERPRETED)
        return run_compiled(ctx, module, options, buffers);
    return tw_interp_run(ctx, tw_core_lookup(lowered, "main"), buffers, (unsigned)n, NULL);
}
