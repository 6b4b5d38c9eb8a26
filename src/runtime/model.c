/* model.c: loading, and what can be asked about a loaded model. */
#include "runtime/model.h"
#include "runtime/error.h"
#include "runtime/imports.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Up to this size checking the constants takes about a millisecond, and is done while loading. */
static const size_t verify_at_load = 16 << 20;

static const struct {
    const char *name;
    unsigned bits;
} elems[] = {
#define ELEM(suffix, name, bits) {name, bits},
    TW_ELEMS(ELEM)
#undef ELEM
};

unsigned tw_runtime_elem_bits(tw_elem elem)
{
    return (unsigned)elem < TW_ELEM_COUNT ? elems[elem].bits : 0;
}

const char *tw_runtime_elem_name(tw_elem elem)
{
    return (unsigned)elem < TW_ELEM_COUNT ? elems[elem].name : NULL;
}

bool tw_tensor_bytes(tw_elem elem, const int64_t *dims, unsigned rank, size_t *bytes)
{
    uint64_t count = 1, bits;
    for (unsigned i = 0; i < rank; i++)
        if (dims[i] < 0 || __builtin_mul_overflow(count, (uint64_t)dims[i], &count))
            return false;
    if (__builtin_mul_overflow(count, (uint64_t)tw_runtime_elem_bits(elem), &bits) ||
        bits > UINT64_MAX - 7)
        return false;
    *bytes = (bits + 7) / 8;
    return *bytes <= PTRDIFF_MAX;
}

/* ---- Facts ----------------------------------------------------------------------------------- */

static bool describe_tensors(const tw_abi_tensor *list, size_t n, tw_tensor_info **out)
{
    tw_tensor_info *infos = *out = calloc(n + 1, sizeof *infos);
    for (size_t i = 0; infos && i < n; i++) {
        const tw_abi_tensor *t = &list[i];
        tw_tensor_info *info = &infos[i];
        info->name = t->name;
        info->elem = (tw_elem)t->elem;
        info->rank = t->rank;
        info->dims = t->dims;
        info->dim_texts = t->dim_texts;
        info->kind = (tw_value_kind)((t->flags & TW_ABI_SEQUENCE ? TW_VALUE_SEQUENCE : 0) |
                                     (t->flags & TW_ABI_OPTIONAL ? TW_VALUE_OPTIONAL : 0));
        info->any_rank = t->flags & TW_ABI_ANY_RANK;
        if (info->kind != TW_VALUE_TENSOR)
            continue;
        info->is_static = tw_tensor_bytes(info->elem, t->dims, t->rank, &info->size);
    }
    return infos;
}

static bool describe_kernels(tw_model *model)
{
    size_t n = model->variant->n_kernels;
    model->kernels = calloc(n + 1, sizeof *model->kernels);
    for (size_t i = 0; model->kernels && i < n; i++) {
        const tw_abi_kernel *k = &model->variant->kernels[i];
        model->kernels[i] = (tw_kernel_info){k->name, k->operators, k->flops, k->bytes};
    }
    return model->kernels;
}

static bool describe_regions(tw_model *model)
{
    const tw_abi_variant *v = model->variant;
    const tw_abi_model *abi = model->abi;
    model->buffers = calloc(v->n_buffers + 1, sizeof *model->buffers);
    model->constant_table = calloc(abi->n_constants + 1, sizeof *model->constant_table);
    if (!model->buffers || !model->constant_table)
        return false;
    for (size_t i = 0; i < v->n_buffers; i++) {
        const tw_abi_buffer *b = &v->buffers[i];
        model->buffers[i] =
            (tw_region_info){b->name, b->type, b->offset, b->size, b->first, b->last};
    }
    for (size_t i = 0; i < abi->n_constants; i++) {
        const tw_abi_constant *c = &abi->constant_table[i];
        model->constant_table[i] = (tw_region_info){c->name, c->type, c->offset, c->size, 0, 0};
    }
    return true;
}

