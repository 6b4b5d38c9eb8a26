/* Import of ONNX: the frame around the operators: inputs, outputs, constants, functions, options,
 * and models that are broken there. */
#include "onnx_check.h"

/* ---- Inputs, outputs, constants ---- */

static void simple_chain(void **state)
{
    (void)state;
    pb graph = {0};
    float w[6] = {1, 2, 3, 4, 5, 6};
    pb product = onnx_node("MatMul", "x,w", "p");
    pb_text(&product, 3, "fc/MatMul");
    onnx_add_node(&graph, product);
    onnx_add_node(&graph, onnx_node("Relu", "p", "y"));
    onnx_add_initializer(&graph, onnx_floats("w", DIMS(3, 2), w, 6));
    onnx_add_input(&graph, onnx_value("x", ONNX_FLOAT, "batch,3"));
    onnx_add_output(&graph, onnx_value("y", ONNX_FLOAT, "batch,2"));
    imported r = import_model(onnx_model(graph, 13));
    expect_text(&r, "module @test", "func @main(%x: tensor<batch x 3 x f32>)",
                "tensor<batch x 2 x f32>", "input_names = [\"x\"]", "output_names = [\"y\"]",
                "graph.constant", "graph.matmul %x, %w", "graph.relu %p", "return %y");
    const char *located = tw_print(r.ctx, r.module, &(tw_print_options){.locations = true});
    assert_non_null(strstr(located, "MatMul 'fc/MatMul'"));
    release(&r);
}

/* The bytes of an initializer stay where the file has them. */
static void initializers_are_not_copied(void **state)
{
    (void)state;
    pb graph = {0};
    float w[64] = {0};
    w[63] = 7;
    onnx_add_node(&graph, onnx_node("Add", "x,w", "y"));
    onnx_add_initializer(&graph, onnx_floats("w", DIMS(64), w, 64));
    onnx_add_input(&graph, onnx_value("x", ONNX_FLOAT, "64"));
    onnx_add_output(&graph, onnx_value("y", ONNX_FLOAT, "64"));
    imported r = import_model(onnx_model(graph, 13));
    expect_text(&r, "graph.add");
    tw_op *func = r.module->regions[0].first, *constant = func->regions[0].first;
    assert_string_equal(constant->def->name, "graph.constant");
    tw_attr value = tw_op_attr(constant, "value");
    const unsigned char *data = value->u.dense.data;
    assert_true(data > r.model.data && data < r.model.data + r.model.size);
    assert_int_equal(value->u.dense.size, 256);
    release(&r);
}

/* y = x + w for a float input x and this tensor w. */
static imported add_long_tensor(pb w, int type, const char *dims)
{
    pb graph = {0};
    onnx_add_node(&graph, onnx_node("Add", "x,w", "y"));
    onnx_add_initializer(&graph, w);
    onnx_add_input(&graph, onnx_value("x", type, dims));
    onnx_add_output(&graph, onnx_value("y", type, dims));
    return import_model(onnx_model(graph, 13));
}

static imported add_tensor(pb w, int type)
{
    return add_long_tensor(w, type, "2");
}

/* A tensor w of the type and length whose data is in a field of its own. */
static pb long_tensor(int64_t length, int type, uint32_t field, const void *bytes, size_t size)
{
    pb t = {0};
    pb_int(&t, 1, length);
    pb_int(&t, 2, type);
    pb_text(&t, 8, "w");
    pb_bytes(&t, field, bytes, size);
    return t;
}

static pb typed_tensor(int type, uint32_t field, const void *bytes, size_t size)
{
    return long_tensor(2, type, field, bytes, size);
}

