/* test_sequences.c: sequences and optionals as inputs and outputs of a session: any length and
 * sizes from one compilation, memory that stays, errors for what does not fit. */
#include "sequence_model.h"
#include "tilewright/compiler.h"
#include "tilewright/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

enum { WIDTH = 3, MOST = 40 };

static tw_model *compile(int level)
{
    char path[] = "/tmp/tw_sequences_XXXXXX";
    int file = mkstemp(path), fd = -1;
    assert_true(file >= 0);
    pb model = sequence_model();
    assert_int_equal(write(file, model.data, model.size), model.size);
    free(model.data);
    close(file);
    tw_context *ctx = tw_context_create(0);
    tw_compile_options options = {.opt_level = level};
    bool fine = tw_compile_to_fd(ctx, path, &options, &fd);
    for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
        print_error("%s\n", tw_diagnostic_text(ctx, d));
    assert_true(fine);
    tw_context_destroy(ctx);
    unlink(path);
    tw_model *loaded;
    if (tw_model_load_fd(fd, "sequences", NULL, &loaded) != TW_STATUS_OK)
        fail_msg("%s", tw_last_error());
    close(fd);
    return loaded;
}

static int set_up(void **state)
{
    *state = compile(3);
    return 0;
}

static int tear_down(void **state)
{
    tw_model_free(*state);
    return 0;
}

static tw_session *open(tw_model *model)
{
    tw_session *s;
    assert_int_equal(tw_session_create(model, NULL, &s), TW_STATUS_OK);
    return s;
}

/* Element k of the input has 1 + k % 4 rows of numbers k + 1. */
static float data[MOST][4 * WIDTH], x[2 * WIDTH];
static int64_t dims[MOST][2];

static void set_inputs(tw_session *s, size_t n, const int64_t *trips, const int64_t *p)
{
    tw_element elements[MOST];
    const int64_t two[] = {2, WIDTH};
    for (size_t k = 0; k < n; k++) {
        dims[k][0] = 1 + (int64_t)k % 4;
        dims[k][1] = WIDTH;
        for (int i = 0; i < 4 * WIDTH; i++)
            data[k][i] = (float)k + 1;
        elements[k] = (tw_element){data[k], dims[k], 2};
    }
    for (int i = 0; i < 2 * WIDTH; i++)
        x[i] = 1000;
    assert_int_equal(tw_session_set_input_sequence(s, SEQ_IN_S, elements, n), TW_STATUS_OK);
    assert_int_equal(tw_session_set_input_shape(s, SEQ_IN_X, x, two, 2), TW_STATUS_OK);
    assert_int_equal(tw_session_set_input(s, SEQ_IN_TRIPS, trips, 8), TW_STATUS_OK);
    assert_int_equal(tw_session_set_input(s, SEQ_IN_P, p, 8), TW_STATUS_OK);
}

/* Element k of all `n` that are there behind `trips` insertions. */
static void check_element(const tw_element *e, int64_t trips, size_t k)
{
    bool inserted = (int64_t)k < trips;
    size_t own = k - (size_t)trips;
    assert_int_equal(e->rank, 2);
    assert_int_equal(e->dims[0], inserted ? 2 : 1 + own % 4);
    assert_int_equal(e->dims[1], WIDTH);
    for (int64_t i = 0; i < e->dims[0] * WIDTH; i++)
        assert_true(((const float *)e->data)[i] == (inserted ? -1000 : (float)own + 1));
}

