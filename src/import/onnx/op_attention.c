/* op_attention.c: attention and rotary embedding, decomposed.
 *
 *     softmax(softcap(scale * Q K^T) + mask) V        over [batch, heads, sequence, size] */
#include "import/onnx/attention.h"

#include <math.h>

static const int64_t swap_heads[4] = {0, 2, 1, 3};

typedef struct attention {
    tw_onnx_node *n;
    tw_gb *g;
    tw_value *q, *k, *v; /* [batch, heads, sequence, size] */
    tw_expr total;       /* keys, earlier ones too */
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
    tw_value *x = a->n->in[i];
    int64_t heads = tw_onnx_int(a->n, attribute, 0, &ok);
    if (!ok)
        return NULL;
    return x->type->rank == 4 ? x : tw_onnx_split_heads(a->g, x, heads);
}

static bool read_attention(attention *a)
{
    bool ok = true;
    tw_onnx_node *n = a->n;
    a->flat = n->in[0]->type->rank == 3;
    a->q = heads_of(a, 0, "q_num_heads");
    a->k = heads_of(a, 1, "kv_num_heads");
    a->v = heads_of(a, 2, "kv_num_heads");
    if (!a->q || !a->k || !a->v)
        return false;
    a->k = tw_onnx_with_past(a->g, tw_onnx_in(n, 4), a->k);
    a->v = tw_onnx_with_past(a->g, tw_onnx_in(n, 5), a->v);
    if (!a->k || !a->v)
        return false;
    a->total = a->k->type->dims[2];
    a->causal = tw_onnx_int(n, "is_causal", 0, &ok);
    a->softcap = tw_onnx_float(n, "softcap", 0, &ok);
    a->mode = tw_onnx_int(n, "qk_matmul_output_mode", 0, &ok);
    a->scale = tw_onnx_float(n, "scale", 0, &ok);
    return ok;
}

/* ---- Scores ---- */

static tw_value *keep_where(attention *a, tw_value *condition, tw_value *scores)
{
    return tw_onnx_keep_where(a->g, condition, scores, -(double)INFINITY);
}

/* A mask of as many columns as the run decides, made as long as the keys: one column holds for all
 * of them, and beyond the end of others nothing is kept. */
static tw_value *open_mask(attention *a, tw_value *mask, double nothing)
{
    tw_gb *g = a->g;
    unsigned last = mask->type->rank - 1;
    tw_expr sizes[4], one = tw_gb_const(g, 1);
    for (unsigned i = 0; i <= last; i++)
        sizes[i] = i == last ? a->total : one;
    tw_value *length = tw_onnx_size(g, mask, last), *key = tw_gb_iota(g, TW_I64, 1, &a->total, 0);
    tw_value *at =
        tw_gb_binary(g, TW_GRAPH_MIN, key, tw_gb_binary_scalar(g, TW_GRAPH_ADD, length, -1));
    tw_value *inside = tw_gb_binary(g, TW_GRAPH_OR, tw_gb_binary(g, TW_GRAPH_LESS, key, length),
                                    tw_gb_binary_scalar(g, TW_GRAPH_EQUAL, length, 1));
    return tw_gb_where(g, tw_gb_reshape(g, inside, last + 1, sizes),
                       tw_gb_gather(g, mask, at, last), tw_gb_scalar(g, mask->type->elem, nothing));
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
    double nothing = mask->type->elem == TW_BOOL ? 0 : -(double)INFINITY;
    tw_expr length = mask->type->dims[rank - 1], missing = tw_expr_sub(g->ctx, a->total, length);
    if (missing == zero || length == tw_gb_const(g, 1))
        return mask;
    tw_range more = tw_expr_range(missing, NULL, 0);
    if (more.lo <= 0)
        return tw_expr_is_const(missing) ? mask : open_mask(a, mask, nothing);
    for (unsigned i = 0; i < rank; i++) {
        begin[i] = zero;
        end[i] = i + 1 == rank ? missing : zero;
    }
    return tw_gb_pad(g, mask, begin, end, "constant", tw_gb_scalar(g, mask->type->elem, nothing));
}

