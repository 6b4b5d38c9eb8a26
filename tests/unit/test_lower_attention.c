/* Tests of lowering attention: against softmax(q k^T) v written out here, and what is special. */
#include "lower_check.h"

typedef struct sizes {
    int b, h, g, n, m, d, e;
    bool rows_first, softcap;
    double fill; /* NAN: the attribute is left out */
    bool is_causal;
    int causal;
} sizes;

static const double *element(const double *x, int b, int head, int heads, int row, int rows,
                             int width)
{
    return x + (((long)b * heads + head) * rows + row) * width;
}

/* One row of the result; `bits` and `bias` are [M, N]. */
static void one_row(const sizes *s, int b, int h, int i, const double *const *in, double *out)
{
    double *score = zeros(s->m), largest = -INFINITY, sum = 0;
    int g = h / (s->h / s->g);
    const double *q = element(in[0], b, h, s->h, i, s->n, s->d);
    for (int j = 0; j < s->m; j++) {
        const double *k = element(in[1], b, g, s->g, j, s->m, s->d);
        for (int x = 0; x < s->d; x++)
            score[j] += q[x] * k[x] * 0.5;
        if (s->softcap)
            score[j] = 2 * tanh(score[j] / 2);
        if (in[3][(long)j * s->n + i] == 0)
            score[j] = isnan(s->fill) ? -INFINITY : s->fill;
        score[j] += in[4][(long)j * s->n + i];
        if (s->is_causal && j > i + s->causal)
            score[j] = -INFINITY;
        largest = score[j] > largest || isnan(score[j]) ? score[j] : largest;
    }
    for (int j = 0; j < s->m; j++)
        sum += exp(score[j] - largest);
    for (int y = 0; y < s->e; y++) {
        out[y] = 0;
        for (int j = 0; j < s->m; j++)
            out[y] += exp(score[j] - largest) / sum * element(in[2], b, g, s->g, j, s->m, s->e)[y];
    }
    free(score);
}

static void check_attention(const sizes *s, const double *const *in)
{
    char text[1024], fill[40] = "", causal[40] = "";
    int results = s->b * s->h * s->n * s->e;
    double *want = zeros(results);
    for (int b = 0; b < s->b; b++)
        for (int h = 0; h < s->h; h++)
            for (int i = 0; i < s->n; i++) {
                long row = s->rows_first ? ((long)b * s->n + i) * s->h + h
                                         : ((long)b * s->h + h) * s->n + i;
                one_row(s, b, h, i, in, want + row * s->e);
            }
    if (!isnan(s->fill))
        snprintf(fill, sizeof fill, ", fill = %.1f", s->fill);
    if (s->is_causal)
        snprintf(causal, sizeof causal, ", causal = [%d]", s->causal);
    snprintf(text, sizeof text,
             "(%%q: tensor<%dx%dx%dx%dxf32>, %%k: tensor<%dx%dx%dx%dxf32>,"
             " %%v: tensor<%dx%dx%dx%dxf32>, %%m: tensor<%dx%dxbool>, %%a: tensor<1x1x%dx%dxf32>)"
             " -> tensor<%dx%dx%dx%dxf32> {"
             " %%0 = graph.attention %%q, %%k, %%v, %%m, %%a {scale = 0.5%s%s%s%s}"
             " : tensor<%dx%dx%dx%dxf32> return %%0 }",
             s->b, s->h, s->n, s->d, s->b, s->g, s->m, s->d, s->b, s->g, s->m, s->e, s->m, s->n,
             s->m, s->n, s->b, s->rows_first ? s->n : s->h, s->rows_first ? s->h : s->n, s->e,
             s->softcap ? ", softcap = 2.0" : "", fill, s->rows_first ? ", rows_first = true" : "",
             causal, s->b, s->rows_first ? s->n : s->h, s->rows_first ? s->h : s->n, s->e);
    check_values(text, in, (const double *[]){want}, 1e-5);
    free(want);
}

typedef struct inputs {
    double *x[5];
} inputs;

static inputs make_inputs(const sizes *s)
{
    inputs in = {{some_numbers(s->b * s->h * s->n * s->d, 1),
                  some_numbers(s->b * s->g * s->m * s->d, 2),
                  some_numbers(s->b * s->g * s->m * s->e, 3), some_numbers(s->m * s->n, 4),
                  some_numbers(s->m * s->n, 5)}};
    for (int i = 0; i < s->m * s->n; i++)
        in.x[3][i] = i < s->n || in.x[3][i] > -0.5; /* the first key is there for all */
    return in;
}

static void free_inputs(inputs *in)
{
    for (int i = 0; i < 5; i++)
        free(in->x[i]);
}

