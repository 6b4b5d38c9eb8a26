/* file.c: mapping of files, and the walk to a file that must lie inside a directory. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const unsigned char nothing[1];

static const char *system_error(void)
{
    const char *text = strerrordesc_np(errno);
    return text ? text : "unknown error";
}

/* Maps the open file and closes it. */
static const char *map_fd(int fd, size_t max_size, bool single_link, tw_file *out)
{
    struct stat st;
    const char *error = NULL;
    *out = (tw_file){nothing, 0};
    if (fstat(fd, &st) != 0)
        error = system_error();
    else if (S_ISDIR(st.st_mode))
        error = "is a directory, not a file";
    else if (!S_ISREG(st.st_mode))
        error = "is not a regular file";
    else if (single_link && st.st_nlink != 1)
        error = "has a second hard link, which may point outside the model's directory";
    else if (max_size && (uintmax_t)st.st_size > max_size)
        error = "is too large";
    else if (st.st_size > 0) {
        void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED)
            error = system_error();
        else
            *out = (tw_file){data, (size_t)st.st_size};
    }
    close(fd);
    return error;
}

const char *tw_file_map(const char *path, size_t max_size, tw_file *out)
{
    *out = (tw_file){nothing, 0};
    /* Non-blocking: opening a pipe must not wait for its writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    return fd < 0 ? system_error() : map_fd(fd, max_size, false, out);
}

/* Opens the component `name` of `len` bytes in the directory `at`, which it closes. */
static int open_component(int at, const char *name, size_t len, bool last)
{
    char component[256];
    int fd = -1;
    if (len < sizeof component) {
        memcpy(component, name, len);
        component[len] = 0;
        fd = openat(at, component,
                    O_RDONLY | O_CLOEXEC | O_NOFOLLOW | (last ? O_NONBLOCK : O_DIRECTORY));
        if (fd < 0 && (errno == ELOOP || errno == EMLINK))
            errno = ELOOP;
    } else {
        errno = ENAMETOOLONG;
    }
    int saved = errno;
    close(at);
    errno = saved;
    return fd;
}

const char *tw_file_map_beneath(const char *dir, const char *name, size_t max_size, tw_file *out)
{
    *out = (tw_file){nothing, 0};
    if (!*name)
        return "has no name";
    if (*name == '/')
        return "is an absolute path; it must be relative to the model's directory";
    int at = open(dir && *dir ? dir : ".", O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    while (at >= 0) {
        size_t len = strcspn(name, "/");
        bool last = !name[len];
        if (len == 2 && !memcmp(name, "..", 2)) {
            close(at);
            return "leaves the model's directory";
        }
        if (len == 0 || (len == 1 && *name == '.')) {
            if (last) {
                close(at);
                return "is a directory, not a file";
            }
        } else {
            at = open_component(at, name, len, last);
            if (last || at < 0)
                break;
        }
        name += len + 1;
    }
    if (at < 0)
        return errno == ELOOP ? "is reached through a symbolic link"
               : errno == ENOTDIR
                   ? "is reached through a symbolic link or something else that is no "
                     "directory"
                   : system_error();
    return map_fd(at, max_size, true, out);
}

void tw_file_unmap(tw_file *file)
{
    if (file->size)
        munmap((void *)file->data, file->size);
    *file = (tw_file){nothing, 0};
}

bool tw_file_same(const char *a, const char *b)
{
    struct stat x, y;
    if (stat(a, &x) || stat(b, &y))
        return !strcmp(a, b);
    return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
