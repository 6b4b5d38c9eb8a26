/* nest.h: loops around an operation, and rewriting of what uses their variables. */
#ifndef TW_SCHEDULE_NEST_H
#define TW_SCHEDULE_NEST_H

#include "dialect/loop/index_map.h"
#include "dialect/loop/loop.h"
#include "dialect/loop/loop_ranges.h"

enum { TW_MAX_NEST = 48 };

/* The loops around an operation, outermost first. Dimension i of the expressions is the variable of
 * loop i; a loop whose bounds use anything but outer loops' variables is not `known`. */
typedef struct tw_nest {
    unsigned n;
    tw_op *loops[TW_MAX_NEST];
    tw_value *vars[TW_MAX_NEST];
    tw_expr lo[TW_MAX_NEST], hi[TW_MAX_NEST];
    tw_range ranges[TW_MAX_NEST]; /* of the variables */
    bool known[TW_MAX_NEST];
} tw_nest;

/* Fills in the loops around op (a loop itself not included). False when they are too many. */
bool tw_nest_of(tw_context *ctx, const tw_op *op, tw_nest *out);
/* Position of the loop with that variable, or -1. */
int tw_nest_find(const tw_nest *nest, const tw_value *var);

/* hi - lo of a loop.for as an expression over its operands (constant for most). */
tw_expr tw_loop_extent(tw_context *ctx, const tw_op *loop);
/* True when lower bound 0 and a constant upper bound, which it gives. */
bool tw_loop_const_extent(const tw_op *loop, int64_t *extent);
tw_expr tw_loop_lo(const tw_op *loop);
tw_expr tw_loop_hi(const tw_op *loop);
static inline tw_value *tw_loop_var(const tw_op *loop)
{
    return loop->regions[0].args[0];
}
/* Name of the variable, for messages; never NULL. */
const char *tw_loop_name(const tw_op *loop);

/* A list of distinct values that become the dimensions of expressions. */
typedef struct tw_values {
    unsigned n;
    tw_value *v[TW_MAX_EXPR_DIMS];
} tw_values;
/* The dimension that stands for the value, which is added when new; the invalid expression when the
 * list is full. */
tw_expr tw_values_dim(tw_context *ctx, tw_values *values, tw_value *value);

/* Replaces all uses of the variables at once; what was rewritten is simplified. */
void tw_replace_vars(tw_context *ctx, const tw_index_subst *by, unsigned n);
/* Simplifies the maps of op with the bounds of their operands; conditions of a block, load or store
 * that always hold are dropped. */
void tw_simplify_maps(tw_context *ctx, tw_op *op);
/* Adds `condition` >= 0 (over operands) to the block's `where`, unless it is there or always holds.
 */
void tw_block_add_where(tw_context *ctx, tw_op *block, tw_expr condition, tw_value *const *operands,
                        unsigned n_operands);

/* Whether a comes before b in the program; neither is inside the other. */
bool tw_program_before(tw_op *a, tw_op *b);
/* The operation in `region` that is op or holds it; NULL when there is none. */
tw_op *tw_child_in(const tw_region *region, tw_op *op);
/* The innermost region that holds both. */
tw_region *tw_common_region(tw_op *a, tw_op *b);

/* The block around an operation inside a block's body; NULL when there is none. */
tw_op *tw_block_around(const tw_op *op);

/* Calls visit for each block below root, in program order. */
void tw_each_block(tw_op *root, void (*visit)(tw_op *block, void *data), void *data);

/* The loop nest as text, for diagnostics: one line per loop and block. */
const char *tw_nest_text(tw_context *ctx, tw_op *root);

/* Removes a loop whose body does nothing, then its parent if that does nothing, and so on. */
void tw_erase_empty_loops(tw_op *loop);

/* Removes allocations that nothing uses below the kernel. */
bool tw_erase_if_unused(tw_value *buffer);

#endif
