/* Tests of the greedy rewriter and of dialect conversion. */
#include "tilewright/ir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { PURE = TW_TRAIT_PURE };
static const tw_op_def def_leaf = {.name = "t.leaf", .n_results = 1, .traits = PURE};
static const tw_op_def def_neg = {.name = "t.neg", .n_operands = 1, .n_results = 1, .traits = PURE};
static const tw_op_def def_two = {.name = "t.two", .n_operands = 1, .n_results = 1, .traits = PURE};
static const tw_op_def def_use = {.name = "t.use", .n_operands = -1};
static const tw_op_def def_box = {.name = "t.box", .n_regions = 1};

typedef struct fixture {
    tw_context *ctx;
    tw_op *root;
    tw_builder b;
} fixture;

static fixture make_fixture(void)
{
    fixture f = {.ctx = tw_context_create(0)};
    f.root = tw_op_create(f.ctx, &def_box, NULL, NULL, 0, NULL, 0, NULL, 0, 1);
    f.b = tw_builder_at_end(f.ctx, &f.root->regions[0], NULL);
    return f;
}

static tw_value *make(tw_builder *b, const tw_op_def *def, tw_value *operand)
{
    tw_type type = tw_type_scalar(b->ctx, TW_I32);
    tw_op *op = tw_build(b, def, &operand, operand != NULL, &type, def->n_results > 0, NULL);
    return def->n_results ? tw_result(op, 0) : NULL;
}

static bool count_op(tw_op *op, void *data)
{
    (void)op;
    ++*(int *)data;
    return true;
}

static int count_inside(tw_op *root)
{
    int n = -1;
    tw_walk(root, count_op, &n);
    return n;
}

/* neg(neg(x)) -> x */
static bool double_neg(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    tw_op *inner = tw_operand(op, 0)->op;
    if (!inner || inner->def != &def_neg)
        return false;
    tw_rw_replace(rw, op, (tw_value *[]){tw_operand(inner, 0)});
    return true;
}

/* two(x) -> neg(neg(x)) */
static bool expand_two(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    tw_builder *b = tw_rw_builder(rw, op);
    tw_value *x = make(b, &def_neg, tw_operand(op, 0));
    tw_rw_replace(rw, op, (tw_value *[]){make(b, &def_neg, x)});
    return true;
}

/* neg(x) -> two(x): together with expand_two it never ends by itself. */
static bool grow(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    tw_rw_replace(rw, op, (tw_value *[]){make(tw_rw_builder(rw, op), &def_two, tw_operand(op, 0))});
    return true;
}

static const tw_pattern cancel[] = {{"double-neg", &def_neg, 1, double_neg, NULL},
                                    {"expand-two", &def_two, 1, expand_two, NULL}};

static void chains_cancel_and_dead_ones_go(void **state)
{
    (void)state;
    fixture f = make_fixture();
    tw_value *x = make(&f.b, &def_leaf, NULL), *at = x;
    for (int i = 0; i < 10000; i++)
        at = make(&f.b, &def_neg, at);
    make(&f.b, &def_neg, at); /* dead */
    make(&f.b, &def_use, at);
    uint64_t changes = 0;
    tw_rewrite_greedily(f.ctx, f.root, cancel, 2, UINT64_MAX, &changes);
    assert_int_equal(count_inside(f.root), 2);
    assert_ptr_equal(tw_operand(f.root->regions[0].last, 0), x);
    assert_true(changes >= 5000 && changes <= 10001);
    tw_context_destroy(f.ctx);
}

static void new_operations_are_visited(void **state)
{
    (void)state;
    fixture f = make_fixture();
    tw_value *x = make(&f.b, &def_leaf, NULL);
    make(&f.b, &def_use, make(&f.b, &def_two, make(&f.b, &def_two, x)));
    tw_rewrite_greedily(f.ctx, f.root, cancel, 2, UINT64_MAX, NULL);
    assert_int_equal(count_inside(f.root), 2);
    tw_context_destroy(f.ctx);
}

static void changes_are_bounded(void **state)
{
    (void)state;
    fixture f = make_fixture();
    tw_value *at = make(&f.b, &def_leaf, NULL);
    for (int i = 0; i < 8; i++)
        at = make(&f.b, &def_two, at);
    make(&f.b, &def_use, at);
    uint64_t changes = 0;
    tw_rewrite_greedily(f.ctx, f.root, &cancel[1], 1, 3, &changes);
    assert_int_equal(changes, 3);
    assert_int_equal(count_inside(f.root), 1 + 8 + 3 + 1); /* each made one operation more */
    tw_context_destroy(f.ctx);
}

