/* text.c: names, UTF-8 and decimal numbers in the IR's text. */
#include "ir/text.h"

#include <locale.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool tw_text_is_name(const char *text, size_t len)
{
    if (!len || !is_letter(text[0]))
        return false;
    for (size_t i = 1; i < len; i++) {
        bool dot = text[i] == '.' && text[i - 1] != '.' && i + 1 < len;
        if (!dot && !is_letter(text[i]) && !is_digit(text[i]))
            return false;
    }
    return true;
}

static bool is_dimension(const char *text, size_t len)
{
    if (len < 2 || text[0] != 'd')
        return false;
    for (size_t i = 1; i < len; i++)
        if (!is_digit(text[i]))
            return false;
    return true;
}

bool tw_text_is_symbol(const char *text, size_t len)
{
    static const char *const reserved[] = {"x",   "min", "max",     "floordiv",
                                           "mod", "loc", "invalid", "ceildiv"};
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (strlen(reserved[i]) == len && !memcmp(reserved[i], text, len))
            return false;
    tw_elem elem;
    return tw_text_is_name(text, len) && !is_dimension(text, len) &&
           !tw_elem_parse(text, len, &elem);
}

size_t tw_text_utf8(const char *text, size_t len)
{
    const unsigned char *s = (const unsigned char *)text;
    if (!len)
        return 0;
    if (s[0] < 0x80)
        return 1;
    size_t n = s[0] >= 0xf0 && s[0] < 0xf5   ? 4
               : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
               : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
                                             : 0;
    if (!n || n > len)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    /* Overlong forms, surrogates and what lies beyond U+10FFFF. */
    bool bad = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
               (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f);
    return bad ? 0 : n;
}

static locale_t c_locale;

static void make_c_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

double tw_text_to_double(const char *text)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_c_locale);
    return c_locale ? strtod_l(text, NULL, c_locale) : strtod(text, NULL);
}

/* Makes a point of whatever the locale put between the digits. */
static void normalise_point(char *text)
{
    char *to = text;
    bool in_point = false;
    for (const char *from = text; *from; from++) {
        bool plain = is_digit(*from) || strchr("+-e", *from);
        if (plain)
            *to++ = *from;
        else if (!in_point)
            *to++ = '.';
        in_point = !plain;
    }
    *to = 0;
}

void tw_text_float(double value, char out[TW_FLOAT_TEXT], tw_reads_back reads_back,
                   const void *data)
{
    static const int precisions[] = {3, 6, 9, 15, 16, 17};
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++) {
        snprintf(out, TW_FLOAT_TEXT - 2, "%.*g", precisions[i], value);
        normalise_point(out);
        if (reads_back(tw_text_to_double(out), data))
            break;
    }
    if (!strpbrk(out, ".e"))
        strcat(out, ".0");
}
