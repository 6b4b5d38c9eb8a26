/* open.c: a case's model with all sizes of its inputs left open: each is a symbol of its own, and
 * what the model says of the shapes of other values is gone. */
#include "conformance.h"

#include "import/onnx/onnx.pb-c.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    long end = ftell(file);
    rewind(file);
    *size = end > 0 ? (size_t)end : 0;
    void *data = conf_grow(NULL, 1, *size + 1);
    bool fine = fread(data, 1, *size, file) == *size;
    fclose(file);
    if (fine)
        return data;
    free(data);
    return NULL;
}

static Onnx__TensorShapeProto *shape_of(const Onnx__ValueInfoProto *value)
{
    const Onnx__TypeProto *type = value->type;
    return type && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
               ? type->tensor_type->shape
               : NULL;
}

static bool is_initializer(const Onnx__GraphProto *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_initializer; i++)
        if (!strcmp(graph->initializer[i]->name, name))
            return true;
    return false;
}

/* Whether it is a list of sizes, axes or the like, whose length is a rank. */
static bool is_list(const Onnx__ValueInfoProto *value, const Onnx__TensorShapeProto *shape)
{
    int elem = value->type->tensor_type->elem_type;
    return shape->n_dim == 1 && (elem == ONNX__TENSOR_PROTO__DATA_TYPE__INT64 ||
                                 elem == ONNX__TENSOR_PROTO__DATA_TYPE__INT32);
}

/* Names of the tensors among the inputs. */
static struct {
    char **names;
    size_t n, cap;
} tensors;

static void note_tensor(const char *name)
{
    if (tensors.n == tensors.cap)
        tensors.names = conf_grow(tensors.names, tensors.cap = 2 * tensors.cap + 8, sizeof(char *));
    if (!(tensors.names[tensors.n++] = strdup(name)))
        abort();
}

bool conf_is_open(const char *input)
{
    for (size_t i = 0; i < tensors.n; i++)
        if (!strcmp(tensors.names[i], input))
            return true;
    return false;
}

static void open_input(Onnx__ValueInfoProto *input, bool lists, unsigned *symbols)
{
    Onnx__TensorShapeProto *shape = shape_of(input);
    if (!shape)
        return;
    note_tensor(input->name);
    if (!lists && is_list(input, shape))
        return;
    for (size_t i = 0; i < shape->n_dim; i++) {
        Onnx__TensorShapeProto__Dimension *d = shape->dim[i];
        if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM)
            free(d->dim_param);
        if (asprintf(&d->dim_param, "d%u", (*symbols)++) < 0)
            abort();
        d->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
    }
}

static void forget_shape(Onnx__ValueInfoProto *value)
{
    Onnx__TensorShapeProto *shape = shape_of(value);
    if (!shape)
        return;
    onnx__tensor_shape_proto__free_unpacked(shape, NULL);
    value->type->tensor_type->shape = NULL;
}

static void open_graph(Onnx__GraphProto *graph, bool lists)
{
    unsigned symbols = 0;
    while (tensors.n > 0)
        free(tensors.names[--tensors.n]);
    for (size_t i = 0; i < graph->n_input; i++)
        if (!is_initializer(graph, graph->input[i]->name))
            open_input(graph->input[i], lists, &symbols);
    for (size_t i = 0; i < graph->n_output; i++)
        forget_shape(graph->output[i]);
    for (size_t i = 0; i < graph->n_value_info; i++)
        forget_shape(graph->value_info[i]);
}

/* The message in a file of memory; -1 when that fails. */
static int write_model(const Onnx__ModelProto *model)
{
    size_t size = onnx__model_proto__get_packed_size(model);
    uint8_t *bytes = conf_grow(NULL, 1, size + 1);
    onnx__model_proto__pack(model, bytes);
    int fd = memfd_create("model", 0);
    if (fd >= 0 && write(fd, bytes, size) != (ssize_t)size) {
        close(fd);
        fd = -1;
    }
    free(bytes);
    return fd;
}

int conf_open_model(const char *path, bool lists)
{
    size_t size;
    void *data = read_file(path, &size);
    Onnx__ModelProto *model = data ? onnx__model_proto__unpack(NULL, size, data) : NULL;
    free(data);
    if (!model || !model->graph)
        return -1;
    open_graph(model->graph, lists);
    int fd = write_model(model);
    onnx__model_proto__free_unpacked(model, NULL);
    return fd;
}
