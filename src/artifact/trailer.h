/* trailer.h: the layout of a compiled model's file.
 *
 *     0                  ELF shared object, code_size bytes
 *                        zeros up to a multiple of TW_CONSTANTS_ALIGN
 *     constants_offset   constants, constants_size bytes
 *                        zeros up to a multiple of 8
 *     index_offset       one XXH3 hash (64 bits) for each TW_CHUNK bytes of constants
 *     file_size - 128    tw_trailer
 *
 * Everything is little-endian. Each byte of the file is under a hash: what precedes the constants
 * under code_hash, the constants under the index, the index and the zeros before it under
 * index_hash, the trailer under its own. */
#ifndef TW_ARTIFACT_TRAILER_H
#define TW_ARTIFACT_TRAILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TW_TRAILER_MAGIC 0x444e454c45444f4du /* the bytes "MODELEND" */

enum {
    TW_TRAILER_VERSION = 1,
    TW_CONSTANTS_ALIGN = 4096, /* a page: the constants are mapped */
    TW_CHUNK = 4 << 20,
};

typedef struct tw_trailer {
    uint64_t file_size;
    uint64_t code_size;
    uint64_t constants_offset, constants_size;
    uint64_t index_offset, n_chunks;
    uint64_t code_hash, index_hash;
    uint64_t model_id; /* as in the descriptor */
    uint64_t reserved[4];
    uint64_t trailer_hash; /* of the trailer with 0 in this field */
    uint32_t version, size;
    uint64_t magic; /* the file's last 8 bytes */
} tw_trailer;
_Static_assert(sizeof(tw_trailer) == 128, "the trailer's size is part of the format");

/* Fills in the sizes and offsets that follow from the sizes of code and constants, version and
 * magic; the rest is 0. False when they do not fit 63 bits. */
bool tw_trailer_layout(tw_trailer *trailer, uint64_t code_size, uint64_t constants_size);

/* Sets trailer_hash; everything else is there. */
void tw_trailer_seal(tw_trailer *trailer);

/* Whether a trailer read from the end of a file is one, and undamaged: NULL, or what is wrong. Its
 * version may be any. */
const char *tw_trailer_check(const tw_trailer *trailer);

/* Whether sizes and offsets of a trailer of this version fit together, and a file of that size. */
bool tw_trailer_fits(const tw_trailer *trailer, uint64_t file_size);

/* The hash of the format: XXH3, 64 bits, no seed. */
uint64_t tw_checksum(const void *bytes, size_t size);

#endif
