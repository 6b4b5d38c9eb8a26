/* test_lower_symbolic.c: kernels of symbolic sizes compute what kernels of those sizes compute:
 * operations at several sizes, 0 and 1 among them, and random kernels whose sizes are replaced by
 * symbols, through all loop passes.
 *
 * TILEWRIGHT_KERNELS=N tries N random kernels instead of a few; TILEWRIGHT_KERNEL=SEED tries that
 * one and prints it when it fails. */
#include "random_kernel_run.h"

#include "base/arena.h"
#include "dialect/core/core.h"
#include "dialect/loop/loop.h"
#include "tilewright/compiler.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_SIZES = 64, FEW_KERNELS = 200 };

typedef struct sizes {
    tw_interp_size items[MAX_SIZES];
    size_t n;
} sizes;

static tw_context *new_context(void)
{
    tw_context *ctx = tw_context_create(0);
    assert_true(tw_register_all(ctx));
    return ctx;
}

static void show_diagnostics(tw_context *ctx)
{
    for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
        print_error("%s\n", tw_diagnostic_text(ctx, d));
}

static tw_op *parse(tw_context *ctx, const char *text)
{
    tw_op *module = tw_parse(ctx, text, strlen(text), "test");
    if (module && tw_verify(ctx, module))
        return module;
    show_diagnostics(ctx);
    print_error("%s\n", text);
    return NULL;
}

static bool run_passes(tw_context *ctx, tw_op *module, const char *passes)
{
    tw_pipeline_options options = {.verify_each = true};
    return tw_run_pipeline(ctx, module, passes, &options);
}

/* ---- The same module with numbers for symbols ---- */

typedef struct fixing {
    tw_context *ctx;
    const sizes *sizes;
} fixing;

static tw_expr look_up(void *data, const char *symbol)
{
    const fixing *f = data;
    for (size_t i = 0; i < f->sizes->n; i++)
        if (!strcmp(f->sizes->items[i].symbol, symbol))
            return tw_expr_const(f->ctx, f->sizes->items[i].value);
    return NULL;
}

static tw_expr fix_expr(fixing *f, tw_expr e)
{
    return tw_expr_bind_symbols(f->ctx, e, look_up, f);
}

static tw_type fix_type(fixing *f, tw_type type)
{
    tw_expr dims[TW_MAX_RANK];
    if (type->kind != TW_TYPE_TENSOR)
        return type;
    for (unsigned i = 0; i < type->rank; i++)
        dims[i] = fix_expr(f, type->dims[i]);
    return tw_type_tensor(f->ctx, type->elem, type->rank, dims, NULL);
}

/* Numbers in place of `()[] -> (n - 1)` in arrays. */
static tw_attr fix_attr(fixing *f, tw_attr attr)
{
    tw_attr items[TW_MAX_RANK];
    if (attr->kind != TW_ATTR_ARRAY || attr->u.array.n > TW_MAX_RANK)
        return attr;
    for (size_t i = 0; i < attr->u.array.n; i++) {
        tw_attr item = attr->u.array.items[i];
        items[i] = item->kind == TW_ATTR_MAP
                       ? tw_attr_int(f->ctx, fix_expr(f, item->u.map.exprs[0])->value)
                       : item;
    }
    return tw_attr_array(f->ctx, items, attr->u.array.n);
}

static bool fix_op(tw_op *op, void *data)
{
    fixing *f = data;
    for (unsigned i = 0; i < op->n_results; i++)
        op->results[i].type = fix_type(f, op->results[i].type);
    for (unsigned r = 0; r < op->n_regions; r++)
        for (unsigned i = 0; i < op->regions[r].n_args; i++)
            op->regions[r].args[i]->type = fix_type(f, op->regions[r].args[i]->type);
    for (unsigned i = 0; i < op->n_attrs; i++)
        tw_op_set_attr(op, op->attrs[i].name, fix_attr(f, op->attrs[i].value));
    return true;
}

