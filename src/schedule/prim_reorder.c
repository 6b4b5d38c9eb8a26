/* prim_reorder.c: reorder: loops of one perfect nest change places.
 *
 * What must hold. (1) Two accesses to one element, one of them a store, keep their order: the loops
 * that can tell such accesses apart may go anywhere, the others must keep their order among
 * themselves. A reduction's own accumulation is exempt: reordering it reassociates. (2) A reduction
 * starts with its init: for each result, the first instance must be that with all reduction
 * variables 0; so a reduction loop may pass outside of another loop only if that loop is told apart
 * by the results. */
#include "schedule/schedule_impl.h"

/* The nest from the outermost to the innermost loop that moves. */
typedef struct chain {
    unsigned top, n; /* level of the first in the nest, number of loops */
    tw_op *loops[TW_MAX_NEST];
    unsigned order[TW_MAX_NEST]; /* new position -> old position */
    unsigned place[TW_MAX_NEST]; /* old position -> new position */
} chain;

/* Whether loops at old positions a < b swap their order. */
static bool swapped(const chain *c, unsigned a, unsigned b)
{
    return c->place[a] > c->place[b];
}

static int position_of(const tw_nest *nest, const tw_op *loop)
{
    for (unsigned i = 0; i < nest->n; i++)
        if (nest->loops[i] == loop)
            return (int)i;
    return -1;
}

/* Levels of the given loops in the nest that ends with the innermost of them. */
static bool find_levels(const tw_step *step, tw_nest *nest, int *levels)
{
    unsigned n = step->op->n_operands;
    tw_op *inner = step->operands[0];
    for (unsigned i = 1; i < n; i++)
        if (tw_op_is_ancestor(inner, step->operands[i]))
            inner = step->operands[i];
    /* Any operation of the body lies in the nest; an empty body has nothing to reorder. */
    if (!inner->regions[0].first || !tw_nest_of(step->ctx, inner->regions[0].first, nest))
        return tw_step_refuse(step, "loop %%%s is empty or nested too deep", tw_loop_name(inner));
    for (unsigned i = 0; i < n; i++) {
        levels[i] = position_of(nest, step->operands[i]);
        if (levels[i] < 0)
            return tw_step_refuse(step, "loops %%%s and %%%s are not in one nest",
                                  tw_loop_name(step->operands[i]), tw_loop_name(inner));
        for (unsigned k = 0; k < i; k++)
            if (levels[k] == levels[i])
                return tw_step_refuse(step, "loop %%%s is given twice",
                                      tw_loop_name(step->operands[i]));
    }
    return true;
}

static bool make_chain(const tw_step *step, chain *c)
{
    tw_nest nest;
    int levels[TW_MAX_NEST];
    unsigned n = step->op->n_operands;
    if (n > TW_MAX_NEST)
        return tw_step_refuse(step, "more than %d loops", TW_MAX_NEST);
    if (!find_levels(step, &nest, levels))
        return false;
    int top = levels[0], bottom = levels[0];
    for (unsigned i = 1; i < n; i++) {
        top = levels[i] < top ? levels[i] : top;
        bottom = levels[i] > bottom ? levels[i] : bottom;
    }
    c->top = (unsigned)top;
    c->n = (unsigned)(bottom - top) + 1;
    bool given[TW_MAX_NEST] = {false};
    for (unsigned i = 0; i < n; i++)
        given[levels[i] - top] = true;
    unsigned next = 0; /* of the given loops, in their new order */
    for (unsigned i = 0; i < c->n; i++) {
        c->loops[i] = nest.loops[c->top + i];
        c->order[i] = given[i] ? (unsigned)(levels[next++] - top) : i;
    }
    for (unsigned i = 0; i < c->n; i++)
        c->place[c->order[i]] = i;
    return true;
}

static bool check_structure(const tw_step *step, const chain *c)
{
    for (unsigned i = 0; i < c->n; i++) {
        tw_op *loop = c->loops[i];
        if (!tw_step_serial(step, loop))
            return false;
        if (i + 1 < c->n && !tw_is_perfect(loop, c->loops[i + 1]))
            return tw_step_refuse(step, "loop %%%s is not all that the body of %%%s holds",
                                  tw_loop_name(c->loops[i + 1]), tw_loop_name(loop));
        for (unsigned k = 0; k < i; k++)
            for (unsigned o = 0; swapped(c, k, i) && o < loop->n_operands; o++)
                if (tw_operand(loop, o) == tw_loop_var(c->loops[k]))
                    return tw_step_refuse(step, "the bounds of loop %%%s depend on %%%s",
                                          tw_loop_name(loop), tw_loop_name(c->loops[k]));
    }
    return tw_step_only_blocks(step, c->loops[0]);
}

