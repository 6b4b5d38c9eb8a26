/* fuse_attention.c: attention as models spell it out becomes one operation.
 *
 *   %s = graph.matmul %q, %kt                          // kt: [B, H, D, M], or k with transpose_b
 *   %t = graph.mul %s, 0.125
 *   %u = graph.add %t, %mask
 *   %p = graph.softmax %u {axis = 3}
 *   %o = graph.matmul %p, %v
 *   %r = graph.transpose %o {perm = [0, 2, 1, 3]}
 *     =>
 *   %k = graph.transpose %kt {perm = [0, 1, 3, 2]}
 *   %m = graph.transpose %mask {perm = [0, 1, 3, 2]}
 *   %r = graph.attention %q, %k, %v, %m {scale = 0.125, rows_first = true}
 *
 * Between the products there may be, in this order: scales by constants (also of q and k, before
 * the first), a softcap c * tanh(x / c), and masks: sums with what broadcasts to the scores, and
 * where(condition, x, constant). Reshapes that leave the last two axes alone do not matter: scores
 * of [B * H, N, M] and [B, H, N, M] are one thing. Keys and values whose heads were repeated are
 * taken as they were before.
 *
 * A mask by which a query meets no later key (causal_mask.c lists the forms) becomes the attribute
 * `causal`: the kernel then skips tiles of keys that no query of a block meets.
 *
 * All values in between must have this one use; so an output among them keeps all as it is. Scales
 * act on q then, and scores are summed at once, which changes roundings; what is special (NaN,
 * infinities, rows without keys) stays, as lower/op_attention.c states. Few rows do not fill the
 * lanes of vectors, in which the kernel holds them: such products stay as well. */
#include "transform/transform.h"

#include "dialect/graph/graph.h"
#include "transform/build.h"
#include "transform/causal_mask.h"
#include "transform/constants.h"

#include <math.h>
#include <string.h>

#define LOWEST (-1e30) /* what is lower stands for -inf */

enum { MAX_MASKS = 4, MAX_STEPS = 16, MIN_ROWS = 8 };

/* A mask, and the shape of the scores that it stands beside. */
typedef struct mask {
    tw_value *value;
    tw_type scores;
    bool inverted; /* of booleans: what is true is filled */
} mask;

/* What has been found; masks from the last applied to the first. */
typedef struct attention {
    tw_context *ctx;
    tw_value *q, *k, *v;
    bool k_transposed; /* k is [B, H, D, M] */
    double scale, softcap, fill;
    bool has_fill;
    mask masks[MAX_MASKS];
    unsigned n_masks;
    tw_expr causal;       /* key j stays for query i iff j <= i + causal; NULL: all do */
    tw_expr batch, heads; /* leading axes of the scores */
} attention;

/* ---- Pieces ---- */

static bool same_last_two(tw_type a, tw_type b)
{
    return a->rank >= 2 && b->rank >= 2 && a->dims[a->rank - 1] == b->dims[b->rank - 1] &&
           a->dims[a->rank - 2] == b->dims[b->rank - 2];
}

/* x in mul(x, c) or div(x, c) of a constant; *factor is multiplied by what x is. */
static tw_value *scaled(const tw_value *value, double *factor)
{
    const tw_op *op = value->op;
    tw_elem elem;
    double c;
    bool division = op && tw_is_graph(op, TW_GRAPH_DIV);
    if (!op || (!division && !tw_is_graph(op, TW_GRAPH_MUL)))
        return NULL;
    for (unsigned i = 0; i < (division ? 1 : 2); i++)
        if (tw_operand(op, i)->type == value->type &&
            tw_constant_splat(tw_operand(op, 1 - i), &elem, &c) && isfinite(c) && c != 0) {
            *factor *= division ? 1 / c : c;
            return tw_operand(op, i);
        }
    return NULL;
}

/* The scores under a reshape, or the value. */
static tw_value *through_reshape(tw_value *value)
{
    const tw_op *op = value->op;
    return op && tw_is_graph(op, TW_GRAPH_RESHAPE) &&
                   same_last_two(value->type, tw_operand(op, 0)->type)
               ? tw_operand(op, 0)
               : NULL;
}

