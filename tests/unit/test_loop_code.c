/* Random kernels compiled as models are, loaded and run, against the interpreter of the unscheduled
 * kernels: for this machine and older levels, with several optimisation levels and threads.
 *
 * TILEWRIGHT_KERNELS=N tries N kernels instead of a few; TILEWRIGHT_KERNEL=SEED tries that one in
 * all configurations and prints it when it fails. */
#include "random_kernel_run.h"

#include "driver/compilation.h"
#include "tilewright/compiler.h"
#include "tilewright/runtime.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FEW_KERNELS = 40 };

static const struct {
    const char *cpu;
    int level;
    unsigned threads;
} configurations[] = {{"host", 3, 1}, {"x86-64-v3", 3, 2}, {"x86-64-v2", 1, 1}, {"x86-64-v3", 1, 1},
                      {"host", 1, 3}, {"x86-64-v2", 3, 2}, {"host", 0, 1}};
enum { N_CONFIGURATIONS = sizeof configurations / sizeof *configurations };

/* A loaded model of the module (which is used up); NULL with *fits false when this machine cannot
 * run code for that CPU. */
static tw_model *compile(tw_context *ctx, tw_op *module, const char *cpu, int level, bool *fits)
{
    tw_compile_options options = {
        .opt_level = level, .cpus = &cpu, .n_cpus = 1, .threads = 1, .pipeline = "fuse-ops"};
    tw_compilation c = {.ctx = ctx, .options = &options, .name = "random", .graph = module};
    tw_artifact artifact;
    tw_model *model = NULL;
    *fits = true;
    if (!tw_compile_module(&c) || !tw_describe_artifact(&c, &artifact))
        return NULL;
    int fd = tw_artifact_temporary(ctx, artifact.model.constants_size);
    if (fd >= 0 && tw_artifact_write_fd(ctx, &artifact, fd)) {
        tw_status status = tw_model_load_fd(fd, "random", NULL, &model);
        *fits = status != TW_STATUS_UNSUPPORTED;
        if (status != TW_STATUS_OK)
            fprintf(stderr, "%s\n", tw_last_error());
    }
    close(fd);
    return model;
}

static bool run_model(tw_model *model, rk_memory *m, unsigned threads)
{
    tw_session *session;
    tw_session_options options = {.threads = threads, .unaligned = true};
    bool fine = tw_session_create(model, &options, &session) == TW_STATUS_OK;
    for (unsigned i = 0; fine && i < m->n_inputs; i++)
        fine = tw_session_set_input(session, i, m->buffers[i].data, m->buffers[i].size) ==
               TW_STATUS_OK;
    for (unsigned i = m->n_inputs; fine && i < m->n; i++)
        fine = tw_session_set_output(session, i - m->n_inputs, m->buffers[i].data,
                                     m->buffers[i].size) == TW_STATUS_OK;
    fine = fine && tw_session_run(session) == TW_STATUS_OK;
    if (!fine)
        fprintf(stderr, "%s\n", tw_last_error());
    tw_session_destroy(session);
    return fine;
}

/* The first element that differs. */
static void show_difference(const random_kernel *r, const rk_memory *want, const rk_memory *got)
{
    for (unsigned i = want->n_inputs; i < want->n; i++)
        for (size_t k = 0; k < want->counts[i]; k++) {
            double x = rk_element(want, i, k), y = rk_element(got, i, k);
            if (x == y || (isnan(x) && isnan(y)))
                continue;
            fprintf(stderr, "result %u, element %zu of %zu: %.9g, not %.9g%s\n", i - want->n_inputs,
                    k, want->counts[i], y, x, r->exact ? "" : " (rounded)");
            return;
        }
}

static tw_op *parse(tw_context *ctx, const random_kernel *r)
{
    tw_op *module = tw_parse(ctx, r->text, strlen(r->text), "random");
    assert_non_null(module);
    return module;
}

static bool check_configuration(const random_kernel *r, unsigned which)
{
    tw_context *ctx = tw_context_create(0);
    assert_true(tw_register_all(ctx));
    tw_op *reference = parse(ctx, r);
    rk_memory want;
    assert_true(tw_run_pipeline(ctx, reference, "fuse-ops,lower-to-loops", NULL));
    assert_true(rk_run_main(ctx, r, reference, false, &want));
    rk_memory got = rk_make_memory(ctx, r, tw_core_lookup(reference, "main"));
    bool fits;
    tw_model *model =
        compile(ctx, parse(ctx, r), configurations[which].cpu, configurations[which].level, &fits);
    bool fine = !fits || (model && run_model(model, &got, configurations[which].threads) &&
                          rk_same_results(r, &want, &got));
    if (!fine) {
        print_error("TILEWRIGHT_KERNEL=%llu (%s) for %s, level %d\n", (unsigned long long)r->seed,
                    r->family, configurations[which].cpu, configurations[which].level);
        if (model)
            show_difference(r, &want, &got);
        for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
            fprintf(stderr, "%s\n", tw_diagnostic_text(ctx, d));
        if (getenv("TILEWRIGHT_KERNEL"))
            fprintf(stderr, "%s\n", r->text);
    }
    tw_model_free(model);
    tw_context_destroy(ctx);
    return fine;
}

static void code_computes_what_the_interpreter_does(void **state)
{
    (void)state;
    const char *one = getenv("TILEWRIGHT_KERNEL"), *many = getenv("TILEWRIGHT_KERNELS");
    unsigned n = many ? (unsigned)atoi(many) : FEW_KERNELS, wrong = 0;
    random_kernel r;
    if (one) {
        random_kernel_make(&r, strtoull(one, NULL, 0));
        for (unsigned i = 0; i < N_CONFIGURATIONS; i++)
            wrong += !check_configuration(&r, i);
    }
    for (unsigned seed = 1; !one && seed <= n; seed++) {
        random_kernel_make(&r, seed + 1000000);
        wrong += !check_configuration(&r, seed % N_CONFIGURATIONS);
    }
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(code_computes_what_the_interpreter_does)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
