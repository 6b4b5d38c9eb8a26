/* tilewright_inputs.c: from the command line to a session with inputs set. */
#include "tilewright.h"

#include "import/onnx/data_set.h"
#include "ir/scalar.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

size_t tw_count(unsigned rank, const int64_t *dims)
{
    size_t n = 1;
    for (unsigned i = 0; i < rank; i++)
        n *= (size_t)dims[i];
    return n;
}

typedef const tw_tensor_info *(*tensor_at)(const tw_model *model, size_t i);

/* ---- What is given ---- */

/* Puts an array in the place of an earlier one of its name. Without data: it is to be made up. */
static void put(tw_context *ctx, tw_arrays *arrays, tw_array added)
{
    for (size_t i = 0; i < arrays->n; i++)
        if (!strcmp(arrays->items[i].name, added.name)) {
            arrays->items[i] = added;
            return;
        }
    tw_array *grown = TW_NEW_ARRAY(tw_context_arena(ctx), tw_array, arrays->n + 1);
    if (arrays->n)
        memcpy(grown, arrays->items, arrays->n * sizeof *grown);
    grown[arrays->n++] = added;
    arrays->items = grown;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* A file in ONNX's format: what it holds is declared in an ONNX model; in a compiled one, whose
 * inputs are tensors, a tensor. */
static bool put_proto(tw_context *ctx, const char *model, const char *name, const char *path,
                      tw_arrays *out)
{
    tw_array a;
    tw_arrays read = {&a, 1};
    if (!tw_is_compiled(model)) {
        if (!tw_onnx_read_input(ctx, model, name, path, &read))
            return false;
    } else if (!tw_onnx_read_tensor(ctx, path, &a)) {
        return false;
    } else {
        a.name = name;
    }
    for (size_t i = 0; i < read.n; i++)
        put(ctx, out, read.items[i]);
    return true;
}

/* NAME=FILE or NAME=random. */
static bool put_named(tw_context *ctx, const char *model, const char *text, tw_arrays *out)
{
    const char *path = strrchr(text, '=') + 1;
    const char *name = tw_intern(ctx, text, (size_t)(path - 1 - text));
    tw_array a = {0};
    if (ends_with(path, ".pb"))
        return put_proto(ctx, model, name, path, out);
    if (strcmp(path, "random") != 0 && !tw_npy_read(ctx, path, &a))
        return false;
    a.name = name;
    put(ctx, out, a);
    return true;
}

bool tw_read_inputs(const tw_input_args *args, const char *model, tw_arrays *out)
{
    *out = (tw_arrays){0};
    if (args->npz && !tw_npz_read(args->ctx, args->npz, out))
        return false;
    for (size_t i = 0; i < args->named.len; i++)
        if (!put_named(args->ctx, model, args->named.data[i], out))
            return false;
    return true;
}

/* The files PREFIX0.pb … as tensors by the names of a compiled model. */
static bool read_numbered(tw_context *ctx, const tw_model *model, tensor_at at, const char *prefix,
                          tw_arrays *out)
{
    const tw_tensor_info *info;
    *out = (tw_arrays){0};
    for (size_t i = 0; (info = at(model, i)); i++) {
        tw_array a;
        const char *path = tw_arena_printf(tw_context_arena(ctx), "%s%zu.pb", prefix, i);
        if (access(path, F_OK) != 0)
            continue;
        if (!tw_onnx_read_tensor(ctx, path, &a))
            return false;
        a.name = info->name;
        put(ctx, out, a);
    }
    return true;
}

bool tw_read_data_set(tw_context *ctx, const char *path, const tw_model *loaded, const char *folder,
                      tw_arrays *inputs, tw_arrays *outputs)
{
    tw_arena *arena = tw_context_arena(ctx);
    if (!loaded)
        return tw_onnx_read_data_set(ctx, path, folder, inputs, outputs);
    return read_numbered(ctx, loaded, tw_model_input, tw_arena_printf(arena, "%s/input_", folder),
                         inputs) &&
           read_numbered(ctx, loaded, tw_model_output, tw_arena_printf(arena, "%s/output_", folder),
                         outputs);
}

/* ---- What is made up ---- */

/* splitmix64: small, the same on every machine. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Floating point in [-1, 1], integers and booleans 0 or 1 (which are valid indices and masks),
 * empty strings. */
static void fill_random(tw_array *a, uint64_t state)
{
    for (size_t i = 0, n = tw_count(a->rank, a->dims); i < n; i++) {
        uint64_t r = next_random(&state);
        tw_number value = {.integer = (int64_t)(r >> 63)};
        if (tw_elem_is_float(a->elem))
            value.real = tw_scalar_round(a->elem, (double)(r >> 11) * 0x1p-52 - 1.0);
        if (a->elem == TW_STRING)
            ((const char **)a->data)[i] = "";
        else
            tw_scalar_store(a->elem, a->data, i, value);
    }
}

static const char *shape_text(tw_context *ctx, unsigned rank, const int64_t *dims)
{
    const char *text = "";
    for (unsigned i = 0; i < rank; i++)
        text = tw_arena_printf(tw_context_arena(ctx), dims[i] < 0 ? "%s%s?" : "%s%s%lld", text,
                               i ? "x" : "", (long long)dims[i]);
    return rank ? text : "scalar";
}

/* Sizes that are open are those of --shape, or 1. */
static bool make_up(const tw_compile_args *args, const tw_tensor_info *info, uint64_t seed,
                    tw_array *out)
{
    tw_context *ctx = args->ctx;
    const tw_shape *shape = NULL;
    for (size_t i = 0; i < args->shapes.len; i++)
        if (!strcmp(args->shapes.data[i].input, info->name))
            shape = &args->shapes.data[i];
    *out = (tw_array){.name = info->name, .elem = info->elem, .rank = info->rank};
    for (unsigned i = 0; i < info->rank; i++)
        out->dims[i] = info->dims[i] >= 0 ? info->dims[i] : shape ? shape->dims[i] : 1;
    if (!tw_array_size(out->elem, out->rank, out->dims, &out->size))
        return tw_error(ctx, NULL, "input '%s' is too large to make up", info->name);
    out->data = tw_context_alloc(ctx, out->size);
    fill_random(out, seed);
    fprintf(stderr, "input '%s': random %s %s\n", info->name, tw_elem_name(info->elem),
            shape_text(ctx, out->rank, out->dims));
    return true;
}

/* ---- Against the model ---- */

/* "'a', 'b'", or "none". */
static const char *names_text(tw_context *ctx, const tw_model *model, tensor_at at)
{
    const char *text = "";
    for (size_t i = 0; at(model, i); i++)
        text = tw_arena_printf(tw_context_arena(ctx), "%s%s'%s'", text, i ? ", " : "",
                               at(model, i)->name);
    return *text ? text : "none";
}

static bool only(tw_context *ctx, const tw_model *model, const tw_arrays *arrays, const char *kind,
                 tensor_at at, long (*find)(const tw_model *model, const char *name))
{
    bool fine = true;
    for (size_t i = 0; i < arrays->n; i++)
        if (find(model, arrays->items[i].name) < 0)
            fine = tw_error(ctx, NULL, "the model has no %s '%s'; its %ss: %s", kind,
                            arrays->items[i].name, kind, names_text(ctx, model, at));
    return fine;
}

bool tw_only_inputs(tw_context *ctx, const tw_model *model, const tw_arrays *arrays)
{
    return only(ctx, model, arrays, "input", tw_model_input, tw_model_find_input);
}

bool tw_only_outputs(tw_context *ctx, const tw_model *model, const tw_arrays *arrays)
{
    return only(ctx, model, arrays, "output", tw_model_output, tw_model_find_output);
}

static bool same_shape(const tw_tensor_info *info, unsigned rank, const int64_t *dims)
{
    bool same = rank == info->rank;
    for (unsigned i = 0; same && i < rank; i++)
        same = info->dims[i] < 0 || info->dims[i] == dims[i];
    return same;
}

bool tw_shape_fits(tw_context *ctx, const tw_model *model, const tw_shape *shape)
{
    long i = tw_model_find_input(model, shape->input);
    if (i < 0)
        return tw_error(ctx, NULL, "the model has no input '%s'; its inputs: %s", shape->input,
                        names_text(ctx, model, tw_model_input));
    const tw_tensor_info *info = tw_model_input(model, (size_t)i);
    return same_shape(info, shape->rank, shape->dims) ||
           tw_error(ctx, NULL, "--shape gives input '%s' as %s, but the model is compiled for %s",
                    shape->input, shape_text(ctx, shape->rank, shape->dims),
                    shape_text(ctx, info->rank, info->dims));
}

static bool fits(tw_context *ctx, const tw_tensor_info *info, const tw_array *a)
{
    bool same = a->elem == info->elem && same_shape(info, a->rank, a->dims);
    return same || tw_error(ctx, NULL, "input '%s' is given as %s %s, but the model takes %s %s",
                            info->name, tw_elem_name(a->elem), shape_text(ctx, a->rank, a->dims),
                            tw_elem_name(info->elem), shape_text(ctx, info->rank, info->dims));
}

const tw_array *tw_bind_inputs(const tw_compile_args *args, const tw_model *model,
                               const tw_arrays *given)
{
    tw_context *ctx = args->ctx;
    size_t n = tw_model_get_info(model)->inputs;
    tw_array *bound = TW_NEW_ARRAY(tw_context_arena(ctx), tw_array, n + 1); /* not NULL for none */
    if (!tw_only_inputs(ctx, model, given))
        return NULL;
    for (size_t i = 0; i < n; i++) {
        const tw_tensor_info *info = tw_model_input(model, i);
        const tw_array *a = tw_arrays_find(given, info->name);
        if (a && a->data ? !fits(ctx, info, a) : !make_up(args, info, i + 1, &bound[i]))
            return NULL;
        if (a && a->data)
            bound[i] = *a;
    }
    return bound;
}

tw_session *tw_open_session(tw_context *ctx, tw_model *model, const tw_session_options *options,
                            const tw_array *inputs)
{
    tw_session *session;
    tw_session_options with_any = *options;
    with_any.unaligned = true; /* parts of mapped files lie anywhere */
    bool fine = tw_session_create(model, &with_any, &session) == TW_STATUS_OK;
    for (size_t i = 0; fine && i < tw_model_get_info(model)->inputs; i++)
        fine = tw_session_set_input_shape(session, i, inputs[i].data, inputs[i].dims,
                                          inputs[i].rank) == TW_STATUS_OK;
    if (fine)
        return session;
    tw_runtime_error(ctx);
    tw_session_destroy(session);
    return NULL;
}
