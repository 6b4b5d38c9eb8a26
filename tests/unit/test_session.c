/* test_session.c: running models: inputs, outputs, shapes, threads, errors, and the functions that
 * the runtime lends to compiled code. */
#include "tiny_model.h"

#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

static const float tiny_x[8] = {0.5f, 1, 2, 3, 4, 5, 6, 7};

/* Writes an artifact to a nameless file and loads that. */
static tw_model *load_artifact(tw_context *ctx, const tw_artifact *a)
{
    int fd = tw_artifact_temporary(ctx, 0);
    bool ok = fd >= 0 && tw_artifact_write_fd(ctx, a, fd);
    assert_true(no_errors(ctx) && ok);
    tw_model *model;
    tw_status status = tw_model_load_fd(fd, NULL, NULL, &model);
    if (status != TW_STATUS_OK)
        fprintf(stderr, "%s\n", tw_last_error());
    assert_int_equal(status, TW_STATUS_OK);
    close(fd);
    return model;
}

static tw_model *load_tiny(void)
{
    tw_context *ctx = tw_context_create(0);
    tw_model *model = load_artifact(ctx, tiny_artifact(ctx, 1));
    tw_context_destroy(ctx);
    return model;
}

static tw_session *new_session(tw_model *model, const tw_session_options *options)
{
    tw_session *session;
    assert_int_equal(tw_session_create(model, options, &session), TW_STATUS_OK);
    return session;
}

/* No cmocka here: called on other threads, too. */
static bool tiny_runs(tw_session *session, float first)
{
    float x[8];
    memcpy(x, tiny_x, sizeof x);
    x[0] = first;
    if (tw_session_set_input(session, 0, x, sizeof x) != TW_STATUS_OK ||
        tw_session_run(session) != TW_STATUS_OK)
        return false;
    const float *y = tw_session_output(session, 0, NULL), *z = tw_session_output(session, 1, NULL);
    bool ok = *z == expf(first);
    for (int i = 0; i < 8; i++)
        ok &= y[i] == x[i] * tiny_weights[i];
    return ok;
}

static void inputs_are_checked(void **state)
{
    (void)state;
    tw_model *model = load_tiny();
    tw_session *s = new_session(model, NULL);
    assert_int_equal(tw_session_run(s), TW_STATUS_INVALID);
    assert_non_null(strstr(tw_last_error(), "'x' has not been set"));
    assert_null(tw_session_output(s, 0, NULL));

    char bytes[64];
    const int64_t right[] = {8}, wrong[] = {9}, negative[] = {-1};
    assert_int_equal(tw_session_set_input(s, 1, tiny_x, 32), TW_STATUS_INVALID);
    assert_int_equal(tw_session_set_input(s, 0, tiny_x, 31), TW_STATUS_INVALID);
    assert_int_equal(tw_session_set_input(s, 0, NULL, 32), TW_STATUS_INVALID);
    assert_int_equal(tw_session_set_input(s, 0, bytes + ((uintptr_t)bytes % 2 ? 0 : 1), 32),
                     TW_STATUS_INVALID);
    assert_int_equal(tw_session_set_input_shape(s, 0, tiny_x, right, 2), TW_STATUS_INVALID);
    assert_int_equal(tw_session_set_input_shape(s, 0, tiny_x, wrong, 1), TW_STATUS_INVALID);
    assert_int_equal(tw_session_set_input_shape(s, 0, tiny_x, negative, 1), TW_STATUS_INVALID);
    assert_int_equal(tw_session_set_input_shape(s, 0, NULL, right, 1), TW_STATUS_INVALID);
    assert_int_equal(tw_session_set_input_shape(s, 0, tiny_x, right, 1), TW_STATUS_OK);
    assert_int_equal(tw_session_run(s), TW_STATUS_OK);
    tw_session_destroy(s);
    tw_model_free(model);
}

