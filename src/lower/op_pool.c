/* op_pool.c: maxima and means of sliding windows. */
#include "lower/window.h"

typedef struct pool {
    tw_lowering *l;
    tw_window w;
    tw_window_axes a;
    tw_value *x;
    tw_elem elem;
} pool;

static pool make_pool(tw_lowering *l, tw_op *op, tw_value *x, tw_value *out)
{
    pool p = {.l = l, .w = tw_window_of(l->ctx, op), .x = x};
    p.elem = tw_compute_elem(x->type->elem);
    p.a = tw_window_make_axes(l, &p.w, out, tw_expr_const(l->ctx, 1), 1);
    return p;
}

/* Folds the window's elements into `to`, those outside counting as `identity`. */
static void fold_window(pool *p, const char *name, const char *combine, double identity,
                        tw_value *to)
{
    tw_stage s;
    tw_expr index[TW_MAX_RANK], result[TW_MAX_RANK], where[2 * TW_MAX_SPATIAL];
    unsigned n_where;
    tw_stage_open(p->l, &s, name, p->a.axes, p->a.n);
    tw_window_index(&s, &p->w, &p->a, p->a.channel, p->x, index, where, &n_where);
    tw_window_result(p->l->ctx, &p->w, &p->a, result);
    tw_value *x = tw_stage_load_or(&s, p->x, index, where, n_where, identity);
    x = tw_stage_cast(&s, x, to->type->elem);
    tw_stage_reduce(&s, combine, identity, x, to, result);
    tw_stage_close(&s);
}

bool tw_lower_max_pool(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    pool p = make_pool(l, op, in[0], out[0]);
    /* Comparing needs no wider type, and so no second block. */
    fold_window(&p, "max_pool", "max", tw_extreme(in[0]->type->elem, false), out[0]);
    return true;
}

/* The number of taps of a window at position `at` that lie at or above `low` and below `high`; 1 for
 * none, so that the mean over nothing but padding is 0, as in onnxruntime. */
static tw_expr count_taps(const tw_stage *s, const tw_window *w, unsigned i, tw_expr at,
                          tw_expr low, tw_expr high)
{
    tw_context *ctx = s->l->ctx;
    tw_expr start = tw_expr_sub(ctx, tw_expr_mulc(ctx, at, w->strides[i]), w->pads_begin[i]);
    tw_expr step = tw_stage_int(s, w->dilations[i]), zero = tw_stage_int(s, 0);
    tw_expr first = tw_expr_binary(ctx, TW_EXPR_CEILDIV, tw_expr_sub(ctx, low, start), step);
    tw_expr end = tw_expr_binary(ctx, TW_EXPR_CEILDIV, tw_expr_sub(ctx, high, start), step);
    first = tw_expr_binary(ctx, TW_EXPR_MAX, first, zero);
    end = tw_expr_binary(ctx, TW_EXPR_MIN, end, w->kernel[i]);
    return tw_expr_binary(ctx, TW_EXPR_MAX, tw_expr_sub(ctx, end, first), tw_stage_int(s, 1));
}

/* The number of elements that the mean is over: a constant where no window is cut. */
static tw_value *divisor(tw_stage *s, const pool *p, bool count_pad, tw_elem elem)
{
    tw_value *product = NULL;
    double constant = 1;
    for (unsigned i = 0; i < p->w.n; i++) {
        unsigned axis = p->w.to.space + i;
        int64_t n;
        tw_expr low = tw_expr_const(p->l->ctx, 0), high = tw_size(p->x, axis);
        if (count_pad) {
            low = tw_expr_mulc(p->l->ctx, p->w.pads_begin[i], -1);
            high = tw_expr_add(p->l->ctx, high, p->w.pads_end[i]);
        }
        tw_expr count = count_taps(s, &p->w, i, tw_stage_axis(s, axis), low, high);
        count = tw_expr_simplify(p->l->ctx, count, s->ranges, s->n_dims);
        tw_range range = tw_expr_range(count, s->ranges, s->n_dims);
        if (tw_expr_as_const(count, &n) || (range.lo == range.hi && (n = range.lo, true))) {
            constant *= (double)n;
            continue;
        }
        tw_value *value = tw_stage_index(s, count);
        product = product ? tw_s2(s, TW_LOOP_MUL, product, value) : value;
    }
    if (!product)
        return tw_stage_const(s, elem, constant);
    product = tw_stage_cast(s, product, elem);
    return constant == 1 ? product
                         : tw_s2(s, TW_LOOP_MUL, product, tw_stage_const(s, elem, constant));
}

bool tw_lower_avg_pool(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    pool p = make_pool(l, op, in[0], out[0]);
    tw_elem elem = tw_elem_is_int(p.elem) ? TW_I64 : p.elem;
    tw_value *sum = tw_lowering_alloc(l, elem, out[0]->type->rank, out[0]->type->dims, "sum");
    fold_window(&p, "avg_pool_sum", "add", 0, sum);
    tw_stage s;
    tw_stage_elementwise(l, &s, "avg_pool", out[0]);
    tw_value *v = tw_stage_load_broadcast(&s, sum, out[0]->type->rank);
    tw_value *n = divisor(&s, &p, tw_op_bool(op, "count_pad", false), elem);
    tw_stage_store_here(&s, tw_s2(&s, TW_LOOP_DIV, v, n), out[0]);
    return tw_stage_close(&s);
}
