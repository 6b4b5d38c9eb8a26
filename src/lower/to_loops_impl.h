/* to_loops_impl.h: the state of lower-to-loops and what its files offer each other: to_loops.c
 * (functions and their operations), to_loops_buffers.c (where values lie), to_loops_kernels.c
 * (kernels and their calls), to_loops_places.c (values within others), to_loops_control.c (branches
 * and loops), to_loops_symbols.c. */
#ifndef TW_LOWER_TO_LOOPS_IMPL_H
#define TW_LOWER_TO_LOOPS_IMPL_H

#include "dialect/core/core.h"
#include "lower/lowering.h"

typedef struct tw_to_loops {
    tw_context *ctx;
    tw_arena *arena;
    tw_builder kernels; /* in front of the function */
    tw_builder body;    /* where it goes on: in the new function or a region of it */
    tw_builder outer;   /* in a region: before the operation of the function that it is in */
    unsigned depth;     /* of regions */
    tw_map buffers;     /* graph value -> buffer */
    tw_map planned;     /* graph value -> (part of) an output argument that it is computed into */
    tw_map constants;   /* contents -> buffer */
    tw_map known;       /* hash -> kernel_entry */
    tw_map names;       /* symbols in use -> how often */
    tw_map provided;    /* outputs whose size is bound that have memory by now */
    tw_map binds;       /* symbol -> graph.bind that defines it */
    tw_map places;      /* graph value -> where it lies in another, see to_loops_places.c */
    bool in_place;      /* values may lie in others */
    const tw_op *module;
} tw_to_loops;

/* ---- Buffers ---- */

tw_type tw_to_loops_buffer_of(tw_context *ctx, tw_type tensor);
/* One buffer for each content: small constants, as the tables of kernels, are compared by value. */
tw_value *tw_to_loops_constant_buffer(tw_to_loops *t, tw_attr value, const char *name);
/* The buffer's memory, `offset` elements behind its beginning, as that type of buffer; or as that
 * tensor's. */
tw_value *tw_to_loops_view_at(tw_to_loops *t, tw_value *buffer, tw_type type, int64_t offset);
/* The same, always as an operation of its own. */
tw_value *tw_to_loops_new_view(tw_to_loops *t, tw_value *buffer, tw_type type, int64_t offset);
tw_value *tw_to_loops_view(tw_to_loops *t, tw_value *buffer, tw_type tensor, int64_t offset);
/* The memory that a buffer is a view of. */
tw_value *tw_to_loops_memory_of(tw_value *buffer);
/* Where a value lies; allocates what has no place yet. */
tw_value *tw_to_loops_buffer_for(tw_to_loops *t, tw_value *value);
/* Where a result is to be computed: an output argument or fresh memory. */
tw_value *tw_to_loops_result_buffer(tw_to_loops *t, tw_value *result);
/* Whether the buffer is an output of a size that the model computes. Such an output has memory from
 * its first use on, which `provide` sees to. */
bool tw_to_loops_is_bound(const tw_to_loops *t, const tw_value *output);
void tw_to_loops_provide(tw_to_loops *t, tw_value *output);
/* Whether it is memory for values of several sizes; that memory, made anew for a type. */
bool tw_to_loops_is_slot(const tw_value *buffer);
tw_value *tw_to_loops_renew(tw_to_loops *t, tw_value *slot, tw_type type);

/* ---- Values ---- */

/* The value whose memory this one is a view of all of. */
tw_value *tw_to_loops_base_of(tw_value *value);
bool tw_to_loops_is_routine(const tw_to_loops *t, const tw_op *op);
/* Whether the size is known before op, which comes behind the binds of all its symbols. */
bool tw_to_loops_bound_before(const tw_to_loops *t, tw_expr size, tw_op *op);

/* Finds out which values of a region lie in others; the outputs have been planned. */
void tw_to_loops_place_values(tw_to_loops *t, tw_region *region);
/* The buffer of a value that lies in another, or NULL. */
tw_value *tw_to_loops_placed_buffer(tw_to_loops *t, const tw_value *value);
/* Whether a buffer is a part of another that is not contiguous. */
bool tw_to_loops_is_part(const tw_value *buffer);
/* Whether op is a slice that needs no code. */
bool tw_to_loops_reads_in_place(tw_to_loops *t, tw_op *op);
/* Copies what has no place to where it belongs in a concatenation; false when nothing of it has
 * one. */
bool tw_to_loops_complete_concat(tw_to_loops *t, tw_op *op);

/* ---- Kernels ---- */

/* The name, or that with a number behind it when it is taken. */
const char *tw_to_loops_unique_symbol(tw_to_loops *t, const char *name);
/* Makes the kernel of a graph operation or group and calls it. False with a diagnostic. */
bool tw_to_loops_call_kernel(tw_to_loops *t, tw_op *op);
/* A kernel without a body over arguments of these types, the last of which it writes, and the state
 * to build its blocks with; then a call of it. */
tw_op *tw_to_loops_plain_kernel(tw_to_loops *t, const char *name, const tw_type *types,
                                const char *const *names, unsigned n, tw_lowering *l);
void tw_to_loops_call_plain(tw_to_loops *t, tw_op *kernel, const char *name, tw_value *const *args,
                            unsigned n);
/* Copies by a kernel; both are of one type. The other copies elements of that shape, of which each
 * buffer may have more. */
void tw_to_loops_copy_buffer(tw_to_loops *t, tw_value *from, tw_value *to);
void tw_to_loops_copy_shape(tw_to_loops *t, tw_value *from, tw_value *to, tw_type shape);
/* Whether the type certainly has no elements. */
bool tw_to_loops_is_empty(tw_type type);

/* ---- Operations; false with a diagnostic ---- */

bool tw_to_loops_lower_if(tw_to_loops *t, tw_op *op);
bool tw_to_loops_lower_loop(tw_to_loops *t, tw_op *op);
/* All of a region but what ends it. */
bool tw_to_loops_lower_ops(tw_to_loops *t, tw_region *region);
/* What a region gives is computed straight into the output buffers where it can be; copies what is
 * no result of a kernel, or is one more output of the same. */
void tw_to_loops_plan_outputs(tw_to_loops *t, const tw_op *ret, tw_value *const *outputs);
void tw_to_loops_copy_output(tw_to_loops *t, tw_value *value, tw_value *output);

/* The module's `symbols`: those of the inputs of @main, then others that it lists. */
void tw_to_loops_list_symbols(tw_context *ctx, tw_op *module);

#endif
