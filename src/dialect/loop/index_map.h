/* index_map.h: editing the index expressions of loop operations together with their operands. */
#ifndef TW_DIALECT_LOOP_INDEX_MAP_H
#define TW_DIALECT_LOOP_INDEX_MAP_H

#include "tilewright/ir.h"

/* The operands that an operation's maps speak of: [first, first + n). False for operations without
 * index maps (all but load, store, for, block, if, index). */
bool tw_index_operands(const tw_op *op, unsigned *first, unsigned *n);

/* The names of the map attributes over these operands, NULL-terminated. */
const char *const *tw_index_map_names(const tw_op *op);

/* What an index value is to be replaced by: an expression over `operands`. */
typedef struct tw_index_subst {
    const tw_value *from;
    tw_expr to;
    tw_value *const *operands;
    unsigned n_operands;
} tw_index_subst;

/* Rewrites the maps of op with the substitutions; operands that no map uses any more are dropped,
 * equal ones joined. Operands outside the maps are left alone. */
void tw_index_substitute(tw_context *ctx, tw_op *op, const tw_index_subst *substs, size_t n);

/* Joins equal index operands and drops unused ones. */
void tw_index_compact(tw_context *ctx, tw_op *op);

/* A value equal to the expression over the operands: the operand itself where the expression is
 * just one, else a loop.index before the builder's place. */
tw_value *tw_index_materialize(tw_builder *b, tw_expr e, tw_value *const *operands, unsigned n);

/* Replaces every use of a region argument or result of type index by an expression: in maps by
 * substitution, elsewhere by a materialised value in front of the user. */
void tw_index_replace_value(tw_context *ctx, tw_value *from, tw_expr to, tw_value *const *operands,
                            unsigned n);

/* Adds conditions (a MAP over `operands`) to the `where` of a load or store. `other` is what a load
 * that had no `where` gives where they do not hold. */
void tw_access_add_where(tw_context *ctx, tw_op *access, tw_attr conditions,
                         tw_value *const *operands, tw_value *other);

#endif
