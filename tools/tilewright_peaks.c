/* tilewright_peaks.c: what one thread of this machine can do, measured.
 *
 * The floating-point peak comes from independent multiply-adds on registers, the bandwidth from
 * summing memory larger than the caches; best of several tries of some milliseconds. */
#include "tilewright.h"

#include <stdlib.h>
#include <time.h>

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum { CHAINS = 12, ROUNDS = 200000 }; /* enough chains to hide the latency of 4 x 2 units */

/* One function per width: CHAINS accumulators stay in registers. */
#define DEFINE_FLOPS(name, target_text, bytes)                                                     \
    typedef float vec_##name __attribute__((vector_size(bytes)));                                  \
    __attribute__((target(target_text), noinline)) static float flops_##name(void)                 \
    {                                                                                              \
        vec_##name acc[CHAINS] = {0}, x = {0}, y = {0};                                            \
        for (int i = 0; i < CHAINS; i++) /* different, lest the compiler join them */              \
            acc[i] += (float)i;                                                                    \
        x += 0.5f;                                                                                 \
        y += 1.0f;                                                                                 \
        for (int r = 0; r < ROUNDS; r++) {                                                         \
            _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++) acc[i] = acc[i] * x + y;     \
        }                                                                                          \
        vec_##name sum = {0};                                                                      \
        for (int i = 0; i < CHAINS; i++)                                                           \
            sum += acc[i];                                                                         \
        return sum[0];                                                                             \
    }

/* Contraction to multiply-adds, which the rest of the tree is compiled without. */
#if defined(__clang__)
#pragma clang fp contract(fast)
#else
#pragma GCC push_options
#pragma GCC optimize("O3,fp-contract=fast")
#endif
#if defined(__x86_64__)
DEFINE_FLOPS(v4, "avx512f,avx512vl", 64)
DEFINE_FLOPS(v3, "avx2,fma", 32)
#else
DEFINE_FLOPS(v2, "", 16)
#endif
#if !defined(__clang__)
#pragma GCC pop_options
#endif

static double measure_flops(void)
{
    float (*function)(void);
    unsigned lanes;
#if defined(__x86_64__)
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
    function = wide ? flops_v4 : flops_v3;
    lanes = wide ? 16 : 8;
#else
    function = flops_v2;
    lanes = 4;
#endif
    double best = 0;
    volatile float keep;
    for (int t = 0; t < 8; t++) {
        double start = seconds_now();
        keep = function();
        double rate = 2.0 * CHAINS * ROUNDS * lanes / (seconds_now() - start);
        best = rate > best ? rate : best;
    }
    (void)keep;
    return best;
}

static double measure_bandwidth(void)
{
    enum { BYTES = 256 << 20 };
    uint64_t *data = malloc(BYTES);
    double best = 1e9;
    if (!data)
        return best;
    for (size_t i = 0; i < BYTES / sizeof *data; i++)
        data[i] = i;
    volatile uint64_t keep;
    for (int t = 0; t < 4; t++) {
        double start = seconds_now();
        uint64_t sums[8] = {0};
        for (size_t i = 0; i < BYTES / sizeof *data; i += 8)
            for (int j = 0; j < 8; j++)
                sums[j] += data[i + (size_t)j];
        keep = sums[0] + sums[1] + sums[2] + sums[3] + sums[4] + sums[5] + sums[6] + sums[7];
        double rate = BYTES / (seconds_now() - start);
        best = rate > best ? rate : best;
    }
    (void)keep;
    free(data);
    return best;
}

double tw_peak_flops(void)
{
    static double peak;
    if (peak == 0)
        peak = measure_flops();
    return peak;
}

double tw_peak_bandwidth(void)
{
    static double peak;
    if (peak == 0)
        peak = measure_bandwidth();
    return peak;
}
