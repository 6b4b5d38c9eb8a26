/* Tests of expressions: canonical form, ranges, simplification, substitution. */
#include "base/checked.h"
#include "tilewright/ir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static tw_context *ctx;

static int setup(void **state)
{
    (void)state;
    ctx = tw_context_create(0);
    return ctx ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    tw_context_destroy(ctx);
    return 0;
}

static tw_expr d(unsigned i)
{
    return tw_expr_dim(ctx, i);
}
static tw_expr c(int64_t v)
{
    return tw_expr_const(ctx, v);
}
static tw_expr add(tw_expr a, tw_expr b)
{
    return tw_expr_add(ctx, a, b);
}
static tw_expr mul(tw_expr a, int64_t b)
{
    return tw_expr_mulc(ctx, a, b);
}
static tw_expr fdiv(tw_expr a, int64_t b)
{
    return tw_expr_binary(ctx, TW_EXPR_FLOORDIV, a, c(b));
}
static tw_expr mod(tw_expr a, int64_t b)
{
    return tw_expr_binary(ctx, TW_EXPR_MOD, a, c(b));
}
static tw_expr min(tw_expr a, tw_expr b)
{
    return tw_expr_binary(ctx, TW_EXPR_MIN, a, b);
}
static tw_expr max(tw_expr a, tw_expr b)
{
    return tw_expr_binary(ctx, TW_EXPR_MAX, a, b);
}

static void sums_are_canonical(void **state)
{
    (void)state;
    assert_ptr_equal(add(d(0), d(1)), add(d(1), d(0)));
    assert_ptr_equal(add(c(3), add(mul(d(1), 2), add(d(0), d(1)))),
                     add(add(d(0), mul(d(1), 3)), c(3)));
    assert_ptr_equal(tw_expr_sub(ctx, d(0), d(0)), c(0));
    assert_ptr_equal(add(tw_expr_sub(ctx, d(0), d(1)), d(1)), d(0));
    tw_expr e = add(add(d(0), c(3)), mul(d(1), 2));
    assert_int_equal(e->kind, TW_EXPR_ADD);
    assert_int_equal(e->rhs->kind, TW_EXPR_CONST);
    assert_ptr_equal(mul(add(d(0), c(1)), 4), add(mul(d(0), 4), c(4)));
    /* (d0 + 1) * (d1 + 2) multiplies out. */
    tw_expr product = tw_expr_mul(ctx, add(d(0), c(1)), add(d(1), c(2)));
    assert_ptr_equal(product,
                     add(add(tw_expr_mul(ctx, d(1), d(0)), mul(d(0), 2)), add(d(1), c(2))));
}

static void divisions_fold(void **state)
{
    (void)state;
    assert_ptr_equal(fdiv(d(0), 1), d(0));
    assert_ptr_equal(mod(d(0), 1), c(0));
    assert_ptr_equal(fdiv(c(-7), 4), c(-2));
    assert_ptr_equal(mod(c(-7), 4), c(1));
    assert_ptr_equal(fdiv(add(mul(d(0), 16), c(35)), 16), add(d(0), c(2)));
    assert_ptr_equal(fdiv(add(mul(d(0), 32), d(1)), 16), add(mul(d(0), 2), fdiv(d(1), 16)));
    assert_ptr_equal(mod(add(mul(d(0), 32), d(1)), 16), mod(d(1), 16));
    assert_ptr_equal(mod(mul(d(0), 4), 16), mul(mod(d(0), 4), 4));
    assert_ptr_equal(fdiv(add(mul(d(0), 4), c(3)), 16), fdiv(d(0), 4));
    assert_ptr_equal(fdiv(fdiv(d(0), 4), 3), fdiv(d(0), 12));
    assert_ptr_equal(mod(mod(d(0), 12), 4), mod(d(0), 4));
    assert_ptr_equal(fdiv(mod(d(0), 12), 4), mod(fdiv(d(0), 4), 3));
    assert_ptr_equal(tw_expr_binary(ctx, TW_EXPR_CEILDIV, d(0), c(6)), fdiv(add(d(0), c(5)), 6));
    assert_int_equal(fdiv(d(0), 0)->kind, TW_EXPR_INVALID);
    assert_int_equal(mod(d(0), -3)->kind, TW_EXPR_INVALID);
}

