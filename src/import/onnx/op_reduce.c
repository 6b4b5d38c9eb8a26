/* op_reduce.c: reductions, softmax, sorting and running sums. */
#include "import/onnx/import.h"

/* ---- Reduce... ---- */

/* The version from which on the axes are an input. */
static int64_t axes_since(const tw_onnx_node *n)
{
    return n->op->param == TW_GRAPH_REDUCE_SUM ? 13 : 18;
}

/* Which axes: none when the model says so, and then only what comes before and after the sum (or
 * whatever it is) is computed. */
static bool read_axes(tw_onnx_node *n, uint32_t *axes)
{
    bool given, ok = true;
    unsigned rank = n->in[0]->type->rank;
    bool noop = tw_onnx_int(n, "noop_with_empty_axes", 0, &ok);
    if (!ok || !tw_onnx_axes_operand(n, 1, axes_since(n), rank, axes, &given))
        return false;
    if (!*axes && !noop)
        *axes = rank ? (uint32_t)((UINT64_C(1) << rank) - 1) : 0;
    return true;
}

/* max + log(sum(exp(x - max))), where an infinite maximum is not subtracted. */
static tw_value *log_sum_exp(tw_gb *g, tw_value *x, uint32_t axes, bool keepdims)
{
    tw_value *max = tw_gb_reduce(g, TW_GRAPH_REDUCE_MAX, x, axes, true);
    if (!max)
        return NULL;
    tw_value *infinite =
        TW_GB_EMIT(g, IS_INF, &max, 1,
                   tw_type_tensor(g->ctx, TW_BOOL, max->type->rank, max->type->dims, NULL), {0});
    max = tw_gb_where(g, infinite, tw_gb_scalar(g, x->type->elem, 0), max);
    tw_value *sum = tw_gb_reduce(
        g, TW_GRAPH_REDUCE_SUM, tw_gb_unary(g, TW_GRAPH_EXP, tw_gb_binary(g, TW_GRAPH_SUB, x, max)),
        axes, true);
    tw_value *y = tw_gb_binary(g, TW_GRAPH_ADD, tw_gb_unary(g, TW_GRAPH_LOG, sum), max);
    return keepdims || !axes ? y : tw_gb_squeeze(g, y, axes);
}

static tw_value *square(tw_gb *g, tw_value *x)
{
    return tw_gb_binary(g, TW_GRAPH_MUL, x, x);
}

static tw_value *reduce(tw_gb *g, int operation, tw_value *x, uint32_t axes, bool keepdims)
{
    switch (operation) {
    case TW_ONNX_L1:
        return tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, tw_gb_unary(g, TW_GRAPH_ABS, x), axes,
                            keepdims);
    case TW_ONNX_L2:
        return tw_gb_unary(g, TW_GRAPH_SQRT,
                           tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, square(g, x), axes, keepdims));
    case TW_ONNX_SUM_SQUARE:
        return tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, square(g, x), axes, keepdims);
    case TW_ONNX_LOG_SUM:
        return tw_gb_unary(g, TW_GRAPH_LOG,
                           tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, x, axes, keepdims));
    case TW_ONNX_LOG_SUM_EXP:
        return log_sum_exp(g, x, axes, keepdims);
    default:
        return tw_gb_reduce(g, (tw_graph_kind)operation, x, axes, keepdims);
    }
}

/* The element type that the reduction is computed in. */
static tw_elem work_elem(int operation, tw_elem elem)
{
    bool real = operation == TW_ONNX_L2 || operation == TW_ONNX_LOG_SUM ||
                operation == TW_ONNX_LOG_SUM_EXP || operation == TW_GRAPH_REDUCE_MEAN;
    if (elem == TW_BOOL)
        return TW_U8;
    return real && !tw_elem_is_float(elem) ? TW_F64 : elem;
}

/* Which axes, known when the model runs, and perhaps their number too: no axes stand for all,
 * unless the model says otherwise. */
