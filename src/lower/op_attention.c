/* op_attention.c: attention, without a matrix of all scores (Dao et al., FlashAttention, 2022).
 *
 * A block of rows (queries) meets one tile of keys after the other; for each row the largest score
 * so far, the sum of exponentials relative to it and the weighted sum of values are kept:
 *
 *     for b, h, t {                                       blocks of ROWS queries
 *       "attention_queries":  Q[x, i]   = q[b, h, t * ROWS + i, x] * scale
 *       for u {                                           tiles of keys
 *         "attention_scores":   S[j, i]   = sum over x of Q[x, i] * k[b, g, u * KEYS + j, x]
 *         "attention_masked":   S[j, i]   = S[j, i] + mask …
 *         "attention_max":      m'[i]     = max(m[i], max over j of S[j, i])
 *         "attention_exp":      S[j, i]   = exp(S[j, i] - m'[i])
 *         "attention_sum":      l[i]      = l[i] * exp(m[i] - m'[i]) + sum over j of S[j, i]
 *         "attention_product":  O[i, y]   = O[i, y] * exp(m[i] - m'[i]) +
 *                                           sum over j of S[j, i] * v[b, g, u * KEYS + j, y]
 *       }
 *       "attention":          out[b, h, t * ROWS + i, y] = O[i, y] / l[i]
 *     }
 *
 * With `causal` the loop over u ends with the last tile that a query of the block meets, and what
 * is above the diagonal is masked in the tiles that remain. (NaN in keys and values that a query
 * does not meet may then not reach it.)
 *
 * Rows are the last axis of Q and S, so that they lie in the lanes of vectors and no reduction goes
 * across lanes; keys and values are read as they are. The last tile of keys, which may have fewer,
 * stands behind the loop; keys that fit in one tile need nothing kept. Rows beyond the last are
 * computed from zeros and not stored.
 *
 * What is special stays as in softmax(q k^T) v: a row with NaN or +inf among its scores, or with
 * nothing but -inf, gives NaN (0 / 0); no keys at all give 0. While a row has met nothing but -inf,
 * exponentials are taken relative to 0, as -inf - -inf would make NaN of keys still to come. */
#include "lower/lowering.h"

#include <math.h>

enum {
    ONE_TILE = 256,         /* so many keys make a tile of their own */
    KEYS = 128,             /* of a tile, when there are more */
    CAUSAL_KEYS = 64,       /* instead of both, where small tiles have more to skip */
    ROWS = 32,              /* when their number is not known */
    PANEL_BYTES = 32 << 10, /* scores of a tile should stay in the nearest cache */
    BLOCK_COST = 8,         /* reading keys and values for a block, in rows' work */
};

typedef struct attention {
    tw_lowering *l;
    tw_op *op;
    tw_value *q, *k, *v, *out;
    tw_elem elem;   /* that it is computed in */
    tw_expr repeat; /* heads of queries for each one of keys */
    tw_expr causal; /* query i meets the keys up to i + causal; NULL: all */
    int64_t rows;   /* of a block */
    tw_axis axes[TW_LOWERING_MAX_OUTER];
    tw_value *queries;
    tw_expr first_key, keys;    /* of the tile */
    tw_expr most_keys;          /* of any tile */
    tw_value *max, *sum, *rest; /* of earlier tiles: m, l, O; NULL when there is one tile only */
} attention;

/* ---- Stages within the outer loops ---- */

static void open(attention *a, tw_stage *s, const char *name, const tw_axis *axes, unsigned n)
{
    tw_axis all[TW_LOWERING_MAX_OUTER + 3];
    unsigned outer = a->l->n_outer;
    for (unsigned i = 0; i < outer + n; i++)
        all[i] = i < outer ? a->axes[i] : axes[i - outer];
    tw_stage_open(a->l, s, tw_name(a->l, "attention", name), all, outer + n);
    s->read_when_empty = true;
}

/* Axis i of those behind the outer loops'. */
static tw_expr inner(const tw_stage *s, unsigned i)
{
    return tw_stage_axis(s, s->l->n_outer + i);
}

/* A loop that goes to `end`, which is over the variables of the loops around, and never beyond
 * `extent`. */
