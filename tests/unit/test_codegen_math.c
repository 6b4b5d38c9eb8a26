/* test_codegen_math.c: errors of compiled mathematical functions in units in the last place, over
 * dense samples of all f32 values, and their values at the edges. */
#include "codegen_harness.h"

#include <math.h>

enum { SAMPLES = 1 << 18, EDGES = 64, N = SAMPLES + EDGES };

typedef struct function {
    const char *name;
    double (*exact)(double);
    double ulps; /* bound */
} function;

static const function functions[] = {
    {"exp", exp, 1.5},   {"log", log, 1.5}, {"tanh", tanh, 2},   {"erf", erf, 2},
    {"sin", sin, 2},     {"cos", cos, 2},   {"sqrt", sqrt, 0.5}, {"atan", atan, 1.5},
    {"sinh", sinh, 2.5}, {"asin", asin, 2},
};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* The distance of f32 values at the exact result. */
static double ulp(double exact)
{
    int e;
    double magnitude = fabs(exact);
    if (magnitude < 0x1p-126)
        return 0x1p-149;
    frexp(magnitude, &e);
    return ldexp(1, e - 24);
}

/* Errors of finite results; infinite or NaN where the other is not counts as endless. */
static double error_in_ulps(float actual, double exact)
{
    float rounded = (float)exact;
    if (isnan(rounded) || isnan(actual))
        return isnan(rounded) && isnan(actual) ? 0 : INFINITY;
    if (isinf(rounded) || isinf(actual)) {
        /* Next to the largest value an error of less than 1 may cross the border. */
        double limit = isinf(actual) ? copysign(0x1p128, actual) : actual;
        return rounded == actual ? 0 : fabs(limit - exact) / 0x1p104;
    }
    return fabs(actual - exact) / ulp(exact);
}

static void fill_samples(float *x)
{
    static const float edges[] = {0,
                                  -0.0f,
                                  1,
                                  -1,
                                  INFINITY,
                                  -INFINITY,
                                  NAN,
                                  88.7228f,
                                  88.73f,
                                  -87.3f,
                                  -103.9f,
                                  -104.1f,
                                  0x1p-126f,
                                  0x1p-149f,
                                  -0x1p-149f,
                                  0x1.fffffep127f,
                                  -0x1.fffffep127f,
                                  0x1.fffffep-127f,
                                  0.5f,
                                  2,
                                  3,
                                  10,
                                  1e6f,
                                  1.1e6f,
                                  1e30f,
                                  0.625f,
                                  0.92f,
                                  3.95f,
                                  3.9499998f,
                                  9.01f,
                                  9.1f,
                                  0.70710677f,
                                  1.4142135f,
                                  0.99999994f,
                                  1.0000001f,
                                  3.1415927f,
                                  1.5707964f,
                                  6.2831855f,
                                  33554432,
                                  16777217,
                                  1e-10f,
                                  22.0f,
                                  355,
                                  710,
                                  1e5f,
                                  999999};
    for (uint32_t i = 0; i < SAMPLES; i++)
        x[i] = float_of(i * 16411u + i / 3);
    for (uint32_t i = 0; i < EDGES; i++)
        x[SAMPLES + i] = edges[i % (sizeof edges / sizeof *edges)];
}

static char *unary_module(int lanes)
{
    char *text = calloc(1, 1 << 16), *at = text;
    for (int i = 0; i < N_FUNCTIONS; i++) {
        at += sprintf(at,
                      "loop.kernel @k%d(%%x: buffer<%dxf32>, %%y: buffer<%dxf32>) attributes"
                      " {outputs = 1} {\n"
                      "  loop.for %%i = 0 to %d step %d {\n"
                      "    %%r = loop.ramp %%i : vec<%dxindex>\n"
                      "    %%v = loop.load %%x[%%r] : vec<%dxf32>\n"
                      "    %%w = loop.%s %%v : vec<%dxf32>\n"
                      "    loop.store %%w, %%y[%%r]\n  }\n}\n",
                      i, N, N, N, lanes, lanes, lanes, functions[i].name, lanes);
    }
    at += sprintf(at, "func @main(%%x: buffer<%dxf32>", N);
    for (int i = 0; i < N_FUNCTIONS; i++)
        at += sprintf(at, ", %%y%d: buffer<%dxf32>", i, N);
    at += sprintf(at, ") attributes {outputs = %d} {\n", N_FUNCTIONS);
    for (int i = 0; i < N_FUNCTIONS; i++)
        at += sprintf(at, "  call @k%d(%%x, %%y%d)\n", i, i);
    sprintf(at, "  return\n}\n");
    return text;
}