static void data_fields(void **state)
{
    (void)state;
    float floats[2] = {1.5f, -2};
    imported r = add_tensor(typed_tensor(ONNX_FLOAT, 4, floats, 8), ONNX_FLOAT);
    expect_text(&r, "dense<[1.5, -2.0]>");
    release(&r);
    double doubles[2] = {0.1, -2};
    r = add_tensor(typed_tensor(ONNX_DOUBLE, 10, doubles, 16), ONNX_DOUBLE);
    expect_text(&r, "dense<[0.1", "-2.0]>");
    release(&r);
    /* 7 and -1, as varints */
    static const unsigned char numbers[] = {7,    0xff, 0xff, 0xff, 0xff, 0xff,
                                            0xff, 0xff, 0xff, 0xff, 1};
    r = add_tensor(typed_tensor(ONNX_INT32, 5, numbers, sizeof numbers), ONNX_INT32);
    expect_text(&r, "dense<[7, -1]>");
    release(&r);
    r = add_tensor(typed_tensor(ONNX_INT64, 7, numbers, sizeof numbers), ONNX_INT64);
    expect_text(&r, "dense<[7, -1]>");
    release(&r);
    pb loose = typed_tensor(ONNX_INT64, 7, "\x03", 1); /* one packed, one not */
    pb_int(&loose, 7, 4);
    r = add_tensor(loose, ONNX_INT64);
    expect_text(&r, "dense<[3, 4]>");
    release(&r);
}

/* Small numbers as varints take less room in the file than in memory. */
static void short_numbers(void **state)
{
    (void)state;
    unsigned char numbers[500];
    memset(numbers, 3, sizeof numbers);
    imported r = add_long_tensor(long_tensor(500, ONNX_INT64, 7, numbers, sizeof numbers),
                                 ONNX_INT64, "500");
    expect_text(&r, "dense<3> : tensor<500xi64>");
    release(&r);
    r = add_long_tensor(long_tensor(1 << 20, ONNX_INT64, 7, numbers, sizeof numbers), ONNX_INT64,
                        "1048576");
    expect_error(&r, "0 elements, or fewer than that");
    release(&r);
}

static void wrong_data(void **state)
{
    (void)state;
    float floats[3] = {0};
    imported r = add_tensor(typed_tensor(ONNX_FLOAT, 4, floats, 12), ONNX_FLOAT);
    expect_error(&r, "tensor 'w'", "f32[2]", "3 elements");
    release(&r);
    r = add_tensor(typed_tensor(ONNX_FLOAT, 9, floats, 4), ONNX_FLOAT);
    expect_error(&r, "tensor 'w'", "4 bytes");
    release(&r);
    r = add_tensor(typed_tensor(ONNX_FLOAT, 7, "\x01\x02", 2), ONNX_FLOAT);
    expect_error(&r, "data in a wrong field");
    release(&r);
    r = add_tensor(typed_tensor(ONNX_INT64, 7, "\x01\x82", 2), ONNX_INT64);
    expect_error(&r, "broken data");
    release(&r);
    r = add_tensor(onnx_tensor_raw("w", 14, DIMS(2), floats, 8), ONNX_FLOAT);
    expect_error(&r, "complex64");
    release(&r);
    r = add_tensor(onnx_tensor_raw("w", ONNX_FLOAT, DIMS(-2), floats, 8), ONNX_FLOAT);
    expect_error(&r, "negative size -2");
    release(&r);
    r = add_tensor(onnx_tensor_raw("w", ONNX_FLOAT, DIMS(INT64_MAX, 16), floats, 8), ONNX_FLOAT);
    expect_error(&r, "size of tensor 'w' overflows");
    release(&r);
}

/* Booleans of the file may be any byte. */
static void booleans(void **state)
{
    (void)state;
    pb graph = {0};
    onnx_add_node(&graph, onnx_node("And", "x,w", "y"));
    onnx_add_initializer(&graph, onnx_tensor_raw("w", ONNX_BOOL, DIMS(3), "\0\xff\1", 3));
    onnx_add_input(&graph, onnx_value("x", ONNX_BOOL, "3"));
    onnx_add_output(&graph, onnx_value("y", ONNX_BOOL, "3"));
    imported r = import_model(onnx_model(graph, 13));
    expect_text(&r, "dense<[false, true, true]>");
    release(&r);
}

/* Old models list initializers among the inputs. */
static void initializer_as_input(void **state)
{
    (void)state;
    pb graph = {0};
    float w[2] = {1, 2};
    onnx_add_node(&graph, onnx_node("Add", "x,w", "y"));
    onnx_add_initializer(&graph, onnx_floats("w", DIMS(2), w, 2));
    onnx_add_input(&graph, onnx_value("x", ONNX_FLOAT, "2"));
    onnx_add_input(&graph, onnx_value("w", ONNX_FLOAT, "2"));
    onnx_add_output(&graph, onnx_value("y", ONNX_FLOAT, "2"));
    imported r = import_model(onnx_model(graph, 13));
    expect_text(&r, "@main(%x: tensor<2xf32>)");
    release(&r);
}

