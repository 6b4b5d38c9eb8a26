/* Tests of the verifier: what it finds in text that parses and in IR built wrong by hand. */
#include "base/arena.h"
#include "dialect/core/core.h"
#include "dialect/graph/graph.h"
#include "dialect/loop/loop.h"
#include "dialect/register.h"
#include "random_ir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <cmocka.h>

static tw_context *new_context(void)
{
    tw_context *ctx = tw_context_create(0);
    assert_non_null(ctx);
    assert_true(tw_register_all_dialects(ctx));
    return ctx;
}

static tw_op *parse(tw_context *ctx, const char *text)
{
    tw_op *module = tw_parse(ctx, text, strlen(text), "test.tw");
    if (!module)
        fail_msg("%s", tw_diagnostic_text(ctx, tw_diagnostics(ctx)));
    return module;
}

/* Verification fails with `part` in one of the messages. */
static void expect_problem(tw_context *ctx, tw_op *op, const char *part)
{
    assert_false(tw_verify(ctx, op));
    for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
        if (strstr(d->message, part)) {
            tw_diagnostics_clear(ctx);
            return;
        }
    fail_msg("expected %s, got %s", part,
             tw_diagnostics(ctx) ? tw_diagnostics(ctx)->message : "nothing");
}

static void expect_text_problem(const char *text, const char *part)
{
    tw_context *ctx = new_context();
    expect_problem(ctx, parse(ctx, text), part);
    tw_context_destroy(ctx);
}

static void sound_ir_passes(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    assert_true(tw_verify(ctx, parse(ctx, "module @m {\n"
                                          "  func @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
                                          "    %y = call @g(%x) : tensor<4xf32>\n"
                                          "    return %y\n"
                                          "  }\n"
                                          "  func @g(tensor<4xf32>) -> tensor<4xf32>\n"
                                          "  module { func @f() { return } }\n"
                                          "}")));
    assert_int_equal(tw_error_count(ctx), 0);
    tw_context_destroy(ctx);
}

static void tables_are_checked(void **state)
{
    (void)state;
    expect_text_problem("graph.add", "graph.add has 0 operands, not 2");
    expect_text_problem("graph.add", "graph.add has 0 results, not 1");
    expect_text_problem("\"graph.yield\" {axis = 1}", "graph.yield has no attribute 'axis'");
    expect_text_problem("%a = graph.iota : tensor<4xi64>",
                        "needs the attribute 'axis' (an integer)");
    expect_text_problem("%a = graph.iota {axis = 1.0} : tensor<4xi64>",
                        "'axis' of graph.iota is a floating-point number, not an integer");
    expect_text_problem("\"loop.store\"", "has 0 operands, not at least 2");
    expect_text_problem("\"core.func\" {sym_name = @f, type = () -> ()}", "has 0 regions, not 1");
    tw_context *ctx = new_context(); /* attributes with a dot are free, flags are bools */
    assert_true(tw_verify(ctx, parse(ctx, "func @f(%x: tensor<4xf32>) {"
                                          "  %y = graph.gelu %x {approximate, my.note = 3} : "
                                          "tensor<4xf32> return }")));
    tw_context_destroy(ctx);
}

static void core_rules_are_checked(void **state)
{
    (void)state;
    expect_text_problem("func @f() -> f32 { return }", "return gives 0 values, @f has 1 results");
    expect_text_problem("func @f(%x: f32) -> i32 { return %x }",
                        "value 0 of return is f32, but the result of @f is i32");
    expect_text_problem("func @f(%x: f32) { %y = loop.neg %x : f32 }",
                        "ends with loop.neg, not with return");
    expect_text_problem("return", "return stands in a func only");
    expect_text_problem("func @f() func @f()", "@f is given twice");
    expect_text_problem("func @f() { call @g() return }", "no function @g");
    expect_text_problem("func @f() { call @g() return } func @g(i8)", "does not fit @g");
    expect_text_problem("func @f() { return } module { func @h() { call @f() return } }",
                        "no function @f");
    expect_text_problem("func @f() { return return }", "nothing can stand behind it");
    expect_text_problem("func @f(f32) attributes {input_names = [1]}", "needs 1 strings");
}

