/* Tests of docs/guide-matmul.md: every schedule in it goes through and keeps what the kernel
 * computes. The sizes are smaller than the page's, for the interpreter. */
#include "dialect/loop/loop.h"
#include "interp/interp.h"
#include "tilewright/compiler.h"
#include "tilewright/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE = 64, ELEMENTS = SIZE * SIZE, MAX_BLOCKS = 32 };

/* The page's indented pieces, without their indentation, 1024 being SIZE. */
typedef struct page {
    char *pieces[MAX_BLOCKS];
    unsigned n;
} page;

static void add_line(char **to, const char *line)
{
    size_t had = *to ? strlen(*to) : 0;
    *to = realloc(*to, had + strlen(line) + 1);
    assert_non_null(*to);
    char *out = *to + had;
    while (*line)
        if (!strncmp(line, "1024", 4)) {
            out += sprintf(out, "%d", SIZE);
            line += 4;
        } else {
            *out++ = *line++;
        }
    *out = 0;
}

static page read_page(void)
{
    page p = {.n = 0};
    char line[512];
    bool inside = false;
    FILE *file = fopen(GUIDE, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        bool code = !strncmp(line, "    ", 4);
        if (code && !inside)
            assert_true(p.n++ < MAX_BLOCKS);
        if (code)
            add_line(&p.pieces[p.n - 1], line + 4);
        inside = code;
    }
    fclose(file);
    return p;
}

static tw_op *parse(tw_context *ctx, const char *text)
{
    tw_op *module = tw_parse(ctx, text, strlen(text), "guide");
    if (!module || !tw_verify(ctx, module))
        fail_msg("%s", tw_diagnostic_text(ctx, tw_diagnostics(ctx)));
    return module->regions[0].first;
}

/* The product of whole numbers, exact in any order. */
static void run(tw_context *ctx, tw_op *kernel, float *y)
{
    static float x[ELEMENTS], w[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) {
        x[i] = (float)(i * 7 % 11 - 5);
        w[i] = (float)(i * 5 % 13 - 6);
    }
    tw_interp_buffer buffers[] = {{x, sizeof x}, {w, sizeof w}, {y, ELEMENTS * sizeof *y}};
    if (!tw_interp_run(ctx, kernel, buffers, 3, NULL))
        fail_msg("%s", tw_diagnostic_text(ctx, tw_diagnostics(ctx)));
}

static void schedules_of_the_guide_go_through(void **state)
{
    (void)state;
    static float want[ELEMENTS], got[ELEMENTS];
    page p = read_page();
    const char *kernel = NULL;
    unsigned schedules = 0;
    for (unsigned i = 0; i < p.n; i++) {
        tw_context *ctx = tw_context_create(0);
        assert_true(tw_register_all(ctx));
        if (!strncmp(p.pieces[i], "loop.kernel", 11)) {
            kernel = p.pieces[i];
            run(ctx, parse(ctx, kernel), want);
        } else if (!strncmp(p.pieces[i], "sched.schedule", 14)) {
            assert_non_null(kernel);
            tw_op *k = parse(ctx, kernel);
            if (!tw_schedule_replay(ctx, k, parse(ctx, p.pieces[i])))
                fail_msg("schedule %u: %s", schedules,
                         tw_diagnostic_text(ctx, tw_diagnostics(ctx)));
            run(ctx, k, got);
            assert_memory_equal(got, want, sizeof want);
            schedules++;
        }
        tw_context_destroy(ctx);
    }
    assert_int_equal(schedules, 6);
    for (unsigned i = 0; i < p.n; i++)
        free(p.pieces[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_of_the_guide_go_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
