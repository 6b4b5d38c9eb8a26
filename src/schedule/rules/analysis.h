/* analysis.h: what the blocks of an unscheduled kernel compute, as far as rules need to know. */
#ifndef TW_SCHEDULE_RULES_ANALYSIS_H
#define TW_SCHEDULE_RULES_ANALYSIS_H

#include "dialect/loop/loop.h"

enum { TW_RULE_MAX_ITERS = 16, TW_RULE_MAX_ACCESSES = 24, TW_RULE_MAX_BLOCKS = 64 };

/* One load or store of a block's body. */
typedef struct tw_block_access {
    tw_op *op;
    tw_value *buffer;
    bool is_store, masked;
    bool indirect;                     /* indexed by loaded values */
    uint32_t uses;                     /* bit i: iteration variable i occurs in the index */
    int64_t stride[TW_RULE_MAX_ITERS]; /* elements, for a step of variable i from 0 */
} tw_block_access;

typedef struct tw_block_info {
    tw_op *op;
    const char *name;
    unsigned n_iters, n_spatial;
    bool reduce[TW_RULE_MAX_ITERS];
    int64_t extent[TW_RULE_MAX_ITERS];
    tw_block_access accesses[TW_RULE_MAX_ACCESSES];
    unsigned n_accesses;
    const tw_block_access *store; /* the only one; NULL when there are several */
    bool sequential;
    bool has_loops; /* loops inside the body */
    int64_t work;   /* product of extents times operations of the body */
    unsigned body_ops;
} tw_block_info;

typedef struct tw_kernel_blocks {
    tw_block_info blocks[TW_RULE_MAX_BLOCKS]; /* in program order */
    unsigned n;
} tw_kernel_blocks;

/* False when the kernel is beyond what rules handle (too many blocks, symbolic extents). */
bool tw_analyze_kernel(tw_context *ctx, tw_op *kernel, tw_kernel_blocks *out);

/* Iteration variables with stride 1 in the store, or -1: the axis of vectors. */
int tw_contiguous_iter(const tw_block_info *block, const tw_block_access *access);

/* Whether the access stays inside its buffer, along the axes that variable `iter` indexes, when that
 * runs to `extent`. */
bool tw_access_reaches(const tw_block_info *block, const tw_block_access *access, unsigned iter,
                       int64_t extent);

/* Whether the block is element-wise: spatial only, one store, at an index that is its variables. */
bool tw_is_injective(const tw_block_info *block);

/* The block that writes the buffer, or NULL (an argument). */
const tw_block_info *tw_producer(const tw_kernel_blocks *k, const tw_value *buffer);
/* Number of blocks that read the buffer; *reader is the last of them. */
unsigned tw_readers(const tw_kernel_blocks *k, const tw_value *buffer,
                    const tw_block_info **reader);
/* Whether the buffer is an allocation of the kernel. */
bool tw_is_internal(const tw_value *buffer);

#endif
