/* verify_impl.h: the parts of the verifier; private to src/ir/verify*.c. */
#ifndef TW_IR_VERIFY_IMPL_H
#define TW_IR_VERIFY_IMPL_H

#include "base/map.h"
#include "base/vec.h"
#include "ir/context_impl.h"

/* Checks the operation against its table row; reports all that is off unless ctx is NULL. */
bool tw_verify_table(tw_context *ctx, const tw_op *op);

/* Types, attributes and expressions are checked once each, whoever holds them. */
typedef struct tw_piece_checker {
    tw_context *ctx;
    tw_arena *arena;
    tw_map seen;                  /* types and attributes */
    tw_map exprs;                 /* expression -> what is known of it */
    TW_VEC(const void *) pending; /* types at even entries, attributes at odd ones; NULL: none */
    const tw_op *op;              /* that errors are reported at */
} tw_piece_checker;

/* Check a type or attribute (not NULL) with all in it; errors go to the context. */
void tw_check_type(tw_piece_checker *c, const tw_op *op, tw_type type);
void tw_check_attr(tw_piece_checker *c, const tw_op *op, tw_attr attr);

#endif
