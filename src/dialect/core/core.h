/* core.h: the core dialect: modules, functions, calls. core.def is its specification. */
#ifndef TW_DIALECT_CORE_H
#define TW_DIALECT_CORE_H

#include "tilewright/ir.h"

/* TW_CORE_MODULE …: numbers of the operations, equal to their defs' `kind`. */
typedef enum tw_core_kind {
#define OP(ENUM, ...) TW_CORE_##ENUM,
#include "dialect/core/core.def"
#undef OP
    TW_CORE_COUNT
} tw_core_kind;

extern const tw_op_def tw_core_ops[TW_CORE_COUNT];
extern const tw_dialect tw_core_dialect;

/* The operation's kind, or TW_CORE_COUNT when it is of another dialect. */
static inline tw_core_kind tw_core_kind_of(const tw_op *op)
{
    return op->def >= tw_core_ops && op->def < tw_core_ops + TW_CORE_COUNT
               ? (tw_core_kind)(op->def - tw_core_ops)
               : TW_CORE_COUNT;
}
static inline bool tw_is_core(const tw_op *op, tw_core_kind kind)
{
    return op->def == &tw_core_ops[kind];
}

/* A module that stands nowhere, with an empty region; `name` may be NULL. */
tw_op *tw_core_module(tw_context *ctx, const char *name, tw_loc loc);
/* A function at the builder's place. Its region has an argument for each input of the function
 * type, named arg_names[i] (may be NULL, as may each entry), and no operations yet. */
tw_op *tw_core_func(tw_builder *b, const char *name, tw_type type, const char *const *arg_names);
/* A function without body, defined elsewhere. */
tw_op *tw_core_declare(tw_builder *b, const char *name, tw_type type);
tw_op *tw_core_return(tw_builder *b, tw_value *const *values, unsigned n);
tw_op *tw_core_call(tw_builder *b, const char *callee, tw_value *const *operands,
                    unsigned n_operands, const tw_type *results, unsigned n_results);

/* The only region of a module or function. */
static inline tw_region *tw_core_body(tw_op *op)
{
    return &op->regions[0];
}
static inline bool tw_core_is_declaration(const tw_op *func)
{
    return !func->regions[0].first;
}
/* The function type of a function. */
tw_type tw_core_func_type(const tw_op *func);
/* After arguments or returned values changed: the type that fits them. */
void tw_core_func_update_type(tw_op *func);
/* The return at the end of a function with a body. */
tw_op *tw_core_func_return(const tw_op *func);

/* The operation of that symbol in the module's region, or NULL. Looks at each: not for loops over
 * calls, where a table of all symbols serves better. */
tw_op *tw_core_lookup(const tw_op *module, const char *symbol);

/* ---- Sequences and optionals as inputs and outputs (contents.c) ---- */

typedef struct tw_core_contents {
    bool sequence, optional; /* an optional that is no sequence is a tensor or nothing */
    bool any_rank;           /* rank and dims are not known */
    tw_elem elem;
    unsigned rank;
    int64_t dims[TW_MAX_RANK]; /* -1: not fixed */
} tw_core_contents;

/* Of entry i of the function's list, "input_contents" or "output_contents"; false: a tensor. */
bool tw_core_contents_of(const tw_op *func, const char *list, unsigned i, tw_core_contents *out);
tw_attr tw_core_contents_attr(tw_context *ctx, const tw_core_contents *contents);
/* Adds an error when the list does not fit the values. */
bool tw_core_verify_contents(tw_context *ctx, const tw_op *func, const char *list,
                             const tw_type *types, unsigned n);

/* ---- Sizes known only while the model runs (symbols.c) ---- */

/* How many of the module's `symbols` the inputs' shapes define; a bind defines each other one. */
size_t tw_core_input_symbols(const tw_op *module);
/* Whether the size, or a size of the tensor or buffer, uses a symbol that is not one of those. */
bool tw_core_is_bound_size(const tw_op *module, tw_expr size);
bool tw_core_is_bound_type(const tw_op *module, tw_type type);

#endif