/* Whether scores of such a value lead to a product, in so many steps at most: so it is no mask. */
static bool leads_to_product(const tw_value *value, int *left)
{
    while ((*left)-- > 0 && value->op && tw_value_has_one_use(value)) {
        const tw_op *op = value->op;
        switch (tw_graph_kind_of(op)) {
        case TW_GRAPH_MATMUL:
            return true;
        case TW_GRAPH_RESHAPE:
        case TW_GRAPH_DIV:
        case TW_GRAPH_TANH:
            value = tw_operand(op, 0);
            break;
        case TW_GRAPH_WHERE:
            value = tw_operand(op, tw_graph_constant_value(tw_operand(op, 1)) ? 2 : 1);
            break;
        case TW_GRAPH_ADD:
        case TW_GRAPH_MUL:
            value = tw_operand(op, leads_to_product(tw_operand(op, 0), left) ? 0 : 1);
            break;
        default:
            return false;
        }
    }
    return false;
}

static bool add_mask(attention *a, tw_value *value, tw_type scores, bool inverted)
{
    if (a->n_masks == MAX_MASKS || (scores->rank != 3 && scores->rank != 4))
        return false;
    a->masks[a->n_masks++] = (mask){value, scores, inverted};
    return true;
}

/* The scores in add(scores, mask) or where(mask, scores, constant); NULL when it is neither. */
static tw_value *unmasked(attention *a, const tw_value *value)
{
    const tw_op *op = value->op;
    if (op && tw_is_graph(op, TW_GRAPH_ADD)) {
        int left = MAX_STEPS;
        unsigned i = leads_to_product(tw_operand(op, 0), &left) ? 0 : 1;
        tw_value *x = tw_operand(op, i), *m = tw_operand(op, 1 - i);
        return x->type == value->type && add_mask(a, m, value->type, false) ? x : NULL;
    }
    if (op && tw_is_graph(op, TW_GRAPH_WHERE)) {
        bool inverted = tw_graph_constant_value(tw_operand(op, 1)) != NULL;
        tw_value *x = tw_operand(op, inverted ? 2 : 1);
        tw_elem elem;
        double fill;
        if (x->type != value->type ||
            !tw_constant_splat(tw_operand(op, inverted ? 1 : 2), &elem, &fill) ||
            (a->has_fill && a->fill != fill) ||
            !add_mask(a, tw_operand(op, 0), value->type, inverted))
            return NULL;
        a->has_fill = true;
        a->fill = fill;
        return x;
    }
    return NULL;
}

/* x in c * tanh(x / c). */
static tw_value *uncapped(attention *a, const tw_value *value)
{
    double outer = 1, inner = 1;
    const tw_value *tanh = scaled(value, &outer);
    if (!tanh || !tanh->op || !tw_is_graph(tanh->op, TW_GRAPH_TANH) || !tw_value_has_one_use(tanh))
        return NULL;
    const tw_value *quotient = tw_operand(tanh->op, 0);
    tw_value *x = scaled(quotient, &inner);
    if (!x || !tw_value_has_one_use(quotient) || outer <= 0 ||
        fabs(outer * inner - 1) > (tw_elem_bits(value->type->elem) >= 32 ? 1e-6 : 4e-3))
        return NULL;
    a->softcap = outer;
    return x;
}

/* ---- Finding ---- */

static void note_axes(attention *a, tw_type scores)
{
    if (scores->rank == 4 && !a->heads) {
        a->batch = scores->dims[0];
        a->heads = scores->dims[1];
    }
}

/* From the softmax's operand to the first product; NULL when something else is between. */
static tw_op *find_scores(attention *a, tw_value *value)
{
    for (int i = 0; i < MAX_STEPS; i++) {
        tw_value *next;
        if (!tw_value_has_one_use(value) || !value->op)
            return NULL;
        note_axes(a, value->type);
        if (tw_is_graph(value->op, TW_GRAPH_MATMUL))
            return value->op;
        bool inside = a->scale != 1 || a->softcap != 0; /* masks come last */
        if ((next = through_reshape(value)) != NULL || (!inside && (next = unmasked(a, value))) ||
            (a->softcap == 0 && a->scale == 1 && (next = uncapped(a, value))))
            value = next;
        else if ((next = scaled(value, &a->scale)) != NULL)
            value = next;
        else
            return NULL;
    }
    return NULL;
}

static bool is_plain_product(const tw_op *op)
{
    return op && tw_is_graph(op, TW_GRAPH_MATMUL) && !tw_op_bool(op, "transpose_a", false) &&
           !tw_op_attr(op, "b_panel") && !tw_op_attr(op, "dot");
}

