/* scan.h: checks the bytes of a model file and makes the short message that protobuf-c unpacks.
 *
 * protobuf-c recurses on nested messages, copies every field, and keeps what it does not know. The
 * scan walks the file without recursion, bounds depth and memory, drops fields that the schema does
 * not have, and replaces the data of tensors by references into the file (TensorProto.payload). */
#ifndef TW_IMPORT_ONNX_SCAN_H
#define TW_IMPORT_ONNX_SCAN_H

#include "base/arena.h"
#include "tilewright/ir.h"

#include <protobuf-c/protobuf-c.h>

enum {
    /* Nested messages; protobuf's own parsers have the same bound. */
    TW_ONNX_MAX_DEPTH = 100,
    /* Bytes that the unpacked messages may take. */
    TW_ONNX_MAX_STRUCTURE = 256 << 20,
};

/* Unpacks the message of type `root` in the `size` bytes at `data`, all on `arena`. NULL with a
 * diagnostic at `loc` when the bytes are no such message or exceed a bound. */
ProtobufCMessage *tw_onnx_unpack(tw_context *ctx, tw_loc loc, tw_arena *arena,
                                 const ProtobufCMessageDescriptor *root, const unsigned char *data,
                                 size_t size);

/* The varint at *at, which moves behind it; false when it does not end before `end` or in ten
 * bytes. */
bool tw_onnx_varint(const unsigned char **at, const unsigned char *end, uint64_t *out);

#endif
