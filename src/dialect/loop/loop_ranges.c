/* loop_ranges.c: interval analysis of index values. */
#include "dialect/loop/loop_ranges.h"

#include "dialect/loop/index_map.h"
#include "dialect/loop/loop.h"

static const tw_range unknown = {.lo = INT64_MIN, .hi = INT64_MAX};

/* How deep definitions are followed, and how many in all, before the answer is "unknown": nests are
 * shallow, but text may define each value by twice the one before. */
enum { MAX_DEPTH = 64, MAX_VISITS = 4096 };

typedef struct visits {
    tw_context *ctx;
    int depth, left;
} visits;

static tw_range range_of(visits *v, const tw_value *value);

static unsigned operand_ranges(visits *v, const tw_op *op, tw_range *ranges)
{
    unsigned first, n;
    if (!tw_index_operands(op, &first, &n) || n > TW_MAX_EXPR_DIMS)
        return 0;
    for (unsigned i = 0; i < n; i++)
        ranges[i] = range_of(v, tw_operand(op, first + i));
    return n;
}

/* The range with its upper bound over symbols: the largest value of `last`, when that has any. */
static tw_range with_top(const visits *v, tw_range range, tw_expr last, const tw_range *ranges,
                         unsigned n)
{
    if (range.hi == INT64_MAX)
        range.top = tw_expr_top(v->ctx, last, ranges, n);
    if (range.top && tw_expr_is_const(range.top)) {
        range.hi = range.top->value;
        range.top = NULL;
    }
    return range;
}

static tw_range loop_range(visits *v, const tw_op *loop)
{
    tw_range ranges[TW_MAX_EXPR_DIMS];
    unsigned n = operand_ranges(v, loop, ranges);
    tw_attr bounds = tw_op_attr(loop, "bounds");
    tw_range lo = tw_expr_range(bounds->u.map.exprs[0], ranges, n);
    tw_range hi = tw_expr_range(bounds->u.map.exprs[1], ranges, n);
    tw_range range = {.lo = lo.lo, .hi = hi.hi == INT64_MAX ? INT64_MAX : hi.hi - 1};
    return with_top(v, range, tw_expr_addc(v->ctx, bounds->u.map.exprs[1], -1), ranges, n);
}

static tw_range result_range(visits *v, const tw_op *op)
{
    tw_range ranges[TW_MAX_EXPR_DIMS];
    if (tw_is_loop(op, TW_LOOP_INDEX)) {
        unsigned n = operand_ranges(v, op, ranges);
        tw_expr e = tw_op_attr(op, "expr")->u.map.exprs[0];
        return with_top(v, tw_expr_range(e, ranges, n), e, ranges, n);
    }
    if (tw_is_loop(op, TW_LOOP_RAMP)) {
        tw_range base = range_of(v, tw_operand(op, 0));
        int64_t lanes = tw_type_dim(op->results[0].type, 0);
        base.hi = base.hi > INT64_MAX - lanes ? INT64_MAX : base.hi + lanes - 1;
        if (base.top)
            base.top = tw_expr_addc(v->ctx, base.top, lanes - 1);
        return base;
    }
    if (tw_is_loop(op, TW_LOOP_CONST) && op->results[0].type->elem == TW_INDEX) {
        int64_t value = tw_op_int(op, "value", 0);
        return (tw_range){.lo = value, .hi = value};
    }
    return unknown;
}

static tw_range argument_range(visits *v, const tw_value *value)
{
    const tw_op *parent = value->region->parent;
    if (tw_is_loop(parent, TW_LOOP_FOR))
        return loop_range(v, parent);
    if (!tw_is_loop(parent, TW_LOOP_BLOCK))
        return unknown;
    tw_expr extent = tw_op_attr(parent, "extents")->u.map.exprs[value->index];
    tw_range range = {.lo = 0, .hi = INT64_MAX};
    return with_top(v, range, tw_expr_addc(v->ctx, extent, -1), NULL, 0);
}

static tw_range range_of(visits *v, const tw_value *value)
{
    if (v->depth == MAX_DEPTH || v->left == 0)
        return unknown;
    v->depth++;
    v->left--;
    tw_range range = value->op ? result_range(v, value->op) : argument_range(v, value);
    v->depth--;
    return range;
}

tw_range tw_value_range(tw_context *ctx, const tw_value *value)
{
    return range_of(&(visits){.ctx = ctx, .left = MAX_VISITS}, value);
}

unsigned tw_operand_ranges(tw_context *ctx, const tw_op *op, tw_range *ranges)
{
    return operand_ranges(&(visits){.ctx = ctx, .left = MAX_VISITS}, op, ranges);
}
