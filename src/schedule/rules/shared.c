/* shared.c: the rule for kernels whose blocks stand together in loops as they were lowered: a tiled
 * algorithm, such as attention.
 *
 *     for b, h, t {                                  these stay and run parallel
 *       block "queries" … for u { block "scores" … block "max" … }
 *       block "attention" … }
 *
 * Each block's own loops are scheduled: a reduction in register tiles, with what takes its results
 * element by element as the tile's epilogue; the others in vectors along the axis that is
 * contiguous in memory. */
#include "schedule/rules/rule.h"

/* The number of loops around the block that hold other things, too; all loops around count. */
static unsigned shared_loops(const tw_rule_block *b)
{
    unsigned shared = 0, inner = 0;
    for (const tw_op *at = b->op; tw_is_loop(at->region->parent, TW_LOOP_FOR);
         at = at->region->parent, inner++)
        if (at->region->first != at->region->last && !shared)
            shared = inner + 1; /* from inside; turned around below */
    return shared ? inner - shared + 1 : 0;
}

bool tw_rule_fits_shared(const tw_rule *r)
{
    bool any = false;
    for (unsigned i = 0; i < r->k->n; i++) {
        const tw_rule_block *b = &r->k->blocks[i];
        any |= shared_loops(b) > 0;
        if (!b->store || b->sequential || b->has_loops)
            return false;
    }
    return any;
}

/* The block that takes the results of a reduction where they are made, or NULL. */
static const tw_rule_block *epilogue_of(const tw_rule *r, const tw_rule_block *main)
{
    const tw_rule_block *reader = NULL;
    if (!tw_is_internal(main->store->buffer) ||
        tw_readers(r->k, main->store->buffer, &reader) != 1 || !tw_is_elementwise(reader) ||
        reader->n_iters != main->n_spatial || shared_loops(reader) != shared_loops(main))
        return NULL;
    for (unsigned i = 0; i < reader->n_iters; i++)
        if (reader->size[i] != main->size[i])
            return NULL;
    return reader;
}

static bool reduces(const tw_rule_block *b)
{
    return b->n_spatial < b->n_iters;
}

static bool is_epilogue(const tw_rule *r, const tw_rule_block *b)
{
    for (unsigned i = 0; i < r->k->n; i++)
        if (reduces(&r->k->blocks[i]) && epilogue_of(r, &r->k->blocks[i]) == b)
            return true;
    return false;
}

static bool schedule_elements(tw_rule *r, const tw_rule_block *b, unsigned shared)
{
    tw_value *block = tw_sched_get_block(r->s, b->name);
    bool contiguous = b->n_iters > shared && b->store->stride[b->n_iters - 1] == 1;
    unsigned lanes =
        contiguous ? tw_rule_lanes(r, b->store->buffer->type->elem, b->extent[b->n_iters - 1]) : 1;
    return block && tw_rule_vectorize_inner(r, block, shared, lanes, false);
}

bool tw_rule_shared(tw_rule *r)
{
    tw_expr work = tw_expr_const(r->ctx, 0);
    unsigned outer = TW_RULE_MAX_LOOPS;
    for (unsigned i = 0; i < r->k->n; i++) {
        const tw_rule_block *b = &r->k->blocks[i];
        unsigned shared = shared_loops(b);
        work = tw_expr_add(r->ctx, work, b->work);
        outer = shared < outer ? shared : outer;
        if (reduces(b) ? !tw_rule_tile_inner(r, b, epilogue_of(r, b), shared)
                       : !is_epilogue(r, b) && !schedule_elements(r, b, shared))
            return false;
    }
    tw_value *loops[TW_RULE_MAX_LOOPS];
    tw_value *block = tw_sched_get_block(r->s, r->k->blocks[0].name);
    if (!outer || !block || tw_sched_get_loops(r->s, block, loops, TW_RULE_MAX_LOOPS) < (int)outer)
        return block != NULL;
    return tw_rule_parallelize(r, loops, &outer, outer, work);
}
