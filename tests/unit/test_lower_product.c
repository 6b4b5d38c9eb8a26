/* Tests of lowering matrix products and convolutions against plain loops. */
#include "lower_check.h"

/* ---- Matrix products ---- */

static void matmul_known_values(void **state)
{
    (void)state;
    check2("(%a: tensor<2x3xf32>, %b: tensor<3x2xf32>) -> tensor<2x2xf32> {"
           " %0 = graph.matmul %a, %b : tensor<2x2xf32> return %0 }",
           VALUES(1, 2, 3, 4, 5, 6), VALUES(1, 2, 3, 4, 5, 6), VALUES(22, 28, 49, 64), 0);
}

static void matmul_transposes(void **state)
{
    (void)state;
    check2("(%a: tensor<3x2xf32>, %b: tensor<2x3xf64>) -> tensor<2x2xf32> {"
           " %c = graph.cast %b : tensor<2x3xf32>"
           " %0 = graph.matmul %a, %c {transpose_a = true, transpose_b = true} : tensor<2x2xf32>"
           " return %0 }",
           VALUES(1, 4, 2, 5, 3, 6), VALUES(1, 3, 5, 2, 4, 6), VALUES(22, 28, 49, 64), 0);
}

static void matmul_batches_broadcast(void **state)
{
    (void)state;
    double *a = some_numbers(2 * 1 * 2 * 3, 1), *b = some_numbers(3 * 3 * 4, 2);
    double want[2 * 3 * 2 * 4] = {0};
    for (int p = 0; p < 2; p++)
        for (int q = 0; q < 3; q++)
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 4; j++)
                    for (int k = 0; k < 3; k++)
                        want[((p * 3 + q) * 2 + i) * 4 + j] +=
                            a[(p * 2 + i) * 3 + k] * b[(q * 3 + k) * 4 + j];
    check2("(%a: tensor<2x1x2x3xf32>, %b: tensor<3x3x4xf32>) -> tensor<2x3x2x4xf32> {"
           " %0 = graph.matmul %a, %b : tensor<2x3x2x4xf32> return %0 }",
           a, b, want, 1e-6);
    free(a);
    free(b);
}

static void matmul_panels(void **state)
{
    (void)state;
    /* b = [[1, 2, 3], [4, 5, 6]] in panels of 2, a zero behind. */
    check2("(%a: tensor<1x2xf32>, %b: tensor<2x2x2xf32>) -> tensor<1x3xf32> {"
           " %0 = graph.matmul %a, %b {b_panel = 2} : tensor<1x3xf32> return %0 }",
           VALUES(10, 1), VALUES(1, 2, 4, 5, 3, 0, 6, 0), VALUES(14, 25, 36), 0);
}

static void matmul_of_nothing_is_zero(void **state)
{
    (void)state;
    check2("(%a: tensor<2x0xf32>, %b: tensor<0x2xf32>) -> tensor<2x2xf32> {"
           " %0 = graph.matmul %a, %b : tensor<2x2xf32> return %0 }",
           VALUES(0), VALUES(0), VALUES(0, 0, 0, 0), 0);
    check2("(%a: tensor<0x2xf32>, %b: tensor<2x2xf32>) -> tensor<0x2xf32> {"
           " %0 = graph.matmul %a, %b : tensor<0x2xf32> return %0 }",
           VALUES(0), VALUES(0, 0, 0, 0), VALUES(0), 0);
}

/* 2049 cannot be reached by adding ones in f16. */
static void matmul_of_f16_sums_in_f32(void **state)
{
    (void)state;
    enum { K = 2050 };
    double ones[K], scale[1] = {K};
    for (int i = 0; i < K; i++)
        ones[i] = 1;
    check2("(%a: tensor<1x2050xf16>, %b: tensor<2050x1xf16>) -> tensor<1x1xf16> {"
           " %0 = graph.matmul %a, %b : tensor<1x1xf16> return %0 }",
           ones, ones, scale, 0);
}