static void endless_rules_end_with_a_warning(void **state)
{
    (void)state;
    fixture f = make_fixture();
    make(&f.b, &def_use, make(&f.b, &def_neg, make(&f.b, &def_leaf, NULL)));
    const tw_pattern endless[] = {{"grow", &def_neg, 1, grow, NULL}, cancel[1]};
    uint64_t changes = 0;
    tw_rewrite_greedily(f.ctx, f.root, endless, 2, UINT64_MAX, &changes);
    assert_int_equal(changes, 3 * 64);
    assert_non_null(tw_diagnostics(f.ctx));
    assert_int_equal(tw_diagnostics(f.ctx)->severity, TW_WARNING);
    assert_int_equal(tw_error_count(f.ctx), 0);
    tw_context_destroy(f.ctx);
}

static bool mark(tw_rewriter *rw, tw_op *op, const void *data)
{
    if (tw_op_attr(op, "by"))
        return false;
    tw_op_set_attr(op, "by", tw_attr_string(tw_rw_context(rw), data));
    tw_rw_changed(rw, op);
    return true;
}

static void higher_benefit_goes_first(void **state)
{
    (void)state;
    fixture f = make_fixture();
    make(&f.b, &def_use, make(&f.b, &def_leaf, NULL));
    const tw_pattern marks[] = {{"low", &def_use, 1, mark, "low"},
                                {"any", NULL, 2, mark, "any"},
                                {"high", &def_use, 3, mark, "high"}};
    tw_rewrite_greedily(f.ctx, f.root, marks, 3, UINT64_MAX, NULL);
    assert_string_equal(tw_op_string(f.root->regions[0].last, "by", ""), "high");
    assert_string_equal(tw_op_string(f.root->regions[0].first, "by", ""), "any");
    tw_context_destroy(f.ctx);
}

static bool erase_box(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    tw_rw_erase(rw, op);
    return true;
}

static void erasing_a_region_forgets_its_operations(void **state)
{
    (void)state;
    fixture f = make_fixture();
    tw_value *x = make(&f.b, &def_leaf, NULL);
    tw_op *box = tw_build(&f.b, &def_box, NULL, 0, NULL, 0, NULL);
    tw_builder inner = tw_builder_at_end(f.ctx, &box->regions[0], NULL);
    for (int i = 0; i < 100; i++)
        make(&inner, &def_use, make(&inner, &def_two, x));
    const tw_pattern p[] = {{"erase-box", &def_box, 1, erase_box, NULL}, cancel[1]};
    tw_rewrite_greedily(f.ctx, f.root, p, 2, UINT64_MAX, NULL);
    assert_int_equal(count_inside(f.root), 0); /* the leaf lost its last use */
    tw_context_destroy(f.ctx);
}

static tw_legality no_twos(const tw_op *op, void *data)
{
    return op->def == data ? TW_ILLEGAL : op->def == &def_leaf ? TW_LEGAL : TW_LEGAL_UNKNOWN;
}

static void conversion_rewrites_what_is_illegal(void **state)
{
    (void)state;
    fixture f = make_fixture();
    tw_value *arg = tw_region_add_arg(&f.root->regions[0], tw_type_scalar(f.ctx, TW_I32), "a");
    make(&f.b, &def_use, make(&f.b, &def_two, arg));
    assert_true(tw_convert(f.ctx, f.root, no_twos, (void *)&def_two, &cancel[1], 1));
    assert_int_equal(count_inside(f.root), 3);
    tw_op *first = f.root->regions[0].first;
    assert_ptr_equal(first->def, &def_neg);
    assert_ptr_equal(first->region, &f.root->regions[0]);
    assert_ptr_equal(tw_operand(first, 0), f.root->regions[0].args[0]);
    assert_ptr_equal(f.root->regions[0].args[0]->region, &f.root->regions[0]);
    tw_context_destroy(f.ctx);
}

static void failed_conversion_changes_nothing(void **state)
{
    (void)state;
    fixture f = make_fixture();
    tw_value *x = make(&f.b, &def_leaf, NULL);
    tw_value *two = make(&f.b, &def_two, make(&f.b, &def_neg, x));
    make(&f.b, &def_use, two);
    /* two(x) is rewritten, but neg, which is illegal, comes of it. */
    assert_false(tw_convert(f.ctx, f.root, no_twos, (void *)&def_neg, &cancel[1], 1));
    assert_int_equal(count_inside(f.root), 4);
    assert_ptr_equal(tw_operand(f.root->regions[0].last, 0), two);
    assert_true(tw_value_has_one_use(x));
    assert_int_equal(tw_error_count(f.ctx), 1);
    tw_context_destroy(f.ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_cancel_and_dead_ones_go),
        cmocka_unit_test(new_operations_are_visited),
        cmocka_unit_test(changes_are_bounded),
        cmocka_unit_test(endless_rules_end_with_a_warning),
        cmocka_unit_test(higher_benefit_goes_first),
        cmocka_unit_test(erasing_a_region_forgets_its_operations),
        cmocka_unit_test(conversion_rewrites_what_is_illegal),
        cmocka_unit_test(failed_conversion_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