/* Rank 3 or 4, all axes but the last two being those of the scores: no product broadcasts. */
static bool has_axes(tw_type t, tw_type scores)
{
    bool good = t->rank == scores->rank && (t->rank == 3 || t->rank == 4);
    for (unsigned i = 0; good && i + 2 < t->rank; i++)
        good = t->dims[i] == scores->dims[i];
    return good;
}

/* Takes scales off a product's operand: they join the scores'. */
static tw_value *without_scale(tw_value *value, double *scale)
{
    tw_value *next;
    while (tw_value_has_one_use(value) && (next = scaled(value, scale)) != NULL)
        value = next;
    return value;
}

static bool is_worth_it(const attention *a)
{
    int64_t rows, size;
    tw_type q = a->q->type, v = a->v->type;
    return (!tw_expr_as_const(q->dims[q->rank - 2], &rows) || rows >= MIN_ROWS) &&
           tw_expr_as_const(q->dims[q->rank - 1], &size) && size > 0 &&
           tw_expr_as_const(v->dims[v->rank - 1], &size) && size > 0 &&
           (!tw_expr_as_const(v->dims[v->rank - 2], &size) || size > 0);
}

static bool find(attention *a, tw_op *op)
{
    tw_value *weights = tw_operand(op, 0);
    tw_value *normal = tw_value_has_one_use(weights) ? through_reshape(weights) : NULL;
    const tw_op *softmax = normal ? normal->op : weights->op;
    if (!is_plain_product(op) || !softmax || !tw_is_graph(softmax, TW_GRAPH_SOFTMAX) ||
        !tw_value_has_one_use(&softmax->results[0]) || !tw_value_has_one_use(weights) ||
        tw_op_int(softmax, "axis", 0) != softmax->results[0].type->rank - 1 ||
        !tw_elem_is_float(weights->type->elem))
        return false;
    note_axes(a, weights->type);
    tw_op *scores = find_scores(a, tw_operand(softmax, 0));
    if (!is_plain_product(scores))
        return false;
    a->q = without_scale(tw_operand(scores, 0), &a->scale);
    a->k = without_scale(tw_operand(scores, 1), &a->scale);
    a->v = tw_operand(op, 1);
    a->k_transposed = !tw_op_bool(scores, "transpose_b", false);
    return !tw_op_bool(op, "transpose_b", false) && has_axes(a->q->type, scores->results[0].type) &&
           has_axes(a->k->type, scores->results[0].type) &&
           has_axes(a->v->type, op->results[0].type) &&
           has_axes(weights->type, op->results[0].type) && is_worth_it(a);
}

/* ---- Causal masks ---- */

/* Whether adding the mask leaves scores far above LOWEST: it adds one of two numbers that are. */
static bool is_mild(const mask *m)
{
    const tw_op *op = m->value->op;
    tw_elem elem;
    double yes, no;
    return op && m->value->type->elem != TW_BOOL && tw_is_graph(op, TW_GRAPH_WHERE) &&
           tw_constant_splat(tw_operand(op, 1), &elem, &yes) &&
           tw_constant_splat(tw_operand(op, 2), &elem, &no) && yes > LOWEST && no > LOWEST;
}

/* Whether mask i may become the attribute. What fills must not be told from -inf: it is, or no
 * weight remains of it beside a key that stays, of which each query has one. */
static bool may_be_causal(const attention *a, unsigned i, const tw_causal *c)
{
    bool fine =
        c->fill == -INFINITY || (c->fill <= LOWEST && tw_expr_range(c->offset, NULL, 0).lo >= 0);
    for (unsigned k = 0; k < a->n_masks && c->fill != -INFINITY; k++)
        fine = fine && (k == i || is_mild(&a->masks[k]));
    return fine;
}

/* Takes the first causal mask that may, or what is causal about it. */
static void find_causal(attention *a)
{
    tw_type q = a->q->type, v = a->v->type;
    for (unsigned i = 0; i < a->n_masks && !a->causal; i++) {
        mask *m = &a->masks[i];
        tw_type t = m->value->type;
        tw_causal c;
        tw_value *rest = NULL;
        if (t->rank < 2 || t->dims[t->rank - 2] != q->dims[q->rank - 2] ||
            t->dims[t->rank - 1] != v->dims[v->rank - 2])
            continue;
        bool condition = t->elem == TW_BOOL;
        if (condition ? !tw_causal_condition(a->ctx, m->value, m->inverted, &c, &rest)
                      : !tw_causal_addend(a->ctx, m->value, &c))
            continue;
        if (condition)
            c.fill = a->has_fill ? a->fill : -INFINITY;
        if (!may_be_causal(a, i, &c))
            continue;
        a->causal = c.offset;
        if (rest)
            m->value = rest;
        else
            memmove(m, m + 1, (--a->n_masks - i) * sizeof *m);
    }
    bool booleans = false;
    for (unsigned i = 0; i < a->n_masks; i++)
        booleans |= a->masks[i].value->type->elem == TW_BOOL;
    a->has_fill &= booleans;
}

