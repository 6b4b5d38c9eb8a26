/* cpu.c: one table says where cpuid reports each feature and which psABI level it belongs to.
 *
 * Registers wider than SSE's count only when the operating system saves them (xgetbv). */
#include "artifact/cpu.h"

#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

enum { EAX, EBX, ECX, EDX };
enum { OS_NONE, OS_AVX, OS_AVX512 };

/* X(name, level, leaf, subleaf, register, bit, state): level 0 is above v4's. Bit numbers in
 * feature sets are positions in this list and part of the model ABI: append only. */
#define FEATURES(X)                                                                                \
    X("cx16", 2, 1, 0, ECX, 13, OS_NONE)                                                           \
    X("sahf", 2, 0x80000001, 0, ECX, 0, OS_NONE)                                                   \
    X("popcnt", 2, 1, 0, ECX, 23, OS_NONE)                                                         \
    X("sse3", 2, 1, 0, ECX, 0, OS_NONE)                                                            \
    X("ssse3", 2, 1, 0, ECX, 9, OS_NONE)                                                           \
    X("sse4.1", 2, 1, 0, ECX, 19, OS_NONE)                                                         \
    X("sse4.2", 2, 1, 0, ECX, 20, OS_NONE)                                                         \
    X("avx", 3, 1, 0, ECX, 28, OS_AVX)                                                             \
    X("avx2", 3, 7, 0, EBX, 5, OS_AVX)                                                             \
    X("bmi", 3, 7, 0, EBX, 3, OS_NONE)                                                             \
    X("bmi2", 3, 7, 0, EBX, 8, OS_NONE)                                                            \
    X("f16c", 3, 1, 0, ECX, 29, OS_AVX)                                                            \
    X("fma", 3, 1, 0, ECX, 12, OS_AVX)                                                             \
    X("lzcnt", 3, 0x80000001, 0, ECX, 5, OS_NONE)                                                  \
    X("movbe", 3, 1, 0, ECX, 22, OS_NONE)                                                          \
    X("xsave", 3, 1, 0, ECX, 26, OS_AVX)                                                           \
    X("avx512f", 4, 7, 0, EBX, 16, OS_AVX512)                                                      \
    X("avx512bw", 4, 7, 0, EBX, 30, OS_AVX512)                                                     \
    X("avx512cd", 4, 7, 0, EBX, 28, OS_AVX512)                                                     \
    X("avx512dq", 4, 7, 0, EBX, 17, OS_AVX512)                                                     \
    X("avx512vl", 4, 7, 0, EBX, 31, OS_AVX512)                                                     \
    X("avx512ifma", 0, 7, 0, EBX, 21, OS_AVX512)                                                   \
    X("avx512vbmi", 0, 7, 0, ECX, 1, OS_AVX512)                                                    \
    X("avx512vbmi2", 0, 7, 0, ECX, 6, OS_AVX512)                                                   \
    X("avx512vnni", 0, 7, 0, ECX, 11, OS_AVX512)                                                   \
    X("avx512bitalg", 0, 7, 0, ECX, 12, OS_AVX512)                                                 \
    X("avx512vpopcntdq", 0, 7, 0, ECX, 14, OS_AVX512)                                              \
    X("avx512fp16", 0, 7, 0, EDX, 23, OS_AVX512)                                                   \
    X("avx512bf16", 0, 7, 1, EAX, 5, OS_AVX512)                                                    \
    X("avxvnni", 0, 7, 1, EAX, 4, OS_AVX)                                                          \
    X("avxifma", 0, 7, 1, EAX, 23, OS_AVX)                                                         \
    X("avxvnniint8", 0, 7, 1, EDX, 4, OS_AVX)                                                      \
    X("avxneconvert", 0, 7, 1, EDX, 5, OS_AVX)                                                     \
    X("avxvnniint16", 0, 7, 1, EDX, 10, OS_AVX)                                                    \
    X("gfni", 0, 7, 0, ECX, 8, OS_NONE)                                                            \
    X("vaes", 0, 7, 0, ECX, 9, OS_AVX)                                                             \
    X("vpclmulqdq", 0, 7, 0, ECX, 10, OS_AVX)                                                      \
    X("aes", 0, 1, 0, ECX, 25, OS_NONE)                                                            \
    X("pclmul", 0, 1, 0, ECX, 1, OS_NONE)                                                          \
    X("sha", 0, 7, 0, EBX, 29, OS_NONE)                                                            \
    X("adx", 0, 7, 0, EBX, 19, OS_NONE)