static void divisions_join(void **state)
{
    (void)state;
    tw_expr f = d(0);
    assert_ptr_equal(add(mul(fdiv(f, 12), 12), mod(f, 12)), f);
    assert_ptr_equal(tw_expr_sub(ctx, f, mul(fdiv(f, 12), 12)), mod(f, 12));
    /* Three loops fused and linearised again. */
    tw_expr i = fdiv(f, 35), j = mod(fdiv(f, 7), 5), k = mod(f, 7);
    assert_ptr_equal(add(add(mul(i, 35), mul(j, 7)), k), f);
    assert_ptr_equal(mul(add(add(mul(i, 35), mul(j, 7)), k), 3), mul(f, 3));
    /* The same with a symbolic extent. */
    tw_expr n = tw_expr_sym(ctx, "n");
    tw_expr q = tw_expr_binary(ctx, TW_EXPR_FLOORDIV, f, n),
            r = tw_expr_binary(ctx, TW_EXPR_MOD, f, n);
    assert_ptr_equal(add(tw_expr_mul(ctx, q, n), r), f);
    assert_ptr_equal(tw_expr_binary(ctx, TW_EXPR_FLOORDIV, add(tw_expr_mul(ctx, d(1), n), f), n),
                     add(d(1), q));
}

static void extrema_fold(void **state)
{
    (void)state;
    assert_ptr_equal(min(d(0), d(0)), d(0));
    assert_ptr_equal(min(c(3), c(4)), c(3));
    assert_ptr_equal(max(min(d(0), c(3)), min(c(3), d(0))), min(d(0), c(3)));
    assert_ptr_equal(min(add(d(0), c(2)), d(0)), d(0));
    assert_ptr_equal(min(min(d(0), c(5)), min(d(1), c(4))), min(c(4), min(d(1), d(0))));
    /* Symbols are sizes: at least 0. */
    tw_expr n = tw_expr_sym(ctx, "n"), m = tw_expr_sym(ctx, "m");
    assert_ptr_equal(min(n, c(0)), c(0));
    assert_ptr_equal(max(add(n, m), n), add(n, m));
    assert_ptr_equal(max(n, c(INT64_MIN)), n);
    assert_ptr_not_equal(max(n, m), n);
    assert_ptr_not_equal(max(n, c(1)), n);
}

static void overflow_is_invalid(void **state)
{
    (void)state;
    tw_expr bad = mul(c(INT64_MAX), 2);
    assert_int_equal(bad->kind, TW_EXPR_INVALID);
    assert_ptr_equal(add(bad, d(0)), bad);
    assert_ptr_equal(min(d(0), bad), bad);
    assert_ptr_equal(fdiv(bad, 2), bad);
    assert_int_equal(add(mul(d(0), INT64_MAX), d(0))->kind, TW_EXPR_INVALID);
    int64_t value, big = INT64_MAX;
    assert_false(tw_expr_eval(add(d(0), c(1)), &big, 1, NULL, NULL, &value));
    assert_false(tw_expr_eval(d(3), &big, 1, NULL, NULL, &value));
}

static void size_is_bounded(void **state)
{
    (void)state;
    /* Doubling a tree: 2^100 leaves must end as invalid and fast. */
    tw_expr e = d(0);
    for (int i = 0; i < 100; i++)
        e = min(fdiv(e, 3), add(mod(e, 5), d(1)));
    assert_int_equal(e->kind, TW_EXPR_INVALID);
    e = d(0);
    for (int i = 0; i < 100000 && e->kind != TW_EXPR_INVALID; i++)
        e = fdiv(add(mul(e, 3), d(1)), 2);
    assert_int_equal(e->kind, TW_EXPR_INVALID);
    e = c(0);
    for (unsigned i = 1000; i-- > 0;)
        e = add(e, d(i));
    assert_int_equal(e->kind, TW_EXPR_INVALID);
}

