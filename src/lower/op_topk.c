/* op_topk.c: the k largest or smallest along an axis, by insertion into a sorted list.
 *
 * One sequential block per line of the axis. Most elements are worse than the worst of the list and
 * cost one comparison:
 *
 *   for i in 0..n:  x = X[i];  if i < k or x beats V[k-1]:
 *       for j from min(i, k-1) down to 0:
 *           V[j] = x beats V[j-1] ? V[j-1] : (j == i or x beats V[j]) ? x : V[j]     I likewise
 *
 * An element beats another only when it is strictly better, so that of equal ones the first stays
 * in front. */
#include "lower/lowering.h"

#include <limits.h>

typedef struct top_k {
    tw_stage s;
    unsigned axis, rank;
    bool largest;
    tw_expr n, k;
    tw_value *x, *values, *indices;
    tw_value *candidate, *candidate_index; /* X[i] in compute type and i as an i64 */
    tw_expr i;
} top_k;

/* The line's index with the given position in it. */
static void at(const top_k *t, tw_expr position, tw_expr *index)
{
    for (unsigned i = 0; i < t->rank; i++)
        index[i] = i == t->axis ? position : tw_stage_axis(&t->s, i < t->axis ? i : i - 1);
}

/* 0 to below the size. */
static tw_range below(tw_context *ctx, tw_expr size)
{
    int64_t n;
    if (tw_expr_as_const(size, &n))
        return (tw_range){.lo = 0, .hi = n - 1};
    return (tw_range){.lo = 0, .hi = INT64_MAX, .top = tw_expr_addc(ctx, size, -1)};
}

/* A loop from 0 to the bound in the body; what is built next stands in it. */
static tw_expr open_loop(top_k *t, tw_expr upper, tw_value *operand, tw_expr trips,
                         const char *name)
{
    tw_context *ctx = t->s.l->ctx;
    tw_op *loop =
        tw_loop_for(&t->s.b, tw_expr_const(ctx, 0), upper, &operand, operand ? 1 : 0, NULL, name);
    t->s.b.region = &loop->regions[0];
    return tw_stage_dim(&t->s, loop->regions[0].args[0], below(ctx, trips));
}

static void open_if(top_k *t, tw_value *condition)
{
    tw_context *ctx = t->s.l->ctx;
    tw_value *number = tw_stage_cast(&t->s, condition, TW_INDEX);
    tw_expr where = tw_expr_addc(ctx, tw_expr_dim(ctx, 0), -1);
    tw_op *op = tw_build(&t->s.b, &tw_loop_ops[TW_LOOP_IF], &number, 1, NULL, 0, "where",
                         tw_attr_map(ctx, 1, &where, 1), NULL);
    t->s.b.region = &op->regions[0];
}

/* Whether x comes before y. NaN counts as the largest, as when numpy sorts; without an order of
 * all values the list would lose some. */
static tw_value *beats(top_k *t, tw_value *x, tw_value *y)
{
    tw_stage *s = &t->s;
    if (!tw_elem_is_float(x->type->elem))
        return tw_stage_compare(s, t->largest ? "gt" : "lt", x, y);
    tw_value *lesser = t->largest ? y : x;
    tw_value *behind = tw_stage_compare(s, t->largest ? "le" : "ge", x, y);
    tw_value *number = tw_stage_compare(s, "eq", lesser, lesser);
    return tw_s2(s, TW_LOOP_AND, tw_s1(s, TW_LOOP_NOT, behind), number);
}

/* list[position] in compute type, or `other` (of that type) where the condition does not hold. */
static tw_value *load(top_k *t, tw_value *list, tw_expr position, tw_expr where, tw_value *other)
{
    tw_expr index[TW_MAX_RANK];
    at(t, position, index);
    tw_value *narrow = tw_stage_cast(&t->s, other, list->type->elem);
    tw_value *v = tw_stage_load_where(&t->s, list, index, &where, 1, narrow);
    return tw_stage_cast(&t->s, v, tw_compute_elem(list->type->elem));
}

