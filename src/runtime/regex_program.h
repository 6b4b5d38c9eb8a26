/* regex_program.h: what a pattern becomes (regex.c) and a text is matched by (regex_match.c). */
#ifndef TW_RUNTIME_REGEX_PROGRAM_H
#define TW_RUNTIME_REGEX_PROGRAM_H

#include "runtime/regex.h"

#include <stdint.h>

typedef enum op {
    CHAR,
    ANY,
    ANY_LINE, /* and line ends too */
    CLASS,
    SPLIT,
    JUMP,
    BEGIN,
    END,
    BEGIN_LINE,
    END_LINE,
    WORD,
    NO_WORD,
    MATCH
} op;

typedef struct range {
    uint32_t low, high;
} range;

typedef struct instruction {
    op op;
    uint32_t x,
        y;        /* CHAR: code point; SPLIT, JUMP: targets; CLASS: first range, number of ranges */
    bool negated; /* CLASS */
    bool folded;  /* CHAR, CLASS: case does not count */
} instruction;

struct tw_regex {
    instruction *program;
    size_t n, room;
    range *ranges;
    size_t n_ranges, room_ranges;
};

/* The character at *at, which moves behind it: a code point, or 0x110000 + a byte that is no UTF-8.
 */
uint32_t tw_regex_next_char(const char **at);

/* Whether it is one of \w. */
static inline bool tw_regex_is_word(uint32_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

#endif
