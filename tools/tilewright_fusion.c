/* tilewright_fusion.c: tilewright inspect --fusion MODEL: the kernels that fuse-ops makes and, for
 * each value that goes from one to another, why they are not one. The reasons are those that
 * fuse-ops recorded when it decided (its option `explain`). */
#include "tilewright.h"

#include "base/map.h"
#include "dialect/core/core.h"
#include "dialect/graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The level's passes with `fuse-ops` as `fuse-ops{explain}`. */
static const char *explaining(tw_context *ctx, const char *pipeline)
{
    static const char pass[] = "fuse-ops";
    const char *text = "", *at;
    for (; (at = strstr(pipeline, pass)); pipeline = at + strlen(pass)) {
        bool more = at[strlen(pass)] == '{';
        text = tw_arena_printf(tw_context_arena(ctx), "%s%.*s%s%s", text, (int)(at - pipeline),
                               pipeline, pass, more ? "{explain " : "{explain}");
        at += more;
    }
    return tw_arena_printf(tw_context_arena(ctx), "%s%s", text, pipeline);
}

/* ---- Names ---- */

static const char *node_of(tw_loc loc)
{
    return loc && loc->node ? loc->node : "";
}

/* The value that a value of the graph outside groups is, behind views of it; *view says whether
 * there are some. */
static const tw_value *behind_views(const tw_value *value, bool *view)
{
    *view = false;
    for (; value->op && tw_is_graph(value->op, TW_GRAPH_RESHAPE); *view = true)
        value = tw_operand(value->op, 0);
    return value;
}

/* The operation inside a group that makes a result of it. */
static const tw_op *maker(const tw_value *value)
{
    if (!tw_is_graph(value->op, TW_GRAPH_GROUP))
        return value->op;
    const tw_value *inner = tw_operand(value->op->regions[0].last, value->index);
    return inner->op ? inner->op : value->op;
}

/* The operation inside a group that uses its operand i first. */
static const tw_op *first_user(const tw_op *group, unsigned i)
{
    const tw_op *first = NULL;
    for (const tw_use *u = group->regions[0].args[i]->uses; u; u = u->next)
        if (u->user->region == &group->regions[0] &&
            (!first || tw_op_is_before(u->user, (tw_op *)first)))
            first = u->user;
    return first ? first : group;
}

/* ---- Table ---- */

typedef struct table {
    tw_context *ctx;
    tw_map numbers; /* group -> its number + 1 */
    tw_map counts;  /* reason -> times */
    size_t kernels, boundaries;
} table;

static bool print_kernel(tw_op *op, void *data)
{
    table *t = data;
    if (!tw_is_graph(op, TW_GRAPH_GROUP))
        return true;
    tw_map_put_ptr(&t->numbers, op, (void *)(t->kernels + 1));
    printf("  %4zu %s\n", t->kernels++, tw_op_string(op, "sym_name", ""));
    for (const tw_op *o = op->regions[0].first; o; o = o->next)
        if (!tw_is_graph(o, TW_GRAPH_CONSTANT) && !tw_is_graph(o, TW_GRAPH_YIELD))
            printf("       %-24s %s\n", o->def->name + strlen("graph."), node_of(o->loc));
    return true;
}

static void print_boundary(table *t, const tw_op *group, unsigned i, const char *why)
{
    bool view;
    const tw_value *value = behind_views(tw_operand(group, i), &view);
    size_t from = (size_t)(uintptr_t)tw_map_get_ptr(&t->numbers, value->op);
    const tw_op *producer = maker(value), *consumer = first_user(group, i);
    if (!from)
        return;
    t->boundaries++;
    tw_map_put_str(&t->counts, why, (void *)((uintptr_t)tw_map_get_str(&t->counts, why) + 1));
    printf("  %zu -> %zu: %s %s -> %s %s: %s\n", from - 1,
           (size_t)(uintptr_t)tw_map_get_ptr(&t->numbers, group) - 1,
           producer->def->name + strlen("graph."), node_of(producer->loc),
           consumer->def->name + strlen("graph."), node_of(consumer->loc), why);
}

static bool print_boundaries(tw_op *op, void *data)
{
    tw_attr why = tw_is_graph(op, TW_GRAPH_GROUP) ? tw_op_attr(op, TW_GRAPH_WHY_APART) : NULL;
    for (unsigned i = 0; why && i < op->n_operands && i < why->u.array.n; i++)
        if (why->u.array.items[i]->u.string.len && tw_operand(op, i)->op)
            print_boundary(data, op, i, why->u.array.items[i]->u.string.text);
    return true;
}

static int most_first(const void *a, const void *b)
{
    const tw_map_entry *x = a, *y = b;
    uintptr_t nx = (uintptr_t)x->value, ny = (uintptr_t)y->value;
    return nx != ny ? (nx < ny ? 1 : -1) : strcmp(x->key, y->key);
}

static void print_table(tw_context *ctx, tw_op *module)
{
    tw_arena *arena = tw_context_arena(ctx);
    table t = {.ctx = ctx, .numbers = tw_map_make(arena), .counts = tw_map_make(arena)};
    puts("kernels, their operations and the nodes of the model that these are from:");
    tw_walk(module, print_kernel, &t);
    puts("\nvalues that go from one kernel to another, and why these are not one:");
    tw_walk(module, print_boundaries, &t);
    printf("\n%zu kernels, %zu boundaries between them:\n", t.kernels, t.boundaries);
    if (t.counts.len)
        qsort(t.counts.entries, t.counts.len, sizeof *t.counts.entries, most_first);
    for (size_t i = 0; i < t.counts.len; i++)
        printf("  %6zu %s\n", (size_t)(uintptr_t)t.counts.entries[i].value,
               (const char *)t.counts.entries[i].key);
}

bool tw_print_fusion(tw_compile_args *args)
{
    tw_compile_options o;
    if (tw_is_compiled(args->model))
        return tw_error(args->ctx, NULL,
                        "%s is compiled; why it was cut into its kernels is known "
                        "for the model that it was made from",
                        args->model);
    tw_context *compiler = tw_open_compiler(args, &o);
    if (!compiler)
        return false;
    o.pipeline = explaining(args->ctx, o.pipeline ? o.pipeline : tw_graph_pipeline(o.opt_level));
    tw_op *module = tw_optimize_file(compiler, args->model, &o);
    if (module && strstr(o.pipeline, "fuse-ops"))
        print_table(compiler, module);
    else if (module)
        puts("nothing is fused at this level: each operation is a kernel");
    tw_close_compiler(args, compiler);
    return module != NULL;
}
