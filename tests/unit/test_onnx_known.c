/* Shape arithmetic of ONNX models: what becomes numbers or expressions while importing. */
#include "onnx_check.h"

/* A chain of nodes on input x (float, `shape`) that ends in value y. */
typedef struct chain {
    pb graph;
} chain;

static chain begin(const char *shape)
{
    chain c = {{0}};
    onnx_add_input(&c.graph, onnx_value("x", ONNX_FLOAT, shape));
    onnx_add_output(&c.graph, onnx_value("y", 0, NULL));
    return c;
}

static void add(chain *c, const char *op, const char *inputs, const char *outputs)
{
    onnx_add_node(&c->graph, onnx_node(op, inputs, outputs));
}

static void add_int(chain *c, const char *op, const char *inputs, const char *outputs,
                    const char *attribute, int64_t value)
{
    pb node = onnx_node(op, inputs, outputs);
    onnx_attr_int(&node, attribute, value);
    onnx_add_node(&c->graph, node);
}

static void ints(chain *c, const char *name, const int64_t *values, size_t n)
{
    onnx_add_initializer(&c->graph, onnx_ints(name, values, n));
}
#define INTS(...) ((const int64_t[]){__VA_ARGS__}), sizeof((int64_t[]){__VA_ARGS__}) / 8

static void scalar(chain *c, const char *name, int64_t value)
{
    onnx_add_initializer(&c->graph,
                         onnx_tensor_raw(name, ONNX_INT64, DIMS(), &value, sizeof value));
}

/* Shape -> Gather -> Unsqueeze -> Concat -> Reshape, as exporters write it. */
static chain reshape_chain(const char *shape)
{
    chain c = begin(shape);
    scalar(&c, "zero", 0);
    scalar(&c, "one", 1);
    ints(&c, "axes", INTS(0));
    ints(&c, "heads", INTS(4));
    ints(&c, "rest", INTS(-1));
    add(&c, "Shape", "x", "s");
    add(&c, "Gather", "s,zero", "b");
    add(&c, "Gather", "s,one", "t");
    add(&c, "Unsqueeze", "b,axes", "b1");
    add(&c, "Unsqueeze", "t,axes", "t1");
    add_int(&c, "Concat", "b1,t1,heads,rest", "to", "axis", 0);
    add(&c, "Reshape", "x,to", "y");
    return c;
}

static void reshape_of_numbers(void **state)
{
    (void)state;
    imported r = import_model(onnx_model(reshape_chain("2,5,32").graph, 13));
    expect_text(&r, "graph.reshape %x : tensor<2x5x4x8xf32>");
    assert_null(strstr(r.text, "graph.concat")); /* the arithmetic is gone */
    assert_null(strstr(r.text, "graph.constant"));
    release(&r);
}

static void reshape_of_symbols(void **state)
{
    (void)state;
    imported r = import_model(onnx_model(reshape_chain("n,t,32").graph, 13));
    expect_text(&r, "graph.reshape %x : tensor<n x t x 4 x 8 x f32>");
    assert_null(strstr(r.text, "graph.shape"));
    release(&r);
}

static void zero_copies(void **state)
{
    (void)state;
    chain c = begin("n,6");
    ints(&c, "to", INTS(0, 2, -1));
    add(&c, "Reshape", "x,to", "y");
    imported r = import_model(onnx_model(c.graph, 13));
    expect_text(&r, "tensor<n x 2 x 3 x f32>");
    release(&r);
    c = begin("0,6");
    ints(&c, "to", INTS(0, 6));
    add_int(&c, "Reshape", "x,to", "y", "allowzero", 1);
    r = import_model(onnx_model(c.graph, 14));
    expect_text(&r, "return %x");
    release(&r);
}

/* floor(cast(size) * 0.5) and integer division of symbols */
static void arithmetic(void **state)
{
    (void)state;
    chain c = begin("n,32");
    float half = 0.5f;
    onnx_add_initializer(&c.graph, onnx_floats("half", DIMS(), &half, 1));
    ints(&c, "axes", INTS(0));
    scalar(&c, "zero", 0);
    add(&c, "Shape", "x", "s");
    add(&c, "Gather", "s,zero", "n");
    add_int(&c, "Cast", "n", "f", "to", ONNX_FLOAT);
    add(&c, "Mul", "f,half", "h");
    add(&c, "Floor", "h", "g");
    add_int(&c, "Cast", "g", "i", "to", ONNX_INT64);
    add(&c, "Unsqueeze", "i,axes", "i1");
    add(&c, "ConstantOfShape", "i1", "y");
    imported r = import_model(onnx_model(c.graph, 13));
    expect_text(&r, "graph.expand", "tensor<(n floordiv 2) x f32>");
    release(&r);
}

