/* tilewright_check.c: tilewright check MODEL --data X.npz. */
#include "tilewright.h"

#include "base/arena.h"
#include "ir/scalar.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_DATA = 512, OPT_RTOL, OPT_ATOL, OPT_CHECK_THREADS };

typedef struct check_verb {
    tw_compile_args compile;
    const char *model, *data;
    double rtol, atol;
    unsigned threads;
} check_verb;

static const struct argp_option options[] = {
    {"data", OPT_DATA, "X.npz", 0, "Arrays in/NAME and out/NAME (required)", 0},
    {"rtol", OPT_RTOL, "R", 0, "Relative tolerance (default 1e-3)", 0},
    {"atol", OPT_ATOL, "A", 0, "Absolute tolerance (default 1e-4)", 0},
    {"threads", OPT_CHECK_THREADS, "N", 0, "Threads to run with", 0},
    {0},
};

static bool parse_tolerance(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end && *out >= 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    check_verb *v = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &v->compile;
        break;
    case OPT_DATA:
        v->data = arg;
        break;
    case OPT_RTOL:
    case OPT_ATOL:
        if (!parse_tolerance(arg, key == OPT_RTOL ? &v->rtol : &v->atol))
            argp_error(state, "a tolerance is a number not below 0, not '%s'", arg);
        break;
    case OPT_CHECK_THREADS:
        v->threads = (unsigned)strtoul(arg, NULL, 10);
        if (v->threads < 1 || v->threads > 1024)
            argp_error(state, "--threads takes a number from 1 to 1024, not '%s'", arg);
        break;
    case ARGP_KEY_ARG:
        if (v->model)
            argp_error(state, "one MODEL, not also '%s'", arg);
        v->model = arg;
        break;
    case ARGP_KEY_END:
        if (!v->model)
            argp_error(state, "which MODEL?");
        if (!v->data)
            argp_error(state, "--data X.npz is missing");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_child children[] = {{&tw_compile_argp, 0, 0, 0}, {0}};
static const struct argp argp = {
    options,
    parse,
    "MODEL --data X.npz",
    "Run a model on reference inputs and compare with the reference outputs: each element must be "
    "within A + R * |reference|. Prints the worst error of each output.",
    children,
    0,
    0};

static double real_of(tw_elem elem, const void *data, size_t i)
{
    tw_number n = tw_scalar_load(elem, data, i);
    return tw_elem_is_float(elem) ? n.real : (double)n.integer;
}

/* Compares one output and prints a line; false when an element is off. */
static bool compare(const check_verb *v, const tw_array *expected, const void *actual)
{
    size_t n = expected->size * 8 / tw_elem_bits(expected->elem), wrong = 0, worst_at = 0;
    double worst = 0, worst_excess = -1, largest = 0;
    for (size_t i = 0; i < n; i++) {
        double want = real_of(expected->elem, expected->data, i);
        double got = real_of(expected->elem, actual, i);
        bool same = want == got || (isnan(want) && isnan(got));
        double error = same ? 0 : fabs(want - got);
        double excess = error - (v->atol + v->rtol * fabs(want));
        wrong += !same && !(excess <= 0); /* a NaN on one side is off */
        if (fabs(want) > largest && isfinite(want))
            largest = fabs(want);
        if (excess > worst_excess || isnan(excess)) {
            worst_excess = isnan(excess) ? INFINITY : excess;
            worst_at = i;
        }
        if (error > worst || isnan(error))
            worst = isnan(error) ? INFINITY : error;
    }
    printf("%s: max error %.3g (largest value %.3g)%s", expected->name, worst, largest,
           wrong ? "" : ", ok\n");
    if (wrong)
        printf(", %zu of %zu off; worst at element %zu: %.9g, should be %.9g\n", wrong, n, worst_at,
               real_of(expected->elem, actual, worst_at),
               real_of(expected->elem, expected->data, worst_at));
    return !wrong;
}

static bool compare_all(const check_verb *v, const tw_model *model, const tw_session *session,
                        const tw_arrays *expected)
{
    bool fine = true;
    size_t compared = 0;
    for (size_t i = 0; i < tw_model_get_info(model)->outputs; i++) {
        const tw_tensor_info *info = tw_model_output(model, i);
        const int64_t *dims = tw_session_output_dims(session, i);
        const tw_array *want = tw_arrays_find(expected, info->name);
        if (!want) {
            printf("%s: no reference\n", info->name);
            continue;
        }
        compared++;
        bool same = want->elem == info->elem && want->rank == info->rank;
        for (unsigned d = 0; same && d < want->rank; d++)
            same = want->dims[d] == dims[d];
        if (!same)
            printf("%s: shape or element type differs from the reference\n", info->name);
        fine = same && compare(v, want, tw_session_output(session, i, NULL)) && fine;
    }
    if (!compared)
        return tw_error(v->compile.ctx, NULL,
                        "%s has a reference (out/NAME) for none of the outputs", v->data);
    return fine;
}

static bool check(check_verb *v)
{
    tw_context *ctx = v->compile.ctx;
    tw_input_args input = {.npz = v->data};
    tw_arrays given, expected;
    tw_model *model;
    if (!tw_prepare(&v->compile) || !tw_read_inputs(ctx, &input, "in/", &given) ||
        !tw_read_inputs(ctx, &input, "out/", &expected) ||
        !tw_load_any(&v->compile, v->model, &given, &model))
        return false;
    tw_array *bound =
        TW_NEW_ARRAY(tw_context_arena(ctx), tw_array, tw_model_get_info(model)->inputs);
    tw_session_options session_options = {.threads = v->threads};
    tw_session *session = tw_bind_inputs(ctx, model, &given, bound)
                              ? tw_open_session(model, &session_options, bound)
                              : NULL;
    bool fine = session != NULL;
    if (fine && tw_session_run(session) != TW_STATUS_OK)
        fine = tw_report_runtime(v->model) == TW_EXIT_OK;
    fine = fine && compare_all(v, model, session, &expected);
    tw_session_destroy(session);
    tw_model_free(model);
    return fine;
}

int tw_verb_check(int argc, char **argv)
{
    check_verb v = {.rtol = 1e-3, .atol = 1e-4};
    v.compile.ctx = tw_context_create(0);
    argp_parse(&argp, argc, argv, 0, NULL, &v);
    bool fine = check(&v);
    return tw_finish(&v.compile, fine);
}
