/* op_ms_attention.c: com.microsoft's Attention, QAttention and MultiHeadAttention.
 *
 *     softmax(scale * Q K^T + bias + mask) V
 *
 * A mask adds a finite number to the scores of keys that are out, so that a row with all keys
 * masked still is a distribution; what a causal layer may not see is out altogether. */
#include "import/onnx/attention.h"

#include <string.h>

typedef struct attention {
    tw_onnx_node *n;
    tw_gb *g;
    int64_t heads;
    bool causal;
    double scale, filter;
    tw_value *q, *k, *v;             /* [batch, heads, sequence, size] */
    tw_value *mask, *bias;           /* inputs, or NULL */
    tw_value *past_key, *past_value; /* likewise */
} attention;

static bool read_attributes(attention *a)
{
    bool ok = true;
    tw_onnx_node *n = a->n;
    a->heads = tw_onnx_int(n, "num_heads", 0, &ok);
    a->causal = tw_onnx_int(n, "unidirectional", 0, &ok);
    a->scale = tw_onnx_float(n, "scale", 0, &ok);
    a->filter = tw_onnx_float(n, "mask_filter_value", -10000, &ok);
    static const char *const refused[] = {"do_rotary", "past_present_share_buffer"};
    for (unsigned i = 0; i < 2 && ok; i++)
        if (tw_onnx_int(n, refused[i], 0, &ok))
            return tw_onnx_error(n, "attribute '%s' is not supported", refused[i]);
    return ok;
}

/* ---- Masks ---- */

/* Whether a vector has entries for a batch once or twice; if neither is certain, running checks
 * that it is one of the two. */
static bool check_ends(attention *a, tw_expr size, tw_expr batch)
{
    tw_context *ctx = a->g->ctx;
    tw_expr twice = tw_expr_mulc(ctx, batch, 2), one = tw_gb_const(a->g, 1);
    if (size == batch || size == twice)
        return true;
    tw_expr checks[3] = {tw_expr_sub(ctx, size, batch), tw_expr_sub(ctx, twice, size),
                         tw_expr_mulc(ctx,
                                      tw_expr_binary(ctx, TW_EXPR_MOD, size,
                                                     tw_expr_binary(ctx, TW_EXPR_MAX, batch, one)),
                                      -1)};
    for (unsigned i = 0; i < 3; i++)
        if (!tw_gb_check(a->g, checks[i],
                         "the mask has %s elements; one, or two, for each of a batch of %s are "
                         "needed",
                         tw_print_expr(ctx, size, NULL), tw_print_expr(ctx, batch, NULL)))
            return false;
    return true;
}

/* Where a vector of ends, or of ends and then starts, lets keys through. Starts that are read
 * although there may be none count from 0. */
static tw_value *inside_ends(attention *a, tw_expr batch, tw_expr total)
{
    tw_gb *g = a->g;
    tw_value *mask = tw_gb_cast(g, a->mask, TW_I64), *at = tw_onnx_positions(g, total, 3);
    if (!mask || !check_ends(a, mask->type->dims[0], batch))
        return NULL;
    tw_expr size = mask->type->dims[0], zero = tw_gb_const(g, 0);
    tw_value *ends = tw_gb_slice_axis(g, mask, 0, zero, 1, batch);
    tw_value *inside = tw_gb_binary(g, TW_GRAPH_LESS, at, tw_gb_unsqueeze(g, ends, 14));
    if (size == batch)
        return inside;
    tw_value *starts = tw_gb_slice_axis(g, mask, 0, tw_expr_sub(g->ctx, size, batch), 1, batch);
    if (size != tw_expr_mulc(g->ctx, batch, 2)) {
        tw_value *once = tw_gb_binary(g, TW_GRAPH_EQUAL, tw_onnx_size_value(g, size),
                                      tw_onnx_size_value(g, batch));
        starts = tw_gb_where(g, once, tw_onnx_number(g, 0), starts);
    }
    return tw_gb_binary(
        g, TW_GRAPH_AND, inside,
        tw_gb_binary(g, TW_GRAPH_GREATER_EQUAL, at, tw_gb_unsqueeze(g, starts, 14)));
}

