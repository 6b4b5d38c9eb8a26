/* compiler.h: from a model file to native code.
 *
 *     tw_context *ctx = tw_context_create(0);
 *     tw_compile_options options = {.opt_level = 3};
 *     if (!tw_compile_file(ctx, "net.onnx", &options, "net.tw"))
 *         for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
 *             fprintf(stderr, "%s\n", tw_diagnostic_text(ctx, d));
 *     tw_context_destroy(ctx);
 *
 * Functions return false after adding diagnostics to the context; they never print or exit, and
 * when memory runs out they fail with a diagnostic. A context serves one thread at a time. */
#ifndef TILEWRIGHT_COMPILER_H
#define TILEWRIGHT_COMPILER_H

#include "tilewright/ir.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Fixes the shape of an input: `rank` sizes, all >= 0. */
typedef struct tw_shape {
    const char *input;
    unsigned rank;
    const int64_t *dims;
} tw_shape;

/* Fixes the value of an input, which is no input of the compiled model then: a size, an axis or the
 * like that decides what has to be compiled. `data` is row-major, 4-bit elements packed. */
typedef struct tw_input_value {
    const char *input;
    tw_elem elem;
    unsigned rank;
    const int64_t *dims;
    const void *data;
    size_t size; /* bytes of data */
} tw_input_value;

/* What is written. */
typedef enum tw_emit {
    TW_EMIT_MODEL,  /* a compiled model, for the runtime */
    TW_EMIT_OBJECT, /* an object file with a C header, to link into a program */
    TW_EMIT_ASM,    /* assembly text */
    TW_EMIT_LLVM,   /* LLVM IR text */
    TW_EMIT_LOOP,   /* scheduled and flat loop IR */
    TW_EMIT_GRAPH,  /* graph IR after the graph passes */
} tw_emit;

/* Zero-initialise for the defaults (which are opt_level 0). */
typedef struct tw_compile_options {
    int opt_level;           /* 0: as imported, one kernel an operation; 1: fused; 2, 3: all */
    const char *const *cpus; /* levels or processors to make code for; none: "host" */
    size_t n_cpus;
    const tw_shape *shapes;
    size_t n_shapes;
    const tw_input_value *values;
    size_t n_values;
    const char *const
        *open_inputs; /* names of inputs that have a default in the model, an initializer
                         of the name, and are inputs all the same; else it is folded */
    size_t n_open_inputs;
    const char *const *extra_outputs; /* names of inner values to give as further outputs */
    size_t n_extra_outputs;
    tw_emit emit;
    const char *header;   /* for TW_EMIT_OBJECT: where the C header goes; NULL: none */
    const char *pipeline; /* graph passes instead of the level's; NULL: the level's */
    size_t elide; /* of graph and loop IR: constants above that many bytes are left out of the
                     text, which cannot be read again then; 0: 256; SIZE_MAX: none */
    bool precise; /* no contraction to FMA, no reassociation of sums */
    bool saturate_products; /* pairs of neighbours in matrix products of u8 and i8 are added with
                               saturation to 16 bits, as processors without VNNI do; else exact */
    unsigned threads;       /* to compile with; 0: as many as the process may use */
    /* Passes: dumps, timing, what is switched off. */
    tw_pipeline_options passes;
} tw_compile_options;

/* Everything the compiler consists of: dialects, passes, interfaces. Called by the functions below;
 * tools that work on text call it themselves. */
bool tw_register_all(tw_context *ctx);

/* Compiles a model file and writes `output`, which is replaced only on success. It must be neither
 * the model's file nor that of the header. */
bool tw_compile_file(tw_context *ctx, const char *model, const tw_compile_options *options,
                     const char *output);

/* The same into a nameless file of memory: *fd is the caller's to close; for TW_EMIT_MODEL ready
 * for tw_model_load_fd. */
bool tw_compile_to_fd(tw_context *ctx, const char *model, const tw_compile_options *options,
                      int *fd);

/* The graph of a model file after import alone: a core.module, or NULL. */
tw_op *tw_import_file(tw_context *ctx, const char *model, const tw_compile_options *options);

/* The graph of a model file after the graph passes: a core.module, or NULL. */
tw_op *tw_optimize_file(tw_context *ctx, const char *model, const tw_compile_options *options);

/* The text of the graph passes at a level, "canonicalize,fold-constants,…". */
const char *tw_graph_pipeline(int opt_level);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
