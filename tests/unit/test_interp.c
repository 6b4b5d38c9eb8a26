/* Tests of the interpreter: what it computes and what it refuses. */
#include "lower_check.h"

#include "interp/evaluate.h"

/* Runs loop.kernel @k<text> on f32 buffers, the last `n` elements wide each; true when it ran. */
typedef struct run {
    tw_context *ctx;
    bool fine;
    char message[512];
    float data[4][64];
} run;

static tw_op *parse_kernel(tw_context *ctx, const char *text)
{
    char whole[4096];
    snprintf(whole, sizeof whole, "module { loop.kernel @k%s }", text);
    tw_op *module = tw_parse(ctx, whole, strlen(whole), "test");
    if (!module || !tw_verify(ctx, module))
        show_diagnostics(ctx);
    assert_non_null(module);
    return module->regions[0].first;
}

/* Buffers of the run's data; element i of argument a starts as 100 * a + i. */
static void run_kernel(run *r, const char *text, const tw_interp_options *options)
{
    tw_interp_buffer buffers[4];
    r->ctx = new_context();
    tw_op *kernel = parse_kernel(r->ctx, text);
    unsigned n = kernel->regions[0].n_args;
    assert_true(n <= 4);
    for (unsigned a = 0; a < n; a++) {
        int64_t count = 0;
        assert_true(tw_type_static_count(kernel->regions[0].args[a]->type, &count) && count <= 64);
        for (int i = 0; i < 64; i++)
            r->data[a][i] = (float)(100 * a + (unsigned)i);
        buffers[a] = (tw_interp_buffer){r->data[a], (size_t)count * sizeof(float)};
    }
    r->fine = tw_interp_run(r->ctx, kernel, buffers, n, options);
    r->message[0] = 0;
    if (!r->fine)
        snprintf(r->message, sizeof r->message, "%s", tw_diagnostics(r->ctx)->message);
    tw_context_destroy(r->ctx);
}

static void expect_failure(const char *text, const tw_interp_options *options, const char *part)
{
    run r;
    run_kernel(&r, text, options);
    assert_false(r.fine);
    if (!strstr(r.message, part))
        fail_msg("'%s' is not in '%s'", part, r.message);
}

#define KERNEL(body) "(%X: buffer<16xf32>, %Y: buffer<16xf32>) attributes {outputs = 1} {" body "}"

static void vectors(void **state)
{
    (void)state;
    run r;
    run_kernel(&r,
               KERNEL("loop.for %i = 0 to 16 step 4 {"
                      " %r = loop.ramp %i : vec<4xindex>"
                      " %x = loop.load %X[15 - %r] : vec<4xf32>"
                      " %i2 = loop.cast %i : f32"
                      " %b = loop.broadcast %i2 : vec<4xf32>"
                      " %t = loop.const {value = 2.0} : vec<4xf32>"
                      " %f = loop.fma %x, %t, %b : vec<4xf32>"
                      " %m = loop.reduce_lanes %f {op = \"max\"} : f32"
                      " %z = loop.const {value = 0.0} : vec<4xf32>"
                      " loop.store %f, %Y[%r]"
                      " %g = loop.load %X[%r + 13] where (2 - %r) else %z : vec<4xf32>"
                      " %s = loop.reduce_lanes %g {op = \"add\"} : f32"
                      " %c = loop.cmp %m, %s {pred = \"gt\"} : bool"
                      " %w = loop.select %c, %m, %s : f32"
                      " loop.store %w, %Y[%i]"
                      "}"),
               NULL);
    assert_true(r.fine);
    /* Lanes i..i+3 hold 2 * (15 - i) + base; lane 0 is replaced by the larger of two reductions. */
    assert_true(r.data[1][1] == 28 && r.data[1][2] == 26 && r.data[1][3] == 24);
    assert_true(r.data[1][0] == 13 + 14 + 15);
    assert_true(r.data[1][5] == 24 && r.data[1][4] == 26);
}

