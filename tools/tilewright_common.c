/* tilewright_common.c: diagnostics, inputs and loading, for all verbs. */
#include "tilewright.h"

#include "base/arena.h"
#include "dialect/core/core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void tw_report(tw_context *ctx)
{
    for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
        fprintf(stderr, "%s\n", tw_diagnostic_text(ctx, d));
    tw_diagnostics_clear(ctx);
}

int tw_report_runtime(const char *what)
{
    fprintf(stderr, "%s: error: %s\n", what, tw_last_error());
    return TW_EXIT_FAILED;
}

int tw_finish(tw_compile_args *args, bool fine)
{
    tw_report(args->ctx);
    if (args->options.passes.timing)
        fputs(tw_pipeline_report(args->ctx), stderr);
    tw_context_destroy(args->ctx);
    return fine ? TW_EXIT_OK : TW_EXIT_FAILED;
}

static void dump_to_stderr(void *data, const char *title, const char *text)
{
    (void)data;
    fprintf(stderr, "// ---- %s ----\n%s\n", title, text);
}

bool tw_prepare(tw_compile_args *args)
{
    tw_compile_options *o = &args->options;
    o->cpus = args->cpus;
    o->shapes = args->shapes;
    o->extra_outputs = args->extra_outputs;
    o->passes.disable = args->disabled;
    o->passes.dump = dump_to_stderr;
    for (unsigned i = 0; i < args->n_plugins; i++)
        if (!tw_plugin_load(args->ctx, args->plugins[i]))
            return false;
    return true;
}

/* ---- Inputs ---- */

/* Keeps the arrays whose names begin with the prefix, without it. */
static void strip_prefix(tw_arrays *arrays, const char *prefix)
{
    size_t len = strlen(prefix), n = 0;
    for (size_t i = 0; i < arrays->n; i++)
        if (!strncmp(arrays->items[i].name, prefix, len)) {
            arrays->items[n] = arrays->items[i];
            arrays->items[n++].name += len;
        }
    arrays->n = n;
}

static bool add_named(tw_context *ctx, const char *text, tw_arrays *out)
{
    const char *equals = strrchr(text, '=');
    if (!strcmp(equals + 1, "random"))
        return true; /* what is not given is made up */
    tw_array a;
    if (!tw_npy_read(ctx, equals + 1, &a))
        return false;
    a.name = tw_intern(ctx, text, (size_t)(equals - text));
    tw_array *grown = TW_NEW_ARRAY(tw_context_arena(ctx), tw_array, out->n + 1);
    for (size_t i = 0; i < out->n; i++)
        grown[i] = out->items[i];
    grown[out->n++] = a;
    out->items = grown;
    return true;
}

bool tw_read_inputs(tw_context *ctx, const tw_input_args *args, const char *strip, tw_arrays *out)
{
    *out = (tw_arrays){0};
    if (args->npz) {
        if (!tw_npz_read(ctx, args->npz, out))
            return false;
        strip_prefix(out, strip);
    }
    for (unsigned i = 0; i < args->n_named; i++)
        if (!add_named(ctx, args->named[i], out))
            return false;
    return true;
}

static const char *shape_text(tw_context *ctx, unsigned rank, const int64_t *dims)
{
    const char *text = "";
    for (unsigned i = 0; i < rank; i++)
        text = tw_arena_printf(tw_context_arena(ctx), "%s%s%lld", text, i ? "x" : "",
                               (long long)dims[i]);
    return rank ? text : "scalar";
}

/* splitmix64: small, the same on every machine. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Floating point in [-1, 1), integers and booleans 0 or 1 (which are valid indices and masks). */
static void fill_random(tw_array *a)
{
    uint64_t state = 1;
    size_t width = tw_elem_bits(a->elem) / 8;
    for (size_t i = 0; i < a->size / width; i++) {
        uint64_t r = next_random(&state);
        double real = (double)(r >> 11) * 0x1p-52 - 1.0;
        char *at = (char *)a->data + i * width;
        if (a->elem == TW_F32)
            *(float *)(void *)at = (float)real;
        else if (a->elem == TW_F64)
            *(double *)(void *)at = real;
        else if (!tw_elem_is_float(a->elem))
            *at = (char)(r >> 63);
    }
}

static bool make_up(tw_context *ctx, const tw_tensor_info *info, tw_array *out)
{
    *out = (tw_array){.name = info->name, .elem = info->elem, .rank = info->rank};
    for (unsigned i = 0; i < info->rank; i++)
        out->dims[i] = info->dims[i] < 0 ? 1 : info->dims[i];
    if (!tw_array_size(out->elem, out->rank, out->dims, &out->size))
        return tw_error(ctx, NULL, "input '%s' is too large to make up", info->name);
    out->data = tw_context_alloc(ctx, out->size);
    fill_random(out);
    fprintf(stderr, "input '%s': random %s %s\n", info->name, tw_elem_name(info->elem),
            shape_text(ctx, out->rank, out->dims));
    return true;
}

