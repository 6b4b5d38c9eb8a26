/* Tests of the pass manager: pipelines in text, anchors, options, dumps, disabling, bisection. */
#include "tilewright/ir.h"

#include "base/suggest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const tw_op_def defs[] = {
    {.name = "core.box", .n_regions = 1, .kind = 0},
    {.name = "core.item", .n_regions = 1, .kind = 1},
};
static const tw_dialect dialect = {.name = "core", .ops = defs, .n_ops = 2};

static char trail[1024]; /* what ran, in order */

static bool run_log(tw_pass_run *run)
{
    size_t n = strlen(trail);
    snprintf(trail + n, sizeof trail - n, "%s:%s(%lld,%s,%lld) ", run->pass->name,
             tw_op_string(run->root, "sym_name", "?"), (long long)tw_pass_int(run, "x", -1),
             tw_pass_string(run, "s", "-"), (long long)tw_pass_int(run, "flag", 0));
    uint64_t bound = run->max_changes < 2 ? run->max_changes : 2;
    run->changes += bound; /* two changes, if it may */
    return true;
}

static bool run_fail(tw_pass_run *run)
{
    (void)run;
    return false;
}

/* Leaves an operation that its table row does not allow. */
static bool run_break(tw_pass_run *run)
{
    tw_builder b = tw_builder_at_end(run->ctx, &run->root->regions[0], NULL);
    tw_type type = tw_type_scalar(run->ctx, TW_I32);
    tw_build(&b, &defs[1], NULL, 0, &type, 1, NULL);
    return true;
}

static const tw_attr_spec log_options[] = {
    {"x", TW_ATTR_INT, false, ""},
    {"s", TW_ATTR_STRING, false, ""},
    {"flag", TW_ATTR_UNIT, false, ""},
    {0},
};
static const tw_attr_spec must_options[] = {{"x", TW_ATTR_INT, true, ""}, {0}};

static const tw_pass passes[] = {
    {"on-box", "", "core.box", true, run_log, log_options},
    {"on-item", "", "core.item", true, run_log, log_options},
    {"must", "", "core.box", false, run_log, must_options},
    {"fail", "", "core.item", false, run_fail, NULL},
    {"break", "", "core.box", false, run_break, NULL},
};

typedef struct fixture {
    tw_context *ctx;
    tw_op *root;
} fixture;

static tw_op *add_item(tw_context *ctx, tw_op *parent, const char *name)
{
    tw_builder b = tw_builder_at_end(ctx, &parent->regions[0], NULL);
    return tw_build(&b, &defs[1], NULL, 0, NULL, 0, "sym_name", tw_attr_symbol(ctx, name), NULL);
}

/* box @box { item @a { item @inner } item @b } */
static fixture make_fixture(void)
{
    fixture f = {.ctx = tw_context_create(0)};
    trail[0] = 0;
    tw_dialect_register(f.ctx, &dialect);
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++)
        assert_true(tw_pass_register(f.ctx, &passes[i]));
    tw_named_attr name = {"sym_name", tw_attr_symbol(f.ctx, "box")};
    f.root = tw_op_create(f.ctx, &defs[0], NULL, NULL, 0, NULL, 0, &name, 1, 1);
    add_item(f.ctx, add_item(f.ctx, f.root, "a"), "inner");
    add_item(f.ctx, f.root, "b");
    return f;
}

static bool run(fixture *f, const char *pipeline)
{
    return tw_run_pipeline(f->ctx, f->root, pipeline, NULL);
}

static void passes_run_on_their_anchors(void **state)
{
    (void)state;
    fixture f = make_fixture();
    assert_true(run(&f, "on-box, on-item"));
    assert_string_equal(trail, "on-box:box(-1,-,0) on-item:a(-1,-,0) on-item:b(-1,-,0) ");
    tw_context_destroy(f.ctx);
}

static void nested_lists_run_on_each(void **state)
{
    (void)state;
    fixture f = make_fixture();
    assert_true(run(&f, "item(on-item{x=1},on-item{x=2}),core.item()"));
    assert_string_equal(trail, "on-item:a(1,-,0) on-item:a(2,-,0) on-item:b(1,-,0) "
                               "on-item:b(2,-,0) ");
    tw_context_destroy(f.ctx);
}

static void options_are_read(void **state)
{
    (void)state;
    fixture f = make_fixture();
    assert_true(run(&f, "on-box{ x=-0x10 s=\"a, b}\" flag },on-box{s=w,x=3}, on-box{}"));
    assert_string_equal(trail, "on-box:box(-16,a, b},1) on-box:box(3,w,0) on-box:box(-1,-,0) ");
    assert_true(run(&f, ""));
    tw_context_destroy(f.ctx);
}

static void expect_error(fixture *f, const char *pipeline, const char *text)
{
    tw_diagnostics_clear(f->ctx);
    assert_false(run(f, pipeline));
    assert_int_equal(tw_error_count(f->ctx), 1);
    if (!strstr(tw_diagnostics(f->ctx)->message, text))
        fail_msg("'%s' gives: %s", pipeline, tw_diagnostics(f->ctx)->message);
}

