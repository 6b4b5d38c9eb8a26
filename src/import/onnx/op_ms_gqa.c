/* op_ms_gqa.c: com.microsoft's GroupQueryAttention, the attention of decoders with a cache of keys
 * and values.
 *
 * The new keys of a batch entry follow as many earlier ones as its length says:
 *
 *     cache    e e e e . .        present  e e e n n 0      e < earlier <= e + n
 *     new      n n
 *
 * which is a gather along [earlier | new] by computed positions. Where the sizes show that there is
 * nothing earlier (a prompt), the present keys are the new ones, padded. Computed in f32. */
#include "import/onnx/attention.h"

#include <math.h>
#include <string.h>

enum {
    QUERY,
    KEY,
    VALUE,
    PAST_KEY,
    PAST_VALUE,
    LENGTHS, /* of all keys, less 1, for each batch entry */
    TOTAL,
    COSINE,
    SINE,
    POSITIONS,
    BIAS,
    SINK,
    K_SCALE,
    V_SCALE,
    Q_NORM,
    K_NORM,
    QUERY_LENGTHS,
};

typedef struct gqa {
    tw_onnx_node *n;
    tw_gb *g;
    int64_t heads, kv_heads, window, output_scores;
    bool causal, rotary, interleaved, smooth;
    double scale, softcap, q_epsilon, k_epsilon;
    tw_value *q, *k, *v; /* [batch, heads, sequence, size] */
    tw_expr total;       /* keys of the present state */
    bool prompt;         /* certainly nothing is earlier */
    tw_value *ends;      /* [batch, 1, 1, 1] of i64: keys of each batch entry */
    tw_value *earlier;   /* likewise: keys before the new ones; NULL for a prompt */
} gqa;

/* ---- Reading ---- */

static bool refuse(gqa *a)
{
    bool ok = true;
    tw_onnx_node *n = a->n;
    if (tw_onnx_in(n, K_SCALE) || tw_onnx_in(n, V_SCALE) ||
        strcmp(tw_onnx_string(n, "k_quant_type", "NONE", &ok), "NONE") ||
        strcmp(tw_onnx_string(n, "v_quant_type", "NONE", &ok), "NONE"))
        return tw_onnx_error(n, "quantised caches are not supported");
    if (tw_onnx_in(n, QUERY_LENGTHS))
        return tw_onnx_error(n, "input %u, lengths of queries, is not supported", QUERY_LENGTHS);
    if (tw_onnx_int(n, "sliding_window_cache", 0, &ok))
        return tw_onnx_error(n, "attribute 'sliding_window_cache' is not supported");
    return ok;
}

static bool read_attributes(gqa *a)
{
    bool ok = true;
    tw_onnx_node *n = a->n;
    a->heads = tw_onnx_int(n, "num_heads", 0, &ok);
    a->kv_heads = tw_onnx_int(n, "kv_num_heads", 0, &ok);
    a->window = tw_onnx_int(n, "local_window_size", -1, &ok);
    a->output_scores = tw_onnx_int(n, "qk_output", 0, &ok);
    a->causal = tw_onnx_int(n, "causal", 1, &ok);
    a->rotary = tw_onnx_int(n, "do_rotary", 0, &ok);
    a->interleaved = tw_onnx_int(n, "rotary_interleaved", 0, &ok);
    a->smooth = tw_onnx_int(n, "smooth_softmax", 0, &ok);
    a->scale = tw_onnx_float(n, "scale", 0, &ok);
    a->softcap = tw_onnx_float(n, "softcap", 0, &ok);
    double epsilon = tw_onnx_float(n, "qk_norm_epsilon", 1e-6f, &ok);
    a->q_epsilon = tw_onnx_float(n, "q_norm_epsilon", epsilon, &ok);
    a->k_epsilon = tw_onnx_float(n, "k_norm_epsilon", epsilon, &ok);
    if (ok && (a->heads <= 0 || a->kv_heads <= 0 || a->heads % a->kv_heads || a->heads > INT32_MAX))
        return tw_onnx_error(n, "%lld heads of queries and %lld of keys", (long long)a->heads,
                             (long long)a->kv_heads);
    return ok && refuse(a);
}

