/* test_codegen_module.c: what is beyond single operations: parallel loops, errors while running and
 * while compiling, memory that must not be touched, equal bytes, profiles. */
#include "codegen_harness.h"

#include <math.h>

#include <sys/mman.h>

/* ---- Parallel loops ---- */

static const char parallel_text[] =
    "loop.kernel @k(%X: buffer<37x64xf32>, %W: buffer<64xf32>, %Y: buffer<37x64xf32>,\n"
    "               %Z: buffer<80xf32>) attributes {outputs = 2} {\n"
    "  %c = loop.const {value = 3.0} : f32\n"
    "  %w = loop.load %W[5] : f32\n"
    "  %five = loop.load %W[6] : f32\n"
    "  %a = loop.abs %five : f32\n"
    "  %n = loop.cast %a : index\n"
    "  %m = loop.index %n mod 8 : index\n"
    "  %base = loop.const {value = 8} : index\n"
    "  %r = loop.ramp %base : vec<8xindex>\n"
    "  %g = loop.load %W[%r] : vec<8xf32>\n"
    "  %V = loop.view %W {offset = 8} : buffer<7x8xf32>\n"
    "  loop.for %i = 0 to 37 parallel {\n"
    "    %T = loop.alloc : buffer<64xf32, \"local\">\n"
    "    %B = loop.alloc : buffer<30000xf32>\n"
    "    loop.for %j = 0 to 64 parallel {\n"
    "      %x = loop.load %X[%i, %j] : f32\n"
    "      %y = loop.fma %x, %c, %w : f32\n"
    "      loop.store %y, %T[%j]\n"
    "      loop.store %x, %B[%j * 400]\n"
    "    }\n"
    "    loop.for %j = 0 to 64 step 8 {\n"
    "      %s = loop.ramp %j : vec<8xindex>\n"
    "      %t = loop.load %T[%s] : vec<8xf32>\n"
    "      %u = loop.add %t, %g : vec<8xf32>\n"
    "      %b = loop.load %B[%s * 400] : vec<8xf32>\n"
    "      %q = loop.load %X[%i, (%r + %j) mod 64] : vec<8xf32>\n"
    "      %v = loop.load %V[%i mod 7, %m] : f32\n"
    "      %bv = loop.broadcast %v : vec<8xf32>\n"
    "      %o = loop.sub %u, %b : vec<8xf32>\n"
    "      %p = loop.mul %o, %bv : vec<8xf32>\n"
    "      %l = loop.add %p, %q : vec<8xf32>\n"
    "      loop.store %l, %Y[%i, %s]\n"
    "    }\n"
    "  }\n"
    "  loop.for %i = 0 to 80 {\n"
    "    loop.store %c, %Z[%i]\n"
    "  }\n"
    "  loop.for %i = 3 to 77 step 5 parallel {\n"
    "    %x = loop.load %W[%i - 3 + %m mod 2] where (63 - %i) else %w : f32\n"
    "    loop.store %x, %Z[%i]\n"
    "  }\n"
    "}\n"
    "func @main(%x: buffer<37x64xf32>, %w: buffer<64xf32>, %y: buffer<37x64xf32>,\n"
    "           %z: buffer<80xf32>) attributes {outputs = 2} {\n"
    "  call @k(%x, %w, %y, %z)\n"
    "  return\n"
    "}\n";

static void parallel_loops(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    tw_op *module = parse_module(ctx, parallel_text);
    static float x[37 * 64], w[64], y[2][37 * 64], z[2][80];
    for (int i = 0; i < 37 * 64; i++)
        x[i] = (float)(i % 23) - 7;
    for (int i = 0; i < 64; i++)
        w[i] = (float)(i * 7 % 31) - 12;
    tw_interp_buffer expected[] = {
        {x, sizeof x}, {w, sizeof w}, {y[0], sizeof y[0]}, {z[0], sizeof z[0]}};
    tw_interp_buffer actual[] = {
        {x, sizeof x}, {w, sizeof w}, {y[1], sizeof y[1]}, {z[1], sizeof z[1]}};
    run_interpreted(ctx, module, expected, 4);
    for (unsigned level = 0; level <= 2; level += 2)
        for (unsigned threads = 1; threads <= 4; threads += 3) {
            memset(y[1], 0xff, sizeof y[1]);
            memset(z[1], 0xff, sizeof z[1]);
            tw_model *model = compile_model(ctx, module, "host", level, 64);
            assert_int_equal(run_session(model, actual, threads), TW_STATUS_OK);
            assert_memory_equal(y[0], y[1], sizeof y[0]);
            assert_memory_equal(z[0], z[1], sizeof z[0]);
            tw_model_free(model);
        }
    tw_context_destroy(ctx);
}

/* ---- Names ---- */

