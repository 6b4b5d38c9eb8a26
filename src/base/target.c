/* target.c: tables of instruction sets and processors.
 *
 * A processor is a psABI level plus features. Only features that LLVM's code generator turns into
 * better code for us are listed (no AES, SHA …): the fewer a file needs, the more machines run it.
 * Sources: the x86-64 psABI (levels) and clang 19's -march=NAME -dM -E (features of processors). */
#include "base/target.h"

#include "base/arena.h"
#include "tilewright/ir.h"

#include <string.h>

#define X86_TRIPLE "x86_64-unknown-linux-gnu"
#define ARM_TRIPLE "aarch64-unknown-linux-gnu"

/* What the levels are: indices of the arrays below. */
enum { V1, V2, V3, V4 };
static const char *const level_names[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};

/* Features that make a level out of the one before (of those that matter to code) and further ones
 * that are worth having. */
typedef struct feature {
    const char *name;
    int level; /* that contains it, or NONE */
} feature;
enum { NONE = 99 };
static const feature features[] = {
    {"popcnt", V2},         {"sse3", V2},
    {"ssse3", V2},          {"sse4.1", V2},
    {"sse4.2", V2},         {"cx16", V2},
    {"sahf", V2},           {"avx", V3},
    {"f16c", V3},           {"fma", V3},
    {"avx2", V3},           {"bmi", V3},
    {"bmi2", V3},           {"lzcnt", V3},
    {"movbe", V3},          {"avx512f", V4},
    {"avx512cd", V4},       {"avx512dq", V4},
    {"avx512bw", V4},       {"avx512vl", V4},
    {"avx512ifma", NONE},   {"avx512vbmi", NONE},
    {"avx512vbmi2", NONE},  {"avx512vnni", NONE},
    {"avx512bitalg", NONE}, {"avx512vpopcntdq", NONE},
    {"avx512bf16", NONE},   {"avx512fp16", NONE},
    {"avxvnni", NONE},      {"avxvnniint8", NONE},
    {"avxvnniint16", NONE}, {"avxifma", NONE},
    {"avxneconvert", NONE}, {"gfni", NONE},
};
enum { N_FEATURES = sizeof features / sizeof features[0] };
_Static_assert(N_FEATURES <= 64, "a feature set is a 64-bit word");

#define VNNI "+avx512vnni"
#define ICL "+avx512ifma,+avx512vbmi,+avx512vbmi2,+avx512vnni,+avx512bitalg,+avx512vpopcntdq,+gfni"
#define ARL "+avxvnni,+avxvnniint8,+avxifma,+avxneconvert,+gfni"

typedef struct processor {
    const char *name;
    int level;
    const char *features;
    unsigned l1_kib, l2_kib;
} processor;
static const processor x86_processors[] = {
    {"x86-64", V1, "", 32, 256},
    {"x86-64-v2", V2, "", 32, 256},
    {"x86-64-v3", V3, "", 32, 256},
    {"x86-64-v4", V4, "", 32, 1024},
    {"nehalem", V2, "", 32, 256},
    {"westmere", V2, "", 32, 256},
    {"silvermont", V2, "+movbe", 24, 512},
    {"goldmont", V2, "+movbe", 24, 512},
    {"tremont", V2, "+movbe,+gfni", 32, 1024},
    {"sandybridge", V2, "+avx", 32, 256},
    {"ivybridge", V2, "+avx,+f16c", 32, 256},
    {"btver2", V2, "+avx,+f16c,+bmi,+lzcnt,+movbe", 32, 512},
    {"bdver2", V2, "+avx,+f16c,+fma,+bmi,+lzcnt", 16, 1024},
    {"haswell", V3, "", 32, 256},
    {"broadwell", V3, "", 32, 256},
    {"skylake", V3, "", 32, 256},
    {"gracemont", V3, "+avxvnni,+gfni", 32, 2048},
    {"alderlake", V3, "+avxvnni,+gfni", 48, 1280},
    {"raptorlake", V3, "+avxvnni,+gfni", 48, 2048},
    {"meteorlake", V3, "+avxvnni,+gfni", 48, 2048},
    {"arrowlake", V3, ARL, 48, 2048},
    {"lunarlake", V3, ARL ",+avxvnniint16", 48, 2048},
    {"sierraforest", V3, ARL, 32, 2048},
    {"skylake-avx512", V4, "", 32, 1024},
    {"cascadelake", V4, VNNI, 32, 1024},
    {"cooperlake", V4, VNNI ",+avx512bf16", 32, 1024},
    {"icelake-client", V4, ICL, 48, 512},
    {"icelake-server", V4, ICL, 48, 1280},
    {"tigerlake", V4, ICL, 48, 1280},
    {"rocketlake", V4, ICL, 48, 512},
    {"sapphirerapids", V4, ICL ",+avx512bf16,+avx512fp16,+avxvnni", 48, 2048},
    {"emeraldrapids", V4, ICL ",+avx512bf16,+avx512fp16,+avxvnni", 48, 2048},
    {"graniterapids", V4, ICL ",+avx512bf16,+avx512fp16,+avxvnni", 48, 2048},
    {"znver1", V3, "", 32, 512},
    {"znver2", V3, "", 32, 512},
    {"znver3", V3, "", 32, 512},
    {"znver4", V4, ICL ",+avx512bf16", 32, 1024},
    {"znver5", V4, ICL ",+avx512bf16,+avxvnni", 48, 1024},
};
enum { N_X86 = sizeof x86_processors / sizeof x86_processors[0] };