static tw_op *with_numbers(tw_context *ctx, tw_op *module, const sizes *s)
{
    fixing f = {ctx, s};
    tw_op *fixed = tw_op_clone(tw_cloner_create(ctx), module);
    tw_walk(fixed, fix_op, &f);
    tw_core_func_update_type(tw_core_lookup(fixed, "main"));
    return fixed;
}

/* ---- Running ---- */

/* The memory that the module of numbers needs. */
static rk_memory make_memory(tw_context *ctx, const tw_op *func)
{
    static const random_kernel plain = {.seed = 7};
    random_kernel r = plain;
    r.n_inputs = func->regions[0].n_args - (unsigned)tw_op_int(func, "outputs", 0);
    return rk_make_memory(ctx, &r, func);
}

static bool run_main(tw_context *ctx, tw_op *module, const sizes *s, rk_memory *memory)
{
    tw_interp_options options = {
        .max_steps = RK_MAX_STEPS, .sizes = s ? s->items : NULL, .n_sizes = s ? s->n : 0};
    return tw_interp_run(ctx, tw_core_lookup(module, "main"), memory->buffers, memory->n, &options);
}

static bool same_results(const rk_memory *want, const rk_memory *got)
{
    for (unsigned i = want->n_inputs; i < want->n; i++)
        if (!rk_same_result(false, want, got, i))
            return false;
    return true;
}

/* What -O1 and above do with kernels. */
static const char loop_passes[] =
    "collapse-axes,schedule-kernels{target=\"x86-64-v3\" parallel-work=1000},"
    "loop.kernel(lower-blocks,place-allocs,compact-buffers,simplify-loops,specialize-loops,"
    "vectorize-loops,unroll-loops,simplify-loops,hoist-divisions),hoist-workspace,func(plan-"
    "memory)";

/* `func @main<text>` over n and m at many sizes, plain and scheduled. */
static void check_sizes(const char *text)
{
    static const int64_t values[] = {0, 1, 2, 7, 19};
    enum { N = sizeof values / sizeof *values };
    tw_context *ctx = new_context();
    char *whole = tw_context_alloc(ctx, strlen(text) + 64);
    sprintf(whole, "module { func @main%s }", text);
    tw_op *graph = parse(ctx, whole);
    assert_non_null(graph);
    tw_op *plain = tw_op_clone(tw_cloner_create(ctx), graph);
    tw_op *fast = tw_op_clone(tw_cloner_create(ctx), graph);
    bool fine = run_passes(ctx, plain, "lower-to-loops,func(plan-memory)") &&
                run_passes(ctx, fast, "canonicalize,fuse-ops,lower-to-loops") &&
                run_passes(ctx, fast, loop_passes);
    for (unsigned i = 0; fine && i < N * N; i++) {
        sizes s = {.items = {{"n", values[i % N]}, {"m", values[i / N]}}, .n = 2};
        tw_op *fixed = with_numbers(ctx, graph, &s);
        fine = run_passes(ctx, fixed, "lower-to-loops");
        if (!fine)
            break;
        const tw_op *func = tw_core_lookup(fixed, "main");
        rk_memory want = make_memory(ctx, func), got = make_memory(ctx, func);
        rk_memory got_fast = make_memory(ctx, func);
        fine = run_main(ctx, fixed, NULL, &want) && run_main(ctx, plain, &s, &got) &&
               same_results(&want, &got) && run_main(ctx, fast, &s, &got_fast) &&
               same_results(&want, &got_fast);
        if (!fine)
            print_error("n = %lld, m = %lld\n", (long long)s.items[0].value,
                        (long long)s.items[1].value);
    }
    if (!fine) {
        show_diagnostics(ctx);
        fail_msg("%s", text);
    }
    tw_context_destroy(ctx);
}

/* ---- Operations ---- */

