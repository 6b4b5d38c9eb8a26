/* Tests of the printer, the parser and diagnostics. */
#include "base/arena.h"
#include "dialect/register.h"
#include "ir/elem_data.h"
#include "random_ir.h"

#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

static const tw_type_def test_types[] = {{"test.type", NULL}, {NULL, NULL}};
static const tw_dialect test_dialect = {.name = "test", .summary = "", .types = test_types};

static tw_context *new_context(void)
{
    tw_context *ctx = tw_context_create(0);
    assert_non_null(ctx);
    assert_true(tw_register_all_dialects(ctx));
    assert_true(tw_dialect_register(ctx, &test_dialect));
    return ctx;
}

static tw_context *random_context(random_ir *r, uint64_t seed)
{
    tw_context *ctx = new_context();
    *r = (random_ir){.ctx = ctx, .state = seed * 0x9e3779b97f4a7c15ull + 1};
    return ctx;
}

/* TW_TEST_ROUNDS multiplies the random tests, for a long run by hand. */
static unsigned rounds(unsigned n)
{
    const char *times = getenv("TW_TEST_ROUNDS");
    return n * (times ? (unsigned)atoi(times) : 1);
}

static void expect_no_diagnostics(tw_context *ctx, const char *text)
{
    const tw_diagnostic *d = tw_diagnostics(ctx);
    if (d)
        fail_msg("%s\nin:\n%s", tw_diagnostic_text(ctx, d), text);
}

static tw_op *parse_text(tw_context *ctx, const char *text)
{
    return tw_parse(ctx, text, strlen(text), "test.tw");
}

/* Prints, parses and prints again: the texts must be equal. */
static void expect_identity(tw_context *ctx, const tw_op *op, bool locations)
{
    tw_print_options options = {.locations = locations};
    const char *first = tw_print(ctx, op, &options);
    tw_op *parsed = parse_text(ctx, first);
    expect_no_diagnostics(ctx, first);
    assert_non_null(parsed);
    const char *second = tw_print(ctx, parsed, &options);
    size_t same = 0;
    while (first[same] && first[same] == second[same])
        same++;
    if (first[same] != second[same])
        fail_msg("not the same:\n%.200s\nbut:\n%.200s", first + same - (same < 60 ? same : 60),
                 second + same - (same < 60 ? same : 60));
}

/* ---- Identity ---- */

static void random_ir_prints_and_parses_back(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= rounds(300); seed++) {
        random_ir r;
        tw_context *ctx = random_context(&r, seed);
        tw_op *module = random_module(&r, 1 + (unsigned)seed % 60);
        expect_identity(ctx, module, seed % 2);
        tw_context_destroy(ctx);
    }
}

static bool holds_dense(const char *text)
{
    return strstr(text, "dense<") != NULL;
}

static void random_attributes_parse_back_to_themselves(void **state)
{
    (void)state;
    random_ir r;
    tw_context *ctx = random_context(&r, 77);
    for (int i = 0; i < (int)rounds(20000); i++) {
        tw_attr attr = random_attr(&r, 3);
        const char *text = tw_print_attr(ctx, attr);
        tw_attr back = tw_parse_attr(ctx, text);
        expect_no_diagnostics(ctx, text);
        if (holds_dense(text)) /* whose data are unique by their place */
            assert_string_equal(tw_print_attr(ctx, back), text);
        else if (back != attr)
            fail_msg("%s came back as %s", text, tw_print_attr(ctx, back));
    }
    tw_context_destroy(ctx);
}

static void random_types_parse_back_to_themselves(void **state)
{
    (void)state;
    random_ir r;
    tw_context *ctx = random_context(&r, 78);
    for (int i = 0; i < (int)rounds(20000); i++) {
        tw_type type = random_type(&r, 3);
        const char *text = tw_print_type(ctx, type);
        tw_type back = tw_parse_type(ctx, text);
        expect_no_diagnostics(ctx, text);
        if (!holds_dense(text))
            assert_ptr_equal(back, type);
    }
    tw_context_destroy(ctx);
}

static void dense_bits_come_back(void **state)
{
    (void)state;
    random_ir r;
    tw_context *ctx = random_context(&r, 79);
    for (int i = 0; i < (int)rounds(5000); i++) {
        tw_attr attr = random_dense(&r);
        tw_attr back = tw_parse_attr(ctx, tw_print_attr(ctx, attr));
        assert_non_null(back);
        assert_ptr_equal(back->u.dense.type, attr->u.dense.type);
        assert_int_equal(back->u.dense.size, attr->u.dense.size);
        if (attr->u.dense.type->elem != TW_STRING && attr->u.dense.size)
            assert_memory_equal(back->u.dense.data, attr->u.dense.data, attr->u.dense.size);
    }
    tw_context_destroy(ctx);
}

