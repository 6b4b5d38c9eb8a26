/* apply_schedule.c: the pass apply-schedule: replays schedules on the kernels they are for.
 *
 * Schedules stand in the module beside their kernels, or in a file (option `file`); those in the
 * module are gone afterwards. */
#include "schedule/schedule_impl.h"

#include <stdio.h>
#include <string.h>

static tw_op *find_kernel(tw_op *module, const char *name)
{
    for (tw_op *op = module->regions[0].first; op; op = op->next)
        if (tw_is_loop(op, TW_LOOP_KERNEL) && !strcmp(tw_op_string(op, "sym_name", ""), name))
            return op;
    return NULL;
}

/* Replays a schedule on the kernel, or on a copy of it: then the trace, with what its samples have
 * drawn, comes behind the kernel, which stays as it is. */
static bool apply(tw_pass_run *run, tw_op *kernel, tw_op *schedule,
                  const tw_replay_options *options)
{
    tw_context *ctx = run->ctx;
    if (!tw_pass_int(run, "trace", 0))
        return tw_schedule_replay_with(ctx, kernel, schedule, options) != NULL;
    tw_op *copy = tw_op_clone(tw_cloner_create(ctx), kernel);
    tw_op_insert(copy, kernel->region, kernel);
    tw_schedule *s = tw_schedule_replay_with(ctx, copy, schedule, options);
    if (s)
        tw_op_insert(tw_schedule_trace(s), kernel->region, kernel->next);
    tw_op_erase(copy);
    return s != NULL;
}

/* Replays all schedules of `from` on the kernels of the module; a refused one does not keep the
 * others from being tried. */
static bool apply_all(tw_pass_run *run, tw_op *from)
{
    int64_t seed = tw_pass_int(run, "seed", -1);
    tw_replay_options options = {.seed = (uint64_t)seed, .redraw = seed >= 0};
    bool good = true;
    for (tw_op *op = from->regions[0].first, *next; op; op = next) {
        next = op->next;
        if (!tw_is_sched(op, TW_SCHED_SCHEDULE))
            continue;
        const char *name = tw_op_string(op, "kernel", "");
        tw_op *kernel = find_kernel(run->root, name);
        if (!kernel)
            good = tw_error(run->ctx, op->loc, "the module has no kernel @%s to schedule", name);
        else if (!apply(run, kernel, op, &options))
            good = false;
        run->changes++;
        if (from == run->root)
            tw_op_erase(op);
    }
    return good;
}

/* All bytes of a file; false with a diagnostic. */
static bool read_file(tw_context *ctx, const char *path, char **text, size_t *len)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return tw_error(ctx, NULL, "cannot open '%s': %m", path);
    size_t cap = 1 << 14, n = 0, got;
    char *bytes = tw_context_alloc(ctx, cap);
    while ((got = fread(bytes + n, 1, cap - n, file)) > 0) {
        n += got;
        if (n < cap)
            continue;
        char *grown = tw_context_alloc(ctx, 2 * cap);
        memcpy(grown, bytes, n);
        bytes = grown;
        cap *= 2;
    }
    bool good = !ferror(file) || tw_error(ctx, NULL, "cannot read '%s': %m", path);
    fclose(file);
    *text = bytes;
    *len = n;
    return good;
}

static bool apply_schedule(tw_pass_run *run)
{
    const char *path = tw_pass_string(run, "file", NULL);
    char *text;
    size_t len;
    if (!path)
        return apply_all(run, run->root);
    if (!read_file(run->ctx, path, &text, &len))
        return false;
    tw_op *traces = tw_parse(run->ctx, text, len, path);
    return traces && tw_verify(run->ctx, traces) && apply_all(run, traces);
}

static const tw_attr_spec options[] = {
    {"file", TW_ATTR_STRING, false, "text with the schedules; without it those in the module"},
    {"trace", TW_ATTR_UNIT, false, "leave kernels alone; put the schedule of each one behind it"},
    {"seed", TW_ATTR_INT, false, "draw all samples anew, with this seed"},
    {NULL, 0, false, NULL},
};

const tw_pass tw_pass_apply_schedule = {
    .name = "apply-schedule",
    .summary = "replay schedules on their kernels",
    .anchor = "core.module",
    .run = apply_schedule,
    .options = options,
};

bool tw_schedule_register(tw_context *ctx)
{
    return tw_dialect_register(ctx, &tw_sched_dialect) &&
           tw_pass_register(ctx, &tw_pass_apply_schedule) &&
           tw_pass_register(ctx, &tw_pass_compact_buffers);
}
