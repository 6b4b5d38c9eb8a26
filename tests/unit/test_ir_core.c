/* Tests of the IR's structure: use lists, places, order, cloning, walking. */
#include "tilewright/ir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const tw_op_def leaf = {.name = "t.leaf", .n_results = 1};
static const tw_op_def use = {.name = "t.use", .n_operands = -1};
static const tw_op_def box = {.name = "t.box", .n_regions = 2};

static tw_op *make(tw_builder *b, const tw_op_def *def, tw_value **operands, unsigned n)
{
    tw_type i32 = tw_type_scalar(b->ctx, TW_I32);
    return tw_build(b, def, operands, n, &i32, def->n_results > 0, NULL);
}

static void uses_follow_operands(void **state)
{
    (void)state;
    tw_context *ctx = tw_context_create(0);
    tw_op *root = tw_op_create(ctx, &box, NULL, NULL, 0, NULL, 0, NULL, 0, 2);
    tw_builder b = tw_builder_at_end(ctx, &root->regions[0], NULL);
    tw_value *x = tw_result(make(&b, &leaf, NULL, 0), 0);
    tw_value *y = tw_result(make(&b, &leaf, NULL, 0), 0);
    tw_op *u = make(&b, &use, (tw_value *[]){x, x, y}, 3);
    assert_true(tw_value_has_one_use(y));
    assert_false(tw_value_has_one_use(x));
    tw_value_replace_all(x, y);
    assert_null(x->uses);
    assert_ptr_equal(tw_operand(u, 0), y);
    tw_op_set_operands(u, (tw_value *[]){x}, 1);
    assert_null(y->uses);
    assert_true(tw_value_dominates(x, u));
    assert_false(tw_value_dominates(x, x->op));
    tw_op_erase(u);
    assert_null(x->uses);
    tw_context_destroy(ctx);
}

static void order_survives_many_inserts(void **state)
{
    (void)state;
    tw_context *ctx = tw_context_create(0);
    tw_op *root = tw_op_create(ctx, &box, NULL, NULL, 0, NULL, 0, NULL, 0, 2);
    tw_builder b = tw_builder_at_end(ctx, &root->regions[0], NULL);
    tw_op *first = make(&b, &leaf, NULL, 0);
    tw_op *last = make(&b, &leaf, NULL, 0);
    for (int i = 0; i < 1000; i++) { /* always right behind the first: exhausts any gap */
        b.before = first->next;
        make(&b, &leaf, NULL, 0);
    }
    for (tw_op *op = first; op != last; op = op->next) {
        assert_true(tw_op_is_before(op, op->next));
        assert_false(tw_op_is_before(op->next, op));
    }
    tw_context_destroy(ctx);
}

static bool count(tw_op *op, void *data)
{
    (void)op;
    ++*(int *)data;
    return true;
}

static void clones_are_complete(void **state)
{
    (void)state;
    tw_context *ctx = tw_context_create(0);
    tw_op *root = tw_op_create(ctx, &box, NULL, NULL, 0, NULL, 0, NULL, 0, 2);
    tw_op *at = root;
    for (int depth = 0; depth < 5000; depth++) { /* deeper than a recursion would survive */
        tw_builder b = tw_builder_at_end(ctx, &at->regions[depth % 2], NULL);
        tw_value *x = tw_result(make(&b, &leaf, NULL, 0), 0);
        at = make(&b, &box, NULL, 0);
        make(&b, &use, &x, 1);
        tw_region_add_arg(&at->regions[1], x->type, "arg");
    }
    tw_op *copy = tw_op_clone(tw_cloner_create(ctx), root);
    int n = 0, m = 0;
    tw_walk(root, count, &n);
    tw_walk(copy, count, &m);
    assert_int_equal(n, 1 + 5000 * 3);
    assert_int_equal(m, n);
    tw_op *u = copy->regions[0].last;
    assert_ptr_equal(u->def, &use);
    assert_ptr_equal(tw_operand(u, 0), tw_result(copy->regions[0].first, 0));
    assert_int_equal(copy->regions[0].first->next->regions[1].n_args, 1);
    tw_context_destroy(ctx);
}

static bool erase_uses(tw_op *op, void *data)
{
    (void)data;
    if (op->def == &use)
        tw_op_erase(op);
    return true;
}

static void walk_lets_visit_erase(void **state)
{
    (void)state;
    tw_context *ctx = tw_context_create(0);
    tw_op *root = tw_op_create(ctx, &box, NULL, NULL, 0, NULL, 0, NULL, 0, 2);
    for (int r = 0; r < 2; r++) {
        tw_builder b = tw_builder_at_end(ctx, &root->regions[r], NULL);
        for (int i = 0; i < 3; i++) {
            make(&b, &leaf, NULL, 0);
            make(&b, &use, NULL, 0);
        }
    }
    int n = 0;
    assert_true(tw_walk(root, erase_uses, NULL));
    tw_walk(root, count, &n);
    assert_int_equal(n, 1 + 6);
    tw_context_destroy(ctx);
}

static void attributes_and_types_are_unique(void **state)
{
    (void)state;
    tw_context *ctx = tw_context_create(0);
    assert_ptr_equal(tw_attr_int(ctx, 3), tw_attr_int(ctx, 3));
    assert_ptr_not_equal(tw_attr_int(ctx, 1), tw_attr_bool(ctx, true));
    assert_ptr_not_equal(tw_attr_float(ctx, 0.0), tw_attr_float(ctx, -0.0));
    int64_t values[2] = {1, 2};
    assert_ptr_equal(tw_attr_ints(ctx, values, 2), tw_attr_ints(ctx, values, 2));
    tw_named_attr ab[2] = {{"b", tw_attr_unit(ctx)}, {"a", tw_attr_int(ctx, 1)}};
    tw_named_attr ba[2] = {ab[1], ab[0]};
    assert_ptr_equal(tw_attr_dict(ctx, ab, 2), tw_attr_dict(ctx, ba, 2));
    assert_ptr_equal(tw_type_scalar(ctx, TW_F32), tw_type_scalar(ctx, TW_F32));
    assert_ptr_not_equal(tw_type_scalar(ctx, TW_F32), tw_type_scalar(ctx, TW_F64));
    assert_ptr_equal(tw_attr_string(ctx, "x"), tw_attr_string(ctx, "x"));
    assert_ptr_not_equal(tw_attr_string(ctx, "x"), tw_attr_symbol(ctx, "x"));
    tw_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uses_follow_operands),
        cmocka_unit_test(order_survives_many_inserts),
        cmocka_unit_test(clones_are_complete),
        cmocka_unit_test(walk_lets_visit_erase),
        cmocka_unit_test(attributes_and_types_are_unique),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