/* A kernel may have the name of a function that it calls. */
static void names_of_imports(void **state)
{
    (void)state;
    static const char text[] =
        "loop.kernel @exp(%X: buffer<4xf64>, %Y: buffer<4xf64>) attributes {outputs = 1} {\n"
        "  loop.for %i = 0 to 4 {\n"
        "    %x = loop.load %X[%i] : f64\n"
        "    %y = loop.exp %x : f64\n"
        "    loop.store %y, %Y[%i]\n"
        "  }\n"
        "}\n"
        "func @main(%x: buffer<4xf64>, %y: buffer<4xf64>) attributes {outputs = 1} {\n"
        "  call @exp(%x, %y)\n"
        "  return\n"
        "}\n";
    tw_context *ctx = new_context();
    double x[4] = {0, 1, -2, 700}, y[4];
    tw_interp_buffer args[] = {{x, sizeof x}, {y, sizeof y}};
    for (unsigned level = 0; level <= 2; level += 2) {
        tw_model *model = compile_model(ctx, parse_module(ctx, text), "host", level, 64);
        assert_int_equal(run_session(model, args, 1), TW_STATUS_OK);
        for (int i = 0; i < 4; i++)
            assert_true(fabs(y[i] - exp(x[i])) <= 1e-12 * exp(x[i]));
        tw_model_free(model);
    }
    tw_context_destroy(ctx);
}

/* ---- Errors while running ---- */

/* Sanitizers, when they are there, are to return NULL as malloc does. */
#define SANITIZER_OPTIONS(name)                                                                    \
    __attribute__((visibility("default"))) const char *name(void);                                 \
    const char *name(void)                                                                         \
    {                                                                                              \
        return "allocator_may_return_null=1";                                                      \
    }
SANITIZER_OPTIONS(__asan_default_options) // NOLINT(bugprone-reserved-identifier)
SANITIZER_OPTIONS(__tsan_default_options) // NOLINT(bugprone-reserved-identifier)

static void no_memory(const char *loop)
{
    tw_context *ctx = new_context();
    char text[2048];
    snprintf(text, sizeof text,
             "loop.kernel @k(%%X: buffer<4xf32>, %%Y: buffer<4xf32>) attributes {outputs = 1} {\n"
             "  loop.for %%i = 0 to 4 %s {\n"
             "    %%small = loop.alloc : buffer<40000xf32>\n"
             "    %%B = loop.alloc : buffer<%lldxf32>\n"
             "    %%x = loop.load %%X[%%i] : f32\n"
             "    loop.store %%x, %%B[%%i]\n"
             "    loop.store %%x, %%small[%%i]\n"
             "    %%b = loop.load %%B[%%i] : f32\n"
             "    loop.store %%b, %%Y[%%i]\n"
             "  }\n"
             "}\n"
             "func @main(%%x: buffer<4xf32>, %%y: buffer<4xf32>) attributes {outputs = 1} {\n"
             "  call @k(%%x, %%y)\n"
             "  return\n"
             "}\n",
             loop, 1ll << 45);
    float x[4] = {1, 2, 3, 4}, y[4];
    tw_interp_buffer args[] = {{x, sizeof x}, {y, sizeof y}};
    for (unsigned level = 0; level <= 2; level += 2) {
        tw_model *model = compile_model(ctx, parse_module(ctx, text), "host", level, 64);
        assert_int_not_equal(run_session(model, args, 2), TW_STATUS_OK);
        assert_non_null(strstr(tw_last_error(), "memory"));
        tw_model_free(model);
    }
    tw_context_destroy(ctx);
}

static void memory_runs_out(void **state)
{
    (void)state;
    no_memory("");
    no_memory("parallel");
}

/* ---- Bounds ---- */

/* `size` bytes that end (or begin) at a page that must not be touched. */
static void *guarded(size_t size, bool at_end)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED && size <= page);
    assert_int_equal(mprotect(p, page, PROT_NONE), 0);
    assert_int_equal(mprotect(p + 2 * page, page, PROT_NONE), 0);
    return at_end ? p + 2 * page - size : p + page;
}

