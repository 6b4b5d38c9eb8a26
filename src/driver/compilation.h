/* compilation.h: the state of one compilation as it goes through compile.c. */
#ifndef TW_DRIVER_COMPILATION_H
#define TW_DRIVER_COMPILATION_H

#include "base/target.h"
#include "codegen/llvm/codegen.h"
#include "link/artifact.h"
#include "tilewright/compiler.h"
#include "transform/transform.h"

/* The code for one CPU. */
typedef struct tw_variant {
    tw_target target;
    const char *suffix; /* of its symbols */
    tw_op *module;      /* flat kernels and the function that calls them */
    tw_codegen_result code;
} tw_variant;

typedef struct tw_compilation {
    tw_transform_options transforms; /* first, as the graph passes expect it */
    tw_context *ctx;
    const tw_compile_options *options;
    const char *name;  /* of the model: its file's name */
    tw_op *graph;      /* module after the graph passes; lowered in place */
    tw_type signature; /* of main, over tensors */
    tw_attr symbols;   /* names, or NULL */
    tw_variant *variants;
    size_t n_variants;
} tw_compilation;

/* Runs the graph passes, lowering, the loop passes and code generation of a module with @main:
 * fills in all but ctx, options, name and graph. */
bool tw_compile_module(tw_compilation *c);

/* The artifact of a finished compilation: descriptor, objects, constants. */
bool tw_describe_artifact(tw_compilation *c, tw_artifact *out);

/* A finished compilation as a nameless file, ready for tw_model_load_fd and the caller's to close;
 * -1 after a diagnostic. */
int tw_link_temporary(tw_compilation *c);

#endif
