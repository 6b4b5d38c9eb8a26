/* clock.h: the time that measurements take. */
#ifndef TW_BASE_CLOCK_H
#define TW_BASE_CLOCK_H

#include <time.h>

/* Seconds of a clock that only goes forward. */
static inline double tw_seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
