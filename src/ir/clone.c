/* clone.c: copies of operations with their values mapped. */
#include "ir/context_impl.h"

struct tw_cloner {
    tw_context *ctx;
    tw_map values; /* old value -> new value */
};

tw_cloner *tw_cloner_create(tw_context *ctx)
{
    tw_cloner *c = TW_NEW(ctx->arena, tw_cloner);
    c->ctx = ctx;
    c->values = tw_map_make(ctx->arena);
    return c;
}

void tw_cloner_map(tw_cloner *c, const tw_value *from, tw_value *to)
{
    tw_map_put_ptr(&c->values, from, to);
}

tw_value *tw_cloner_lookup(tw_cloner *c, const tw_value *from)
{
    tw_value *to = tw_map_get_ptr(&c->values, from);
    return to ? to : (tw_value *)from;
}

/* A copy of op alone: empty regions, mapped operands. */
static tw_op *clone_shallow(tw_cloner *c, const tw_op *op)
{
    tw_value **operands = TW_NEW_ARRAY(c->ctx->arena, tw_value *, op->n_operands);
    for (unsigned i = 0; i < op->n_operands; i++)
        operands[i] = tw_cloner_lookup(c, op->operands[i].value);
    tw_type *types = TW_NEW_ARRAY(c->ctx->arena, tw_type, op->n_results);
    for (unsigned i = 0; i < op->n_results; i++)
        types[i] = op->results[i].type;
    tw_op *copy = tw_op_create(c->ctx, op->def, op->loc, operands, op->n_operands, types,
                               op->n_results, op->attrs, op->n_attrs, op->n_regions);
    for (unsigned i = 0; i < op->n_results; i++) {
        copy->results[i].name = op->results[i].name;
        tw_cloner_map(c, &op->results[i], &copy->results[i]);
    }
    for (unsigned r = 0; r < op->n_regions; r++)
        for (unsigned i = 0; i < op->regions[r].n_args; i++) {
            const tw_value *arg = op->regions[r].args[i];
            tw_cloner_map(c, arg, tw_region_add_arg(&copy->regions[r], arg->type, arg->name));
        }
    return copy;
}

typedef struct clone_walk {
    tw_cloner *cloner;
    const tw_op *root;
    tw_op *copy;
    tw_map regions; /* source region -> region of the copy */
} clone_walk;

/* Outer operations come first and definitions before uses, so all operands are mapped by then. */
static bool clone_one(tw_op *op, void *data)
{
    clone_walk *w = data;
    tw_op *copy = clone_shallow(w->cloner, op);
    if (op == w->root)
        w->copy = copy;
    else
        tw_op_insert(copy, tw_map_get_ptr(&w->regions, op->region), NULL);
    for (unsigned r = 0; r < op->n_regions; r++)
        if (op->regions[r].first)
            tw_map_put_ptr(&w->regions, &op->regions[r], &copy->regions[r]);
    return true;
}

tw_op *tw_op_clone(tw_cloner *c, const tw_op *op)
{
    clone_walk walk = {.cloner = c, .root = op, .regions = tw_map_make(c->ctx->arena)};
    tw_walk((tw_op *)op, clone_one, &walk);
    return walk.copy;
}