static void simplify_uses_bounds(void **state)
{
    (void)state;
    tw_range r[3] = {{.lo = 0, .hi = 9}, {.lo = 0, .hi = 15}, {.lo = 0, .hi = 5}};
    tw_expr e = add(mul(d(0), 16), d(1));
    assert_ptr_equal(tw_expr_simplify(ctx, fdiv(e, 16), r, 3), d(0));
    assert_ptr_equal(tw_expr_simplify(ctx, mod(e, 16), r, 3), d(1));
    e = add(mul(d(0), 6), d(2));
    assert_ptr_equal(tw_expr_simplify(ctx, fdiv(e, 12), r, 3), fdiv(d(0), 2));
    assert_ptr_equal(tw_expr_simplify(ctx, mod(e, 12), r, 3), add(mul(mod(d(0), 2), 6), d(2)));
    assert_ptr_equal(tw_expr_simplify(ctx, mod(d(1), 16), r, 3), d(1));
    assert_ptr_equal(tw_expr_simplify(ctx, mod(add(d(1), c(32)), 16), r, 3), d(1));
    assert_ptr_equal(tw_expr_simplify(ctx, min(d(1), c(15)), r, 3), d(1));
    assert_ptr_equal(tw_expr_simplify(ctx, min(d(1), add(d(2), c(20))), r, 3), d(1));
    assert_ptr_equal(tw_expr_simplify(ctx, max(c(0), d(1)), r, 3), d(1));
    assert_ptr_equal(tw_expr_simplify(ctx, fdiv(add(d(2), c(-6)), 6), r, 3), c(-1));
    /* Symbols are at least 0. */
    tw_expr n = tw_expr_sym(ctx, "n");
    assert_ptr_equal(tw_expr_simplify(ctx, max(n, c(0)), r, 3), n);
}

static tw_expr n_sym(void)
{
    return tw_expr_sym(ctx, "n");
}
static tw_expr m_sym(void)
{
    return tw_expr_sym(ctx, "m");
}
static tw_expr times(tw_expr a, tw_expr b)
{
    return tw_expr_mul(ctx, a, b);
}
static tw_expr over(tw_expr a, tw_expr b)
{
    return tw_expr_binary(ctx, TW_EXPR_FLOORDIV, a, b);
}
static tw_expr rest(tw_expr a, tw_expr b)
{
    return tw_expr_binary(ctx, TW_EXPR_MOD, a, b);
}
static tw_expr less_one(tw_expr e)
{
    return tw_expr_addc(ctx, e, -1);
}
static tw_range below(tw_expr end)
{
    return (tw_range){.lo = 0, .hi = INT64_MAX, .top = less_one(end)};
}

static void simplify_uses_symbolic_bounds(void **state)
{
    (void)state;
    tw_expr n = n_sym(), m = m_sym(), mn = times(m, n);
    /* d0 < 10, d1 < n, d2 < m, d3 < m * n, d4 < ceil(n / 6) */
    tw_range r[5] = {
        {.lo = 0, .hi = 9}, below(n), below(m), below(mn), below(fdiv(add(n, c(5)), 6))};
    tw_expr e = add(times(d(0), n), d(1));
    assert_ptr_equal(tw_expr_simplify(ctx, over(e, n), r, 5), d(0));
    assert_ptr_equal(tw_expr_simplify(ctx, rest(e, n), r, 5), d(1));
    e = add(times(d(2), n), d(1));
    assert_ptr_equal(tw_expr_simplify(ctx, over(e, mn), r, 5), c(0));
    assert_ptr_equal(tw_expr_simplify(ctx, rest(e, mn), r, 5), e);
    e = add(times(d(0), n), d(1));
    assert_ptr_equal(tw_expr_simplify(ctx, over(e, mn), r, 5), over(d(0), m));
    assert_ptr_equal(tw_expr_simplify(ctx, rest(e, mn), r, 5), add(times(rest(d(0), m), n), d(1)));
    assert_ptr_equal(tw_expr_simplify(ctx, over(d(3), mn), r, 5), c(0));
    assert_ptr_equal(tw_expr_simplify(ctx, rest(over(d(3), n), m), r, 5), over(d(3), n));
    assert_ptr_equal(tw_expr_simplify(ctx, over(d(1), add(n, m)), r, 5), c(0));
    assert_ptr_equal(tw_expr_simplify(ctx, min(d(1), n), r, 5), d(1));
    assert_ptr_equal(tw_expr_simplify(ctx, max(less_one(n), d(1)), r, 5), less_one(n));
    /* What may be is left. */
    e = over(add(d(1), c(1)), n);
    assert_ptr_equal(tw_expr_simplify(ctx, e, r, 5), e);
    e = over(d(1), m);
    assert_ptr_equal(tw_expr_simplify(ctx, e, r, 5), e);
}

