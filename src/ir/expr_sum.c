/* expr_sum.c: sums of terms: joining like terms, ordering, rebuilding.
 *
 *     3 + d1*2 + d0 + d1          ->  d0 + d1*3 + 3
 *     12*(f floordiv 12) + f mod 12  ->  f
 *     x - 12*(x floordiv 12)         ->  x mod 12 */
#include "base/checked.h"
#include "ir/expr_impl.h"

#include <string.h>

void tw_sum_init(tw_sum *s)
{
    s->n = 0;
    s->constant = 0;
    s->invalid = false;
}

void tw_sum_add_const(tw_sum *s, int64_t value)
{
    if (!tw_add_i64(s->constant, value, &s->constant))
        s->invalid = true;
}

static void remove_term(tw_sum *s, size_t i)
{
    memmove(&s->terms[i], &s->terms[i + 1], (--s->n - i) * sizeof *s->terms);
}

void tw_sum_add_term(tw_sum *s, tw_expr key, int64_t coef)
{
    size_t i = s->n;
    int order = 1;
    while (i > 0 && (order = tw_expr_compare(s->terms[i - 1].key, key)) > 0)
        i--;
    if (i > 0 && order == 0) {
        tw_term *t = &s->terms[i - 1];
        if (!tw_add_i64(t->coef, coef, &t->coef))
            s->invalid = true;
        if (t->coef == 0)
            remove_term(s, i - 1);
        return;
    }
    if (coef == 0)
        return;
    if (s->n == TW_EXPR_MAX_TERMS) {
        s->invalid = true;
        return;
    }
    memmove(&s->terms[i + 1], &s->terms[i], (s->n++ - i) * sizeof *s->terms);
    s->terms[i] = (tw_term){key, coef};
}

static void add_part(tw_sum *s, tw_expr part, int64_t factor)
{
    int64_t value;
    if (part->kind == TW_EXPR_CONST) {
        if (tw_mul_i64(part->value, factor, &value))
            tw_sum_add_const(s, value);
        else
            s->invalid = true;
        return;
    }
    tw_term t = tw_term_of(part);
    if (tw_mul_i64(t.coef, factor, &value))
        tw_sum_add_term(s, t.key, value);
    else
        s->invalid = true;
}

/* Parts of the sum e, leftmost first. */
static size_t parts_of(tw_expr e, tw_expr *parts)
{
    size_t n = 1;
    for (tw_expr x = e; x->kind == TW_EXPR_ADD; x = x->lhs)
        n++;
    for (size_t i = n; i-- > 1; e = e->lhs)
        parts[i] = e->rhs;
    parts[0] = e;
    return n;
}

void tw_sum_add(tw_sum *s, tw_expr e, int64_t factor)
{
    if (e->kind == TW_EXPR_INVALID) {
        s->invalid = true;
        return;
    }
    tw_expr parts[TW_EXPR_MAX_TERMS + 2];
    size_t n = parts_of(e, parts);
    for (size_t i = 0; i < n; i++)
        add_part(s, parts[i], factor);
}

static size_t find_term(const tw_sum *s, tw_expr key)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->terms[i].key == key)
            return i;
    return SIZE_MAX;
}

/* Takes factor * e out of the sum if each of its terms is there with just that coefficient. The
 * constant is always to be had. */
static bool take_out(tw_sum *s, tw_expr e, int64_t factor)
{
    tw_sum part;
    tw_sum_init(&part);
    tw_sum_add(&part, e, factor);
    if (part.invalid || part.n == 0)
        return false;
    for (size_t i = 0; i < part.n; i++) {
        size_t at = find_term(s, part.terms[i].key);
        if (at == SIZE_MAX || s->terms[at].coef != part.terms[i].coef)
            return false;
    }
    int64_t constant;
    if (!tw_sub_i64(s->constant, part.constant, &constant))
        return false;
    s->constant = constant;
    for (size_t i = 0; i < part.n; i++)
        remove_term(s, find_term(s, part.terms[i].key));
    return true;
}

/* k*(x mod c) + k*c*(x floordiv c) -> k*x */
static bool join_mod(tw_context *ctx, tw_sum *s, size_t i)
{
    tw_term t = s->terms[i];
    tw_expr whole =
        tw_expr_mul(ctx, tw_expr_binary(ctx, TW_EXPR_FLOORDIV, t.key->lhs, t.key->rhs), t.key->rhs);
    if (!take_out(s, whole, t.coef))
        return false;
    remove_term(s, find_term(s, t.key));
    tw_sum_add(s, t.key->lhs, t.coef);
    return true;
}

/* k*x - k*c*(x floordiv c) -> k*(x mod c) */
static bool join_div(tw_context *ctx, tw_sum *s, size_t i)
{
    tw_term t = s->terms[i];
    int64_t c = t.key->rhs->value;
    if (t.coef == INT64_MIN || t.coef % c != 0 || !take_out(s, t.key->lhs, -(t.coef / c)))
        return false;
    remove_term(s, find_term(s, t.key));
    tw_sum_add(s, tw_expr_binary(ctx, TW_EXPR_MOD, t.key->lhs, t.key->rhs), -(t.coef / c));
    return true;
}

static bool has_division(tw_expr key)
{
    for (; key->kind == TW_EXPR_MUL; key = key->lhs)
        if (key->rhs->kind == TW_EXPR_FLOORDIV)
            return true;
    return key->kind == TW_EXPR_FLOORDIV;
}

/* Each join removes a term that divides, so this ends. */
static void join_divisions(tw_context *ctx, tw_sum *s)
{
    for (bool again = s->n > 1; again && !s->invalid;) {
        again = false;
        bool division = false;
        for (size_t i = 0; i < s->n && !division; i++)
            division = has_division(s->terms[i].key);
        for (size_t i = 0; division && i < s->n && !again; i++) {
            tw_expr key = s->terms[i].key;
            if (key->kind == TW_EXPR_MOD)
                again = join_mod(ctx, s, i);
            else if (key->kind == TW_EXPR_FLOORDIV && key->rhs->kind == TW_EXPR_CONST)
                again = join_div(ctx, s, i);
        }
    }
}

tw_expr tw_sum_build(tw_context *ctx, tw_sum *s)
{
    join_divisions(ctx, s);
    if (s->invalid)
        return tw_expr_invalid(ctx);
    tw_expr sum = NULL;
    for (size_t i = 0; i < s->n; i++) {
        tw_expr term = s->terms[i].key;
        if (s->terms[i].coef != 1)
            term = tw_expr_intern(ctx, TW_EXPR_MUL, 0, NULL, term,
                                  tw_expr_const(ctx, s->terms[i].coef));
        if (sum)
            term = tw_expr_intern(ctx, TW_EXPR_ADD, 0, NULL, sum, term);
        if (term->kind == TW_EXPR_INVALID)
            return term;
        sum = term;
    }
    if (!sum)
        return tw_expr_const(ctx, s->constant);
    return s->constant == 0
               ? sum
               : tw_expr_intern(ctx, TW_EXPR_ADD, 0, NULL, sum, tw_expr_const(ctx, s->constant));
}
