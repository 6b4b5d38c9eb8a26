/* lower_check.h: runs functions of graph operations, given as text, through lowering and the
 * interpreter and compares with known values. Header-only, for the test_lower_* programs. */
#ifndef TW_TESTS_LOWER_CHECK_H
#define TW_TESTS_LOWER_CHECK_H

#include "tilewright/compiler.h"
#include "interp/interp.h"
#include "ir/scalar.h"
#include "tilewright/ir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline void show_diagnostics(tw_context *ctx)
{
    for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
        print_error("%s\n", tw_diagnostic_text(ctx, d));
}

static inline tw_context *new_context(void)
{
    tw_context *ctx = tw_context_create(0);
    assert_true(tw_register_all(ctx));
    return ctx;
}

/* The module `module { func @main<text> }` after lower-to-loops; NULL when lowering fails. */
static inline tw_op *lower_text(tw_context *ctx, const char *text)
{
    size_t len = strlen(text) + 64;
    char *whole = tw_context_alloc(ctx, len);
    snprintf(whole, len, "module { func @main%s }", text);
    tw_op *module = tw_parse(ctx, whole, strlen(whole), "test");
    if (!module || !tw_verify(ctx, module)) {
        show_diagnostics(ctx);
        fail_msg("the test's text does not parse: %s", whole);
    }
    tw_pipeline_options options = {.verify_each = true};
    return tw_run_pipeline(ctx, module, "lower-to-loops", &options) ? module : NULL;
}

static inline tw_op *main_of(tw_op *module)
{
    for (tw_op *op = module->regions[0].first; op; op = op->next)
        if (!strcmp(tw_op_string(op, "sym_name", ""), "main"))
            return op;
    return NULL;
}

/* Memory for an argument, filled with 0xA5. */
static inline tw_interp_buffer make_buffer(tw_type type)
{
    int64_t count = 0;
    assert_true(tw_type_static_count(type, &count));
    size_t size = ((size_t)count * tw_elem_bits(type->elem) + 7) / 8;
    tw_interp_buffer buffer = {malloc(size + 1), size};
    memset(buffer.data, 0xA5, size + 1);
    return buffer;
}

static inline double get_element(tw_elem elem, const void *data, size_t i)
{
    tw_number v = tw_scalar_load(elem, data, i);
    return tw_elem_is_float(elem) ? v.real
           : elem == TW_U64       ? (double)(uint64_t)v.integer
                                  : (double)v.integer;
}

static inline void set_element(tw_elem elem, void *data, size_t i, double value)
{
    tw_scalar_store(elem, data, i,
                    tw_scalar_convert((tw_number){.real = value}, TW_F64, elem, false));
}

static inline bool close_to(double got, double want, double tolerance)
{
    if (isnan(want) || isinf(want) || isnan(got))
        return isnan(want) ? isnan(got) != 0 : got == want;
    return fabs(got - want) <= tolerance * fmax(1, fabs(want));
}

/* What lowering states must print, parse and print alike. */
static inline void check_round_trip(tw_context *ctx, const tw_op *module)
{
    const char *once = tw_print(ctx, module, NULL);
    tw_op *back = tw_parse(ctx, once, strlen(once), "printed");
    if (!back)
        show_diagnostics(ctx);
    assert_non_null(back);
    assert_string_equal(once, tw_print(ctx, back, NULL));
}

/* Runs `func @main<text>`: inputs and expected outputs as doubles, in order, row-major. Values may
 * differ by tolerance, relative to those above 1. */
static inline void check_values(const char *text, const double *const *inputs,
                                const double *const *expected, double tolerance)
{
    tw_context *ctx = new_context();
    tw_op *module = lower_text(ctx, text);
    if (!module) {
        show_diagnostics(ctx);
        fail_msg("lowering failed: %s", text);
    }
    check_round_trip(ctx, module);
    tw_op *func = main_of(module);
    tw_region *region = &func->regions[0];
    unsigned n = region->n_args, n_out = (unsigned)tw_op_int(func, "outputs", 0);
    tw_interp_buffer *buffers = calloc(n, sizeof *buffers);
    for (unsigned i = 0; i < n; i++) {
        tw_type type = region->args[i]->type;
        int64_t count = 0;
        buffers[i] = make_buffer(type);
        tw_type_static_count(type, &count);
        for (int64_t e = 0; i < n - n_out && e < count; e++)
            set_element(type->elem, buffers[i].data, (size_t)e, inputs[i][e]);
    }
    if (!tw_interp_run(ctx, func, buffers, n, NULL)) {
        show_diagnostics(ctx);
        print_error("%s\n", tw_print(ctx, module, NULL));
        fail_msg("interpreting failed: %s", text);
    }
    for (unsigned i = n - n_out; i < n; i++) {
        tw_type type = region->args[i]->type;
        int64_t count = 0;
        tw_type_static_count(type, &count);
        for (int64_t e = 0; e < count; e++) {
            double got = get_element(type->elem, buffers[i].data, (size_t)e);
            double want = expected[i - (n - n_out)][e];
            if (!close_to(got, want, tolerance)) {
                print_error("%s\n", tw_print(ctx, module, NULL));
                fail_msg("output %u, element %lld: %.9g, not %.9g: %s", i - (n - n_out),
                         (long long)e, got, want, text);
            }
        }
    }
    for (unsigned i = 0; i < n; i++)
        free(buffers[i].data);
    free(buffers);
    tw_context_destroy(ctx);
}

/* Short forms: CHECK1(text, tolerance, {inputs…}, {outputs…}) with one input and one output. */
#define VALUES(...) ((const double[]){__VA_ARGS__})
static inline void check1(const char *text, const double *x, const double *y, double tolerance)
{
    check_values(text, &x, &y, tolerance);
}
static inline void check2(const char *text, const double *a, const double *b, const double *y,
                          double tolerance)
{
    check_values(text, (const double *[]){a, b}, &y, tolerance);
}
static inline void check3(const char *text, const double *a, const double *b, const double *c,
                          const double *y, double tolerance)
{
    check_values(text, (const double *[]){a, b, c}, &y, tolerance);
}

/* `n` zeroes; numbers between -1 and 1 that look random and are the same in every run. */
static inline double *zeros(int n)
{
    return calloc((size_t)n + 1, sizeof(double));
}
static inline double *some_numbers(int n, unsigned seed)
{
    double *x = zeros(n);
    uint32_t state = seed * 2654435761u + 12345;
    for (int i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)((double)(state >> 8) / (1 << 23) - 1);
    }
    return x;
}

#endif
