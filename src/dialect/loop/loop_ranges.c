/* loop_ranges.c: interval analysis of index values. */
#include "dialect/loop/loop_ranges.h"

#include "dialect/loop/index_map.h"
#include "dialect/loop/loop.h"

static const tw_range unknown = {INT64_MIN, INT64_MAX};

/* How many definitions are followed before the answer is "unknown": loop nests are shallow. */
enum { MAX_DEPTH = 64 };

static tw_range range_at(const tw_value *value, int depth);

static unsigned operand_ranges_at(const tw_op *op, tw_range *ranges, int depth)
{
    unsigned first, n;
    if (!tw_index_operands(op, &first, &n) || n > TW_MAX_EXPR_DIMS)
        return 0;
    for (unsigned i = 0; i < n; i++)
        ranges[i] = range_at(tw_operand(op, first + i), depth);
    return n;
}

static tw_range loop_range(const tw_op *loop, int depth)
{
    tw_range ranges[TW_MAX_EXPR_DIMS];
    unsigned n = operand_ranges_at(loop, ranges, depth);
    tw_attr bounds = tw_op_attr(loop, "bounds");
    tw_range lo = tw_expr_range(bounds->u.map.exprs[0], ranges, n);
    tw_range hi = tw_expr_range(bounds->u.map.exprs[1], ranges, n);
    return (tw_range){lo.lo, hi.hi == INT64_MAX ? INT64_MAX : hi.hi - 1};
}

static tw_range result_range(const tw_op *op, int depth)
{
    tw_range ranges[TW_MAX_EXPR_DIMS];
    if (tw_is_loop(op, TW_LOOP_INDEX)) {
        unsigned n = operand_ranges_at(op, ranges, depth);
        return tw_expr_range(tw_op_attr(op, "expr")->u.map.exprs[0], ranges, n);
    }
    if (tw_is_loop(op, TW_LOOP_RAMP)) {
        tw_range base = range_at(tw_operand(op, 0), depth);
        int64_t lanes = tw_type_dim(op->results[0].type, 0);
        return base.hi > INT64_MAX - lanes ? (tw_range){base.lo, INT64_MAX}
                                           : (tw_range){base.lo, base.hi + lanes - 1};
    }
    if (tw_is_loop(op, TW_LOOP_CONST) && op->results[0].type->elem == TW_INDEX) {
        int64_t value = tw_op_int(op, "value", 0);
        return (tw_range){value, value};
    }
    return unknown;
}

static tw_range range_at(const tw_value *value, int depth)
{
    if (depth >= MAX_DEPTH)
        return unknown;
    if (value->op)
        return result_range(value->op, depth + 1);
    const tw_op *parent = value->region->parent;
    if (tw_is_loop(parent, TW_LOOP_FOR))
        return loop_range(parent, depth + 1);
    if (tw_is_loop(parent, TW_LOOP_BLOCK)) {
        int64_t extent;
        if (tw_expr_as_const(tw_op_attr(parent, "extents")->u.map.exprs[value->index], &extent))
            return (tw_range){0, extent - 1};
    }
    return unknown;
}

tw_range tw_value_range(const tw_value *value)
{
    return range_at(value, 0);
}

unsigned tw_operand_ranges(const tw_op *op, tw_range *ranges)
{
    return operand_ranges_at(op, ranges, 0);
}
