/* op_reduce.c: reductions along axes, and positions of extremes.
 *
 *   graph.reduce_sum %x, axes [1]  ->  loop.block "reduce_sum": out[i0] = sum over r1 of x[i0, r1]
 */
#include "ir/scalar.h"
#include "lower/lowering.h"

/* A reduction's axes: the kept ones first. `index` (of x) and `result` (of the output) are over
 * them. */
typedef struct reduction {
    tw_axis axes[TW_MAX_RANK];
    tw_expr index[TW_MAX_RANK], result[TW_MAX_RANK];
    unsigned n;
    tw_expr count; /* of elements per result */
} reduction;

static reduction make_reduction(tw_lowering *l, const tw_value *x, const bool *reduced,
                                bool keepdims)
{
    reduction r = {.count = tw_expr_const(l->ctx, 1)};
    unsigned rank = x->type->rank, n_result = 0;
    for (unsigned i = 0; i < rank; i++) {
        if (reduced[i]) {
            if (keepdims)
                r.result[n_result++] = tw_expr_const(l->ctx, 0);
            continue;
        }
        r.index[i] = r.result[n_result++] = tw_expr_dim(l->ctx, r.n);
        r.axes[r.n++] = (tw_axis){tw_arena_printf(l->arena, "i%u", i), tw_size(x, i), false};
    }
    for (unsigned i = 0; i < rank; i++)
        if (reduced[i]) {
            r.index[i] = tw_expr_dim(l->ctx, r.n);
            r.axes[r.n++] = (tw_axis){tw_arena_printf(l->arena, "r%u", i), tw_size(x, i), true};
            r.count = tw_expr_mul(l->ctx, r.count, tw_size(x, i));
        }
    return r;
}

typedef struct fold {
    const char *combine;
    double identity;
} fold;

double tw_extreme(tw_elem elem, bool highest)
{
    tw_number v = highest ? tw_scalar_highest(elem) : tw_scalar_lowest(elem);
    return tw_elem_is_float(elem) ? v.real
           : elem == TW_U64       ? (double)(uint64_t)v.integer
                                  : (double)v.integer;
}

static fold fold_of(tw_graph_kind kind, tw_elem elem)
{
    switch (kind) {
    case TW_GRAPH_REDUCE_MAX:
        return (fold){elem == TW_BOOL ? "or" : "max", tw_extreme(elem, false)};
    case TW_GRAPH_REDUCE_MIN:
        return (fold){elem == TW_BOOL ? "and" : "min", tw_extreme(elem, true)};
    case TW_GRAPH_REDUCE_PROD:
        return (fold){"mul", 1};
    default:
        return (fold){"add", 0};
    }
}

/* out = acc / count, for floating point and integers alike. */
static void divide(tw_lowering *l, const char *name, tw_value *acc, tw_value *out, tw_expr count)
{
    tw_stage s;
    tw_stage_elementwise(l, &s, name, out);
    tw_value *sum = tw_stage_load_broadcast(&s, acc, out->type->rank);
    tw_value *n = tw_stage_size(&s, sum->type->elem, count);
    tw_stage_store_here(&s, tw_s2(&s, TW_LOOP_DIV, sum, n), out);
    tw_stage_close(&s);
}

bool tw_lower_reduce(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    int64_t axes[TW_MAX_RANK];
    bool reduced[TW_MAX_RANK] = {false}, mean = tw_is_graph(op, TW_GRAPH_REDUCE_MEAN);
    int n_axes = tw_op_ints(op, "axes", axes, TW_MAX_RANK);
    for (int i = 0; i < n_axes; i++)
        reduced[axes[i]] = true;
    reduction r = make_reduction(l, in[0], reduced, tw_op_bool(op, "keepdims", false));

    tw_elem elem = tw_compute_elem(out[0]->type->elem);
    if (mean && tw_elem_is_int(elem))
        elem = TW_I64;
    tw_type to = out[0]->type;
    tw_value *acc = mean ? tw_lowering_alloc(l, elem, to->rank, to->dims, "sum")
                         : tw_lower_accumulator(l, out[0], elem);
    tw_stage s;
    const char *name = tw_short_name(op);
    tw_stage_open(l, &s, mean ? "mean_sum" : name, r.axes, r.n);
    tw_value *x = tw_stage_cast(&s, tw_stage_load(&s, in[0], r.index), elem);
    fold f = fold_of(tw_graph_kind_of(op), elem);
    tw_stage_reduce(&s, f.combine, f.identity, x, acc, r.result);
    tw_stage_close(&s);
    if (mean)
        divide(l, name, acc, out[0], r.count);
    else
        tw_lower_finish(l, name, acc, out[0]);
    return true;
}
