/* loop_print.c: loop operations as text; loop.def shows the syntax, loop_parse.c reads it. */
#include "dialect/loop/loop.h"
#include "dialect/loop/loop_syntax.h"

#include <string.h>

static void print_exprs(tw_printer *p, const char *open, tw_attr map, const tw_op *op,
                        unsigned first, const char *close)
{
    tw_p_text(p, "%s", open);
    for (size_t i = 0; i < map->u.map.n; i++) {
        tw_p_text(p, "%s", i ? ", " : "");
        tw_p_expr(p, map->u.map.exprs[i], op, first);
    }
    tw_p_text(p, "%s", close);
}

/* A map over `dims` operands with any or (n >= 0) that many expressions. */
static bool is_map(tw_attr map, unsigned dims, int n)
{
    return map->u.map.n_dims == dims && dims <= TW_MAX_EXPR_DIMS &&
           (n < 0 || map->u.map.n == (size_t)n);
}

static bool print_kernel(tw_printer *p, const tw_op *op)
{
    static const char *const shown[] = {"sym_name", NULL};
    tw_p_text(p, " ");
    tw_p_symbol(p, tw_op_string(op, "sym_name", ""));
    tw_p_arguments(p, &op->regions[0]);
    tw_p_attributes(p, op, shown);
    tw_p_text(p, " ");
    tw_p_region(p, &op->regions[0]);
    return true;
}

const char *const tw_loop_for_kinds[] = {"serial", "parallel", "vectorize", "unroll", NULL};

static bool print_for(tw_printer *p, const tw_op *op)
{
    static const char *const shown[] = {"bounds", "kind", "step", NULL};
    tw_attr bounds = tw_op_attr(op, "bounds"), step = tw_op_attr(op, "step");
    const char *kind = tw_op_string(op, "kind", NULL);
    const tw_region *body = &op->regions[0];
    bool known = !kind;
    for (const char *const *k = tw_loop_for_kinds; *k; k++)
        known = known || !strcmp(*k, kind);
    bool index = body->n_args == 1 && body->args[0]->type &&
                 body->args[0]->type->kind == TW_TYPE_SCALAR &&
                 body->args[0]->type->elem == TW_INDEX;
    if (!known || !index || !is_map(bounds, op->n_operands, 2))
        return false;
    tw_p_text(p, " ");
    tw_p_value(p, body->args[0]);
    tw_p_text(p, " = ");
    tw_p_expr(p, bounds->u.map.exprs[0], op, 0);
    tw_p_text(p, " to ");
    tw_p_expr(p, bounds->u.map.exprs[1], op, 0);
    if (step)
        tw_p_text(p, " step %lld", (long long)step->u.integer);
    if (kind)
        tw_p_text(p, " %s", kind);
    tw_p_attributes(p, op, shown);
    tw_p_text(p, " ");
    tw_p_region(p, body);
    return true;
}

static const char *iter_kind(const tw_op *op, unsigned i)
{
    tw_attr item = tw_op_attr(op, "iters")->u.array.items[i];
    return item && item->kind == TW_ATTR_STRING ? item->u.string.text : "";
}

/* Both regions have the iteration variables as arguments, by the same names: the syntax has them
 * once. */
static bool block_fits(const tw_op *op)
{
    tw_attr where = tw_op_attr(op, "where");
    size_t n = tw_op_attr(op, "iters")->u.array.n;
    bool good = n <= INT32_MAX && is_map(tw_op_attr(op, "extents"), 0, (int)n) &&
                is_map(tw_op_attr(op, "bindings"), op->n_operands, (int)n) &&
                (!where || is_map(where, op->n_operands, -1)) && op->regions[0].n_args == n &&
                op->regions[1].n_args == n;
    for (unsigned i = 0; good && i < n; i++) {
        const tw_value *a = op->regions[0].args[i], *b = op->regions[1].args[i];
        good = a->name == b->name && a->type == b->type && a->type &&
               a->type->kind == TW_TYPE_SCALAR && a->type->elem == TW_INDEX &&
               (!strcmp(iter_kind(op, i), "spatial") || !strcmp(iter_kind(op, i), "reduce"));
    }
    return good;
}

