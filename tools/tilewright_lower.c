/* tilewright_lower.c: tilewright lower FILE: kernels before and after each step of their schedules.
 *
 * The schedules stand in the file beside their kernels, or in one of their own (--schedule). A
 * kernel without one is scheduled by the default rules for --cpu, whose trace is shown likewise. */
#include "tilewright.h"

#include "base/arena.h"
#include "base/file.h"
#include "dialect/loop/loop.h"
#include "schedule/sched_dialect.h"
#include "tilewright/schedule.h"

#include <stdio.h>
#include <string.h>

enum { OPT_SCHEDULE = 512, OPT_SEED, OPT_CPU, OPT_TIME };

typedef struct lower_verb {
    tw_compile_args args; /* for its context */
    const char *file, *schedule, *cpu;
    int64_t seed; /* -1: none */
    unsigned threads;
    bool time;
    tw_peaks peaks;
} lower_verb;

static const struct argp_option options[] = {
    {"schedule", OPT_SCHEDULE, "FILE", 0, "Take the schedules from there", 0},
    {"seed", OPT_SEED, "N", 0, "Draw the schedules' samples anew, with this seed", 0},
    {"cpu", OPT_CPU, "NAME", 0, "For the default rules (default x86-64-v3)", 0},
    {"time", OPT_TIME, 0, 0,
     "Print how long each scheduled kernel takes on this machine, and what part of the peak its "
     "attribute flops makes that, instead of the steps",
     0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    lower_verb *v = state->input;
    switch (key) {
    case OPT_SCHEDULE:
        v->schedule = arg;
        break;
    case OPT_SEED:
        if (!tw_parse_number(arg, &v->seed))
            argp_error(state, "--seed needs a number, not '%s'", arg);
        break;
    case OPT_CPU:
        v->cpu = arg;
        break;
    case OPT_TIME:
        v->time = true;
        break;
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &v->threads;
        break;
    case ARGP_KEY_ARG:
        if (state->arg_num)
            argp_error(state, "only one file can be given");
        v->file = arg;
        break;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "a file with kernels as text is needed");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_child children[] = {{&tw_threads_argp, 0, 0, 0}, {0}};
static const struct argp argp = {
    options,
    parse,
    "FILE",
    "Print each kernel of FILE (loop IR as text) before and after each step of its schedule, which "
    "stands in FILE, too, or in that of --schedule. A kernel without one is scheduled by rule.",
    children,
    0,
    0};

static void print_op(tw_context *ctx, const tw_op *op)
{
    const char *text = tw_print(ctx, op, &(tw_print_options){0});
    size_t n = strlen(text);
    while (n && text[n - 1] == '\n')
        n--;
    printf("%.*s\n", (int)n, text);
}

/* The step as a line of the trace: the whole trace is printed, for names are its own. */
static void print_step(const tw_schedule *s)
{
    const char *text = tw_schedule_text(s), *end = strrchr(text, '}'), *line;
    while (end > text && end[-1] != '\n')
        end--;
    line = end > text ? end - 1 : end;
    while (line > text && line[-1] != '\n')
        line--;
    printf("//%.*s\n", (int)(end - line - 2), line + 1);
}

/* Whether the step changes nothing. */
static bool only_names(const tw_op *step)
{
    return tw_is_sched(step, TW_SCHED_GET_BLOCK) || tw_is_sched(step, TW_SCHED_GET_LOOPS);
}

static void show_step(void *data, const tw_schedule *s, const tw_op *step)
{
    tw_context *ctx = data;
    print_step(s);
    if (only_names(step))
        return;
    puts("");
    print_op(ctx, tw_schedule_kernel(s));
    puts("");
}

static tw_op *read_module(tw_context *ctx, const char *path)
{
    tw_file file;
    const char *why = tw_file_map(path, (size_t)1 << 30, &file);
    if (why) {
        tw_error(ctx, NULL, "cannot read '%s': %s", path, why);
        return NULL;
    }
    tw_op *module = tw_parse(ctx, (const char *)file.data, file.size, path);
    return module && tw_verify(ctx, module) ? module : NULL;
}

static const tw_op *schedule_in(const tw_op *module, const char *kernel)
{
    if (module && tw_is_sched(module, TW_SCHED_SCHEDULE))
        return strcmp(tw_op_string(module, "kernel", ""), kernel) ? NULL : module;
    for (const tw_op *op = module && module->n_regions ? module->regions[0].first : NULL; op;
         op = op->next)
        if (tw_is_sched(op, TW_SCHED_SCHEDULE) && !strcmp(tw_op_string(op, "kernel", ""), kernel))
            return op;
    return NULL;
}

static bool time_kernel(const lower_verb *v, tw_op *kernel, const tw_op *schedule)
{
    double seconds, flops = (double)tw_op_int(kernel, "flops", 0);
    tw_replay_options replay = {.seed = (uint64_t)v->seed, .redraw = v->seed >= 0};
    if ((schedule && !tw_schedule_replay_with(v->args.ctx, kernel, schedule, &replay)) ||
        !tw_time_kernel(v->args.ctx, kernel, v->threads, &seconds))
        return false;
    printf("@%s: %.3f ms", tw_op_string(kernel, "sym_name", ""), seconds * 1e3);
    if (flops > 0)
        printf(", %.1f GFLOP/s, %.2f of the peak", flops / seconds * 1e-9,
               flops / seconds / v->peaks.flops);
    puts("");
    return true;
}

static bool show_kernel(const lower_verb *v, tw_op *kernel, const tw_op *schedule)
{
    tw_context *ctx = v->args.ctx;
    tw_replay_options replay = {
        .seed = (uint64_t)v->seed, .redraw = v->seed >= 0, .after_step = show_step, .data = ctx};
    print_op(ctx, kernel);
    puts("");
    if (!schedule)
        puts("// no rule schedules it");
    return !schedule || tw_schedule_replay_with(ctx, kernel, schedule, &replay);
}

/* Puts the default rules' schedules into the module, which is for nothing else then. */
static bool add_rules(const lower_verb *v, tw_op *module)
{
    tw_context *ctx = v->args.ctx;
    const char *pipeline =
        tw_arena_printf(tw_context_arena(ctx), "schedule-kernels{trace target=\"%s\"}", v->cpu);
    return tw_run_pipeline(ctx, module, pipeline, &(tw_pipeline_options){.verify_each = true});
}

static bool lower(void *verb)
{
    lower_verb *v = verb;
    tw_context *ctx = v->args.ctx;
    tw_op *module, *given = NULL, *ruled;
    if (!tw_register_all(ctx) || !(module = read_module(ctx, v->file)) ||
        !(ruled = read_module(ctx, v->file)) ||
        (v->schedule && !(given = read_module(ctx, v->schedule))) || !add_rules(v, ruled))
        return false;
    v->threads = v->threads ? v->threads : 1;
    if (v->time && !tw_measure_peaks(v->threads, &v->peaks))
        return tw_runtime_error(ctx);
    bool good = true;
    unsigned n = 0;
    for (tw_op *op = module->regions[0].first; op; op = op->next) {
        if (!tw_is_loop(op, TW_LOOP_KERNEL))
            continue;
        const char *name = tw_op_string(op, "sym_name", "");
        const tw_op *schedule = schedule_in(given, name);
        schedule = schedule ? schedule : schedule_in(module, name);
        n++;
        schedule = schedule ? schedule : schedule_in(ruled, name);
        good &= v->time ? time_kernel(v, op, schedule) : show_kernel(v, op, schedule);
    }
    return good && (n || tw_error(ctx, NULL, "'%s' has no kernel", v->file));
}

int tw_verb_lower(int argc, char **argv)
{
    lower_verb verb = {.cpu = "x86-64-v3", .seed = -1};
    return tw_run_verb(&argp, argc, argv, &verb, &verb.args, lower);
}