static void push_loop_to(attention *a, const char *name, tw_expr extent, tw_expr end)
{
    tw_lowering *l = a->l;
    tw_builder b = tw_builder_at_end(l->ctx, tw_lowering_place(l), l->op->loc);
    tw_value *around[TW_LOWERING_MAX_OUTER];
    for (unsigned i = 0; i < l->n_outer; i++)
        around[i] = l->outer[i]->regions[0].args[0];
    a->axes[l->n_outer] = (tw_axis){name, extent, false};
    tw_op *loop = tw_loop_for(&b, tw_expr_const(l->ctx, 0), end, around,
                              tw_expr_dim_count(end) ? l->n_outer : 0, NULL, name);
    l->outer[l->n_outer++] = loop;
}

static void push_loop(attention *a, const char *name, tw_expr extent)
{
    push_loop_to(a, name, extent, extent);
}

static tw_axis row_axis(const attention *a)
{
    return (tw_axis){"i", tw_expr_const(a->l->ctx, a->rows), false};
}

static tw_axis key_axis(const attention *a, bool reduce)
{
    return (tw_axis){"j", a->keys, reduce};
}

static tw_value *row_buffer(attention *a, const char *name)
{
    tw_expr rows = tw_expr_const(a->l->ctx, a->rows);
    return tw_lowering_alloc(a->l, a->elem, 1, &rows, name);
}

static tw_value *matrix(attention *a, tw_expr m, tw_expr n, const char *name)
{
    return tw_lowering_alloc(a->l, a->elem, 2, (tw_expr[]){m, n}, name);
}

/* The number of a query in the whole, and what is >= 0 when there is such a query. */
static tw_expr query(const attention *a, const tw_stage *s, tw_expr i)
{
    return tw_expr_add(a->l->ctx, tw_expr_mulc(a->l->ctx, tw_stage_axis(s, 2), a->rows), i);
}

static tw_expr in_range(const attention *a, tw_expr row)
{
    return tw_expr_sub(a->l->ctx, tw_expr_addc(a->l->ctx, tw_size(a->q, 2), -1), row);
}

/* The index of key or value j of the tile, and element x of it. */
static void key_index(const attention *a, const tw_stage *s, tw_expr j, tw_expr x, tw_expr *index)
{
    tw_context *ctx = a->l->ctx;
    index[0] = tw_stage_axis(s, 0);
    index[1] = tw_expr_binary(ctx, TW_EXPR_FLOORDIV, tw_stage_axis(s, 1), a->repeat);
    index[2] = tw_expr_add(ctx, a->first_key, j);
    index[3] = x;
}

/* ---- Scores ---- */

static void pack_queries(attention *a)
{
    tw_stage s;
    tw_axis axes[] = {{"x", tw_size(a->q, 3), false}, row_axis(a)};
    a->queries = matrix(a, axes[0].extent, axes[1].extent, "queries");
    open(a, &s, "_queries", axes, 2);
    tw_expr row = query(a, &s, inner(&s, 1)), where = in_range(a, row);
    tw_expr index[] = {tw_stage_axis(&s, 0), tw_stage_axis(&s, 1), row, inner(&s, 0)};
    tw_value *zero = tw_stage_const(&s, a->q->type->elem, 0);
    tw_value *x = tw_stage_load_where(&s, a->q, index, &where, 1, zero);
    x = tw_stage_cast(&s, x, a->elem);
    x = tw_s2(&s, TW_LOOP_MUL, x, tw_like(&s, x, tw_op_float(a->op, "scale", 1)));
    tw_stage_store(&s, x, a->queries, (tw_expr[]){inner(&s, 0), inner(&s, 1)});
    tw_stage_close(&s);
}

/* The mask's element for a score; beyond the last query any that is there. */
static tw_value *load_mask(const attention *a, tw_stage *s, tw_value *mask, tw_expr j, tw_expr row)
{
    tw_context *ctx = a->l->ctx;
    tw_expr at[4] = {tw_stage_axis(s, 0), tw_stage_axis(s, 1), tw_expr_add(ctx, a->first_key, j),
                     row};
    tw_expr index[4], where = in_range(a, row);
    unsigned rank = mask->type->rank;
    bool by_row = false;
    for (unsigned i = 0; i < rank; i++) {
        unsigned axis = 4 - rank + i;
        bool repeated = tw_is_size(tw_size(mask, i), 1);
        by_row = by_row || (axis == 3 && !repeated);
        index[i] = repeated ? tw_stage_int(s, 0) : at[axis];
    }
    if (!by_row)
        return tw_stage_load(s, mask, index);
    tw_value *none = tw_stage_const(s, mask->type->elem, 0);
    return tw_stage_load_where(s, mask, index, &where, 1, none);
}

