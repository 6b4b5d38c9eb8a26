/* sched_dialect.h: traces of schedules as IR: the sched dialect. sched.def is its specification. */
#ifndef TW_SCHEDULE_SCHED_DIALECT_H
#define TW_SCHEDULE_SCHED_DIALECT_H

#include "tilewright/ir.h"

/* TW_SCHED_GET_BLOCK …: the steps; TW_SCHED_SCHEDULE holds them. */
typedef enum tw_sched_kind {
#define STEP(ENUM, ...) TW_SCHED_##ENUM,
#include "schedule/sched.def"
#undef STEP
    TW_SCHED_SCHEDULE,
    TW_SCHED_COUNT
} tw_sched_kind;

extern const tw_op_def tw_sched_ops[TW_SCHED_COUNT];
extern const tw_dialect tw_sched_dialect;

/* Number of the newest form of traces; older ones are read, newer ones refused. */
enum { TW_SCHED_VERSION = 2 };

static inline bool tw_is_sched(const tw_op *op, tw_sched_kind kind)
{
    return op->def == &tw_sched_ops[kind];
}

/* !sched.block, !sched.loop, !sched.size. */
tw_type tw_sched_block_type(tw_context *ctx);
tw_type tw_sched_loop_type(tw_context *ctx);
tw_type tw_sched_size_type(tw_context *ctx);
/* The one that a letter of sched.def stands for. */
tw_type tw_sched_type_of(tw_context *ctx, char letter);

/* Spelling of the step's operands and results, as in sched.def. */
const char *tw_sched_operand_spec(tw_sched_kind kind);
const char *tw_sched_result_spec(tw_sched_kind kind);
/* The version of traces that it came with. */
int tw_sched_since(tw_sched_kind kind);

#endif