static void nothing_outside_is_touched(void **state)
{
    (void)state;
    static const char text[] =
        "loop.kernel @k(%X: buffer<13xf32>, %H: buffer<13xi8>, %Y: buffer<13xf32>,\n"
        "               %Z: buffer<13xi8>) attributes {outputs = 2} {\n"
        "  %v = loop.const {value = 0.5} : vec<8xf32>\n"
        "  %h = loop.const {value = 5} : vec<16xi8>\n"
        "  %s = loop.const {value = 1.5} : f32\n"
        "  loop.for %i = 0 to 13 step 8 {\n"
        "    %r = loop.ramp %i : vec<8xindex>\n"
        "    %a = loop.load %X[%r] where (12 - %r) else %v : vec<8xf32>\n"
        "    %b = loop.load %X[%r - 7] where (%r - 7, 19 - %r) else %v : vec<8xf32>\n"
        "    %c = loop.load %X[%r * 2] where (6 - %r) else %v : vec<8xf32>\n"
        "    %d = loop.load %X[%r + %i] where (4 - %i) else %v : vec<8xf32>\n"
        "    %e = loop.load %X[20 - %r] where (%r - 8) else %v : vec<8xf32>\n"
        "    %f = loop.load %X[%i * 100] where (4 - %r) else %v : vec<8xf32>\n"
        "    %t = loop.load %X[%i * 100 - 1] where (%i - 1, 4 - %i) else %s : f32\n"
        "    %tv = loop.broadcast %t : vec<8xf32>\n"
        "    %ab = loop.add %a, %b : vec<8xf32>\n"
        "    %cd = loop.add %c, %d : vec<8xf32>\n"
        "    %ef = loop.add %e, %f : vec<8xf32>\n"
        "    %abt = loop.add %ab, %tv : vec<8xf32>\n"
        "    %abcd = loop.add %abt, %cd : vec<8xf32>\n"
        "    %all = loop.add %abcd, %ef : vec<8xf32>\n"
        "    loop.store %all, %Y[%r] where (12 - %r)\n"
        "  }\n"
        "  loop.for %i = 0 to 13 step 16 {\n"
        "    %r = loop.ramp %i : vec<16xindex>\n"
        "    %a = loop.load %H[%r] where (12 - %r) else %h : vec<16xi8>\n"
        "    loop.store %a, %Z[12 - %r] where (12 - %r)\n"
        "  }\n"
        "  loop.for %i = 0 to 1 {\n" /* the last of a strided run ends with the buffer */
        "    %r = loop.ramp %i : vec<4xindex>\n"
        "    %a = loop.load %X[%r * 3 + 3] : vec<4xf32>\n"
        "    %b = loop.load %X[%r * 4] : vec<4xf32>\n"
        "    %c = loop.add %a, %b : vec<4xf32>\n"
        "    loop.store %c, %Y[%r + 4]\n"
        "  }\n"
        "}\n"
        "func @main(%x: buffer<13xf32>, %h: buffer<13xi8>, %y: buffer<13xf32>,\n"
        "           %z: buffer<13xi8>) attributes {outputs = 2} {\n"
        "  call @k(%x, %h, %y, %z)\n"
        "  return\n"
        "}\n";
    tw_context *ctx = new_context();
    tw_op *module = parse_module(ctx, text);
    float y[13];
    int8_t z[13];
    static const char *const cpus[] = {"x86-64", "x86-64-v3", "host"};
    for (int end = 0; end < 2; end++) {
        float *gx = guarded(sizeof y, end), *gy = guarded(sizeof y, end);
        int8_t *gh = guarded(sizeof z, end), *gz = guarded(sizeof z, end);
        for (int i = 0; i < 13; i++) {
            gx[i] = (float)i * 3 - 5;
            gh[i] = (int8_t)(i * 11);
        }
        tw_interp_buffer expected[] = {
            {gx, sizeof y}, {gh, sizeof z}, {y, sizeof y}, {z, sizeof z}};
        tw_interp_buffer actual[] = {
            {gx, sizeof y}, {gh, sizeof z}, {gy, sizeof y}, {gz, sizeof z}};
        run_interpreted(ctx, module, expected, 4);
        for (int c = 0; c < 3; c++)
            for (unsigned level = 0; level <= 2; level += 2) {
                run_compiled(ctx, module, cpus[c], level, actual);
                assert_memory_equal(y, gy, sizeof y);
                assert_memory_equal(z, gz, sizeof z);
            }
    }
    tw_context_destroy(ctx);
}

/* ---- Compilation ---- */

static void bytes_do_not_depend_on_threads(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    size_t cap = 1 << 20, len = 0;
    char *text = malloc(cap);
    for (int i = 0; i < 300; i++)
        len += (size_t)snprintf(text + len, cap - len,
                                "loop.kernel @k%d(%%X: buffer<64xf32>, %%Y: buffer<64xf32>)"
                                " attributes {outputs = 1} {\n"
                                "  %%c = loop.const {value = %d.5} : vec<8xf32>\n"
                                "  loop.for %%i = 0 to 64 step 8 parallel {\n"
                                "    %%r = loop.ramp %%i : vec<8xindex>\n"
                                "    %%x = loop.load %%X[%%r] : vec<8xf32>\n"
                                "    %%y = loop.mul %%x, %%c : vec<8xf32>\n"
                                "    %%z = loop.exp %%y : vec<8xf32>\n"
                                "    loop.store %%z, %%Y[%%r]\n"
                                "  }\n"
                                "}\n",
                                i, i);
    tw_op *module = parse_module(ctx, text);
    tw_target target;
    assert_true(tw_target_resolve(ctx, "x86-64-v3", &target));
    tw_codegen_result results[2];
    for (unsigned i = 0; i < 2; i++) {
        tw_codegen_options options = {
            .target = &target, .opt_level = 2, .threads = i ? 5 : 1, .suffix = ".v3"};
        assert_true(tw_codegen_module(ctx, module, &options, &results[i]));
    }
    assert_true(results[0].n_pieces > 3);
    assert_int_equal(results[0].n_pieces, results[1].n_pieces);
    for (size_t i = 0; i < results[0].n_pieces; i++) {
        assert_int_equal(results[0].pieces[i].size, results[1].pieces[i].size);
        assert_memory_equal(results[0].pieces[i].bytes, results[1].pieces[i].bytes,
                            results[0].pieces[i].size);
    }
    free(text);
    tw_context_destroy(ctx);
}

