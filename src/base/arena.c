/* arena.c: blocks of doubling size, bump allocation, one free for all. */
#include "base/arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 16, FIRST_BLOCK = 16 << 10, LARGEST_BLOCK = 1 << 20 };

typedef struct block {
    struct block *next;
    size_t size;
    _Alignas(ALIGNMENT) char bytes[];
} block;

struct tw_arena {
    block *blocks;
    char *cursor, *end;
    size_t next_size, total, limit;
    jmp_buf *exhausted;
};

tw_arena *tw_arena_create(size_t limit)
{
    tw_arena *arena = calloc(1, sizeof *arena);
    if (arena) {
        arena->next_size = FIRST_BLOCK;
        arena->limit = limit ? limit : SIZE_MAX;
    }
    return arena;
}

void tw_arena_destroy(tw_arena *arena)
{
    if (!arena)
        return;
    for (block *b = arena->blocks; b;) {
        block *next = b->next;
        free(b);
        b = next;
    }
    free(arena);
}

jmp_buf *tw_arena_on_exhausted(tw_arena *arena, jmp_buf *handler)
{
    jmp_buf *earlier = arena->exhausted;
    arena->exhausted = handler;
    return earlier;
}

void tw_arena_exhausted(tw_arena *arena)
{
    if (arena->exhausted)
        longjmp(*arena->exhausted, 1);
    abort();
}

static block *add_block(tw_arena *arena, size_t payload)
{
    if (payload > arena->limit || arena->total > arena->limit - payload)
        tw_arena_exhausted(arena);
    if (payload > SIZE_MAX - sizeof(block))
        tw_arena_exhausted(arena);
    block *b = calloc(1, sizeof(block) + payload);
    if (!b)
        tw_arena_exhausted(arena);
    b->size = payload;
    b->next = arena->blocks;
    arena->blocks = b;
    arena->total += payload;
    return b;
}

void *tw_arena_alloc(tw_arena *arena, size_t size)
{
    if (size > SIZE_MAX - ALIGNMENT)
        tw_arena_exhausted(arena);
    size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (size > (size_t)(arena->end - arena->cursor)) {
        /* A large object gets a block of its own and leaves the current one in use. */
        if (size > arena->next_size / 4)
            return add_block(arena, size)->bytes;
        block *b = add_block(arena, arena->next_size);
        arena->cursor = b->bytes;
        arena->end = b->bytes + b->size;
        if (arena->next_size < LARGEST_BLOCK)
            arena->next_size *= 2;
    }
    void *result = arena->cursor;
    arena->cursor += size;
    return result;
}

void *tw_arena_calloc(tw_arena *arena, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        tw_arena_exhausted(arena);
    return tw_arena_alloc(arena, bytes);
}

char *tw_arena_strndup(tw_arena *arena, const char *text, size_t len)
{
    char *copy = tw_arena_calloc(arena, len + 1, 1);
    if (len)
        memcpy(copy, text, len);
    return copy;
}

char *tw_arena_strdup(tw_arena *arena, const char *text)
{
    return tw_arena_strndup(arena, text, strlen(text));
}

void *tw_arena_memdup(tw_arena *arena, const void *bytes, size_t size)
{
    void *copy = tw_arena_alloc(arena, size);
    if (size)
        memcpy(copy, bytes, size);
    return copy;
}

char *tw_arena_vprintf(tw_arena *arena, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, format, args);
    char *text = tw_arena_calloc(arena, (size_t)(len < 0 ? 0 : len) + 1, 1);
    if (len > 0)
        vsnprintf(text, (size_t)len + 1, format, again);
    va_end(again);
    return text;
}

char *tw_arena_printf(tw_arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = tw_arena_vprintf(arena, format, args);
    va_end(args);
    return text;
}

size_t tw_arena_bytes(const tw_arena *arena)
{
    return arena->total;
}
