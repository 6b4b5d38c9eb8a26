/* test_dynamic.c: a model of symbolic sizes, compiled once: right at every size, without growth of
 * memory over many, and with errors that name what does not fit. */
#include "onnx_model.h"
#include "tilewright/compiler.h"
#include "tilewright/runtime.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

enum { CHANNELS = 8, RUNS = 1000, LARGEST = 96 };

/* y = softmax(relu(x w + b)) in the last axis; s = the sum of y over the rows; z = y + mask. */
static pb make_model(void)
{
    float w[CHANNELS * CHANNELS], b[CHANNELS];
    for (int i = 0; i < CHANNELS * CHANNELS; i++)
        w[i] = (float)(i % 7 - 3) / 4;
    for (int i = 0; i < CHANNELS; i++)
        b[i] = (float)i / 8;
    pb graph = {0};
    onnx_add_node(&graph, onnx_node("MatMul", "x,w", "xw"));
    onnx_add_node(&graph, onnx_node("Add", "xw,b", "xwb"));
    onnx_add_node(&graph, onnx_node("Relu", "xwb", "r"));
    pb softmax = onnx_node("Softmax", "r", "y");
    onnx_attr_int(&softmax, "axis", -1);
    onnx_add_node(&graph, softmax);
    pb mean = onnx_node("ReduceMean", "y", "s");
    onnx_attr_ints(&mean, "axes", DIMS(1));
    onnx_attr_int(&mean, "keepdims", 0);
    onnx_add_node(&graph, mean);
    onnx_add_node(&graph, onnx_node("Add", "y,mask", "z"));
    onnx_add_initializer(&graph, onnx_floats("w", DIMS(CHANNELS, CHANNELS), w, sizeof w / 4));
    onnx_add_initializer(&graph, onnx_floats("b", DIMS(CHANNELS), b, CHANNELS));
    onnx_add_input(&graph, onnx_value("x", ONNX_FLOAT, "batch,rows,8"));
    onnx_add_input(&graph, onnx_value("mask", ONNX_FLOAT, "batch,others,8"));
    onnx_add_output(&graph, onnx_value("y", ONNX_FLOAT, "batch,rows,8"));
    onnx_add_output(&graph, onnx_value("s", ONNX_FLOAT, "batch,8"));
    onnx_add_output(&graph, onnx_value("z", ONNX_FLOAT, "batch,rows,8"));
    return onnx_model(graph, 13);
}

static tw_model *compile(int level)
{
    char path[] = "/tmp/tw_dynamic_XXXXXX";
    int file = mkstemp(path), fd = -1;
    assert_true(file >= 0);
    pb model = make_model();
    assert_int_equal(write(file, model.data, model.size), model.size);
    free(model.data);
    close(file);
    tw_context *ctx = tw_context_create(0);
    tw_compile_options options = {.opt_level = level};
    bool fine = tw_compile_to_fd(ctx, path, &options, &fd);
    for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
        print_error("%s\n", tw_diagnostic_text(ctx, d));
    assert_true(fine);
    tw_context_destroy(ctx);
    unlink(path);
    tw_model *loaded;
    if (tw_model_load_fd(fd, "dynamic", NULL, &loaded) != TW_STATUS_OK)
        fail_msg("%s", tw_last_error());
    close(fd);
    return loaded;
}

static float data[2][LARGEST * LARGEST * CHANNELS];

static tw_status run(tw_session *s, int64_t batch, int64_t rows, int64_t other_batch,
                     int64_t others)
{
    const int64_t x[] = {batch, rows, CHANNELS}, mask[] = {other_batch, others, CHANNELS};
    assert_int_equal(tw_session_set_input_shape(s, 0, data[0], x, 3), TW_STATUS_OK);
    assert_int_equal(tw_session_set_input_shape(s, 1, data[1], mask, 3), TW_STATUS_OK);
    return tw_session_run(s);
}

static void check_row(const float *x, float *y)
{
    double sum = 0, e[CHANNELS];
    for (int j = 0; j < CHANNELS; j++) {
        double v = (double)j / 8;
        for (int k = 0; k < CHANNELS; k++)
            v += (double)x[k] * ((k * CHANNELS + j) % 7 - 3) / 4;
        e[j] = exp(v > 0 ? v : 0);
        sum += e[j];
    }
    for (int j = 0; j < CHANNELS; j++) {
        assert_true(fabs((double)y[j] - e[j] / sum) < 1e-5);
        y[j] = (float)(e[j] / sum);
    }
}

