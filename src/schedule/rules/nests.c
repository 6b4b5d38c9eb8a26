/* nests.c: the rule that fits everything: each block's own nest, outer loops parallel, the axis
 * that is contiguous in memory in vectors. */
#include "schedule/rules/rule.h"

static bool schedule_spatial(tw_rule *r, const tw_rule_block *b, tw_value *block)
{
    tw_value *loops[TW_RULE_MAX_LOOPS], *parts[2];
    int n = tw_sched_get_loops(r->s, block, loops, TW_RULE_MAX_LOOPS);
    if (n <= 0)
        return n == 0;
    int v = tw_contiguous_iter(b, b->store);
    unsigned count = (unsigned)n, joinable = count;
    unsigned lanes = v >= 0 ? tw_rule_lanes(r, b->store->buffer->type->elem, b->extent[v]) : 1;
    if (v == n - 1 && lanes > 1) {
        if (!tw_sched_split(r->s, loops[v], (int64_t[]){0, lanes}, 2, parts) ||
            !tw_sched_vectorize(r->s, parts[1]))
            return false;
        loops[v] = parts[0];
    }
    return tw_rule_parallelize(r, loops, &count, joinable, b->work);
}

static bool schedule_reduction(tw_rule *r, const tw_rule_block *b, tw_value *block)
{
    tw_value *loops[TW_RULE_MAX_LOOPS];
    int n = tw_sched_get_loops(r->s, block, loops, TW_RULE_MAX_LOOPS);
    if (n <= 0)
        return n == 0;
    unsigned spatial = 0, count = (unsigned)n;
    while (spatial < b->n_iters && !b->reduce[spatial])
        spatial++;
    if (spatial < count && !tw_sched_decompose_reduction(r->s, block, loops[spatial]))
        return false;
    return tw_rule_parallelize(r, loops, &count, spatial, b->work);
}

bool tw_rule_nests(tw_rule *r)
{
    for (unsigned i = 0; i < r->k->n; i++) {
        const tw_rule_block *b = &r->k->blocks[i];
        if (b->sequential || b->has_loops || !b->store)
            continue;
        tw_value *block = tw_sched_get_block(r->s, b->name);
        bool fine = block && (b->n_spatial < b->n_iters ? schedule_reduction(r, b, block)
                                                        : schedule_spatial(r, b, block));
        if (!fine)
            return false;
    }
    return true;
}
