/* op_attention.c: attention and rotary embedding, decomposed.
 *
 *     softmax(softcap(scale * Q K^T) + mask) V        over [batch, heads, sequence, size] */
#include "import/onnx/import.h"

#include <math.h>
#include <string.h>

static const int64_t swap_heads[4] = {0, 2, 1, 3};

typedef struct attention {
    tw_onnx_node *n;
    tw_gb *g;
    tw_value *q, *k, *v; /* [batch, heads, sequence, size] */
    tw_expr past, total; /* sequence positions of keys: earlier ones, and all */
    bool flat;           /* inputs were [batch, sequence, heads * size] */
    bool causal;
    double scale, softcap;
    int64_t mode; /* what output 3 is */
} attention;

/* ---- Inputs ---- */

/* Input i with its heads apart. */
static tw_value *heads_of(attention *a, unsigned i, const char *attribute)
{
    bool ok = true;
    tw_gb *g = a->g;
    tw_value *x = a->n->in[i];
    int64_t heads = tw_onnx_int(a->n, attribute, 0, &ok);
    if (!ok)
        return NULL;
    if (x->type->rank == 4)
        return x;
    if (x->type->rank != 3 || heads <= 0 || heads > INT32_MAX)
        return tw_gb_error(g,
                           "input %u is %s, with %lld heads; rank 4, or rank 3 and attribute "
                           "'%s', are needed",
                           i, tw_gb_type_text(g, x->type), (long long)heads, attribute);
    tw_expr count = tw_gb_const(g, heads);
    tw_expr size = tw_gb_quotient(g, &x->type->dims[2], 1, &count, 1);
    if (!size)
        return tw_gb_error(g, "input %u is %s, with %lld heads", i, tw_gb_type_text(g, x->type),
                           (long long)heads);
    tw_expr dims[4] = {x->type->dims[0], x->type->dims[1], count, size};
    return tw_gb_transpose(g, tw_gb_reshape(g, x, 4, dims), swap_heads);
}

/* Earlier keys or values, then these. */
static tw_value *with_past(attention *a, unsigned i, tw_value *x)
{
    tw_value *past = tw_onnx_in(a->n, i);
    if (!past || !x)
        return x;
    if (past->type->rank != 4)
        return tw_gb_error(a->g, "input %u is %s; rank 4 is needed", i,
                           tw_gb_type_text(a->g, past->type));
    a->past = past->type->dims[2];
    return tw_gb_concat(a->g, (tw_value *[]){past, x}, 2, 2);
}

/* Each head repeated, so that there are as many as of queries. */
static tw_value *repeat_heads(attention *a, tw_value *x)
{
    tw_gb *g = a->g;
    if (!x || x->type->dims[1] == a->q->type->dims[1])
        return x;
    tw_expr times = tw_gb_quotient(g, &a->q->type->dims[1], 1, &x->type->dims[1], 1);
    if (!times)
        return tw_gb_error(g, "%s has no whole part of the heads of %s",
                           tw_gb_type_text(g, x->type), tw_gb_type_text(g, a->q->type));
    const tw_expr *d = x->type->dims;
    tw_expr wide[5] = {d[0], d[1], times, d[2], d[3]};
    tw_expr dims[4] = {d[0], a->q->type->dims[1], d[2], d[3]};
    return tw_gb_reshape(g, tw_gb_expand(g, tw_gb_unsqueeze(g, x, 4), 5, wide), 4, dims);
}

static bool read_attention(attention *a)
{
    bool ok = true;
    tw_onnx_node *n = a->n;
    int64_t size;
    a->flat = n->in[0]->type->rank == 3;
    a->q = heads_of(a, 0, "q_num_heads");
    a->k = heads_of(a, 1, "kv_num_heads");
    a->v = heads_of(a, 2, "kv_num_heads");
    if (!a->q || !a->k || !a->v)
        return false;
    a->past = tw_gb_const(a->g, 0);
    a->k = with_past(a, 4, a->k);
    a->v = with_past(a, 5, a->v);
    if (!a->k || !a->v)
        return false;
    a->total = a->k->type->dims[2];
    a->causal = tw_onnx_int(n, "is_causal", 0, &ok);
    a->softcap = tw_onnx_float(n, "softcap", 0, &ok);
    a->mode = tw_onnx_int(n, "qk_matmul_output_mode", 0, &ok);
    a->scale = tw_onnx_float(n, "scale", 0, &ok);
    if (!ok)
        return false;
    if (!tw_onnx_attr(n, "scale")) {
        if (!tw_expr_as_const(a->q->type->dims[3], &size) || size <= 0)
            return tw_onnx_error(n, "the size of a head must be known");
        a->scale = 1 / sqrt((double)size);
    }
    return true;
}

