/* rewrite.c: the greedy pattern rewriter.
 *
 * A worklist holds the operations that may match: at first all inside the root, first to last;
 * then only what a rewrite touched: new operations, the users of replaced or changed results and
 * the producers of operands that lost a use. A pattern may look further than that, so when the list
 * is empty and something has changed, all are looked at once more, a few times at most. So the work
 * is linear in the operations plus the rewrites.
 *
 * New operations are found without hooks in the builder: they stand between the place where the
 * last builder was made and the operation that was in front of it then. */
#include "ir/rewrite_impl.h"

#include <assert.h>
#include <stdlib.h>

enum {
    REWRITES_PER_OP = 64,
    MAX_ROUNDS = 4, /* a linear number of visits, whatever the patterns do */
};

/* The patterns of one root definition, best first. */
typedef struct pattern_list {
    TW_VEC(const tw_pattern *) items;
} pattern_list;

struct tw_rewriter {
    tw_context *ctx;
    tw_op *root;
    pattern_list any;     /* of patterns without a root */
    tw_map by_def;        /* definition -> pattern_list, those of `any` merged in */
    TW_VEC(tw_op *) work; /* a stack; NULL where an operation was taken out */
    tw_map positions;     /* operation -> index in work + 1 */
    tw_builder builder;   /* the one handed out last */
    bool (*eligible)(const tw_op *op, void *data); /* NULL: all are offered to patterns */
    void *eligible_data;
    tw_region *built_in;               /* it was made there, */
    tw_op *built_after, *built_before; /* between these two (NULL: the region's ends) */
    TW_VEC(tw_value *) operands;       /* of the operation that a pattern is tried on */
};

tw_context *tw_rw_context(tw_rewriter *rw)
{
    return rw->ctx;
}

/* ---- Worklist ---- */

static void push(tw_rewriter *rw, tw_op *op)
{
    if (!op || op == rw->root || !op->region || tw_map_get_ptr(&rw->positions, op))
        return;
    tw_vec_push(rw->ctx->arena, &rw->work, op);
    tw_map_put_ptr(&rw->positions, op, (void *)rw->work.len);
}

static tw_op *pop(tw_rewriter *rw)
{
    while (rw->work.len) {
        tw_op *op = rw->work.data[--rw->work.len];
        if (!op)
            continue;
        tw_map_put_ptr(&rw->positions, op, NULL);
        return op;
    }
    return NULL;
}

static bool take_out(tw_op *op, void *data)
{
    tw_rewriter *rw = data;
    size_t position = (size_t)tw_map_get_ptr(&rw->positions, op);
    if (position) {
        rw->work.data[position - 1] = NULL;
        tw_map_put_ptr(&rw->positions, op, NULL);
    }
    return true;
}

static void push_users(tw_rewriter *rw, const tw_op *op)
{
    for (unsigned i = 0; i < op->n_results; i++)
        for (tw_use *u = op->results[i].uses; u; u = u->next)
            push(rw, u->user);
}

static bool push_producers(tw_op *op, void *data)
{
    for (unsigned i = 0; i < op->n_operands; i++)
        push(data, tw_operand(op, i)->op);
    return true;
}

static bool push_op(tw_op *op, void *data)
{
    push(data, op);
    return true;
}

/* ---- What patterns call ---- */

/* Puts what was made with the last builder on the worklist. */
static void collect_built(tw_rewriter *rw)
{
    if (!rw->built_in)
        return;
    tw_op *op = rw->built_after ? rw->built_after->next : rw->built_in->first;
    rw->built_in = NULL;
    for (; op && op != rw->built_before; op = op->next)
        tw_walk(op, push_op, rw);
}

tw_builder *tw_rw_builder(tw_rewriter *rw, tw_op *before)
{
    collect_built(rw);
    rw->builder = tw_builder_before(rw->ctx, before);
    rw->built_in = before->region;
    rw->built_after = before->prev;
    rw->built_before = before;
    return &rw->builder;
}

void tw_rw_erase(tw_rewriter *rw, tw_op *op)
{
    collect_built(rw);
    tw_walk(op, push_producers, rw);
    tw_walk(op, take_out, rw);
    tw_op_erase(op);
}

void tw_rw_replace(tw_rewriter *rw, tw_op *op, tw_value *const *values)
{
    collect_built(rw);
    push_users(rw, op);
    for (unsigned i = 0; i < op->n_results; i++) {
        if (!values[i]->name)
            values[i]->name = op->results[i].name;
        tw_value_replace_all(&op->results[i], values[i]);
    }
    tw_rw_erase(rw, op);
}

void tw_rw_changed(tw_rewriter *rw, tw_op *op)
{
    collect_built(rw);
    push_users(rw, op);
    push_producers(op, rw);
    push(rw, op);
}

/* ---- Driver ---- */

static int best_first(const void *a, const void *b)
{
    const tw_pattern *p = *(const tw_pattern *const *)a, *q = *(const tw_pattern *const *)b;
    if (p->benefit != q->benefit)
        return p->benefit < q->benefit ? 1 : -1;
    return p < q ? -1 : p > q; /* equal ones in the order of the table */
}

static void sort_list(pattern_list *list)
{
    if (list->items.len)
        qsort(list->items.data, list->items.len, sizeof *list->items.data, best_first);
}

