/* lower_passes.h: passes over a module of kernels and the function that calls them. */
#ifndef TW_LOWER_PASSES_H
#define TW_LOWER_PASSES_H

#include "tilewright/ir.h"

/* Axes of unscheduled kernels that always go together become one. */
extern const tw_pass tw_pass_collapse_axes;

/* Buffers that a kernel allocates outside its parallel loops become arguments; each call gets an
 * allocation of its own, so that the memory plan covers them. */
extern const tw_pass tw_pass_hoist_workspace;

/* Calls in an order in which less memory lives at once. */
extern const tw_pass tw_pass_order_calls;

/* Places for the allocations of a function in one arena: `offset` on each, `arena_size` and
 * `arena_bound` (bytes) on the function. */
extern const tw_pass tw_pass_plan_memory;

/* Places for the constants of a function: `const_offset` on each loop.constant_buffer and
 * `constants_size` (bytes) on the function; equal constants share one. */
extern const tw_pass tw_pass_place_constants;

#endif
