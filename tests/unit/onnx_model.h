/* onnx_model.h: ONNX models made field by field, valid or not, for tests of the importer. */
#ifndef TESTS_UNIT_ONNX_MODEL_H
#define TESTS_UNIT_ONNX_MODEL_H

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A message being written. Static storage is not used: each part is freed by what takes it in. */
typedef struct pb {
    unsigned char *data;
    size_t size;
} pb;

static inline void pb_raw(pb *m, const void *bytes, size_t n)
{
    m->data = realloc(m->data, m->size + n + 1);
    if (n)
        memcpy(m->data + m->size, bytes, n);
    m->size += n;
}

static inline void pb_varint(pb *m, uint64_t value)
{
    for (; value > 0x7f; value >>= 7)
        pb_raw(m, &(unsigned char){(unsigned char)(value | 0x80)}, 1);
    pb_raw(m, &(unsigned char){(unsigned char)value}, 1);
}

static inline void pb_int(pb *m, uint32_t field, int64_t value)
{
    pb_varint(m, (uint64_t)field << 3);
    pb_varint(m, (uint64_t)value);
}

static inline void pb_float(pb *m, uint32_t field, float value)
{
    pb_varint(m, (uint64_t)field << 3 | 5);
    pb_raw(m, &value, sizeof value);
}

static inline void pb_bytes(pb *m, uint32_t field, const void *bytes, size_t n)
{
    pb_varint(m, (uint64_t)field << 3 | 2);
    pb_varint(m, n);
    pb_raw(m, bytes, n);
}

static inline void pb_text(pb *m, uint32_t field, const char *text)
{
    pb_bytes(m, field, text, strlen(text));
}

/* Puts `part` in and frees it. */
static inline void pb_message(pb *m, uint32_t field, pb part)
{
    pb_bytes(m, field, part.data, part.size);
    free(part.data);
}

/* ---- ONNX ---- */

enum {
    ONNX_FLOAT = 1,
    ONNX_UINT8 = 2,
    ONNX_INT8 = 3,
    ONNX_INT32 = 6,
    ONNX_INT64 = 7,
    ONNX_STRING = 8,
    ONNX_BOOL = 9,
    ONNX_DOUBLE = 11
};

/* A tensor with raw data. `dims` ends with -99. */
static inline pb onnx_tensor_raw(const char *name, int type, const int64_t *dims, const void *data,
                                 size_t size)
{
    pb t = {0};
    for (; *dims != -99; dims++)
        pb_int(&t, 1, *dims);
    pb_int(&t, 2, type);
    if (name)
        pb_text(&t, 8, name);
    pb_bytes(&t, 9, data, size);
    return t;
}

#define DIMS(...) ((const int64_t[]){__VA_ARGS__ __VA_OPT__(, ) - 99})

static inline pb onnx_ints(const char *name, const int64_t *values, size_t n)
{
    return onnx_tensor_raw(name, ONNX_INT64, DIMS((int64_t)n), values, n * sizeof *values);
}

static inline pb onnx_floats(const char *name, const int64_t *dims, const float *values, size_t n)
{
    return onnx_tensor_raw(name, ONNX_FLOAT, dims, values, n * sizeof *values);
}

/* The dimensions of a shape as text. */
static inline pb onnx_shape(const char *shape)
{
    pb dims = {0};
    while (*shape) {
        char word[64] = {0};
        size_t n = strcspn(shape, ",");
        memcpy(word, shape, n < 63 ? n : 63);
        pb dim = {0};
        if (strchr("-0123456789", *word))
            pb_int(&dim, 1, strtoll(word, NULL, 10));
        else if (*word != '?')
            pb_text(&dim, 2, word);
        pb_message(&dims, 1, dim);
        shape += n + (shape[n] == ',');
    }
    return dims;
}

/* A tensor type. A shape as text: "2,n,?" ("" is rank 0; "*" or NULL is no shape). */
static inline pb onnx_type(int type, const char *shape)
{
    pb tensor = {0}, kind = {0};
    pb_int(&tensor, 1, type);
    if (shape && *shape != '*')
        pb_message(&tensor, 2, onnx_shape(shape));
    pb_message(&kind, 1, tensor);
    return kind;
}

