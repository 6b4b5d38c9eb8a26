/* Property tests of the graph passes: on random graphs each pass alone, and the passes in a row,
 * keep the results, and running a pass again changes nothing.
 *
 * TILEWRIGHT_GRAPHS=N tries N graphs instead of a few; TILEWRIGHT_GRAPH=SEED tries that one and
 * prints it when it fails. */
#include "random_graph.h"

#include "tilewright/compiler.h"
#include "interp/interp.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const char all_passes[] =
    "canonicalize,eliminate-common-subexpr,sink-reshapes,simplify-inference,canonicalize,"
    "convert-layout,canonicalize,find-rolls,sink-norms,fuse-attention,join-products,"
    "join-convolutions,pack-weights{panel=8},"
    "eliminate-common-subexpr,dce,fuse-ops";

static const char *const pipelines[] = {
    "canonicalize",
    "eliminate-common-subexpr",
    "dce",
    "simplify-inference",
    "convert-layout",
    "pack-weights{panel=8}",
    "sink-reshapes",
    "fuse-ops",
    "fuse-attention",
    "join-products",
    "join-convolutions",
    "find-rolls",
    "sink-norms",
    all_passes,
};
enum { N_PIPELINES = sizeof pipelines / sizeof *pipelines };

enum { MAX_ARGS = 8, FEW_GRAPHS = 40 };

/* What a function gave. */
typedef struct results {
    unsigned n;
    float *data[MAX_ARGS];
    size_t count[MAX_ARGS];
} results;

static void show(tw_context *ctx, uint64_t seed, const char *pipeline, const tw_op *module)
{
    print_error("TILEWRIGHT_GRAPH=%llu, pipeline %s\n", (unsigned long long)seed, pipeline);
    for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
        print_error("%s\n", tw_diagnostic_text(ctx, d));
    if (getenv("TILEWRIGHT_GRAPH"))
        fprintf(stderr, "%s\n", tw_print(ctx, module, NULL)); /* print_error cuts off */
}

static tw_op *main_of(tw_op *module)
{
    return tw_core_lookup(module, "main");
}

/* Runs a copy of the module that is lowered; inputs are the same for all. False on errors. */
static bool evaluate(tw_context *ctx, tw_op *module, const char *lowering, results *out)
{
    tw_interp_buffer buffers[MAX_ARGS];
    tw_op *copy = tw_op_clone(tw_cloner_create(ctx), module);
    if (!tw_run_pipeline(ctx, copy, lowering, NULL))
        return false;
    tw_op *func = main_of(copy);
    tw_region *body = tw_core_body(func);
    unsigned n = body->n_args, n_out = (unsigned)tw_op_int(func, "outputs", 0);
    uint64_t state = 12345;
    *out = (results){.n = n_out};
    assert_true(n <= MAX_ARGS);
    for (unsigned i = 0; i < n; i++) {
        int64_t count = 0;
        assert_true(tw_type_static_count(body->args[i]->type, &count));
        float *data = tw_context_alloc(ctx, (size_t)count * sizeof *data + 1);
        for (int64_t k = 0; k < count; k++) {
            state = state * 6364136223846793005ull + 1442695040888963407ull;
            data[k] = (float)(int)(state >> 59) / 8.0f - 2.0f;
        }
        buffers[i] = (tw_interp_buffer){data, (size_t)count * sizeof *data};
        if (i >= n - n_out) {
            out->data[i - (n - n_out)] = data;
            out->count[i - (n - n_out)] = (size_t)count;
        }
    }
    return tw_interp_run(ctx, func, buffers, n, NULL);
}

/* Whether all results agree to a small part of each result's largest value. */
static bool same_results(const results *a, const results *b)
{
    for (unsigned i = 0; i < a->n; i++) {
        float largest = 1;
        if (a->n != b->n || a->count[i] != b->count[i])
            return false;
        for (size_t k = 0; k < a->count[i]; k++)
            largest = fmaxf(largest, fabsf(a->data[i][k]));
        for (size_t k = 0; k < a->count[i]; k++)
            if (!(fabsf(a->data[i][k] - b->data[i][k]) <= 2e-4f * largest))
                return false;
    }
    return true;
}

static bool check_pipeline(tw_context *ctx, tw_op *module, const results *expected,
                           const char *pipeline)
{
    tw_pipeline_options options = {.verify_each = true};
    results got;
    tw_op *copy = tw_op_clone(tw_cloner_create(ctx), module);
    if (!tw_run_pipeline(ctx, copy, pipeline, &options) ||
        !evaluate(ctx, copy, "lower-to-loops{in-place}", &got) || !same_results(expected, &got))
        return false;
    if (strchr(pipeline, ','))
        return true;
    const char *once = tw_print(ctx, copy, NULL);
    if (!tw_run_pipeline(ctx, copy, pipeline, &options))
        return false;
    if (!strcmp(once, tw_print(ctx, copy, NULL)))
        return true;
    print_error("running it again changes something\n");
    return false;
}

/* Arithmetic of extreme graphs may overflow; such a graph says nothing. */
static bool is_finite(const results *r)
{
    for (unsigned i = 0; i < r->n; i++)
        for (size_t k = 0; k < r->count[i]; k++)
            if (!isfinite(r->data[i][k]) || fabsf(r->data[i][k]) > 1e6f)
                return false;
    return true;
}

/* Whether the graph was of use; all failures end the test. */
static bool check_graph(uint64_t seed)
{
    tw_context *ctx = tw_context_create(0);
    results expected;
    assert_true(tw_register_all(ctx));
    tw_op *module = random_graph_module(ctx, seed);
    bool fine = tw_verify(ctx, module) && evaluate(ctx, module, "lower-to-loops", &expected);
    if (!fine)
        show(ctx, seed, "(none)", module);
    assert_true(fine);
    bool useful = is_finite(&expected);
    for (unsigned i = 0; useful && i < N_PIPELINES; i++) {
        fine = check_pipeline(ctx, module, &expected, pipelines[i]);
        if (!fine)
            show(ctx, seed, pipelines[i], module);
        assert_true(fine);
    }
    tw_context_destroy(ctx);
    return useful;
}

static void passes_keep_results(void **state)
{
    (void)state;
    const char *one = getenv("TILEWRIGHT_GRAPH"), *many = getenv("TILEWRIGHT_GRAPHS");
    if (one) {
        check_graph(strtoull(one, NULL, 0));
        return;
    }
    unsigned n = many ? (unsigned)atoi(many) : FEW_GRAPHS, useful = 0;
    for (unsigned seed = 1; seed <= n; seed++)
        useful += check_graph(seed);
    assert_true(useful * 2 > n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(passes_keep_results)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
