/* test_artifact.c: compiled models are written, loaded, and rejected when anything in them is not
 * as written. */
#include "tiny_model.h"

#include "artifact/trailer.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct fixture {
    tw_context *ctx;
    char dir[64], path[96];
} fixture;

static int set_up(void **state)
{
    static fixture f;
    f.ctx = tw_context_create(0);
    snprintf(f.dir, sizeof f.dir, "/tmp/tw-artifact-XXXXXX");
    if (!f.ctx || !mkdtemp(f.dir))
        return -1;
    snprintf(f.path, sizeof f.path, "%s/model.tw", f.dir);
    tiny_extra = 0;
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    tw_context_destroy(f->ctx);
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", f->dir);
    return system(command);
}

static void write_tiny(fixture *f, uint32_t variants)
{
    bool ok = tw_artifact_write(f->ctx, tiny_artifact(f->ctx, variants), f->path);
    assert_true(no_errors(f->ctx) && ok);
}

static uint8_t *read_bytes(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        abort();
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    assert_int_equal(fseek(file, 0, SEEK_SET), 0);
    uint8_t *bytes = malloc(*size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static tw_model *load_ok(const char *path, const tw_load_options *options)
{
    tw_model *model;
    tw_status status = tw_model_load(path, options, &model);
    if (status != TW_STATUS_OK)
        fprintf(stderr, "%s\n", tw_last_error());
    assert_int_equal(status, TW_STATUS_OK);
    return model;
}

static void run_tiny(tw_model *model)
{
    tw_session *session;
    assert_int_equal(tw_session_create(model, NULL, &session), TW_STATUS_OK);
    const float x[8] = {0.5f, 1, 2, 3, 4, 5, 6, 7};
    assert_int_equal(tw_session_set_input(session, 0, x, sizeof x), TW_STATUS_OK);
    assert_int_equal(tw_session_run(session), TW_STATUS_OK);
    size_t size;
    const float *y = tw_session_output(session, 0, &size);
    assert_int_equal(size, 32);
    for (int i = 0; i < 8; i++)
        assert_true(y[i] == x[i] * tiny_weights[i]);
    const float *z = tw_session_output(session, 1, &size);
    assert_int_equal(size, 4);
    assert_true(*z == expf(0.5f));
    tw_session_destroy(session);
}

static void written_loaded_and_run(void **state)
{
    fixture *f = *state;
    write_tiny(f, 1);
    tw_model *model = load_ok(f->path, NULL);
    const tw_model_info *info = tw_model_get_info(model);
    assert_string_equal(info->name, "tiny");
    assert_string_equal(info->target, TRIPLE);
    assert_string_equal(info->cpu, "x86-64");
    assert_int_equal(info->inputs, 1);
    assert_int_equal(info->outputs, 2);
    assert_int_equal(info->constants_size, 32);
    assert_int_equal(info->arena_size, 64);
    const tw_tensor_info *x = tw_model_input(model, 0), *z = tw_model_output(model, 1);
    assert_string_equal(x->name, "x");
    assert_int_equal(x->elem, TW_F32);
    assert_int_equal(x->rank, 1);
    assert_int_equal(x->dims[0], 8);
    assert_true(x->is_static && x->size == 32);
    assert_true(z->is_static && z->size == 4 && z->rank == 0);
    assert_null(tw_model_input(model, 1));
    assert_int_equal(tw_model_find_output(model, "z"), 1);
    assert_int_equal(tw_model_find_output(model, "x"), -1);
    assert_string_equal(tw_model_kernel(model, 0)->operators, "Mul+Exp");
    assert_int_equal(tw_model_kernel(model, 0)->bytes, 96);
    assert_string_equal(tw_model_constant(model, 0)->type, "8xf32");
    assert_int_equal(tw_model_buffer(model, 0)->size, 32);
    assert_string_equal(tw_model_variant(model, 0), "x86-64");
    run_tiny(model);
    tw_model_free(model);
}

static void same_input_same_bytes(void **state)
{
    fixture *f = *state;
    size_t size, again_size;
    write_tiny(f, 2);
    uint8_t *bytes = read_bytes(f->path, &size);
    assert_int_equal(unlink(f->path), 0);
    tw_context *other = tw_context_create(0);
    assert_true(tw_artifact_write(other, tiny_artifact(other, 2), f->path));
    tw_context_destroy(other);
    uint8_t *again = read_bytes(f->path, &again_size);
    assert_int_equal(size, again_size);
    assert_memory_equal(bytes, again, size);
    free(bytes);
    free(again);
}

/* Readable by ELF tools, one exported symbol, nothing needed or undefined. */
static void an_ordinary_shared_object(void **state)
{
    fixture *f = *state;
    write_tiny(f, 1);
    char command[512];
    snprintf(command, sizeof command,
             "command -v readelf >/dev/null || exit 0;"
             "readelf -dW --dyn-syms '%s' > '%s/elf' 2> '%s/err' && [ ! -s '%s/err' ] &&"
             "! grep -q NEEDED '%s/elf' && ! grep -q TEXTREL '%s/elf' &&"
             "[ \"$(grep -c -E 'GLOBAL|WEAK|UNIQUE' '%s/elf')\" = 1 ] &&"
             "grep -q 'OBJECT *GLOBAL *DEFAULT *[0-9]* tw_model$' '%s/elf'",
             f->path, f->dir, f->dir, f->dir, f->dir, f->dir, f->dir, f->dir);
    assert_int_equal(system(command), 0);
    struct stat st;
    assert_int_equal(stat(f->path, &st), 0);
    assert_true(st.st_mode & S_IXUSR);
}

static void every_flipped_bit_is_found(void **state)
{
    fixture *f = *state;
    write_tiny(f, 1);
    size_t size;
    uint8_t *bytes = read_bytes(f->path, &size);
    tw_model *model;
    for (size_t i = 0; i < size; i++) {
        uint8_t flip = (uint8_t)(1 << i % 8);
        bytes[i] ^= flip;
        assert_int_equal(tw_model_load_memory(bytes, size, NULL, &model), TW_STATUS_CORRUPT);
        assert_null(model);
        bytes[i] ^= flip;
    }
    assert_int_equal(tw_model_load_memory(bytes, size, NULL, &model), TW_STATUS_OK);
    run_tiny(model);
    tw_model_free(model);
    free(bytes);
}

static void every_truncation_is_found(void **state)
{
    fixture *f = *state;
    write_tiny(f, 1);
    size_t size;
    uint8_t *bytes = read_bytes(f->path, &size);
    tw_model *model;
    for (size_t len = 0; len < size; len += len < 300 || size - len < 300 ? 1 : 37)
        assert_int_equal(tw_model_load_memory(bytes, len, NULL, &model), TW_STATUS_CORRUPT);
    uint8_t *longer = calloc(1, size + 4096);
    memcpy(longer, bytes, size);
    for (size_t more = 1; more <= 4096; more *= 2)
        assert_int_equal(tw_model_load_memory(longer, size + more, NULL, &model),
                         TW_STATUS_CORRUPT);
    free(longer);
    free(bytes);
}

/* A trailer whose hash is right and whose fields are not. */
static void impossible_trailers(void **state)
{
    fixture *f = *state;
    write_tiny(f, 1);
    size_t size;
    uint8_t *bytes = read_bytes(f->path, &size);
    tw_trailer good;
    memcpy(&good, bytes + size - sizeof good, sizeof good);
    const uint64_t values[] = {
        0, 1, 4095, 4096, size, size + 1, 1ull << 62, UINT64_MAX - 4096, UINT64_MAX};
    const size_t fields = offsetof(tw_trailer, code_hash) / sizeof(uint64_t);
    for (size_t field = 0; field < fields; field++)
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
            tw_trailer bad = good;
            uint64_t *at = (uint64_t *)&bad + field;
            /* A code size within the same page leaves everything where it is. */
            if (*at == values[i] || (at == &bad.code_size && values[i] - 1 < 4096))
                continue;
            *at = values[i];
            tw_trailer_seal(&bad);
            memcpy(bytes + size - sizeof bad, &bad, sizeof bad);
            tw_model *model;
            assert_int_equal(tw_model_load_memory(bytes, size, NULL, &model), TW_STATUS_CORRUPT);
        }
    good.version++;
    tw_trailer_seal(&good);
    memcpy(bytes + size - sizeof good, &good, sizeof good);
    tw_model *model;
    assert_int_equal(tw_model_load_memory(bytes, size, NULL, &model), TW_STATUS_UNSUPPORTED);
    free(bytes);
}

static void another_architecture(void **state)
{
    fixture *f = *state;
    tw_artifact *a = tiny_artifact(f->ctx, 1);
    tw_bytes object = compile_ir_for(f->ctx, "aarch64-unknown-linux-gnu",
                                     "declare float @expf(float)\n"
                                     "define hidden float @entry_v1(float %x) {\n"
                                     "  %y = call float @expf(float %x)\n"
                                     "  ret float %y\n"
                                     "}\n");
    a->model.target = "aarch64-unknown-linux-gnu";
    a->objects = &object;
    bool ok = tw_artifact_write(f->ctx, a, f->path);
    assert_true(no_errors(f->ctx) && ok);
    tw_model *model;
    assert_int_equal(tw_model_load(f->path, NULL, &model), TW_STATUS_UNSUPPORTED);
    assert_non_null(strstr(tw_last_error(), "another architecture"));
    a->model.target = "z80-unknown-none";
    assert_false(tw_artifact_write(f->ctx, a, f->path));
}

static void other_files_are_refused(void **state)
{
    fixture *f = *state;
    tw_model *model;
    assert_int_equal(tw_model_load("/nonexistent/model", NULL, &model), TW_STATUS_IO);
    assert_non_null(strstr(tw_last_error(), "/nonexistent/model"));
    assert_int_equal(tw_model_load(f->dir, NULL, &model), TW_STATUS_IO);
    assert_int_equal(tw_model_load("/dev/null", NULL, &model), TW_STATUS_IO);
    assert_int_equal(tw_model_load("/proc/self/exe", NULL, &model), TW_STATUS_CORRUPT);
    assert_int_equal(tw_model_load_fd(-1, NULL, NULL, &model), TW_STATUS_IO);
}

/* Constants in several chunks and of a size that is no multiple of anything. */
static void large_constants(void **state)
{
    fixture *f = *state;
    tiny_extra = (17u << 20) + 13;
    write_tiny(f, 1);
    tw_model *model = load_ok(f->path, NULL);
    run_tiny(model);
    assert_int_equal(tw_model_verify(model), TW_STATUS_OK);
    tw_model_free(model);

    /* A file of this size is checked when a session is made, or at once when asked to. */
    int fd = open(f->path, O_RDWR);
    const off_t offsets[] = {8192, 5 << 20, (17 << 20) + 4096};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        uint8_t byte, wrong;
        assert_int_equal(pread(fd, &byte, 1, offsets[i]), 1);
        wrong = byte ^ 0x10;
        assert_int_equal(pwrite(fd, &wrong, 1, offsets[i]), 1);
        tw_load_options all = {.flags = TW_LOAD_VERIFY_ALL};
        tw_load_options trust = {.flags = TW_LOAD_TRUST_CONSTANTS};
        assert_int_equal(tw_model_load(f->path, &all, &model), TW_STATUS_CORRUPT);
        model = load_ok(f->path, NULL);
        tw_session *session;
        assert_int_equal(tw_session_create(model, NULL, &session), TW_STATUS_CORRUPT);
        assert_null(session);
        assert_int_equal(tw_model_verify(model), TW_STATUS_CORRUPT);
        tw_model_free(model);
        model = load_ok(f->path, &trust);
        run_tiny(model);
        tw_model_free(model);
        assert_int_equal(pwrite(fd, &byte, 1, offsets[i]), 1);
    }
    close(fd);
}

