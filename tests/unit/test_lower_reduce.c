/* Tests of lowering reductions, softmax, scans, sorting, pools and normalisations. */
#include "lower_check.h"

static void check_reduce(const char *op, const char *elem, const double *x, const double *y)
{
    char text[512];
    snprintf(text, sizeof text,
             "(%%x: tensor<2x3x2x%s>) -> tensor<3x%s> { %%0 = graph.%s %%x"
             " {axes = [0, 2], keepdims = false} : tensor<3x%s> return %%0 }",
             elem, elem, op, elem);
    check1(text, x, y, 1e-6);
}

static void reductions(void **state)
{
    (void)state;
    const double *x = VALUES(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12);
    check_reduce("reduce_sum", "f32", x, VALUES(18, 26, 34));
    check_reduce("reduce_sum", "i32", x, VALUES(18, 26, 34));
    check_reduce("reduce_mean", "f64", x, VALUES(4.5, 6.5, 8.5));
    check_reduce("reduce_mean", "i8", x, VALUES(4, 6, 8));
    check_reduce("reduce_max", "f16", x, VALUES(8, 10, 12));
    check_reduce("reduce_min", "u8", x, VALUES(1, 3, 5));
    check_reduce("reduce_prod", "f32", x, VALUES(112, 1080, 3960));
    check_reduce("reduce_max", "f32", VALUES(1, NAN, 3, 4, -INFINITY, -1, 7, 8, 9, 1, -2, -3),
                 VALUES(NAN, 9, -1));
    check1("(%x: tensor<2x3xbool>) -> tensor<2x1xbool> { %0 = graph.reduce_max %x"
           " {axes = [1], keepdims = true} : tensor<2x1xbool> return %0 }",
           VALUES(0, 1, 0, 0, 0, 0), VALUES(1, 0), 0);
}

static void reductions_of_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *op, *elem;
        double value;
    } cases[] = {{"reduce_sum", "f32", 0},          {"reduce_prod", "i32", 1},
                 {"reduce_max", "f32", -INFINITY},  {"reduce_min", "f32", INFINITY},
                 {"reduce_max", "i8", -128},        {"reduce_min", "u64", 18446744073709551615.0},
                 {"reduce_min", "i32", 2147483647}, {"reduce_mean", "f32", NAN}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "(%%x: tensor<2x0x%s>) -> tensor<2x%s> { %%0 = graph.%s %%x"
                 " {axes = [1], keepdims = false} : tensor<2x%s> return %%0 }",
                 cases[i].elem, cases[i].elem, cases[i].op, cases[i].elem);
        check1(text, VALUES(0), VALUES(cases[i].value, cases[i].value), 0);
    }
}

static void positions_of_extremes(void **state)
{
    (void)state;
    const double *x = VALUES(3, 9, 9, 1, NAN, 7, NAN, 8);
    check1("(%x: tensor<2x4xf32>) -> tensor<2xi64> { %0 = graph.arg_max %x {axis = 1,"
           " keepdims = false} : tensor<2xi64> return %0 }",
           x, VALUES(1, 0), 0);
    check1("(%x: tensor<2x4xf32>) -> tensor<2x1xi64> { %0 = graph.arg_max %x {axis = 1,"
           " keepdims = true, select_last = true} : tensor<2x1xi64> return %0 }",
           x, VALUES(2, 2), 0);
    check1("(%x: tensor<2x3xi32>) -> tensor<3xi64> { %0 = graph.arg_min %x {axis = 0,"
           " keepdims = false} : tensor<3xi64> return %0 }",
           VALUES(1, 5, -3, 1, 2, -4), VALUES(0, 1, 1), 0);
}

static void softmaxes(void **state)
{
    (void)state;
    const double *x = VALUES(1, 2, 1000, 3, 2, 1000);
    double e1 = 1 / (1 + exp(2)), e2 = 1 / (1 + exp(0));
    check1("(%x: tensor<2x3xf32>) -> tensor<2x3xf32> { %0 = graph.softmax %x {axis = 0}"
           " : tensor<2x3xf32> return %0 }",
           x, VALUES(e1, e2, 0.5, 1 - e1, 0.5, 0.5), 1e-6);
    check1("(%x: tensor<2x3xf32>) -> tensor<2x3xf32> { %0 = graph.log_softmax %x {axis = 1}"
           " : tensor<2x3xf32> return %0 }",
           VALUES(0, 0, 0, 1000, 0, 0), VALUES(-log(3), -log(3), -log(3), 0, -1000, -1000), 1e-6);
    check1("(%x: tensor<4xf16>) -> tensor<4xf16> { %0 = graph.softmax %x {axis = 0}"
           " : tensor<4xf16> return %0 }",
           VALUES(60000, 60000, -60000, -INFINITY), VALUES(0.5, 0.5, 0, 0), 0);
}

