/* checked.h: integer arithmetic that reports overflow instead of wrapping. */
#ifndef TW_BASE_CHECKED_H
#define TW_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

/* Each stores the result and returns true, or returns false on overflow. */
static inline bool tw_add_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

static inline bool tw_sub_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_sub_overflow(a, b, out);
}

static inline bool tw_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* Quotient rounded towards minus infinity; `b` must not be 0 (nor -1 with INT64_MIN). */
static inline int64_t tw_floordiv_i64(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

/* Remainder with the sign of `b`: a - b * floor(a / b). */
static inline int64_t tw_mod_i64(int64_t a, int64_t b)
{
    int64_t r = a % b;
    return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}

/* Product of `n` non-negative dimensions; false on overflow or a negative one. */
static inline bool tw_product_i64(const int64_t *dims, int n, int64_t *out)
{
    int64_t product = 1;
    for (int i = 0; i < n; i++)
        if (dims[i] < 0 || !tw_mul_i64(product, dims[i], &product))
            return false;
    *out = product;
    return true;
}

#endif
