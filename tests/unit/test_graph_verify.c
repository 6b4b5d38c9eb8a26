/* Tests of the rules of graph operations: what is right passes, one thing wrong is named. */
#include "dialect/register.h"
#include "tilewright/ir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Arguments of the function that the operation stands in. */
static const char arguments[] =
    "%x: tensor<2x3xf32>, %y: tensor<3xf32>, %z: tensor<4x3xf32>, %s: tensor<n x 3 x f32>, "
    "%i: tensor<2x3xi64>, %j: tensor<5xi64>, %b: tensor<2x3xbool>, %r0: tensor<f32>, "
    "%k0: tensor<i64>, %e: tensor<0x3xf32>, "
    "%img: tensor<1x8x10x10xf32>, %nhwc: tensor<1x10x10x8xf32, NHWC>, %w: tensor<16x8x3x3xf32>, "
    "%wd: tensor<8x1x3x3xf32>, %wp: tensor<2x3x3x8x8xf32>, %c: tensor<8xf32>, "
    "%m: tensor<5x4x6xf32>, %n: tensor<5x6x7xf32>, %nt: tensor<7x6xf32>, %np: tensor<2x6x4xf32>, "
    "%qw: tensor<2x1x4xi32>, %qs: tensor<2x1x4xf32>";

/* NULL for `problem`: it is valid. */
static void check(const char *op, const char *problem)
{
    char text[4096];
    snprintf(text, sizeof text, "func @f(%s) {\n  %s\n  return\n}", arguments, op);
    tw_context *ctx = tw_context_create(0);
    assert_true(tw_register_all_dialects(ctx));
    tw_op *module = tw_parse(ctx, text, strlen(text), "test.tw");
    if (!module)
        fail_msg("%s", tw_diagnostic_text(ctx, tw_diagnostics(ctx)));
    bool good = tw_verify(ctx, module);
    const char *message = good ? "nothing" : tw_diagnostics(ctx)->message;
    if (good != !problem || (problem && !strstr(message, problem)))
        fail_msg("%s\n  expected: %s\n  got: %s", op, problem ? problem : "nothing", message);
    tw_context_destroy(ctx);
}

static void structure(void **state)
{
    (void)state;
    check("%a = graph.constant dense<1.0> : tensor<2xf32>", NULL);
    check("%a = \"graph.constant\" {value = dense<1.0> : tensor<2xf32>} : tensor<3xf32>",
          "the result is tensor<3xf32>, not tensor<2xf32>");
    check("%a = graph.group(%p = %x) { graph.yield %p } : tensor<2x3xf32>", NULL);
    check("%a = graph.group(%p = %x) { graph.yield %p } : tensor<3xf32>",
          "result 0 is tensor<3xf32>, but tensor<2x3xf32> is yielded");
    check("%a = graph.group(%p = %x) { graph.yield } : tensor<3xf32>", "a graph.yield of 1 values");
    check("graph.yield %x", "nothing can stand behind it");
    check("%a = loop.const {value = 1.0} : f32 %q = graph.neg %a : tensor<f32>", "is no tensor");
}