static void outputs_go_where_they_should(void **state)
{
    (void)state;
    tw_model *model = load_tiny();
    tw_session *s = new_session(model, NULL);
    float y[8] = {0};
    size_t size;
    assert_int_equal(tw_session_set_input(s, 0, tiny_x, sizeof tiny_x), TW_STATUS_OK);
    assert_int_equal(tw_session_set_output(s, 2, y, sizeof y), TW_STATUS_INVALID);
    assert_int_equal(tw_session_set_output(s, 0, y, sizeof y - 1), TW_STATUS_OK);
    assert_int_equal(tw_session_run(s), TW_STATUS_INVALID);
    assert_non_null(strstr(tw_last_error(), "'y' needs 32 bytes"));
    assert_int_equal(tw_session_set_output(s, 0, y, sizeof y), TW_STATUS_OK);
    assert_int_equal(tw_session_run(s), TW_STATUS_OK);
    assert_ptr_equal(tw_session_output(s, 0, &size), y);
    assert_int_equal(size, 32);
    assert_true(y[7] == 56);
    assert_int_equal(tw_session_output_dims(s, 0)[0], 8);
    assert_null(tw_session_output(s, 2, &size));
    assert_int_equal(size, 0);
    /* Back to the session's own memory. */
    assert_int_equal(tw_session_set_output(s, 0, NULL, 0), TW_STATUS_OK);
    assert_int_equal(tw_session_run(s), TW_STATUS_OK);
    assert_ptr_not_equal(tw_session_output(s, 0, NULL), y);
    tw_session_destroy(s);
    tw_model_free(model);
}

static void the_model_reports_errors(void **state)
{
    (void)state;
    tw_model *model = load_tiny();
    tw_session *s = new_session(model, NULL);
    assert_true(tiny_runs(s, 1));
    const float negative[8] = {-1};
    assert_int_equal(tw_session_set_input(s, 0, negative, sizeof negative), TW_STATUS_OK);
    assert_int_equal(tw_session_run(s), TW_STATUS_RUN);
    assert_string_equal(tw_last_error(), "model 'tiny': x is negative");
    assert_null(tw_session_output(s, 0, NULL));
    assert_true(tiny_runs(s, 2));
    tw_session_destroy(s);
    tw_model_free(model);
}

static void sessions_keep_their_model(void **state)
{
    (void)state;
    tw_model *model = load_tiny();
    tw_session *s = new_session(model, &(tw_session_options){.threads = 2});
    tw_model_free(model);
    assert_true(tiny_runs(s, 1));
    tw_session_destroy(s);
    tw_session_destroy(NULL);
    tw_model_free(NULL);
}

static void profile_counts_kernels(void **state)
{
    (void)state;
    tw_model *model = load_tiny();
    tw_session *s = new_session(model, &(tw_session_options){.profile = true});
    for (int i = 0; i < 5; i++)
        assert_true(tiny_runs(s, 1));
    tw_kernel_time time = tw_session_kernel_time(s, 0);
    assert_int_equal(time.calls, 5);
    assert_true(time.seconds > 0 && time.seconds < 10);
    assert_int_equal(tw_session_kernel_time(s, 1).calls, 0);
    tw_session_reset_profile(s);
    assert_int_equal(tw_session_kernel_time(s, 0).calls, 0);
    tw_session_destroy(s);
    tw_model_free(model);
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void one_by_one(void *data, int64_t count,
                       void (*body)(void *ctx, int64_t begin, int64_t end), void *ctx)
{
    *(int64_t *)data += count;
    for (int64_t i = count; i-- > 0;)
        body(ctx, i, i + 1);
}

static void pools_of_all_kinds(void **state)
{
    (void)state;
    tw_model *model = load_tiny();
    int64_t iterations = 0;
    tw_pool *pool;
    assert_int_equal(tw_pool_create(3, &pool), TW_STATUS_OK);
    const tw_session_options options[] = {
        {.threads = 1},
        {.threads = 4},
        {.pool = pool},
        {.pool = pool, .threads = 2},
        {.parallel_for = one_by_one, .parallel_data = &iterations},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        tw_session *s = new_session(model, &options[i]);
        assert_true(tiny_runs(s, 1));
        tw_session_destroy(s);
    }
    assert_int_equal(iterations, 8);
    tw_session *s;
    assert_int_equal(tw_session_create(model, &(tw_session_options){.threads = 5000}, &s),
                     TW_STATUS_INVALID);
    tw_pool_destroy(pool);
    tw_model_free(model);
}

static void *run_many(void *argument)
{
    tw_model *model = argument;
    tw_session *s;
    bool ok = true;
    for (int round = 0; ok && round < 3; round++) {
        if (tw_session_create(model, &(tw_session_options){.threads = 3}, &s) != TW_STATUS_OK)
            return NULL;
        for (int i = 0; ok && i < 100; i++)
            ok = tiny_runs(s, (float)i);
        /* An error is the business of its own session and thread. */
        ok = ok && !tiny_runs(s, -1) && strstr(tw_last_error(), "negative");
        tw_session_destroy(s);
    }
    return ok ? argument : NULL;
}

static void many_sessions_at_once(void **state)
{
    (void)state;
    tw_model *model = load_tiny();
    pthread_t threads[6];
    for (int i = 0; i < 6; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_many, model), 0);
    for (int i = 0; i < 6; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_non_null(result);
    }
    tw_model_free(model);
}

