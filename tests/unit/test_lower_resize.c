/* Tests of lowering graph.resize against values that ONNX Runtime 1.32 computes (opset 19), and the
 * reference implementation of the onnx package 1.22.0 where corners are aligned to a length that is
 * no integer. The operand's element i is i * 7 % 11 + i % 3 / 2. */
#include "lower_check.h"

typedef struct resize_case {
    const char *in, *out, *attrs;
    double y[48];
} resize_case;

static const resize_case cases[] = {
#include "resize_values.inc"
};

static void modes_and_coordinates(void **state)
{
    (void)state;
    double x[128];
    for (int i = 0; i < 128; i++)
        x[i] = i * 7 % 11 + i % 3 * 0.5;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const resize_case *c = &cases[i];
        char text[1024];
        snprintf(text, sizeof text,
                 "(%%x: tensor<%sxf32>) -> tensor<%sxf32> { %%0 = graph.resize %%x {%s}"
                 " : tensor<%sxf32> return %%0 }",
                 c->in, c->out, c->attrs, c->out);
        check1(text, x, c->y, 2e-5);
    }
}

static void other_element_types(void **state)
{
    (void)state;
    check1("(%x: tensor<3xi64>) -> tensor<6xi64> { %0 = graph.resize %x {mode = \"nearest\","
           " coordinates = \"asymmetric\", nearest = \"floor\", scales = [2.0]} : tensor<6xi64>"
           " return %0 }",
           VALUES(1, 2, 3), VALUES(1, 1, 2, 2, 3, 3), 0);
    check1("(%x: tensor<2xf16>) -> tensor<4xf16> { %0 = graph.resize %x {mode = \"linear\","
           " coordinates = \"half_pixel\", scales = [2.0]} : tensor<4xf16> return %0 }",
           VALUES(1, 3), VALUES(1, 1.5, 2.5, 3), 0);
}

/* Linear along five axes goes axis by axis: 32 loads an element would be too many. */
static void many_axes(void **state)
{
    (void)state;
    double x[32], y[243];
    for (int i = 0; i < 32; i++)
        x[i] = i;
    for (int i = 0; i < 243;
         i++) { /* halfway between neighbours in each axis, in units of 16 … 1 */
        int twice = i / 81 * 16 + i / 27 % 3 * 8 + i / 9 % 3 * 4 + i / 3 % 3 * 2 + i % 3;
        y[i] = twice * 0.5;
    }
    check1("(%x: tensor<2x2x2x2x2xf32>) -> tensor<3x3x3x3x3xf32> { %0 = graph.resize %x"
           " {mode = \"linear\", coordinates = \"align_corners\","
           " scales = [1.5, 1.5, 1.5, 1.5, 1.5]} : tensor<3x3x3x3x3xf32> return %0 }",
           x, y, 1e-6);
}

static void unknown_attributes_are_refused(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    assert_null(lower_text(ctx, "(%x: tensor<2xf32>) -> tensor<4xf32> { %0 = graph.resize %x"
                                " {mode = \"linear\", coordinates = \"half_pixel\","
                                " scales = [-1.0]} : tensor<4xf32> return %0 }"));
    assert_true(tw_error_count(ctx) > 0);
    tw_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modes_and_coordinates),
        cmocka_unit_test(other_element_types),
        cmocka_unit_test(many_axes),
        cmocka_unit_test(unknown_attributes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
