/* Import of ONNX operators: what each family becomes, and differences between versions. */
#include "onnx_check.h"

/* Imports one node with float inputs of these shapes; text must occur in the result, in order. */
#define NODE(node, opset, shapes, ...)                                                             \
    do {                                                                                           \
        imported r_ = import_model(onnx_model(graph_of((node), ONNX_FLOAT, (shapes)), (opset)));   \
        expect_text(&r_, __VA_ARGS__);                                                             \
        release(&r_);                                                                              \
    } while (0)
#define BROKEN_NODE(node, opset, shapes, ...)                                                      \
    do {                                                                                           \
        imported r_ = import_model(onnx_model(graph_of((node), ONNX_FLOAT, (shapes)), (opset)));   \
        expect_error(&r_, __VA_ARGS__);                                                            \
        release(&r_);                                                                              \
    } while (0)

/* A node with input b, c or d replaced by an initializer of integers or floats. */
static pb with_ints(pb graph, const char *name, const int64_t *values, size_t n)
{
    onnx_add_initializer(&graph, onnx_ints(name, values, n));
    return graph;
}
#define INTS(...) ((const int64_t[]){__VA_ARGS__}), sizeof((int64_t[]){__VA_ARGS__}) / 8

static void elementwise(void **state)
{
    (void)state;
    NODE(onnx_node("Add", "a,b", "y"), 13, SHAPES("2,1,4", "3,1"),
         "graph.add %a, %b : tensor<2x3x4xf32>");
    NODE(onnx_node("Less", "a,b", "y"), 13, SHAPES("2", ""), "graph.less %a, %b : tensor<2xbool>");
    NODE(onnx_node("Max", "a,b,c", "y"), 13, SHAPES("2", "2", "1"), "graph.max %a, %b",
         "graph.max");
    NODE(onnx_node("Max", "a", "y"), 13, SHAPES("2"), "return %a");
    NODE(onnx_node("PRelu", "a,b", "y"), 16, SHAPES("1,3,2", "3,1"), "graph.mul", "graph.less",
         "graph.where");
    NODE(onnx_node("Dropout", "a", "y"), 13, SHAPES("2,2"), "return %a");
    BROKEN_NODE(onnx_node("Add", "a,b", "y"), 13, SHAPES("2,3", "4,3"), "node Add (of 'y')",
                "do not broadcast", "f32[2,3]", "f32[4,3]");
}

/* Rank 0, sizes of 0, symbols. */
static void broadcasting(void **state)
{
    (void)state;
    NODE(onnx_node("Mul", "a,b", "y"), 13, SHAPES("", ""), ": tensor<f32>");
    NODE(onnx_node("Mul", "a,b", "y"), 13, SHAPES("0,3", "1,3"), ": tensor<0x3xf32>");
    NODE(onnx_node("Mul", "a,b", "y"), 13, SHAPES("n,3", "n,1"), ": tensor<n x 3 x f32>");
    NODE(onnx_node("Mul", "a,b", "y"), 13, SHAPES("n,3", "1"), ": tensor<n x 3 x f32>");
    /* Of different symbols either may be 1; a number wins. */
    NODE(onnx_node("Mul", "a,b", "y"), 13, SHAPES("n", "m"),
         "graph.check {message = \"sizes do not broadcast: 'n' and 'm' are neither equal nor 1\"",
         "graph.expand %a : tensor<(max(max(m, n) - max(1 - min(m, n), 0), 0)) x f32>",
         "graph.expand %b : tensor<(max(max(m, n) - max(1 - min(m, n), 0), 0)) x f32>");
    NODE(onnx_node("Mul", "a,b", "y"), 13, SHAPES("n", "5"), "graph.expand %a : tensor<5xf32>",
         "graph.mul");
}

static void old_broadcasting(void **state)
{
    (void)state;
    pb add = onnx_node("Add", "a,b", "y");
    onnx_attr_int(&add, "broadcast", 1);
    onnx_attr_int(&add, "axis", 1);
    NODE(add, 6, SHAPES("2,3,4", "3"), "graph.reshape %b : tensor<3x1xf32>", "graph.add",
         "tensor<2x3x4xf32>");
}

static void clip(void **state)
{
    (void)state;
    pb old = onnx_node("Clip", "a", "y");
    onnx_attr_float(&old, "min", 0);
    onnx_attr_float(&old, "max", 6);
    NODE(old, 10, SHAPES("2"), "dense<0.0>", "dense<6.0>", "graph.max %a, ", "graph.min");
    NODE(onnx_node("Clip", "a,b,c", "y"), 13, SHAPES("2", "", ""), "graph.max %a, %b", "graph.min",
         "%c");
    NODE(onnx_node("Clip", "a,,b", "y"), 13, SHAPES("2", ""), "= graph.min %a, %b");
    NODE(onnx_node("Clip", "a", "y"), 13, SHAPES("2"), "return %a");
}

