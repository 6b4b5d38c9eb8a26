/* Property tests of kernels over symbolic sizes: scheduled by the default rules and taken through
 * the loop passes, they give what they give unscheduled, for sizes of 0 and 1 and around those of
 * tiles and vectors.
 *
 * TILEWRIGHT_KERNELS=N tries N combinations instead of a few; TILEWRIGHT_KERNEL=SEED tries that one
 * and prints the kernel when it fails. */
#include "random_kernel_run.h"

#include "dialect/core/core.h"
#include "tilewright/compiler.h"

#include <stdio.h>
#include <stdlib.h>

enum { FEW = 60, MAX_SIZE_POINTS = 40000 };

/* Sums are of small whole numbers, so exact in any order, unless `rounds`. The main function's
 * inputs, body and result. */
static const struct {
    const char *name, *inputs, *body, *result;
    bool rounds;
} kernels[] = {
    {"product", "%x: tensor<n x 24 x f32>, %w: tensor<24x40xf32>, %b: tensor<40xf32>",
     "%0 = graph.matmul %x, %w : tensor<n x 40 x f32> %1 = graph.add %0, %b : tensor<n x 40 x f32> "
     "%y = graph.relu %1 : tensor<n x 40 x f32>",
     "tensor<n x 40 x f32>", false},
    {"product of sizes", "%x: tensor<n x h x f32>, %w: tensor<h x w x f32>",
     "%y = graph.matmul %x, %w : tensor<n x w x f32>", "tensor<n x w x f32>", false},
    {"batched product", "%x: tensor<n x 3 x h x 8 x f32>, %w: tensor<n x 3 x 8 x h x f32>",
     "%y = graph.matmul %x, %w : tensor<n x 3 x h x h x f32>", "tensor<n x 3 x h x h x f32>",
     false},
    {"convolution", "%x: tensor<n x h x w x 4 x f32, NHWC>, %w: tensor<20x4x3x3xf32>",
     "%y = graph.conv %x, %w {dilations = [1, 1], groups = 1, pads_begin = "
     "[1, 1], pads_end = [1, 1], strides = [1, 1]} : tensor<n x h x w x 20 x f32, NHWC>",
     "tensor<n x h x w x 20 x f32, NHWC>", false},
    {"strided convolution", "%x: tensor<1 x h x w x 3 x f32, NHWC>, %w: tensor<8x3x3x3xf32>",
     "%0 = graph.conv %x, %w {dilations = [1, 1], groups = 1, pads_begin = "
     "[1, 1], pads_end = [1, 1], strides = [2, 2]} : tensor<1 x ((h + 1) floordiv 2) x ((w + 1) "
     "floordiv 2) x 8 x f32, NHWC> %y = graph.relu %0 : tensor<1 x ((h + 1) floordiv 2) x ((w + 1) "
     "floordiv 2) x 8 x f32, NHWC>",
     "tensor<1 x ((h + 1) floordiv 2) x ((w + 1) floordiv 2) x 8 x f32, NHWC>", false},
    {"depthwise", "%x: tensor<n x h x w x 16 x f32, NHWC>, %w: tensor<16x1x3x3xf32>",
     "%y = graph.conv %x, %w {dilations = [1, 1], groups = 16, pads_begin "
     "= [1, 1], pads_end = [1, 1], strides = [1, 1]} : tensor<n x h x w x 16 x f32, NHWC>",
     "tensor<n x h x w x 16 x f32, NHWC>", false},
    {"mean of an image", "%x: tensor<n x h x w x 20 x f32, NHWC>",
     "%y = graph.reduce_sum %x {axes = [1, 2], keepdims = false} : tensor<n x 20 x f32>",
     "tensor<n x 20 x f32>", false},
    {"largest of rows", "%x: tensor<n x h x w x f32>",
     "%y = graph.reduce_max %x {axes = [2], keepdims = false} : tensor<n x h x f32>",
     "tensor<n x h x f32>", false},
    {"sums of rows", "%x: tensor<n x w x f32>",
     "%0 = graph.mul %x, %x : tensor<n x w x f32> "
     "%y = graph.reduce_sum %0 {axes = [1], keepdims = false} : tensor<n x f32>",
     "tensor<n x f32>", false},
    {"softmax", "%x: tensor<n x 2 x w x f32>",
     "%y = graph.softmax %x {axis = 2} : tensor<n x 2 x w x f32>", "tensor<n x 2 x w x f32>", true},
    {"element-wise",
     "%x: tensor<n x h x w x f32>, %b: tensor<w x f32>, %c: tensor<n x 1 x 1 x f32>",
     "%0 = graph.add %x, %b : tensor<n x h x w x f32> %y = graph.mul %0, %c : tensor<n x h x w x "
     "f32>",
     "tensor<n x h x w x f32>", false},
    {"channels", "%x: tensor<n x h x w x 20 x f32>, %b: tensor<20xf32>",
     "%0 = graph.add %x, %b : tensor<n x h x w x 20 x f32> "
     "%y = graph.relu %0 : tensor<n x h x w x 20 x f32>",
     "tensor<n x h x w x 20 x f32>", false},
    {"transpose", "%x: tensor<n x 3 x h x w x f32>",
     "%y = graph.transpose %x {perm = [0, 2, 3, 1]} : tensor<n x h x w x 3 x f32>",
     "tensor<n x h x w x 3 x f32>", false},
    {"heads", "%x: tensor<n x w x 24 x f32>",
     "%0 = graph.reshape %x : tensor<n x w x 3 x 8 x f32> "
     "%y = graph.transpose %0 {perm = [0, 2, 1, 3]} : tensor<n x 3 x w x 8 x f32>",
     "tensor<n x 3 x w x 8 x f32>", false},
};
enum { N_KERNELS = sizeof kernels / sizeof *kernels, N_SIZES = 3 };

