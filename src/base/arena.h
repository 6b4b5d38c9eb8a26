/* arena.h: region allocator that all of one compilation's memory lives in. */
#ifndef TW_BASE_ARENA_H
#define TW_BASE_ARENA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

/* A growing list of blocks that are freed together. Not thread-safe: one thread at a time. */
typedef struct tw_arena tw_arena;

/* Creates an arena. `limit` bounds its bytes (0: no bound). NULL when memory cannot be had. */
tw_arena *tw_arena_create(size_t limit);

/* Frees the arena and all that was allocated from it. NULL is fine. */
void tw_arena_destroy(tw_arena *arena);

/* Where allocation failures jump to (value 1). Must be set before the first allocation and stay
 * valid while allocations can happen; returns the earlier handler so that scopes can nest.
 * An arena without a handler aborts on exhaustion: only tests work without one. */
jmp_buf *tw_arena_on_exhausted(tw_arena *arena, jmp_buf *handler);

/* Goes to the handler, as a failed allocation does. */
_Noreturn void tw_arena_exhausted(tw_arena *arena);

/* `size` zeroed bytes, aligned to 16. Never NULL: on exhaustion control goes to the handler. */
void *tw_arena_alloc(tw_arena *arena, size_t size);

/* `count` zeroed elements of `size` bytes; a product that overflows counts as exhaustion. */
void *tw_arena_calloc(tw_arena *arena, size_t count, size_t size);

/* A zero-terminated copy of `len` bytes of `text`. */
char *tw_arena_strndup(tw_arena *arena, const char *text, size_t len);
char *tw_arena_strdup(tw_arena *arena, const char *text);

/* A copy of `size` bytes, aligned to 16. */
void *tw_arena_memdup(tw_arena *arena, const void *bytes, size_t size);

/* Formatted text in the arena. */
char *tw_arena_printf(tw_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
char *tw_arena_vprintf(tw_arena *arena, const char *format, va_list args);

/* Bytes taken from the system so far, for statistics and tests. */
size_t tw_arena_bytes(const tw_arena *arena);

/* `count` zeroed objects of a type. */
#define TW_NEW_ARRAY(arena, type, count) ((type *)tw_arena_calloc((arena), (count), sizeof(type)))
#define TW_NEW(arena, type) TW_NEW_ARRAY(arena, type, 1)

#endif
