/* loop_parse.c: reads what loop_print.c writes. */
#include "dialect/loop/loop.h"
#include "dialect/loop/loop_syntax.h"

#include "base/vec.h"

#include <string.h>

/* The values that an operation's expressions are over, in the order in which they are met: its
 * index operands. */
typedef struct operand_list {
    tw_value *values[TW_MAX_EXPR_DIMS];
    unsigned n;
} operand_list;

typedef TW_VEC(tw_expr) expr_list;

static tw_arena *arena_of(tw_parser *p)
{
    return tw_context_arena(tw_q_context(p));
}

/* `a, b` up to `close`; maybe none. */
static bool parse_exprs(tw_parser *p, operand_list *over, const char *close, expr_list *out)
{
    if (tw_q_try(p, close))
        return true;
    do {
        tw_expr e;
        if (!tw_q_expr(p, over->values, &over->n, &e))
            return false;
        tw_vec_push(arena_of(p), out, e);
    } while (tw_q_try(p, ","));
    return tw_q_expect(p, close);
}

/* ` where (a, b)` if it is there. */
static bool parse_where(tw_parser *p, operand_list *over, bool *there, expr_list *out)
{
    *there = tw_q_try(p, "where");
    return !*there || (tw_q_expect(p, "(") && parse_exprs(p, over, ")", out));
}

static tw_attr map_of(tw_parser *p, unsigned n_dims, const expr_list *exprs)
{
    return tw_attr_map(tw_q_context(p), n_dims, exprs->data, exprs->len);
}

static tw_type index_type(tw_parser *p)
{
    return tw_type_scalar(tw_q_context(p), TW_INDEX);
}

static tw_op *create(tw_parser *p, const tw_op_def *def, const operand_list *operands,
                     const tw_named_attr *attrs, unsigned n_attrs)
{
    return tw_op_create(tw_q_context(p), def, NULL, operands ? operands->values : NULL,
                        operands ? operands->n : 0, NULL, 0, attrs, n_attrs,
                        (unsigned)def->n_regions);
}

/* ---- Structure ---- */

static bool parse_kernel(tw_parser *p, const tw_op_def *def, tw_op **out)
{
    const char *name;
    tw_q_name *names;
    tw_type *types;
    unsigned n;
    if (!tw_q_symbol(p, &name) || !tw_q_arguments(p, &names, &types, &n))
        return false;
    tw_named_attr attr = {"sym_name", tw_attr_symbol(tw_q_context(p), name)};
    *out = create(p, def, NULL, &attr, 1);
    for (unsigned i = 0; i < n; i++)
        tw_region_add_arg(&(*out)->regions[0], types[i], names[i].hint);
    return tw_q_attributes(p, *out) && tw_q_region(p, &(*out)->regions[0], names);
}

/* `step 4`, `parallel`: both may be absent. */
static bool parse_for_words(tw_parser *p, tw_op *op)
{
    tw_context *ctx = tw_q_context(p);
    int64_t step;
    if (tw_q_try(p, "step")) {
        if (!tw_q_int(p, &step))
            return false;
        tw_op_set_attr(op, "step", tw_attr_int(ctx, step));
    }
    for (const char *const *kind = tw_loop_for_kinds; *kind; kind++)
        if (tw_q_try(p, *kind)) {
            tw_op_set_attr(op, "kind", tw_attr_string(ctx, *kind));
            break;
        }
    return true;
}

static bool parse_for(tw_parser *p, const tw_op_def *def, tw_op **out)
{
    operand_list over = {.n = 0};
    tw_q_name name;
    tw_expr bounds[2];
    if (!tw_q_new_name(p, &name) || !tw_q_expect(p, "=") ||
        !tw_q_expr(p, over.values, &over.n, &bounds[0]) || !tw_q_expect(p, "to") ||
        !tw_q_expr(p, over.values, &over.n, &bounds[1]))
        return false;
    tw_named_attr attr = {"bounds", tw_attr_map(tw_q_context(p), over.n, bounds, 2)};
    *out = create(p, def, &over, &attr, 1);
    tw_region_add_arg(&(*out)->regions[0], index_type(p), name.hint);
    return parse_for_words(p, *out) && tw_q_attributes(p, *out) &&
           tw_q_region(p, &(*out)->regions[0], &name);
}

/* What stands between the name of a block and its regions. */
typedef struct block_head {
    operand_list over;
    TW_VEC(tw_q_name) names;
    TW_VEC(tw_attr) kinds;
    expr_list extents, bindings, where;
    bool has_where;
} block_head;

