/* session.c: one run at a time: inputs, outputs, arena, and the host table for compiled code. */
#include "runtime/session.h"
#include "runtime/error.h"
#include "runtime/host.h"
#include "runtime/sequence.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- Life ------------------------------------------------------------------------------------ */

/* A sequence, an optional is a scalar to the model's code: a handle. */
static unsigned shown_rank(const tw_tensor_info *info)
{
    return info->kind == TW_VALUE_TENSOR ? info->rank : 0;
}

static bool allocate(tw_session *s)
{
    const tw_model_info *info = &s->model->info;
    size_t in_dims = 0, out_dims = 0;
    for (size_t i = 0; i < info->inputs; i++)
        in_dims += shown_rank(&s->model->inputs[i]);
    for (size_t i = 0; i < info->outputs; i++)
        out_dims += shown_rank(&s->model->outputs[i]);
    s->inputs = calloc(info->inputs + 1, sizeof *s->inputs);
    s->outputs = calloc(info->outputs + 1, sizeof *s->outputs);
    s->input_pointers = calloc(info->inputs + 1, sizeof *s->input_pointers);
    s->output_pointers = calloc(info->outputs + 1, sizeof *s->output_pointers);
    s->input_dims = calloc(in_dims + 1, sizeof *s->input_dims);
    s->output_dims = calloc(out_dims + 1, sizeof *s->output_dims);
    s->symbols = calloc(info->symbols + 1, sizeof *s->symbols);
    s->times = calloc(info->kernels + 1, sizeof *s->times);
    s->work = calloc(2 * info->kernels + 1, sizeof *s->work);
    s->handles = calloc(info->outputs + 1, sizeof *s->handles);
    return s->inputs && s->outputs && s->input_pointers && s->output_pointers && s->input_dims &&
           s->output_dims && s->symbols && s->times && s->work && s->handles;
}

/* Each tensor's dims start as the model's, one tensor after another. */
static void place_dims(tw_session *s)
{
    int64_t *dims = s->input_dims;
    for (size_t i = 0; i < s->model->info.inputs; i++) {
        const tw_tensor_info *info = &s->model->inputs[i];
        s->inputs[i].dims = dims;
        for (unsigned d = 0; d < shown_rank(info); d++)
            *dims++ = info->dims[d];
    }
    dims = s->output_dims;
    for (size_t i = 0; i < s->model->info.outputs; i++) {
        const tw_tensor_info *info = &s->model->outputs[i];
        s->outputs[i].dims = dims;
        for (unsigned d = 0; d < shown_rank(info); d++)
            *dims++ = info->dims[d];
    }
}

static tw_status choose_threads(tw_session *s, const tw_session_options *options)
{
    s->threads = options->threads;
    if (options->parallel_for) {
        s->parallel_for = options->parallel_for;
        s->parallel_data = options->parallel_data;
        s->threads = s->threads ? s->threads : 1;
        return TW_STATUS_OK;
    }
    if (options->pool) {
        unsigned all = tw_pool_threads(options->pool);
        s->pool = options->pool;
        s->threads = s->threads && s->threads < all ? s->threads : all;
        return TW_STATUS_OK;
    }
    if (!s->threads)
        s->threads = tw_default_threads();
    if (s->threads == 1)
        return TW_STATUS_OK;
    s->shared = true;
    tw_status status = tw_model_pool(s->model, s->threads, &s->pool);
    if (status == TW_STATUS_OK && tw_pool_threads(s->pool) < s->threads)
        s->threads = tw_pool_threads(s->pool);
    return status;
}

tw_status tw_session_create(tw_model *model, const tw_session_options *options, tw_session **out)
{
    static const tw_session_options defaults = {0};
    *out = NULL;
    tw_status status = tw_model_prepare(model);
    if (status != TW_STATUS_OK)
        return status;
    tw_session *s = calloc(1, sizeof *s);
    if (!s)
        return tw_fail_memory();
    tw_model_retain(model);
    s->model = model;
    status = allocate(s) ? choose_threads(s, options ? options : &defaults) : tw_fail_memory();
    if (status != TW_STATUS_OK) {
        tw_session_destroy(s);
        return status;
    }
    place_dims(s);
    s->unaligned = options && options->unaligned;
    tw_host_init(s, options && options->profile);
    *out = s;
    return TW_STATUS_OK;
}

