/* parse_attr.c: attributes. */
#include "ir/parse_impl.h"

#include "ir/elem_data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Floating point ---- */

bool tw_ps_at_float_word(const tw_parser *p)
{
    return tw_ps_is(p, "nan") || tw_ps_is(p, "inf");
}

/* Behind `nan`, maybe `("0x7f…")` with all bits of the number. */
static bool parse_nan(tw_parser *p, tw_elem elem, bool negative, uint64_t *bits)
{
    *bits = tw_elem_from_double(elem, negative ? -(double)NAN : (double)NAN);
    tw_loc loc = tw_q_loc(p);
    const char *text;
    if (!tw_q_try(p, "("))
        return true;
    if (!tw_q_string(p, &text) || !tw_q_expect(p, ")"))
        return false;
    size_t digits = tw_elem_bits(elem) / 4;
    bool good = strlen(text) == digits + 2 && !strncmp(text, "0x", 2) &&
                strspn(text + 2, "0123456789abcdef") == digits && !negative;
    if (good)
        *bits = strtoull(text, NULL, 16);
    if (!good || !isnan(tw_elem_to_double(elem, *bits)))
        return tw_ps_error_at(
            p, loc, "expected the %zu hexadecimal digits of a NaN: nan(\"0x...\")", digits);
    return true;
}

bool tw_ps_float(tw_parser *p, tw_elem elem, bool negative, uint64_t *bits)
{
    if (tw_q_try(p, "nan"))
        return parse_nan(p, elem, negative, bits);
    double value = INFINITY;
    if (!tw_q_try(p, "inf")) {
        if (p->token.kind != TW_TOKEN_FLOAT && p->token.kind != TW_TOKEN_INT)
            return tw_ps_expected(p, "a number");
        value = tw_text_to_double(tw_arena_strndup(p->arena, p->token.text, p->token.len));
        if (isinf(value))
            return tw_q_error(p, "the number is too large for 64-bit floating point; write inf");
        tw_ps_advance(p);
    }
    *bits = tw_elem_from_double(elem, negative ? -value : value);
    return true;
}

static bool parse_number(tw_parser *p, tw_attr *out)
{
    tw_parse_mark mark = tw_ps_mark(p);
    bool negative = tw_q_try(p, "-");
    if (p->token.kind == TW_TOKEN_FLOAT || tw_ps_at_float_word(p)) {
        uint64_t bits;
        if (!tw_ps_float(p, TW_F64, negative, &bits))
            return false;
        *out = tw_attr_float(p->ctx, tw_elem_to_double(TW_F64, bits));
        return true;
    }
    int64_t value;
    tw_ps_reset(p, mark);
    if (!tw_q_int(p, &value))
        return false;
    *out = tw_attr_int(p->ctx, value);
    return true;
}

/* ---- Lists ---- */

static bool parse_array(tw_parser *p, tw_attr *out)
{
    TW_VEC(tw_attr) items = {0};
    if (!tw_q_try(p, "]")) {
        do {
            tw_attr item;
            if (!tw_q_attr(p, &item))
                return false;
            tw_vec_push(p->arena, &items, item);
        } while (tw_q_try(p, ","));
        if (!tw_q_expect(p, "]"))
            return false;
    }
    *out = tw_attr_array(p->ctx, items.data, items.len);
    return true;
}

bool tw_ps_named_attrs(tw_parser *p, tw_named_attr **out, size_t *n)
{
    TW_VEC(tw_named_attr) items = {0};
    tw_map seen = tw_map_make(p->arena);
    if (!tw_q_expect(p, "{"))
        return false;
    if (!tw_ps_is(p, "}"))
        do {
            tw_loc loc = tw_q_loc(p);
            tw_named_attr item;
            if (!tw_ps_name(p, &item.name))
                return false;
            if (tw_map_put_ptr(&seen, item.name, (void *)item.name))
                return tw_ps_error_at(p, loc, "attribute '%s' is given twice", item.name);
            item.value = tw_attr_unit(p->ctx);
            if (tw_q_try(p, "=") && !tw_q_attr(p, &item.value))
                return false;
            tw_vec_push(p->arena, &items, item);
        } while (tw_q_try(p, ","));
    *out = items.data;
    *n = items.len;
    return tw_q_expect(p, "}");
}

