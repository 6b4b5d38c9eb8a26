/* attr.c: attributes, unique in their context. */
#include "ir/context_impl.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash_attr(const struct tw_attr_s *a)
{
    uint64_t h = tw_hash_mix(a->kind + 1, 0);
    switch (a->kind) {
    case TW_ATTR_UNIT:
    case TW_ATTR_ANY: /* of specifications, never of an attribute */
        break;
    case TW_ATTR_BOOL:
    case TW_ATTR_INT:
    case TW_ATTR_FLOAT:
        h = tw_hash_mix(h, (uint64_t)a->u.integer);
        break;
    case TW_ATTR_STRING:
    case TW_ATTR_SYMBOL:
        h = tw_hash_mix(h, tw_hash_bytes(a->u.string.text, a->u.string.len, 0));
        break;
    case TW_ATTR_TYPE:
        h = tw_hash_mix(h, (uintptr_t)a->u.type);
        break;
    case TW_ATTR_ARRAY:
        for (size_t i = 0; i < a->u.array.n; i++)
            h = tw_hash_mix(h, (uintptr_t)a->u.array.items[i]);
        break;
    case TW_ATTR_DICT:
        for (size_t i = 0; i < a->u.dict.n; i++) {
            h = tw_hash_mix(h, (uintptr_t)a->u.dict.items[i].name);
            h = tw_hash_mix(h, (uintptr_t)a->u.dict.items[i].value);
        }
        break;
    case TW_ATTR_DENSE:
        h = tw_hash_mix(h, (uintptr_t)a->u.dense.type);
        h = tw_hash_mix(h, (uintptr_t)a->u.dense.data);
        break;
    case TW_ATTR_MAP:
        h = tw_hash_mix(h, a->u.map.n_dims);
        for (size_t i = 0; i < a->u.map.n; i++)
            h = tw_hash_mix(h, (uintptr_t)a->u.map.exprs[i]);
        break;
    }
    return h;
}

static uint64_t stored_hash(const void *stored)
{
    return ((const struct tw_attr_s *)stored)->hash;
}

static bool same_bytes(const void *a, size_t na, const void *b, size_t nb, size_t size)
{
    return na == nb && (!na || !memcmp(a, b, na * size));
}

static bool equal(const void *stored, const void *key)
{
    const struct tw_attr_s *a = stored, *b = key;
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case TW_ATTR_UNIT:
    case TW_ATTR_ANY:
        return true;
    case TW_ATTR_BOOL:
    case TW_ATTR_INT:
    case TW_ATTR_FLOAT: /* by bits: NaNs are equal to themselves, -0 differs from 0 */
        return a->u.integer == b->u.integer;
    case TW_ATTR_STRING:
    case TW_ATTR_SYMBOL:
        return same_bytes(a->u.string.text, a->u.string.len, b->u.string.text, b->u.string.len, 1);
    case TW_ATTR_TYPE:
        return a->u.type == b->u.type;
    case TW_ATTR_ARRAY:
        return same_bytes(a->u.array.items, a->u.array.n, b->u.array.items, b->u.array.n,
                          sizeof *a->u.array.items);
    case TW_ATTR_DICT:
        return same_bytes(a->u.dict.items, a->u.dict.n, b->u.dict.items, b->u.dict.n,
                          sizeof *a->u.dict.items);
    case TW_ATTR_DENSE:
        return a->u.dense.type == b->u.dense.type && a->u.dense.data == b->u.dense.data &&
               a->u.dense.size == b->u.dense.size;
    case TW_ATTR_MAP:
        return a->u.map.n_dims == b->u.map.n_dims &&
               same_bytes(a->u.map.exprs, a->u.map.n, b->u.map.exprs, b->u.map.n,
                          sizeof *a->u.map.exprs);
    }
    return false;
}

