/* pieces.c: parts of schedules that several rules use. */
#include "schedule/rules/rule.h"

#include <string.h>

enum {
    ENOUGH_PIECES = 16,
    FUSED_WORK = 256,
    MAX_INLINE_OPS = 24,
    CHEAP_OPS = 4,
};

unsigned tw_rule_lanes(const tw_rule *r, tw_elem elem, int64_t extent)
{
    unsigned bits = tw_elem_bits(elem) < 8 ? 8 : tw_elem_bits(elem);
    unsigned lanes = tw_target_lanes(r->target, bits);
    while (lanes > 1 && lanes / 2 >= extent)
        lanes /= 2;
    return lanes;
}

int64_t tw_rule_extent(const tw_rule *r, tw_value *loop)
{
    const tw_op *op = tw_schedule_op(r->s, loop);
    int64_t extent = 1;
    if (op) {
        tw_attr bounds = tw_op_attr(op, "bounds");
        tw_expr trips = tw_expr_sub(r->ctx, bounds->u.map.exprs[1], bounds->u.map.exprs[0]);
        if (tw_expr_dim_count(trips) || !tw_typical_size(trips, &extent))
            extent = INT32_MAX;
    }
    return extent;
}

bool tw_rule_vectorize_inner(tw_rule *r, tw_value *block, unsigned depth, unsigned lanes,
                             bool unroll)
{
    tw_value *loops[TW_RULE_MAX_LOOPS];
    int n = tw_sched_get_loops(r->s, block, loops, TW_RULE_MAX_LOOPS);
    if (n < 0)
        return false;
    if ((unsigned)n <= depth)
        return true;
    tw_value *last = loops[n - 1];
    if (lanes > 1) {
        tw_value *parts[2] = {NULL, last};
        if (tw_rule_extent(r, last) != lanes &&
            !tw_sched_split(r->s, last, (int64_t[]){0, lanes}, 2, parts))
            return false;
        if (!tw_sched_vectorize(r->s, parts[1]))
            return false;
        last = parts[0];
    }
    for (int i = (int)depth; unroll && i < n - 1; i++)
        if (!tw_sched_unroll(r->s, loops[i]))
            return false;
    return !unroll || !last || tw_sched_unroll(r->s, last);
}

static bool is_open(const tw_rule *r, tw_value *loop)
{
    const tw_op *op = tw_schedule_op(r->s, loop);
    return op && !tw_expr_is_const(tw_op_attr(op, "bounds")->u.map.exprs[1]);
}

/* When so much work is worth several threads; NULL: always. */
static tw_attr worth_it(const tw_rule *r, tw_expr work)
{
    tw_expr more = tw_expr_addc(r->ctx, work, -r->parallel_work);
    return tw_expr_is_const(work) ? NULL : tw_attr_map(r->ctx, 0, &more, 1);
}

bool tw_rule_parallelize(tw_rule *r, tw_value **loops, unsigned *n, unsigned joinable, tw_expr work)
{
    int64_t typical;
    if (!*n || !joinable || !tw_typical_size(work, &typical) ||
        (tw_expr_is_const(work) && typical < r->parallel_work))
        return true;
    tw_attr when = worth_it(r, work);
    unsigned joined = 0;
    int64_t pieces = 1;
    bool open = false; /* a symbolic size was met: it may be a batch of one */
    while (joined < joinable && joined < *n && pieces < ENOUGH_PIECES) {
        if (!is_open(r, loops[joined]))
            pieces *= tw_rule_extent(r, loops[joined]);
        else if (open)
            pieces = ENOUGH_PIECES;
        open |= is_open(r, loops[joined++]);
    }
    if (pieces < 2 && !open)
        return true;
    /* A batch is fused with the next axis at the price of divisions by sizes; where an iteration
     * does little, it stays outside. */
    if (joined == 2 && is_open(r, loops[0]) && is_open(r, loops[1])) {
        int64_t steps = tw_rule_extent(r, loops[0]) * tw_rule_extent(r, loops[1]);
        if (typical / FUSED_WORK < steps)
            return tw_sched_parallel(r->s, loops[1], when);
    }
    if (joined > 1) {
        tw_value *fused = tw_sched_fuse(r->s, loops, joined);
        if (!fused)
            return false;
        loops[0] = fused;
        memmove(&loops[1], &loops[joined], (*n - joined) * sizeof *loops);
        *n -= joined - 1;
    }
    return tw_sched_parallel(r->s, loops[0], when);
}

/* ---- Inlining ---- */

static bool is_costly(const tw_op *op)
{
    switch (tw_loop_kind_of(op)) {
    case TW_LOOP_EXP:
    case TW_LOOP_LOG:
    case TW_LOOP_SIN:
    case TW_LOOP_COS:
    case TW_LOOP_TAN:
    case TW_LOOP_TANH:
    case TW_LOOP_ERF:
    case TW_LOOP_POW:
    case TW_LOOP_SQRT:
    case TW_LOOP_DIV:
    case TW_LOOP_REM:
    case TW_LOOP_MOD:
        return true;
    default:
        return false;
    }
}

static bool has_costly_op(const tw_rule_block *b)
{
    for (const tw_op *op = b->op->regions[1].first; op; op = op->next)
        if (is_costly(op))
            return true;
    return false;
}

/* How often each element of the buffer is read by the block, at most. */
static bool reads_each_once(const tw_rule_block *reader, const tw_value *buffer)
{
    for (unsigned a = 0; a < reader->n_accesses; a++) {
        const tw_rule_access *x = &reader->accesses[a];
        if (x->buffer != buffer || x->is_store)
            continue;
        for (unsigned i = 0; i < reader->n_iters; i++)
            if (!(x->uses >> i & 1) && reader->extent[i] > 1)
                return false;
    }
    return true;
}

static bool worth_inlining(const tw_rule *r, const tw_rule_block *b)
{
    const tw_rule_block *reader = NULL;
    if (!tw_is_injective(b) || !tw_is_internal(b->store->buffer) || b->body_ops > MAX_INLINE_OPS ||
        b->store->buffer->op->region->parent != r->kernel)
        return false; /* what loops hold was put there to be computed there */
    unsigned readers = tw_readers(r->k, b->store->buffer, &reader);
    if (readers == 0)
        return false;
    bool cheap = b->body_ops <= CHEAP_OPS && !has_costly_op(b);
    if (readers == 1 && (reads_each_once(reader, b->store->buffer) || cheap))
        return true;
    return cheap;
}

bool tw_rule_inline(tw_rule *r)
{
    /* From the last to the first: each body is then copied once. Names stay when blocks go. */
    for (unsigned i = r->k->n; i-- > 0;) {
        if (!worth_inlining(r, &r->k->blocks[i]))
            continue;
        tw_value *block = tw_sched_get_block(r->s, r->k->blocks[i].name);
        if (!block || !tw_sched_compute_inline(r->s, block))
            return false;
    }
    return tw_analyze_kernel(r->ctx, r->kernel, r->k);
}
