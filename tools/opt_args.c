/* opt_args.c: the command line of tilewright-opt. */
#include "opt.h"

#include <argp.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPT_DUMP_BEFORE = 256,
    OPT_DUMP_AFTER,
    OPT_DISABLE,
    OPT_TIMING,
    OPT_VERIFY_EACH,
    OPT_PLUGIN,
    OPT_LOCATIONS,
    OPT_ELIDE,
    OPT_LIST_PASSES,
    OPT_LIST_DIALECTS,
    OPT_MEMORY_LIMIT,
    OPT_SCHEDULE,
    OPT_SEED,
    OPT_EMIT,
    OPT_CPU,
};

static const struct argp_option options[] = {
    {"passes", 'p', "PIPELINE", 0, "Run these passes: 'a,b{option=1 flag},func(c,d)'", 0},
    {"schedule", OPT_SCHEDULE, "FILE", 0, "First replay the schedules in FILE on their kernels", 0},
    {"seed", OPT_SEED, "N", 0, "Draw the samples of the schedules anew, with this seed", 0},
    {"output", 'o', "FILE", 0, "Write the IR there instead of to the standard output", 0},
    {"emit", OPT_EMIT, "asm|llvm", 0, "Write the code of flat kernels instead of IR", 0},
    {"cpu", OPT_CPU, "NAME", 0, "Make code for this CPU (default host)", 0},
    {0, 'O', "LEVEL", 0, "Optimize code: 0 to 3 (default 2)", 0},
    {"dump-before", OPT_DUMP_BEFORE, "PASS|all", 0, "Print the IR before a pass, to stderr", 0},
    {"dump-after", OPT_DUMP_AFTER, "PASS|all", 0, "Print the IR after a pass, to stderr", 0},
    {"disable-pass", OPT_DISABLE, "PASS", 0, "Leave out an optional pass", 0},
    {"timing", OPT_TIMING, 0, 0, "Print the seconds of each pass, to stderr", 0},
    {"verify-each", OPT_VERIFY_EACH, "on|off", OPTION_ARG_OPTIONAL,
     "Check the IR as read and after each pass (default on)", 0},
    {"load-plugin", OPT_PLUGIN, "FILE", 0, "Load dialects and passes from a shared object", 0},
    {"show-locations", OPT_LOCATIONS, 0, 0, "Print where each operation comes from", 0},
    {"elide", OPT_ELIDE, "N", 0, "Leave out constants of more than N bytes (default 0: none)", 0},
    {"memory-limit", OPT_MEMORY_LIMIT, "MB", 0, "Give up beyond that much memory", 0},
    {"list-passes", OPT_LIST_PASSES, 0, 0, "List the passes and their options", 0},
    {"list-dialects", OPT_LIST_DIALECTS, 0, 0, "List the dialects and their operations", 0},
    {0},
};

static size_t parse_size(struct argp_state *state, const char *what, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end || *text < '0' || *text > '9' || value > SIZE_MAX >> 20)
        argp_error(state, "%s needs a number, not '%s'", what, text);
    return (size_t)value;
}

static void append(struct argp_state *state, const char **list, unsigned *n, const char *item)
{
    if (*n == TW_OPT_MAX_LIST)
        argp_error(state, "an option is given more than %d times", TW_OPT_MAX_LIST);
    list[(*n)++] = item;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    tw_opt_args *args = state->input;
    switch (key) {
    case 'p':
        args->passes = arg;
        return 0;
    case OPT_SCHEDULE:
        args->schedule = arg;
        return 0;
    case OPT_SEED:
        if (parse_size(state, "--seed", arg) > INT32_MAX)
            argp_error(state, "--seed is at most %d", INT32_MAX);
        args->seed = arg;
        return 0;
    case 'o':
        args->output = arg;
        return 0;
    case OPT_EMIT:
        args->emit = arg;
        if (strcmp(arg, "asm") && strcmp(arg, "llvm"))
            argp_error(state, "--emit is asm or llvm, not '%s'", arg);
        return 0;
    case OPT_CPU:
        args->cpu = arg;
        return 0;
    case 'O':
        if (strlen(arg) != 1 || *arg < '0' || *arg > '3')
            argp_error(state, "-O is 0, 1, 2 or 3, not '%s'", arg);
        args->opt_level = (unsigned)(*arg - '0');
        return 0;
    case OPT_DUMP_BEFORE:
        args->dump_before = arg;
        return 0;
    case OPT_DUMP_AFTER:
        args->dump_after = arg;
        return 0;
    case OPT_DISABLE:
        append(state, args->disabled, &args->n_disabled, arg);
        return 0;
    case OPT_TIMING:
        args->timing = true;
        return 0;
    case OPT_VERIFY_EACH:
        args->verify_each = !arg || !strcmp(arg, "on");
        if (arg && strcmp(arg, "on") && strcmp(arg, "off"))
            argp_error(state, "--verify-each is on or off, not '%s'", arg);
        return 0;
    case OPT_PLUGIN:
        append(state, args->plugins, &args->n_plugins, arg);
        return 0;
    case OPT_LOCATIONS:
        args->show_locations = true;
        return 0;
    case OPT_ELIDE:
        args->elide = parse_size(state, "--elide", arg);
        return 0;
    case OPT_MEMORY_LIMIT:
        args->memory_limit = parse_size(state, "--memory-limit", arg) << 20;
        return 0;
    case OPT_LIST_PASSES:
        args->list_passes = true;
        return 0;
    case OPT_LIST_DIALECTS:
        args->list_dialects = true;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num)
            argp_error(state, "only one file can be given");
        args->file = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void tw_opt_parse_args(tw_opt_args *args, int argc, char **argv)
{
    static const struct argp parser = {
        options,
        parse_option,
        "[FILE]",
        "Reads IR as text from FILE or the standard input, runs passes and writes it.\v"
        "Exit code 0: fine; 1: bad input, with diagnostics on stderr; 2: wrong usage.",
        0,
        0,
        0};
    *args = (tw_opt_args){
        .file = "-", .passes = "", .cpu = "host", .opt_level = 2, .verify_each = true};
    argp_err_exit_status = 2;
    argp_program_version = "tilewright-opt " TW_VERSION;
    argp_parse(&parser, argc, argv, 0, NULL, args);
}
