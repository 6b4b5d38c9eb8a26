/* file.h: files mapped into memory, read-only. */
#ifndef TW_BASE_FILE_H
#define TW_BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes of a file. Another process that shortens the file while it is mapped makes reading fail
 * with SIGBUS, as with every mapping. */
typedef struct tw_file {
    const unsigned char *data; /* not NULL once mapped, even when size is 0 */
    size_t size;
} tw_file;

/* Maps the regular file at `path`, of at most `max_size` bytes (0: no bound). NULL when all went
 * well, else what is wrong ("No such file or directory"); static text. */
const char *tw_file_map(const char *path, size_t max_size, tw_file *out);

/* The same for a file that an untrusted document names relative to the directory `dir` (NULL: the
 * current one). `name` must stay inside: relative, without "..", no symbolic link on the way, and
 * the file itself has one name only (a second hard link could belong to anybody). */
const char *tw_file_map_beneath(const char *dir, const char *name, size_t max_size, tw_file *out);

/* Whether both names lead to one regular file; files that do not exist yet have different names. */
bool tw_file_same(const char *a, const char *b);

/* Gives the mapping back; a zeroed file is fine. */
void tw_file_unmap(tw_file *file);

#endif
