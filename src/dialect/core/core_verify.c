/* core_verify.c: rules of the core dialect beyond its table. */
#include "dialect/core/core.h"
#include "dialect/core/core_syntax.h"

#include "base/map.h"
#include "ir/traverse.h"

#include <string.h>

/* ---- func ---- */

static bool same_types(const tw_type *types, tw_value *const *values, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (values[i]->type != types[i])
            return false;
    return true;
}

static bool verify_return(tw_context *ctx, const tw_op *func, tw_type type)
{
    const tw_op *last = func->regions[0].last;
    const char *name = tw_op_string(func, "sym_name", "");
    if (!tw_is_core(last, TW_CORE_RETURN))
        return tw_error(ctx, last->loc, "the body of @%s ends with %s, not with return", name,
                        last->def->name);
    if (last->n_operands != type->n_results)
        return tw_error(ctx, last->loc, "return gives %u values, @%s has %u results",
                        last->n_operands, name, type->n_results);
    for (unsigned i = 0; i < type->n_results; i++)
        if (tw_operand(last, i)->type != type->results[i])
            return tw_error(ctx, last->loc, "value %u of return is %s, but the result of @%s is %s",
                            i, tw_print_type(ctx, tw_operand(last, i)->type), name,
                            tw_print_type(ctx, type->results[i]));
    return true;
}

/* `input_names`, `output_names`: as many strings as there are inputs or results. */
static bool verify_names(tw_context *ctx, const tw_op *func, const char *attr, unsigned n)
{
    tw_attr names = tw_op_attr(func, attr);
    bool good = !names || names->u.array.n == n;
    for (size_t i = 0; good && names && i < n; i++)
        good = names->u.array.items[i]->kind == TW_ATTR_STRING;
    return good || tw_error(ctx, func->loc, "'%s' of func needs %u strings", attr, n);
}

static bool verify_func(tw_context *ctx, const tw_op *op)
{
    const tw_region *body = &op->regions[0];
    tw_type type = tw_core_func_type(op);
    if (type->kind != TW_TYPE_FUNC)
        return tw_error(ctx, op->loc, "'type' of func is a function type, not %s",
                        tw_print_type(ctx, type));
    int64_t outputs = tw_op_int(op, "outputs", 0);
    if (outputs < 0 || outputs > type->n_inputs)
        return tw_error(ctx, op->loc, "'outputs' of func is at most the number of its arguments");
    if (!verify_names(ctx, op, "input_names", type->n_inputs - (unsigned)outputs) ||
        !verify_names(ctx, op, "output_names", type->n_results + (unsigned)outputs))
        return false;
    const tw_type *results = outputs ? type->inputs + type->n_inputs - outputs : type->results;
    if (!tw_core_verify_contents(ctx, op, "input_contents", type->inputs,
                                 type->n_inputs - (unsigned)outputs) ||
        !tw_core_verify_contents(ctx, op, "output_contents", results,
                                 outputs ? (unsigned)outputs : type->n_results))
        return false;
    if (!body->first)
        return !body->n_args ||
               tw_error(ctx, op->loc, "a func without body has no arguments in its region");
    if (body->n_args != type->n_inputs || !same_types(type->inputs, body->args, body->n_args))
        return tw_error(ctx, op->loc, "the arguments of @%s are not those of its type %s",
                        tw_op_string(op, "sym_name", ""), tw_print_type(ctx, type));
    return verify_return(ctx, op, type);
}

/* ---- module ---- */

/* What is called without being a func (a kernel) takes the arguments of its region and has no
 * results. */
static bool fits_region(const tw_op *call, const tw_region *region)
{
    bool good = call->n_operands == region->n_args && !call->n_results;
    for (unsigned i = 0; good && i < call->n_operands; i++)
        good = tw_operand(call, i)->type == region->args[i]->type;
    return good;
}

static bool fits_function(const tw_op *call, tw_type type)
{
    bool good = call->n_operands == type->n_inputs && call->n_results == type->n_results;
    for (unsigned i = 0; good && i < call->n_operands; i++)
        good = tw_operand(call, i)->type == type->inputs[i];
    for (unsigned i = 0; good && i < call->n_results; i++)
        good = call->results[i].type == type->results[i];
    return good;
}