/* The rows of the queries and the columns of the keys of a square mask for the longest sequence. */
static tw_value *cut_square(attention *a, tw_expr total)
{
    tw_gb *g = a->g;
    tw_expr rows = a->q->type->dims[2], zero = tw_gb_const(g, 0);
    tw_value *m = tw_gb_slice_axis(g, a->mask, 2, tw_expr_sub(g->ctx, total, rows), 1, rows);
    return tw_gb_slice_axis(g, m, 3, zero, 1, total);
}

/* Which keys the mask lets through, in a shape that broadcasts with the scores. */
static tw_value *inside_mask(attention *a, tw_expr batch, tw_expr total)
{
    tw_gb *g = a->g;
    tw_value *mask = a->mask;
    switch (mask->type->rank) {
    case 1:
        return inside_ends(a, batch, total);
    case 2:
        mask = tw_gb_unsqueeze(g, mask, 6);
        break;
    case 3:
        mask = tw_gb_unsqueeze(g, mask, 2);
        break;
    case 4:
        mask = cut_square(a, total);
        break;
    default:
        return tw_gb_error(g, "the mask is %s; rank 1 to 4 is needed",
                           tw_gb_type_text(g, mask->type));
    }
    return tw_gb_binary_scalar(g, TW_GRAPH_GREATER, mask, 0);
}

static tw_value *masked(attention *a, tw_value *scores)
{
    tw_gb *g = a->g;
    if (!scores)
        return NULL;
    tw_expr batch = scores->type->dims[0], rows = scores->type->dims[2],
            total = scores->type->dims[3];
    if (a->bias)
        scores = tw_gb_binary(g, TW_GRAPH_ADD, scores, a->bias);
    if (a->mask && scores) {
        tw_value *zero = tw_gb_scalar(g, scores->type->elem, 0);
        tw_value *added = tw_onnx_keep_where(g, inside_mask(a, batch, total), zero, a->filter);
        scores = tw_gb_binary(g, TW_GRAPH_ADD, scores, added);
    }
    if (a->causal && rows != tw_gb_const(g, 1)) {
        tw_value *row = tw_onnx_positions(g, rows, 2);
        if (a->past_key)
            row = tw_gb_binary(g, TW_GRAPH_ADD, row, tw_onnx_size(g, a->past_key, 2));
        scores = tw_onnx_keep_where(
            g, tw_gb_binary(g, TW_GRAPH_LESS_EQUAL, tw_onnx_positions(g, total, 3), row), scores,
            -3.4028234663852886e38);
    }
    return scores;
}

/* The result for q, k, v with the earlier keys and values already before them; *scores is what goes
 * into the softmax. */
static tw_value *attend(attention *a, tw_value **scores)
{
    tw_gb *g = a->g;
    *scores = masked(a, tw_onnx_scores(g, a->q, a->k, a->scale));
    tw_value *weights = tw_gb_softmax(g, TW_GRAPH_SOFTMAX, *scores, 3);
    return tw_onnx_join_heads(g, tw_onnx_weigh(g, weights, a->v));
}

/* ---- Attention: one product gives Q, K and V ---- */

/* Splits [batch, sequence, q + k + v] into heads; `sizes` are those of the parts, or NULL for
 * thirds. */
static bool split_products(attention *a, tw_value *qkv, const int64_t *sizes)
{
    tw_gb *g = a->g;
    tw_value **parts[3] = {&a->q, &a->k, &a->v};
    tw_expr start = tw_gb_const(g, 0), three = tw_gb_const(g, 3);
    if (!qkv)
        return false;
    tw_expr third = tw_gb_quotient(g, &qkv->type->dims[2], 1, &three, 1);
    for (unsigned i = 0; i < 3; i++) {
        tw_expr size = sizes ? tw_gb_const(g, sizes[i]) : third;
        if (!size)
            return tw_onnx_error(a->n, "%s is not of three parts", tw_gb_type_text(g, qkv->type));
        *parts[i] = tw_onnx_split_heads(g, tw_gb_slice_axis(g, qkv, 2, start, 1, size), a->heads);
        start = tw_expr_add(g->ctx, start, size);
        if (!*parts[i])
            return false;
    }
    return !tw_gb_differ(g, start, qkv->type->dims[2]) ||
           tw_onnx_error(a->n, "attribute 'qkv_hidden_sizes' does not fit weights for %s",
                         tw_gb_type_text(g, qkv->type));
}

