/* parse.c: the parser's ground: tokens, diagnostics, literals, and the pieces that custom syntax is
 * made of. Recursive descent, one token ahead; the first error ends it. */
#include "ir/parse_impl.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

tw_parser tw_ps_make(tw_context *ctx, const char *text, size_t len, const char *file)
{
    tw_parser p = {.ctx = ctx, .arena = ctx->arena, .lexer = tw_lexer_make(text, len)};
    p.file = tw_intern(ctx, file, strlen(file));
    p.space = TW_NEW(p.arena, tw_namespace);
    p.space->names = tw_map_make(p.arena);
    p.space->numbers = tw_map_make(p.arena);
    tw_context_add_source(ctx, file, text, len);
    tw_ps_advance(&p);
    return p;
}

void tw_ps_advance(tw_parser *p)
{
    p->token = tw_lex(&p->lexer);
}

/* ---- Diagnostics ---- */

tw_loc tw_ps_token_loc(tw_parser *p, tw_token token)
{
    return tw_loc_file(p->ctx, p->file, token.line, token.column);
}

tw_context *tw_q_context(tw_parser *p)
{
    return p->ctx;
}

tw_loc tw_q_loc(tw_parser *p)
{
    return tw_ps_token_loc(p, p->token);
}

static bool report(tw_parser *p, tw_loc loc, const char *format, va_list args)
{
    if (!p->failed)
        tw_verror(p->ctx, loc, format, args);
    p->failed = true;
    return false;
}

bool tw_q_error(tw_parser *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    report(p, tw_q_loc(p), format, args);
    va_end(args);
    return false;
}

bool tw_ps_error_at(tw_parser *p, tw_loc loc, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    report(p, loc, format, args);
    va_end(args);
    return false;
}

bool tw_ps_expected(tw_parser *p, const char *what)
{
    enum { SHOWN = 40 };
    const tw_token *t = &p->token;
    if (t->kind == TW_TOKEN_BAD)
        return tw_q_error(p, "%s", t->problem);
    if (t->kind == TW_TOKEN_END)
        return tw_q_error(p, "expected %s, but the text ends here", what);
    if (t->len > SHOWN)
        return tw_q_error(p, "expected %s, not '%.*s...'", what, SHOWN, t->text);
    return tw_q_error(p, "expected %s, not '%.*s'", what, (int)t->len, t->text);
}

bool tw_ps_enter(tw_parser *p)
{
    if (p->depth >= TW_MAX_NESTING)
        return tw_q_error(p, "nesting is deeper than %d levels", TW_MAX_NESTING);
    p->depth++;
    return true;
}

bool tw_ps_leave(tw_parser *p, bool result)
{
    p->depth--;
    return result;
}

/* ---- Tokens ---- */

bool tw_ps_is(const tw_parser *p, const char *text)
{
    const tw_token *t = &p->token;
    return (t->kind == TW_TOKEN_NAME || t->kind == TW_TOKEN_PUNCTUATION) &&
           t->len == strlen(text) && !memcmp(t->text, text, t->len);
}

bool tw_q_peek(tw_parser *p, const char *text)
{
    return tw_ps_is(p, text);
}

bool tw_q_try(tw_parser *p, const char *text)
{
    if (!tw_ps_is(p, text))
        return false;
    tw_ps_advance(p);
    return true;
}

bool tw_q_expect(tw_parser *p, const char *text)
{
    if (tw_q_try(p, text))
        return true;
    return tw_ps_expected(p, tw_arena_printf(p->arena, "'%s'", text));
}

bool tw_q_keyword(tw_parser *p, const char **out)
{
    if (p->token.kind != TW_TOKEN_NAME)
        return tw_ps_expected(p, "a word");
    *out = tw_intern(p->ctx, p->token.text, p->token.len);
    tw_ps_advance(p);
    return true;
}

/* ---- Numbers ---- */

bool tw_ps_magnitude(tw_parser *p, uint64_t *out)
{
    if (p->token.kind != TW_TOKEN_INT)
        return tw_ps_expected(p, "an integer");
    uint64_t value = 0;
    for (size_t i = 0; i < p->token.len; i++)
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(p->token.text[i] - '0'), &value))
            return tw_q_error(p, "the number does not fit in 64 bits");
    *out = value;
    tw_ps_advance(p);
    return true;
}

bool tw_q_int(tw_parser *p, int64_t *out)
{
    tw_loc loc = tw_q_loc(p);
    bool negative = tw_q_try(p, "-");
    uint64_t magnitude;
    if (!tw_ps_magnitude(p, &magnitude))
        return false;
    if (magnitude > (uint64_t)INT64_MAX + negative)
        return tw_ps_error_at(p, loc, "the number does not fit in 64 bits");
    *out = (int64_t)(negative ? -magnitude : magnitude);
    return true;
}