static const char *const levels[] = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
static const char *const flat[] = {"lower-blocks",   "place-allocs",     "compact-buffers",
                                   "simplify-loops", "specialize-loops", "vectorize-loops",
                                   "unroll-loops",   "simplify-loops",   "hoist-divisions"};

typedef struct sizes {
    tw_interp_size of[N_SIZES];
} sizes;

static bool size_of(void *data, const char *name, int64_t *out)
{
    const sizes *s = data;
    for (unsigned i = 0; i < N_SIZES; i++)
        if (!strcmp(s->of[i].symbol, name)) {
            *out = s->of[i].value;
            return true;
        }
    return false;
}

static sizes random_sizes(random_kernel *r)
{
    static const int64_t some[] = {0, 1, 1, 2, 3, 5, 6, 7, 8, 9, 13, 15, 16, 17, 33};
    static const char *const names[N_SIZES] = {"n", "h", "w"};
    sizes s;
    for (unsigned i = 0; i < N_SIZES; i++)
        s.of[i] = (tw_interp_size){names[i], some[rk_below(r, i ? 15 : 9)]};
    return s;
}

/* Memory of the function's arguments for these sizes; false when there are too many elements. */
static bool make_memory(tw_context *ctx, const tw_op *func, sizes *s, uint64_t seed, rk_memory *m)
{
    *m = (rk_memory){.n = func->regions[0].n_args, .n_inputs = func->regions[0].n_args - 1};
    for (unsigned i = 0; i < m->n; i++) {
        tw_type type = func->regions[0].args[i]->type;
        int64_t count = 1, size;
        for (unsigned d = 0; d < type->rank; d++) {
            assert_true(tw_expr_eval(type->dims[d], NULL, 0, size_of, s, &size));
            count *= size;
        }
        if (count > MAX_SIZE_POINTS)
            return false;
        m->buffers[i] =
            (tw_interp_buffer){tw_context_alloc(ctx, (size_t)count * 4 + 1), (size_t)count * 4};
        m->elems[i] = type->elem;
        m->counts[i] = (size_t)count;
        memset(m->buffers[i].data, 0xA5, (size_t)count * 4);
        if (i < m->n_inputs)
            rk_fill_input(m, i, 0, &seed);
    }
    return true;
}

static bool run_main(tw_context *ctx, tw_op *module, sizes *s, uint64_t seed, bool reverse,
                     rk_memory *out)
{
    tw_op *func = tw_core_lookup(module, "main");
    tw_interp_options options = {.max_steps = 4 * RK_MAX_STEPS,
                                 .reverse_parallel = reverse,
                                 .sizes = s->of,
                                 .n_sizes = N_SIZES};
    return make_memory(ctx, func, s, seed, out) &&
           tw_interp_run(ctx, func, out->buffers, out->n, &options);
}

/* Runs the passes, then the kernel at several sizes, comparing with what it gave before. */
enum { TRIES = 4 };

typedef struct trial {
    sizes s[TRIES];
    rk_memory want[TRIES];
    bool fits[TRIES], exact;
    uint64_t seed;
} trial;