/* ---- Scores ---- */

/* Where the condition does not hold: minus infinity. */
static tw_value *keep_where(attention *a, tw_value *condition, tw_value *scores)
{
    return scores ? tw_gb_where(a->g, condition, scores,
                                tw_gb_scalar(a->g, scores->type->elem, -(double)INFINITY))
                  : NULL;
}

/* The positions 0, 1 … along one axis of four. */
static tw_value *positions(attention *a, tw_expr count, unsigned axis)
{
    tw_expr dims[4];
    for (unsigned i = 0; i < 4; i++)
        dims[i] = i == axis ? count : tw_gb_const(a->g, 1);
    return tw_gb_iota(a->g, TW_I64, 4, dims, axis);
}

/* Sizes as a value of the model: the number, or what Shape gives. */
static tw_value *past_positions(attention *a)
{
    tw_value *past = tw_onnx_in(a->n, 4);
    if (!past)
        return tw_gb_scalar(a->g, TW_I64, 0);
    tw_type type = tw_type_tensor_static(a->g->ctx, TW_I64, 1, (int64_t[]){1});
    tw_value *size = TW_GB_EMIT(a->g, SHAPE, &past, 1, type, {"start", tw_attr_int(a->g->ctx, 2)},
                                {"end", tw_attr_int(a->g->ctx, 3)});
    return tw_gb_reshape(a->g, size, 0, NULL);
}

/* The mask, which may be shorter than the keys: what it lacks is masked. */
static tw_value *full_mask(attention *a, tw_value *mask)
{
    tw_gb *g = a->g;
    tw_expr begin[4], end[4], zero = tw_gb_const(g, 0);
    unsigned rank = mask->type->rank;
    if (rank < 2 || rank > 4)
        return tw_gb_error(g, "the mask is %s; rank 2 to 4 is needed",
                           tw_gb_type_text(g, mask->type));
    tw_expr missing = tw_expr_sub(g->ctx, a->total, mask->type->dims[rank - 1]);
    if (tw_expr_range(missing, NULL, 0).lo <= 0 || mask->type->dims[rank - 1] == tw_gb_const(g, 1))
        return mask;
    for (unsigned i = 0; i < rank; i++) {
        begin[i] = zero;
        end[i] = i + 1 == rank ? missing : zero;
    }
    bool logical = mask->type->elem == TW_BOOL;
    return tw_gb_pad(g, mask, begin, end, "constant",
                     tw_gb_scalar(g, mask->type->elem, logical ? 0 : -(double)INFINITY));
}

static tw_value *mask_scores(attention *a, tw_value *scores)
{
    tw_gb *g = a->g;
    tw_value *mask = tw_onnx_in(a->n, 3), *lengths = tw_onnx_in(a->n, 6);
    if (mask) {
        mask = full_mask(a, mask);
        if (!mask)
            return NULL;
        scores = mask->type->elem == TW_BOOL
                     ? keep_where(a, mask, scores)
                     : tw_gb_binary(g, TW_GRAPH_ADD, scores, tw_gb_cast(g, mask, a->q->type->elem));
    }
    if (a->causal) {
        tw_value *row =
            tw_gb_binary(g, TW_GRAPH_ADD, positions(a, a->q->type->dims[2], 2), past_positions(a));
        scores = keep_where(a, tw_gb_binary(g, TW_GRAPH_LESS_EQUAL, positions(a, a->total, 3), row),
                            scores);
    }
    if (lengths) {
        tw_value *length = tw_gb_unsqueeze(g, tw_gb_cast(g, lengths, TW_I64), 14);
        scores = keep_where(a, tw_gb_binary(g, TW_GRAPH_LESS, positions(a, a->total, 3), length),
                            scores);
    }
    return scores;
}

