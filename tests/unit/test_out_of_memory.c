/* test_out_of_memory.c: what happens when an allocation fails: each one, in turn.
 *
 * The linker leads the calls of the allocators to the functions below (--wrap). Compilation: one
 * allocation of the arenas fails, or all from one on; there must be a diagnostic and no file, and
 * nothing may be left behind (the sanitizers see memory). Running: one allocation of the runtime
 * fails; there must be a status. LLVM itself cannot go on without memory and is left alone.
 *
 * A sample of the compiler's allocations is taken; with TILEWRIGHT_TEST_ALL set it is all. */
#include "base/arena.h"
#include "sequence_model.h"
#include "tilewright/compiler.h"
#include "tilewright/runtime.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- The allocators ---- */

/* What fails: allocation number `fail_at` of a kind (from 1; 0: none), or all from there on. */
enum { NOTHING, ARENAS, RUNTIME };
static atomic_int kind;
static atomic_long count, fail_at;
static atomic_bool persistent;

static bool fails(int of)
{
    if (kind != of)
        return false;
    long n = atomic_fetch_add(&count, 1) + 1;
    return n == fail_at || (persistent && fail_at && n > fail_at);
}

/* The linker leads calls of NAME to __wrap_NAME, and those of __real_NAME to NAME. */
#define WRAPPER(name) __asm__("__wrap_" #name)
#define REAL(name) __asm__("__real_" #name)

/* An allocator of arenas: when its turn has come the arena is asked for too much, which leads to
 * its handler. */
#define WRAP_ARENA(type, name, parameters, ...)                                                    \
    type real_##name parameters REAL(name);                                                        \
    type wrap_##name parameters WRAPPER(name);                                                     \
    type wrap_##name parameters                                                                    \
    {                                                                                              \
        if (fails(ARENAS))                                                                         \
            return real_tw_arena_alloc(arena, SIZE_MAX);                                           \
        return real_##name(__VA_ARGS__);                                                           \
    }
WRAP_ARENA(void *, tw_arena_alloc, (tw_arena * arena, size_t size), arena, size)
WRAP_ARENA(void *, tw_arena_calloc, (tw_arena * arena, size_t n, size_t size), arena, n, size)
WRAP_ARENA(void *, tw_arena_memdup, (tw_arena * arena, const void *bytes, size_t size), arena,
           bytes, size)
WRAP_ARENA(char *, tw_arena_strndup, (tw_arena * arena, const char *text, size_t len), arena, text,
           len)
WRAP_ARENA(char *, tw_arena_vprintf, (tw_arena * arena, const char *format, va_list args), arena,
           format, args)

char *wrap_tw_arena_printf(tw_arena *arena, const char *format, ...) WRAPPER(tw_arena_printf);
char *wrap_tw_arena_printf(tw_arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = wrap_tw_arena_vprintf(arena, format, args);
    va_end(args);
    return text;
}

/* One of the C library's, whose failure is `failed`. */
#define WRAP(type, name, failed, parameters, ...)                                                  \
    type real_##name parameters REAL(name);                                                        \
    type wrap_##name parameters WRAPPER(name);                                                     \
    type wrap_##name parameters                                                                    \
    {                                                                                              \
        if (!fails(RUNTIME))                                                                       \
            return real_##name(__VA_ARGS__);                                                       \
        errno = ENOMEM;                                                                            \
        return failed;                                                                             \
    }
WRAP(void *, malloc, NULL, (size_t size), size)
WRAP(void *, calloc, NULL, (size_t n, size_t size), n, size)
WRAP(void *, realloc, NULL, (void *old, size_t size), old, size)
WRAP(void *, aligned_alloc, NULL, (size_t align, size_t size), align, size)
WRAP(void *, mmap, MAP_FAILED,
     (void *at, size_t size, int protection, int flags, int fd, off_t offset), at, size, protection,
     flags, fd, offset)
WRAP(int, pthread_create, EAGAIN,
     (pthread_t * thread, const pthread_attr_t *attributes, void *(*start)(void *), void *data),
     thread, attributes, start, data)

static void start_failing(int what, long at, bool from_there_on)
{
    count = 0;
    fail_at = at;
    persistent = from_there_on;
    kind = what;
}

/* How many allocations there were. */
static long stop_failing(void)
{
    kind = NOTHING;
    return count;
}

/* ---- The model ---- */

typedef struct fixture {
    char dir[64], model[96], output[96], header[96];
} fixture;

/* y = relu(x · wᵀ + b), z = softmax(y): a product with a constant that is turned and packed while
 * compiling, two kernels. */