static void every_small_float_comes_back(void **state)
{
    (void)state;
    static const tw_elem elems[] = {TW_F16,        TW_BF16,       TW_F8E4M3FN, TW_F8E5M2,
                                    TW_F8E4M3FNUZ, TW_F8E5M2FNUZ, TW_F8E8M0FNU};
    for (size_t e = 0; e < sizeof elems / sizeof *elems; e++) {
        tw_context *ctx = new_context();
        unsigned size = tw_elem_bits(elems[e]) / 8;
        for (uint32_t bits = 0; bits < 1u << (8 * size); bits += size == 2 ? 7 : 1) {
            tw_type type = tw_type_tensor_static(ctx, elems[e], 0, NULL);
            tw_attr attr =
                tw_attr_dense(ctx, type, tw_arena_memdup(tw_context_arena(ctx), &bits, 4), size);
            tw_attr back = tw_parse_attr(ctx, tw_print_attr(ctx, attr));
            assert_non_null(back);
            assert_int_equal(tw_elem_load(elems[e], back->u.dense.data, 0), bits);
        }
        tw_context_destroy(ctx);
    }
}

static void numbers_do_not_depend_on_the_locale(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    char *earlier = setlocale(LC_NUMERIC, "de_DE.UTF-8"); /* where it is installed */
    tw_attr attr = tw_attr_float(ctx, 0.1);
    assert_string_equal(tw_print_attr(ctx, attr), "0.1");
    assert_ptr_equal(tw_parse_attr(ctx, "0.1"), attr);
    setlocale(LC_NUMERIC, "C");
    (void)earlier;
    tw_context_destroy(ctx);
}

/* ---- What the text looks like ---- */

static void expect_attr(tw_context *ctx, tw_attr attr, const char *text)
{
    assert_string_equal(tw_print_attr(ctx, attr), text);
    assert_ptr_equal(tw_parse_attr(ctx, text), attr);
}

static void attributes_read_well(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    tw_expr d0 = tw_expr_dim(ctx, 0), d1 = tw_expr_dim(ctx, 1);
    tw_expr five_less = tw_expr_sub(ctx, tw_expr_const(ctx, 5), d0);
    tw_expr less_one = tw_expr_addc(ctx, tw_expr_mulc(ctx, d0, 2), -1);
    tw_expr div = tw_expr_binary(ctx, TW_EXPR_FLOORDIV, d1, tw_expr_const(ctx, 2));
    expect_attr(ctx, tw_attr_map(ctx, 2, (tw_expr[]){five_less, less_one, div}, 3),
                "(d0, d1) -> (5 - d0, d0 * 2 - 1, d1 floordiv 2)");
    expect_attr(ctx, tw_attr_map(ctx, 0, (tw_expr[]){tw_expr_sym(ctx, "n")}, 1), "()[] -> (n)");
    expect_attr(ctx, tw_attr_map(ctx, 0, NULL, 0), "()[] -> ()");
    expect_attr(ctx, tw_attr_type(ctx, tw_type_func(ctx, NULL, 0, NULL, 0)), "() -> ()");
    expect_attr(ctx, tw_attr_ints(ctx, (int64_t[]){1, -2, INT64_MIN}, 3),
                "[1, -2, -9223372036854775808]");
    expect_attr(ctx, tw_attr_string_n(ctx, "a\0\"\n\xff\xc3\xa9", 7),
                "\"a\\x00\\\"\\n\\xff\xc3\xa9\"");
    expect_attr(ctx, tw_attr_symbol(ctx, "fc1.weight"), "@fc1.weight");
    expect_attr(ctx, tw_attr_symbol(ctx, "a b"), "@\"a b\"");
    expect_attr(ctx, tw_attr_float(ctx, 2), "2.0");
    expect_attr(ctx, tw_attr_float(ctx, -0.0), "-0.0");
    expect_attr(ctx, tw_attr_float(ctx, NAN), "nan");
    expect_attr(ctx, tw_attr_float(ctx, -INFINITY), "-inf");
    expect_attr(ctx, tw_attr_float(ctx, 1.0 / 3), "0.3333333333333333");
    tw_named_attr named[] = {{"b", tw_attr_unit(ctx)}, {"a 1", tw_attr_bool(ctx, true)}};
    expect_attr(ctx, tw_attr_dict(ctx, named, 2), "{\"a 1\" = true, b}");
    tw_context_destroy(ctx);
}

