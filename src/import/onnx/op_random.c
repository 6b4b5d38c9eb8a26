/* op_random.c: operators that draw random numbers.
 *
 * Element i of a result is a hash of i and of a key: the same in every run. The key is made of the
 * node's seed or, without one, of the node's position in the model. */
#include "import/onnx/import.h"

#include <math.h>
#include <string.h>

/* ---- Bits ---- */

static tw_value *shifted_xor(tw_gb *g, tw_value *x, double bits)
{
    return tw_gb_binary(g, TW_GRAPH_XOR, x, tw_gb_binary_scalar(g, TW_GRAPH_SHIFT_RIGHT, x, bits));
}

/* The bits of the attribute `seed`, a float or (Dropout) an integer; or the node's number. */
static uint32_t seed_of(tw_onnx_node *n, bool *ok)
{
    const Onnx__AttributeProto *attr = tw_onnx_attr(n, "seed");
    uint32_t bits = (uint32_t)n->im->nodes;
    if (attr && attr->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT)
        return (uint32_t)tw_onnx_int(n, "seed", 0, ok);
    if (attr) {
        float seed = (float)tw_onnx_float(n, "seed", 0, ok);
        memcpy(&bits, &seed, sizeof bits);
    }
    return bits;
}

/* A u32 for each element; `stream` tells several lists of one node apart. */
static tw_value *random_bits(tw_onnx_node *n, unsigned rank, const tw_expr *dims, unsigned stream,
                             bool *ok)
{
    tw_gb *g = n->g;
    uint32_t key = (seed_of(n, ok) ^ 0x85ebca6bu) * 0xc2b2ae35u + stream * 0x27d4eb2fu;
    tw_expr count = tw_gb_product(g, dims, rank);
    tw_value *x =
        tw_gb_binary_scalar(g, TW_GRAPH_MUL, tw_gb_iota(g, TW_U32, 1, &count, 0), 0x9e3779b9u);
    x = tw_gb_binary_scalar(g, TW_GRAPH_ADD, x, key);
    x = tw_gb_binary_scalar(g, TW_GRAPH_MUL, shifted_xor(g, x, 16), 0x7feb352du);
    x = tw_gb_binary_scalar(g, TW_GRAPH_MUL, shifted_xor(g, x, 15), 0x846ca68bu);
    return tw_gb_reshape(g, shifted_xor(g, x, 16), rank, dims);
}

/* f32 numbers in [0, 1). */
static tw_value *uniform(tw_onnx_node *n, unsigned rank, const tw_expr *dims, unsigned stream,
                         bool *ok)
{
    tw_gb *g = n->g;
    tw_value *bits = random_bits(n, rank, dims, stream, ok);
    bits = tw_gb_binary_scalar(g, TW_GRAPH_SHIFT_RIGHT, bits, 8);
    bits = tw_gb_cast(g, tw_gb_cast(g, bits, TW_I32), TW_F32);
    return tw_gb_binary_scalar(g, TW_GRAPH_MUL, bits, 0x1p-24);
}

/* sqrt(-2 ln u) cos(2 pi v), u in (0, 1] */
static tw_value *normal(tw_onnx_node *n, unsigned rank, const tw_expr *dims, bool *ok)
{
    tw_gb *g = n->g;
    tw_value *u = uniform(n, rank, dims, 0, ok), *v = uniform(n, rank, dims, 1, ok);
    u = tw_gb_unary(g, TW_GRAPH_LOG, tw_gb_binary_scalar(g, TW_GRAPH_ADD, u, 0x1p-24));
    u = tw_gb_unary(g, TW_GRAPH_SQRT, tw_gb_binary_scalar(g, TW_GRAPH_MUL, u, -2));
    v = tw_gb_unary(g, TW_GRAPH_COS, tw_gb_binary_scalar(g, TW_GRAPH_MUL, v, 2 * M_PI));
    return tw_gb_binary(g, TW_GRAPH_MUL, u, v);
}