/* Entry 0 (keys) or 1 (values) of an input [2, batch, heads, sequence, size]. */
static tw_value *past_entry(attention *a, tw_value *past, int64_t index)
{
    tw_gb *g = a->g;
    if (!past)
        return NULL;
    if (past->type->rank != 5)
        return tw_gb_error(g, "the earlier state is %s; rank 5 is needed",
                           tw_gb_type_text(g, past->type));
    return tw_gb_squeeze(
        g, tw_gb_slice_axis(g, past, 0, tw_gb_const(g, index), 1, tw_gb_const(g, 1)), 1);
}

/* Sets the result and, as one tensor, the keys and values so far. */
static bool self_attention(attention *a, tw_value *past)
{
    tw_gb *g = a->g;
    tw_onnx_node *n = a->n;
    tw_value *scores;
    if (past) {
        a->past_key = past_entry(a, past, 0);
        a->past_value = past_entry(a, past, 1);
        if (!a->past_key || !a->past_value)
            return false;
    }
    a->k = tw_onnx_with_past(g, a->past_key, a->k);
    a->v = tw_onnx_with_past(g, a->past_value, a->v);
    if (!tw_onnx_set(n, 0, attend(a, &scores)))
        return false;
    if (!tw_onnx_wants(n, 1))
        return true;
    tw_value *both[2] = {tw_gb_unsqueeze(g, a->k, 1), tw_gb_unsqueeze(g, a->v, 1)};
    return tw_onnx_set(n, 1, tw_gb_concat(g, both, 2, 0));
}

static bool check_ranks(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    return (n->in[0]->type->rank == 3 && n->in[1]->type->rank == 2) ||
           tw_onnx_error(n, "input %s and weights %s; ranks 3 and 2 are needed",
                         tw_gb_type_text(g, n->in[0]->type), tw_gb_type_text(g, n->in[1]->type));
}

bool tw_onnx_op_ms_attention(tw_onnx_node *n)
{
    bool ok = true;
    size_t count;
    tw_gb *g = n->g;
    attention a = {.n = n, .g = g, .mask = tw_onnx_in(n, 3), .bias = tw_onnx_in(n, 5)};
    const int64_t *sizes = tw_onnx_int_list(n, "qkv_hidden_sizes", &count, &ok);
    if (!ok || !read_attributes(&a) || !check_ranks(n))
        return false;
    if (sizes && count && count != 3)
        return tw_onnx_error(n, "attribute 'qkv_hidden_sizes' has %zu entries; 3 are needed",
                             count);
    tw_value *qkv = tw_onnx_matmul(g, n->in[0], n->in[1]);
    if (tw_onnx_in(n, 2))
        qkv = tw_gb_binary(g, TW_GRAPH_ADD, qkv, n->in[2]);
    return split_products(&a, qkv, sizes && count ? sizes : NULL) &&
           self_attention(&a, tw_onnx_in(n, 4));
}

/* ---- QAttention ---- */

bool tw_onnx_op_qattention(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    attention a = {.n = n, .g = g, .mask = tw_onnx_in(n, 5)};
    if (!read_attributes(&a) || !check_ranks(n))
        return false;
    tw_value *x = tw_onnx_less_zero_point(g, n->in[0], tw_onnx_in(n, 6), 0);
    tw_value *w = tw_onnx_less_zero_point(g, n->in[1], tw_onnx_in(n, 7), 1);
    tw_elem elem = n->in[3]->type->elem;
    tw_value *scale = tw_gb_binary(g, TW_GRAPH_MUL, n->in[3], n->in[4]);
    tw_value *qkv = tw_gb_cast(g, tw_onnx_integer_matmul(g, x, n->in[0], w, n->in[1]), elem);
    qkv = tw_gb_binary(g, TW_GRAPH_MUL, qkv, scale);
    qkv = tw_gb_binary(g, TW_GRAPH_ADD, qkv, n->in[2]);
    return split_products(&a, qkv, NULL) && self_attention(&a, tw_onnx_in(n, 8));
}