void tw_session_destroy(tw_session *s)
{
    if (!s)
        return;
    for (size_t i = 0; s->outputs && i < s->model->info.outputs; i++)
        free(s->outputs[i].own);
    for (size_t i = 0; s->inputs && i < s->model->info.inputs; i++)
        free(s->inputs[i].elements);
    if (s->shared)
        tw_pool_shared_release(s->pool);
    tw_host_release_kept(s);
    tw_sequences_free(&s->host);
    free(s->arena);
    free(s->inputs);
    free(s->outputs);
    free(s->input_pointers);
    free(s->output_pointers);
    free(s->input_dims);
    free(s->output_dims);
    free(s->symbols);
    free(s->times);
    free(s->work);
    free(s->handles);
    tw_model_free(s->model);
    free(s);
}

/* ---- Inputs and outputs ---------------------------------------------------------------------- */

static tw_status bad_index(const char *what, size_t i, size_t n)
{
    return tw_fail(TW_STATUS_INVALID, "there is no %s %zu: the model has %zu", what, i, n);
}

/* Whether input or output i is a tensor, as the function that was called needs. */
static tw_status check_kind(const char *what, const tw_tensor_info *info)
{
    if (info->kind == TW_VALUE_TENSOR)
        return TW_STATUS_OK;
    return tw_fail(TW_STATUS_INVALID, "%s '%s' is %s: see tw_session_%s", what, info->name,
                   info->kind == TW_VALUE_OPTIONAL ? "an optional" : "a sequence",
                   *what == 'i' ? "set_input_sequence" : "output_element");
}

static tw_status check_pointer(const tw_session *s, const char *what, const tw_tensor_info *info,
                               const void *data)
{
    size_t align = tw_runtime_elem_bits(info->elem) / 8;
    if (!s->unaligned && align > 1 && (uintptr_t)data % align)
        return tw_fail(TW_STATUS_INVALID, "%s '%s': its data is not aligned to %zu bytes", what,
                       info->name, align);
    return TW_STATUS_OK;
}

static tw_status accept_input(tw_session *s, size_t i, const void *data)
{
    /* Compiled code may take the address of what it does not read. */
    static const uint64_t nothing[TW_ABI_ALIGN / sizeof(uint64_t)];
    tw_status status = check_pointer(s, "input", &s->model->inputs[i], data);
    if (status == TW_STATUS_OK)
        s->inputs[i].data = data ? data : nothing;
    return status;
}

tw_status tw_session_set_input(tw_session *s, size_t i, const void *data, size_t size)
{
    if (i >= s->model->info.inputs)
        return bad_index("input", i, s->model->info.inputs);
    const tw_tensor_info *info = &s->model->inputs[i];
    if (check_kind("input", info) != TW_STATUS_OK)
        return TW_STATUS_INVALID;
    if (!info->is_static)
        return tw_fail(TW_STATUS_INVALID,
                       "input '%s' has no fixed shape: use tw_session_set_input_shape", info->name);
    if (size != info->size || (!data && size))
        return tw_fail(TW_STATUS_INVALID, "input '%s' has %zu bytes, not %zu", info->name,
                       info->size, data ? size : (size_t)0);
    return accept_input(s, i, data);
}

tw_status tw_session_set_input_shape(tw_session *s, size_t i, const void *data, const int64_t *dims,
                                     unsigned rank)
{
    if (i >= s->model->info.inputs)
        return bad_index("input", i, s->model->info.inputs);
    const tw_tensor_info *info = &s->model->inputs[i];
    if (info->kind == TW_VALUE_OPTIONAL)
        return tw_session_set_input_sequence(s, i, &(tw_element){data, dims, rank}, 1);
    if (check_kind("input", info) != TW_STATUS_OK)
        return TW_STATUS_INVALID;
    if (rank != info->rank)
        return tw_fail(TW_STATUS_INVALID, "input '%s' has rank %u, not %u", info->name, info->rank,
                       rank);
    for (unsigned d = 0; d < rank; d++)
        if (dims[d] < 0 || (info->dims[d] >= 0 && dims[d] != info->dims[d]))
            return tw_fail(TW_STATUS_INVALID, "input '%s': dimension %u is %lld, not %lld",
                           info->name, d, (long long)info->dims[d], (long long)dims[d]);
    size_t bytes;
    if (!tw_tensor_bytes(info->elem, dims, rank, &bytes))
        return tw_fail(TW_STATUS_INVALID, "input '%s' is too large", info->name);
    if (!data && bytes)
        return tw_fail(TW_STATUS_INVALID, "input '%s' has no data", info->name);
    if (rank)
        memcpy(s->inputs[i].dims, dims, rank * sizeof *dims);
    return accept_input(s, i, data);
}

tw_status tw_session_set_output(tw_session *s, size_t i, void *data, size_t size)
{
    if (i >= s->model->info.outputs)
        return bad_index("output", i, s->model->info.outputs);
    tw_status status = check_kind("output", &s->model->outputs[i]);
    if (status == TW_STATUS_OK)
        status = check_pointer(s, "output", &s->model->outputs[i], data);
    if (status == TW_STATUS_OK) {
        s->outputs[i].user = data;
        s->outputs[i].user_size = data ? size : 0;
    }
    return status;
}

