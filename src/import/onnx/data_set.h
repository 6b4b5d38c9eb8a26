/* data_set.h: tensors in files of their own, as ONNX's test data has them.
 *
 * A test set is a folder with input_0.pb, output_0.pb and so on: one TensorProto each, numbered as
 * the inputs and outputs of the model are. Inputs that are initializers have no number. A
 * SequenceProto for x gives the tensors "x[0]", "x[1]" …, or "x[]" without elements when it is
 * empty, an OptionalProto what it holds. */
#ifndef TW_IMPORT_ONNX_DATA_SET_H
#define TW_IMPORT_ONNX_DATA_SET_H

#include "base/npz.h"

/* Reads a TensorProto file. The array's name is that in the file, "" when it has none. Data stays
 * in the mapped file if it can, which lives as long as the context. False with a diagnostic. */
bool tw_onnx_read_tensor(tw_context *ctx, const char *path, tw_array *out);

/* Reads a file that holds a SequenceProto, an OptionalProto or a TensorProto, for a value of that
 * name. False with a diagnostic. */
bool tw_onnx_read_value(tw_context *ctx, const char *path, const char *name, bool sequence,
                        bool optional, tw_arrays *out);

/* Reads a file for the model's input of that name, of the declared type: a tensor, a sequence or an
 * optional. False with a diagnostic, also when there is no such input. */
bool tw_onnx_read_input(tw_context *ctx, const char *model, const char *name, const char *path,
                        tw_arrays *out);

/* Reads a test set for the model; the arrays get the names of the model's inputs and outputs. Those
 * without a file are left out. False with a diagnostic, also when a file has no such value. */
bool tw_onnx_read_data_set(tw_context *ctx, const char *model, const char *folder,
                           tw_arrays *inputs, tw_arrays *outputs);

/* Whether the folder has no file KIND_N.pb with an N that is not below n; a diagnostic names each.
 */
bool tw_onnx_check_numbered(tw_context *ctx, const char *folder, const char *kind, size_t n);

/* The outputs alone, from the files PREFIX0.pb and so on. */
bool tw_onnx_read_outputs(tw_context *ctx, const char *model, const char *prefix, tw_arrays *out);

#endif