static void elementwise(void **state)
{
    (void)state;
    check_sizes("(%x: tensor<n x m x f32>, %y: tensor<m x f32>, %z: tensor<n x 1 x f32>) ->"
                " tensor<n x m x f32> { %0 = graph.add %x, %y : tensor<n x m x f32>"
                " %1 = graph.mul %0, %z : tensor<n x m x f32>"
                " %2 = graph.relu %1 : tensor<n x m x f32> return %2 }");
}

static void sums_of_nothing(void **state)
{
    (void)state;
    check_sizes("(%x: tensor<n x m x f32>) -> (tensor<n x f32>, tensor<m x f32>, tensor<f32>,"
                " tensor<n x 1 x f32>) {"
                " %0 = graph.reduce_sum %x {axes = [1], keepdims = false} : tensor<n x f32>"
                " %1 = graph.reduce_mean %x {axes = [0], keepdims = false} : tensor<m x f32>"
                " %2 = graph.reduce_prod %x {axes = [0, 1], keepdims = false} : tensor<f32>"
                " %3 = graph.reduce_max %x {axes = [1], keepdims = true} : tensor<n x 1 x f32>"
                " return %0, %1, %2, %3 }");
    check_sizes("(%x: tensor<n x m x i32>) -> (tensor<n x i32>, tensor<m x i32>) {"
                " %0 = graph.reduce_min %x {axes = [1], keepdims = false} : tensor<n x i32>"
                " %1 = graph.reduce_mean %x {axes = [0], keepdims = false} : tensor<m x i32>"
                " return %0, %1 }");
}

static void products(void **state)
{
    (void)state;
    check_sizes("(%a: tensor<2 x n x m x f32>, %b: tensor<2 x m x n x f32>) ->"
                " tensor<2 x n x n x f32> {"
                " %0 = graph.matmul %a, %b : tensor<2 x n x n x f32> return %0 }");
    check_sizes("(%a: tensor<n x m x f32>, %b: tensor<m x 5 x f32>, %c: tensor<5 x f32>) ->"
                " tensor<n x 5 x f32> { %0 = graph.matmul %a, %b : tensor<n x 5 x f32>"
                " %1 = graph.add %0, %c : tensor<n x 5 x f32>"
                " %2 = graph.relu %1 : tensor<n x 5 x f32> return %2 }");
}

static void normalisations(void **state)
{
    (void)state;
    check_sizes("(%x: tensor<n x m x f32>) -> (tensor<n x m x f32>, tensor<n x m x f32>) {"
                " %0 = graph.softmax %x {axis = 1} : tensor<n x m x f32>"
                " %1 = graph.log_softmax %x {axis = 0} : tensor<n x m x f32> return %0, %1 }");
    check_sizes("(%x: tensor<n x m x f32>, %s: tensor<m x f32>) -> tensor<n x m x f32> {"
                " %0 = graph.layer_norm %x, %s {axis = 1, epsilon = 0.1} : tensor<n x m x f32>"
                " return %0 }");
    check_sizes("(%x: tensor<n x 2 x m x f32>, %s: tensor<2xf32>, %b: tensor<2xf32>) ->"
                " tensor<n x 2 x m x f32> { %0 = graph.instance_norm %x, %s, %b {epsilon = 0.1} :"
                " tensor<n x 2 x m x f32> return %0 }");
}

