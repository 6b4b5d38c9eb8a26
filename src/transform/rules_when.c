/* rules_when.c: conditions of rules. */
#include "transform/canonicalize.h"

#include "dialect/graph/graph.h"

bool tw_when_positive(const tw_rule_match *m)
{
    return tw_rule_number(m, "c") > 0;
}

bool tw_when_one_axis(const tw_rule_match *m)
{
    return tw_rule_attr(m, "A")->u.array.n == 1;
}

bool tw_when_last_axes(const tw_rule_match *m)
{
    tw_attr axes = tw_rule_attr(m, "A");
    size_t n = axes->u.array.n, rank = tw_rule_value(m, "x")->type->rank;
    for (size_t i = 0; i < n; i++)
        if (axes->u.array.items[i]->u.integer != (int64_t)(rank - n + i))
            return false;
    return n > 0;
}

bool tw_when_last_axes_and_epsilon(const tw_rule_match *m)
{
    return tw_when_last_axes(m) && tw_rule_number(m, "e") > 0;
}

bool tw_when_axes_come_back(const tw_rule_match *m)
{
    const tw_op *reshape = tw_rule_op(m);
    tw_context *ctx = tw_op_context(reshape);
    tw_type x = tw_rule_value(m, "x")->type;
    tw_attr axes = tw_rule_attr(m, "A");
    tw_expr dims[TW_MAX_RANK];
    for (unsigned i = 0; i < x->rank; i++)
        dims[i] = x->dims[i];
    for (size_t i = 0; i < axes->u.array.n; i++)
        dims[axes->u.array.items[i]->u.integer] = tw_expr_const(ctx, 1);
    return tw_value_has_one_use(tw_operand(reshape, 0)) &&
           reshape->results[0].type == tw_type_tensor(ctx, x->elem, x->rank, dims, x->layout);
}