/* ---- MultiHeadAttention ---- */

/* Part `index` of an input [batch, sequence, heads, parts, size], as heads. */
static tw_value *packed_part(attention *a, tw_value *x, int64_t index)
{
    static const int64_t swap[4] = {0, 2, 1, 3};
    tw_gb *g = a->g;
    x = tw_gb_slice_axis(g, x, 3, tw_gb_const(g, index), 1, tw_gb_const(g, 1));
    return tw_gb_transpose(g, tw_gb_squeeze(g, x, 8), swap);
}

/* Heads of an input in any of its forms: apart already; together; packed with others. */
static tw_value *heads_of(attention *a, tw_value *x, int64_t packed_index)
{
    if (!x)
        return NULL;
    return x->type->rank == 5   ? packed_part(a, x, packed_index)
           : x->type->rank == 4 ? x
                                : tw_onnx_split_heads(a->g, x, a->heads);
}

/* Adds its part of the bias of all three, [q + k + v], from `*start` on. */
static tw_value *with_bias(attention *a, tw_value *x, tw_expr *start)
{
    tw_gb *g = a->g;
    tw_value *bias = tw_onnx_in(a->n, 3);
    if (!x || !bias)
        return x;
    tw_expr heads = x->type->dims[1], size = x->type->dims[3];
    tw_expr total = tw_expr_mul(g->ctx, heads, size);
    tw_value *own = tw_gb_slice_axis(g, bias, 0, *start, 1, total);
    *start = tw_expr_add(g->ctx, *start, total);
    own = tw_gb_reshape(g, own, 3, (tw_expr[]){heads, tw_gb_const(g, 1), size});
    return tw_gb_binary(g, TW_GRAPH_ADD, x, own);
}

static bool read_heads(attention *a)
{
    tw_onnx_node *n = a->n;
    tw_value *query = n->in[0], *key = tw_onnx_in(n, 1), *value = tw_onnx_in(n, 2);
    tw_expr start = tw_gb_const(a->g, 0);
    bool all = query->type->rank == 5, both = !all && key && key->type->rank == 5;
    if (!all && (!key || (!both && !value)))
        return tw_onnx_error(n, "key and value are needed with a query of %s",
                             tw_gb_type_text(a->g, query->type));
    a->q = with_bias(a, heads_of(a, query, 0), &start);
    a->k = with_bias(a, all ? heads_of(a, query, 1) : heads_of(a, key, 0), &start);
    a->v = with_bias(a,
                     all    ? heads_of(a, query, 2)
                     : both ? heads_of(a, key, 1)
                            : heads_of(a, value, 0),
                     &start);
    return a->q && a->k && a->v;
}

bool tw_onnx_op_multi_head_attention(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_value *scores;
    attention a = {.n = n,
                   .g = g,
                   .mask = tw_onnx_in(n, 4),
                   .bias = tw_onnx_in(n, 5),
                   .past_key = tw_onnx_in(n, 6),
                   .past_value = tw_onnx_in(n, 7)};
    if (tw_onnx_in(n, 8) || tw_onnx_in(n, 9))
        return tw_onnx_error(n, "inputs 8 and 9, of shared buffers, are not supported");
    if (!read_attributes(&a) || !read_heads(&a))
        return false;
    if (!a.past_key != !a.past_value)
        return tw_onnx_error(n, "an earlier state needs both keys and values");
    a.k = tw_onnx_with_past(g, a.past_key, a.k);
    a.v = tw_onnx_with_past(g, a.past_value, a.v);
    return tw_onnx_set(n, 0, attend(&a, &scores)) && tw_onnx_set(n, 1, a.k) &&
           tw_onnx_set(n, 2, a.v) && tw_onnx_set(n, 3, scores);
}
