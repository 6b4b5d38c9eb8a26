/* artifact.c: writes compiled models.
 *
 *   objects ─▶ undefined names ─▶ descriptor object ─▶ lld ─▶ code ─▶ file: code, constants
 *                                                                     (streamed), index, trailer */
#include "link/artifact.h"
#include "artifact/trailer.h"
#include "base/io.h"
#include "link/descriptor.h"
#include "link/elf.h"
#include "link/link_impl.h"
#include "link/sink.h"
#include "tilewright/ir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Constants from here on go to a file on disk instead of memory. */
static const uint64_t large_constants = 64 << 20;

/* ---- Code ------------------------------------------------------------------------------------ */

/* Hash of what the code is linked from. */
static uint64_t model_id(const tw_artifact *a)
{
    uint64_t id = tw_hash_bytes(a->model.name, strlen(a->model.name), a->model.constants_size);
    for (size_t i = 0; i < a->n_objects; i++)
        id = tw_hash_bytes(a->objects[i].data, a->objects[i].size, id);
    return id;
}

/* Functions that the objects call and do not define. */
static bool find_imports(tw_context *ctx, const tw_artifact *a, tw_descriptor_spec *spec)
{
    tw_arena *arena = tw_context_arena(ctx);
    tw_map defined = tw_map_make(arena), undefined = tw_map_make(arena);
    for (size_t i = 0; i < a->n_objects; i++)
        if (!tw_elf_symbols(ctx, &a->objects[i], &defined, &undefined))
            return false;
    for (size_t i = 0; i < undefined.len; i++)
        if (tw_map_get(&defined, undefined.entries[i].key, undefined.entries[i].key_len))
            undefined.entries[i].value = NULL;
    spec->imports = tw_import_names(ctx, &undefined, &spec->n_imports);
    return true;
}

/* Links the objects and their descriptor. */
static bool link_code(tw_context *ctx, const tw_artifact *a, tw_descriptor_spec *spec, int *fd)
{
    tw_bytes *all = TW_NEW_ARRAY(tw_context_arena(ctx), tw_bytes, a->n_objects + 1);
    for (size_t i = 0; i < a->n_objects; i++)
        all[i] = a->objects[i];
    return tw_descriptor_emit(ctx, spec, &all[a->n_objects]) &&
           tw_link(ctx, spec->prefix ? TW_LINK_RELOCATABLE : TW_LINK_SHARED, all, a->n_objects + 1,
                   fd);
}

/* The whole of a file in the context's memory. */
static bool read_file(tw_context *ctx, int fd, tw_bytes *out)
{
    uint64_t size;
    if (!tw_file_size(fd, &size))
        return tw_error(ctx, NULL, "reading the linked code: %s", strerror(errno));
    void *bytes = tw_arena_alloc(tw_context_arena(ctx), size);
    if (!tw_pread_all(fd, bytes, size, 0))
        return tw_error(ctx, NULL, "reading the linked code: %s", strerror(errno));
    *out = (tw_bytes){bytes, size};
    return true;
}

/* A file of linked code that is read and closed. */
typedef struct linked_file {
    tw_context *ctx;
    tw_bytes *bytes;
    int fd;
} linked_file;

static bool read_linked(void *data)
{
    linked_file *file = data;
    return read_file(file->ctx, file->fd, file->bytes);
}

static void close_linked(void *data)
{
    close(((linked_file *)data)->fd);
}

static bool linked_bytes(tw_context *ctx, const tw_artifact *a, tw_descriptor_spec *spec,
                         tw_bytes *code)
{
    linked_file file = {.ctx = ctx, .bytes = code};
    return link_code(ctx, a, spec, &file.fd) &&
           tw_context_finally(ctx, read_linked, close_linked, &file);
}

bool tw_artifact_link_object(tw_context *ctx, const tw_artifact *a, const char *prefix,
                             tw_bytes *object)
{
    tw_descriptor_spec spec = {.artifact = a, .id = model_id(a), .prefix = prefix};
    return linked_bytes(ctx, a, &spec, object);
}

/* ---- The compiled model ---------------------------------------------------------------------- */

bool tw_artifact_stream_constants(const tw_artifact *a, tw_sink *sink)
{
    uint64_t size = a->model.constants_size;
    if (size && !a->constants(a->constants_data, sink))
        return false;
    return sink->offset == size ||
           tw_error(sink->ctx, NULL, "the constants have %llu bytes instead of %llu",
                    (unsigned long long)sink->offset, (unsigned long long)size);
}

