/* Property tests of the loop passes: random kernels give the same results as they go from blocks to
 * flat loops, after each pass, for each target, whatever the order of parallel iterations.
 *
 * TILEWRIGHT_KERNELS=N tries N kernels instead of a few; TILEWRIGHT_KERNEL=SEED tries that one and
 * prints it when it fails. */
#include "random_kernel_run.h"

#include "dialect/core/core.h"
#include "dialect/loop/loop.h"
#include "tilewright/compiler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FEW_KERNELS = 300 };

static void show(tw_context *ctx, const random_kernel *r, uint64_t seed, const char *passes,
                 const char *before, const tw_op *module)
{
    print_error("TILEWRIGHT_KERNEL=%llu (%s) after %s\n", (unsigned long long)seed, r->family,
                passes);
    for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
        fprintf(stderr, "%s\n", tw_diagnostic_text(ctx, d));
    if (getenv("TILEWRIGHT_KERNEL"))
        fprintf(stderr, "%s\nbefore:\n%s\nafter:\n%s\n", r->text, before,
                module ? tw_print(ctx, module, NULL) : "");
}

/* ---- Pipelines ----------------------------------------------------------------------- */

static const char *const levels[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};

/* The order of the compiler's own pipeline. */
static const char *const usual[] = {"place-allocs",     "compact-buffers", "simplify-loops",
                                    "specialize-loops", "vectorize-loops", "unroll-loops",
                                    "simplify-loops"};
enum { N_USUAL = sizeof usual / sizeof *usual };

/* Runs the pass, verifies, interprets, compares. */
static bool check_pass(tw_context *ctx, random_kernel *r, uint64_t seed, tw_op *module,
                       const char *pass, const rk_memory *want)
{
    const char *before = getenv("TILEWRIGHT_KERNEL") ? tw_print(ctx, module, NULL) : "";
    tw_pipeline_options options = {.verify_each = true};
    rk_memory got;
    bool fine = tw_run_pipeline(ctx, module, pass, &options) &&
                rk_run_main(ctx, r, module, rk_chance(r, 2), &got) &&
                rk_same_results(r, want, &got);
    if (!fine)
        show(ctx, r, seed, pass, before, module);
    return fine;
}

static bool check_kernel_pass(tw_context *ctx, random_kernel *r, uint64_t seed, tw_op *module,
                              const char *pass, const rk_memory *want)
{
    char text[64];
    snprintf(text, sizeof text, "loop.kernel(%s)", pass);
    return check_pass(ctx, r, seed, module, text, want);
}

static unsigned n_none, n_kernels, n_parallel;
static struct {
    const char *name;
    unsigned n;
} rules[] = {{"tiles", 0}, {"rows", 0}, {"nests", 0}};

static bool is_parallel(const tw_op *op)
{
    return tw_is_for_kind(op, "parallel");
}

static void count_rules(tw_context *ctx, tw_op *module)
{
    n_parallel += tw_loop_collect(ctx, module, is_parallel).n > 0;
    for (tw_op *op = tw_core_body(module)->first; op; op = op->next) {
        if (!tw_is_loop(op, TW_LOOP_KERNEL))
            continue;
        const char *rule = tw_op_string(op, "rule", "");
        n_kernels++;
        if (!strcmp(rule, "none")) {
            n_none++;
            fprintf(stderr, "no rule for @%s: %s\n", tw_op_string(op, "sym_name", ""),
                    tw_op_string(op, "refused", "beyond what rules handle"));
        }
        for (unsigned i = 0; i < sizeof rules / sizeof *rules; i++)
            rules[i].n += !strcmp(rule, rules[i].name);
    }
}

/* From kernels of blocks to flat ones, usually by the compiler's own pipeline. */
static bool check_way(tw_context *ctx, random_kernel *r, uint64_t seed, tw_op *module,
                      const char *level, const rk_memory *want)
{
    char schedule[96];
    bool precise = rk_chance(r, 4);
    r->exact |= precise; /* nothing is rounded in another way */
    snprintf(schedule, sizeof schedule, "schedule-kernels{target=\"%s\" parallel-work=%d%s}", level,
             rk_chance(r, 2) ? 1 : 1000, precise ? " precise" : "");
    if (!rk_chance(r, 4) && !check_pass(ctx, r, seed, module, "collapse-axes", want))
        return false;
    if (!rk_chance(r, 8)) {
        if (!check_pass(ctx, r, seed, module, schedule, want))
            return false;
        count_rules(ctx, module);
    }
    bool fine = check_kernel_pass(ctx, r, seed, module, "lower-blocks", want);
    bool in_order = rk_chance(r, 2);
    for (unsigned i = 0; fine && i < N_USUAL; i++)
        fine = check_kernel_pass(ctx, r, seed, module, usual[in_order ? i : rk_below(r, N_USUAL)],
                                 want);
    return fine && check_pass(ctx, r, seed, module, "hoist-workspace", want) &&
           check_pass(ctx, r, seed, module, "func(plan-memory)", want);
}

static bool check_kernel(uint64_t seed)
{
    random_kernel r;
    random_kernel_make(&r, seed);
    tw_context *ctx = tw_context_create(0);
    assert_true(tw_register_all(ctx));
    tw_op *module = tw_parse(ctx, r.text, strlen(r.text), "random");
    tw_pipeline_options options = {.verify_each = true};
    rk_memory want;
    bool fine = module && tw_verify(ctx, module) &&
                tw_run_pipeline(ctx, module, "fuse-ops,lower-to-loops{in-place}", &options) &&
                rk_run_main(ctx, &r, module, false, &want);
    if (!fine)
        show(ctx, &r, seed, "lower-to-loops", r.text, module);
    fine = fine && check_way(ctx, &r, seed, module, levels[rk_below(&r, 3)], &want);
    tw_context_destroy(ctx);
    return fine;
}

static void passes_keep_results(void **state)
{
    (void)state;
    const char *one = getenv("TILEWRIGHT_KERNEL"), *many = getenv("TILEWRIGHT_KERNELS");
    if (one) {
        assert_true(check_kernel(strtoull(one, NULL, 0)));
        return;
    }
    unsigned n = many ? (unsigned)atoi(many) : FEW_KERNELS, wrong = 0;
    for (unsigned seed = 1; seed <= n; seed++)
        wrong += !check_kernel(seed);
    assert_int_equal(wrong, 0);
    for (unsigned i = 0; many && i < sizeof rules / sizeof *rules; i++)
        print_message("%s: %u of %u\n", rules[i].name, rules[i].n, n_kernels);
    if (many)
        print_message("with parallel loops: %u\n", n_parallel);
    for (unsigned i = 0; n >= FEW_KERNELS && i < sizeof rules / sizeof *rules; i++)
        assert_true(rules[i].n * 20 > n_kernels);
    if (n >= FEW_KERNELS)
        assert_true(n_parallel * 4 > n_kernels);
    /* Only what has no plain nest at all stays as it is. */
    assert_int_equal(n_none, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(passes_keep_results)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
