/* rows.c: the rule for normalisations, softmax and reductions along rows.
 *
 * All blocks have the same leading axes, the rows. The rows of one block become one parallel loop
 * and all other blocks are computed inside it; reductions along contiguous memory keep partial
 * results in the lanes of vectors. Where all blocks make one element alone, there is one row.
 *
 * That block is the last, whose producers move to it, unless an earlier one makes a result of the
 * kernel, too (a sum that is normalised and also needed itself): its readers move to that. */
#include "schedule/rules/rule.h"

enum { PARTIALS = 4 }; /* vectors of partial results: hides the latency of the operation */

/* Leading axes that all blocks have with the same extents, none of them reduced. */
static unsigned common_rows(const tw_kernel_blocks *k)
{
    unsigned rows = k->blocks[0].n_spatial;
    for (unsigned i = 0; i < k->n; i++) {
        const tw_rule_block *b = &k->blocks[i];
        unsigned same = 0;
        while (same < rows && same < b->n_spatial && !b->reduce[same] &&
               b->size[same] == k->blocks[k->n - 1].size[same])
            same++;
        rows = same;
    }
    return rows;
}

/* Each block reads and writes what the kernel makes at its own row only. */
static bool stays_in_row(const tw_kernel_blocks *k, unsigned rows)
{
    for (unsigned i = 0; i < k->n; i++)
        for (unsigned a = 0; a < k->blocks[i].n_accesses; a++) {
            const tw_rule_access *x = &k->blocks[i].accesses[a];
            uint32_t mask = (UINT32_C(1) << rows) - 1;
            for (unsigned j = 0; j < rows; j++)
                if (k->blocks[i].extent[j] == 1)
                    mask &= ~(UINT32_C(1) << j);
            if ((tw_is_internal(x->buffer) || tw_producer(k, x->buffer)) &&
                (x->indirect || (x->uses & mask) != mask))
                return false;
        }
    return true;
}

/* The number of the block whose rows are the loop: the first that makes a result of the kernel. */
static unsigned home_of(const tw_kernel_blocks *k)
{
    unsigned i = 0;
    while (i + 1 < k->n && tw_is_internal(k->blocks[i].store->buffer))
        i++;
    return i;
}

bool tw_rule_fits_rows(const tw_rule *r)
{
    const tw_kernel_blocks *k = r->k;
    bool reduces = false, single = true;
    if (!k->n)
        return false;
    for (unsigned i = 0; i < k->n; i++) {
        const tw_rule_block *b = &k->blocks[i];
        if (!b->store || b->sequential || b->has_loops)
            return false;
        reduces |= b->n_spatial < b->n_iters;
        single &= !b->n_spatial;
    }
    unsigned rows = common_rows(k);
    return reduces && (single || (rows > 0 && stays_in_row(k, rows)));
}

/* The reduction's innermost loop in vectors of partial results. */
static bool vectorize_reduction(tw_rule *r, const tw_rule_block *b, tw_value *block, unsigned depth)
{
    tw_value *loops[TW_RULE_MAX_LOOPS], *parts[3];
    int n = tw_sched_get_loops(r->s, block, loops, TW_RULE_MAX_LOOPS);
    if (n < 0)
        return false;
    if ((unsigned)n <= depth)
        return true;
    int64_t extent = tw_rule_extent(r, loops[n - 1]);
    unsigned lanes = tw_rule_lanes(r, b->store->buffer->type->elem, extent);
    bool contiguous = false;
    for (unsigned a = 0; a < b->n_accesses; a++)
        contiguous |=
            b->accesses[a].buffer != b->store->buffer && b->accesses[a].stride[b->n_iters - 1] == 1;
    if (r->precise || !contiguous || !b->reduce[b->n_iters - 1] || lanes < 4 || extent < 2 * lanes)
        return tw_sched_decompose_reduction(r->s, block, loops[depth]) != NULL;
    int64_t vectors = extent >= (int64_t)lanes * PARTIALS * 2 ? PARTIALS : 1;
    if (!tw_sched_split(r->s, loops[n - 1], (int64_t[]){0, vectors * lanes}, 2, parts))
        return false;
    tw_value *final = tw_sched_rfactor(r->s, block, parts[1], -1);
    if (!final || !tw_sched_set_scope(r->s, block, 0, "local"))
        return false;
    /* block: partial results over [outer…, parts[0], lanes]; final: over the lanes */
    n = tw_sched_get_loops(r->s, block, loops, TW_RULE_MAX_LOOPS);
    if (n < (int)depth + 2)
        return n >= 0;
    tw_value *init = tw_sched_decompose_reduction(r->s, block, loops[depth]);
    tw_value *final_loops[TW_RULE_MAX_LOOPS];
    int n_final = tw_sched_get_loops(r->s, final, final_loops, TW_RULE_MAX_LOOPS);
    if (!init || n_final <= (int)depth ||
        !tw_sched_decompose_reduction(r->s, final, final_loops[depth]))
        return false;
    return tw_rule_vectorize_inner(r, block, (unsigned)n - 1, lanes, true) &&
           tw_rule_vectorize_inner(r, init, depth, lanes, true);
}

bool tw_rule_rows(tw_rule *r)
{
    const tw_kernel_blocks *k = r->k;
    unsigned rows = common_rows(k), n = rows, home = home_of(k);
    tw_value *block = tw_sched_get_block(r->s, k->blocks[home].name), *loops[TW_RULE_MAX_LOOPS];
    if (!block || tw_sched_get_loops(r->s, block, loops, TW_RULE_MAX_LOOPS) < (int)rows)
        return false;
    tw_expr work = tw_expr_const(r->ctx, 0);
    for (unsigned i = 0; i < k->n; i++)
        work = tw_expr_add(r->ctx, work, k->blocks[i].work);
    for (unsigned i = rows ? home : 0; i-- > 0;) {
        tw_value *producer = tw_sched_get_block(r->s, k->blocks[i].name);
        if (!producer || !tw_sched_compute_at(r->s, producer, loops[rows - 1]))
            return false;
    }
    for (unsigned i = home + 1; rows && i < k->n; i++) {
        tw_value *consumer = tw_sched_get_block(r->s, k->blocks[i].name);
        if (!consumer || !tw_sched_reverse_compute_at(r->s, consumer, loops[rows - 1]))
            return false;
    }
    for (unsigned i = 0; i < k->n; i++) {
        const tw_rule_block *b = &k->blocks[i];
        tw_value *inner = tw_sched_get_block(r->s, b->name);
        bool reduction = b->n_spatial < b->n_iters;
        unsigned lanes = tw_rule_lanes(r, b->store->buffer->type->elem,
                                       b->n_iters > rows ? b->extent[b->n_iters - 1] : 1);
        bool contiguous = b->n_iters && b->store->stride[b->n_iters - 1] == 1;
        if (!inner ||
            (reduction ? !vectorize_reduction(r, b, inner, rows)
                       : !tw_rule_vectorize_inner(r, inner, rows, contiguous ? lanes : 1, false)))
            return false;
    }
    return tw_rule_parallelize(r, loops, &n, rows, work);
}
