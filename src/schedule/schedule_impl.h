/* schedule_impl.h: what the primitives share; private to src/schedule. */
#ifndef TW_SCHEDULE_SCHEDULE_IMPL_H
#define TW_SCHEDULE_SCHEDULE_IMPL_H

#include "base/arena.h"
#include "base/map.h"
#include "schedule/access.h"
#include "schedule/sched_dialect.h"
#include "schedule/schedule.h"

struct tw_schedule {
    tw_context *ctx;
    tw_op *kernel;
    tw_op *trace;
    tw_map refs;   /* value of the trace -> operation of the kernel */
    tw_map blocks; /* name -> block, also erased ones */
    tw_map sizes;  /* value of the trace -> int64_t, of samples */
    uint64_t random;
    const tw_op *library; /* a module with intrinsics, beside the kernel's own; or NULL */
};

/* A step being carried out. */
typedef struct tw_step {
    tw_schedule *s;
    tw_context *ctx;
    tw_op *op;        /* of the trace */
    tw_op **operands; /* of the kernel; NULL for sizes */
    int64_t *sizes;   /* of operands that are sizes */
    tw_op **results;  /* to be filled in */
    int64_t *drawn;   /* the same of results that are sizes */
} tw_step;

/* Refuses the step: the message, then the loop nest as a note. Returns false. */
bool tw_step_refuse(const tw_step *step, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The blocks below an operation (itself included), analysed, in program order. */
typedef struct tw_block_list {
    tw_block_info **blocks;
    unsigned n;
} tw_block_list;
/* Analyses a block; false with a diagnostic. */
bool tw_step_block(const tw_step *step, tw_op *block, tw_block_info *out);
/* The outermost of perfectly nested serial loops around the block, one for each of its variables
 * and of its extent, a number; NULL when refused. */
tw_op *tw_step_own_loops(const tw_step *step, const tw_block_info *block);
/* Whether the block runs all of its instances; else refuses. */
bool tw_step_whole(const tw_step *step, const tw_block_info *block);
/* The buffer that the step's "write" counts among those that the block writes; else refuses. */
tw_value *tw_step_written(const tw_step *step, const tw_block_info *block);
/* The same of a buffer that the kernel allocates and that nothing views; else refuses. */
tw_value *tw_step_own_written(const tw_step *step, const tw_block_info *block);
/* Analyses all blocks below root; false with a diagnostic. */
bool tw_step_blocks(const tw_step *step, tw_op *root, tw_block_list *out);
/* Whether all that happens in the loop happens in blocks; else refuses. */
bool tw_step_only_blocks(const tw_step *step, tw_op *loop);
/* Whether the loop is serial with step 1; else refuses. */
bool tw_step_serial(const tw_step *step, tw_op *loop);
/* Whether a block may move into the loop's body, whose nest it gives; else refuses. */
bool tw_step_target_loop(const tw_step *step, tw_op *block, tw_op *loop, tw_nest *nest);
/* Whether each iteration of the loop has the buffer to itself: it is allocated inside. */
bool tw_is_private(const tw_value *buffer, const tw_op *loop);
/* Whether loop b is all that loop a's body holds. */
bool tw_is_perfect(const tw_op *a, const tw_op *b);
/* Notes a new block; its name is made unique in the kernel. */
void tw_step_name_block(const tw_step *step, tw_op *block, const char *name);
const char *tw_block_name(const tw_op *block);
/* A block made from another one, of as many instances: it runs a part of them if that one does. */
void tw_block_inherit(tw_op *block, const tw_op *from);
/* References to a block, and its name, mean another one from now on. */
void tw_step_replaced(const tw_step *step, const tw_op *from, tw_op *to);

/* A random number below n, from the schedule's seed. */
unsigned tw_step_random(const tw_step *step, unsigned n);
/* Carries out another primitive as part of the step. */
bool tw_step_also(const tw_step *step, tw_sched_kind kind, tw_op *const *operands, unsigned n,
                  const tw_named_attr *attrs, unsigned n_attrs, tw_op **results,
                  unsigned n_results);

/* How many loops loop_partition makes of one. */
unsigned tw_partition_parts(tw_context *ctx, tw_op *loop);

/* The kernel as it is, to go back to when a later part of a step is refused (checkpoint.c). */
typedef struct tw_checkpoint tw_checkpoint;
tw_checkpoint *tw_checkpoint_take(tw_schedule *s);
/* Goes back; references mean what they meant. Once only. */
void tw_checkpoint_restore(tw_checkpoint *c);

/* The primitives; each checks everything before it changes anything. */
bool tw_do_split(const tw_step *step);
bool tw_do_pad(const tw_step *step);
bool tw_do_fuse(const tw_step *step);
bool tw_do_reorder(const tw_step *step);
bool tw_do_parallel(const tw_step *step);
bool tw_do_vectorize(const tw_step *step);
bool tw_do_unroll(const tw_step *step);
bool tw_do_compute_at(const tw_step *step);
bool tw_do_reverse_compute_at(const tw_step *step);
bool tw_do_compute_inline(const tw_step *step);
bool tw_do_reverse_compute_inline(const tw_step *step);
bool tw_do_cache_read(const tw_step *step);
bool tw_do_cache_write(const tw_step *step);
bool tw_do_set_scope(const tw_step *step);
bool tw_do_decompose_reduction(const tw_step *step);
bool tw_do_rfactor(const tw_step *step);
bool tw_do_annotate(const tw_step *step);
bool tw_do_tile(const tw_step *step);
bool tw_do_bind(const tw_step *step);
bool tw_do_pragma(const tw_step *step);
bool tw_do_loop_partition(const tw_step *step);
bool tw_do_storage_align(const tw_step *step);
bool tw_do_transform_layout(const tw_step *step);
bool tw_do_transform_block_layout(const tw_step *step);
bool tw_do_software_pipeline(const tw_step *step);
bool tw_do_double_buffer(const tw_step *step);
bool tw_do_pad_einsum(const tw_step *step);
bool tw_do_blockize(const tw_step *step);
bool tw_do_tensorize(const tw_step *step);
bool tw_do_sample_perfect_tile(const tw_step *step);
bool tw_do_sample_categorical(const tw_step *step);
bool tw_do_sample_compute_location(const tw_step *step);

#endif
