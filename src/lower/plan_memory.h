/* plan_memory.h: what the two parts of plan-memory share. */
#ifndef TW_LOWER_PLAN_MEMORY_H
#define TW_LOWER_PLAN_MEMORY_H

#include "tilewright/ir.h"

enum { TW_PLAN_ALIGNMENT = 64, TW_PLAN_MAX_NEIGHBOURS = 512 };

typedef struct tw_plan_buffer {
    tw_op *alloc;
    size_t number;        /* in the order of the program */
    int64_t size, offset; /* bytes; in plan_slots.c the size at a typical run, and the slot */
    size_t first, last;   /* steps: numbers of operations in the order of the text */
} tw_plan_buffer;

/* For qsort over pointers: by size, equal ones in the order of the program. */
int tw_plan_larger_first(const void *a, const void *b);

/* Places for n buffers of which some have symbolic sizes; the function gets its `arena_size`. False
 * with a diagnostic. */
bool tw_plan_slots(tw_op *func, tw_plan_buffer **buffers, size_t n, size_t steps);

#endif
