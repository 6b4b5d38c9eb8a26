/* op_softmax.c: softmax, positions of extremes and running sums.
 *
 *   graph.softmax %x  ->  "softmax_max": m = max over r of x      "softmax_exp": e = exp(x - m)
 *                         "softmax_sum": s = sum over r of e      "softmax":     y = e / s */
#include "lower/lowering.h"

#include <math.h>

/* An operation along one axis: the stage axes of its result without that axis (size 1 there), with
 * it reduced, and the index of the whole and of the reduced buffer. */
typedef struct along {
    unsigned rank, axis;
    tw_axis axes[TW_MAX_RANK];
    tw_expr whole[TW_MAX_RANK], reduced[TW_MAX_RANK];
    tw_expr dims[TW_MAX_RANK]; /* of the reduced buffer */
} along;

/* For a reduction: the axis is the last of the stage. */
static along reduce_along(tw_lowering *l, const tw_value *x, unsigned axis)
{
    along a = {.rank = x->type->rank, .axis = axis};
    unsigned n = 0;
    for (unsigned i = 0; i < a.rank; i++) {
        a.dims[i] = i == axis ? tw_expr_const(l->ctx, 1) : tw_size(x, i);
        if (i == axis)
            continue;
        a.whole[i] = a.reduced[i] = tw_expr_dim(l->ctx, n);
        a.axes[n++] = (tw_axis){tw_arena_printf(l->arena, "i%u", i), tw_size(x, i), false};
    }
    a.whole[axis] = tw_expr_dim(l->ctx, n);
    a.reduced[axis] = tw_expr_const(l->ctx, 0);
    a.axes[n] = (tw_axis){tw_arena_printf(l->arena, "r%u", axis), tw_size(x, axis), true};
    return a;
}

static tw_value *reduced_buffer(tw_lowering *l, const along *a, tw_elem elem, const char *name)
{
    return tw_lowering_alloc(l, elem, a->rank, a->dims, name);
}

/* Loads with the result's axes: the reduced buffer is broadcast along its axis. */
static tw_value *load_here(tw_stage *s, tw_value *buffer, unsigned rank)
{
    tw_value *v = tw_stage_load_broadcast(s, buffer, rank);
    return tw_stage_cast(s, v, tw_compute_elem(buffer->type->elem));
}

static tw_value *reduce(tw_lowering *l, const along *a, const char *name, tw_value *x,
                        const char *combine, double identity, const char *result)
{
    tw_value *to = reduced_buffer(l, a, tw_compute_elem(x->type->elem), result);
    tw_stage s;
    tw_stage_open(l, &s, name, a->axes, a->rank);
    tw_stage_reduce(&s, combine, identity, tw_load(&s, x, a->whole), to, a->reduced);
    tw_stage_close(&s);
    return to;
}

bool tw_lower_softmax(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    bool is_log = tw_is_graph(op, TW_GRAPH_LOG_SOFTMAX);
    unsigned rank = in[0]->type->rank;
    along a = reduce_along(l, in[0], (unsigned)tw_op_int(op, "axis", 0));
    const char *name = tw_short_name(op);
    tw_elem elem = tw_compute_elem(in[0]->type->elem);
    tw_stage s;

    tw_value *max = reduce(l, &a, tw_name(l, name, "_max"), in[0], "max", -INFINITY, "max");
    tw_value *exps = tw_lowering_alloc(l, elem, rank, in[0]->type->dims, "exp");
    tw_stage_elementwise(l, &s, tw_name(l, name, "_exp"), exps);
    tw_value *x = load_here(&s, in[0], rank);
    tw_value *difference = tw_s2(&s, TW_LOOP_SUB, x, load_here(&s, max, rank));
    tw_stage_store_here(&s, tw_s1(&s, TW_LOOP_EXP, difference), exps);
    tw_stage_close(&s);
    tw_value *sum = reduce(l, &a, tw_name(l, name, "_sum"), exps, "add", 0, "sum");

    tw_stage_elementwise(l, &s, name, out[0]);
    tw_value *y;
    if (is_log) {
        y = tw_s2(&s, TW_LOOP_SUB, load_here(&s, in[0], rank), load_here(&s, max, rank));
        y = tw_s2(&s, TW_LOOP_SUB, y, tw_s1(&s, TW_LOOP_LOG, load_here(&s, sum, rank)));
    } else {
        y = tw_s2(&s, TW_LOOP_DIV, load_here(&s, exps, rank), load_here(&s, sum, rank));
    }
    tw_stage_store_here(&s, y, out[0]);
    return tw_stage_close(&s);
}

