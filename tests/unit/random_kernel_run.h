/* random_kernel_run.h: memory for random kernels, running them through the interpreter, and
 * comparing results. */
#ifndef TW_TESTS_RANDOM_KERNEL_RUN_H
#define TW_TESTS_RANDOM_KERNEL_RUN_H

#include "random_kernel.h"

#include "dialect/core/core.h"
#include "interp/interp.h"
#include "ir/scalar.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { RK_MAX_BUFFERS = RK_MAX_INPUTS + RK_MAX_RESULTS, RK_MAX_STEPS = 30000000 };
typedef struct rk_memory {
    tw_interp_buffer buffers[RK_MAX_BUFFERS];
    tw_elem elems[RK_MAX_BUFFERS];
    size_t counts[RK_MAX_BUFFERS];
    unsigned n, n_inputs; /* results follow */
} rk_memory;

/* Small whole numbers, or indices. */
static void rk_fill_input(rk_memory *m, unsigned i, int64_t limit, uint64_t *state)
{
    for (size_t k = 0; k < m->counts[i]; k++) {
        *state = *state * 6364136223846793005ull + 1442695040888963407ull;
        int64_t number = limit ? (int64_t)((*state >> 33) % (uint64_t)(2 * limit)) - limit
                               : (int64_t)(*state >> 60) - 7;
        tw_number value = {.integer = number};
        tw_scalar_store(m->elems[i], m->buffers[i].data, k,
                        tw_scalar_convert(value, TW_I64, m->elems[i], false));
    }
}

static rk_memory rk_make_memory(tw_context *ctx, const random_kernel *r, const tw_op *func)
{
    rk_memory m = {.n = func->regions[0].n_args, .n_inputs = r->n_inputs};
    uint64_t state = r->seed;
    for (unsigned i = 0; i < m.n; i++) {
        tw_type type = func->regions[0].args[i]->type;
        int64_t count = 0;
        assert_true(tw_type_static_count(type, &count));
        size_t size = ((size_t)count * tw_elem_bits(type->elem) + 7) / 8;
        m.buffers[i] = (tw_interp_buffer){tw_context_alloc(ctx, size + 1), size};
        m.elems[i] = type->elem;
        m.counts[i] = (size_t)count;
        memset(m.buffers[i].data, 0xA5, size);
        if (i < m.n_inputs)
            rk_fill_input(&m, i, r->limit[i], &state);
    }
    return m;
}

static double rk_element(const rk_memory *m, unsigned i, size_t k)
{
    tw_number v = tw_scalar_load(m->elems[i], m->buffers[i].data, k);
    return tw_elem_is_float(m->elems[i]) ? v.real : (double)v.integer;
}

/* Whether buffer i holds the same or, where rounding has a part, nearly the same. Which zero the
 * larger one of two zeros is, is left open. */
static bool rk_same_result(bool exact, const rk_memory *want, const rk_memory *got, unsigned i)
{
    const tw_elem elem = want->elems[i];
    double largest = 1, eps = elem == TW_BF16 ? 2e-2 : elem == TW_F16 ? 4e-3 : 2e-5;
    if (exact)
        eps = 0;
    if (!tw_elem_is_float(elem))
        return !memcmp(want->buffers[i].data, got->buffers[i].data, want->buffers[i].size);
    for (size_t k = 0; k < want->counts[i]; k++)
        if (isfinite(rk_element(want, i, k)))
            largest = fmax(largest, fabs(rk_element(want, i, k)));
    for (size_t k = 0; k < want->counts[i]; k++) {
        double x = rk_element(want, i, k), y = rk_element(got, i, k);
        if (isnan(x) ? !isnan(y) : isinf(x) ? y != x : !(fabs(x - y) <= eps * largest))
            return false;
    }
    return true;
}

static inline bool rk_same_results(const random_kernel *r, const rk_memory *want,
                                   const rk_memory *got)
{
    for (unsigned i = want->n_inputs; i < want->n; i++)
        if (!rk_same_result(r->exact, want, got, i))
            return false;
    return true;
}

static inline bool rk_run_main(tw_context *ctx, const random_kernel *r, tw_op *module, bool reverse,
                               rk_memory *out)
{
    tw_op *func = tw_core_lookup(module, "main");
    tw_interp_options options = {.max_steps = RK_MAX_STEPS, .reverse_parallel = reverse};
    *out = rk_make_memory(ctx, r, func);
    return tw_interp_run(ctx, func, out->buffers, out->n, &options);
}

#endif
