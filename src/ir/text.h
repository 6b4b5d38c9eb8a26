/* text.h: what the printer and the parser agree on beyond the grammar. */
#ifndef TW_IR_TEXT_H
#define TW_IR_TEXT_H

#include "tilewright/ir.h"

enum {
    TW_MAX_NESTING = 1000,   /* of regions, types, attributes and expressions in all */
    TW_DENSE_LIST_MAX = 256, /* a longer constant prints as hexadecimal bytes */
};

/* Letters, digits and `_`, not beginning with a digit; more of the like (that may begin with one)
 * after single dots: what stands without quotes as a name after @ or %, or as a dictionary key. */
bool tw_text_is_name(const char *text, size_t len);

/* A name that also means no operator, dimension or element type in an expression or a shape. */
bool tw_text_is_symbol(const char *text, size_t len);

/* The length of the valid UTF-8 sequence at `text`, 0 when there is none. */
size_t tw_text_utf8(const char *text, size_t len);

/* A double as decimal text with the fewest digits of a small choice that `reads_back` accepts;
 * always with a point or an exponent. Finite values only. */
typedef bool (*tw_reads_back)(double parsed, const void *data);
enum { TW_FLOAT_TEXT = 40 };
void tw_text_float(double value, char out[TW_FLOAT_TEXT], tw_reads_back reads_back,
                   const void *data);

/* strtod for any locale: a point is a point. The text must be a decimal number. */
double tw_text_to_double(const char *text);

#endif