/* ---- Positions of extremes ---- */

/* The extreme along the axis, then the first (or last) position that holds it, or a NaN. */
bool tw_lower_arg_reduce(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    bool largest = tw_is_graph(op, TW_GRAPH_ARG_MAX), last = tw_op_bool(op, "select_last", false);
    unsigned axis = (unsigned)tw_op_int(op, "axis", 0);
    along a = reduce_along(l, in[0], axis);
    const char *name = tw_short_name(op);
    tw_elem elem = tw_compute_elem(in[0]->type->elem);
    double worst = tw_extreme(elem, !largest);
    tw_value *best = reduce(l, &a, tw_name(l, name, largest ? "_max" : "_min"), in[0],
                            largest ? "max" : "min", worst, "best");
    tw_expr result[TW_MAX_RANK];
    bool keep = out[0]->type->rank == a.rank;
    for (unsigned i = 0, n = 0; i < a.rank; i++)
        if (i != axis || keep)
            result[n++] = a.reduced[i];

    tw_stage s;
    tw_stage_open(l, &s, name, a.axes, a.rank);
    tw_value *x = tw_load(&s, in[0], a.whole);
    tw_value *found = tw_stage_compare(&s, "eq", x, tw_stage_load(&s, best, a.reduced));
    if (tw_elem_is_float(elem))
        found = tw_s2(&s, TW_LOOP_OR, found, tw_stage_compare(&s, "ne", x, x));
    tw_value *at = tw_stage_cast(&s, tw_stage_index(&s, a.whole[axis]), out[0]->type->elem);
    /* Above all positions: the size, or when it is not known what no position can be. */
    tw_expr size = tw_size(in[0], axis);
    double none = last ? -1 : tw_expr_is_const(size) ? (double)size->value : INT32_MAX;
    at = tw_stage_select(&s, found, at, tw_like(&s, at, none));
    tw_stage_reduce(&s, last ? "max" : "min", none, at, out[0], result);
    return tw_stage_close(&s);
}

/* ---- Running sums and products ---- */

/* Element i is element i-1 of the result plus, or times, one of x: a scan. */
bool tw_lower_cumsum(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    unsigned axis = (unsigned)tw_op_int(op, "axis", 0), rank = out[0]->type->rank;
    bool exclusive = tw_op_bool(op, "exclusive", false), reverse = tw_op_bool(op, "reverse", false);
    bool product = tw_op_bool(op, "product", false);
    tw_value *acc = tw_lower_accumulator(l, out[0], tw_compute_elem(out[0]->type->elem));
    tw_expr here[TW_MAX_RANK], before[TW_MAX_RANK];
    tw_stage s;
    tw_stage_elementwise(l, &s, "cumsum", out[0]);
    tw_expr step = tw_stage_axis(&s, axis); /* in the order of summing */
    for (unsigned i = 0; i < rank; i++)
        here[i] = before[i] = tw_stage_axis(&s, i);
    if (reverse)
        here[axis] = tw_expr_sub(l->ctx, tw_expr_addc(l->ctx, tw_size(out[0], axis), -1), step);
    before[axis] = tw_expr_addc(l->ctx, here[axis], reverse ? 1 : -1);
    tw_expr where = tw_expr_addc(l->ctx, step, -1);
    tw_value *none = tw_stage_const(&s, acc->type->elem, product);
    tw_value *sum = tw_stage_load_where(&s, acc, before, &where, 1, none);
    tw_value *x = exclusive ? tw_stage_load_where(&s, in[0], before, &where, 1,
                                                  tw_stage_const(&s, in[0]->type->elem, product))
                            : tw_stage_load(&s, in[0], here);
    x = tw_stage_cast(&s, x, acc->type->elem);
    tw_stage_store(&s, tw_s2(&s, product ? TW_LOOP_MUL : TW_LOOP_ADD, sum, x), acc, here);
    tw_stage_sequential(&s);
    tw_stage_close(&s);
    tw_lower_finish(l, "cumsum", acc, out[0]);
    return true;
}
