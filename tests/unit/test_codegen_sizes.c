/* test_codegen_sizes.c: sizes that the model computes while it runs: binds, buffers and outputs of
 * such sizes, compiled and interpreted, and what becomes of sizes that cannot be. */
#include "codegen_harness.h"

#include <math.h>

/* %n = {how many of x are above 0}; y = those, doubled, through a buffer between. */
static const char kernels[] =
    "  loop.kernel @count(%x: buffer<6xf32>, %n: buffer<1xi64>) attributes {outputs = 1} {\n"
    "    %zero = loop.const {value = 0} : i64\n"
    "    %one = loop.const {value = 1} : i64\n"
    "    %z = loop.const {value = 0.0} : f32\n"
    "    loop.store %zero, %n[0]\n"
    "    loop.for %i = 0 to 6 {\n"
    "      %a = loop.load %x[%i] : f32\n"
    "      %c = loop.cmp %a, %z {pred = \"gt\"} : bool\n"
    "      %s = loop.load %n[0] : i64\n"
    "      %d = loop.select %c, %one, %zero : i64\n"
    "      %t = loop.add %s, %d : i64\n"
    "      loop.store %t, %n[0]\n"
    "    }\n"
    "  }\n"
    "  loop.kernel @first(%x: buffer<6xf32>, %t: buffer<nz x f32>) attributes {outputs = 1} {\n"
    "    loop.for %i = 0 to nz {\n"
    "      %a = loop.load %x[%i] : f32\n"
    "      loop.store %a, %t[%i]\n"
    "    }\n"
    "  }\n"
    "  loop.kernel @twice(%t: buffer<nz x f32>, %y: buffer<nz x f32>) attributes {outputs = 1} {\n"
    "    loop.for %i = 0 to nz {\n"
    "      %a = loop.load %t[%i] : f32\n"
    "      %b = loop.add %a, %a : f32\n"
    "      loop.store %b, %y[%i]\n"
    "    }\n"
    "  }\n";

/* `rounds` times through the buffer between; `bind` are the attributes of the bind. */
static tw_op *make_module(tw_context *ctx, const char *bind, unsigned rounds)
{
    tw_arena *arena = tw_context_arena(ctx);
    char *calls = tw_arena_strdup(arena, "");
    for (unsigned i = 0; i < rounds; i++)
        calls = tw_arena_printf(arena, "%s    call @first(%%x, %%t)\n", calls);
    return parse_module(
        ctx, tw_arena_printf(arena,
                             "module attributes {symbols = [\"nz\"], input_symbols = 0} {\n%s"
                             "  func @main(%%x: buffer<6xf32>, %%y: buffer<nz x f32>)"
                             " attributes {outputs = 1} {\n"
                             "    %%n = loop.alloc {offset = 0} : buffer<1xi64>\n"
                             "    call @count(%%x, %%n)\n"
                             "    loop.bind %%n {%s}\n"
                             "    %%t = loop.alloc : buffer<nz x f32>\n%s"
                             "    loop.provide %%y\n"
                             "    call @twice(%%t, %%y)\n"
                             "    return\n"
                             "  }\n"
                             "}\n",
                             kernels, bind, calls));
}

static const char plain[] = "symbols = [\"nz\"]";

static tw_model *compile_sizes(tw_context *ctx, tw_op *module, unsigned level)
{
    static const int64_t in_dims[] = {6}, out_dims[] = {-1};
    tw_codegen_result r = generate(ctx, module, "host", TW_CODE_OBJECT, level);
    assert_null(r.plan); /* no input has a symbol */
    tw_abi_tensor tensors[2] = {
        {.name = "x", .elem = TW_F32, .rank = 1, .dims = in_dims},
        {.name = "y", .elem = TW_F32, .rank = 1, .dims = out_dims, .flags = TW_ABI_DYNAMIC}};
    return load_model(ctx, assemble(ctx, &r, "host", 64, tensors, 1, 1));
}

static void run_on(tw_session *session, float *x, int64_t wanted)
{
    assert_int_equal(tw_session_set_input(session, 0, x, 6 * sizeof *x), TW_STATUS_OK);
    if (tw_session_run(session) != TW_STATUS_OK)
        fail_msg("%s", tw_last_error());
    size_t size;
    const float *y = tw_session_output(session, 0, &size);
    assert_int_equal(tw_session_output_dims(session, 0)[0], wanted);
    assert_int_equal(size, (size_t)wanted * sizeof *y);
    for (int64_t i = 0; i < wanted; i++)
        assert_true(y[i] == 2 * x[i]);
}