static void elementwise(void **state)
{
    (void)state;
    check("%a = graph.exp %x : tensor<2x3xf32>", NULL);
    check("%a = graph.exp %s : tensor<n x 3 x f32>", NULL);
    check("%a = graph.exp %e : tensor<0x3xf32>", NULL);
    check("%a = graph.exp %i : tensor<2x3xi64>", "not of floating point");
    check("%a = graph.neg %x : tensor<3x2xf32>", "the result is tensor<3x2xf32>, not");
    check("%a = graph.neg %x : tensor<2x3xf64>", "the result is tensor<2x3xf64>, not");
    check("%a = graph.is_nan %x : tensor<2x3xbool>", NULL);
    check("%a = graph.is_nan %x : tensor<2x3xf32>", "not of bool");
    check("%a = graph.cast %x : tensor<2x3xi8>", NULL);
    check("%a = graph.cast %x : tensor<3xi8>", "not of shape [2, 3]");
    check("%a = graph.bitcast %x : tensor<2x3xu32>", NULL);
    check("%a = graph.bitcast %x : tensor<2x3xu8>", "different widths");
    check("%a = graph.add %x, %y : tensor<2x3xf32>", NULL);
    check("%a = graph.add %x, %r0 : tensor<2x3xf32>", NULL);
    check("%a = graph.add %x, %s : tensor<2x3xf32>", NULL);
    check("%a = graph.add %x, %z : tensor<4x3xf32>", "do not broadcast");
    check("%a = graph.add %x, %y : tensor<3xf32>", "not of shape [2, 3]");
    check("%a = graph.add %e, %y : tensor<0x3xf32>", NULL);
    check("%a = graph.add %e, %x : tensor<2x3xf32>", "do not broadcast");
    check("%a = graph.add %x, %i : tensor<2x3xf32>", "the second operand");
    check("%a = graph.and %x, %x : tensor<2x3xf32>", "not of integers or bool");
    check("%a = graph.less %x, %y : tensor<2x3xbool>", NULL);
    check("%a = graph.less %x, %y : tensor<2x3xf32>", "not of bool");
    check("%a = graph.pow %x, %i : tensor<2x3xf32>", NULL);
    check("%a = graph.where %b, %x, %y : tensor<2x3xf32>", NULL);
    check("%a = graph.where %x, %x, %y : tensor<2x3xf32>", "the condition");
}

static void movement(void **state)
{
    (void)state;
    check("%a = graph.shape %x : tensor<2xi64>", NULL);
    check("%a = graph.shape %x {end = 3} : tensor<3xi64>", "not among the 2 axes");
    check("%a = graph.reshape %x : tensor<6xf32>", NULL);
    check("%a = graph.reshape %x : tensor<5xf32>", "not as many elements");
    check("%a = graph.transpose %x {perm = [1, 0]} : tensor<3x2xf32>", NULL);
    check("%a = graph.transpose %r0 {perm = []} : tensor<f32>", NULL);
    check("%a = graph.transpose %x {perm = [1, 1]} : tensor<3x2xf32>", "each axis once");
    check("%a = graph.transpose %x {perm = [1, -1]} : tensor<3x2xf32>", "each axis once");
    check("%a = graph.transpose %x {perm = [1]} : tensor<3x2xf32>", "'perm' needs 2 integers");
    check("%a = graph.expand %y : tensor<7x3xf32>", NULL);
    check("%a = graph.expand %y : tensor<3x7xf32>", "does not broadcast");
    check("%a = graph.slice %x {starts = [1, 2], steps = [1, -1]} : tensor<1x3xf32>", NULL);
    check("%a = graph.slice %x {starts = [1, 2], steps = [1, -2]} : tensor<1x3xf32>",
          "leave axis 1");
    check("%a = graph.slice %x {starts = [1, 3], steps = [1, 1]} : tensor<1x0xf32>", NULL);
    check("%a = graph.slice %x {starts = [1, 9223372036854775807], steps = [1, 1]} : "
          "tensor<1x2xf32>",
          "leave axis 1");
    check("%a = graph.slice %x {starts = [()[] -> (n), 0], steps = [1, 1]} : tensor<2x3xf32>",
          NULL);
    check("%a = graph.concat %x, %z {axis = 0} : tensor<6x3xf32>", NULL);
    check("%a = graph.concat %x, %s {axis = 0} : tensor<(n + 2) x 3 x f32>", NULL);
    check("%a = graph.concat %x, %z {axis = 0} : tensor<7x3xf32>", "not of shape [6, 3]");
    check("%a = graph.concat %x, %z {axis = 1} : tensor<2x6xf32>", "an operand is");
    check("%a = graph.concat %x {axis = -1} : tensor<2x3xf32>", "axis -1 is not among");
    check("%a = graph.pad %x, %r0 {pads_begin = [1, -1], pads_end = [0, 0]} : tensor<3x2xf32>",
          NULL);
    check("%a = graph.pad %x {pads_begin = [-3, 0], pads_end = [0, 0]} : tensor<0x3xf32>",
          "leaves no size");
    check("%a = graph.pad %x {mode = \"around\", pads_begin = [0, 0], pads_end = [0, 0]} : "
          "tensor<2x3xf32>",
          "constant reflect edge wrap");
    check("%a = graph.tile %x {repeats = [2, 1]} : tensor<4x3xf32>", NULL);
    check("%a = graph.tile %x {repeats = [9223372036854775807, 1]} : tensor<4x3xf32>", "too large");
    check("%a = graph.gather %x, %j {axis = 1} : tensor<2x5xf32>", NULL);
    check("%a = graph.gather %x, %k0 {axis = 0} : tensor<3xf32>", NULL);
    check("%a = graph.gather %x, %y {axis = 0} : tensor<3x3xf32>", "not of integers");
    check("%a = graph.gather_elements %x, %i {axis = 1} : tensor<2x3xf32>", NULL);
    check("%a = graph.gather_nd %x, %j : tensor<f32>", "tuples of 5 indices");
    check("%a = graph.scatter_elements %x, %i, %x {axis = 0} : tensor<2x3xf32>", NULL);
    check("%a = graph.scatter_elements %x, %j, %x {axis = 0} : tensor<2x3xf32>", "the indices");
    check("%a = graph.iota {axis = 0} : tensor<i64>", "axis 0 is not among the 0 axes");
    check("%a = graph.range %k0, %k0, %k0 : tensor<n x i64>", NULL);
    check("%a = graph.range %k0, %k0, %j : tensor<n x i64>", "of rank 0");
    check("%a = graph.trilu %y {upper = true} : tensor<3xf32>", "not of rank 2 to 16");
}