static void convolution(void **state)
{
    (void)state;
    pb conv = onnx_node("Conv", "a,b,c", "y");
    onnx_attr_ints(&conv, "strides", DIMS(2, 2));
    onnx_attr_ints(&conv, "pads", DIMS(1, 0, 1, 2));
    onnx_attr_ints(&conv, "dilations", DIMS(1, 2));
    NODE(conv, 11, SHAPES("n,3,h,15", "8,3,3,3", "8"), "graph.conv %a, %b",
         "dilations = [1, 2], groups = 1, pads_begin = [1, 0], pads_end = [1, 2], strides = [2, 2]",
         "8 x ((h + 1) floordiv 2) x 7", "graph.reshape %c : tensor<1x8x1x1xf32>", "graph.add");
    conv = onnx_node("Conv", "a,b", "y");
    onnx_attr_int(&conv, "group", 4);
    onnx_attr_text(&conv, "auto_pad", "SAME_UPPER");
    NODE(conv, 11, SHAPES("1,4,5", "4,1,4"), "pads_begin = [1], pads_end = [2]",
         "tensor<1x4x5xf32>");
    conv = onnx_node("Conv", "a,b", "y");
    onnx_attr_text(&conv, "auto_pad", "SAME_LOWER");
    NODE(conv, 11, SHAPES("1,1,5", "4,1,4"), "pads_begin = [2], pads_end = [1]");
    BROKEN_NODE(onnx_node("Conv", "a,b", "y"), 11, SHAPES("1,4,8,8", "8,3,3,3"), "node Conv",
                "f32[8,3,3,3]", "1 groups");
    BROKEN_NODE(onnx_node("Conv", "a,b", "y"), 11, SHAPES("1,3,2,8", "8,3,3,3"),
                "window does not fit", "spatial axis 0");
}

static void transposed_convolution(void **state)
{
    (void)state;
    pb conv = onnx_node("ConvTranspose", "a,b", "y");
    onnx_attr_ints(&conv, "strides", DIMS(2));
    onnx_attr_ints(&conv, "output_padding", DIMS(1));
    NODE(conv, 11, SHAPES("1,3,5", "3,2,4"), "pads_begin = [0], pads_end = [0]",
         "tensor<1x2x13xf32>");
    conv = onnx_node("ConvTranspose", "a,b", "y");
    onnx_attr_ints(&conv, "strides", DIMS(3));
    onnx_attr_ints(&conv, "output_shape", DIMS(14));
    NODE(conv, 11, SHAPES("1,3,5", "3,2,4"), "pads_begin = [1], pads_end = [1]",
         "tensor<1x2x14xf32>");
}

static void pools(void **state)
{
    (void)state;
    pb pool = onnx_node("MaxPool", "a", "y");
    onnx_attr_ints(&pool, "kernel_shape", DIMS(2));
    onnx_attr_ints(&pool, "strides", DIMS(2));
    onnx_attr_int(&pool, "ceil_mode", 1);
    NODE(pool, 12, SHAPES("1,1,5"), "pads_end = [1]", "tensor<1x1x3xf32>");
    /* The last window starts in the padding at the end: it is dropped. */
    pool = onnx_node("AveragePool", "a", "y");
    onnx_attr_ints(&pool, "kernel_shape", DIMS(3));
    onnx_attr_ints(&pool, "strides", DIMS(3));
    onnx_attr_ints(&pool, "pads", DIMS(1, 1));
    onnx_attr_int(&pool, "ceil_mode", 1);
    onnx_attr_int(&pool, "count_include_pad", 1);
    NODE(pool, 19, SHAPES("1,1,2"), "graph.pad", "graph.avg_pool", "tensor<1x1x1xf32>");
    NODE(onnx_node("GlobalAveragePool", "a", "y"), 13, SHAPES("n,8,h,w"),
         "graph.reduce_mean %a {axes = [2, 3], keepdims = true} : tensor<n x 8 x 1 x 1 x f32>");
}

static void matrix_products(void **state)
{
    (void)state;
    NODE(onnx_node("MatMul", "a,b", "y"), 13, SHAPES("n,2,3", "3,4"), "tensor<n x 2 x 4 x f32>");
    NODE(onnx_node("MatMul", "a,b", "y"), 13, SHAPES("3", "3"), "tensor<1x3xf32>",
         "tensor<3x1xf32>", "graph.matmul", ": tensor<f32>");
    NODE(onnx_node("MatMul", "a,b", "y"), 13, SHAPES("3", "5,3,4"), "tensor<5x1x4xf32>",
         ": tensor<5x4xf32>");
    pb gemm = onnx_node("Gemm", "a,b,c", "y");
    onnx_attr_int(&gemm, "transB", 1);
    onnx_attr_float(&gemm, "alpha", 0.5f);
    NODE(gemm, 13, SHAPES("2,3", "4,3", "4"), "graph.matmul %a, %b {transpose_b = true}",
         "graph.mul", "graph.add");
    BROKEN_NODE(onnx_node("MatMul", "a,b", "y"), 13, SHAPES("2,3", "4,5"), "inner sizes differ");
}