static void index_patterns(tw_rewriter *rw, const tw_pattern *patterns, size_t n)
{
    tw_arena *arena = rw->ctx->arena;
    for (size_t i = 0; i < n; i++)
        if (!patterns[i].root)
            tw_vec_push(arena, &rw->any.items, &patterns[i]);
    for (size_t i = 0; i < n; i++) {
        if (!patterns[i].root)
            continue;
        pattern_list *list = tw_map_get_ptr(&rw->by_def, patterns[i].root);
        if (!list) {
            list = TW_NEW(arena, pattern_list);
            for (size_t k = 0; k < rw->any.items.len; k++)
                tw_vec_push(arena, &list->items, rw->any.items.data[k]);
            tw_map_put_ptr(&rw->by_def, patterns[i].root, list);
        }
        tw_vec_push(arena, &list->items, &patterns[i]);
    }
    for (size_t i = 0; i < rw->by_def.len; i++)
        sort_list(rw->by_def.entries[i].value);
    sort_list(&rw->any);
}

static bool is_dead(const tw_op *op)
{
    if (!(op->def->traits & TW_TRAIT_PURE) || op->def->traits & TW_TRAIT_TERMINATOR)
        return false;
    for (unsigned i = 0; i < op->n_results; i++)
        if (op->results[i].uses)
            return false;
    return true;
}

/* Tries the patterns on op; the one that applied, or NULL. */
static const tw_pattern *apply_one(tw_rewriter *rw, tw_op *op)
{
    const pattern_list *list = tw_map_get_ptr(&rw->by_def, op->def);
    if (!list)
        list = &rw->any;
    if (!list->items.len)
        return NULL;
    rw->operands.len = 0;
    for (unsigned i = 0; i < op->n_operands; i++)
        tw_vec_push(rw->ctx->arena, &rw->operands, tw_operand(op, i));
    for (size_t i = 0; i < list->items.len; i++) {
        const tw_pattern *p = list->items.data[i];
        if (!p->apply(rw, op, p->data)) {
            collect_built(rw);
            continue;
        }
        collect_built(rw);
        for (size_t k = 0; k < rw->operands.len; k++) /* may have lost their last use */
            push(rw, rw->operands.data[k]->op);
        push(rw, op);
        return p;
    }
    return NULL;
}

/* Puts all inside the root on the worklist, so that the first is popped first; their number. */
static size_t fill_worklist(tw_rewriter *rw)
{
    tw_walk(rw->root, push_op, rw);
    size_t n = rw->work.len;
    for (size_t i = 0; i < n / 2; i++) {
        tw_op *op = rw->work.data[i];
        rw->work.data[i] = rw->work.data[n - 1 - i];
        rw->work.data[n - 1 - i] = op;
    }
    for (size_t i = 0; i < n; i++)
        tw_map_put_ptr(&rw->positions, rw->work.data[i], (void *)(i + 1));
    return n;
}

/* Where the driver stands. */
typedef struct progress {
    uint64_t changes, max_changes;
    uint64_t budget; /* applications that are left */
} progress;

/* One operation of the worklist; false when it is time to stop. */
static bool step(tw_rewriter *rw, tw_op *op, progress *p)
{
    tw_loc loc = op->loc; /* the operation may be gone afterwards */
    if (is_dead(op)) {
        rw->ctx->last_rule = "an operation without effect whose results nothing uses goes";
        tw_rw_erase(rw, op);
        return ++p->changes < p->max_changes;
    }
    const tw_pattern *applied =
        !rw->eligible || rw->eligible(op, rw->eligible_data) ? apply_one(rw, op) : NULL;
    if (!applied)
        return true;
    rw->ctx->last_rule = applied->name;
    p->changes++;
    if (--p->budget > 0)
        return p->changes < p->max_changes;
    tw_warning(rw->ctx, loc,
               "rewriting was stopped after %d changes per operation; the last pattern that "
               "applied is '%s'",
               REWRITES_PER_OP, applied->name);
    return false;
}

uint64_t tw_rewrite_drive(tw_context *ctx, tw_op *root, const tw_pattern *patterns, size_t n,
                          bool (*eligible)(const tw_op *op, void *data), void *data,
                          uint64_t max_changes)
{
    tw_rewriter rw = {.ctx = ctx,
                      .root = root,
                      .eligible = eligible,
                      .eligible_data = data,
                      .by_def = tw_map_make(ctx->arena),
                      .positions = tw_map_make(ctx->arena)};
    progress p = {.max_changes = max_changes};
    index_patterns(&rw, patterns, n);
    bool going = max_changes > 0;
    for (int round = 0; round < MAX_ROUNDS && going; round++) {
        uint64_t before = p.changes;
        size_t size = fill_worklist(&rw);
        if (round == 0)
            p.budget = (uint64_t)size * REWRITES_PER_OP;
        for (tw_op *op; going && (op = pop(&rw));)
            going = step(&rw, op, &p);
        going = going && p.changes > before;
    }
    return p.changes;
}

void tw_rewrite_greedily(tw_context *ctx, tw_op *root, const tw_pattern *patterns, size_t n,
                         uint64_t max_changes, uint64_t *changes)
{
    uint64_t done = tw_rewrite_drive(ctx, root, patterns, n, NULL, NULL, max_changes);
    if (changes)
        *changes += done;
}
