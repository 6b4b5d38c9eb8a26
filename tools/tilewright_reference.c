/* tilewright_reference.c: reference data of a model, and the comparison with it. */
#include "tilewright.h"

#include "base/arena.h"
#include "ir/scalar.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Options ---- */

enum { OPT_DATA = 800, OPT_RTOL, OPT_ATOL };

static const struct argp_option options[] = {
    {"data", OPT_DATA, "X.npz|FOLDER", 0,
     "Arrays in/NAME and out/NAME, or files input_0.pb, output_0.pb …", 0},
    {"rtol", OPT_RTOL, "R", 0, "Relative tolerance (default 1e-3)", 0},
    {"atol", OPT_ATOL, "A", 0, "Absolute tolerance (default 1e-4)", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    tw_reference *r = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        r->rtol = 1e-3;
        r->atol = 1e-4;
        break;
    case OPT_DATA:
        r->path = arg;
        break;
    case OPT_RTOL:
    case OPT_ATOL:
        if (!tw_parse_real(arg, key == OPT_RTOL ? &r->rtol : &r->atol))
            argp_error(state, "a tolerance is a number not below 0, not '%s'", arg);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

const struct argp tw_reference_argp = {options, parse, 0, 0, 0, 0, 0};

/* ---- Comparison ---- */

static double real_of(tw_elem elem, const void *data, size_t i)
{
    tw_number n = tw_scalar_load(elem, data, i);
    return tw_elem_is_float(elem) ? n.real : (double)n.integer;
}

/* Compares one output and prints a line; false when an element is off. */
static bool compare(const tw_reference *r, const tw_array *expected, const void *actual)
{
    size_t n = tw_count(expected->rank, expected->dims), wrong = 0, worst_at = 0;
    double worst = 0, worst_excess = -1, largest = 0;
    for (size_t i = 0; i < n; i++) {
        double want = real_of(expected->elem, expected->data, i);
        double got = real_of(expected->elem, actual, i);
        bool same = want == got || (isnan(want) && isnan(got));
        double error = same ? 0 : fabs(want - got);
        double excess = error - (r->atol + r->rtol * fabs(want));
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
    if (r->quiet)
        return !wrong;
    printf("%s: max error %.3g (largest value %.3g)%s", expected->name, worst, largest,
           wrong ? "" : ", ok\n");
    if (wrong)
        printf(", %zu of %zu off; worst at element %zu: %.9g, should be %.9g\n", wrong, n, worst_at,
               real_of(expected->elem, actual, worst_at),
               real_of(expected->elem, expected->data, worst_at));
    return !wrong;
}

static bool compare_all(tw_reference *r, const tw_model *model, const tw_session *session)
{
    bool fine = true;
    size_t compared = 0;
    for (size_t i = 0; i < tw_model_get_info(model)->outputs; i++) {
        const tw_tensor_info *info = tw_model_output(model, i);
        const int64_t *dims = tw_session_output_dims(session, i);
        const tw_array *want = tw_arrays_find(&r->outputs, info->name);
        if (!want) {
            if (!r->quiet)
                printf("%s: no reference\n", info->name);
            continue;
        }
        compared++;
        bool same = want->elem == info->elem && want->rank == info->rank;
        for (unsigned d = 0; same && d < want->rank; d++)
            same = want->dims[d] == dims[d];
        if (!same && !r->quiet)
            printf("%s: shape or element type differs from the reference\n", info->name);
        fine = same && compare(r, want, tw_session_output(session, i, NULL)) && fine;
    }
    if (!compared)
        return tw_error(r->ctx, NULL, "%s has a reference (%s) for none of the outputs", r->path,
                        r->folder ? "output_N.pb" : "out/NAME");
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
static bool data_fits(const tw_reference *r, const tw_model *model)
{
    tw_context *ctx = r->ctx;
    bool fine = tw_only_inputs(ctx, model, &r->inputs);
    fine = tw_only_outputs(ctx, model, &r->outputs) && fine;
    for (size_t i = 0; i < tw_model_get_info(model)->inputs; i++) {
        const char *name = tw_model_input(model, i)->name;
        if (!tw_arrays_find(&r->inputs, name))
            fine = tw_error(ctx, NULL, "%s has no %s '%s%s', which the model needs", r->path,
                            r->folder ? "file for input" : "array", r->folder ? "" : "in/", name);
    }
    return fine;
}

bool tw_reference_read(tw_reference *r, tw_compile_args *args, const tw_model *loaded)
{
    struct stat status;
    tw_arrays all;
    r->ctx = args->ctx;
    r->folder = stat(r->path, &status) == 0 && S_ISDIR(status.st_mode);
    if (r->folder)
        return tw_read_data_set(r->ctx, args->model, loaded, r->path, &r->inputs, &r->outputs);
    if (!tw_npz_read(r->ctx, r->path, &all))
        return false;
    r->inputs = with_prefix(r->ctx, &all, "in/");
    r->outputs = with_prefix(r->ctx, &all, "out/");
    return true;
}

/* The results as reference. */
static bool keep_outputs(tw_reference *r, const tw_model *model, const tw_session *session)
{
    r->outputs.n = tw_model_get_info(model)->outputs;
    r->outputs.items = TW_NEW_ARRAY(tw_context_arena(r->ctx), tw_array, r->outputs.n);
    for (size_t i = 0; i < r->outputs.n; i++) {
        const tw_tensor_info *info = tw_model_output(model, i);
        tw_array *a = &r->outputs.items[i];
        *a = (tw_array){.name = tw_intern(r->ctx, info->name, strlen(info->name)),
                        .elem = info->elem,
                        .rank = info->rank};
        const void *data = tw_session_output(session, i, &a->size);
        a->data = tw_context_alloc(r->ctx, a->size);
        if (a->size)
            memcpy(a->data, data, a->size);
        for (unsigned d = 0; d < a->rank; d++)
            a->dims[d] = tw_session_output_dims(session, i)[d];
    }
    return true;
}

/* Binds the inputs, runs, and does `then` with the results. */
static bool run_with(tw_reference *r, tw_compile_args *args, tw_model *model, unsigned threads,
                     bool (*then)(tw_reference *r, const tw_model *model,
                                  const tw_session *session))
{
    const tw_array *bound = tw_bind_inputs(args, model, &r->inputs);
    tw_session_options options = {.threads = threads};
    tw_session *session = bound ? tw_open_session(r->ctx, model, &options, bound) : NULL;
    bool fine = session != NULL;
    if (fine && tw_session_run(session) != TW_STATUS_OK)
        fine = tw_runtime_error(r->ctx);
    fine = fine && then(r, model, session);
    tw_session_destroy(session);
    return fine;
}

bool tw_reference_check(tw_reference *r, tw_compile_args *args, tw_model *model, unsigned threads)
{
    return data_fits(r, model) && run_with(r, args, model, threads, compare_all);
}

/* Inputs that are not given, made up, with names of their own. */
static bool make_inputs(tw_reference *r, tw_compile_args *args, const tw_model *model)
{
    size_t n = tw_model_get_info(model)->inputs;
    const tw_array *bound = tw_bind_inputs(args, model, &r->inputs);
    if (!bound)
        return false;
    r->inputs = (tw_arrays){TW_NEW_ARRAY(tw_context_arena(r->ctx), tw_array, n), n};
    for (size_t i = 0; i < n; i++) {
        const char *name = tw_model_input(model, i)->name;
        r->inputs.items[i] = bound[i];
        r->inputs.items[i].name = tw_intern(r->ctx, name, strlen(name));
    }
    return true;
}

bool tw_reference_make(tw_reference *r, tw_compile_args *args, unsigned threads)
{
    tw_model *model = NULL;
    r->ctx = args->ctx;
    bool fine = tw_load_model(args, &r->inputs, &model) && make_inputs(r, args, model) &&
                run_with(r, args, model, threads, keep_outputs);
    tw_model_free(model);
    return fine;
}
