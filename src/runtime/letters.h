/* letters.h: capital and small letters of Latin, Greek, Cyrillic and Armenian, as code points. */
#ifndef TW_RUNTIME_LETTERS_H
#define TW_RUNTIME_LETTERS_H

#include <stdbool.h>
#include <stdint.h>

/* The capital or the small form; the same code point when it has none. */
uint32_t tw_change_case(uint32_t c, bool upper);

/* All code points that are the same letter when case does not count, c among them; how many. */
enum { TW_LETTERS_ALIKE = 5 };
unsigned tw_letters_alike(uint32_t c, uint32_t out[TW_LETTERS_ALIKE]);
/* Whether that is known of c: false in blocks whose letters have cases that no table here has. */
bool tw_has_known_case(uint32_t c);

#endif