static tw_value *runtime_axes(tw_onnx_node *n)
{
    bool ok = true;
    tw_gb *g = n->g;
    tw_expr count;
    tw_value *mask = tw_onnx_axis_mask(n, n->in[0], 1, &count);
    bool noop = tw_onnx_int(n, "noop_with_empty_axes", 0, &ok);
    if (!ok || !mask || noop || tw_expr_range(count, NULL, 0).lo > 0)
        return ok ? mask : NULL;
    tw_value *none = tw_gb_binary_scalar(g, TW_GRAPH_EQUAL, tw_onnx_size_value(g, count), 0);
    return tw_gb_binary(g, TW_GRAPH_OR, mask, none);
}

/* How many axes stay: what their number, or the declared result, says. */
static bool count_kept(tw_onnx_node *n, tw_value *mask, unsigned *kept)
{
    tw_gb *g = n->g;
    int64_t count;
    unsigned rank = n->in[0]->type->rank, declared = tw_onnx_declared_rank(n, 0);
    if (tw_type_static_count(n->in[1]->type, &count) && count > 0 && count <= rank) {
        *kept = rank - (unsigned)count;
        return true;
    }
    if (declared > rank)
        return tw_onnx_error(n,
                             "input 1 ('%s') is %s: without keepdims the number of dimensions of "
                             "the result depends on how many axes there are, and the model "
                             "declares none",
                             n->proto->input[1], tw_gb_type_text(g, n->in[1]->type));
    *kept = declared;
    tw_value *gone = tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, tw_gb_cast(g, mask, TW_I64), 1, false);
    return tw_onnx_bind_size(n, gone, tw_gb_const(g, rank - declared),
                             "number of axes that are reduced") != NULL;
}

/* Axes that are known when the model runs: each is cut in two, [d] -> [1, d] or [d, 1], and the
 * second ones are reduced. */
static bool reduce_runtime(tw_onnx_node *n, bool keepdims)
{
    tw_gb *g = n->g;
    tw_expr hints[TW_MAX_RANK];
    tw_value *x = n->in[0], *mask = runtime_axes(n);
    unsigned rank = x->type->rank, kept = rank;
    tw_elem elem = x->type->elem, work = work_elem(n->op->param, elem);
    if (!mask || (!keepdims && !count_kept(n, mask, &kept)))
        return false;
    if (keepdims)
        tw_onnx_declared_dims(n, 0, rank, hints);
    tw_value *y = tw_onnx_cut_axes(n, tw_gb_cast(g, x, work), mask, keepdims ? hints : NULL);
    y = tw_gb_cast(
        g, reduce(g, n->op->param, y, UINT32_C(0xaaaaaaaa) & ((1u << 2 * rank) - 1), false), elem);
    if (!y || keepdims)
        return tw_onnx_set(n, 0, y);
    tw_value *stays = tw_gb_binary_scalar(g, TW_GRAPH_EQUAL, tw_gb_cast(g, mask, TW_I64), 0);
    tw_value *sizes = tw_onnx_gather_kept(g, stays, tw_onnx_sizes_of(g, x), kept);
    tw_onnx_declared_dims(n, 0, kept, hints);
    const tw_expr *dims = tw_onnx_bind_sizes(n, sizes, hints, "sizes of the other axes");
    return dims && tw_onnx_set(n, 0, tw_gb_reshape(g, y, kept, dims));
}

bool tw_onnx_op_reduce(tw_onnx_node *n)
{
    bool ok = true;
    uint32_t axes;
    tw_gb *g = n->g;
    tw_value *x = n->in[0];
    int64_t keepdims = tw_onnx_int(n, "keepdims", 1, &ok);
    if (ok && n->version >= axes_since(n) && !tw_onnx_is_known(n, 1))
        return reduce_runtime(n, keepdims);
    if (!ok || !read_axes(n, &axes))
        return false;
    tw_elem elem = x->type->elem, work = work_elem(n->op->param, elem);
    tw_value *y = reduce(g, n->op->param, tw_gb_cast(g, x, work), axes, keepdims);
    return tw_onnx_set(n, 0, tw_gb_cast(g, y, elem));
}

