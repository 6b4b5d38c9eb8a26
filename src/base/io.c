/* io.c: loops around read and write. */
#include "base/io.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE = 1 << 30 }; /* the kernel takes at most 2 GB at once */

bool tw_write_all(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size) {
        ssize_t n = write(fd, at, size < PIECE ? size : PIECE);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        at += n;
        size -= (size_t)n;
    }
    return true;
}

bool tw_pwrite_all(int fd, const void *bytes, size_t size, uint64_t offset)
{
    const char *at = bytes;
    while (size) {
        ssize_t n = pwrite(fd, at, size < PIECE ? size : PIECE, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        at += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return true;
}

bool tw_pread_all(int fd, void *bytes, size_t size, uint64_t offset)
{
    char *at = bytes;
    while (size) {
        ssize_t n = pread(fd, at, size < PIECE ? size : PIECE, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = EIO;
        if (n <= 0)
            return false;
        at += n;
        offset += (uint64_t)n;
        size -= (size_t)n;
    }
    return true;
}

bool tw_file_size(int fd, uint64_t *size)
{
    struct stat st;
    if (fstat(fd, &st))
        return false;
    *size = (uint64_t)st.st_size;
    return true;
}
