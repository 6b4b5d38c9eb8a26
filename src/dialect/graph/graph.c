/* graph.c: the tables of the graph dialect, generated from graph.def, and small builders. */
#include "dialect/graph/graph.h"

#include "dialect/graph/graph_syntax.h"
#include "dialect/graph/graph_verify.h"

#include <string.h>

#define A(name, kind, required, summary) {name, TW_ATTR_##kind, required, summary},
#define AXES A("axes", ARRAY, 1, "reduced axes, sorted") A("keepdims", BOOL, 1, "")
#define SPATIAL                                                                                    \
    A("strides", ARRAY, 1, "")                                                                     \
    A("dilations", ARRAY, 1, "")                                                                   \
    A("pads_begin", ARRAY, 1, "")                                                                  \
    A("pads_end", ARRAY, 1, "")
#define UNPACK(...) __VA_ARGS__
#define OP(ENUM, name, operands, results, fusion, traits, attributes, summary)                     \
    static const tw_attr_spec attrs_##ENUM[] = {UNPACK attributes{NULL, 0, 0, NULL}};
#include "dialect/graph/graph.def"
#undef OP

enum {
    NONE = TW_TRAIT_NONE,
    PURE = TW_TRAIT_PURE,
    ELEMENTWISE = TW_TRAIT_ELEMENTWISE,
    COMMUTATIVE = TW_TRAIT_COMMUTATIVE,
    TERMINATOR = TW_TRAIT_TERMINATOR,
    ISOLATED = TW_TRAIT_ISOLATED,
    EW = TW_TRAIT_PURE | TW_TRAIT_ELEMENTWISE,
};

#define REGIONS_OF(kind)                                                                           \
    ((kind) == TW_GRAPH_IF ? 2 : (kind) == TW_GRAPH_GROUP || (kind) == TW_GRAPH_LOOP)

#define OP(ENUM, op_name, operands, op_results, fusion_class, op_traits, attributes, text)         \
    [TW_GRAPH_##ENUM] = {.name = "graph." op_name,                                                 \
                         .summary = text,                                                          \
                         .n_operands = operands,                                                   \
                         .n_results = op_results,                                                  \
                         .n_regions = REGIONS_OF(TW_GRAPH_##ENUM),                                 \
                         .traits = op_traits,                                                      \
                         .fusion = TW_FUSE_##fusion_class,                                         \
                         .attrs = attrs_##ENUM,                                                    \
                         .verify = tw_graph_verify,                                                \
                         .print = tw_graph_print,                                                  \
                         .parse = tw_graph_parse,                                                  \
                         .kind = TW_GRAPH_##ENUM},
const tw_op_def tw_graph_ops[TW_GRAPH_COUNT] = {
#include "dialect/graph/graph.def"
};
#undef OP

const tw_dialect tw_graph_dialect = {
    .name = "graph",
    .summary = "operations on tensors: what a model computes",
    .ops = tw_graph_ops,
    .n_ops = TW_GRAPH_COUNT,
};

tw_value *tw_graph_constant(tw_builder *b, tw_type type, const void *data, size_t size,
                            const char *name)
{
    return tw_graph_build(b, TW_GRAPH_CONSTANT, NULL, 0, type, "value",
                          tw_attr_dense(b->ctx, type, data, size), "name",
                          name ? tw_attr_string(b->ctx, name) : NULL, NULL);
}

tw_attr tw_graph_constant_value(const tw_value *value)
{
    return value->op && tw_is_graph(value->op, TW_GRAPH_CONSTANT) ? tw_op_attr(value->op, "value")
                                                                  : NULL;
}

tw_type tw_graph_broadcast_type(tw_context *ctx, tw_type a, tw_type b)
{
    tw_expr dims[TW_MAX_RANK], one = tw_expr_const(ctx, 1);
    unsigned rank = a->rank > b->rank ? a->rank : b->rank;
    for (unsigned i = 0; i < rank; i++) { /* from the last axis */
        tw_expr da = i < a->rank ? a->dims[a->rank - 1 - i] : one;
        tw_expr db = i < b->rank ? b->dims[b->rank - 1 - i] : one;
        if (da != db && da != one && db != one)
            return NULL;
        dims[rank - 1 - i] = da == one ? db : da;
    }
    tw_type named = a->layout && a->rank == rank ? a : b->rank == rank ? b : NULL;
    return tw_type_tensor(ctx, a->elem, rank, dims, named ? named->layout : NULL);
}

int tw_graph_exprs(tw_context *ctx, const tw_op *op, const char *name, tw_expr *out, unsigned max)
{
    tw_attr list = tw_op_attr(op, name);
    if (!list || list->kind != TW_ATTR_ARRAY)
        return -1;
    unsigned n = 0;
    for (; n < list->u.array.n && n < max; n++) {
        tw_attr item = list->u.array.items[n];
        out[n] =
            item->kind == TW_ATTR_MAP ? item->u.map.exprs[0] : tw_expr_const(ctx, item->u.integer);
    }
    return (int)n;
}

tw_attr tw_graph_exprs_attr(tw_context *ctx, const tw_expr *values, unsigned n)
{
    tw_attr items[TW_MAX_RANK];
    for (unsigned i = 0; i < n; i++)
        items[i] = tw_expr_is_const(values[i]) ? tw_attr_int(ctx, values[i]->value)
                                               : tw_attr_map(ctx, 0, &values[i], 1);
    return tw_attr_array(ctx, items, n);
}
