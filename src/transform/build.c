/* build.c: graph operations as rewrites make them. */
#include "transform/build.h"

#include <string.h>

tw_value *tw_build_unary(tw_builder *b, tw_graph_kind kind, tw_value *x)
{
    return tw_graph_build(b, kind, &x, 1, x->type, NULL);
}

tw_value *tw_build_binary(tw_builder *b, tw_graph_kind kind, tw_value *x, tw_value *y)
{
    tw_type type = tw_graph_broadcast_type(b->ctx, x->type, y->type);
    return tw_graph_build(b, kind, ((tw_value *[]){x, y}), 2, type, NULL);
}

static tw_value *convert(tw_builder *b, tw_graph_kind kind, tw_value *x, tw_elem elem)
{
    if (x->type->elem == elem)
        return x;
    tw_type type = tw_type_tensor(b->ctx, elem, x->type->rank, x->type->dims, x->type->layout);
    return tw_graph_build(b, kind, &x, 1, type, NULL);
}

tw_value *tw_build_cast(tw_builder *b, tw_value *x, tw_elem elem)
{
    return convert(b, TW_GRAPH_CAST, x, elem);
}

tw_value *tw_build_bitcast(tw_builder *b, tw_value *x, tw_elem elem)
{
    return convert(b, TW_GRAPH_BITCAST, x, elem);
}

tw_value *tw_build_reshape(tw_builder *b, tw_value *x, unsigned rank, const tw_expr *dims)
{
    tw_type type = tw_type_tensor(b->ctx, x->type->elem, rank, dims, NULL);
    return x->type == type ? x : tw_graph_build(b, TW_GRAPH_RESHAPE, &x, 1, type, NULL);
}

tw_value *tw_build_transpose(tw_builder *b, tw_value *x, tw_attr perm)
{
    tw_expr dims[TW_MAX_RANK];
    unsigned rank = x->type->rank;
    for (unsigned i = 0; i < rank; i++)
        dims[i] = x->type->dims[perm->u.array.items[i]->u.integer];
    tw_type type = tw_type_tensor(b->ctx, x->type->elem, rank, dims, NULL);
    return tw_graph_build(b, TW_GRAPH_TRANSPOSE, &x, 1, type, "perm", perm, NULL);
}

tw_value *tw_build_pad_to(tw_builder *b, tw_value *x, unsigned axis, int64_t n)
{
    tw_expr dims[TW_MAX_RANK];
    int64_t none[TW_MAX_RANK] = {0}, behind[TW_MAX_RANK] = {0};
    unsigned rank = x->type->rank;
    behind[axis] = (n - tw_type_dim(x->type, axis) % n) % n;
    if (!behind[axis])
        return x;
    memcpy(dims, x->type->dims, rank * sizeof *dims);
    dims[axis] = tw_expr_addc(b->ctx, dims[axis], behind[axis]);
    tw_type type = tw_type_tensor(b->ctx, x->type->elem, rank, dims, x->type->layout);
    return tw_graph_build(b, TW_GRAPH_PAD, &x, 1, type, "pads_begin",
                          tw_attr_ints(b->ctx, none, rank), "pads_end",
                          tw_attr_ints(b->ctx, behind, rank), NULL);
}

tw_value *tw_build_concat(tw_builder *b, tw_value *const *parts, unsigned n, unsigned axis)
{
    tw_expr dims[TW_MAX_RANK];
    tw_type type = parts[0]->type;
    memcpy(dims, type->dims, type->rank * sizeof *dims);
    for (unsigned i = 1; i < n; i++)
        dims[axis] = tw_expr_add(b->ctx, dims[axis], parts[i]->type->dims[axis]);
    type = tw_type_tensor(b->ctx, type->elem, type->rank, dims, type->layout);
    return tw_graph_build(b, TW_GRAPH_CONCAT, parts, n, type, "axis", tw_attr_int(b->ctx, axis),
                          NULL);
}

tw_value *tw_build_part(tw_builder *b, tw_value *x, unsigned axis, int64_t at, tw_type type)
{
    int64_t starts[TW_MAX_RANK] = {0}, steps[TW_MAX_RANK];
    for (unsigned i = 0; i < type->rank; i++)
        steps[i] = 1;
    starts[axis] = at;
    return tw_graph_build(b, TW_GRAPH_SLICE, &x, 1, type, "starts",
                          tw_attr_ints(b->ctx, starts, type->rank), "steps",
                          tw_attr_ints(b->ctx, steps, type->rank), NULL);
}

tw_value *tw_build_sum(tw_builder *b, tw_value *x, uint32_t axes)
{
    tw_expr dims[TW_MAX_RANK];
    int64_t list[TW_MAX_RANK];
    unsigned n = 0, rank = x->type->rank;
    for (unsigned i = 0; i < rank; i++) {
        dims[i] = axes >> i & 1 ? tw_expr_const(b->ctx, 1) : x->type->dims[i];
        if (axes >> i & 1)
            list[n++] = i;
    }
    tw_type type = tw_type_tensor(b->ctx, x->type->elem, rank, dims, NULL);
    return tw_graph_build(b, TW_GRAPH_REDUCE_SUM, &x, 1, type, "axes",
                          tw_attr_ints(b->ctx, list, n), "keepdims", tw_attr_bool(b->ctx, true),
                          NULL);
}