const void *tw_session_output(const tw_session *s, size_t i, size_t *size)
{
    bool there =
        s->ran && i < s->model->info.outputs && s->model->outputs[i].kind == TW_VALUE_TENSOR;
    if (size)
        *size = there ? s->outputs[i].size : 0;
    return there ? s->outputs[i].data : NULL;
}

const int64_t *tw_session_output_dims(const tw_session *s, size_t i)
{
    bool there =
        s->ran && i < s->model->info.outputs && s->model->outputs[i].kind == TW_VALUE_TENSOR;
    return there ? s->outputs[i].dims : NULL;
}

/* ---- Profile --------------------------------------------------------------------------------- */

tw_kernel_time tw_session_kernel_time(const tw_session *s, size_t i)
{
    if (i >= s->model->info.kernels)
        return (tw_kernel_time){0};
    const tw_kernel_info *info = &s->model->kernels[i];
    bool open = s->model->variant->plan != NULL;
    return (tw_kernel_time){.calls = s->times[i].calls,
                            .seconds = (double)s->times[i].ns * 1e-9,
                            .flops = open ? (uint64_t)s->work[2 * i] : info->flops,
                            .bytes = open ? (uint64_t)s->work[2 * i + 1] : info->bytes};
}

void tw_session_reset_profile(tw_session *s)
{
    memset(s->times, 0, s->model->info.kernels * sizeof *s->times);
}

void tw_session_sizes(const tw_session *s, char *out, size_t size)
{
    const tw_abi_model *abi = s->model->abi;
    size_t at = 0;
    *out = 0;
    for (uint32_t k = 0; k < abi->n_symbols && at < size; k++)
        at += (size_t)snprintf(out + at, size - at, "%s%s = %lld", k ? ", " : " (", abi->symbols[k],
                               (long long)s->symbols[k]);
    if (abi->n_symbols && at + 1 < size)
        memcpy(out + at, ")", 2);
}

/* ---- Running --------------------------------------------------------------------------------- */

/* The first axis, of all inputs, that has symbol k as its size. */
static const tw_abi_tensor *first_with(const tw_abi_model *abi, int32_t k, uint32_t *axis)
{
    for (uint32_t i = 0; i < abi->n_inputs; i++)
        for (uint32_t d = 0; abi->inputs[i].dim_symbols && d < abi->inputs[i].rank; d++)
            if (abi->inputs[i].dim_symbols[d] == k) {
                *axis = d;
                return &abi->inputs[i];
            }
    return NULL;
}

static tw_status contradiction(const tw_session *s, const tw_abi_tensor *t, uint32_t d,
                               int64_t size)
{
    uint32_t other_axis = 0;
    int32_t k = t->dim_symbols[d];
    const tw_abi_tensor *other = first_with(s->model->abi, k, &other_axis);
    return tw_fail(TW_STATUS_INVALID,
                   "input '%s': dimension %u, which is '%s', is %lld, but dimension %u of input "
                   "'%s' says %lld",
                   t->name, d, s->model->abi->symbols[k], (long long)size, other_axis,
                   other ? other->name : "", (long long)s->symbols[k]);
}

/* The values of the symbols from the shapes of the inputs, which must agree. */
static tw_status bind_symbols(tw_session *s)
{
    const tw_abi_model *abi = s->model->abi;
    for (uint32_t k = 0; k < abi->n_symbols; k++)
        s->symbols[k] = -1;
    for (uint32_t i = 0; i < abi->n_inputs; i++) {
        const tw_abi_tensor *t = &abi->inputs[i];
        for (uint32_t d = 0; t->dim_symbols && d < t->rank; d++) {
            int32_t k = t->dim_symbols[d];
            if (k < 0)
                continue;
            int64_t size = s->inputs[i].dims[d];
            if (s->symbols[k] >= 0 && s->symbols[k] != size)
                return contradiction(s, t, d, size);
            s->symbols[k] = size;
        }
    }
    for (uint32_t k = 0; k < abi->n_symbols; k++)
        if (s->symbols[k] < 0)
            return tw_fail(TW_STATUS_INVALID, "no input says what size '%s' is", abi->symbols[k]);
    return TW_STATUS_OK;
}