/* Splits a query that has keys and values behind it. */
static bool split_packed(gqa *a)
{
    tw_gb *g = a->g;
    tw_value *x = a->n->in[QUERY];
    int64_t all = a->heads + 2 * a->kv_heads;
    x = tw_onnx_split_heads(g, x, all);
    tw_value **parts[3] = {&a->q, &a->k, &a->v};
    int64_t counts[3] = {a->heads, a->kv_heads, a->kv_heads}, start = 0;
    for (unsigned i = 0; i < 3; start += counts[i++])
        *parts[i] = tw_gb_slice_axis(g, x, 1, tw_gb_const(g, start), 1, tw_gb_const(g, counts[i]));
    return x != NULL;
}

static bool read_heads(gqa *a)
{
    tw_onnx_node *n = a->n;
    if (!tw_onnx_in(n, KEY))
        return split_packed(a);
    if (!tw_onnx_in(n, VALUE))
        return tw_onnx_error(n, "keys without values");
    a->q = tw_onnx_split_heads(a->g, n->in[QUERY], a->heads);
    a->k = tw_onnx_split_heads(a->g, n->in[KEY], a->kv_heads);
    a->v = tw_onnx_split_heads(a->g, n->in[VALUE], a->kv_heads);
    return a->q && a->k && a->v;
}

/* The number of all keys: known from the sizes, or bound when the model runs. */
static tw_expr read_total(gqa *a)
{
    size_t count;
    tw_onnx_node *n = a->n;
    if (!tw_onnx_in(n, TOTAL) || !tw_onnx_is_known(n, TOTAL)) {
        tw_value *given = tw_onnx_index_scalar(n, TOTAL);
        return given ? tw_onnx_bind_size(n, given, NULL, "total_sequence_length") : NULL;
    }
    const tw_expr *total = tw_onnx_known_exprs(n, TOTAL, &count);
    if (total && count != 1 &&
        !tw_onnx_error(n, "input %u has %zu elements; 1 is needed", TOTAL, count))
        return NULL;
    return total ? *total : NULL;
}

/* Lengths, and what the sizes say about them. */
static bool read_lengths(gqa *a)
{
    tw_gb *g = a->g;
    tw_onnx_node *n = a->n;
    const tw_value *past = tw_onnx_in(n, PAST_KEY);
    if (!past != !tw_onnx_in(n, PAST_VALUE))
        return tw_onnx_error(n, "an earlier state needs both keys and values");
    if (past && past->type->rank != 4)
        return tw_onnx_error(n, "input %u is %s; rank 4 is needed", PAST_KEY,
                             tw_gb_type_text(g, past->type));
    tw_expr total = read_total(a);
    if (!total)
        return false;
    tw_expr sequence = a->q->type->dims[2];
    a->prompt = total == sequence || !past;
    a->total = total;
    if (past)
        a->total = tw_expr_binary(g->ctx, TW_EXPR_MAX, total, past->type->dims[2]);
    tw_expr batch = a->q->type->dims[0];
    tw_value *ends = tw_gb_reshape(g, tw_gb_cast(g, n->in[LENGTHS], TW_I64), 1, &batch);
    a->ends = tw_gb_unsqueeze(g, tw_gb_binary_scalar(g, TW_GRAPH_ADD, ends, 1), 14);
    if (!a->prompt) {
        a->earlier = tw_gb_binary(g, TW_GRAPH_SUB, a->ends, tw_onnx_size(g, a->q, 2));
        tw_value *no = tw_gb_binary(g, TW_GRAPH_EQUAL,
                                    tw_gb_reshape(g, tw_gb_cast(g, n->in[TOTAL], TW_I64), 0, NULL),
                                    tw_onnx_size(g, a->q, 2));
        a->earlier = tw_gb_where(g, no, tw_gb_scalar(g, TW_I64, 0), a->earlier);
    }
    return a->ends != NULL;
}

/* ---- Queries and keys ---- */

static tw_value *normalised(gqa *a, tw_value *x, unsigned weight, double epsilon)
{
    tw_value *w = tw_onnx_in(a->n, weight);
    return w ? tw_onnx_last_axes_norm(a->n, TW_GRAPH_RMS_NORM, x, w, NULL, 3, epsilon) : x;
}

