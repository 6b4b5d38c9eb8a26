/* graph_scalar.c: constants of one element. */
#include "base/arena.h"
#include "dialect/graph/graph.h"
#include "ir/scalar.h"

tw_value *tw_graph_scalar(tw_builder *b, tw_elem elem, double value)
{
    enum { SIZE = 8 }; /* of the widest element */
    void *data = tw_arena_alloc(tw_context_arena(b->ctx), SIZE);
    tw_scalar_store(elem, data, 0,
                    tw_scalar_convert((tw_number){.real = value}, TW_F64, elem, true));
    size_t size = (tw_elem_bits(elem) + 7) / 8;
    return tw_graph_constant(b, tw_type_tensor(b->ctx, elem, 0, NULL, NULL), data, size, NULL);
}