static void loop_rules_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *text, *problem;
    } cases[] = {
        {"%i = loop.load %X[0] : f32", "'index' of loop.load has 1 expressions, not 2"},
        {"%i = loop.load %X[0, 0] : f64", "the result of loop.load is f64, not f32"},
        {"%i = loop.load %X[0, 0] where (1) else %c : f32", "elsewhere of loop.load is i32"},
        {"%i = loop.load %c[] : i32", "what is accessed of loop.load is i32, not a buffer"},
        {"loop.store %c, %X[0, 0]", "the value of loop.store is i32, not f32"},
        {"loop.for %i = 0 to %c {}", "an index operand of loop.for is i32, not index"},
        {"loop.for %i = 0 to 4 step 0 {}", "at least 1, not 0"},
        {"\"loop.for\" {bounds = ()[] -> (0, 1)} ({})", "region 0 of loop.for has 0 arguments"},
        {"\"loop.for\" {bounds = ()[] -> (0, 1), kind = \"fast\"} ({ ^(%i: index): })",
         "serial parallel vectorize unroll"},
        {"\"loop.for\" {bounds = ()[] -> (0)} ({ ^(%i: index): })", "has 1 expressions, not 2"},
        {"loop.for %i = 0 to 4 attributes {when = ()[] -> (n)} {}", "parallel loops only"},
        {"loop.for %i = 0 to 4 parallel attributes {when = (d0)[] -> (d0)} {}",
         "over 1 dimensions"},
        {"\"loop.if\" {where = (d0) -> (d0)} ({}, {})", "over 1 dimensions, but there are 0"},
        {"\"loop.block\" {sym_name = \"b\", iters = [1], extents = ()[] -> (), bindings = ()[] -> "
         "()} ({}, {})",
         "\"spatial\" and \"reduce\""},
        {"%a = loop.const {value = 1} : f32", "the value 1 does not fit f32"},
        {"%a = loop.add %c, %c : f32", "have one type, not i32 and f32"},
        {"%a = loop.exp %c : i32", "of floating point"},
        {"%a = loop.cmp %c, %c {pred = \"eq\"} : i32", "not bool of as many lanes"},
        {"%a = loop.cmp %c, %c {pred = \"=\"} : bool", "eq ne lt le gt ge"},
        {"%a = loop.broadcast %c : vec<4xf32>", "not a vector of the operand's type"},
        {"%a = loop.bitcast %c : f64", "of as many bits"},
        {"%a = loop.index 3 : vec<4xindex>", "not index"},
        {"%a = loop.alloc : f32", "not a buffer"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "loop.kernel @k(%%X: buffer<4x5xf32>) attributes {outputs = 0} {\n"
                 "%%c = loop.const {value = 1} : i32\n%s\n}",
                 cases[i].text);
        expect_text_problem(text, cases[i].problem);
    }
    expect_text_problem("loop.kernel @k(%X: f32) attributes {outputs = 0} {}", "a buffer or index");
    expect_text_problem("loop.kernel @k() attributes {outputs = 1} {}", "not 1 outputs");
}

/* ---- By hand ---- */

static tw_op *sample(tw_context *ctx)
{
    return parse(ctx, "func @f(%x: f32) -> f32 {"
                      "  %a = loop.neg %x : f32"
                      "  %b = loop.add %a, %x : f32"
                      "  return %b }");
}

static tw_op *body_op(tw_op *module, unsigned i)
{
    tw_op *op = module->regions[0].first->regions[0].first;
    while (i--)
        op = op->next;
    return op;
}

static void dominance_is_checked(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    tw_op *module = sample(ctx);
    tw_op *neg = body_op(module, 0), *add = body_op(module, 1);
    tw_op_insert(add, add->region, neg);
    expect_problem(ctx, module, "operand 0 of loop.add is not defined before");
    tw_op_set_operand(add, 0, tw_result(add, 0));
    expect_problem(ctx, module, "operand 0 of loop.add is not defined before");
    tw_op_set_operand(add, 0, tw_operand(add, 1));
    assert_true(tw_verify(ctx, module));
    tw_op *other = sample(ctx);
    tw_op_set_operand(add, 0, tw_result(body_op(other, 0), 0));
    expect_problem(ctx, module, "operand 0 of loop.add is not defined before");
    expect_problem(ctx, other, "by a loop.add that does not stand in the IR");
    tw_context_destroy(ctx);
}

static void isolation_is_checked(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    tw_op *module = parse(ctx, "func @f(%x: tensor<4xf32>) {"
                               "  %y = graph.group(%a = %x) {"
                               "    %b = graph.neg %a : tensor<4xf32>"
                               "    graph.yield %b"
                               "  } : tensor<4xf32>"
                               "  return }");
    assert_true(tw_verify(ctx, module));
    tw_op *group = body_op(module, 0);
    tw_op_set_operand(group->regions[0].first, 0, tw_operand(group, 0));
    expect_problem(ctx, module, "from outside of an operation that uses no values from there");
    tw_context_destroy(ctx);
}