static void softmax_versions(void **state)
{
    (void)state;
    NODE(onnx_node("Softmax", "a", "y"), 13, SHAPES("2,3,4"), "graph.softmax %a {axis = 2}");
    NODE(onnx_node("Softmax", "a", "y"), 11, SHAPES("2,3,4"), "graph.reshape %a : tensor<2x12xf32>",
         "{axis = 1}", ": tensor<2x3x4xf32>");
}

static void movement(void **state)
{
    (void)state;
    NODE(onnx_node("Transpose", "a", "y"), 13, SHAPES("2,n,4"), "perm = [2, 1, 0]",
         "tensor<4 x n x 2 x f32>");
    NODE(onnx_node("Flatten", "a", "y"), 13, SHAPES("n,3,4"), "tensor<n x 12 x f32>");
    pb split = onnx_node("Split", "a", "y,z");
    onnx_attr_int(&split, "axis", -1);
    NODE(split, 11, SHAPES("2,6"), "graph.slice %a", ": tensor<2x3xf32>");
    split = onnx_node("Split", "a", "y,z,v");
    onnx_attr_int(&split, "num_outputs", 3);
    NODE(split, 18, SHAPES("7"), ": tensor<3xf32>");
    BROKEN_NODE(onnx_node("Split", "a", "y,z,v"), 13, SHAPES("7"), "cannot be split into 3 parts");
    pb concat = onnx_node("Concat", "a,b", "y");
    onnx_attr_int(&concat, "axis", 0);
    NODE(concat, 13, SHAPES("n,2", "3,2"), "tensor<(n + 3) x 2 x f32>");
    concat = onnx_node("Concat", "a,b", "y");
    onnx_attr_int(&concat, "axis", 1);
    BROKEN_NODE(concat, 13, SHAPES("1,2", "3,2"), "cannot be joined along axis 1");
}

static void slices(void **state)
{
    (void)state;
    pb graph = graph_of(onnx_node("Slice", "a,s,e,x,t", "y"), ONNX_FLOAT, SHAPES("10,n"));
    graph = with_ints(graph, "s", INTS(-1, 1));
    graph = with_ints(graph, "e", INTS(INT64_MIN, INT64_MAX));
    graph = with_ints(graph, "x", INTS(0, 1));
    graph = with_ints(graph, "t", INTS(-3, 1));
    imported r = import_model(onnx_model(graph, 13));
    expect_text(&r, "starts = [9, ", "steps = [-3, 1]", "tensor<4 x ");
    release(&r);
    graph = graph_of(onnx_node("Slice", "a,s,e,x,t", "y"), ONNX_FLOAT, SHAPES("0"));
    graph = with_ints(graph, "s", INTS(-1));
    graph = with_ints(graph, "e", INTS(INT64_MIN));
    graph = with_ints(graph, "x", INTS(0));
    graph = with_ints(graph, "t", INTS(-1));
    r = import_model(onnx_model(graph, 13)); /* nothing, from back to front */
    expect_text(&r, "tensor<0xf32>");
    release(&r);
    pb old = onnx_node("Slice", "a", "y");
    onnx_attr_ints(&old, "starts", DIMS(2));
    onnx_attr_ints(&old, "ends", DIMS(-1));
    NODE(old, 9, SHAPES("10,3"), "starts = [2, 0], steps = [1, 1]", "tensor<7x3xf32>");
    old = onnx_node("Slice", "a", "y");
    onnx_attr_ints(&old, "starts", DIMS(5));
    onnx_attr_ints(&old, "ends", DIMS(2));
    NODE(old, 9, SHAPES("10"), "tensor<0xf32>");
}

