/* graph_text.c: the syntax of constants, groups and control flow (graph_syntax.h shows it). */
#include "dialect/graph/graph.h"
#include "dialect/graph/graph_syntax.h"

#include "base/vec.h"

static bool print_constant(tw_printer *p, const tw_op *op)
{
    static const char *const shown[] = {"name", "value", NULL};
    tw_attr value = tw_op_attr(op, "value");
    const char *name = tw_op_string(op, "name", NULL);
    if (value->u.dense.type != op->results[0].type)
        return false;
    if (name) {
        tw_p_text(p, " ");
        tw_p_symbol(p, name);
    }
    tw_p_attrs(p, op, shown);
    tw_p_text(p, " ");
    tw_p_attr(p, value);
    return true;
}

/* Behind the attributes of the generic form, which is read as well. */
static bool parse_generic_constant(tw_parser *p, const tw_op_def *def, tw_attr attrs, tw_op **out)
{
    tw_type *types;
    unsigned n;
    if (!tw_q_expect(p, ":") || !tw_q_types(p, &types, &n))
        return false;
    *out = tw_op_create(tw_q_context(p), def, NULL, NULL, 0, types, n, attrs->u.dict.items,
                        (unsigned)attrs->u.dict.n, 0);
    return true;
}

static bool parse_constant(tw_parser *p, const tw_op_def *def, tw_op **out)
{
    tw_context *ctx = tw_q_context(p);
    const char *name = NULL;
    tw_attr more = NULL, value;
    if (tw_q_peek_symbol(p) && !tw_q_symbol(p, &name))
        return false;
    if (tw_q_peek(p, "{") && !tw_q_attr(p, &more))
        return false;
    if (more && !name && tw_q_peek(p, ":"))
        return parse_generic_constant(p, def, more, out);
    if (!tw_q_peek(p, "dense"))
        return tw_q_error(p, "expected the data of the constant: dense<...> : tensor<...>");
    if (!tw_q_attr(p, &value))
        return false;
    tw_named_attr attr = {"value", value};
    *out = tw_op_create(ctx, def, NULL, NULL, 0, &value->u.dense.type, 1, &attr, 1, 0);
    if (name)
        tw_op_set_attr(*out, "name", tw_attr_string(ctx, name));
    for (size_t i = 0; more && i < more->u.dict.n; i++)
        tw_op_set_attr(*out, more->u.dict.items[i].name, more->u.dict.items[i].value);
    return true;
}

static void print_result_types(tw_printer *p, const tw_op *op)
{
    for (unsigned i = 0; i < op->n_results; i++) {
        tw_p_text(p, "%s", i ? ", " : " : ");
        tw_p_type(p, op->results[i].type);
    }
}

/* ---- group ---- */

static bool print_group(tw_printer *p, const tw_op *op)
{
    static const char *const shown[] = {"sym_name", NULL};
    const tw_region *body = &op->regions[0];
    const char *name = tw_op_string(op, "sym_name", NULL);
    if (body->n_args != op->n_operands)
        return false;
    for (unsigned i = 0; i < op->n_operands; i++)
        if (!tw_operand(op, i) || tw_operand(op, i)->type != body->args[i]->type)
            return false;
    if (name) {
        tw_p_text(p, " ");
        tw_p_symbol(p, name);
    }
    tw_p_text(p, "(");
    for (unsigned i = 0; i < op->n_operands; i++) {
        tw_p_text(p, "%s", i ? ", " : "");
        tw_p_value(p, body->args[i]);
        tw_p_text(p, " = ");
        tw_p_value(p, tw_operand(op, i));
    }
    tw_p_text(p, ")");
    tw_p_attributes(p, op, shown);
    tw_p_text(p, " ");
    tw_p_region(p, body);
    print_result_types(p, op);
    return true;
}

typedef struct group_inputs {
    TW_VEC(tw_q_name) names;
    TW_VEC(tw_value *) values;
} group_inputs;

/* `(%a = %x, %b = %w)` */
static bool parse_inputs(tw_parser *p, group_inputs *in)
{
    tw_arena *arena = tw_context_arena(tw_q_context(p));
    if (!tw_q_expect(p, "("))
        return false;
    if (tw_q_try(p, ")"))
        return true;
    do {
        tw_q_name name;
        tw_value *value;
        if (!tw_q_new_name(p, &name) || !tw_q_expect(p, "=") || !tw_q_value(p, &value))
            return false;
        tw_vec_push(arena, &in->names, name);
        tw_vec_push(arena, &in->values, value);
    } while (tw_q_try(p, ","));
    return tw_q_expect(p, ")");
}

/* The types stand behind the region, so the results get theirs in the end. */
static bool parse_result_types(tw_parser *p, tw_op *op)
{
    tw_type *types = NULL;
    unsigned n = 0;
    if (tw_q_try(p, ":") && !tw_q_types(p, &types, &n))
        return false;
    if (n != op->n_results)
        return tw_q_error(p, "the operation has %u result types, and %u names stand before '='", n,
                          op->n_results);
    for (unsigned i = 0; i < n; i++)
        op->results[i].type = types[i];
    return true;
}

