/* expr_canon.c: the constructors of sums, products, divisions, minima, each in canonical form.
 *
 *     (d0*32 + d1*4 + 5) floordiv 16  ->  d0*2 + (d1 + 1) floordiv 4
 *     (d0*32 + d1*4 + 5) mod 16       ->  (d1 + 1) mod 4 * 4 + 1
 *     (d0 floordiv 4) floordiv 3      ->  d0 floordiv 12, and so for sizes: d0 floordiv (n * m)
 *     (d0 mod 12) floordiv 4          ->  (d0 floordiv 4) mod 3 */
#include "base/checked.h"
#include "ir/expr_impl.h"

int64_t tw_gcd_i64(int64_t a, int64_t b)
{
    uint64_t x = a < 0 ? -(uint64_t)a : (uint64_t)a, y = b < 0 ? -(uint64_t)b : (uint64_t)b;
    while (y) {
        uint64_t r = x % y;
        x = y;
        y = r;
    }
    return x > INT64_MAX ? 1 : (int64_t)x;
}

/* ---- Sums ---------------------------------------------------------------------------- */

static tw_expr combine(tw_context *ctx, tw_expr a, int64_t factor_a, tw_expr b, int64_t factor_b)
{
    tw_sum s;
    tw_sum_init(&s);
    tw_sum_add(&s, a, factor_a);
    tw_sum_add(&s, b, factor_b);
    return tw_sum_build(ctx, &s);
}

tw_expr tw_expr_add(tw_context *ctx, tw_expr a, tw_expr b)
{
    return combine(ctx, a, 1, b, 1);
}

tw_expr tw_expr_sub(tw_context *ctx, tw_expr a, tw_expr b)
{
    return combine(ctx, a, 1, b, -1);
}

tw_expr tw_expr_addc(tw_context *ctx, tw_expr a, int64_t b)
{
    return b == 0 ? a : tw_expr_add(ctx, a, tw_expr_const(ctx, b));
}

tw_expr tw_expr_mulc(tw_context *ctx, tw_expr a, int64_t b)
{
    return b == 1 ? a : combine(ctx, a, b, tw_expr_const(ctx, 0), 1);
}

/* ---- Products ------------------------------------------------------------------------ */

/* Beyond this many terms a product of sums is kept as a product. */
enum { MAX_EXPANDED_TERMS = 32, MAX_FACTORS = 32 };

/* Atoms of a product of atoms, leftmost first; 0 when there are too many. */
static size_t factors_of(tw_expr key, tw_expr *factors)
{
    size_t n = 1;
    for (tw_expr x = key; x->kind == TW_EXPR_MUL; x = x->lhs)
        n++;
    if (n > MAX_FACTORS)
        return 0;
    for (size_t i = n; i-- > 1; key = key->lhs)
        factors[i] = key->rhs;
    factors[0] = key;
    return n;
}

/* The product of two products of atoms. */
static tw_expr mul_keys(tw_context *ctx, tw_expr a, tw_expr b)
{
    tw_expr left[MAX_FACTORS], right[MAX_FACTORS];
    size_t n = factors_of(a, left), m = factors_of(b, right), i = 0, j = 0;
    if (!n || !m)
        return tw_expr_invalid(ctx);
    tw_expr product = NULL;
    while (i < n || j < m) {
        bool take_left = j == m || (i < n && tw_expr_compare(left[i], right[j]) <= 0);
        tw_expr next = take_left ? left[i++] : right[j++];
        product = product ? tw_expr_intern(ctx, TW_EXPR_MUL, 0, NULL, product, next) : next;
    }
    return product;
}

static size_t count_parts(tw_expr e)
{
    size_t n = 1;
    for (; e->kind == TW_EXPR_ADD; e = e->lhs)
        n++;
    return n;
}