/* Few calls, and so many that the entry is cut into functions. */
static void the_data_decides(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    for (unsigned rounds = 1; rounds <= 251; rounds += 250) {
        tw_op *module = make_module(ctx, plain, rounds);
        for (unsigned level = 0; level <= 2; level += 2) {
            tw_model *model = compile_sizes(ctx, module, level);
            tw_session *session;
            assert_int_equal(tw_session_create(model, NULL, &session), TW_STATUS_OK);
            run_on(session, (float[]){1, 2, -3, 4, 0, 6}, 4);
            run_on(session, (float[]){-1, -2, -3, -4, 0, -6}, 0);
            run_on(session, (float[]){1, 2, 3, 4, 5, 6}, 6);
            tw_session_destroy(session);
            tw_model_free(model);
        }
    }
    tw_context_destroy(ctx);
}

static void interpreted(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    tw_op *module = make_module(ctx, plain, 2);
    float x[6] = {1, 2, -3, 4, 0, 6}, y[6] = {0};
    run_interpreted(ctx, module, (tw_interp_buffer[]){{x, sizeof x}, {y, sizeof y}}, 2);
    for (int i = 0; i < 6; i++)
        assert_true(y[i] == (i < 4 ? 2 * x[i] : 0));
    /* No room for four. */
    tw_interp_buffer less[] = {{x, sizeof x}, {y, 3 * sizeof *y}};
    assert_false(tw_interp_run(ctx, find_main(module), less, 2, NULL));
    tw_context_destroy(ctx);
}

/* The value is compared with what it must be. */
static void expected(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    tw_op *module =
        make_module(ctx, "symbols = [\"nz\"], expect = ()[] -> (4), what = \"sizes of 'y'\"", 1);
    float x[6] = {1, 2, -3, 4, 0, 6}, y[6];
    tw_interp_buffer args[] = {{x, sizeof x}, {y, sizeof y}};
    run_interpreted(ctx, module, args, 2);
    tw_model *model = compile_sizes(ctx, module, 2);
    tw_session *session;
    assert_int_equal(tw_session_create(model, NULL, &session), TW_STATUS_OK);
    run_on(session, x, 4);
    x[0] = -1;
    assert_int_equal(tw_session_run(session), TW_STATUS_RUN);
    assert_non_null(strstr(tw_last_error(), "sizes of 'y': number 0 is 3, not 4"));
    assert_false(tw_interp_run(ctx, find_main(module), args, 2, NULL));
    assert_non_null(strstr(tw_diagnostics(ctx)->message, "sizes of 'y': number 0 is 3, not 4"));
    tw_session_destroy(session);
    tw_model_free(model);
    tw_context_destroy(ctx);
}

/* The count is replaced by what x[0] says. */
static void impossible(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    static const char text[] =
        "module attributes {symbols = [\"nz\"], input_symbols = 0} {\n"
        "  loop.kernel @count(%x: buffer<6xf32>, %n: buffer<1xi64>) attributes {outputs = 1} {\n"
        "    %a = loop.load %x[0] : f32\n"
        "    %b = loop.cast %a : i64\n"
        "    loop.store %b, %n[0]\n"
        "  }\n"
        "  loop.kernel @fill(%y: buffer<nz x nz x nz x f32>) attributes {outputs = 1} {\n"
        "    %a = loop.const {value = 1.0} : f32\n"
        "    loop.for %i = 0 to nz {\n"
        "      loop.store %a, %y[%i, 0, 0]\n"
        "    }\n"
        "  }\n"
        "  func @main(%x: buffer<6xf32>, %y: buffer<nz x f32>) attributes {outputs = 1} {\n"
        "    %n = loop.alloc {offset = 0} : buffer<1xi64>\n"
        "    call @count(%x, %n)\n"
        "    loop.bind %n {symbols = [\"nz\"]}\n"
        "    %t = loop.alloc : buffer<nz x nz x nz x f32>\n"
        "    call @fill(%t)\n"
        "    loop.provide %y\n"
        "    return\n"
        "  }\n"
        "}\n";
    static const struct {
        float size;
        const char *message;
    } cases[] = {{-1, "size 'nz' is negative or above 2147483647: -1"},
                 {3e9f, "size 'nz' is negative or above 2147483647: 3000000000"},
                 {2e9f, "negative or too large"}};
    tw_model *model = compile_sizes(ctx, parse_module(ctx, text), 2);
    tw_session *session;
    assert_int_equal(tw_session_create(model, NULL, &session), TW_STATUS_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float x[6] = {cases[i].size};
        assert_int_equal(tw_session_set_input(session, 0, x, sizeof x), TW_STATUS_OK);
        assert_int_equal(tw_session_run(session), TW_STATUS_RUN);
        if (!strstr(tw_last_error(), cases[i].message))
            fail_msg("%s", tw_last_error());
        assert_null(tw_session_output(session, 0, NULL));
    }
    tw_session_destroy(session);
    tw_model_free(model);
    tw_context_destroy(ctx);
}

