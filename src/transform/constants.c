/* constants.c: looking into and making constants for rewrites. */
#include "transform/constants.h"

#include "base/arena.h"
#include "ir/elem_data.h"

enum { MAX_SPLAT = 1 << 16, MAX_CHAIN = 64, MAX_VISITS = 256 };

bool tw_constant_splat(const tw_value *value, tw_elem *elem, double *out)
{
    tw_attr dense = tw_graph_constant_value(value);
    size_t n;
    if (!dense || dense->u.dense.type->elem == TW_STRING || !tw_dense_count(dense, &n) || n == 0 ||
        n > MAX_SPLAT)
        return false;
    tw_elem e = dense->u.dense.type->elem;
    uint64_t first = tw_elem_load(e, dense->u.dense.data, 0);
    for (size_t i = 1; i < n; i++)
        if (tw_elem_load(e, dense->u.dense.data, i) != first)
            return false;
    int64_t integer = tw_elem_is_float(e) ? 0 : tw_elem_to_int(e, first);
    *elem = e;
    *out = tw_elem_is_float(e) ? tw_elem_to_double(e, first) : (double)integer;
    return tw_elem_is_float(e) || (integer > -(1LL << 53) && integer < 1LL << 53);
}

bool tw_is_single(const tw_value *value)
{
    int64_t n;
    return tw_type_static_count(value->type, &n) && n == 1;
}

tw_value *tw_constant_i64(tw_builder *b, const int64_t *values, size_t n, unsigned rank)
{
    int64_t size = (int64_t)n;
    tw_type type = tw_type_tensor_static(b->ctx, TW_I64, rank, &size);
    size_t bytes = n * sizeof *values;
    return tw_graph_constant(b, type, tw_arena_memdup(tw_context_arena(b->ctx), values, bytes),
                             bytes, NULL);
}

/* Counts down *visits, so that a graph with many paths ends early. */
static bool depends(const tw_value *value, unsigned depth, unsigned *visits)
{
    const tw_op *op = value->op;
    if (!op || !(op->def->traits & TW_TRAIT_PURE) || op->n_regions || depth > MAX_CHAIN ||
        (*visits)-- == 0)
        return false;
    if (tw_is_graph(op, TW_GRAPH_CONSTANT))
        return true;
    for (unsigned i = 0; i < op->n_operands; i++)
        if (!depends(tw_operand(op, i), depth + 1, visits))
            return false;
    return op->n_operands > 0;
}

bool tw_depends_on_constants(const tw_value *value)
{
    unsigned visits = MAX_VISITS;
    return depends(value, 0, &visits);
}

void tw_move_constant(const tw_value *value, tw_op *before)
{
    tw_op *op = value->op;
    if (!op || op->region != before->region || tw_op_is_before(op, before))
        return;
    for (unsigned i = 0; i < op->n_operands; i++)
        tw_move_constant(tw_operand(op, i), before);
    tw_op_insert(op, before->region, before);
}