/* ---- Shapes and options ---- */

static pb add_two(const char *a, const char *b)
{
    return onnx_model(graph_of(onnx_node("Add", "a,b", "y"), ONNX_FLOAT, SHAPES(a, b)), 13);
}

static void symbols(void **state)
{
    (void)state;
    imported r = import_model(add_two("?,3", "-1,?"));
    expect_text(&r, "%a: tensor<a.dim0 x 3 x f32>", "%b: tensor<b.dim0 x b.dim1 x f32>");
    release(&r);
    r = import_model(add_two("-4,3", "3"));
    expect_error(&r, "input 'a'", "negative size -4");
    release(&r);
    r = import_model(add_two("*", "3"));
    expect_error(&r, "input 'a' has no shape");
    release(&r);
}

static void fixed_shapes(void **state)
{
    (void)state;
    tw_import_shape shape = {"a", 2, (int64_t[]){8, -1}};
    tw_import_options options = {.shapes = &shape, .n_shapes = 1};
    /* A symbol that one input fixes is fixed in the others. */
    imported r = import_with(add_two("n,m", "n,1"), &options);
    expect_text(&r, "%a: tensor<8 x m x f32>", "%b: tensor<8x1xf32>", "tensor<8 x m x f32>");
    release(&r);
    r = import_with(add_two("4,m", "4,1"), &options);
    expect_error(&r, "input 'a'", "8 as dimension 0", "declares 4");
    release(&r);
    r = import_with(add_two("n", "n"), &options);
    expect_error(&r, "input 'a' has 2 dimensions", "declares 1");
    release(&r);
    r = import_with(add_two("*", "3"), &options);
    expect_text(&r, "%a: tensor<8 x a.dim1 x f32>");
    release(&r);
    shape.name = "aa";
    r = import_with(add_two("n,m", "n,1"), &options);
    expect_error(&r, "'aa', which is no input");
    release(&r);
}

static void contradicting_shapes(void **state)
{
    (void)state;
    tw_import_shape shapes[2] = {{"a", 1, (int64_t[]){2}}, {"b", 1, (int64_t[]){3}}};
    tw_import_options options = {.shapes = shapes, .n_shapes = 2};
    imported r = import_with(add_two("n", "n"), &options);
    expect_error(&r, "inputs 'a' and 'b' contradict", "'n' would be 2 and 3");
    release(&r);
}

static void declared_types(void **state)
{
    (void)state;
    for (int wrong = 0; wrong < 3; wrong++) {
        pb graph = {0};
        onnx_add_node(&graph, onnx_node("Relu", "x", "y"));
        onnx_add_input(&graph, onnx_value("x", ONNX_FLOAT, "2,n"));
        onnx_add_output(&graph, onnx_value("y", wrong == 2 ? ONNX_INT64 : ONNX_FLOAT,
                                           wrong == 1 ? "3,5" : "2,k"));
        imported r = import_model(onnx_model(graph, 13));
        if (wrong == 0)
            expect_text(&r, "-> tensor<2 x n x f32>");
        else if (wrong == 1)
            expect_error(&r, "node Relu", "'y' is declared to have 3 as dimension 0", "f32[2,n]");
        else
            expect_error(&r, "'y' is declared to be of element type int64");
        release(&r);
    }
}

static void extra_outputs(void **state)
{
    (void)state;
    static const char *const names[] = {"p", "y", "x"};
    tw_import_options options = {.extra_outputs = names, .n_extra_outputs = 3};
    for (int known = 0; known < 2; known++) {
        pb graph = {0};
        onnx_add_node(&graph, onnx_node("Abs", "x", known ? "p" : "q"));
        onnx_add_node(&graph, onnx_node("Relu", known ? "p" : "q", "y"));
        onnx_add_input(&graph, onnx_value("x", ONNX_FLOAT, "2"));
        onnx_add_output(&graph, onnx_value("y", ONNX_FLOAT, "2"));
        imported r = import_with(onnx_model(graph, 13), &options);
        if (known)
            expect_text(&r, "output_names = [\"y\", \"p\", \"x\"]", "return %y, %p, %x");
        else
            expect_error(&r, "nothing gives the additional output 'p'");
        release(&r);
    }
}

