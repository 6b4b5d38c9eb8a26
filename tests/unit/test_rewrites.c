/* Rewrites keep what functions compute: each function of the lit tests named below is interpreted
 * as it is written and after the passes, on ordinary numbers and on such with zeros of either
 * sign, infinities, NaN, subnormals and the ends of integers among them. So a line of a table is
 * tested by writing its lit test, those of what must not be rewritten included. */
#include "lower_check.h"

#include "base/file.h"
#include "dialect/core/core.h"

typedef struct lit_file {
    const char *name, *passes;
    bool signs; /* the sign of a zero counts */
} lit_file;

#define ALL_PASSES                                                                                 \
    "canonicalize,eliminate-common-subexpr,fold-constants,sink-reshapes,simplify-inference,"       \
    "canonicalize,eliminate-common-subexpr,nest-concats,dce,fuse-ops"

static const lit_file files[] = {
    {"canonicalize-arithmetic", "canonicalize", true},
    {"canonicalize-definitions", "canonicalize", false},
    {"canonicalize-moves", "canonicalize", true},
    {"canonicalize-slices", "canonicalize,eliminate-common-subexpr,canonicalize", true},
    {"canonicalize-windows", "canonicalize", false}, /* sums begin with +0 */
    {"canonicalize-norm", "canonicalize", false},
    {"canonicalize-activations", "canonicalize", false},
    {"canonicalize-norm-forms", "canonicalize", false},
    {"eliminate-common-subexpr", "eliminate-common-subexpr", true},
    {"fuse-bias", "fuse-ops", true},
    {"fuse-ops", "fuse-ops", false},
    {"sink-reshapes", "sink-reshapes", true},
    {"nest-concats", "nest-concats", true},
    {"past-mistakes", ALL_PASSES, false},
    {"simplify-inference", "simplify-inference", false},
};

enum { MAX_ARGS = 32 };

/* ---- Inputs ---- */

static const double special_floats[] = {NAN, INFINITY, -INFINITY, -0.0, 0.0, 1e-40, -1, 1};
static const double special_ints[] = {
    -9223372036854775808.0, 4294967295.0, -2147483648.0, 255, -128, 0, -1, 1};
enum { N_SPECIAL = 8, ROUNDS = 1 + N_SPECIAL };

/* An element of an input: a quarter in -2..2, and every fourth one special from round 1 on. */
static double input_element(tw_elem elem, int round, uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    double value = (double)(int)(*state >> 60) / 4 - 2;
    bool special = round > 0 && (*state >> 40) % 4 == 0;
    if (elem == TW_BOOL)
        return (*state >> 33) & 1;
    if (tw_elem_is_float(elem))
        return special ? special_floats[round - 1] : value;
    return special ? special_ints[round - 1] : value * 4;
}

static void fill(tw_type type, tw_interp_buffer *buffer, int round, uint64_t *state)
{
    int64_t count = 0;
    tw_type_static_count(type, &count);
    for (int64_t i = 0; i < count; i++)
        set_element(type->elem, buffer->data, (size_t)i, input_element(type->elem, round, state));
}

/* ---- Running ---- */

typedef struct run_result {
    unsigned n, n_out;
    tw_type types[MAX_ARGS];
    tw_interp_buffer buffers[MAX_ARGS];
} run_result;

/* The module's only function, after the passes and lowering. */
static tw_op *lowered(tw_context *ctx, const tw_op *module, const char *passes)
{
    tw_pipeline_options options = {.verify_each = true};
    tw_op *copy = tw_op_clone(tw_cloner_create(ctx), module);
    bool fine = (!passes || tw_run_pipeline(ctx, copy, passes, &options)) &&
                tw_run_pipeline(ctx, copy, "lower-to-loops", &options);
    if (!fine) {
        show_diagnostics(ctx);
        fail_msg("cannot be lowered: %s", tw_print(ctx, module, NULL));
    }
    tw_op *op = tw_core_body(copy)->first;
    while (!tw_is_core(op, TW_CORE_FUNC))
        op = op->next;
    return op;
}