static tw_value *cap(attention *a, tw_value *scores)
{
    tw_gb *g = a->g;
    if (a->softcap <= 0)
        return scores;
    scores =
        tw_gb_unary(g, TW_GRAPH_TANH, tw_gb_binary_scalar(g, TW_GRAPH_DIV, scores, a->softcap));
    return tw_gb_binary_scalar(g, TW_GRAPH_MUL, scores, a->softcap);
}

/* softmax in the type that the attribute softmax_precision names */
static tw_value *weights_of(attention *a, tw_value *scores)
{
    bool ok = true;
    int64_t type = tw_onnx_int(a->n, "softmax_precision", 0, &ok);
    tw_elem elem = a->q->type->elem, work = elem;
    if (!scores || !ok)
        return NULL;
    if (type &&
        (type < 0 || type > 255 || !tw_onnx_elem((int32_t)type, &work) || !tw_elem_is_float(work)))
        return tw_gb_error(a->g, "attribute 'softmax_precision' is %lld", (long long)type);
    scores = tw_gb_softmax(a->g, TW_GRAPH_SOFTMAX, tw_gb_cast(a->g, scores, work), 3);
    return tw_gb_cast(a->g, scores, elem);
}

bool tw_onnx_op_attention(tw_onnx_node *n)
{
    attention a = {.n = n, .g = n->g};
    tw_gb *g = n->g;
    if (!read_attention(&a))
        return false;
    tw_value *present[2] = {a.k, a.v}, *stages[4];
    tw_value *k = repeat_heads(&a, a.k), *v = repeat_heads(&a, a.v);
    tw_value *scores = tw_gb_matmul(g, a.q, k, false, true);
    stages[0] = tw_gb_binary_scalar(g, TW_GRAPH_MUL, scores, a.scale);
    stages[1] = cap(&a, stages[0]);
    stages[2] = mask_scores(&a, stages[1]);
    stages[3] = weights_of(&a, stages[2]);
    tw_value *y = tw_gb_matmul(g, stages[3], v, false, false);
    if (!y)
        return false;
    if (a.flat) {
        const tw_expr *d = y->type->dims;
        tw_expr dims[3] = {d[0], d[2], tw_expr_mul(n->ctx, d[1], d[3])};
        y = tw_gb_reshape(g, tw_gb_transpose(g, y, swap_heads), 3, dims);
    }
    if (tw_onnx_wants(n, 3) && (a.mode < 0 || a.mode > 3))
        return tw_onnx_error(n, "attribute 'qk_matmul_output_mode' is %lld; accepted are 0 to 3",
                             (long long)a.mode);
    return tw_onnx_set(n, 0, y) && tw_onnx_set(n, 1, present[0]) && tw_onnx_set(n, 2, present[1]) &&
           (!tw_onnx_wants(n, 3) || tw_onnx_set(n, 3, stages[a.mode]));
}

/* ---- Rotary embedding ---- */

typedef struct rotary {
    tw_onnx_node *n;
    tw_gb *g;
    tw_value *x;  /* [batch, sequence, heads, size] */
    int64_t half; /* pairs that are rotated */
    bool interleaved;
} rotary;

/* A cache as [batch or 1, sequence, 1, half]. */
static tw_value *cache(rotary *r, unsigned i)
{
    tw_gb *g = r->g;
    tw_value *c = r->n->in[i], *ids = tw_onnx_in(r->n, 3);
    if (ids && c->type->rank == 2)
        c = tw_gb_gather(g, c, ids, 0);
    if (c && (c->type->rank != 3 || tw_gb_differ(g, c->type->dims[2], tw_gb_const(g, r->half))))
        return tw_gb_error(g, "input %u is %s; a last axis of %lld is needed", i,
                           tw_gb_type_text(g, r->n->in[i]->type), (long long)r->half);
    return tw_gb_unsqueeze(g, c, 4);
}