/* ---- Functions ---- */

/* A function in domain "local" that computes one node with the reference `alpha` = `slope`. */
static pb function(const char *name, const char *op, const char *domain)
{
    pb f = {0}, node = onnx_node(op, "u", "v"), a = {0};
    pb_text(&a, 1, "alpha");
    pb_text(&a, 21, "slope");
    pb_int(&a, 20, 1);
    pb_message(&node, 5, a);
    pb_text(&node, 7, domain);
    pb_text(&f, 1, name);
    pb_text(&f, 4, "u");
    pb_text(&f, 5, "v");
    pb_text(&f, 6, "slope");
    pb_message(&f, 7, node);
    pb_message(&f, 9, onnx_opset("", 13));
    pb_message(&f, 9, onnx_opset("local", 1));
    pb_text(&f, 10, "local");
    return f;
}

static pb call_model(const char *name)
{
    pb graph = {0}, call = onnx_node(name, "x", "y");
    pb_text(&call, 7, "local");
    onnx_attr_float(&call, "slope", 0.25f);
    onnx_add_node(&graph, call);
    onnx_add_input(&graph, onnx_value("x", ONNX_FLOAT, "2"));
    onnx_add_output(&graph, onnx_value("y", ONNX_FLOAT, "2"));
    pb model = onnx_model(graph, 13);
    pb_message(&model, 8, onnx_opset("local", 1));
    return model;
}

static void functions_are_inlined(void **state)
{
    (void)state;
    pb model = call_model("F");
    pb_message(&model, 25, function("F", "LeakyRelu", ""));
    imported r = import_model(model);
    expect_text(&r, "graph.leaky_relu %x {alpha = 0.25}");
    release(&r);
}

static void function_that_calls_itself(void **state)
{
    (void)state;
    pb model = call_model("F");
    pb_message(&model, 25, function("F", "G", "local"));
    pb_message(&model, 25, function("G", "F", "local"));
    imported r = import_model(model);
    expect_error(&r, "function 'F' calls itself");
    release(&r);
}

/* Each function calls the next one twice: 2^40 nodes. */
static void exploding_functions(void **state)
{
    (void)state;
    pb model = call_model("F0");
    for (int i = 0; i < 40; i++) {
        char name[8], next[8];
        snprintf(name, sizeof name, "F%d", i);
        snprintf(next, sizeof next, i < 39 ? "F%d" : "Relu", i + 1);
        pb f = {0};
        pb_text(&f, 1, name);
        pb_text(&f, 4, "u");
        pb_text(&f, 5, "w");
        for (int k = 0; k < 2; k++) {
            pb node = onnx_node(next, k ? "v" : "u", k ? "w" : "v");
            pb_text(&node, 7, i < 39 ? "local" : "");
            pb_message(&f, 7, node);
        }
        pb_message(&f, 9, onnx_opset("", 13));
        pb_message(&f, 9, onnx_opset("local", 1));
        pb_text(&f, 10, "local");
        pb_message(&model, 25, f);
    }
    tw_import_options options = {.max_nodes = 20000};
    imported r = import_with(model, &options);
    expect_error(&r, "more than 20000 nodes");
    release(&r);
}

/* ---- Broken models ---- */

static void unknown_operators(void **state)
{
    (void)state;
    pb graph = {0}, other = onnx_node("Foo", "c", "y");
    pb_text(&other, 7, "my.domain");
    onnx_add_node(&graph, onnx_node("Bar", "x", "b"));
    onnx_add_node(&graph, onnx_node("Bar", "b", "c"));
    onnx_add_node(&graph, other);
    onnx_add_input(&graph, onnx_value("x", ONNX_FLOAT, "2"));
    onnx_add_output(&graph, onnx_value("y", ONNX_FLOAT, "2"));
    imported r = import_model(onnx_model(graph, 13));
    expect_error(&r, "2 operators", "Bar version 13 (2)", "my.domain::Foo version 0 (1)");
    assert_int_equal(tw_error_count(r.ctx), 1);
    release(&r);
}