static void moves(void **state)
{
    (void)state;
    check_sizes("(%x: tensor<n x m x f32>, %y: tensor<n x 3 x f32>) ->"
                " (tensor<n x (m * 2 + 3) x f32>, tensor<(n * m) x f32>, tensor<m x n x 1 x f32>,"
                " tensor<(n * 2) x m x f32>) {"
                " %0 = graph.concat %x, %y, %x {axis = 1} : tensor<n x (m * 2 + 3) x f32>"
                " %1 = graph.relu %x : tensor<n x m x f32>"
                " %2 = graph.reshape %1 : tensor<(n * m) x f32>"
                " %3 = graph.transpose %x {perm = [1, 0]} : tensor<m x n x f32>"
                " %4 = graph.reshape %3 : tensor<m x n x 1 x f32>"
                " %5 = graph.tile %x {repeats = [2, 1]} : tensor<(n * 2) x m x f32>"
                " return %0, %2, %4, %5 }");
    check_sizes("(%x: tensor<(n + 1) x m x f32>) -> (tensor<n x m x f32>, tensor<1 x m x f32>,"
                " tensor<(n + 4) x (m + 2) x f32>, tensor<2xi64>) {"
                " %0 = graph.slice %x {starts = [()[] -> (n), 0], steps = [-1, 1]} :"
                " tensor<n x m x f32>"
                " %1 = graph.slice %x {starts = [()[] -> (n), 0], steps = [1, 1]} :"
                " tensor<1 x m x f32>"
                " %2 = graph.pad %x {pads_begin = [1, 0], pads_end = [2, 2]} :"
                " tensor<(n + 4) x (m + 2) x f32>"
                " %3 = graph.shape %x : tensor<2xi64>"
                " return %0, %1, %2, %3 }");
    check_sizes("(%x: tensor<(n + 2) x (m + 1) x f32>) -> (tensor<(n + 4) x (m + 1) x f32>,"
                " tensor<(n + 2) x (m + 4) x f32>) {"
                " %0 = graph.pad %x {pads_begin = [1, 0], pads_end = [1, 0], mode = \"reflect\"} :"
                " tensor<(n + 4) x (m + 1) x f32>"
                " %1 = graph.pad %x {pads_begin = [0, 2], pads_end = [0, 1], mode = \"edge\"} :"
                " tensor<(n + 2) x (m + 4) x f32> return %0, %1 }");
}

static void gathers(void **state)
{
    (void)state;
    check_sizes("(%x: tensor<(n + 1) x m x f32>, %i: tensor<m x i64>) -> tensor<m x m x f32> {"
                " %0 = graph.gather %x, %i {axis = 0} : tensor<m x m x f32> return %0 }");
    check_sizes("(%x: tensor<(n + 1) x m x f32>, %i: tensor<2 x m x i64>, %u: tensor<2 x m x f32>)"
                " -> tensor<(n + 1) x m x f32> {"
                " %0 = graph.scatter_elements %x, %i, %u {axis = 0} : tensor<(n + 1) x m x f32>"
                " return %0 }");
}

static void windows(void **state)
{
    (void)state;
    check_sizes("(%x: tensor<1 x 3 x (n + 1) x m x f32>, %w: tensor<4 x 3 x 3 x 1 x f32>) ->"
                " tensor<1 x 4 x (n floordiv 2 + 1) x m x f32> {"
                " %0 = graph.conv %x, %w {strides = [2, 1], dilations = [1, 1],"
                " pads_begin = [1, 0], pads_end = [1, 0], groups = 1} :"
                " tensor<1 x 4 x (n floordiv 2 + 1) x m x f32> return %0 }");
    check_sizes(
        "(%x: tensor<n x (m + 2) x 4 x f32>) -> (tensor<n x m x 4 x f32>) {"
        " %0 = graph.transpose %x {perm = [0, 2, 1]} : tensor<n x 4 x (m + 2) x f32>"
        " %1 = graph.avg_pool %0 {kernel = [3], strides = [1], dilations = [1],"
        " pads_begin = [0], pads_end = [0]} : tensor<n x 4 x m x f32>"
        " %2 = graph.transpose %1 {perm = [0, 2, 1]} : tensor<n x m x 4 x f32> return %2 }");
    check_sizes("(%x: tensor<1 x 1 x (n + 1) x f32>) -> (tensor<1 x 1 x (n + 1) x f32>,"
                " tensor<1 x 1 x (n * 2 + 2) x f32>) {"
                " %0 = graph.avg_pool %x {kernel = [3], strides = [1], dilations = [1],"
                " pads_begin = [1], pads_end = [1]} : tensor<1 x 1 x (n + 1) x f32>"
                " %1 = graph.resize %x {scales = [1.0, 1.0, 2.0], mode = \"linear\","
                " coordinates = \"half_pixel\"} : tensor<1 x 1 x (n * 2 + 2) x f32>"
                " return %0, %1 }");
}