static void the_best_variant_is_chosen(void **state)
{
    fixture *f = *state;
    write_tiny(f, 3);
    unsetenv("TILEWRIGHT_CPU");
    tw_cpu_features have = tw_cpu_detect(), v2;
    tw_cpu_level("x86-64-v2", &v2);
    const char *best = tw_cpu_has(&have, &v2) ? "x86-64-v2" : "x86-64";
    tw_model *model = load_ok(f->path, NULL);
    assert_string_equal(tw_model_get_info(model)->cpu, best);
    run_tiny(model);
    tw_model_free(model);

    model = load_ok(f->path, &(tw_load_options){.cpu = "x86-64"});
    assert_string_equal(tw_model_get_info(model)->cpu, "x86-64");
    tw_model_free(model);
    /* A level that is not there is a limit. */
    model = load_ok(f->path, &(tw_load_options){.cpu = "x86-64-v4"});
    assert_string_equal(tw_model_get_info(model)->cpu, best);
    tw_model_free(model);

    setenv("TILEWRIGHT_CPU", "x86-64", 1);
    model = load_ok(f->path, NULL);
    assert_string_equal(tw_model_get_info(model)->cpu, "x86-64");
    tw_model_free(model);
    unsetenv("TILEWRIGHT_CPU");

    assert_int_equal(tw_model_load(f->path, &(tw_load_options){.cpu = "future"}, &model),
                     TW_STATUS_UNSUPPORTED);
    assert_int_equal(tw_model_load(f->path, &(tw_load_options){.cpu = "z80"}, &model),
                     TW_STATUS_UNSUPPORTED);
    assert_non_null(strstr(tw_last_error(), "x86-64, x86-64-v2, future"));
}