/* Element j of the list after inserting. */
static void insert_at(top_k *t, tw_expr j)
{
    tw_stage *s = &t->s;
    tw_context *ctx = s->l->ctx;
    tw_expr has_previous = tw_expr_addc(ctx, j, -1), is_old = tw_expr_sub(ctx, t->i, j);
    is_old = tw_expr_addc(ctx, is_old, -1);
    tw_value *x = t->candidate, *xi = t->candidate_index;
    tw_value *previous = load(t, t->values, has_previous, has_previous, x);
    tw_value *previous_index = load(t, t->indices, has_previous, has_previous, xi);
    tw_value *own = load(t, t->values, j, is_old, x);
    tw_value *own_index = load(t, t->indices, j, is_old, xi);
    /* Where there is no old value the candidate is what was loaded. */
    tw_value *better = beats(t, x, own), *shift = beats(t, x, previous);
    tw_value *value = tw_stage_select(s, better, x, own);
    tw_value *index = tw_stage_select(s, better, xi, own_index);
    tw_expr here[TW_MAX_RANK];
    at(t, j, here);
    tw_stage_store(s, tw_stage_select(s, shift, previous, value), t->values, here);
    tw_stage_store(s, tw_stage_select(s, shift, previous_index, index), t->indices, here);
}

static void build(top_k *t)
{
    tw_stage *s = &t->s;
    tw_context *ctx = s->l->ctx;
    tw_expr index[TW_MAX_RANK];
    t->i = open_loop(t, t->n, NULL, t->n, "i");
    tw_value *i = s->dims[t->i->value];
    at(t, t->i, index);
    t->candidate = tw_load(s, t->x, index);
    t->candidate_index = tw_stage_cast(s, i, TW_I64);

    tw_expr full = tw_expr_sub(ctx, t->i, t->k), k_last = tw_expr_addc(ctx, t->k, -1);
    tw_value *worst = load(t, t->values, k_last, full, t->candidate);
    tw_value *room = tw_stage_compare(s, "lt", i, tw_stage_size(s, TW_INDEX, t->k));
    open_if(t, tw_s2(s, TW_LOOP_OR, room, beats(t, t->candidate, worst)));

    tw_expr end = tw_expr_addc(ctx, tw_expr_dim(ctx, 0), 1);
    end = tw_expr_binary(ctx, TW_EXPR_MIN, end, t->k);
    tw_expr step = open_loop(t, end, i, t->k, "j");
    tw_expr last = tw_expr_binary(ctx, TW_EXPR_MIN, t->i, k_last);
    tw_value *j = tw_stage_index(s, tw_expr_sub(ctx, last, step));
    insert_at(t, tw_stage_dim(s, j, below(ctx, t->k)));
}

bool tw_lower_top_k(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    top_k t = {.axis = (unsigned)tw_op_int(op, "axis", 0),
               .rank = in[0]->type->rank,
               .largest = tw_op_bool(op, "largest", true),
               .x = in[0],
               .values = out[0],
               .indices = out[1]};
    tw_axis axes[TW_MAX_RANK];
    unsigned n = 0;
    for (unsigned i = 0; i < t.rank; i++)
        if (i != t.axis)
            axes[n++] = (tw_axis){tw_arena_printf(l->arena, "i%u", i), tw_size(in[0], i), false};
    t.n = tw_size(in[0], t.axis);
    t.k = tw_size(out[0], t.axis);
    if (tw_expr_range(tw_expr_sub(l->ctx, t.n, t.k), NULL, 0).hi < 0)
        return tw_error(l->ctx, op->loc, "top_k takes %s of %s elements",
                        tw_print_expr(l->ctx, t.k, NULL), tw_print_expr(l->ctx, t.n, NULL));
    tw_stage_open(l, &t.s, "top_k", axes, n);
    tw_stage_sequential(&t.s);
    build(&t);
    return tw_stage_close(&t.s);
}