static void reductions(void **state)
{
    (void)state;
    NODE(onnx_node("ReduceSum", "a", "y"), 13, SHAPES("2,3"), "axes = [0, 1], keepdims = true",
         "tensor<1x1xf32>");
    pb max = onnx_node("ReduceMax", "a", "y");
    onnx_attr_ints(&max, "axes", DIMS(-1));
    onnx_attr_int(&max, "keepdims", 0);
    NODE(max, 13, SHAPES("n,3"), "axes = [1], keepdims = false", "tensor<n x f32>");
    pb nothing = onnx_node("ReduceL2", "a", "y");
    onnx_attr_int(&nothing, "noop_with_empty_axes", 1);
    NODE(nothing, 18, SHAPES("2,3"), "graph.mul", "graph.sqrt");
    pb sum = onnx_node("ReduceSum", "a", "y");
    onnx_attr_int(&sum, "noop_with_empty_axes", 1);
    NODE(sum, 18, SHAPES("2,3"), "return %a");
    NODE(onnx_node("ReduceLogSumExp", "a", "y"), 18, SHAPES("2,3"), "graph.reduce_max",
         "graph.is_inf", "graph.exp", "graph.reduce_sum", "graph.log");
    pb twice = onnx_node("ReduceMax", "a", "y");
    onnx_attr_ints(&twice, "axes", DIMS(1, -1));
    BROKEN_NODE(twice, 13, SHAPES("2,3"), "axis -1 occurs twice");
    NODE(onnx_node("ReduceSum", "a", "y"), 13, SHAPES(""), "return %a");
}

static void einsum(void **state)
{
    (void)state;
    pb node = onnx_node("Einsum", "a,b", "y");
    onnx_attr_text(&node, "equation", "bhid,bhjd->bhij");
    NODE(node, 12, SHAPES("n,4,s,8", "n,4,t,8"), "graph.matmul", "tensor<n x 4 x s x t x f32>");
    node = onnx_node("Einsum", "a", "y");
    onnx_attr_text(&node, "equation", "...ii->...");
    NODE(node, 12, SHAPES("2,n,n"), "graph.iota", "graph.where", "graph.reduce_sum",
         "tensor<2xf32>");
    node = onnx_node("Einsum", "a,b", "y");
    onnx_attr_text(&node, "equation", "ij->i");
    BROKEN_NODE(node, 12, SHAPES("2,3", "3"), "does not have 2 operands");
}

static void recurrent(void **state)
{
    (void)state;
    pb lstm = onnx_node("LSTM", "a,b,c", "y");
    NODE(lstm, 14, SHAPES("2,n,3", "1,16,3", "1,16,4"), "graph.matmul", "graph.loop",
         "graph.sigmoid", "graph.tanh", "tensor<2 x 1 x n x 4 x f32>");
    NODE(onnx_node("LSTM", "a,b,c", "y"), 14, SHAPES("t,n,3", "1,16,3", "1,16,4"), "graph.loop",
         "tensor<t x 1 x n x 4 x f32>");
    BROKEN_NODE(onnx_node("LSTM", "a,b,c", "y"), 14, SHAPES("t,n,3", "1,12,3", "1,16,4"),
                "input 1 is f32[1,12,3]; f32[1,16,3] is needed");
}

/* Sizes that scale: numbers exactly, symbols by whole fractions. */
static void resize(void **state)
{
    (void)state;
    float scales[4] = {1, 1, 2, 0.5f};
    pb graph = graph_of(onnx_node("Resize", "a,,s", "y"), ONNX_FLOAT, SHAPES("1,3,h,9"));
    onnx_add_initializer(&graph, onnx_floats("s", DIMS(4), scales, 4));
    imported r = import_model(onnx_model(graph, 13));
    expect_text(&r, "coordinates = \"half_pixel\"", "mode = \"nearest\"",
                "nearest = \"round_prefer_floor\"", "scales = [1.0, 1.0, 2.0, 0.5]",
                "tensor<1 x 3 x (h * 2) x 4 x f32>");
    release(&r);
}

/* Every row can be found, rows of one operator do not overlap, order is that of bytes. */
static void table(void **state)
{
    (void)state;
    tw_onnx_operator before = {"", "", 0, 0}, op;
    size_t n = 0;
    for (; tw_onnx_operators(n, &op); n++) {
        int order = strcmp(before.domain, op.domain);
        if (order == 0)
            order = strcmp(before.name, op.name);
        assert_true(order < 0 || (order == 0 && before.until < op.since));
        assert_true(op.since >= 1 && op.since <= op.until);
        before = op;
    }
    assert_true(n > 150);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elementwise),
        cmocka_unit_test(broadcasting),
        cmocka_unit_test(old_broadcasting),
        cmocka_unit_test(clip),
        cmocka_unit_test(convolution),
        cmocka_unit_test(transposed_convolution),
        cmocka_unit_test(pools),
        cmocka_unit_test(matrix_products),
        cmocka_unit_test(softmax_versions),
        cmocka_unit_test(movement),
        cmocka_unit_test(slices),
        cmocka_unit_test(reductions),
        cmocka_unit_test(einsum),
        cmocka_unit_test(recurrent),
        cmocka_unit_test(resize),
        cmocka_unit_test(table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