static run_result run(tw_context *ctx, tw_op *func, int round)
{
    tw_region *body = tw_core_body(func);
    run_result r = {.n = body->n_args, .n_out = (unsigned)tw_op_int(func, "outputs", 0)};
    uint64_t state = 12345;
    assert_true(r.n <= MAX_ARGS);
    for (unsigned i = 0; i < r.n; i++) {
        r.types[i] = body->args[i]->type;
        r.buffers[i] = make_buffer(r.types[i]);
        if (i < r.n - r.n_out)
            fill(r.types[i], &r.buffers[i], round, &state);
    }
    if (!tw_interp_run(ctx, func, r.buffers, r.n, NULL)) {
        show_diagnostics(ctx);
        fail_msg("interpreting failed");
    }
    return r;
}

static void release(run_result *r)
{
    for (unsigned i = 0; i < r->n; i++)
        free(r->buffers[i].data);
}

/* ---- Comparing ---- */

/* What may differ between finite numbers, relative to the largest of the result. */
static double tolerance(tw_elem elem)
{
    if (!tw_elem_is_float(elem))
        return 0;
    return elem == TW_F64 ? 1e-12 : elem == TW_F32 ? 1e-5 : elem == TW_F16 ? 4e-3 : 3e-2;
}

static bool same_element(double a, double b, double allowed, bool signs)
{
    if (!isfinite(a) || !isfinite(b))
        return (isnan(a) && isnan(b)) || a == b;
    return fabs(a - b) <= allowed && (!signs || a != 0 || signbit(a) == signbit(b));
}

static bool same_output(const run_result *a, const run_result *b, unsigned i, bool signs)
{
    tw_type type = a->types[i];
    int64_t count = 0;
    double largest = 1;
    tw_type_static_count(type, &count);
    for (int64_t k = 0; k < count; k++) {
        double x = get_element(type->elem, a->buffers[i].data, (size_t)k);
        largest = isfinite(x) ? fmax(largest, fabs(x)) : largest;
    }
    for (int64_t k = 0; k < count; k++) {
        double x = get_element(type->elem, a->buffers[i].data, (size_t)k);
        double y = get_element(type->elem, b->buffers[i].data, (size_t)k);
        if (!same_element(x, y, largest * tolerance(type->elem), signs)) {
            print_error("output %u, element %lld: %.9g, not %.9g\n", i - (a->n - a->n_out),
                        (long long)k, y, x);
            return false;
        }
    }
    return true;
}

static void check_function(tw_context *ctx, const tw_op *module, const lit_file *file)
{
    tw_op *before = lowered(ctx, module, NULL), *after = lowered(ctx, module, file->passes);
    for (int round = 0; round < ROUNDS; round++) {
        run_result a = run(ctx, before, round), b = run(ctx, after, round);
        for (unsigned i = a.n - a.n_out; i < a.n; i++)
            if (!same_output(&a, &b, i, file->signs))
                fail_msg("%s, round %d: %s", file->name, round, tw_print(ctx, module, NULL));
        release(&a);
        release(&b);
    }
}

/* Whether all sizes are known and nothing is called. */
static bool is_plain(tw_op *op, void *data)
{
    (void)data;
    int64_t count;
    for (unsigned r = 0; r < op->n_regions; r++)
        for (unsigned i = 0; i < op->regions[r].n_args; i++)
            if (!tw_type_static_count(op->regions[r].args[i]->type, &count))
                return false;
    return strcmp(op->def->name, "call") != 0 && strcmp(op->def->name, "core.call") != 0;
}

static unsigned check_file(const lit_file *file)
{
    tw_context *ctx = new_context();
    char path[4096];
    tw_file text;
    snprintf(path, sizeof path, LIT_TRANSFORM "/%s.tw", file->name);
    assert_null(tw_file_map(path, 0, &text));
    tw_op *module = tw_parse(ctx, (const char *)text.data, text.size, path);
    assert_non_null(module);
    unsigned n = 0;
    for (tw_op *func = tw_core_body(module)->first; func; func = func->next) {
        if (!tw_walk(func, is_plain, NULL))
            continue;
        tw_op *alone = tw_core_module(ctx, "alone", func->loc);
        tw_op_insert(tw_op_clone(tw_cloner_create(ctx), func), tw_core_body(alone), NULL);
        check_function(ctx, alone, file);
        n++;
    }
    tw_context_destroy(ctx);
    tw_file_unmap(&text);
    return n;
}

static void functions_keep_results(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        assert_true(check_file(&files[i]) > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(functions_keep_results)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
