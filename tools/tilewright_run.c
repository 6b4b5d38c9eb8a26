/* tilewright_run.c: tilewright run MODEL|FILE. */
#include "tilewright.h"

#include "base/arena.h"

#include <stdio.h>
#include <string.h>

enum { OPT_OUTPUTS = 512 };

typedef struct run_verb {
    tw_compile_args compile;
    tw_input_args input;
    const char *model, *outputs;
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
        break;
    case OPT_OUTPUTS:
        v->outputs = arg;
        break;
    case ARGP_KEY_ARG:
        if (v->model)
            argp_error(state, "one MODEL, not also '%s'", arg);
        v->model = arg;
        break;
    case ARGP_KEY_END:
        if (!v->model)
            argp_error(state, "which MODEL?");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_child children[] = {
    {&tw_compile_argp, 0, 0, 0}, {&tw_input_argp, 0, 0, 0}, {0}};
static const struct argp argp = {
    options,
    parse,
    "MODEL|FILE",
    "Run a model: a compiled one, or one that is compiled on the fly for the shapes given.",
    children,
    0,
    0};

static void print_output(const tw_tensor_info *info, const int64_t *dims, const void *data,
                         size_t size)
{
    printf("%s: %s[", info->name, tw_elem_name(info->elem));
    for (unsigned i = 0; i < info->rank; i++)
        printf("%s%lld", i ? "x" : "", (long long)dims[i]);
    fputs("]", stdout);
    size_t width = tw_elem_bits(info->elem) / 8, n = size / width;
    for (size_t i = 0; i < n && i < 6; i++) {
        const char *at = (const char *)data + i * width;
        if (info->elem == TW_F32)
            printf(" %g", (double)*(const float *)(const void *)at);
        else if (info->elem == TW_F64)
            printf(" %g", *(const double *)(const void *)at);
        else if (info->elem == TW_I64)
            printf(" %lld", (long long)*(const int64_t *)(const void *)at);
        else if (info->elem == TW_I32)
            printf(" %d", *(const int32_t *)(const void *)at);
        else if (width == 1)
            printf(" %d",
                   info->elem == TW_I8 ? *(const signed char *)at : *(const unsigned char *)at);
    }
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
        print_output(info, dims, a->data, a->size);
    }
    return !v->outputs || tw_npz_write(ctx, v->outputs, arrays, n);
}

static bool run(run_verb *v)
{
    tw_context *ctx = v->compile.ctx;
    tw_arrays given;
    tw_model *model;
    if (!tw_prepare(&v->compile) || !tw_read_inputs(ctx, &v->input, "", &given) ||
        !tw_load_any(&v->compile, v->model, &given, &model))
        return false;
    tw_array *bound =
        TW_NEW_ARRAY(tw_context_arena(ctx), tw_array, tw_model_get_info(model)->inputs);
    bool fine = tw_bind_inputs(ctx, model, &given, bound);
    tw_session_options options = {.threads = v->input.threads};
    tw_session *session = fine ? tw_open_session(model, &options, bound) : NULL;
    fine = session != NULL;
    if (fine && tw_session_run(session) != TW_STATUS_OK)
        fine = tw_report_runtime(v->model) == TW_EXIT_OK;
    fine = fine && give_outputs(v, model, session);
    tw_session_destroy(session);
    tw_model_free(model);
    return fine;
}

int tw_verb_run(int argc, char **argv)
{
    run_verb v = {.model = NULL};
    v.compile.ctx = tw_context_create(0);
    argp_parse(&argp, argc, argv, 0, NULL, &v);
    bool fine = run(&v);
    return tw_finish(&v.compile, fine);
}