static void symbolic_bounds_are_shown(void **state)
{
    (void)state;
    tw_expr n = n_sym(), m = m_sym();
    tw_expr tiles = fdiv(add(n, c(5)), 6);
    tw_range r[3] = {below(n), below(times(m, n)), below(tiles)};
    assert_true(tw_expr_at_least(ctx, tw_expr_sub(ctx, n, d(0)), 1, r, 3));
    assert_false(tw_expr_at_least(ctx, tw_expr_sub(ctx, n, d(0)), 2, r, 3));
    assert_true(tw_expr_at_least(ctx, n, 1, r, 1));  /* d0 exists */
    assert_false(tw_expr_at_least(ctx, n, 1, r, 0)); /* n may be 0 */
    assert_true(tw_expr_at_least(ctx, m, 1, r + 1, 1));
    assert_true(tw_expr_at_least(ctx, n, 1, r + 2, 1));
    /* A tile has one row at least. */
    assert_true(tw_expr_at_least(ctx, tw_expr_sub(ctx, less_one(n), mul(d(2), 6)), 0, r, 3));
    assert_false(tw_expr_at_least(ctx, tw_expr_sub(ctx, n, mul(d(2), 6)), 2, r, 3));
    assert_ptr_equal(tw_expr_top(ctx, add(times(d(0), m), c(2)), r, 3),
                     add(tw_expr_sub(ctx, times(m, n), m), c(2)));
    assert_ptr_equal(tw_expr_top(ctx, over(d(1), n), r, 3), add(m, over(c(-1), n)));
    assert_null(tw_expr_top(ctx, d(3), r, 3));
}

static tw_expr bind_n(void *data, const char *name)
{
    return strcmp(name, "n") ? NULL : data;
}

static bool eval_n(void *data, const char *name, int64_t *out)
{
    *out = *(int64_t *)data;
    return !strcmp(name, "n");
}

static void symbols_bind_and_evaluate(void **state)
{
    (void)state;
    tw_expr n = tw_expr_sym(ctx, "n"), m = tw_expr_sym(ctx, "m");
    tw_expr e = add(fdiv(add(n, c(5)), 6), m);
    assert_ptr_equal(tw_expr_bind_symbols(ctx, e, bind_n, (void *)c(13)), add(m, c(3)));
    int64_t value = 13, out;
    assert_true(tw_expr_eval(fdiv(n, 6), NULL, 0, eval_n, &value, &out));
    assert_int_equal(out, 2);
    assert_false(tw_expr_eval(m, NULL, 0, eval_n, &value, &out));
}

static void linear_forms(void **state)
{
    (void)state;
    int64_t coef[3], constant;
    tw_expr e = add(add(mul(d(0), 5), mul(d(2), -1)), c(7));
    assert_true(tw_expr_linear(e, coef, 3, &constant));
    assert_int_equal(coef[0], 5);
    assert_int_equal(coef[1], 0);
    assert_int_equal(coef[2], -1);
    assert_int_equal(constant, 7);
    assert_false(tw_expr_linear(fdiv(d(0), 2), coef, 3, &constant));
    assert_false(tw_expr_linear(d(3), coef, 3, &constant));
    assert_true(tw_expr_linear(c(4), coef, 3, &constant));
    assert_int_equal(constant, 4);
    assert_true(tw_expr_uses_dim(e, 2));
    assert_false(tw_expr_uses_dim(e, 1));
    assert_int_equal(tw_expr_dim_count(e), 3);
    assert_true(tw_expr_uses_dim(add(d(100), d(70)), 70));
    assert_false(tw_expr_uses_dim(add(d(100), d(70)), 71));
}

