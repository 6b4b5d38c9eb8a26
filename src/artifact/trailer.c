/* trailer.c: layout and checks that writer and reader share. */
#include "artifact/trailer.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t tw_checksum(const void *bytes, size_t size)
{
    return XXH3_64bits(bytes, size);
}

static uint64_t round_up(uint64_t value, uint64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

bool tw_trailer_layout(tw_trailer *t, uint64_t code_size, uint64_t constants_size)
{
    const uint64_t limit = (uint64_t)1 << 62;
    memset(t, 0, sizeof *t);
    if (code_size > limit || constants_size > limit / 2)
        return false;
    t->code_size = code_size;
    t->constants_size = constants_size;
    t->constants_offset = round_up(code_size, TW_CONSTANTS_ALIGN);
    t->index_offset = round_up(t->constants_offset + constants_size, sizeof(uint64_t));
    t->n_chunks = round_up(constants_size, TW_CHUNK) / TW_CHUNK;
    t->file_size = t->index_offset + t->n_chunks * sizeof(uint64_t) + sizeof *t;
    t->version = TW_TRAILER_VERSION;
    t->size = sizeof *t;
    t->magic = TW_TRAILER_MAGIC;
    return true;
}

static uint64_t own_hash(const tw_trailer *trailer)
{
    tw_trailer copy = *trailer;
    copy.trailer_hash = 0;
    return tw_checksum(&copy, sizeof copy);
}

void tw_trailer_seal(tw_trailer *trailer)
{
    trailer->trailer_hash = own_hash(trailer);
}

const char *tw_trailer_check(const tw_trailer *t)
{
    if (t->magic != TW_TRAILER_MAGIC)
        return "it does not end as a compiled model does: truncated, or something else";
    if (t->trailer_hash != own_hash(t))
        return "its trailer is damaged";
    return NULL;
}

bool tw_trailer_fits(const tw_trailer *t, uint64_t file_size)
{
    tw_trailer expected;
    return tw_trailer_layout(&expected, t->code_size, t->constants_size) &&
           expected.constants_offset == t->constants_offset &&
           expected.index_offset == t->index_offset && expected.n_chunks == t->n_chunks &&
           expected.file_size == t->file_size && t->file_size == file_size;
}