/* ---- Building ---- */

/* x of rank 3 or 4 as [B, H, m, n]. */
static tw_value *with_heads(attention *a, tw_builder *b, tw_value *x)
{
    tw_type t = x->type;
    return tw_build_reshape(
        b, x, 4, (tw_expr[]){a->batch, a->heads, t->dims[t->rank - 2], t->dims[t->rank - 1]});
}

/* The last two axes swapped; of one axis it becomes the second last. A transpose becomes another
 * one.
 */
static tw_value *swap_last(tw_builder *b, tw_value *x)
{
    unsigned rank = x->type->rank;
    int64_t perm[TW_MAX_RANK];
    const tw_op *op = x->op;
    bool transposed = op && tw_is_graph(op, TW_GRAPH_TRANSPOSE), identity = true;
    if (rank < 2)
        return rank ? tw_build_reshape(b, x, 2,
                                       (tw_expr[]){x->type->dims[0], tw_expr_const(b->ctx, 1)})
                    : x;
    for (unsigned i = 0; i < rank; i++) {
        unsigned from = i == rank - 1 ? rank - 2 : i == rank - 2 ? rank - 1 : i;
        perm[i] = transposed ? tw_op_attr(op, "perm")->u.array.items[from]->u.integer : from;
        identity = identity && perm[i] == i;
    }
    x = transposed ? tw_operand(op, 0) : x;
    return identity ? x : tw_build_transpose(b, x, tw_attr_ints(b->ctx, perm, rank));
}

/* x before its heads, [B, G, …], were each repeated r times: reshape(expand(x as [B, G, 1, …])). */
static tw_value *before_repeat(const tw_value *x)
{
    const tw_op *join = x->op;
    const tw_op *expand =
        join && tw_is_graph(join, TW_GRAPH_RESHAPE) ? tw_operand(join, 0)->op : NULL;
    const tw_op *split =
        expand && tw_is_graph(expand, TW_GRAPH_EXPAND) ? tw_operand(expand, 0)->op : NULL;
    if (!split || !tw_is_graph(split, TW_GRAPH_RESHAPE))
        return NULL;
    tw_value *from = tw_operand(split, 0);
    tw_type one = split->results[0].type, many = expand->results[0].type, t = from->type;
    int64_t size, heads;
    if (t->rank != 4 || one->rank != 5 || many->rank != 5 || x->type->rank != 4 ||
        !tw_expr_as_const(one->dims[2], &size) || size != 1 ||
        !tw_expr_as_const(t->dims[1], &heads) || !tw_expr_as_const(x->type->dims[1], &heads))
        return NULL;
    for (unsigned i = 0; i < 4; i++) {
        unsigned at = i < 2 ? i : i + 1;
        if (t->dims[i] != one->dims[at] || one->dims[at] != many->dims[at] ||
            (i != 1 && t->dims[i] != x->type->dims[i]))
            return NULL;
    }
    return from;
}

/* The mask for [B, H, M, N], queries last, as the kernel has them. */
static tw_value *build_mask(attention *a, tw_builder *b, const mask *m)
{
    tw_value *value = m->inverted ? tw_build_unary(b, TW_GRAPH_NOT, m->value) : m->value;
    tw_type t = value->type;
    tw_expr one = tw_expr_const(b->ctx, 1);
    if (m->scores->rank == 3 && t->rank == 3) {
        tw_expr batch = t->dims[0] == one ? one : a->batch,
                heads = t->dims[0] == one ? one : a->heads;
        value = tw_build_reshape(b, value, 4, (tw_expr[]){batch, heads, t->dims[1], t->dims[2]});
    }
    return swap_last(b, value);
}

/* The transpose to [B, N, H, E], perhaps behind a reshape, that alone uses the result; axes of size
 * 1 are free to move. */