/* Adds factor * (term x) * (term y), each constant or a term. */
static void add_product(tw_context *ctx, tw_sum *s, tw_expr x, tw_expr y)
{
    int64_t coef;
    if (x->kind == TW_EXPR_CONST) {
        tw_sum_add(s, y, x->value);
        return;
    }
    if (y->kind == TW_EXPR_CONST) {
        tw_sum_add(s, x, y->value);
        return;
    }
    tw_term a = tw_term_of(x), b = tw_term_of(y);
    tw_expr key = mul_keys(ctx, a.key, b.key);
    if (key->kind == TW_EXPR_INVALID || !tw_mul_i64(a.coef, b.coef, &coef))
        s->invalid = true;
    else
        tw_sum_add_term(s, key, coef);
}

tw_expr tw_expr_mul(tw_context *ctx, tw_expr a, tw_expr b)
{
    if (a->kind == TW_EXPR_INVALID || b->kind == TW_EXPR_INVALID)
        return tw_expr_invalid(ctx);
    if (a->kind == TW_EXPR_CONST)
        return tw_expr_mulc(ctx, b, a->value);
    if (b->kind == TW_EXPR_CONST)
        return tw_expr_mulc(ctx, a, b->value);
    if (count_parts(a) * count_parts(b) > MAX_EXPANDED_TERMS)
        return tw_expr_compare(a, b) <= 0 ? tw_expr_intern(ctx, TW_EXPR_MUL, 0, NULL, a, b)
                                          : tw_expr_intern(ctx, TW_EXPR_MUL, 0, NULL, b, a);
    tw_sum s;
    tw_sum_init(&s);
    for (tw_expr x = a; x; x = x->kind == TW_EXPR_ADD ? x->lhs : NULL)
        for (tw_expr y = b; y; y = y->kind == TW_EXPR_ADD ? y->lhs : NULL)
            add_product(ctx, &s, x->kind == TW_EXPR_ADD ? x->rhs : x,
                        y->kind == TW_EXPR_ADD ? y->rhs : y);
    return tw_sum_build(ctx, &s);
}

/* ---- Division by a constant ---------------------------------------------------------- */

static tw_expr divide(tw_context *ctx, tw_expr e, int64_t c);
static tw_expr modulo(tw_context *ctx, tw_expr e, int64_t c);

/* Divides c and all of s by their common divisor, which it returns; *rest is what the constant
 * leaves. */
static int64_t reduce(tw_sum *s, int64_t *c, int64_t *rest)
{
    int64_t g = *c;
    for (size_t i = 0; i < s->n; i++)
        g = tw_gcd_i64(g, s->terms[i].coef);
    for (size_t i = 0; i < s->n; i++)
        s->terms[i].coef /= g;
    *rest = tw_mod_i64(s->constant, g);
    s->constant = tw_floordiv_i64(s->constant, g);
    *c /= g;
    return g;
}

static bool is_const_op(tw_expr e, tw_expr_kind kind)
{
    return e->kind == kind && e->rhs->kind == TW_EXPR_CONST;
}

/* floor(rest / c) where nothing of `rest` is a multiple of c. */
static tw_expr divide_rest(tw_context *ctx, tw_sum *rest, int64_t c)
{
    int64_t ignored, product, add;
    reduce(rest, &c, &ignored);
    bool single = rest->n == 1 && rest->terms[0].coef == 1;
    tw_expr x = rest->terms[0].key;
    /* floor((floor(x / a) + k) / c) = floor((x + k*a) / (a*c)) */
    if (single && is_const_op(x, TW_EXPR_FLOORDIV) && tw_mul_i64(x->rhs->value, c, &product) &&
        tw_mul_i64(x->rhs->value, rest->constant, &add))
        return divide(ctx, tw_expr_addc(ctx, x->lhs, add), product);
    if (single && rest->constant == 0 && is_const_op(x, TW_EXPR_MOD) && x->rhs->value % c == 0)
        return modulo(ctx, divide(ctx, x->lhs, c), x->rhs->value / c);
    if (single && rest->constant == 0 && x->kind == TW_EXPR_FLOORDIV)
        return tw_expr_binary(ctx, TW_EXPR_FLOORDIV, x->lhs, tw_expr_mulc(ctx, x->rhs, c));
    tw_expr sum = tw_sum_build(ctx, rest);
    if (sum->kind == TW_EXPR_INVALID)
        return sum;
    return tw_expr_intern(ctx, TW_EXPR_FLOORDIV, 0, NULL, sum, tw_expr_const(ctx, c));
}

