/* run_module.c: a module is lowered, compiled, loaded from memory and run. */
#include "driver/run_module.h"

#include "dialect/core/core.h"
#include "driver/compilation.h"
#include "driver/pipeline.h"
#include "tilewright/runtime.h"

#include <unistd.h>

bool tw_interpret_module(tw_context *ctx, tw_op *module, const tw_interp_buffer *buffers, size_t n)
{
    tw_pipeline_options passes = {0};
    return tw_run_pipeline(ctx, module, tw_lowering_pipeline(), &passes) &&
           tw_interp_run(ctx, tw_core_lookup(module, "main"), buffers, (unsigned)n, NULL);
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

bool tw_run_module(tw_context *ctx, tw_op *module, const tw_compile_options *options,
                   const tw_interp_buffer *buffers, size_t n)
{
    (void)n;
    /* For this machine, and without the user's dumps and switches. */
    tw_compile_options own = {.opt_level = options->opt_level ? options->opt_level : 1,
                              .precise = options->precise,
                              .threads = options->threads,
                              .pipeline = "fuse-ops"};
    tw_compilation c = {.ctx = ctx, .options = &own, .name = "constants", .graph = module};
    tw_artifact artifact;
    if (!tw_compile_module(&c) || !tw_describe_artifact(&c, &artifact))
        return false;
    int fd = tw_artifact_temporary(ctx, artifact.model.constants_size);
    if (fd < 0)
        return false;
    tw_model *model = NULL;
    bool fine = tw_artifact_write_fd(ctx, &artifact, fd);
    if (fine && tw_model_load_fd(fd, "constants", NULL, &model) != TW_STATUS_OK)
        fine = tw_error(ctx, NULL, "constants cannot be computed: %s", tw_last_error());
    fine = fine && run_session(ctx, model, buffers);
    tw_model_free(model);
    close(fd);
    return fine;
}
