/* empty_axis.c: operations that take elements from an axis that has none.
 *
 *   graph.gather %x, %i {axis = 0}, %x of 0 x 4   ->   out[a, b] = 0
 *
 * A loop without trips or a branch that is not taken may hold one, and its result may prove to be
 * empty, too, when its size is known. Only where neither can be is it a mistake of the model. */
#include "lower/lowering.h"

bool tw_is_empty(const tw_value *buffer)
{
    int64_t count;
    return tw_type_static_count(buffer->type, &count) && !count;
}

/* Whether the operation runs whenever the model does, and then needs an element. */
static bool is_mistake(const tw_op *op, const tw_value *out)
{
    int64_t count;
    return tw_type_static_count(out->type, &count) &&
           !tw_op_enclosing(op, &tw_graph_ops[TW_GRAPH_LOOP]) &&
           !tw_op_enclosing(op, &tw_graph_ops[TW_GRAPH_IF]);
}

bool tw_lower_from_nothing(tw_lowering *l, const tw_op *op, tw_value *out)
{
    tw_stage s;
    if (is_mistake(op, out))
        return tw_error(l->ctx, op->loc, "'%s' takes elements from an axis without any",
                        op->def->name);
    tw_stage_elementwise(l, &s, tw_short_name(op), out);
    tw_stage_store_here(&s, tw_stage_const(&s, out->type->elem, 0), out);
    return tw_stage_close(&s);
}
