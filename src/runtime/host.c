/* host.c: what tw_abi_host offers, on top of a session. */
#include "runtime/host.h"
#include "runtime/error.h"
#include "runtime/sequence.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Parallel loops -------------------------------------------------------------------------- */

static void alone(const tw_abi_host *host, int64_t count, tw_abi_body body, void *ctx)
{
    (void)host;
    if (count > 0)
        body(ctx, 0, count);
}

static void on_pool(const tw_abi_host *host, int64_t count, tw_abi_body body, void *ctx)
{
    const tw_session *s = host->data;
    tw_pool_parallel_for(s->pool, s->threads, count, body, ctx);
}

static void on_embedder(const tw_abi_host *host, int64_t count, tw_abi_body body, void *ctx)
{
    const tw_session *s = host->data;
    if (count > 0)
        s->parallel_for(s->parallel_data, count, body, ctx);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void *allocate(const tw_abi_host *host, size_t size)
{
    (void)host;
    if (size > SIZE_MAX - TW_ABI_ALIGN)
        return NULL;
    return aligned_alloc(TW_ABI_ALIGN, (size / TW_ABI_ALIGN + 1) * TW_ABI_ALIGN);
}

static void release(const tw_abi_host *host, void *memory)
{
    (void)host;
    free(memory);
}

/* A block that the session frees; the pointer to the next one is in front of the memory. */
static void *keep(const tw_abi_host *host, size_t size)
{
    tw_session *s = host->data;
    if (size > SIZE_MAX - 2 * TW_ABI_ALIGN)
        return NULL;
    void **block = allocate(host, size + TW_ABI_ALIGN);
    if (!block)
        return NULL;
    *block = s->kept;
    s->kept = block;
    return (uint8_t *)block + TW_ABI_ALIGN;
}

void tw_host_release_kept(tw_session *s)
{
    while (s->kept) {
        void **block = s->kept;
        s->kept = *block;
        free(block);
    }
}

static void *dynamic_output(const tw_abi_host *host, uint32_t i, const int64_t *dims)
{
    tw_session *s = host->data;
    unsigned rank = s->model->outputs[i].rank;
    if (rank)
        memcpy(s->outputs[i].dims, dims, rank * sizeof *dims);
    if (tw_session_provide_output(s, i) != TW_STATUS_OK) {
        host->error(host, 1, tw_last_error());
        return NULL;
    }
    return s->outputs[i].data;
}

/* ---- Profile --------------------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void kernel_begin(const tw_abi_host *host, uint32_t kernel)
{
    tw_session *s = host->data;
    s->times[kernel].begun = now_ns();
}

static void kernel_end(const tw_abi_host *host, uint32_t kernel)
{
    tw_session *s = host->data;
    tw_kernel_clock *clock = &s->times[kernel];
    clock->ns += now_ns() - clock->begun;
    clock->calls++;
}

/* ---- Errors ---------------------------------------------------------------------------------- */

/* Bodies on several threads may fail at once: who sets the code writes the text. */
static void locate(tw_session *s, const char *where)
{
    char text[sizeof s->error_text];
    memcpy(text, s->error_text, sizeof text);
    snprintf(s->error_text, sizeof s->error_text, "%s%.*s", where, (int)sizeof text - 1, text);
}

static int32_t report(const tw_abi_host *host, int32_t code, const char *message)
{
    tw_session *s = host->data;
    int none = 0;
    if (code == 0 && atomic_load(&s->error_code)) {
        locate(s, message);
        return 0;
    }
    if (code == 0)
        code = 1;
    if (atomic_compare_exchange_strong(&s->error_code, &none, code))
        snprintf(s->error_text, sizeof s->error_text, "%s", message ? message : "unknown error");
    return code;
}

void tw_host_start(tw_session *s)
{
    tw_host_release_kept(s);
    tw_sequences_free(&s->host);
    atomic_store(&s->error_code, 0);
}

tw_status tw_host_finish(tw_session *s, int32_t code)
{
    const char *name = s->model->abi->name;
    if (atomic_load(&s->error_code)) {
        char sizes[256];
        tw_session_sizes(s, sizes, sizeof sizes);
        return tw_fail(TW_STATUS_RUN, "model '%s': %s%s", name, s->error_text, sizes);
    }
    if (code)
        return tw_fail(TW_STATUS_RUN, "model '%s' failed with code %d", name, code);
    return TW_STATUS_OK;
}

void tw_host_init(tw_session *s, bool profile)
{
    s->host = (tw_abi_host){
        .version = TW_ABI_VERSION,
        .threads = s->threads,
        .data = s,
        .parallel_for = s->parallel_for ? on_embedder
                        : s->pool       ? on_pool
                                        : alone,
        .alloc = allocate,
        .free = release,
        .output = dynamic_output,
        .kernel_begin = profile ? kernel_begin : NULL,
        .kernel_end = profile ? kernel_end : NULL,
        .error = report,
        .keep = keep,
        .run = &s->sequences,
    };
}
