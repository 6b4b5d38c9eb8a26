/* lex.h: the tokens of the IR's text. */
#ifndef TW_IR_LEX_H
#define TW_IR_LEX_H

#include <stdbool.h>
#include <stddef.h>

typedef enum tw_token_kind {
    TW_TOKEN_END,
    TW_TOKEN_NAME,   /* module, graph.add, x3xf32 */
    TW_TOKEN_INT,    /* 12; decimal, without a sign */
    TW_TOKEN_FLOAT,  /* 1.5, 2e-3, without a sign */
    TW_TOKEN_STRING, /* "text", with its quotes and escapes */
    TW_TOKEN_VALUE,  /* %name, %12, %"any name" */
    TW_TOKEN_SYMBOL, /* @name, @"any name" */
    TW_TOKEN_TYPE,   /* !dialect.name */
    TW_TOKEN_PUNCTUATION,
    TW_TOKEN_BAD, /* `problem` says why */
} tw_token_kind;

typedef struct tw_token {
    tw_token_kind kind;
    const char *text;
    size_t len;
    unsigned line, column; /* from 1; the column counts bytes */
    const char *problem;
} tw_token;

typedef struct tw_lexer {
    const char *at, *end, *line_start;
    unsigned line;
} tw_lexer;

tw_lexer tw_lexer_make(const char *text, size_t len);

/* The next token; at the end of the text TW_TOKEN_END again and again. Blanks and comments (from
 * two slashes to the end of the line) only separate. */
tw_token tw_lex(tw_lexer *lexer);

#endif