static int shared_fd;

static void *load_many(void *argument)
{
    for (int i = 0; i < 20; i++) {
        tw_model *model;
        tw_session *s;
        if (tw_model_load_fd(shared_fd, NULL, NULL, &model) != TW_STATUS_OK)
            return NULL;
        if (tw_session_create(model, &(tw_session_options){.threads = 2}, &s) != TW_STATUS_OK)
            return NULL;
        tw_model_free(model);
        bool ok = tiny_runs(s, 1);
        tw_session_destroy(s);
        if (!ok)
            return NULL;
    }
    return argument;
}

static void loading_at_once(void **state)
{
    (void)state;
    tw_context *ctx = tw_context_create(0);
    shared_fd = tw_artifact_temporary(ctx, 0);
    assert_true(tw_artifact_write_fd(ctx, tiny_artifact(ctx, 1), shared_fd));
    tw_context_destroy(ctx);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, load_many, &shared_fd), 0);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_non_null(result);
    }
    close(shared_fd);
}

/* ---- Shapes known only when running ---------------------------------------------------------- */

/* x: f32[n, 2], t: f32[n]; y: f32[2*n, 2] = x twice; positive: f32[?] = the elements of t above 0
 */
static const char shapes_code[] =
    "declare ptr @memcpy(ptr, ptr, i64)\n"
    "define hidden i64 @plan(ptr %symbols, ptr %dims) nounwind {\n"
    "  %n = load i64, ptr %symbols\n"
    "  %n2 = mul i64 %n, 2\n"
    "  store i64 %n2, ptr %dims\n"
    "  %p1 = getelementptr i64, ptr %dims, i64 1\n"
    "  store i64 2, ptr %p1\n"
    "  %p2 = getelementptr i64, ptr %dims, i64 2\n"
    "  store i64 -1, ptr %p2\n"
    "  %bad = icmp sgt i64 %n, 1000\n"
    "  %bytes = mul i64 %n, 8\n"
    "  %result = select i1 %bad, i64 -1, i64 %bytes\n"
    "  ret i64 %result\n"
    "}\n"
    "define hidden i32 @entry(ptr %host, ptr %in, ptr %out, ptr %c, ptr %arena, ptr %symbols)"
    "    nounwind {\n"
    "entry:\n"
    "  %n = load i64, ptr %symbols\n"
    "  %bytes = mul i64 %n, 8\n"
    "  %x = load ptr, ptr %in\n"
    "  %y = load ptr, ptr %out\n"
    "  call ptr @memcpy(ptr %arena, ptr %x, i64 %bytes)\n"
    "  call ptr @memcpy(ptr %y, ptr %arena, i64 %bytes)\n"
    "  %y2 = getelementptr i8, ptr %y, i64 %bytes\n"
    "  call ptr @memcpy(ptr %y2, ptr %arena, i64 %bytes)\n"
    "  %pt = getelementptr i8, ptr %in, i64 8\n"
    "  %t = load ptr, ptr %pt\n"
    "  br label %loop\n"
    "loop:\n"
    "  %i = phi i64 [ 0, %entry ], [ %i1, %next ]\n"
    "  %count = phi i64 [ 0, %entry ], [ %count1, %next ]\n"
    "  %more = icmp slt i64 %i, %n\n"
    "  br i1 %more, label %next, label %emit\n"
    "next:\n"
    "  %pe = getelementptr float, ptr %t, i64 %i\n"
    "  %e = load float, ptr %pe\n"
    "  %pa = getelementptr float, ptr %arena, i64 %count\n"
    "  store float %e, ptr %pa\n"
    "  %positive = fcmp ogt float %e, 0.0\n"
    "  %one = zext i1 %positive to i64\n"
    "  %count1 = add i64 %count, %one\n"
    "  %i1 = add i64 %i, 1\n"
    "  br label %loop\n"
    "emit:\n"
    "  %dims = alloca i64\n"
    "  store i64 %count, ptr %dims\n"
    "  %po = getelementptr i8, ptr %host, i64 48\n"
    "  %output = load ptr, ptr %po\n"
    "  %memory = call ptr %output(ptr %host, i32 1, ptr %dims)\n"
    "  %none = icmp eq ptr %memory, null\n"
    "  br i1 %none, label %fail, label %copy\n"
    "fail:\n"
    "  ret i32 1\n"
    "copy:\n"
    "  %size = mul i64 %count, 4\n"
    "  call ptr @memcpy(ptr %memory, ptr %arena, i64 %size)\n"
    "  ret i32 0\n"
    "}\n";