static void names_that_do_not_fit(void **state)
{
    (void)state;
    static const struct {
        const char *first[2], *second[2], *output, *message;
    } cases[] = {
        {{"x,b", "a"}, {"x,a", "b"}, "b", "input 1: nothing before this node gives 'b'"},
        {{"x,x", "a"}, {"x,x", "a"}, "a", "the name 'a' is taken"},
        {{"x,x", "x"}, {"x,x", "a"}, "a", "the name 'x' is taken"},
        {{"x,x", "a"}, {"x,a", "b"}, "c", "nothing gives the output 'c'"},
        {{"x", "a"}, {"x,a", "b"}, "b", "input 1 is missing; 2 are needed"},
        {{"x,x,x", "a"}, {"x,a", "b"}, "b", "3 inputs; at most 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pb graph = {0};
        onnx_add_node(&graph, onnx_node("Add", cases[i].first[0], cases[i].first[1]));
        onnx_add_node(&graph, onnx_node("Add", cases[i].second[0], cases[i].second[1]));
        onnx_add_input(&graph, onnx_value("x", ONNX_FLOAT, "2"));
        onnx_add_output(&graph, onnx_value(cases[i].output, ONNX_FLOAT, "2"));
        imported r = import_model(onnx_model(graph, 13));
        expect_error(&r, cases[i].message);
        release(&r);
    }
}

static void opsets(void **state)
{
    (void)state;
    pb graph = graph_of(onnx_node("Relu", "a", "y"), ONNX_FLOAT, SHAPES("2"));
    imported r = import_model(onnx_model(graph, 999));
    expect_error(&r, "operator set 999", "up to 27");
    release(&r);
    pb model = {0};
    pb_message(&model, 7, graph_of(onnx_node("Relu", "a", "y"), ONNX_FLOAT, SHAPES("2")));
    r = import_model(model);
    expect_error(&r, "does not say which operator set");
    release(&r);
}

/* The wire format: each prefix of a model is refused, and so are its fields with wrong types. */
static void truncated(void **state)
{
    (void)state;
    pb whole = add_two("2,n", "2,1");
    for (size_t size = 0; size < whole.size; size++) {
        pb part = {0};
        pb_raw(&part, whole.data, size);
        imported r = import_model(part);
        assert_null(r.module);
        release(&r);
    }
    free(whole.data);
}

static void wire_format(void **state)
{
    (void)state;
    static const struct {
        unsigned char bytes[16];
        size_t size;
        const char *message;
    } cases[] = {
        {{0x3b}, 1, "unknown wire type"},
        {{0x00, 0x00}, 2, "broken field number"},
        {{0x38, 0x05}, 2, "field of a wrong type"},
        {{0x3a, 0x00, 0x3a, 0x00}, 4, "occurs twice"},
        {{0x3a, 0x05, 0x0a}, 3, "behind the end of its message"},
        {{0x3a, 0x03, 0x12, 0x01, 0x00}, 5, "zero byte"},
        {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}, 11, "field tag"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pb model = {0};
        pb_raw(&model, cases[i].bytes, cases[i].size);
        imported r = import_model(model);
        expect_error(&r, "not a valid ONNX model", cases[i].message);
        release(&r);
    }
}

static void deep_nesting(void **state)
{
    (void)state;
    pb graph = {0};
    for (int i = 0; i < 2000; i++) {
        pb node = {0}, outer = {0};
        onnx_attr_message(&node, "body", 6, 5, graph);
        onnx_add_node(&outer, node);
        graph = outer;
    }
    imported r = import_model(onnx_model(graph, 13));
    expect_error(&r, "deeper than 100 levels");
    release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simple_chain),
        cmocka_unit_test(initializers_are_not_copied),
        cmocka_unit_test(data_fields),
        cmocka_unit_test(short_numbers),
        cmocka_unit_test(wrong_data),
        cmocka_unit_test(booleans),
        cmocka_unit_test(initializer_as_input),
        cmocka_unit_test(symbols),
        cmocka_unit_test(fixed_shapes),
        cmocka_unit_test(contradicting_shapes),
        cmocka_unit_test(declared_types),
        cmocka_unit_test(extra_outputs),
        cmocka_unit_test(functions_are_inlined),
        cmocka_unit_test(function_that_calls_itself),
        cmocka_unit_test(exploding_functions),
        cmocka_unit_test(unknown_operators),
        cmocka_unit_test(names_that_do_not_fit),
        cmocka_unit_test(opsets),
        cmocka_unit_test(truncated),
        cmocka_unit_test(wire_format),
        cmocka_unit_test(deep_nesting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