static bool parse_dict(tw_parser *p, tw_attr *out)
{
    tw_named_attr *items;
    size_t n;
    if (!tw_ps_named_attrs(p, &items, &n))
        return false;
    *out = tw_attr_dict(p->ctx, items, n);
    return true;
}

/* ---- Maps and types ---- */

/* Whether `(d0` or `()[` is next: not a function type. */
static bool at_map(tw_parser *p)
{
    tw_parse_mark mark = tw_ps_mark(p);
    tw_ps_advance(p);
    bool map = tw_ps_is(p, "d0");
    if (tw_q_try(p, ")"))
        map = tw_ps_is(p, "[");
    tw_ps_reset(p, mark);
    return map;
}

/* `(d0, d1)`, in order, perhaps with `[]` behind. */
static bool parse_map_dims(tw_parser *p, unsigned *n)
{
    *n = 0;
    if (!tw_q_expect(p, "("))
        return false;
    if (!tw_ps_is(p, ")"))
        do {
            const char *expected = tw_arena_printf(p->arena, "d%u", *n);
            if (!tw_q_expect(p, expected))
                return false;
            ++*n;
        } while (tw_q_try(p, ","));
    return tw_q_expect(p, ")") && (!tw_q_try(p, "[") || tw_q_expect(p, "]"));
}

static bool parse_map(tw_parser *p, tw_attr *out)
{
    TW_VEC(tw_expr) exprs = {0};
    unsigned n_dims;
    if (!parse_map_dims(p, &n_dims) || !tw_q_expect(p, "->") || !tw_q_expect(p, "("))
        return false;
    if (!tw_ps_is(p, ")"))
        do {
            tw_expr e;
            if (!tw_ps_expr(p, NULL, NULL, n_dims, &e))
                return false;
            tw_vec_push(p->arena, &exprs, e);
        } while (tw_q_try(p, ","));
    if (!tw_q_expect(p, ")"))
        return false;
    *out = tw_attr_map(p->ctx, n_dims, exprs.data, exprs.len);
    return true;
}

static bool parse_type_attr(tw_parser *p, tw_attr *out)
{
    tw_type type;
    if (!tw_q_type(p, &type))
        return false;
    *out = tw_attr_type(p->ctx, type);
    return true;
}

/* ---- All ---- */

static bool parse_string(tw_parser *p, tw_attr *out)
{
    const char *text;
    size_t len;
    if (!tw_ps_decode(p, p->token.text, p->token.len, &text, &len))
        return false;
    tw_ps_advance(p);
    *out = tw_attr_string_n(p->ctx, text, len);
    return true;
}

static bool parse_symbol(tw_parser *p, tw_attr *out)
{
    const char *name;
    if (!tw_q_symbol(p, &name))
        return false;
    *out = tw_attr_symbol(p->ctx, name);
    return true;
}

static bool parse_word(tw_parser *p, tw_attr *out)
{
    if (tw_q_try(p, "unit")) {
        *out = tw_attr_unit(p->ctx);
        return true;
    }
    if (tw_ps_is(p, "true") || tw_ps_is(p, "false")) {
        *out = tw_attr_bool(p->ctx, tw_ps_is(p, "true"));
        tw_ps_advance(p);
        return true;
    }
    if (tw_q_try(p, "dense"))
        return tw_ps_dense(p, out);
    return tw_ps_at_float_word(p) ? parse_number(p, out) : parse_type_attr(p, out);
}

static bool parse_attr(tw_parser *p, tw_attr *out)
{
    switch (p->token.kind) {
    case TW_TOKEN_STRING:
        return parse_string(p, out);
    case TW_TOKEN_SYMBOL:
        return parse_symbol(p, out);
    case TW_TOKEN_INT:
    case TW_TOKEN_FLOAT:
        return parse_number(p, out);
    case TW_TOKEN_NAME:
        return parse_word(p, out);
    case TW_TOKEN_TYPE:
        return parse_type_attr(p, out);
    default:
        break;
    }
    if (tw_ps_is(p, "-"))
        return parse_number(p, out);
    if (tw_ps_is(p, "{"))
        return parse_dict(p, out);
    if (tw_ps_is(p, "("))
        return at_map(p) ? parse_map(p, out) : parse_type_attr(p, out);
    if (tw_q_try(p, "["))
        return parse_array(p, out);
    return tw_ps_expected(p, "an attribute");
}

bool tw_q_attr(tw_parser *p, tw_attr *out)
{
    return tw_ps_enter(p) && tw_ps_leave(p, parse_attr(p, out));
}
