/* expr.c: unique expressions, queries, evaluation and substitution. */
#include "ir/expr_impl.h"

#include "base/checked.h"
#include "ir/context_impl.h"

#include <string.h>

static uint64_t hash_of(const void *stored)
{
    return ((tw_expr)stored)->hash;
}

static bool equal(const void *stored, const void *key)
{
    tw_expr a = stored, b = key;
    return a->kind == b->kind && a->value == b->value && a->symbol == b->symbol &&
           a->lhs == b->lhs && a->rhs == b->rhs;
}

/* By content, not by address, so that tables are laid out alike in every run. */
static uint64_t hash_expr(tw_expr e)
{
    uint64_t h = tw_hash_mix(0x7477, (uint64_t)e->kind);
    h = tw_hash_mix(h, (uint64_t)e->value);
    if (e->symbol)
        h = tw_hash_mix(h, tw_hash_bytes(e->symbol, strlen(e->symbol), 0));
    if (e->lhs)
        h = tw_hash_mix(tw_hash_mix(h, e->lhs->hash), e->rhs->hash);
    return h;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Depth, size and dimensions of a new node; false when it is too large. */
static bool measure(tw_expr_node *node)
{
    tw_expr e = &node->base;
    node->depth = node->size = 1;
    node->symbols = e->kind == TW_EXPR_SYM;
    if (e->kind == TW_EXPR_DIM) {
        node->dims = (uint32_t)e->value + 1;
        node->low_dims = e->value < 64 ? (uint64_t)1 << e->value : 0;
    }
    if (e->lhs) {
        const tw_expr_node *l = tw_expr_node_of(e->lhs), *r = tw_expr_node_of(e->rhs);
        node->depth += larger(l->depth, r->depth);
        node->size += l->size + r->size;
        node->dims = larger(l->dims, r->dims);
        node->low_dims = l->low_dims | r->low_dims;
        node->symbols = l->symbols || r->symbols;
    }
    return node->depth <= TW_EXPR_MAX_DEPTH && node->size <= TW_EXPR_MAX_SIZE;
}

tw_expr tw_expr_intern(tw_context *ctx, tw_expr_kind kind, int64_t value, const char *symbol,
                       tw_expr lhs, tw_expr rhs)
{
    tw_expr_node key = {.base = {kind, value, symbol, lhs, rhs, 0}};
    if (lhs && (lhs->kind == TW_EXPR_INVALID || rhs->kind == TW_EXPR_INVALID))
        return tw_expr_invalid(ctx);
    if (!measure(&key))
        return tw_expr_invalid(ctx);
    key.base.hash = hash_expr(&key.base);
    tw_expr found = tw_unique_find(&ctx->exprs, key.base.hash, &key.base, equal, hash_of);
    if (found)
        return found;
    tw_expr_node *node = tw_arena_memdup(ctx->arena, &key, sizeof key);
    tw_unique_add(ctx, &ctx->exprs, &node->base, key.base.hash, hash_of);
    return &node->base;
}

tw_expr tw_expr_const(tw_context *ctx, int64_t value)
{
    return tw_expr_intern(ctx, TW_EXPR_CONST, value, NULL, NULL, NULL);
}

tw_expr tw_expr_dim(tw_context *ctx, unsigned index)
{
    return tw_expr_intern(ctx, TW_EXPR_DIM, index, NULL, NULL, NULL);
}

tw_expr tw_expr_sym(tw_context *ctx, const char *name)
{
    return tw_expr_intern(ctx, TW_EXPR_SYM, 0, tw_intern(ctx, name, strlen(name)), NULL, NULL);
}

tw_expr tw_expr_invalid(tw_context *ctx)
{
    return tw_expr_intern(ctx, TW_EXPR_INVALID, 0, NULL, NULL, NULL);
}

bool tw_expr_as_const(tw_expr e, int64_t *out)
{
    if (e->kind != TW_EXPR_CONST)
        return false;
    *out = e->value;
    return true;
}

unsigned tw_expr_dim_count(tw_expr e)
{
    return tw_expr_node_of(e)->dims;
}

bool tw_expr_uses_dim(tw_expr e, unsigned index)
{
    const tw_expr_node *node = tw_expr_node_of(e);
    if (index < 64)
        return node->low_dims >> index & 1;
    if (index >= node->dims)
        return false;
    if (e->kind == TW_EXPR_DIM)
        return e->value == index;
    return e->lhs && (tw_expr_uses_dim(e->lhs, index) || tw_expr_uses_dim(e->rhs, index));
}

int tw_expr_compare(tw_expr a, tw_expr b)
{
    /* Subtrees are unique, so the first pair that differs decides: a walk down one path. */
    while (a != b) {
        if (a->kind != b->kind)
            return a->kind < b->kind ? -1 : 1;
        if (a->kind == TW_EXPR_SYM)
            return strcmp(a->symbol, b->symbol) < 0 ? -1 : 1;
        if (!a->lhs)
            return a->value < b->value ? -1 : 1;
        bool left = a->lhs != b->lhs;
        tw_expr next = left ? a->lhs : a->rhs;
        b = left ? b->lhs : b->rhs;
        a = next;
    }
    return 0;
}

/* Replacement of leaves: what tw_expr_substitute and tw_expr_bind_symbols share. */
typedef struct leaves {
    const tw_expr *dims;
    size_t n_dims;
    tw_expr (*lookup)(void *data, const char *symbol);
    void *data;
} leaves;

static tw_expr replace_leaves(tw_context *ctx, tw_expr e, const leaves *by)
{
    const tw_expr_node *node = tw_expr_node_of(e);
    if (!(by->n_dims && node->dims) && !(by->lookup && node->symbols))
        return e;
    if (e->kind == TW_EXPR_DIM)
        return (size_t)e->value < by->n_dims && by->dims[e->value] ? by->dims[e->value] : e;
    if (e->kind == TW_EXPR_SYM) {
        tw_expr to = by->lookup(by->data, e->symbol);
        return to ? to : e;
    }
    tw_expr lhs = replace_leaves(ctx, e->lhs, by), rhs = replace_leaves(ctx, e->rhs, by);
    return lhs == e->lhs && rhs == e->rhs ? e : tw_expr_binary(ctx, e->kind, lhs, rhs);
}

tw_expr tw_expr_substitute(tw_context *ctx, tw_expr e, const tw_expr *dims, size_t n)
{
    return replace_leaves(ctx, e, &(leaves){.dims = dims, .n_dims = n});
}

tw_expr tw_expr_bind_symbols(tw_context *ctx, tw_expr e,
                             tw_expr (*lookup)(void *data, const char *symbol), void *data)
{
    return replace_leaves(ctx, e, &(leaves){.lookup = lookup, .data = data});
}

/* One operation on numbers; false on overflow or a divisor below 1. */
static bool eval_binary(tw_expr_kind kind, int64_t a, int64_t b, int64_t *out)
{
    int64_t sum;
    switch (kind) {
    case TW_EXPR_ADD:
        return tw_add_i64(a, b, out);
    case TW_EXPR_MUL:
        return tw_mul_i64(a, b, out);
    case TW_EXPR_FLOORDIV:
        return b > 0 && (*out = tw_floordiv_i64(a, b), true);
    case TW_EXPR_CEILDIV:
        return b > 0 && tw_add_i64(a, b - 1, &sum) && (*out = tw_floordiv_i64(sum, b), true);
    case TW_EXPR_MOD:
        return b > 0 && (*out = tw_mod_i64(a, b), true);
    case TW_EXPR_MIN:
        *out = a < b ? a : b;
        return true;
    case TW_EXPR_MAX:
        *out = a > b ? a : b;
        return true;
    default:
        return false;
    }
}

bool tw_expr_eval(tw_expr e, const int64_t *dims, size_t n_dims,
                  bool (*symbol)(void *data, const char *name, int64_t *out), void *data,
                  int64_t *out)
{
    switch (e->kind) {
    case TW_EXPR_CONST:
        *out = e->value;
        return true;
    case TW_EXPR_DIM:
        return (size_t)e->value < n_dims && (*out = dims[e->value], true);
    case TW_EXPR_SYM:
        return symbol && symbol(data, e->symbol, out);
    case TW_EXPR_INVALID:
        return false;
    default:
        break;
    }
    int64_t a, b;
    return tw_expr_eval(e->lhs, dims, n_dims, symbol, data, &a) &&
           tw_expr_eval(e->rhs, dims, n_dims, symbol, data, &b) && eval_binary(e->kind, a, b, out);
}

bool tw_expr_linear(tw_expr e, int64_t *coefficients, size_t n, int64_t *constant)
{
    memset(coefficients, 0, n * sizeof *coefficients);
    *constant = 0;
    for (; e; e = e->kind == TW_EXPR_ADD ? e->lhs : NULL) {
        tw_expr part = e->kind == TW_EXPR_ADD ? e->rhs : e;
        if (part->kind == TW_EXPR_CONST) {
            *constant = part->value;
            continue;
        }
        tw_term t = tw_term_of(part);
        if (t.key->kind != TW_EXPR_DIM || (size_t)t.key->value >= n)
            return false;
        coefficients[t.key->value] = t.coef;
    }
    return true;
}