static void values_of_ended_regions_are_not_visible(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    tw_op *module = parse(ctx, "loop.kernel @k(%X: buffer<f32>) attributes {outputs = 1} {"
                               "  loop.for %i = 0 to 4 { %x = loop.load %X[] : f32 }"
                               "  %y = loop.load %X[] : f32"
                               "  loop.store %y, %X[] }");
    assert_true(tw_verify(ctx, module));
    tw_op *loop = module->regions[0].first->regions[0].first;
    tw_op_set_operand(loop->next->next, 0, tw_result(loop->regions[0].first, 0));
    expect_problem(ctx, module, "operand 0 of loop.store is not defined before");
    tw_context_destroy(ctx);
}

static void a_part_can_be_verified_alone(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    tw_op *module = sample(ctx);
    assert_true(tw_verify(ctx, module->regions[0].first));
    assert_true(tw_verify(ctx, body_op(module, 1)));
    tw_op_insert(body_op(module, 1), body_op(module, 0)->region, body_op(module, 0));
    expect_problem(ctx, body_op(module, 0), "not defined before");
    tw_context_destroy(ctx);
}

static void broken_links_are_found(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    tw_op *module = sample(ctx);
    body_op(module, 0)->prev = body_op(module, 1);
    expect_problem(ctx, module, "not linked to one another");
    module = sample(ctx);
    body_op(module, 1)->next = body_op(module, 0); /* a cycle */
    expect_problem(ctx, module, "not linked to one another");
    module = sample(ctx);
    body_op(module, 0)->region->last = body_op(module, 0);
    expect_problem(ctx, module, "not linked to one another");
    module = sample(ctx);
    module->regions[0].first->regions[0].parent = module;
    expect_problem(ctx, module, "region 0 does not know its place");
    module = sample(ctx);
    body_op(module, 0)->results[0].index = 3;
    expect_problem(ctx, module, "result 0 does not know its place");
    module = sample(ctx);
    body_op(module, 0)->region->args[0]->region = NULL;
    expect_problem(ctx, module, "argument 0 does not know its place");
    tw_context_destroy(ctx);
}

static void broken_uses_are_found(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    tw_op *module = sample(ctx);
    body_op(module, 0)->results[0].uses = NULL;
    expect_problem(ctx, module, "not in the use list");
    module = sample(ctx);
    body_op(module, 1)->operands[0].user = body_op(module, 0);
    expect_problem(ctx, module, "not in the use list");
    module = sample(ctx);
    body_op(module, 1)->operands[0].next = &body_op(module, 1)->operands[0];
    expect_problem(ctx, module, "use list of a value is broken");
    module = sample(ctx);
    tw_op *stray = tw_op_create(ctx, &tw_loop_ops[TW_LOOP_NEG], NULL,
                                (tw_value *[]){tw_result(body_op(module, 0), 0)}, 1,
                                &body_op(module, 0)->results[0].type, 1, NULL, 0, 0);
    (void)stray;
    expect_problem(ctx, module, "used by a loop.neg that does not stand in the IR");
    tw_context_destroy(ctx);
}

static void missing_parts_are_found(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    tw_op *module = sample(ctx);
    tw_op_set_operand(body_op(module, 1), 0, NULL);
    expect_problem(ctx, module, "operand 0 of loop.add is missing");
    module = sample(ctx);
    body_op(module, 0)->results[0].type = NULL;
    expect_problem(ctx, module, "result 0 has no type");
    module = sample(ctx);
    body_op(module, 0)->region->args[0]->type = NULL;
    expect_problem(ctx, module, "argument 0 has no type");
    module = sample(ctx);
    body_op(module, 0)->def = NULL;
    expect_problem(ctx, module, "no definition");
    module = sample(ctx);
    module->regions[0].first->attrs[0].value = NULL;
    expect_problem(ctx, module, "has no value");
    tw_context_destroy(ctx);
}

static void expect_bad_piece(tw_context *ctx, tw_attr piece, const char *problem)
{
    tw_op *module = parse(ctx, "");
    tw_op_set_attr(module, "test.piece", tw_attr_array(ctx, &piece, 1));
    expect_problem(ctx, module, problem);
}

