/* sink.c: see sink.h. */
#include "link/sink.h"
#include "base/io.h"
#include "tilewright/ir.h"

#include <errno.h>
#include <string.h>

void tw_sink_begin(tw_sink *sink, uint64_t chunk)
{
    sink->offset = sink->filled = 0;
    sink->chunk = chunk ? chunk : UINT64_MAX;
    memset(&sink->hashes, 0, sizeof sink->hashes);
    XXH3_64bits_reset(&sink->state);
}

static void push_hash(tw_sink *sink)
{
    uint64_t hash = XXH3_64bits_digest(&sink->state);
    tw_vec_push(tw_context_arena(sink->ctx), &sink->hashes, hash);
    XXH3_64bits_reset(&sink->state);
    sink->filled = 0;
}

void tw_sink_end(tw_sink *sink)
{
    if (sink->filled || sink->chunk == UINT64_MAX)
        push_hash(sink);
}

bool tw_sink_write(tw_sink *sink, const void *bytes, uint64_t size)
{
    const uint8_t *at = bytes;
    while (size) {
        uint64_t room = sink->chunk - sink->filled, n = size < room ? size : room;
        if (!tw_write_all(sink->fd, at, n))
            return tw_error(sink->ctx, NULL, "writing the compiled model: %s", strerror(errno));
        XXH3_64bits_update(&sink->state, at, n);
        sink->offset += n;
        sink->filled += n;
        if (sink->filled == sink->chunk)
            push_hash(sink);
        at += n;
        size -= n;
    }
    return true;
}

bool tw_sink_pad(tw_sink *sink, uint64_t offset)
{
    static const uint8_t zeros[4096];
    while (sink->offset < offset) {
        uint64_t n = offset - sink->offset;
        if (!tw_sink_write(sink, zeros, n < sizeof zeros ? n : sizeof zeros))
            return false;
    }
    return true;
}

uint64_t tw_sink_offset(const tw_sink *sink)
{
    return sink->offset;
}
