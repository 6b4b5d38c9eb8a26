/* link.c: feeds lld.
 *
 * lld reads and writes files by name. The objects go into one archive in a memory file, which has
 * the name /proc/self/fd/N; the result goes to a directory of its own under TMPDIR, since lld
 * replaces its output by renaming, and is unlinked once it is open. */
#include "link/link.h"
#include "base/io.h"
#include "link/lld_shim.h"
#include "tilewright/ir.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char export_script[] = "{ global: tw_model; local: *; };\n";

/* ---- Input ----------------------------------------------------------------------------------- */

/* One member of a Unix archive: a header of text fields, the object, and a byte to make it even. */
static bool write_member(int fd, const tw_bytes *object, size_t number)
{
    char header[80], name[24];
    snprintf(name, sizeof name, "%zu.o/", number);
    snprintf(header, sizeof header, "%-16s%-12s%-6s%-6s%-8s%-10zu`\n", name, "0", "0", "0", "644",
             object->size);
    return tw_write_all(fd, header, 60) && tw_write_all(fd, object->data, object->size) &&
           (object->size % 2 == 0 || tw_write_all(fd, "\n", 1));
}

static bool write_archive(int fd, const tw_bytes *objects, size_t n)
{
    bool ok = tw_write_all(fd, "!<arch>\n", 8);
    for (size_t i = 0; ok && i < n; i++)
        ok = write_member(fd, &objects[i], i);
    return ok;
}

/* ---- Output ---------------------------------------------------------------------------------- */

/* A new directory for one file; `dir` has room for size bytes. */
static bool make_directory(char *dir, size_t size)
{
    const char *const places[] = {getenv("TMPDIR"), "/tmp", "/dev/shm"};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (!places[i] || !*places[i])
            continue;
        int n = snprintf(dir, size, "%s/tilewright-XXXXXX", places[i]);
        if (n > 0 && (size_t)n < size && mkdtemp(dir))
            return true;
    }
    return false;
}

/* ---- lld ------------------------------------------------------------------------------------- */

static bool run_lld(tw_context *ctx, const char *const *args, size_t n_args)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool unusable;
    char message[4096] = "";
    bool was_unusable;
    tw_lld_result result = TW_LLD_UNUSABLE;
    pthread_mutex_lock(&lock);
    was_unusable = unusable;
    if (!unusable)
        result = tw_lld_main(args, n_args, message, sizeof message);
    unusable = result == TW_LLD_UNUSABLE;
    pthread_mutex_unlock(&lock);
    if (was_unusable)
        return tw_error(ctx, NULL,
                        "the linker failed earlier and cannot run again in this process");
    message[strcspn(message, "\n")] = ' ';
    return result == TW_LLD_OK || tw_error(ctx, NULL, "linking failed: %s", message);
}

static bool link_files(tw_context *ctx, tw_link_form form, int archive, int script, const char *out)
{
    char archive_path[32], script_option[64];
    snprintf(archive_path, sizeof archive_path, "/proc/self/fd/%d", archive);
    snprintf(script_option, sizeof script_option, "--version-script=/proc/self/fd/%d", script);
    const char *const shared[] = {
        "ld.lld",
        "-shared",
        "-z",
        "defs",
        "-z",
        "noseparate-code",
        "--gc-sections",
        "--threads=1",
        "--build-id=none",
        "--hash-style=gnu",
        script_option,
        "-o",
        out,
        "--whole-archive",
        archive_path,
    };
    const char *const relocatable[] = {
        "ld.lld", "-r", "--threads=1", "-o", out, "--whole-archive", archive_path,
    };
    if (form == TW_LINK_SHARED)
        return run_lld(ctx, shared, sizeof shared / sizeof shared[0]);
    return run_lld(ctx, relocatable, sizeof relocatable / sizeof relocatable[0]);
}

/* A memory file; -1 with a diagnostic when there can be none. */
static int memory_file(tw_context *ctx, const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0)
        tw_error(ctx, NULL, "cannot create a memory file: %s", strerror(errno));
    return fd;
}

/* ---- All of it ---- */

typedef struct linking {
    tw_context *ctx;
    tw_link_form form;
    const tw_bytes *objects;
    size_t n;
    char dir[512], out[520];
    int archive, script;
    int fd; /* of the result */
} linking;

static bool link_all(void *data)
{
    linking *l = data;
    l->archive = memory_file(l->ctx, "objects.a");
    l->script = memory_file(l->ctx, "exports");
    if (l->archive < 0 || l->script < 0)
        return false;
    if (!write_archive(l->archive, l->objects, l->n) ||
        !tw_write_all(l->script, export_script, sizeof export_script - 1))
        return tw_error(l->ctx, NULL, "cannot write to a memory file: %s", strerror(errno));
    if (!link_files(l->ctx, l->form, l->archive, l->script, l->out))
        return false;
    l->fd = open(l->out, O_RDONLY | O_CLOEXEC);
    return l->fd >= 0 ||
           tw_error(l->ctx, NULL, "cannot open the linker's output: %s", strerror(errno));
}

static void clear_away(void *data)
{
    linking *l = data;
    unlink(l->out);
    rmdir(l->dir);
    if (l->archive >= 0)
        close(l->archive);
    if (l->script >= 0)
        close(l->script);
}

bool tw_link(tw_context *ctx, tw_link_form form, const tw_bytes *objects, size_t n, int *fd)
{
    linking l = {.ctx = ctx,
                 .form = form,
                 .objects = objects,
                 .n = n,
                 .archive = -1,
                 .script = -1,
                 .fd = -1};
    *fd = -1;
    if (!make_directory(l.dir, sizeof l.dir))
        return tw_error(ctx, NULL,
                        "cannot create a directory for temporary files in TMPDIR or "
                        "/tmp: %s",
                        strerror(errno));
    snprintf(l.out, sizeof l.out, "%s/out", l.dir);
    bool fine = tw_context_finally(ctx, link_all, clear_away, &l);
    *fd = l.fd;
    return fine;
}
