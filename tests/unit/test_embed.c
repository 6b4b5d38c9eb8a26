/* test_embed.c: models as objects with headers, linked into C programs by the system's compiler.
 * Without one (`cc`) only what needs none is tested. */
#include "tiny_model.h"

#include "artifact/abi.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct fixture {
    tw_context *ctx;
    char dir[64];
} fixture;

static int set_up(void **state)
{
    static fixture f;
    f.ctx = tw_context_create(0);
    snprintf(f.dir, sizeof f.dir, "/tmp/tw-embed-XXXXXX");
    tiny_extra = 0;
    *state = &f;
    return f.ctx && mkdtemp(f.dir) ? 0 : -1;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    tw_context_destroy(f->ctx);
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", f->dir);
    return system(command);
}

/* Runs a command in the fixture's directory; with no `cc` at hand it only says so. */
static bool shell(fixture *f, const char *command)
{
    char text[1024];
    snprintf(text, sizeof text,
             "cd '%s' && { command -v cc >/dev/null || exit 77; } && { %s ; } 2>&1", f->dir,
             command);
    int status = system(text);
    if (status == 77 << 8)
        skip();
    return status == 0;
}

static void put(fixture *f, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", f->dir, name);
    FILE *file = fopen(path, "w");
    if (!file)
        abort();
    fputs(text, file);
    fclose(file);
}

static void write_object(fixture *f, const tw_artifact *a, const char *prefix)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s.o", f->dir, prefix);
    bool ok = tw_artifact_write_object(f->ctx, a, prefix, path);
    assert_true(no_errors(f->ctx) && ok);
    snprintf(path, sizeof path, "%s/%s.h", f->dir, prefix);
    ok = tw_artifact_write_header(f->ctx, a, prefix, path);
    assert_true(no_errors(f->ctx) && ok);
}

static void two_models_in_one_program(void **state)
{
    fixture *f = *state;
    write_object(f, tiny_artifact(f->ctx, 1), "tiny");
    tiny_extra = 12345;
    write_object(f, tiny_artifact(f->ctx, 1), "other");
    put(f, "main.c",
        "#include \"tiny.h\"\n"
        "#include \"other.h\"\n"
        "#include <math.h>\n"
        "#include <string.h>\n"
        "static _Alignas(TINY_ALIGN) char arena[TINY_ARENA_SIZE];\n"
        "int main(void)\n"
        "{\n"
        "    TINY_INPUT_0_TYPE x[TINY_INPUT_0_COUNT] = {0.5f, 1, 2, 3, 4, 5, 6, 7};\n"
        "    int dims[] = TINY_INPUT_0_DIMS;\n"
        "    OTHER_OUTPUT_0_TYPE y[OTHER_OUTPUT_0_COUNT];\n"
        "    OTHER_OUTPUT_1_TYPE z[OTHER_OUTPUT_1_COUNT];\n"
        "    const void *in[TINY_N_INPUTS] = {x};\n"
        "    void *out[TINY_N_OUTPUTS] = {y, z};\n"
        "    if (TINY_INPUT_0_RANK != 1 || TINY_OUTPUT_1_RANK != 0 || dims[0] != 8)\n"
        "        return 1;\n"
        "    if (strcmp(TINY_INPUT_0_NAME, \"x\") || strcmp(TINY_INPUT_0_ELEM, \"f32\"))\n"
        "        return 2;\n"
        "    for (int k = 0; k < 2; k++) {\n"
        "        memset(y, 0, sizeof y);\n"
        "        if (k ? other_run(in, out, arena) : tiny_run(in, out, arena))\n"
        "            return 3;\n"
        "        for (int i = 0; i < 8; i++)\n"
        "            if (y[i] != x[i] * (i + 1))\n"
        "                return 4;\n"
        "        if (z[0] != expf(x[0]))\n"
        "            return 5;\n"
        "    }\n"
        "    x[0] = -1;\n"
        "    return tiny_run(in, out, arena) == 7 ? 0 : 6;\n"
        "}\n");
    assert_true(shell(f, "cc -Wall -Wextra -Werror main.c tiny.o other.o -lm -o main && ./main"));
    assert_true(shell(f, "cc -no-pie -Wall main.c other.o tiny.o -lm -o main && ./main"));
    assert_true(shell(f, "! nm -g --defined-only tiny.o | grep -v ' tiny_'"));
}

static void the_example(void **state)
{
    fixture *f = *state;
    write_object(f, tiny_artifact(f->ctx, 1), "model");
    char command[1024];
    snprintf(command, sizeof command,
             "cp '" EXAMPLES "/embed/main.c' . &&"
             "cc -Wall -Wextra -Werror main.c model.o -lm -o main && ./main > out &&"
             "grep -q '^y: element 7 of 8 is the largest: 0.219608$' out");
    assert_true(shell(f, command));
}

