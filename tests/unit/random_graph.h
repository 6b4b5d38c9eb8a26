/* random_graph.h: seeded random functions of graph operations on small float32 tensors: networks
 * as models have them (convolutions with normalisations, products, reductions, moved data), put
 * together at random. All values are smooth functions of the inputs, so that another order of
 * rounding stays a small difference. */
#ifndef TW_TESTS_RANDOM_GRAPH_H
#define TW_TESTS_RANDOM_GRAPH_H

#include "base/vec.h"
#include "dialect/core/core.h"
#include "dialect/graph/graph.h"
#include "tilewright/ir.h"

#include <string.h>

enum { MAX_ELEMENTS = 600 };

typedef struct random_graph {
    tw_context *ctx;
    tw_arena *arena;
    uint64_t state;
    tw_builder b;
    TW_VEC(tw_value *) values;
} random_graph;

static uint64_t random_bits(random_graph *r)
{
    r->state ^= r->state << 13;
    r->state ^= r->state >> 7;
    r->state ^= r->state << 17;
    return r->state * 0x2545f4914f6cdd1dull >> 16;
}

static unsigned below(random_graph *r, unsigned n)
{
    return (unsigned)(random_bits(r) % n);
}

static int64_t between(random_graph *r, int64_t low, int64_t high)
{
    return low + (int64_t)below(r, (unsigned)(high - low + 1));
}

/* Eighths from low to high: exact sums for a while. */
static float random_float(random_graph *r, int low, int high)
{
    return (float)between(r, low * 8, high * 8) / 8.0f;
}

/* ---- Building ---- */

static tw_type f32(random_graph *r, unsigned rank, const int64_t *dims)
{
    return tw_type_tensor_static(r->ctx, TW_F32, rank, dims);
}

static int64_t elements(const tw_value *v)
{
    int64_t n = 0;
    tw_type_static_count(v->type, &n);
    return n;
}

static int64_t dim(const tw_value *v, unsigned i)
{
    return tw_type_dim(v->type, i);
}

static void dims_of(const tw_value *v, int64_t *dims)
{
    for (unsigned i = 0; i < v->type->rank; i++)
        dims[i] = dim(v, i);
}

/* Keeps the value unless it is too large to be interpreted often. */
static tw_value *keep(random_graph *r, tw_value *v)
{
    if (elements(v) <= MAX_ELEMENTS)
        tw_vec_push(r->arena, &r->values, v);
    return v;
}