static void measure(const char *cpu, int lanes)
{
    tw_context *ctx = new_context();
    char *text = unary_module(lanes);
    tw_interp_buffer args[N_FUNCTIONS + 1];
    for (int i = 0; i <= N_FUNCTIONS; i++)
        args[i] = (tw_interp_buffer){malloc(N * sizeof(float)), N * sizeof(float)};
    float *x = args[0].data;
    fill_samples(x);
    run_compiled(ctx, parse_module(ctx, text), cpu, 2, args);
    for (int f = 0; f < N_FUNCTIONS; f++) {
        const float *y = args[f + 1].data;
        double worst = 0;
        float where = 0;
        for (int i = 0; i < N; i++) {
            double e = error_in_ulps(y[i], functions[f].exact(x[i]));
            if (e > worst) {
                worst = e;
                where = x[i];
            }
        }
        if (getenv("TILEWRIGHT_TEST_VERBOSE"))
            printf("%s, %d lanes: %s: %.3f ulp at %.9g\n", cpu, lanes, functions[f].name, worst,
                   where);
        if (worst > functions[f].ulps)
            fail_msg("%s, %d lanes: %s is off by %.3g units at %.9g", cpu, lanes, functions[f].name,
                     worst, where);
    }
    for (int i = 0; i <= N_FUNCTIONS; i++)
        free(args[i].data);
    free(text);
    tw_context_destroy(ctx);
}

static void with_fma(void **state)
{
    (void)state;
    measure("x86-64-v3", 8);
    measure("host", 16);
}

static void without_fma(void **state)
{
    (void)state;
    measure("x86-64-v2", 4);
}

/* ---- pow ---- */

enum { BASES = 512, POWERS = 256 };

static void powers(void **state)
{
    (void)state;
    static const char text[] =
        "loop.kernel @k(%x: buffer<512xf32>, %y: buffer<256xf32>, %z: buffer<512x256xf32>)"
        " attributes {outputs = 1} {\n"
        "  loop.for %i = 0 to 512 {\n"
        "    loop.for %j = 0 to 256 step 8 {\n"
        "      %r = loop.ramp %j : vec<8xindex>\n"
        "      %a = loop.load %x[%i] : f32\n"
        "      %b = loop.load %y[%r] : vec<8xf32>\n"
        "      %v = loop.broadcast %a : vec<8xf32>\n"
        "      %p = loop.pow %v, %b : vec<8xf32>\n"
        "      loop.store %p, %z[%i, %r]\n"
        "    }\n"
        "  }\n"
        "}\n"
        "func @main(%x: buffer<512xf32>, %y: buffer<256xf32>, %z: buffer<512x256xf32>)"
        " attributes {outputs = 1} {\n"
        "  call @k(%x, %y, %z)\n"
        "  return\n"
        "}\n";
    static const float special[] = {0,       -0.0f, 1,     -1,       2,         -2,  3,
                                    -3,      0.5f,  -0.5f, INFINITY, -INFINITY, NAN, 1e-40f,
                                    -1e-40f, 1e30f, -7,    33554431, -16777215, 0.3f};
    enum { SPECIAL = sizeof special / sizeof *special };
    static float x[BASES], y[POWERS], z[BASES][POWERS];
    for (int i = 0; i < BASES; i++)
        x[i] = i < SPECIAL ? special[i] : float_of((uint32_t)i * 8388593u);
    for (int i = 0; i < POWERS; i++)
        y[i] = i < SPECIAL ? special[i] : (float)((i % 64) - 32) * (i % 3 ? 0.37f : 1.0f);
    tw_interp_buffer args[] = {{x, sizeof x}, {y, sizeof y}, {z, sizeof z}};
    static const char *const cpus[] = {"x86-64", "x86-64-v3", "host"};
    for (int c = 0; c < 3; c++) {
        tw_context *ctx = new_context();
        run_compiled(ctx, parse_module(ctx, text), cpus[c], 2, args);
        for (int i = 0; i < BASES; i++)
            for (int j = 0; j < POWERS; j++) {
                double exact = pow((double)x[i], (double)y[j]);
                double e = error_in_ulps(z[i][j], exact);
                if (e > 1 || (exact == 0 && !signbit(exact) != !signbit(z[i][j])))
                    fail_msg("%s: %.9g ^ %.9g is %.9g, not %.9g", cpus[c], x[i], y[j], z[i][j],
                             exact);
            }
        tw_context_destroy(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_fma),
        cmocka_unit_test(without_fma),
        cmocka_unit_test(powers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