/* Code, constants, index, trailer. */
static bool write_parts(tw_context *ctx, const tw_artifact *a, const tw_bytes *code, uint64_t id,
                        int fd)
{
    tw_trailer trailer;
    if (!tw_trailer_layout(&trailer, code->size, a->model.constants_size))
        return tw_error(ctx, NULL, "the model's constants are too large for a file");
    trailer.model_id = id;
    tw_sink sink = {.ctx = ctx, .fd = fd};

    tw_sink_begin(&sink, 0);
    if (!tw_sink_write(&sink, code->data, code->size) ||
        !tw_sink_pad(&sink, trailer.constants_offset))
        return false;
    tw_sink_end(&sink);
    trailer.code_hash = sink.hashes.data[0];

    tw_sink_begin(&sink, TW_CHUNK);
    if (!tw_artifact_stream_constants(a, &sink))
        return false;
    tw_sink_end(&sink);
    const uint64_t *index = sink.hashes.data;
    uint64_t padding = trailer.index_offset - trailer.constants_offset - trailer.constants_size;

    tw_sink_begin(&sink, 0);
    if (!tw_sink_pad(&sink, padding) ||
        !tw_sink_write(&sink, index, trailer.n_chunks * sizeof *index))
        return false;
    tw_sink_end(&sink);
    trailer.index_hash = sink.hashes.data[0];

    tw_trailer_seal(&trailer);
    return tw_sink_write(&sink, &trailer, sizeof trailer);
}

bool tw_artifact_write_fd(tw_context *ctx, const tw_artifact *a, int fd)
{
    tw_descriptor_spec spec = {.artifact = a, .id = model_id(a)};
    tw_bytes code = {0};
    return find_imports(ctx, a, &spec) && linked_bytes(ctx, a, &spec, &code) &&
           write_parts(ctx, a, &code, spec.id, fd);
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* A file being written, under another name when it is to be replaced. */
typedef struct replacement {
    tw_context *ctx;
    const char *path, *temporary;
    bool replace, done;
    int fd;
    bool (*write)(tw_context *ctx, void *data, int fd);
    void *data;
} replacement;

static bool write_replacement(void *data)
{
    replacement *r = data;
    if (!r->write(r->ctx, r->data, r->fd))
        return false;
    int fd = r->fd;
    r->fd = -1;
    if (close(fd))
        return tw_error(r->ctx, NULL, "writing '%s': %s", r->path, strerror(errno));
    r->done = !r->replace || !rename(r->temporary, r->path);
    return r->done || tw_error(r->ctx, NULL, "cannot create '%s': %s", r->path, strerror(errno));
}

static void end_replacement(void *data)
{
    replacement *r = data;
    if (r->fd >= 0)
        close(r->fd);
    if (r->replace && !r->done)
        unlink(r->temporary);
}

/* For writing where the file is. Standard output is the one that there is, at its place in a file
 * that others write to as well; opened anew it would have a place of its own. */
static int open_in_place(const char *path)
{
    return strcmp(path, "/dev/stdout") ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC)
                                       : fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
}

bool tw_artifact_replace_file(tw_context *ctx, const char *path, mode_t mode,
                              bool (*write)(tw_context *ctx, void *data, int fd), void *data)
{
    struct stat st;
    static atomic_uint serial;
    char real[PATH_MAX];
    /* What is no regular file (/dev/null, a pipe) is written to, not replaced; nor is /dev/stdout,
     * which may lead to a regular file. Another link stays, what it leads to is replaced. */
    bool device = !strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6);
    bool replace = !device && (stat(path, &st) || S_ISREG(st.st_mode));
    if (replace && realpath(path, real))
        path = real;
    replacement r = {.ctx = ctx, .path = path, .replace = replace, .write = write, .data = data};
    r.temporary =
        tw_arena_printf(tw_context_arena(ctx), "%s.tmp%ld-%u", path, (long)getpid(), serial++);
    r.fd = replace ? open(r.temporary, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, mode)
                   : open_in_place(path);
    if (r.fd < 0)
        return tw_error(ctx, NULL, "cannot create '%s': %s", path, strerror(errno));
    return tw_context_finally(ctx, write_replacement, end_replacement, &r);
}

static bool write_model(tw_context *ctx, void *data, int fd)
{
    return tw_artifact_write_fd(ctx, data, fd);
}

bool tw_artifact_write(tw_context *ctx, const tw_artifact *a, const char *path)
{
    return tw_artifact_replace_file(ctx, path, 0777, write_model, (void *)a);
}

int tw_artifact_temporary(tw_context *ctx, uint64_t constants_size)
{
    const char *dir = getenv("TMPDIR");
    int fd = -1;
    if (constants_size >= large_constants)
        fd = open(dir && *dir ? dir : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        fd = memfd_create("tilewright-model", MFD_CLOEXEC);
    if (fd < 0)
        tw_error(ctx, NULL, "cannot create a temporary file: %s", strerror(errno));
    return fd;
}
