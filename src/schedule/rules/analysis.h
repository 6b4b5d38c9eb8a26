/* analysis.h: what the blocks of an unscheduled kernel compute, as far as rules need to know.
 *
 * Rules weigh costs by numbers: where a size is known only at run time, a typical one stands for
 * it. What has to be exact (whether a tile has a rest, whether two axes are equally long) is asked
 * of the expressions. */
#ifndef TW_SCHEDULE_RULES_ANALYSIS_H
#define TW_SCHEDULE_RULES_ANALYSIS_H

#include "dialect/loop/loop.h"

enum { TW_RULE_MAX_ITERS = 32 };

/* One load or store of a block's body. */
typedef struct tw_rule_access {
    tw_op *op;
    tw_value *buffer;
    bool is_store, masked;
    bool indirect;         /* indexed by loaded values */
    uint32_t uses;         /* bit i: iteration variable i occurs in the index */
    const int64_t *stride; /* per iteration variable: elements for its step from 0 to 1 */
} tw_rule_access;

typedef struct tw_rule_block {
    tw_op *op;
    const char *name;
    unsigned n_iters, n_spatial;
    bool reduce[TW_RULE_MAX_ITERS];
    tw_expr size[TW_RULE_MAX_ITERS];   /* extents, over symbols */
    int64_t extent[TW_RULE_MAX_ITERS]; /* the same; of a symbolic size a typical one */
    const tw_rule_access *accesses;
    unsigned n_accesses;
    const tw_rule_access *store; /* the only one; NULL when there are several */
    bool sequential;
    bool has_init;
    bool has_loops; /* loops inside the body */
    tw_expr work;   /* product of sizes times operations of the body */
    unsigned body_ops;
} tw_rule_block;

typedef struct tw_kernel_blocks {
    const tw_rule_block *blocks; /* in program order */
    unsigned n;
} tw_kernel_blocks;

/* The value of an expression over symbols at typical sizes; at least 0. False on overflow. */
bool tw_typical_size(tw_expr e, int64_t *out);

/* False when the kernel is beyond what rules handle (too many variables, too large). */
bool tw_analyze_kernel(tw_context *ctx, tw_op *kernel, tw_kernel_blocks *out);

/* Iteration variables with stride 1 in the store, or -1: the axis of vectors. */
int tw_contiguous_iter(const tw_rule_block *block, const tw_rule_access *access);

/* Whether the access stays inside its buffer, along the axes that variable `iter` indexes, when
 * that runs to `extent`. */
bool tw_access_reaches(tw_context *ctx, const tw_rule_block *block, const tw_rule_access *access,
                       unsigned iter, int64_t extent);

/* Whether the block is element-wise: spatial only, one store of what it has not read. */
bool tw_is_elementwise(const tw_rule_block *block);
/* And stores everywhere. */
bool tw_is_injective(const tw_rule_block *block);

/* The block that writes the buffer, or NULL (an argument). */
const tw_rule_block *tw_producer(const tw_kernel_blocks *k, const tw_value *buffer);
/* Number of blocks that read the buffer; *reader is the last of them. */
unsigned tw_readers(const tw_kernel_blocks *k, const tw_value *buffer,
                    const tw_rule_block **reader);
/* Whether the buffer is an allocation of the kernel. */
bool tw_is_internal(const tw_value *buffer);

#endif