static bool print_block(tw_printer *p, const tw_op *op)
{
    static const char *const shown[] = {"sym_name", "iters", "extents", "bindings", "where", NULL};
    tw_attr where = tw_op_attr(op, "where"), extents = tw_op_attr(op, "extents");
    tw_attr bindings = tw_op_attr(op, "bindings");
    if (!block_fits(op))
        return false;
    tw_p_text(p, " ");
    tw_p_string(p, tw_op_string(op, "sym_name", ""));
    tw_p_text(p, " (");
    for (unsigned i = 0; i < extents->u.map.n; i++) {
        tw_p_text(p, "%s", i ? ", " : "");
        tw_p_value(p, op->regions[1].args[i]);
        tw_p_text(p, ": %s ", iter_kind(op, i));
        tw_p_expr(p, extents->u.map.exprs[i], op, op->n_operands);
        tw_p_text(p, " = ");
        tw_p_expr(p, bindings->u.map.exprs[i], op, 0);
    }
    tw_p_text(p, ")");
    if (where)
        print_exprs(p, " where (", where, op, 0, ")");
    tw_p_attributes(p, op, shown);
    tw_p_text(p, " ");
    tw_p_double_region(p, "init", &op->regions[0], &op->regions[1]);
    return true;
}

static bool print_if(tw_printer *p, const tw_op *op)
{
    static const char *const shown[] = {"where", NULL};
    if (!is_map(tw_op_attr(op, "where"), op->n_operands, -1) || op->regions[0].n_args ||
        op->regions[1].n_args)
        return false;
    print_exprs(p, " (", tw_op_attr(op, "where"), op, 0, ")");
    tw_p_attributes(p, op, shown);
    tw_p_text(p, " ");
    tw_p_region(p, &op->regions[0]);
    if (op->regions[1].first) {
        tw_p_text(p, " else ");
        tw_p_region(p, &op->regions[1]);
    }
    return true;
}

static bool print_access(tw_printer *p, const tw_op *op)
{
    static const char *const shown[] = {"index", "where", NULL};
    tw_loop_access a;
    tw_loop_get_access(op, &a);
    if (!is_map(a.index, a.n_index, -1) || (a.where && !is_map(a.where, a.n_index, -1)))
        return false;
    tw_p_text(p, " ");
    if (a.value) {
        tw_p_value(p, a.value);
        tw_p_text(p, ", ");
    }
    tw_p_value(p, a.buffer);
    print_exprs(p, "[", a.index, op, a.first_index, "]");
    if (a.where)
        print_exprs(p, " where (", a.where, op, a.first_index, ")");
    if (a.other) {
        tw_p_text(p, " else ");
        tw_p_value(p, a.other);
    }
    tw_p_tail(p, op, shown);
    return true;
}

static bool print_index(tw_printer *p, const tw_op *op)
{
    static const char *const shown[] = {"expr", NULL};
    tw_attr map = tw_op_attr(op, "expr");
    if (!is_map(map, op->n_operands, 1))
        return false;
    tw_p_text(p, " ");
    tw_p_expr(p, map->u.map.exprs[0], op, 0);
    tw_p_tail(p, op, shown);
    return true;
}

bool tw_loop_print(tw_printer *p, const tw_op *op)
{
    switch (tw_loop_kind_of(op)) {
    case TW_LOOP_KERNEL:
        return print_kernel(p, op);
    case TW_LOOP_FOR:
        return print_for(p, op);
    case TW_LOOP_BLOCK:
        return print_block(p, op);
    case TW_LOOP_IF:
        return print_if(p, op);
    case TW_LOOP_LOAD:
    case TW_LOOP_STORE:
        return print_access(p, op);
    case TW_LOOP_INDEX:
        return print_index(p, op);
    default:
        tw_p_generic(p, op);
        return true;
    }
}
