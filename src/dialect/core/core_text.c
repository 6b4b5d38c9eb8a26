/* core_text.c: the syntax of module, func, call and control flow (core.def shows it). */
#include "dialect/core/core.h"
#include "dialect/core/core_syntax.h"

/* ---- module ---- */

static const char *const module_shown[] = {"sym_name", NULL};

bool tw_core_print_module(tw_printer *p, const tw_op *op)
{
    const char *name = tw_op_string(op, "sym_name", NULL);
    if (op->regions[0].n_args)
        return false;
    if (name) {
        tw_p_text(p, " ");
        tw_p_symbol(p, name);
    }
    tw_p_attributes(p, op, module_shown);
    tw_p_text(p, " ");
    tw_p_region(p, &op->regions[0]);
    return true;
}

static tw_op *create(tw_parser *p, const tw_op_def *def)
{
    return tw_op_create(tw_q_context(p), def, NULL, NULL, 0, NULL, 0, NULL, 0,
                        (unsigned)def->n_regions);
}

/* `@name` or, where it is not required, nothing. */
static bool parse_symbol_name(tw_parser *p, tw_op *op, bool required)
{
    const char *name;
    if (!required && (tw_q_peek(p, "{") || tw_q_peek(p, "attributes")))
        return true;
    if (!tw_q_symbol(p, &name))
        return false;
    tw_op_set_attr(op, "sym_name", tw_attr_symbol(tw_q_context(p), name));
    return true;
}

bool tw_core_parse_module(tw_parser *p, const tw_op_def *def, tw_op **out)
{
    *out = create(p, def);
    return parse_symbol_name(p, *out, false) && tw_q_attributes(p, *out) &&
           tw_q_region(p, &(*out)->regions[0], NULL);
}

/* ---- func ---- */

static const char *const func_shown[] = {"sym_name", "type", NULL};

/* The region says what the function type says: arguments of the inputs' types, or, without a body,
 * none. */
static bool fits_type(const tw_region *region, tw_type type)
{
    if (!type || type->kind != TW_TYPE_FUNC)
        return false;
    if (!region->first)
        return !region->n_args;
    if (region->n_args != type->n_inputs)
        return false;
    for (unsigned i = 0; i < region->n_args; i++)
        if (region->args[i]->type != type->inputs[i])
            return false;
    return true;
}

static void print_types(tw_printer *p, const tw_type *types, unsigned n)
{
    tw_p_text(p, "(");
    for (unsigned i = 0; i < n; i++) {
        tw_p_text(p, "%s", i ? ", " : "");
        tw_p_type(p, types[i]);
    }
    tw_p_text(p, ")");
}

/* Nothing for no result; one that does not begin with a parenthesis stands alone. */
static void print_results(tw_printer *p, tw_type type)
{
    if (!type->n_results)
        return;
    tw_p_text(p, " -> ");
    if (type->n_results == 1 && type->results[0] && type->results[0]->kind != TW_TYPE_FUNC)
        tw_p_type(p, type->results[0]);
    else
        print_types(p, type->results, type->n_results);
}

bool tw_core_print_func(tw_printer *p, const tw_op *op)
{
    const tw_region *region = &op->regions[0];
    tw_type type = tw_core_func_type(op);
    if (!fits_type(region, type))
        return false;
    tw_p_text(p, " ");
    tw_p_symbol(p, tw_op_string(op, "sym_name", ""));
    if (region->first)
        tw_p_arguments(p, region);
    else
        print_types(p, type->inputs, type->n_inputs);
    print_results(p, type);
    tw_p_attributes(p, op, func_shown);
    if (region->first) {
        tw_p_text(p, " ");
        tw_p_region(p, region);
    }
    return true;
}

/* What stands between the name of a function and its body. */
typedef struct signature {
    tw_q_name *names; /* of arguments; NULL for a function without body */
    tw_type *inputs;
    unsigned n_inputs;
    tw_type *results;
    unsigned n_results;
} signature;

/* `(t, t)` or `()`. */
static bool parse_types(tw_parser *p, tw_type **out, unsigned *n)
{
    *out = NULL;
    *n = 0;
    if (!tw_q_expect(p, "("))
        return false;
    return tw_q_try(p, ")") || (tw_q_types(p, out, n) && tw_q_expect(p, ")"));
}

