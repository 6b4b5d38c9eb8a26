/* Tests of the index of lives that plan-memory looks buffers up in, and of plans as models need
 * them: small, and the same each time. */
#include "dialect/core/core.h"
#include "dialect/loop/loop.h"
#include "lower/lifetimes.h"
#include "tilewright/compiler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t state;
static unsigned below(unsigned n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)((state * 0x2545f4914f6cdd1dull >> 33) % n);
}

/* ---- Functions with buffers ---------------------------------------------------------- */

/* What the test knows of a buffer: calls are numbered. */
typedef struct life {
    tw_value *buffer;
    int64_t bytes;
    size_t first, last;
} life;

typedef struct made {
    tw_context *ctx;
    tw_op *module, *func;
    tw_builder b;
    life *lives;
    size_t n, calls;
} made;

static made make_function(size_t buffers)
{
    made m = {.ctx = tw_context_create(0), .n = buffers};
    assert_true(tw_register_all(m.ctx));
    m.module = tw_core_module(m.ctx, NULL, NULL);
    tw_builder b = tw_builder_at_end(m.ctx, tw_core_body(m.module), NULL);
    m.func = tw_core_func(&b, "main", tw_type_func(m.ctx, NULL, 0, NULL, 0), NULL);
    m.b = tw_builder_at_end(m.ctx, tw_core_body(m.func), NULL);
    m.lives = calloc(buffers + 1, sizeof *m.lives);
    return m;
}

static void add_buffer(made *m, size_t i, int64_t bytes)
{
    tw_expr dim = tw_expr_const(m->ctx, bytes);
    tw_type type = tw_type_buffer(m->ctx, TW_I8, 1, &dim, "");
    m->lives[i] = (life){tw_loop_alloc(&m->b, type, NULL), bytes, SIZE_MAX, 0};
}

/* The buffer, or a view of it. */
static tw_value *some_view(made *m, tw_value *buffer)
{
    if (below(3))
        return buffer;
    tw_expr dims[2] = {tw_expr_const(m->ctx, 1), buffer->type->dims[0]};
    tw_type type = tw_type_buffer(m->ctx, TW_I8, 2, dims, "");
    return tw_result(tw_build(&m->b, &tw_loop_ops[TW_LOOP_VIEW], &buffer, 1, &type, 1, NULL), 0);
}

static void add_call(made *m, const size_t *which, unsigned n)
{
    tw_value *args[8];
    for (unsigned i = 0; i < n; i++) {
        life *l = &m->lives[which[i]];
        args[i] = some_view(m, l->buffer);
        l->first = m->calls < l->first ? m->calls : l->first;
        l->last = m->calls;
    }
    tw_core_call(&m->b, "k", args, n, NULL, 0);
    m->calls++;
}

