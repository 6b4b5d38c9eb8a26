/* schedule.h: transforming one kernel step by step, each step checked to keep the meaning.
 *
 *     tw_op *kernel = …;                                 a loop.kernel, for instance of tw_parse
 *     tw_schedule *s = tw_schedule_create(ctx, kernel, "x86-64-v3");
 *     tw_value *block = tw_sched_get_block(s, "matmul"), *loops[3], *out[2];
 *     if (!block || tw_sched_get_loops(s, block, loops, 3) != 3 ||
 *         !tw_sched_split(s, loops[1], (int64_t[]){0, 8}, 2, out) ||
 *         !tw_sched_vectorize(s, out[1]))
 *         return fail(tw_diagnostics(ctx));
 *     puts(tw_schedule_text(s));
 *
 * A schedule is its trace: every function below adds one step to it and carries it out, or refuses
 * with a diagnostic that says why and shows the loop nest; then kernel and trace stay as they were.
 * The trace prints (tw_schedule_text), parses (as an operation sched.schedule) and replays.
 * docs/schedules.md tells what each step does and what is checked.
 *
 * A reference is a value of the trace: a block, a loop or a sampled size. Loops that a step
 * consumes (the split loop, the fused ones, the old loops of a moved block) are gone; using them
 * later is refused. All memory is the context's. */
#ifndef TILEWRIGHT_SCHEDULE_H
#define TILEWRIGHT_SCHEDULE_H

#include "tilewright/ir.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct tw_schedule tw_schedule;

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

/* The same with options. */
typedef struct tw_replay_options {
    uint64_t seed; /* of samples that are drawn */
    bool redraw;   /* also of those that the trace has decided */
    /* May be NULL. Called after each step. */
    void (*after_step)(void *data, const tw_schedule *s, const tw_op *step);
    void *data; /* of after_step */
} tw_replay_options;
tw_schedule *tw_schedule_replay_with(tw_context *ctx, tw_op *kernel, const tw_op *trace,
                                     const tw_replay_options *options);
/* Starts the random numbers of samples. */
void tw_schedule_seed(tw_schedule *s, uint64_t seed);

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

/* Splits each of n perfectly nested loops by its factor and puts the inner loops inside: out has
 * the n outer ones, then the n inner ones. */
bool tw_sched_tile(tw_schedule *s, tw_value *const *loops, const int64_t *factors, unsigned n,
                   tw_value **out);
/* Iterations run on a GPU's "blockIdx.x" (.y, .z), "threadIdx.x" (.y, .z), or on virtual threads
 * ("vthread"), whose copies of the body a thread runs in turn. */
bool tw_sched_bind(tw_schedule *s, tw_value *loop, const char *thread);
/* "auto_unroll_max_step" (INT): loops in it whose copies have no more operations are unrolled.
 * "unroll_explicit" (BOOL), "prefetch" (INT: iterations ahead) and "non_temporal" (BOOL) are noted
 * on the loop for those who make code of it; tilewright's own code generation does not read them.
 */
bool tw_sched_pragma(tw_schedule *s, tw_value *loop, const char *key, tw_attr value);
/* The iterations in which masks of the blocks inside hold for sure get a loop of their own, without
 * masks; out has the loops that there are of: before, without masks, after. Their number, or -1. */
int tw_sched_loop_partition(tw_schedule *s, tw_value *loop, tw_value *out[3]);
/* Loop i becomes n loops of sampled extents. */
bool tw_sched_split_sampled(tw_schedule *s, tw_value *loop, tw_value *const *sizes, unsigned n,
                            tw_value **out);

/* ---- Samples ------------------------------------------------------------------------- */

/* n sizes whose product is the loop's extent, the last one at most max_innermost. */
bool tw_sched_sample_perfect_tile(tw_schedule *s, tw_value *loop, unsigned n, int64_t max_innermost,
                                  tw_value **out);
/* One of the candidates; `weights` may be NULL. */
tw_value *tw_sched_sample_categorical(tw_schedule *s, const int64_t *candidates,
                                      const double *weights, unsigned n);
/* One of the loops that compute_at would take for the block. */
tw_value *tw_sched_sample_compute_location(tw_schedule *s, tw_value *block);

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

/* The stride of the axis, in elements, becomes `offset` more than a multiple of `factor`: rows of
 * shared memory then start in different banks. */
bool tw_sched_storage_align(tw_schedule *s, tw_value *block, unsigned write, unsigned axis,
                            int64_t factor, int64_t offset);
/* Element [i, j, …] of the buffer, an allocation of the kernel, lies at map(i, j, …), a MAP over
 * its axes that sends different elements to different places. */
bool tw_sched_transform_layout(tw_schedule *s, tw_value *block, unsigned write, tw_attr map);
/* The block's iteration variables become functions of n new ones with these extents: `map`, a MAP
 * over the new ones with an expression for each old one, that reaches each instance once. The block
 * gets perfectly nested loops over them in the place of its own. */
bool tw_sched_transform_block_layout(tw_schedule *s, tw_value *block, tw_attr map,
                                     const int64_t *extents, unsigned n, tw_value **out);

/* The extent of variable i becomes a multiple of padding[i]: the block works on copies of what it
 * reads, with zeros beyond, and its result is copied back. The block stands in loops of its own; to
 * pad its reduction it must be a sum of products. */
bool tw_sched_pad_einsum(tw_schedule *s, tw_value *block, const int64_t *padding, unsigned n);
/* Part i of the loop's body (a loop or block in it) runs stages[i] iterations late, so that parts
 * of different iterations run together, in the places that `order` (NULL: as it is) gives. Buffers
 * of the iteration get as many copies as are in use. */
bool tw_sched_software_pipeline(tw_schedule *s, tw_value *loop, const int64_t *stages,
                                const int64_t *order, unsigned n);
/* The part with the block runs for the next iteration: it fills one copy of its buffer while the
 * rest of the body uses the other. */
bool tw_sched_double_buffer(tw_schedule *s, tw_value *block, tw_value *loop);

/* The loop's nest becomes the body of one block, which moves as one piece; NULL on an error. */
tw_value *tw_sched_blockize(tw_schedule *s, tw_value *loop);
/* The loop's nest, which computes what the kernel `description` computes on parts of its buffers,
 * is replaced by what the kernel `implementation` does there. Both have the same arguments, the
 * last ones (`outputs`) read and written. They stand in the kernel's module or in the library. Runs
 * both on made-up numbers, too, and refuses an implementation that computes something else. */
tw_value *tw_sched_tensorize(tw_schedule *s, tw_value *loop, const char *description,
                             const char *implementation);
/* A module with intrinsics for tensorize; a replayed trace brings the one that it stands in. */
void tw_schedule_set_library(tw_schedule *s, const tw_op *module);

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

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
