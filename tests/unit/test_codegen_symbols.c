/* test_codegen_symbols.c: one compiled model for all sizes: kernels, arena and plan by symbols. */
#include "codegen_harness.h"

/* y[i, j] = 2 * x[i, j] + x[i, 0], through a buffer of the arena and one of the host. */
static const char text[] =
    "module attributes {symbols = [\"rows\", \"cols\"]} {\n"
    "  loop.kernel @twice(%x: buffer<rows x cols x f32>, %y: buffer<rows x cols x f32>)"
    " attributes {outputs = 1} {\n"
    "    %t = loop.alloc : buffer<rows x cols x f32>\n"
    "    loop.for %i = 0 to rows parallel attributes {when = ()[] -> (rows * cols - 5)} {\n"
    "      loop.for %j = 0 to cols {\n"
    "        %a = loop.load %x[%i, %j] : f32\n"
    "        %b = loop.add %a, %a : f32\n"
    "        loop.store %b, %t[%i, %j]\n"
    "      }\n"
    "    }\n"
    "    loop.for %i = 0 to rows {\n"
    "      loop.for %j = 0 to cols floordiv 4 {\n"
    "        %base = loop.index %j * 4 : index\n"
    "        %r = loop.ramp %base : vec<4xindex>\n"
    "        %a = loop.load %t[%i, %r] : vec<4xf32>\n"
    "        loop.store %a, %y[%i, %r]\n"
    "      }\n"
    "      loop.for %j = cols floordiv 4 * 4 to cols {\n"
    "        %a = loop.load %t[%i, %j] : f32\n"
    "        loop.store %a, %y[%i, %j]\n"
    "      }\n"
    "    }\n"
    "  }\n"
    "  loop.kernel @add_first(%t: buffer<rows x cols x f32>, %x: buffer<rows x cols x f32>,"
    " %y: buffer<rows x cols x f32>) attributes {outputs = 1} {\n"
    "    loop.for %i = 0 to rows * cols {\n"
    "      %a = loop.load %t[%i floordiv cols, %i mod cols] : f32\n"
    "      %b = loop.load %x[%i floordiv cols, 0] : f32\n"
    "      %c = loop.add %a, %b : f32\n"
    "      loop.store %c, %y[%i floordiv cols, %i mod cols]\n"
    "    }\n"
    "  }\n"
    "  func @main(%x: buffer<rows x cols x f32>, %y: buffer<rows x cols x f32>)"
    " attributes {outputs = 1, arena_size = (d0) -> (rows * cols * 4 + 64)} {\n"
    "    %t = loop.alloc {offset = (d0) -> (rows * 0 + 64)} : buffer<rows x cols x f32>\n"
    "    call @twice(%x, %t)\n"
    "    call @add_first(%t, %x, %y)\n"
    "    return\n"
    "  }\n"
    "}\n";

static tw_model *compile_symbolic(tw_context *ctx, unsigned level)
{
    static const char *const symbols[] = {"rows", "cols"};
    static const int64_t dims[] = {-1, -1};
    static const int32_t dim_symbols[] = {0, 1};
    tw_op *module = parse_module(ctx, text);
    tw_codegen_result r = generate(ctx, module, "host", TW_CODE_OBJECT, level);
    assert_string_equal(r.plan, "tw_plan");
    tw_abi_tensor tensors[2] = {
        {.name = "x", .elem = TW_F32, .rank = 2, .dims = dims, .dim_symbols = dim_symbols},
        {.name = "y", .elem = TW_F32, .rank = 2, .dims = dims, .dim_symbols = dim_symbols}};
    tw_artifact *a = assemble(ctx, &r, "host", 0, tensors, 1, 1);
    a->model.n_symbols = 2;
    a->model.symbols = symbols;
    return load_model(ctx, a);
}

static void count_loops(void *data, int64_t count, void (*body)(void *, int64_t, int64_t),
                        void *ctx)
{
    ++*(unsigned *)data;
    body(ctx, 0, count);
}

static void run_sizes(tw_model *model, int64_t rows, int64_t cols)
{
    tw_session *session;
    unsigned loops = 0;
    tw_session_options options = {.parallel_for = count_loops, .parallel_data = &loops};
    assert_int_equal(tw_session_create(model, &options, &session), TW_STATUS_OK);
    size_t n = (size_t)(rows * cols);
    float *x = malloc(n * sizeof *x + 4);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)i * 0.5f - 3;
    const int64_t dims[] = {rows, cols};
    assert_int_equal(tw_session_set_input_shape(session, 0, x, dims, 2), TW_STATUS_OK);
    if (tw_session_run(session) != TW_STATUS_OK)
        fail_msg("%s", tw_last_error());
    size_t size;
    const float *y = tw_session_output(session, 0, &size);
    assert_int_equal(size, n * sizeof *y);
    const int64_t *out = tw_session_output_dims(session, 0);
    assert_true(out[0] == rows && out[1] == cols);
    assert_int_equal(loops, rows * cols >= 5); /* the loop's condition */
    for (size_t i = 0; i < n; i++)
        assert_true(y[i] == 2 * x[i] + x[i / (size_t)cols * (size_t)cols]);
    free(x);
    tw_session_destroy(session);
}

static void any_size(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    for (unsigned level = 0; level <= 2; level += 2) {
        tw_model *model = compile_symbolic(ctx, level);
        run_sizes(model, 1, 1);
        run_sizes(model, 7, 13);
        run_sizes(model, 100, 64);
        run_sizes(model, 0, 5);
        run_sizes(model, 300, 301);
        tw_model_free(model);
    }
    tw_context_destroy(ctx);
}

/* Sizes that no memory has are refused by the plan, not computed modulo 2^64. */
static void impossible_sizes(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    tw_model *model = compile_symbolic(ctx, 2);
    tw_session *session;
    static float x[1];
    static const int64_t sizes[][2] = {{INT32_MAX, INT32_MAX}, {(int64_t)1 << 32, 1}};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tw_session_create(model, NULL, &session), TW_STATUS_OK);
        tw_status status = tw_session_set_input_shape(session, 0, x, sizes[i], 2);
        if (status == TW_STATUS_OK)
            status = tw_session_run(session);
        assert_int_not_equal(status, TW_STATUS_OK);
        tw_session_destroy(session);
    }
    tw_model_free(model);
    tw_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_size),
        cmocka_unit_test(impossible_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