static void types_read_well(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "f32",
        "tensor<f32>",
        "tensor<0x3xf32>",
        "tensor<2x3xbf16, NCHW8c>",
        "tensor<batch x 384 x f32>",
        "tensor<(seq * 2) x \"p2o x\" x u4>",
        "tensor<\"f32\" x f32>",
        "tensor<\"x\" x \"x\" x i64>",
        "buffer<6x16xf32, \"local\">",
        "buffer<m x f32>",
        "vec<8xindex>",
        "(tensor<2xstring>, (f32) -> ()) -> (bool, i4)",
        "!test.type",
        "!test.type<>",
        "!test.type<1, \"a\", tensor<2xf8e4m3fn>>",
    };
    tw_context *ctx = new_context();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        tw_type type = tw_parse_type(ctx, texts[i]);
        expect_no_diagnostics(ctx, texts[i]);
        assert_string_equal(tw_print_type(ctx, type), texts[i]);
    }
    assert_ptr_equal(tw_parse_type(ctx, "tensor< 2 x 3xf32 >"),
                     tw_parse_type(ctx, "tensor<2x3xf32>"));
    assert_ptr_equal(tw_parse_type(ctx, "tensor<2xxyxf32>"), NULL);
    tw_context_destroy(ctx);
}

static void elided_data_are_refused(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    static const char text[] = "%a = graph.constant @w dense<[1.0, 2.0, 3.0]> : tensor<3xf32>";
    tw_op *module = parse_text(ctx, text);
    assert_non_null(module);
    const char *elided = tw_print(ctx, module, &(tw_print_options){.elide = 8});
    assert_non_null(strstr(elided, "dense<elided> : tensor<3xf32>"));
    assert_non_null(
        strstr(tw_print(ctx, module, &(tw_print_options){.elide = 12}), "[1.0, 2.0, 3.0]"));
    assert_null(parse_text(ctx, elided));
    assert_non_null(strstr(tw_diagnostics(ctx)->message, "--elide 0"));
    tw_context_destroy(ctx);
}

static void pieces_of_ir_print_alone(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    tw_op *module = parse_text(ctx, "func @f(%x: f32) { %y = loop.neg %x : f32 return }");
    tw_op *func = module->regions[0].first;
    tw_op *neg = func->regions[0].first;
    assert_string_equal(tw_print(ctx, neg, NULL), "%y = loop.neg %x : f32\n");
    tw_value_set_name(func->regions[0].args[0], NULL);
    assert_string_equal(tw_print(ctx, neg, NULL), "%y = loop.neg %\"?\" : f32\n");
    tw_op_set_operand(neg, 0, NULL);
    assert_string_equal(tw_print(ctx, neg, NULL), "%y = loop.neg %<null> : f32\n");
    tw_context_destroy(ctx);
}

/* ---- Diagnostics ---- */

static void expect_error(const char *text, unsigned line, unsigned column, const char *part)
{
    tw_context *ctx = new_context();
    assert_null(parse_text(ctx, text));
    const tw_diagnostic *d = tw_diagnostics(ctx);
    assert_non_null(d);
    if (!strstr(d->message, part) || d->loc->line != line || d->loc->column != column || d->next)
        fail_msg("expected %u:%u %s, got %s", line, column, part, tw_diagnostic_text(ctx, d));
    tw_context_destroy(ctx);
}