static bool parse_results(tw_parser *p, signature *s)
{
    if (!tw_q_try(p, "->"))
        return true;
    if (tw_q_peek(p, "("))
        return parse_types(p, &s->results, &s->n_results);
    s->results = tw_context_alloc(tw_q_context(p), sizeof *s->results);
    s->n_results = 1;
    return tw_q_type(p, &s->results[0]);
}

static bool parse_signature(tw_parser *p, signature *s)
{
    *s = (signature){0};
    bool good = tw_q_peek_arguments(p) ? tw_q_arguments(p, &s->names, &s->inputs, &s->n_inputs)
                                       : parse_types(p, &s->inputs, &s->n_inputs);
    return good && parse_results(p, s);
}

bool tw_core_parse_func(tw_parser *p, const tw_op_def *def, tw_op **out)
{
    tw_context *ctx = tw_q_context(p);
    signature s;
    *out = create(p, def);
    if (!parse_symbol_name(p, *out, true) || !parse_signature(p, &s))
        return false;
    tw_type type = tw_type_func(ctx, s.inputs, s.n_inputs, s.results, s.n_results);
    tw_op_set_attr(*out, "type", tw_attr_type(ctx, type));
    if (!tw_q_attributes(p, *out))
        return false;
    if (!tw_q_peek(p, "{"))
        return !s.names || tw_q_expect(p, "{");
    if (s.n_inputs && !s.names)
        return tw_q_error(p, "a function with a body names its arguments: (%%a: type)");
    for (unsigned i = 0; i < s.n_inputs; i++)
        tw_region_add_arg(tw_core_body(*out), s.inputs[i], s.names[i].hint);
    return tw_q_region(p, tw_core_body(*out), s.names);
}

/* ---- call ---- */

static const char *const call_shown[] = {"callee", NULL};

bool tw_core_print_call(tw_printer *p, const tw_op *op)
{
    tw_p_text(p, " ");
    tw_p_symbol(p, tw_op_string(op, "callee", ""));
    tw_p_text(p, "(");
    tw_p_operands(p, op, 0, op->n_operands);
    tw_p_text(p, ")");
    tw_p_tail(p, op, call_shown);
    return true;
}

bool tw_core_parse_call(tw_parser *p, const tw_op_def *def, tw_op **out)
{
    const char *callee;
    tw_value **operands;
    unsigned n;
    if (!tw_q_symbol(p, &callee) || !tw_q_expect(p, "(") || !tw_q_values(p, &operands, &n) ||
        !tw_q_expect(p, ")"))
        return false;
    tw_named_attr attr = {"callee", tw_attr_symbol(tw_q_context(p), callee)};
    return tw_q_tail(p, def, operands, n, &attr, 1, out);
}

/* ---- if, loop ---- */

static const char *const control_shown[] = {NULL};

/* ` %a, %b {` … */
static bool print_control(tw_printer *p, const tw_op *op)
{
    for (unsigned i = 0; i < op->n_regions; i++)
        if (op->regions[i].n_args)
            return false;
    tw_p_text(p, " ");
    tw_p_operands(p, op, 0, op->n_operands);
    tw_p_attributes(p, op, control_shown);
    tw_p_text(p, " ");
    tw_p_region(p, &op->regions[0]);
    return true;
}

static bool parse_control(tw_parser *p, const tw_op_def *def, tw_op **out)
{
    tw_value **operands;
    unsigned n;
    if (!tw_q_values(p, &operands, &n))
        return false;
    *out = tw_op_create(tw_q_context(p), def, NULL, operands, n, NULL, 0, NULL, 0,
                        (unsigned)def->n_regions);
    return tw_q_attributes(p, *out) && tw_q_region(p, &(*out)->regions[0], NULL);
}

bool tw_core_print_if(tw_printer *p, const tw_op *op)
{
    if (op->regions[1].n_args || !print_control(p, op))
        return false;
    if (op->regions[1].first) {
        tw_p_text(p, " else ");
        tw_p_region(p, &op->regions[1]);
    }
    return true;
}

bool tw_core_parse_if(tw_parser *p, const tw_op_def *def, tw_op **out)
{
    return parse_control(p, def, out) &&
           (!tw_q_try(p, "else") || tw_q_region(p, &(*out)->regions[1], NULL));
}

bool tw_core_print_loop(tw_printer *p, const tw_op *op)
{
    return print_control(p, op);
}

bool tw_core_parse_loop(tw_parser *p, const tw_op_def *def, tw_op **out)
{
    return parse_control(p, def, out);
}
