/* test_codegen_ops.c: every operation on every element type, scalar and with 4 and 16 lanes, on
 * values that include the edges; the interpreter says what is right. */
#include "codegen_harness.h"
#include "dialect/loop/loop.h"
#include "ir/scalar.h"

#include <math.h>

enum { N = 160, WIDTHS = 3 }; /* elements per argument: pairs of interesting values */
static const int widths[WIDTHS] = {0, 4, 16};

/* ---- Values ---- */

static const double reals[] = {0.0,   -0.0,   1.0,  -1.0,   0.5,    -2.5,  3.0,   1e-3,
                               100.0, -127.6, 1e30, -1e30,  1e-40,  7.0,   -7.0,  2.5,
                               0.1,   65504,  448,  -57344, 1e-310, 300.7, -1e-8, 16.0};
static const int64_t integers[] = {
    0,     1,      -1,    2,         -2,        3,          7,         -7,        8,           15,
    16,    31,     33,    63,        64,        100,        127,       -128,      255,         -129,
    32767, -32768, 65535, INT32_MAX, INT32_MIN, UINT32_MAX, INT64_MAX, INT64_MIN, 12345678901, -5};

static tw_number value_at(tw_elem elem, size_t i)
{
    enum { R = sizeof reals / sizeof *reals, I = sizeof integers / sizeof *integers };
    if (!tw_elem_is_float(elem))
        return (tw_number){.integer = tw_scalar_wrap(elem, integers[i % I])};
    if (i % (R + 3) >= R) {
        const double special[] = {NAN, INFINITY, -INFINITY};
        return (tw_number){.real = special[i % (R + 3) - R]};
    }
    return (tw_number){.real = tw_scalar_round(elem, reals[i % (R + 3)])};
}

/* Three arguments run through different pairs. */
static void fill(tw_elem elem, void *data, unsigned arg)
{
    static const size_t strides[] = {1, 7, 11};
    for (size_t i = 0; i < N; i++)
        tw_scalar_store(elem, data, i, value_at(elem, i * strides[arg] + i / 29 + arg * 3));
}

/* ---- Modules ---- */

typedef struct text {
    char *data;
    size_t len, cap;
} text;

static void add(text *t, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    assert_true(n >= 0 && n < (int)sizeof line);
    if (t->len + (size_t)n + 1 > t->cap) {
        t->cap = t->cap * 2 + 4096;
        char *grown = realloc(t->data, t->cap);
        assert_non_null(grown);
        t->data = grown;
    }
    memcpy(t->data + t->len, line, (size_t)n + 1);
    t->len += (size_t)n;
}

/* One case: a kernel over buffers a, b, c of one type to y of another. */
typedef struct test_case {
    char name[64]; /* "add", or with attributes: "cmp {pred = \"lt\"}" is op "cmp", attrs */
    const char *op, *attrs;
    tw_elem from, to;
    unsigned operands;
    double tolerance; /* relative; 0: bits are equal (NaNs alike) */
} test_case;

static const char *type_name(tw_elem elem, int lanes)
{
    static char names[4][32];
    static unsigned next;
    char *name = names[next++ % 4];
    snprintf(name, 32, lanes ? "vec<%d%s%s>" : "%.0d%s%s", lanes, lanes ? "x" : "",
             tw_elem_name(elem));
    return name;
}

static void add_kernel(text *t, const test_case *c, unsigned number)
{
    add(t,
        "loop.kernel @k%u(%%a: buffer<%dx%s>, %%b: buffer<%dx%s>, %%c: buffer<%dx%s>,"
        " %%y: buffer<%dx%dx%s>) attributes {outputs = 1} {\n",
        number, N, tw_elem_name(c->from), N, tw_elem_name(c->from), N, tw_elem_name(c->from),
        WIDTHS, N, tw_elem_name(c->to));
    for (int w = 0; w < WIDTHS; w++) {
        int lanes = widths[w];
        const char *from = type_name(c->from, lanes);
        add(t, "  loop.for %%i = 0 to %d step %d {\n", N, lanes ? lanes : 1);
        if (lanes)
            add(t, "    %%r = loop.ramp %%i : vec<%dxindex>\n", lanes);
        const char *at = lanes ? "r" : "i";
        for (unsigned k = 0; k < c->operands; k++)
            add(t, "    %%v%u = loop.load %%%c[%%%s] : %s\n", k, "abc"[k], at, from);
        if (!strcmp(c->op, "select")) {
            add(t, "    %%z = loop.cmp %%v0, %%v1 {pred = \"lt\"} : %s\n",
                type_name(TW_BOOL, lanes));
            add(t, "    %%w = loop.select %%z, %%v0, %%v1 : %s\n", from);
        } else {
            add(t, "    %%w = loop.%s ", c->op);
            for (unsigned k = 0; k < c->operands; k++)
                add(t, "%s%%v%u", k ? ", " : "", k);
            add(t, "%s%s : %s\n", *c->attrs ? " " : "", c->attrs, type_name(c->to, lanes));
        }
        add(t, "    loop.store %%w, %%y[%d, %%%s]\n  }\n", w, at);
    }
    add(t, "}\n");
}