/* ---- Routines ---- */

/* x above params[0], and how many; fails when there is a NaN. */
static int32_t above(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                     tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    const float *x = in[0].data;
    int64_t n = 0;
    assert_true(n_in == 1 && n_out == 2 && in[0].rank == 1 && in[0].elem == TW_F32);
    assert_true(out[0].rank == 1 && out[1].rank == 0 && out[1].elem == TW_I64);
    float *y = out[0].data = host->alloc(host, 1 + (size_t)in[0].dims[0] * sizeof *y);
    int64_t *count = out[1].data = host->alloc(host, sizeof *count);
    for (int64_t i = 0; i < in[0].dims[0]; i++) {
        if (isnan(x[i]))
            return host->error(host, 7, "above: not a number");
        if (x[i] > (float)params[0])
            y[n++] = x[i];
    }
    out[0].dims[0] = *count = n;
    return 0;
}

static const char routine_text[] =
    "module attributes {symbols = [\"nz\"], input_symbols = 0} {\n%s"
    "  func @main(%%x: buffer<6xf32>, %%y: buffer<nz x f32>) attributes {outputs = 1} {\n"
    "    %%t, %%n = loop.routine %%x {name = \"test_above\", params = [2],"
    " symbols = [\"nz\"]} : buffer<nz x f32>, buffer<i64>\n"
    "    loop.provide %%y\n"
    "    call @twice(%%t, %%y)\n"
    "    return\n"
    "  }\n"
    "}\n";

static void routines(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    tw_op *module =
        parse_module(ctx, tw_arena_printf(tw_context_arena(ctx), routine_text, kernels));
    float x[6] = {3, 4, 5, 6, 1, 2}, y[6] = {0};
    run_interpreted(ctx, module, (tw_interp_buffer[]){{x, sizeof x}, {y, sizeof y}}, 2);
    for (int i = 0; i < 6; i++)
        assert_true(y[i] == (i < 4 ? 2 * x[i] : 0));
    tw_model *model = compile_sizes(ctx, module, 2);
    tw_session *session;
    assert_int_equal(tw_session_create(model, NULL, &session), TW_STATUS_OK);
    run_on(session, x, 4);
    run_on(session, (float[]){0, 0, 0, 0, 0, 0}, 0);
    x[1] = NAN;
    assert_int_equal(tw_session_set_input(session, 0, x, sizeof x), TW_STATUS_OK);
    assert_int_equal(tw_session_run(session), TW_STATUS_RUN);
    assert_non_null(strstr(tw_last_error(), "above: not a number"));
    x[1] = 4;
    run_on(session, x, 4);
    tw_session_destroy(session);
    tw_model_free(model);
    tw_context_destroy(ctx);
}

/* Names are checked; a model that calls what nobody has does not load. */
static void unknown_routine(void **state)
{
    (void)state;
    assert_int_equal(tw_routine_register("above", above), TW_STATUS_INVALID);
    assert_int_equal(tw_routine_register("tw_rt_test_above", above), TW_STATUS_OK);
    assert_int_equal(tw_routine_register("tw_rt_test_above", above), TW_STATUS_OK);
    assert_int_equal(tw_routine_register("tw_rt_unique", above), TW_STATUS_INVALID);
    tw_context *ctx = new_context();
    tw_arena *arena = tw_context_arena(ctx);
    char *text = tw_arena_printf(arena, routine_text, kernels);
    memcpy(strstr(text, "test_above"), "nobody_has", strlen("nobody_has"));
    tw_codegen_result r = generate(ctx, parse_module(ctx, text), "host", TW_CODE_OBJECT, 0);
    tw_artifact *a = assemble(ctx, &r, "host", 0, NULL, 0, 0);
    int fd = tw_artifact_temporary(ctx, 0);
    tw_model *model;
    assert_true(fd >= 0 && tw_artifact_write_fd(ctx, a, fd));
    assert_int_equal(tw_model_load_fd(fd, "test", NULL, &model), TW_STATUS_UNSUPPORTED);
    assert_non_null(strstr(tw_last_error(), "tw_rt_nobody_has"));
    assert_non_null(strstr(tw_last_error(), "libtilewright-nobody.so"));
    assert_non_null(strstr(tw_last_error(), "tw_routine_register"));
    close(fd);
    tw_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_data_decides), cmocka_unit_test(interpreted),
        cmocka_unit_test(expected),         cmocka_unit_test(impossible),
        cmocka_unit_test(unknown_routine),  cmocka_unit_test(routines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
