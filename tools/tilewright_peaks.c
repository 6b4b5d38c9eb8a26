/* tilewright_peaks.c: what threads of this machine can do together, measured.
 *
 * The floating-point peak comes from independent multiply-adds on registers, the bandwidth from
 * summing memory larger than the caches; best of several tries of some milliseconds. */
#include "tilewright.h"

#include "base/clock.h"

#include <stdlib.h>

/* Enough chains to hide the latency of 4 x 2 units; they and two more fit into 16 registers. */
enum { CHAINS = 12, ROUNDS = 200000 };
enum { BYTES = 256 << 20, SUMS = 8 }; /* of the memory that is summed */

/* Contraction to multiply-adds, which the rest of the tree is compiled without. */
#if defined(__clang__)
#pragma clang fp contract(fast)
#else
#pragma GCC push_options
#pragma GCC optimize("O3,fp-contract=fast")
#endif

/* One function per width: CHAINS accumulators stay in registers. */
#define DEFINE_FLOPS(name, target_attribute, bytes)                                                \
    typedef float vec_##name __attribute__((vector_size(bytes)));                                  \
    target_attribute __attribute__((noinline)) static float flops_##name(void)                     \
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

DEFINE_FLOPS(v2, , 16)
#if defined(__x86_64__)
DEFINE_FLOPS(v3, __attribute__((target("avx2,fma"))), 32)
DEFINE_FLOPS(v4, __attribute__((target("avx512f,avx512vl"))), 64)
#endif

static uint64_t sum_of(const uint64_t *data, size_t n)
{
    uint64_t sums[SUMS] = {0}, sum = 0;
    for (size_t i = 0; i + SUMS <= n; i += SUMS)
        for (size_t j = 0; j < SUMS; j++)
            sums[j] += data[i + j];
    for (size_t j = 0; j < SUMS; j++)
        sum += sums[j];
    return sum;
}

#if !defined(__clang__)
#pragma GCC pop_options
#endif

/* What one thread does; a piece of it for each. */
typedef struct task {
    float (*flops)(void);
    const uint64_t *data;
    size_t per_thread; /* elements of data */
    volatile uint64_t keep;
} task;

static void run_flops(void *data, int64_t begin, int64_t end)
{
    task *t = data;
    for (int64_t i = begin; i < end; i++)
        t->keep = t->flops() > 0;
}

static void run_sums(void *data, int64_t begin, int64_t end)
{
    task *t = data;
    t->keep =
        sum_of(t->data + (size_t)begin * t->per_thread, (size_t)(end - begin) * t->per_thread);
}

/* The most `work` per second of several tries. */
static double best_rate(tw_pool *pool, unsigned threads, double work, task *t,
                        void (*body)(void *data, int64_t begin, int64_t end))
{
    double best = 0;
    for (int i = 0; i < 8; i++) {
        double start = tw_seconds_now();
        tw_pool_parallel_for(pool, threads, threads, body, t);
        double rate = work / (tw_seconds_now() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

static double measure_flops(tw_pool *pool, unsigned threads)
{
    task t = {.flops = flops_v2};
    unsigned lanes = 4;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) {
        t.flops = flops_v4;
        lanes = 16;
    } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        t.flops = flops_v3;
        lanes = 8;
    }
#endif
    return best_rate(pool, threads, 2.0 * CHAINS * ROUNDS * lanes * threads, &t, run_flops);
}

/* 0 when there is no memory for it. */
static double measure_bandwidth(tw_pool *pool, unsigned threads)
{
    task t = {.per_thread = BYTES / sizeof *t.data / threads};
    uint64_t *data = malloc(BYTES);
    if (!data)
        return 0;
    for (size_t i = 0; i < BYTES / sizeof *data; i++)
        data[i] = i;
    t.data = data;
    double rate =
        best_rate(pool, threads, (double)t.per_thread * sizeof *data * threads, &t, run_sums);
    free(data);
    return rate;
}

bool tw_measure_peaks(unsigned threads, tw_peaks *out)
{
    tw_pool *pool;
    if (tw_pool_create(threads, &pool) != TW_STATUS_OK)
        return false;
    *out = (tw_peaks){measure_flops(pool, threads), measure_bandwidth(pool, threads)};
    tw_pool_destroy(pool);
    return out->bandwidth > 0;
}
