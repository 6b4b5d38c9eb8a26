/* sink.h: writing a file part by part while hashing it. The callers' side is in artifact.h. */
#ifndef TW_LINK_SINK_H
#define TW_LINK_SINK_H

#include "base/vec.h"
#include "link/artifact.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* The file is written in parts; each part is hashed in chunks, or as one. */
struct tw_sink {
    tw_context *ctx;
    int fd;
    uint64_t offset; /* in the part */
    uint64_t chunk;  /* bytes under one hash */
    uint64_t filled; /* of the current chunk */
    TW_VEC(uint64_t) hashes;
    XXH3_state_t state;
};

/* Starts a part; chunk 0: all under one hash. */
void tw_sink_begin(tw_sink *sink, uint64_t chunk);
/* Ends it: `hashes` has one entry per chunk, or one. Its memory is not used again. */
void tw_sink_end(tw_sink *sink);

#endif
