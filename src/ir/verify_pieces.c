/* verify_pieces.c: what must hold for types, attributes and expressions, which can be built by hand
 * in ways that no text says. Each is looked at once and without recursion: they share parts, and
 * nest as deeply as their maker likes. */
#include "ir/elem_data.h"
#include "ir/verify_impl.h"

#include <string.h>

/* ---- Expressions ---- */

/* In the table an expression has 1 + its number of dimensions, or this. */
static void *const invalid = (void *)UINTPTR_MAX;

static uintptr_t known(tw_piece_checker *c, tw_expr e)
{
    return e ? (uintptr_t)tw_map_get_ptr(&c->exprs, e) : (uintptr_t)invalid;
}

static bool has_parts(tw_expr e)
{
    return e->kind >= TW_EXPR_ADD && e->kind <= TW_EXPR_MAX;
}

static void *conclude(tw_piece_checker *c, tw_expr e)
{
    if (has_parts(e)) {
        uintptr_t l = known(c, e->lhs), r = known(c, e->rhs);
        return (void *)(l > r ? l : r);
    }
    if (e->kind == TW_EXPR_DIM)
        return e->value >= 0 && e->value < UINT32_MAX ? (void *)((uintptr_t)e->value + 2) : invalid;
    bool good = e->kind == TW_EXPR_CONST || (e->kind == TW_EXPR_SYM && e->symbol);
    return good ? (void *)1 : invalid;
}

/* The number of dimensions it is over; false when something in it is invalid. */
static bool check_expr(tw_piece_checker *c, tw_expr root, uintptr_t *dims)
{
    TW_VEC(tw_expr) stack = {0};
    if (root && !known(c, root))
        tw_vec_push(c->arena, &stack, root);
    while (stack.len) {
        tw_expr e = stack.data[stack.len - 1];
        bool left = has_parts(e) && !known(c, e->lhs);
        bool right = has_parts(e) && !known(c, e->rhs);
        if (left)
            tw_vec_push(c->arena, &stack, e->lhs);
        if (right)
            tw_vec_push(c->arena, &stack, e->rhs);
        if (left || right)
            continue;
        tw_map_put_ptr(&c->exprs, e, conclude(c, e));
        stack.len--;
    }
    *dims = known(c, root) - 1;
    return known(c, root) != (uintptr_t)invalid;
}

/* ---- Types and attributes ---- */

static void push(tw_piece_checker *c, tw_type type, tw_attr attr)
{
    const void *piece = type ? (const void *)type : (const void *)attr;
    if (!piece || tw_map_put_ptr(&c->seen, piece, c))
        return;
    tw_vec_push(c->arena, &c->pending, (const void *)type);
    tw_vec_push(c->arena, &c->pending, (const void *)attr);
}

static void wrong(tw_piece_checker *c, const char *what)
{
    tw_error(c->ctx, c->op->loc, "%s: %s", c->op->def->name, what);
}

static void check_shape(tw_piece_checker *c, tw_type type)
{
    if ((unsigned)type->elem >= TW_ELEM_COUNT)
        wrong(c, "a type has an unknown element type");
    if (type->rank > TW_MAX_RANK) {
        wrong(c, "a type has a rank above 16");
        return;
    }
    for (unsigned i = 0; i < type->rank; i++) {
        uintptr_t dims;
        tw_expr e = type->dims[i];
        if (!check_expr(c, e, &dims) || dims)
            wrong(c, "a size in a type is no valid expression over symbols (overflow?)");
        else if (tw_expr_is_const(e) && e->value < 0)
            wrong(c, "a size in a type is below 0");
    }
    if (type->kind == TW_TYPE_VECTOR &&
        (type->rank != 1 || !tw_expr_is_const(type->dims[0]) || type->dims[0]->value < 1))
        wrong(c, "a vector type needs a number of lanes of at least 1");
}

/* The axes that the layout names are there, and the last one is a block. */
static void check_layout(tw_piece_checker *c, tw_type type)
{
    int64_t block, size;
    tw_layout_kind kind = tw_layout_read(type->layout, &block);
    bool good = kind == TW_LAYOUT_PLAIN ||
                (type->kind == TW_TYPE_TENSOR &&
                 ((kind == TW_LAYOUT_NHWC && type->rank >= 2) ||
                  (kind == TW_LAYOUT_NCHWC && type->rank >= 3 && type->rank <= TW_MAX_RANK &&
                   tw_expr_as_const(type->dims[type->rank - 1], &size) && size == block)));
    if (!good)
        tw_error(c->ctx, c->op->loc,
                 "%s: %s has a layout that does not fit it; NHWC takes 2 axes or more, NCHW16c 3 "
                 "or more, the last one of size 16",
                 c->op->def->name, tw_print_type(c->ctx, type));
}

