/* onnx.h: import of ONNX models.
 *
 * A model becomes `module @name { func @main(inputs) -> (outputs) { graph operations } }`. Every
 * result has a full tensor type; sizes are numbers or expressions over the model's symbols. Local
 * functions are inlined. The dialects `core` and `graph` must be registered. */
#ifndef TW_IMPORT_ONNX_H
#define TW_IMPORT_ONNX_H

#include "base/npz.h"
#include "tilewright/ir.h"

enum {
    TW_ONNX_MIN_OPSET = 1,
    TW_ONNX_MAX_OPSET = 27, /* of the default domain */
};

/* A shape that replaces the declared one of an input. */
typedef struct tw_import_shape {
    const char *name; /* of the input */
    unsigned rank;
    const int64_t *dims; /* -1: as declared */
} tw_import_shape;

typedef struct tw_import_options {
    const tw_import_shape *shapes;
    size_t n_shapes;
    const tw_array *values; /* of inputs, by name, which become constants; their shapes
                               are in `shapes` as well */
    size_t n_values;
    const char *const *open_inputs; /* names of inputs whose default is not to be used; names of
                                       others without one have no effect */
    size_t n_open_inputs;
    const char *const *extra_outputs; /* names of values that become outputs too */
    size_t n_extra_outputs;
    size_t max_file_size;     /* of the model and of each data file; 0: no bound */
    int64_t max_tensor_bytes; /* of one value; 0: 1 TiB */
    int64_t max_nodes;        /* after inlining of functions; 0: 250,000 */
    const char *written[2];   /* paths, or NULL: the model's data must not lie in these files */
    bool saturate_products;   /* matrix products of u8 and i8 as processors without VNNI make them
                                 (integer_matmul.c) */
} tw_import_options;

/* Imports the file. The module, or NULL with diagnostics that name file and node. Constants refer
 * to the mapped file, which stays mapped as long as the context lives. `options` NULL: defaults. */
tw_op *tw_import_onnx(tw_context *ctx, const char *path, const tw_import_options *options);

/* The same for a model in memory, which the caller keeps as long as the context lives. `file` is
 * what messages call it; external data is looked for in `dir` (NULL: external data is refused). */
tw_op *tw_import_onnx_memory(tw_context *ctx, const void *data, size_t size, const char *file,
                             const char *dir, const tw_import_options *options);

/* One operator that can be imported, for listings. */
typedef struct tw_onnx_operator {
    const char *domain; /* "" is ai.onnx */
    const char *name;
    int since, until; /* operator set versions, both inclusive */
} tw_onnx_operator;

/* Operator i in order of domain, name and version; false when there is none. */
bool tw_onnx_operators(size_t i, tw_onnx_operator *out);

#endif
