/* data_set.c: reads TensorProto files, alone and as the numbered files of a test set. */
#include "import/onnx/data_set.h"

#include "import/onnx/import.h"
#include "import/onnx/scan.h"

#include <string.h>
#include <unistd.h>

static void unmap(void *file)
{
    tw_file_unmap(file);
}

/* Maps the file and unpacks the message in it; the importer's state is made to read from it. All on
 * the context's arena. NULL with a diagnostic. */
static ProtobufCMessage *unpack_file(tw_context *ctx, const char *path,
                                     const ProtobufCMessageDescriptor *type, tw_onnx *im)
{
    tw_loc loc = tw_loc_file(ctx, path, 0, 0);
    tw_file *file = tw_context_alloc(ctx, sizeof *file);
    tw_context_on_destroy(ctx, unmap, file);
    const char *error = tw_file_map(path, 0, file);
    if (error) {
        tw_error(ctx, loc, "%s", error);
        return NULL;
    }
    tw_arena *arena = tw_context_arena(ctx);
    *im = (tw_onnx){.ctx = ctx,
                    .arena = arena,
                    .file = path,
                    .loc = loc,
                    .data = file->data,
                    .size = file->size,
                    .g = {.ctx = ctx, .arena = arena, .b = {.loc = loc}}};
    return tw_onnx_unpack(ctx, loc, arena, type, file->data, file->size);
}

bool tw_onnx_read_tensor(tw_context *ctx, const char *path, tw_array *out)
{
    tw_onnx im;
    tw_type type;
    const Onnx__TensorProto *t =
        (const Onnx__TensorProto *)unpack_file(ctx, path, &onnx__tensor_proto__descriptor, &im);
    if (!t)
        return false;
    *out = (tw_array){.name = tw_onnx_text(t->name)};
    const void *data = tw_onnx_tensor_data(&im, t, out->name, &type, &out->size);
    if (!data)
        return false;
    out->data = (void *)(uintptr_t)data;
    out->elem = type->elem;
    out->rank = type->rank;
    for (unsigned i = 0; i < type->rank; i++)
        out->dims[i] = t->dims[i];
    return true;
}

/* Reads the files PREFIX0.pb and so on for the values, those in `skip` not counted. */
static bool read_numbered(tw_context *ctx, const char *prefix, Onnx__ValueInfoProto *const *values,
                          size_t n, tw_map *skip, tw_arrays *out)
{
    *out = (tw_arrays){.items = TW_NEW_ARRAY(tw_context_arena(ctx), tw_array, n)};
    size_t number = 0;
    for (size_t i = 0; i < n; i++) {
        const char *name = tw_onnx_text(values[i]->name);
        if (tw_map_get_str(skip, name))
            continue;
        const char *path = tw_arena_printf(tw_context_arena(ctx), "%s%zu.pb", prefix, number++);
        if (access(path, F_OK) != 0)
            continue;
        if (!values[i]->type || values[i]->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
            return tw_error(ctx, tw_loc_file(ctx, path, 0, 0),
                            "'%s' is no tensor; only tensors are supported", name);
        if (!tw_onnx_read_tensor(ctx, path, &out->items[out->n]))
            return false;
        out->items[out->n++].name = name;
    }
    return true;
}

static const Onnx__GraphProto *read_graph(tw_context *ctx, const char *model)
{
    tw_onnx im;
    const Onnx__ModelProto *proto =
        (const Onnx__ModelProto *)unpack_file(ctx, model, &onnx__model_proto__descriptor, &im);
    if (proto && !proto->graph)
        tw_error(ctx, im.loc, "not a valid ONNX model: it has no graph");
    return proto ? proto->graph : NULL;
}

static bool read_inputs(tw_context *ctx, const Onnx__GraphProto *g, const char *prefix,
                        tw_arrays *out)
{
    tw_map initializers = tw_map_make(tw_context_arena(ctx));
    for (size_t i = 0; i < g->n_initializer; i++)
        tw_map_put_str(&initializers, tw_onnx_text(g->initializer[i]->name), g->initializer[i]);
    return read_numbered(ctx, prefix, g->input, g->n_input, &initializers, out);
}

static bool read_outputs(tw_context *ctx, const Onnx__GraphProto *g, const char *prefix,
                         tw_arrays *out)
{
    tw_map none = tw_map_make(tw_context_arena(ctx));
    return read_numbered(ctx, prefix, g->output, g->n_output, &none, out);
}

bool tw_onnx_read_outputs(tw_context *ctx, const char *model, const char *prefix, tw_arrays *out)
{
    const Onnx__GraphProto *g = read_graph(ctx, model);
    return g && read_outputs(ctx, g, prefix, out);
}

bool tw_onnx_read_data_set(tw_context *ctx, const char *model, const char *folder,
                           tw_arrays *inputs, tw_arrays *outputs)
{
    const Onnx__GraphProto *g = read_graph(ctx, model);
    tw_arena *arena = tw_context_arena(ctx);
    return g && read_inputs(ctx, g, tw_arena_printf(arena, "%s/input_", folder), inputs) &&
           read_outputs(ctx, g, tw_arena_printf(arena, "%s/output_", folder), outputs);
}