/* A cache of cosines or sines as [batch or 1, 1, sequence, half]. */
static tw_value *angles(gqa *a, unsigned i)
{
    tw_gb *g = a->g;
    tw_onnx_node *n = a->n;
    tw_value *table = tw_onnx_in(n, i), *ids = tw_onnx_in(n, POSITIONS);
    tw_expr sequence = a->q->type->dims[2], zero = tw_gb_const(g, 0);
    if (!table || table->type->rank != 2)
        return tw_gb_error(g, "rotation needs caches of cosines and sines, of rank 2");
    if (ids && !a->prompt)
        return tw_gb_unsqueeze(g, tw_gb_gather(g, table, ids, 0), 2);
    if (a->prompt)
        return tw_gb_slice_axis(g, table, 0, zero, 1, sequence);
    tw_value *at = tw_gb_binary(g, TW_GRAPH_ADD, a->earlier, tw_onnx_positions(g, sequence, 2));
    return tw_gb_unsqueeze(g, tw_gb_gather(g, table, tw_gb_squeeze(g, at, 10), 0), 2);
}

static bool prepare(gqa *a)
{
    tw_gb *g = a->g;
    a->q = normalised(a, a->q, Q_NORM, a->q_epsilon);
    a->k = normalised(a, a->k, K_NORM, a->k_epsilon);
    if (!a->rotary || !a->q || !a->k)
        return a->q && a->k;
    tw_value *c = angles(a, COSINE), *s = angles(a, SINE);
    if (!c || !s)
        return false;
    tw_expr half = c->type->dims[c->type->rank - 1];
    a->q = tw_onnx_rotate(g, a->q, c, s, half, a->interleaved);
    a->k = tw_onnx_rotate(g, a->k, c, s, half, a->interleaved);
    return a->q && a->k;
}

/* ---- The cache ---- */

/* x, [batch, heads, keys, size], with zeros up to the present state's size. */
static tw_value *padded(gqa *a, tw_value *x)
{
    tw_gb *g = a->g;
    tw_expr zero = tw_gb_const(g, 0);
    tw_expr more = tw_expr_sub(g->ctx, a->total, x->type->dims[2]);
    return tw_gb_pad(g, x, (tw_expr[]){zero, zero, zero, zero}, (tw_expr[]){zero, zero, more, zero},
                     "constant", NULL);
}

/* The present keys or values. */
static tw_value *present(gqa *a, tw_value *fresh, tw_value *past)
{
    tw_gb *g = a->g;
    if (a->prompt)
        return padded(a, fresh);
    tw_value *all = tw_gb_concat(g, (tw_value *[]){past, fresh}, 2, 2);
    tw_value *at = tw_onnx_positions(g, a->total, 2), *size = tw_onnx_size(g, past, 2);
    tw_value *later = tw_gb_binary(g, TW_GRAPH_SUB, at, a->earlier);
    tw_value *from = tw_gb_where(g, tw_gb_binary_scalar(g, TW_GRAPH_LESS, later, 0), at,
                                 tw_gb_binary(g, TW_GRAPH_ADD, later, size));
    tw_value *valid = tw_gb_binary(g, TW_GRAPH_LESS, at, a->ends);
    from = tw_gb_where(g, valid, from, tw_gb_scalar(g, TW_I64, 0));
    if (!all || !from)
        return NULL;
    tw_expr dims[4];
    memcpy(dims, all->type->dims, sizeof dims);
    dims[2] = a->total;
    tw_type type = tw_type_tensor(g->ctx, all->type->elem, 4, dims, NULL);
    tw_value *y =
        TW_GB_EMIT(g, GATHER_ELEMENTS, ((tw_value *[]){all, tw_gb_expand(g, from, 4, dims)}), 2,
                   type, {"axis", tw_attr_int(g->ctx, 2)});
    return tw_gb_where(g, valid, y, tw_gb_scalar(g, all->type->elem, 0));
}

/* ---- Scores ---- */