static pb make_model(void)
{
    enum { N = 8 };
    float w[N * N], b[N];
    for (int i = 0; i < N * N; i++)
        w[i] = (float)(i % 7 - 3);
    for (int i = 0; i < N; i++)
        b[i] = (float)i;
    pb graph = {0}, turn = onnx_node("Transpose", "w", "t");
    onnx_attr_ints(&turn, "perm", DIMS(1, 0));
    onnx_add_node(&graph, turn);
    onnx_add_node(&graph, onnx_node("MatMul", "x,t", "p"));
    onnx_add_node(&graph, onnx_node("Add", "p,b", "s"));
    onnx_add_node(&graph, onnx_node("Relu", "s", "y"));
    onnx_add_node(&graph, onnx_node("Softmax", "y", "z"));
    pb_text(&graph, 2, "net");
    onnx_add_initializer(&graph, onnx_floats("w", DIMS(N, N), w, N * N));
    onnx_add_initializer(&graph, onnx_floats("b", DIMS(N), b, N));
    onnx_add_input(&graph, onnx_value("x", ONNX_FLOAT, "n,8"));
    onnx_add_output(&graph, onnx_value("y", ONNX_FLOAT, "n,8"));
    onnx_add_output(&graph, onnx_value("z", ONNX_FLOAT, "n,8"));
    return onnx_model(graph, 17);
}

static int set_up(void **state)
{
    static fixture f;
    snprintf(f.dir, sizeof f.dir, "/tmp/tw-memory-XXXXXX");
    if (!mkdtemp(f.dir))
        return -1;
    snprintf(f.model, sizeof f.model, "%s/net.onnx", f.dir);
    snprintf(f.output, sizeof f.output, "%s/net.tw", f.dir);
    snprintf(f.header, sizeof f.header, "%s/net.h", f.dir);
    FILE *file = fopen(f.model, "wb");
    pb model = make_model();
    bool fine = file && fwrite(model.data, 1, model.size, file) == model.size;
    free(model.data);
    *state = &f;
    return file && !fclose(file) && fine ? 0 : -1;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    unlink(f->model);
    unlink(f->output);
    unlink(f->header);
    return rmdir(f->dir);
}

