/* prim_tile.c: tile: perfectly nested loops are split and their inner parts go inside.
 *
 *     for %i = 0 to 20 { for %j = 0 to 30 { … } }
 * tiled by [4, 8]:
 *     for %io = 0 to 5 { for %jo = 0 to 4 { for %ii = 0 to 4 { for %ji = 0 to 8 { … } } } }
 *
 * It is split and reorder in one step, refused or carried out as a whole. */
#include "schedule/schedule_impl.h"

enum { MAX_TILED = 8 };

static bool split_and_reorder(const tw_step *step, const int64_t *factors, unsigned n)
{
    tw_op *parts[2 * MAX_TILED];
    for (unsigned i = 0; i < n; i++) {
        int64_t pair[2] = {0, factors[i]};
        tw_named_attr attr = {"factors", tw_attr_ints(step->ctx, pair, 2)};
        tw_op *both[2];
        if (!tw_step_also(step, TW_SCHED_SPLIT, &step->operands[i], 1, &attr, 1, both, 2))
            return false;
        parts[i] = both[0];
        parts[n + i] = both[1];
    }
    for (unsigned i = 0; i < 2 * n; i++)
        step->results[i] = parts[i];
    return n == 1 || tw_step_also(step, TW_SCHED_REORDER, parts, 2 * n, NULL, 0, NULL, 0);
}

bool tw_do_tile(const tw_step *step)
{
    int64_t factors[MAX_TILED];
    unsigned n = step->op->n_operands;
    if (n > MAX_TILED || step->op->n_results != 2 * n ||
        tw_op_attr(step->op, "factors")->u.array.n != n ||
        tw_op_ints(step->op, "factors", factors, MAX_TILED) != (int)n)
        return tw_step_refuse(step,
                              "there must be a factor and two results for each of 1 to %d "
                              "loops",
                              MAX_TILED);
    for (unsigned i = 0; i < n; i++) {
        if (factors[i] < 1)
            return tw_step_refuse(step, "factors must be above 0");
        for (unsigned k = 0; k < i; k++)
            if (step->operands[k] == step->operands[i])
                return tw_step_refuse(step, "loop %%%s is given twice",
                                      tw_loop_name(step->operands[i]));
    }
    tw_checkpoint *before = tw_checkpoint_take(step->s);
    if (split_and_reorder(step, factors, n))
        return true;
    tw_checkpoint_restore(before);
    return false;
}
