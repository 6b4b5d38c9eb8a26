/* suggest.c: edit distance with transpositions (optimal string alignment). */
#include "base/suggest.h"

#include <string.h>

enum { MAX_NAME = 64 }; /* longer names get no suggestion */

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

/* The distance of two names of at most MAX_NAME letters. */
static size_t distance(const char *a, size_t na, const char *b, size_t nb)
{
    size_t rows[3][MAX_NAME + 1];
    size_t *older = rows[0], *old = rows[1], *row = rows[2];
    for (size_t j = 0; j <= nb; j++)
        old[j] = j;
    for (size_t i = 1; i <= na; i++) {
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            row[j] = min3(old[j] + 1, row[j - 1] + 1, old[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                older[j - 2] + 1 < row[j])
                row[j] = older[j - 2] + 1;
        }
        size_t *spare = older;
        older = old;
        old = row;
        row = spare;
    }
    return old[nb];
}

void tw_suggest(tw_suggestion *s, const char *known)
{
    size_t n = strlen(s->name), m = strlen(known);
    if (n > MAX_NAME || m > MAX_NAME)
        return;
    size_t d = distance(s->name, n, known, m);
    if (d > 1 + n / 3 || (s->best && d >= s->distance))
        return;
    s->best = known;
    s->distance = d;
}