static void check(const tw_session *s, int64_t batch, int64_t rows)
{
    size_t size, n = (size_t)(batch * rows);
    const float *y = tw_session_output(s, 0, &size);
    assert_int_equal(size, n * CHANNELS * 4);
    float *sums = calloc((size_t)batch * CHANNELS + 1, sizeof *sums), row[CHANNELS];
    const float *z = tw_session_output(s, 2, NULL);
    for (size_t i = 0; i < n; i++) {
        memcpy(row, y + i * CHANNELS, sizeof row);
        check_row(data[0] + i * CHANNELS, row);
        for (size_t j = 0; j < CHANNELS; j++) {
            sums[i / (size_t)rows * CHANNELS + j] += row[j] / (float)rows;
            float want = row[j] + data[1][i * CHANNELS + j];
            assert_true(fabsf(z[i * CHANNELS + j] - want) < 1e-4f);
        }
    }
    const float *mean = tw_session_output(s, 1, &size);
    assert_int_equal(size, batch * CHANNELS * 4);
    for (size_t i = 0; i < (size_t)batch * CHANNELS; i++)
        assert_true(rows ? fabsf(mean[i] - sums[i]) < 1e-4f : isnan(mean[i]));
    free(sums);
}

static void fill(void)
{
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < LARGEST * LARGEST * CHANNELS; i++)
            data[k][i] = (float)((i * 37 + k * 11) % 64 - 32) / 16;
}

static void every_size(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{1, 1}, {3, 17}, {0, 4}, {4, 0}, {0, 0}, {1, 64}, {5, 96}};
    fill();
    for (int level = 0; level <= 3; level++) {
        tw_model *model = compile(level);
        tw_session *s;
        assert_int_equal(tw_session_create(model, NULL, &s), TW_STATUS_OK);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            if (run(s, sizes[i][0], sizes[i][1], sizes[i][0], sizes[i][1]) != TW_STATUS_OK)
                fail_msg("%s", tw_last_error());
            check(s, sizes[i][0], sizes[i][1]);
        }
        tw_session_destroy(s);
        tw_model_free(model);
    }
}

/* Resident kilobytes. */
static long resident(void)
{
    long pages = 0, total;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &total, &pages), 2);
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void memory_stays(void **state)
{
    (void)state;
    fill();
    tw_model *model = compile(3);
    tw_session *s;
    assert_int_equal(tw_session_create(model, NULL, &s), TW_STATUS_OK);
    assert_int_equal(run(s, LARGEST, LARGEST, LARGEST, LARGEST), TW_STATUS_OK);
    long before = resident();
    uint64_t random = 1;
    for (int i = 0; i < RUNS; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        int64_t batch = (int64_t)(random >> 40) % 6, rows = (int64_t)(random >> 50) % LARGEST;
        if (run(s, batch, rows, batch, rows) != TW_STATUS_OK)
            fail_msg("%s", tw_last_error());
    }
    assert_in_range(resident(), 0, before + 1024);
    tw_session_destroy(s);
    tw_model_free(model);
}

static void contradictions(void **state)
{
    (void)state;
    fill();
    tw_model *model = compile(2);
    tw_session *s;
    assert_int_equal(tw_session_create(model, NULL, &s), TW_STATUS_OK);
    assert_int_equal(run(s, 3, 5, 4, 5), TW_STATUS_INVALID);
    assert_string_equal(tw_last_error(),
                        "input 'mask': dimension 0, which is 'batch', is 4, but dimension 0 of "
                        "input 'x' says 3");
    assert_int_equal(run(s, 3, 5, 3, 7), TW_STATUS_RUN);
    const char *error = tw_last_error();
    assert_non_null(strstr(error, "'rows' and 'others' are neither equal nor 1"));
    assert_non_null(strstr(error, "(batch = 3, rows = 5, others = 7)"));
    const int64_t wrong[] = {1, 2, 9};
    assert_int_equal(tw_session_set_input_shape(s, 0, data[0], wrong, 3), TW_STATUS_INVALID);
    assert_non_null(strstr(tw_last_error(), "dimension 2 is 8, not 9"));
    assert_int_equal(run(s, 3, 5, 3, 5), TW_STATUS_OK);
    check(s, 3, 5);
    tw_session_destroy(s);
    tw_model_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size),
        cmocka_unit_test(memory_stays),
        cmocka_unit_test(contradictions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
