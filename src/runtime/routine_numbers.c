/* routine_numbers.c: numbers as text, and text as numbers.
 *
 *   tw_rt_write_numbers  f64, i64 or u64 -> strings: 8 digits at most for f64, NaN, INF, -INF
 *   tw_rt_read_numbers   strings -> f64, i64 or u64, as the result has it: plain or scientific
 *                        notation, white space around it, NaN, INF and +INF and -INF in any case;
 *                        for integers the part before the point */
#include "runtime/routines.h"

#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDEST = 24 }; /* bytes of a number: the longest integer has 20 digits */

/* The thread uses a decimal point from here on; the locale that it had, which `leave_c` takes. */
static locale_t enter_c(locale_t *c)
{
    *c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return *c ? uselocale(*c) : (locale_t)0;
}

static void leave_c(locale_t c, locale_t before)
{
    if (!c)
        return;
    uselocale(before);
    freelocale(c);
}

/* ---- Writing ---- */

static int write_number(char *to, const tw_abi_value *v, int64_t i)
{
    if (v->elem == TW_I64)
        return snprintf(to, WIDEST, "%lld", (long long)((const int64_t *)v->data)[i]);
    if (v->elem == TW_U64)
        return snprintf(to, WIDEST, "%llu", (unsigned long long)((const uint64_t *)v->data)[i]);
    double x = ((const double *)v->data)[i];
    if (isnan(x))
        return snprintf(to, WIDEST, "NaN");
    if (isinf(x))
        return snprintf(to, WIDEST, x < 0 ? "-INF" : "INF");
    return snprintf(to, WIDEST, "%.8g", x);
}

int32_t tw_rt_write_numbers(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                            tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    (void)n_in;
    (void)n_out;
    (void)params;
    locale_t c, before;
    for (uint32_t i = 0; i < in->rank; i++)
        out->dims[i] = in->dims[i];
    if (!tw_rt_provide(host, out))
        return 1;
    int64_t n = tw_rt_count(in);
    char *at = host->keep(host, (size_t)n * WIDEST + 1);
    if (!at)
        return tw_rt_no_memory(host);
    before = enter_c(&c);
    for (int64_t i = 0; i < n; i++) {
        ((char **)out->data)[i] = at;
        at += write_number(at, in, i) + 1;
    }
    leave_c(c, before);
    return 0;
}

/* ---- Reading ---- */

/* Whether nothing is left of the text but white space, and something has been read. */
static bool is_end(const char *text, const char *end)
{
    bool read = end != text;
    while (isspace((unsigned char)*end))
        end++;
    return read && !*end;
}

static bool read_real(const char *text, double *x)
{
    char *end;
    errno = 0;
    *x = strtod(text, &end);
    return is_end(text, end) && !(errno == ERANGE && isinf(*x));
}

/* An integer, or a number whose whole part is one; negative ones wrap around without a sign. */
static bool read_integer(const char *text, bool is_signed, uint64_t *x)
{
    char *end;
    double real;
    errno = 0;
    *x = is_signed ? (uint64_t)strtoll(text, &end, 10) : (uint64_t)strtoull(text, &end, 10);
    if (is_end(text, end))
        return errno != ERANGE;
    if (!read_real(text, &real) || !(fabs(real) < (is_signed ? 0x1p63 : 0x1p64)))
        return false;
    *x = real < 0 ? 0 - (uint64_t)-real : (uint64_t)real;
    return true;
}

static bool read_number(const char *text, tw_abi_value *out, int64_t i)
{
    return out->elem == TW_F64 ? read_real(text, (double *)out->data + i)
                               : read_integer(text, out->elem == TW_I64, (uint64_t *)out->data + i);
}

int32_t tw_rt_read_numbers(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                           tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    (void)n_in;
    (void)n_out;
    (void)params;
    locale_t c, before;
    const char *wrong = NULL;
    for (uint32_t i = 0; i < in->rank; i++)
        out->dims[i] = in->dims[i];
    if (!tw_rt_provide(host, out))
        return 1;
    before = enter_c(&c);
    for (int64_t i = 0, n = tw_rt_count(in); i < n && !wrong; i++)
        if (!read_number(((char *const *)in->data)[i], out, i))
            wrong = ((char *const *)in->data)[i];
    leave_c(c, before);
    if (!wrong)
        return 0;
    char message[160];
    snprintf(message, sizeof message, "'%.80s' is not a number of the type that is read", wrong);
    return tw_rt_fail(host, message);
}