/* ---- Operators ---- */

/* The attribute dtype, or `absent`. */
static bool read_type(tw_onnx_node *n, tw_elem absent, tw_elem *out)
{
    bool ok = true;
    int64_t type = tw_onnx_int(n, "dtype", 0, &ok);
    *out = absent;
    return ok && (!type || (type > 0 && type < 256 && tw_onnx_elem((int32_t)type, out)) ||
                  tw_onnx_error(n, "attribute 'dtype' is %lld", (long long)type));
}

/* The shape of RandomXxx is an attribute, of RandomXxxLike that of the input. */
static bool read_shape(tw_onnx_node *n, unsigned *rank, tw_expr *dims)
{
    bool ok = true;
    size_t count;
    if (n->op->min_in) {
        *rank = n->in[0]->type->rank;
        if (*rank)
            memcpy(dims, n->in[0]->type->dims, *rank * sizeof *dims);
        return true;
    }
    const int64_t *shape = tw_onnx_int_list(n, "shape", &count, &ok);
    if (ok && (!tw_onnx_attr(n, "shape") || count > TW_MAX_RANK))
        return tw_onnx_error(n, "attribute 'shape' has %zu entries", count);
    *rank = (unsigned)count;
    for (unsigned i = 0; ok && i < *rank; i++) {
        if (shape[i] < 0)
            return tw_onnx_error(n, "attribute 'shape' has the entry %lld", (long long)shape[i]);
        dims[i] = tw_gb_const(n->g, shape[i]);
    }
    return ok;
}

/* param 0: uniform in low … high; 1: normal with mean and scale */
bool tw_onnx_op_random(tw_onnx_node *n)
{
    bool ok = true, is_normal = n->op->param;
    tw_gb *g = n->g;
    unsigned rank;
    tw_expr dims[TW_MAX_RANK];
    tw_elem elem;
    double first = tw_onnx_float(n, is_normal ? "mean" : "low", 0, &ok);
    double second = tw_onnx_float(n, is_normal ? "scale" : "high", 1, &ok);
    if (!ok || !read_type(n, n->op->min_in ? n->in[0]->type->elem : TW_F32, &elem) ||
        !read_shape(n, &rank, dims))
        return false;
    tw_value *y = is_normal ? normal(n, rank, dims, &ok) : uniform(n, rank, dims, 0, &ok);
    y = tw_gb_binary_scalar(g, TW_GRAPH_MUL, y, is_normal ? second : second - first);
    y = tw_gb_binary_scalar(g, TW_GRAPH_ADD, y, first);
    return ok && tw_onnx_set(n, 0, tw_gb_cast(g, y, elem));
}

/* 1 with the probability that the input gives. */
bool tw_onnx_op_bernoulli(tw_onnx_node *n)
{
    bool ok = true;
    tw_gb *g = n->g;
    tw_elem elem;
    tw_type x = n->in[0]->type;
    if (!tw_onnx_check_elem(n, 0, TW_ONNX_FLOATS) || !read_type(n, x->elem, &elem))
        return false;
    tw_value *draw = uniform(n, x->rank, x->dims, 0, &ok);
    tw_value *y = tw_gb_binary(g, TW_GRAPH_LESS, draw, tw_gb_cast(g, n->in[0], TW_F32));
    return ok && tw_onnx_set(n, 0, tw_gb_cast(g, y, elem));
}

