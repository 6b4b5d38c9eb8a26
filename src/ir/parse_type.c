/* parse_type.c: types. */
#include "base/suggest.h"
#include "ir/parse_impl.h"

#include <string.h>

/* The separator between sizes, also where it is glued to what follows: `2x3xf32`. */
static bool take_separator(tw_parser *p)
{
    if (p->token.kind != TW_TOKEN_NAME || p->token.text[0] != 'x')
        return tw_ps_expected(p, "'x' and the next size or the element type");
    p->lexer.at = p->token.text + 1;
    tw_ps_advance(p);
    return true;
}

/* The element type ends the shape: `>` or `,` follows it. */
static bool at_element(tw_parser *p)
{
    if (p->token.kind != TW_TOKEN_NAME)
        return false;
    tw_parse_mark mark = tw_ps_mark(p);
    tw_ps_advance(p);
    bool last = tw_ps_is(p, ">") || tw_ps_is(p, ",");
    tw_ps_reset(p, mark);
    return last;
}

static bool parse_element(tw_parser *p, tw_elem *out)
{
    if (tw_elem_parse(p->token.text, p->token.len, out)) {
        tw_ps_advance(p);
        return true;
    }
    const char *name = tw_intern(p->ctx, p->token.text, p->token.len);
    tw_suggestion near = {.name = name};
    for (int e = 0; e < TW_ELEM_COUNT; e++)
        tw_suggest(&near, tw_elem_name((tw_elem)e));
    return tw_q_error(p, "there is no element type '%s'%s%s%s", name,
                      near.best ? "; did you mean '" : "", near.best ? near.best : "",
                      near.best ? "'?" : "");
}

static bool parse_size(tw_parser *p, tw_expr *out)
{
    if (p->token.kind == TW_TOKEN_INT || tw_ps_is(p, "-")) {
        tw_loc loc = tw_q_loc(p);
        int64_t size;
        if (!tw_q_int(p, &size))
            return false;
        *out = tw_expr_const(p->ctx, size);
        return size >= 0 || tw_ps_error_at(p, loc, "a size cannot be below 0");
    }
    if (tw_q_try(p, "("))
        return tw_ps_expr(p, NULL, NULL, 0, out) && tw_q_expect(p, ")");
    bool name = p->token.kind == TW_TOKEN_STRING ||
                (p->token.kind == TW_TOKEN_NAME && tw_text_is_symbol(p->token.text, p->token.len));
    const char *symbol;
    if (!name)
        return tw_ps_expected(p, "a size (number, name, string or expression in parentheses) or "
                                 "an element type");
    if (!tw_ps_name(p, &symbol))
        return false;
    *out = tw_expr_sym(p->ctx, symbol);
    return true;
}

/* `2x3xf32`, `batch x (seq * 2) x f32`. */
static bool parse_shape(tw_parser *p, tw_expr *dims, unsigned *rank, tw_elem *elem)
{
    for (*rank = 0; !at_element(p); ++*rank) {
        if (*rank == TW_MAX_RANK)
            return tw_q_error(p, "a rank above %d", TW_MAX_RANK);
        if (!parse_size(p, &dims[*rank]) || !take_separator(p))
            return false;
    }
    return parse_element(p, elem);
}

/* `NHWC`, `NCHW16c` */
static bool parse_layout(tw_parser *p, tw_attr *out)
{
    int64_t block;
    if (p->token.kind != TW_TOKEN_NAME)
        return tw_ps_expected(p, "a layout: NHWC, or NCHW16c with any number");
    *out = tw_attr_string_n(p->ctx, p->token.text, p->token.len);
    if (tw_layout_read(*out, &block) == TW_LAYOUT_UNKNOWN)
        return tw_q_error(p,
                          "there is no layout '%.*s'; it can be NHWC, or NCHW16c with any number",
                          (int)p->token.len, p->token.text);
    tw_ps_advance(p);
    return true;
}

static bool parse_tensor(tw_parser *p, tw_type *out)
{
    tw_expr dims[TW_MAX_RANK];
    unsigned rank;
    tw_elem elem;
    tw_attr layout = NULL;
    if (!parse_shape(p, dims, &rank, &elem) || (tw_q_try(p, ",") && !parse_layout(p, &layout)) ||
        !tw_q_expect(p, ">"))
        return false;
    *out = tw_type_tensor(p->ctx, elem, rank, dims, layout);
    return true;
}

static bool parse_buffer(tw_parser *p, tw_type *out)
{
    tw_expr dims[TW_MAX_RANK];
    unsigned rank;
    tw_elem elem;
    const char *scope = "";
    if (!parse_shape(p, dims, &rank, &elem) || (tw_q_try(p, ",") && !tw_q_string(p, &scope)) ||
        !tw_q_expect(p, ">"))
        return false;
    *out = tw_type_buffer(p->ctx, elem, rank, dims, scope);
    return true;
}