static bool fits(tw_context *ctx, const tw_tensor_info *info, const tw_array *a)
{
    bool same = a->elem == info->elem && a->rank == info->rank;
    for (unsigned i = 0; same && i < a->rank; i++)
        same = info->dims[i] < 0 || info->dims[i] == a->dims[i];
    return same || tw_error(ctx, NULL, "input '%s' is given as %s %s, but the model takes %s %s",
                            info->name, tw_elem_name(a->elem), shape_text(ctx, a->rank, a->dims),
                            tw_elem_name(info->elem), shape_text(ctx, info->rank, info->dims));
}

bool tw_bind_inputs(tw_context *ctx, const tw_model *model, const tw_arrays *given, tw_array *bound)
{
    size_t n = tw_model_get_info(model)->inputs;
    for (size_t i = 0; i < n; i++) {
        const tw_tensor_info *info = tw_model_input(model, i);
        const tw_array *a = tw_arrays_find(given, info->name);
        if (a ? !fits(ctx, info, a) : !make_up(ctx, info, &bound[i]))
            return false;
        if (a)
            bound[i] = *a;
    }
    for (size_t i = 0; i < given->n; i++)
        if (tw_model_find_input(model, given->items[i].name) < 0)
            return tw_error(ctx, NULL, "the model has no input '%s'", given->items[i].name);
    return true;
}

tw_session *tw_open_session(tw_model *model, const tw_session_options *options,
                            const tw_array *inputs)
{
    tw_session *session;
    if (tw_session_create(model, options, &session) != TW_STATUS_OK) {
        tw_report_runtime("tilewright");
        return NULL;
    }
    for (size_t i = 0; i < tw_model_get_info(model)->inputs; i++)
        if (tw_session_set_input_shape(session, i, inputs[i].data, inputs[i].dims,
                                       inputs[i].rank) != TW_STATUS_OK) {
            tw_report_runtime("tilewright");
            tw_session_destroy(session);
            return NULL;
        }
    return session;
}

/* ---- Loading ---- */

bool tw_is_compiled(const char *path)
{
    char start[4] = {0};
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    bool elf = fread(start, 1, sizeof start, file) == sizeof start && !memcmp(start, "\177ELF", 4);
    fclose(file);
    return elf;
}

/* The inputs of main whose sizes are not all numbers, with 1 for those that are not. */
static tw_arrays symbolic_inputs(tw_context *ctx, tw_op *module)
{
    tw_arrays open = {0};
    tw_op *main = tw_core_lookup(module, "main");
    tw_attr names = main ? tw_op_attr(main, "input_names") : NULL;
    tw_region *body = main ? tw_core_body(main) : NULL;
    open.items = TW_NEW_ARRAY(tw_context_arena(ctx), tw_array, body ? body->n_args : 0);
    for (unsigned i = 0; names && i < body->n_args && i < names->u.array.n; i++) {
        tw_type type = body->args[i]->type;
        if (tw_type_is_static(type))
            continue;
        tw_array *a = &open.items[open.n++];
        *a = (tw_array){.name = names->u.array.items[i]->u.string.text, .rank = type->rank};
        for (unsigned d = 0; d < type->rank; d++)
            if (!tw_expr_as_const(type->dims[d], &a->dims[d]))
                a->dims[d] = 1;
    }
    return open;
}

/* Fixes what the given arrays and --shape leave open: symbolic sizes become 1, told on stderr. */
static bool fix_shapes(tw_compile_args *args, const char *path, const tw_arrays *inputs)
{
    tw_compile_options *o = &args->options;
    for (size_t i = 0; i < inputs->n && o->n_shapes < TW_MAX_LIST; i++) {
        const tw_array *a = &inputs->items[i];
        args->shapes[o->n_shapes++] = (tw_shape){a->name, a->rank, a->dims};
    }
    tw_op *module = tw_import_file(args->ctx, path, o);
    if (!module)
        return false;
    tw_arrays open = symbolic_inputs(args->ctx, module);
    for (size_t i = 0; i < open.n && o->n_shapes < TW_MAX_LIST; i++) {
        const tw_array *a = &open.items[i];
        fprintf(stderr, "input '%s': open sizes taken as 1: %s (see --shape)\n", a->name,
                shape_text(args->ctx, a->rank, a->dims));
        args->shapes[o->n_shapes++] = (tw_shape){a->name, a->rank, a->dims};
    }
    return true;
}

bool tw_load_any(tw_compile_args *args, const char *path, const tw_arrays *inputs, tw_model **model)
{
    if (tw_is_compiled(path)) {
        if (tw_model_load(path, NULL, model) == TW_STATUS_OK)
            return true;
        tw_report_runtime(path);
        return false;
    }
    int fd;
    if (!fix_shapes(args, path, inputs) || !tw_compile_to_fd(args->ctx, path, &args->options, &fd))
        return false;
    tw_status status = tw_model_load_fd(fd, path, NULL, model);
    close(fd);
    if (status != TW_STATUS_OK)
        tw_report_runtime(path);
    return status == TW_STATUS_OK;
}
