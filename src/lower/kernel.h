/* kernel.h: a graph operation or group becomes a kernel. */
#ifndef TW_LOWER_KERNEL_H
#define TW_LOWER_KERNEL_H

#include "tilewright/ir.h"

/* What a caller passes for an argument of a kernel. */
typedef struct tw_kernel_arg {
    enum { TW_ARG_OPERAND, TW_ARG_CONSTANT, TW_ARG_RESULT } kind;
    unsigned index;   /* OPERAND, RESULT: of the graph operation */
    tw_attr constant; /* CONSTANT: DENSE */
} tw_kernel_arg;

typedef struct tw_kernel_call {
    tw_op *kernel; /* with its name not yet set; NULL when there is nothing to compute */
    tw_kernel_arg *args;
    unsigned n;
} tw_kernel_call;

/* Lowers one graph operation or a graph.group of some to a kernel at the builder's place. Operands
 * made by graph.constant with one element become numbers in the code; operands that no code reads
 * are not arguments; results without elements neither. False with a diagnostic. */
bool tw_lower_kernel(tw_builder *at, tw_op *op, tw_kernel_call *out);

/* Whether all operands and results of op are tensors of numbers, not too large; otherwise a
 * diagnostic. */
bool tw_lower_check_types(tw_context *ctx, const tw_op *op);

/* Structure without names: equal kernels have equal hashes. Constants inside compare by value. */
uint64_t tw_kernel_hash(const tw_op *kernel);
bool tw_kernel_equal(const tw_op *a, const tw_op *b);

/* Sets `in_place`: which arguments the result may lie in; see in_place.c. */
void tw_kernel_find_in_place(tw_op *kernel);

/* Sets ops, flops and bytes. */
void tw_kernel_describe(tw_op *kernel, const tw_op *graph_op);

#endif