static void reductions(void **state)
{
    (void)state;
    check("%a = graph.reduce_sum %x {axes = [1], keepdims = false} : tensor<2xf32>", NULL);
    check("%a = graph.reduce_sum %x {axes = [0, 1], keepdims = true} : tensor<1x1xf32>", NULL);
    check("%a = graph.reduce_sum %r0 {axes = [], keepdims = true} : tensor<f32>", NULL);
    check("%a = graph.reduce_sum %x {axes = [1], keepdims = true} : tensor<2xf32>",
          "not of shape [2, 1]");
    check("%a = graph.reduce_sum %x {axes = [1, 0], keepdims = true} : tensor<1x1xf32>",
          "in order");
    check("%a = graph.reduce_sum %x {axes = [-1], keepdims = true} : tensor<2x1xf32>", "in order");
    check("%a = graph.arg_max %x {axis = 1, keepdims = false} : tensor<2xi64>", NULL);
    check("%a = graph.arg_max %x {axis = 1, keepdims = false} : tensor<2xi32>", "not of i64");
    check("%a = graph.softmax %x {axis = 2} : tensor<2x3xf32>", "axis 2 is not among");
    check("%v, %q = graph.top_k %x {axis = 1, largest, sorted} : tensor<2x2xf32>, tensor<2x2xi64>",
          NULL);
    check("%v, %q = graph.top_k %x {axis = 1, largest, sorted} : tensor<2x4xf32>, tensor<2x4xi64>",
          "4 of only 3 elements");
    check("%v, %q = graph.top_k %x {axis = 1, largest, sorted} : tensor<2x2xf32>, tensor<2x1xi64>",
          "the indices is");
}