/* The dynamic linker knows libraries by name and by inode: neither may mix models up. */
static void models_come_and_go(void **state)
{
    fixture *f = *state;
    char other[128];
    snprintf(other, sizeof other, "%s/other.tw", f->dir);
    tw_artifact *a = tiny_artifact(f->ctx, 1);
    a->model.name = "other";
    assert_true(tw_artifact_write(f->ctx, a, other));
    write_tiny(f, 1);
    for (int i = 0; i < 5; i++) {
        tw_model *first = load_ok(f->path, NULL), *again = load_ok(f->path, NULL);
        tw_model_free(again);
        tw_model *second = load_ok(other, NULL);
        assert_string_equal(tw_model_get_info(first)->name, "tiny");
        assert_string_equal(tw_model_get_info(second)->name, "other");
        run_tiny(first);
        run_tiny(second);
        tw_model_free(i % 2 ? first : second);
        run_tiny(i % 2 ? second : first);
        tw_model_free(i % 2 ? second : first);
    }
    /* A new file by the same name while the old one is loaded. */
    tw_model *old = load_ok(f->path, NULL);
    assert_int_equal(rename(other, f->path), 0);
    tw_model *new = load_ok(f->path, NULL);
    assert_string_equal(tw_model_get_info(new)->name, "other");
    run_tiny(old);
    run_tiny(new);
    tw_model_free(old);
    tw_model_free(new);
}

