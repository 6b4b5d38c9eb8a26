/* tilewright_options.c: the options that several verbs take. */
#include "tilewright.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPT_CPU = 256,
    OPT_SHAPE,
    OPT_OPEN,
    OPT_TIMING,
    OPT_DUMP_BEFORE,
    OPT_DUMP_AFTER,
    OPT_DISABLE,
    OPT_PASS_LIMIT,
    OPT_REWRITE_LIMIT,
    OPT_PLUGIN,
    OPT_OUTPUT_OF,
    OPT_PIPELINE,
    OPT_PRECISE,
    OPT_SATURATE,
    OPT_JOBS,
    OPT_INPUTS,
    OPT_INPUT,
    OPT_THREADS,
};

/* ---- Numbers ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A whole number; *end is what follows it. */
static bool parse_whole(const char *text, const char **end, int64_t *out)
{
    if (!is_digit(*text))
        return false;
    char *stop;
    errno = 0;
    *out = strtoll(text, &stop, 10);
    *end = stop;
    return !errno;
}

bool tw_parse_count(const char *text, unsigned *out)
{
    const char *end;
    int64_t value;
    if (!parse_whole(text, &end, &value) || *end || value < 1 || value > 1024)
        return false;
    *out = (unsigned)value;
    return true;
}

bool tw_parse_number(const char *text, int64_t *out)
{
    const char *end;
    return parse_whole(text, &end, out) && !*end;
}

bool tw_parse_real(const char *text, double *out)
{
    if (text[strspn(text, "0123456789.eE+-")] || (!is_digit(*text) && *text != '.'))
        return false;
    char *end;
    *out = strtod(text, &end);
    return end != text && !*end && isfinite(*out);
}

/* "NAME=1x3x224x224" (or NAME= for rank 0); the name may contain '=' and is cut at the last. */
static bool parse_shape(tw_compile_args *args, const char *text)
{
    const char *equals = strrchr(text, '=');
    if (!equals || equals == text)
        return false;
    int64_t *dims = tw_context_alloc(args->ctx, TW_MAX_RANK * sizeof *dims);
    unsigned rank = 0;
    for (const char *at = equals + 1; *at;) {
        if (rank == TW_MAX_RANK || !parse_whole(at, &at, &dims[rank++]))
            return false;
        if (*at && (*at++ != 'x' || !*at))
            return false;
    }
    const char *name = tw_intern(args->ctx, text, (size_t)(equals - text));
    tw_vec_push(tw_context_arena(args->ctx), &args->shapes, ((tw_shape){name, rank, dims}));
    return true;
}

/* ---- Compilation ---- */

static const struct argp_option compile_options[] = {
    {0, 0, 0, 0, "Compilation:", 1},
    {0, 'O', "0|1|2|3", 0, "How much to optimise (default 3)", 0},
    {"cpu", OPT_CPU, "CPU", 0,
     "Make code for host (default), x86-64-v2, -v3, -v4 or a processor's name; several: all in one "
     "file, the best one chosen when it is loaded",
     0},
    {"shape", OPT_SHAPE, "NAME=1x3x224x224", 0, "Fix the shape of an input", 0},
    {"open-input", OPT_OPEN, "NAME", 0,
     "Leave an input for which the model has a default (an initializer) to each run; run and check "
     "do so with what is given",
     0},
    {"precise", OPT_PRECISE, 0, 0, "No fused multiply-add, no reordering of sums", 0},
    {"saturate-products", OPT_SATURATE, 0, 0,
     "Matrix products of unsigned by signed bytes as processors without VNNI make them (default: "
     "exact)",
     0},
    {"keep-output", OPT_OUTPUT_OF, "VALUE", 0, "Give this inner value as a further output", 0},
    {"jobs", OPT_JOBS, "N", 0, "Threads to compile with (default: the CPUs it may use)", 0},
    {"timing", OPT_TIMING, 0, 0, "Print the seconds of each stage and pass, to stderr", 0},
    {"dump-before", OPT_DUMP_BEFORE, "PASS|all", 0, "Print the IR before a pass, to stderr", 0},
    {"dump-after", OPT_DUMP_AFTER, "PASS|all", 0, "Print the IR after a pass, to stderr", 0},
    {"disable-pass", OPT_DISABLE, "PASS", 0, "Leave out an optional pass", 0},
    {"pass-limit", OPT_PASS_LIMIT, "N", 0,
     "Only the first N runs of optional passes happen; the last is told, to stderr", 0},
    {"rewrite-limit", OPT_REWRITE_LIMIT, "PASS=N", 0,
     "Only the first N changes of an optional pass happen", 0},
    {"pipeline", OPT_PIPELINE, "PASSES", 0, "Graph passes to run instead of the level's", 0},
    {"load-plugin", OPT_PLUGIN, "FILE", 0, "Load dialects and passes from a shared object", 0},
    {0},
};