/* The stored equal of `key`, whose arrays are copied when it is new. */
static tw_attr intern(tw_context *ctx, struct tw_attr_s key)
{
    key.hash = hash_attr(&key);
    const void *found = tw_unique_find(&ctx->attrs, key.hash, &key, equal, stored_hash);
    if (found)
        return found;
    tw_arena *arena = ctx->arena;
    struct tw_attr_s *a = tw_arena_memdup(arena, &key, sizeof key);
    switch (key.kind) {
    case TW_ATTR_STRING:
    case TW_ATTR_SYMBOL:
        a->u.string.text = tw_intern(ctx, key.u.string.text, key.u.string.len);
        break;
    case TW_ATTR_ARRAY:
        a->u.array.items =
            tw_arena_memdup(arena, key.u.array.items, key.u.array.n * sizeof(tw_attr));
        break;
    case TW_ATTR_DICT:
        a->u.dict.items =
            tw_arena_memdup(arena, key.u.dict.items, key.u.dict.n * sizeof(tw_named_attr));
        break;
    case TW_ATTR_MAP:
        a->u.map.exprs = tw_arena_memdup(arena, key.u.map.exprs, key.u.map.n * sizeof(tw_expr));
        break;
    default:
        break;
    }
    tw_unique_add(ctx, &ctx->attrs, a, a->hash, stored_hash);
    return a;
}

tw_attr tw_attr_unit(tw_context *ctx)
{
    return intern(ctx, (struct tw_attr_s){.kind = TW_ATTR_UNIT});
}

tw_attr tw_attr_bool(tw_context *ctx, bool value)
{
    return intern(ctx, (struct tw_attr_s){.kind = TW_ATTR_BOOL, .u.integer = value});
}

tw_attr tw_attr_int(tw_context *ctx, int64_t value)
{
    return intern(ctx, (struct tw_attr_s){.kind = TW_ATTR_INT, .u.integer = value});
}

tw_attr tw_attr_float(tw_context *ctx, double value)
{
    return intern(ctx, (struct tw_attr_s){.kind = TW_ATTR_FLOAT, .u.real = value});
}

tw_attr tw_attr_string(tw_context *ctx, const char *text)
{
    return tw_attr_string_n(ctx, text, strlen(text));
}

tw_attr tw_attr_string_n(tw_context *ctx, const char *text, size_t len)
{
    return intern(ctx, (struct tw_attr_s){.kind = TW_ATTR_STRING, .u.string = {text, len}});
}

tw_attr tw_attr_symbol(tw_context *ctx, const char *name)
{
    return intern(ctx,
                  (struct tw_attr_s){.kind = TW_ATTR_SYMBOL, .u.string = {name, strlen(name)}});
}

tw_attr tw_attr_type(tw_context *ctx, tw_type type)
{
    return intern(ctx, (struct tw_attr_s){.kind = TW_ATTR_TYPE, .u.type = type});
}

tw_attr tw_attr_array(tw_context *ctx, const tw_attr *items, size_t n)
{
    return intern(ctx, (struct tw_attr_s){.kind = TW_ATTR_ARRAY, .u.array = {items, n}});
}

tw_attr tw_attr_ints(tw_context *ctx, const int64_t *values, size_t n)
{
    tw_attr *items = TW_NEW_ARRAY(ctx->arena, tw_attr, n);
    for (size_t i = 0; i < n; i++)
        items[i] = tw_attr_int(ctx, values[i]);
    return tw_attr_array(ctx, items, n);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const tw_named_attr *)a)->name, ((const tw_named_attr *)b)->name);
}

tw_attr tw_attr_dict(tw_context *ctx, const tw_named_attr *items, size_t n)
{
    tw_named_attr *sorted = TW_NEW_ARRAY(ctx->arena, tw_named_attr, n);
    for (size_t i = 0; i < n; i++)
        sorted[i] =
            (tw_named_attr){tw_intern(ctx, items[i].name, strlen(items[i].name)), items[i].value};
    if (n)
        qsort(sorted, n, sizeof *sorted, by_name);
    return intern(ctx, (struct tw_attr_s){.kind = TW_ATTR_DICT, .u.dict = {sorted, n}});
}

tw_attr tw_attr_dense(tw_context *ctx, tw_type tensor_type, const void *data, size_t size)
{
    return intern(ctx,
                  (struct tw_attr_s){.kind = TW_ATTR_DENSE, .u.dense = {tensor_type, data, size}});
}

tw_attr tw_attr_map(tw_context *ctx, unsigned n_dims, const tw_expr *exprs, size_t n)
{
    return intern(ctx, (struct tw_attr_s){.kind = TW_ATTR_MAP, .u.map = {n_dims, exprs, n}});
}
