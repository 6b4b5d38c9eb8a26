/* test_codegen_basic.c: loops, loads, stores, conditions and buffers, compiled and interpreted. */
#include "codegen_harness.h"

static const char *const cpus[] = {"x86-64", "x86-64-v3", "host"};
enum { N_CPUS = sizeof cpus / sizeof *cpus };

/* Runs the module's @main on float buffers both ways, at all levels, and compares outputs exactly.
 */
typedef struct setup {
    const char *text;
    unsigned n, outputs; /* arguments of @main */
    size_t elements[6];
} setup;

static float input_value(unsigned arg, size_t i)
{
    return (float)((i * 37 + arg * 11) % 64) - 20.5f;
}

static void check(const setup *s)
{
    tw_context *ctx = new_context();
    tw_op *module = parse_module(ctx, s->text);
    tw_interp_buffer expected[6], actual[6];
    for (unsigned i = 0; i < s->n; i++) {
        size_t size = s->elements[i] * sizeof(float);
        float *e = malloc(size + 4), *a = malloc(size + 4);
        for (size_t k = 0; k < s->elements[i]; k++)
            e[k] = a[k] = i < s->n - s->outputs ? input_value(i, k) : -1;
        expected[i] = (tw_interp_buffer){e, size};
        actual[i] = (tw_interp_buffer){a, size};
    }
    run_interpreted(ctx, module, expected, s->n);
    for (unsigned c = 0; c < N_CPUS; c++)
        for (unsigned level = 0; level <= 2; level += 2) {
            for (unsigned i = s->n - s->outputs; i < s->n; i++)
                memset(actual[i].data, 0xff, actual[i].size);
            run_compiled(ctx, module, cpus[c], level, actual);
            for (unsigned i = 0; i < s->n; i++)
                for (size_t k = 0; k < s->elements[i]; k++) {
                    float e = ((float *)expected[i].data)[k], a = ((float *)actual[i].data)[k];
                    if (memcmp(&e, &a, sizeof e) != 0)
                        fail_msg("%s -O%u: argument %u, element %zu: %g instead of %g", cpus[c],
                                 level, i, k, a, e);
                }
        }
    for (unsigned i = 0; i < s->n; i++) {
        free(expected[i].data);
        free(actual[i].data);
    }
    tw_context_destroy(ctx);
}

static void add_scalars(void **state)
{
    (void)state;
    check(&(setup){.text = "loop.kernel @k(%X: buffer<5x7xf32>, %Y: buffer<7xf32>,\n"
                           "               %Z: buffer<5x7xf32>) attributes {outputs = 1} {\n"
                           "  loop.for %i = 0 to 5 {\n"
                           "    loop.for %j = 0 to 7 {\n"
                           "      %x = loop.load %X[%i, %j] : f32\n"
                           "      %y = loop.load %Y[6 - %j] : f32\n"
                           "      %z = loop.add %x, %y : f32\n"
                           "      loop.store %z, %Z[%i, %j]\n"
                           "    }\n"
                           "  }\n"
                           "}\n"
                           "func @main(%x: buffer<5x7xf32>, %y: buffer<7xf32>,\n"
                           "           %z: buffer<5x7xf32>) attributes {outputs = 1} {\n"
                           "  call @k(%x, %y, %z)\n"
                           "  return\n"
                           "}\n",
                   .n = 3,
                   .outputs = 1,
                   .elements = {35, 7, 35}});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(add_scalars),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