/* `%vi: spatial 16 = %i` */
static bool parse_iter(tw_parser *p, block_head *h)
{
    tw_arena *arena = arena_of(p);
    operand_list none = {.n = 0};
    tw_q_name name;
    tw_expr extent, binding;
    if (!tw_q_new_name(p, &name) || !tw_q_expect(p, ":"))
        return false;
    bool reduce = tw_q_try(p, "reduce");
    if (!reduce && !tw_q_try(p, "spatial"))
        return tw_q_error(p, "expected 'spatial' or 'reduce'");
    if (!tw_q_expr(p, none.values, &none.n, &extent))
        return false;
    if (none.n)
        return tw_q_error(p, "the extent of an iteration variable depends on no value");
    if (!tw_q_expect(p, "=") || !tw_q_expr(p, h->over.values, &h->over.n, &binding))
        return false;
    tw_vec_push(arena, &h->names, name);
    tw_vec_push(arena, &h->kinds, tw_attr_string(tw_q_context(p), reduce ? "reduce" : "spatial"));
    tw_vec_push(arena, &h->extents, extent);
    tw_vec_push(arena, &h->bindings, binding);
    return true;
}

static bool parse_block_head(tw_parser *p, block_head *h)
{
    if (!tw_q_expect(p, "("))
        return false;
    if (!tw_q_try(p, ")")) {
        do
            if (!parse_iter(p, h))
                return false;
        while (tw_q_try(p, ","));
        if (!tw_q_expect(p, ")"))
            return false;
    }
    return parse_where(p, &h->over, &h->has_where, &h->where);
}

static bool parse_block(tw_parser *p, const tw_op_def *def, tw_op **out)
{
    tw_context *ctx = tw_q_context(p);
    block_head *h = TW_NEW(arena_of(p), block_head);
    const char *name;
    if (!tw_q_string(p, &name) || !parse_block_head(p, h))
        return false;
    tw_named_attr attrs[] = {
        {"sym_name", tw_attr_string(ctx, name)},
        {"iters", tw_attr_array(ctx, h->kinds.data, h->kinds.len)},
        {"extents", map_of(p, 0, &h->extents)},
        {"bindings", map_of(p, h->over.n, &h->bindings)},
        {"where", h->has_where ? map_of(p, h->over.n, &h->where) : NULL},
    };
    *out = create(p, def, &h->over, attrs, h->has_where ? 5 : 4);
    for (unsigned r = 0; r < 2; r++)
        for (size_t i = 0; i < h->names.len; i++)
            tw_region_add_arg(&(*out)->regions[r], index_type(p), h->names.data[i].hint);
    return tw_q_attributes(p, *out) &&
           tw_q_double_region(p, "init", &(*out)->regions[0], &(*out)->regions[1], h->names.data);
}

static bool parse_if(tw_parser *p, const tw_op_def *def, tw_op **out)
{
    operand_list over = {.n = 0};
    expr_list where = {0};
    if (!tw_q_expect(p, "(") || !parse_exprs(p, &over, ")", &where))
        return false;
    tw_named_attr attr = {"where", map_of(p, over.n, &where)};
    *out = create(p, def, &over, &attr, 1);
    return tw_q_attributes(p, *out) && tw_q_region(p, &(*out)->regions[0], NULL) &&
           (!tw_q_try(p, "else") || tw_q_region(p, &(*out)->regions[1], NULL));
}

/* ---- Access ---- */

static bool parse_access(tw_parser *p, const tw_op_def *def, tw_op **out)
{
    bool load = def->kind == TW_LOOP_LOAD, masked;
    operand_list over = {.n = 0};
    expr_list index = {0}, where = {0};
    tw_value *operands[TW_MAX_EXPR_DIMS + 3];
    unsigned n = 0;
    if (!load && (!tw_q_value(p, &operands[n++]) || !tw_q_expect(p, ",")))
        return false;
    if (!tw_q_value(p, &operands[n++]) || !tw_q_expect(p, "[") ||
        !parse_exprs(p, &over, "]", &index) || !parse_where(p, &over, &masked, &where))
        return false;
    for (unsigned i = 0; i < over.n; i++)
        operands[n++] = over.values[i];
    if (load && masked && (!tw_q_expect(p, "else") || !tw_q_value(p, &operands[n++])))
        return false;
    tw_named_attr attrs[] = {{"index", map_of(p, over.n, &index)},
                             {"where", masked ? map_of(p, over.n, &where) : NULL}};
    return tw_q_tail(p, def, operands, n, attrs, masked ? 2 : 1, out);
}

static bool parse_index(tw_parser *p, const tw_op_def *def, tw_op **out)
{
    operand_list over = {.n = 0};
    tw_expr e;
    if (!tw_q_expr(p, over.values, &over.n, &e))
        return false;
    tw_named_attr attr = {"expr", tw_attr_map(tw_q_context(p), over.n, &e, 1)};
    return tw_q_tail(p, def, over.values, over.n, &attr, 1, out);
}

bool tw_loop_parse(tw_parser *p, const tw_op_def *def, tw_op **out)
{
    switch ((tw_loop_kind)def->kind) {
    case TW_LOOP_KERNEL:
        return parse_kernel(p, def, out);
    case TW_LOOP_FOR:
        return parse_for(p, def, out);
    case TW_LOOP_BLOCK:
        return parse_block(p, def, out);
    case TW_LOOP_IF:
        return parse_if(p, def, out);
    case TW_LOOP_LOAD:
    case TW_LOOP_STORE:
        return parse_access(p, def, out);
    case TW_LOOP_INDEX:
        return parse_index(p, def, out);
    default:
        return tw_q_generic(p, def, out);
    }
}
