/* tilewright_inspect.c: tilewright inspect MODEL|FILE. */
#include "tilewright.h"

#include "base/arena.h"
#include "base/map.h"
#include "dialect/core/core.h"
#include "dialect/graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_FUSION = 512, OPT_HTML, OPT_PROFILE };

typedef struct inspect_verb {
    tw_compile_args compile;
    bool fusion;
    const char *html, *profile;
} inspect_verb;

static const struct argp_option options[] = {
    {"fusion", OPT_FUSION, 0, 0,
     "Show the kernels that the graph is cut into, and of each pair why it is no single kernel", 0},
    {"html", OPT_HTML, "REPORT.html", 0,
     "Write a page with the graph after each pass, the kernels, and the memory plan", 0},
    {"profile", OPT_PROFILE, "P.json", 0,
     "With --html: what bench --profile --json printed, for the times and rooflines of kernels", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    inspect_verb *v = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &v->compile;
        break;
    case OPT_HTML:
        v->html = arg;
        break;
    case OPT_PROFILE:
        v->profile = arg;
        break;
    case ARGP_KEY_END:
        if (v->profile && !v->html)
            argp_error(state, "--profile goes with --html");
        break;
    case OPT_FUSION:
        v->fusion = true;
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
    "MODEL|FILE",
    "Show the signature of a model, its operators, kernels, constants, memory plan and target. A "
    "model that is not compiled yet is compiled first; sizes that are open stay so.",
    children,
    0,
    0};

static void print_tensor(const char *kind, const tw_tensor_info *info)
{
    static const char *const kinds[] = {"", "sequence of ", "optional ", "optional sequence of "};
    printf("  %s '%s': %s%s[%s", kind, info->name, kinds[info->kind], tw_elem_name(info->elem),
           info->any_rank ? "..." : "");
    for (unsigned i = 0; i < info->rank; i++)
        if (info->dims[i] < 0)
            printf("%s%s", i ? " x " : "",
                   info->dim_texts && info->dim_texts[i] ? info->dim_texts[i] : "?");
        else
            printf("%s%lld", i ? " x " : "", (long long)info->dims[i]);
    puts("]");
}

static int lower_then_earlier(const void *x, const void *y)
{
    const tw_region_info *a = x, *b = y;
    return a->offset != b->offset ? (a->offset < b->offset ? -1 : 1)
                                  : (a->first > b->first) - (a->first < b->first);
}

/* The most bytes of the arena that are in use in one kernel, in units in which buffers are placed:
 * no plan can be smaller. What a kernel computes in place counts once. */
static uint64_t largest_live_set(tw_arena *arena, const tw_model *model)
{
    enum { UNIT = 64 };
    const tw_model_info *info = tw_model_get_info(model);
    tw_region_info *all = TW_NEW_ARRAY(arena, tw_region_info, info->buffers + 1);
    uint64_t *change = TW_NEW_ARRAY(arena, uint64_t, info->kernels + 2), live = 0, most = 0;
    for (size_t i = 0; i < info->buffers; i++)
        all[i] = *tw_model_buffer(model, i);
    qsort(all, info->buffers, sizeof *all, lower_then_earlier);
    for (size_t i = 0; i < info->buffers; i++) {
        tw_region_info *b = &all[i];
        bool in_place = i && b->offset == b[-1].offset && b->first == b[-1].last;
        unsigned first = b->first + in_place;
        if (b->last < first || b->last >= info->kernels)
            continue; /* nobody's */
        uint64_t size = (b->size + UNIT - 1) / UNIT * UNIT;
        change[first] += size;
        change[b->last + 1] -= size; /* modulo 2^64; sums come out right */
    }
    for (size_t k = 0; k < info->kernels; k++) {
        live += change[k];
        most = live > most ? live : most;
    }
    return most;
}

static void print_compiled(tw_arena *arena, const tw_model *model)
{
    const tw_model_info *info = tw_model_get_info(model);
    printf("model '%s'\n  producer %s\n  target %s, code for:", info->name, info->producer,
           info->target);
    for (size_t i = 0; i < info->variants; i++)
        printf(" %s%s", tw_model_variant(model, i),
               strcmp(tw_model_variant(model, i), info->cpu) ? "" : " (chosen)");
    puts("");
    for (size_t i = 0; i < info->inputs; i++)
        print_tensor("input", tw_model_input(model, i));
    for (size_t i = 0; i < info->outputs; i++)
        print_tensor("output", tw_model_output(model, i));
    printf("\nkernels: %zu\n", info->kernels);
    for (size_t i = 0; i < info->kernels; i++) {
        const tw_kernel_info *k = tw_model_kernel(model, i);
        printf("  %4zu %s (%s): %.3f MFLOP, %.3f MB\n", i, k->name,
               k->operators ? k->operators : "", (double)k->flops * 1e-6, (double)k->bytes * 1e-6);
    }
    printf("\nconstants: %zu, %.3f MB\n", info->constants, (double)info->constants_size * 1e-6);
    for (size_t i = 0; i < info->constants; i++) {
        const tw_region_info *r = tw_model_constant(model, i);
        printf("  %12llu %12llu  %s %s\n", (unsigned long long)r->offset,
               (unsigned long long)r->size, r->type, r->name ? r->name : "");
    }
    if (info->symbols)
        printf("\nmemory plan: by the sizes of the inputs, %zu buffers (live in kernels)\n",
               info->buffers);
    else
        printf("\nmemory plan: arena of %.3f MB, %.3f MB live at once, %zu buffers (offset, size, "
               "live in kernels)\n",
               (double)info->arena_size * 1e-6, (double)largest_live_set(arena, model) * 1e-6,
               info->buffers);
    for (size_t i = 0; i < info->buffers; i++) {
        const tw_region_info *r = tw_model_buffer(model, i);
        if (info->symbols)
            printf("  %u-%u  %s %s\n", r->first, r->last, r->type, r->name ? r->name : "");
        else
            printf("  %12llu %12llu  %u-%u  %s %s\n", (unsigned long long)r->offset,
                   (unsigned long long)r->size, r->first, r->last, r->type, r->name ? r->name : "");
    }
}

/* ---- Operators of the graph ---- */

static bool count_operator(tw_op *op, void *data)
{
    tw_map *counts = data;
    if (tw_graph_kind_of(op) == TW_GRAPH_COUNT || tw_is_graph(op, TW_GRAPH_CONSTANT))
        return true;
    const char *name = op->def->name + strlen("graph.");
    tw_map_put_str(counts, name, (void *)((uintptr_t)tw_map_get_str(counts, name) + 1));
    return true;
}

static int most_first(const void *a, const void *b)
{
    const tw_map_entry *x = a, *y = b;
    uintptr_t nx = (uintptr_t)x->value, ny = (uintptr_t)y->value;
    return nx != ny ? (nx < ny ? 1 : -1) : strcmp(x->key, y->key);
}

static void print_operators(tw_context *ctx, tw_op *module)
{
    tw_map counts = tw_map_make(tw_context_arena(ctx));
    tw_walk(module, count_operator, &counts);
    if (counts.len)
        qsort(counts.entries, counts.len, sizeof *counts.entries, most_first);
    puts("\noperators of the graph:");
    for (size_t i = 0; i < counts.len; i++)
        printf("  %6zu %s\n", (size_t)(uintptr_t)counts.entries[i].value,
               (const char *)counts.entries[i].key);
    puts("");
}

static void print_types(tw_context *ctx, const char *kind, tw_attr names, const tw_type *types,
                        unsigned n)
{
    for (unsigned i = 0; i < n && names && i < names->u.array.n; i++)
        printf("  %s '%s': %s\n", kind, names->u.array.items[i]->u.string.text,
               tw_print_type(ctx, types[i]));
}

/* The graph as it was imported, with the sizes that are open. */
static void print_graph(void *data, tw_context *ctx, tw_op *module)
{
    tw_op *main = tw_core_lookup(module, "main");
    tw_type type = tw_core_func_type(main);
    (void)data;
    puts("graph");
    print_types(ctx, "input", tw_op_attr(main, "input_names"), type->inputs, type->n_inputs);
    print_types(ctx, "output", tw_op_attr(main, "output_names"), type->results, type->n_results);
    print_operators(ctx, module);
}

static bool inspect(void *verb)
{
    inspect_verb *v = verb;
    tw_compile_args *args = &v->compile;
    tw_arrays none = {0};
    tw_model *model;
    if (v->fusion)
        return tw_print_fusion(args);
    if (v->html)
        return tw_write_html(args, v->html, v->profile);
    args->imported = print_graph;
    args->keep_open = true;
    if (!tw_load_model(args, &none, &model))
        return false;
    print_compiled(tw_context_arena(args->ctx), model);
    tw_model_free(model);
    return true;
}

int tw_verb_inspect(int argc, char **argv)
{
    inspect_verb v = {.fusion = false};
    return tw_run_verb(&argp, argc, argv, &v, &v.compile, inspect);
}