/* Whether the query meets key j of the tile. */
static tw_value *meets(const attention *a, tw_stage *s, tw_expr j, tw_expr row)
{
    tw_expr key = tw_expr_add(a->l->ctx, a->first_key, j);
    tw_value *last = tw_stage_index(s, tw_expr_add(a->l->ctx, row, a->causal));
    return tw_stage_compare(s, "le", tw_stage_index(s, key), last);
}

static tw_value *mask_scores(attention *a, tw_value *const *masks, unsigned n, tw_value *products)
{
    double cap = tw_op_float(a->op, "softcap", 0), fill = tw_op_float(a->op, "fill", -INFINITY);
    tw_axis axes[] = {key_axis(a, false), row_axis(a)};
    if (!n && cap == 0 && !a->causal)
        return products;
    tw_stage s;
    tw_value *to = matrix(a, a->most_keys, axes[1].extent, "scores");
    open(a, &s, "_masked", axes, 2);
    tw_expr at[] = {inner(&s, 0), inner(&s, 1)}, row = query(a, &s, at[1]);
    tw_value *x = tw_stage_load(&s, products, at);
    if (cap != 0) {
        x = tw_s1(&s, TW_LOOP_TANH, tw_s2(&s, TW_LOOP_DIV, x, tw_like(&s, x, cap)));
        x = tw_s2(&s, TW_LOOP_MUL, x, tw_like(&s, x, cap));
    }
    for (unsigned i = 0; i < n; i++) {
        tw_value *mask = load_mask(a, &s, masks[i], at[0], row);
        x = masks[i]->type->elem == TW_BOOL
                ? tw_stage_select(&s, mask, x, tw_like(&s, x, fill))
                : tw_s2(&s, TW_LOOP_ADD, x, tw_stage_cast(&s, mask, a->elem));
    }
    if (a->causal)
        x = tw_stage_select(&s, meets(a, &s, at[0], row), x, tw_like(&s, x, -INFINITY));
    tw_stage_store(&s, x, to, at);
    tw_stage_close(&s);
    return to;
}

static tw_value *make_scores(attention *a, tw_value *const *masks, unsigned n)
{
    tw_stage s;
    tw_axis axes[] = {key_axis(a, false), row_axis(a), {"x", tw_size(a->q, 3), true}};
    tw_value *products = matrix(a, a->most_keys, axes[1].extent, "products");
    open(a, &s, "_scores", axes, 3);
    tw_expr index[4], x = inner(&s, 2);
    key_index(a, &s, inner(&s, 0), x, index);
    tw_value *key = tw_stage_cast(&s, tw_stage_load(&s, a->k, index), a->elem);
    tw_value *q = tw_stage_load(&s, a->queries, (tw_expr[]){x, inner(&s, 1)});
    tw_stage_reduce_product(&s, q, key, products, (tw_expr[]){inner(&s, 0), inner(&s, 1)});
    tw_stage_close(&s);
    return mask_scores(a, masks, n, products);
}

/* ---- Softmax ---- */

/* Over the keys of the tile: the largest score, or the sum, of each row. */
static tw_value *reduce_keys(attention *a, const char *name, tw_value *scores, const char *combine,
                             double identity)
{
    tw_stage s;
    tw_axis axes[] = {row_axis(a), key_axis(a, true)};
    tw_value *to = row_buffer(a, name + 1);
    open(a, &s, name, axes, 2);
    tw_expr row = inner(&s, 0);
    tw_value *x = tw_stage_load(&s, scores, (tw_expr[]){inner(&s, 1), row});
    tw_stage_reduce(&s, combine, identity, x, to, &row);
    tw_stage_close(&s);
    return to;
}

/* Where `max` is -inf: 0. */
static tw_value *finite_base(tw_stage *s, tw_value *max)
{
    tw_value *none = tw_stage_compare(s, "eq", max, tw_like(s, max, -INFINITY));
    return tw_stage_select(s, none, tw_like(s, max, 0), max);
}