static tw_model *load_shapes(void)
{
    static const int64_t x_dims[] = {-1, 2}, t_dims[] = {-1}, y_dims[] = {-1, 2}, p_dims[] = {-1};
    static const int32_t x_symbols[] = {0, -1}, t_symbols[] = {0};
    static const char *const x_texts[] = {"n", NULL}, *const y_texts[] = {"2*n", NULL};
    static const char *const symbols[] = {"n"};
    static const tw_abi_tensor inputs[] = {
        {"x", TW_F32, 2, x_dims, x_symbols, x_texts, 0},
        {"t", TW_F32, 1, t_dims, t_symbols, x_texts, 0},
    };
    static const tw_abi_tensor outputs[] = {
        {"y", TW_F32, 2, y_dims, NULL, y_texts, 0},
        {"positive", TW_F32, 1, p_dims, NULL, NULL, TW_ABI_DYNAMIC},
    };
    static const tw_abi_variant variant = {.cpu = "x86-64"};
    static const tw_artifact_code code = {"entry", "plan"};
    tw_context *ctx = tw_context_create(0);
    tw_bytes object = compile_ir(ctx, shapes_code);
    tw_artifact a = {
        .model = {.name = "shapes",
                  .target = TRIPLE,
                  .n_inputs = 2,
                  .n_outputs = 2,
                  .n_symbols = 1,
                  .n_variants = 1,
                  .inputs = inputs,
                  .outputs = outputs,
                  .symbols = symbols,
                  .variants = &variant},
        .code = &code,
        .objects = &object,
        .n_objects = 1,
    };
    tw_model *model = load_artifact(ctx, &a);
    tw_context_destroy(ctx);
    return model;
}

static void symbolic_shapes(void **state)
{
    (void)state;
    tw_model *model = load_shapes();
    const tw_tensor_info *x = tw_model_input(model, 0);
    assert_false(x->is_static);
    assert_string_equal(x->dim_texts[0], "n");
    assert_null(x->dim_texts[1]);
    assert_int_equal(x->dims[0], -1);
    tw_session *s = new_session(model, NULL);
    float data[60];
    for (int i = 0; i < 60; i++)
        data[i] = (float)(i - 3);
    assert_int_equal(tw_session_set_input(s, 0, data, 24), TW_STATUS_INVALID);
    /* Up, down, and nothing at all. */
    const int64_t sizes[] = {3, 30, 7, 0, 5};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t n = sizes[i], x_dims[] = {n, 2};
        int64_t above = n > 4 ? n - 4 : 0;
        size_t size;
        assert_int_equal(tw_session_set_input_shape(s, 0, data, x_dims, 2), TW_STATUS_OK);
        assert_int_equal(tw_session_set_input_shape(s, 1, data, &n, 1), TW_STATUS_OK);
        assert_int_equal(tw_session_run(s), TW_STATUS_OK);
        const float *y = tw_session_output(s, 0, &size);
        assert_int_equal(size, n * 16);
        assert_int_equal(tw_session_output_dims(s, 0)[0], 2 * n);
        assert_memory_equal(y, data, n * 8);
        assert_memory_equal(y + n * 2, data, n * 8);
        const float *positive = tw_session_output(s, 1, &size);
        assert_non_null(positive);
        assert_int_equal(size, above * 4);
        assert_int_equal(tw_session_output_dims(s, 1)[0], above);
        assert_memory_equal(positive, data + 4, above * 4);
    }
    tw_session_destroy(s);
    tw_model_free(model);
}