/* The module is refused with a message that holds `expected`. */
static void refused(const char *text, const char *expected)
{
    tw_context *ctx = new_context();
    tw_op *module = parse_module(ctx, text);
    tw_target target;
    tw_codegen_result result;
    assert_true(tw_target_resolve(ctx, "host", &target));
    tw_codegen_options options = {.target = &target, .opt_level = 2};
    assert_false(tw_codegen_module(ctx, module, &options, &result));
    assert_true(tw_error_count(ctx) > 0);
    const char *message = tw_diagnostic_text(ctx, tw_diagnostics(ctx));
    if (!strstr(message, expected))
        fail_msg("'%s' is not in '%s'", expected, message);
    tw_context_destroy(ctx);
}

#define KERNEL(body)                                                                               \
    "loop.kernel @k(%X: buffer<8xf32>, %Y: buffer<8xf32>) attributes {outputs = 1} {\n" body "}\n"

static void what_is_not_flat_is_refused(void **state)
{
    (void)state;
    refused(KERNEL("  loop.for %i = 0 to 8 vectorize {\n  }\n"), "vectorize");
    refused(KERNEL("  loop.for %i = 0 to 8 {\n"
                   "    loop.block \"b\" (%v: spatial 8 = %i) {\n"
                   "      %x = loop.load %X[%v] : f32\n"
                   "      loop.store %x, %Y[%v]\n"
                   "    }\n  }\n"),
            "loop.block");
    refused(KERNEL("  loop.for %i = 0 to n {\n  }\n"), "symbol 'n'");
    refused(KERNEL("  %c = loop.const {value = 0.0} : vec<1024xf32>\n"), "256 lanes");
    tw_context *ctx = new_context();
    tw_target target;
    assert_false(tw_target_resolve(ctx, "pentium9", &target));
    assert_non_null(strstr(tw_diagnostic_text(ctx, tw_diagnostics(ctx)), "x86-64-v3"));
    tw_context_destroy(ctx);
}

/* ---- Profiles ---- */

static void calls_are_counted(void **state)
{
    (void)state;
    static const char text[] = KERNEL("  loop.for %i = 0 to 8 {\n"
                                      "    %x = loop.load %X[%i] : f32\n"
                                      "    %y = loop.neg %x : f32\n"
                                      "    loop.store %y, %Y[%i]\n"
                                      "  }\n") "func @main(%x: buffer<8xf32>, %y: buffer<8xf32>)"
                                               " attributes {outputs = 1} {\n"
                                               "  %a = loop.alloc {offset = 0} : buffer<8xf32>\n"
                                               "  call @k(%x, %a)\n"
                                               "  call @k(%a, %y)\n"
                                               "  return\n}\n";
    tw_context *ctx = new_context();
    tw_op *module = parse_module(ctx, text);
    tw_model *model = compile_model(ctx, module, "host", 2, 64);
    tw_session *session;
    tw_session_options options = {.threads = 1, .profile = true};
    assert_int_equal(tw_session_create(model, &options, &session), TW_STATUS_OK);
    const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    assert_int_equal(tw_session_set_input(session, 0, x, sizeof x), TW_STATUS_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(tw_session_run(session), TW_STATUS_OK);
    size_t size;
    assert_memory_equal(tw_session_output(session, 0, &size), x, sizeof x);
    assert_int_equal(tw_model_get_info(model)->kernels, 2);
    for (size_t k = 0; k < 2; k++)
        assert_int_equal(tw_session_kernel_time(session, k).calls, 3);
    tw_session_destroy(session);
    tw_model_free(model);
    tw_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parallel_loops),
        cmocka_unit_test(names_of_imports),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(nothing_outside_is_touched),
        cmocka_unit_test(bytes_do_not_depend_on_threads),
        cmocka_unit_test(what_is_not_flat_is_refused),
        cmocka_unit_test(calls_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
