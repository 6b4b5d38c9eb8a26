/* schedule.h: transforming one kernel step by step, each step checked to keep the meaning.
 *
 * A schedule is its trace: every function below adds one step to it and carries it out, or refuses
 * with a diagnostic that says why and shows the loop nest; then kernel and trace stay as they were.
 * The trace prints (tw_schedule_text), parses (as an operation sched.schedule) and replays.
 *
 * A reference is a value of the trace: a block or a loop. Loops that a step consumes (the split
 * loop, the fused ones, the old loops of a moved block) are gone; using them later is refused. All
 * memory is the context's. */
#ifndef TW_SCHEDULE_SCHEDULE_H
#define TW_SCHEDULE_SCHEDULE_H

#include "tilewright/ir.h"

typedef struct tw_schedule tw_schedule;

/* Registers the sched dialect and the passes apply-schedule and compact-buffers. */
bool tw_schedule_register(tw_context *ctx);

/* An empty schedule of a loop.kernel. `target` (may be NULL) is noted in the trace and the kernel.
 */
tw_schedule *tw_schedule_create(tw_context *ctx, tw_op *kernel, const char *target);
tw_op *tw_schedule_kernel(const tw_schedule *s);

/* The trace so far: a sched.schedule, and its text. */
tw_op *tw_schedule_trace(const tw_schedule *s);
const char *tw_schedule_text(const tw_schedule *s);

/* Carries out the steps of a sched.schedule on a kernel; the schedule can go on from there. NULL
 * with diagnostics at the step that failed; the kernel is then as after the step before. */
tw_schedule *tw_schedule_replay(tw_context *ctx, tw_op *kernel, const tw_op *trace);

/* The operation behind a reference (loop.block or loop.for); NULL when it is gone. */
tw_op *tw_schedule_op(const tw_schedule *s, const tw_value *ref);

/* ---- Finding blocks and loops -------------------------------------------------------- */

/* A block by name; NULL with a diagnostic. */
tw_value *tw_sched_get_block(tw_schedule *s, const char *name);
/* All loops around a block, outermost first, at most `max`; their number, or -1 on an error. */
int tw_sched_get_loops(tw_schedule *s, tw_value *block, tw_value **out, int max);

/* ---- Loops --------------------------------------------------------------------------- */

/* Loop i becomes n loops of these extents, outermost first. One factor may be 0: it becomes what is
 * needed. Iterations beyond the extent are masked by the `where` of the blocks inside. */
bool tw_sched_split(tw_schedule *s, tw_value *loop, const int64_t *factors, unsigned n,
                    tw_value **out);
/* The loop, bound to one spatial variable of the block, runs to `extent`, and the allocation that
 * the block writes grows with it. What the block reads must exist that far. */
bool tw_sched_pad(tw_schedule *s, tw_value *block, tw_value *loop, int64_t extent);
/* n loops, each the only thing in the one before, become one. NULL on an error. */
tw_value *tw_sched_fuse(tw_schedule *s, tw_value *const *loops, unsigned n);
/* Puts n loops of one perfect nest in the order given; they take each other's places, other loops
 * of the nest keep theirs. */
bool tw_sched_reorder(tw_schedule *s, tw_value *const *loops, unsigned n);
/* `when`: NULL, or a MAP over no dimensions: one thread does it all unless the set holds. */
bool tw_sched_parallel(tw_schedule *s, tw_value *loop, tw_attr when);
bool tw_sched_vectorize(tw_schedule *s, tw_value *loop);
bool tw_sched_unroll(tw_schedule *s, tw_value *loop);

/* ---- Places of computation ----------------------------------------------------------- */

/* Moves a producer to where the loop's body first consumes it, with loops over just the region that
 * one iteration needs. All its consumers must be inside the loop. */
bool tw_sched_compute_at(tw_schedule *s, tw_value *block, tw_value *loop);
/* Moves a consumer behind the last producer in the loop's body, with loops over just the region
 * that one iteration has made complete. */
bool tw_sched_reverse_compute_at(tw_schedule *s, tw_value *block, tw_value *loop);
/* Removes an element-wise producer by computing its elements where they are read. In a chain,
 * inline the last one first: then each body is copied once. */
bool tw_sched_compute_inline(tw_schedule *s, tw_value *block);
/* Removes an element-wise consumer by computing its elements where its only producer stores. */
bool tw_sched_reverse_compute_inline(tw_schedule *s, tw_value *block);

/* ---- Buffers ------------------------------------------------------------------------- */

/* Buffers are numbered in the order of the block's first access. A buffer that a block both reads
 * and writes counts as written only. */
tw_value *tw_sched_cache_read(tw_schedule *s, tw_value *block, unsigned read, const char *scope);
tw_value *tw_sched_cache_write(tw_schedule *s, tw_value *block, unsigned write, const char *scope);
/* The buffer must be an allocation of the kernel. */
bool tw_sched_set_scope(tw_schedule *s, tw_value *block, unsigned write, const char *scope);

/* ---- Reductions ---------------------------------------------------------------------- */

/* The init region becomes a block NAME_init in front of `loop`, which is around the block, outside
 * of which no reduction loop of the block lies. Returns the new block. */
tw_value *tw_sched_decompose_reduction(tw_schedule *s, tw_value *block, tw_value *loop);
/* The reduction loop's iterations reduce to partial results of their own, in a buffer with one more
 * axis (`axis`, -1: last), which a new block NAME_rf… reduces. The block given keeps its name and
 * makes the partial results; the new one, NAME_final, is returned. Reassociates. */
tw_value *tw_sched_rfactor(tw_schedule *s, tw_value *block, tw_value *loop, int axis);

/* ---- Hints --------------------------------------------------------------------------- */

/* Sets an entry of the `annotations` of a loop or block. */
bool tw_sched_annotate(tw_schedule *s, tw_value *ref, const char *key, tw_attr value);

extern const tw_pass tw_pass_apply_schedule;
extern const tw_pass tw_pass_compact_buffers;

#endif
