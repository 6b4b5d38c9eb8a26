/* tilewright_inputs.c: from the command line to a session with inputs set. */
#include "tilewright.h"

#include "driver/values.h"
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

static void put_all(tw_context *ctx, tw_arrays *arrays, const tw_arrays *added)
{
    for (size_t i = 0; i < added->n; i++)
        put(ctx, arrays, added->items[i]);
}

/* The file of a value of that kind. */
static bool put_value(tw_context *ctx, tw_value_kind kind, const char *name, const char *path,
                      tw_arrays *out)
{
    tw_arrays read;
    if (!tw_onnx_read_value(ctx, path, name, kind & TW_VALUE_SEQUENCE, kind & TW_VALUE_OPTIONAL,
                            &read))
        return false;
    put_all(ctx, out, &read);
    return true;
}

/* A file in ONNX's format: the model says what it holds. */
static bool put_proto(tw_context *ctx, const char *path_of_model, const char *name,
                      const char *path, tw_arrays *out)
{
    tw_arrays read;
    tw_model *model;
    if (!tw_is_compiled(path_of_model)) {
        if (!tw_onnx_read_input(ctx, path_of_model, name, path, &read))
            return false;
        put_all(ctx, out, &read);
        return true;
    }
    if (tw_model_load(path_of_model, NULL, &model) != TW_STATUS_OK)
        return tw_runtime_error(ctx);
    long i = tw_model_find_input(model, name);
    tw_value_kind kind = i < 0 ? TW_VALUE_TENSOR : tw_model_input(model, (size_t)i)->kind;
    tw_model_free(model);
    return put_value(ctx, kind, name, path, out);
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

/* The files PREFIX0.pb … by the names of a compiled model. */
static bool read_numbered(tw_context *ctx, const tw_model *model, tensor_at at, const char *prefix,
                          tw_arrays *out)
{
    const tw_tensor_info *info;
    *out = (tw_arrays){0};
    for (size_t i = 0; (info = at(model, i)); i++) {
        const char *path = tw_arena_printf(tw_context_arena(ctx), "%s%zu.pb", prefix, i);
        if (access(path, F_OK) == 0 && !put_value(ctx, info->kind, info->name, path, out))
            return false;
    }
    return true;
}

bool tw_read_data_set(tw_context *ctx, const char *path, const tw_model *loaded, const char *folder,
                      tw_arrays *inputs, tw_arrays *outputs)
{
    tw_arena *arena = tw_context_arena(ctx);
    if (!loaded)
        return tw_onnx_read_data_set(ctx, path, folder, inputs, outputs);
    const tw_model_info *info = tw_model_get_info(loaded);
    return tw_onnx_check_numbered(ctx, folder, "input", info->inputs) &&
           tw_onnx_check_numbered(ctx, folder, "output", info->outputs) &&
           read_numbered(ctx, loaded, tw_model_input, tw_arena_printf(arena, "%s/input_", folder),
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

const char *tw_sizes_text(tw_context *ctx, unsigned rank, const int64_t *dims)
{
    const char *text = "";
    for (unsigned i = 0; i < rank; i++)
        text = tw_arena_printf(tw_context_arena(ctx), dims[i] < 0 ? "%s%s?" : "%s%s%lld", text,
                               i ? "x" : "", (long long)dims[i]);
    return text;
}

static const char *shape_text(tw_context *ctx, unsigned rank, const int64_t *dims)
{
    return rank ? tw_sizes_text(ctx, rank, dims) : "scalar";
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
                 tensor_at at)
{
    bool fine = true;
    for (size_t i = 0; i < arrays->n; i++) {
        size_t k = 0;
        while (at(model, k) && !tw_value_has(ctx, at(model, k), arrays->items[i].name))
            k++;
        if (!at(model, k))
            fine = tw_error(ctx, NULL, "the model has no %s '%s'; its %ss: %s", kind,
                            arrays->items[i].name, kind, names_text(ctx, model, at));
    }
    return fine;
}

bool tw_only_inputs(tw_context *ctx, const tw_model *model, const tw_arrays *arrays)
{
    return only(ctx, model, arrays, "input", tw_model_input);
}

bool tw_only_outputs(tw_context *ctx, const tw_model *model, const tw_arrays *arrays)
{
    return only(ctx, model, arrays, "output", tw_model_output);
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

static const char *first_name(tw_context *ctx, const tw_tensor_info *info)
{
    const char *form = info->kind & TW_VALUE_SEQUENCE ? "%s[0]" : "%s";
    return tw_arena_printf(tw_context_arena(ctx), form, info->name);
}

/* Whether what is given fits; without anything, makes it up: optionals are absent then, sequences
 * empty. */
static bool bind(const tw_compile_args *args, const tw_tensor_info *info, uint64_t seed,
                 const tw_arrays *given, tw_arrays *out)
{
    tw_array made;
    const tw_array *a = tw_arrays_find(given, info->name);
    if (a && a->data)
        return info->kind != TW_VALUE_TENSOR || fits(args->ctx, info, a);
    if (info->kind != TW_VALUE_TENSOR) {
        if (!a && !tw_arrays_find(given, first_name(args->ctx, info)))
            fprintf(stderr, "input '%s': %s\n", info->name,
                    info->kind == TW_VALUE_SEQUENCE ? "an empty sequence" : "nothing");
        return true;
    }
    if (!make_up(args, info, seed, &made))
        return false;
    put(args->ctx, out, made);
    return true;
}

bool tw_bind_inputs(const tw_compile_args *args, const tw_model *model, const tw_arrays *given,
                    tw_arrays *out)
{
    *out = (tw_arrays){0};
    put_all(args->ctx, out, given);
    if (!tw_only_inputs(args->ctx, model, given))
        return false;
    for (size_t i = 0; i < tw_model_get_info(model)->inputs; i++)
        if (!bind(args, tw_model_input(model, i), i + 1, given, out))
            return false;
    return true;
}

/* Arrays in mapped files lie at any address; what reads inputs may need them where their type says:
 * copies of those that are not there. */
static tw_arrays align(tw_context *ctx, const tw_arrays *arrays)
{
    tw_array *items = TW_NEW_ARRAY(tw_context_arena(ctx), tw_array, arrays->n + 1);
    for (size_t i = 0; i < arrays->n; i++) {
        const tw_array *a = &arrays->items[i];
        size_t bytes = tw_elem_bits(a->elem) / 8;
        items[i] = *a;
        if (a->elem == TW_STRING || bytes < 2 || (uintptr_t)a->data % bytes == 0)
            continue;
        items[i].data = tw_context_alloc(ctx, a->size);
        memcpy(items[i].data, a->data, a->size);
    }
    return (tw_arrays){items, arrays->n};
}

tw_session *tw_open_session(tw_context *ctx, tw_model *model, const tw_session_options *options,
                            const tw_arrays *inputs)
{
    tw_session *session;
    tw_arrays aligned = align(ctx, inputs);
    if (tw_session_create(model, options, &session) != TW_STATUS_OK) {
        tw_runtime_error(ctx);
        return NULL;
    }
    for (size_t i = 0; i < tw_model_get_info(model)->inputs; i++)
        if (!tw_set_input(ctx, session, model, i, &aligned)) {
            tw_session_destroy(session);
            return NULL;
        }
    return session;
}
