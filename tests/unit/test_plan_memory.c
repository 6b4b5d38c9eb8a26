/* Tests of plan-memory: buffers that live at once lie apart, gaps are used, and plans are small. */
#include "tilewright/compiler.h"

#include "dialect/core/core.h"
#include "dialect/loop/loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* A buffer of `size` bytes that calls number first to last use. */
typedef struct life {
    int64_t size;
    unsigned first, last;
    tw_value *buffer;
    tw_op *alloc;
} life;

typedef struct plan {
    tw_context *ctx;
    tw_op *main;
} plan;

static void begin(plan *p)
{
    p->ctx = tw_context_create(0);
    assert_true(tw_register_all(p->ctx));
}

/* A function with that many calls, each with the buffers that live then; then the pass. Every
 * third buffer is passed as a view of a view. */
static void run_plan(plan *p, life *lives, size_t n, unsigned calls)
{
    tw_op *module = tw_core_module(p->ctx, NULL, NULL);
    tw_builder b = tw_builder_at_end(p->ctx, tw_core_body(module), NULL);
    p->main = tw_core_func(&b, "main", tw_type_func(p->ctx, NULL, 0, NULL, 0), NULL);
    b = tw_builder_at_end(p->ctx, tw_core_body(p->main), NULL);
    tw_value **args = calloc(n + 1, sizeof *args);
    for (unsigned c = 0; c < calls; c++) {
        unsigned n_args = 0;
        for (size_t i = 0; i < n; i++) {
            life *l = &lives[i];
            if (c == l->first) {
                tw_expr size = tw_expr_const(p->ctx, l->size);
                tw_type type = tw_type_buffer(p->ctx, TW_I8, 1, &size, "");
                l->buffer = tw_loop_alloc(&b, type, NULL);
                l->alloc = l->buffer->op;
                for (int views = 0; i % 3 == 0 && views < 2; views++)
                    l->buffer = tw_result(
                        tw_build(&b, &tw_loop_ops[TW_LOOP_VIEW], &l->buffer, 1, &type, 1, NULL), 0);
            }
            if (c == l->first || c == l->last)
                args[n_args++] = l->buffer;
        }
        tw_core_call(&b, "f", args, n_args, NULL, 0);
    }
    tw_core_return(&b, NULL, 0);
    free(args);
    tw_pipeline_options options = {0};
    assert_true(tw_run_pipeline(p->ctx, module, "func(plan-memory)", &options));
}

static int64_t offset_of(const life *l)
{
    int64_t offset = tw_op_int(l->alloc, "offset", -1);
    assert_true(offset >= 0 && offset % 64 == 0);
    return offset;
}

static void check_apart(const plan *p, const life *lives, size_t n)
{
    int64_t arena = tw_op_int(p->main, "arena_size", -1);
    assert_true(arena >= tw_op_int(p->main, "arena_bound", -1));
    for (size_t i = 0; i < n; i++) {
        int64_t a = offset_of(&lives[i]);
        assert_true(a + lives[i].size <= arena);
        for (size_t k = 0; k < i; k++) {
            int64_t b = offset_of(&lives[k]);
            if (lives[i].first <= lives[k].last && lives[k].first <= lives[i].last)
                assert_true(a + lives[i].size <= b || b + lives[k].size <= a);
        }
    }
}

/* Each buffer is read by the call behind the one that writes it: two places are enough. */
static void chain_takes_two_places(void **state)
{
    (void)state;
    plan p;
    begin(&p);
    life lives[100];
    for (unsigned i = 0; i < 100; i++)
        lives[i] = (life){.size = 1000, .first = i, .last = i + 1};
    run_plan(&p, lives, 100, 102);
    check_apart(&p, lives, 100);
    assert_int_equal(tw_op_int(p.main, "arena_size", 0), 2 * 1024);
    tw_context_destroy(p.ctx);
}

/* A small buffer fits between large ones that live at other times. */
static void gaps_are_used(void **state)
{
    (void)state;
    plan p;
    begin(&p);
    life lives[] = {
        {.size = 4096, .first = 0, .last = 1}, {.size = 2048, .first = 1, .last = 4},
        {.size = 1024, .first = 2, .last = 3}, {.size = 4096, .first = 4, .last = 5},
        {.size = 0, .first = 0, .last = 5},
    };
    run_plan(&p, lives, 5, 6);
    check_apart(&p, lives, 5);
    assert_int_equal(tw_op_int(p.main, "arena_bound", 0), 6144);
    assert_int_equal(tw_op_int(p.main, "arena_size", 0), 6144);
    assert_true(offset_of(&lives[2]) < 4096);
    tw_context_destroy(p.ctx);
}

static void random_lives(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < 20; seed++) {
        plan p;
        begin(&p);
        srand(seed);
        life lives[200];
        for (unsigned i = 0; i < 200; i++) {
            unsigned first = (unsigned)rand() % 150,
                     length = (unsigned)rand() % (seed < 10 ? 5 : 90);
            unsigned last = first + length < 149 ? first + length : 149;
            lives[i] = (life){.size = rand() % 5000, .first = first, .last = last};
        }
        run_plan(&p, lives, 200, 150);
        check_apart(&p, lives, 200);
        tw_context_destroy(p.ctx);
    }
}

/* More at once than gaps are looked for. */
static void thousands_live_at_once(void **state)
{
    (void)state;
    enum { N = 3000 };
    plan p;
    begin(&p);
    life *lives = calloc(N, sizeof *lives);
    for (unsigned i = 0; i < N; i++)
        lives[i] = (life){.size = 1 + (i * 7919) % 300, .first = i % 7, .last = 10 + i % 5};
    run_plan(&p, lives, N, 20);
    check_apart(&p, lives, N);
    free(lives);
    tw_context_destroy(p.ctx);
}

static void too_large(void **state)
{
    (void)state;
    plan p;
    begin(&p);
    tw_op *module = tw_core_module(p.ctx, NULL, NULL);
    tw_builder b = tw_builder_at_end(p.ctx, tw_core_body(module), NULL);
    p.main = tw_core_func(&b, "main", tw_type_func(p.ctx, NULL, 0, NULL, 0), NULL);
    b = tw_builder_at_end(p.ctx, tw_core_body(p.main), NULL);
    tw_expr size = tw_expr_const(p.ctx, (int64_t)1 << 60);
    tw_loop_alloc(&b, tw_type_buffer(p.ctx, TW_F64, 1, &size, ""), NULL);
    tw_core_return(&b, NULL, 0);
    tw_pipeline_options options = {0};
    assert_false(tw_run_pipeline(p.ctx, module, "func(plan-memory)", &options));
    assert_non_null(tw_diagnostics(p.ctx));
    tw_context_destroy(p.ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chain_takes_two_places),
        cmocka_unit_test(gaps_are_used),
        cmocka_unit_test(random_lives),
        cmocka_unit_test(thousands_live_at_once),
        cmocka_unit_test(too_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
