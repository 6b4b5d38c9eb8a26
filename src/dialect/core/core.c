/* core.c: the tables of the core dialect, generated from core.def, and builders. */
#include "dialect/core/core.h"

#include "dialect/core/core_syntax.h"

#include <string.h>

#define A(name, kind, required, summary) {name, TW_ATTR_##kind, required, summary},
#define UNPACK(...) __VA_ARGS__
#define OP(ENUM, name, operands, results, regions, traits, attributes, summary)                    \
    static const tw_attr_spec attrs_##ENUM[] = {UNPACK attributes{NULL, 0, 0, NULL}};
#include "dialect/core/core.def"
#undef OP

enum {
    NONE = TW_TRAIT_NONE,
    SYMBOL = TW_TRAIT_SYMBOL,
    ISOLATED = TW_TRAIT_ISOLATED,
    TERMINATOR = TW_TRAIT_TERMINATOR,
};

/* Custom syntax; the others are generic. */
#define print_MODULE tw_core_print_module
#define parse_MODULE tw_core_parse_module
#define print_FUNC tw_core_print_func
#define parse_FUNC tw_core_parse_func
#define print_CALL tw_core_print_call
#define parse_CALL tw_core_parse_call
#define print_RETURN NULL
#define parse_RETURN NULL
#define print_IF tw_core_print_if
#define parse_IF tw_core_parse_if
#define print_LOOP tw_core_print_loop
#define parse_LOOP tw_core_parse_loop
#define print_FAIL NULL
#define parse_FAIL NULL

#define OP(ENUM, op_name, operands, op_results, regions, op_traits, attributes, text)              \
    [TW_CORE_##ENUM] = {.name = "core." op_name,                                                   \
                        .summary = text,                                                           \
                        .n_operands = operands,                                                    \
                        .n_results = op_results,                                                   \
                        .n_regions = regions,                                                      \
                        .traits = op_traits,                                                       \
                        .attrs = attrs_##ENUM,                                                     \
                        .verify = tw_core_verify,                                                  \
                        .print = print_##ENUM,                                                     \
                        .parse = parse_##ENUM,                                                     \
                        .kind = TW_CORE_##ENUM},
const tw_op_def tw_core_ops[TW_CORE_COUNT] = {
#include "dialect/core/core.def"
};
#undef OP

const tw_dialect tw_core_dialect = {
    .name = "core",
    .summary = "modules, functions, calls, control flow",
    .ops = tw_core_ops,
    .n_ops = TW_CORE_COUNT,
};

/* ---- Builders ---- */

tw_op *tw_core_module(tw_context *ctx, const char *name, tw_loc loc)
{
    tw_named_attr attr = {"sym_name", name ? tw_attr_symbol(ctx, name) : NULL};
    return tw_op_create(ctx, &tw_core_ops[TW_CORE_MODULE], loc, NULL, 0, NULL, 0, &attr,
                        name != NULL, 1);
}

tw_op *tw_core_declare(tw_builder *b, const char *name, tw_type type)
{
    return tw_build(b, &tw_core_ops[TW_CORE_FUNC], NULL, 0, NULL, 0, "sym_name",
                    tw_attr_symbol(b->ctx, name), "type", tw_attr_type(b->ctx, type), NULL);
}

tw_op *tw_core_func(tw_builder *b, const char *name, tw_type type, const char *const *arg_names)
{
    tw_op *func = tw_core_declare(b, name, type);
    for (unsigned i = 0; i < type->n_inputs; i++)
        tw_region_add_arg(tw_core_body(func), type->inputs[i], arg_names ? arg_names[i] : NULL);
    return func;
}

tw_op *tw_core_return(tw_builder *b, tw_value *const *values, unsigned n)
{
    return tw_build(b, &tw_core_ops[TW_CORE_RETURN], values, n, NULL, 0, NULL);
}

tw_op *tw_core_call(tw_builder *b, const char *callee, tw_value *const *operands,
                    unsigned n_operands, const tw_type *results, unsigned n_results)
{
    return tw_build(b, &tw_core_ops[TW_CORE_CALL], operands, n_operands, results, n_results,
                    "callee", tw_attr_symbol(b->ctx, callee), NULL);
}

/* ---- Access ---- */

tw_type tw_core_func_type(const tw_op *func)
{
    return tw_op_attr(func, "type")->u.type;
}

tw_op *tw_core_func_return(const tw_op *func)
{
    return func->regions[0].last;
}

void tw_core_func_update_type(tw_op *func)
{
    tw_context *ctx = tw_op_context(func);
    tw_region *body = tw_core_body(func);
    tw_op *last = tw_core_func_return(func);
    tw_type *types =
        tw_context_alloc(ctx, (body->n_args + (size_t)last->n_operands) * sizeof *types);
    for (unsigned i = 0; i < body->n_args; i++)
        types[i] = body->args[i]->type;
    for (unsigned i = 0; i < last->n_operands; i++)
        types[body->n_args + i] = tw_operand(last, i)->type;
    tw_type type = tw_type_func(ctx, types, body->n_args, types + body->n_args, last->n_operands);
    tw_op_set_attr(func, "type", tw_attr_type(ctx, type));
}

tw_op *tw_core_lookup(const tw_op *module, const char *symbol)
{
    for (tw_op *op = module->regions[0].first; op; op = op->next) {
        const char *name =
            op->def->traits & TW_TRAIT_SYMBOL ? tw_op_string(op, "sym_name", NULL) : NULL;
        if (name && !strcmp(name, symbol))
            return op;
    }
    return NULL;
}