/* ---- Random expressions against an evaluator of their own ---------------------------------------
 */

typedef struct tree {
    tw_expr_kind kind; /* SYM: n or m, by value */
    int64_t value;
    struct tree *lhs, *rhs;
} tree;

static uint64_t seed = 88172645463325252u;
static uint64_t random_below(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % n;
}

enum { DIMS = 3, MAX_NODES = 64, SIZES = 2 };
static tree nodes[MAX_NODES];
static size_t n_nodes;
static bool symbolic; /* whether leaves may be symbols */
static const char *const size_names[SIZES] = {"n", "m"};
static int64_t sizes[SIZES]; /* values of the symbols */

static tree *random_tree(int depth)
{
    tree *t = &nodes[n_nodes++];
    if (depth == 0 || random_below(6) == 0) {
        bool constant = random_below(3) == 0;
        *t = (tree){constant ? TW_EXPR_CONST : TW_EXPR_DIM,
                    constant ? (int64_t)random_below(41) - 20 : (int64_t)random_below(DIMS), NULL,
                    NULL};
        if (symbolic && random_below(3) == 0)
            *t = (tree){TW_EXPR_SYM, (int64_t)random_below(SIZES), NULL, NULL};
        return t;
    }
    static const tw_expr_kind kinds[] = {
        TW_EXPR_ADD,     TW_EXPR_ADD, TW_EXPR_MUL, TW_EXPR_FLOORDIV, TW_EXPR_FLOORDIV,
        TW_EXPR_CEILDIV, TW_EXPR_MOD, TW_EXPR_MOD, TW_EXPR_MIN,      TW_EXPR_MAX};
    t->kind = kinds[random_below(sizeof kinds / sizeof *kinds)];
    t->lhs = random_tree(depth - 1);
    bool divides =
        t->kind == TW_EXPR_FLOORDIV || t->kind == TW_EXPR_CEILDIV || t->kind == TW_EXPR_MOD;
    if (!(divides || t->kind == TW_EXPR_MUL) || random_below(symbolic ? 2 : 8) == 0) {
        t->rhs = random_tree(depth - 1);
        return t;
    }
    static const int64_t factors[] = {1, 2, 3, 4, 6, 8, 12, 16};
    t->rhs = &nodes[n_nodes++];
    *t->rhs = (tree){TW_EXPR_CONST, factors[random_below(8)], NULL, NULL};
    if (!divides && random_below(4) == 0)
        t->rhs->value = -t->rhs->value;
    return t;
}

static tw_expr build(const tree *t)
{
    if (t->kind == TW_EXPR_CONST)
        return c(t->value);
    if (t->kind == TW_EXPR_DIM)
        return d((unsigned)t->value);
    if (t->kind == TW_EXPR_SYM)
        return tw_expr_sym(ctx, size_names[t->value]);
    return tw_expr_binary(ctx, t->kind, build(t->lhs), build(t->rhs));
}

