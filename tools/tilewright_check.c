/* tilewright_check.c: tilewright check MODEL --data X.npz|FOLDER. */
#include "tilewright.h"

#include "base/arena.h"
#include "ir/scalar.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { OPT_DATA = 512, OPT_RTOL, OPT_ATOL };

typedef struct check_verb {
    tw_compile_args compile;
    const char *data;
    bool folder; /* `data` is one */
    double rtol, atol;
    unsigned threads;
} check_verb;

static const struct argp_option options[] = {
    {"data", OPT_DATA, "X.npz|FOLDER", 0,
     "Arrays in/NAME and out/NAME, or files input_0.pb, output_0.pb … (required)", 0},
    {"rtol", OPT_RTOL, "R", 0, "Relative tolerance (default 1e-3)", 0},
    {"atol", OPT_ATOL, "A", 0, "Absolute tolerance (default 1e-4)", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    check_verb *v = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &v->compile;
        state->child_inputs[1] = &v->threads;
        break;
    case OPT_DATA:
        v->data = arg;
        break;
    case OPT_RTOL:
    case OPT_ATOL:
        if (!tw_parse_real(arg, key == OPT_RTOL ? &v->rtol : &v->atol))
            argp_error(state, "a tolerance is a number not below 0, not '%s'", arg);
        break;
    case ARGP_KEY_END:
        if (!v->data)
            argp_error(state, "--data X.npz or a folder is missing");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_child children[] = {
    {&tw_compile_argp, 0, 0, 0}, {&tw_threads_argp, 0, 0, 0}, {0}};
static const struct argp argp = {
    options,
    parse,
    "MODEL --data X.npz|FOLDER",
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
    size_t n = tw_count(expected->rank, expected->dims), wrong = 0, worst_at = 0;
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
        return tw_error(v->compile.ctx, NULL, "%s has a reference (%s) for none of the outputs",
                        v->data, v->folder ? "output_N.pb" : "out/NAME");
    return fine;
}

/* ---- Reference data ---- */

/* Keeps the arrays whose names begin with the prefix, without it. */
static tw_arrays with_prefix(tw_context *ctx, const tw_arrays *all, const char *prefix)
{
    size_t len = strlen(prefix);
    tw_arrays kept = {TW_NEW_ARRAY(tw_context_arena(ctx), tw_array, all->n), 0};
    for (size_t i = 0; i < all->n; i++)
        if (!strncmp(all->items[i].name, prefix, len)) {
            kept.items[kept.n] = all->items[i];
            kept.items[kept.n++].name += len;
        }
    return kept;
}

/* The data must be the model's: nothing for what the model lacks, all inputs. */
static bool data_fits(const check_verb *v, const tw_model *model, const tw_arrays *given,
                      const tw_arrays *expected)
{
    tw_context *ctx = v->compile.ctx;
    bool fine = tw_only_inputs(ctx, model, given);
    fine = tw_only_outputs(ctx, model, expected) && fine;
    for (size_t i = 0; i < tw_model_get_info(model)->inputs; i++) {
        const char *name = tw_model_input(model, i)->name;
        if (!tw_arrays_find(given, name))
            fine = tw_error(ctx, NULL, "%s has no %s '%s%s', which the model needs", v->data,
                            v->folder ? "file for input" : "array", v->folder ? "" : "in/", name);
    }
    return fine;
}

/* The data, by names of the model, which is loaded: for the shapes of the inputs if it is to be
 * compiled. */
static bool load(check_verb *v, tw_arrays *given, tw_arrays *expected, tw_model **model)
{
    tw_context *ctx = v->compile.ctx;
    const char *path = v->compile.model;
    struct stat status;
    tw_arrays all, none = {0};
    *model = NULL;
    v->folder = stat(v->data, &status) == 0 && S_ISDIR(status.st_mode);
    if (v->folder && tw_is_compiled(path))
        return tw_load_model(&v->compile, &none, model) &&
               tw_read_data_set(ctx, path, *model, v->data, given, expected);
    if (v->folder) {
        if (!tw_read_data_set(ctx, path, NULL, v->data, given, expected))
            return false;
    } else {
        if (!tw_npz_read(ctx, v->data, &all))
            return false;
        *given = with_prefix(ctx, &all, "in/");
        *expected = with_prefix(ctx, &all, "out/");
    }
    return tw_load_model(&v->compile, given, model);
}

static bool check(void *verb)
{
    check_verb *v = verb;
    tw_context *ctx = v->compile.ctx;
    tw_arrays given, expected;
    tw_model *model;
    const tw_array *bound = NULL;
    if (load(v, &given, &expected, &model) && data_fits(v, model, &given, &expected))
        bound = tw_bind_inputs(&v->compile, model, &given);
    tw_session_options options = {.threads = v->threads};
    tw_session *session = bound ? tw_open_session(ctx, model, &options, bound) : NULL;
    bool fine = session != NULL;
    if (fine && tw_session_run(session) != TW_STATUS_OK)
        fine = tw_runtime_error(ctx);
    fine = fine && compare_all(v, model, session, &expected);
    tw_session_destroy(session);
    tw_model_free(model);
    return fine;
}

int tw_verb_check(int argc, char **argv)
{
    check_verb v = {.rtol = 1e-3, .atol = 1e-4};
    return tw_run_verb(&argp, argc, argv, &v, &v.compile, check);
}
