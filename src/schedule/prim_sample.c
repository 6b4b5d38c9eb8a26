/* prim_sample.c: sample_perfect_tile, sample_categorical, sample_compute_location: choices.
 *
 *     %a, %b = sched.sample_perfect_tile %i {max_innermost = 16, decision = [6, 4]}
 *     %io, %ii = sched.split %i, %a, %b
 *
 * A choice is drawn from the schedule's random numbers and noted as `decision`: the trace replays
 * to the same kernel. Without the note, or with a replay that redraws, it is drawn anew. */
#include "base/vec.h"
#include "ir/diag_mark.h"
#include "schedule/schedule_impl.h"

enum { MAX_PARTS = 8, MAX_LOCATIONS = 64, MAX_CANDIDATES = 256 };

/* ---- Factors ------------------------------------------------------------------------- */

/* A divisor of n, at most `most`. */
static int64_t random_divisor(const tw_step *step, int64_t n, int64_t most)
{
    int64_t chosen = 1;
    unsigned seen = 0;
    for (int64_t d = 1; d <= n / d; d++) {
        if (n % d)
            continue;
        const int64_t pair[2] = {d, n / d};
        for (unsigned k = 0; k < (pair[0] == pair[1] ? 1 : 2); k++)
            if (pair[k] <= most && tw_step_random(step, ++seen) == 0)
                chosen = pair[k];
    }
    return chosen;
}

static bool decided_factors(const tw_step *step, int64_t extent, int64_t most)
{
    unsigned n = step->op->n_results;
    int64_t product = 1;
    if (tw_op_ints(step->op, "decision", step->drawn, (int)n) != (int)n ||
        tw_op_attr(step->op, "decision")->u.array.n != n)
        return tw_step_refuse(step, "the decision has not %u factors", n);
    for (unsigned i = 0; i < n; i++) {
        if (step->drawn[i] < 1 || step->drawn[i] > extent / product)
            return tw_step_refuse(step, "the decision's product is not %lld", (long long)extent);
        product *= step->drawn[i];
    }
    return (product == extent && (n == 1 || step->drawn[n - 1] <= most)) ||
           tw_step_refuse(step, "the decision's product is not %lld, or its last factor above %lld",
                          (long long)extent, (long long)most);
}

bool tw_do_sample_perfect_tile(const tw_step *step)
{
    int64_t extent, most = tw_op_int(step->op, "max_innermost", 16);
    unsigned n = step->op->n_results;
    if (n < 1 || n > MAX_PARTS || most < 1)
        return tw_step_refuse(step, "there are 1 to %d factors, the innermost at least 1",
                              MAX_PARTS);
    if (!tw_loop_const_extent(step->operands[0], &extent) || extent < 1 || extent > INT32_MAX)
        return tw_step_refuse(step, "loop %%%s has no constant extent to be factored",
                              tw_loop_name(step->operands[0]));
    if (tw_op_attr(step->op, "decision"))
        return decided_factors(step, extent, most);
    for (unsigned i = n; i-- > 1; extent /= step->drawn[i])
        step->drawn[i] = random_divisor(step, extent, i == n - 1 ? most : extent);
    step->drawn[0] = extent;
    tw_op_set_attr(step->op, "decision", tw_attr_ints(step->ctx, step->drawn, n));
    return true;
}

/* ---- Numbers ------------------------------------------------------------------------- */

/* A place among n of these weights (NULL: equal ones). */
static bool draw_weighted(const tw_step *step, tw_attr weights, unsigned n, int64_t *out)
{
    double total = 0, at = 0;
    for (unsigned i = 0; weights && i < n; i++) {
        tw_attr w = weights->u.array.items[i];
        if (w->kind != TW_ATTR_FLOAT || !(w->u.real >= 0))
            return tw_step_refuse(step, "the weights are floating-point numbers from 0 on");
        total += w->u.real;
    }
    *out = tw_step_random(step, n);
    if (!weights || !(total > 0))
        return !weights || tw_step_refuse(step, "no weight is above 0");
    double point = total * tw_step_random(step, 1u << 24) / (1u << 24);
    for (unsigned i = 0; i < n; i++) {
        double w = weights->u.array.items[i]->u.real;
        if (point < at + w && w > 0) {
            *out = i;
            return true;
        }
        at += w;
    }
    return true;
}