static void conditions_and_dynamic_loops(void **state)
{
    (void)state;
    run r;
    run_kernel(&r,
               KERNEL(" %zero = loop.const {value = 0} : index"
                      " %n = loop.const {value = 16} : index"
                      " loop.for_dynamic %zero, %n ({ ^(%i: index):"
                      " loop.if (%i - 4, 7 - %i) {"
                      "  %a = loop.const {value = 1.0} : f32"
                      "  loop.store %a, %Y[%i]"
                      " } else {"
                      "  %b = loop.const {value = 2.0} : f32"
                      "  loop.store %b, %Y[%i]"
                      " }"
                      "})"),
               NULL);
    if (!r.fine)
        print_error("%s\n", r.message);
    assert_true(r.fine);
    for (int i = 0; i < 16; i++)
        assert_true(r.data[1][i] == (i >= 4 && i <= 7 ? 1 : 2));
}

static void accesses_are_checked(void **state)
{
    (void)state;
    expect_failure(KERNEL("loop.for %i = 0 to 16 { %x = loop.load %X[%i + 1] : f32"
                          " loop.store %x, %Y[%i] }"),
                   NULL, "load of 'X' outside its memory: index 16 of axis 0");
    expect_failure(KERNEL("loop.for %i = 0 to 16 { %x = loop.load %X[%i] : f32"
                          " loop.store %x, %Y[%i - 1] }"),
                   NULL, "store of 'Y' outside its memory: index -1");
    expect_failure(KERNEL("loop.for %i = 0 to 16 { %x = loop.load %Y[%i] : f32"
                          " loop.store %x, %Y[%i] }"),
                   NULL, "load of 'Y' reads element 0, which was never written");
    expect_failure(KERNEL("loop.for %i = 0 to 16 { %T = loop.alloc : buffer<16xf32>"
                          " %x = loop.load %X[%i] : f32 loop.store %x, %T[%i]"
                          " %y = loop.load %T[0] : f32 loop.store %y, %Y[%i] }"),
                   NULL, "load of 'T' reads element 0, which was never written");
    expect_failure(KERNEL("loop.for %i = 0 to 16 { %x = loop.load %X[%i] : f32"
                          " loop.store %x, %X[%i] }"),
                   NULL, "store to 'X', which is only read");
    expect_failure(KERNEL("loop.for %i = 0 to 15 { %x = loop.load %X[%i] : f32"
                          " loop.store %x, %Y[%i] }"),
                   NULL, "element 15 of output 1 was never written");
    expect_failure(KERNEL("%V = loop.view %X {offset = 4} : buffer<16xf32>"), NULL,
                   "goes beyond the 16 of 'X'");
}

static void views_share_memory(void **state)
{
    (void)state;
    run r;
    run_kernel(&r,
               KERNEL("%V = loop.view %X {offset = 4} : buffer<2x6xf32>"
                      "%W = loop.view %Y : buffer<2x8xf32>"
                      "loop.for %i = 0 to 2 { loop.for %j = 0 to 8 {"
                      " %x = loop.load %V[%i, %j floordiv 2] : f32"
                      " loop.store %x, %W[%i, %j] } }"),
               NULL);
    assert_true(r.fine && r.data[1][0] == 4 && r.data[1][15] == 13);
}

static void blocks(void **state)
{
    (void)state;
    run r;
    const char *sum =
        KERNEL("loop.for %i = 0 to 5 { loop.for %k = 0 to 4 {"
               " loop.block \"s\" (%vi: spatial 4 = %i, %vk: reduce 4 = %k) where (3 - %i) {"
               "  init { %z = loop.const {value = 0.5} : f32 loop.store %z, %Y[%vi] }"
               "  %x = loop.load %X[%vi * 4 + %vk] : f32"
               "  %t = loop.load %Y[%vi] : f32 %s = loop.add %t, %x : f32"
               "  loop.store %s, %Y[%vi] } } }");
    tw_interp_options partial = {.partial_outputs = true};
    run_kernel(&r, sum, &partial);
    assert_true(r.fine && r.data[1][0] == 6.5f && r.data[1][3] == 54.5f);
    expect_failure(KERNEL("loop.for %i = 0 to 5 {"
                          " loop.block \"b\" (%vi: spatial 4 = %i) {"
                          "  %x = loop.load %X[%vi] : f32 loop.store %x, %Y[%vi] } }"),
                   NULL, "block 'b': iteration variable 0 is 4, outside 0 to 3");
}

