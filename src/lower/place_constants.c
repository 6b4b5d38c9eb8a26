/* place_constants.c: place-constants: offsets of constants in the constants section.
 *
 *     %a = loop.constant_buffer … 80 bytes          {const_offset = 0}
 *     %b = loop.constant_buffer … 4 bytes     ->    {const_offset = 128}
 *     %c = loop.constant_buffer … as %a             {const_offset = 0}
 *
 * Constants that lie in one place in memory share one, and small ones of the same bytes do. The
 * order is that of the program, so equal models give equal files. Different constants have
 * different offsets, an empty one, too. */
#include "lower/lower_passes.h"

#include "base/arena.h"
#include "base/checked.h"
#include "base/map.h"
#include "dialect/core/core.h"
#include "dialect/loop/loop.h"

enum { ALIGNMENT = 64, SMALL = 4096 };

typedef struct placer {
    tw_context *ctx;
    tw_map by_bytes;   /* contents of small constants -> offset attribute */
    tw_map by_address; /* address and size of large ones -> likewise */
    int64_t end;
} placer;

/* Sets the offset of a constant that the map knows by the key, else the next free one. */
static bool place(placer *p, tw_op *op, tw_map *map, const void *key, size_t key_size)
{
    size_t size = tw_op_attr(op, "value")->u.dense.size;
    void *offset = tw_map_get(map, key, key_size);
    if (!offset) {
        offset = (void *)tw_attr_int(p->ctx, p->end);
        tw_map_put(map, key, key_size, offset);
        size += size == 0;
        if (size > INT64_MAX / 2 || !tw_add_i64(p->end, (int64_t)size + ALIGNMENT - 1, &p->end))
            return tw_error(p->ctx, op->loc,
                            "the constants need more memory than can be addressed");
        p->end = p->end / ALIGNMENT * ALIGNMENT;
    }
    tw_op_set_attr(op, "const_offset", offset);
    return true;
}

static bool place_constant(placer *p, tw_op *op)
{
    tw_attr value = tw_op_attr(op, "value");
    struct {
        const void *data;
        size_t size;
    } where = {value->u.dense.data, value->u.dense.size};
    if (where.size > SMALL)
        return place(p, op, &p->by_address, &where, sizeof where);
    return place(p, op, &p->by_bytes, where.size ? where.data : "", where.size);
}

static bool run(tw_pass_run *pass)
{
    tw_arena *arena = tw_context_arena(pass->ctx);
    placer p = {.ctx = pass->ctx, .by_bytes = tw_map_make(arena), .by_address = tw_map_make(arena)};
    for (tw_op *op = pass->root->regions[0].first; op; op = op->next) {
        if (!tw_is_loop(op, TW_LOOP_CONSTANT_BUFFER))
            continue;
        if (!place_constant(&p, op))
            return false;
        pass->changes++;
    }
    tw_op_set_attr(pass->root, "constants_size", tw_attr_int(p.ctx, p.end));
    return true;
}

const tw_pass tw_pass_place_constants = {
    .name = "place-constants",
    .summary = "give constants offsets in the constants section",
    .anchor = "core.func",
    .run = run,
};