static tw_status describe(tw_model *model)
{
    const tw_abi_model *abi = model->abi;
    const tw_abi_variant *v = model->variant;
    model->info = (tw_model_info){
        .name = abi->name,
        .producer = abi->producer,
        .target = abi->target,
        .cpu = v->cpu,
        .inputs = abi->n_inputs,
        .outputs = abi->n_outputs,
        .kernels = v->n_kernels,
        .symbols = abi->n_symbols,
        .variants = abi->n_variants,
        .constants = abi->n_constants,
        .buffers = v->n_buffers,
        .constants_size = abi->constants_size,
        .arena_size = v->plan ? 0 : v->arena_size,
        .id = model->image.fd >= 0 ? model->image.trailer.trailer_hash : abi->id,
    };
    bool ok = describe_tensors(abi->inputs, abi->n_inputs, &model->inputs) &&
              describe_tensors(abi->outputs, abi->n_outputs, &model->outputs) &&
              describe_kernels(model) && describe_regions(model);
    return ok ? TW_STATUS_OK : tw_fail_memory();
}

const tw_model_info *tw_model_get_info(const tw_model *model)
{
    return &model->info;
}

const tw_tensor_info *tw_model_input(const tw_model *model, size_t i)
{
    return i < model->info.inputs ? &model->inputs[i] : NULL;
}

const tw_tensor_info *tw_model_output(const tw_model *model, size_t i)
{
    return i < model->info.outputs ? &model->outputs[i] : NULL;
}

static long find(const tw_tensor_info *infos, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(infos[i].name, name) == 0)
            return (long)i;
    return -1;
}

long tw_model_find_input(const tw_model *model, const char *name)
{
    return find(model->inputs, model->info.inputs, name);
}

long tw_model_find_output(const tw_model *model, const char *name)
{
    return find(model->outputs, model->info.outputs, name);
}

const tw_kernel_info *tw_model_kernel(const tw_model *model, size_t i)
{
    return i < model->info.kernels ? &model->kernels[i] : NULL;
}

const tw_region_info *tw_model_constant(const tw_model *model, size_t i)
{
    return i < model->info.constants ? &model->constant_table[i] : NULL;
}

const tw_region_info *tw_model_buffer(const tw_model *model, size_t i)
{
    return i < model->info.buffers ? &model->buffers[i] : NULL;
}

const char *tw_model_variant(const tw_model *model, size_t i)
{
    return i < model->info.variants ? model->abi->variants[i].cpu : NULL;
}

/* ---- Life ------------------------------------------------------------------------------------ */

static tw_model *new_model(const char *name)
{
    size_t size = strlen(name) + 1;
    tw_model *model = calloc(1, sizeof *model + size);
    if (!model)
        return NULL;
    memcpy(model->name, name, size);
    atomic_store(&model->users, 1);
    model->image.fd = -1;
    pthread_mutex_init(&model->lock, NULL);
    return model;
}

void tw_model_retain(tw_model *model)
{
    atomic_fetch_add(&model->users, 1);
}

void tw_model_free(tw_model *model)
{
    if (!model || atomic_fetch_sub(&model->users, 1) != 1)
        return;
    tw_pool_shared_release(model->pool);
    tw_image_close(&model->image);
    pthread_mutex_destroy(&model->lock);
    free(model->inputs);
    free(model->outputs);
    free(model->kernels);
    free(model->constant_table);
    free(model->buffers);
    free(model);
}

static tw_status verify_locked(tw_model *model)
{
    if (model->verified || model->image.fd < 0)
        return TW_STATUS_OK;
    tw_status status = tw_image_verify_constants(&model->image, model->name);
    model->verified = status == TW_STATUS_OK;
    return status;
}

tw_status tw_model_verify(tw_model *model)
{
    pthread_mutex_lock(&model->lock);
    tw_status status = verify_locked(model);
    pthread_mutex_unlock(&model->lock);
    return status;
}

tw_status tw_model_prepare(tw_model *model)
{
    pthread_mutex_lock(&model->lock);
    tw_status status = model->trusted ? TW_STATUS_OK : verify_locked(model);
    pthread_mutex_unlock(&model->lock);
    return status;
}

