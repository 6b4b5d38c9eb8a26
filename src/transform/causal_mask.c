/* causal_mask.c: the forms in which models say that a query meets no later key.
 *
 *   booleans:  less_equal(iota over keys, iota over queries [+ past])    and less, greater …
 *              and(such a one, others)          not(such a one)
 *              cast(trilu(expand(1))), a triangle as a constant, and a slice of that
 *   addends:   trilu(expand(-inf), k = 1, upper), where(booleans, 0, -inf), a constant
 *
 * Each says j <= i + offset for key j and query i, the offset being an expression over symbols. */
#include "transform/causal_mask.h"

#include "ir/elem_data.h"
#include "transform/constants.h"

enum { MAX_DEPTH = 8 };

/* ---- Positions ---- */

/* A number for each key or each query: its position plus an offset. */
typedef struct position {
    unsigned from_end; /* 1: of a key, 2: of a query, 0: the offset alone */
    tw_expr offset;
} position;

/* One size of a tensor, or a number, as an expression. */
static bool is_number(tw_context *ctx, const tw_value *value, tw_expr *out)
{
    tw_elem elem;
    double number;
    while (value->op && tw_is_graph(value->op, TW_GRAPH_RESHAPE) && tw_is_single(value))
        value = tw_operand(value->op, 0);
    if (tw_constant_splat(value, &elem, &number) && !tw_elem_is_float(elem)) {
        *out = tw_expr_const(ctx, (int64_t)number);
        return true;
    }
    if (!value->op || !tw_is_graph(value->op, TW_GRAPH_SHAPE) || !tw_is_single(value))
        return false;
    *out = tw_operand(value->op, 0)->type->dims[tw_op_int(value->op, "start", 0)];
    return true;
}

/* Whether the elements hold positions without overflow. */
static bool counts(const tw_value *value)
{
    return value->type->elem == TW_I64 || value->type->elem == TW_I32;
}

/* The axis from the end along which a vector of that size lies; 0: none. */
static unsigned axis_of_vector(tw_type type, tw_expr size)
{
    unsigned axis = type->rank, n = 0;
    for (unsigned i = 0; i < type->rank; i++)
        if (!tw_expr_is_const(type->dims[i]) || type->dims[i]->value != 1) {
            axis = i;
            n++;
        }
    return n == 1 && type->dims[axis] == size ? type->rank - axis : 0;
}

static bool find_position(tw_context *ctx, const tw_value *value, int depth, position *out)
{
    const tw_op *op = value->op;
    tw_expr step;
    *out = (position){.offset = tw_expr_const(ctx, 0)};
    if (is_number(ctx, value, &out->offset))
        return true;
    if (!op || depth == MAX_DEPTH || !counts(value))
        return false;
    switch (tw_graph_kind_of(op)) {
    case TW_GRAPH_IOTA:
        out->from_end = value->type->rank - (unsigned)tw_op_int(op, "axis", 0);
        return out->from_end <= 2;
    case TW_GRAPH_RANGE:
        out->from_end = 1;
        return is_number(ctx, tw_operand(op, 0), &out->offset) &&
               is_number(ctx, tw_operand(op, 2), &step) && step == tw_expr_const(ctx, 1);
    case TW_GRAPH_CAST:
    case TW_GRAPH_EXPAND:
        return counts(tw_operand(op, 0)) && find_position(ctx, tw_operand(op, 0), depth + 1, out);
    case TW_GRAPH_RESHAPE: {
        tw_type from = tw_operand(op, 0)->type;
        unsigned axis = from->rank == 1 ? axis_of_vector(value->type, from->dims[0]) : 0;
        if (!axis || !find_position(ctx, tw_operand(op, 0), depth + 1, out) || out->from_end != 1)
            return false;
        out->from_end = axis;
        return axis <= 2;
    }
    case TW_GRAPH_ADD:
    case TW_GRAPH_SUB: {
        position x, y;
        bool minus = tw_is_graph(op, TW_GRAPH_SUB);
        if (!find_position(ctx, tw_operand(op, 0), depth + 1, &x) ||
            !find_position(ctx, tw_operand(op, 1), depth + 1, &y) ||
            (y.from_end && (x.from_end || minus)))
            return false;
        out->from_end = x.from_end + y.from_end;
        out->offset =
            minus ? tw_expr_sub(ctx, x.offset, y.offset) : tw_expr_add(ctx, x.offset, y.offset);
        return true;
    }
    default:
        return false;
    }
}