static void parallel_iterations_are_apart(void **state)
{
    (void)state;
    expect_failure(KERNEL("loop.for %i = 0 to 16 parallel { %x = loop.load %X[%i] : f32"
                          " loop.store %x, %Y[%i floordiv 2] }"),
                   NULL, "which another iteration of the parallel loop wrote");
    const char *chain = KERNEL("%x = loop.load %X[0] : f32 loop.store %x, %Y[0]"
                               "loop.for %i = 1 to 16 parallel { %p = loop.load %Y[%i - 1] : f32"
                               " loop.store %p, %Y[%i] }");
    expect_failure(chain, NULL, "which another iteration of the parallel loop wrote");
    expect_failure(chain, &(tw_interp_options){.reverse_parallel = true},
                   "which was never written");
    /* What was written before the loop may be read by all, and each may write its own. */
    run r;
    run_kernel(&r,
               KERNEL("loop.for %i = 0 to 16 { %x = loop.load %X[%i] : f32"
                      " loop.store %x, %Y[%i] }"
                      "loop.for %i = 0 to 15 parallel { %T = loop.alloc : buffer<1xf32>"
                      " %x = loop.load %Y[15] : f32 loop.store %x, %T[0]"
                      " %y = loop.load %T[0] : f32 loop.store %y, %Y[%i] }"),
               NULL);
    assert_true(r.fine && r.data[1][3] == 15);
}

static void steps_are_bounded(void **state)
{
    (void)state;
    const char *long_loop = KERNEL("loop.for %i = 0 to 1000000000000 {"
                                   " %x = loop.load %X[0] : f32 loop.store %x, %Y[0] }");
    expect_failure(long_loop, &(tw_interp_options){.max_steps = 10000}, "more than 10000 steps");
}

static void buffers_must_fit(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    tw_op *kernel = parse_kernel(ctx, KERNEL(""));
    float data[16];
    tw_interp_buffer small[] = {{data, sizeof data}, {data, 60}};
    assert_false(tw_interp_run(ctx, kernel, small, 1, NULL));
    assert_false(tw_interp_run(ctx, kernel, small, 2, NULL));
    assert_int_equal(tw_error_count(ctx), 2);
    tw_context_destroy(ctx);
}

/* ---- Evaluation of constants ---- */

static tw_op *find(tw_op *module, const char *name)
{
    tw_op *func = main_of(module);
    for (tw_op *op = func->regions[0].first; op; op = op->next)
        if (!strcmp(op->def->name, name))
            return op;
    return NULL;
}

static void operations_on_constants(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    const char *text = "module { func @main(%x: tensor<2x2xi32>, %e: tensor<0xf32>) {"
                       " %c = graph.constant dense<3> : tensor<i32>"
                       " %y = graph.mul %x, %c : tensor<2x2xi32>"
                       " %z = graph.neg %e : tensor<0xf32>"
                       " return } }";
    tw_op *module = tw_parse(ctx, text, strlen(text), "test");
    assert_non_null(module);
    static const int32_t x[] = {1, -2, 3, 1 << 30}, three = 3;
    tw_op *mul = find(module, "graph.mul"), *neg = find(module, "graph.neg");
    tw_attr operands[] = {tw_attr_dense(ctx, tw_operand(mul, 0)->type, x, sizeof x),
                          tw_attr_dense(ctx, tw_operand(mul, 1)->type, &three, sizeof three)};
    tw_attr result;
    assert_true(tw_evaluate(ctx, mul, operands, &result, 0));
    const int32_t *y = result->u.dense.data;
    assert_true(y[0] == 3 && y[1] == -6 && y[2] == 9 && y[3] == -1073741824);
    assert_false(tw_evaluate(ctx, mul, operands, &result, 1));
    tw_attr nothing = tw_attr_dense(ctx, tw_operand(neg, 0)->type, x, 0);
    assert_true(tw_evaluate(ctx, neg, &nothing, &result, 0));
    assert_int_equal(result->u.dense.size, 0);
    tw_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vectors),
        cmocka_unit_test(conditions_and_dynamic_loops),
        cmocka_unit_test(accesses_are_checked),
        cmocka_unit_test(views_share_memory),
        cmocka_unit_test(blocks),
        cmocka_unit_test(parallel_iterations_are_apart),
        cmocka_unit_test(steps_are_bounded),
        cmocka_unit_test(buffers_must_fit),
        cmocka_unit_test(operations_on_constants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