static void matmul_of_int8_sums_in_i32(void **state)
{
    (void)state;
    check2("(%a: tensor<1x3xi8>, %b: tensor<3x1xi8>) -> tensor<1x1xi32> {"
           " %0 = graph.matmul %a, %b : tensor<1x1xi32> return %0 }",
           VALUES(-128, 127, 100), VALUES(-128, 127, -100), VALUES(22513), 0);
}

/* ---- Convolutions ---- */

typedef struct conv_case {
    int n, c, o, groups, h, w, kh, kw, sy, sx, dy, dx, top, left, bottom, right;
} conv_case;

static int out_size(int in, int k, int s, int d, int pads)
{
    return (in + pads - (k - 1) * d - 1) / s + 1;
}

/* NCHW and OIHW. */
static double *reference_conv(conv_case t, const double *x, const double *k)
{
    int oh = out_size(t.h, t.kh, t.sy, t.dy, t.top + t.bottom);
    int ow = out_size(t.w, t.kw, t.sx, t.dx, t.left + t.right);
    int ci = t.c / t.groups, co = t.o / t.groups;
    double *y = zeros(t.n * t.o * oh * ow);
    for (int n = 0; n < t.n; n++)
        for (int o = 0; o < t.o; o++)
            for (int py = 0; py < oh; py++)
                for (int px = 0; px < ow; px++)
                    for (int c = 0; c < ci; c++)
                        for (int ky = 0; ky < t.kh; ky++)
                            for (int kx = 0; kx < t.kw; kx++) {
                                int iy = py * t.sy + ky * t.dy - t.top;
                                int ix = px * t.sx + kx * t.dx - t.left;
                                if (iy < 0 || iy >= t.h || ix < 0 || ix >= t.w)
                                    continue;
                                int channel = o / co * ci + c;
                                y[((n * t.o + o) * oh + py) * ow + px] +=
                                    x[((n * t.c + channel) * t.h + iy) * t.w + ix] *
                                    k[((o * ci + c) * t.kh + ky) * t.kw + kx];
                            }
    return y;
}