/* Of a < b, or with `equal` a <= b: of a key and a query it says what stays, of a query and a key
 * what does not (`inverted`). */
static bool compare_positions(tw_context *ctx, const tw_value *a, const tw_value *b, bool equal,
                              bool inverted, tw_causal *out)
{
    position x, y;
    if (!find_position(ctx, a, 0, &x) || !find_position(ctx, b, 0, &y))
        return false;
    tw_expr between = tw_expr_sub(ctx, y.offset, x.offset);
    if (!inverted && x.from_end == 1 && y.from_end == 2) { /* j + x < i + y */
        out->offset = tw_expr_addc(ctx, between, equal ? 0 : -1);
        return true;
    }
    if (inverted && x.from_end == 2 && y.from_end == 1) { /* not i + x < j + y: j <= i + x - y */
        out->offset = tw_expr_addc(ctx, tw_expr_mulc(ctx, between, -1), equal ? -1 : 0);
        return true;
    }
    return false;
}

/* ---- Triangles ---- */

/* Whether the last two axes are an expanded non-zero number. */
static bool is_expanded(const tw_value *value, double *number)
{
    tw_elem elem;
    if (value->op && tw_is_graph(value->op, TW_GRAPH_EXPAND))
        value = tw_operand(value->op, 0);
    return tw_constant_splat(value, &elem, number) && *number != 0;
}

/* trilu of one number: what is 0 stays, or what is not. */
static bool find_trilu(tw_context *ctx, const tw_value *value, bool zeros_stay, tw_causal *out)
{
    const tw_op *op = value->op;
    if (!op || !tw_is_graph(op, TW_GRAPH_TRILU) || tw_op_bool(op, "upper", true) != zeros_stay ||
        !is_expanded(tw_operand(op, 0), &out->fill))
        return false;
    out->offset = tw_expr_const(ctx, tw_op_int(op, "k", 0) - (zeros_stay ? 1 : 0));
    return true;
}

/* The bits of the elements that stay and of the others in a constant triangle. */
static bool find_table(tw_context *ctx, const tw_value *value, bool zeros_stay, tw_causal *out)
{
    tw_attr dense = tw_graph_constant_value(value);
    size_t count;
    unsigned rank = value->type->rank;
    if (!dense || rank < 2 || value->type->elem == TW_STRING || !tw_dense_count(dense, &count) ||
        count < 2)
        return false;
    tw_elem elem = value->type->elem;
    const void *data = dense->u.dense.data;
    size_t rows = (size_t)tw_type_dim(value->type, rank - 2),
           keys = (size_t)tw_type_dim(value->type, rank - 1), first = 0;
    if (count != rows * keys)
        return false;
    uint64_t stay = tw_elem_load(elem, data, 0), other = tw_elem_load(elem, data, keys - 1);
    while (first < keys && tw_elem_load(elem, data, first) == stay)
        first++;
    bool zero = tw_elem_is_float(elem) ? tw_elem_to_double(elem, stay) == 0
                                       : tw_elem_to_int(elem, stay) == 0;
    if (first == keys || zero != zeros_stay)
        return false;
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < keys; j++)
            if (tw_elem_load(elem, data, i * keys + j) != (j < first + i ? stay : other))
                return false;
    out->offset = tw_expr_const(ctx, (int64_t)first - 1);
    out->fill = tw_elem_is_float(elem) ? tw_elem_to_double(elem, other)
                                       : (double)tw_elem_to_int(elem, other);
    return true;
}