/* "PASS=N" */
static bool parse_rewrite_limit(tw_compile_args *args, const char *text)
{
    const char *equals = strrchr(text, '=');
    int64_t changes;
    if (!equals || equals == text || !tw_parse_number(equals + 1, &changes))
        return false;
    args->limits.pass = tw_intern(args->ctx, text, (size_t)(equals - text));
    args->limits.changes = (uint64_t)changes;
    return true;
}

static error_t parse_compile(int key, char *arg, struct argp_state *state)
{
    tw_compile_args *a = state->input;
    tw_arena *arena = tw_context_arena(a->ctx);
    tw_pipeline_options *passes = &a->options.passes;
    int64_t number;
    switch (key) {
    case ARGP_KEY_INIT:
        a->options.opt_level = 3;
        a->limits.runs = UINT64_MAX;
        break;
    case 'O':
        if (strlen(arg) != 1 || *arg < '0' || *arg > '3')
            argp_error(state, "-O takes 0, 1, 2 or 3, not '%s'", arg);
        a->options.opt_level = *arg - '0';
        break;
    case OPT_CPU:
        tw_vec_push(arena, &a->cpus, arg);
        break;
    case OPT_SHAPE:
        if (!parse_shape(a, arg))
            argp_error(state, "--shape takes NAME=1x3x224x224, not '%s'", arg);
        break;
    case OPT_OPEN:
        tw_vec_push(arena, &a->open_inputs, arg);
        break;
    case OPT_OUTPUT_OF:
        tw_vec_push(arena, &a->extra_outputs, arg);
        break;
    case OPT_JOBS:
        if (!tw_parse_count(arg, &a->options.threads))
            argp_error(state, "--jobs takes a number from 1 to 1024, not '%s'", arg);
        break;
    case OPT_PRECISE:
        a->options.precise = true;
        break;
    case OPT_SATURATE:
        a->options.saturate_products = true;
        break;
    case OPT_TIMING:
        passes->timing = true;
        break;
    case OPT_DUMP_BEFORE:
        passes->dump_before = arg;
        break;
    case OPT_DUMP_AFTER:
        passes->dump_after = arg;
        break;
    case OPT_DISABLE:
        tw_vec_push(arena, &a->disabled, arg);
        break;
    case OPT_PIPELINE:
        a->options.pipeline = arg;
        break;
    case OPT_PASS_LIMIT:
        if (!tw_parse_number(arg, &number))
            argp_error(state, "--pass-limit takes a number, not '%s'", arg);
        a->limits.runs = (uint64_t)number;
        break;
    case OPT_REWRITE_LIMIT:
        if (!parse_rewrite_limit(a, arg))
            argp_error(state, "--rewrite-limit takes PASS=N, not '%s'", arg);
        break;
    case OPT_PLUGIN:
        tw_vec_push(arena, &a->plugins, arg);
        break;
    case ARGP_KEY_ARG:
        if (a->model)
            argp_error(state, "one MODEL, not also '%s'", arg);
        a->model = arg;
        break;
    case ARGP_KEY_END:
        if (!a->model)
            argp_error(state, "which MODEL?");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

const struct argp tw_compile_argp = {compile_options, parse_compile, 0, 0, 0, 0, 0};

/* ---- Running ---- */

static const struct argp_option input_options[] = {
    {0, 0, 0, 0, "Running:", 2},
    {"inputs", OPT_INPUTS, "X.npz", 0, "Arrays by the names of the model's inputs", 0},
    {"input", OPT_INPUT, "NAME=FILE|random", 0,
     "One input, from a .npy file or ONNX's .pb; those not given are made up", 0},
    {0},
};

static error_t parse_input(int key, char *arg, struct argp_state *state)
{
    tw_input_args *a = state->input;
    const char *equals;
    switch (key) {
    case OPT_INPUTS:
        a->npz = arg;
        break;
    case OPT_INPUT:
        equals = strrchr(arg, '=');
        if (!equals || equals == arg || !equals[1])
            argp_error(state, "--input takes NAME=FILE.npy, NAME=FILE.pb or NAME=random, not '%s'",
                       arg);
        tw_vec_push(tw_context_arena(a->ctx), &a->named, arg);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

const struct argp tw_input_argp = {input_options, parse_input, 0, 0, 0, 0, 0};

static const struct argp_option threads_options[] = {
    {"threads", OPT_THREADS, "N", 0,
     "Threads to run with (default: TILEWRIGHT_NUM_THREADS, or the CPUs it may use)", 2},
    {0},
};

static error_t parse_threads(int key, char *arg, struct argp_state *state)
{
    if (key != OPT_THREADS)
        return ARGP_ERR_UNKNOWN;
    if (!tw_parse_count(arg, state->input))
        argp_error(state, "--threads takes a number from 1 to 1024, not '%s'", arg);
    return 0;
}

const struct argp tw_threads_argp = {threads_options, parse_threads, 0, 0, 0, 0, 0};