static double *permuted(const double *x, const int *dims, const int *perm)
{
    int strides[4] = {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
    int to[4], at[4];
    for (int i = 0; i < 4; i++)
        to[i] = dims[perm[i]];
    double *y = zeros(dims[0] * strides[0]), *out = y;
    for (at[0] = 0; at[0] < to[0]; at[0]++)
        for (at[1] = 0; at[1] < to[1]; at[1]++)
            for (at[2] = 0; at[2] < to[2]; at[2]++)
                for (at[3] = 0; at[3] < to[3]; at[3]++)
                    *out++ = x[at[0] * strides[perm[0]] + at[1] * strides[perm[1]] +
                               at[2] * strides[perm[2]] + at[3] * strides[perm[3]]];
    return y;
}

/* The same convolution of blocks of channels. */
static void check_blocks(conv_case t, const char *attrs, double *x, double *k, double *y)
{
    char text[1024];
    int bx = t.c % 2 ? t.c : 2, bo = t.o % 3 ? t.o : 3; /* channels of a block */
    int oh = out_size(t.h, t.kh, t.sy, t.dy, t.top + t.bottom);
    int ow = out_size(t.w, t.kw, t.sx, t.dx, t.left + t.right);
    double *xb = permuted(x, (int[]){t.n, t.c / bx, bx, t.h * t.w}, (int[]){0, 1, 3, 2});
    double *yb = permuted(y, (int[]){t.n, t.o / bo, bo, oh * ow}, (int[]){0, 1, 3, 2});
    snprintf(text, sizeof text,
             "(%%x: tensor<%dx%dx%dx%dx%dxf32, NCHW%dc>, %%k: tensor<%dx%dx%dx%dxf32>)"
             " -> tensor<%dx%dx%dx%dx%dxf32, NCHW%dc> { %%0 = graph.conv %%x, %%k {%s}"
             " : tensor<%dx%dx%dx%dx%dxf32, NCHW%dc> return %%0 }",
             t.n, t.c / bx, t.h, t.w, bx, bx, t.o, t.c / t.groups, t.kh, t.kw, t.n, t.o / bo, oh,
             ow, bo, bo, attrs, t.n, t.o / bo, oh, ow, bo, bo);
    check2(text, xb, k, yb, 1e-5);
    free(xb), free(yb);
}

static void check_conv(conv_case t)
{
    char text[1024], attrs[256];
    int ci = t.c / t.groups;
    int oh = out_size(t.h, t.kh, t.sy, t.dy, t.top + t.bottom);
    int ow = out_size(t.w, t.kw, t.sx, t.dx, t.left + t.right);
    double *x = some_numbers(t.n * t.c * t.h * t.w, 1);
    double *k = some_numbers(t.o * ci * t.kh * t.kw, 2);
    double *y = reference_conv(t, x, k);
    snprintf(attrs, sizeof attrs,
             "strides = [%d, %d], dilations = [%d, %d], pads_begin = [%d, %d], "
             "pads_end = [%d, %d], groups = %d",
             t.sy, t.sx, t.dy, t.dx, t.top, t.left, t.bottom, t.right, t.groups);
    snprintf(text, sizeof text,
             "(%%x: tensor<%dx%dx%dx%dxf32>, %%k: tensor<%dx%dx%dx%dxf32>)"
             " -> tensor<%dx%dx%dx%dxf32> { %%0 = graph.conv %%x, %%k {%s}"
             " : tensor<%dx%dx%dx%dxf32> return %%0 }",
             t.n, t.c, t.h, t.w, t.o, ci, t.kh, t.kw, t.n, t.o, oh, ow, attrs, t.n, t.o, oh, ow);
    check2(text, x, k, y, 1e-5);

    double *xl = permuted(x, (int[]){t.n, t.c, t.h, t.w}, (int[]){0, 2, 3, 1});
    double *yl = permuted(y, (int[]){t.n, t.o, oh, ow}, (int[]){0, 2, 3, 1});
    snprintf(text, sizeof text,
             "(%%x: tensor<%dx%dx%dx%dxf32, NHWC>, %%k: tensor<%dx%dx%dx%dxf32>)"
             " -> tensor<%dx%dx%dx%dxf32, NHWC> { %%0 = graph.conv %%x, %%k {%s}"
             " : tensor<%dx%dx%dx%dxf32, NHWC> return %%0 }",
             t.n, t.h, t.w, t.c, t.o, ci, t.kh, t.kw, t.n, oh, ow, t.o, attrs, t.n, oh, ow, t.o);
    check2(text, xl, k, yl, 1e-5);
    check_blocks(t, attrs, x, k, y);
    free(x), free(k), free(y), free(xl), free(yl);
}

static void conv_against_plain_loops(void **state)
{
    (void)state;
    check_conv((conv_case){1, 1, 1, 1, 3, 3, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0});
    check_conv((conv_case){2, 3, 4, 1, 5, 6, 3, 3, 1, 1, 1, 1, 1, 1, 1, 1});
    check_conv((conv_case){1, 4, 6, 2, 7, 5, 3, 2, 2, 1, 1, 2, 1, 0, 2, 1});
    check_conv((conv_case){1, 4, 4, 4, 5, 5, 3, 3, 1, 2, 1, 1, 1, 1, 1, 1});
    check_conv((conv_case){1, 2, 6, 2, 4, 4, 1, 1, 2, 2, 1, 1, 0, 0, 0, 0});
    check_conv((conv_case){1, 2, 3, 1, 4, 9, 3, 3, 1, 3, 2, 2, 3, 4, 3, 2});
    check_conv((conv_case){1, 6, 6, 6, 4, 5, 3, 2, 1, 1, 1, 1, 1, 1, 1, 0});
    check_conv((conv_case){1, 4, 48, 2, 3, 4, 1, 2, 1, 1, 1, 1, 0, 0, 0, 0});
}

static void conv_of_one_and_three_axes(void **state)
{
    (void)state;
    check2("(%x: tensor<1x1x4xf32>, %k: tensor<1x1x2xf32>) -> tensor<1x1x5xf32> {"
           " %0 = graph.conv %x, %k {strides = [1], dilations = [1], pads_begin = [1],"
           " pads_end = [1], groups = 1} : tensor<1x1x5xf32> return %0 }",
           VALUES(1, 2, 3, 4), VALUES(10, 1), VALUES(1, 12, 23, 34, 40), 0);
    check2("(%x: tensor<1x2x2x1x1xf32>, %k: tensor<1x2x2x1x1xf32>) -> tensor<1x1x1x1x1xf32> {"
           " %0 = graph.conv %x, %k {strides = [1, 1, 1], dilations = [1, 1, 1],"
           " pads_begin = [0, 0, 0], pads_end = [0, 0, 0], groups = 1} : tensor<1x1x1x1x1xf32>"
           " return %0 }",
           VALUES(1, 2, 3, 4), VALUES(1, 10, 100, 1000), VALUES(4321), 0);
}

static void conv_layouts_of_weights(void **state)
{
    (void)state;
    /* Two inputs, three outputs, 1x1: weights [[1, 2], [3, 4], [5, 6]]. */
    check2("(%x: tensor<1x1x1x2xf32, NHWC>, %k: tensor<2x1x1x2x2xf32>)"
           " -> tensor<1x1x1x3xf32, NHWC> {"
           " %0 = graph.conv %x, %k {strides = [1, 1], dilations = [1, 1], pads_begin = [0, 0],"
           " pads_end = [0, 0], groups = 1, kernel_layout = \"panel\", panel = 2}"
           " : tensor<1x1x1x3xf32, NHWC> return %0 }",
           VALUES(10, 1), VALUES(1, 3, 2, 4, 5, 0, 6, 0), VALUES(12, 34, 56), 0);
    /* The first two of these outputs, in blocks of one input and two outputs. */
    check2("(%x: tensor<1x2x1x1x1xf32, NCHW1c>, %k: tensor<1x2x1x1x1x2xf32>)"
           " -> tensor<1x1x1x1x2xf32, NCHW2c> {"
           " %0 = graph.conv %x, %k {strides = [1, 1], dilations = [1, 1], pads_begin = [0, 0],"
           " pads_end = [0, 0], groups = 1, kernel_layout = \"blocks\", panel = 2}"
           " : tensor<1x1x1x1x2xf32, NCHW2c> return %0 }",
           VALUES(10, 1), VALUES(1, 3, 2, 4), VALUES(12, 34), 0);
    /* Depthwise, two channels, multiplier 2, window of 2. */
    check2("(%x: tensor<1x2x2xf32, NHWC>, %k: tensor<2x4xf32>) -> tensor<1x1x4xf32, NHWC> {"
           " %0 = graph.conv %x, %k {strides = [1], dilations = [1], pads_begin = [0],"
           " pads_end = [0], groups = 2, kernel_layout = \"depthwise\"}"
           " : tensor<1x1x4xf32, NHWC> return %0 }",
           VALUES(1, 2, 3, 4), VALUES(1, 2, 3, 4, 10, 20, 30, 40), VALUES(31, 62, 126, 168), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matmul_known_values),        cmocka_unit_test(matmul_transposes),
        cmocka_unit_test(matmul_batches_broadcast),   cmocka_unit_test(matmul_panels),
        cmocka_unit_test(matmul_of_nothing_is_zero),  cmocka_unit_test(matmul_of_f16_sums_in_f32),
        cmocka_unit_test(matmul_of_int8_sums_in_i32), cmocka_unit_test(conv_against_plain_loops),
        cmocka_unit_test(conv_of_one_and_three_axes), cmocka_unit_test(conv_layouts_of_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
