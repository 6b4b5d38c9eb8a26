/* rules.c: schedule-kernels: tries the rules in order on each kernel.
 *
 * A rule works on a copy of the kernel. When a primitive refuses a step the copy is dropped and the
 * next rule tried; the last resort is the kernel as it is. The chosen rule's name, and what was
 * refused before it, stay as attributes `rule` and `refused` of the kernel. */
#include "schedule/rules/rules.h"

#include "base/arena.h"
#include "dialect/loop/loop.h"
#include "ir/diag_mark.h"
#include "schedule/rules/rule.h"

static const struct {
    const char *name;
    bool (*fits)(const tw_rule *r); /* NULL: always */
    bool (*apply)(tw_rule *r);
} rules[] = {
    {"shared", tw_rule_fits_shared, tw_rule_shared},
    {"blocks", tw_rule_fits_blocks, tw_rule_blocks},
    {"tiles", tw_rule_fits_tiles, tw_rule_tiles},
    {"rows", tw_rule_fits_rows, tw_rule_rows},
    {"nests", NULL, tw_rule_nests},
};
enum { N_RULES = sizeof rules / sizeof rules[0] };

enum { PARALLEL_WORK = 60000 }; /* scalar operations: some 10 microseconds */

/* The schedule of a scheduled copy, or NULL. */
static tw_schedule *try_rule(tw_context *ctx, const tw_rule_options *options, tw_op *kernel, int i)
{
    tw_op *copy = tw_op_clone(tw_cloner_create(ctx), kernel);
    tw_op_insert(copy, kernel->region, kernel);
    tw_rule_drop_empty(ctx, copy);
    tw_rule r = {.ctx = ctx,
                 .target = options->target,
                 .precise = options->precise,
                 .parallel_work = options->parallel_work ? options->parallel_work : PARALLEL_WORK,
                 .kernel = copy};
    r.k = TW_NEW(tw_context_arena(ctx), tw_kernel_blocks);
    r.s = tw_schedule_create(ctx, copy, options->target->name);
    if (r.s && tw_analyze_kernel(ctx, copy, r.k) && tw_rule_inline(&r) &&
        (!rules[i].fits || rules[i].fits(&r)) && rules[i].apply(&r) &&
        tw_rule_all_set(ctx, kernel, copy)) {
        tw_op_set_attr(copy, "rule", tw_attr_string(ctx, rules[i].name));
        return r.s;
    }
    tw_op_erase(copy);
    return NULL;
}

/* Puts the scheduled copy in the kernel's place, or leaves the kernel and puts the trace behind. */
static void take(tw_context *ctx, const tw_rule_options *options, tw_op *kernel, tw_schedule *s)
{
    tw_op *copy = tw_schedule_kernel(s);
    tw_op_set_attr(copy, "refused", tw_op_attr(kernel, "refused"));
    if (options->trace) {
        tw_op_insert(tw_op_clone(tw_cloner_create(ctx), tw_schedule_trace(s)), kernel->region,
                     kernel->next);
        tw_op_set_attr(kernel, "rule", tw_op_attr(copy, "rule"));
    }
    tw_op_erase(options->trace ? copy : kernel);
}

static void schedule_kernel(tw_context *ctx, const tw_rule_options *options, tw_op *kernel)
{
    for (int i = 0; i < N_RULES; i++) {
        tw_diag_mark mark = tw_diag_mark_here(ctx);
        tw_schedule *s = try_rule(ctx, options, kernel, i);
        const tw_diagnostic *refusal = tw_diag_since(ctx, mark);
        if (!s && refusal && !tw_op_attr(kernel, "refused"))
            tw_op_set_attr(kernel, "refused",
                           tw_attr_string(ctx, tw_arena_printf(tw_context_arena(ctx), "%s: %s",
                                                               rules[i].name, refusal->message)));
        tw_diag_rewind(ctx, mark);
        if (!s)
            continue;
        take(ctx, options, kernel, s);
        return;
    }
    tw_op_set_attr(kernel, "rule", tw_attr_string(ctx, "none"));
}

static bool run(tw_pass_run *pass)
{
    tw_target target;
    tw_rule_options made_for = {&target, tw_pass_int(pass, "precise", 0) != 0,
                                tw_pass_int(pass, "parallel-work", 0),
                                tw_pass_int(pass, "trace", 0) != 0};
    const char *name = tw_pass_string(pass, "target", "x86-64-v3");
    if (pass->user)
        made_for = *(const tw_rule_options *)pass->user;
    else if (!tw_target_find(name, &target))
        return tw_error(pass->ctx, NULL, "there is no target '%s'", name);
    for (tw_op *op = pass->root->regions[0].first, *next; op; op = next) {
        next = op->next;
        if (tw_is_loop(op, TW_LOOP_KERNEL)) {
            schedule_kernel(pass->ctx, &made_for, op);
            pass->changes++;
        }
    }
    return true;
}

static const tw_attr_spec pass_options[] = {
    {"target", TW_ATTR_STRING, false, "level or processor to schedule for"},
    {"precise", TW_ATTR_UNIT, false, "sums keep their order"},
    {"parallel-work", TW_ATTR_INT, false, "least scalar operations of a kernel to run parallel"},
    {"trace", TW_ATTR_UNIT, false, "leave kernels alone; put the schedule of each one behind it"},
    {0},
};

const tw_pass tw_pass_schedule_kernels = {
    .name = "schedule-kernels",
    .summary = "give each kernel the default schedule of its pattern and target",
    .anchor = "core.module",
    .optional = true,
    .run = run,
    .options = pass_options,
};
