/* scan.c: the walk over a model's wire format.
 *
 *     ModelProto { graph { initializer { dims 768 raw_data <3 KB> doc_string "…" } } }
 *  -> ModelProto { graph { initializer { dims 768 payload [raw_data's tag, offset, 3072] } } }
 *
 * A stack of open messages replaces recursion. A message's length is not known before its end:
 * five bytes are kept free for it (a varint may be longer than needed) and filled in then. */
#include "import/onnx/scan.h"

#include "base/vec.h"
#include "import/onnx/onnx.pb-c.h"

#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5, LENGTH_BYTES = 5 };

/* A message that the walk is inside of. */
typedef struct frame {
    const ProtobufCMessageDescriptor *type;
    const unsigned char *end;
    size_t length_at; /* where in the output its length goes */
    uint64_t seen;    /* fields met that may occur once, by index */
} frame;

typedef struct scan {
    tw_context *ctx;
    tw_loc loc;
    tw_arena *arena;
    const ProtobufCMessageDescriptor *root;
    const unsigned char *data, *at;
    frame stack[TW_ONNX_MAX_DEPTH];
    size_t depth;
    size_t memory; /* what the unpacked messages will take */
    unsigned char *out;
    size_t out_size, out_cap;
} scan;

/* One field as it stands in the file. */
typedef struct field {
    uint32_t number, wire;
    const unsigned char *content;
    uint64_t value;                        /* VARINT: the value; else the size of the content */
    const ProtobufCFieldDescriptor *known; /* NULL: not in the schema */
} field;

static bool fail(scan *s, const char *what)
{
    size_t at = (size_t)(s->at - s->data);
    if (s->root == &onnx__model_proto__descriptor)
        return tw_error(s->ctx, s->loc, "not a valid ONNX model: %s at byte %zu", what, at);
    return tw_error(s->ctx, s->loc, "not a valid %s, which is expected here: %s at byte %zu",
                    s->root->short_name, what, at);
}

bool tw_onnx_varint(const unsigned char **at, const unsigned char *end, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && *at < end; shift += 7) {
        unsigned char byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *out = value;
            return true;
        }
    }
    return false;
}

/* ---- Output ---- */

/* Counts memory of the unpacked model; false with a diagnostic at the bound. */
static bool charge(scan *s, size_t bytes)
{
    s->memory += bytes;
    return s->memory <= TW_ONNX_MAX_STRUCTURE ||
           tw_error(s->ctx, s->loc,
                    "the model's structure (without the data of its tensors) takes more than %d MB",
                    TW_ONNX_MAX_STRUCTURE >> 20);
}

static bool put_bytes(scan *s, const void *bytes, size_t n)
{
    if (n > s->out_cap - s->out_size) {
        if (!charge(s, n))
            return false;
        size_t cap = s->out_cap * 2 + n + 4096;
        unsigned char *grown = tw_arena_alloc(s->arena, cap);
        if (s->out_size)
            memcpy(grown, s->out, s->out_size);
        s->out = grown;
        s->out_cap = cap;
    }
    if (n)
        memcpy(s->out + s->out_size, bytes, n);
    s->out_size += n;
    return true;
}

static bool put_varint(scan *s, uint64_t value)
{
    unsigned char bytes[10];
    size_t n = 0;
    for (; value > 0x7f; value >>= 7)
        bytes[n++] = (unsigned char)(value | 0x80);
    bytes[n++] = (unsigned char)value;
    return put_bytes(s, bytes, n);
}

static bool put_tag(scan *s, uint32_t number, uint32_t wire)
{
    return put_varint(s, (uint64_t)number << 3 | wire);
}

/* ---- Input ---- */

/* Reads the next field up to its content, which lies inside the message. */
static bool read_field(scan *s, const frame *in, field *f)
{
    uint64_t tag;
    if (!tw_onnx_varint(&s->at, in->end, &tag))
        return fail(s, "broken field tag");
    *f = (field){.number = (uint32_t)(tag >> 3), .wire = (uint32_t)tag & 7};
    if (tag >> 32 || f->number == 0 || f->number > (1u << 29) - 1)
        return fail(s, "broken field number");
    f->known = protobuf_c_message_descriptor_get_field(in->type, f->number);
    f->content = s->at;
    switch (f->wire) {
    case VARINT:
        return tw_onnx_varint(&s->at, in->end, &f->value) || fail(s, "truncated number");
    case FIXED64:
    case FIXED32:
        f->value = f->wire == FIXED64 ? 8 : 4;
        break;
    case BYTES:
        if (!tw_onnx_varint(&s->at, in->end, &f->value))
            return fail(s, "truncated length");
        f->content = s->at;
        break;
    default:
        return fail(s, "unknown wire type");
    }
    if (f->value > (size_t)(in->end - s->at))
        return fail(s, "field reaches behind the end of its message");
    s->at += f->value;
    return true;
}

/* The wire type that a single value of the field has. */
static uint32_t wire_of(ProtobufCType type)
{
    switch (type) {
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
        return FIXED64;
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
        return FIXED32;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
        return BYTES;
    default:
        return VARINT;
    }
}

/* Checks the content of a packed array of numbers. */
static bool check_packed(scan *s, const field *f)
{
    uint32_t wire = wire_of(f->known->type);
    if (wire != VARINT)
        return f->value % (wire == FIXED64 ? 8 : 4) == 0 || fail(s, "broken array");
    const unsigned char *at = f->content, *end = at + f->value;
    for (uint64_t ignored; at < end;)
        if (!tw_onnx_varint(&at, end, &ignored))
            return fail(s, "broken array");
    return true;
}

