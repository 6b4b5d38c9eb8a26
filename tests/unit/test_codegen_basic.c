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

/* @main that passes its arguments on to @k. */
#define MAIN(types, args, outputs)                                                                 \
    "func @main(" types ") attributes {outputs = " outputs "} {\n  call @k(" args ")\n  "          \
    "return\n}\n"

static void scalars(void **state)
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
                           "}\n" MAIN("%x: buffer<5x7xf32>, %y: buffer<7xf32>, "
                                      "%z: buffer<5x7xf32>",
                                      "%x, %y, %z", "1"),
                   .n = 3,
                   .outputs = 1,
                   .elements = {35, 7, 35}});
}

/* Buffers of rank 0, loops without iterations, bounds that depend on outer variables. */
static void corners(void **state)
{
    (void)state;
    check(&(setup){.text = "loop.kernel @k(%X: buffer<f32>, %Y: buffer<6x6xf32>) attributes"
                           " {outputs = 1} {\n"
                           "  %x = loop.load %X[] : f32\n"
                           "  loop.for %i = 0 to 6 {\n"
                           "    loop.for %j = 0 to 6 {\n"
                           "      loop.store %x, %Y[%i, %j]\n"
                           "    }\n"
                           "    loop.for %j = 3 to 3 {\n"
                           "      loop.store %x, %Y[100, %j]\n"
                           "    }\n"
                           "    %two = loop.const {value = 2.0} : f32\n"
                           "    loop.for %j = %i to min(%i + 2, 6) {\n"
                           "      loop.store %two, %Y[%i, %j]\n"
                           "    }\n"
                           "    loop.for %j = 0 to %i - 2 step 2 {\n"
                           "      %y = loop.load %Y[%j, %i] : f32\n"
                           "      %z = loop.mul %y, %two : f32\n"
                           "      loop.store %z, %Y[%i, %j]\n"
                           "    }\n"
                           "  }\n"
                           "}\n" MAIN("%x: buffer<f32>, %y: buffer<6x6xf32>", "%x, %y", "1"),
                   .n = 2,
                   .outputs = 1,
                   .elements = {1, 36}});
}

/* floordiv, ceildiv, mod, min, max of scalars, below and above 0, powers of two and not. */
static void divisions(void **state)
{
    (void)state;
    check(&(setup){.text = "loop.kernel @k(%X: buffer<64xf32>, %Y: buffer<8x40xf32>) attributes"
                           " {outputs = 1} {\n"
                           "  loop.for %i = -20 to 20 {\n"
                           "    %a = loop.load %X[%i floordiv 8 + 3] : f32\n"
                           "    loop.store %a, %Y[0, %i + 20]\n"
                           "    %b = loop.load %X[%i floordiv 7 + 3] : f32\n"
                           "    loop.store %b, %Y[1, %i + 20]\n"
                           "    %c = loop.load %X[%i ceildiv 6 + 4] : f32\n"
                           "    loop.store %c, %Y[2, %i + 20]\n"
                           "    %d = loop.load %X[%i mod 8] : f32\n"
                           "    loop.store %d, %Y[3, %i + 20]\n"
                           "    %e = loop.load %X[%i mod 5] : f32\n"
                           "    loop.store %e, %Y[4, %i + 20]\n"
                           "    %f = loop.load %X[min(max(%i * 3, -10), 11) + 10] : f32\n"
                           "    loop.store %f, %Y[5, %i + 20]\n"
                           "    %g = loop.load %X[(%i * 16 + 37) floordiv 16 + 20] : f32\n"
                           "    loop.store %g, %Y[6, %i + 20]\n"
                           "    %h = loop.load %X[(%i * 6 + 41) mod 12] : f32\n"
                           "    loop.store %h, %Y[7, %i + 20]\n"
                           "  }\n"
                           "}\n" MAIN("%x: buffer<64xf32>, %y: buffer<8x40xf32>", "%x, %y", "1"),
                   .n = 2,
                   .outputs = 1,
                   .elements = {64, 320}});
}

