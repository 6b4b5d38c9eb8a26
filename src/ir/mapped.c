/* mapped.c: memory in files. Ranges are few: models, their data files, batches of results. */
#include "ir/mapped.h"

#include "ir/context_impl.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    LARGE = 1 << 20,
    SMALL = 64 << 10, /* not worth a system call */
    ALIGNMENT = 64,
    /* To read one byte maps up to so many around it, where the system has them in one piece. */
    AROUND = 2 << 20,
};

struct tw_mapping {
    tw_mapping *next;
    char *data;
    size_t size;
};

void tw_mapped_note(tw_context *ctx, const void *data, size_t size)
{
    tw_mapping *m = TW_NEW(ctx->arena, tw_mapping);
    *m = (tw_mapping){ctx->mappings, (char *)(uintptr_t)data, size};
    ctx->mappings = m;
}

static void unmap(void *data)
{
    tw_mapping *m = data;
    munmap(m->data, m->size);
}

/* A nameless file of that size, whose blocks are there, or -1. */
static int temporary_file(size_t size)
{
    const char *dir = getenv("TMPDIR");
    int fd = open(dir && *dir ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 && posix_fallocate(fd, 0, (off_t)size) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void *map_temporary(tw_context *ctx, size_t size)
{
    tw_mapping *m = TW_NEW(ctx->arena, tw_mapping); /* before what would be lost */
    tw_cleanup *cleanup = TW_NEW(ctx->arena, tw_cleanup);
    int fd = temporary_file(size);
    void *data = fd < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    if (data == MAP_FAILED)
        return NULL;
    *m = (tw_mapping){ctx->mappings, data, size};
    *cleanup = (tw_cleanup){ctx->cleanups, unmap, m};
    ctx->mappings = m;
    ctx->cleanups = cleanup;
    return data;
}

void *tw_mapped_alloc(tw_context *ctx, size_t size)
{
    void *data = size >= LARGE ? map_temporary(ctx, size) : NULL;
    if (data)
        return data;
    if (size > SIZE_MAX - ALIGNMENT)
        tw_arena_exhausted(ctx->arena);
    uintptr_t at = (uintptr_t)tw_context_alloc(ctx, size + ALIGNMENT);
    return (void *)((at + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

/* Pages beside the bytes go as well: should they be needed, they are read from the file again. */
void tw_mapped_give_back(tw_context *ctx, const void *data, size_t size)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = (uintptr_t)data;
    if (size < SMALL)
        return;
    for (const tw_mapping *m = ctx->mappings; m; m = m->next) {
        uintptr_t start = (uintptr_t)m->data, end = start + m->size;
        if (begin < start || begin >= end || size > end - begin)
            continue;
        uintptr_t first = begin - start > AROUND ? (begin - AROUND) / page * page : start;
        uintptr_t last = end - begin - size > AROUND ? (begin + size + AROUND) / page * page : end;
        madvise((void *)first, last - first, MADV_DONTNEED);
        return;
    }
}