static void check_outputs(const tw_session *s, size_t n, int64_t trips, int64_t p)
{
    size_t all = n + (size_t)trips, at = (size_t)(p < 0 ? p + (int64_t)all : p), rows = 0;
    tw_element e;
    assert_int_equal(tw_session_output_length(s, SEQ_OUT_GROWN), all);
    assert_int_equal(tw_session_output_length(s, SEQ_OUT_FIRST), all - 1);
    for (size_t k = 0; k < all; k++) {
        assert_true(tw_session_output_element(s, SEQ_OUT_GROWN, k, &e));
        check_element(&e, trips, k);
        rows += (size_t)e.dims[0];
        if (k == at)
            continue;
        assert_true(tw_session_output_element(s, SEQ_OUT_FIRST, k - (k > at), &e));
        check_element(&e, trips, k);
    }
    assert_false(tw_session_output_element(s, SEQ_OUT_GROWN, all, &e));
    assert_null(e.data);
    e = (tw_element){tw_session_output(s, SEQ_OUT_Y, NULL), tw_session_output_dims(s, SEQ_OUT_Y),
                     2};
    check_element(&e, trips, at);
    assert_int_equal(tw_session_output_dims(s, SEQ_OUT_ALL)[0], rows);
    assert_null(tw_session_output(s, SEQ_OUT_GROWN, NULL));
    assert_null(tw_session_output_dims(s, SEQ_OUT_GROWN));
    assert_int_equal(tw_session_output_length(s, SEQ_OUT_Y), -1);
}

static void any_length(void **state)
{
    static const struct {
        size_t n;
        int64_t trips, p;
    } cases[] = {{3, 0, 0}, {3, 2, -1}, {0, 1, 0}, {1, 0, -1}, {MOST, 7, 20}, {2, 5, -7}};
    (void)state;
    for (int level = 0; level <= 3; level += 3) {
        tw_model *model = compile(level);
        tw_session *s = open(model);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            set_inputs(s, cases[i].n, &cases[i].trips, &cases[i].p);
            if (tw_session_run(s) != TW_STATUS_OK)
                fail_msg("%s", tw_last_error());
            memset(data, 0, sizeof data); /* outputs have copies */
            check_outputs(s, cases[i].n, cases[i].trips, cases[i].p);
            assert_int_equal(tw_session_output_length(s, SEQ_OUT_BACK), -1);
        }
        tw_session_destroy(s);
        tw_model_free(model);
    }
}

static void optional(void **state)
{
    tw_session *s = open(*state);
    const int64_t one = 1, size = 5;
    const float values[5] = {1, 2, 3, 4, 5};
    tw_element e;
    set_inputs(s, 2, &one, &one);
    assert_int_equal(tw_session_set_input_shape(s, SEQ_IN_MAYBE, values, &size, 1), TW_STATUS_OK);
    assert_int_equal(tw_session_run(s), TW_STATUS_OK);
    assert_int_equal(tw_session_output_length(s, SEQ_OUT_BACK), 1);
    assert_true(tw_session_output_element(s, SEQ_OUT_BACK, 0, &e));
    assert_int_equal(e.dims[0], 5);
    assert_memory_equal(e.data, values, sizeof values);
    assert_ptr_not_equal(e.data, values);
    assert_int_equal(tw_session_set_input_absent(s, SEQ_IN_MAYBE), TW_STATUS_OK);
    assert_int_equal(tw_session_run(s), TW_STATUS_OK);
    assert_int_equal(tw_session_output_length(s, SEQ_OUT_BACK), -1);
    tw_session_destroy(s);
}

static void description(void **state)
{
    const tw_tensor_info *in = tw_model_input(*state, SEQ_IN_S);
    assert_int_equal(in->kind, TW_VALUE_SEQUENCE);
    assert_int_equal(in->rank, 2);
    assert_int_equal(in->dims[0], -1);
    assert_int_equal(in->dims[1], WIDTH);
    assert_false(in->is_static || in->any_rank);
    assert_int_equal(tw_model_input(*state, SEQ_IN_X)->kind, TW_VALUE_TENSOR);
    assert_int_equal(tw_model_input(*state, SEQ_IN_MAYBE)->kind, TW_VALUE_OPTIONAL);
    assert_int_equal(tw_model_output(*state, SEQ_OUT_FIRST)->kind, TW_VALUE_SEQUENCE);
    assert_int_equal(tw_model_output(*state, SEQ_OUT_BACK)->kind, TW_VALUE_OPTIONAL);
}

#define EXPECT(status, text)                                                                       \
    do {                                                                                           \
        assert_int_equal(status, TW_STATUS_INVALID);                                               \
        if (!strstr(tw_last_error(), text))                                                        \
            fail_msg("%s", tw_last_error());                                                       \
    } while (0)

