/* pass.c: the registry of passes and the running of pipelines: anchors, verification, dumps,
 * seconds and changes. */
#include "ir/pipeline.h"

#include "base/clock.h"
#include "base/suggest.h"

#include <string.h>

/* ---- Registry ---- */

bool tw_pass_register(tw_context *ctx, const tw_pass *pass)
{
    const tw_pass *earlier = tw_pass_find(ctx, pass->name);
    if (earlier)
        return earlier == pass ||
               tw_error(ctx, NULL, "pass '%s' is registered already", pass->name);
    tw_vec_push(ctx->arena, &ctx->passes, pass);
    tw_map_put_str(&ctx->pass_names, pass->name, (void *)pass);
    return true;
}

const tw_pass *tw_pass_find(const tw_context *ctx, const char *name)
{
    return tw_map_get_str(&ctx->pass_names, name);
}

size_t tw_pass_count(const tw_context *ctx)
{
    return ctx->passes.len;
}

const tw_pass *tw_pass_at(const tw_context *ctx, size_t i)
{
    return ctx->passes.data[i];
}

const tw_pass *tw_pass_require(tw_context *ctx, const char *name, const char *what)
{
    const tw_pass *pass = tw_pass_find(ctx, name);
    if (pass)
        return pass;
    tw_suggestion near = {.name = name};
    for (size_t i = 0; i < ctx->passes.len; i++)
        tw_suggest(&near, ctx->passes.data[i]->name);
    tw_error(ctx, NULL, "%sthere is no pass '%s'%s%s%s", what, name,
             near.best ? "; did you mean '" : "", near.best ? near.best : "",
             near.best ? "'?" : "");
    return NULL;
}

/* ---- Options ---- */

static tw_attr find_option(const tw_pass_run *run, const char *name)
{
    for (size_t i = 0; i < run->options->u.dict.n; i++)
        if (!strcmp(run->options->u.dict.items[i].name, name))
            return run->options->u.dict.items[i].value;
    return NULL;
}

int64_t tw_pass_int(const tw_pass_run *run, const char *name, int64_t absent)
{
    tw_attr a = find_option(run, name);
    return a && a->kind == TW_ATTR_INT ? a->u.integer : absent;
}

const char *tw_pass_string(const tw_pass_run *run, const char *name, const char *absent)
{
    tw_attr a = find_option(run, name);
    return a && a->kind == TW_ATTR_STRING ? a->u.string.text : absent;
}

/* ---- Statistics ---- */

/* The row of that name in a list of statistics, which is added when missing. */
static tw_pass_stats *stats_of(tw_context *ctx, tw_stats_list *list, const char *name)
{
    size_t i = 0;
    while (i < list->len && strcmp(list->data[i].name, name) != 0)
        i++;
    if (i == list->len)
        tw_vec_push(ctx->arena, list, ((tw_pass_stats){.name = name}));
    return &list->data[i];
}

static void record(tw_context *ctx, const char *name, double seconds, uint64_t changes)
{
    tw_pass_stats *s = stats_of(ctx, &ctx->pass_stats, name);
    s->seconds += seconds;
    s->changes += changes;
    s->runs++;
}

void tw_timing_add(tw_context *ctx, const char *stage, double seconds)
{
    tw_pass_stats *s = stats_of(ctx, &ctx->stage_stats, stage);
    s->seconds += seconds;
    s->runs++;
}

static double share(double seconds, double total)
{
    return total > 0 ? 100 * seconds / total : 0;
}

static double total_seconds(const tw_stats_list *list)
{
    double total = 0;
    for (size_t i = 0; i < list->len; i++)
        total += list->data[i].seconds;
    return total;
}

static const char *report_stages(tw_context *ctx)
{
    double total = total_seconds(&ctx->stage_stats);
    const char *text =
        tw_arena_printf(ctx->arena, "%10s %7s %6s  %s\n", "seconds", "share", "runs", "stage");
    for (size_t i = 0; i < ctx->stage_stats.len; i++) {
        const tw_pass_stats *s = &ctx->stage_stats.data[i];
        text = tw_arena_printf(ctx->arena, "%s%10.4f %6.1f%% %6llu  %s\n", text, s->seconds,
                               share(s->seconds, total), (unsigned long long)s->runs, s->name);
    }
    return tw_arena_printf(ctx->arena, "%s%10.4f %6.1f%% %6s  total\n\n", text, total, 100.0, "");
}

