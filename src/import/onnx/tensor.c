/* tensor.c: element types and the data of TensorProto. Data that the file holds in the form that
 * the compiler wants (raw_data, packed floats) is referred to where it lies. */
#include "import/onnx/import.h"

#include "base/checked.h"
#include "import/onnx/scan.h"
#include "ir/elem_data.h"

#include <string.h>

/* ---- Element types ---- */

/* Where a tensor of the type keeps its data when it is not raw: a field of TensorProto. */
enum {
    FLOAT_DATA = 4,
    INT32_DATA = 5,
    STRING_DATA = 6,
    INT64_DATA = 7,
    RAW_DATA = 9,
    DOUBLE_DATA = 10,
    UINT64_DATA = 11
};

static const struct {
    const char *name;
    int elem; /* tw_elem, or -1 */
    int field;
} data_types[] = {
    [1] = {"float", TW_F32, FLOAT_DATA},
    [2] = {"uint8", TW_U8, INT32_DATA},
    [3] = {"int8", TW_I8, INT32_DATA},
    [4] = {"uint16", TW_U16, INT32_DATA},
    [5] = {"int16", TW_I16, INT32_DATA},
    [6] = {"int32", TW_I32, INT32_DATA},
    [7] = {"int64", TW_I64, INT64_DATA},
    [8] = {"string", TW_STRING, STRING_DATA},
    [9] = {"bool", TW_BOOL, INT32_DATA},
    [10] = {"float16", TW_F16, INT32_DATA},
    [11] = {"double", TW_F64, DOUBLE_DATA},
    [12] = {"uint32", TW_U32, UINT64_DATA},
    [13] = {"uint64", TW_U64, UINT64_DATA},
    [14] = {"complex64", -1, 0},
    [15] = {"complex128", -1, 0},
    [16] = {"bfloat16", TW_BF16, INT32_DATA},
    [17] = {"float8e4m3fn", TW_F8E4M3FN, INT32_DATA},
    [18] = {"float8e4m3fnuz", TW_F8E4M3FNUZ, INT32_DATA},
    [19] = {"float8e5m2", TW_F8E5M2, INT32_DATA},
    [20] = {"float8e5m2fnuz", TW_F8E5M2FNUZ, INT32_DATA},
    [21] = {"uint4", TW_U4, INT32_DATA},
    [22] = {"int4", TW_I4, INT32_DATA},
    [23] = {"float4e2m1", TW_F4E2M1FN, INT32_DATA},
    [24] = {"float8e8m0", TW_F8E8M0FNU, INT32_DATA},
    [25] = {"uint2", TW_U2, INT32_DATA},
    [26] = {"int2", TW_I2, INT32_DATA},
};

enum { N_DATA_TYPES = sizeof data_types / sizeof *data_types };

bool tw_onnx_elem(int32_t data_type, tw_elem *out)
{
    if (data_type <= 0 || data_type >= N_DATA_TYPES || data_types[data_type].elem < 0)
        return false;
    *out = (tw_elem)data_types[data_type].elem;
    return true;
}

const char *tw_onnx_elem_name(int32_t data_type)
{
    return data_type > 0 && data_type < N_DATA_TYPES ? data_types[data_type].name : "undefined";
}

/* ---- Data ---- */

typedef struct payload {
    uint32_t field, wire;
    const unsigned char *at, *end;
} payload;

static payload payload_at(const tw_onnx *im, const Onnx__TensorProto *t, size_t i)
{
    const uint64_t *triple = t->payload + 3 * i;
    const unsigned char *at = im->data + triple[1];
    return (payload){(uint32_t)(triple[0] >> 3), (uint32_t)(triple[0] & 7), at, at + triple[2]};
}

static void *size_error(tw_onnx *im, const char *name, tw_type type, size_t has, const char *unit)
{
    return tw_gb_error(&im->g, "tensor '%s' is declared as %s, but its data has %zu %s", name,
                       tw_gb_type_text(&im->g, type), has, unit);
}

/* Bytes of an integer or bit pattern from a number of a data field. */
static size_t store_number(tw_elem elem, unsigned char *out, uint64_t value)
{
    unsigned bits = tw_elem_bits(elem);
    size_t n = bits < 8 ? 1 : bits / 8; /* one number holds a byte of them */
    if (elem == TW_BOOL)
        value = value != 0;
    memcpy(out, &value, n);
    return n;
}

/* Decodes data fields that are not raw. NULL with an error when their number is wrong. */
static const void *decode(tw_onnx *im, const Onnx__TensorProto *t, const char *name, tw_type type,
                          size_t bytes)
{
    unsigned char *out = tw_context_alloc(im->ctx, bytes);
    size_t done = 0, unit = store_number(type->elem, (unsigned char[8]){0}, 0);
    uint32_t wanted = (uint32_t)data_types[t->data_type].field;
    for (size_t i = 0; i < t->n_payload / 3; i++) {
        payload p = payload_at(im, t, i);
        bool fixed = wanted == FLOAT_DATA || wanted == DOUBLE_DATA;
        if (p.field != wanted || (p.wire != 2 && p.wire != (fixed ? (unit == 8 ? 1u : 5u) : 0u)))
            return tw_gb_error(&im->g, "tensor '%s' of type %s has its data in a wrong field", name,
                               tw_onnx_elem_name(t->data_type));
        while (p.at < p.end) {
            uint64_t value = 0;
            if (fixed && (size_t)(p.end - p.at) >= unit) {
                memcpy(&value, p.at, unit);
                p.at += unit;
            } else if (fixed || !tw_onnx_varint(&p.at, p.end, &value)) {
                return tw_gb_error(&im->g, "tensor '%s' has broken data", name);
            }
            if (done + unit > bytes)
                return size_error(im, name, type, done / unit + 1, "elements or more");
            done += store_number(type->elem, out + done, value);
        }
    }
    return done == bytes ? out : size_error(im, name, type, done / unit, "elements");
}

