/* print_expr.c: expressions as text, with as few parentheses as the grammar allows:
 *
 *     ADD(MUL(d0, 2), -1)            d0 * 2 - 1
 *     ADD(MUL(d1, -1), 5)            5 - d1
 *     MUL(FLOORDIV(d0, 4), s)        d0 floordiv 4 * s
 *
 * Chains that lean left (long sums) take no recursion. */
#include "ir/print_impl.h"

#include <inttypes.h>
#include <string.h>

enum precedence { SUM, PRODUCT, PRIMARY };

typedef struct expr_printer {
    tw_printer *p;
    tw_pr_dim dim;
    const void *data;
} expr_printer;

static void print(expr_printer *ep, tw_expr e, enum precedence at);

static enum precedence precedence_of(tw_expr e)
{
    switch (e->kind) {
    case TW_EXPR_ADD:
        return SUM;
    case TW_EXPR_MUL:
    case TW_EXPR_FLOORDIV:
    case TW_EXPR_CEILDIV:
    case TW_EXPR_MOD:
        return PRODUCT;
    default:
        return PRIMARY;
    }
}

static const char *operator_text(tw_expr_kind kind)
{
    switch (kind) {
    case TW_EXPR_FLOORDIV:
        return " floordiv ";
    case TW_EXPR_CEILDIV:
        return " ceildiv ";
    case TW_EXPR_MOD:
        return " mod ";
    default:
        return " * ";
    }
}

static bool is_negative(tw_expr e)
{
    return tw_expr_is_const(e) && e->value < 0 && e->value != INT64_MIN;
}

/* x * c with c below 0, which is subtracted as x * -c. */
static bool is_negative_term(tw_expr e)
{
    return e->kind == TW_EXPR_MUL && is_negative(e->rhs);
}

static void print_negated(expr_printer *ep, tw_expr e)
{
    if (is_negative(e)) {
        tw_p_text(ep->p, "%" PRId64, -e->value);
        return;
    }
    print(ep, e->lhs, e->rhs->value == -1 ? PRIMARY : PRODUCT);
    if (e->rhs->value != -1)
        tw_p_text(ep->p, " * %" PRId64, -e->rhs->value);
}

static void print_later_term(expr_printer *ep, tw_expr term)
{
    bool minus = is_negative(term) || is_negative_term(term);
    tw_pr_text(ep->p, minus ? " - " : " + ");
    if (minus)
        print_negated(ep, term);
    else
        print(ep, term, PRODUCT);
}

static void print_sum(expr_printer *ep, tw_expr e)
{
    TW_VEC(tw_expr) terms = {0}; /* last first */
    for (; e->kind == TW_EXPR_ADD; e = e->lhs)
        tw_vec_push(ep->p->arena, &terms, e->rhs);
    tw_expr first = e, constant = NULL;
    size_t from = 0;
    if (is_negative_term(first) && tw_expr_is_const(terms.data[0]) && !is_negative(terms.data[0])) {
        constant = terms.data[0]; /* 5 - x rather than -x + 5 */
        from = 1;
        print(ep, constant, PRIMARY);
        print_later_term(ep, first);
    } else {
        print(ep, first, PRODUCT);
    }
    for (size_t i = terms.len; i-- > from;)
        print_later_term(ep, terms.data[i]);
}

static void print_product(expr_printer *ep, tw_expr e)
{
    if (e->kind == TW_EXPR_MUL && tw_expr_is_const(e->rhs) && e->rhs->value == -1 &&
        precedence_of(e->lhs) != PRODUCT) {
        tw_pr_text(ep->p, "-");
        print(ep, e->lhs, PRIMARY);
        return;
    }
    TW_VEC(tw_expr) steps = {0};
    for (; precedence_of(e) == PRODUCT; e = e->lhs)
        tw_vec_push(ep->p->arena, &steps, e);
    print(ep, e, PRODUCT);
    for (size_t i = steps.len; i-- > 0;) {
        tw_pr_text(ep->p, operator_text(steps.data[i]->kind));
        print(ep, steps.data[i]->rhs, PRIMARY);
    }
}

static void print_primary(expr_printer *ep, tw_expr e)
{
    switch (e->kind) {
    case TW_EXPR_CONST:
        tw_p_text(ep->p, "%" PRId64, e->value);
        break;
    case TW_EXPR_DIM:
        ep->dim(ep->p, (unsigned)e->value, ep->data);
        break;
    case TW_EXPR_SYM: {
        size_t len = strlen(e->symbol);
        if (tw_text_is_symbol(e->symbol, len))
            tw_pr_bytes(ep->p, e->symbol, len);
        else
            tw_pr_string(ep->p, e->symbol, len);
        break;
    }
    case TW_EXPR_MIN:
    case TW_EXPR_MAX:
        tw_pr_text(ep->p, e->kind == TW_EXPR_MIN ? "min(" : "max(");
        print(ep, e->lhs, SUM);
        tw_pr_text(ep->p, ", ");
        print(ep, e->rhs, SUM);
        tw_pr_text(ep->p, ")");
        break;
    default:
        tw_pr_text(ep->p, "invalid");
    }
}

/* Prints e where only operators that bind at least as tightly as `at` stand without parentheses. */
static void print(expr_printer *ep, tw_expr e, enum precedence at)
{
    if (!e) {
        tw_pr_text(ep->p, "<null>");
        return;
    }
    if (!tw_pr_enter(ep->p))
        return;
    bool parentheses = precedence_of(e) < at;
    if (parentheses)
        tw_pr_text(ep->p, "(");
    if (e->kind == TW_EXPR_ADD)
        print_sum(ep, e);
    else if (precedence_of(e) == PRODUCT)
        print_product(ep, e);
    else
        print_primary(ep, e);
    if (parentheses)
        tw_pr_text(ep->p, ")");
    tw_pr_leave(ep->p);
}

void tw_pr_expr(tw_printer *p, tw_expr e, tw_pr_dim dim, const void *data)
{
    expr_printer ep = {p, dim, data};
    print(&ep, e, SUM);
}