/* @main(a, b, c of each element type, y of each case) */
static char *module_text(const test_case *cases, unsigned n)
{
    text t = {0};
    for (unsigned i = 0; i < n; i++)
        add_kernel(&t, &cases[i], i);
    add(&t, "func @main(");
    for (int e = 0; e < TW_ELEM_COUNT; e++)
        for (int k = 0; k < 3 && e != TW_STRING; k++)
            add(&t, "%%%c%d: buffer<%dx%s>, ", "abc"[k], e, N, tw_elem_name((tw_elem)e));
    for (unsigned i = 0; i < n; i++)
        add(&t, "%s%%y%u: buffer<%dx%dx%s>", i ? ", " : "", i, WIDTHS, N,
            tw_elem_name(cases[i].to));
    add(&t, ") attributes {outputs = %u} {\n", n);
    for (unsigned i = 0; i < n; i++)
        add(&t, "  call @k%u(%%a%d, %%b%d, %%c%d, %%y%u)\n", i, cases[i].from, cases[i].from,
            cases[i].from, i);
    add(&t, "  return\n}\n");
    return t.data;
}

/* ---- Comparison ---- */

static bool same(const test_case *c, tw_number a, tw_number e)
{
    if (!tw_elem_is_float(c->to))
        return a.integer == e.integer;
    if (isnan(e.real) || isnan(a.real))
        return isnan(e.real) && isnan(a.real);
    if (a.real == e.real)
        return true;
    return fabs(a.real - e.real) <= c->tolerance * fabs(e.real);
}

static size_t bytes_of(tw_elem elem, size_t n)
{
    return (n * tw_elem_bits(elem) + 7) / 8;
}

static void compare(const test_case *c, const char *cpu, unsigned level, const void *actual,
                    const void *expected)
{
    for (size_t i = 0; i < (size_t)WIDTHS * N; i++) {
        tw_number a = tw_scalar_load(c->to, actual, i), e = tw_scalar_load(c->to, expected, i);
        if (same(c, a, e))
            continue;
        double shown_a = tw_elem_is_float(c->to) ? a.real : (double)a.integer;
        double shown_e = tw_elem_is_float(c->to) ? e.real : (double)e.integer;
        fail_msg("%s -O%u: %s of %s to %s, %d lanes, element %zu: %.17g instead of %.17g", cpu,
                 level, c->name, tw_elem_name(c->from), tw_elem_name(c->to), widths[i / N], i % N,
                 shown_a, shown_e);
    }
}

/* What is compiled for, and how; all of them when TILEWRIGHT_TEST_ALL is set. */
typedef struct configuration {
    const char *cpu;
    unsigned level;
    bool always;
} configuration;
static const configuration configurations[] = {{"x86-64", 2, true},     {"x86-64-v2", 2, false},
                                               {"x86-64-v3", 2, false}, {"x86-64-v3", 0, false},
                                               {"host", 2, true},       {"host", 0, false}};

static void run_cases_on(const test_case *cases, unsigned n, bool all)
{
    tw_context *ctx = new_context();
    char *source = module_text(cases, n);
    tw_op *module = parse_module(ctx, source);
    unsigned inputs = 3 * (TW_ELEM_COUNT - 1), at = 0;
    tw_interp_buffer *args = calloc(inputs + n, sizeof *args);
    tw_interp_buffer *expected = calloc(inputs + n, sizeof *args);
    for (int e = 0; e < TW_ELEM_COUNT; e++)
        for (unsigned k = 0; k < 3 && e != TW_STRING; k++) {
            args[at].size = bytes_of((tw_elem)e, N);
            args[at].data = calloc(1, args[at].size);
            fill((tw_elem)e, args[at++].data, k);
        }
    for (unsigned i = 0; i < n; i++, at++) {
        args[at].size = bytes_of(cases[i].to, WIDTHS * N);
        args[at].data = malloc(args[at].size);
    }
    for (unsigned i = 0; i < inputs + n; i++) {
        expected[i] = args[i];
        if (i >= inputs)
            expected[i].data = malloc(args[i].size);
    }
    run_interpreted(ctx, module, expected, inputs + n);
    for (size_t k = 0; k < sizeof configurations / sizeof *configurations; k++) {
        const configuration *f = &configurations[k];
        if (!f->always && !all)
            continue;
        run_compiled(ctx, module, f->cpu, f->level, args);
        for (unsigned i = 0; i < n; i++)
            compare(&cases[i], f->cpu, f->level, args[inputs + i].data, expected[inputs + i].data);
    }
    for (unsigned i = 0; i < inputs + n; i++) {
        free(args[i].data);
        if (i >= inputs)
            free(expected[i].data);
    }
    free(args);
    free(expected);
    free(source);
    tw_context_destroy(ctx);
}