/* In place: nothing needs the scores any more. */
static void exponentials(attention *a, tw_value *scores, tw_value *base)
{
    tw_stage s;
    tw_axis axes[] = {key_axis(a, false), row_axis(a)};
    open(a, &s, "_exp", axes, 2);
    tw_expr at[] = {inner(&s, 0), inner(&s, 1)};
    tw_value *x = tw_stage_load(&s, scores, at);
    x = tw_s2(&s, TW_LOOP_SUB, x, tw_stage_load(&s, base, &at[1]));
    tw_stage_store(&s, tw_s1(&s, TW_LOOP_EXP, x), scores, at);
    tw_stage_close(&s);
}

/* ---- Values ---- */

static tw_value *weigh_values(attention *a, tw_value *weights)
{
    tw_stage s;
    tw_axis axes[] = {row_axis(a), {"y", tw_size(a->v, 3), false}, key_axis(a, true)};
    tw_value *to = matrix(a, axes[0].extent, axes[1].extent, "weighed");
    open(a, &s, "_product", axes, 3);
    tw_expr index[4], row = inner(&s, 0), y = inner(&s, 1), j = inner(&s, 2);
    key_index(a, &s, j, y, index);
    tw_value *value = tw_stage_cast(&s, tw_stage_load(&s, a->v, index), a->elem);
    tw_value *weight = tw_stage_load(&s, weights, (tw_expr[]){j, row});
    tw_stage_reduce_product(&s, weight, value, to, (tw_expr[]){row, y});
    tw_stage_close(&s);
    return to;
}

/* 1 / sum; of no keys 1. */
static tw_value *inverse_sum(attention *a, tw_value *sum)
{
    tw_stage s;
    tw_axis axis = row_axis(a);
    tw_expr count = tw_size(a->k, 2);
    tw_value *to = row_buffer(a, "inverse");
    open(a, &s, "_inverse", &axis, 1);
    tw_expr row = inner(&s, 0);
    tw_value *one = tw_stage_const(&s, a->elem, 1);
    tw_value *y = tw_s2(&s, TW_LOOP_DIV, one, tw_stage_load(&s, sum, &row));
    if (tw_may_be_empty(count)) {
        tw_value *keys = tw_stage_size(&s, TW_I64, count);
        y = tw_stage_select(&s, tw_stage_compare(&s, "eq", keys, tw_like(&s, keys, 0)), one, y);
    }
    tw_stage_store(&s, y, to, &row);
    tw_stage_close(&s);
    return to;
}

static void store_rows(attention *a, tw_value *weighed, tw_value *inverse)
{
    tw_stage s;
    tw_axis axes[] = {row_axis(a), {"y", tw_size(a->v, 3), false}};
    bool rows_first = tw_op_bool(a->op, "rows_first", false);
    open(a, &s, "", axes, 2);
    tw_expr row = query(a, &s, inner(&s, 0)), at[] = {inner(&s, 0), inner(&s, 1)};
    tw_expr head = tw_stage_axis(&s, 1);
    tw_expr index[] = {tw_stage_axis(&s, 0), rows_first ? row : head, rows_first ? head : row,
                       at[1]};
    tw_value *y = tw_stage_load(&s, weighed, at);
    y = tw_s2(&s, TW_LOOP_MUL, y, tw_stage_load(&s, inverse, at));
    tw_expr where = in_range(a, row);
    tw_stage_store_where(&s, y, a->out, index, &where, 1);
    tw_stage_close(&s);
}

/* ---- Tiles ---- */

static void fill(attention *a, tw_value *buffer, const char *name, double value)
{
    tw_stage s;
    tw_axis axes[] = {row_axis(a), {"y", tw_size(a->v, 3), false}};
    open(a, &s, name, axes, buffer->type->rank);
    tw_expr at[] = {inner(&s, 0), inner(&s, 1)};
    tw_stage_store(&s, tw_stage_const(&s, a->elem, value), buffer, at);
    tw_stage_close(&s);
}

/* to[i] = what `value` makes of the row's loads of x and y. */
static tw_value *per_row(attention *a, const char *name, tw_value *to, tw_value *x, tw_value *y,
                         tw_value *z, tw_value *(*value)(tw_stage *, tw_value *const *))
{
    tw_stage s;
    tw_axis axis = row_axis(a);
    open(a, &s, name, &axis, 1);
    tw_expr row = inner(&s, 0);
    tw_value *in[] = {tw_stage_load(&s, x, &row), tw_stage_load(&s, y, &row),
                      z ? tw_stage_load(&s, z, &row) : NULL};
    tw_stage_store(&s, value(&s, in), to, &row);
    tw_stage_close(&s);
    return to;
}

