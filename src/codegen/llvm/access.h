/* access.h: loads and stores taken apart, for load.c and store.c. */
#ifndef TW_CODEGEN_LLVM_ACCESS_H
#define TW_CODEGEN_LLVM_ACCESS_H

#include "codegen/llvm/cg.h"

/* One access. How the flattened index moves from lane to lane decides the instructions:
 *   not at all            one scalar, in all lanes
 *   by 1 (or -1)          one vector (reversed)
 *   by 2..4               a few vectors and a shuffle (loads)
 *   otherwise             gather, or one element after another */
typedef struct tw_access {
    const tw_op *op;
    tw_loop_access parts;
    tw_elem elem;
    LLVMTypeRef storage; /* one element in memory */
    unsigned bytes;      /* of one element; 0: two elements to a byte */
    unsigned lanes;      /* of the value moved; 0: scalar */
    LLVMValueRef base;
    unsigned align;  /* of base */
    bool stack;      /* base is a stack slot of this function */
    tw_cg_lin index; /* in elements */
    tw_cg_mask mask;
} tw_access;

/* `moved`: the type of the value. */
tw_access tw_access_of(tw_cg *cg, tw_op *op, tw_type moved);

/* The address of the form's first lane, and the largest power of two up to 64 that it is a multiple
 * of. */
LLVMValueRef tw_access_address(tw_cg *cg, const tw_access *a, const tw_cg_lin *index);
unsigned tw_access_align(const tw_access *a, const tw_cg_lin *index);
/* Pointers <lanes x ptr>. */
LLVMValueRef tw_access_addresses(tw_cg *cg, const tw_access *a);

/* The access of a descending run as one of the ascending run over the same elements. */
tw_access tw_access_reversed(tw_cg *cg, const tw_access *a);
LLVMValueRef tw_access_reverse(tw_cg *cg, LLVMValueRef v);

/* Both parts of the mask as <lanes x i1>. */
LLVMValueRef tw_access_mask(tw_cg *cg, const tw_access *a);

/* A run of which a constant mask admits lanes 0..n-1 alone is better moved as plain vectors of as
 * many lanes in all: n, or 0 when it is no such run. Masked instructions would tie a register tile
 * to memory, and are slow on many processors. The vectors have `*piece` lanes each, the last one
 * maybe fewer. */
unsigned tw_access_prefix(tw_cg *cg, const tw_access *a, unsigned *piece);

#endif