static int64_t padded(int64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* The largest sum of (padded) sizes at one call. */
static int64_t bound_of(const made *m)
{
    int64_t bound = 0;
    for (size_t c = 0; c < m->calls; c++) {
        int64_t sum = 0;
        for (size_t i = 0; i < m->n; i++)
            if (m->lives[i].first <= c && c <= m->lives[i].last)
                sum += padded(m->lives[i].bytes);
        bound = sum > bound ? sum : bound;
    }
    return bound;
}

/* Runs the pass; gives size / bound. */
static double check_plan(made *m)
{
    int64_t end = 0;
    tw_core_return(&m->b, NULL, 0);
    assert_true(tw_run_pipeline(m->ctx, m->module, "func(plan-memory)", NULL));
    for (size_t i = 0; i < m->n; i++) {
        int64_t offset = tw_op_int(m->lives[i].buffer->op, "offset", -1);
        assert_true(offset >= 0 && offset % 64 == 0);
        end = offset + padded(m->lives[i].bytes) > end ? offset + padded(m->lives[i].bytes) : end;
        for (size_t k = 0; k < i; k++) {
            int64_t other = tw_op_int(m->lives[k].buffer->op, "offset", -1);
            bool at_once =
                m->lives[i].first <= m->lives[k].last && m->lives[k].first <= m->lives[i].last;
            bool apart = offset + m->lives[i].bytes <= other || other + m->lives[k].bytes <= offset;
            assert_true(!at_once || apart);
        }
    }
    int64_t size = tw_op_int(m->func, "arena_size", -1);
    int64_t bound = tw_op_int(m->func, "arena_bound", -1);
    assert_int_equal(size, end);
    assert_int_equal(bound, bound_of(m));
    assert_true(size >= bound);
    return bound ? (double)size / (double)bound : 1;
}

static void destroy(made *m)
{
    free(m->lives);
    tw_context_destroy(m->ctx);
}

/* Buffers are made by a call and read by a few later ones, mostly soon. */
static made random_function(unsigned seed)
{
    state = seed * 0x9e3779b97f4a7c15ull + 1;
    unsigned n = 1 + below(60), kinds = below(3);
    made m = make_function(n);
    for (unsigned i = 0; i < n; i++) {
        add_buffer(&m, i,
                   kinds == 0   ? 256
                   : kinds == 1 ? 1 + (int64_t)below(4000)
                                : (int64_t)(1 + below(16)) << below(12));
        size_t which[4] = {i};
        unsigned k = 1 + below(4), used = 1;
        for (; used < k && i > 0; used++) {
            unsigned back = below(8) ? 1 + below(3) : 1 + below(i);
            which[used] = back > i ? 0 : i - back;
        }
        add_call(&m, which, used);
    }
    return m;
}

static void random_lives_do_not_overlap(void **unused)
{
    (void)unused;
    double sum = 0, worst = 0;
    enum { N = 300 };
    for (unsigned seed = 1; seed <= N; seed++) {
        made m = random_function(seed);
        double ratio = check_plan(&m);
        sum += ratio;
        worst = ratio > worst ? ratio : worst;
        destroy(&m);
    }
    print_message("size / bound: %.3f on average, %.3f at worst\n", sum / N, worst);
    assert_true(sum / N < 1.05 && worst < 1.5);
}

static void the_same_plan_each_time(void **unused)
{
    (void)unused;
    for (unsigned seed = 1; seed <= 20; seed++) {
        made a = random_function(seed), b = random_function(seed);
        check_plan(&a);
        check_plan(&b);
        assert_string_equal(tw_print(a.ctx, a.module, NULL), tw_print(b.ctx, b.module, NULL));
        destroy(&a);
        destroy(&b);
    }
}

static void a_tower_of_views_is_one_buffer(void **unused)
{
    (void)unused;
    made m = make_function(2);
    add_buffer(&m, 0, 64);
    add_buffer(&m, 1, 64);
    tw_value *top = m.lives[0].buffer;
    tw_type type = top->type;
    for (int i = 0; i < 200000; i++)
        top = tw_result(tw_build(&m.b, &tw_loop_ops[TW_LOOP_VIEW], &top, 1, &type, 1, NULL), 0);
    tw_core_call(&m.b, "k", &m.lives[1].buffer, 1, NULL, 0);
    tw_core_call(&m.b, "k", (tw_value *[]){top, m.lives[1].buffer}, 2, NULL, 0);
    tw_core_return(&m.b, NULL, 0);
    assert_true(tw_run_pipeline(m.ctx, m.module, "func(plan-memory)", NULL));
    assert_int_equal(tw_op_int(m.func, "arena_size", 0), 128);
    destroy(&m);
}

/* ---- The index ----------------------------------------------------------------------- */

static void finds_what_meets(void **unused)
{
    (void)unused;
    enum { ITEMS = 60 };
    for (unsigned seed = 1; seed <= 100; seed++) {
        state = seed * 0x9e3779b97f4a7c15ull + 1;
        tw_arena *arena = tw_arena_create(0);
        size_t steps = 1 + below(70), lives[ITEMS][2];
        tw_lifetimes *t = tw_lifetimes_create(arena, steps);
        for (size_t i = 0; i < ITEMS; i++) {
            size_t first = below((unsigned)steps);
            size_t last = first + below((unsigned)(steps - first));
            void *out[ITEMS];
            size_t n, want = 0;
            assert_true(tw_lifetimes_find(t, first, last, ITEMS, out, &n));
            for (size_t k = 0; k < i; k++) {
                bool meets = lives[k][0] <= last && first <= lives[k][1];
                size_t found = 0;
                for (size_t o = 0; o < n; o++)
                    found += out[o] == (void *)lives[k];
                assert_int_equal(found, meets);
                want += meets;
            }
            assert_int_equal(n, want);
            assert_true(!want || !tw_lifetimes_find(t, first, last, want - 1, out, &n));
            lives[i][0] = first;
            lives[i][1] = last;
            tw_lifetimes_add(t, first, last, lives[i]);
        }
        tw_arena_destroy(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_lives_do_not_overlap),
        cmocka_unit_test(the_same_plan_each_time),
        cmocka_unit_test(a_tower_of_views_is_one_buffer),
        cmocka_unit_test(finds_what_meets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