static void errors_say_what_and_where(void **state)
{
    (void)state;
    expect_error("graph.ad", 1, 1, "did you mean 'graph.add'?");
    expect_error("grph.add", 1, 1, "there are: core, graph, loop");
    expect_error("fnc @f()", 1, 1, "did you mean 'func'?");
    expect_error("\n  %a = graph.neg %b : f32", 2, 18, "%b is not defined here");
    expect_error("%a = loop.const {value = 1} : f32\n%a = loop.const {value = 1} : f32", 2, 1,
                 "%a is defined already");
    expect_error("%a, %b = loop.const {value = 1} : f32", 1, 10, "1 results, and 2 names");
    expect_error("loop.const {value = 1} : f32", 1, 1, "1 results, and 0 names");
    expect_error("func @f(%a: tensor<2x3xf33>)", 1, 24, "did you mean 'f32'?");
    expect_error("func @f(%a: tensor<-1xf32>)", 1, 20, "below 0");
    expect_error("func @f(%a: f32)", 1, 17, "expected '{'");
    expect_error("func @f(f32) { return }", 1, 14, "names its arguments");
    expect_error("module { ", 1, 10, "expected '}', but the text ends here");
    expect_error("module { } }", 1, 12, "expected an operation, not '}'");
    expect_error("return {a = 1, a = 2}", 1, 16, "'a' is given twice");
    expect_error("return {a = 9223372036854775808}", 1, 13, "64 bits");
    expect_error("return {a = 1e999}", 1, 13, "too large");
    expect_error("return {a = \"x\n\"}", 1, 13, "does not end on its line");
    expect_error("return {a = \"\\q\"}", 1, 13, "bad escape");
    expect_error("return {a = @\"\\x00\"}", 1, 13, "zero byte");
    expect_error("return {a = (d0) -> (d1)}", 1, 22, "no dimension d1");
    expect_error("return {a = dense<[1, 2]> : tensor<3xi32>}", 1, 19, "2 of its 3");
    expect_error("return {a = dense<[1, 2, 3]> : tensor<2xi32>}", 1, 26, "more than 2");
    expect_error("return {a = dense<[[1], 2]> : tensor<2x1xi32>}", 1, 25, "expected '['");
    expect_error("return {a = dense<300> : tensor<i8>}", 1, 19, "does not fit in i8");
    expect_error("return {a = dense<-1> : tensor<u8>}", 1, 19, "no numbers below 0");
    expect_error("return {a = dense<1> : tensor<n x i8>}", 1, 24, "known sizes");
    expect_error("return {a = dense<hex \"00\"> : tensor<2xi8>}", 1, 23, "2 bytes");
    expect_error("return {a = dense<1> : tensor<99999999999xf64>}", 1, 19, "bytes in all");
    expect_error("return {a = nan(\"0x7ff0000000000000\")}", 1, 16, "digits of a NaN");
    expect_error("return {a = !test.typ}", 1, 13, "did you mean '!test.type'?");
    expect_error("return $", 1, 8, "begins no token");
    expect_error("loop.block \"b\" (%i: spatal 3 = 0) {}", 1, 21, "'spatial' or 'reduce'");
}

static void diagnostics_show_the_place(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    assert_null(parse_text(ctx, "module {\n\t%\"\xc3\xa9\" = graph.neg %b : f32\n}"));
    assert_string_equal(tw_diagnostic_text(ctx, tw_diagnostics(ctx)),
                        "test.tw:2:20: error: %b is not defined here\n"
                        "  \t%\"\xc3\xa9\" = graph.neg %b : f32\n"
                        "  \t                 ^");
    tw_diagnostics_clear(ctx);
    tw_error(ctx, tw_loc_node(ctx, "m.onnx", "Conv 'c1'"), "no weights");
    assert_string_equal(tw_diagnostic_text(ctx, tw_diagnostics(ctx)),
                        "m.onnx: error: node Conv 'c1': no weights");
    tw_diagnostics_clear(ctx);
    tw_warning(ctx, NULL, "so %d", 4);
    assert_string_equal(tw_diagnostic_text(ctx, tw_diagnostics(ctx)), "warning: so 4");
    assert_int_equal(tw_error_count(ctx), 0);
    for (int i = 0; i < 1000; i++)
        assert_false(tw_error(ctx, NULL, "error %d", i));
    size_t kept = 0;
    for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
        kept++;
    assert_int_equal(kept, 100);
    assert_int_equal(tw_error_count(ctx), 1000);
    tw_context_destroy(ctx);
}

static void long_lines_are_cut(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    char *text = tw_arena_calloc(tw_context_arena(ctx), 5001, 1);
    memset(text, ' ', 5000);
    memcpy(text + 2500, "nonsense", 8);
    assert_null(parse_text(ctx, text));
    const char *shown = tw_diagnostic_text(ctx, tw_diagnostics(ctx));
    assert_true(strlen(shown) < 600);
    const char *caret = strrchr(shown, '\n') + 1, *line = strchr(shown, '\n') + 1;
    assert_int_equal(strstr(line, "nonsense") - line, strchr(caret, '^') - caret);
    tw_context_destroy(ctx);
}

