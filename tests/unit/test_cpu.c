/* test_cpu.c: CPU feature sets and levels. */
#include "artifact/cpu.h"
#include "tilewright/runtime.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void levels_include_lower_ones(void **state)
{
    (void)state;
    const char *const names[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
    tw_cpu_features levels[4];
    for (int i = 0; i < 4; i++) {
        assert_true(tw_cpu_level(names[i], &levels[i]));
        assert_string_equal(tw_cpu_best_level(&levels[i]), names[i]);
        for (int k = 0; k < 4; k++)
            if (k <= i)
                assert_true(tw_cpu_has(&levels[i], &levels[k]));
    }
    assert_false(tw_cpu_has(&levels[2], &levels[3]));
    assert_string_equal(tw_cpu_missing(&levels[2], &levels[3]), "avx512f");
    assert_null(tw_cpu_missing(&levels[3], &levels[2]));
    assert_false(tw_cpu_level("x86-64-v5", &levels[0]));
    assert_true(tw_cpu_test(&levels[2], (unsigned)tw_cpu_feature_find("fma")));
    assert_false(tw_cpu_test(&levels[1], (unsigned)tw_cpu_feature_find("fma")));
}

static void names_are_unique(void **state)
{
    (void)state;
    unsigned n = 0;
    for (; tw_cpu_feature_name(n); n++)
        assert_int_equal(tw_cpu_feature_find(tw_cpu_feature_name(n)), n);
    assert_in_range(n, 30, 64 * TW_ABI_CPU_WORDS);
    assert_int_equal(tw_cpu_feature_find("avx3"), -1);
}

static void targets_are_parsed(void **state)
{
    (void)state;
    tw_cpu_features set, v3;
    const char *unknown;
    tw_cpu_level("x86-64-v3", &v3);
    assert_true(tw_cpu_parse("x86-64-v3", "", &set, &unknown));
    assert_memory_equal(&set, &v3, sizeof set);
    assert_true(tw_cpu_parse("x86-64-v3", "+avx512vnni,+gfni", &set, &unknown));
    assert_true(tw_cpu_test(&set, (unsigned)tw_cpu_feature_find("gfni")));
    assert_string_equal(tw_cpu_missing(&v3, &set), "avx512vnni");
    assert_false(tw_cpu_parse("x86-64-v3", "+gfni,+mmx2", &set, &unknown));
    assert_string_equal(unknown, "mmx2");
    assert_false(tw_cpu_parse("z80", "", &set, &unknown));
    assert_string_equal(unknown, "z80");
}

/* The kernel's list of what the CPU has, where it names things as LLVM does. */
static void detection_agrees_with_the_kernel(void **state)
{
    (void)state;
    FILE *file = fopen("/proc/cpuinfo", "r");
    char *line = NULL, *flags = NULL;
    size_t cap = 0;
    while (file && !flags && getline(&line, &cap, file) > 0)
        if (!strncmp(line, "flags", 5))
            flags = line;
    if (file)
        fclose(file);
    if (!flags) {
        free(line);
        return;
    }
    flags[strcspn(flags, "\n")] = ' ';
    tw_cpu_features have = tw_cpu_detect();
    const char *const names[] = {"avx",      "avx2",     "fma",  "f16c", "bmi2",
                                 "avx512f",  "avx512bw", "gfni", "vaes", "popcnt",
                                 "avx512vl", "ssse3",    "movbe"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char word[32];
        snprintf(word, sizeof word, " %s ", names[i]);
        bool listed = strstr(flags, word) != NULL;
        assert_int_equal(tw_cpu_test(&have, (unsigned)tw_cpu_feature_find(names[i])), listed);
    }
    assert_string_equal(tw_host_cpu(), tw_cpu_best_level(&have));
    free(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_include_lower_ones),
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(targets_are_parsed),
        cmocka_unit_test(detection_agrees_with_the_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
