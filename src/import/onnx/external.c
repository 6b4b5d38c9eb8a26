/* external.c: data of tensors that lies in files beside the model.
 *
 * A model is untrusted: the location may not leave the model's directory by any trick, and offset
 * and length are checked against the file. Each file is mapped once and stays mapped. */
#include "import/onnx/import.h"
#include "ir/mapped.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void unmap(void *file)
{
    tw_file_unmap(file);
}

static const tw_file *open_data(tw_onnx *im, const char *location, const char *tensor)
{
    tw_file *file = tw_map_get_str(&im->data_files, location);
    if (file)
        return file;
    if (!im->dir)
        return tw_gb_error(&im->g, "tensor '%s': a model in memory cannot have external data",
                           tensor);
    file = tw_context_alloc(im->ctx, sizeof *file);
    tw_context_on_destroy(im->ctx, unmap, file);
    const char *error = tw_file_map_beneath(im->dir, location, im->options->max_file_size, file);
    if (error)
        return tw_gb_error(&im->g, "tensor '%s': external data '%s': %s", tensor, location, error);
    tw_mapped_note(im->ctx, file->data, file->size);
    tw_map_put_str(&im->data_files, location, file);
    return file;
}

static bool is_written(const tw_onnx *im, const char *path)
{
    for (size_t i = 0; i < sizeof im->options->written / sizeof *im->options->written; i++)
        if (im->options->written[i] && tw_file_same(path, im->options->written[i]))
            return true;
    return false;
}

bool tw_onnx_check_written(tw_onnx *im, const Onnx__TensorProto *t)
{
    const char *location = NULL;
    for (size_t i = 0; i < t->n_external_data; i++)
        if (!strcmp(tw_onnx_text(t->external_data[i]->key), "location"))
            location = tw_onnx_text(t->external_data[i]->value);
    if (!location || !im->dir || tw_map_get_str(&im->kept, location))
        return true;
    const char *path = tw_arena_printf(im->arena, "%s/%s", im->dir, location);
    if (is_written(im, path))
        return tw_error(im->ctx, im->loc,
                        "tensor '%s': %s holds its data; the output needs another name",
                        tw_onnx_text(t->name), path);
    tw_map_put_str(&im->kept, location, im);
    return true;
}

static bool parse_size(const char *text, uint64_t *out)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return errno == 0 && !*end;
}

const unsigned char *tw_onnx_external(tw_onnx *im, const Onnx__TensorProto *t, size_t size)
{
    const char *location = NULL, *name = tw_onnx_text(t->name);
    uint64_t offset = 0, length = size;
    for (size_t i = 0; i < t->n_external_data; i++) {
        const char *key = tw_onnx_text(t->external_data[i]->key);
        const char *value = tw_onnx_text(t->external_data[i]->value);
        if (!strcmp(key, "location"))
            location = value;
        else if ((!strcmp(key, "offset") && !parse_size(value, &offset)) ||
                 (!strcmp(key, "length") && !parse_size(value, &length)))
            return tw_gb_error(&im->g, "tensor '%s': external data: '%s' is no valid %s", name,
                               value, key);
    }
    if (!location)
        return tw_gb_error(&im->g, "tensor '%s': external data without a location", name);
    if (!tw_onnx_check_written(im, t))
        return NULL;
    if (length != size)
        return tw_gb_error(&im->g,
                           "tensor '%s' takes %zu bytes, but its external data is declared to have "
                           "%llu",
                           name, size, (unsigned long long)length);
    const tw_file *file = open_data(im, location, name);
    if (!file)
        return NULL;
    if (offset > file->size || size > file->size - offset)
        return tw_gb_error(
            &im->g, "tensor '%s': bytes %llu to %llu of external data '%s', which has %zu", name,
            (unsigned long long)offset, (unsigned long long)(offset + size), location, file->size);
    return file->data + offset;
}
