/* type.c: types, unique in their context. */
#include "ir/context_impl.h"

#include <assert.h>
#include <string.h>

static uint64_t hash_type(const struct tw_type_s *t)
{
    uint64_t h = tw_hash_mix(t->kind * 31u + t->elem, t->rank);
    for (unsigned i = 0; i < t->rank; i++)
        h = tw_hash_mix(h, (uintptr_t)t->dims[i]);
    h = tw_hash_mix(h, (uintptr_t)t->layout);
    h = tw_hash_mix(h, (uintptr_t)t->scope);
    h = tw_hash_mix(h, (uintptr_t)t->name);
    h = tw_hash_mix(h, (uintptr_t)t->params);
    for (unsigned i = 0; i < t->n_inputs; i++)
        h = tw_hash_mix(h, (uintptr_t)t->inputs[i]);
    h = tw_hash_mix(h, t->n_inputs);
    for (unsigned i = 0; i < t->n_results; i++)
        h = tw_hash_mix(h, (uintptr_t)t->results[i]);
    return h;
}

static uint64_t stored_hash(const void *stored)
{
    return ((const struct tw_type_s *)stored)->hash;
}

static bool same_pointers(const void *a, const void *b, size_t n)
{
    return !n || !memcmp(a, b, n * sizeof(void *));
}

static bool equal(const void *stored, const void *key)
{
    const struct tw_type_s *a = stored, *b = key;
    return a->kind == b->kind && a->elem == b->elem && a->rank == b->rank &&
           a->layout == b->layout && a->scope == b->scope && a->name == b->name &&
           a->params == b->params && a->n_inputs == b->n_inputs && a->n_results == b->n_results &&
           same_pointers(a->dims, b->dims, a->rank) &&
           same_pointers(a->inputs, b->inputs, a->n_inputs) &&
           same_pointers(a->results, b->results, a->n_results);
}

static tw_type intern(tw_context *ctx, struct tw_type_s key)
{
    key.hash = hash_type(&key);
    const void *found = tw_unique_find(&ctx->types, key.hash, &key, equal, stored_hash);
    if (found)
        return found;
    struct tw_type_s *t = tw_arena_memdup(ctx->arena, &key, sizeof key);
    t->dims = tw_arena_memdup(ctx->arena, key.dims, key.rank * sizeof *key.dims);
    t->inputs = tw_arena_memdup(ctx->arena, key.inputs, key.n_inputs * sizeof *key.inputs);
    t->results = tw_arena_memdup(ctx->arena, key.results, key.n_results * sizeof *key.results);
    tw_unique_add(ctx, &ctx->types, t, t->hash, stored_hash);
    return t;
}

tw_type tw_type_scalar(tw_context *ctx, tw_elem elem)
{
    return intern(ctx, (struct tw_type_s){.kind = TW_TYPE_SCALAR, .elem = elem});
}

tw_type tw_type_tensor(tw_context *ctx, tw_elem elem, unsigned rank, const tw_expr *dims,
                       tw_attr layout)
{
    assert(rank <= TW_MAX_RANK);
    return intern(
        ctx,
        (struct tw_type_s){
            .kind = TW_TYPE_TENSOR, .elem = elem, .rank = rank, .dims = dims, .layout = layout});
}

tw_type tw_type_tensor_static(tw_context *ctx, tw_elem elem, unsigned rank, const int64_t *dims)
{
    tw_expr exprs[TW_MAX_RANK];
    assert(rank <= TW_MAX_RANK);
    for (unsigned i = 0; i < rank; i++)
        exprs[i] = tw_expr_const(ctx, dims[i]);
    return tw_type_tensor(ctx, elem, rank, exprs, NULL);
}

tw_type tw_type_buffer(tw_context *ctx, tw_elem elem, unsigned rank, const tw_expr *dims,
                       const char *scope)
{
    assert(rank <= TW_MAX_RANK);
    return intern(ctx, (struct tw_type_s){.kind = TW_TYPE_BUFFER,
                                          .elem = elem,
                                          .rank = rank,
                                          .dims = dims,
                                          .scope = tw_intern(ctx, scope, strlen(scope))});
}

tw_type tw_type_vector(tw_context *ctx, tw_elem elem, int64_t lanes)
{
    tw_expr dim = tw_expr_const(ctx, lanes);
    return intern(
        ctx, (struct tw_type_s){.kind = TW_TYPE_VECTOR, .elem = elem, .rank = 1, .dims = &dim});
}

tw_type tw_type_func(tw_context *ctx, const tw_type *inputs, unsigned n_inputs,
                     const tw_type *results, unsigned n_results)
{
    return intern(ctx, (struct tw_type_s){.kind = TW_TYPE_FUNC,
                                          .inputs = inputs,
                                          .n_inputs = n_inputs,
                                          .results = results,
                                          .n_results = n_results});
}

tw_type tw_type_dialect(tw_context *ctx, const char *name, tw_attr params)
{
    return intern(ctx, (struct tw_type_s){.kind = TW_TYPE_DIALECT,
                                          .name = tw_intern(ctx, name, strlen(name)),
                                          .params = params});
}

bool tw_type_is_static(tw_type type)
{
    for (unsigned i = 0; i < type->rank; i++)
        if (!tw_expr_is_const(type->dims[i]))
            return false;
    return true;
}

bool tw_type_static_count(tw_type type, int64_t *count)
{
    int64_t product = 1;
    for (unsigned i = 0; i < type->rank; i++)
        if (!tw_expr_is_const(type->dims[i]) ||
            __builtin_mul_overflow(product, type->dims[i]->value, &product))
            return false;
    if (count)
        *count = product;
    return true;
}

int64_t tw_type_dim(tw_type type, unsigned i)
{
    assert(i < type->rank && tw_expr_is_const(type->dims[i]));
    return type->dims[i]->value;
}