tw_status tw_model_pool(tw_model *model, unsigned threads, tw_pool **pool)
{
    tw_status status = tw_pool_shared_acquire(threads, pool);
    pthread_mutex_lock(&model->lock);
    if (status == TW_STATUS_OK && !model->pool)
        status = tw_pool_shared_acquire(threads, &model->pool);
    pthread_mutex_unlock(&model->lock);
    return status;
}

/* ---- Loading --------------------------------------------------------------------------------- */

/* `fd` becomes the model's. */
static tw_status load_image(tw_model *model, int fd, const tw_load_options *options)
{
    unsigned flags = options ? options->flags : 0;
    const char *cpu = options ? options->cpu : NULL;
    if (!cpu)
        cpu = getenv("TILEWRIGHT_CPU");
    if (cpu && !*cpu)
        cpu = NULL;
    tw_status status = tw_image_open(&model->image, fd, model->name);
    if (status != TW_STATUS_OK)
        return status;
    model->abi = model->image.model;
    model->constants = model->image.bytes + model->image.trailer.constants_offset;
    model->trusted = flags & TW_LOAD_TRUST_CONSTANTS;
    if ((flags & TW_LOAD_VERIFY_ALL) || model->image.size <= verify_at_load)
        status = tw_model_prepare(model);
    if (status == TW_STATUS_OK)
        status = tw_variant_choose(model->abi, cpu, &model->variant);
    if (status == TW_STATUS_OK)
        status = tw_imports_bind(model->abi);
    return status == TW_STATUS_OK ? describe(model) : status;
}

/* Takes `fd` over. */
static tw_status load(int fd, const char *name, const tw_load_options *options, tw_model **out)
{
    tw_model *model = new_model(name);
    if (!model) {
        close(fd);
        return tw_fail_memory();
    }
    tw_status status = load_image(model, fd, options);
    if (status == TW_STATUS_OK)
        *out = model;
    else
        tw_model_free(model);
    return status;
}

tw_status tw_model_load(const char *path, const tw_load_options *options, tw_model **out)
{
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return tw_fail(TW_STATUS_IO, "%s: %s", path, strerror(errno));
    return load(fd, path, options, out);
}

tw_status tw_model_load_fd(int fd, const char *name, const tw_load_options *options, tw_model **out)
{
    *out = NULL;
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (own < 0)
        return tw_fail(TW_STATUS_IO, "%s: %s", name ? name : "model", strerror(errno));
    return load(own, name ? name : "model", options, out);
}

static bool write_all(int fd, const uint8_t *bytes, size_t size)
{
    while (size) {
        ssize_t n = write(fd, bytes, size < (1u << 30) ? size : 1u << 30);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        bytes += n;
        size -= (size_t)n;
    }
    return true;
}

tw_status tw_model_load_memory(const void *bytes, size_t size, const tw_load_options *options,
                               tw_model **out)
{
    *out = NULL;
    int fd = memfd_create("tilewright-model", MFD_CLOEXEC);
    if (fd < 0)
        return tw_fail(TW_STATUS_IO, "cannot create a memory file: %s", strerror(errno));
    if (!write_all(fd, bytes, size)) {
        tw_status status = tw_fail(TW_STATUS_MEMORY, "memory file: %s", strerror(errno));
        close(fd);
        return status;
    }
    return load(fd, "model in memory", options, out);
}

tw_status tw_model_load_linked(const void *descriptor, tw_model **out)
{
    *out = NULL;
    const tw_abi_model *abi = descriptor;
    if (abi->magic != TW_ABI_MAGIC || abi->version != TW_ABI_VERSION || abi->size != sizeof *abi)
        return tw_fail(TW_STATUS_UNSUPPORTED, "the linked model's ABI is not %d", TW_ABI_VERSION);
    tw_model *model = new_model(abi->name);
    if (!model)
        return tw_fail_memory();
    model->abi = abi;
    model->constants = abi->constants;
    tw_status status = tw_variant_choose(abi, NULL, &model->variant);
    if (status == TW_STATUS_OK)
        status = describe(model);
    if (status == TW_STATUS_OK)
        *out = model;
    else
        tw_model_free(model);
    return status;
}