/* Entries of a directory. */
static unsigned entries(const char *path)
{
    unsigned n = 0;
    DIR *dir = opendir(path);
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

/* Compiles in a context of its own; false with the first diagnostic in `said`. */
static bool compile(const fixture *f, tw_emit emit, char *said, size_t size)
{
    static const int64_t dims[] = {4, 8};
    static const char *const cpus[] = {"x86-64-v2"};
    tw_shape shape = {"x", 2, dims};
    tw_compile_options options = {.opt_level = 2,
                                  .shapes = &shape,
                                  .n_shapes = 1,
                                  .cpus = cpus,
                                  .n_cpus = 1,
                                  .threads = 2,
                                  .emit = emit,
                                  .header = f->header};
    tw_context *ctx = tw_context_create(0);
    bool fine = tw_compile_file(ctx, f->model, &options, f->output);
    long allocations = stop_failing();
    const tw_diagnostic *d = tw_diagnostics(ctx);
    snprintf(said, size, "%s", d ? d->message : "");
    tw_context_destroy(ctx);
    count = allocations;
    return fine;
}

static void sweep(const fixture *f, tw_emit emit, long samples)
{
    char said[256];
    start_failing(ARENAS, 0, false);
    assert_true(compile(f, emit, said, sizeof said));
    long all = count, step = getenv("TILEWRIGHT_TEST_ALL") ? 1 : all / samples + 1;
    assert_true(all > 1000);
    unlink(f->output);
    unlink(f->header);
    unsigned files = entries(f->dir), open_files = entries("/proc/self/fd");
    for (long at = 1; at < all * 99 / 100; at += step) {
        start_failing(ARENAS, at, at / step % 2);
        bool fine = compile(f, emit, said, sizeof said);
        if (fine || !*said || entries(f->dir) != files || entries("/proc/self/fd") != open_files)
            fail_msg("allocation %ld of %ld: %s, said '%s', %u files and %u open", at, all,
                     fine ? "compiled" : "failed", said, entries(f->dir) - files,
                     entries("/proc/self/fd") - open_files);
    }
    assert_true(compile(f, emit, said, sizeof said)); /* nothing is broken for good */
}

static void test_compile_model(void **state)
{
    sweep(*state, TW_EMIT_MODEL, 400);
}

static void test_compile_object(void **state)
{
    sweep(*state, TW_EMIT_OBJECT, 150);
}

static void test_compile_text(void **state)
{
    sweep(*state, TW_EMIT_LOOP, 150);
}

/* ---- Running ---- */

/* Loads, makes two sessions, runs both; the first status that is not fine. */
static tw_status load_and_run(const fixture *f)
{
    static const float x[32] = {1, 2, 3};
    tw_model *model;
    tw_session *session;
    tw_session_options options = {.threads = 3, .profile = true};
    tw_status status = tw_model_load(f->output, NULL, &model);
    if (status != TW_STATUS_OK) {
        assert_null(model);
        return status;
    }
    status = tw_session_create(model, &options, &session);
    if (status == TW_STATUS_OK)
        status = tw_session_set_input(session, 0, x, sizeof x);
    else
        assert_null(session);
    if (status == TW_STATUS_OK)
        status = tw_session_run(session);
    if (status == TW_STATUS_OK) {
        const float *y = tw_session_output(session, 0, NULL);
        for (int i = 0; i < 8; i++)
            assert_true(y[8 + i] == (float)i); /* a row of zeros gives the bias */
    }
    tw_session_destroy(session);
    tw_model_free(model);
    return status;
}

/* Each allocation of what `run` does fails; `statuses` (bits) are those that may come of it. */
static void sweep_runs(const fixture *f, tw_status (*run)(const fixture *f), unsigned statuses)
{
    assert_int_equal(run(f), TW_STATUS_OK);
    start_failing(RUNTIME, 0, false);
    assert_int_equal(run(f), TW_STATUS_OK);
    long all = stop_failing(), refused = 0;
    unsigned open_files = entries("/proc/self/fd");
    assert_true(all > 10);
    for (int from_there_on = 0; from_there_on < 2; from_there_on++)
        for (long at = 1; at <= all; at++) {
            start_failing(RUNTIME, at, from_there_on);
            tw_status status = run(f);
            stop_failing();
            refused += status != TW_STATUS_OK;
            assert_true(statuses >> status & 1);
            assert_true(status == TW_STATUS_OK || *tw_last_error());
            assert_int_equal(entries("/proc/self/fd"), open_files);
        }
    assert_true(refused > all);
    assert_int_equal(run(f), TW_STATUS_OK);
}

/* Mapping a file is input, and fewer threads do as well. */
enum { IN_RUNTIME = 1u << TW_STATUS_OK | 1u << TW_STATUS_MEMORY | 1u << TW_STATUS_IO };

static void test_run(void **state)
{
    const fixture *f = *state;
    char said[256];
    assert_true(compile(f, TW_EMIT_MODEL, said, sizeof said));
    sweep_runs(f, load_and_run, IN_RUNTIME);
}

/* Sequences are made by routines, for which the run fails. */
static tw_status run_sequences(const fixture *f)
{
    static const float x[6] = {1, 2, 3, 4, 5, 6};
    static const int64_t dims[] = {2, 3}, trips = 3, p = -1;
    const tw_element elements[] = {{x, dims, 2}, {x, dims, 2}};
    tw_model *model;
    tw_session *s = NULL;
    tw_session_options options = {.threads = 1};
    tw_status status = tw_model_load(f->output, NULL, &model);
    if (status == TW_STATUS_OK)
        status = tw_session_create(model, &options, &s);
    if (status == TW_STATUS_OK)
        status = tw_session_set_input_sequence(s, SEQ_IN_S, elements, 2);
    if (status == TW_STATUS_OK)
        status = tw_session_set_input_shape(s, SEQ_IN_X, x, dims, 2);
    if (status == TW_STATUS_OK)
        status = tw_session_set_input(s, SEQ_IN_TRIPS, &trips, sizeof trips);
    if (status == TW_STATUS_OK)
        status = tw_session_set_input(s, SEQ_IN_P, &p, sizeof p);
    for (int i = 0; status == TW_STATUS_OK && i < 2; i++)
        status = tw_session_run(s);
    if (status == TW_STATUS_OK)
        assert_int_equal(tw_session_output_length(s, SEQ_OUT_GROWN), 5);
    tw_session_destroy(s);
    tw_model_free(model);
    return status;
}

static void test_run_sequences(void **state)
{
    const fixture *f = *state;
    FILE *file = fopen(f->model, "wb");
    pb model = sequence_model();
    assert_true(file && fwrite(model.data, 1, model.size, file) == model.size);
    assert_int_equal(fclose(file), 0);
    free(model.data);
    tw_context *ctx = tw_context_create(0);
    tw_compile_options options = {.opt_level = 2};
    assert_true(tw_compile_file(ctx, f->model, &options, f->output));
    tw_context_destroy(ctx);
    sweep_runs(f, run_sequences, IN_RUNTIME | 1u << TW_STATUS_RUN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compile_model), cmocka_unit_test(test_compile_object),
        cmocka_unit_test(test_compile_text),  cmocka_unit_test(test_run),
        cmocka_unit_test(test_run_sequences),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