static tw_value *constant(random_graph *r, unsigned rank, const int64_t *dims, int low, int high)
{
    tw_type type = f32(r, rank, dims);
    int64_t n = 0;
    tw_type_static_count(type, &n);
    float *data = TW_NEW_ARRAY(r->arena, float, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        data[i] = random_float(r, low, high);
    return tw_graph_constant(&r->b, type, data, (size_t)n * sizeof *data, NULL);
}

static tw_attr ints(random_graph *r, const int64_t *values, unsigned n)
{
    return tw_attr_ints(r->ctx, values, n);
}

#define BUILD(KIND, operands, n, type, ...)                                                        \
    keep(r, tw_graph_build(&r->b, TW_GRAPH_##KIND, operands, n, type, __VA_ARGS__, NULL))
#define NO_ATTR "value", (tw_attr)NULL

static tw_value *any_value(random_graph *r)
{
    return r->values.data[below(r, (unsigned)r->values.len)];
}

/* A value of that rank, or NULL after a few tries. */
static tw_value *value_of_rank(random_graph *r, unsigned low, unsigned high)
{
    for (int i = 0; i < 8; i++) {
        tw_value *v = any_value(r);
        if (v->type->rank >= low && v->type->rank <= high)
            return v;
    }
    return NULL;
}

/* ---- Element-wise ---- */

static void add_unary(random_graph *r)
{
    static const tw_graph_kind kinds[] = {TW_GRAPH_NEG,     TW_GRAPH_ABS,  TW_GRAPH_RELU,
                                          TW_GRAPH_SIGMOID, TW_GRAPH_TANH, TW_GRAPH_SIN,
                                          TW_GRAPH_SILU,    TW_GRAPH_GELU, TW_GRAPH_HARD_SWISH};
    tw_value *x = any_value(r);
    tw_graph_kind kind = kinds[below(r, sizeof kinds / sizeof *kinds)];
    keep(r, tw_graph_build(&r->b, kind, &x, 1, x->type, NULL));
}

/* A second operand that broadcasts with x: another value, a constant of part of the shape, or a
 * number that has a meaning for some operation. */
static tw_value *partner(random_graph *r, tw_value *x)
{
    static const float numbers[] = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, 3.0f, 6.0f};
    if (below(r, 4) == 0) {
        float *number = TW_NEW(r->arena, float);
        *number = numbers[below(r, sizeof numbers / sizeof *numbers)];
        return tw_graph_constant(&r->b, f32(r, 0, NULL), number, sizeof *number, NULL);
    }
    for (int i = 0; i < 6; i++) {
        tw_value *y = any_value(r);
        tw_type type = tw_graph_broadcast_type(r->ctx, x->type, y->type);
        int64_t n;
        if (type && tw_type_static_count(type, &n) && n <= MAX_ELEMENTS)
            return y;
    }
    int64_t dims[TW_MAX_RANK];
    unsigned rank = below(r, x->type->rank + 1), drop = x->type->rank - rank;
    for (unsigned i = 0; i < rank; i++)
        dims[i] = below(r, 2) ? dim(x, drop + i) : 1;
    return constant(r, rank, dims, -2, 2);
}

static void add_binary(random_graph *r)
{
    static const tw_graph_kind kinds[] = {TW_GRAPH_ADD, TW_GRAPH_SUB, TW_GRAPH_MUL, TW_GRAPH_MAX,
                                          TW_GRAPH_MIN, TW_GRAPH_ADD, TW_GRAPH_MUL};
    tw_value *x = any_value(r), *y = partner(r, x);
    tw_graph_kind kind = kinds[below(r, sizeof kinds / sizeof *kinds)];
    tw_value *operands[2] = {below(r, 2) ? x : y, y};
    operands[1] = operands[0] == x ? y : x;
    keep(r, tw_graph_build(&r->b, kind, operands, 2,
                           tw_graph_broadcast_type(r->ctx, x->type, y->type), NULL));
}

/* x / (|y| + 1) */
static void add_quotient(random_graph *r)
{
    tw_value *x = any_value(r);
    tw_value *y = BUILD(ABS, &x, 1, x->type, NO_ATTR);
    tw_value *one = tw_graph_scalar(&r->b, TW_F32, 1.0);
    tw_value *sum = BUILD(ADD, ((tw_value *[]){y, one}), 2, x->type, NO_ATTR);
    tw_value *z = below(r, 2) ? x : one;
    BUILD(DIV, ((tw_value *[]){z, sum}), 2, x->type, NO_ATTR);
}

/* ---- Moving data ---- */

static void add_transpose(random_graph *r)
{
    tw_value *x = value_of_rank(r, 2, 5);
    int64_t perm[TW_MAX_RANK], dims[TW_MAX_RANK];
    if (!x)
        return;
    unsigned rank = x->type->rank;
    for (unsigned i = 0; i < rank; i++)
        perm[i] = i;
    for (unsigned i = rank; i-- > 1;) {
        unsigned k = below(r, i + 1);
        int64_t swap = perm[i];
        perm[i] = perm[k];
        perm[k] = swap;
    }
    for (unsigned i = 0; i < rank; i++)
        dims[i] = dim(x, (unsigned)perm[i]);
    BUILD(TRANSPOSE, &x, 1, f32(r, rank, dims), "perm", ints(r, perm, rank));
}

/* Splits or merges axes, or adds and drops those of size 1. */
static void add_reshape(random_graph *r)
{
    tw_value *x = any_value(r);
    int64_t dims[TW_MAX_RANK];
    unsigned rank = x->type->rank, n = 0;
    for (unsigned i = 0; i < rank; i++) {
        int64_t d = dim(x, i);
        unsigned what = below(r, 4);
        if (what == 0 && n > 0) {
            dims[n - 1] *= d;
        } else if (what == 1 && n < 6 && d % 2 == 0) {
            dims[n++] = 2;
            dims[n++] = d / 2;
        } else if (n < 6) {
            dims[n++] = d;
        } else {
            dims[n - 1] *= d;
        }
    }
    if (below(r, 4) == 0 && n < 6)
        dims[n++] = 1;
    BUILD(RESHAPE, &x, 1, f32(r, n, dims), NO_ATTR);
}

static void add_slice(random_graph *r)
{
    tw_value *x = value_of_rank(r, 1, 5);
    int64_t starts[TW_MAX_RANK], steps[TW_MAX_RANK], dims[TW_MAX_RANK];
    if (!x)
        return;
    unsigned rank = x->type->rank, axis = below(r, rank);
    dims_of(x, dims);
    for (unsigned i = 0; i < rank; i++) {
        starts[i] = 0;
        steps[i] = 1;
    }
    if (dims[axis] > 1) {
        bool back = below(r, 4) == 0;
        steps[axis] = back ? -1 : between(r, 1, 2);
        starts[axis] = back ? dims[axis] - 1 : between(r, 0, dims[axis] - 1);
        dims[axis] = back ? between(r, 1, dims[axis])
                          : (dims[axis] - starts[axis] + steps[axis] - 1) / steps[axis];
    }
    BUILD(SLICE, &x, 1, f32(r, rank, dims), "starts", ints(r, starts, rank), "steps",
          ints(r, steps, rank));
}

/* With itself, a value of the same shape, or a slice. */
static void add_concat(random_graph *r)
{
    tw_value *x = value_of_rank(r, 1, 5), *parts[3];
    int64_t dims[TW_MAX_RANK];
    if (!x)
        return;
    unsigned n = 1 + below(r, 3), axis = below(r, x->type->rank);
    dims_of(x, dims);
    for (unsigned i = 0; i < n; i++) {
        tw_value *y = any_value(r);
        parts[i] = y->type == x->type ? y : x;
    }
    dims[axis] *= n;
    BUILD(CONCAT, parts, n, f32(r, x->type->rank, dims), "axis",
          tw_attr_int(r->ctx, (int64_t)axis));
}

static void add_pad(random_graph *r)
{
    tw_value *x = value_of_rank(r, 1, 5);
    int64_t begin[TW_MAX_RANK], end[TW_MAX_RANK], dims[TW_MAX_RANK];
    if (!x)
        return;
    for (unsigned i = 0; i < x->type->rank; i++) {
        begin[i] = below(r, 3) ? 0 : between(r, 0, 2);
        end[i] = below(r, 3) ? 0 : between(r, 0, 1);
        dims[i] = dim(x, i) + begin[i] + end[i];
    }
    BUILD(PAD, &x, 1, f32(r, x->type->rank, dims), "pads_begin", ints(r, begin, x->type->rank),
          "pads_end", ints(r, end, x->type->rank));
}

static void add_expand(random_graph *r)
{
    tw_value *x = any_value(r);
    int64_t dims[TW_MAX_RANK];
    unsigned rank = x->type->rank, more = rank < 4 ? below(r, 2) : 0;
    if (more)
        dims[0] = between(r, 1, 3);
    for (unsigned i = 0; i < rank; i++)
        dims[more + i] = dim(x, i) == 1 ? between(r, 1, 3) : dim(x, i);
    BUILD(EXPAND, &x, 1, f32(r, rank + more, dims), NO_ATTR);
}

static void add_gather(random_graph *r)
{
    tw_value *x = value_of_rank(r, 1, 4);
    int64_t dims[TW_MAX_RANK], n = between(r, 1, 4);
    if (!x)
        return;
    unsigned axis = below(r, x->type->rank);
    int64_t *indices = TW_NEW_ARRAY(r->arena, int64_t, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        indices[i] = between(r, -dim(x, axis), dim(x, axis) - 1);
    tw_value *index = tw_graph_constant(&r->b, tw_type_tensor_static(r->ctx, TW_I64, 1, &n),
                                        indices, (size_t)n * sizeof *indices, NULL);
    dims_of(x, dims);
    dims[axis] = n;
    BUILD(GATHER, ((tw_value *[]){x, index}), 2, f32(r, x->type->rank, dims), "axis",
          tw_attr_int(r->ctx, (int64_t)axis));
}

/* ---- Reductions ---- */

static void add_reduction(random_graph *r)
{
    static const tw_graph_kind kinds[] = {TW_GRAPH_REDUCE_SUM, TW_GRAPH_REDUCE_MEAN,
                                          TW_GRAPH_REDUCE_MAX, TW_GRAPH_REDUCE_MIN};
    tw_value *x = value_of_rank(r, 1, 5);
    int64_t axes[TW_MAX_RANK], dims[TW_MAX_RANK];
    unsigned n = 0, rank = 0;
    if (!x)
        return;
    bool keepdims = below(r, 2), space = x->type->rank == 4 && below(r, 2);
    for (unsigned i = 0; i < x->type->rank; i++) {
        bool reduced = space ? i >= 2 : below(r, 2);
        if (reduced)
            axes[n++] = i;
        if (!reduced || keepdims)
            dims[rank++] = reduced ? 1 : dim(x, i);
    }
    tw_graph_kind kind = kinds[below(r, sizeof kinds / sizeof *kinds)];
    if (n)
        keep(r, tw_graph_build(&r->b, kind, &x, 1, f32(r, rank, dims), "axes", ints(r, axes, n),
                               "keepdims", tw_attr_bool(r->ctx, keepdims), NULL));
}

static void add_softmax(random_graph *r)
{
    tw_value *x = value_of_rank(r, 1, 4);
    if (x)
        BUILD(SOFTMAX, &x, 1, x->type, "axis",
              tw_attr_int(r->ctx, (int64_t)below(r, x->type->rank)));
}

static void add_layer_norm(random_graph *r)
{
    tw_value *x = value_of_rank(r, 2, 4);
    if (!x)
        return;
    int64_t n = dim(x, x->type->rank - 1);
    tw_value *operands[3] = {x, constant(r, 1, &n, -2, 2), constant(r, 1, &n, -2, 2)};
    BUILD(LAYER_NORM, operands, 1 + below(r, 3), x->type, "axis",
          tw_attr_int(r->ctx, (int64_t)x->type->rank - 1), "epsilon", tw_attr_float(r->ctx, 0.1));
}

/* ---- Networks ---- */

static void add_matmul(random_graph *r)
{
    tw_value *x = value_of_rank(r, 2, 4);
    int64_t dims[TW_MAX_RANK];
    if (!x)
        return;
    unsigned rank = x->type->rank;
    int64_t k = dim(x, rank - 1), n = between(r, 1, 20);
    bool transposed = below(r, 2);
    tw_value *w = constant(r, 2, transposed ? (int64_t[]){n, k} : (int64_t[]){k, n}, -1, 1);
    dims_of(x, dims);
    dims[rank - 1] = n;
    BUILD(MATMUL, ((tw_value *[]){x, w}), 2, f32(r, rank, dims), "transpose_b",
          transposed ? tw_attr_bool(r->ctx, true) : NULL);
}

/* x times its own transpose, as attention does. */
static void add_scores(random_graph *r)
{
    tw_value *x = value_of_rank(r, 2, 4);
    int64_t dims[TW_MAX_RANK], perm[TW_MAX_RANK];
    if (!x)
        return;
    unsigned rank = x->type->rank;
    dims_of(x, dims);
    for (unsigned i = 0; i < rank; i++)
        perm[i] = i < rank - 2 ? i : i == rank - 2 ? rank - 1 : rank - 2;
    dims[rank - 1] = dim(x, rank - 2);
    dims[rank - 2] = dim(x, rank - 1);
    tw_value *t = BUILD(TRANSPOSE, &x, 1, f32(r, rank, dims), "perm", ints(r, perm, rank));
    dims[rank - 2] = dim(x, rank - 2);
    BUILD(MATMUL, ((tw_value *[]){x, t}), 2, f32(r, rank, dims), NO_ATTR);
}

/* [rows, width] as heads of 2: [rows, heads, 2], rows or pairs last. */
static tw_value *heads_of(random_graph *r, tw_value *x, int64_t rows, int64_t k, bool keys)
{
    enum { HEADS = 2, SIZE = 3 };
    tw_value *w = constant(r, 2, (int64_t[]){k, HEADS * SIZE}, -1, 1);
    tw_value *y = BUILD(MATMUL, ((tw_value *[]){x, w}), 2,
                        f32(r, 2, (int64_t[]){rows, HEADS * SIZE}), NO_ATTR);
    if (below(r, 2))
        y = BUILD(ADD, ((tw_value *[]){y, constant(r, 1, (int64_t[]){HEADS * SIZE}, -1, 1)}), 2,
                  y->type, NO_ATTR);
    y = BUILD(RESHAPE, &y, 1, f32(r, 4, (int64_t[]){1, rows, HEADS, SIZE}), NO_ATTR);
    int64_t dims[4] = {1, HEADS, keys ? SIZE : rows, keys ? rows : SIZE};
    return BUILD(TRANSPOSE, &y, 1, f32(r, 4, dims), "perm",
                 ints(r, (int64_t[]){0, 2, keys ? 3 : 1, keys ? 1 : 3}, 4));
}

/* Attention as models spell it out, of a value with at least 8 rows; sometimes used inside. */
static void add_attention(random_graph *r)
{
    tw_value *x = value_of_rank(r, 1, 4);
    int64_t count = 1, rows = 8;
    for (unsigned i = 0; x && i < x->type->rank; i++)
        count *= dim(x, i);
    while (rows <= 40 && count % rows)
        rows++;
    if (!x || count < rows || rows > 40)
        return;
    int64_t k = count / rows;
    x = BUILD(RESHAPE, &x, 1, f32(r, 2, (int64_t[]){rows, k}), NO_ATTR);
    tw_value *q = heads_of(r, x, rows, k, false), *kt = heads_of(r, x, rows, k, true);
    tw_value *v = heads_of(r, x, rows, k, false);
    tw_type scores = f32(r, 4, (int64_t[]){1, 2, rows, rows});
    tw_value *s = BUILD(MATMUL, ((tw_value *[]){q, kt}), 2, scores, NO_ATTR);
    s = BUILD(MUL, ((tw_value *[]){s, tw_graph_scalar(&r->b, TW_F32, 0.5)}), 2, scores, NO_ATTR);
    if (below(r, 2))
        s = BUILD(ADD, ((tw_value *[]){s, constant(r, 2, (int64_t[]){rows, rows}, -2, 2)}), 2,
                  scores, NO_ATTR);
    s = BUILD(SOFTMAX, &s, 1, scores, "axis", tw_attr_int(r->ctx, 3));
    s = BUILD(MATMUL, ((tw_value *[]){s, v}), 2, q->type, NO_ATTR);
    if (below(r, 2))
        BUILD(TRANSPOSE, &s, 1, f32(r, 4, (int64_t[]){1, rows, 2, 3}), "perm",
              ints(r, (int64_t[]){0, 2, 1, 3}, 4));
}

/* Size of the result of a window of `kernel` with stride s and pads p and q. */
static int64_t window(int64_t size, int64_t kernel, int64_t s, int64_t p, int64_t q)
{
    return (size + p + q - kernel) / s + 1;
}

/* A rank-4 value that a kernel of 2 x 2 fits in. */
static tw_value *image(random_graph *r)
{
    tw_value *x = value_of_rank(r, 4, 4);
    return x && dim(x, 2) >= 2 && dim(x, 3) >= 2 ? x : NULL;
}

static tw_value *convolve(random_graph *r, tw_value *x, int64_t out, int64_t groups)
{
    int64_t k[2] = {between(r, 1, 2), between(r, 1, 2)}, s[2] = {between(r, 1, 2), 1};
    int64_t p[2] = {between(r, 0, 1), between(r, 0, 1)}, q[2] = {0, p[1]}, one[2] = {1, 1};
    int64_t dims[4] = {dim(x, 0), out, window(dim(x, 2), k[0], s[0], p[0], q[0]),
                       window(dim(x, 3), k[1], s[1], p[1], q[1])};
    tw_value *w = constant(r, 4, (int64_t[]){out, dim(x, 1) / groups, k[0], k[1]}, -1, 1);
    return BUILD(CONV, ((tw_value *[]){x, w}), 2, f32(r, 4, dims), "strides", ints(r, s, 2),
                 "dilations", ints(r, one, 2), "pads_begin", ints(r, p, 2), "pads_end",
                 ints(r, q, 2), "groups", tw_attr_int(r->ctx, groups));
}

static tw_value *normalise(random_graph *r, tw_value *x)
{
    int64_t c = dim(x, 1);
    tw_value *operands[5] = {x, constant(r, 1, &c, -2, 2), constant(r, 1, &c, -2, 2),
                             constant(r, 1, &c, -1, 1), constant(r, 1, &c, 1, 3)};
    return BUILD(BATCH_NORM, operands, 5, x->type, "epsilon", tw_attr_float(r->ctx, 0.01));
}

/* conv, perhaps bias, perhaps batch_norm, perhaps relu. */
static void add_conv(random_graph *r)
{
    tw_value *x = image(r);
    if (!x)
        return;
    bool depthwise = below(r, 3) == 0;
    int64_t c = dim(x, 1), out = depthwise ? c * between(r, 1, 2) : between(r, 1, 9);
    tw_value *y = convolve(r, x, out, depthwise ? c : 1);
    if (below(r, 2)) {
        tw_value *bias = constant(r, 3, (int64_t[]){out, 1, 1}, -2, 2);
        y = BUILD(ADD, ((tw_value *[]){y, bias}), 2, y->type, NO_ATTR);
    }
    if (below(r, 2))
        y = normalise(r, y);
    if (below(r, 2))
        BUILD(RELU, &y, 1, y->type, NO_ATTR);
}

static void add_batch_norm(random_graph *r)
{
    tw_value *x = value_of_rank(r, 2, 5);
    if (x)
        normalise(r, x);
}

static void add_conv_transpose(random_graph *r)
{
    tw_value *x = image(r);
    if (!x)
        return;
    int64_t two[2] = {2, 2}, one[2] = {1, 1}, none[2] = {0, 0};
    int64_t groups = dim(x, 1) % 2 == 0 && below(r, 2) ? 2 : 1, each = between(r, 1, 3);
    int64_t dims[4] = {dim(x, 0), each * groups, dim(x, 2) * 2, dim(x, 3) * 2};
    tw_value *w = constant(r, 4, (int64_t[]){dim(x, 1), each, 2, 2}, -1, 1);
    tw_value *y =
        BUILD(CONV_TRANSPOSE, ((tw_value *[]){x, w}), 2, f32(r, 4, dims), "strides",
              ints(r, two, 2), "dilations", ints(r, one, 2), "pads_begin", ints(r, none, 2),
              "pads_end", ints(r, none, 2), "groups", tw_attr_int(r->ctx, groups));
    if (below(r, 2))
        normalise(r, y);
}

static void add_pool(random_graph *r)
{
    tw_value *x = image(r);
    if (!x)
        return;
    int64_t two[2] = {2, 2}, one[2] = {1, 1}, none[2] = {0, 0};
    int64_t *s = below(r, 2) ? two : one;
    int64_t dims[4] = {dim(x, 0), dim(x, 1), window(dim(x, 2), 2, s[0], 0, 0),
                       window(dim(x, 3), 2, s[1], 0, 0)};
    tw_graph_kind kind = below(r, 2) ? TW_GRAPH_MAX_POOL : TW_GRAPH_AVG_POOL;
    keep(r, tw_graph_build(&r->b, kind, &x, 1, f32(r, 4, dims), "kernel", ints(r, two, 2),
                           "strides", ints(r, s, 2), "dilations", ints(r, one, 2), "pads_begin",
                           ints(r, none, 2), "pads_end", ints(r, none, 2), NULL));
}

static void add_resize(random_graph *r)
{
    tw_value *x = value_of_rank(r, 4, 4);
    if (!x)
        return;
    int64_t dims[4] = {dim(x, 0), dim(x, 1), dim(x, 2) * 2, dim(x, 3) * 2};
    tw_attr scales[4] = {tw_attr_float(r->ctx, 1), tw_attr_float(r->ctx, 1),
                         tw_attr_float(r->ctx, 2), tw_attr_float(r->ctx, 2)};
    BUILD(RESIZE, &x, 1, f32(r, 4, dims), "scales", tw_attr_array(r->ctx, scales, 4), "mode",
          tw_attr_string(r->ctx, below(r, 2) ? "nearest" : "linear"), "coordinates",
          tw_attr_string(r->ctx, "half_pixel"));
}

static void add_shuffle(random_graph *r)
{
    tw_value *x = value_of_rank(r, 4, 4);
    if (!x || dim(x, 1) % 2)
        return;
    int64_t perm[5] = {0, 2, 1, 3, 4};
    int64_t split[5] = {dim(x, 0), 2, dim(x, 1) / 2, dim(x, 2), dim(x, 3)};
    int64_t turned[5] = {split[0], split[2], split[1], split[3], split[4]};
    tw_value *a = BUILD(RESHAPE, &x, 1, f32(r, 5, split), NO_ATTR);
    tw_value *b = BUILD(TRANSPOSE, &a, 1, f32(r, 5, turned), "perm", ints(r, perm, 5));
    BUILD(RESHAPE, &b, 1, x->type, NO_ATTR);
}

/* ---- Whole functions ---- */

static void add_something(random_graph *r)
{
    static void (*const makers[])(random_graph *r) = {
        add_unary,      add_unary,  add_binary,         add_binary,    add_binary,
        add_quotient,   add_slice,  add_reshape,        add_transpose, add_concat,
        add_pad,        add_expand, add_gather,         add_softmax,   add_reduction,
        add_matmul,     add_scores, add_layer_norm,     add_conv,      add_conv,
        add_batch_norm, add_pool,   add_conv_transpose, add_resize,    add_shuffle,
        add_attention};
    makers[below(r, sizeof makers / sizeof *makers)](r);
}

/* `module { func @main(%0: 1x3x4x5, %1: 2x6, %2: 1x4x3x3) -> … }` with one to four results. */
static tw_op *random_graph_module(tw_context *ctx, uint64_t seed)
{
    random_graph whole = {
        .ctx = ctx, .arena = tw_context_arena(ctx), .state = seed * 0x9e3779b97f4a7c15ull + 1};
    random_graph *r = &whole;
    tw_op *module = tw_core_module(ctx, NULL, NULL);
    r->b = tw_builder_at_end(ctx, tw_core_body(module), NULL);
    tw_type inputs[3] = {f32(r, 4, (int64_t[]){1, 3, 4, 5}), f32(r, 2, (int64_t[]){2, 6}),
                         f32(r, 4, (int64_t[]){1, 4, 3, 3})};
    tw_op *func = tw_core_func(&r->b, "main", tw_type_func(ctx, inputs, 3, NULL, 0), NULL);
    r->b = tw_builder_at_end(ctx, tw_core_body(func), NULL);
    for (unsigned i = 0; i < 3; i++)
        keep(r, tw_core_body(func)->args[i]);
    for (unsigned i = 0, n = 3 + below(r, 15); i < n; i++)
        add_something(r);
    tw_value *results[4];
    unsigned n = 1 + below(r, 4);
    for (unsigned i = 0; i < n; i++)
        results[i] = i ? any_value(r) : r->values.data[r->values.len - 1];
    tw_core_return(&r->b, results, n);
    tw_core_func_update_type(func);
    return module;
}

#endif