/* Merging of repeated singular messages is something that only attacks would use. */
static bool check_once(scan *s, frame *in, const field *f)
{
    if (f->known->label == PROTOBUF_C_LABEL_REPEATED || f->known->type != PROTOBUF_C_TYPE_MESSAGE)
        return true;
    bool oneof = f->known->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
    uint64_t bit = (uint64_t)1 << (oneof ? 63 : f->known - in->type->fields);
    if (in->seen & bit)
        return fail(s, "field that may occur once occurs twice");
    in->seen |= bit;
    return true;
}

/* Copies a field that is no message. */
static bool copy_field(scan *s, const field *f)
{
    const ProtobufCFieldDescriptor *k = f->known;
    uint32_t wire = wire_of(k->type);
    bool packed = k->label == PROTOBUF_C_LABEL_REPEATED && wire != BYTES && f->wire == BYTES;
    if (f->wire != wire && !packed)
        return fail(s, "field of a wrong type");
    if (packed && !check_packed(s, f))
        return false;
    if (k->type == PROTOBUF_C_TYPE_STRING && memchr(f->content, 0, f->value))
        return fail(s, "name with a zero byte");
    /* protobuf-c's notes on the field, then its value; a packed number takes up to 8 bytes. */
    if (!charge(s, 64 + (f->wire == BYTES ? f->value * (packed ? 8 : 1) : 0)) ||
        !put_tag(s, f->number, f->wire))
        return false;
    if (f->wire == VARINT)
        return put_varint(s, f->value);
    if (f->wire == BYTES && !put_varint(s, f->value))
        return false;
    return put_bytes(s, f->content, f->value);
}

/* The data fields of TensorProto. */
static bool is_payload(const frame *in, const field *f)
{
    if (in->type != &onnx__tensor_proto__descriptor)
        return false;
    static const unsigned char numbers[] = {4, 5, 7, 9, 10, 11};
    return f->number < 16 && memchr(numbers, (int)f->number, sizeof numbers);
}

/* Replaces a data field by its place in the file. */
static bool refer(scan *s, const field *f)
{
    uint64_t triple[3] = {(uint64_t)f->number << 3 | f->wire, (uint64_t)(f->content - s->data),
                          (uint64_t)(s->at - f->content)};
    return charge(s, 64 + sizeof triple) && put_tag(s, 1000, BYTES) &&
           put_varint(s, sizeof triple) && put_bytes(s, triple, sizeof triple);
}

static bool open_message(scan *s, const ProtobufCMessageDescriptor *type, const unsigned char *end)
{
    if (s->depth == TW_ONNX_MAX_DEPTH)
        return tw_error(s->ctx, s->loc,
                        "the model nests messages (subgraphs, types) deeper than %d levels",
                        TW_ONNX_MAX_DEPTH);
    s->stack[s->depth++] = (frame){.type = type, .end = end, .length_at = s->out_size};
    return charge(s, type->sizeof_message + 80);
}

static bool enter(scan *s, const field *f)
{
    static const unsigned char room[LENGTH_BYTES];
    if (f->wire != BYTES)
        return fail(s, "field of a wrong type");
    if (!put_tag(s, f->number, BYTES) ||
        !open_message(s, f->known->descriptor, f->content + f->value))
        return false;
    s->at = f->content;
    return put_bytes(s, room, sizeof room);
}

static void leave(scan *s)
{
    const frame *f = &s->stack[--s->depth];
    if (s->depth == 0)
        return;
    uint64_t length = s->out_size - f->length_at - LENGTH_BYTES;
    for (int i = 0; i < LENGTH_BYTES; i++, length >>= 7)
        s->out[f->length_at + i] =
            (unsigned char)((length & 0x7f) | (i < LENGTH_BYTES - 1 ? 0x80 : 0));
}

static bool step(scan *s)
{
    frame *in = &s->stack[s->depth - 1];
    if (s->at == in->end) {
        leave(s);
        return true;
    }
    field f;
    if (!read_field(s, in, &f))
        return false;
    if (is_payload(in, &f))
        return refer(s, &f);
    if (!f.known || (f.number == 1000 && in->type == &onnx__tensor_proto__descriptor))
        return true;
    if (!check_once(s, in, &f))
        return false;
    return f.known->type == PROTOBUF_C_TYPE_MESSAGE ? enter(s, &f) : copy_field(s, &f);
}

/* ---- protobuf-c ---- */

static void *arena_alloc(void *arena, size_t size)
{
    return tw_arena_alloc(arena, size);
}

static void arena_free(void *arena, void *pointer)
{
    (void)arena;
    (void)pointer;
}

ProtobufCMessage *tw_onnx_unpack(tw_context *ctx, tw_loc loc, tw_arena *arena,
                                 const ProtobufCMessageDescriptor *root, const unsigned char *data,
                                 size_t size)
{
    scan *s = TW_NEW(arena, scan);
    *s = (scan){.ctx = ctx, .loc = loc, .arena = arena, .root = root, .data = data, .at = data};
    if (!open_message(s, root, data + size))
        return NULL;
    while (s->depth > 0)
        if (!step(s))
            return NULL;
    ProtobufCAllocator allocator = {arena_alloc, arena_free, arena};
    ProtobufCMessage *message = protobuf_c_message_unpack(root, &allocator, s->out_size, s->out);
    if (!message)
        fail(s, "broken message");
    return message;
}