/* ---- Strings and names ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* One escape behind a backslash at text[*i]; -1 when it is none. */
static int decode_escape(const char *text, size_t len, size_t *i)
{
    char c = text[(*i)++];
    if (c == 'n' || c == 't' || c == 'r')
        return c == 'n' ? '\n' : c == 't' ? '\t' : '\r';
    if (c == '"' || c == '\\')
        return c;
    if (c != 'x' || *i + 2 > len)
        return -1;
    int high = hex_digit(text[*i]), low = hex_digit(text[*i + 1]);
    *i += 2;
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

bool tw_ps_decode(tw_parser *p, const char *text, size_t len, const char **out, size_t *out_len)
{
    text++; /* the quotes */
    len -= 2;
    char *decoded = tw_arena_calloc(p->arena, len + 1, 1);
    size_t n = 0;
    for (size_t i = 0; i < len;) {
        int c = (unsigned char)text[i++];
        if (c == '\\')
            c = decode_escape(text, len, &i);
        if (c < 0)
            return tw_q_error(p, "bad escape in a string: use \\\" \\\\ \\n \\t \\r or \\xHH");
        decoded[n++] = (char)c;
    }
    *out = decoded;
    *out_len = n;
    return true;
}

/* The text of the next token without its sigil: a name, or a decoded string without zero bytes. */
static bool take_name(tw_parser *p, size_t sigil, const char **out)
{
    const char *text = p->token.text + sigil;
    size_t len = p->token.len - sigil;
    if (*text == '"') {
        if (!tw_ps_decode(p, text, len, &text, &len))
            return false;
        if (memchr(text, 0, len))
            return tw_q_error(p, "this string must not hold a zero byte");
    }
    *out = tw_intern(p->ctx, text, len);
    tw_ps_advance(p);
    return true;
}

bool tw_q_string(tw_parser *p, const char **out)
{
    return p->token.kind == TW_TOKEN_STRING ? take_name(p, 0, out) : tw_ps_expected(p, "a string");
}

bool tw_q_symbol(tw_parser *p, const char **out)
{
    return p->token.kind == TW_TOKEN_SYMBOL ? take_name(p, 1, out) : tw_ps_expected(p, "a @name");
}

bool tw_q_peek_symbol(tw_parser *p)
{
    return p->token.kind == TW_TOKEN_SYMBOL;
}

bool tw_ps_name(tw_parser *p, const char **out)
{
    bool fits = p->token.kind == TW_TOKEN_NAME || p->token.kind == TW_TOKEN_STRING;
    return fits ? take_name(p, 0, out) : tw_ps_expected(p, "a name");
}

bool tw_q_new_name(tw_parser *p, tw_q_name *out)
{
    if (p->token.kind != TW_TOKEN_VALUE)
        return tw_ps_expected(p, "a %name");
    *out = (tw_q_name){.loc = tw_q_loc(p)};
    if (p->token.text[1] < '0' || p->token.text[1] > '9')
        return take_name(p, 1, &out->hint);
    p->token.text++;
    p->token.len--;
    p->token.kind = TW_TOKEN_INT;
    return tw_ps_magnitude(p, &out->number);
}

/* ---- Values ---- */

tw_value *tw_ps_lookup(tw_parser *p, tw_q_name name)
{
    return name.hint ? tw_map_get_str(&p->space->names, name.hint)
                     : tw_map_get(&p->space->numbers, &name.number, sizeof name.number);
}

/* The name as the text has it, for messages. */
static const char *spell(tw_parser *p, tw_q_name name)
{
    return name.hint ? name.hint
                     : tw_arena_printf(p->arena, "%llu", (unsigned long long)name.number);
}

bool tw_ps_bind(tw_parser *p, tw_q_name name, tw_value *value)
{
    if (tw_ps_lookup(p, name)) {
        tw_ps_error_at(p, name.loc, "%%%s is defined already", spell(p, name));
        return false;
    }
    if (name.hint)
        tw_map_put_str(&p->space->names, name.hint, value);
    else
        tw_map_put(&p->space->numbers, &name.number, sizeof name.number, value);
    tw_binding b = {p->space, name.hint, name.number};
    tw_vec_push(p->arena, &p->bindings, b);
    return true;
}

bool tw_q_value(tw_parser *p, tw_value **out)
{
    tw_q_name name;
    if (!tw_q_new_name(p, &name))
        return false;
    *out = tw_ps_lookup(p, name);
    return *out || tw_ps_error_at(p, name.loc, "%%%s is not defined here", spell(p, name));
}

/* Whether `%a, %b =` is next: the results of another operation. */
static bool at_definition(tw_parser *p)
{
    tw_parse_mark mark = tw_ps_mark(p);
    while (p->token.kind == TW_TOKEN_VALUE) {
        tw_ps_advance(p);
        if (!tw_q_try(p, ","))
            break;
    }
    bool definition = tw_ps_is(p, "=");
    tw_ps_reset(p, mark);
    return definition;
}

bool tw_q_values(tw_parser *p, tw_value ***out, unsigned *n)
{
    TW_VEC(tw_value *) values = {0};
    if (p->token.kind == TW_TOKEN_VALUE && !at_definition(p))
        do {
            tw_value *value;
            if (!tw_q_value(p, &value))
                return false;
            tw_vec_push(p->arena, &values, value);
        } while (tw_q_try(p, ","));
    *out = values.data;
    *n = (unsigned)values.len;
    return true;
}

unsigned tw_q_result_count(tw_parser *p)
{
    return p->result_count;
}
