/* reshape_chain.c: chains of reshapes and transposes that as a whole keep the elements in order.
 *
 *   %0 = graph.transpose %x {perm = [0, 3, 1, 2]} : tensor<1x768x14x14xf32>   // x: 1x14x14x768
 *   %1 = graph.reshape %0 : tensor<1x768x196xf32>
 *   %2 = graph.transpose %1 {perm = [0, 2, 1]} : tensor<1x196x768xf32>
 *     =>
 *   %2 = graph.reshape %x : tensor<1x196x768xf32>
 *
 * The sizes of x are cut into atoms, as finely as the reshapes demand; each axis of a value in the
 * chain is a run of atoms. When the atoms arrive at the end in the order they had in x, those of
 * size 1 aside, nothing was moved. */
#include "transform/canonicalize.h"

#include "dialect/graph/graph.h"

#include <string.h>

enum { MAX_CHAIN = 8, MAX_ATOMS = 64 };

typedef struct atom {
    tw_expr size;
    unsigned origin; /* position in x's order */
} atom;

/* A value of the chain: its axes' atoms, one axis after the other. */
typedef struct atom_list {
    tw_context *ctx;
    atom atoms[MAX_ATOMS];
    unsigned n;
    unsigned begin[TW_MAX_RANK + 1]; /* of each axis in atoms; [rank] is n */
    unsigned rank;
} atom_list;

/* Splits atom i into an outer and an inner one; false when there is no room. */
static bool split_atom(atom_list *l, unsigned i, tw_expr outer, tw_expr inner)
{
    if (l->n == MAX_ATOMS)
        return false;
    unsigned origin = l->atoms[i].origin;
    for (unsigned k = 0; k < l->n; k++) /* make room for one more in x's order */
        l->atoms[k].origin += l->atoms[k].origin > origin;
    memmove(&l->atoms[i + 1], &l->atoms[i], (l->n - i) * sizeof *l->atoms);
    l->n++;
    l->atoms[i] = (atom){outer, origin};
    l->atoms[i + 1] = (atom){inner, origin + 1};
    return true;
}

static bool divide(tw_context *ctx, tw_expr a, tw_expr b, tw_expr *quotient)
{
    if (a == b) {
        *quotient = tw_expr_const(ctx, 1);
        return true;
    }
    if (!tw_expr_is_const(a) || !tw_expr_is_const(b) || b->value == 0 || a->value % b->value != 0)
        return false;
    *quotient = tw_expr_const(ctx, a->value / b->value);
    return true;
}

/* Takes atoms from *at on, splitting the last one if need be, until they make up `size`. */
static bool take_atoms(atom_list *l, unsigned *at, tw_expr size)
{
    tw_expr one = tw_expr_const(l->ctx, 1), rest;
    while (size != one) {
        if (*at == l->n)
            return false;
        tw_expr have = l->atoms[*at].size;
        if (have == size || divide(l->ctx, size, have, &rest)) {
            size = have == size ? one : rest;
        } else if (divide(l->ctx, have, size, &rest)) {
            if (!split_atom(l, *at, size, rest))
                return false;
            size = one;
        } else {
            return false;
        }
        ++*at;
    }
    return true;
}

static bool apply_reshape(atom_list *l, tw_type type)
{
    tw_expr one = tw_expr_const(l->ctx, 1);
    unsigned at = 0;
    l->rank = type->rank;
    for (unsigned i = 0; i < type->rank; i++) {
        l->begin[i] = at;
        if (!take_atoms(l, &at, type->dims[i]))
            return false;
    }
    while (at < l->n && l->atoms[at].size == one)
        at++;
    l->begin[type->rank] = l->n;
    return at == l->n;
}

static void apply_transpose(atom_list *l, const tw_op *op)
{
    int64_t perm[TW_MAX_RANK];
    atom_list old = *l;
    tw_op_ints(op, "perm", perm, TW_MAX_RANK);
    l->n = 0;
    for (unsigned i = 0; i < l->rank; i++) {
        l->begin[i] = l->n;
        for (unsigned k = old.begin[perm[i]]; k < old.begin[perm[i] + 1]; k++)
            l->atoms[l->n++] = old.atoms[k];
    }
    l->begin[l->rank] = l->n;
}

static bool is_in_order(const atom_list *l)
{
    tw_expr one = tw_expr_const(l->ctx, 1);
    int64_t last = -1;
    for (unsigned i = 0; i < l->n; i++) {
        if (l->atoms[i].size == one)
            continue;
        if (l->atoms[i].origin < last)
            return false;
        last = l->atoms[i].origin;
    }
    return true;
}

/* Whether chain[n - 1], …, chain[0], applied to x in this order, keep its elements in order. */
static bool moves_nothing(tw_context *ctx, tw_op *const *chain, unsigned n, const tw_value *x)
{
    atom_list l = {.ctx = ctx, .rank = x->type->rank, .n = x->type->rank};
    for (unsigned i = 0; i < l.rank; i++) {
        l.atoms[i] = (atom){x->type->dims[i], i};
        l.begin[i] = i;
    }
    l.begin[l.rank] = l.n;
    for (unsigned i = n; i-- > 0;) {
        if (tw_is_graph(chain[i], TW_GRAPH_TRANSPOSE))
            apply_transpose(&l, chain[i]);
        else if (!apply_reshape(&l, chain[i]->results[0].type))
            return false;
    }
    return is_in_order(&l);
}

/* perm of two transposes in a row, as one. */
static bool join_transposes(tw_rewriter *rw, tw_op *op, const tw_op *inner)
{
    int64_t outer_perm[TW_MAX_RANK], inner_perm[TW_MAX_RANK];
    int n = tw_op_ints(op, "perm", outer_perm, TW_MAX_RANK);
    tw_op_ints(inner, "perm", inner_perm, TW_MAX_RANK);
    for (int i = 0; i < n; i++)
        outer_perm[i] = inner_perm[outer_perm[i]];
    tw_op_set_operand(op, 0, tw_operand(inner, 0));
    tw_op_set_attr(op, "perm", tw_attr_ints(tw_rw_context(rw), outer_perm, (size_t)n));
    tw_rw_changed(rw, op);
    return true;
}

bool tw_canon_reshape_chain(tw_rewriter *rw, tw_op *op)
{
    tw_op *chain[MAX_CHAIN];
    unsigned n = 0, best = 0;
    bool moves = false;
    for (tw_op *at = op; at && n < MAX_CHAIN; at = tw_operand(at, 0)->op) {
        if (!tw_is_graph(at, TW_GRAPH_TRANSPOSE) && !tw_is_graph(at, TW_GRAPH_RESHAPE))
            break;
        chain[n++] = at;
        moves |= tw_is_graph(at, TW_GRAPH_TRANSPOSE);
        /* Reshapes alone never move; one alone is as good as it can be. */
        if (moves ? moves_nothing(tw_rw_context(rw), chain, n, tw_operand(at, 0)) : n > 1)
            best = n;
    }
    if (best == 0)
        return n > 1 && tw_is_graph(chain[0], TW_GRAPH_TRANSPOSE) &&
               tw_is_graph(chain[1], TW_GRAPH_TRANSPOSE) && join_transposes(rw, op, chain[1]);
    tw_value *x = tw_operand(chain[best - 1], 0);
    tw_type type = op->results[0].type;
    tw_value *value = x->type == type ? x
                                      : tw_graph_build(tw_rw_builder(rw, op), TW_GRAPH_RESHAPE, &x,
                                                       1, type, NULL);
    tw_rw_replace(rw, op, &value);
    return true;
}
