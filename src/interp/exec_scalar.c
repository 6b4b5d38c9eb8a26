/* exec_scalar.c: arithmetic of the interpreter, one function per operation and class of element
 * type, all over lanes. The tables below state each operation once. */
#include "interp/machine.h"

#include "base/checked.h"
#include "ir/elem_data.h"

#include <math.h>
#include <string.h>

/* OPERATION(kind, in float, in double); operands a, b, c */
#define FLOAT_OPS(X)                                                                               \
    X(NEG, -a, -a)                                                                                 \
    X(ABS, fabsf(a), fabs(a))                                                                      \
    X(EXP, expf(a), exp(a))                                                                        \
    X(LOG, logf(a), log(a))                                                                        \
    X(SQRT, sqrtf(a), sqrt(a))                                                                     \
    X(SIN, sinf(a), sin(a))                                                                        \
    X(COS, cosf(a), cos(a))                                                                        \
    X(TAN, tanf(a), tan(a))                                                                        \
    X(ASIN, asinf(a), asin(a))                                                                     \
    X(ACOS, acosf(a), acos(a))                                                                     \
    X(ATAN, atanf(a), atan(a))                                                                     \
    X(SINH, sinhf(a), sinh(a))                                                                     \
    X(COSH, coshf(a), cosh(a))                                                                     \
    X(TANH, tanhf(a), tanh(a))                                                                     \
    X(ASINH, asinhf(a), asinh(a))                                                                  \
    X(ACOSH, acoshf(a), acosh(a))                                                                  \
    X(ATANH, atanhf(a), atanh(a))                                                                  \
    X(ERF, erff(a), erf(a))                                                                        \
    X(FLOOR, floorf(a), floor(a))                                                                  \
    X(CEIL, ceilf(a), ceil(a))                                                                     \
    X(ROUND, rintf(a), rint(a))                                                                    \
    X(ADD, a + b, a + b)                                                                           \
    X(SUB, a - b, a - b)                                                                           \
    X(MUL, a *b, a *b)                                                                             \
    X(DIV, a / b, a / b)                                                                           \
    X(REM, fmodf(a, b), fmod(a, b))                                                                \
    X(MOD, (float)floored(fmodf(a, b), b), floored(fmod(a, b), b))                                 \
    X(POW, powf(a, b), pow(a, b))                                                                  \
    X(MAX, (float)larger(a, b), larger(a, b))                                                      \
    X(MIN, (float)smaller(a, b), smaller(a, b))                                                    \
    X(FMA, fmaf(a, b, c), fma(a, b, c))

/* OPERATION(kind, result before wrapping); operands a, b of int64_t, bits, and is_u64 */
#define INT_OPS(X)                                                                                 \
    X(NEG, wrap_sub(0, a))                                                                         \
    X(ABS, a < 0 && !is_u64 ? wrap_sub(0, a) : a)                                                  \
    X(NOT, in->elem == TW_BOOL ? !a : ~a)                                                          \
    X(FLOOR, a)                                                                                    \
    X(CEIL, a)                                                                                     \
    X(ROUND, a)                                                                                    \
    X(ADD, wrap_add(a, b))                                                                         \
    X(SUB, wrap_sub(a, b))                                                                         \
    X(MUL, wrap_mul(a, b))                                                                         \
    X(DIV, int_div(a, b, is_u64))                                                                  \
    X(REM, int_rem(a, b, is_u64))                                                                  \
    X(MOD, int_mod(a, b, is_u64))                                                                  \
    X(POW, int_pow(a, b, is_u64))                                                                  \
    X(MAX, int_less(a, b, is_u64) ? b : a)                                                         \
    X(MIN, int_less(b, a, is_u64) ? b : a)                                                         \
    X(AND, a &b)                                                                                   \
    X(OR, a | b)                                                                                   \
    X(XOR, a ^ b)                                                                                  \
    X(SHL, (uint64_t)b >= bits ? 0 : (int64_t)((uint64_t)a << b))                                  \
    X(SHR, int_shr(a, b, bits, is_u64))                                                            \
    X(FMA, wrap_add(wrap_mul(a, b), c))                                                            \
    X(DOT4, wrap_add(dot4((uint32_t)a, (uint32_t)b), c))

static double floored(double remainder, double divisor)
{
    return remainder != 0 && (remainder < 0) != (divisor < 0) ? remainder + divisor : remainder;
}

static double larger(double a, double b)
{
    return isnan(a) ? a : isnan(b) ? b : a > b ? a : b;
}

static double smaller(double a, double b)
{
    return isnan(a) ? a : isnan(b) ? b : a < b ? a : b;
}

static int64_t wrap_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t wrap_sub(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int64_t wrap_mul(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a * (uint64_t)b);
}

static bool int_less(int64_t a, int64_t b, bool is_u64)
{
    return is_u64 ? (uint64_t)a < (uint64_t)b : a < b;
}

static int64_t dot4(uint32_t a, uint32_t b)
{
    int64_t sum = 0;
    for (unsigned shift = 0; shift < 32; shift += 8)
        sum += (uint8_t)(a >> shift) * (int8_t)(b >> shift);
    return sum;
}

