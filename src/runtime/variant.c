/* variant.c: which of a file's codes runs on this machine. */
#include "artifact/cpu.h"
#include "runtime/error.h"
#include "runtime/model.h"

#include <stdio.h>
#include <string.h>

const char *tw_host_cpu(void)
{
    tw_cpu_features features = tw_cpu_detect();
    return tw_cpu_best_level(&features);
}

static tw_cpu_features needs(const tw_abi_variant *v)
{
    tw_cpu_features features;
    memcpy(features.words, v->features, sizeof features.words);
    return features;
}

/* "x86-64-v3, x86-64-v4" */
static void list_variants(const tw_abi_model *abi, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < abi->n_variants && used < size; i++)
        used +=
            (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", abi->variants[i].cpu);
}

static tw_status none_fits(const tw_abi_model *abi, const char *cpu, const tw_cpu_features *have)
{
    char list[256];
    list_variants(abi, list, sizeof list);
    if (cpu)
        return tw_fail(TW_STATUS_UNSUPPORTED, "model '%s' has no code for CPU '%s', only for %s",
                       abi->name, cpu, list);
    tw_cpu_features least = abi->n_variants ? needs(&abi->variants[0]) : *have;
    const char *missing = tw_cpu_missing(have, &least);
    return tw_fail(TW_STATUS_UNSUPPORTED,
                   "model '%s' has code for %s; this CPU has no %s (compile with --cpu %s)",
                   abi->name, list, missing ? missing : "use for it", tw_cpu_best_level(have));
}

static const tw_abi_variant *find_named(const tw_abi_model *abi, const char *cpu)
{
    for (uint32_t i = 0; i < abi->n_variants; i++)
        if (strcmp(abi->variants[i].cpu, cpu) == 0)
            return &abi->variants[i];
    return NULL;
}

tw_status tw_variant_choose(const tw_abi_model *abi, const char *cpu, const tw_abi_variant **out)
{
    tw_cpu_features have = tw_cpu_detect(), limit = have;
    const tw_abi_variant *named = cpu ? find_named(abi, cpu) : NULL;
    if (named) {
        tw_cpu_features need = needs(named);
        const char *missing = tw_cpu_missing(&have, &need);
        if (missing)
            return tw_fail(TW_STATUS_UNSUPPORTED,
                           "model '%s': code for '%s' needs %s, which this CPU lacks", abi->name,
                           cpu, missing);
        *out = named;
        return TW_STATUS_OK;
    }
    if (cpu && !tw_cpu_level(cpu, &limit))
        return none_fits(abi, cpu, &have);
    for (uint32_t i = abi->n_variants; i-- > 0;) {
        tw_cpu_features need = needs(&abi->variants[i]);
        if (tw_cpu_has(&have, &need) && tw_cpu_has(&limit, &need)) {
            *out = &abi->variants[i];
            return TW_STATUS_OK;
        }
    }
    return none_fits(abi, cpu, &have);
}
