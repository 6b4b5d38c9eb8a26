/* graph_verify.c: rules of the graph dialect beyond its table: structure, control flow and
 * element-wise operations; graph_verify_move.c and graph_verify_compute.c have the others. */
#include "dialect/graph/graph_verify.h"

#include "dialect/graph/graph_verify_impl.h"

/* ---- Structure ---- */

static bool check_constant(const tw_graph_check *c)
{
    return tw_gv_expect_like(c, "the result", tw_gv_out(c, 0),
                             tw_op_attr(c->op, "value")->u.dense.type);
}

/* Equal types, or unless `exact` such that differ in symbolic sizes alone. */
static bool fits(tw_type a, tw_type b, bool exact)
{
    bool good = a == b || (!exact && a->kind == TW_TYPE_TENSOR && b->kind == TW_TYPE_TENSOR &&
                           a->elem == b->elem && a->rank == b->rank && a->layout == b->layout);
    for (unsigned i = 0; good && a != b && i < a->rank; i++)
        good = tw_gv_sizes_fit(tw_gv_size(a, i), tw_gv_size(b, i));
    return good;
}

/* Operands first, first + 1 … of the region's last operation are n results of the operation. */
static bool check_yield_types(const tw_graph_check *c, const tw_region *body, unsigned first,
                              unsigned n, bool exact)
{
    for (unsigned i = 0; i < n; i++)
        if (!fits(tw_operand(body->last, first + i)->type, tw_gv_out(c, i), exact))
            return tw_gv_error(c, "result %u is %s, but %s is yielded", i,
                               tw_print_type(c->ctx, tw_gv_out(c, i)),
                               tw_print_type(c->ctx, tw_operand(body->last, first + i)->type));
    return true;
}

static bool check_yields(const tw_graph_check *c, const tw_region *body, unsigned n, bool exact)
{
    const tw_op *last = body->last;
    if (!last || !tw_is_graph(last, TW_GRAPH_YIELD) || last->n_operands != n)
        return tw_gv_error(c, "the body ends with a graph.yield of %u values", n);
    return check_yield_types(c, body, 0, n, exact);
}

static bool check_group(const tw_graph_check *c)
{
    const tw_op *op = c->op;
    const tw_region *body = &op->regions[0];
    if (body->n_args != op->n_operands)
        return tw_gv_error(c, "%u arguments for %u operands", body->n_args, op->n_operands);
    for (unsigned i = 0; i < body->n_args; i++)
        if (body->args[i]->type != tw_gv_in(c, i))
            return tw_gv_error(c, "argument %u is %s, but the operand is %s", i,
                               tw_print_type(c->ctx, body->args[i]->type),
                               tw_print_type(c->ctx, tw_gv_in(c, i)));
    return check_yields(c, body, c->op->n_results, true);
}

/* As many names as elements, and as many expressions where there are any. */
static bool check_bind(const tw_graph_check *c)
{
    int64_t count;
    tw_attr symbols = tw_op_attr(c->op, "symbols"), expect = tw_op_attr(c->op, "expect");
    size_t n = symbols->u.array.n;
    if (!tw_gv_expect_elem(c, "the operand", tw_gv_in(c, 0), TW_I64))
        return false;
    if (!tw_type_static_count(tw_gv_in(c, 0), &count) || (uint64_t)count != n)
        return tw_gv_error(c, "%zu symbols for the elements of %s", n,
                           tw_print_type(c->ctx, tw_gv_in(c, 0)));
    for (size_t i = 0; i < n; i++)
        if (symbols->u.array.items[i]->kind != TW_ATTR_STRING)
            return tw_gv_error(c, "'symbols' holds strings");
    if (expect && (expect->u.map.n != n || expect->u.map.n_dims))
        return tw_gv_error(c, "'expect' holds %zu expressions over symbols", n);
    return true;
}

static bool check_routine(const tw_graph_check *c)
{
    size_t sizes = 0;
    tw_attr symbols = tw_op_attr(c->op, "symbols"), params = tw_op_attr(c->op, "params");
    for (unsigned i = 0; i < c->op->n_results; i++)
        sizes += tw_gv_out(c, i)->rank;
    if (symbols && symbols->u.array.n != sizes)
        return tw_gv_error(c, "%zu symbols for the %zu sizes of the results", symbols->u.array.n,
                           sizes);
    for (size_t i = 0; symbols && i < sizes; i++)
        if (symbols->u.array.items[i]->kind != TW_ATTR_STRING)
            return tw_gv_error(c, "'symbols' holds strings");
    for (size_t i = 0; params && i < params->u.array.n; i++)
        if (params->u.array.items[i]->kind != TW_ATTR_INT)
            return tw_gv_error(c, "'params' holds integers");
    return true;
}