static tw_value *mask_scores(attention *a, tw_value *scores)
{
    tw_gb *g = a->g;
    tw_value *mask = tw_onnx_in(a->n, 3), *lengths = tw_onnx_in(a->n, 6);
    if (mask) {
        if (mask->type->elem != TW_BOOL) /* which is padded by -infinity */
            mask = tw_gb_cast(g, mask, a->q->type->elem);
        mask = mask ? full_mask(a, mask) : NULL;
        if (!mask)
            return NULL;
        scores = mask->type->elem == TW_BOOL ? keep_where(a, mask, scores)
                                             : tw_gb_binary(g, TW_GRAPH_ADD, scores, mask);
    }
    if (a->causal) {
        tw_value *row = tw_onnx_positions(g, a->q->type->dims[2], 2);
        if (tw_onnx_in(a->n, 4))
            row = tw_gb_binary(g, TW_GRAPH_ADD, row, tw_onnx_size(g, a->n->in[4], 2));
        scores = keep_where(
            a, tw_gb_binary(g, TW_GRAPH_LESS_EQUAL, tw_onnx_positions(g, a->total, 3), row),
            scores);
    }
    if (lengths) {
        tw_value *length = tw_gb_unsqueeze(g, tw_gb_cast(g, lengths, TW_I64), 14);
        scores = keep_where(
            a, tw_gb_binary(g, TW_GRAPH_LESS, tw_onnx_positions(g, a->total, 3), length), scores);
    }
    return scores;
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
    stages[0] = tw_onnx_scores(g, a.q, a.k, a.scale);
    stages[1] = tw_onnx_softcap(g, stages[0], a.softcap);
    stages[2] = mask_scores(&a, stages[1]);
    stages[3] = weights_of(&a, stages[2]);
    tw_value *y = tw_onnx_weigh(g, stages[3], a.v);
    if (a.flat)
        y = tw_onnx_join_heads(g, y);
    if (tw_onnx_wants(n, 3) && (a.mode < 0 || a.mode > 3))
        return tw_onnx_error(n, "attribute 'qk_matmul_output_mode' is %lld; accepted are 0 to 3",
                             (long long)a.mode);
    return tw_onnx_set(n, 0, y) && tw_onnx_set(n, 1, present[0]) && tw_onnx_set(n, 2, present[1]) &&
           (!tw_onnx_wants(n, 3) || tw_onnx_set(n, 3, stages[a.mode]));
}

/* ---- FlexAttention: the model's own graphs change scores and weights ---- */

/* x as the graph in the attribute changes it; x itself without one. */
static tw_value *modified(tw_onnx_node *n, const char *attribute, tw_value *x)
{
    const Onnx__AttributeProto *attr = tw_onnx_attr(n, attribute);
    tw_value *y[1];
    if (!attr || !x)
        return x;
    if (!attr->g || attr->g->n_input != 1 || attr->g->n_output != 1)
        return tw_gb_error(n->g, "attribute '%s' must be a graph of one input and one output",
                           attribute);
    if (!tw_onnx_inline_graph(n, attr->g, &x, 1, y))
        return NULL;
    return tw_gb_reshape(n->g, tw_gb_cast(n->g, y[0], x->type->elem), 4, x->type->dims);
}

bool tw_onnx_op_flex_attention(tw_onnx_node *n)
{
    bool ok = true;
    tw_gb *g = n->g;
    tw_elem elem = n->in[0]->type->elem, work = elem == TW_F64 ? TW_F64 : TW_F32;
    int64_t type = tw_onnx_int(n, "softmax_precision", 0, &ok);
    double scale = tw_onnx_float(n, "scale", 0, &ok);
    if (!ok || !tw_onnx_check_elem(n, 0, TW_ONNX_FLOATS))
        return false;
    if (type &&
        (type < 0 || type > 255 || !tw_onnx_elem((int32_t)type, &work) || !tw_elem_is_float(work)))
        return tw_onnx_error(n, "attribute 'softmax_precision' is %lld", (long long)type);
    for (unsigned i = 0; i < 3; i++)
        if (n->in[i]->type->rank != 4)
            return tw_onnx_error(n, "input %u is %s; rank 4 is needed", i,
                                 tw_gb_type_text(g, n->in[i]->type));
    tw_value *scores = tw_gb_cast(g, tw_onnx_scores(g, n->in[0], n->in[1], scale), work);
    scores = modified(n, "score_mod", scores);
    tw_value *weights = tw_gb_softmax(g, TW_GRAPH_SOFTMAX, scores, 3);
    weights = modified(n, "prob_mod", weights);
    tw_value *y = tw_onnx_weigh(g, weights, tw_gb_cast(g, n->in[2], work));
    return tw_onnx_set(n, 0, tw_gb_cast(g, y, elem));
}

/* ---- Rotary embedding ---- */

/* Inputs of the ai.onnx form; that of com.microsoft has the positions before the caches. */
typedef struct rotary {
    tw_onnx_node *n;
    tw_gb *g;
    unsigned cosine, sine, positions;
    tw_value *x;  /* [batch, sequence, heads, size] */
    tw_expr half; /* pairs that are rotated */
} rotary;

/* [batch, sequence] positions; one number is that of the first in each sequence. */
static tw_value *position_ids(rotary *r)
{
    tw_gb *g = r->g;
    tw_value *ids = tw_onnx_in(r->n, r->positions);
    if (!ids || ids->type->rank == 2)
        return ids;
    tw_value *along =
        tw_gb_iota(g, ids->type->elem, 2, (tw_expr[]){tw_gb_const(g, 1), r->x->type->dims[1]}, 1);
    return tw_gb_binary(g, TW_GRAPH_ADD, along, tw_gb_reshape(g, ids, 0, NULL));
}

