/* io.h: reading and writing whole buffers through file descriptors. */
#ifndef TW_BASE_IO_H
#define TW_BASE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Write or read all `size` bytes, at the file's position or at `offset`; interrupted calls go on.
 * False with errno set; a file that ends too early gives EIO. */
bool tw_write_all(int fd, const void *bytes, size_t size);
bool tw_pwrite_all(int fd, const void *bytes, size_t size, uint64_t offset);
bool tw_pread_all(int fd, void *bytes, size_t size, uint64_t offset);

/* Bytes of an open regular file; false with errno set. */
bool tw_file_size(int fd, uint64_t *size);

#endif