/* Of no elements none is the largest; that does not matter where there are no results either. */
static bool has_elements(tw_onnx_node *n, unsigned axis)
{
    tw_type x = n->in[0]->type;
    tw_expr least = tw_expr_addc(n->ctx, x->dims[axis], -1);
    for (unsigned i = 0; i < x->rank; i++)
        if (i != axis)
            least =
                tw_expr_binary(n->ctx, TW_EXPR_MAX, least, tw_expr_mulc(n->ctx, x->dims[i], -1));
    return tw_gb_check(n->g, least, "%s along axis %u, which has no elements", n->op->name, axis);
}

bool tw_onnx_op_arg(tw_onnx_node *n)
{
    bool ok = true;
    unsigned axis, rank = 0;
    tw_expr dims[TW_MAX_RANK];
    tw_type x = n->in[0]->type;
    int64_t given = tw_onnx_int(n, "axis", 0, &ok), keepdims = tw_onnx_int(n, "keepdims", 1, &ok);
    int64_t last = tw_onnx_int(n, "select_last_index", 0, &ok);
    if (!ok || !tw_onnx_axis(n, given, x->rank, &axis) || !has_elements(n, axis))
        return false;
    for (unsigned i = 0; i < x->rank; i++)
        if (i != axis || keepdims)
            dims[rank++] = i == axis ? tw_gb_const(n->g, 1) : x->dims[i];
    tw_named_attr attrs[] = {{"axis", tw_attr_int(n->ctx, axis)},
                             {"keepdims", tw_attr_bool(n->ctx, keepdims)},
                             {"select_last", last ? tw_attr_bool(n->ctx, true) : NULL}};
    return tw_onnx_set(n, 0,
                       tw_gb_emit(n->g, (tw_graph_kind)n->op->param, n->in, 1,
                                  tw_type_tensor(n->ctx, TW_I64, rank, dims, NULL), attrs, 3));
}

/* ---- Softmax ---- */

/* argmax along the axis as ones and zeros */
static tw_value *hardmax(tw_gb *g, tw_value *x, unsigned axis)
{
    tw_expr dims[TW_MAX_RANK], along[TW_MAX_RANK];
    if (!x)
        return NULL;
    for (unsigned i = 0; i < x->type->rank; i++) {
        dims[i] = i == axis ? tw_gb_const(g, 1) : x->type->dims[i];
        along[i] = i == axis ? x->type->dims[i] : tw_gb_const(g, 1);
    }
    tw_value *at =
        TW_GB_EMIT(g, ARG_MAX, &x, 1, tw_type_tensor(g->ctx, TW_I64, x->type->rank, dims, NULL),
                   {"axis", tw_attr_int(g->ctx, axis)}, {"keepdims", tw_attr_bool(g->ctx, true)});
    tw_value *hit =
        tw_gb_binary(g, TW_GRAPH_EQUAL, at, tw_gb_iota(g, TW_I64, x->type->rank, along, axis));
    return tw_gb_where(g, hit, tw_gb_scalar(g, x->type->elem, 1),
                       tw_gb_scalar(g, x->type->elem, 0));
}

/* Before version 13 all axes from the given one on were one. */
bool tw_onnx_op_softmax(tw_onnx_node *n)
{
    bool ok = true, flat = n->version < 13;
    unsigned axis;
    tw_gb *g = n->g;
    tw_value *x = n->in[0];
    tw_type type = x->type;
    int64_t given = tw_onnx_int(n, "axis", flat ? 1 : -1, &ok);
    if (!ok || !tw_onnx_axis(n, given, type->rank, &axis))
        return false;
    flat = flat && axis + 1 < type->rank;
    if (flat) {
        tw_expr dims[2] = {tw_gb_product(g, type->dims, axis),
                           tw_gb_product(g, type->dims + axis, type->rank - axis)};
        x = tw_gb_reshape(g, x, 2, dims);
        axis = 1;
    }
    tw_value *y = n->op->param == TW_GRAPH_COUNT
                      ? hardmax(g, x, axis)
                      : tw_gb_softmax(g, (tw_graph_kind)n->op->param, x, axis);
    return tw_onnx_set(n, 0, flat ? tw_gb_reshape(g, y, type->rank, type->dims) : y);
}