static void check_dialect_type(tw_piece_checker *c, tw_type type)
{
    const tw_type_def *def = type->name ? tw_map_get_str(&c->ctx->type_defs, type->name) : NULL;
    if (!def)
        tw_error(c->ctx, c->op->loc, "%s: type '!%s' is not registered", c->op->def->name,
                 type->name ? type->name : "");
    else if (type->params && type->params->kind != TW_ATTR_ARRAY)
        wrong(c, "the parameters of a dialect type are no array");
    else if (def->verify && !def->verify(c->ctx, c->op->loc, type->params))
        tw_error(c->ctx, c->op->loc, "%s: the parameters of !%s are wrong", c->op->def->name,
                 type->name);
    push(c, NULL, type->params);
}

static void check_function_type(tw_piece_checker *c, tw_type type)
{
    for (unsigned i = 0; i < type->n_inputs + type->n_results; i++) {
        tw_type part = i < type->n_inputs ? type->inputs[i] : type->results[i - type->n_inputs];
        if (!part)
            wrong(c, "a function type lacks the type of an input or result");
        push(c, part, NULL);
    }
}

static void check_one_type(tw_piece_checker *c, tw_type type)
{
    switch (type->kind) {
    case TW_TYPE_SCALAR:
    case TW_TYPE_TENSOR:
    case TW_TYPE_BUFFER:
    case TW_TYPE_VECTOR:
        check_shape(c, type);
        check_layout(c, type);
        return;
    case TW_TYPE_FUNC:
        check_function_type(c, type);
        return;
    case TW_TYPE_DIALECT:
        check_dialect_type(c, type);
        return;
    }
    wrong(c, "a type is of no known kind");
}

static void check_map(tw_piece_checker *c, tw_attr attr)
{
    for (size_t i = 0; i < attr->u.map.n; i++) {
        uintptr_t dims;
        if (!check_expr(c, attr->u.map.exprs[i], &dims))
            wrong(c, "an expression in a map is invalid (overflow, or division by what is not "
                     "above 0)");
        else if (dims > attr->u.map.n_dims)
            wrong(c, "an expression in a map uses a dimension that the map does not have");
    }
}

static void check_items(tw_piece_checker *c, tw_attr attr)
{
    bool array = attr->kind == TW_ATTR_ARRAY;
    size_t n = array ? attr->u.array.n : attr->u.dict.n;
    for (size_t i = 0; i < n; i++) {
        tw_attr item = array ? attr->u.array.items[i] : attr->u.dict.items[i].value;
        if (!item)
            wrong(c, "an array or dictionary lacks a value");
        push(c, NULL, item);
    }
}

static void check_one_attr(tw_piece_checker *c, tw_attr attr)
{
    size_t count;
    switch (attr->kind) {
    case TW_ATTR_ARRAY:
    case TW_ATTR_DICT:
        check_items(c, attr);
        return;
    case TW_ATTR_TYPE:
        if (!attr->u.type)
            wrong(c, "a type attribute lacks its type");
        push(c, attr->u.type, NULL);
        return;
    case TW_ATTR_MAP:
        check_map(c, attr);
        return;
    case TW_ATTR_DENSE:
        if (!tw_dense_count(attr, &count))
            wrong(c, "the data of a constant are not of the size of its type, a static tensor");
        else if (count && !attr->u.dense.data)
            wrong(c, "a constant lacks its data");
        push(c, attr->u.dense.type, NULL);
        return;
    default:
        if ((unsigned)attr->kind >= TW_ATTR_ANY)
            wrong(c, "an attribute is of no known kind");
    }
}

static void check_pending(tw_piece_checker *c, const tw_op *op)
{
    c->op = op;
    while (c->pending.len) {
        tw_attr attr = c->pending.data[--c->pending.len];
        tw_type type = c->pending.data[--c->pending.len];
        if (type)
            check_one_type(c, type);
        else
            check_one_attr(c, attr);
    }
}

void tw_check_type(tw_piece_checker *c, const tw_op *op, tw_type type)
{
    push(c, type, NULL);
    check_pending(c, op);
}

void tw_check_attr(tw_piece_checker *c, const tw_op *op, tw_attr attr)
{
    push(c, NULL, attr);
    check_pending(c, op);
}
