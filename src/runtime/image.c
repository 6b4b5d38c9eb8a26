/* image.c: nothing of a file is used before it has been checked against the hashes in its trailer.
 *
 * The dynamic linker takes names, not descriptors, and believes that equal names are equal files.
 * So each image is loaded by a name of its own, /proc/PID/fd/N with a serial number coded in
 * redundant "./" and "/". */
#include "runtime/image.h"
#include "artifact/abi.h"
#include "runtime/error.h"

#include <assert.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
#elif defined(__aarch64__)
enum { MACHINE = EM_AARCH64 };
#endif

static tw_status corrupt(const char *name, const char *why)
{
    return tw_fail(TW_STATUS_CORRUPT, "%s is not a usable compiled model: %s", name, why);
}

/* Maps the file; the trailer is copied out. */
static tw_status map_file(tw_image *image, const char *name)
{
    struct stat st;
    if (fstat(image->fd, &st))
        return tw_fail(TW_STATUS_IO, "%s: %s", name, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return tw_fail(TW_STATUS_IO, "%s is not a regular file", name);
    if (st.st_size < (off_t)(sizeof(Elf64_Ehdr) + sizeof(tw_trailer)))
        return corrupt(name, "it is too short");
    void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, image->fd, 0);
    if (bytes == MAP_FAILED)
        return tw_fail(TW_STATUS_IO, "%s: cannot map it: %s", name, strerror(errno));
    image->bytes = bytes;
    image->size = (size_t)st.st_size;
    memcpy(&image->trailer, image->bytes + image->size - sizeof(tw_trailer), sizeof(tw_trailer));
    return TW_STATUS_OK;
}

/* Everything but the constants. */
static tw_status check_file(const tw_image *image, const char *name)
{
    const tw_trailer *t = &image->trailer;
    assert(image->bytes);
    if (memcmp(image->bytes, ELFMAG, SELFMAG))
        return corrupt(name, "it is no ELF file");
    const char *wrong = tw_trailer_check(t);
    if (wrong)
        return corrupt(name, wrong);
    if (t->version != TW_TRAILER_VERSION)
        return tw_fail(TW_STATUS_UNSUPPORTED,
                       "%s has version %u of the file format; this runtime reads version %d", name,
                       t->version, TW_TRAILER_VERSION);
    if (!tw_trailer_fits(t, image->size))
        return corrupt(name, "its size is not what its trailer says");
    uint64_t constants_end = t->constants_offset + t->constants_size;
    if (tw_checksum(image->bytes, t->constants_offset) != t->code_hash)
        return corrupt(name, "its code is damaged");
    if (tw_checksum(image->bytes + constants_end,
                    image->size - sizeof(tw_trailer) - constants_end) != t->index_hash)
        return corrupt(name, "its index is damaged");
    Elf64_Ehdr header;
    memcpy(&header, image->bytes, sizeof header);
    if (header.e_machine != MACHINE)
        return tw_fail(TW_STATUS_UNSUPPORTED,
                       "%s is compiled for another architecture (ELF machine %u, this is %u)", name,
                       header.e_machine, MACHINE);
    return TW_STATUS_OK;
}

static void unique_path(char *path, size_t size, int fd)
{
    static atomic_uint count;
    int n = snprintf(path, size, "/proc/%ld/fd/", (long)getpid());
    for (unsigned serial = atomic_fetch_add(&count, 1) + 1; serial; serial >>= 1)
        n += snprintf(path + n, size - (size_t)n, serial & 1 ? "./" : "/");
    snprintf(path + n, size - (size_t)n, "%d", fd);
}

static tw_status load_code(tw_image *image, const char *name)
{
    char path[160];
    unique_path(path, sizeof path, image->fd);
    image->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!image->handle)
        return tw_fail(TW_STATUS_IO, "%s: %s", name, dlerror());
    const tw_abi_model *m = image->model = dlsym(image->handle, TW_ABI_SYMBOL);
    if (!m || m->magic != TW_ABI_MAGIC)
        return corrupt(name, "it has no descriptor");
    if (m->version != TW_ABI_VERSION || m->size != sizeof *m)
        return tw_fail(TW_STATUS_UNSUPPORTED,
                       "%s was made by %s for model ABI %u; this runtime has ABI %d", name,
                       m->version > TW_ABI_VERSION ? "a newer compiler" : "another compiler",
                       m->version, TW_ABI_VERSION);
    if (m->id != image->trailer.model_id || m->constants_size != image->trailer.constants_size)
        return corrupt(name, "its descriptor and its trailer disagree");
    return TW_STATUS_OK;
}

tw_status tw_image_open(tw_image *image, int fd, const char *name)
{
    *image = (tw_image){.fd = fd};
    tw_status status = map_file(image, name);
    if (status == TW_STATUS_OK)
        status = check_file(image, name);
    if (status == TW_STATUS_OK)
        status = load_code(image, name);
    if (status != TW_STATUS_OK)
        tw_image_close(image);
    return status;
}

tw_status tw_image_verify_constants(const tw_image *image, const char *name)
{
    const tw_trailer *t = &image->trailer;
    const uint8_t *constants = image->bytes + t->constants_offset;
    for (uint64_t i = 0; i < t->n_chunks; i++) {
        uint64_t offset = i * TW_CHUNK, left = t->constants_size - offset, hash;
        memcpy(&hash, image->bytes + t->index_offset + i * sizeof hash, sizeof hash);
        if (tw_checksum(constants + offset, left < TW_CHUNK ? left : TW_CHUNK) != hash)
            return corrupt(name, "its constants are damaged");
    }
    return TW_STATUS_OK;
}

void tw_image_close(tw_image *image)
{
    if (image->handle)
        dlclose(image->handle);
    if (image->bytes)
        munmap((void *)image->bytes, image->size);
    if (image->fd >= 0)
        close(image->fd);
    *image = (tw_image){.fd = -1};
}
