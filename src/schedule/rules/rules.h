/* rules.h: default schedules: which trace a kernel gets without any tuning.
 *
 * A rule looks at what a kernel's blocks compute (analysis.h) and at the target, and performs a
 * trace of schedule primitives. Rules are tried in order; the first one that fits makes the
 * schedule:
 *
 *   shared        blocks that stand together in loops already (attention): each one's own loops, by
 *                 the means of the next two
 *   contraction   a sum of products (matrix product, convolution of any layout, depthwise) or a
 *                 window reduction, with an element-wise epilogue: register tiles
 *   rows          normalisations and softmax: all blocks of one row together, lanes along the row
 *   nests         anything else: each block's own nest, outer loops parallel, one loop in vectors
 */
#ifndef TW_SCHEDULE_RULES_RULES_H
#define TW_SCHEDULE_RULES_RULES_H

#include "base/target.h"
#include "tilewright/ir.h"

/* What schedules are made for; the pass finds it in the run's user data. */
typedef struct tw_rule_options {
    const tw_target *target;
    bool precise;          /* sums are not to be reordered */
    int64_t parallel_work; /* least scalar operations of a kernel to run parallel; 0: as it pays */
    bool trace;            /* leave kernels alone, put a sched.schedule behind each */
} tw_rule_options;

/* Schedules each kernel in place. Without user data the pass's own options `target` ("x86-64-v3"
 * when missing), `precise`, `parallel-work` and `trace` count. The rule's name is left in the
 * kernel's attribute `rule`. */
extern const tw_pass tw_pass_schedule_kernels;

#endif
