/* tilewright_reference.c: reference data of a model, and the comparison with it. */
#include "tilewright.h"

#include "base/arena.h"
#include "driver/values.h"
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

static bool compare_texts(const tw_reference *r, const tw_array *expected, const void *actual)
{
    char *const *want = expected->data, *const *is = actual;
    size_t n = tw_count(expected->rank, expected->dims), wrong = 0;
    for (size_t i = 0; i < n; i++)
        wrong += strcmp(want[i], is[i]) != 0;
    if (!r->quiet)
        printf("%s: %zu of %zu texts differ%s\n", expected->name, wrong, n, wrong ? "" : ", ok");
    return !wrong;
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

/* "f32[2x3]" */
static const char *type_text(const tw_reference *r, const tw_array *a)
{
    return tw_arena_printf(tw_context_arena(r->ctx), "%s[%s]", tw_elem_name(a->elem),
                           tw_sizes_text(r->ctx, a->rank, a->dims));
}

static bool compare_array(const tw_reference *r, const tw_array *is, const tw_array *want)
{
    bool same = want->elem == is->elem && want->rank == is->rank;
    for (unsigned d = 0; same && d < want->rank; d++)
        same = want->dims[d] == is->dims[d];
    if (!same && !r->quiet)
        printf("%s: shape or element type differs from the reference: %s, should be %s\n",
               want->name, type_text(r, is), type_text(r, want));
    return same && (want->elem == TW_STRING ? compare_texts(r, want, is->data)
                                            : compare(r, want, is->data));
}

/* Whether there is a reference for the output: of a sequence it has all elements. */
static bool has_reference(const tw_reference *r, const tw_tensor_info *info)
{
    bool found = false;
    for (size_t i = 0; i < r->outputs.n; i++)
        found |= tw_value_has(r->ctx, info, r->outputs.items[i].name);
    return found;
}

/* Whether the output is an element, "x[2]", of a sequence that the reference has. */
static bool is_surplus(const tw_reference *r, const char *name)
{
    tw_arena *arena = tw_context_arena(r->ctx);
    char *sequence = tw_arena_strndup(arena, name, strlen(name));
    for (char *at; (at = strrchr(sequence, '[')) && at[1 + strspn(at + 1, "0123456789")] == ']';) {
        *at = 0;
        if (tw_arrays_find(&r->outputs, tw_arena_printf(arena, "%s[0]", sequence)) ||
            tw_arrays_find(&r->outputs, tw_arena_printf(arena, "%s[]", sequence)) ||
            tw_arrays_find(&r->outputs, tw_arena_printf(arena, "%s[0][0]", sequence)))
            return true;
    }
    return false;
}

static bool compare_output(const tw_reference *r, const tw_tensor_info *info, const tw_arrays *is)
{
    bool fine = true;
    for (size_t k = 0; k < is->n; k++) {
        const tw_array *want = tw_arrays_find(&r->outputs, is->items[k].name);
        if (!want && !r->quiet)
            printf("%s: is not in the reference\n", is->items[k].name);
        fine = want && compare_array(r, &is->items[k], want) && fine;
    }
    for (size_t k = 0; k < r->outputs.n; k++) {
        const char *name = r->outputs.items[k].name;
        if (!tw_value_has(r->ctx, info, name) || tw_arrays_find(is, name))
            continue;
        if (!r->quiet)
            printf("%s: is missing\n", name);
        fine = false;
    }
    return fine;
}

static bool compare_all(tw_reference *r, const tw_model *model, const tw_session *session)
{
    bool fine = true;
    size_t compared = 0;
    for (size_t i = 0; i < tw_model_get_info(model)->outputs; i++) {
        const tw_tensor_info *info = tw_model_output(model, i);
        tw_arrays is = tw_output_arrays(r->ctx, session, model, i);
        if (!has_reference(r, info)) {
            bool surplus = is_surplus(r, info->name);
            if (!r->quiet)
                printf("%s: %s\n", info->name,
                       surplus ? "is not in the reference" : "no reference");
            fine = fine && !surplus;
            continue;
        }
        compared++;
        fine = compare_output(r, info, &is) && fine;
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
        if (!tw_value_given(ctx, tw_model_input(model, i), &r->inputs))
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

/* A copy that outlives the session. */
static tw_array kept(tw_context *ctx, const tw_array *a)
{
    tw_array copy = *a;
    copy.name = tw_intern(ctx, a->name, strlen(a->name));
    copy.data = tw_context_alloc(ctx, a->size);
    if (a->size)
        memcpy(copy.data, a->data, a->size);
    for (size_t i = 0; a->elem == TW_STRING && i < a->size / sizeof(char *); i++) {
        const char *text = ((char *const *)a->data)[i];
        ((const char **)copy.data)[i] = tw_intern(ctx, text, strlen(text));
    }
    return copy;
}

/* The results as reference. */
static bool keep_outputs(tw_reference *r, const tw_model *model, const tw_session *session)
{
    TW_VEC(tw_array) all = {0};
    for (size_t i = 0; i < tw_model_get_info(model)->outputs; i++) {
        tw_arrays list = tw_output_arrays(r->ctx, session, model, i);
        for (size_t k = 0; k < list.n; k++)
            tw_vec_push(tw_context_arena(r->ctx), &all, kept(r->ctx, &list.items[k]));
    }
    r->outputs = (tw_arrays){all.data, all.len};
    return true;
}

/* Binds the inputs, runs, and does `then` with the results. */
static bool run_with(tw_reference *r, tw_compile_args *args, tw_model *model, unsigned threads,
                     bool (*then)(tw_reference *r, const tw_model *model,
                                  const tw_session *session))
{
    tw_arrays bound;
    tw_session_options options = {.threads = threads};
    tw_session *session = tw_bind_inputs(args, model, &r->inputs, &bound)
                              ? tw_open_session(r->ctx, model, &options, &bound)
                              : NULL;
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
    tw_arrays bound;
    if (!tw_bind_inputs(args, model, &r->inputs, &bound))
        return false;
    for (size_t i = 0; i < bound.n; i++)
        bound.items[i].name = tw_intern(r->ctx, bound.items[i].name, strlen(bound.items[i].name));
    r->inputs = bound;
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
