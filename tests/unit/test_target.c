/* Tests of base/target: names, levels, feature lists. */
#include "base/target.h"

#include "tilewright/ir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void names_resolve(void **state)
{
    (void)state;
    const char *name;
    for (unsigned i = 0; (name = tw_target_name(i)); i++) {
        tw_target t;
        assert_true(tw_target_find(name, &t));
        assert_string_equal(t.name, name);
        assert_non_null(t.level);
        assert_non_null(t.features);
        assert_true(t.vector_bits >= 128 && t.vector_registers >= 16);
    }
    tw_target t = {.name = "kept"};
    assert_false(tw_target_find("x86-64-v5", &t));
    assert_false(tw_target_find("", &t));
    assert_string_equal(t.name, "kept");
}

static void levels_have_their_widths(void **state)
{
    (void)state;
    tw_target t;
    assert_true(tw_target_find("x86-64-v2", &t));
    assert_int_equal(t.vector_bits, 128);
    assert_false(t.fma);
    assert_int_equal(tw_target_lanes(&t, 32), 4);
    assert_true(tw_target_find("x86-64-v3", &t));
    assert_int_equal(t.vector_bits, 256);
    assert_true(t.fma && t.f16_convert && !t.masks);
    assert_null(t.tune);
    assert_true(tw_target_find("znver4", &t));
    assert_int_equal(t.vector_bits, 512);
    assert_int_equal(t.vector_registers, 32);
    assert_true(t.masks && t.dot_i8 && t.dot_bf16);
    assert_string_equal(t.level, "x86-64-v4");
    assert_string_equal(t.tune, "znver4");
    assert_true(tw_target_find("sandybridge", &t));
    assert_int_equal(t.vector_bits, 256);
    assert_false(t.fma);
}

static void features_give_a_level(void **state)
{
    (void)state;
    tw_context *ctx = tw_context_create(0);
    tw_target t;
    tw_target_from_features(ctx, "host", "haswell",
                            "+sse3,+popcnt,+ssse3,+sse4.1,+sse4.2,+cx16,+sahf,+avx,+f16c,+fma,"
                            "+avx2,+bmi,+bmi2,+lzcnt,+movbe,-avx512f,+aes,+avxvnni",
                            &t);
    assert_string_equal(t.level, "x86-64-v3");
    assert_string_equal(t.features, "+avxvnni");
    assert_int_equal(t.vector_bits, 256);
    tw_target_from_features(ctx, "host", NULL, "", &t);
    assert_string_equal(t.level, "x86-64");
    assert_string_equal(t.features, "");
    tw_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_resolve),
        cmocka_unit_test(levels_have_their_widths),
        cmocka_unit_test(features_give_a_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