bool tw_do_sample_categorical(const tw_step *step)
{
    tw_attr candidates = tw_op_attr(step->op, "candidates"), probs = tw_op_attr(step->op, "probs");
    size_t n = candidates->u.array.n;
    int64_t values[MAX_CANDIDATES], decision = tw_op_int(step->op, "decision", -1);
    if (n < 1 || n > MAX_CANDIDATES ||
        tw_op_ints(step->op, "candidates", values, MAX_CANDIDATES) != (int)n ||
        (probs && probs->u.array.n != n))
        return tw_step_refuse(step,
                              "there are 1 to %d candidates, integers, each with a weight if "
                              "there are weights",
                              MAX_CANDIDATES);
    if (!tw_op_attr(step->op, "decision")) {
        if (!draw_weighted(step, probs, (unsigned)n, &decision))
            return false;
        tw_op_set_attr(step->op, "decision", tw_attr_int(step->ctx, decision));
    }
    if (decision < 0 || decision >= (int64_t)n)
        return tw_step_refuse(step, "the decision %lld is no place among %zu candidates",
                              (long long)decision, n);
    step->drawn[0] = values[decision];
    return true;
}

/* ---- Loops --------------------------------------------------------------------------- */

typedef struct loop_list {
    tw_arena *arena;
    TW_VEC(tw_op *) loops;
} loop_list;

static bool list_loop(tw_op *op, void *data)
{
    loop_list *l = data;
    if (tw_is_loop(op, TW_LOOP_FOR))
        tw_vec_push(l->arena, &l->loops, op);
    return true;
}

static loop_list loops_of(const tw_step *step)
{
    loop_list l = {.arena = tw_context_arena(step->ctx)};
    tw_walk(step->s->kernel, list_loop, &l);
    return l;
}

/* Numbers, in program order, of the loops that compute_at takes: it is tried and undone. */
static unsigned find_locations(const tw_step *step, unsigned *out)
{
    /* What is undone comes back as other operations: the block is found by its name. */
    const char *name = tw_block_name(step->operands[0]);
    unsigned n = 0, total = (unsigned)loops_of(step).loops.len;
    tw_checkpoint *before = tw_checkpoint_take(step->s);
    tw_diag_mark mark = tw_diag_mark_here(step->ctx);
    for (unsigned i = 0; i < total && n < MAX_LOCATIONS; i++) {
        tw_op *pair[2] = {tw_map_get_str(&step->s->blocks, name), loops_of(step).loops.data[i]};
        if (tw_op_is_ancestor(pair[1], pair[0]) ||
            !tw_step_also(step, TW_SCHED_COMPUTE_AT, pair, 2, NULL, 0, NULL, 0))
            continue;
        out[n++] = i;
        tw_checkpoint_restore(before);
        before = tw_checkpoint_take(step->s);
    }
    tw_diag_rewind(step->ctx, mark);
    return n;
}

bool tw_do_sample_compute_location(const tw_step *step)
{
    unsigned places[MAX_LOCATIONS];
    const char *name = tw_block_name(step->operands[0]);
    unsigned n = find_locations(step, places);
    if (!n)
        return tw_step_refuse(step, "block \"%s\" can move into no loop", name);
    int64_t decision = tw_op_int(step->op, "decision", -1);
    if (!tw_op_attr(step->op, "decision")) {
        decision = tw_step_random(step, n);
        tw_op_set_attr(step->op, "decision", tw_attr_int(step->ctx, decision));
    }
    if (decision < 0 || decision >= n)
        return tw_step_refuse(step, "the decision %lld is no place among %u loops",
                              (long long)decision, n);
    step->results[0] = loops_of(step).loops.data[places[decision]];
    return true;
}