/* Vector accesses: neighbours, reversed, strided, gathered, one for all. */
static void vector_accesses(void **state)
{
    (void)state;
    check(&(setup){
        .text = "loop.kernel @k(%X: buffer<4x80xf32>, %Y: buffer<10x16xf32>) attributes"
                " {outputs = 1} {\n"
                "  loop.for %i = 0 to 16 step 8 {\n"
                "    %r = loop.ramp %i : vec<8xindex>\n"
                "    %a = loop.load %X[1, %r + 3] : vec<8xf32>\n"
                "    loop.store %a, %Y[0, %r]\n"
                "    %b = loop.load %X[1, 40 - %r] : vec<8xf32>\n"
                "    loop.store %b, %Y[1, 15 - %r]\n"
                "    %c = loop.load %X[2, %r * 2 + 1] : vec<8xf32>\n"
                "    loop.store %c, %Y[2, %r]\n"
                "    %d = loop.load %X[3, %r * 3 + 34] : vec<8xf32>\n" /* up to the last element */
                "    loop.store %d, %Y[3, %r]\n"
                "    %e = loop.load %X[0, %r * 4 + 3] : vec<8xf32>\n"
                "    loop.store %e, %Y[4, %r]\n"
                "    %f = loop.load %X[%r floordiv 4, 7] : vec<8xf32>\n" /* 64 apart and alike */
                "    loop.store %f, %Y[5, %r]\n"
                "    %g = loop.load %X[%r mod 3, %r floordiv 5] : vec<8xf32>\n"
                "    loop.store %g, %Y[6, %r]\n"
                "    %h = loop.load %X[0, %i + %r - %r] : vec<8xf32>\n"
                "    loop.store %h, %Y[7, %r]\n"
                "    %k = loop.load %X[0, min(%r, 11)] : vec<8xf32>\n"
                "    loop.store %k, %Y[(%r + 8) floordiv 8 * 0 + 8, %r]\n"
                "    %l = loop.load %X[0, %r * 5] : vec<8xf32>\n"
                "    loop.store %l, %Y[9, (%r * 3) mod 16]\n"
                "  }\n"
                "}\n" MAIN("%x: buffer<4x80xf32>, %y: buffer<10x16xf32>", "%x, %y", "1"),
        .n = 2,
        .outputs = 1,
        .elements = {320, 160}});
}

/* Masks: decided, the same in all lanes, tails from both ends, others. */
static void masks(void **state)
{
    (void)state;
    check(&(setup){
        .text =
            "loop.kernel @k(%X: buffer<13xf32>, %Y: buffer<10x24xf32>) attributes {outputs = 1} {\n"
            "  %z = loop.const {value = -3.0} : f32\n"
            "  loop.for %i = 0 to 24 {\n"
            "    %a = loop.load %X[%i - 2] where (%i - 2, 14 - %i) else %z : f32\n"
            "    loop.store %a, %Y[0, %i]\n"
            "    loop.for %r = 1 to 10 {\n"
            "      loop.store %z, %Y[%r, %i]\n"
            "    }\n"
            "  }\n"
            "  loop.for %i = 0 to 13 {\n"
            "    %b = loop.load %X[%i] where (%i) else %z : f32\n"
            "    %n = loop.load %X[%i] where (-1 - %i) else %b : f32\n"
            "    loop.store %n, %Y[1, %i] where (7 - %i, %i - 2)\n"
            "  }\n"
            "  %v = loop.const {value = 0.5} : vec<8xf32>\n"
            "  loop.for %i = 0 to 24 step 8 {\n"
            "    %r = loop.ramp %i : vec<8xindex>\n"
            "    %a = loop.load %X[%r] where (12 - %r) else %v : vec<8xf32>\n"
            "    loop.store %a, %Y[2, %r]\n"
            "    %b = loop.load %X[%r - 3] where (%r - 3, 15 - %r) else %v : vec<8xf32>\n"
            "    loop.store %b, %Y[3, %r] where (19 - %r, %r - 1)\n"
            "    %c = loop.load %X[%r - 8] where (%i - 8, 8 - %i) else %v : vec<8xf32>\n"
            "    loop.store %c, %Y[4, %r] where (8 - %i)\n"
            "    %d = loop.load %X[%r * 2] where (6 - %r) else %v : vec<8xf32>\n"
            "    loop.store %d, %Y[5, 23 - %r] where (%r - 2)\n"
            "    %e = loop.load %X[12 - %r] where (12 - %r) else %v : vec<8xf32>\n"
            "    loop.store %e, %Y[6, %r] where (20 - %r * 2)\n"
            "    %f = loop.load %X[%i floordiv 8] where (17 - %r) else %v : vec<8xf32>\n"
            "    loop.store %f, %Y[7, %r]\n"
            "    %g = loop.load %X[%r mod 5] where (%r mod 3 - 1) else %v : vec<8xf32>\n"
            "    loop.store %g, %Y[8, (%r * 5) mod 24] where (%r mod 4 - 1)\n"
            "    %h = loop.load %X[%r * 2 - 1] where (%i - 1, -1 + %i * 0 - 5) else %v"
            " : vec<8xf32>\n"
            "    loop.store %h, %Y[9, %r]\n"
            "  }\n"
            "}\n" MAIN("%x: buffer<13xf32>, %y: buffer<10x24xf32>", "%x, %y", "1"),
        .n = 2,
        .outputs = 1,
        .elements = {13, 240}});
}