static tw_value *larger_base(tw_stage *s, tw_value *const *in)
{
    return finite_base(s, tw_s2(s, TW_LOOP_MAX, in[0], in[1]));
}

static tw_value *larger(tw_stage *s, tw_value *const *in)
{
    return tw_s2(s, TW_LOOP_MAX, in[0], in[1]);
}

static tw_value *factor_of(tw_stage *s, tw_value *const *in)
{
    return tw_s1(s, TW_LOOP_EXP, tw_s2(s, TW_LOOP_SUB, in[0], in[1]));
}

static tw_value *scaled_sum(tw_stage *s, tw_value *const *in)
{
    return tw_s2(s, TW_LOOP_ADD, tw_s2(s, TW_LOOP_MUL, in[0], in[1]), in[2]);
}

/* O = O * factor + weighed. */
static void add_weighed(attention *a, tw_value *factor, tw_value *weighed)
{
    tw_stage s;
    tw_axis axes[] = {row_axis(a), {"y", tw_size(a->v, 3), false}};
    open(a, &s, "_add", axes, 2);
    tw_expr at[] = {inner(&s, 0), inner(&s, 1)};
    tw_value *old = tw_stage_load(&s, a->rest, at);
    old = tw_s2(&s, TW_LOOP_MUL, old, tw_stage_load(&s, factor, at));
    tw_stage_store(&s, tw_s2(&s, TW_LOOP_ADD, old, tw_stage_load(&s, weighed, at)), a->rest, at);
    tw_stage_close(&s);
}

/* One of several tiles of keys. */
static void meet_tile(attention *a, tw_value *const *masks, unsigned n)
{
    tw_value *scores = make_scores(a, masks, n);
    tw_value *max = reduce_keys(a, "_max", scores, "max", -INFINITY);
    tw_value *base = per_row(a, "_base", row_buffer(a, "base"), a->max, max, NULL, larger_base);
    tw_value *factor =
        per_row(a, "_factor", row_buffer(a, "factor"), a->max, base, NULL, factor_of);
    per_row(a, "_max_so_far", a->max, a->max, max, NULL, larger);
    exponentials(a, scores, base);
    tw_value *sum = reduce_keys(a, "_sum", scores, "add", 0);
    per_row(a, "_sum_so_far", a->sum, a->sum, factor, sum, scaled_sum);
    add_weighed(a, factor, weigh_values(a, scores));
}

/* All keys at once. */
static void only_tile(attention *a, tw_value *const *masks, unsigned n)
{
    a->first_key = tw_expr_const(a->l->ctx, 0);
    a->keys = a->most_keys = tw_size(a->k, 2);
    tw_value *scores = make_scores(a, masks, n);
    exponentials(a, scores, reduce_keys(a, "_max", scores, "max", -INFINITY));
    tw_value *inverse = inverse_sum(a, reduce_keys(a, "_sum", scores, "add", 0));
    store_rows(a, weigh_values(a, scores), inverse);
}

/* The number of tiles from key `first` on, `most` of them, of which the block meets a key. */
static tw_expr tiles_met(const attention *a, tw_expr first, int64_t tile, tw_expr most)
{
    tw_context *ctx = a->l->ctx;
    if (!a->causal)
        return most;
    tw_expr rows = tw_expr_mulc(ctx, tw_expr_addc(ctx, tw_expr_dim(ctx, 2), 1), a->rows);
    rows = tw_expr_binary(ctx, TW_EXPR_MIN, rows, tw_size(a->q, 2));
    tw_expr keys = tw_expr_sub(ctx, tw_expr_add(ctx, rows, a->causal), first);
    tw_expr met = tw_expr_binary(ctx, TW_EXPR_CEILDIV, keys, tw_expr_const(ctx, tile));
    met = tw_expr_binary(ctx, TW_EXPR_MAX, met, tw_expr_const(ctx, 0));
    return tw_expr_binary(ctx, TW_EXPR_MIN, met, most);
}