/* ---- Running sums and products, largest elements ---- */

/* An axis that is known when the model runs, between one for those before and one for those behind
 * it. */
static bool cumsum_runtime(tw_onnx_node *n, bool exclusive, bool reverse)
{
    tw_gb *g = n->g;
    tw_value *x = n->in[0], *axis = tw_onnx_index_scalar(n, 1), *one = tw_onnx_number(g, 1);
    tw_expr rank = tw_gb_const(g, x->type->rank);
    tw_value *turned = tw_gb_binary_scalar(g, TW_GRAPH_ADD, axis, x->type->rank);
    axis = tw_gb_where(g, tw_gb_binary_scalar(g, TW_GRAPH_LESS, axis, 0), turned, axis);
    tw_value *sizes = tw_onnx_sizes_of(g, x), *at = tw_gb_iota(g, TW_I64, 1, &rank, 0), *parts[3];
    static const tw_graph_kind side[3] = {TW_GRAPH_LESS, TW_GRAPH_EQUAL, TW_GRAPH_GREATER};
    for (int i = 0; i < 3; i++)
        parts[i] =
            tw_gb_reduce(g, TW_GRAPH_REDUCE_PROD,
                         tw_gb_where(g, tw_gb_binary(g, side[i], at, axis), sizes, one), 1, false);
    const tw_expr *dims =
        tw_onnx_bind_sizes(n, tw_onnx_join(g, parts, 3), NULL, "sizes around the axis");
    tw_value *y = dims ? tw_gb_reshape(g, x, 3, dims) : NULL;
    if (y)
        y = TW_GB_EMIT(g, CUMSUM, &y, 1, y->type, {"axis", tw_attr_int(n->ctx, 1)},
                       {"exclusive", exclusive ? tw_attr_bool(n->ctx, true) : NULL},
                       {"reverse", reverse ? tw_attr_bool(n->ctx, true) : NULL},
                       {"product", n->op->param ? tw_attr_bool(n->ctx, true) : NULL});
    return tw_onnx_set(n, 0, tw_gb_reshape(g, y, x->type->rank, x->type->dims));
}

/* param 1: products */
bool tw_onnx_op_cumsum(tw_onnx_node *n)
{
    bool ok = true;
    unsigned axis;
    size_t count;
    int64_t exclusive = tw_onnx_int(n, "exclusive", 0, &ok);
    int64_t reverse = tw_onnx_int(n, "reverse", 0, &ok);
    static const int64_t first;
    bool known = tw_known_ints(n->g, n->in[1], &count);
    if (ok && !known && n->in[0]->type->rank > 1)
        return cumsum_runtime(n, exclusive, reverse);
    const int64_t *given = !ok ? NULL : known ? tw_known_ints(n->g, n->in[1], &count) : &first;
    if (!known)
        count = 1;
    if (!given || count != 1 || !tw_onnx_axis(n, *given, n->in[0]->type->rank, &axis))
        return given && count != 1 ? tw_onnx_error(n, "the axis must be a scalar") : false;
    return tw_onnx_set(n, 0,
                       TW_GB_EMIT(n->g, CUMSUM, n->in, 1, n->in[0]->type,
                                  {"axis", tw_attr_int(n->ctx, axis)},
                                  {"exclusive", exclusive ? tw_attr_bool(n->ctx, true) : NULL},
                                  {"reverse", reverse ? tw_attr_bool(n->ctx, true) : NULL},
                                  {"product", n->op->param ? tw_attr_bool(n->ctx, true) : NULL}));
}

