/* regex.h: regular expressions in RE2's syntax, matched against whole texts in time that grows with
 * the product of both lengths.
 *
 * There are: characters, `.`, classes in brackets with ranges, negation and [:names:], \d \D \w \W
 * \s \S, escapes of punctuation, \a \f \n \r \t \v, \xHH, \x{H…}, \Q…\E, groups (…), (?:…),
 * (?P<name>…), (?<name>…), alternatives, * + ? {n} {n,} {n,m} and their lazy forms, ^ $ \A \z \b
 * \B, flags (?is), (?i-s:…) with i, m, s, U. Text is UTF-8; a byte that is none counts as a
 * character of its own. Not: \p{…}, \C, and letters without regard to case of scripts that
 * letters.h has not.
 */
#ifndef TW_RUNTIME_REGEX_H
#define TW_RUNTIME_REGEX_H

#include <stdbool.h>
#include <stddef.h>

typedef struct tw_regex tw_regex;

/* NULL with *error (a constant text) when the pattern is wrong or has what there is not, or when
 * memory runs out. */
tw_regex *tw_regex_compile(const char *pattern, const char **error);
void tw_regex_free(tw_regex *re);
/* Whether all of the text matches; *failed is set when memory runs out. */
bool tw_regex_matches(const tw_regex *re, const char *text, bool *failed);

#endif