/* Constant masks: first lanes of a run, others; on the stack and outside; seen and unseen lanes. */
static void short_vectors(void **state)
{
    (void)state;
    check(&(setup){
        .text = "loop.kernel @k(%X: buffer<4x40xf32>, %Y: buffer<8x40xf32>) attributes"
                " {outputs = 1} {\n"
                "  %c0 = loop.const {value = 0} : index\n"
                "  %r = loop.ramp %c0 : vec<16xindex>\n"
                "  %q = loop.ramp %c0 : vec<16xindex>\n"
                "  %v = loop.const {value = -2.0} : vec<16xf32>\n"
                "  %one = loop.const {value = 1.0} : f32\n"
                "  %T = loop.alloc : buffer<3x15xf32, \"local\">\n"
                "  loop.for %i = 0 to 8 {\n"
                "    loop.for %j = 0 to 40 {\n"
                "      loop.store %one, %Y[%i, %j]\n"
                "    }\n"
                "  }\n"
                "  %a = loop.load %X[0, %r] where (7 - %r) else %v : vec<16xf32>\n"
                "  loop.store %a, %Y[0, %r]\n" /* all lanes are seen */
                "  loop.store %v, %T[0, %r] where (14 - %r)\n"
                "  loop.store %v, %T[1, %r] where (14 - %q)\n"
                "  loop.for %k = 0 to 4 {\n"
                "    %b = loop.load %X[%k, %r] where (14 - %r) else %v : vec<16xf32>\n"
                "    %t = loop.load %T[0, %q] where (14 - %q) else %v : vec<16xf32>\n"
                "    %x = loop.load %X[%k, 39] where (14 - %r) else %v : vec<16xf32>\n"
                "    %m = loop.mul %b, %x : vec<16xf32>\n"
                "    %s = loop.add %m, %t : vec<16xf32>\n"
                "    loop.store %s, %T[0, %r] where (14 - %r)\n"
                "    %u = loop.load %T[1, %q] where (14 - %q) else %v : vec<16xf32>\n"
                "    %w = loop.add %u, %b : vec<16xf32>\n"
                "    loop.store %w, %T[1, %r] where (14 - %r)\n"
                "    %z = loop.reduce_lanes %w {op = \"max\"} : f32\n" /* sees them all */
                "    loop.store %z, %Y[7, %k]\n"
                "  }\n"
                "  %d = loop.load %T[0, %r] where (14 - %r) else %v : vec<16xf32>\n"
                "  loop.store %d, %Y[1, %r + 3] where (11 - %r)\n" /* 12 of the 15 */
                "  loop.store %d, %Y[2, %r] where (14 - %r)\n"
                "  loop.store %d, %Y[3, %r + 1]\n"
                "  %e = loop.load %T[1, %r] where (%r - 3, 9 - %r) else %v : vec<16xf32>\n"
                "  loop.store %e, %Y[4, %r] where (%r - 3, 9 - %r)\n"
                "  loop.store %e, %Y[5, %r * 2] where (3 - %r)\n"
                "  %g = loop.load %X[2, 20 - %r] where (7 - %r) else %v : vec<16xf32>\n"
                "  loop.store %g, %Y[6, 30 - %r] where (8 - %r)\n"
                "  %p = loop.load %X[1, %r * 5 + 4] where (6 - %r) else %v : vec<16xf32>\n"
                "  loop.store %p, %Y[6, %r]\n"
                "  %n = loop.load %X[%r * 2 - 2, 7] where (%r - 1, 2 - %r) else %v : vec<16xf32>\n"
                "  loop.store %n, %Y[5, %r + 8] where (%r - 1, 2 - %r)\n"
                "  loop.for %i = 0 to 2 {\n"
                "    %h = loop.load %X[%i, %r + 36] where (3 - %r, %i - 1) else %v : vec<16xf32>\n"
                "    loop.store %h, %Y[7, %r + 10 + %i * 8] where (3 - %r)\n"
                "  }\n"
                "}\n" MAIN("%x: buffer<4x40xf32>, %y: buffer<8x40xf32>", "%x, %y", "1"),
        .n = 2,
        .outputs = 1,
        .elements = {160, 320}});
}