/* e floordiv c for c > 0. */
static tw_expr divide(tw_context *ctx, tw_expr e, int64_t c)
{
    if (c == 1 || e->kind == TW_EXPR_INVALID)
        return e;
    tw_sum s, whole, rest;
    tw_sum_init(&s);
    tw_sum_init(&whole);
    tw_sum_init(&rest);
    tw_sum_add(&s, e, 1);
    for (size_t i = 0; i < s.n; i++) {
        tw_term t = s.terms[i];
        if (t.coef % c == 0)
            tw_sum_add_term(&whole, t.key, t.coef / c);
        else
            tw_sum_add_term(&rest, t.key, t.coef);
    }
    whole.constant = tw_floordiv_i64(s.constant, c);
    rest.constant = tw_mod_i64(s.constant, c);
    if (rest.n > 0)
        tw_sum_add(&whole, divide_rest(ctx, &rest, c), 1);
    return tw_sum_build(ctx, &whole);
}

/* One round of e mod c: coefficients modulo c, inner remainders dropped. True when an inner
 * remainder was opened, after which the coefficients are to be reduced again. */
static bool modulo_round(tw_sum *out, const tw_sum *in, int64_t c)
{
    bool opened = false;
    tw_sum_init(out);
    out->constant = tw_mod_i64(in->constant, c);
    out->invalid = in->invalid;
    for (size_t i = 0; i < in->n; i++) {
        tw_term t = in->terms[i];
        int64_t coef = t.coef % c, multiple;
        if (is_const_op(t.key, TW_EXPR_MOD) && coef != 0 &&
            tw_mul_i64(coef, t.key->rhs->value, &multiple) && multiple % c == 0) {
            tw_sum_add(out, t.key->lhs, coef);
            opened = true;
        } else {
            tw_sum_add_term(out, t.key, coef);
        }
    }
    return opened;
}

/* e mod c for c > 0. */
static tw_expr modulo(tw_context *ctx, tw_expr e, int64_t c)
{
    if (e->kind == TW_EXPR_INVALID)
        return e;
    tw_sum s[2];
    int now = 0;
    tw_sum_init(&s[0]);
    tw_sum_add(&s[0], e, 1);
    for (bool opened = true; opened; now = !now)
        opened = modulo_round(&s[!now], &s[now], c);
    tw_sum *sum = &s[now];
    if (sum->n == 0 && !sum->invalid)
        return tw_expr_const(ctx, sum->constant);
    int64_t rest, g = reduce(sum, &c, &rest);
    tw_expr x = tw_sum_build(ctx, sum);
    if (x->kind == TW_EXPR_INVALID || (is_const_op(x, TW_EXPR_MOD) && x->rhs->value <= c))
        return tw_expr_addc(ctx, tw_expr_mulc(ctx, x, g), rest);
    /* Building may have joined terms to a constant or a multiple of c. */
    if (x->kind == TW_EXPR_CONST)
        return tw_expr_const(ctx, tw_mod_i64(x->value, c) * g + rest);
    tw_expr mod = tw_expr_intern(ctx, TW_EXPR_MOD, 0, NULL, x, tw_expr_const(ctx, c));
    return tw_expr_addc(ctx, tw_expr_mulc(ctx, mod, g), rest);
}

/* ---- Division by an expression ------------------------------------------------------- */

/* Removes the atoms of `by` from the product `key`; the rest is put together again. NULL when one
 * is missing; *one when nothing is left. */
