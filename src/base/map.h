/* map.h: hash map from byte strings (or pointers) to pointers, on an arena.
 *
 * Iteration follows insertion order, so that everything built on it is deterministic. */
#ifndef TW_BASE_MAP_H
#define TW_BASE_MAP_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tw_map_entry {
    const void *key;
    size_t key_len;
    uint64_t hash;
    void *value;
} tw_map_entry;

/* Entries 0..len-1 in insertion order. Zero-initialise, then set `arena`. */
typedef struct tw_map {
    tw_arena *arena;
    tw_map_entry *entries;
    size_t len, cap;
    uint32_t *slots; /* index + 1 into entries; 0 is free */
    size_t slot_count;
} tw_map;

/* An empty map on `arena`. */
tw_map tw_map_make(tw_arena *arena);

/* The value at the key, or NULL. */
void *tw_map_get(const tw_map *map, const void *key, size_t key_len);

/* Sets the value at the key; the key's bytes are copied. Returns the earlier value or NULL. */
void *tw_map_put(tw_map *map, const void *key, size_t key_len, void *value);

/* The same for zero-terminated strings and for pointers compared by address. */
void *tw_map_get_str(const tw_map *map, const char *key);
void *tw_map_put_str(tw_map *map, const char *key, void *value);
void *tw_map_get_ptr(const tw_map *map, const void *key);
void *tw_map_put_ptr(tw_map *map, const void *key, void *value);

/* 64-bit hash of bytes, equal on all machines (XXH3). */
uint64_t tw_hash_bytes(const void *bytes, size_t len, uint64_t seed);

#endif
