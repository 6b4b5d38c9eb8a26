/* lex.c: cuts the IR's text into tokens. */
#include "ir/lex.h"

#include <string.h>

tw_lexer tw_lexer_make(const char *text, size_t len)
{
    return (tw_lexer){text, text + len, text, 1};
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The character `ahead` of the place, 0 behind the end. */
static char peek(const tw_lexer *l, size_t ahead)
{
    return (size_t)(l->end - l->at) > ahead ? l->at[ahead] : 0;
}

static void skip_blanks(tw_lexer *l)
{
    while (l->at < l->end) {
        if (*l->at == '\n') {
            l->line_start = ++l->at;
            l->line++;
        } else if (*l->at == ' ' || *l->at == '\t' || *l->at == '\r') {
            l->at++;
        } else if (*l->at == '/' && peek(l, 1) == '/') {
            const char *newline = memchr(l->at, '\n', (size_t)(l->end - l->at));
            l->at = newline ? newline : l->end;
        } else {
            return;
        }
    }
}

static void skip_digits(tw_lexer *l)
{
    while (is_digit(peek(l, 0)))
        l->at++;
}

static bool take_name(tw_lexer *l)
{
    if (!is_letter(peek(l, 0)))
        return false;
    for (;;) {
        char next = peek(l, 1);
        bool dot = peek(l, 0) == '.' && (is_letter(next) || is_digit(next));
        if (!dot && !is_letter(peek(l, 0)) && !is_digit(peek(l, 0)))
            return true;
        l->at++;
    }
}

static tw_token_kind take_number(tw_lexer *l)
{
    tw_token_kind kind = TW_TOKEN_INT;
    skip_digits(l);
    if (peek(l, 0) == '.' && is_digit(peek(l, 1))) {
        kind = TW_TOKEN_FLOAT;
        l->at++;
        skip_digits(l);
    }
    bool sign = peek(l, 1) == '+' || peek(l, 1) == '-';
    if ((peek(l, 0) == 'e' || peek(l, 0) == 'E') && is_digit(peek(l, sign ? 2 : 1))) {
        kind = TW_TOKEN_FLOAT;
        l->at += sign ? 2 : 1;
        skip_digits(l);
    }
    return kind;
}

/* From the opening quote on; a problem or NULL. */
static const char *take_string(tw_lexer *l)
{
    for (l->at++; l->at < l->end && *l->at != '"'; l->at++) {
        if (*l->at == '\n')
            break;
        if (*l->at == '\\' && l->at + 1 < l->end && l->at[1] != '\n')
            l->at++;
    }
    if (peek(l, 0) != '"')
        return "the string does not end on its line";
    l->at++;
    return NULL;
}

/* What follows % or @. */
static const char *take_sigil_name(tw_lexer *l, bool number_too)
{
    l->at++;
    if (peek(l, 0) == '"')
        return take_string(l);
    if (number_too && is_digit(peek(l, 0))) {
        skip_digits(l);
        return NULL;
    }
    return take_name(l) ? NULL : "a name or a string must follow";
}

tw_token tw_lex(tw_lexer *l)
{
    skip_blanks(l);
    tw_token t = {.kind = TW_TOKEN_END, .text = l->at, .line = l->line};
    t.column = (unsigned)(l->at - l->line_start) + 1;
    char c = peek(l, 0);
    if (l->at == l->end)
        return t;
    if (is_letter(c)) {
        t.kind = TW_TOKEN_NAME;
        take_name(l);
    } else if (is_digit(c)) {
        t.kind = take_number(l);
    } else if (c == '"') {
        t.kind = TW_TOKEN_STRING;
        t.problem = take_string(l);
    } else if (c == '%' || c == '@') {
        t.kind = c == '%' ? TW_TOKEN_VALUE : TW_TOKEN_SYMBOL;
        t.problem = take_sigil_name(l, c == '%');
    } else if (c == '!' && is_letter(peek(l, 1))) {
        t.kind = TW_TOKEN_TYPE;
        l->at++;
        take_name(l);
    } else if (c && strchr("(){}[]<>,:=+-*^", c)) {
        t.kind = TW_TOKEN_PUNCTUATION;
        l->at += c == '-' && peek(l, 1) == '>' ? 2 : 1;
    } else {
        t.kind = TW_TOKEN_BAD;
        t.problem = "this character begins no token";
        l->at++;
    }
    t.len = (size_t)(l->at - t.text);
    if (t.problem)
        t.kind = TW_TOKEN_BAD;
    return t;
}
