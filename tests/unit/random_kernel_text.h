/* random_kernel_text.h: what random functions are written with: numbers, and text of values and
 * operations (random_kernel.h). */
#ifndef TW_TESTS_RANDOM_KERNEL_TEXT_H
#define TW_TESTS_RANDOM_KERNEL_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { RK_MAX_RANK = 6, RK_MAX_INPUTS = 40, RK_MAX_RESULTS = 2 };

typedef struct rk_value {
    unsigned id;
    bool input; /* %xID, else %ID */
    const char *elem;
    unsigned rank;
    int64_t dims[RK_MAX_RANK];
    bool last; /* layout NHWC */
} rk_value;

typedef struct random_kernel {
    uint64_t state, seed;
    int64_t points; /* of an iteration space, at most */
    char body[12000], inputs[3000];
    size_t n_body, n_text;
    unsigned n_values, n_inputs;
    int64_t limit[RK_MAX_INPUTS]; /* of indices: -limit..limit-1; 0 for plain numbers */
    bool exact;
    rk_value extra; /* a second result, when it has an element type */
    const char *family;
    char text[16000];
} random_kernel;

/* ---- Random numbers ---- */

static unsigned rk_below(random_kernel *r, unsigned n)
{
    r->state ^= r->state << 13;
    r->state ^= r->state >> 7;
    r->state ^= r->state << 17;
    return (unsigned)((r->state * 0x2545f4914f6cdd1dull >> 33) % n);
}

static int64_t rk_between(random_kernel *r, int64_t low, int64_t high)
{
    return low + (int64_t)rk_below(r, (unsigned)(high - low + 1));
}

static bool rk_chance(random_kernel *r, unsigned one_in)
{
    return rk_below(r, one_in) == 0;
}

/* A size of at most `most`: often 1, a vector's width, or a prime. */
static int64_t rk_size(random_kernel *r, int64_t most)
{
    static const int64_t sizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 19, 23, 31, 32, 33, 37};
    int64_t size =
        rk_chance(r, 3) ? rk_between(r, 1, 40) : sizes[rk_below(r, sizeof sizes / sizeof *sizes)];
    return size <= most ? size : most < 1 ? 1 : rk_between(r, 1, most);
}

static int64_t rk_product(const int64_t *dims, unsigned n)
{
    int64_t p = 1;
    for (unsigned i = 0; i < n; i++)
        p *= dims[i];
    return p;
}

/* Random sizes whose product stays within `points`, in random places. */
static void rk_dims(random_kernel *r, int64_t *dims, unsigned n, int64_t points)
{
    unsigned start = n ? rk_below(r, n) : 0;
    for (unsigned i = 0; i < n; i++) {
        int64_t size = rk_size(r, points);
        dims[(start + i) % n] = size;
        points /= size;
    }
}

/* ---- Text ---- */

static const char *rk_type(const rk_value *v)
{
    static char texts[4][160];
    static unsigned turn;
    char *text = texts[turn++ % 4];
    size_t n = (size_t)snprintf(text, 160, "tensor<");
    for (unsigned i = 0; i < v->rank; i++)
        n += (size_t)snprintf(text + n, 160 - n, "%lldx", (long long)v->dims[i]);
    snprintf(text + n, 160 - n, "%s%s>", v->elem, v->last ? ", NHWC" : "");
    return text;
}

static const char *rk_name(const rk_value *v)
{
    static char texts[4][16];
    static unsigned turn;
    char *text = texts[turn++ % 4];
    snprintf(text, 16, v->input ? "%%x%u" : "%%%u", v->id);
    return text;
}

static const char *rk_ints(const int64_t *v, unsigned n)
{
    static char texts[4][160];
    static unsigned turn;
    char *text = texts[turn++ % 4];
    size_t at = (size_t)snprintf(text, 160, "[");
    for (unsigned i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, 160 - at, i ? ", %lld" : "%lld", (long long)v[i]);
    snprintf(text + at, 160 - at, "]");
    return text;
}

static rk_value rk_shape(const char *elem, unsigned rank, const int64_t *dims)
{
    rk_value v = {.elem = elem, .rank = rank};
    for (unsigned i = 0; i < rank; i++)
        v.dims[i] = dims[i];
    return v;
}

/* An input of that type. Indices below `limit` (0: plain numbers). */
static rk_value rk_input_of(random_kernel *r, rk_value v, int64_t limit)
{
    v.input = true;
    v.id = r->n_inputs;
    r->limit[r->n_inputs++] = limit;
    r->n_text += (size_t)snprintf(r->inputs + r->n_text, sizeof r->inputs - r->n_text,
                                  "%s%%x%u: %s", v.id ? ", " : "", v.id, rk_type(&v));
    return v;
}

static rk_value rk_input(random_kernel *r, const char *elem, unsigned rank, const int64_t *dims,
                         int64_t limit)
{
    return rk_input_of(r, rk_shape(elem, rank, dims), limit);
}

/* Appends `%N = graph.<text> : <type of result>`. */
static rk_value __attribute__((format(printf, 3, 4))) rk_emit(random_kernel *r, rk_value result,
                                                              const char *format, ...)
{
    va_list args;
    result.id = r->n_values++;
    result.input = false;
    r->n_body += (size_t)snprintf(r->body + r->n_body, sizeof r->body - r->n_body,
                                  "    %%%u = graph.", result.id);
    va_start(args, format);
    r->n_body += (size_t)vsnprintf(r->body + r->n_body, sizeof r->body - r->n_body, format, args);
    va_end(args);
    r->n_body += (size_t)snprintf(r->body + r->n_body, sizeof r->body - r->n_body, " : %s\n",
                                  rk_type(&result));
    return result;
}

#endif
