/* broadcast.c: sizes that meet in broadcasting.
 *
 * Two sizes are equal, or one of them is 1. Where only a run shows which,
 *
 *     x: [m, 3], y: [n, 3]    x + y: [s, 3],  s = max(max(m, n) - max(1 - min(m, n), 0), 0)
 *
 * s is the one that is not 1, for sizes of 0, too. Operands are expanded to it, and a graph.check
 * sees to it that each of them is 1 or s:
 *
 *     graph.check {message = "sizes do not broadcast: 'm' and 'n' …", …}
 *     %0 = graph.expand %x : tensor<s x 3 x f32>
 *     %1 = graph.expand %y : tensor<s x 3 x f32>
 *     %2 = graph.add %0, %1
 *
 * A size that s is made of meets it again in later operations; so what an s is made of is kept. */
#include "base/checked.h"
#include "import/build.h"

/* The sizes that a common one is made of. */
typedef struct parts {
    size_t n;
    tw_expr *items;
} parts;

/* Expressions of more would become too large. */
enum { MAX_PARTS = 48 };

static parts parts_of(tw_gb *g, tw_expr *size)
{
    const parts *known = tw_map_get_ptr(&g->common, *size);
    return known ? *known : (parts){1, size};
}

static void add_part(tw_expr *items, size_t *n, tw_expr e)
{
    for (size_t i = 0; i < *n; i++)
        if (items[i] == e)
            return;
    items[(*n)++] = e;
}

/* The size above; where too many meet, the first, which may not be 1 then. */
static tw_expr join(tw_gb *g, tw_expr a, tw_expr b)
{
    tw_context *ctx = g->ctx;
    tw_expr items[2 * MAX_PARTS], zero = tw_gb_const(g, 0), one = tw_gb_const(g, 1);
    size_t n = 0;
    for (int side = 0; side < 2; side++) {
        tw_expr whole = side ? b : a;
        parts p = parts_of(g, &whole);
        for (size_t i = 0; i < p.n; i++)
            add_part(items, &n, p.items[i]);
    }
    if (n > MAX_PARTS || n == parts_of(g, &a).n)
        return a;
    if (n == parts_of(g, &b).n)
        return b;
    tw_expr most = items[0], least = items[0];
    for (size_t i = 1; i < n; i++) {
        most = tw_expr_binary(ctx, TW_EXPR_MAX, most, items[i]);
        least = tw_expr_binary(ctx, TW_EXPR_MIN, least, items[i]);
    }
    tw_expr gone = tw_expr_binary(ctx, TW_EXPR_MAX, tw_expr_sub(ctx, one, least), zero);
    tw_expr size = tw_expr_binary(ctx, TW_EXPR_MAX, tw_expr_sub(ctx, most, gone), zero);
    if (!tw_map_get_ptr(&g->common, size)) {
        parts *kept = TW_NEW(g->arena, parts);
        *kept = (parts){n, tw_arena_memdup(g->arena, items, n * sizeof *items)};
        tw_map_put_ptr(&g->common, size, kept);
    }
    return size;
}

/* Whether the size is certainly not 1: a number, at least 2, or 2 * n and the like. */
static bool is_never_one(tw_gb *g, tw_expr e)
{
    tw_range r = tw_expr_range(e, NULL, 0);
    if (r.lo > 1 || r.hi < 1)
        return true;
    for (tw_expr x = e; x; x = x->kind == TW_EXPR_ADD ? x->lhs : NULL) {
        tw_expr term = x->kind == TW_EXPR_ADD ? x->rhs : x;
        if (term->kind != TW_EXPR_MUL || !tw_expr_is_const(term->rhs) || term->rhs->value < 2)
            continue;
        tw_expr rest = tw_expr_binary(g->ctx, TW_EXPR_MOD, e, term->rhs);
        if (tw_expr_is_const(rest) && rest->value != 1)
            return true;
    }
    return false;
}

/* The values of a symbol, and no others, for which an expression may be in lo..hi. */
typedef struct solution {
    const char *symbol;
    int64_t lo, hi;
} solution;

/* Of min(n, 512) = 1 it is n = 1, of (n + 15) floordiv 16 = 1 it is n in 1..16. False when the
 * expression has another form. */
static bool solve(tw_expr e, solution *s)
{
    enum { MOST = 1 << 20 };
    for (; e->kind != TW_EXPR_SYM; e = e->lhs) {
        if (!e->lhs || !tw_expr_is_const(e->rhs) || s->lo < -MOST || s->hi > MOST)
            return false;
        int64_t c = e->rhs->value;
        if (c < -MOST || c > MOST)
            return false;
        if (e->kind == TW_EXPR_ADD)
            *s = (solution){NULL, s->lo - c, s->hi - c};
        else if (e->kind == TW_EXPR_MUL && c > 0)
            *s = (solution){NULL, -tw_floordiv_i64(-s->lo, c), tw_floordiv_i64(s->hi, c)};
        else if (e->kind == TW_EXPR_FLOORDIV && c > 0)
            *s = (solution){NULL, s->lo * c, s->hi * c + c - 1};
        else if (!(e->kind == TW_EXPR_MIN && c > s->hi) && !(e->kind == TW_EXPR_MAX && c < s->lo))
            return false;
    }
    s->symbol = e->symbol;
    return true;
}