static tw_expr divide_key(tw_context *ctx, tw_expr key, tw_expr by, bool *one)
{
    tw_expr atoms[MAX_FACTORS], divisors[MAX_FACTORS], product = NULL;
    size_t n = factors_of(key, atoms), m = factors_of(by, divisors), j = 0;
    if (!n || !m)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        if (j < m && atoms[i] == divisors[j])
            j++;
        else
            product =
                product ? tw_expr_intern(ctx, TW_EXPR_MUL, 0, NULL, product, atoms[i]) : atoms[i];
    }
    *one = !product;
    return j < m ? NULL : product ? product : key;
}

void tw_sum_split(tw_context *ctx, tw_expr e, tw_expr by, tw_sum *whole, tw_sum *rest)
{
    tw_sum s;
    tw_term divisor = tw_term_of(by);
    tw_sum_init(whole);
    tw_sum_init(rest);
    tw_sum_init(&s);
    tw_sum_add(&s, e, 1);
    whole->invalid = s.invalid;
    rest->constant = s.constant;
    for (size_t i = 0; i < s.n; i++) {
        bool one = false;
        tw_term t = s.terms[i];
        tw_expr key = t.coef % divisor.coef == 0 ? divide_key(ctx, t.key, divisor.key, &one) : NULL;
        if (!key)
            tw_sum_add_term(rest, t.key, t.coef);
        else if (one)
            tw_sum_add_const(whole, t.coef / divisor.coef);
        else
            tw_sum_add_term(whole, key, t.coef / divisor.coef);
    }
}

tw_expr tw_term_gcd(tw_context *ctx, tw_expr a, tw_expr b)
{
    tw_term x = tw_term_of(a), y = tw_term_of(b);
    tw_expr left[MAX_FACTORS], right[MAX_FACTORS], product = NULL;
    size_t n = factors_of(x.key, left), m = factors_of(y.key, right), i = 0, j = 0;
    while (i < n && j < m) {
        int order = tw_expr_compare(left[i], right[j]);
        if (order == 0)
            product =
                product ? tw_expr_intern(ctx, TW_EXPR_MUL, 0, NULL, product, left[i]) : left[i];
        i += order <= 0;
        j += order >= 0;
    }
    int64_t coef = tw_gcd_i64(x.coef, y.coef);
    return product ? tw_expr_mulc(ctx, product, coef) : tw_expr_const(ctx, coef);
}

/* Floordiv, ceildiv or mod by something that is no constant. */
static tw_expr divide_symbolic(tw_context *ctx, tw_expr_kind kind, tw_expr a, tw_expr b)
{
    tw_sum whole, rest;
    tw_sum_init(&whole);
    tw_sum_init(&rest);
    if (b->kind != TW_EXPR_ADD && tw_term_of(b).coef > 0)
        tw_sum_split(ctx, a, b, &whole, &rest);
    else if (a == b)
        tw_sum_add_const(&whole, 1);
    else
        tw_sum_add(&rest, a, 1);
    if (whole.invalid)
        return tw_expr_invalid(ctx);
    tw_expr left = tw_sum_build(ctx, &rest);
    if (left->kind == TW_EXPR_INVALID)
        return left;
    bool none = left->kind == TW_EXPR_CONST && left->value == 0;
    bool nested = kind == TW_EXPR_FLOORDIV && left->kind == TW_EXPR_FLOORDIV;
    tw_expr part = none     ? left
                   : nested ? tw_expr_binary(ctx, kind, left->lhs, tw_expr_mul(ctx, left->rhs, b))
                            : tw_expr_intern(ctx, kind, 0, NULL, left, b);
    if (kind != TW_EXPR_MOD) {
        tw_sum_add(&whole, part, 1);
        part = tw_sum_build(ctx, &whole);
    }
    return part;
}

static tw_expr divide_any(tw_context *ctx, tw_expr_kind kind, tw_expr a, tw_expr b)
{
    if (b->kind != TW_EXPR_CONST)
        return divide_symbolic(ctx, kind, a, b);
    if (b->value <= 0)
        return tw_expr_invalid(ctx);
    if (kind == TW_EXPR_MOD)
        return modulo(ctx, a, b->value);
    /* ceil(a / c) = floor((a + c - 1) / c): one form, so that equal sizes are equal pointers. */
    if (kind == TW_EXPR_CEILDIV)
        a = tw_expr_addc(ctx, a, b->value - 1);
    return divide(ctx, a, b->value);
}