static bool verify_call(tw_context *ctx, const tw_op *call, const tw_op *callee)
{
    const char *name = tw_op_string(call, "callee", "");
    if (!callee)
        return tw_error(ctx, call->loc, "there is no function @%s in the module", name);
    if (!tw_is_core(callee, TW_CORE_FUNC))
        return fits_region(call, &callee->regions[0]) ||
               tw_error(ctx, call->loc, "the call does not fit the arguments of @%s", name);
    tw_type type = tw_core_func_type(callee);
    return fits_function(call, type) ||
           tw_error(ctx, call->loc, "the call does not fit @%s, which is %s", name,
                    tw_print_type(ctx, type));
}

/* Calls in the module, but not in modules inside it, which have checked theirs. */
static bool verify_calls(tw_context *ctx, const tw_op *module, const tw_map *functions)
{
    bool good = true;
    tw_traversal t = {.root = (tw_op *)module};
    for (tw_step step; (step = tw_traverse(&t)) != TW_STEP_DONE;) {
        if (step != TW_STEP_OP)
            continue;
        t.skip = t.op != module && tw_is_core(t.op, TW_CORE_MODULE);
        const char *callee =
            tw_is_core(t.op, TW_CORE_CALL) ? tw_op_string(t.op, "callee", "") : NULL;
        if (callee)
            good = verify_call(ctx, t.op, tw_map_get_str(functions, callee)) && good;
    }
    return good;
}

/* `symbols`: different names; `input_symbols`: no more than these. */
static bool verify_symbols(tw_context *ctx, const tw_op *op)
{
    tw_attr names = tw_op_attr(op, "symbols");
    size_t n = names ? names->u.array.n : 0;
    int64_t inputs = tw_op_int(op, "input_symbols", 0);
    tw_map seen = tw_map_make(tw_context_arena(ctx));
    for (size_t i = 0; i < n; i++) {
        tw_attr name = names->u.array.items[i];
        if (name->kind != TW_ATTR_STRING)
            return tw_error(ctx, op->loc, "'symbols' of module holds strings");
        if (tw_map_put_str(&seen, name->u.string.text, &seen))
            return tw_error(ctx, op->loc, "'symbols' of module has '%s' twice",
                            name->u.string.text);
    }
    return (inputs >= 0 && (uint64_t)inputs <= n) ||
           tw_error(ctx, op->loc, "'input_symbols' of module is %lld, but there are %zu symbols",
                    (long long)inputs, n);
}

static bool verify_module(tw_context *ctx, const tw_op *op)
{
    tw_map functions = tw_map_make(tw_context_arena(ctx));
    if (!verify_symbols(ctx, op))
        return false;
    if (op->regions[0].n_args)
        return tw_error(ctx, op->loc, "a module has no arguments");
    for (tw_op *inner = op->regions[0].first; inner; inner = inner->next)
        if ((inner->def->traits & TW_TRAIT_SYMBOL) && inner->n_regions)
            tw_map_put_str(&functions, tw_op_string(inner, "sym_name", ""), inner);
    return verify_calls(ctx, op, &functions);
}

/* ---- Control flow ---- */

static bool verify_number(tw_context *ctx, const tw_op *op, unsigned i, tw_elem elem)
{
    int64_t count;
    tw_type type = tw_operand(op, i)->type;
    return (type->kind == TW_TYPE_BUFFER && type->elem == elem &&
            tw_type_static_count(type, &count) && count == 1) ||
           tw_error(ctx, op->loc, "operand %u of '%s' is %s, not a buffer of one %s", i,
                    op->def->name, tw_print_type(ctx, type), tw_elem_name(elem));
}

static bool verify_control(tw_context *ctx, const tw_op *op)
{
    for (unsigned i = 0; i < op->n_regions; i++)
        if (op->regions[i].n_args)
            return tw_error(ctx, op->loc, "the regions of '%s' have no arguments", op->def->name);
    if (tw_is_core(op, TW_CORE_IF))
        return verify_number(ctx, op, 0, TW_BOOL);
    return verify_number(ctx, op, 0, TW_I64) && verify_number(ctx, op, 1, TW_I64) &&
           verify_number(ctx, op, 2, TW_BOOL);
}

bool tw_core_verify(tw_context *ctx, const tw_op *op)
{
    switch ((tw_core_kind)op->def->kind) {
    case TW_CORE_MODULE:
        return verify_module(ctx, op);
    case TW_CORE_FUNC:
        return verify_func(ctx, op);
    case TW_CORE_RETURN:
        return (op->region && tw_is_core(op->region->parent, TW_CORE_FUNC)) ||
               tw_error(ctx, op->loc, "return stands in a func only");
    case TW_CORE_IF:
    case TW_CORE_LOOP:
        return verify_control(ctx, op);
    default:
        return true;
    }
}
