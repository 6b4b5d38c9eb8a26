/* Tests of lowering element-wise operations: values, broadcasting, element types, edge cases. */
#include "lower_check.h"

#include "lower/lowering.h"

/* ---- Real functions of one operand ---- */

typedef struct unary {
    const char *op; /* with attributes */
    double (*f)(double);
} unary;

static double sign_of(double x)
{
    return isnan(x) ? x : (x > 0) - (x < 0);
}
static double reciprocal(double x)
{
    return 1 / x;
}
static double negate(double x)
{
    return -x;
}
static double relu(double x)
{
    return isnan(x) ? x : x > 0 ? x : 0;
}
static double leaky(double x)
{
    return x < 0 ? 0.25 * x : x;
}
static double elu(double x)
{
    return x < 0 ? 2 * expm1(x) : x;
}
static double softplus(double x)
{
    return x > 30 ? x : log1p(exp(x));
}
static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double hard_sigmoid(double x)
{
    return isnan(x) ? x : fmax(0, fmin(1, 0.25 * x + 0.5));
}
static double hard_swish(double x)
{
    return isnan(x) ? x : x * fmax(0, fmin(1, x / 6 + 0.5));
}
static double silu(double x)
{
    return x * sigmoid(x);
}
static double gelu(double x)
{
    return 0.5 * x * (1 + erf(x / sqrt(2)));
}
static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
static double mish(double x)
{
    return x * tanh(softplus(x));
}

static const unary unaries[] = {
    {"neg", negate},
    {"abs", fabs},
    {"sign", sign_of},
    {"exp", exp},
    {"log", log},
    {"sqrt", sqrt},
    {"reciprocal", reciprocal},
    {"sin", sin},
    {"cos", cos},
    {"tan", tan},
    {"asin", asin},
    {"acos", acos},
    {"atan", atan},
    {"sinh", sinh},
    {"cosh", cosh},
    {"tanh", tanh},
    {"asinh", asinh},
    {"acosh", acosh},
    {"atanh", atanh},
    {"erf", erf},
    {"floor", floor},
    {"ceil", ceil},
    {"round", rint},
    {"relu", relu},
    {"leaky_relu %x {alpha = 0.25}", leaky},
    {"elu %x {alpha = 2.0}", elu},
    {"softplus", softplus},
    {"sigmoid", sigmoid},
    {"hard_sigmoid %x {alpha = 0.25, beta = 0.5}", hard_sigmoid},
    {"hard_swish", hard_swish},
    {"silu", silu},
    {"gelu", gelu},
    {"gelu %x {approximate = true}", gelu_tanh},
    {"mish", mish},
};

static void check_unary(const unary *u, const char *elem, double tolerance)
{
    const double x[] = {-2.5, -1, -0.5, -0.0, 0, 0.25, 0.5, 1, 1.5, 2.5, 20, NAN};
    enum { N = sizeof x / sizeof *x };
    double y[N];
    char text[512];
    for (int i = 0; i < N; i++)
        y[i] = u->f(x[i]);
    snprintf(text, sizeof text,
             "(%%x: tensor<12x%s>) -> tensor<12x%s> { %%0 = graph.%s%s : tensor<12x%s>"
             " return %%0 }",
             elem, elem, u->op, strchr(u->op, '%') ? "" : " %x", elem);
    check1(text, x, y, tolerance);
}

static void functions_of_one_operand(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof unaries / sizeof *unaries; i++) {
        check_unary(&unaries[i], "f32", 2e-6);
        check_unary(&unaries[i], "f64", 1e-14);
        check_unary(&unaries[i], "bf16", 8e-3);
        if (strcmp(unaries[i].op, "exp") && strncmp(unaries[i].op, "sinh", 4) &&
            strncmp(unaries[i].op, "cosh", 4)) /* e^20 is beyond f16 */
            check_unary(&unaries[i], "f16", 2e-3);
    }
}

