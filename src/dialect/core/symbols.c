/* symbols.c: which of a module's sizes are known before it runs.
 *
 *     module attributes {symbols = ["batch", "nz.0"], input_symbols = 1} { ... }
 *
 * `batch` is the size of an input. `nz.0` is a value that the model computes: an operation `bind`
 * defines it. */
#include "dialect/core/core.h"

#include <string.h>

size_t tw_core_input_symbols(const tw_op *module)
{
    tw_attr names = tw_op_attr(module, "symbols");
    size_t n = names ? names->u.array.n : 0;
    int64_t inputs = tw_op_int(module, "input_symbols", (int64_t)n);
    return inputs < 0 ? 0 : (size_t)inputs < n ? (size_t)inputs : n;
}

static bool is_input_symbol(const tw_op *module, const char *symbol)
{
    tw_attr names = tw_op_attr(module, "symbols");
    size_t n = tw_core_input_symbols(module);
    for (size_t i = 0; i < n; i++)
        if (!strcmp(names->u.array.items[i]->u.string.text, symbol))
            return true;
    return false;
}

bool tw_core_is_bound_size(const tw_op *module, tw_expr size)
{
    if (!tw_op_attr(module, "input_symbols"))
        return false;
    if (size->kind == TW_EXPR_SYM)
        return !is_input_symbol(module, size->symbol);
    return size->lhs &&
           (tw_core_is_bound_size(module, size->lhs) || tw_core_is_bound_size(module, size->rhs));
}

bool tw_core_is_bound_type(const tw_op *module, tw_type type)
{
    for (unsigned i = 0; i < type->rank; i++)
        if (tw_core_is_bound_size(module, type->dims[i]))
            return true;
    return false;
}