static bool check_yield(const tw_graph_check *c)
{
    tw_graph_kind kind = c->op->region ? tw_graph_kind_of(c->op->region->parent) : TW_GRAPH_GROUP;
    return kind == TW_GRAPH_GROUP || kind == TW_GRAPH_IF || kind == TW_GRAPH_LOOP ||
           tw_gv_error(c, "stands in graph.group, graph.if and graph.loop only");
}

/* Of a condition or a number of trips. */
static bool check_single(const tw_graph_check *c, const char *what, tw_type t, tw_elem elem)
{
    int64_t count;
    return tw_gv_expect_elem(c, what, t, elem) &&
           ((tw_type_static_count(t, &count) && count == 1) ||
            tw_gv_error(c, "%s is %s, not a single element", what, tw_print_type(c->ctx, t)));
}

static bool check_if(const tw_graph_check *c)
{
    for (unsigned r = 0; r < 2; r++)
        if (c->op->regions[r].n_args)
            return tw_gv_error(c, "the regions have no arguments");
    return check_single(c, "the condition", tw_gv_in(c, 0), TW_BOOL) &&
           check_yields(c, &c->op->regions[0], c->op->n_results, false) &&
           check_yields(c, &c->op->regions[1], c->op->n_results, false);
}

static bool check_loop_arguments(const tw_graph_check *c, unsigned states)
{
    const tw_region *body = &c->op->regions[0];
    if (body->n_args != 1 + states)
        return tw_gv_error(c, "%u arguments for the number of the trip and %u states", body->n_args,
                           states);
    if (!check_single(c, "argument 0", body->args[0]->type, TW_I64))
        return false;
    for (unsigned i = 0; i < states; i++)
        if (!fits(body->args[1 + i]->type, tw_gv_in(c, 2 + i), false) ||
            !fits(body->args[1 + i]->type, tw_gv_out(c, i), false))
            return tw_gv_error(c, "state %u is %s, starts as %s and becomes %s", i,
                               tw_print_type(c->ctx, body->args[1 + i]->type),
                               tw_print_type(c->ctx, tw_gv_in(c, 2 + i)),
                               tw_print_type(c->ctx, tw_gv_out(c, i)));
    return true;
}

/* Results behind the states are stacks of rows, which are yielded one a trip. */
static bool check_rows(const tw_graph_check *c, unsigned states, unsigned scans)
{
    const tw_op *last = c->op->regions[0].last;
    for (unsigned i = 0; i < scans; i++) {
        tw_type row = tw_operand(last, 1 + states + i)->type, all = tw_gv_out(c, states + i);
        bool good =
            row->kind == TW_TYPE_TENSOR && all->rank == row->rank + 1 && all->elem == row->elem;
        for (unsigned d = 0; good && d < row->rank; d++)
            good = all->dims[d + 1] == row->dims[d];
        if (!good)
            return tw_gv_error(c, "result %u is %s, but its rows are %s", states + i,
                               tw_print_type(c->ctx, all), tw_print_type(c->ctx, row));
    }
    return true;
}

static bool check_loop(const tw_graph_check *c)
{
    const tw_op *op = c->op, *last = op->regions[0].last;
    unsigned states = op->n_operands - 2;
    int64_t scans = tw_op_int(op, "scans", 0);
    if (scans < 0 || op->n_results != states + scans)
        return tw_gv_error(c, "%u results for %u states and %lld stacks of rows", op->n_results,
                           states, (long long)scans);
    if (!check_single(c, "the number of trips", tw_gv_in(c, 0), TW_I64) ||
        !check_single(c, "the condition", tw_gv_in(c, 1), TW_BOOL) ||
        !check_loop_arguments(c, states))
        return false;
    if (!last || !tw_is_graph(last, TW_GRAPH_YIELD) || last->n_operands != 1 + op->n_results)
        return tw_gv_error(c, "the body ends with a graph.yield of %u values", 1 + op->n_results);
    return check_single(c, "the yielded condition", tw_operand(last, 0)->type, TW_BOOL) &&
           check_yield_types(c, &op->regions[0], 1, states, false) &&
           check_rows(c, states, (unsigned)scans);
}

/* ---- Element-wise ---- */

static bool check_float(const tw_graph_check *c)
{
    tw_type in = tw_gv_in(c, 0);
    return tw_elem_is_float(in->elem) ||
           tw_gv_error(c, "the operand is %s, not of floating point", tw_print_type(c->ctx, in));
}

static bool check_unary(const tw_graph_check *c)
{
    tw_graph_kind kind = tw_graph_kind_of(c->op);
    bool real = (kind >= TW_GRAPH_EXP && kind <= TW_GRAPH_SQRT) ||
                (kind >= TW_GRAPH_SIN && kind <= TW_GRAPH_ERF) ||
                (kind >= TW_GRAPH_LEAKY_RELU && kind <= TW_GRAPH_MISH);
    return (!real || check_float(c)) && tw_gv_expect_result_like(c, 0);
}