/* ---- Robustness ---- */

/* `n` times a piece around a middle. */
static char *nest(const char *open, const char *middle, const char *close, size_t n)
{
    size_t a = strlen(open), b = strlen(close);
    char *text = malloc(n * (a + b) + strlen(middle) + 1), *to = text;
    for (size_t i = 0; i < n; i++)
        to = (char *)memcpy(to, open, a) + a;
    to = stpcpy(to, middle);
    for (size_t i = 0; i < n; i++)
        to = (char *)memcpy(to, close, b) + b;
    *to = 0;
    return text;
}

static void deep_text_is_refused(void **state)
{
    (void)state;
    static const char *const forms[][3] = {
        {"module { ", "", "}"},
        {"\"loop.if\" ({ ", "", "})"},
        {"return {a = [", "1", "]}"},
        {"return {a = (d0) -> (-", "1", ")}"},
    };
    for (size_t i = 0; i < 4; i++) {
        tw_context *ctx = new_context();
        char *text = nest(forms[i][0], forms[i][1], forms[i][2], 200000);
        assert_null(parse_text(ctx, text));
        assert_int_equal(tw_error_count(ctx), 1);
        free(text);
        tw_context_destroy(ctx);
    }
    static const char *const attrs[][3] = {
        {"[", "1", "]"}, {"{a = ", "1", "}"}, {"(", "f32", ") -> ()"}, {"!test.type<", "", ">"}};
    for (size_t i = 0; i < 4; i++) {
        tw_context *ctx = new_context();
        char *text = nest(attrs[i][0], attrs[i][1], attrs[i][2], 200000);
        assert_null(tw_parse_attr(ctx, text));
        assert_non_null(strstr(tw_diagnostics(ctx)->message, "deeper"));
        free(text);
        text = nest(attrs[i][0], attrs[i][1], attrs[i][2], 400);
        assert_non_null(tw_parse_attr(ctx, text));
        free(text);
        tw_context_destroy(ctx);
    }
    static const char *const exprs[][3] = {
        {"(", "d0", ")"}, {"-", "d0", ""}, {"min(d0, ", "1", ")"}};
    for (size_t i = 0; i < 3; i++) {
        tw_context *ctx = new_context();
        char *inner = nest(exprs[i][0], exprs[i][1], exprs[i][2], 200000);
        char *text = nest("(d0) -> (", inner, ")", 1);
        assert_null(tw_parse_attr(ctx, text));
        free(text);
        free(inner);
        tw_context_destroy(ctx);
    }
}

static void deep_ir_prints(void **state)
{
    (void)state;
    tw_context *ctx = new_context();
    tw_op *module = tw_core_module(ctx, NULL, NULL), *inner = module;
    for (int i = 0; i < 100000; i++) {
        tw_op *next = tw_core_module(ctx, NULL, NULL);
        tw_op_insert(next, &inner->regions[0], NULL);
        inner = next;
    }
    const char *text = tw_print(ctx, module, NULL);
    assert_non_null(strstr(text, "..."));
    assert_null(parse_text(ctx, text));
    tw_attr attr = tw_attr_unit(ctx);
    tw_expr shared = tw_expr_dim(ctx, 0);
    for (int i = 0; i < 100000; i++)
        attr = tw_attr_array(ctx, &attr, 1);
    assert_non_null(strstr(tw_print_attr(ctx, attr), "..."));
    for (int i = 0; i < 40; i++) { /* 2^40 paths through 40 nodes */
        tw_expr next = tw_expr_binary(ctx, TW_EXPR_MAX, tw_expr_addc(ctx, shared, i + 2),
                                      tw_expr_mulc(ctx, shared, 3));
        shared = next->kind == TW_EXPR_INVALID ? shared : next;
    }
    assert_non_null(tw_print_expr(ctx, shared, NULL));
    tw_context_destroy(ctx);
}

/* Text with a few bytes replaced, removed, doubled or cut: whatever comes of it, no crash, and what
 * parses prints and parses back. */
