/* loop.h: the loop dialect: kernels over buffers. loop.def is its specification. */
#ifndef TW_DIALECT_LOOP_H
#define TW_DIALECT_LOOP_H

#include "tilewright/ir.h"

/* TW_LOOP_KERNEL …: numbers of the operations, equal to their defs' `kind`. */
typedef enum tw_loop_kind {
#define OP(ENUM, ...) TW_LOOP_##ENUM,
#include "dialect/loop/loop.def"
#undef OP
    TW_LOOP_COUNT
} tw_loop_kind;

extern const tw_op_def tw_loop_ops[TW_LOOP_COUNT];
extern const tw_dialect tw_loop_dialect;

static inline tw_loop_kind tw_loop_kind_of(const tw_op *op)
{
    return op->def >= tw_loop_ops && op->def < tw_loop_ops + TW_LOOP_COUNT
               ? (tw_loop_kind)(op->def - tw_loop_ops)
               : TW_LOOP_COUNT;
}
static inline bool tw_is_loop(const tw_op *op, tw_loop_kind kind)
{
    return op->def == &tw_loop_ops[kind];
}

/* ---- Builders ---- */

/* A kernel at the builder's place, with one argument per buffer type; `outputs` counts the written
 * ones at the end. Names may be NULL. */
tw_op *tw_loop_kernel(tw_builder *b, const char *name, const tw_type *buffers,
                      const char *const *names, unsigned n, unsigned outputs);
tw_value *tw_loop_alloc(tw_builder *b, tw_type buffer, const char *name);
/* for (v = lo; v < hi; v++); `operands` are the values that lo and hi (expressions) use. */
tw_op *tw_loop_for(tw_builder *b, tw_expr lo, tw_expr hi, tw_value *const *operands, unsigned n,
                   const char *kind, const char *name);
/* One iteration variable of a block. */
typedef struct tw_loop_iter {
    const char *name;
    bool reduce;
    tw_expr extent;
    tw_expr binding; /* over the block's operands */
} tw_loop_iter;
tw_op *tw_loop_block(tw_builder *b, const char *name, const tw_loop_iter *iters, unsigned n_iters,
                     tw_value *const *operands, unsigned n_operands);
/* Loads and stores; expressions over `operands`. `where` (may be NULL, n_where 0) with `other`. */
tw_value *tw_loop_load(tw_builder *b, tw_value *buffer, const tw_expr *index,
                       tw_value *const *operands, unsigned n_operands, const tw_expr *where,
                       unsigned n_where, tw_value *other);
tw_op *tw_loop_store(tw_builder *b, tw_value *value, tw_value *buffer, const tw_expr *index,
                     tw_value *const *operands, unsigned n_operands, const tw_expr *where,
                     unsigned n_where);
tw_value *tw_loop_const_int(tw_builder *b, tw_type type, int64_t value);
tw_value *tw_loop_const_float(tw_builder *b, tw_type type, double value);
/* An operation whose result has its first operand's type (EW), or `type` when given. */
tw_value *tw_loop_op(tw_builder *b, tw_loop_kind kind, tw_value *const *operands, unsigned n,
                     tw_type type);
tw_value *tw_loop_cmp(tw_builder *b, const char *pred, tw_value *a, tw_value *c);

/* ---- Access ---- */

/* Parts of a load or store, or NULL / 0 for what it has not. */
typedef struct tw_loop_access {
    tw_value *buffer;
    unsigned first_index, n_index; /* operand range of the index operands */
    tw_attr index, where;
    tw_value *value; /* stored */
    tw_value *other; /* of a masked load */
} tw_loop_access;
/* False when op is neither load nor store. */
bool tw_loop_get_access(const tw_op *op, tw_loop_access *out);

/* Whether iteration variable i of a block is one of a reduction. */
bool tw_block_iter_reduces(const tw_op *block, size_t i);

/* Puts the block's body in its place: init under "all reduce variables are 0", both under its mask,
 * iteration variables replaced by what they are bound to. */
void tw_block_inline(tw_context *ctx, tw_op *block);

/* ---- Lists ---- */

/* Operations below (and with) root, outer ones first, for passes that change what they look at. */
typedef struct tw_loop_list {
    tw_op **ops;
    size_t n;
} tw_loop_list;
/* Those that `wanted` accepts (NULL: all). */
tw_loop_list tw_loop_collect(tw_context *ctx, tw_op *root, bool (*wanted)(const tw_op *op));
/* "serial", "parallel", "vectorize", "unroll" or a thread axis; for a loop.for only. */
static inline const char *tw_loop_for_kind(const tw_op *loop)
{
    return tw_op_string(loop, "kind", "serial");
}
/* Whether op is a loop.for of that kind. */
bool tw_is_for_kind(const tw_op *op, const char *kind);
/* Whether the kind is an axis of a GPU's threads: blockIdx.x, .y, .z, threadIdx.x, .y, .z, vthread.
 */
bool tw_loop_kind_is_bound(const char *kind);
static inline bool tw_loop_is_bound(const tw_op *loop)
{
    return tw_loop_kind_is_bound(tw_loop_for_kind(loop));
}

#endif