static void shapes_that_cannot_be(void **state)
{
    (void)state;
    tw_model *model = load_shapes();
    tw_session *s = new_session(model, NULL);
    static float data[4000];
    int64_t x_dims[] = {3, 2}, n = 4;
    assert_int_equal(tw_session_set_input_shape(s, 0, data, x_dims, 2), TW_STATUS_OK);
    assert_int_equal(tw_session_set_input_shape(s, 1, data, &n, 1), TW_STATUS_OK);
    assert_int_equal(tw_session_run(s), TW_STATUS_INVALID);
    assert_non_null(strstr(tw_last_error(), "'n', is 4, but dimension"));
    n = x_dims[0] = 1001;
    assert_int_equal(tw_session_set_input_shape(s, 0, data, x_dims, 2), TW_STATUS_OK);
    assert_int_equal(tw_session_set_input_shape(s, 1, data, &n, 1), TW_STATUS_OK);
    assert_int_equal(tw_session_run(s), TW_STATUS_INVALID);
    int64_t huge[] = {INT64_MAX / 4, 2};
    assert_int_equal(tw_session_set_input_shape(s, 0, data, huge, 2), TW_STATUS_INVALID);
    /* Room for two of three. */
    n = x_dims[0] = 7;
    data[0] = data[2] = data[4] = 1;
    float room[2];
    assert_int_equal(tw_session_set_input_shape(s, 0, data, x_dims, 2), TW_STATUS_OK);
    assert_int_equal(tw_session_set_input_shape(s, 1, data, &n, 1), TW_STATUS_OK);
    assert_int_equal(tw_session_set_output(s, 1, room, sizeof room), TW_STATUS_OK);
    assert_int_equal(tw_session_run(s), TW_STATUS_RUN);
    assert_non_null(strstr(tw_last_error(), "'positive' needs 12 bytes"));
    tw_session_destroy(s);
    tw_model_free(model);
}

/* ---- Functions lent by the runtime ----------------------------------------------------------- */

/* Runs code with inputs and outputs that are just pointers, one of each. */
static void run_raw(const char *text, const void *in, void *out)
{
    static const int64_t dims[] = {0};
    static const tw_abi_tensor tensor = {.name = "t", .elem = TW_U8, .rank = 1, .dims = dims};
    static const tw_abi_variant variant = {.cpu = "x86-64"};
    static const tw_artifact_code code = {"entry", NULL};
    tw_context *ctx = tw_context_create(0);
    tw_bytes object = compile_ir(ctx, text);
    tw_artifact a = {
        .model = {.name = "raw",
                  .target = TRIPLE,
                  .n_inputs = 1,
                  .n_outputs = 1,
                  .n_variants = 1,
                  .inputs = &tensor,
                  .outputs = &tensor,
                  .variants = &variant},
        .code = &code,
        .objects = &object,
        .n_objects = 1,
    };
    tw_model *model = load_artifact(ctx, &a);
    tw_context_destroy(ctx);
    tw_session *s = new_session(model, NULL);
    assert_int_equal(tw_session_set_input(s, 0, in, 0), TW_STATUS_OK);
    assert_int_equal(tw_session_set_output(s, 0, out, 0), TW_STATUS_OK);
    assert_int_equal(tw_session_run(s), TW_STATUS_OK);
    tw_session_destroy(s);
    tw_model_free(model);
}

#define ENTRY_TEXT                                                                                 \
    "define hidden i32 @entry(ptr %host, ptr %ins, ptr %outs, ptr %c, ptr %arena, ptr %symbols)"   \
    " nounwind {\nentry:\n  %in = load ptr, ptr %ins\n  %out = load ptr, ptr %outs\n"

static const struct {
    const char *name, *signature;
    void *function;
} standard[] = {
#define STANDARD(name, signature) {#name, signature, (void *)name},
    TW_LIBC_IMPORTS(STANDARD)};