static tw_op *rows_first(const tw_value *result, tw_type type)
{
    static const unsigned wanted[] = {0, 2, 1, 3};
    const tw_op *op = tw_value_has_one_use(result) ? result->uses->user : NULL;
    if (op && tw_is_graph(op, TW_GRAPH_RESHAPE) && op->results[0].type == type &&
        tw_value_has_one_use(&op->results[0]))
        op = op->results[0].uses->user;
    if (!op || !tw_is_graph(op, TW_GRAPH_TRANSPOSE) || tw_operand(op, 0)->type != type)
        return NULL;
    tw_attr perm = tw_op_attr(op, "perm");
    unsigned at = 0;
    for (unsigned i = 0; i < 4; i++) {
        unsigned from = (unsigned)perm->u.array.items[i]->u.integer;
        if (tw_expr_is_const(type->dims[from]) && type->dims[from]->value == 1)
            continue;
        while (tw_expr_is_const(type->dims[wanted[at]]) && type->dims[wanted[at]]->value == 1)
            at++;
        if (wanted[at++] != from)
            return NULL;
    }
    return (tw_op *)op;
}

static tw_value *build(attention *a, tw_builder *b, tw_value *const *operands, unsigned n,
                       bool rows_are_first)
{
    tw_type q = operands[0]->type, v = operands[2]->type;
    tw_expr dims[] = {q->dims[0], q->dims[1], q->dims[2], v->dims[3]};
    if (rows_are_first) {
        dims[1] = q->dims[2];
        dims[2] = q->dims[1];
    }
    tw_type type = tw_type_tensor(b->ctx, q->elem, 4, dims, NULL);
    tw_context *ctx = b->ctx;
    return tw_graph_build(b, TW_GRAPH_ATTENTION, operands, n, type, "scale",
                          tw_attr_float(ctx, a->scale), "softcap",
                          a->softcap != 0 ? tw_attr_float(ctx, a->softcap) : NULL, "fill",
                          a->has_fill ? tw_attr_float(ctx, a->fill) : NULL, "causal",
                          a->causal ? tw_graph_exprs_attr(ctx, &a->causal, 1) : NULL, "rows_first",
                          rows_are_first ? tw_attr_bool(ctx, true) : NULL, NULL);
}

static bool fuse(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    attention a = {.ctx = tw_rw_context(rw), .scale = 1};
    if (!find(&a, op))
        return false;
    find_causal(&a);
    if (!a.heads) {
        a.batch = a.q->type->dims[0];
        a.heads = tw_expr_const(a.ctx, 1);
    }
    tw_builder *b = tw_rw_builder(rw, op);
    tw_value *operands[3 + MAX_MASKS], *k, *v;
    operands[0] = with_heads(&a, b, a.q);
    operands[1] = with_heads(&a, b, a.k_transposed ? swap_last(b, a.k) : a.k);
    operands[2] = with_heads(&a, b, a.v);
    k = before_repeat(operands[1]);
    v = before_repeat(operands[2]);
    if (k && v && k->type->dims[1] == v->type->dims[1]) {
        operands[1] = k;
        operands[2] = v;
    }
    for (unsigned i = 0; i < a.n_masks; i++)
        operands[3 + i] = build_mask(&a, b, &a.masks[a.n_masks - 1 - i]);
    tw_type apart = tw_type_tensor(
        a.ctx, op->results[0].type->elem, 4,
        (tw_expr[]){a.batch, a.heads, operands[0]->type->dims[2], operands[2]->type->dims[3]},
        NULL);
    tw_op *transpose = rows_first(&op->results[0], apart);
    tw_op *replaced = transpose ? transpose : op;
    tw_type type = replaced->results[0].type;
    tw_value *result = build(&a, b, operands, 3 + a.n_masks, transpose != NULL);
    result = tw_build_reshape(b, result, type->rank, type->dims);
    tw_rw_replace(rw, replaced, &result);
    return true;
}

static bool run(tw_pass_run *pass)
{
    const tw_pattern pattern = {"attention", &tw_graph_ops[TW_GRAPH_MATMUL], 1, fuse, NULL};
    tw_rewrite_greedily(pass->ctx, pass->root, &pattern, 1, pass->max_changes, &pass->changes);
    return true;
}

const tw_pass tw_pass_fuse_attention = {
    .name = "fuse-attention",
    .summary = "softmax(q k^T * scale + mask) v as one operation",
    .anchor = "core.func",
    .optional = true,
    .run = run,
};