/* ---- Minimum and maximum ------------------------------------------------------------- */

enum { MAX_ARGS = 16 };

/* The sign of a - b where that is certain, symbols being at least 0: either sign will do where they
 * may be equal. False otherwise. */
static bool certain_order(tw_context *ctx, tw_expr a, tw_expr b, int *sign)
{
    tw_range x = tw_expr_range(a, NULL, 0), y = tw_expr_range(b, NULL, 0);
    if (x.lo >= y.hi || x.hi <= y.lo) { /* where the difference may overflow */
        *sign = x.lo >= y.hi ? x.lo > y.lo || x.hi > y.hi : -1;
        return true;
    }
    tw_expr rest = tw_expr_sub(ctx, a, b);
    if (rest->kind == TW_EXPR_INVALID)
        return false;
    tw_range difference = tw_expr_range(rest, NULL, 0);
    *sign = (difference.lo > 0) - (difference.hi < 0);
    if (!*sign)
        *sign = (difference.lo == 0) - (difference.hi == 0);
    return difference.lo >= 0 || difference.hi <= 0;
}

/* Adds the arguments of a nested minimum to the ordered list, dropping those that another one
 * certainly beats. False when there are too many. */
static bool add_args(tw_context *ctx, tw_expr_kind kind, tw_expr e, tw_expr *args, size_t *n)
{
    if (e->kind == kind)
        return add_args(ctx, kind, e->lhs, args, n) && add_args(ctx, kind, e->rhs, args, n);
    for (size_t i = 0; i < *n; i++) {
        int sign;
        if (!certain_order(ctx, e, args[i], &sign))
            continue;
        if (kind == TW_EXPR_MIN ? sign < 0 : sign > 0) {
            for (size_t j = i + 1; j < *n; j++)
                args[j - 1] = args[j];
            --*n;
            return add_args(ctx, kind, e, args, n);
        }
        return true;
    }
    if (*n == MAX_ARGS)
        return false;
    size_t at = (*n)++;
    for (; at > 0 && (args[at - 1]->kind == TW_EXPR_CONST ||
                      (e->kind != TW_EXPR_CONST && tw_expr_compare(args[at - 1], e) > 0));
         at--)
        args[at] = args[at - 1];
    args[at] = e;
    return true;
}

static tw_expr extremum(tw_context *ctx, tw_expr_kind kind, tw_expr a, tw_expr b)
{
    tw_expr args[MAX_ARGS];
    size_t n = 0;
    if (!add_args(ctx, kind, a, args, &n) || !add_args(ctx, kind, b, args, &n))
        return tw_expr_intern(ctx, kind, 0, NULL, a, b);
    tw_expr e = args[0];
    for (size_t i = 1; i < n; i++)
        e = tw_expr_intern(ctx, kind, 0, NULL, e, args[i]);
    return e;
}

tw_expr tw_expr_binary(tw_context *ctx, tw_expr_kind kind, tw_expr lhs, tw_expr rhs)
{
    if (lhs->kind == TW_EXPR_INVALID || rhs->kind == TW_EXPR_INVALID)
        return tw_expr_invalid(ctx);
    switch (kind) {
    case TW_EXPR_ADD:
        return tw_expr_add(ctx, lhs, rhs);
    case TW_EXPR_MUL:
        return tw_expr_mul(ctx, lhs, rhs);
    case TW_EXPR_FLOORDIV:
    case TW_EXPR_CEILDIV:
    case TW_EXPR_MOD:
        return divide_any(ctx, kind, lhs, rhs);
    case TW_EXPR_MIN:
    case TW_EXPR_MAX:
        return extremum(ctx, kind, lhs, rhs);
    default:
        return tw_expr_invalid(ctx);
    }
}