static void mistakes_are_named_and_nothing_runs(void **state)
{
    (void)state;
    fixture f = make_fixture();
    expect_error(&f, "on-box,on-itme", "no pass 'on-itme'; did you mean 'on-item'?");
    expect_error(&f, "on-box,zzzz", "no pass 'zzzz'");
    expect_error(&f, "itm(on-item)", "did you mean 'core.item'?");
    expect_error(&f, "on-box{y=1}", "no option 'y'");
    expect_error(&f, "on-box{x=1 x=2}", "given twice");
    expect_error(&f, "on-box{x=one}", "must be an integer");
    expect_error(&f, "on-box{x}", "needs a value");
    expect_error(&f, "on-box{x=}", "expected a value");
    expect_error(&f, "on-box{x=1", "expected an option or '}'");
    expect_error(&f, "on-box,", "expected the name of a pass, but the text ends here");
    expect_error(&f, "item(on-item", "expected ',' or ')'");
    expect_error(&f, "on-box)", "column 7: expected ',' or the end");
    expect_error(&f, "must", "needs the option 'x'");
    assert_string_equal(trail, "");
    expect_error(&f, "item(on-box)", "cannot be nested in core.item");
    tw_context_destroy(f.ctx);
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    fixture f = make_fixture();
    char text[6000] = "";
    for (int i = 0; i < 1000; i++)
        strcat(text, "item(");
    expect_error(&f, text, "less nesting");
    tw_context_destroy(f.ctx);
}

static void failures_name_the_pass(void **state)
{
    (void)state;
    fixture f = make_fixture();
    expect_error(&f, "fail,on-box", "pass 'fail' failed");
    assert_string_equal(trail, "");
    tw_pipeline_options options = {.verify_each = true};
    tw_diagnostics_clear(f.ctx);
    assert_false(tw_run_pipeline(f.ctx, f.root, "on-box,break,on-box", &options));
    const tw_diagnostic *last = tw_diagnostics(f.ctx);
    while (last->next)
        last = last->next;
    assert_string_equal(last->message, "pass 'break' left invalid IR");
    assert_string_equal(trail, "on-box:box(-1,-,0) ");
    tw_context_destroy(f.ctx);
}

static void only_optional_passes_can_be_disabled(void **state)
{
    (void)state;
    fixture f = make_fixture();
    tw_pipeline_options options = {.disable = (const char *[]){"on-item", NULL}};
    assert_true(tw_run_pipeline(f.ctx, f.root, "on-box,item(on-item),on-item", &options));
    assert_string_equal(trail, "on-box:box(-1,-,0) ");
    options.disable = (const char *[]){"must", NULL};
    assert_false(tw_run_pipeline(f.ctx, f.root, "on-box", &options));
    options.disable = (const char *[]){"on-bx", NULL};
    assert_false(tw_run_pipeline(f.ctx, f.root, "on-box", &options));
    assert_int_equal(tw_error_count(f.ctx), 2);
    tw_context_destroy(f.ctx);
}

static char titles[512];

static void note_dump(void *data, const char *title, const char *text)
{
    (void)data;
    assert_non_null(text);
    strcat(strcat(titles, title), "; ");
}

static void dumps_have_titles(void **state)
{
    (void)state;
    fixture f = make_fixture();
    titles[0] = 0;
    tw_pipeline_options options = {.dump_before = "on-box", .dump_after = "all", .dump = note_dump};
    assert_true(tw_run_pipeline(f.ctx, f.root, "on-box,on-item", &options));
    assert_string_equal(titles, "before on-box on core.box @box; after on-box on core.box @box; "
                                "after on-item on core.item @a; after on-item on core.item @b; ");
    options.dump_before = "on-bxo";
    assert_false(tw_run_pipeline(f.ctx, f.root, "on-box", &options));
    tw_context_destroy(f.ctx);
}

static void changes_are_counted_and_bounded_over_anchors(void **state)
{
    (void)state;
    fixture f = make_fixture();
    tw_pipeline_options options = {.timing = true};
    assert_true(tw_run_pipeline(f.ctx, f.root, "on-item{max-changes=3},on-box", &options));
    const char *report = tw_pipeline_report(f.ctx);
    assert_non_null(strstr(report, "     2         3  on-item")); /* runs, changes */
    assert_non_null(strstr(report, "     1         2  on-box"));
    tw_context_destroy(f.ctx);
}

static void suggestions_are_near(void **state)
{
    (void)state;
    tw_suggestion s = {.name = "fuse-osp"};
    tw_suggest(&s, "dce");
    assert_null(s.best);
    tw_suggest(&s, "fuse");
    tw_suggest(&s, "fuse-ops");
    tw_suggest(&s, "fuse-xxx");
    assert_string_equal(s.best, "fuse-ops");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_run_on_their_anchors),
        cmocka_unit_test(nested_lists_run_on_each),
        cmocka_unit_test(options_are_read),
        cmocka_unit_test(mistakes_are_named_and_nothing_runs),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(failures_name_the_pass),
        cmocka_unit_test(only_optional_passes_can_be_disabled),
        cmocka_unit_test(dumps_have_titles),
        cmocka_unit_test(changes_are_counted_and_bounded_over_anchors),
        cmocka_unit_test(suggestions_are_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
