/* vec.h: growable arrays on an arena.
 *
 *     TW_VEC(int) numbers = {0};
 *     tw_vec_push(arena, &numbers, 42);
 *     for (size_t i = 0; i < numbers.len; i++) use(numbers.data[i]);
 *
 * Growth leaves the old array in the arena, so the total is at most twice the final size. */
#ifndef TW_BASE_VEC_H
#define TW_BASE_VEC_H

#include "base/arena.h"

#define TW_VEC(type)                                                                               \
    struct {                                                                                       \
        type *data;                                                                                \
        size_t len, cap;                                                                           \
    }

/* A macro because C has no generic functions: appends `value`. */
#define tw_vec_push(arena, vec, value)                                                             \
    do {                                                                                           \
        if ((vec)->len == (vec)->cap)                                                              \
            (vec)->data =                                                                          \
                tw_vec_grow((arena), (vec)->data, (vec)->len, &(vec)->cap, sizeof *(vec)->data);   \
        (vec)->data[(vec)->len++] = (value);                                                       \
    } while (0)

/* The work of tw_vec_push: a larger array with the `len` old elements; sets *cap. */
void *tw_vec_grow(tw_arena *arena, void *data, size_t len, size_t *cap, size_t element_size);

#endif