enum { N_STANDARD = sizeof standard / sizeof standard[0] };

/* float(float), float(float, float) and the same with double; arguments 0: another form. */
static int arguments(const char *signature)
{
    size_t len = strlen(signature);
    if ((signature[0] != 'f' && signature[0] != 'd') || len > 3)
        return 0;
    for (size_t i = 1; i < len; i++)
        if (signature[i] != signature[0])
            return 0;
    return (int)len - 1;
}

static double call_here(size_t i, double a, double b)
{
    void *f = standard[i].function;
    bool one = arguments(standard[i].signature) == 1;
    if (standard[i].signature[0] == 'd')
        return one ? ((double (*)(double))f)(a) : ((double (*)(double, double))f)(a, b);
    return one ? ((float (*)(float))f)((float)a) : ((float (*)(float, float))f)((float)a, (float)b);
}

/* All of these forms, each on the same numbers. */
static void mathematical_functions(void **state)
{
    (void)state;
    const double a = 1.375, b = 0.75;
    double found[N_STANDARD];
    char *text;
    size_t size, n = 0;
    FILE *out = open_memstream(&text, &size);
    for (size_t i = 0; i < N_STANDARD; i++) {
        int args = arguments(standard[i].signature);
        const char *type = standard[i].signature[0] == 'd' ? "double" : "float";
        if (args)
            fprintf(out, "declare %s @%s(%s%s%s)\n", type, standard[i].name, type,
                    args == 2 ? ", " : "", args == 2 ? type : "");
    }
    fputs(ENTRY_TEXT, out);
    for (size_t i = 0; i < N_STANDARD; i++) {
        int args = arguments(standard[i].signature);
        const char *type = standard[i].signature[0] == 'd' ? "double" : "float";
        if (!args)
            continue;
        fprintf(out, "  %%f%zu = call %s @%s(%s %.3f", n, type, standard[i].name, type, a);
        if (args == 2)
            fprintf(out, ", %s %.3f", type, b);
        fprintf(out, ")\n  %%r%zu = %s %s %%f%zu to double\n", n,
                type[0] == 'd' ? "bitcast" : "fpext", type, n);
        fprintf(out, "  %%p%zu = getelementptr double, ptr %%out, i64 %zu\n", n, n);
        fprintf(out, "  store double %%r%zu, ptr %%p%zu\n", n, n);
        n++;
    }
    fputs("  ret i32 0\n}\n", out);
    fclose(out);
    assert_in_range(n, 70, N_STANDARD);
    run_raw(text, "", found);
    free(text);
    n = 0;
    for (size_t i = 0; i < N_STANDARD; i++)
        if (arguments(standard[i].signature)) {
            double expected = call_here(i, a, b);
            assert_true(found[n] == expected || (isnan(found[n]) && isnan(expected)));
            n++;
        }
}

static void memory_functions(void **state)
{
    (void)state;
    char out[32] = "";
    run_raw("declare ptr @memset(ptr, i32, i64)\n"
            "declare ptr @memmove(ptr, ptr, i64)\n"
            "declare i32 @memcmp(ptr, ptr, i64)\n"
            "declare i64 @strlen(ptr)\n" ENTRY_TEXT "  call ptr @memset(ptr %out, i32 120, i64 8)\n"
            "  %len = call i64 @strlen(ptr %in)\n"
            "  %at = getelementptr i8, ptr %out, i64 8\n"
            "  call ptr @memmove(ptr %at, ptr %in, i64 %len)\n"
            "  %order = call i32 @memcmp(ptr %at, ptr %in, i64 %len)\n"
            "  ret i32 %order\n"
            "}\n",
            "hello", out);
    assert_string_equal(out, "xxxxxxxxhello");
}

static uint16_t half_bits(_Float16 h)
{
    uint16_t bits;
    memcpy(&bits, &h, sizeof bits);
    return bits;
}

static bool half_is_nan(uint16_t bits)
{
    return (bits & 0x7c00) == 0x7c00 && (bits & 0x3ff);
}

/* Nearest-even by 32-bit integer arithmetic. */
static uint16_t bfloat_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (isnan(x))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

enum { CONVERSIONS = 1 << 18 };