static int64_t int_div(int64_t a, int64_t b, bool is_u64)
{
    if (b == 0)
        return 0;
    if (is_u64)
        return (int64_t)((uint64_t)a / (uint64_t)b);
    return b == -1 ? wrap_sub(0, a) : a / b;
}

static int64_t int_rem(int64_t a, int64_t b, bool is_u64)
{
    return b == 0 ? 0 : wrap_sub(a, wrap_mul(int_div(a, b, is_u64), b));
}

static int64_t int_mod(int64_t a, int64_t b, bool is_u64)
{
    int64_t r = int_rem(a, b, is_u64);
    return !is_u64 && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

/* By squaring, wrapping; a negative exponent gives the truncated reciprocal. */
static int64_t int_pow(int64_t a, int64_t b, bool is_u64)
{
    if (!is_u64 && b < 0)
        return a == 1 ? 1 : a == -1 ? (b % 2 ? -1 : 1) : 0;
    int64_t result = 1;
    for (uint64_t n = (uint64_t)b; n; n >>= 1) {
        if (n & 1)
            result = wrap_mul(result, a);
        a = wrap_mul(a, a);
    }
    return result;
}

static int64_t int_shr(int64_t a, int64_t b, unsigned bits, bool is_u64)
{
    if ((uint64_t)b >= bits)
        return !is_u64 && a < 0 ? -1 : 0;
    return is_u64 ? (int64_t)((uint64_t)a >> b) : a >> b;
}

/* ---- One function per table row and class ---- */

#define OPERANDS(type, member)                                                                     \
    const type a = m->r[in->a.slot + l * in->a.step].member,                                       \
               b = m->r[in->b.slot + l * in->b.step].member,                                       \
               c = m->r[in->c.slot + l * in->c.step].member;                                       \
    (void)b, (void)c

#define X(KIND, in_float, in_double)                                                               \
    static void f32_##KIND(tw_machine *m, const tw_instr *in)                                      \
    {                                                                                              \
        for (uint32_t l = 0; l < in->lanes; l++) {                                                 \
            OPERANDS(float, f);                                                                    \
            m->r[in->dst + l].f = in_float;                                                        \
        }                                                                                          \
    }                                                                                              \
    static void f64_##KIND(tw_machine *m, const tw_instr *in)                                      \
    {                                                                                              \
        for (uint32_t l = 0; l < in->lanes; l++) {                                                 \
            OPERANDS(double, d);                                                                   \
            m->r[in->dst + l].d = in_double;                                                       \
        }                                                                                          \
    }                                                                                              \
    /* Twice the precision and more, so that the second rounding is harmless. */                   \
    static void small_##KIND(tw_machine *m, const tw_instr *in)                                    \
    {                                                                                              \
        for (uint32_t l = 0; l < in->lanes; l++) {                                                 \
            OPERANDS(float, f);                                                                    \
            m->r[in->dst + l].f = (float)tw_scalar_round(in->elem, small_value_##KIND(a, b, c));   \
        }                                                                                          \
    }
#define VALUE(KIND, in_float, in_double)                                                           \
    static double small_value_##KIND(double a, double b, double c)                                 \
    {                                                                                              \
        (void)b, (void)c;                                                                          \
        return in_double;                                                                          \
    }
FLOAT_OPS(VALUE)
FLOAT_OPS(X)
#undef VALUE
#undef X

#define X(KIND, result)                                                                            \
    static void int_##KIND(tw_machine *m, const tw_instr *in)                                      \
    {                                                                                              \
        const bool is_u64 = in->elem == TW_U64;                                                    \
        const unsigned bits = tw_elem_bits(in->elem);                                              \
        (void)is_u64, (void)bits;                                                                  \
        for (uint32_t l = 0; l < in->lanes; l++) {                                                 \
            OPERANDS(int64_t, i);                                                                  \
            m->r[in->dst + l].i = tw_scalar_wrap(in->elem, result);                                \
        }                                                                                          \
    }
INT_OPS(X)
#undef X

tw_exec tw_exec_arithmetic(tw_loop_kind kind, tw_elem elem)
{
    static const tw_exec f32[TW_LOOP_COUNT] = {
#define X(KIND, in_float, in_double) [TW_LOOP_##KIND] = f32_##KIND,
        FLOAT_OPS(X)
#undef X
    };
    static const tw_exec f64[TW_LOOP_COUNT] = {
#define X(KIND, in_float, in_double) [TW_LOOP_##KIND] = f64_##KIND,
        FLOAT_OPS(X)
#undef X
    };
    static const tw_exec small[TW_LOOP_COUNT] = {
#define X(KIND, in_float, in_double) [TW_LOOP_##KIND] = small_##KIND,
        FLOAT_OPS(X)
#undef X
    };
    static const tw_exec integer[TW_LOOP_COUNT] = {
#define X(KIND, result) [TW_LOOP_##KIND] = int_##KIND,
        INT_OPS(X)
#undef X
    };
    if (kind >= TW_LOOP_COUNT || elem == TW_STRING)
        return NULL;
    return elem == TW_F32           ? f32[kind]
           : elem == TW_F64         ? f64[kind]
           : tw_elem_is_float(elem) ? small[kind]
                                    : integer[kind];
}

/* ---- Index arithmetic ---- */

#define EXPR_OPS(X)                                                                                \
    X(ADD, wrap_add(a, b))                                                                         \
    X(MUL, wrap_mul(a, b))                                                                         \
    X(FLOORDIV, divisor(m, in, b) ? tw_floordiv_i64(a, b) : 0)                                     \
    X(CEILDIV, divisor(m, in, b) ? -tw_floordiv_i64(wrap_sub(0, a), b) : 0)                        \
    X(MOD, divisor(m, in, b) ? tw_mod_i64(a, b) : 0)                                               \
    X(MIN, a < b ? a : b)                                                                          \
    X(MAX, a > b ? a : b)

static bool divisor(tw_machine *m, const tw_instr *in, int64_t b)
{
    if (b <= 0)
        tw_machine_fail(m, in->op, "index expression divides by %lld", (long long)b);
    return true;
}

#define X(KIND, result)                                                                            \
    static void expr_##KIND(tw_machine *m, const tw_instr *in)                                     \
    {                                                                                              \
        for (uint32_t l = 0; l < in->lanes; l++) {                                                 \
            OPERANDS(int64_t, i);                                                                  \
            m->r[in->dst + l].i = result;                                                          \
        }                                                                                          \
    }
EXPR_OPS(X)
#undef X

tw_exec tw_exec_expr(tw_expr_kind kind)
{
    static const tw_exec table[] = {
#define X(KIND, result) [TW_EXPR_##KIND] = expr_##KIND,
        EXPR_OPS(X)
#undef X
    };
    return kind < sizeof table / sizeof *table ? table[kind] : NULL;
}

/* ---- The rest ---- */

const char *const tw_cmp_preds[] = {"eq", "ne", "lt", "le", "gt", "ge", NULL};

/* From which of less, equal, greater hold (none with NaN). */
static bool holds(int64_t pred, bool less, bool equal, bool greater)
{
    switch (pred) {
    case 0:
        return equal;
    case 1:
        return !equal;
    case 2:
        return less;
    case 3:
        return less || equal;
    case 4:
        return greater;
    default:
        return greater || equal;
    }
}

void tw_exec_cmp(tw_machine *m, const tw_instr *in)
{
    bool is_float = tw_elem_is_float(in->from), is_u64 = in->from == TW_U64;
    for (uint32_t l = 0; l < in->lanes; l++) {
        tw_slot a = m->r[in->a.slot + l * in->a.step], b = m->r[in->b.slot + l * in->b.step];
        bool result;
        if (is_float) {
            double x = tw_slot_number(in->from, a).real, y = tw_slot_number(in->from, b).real;
            result = holds(in->imm, x < y, x == y, x > y);
        } else {
            result =
                holds(in->imm, int_less(a.i, b.i, is_u64), a.i == b.i, int_less(b.i, a.i, is_u64));
        }
        m->r[in->dst + l].i = result;
    }
}

void tw_exec_select(tw_machine *m, const tw_instr *in)
{
    for (uint32_t l = 0; l < in->lanes; l++)
        m->r[in->dst + l] = m->r[in->a.slot + l * in->a.step].i ? m->r[in->b.slot + l * in->b.step]
                                                                : m->r[in->c.slot + l * in->c.step];
}

void tw_exec_cast(tw_machine *m, const tw_instr *in)
{
    for (uint32_t l = 0; l < in->lanes; l++) {
        tw_number v = tw_slot_number(in->from, m->r[in->a.slot + l * in->a.step]);
        m->r[in->dst + l] =
            tw_number_slot(in->elem, tw_scalar_convert(v, in->from, in->elem, in->imm != 0));
    }
}

void tw_exec_bitcast(tw_machine *m, const tw_instr *in)
{
    for (uint32_t l = 0; l < in->lanes; l++) {
        uint64_t bytes = 0;
        tw_scalar_store(in->from, &bytes, 0,
                        tw_slot_number(in->from, m->r[in->a.slot + l * in->a.step]));
        m->r[in->dst + l] = tw_number_slot(in->elem, tw_scalar_load(in->elem, &bytes, 0));
    }
}

void tw_exec_copy(tw_machine *m, const tw_instr *in)
{
    for (uint32_t l = 0; l < in->lanes; l++)
        m->r[in->dst + l] = m->r[in->a.slot + l * in->a.step];
}

void tw_exec_ramp(tw_machine *m, const tw_instr *in)
{
    for (uint32_t l = 0; l < in->lanes; l++)
        m->r[in->dst + l].i = m->r[in->a.slot].i + l;
}

/* dst = lane 0 op lane 1 op …, from the left. */
void tw_exec_reduce_lanes(tw_machine *m, const tw_instr *in)
{
    m->r[in->dst] = m->r[in->a.slot];
    const tw_instr *combine = in->extra;
    for (uint32_t l = 1; l < (uint32_t)in->imm; l++) {
        tw_instr step = *combine;
        step.b.slot += l;
        step.run(m, &step);
    }
}
