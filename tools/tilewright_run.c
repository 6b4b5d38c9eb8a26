/* tilewright_run.c: tilewright run MODEL|FILE. */
#include "tilewright.h"

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

static void print_output(const tw_tensor_info *info, const int64_t *dims, const void *data)
{
    printf("%s: %s[", info->name, tw_elem_name(info->elem));
    for (unsigned i = 0; i < info->rank; i++)
        printf("%s%lld", i ? "x" : "", (long long)dims[i]);
    fputs("]", stdout);
    size_t n = tw_count(info->rank, dims);
    for (size_t i = 0; i < n && i < 6; i++)
        print_element(info->elem, data, i);
    puts(n > 6 ? " ..." : "");
}

/* Prints the results, and writes them when asked to. */
static bool give_outputs(run_verb *v, const tw_model *model, const tw_session *session)
{
    tw_context *ctx = v->compile.ctx;
    size_t n = tw_model_get_info(model)->outputs;
    tw_array *arrays = TW_NEW_ARRAY(tw_context_arena(ctx), tw_array, n);
    for (size_t i = 0; i < n; i++) {
        const tw_tensor_info *info = tw_model_output(model, i);
        const int64_t *dims = tw_session_output_dims(session, i);
        tw_array *a = &arrays[i];
        *a = (tw_array){.name = info->name, .elem = info->elem, .rank = info->rank};
        a->data = (void *)tw_session_output(session, i, &a->size);
        if (a->rank)
            memcpy(a->dims, dims, a->rank * sizeof *dims);
        print_output(info, dims, a->data);
    }
    return !v->outputs || tw_npz_write(ctx, v->outputs, arrays, n);
}

static bool run(void *verb)
{
    run_verb *v = verb;
    tw_context *ctx = v->compile.ctx;
    tw_arrays given;
    tw_model *model;
    if (!tw_read_inputs(&v->input, v->compile.model, &given) ||
        !tw_load_model(&v->compile, &given, &model))
        return false;
    const tw_array *bound = tw_bind_inputs(&v->compile, model, &given);
    tw_session_options options = {.threads = v->threads};
    tw_session *session = bound ? tw_open_session(ctx, model, &options, bound) : NULL;
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