static inline pb onnx_value_of(const char *name, pb type)
{
    pb value = {0};
    pb_text(&value, 1, name);
    pb_message(&value, 2, type);
    return value;
}

static inline pb onnx_value(const char *name, int type, const char *shape)
{
    return onnx_value_of(name, onnx_type(type, shape));
}

/* A sequence of such tensors; an optional that holds a value of that type. */
static inline pb onnx_type_around(uint32_t field, pb inner)
{
    pb outer = {0}, kind = {0};
    pb_message(&outer, 1, inner);
    pb_message(&kind, field, outer);
    return kind;
}

static inline pb onnx_sequence(const char *name, int type, const char *shape)
{
    return onnx_value_of(name, onnx_type_around(4, onnx_type(type, shape)));
}

static inline pb onnx_optional(const char *name, int type, const char *shape)
{
    return onnx_value_of(name, onnx_type_around(9, onnx_type(type, shape)));
}

/* A node: names of inputs and outputs as text, "a,,b" with nothing for those left out. */
static inline pb onnx_node(const char *op, const char *inputs, const char *outputs)
{
    pb node = {0};
    const char *lists[2] = {inputs, outputs};
    for (int i = 0; i < 2; i++)
        for (const char *at = lists[i]; *at;) {
            size_t n = strcspn(at, ",");
            pb_bytes(&node, (uint32_t)i + 1, at, n);
            at += n;
            if (*at == ',' && !*++at)
                pb_bytes(&node, (uint32_t)i + 1, "", 0);
        }
    pb_text(&node, 4, op);
    return node;
}

static inline void onnx_attr_int(pb *node, const char *name, int64_t value)
{
    pb a = {0};
    pb_text(&a, 1, name);
    pb_int(&a, 3, value);
    pb_int(&a, 20, 2);
    pb_message(node, 5, a);
}

static inline void onnx_attr_ints(pb *node, const char *name, const int64_t *values)
{
    pb a = {0};
    pb_text(&a, 1, name);
    for (; *values != -99; values++)
        pb_int(&a, 8, *values);
    pb_int(&a, 20, 7);
    pb_message(node, 5, a);
}

static inline void onnx_attr_float(pb *node, const char *name, float value)
{
    pb a = {0};
    pb_text(&a, 1, name);
    pb_float(&a, 2, value);
    pb_int(&a, 20, 1);
    pb_message(node, 5, a);
}

static inline void onnx_attr_text(pb *node, const char *name, const char *value)
{
    pb a = {0};
    pb_text(&a, 1, name);
    pb_text(&a, 4, value);
    pb_int(&a, 20, 3);
    pb_message(node, 5, a);
}

static inline void onnx_attr_message(pb *node, const char *name, uint32_t field, int type, pb value)
{
    pb a = {0};
    pb_text(&a, 1, name);
    pb_message(&a, field, value);
    pb_int(&a, 20, type);
    pb_message(node, 5, a);
}

/* Fields of GraphProto. */
static inline void onnx_add_node(pb *graph, pb node)
{
    pb_message(graph, 1, node);
}
static inline void onnx_add_initializer(pb *graph, pb tensor)
{
    pb_message(graph, 5, tensor);
}
static inline void onnx_add_input(pb *graph, pb value)
{
    pb_message(graph, 11, value);
}
static inline void onnx_add_output(pb *graph, pb value)
{
    pb_message(graph, 12, value);
}

static inline pb onnx_opset(const char *domain, int64_t version)
{
    pb set = {0};
    pb_text(&set, 1, domain);
    pb_int(&set, 2, version);
    return set;
}

static inline pb onnx_model(pb graph, int64_t opset)
{
    pb model = {0};
    pb_int(&model, 1, 8);
    pb_message(&model, 7, graph);
    pb_message(&model, 8, onnx_opset("", opset));
    return model;
}

#endif