static void resizes(void **state)
{
    (void)state;
    static const char *const coordinates[] = {"half_pixel",           "asymmetric",
                                              "align_corners",        "pytorch_half_pixel",
                                              "half_pixel_symmetric", "tf_crop_and_resize"};
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    for (unsigned i = 0; i < 18; i++) {
        char text[900];
        snprintf(text, sizeof text,
                 "(%%x: tensor<1 x 1 x (n + 1) x (m + 2) x f32>) ->"
                 " tensor<1 x 1 x (n * 2 + 2) x (m + 5) x f32> {"
                 " %%0 = graph.resize %%x {scales = [1.0, 1.0, 2.0, 0.0], mode = \"%s\","
                 " coordinates = \"%s\", roi = [0.0, 0.0, 0.25, 0.0, 1.0, 1.0, 0.75, 1.0]} :"
                 " tensor<1 x 1 x (n * 2 + 2) x (m + 5) x f32> return %%0 }",
                 modes[i % 3], coordinates[i / 3]);
        check_sizes(text);
    }
    static const char *const rows[] = {
        "mode = \"linear\", antialias = true", "mode = \"cubic\", antialias = true",
        "mode = \"cubic\", antialias = true, exclude_outside = true",
        "mode = \"cubic\", exclude_outside = true, cubic_coeff = -0.5"};
    for (unsigned i = 0; i < 4; i++) {
        char text[600];
        snprintf(text, sizeof text,
                 "(%%x: tensor<1 x (m + 1) x (n * 5 + 10) x f32>) ->"
                 " tensor<1 x (m + 1) x (n * 2 + 4) x f32> {"
                 " %%0 = graph.resize %%x {scales = [1.0, 1.0, 0.4], coordinates = \"half_pixel\","
                 " %s} : tensor<1 x (m + 1) x (n * 2 + 4) x f32> return %%0 }",
                 rows[i]);
        check_sizes(text);
    }
}

/* y has size n, or 1 when m is 0. */
#define OPEN "(n * min(m, 1) - min(m, 1) + 1)"

static void open_sizes(void **state)
{
    (void)state;
    check_sizes("(%x: tensor<n x 3 x f32>, %y: tensor<" OPEN " x 3 x f32>) ->"
                " (tensor<n x 3 x f32>, tensor<n x f32>) {"
                " %0 = graph.expand %y : tensor<n x 3 x f32>"
                " %1 = graph.add %x, %0 : tensor<n x 3 x f32>"
                " %2 = graph.mul %1, %0 : tensor<n x 3 x f32>"
                " %3 = graph.reduce_sum %0 {axes = [1], keepdims = false} : tensor<n x f32>"
                " return %2, %3 }");
    check_sizes("(%x: tensor<2 x n x f32>, %y: tensor<" OPEN " x f32>) -> tensor<2 x n x f32> {"
                " %0 = graph.relu %y : tensor<" OPEN " x f32>"
                " %1 = graph.expand %0 : tensor<2 x n x f32>"
                " %2 = graph.add %x, %1 : tensor<2 x n x f32>"
                " %3 = graph.softmax %2 {axis = 1} : tensor<2 x n x f32> return %3 }");
    check_sizes("(%x: tensor<n x 4 x m x f32>, %y: tensor<" OPEN " x m x 5 x f32>,"
                " %z: tensor<" OPEN " x 4 x 5 x f32>) -> tensor<n x 4 x 5 x f32> {"
                " %0 = graph.expand %y : tensor<n x m x 5 x f32>"
                " %1 = graph.matmul %x, %0 : tensor<n x 4 x 5 x f32>"
                " %2 = graph.expand %z : tensor<n x 4 x 5 x f32>"
                " %3 = graph.add %1, %2 : tensor<n x 4 x 5 x f32> return %3 }");
}

/* ---- Random kernels ---- */