static void sizes_of_all_kinds(void **state)
{
    (void)state;
    static const sizes cases[] = {
        {1, 1, 1, 1, 1, 1, 1, false, false, NAN, false, 0},
        {2, 4, 2, 5, 7, 3, 2, true, false, NAN, false, 0},
        {1, 2, 2, 33, 20, 4, 5, false, true, -3.0, false, 0},
        {1, 3, 1, 49, 49, 8, 8, true, false, -1e4, false, 0},
        {1, 1, 1, 17, 300, 2, 3, false, false, NAN, false, 0},
        {2, 2, 1, 20, 257, 3, 4, true, true, NAN, false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        inputs in = make_inputs(&cases[i]);
        check_attention(&cases[i], (const double *const *)in.x);
        free_inputs(&in);
    }
}

/* Key j for query i iff j <= i + causal: in one tile, in several, with rows of queries that meet
 * all keys, or none. */
static void causal(void **state)
{
    (void)state;
    static const sizes cases[] = {
        {2, 4, 2, 5, 7, 3, 2, true, false, NAN, true, 0},
        {1, 2, 1, 33, 20, 4, 5, false, true, NAN, true, 2},
        {1, 2, 2, 70, 70, 2, 3, false, false, NAN, true, 0},
        {1, 4, 2, 20, 300, 2, 3, true, false, -2.0, true, 280},
        {1, 1, 1, 200, 130, 2, 2, false, false, NAN, true, 0},
        {1, 1, 1, 90, 200, 2, 2, false, false, NAN, true, 64},
        {1, 1, 1, 100, 100, 2, 2, false, false, NAN, true, -70}, /* rows of NaN */
        {1, 1, 1, 20, 90, 2, 2, false, false, NAN, true, -100},  /* nothing else */
        {1, 1, 1, 20, 90, 2, 2, false, false, NAN, true, 1000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        inputs in = make_inputs(&cases[i]);
        check_attention(&cases[i], (const double *const *)in.x);
        free_inputs(&in);
    }
}

/* Rows without keys, NaN and infinities, in the first, a later, or all tiles of keys. */
static void special_rows(void **state)
{
    (void)state;
    static const int keys[] = {20, 300};
    for (int k = 0; k < 2; k++) {
        sizes s = {1, 1, 1, 6, keys[k], 2, 2, false, false, NAN, false, 0};
        inputs in = make_inputs(&s);
        for (int j = 0; j < s.m; j++) {
            in.x[3][j * s.n] = 0;                /* row 0: no key at all */
            in.x[3][j * s.n + 1] = j == s.m - 1; /* row 1: the last alone */
            in.x[4][j * s.n + 2] = -3e38;        /* row 2: equally low: uniform */
            in.x[3][j * s.n + 2] = 1;
            in.x[4][j * s.n + 3] = j == s.m / 2 ? INFINITY : 0; /* row 3: +inf among them */
            in.x[3][j * s.n + 3] = 1;
        }
        in.x[0][4 * s.d] = NAN; /* row 4 */
        check_attention(&s, (const double *const *)in.x);
        free_inputs(&in);
    }
}

static void no_keys(void **state)
{
    (void)state;
    check3("(%q: tensor<1x1x2x3xf32>, %k: tensor<1x1x0x3xf32>, %v: tensor<1x1x0x2xf32>)"
           " -> tensor<1x1x2x2xf32> { %0 = graph.attention %q, %k, %v {scale = 1.0}"
           " : tensor<1x1x2x2xf32> return %0 }",
           VALUES(1, 2, 3, 4, 5, 6), VALUES(0), VALUES(0), VALUES(0, 0, 0, 0), 0);
}

/* Scores and sums are in f32: 300 equal weights are 1 / 300 each. */
static void narrow_elements(void **state)
{
    (void)state;
    double *zero = zeros(300), *value = zeros(300);
    for (int i = 0; i < 300; i++)
        value[i] = i % 2 ? 3 : 1;
    check3("(%q: tensor<1x1x1x1xf16>, %k: tensor<1x1x300x1xf16>, %v: tensor<1x1x300x1xf16>)"
           " -> tensor<1x1x1x1xf16> { %0 = graph.attention %q, %k, %v {scale = 1.0}"
           " : tensor<1x1x1x1xf16> return %0 }",
           VALUES(1), zero, value, VALUES(2), 0);
    free(zero);
    free(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_of_all_kinds), cmocka_unit_test(causal),
        cmocka_unit_test(special_rows),       cmocka_unit_test(no_keys),
        cmocka_unit_test(narrow_elements),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