static void nameless_files(void **state)
{
    fixture *f = *state;
    tw_artifact *a = tiny_artifact(f->ctx, 1);
    for (uint64_t announced = 0; announced <= 1u << 30; announced += 1u << 30) {
        int fd = tw_artifact_temporary(f->ctx, announced);
        assert_true(fd >= 0);
        assert_true(tw_artifact_write_fd(f->ctx, a, fd));
        tw_model *model;
        assert_int_equal(tw_model_load_fd(fd, "on the fly", NULL, &model), TW_STATUS_OK);
        close(fd);
        run_tiny(model);
        tw_model_free(model);
    }
}

static void unknown_functions_fail_to_link(void **state)
{
    fixture *f = *state;
    tw_bytes object = compile_ir(f->ctx, "declare void @no_such_function()\n"
                                         "define hidden i32 @entry_v1() {\n"
                                         "  call void @no_such_function()\n"
                                         "  ret i32 0\n"
                                         "}\n");
    tw_artifact *a = tiny_artifact(f->ctx, 1);
    a->objects = &object;
    for (int i = 0; i < 2; i++) {
        tw_diagnostics_clear(f->ctx);
        assert_false(tw_artifact_write(f->ctx, a, f->path));
        assert_int_equal(tw_error_count(f->ctx), 1);
        assert_non_null(strstr(tw_diagnostics(f->ctx)->message, "no_such_function"));
        assert_int_equal(access(f->path, F_OK), -1);
    }
    /* The linker still works. */
    tw_diagnostics_clear(f->ctx);
    write_tiny(f, 1);
}

static void broken_objects_are_refused(void **state)
{
    fixture *f = *state;
    tw_artifact *a = tiny_artifact(f->ctx, 1);
    tw_bytes good = a->objects[0], bad = {"\177ELF rubbish", 12};
    a->objects = &bad;
    assert_false(tw_artifact_write(f->ctx, a, f->path));
    for (size_t size = 0; size < good.size; size += 61) {
        bad = (tw_bytes){good.data, size};
        assert_false(tw_artifact_write(f->ctx, a, f->path));
    }
}

static bool short_constants(void *data, tw_sink *sink)
{
    (void)data;
    return tw_sink_write(sink, "abc", 3);
}

static void constants_of_the_wrong_size(void **state)
{
    fixture *f = *state;
    tw_artifact *a = tiny_artifact(f->ctx, 1);
    a->constants = short_constants;
    assert_false(tw_artifact_write(f->ctx, a, f->path));
    assert_non_null(strstr(tw_diagnostics(f->ctx)->message, "3 bytes instead of 32"));
}

static void a_full_disk_is_an_error(void **state)
{
    fixture *f = *state;
    if (access("/dev/full", W_OK))
        return;
    assert_false(tw_artifact_write(f->ctx, tiny_artifact(f->ctx, 1), "/dev/full"));
    assert_non_null(strstr(tw_diagnostics(f->ctx)->message, "No space left"));
    assert_false(tw_artifact_write(f->ctx, tiny_artifact(f->ctx, 1), "/nonexistent/model"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(written_loaded_and_run),
        TEST(same_input_same_bytes),
        TEST(an_ordinary_shared_object),
        TEST(every_flipped_bit_is_found),
        TEST(every_truncation_is_found),
        TEST(impossible_trailers),
        TEST(another_architecture),
        TEST(other_files_are_refused),
        TEST(large_constants),
        TEST(the_best_variant_is_chosen),
        TEST(models_come_and_go),
        TEST(nameless_files),
        TEST(unknown_functions_fail_to_link),
        TEST(broken_objects_are_refused),
        TEST(constants_of_the_wrong_size),
        TEST(a_full_disk_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
