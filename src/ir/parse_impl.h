/* parse_impl.h: the parser's state; private to src/ir/parse*.c. */
#ifndef TW_IR_PARSE_IMPL_H
#define TW_IR_PARSE_IMPL_H

#include "base/map.h"
#include "base/vec.h"
#include "ir/context_impl.h"
#include "ir/lex.h"
#include "ir/text.h"

/* The names that are visible in an isolated operation. */
typedef struct tw_namespace {
    tw_map names, numbers; /* text or number -> tw_value */
} tw_namespace;

/* A definition, taken back at the end of its region. */
typedef struct tw_binding {
    tw_namespace *space;
    const char *name; /* NULL: `number` */
    uint64_t number;
} tw_binding;

struct tw_parser {
    tw_context *ctx;
    tw_arena *arena;
    const char *file;
    tw_lexer lexer;
    tw_token token; /* the next one */
    bool failed;    /* an error is reported; further ones would be consequences */
    unsigned depth; /* nesting of everything, bounded by TW_MAX_NESTING */
    tw_namespace *space;
    TW_VEC(tw_binding) bindings;
    unsigned result_count; /* names left of `=` of the operation being parsed */
    size_t splat_bytes;    /* memory of constants that are longer than their text */
};

/* A place to come back to. */
typedef struct tw_parse_mark {
    tw_lexer lexer;
    tw_token token;
} tw_parse_mark;

static inline tw_parse_mark tw_ps_mark(const tw_parser *p)
{
    return (tw_parse_mark){p->lexer, p->token};
}
static inline void tw_ps_reset(tw_parser *p, tw_parse_mark mark)
{
    p->lexer = mark.lexer;
    p->token = mark.token;
}

tw_parser tw_ps_make(tw_context *ctx, const char *text, size_t len, const char *file);
void tw_ps_advance(tw_parser *p);
bool tw_ps_is(const tw_parser *p, const char *text);
/* "expected WHAT", naming what is there. */
bool tw_ps_expected(tw_parser *p, const char *what);
bool tw_ps_error_at(tw_parser *p, tw_loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
tw_loc tw_ps_token_loc(tw_parser *p, tw_token token);

/* Depth bookkeeping: false with a diagnostic when nesting is too deep. */
bool tw_ps_enter(tw_parser *p);
bool tw_ps_leave(tw_parser *p, bool result); /* gives result back */

/* Decodes a string literal with its quotes; false with a diagnostic for a bad escape. */
bool tw_ps_decode(tw_parser *p, const char *text, size_t len, const char **out, size_t *out_len);
/* The value of digits; false with a diagnostic when it does not fit. */
bool tw_ps_magnitude(tw_parser *p, uint64_t *out);
/* A name or a string without zero bytes, interned: dictionary keys, symbols of expressions. */
bool tw_ps_name(tw_parser *p, const char **out);
/* `nan`, `nan("0x…")`, `inf`, a number, each perhaps after `-`: the bits of that element. */
bool tw_ps_float(tw_parser *p, tw_elem elem, bool negative, uint64_t *bits);
bool tw_ps_at_float_word(const tw_parser *p);

/* Expressions. With `values` NULL dimensions are written d0, d1 …, below n_dims. */
bool tw_ps_expr(tw_parser *p, tw_value **values, unsigned *n_values, unsigned n_dims, tw_expr *out);

bool tw_ps_dense(tw_parser *p, tw_attr *out);
/* `{a = 1, b}` as a list without duplicates. */
bool tw_ps_named_attrs(tw_parser *p, tw_named_attr **out, size_t *n);

/* Operations up to `}` or the end of the text. */
bool tw_ps_ops(tw_parser *p, tw_region *region);
bool tw_ps_bind(tw_parser *p, tw_q_name name, tw_value *value);
tw_value *tw_ps_lookup(tw_parser *p, tw_q_name name);

#endif
