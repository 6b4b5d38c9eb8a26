/* Property tests of the loop passes: random kernels give the same results as they go from blocks to
 * flat loops, after each pass, for each target, whatever the order of parallel iterations.
 *
 * TILEWRIGHT_KERNELS=N tries N kernels instead of a few; TILEWRIGHT_KERNEL=SEED tries that one and
 * prints it when it fails. */
#include "random_kernel.h"

#include "dialect/core/core.h"
#include "dialect/loop/loop.h"
#include "interp/interp.h"
#include "ir/scalar.h"
#include "tilewright/compiler.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FEW_KERNELS = 300, MAX_STEPS = 30000000 };

/* ---- Running ------------------------------------------------------------------------- */

enum { MAX_BUFFERS = RK_MAX_INPUTS + RK_MAX_RESULTS };
typedef struct memory {
    tw_interp_buffer buffers[MAX_BUFFERS];
    tw_elem elems[MAX_BUFFERS];
    size_t counts[MAX_BUFFERS];
    unsigned n, n_inputs; /* results follow */
} memory;

/* Small whole numbers, or indices. */
static void fill_input(memory *m, unsigned i, int64_t limit, uint64_t *state)
{
    for (size_t k = 0; k < m->counts[i]; k++) {
        *state = *state * 6364136223846793005ull + 1442695040888963407ull;
        int64_t number = limit ? (int64_t)((*state >> 33) % (uint64_t)(2 * limit)) - limit
                               : (int64_t)(*state >> 60) - 7;
        tw_number value = {.integer = number};
        tw_scalar_store(m->elems[i], m->buffers[i].data, k,
                        tw_scalar_convert(value, TW_I64, m->elems[i], false));
    }
}

static memory make_memory(tw_context *ctx, const random_kernel *r, const tw_op *func)
{
    memory m = {.n = func->regions[0].n_args, .n_inputs = r->n_inputs};
    uint64_t state = r->seed;
    for (unsigned i = 0; i < m.n; i++) {
        tw_type type = func->regions[0].args[i]->type;
        int64_t count = 0;
        assert_true(tw_type_static_count(type, &count));
        size_t size = ((size_t)count * tw_elem_bits(type->elem) + 7) / 8;
        m.buffers[i] = (tw_interp_buffer){tw_context_alloc(ctx, size + 1), size};
        m.elems[i] = type->elem;
        m.counts[i] = (size_t)count;
        memset(m.buffers[i].data, 0xA5, size);
        if (i < m.n_inputs)
            fill_input(&m, i, r->limit[i], &state);
    }
    return m;
}

static double element(const memory *m, unsigned i, size_t k)
{
    tw_number v = tw_scalar_load(m->elems[i], m->buffers[i].data, k);
    return tw_elem_is_float(m->elems[i]) ? v.real : (double)v.integer;
}

/* Whether buffer i holds the same or, where rounding has a part, nearly the same. */
static bool same_result(bool exact, const memory *want, const memory *got, unsigned i)
{
    const tw_elem elem = want->elems[i];
    double largest = 1, eps = elem == TW_BF16 ? 2e-2 : elem == TW_F16 ? 4e-3 : 2e-5;
    if (exact || !tw_elem_is_float(elem))
        return !memcmp(want->buffers[i].data, got->buffers[i].data, want->buffers[i].size);
    for (size_t k = 0; k < want->counts[i]; k++)
        if (isfinite(element(want, i, k)))
            largest = fmax(largest, fabs(element(want, i, k)));
    for (size_t k = 0; k < want->counts[i]; k++) {
        double x = element(want, i, k), y = element(got, i, k);
        if (isnan(x) ? !isnan(y) : isinf(x) ? y != x : !(fabs(x - y) <= eps * largest))
            return false;
    }
    return true;
}

static bool same_results(const random_kernel *r, const memory *want, const memory *got)
{
    for (unsigned i = want->n_inputs; i < want->n; i++)
        if (!same_result(r->exact, want, got, i))
            return false;
    return true;
}

static bool run_main(tw_context *ctx, const random_kernel *r, tw_op *module, bool reverse,
                     memory *out)
{
    tw_op *func = tw_core_lookup(module, "main");
    tw_interp_options options = {.max_steps = MAX_STEPS, .reverse_parallel = reverse};
    *out = make_memory(ctx, r, func);
    return tw_interp_run(ctx, func, out->buffers, out->n, &options);
}

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
                       const char *pass, const memory *want)
{
    const char *before = getenv("TILEWRIGHT_KERNEL") ? tw_print(ctx, module, NULL) : "";
    tw_pipeline_options options = {.verify_each = true};
    memory got;
    bool fine = tw_run_pipeline(ctx, module, pass, &options) &&
                run_main(ctx, r, module, rk_chance(r, 2), &got) && same_results(r, want, &got);
    if (!fine)
        show(ctx, r, seed, pass, before, module);
    return fine;
}

static bool check_kernel_pass(tw_context *ctx, random_kernel *r, uint64_t seed, tw_op *module,
                              const char *pass, const memory *want)
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
                      const char *level, const memory *want)
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
    memory want;
    bool fine = module && tw_verify(ctx, module) &&
                tw_run_pipeline(ctx, module, "fuse-ops,lower-to-loops", &options) &&
                run_main(ctx, &r, module, false, &want);
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
