/* Tests of NumPy files: round trips, and files that are not what they say. */
#include "base/npz.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const char *temporary(const char *suffix)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/tw-npz-%d%s", (int)getpid(), suffix);
    return path;
}

static void arrays_come_back(void **state)
{
    (void)state;
    tw_context *ctx = tw_context_create(0);
    float f[6] = {1, -0.0f, 3.5f, 4, 5, 6};
    int64_t scalar = -7;
    uint8_t flags[3] = {1, 0, 1};
    const tw_array arrays[] = {
        {"in/x:0", TW_F32, 2, {2, 3}, f, sizeof f},
        {"s", TW_I64, 0, {0}, &scalar, sizeof scalar},
        {"b", TW_BOOL, 1, {3}, flags, sizeof flags},
        {"none", TW_F64, 2, {0, 5}, f, 0},
    };
    const char *path = temporary(".npz");
    assert_true(tw_npz_write(ctx, path, arrays, 4));
    tw_arrays back;
    assert_true(tw_npz_read(ctx, path, &back));
    assert_int_equal(back.n, 4);
    for (int i = 0; i < 4; i++) {
        const tw_array *a = tw_arrays_find(&back, arrays[i].name);
        assert_non_null(a);
        assert_int_equal(a->elem, arrays[i].elem);
        assert_int_equal(a->rank, arrays[i].rank);
        assert_memory_equal(a->dims, arrays[i].dims, a->rank * sizeof *a->dims);
        assert_int_equal(a->size, arrays[i].size);
        assert_memory_equal(a->data, arrays[i].data, a->size);
    }
    unlink(path);
    tw_context_destroy(ctx);
}

static bool read_text(tw_context *ctx, const char *bytes, size_t size, tw_array *out)
{
    const char *path = temporary(".npy");
    FILE *file = fopen(path, "wb");
    if (!file)
        abort();
    fwrite(bytes, 1, size, file);
    fclose(file);
    bool fine = tw_npy_read(ctx, path, out);
    unlink(path);
    return fine;
}

/* A version 1 file with this dictionary and data. */
static bool read_made(tw_context *ctx, const char *dict, const void *data, size_t size,
                      tw_array *out)
{
    char bytes[512] = "\x93NUMPY\x01\x00";
    size_t len = strlen(dict);
    bytes[8] = (char)len;
    memcpy(bytes + 10, dict, len + 1);
    if (size)
        memcpy(bytes + 10 + len, data, size);
    return read_text(ctx, bytes, 10 + len + size, out);
}

static void orders_are_converted(void **state)
{
    (void)state;
    tw_context *ctx = tw_context_create(0);
    tw_array a;
    const uint8_t big[4] = {0, 1, 0, 2};
    assert_true(
        read_made(ctx, "{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }", big, 4, &a));
    assert_int_equal(((int16_t *)a.data)[0], 1);
    const uint8_t columns[6] = {1, 4, 2, 5, 3, 6}, rows[6] = {1, 2, 3, 4, 5, 6};
    assert_true(read_made(ctx, "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }",
                          columns, 6, &a));
    assert_memory_equal(a.data, rows, 6);
    tw_context_destroy(ctx);
}

static void malformed_files_are_errors(void **state)
{
    (void)state;
    tw_context *ctx = tw_context_create(64 << 20);
    static const char *const dicts[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 16), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1, }",
        "{'descr': '<f4', 'fortran_order': False, }",
        "{'shape': (1,)}",
        "",
        "{'descr': '<f4x', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<f4294967300', 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '",
        "{'descr': '<",
        "{'descr': '<f",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
        "{'descr': '<f4', 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1), }",
    };
    tw_array a;
    for (size_t i = 0; i < sizeof dicts / sizeof dicts[0]; i++) {
        tw_diagnostics_clear(ctx);
        assert_false(read_made(ctx, dicts[i], "abcd", 4, &a));
        assert_int_equal(tw_error_count(ctx), 1);
    }
    assert_false(read_text(ctx, "\x93NUM", 4, &a));
    assert_false(read_text(ctx, "", 0, &a));
    assert_false(tw_npy_read(ctx, "/nonexistent/x.npy", &a));
    tw_arrays all;
    assert_false(tw_npz_read(ctx, "/nonexistent/x.npz", &all));
    tw_context_destroy(ctx);
}

static void bools_are_0_or_1(void **state)
{
    (void)state;
    tw_context *ctx = tw_context_create(0);
    tw_array a;
    assert_true(read_made(ctx, "{'descr': '|b1', 'fortran_order': False, 'shape': (4,), }",
                          "\x00\x01\x02\xff", 4, &a));
    assert_memory_equal(a.data, "\x00\x01\x01\x01", 4);
    tw_context_destroy(ctx);
}

/* Each byte of an archive changed, and the archive cut short: an error or the data, no crash. */
static void damaged_archives(void **state)
{
    (void)state;
    tw_context *ctx = tw_context_create(0);
    const float f[4] = {1, 2, 3, 4};
    const tw_array arrays[] = {{"a", TW_F32, 1, {4}, (void *)f, sizeof f},
                               {"b", TW_F32, 2, {2, 2}, (void *)f, sizeof f}};
    const char *path = temporary(".npz");
    assert_true(tw_npz_write(ctx, path, arrays, 2));
    static char bytes[4096];
    FILE *file = fopen(path, "rb");
    if (!file)
        abort();
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_in_range(size, 100, sizeof bytes - 1);
    tw_context_destroy(ctx);
    for (size_t i = 0; i < 2 * size; i++) {
        bool cut = i >= size;
        if (!cut)
            bytes[i] ^= (char)0xff;
        file = fopen(path, "wb");
        if (!file)
            abort();
        fwrite(bytes, 1, cut ? i - size : size, file);
        fclose(file);
        if (!cut)
            bytes[i] ^= (char)0xff;
        ctx = tw_context_create(64 << 20);
        jmp_buf exhausted;
        tw_context_guard(ctx, &exhausted);
        assert_int_equal(setjmp(exhausted), 0); /* sizes in the archive are not believed */
        tw_arrays back;
        bool fine = tw_npz_read(ctx, path, &back);
        assert_int_equal(fine, tw_error_count(ctx) == 0);
        assert_false(cut && fine);
        tw_context_destroy(ctx);
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays_come_back),           cmocka_unit_test(orders_are_converted),
        cmocka_unit_test(malformed_files_are_errors), cmocka_unit_test(bools_are_0_or_1),
        cmocka_unit_test(damaged_archives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