static void run_cases(const test_case *cases, unsigned n)
{
    run_cases_on(cases, n, getenv("TILEWRIGHT_TEST_ALL") != NULL);
}

/* ---- Cases ---- */

enum { MAX_CASES = 700 };
typedef struct case_list {
    test_case cases[MAX_CASES];
    unsigned n;
} case_list;

static void add_case(case_list *l, const char *op, const char *attrs, tw_elem from, tw_elem to,
                     unsigned operands, double tolerance)
{
    assert_true(l->n < MAX_CASES);
    test_case *c = &l->cases[l->n++];
    *c = (test_case){.op = op,
                     .attrs = attrs,
                     .from = from,
                     .to = to,
                     .operands = operands,
                     .tolerance = tolerance};
    snprintf(c->name, sizeof c->name, "%s%s", op, attrs);
}

static bool is_bool(tw_elem e)
{
    return e == TW_BOOL;
}

/* Exact ones: all element types. */
static void arithmetic(void **state)
{
    (void)state;
    static case_list l;
    static const struct {
        const char *op;
        unsigned operands;
        bool real, integer, boolean;
    } ops[] = {
        {"neg", 1, 1, 1, 0},    {"abs", 1, 1, 1, 0},  {"not", 1, 0, 1, 1},   {"sqrt", 1, 1, 0, 0},
        {"floor", 1, 1, 1, 0},  {"ceil", 1, 1, 1, 0}, {"round", 1, 1, 1, 0}, {"add", 2, 1, 1, 0},
        {"sub", 2, 1, 1, 0},    {"mul", 2, 1, 1, 0},  {"div", 2, 1, 1, 0},   {"rem", 2, 1, 1, 0},
        {"mod", 2, 1, 1, 0},    {"max", 2, 1, 1, 0},  {"min", 2, 1, 1, 0},   {"and", 2, 0, 1, 1},
        {"or", 2, 0, 1, 1},     {"xor", 2, 0, 1, 1},  {"shl", 2, 0, 1, 0},   {"shr", 2, 0, 1, 0},
        {"select", 2, 1, 1, 1},
    };
    l.n = 0;
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (int e = 0; e < TW_ELEM_COUNT; e++) {
            tw_elem elem = (tw_elem)e;
            bool has = tw_elem_is_float(elem) ? ops[o].real
                       : is_bool(elem)        ? ops[o].boolean
                                              : ops[o].integer && elem != TW_STRING;
            if (has)
                add_case(&l, ops[o].op, "", elem, elem, ops[o].operands, 0);
        }
    run_cases(l.cases, l.n);
}

static void comparisons(void **state)
{
    (void)state;
    static case_list l;
    static const char *const preds[] = {"{pred = \"eq\"}", "{pred = \"ne\"}", "{pred = \"lt\"}",
                                        "{pred = \"le\"}", "{pred = \"gt\"}", "{pred = \"ge\"}"};
    l.n = 0;
    for (int e = 0; e < TW_ELEM_COUNT; e++)
        for (size_t p = 0; p < 6 && e != TW_STRING; p++)
            add_case(&l, "cmp", preds[p], (tw_elem)e, TW_BOOL, 2, 0);
    run_cases(l.cases, l.n);
}

static void casts(void **state)
{
    (void)state;
    static case_list l;
    l.n = 0;
    for (int from = 0; from < TW_ELEM_COUNT; from++)
        for (int to = 0; to < TW_ELEM_COUNT; to++) {
            if (from == TW_STRING || to == TW_STRING)
                continue;
            add_case(&l, "cast", "", (tw_elem)from, (tw_elem)to, 1, 0);
            if (tw_scalar_saturates((tw_elem)to))
                add_case(&l, "cast", "{saturate = false}", (tw_elem)from, (tw_elem)to, 1, 0);
        }
    run_cases(l.cases, l.n);
}

static void bitcasts(void **state)
{
    (void)state;
    static case_list l;
    static const tw_elem pairs[][2] = {{TW_F32, TW_I32},     {TW_I32, TW_F32},   {TW_F64, TW_U64},
                                       {TW_U64, TW_F64},     {TW_F16, TW_U16},   {TW_U16, TW_BF16},
                                       {TW_F8E4M3FN, TW_U8}, {TW_I8, TW_F8E5M2}, {TW_I8, TW_U8}};
    l.n = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        add_case(&l, "bitcast", "", pairs[i][0], pairs[i][1], 1, 0);
    run_cases(l.cases, l.n);
}

/* Each instruction set has its own code. */
static void dots(void **state)
{
    (void)state;
    static case_list l;
    l.n = 0;
    add_case(&l, "dot4", "", TW_I32, TW_I32, 3, 0);
    run_cases_on(l.cases, l.n, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic), cmocka_unit_test(comparisons), cmocka_unit_test(casts),
        cmocka_unit_test(bitcasts),   cmocka_unit_test(dots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