const char *tw_pipeline_report(tw_context *ctx)
{
    double total = total_seconds(&ctx->pass_stats);
    const char *text = tw_arena_printf(ctx->arena, "%s%10s %7s %6s %9s  %s\n",
                                       ctx->stage_stats.len ? report_stages(ctx) : "", "seconds",
                                       "share", "runs", "changes", "pass");
    for (size_t i = 0; i < ctx->pass_stats.len; i++) {
        const tw_pass_stats *s = &ctx->pass_stats.data[i];
        text = tw_arena_printf(ctx->arena, "%s%10.4f %6.1f%% %6llu %9llu  %s\n", text, s->seconds,
                               share(s->seconds, total), (unsigned long long)s->runs,
                               (unsigned long long)s->changes, s->name);
    }
    return tw_arena_printf(ctx->arena, "%s%10.4f %6.1f%% %6s %9s  %s\n", text, total, 100.0, "", "",
                           "total");
}

/* ---- Running ---- */

enum { DUMP_ELIDE = 1024 }; /* bytes of a constant that a dump still shows */

typedef struct pipeline_run {
    tw_context *ctx;
    const tw_pipeline_options *options;
} pipeline_run;

static bool is_named(const char *wanted, const tw_pass *pass)
{
    return wanted && (!strcmp(wanted, "all") || !strcmp(wanted, pass->name));
}

/* "core.func @main" */
static const char *title_of(pipeline_run *p, const tw_op *root)
{
    const char *symbol = tw_op_string(root, "sym_name", NULL);
    return tw_arena_printf(p->ctx->arena, "%s%s%s", root->def->name, symbol ? " @" : "",
                           symbol ? symbol : "");
}

static void dump(pipeline_run *p, const char *when, const tw_pass *pass, const tw_op *root)
{
    const char *title =
        tw_arena_printf(p->ctx->arena, "%s %s on %s", when, pass->name, title_of(p, root));
    tw_print_options print = {.elide = DUMP_ELIDE};
    p->options->dump(p->options->dump_data, title, tw_print(p->ctx, root, &print));
}

static bool verify(pipeline_run *p, tw_op *root)
{
    double start = tw_seconds_now();
    bool fine = tw_verify(p->ctx, root);
    if (p->options->timing)
        record(p->ctx, "(verification)", tw_seconds_now() - start, 0);
    return fine;
}

/* ---- Limits ---- */

/* Whether the run is within the limits; lowers run->max_changes to what is left of them. */
static bool is_admitted(pipeline_run *p, tw_pass_run *run)
{
    tw_pass_limits *l = p->options->limits;
    if (!l || !run->pass->optional)
        return true;
    bool counted = l->pass && !strcmp(l->pass, run->pass->name);
    uint64_t left = l->changes > l->changes_seen ? l->changes - l->changes_seen : 0;
    if (++l->runs_seen > l->runs || (counted && !left))
        return false;
    if (counted && left < run->max_changes)
        run->max_changes = left;
    l->last_pass = run->pass;
    l->last_root = title_of(p, run->root);
    l->last_changes = 0;
    l->earlier_changes = stats_of(p->ctx, &p->ctx->pass_stats, run->pass->name)->changes;
    l->last_rule = p->ctx->last_rule = NULL;
    return true;
}

static void count_changes(pipeline_run *p, const tw_pass_run *run)
{
    tw_pass_limits *l = p->options->limits;
    if (!l || !run->pass->optional)
        return;
    if (l->pass && !strcmp(l->pass, run->pass->name))
        l->changes_seen += run->changes;
    l->last_changes = run->changes;
    l->last_rule = p->ctx->last_rule;
}

static void observe(pipeline_run *p, const tw_pass *pass, tw_op *root, bool after)
{
    if (p->options->observe)
        p->options->observe(p->options->observe_data, pass, root, after);
}

/* One pass on one operation; *changes counts over all operations of the item. */
static bool run_pass(pipeline_run *p, const tw_pipeline_item *item, tw_op *root, uint64_t *changes)
{
    const tw_pass *pass = item->pass;
    tw_pass_run run = {
        .ctx = p->ctx,
        .root = root,
        .pass = pass,
        .options = item->options,
        .user = p->options->user,
        .max_changes = item->max_changes == UINT64_MAX ? UINT64_MAX : item->max_changes - *changes};
    if (!is_admitted(p, &run))
        return true;
    observe(p, pass, root, false);
    if (is_named(p->options->dump_before, pass))
        dump(p, "before", pass, root);
    size_t errors = tw_error_count(p->ctx);
    double start = tw_seconds_now();
    bool fine = pass->run(&run);
    double seconds = tw_seconds_now() - start;
    count_changes(p, &run);
    observe(p, pass, root, true);
    if (p->options->timing || p->options->limits)
        record(p->ctx, pass->name, seconds, run.changes);
    *changes += run.changes < run.max_changes ? run.changes : run.max_changes;
    if (is_named(p->options->dump_after, pass))
        dump(p, "after", pass, root);
    if (!fine && tw_error_count(p->ctx) == errors)
        tw_error(p->ctx, root->loc, "pass '%s' failed", pass->name);
    else if (!fine)
        tw_note(p->ctx, root->loc, "this happened in pass '%s'", pass->name);
    if (!fine)
        return false;
    if (p->options->verify_each && !verify(p, root))
        return tw_error(p->ctx, root->loc, "pass '%s' left invalid IR", pass->name);
    return true;
}

