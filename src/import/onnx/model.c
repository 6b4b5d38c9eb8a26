/* model.c: a model file becomes a module: mapping, unpacking, checks, and the frame of the IR. */
#include "import/onnx/onnx.h"

#include "dialect/core/core.h"
#include "import/onnx/import.h"
#include "import/onnx/scan.h"
#include "ir/mapped.h"

#include <string.h>

static const int64_t default_max_bytes = INT64_C(1) << 40;
static const size_t max_scratch = (size_t)450 << 20;

/* ---- The import's own memory ---- */

/* The arena goes when the import ends, or with the context when memory runs out on the way: that
 * is arranged before there is one. */
typedef struct scratch {
    tw_arena *arena;
} scratch;

static void release_scratch(void *data)
{
    scratch *s = data;
    tw_arena_destroy(s->arena);
    s->arena = NULL;
}

static scratch *make_scratch(tw_context *ctx, tw_loc loc)
{
    scratch *s = tw_context_alloc(ctx, sizeof *s);
    tw_context_on_destroy(ctx, release_scratch, s);
    s->arena = tw_arena_create(max_scratch);
    if (!s->arena)
        tw_error(ctx, loc, "out of memory");
    return s->arena ? s : NULL;
}

/* ---- The frame ---- */

/* "resnet50" of "zoo/resnet50.onnx". */
static const char *module_name(tw_onnx *im)
{
    const char *slash = strrchr(im->file, '/'), *name = slash ? slash + 1 : im->file;
    const char *dot = strrchr(name, '.');
    size_t len = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    return len ? tw_intern(im->ctx, name, len) : "model";
}

/* A domain in one version only. */
static bool sets_agree(tw_onnx *im)
{
    tw_map seen = tw_map_make(im->arena);
    for (size_t i = 0; i < im->opsets.n; i++) {
        Onnx__OperatorSetIdProto *set = im->opsets.items[i];
        const char *domain = tw_onnx_domain(set->domain);
        const Onnx__OperatorSetIdProto *other = tw_map_put_str(&seen, domain, set);
        if (other && other->version != set->version)
            return tw_error(im->ctx, im->loc, "the model uses operator sets %lld and %lld of '%s'",
                            (long long)other->version, (long long)set->version,
                            *domain ? domain : "ai.onnx");
    }
    return true;
}

static bool check_opsets(tw_onnx *im)
{
    int64_t version = tw_onnx_opset(&im->opsets, "");
    if (version == 0 && im->model->n_opset_import == 0)
        return tw_error(im->ctx, im->loc, "the model does not say which operator set it uses");
    if (version < 0 || version > TW_ONNX_MAX_OPSET)
        return tw_error(im->ctx, im->loc,
                        "the model uses operator set %lld; versions up to %d are supported",
                        (long long)version, TW_ONNX_MAX_OPSET);
    return sets_agree(im);
}

static tw_op *build_module(tw_onnx *im)
{
    im->opsets = (tw_onnx_opsets){im->model->opset_import, im->model->n_opset_import};
    if (!im->model->graph) {
        tw_error(im->ctx, im->loc, "not a valid ONNX model: it has no graph");
        return NULL;
    }
    if (!check_opsets(im) || !tw_onnx_functions(im) || !tw_onnx_check_operators(im))
        return NULL;
    tw_op *module = tw_core_module(im->ctx, module_name(im), im->loc);
    tw_builder b = tw_builder_at_end(im->ctx, tw_core_body(module), im->loc);
    tw_op *func = tw_core_func(&b, "main", tw_type_func(im->ctx, NULL, 0, NULL, 0), NULL);
    im->g = tw_gb_make(im->ctx, im->arena, tw_core_body(func),
                       im->options->max_tensor_bytes ? im->options->max_tensor_bytes
                                                     : default_max_bytes);
    im->g.b.loc = im->loc;
    im->g.saturate_products = im->options->saturate_products;
    return tw_onnx_main(im, func) ? module : NULL;
}

static tw_op *import(tw_onnx *im)
{
    if (im->size == 0) {
        tw_error(im->ctx, im->loc, "the file is empty");
        return NULL;
    }
    im->model = (const Onnx__ModelProto *)tw_onnx_unpack(
        im->ctx, im->loc, im->arena, &onnx__model_proto__descriptor, im->data, im->size);
    return im->model ? build_module(im) : NULL;
}

tw_op *tw_import_onnx_memory(tw_context *ctx, const void *data, size_t size, const char *file,
                             const char *dir, const tw_import_options *options)
{
    static const tw_import_options defaults;
    tw_loc loc = tw_loc_file(ctx, file, 0, 0);
    scratch *s = make_scratch(ctx, loc);
    jmp_buf exhausted;
    if (!s)
        return NULL;
    tw_arena_on_exhausted(s->arena, &exhausted);
    if (setjmp(exhausted)) {
        tw_error(ctx, loc, "importing the model takes more than %zu MB", max_scratch >> 20);
        release_scratch(s);
        return NULL;
    }
    tw_onnx im = {.ctx = ctx,
                  .arena = s->arena,
                  .options = options ? options : &defaults,
                  .file = file,
                  .dir = dir,
                  .loc = loc,
                  .data = data,
                  .size = size,
                  .sparse = tw_map_make(s->arena),
                  .kept = tw_map_make(s->arena),
                  .data_files = tw_map_make(s->arena)};
    tw_op *module = import(&im);
    release_scratch(s);
    return module;
}

/* ---- Files ---- */

static void unmap(void *file)
{
    tw_file_unmap(file);
}

tw_op *tw_import_onnx(tw_context *ctx, const char *path, const tw_import_options *options)
{
    tw_file *file = tw_context_alloc(ctx, sizeof *file);
    tw_context_on_destroy(ctx, unmap, file);
    const char *error = tw_file_map(path, options ? options->max_file_size : 0, file);
    if (error) {
        tw_error(ctx, tw_loc_file(ctx, path, 0, 0), "%s", error);
        return NULL;
    }
    tw_mapped_note(ctx, file->data, file->size);
    const char *slash = strrchr(path, '/');
    const char *dir = slash ? tw_intern(ctx, path, (size_t)(slash - path) + 1) : ".";
    return tw_import_onnx_memory(ctx, file->data, file->size, path, dir, options);
}