/* Condition (1) for one pair: no two loops that leave the accesses' order open are swapped. */
static bool check_pair(const tw_step *step, const chain *c, const tw_block_info *ba,
                       const tw_block_access *a, const tw_block_info *bb, const tw_block_access *b)
{
    bool open[TW_MAX_NEST];
    for (unsigned i = 0; i < c->n; i++) {
        open[i] = !tw_disjoint_over(step->ctx, ba, a, bb, b, c->top, c->top + c->n, c->top + i);
        for (unsigned k = 0; open[i] && k < i; k++)
            if (open[k] && swapped(c, k, i))
                return tw_step_refuse(
                    step,
                    "blocks \"%s\" and \"%s\" access elements of %%%s in an order that loops %%%s "
                    "and %%%s must keep",
                    ba->name, bb->name, tw_buffer_name(a->buffer), tw_loop_name(c->loops[k]),
                    tw_loop_name(c->loops[i]));
    }
    return true;
}

/* Accesses of one block to what it writes are in the order that the block's kind allows: any order
 * for results that differ, and for sums. */
static bool is_own_accumulation(const tw_block_info *a, const tw_block_info *b)
{
    return a == b && !a->sequential;
}

static bool check_dependences(const tw_step *step, const chain *c, const tw_block_list *list)
{
    for (unsigned p = 0; p < list->n; p++)
        for (unsigned q = 0; q < list->n; q++) {
            const tw_block_info *ba = list->blocks[p], *bb = list->blocks[q];
            for (unsigned i = 0; !is_own_accumulation(ba, bb) && i < ba->n_accesses; i++)
                for (unsigned k = 0; ba->accesses[i].store && k < bb->n_accesses; k++) {
                    const tw_block_access *a = &ba->accesses[i], *b = &bb->accesses[k];
                    if (a->buffer == b->buffer && !tw_is_private(a->buffer, c->loops[c->n - 1]) &&
                        !check_pair(step, c, ba, a, bb, b))
                        return false;
                }
        }
    return true;
}

/* Whether the place of each store of the block tells the loop apart. */
static bool told_apart(tw_context *ctx, const tw_block_info *b, unsigned level)
{
    for (unsigned i = 0; i < b->n_accesses; i++) {
        const tw_block_access *a = &b->accesses[i];
        if (a->store && !tw_determines(ctx, a->loops, a->rank, b->nest.ranges, b->nest.n, level))
            return false;
    }
    return true;
}

/* Condition (2). */
static bool check_init(const tw_step *step, const chain *c, const tw_block_info *b)
{
    if (!b->has_init || !b->has_reduce)
        return true;
    for (unsigned i = 0; i < c->n; i++)
        for (unsigned k = 0; k < i; k++) {
            /* Loop i was inside of k and comes outside. */
            unsigned li = c->top + i, lk = c->top + k;
            if (!swapped(c, k, i) || !tw_loop_is_reduce(b, li))
                continue;
            bool mixed = tw_loop_is_spatial(b, li) ||
                         (tw_loop_is_reduce(b, lk) && tw_loop_is_spatial(b, lk));
            if (mixed || (!tw_loop_is_reduce(b, lk) && !told_apart(step->ctx, b, lk)))
                return tw_step_refuse(step,
                                      "block \"%s\" would no longer start with its init: loop %%%s "
                                      "of the reduction would go outside of %%%s (decompose the "
                                      "reduction first)",
                                      b->name, tw_loop_name(c->loops[i]),
                                      tw_loop_name(c->loops[k]));
        }
    return true;
}

static void rebuild(const chain *c)
{
    tw_op *top = c->loops[0], *bottom = c->loops[c->n - 1];
    tw_region *region = top->region;
    tw_op *after = top->next;
    for (unsigned i = c->n; i-- > 0;)
        tw_op_remove(c->loops[i]);
    tw_op *inner = c->loops[c->order[c->n - 1]];
    if (inner != bottom)
        tw_region_splice(&inner->regions[0], NULL, &bottom->regions[0]);
    for (unsigned i = 0; i < c->n; i++) {
        tw_op *loop = c->loops[c->order[i]];
        tw_op_insert(loop, region, after);
        region = &loop->regions[0];
        after = NULL;
    }
}

bool tw_do_reorder(const tw_step *step)
{
    chain c = {.n = 0};
    tw_block_list list;
    if (!make_chain(step, &c) || !check_structure(step, &c) ||
        !tw_step_blocks(step, c.loops[0], &list) || !check_dependences(step, &c, &list))
        return false;
    for (unsigned i = 0; i < list.n; i++)
        if (!check_init(step, &c, list.blocks[i]))
            return false;
    rebuild(&c);
    return true;
}