/* Buffers on the stack, from the host, in the arena; views; constants; conditions. */
static void buffers(void **state)
{
    (void)state;
    check(&(setup){
        .text =
            "loop.kernel @k(%X: buffer<4x8xf32>, %Y: buffer<32xf32>) attributes {outputs = 1} {\n"
            "  %T = loop.alloc : buffer<2x8xf32, \"local\">\n"
            "  %B = loop.alloc : buffer<40000xf32>\n"
            "  %V = loop.view %X {offset = 8} : buffer<3x4x2xf32>\n"
            "  %C = loop.constant_buffer {value = dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>}"
            " : buffer<4xf32>\n"
            "  loop.for %i = 0 to 4 {\n"
            "    %c = loop.load %C[%i] : f32\n"
            "    loop.for %j = 0 to 8 {\n"
            "      %x = loop.load %X[%i, %j] : f32\n"
            "      %p = loop.mul %x, %c : f32\n"
            "      loop.store %p, %T[%i mod 2, %j]\n"
            "      loop.store %p, %B[%i * 9000 + %j]\n"
            "      loop.if (2 - %i) {\n"
            "        %v = loop.load %V[%i, %j floordiv 2, %j mod 2] : f32\n"
            "        loop.store %v, %Y[%i * 8 + %j]\n"
            "      } else {\n"
            "        %v = loop.load %B[9000 + %j] : f32\n"
            "        %t = loop.load %T[0, %j] : f32\n"
            "        %s = loop.add %v, %t : f32\n"
            "        loop.store %s, %Y[%i * 8 + %j]\n"
            "      }\n"
            "    }\n"
            "  }\n"
            "}\n"
            "func @main(%x: buffer<4x8xf32>, %y: buffer<32xf32>, %z: buffer<32xf32>) attributes"
            " {outputs = 2} {\n"
            "  %a = loop.alloc {offset = 128} : buffer<32xf32>\n"
            "  %v = loop.view %a : buffer<4x8xf32>\n"
            "  call @k(%x, %a)\n"
            "  call @k(%v, %y)\n"
            "  call @k(%x, %z)\n"
            "  return\n"
            "}\n",
        .n = 3,
        .outputs = 2,
        .elements = {32, 32, 32}});
}

