/* Import of ONNX: the frame around the operators: inputs, outputs, constants, functions, options.
 */
#include "onnx_check.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simple_chain),
        cmocka_unit_test(initializers_are_not_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