typedef struct feature {
    const char *name;
    uint32_t leaf;
    uint8_t level, subleaf, reg, bit, state;
} feature;

static const feature known[] = {
#define ROW(name, level, leaf, subleaf, reg, bit, state)                                           \
    {name, leaf, level, subleaf, reg, bit, state},
    FEATURES(ROW)
#undef ROW
};
enum { N_FEATURES = sizeof known / sizeof known[0] };
_Static_assert(N_FEATURES <= 64 * TW_ABI_CPU_WORDS, "feature set too small");

static const char *const level_names[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
enum { N_LEVELS = sizeof level_names / sizeof level_names[0] };

#if defined(__x86_64__)
/* Which register states the operating system saves; xgetbv is there when OSXSAVE is set. */
static int saved_state(void)
{
    uint32_t regs[4];
    if (!__get_cpuid(1, &regs[EAX], &regs[EBX], &regs[ECX], &regs[EDX]) || !(regs[ECX] >> 27 & 1))
        return OS_NONE;
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & 0x06) != 0x06)
        return OS_NONE;
    return (low & 0xe0) == 0xe0 ? OS_AVX512 : OS_AVX;
}

tw_cpu_features tw_cpu_detect(void)
{
    tw_cpu_features found = {{0}};
    int state = saved_state();
    for (unsigned i = 0; i < N_FEATURES; i++) {
        const feature *f = &known[i];
        uint32_t regs[4] = {0};
        if (f->state <= state &&
            __get_cpuid_count(f->leaf, f->subleaf, &regs[EAX], &regs[EBX], &regs[ECX],
                              &regs[EDX]) &&
            regs[f->reg] >> f->bit & 1)
            tw_cpu_set(&found, i);
    }
    return found;
}
#else
tw_cpu_features tw_cpu_detect(void)
{
    return (tw_cpu_features){{0}};
}
#endif

static tw_cpu_features level_features(unsigned level)
{
    tw_cpu_features set = {{0}};
    for (unsigned i = 0; i < N_FEATURES; i++)
        if (known[i].level && known[i].level <= level)
            tw_cpu_set(&set, i);
    return set;
}

bool tw_cpu_level(const char *name, tw_cpu_features *out)
{
    for (unsigned i = 0; i < N_LEVELS; i++)
        if (strcmp(name, level_names[i]) == 0) {
            *out = level_features(i + 1);
            return true;
        }
    return false;
}

bool tw_cpu_parse(const char *level, const char *text, tw_cpu_features *out, const char **unknown)
{
    *out = (tw_cpu_features){{0}};
    *unknown = level;
    if (!tw_cpu_level(level, out))
        return false;
    for (const char *at = text; *at;) {
        const char *name = at + (*at == '+');
        size_t len = strcspn(name, ",");
        unsigned i = 0;
        while (i < N_FEATURES && (strlen(known[i].name) != len || memcmp(known[i].name, name, len)))
            i++;
        *unknown = name;
        if (i == N_FEATURES)
            return false;
        tw_cpu_set(out, i);
        at = name + len + (name[len] == ',');
    }
    return true;
}

const char *tw_cpu_best_level(const tw_cpu_features *features)
{
    unsigned level = N_LEVELS;
    while (level > 1) {
        tw_cpu_features need = level_features(level);
        if (tw_cpu_has(features, &need))
            break;
        level--;
    }
    return level_names[level - 1];
}

bool tw_cpu_has(const tw_cpu_features *have, const tw_cpu_features *need)
{
    for (int i = 0; i < TW_ABI_CPU_WORDS; i++)
        if (need->words[i] & ~have->words[i])
            return false;
    return true;
}

void tw_cpu_add(tw_cpu_features *features, const tw_cpu_features *more)
{
    for (int i = 0; i < TW_ABI_CPU_WORDS; i++)
        features->words[i] |= more->words[i];
}

const char *tw_cpu_feature_name(unsigned i)
{
    return i < N_FEATURES ? known[i].name : NULL;
}

int tw_cpu_feature_find(const char *name)
{
    for (int i = 0; i < N_FEATURES; i++)
        if (strcmp(name, known[i].name) == 0)
            return i;
    return -1;
}

const char *tw_cpu_missing(const tw_cpu_features *have, const tw_cpu_features *need)
{
    for (unsigned i = 0; i < 64 * TW_ABI_CPU_WORDS; i++)
        if (tw_cpu_test(need, i) && !tw_cpu_test(have, i))
            return i < N_FEATURES ? known[i].name : "a feature unknown to this runtime";
    return NULL;
}
