/* opt.h: the command line of tilewright-opt. */
#ifndef TW_TOOLS_OPT_H
#define TW_TOOLS_OPT_H

#include <stdbool.h>
#include <stddef.h>

enum { TW_OPT_MAX_LIST = 64 };

typedef struct tw_opt_args {
    const char *file; /* "-": standard input */
    const char *output;
    const char *passes;
    const char *schedule; /* file of traces to replay first, or NULL */
    const char *seed;     /* to draw the traces' samples anew with, or NULL */
    const char *emit;     /* "asm", "llvm": code instead of IR; NULL: IR */
    const char *cpu;
    unsigned opt_level;
    const char *dump_before, *dump_after;
    const char *disabled[TW_OPT_MAX_LIST + 1];
    const char *plugins[TW_OPT_MAX_LIST];
    unsigned n_disabled, n_plugins;
    bool timing, verify_each, show_locations, list_passes, list_dialects;
    size_t elide, memory_limit;
} tw_opt_args;

/* Fills in args; for --help, --version and wrong usage (code 2) it ends the process. */
void tw_opt_parse_args(tw_opt_args *args, int argc, char **argv);

#endif