/* A constant triangle, or a part of one that starts at any row and key. */
static bool find_triangle(tw_context *ctx, const tw_value *value, bool zeros_stay, tw_causal *out)
{
    const tw_op *op = value->op;
    unsigned rank = value->type->rank;
    tw_expr starts[TW_MAX_RANK], steps[TW_MAX_RANK];
    if (find_trilu(ctx, value, zeros_stay, out) || find_table(ctx, value, zeros_stay, out))
        return true;
    if (!op || rank < 2 || !tw_is_graph(op, TW_GRAPH_SLICE) ||
        tw_graph_exprs(ctx, op, "starts", starts, TW_MAX_RANK) != (int)rank ||
        tw_graph_exprs(ctx, op, "steps", steps, TW_MAX_RANK) != (int)rank ||
        steps[rank - 1] != tw_expr_const(ctx, 1) || steps[rank - 2] != tw_expr_const(ctx, 1) ||
        !find_table(ctx, tw_operand(op, 0), zeros_stay, out))
        return false;
    tw_expr shift = tw_expr_sub(ctx, starts[rank - 2], starts[rank - 1]);
    out->offset = tw_expr_add(ctx, out->offset, shift);
    return true;
}

/* ---- Masks ---- */

static bool same_last_two(tw_type a, tw_type b)
{
    return a->rank >= 2 && b->rank >= 2 && a->dims[a->rank - 1] == b->dims[b->rank - 1] &&
           a->dims[a->rank - 2] == b->dims[b->rank - 2];
}

static bool is_causal(tw_context *ctx, const tw_value *mask, bool inverted, int depth,
                      tw_causal *out)
{
    const tw_op *op = mask->op;
    if (find_triangle(ctx, mask, inverted, out))
        return true;
    if (!op || depth == MAX_DEPTH)
        return false;
    const tw_value *a = op->n_operands ? tw_operand(op, 0) : NULL;
    const tw_value *b = op->n_operands > 1 ? tw_operand(op, 1) : NULL;
    switch (tw_graph_kind_of(op)) {
    case TW_GRAPH_NOT:
        return is_causal(ctx, a, !inverted, depth + 1, out);
    case TW_GRAPH_CAST:
        return mask->type->elem == TW_BOOL && is_causal(ctx, a, inverted, depth + 1, out);
    case TW_GRAPH_RESHAPE:
        return same_last_two(mask->type, a->type) && is_causal(ctx, a, inverted, depth + 1, out);
    case TW_GRAPH_LESS:
    case TW_GRAPH_LESS_EQUAL:
        return compare_positions(ctx, a, b, tw_is_graph(op, TW_GRAPH_LESS_EQUAL), inverted, out);
    case TW_GRAPH_GREATER:
    case TW_GRAPH_GREATER_EQUAL:
        return compare_positions(ctx, b, a, tw_is_graph(op, TW_GRAPH_GREATER_EQUAL), inverted, out);
    default:
        return false;
    }
}

bool tw_causal_condition(tw_context *ctx, const tw_value *mask, bool inverted, tw_causal *out,
                         tw_value **rest)
{
    const tw_op *op = mask->op;
    *rest = NULL;
    if (mask->type->rank < 2)
        return false;
    if (is_causal(ctx, mask, inverted, 0, out))
        return true;
    for (unsigned i = 0; op && !inverted && tw_is_graph(op, TW_GRAPH_AND) && i < 2; i++)
        if (tw_operand(op, i)->type->rank >= 2 &&
            is_causal(ctx, tw_operand(op, i), false, 0, out)) {
            *rest = tw_operand(op, 1 - i);
            return true;
        }
    return false;
}

bool tw_causal_addend(tw_context *ctx, const tw_value *mask, tw_causal *out)
{
    const tw_op *op = mask->op;
    tw_elem elem;
    double yes, no;
    if (mask->type->rank < 2)
        return false;
    if (find_triangle(ctx, mask, true, out))
        return true;
    if (!op || !tw_is_graph(op, TW_GRAPH_WHERE) ||
        !tw_constant_splat(tw_operand(op, 1), &elem, &yes) ||
        !tw_constant_splat(tw_operand(op, 2), &elem, &no) || (yes == 0) == (no == 0) ||
        !is_causal(ctx, tw_operand(op, 0), yes != 0, 0, out))
        return false;
    out->fill = yes != 0 ? yes : no;
    return true;
}