static bool check_pass(tw_context *ctx, random_kernel *r, tw_op *module, trial *t, const char *pass)
{
    tw_pipeline_options options = {.verify_each = true};
    bool fine = tw_run_pipeline(ctx, module, pass, &options);
    for (unsigned i = 0; fine && i < TRIES; i++) {
        rk_memory got;
        if (!t->fits[i])
            continue;
        fine = run_main(ctx, module, &t->s[i], t->seed, rk_chance(r, 2), &got) &&
               rk_same_result(t->exact, &t->want[i], &got, got.n - 1);
        if (!fine)
            print_error("after %s at n = %lld, h = %lld, w = %lld\n", pass,
                        (long long)t->s[i].of[0].value, (long long)t->s[i].of[1].value,
                        (long long)t->s[i].of[2].value);
    }
    for (const tw_diagnostic *d = fine ? NULL : tw_diagnostics(ctx); d; d = d->next)
        fprintf(stderr, "%s\n", tw_diagnostic_text(ctx, d));
    if (!fine && getenv("TILEWRIGHT_KERNEL"))
        fprintf(stderr, "%s\n", tw_print(ctx, module, NULL));
    return fine;
}

static unsigned n_none, n_kernels;

static bool check_module(tw_context *ctx, random_kernel *r, tw_op *module, trial *t)
{
    char pass[96];
    for (unsigned i = 0; i < TRIES; i++) {
        t->s[i] = random_sizes(r);
        t->fits[i] = run_main(ctx, module, &t->s[i], t->seed, false, &t->want[i]);
    }
    if (!rk_chance(r, 4) && !check_pass(ctx, r, module, t, "collapse-axes"))
        return false;
    snprintf(pass, sizeof pass, "schedule-kernels{target=\"%s\" parallel-work=%d}",
             levels[rk_below(r, 3)], rk_chance(r, 2) ? 1 : 1000);
    if (!check_pass(ctx, r, module, t, pass))
        return false;
    for (tw_op *op = tw_core_body(module)->first; op; op = op->next) {
        n_kernels += tw_op_attr(op, "rule") != NULL;
        n_none += !strcmp(tw_op_string(op, "rule", ""), "none");
    }
    for (unsigned i = 0; i < sizeof flat / sizeof *flat; i++) {
        snprintf(pass, sizeof pass, "loop.kernel(%s)", flat[i]);
        if (!check_pass(ctx, r, module, t, pass))
            return false;
    }
    return true;
}

static bool check_kernel(uint64_t seed)
{
    random_kernel r = {.state = seed * 0x9e3779b97f4a7c15ull | 1};
    for (int i = 0; i < 8; i++)
        rk_below(&r, 2);
    unsigned k = rk_below(&r, N_KERNELS);
    char text[4096];
    snprintf(text, sizeof text,
             "module {\n  func @main(%s) -> %s {\n    %s\n    return %%y\n  }\n}\n",
             kernels[k].inputs, kernels[k].result, kernels[k].body);
    tw_context *ctx = tw_context_create(0);
    assert_true(tw_register_all(ctx));
    tw_op *module = tw_parse(ctx, text, strlen(text), "symbolic");
    tw_pipeline_options options = {.verify_each = true};
    trial t = {.exact = !kernels[k].rounds, .seed = seed};
    bool fine = module && tw_verify(ctx, module) &&
                tw_run_pipeline(ctx, module, "fuse-ops,lower-to-loops{in-place}", &options);
    for (const tw_diagnostic *d = fine ? NULL : tw_diagnostics(ctx); d; d = d->next)
        fprintf(stderr, "%s\n", tw_diagnostic_text(ctx, d));
    fine = fine && check_module(ctx, &r, module, &t);
    if (!fine)
        print_error("TILEWRIGHT_KERNEL=%llu (%s)\n", (unsigned long long)seed, kernels[k].name);
    tw_context_destroy(ctx);
    return fine;
}

static void schedules_keep_results_at_any_size(void **state)
{
    (void)state;
    const char *one = getenv("TILEWRIGHT_KERNEL"), *many = getenv("TILEWRIGHT_KERNELS");
    if (one) {
        assert_true(check_kernel(strtoull(one, NULL, 0)));
        return;
    }
    unsigned n = many ? (unsigned)atoi(many) : FEW, wrong = 0;
    for (unsigned seed = 1; seed <= n; seed++)
        wrong += !check_kernel(seed);
    assert_int_equal(wrong, 0);
    print_message("%u kernels, %u of them without a rule\n", n_kernels, n_none);
    assert_true(n_none * 20 <= n_kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(schedules_keep_results_at_any_size)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
