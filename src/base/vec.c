/* vec.c: doubling growth of arrays on an arena. */
#include "base/vec.h"

#include <string.h>

void *tw_vec_grow(tw_arena *arena, void *data, size_t len, size_t *cap, size_t element_size)
{
    size_t grown = *cap ? *cap * 2 : 8;
    void *copy = tw_arena_calloc(arena, grown, element_size);
    if (len)
        memcpy(copy, data, len * element_size);
    *cap = grown;
    return copy;
}