/* Pair element 0 or 1 of the rotated part: halves, or every second one. */
static tw_value *pair_element(rotary *r, int64_t which)
{
    tw_gb *g = r->g;
    return tw_gb_slice_axis(g, r->x, 3, tw_gb_const(g, r->interleaved ? which : which * r->half),
                            r->interleaved ? 2 : 1, tw_gb_const(g, r->half));
}

static tw_value *rotate(rotary *r)
{
    tw_gb *g = r->g;
    tw_value *c = cache(r, 1), *s = cache(r, 2), *a = pair_element(r, 0), *b = pair_element(r, 1);
    tw_value *real = tw_gb_binary(g, TW_GRAPH_SUB, tw_gb_binary(g, TW_GRAPH_MUL, c, a),
                                  tw_gb_binary(g, TW_GRAPH_MUL, s, b));
    tw_value *imaginary = tw_gb_binary(g, TW_GRAPH_ADD, tw_gb_binary(g, TW_GRAPH_MUL, s, a),
                                       tw_gb_binary(g, TW_GRAPH_MUL, c, b));
    if (!real || !imaginary)
        return NULL;
    if (!r->interleaved)
        return tw_gb_concat(g, (tw_value *[]){real, imaginary}, 2, 3);
    tw_expr dims[4];
    memcpy(dims, real->type->dims, sizeof dims);
    dims[3] = tw_gb_const(g, 2 * r->half);
    tw_value *pairs[2] = {tw_gb_unsqueeze(g, real, 1u << 4),
                          tw_gb_unsqueeze(g, imaginary, 1u << 4)};
    return tw_gb_reshape(g, tw_gb_concat(g, pairs, 2, 4), 4, dims);
}

static bool read_rotary(rotary *r, int64_t *size)
{
    bool ok = true;
    tw_onnx_node *n = r->n;
    tw_type x = n->in[0]->type;
    int64_t heads = tw_onnx_int(n, "num_heads", 0, &ok);
    int64_t rotated = tw_onnx_int(n, "rotary_embedding_dim", 0, &ok);
    r->interleaved = tw_onnx_int(n, "interleaved", 0, &ok);
    if (!ok)
        return false;
    if (x->rank == 4) {
        r->x = tw_gb_transpose(r->g, n->in[0], swap_heads);
    } else if (x->rank == 3 && heads > 0 && heads <= INT32_MAX) {
        tw_expr count = tw_gb_const(r->g, heads);
        tw_expr each = tw_gb_quotient(r->g, &x->dims[2], 1, &count, 1);
        if (each)
            r->x =
                tw_gb_reshape(r->g, n->in[0], 4, (tw_expr[]){x->dims[0], x->dims[1], count, each});
    }
    if (!r->x || !tw_expr_as_const(r->x->type->dims[3], size))
        return tw_onnx_error(n, "input %s with %lld heads", tw_gb_type_text(r->g, x),
                             (long long)heads);
    rotated = rotated ? rotated : *size;
    r->half = rotated / 2;
    if (rotated <= 0 || rotated % 2 || rotated > *size)
        return tw_onnx_error(n, "attribute 'rotary_embedding_dim' is %lld for heads of size %lld",
                             (long long)rotated, (long long)*size);
    return true;
}

bool tw_onnx_op_rotary_embedding(tw_onnx_node *n)
{
    rotary r = {.n = n, .g = n->g};
    tw_gb *g = n->g;
    int64_t size;
    if (!read_rotary(&r, &size))
        return false;
    tw_value *y = rotate(&r);
    int64_t rest = size - 2 * r.half;
    if (rest > 0 && y)
        y = tw_gb_concat(g,
                         (tw_value *[]){y, tw_gb_slice_axis(g, r.x, 3, tw_gb_const(g, 2 * r.half),
                                                            1, tw_gb_const(g, rest))},
                         2, 3);
    y = n->in[0]->type->rank == 4 ? tw_gb_transpose(g, y, swap_heads)
                                  : tw_gb_reshape(g, y, 3, n->in[0]->type->dims);
    return tw_onnx_set(n, 0, y);
}