static bool parse_vector(tw_parser *p, tw_type *out)
{
    tw_expr dims[TW_MAX_RANK];
    unsigned rank;
    tw_elem elem;
    tw_loc loc = tw_q_loc(p);
    if (!parse_shape(p, dims, &rank, &elem) || !tw_q_expect(p, ">"))
        return false;
    if (rank != 1 || !tw_expr_is_const(dims[0]))
        return tw_ps_error_at(p, loc, "a vector has one number of lanes: vec<8xf32>");
    *out = tw_type_vector(p->ctx, elem, dims[0]->value);
    return true;
}

bool tw_q_types(tw_parser *p, tw_type **out, unsigned *n)
{
    TW_VEC(tw_type) types = {0};
    do {
        tw_type type;
        if (!tw_q_type(p, &type))
            return false;
        tw_vec_push(p->arena, &types, type);
    } while (tw_q_try(p, ","));
    *out = types.data;
    *n = (unsigned)types.len;
    return true;
}

static bool parse_type_list(tw_parser *p, tw_type **out, unsigned *n)
{
    *out = NULL;
    *n = 0;
    if (!tw_q_expect(p, "("))
        return false;
    return tw_q_try(p, ")") || (tw_q_types(p, out, n) && tw_q_expect(p, ")"));
}

static bool parse_function(tw_parser *p, tw_type *out)
{
    tw_type *inputs, *results;
    unsigned n_inputs, n_results;
    if (!parse_type_list(p, &inputs, &n_inputs) || !tw_q_expect(p, "->") ||
        !parse_type_list(p, &results, &n_results))
        return false;
    *out = tw_type_func(p->ctx, inputs, n_inputs, results, n_results);
    return true;
}

static bool unknown_type(tw_parser *p, const char *name)
{
    tw_suggestion near = {.name = name};
    for (size_t i = 0; i < p->ctx->type_defs.len; i++)
        tw_suggest(&near, ((const tw_type_def *)p->ctx->type_defs.entries[i].value)->name);
    return tw_q_error(p, "there is no type '!%s'%s%s%s", name, near.best ? "; did you mean '!" : "",
                      near.best ? near.best : "", near.best ? "'?" : "");
}

static bool parse_dialect_type(tw_parser *p, tw_type *out)
{
    const char *name = tw_intern(p->ctx, p->token.text + 1, p->token.len - 1);
    const tw_type_def *def = tw_map_get_str(&p->ctx->type_defs, name);
    tw_loc loc = tw_q_loc(p);
    if (!def)
        return unknown_type(p, name);
    tw_ps_advance(p);
    tw_attr params = NULL;
    if (tw_q_try(p, "<")) {
        TW_VEC(tw_attr) items = {0};
        if (!tw_ps_is(p, ">"))
            do {
                tw_attr item;
                if (!tw_q_attr(p, &item))
                    return false;
                tw_vec_push(p->arena, &items, item);
            } while (tw_q_try(p, ","));
        if (!tw_q_expect(p, ">"))
            return false;
        params = tw_attr_array(p->ctx, items.data, items.len);
    }
    if (def->verify && !def->verify(p->ctx, loc, params))
        return tw_ps_error_at(p, loc, "the parameters of !%s are wrong", name);
    *out = tw_type_dialect(p->ctx, name, params);
    return true;
}

static bool parse_type(tw_parser *p, tw_type *out)
{
    static const struct {
        const char *word;
        bool (*parse)(tw_parser *p, tw_type *out);
    } shaped[] = {{"tensor", parse_tensor}, {"buffer", parse_buffer}, {"vec", parse_vector}};
    for (size_t i = 0; i < sizeof shaped / sizeof *shaped; i++)
        if (tw_q_try(p, shaped[i].word))
            return tw_q_expect(p, "<") && shaped[i].parse(p, out);
    if (p->token.kind == TW_TOKEN_TYPE)
        return parse_dialect_type(p, out);
    if (tw_ps_is(p, "("))
        return parse_function(p, out);
    if (p->token.kind != TW_TOKEN_NAME)
        return tw_ps_expected(p, "a type");
    tw_elem elem;
    if (!parse_element(p, &elem))
        return false;
    *out = tw_type_scalar(p->ctx, elem);
    return true;
}

bool tw_q_type(tw_parser *p, tw_type *out)
{
    return tw_ps_enter(p) && tw_ps_leave(p, parse_type(p, out));
}