static void bad_types_and_attributes_are_found(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    tw_expr minus = tw_expr_const(ctx, -1), dim = tw_expr_dim(ctx, 2);
    tw_expr invalid = tw_expr_invalid(ctx);
    expect_bad_piece(ctx, tw_attr_type(ctx, tw_type_tensor(ctx, TW_F32, 1, &minus, NULL)),
                     "a size in a type is below 0");
    expect_bad_piece(ctx, tw_attr_type(ctx, tw_type_tensor(ctx, TW_F32, 1, &dim, NULL)),
                     "no valid expression over symbols");
    expect_bad_piece(ctx, tw_attr_type(ctx, tw_type_tensor(ctx, TW_F32, 1, &invalid, NULL)),
                     "no valid expression over symbols");
    expect_bad_piece(ctx, tw_attr_type(ctx, tw_type_vector(ctx, TW_F32, 0)), "at least 1");
    expect_bad_piece(ctx, tw_attr_type(ctx, tw_type_dialect(ctx, "no.such", NULL)),
                     "'!no.such' is not registered");
    tw_type none = NULL;
    expect_bad_piece(ctx, tw_attr_type(ctx, tw_type_func(ctx, &none, 1, NULL, 0)),
                     "lacks the type of an input");
    expect_bad_piece(ctx, tw_attr_type(ctx, NULL), "lacks its type");
    expect_bad_piece(ctx, tw_attr_map(ctx, 2, &dim, 1), "a dimension that the map does not have");
    expect_bad_piece(ctx, tw_attr_map(ctx, 2, &invalid, 1), "is invalid");
    tw_attr missing = NULL;
    expect_bad_piece(ctx, tw_attr_array(ctx, &missing, 1), "lacks a value");
    tw_type three = tw_type_tensor_static(ctx, TW_F32, 1, (int64_t[]){3});
    expect_bad_piece(ctx, tw_attr_dense(ctx, three, "12345678", 8), "not of the size of its type");
    expect_bad_piece(ctx, tw_attr_dense(ctx, three, NULL, 12), "lacks its data");
    expect_bad_piece(ctx, tw_attr_dense(ctx, NULL, "", 0), "not of the size of its type");
    tw_context_destroy(ctx);
}

static void all_errors_are_reported_up_to_a_limit(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    tw_op *module = parse(ctx, "");
    tw_builder b = tw_builder_at_end(ctx, &module->regions[0], NULL);
    for (int i = 0; i < 500; i++)
        tw_build(&b, &tw_graph_ops[TW_GRAPH_YIELD], NULL, 0, NULL, 0, "bad", tw_attr_unit(ctx),
                 NULL);
    assert_false(tw_verify(ctx, module));
    assert_true(tw_error_count(ctx) >= 500);
    size_t kept = 0;
    for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
        kept++;
    assert_int_equal(kept, 100);
    tw_context_destroy(ctx);
}

static void random_ir_does_no_harm(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        tw_context *ctx = new_context();
        random_ir r = {.ctx = ctx, .state = seed * 0x9e3779b97f4a7c15ull + 1};
        tw_verify(ctx, random_module(&r, 40));
        tw_context_destroy(ctx);
    }
}

static void deep_and_shared_ir_takes_little_time(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    tw_op *module = tw_core_module(ctx, NULL, NULL), *inner = module;
    for (int i = 0; i < 50000; i++) {
        tw_op *next = tw_core_module(ctx, NULL, NULL);
        tw_op_insert(next, &inner->regions[0], NULL);
        inner = next;
    }
    tw_attr shared = tw_attr_unit(ctx);
    for (int i = 0; i < 50000; i++)
        shared = tw_attr_array(ctx, (tw_attr[]){shared, shared}, 2);
    tw_op_set_attr(inner, "test.shared", shared);
    assert_true(tw_verify(ctx, module));
    tw_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_ir_passes),
        cmocka_unit_test(tables_are_checked),
        cmocka_unit_test(core_rules_are_checked),
        cmocka_unit_test(loop_rules_are_checked),
        cmocka_unit_test(dominance_is_checked),
        cmocka_unit_test(isolation_is_checked),
        cmocka_unit_test(values_of_ended_regions_are_not_visible),
        cmocka_unit_test(a_part_can_be_verified_alone),
        cmocka_unit_test(broken_links_are_found),
        cmocka_unit_test(broken_uses_are_found),
        cmocka_unit_test(missing_parts_are_found),
        cmocka_unit_test(bad_types_and_attributes_are_found),
        cmocka_unit_test(all_errors_are_reported_up_to_a_limit),
        cmocka_unit_test(random_ir_does_no_harm),
        cmocka_unit_test(deep_and_shared_ir_takes_little_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
