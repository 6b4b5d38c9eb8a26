/* Tests of src/base: arena, vectors, maps, checked arithmetic. */
#include "base/checked.h"
#include "base/map.h"
#include "base/vec.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void arena_zeroes_and_aligns(void **state)
{
    (void)state;
    tw_arena *arena = tw_arena_create(0);
    for (size_t size = 1; size < 100000; size = size * 3 + 1) {
        char *p = tw_arena_alloc(arena, size);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(p[i], 0);
        memset(p, 0xff, size);
    }
    assert_string_equal(tw_arena_printf(arena, "%d-%s", 7, "x"), "7-x");
    tw_arena_destroy(arena);
}

static void arena_limit_jumps(void **state)
{
    (void)state;
    tw_arena *arena = tw_arena_create(1 << 20);
    jmp_buf handler;
    if (setjmp(handler) == 0) {
        tw_arena_on_exhausted(arena, &handler);
        tw_arena_calloc(arena, SIZE_MAX / 2, 4);
        fail();
    }
    if (setjmp(handler) == 0) {
        for (;;)
            tw_arena_alloc(arena, 4096);
    }
    assert_true(tw_arena_bytes(arena) <= 1 << 20);
    tw_arena_destroy(arena);
}

static void map_keeps_order_and_finds_all(void **state)
{
    (void)state;
    tw_arena *arena = tw_arena_create(0);
    tw_map map = tw_map_make(arena);
    static int values[5000];
    for (int i = 0; i < 5000; i++)
        assert_null(tw_map_put_str(&map, tw_arena_printf(arena, "key%d", i), &values[i]));
    for (int i = 0; i < 5000; i++) {
        const char *key = tw_arena_printf(arena, "key%d", i);
        assert_ptr_equal(tw_map_get_str(&map, key), &values[i]);
        assert_ptr_equal(map.entries[i].value, &values[i]);
    }
    assert_null(tw_map_get_str(&map, "other"));
    assert_ptr_equal(tw_map_put_str(&map, "key3", &values[0]), &values[3]);
    assert_int_equal(map.len, 5000);
    tw_arena_destroy(arena);
}

static void vec_grows(void **state)
{
    (void)state;
    tw_arena *arena = tw_arena_create(0);
    TW_VEC(int) vec = {0};
    for (int i = 0; i < 1000; i++)
        tw_vec_push(arena, &vec, i);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(vec.data[i], i);
    tw_arena_destroy(arena);
}

static void floor_division_rounds_down(void **state)
{
    (void)state;
    int64_t out;
    assert_int_equal(tw_floordiv_i64(-7, 2), -4);
    assert_int_equal(tw_floordiv_i64(7, -2), -4);
    assert_int_equal(tw_mod_i64(-7, 2), 1);
    assert_int_equal(tw_mod_i64(7, -2), -1);
    assert_false(tw_mul_i64(INT64_MAX, 2, &out));
    assert_false(tw_product_i64((int64_t[]){1 << 30, 1 << 30, 1 << 30}, 3, &out));
    assert_true(tw_product_i64((int64_t[]){3, 0}, 2, &out));
    assert_int_equal(out, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_zeroes_and_aligns),       cmocka_unit_test(arena_limit_jumps),
        cmocka_unit_test(map_keeps_order_and_finds_all), cmocka_unit_test(vec_grows),
        cmocka_unit_test(floor_division_rounds_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