/* How many of the running sums of the probabilities are at or below the number that was drawn. */
bool tw_onnx_op_multinomial(tw_onnx_node *n)
{
    bool ok = true;
    tw_gb *g = n->g;
    tw_elem elem;
    tw_type x = n->in[0]->type;
    int64_t samples = tw_onnx_int(n, "sample_size", 1, &ok);
    if (!ok || !read_type(n, TW_I32, &elem) || !tw_onnx_check_elem(n, 0, TW_ONNX_FLOATS))
        return false;
    if (x->rank != 2 || samples <= 0 || samples > INT32_MAX)
        return tw_onnx_error(n, "%lld samples of input %s; rank 2 is needed", (long long)samples,
                             tw_gb_type_text(g, x));
    tw_value *p = tw_gb_softmax(g, TW_GRAPH_SOFTMAX, tw_gb_cast(g, n->in[0], TW_F32), 1);
    p = p ? TW_GB_EMIT(g, CUMSUM, &p, 1, p->type, {"axis", tw_attr_int(n->ctx, 1)}) : NULL;
    /* The last sum is 1, whatever rounding made of it. */
    p = tw_gb_slice_axis(g, p, 1, tw_gb_const(g, 0), 1, tw_expr_addc(n->ctx, x->dims[1], -1));
    tw_value *draw = uniform(n, 2, (tw_expr[]){x->dims[0], tw_gb_const(g, samples)}, 0, &ok);
    tw_value *below =
        tw_gb_binary(g, TW_GRAPH_LESS_EQUAL, tw_gb_unsqueeze(g, p, 2), tw_gb_unsqueeze(g, draw, 4));
    tw_value *y = tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, tw_gb_cast(g, below, TW_I32), 4, false);
    return ok && tw_onnx_set(n, 0, tw_gb_cast(g, y, elem));
}

/* ---- Dropout ---- */

static tw_value *ratio_of(tw_onnx_node *n)
{
    tw_value *ratio = tw_onnx_in(n, 1);
    return ratio ? tw_gb_reshape(n->g, tw_gb_cast(n->g, ratio, TW_F32), 0, NULL)
                 : tw_gb_scalar(n->g, TW_F32, 0.5);
}

/* x / (1 - ratio) where the number drawn is at least the ratio, else 0; and where that is. While
 * `training` (NULL: always) does not hold, x itself. */
static bool drop(tw_onnx_node *n, tw_value *training)
{
    bool ok = true;
    tw_gb *g = n->g;
    tw_value *x = n->in[0], *ratio = ratio_of(n);
    if (!tw_onnx_check_elem(n, 0, TW_ONNX_FLOATS))
        return false;
    tw_value *draw = uniform(n, x->type->rank, x->type->dims, 0, &ok);
    tw_value *keep = tw_gb_binary(g, TW_GRAPH_GREATER_EQUAL, draw, ratio);
    tw_value *rest = tw_gb_binary_scalar(g, TW_GRAPH_ADD, tw_gb_unary(g, TW_GRAPH_NEG, ratio), 1);
    tw_value *y = tw_gb_binary(g, TW_GRAPH_DIV, x, tw_gb_cast(g, rest, x->type->elem));
    y = tw_gb_where(g, keep, y, tw_gb_scalar(g, x->type->elem, 0));
    if (training) {
        keep = tw_gb_binary(g, TW_GRAPH_OR, keep, tw_gb_unary(g, TW_GRAPH_NOT, training));
        y = tw_gb_where(g, training, y, x);
    }
    return ok && tw_onnx_set(n, 0, y) && tw_onnx_set(n, 1, keep);
}

/* Inference, unless input 2 says otherwise: the data itself, and a mask that keeps all. */
bool tw_onnx_op_dropout(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_type type = n->in[0]->type;
    tw_value *training = tw_onnx_in(n, 2);
    tw_expr known;
    if (training && !tw_known_expr(g, training, &known))
        return drop(n, tw_gb_reshape(g, training, 0, NULL));
    if (training && known != tw_gb_const(g, 0))
        return drop(n, NULL);
    if (tw_onnx_wants(n, 1))
        n->out[1] =
            tw_gb_splat(g, n->version >= 10 ? TW_BOOL : type->elem, 1, type->rank, type->dims);
    return tw_onnx_set(n, 0, n->in[0]);
}
