/* map.c: open addressing over an array of entries kept in insertion order. */
#include "base/map.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t tw_hash_bytes(const void *bytes, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(bytes, len, seed);
}

tw_map tw_map_make(tw_arena *arena)
{
    return (tw_map){.arena = arena};
}

/* The slot that holds the key, or the free slot where it belongs. */
static size_t find_slot(const tw_map *map, const void *key, size_t key_len, uint64_t hash)
{
    size_t mask = map->slot_count - 1, at = hash & mask;
    for (; map->slots[at]; at = (at + 1) & mask) {
        const tw_map_entry *e = &map->entries[map->slots[at] - 1];
        if (e->hash == hash && e->key_len == key_len && !memcmp(e->key, key, key_len))
            break;
    }
    return at;
}

static void rehash(tw_map *map)
{
    map->slot_count = map->slot_count ? map->slot_count * 2 : 16;
    map->slots = TW_NEW_ARRAY(map->arena, uint32_t, map->slot_count);
    size_t mask = map->slot_count - 1;
    for (size_t i = 0; i < map->len; i++) {
        size_t at = map->entries[i].hash & mask;
        while (map->slots[at])
            at = (at + 1) & mask;
        map->slots[at] = (uint32_t)i + 1;
    }
}

void *tw_map_get(const tw_map *map, const void *key, size_t key_len)
{
    if (!map->len)
        return NULL;
    size_t at = find_slot(map, key, key_len, tw_hash_bytes(key, key_len, 0));
    return map->slots[at] ? map->entries[map->slots[at] - 1].value : NULL;
}

void *tw_map_put(tw_map *map, const void *key, size_t key_len, void *value)
{
    if ((map->len + 1) * 4 > map->slot_count * 3)
        rehash(map);
    uint64_t hash = tw_hash_bytes(key, key_len, 0);
    size_t at = find_slot(map, key, key_len, hash);
    if (map->slots[at]) {
        tw_map_entry *e = &map->entries[map->slots[at] - 1];
        void *earlier = e->value;
        e->value = value;
        return earlier;
    }
    if (map->len == map->cap) {
        size_t cap = map->cap ? map->cap * 2 : 8;
        tw_map_entry *grown = TW_NEW_ARRAY(map->arena, tw_map_entry, cap);
        if (map->len)
            memcpy(grown, map->entries, map->len * sizeof *grown);
        map->entries = grown;
        map->cap = cap;
    }
    map->entries[map->len++] =
        (tw_map_entry){tw_arena_memdup(map->arena, key, key_len), key_len, hash, value};
    map->slots[at] = (uint32_t)map->len;
    return NULL;
}

void *tw_map_get_str(const tw_map *map, const char *key)
{
    return tw_map_get(map, key, strlen(key) + 1);
}

void *tw_map_put_str(tw_map *map, const char *key, void *value)
{
    return tw_map_put(map, key, strlen(key) + 1, value);
}

void *tw_map_get_ptr(const tw_map *map, const void *key)
{
    return tw_map_get(map, &key, sizeof key);
}

void *tw_map_put_ptr(tw_map *map, const void *key, void *value)
{
    return tw_map_put(map, &key, sizeof key, value);
}