static const void *strings(tw_onnx *im, const Onnx__TensorProto *t, const char *name, tw_type type,
                           size_t count)
{
    if (t->n_string_data != count)
        return size_error(im, name, type, t->n_string_data, "elements");
    char **out = tw_context_alloc(im->ctx, count * sizeof *out);
    for (size_t i = 0; i < count; i++) {
        const ProtobufCBinaryData *s = &t->string_data[i];
        if (s->len && memchr(s->data, 0, s->len))
            return tw_gb_error(&im->g, "tensor '%s': string %zu has a zero byte", name, i);
        out[i] = tw_arena_strndup(tw_context_arena(im->ctx), (const char *)s->data, s->len);
    }
    return out;
}

/* Booleans of the file may be any byte; those of the compiler are 0 or 1. */
static const void *normal_bools(tw_onnx *im, const unsigned char *data, size_t n)
{
    size_t i = 0;
    while (i < n && data[i] <= 1)
        i++;
    if (i == n)
        return data;
    unsigned char *out = tw_context_alloc(im->ctx, n);
    for (i = 0; i < n; i++)
        out[i] = data[i] != 0;
    return out;
}

/* The tensor's bytes as the compiler wants them, or NULL with an error. */
static const void *data_of(tw_onnx *im, const Onnx__TensorProto *t, const char *name, tw_type type,
                           size_t count, size_t bytes)
{
    const void *data = NULL;
    payload first = t->n_payload == 3 ? payload_at(im, t, 0) : (payload){0};
    if (type->elem == TW_STRING)
        return strings(im, t, name, type, count);
    if (t->has_data_location && t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL) {
        data = tw_onnx_external(im, t, bytes);
    } else if (first.field == RAW_DATA && first.wire == 2) {
        if ((size_t)(first.end - first.at) != bytes)
            return size_error(im, name, type, (size_t)(first.end - first.at), "bytes");
        data = first.at;
    } else if ((type->elem == TW_F32 || type->elem == TW_F64) && first.wire == 2 &&
               first.field == (type->elem == TW_F32 ? FLOAT_DATA : DOUBLE_DATA) &&
               (size_t)(first.end - first.at) == bytes) {
        data = first.at;
    } else {
        return decode(im, t, name, type, bytes);
    }
    return data && type->elem == TW_BOOL ? normal_bools(im, data, bytes) : data;
}

const void *tw_onnx_tensor_data(tw_onnx *im, const Onnx__TensorProto *t, const char *name,
                                tw_type *type, size_t *bytes)
{
    tw_elem elem;
    int64_t count;
    if (!tw_onnx_elem(t->data_type, &elem))
        return tw_gb_error(&im->g, "tensor '%s' has element type %s (%d), which is not supported",
                           name, tw_onnx_elem_name(t->data_type), t->data_type);
    if (t->segment)
        return tw_gb_error(&im->g, "tensor '%s' is stored in segments, which is not supported",
                           name);
    if (t->n_dims > TW_MAX_RANK)
        return tw_gb_error(&im->g, "tensor '%s' has %zu dimensions; at most %d are supported", name,
                           t->n_dims, TW_MAX_RANK);
    for (size_t i = 0; i < t->n_dims; i++)
        if (t->dims[i] < 0)
            return tw_gb_error(&im->g, "tensor '%s' has the negative size %lld", name,
                               (long long)t->dims[i]);
    if (!tw_product_i64(t->dims, (int)t->n_dims, &count) ||
        !tw_elem_bytes(elem, (uint64_t)count, bytes))
        return tw_gb_error(&im->g, "the size of tensor '%s' overflows", name);
    *type = tw_type_tensor_static(im->ctx, elem, (unsigned)t->n_dims, t->dims);
    /* What the file holds bounds what has to be decoded: eight bytes at most from each of its. */
    if (*bytes / 8 > im->size && elem != TW_STRING && !(t->has_data_location && t->data_location))
        return size_error(im, name, *type, 0, "elements, or fewer than that");
    return data_of(im, t, name, *type, (size_t)count, *bytes);
}

tw_value *tw_onnx_tensor(tw_onnx *im, const Onnx__TensorProto *t, const char *name)
{
    tw_type type;
    size_t bytes;
    const void *data = tw_onnx_tensor_data(im, t, name, &type, &bytes);
    return data ? tw_gb_constant(&im->g, type, data, bytes, *name ? name : NULL) : NULL;
}