/* Which keys each query sees. */
static tw_value *visible(gqa *a)
{
    tw_gb *g = a->g;
    tw_value *at = tw_onnx_positions(g, a->total, 3);
    tw_value *seen = tw_gb_binary(g, TW_GRAPH_LESS, at, a->ends);
    tw_value *row = tw_onnx_positions(g, a->q->type->dims[2], 2);
    if (a->earlier)
        row = tw_gb_binary(g, TW_GRAPH_ADD, row, a->earlier);
    if (a->causal)
        seen = tw_gb_binary(g, TW_GRAPH_LESS_EQUAL, at, row);
    if (a->window > 0) {
        tw_value *first = tw_gb_binary_scalar(g, TW_GRAPH_SUB, row, (double)a->window);
        seen = tw_gb_binary(g, TW_GRAPH_AND, seen, tw_gb_binary(g, TW_GRAPH_GREATER, at, first));
    }
    return seen;
}

/* softmax, with one more score in the sum that gets no weight: the head's sink, or 0. */
static tw_value *weights_of(gqa *a, tw_value *scores)
{
    tw_gb *g = a->g;
    tw_value *sink = tw_onnx_in(a->n, SINK);
    if (!scores || (!sink && !a->smooth))
        return tw_gb_softmax(g, TW_GRAPH_SOFTMAX, scores, 3);
    tw_expr dims[4];
    memcpy(dims, scores->type->dims, sizeof dims);
    dims[3] = tw_gb_const(g, 1);
    sink = sink ? tw_gb_unsqueeze(g, tw_gb_cast(g, sink, TW_F32), 13) : tw_gb_scalar(g, TW_F32, 0);
    tw_value *parts[2] = {tw_gb_expand(g, sink, 4, dims), scores};
    tw_value *weights = tw_gb_softmax(g, TW_GRAPH_SOFTMAX, tw_gb_concat(g, parts, 2, 3), 3);
    return tw_gb_slice_axis(g, weights, 3, dims[3], 1, a->total);
}

/* Scores of the keys that the bias covers, the first ones, with it. */
static tw_value *with_bias(gqa *a, tw_value *scores)
{
    tw_gb *g = a->g;
    tw_value *bias = tw_onnx_in(a->n, BIAS);
    tw_expr zero = tw_gb_const(g, 0);
    if (!bias)
        return scores;
    if (bias->type->rank != 4)
        return tw_gb_error(g, "input %u is %s; rank 4 is needed", BIAS,
                           tw_gb_type_text(g, bias->type));
    tw_expr more = tw_expr_sub(g->ctx, a->total, bias->type->dims[3]);
    bias = tw_gb_pad(g, tw_gb_cast(g, bias, TW_F32), (tw_expr[]){zero, zero, zero, zero},
                     (tw_expr[]){zero, zero, zero, more}, "constant", NULL);
    return tw_gb_binary(g, TW_GRAPH_ADD, scores, bias);
}

bool tw_onnx_op_group_query_attention(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    gqa a = {.n = n, .g = g};
    if (!tw_onnx_check_elem(n, QUERY, TW_ONNX_FLOATS) || !read_attributes(&a) || !read_heads(&a) ||
        !read_lengths(&a) || !prepare(&a))
        return false;
    tw_elem elem = n->in[QUERY]->type->elem;
    tw_value *k = present(&a, a.k, tw_onnx_in(n, PAST_KEY));
    tw_value *v = present(&a, a.v, tw_onnx_in(n, PAST_VALUE));
    tw_value *scores =
        tw_onnx_scores(g, tw_gb_cast(g, a.q, TW_F32), tw_gb_cast(g, k, TW_F32), a.scale);
    scores = with_bias(&a, tw_onnx_softcap(g, scores, a.softcap));
    tw_value *weights =
        weights_of(&a, tw_onnx_keep_where(g, visible(&a), scores, -(double)INFINITY));
    tw_value *y = tw_onnx_join_heads(g, tw_onnx_weigh(g, weights, tw_gb_cast(g, v, TW_F32)));
    if (a.output_scores &&
        !tw_onnx_set(n, 3, tw_gb_cast(g, a.output_scores == 1 ? scores : weights, elem)))
        return false;
    return tw_onnx_set(n, 0, tw_gb_cast(g, y, elem)) && tw_onnx_set(n, 1, k) &&
           tw_onnx_set(n, 2, v);
}
