/* plan_memory.h: what the two parts of plan-memory share. */
#ifndef TW_LOWER_PLAN_MEMORY_H
#define TW_LOWER_PLAN_MEMORY_H

#include "base/map.h"
#include "base/vec.h"
#include "tilewright/ir.h"

enum { TW_PLAN_ALIGNMENT = 64, TW_PLAN_MAX_NEIGHBOURS = 512 };

typedef struct tw_plan_buffer {
    tw_op *alloc;
    struct tw_plan_buffer *in; /* lies where that one does, or NULL */
    size_t number;             /* in the order of the program */
    int64_t size, offset;      /* bytes; in plan_slots.c the size at a typical run, and the slot */
    double weight;             /* those of more are placed earlier */
    size_t first, last;        /* steps: numbers of operations in the order of the text */
} tw_plan_buffer;

/* Which buffers live when. */
typedef struct tw_plan_lives {
    tw_arena *arena;
    tw_map by_value; /* result of an alloc, or a view of it -> tw_plan_buffer */
    TW_VEC(tw_plan_buffer *) buffers;
    size_t steps;
} tw_plan_lives;

/* Puts results of element-wise kernels where an operand lies that is not needed any more: `in`, and
 * that one lives as long as both. */
void tw_plan_share_in_place(tw_plan_lives *lives, tw_op *func);

/* The largest sum of sizes that live at once in the function; -1 when sizes are not known. */
int64_t tw_plan_bound(tw_op *func);

/* Sorts buffers into one of the orders in which they are worth placing: 0: by size, 1: by size and
 * time, 2: by the first step, others: by a size that chance makes up to twice as large, the same
 * for each number; equal ones in the order of the program. */
enum { TW_PLAN_ORDERS = 3 };
void tw_plan_sort(tw_plan_buffer **buffers, size_t n, unsigned order);

/* Places for n buffers of which some have symbolic sizes; the function gets its `arena_size`. False
 * with a diagnostic. */
bool tw_plan_slots(tw_op *func, tw_plan_buffer **buffers, size_t n, size_t steps);

#endif