typedef struct op_list {
    tw_arena *arena;
    const char *name;
    const tw_op *root;
    TW_VEC(tw_op *) ops;
} op_list;

static bool collect_named(tw_op *op, void *data)
{
    op_list *list = data;
    if (op == list->root || strcmp(op->def->name, list->name) != 0)
        return true;
    for (const tw_region *r = op->region; r && r->parent != list->root; r = r->parent->region)
        if (!strcmp(r->parent->def->name, list->name))
            return true;
    tw_vec_push(list->arena, &list->ops, op);
    return true;
}

/* The operations to run on: root itself, or those of the name inside it, outermost ones. */
static op_list find_anchors(tw_context *ctx, tw_op *root, const char *name)
{
    op_list list = {.arena = ctx->arena, .name = name, .root = root};
    if (!name || !strcmp(root->def->name, name))
        tw_vec_push(ctx->arena, &list.ops, root);
    else
        tw_walk(root, collect_named, &list);
    return list;
}

static bool is_inside_named(const tw_op *op, const char *name)
{
    for (const tw_region *r = op->region; r; r = r->parent->region)
        if (!strcmp(r->parent->def->name, name))
            return true;
    return false;
}

static bool run_list(pipeline_run *p, const tw_pipeline *list, tw_op *root);

static bool run_item(pipeline_run *p, const tw_pipeline_item *item, tw_op *root)
{
    const char *anchor = item->pass ? item->pass->anchor : item->anchor;
    op_list on = find_anchors(p->ctx, root, anchor);
    if (!on.ops.len && item->pass && is_inside_named(root, anchor))
        return tw_error(p->ctx, NULL, "pass '%s' runs on %s and cannot be nested in %s",
                        item->pass->name, anchor, root->def->name);
    uint64_t changes = 0;
    for (size_t i = 0; i < on.ops.len; i++)
        if (!(item->pass ? run_pass(p, item, on.ops.data[i], &changes)
                         : run_list(p, item->nested, on.ops.data[i])))
            return false;
    return true;
}

static bool is_disabled(const pipeline_run *p, const tw_pass *pass)
{
    for (const char *const *d = p->options->disable; pass && d && *d; d++)
        if (!strcmp(*d, pass->name))
            return true;
    return false;
}

static bool run_list(pipeline_run *p, const tw_pipeline *list, tw_op *root)
{
    for (size_t i = 0; i < list->items.len; i++) {
        const tw_pipeline_item *item = &list->items.data[i];
        if (!is_disabled(p, item->pass) && !run_item(p, item, root))
            return false;
    }
    return true;
}

static bool check_names(tw_context *ctx, const tw_pipeline_options *o)
{
    bool fine = true;
    for (const char *const *d = o->disable; d && *d; d++) {
        const tw_pass *pass = tw_pass_require(ctx, *d, "pass to disable: ");
        if (pass && !pass->optional)
            tw_error(ctx, NULL, "pass '%s' cannot be disabled: results depend on it", *d);
        fine = fine && pass && pass->optional;
    }
    if (o->limits && o->limits->pass)
        fine = tw_pass_require(ctx, o->limits->pass, "pass to limit: ") && fine;
    if (o->dump_before && strcmp(o->dump_before, "all") != 0)
        fine = tw_pass_require(ctx, o->dump_before, "dump before: ") && fine;
    if (o->dump_after && strcmp(o->dump_after, "all") != 0)
        fine = tw_pass_require(ctx, o->dump_after, "dump after: ") && fine;
    return fine;
}

bool tw_run_pipeline(tw_context *ctx, tw_op *root, const char *pipeline,
                     const tw_pipeline_options *options)
{
    static const tw_pipeline_options none = {0};
    pipeline_run p = {ctx, options ? options : &none};
    const tw_pipeline *list = tw_pipeline_parse(ctx, pipeline);
    if (!check_names(ctx, p.options) || !list)
        return false;
    if (p.options->verify_each && !verify(&p, root))
        return tw_error(ctx, root->loc, "the IR is invalid before the first pass");
    return run_list(&p, list, root);
}
