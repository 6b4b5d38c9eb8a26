/* loop_print.c: loop operations as text; loop.def shows the syntax, loop_parse.c reads it. */
#include "dialect/loop/loop.h"
#include "dialect/loop/loop_syntax.h"

#include <string.h>

static void print_exprs(tw_printer *p, const char *open, tw_attr map, tw_value *const *values,
                        const char *close)
{
    tw_p_text(p, "%s", open);
    for (size_t i = 0; i < map->u.map.n; i++) {
        tw_p_text(p, "%s", i ? ", " : "");
        tw_p_expr(p, map->u.map.exprs[i], values);
    }
    tw_p_text(p, "%s", close);
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

const char *const tw_loop_for_kinds[] = {"serial",      "parallel",    "vectorize",  "unroll",
                                         "blockIdx.x",  "blockIdx.y",  "blockIdx.z", "threadIdx.x",
                                         "threadIdx.y", "threadIdx.z", "vthread",    NULL};

static bool print_for(tw_printer *p, const tw_op *op)
{
    static const char *const shown[] = {"bounds", "kind", "step", NULL};
    tw_attr bounds = tw_op_attr(op, "bounds"), step = tw_op_attr(op, "step");
    tw_value *values[TW_MAX_EXPR_DIMS];
    const char *kind = tw_op_string(op, "kind", NULL);
    const tw_region *body = &op->regions[0];
    bool known = !kind;
    for (const char *const *k = tw_loop_for_kinds; *k; k++)
        known = known || !strcmp(*k, kind);
    bool index = body->n_args == 1 && body->args[0]->type &&
                 body->args[0]->type->kind == TW_TYPE_SCALAR &&
                 body->args[0]->type->elem == TW_INDEX;
    if (!known || !index || bounds->u.map.n != 2 ||
        !tw_p_maps(p, op, 0, op->n_operands, &bounds, 1, values))
        return false;
    tw_p_text(p, " ");
    tw_p_value(p, body->args[0]);
    tw_p_text(p, " = ");
    tw_p_expr(p, bounds->u.map.exprs[0], values);
    tw_p_text(p, " to ");
    tw_p_expr(p, bounds->u.map.exprs[1], values);
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
    tw_attr extents = tw_op_attr(op, "extents");
    size_t n = tw_op_attr(op, "iters")->u.array.n;
    bool good = extents->u.map.n_dims == 0 && extents->u.map.n == n &&
                tw_op_attr(op, "bindings")->u.map.n == n && op->regions[0].n_args == n &&
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
    tw_attr extents = tw_op_attr(op, "extents");
    tw_attr maps[] = {tw_op_attr(op, "bindings"), tw_op_attr(op, "where")};
    tw_value *values[TW_MAX_EXPR_DIMS];
    if (!block_fits(op) || !tw_p_maps(p, op, 0, op->n_operands, maps, 2, values))
        return false;
    tw_p_text(p, " ");
    tw_p_string(p, tw_op_string(op, "sym_name", ""));
    tw_p_text(p, " (");
    for (unsigned i = 0; i < extents->u.map.n; i++) {
        tw_p_text(p, "%s", i ? ", " : "");
        tw_p_value(p, op->regions[1].args[i]);
        tw_p_text(p, ": %s ", iter_kind(op, i));
        tw_p_expr(p, extents->u.map.exprs[i], NULL);
        tw_p_text(p, " = ");
        tw_p_expr(p, maps[0]->u.map.exprs[i], values);
    }
    tw_p_text(p, ")");
    if (maps[1])
        print_exprs(p, " where (", maps[1], values, ")");
    tw_p_attributes(p, op, shown);
    tw_p_text(p, " ");
    tw_p_double_region(p, "init", &op->regions[0], &op->regions[1]);
    return true;
}

static bool print_if(tw_printer *p, const tw_op *op)
{
    static const char *const shown[] = {"where", NULL};
    tw_attr where = tw_op_attr(op, "where");
    tw_value *values[TW_MAX_EXPR_DIMS];
    if (op->regions[0].n_args || op->regions[1].n_args ||
        !tw_p_maps(p, op, 0, op->n_operands, &where, 1, values))
        return false;
    print_exprs(p, " (", where, values, ")");
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
    tw_value *values[TW_MAX_EXPR_DIMS];
    tw_loop_get_access(op, &a);
    tw_attr maps[] = {a.index, a.where};
    if (op->n_operands < a.first_index + (a.other != NULL) ||
        !tw_p_maps(p, op, a.first_index, a.n_index, maps, 2, values))
        return false;
    tw_p_text(p, " ");
    if (a.value) {
        tw_p_value(p, a.value);
        tw_p_text(p, ", ");
    }
    tw_p_value(p, a.buffer);
    print_exprs(p, "[", maps[0], values, "]");
    if (a.where)
        print_exprs(p, " where (", maps[1], values, ")");
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
    tw_value *values[TW_MAX_EXPR_DIMS];
    if (map->u.map.n != 1 || !tw_p_maps(p, op, 0, op->n_operands, &map, 1, values))
        return false;
    tw_p_text(p, " ");
    tw_p_expr(p, map->u.map.exprs[0], values);
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
