/* tilewright_check.c: tilewright check MODEL --data X.npz|FOLDER. */
#include "tilewright.h"

#include "dialect/graph/graph.h"

#include <stdio.h>

typedef struct check_verb {
    tw_compile_args compile;
    tw_reference reference;
    unsigned threads;
    bool products; /* the graph multiplies matrices of integers */
} check_verb;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    check_verb *v = state->input;
    (void)arg;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &v->compile;
        state->child_inputs[1] = &v->reference;
        state->child_inputs[2] = &v->threads;
        break;
    case ARGP_KEY_END:
        if (!v->reference.path)
            argp_error(state, "--data X.npz or a folder is missing");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_child children[] = {
    {&tw_compile_argp, 0, 0, 0}, {&tw_reference_argp, 0, 0, 0}, {&tw_threads_argp, 0, 0, 0}, {0}};
static const struct argp argp = {
    NULL,
    parse,
    "MODEL --data X.npz|FOLDER",
    "Run a model on reference inputs and compare with the reference outputs: each element must be "
    "within A + R * |reference|. Prints the worst error of each output.",
    children,
    0,
    0};

/* ---- Products of bytes ---- */

static bool is_product_of_integers(tw_op *op, void *data)
{
    bool *found = data;
    *found |= tw_is_graph(op, TW_GRAPH_MATMUL) && op->results[0].type->elem == TW_I32;
    return true;
}

static void look_for_products(void *data, tw_context *ctx, tw_op *module)
{
    check_verb *v = data;
    (void)ctx;
    tw_walk(module, is_product_of_integers, &v->products);
}

/* A compiled model is loaded first: it knows the names of its inputs, which a folder's files may
 * lack. Another is compiled for the shapes of the data. */
static bool load(check_verb *v, tw_model **model)
{
    tw_arrays none = {0};
    return tw_is_compiled(v->compile.model)
               ? tw_load_model(&v->compile, &none, model) &&
                     tw_reference_read(&v->reference, &v->compile, *model)
               : tw_reference_read(&v->reference, &v->compile, NULL) &&
                     tw_load_model(&v->compile, &v->reference.inputs, model);
}

/* References of models that multiply matrices of bytes may hold sums that are off: those that
 * onnxruntime makes on processors without VNNI. Where the numbers differ and nothing else is wrong,
 * such a model is compiled again to do as these do, so that the rest of it is checked all the same.
 */
static bool check_saturated(check_verb *v)
{
    if (!v->products || v->compile.options.saturate_products || tw_diagnostics(v->compile.ctx))
        return false;
    printf(
        "The model multiplies matrices of bytes. With sums that saturate as on processors without "
        "VNNI\n(--saturate-products):\n");
    v->compile.options.saturate_products = true;
    tw_model *model = NULL;
    bool fine = tw_load_model(&v->compile, &v->reference.inputs, &model) &&
                tw_reference_check(&v->reference, &v->compile, model, v->threads);
    if (fine)
        printf("ok: the references hold saturated sums, and but for those the model gives them; "
               "compiled\nwithout that option its products are exact.\n");
    tw_model_free(model);
    return fine;
}

static bool check(void *verb)
{
    check_verb *v = verb;
    tw_model *model = NULL;
    v->compile.imported = look_for_products;
    v->compile.imported_data = v;
    bool fine =
        load(v, &model) && tw_reference_check(&v->reference, &v->compile, model, v->threads);
    tw_model_free(model);
    return fine || check_saturated(v);
}

int tw_verb_check(int argc, char **argv)
{
    check_verb v = {.threads = 0};
    return tw_run_verb(&argp, argc, argv, &v, &v.compile, check);
}
