/* graph_verify.c: rules of the graph dialect beyond its table: structure and element-wise
 * operations; graph_verify_move.c and graph_verify_compute.c have the others. */
#include "dialect/graph/graph_verify.h"

#include "dialect/graph/graph_verify_impl.h"

/* ---- Structure ---- */

static bool check_constant(const tw_graph_check *c)
{
    return tw_gv_expect_like(c, "the result", tw_gv_out(c, 0),
                             tw_op_attr(c->op, "value")->u.dense.type);
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
    const tw_op *last = body->last;
    if (!last || !tw_is_graph(last, TW_GRAPH_YIELD) || last->n_operands != op->n_results)
        return tw_gv_error(c, "the body ends with a graph.yield of %u values", op->n_results);
    for (unsigned i = 0; i < op->n_results; i++)
        if (tw_operand(last, i)->type != tw_gv_out(c, i))
            return tw_gv_error(c, "result %u is %s, but %s is yielded", i,
                               tw_print_type(c->ctx, tw_gv_out(c, i)),
                               tw_print_type(c->ctx, tw_operand(last, i)->type));
    return true;
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

static bool check_yield(const tw_graph_check *c)
{
    return !c->op->region || tw_is_graph(c->op->region->parent, TW_GRAPH_GROUP) ||
           tw_gv_error(c, "stands in a graph.group only");
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

/* ---- All ---- */

static tw_graph_rule find_rule(tw_graph_kind kind)
{
    tw_graph_rule rule = kind == TW_GRAPH_CONSTANT ? check_constant
                         : kind == TW_GRAPH_GROUP  ? check_group
                         : kind == TW_GRAPH_YIELD  ? check_yield
                         : kind == TW_GRAPH_BIND   ? check_bind
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
    return check_tensors(&c) && (!rule || rule(&c));
}
