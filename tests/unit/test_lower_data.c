/* Tests of lowering operations that move elements, gather and scatter. */
#include "lower_check.h"

static void shape_reshape_transpose(void **state)
{
    (void)state;
    check1("(%x: tensor<2x0x5xf32>) -> tensor<2xi64> {"
           " %0 = graph.shape %x {start = 1} : tensor<2xi64> return %0 }",
           VALUES(0), VALUES(0, 5), 0);
    /* In a group a reshape is a block, outside a view. */
    check1("(%x: tensor<2x6xf32>) -> tensor<3x2x2xf32> {"
           " %0 = graph.group @r(%a = %x) {"
           "  %n = graph.neg %a : tensor<2x6xf32>"
           "  %r = graph.reshape %n : tensor<3x4xf32>"
           "  %t = graph.reshape %r : tensor<3x2x2xf32>"
           "  graph.yield %t } : tensor<3x2x2xf32> return %0 }",
           VALUES(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
           VALUES(0, -1, -2, -3, -4, -5, -6, -7, -8, -9, -10, -11), 0);
    check1("(%x: tensor<6xf32>) -> tensor<2x3xf32> {"
           " %0 = graph.reshape %x : tensor<2x3xf32> return %0 }",
           VALUES(1, 2, 3, 4, 5, 6), VALUES(1, 2, 3, 4, 5, 6), 0);
    check1("(%x: tensor<2x3x1xi8>) -> tensor<3x1x2xi8> {"
           " %0 = graph.transpose %x {perm = [1, 2, 0]} : tensor<3x1x2xi8> return %0 }",
           VALUES(1, 2, 3, 4, 5, 6), VALUES(1, 4, 2, 5, 3, 6), 0);
    check1("(%x: tensor<f32>) -> tensor<f32> {"
           " %0 = graph.transpose %x {perm = []} : tensor<f32> return %0 }",
           VALUES(7), VALUES(7), 0);
    check1("(%x: tensor<1xf32>) -> tensor<f32> {"
           " %n = graph.neg %x : tensor<1xf32>"
           " %0 = graph.reshape %n : tensor<f32> return %0 }",
           VALUES(7), VALUES(-7), 0);
}

static void outputs_that_are_no_kernel_results(void **state)
{
    (void)state;
    check_values("(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<1x2xf32>,"
                 " tensor<2xf32>, tensor<2x1xf32>) {"
                 " %c = graph.constant dense<[3.0, 4.0]> : tensor<2xf32>"
                 " %r = graph.reshape %c : tensor<1x2xf32>"
                 " %n = graph.neg %x : tensor<2xf32>"
                 " %m = graph.reshape %n : tensor<2x1xf32>"
                 " return %x, %c, %r, %n, %m }",
                 (const double *[]){VALUES(1, 2)},
                 (const double *[]){VALUES(1, 2), VALUES(3, 4), VALUES(3, 4), VALUES(-1, -2),
                                    VALUES(-1, -2)},
                 0);
}

static void expand_and_tile(void **state)
{
    (void)state;
    check1("(%x: tensor<2x1xf32>) -> tensor<2x2x3xf32> {"
           " %0 = graph.expand %x : tensor<2x2x3xf32> return %0 }",
           VALUES(1, 2), VALUES(1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2), 0);
    check1("(%x: tensor<2x2xf32>) -> tensor<2x6xf32> {"
           " %0 = graph.tile %x {repeats = [1, 3]} : tensor<2x6xf32> return %0 }",
           VALUES(1, 2, 3, 4), VALUES(1, 2, 1, 2, 1, 2, 3, 4, 3, 4, 3, 4), 0);
}

static void slices(void **state)
{
    (void)state;
    check1("(%x: tensor<3x4xf32>) -> tensor<2x2xf32> {"
           " %0 = graph.slice %x {starts = [2, 3], steps = [-1, -2]} : tensor<2x2xf32>"
           " return %0 }",
           VALUES(0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23), VALUES(23, 21, 13, 11), 0);
    check1("(%x: tensor<3xf32>) -> tensor<0xf32> {"
           " %0 = graph.slice %x {starts = [3], steps = [1]} : tensor<0xf32> return %0 }",
           VALUES(1, 2, 3), VALUES(0), 0);
}

/* Adjacent elements are views: no kernel but the one that copies them out. */
static void views(void **state)
{
    (void)state;
    check1("(%x: tensor<4x3x1xf32>) -> tensor<1x3xf32> {"
           " %s = graph.slice %x {starts = [2, 0, 0], steps = [1, 1, 1]} : tensor<1x3x1xf32>"
           " %t = graph.transpose %s {perm = [0, 2, 1]} : tensor<1x1x3xf32>"
           " %r = graph.reshape %t : tensor<1x3xf32> return %r }",
           VALUES(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), VALUES(6, 7, 8), 0);
    check1("(%x: tensor<4x3xf32>) -> tensor<1x2xf32> {"
           " %g = graph.group @views(%a = %x) {"
           "  %s = graph.slice %a {starts = [2, 0], steps = [-1, 1]} : tensor<1x3xf32>"
           "  %q = graph.slice %s {starts = [0, 1], steps = [1, 1]} : tensor<1x2xf32>"
           "  graph.yield %q } : tensor<1x2xf32>"
           " %n = graph.neg %g : tensor<1x2xf32> return %n }",
           VALUES(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), VALUES(-7, -8), 0);
    check1("(%x: tensor<4x3xf32>) -> tensor<2x2xf32> {"
           " %s = graph.slice %x {starts = [1, 1], steps = [1, 1]} : tensor<2x2xf32>"
           " return %s }",
           VALUES(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), VALUES(4, 5, 7, 8), 0);
}

static void concats(void **state)
{
    (void)state;
    const char *alone = "(%a: tensor<2x1xf32>, %b: tensor<2x0xf32>, %c: tensor<2x2xf32>)"
                        " -> tensor<2x3xf32> {"
                        " %0 = graph.concat %a, %b, %c {axis = 1} : tensor<2x3xf32> return %0 }";
    check3(alone, VALUES(1, 2), VALUES(0), VALUES(3, 4, 5, 6), VALUES(1, 3, 4, 2, 5, 6), 0);
    const char *read = "(%a: tensor<1xf32>, %b: tensor<2xf32>, %c: tensor<1xf32>)"
                       " -> tensor<4xf32> {"
                       " %0 = graph.group @g(%p = %a, %q = %b, %r = %c) {"
                       "  %j = graph.concat %p, %q, %r {axis = 0} : tensor<4xf32>"
                       "  %n = graph.neg %j : tensor<4xf32>"
                       "  graph.yield %n } : tensor<4xf32> return %0 }";
    check3(read, VALUES(1), VALUES(2, 3), VALUES(4), VALUES(-1, -2, -3, -4), 0);
}

static void check_pad(const char *mode, int begin, int end, const double *y, int n)
{
    char text[512];
    snprintf(text, sizeof text,
             "(%%x: tensor<4xf32>) -> tensor<%dxf32> { %%0 = graph.pad %%x"
             " {pads_begin = [%d], pads_end = [%d], mode = \"%s\"} : tensor<%dxf32> return %%0 }",
             n, begin, end, mode, n);
    check1(text, VALUES(1, 2, 3, 4), y, 0);
}

static void pads(void **state)
{
    (void)state;
    check_pad("constant", 1, 2, VALUES(0, 1, 2, 3, 4, 0, 0), 7);
    check_pad("constant", -1, -2, VALUES(2), 1);
    check_pad("edge", 2, 1, VALUES(1, 1, 1, 2, 3, 4, 4), 7);
    check_pad("reflect", 2, 3, VALUES(3, 2, 1, 2, 3, 4, 3, 2, 1), 9);
    check_pad("reflect", 5, 4, VALUES(2, 3, 4, 3, 2, 1, 2, 3, 4, 3, 2, 1, 2), 13);
    check_pad("reflect", -1, 2, VALUES(2, 3, 4, 3, 2), 5);
    check_pad("wrap", 5, 1, VALUES(4, 1, 2, 3, 4, 1, 2, 3, 4, 1), 10);
    check2("(%x: tensor<1x2xi32>, %v: tensor<i32>) -> tensor<2x3xi32> {"
           " %0 = graph.pad %x, %v {pads_begin = [0, 1], pads_end = [1, 0]} : tensor<2x3xi32>"
           " return %0 }",
           VALUES(1, 2), VALUES(9), VALUES(9, 1, 2, 9, 9, 9), 0);
    check1("(%x: tensor<1xf32>) -> tensor<3xf32> { %0 = graph.pad %x {pads_begin = [1],"
           " pads_end = [1], mode = \"reflect\"} : tensor<3xf32> return %0 }",
           VALUES(5), VALUES(5, 5, 5), 0);
}

static void made_of_nothing(void **state)
{
    (void)state;
    check_values("() -> tensor<2x3xi64> { %0 = graph.iota {axis = 1} : tensor<2x3xi64>"
                 " return %0 }",
                 NULL, (const double *[]){VALUES(0, 1, 2, 0, 1, 2)}, 0);
    check3("(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>) -> tensor<4xf32> {"
           " %0 = graph.range %a, %b, %c : tensor<4xf32> return %0 }",
           VALUES(1), VALUES(-1), VALUES(-0.5), VALUES(1, 0.5, 0, -0.5), 0);
    const double *x = VALUES(1, 2, 3, 4, 5, 6);
    check1("(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {"
           " %0 = graph.trilu %x {upper = true} : tensor<2x3xf32> return %0 }",
           x, VALUES(1, 2, 3, 0, 5, 6), 0);
    check1("(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {"
           " %0 = graph.trilu %x {upper = false, k = 1} : tensor<2x3xf32> return %0 }",
           x, VALUES(1, 2, 0, 4, 5, 6), 0);
    check1("(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {"
           " %0 = graph.trilu %x {upper = true, k = -1} : tensor<2x3xf32> return %0 }",
           x, VALUES(1, 2, 3, 4, 5, 6), 0);
}

static void gathers(void **state)
{
    (void)state;
    /* Negative indices count from the end; those outside are held inside. */
    check2("(%x: tensor<3x2xf32>, %i: tensor<2x2xi64>) -> tensor<2x2x2xf32> {"
           " %0 = graph.gather %x, %i {axis = 0} : tensor<2x2x2xf32> return %0 }",
           VALUES(1, 2, 3, 4, 5, 6), VALUES(0, -1, 7, -9), VALUES(1, 2, 5, 6, 5, 6, 1, 2), 0);
    check2("(%x: tensor<2x3xf32>, %i: tensor<i32>) -> tensor<2xf32> {"
           " %0 = graph.gather %x, %i {axis = 1} : tensor<2xf32> return %0 }",
           VALUES(1, 2, 3, 4, 5, 6), VALUES(-2), VALUES(2, 5), 0);
    check2("(%x: tensor<2x3xf32>, %i: tensor<2x2xi64>) -> tensor<2x2xf32> {"
           " %0 = graph.gather_elements %x, %i {axis = 1} : tensor<2x2xf32> return %0 }",
           VALUES(1, 2, 3, 4, 5, 6), VALUES(2, 0, -1, 1), VALUES(3, 1, 6, 5), 0);
    check2("(%x: tensor<2x2x2xf32>, %i: tensor<2x2xi64>) -> tensor<2x2xf32> {"
           " %0 = graph.gather_nd %x, %i : tensor<2x2xf32> return %0 }",
           VALUES(0, 1, 2, 3, 4, 5, 6, 7), VALUES(0, 1, 1, -2), VALUES(2, 3, 4, 5), 0);
    check2("(%x: tensor<2x2x2xf32>, %i: tensor<2x1xi64>) -> tensor<2x2xf32> {"
           " %0 = graph.gather_nd %x, %i {batch_dims = 1} : tensor<2x2xf32> return %0 }",
           VALUES(0, 1, 2, 3, 4, 5, 6, 7), VALUES(1, 0), VALUES(2, 3, 4, 5), 0);
}

static void scatters(void **state)
{
    (void)state;
    check3("(%x: tensor<1x5xf32>, %i: tensor<1x2xi64>, %u: tensor<1x2xf32>) -> tensor<1x5xf32> {"
           " %0 = graph.scatter_elements %x, %i, %u {axis = 1} : tensor<1x5xf32> return %0 }",
           VALUES(1, 2, 3, 4, 5), VALUES(1, -1), VALUES(9, 8), VALUES(1, 9, 3, 4, 8), 0);
    check3("(%x: tensor<3xf16>, %i: tensor<4xi32>, %u: tensor<4xf16>) -> tensor<3xf16> {"
           " %0 = graph.scatter_elements %x, %i, %u {axis = 0, reduction = \"add\"}"
           " : tensor<3xf16> return %0 }",
           VALUES(1, 2, 3), VALUES(1, 1, 1, 0), VALUES(10, 20, 30, 5), VALUES(6, 62, 3), 0);
    check3("(%x: tensor<3xi32>, %i: tensor<2xi64>, %u: tensor<2xi32>) -> tensor<3xi32> {"
           " %0 = graph.scatter_elements %x, %i, %u {axis = 0, reduction = \"max\"}"
           " : tensor<3xi32> return %0 }",
           VALUES(1, 2, 3), VALUES(0, 2), VALUES(10, -20), VALUES(10, 2, 3), 0);
    check3("(%x: tensor<3x2xf32>, %i: tensor<2x1xi64>, %u: tensor<2x2xf32>) -> tensor<3x2xf32> {"
           " %0 = graph.scatter_nd %x, %i, %u : tensor<3x2xf32> return %0 }",
           VALUES(1, 2, 3, 4, 5, 6), VALUES(2, 0), VALUES(10, 20, 30, 40),
           VALUES(30, 40, 3, 4, 10, 20), 0);
    check3("(%x: tensor<2xf32>, %i: tensor<0x1xi64>, %u: tensor<0xf32>) -> tensor<2xf32> {"
           " %0 = graph.scatter_nd %x, %i, %u {reduction = \"mul\"} : tensor<2xf32> return %0 }",
           VALUES(1, 2), VALUES(0), VALUES(0), VALUES(1, 2), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shape_reshape_transpose),
        cmocka_unit_test(outputs_that_are_no_kernel_results),
        cmocka_unit_test(expand_and_tile),
        cmocka_unit_test(slices),
        cmocka_unit_test(views),
        cmocka_unit_test(concats),
        cmocka_unit_test(pads),
        cmocka_unit_test(made_of_nothing),
        cmocka_unit_test(gathers),
        cmocka_unit_test(scatters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
