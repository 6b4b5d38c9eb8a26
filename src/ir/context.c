/* context.c: the owner of all IR of one compilation: memory, strings, dialects, interfaces. */
#include "ir/context_impl.h"

#include <stdlib.h>
#include <string.h>

tw_context *tw_context_create(size_t memory_limit)
{
    tw_arena *arena = tw_arena_create(memory_limit);
    if (!arena)
        return NULL;
    tw_context *ctx = calloc(1, sizeof *ctx);
    if (!ctx) {
        tw_arena_destroy(arena);
        return NULL;
    }
    ctx->arena = arena;
    ctx->strings = tw_map_make(arena);
    ctx->locations = tw_map_make(arena);
    ctx->op_defs = tw_map_make(arena);
    ctx->type_defs = tw_map_make(arena);
    ctx->ifaces = tw_map_make(arena);
    ctx->pass_names = tw_map_make(arena);
    ctx->sources = tw_map_make(arena);
    return ctx;
}

void tw_context_destroy(tw_context *ctx)
{
    if (!ctx)
        return;
    for (tw_cleanup *c = ctx->cleanups; c; c = c->next)
        c->release(c->data);
    tw_arena_destroy(ctx->arena);
    free(ctx);
}

jmp_buf *tw_context_guard(tw_context *ctx, jmp_buf *handler)
{
    return tw_arena_on_exhausted(ctx->arena, handler);
}

bool tw_context_finally(tw_context *ctx, bool (*work)(void *data), void (*always)(void *data),
                        void *data)
{
    jmp_buf handler;
    jmp_buf *volatile outer = tw_context_guard(ctx, &handler);
    volatile bool fine = false, full = true;
    if (setjmp(handler) == 0) {
        fine = work(data);
        full = false;
    }
    tw_context_guard(ctx, outer);
    always(data);
    if (full)
        tw_arena_exhausted(ctx->arena);
    return fine;
}

tw_arena *tw_context_arena(tw_context *ctx)
{
    return ctx->arena;
}

void *tw_context_alloc(tw_context *ctx, size_t size)
{
    return tw_arena_alloc(ctx->arena, size);
}

void tw_context_on_destroy(tw_context *ctx, void (*release)(void *data), void *data)
{
    tw_cleanup *c = TW_NEW(ctx->arena, tw_cleanup);
    *c = (tw_cleanup){ctx->cleanups, release, data};
    ctx->cleanups = c;
}

const char *tw_intern(tw_context *ctx, const char *text, size_t len)
{
    char *found = tw_map_get(&ctx->strings, text, len);
    if (!found) {
        found = tw_arena_strndup(ctx->arena, text, len);
        tw_map_put(&ctx->strings, text, len, found);
    }
    return found;
}

static tw_loc intern_location(tw_context *ctx, tw_location key)
{
    tw_location *found = tw_map_get(&ctx->locations, &key, sizeof key);
    if (!found) {
        found = tw_arena_memdup(ctx->arena, &key, sizeof key);
        tw_map_put(&ctx->locations, &key, sizeof key, found);
    }
    return found;
}

static const char *intern_or_null(tw_context *ctx, const char *text)
{
    return text ? tw_intern(ctx, text, strlen(text)) : NULL;
}

tw_loc tw_loc_file(tw_context *ctx, const char *file, unsigned line, unsigned column)
{
    return intern_location(ctx, (tw_location){intern_or_null(ctx, file), line, column, NULL});
}

tw_loc tw_loc_node(tw_context *ctx, const char *file, const char *node)
{
    return intern_location(
        ctx, (tw_location){intern_or_null(ctx, file), 0, 0, intern_or_null(ctx, node)});
}

const void *tw_unique_find(const tw_unique *u, uint64_t hash, const void *key,
                           bool (*equal)(const void *stored, const void *key),
                           uint64_t (*hash_of)(const void *stored))
{
    if (!u->slot_count)
        return NULL;
    size_t mask = u->slot_count - 1;
    for (size_t at = hash & mask; u->slots[at]; at = (at + 1) & mask)
        if (hash_of(u->slots[at]) == hash && equal(u->slots[at], key))
            return u->slots[at];
    return NULL;
}

static void unique_place(tw_unique *u, const void *object, uint64_t hash)
{
    size_t mask = u->slot_count - 1, at = hash & mask;
    while (u->slots[at])
        at = (at + 1) & mask;
    u->slots[at] = object;
}

void tw_unique_add(tw_context *ctx, tw_unique *u, const void *object, uint64_t hash,
                   uint64_t (*hash_of)(const void *stored))
{
    if ((u->count + 1) * 2 > u->slot_count) {
        tw_unique grown = {.slot_count = u->slot_count ? u->slot_count * 2 : 64};
        grown.slots = TW_NEW_ARRAY(ctx->arena, const void *, grown.slot_count);
        for (size_t i = 0; i < u->slot_count; i++)
            if (u->slots[i])
                unique_place(&grown, u->slots[i], hash_of(u->slots[i]));
        grown.count = u->count;
        *u = grown;
    }
    unique_place(u, object, hash);
    u->count++;
}

bool tw_dialect_register(tw_context *ctx, const tw_dialect *dialect)
{
    for (size_t i = 0; i < ctx->dialects.len; i++)
        if (!strcmp(ctx->dialects.data[i]->name, dialect->name))
            return ctx->dialects.data[i] == dialect ||
                   tw_error(ctx, NULL, "dialect '%s' is registered already", dialect->name);
    tw_vec_push(ctx->arena, &ctx->dialects, dialect);
    for (size_t i = 0; i < dialect->n_ops; i++)
        tw_map_put_str(&ctx->op_defs, dialect->ops[i].name, (void *)&dialect->ops[i]);
    for (const tw_type_def *t = dialect->types; t && t->name; t++)
        tw_map_put_str(&ctx->type_defs, t->name, (void *)t);
    return true;
}

const tw_op_def *tw_op_def_find(const tw_context *ctx, const char *name)
{
    return tw_map_get_str(&ctx->op_defs, name);
}

size_t tw_dialect_count(const tw_context *ctx)
{
    return ctx->dialects.len;
}

const tw_dialect *tw_dialect_at(const tw_context *ctx, size_t i)
{
    return ctx->dialects.data[i];
}

void tw_iface_set(tw_context *ctx, const tw_op_def *def, const void *iface, const void *impl)
{
    const void *key[2] = {def, iface};
    tw_map_put(&ctx->ifaces, key, sizeof key, (void *)impl);
}

const void *tw_iface_get(const tw_context *ctx, const tw_op_def *def, const void *iface)
{
    const void *key[2] = {def, iface};
    return tw_map_get(&ctx->ifaces, key, sizeof key);
}
