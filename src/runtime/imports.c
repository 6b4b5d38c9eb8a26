/* imports.c: the table of artifact/abi.h with this process's functions.
 *
 * The conversions to and from 16-bit floats, which compilers call where the CPU has no instruction
 * for them, are written out: not every C library of compilers has them. */
#include "runtime/imports.h"
#include "artifact/abi.h"
#include "runtime/error.h"
#include "runtime/routines.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* ---- Floats of 16 bits ---------------------------------------------------------------------- */

#if defined(__x86_64__) && !defined(__SSE2__)
#error "16-bit floats travel in vector registers"
#endif

static _Float16 half_from_bits(uint16_t bits)
{
    _Float16 h;
    memcpy(&h, &bits, sizeof h);
    return h;
}

/* Rounds a double to a binary format of 16 bits with `mantissa` fraction bits, to nearest, ties to
 * even. */
static uint16_t narrow(double value, int mantissa)
{
    const int bias = (1 << (14 - mantissa)) - 1;
    const uint16_t infinity = (uint16_t)(0x7fffu >> mantissa << mantissa);
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 63 << 15);
    int exponent = (int)(bits >> 52 & 0x7ff);
    uint64_t fraction = bits & (((uint64_t)1 << 52) - 1);
    if (exponent == 0x7ff)
        return sign | infinity |
               (fraction ? (uint16_t)(1u << (mantissa - 1) | fraction >> (52 - mantissa)) : 0);
    int e = exponent - 1023 + bias;
    if (exponent == 0 || e < -mantissa)
        return sign; /* too small even for half of the least subnormal */
    if (e > 2 * bias)
        return sign | infinity;
    fraction |= (uint64_t)1 << 52;
    int drop = 52 - mantissa + (e < 1 ? 1 - e : 0);
    uint64_t kept = fraction >> drop, rest = fraction & (((uint64_t)1 << drop) - 1),
             half = (uint64_t)1 << (drop - 1);
    kept += rest > half || (rest == half && (kept & 1));
    /* The leading bit of a normal number adds to the exponent, and so does a carry. */
    return sign | (uint16_t)(kept + ((uint64_t)(e < 1 ? 0 : e - 1) << mantissa));
}

static float host___extendhfsf2(_Float16 h)
{
    uint16_t bits;
    memcpy(&bits, &h, sizeof bits);
    int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
    float magnitude = exponent == 0x1f ? (fraction ? NAN : INFINITY)
                      : exponent       ? ldexpf((float)(fraction | 0x400), exponent - 25)
                                       : ldexpf((float)fraction, -24);
    return bits >> 15 ? -magnitude : magnitude;
}

static _Float16 host___truncsfhf2(float x)
{
    return half_from_bits(narrow(x, 10));
}

static _Float16 host___truncdfhf2(double x)
{
    return half_from_bits(narrow(x, 10));
}

/* bfloat values travel as _Float16 ones do. */
static _Float16 host___truncsfbf2(float x)
{
    return half_from_bits(narrow(x, 7));
}

static _Float16 host___truncdfbf2(double x)
{
    return half_from_bits(narrow(x, 7));
}

/* ---- The table ------------------------------------------------------------------------------- */

/* The standard ones leave the sign in a global variable, which is no matter for threads. */
static double host_lgamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

static float host_lgammaf(float x)
{
    int sign;
    return lgammaf_r(x, &sign);
}

static int host_bcmp(const void *a, const void *b, size_t size)
{
    return memcmp(a, b, size);
}

/* In order of preference. */
static const struct {
    const char *name;
    void *function;
} functions[] = {{"lgamma", (void *)host_lgamma},
                 {"lgammaf", (void *)host_lgammaf},
#define HELPER(name, signature) {#name, (void *)host_##name},
                 TW_HELPER_IMPORTS(HELPER)
#define STANDARD(name, signature) {#name, (void *)name},
                     TW_LIBC_IMPORTS(STANDARD)};

static void *find(const char *name)
{
    if (!strncmp(name, TW_ROUTINE_PREFIX, strlen(TW_ROUTINE_PREFIX)))
        return (void *)tw_routine_find(name);
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (strcmp(functions[i].name, name) == 0)
            return functions[i].function;
    return NULL;
}

static tw_status missing(const char *model, const char *name)
{
    char library[64];
    bool routine = !strncmp(name, TW_ROUTINE_PREFIX, strlen(TW_ROUTINE_PREFIX));
    if (!routine || !tw_routine_library(name, library, sizeof library))
        return tw_fail(TW_STATUS_UNSUPPORTED,
                       "model '%s' calls '%s', which this runtime does not have", model, name);
    return tw_fail(TW_STATUS_UNSUPPORTED,
                   "model '%s' calls '%s', which is in neither this runtime nor a library %s; who "
                   "brings it along otherwise makes it known by tw_routine_register",
                   model, name, library);
}

tw_status tw_imports_bind(const tw_abi_model *model)
{
    for (uint32_t i = 0; i < model->n_imports; i++) {
        void *function = find(model->imports[i].name);
        if (!function)
            return missing(model->name, model->imports[i].name);
        /* Two loads of one file may do this at once, with the same values. */
        __atomic_store_n(model->imports[i].slot, function, __ATOMIC_RELAXED);
    }
    return TW_STATUS_OK;
}
