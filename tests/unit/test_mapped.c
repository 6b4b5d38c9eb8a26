/* Tests of memory in files: it keeps its contents when pages are given back, and what is no such
 * memory is left alone. */
#include "ir/mapped.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE = 3 << 20 };

static void contents_stay(void **state)
{
    (void)state;
    tw_context *ctx = tw_context_create(0);
    char *data = tw_mapped_alloc(ctx, SIZE);
    for (size_t i = 0; i < SIZE; i++)
        assert_int_equal(data[i], 0);
    memset(data, 7, SIZE);
    tw_mapped_give_back(ctx, data + 100, SIZE - 200);
    for (size_t i = 0; i < SIZE; i++)
        assert_int_equal(data[i], 7);
    data[SIZE / 2] = 9;
    tw_mapped_give_back(ctx, data, SIZE);
    assert_int_equal(data[SIZE / 2], 9);
    tw_context_destroy(ctx);
}

static void small_ones_are_memory(void **state)
{
    (void)state;
    tw_context *ctx = tw_context_create(0);
    char *none = tw_mapped_alloc(ctx, 0), *small = tw_mapped_alloc(ctx, 5000);
    assert_non_null(none);
    assert_int_equal((uintptr_t)small % 64, 0);
    memset(small, 3, 5000);
    tw_mapped_give_back(ctx, small, 5000);
    assert_int_equal(small[4999], 3);
    tw_context_destroy(ctx);
}

/* Memory of the heap would lose its contents. */
static void other_memory_is_left_alone(void **state)
{
    (void)state;
    tw_context *ctx = tw_context_create(0);
    char *mapped = tw_mapped_alloc(ctx, SIZE), *other = tw_context_alloc(ctx, SIZE);
    memset(mapped, 1, SIZE);
    memset(other, 2, SIZE);
    tw_mapped_give_back(ctx, other, SIZE);
    tw_mapped_give_back(ctx, mapped + SIZE - 10, SIZE); /* reaches beyond it */
    tw_mapped_give_back(ctx, NULL, 0);
    assert_int_equal(other[0] + other[SIZE / 2] + other[SIZE - 1], 6);
    assert_int_equal(mapped[SIZE - 1], 1);
    tw_context_destroy(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contents_stay),
        cmocka_unit_test(small_ones_are_memory),
        cmocka_unit_test(other_memory_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