/* Where(Equal(shape, -1), 1, shape): sizes are not negative. */
static void choice_by_bounds(void **state)
{
    (void)state;
    chain c = begin("n,1");
    ints(&c, "minus", INTS(-1, -1));
    ints(&c, "ones", INTS(1, 1));
    add(&c, "Shape", "x", "s");
    add(&c, "Equal", "s,minus", "e");
    add(&c, "Where", "e,ones,s", "to");
    add(&c, "Expand", "x,to", "y");
    imported r = import_model(onnx_model(c.graph, 13));
    expect_text(&r, "return %x");
    release(&r);
}

static void range_of_symbol(void **state)
{
    (void)state;
    chain c = begin("n");
    scalar(&c, "zero", 0);
    scalar(&c, "two", 2);
    add(&c, "Size", "x", "n");
    add(&c, "Range", "zero,n,two", "y");
    imported r = import_model(onnx_model(c.graph, 13));
    expect_text(&r, "graph.range", "tensor<((n + 1) floordiv 2) x i64>");
    release(&r);
}

static void values_that_depend_on_data(void **state)
{
    (void)state;
    chain c = begin("4");
    add_int(&c, "Cast", "x", "i", "to", ONNX_INT64);
    add(&c, "Reshape", "x,i", "y");
    imported r = import_model(onnx_model(c.graph, 13));
    expect_text(&r, "graph.bind", "symbols = [\"y.0\", \"y.1\", \"y.2\", \"y.3\", \"\"]");
    expect_text(&r, "expect = ()[] -> (y.0, y.1, y.2, y.3, 4)",
                "tensor<y.0 x y.1 x y.2 x y.3 x f32>");
    release(&r);
}

/* How many sizes there are must be known. */
static void rank_that_depends_on_data(void **state)
{
    (void)state;
    chain c = begin("n");
    add_int(&c, "Cast", "x", "i", "to", ONNX_INT64);
    add(&c, "Reshape", "x,i", "y");
    imported r = import_model(onnx_model(c.graph, 13));
    expect_error(&r, "node Reshape (of 'y')", "input 1 ('i')", "how many elements it has");
    release(&r);
}

/* 2^30 elements of a constant take no memory. */
static void huge_constant(void **state)
{
    (void)state;
    chain c = begin("1");
    ints(&c, "to", INTS(1 << 15, 1 << 15));
    add(&c, "ConstantOfShape", "to", "z");
    add(&c, "Add", "z,x", "y");
    imported r = import_model(onnx_model(c.graph, 13));
    expect_text(&r, "graph.expand", "tensor<32768x32768xf32>");
    release(&r);
    c = begin("1");
    ints(&c, "to", INTS(1 << 25, 1 << 25));
    add(&c, "ConstantOfShape", "to", "y");
    r = import_model(onnx_model(c.graph, 13));
    expect_error(&r, "node ConstantOfShape", "too large");
    release(&r);
}

static void overflow(void **state)
{
    (void)state;
    chain c = begin("1");
    ints(&c, "to", INTS(INT64_MAX, INT64_MAX));
    add(&c, "Expand", "x,to", "y");
    imported r = import_model(onnx_model(c.graph, 13));
    expect_error(&r, "node Expand", "too large");
    release(&r);
    c = begin("1");
    ints(&c, "to", INTS(-7));
    add(&c, "ConstantOfShape", "to", "y");
    r = import_model(onnx_model(c.graph, 13));
    expect_error(&r, "negative size");
    release(&r);
}

/* An If whose condition is known is replaced by its branch. */
static void known_branch(void **state)
{
    (void)state;
    pb branches[2] = {{0}, {0}};
    onnx_add_node(&branches[0], onnx_node("Abs", "x", "a"));
    onnx_add_output(&branches[0], onnx_value("a", ONNX_FLOAT, NULL));
    onnx_add_node(&branches[1], onnx_node("Neg", "x", "b"));
    onnx_add_output(&branches[1], onnx_value("b", ONNX_FLOAT, NULL));
    chain c = begin("n,2");
    scalar(&c, "one", 1);
    scalar(&c, "three", 3);
    add(&c, "Shape", "x", "s");
    add(&c, "Gather", "s,one", "d");
    add(&c, "Equal", "d,three", "e");
    pb node = onnx_node("If", "e", "y");
    onnx_attr_message(&node, "then_branch", 6, 5, branches[0]);
    onnx_attr_message(&node, "else_branch", 6, 5, branches[1]);
    onnx_add_node(&c.graph, node);
    imported r = import_model(onnx_model(c.graph, 13));
    expect_text(&r, "graph.neg %x");
    assert_null(strstr(r.text, "graph.abs"));
    release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reshape_of_numbers),
        cmocka_unit_test(reshape_of_symbols),
        cmocka_unit_test(zero_copies),
        cmocka_unit_test(arithmetic),
        cmocka_unit_test(choice_by_bounds),
        cmocka_unit_test(range_of_symbol),
        cmocka_unit_test(values_that_depend_on_data),
        cmocka_unit_test(rank_that_depends_on_data),
        cmocka_unit_test(huge_constant),
        cmocka_unit_test(overflow),
        cmocka_unit_test(known_branch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
