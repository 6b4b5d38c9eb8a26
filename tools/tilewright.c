/* tilewright.c: the command: `tilewright VERB …`. */
#include "tilewright.h"

#include <stdio.h>
#include <string.h>

static const struct verb {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} verbs[] = {
    {"compile", "compile a model to native code", tw_verb_compile},
    {"run", "run a model on given or made-up inputs", tw_verb_run},
    {"check", "compare a model's results with reference data", tw_verb_check},
    {"bisect", "find the pass that makes a result wrong", tw_verb_bisect},
    {"bench", "measure the time of a model and of its kernels", tw_verb_bench},
    {"inspect", "show what a model consists of", tw_verb_inspect},
    {"lower", "show kernels before and after each step of their schedules", tw_verb_lower},
    {"ops", "list the operators that models may use", tw_verb_ops},
};
enum { N_VERBS = sizeof verbs / sizeof verbs[0] };

static void print_help(FILE *to)
{
    fputs("Usage: tilewright VERB [OPTION...] ...\n"
          "Compile deep-learning models to native code, run and measure them.\n\n",
          to);
    for (int i = 0; i < N_VERBS; i++)
        fprintf(to, "  %-10s %s\n", verbs[i].name, verbs[i].summary);
    fputs("\n`tilewright VERB --help` tells more. Exit code: 0 fine, 1 an error (told on stderr), "
          "2 wrong usage.\n",
          to);
}

/* What was printed must have arrived. */
static int end(int code)
{
    if (code != TW_EXIT_OK || (!fflush(stdout) && !ferror(stdout)))
        return code;
    perror("tilewright: error: standard output");
    return TW_EXIT_FAILED;
}

int main(int argc, char **argv)
{
    argp_err_exit_status = TW_EXIT_USAGE;
    if (argc < 2) {
        print_help(stderr);
        return TW_EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_help(stdout);
        return end(TW_EXIT_OK);
    }
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
        puts("tilewright " TW_VERSION);
        return end(TW_EXIT_OK);
    }
    for (int i = 0; i < N_VERBS; i++)
        if (!strcmp(argv[1], verbs[i].name)) {
            char name[64];
            snprintf(name, sizeof name, "tilewright %s", verbs[i].name);
            argv[1] = name;
            return end(verbs[i].run(argc - 1, argv + 1));
        }
    fprintf(stderr, "tilewright: no verb '%s'\n\n", argv[1]);
    print_help(stderr);
    return TW_EXIT_USAGE;
}