/* A number that is known when the model runs; neither it nor what is left is negative. */
static tw_expr bind_k(tw_onnx_node *n, unsigned axis)
{
    tw_gb *g = n->g;
    tw_expr dims[TW_MAX_RANK], hints[2] = {NULL, NULL};
    tw_type x = n->in[0]->type;
    tw_value *k = tw_onnx_index_scalar(n, 1);
    tw_onnx_declared_dims(n, 0, x->rank, dims);
    hints[0] = dims[axis];
    if (hints[0] && tw_expr_is_const(x->dims[axis]) && hints[0]->value <= x->dims[axis]->value)
        hints[1] = tw_gb_const(g, x->dims[axis]->value - hints[0]->value);
    tw_value *left = tw_gb_binary(g, TW_GRAPH_SUB, tw_onnx_size_of(g, n->in[0], axis), k);
    const tw_expr *sizes = tw_onnx_bind_sizes(n, tw_onnx_join(g, (tw_value *[]){k, left}, 2), hints,
                                              "k, and what the axis has beyond k");
    return sizes ? sizes[0] : NULL;
}

/* How many: attribute k before version 10, then input 1. */
static tw_expr read_k(tw_onnx_node *n, unsigned axis)
{
    bool ok = true;
    size_t count;
    if (n->version < 10) {
        int64_t k = tw_onnx_int(n, "k", -1, &ok);
        return ok ? tw_gb_const(n->g, k) : NULL;
    }
    if (!tw_onnx_is_known(n, 1))
        return bind_k(n, axis);
    const tw_expr *k = tw_onnx_in(n, 1) ? tw_onnx_known_exprs(n, 1, &count)
                                        : tw_gb_error(n->g, "input 1 is missing");
    if (k && count != 1)
        return tw_gb_error(n->g, "k must be a scalar");
    return k ? *k : NULL;
}

bool tw_onnx_op_top_k(tw_onnx_node *n)
{
    bool ok = true;
    unsigned axis;
    tw_expr dims[TW_MAX_RANK];
    tw_type x = n->in[0]->type;
    int64_t given = tw_onnx_int(n, "axis", -1, &ok), largest = tw_onnx_int(n, "largest", 1, &ok);
    int64_t sorted = tw_onnx_int(n, "sorted", 1, &ok);
    if (!ok || !tw_onnx_axis(n, given, x->rank, &axis))
        return false;
    tw_expr k = read_k(n, axis);
    if (!k)
        return false;
    tw_range left = tw_expr_range(tw_expr_sub(n->ctx, x->dims[axis], k), NULL, 0);
    if (tw_expr_range(k, NULL, 0).hi < 0 || left.hi < 0)
        return tw_onnx_error(n, "k is not between 0 and the size of axis %u of %s", axis,
                             tw_gb_type_text(n->g, x));
    if (!tw_gb_check(n->g, tw_expr_sub(n->ctx, x->dims[axis], k),
                     "k, which is '%s', is above the axis' size '%s'",
                     tw_print_expr(n->ctx, k, NULL), tw_print_expr(n->ctx, x->dims[axis], NULL)) ||
        !tw_gb_check(n->g, k, "k, which is '%s', is negative", tw_print_expr(n->ctx, k, NULL)))
        return false;
    for (unsigned i = 0; i < x->rank; i++)
        dims[i] = i == axis ? k : x->dims[i];
    tw_type types[2] = {tw_type_tensor(n->ctx, x->elem, x->rank, dims, NULL),
                        tw_type_tensor(n->ctx, TW_I64, x->rank, dims, NULL)};
    if (!tw_gb_check_type(n->g, types[1]))
        return false;
    tw_op *op = tw_build(&n->g->b, &tw_graph_ops[TW_GRAPH_TOP_K], n->in, 1, types, 2, "axis",
                         tw_attr_int(n->ctx, axis), "largest", tw_attr_bool(n->ctx, largest),
                         "sorted", tw_attr_bool(n->ctx, sorted), NULL);
    return tw_gb_verify(n->g, op) && tw_onnx_set(n, 0, tw_result(op, 0)) &&
           tw_onnx_set(n, 1, tw_result(op, 1));
}