/* Sizes of this run: arena and dims of outputs. */
static tw_status plan(tw_session *s, size_t *arena)
{
    const tw_abi_variant *v = s->model->variant;
    *arena = v->arena_size;
    if (!v->plan)
        return TW_STATUS_OK;
    tw_status status = bind_symbols(s);
    if (status != TW_STATUS_OK)
        return status;
    int64_t bytes = v->plan(s->symbols, s->output_dims, s->work);
    if (bytes < 0) {
        char sizes[256];
        tw_session_sizes(s, sizes, sizeof sizes);
        return tw_fail(TW_STATUS_INVALID,
                       "model '%s' cannot run with inputs of these shapes: sizes come out negative "
                       "or too large%s",
                       s->model->abi->name, sizes);
    }
    *arena = (size_t)bytes;
    return TW_STATUS_OK;
}

static tw_status provide_arena(tw_session *s, size_t size)
{
    enum { HUGE_PAGE = 2 << 20 };
    if (size <= s->arena_size)
        return TW_STATUS_OK;
    bool large = size >= HUGE_PAGE;
    size_t align = large ? HUGE_PAGE : TW_ABI_ALIGN;
    if (size > SIZE_MAX / 2)
        return tw_fail_memory();
    size = (size + align - 1) / align * align;
    free(s->arena);
    s->arena_size = 0;
    s->arena = aligned_alloc(align, size);
    if (!s->arena)
        return tw_fail(TW_STATUS_MEMORY, "out of memory: no %zu bytes for the arena", size);
    if (large)
        madvise(s->arena, size, MADV_HUGEPAGE);
    s->arena_size = size;
    return TW_STATUS_OK;
}

tw_status tw_session_provide_output(tw_session *s, size_t i)
{
    tw_bound_output *o = &s->outputs[i];
    const tw_tensor_info *info = &s->model->outputs[i];
    if (info->kind != TW_VALUE_TENSOR)
        o->size = sizeof(uint64_t);
    else if (!tw_tensor_bytes(info->elem, o->dims, info->rank, &o->size))
        return tw_fail(TW_STATUS_INVALID, "output '%s' is too large", info->name);
    if (o->user && o->user_size < o->size)
        return tw_fail(TW_STATUS_INVALID, "output '%s' needs %zu bytes; there is room for %zu",
                       info->name, o->size, o->user_size);
    if (!o->user && o->own_size < o->size + !o->own) {
        size_t size = (o->size / TW_ABI_ALIGN + 1) * TW_ABI_ALIGN;
        free(o->own);
        o->own = aligned_alloc(TW_ABI_ALIGN, size);
        o->own_size = o->own ? size : 0;
        if (!o->own)
            return tw_fail_memory();
    }
    o->data = o->user ? o->user : o->own;
    return TW_STATUS_OK;
}

static tw_status provide_outputs(tw_session *s)
{
    const tw_abi_model *abi = s->model->abi;
    for (uint32_t i = 0; i < abi->n_outputs; i++) {
        s->outputs[i].data = NULL;
        s->outputs[i].size = 0;
        bool dynamic = abi->outputs[i].flags & TW_ABI_DYNAMIC;
        tw_status status = dynamic ? TW_STATUS_OK : tw_session_provide_output(s, i);
        if (status != TW_STATUS_OK)
            return status;
        s->output_pointers[i] = s->outputs[i].data;
    }
    return TW_STATUS_OK;
}

/* An optional that has not been set holds nothing. */
static tw_status gather_inputs(tw_session *s)
{
    tw_status status = TW_STATUS_OK;
    for (size_t i = 0; status == TW_STATUS_OK && i < s->model->info.inputs; i++) {
        const tw_tensor_info *info = &s->model->inputs[i];
        if (!s->inputs[i].data)
            status = info->kind & TW_VALUE_OPTIONAL
                         ? tw_session_set_input_absent(s, i)
                         : tw_fail(TW_STATUS_INVALID, "input '%s' has not been set", info->name);
        s->input_pointers[i] = (void *)s->inputs[i].data;
    }
    return status;
}

tw_status tw_session_run(tw_session *s)
{
    size_t arena;
    s->ran = false;
    tw_status status = gather_inputs(s);
    if (status == TW_STATUS_OK)
        status = plan(s, &arena);
    if (status == TW_STATUS_OK)
        status = provide_arena(s, arena);
    if (status == TW_STATUS_OK)
        status = provide_outputs(s);
    if (status != TW_STATUS_OK)
        return status;
    tw_host_start(s);
    int32_t code = tw_session_begin_sequences(s)
                       ? s->model->variant->entry(&s->host, s->input_pointers, s->output_pointers,
                                                  s->model->constants, s->arena, s->symbols)
                       : 1;
    if (!code && !tw_session_end_sequences(s))
        code = 1;
    status = tw_host_finish(s, code);
    s->ran = status == TW_STATUS_OK;
    if (!s->ran)
        tw_sequences_free(&s->host);
    return status;
}
