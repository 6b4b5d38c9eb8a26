/* npz.h: NumPy's array files: .npy (one array) and .npz (a zip archive of them).
 *
 * Format: numpy.lib.format, versions 1.0 to 3.0. Element types: all that tw_elem and NumPy share
 * (bool, integers of 8 to 64 bits, f16, f32, f64); both byte orders and both memory orders are
 * read, C order and little endian are written. */
#ifndef TW_BASE_NPZ_H
#define TW_BASE_NPZ_H

#include "tilewright/ir.h"

/* An array in row-major order, little endian. The memory belongs to the context it was made in. */
typedef struct tw_array {
    const char *name; /* key in the archive without ".npy"; NULL for a lone .npy */
    tw_elem elem;
    unsigned rank;
    int64_t dims[TW_MAX_RANK];
    void *data;
    size_t size; /* bytes */
} tw_array;

typedef struct tw_arrays {
    tw_array *items;
    size_t n;
} tw_arrays;

/* Reads a file; false with a diagnostic that names it (and the member). Members that are no arrays
 * are an error, as are object arrays. Nothing is allocated beyond the sizes the file really has. */
bool tw_npy_read(tw_context *ctx, const char *path, tw_array *out);
bool tw_npz_read(tw_context *ctx, const char *path, tw_arrays *out);

/* Writes an uncompressed archive, replacing the file only on success. */
bool tw_npz_write(tw_context *ctx, const char *path, const tw_array *arrays, size_t n);

/* The array of that name, or NULL. */
const tw_array *tw_arrays_find(const tw_arrays *arrays, const char *name);

/* Bytes of an array of that type and shape; false on overflow or a negative dimension. */
bool tw_array_size(tw_elem elem, unsigned rank, const int64_t *dims, size_t *size);

#endif