static void running_sums(void **state)
{
    (void)state;
    const double *x = VALUES(1, 2, 3, 10, 20, 30);
    static const struct {
        const char *attrs;
        double y[6];
    } cases[] = {
        {"axis = 1", {1, 3, 6, 10, 30, 60}},
        {"axis = 0", {1, 2, 3, 11, 22, 33}},
        {"axis = 1, exclusive = true", {0, 1, 3, 0, 10, 30}},
        {"axis = 1, reverse = true", {6, 5, 3, 60, 50, 30}},
        {"axis = 1, exclusive = true, reverse = true", {5, 3, 0, 50, 30, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "(%%x: tensor<2x3xbf16>) -> tensor<2x3xbf16> { %%0 = graph.cumsum %%x {%s}"
                 " : tensor<2x3xbf16> return %%0 }",
                 cases[i].attrs);
        check1(text, x, cases[i].y, 0);
    }
}

static void k_largest(void **state)
{
    (void)state;
    const double *x = VALUES(5, 1, 9, 9, -3, 7);
    check_values("(%x: tensor<1x6xf32>) -> (tensor<1x4xf32>, tensor<1x4xi64>) {"
                 " %v, %i = graph.top_k %x {axis = 1, largest = true, sorted = true}"
                 " : tensor<1x4xf32>, tensor<1x4xi64> return %v, %i }",
                 &x, (const double *[]){VALUES(9, 9, 7, 5), VALUES(2, 3, 5, 0)}, 0);
    check_values("(%x: tensor<3x2xf16>) -> (tensor<2x2xf16>, tensor<2x2xi64>) {"
                 " %v, %i = graph.top_k %x {axis = 0, largest = false, sorted = true}"
                 " : tensor<2x2xf16>, tensor<2x2xi64> return %v, %i }",
                 &x, (const double *[]){VALUES(-3, 1, 5, 7), VALUES(2, 0, 0, 2)}, 0);
    check_values("(%x: tensor<6xi32>) -> (tensor<0xi32>, tensor<0xi64>) {"
                 " %v, %i = graph.top_k %x {axis = 0, largest = false, sorted = true}"
                 " : tensor<0xi32>, tensor<0xi64> return %v, %i }",
                 &x, (const double *[]){VALUES(0), VALUES(0)}, 0);
}

/* NaN is above all numbers; nothing is lost beside it. */
static void k_largest_with_nan(void **state)
{
    (void)state;
    const double *x = VALUES(1, NAN, 2, NAN, INFINITY);
    check_values("(%x: tensor<5xf32>) -> (tensor<5xf32>, tensor<5xi64>) {"
                 " %v, %i = graph.top_k %x {axis = 0, largest = true, sorted = true}"
                 " : tensor<5xf32>, tensor<5xi64> return %v, %i }",
                 &x, (const double *[]){VALUES(NAN, NAN, INFINITY, 2, 1), VALUES(1, 3, 4, 2, 0)},
                 0);
    check_values("(%x: tensor<5xf32>) -> (tensor<4xf32>, tensor<4xi64>) {"
                 " %v, %i = graph.top_k %x {axis = 0, largest = false, sorted = true}"
                 " : tensor<4xf32>, tensor<4xi64> return %v, %i }",
                 &x, (const double *[]){VALUES(1, 2, INFINITY, NAN), VALUES(0, 2, 4, 1)}, 0);
}

static int by_value_then_index(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return x[0] != y[0] ? (x[0] < y[0] ? 1 : -1) : (x[1] < y[1] ? -1 : 1);
}

static void k_largest_of_many(void **state)
{
    (void)state;
    enum { N = 200 };
    double *x = some_numbers(N, 7), pairs[N][2], values[N], indices[N];
    for (int i = 0; i < N; i++) {
        x[i] = floor(x[i] * 20); /* many ties */
        pairs[i][0] = x[i];
        pairs[i][1] = i;
    }
    qsort(pairs, N, sizeof *pairs, by_value_then_index);
    for (int i = 0; i < N; i++) {
        values[i] = pairs[i][0];
        indices[i] = pairs[i][1];
    }
    check_values("(%x: tensor<200xf32>) -> (tensor<30xf32>, tensor<30xi64>) {"
                 " %v, %i = graph.top_k %x {axis = 0, largest = true, sorted = true}"
                 " : tensor<30xf32>, tensor<30xi64> return %v, %i }",
                 (const double *[]){x}, (const double *[]){values, indices}, 0);
    check_values("(%x: tensor<200xf32>) -> (tensor<200xf32>, tensor<200xi64>) {"
                 " %v, %i = graph.top_k %x {axis = 0, largest = true, sorted = true}"
                 " : tensor<200xf32>, tensor<200xi64> return %v, %i }",
                 (const double *[]){x}, (const double *[]){values, indices}, 0);
    free(x);
}

/* ---- Pools ---- */

static void pools(void **state)
{
    (void)state;
    const double *x = VALUES(-1, -2, -3, -4, -5, -6, -7, -8, -9);
    check1("(%x: tensor<1x1x3x3xf32>) -> tensor<1x1x2x2xf32> { %0 = graph.max_pool %x"
           " {kernel = [2, 2], strides = [2, 2], dilations = [1, 1], pads_begin = [1, 1],"
           " pads_end = [0, 0]} : tensor<1x1x2x2xf32> return %0 }",
           x, VALUES(-1, -2, -4, -5), 0);
    check1("(%x: tensor<1x1x3x3xf32>) -> tensor<1x1x2x2xf32> { %0 = graph.avg_pool %x"
           " {kernel = [2, 2], strides = [2, 2], dilations = [1, 1], pads_begin = [1, 1],"
           " pads_end = [0, 0]} : tensor<1x1x2x2xf32> return %0 }",
           x, VALUES(-1, -2.5, -5.5, -7), 1e-6);
    check1("(%x: tensor<1x1x3x3xf32>) -> tensor<1x1x2x2xf32> { %0 = graph.avg_pool %x"
           " {kernel = [2, 2], strides = [2, 2], dilations = [1, 1], pads_begin = [1, 1],"
           " pads_end = [0, 0], count_pad = true} : tensor<1x1x2x2xf32> return %0 }",
           x, VALUES(-0.25, -1.25, -2.75, -7), 1e-6);
    /* A window that reaches beyond the padding, as ceil mode gives: what is beyond never counts. */
    check1("(%x: tensor<1x4x1xf32, NHWC>) -> tensor<1x2x1xf32, NHWC> { %0 = graph.avg_pool %x"
           " {kernel = [3], strides = [3], dilations = [1], pads_begin = [0], pads_end = [1],"
           " count_pad = true} : tensor<1x2x1xf32, NHWC> return %0 }",
           VALUES(1, 2, 3, 4), VALUES(2, 2), 1e-6);
    check1("(%x: tensor<1x1x5xf16>) -> tensor<1x1x5xf16> { %0 = graph.avg_pool %x"
           " {kernel = [2], strides = [1], dilations = [3], pads_begin = [1], pads_end = [2]}"
           " : tensor<1x1x5xf16> return %0 }",
           VALUES(1, 2, 3, 4, 5), VALUES(3, 2.5, 3.5, 3, 4), 0);
    check1("(%x: tensor<1x1x4xi32>) -> tensor<1x1x3xi32> { %0 = graph.max_pool %x"
           " {kernel = [3], strides = [1], dilations = [1], pads_begin = [0], pads_end = [1]}"
           " : tensor<1x1x3xi32> return %0 }",
           VALUES(-5, -4, -3, -9), VALUES(-3, -3, -3), 0);
}

/* ---- Normalisations ---- */

static void layer_norms(void **state)
{
    (void)state;
    /* Values far from zero: a single pass in float would lose the variance. */
    double r = 1 / sqrt(1.25 + 1e-5);
    check3("(%x: tensor<1x4xf32>, %s: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<1x4xf32> {"
           " %0 = graph.layer_norm %x, %s, %b {axis = 1, epsilon = 0.00001} : tensor<1x4xf32>"
           " return %0 }",
           VALUES(10001, 10002, 10003, 10004), VALUES(1, 2, 3, 4), VALUES(0, 0, 1, 1),
           VALUES(-1.5 * r, -0.5 * r * 2, 0.5 * r * 3 + 1, 1.5 * r * 4 + 1), 1e-5);
    check1("(%x: tensor<2x2xf16>) -> tensor<2x2xf16> {"
           " %0 = graph.layer_norm %x {axis = 0, epsilon = 0.0} : tensor<2x2xf16> return %0 }",
           VALUES(1, 1, 3, 3), VALUES(-1, -1, 1, 1), 0);
    check2("(%x: tensor<1x2xf32>, %s: tensor<2xf32>) -> tensor<1x2xf32> {"
           " %0 = graph.rms_norm %x, %s {axis = 1, epsilon = 0.5} : tensor<1x2xf32> return %0 }",
           VALUES(3, 4), VALUES(1, 2), VALUES(3 / sqrt(13), 8 / sqrt(13)), 1e-6);
}

static void channel_norms(void **state)
{
    (void)state;
    check3("(%x: tensor<1x2x2xf32>, %s: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<1x2x2xf32> {"
           " %0 = graph.instance_norm %x, %s, %b {epsilon = 0.0} : tensor<1x2x2xf32> return %0 }",
           VALUES(1, 3, 10, 30), VALUES(1, 2), VALUES(0, 5), VALUES(-1, 1, 3, 7), 1e-6);
    check3("(%x: tensor<1x2x2xf32, NHWC>, %s: tensor<2xf32>, %b: tensor<2xf32>) -> "
           "tensor<1x2x2xf32, NHWC> {"
           " %0 = graph.instance_norm %x, %s, %b {epsilon = 0.0}"
           " : tensor<1x2x2xf32, NHWC> return %0 }",
           VALUES(1, 10, 3, 30), VALUES(1, 2), VALUES(0, 5), VALUES(-1, 3, 1, 7), 1e-6);
    check_values(
        "(%x: tensor<1x2x1xf32>, %s: tensor<2xf32>, %b: tensor<2xf32>,"
        " %m: tensor<2xf32>, %v: tensor<2xf32>) -> tensor<1x2x1xf32> {"
        " %0 = graph.batch_norm %x, %s, %b, %m, %v {epsilon = 0.0} : tensor<1x2x1xf32>"
        " return %0 }",
        (const double *[]){VALUES(5, 6), VALUES(2, 3), VALUES(1, 0), VALUES(1, 2), VALUES(4, 16)},
        (const double *[]){VALUES(5, 3)}, 1e-6);
    /* Channels 0-2 of 3, windows of 2 reach one ahead. */
    check1("(%x: tensor<1x3x1xf32>) -> tensor<1x3x1xf32> { %0 = graph.lrn %x {size = 2,"
           " alpha = 2.0, beta = 0.5, bias = 1.0} : tensor<1x3x1xf32> return %0 }",
           VALUES(1, 2, 3), VALUES(1 / sqrt(6), 2 / sqrt(14), 3 / sqrt(10)), 1e-6);
    check1("(%x: tensor<1x3x1x1xf32, NCHW1c>) -> tensor<1x3x1x1xf32, NCHW1c> {"
           " %0 = graph.lrn %x {size = 2, alpha = 2.0, beta = 0.5, bias = 1.0}"
           " : tensor<1x3x1x1xf32, NCHW1c> return %0 }",
           VALUES(1, 2, 3), VALUES(1 / sqrt(6), 2 / sqrt(14), 3 / sqrt(10)), 1e-6);
}

/* Four channels in two blocks of two, of two pixels. */
static void blocks_of_channels(void **state)
{
    (void)state;
#define BLOCKS "tensor<1x2x2x2xf32, NCHW2c>"
    const double *x = VALUES(1, 10, 3, 30, 5, 7, 5, 9);
    check3("(%x: " BLOCKS ", %s: tensor<4xf32>, %b: tensor<4xf32>) -> " BLOCKS " {"
           " %0 = graph.instance_norm %x, %s, %b {epsilon = 0.0} : " BLOCKS " return %0 }",
           VALUES(1, 10, 3, 30, 4, 7, 6, 9), VALUES(1, 2, 3, 4), VALUES(0, 5, 0, 1),
           VALUES(-1, 3, 1, 7, -3, -3, 3, 5), 1e-6);
    check_values("(%x: " BLOCKS ", %s: tensor<4xf32>, %b: tensor<4xf32>,"
                 " %m: tensor<4xf32>, %v: tensor<4xf32>) -> " BLOCKS " {"
                 " %0 = graph.batch_norm %x, %s, %b, %m, %v {epsilon = 0.0} : " BLOCKS
                 " return %0 }",
                 (const double *[]){x, VALUES(1, 2, 3, 4), VALUES(0, 0, 0, 1), VALUES(0, 10, 5, 7),
                                    VALUES(1, 4, 1, 1)},
                 (const double *[]){VALUES(1, 0, 3, 20, 0, 1, 0, 9)}, 1e-6);
    check1("(%x: " BLOCKS ") -> tensor<1x2x1x2xf32, NCHW2c> { %0 = graph.max_pool %x"
           " {kernel = [2], strides = [1], dilations = [1], pads_begin = [0], pads_end = [0]}"
           " : tensor<1x2x1x2xf32, NCHW2c> return %0 }",
           x, VALUES(3, 30, 5, 9), 0);
    check1("(%x: " BLOCKS ") -> " BLOCKS " { %0 = graph.avg_pool %x"
           " {kernel = [2], strides = [1], dilations = [1], pads_begin = [1], pads_end = [0]}"
           " : " BLOCKS " return %0 }",
           x, VALUES(1, 10, 2, 20, 5, 7, 5, 8), 1e-6);
#undef BLOCKS
}

/* ---- Transposed convolutions, against scattering ---- */

typedef struct transpose_case {
    int c, o, groups, in, kernel, stride, dilation, begin, out;
} transpose_case;

static void check_transpose(transpose_case t)
{
    char text[1024];
    int og = t.o / t.groups, ig = t.c / t.groups;
    double *x = some_numbers(t.c * t.in, 3);
    double *k = some_numbers(t.c * og * t.kernel, 4);
    double *y = zeros(t.o * t.out);
    for (int c = 0; c < t.c; c++)
        for (int o = 0; o < og; o++)
            for (int i = 0; i < t.in; i++)
                for (int j = 0; j < t.kernel; j++) {
                    int at = i * t.stride + j * t.dilation - t.begin;
                    if (at >= 0 && at < t.out)
                        y[(c / ig * og + o) * t.out + at] +=
                            x[c * t.in + i] * k[(c * og + o) * t.kernel + j];
                }
    snprintf(text, sizeof text,
             "(%%x: tensor<1x%dx%dxf32>, %%k: tensor<%dx%dx%dxf32>) -> tensor<1x%dx%dxf32> {"
             " %%0 = graph.conv_transpose %%x, %%k {strides = [%d], dilations = [%d],"
             " pads_begin = [%d], pads_end = [0], groups = %d} : tensor<1x%dx%dxf32> return %%0 }",
             t.c, t.in, t.c, og, t.kernel, t.o, t.out, t.stride, t.dilation, t.begin, t.groups, t.o,
             t.out);
    check2(text, x, k, y, 1e-5);
    free(x), free(k), free(y);
}

static void transposed_convolutions(void **state)
{
    (void)state;
    check_transpose((transpose_case){2, 3, 1, 4, 2, 2, 1, 0, 8});
    check_transpose((transpose_case){2, 3, 1, 4, 3, 2, 1, 1, 8});
    check_transpose((transpose_case){4, 4, 2, 5, 4, 3, 1, 2, 14});
    check_transpose((transpose_case){1, 1, 1, 5, 3, 1, 1, 1, 5});
    check_transpose((transpose_case){1, 2, 1, 4, 3, 2, 2, 0, 11});
    check_transpose((transpose_case){1, 1, 1, 3, 2, 4, 1, 0, 13}); /* gaps, output padding */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reductions),
        cmocka_unit_test(reductions_of_nothing),
        cmocka_unit_test(positions_of_extremes),
        cmocka_unit_test(softmaxes),
        cmocka_unit_test(running_sums),
        cmocka_unit_test(k_largest),
        cmocka_unit_test(k_largest_with_nan),
        cmocka_unit_test(k_largest_of_many),
        cmocka_unit_test(pools),
        cmocka_unit_test(layer_norms),
        cmocka_unit_test(channel_norms),
        cmocka_unit_test(blocks_of_channels),
        cmocka_unit_test(transposed_convolutions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
