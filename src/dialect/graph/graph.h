/* graph.h: the graph dialect: tensors in, tensors out. graph.def is its specification. */
#ifndef TW_DIALECT_GRAPH_H
#define TW_DIALECT_GRAPH_H

#include "tilewright/ir.h"

/* TW_GRAPH_ADD …: numbers of the operations, equal to their defs' `kind`. */
typedef enum tw_graph_kind {
#define OP(ENUM, ...) TW_GRAPH_##ENUM,
#include "dialect/graph/graph.def"
#undef OP
    TW_GRAPH_COUNT
} tw_graph_kind;

extern const tw_op_def tw_graph_ops[TW_GRAPH_COUNT];
extern const tw_dialect tw_graph_dialect;

/* The operation's kind, or TW_GRAPH_COUNT when it is of another dialect. */
static inline tw_graph_kind tw_graph_kind_of(const tw_op *op)
{
    return op->def >= tw_graph_ops && op->def < tw_graph_ops + TW_GRAPH_COUNT
               ? (tw_graph_kind)(op->def - tw_graph_ops)
               : TW_GRAPH_COUNT;
}
static inline bool tw_is_graph(const tw_op *op, tw_graph_kind kind)
{
    return op->def == &tw_graph_ops[kind];
}

/* On groups that `fuse-ops{explain}` made: an array of strings, for each operand why the kernel
 * that makes it is another one; "" where no kernel makes it. */
#define TW_GRAPH_WHY_APART "fusion.apart"

/* Builds an operation with one result; attributes as (name, value) pairs closed by NULL. */
#define tw_graph_build(b, KIND, operands, n, type, ...)                                            \
    tw_result(                                                                                     \
        tw_build((b), &tw_graph_ops[KIND], (operands), (n), (tw_type[]){(type)}, 1, __VA_ARGS__),  \
        0)

/* A constant whose bytes live as long as the context; `name` may be NULL. */
tw_value *tw_graph_constant(tw_builder *b, tw_type type, const void *data, size_t size,
                            const char *name);
/* A rank-0 constant of the element type. */
tw_value *tw_graph_scalar(tw_builder *b, tw_elem elem, double value);
/* The dense attribute behind a value made by graph.constant, or NULL. */
tw_attr tw_graph_constant_value(const tw_value *value);
/* NumPy broadcasting of two tensor types' shapes, element type of `a`; NULL when they do not
 * broadcast. Symbols are equal only to themselves and to 1. A layout stays. */
tw_type tw_graph_broadcast_type(tw_context *ctx, tw_type a, tw_type b);

/* The numbers and expressions over symbols of an array attribute, at most `max` of them; their
 * number, or -1 when op has no such attribute. */
int tw_graph_exprs(tw_context *ctx, const tw_op *op, const char *name, tw_expr *out, unsigned max);
/* The array attribute that says them. */
tw_attr tw_graph_exprs_attr(tw_context *ctx, const tw_expr *values, unsigned n);

#endif