static bool value_of(const tree *t, const int64_t *dims, int64_t *out)
{
    int64_t a, b;
    if (t->kind == TW_EXPR_CONST || t->kind == TW_EXPR_DIM) {
        *out = t->kind == TW_EXPR_CONST ? t->value : dims[t->value];
        return true;
    }
    if (t->kind == TW_EXPR_SYM) {
        *out = sizes[t->value];
        return true;
    }
    if (!value_of(t->lhs, dims, &a) || !value_of(t->rhs, dims, &b))
        return false;
    switch (t->kind) {
    case TW_EXPR_ADD:
        *out = a + b;
        return true;
    case TW_EXPR_MUL:
        *out = a * b;
        return true;
    case TW_EXPR_FLOORDIV:
        return b > 0 && (*out = tw_floordiv_i64(a, b), true);
    case TW_EXPR_CEILDIV:
        return b > 0 && (*out = -tw_floordiv_i64(-a, b), true);
    case TW_EXPR_MOD:
        return b > 0 && (*out = a - b * tw_floordiv_i64(a, b), true);
    case TW_EXPR_MIN:
        *out = a < b ? a : b;
        return true;
    default:
        *out = a > b ? a : b;
        return true;
    }
}

/* Whether canonical and simplified forms agree with the tree everywhere in range. */
static void check_tree(const tree *t, const tw_range *r)
{
    tw_expr e = build(t), s = tw_expr_simplify(ctx, e, r, DIMS);
    tw_range bound = tw_expr_range(e, r, DIMS), bound_s = tw_expr_range(s, r, DIMS);
    int64_t p[DIMS], want, got;
    for (p[0] = r[0].lo; p[0] <= r[0].hi; p[0]++)
        for (p[1] = r[1].lo; p[1] <= r[1].hi; p[1]++)
            for (p[2] = r[2].lo; p[2] <= r[2].hi; p[2]++) {
                if (!value_of(t, p, &want))
                    continue;
                assert_true(tw_expr_eval(e, p, DIMS, NULL, NULL, &got));
                assert_int_equal(got, want);
                assert_true(tw_expr_eval(s, p, DIMS, NULL, NULL, &got));
                assert_int_equal(got, want);
                assert_true(bound.lo <= want && want <= bound.hi);
                assert_true(bound_s.lo <= want && want <= bound_s.hi);
            }
}

static void random_expressions_keep_their_value(void **state)
{
    (void)state;
    for (int i = 0; i < 100000; i++) {
        n_nodes = 0;
        const tree *t = random_tree(1 + (int)random_below(4));
        tw_range r[DIMS] = {0};
        for (int k = 0; k < DIMS; k++) {
            r[k].lo = random_below(3) ? 0 : (int64_t)random_below(13) - 6;
            r[k].hi = r[k].lo + (int64_t)random_below(k == 0 ? 16 : 4);
        }
        check_tree(t, r);
        if (i % 1000 == 999) { /* keeps memory small */
            tw_context_destroy(ctx);
            ctx = tw_context_create(0);
        }
    }
}

/* ---- The same with symbols in the expressions and in the bounds ---- */

static bool size_value(void *data, const char *name, int64_t *out)
{
    (void)data;
    *out = sizes[name[0] == 'm'];
    return true;
}

static tw_expr random_end(void)
{
    tw_expr n = n_sym(), m = m_sym();
    switch (random_below(8)) {
    case 0:
        return n;
    case 1:
        return m;
    case 2:
        return times(n, m);
    case 3:
        return mul(n, 3);
    case 4:
        return fdiv(add(n, c(2)), 3);
    case 5:
        return times(fdiv(add(m, c(1)), 2), n);
    case 6:
        return min(n, c(3));
    default:
        return add(n, m);
    }
}

/* The ends of the dimensions for the sizes as they are. */
static bool ends_of(const tw_range *r, int64_t *ends)
{
    for (int i = 0; i < DIMS; i++) {
        ends[i] = r[i].hi;
        if (r[i].top && !tw_expr_eval(r[i].top, NULL, 0, size_value, NULL, &ends[i]))
            return false;
    }
    return true;
}

static void check_point(const tree *t, tw_expr s, tw_expr top, const int64_t *least,
                        const int64_t *p)
{
    int64_t want, got;
    if (!value_of(t, p, &want))
        return;
    assert_true(tw_expr_eval(s, p, DIMS, size_value, NULL, &got));
    assert_int_equal(got, want);
    assert_true(want >= *least);
    if (top && tw_expr_eval(top, NULL, 0, size_value, NULL, &got))
        assert_true(want <= got);
}

static unsigned n_shown, n_simpler;