static bool check_float_test(const tw_graph_check *c)
{
    return check_float(c) && tw_gv_expect_elem(c, "the result", tw_gv_out(c, 0), TW_BOOL) &&
           tw_gv_expect_broadcast(c, tw_gv_out(c, 0), 0, 1);
}

static bool check_cast(const tw_graph_check *c)
{
    tw_type in = tw_gv_in(c, 0), out = tw_gv_out(c, 0);
    if (tw_is_graph(c->op, TW_GRAPH_BITCAST) && tw_elem_bits(in->elem) != tw_elem_bits(out->elem))
        return tw_gv_error(c, "%s and %s have different widths", tw_elem_name(in->elem),
                           tw_elem_name(out->elem));
    return tw_gv_expect_broadcast(c, out, 0, 1);
}

static bool check_binary(const tw_graph_check *c)
{
    tw_graph_kind kind = tw_graph_kind_of(c->op);
    tw_type a = tw_gv_in(c, 0), b = tw_gv_in(c, 1), out = tw_gv_out(c, 0);
    bool compares = kind >= TW_GRAPH_EQUAL && kind <= TW_GRAPH_GREATER_EQUAL;
    bool bitwise = kind >= TW_GRAPH_AND && kind <= TW_GRAPH_SHIFT_RIGHT;
    if (kind != TW_GRAPH_POW && !tw_gv_expect_elem(c, "the second operand", b, a->elem))
        return false;
    if (bitwise && !tw_elem_is_int(a->elem) && a->elem != TW_BOOL)
        return tw_gv_error(c, "the operands are %s, not of integers or bool",
                           tw_print_type(c->ctx, a));
    return tw_gv_expect_elem(c, "the result", out, compares ? TW_BOOL : a->elem) &&
           tw_gv_expect_broadcast(c, out, 0, 2);
}

static bool check_where(const tw_graph_check *c)
{
    return tw_gv_expect_elem(c, "the condition", tw_gv_in(c, 0), TW_BOOL) &&
           tw_gv_expect_elem(c, "the third operand", tw_gv_in(c, 2), tw_gv_in(c, 1)->elem) &&
           tw_gv_expect_elem(c, "the result", tw_gv_out(c, 0), tw_gv_in(c, 1)->elem) &&
           tw_gv_expect_broadcast(c, tw_gv_out(c, 0), 0, 3);
}

static tw_graph_rule elementwise_rule(tw_graph_kind kind)
{
    switch (kind) {
    case TW_GRAPH_IS_NAN:
    case TW_GRAPH_IS_INF:
        return check_float_test;
    case TW_GRAPH_CAST:
    case TW_GRAPH_BITCAST:
        return check_cast;
    case TW_GRAPH_WHERE:
        return check_where;
    default:
        if (kind >= TW_GRAPH_NEG && kind <= TW_GRAPH_MISH)
            return check_unary;
        return kind >= TW_GRAPH_ADD && kind <= TW_GRAPH_GREATER_EQUAL ? check_binary : NULL;
    }
}

static bool check_check(const tw_graph_check *c)
{
    return !tw_op_attr(c->op, "sets")->u.map.n_dims ||
           tw_gv_error(c, "'sets' is over symbols alone");
}

/* ---- All ---- */

static tw_graph_rule find_rule(tw_graph_kind kind)
{
    tw_graph_rule rule = kind == TW_GRAPH_CONSTANT  ? check_constant
                         : kind == TW_GRAPH_GROUP   ? check_group
                         : kind == TW_GRAPH_YIELD   ? check_yield
                         : kind == TW_GRAPH_BIND    ? check_bind
                         : kind == TW_GRAPH_ROUTINE ? check_routine
                         : kind == TW_GRAPH_CHECK   ? check_check
                         : kind == TW_GRAPH_IF      ? check_if
                         : kind == TW_GRAPH_LOOP    ? check_loop
                                                    : elementwise_rule(kind);
    if (!rule)
        rule = tw_graph_movement_rule(kind);
    return rule ? rule : tw_graph_compute_rule(kind);
}

static bool check_tensors(const tw_graph_check *c)
{
    for (unsigned i = 0; i < c->op->n_operands + c->op->n_results; i++) {
        tw_type t = i < c->op->n_operands ? tw_gv_in(c, i) : tw_gv_out(c, i - c->op->n_operands);
        if (t->kind != TW_TYPE_TENSOR)
            return tw_gv_error(c, "%s is no tensor", tw_print_type(c->ctx, t));
    }
    return true;
}

bool tw_graph_verify(tw_context *ctx, const tw_op *op)
{
    tw_graph_check c = {ctx, op};
    tw_graph_rule rule = find_rule(tw_graph_kind_of(op));
    return check_tensors(&c) && tw_graph_verify_layouts(&c) && (!rule || rule(&c));
}
