/* timing.c: the best time of a function, and what this core can do at most.
 *
 * Built by gemm.py into a shared object, for the processes that measure. */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

typedef int run_fn(void *state);

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds of one call at best: groups of calls that take 20 microseconds or more are timed, for as
 * many seconds as given. A call of one thread that takes so long that other processes come between
 * counts by its processor's time, which is too coarse for short ones. */
double best(run_fn *run, void *state, int threads, double seconds)
{
    double start = now(CLOCK_MONOTONIC), least = 1e300, end;
    unsigned calls = 1;
    do {
        double begin = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
        for (unsigned i = 0; i < calls; i++)
            run(state);
        cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
        end = now(CLOCK_MONOTONIC);
        double one = (threads == 1 && cpu > 1e-3 ? cpu : end - begin) / calls;
        if (one < least)
            least = one;
        if (end - begin < 20e-6)
            calls *= 2;
    } while (end - start < seconds);
    return least;
}

/* Multiply-adds of independent registers: 14 hide the latency of two units. */
#define CHAINS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)

__attribute__((target("avx512f"))) static int fma512(void *state)
{
    __m512 x = _mm512_set1_ps(*(float *)state);
#define V(i) __m512 v##i = x;
    CHAINS(V)
    for (int n = 0; n < 4096; n++) {
#define F(i) __asm__("vfmadd231ps %1, %1, %0" : "+v"(v##i) : "v"(x));
        CHAINS(F)
    }
#define S(i) x = _mm512_add_ps(x, v##i);
    CHAINS(S)
    *(float *)state = _mm512_cvtss_f32(x) * 0;
    return 0;
}
#undef V
#undef F
#undef S

__attribute__((target("avx2,fma"))) static int fma256(void *state)
{
    __m256 x = _mm256_set1_ps(*(float *)state);
#define V(i) __m256 v##i = x;
    CHAINS(V)
    for (int n = 0; n < 4096; n++) {
#define F(i) __asm__("vfmadd231ps %1, %1, %0" : "+v"(v##i) : "v"(x));
        CHAINS(F)
    }
#define S(i) x = _mm256_add_ps(x, v##i);
    CHAINS(S)
    *(float *)state = _mm256_cvtss_f32(x) * 0;
    return 0;
}

/* f32 operations a second of one core, with vectors of so many bits. */
double peak(int bits, double seconds)
{
    float x = 0;
    return 14 * 4096 * 2 * (bits / 32) / best(bits == 512 ? fma512 : fma256, &x, 1, seconds);
}

typedef struct reading {
    const char *data;
    size_t bytes;
} reading;

/* In eight streams: the processor fetches ahead in each. */
__attribute__((target("avx2"))) static int read_all(void *state)
{
    const reading *r = state;
    size_t part = r->bytes / 8 & ~(size_t)127;
    __m256i s[4] = {0};
    for (size_t i = 0; i < part; i += 128)
        for (int j = 0; j < 8; j++)
            for (int k = 0; k < 4; k++) {
                const char *at = r->data + (size_t)j * part + i + 32 * k;
                __m256i v = _mm256_load_si256((const __m256i *)at);
                __asm__("vpor %1, %0, %0" : "+x"(s[k]) : "x"(v));
            }
    return 0;
}

/* Bytes a second at which one core reads memory of that size again and again, in whichever cache it
 * stays. `data` is aligned. */
double bandwidth(const void *data, size_t bytes, double seconds)
{
    reading r = {data, bytes};
    return (double)bytes / best(read_all, &r, 1, seconds);
}