static void products(void **state)
{
    (void)state;
    check("%a = graph.matmul %m, %n : tensor<5x4x7xf32>", NULL);
    check("%a = graph.matmul %m, %nt {transpose_b} : tensor<5x4x7xf32>", NULL);
    check("%a = graph.matmul %m, %nt : tensor<5x4x7xf32>", "6 is summed with 7");
    check("%a = graph.matmul %m, %n : tensor<5x7x4xf32>", "not 4 x 7");
    check("%a = graph.matmul %m, %n : tensor<4x4x7xf32>", "do not broadcast");
    check("%a = graph.matmul %y, %x : tensor<2xf32>", "not of rank 2 to 16");
    check("%a = graph.matmul %m, %np {b_panel = 4} : tensor<5x4x7xf32>", NULL);
    check("%a = graph.matmul %m, %np {b_panel = 4} : tensor<5x4x9xf32>", "do not hold 9 columns");
    check("%a = graph.matmul %m, %np {b_panel = 3} : tensor<5x4x7xf32>", "panels of 3");
    check("%a = graph.matmul_bits %m, %qw, %qs {bits = 4, block = 8} : tensor<5x4x7xf32>", NULL);
    check("%a = graph.matmul_bits %m, %qw, %qs, %qs {bits = 4, block = 8} : tensor<5x4x7xf32>",
          NULL);
    check("%a = graph.matmul_bits %m, %qw, %qs {bits = 2, block = 8} : tensor<5x4x7xf32>",
          "whole words of 32 bits");
    check("%a = graph.matmul_bits %m, %qw, %qs {bits = 8, block = 8} : tensor<5x4x7xf32>",
          "the scales is");
    check("%a = graph.matmul_bits %m, %qw, %qs {bits = 8, block = 4} : tensor<5x4x7xf32>",
          "1 blocks of 4");
    check("%a = graph.matmul_bits %m, %qw, %qs {bits = 4, block = 8} : tensor<5x4x9xf32>",
          "for 8 columns");
}

static void windows(void **state)
{
    (void)state;
#define WINDOW "strides = [1, 1], dilations = [1, 1], pads_begin = [1, 1], pads_end = [1, 1]"
    check("%a = graph.conv %img, %w {" WINDOW ", groups = 1} : tensor<1x16x10x10xf32>", NULL);
    check("%a = graph.conv %img, %w {" WINDOW ", groups = 1} : tensor<1x16x8x10xf32>",
          "not of shape [1, 16, 10, 10]");
    check("%a = graph.conv %img, %w {" WINDOW ", groups = 2} : tensor<1x16x10x10xf32>",
          "in 2 groups do not fit 8 channels");
    check("%a = graph.conv %img, %wd {" WINDOW ", groups = 8} : tensor<1x8x10x10xf32>", NULL);
    check("%a = graph.conv %img, %wd {" WINDOW ", groups = 0} : tensor<1x8x10x10xf32>",
          "at least 1");
    check("%a = graph.conv %nhwc, %w {" WINDOW ", groups = 1} : tensor<1x10x10x16xf32, NHWC>",
          NULL);
    check("%a = graph.conv %img, %wp {" WINDOW
          ", groups = 1, kernel_layout = \"panel\", panel = 8} "
          ": tensor<1x16x10x10xf32>",
          NULL);
    check("%a = graph.conv %img, %wp {" WINDOW
          ", groups = 4, kernel_layout = \"panel\", panel = 8} "
          ": tensor<1x16x10x10xf32>",
          "panels of 8 do not fit 4 groups of 16 channels");
    check("%a = graph.conv %img, %c {" WINDOW ", groups = 1} : tensor<1x16x10x10xf32>",
          "not of rank 4");
    check("%a = graph.conv %img, %w {strides = [0, 1], dilations = [1, 1], pads_begin = [1, 1], "
          "pads_end = [1, 1], groups = 1} : tensor<1x16x10x10xf32>",
          "at least 1");
    check("%a = graph.max_pool %img {" WINDOW ", kernel = [3, 3]} : tensor<1x8x10x10xf32>", NULL);
    check("%a = graph.max_pool %img {" WINDOW ", kernel = [3]} : tensor<1x8x10x10xf32>",
          "'kernel' needs 2 integers");
    check("%a = graph.avg_pool %img {kernel = [3, 3], strides = [2, 2], dilations = [1, 1], "
          "pads_begin = [0, 0], pads_end = [0, 0]} : tensor<1x8x5x4xf32>",
          NULL);
    check("%a = graph.conv_transpose %img, %wd {" WINDOW ", groups = 1} : tensor<1x1x10x10xf32>",
          NULL);
    check("%a = graph.conv_transpose %img, %w {" WINDOW ", groups = 1} : tensor<1x8x10x10xf32>",
          "do not fit together");
#undef WINDOW
}