static void functions_of_one_operand_do_not_overflow(void **state)
{
    (void)state;
    const char *text = "(%x: tensor<4xf32>) -> tensor<4xf32> { %0 = graph.{OP} %x : tensor<4xf32>"
                       " return %0 }";
    static const struct {
        const char *op;
        double y[4];
    } cases[] = {{"softplus", {0, 1000, INFINITY, 0}},
                 {"sigmoid", {0, 1, 1, 0}},
                 {"tanh", {-1, 1, 1, -1}},
                 {"gelu", {0, 1000, INFINITY, NAN}},
                 {"silu", {0, 1000, INFINITY, NAN}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char buffer[256];
        snprintf(buffer, sizeof buffer, "%.*s%s%s", (int)(strstr(text, "{OP}") - text), text,
                 cases[i].op, strstr(text, "{OP}") + 4);
        check1(buffer, VALUES(-1000, 1000, INFINITY, -INFINITY), cases[i].y, 0);
    }
}

/* Far below zero the results are small, not zero: what is left of 1 + exp(x) counts. */
static void small_results_stay(void **state)
{
    (void)state;
    check2("(%x: tensor<2xf32>, %scale: tensor<2xf32>) -> tensor<2xf32> {"
           " %0 = graph.softplus %x : tensor<2xf32>"
           " %1 = graph.mul %0, %scale : tensor<2xf32> return %1 }",
           VALUES(-20, -40), VALUES(0x1p30, 0x1p60), VALUES(2.21314685, 4.89801898), 1e-6);
    check2("(%x: tensor<2xf32>, %scale: tensor<2xf32>) -> tensor<2xf32> {"
           " %0 = graph.mish %x : tensor<2xf32>"
           " %1 = graph.mul %0, %scale : tensor<2xf32> return %1 }",
           VALUES(-20, -40), VALUES(0x1p30, 0x1p60), VALUES(-44.2629370, -195.920759), 1e-6);
}

static void predicates(void **state)
{
    (void)state;
    check1("(%x: tensor<4xf16>) -> tensor<4xbool> { %0 = graph.is_nan %x : tensor<4xbool>"
           " return %0 }",
           VALUES(NAN, 1, INFINITY, 0), VALUES(1, 0, 0, 0), 0);
    check1("(%x: tensor<4xf32>) -> (tensor<4xbool>) { %0 = graph.is_inf %x : tensor<4xbool>"
           " return %0 }",
           VALUES(NAN, -INFINITY, INFINITY, 0), VALUES(0, 1, 1, 0), 0);
    check1("(%x: tensor<4xf32>) -> (tensor<4xbool>) {"
           " %0 = graph.is_inf %x {positive = false} : tensor<4xbool> return %0 }",
           VALUES(NAN, -INFINITY, INFINITY, 0), VALUES(0, 1, 0, 0), 0);
    check1("(%x: tensor<2xbool>) -> tensor<2xbool> { %0 = graph.not %x : tensor<2xbool>"
           " return %0 }",
           VALUES(0, 1), VALUES(1, 0), 0);
    check1("(%x: tensor<2xu8>) -> tensor<2xu8> { %0 = graph.not %x : tensor<2xu8> return %0 }",
           VALUES(0, 0xf0), VALUES(255, 0x0f), 0);
}

/* ---- Two operands ---- */

static void check_binary(const char *op, const char *elem, const char *result, const double *a,
                         const double *b, const double *y)
{
    char text[512];
    snprintf(text, sizeof text,
             "(%%a: tensor<4x%s>, %%b: tensor<4x%s>) -> tensor<4x%s> {"
             " %%0 = graph.%s : tensor<4x%s> return %%0 }",
             elem, elem, result, op, result);
    check2(text, a, b, y, 1e-6);
}

static void arithmetic(void **state)
{
    (void)state;
    const double *a = VALUES(7, -7, 7, -7), *b = VALUES(2, 2, -2, -2);
    check_binary("add %a, %b", "f32", "f32", a, b, VALUES(9, -5, 5, -9));
    check_binary("sub %a, %b", "i8", "i8", a, b, VALUES(5, -9, 9, -5));
    check_binary("mul %a, %b", "f16", "f16", a, b, VALUES(14, -14, -14, 14));
    check_binary("div %a, %b", "f32", "f32", a, b, VALUES(3.5, -3.5, -3.5, 3.5));
    check_binary("div %a, %b", "i32", "i32", a, b, VALUES(3, -3, -3, 3));
    check_binary("mod %a, %b", "i32", "i32", a, b, VALUES(1, 1, -1, -1));
    check_binary("mod %a, %b {fmod = true}", "i64", "i64", a, b, VALUES(1, -1, 1, -1));
    check_binary("mod %a, %b {fmod = true}", "f32", "f32", a, b, VALUES(1, -1, 1, -1));
    check_binary("pow %a, %b", "f32", "f32", a, b, VALUES(49, 49, 1.0 / 49, 1.0 / 49));
    check_binary("pow %a, %b", "i32", "i32", a, b, VALUES(49, 49, 0, 0));
    check_binary("max %a, %b", "f32", "f32", VALUES(1, NAN, 1, -INFINITY), VALUES(2, 2, NAN, 0),
                 VALUES(2, NAN, NAN, 0));
    check_binary("min %a, %b", "bf16", "bf16", VALUES(1, NAN, 1, -INFINITY), VALUES(2, 2, NAN, 0),
                 VALUES(1, NAN, NAN, -INFINITY));
}

static void integers_at_their_ends(void **state)
{
    (void)state;
    check_binary("add %a, %b", "i8", "i8", VALUES(127, -128, 100, 1), VALUES(1, -1, 100, 1),
                 VALUES(-128, 127, -56, 2));
    check_binary("mul %a, %b", "u8", "u8", VALUES(16, 255, 2, 0), VALUES(16, 255, 3, 9),
                 VALUES(0, 1, 6, 0));
    check_binary("div %a, %b", "i32", "i32", VALUES(-2147483648.0, 5, -5, 0), VALUES(-1, 0, 0, 0),
                 VALUES(-2147483648.0, 0, 0, 0));
    check_binary("mod %a, %b", "i32", "i32", VALUES(-2147483648.0, 5, -5, 0), VALUES(-1, 0, 3, 7),
                 VALUES(0, 0, 1, 0));
    check_binary("shift_left %a, %b", "u8", "u8", VALUES(1, 3, 255, 1), VALUES(7, 7, 4, 8),
                 VALUES(128, 128, 240, 0));
    check_binary("shift_right %a, %b", "u32", "u32", VALUES(4294967295.0, 8, 8, 1),
                 VALUES(31, 3, 40, 0), VALUES(1, 1, 0, 1));
    check_binary("less %a, %b", "u64", "bool", VALUES(1e19, 1, 2, 0), VALUES(1, 1e19, 2, 1),
                 VALUES(0, 1, 0, 1));
    check_binary("max %a, %b", "u64", "u64", VALUES(1e19, 1, 2, 0), VALUES(1, 1e19, 2, 1),
                 VALUES(1e19, 1e19, 2, 1));
}

static void comparisons_and_logic(void **state)
{
    (void)state;
    const double *a = VALUES(1, 2, 3, NAN), *b = VALUES(2, 2, 2, NAN);
    check_binary("equal %a, %b", "f32", "bool", a, b, VALUES(0, 1, 0, 0));
    check_binary("less %a, %b", "f32", "bool", a, b, VALUES(1, 0, 0, 0));
    check_binary("less_equal %a, %b", "f16", "bool", a, b, VALUES(1, 1, 0, 0));
    check_binary("greater %a, %b", "f64", "bool", a, b, VALUES(0, 0, 1, 0));
    check_binary("greater_equal %a, %b", "f32", "bool", a, b, VALUES(0, 1, 1, 0));
    const double *p = VALUES(0, 0, 1, 1), *q = VALUES(0, 1, 0, 1);
    check_binary("and %a, %b", "bool", "bool", p, q, VALUES(0, 0, 0, 1));
    check_binary("or %a, %b", "bool", "bool", p, q, VALUES(0, 1, 1, 1));
    check_binary("xor %a, %b", "bool", "bool", p, q, VALUES(0, 1, 1, 0));
    check_binary("xor %a, %b", "i32", "i32", VALUES(12, -1, 0, 5), VALUES(10, 1, 0, 5),
                 VALUES(6, -2, 0, 0));
}

static void powers_of_mixed_types(void **state)
{
    (void)state;
    check2("(%a: tensor<3xi32>, %b: tensor<3xf32>) -> tensor<3xi32> {"
           " %0 = graph.pow %a, %b : tensor<3xi32> return %0 }",
           VALUES(4, 9, 2), VALUES(0.5, 1.5, 10), VALUES(2, 27, 1024), 0);
    check2("(%a: tensor<3xf32>, %b: tensor<3xi64>) -> tensor<3xf32> {"
           " %0 = graph.pow %a, %b : tensor<3xf32> return %0 }",
           VALUES(1.5, -2, 0), VALUES(2, 3, 0), VALUES(2.25, -8, 1), 0);
    /* Small constant exponents are products. */
    check1("(%a: tensor<3xf32>) -> tensor<3xf32> {"
           " %e = graph.constant dense<3.0> : tensor<f32>"
           " %0 = graph.pow %a, %e : tensor<3xf32> return %0 }",
           VALUES(1.5, -2, 0), VALUES(3.375, -8, 0), 0);
}

static void broadcasting(void **state)
{
    (void)state;
    check2("(%a: tensor<2x1x3xf32>, %b: tensor<2x1xf32>) -> tensor<2x2x3xf32> {"
           " %0 = graph.add %a, %b : tensor<2x2x3xf32> return %0 }",
           VALUES(1, 2, 3, 4, 5, 6), VALUES(10, 20),
           VALUES(11, 12, 13, 21, 22, 23, 14, 15, 16, 24, 25, 26), 0);
    check2("(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {"
           " %0 = graph.mul %a, %b : tensor<f32> return %0 }",
           VALUES(3), VALUES(4), VALUES(12), 0);
    check2("(%a: tensor<0x3xf32>, %b: tensor<3xf32>) -> tensor<0x3xf32> {"
           " %0 = graph.mul %a, %b : tensor<0x3xf32> return %0 }",
           VALUES(0), VALUES(1, 2, 3), VALUES(0), 0);
    check3("(%c: tensor<3xbool>, %a: tensor<2x1xf32>, %b: tensor<f32>) -> tensor<2x3xf32> {"
           " %0 = graph.where %c, %a, %b : tensor<2x3xf32> return %0 }",
           VALUES(1, 0, 1), VALUES(1, 2), VALUES(9), VALUES(1, 9, 1, 2, 9, 2), 0);
}

static void casts(void **state)
{
    (void)state;
    check1("(%x: tensor<5xf32>) -> tensor<5xi8> { %0 = graph.cast %x : tensor<5xi8> return %0 }",
           VALUES(1.9, -1.9, 300, NAN, -INFINITY), VALUES(1, -1, 127, 0, -128), 0);
    check1("(%x: tensor<3xi32>) -> tensor<3xu8> { %0 = graph.cast %x : tensor<3xu8> return %0 }",
           VALUES(-1, 256, 300), VALUES(255, 0, 44), 0);
    check1("(%x: tensor<3xf32>) -> tensor<3xbool> { %0 = graph.cast %x : tensor<3xbool>"
           " return %0 }",
           VALUES(0, 0.5, NAN), VALUES(0, 1, 1), 0);
    check1("(%x: tensor<2xf32>) -> tensor<2xf8e4m3fn> { %0 = graph.cast %x : tensor<2xf8e4m3fn>"
           " return %0 }",
           VALUES(1e9, 3.3), VALUES(448, 3.25), 0);
    check1("(%x: tensor<2xf32>) -> tensor<2xf8e4m3fn> {"
           " %0 = graph.cast %x {saturate = false} : tensor<2xf8e4m3fn> return %0 }",
           VALUES(1e9, 3.3), VALUES(NAN, 3.25), 0);
    check1("(%x: tensor<2xf32>) -> tensor<2xi32> { %0 = graph.bitcast %x : tensor<2xi32>"
           " return %0 }",
           VALUES(1, -0.0), VALUES(0x3f800000, -2147483648.0), 0);
    check1("(%x: tensor<3xi4>) -> tensor<3xf16> { %0 = graph.cast %x : tensor<3xf16> return %0 }",
           VALUES(-8, 7, -1), VALUES(-8, 7, -1), 0);
}

/* A group is one kernel; a value that is yielded twice, or an operand, is copied. */
static void groups(void **state)
{
    (void)state;
    check_values("(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {"
                 " %0, %1, %2 = graph.group @three(%a = %x) {"
                 "  %r = graph.relu %a : tensor<2xf32>"
                 "  %c = graph.constant dense<[5.0, 6.0]> : tensor<2xf32>"
                 "  %s = graph.add %r, %c : tensor<2xf32>"
                 "  graph.yield %s, %r, %a"
                 " } : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>"
                 " return %0, %1, %2 }",
                 (const double *[]){VALUES(-1, 2)},
                 (const double *[]){VALUES(5, 8), VALUES(0, 2), VALUES(-1, 2)}, 0);
}

static void every_operation_has_a_lowering(void **state)
{
    (void)state;
    for (int kind = 0; kind < TW_GRAPH_COUNT; kind++) {
        bool structure = kind == TW_GRAPH_CONSTANT || kind == TW_GRAPH_GROUP ||
                         kind == TW_GRAPH_YIELD || kind == TW_GRAPH_BIND ||
                         kind == TW_GRAPH_ROUTINE || kind == TW_GRAPH_IF || kind == TW_GRAPH_LOOP ||
                         kind == TW_GRAPH_FAIL || kind == TW_GRAPH_CHECK;
        if (!structure != (tw_graph_lowerings[kind] != NULL))
            fail_msg("%s", tw_graph_ops[kind].name);
    }
}

/* As many axes as there can be. */
static void the_highest_rank(void **state)
{
    (void)state;
    check1(
        "(%x: tensor<1x1x1x1x1x1x1x2x1x1x1x1x1x1x1x3xf32>)"
        " -> tensor<3x1x1x1x1x1x1x2x1x1x1x1x1x1x1x1xf32> {"
        " %n = graph.group @g(%a = %x) {"
        "  %m = graph.neg %a : tensor<1x1x1x1x1x1x1x2x1x1x1x1x1x1x1x3xf32>"
        "  %r = graph.reshape %m : tensor<1x1x1x1x1x1x1x3x1x1x1x1x1x1x1x2xf32>"
        "  %t = graph.transpose %r {perm = [7, 0, 1, 2, 3, 4, 5, 15, 6, 8, 9, 10, 11, 12, 13, 14]}"
        " : tensor<3x1x1x1x1x1x1x2x1x1x1x1x1x1x1x1xf32>"
        "  graph.yield %t } : tensor<3x1x1x1x1x1x1x2x1x1x1x1x1x1x1x1xf32>"
        " return %n }",
        VALUES(1, 2, 3, 4, 5, 6), VALUES(-1, -2, -3, -4, -5, -6), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_of_one_operand),
        cmocka_unit_test(functions_of_one_operand_do_not_overflow),
        cmocka_unit_test(small_results_stay),
        cmocka_unit_test(predicates),
        cmocka_unit_test(arithmetic),
        cmocka_unit_test(integers_at_their_ends),
        cmocka_unit_test(comparisons_and_logic),
        cmocka_unit_test(powers_of_mixed_types),
        cmocka_unit_test(broadcasting),
        cmocka_unit_test(casts),
        cmocka_unit_test(groups),
        cmocka_unit_test(every_operation_has_a_lowering),
        cmocka_unit_test(the_highest_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