/* The text with sizes in tensor types replaced by symbols that have their values: all but 1, those
 * of constants, and sizes that a bit of `keep` keeps. */
static void symbolize(const char *text, uint64_t keep, char *out)
{
    bool constant = false;
    while (*text) {
        constant = *text != '\n' && (constant || !strncmp(text, "dense<", 6));
        if (constant || strncmp(text, "tensor<", 7) != 0) {
            *out++ = *text++;
            continue;
        }
        out += sprintf(out, "tensor<");
        for (text += 7; isdigit((unsigned char)*text);) {
            char *end;
            long size = strtol(text, &end, 10);
            bool number = size == 1 || size >= MAX_SIZES || (keep >> size & 1);
            out += sprintf(out, number ? "%ld x " : "s%ld x ", size);
            text = end + (*end == 'x');
        }
    }
    *out = 0;
}

/* What lowering says of sizes that it must know. */
static bool needs_known_sizes(tw_context *ctx)
{
    for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
        if (strstr(tw_diagnostic_text(ctx, d), "known"))
            return true;
    return false;
}

static void all_sizes(tw_context *ctx, sizes *s)
{
    for (s->n = 0; s->n < MAX_SIZES; s->n++)
        s->items[s->n] =
            (tw_interp_size){tw_arena_printf(tw_context_arena(ctx), "s%zu", s->n), (int64_t)s->n};
}

static bool check_random(uint64_t seed)
{
    static char text[64000];
    random_kernel r;
    random_kernel_make(&r, seed);
    uint64_t keep = rk_chance(&r, 2) ? 0 : seed * 0x9e3779b97f4a7c15ull;
    symbolize(r.text, keep, text);
    tw_context *ctx = new_context();
    sizes s;
    all_sizes(ctx, &s);
    tw_op *fixed = parse(ctx, r.text), *open = parse(ctx, text);
    bool fine = fixed && open && run_passes(ctx, fixed, "fuse-ops,lower-to-loops");
    rk_memory want, got;
    fine = fine && rk_run_main(ctx, &r, fixed, false, &want);
    bool lowered = fine && run_passes(ctx, open, "fuse-ops,lower-to-loops");
    if (fine && !lowered && needs_known_sizes(ctx)) {
        tw_context_destroy(ctx);
        return true;
    }
    const char *stage = "lower-to-loops";
    for (int i = 0; i < 2 && lowered; i++) {
        got = rk_make_memory(ctx, &r, tw_core_lookup(fixed, "main"));
        fine = run_main(ctx, open, &s, &got) && rk_same_results(&r, &want, &got);
        stage = i ? loop_passes : stage;
        lowered = fine && !i && run_passes(ctx, open, loop_passes);
        fine = fine && (i || lowered);
    }
    if (!fine) {
        print_error("TILEWRIGHT_KERNEL=%llu (%s) after %s\n", (unsigned long long)seed, r.family,
                    stage);
        show_diagnostics(ctx);
        if (getenv("TILEWRIGHT_KERNEL"))
            print_error("%s\n%s\n", text, open ? tw_print(ctx, open, NULL) : "");
    }
    tw_context_destroy(ctx);
    return fine;
}

static void random_kernels(void **state)
{
    (void)state;
    const char *one = getenv("TILEWRIGHT_KERNEL"), *many = getenv("TILEWRIGHT_KERNELS");
    uint64_t n = many ? strtoull(many, NULL, 10) : FEW_KERNELS, failed = 0;
    if (one) {
        assert_true(check_random(strtoull(one, NULL, 10)));
        return;
    }
    for (uint64_t seed = 1; seed <= n && failed < 5; seed++)
        failed += !check_random(seed);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise), cmocka_unit_test(sums_of_nothing),
        cmocka_unit_test(products),    cmocka_unit_test(normalisations),
        cmocka_unit_test(moves),       cmocka_unit_test(gathers),
        cmocka_unit_test(windows),     cmocka_unit_test(resizes),
        cmocka_unit_test(open_sizes),  cmocka_unit_test(random_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