/* "aarch64" is Armv8-A; all have 32 registers of 128 bits with FMA. */
static const processor arm_processors[] = {
    {"aarch64", 0, "", 32, 512},
    {"cortex-a72", 0, "", 32, 1024},
    {"cortex-a76", 0, "+fullfp16,+dotprod", 64, 512},
    {"neoverse-n1", 0, "+fullfp16,+dotprod", 64, 1024},
    {"neoverse-n2", 0, "+fullfp16,+dotprod,+bf16,+i8mm", 64, 1024},
    {"neoverse-v1", 0, "+fullfp16,+dotprod,+bf16,+i8mm", 64, 1024},
    {"neoverse-v2", 0, "+fullfp16,+dotprod,+bf16,+i8mm", 64, 2048},
    {"apple-m1", 0, "+fullfp16,+dotprod", 128, 4096},
};
enum { N_ARM = sizeof arm_processors / sizeof arm_processors[0] };

/* Calls back for each "+name" of a list. */
static void each_feature(const char *list, void (*visit)(void *data, const char *name, size_t len),
                         void *data)
{
    while (*list) {
        size_t len = strcspn(list, ",");
        if (len > 1 && *list == '+')
            visit(data, list + 1, len - 1);
        list += len + (list[len] == ',');
    }
}

static void set_bit(void *data, const char *name, size_t len)
{
    for (unsigned i = 0; i < N_FEATURES; i++)
        if (strlen(features[i].name) == len && !memcmp(features[i].name, name, len))
            *(uint64_t *)data |= (uint64_t)1 << i;
}

static uint64_t level_set(int level)
{
    uint64_t set = 0;
    for (unsigned i = 0; i < N_FEATURES; i++)
        if (features[i].level <= level)
            set |= (uint64_t)1 << i;
    return set;
}

static bool has(uint64_t set, const char *name)
{
    uint64_t bit = 0;
    set_bit(&bit, name, strlen(name));
    return set & bit;
}

/* The figures that follow from the features. */
static void fill_x86(tw_target *t, uint64_t set)
{
    bool avx512 = has(set, "avx512bw") && has(set, "avx512vl");
    t->arch = TW_ARCH_X86_64;
    t->triple = X86_TRIPLE;
    t->vector_bits = avx512 ? 512 : has(set, "avx") ? 256 : 128;
    t->vector_registers = avx512 ? 32 : 16;
    t->fma = has(set, "fma");
    t->f16_convert = has(set, "f16c");
    t->f16_arithmetic = has(set, "avx512fp16");
    t->masks = avx512;
    t->dot_i8 = has(set, "avx512vnni") || has(set, "avxvnni");
    t->dot_bf16 = has(set, "avx512bf16");
}

static void fill_arm(tw_target *t, const char *list)
{
    t->arch = TW_ARCH_AARCH64;
    t->triple = ARM_TRIPLE;
    t->level = "generic";
    t->vector_bits = 128;
    t->vector_registers = 32;
    t->fma = t->f16_convert = true;
    t->f16_arithmetic = strstr(list, "+fullfp16") != NULL;
    t->masks = false;
    t->dot_i8 = strstr(list, "+i8mm") != NULL;
    t->dot_bf16 = strstr(list, "+bf16") != NULL;
}

bool tw_target_find(const char *name, tw_target *out)
{
    const char *known;
    for (unsigned i = 0; (known = tw_target_name(i)); i++) {
        if (strcmp(known, name) != 0)
            continue;
        const processor *p = i < N_X86 ? &x86_processors[i] : &arm_processors[i - N_X86];
        *out = (tw_target){.name = p->name,
                           .features = p->features,
                           .tune = p->name,
                           .l1_bytes = p->l1_kib * 1024,
                           .l2_bytes = p->l2_kib * 1024};
        if (i < N_X86) {
            uint64_t set = level_set(p->level);
            each_feature(p->features, set_bit, &set);
            out->level = level_names[p->level];
            fill_x86(out, set);
        } else {
            fill_arm(out, p->features);
        }
        if (i <= V4 || i == N_X86)
            out->tune = NULL; /* a level, no processor */
        return true;
    }
    return false;
}

void tw_target_from_features(tw_context *ctx, const char *name, const char *tune, const char *list,
                             tw_target *out)
{
    tw_arena *arena = tw_context_arena(ctx);
    uint64_t set = 0;
    each_feature(list, set_bit, &set);
    int level = V4;
    while (level > V1 && level_set(level) & ~set)
        level--;
    char *extra = tw_arena_strdup(arena, "");
    for (unsigned i = 0; i < N_FEATURES; i++)
        if (set >> i & 1 && features[i].level > level)
            extra = tw_arena_printf(arena, "%s%s+%s", extra, *extra ? "," : "", features[i].name);
    *out = (tw_target){.name = tw_arena_strdup(arena, name),
                       .level = level_names[level],
                       .features = extra,
                       .tune = tune ? tw_arena_strdup(arena, tune) : NULL,
                       .l1_bytes = 32 * 1024,
                       .l2_bytes = level == V4 ? 1024 * 1024 : 256 * 1024};
    fill_x86(out, set);
}

const char *tw_target_name(unsigned i)
{
    if (i < N_X86)
        return x86_processors[i].name;
    return i < N_X86 + N_ARM ? arm_processors[i - N_X86].name : NULL;
}