typedef struct conversions {
    double in[CONVERSIONS];
    uint16_t from_double[CONVERSIONS], from_float[CONVERSIONS], bfloat[CONVERSIONS];
    float widened[CONVERSIONS];
} conversions;

#define STORE_AT(array, type, value)                                                               \
    "  %" value "_p = getelementptr " type ", ptr %" array ", i64 %i\n"                            \
    "  store " type " %" value ", ptr %" value "_p\n"

/* The baseline CPU has no conversions of 16-bit floats: each is a call to the runtime. */
static void conversions_of_16_bit_floats(void **state)
{
    (void)state;
    conversions *c = calloc(1, sizeof *c);
    assert_non_null(c);
    uint64_t random = 1;
    for (int i = 0; i < CONVERSIONS; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        /* Every half, halfway cases between halves, and doubles about their range. */
        uint16_t bits = (uint16_t)i;
        _Float16 h;
        memcpy(&h, &bits, sizeof h);
        double next = (double)h * (1 + 0x1p-11), wild = ldexp((double)random, -90 + i % 60);
        c->in[i] = i < 65536 ? (double)h : i < 131072 ? next : i < 200000 ? wild : -wild;
    }
    char text[4096];
    snprintf(text, sizeof text,
             "%s  %%od = getelementptr i8, ptr %%out, i64 %zu\n"
             "  %%of = getelementptr i8, ptr %%out, i64 %zu\n"
             "  %%ob = getelementptr i8, ptr %%out, i64 %zu\n"
             "  %%ow = getelementptr i8, ptr %%out, i64 %zu\n"
             "  br label %%loop\n"
             "loop:\n"
             "  %%i = phi i64 [ 0, %%entry ], [ %%next, %%loop ]\n"
             "  %%pd = getelementptr double, ptr %%in, i64 %%i\n"
             "  %%d = load double, ptr %%pd\n"
             "  %%f = fptrunc double %%d to float\n"
             "  %%hd = fptrunc double %%d to half\n"
             "  %%hf = fptrunc float %%f to half\n"
             "  %%bf = fptrunc float %%f to bfloat\n"
             "  %%w = fpext half %%hd to float\n%s%s%s%s"
             "  %%next = add i64 %%i, 1\n"
             "  %%more = icmp slt i64 %%next, %d\n"
             "  br i1 %%more, label %%loop, label %%done\n"
             "done:\n"
             "  ret i32 0\n"
             "}\n",
             ENTRY_TEXT, offsetof(conversions, from_double), offsetof(conversions, from_float),
             offsetof(conversions, bfloat), offsetof(conversions, widened),
             STORE_AT("od", "half", "hd"), STORE_AT("of", "half", "hf"),
             STORE_AT("ob", "bfloat", "bf"), STORE_AT("ow", "float", "w"), CONVERSIONS);
    run_raw(text, c->in, c);
    for (int i = 0; i < CONVERSIONS; i++) {
        double d = c->in[i];
        uint16_t expected = half_bits((_Float16)d), narrowed = half_bits((_Float16)(float)d);
        if (isnan(d)) {
            assert_true(half_is_nan(c->from_double[i]) && half_is_nan(c->from_float[i]));
            assert_true(isnan(c->widened[i]) && (c->bfloat[i] & 0x7fc0) == 0x7fc0);
            continue;
        }
        assert_int_equal(c->from_double[i], expected);
        assert_int_equal(c->from_float[i], narrowed);
        assert_int_equal(c->bfloat[i], bfloat_bits((float)d));
        assert_true(c->widened[i] == (float)(_Float16)d);
        assert_int_equal(!!signbit(c->widened[i]), !!signbit(d));
    }
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_are_checked),
        cmocka_unit_test(outputs_go_where_they_should),
        cmocka_unit_test(the_model_reports_errors),
        cmocka_unit_test(sessions_keep_their_model),
        cmocka_unit_test(profile_counts_kernels),
        cmocka_unit_test(pools_of_all_kinds),
        cmocka_unit_test(many_sessions_at_once),
        cmocka_unit_test(loading_at_once),
        cmocka_unit_test(symbolic_shapes),
        cmocka_unit_test(shapes_that_cannot_be),
        cmocka_unit_test(mathematical_functions),
        cmocka_unit_test(memory_functions),
        cmocka_unit_test(conversions_of_16_bit_floats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