static void check_symbolic_tree(const tree *t, const tw_range *r)
{
    tw_expr e = build(t), s = tw_expr_simplify(ctx, e, r, DIMS), top = tw_expr_top(ctx, e, r, DIMS);
    int64_t least = -3, ends[DIMS], p[DIMS];
    if (e->kind == TW_EXPR_INVALID)
        return;
    while (least < 4 && tw_expr_at_least(ctx, e, least, r, DIMS))
        least++;
    n_shown += least > tw_expr_range(e, r, DIMS).lo && least > -3;
    n_simpler += s != e;
    least = least == -3 ? INT64_MIN : least - 1;
    for (sizes[0] = 0; sizes[0] < 5; sizes[0]++)
        for (sizes[1] = 0; sizes[1] < 5; sizes[1]++) {
            if (!ends_of(r, ends))
                continue;
            for (p[0] = r[0].lo; p[0] <= ends[0]; p[0]++)
                for (p[1] = r[1].lo; p[1] <= ends[1]; p[1]++)
                    for (p[2] = r[2].lo; p[2] <= ends[2]; p[2]++)
                        check_point(t, s, top, &least, p);
        }
}

static void random_symbolic_expressions_keep_their_value(void **state)
{
    (void)state;
    symbolic = true;
    for (int i = 0; i < 30000; i++) {
        n_nodes = 0;
        const tree *t = random_tree(1 + (int)random_below(4));
        tw_range r[DIMS] = {0};
        for (int k = 0; k < DIMS; k++) {
            r[k].lo = random_below(5) ? 0 : (int64_t)random_below(4) - 2;
            r[k].hi = r[k].lo + (int64_t)random_below(4);
            if (random_below(4)) {
                r[k].hi = INT64_MAX;
                r[k].top = less_one(random_end());
            }
        }
        check_symbolic_tree(t, r);
        if (i % 1000 == 999) {
            tw_context_destroy(ctx);
            ctx = tw_context_create(0);
        }
    }
    symbolic = false;
    assert_true(n_shown > 500);
    assert_true(n_simpler > 3000);
}

static void substitution_commutes_with_value(void **state)
{
    (void)state;
    for (int i = 0; i < 5000; i++) {
        n_nodes = 0;
        const tree *t = random_tree(2), *u = random_tree(2);
        tw_expr by[DIMS] = {NULL, build(u), NULL};
        tw_expr e = tw_expr_substitute(ctx, build(t), by, DIMS);
        int64_t p[DIMS] = {(int64_t)random_below(20), (int64_t)random_below(20) - 10, 3};
        int64_t inner, want, got, q[DIMS] = {p[0], 0, p[2]};
        if (!value_of(u, p, &inner))
            continue;
        q[1] = inner;
        if (!value_of(t, q, &want))
            continue;
        assert_true(tw_expr_eval(e, p, DIMS, NULL, NULL, &got));
        assert_int_equal(got, want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sums_are_canonical, setup, teardown),
        cmocka_unit_test_setup_teardown(divisions_fold, setup, teardown),
        cmocka_unit_test_setup_teardown(divisions_join, setup, teardown),
        cmocka_unit_test_setup_teardown(extrema_fold, setup, teardown),
        cmocka_unit_test_setup_teardown(overflow_is_invalid, setup, teardown),
        cmocka_unit_test_setup_teardown(size_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(simplify_uses_bounds, setup, teardown),
        cmocka_unit_test_setup_teardown(simplify_uses_symbolic_bounds, setup, teardown),
        cmocka_unit_test_setup_teardown(symbolic_bounds_are_shown, setup, teardown),
        cmocka_unit_test_setup_teardown(symbols_bind_and_evaluate, setup, teardown),
        cmocka_unit_test_setup_teardown(linear_forms, setup, teardown),
        cmocka_unit_test_setup_teardown(random_expressions_keep_their_value, setup, teardown),
        cmocka_unit_test_setup_teardown(random_symbolic_expressions_keep_their_value, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(substitution_commutes_with_value, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