/* Indices that are data; loops over them; index arithmetic; reductions over lanes. */
static void computed_indices(void **state)
{
    (void)state;
    check(&(setup){
        .text =
            "loop.kernel @k(%X: buffer<64xf32>, %Y: buffer<5x16xf32>) attributes {outputs = 1} {\n"
            "  %zero = loop.const {value = 0.0} : f32\n"
            "  loop.for %i = 0 to 5 {\n"
            "    loop.for %j = 0 to 16 {\n"
            "      loop.store %zero, %Y[%i, %j]\n"
            "    }\n"
            "  }\n"
            "  loop.for %i = 0 to 16 {\n"
            "    %x = loop.load %X[%i] : f32\n"
            "    %a = loop.abs %x : f32\n"
            "    %n = loop.cast %a : index\n"
            "    %g = loop.load %X[%n] : f32\n"
            "    loop.store %g, %Y[0, %i]\n"
            "    %two = loop.const {value = 2} : index\n"
            "    %m = loop.add %n, %two : index\n"
            "    %d = loop.mul %m, %two : index\n"
            "    %e = loop.sub %d, %m : index\n"
            "    %h = loop.load %X[%e - 1] : f32\n"
            "    loop.store %h, %Y[1, %i]\n"
            "    %lo = loop.index %n floordiv 4 : index\n"
            "    loop.for_dynamic %lo, %n ({ ^(%k: index):\n"
            "      %s = loop.load %Y[2, %i] : f32\n"
            "      %t = loop.load %X[%k] : f32\n"
            "      %u = loop.add %s, %t : f32\n"
            "      loop.store %u, %Y[2, %i]\n"
            "    })\n"
            "  }\n"
            "  loop.for %i = 0 to 16 step 8 {\n"
            "    %r = loop.ramp %i : vec<8xindex>\n"
            "    %x = loop.load %X[%r] : vec<8xf32>\n"
            "    %a = loop.abs %x : vec<8xf32>\n"
            "    %n = loop.cast %a : vec<8xindex>\n"
            "    %g = loop.load %X[%n] : vec<8xf32>\n"
            "    %h = loop.load %X[(%n * 2 + %r) mod 64] : vec<8xf32>\n"
            "    loop.store %g, %Y[3, %r]\n"
            "    loop.store %h, %Y[4, %r]\n"
            "  }\n"
            "}\n" MAIN("%x: buffer<64xf32>, %y: buffer<5x16xf32>", "%x, %y", "1"),
        .n = 2,
        .outputs = 1,
        .elements = {64, 80}});
}

static void reductions(void **state)
{
    (void)state;
    check(&(setup){
        .text = "loop.kernel @k(%X: buffer<64xf32>, %Y: buffer<8x4xf32>) attributes {outputs = 1}"
                " {\n"
                "  loop.for %i = 0 to 8 {\n"
                "    %r = loop.ramp %i : vec<16xindex>\n"
                "    %x = loop.load %X[%r] : vec<16xf32>\n"
                "    %a = loop.reduce_lanes %x {op = \"add\"} : f32\n"
                "    loop.store %a, %Y[%i, 0]\n"
                "    %b = loop.reduce_lanes %x {op = \"max\"} : f32\n"
                "    loop.store %b, %Y[%i, 1]\n"
                "    %q = loop.ramp %i : vec<7xindex>\n"
                "    %y = loop.load %X[%q] : vec<7xf32>\n"
                "    %c = loop.reduce_lanes %y {op = \"min\"} : f32\n"
                "    loop.store %c, %Y[%i, 2]\n"
                "    %d = loop.reduce_lanes %y {op = \"add\"} : f32\n"
                "    loop.store %d, %Y[%i, 3]\n"
                "  }\n"
                "}\n" MAIN("%x: buffer<64xf32>, %y: buffer<8x4xf32>", "%x, %y", "1"),
        .n = 2,
        .outputs = 1,
        .elements = {64, 32}});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars),    cmocka_unit_test(corners),
        cmocka_unit_test(divisions),  cmocka_unit_test(vector_accesses),
        cmocka_unit_test(masks),      cmocka_unit_test(short_vectors),
        cmocka_unit_test(buffers),    cmocka_unit_test(computed_indices),
        cmocka_unit_test(reductions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