static void attention(void **state)
{
    (void)state;
#define QKV                                                                                        \
    "%q = graph.iota {axis = 0} : tensor<2x6x5x4xf32> "                                            \
    "%k = graph.iota {axis = 0} : tensor<2x3x7x4xf32> "                                            \
    "%v = graph.iota {axis = 0} : tensor<2x3x7x8xf32> "                                            \
    "%mask = graph.iota {axis = 0} : tensor<7x5xf32> %bad = graph.iota {axis = 0} : "              \
    "tensor<5x7xf32> "
    check(QKV "%a = graph.attention %q, %k, %v, %mask {scale = 1.0} : tensor<2x6x5x8xf32>", NULL);
    check(QKV
          "%a = graph.attention %q, %k, %v {scale = 1.0, rows_first = true} : tensor<2x5x6x8xf32>",
          NULL);
    check(QKV "%a = graph.attention %q, %k, %v, %bad {scale = 1.0} : tensor<2x6x5x8xf32>",
          "does not broadcast to scores 2x6x7x5");
    check(QKV "%a = graph.attention %q, %k, %v {scale = 1.0, causal = [-2]} : tensor<2x6x5x8xf32>",
          NULL);
    check(QKV "%a = graph.attention %q, %k, %v {scale = 1.0, causal = [1, 2]} : "
              "tensor<2x6x5x8xf32>",
          "causal");
    check(QKV "%a = graph.attention %q, %k, %v {scale = 1.0} : tensor<2x5x6x8xf32>", "the result");
    check(QKV "%a = graph.attention %q, %q, %v {scale = 1.0} : tensor<2x6x5x8xf32>", "the values");
    check(QKV "%a = graph.attention %k, %q, %v {scale = 1.0} : tensor<2x3x7x8xf32>",
          "6 heads of keys are no whole part of 3 heads of queries");
#undef QKV
}

static void normalisations(void **state)
{
    (void)state;
    check("%a = graph.batch_norm %img, %c, %c, %c, %c {epsilon = 0.1} : tensor<1x8x10x10xf32>",
          NULL);
    check("%a = graph.batch_norm %img, %c, %c, %c, %y {epsilon = 0.1} : tensor<1x8x10x10xf32>",
          "a parameter is tensor<3xf32>, not of shape [8]");
    check("%a = graph.layer_norm %x, %y, %y {axis = 1, epsilon = 0.1} : tensor<2x3xf32>", NULL);
    check("%a = graph.layer_norm %x, %c {axis = 1, epsilon = 0.1} : tensor<2x3xf32>",
          "does not broadcast");
    check("%a = graph.rms_norm %x, %y, %y {axis = 1, epsilon = 0.1} : tensor<2x3xf32>",
          "has 3 operands, not at most 2");
    check("%a = graph.lrn %img {size = 3, alpha = 1.0, beta = 1.0, bias = 1.0} "
          ": tensor<1x8x10x10xf32, NHWC>",
          "operand 0 is tensor<1x8x10x10xf32>, but result 0 is tensor<1x8x10x10xf32, NHWC>");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structure),  cmocka_unit_test(elementwise),    cmocka_unit_test(movement),
        cmocka_unit_test(reductions), cmocka_unit_test(products),       cmocka_unit_test(windows),
        cmocka_unit_test(attention),  cmocka_unit_test(normalisations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