static void runs_through_the_runtime(void **state)
{
    fixture *f = *state;
    write_object(f, tiny_artifact(f->ctx, 1), "tiny");
    assert_true(shell(f, "cc -shared tiny.o -o tiny.so -lm"));
    char path[128];
    snprintf(path, sizeof path, "%s/tiny.so", f->dir);
    void *handle = dlopen(path, RTLD_NOW);
    assert_non_null(handle);
    tw_model *model;
    assert_int_equal(tw_model_load_linked(dlsym(handle, "tiny_model"), &model), TW_STATUS_OK);
    assert_string_equal(tw_model_get_info(model)->name, "tiny");
    tw_session *s;
    assert_int_equal(tw_session_create(model, &(tw_session_options){.threads = 2}, &s),
                     TW_STATUS_OK);
    const float x[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    assert_int_equal(tw_session_set_input(s, 0, x, sizeof x), TW_STATUS_OK);
    assert_int_equal(tw_session_run(s), TW_STATUS_OK);
    assert_memory_equal(tw_session_output(s, 0, NULL), tiny_weights, sizeof tiny_weights);
    tw_session_destroy(s);
    tw_model_free(model);

    const uint64_t rubbish[32] = {0};
    assert_int_equal(tw_model_load_linked(rubbish, &model), TW_STATUS_UNSUPPORTED);
    dlclose(handle);
}

/* With a symbol, without constants, with names that C must not see. */
static void symbols_and_strange_names(void **state)
{
    fixture *f = *state;
    static const int64_t dims[] = {-1, 2};
    static const int32_t dim_symbols[] = {0, -1};
    static const char *const symbols[] = {"n*/\"\n"};
    static const tw_abi_tensor input = {"a\"\\*/?"
                                        "?/\n\xff",
                                        TW_I64,
                                        2,
                                        dims,
                                        dim_symbols,
                                        NULL,
                                        0};
    static const tw_abi_variant variant = {.cpu = "x86-64"};
    static const tw_artifact_code code = {"entry", "plan"};
    tw_bytes objects[2];
    objects[0] = compile_ir(f->ctx, "define hidden i32 @helper(ptr %s) {\n"
                                    "  %n = load i64, ptr %s\n"
                                    "  %r = trunc i64 %n to i32\n"
                                    "  ret i32 %r\n"
                                    "}\n");
    objects[1] =
        compile_ir(f->ctx, "declare hidden i32 @helper(ptr)\n"
                           "define hidden i64 @plan(ptr %s, ptr %d) {\n"
                           "  store i64 77, ptr %d\n"
                           "  ret i64 4096\n"
                           "}\n"
                           "define hidden i32 @entry(ptr %h, ptr %i, ptr %o, ptr %c, ptr %a,\n"
                           "                         ptr %s) {\n"
                           "  %r = call i32 @helper(ptr %s)\n"
                           "  ret i32 %r\n"
                           "}\n");
    const tw_artifact a = {
        .model = {.name = "strange",
                  .target = TRIPLE,
                  .n_inputs = 1,
                  .n_symbols = 1,
                  .n_variants = 1,
                  .inputs = &input,
                  .symbols = symbols,
                  .variants = &variant},
        .code = &code,
        .objects = objects,
        .n_objects = 2,
    };
    write_object(f, &a, "s1");
    put(f, "main.c",
        "#include \"s1.h\"\n"
        "#include <string.h>\n"
        "int main(void)\n"
        "{\n"
        "    int64_t n = 42, dim = 0, dims[] = S1_INPUT_0_DIMS;\n"
        "    const char name[] = {97, 34, 92, 42, 47, 63, 63, 47, 10, (char)255, 0};\n"
        "    if (strcmp(S1_INPUT_0_NAME, name) || dims[0] != -1)\n"
        "        return 1;\n"
        "    if (s1_plan(&n, &dim) != 4096 || dim != 77)\n"
        "        return 2;\n"
        "    return s1_run(0, 0, 0, &n) == 42 && s1_run_on(0, 0, 0, 0, &n) == 42 ? 0 : 3;\n"
        "}\n");
    assert_true(shell(f, "cc -std=c99 -Wall -Wextra -Werror main.c s1.o -o main && ./main"));
    assert_true(shell(f, "! nm -g --defined-only s1.o | grep -v ' s1_'"));
}

static void what_cannot_be_embedded(void **state)
{
    fixture *f = *state;
    char path[128];
    snprintf(path, sizeof path, "%s/x.o", f->dir);
    assert_false(tw_artifact_write_object(f->ctx, tiny_artifact(f->ctx, 2), "two", path));
    assert_false(tw_artifact_write_object(f->ctx, tiny_artifact(f->ctx, 1), "a-b", path));
    assert_false(tw_artifact_write_object(f->ctx, tiny_artifact(f->ctx, 1), "1a", path));
    assert_false(tw_artifact_write_header(f->ctx, tiny_artifact(f->ctx, 1), "", path));
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(tw_error_count(f->ctx), 4);
}

static void prefixes_from_names(void **state)
{
    fixture *f = *state;
    assert_string_equal(tw_artifact_prefix(f->ctx, "models/net-7b.v2.onnx"), "net_7b_v2");
    assert_string_equal(tw_artifact_prefix(f->ctx, "3d"), "m3d");
    assert_string_equal(tw_artifact_prefix(f->ctx, ""), "m");
    assert_string_equal(tw_artifact_prefix(f->ctx, ".onnx"), "_onnx");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(two_models_in_one_program), TEST(the_example),
        TEST(runs_through_the_runtime),  TEST(symbols_and_strange_names),
        TEST(what_cannot_be_embedded),   TEST(prefixes_from_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
