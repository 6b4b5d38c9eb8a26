/* parse_expr.c: expressions: sums of products of units, left to right as written. */
#include "ir/parse_impl.h"

#include <string.h>

/* Longer ones are refused: building a sum takes time in proportion to its length at every term. */
enum { MAX_PIECES = 1024 };

typedef struct expr_parser {
    tw_parser *p;
    tw_value **values; /* NULL: dimensions are written d0, d1 … */
    unsigned *n_values;
    unsigned n_dims;
    unsigned pieces;
} expr_parser;

static bool parse_sum(expr_parser *e, tw_expr *out);

/* `d7` when dimensions are written so. */
static bool is_dimension(const tw_token *t)
{
    if (t->kind != TW_TOKEN_NAME || t->len < 2 || t->text[0] != 'd')
        return false;
    for (size_t i = 1; i < t->len; i++)
        if (t->text[i] < '0' || t->text[i] > '9')
            return false;
    return true;
}

static bool parse_dimension(expr_parser *e, tw_expr *out)
{
    tw_parser *p = e->p;
    tw_loc loc = tw_q_loc(p);
    uint64_t index;
    p->token.text++;
    p->token.len--;
    p->token.kind = TW_TOKEN_INT;
    if (!tw_ps_magnitude(p, &index))
        return false;
    if (index >= e->n_dims)
        return tw_ps_error_at(p, loc, "there is no dimension d%llu here: %u in all",
                              (unsigned long long)index, e->n_dims);
    *out = tw_expr_dim(p->ctx, (unsigned)index);
    return true;
}

static bool parse_operand(expr_parser *e, tw_expr *out)
{
    tw_parser *p = e->p;
    tw_value *value;
    tw_loc loc = tw_q_loc(p);
    if (!e->values)
        return tw_q_error(p, "a %%value cannot stand here; dimensions are d0, d1 ...");
    if (!tw_q_value(p, &value))
        return false;
    unsigned i = 0;
    while (i < *e->n_values && e->values[i] != value)
        i++;
    if (i == TW_MAX_EXPR_DIMS)
        return tw_ps_error_at(p, loc, "more than %d different values in index expressions",
                              TW_MAX_EXPR_DIMS);
    if (i == *e->n_values)
        e->values[(*e->n_values)++] = value;
    *out = tw_expr_dim(p->ctx, i);
    return true;
}

/* Behind `min` or `max`. */
static bool parse_extremum(expr_parser *e, tw_expr_kind kind, tw_expr *out)
{
    tw_parser *p = e->p;
    tw_expr a, b;
    if (!tw_q_expect(p, "(") || !parse_sum(e, &a) || !tw_q_expect(p, ",") || !parse_sum(e, &b) ||
        !tw_q_expect(p, ")"))
        return false;
    *out = tw_expr_binary(p->ctx, kind, a, b);
    return true;
}

static bool parse_name(expr_parser *e, tw_expr *out)
{
    tw_parser *p = e->p;
    const char *name;
    bool quoted = p->token.kind == TW_TOKEN_STRING;
    if (!quoted && is_dimension(&p->token))
        return parse_dimension(e, out);
    if (tw_q_try(p, "min"))
        return parse_extremum(e, TW_EXPR_MIN, out);
    if (tw_q_try(p, "max"))
        return parse_extremum(e, TW_EXPR_MAX, out);
    if (tw_q_try(p, "invalid")) {
        *out = tw_expr_invalid(p->ctx);
        return true;
    }
    if (!quoted && !tw_text_is_symbol(p->token.text, p->token.len))
        return tw_q_error(p, "'%.*s' has another meaning here; a symbol of this name is quoted",
                          (int)p->token.len, p->token.text);
    if (!tw_ps_name(p, &name))
        return false;
    *out = tw_expr_sym(p->ctx, name);
    return true;
}

static bool parse_unit(expr_parser *e, tw_expr *out)
{
    tw_parser *p = e->p;
    if (++e->pieces > MAX_PIECES)
        return tw_q_error(p, "the expression has more than %d parts", MAX_PIECES);
    if (tw_ps_is(p, "-")) {
        tw_parse_mark mark = tw_ps_mark(p);
        tw_ps_advance(p);
        if (p->token.kind != TW_TOKEN_INT) {
            if (!tw_ps_enter(p) || !tw_ps_leave(p, parse_unit(e, out)))
                return false;
            *out = tw_expr_mulc(p->ctx, *out, -1);
            return true;
        }
        tw_ps_reset(p, mark); /* a negative number */
    }
    if (tw_ps_is(p, "-") || p->token.kind == TW_TOKEN_INT) {
        int64_t value;
        if (!tw_q_int(p, &value))
            return false;
        *out = tw_expr_const(p->ctx, value);
        return true;
    }
    if (p->token.kind == TW_TOKEN_VALUE)
        return parse_operand(e, out);
    if (p->token.kind == TW_TOKEN_NAME || p->token.kind == TW_TOKEN_STRING)
        return parse_name(e, out);
    if (tw_q_try(p, "("))
        return parse_sum(e, out) && tw_q_expect(p, ")");
    return tw_ps_expected(p, "an expression");
}

static bool product_operator(tw_parser *p, tw_expr_kind *kind)
{
    static const struct {
        const char *text;
        tw_expr_kind kind;
    } operators[] = {{"*", TW_EXPR_MUL},
                     {"floordiv", TW_EXPR_FLOORDIV},
                     {"ceildiv", TW_EXPR_CEILDIV},
                     {"mod", TW_EXPR_MOD}};
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++)
        if (tw_q_try(p, operators[i].text)) {
            *kind = operators[i].kind;
            return true;
        }
    return false;
}

static bool parse_product(expr_parser *e, tw_expr *out)
{
    if (!parse_unit(e, out))
        return false;
    for (tw_expr_kind kind; product_operator(e->p, &kind);) {
        tw_expr right;
        if (!parse_unit(e, &right))
            return false;
        *out = tw_expr_binary(e->p->ctx, kind, *out, right);
    }
    return true;
}

static bool parse_terms(expr_parser *e, tw_expr *out)
{
    tw_parser *p = e->p;
    if (!parse_product(e, out))
        return false;
    while (tw_ps_is(p, "+") || tw_ps_is(p, "-")) {
        bool minus = tw_ps_is(p, "-");
        tw_expr right;
        tw_ps_advance(p);
        if (!parse_product(e, &right))
            return false;
        *out = minus ? tw_expr_sub(p->ctx, *out, right) : tw_expr_add(p->ctx, *out, right);
    }
    return true;
}

static bool parse_sum(expr_parser *e, tw_expr *out)
{
    return tw_ps_enter(e->p) && tw_ps_leave(e->p, parse_terms(e, out));
}

bool tw_ps_expr(tw_parser *p, tw_value **values, unsigned *n_values, unsigned n_dims, tw_expr *out)
{
    expr_parser e = {p, values, n_values, n_dims, 0};
    return parse_sum(&e, out);
}

bool tw_q_expr(tw_parser *p, tw_value **values, unsigned *n_values, tw_expr *out)
{
    return tw_ps_expr(p, values, n_values, 0, out);
}