static void misuse(void **state)
{
    tw_session *s = open(*state);
    const int64_t good[] = {1, WIDTH}, wide[] = {1, 4}, bad[] = {-1, WIDTH},
                  huge[] = {1ll << 61, 3};
    const tw_element e = {x, good, 2};
    EXPECT(tw_session_run(s), "input 's' has not been set");
    EXPECT(tw_session_set_input(s, SEQ_IN_S, x, sizeof x), "is a sequence: see");
    EXPECT(tw_session_set_input_shape(s, SEQ_IN_S, x, good, 2), "is a sequence: see");
    EXPECT(tw_session_set_output(s, SEQ_OUT_GROWN, x, sizeof x), "is a sequence: see");
    EXPECT(tw_session_set_input_sequence(s, SEQ_IN_X, &e, 1), "'x' is a tensor");
    EXPECT(tw_session_set_input_sequence(s, 9, &e, 1), "no input 9");
    EXPECT(tw_session_set_input_absent(s, SEQ_IN_S), "is no optional");
    EXPECT(tw_session_set_input_sequence(s, SEQ_IN_MAYBE, NULL, 0), "one tensor or absent");
    EXPECT(tw_session_set_input_sequence(s, SEQ_IN_S, &(tw_element){x, good, 1}, 1), "rank 1");
    EXPECT(tw_session_set_input_sequence(s, SEQ_IN_S, &(tw_element){x, wide, 2}, 1), "is 4");
    EXPECT(tw_session_set_input_sequence(s, SEQ_IN_S, &(tw_element){x, bad, 2}, 1), "is -1");
    EXPECT(tw_session_set_input_sequence(s, SEQ_IN_S, &(tw_element){x, huge, 2}, 1), "too large");
    EXPECT(tw_session_set_input_sequence(s, SEQ_IN_S, &(tw_element){NULL, good, 2}, 1), "no data");
    EXPECT(tw_session_set_input_sequence(s, SEQ_IN_S, &(tw_element){(char *)x + 1, good, 2}, 1),
           "not aligned");
    tw_session_destroy(s);
}

static void errors_of_runs(void **state)
{
    tw_session *s = open(*state);
    const int64_t trips = 2, far = 9, none = 0;
    set_inputs(s, 3, &trips, &far);
    assert_int_equal(tw_session_run(s), TW_STATUS_RUN);
    assert_non_null(
        strstr(tw_last_error(), "node SequenceAt (of 'y'): position 9 of a sequence of 5"));
    assert_int_equal(tw_session_output_length(s, SEQ_OUT_GROWN), -1);
    set_inputs(s, 0, &none, &none);
    assert_int_equal(tw_session_run(s), TW_STATUS_RUN);
    set_inputs(s, 2, &trips, &none);
    assert_int_equal(tw_session_run(s), TW_STATUS_OK);
    check_outputs(s, 2, 2, 0);
    tw_session_destroy(s);
}

/* Resident kilobytes. */
static long resident(void)
{
    long pages = 0, total;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &total, &pages), 2);
    fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void memory_stays(void **state)
{
    tw_session *s = open(*state);
    int64_t trips = 60, p = 0;
    set_inputs(s, MOST, &trips, &p);
    assert_int_equal(tw_session_run(s), TW_STATUS_OK);
    long before = resident();
    for (int i = 0; i < 1000; i++) {
        trips = i * 7 % 50 + 1;
        p = i % 2 ? -1 : 0;
        set_inputs(s, (size_t)i % MOST, &trips, &p);
        if (tw_session_run(s) != TW_STATUS_OK)
            fail_msg("%s", tw_last_error());
    }
#ifndef __SANITIZE_ADDRESS__ /* which keeps what is freed for a while, and sees leaks itself */
    assert_in_range(resident(), 0, before + 1024);
#endif
    (void)before;
    tw_session_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_length),     cmocka_unit_test(optional),
        cmocka_unit_test(description),    cmocka_unit_test(misuse),
        cmocka_unit_test(errors_of_runs), cmocka_unit_test(memory_stays),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
