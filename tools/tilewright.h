/* tilewright.h: what the verbs of the command share. */
#ifndef TW_TOOLS_TILEWRIGHT_H
#define TW_TOOLS_TILEWRIGHT_H

#include "base/npz.h"
#include "base/vec.h"
#include "tilewright/compiler.h"
#include "tilewright/runtime.h"

#include <argp.h>

/* Exit codes of the command. */
enum { TW_EXIT_OK = 0, TW_EXIT_FAILED = 1, TW_EXIT_USAGE = 2 };

/* The verbs; argv[0] is "tilewright VERB". */
int tw_verb_compile(int argc, char **argv);
int tw_verb_run(int argc, char **argv);
int tw_verb_check(int argc, char **argv);
int tw_verb_bisect(int argc, char **argv);
int tw_verb_bench(int argc, char **argv);
int tw_verb_inspect(int argc, char **argv);
int tw_verb_lower(int argc, char **argv);
int tw_verb_ops(int argc, char **argv);

/* ---- Options that several verbs take (tilewright_options.c) ---- */

typedef TW_VEC(const char *) tw_texts;

/* MODEL, and how it is compiled: -O, --cpu, --shape, --timing, --dump-*, --disable-pass, ... The
 * argp parser below fills it in as a child whose input it is. */
typedef struct tw_compile_args {
    tw_context *ctx; /* of the verb: lists, inputs, its own diagnostics */
    jmp_buf *full;   /* where exhausted memory leads */
    const char *model;
    tw_compile_options options; /* without the lists: */
    tw_texts cpus, open_inputs, extra_outputs, disabled, plugins;
    TW_VEC(tw_shape) shapes;
    tw_pass_limits limits; /* of --pass-limit and --rewrite-limit */
    bool keep_open; /* sizes that nothing fixes stay symbolic; otherwise a model that is compiled on
                       the way to being loaded has 1 for them */
    /* Called with a model's graph as imported, when it is compiled on the way to being loaded. */
    void (*imported)(void *data, tw_context *ctx, tw_op *module);
    void *imported_data;
} tw_compile_args;
extern const struct argp tw_compile_argp;

/* What it runs on: --inputs, --input. */
typedef struct tw_input_args {
    tw_context *ctx; /* of the verb */
    const char *npz;
    tw_texts named; /* NAME=FILE.npy, NAME=FILE.pb or NAME=random */
} tw_input_args;
extern const struct argp tw_input_argp;

/* --threads N; the input is an unsigned, 0 when it is not given. */
extern const struct argp tw_threads_argp;

/* Numbers as they are written in digits, without sign or space; what follows them or is out of
 * range makes it false. */
bool tw_parse_count(const char *text, unsigned *out); /* 1 to 1024 */
bool tw_parse_number(const char *text, int64_t *out); /* at least 0 */
bool tw_parse_real(const char *text, double *out);    /* at least 0, finite: 3, 0.5, 1e-3 */

/* ---- Work that several verbs do ---- */

/* A whole verb: parses the arguments, works, tells the diagnostics on stderr. `verb`, of which
 * `args` is a part, is the input of the parser and of the work. Returns the exit code. */
int tw_run_verb(const struct argp *argp, int argc, char **argv, void *verb, tw_compile_args *args,
                bool (*work)(void *verb));

/* Prints the context's diagnostics to stderr and forgets them. */
void tw_report(tw_context *ctx);
/* Adds the runtime's last error to the diagnostics. Returns false. */
bool tw_runtime_error(tw_context *ctx);

/* A context to compile in, plugins loaded, and the options for it. NULL after a diagnostic in the
 * verb's context. Closing it prints its diagnostics, and the timing when --timing was given, to
 * stderr, and gives all its memory back. */
tw_context *tw_open_compiler(tw_compile_args *args, tw_compile_options *options);
void tw_close_compiler(tw_compile_args *args, tw_context *compiler);

