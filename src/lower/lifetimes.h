/* lifetimes.h: items that live from a first to a last step, found by the steps they share. */
#ifndef TW_LOWER_LIFETIMES_H
#define TW_LOWER_LIFETIMES_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct tw_lifetimes tw_lifetimes;

/* For steps 0 to `steps` - 1; all memory is the arena's. */
tw_lifetimes *tw_lifetimes_create(tw_arena *arena, size_t steps);

/* Adds an item that lives in steps first to last. Time and memory grow with the logarithm of the
 * number of steps. */
void tw_lifetimes_add(tw_lifetimes *t, size_t first, size_t last, void *item);

/* The items that live in one of the steps first to last, each once, in no order; at most `max` of
 * them. False when there are more. */
bool tw_lifetimes_find(const tw_lifetimes *t, size_t first, size_t last, size_t max, void **out,
                       size_t *n);

#endif
