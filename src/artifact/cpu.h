/* cpu.h: x86-64 instruction set features: names, levels, and what this machine has.
 *
 * Names are LLVM's ("avx512f", "fma"), so that a feature set is also a target-features string. */
#ifndef TW_ARTIFACT_CPU_H
#define TW_ARTIFACT_CPU_H

#include "tilewright/model.h"

#include <stdbool.h>

typedef struct tw_cpu_features {
    uint64_t words[TW_ABI_CPU_WORDS];
} tw_cpu_features;

/* What CPU and operating system of this machine support (cpuid, xgetbv). */
tw_cpu_features tw_cpu_detect(void);

/* The features of a psABI level "x86-64", "x86-64-v2", "-v3", "-v4" (each includes the lower ones).
 * False for another name. */
bool tw_cpu_level(const char *name, tw_cpu_features *out);

/* The features of a target as LLVM is told: a level, and "+avx512vnni,+gfni" beyond it. False,
 * with *unknown where the unknown level or feature stands in the text. */
bool tw_cpu_parse(const char *level, const char *features, tw_cpu_features *out,
                  const char **unknown);

/* The best level that the features contain, for instance "x86-64-v3". */
const char *tw_cpu_best_level(const tw_cpu_features *features);

bool tw_cpu_has(const tw_cpu_features *have, const tw_cpu_features *need);
void tw_cpu_add(tw_cpu_features *features, const tw_cpu_features *more);

/* Feature i as a name; NULL when i is not below the number of features. */
const char *tw_cpu_feature_name(unsigned i);
/* Index of a feature by name, or -1. */
int tw_cpu_feature_find(const char *name);

static inline bool tw_cpu_test(const tw_cpu_features *features, unsigned i)
{
    return features->words[i / 64] >> (i % 64) & 1;
}
static inline void tw_cpu_set(tw_cpu_features *features, unsigned i)
{
    features->words[i / 64] |= (uint64_t)1 << (i % 64);
}

/* The name of the first feature that `need` has and `have` lacks, or NULL. */
const char *tw_cpu_missing(const tw_cpu_features *have, const tw_cpu_features *need);

#endif