static void damaged_text_does_no_harm(void **state)
{
    (void)state;
    static const char spice[] = "%@\"{}()[]<>:,=x0123.-!^\\ \n/e+";
    unsigned parsed_count = 0;
    for (uint64_t seed = 1; seed <= rounds(2000); seed++) {
        random_ir r;
        tw_context *ctx = random_context(&r, seed);
        const char *text = tw_print(ctx, random_module(&r, 12), &(tw_print_options){seed % 2, 0});
        size_t len = strlen(text);
        char *damaged = tw_arena_strdup(tw_context_arena(ctx), text);
        for (unsigned n = below(&r, 4); n-- > 0 && len > 4;) {
            size_t at = below(&r, (unsigned)len - 2);
            switch (below(&r, 4)) {
            case 0:
                damaged[at] = spice[below(&r, sizeof spice - 1)];
                break;
            case 1:
                damaged[at] = (char)random_bits(&r);
                break;
            case 2:
                memmove(damaged + at, damaged + at + 1, len - at - 1);
                len--;
                break;
            default:
                if (chance(&r, 20))
                    len = at;
                else
                    damaged[at] = damaged[below(&r, (unsigned)len)];
            }
        }
        tw_op *op = tw_parse(ctx, damaged, len, "damaged");
        assert_true(op || tw_error_count(ctx) == 1);
        if (op) {
            parsed_count++;
            expect_identity(ctx, op, true);
            tw_verify(ctx, op);
        }
        tw_context_destroy(ctx);
    }
    assert_true(parsed_count > 50);
}

static void exhausted_memory_goes_to_the_guard(void **state)
{
    (void)state;
    tw_context *ctx = tw_context_create(4 << 20);
    tw_register_all_dialects(ctx);
    jmp_buf guard;
    volatile bool jumped = false;
    if (setjmp(guard)) {
        jumped = true;
    } else {
        tw_context_guard(ctx, &guard);
        tw_parse_attr(ctx, "dense<1> : tensor<9000000xi8>");
    }
    assert_true(jumped);
    jumped = false;
    if (setjmp(guard)) {
        jumped = true;
    } else {
        tw_op *module = tw_core_module(ctx, NULL, NULL);
        for (;;)
            tw_print(ctx, module, NULL);
    }
    assert_true(jumped);
    tw_context_destroy(ctx);
}

/* ---- Speed ---- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* `n` operations, all with one hint, so that names must be made unique. */
static double time_of(size_t n)
{
    tw_context *ctx = new_context();
    tw_op *module = parse_text(ctx, "func @f(%x: tensor<8xf32>) -> tensor<8xf32> { return %x }");
    tw_op *func = module->regions[0].first, *last = func->regions[0].last;
    tw_value *value = func->regions[0].args[0];
    tw_builder b = tw_builder_before(ctx, last);
    for (size_t i = 0; i < n; i++) {
        value =
            tw_graph_build(&b, TW_GRAPH_ADD, ((tw_value *[]){value, value}), 2, value->type, NULL);
        tw_value_set_name(value, "y");
    }
    tw_op_set_operand(last, 0, value);
    double start = seconds();
    const char *text = tw_print(ctx, module, NULL);
    double printed = seconds();
    tw_op *parsed = parse_text(ctx, text);
    double parsed_at = seconds();
    assert_non_null(parsed);
    assert_true(tw_verify(ctx, parsed));
    double verified = seconds();
    printf("%zu operations: print %.3f s, parse %.3f s, verify %.3f s\n", n, printed - start,
           parsed_at - printed, verified - parsed_at);
    tw_context_destroy(ctx);
    return verified - start;
}

static void time_is_linear(void **state)
{
    (void)state;
    double small = time_of(10000), large = time_of(100000);
    assert_true(large < 60 * small + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_ir_prints_and_parses_back),
        cmocka_unit_test(random_attributes_parse_back_to_themselves),
        cmocka_unit_test(random_types_parse_back_to_themselves),
        cmocka_unit_test(dense_bits_come_back),
        cmocka_unit_test(every_small_float_comes_back),
        cmocka_unit_test(numbers_do_not_depend_on_the_locale),
        cmocka_unit_test(attributes_read_well),
        cmocka_unit_test(types_read_well),
        cmocka_unit_test(elided_data_are_refused),
        cmocka_unit_test(pieces_of_ir_print_alone),
        cmocka_unit_test(errors_say_what_and_where),
        cmocka_unit_test(diagnostics_show_the_place),
        cmocka_unit_test(long_lines_are_cut),
        cmocka_unit_test(deep_text_is_refused),
        cmocka_unit_test(deep_ir_prints),
        cmocka_unit_test(damaged_text_does_no_harm),
        cmocka_unit_test(exhausted_memory_goes_to_the_guard),
        cmocka_unit_test(time_is_linear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