/* Loads MODEL: a compiled one, or one that is compiled for the shapes of `inputs`. The compiler's
 * memory is free again then. False after diagnostics. */
bool tw_load_model(tw_compile_args *args, const tw_arrays *inputs, tw_model **model);

/* Whether the file is a compiled model. */
bool tw_is_compiled(const char *path);

/* The arrays given on the command line for MODEL, by input name: later ones win. False after
 * diagnostics. */
bool tw_read_inputs(const tw_input_args *args, const char *model, tw_arrays *out);
/* The values of a folder's files input_0.pb … and output_0.pb …, as ONNX's test data has them, for
 * MODEL; `loaded` is it when it is a compiled model, else NULL. False after diagnostics. */
bool tw_read_data_set(tw_context *ctx, const char *path, const tw_model *loaded, const char *folder,
                      tw_arrays *inputs, tw_arrays *outputs);

/* The arrays for the inputs of the model: given ones (checked), or ones made up, of which a line on
 * stderr tells. False after diagnostics. */
bool tw_bind_inputs(const tw_compile_args *args, const tw_model *model, const tw_arrays *given,
                    tw_arrays *out);

/* False, with a diagnostic, when --shape contradicts the compiled model. */
bool tw_shape_fits(tw_context *ctx, const tw_model *model, const tw_shape *shape);

/* False, with a diagnostic that lists the names there are, when an array is for none of the
 * model's inputs (or outputs). */
bool tw_only_inputs(tw_context *ctx, const tw_model *model, const tw_arrays *arrays);
bool tw_only_outputs(tw_context *ctx, const tw_model *model, const tw_arrays *arrays);

/* A session with inputs set; NULL after diagnostics. */
tw_session *tw_open_session(tw_context *ctx, tw_model *model, const tw_session_options *options,
                            const tw_arrays *inputs);

/* ---- Reference data (tilewright_reference.c) ---- */

/* --data, --rtol, --atol, and the arrays that the first names. */
typedef struct tw_reference {
    tw_context *ctx;  /* of the verb */
    const char *path; /* NULL: not given */
    bool folder;      /* path is one */
    double rtol, atol;
    bool quiet; /* comparisons print nothing */
    tw_arrays inputs, outputs;
} tw_reference;
extern const struct argp tw_reference_argp;

/* Reads the data; `loaded` is MODEL when it is a compiled one, whose names its inputs have then. */
bool tw_reference_read(tw_reference *r, tw_compile_args *args, const tw_model *loaded);
/* Makes it: the results of MODEL, compiled as `args` say, for inputs that are made up as well. */
bool tw_reference_make(tw_reference *r, tw_compile_args *args, unsigned threads);
/* Runs the model on the inputs and compares, with a line for each output. */
bool tw_reference_check(tw_reference *r, tw_compile_args *args, tw_model *model, unsigned threads);

/* inspect --html: a page about MODEL at `path`; `profile` is a file that bench --profile --json
 * made, or NULL. False after diagnostics. */
bool tw_write_html(tw_compile_args *args, const char *path, const char *profile);
/* inspect --fusion: the kernels of MODEL, which must not be compiled yet, and why they are apart.
 * False after diagnostics. */
bool tw_print_fusion(tw_compile_args *args);

/* Elements of an array. */
size_t tw_count(unsigned rank, const int64_t *dims);

/* "2x3", with "?" for open sizes; "" for rank 0. */
const char *tw_sizes_text(tw_context *ctx, unsigned rank, const int64_t *dims);

/* What threads of this machine can do together, measured: floating-point operations (f32) and bytes
 * of main memory, per second. */
typedef struct tw_peaks {
    double flops, bandwidth;
} tw_peaks;
/* False when there is no memory for it. */
bool tw_measure_peaks(unsigned threads, tw_peaks *out);

/* Seconds that a scheduled kernel takes on this machine; false with a diagnostic. */
bool tw_time_kernel(tw_context *ctx, const tw_op *kernel, unsigned threads, double *seconds);

#endif