/* A cache as [batch or 1, sequence, 1, half]. */
static tw_value *cache(rotary *r, unsigned i)
{
    tw_gb *g = r->g;
    tw_value *c = r->n->in[i], *ids = position_ids(r);
    if (ids && c->type->rank == 2)
        c = tw_gb_gather(g, c, ids, 0);
    if (c && (c->type->rank != 3 || tw_gb_differ(g, c->type->dims[2], r->half)))
        return tw_gb_error(g, "input %u is %s; a last axis of %s is needed", i,
                           tw_gb_type_text(g, r->n->in[i]->type),
                           tw_print_expr(g->ctx, r->half, NULL));
    if (!c)
        return NULL;
    tw_expr dims[3] = {c->type->dims[0], c->type->dims[1], r->half};
    return tw_gb_unsqueeze(g, tw_gb_conform(g, c, dims), 4);
}

/* x as [batch, sequence, heads, size]. Without the number of heads, their size is that of the
 * caches. */
static tw_value *rotary_heads(rotary *r, int64_t heads)
{
    tw_gb *g = r->g;
    tw_value *x = r->n->in[0];
    tw_type c = r->n->in[r->cosine]->type;
    if (x->type->rank == 4)
        return tw_gb_transpose(g, x, swap_heads);
    if (x->type->rank != 3 || heads < 0 || heads > INT32_MAX || (heads == 0 && c->rank != 2))
        return NULL;
    const tw_expr *d = x->type->dims;
    tw_expr count = tw_gb_const(g, heads);
    tw_expr size =
        heads ? tw_gb_quotient(g, &d[2], 1, &count, 1) : tw_expr_mulc(g->ctx, c->dims[1], 2);
    if (size && !heads)
        count = tw_gb_quotient(g, &d[2], 1, &size, 1);
    return size && count ? tw_gb_reshape(g, x, 4, (tw_expr[]){d[0], d[1], count, size}) : NULL;
}

/* Heads of a size that is not known, of which all is turned: twice as much as the caches have. */
static bool read_open_size(rotary *r, tw_value *c)
{
    const tw_expr *d = r->x->type->dims;
    r->half = c->type->dims[c->type->rank - 1];
    r->x = tw_gb_conform(r->g, r->x,
                         (tw_expr[]){d[0], d[1], d[2], tw_expr_mulc(r->n->ctx, r->half, 2)});
    return r->x != NULL;
}

/* Likewise, of which only the first elements are turned. */
static bool read_open_part(rotary *r, int64_t rotated)
{
    r->half = tw_gb_const(r->g, rotated / 2);
    if (rotated < 0 || rotated % 2)
        return tw_onnx_error(r->n, "attribute 'rotary_embedding_dim' is %lld", (long long)rotated);
    return tw_gb_check(r->g, tw_expr_addc(r->n->ctx, r->x->type->dims[3], -rotated),
                       "attribute 'rotary_embedding_dim' is %lld, but heads are smaller",
                       (long long)rotated);
}

static bool read_rotary(rotary *r)
{
    bool ok = true;
    tw_onnx_node *n = r->n;
    int64_t heads = tw_onnx_int(n, "num_heads", 0, &ok), size = 0;
    tw_value *c = n->in[r->cosine];
    int64_t rotated = tw_onnx_int(n, "rotary_embedding_dim", 0, &ok);
    if (!ok)
        return false;
    r->x = rotary_heads(r, heads);
    if (!r->x || c->type->rank == 0)
        return tw_onnx_error(n, "input %s with %lld heads and caches %s",
                             tw_gb_type_text(r->g, n->in[0]->type), (long long)heads,
                             tw_gb_type_text(r->g, c->type));
    if (!tw_expr_as_const(r->x->type->dims[3], &size))
        return rotated ? read_open_part(r, rotated) : read_open_size(r, c);
    rotated = rotated ? rotated : size;
    r->half = tw_gb_const(r->g, rotated / 2);
    return (rotated > 0 && rotated % 2 == 0 && rotated <= size) ||
           tw_onnx_error(n, "attribute 'rotary_embedding_dim' is %lld for heads of size %lld",
                         (long long)rotated, (long long)size);
}

/* param 1: com.microsoft's */
bool tw_onnx_op_rotary_embedding(tw_onnx_node *n)
{
    bool ok = true, ms = n->op->param;
    rotary r = {n, n->g, ms ? 2 : 1, ms ? 3 : 2, ms ? 1 : 3, NULL, 0};
    tw_gb *g = n->g;
    bool interleaved = tw_onnx_int(n, "interleaved", 0, &ok);
    if (!ok || !read_rotary(&r))
        return false;
    tw_value *y =
        tw_onnx_rotate(g, r.x, cache(&r, r.cosine), cache(&r, r.sine), r.half, interleaved);
    y = n->in[0]->type->rank == 4
            ? tw_gb_conform(g, tw_gb_transpose(g, y, swap_heads), n->in[0]->type->dims)
            : tw_gb_reshape(g, y, 3, n->in[0]->type->dims);
    return tw_onnx_set(n, 0, y);
}
