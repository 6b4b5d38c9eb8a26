/* data_set.c: reads files of tensors, alone and as the numbered files of a test set, where there
 * are sequences and optionals, too. */
#include "import/onnx/data_set.h"

#include "import/onnx/import.h"
#include "import/onnx/scan.h"

#include <dirent.h>
#include <stdlib.h>
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

/* What other messages look like when they are read as a TensorProto, or lack. */
static bool check_tensor(tw_onnx *im, const Onnx__TensorProto *t)
{
    if (t->has_data_location && t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
        return tw_error(im->ctx, im->loc,
                        "the tensor has external data, which only models may have; its file must "
                        "hold the data itself");
    return (t->data_type != ONNX__TENSOR_PROTO__DATA_TYPE__UNDEFINED && !t->segment) ||
           tw_error(im->ctx, im->loc, "not a valid TensorProto, which is expected here: it has %s",
                    t->segment ? "segments, or is a SequenceProto or OptionalProto"
                               : "no element type");
}

static bool read_tensor(tw_onnx *im, const Onnx__TensorProto *t, tw_array *out)
{
    tw_type type;
    if (!check_tensor(im, t))
        return false;
    *out = (tw_array){.name = tw_onnx_text(t->name)};
    const void *data = tw_onnx_tensor_data(im, t, out->name, &type, &out->size);
    if (!data)
        return false;
    out->data = (void *)(uintptr_t)data;
    out->elem = type->elem;
    out->rank = type->rank;
    for (unsigned i = 0; i < type->rank; i++)
        out->dims[i] = t->dims[i];
    return true;
}

bool tw_onnx_read_tensor(tw_context *ctx, const char *path, tw_array *out)
{
    tw_onnx im;
    const Onnx__TensorProto *t =
        (const Onnx__TensorProto *)unpack_file(ctx, path, &onnx__tensor_proto__descriptor, &im);
    return t && read_tensor(&im, t, out);
}

/* ---- Sequences and optionals ---- */

typedef struct array_list {
    tw_arena *arena;
    TW_VEC(tw_array) items;
} array_list;

static bool add_tensor(tw_onnx *im, const Onnx__TensorProto *t, const char *name, array_list *out)
{
    tw_array a;
    if (!read_tensor(im, t, &a))
        return false;
    a.name = name;
    tw_vec_push(out->arena, &out->items, a);
    return true;
}

/* The elements, as "x[0]", "x[1]" … */
static bool add_sequence(tw_onnx *im, const Onnx__SequenceProto *s, const char *name,
                         array_list *out)
{
    for (size_t i = 0; i < s->n_tensor_values; i++)
        if (!add_tensor(im, s->tensor_values[i], tw_onnx_element_name(out->arena, name, i), out))
            return false;
    for (size_t i = 0; i < s->n_sequence_values; i++)
        if (!add_sequence(im, s->sequence_values[i], tw_onnx_element_name(out->arena, name, i),
                          out))
            return false;
    tw_array none = {.name = tw_arena_printf(out->arena, "%s[]", name), .rank = 1};
    if (s->n_tensor_values || s->n_sequence_values)
        return true;
    tw_onnx_elem(s->elem_type, &none.elem);
    none.data = tw_context_alloc(im->ctx, 1);
    tw_vec_push(out->arena, &out->items, none);
    return true;
}

static bool read_sequence(tw_context *ctx, const char *path, const char *name, array_list *out)
{
    tw_onnx im;
    const Onnx__SequenceProto *s =
        (const Onnx__SequenceProto *)unpack_file(ctx, path, &onnx__sequence_proto__descriptor, &im);
    return s && add_sequence(&im, s, name, out);
}

static bool read_optional(tw_context *ctx, const char *path, const char *name, array_list *out)
{
    tw_onnx im;
    const Onnx__OptionalProto *o =
        (const Onnx__OptionalProto *)unpack_file(ctx, path, &onnx__optional_proto__descriptor, &im);
    if (!o)
        return false;
    return (!o->tensor_value || add_tensor(&im, o->tensor_value, name, out)) &&
           (!o->sequence_value || add_sequence(&im, o->sequence_value, name, out));
}

/* The file of a value of that declared type. */
static bool read_value(tw_context *ctx, const char *path, const Onnx__ValueInfoProto *value,
                       array_list *out)
{
    const char *name = tw_onnx_text(value->name);
    switch (value->type ? value->type->value_case : ONNX__TYPE_PROTO__VALUE__NOT_SET) {
    case ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE: {
        tw_array a;
        if (!tw_onnx_read_tensor(ctx, path, &a))
            return false;
        a.name = name;
        tw_vec_push(out->arena, &out->items, a);
        return true;
    }
    case ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE:
        return read_sequence(ctx, path, name, out);
    case ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE:
        return read_optional(ctx, path, name, out);
    default:
        return tw_error(ctx, tw_loc_file(ctx, path, 0, 0),
                        "'%s' is no tensor, sequence or optional", name);
    }
}

/* Reads the files PREFIX0.pb and so on for the values, those in `skip` not counted; tells how many
 * files there may be. */
static bool read_numbered(tw_context *ctx, const char *prefix, Onnx__ValueInfoProto *const *values,
                          size_t n, tw_map *skip, tw_arrays *out, size_t *numbers)
{
    array_list list = {.arena = tw_context_arena(ctx)};
    size_t number = 0;
    for (size_t i = 0; i < n; i++) {
        const char *name = tw_onnx_text(values[i]->name);
        if (tw_map_get_str(skip, name))
            continue;
        const char *path = tw_arena_printf(tw_context_arena(ctx), "%s%zu.pb", prefix, number++);
        if (access(path, F_OK) != 0)
            continue;
        if (!read_value(ctx, path, values[i], &list))
            return false;
    }
    *out = (tw_arrays){.items = list.items.data, .n = list.items.len};
    *numbers = number;
    return true;
}

/* Whether the name is PREFIX, a number and ".pb"; n and more are surplus, and so are numbers that
 * are written otherwise than the n files' are. */
static bool is_surplus(const char *name, const char *prefix, size_t n)
{
    size_t len = strlen(prefix);
    if (strncmp(name, prefix, len) != 0)
        return false;
    const char *number = name + len;
    size_t digits = strspn(number, "0123456789");
    if (!digits || strcmp(number + digits, ".pb") != 0)
        return false;
    return digits > 9 || (digits > 1 && *number == '0') || strtoul(number, NULL, 10) >= n;
}

bool tw_onnx_check_numbered(tw_context *ctx, const char *folder, const char *kind, size_t n)
{
    bool fine = true;
    const char *prefix = tw_arena_printf(tw_context_arena(ctx), "%s_", kind);
    DIR *dir = opendir(folder);
    for (const struct dirent *e; dir && (e = readdir(dir));)
        if (is_surplus(e->d_name, prefix, n))
            fine = tw_error(ctx, NULL, "%s/%s belongs to no %s: the model has %zu, numbered from 0",
                            folder, e->d_name, kind, n);
    if (dir)
        closedir(dir);
    return fine;
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

bool tw_onnx_read_value(tw_context *ctx, const char *path, const char *name, bool sequence,
                        bool optional, tw_arrays *out)
{
    array_list list = {.arena = tw_context_arena(ctx)};
    tw_array a;
    bool fine = optional   ? read_optional(ctx, path, name, &list)
                : sequence ? read_sequence(ctx, path, name, &list)
                           : tw_onnx_read_tensor(ctx, path, &a);
    if (fine && !optional && !sequence) {
        a.name = name;
        tw_vec_push(list.arena, &list.items, a);
    }
    *out = (tw_arrays){.items = list.items.data, .n = list.items.len};
    return fine;
}

bool tw_onnx_read_input(tw_context *ctx, const char *model, const char *name, const char *path,
                        tw_arrays *out)
{
    const Onnx__GraphProto *g = read_graph(ctx, model);
    array_list list = {.arena = tw_context_arena(ctx)};
    size_t i = 0;
    while (g && i < g->n_input && strcmp(tw_onnx_text(g->input[i]->name), name) != 0)
        i++;
    if (!g || i == g->n_input)
        return g && tw_error(ctx, tw_loc_file(ctx, model, 0, 0), "there is no input '%s'", name);
    bool fine = read_value(ctx, path, g->input[i], &list);
    *out = (tw_arrays){.items = list.items.data, .n = list.items.len};
    return fine;
}

/* Inputs with a default, an initializer of their name, have no file as a rule. */
static bool read_inputs(tw_context *ctx, const Onnx__GraphProto *g, const char *prefix,
                        tw_arrays *out, size_t *numbers)
{
    tw_map initializers = tw_map_make(tw_context_arena(ctx)),
           none = tw_map_make(initializers.arena);
    size_t required = 0;
    for (size_t i = 0; i < g->n_initializer; i++)
        tw_map_put_str(&initializers, tw_onnx_text(g->initializer[i]->name), g->initializer[i]);
    for (size_t i = 0; i < g->n_sparse_initializer; i++)
        if (g->sparse_initializer[i]->values)
            tw_map_put_str(&initializers, tw_onnx_text(g->sparse_initializer[i]->values->name),
                           g->sparse_initializer[i]);
    for (size_t i = 0; i < g->n_input; i++)
        required += !tw_map_get_str(&initializers, tw_onnx_text(g->input[i]->name));
    /* Where there are more files than inputs without a default, those with one are numbered, too.
     */
    bool all = required < g->n_input &&
               !access(tw_arena_printf(tw_context_arena(ctx), "%s%zu.pb", prefix, required), F_OK);
    return read_numbered(ctx, prefix, g->input, g->n_input, all ? &none : &initializers, out,
                         numbers);
}

static bool read_outputs(tw_context *ctx, const Onnx__GraphProto *g, const char *prefix,
                         tw_arrays *out, size_t *numbers)
{
    tw_map none = tw_map_make(tw_context_arena(ctx));
    return read_numbered(ctx, prefix, g->output, g->n_output, &none, out, numbers);
}

bool tw_onnx_read_outputs(tw_context *ctx, const char *model, const char *prefix, tw_arrays *out)
{
    const Onnx__GraphProto *g = read_graph(ctx, model);
    size_t numbers;
    return g && read_outputs(ctx, g, prefix, out, &numbers);
}

bool tw_onnx_read_data_set(tw_context *ctx, const char *model, const char *folder,
                           tw_arrays *inputs, tw_arrays *outputs)
{
    const Onnx__GraphProto *g = read_graph(ctx, model);
    tw_arena *arena = tw_context_arena(ctx);
    size_t in, out;
    return g && read_inputs(ctx, g, tw_arena_printf(arena, "%s/input_", folder), inputs, &in) &&
           read_outputs(ctx, g, tw_arena_printf(arena, "%s/output_", folder), outputs, &out) &&
           tw_onnx_check_numbered(ctx, folder, "input", in) &&
           tw_onnx_check_numbered(ctx, folder, "output", out);
}
