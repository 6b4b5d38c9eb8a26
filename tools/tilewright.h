/* tilewright.h: what the verbs of the command share. */
#ifndef TW_TOOLS_TILEWRIGHT_H
#define TW_TOOLS_TILEWRIGHT_H

#include "base/npz.h"
#include "tilewright/compiler.h"
#include "tilewright/runtime.h"

#include <argp.h>

/* Exit codes of the command. */
enum { TW_EXIT_OK = 0, TW_EXIT_FAILED = 1, TW_EXIT_USAGE = 2 };

/* The verbs; argv[0] is "tilewright VERB". */
int tw_verb_compile(int argc, char **argv);
int tw_verb_run(int argc, char **argv);
int tw_verb_check(int argc, char **argv);
int tw_verb_bench(int argc, char **argv);
int tw_verb_inspect(int argc, char **argv);
int tw_verb_ops(int argc, char **argv);

/* ---- Options that several verbs take ---- */

enum { TW_MAX_LIST = 64 };

/* Of compilation: -O, --cpu, --shape, --timing, --dump-*, --disable-pass, ... Zero-initialise; the
 * argp parser below fills it in as a child whose input it is. */
typedef struct tw_compile_args {
    tw_compile_options options;
    const char *cpus[TW_MAX_LIST];
    tw_shape shapes[TW_MAX_LIST];
    const char *extra_outputs[TW_MAX_LIST];
    const char *disabled[TW_MAX_LIST + 1];
    const char *plugins[TW_MAX_LIST];
    unsigned n_disabled, n_plugins;
    tw_context *ctx; /* of the verb, for memory and diagnostics */
} tw_compile_args;
extern const struct argp tw_compile_argp;

/* Of running: --threads, --inputs, --input. */
typedef struct tw_input_args {
    const char *npz;
    const char *named[TW_MAX_LIST]; /* NAME=FILE.npy or NAME=random */
    unsigned n_named, threads;
} tw_input_args;
extern const struct argp tw_input_argp;

/* ---- Work that several verbs do ---- */

/* Prints the context's diagnostics to stderr and forgets them. */
void tw_report(tw_context *ctx);
/* Prints "tilewright: error: ..." for a failed call of the runtime. Returns TW_EXIT_FAILED. */
int tw_report_runtime(const char *what);
/* The end of a verb: tells the diagnostics, and the timing of the passes when --timing was given,
 * on stderr; destroys the context. Gives the exit code. */
int tw_finish(tw_compile_args *args, bool fine);

/* Sets defaults, loads plugins. False after diagnostics. */
bool tw_prepare(tw_compile_args *args);

/* The arrays given on the command line, by input name. `strip` is a prefix ("in/") that names in
 * the .npz have; others are left out. False after diagnostics. */
bool tw_read_inputs(tw_context *ctx, const tw_input_args *args, const char *strip, tw_arrays *out);

/* Whether the file is an ELF file, as compiled models are. */
bool tw_is_compiled(const char *path);

/* Loads a compiled model, or compiles a model for the shapes of `inputs` and loads the result. */
bool tw_load_any(tw_compile_args *args, const char *path, const tw_arrays *inputs,
                 tw_model **model);

/* The array for each input of the model, in order: a given one (checked), or one made up, of which
 * a line on stderr tells. False after diagnostics. */
bool tw_bind_inputs(tw_context *ctx, const tw_model *model, const tw_arrays *given,
                    tw_array *bound);

/* A session with inputs set; NULL after a message. */
tw_session *tw_open_session(tw_model *model, const tw_session_options *options,
                            const tw_array *inputs);

/* Measured once per process: floating-point peak of one core (f32, operations per second) and
 * bandwidth of main memory (bytes per second) with one thread. */
double tw_peak_flops(void);
double tw_peak_bandwidth(void);

#endif