/* Whole tiles in a loop; the last, of 1 to `tile` keys, behind it. */
static void several_tiles(attention *a, tw_value *const *masks, unsigned n, int64_t tile)
{
    tw_context *ctx = a->l->ctx;
    tw_expr count = tw_size(a->k, 2), zero = tw_expr_const(ctx, 0);
    tw_expr before = tw_expr_addc(ctx, count, -1), size = tw_expr_const(ctx, tile);
    tw_expr whole = tw_expr_binary(ctx, TW_EXPR_FLOORDIV, before, size);
    bool empty = tw_may_be_empty(count);
    a->max = row_buffer(a, "max");
    a->sum = row_buffer(a, "sum");
    a->rest = matrix(a, row_axis(a).extent, tw_size(a->v, 3), "rows");
    fill(a, a->max, "_max_start", -INFINITY);
    fill(a, a->sum, "_sum_start", 0);
    fill(a, a->rest, "_start", 0);

    tw_expr most = empty ? tw_expr_binary(ctx, TW_EXPR_MAX, whole, zero) : whole;
    push_loop_to(a, "u", most, tiles_met(a, zero, tile, most));
    a->first_key = tw_expr_mulc(ctx, tw_expr_dim(ctx, 3), tile);
    a->keys = a->most_keys = size;
    meet_tile(a, masks, n);
    a->l->n_outer--;

    a->first_key = tw_expr_mulc(ctx, whole, tile);
    a->keys = tw_expr_addc(ctx, tw_expr_binary(ctx, TW_EXPR_MOD, before, size), 1);
    most = empty ? tw_expr_binary(ctx, TW_EXPR_MIN, count, tw_expr_const(ctx, 1))
                 : tw_expr_const(ctx, 1);
    push_loop_to(a, "u", most, tiles_met(a, a->first_key, tile, most));
    meet_tile(a, masks, n);
    a->l->n_outer--;
    store_rows(a, a->rest, inverse_sum(a, a->sum));
}

/* ---- Sizes ---- */

/* Keys of a tile: tiles of about one size. 0: all in one. */
static int64_t choose_keys(tw_expr count, bool causal)
{
    int64_t most = causal ? CAUSAL_KEYS : KEYS;
    if (!tw_expr_is_const(count))
        return most;
    int64_t tiles = (count->value + most - 1) / most;
    return count->value <= (causal ? CAUSAL_KEYS : ONE_TILE) ? 0
                                                             : (count->value + tiles - 1) / tiles;
}

/* Rows of a block: a multiple of vectors' lanes that leaves little over. */
static int64_t choose_rows(tw_expr count, int64_t keys, tw_elem elem)
{
    int64_t best = ROWS, bytes = tw_elem_bits(elem) / 8;
    double least = INFINITY;
    if (!tw_expr_is_const(count))
        return ROWS;
    for (int64_t rows = 16; rows <= 64; rows += 16) {
        int64_t blocks = (count->value + rows - 1) / rows;
        double work = (double)(blocks * (rows + BLOCK_COST));
        if (work < least && (rows == 16 || rows * keys * bytes <= PANEL_BYTES)) {
            least = work;
            best = rows;
        }
    }
    return best;
}

/* How many heads of queries share one of keys. */
static tw_expr find_repeat(const attention *a)
{
    tw_expr heads = tw_size(a->q, 1), groups = tw_size(a->k, 1);
    return heads == groups ? tw_expr_const(a->l->ctx, 1)
                           : tw_expr_binary(a->l->ctx, TW_EXPR_FLOORDIV, heads, groups);
}

bool tw_lower_attention(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    attention a = {.l = l, .op = op, .q = in[0], .k = in[1], .v = in[2], .out = out[0]};
    a.repeat = find_repeat(&a);
    if (tw_graph_exprs(l->ctx, op, "causal", &a.causal, 1) != 1)
        a.causal = NULL;
    a.elem = tw_compute_elem(in[0]->type->elem);
    int64_t tile = choose_keys(tw_size(a.k, 2), a.causal);
    a.rows = choose_rows(tw_size(a.q, 2), tile ? tile : tw_size(a.k, 2)->value, a.elem);
    push_loop(&a, "b", tw_size(a.q, 0));
    push_loop(&a, "h", tw_size(a.q, 1));
    push_loop(
        &a, "t",
        tw_expr_binary(l->ctx, TW_EXPR_CEILDIV, tw_size(a.q, 2), tw_expr_const(l->ctx, a.rows)));
    pack_queries(&a);
    if (tile)
        several_tiles(&a, in + 3, op->n_operands - 3, tile);
    else
        only_tile(&a, in + 3, op->n_operands - 3);
    l->n_outer = 0;
    return true;
}
