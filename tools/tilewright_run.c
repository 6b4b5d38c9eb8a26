/* tilewright_run.c: tilewright run MODEL|FILE. */
#include "tilewright.h"

#include "base/arena.h"
#include "base/file.h"
#include "driver/values.h"
#include "ir/scalar.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { OPT_OUTPUTS = 512 };

typedef struct run_verb {
    tw_compile_args compile;
    tw_input_args input;
    unsigned threads;
    const char *outputs;
} run_verb;

static const struct argp_option options[] = {
    {"outputs", OPT_OUTPUTS, "Y.npz", 0, "Write the results, by the names of the outputs", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    run_verb *v = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &v->compile;
        state->child_inputs[1] = &v->input;
        state->child_inputs[2] = &v->threads;
        v->input.ctx = v->compile.ctx;
        break;
    case OPT_OUTPUTS:
        v->outputs = arg;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_child children[] = {
    {&tw_compile_argp, 0, 0, 0}, {&tw_input_argp, 0, 0, 0}, {&tw_threads_argp, 0, 0, 0}, {0}};
static const struct argp argp = {
    options,
    parse,
    "MODEL|FILE",
    "Run a model: a compiled one, or one that is compiled on the fly for the shapes given.",
    children,
    0,
    0};

static void print_element(tw_elem elem, const void *data, size_t i)
{
    if (elem == TW_STRING) {
        printf(" \"%s\"", ((const char *const *)data)[i]);
        return;
    }
    tw_number n = tw_scalar_load(elem, data, i);
    if (tw_elem_is_float(elem))
        printf(" %g", n.real);
    else if (elem == TW_U64)
        printf(" %" PRIu64, (uint64_t)n.integer);
    else
        printf(" %" PRId64, n.integer);
}

static void print_array(const tw_array *a)
{
    printf("%s: %s[", a->name, tw_elem_name(a->elem));
    for (unsigned i = 0; i < a->rank; i++)
        printf("%s%lld", i ? "x" : "", (long long)a->dims[i]);
    fputs("]", stdout);
    size_t n = tw_count(a->rank, a->dims);
    for (size_t i = 0; i < n && i < 6; i++)
        print_element(a->elem, a->data, i);
    puts(n > 6 ? " ..." : "");
}

/* Prints the results, and writes them when asked to. */
static bool give_outputs(run_verb *v, const tw_model *model, const tw_session *session)
{
    tw_context *ctx = v->compile.ctx;
    TW_VEC(tw_array) all = {0};
    for (size_t i = 0; i < tw_model_get_info(model)->outputs; i++) {
        tw_arrays list = tw_output_arrays(ctx, session, model, i);
        if (!list.n)
            printf("%s: nothing\n", tw_model_output(model, i)->name);
        for (size_t k = 0; k < list.n; k++) {
            print_array(&list.items[k]);
            tw_vec_push(tw_context_arena(ctx), &all, list.items[k]);
        }
    }
    return !v->outputs || tw_npz_write(ctx, v->outputs, all.data, all.len);
}

static bool check_outputs(const run_verb *v)
{
    if (!v->outputs || !tw_file_same(v->outputs, v->compile.model))
        return true;
    return tw_error(v->compile.ctx, NULL, "%s is the model; the output needs another name",
                    v->outputs);
}

static bool run(void *verb)
{
    run_verb *v = verb;
    tw_context *ctx = v->compile.ctx;
    tw_arrays given, bound;
    tw_model *model;
    if (!check_outputs(v) || !tw_read_inputs(&v->input, v->compile.model, &given) ||
        !tw_load_model(&v->compile, &given, &model))
        return false;
    tw_session_options options = {.threads = v->threads};
    tw_session *session = tw_bind_inputs(&v->compile, model, &given, &bound)
                              ? tw_open_session(ctx, model, &options, &bound)
                              : NULL;
    bool fine = session != NULL;
    if (fine && tw_session_run(session) != TW_STATUS_OK)
        fine = tw_runtime_error(ctx);
    fine = fine && give_outputs(v, model, session);
    tw_session_destroy(session);
    tw_model_free(model);
    return fine;
}

int tw_verb_run(int argc, char **argv)
{
    run_verb v = {.outputs = NULL};
    return tw_run_verb(&argp, argc, argv, &v, &v.compile, run);
}
