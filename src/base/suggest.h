/* suggest.h: "did you mean": the known name that is closest to a mistyped one. */
#ifndef TW_BASE_SUGGEST_H
#define TW_BASE_SUGGEST_H

#include <stddef.h>

/* The best candidate so far; zero-initialise, set `name`, offer every known name, read `best`. */
typedef struct tw_suggestion {
    const char *name; /* what was written */
    const char *best; /* the closest known name, or NULL when none is near */
    size_t distance;
} tw_suggestion;

/* Takes `known` (kept by reference) as best when at most a third of the letters, and fewer than
 * for the earlier best, must be inserted, removed, replaced or swapped with a neighbour. */
void tw_suggest(tw_suggestion *s, const char *known);

#endif
