/* checkpoint.c: a copy of the kernel to go back to.
 *
 * A step made of several others is refused as a whole: what its first parts have done is undone by
 * putting the copy in the place of the kernel's body. References of the schedule then go to the
 * copies of what they meant. */
#include "base/vec.h"
#include "schedule/schedule_impl.h"

struct tw_checkpoint {
    tw_schedule *s;
    tw_op *copy;
    tw_map twins;        /* operation of the kernel -> its copy */
    tw_map refs, blocks; /* of the schedule, with the copies */
};

typedef TW_VEC(tw_op *) op_vec;

typedef struct listing {
    tw_arena *arena;
    op_vec ops;
} listing;

static bool list_op(tw_op *op, void *data)
{
    listing *l = data;
    tw_vec_push(l->arena, &l->ops, op);
    return true;
}

static op_vec ops_of(tw_context *ctx, tw_op *root)
{
    listing l = {.arena = tw_context_arena(ctx)};
    tw_walk(root, list_op, &l);
    return l.ops;
}

/* The map with what its operations become. */
static tw_map copy_map(const tw_map *from, const tw_map *twins)
{
    tw_map to = tw_map_make(from->arena);
    for (size_t i = 0; i < from->len; i++) {
        const tw_map_entry *e = &from->entries[i];
        tw_op *twin = tw_map_get_ptr(twins, e->value);
        tw_map_put(&to, e->key, e->key_len, twin ? twin : e->value);
    }
    return to;
}

tw_checkpoint *tw_checkpoint_take(tw_schedule *s)
{
    tw_arena *arena = tw_context_arena(s->ctx);
    tw_checkpoint *c = TW_NEW(arena, tw_checkpoint);
    c->s = s;
    c->copy = tw_op_clone(tw_cloner_create(s->ctx), s->kernel);
    c->twins = tw_map_make(arena);
    op_vec from = ops_of(s->ctx, s->kernel), to = ops_of(s->ctx, c->copy);
    for (size_t i = 0; i < from.len; i++)
        tw_map_put_ptr(&c->twins, from.data[i], to.data[i]);
    c->refs = copy_map(&s->refs, &c->twins);
    c->blocks = copy_map(&s->blocks, &c->twins);
    return c;
}

void tw_checkpoint_restore(tw_checkpoint *c)
{
    tw_region *body = &c->s->kernel->regions[0], *copy = &c->copy->regions[0];
    while (body->last)
        tw_op_erase(body->last);
    for (unsigned i = 0; i < body->n_args; i++)
        tw_value_replace_all(copy->args[i], body->args[i]);
    tw_region_splice(body, NULL, copy);
    c->s->refs = c->refs;
    c->s->blocks = c->blocks;
}