typedef struct binding {
    const char *symbol;
    tw_expr value;
} binding;

static tw_expr bound_value(void *data, const char *symbol)
{
    const binding *b = data;
    return b->symbol == symbol ? b->value : NULL;
}

/* Whether the second size is 1 wherever the first is. Where they meet, the first is the common one
 * then. */
static bool is_one_with(tw_gb *g, tw_expr a, tw_expr b)
{
    enum { MOST = 64 };
    solution s = {NULL, 1, 1};
    if (is_never_one(g, a))
        return true;
    if (!solve(a, &s) || s.hi - s.lo > MOST)
        return false;
    for (int64_t i = s.lo > 0 ? s.lo : 0; i <= s.hi; i++) {
        binding value = {s.symbol, tw_gb_const(g, i)};
        if (tw_expr_bind_symbols(g->ctx, b, bound_value, &value) != tw_gb_const(g, 1))
            return false;
    }
    return true;
}

bool tw_gb_same_size(tw_gb *g, tw_expr a, tw_expr b)
{
    tw_expr zero = tw_gb_const(g, 0);
    return a == b || tw_expr_binary(g->ctx, TW_EXPR_MAX, a, zero) ==
                         tw_expr_binary(g->ctx, TW_EXPR_MAX, b, zero);
}

tw_expr tw_gb_common_size(tw_gb *g, tw_expr a, tw_expr b)
{
    tw_expr one = tw_gb_const(g, 1);
    if (a == one || b == one)
        return a == one ? b : a;
    if (tw_gb_same_size(g, a, b))
        return a;
    bool with_a = is_one_with(g, a, b), with_b = is_one_with(g, b, a);
    if (with_a && with_b && tw_gb_differ(g, a, b))
        return NULL;
    if (tw_expr_is_const(b) || (with_b && !with_a))
        return b;
    return with_a ? a : join(g, a, b);
}

/* The sizes, as a message says them. */
static const char *spell(tw_gb *g, tw_expr size, tw_expr common)
{
    const char *text = tw_arena_printf(g->arena, "'%s'", tw_print_expr(g->ctx, size, NULL));
    parts p = parts_of(g, &common);
    for (size_t i = 0; i < p.n; i++)
        if (p.items[i] != size)
            text = tw_arena_printf(g->arena, "%s and '%s'", text,
                                   tw_print_expr(g->ctx, p.items[i], NULL));
    return text;
}

static tw_expr distance(tw_context *ctx, tw_expr a, tw_expr b)
{
    return tw_expr_binary(ctx, TW_EXPR_MAX, tw_expr_sub(ctx, a, b), tw_expr_sub(ctx, b, a));
}

bool tw_gb_check_common(tw_gb *g, tw_expr size, tw_expr common)
{
    tw_expr one = tw_gb_const(g, 1);
    if (size == one)
        return true;
    if (is_one_with(g, size, common))
        return tw_gb_check_equal(g, size, common, "sizes that must agree");
    tw_expr least = tw_expr_binary(g->ctx, TW_EXPR_MIN, distance(g->ctx, size, one),
                                   distance(g->ctx, size, common));
    return tw_gb_check(g, tw_expr_mulc(g->ctx, least, -1),
                       "sizes do not broadcast: %s are neither equal nor 1",
                       spell(g, size, common));
}

tw_value *tw_gb_fit(tw_gb *g, tw_value *x, unsigned rank, const tw_expr *dims)
{
    tw_expr same[TW_MAX_RANK], wide[TW_MAX_RANK], one = tw_gb_const(g, 1);
    if (!x)
        return NULL;
    unsigned own = x->type->rank;
    bool fits = own <= rank;
    for (unsigned i = 0; fits && i < own; i++) {
        tw_expr size = x->type->dims[i], to = dims[rank - own + i];
        bool equal = to == one || tw_gb_same_size(g, size, to) || is_one_with(g, size, to);
        same[i] = equal && size != one ? to : size;
        wide[i] = size == one ? one : to;
        fits = size == one || !equal || !tw_gb_differ(g, size, to);
        if (fits && !equal && !tw_gb_check_common(g, size, to))
            return NULL;
    }
    if (!fits)
        return tw_gb_error(
            g, "%s does not broadcast to %s", tw_gb_type_text(g, x->type),
            tw_gb_type_text(g, tw_type_tensor(g->ctx, x->type->elem, rank, dims, NULL)));
    x = tw_gb_conform(g, x, same);
    tw_type type = x ? tw_type_tensor(g->ctx, x->type->elem, own, wide, NULL) : NULL;
    return !x || x->type == type ? x : tw_gb_emit(g, TW_GRAPH_EXPAND, &x, 1, type, NULL, 0);
}