/* The operation with as many results as there are names, of types that are still to come. */
static tw_op *create_untyped(tw_parser *p, const tw_op_def *def, tw_value *const *operands,
                             unsigned n)
{
    tw_context *ctx = tw_q_context(p);
    unsigned n_results = tw_q_result_count(p);
    const tw_type *unknown = TW_NEW_ARRAY(tw_context_arena(ctx), tw_type, n_results);
    return tw_op_create(ctx, def, NULL, operands, n, unknown, n_results, NULL, 0,
                        (unsigned)def->n_regions);
}

static bool parse_group(tw_parser *p, const tw_op_def *def, tw_op **out)
{
    tw_context *ctx = tw_q_context(p);
    const char *name = NULL;
    group_inputs in = {0};
    if (!tw_q_peek_symbol(p) && !tw_q_peek(p, "("))
        return tw_q_generic(p, def, out);
    if ((tw_q_peek_symbol(p) && !tw_q_symbol(p, &name)) || !parse_inputs(p, &in))
        return false;
    unsigned n = (unsigned)in.values.len;
    *out = create_untyped(p, def, in.values.data, n);
    if (name)
        tw_op_set_attr(*out, "sym_name", tw_attr_string(ctx, name));
    tw_region *body = &(*out)->regions[0];
    for (unsigned i = 0; i < n; i++)
        tw_region_add_arg(body, in.values.data[i]->type, in.names.data[i].hint);
    return tw_q_attributes(p, *out) && tw_q_region(p, body, in.names.data) &&
           parse_result_types(p, *out);
}

/* ---- if, loop ---- */

static bool print_if(tw_printer *p, const tw_op *op)
{
    static const char *const shown[] = {NULL};
    if (op->regions[0].n_args || op->regions[1].n_args)
        return false;
    tw_p_text(p, " ");
    tw_p_operands(p, op, 0, 1);
    tw_p_attributes(p, op, shown);
    tw_p_text(p, " ");
    tw_p_region(p, &op->regions[0]);
    tw_p_text(p, " else ");
    tw_p_region(p, &op->regions[1]);
    print_result_types(p, op);
    return true;
}

static bool parse_if(tw_parser *p, const tw_op_def *def, tw_op **out)
{
    tw_value *condition;
    if (!tw_q_value(p, &condition))
        return false;
    *out = create_untyped(p, def, &condition, 1);
    return tw_q_attributes(p, *out) && tw_q_region(p, &(*out)->regions[0], NULL) &&
           tw_q_expect(p, "else") && tw_q_region(p, &(*out)->regions[1], NULL) &&
           parse_result_types(p, *out);
}

static bool print_loop(tw_printer *p, const tw_op *op)
{
    static const char *const shown[] = {NULL};
    tw_p_text(p, " ");
    tw_p_operands(p, op, 0, op->n_operands);
    tw_p_text(p, " do ");
    tw_p_arguments(p, &op->regions[0]);
    tw_p_attributes(p, op, shown);
    tw_p_text(p, " ");
    tw_p_region(p, &op->regions[0]);
    print_result_types(p, op);
    return true;
}

static bool parse_loop(tw_parser *p, const tw_op_def *def, tw_op **out)
{
    tw_value **operands;
    tw_q_name *names;
    tw_type *types;
    unsigned n, n_args;
    if (!tw_q_values(p, &operands, &n) || !tw_q_expect(p, "do") ||
        !tw_q_arguments(p, &names, &types, &n_args))
        return false;
    *out = create_untyped(p, def, operands, n);
    for (unsigned i = 0; i < n_args; i++)
        tw_region_add_arg(&(*out)->regions[0], types[i], names[i].hint);
    return tw_q_attributes(p, *out) && tw_q_region(p, &(*out)->regions[0], names) &&
           parse_result_types(p, *out);
}

/* ---- All ---- */

typedef struct syntax {
    bool (*print)(tw_printer *p, const tw_op *op);
    bool (*parse)(tw_parser *p, const tw_op_def *def, tw_op **out);
} syntax;

/* By kind; the others have the generic form. */
static const syntax syntaxes[TW_GRAPH_COUNT] = {
    [TW_GRAPH_CONSTANT] = {print_constant, parse_constant},
    [TW_GRAPH_GROUP] = {print_group, parse_group},
    [TW_GRAPH_IF] = {print_if, parse_if},
    [TW_GRAPH_LOOP] = {print_loop, parse_loop},
};

bool tw_graph_print(tw_printer *p, const tw_op *op)
{
    const syntax *own = &syntaxes[op->def->kind];
    if (own->print)
        return own->print(p, op);
    tw_p_generic(p, op);
    return true;
}

bool tw_graph_parse(tw_parser *p, const tw_op_def *def, tw_op **out)
{
    const syntax *own = &syntaxes[def->kind];
    return own->parse ? own->parse(p, def, out) : tw_q_generic(p, def, out);
}
