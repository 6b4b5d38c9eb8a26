/* expr_impl.h: sums of terms, the work form of expressions; private to src/ir.
 *
 * Canonical form. A sum is ((t1 + t2) + t3) + constant, terms ordered by tw_expr_compare. A term is
 * an atom product, or MUL(product, coefficient). A product is ((a1 * a2) * a3), atoms ordered. An
 * atom is anything that is neither a constant nor a sum nor a product, or (in products that would
 * grow too large when multiplied out) a sum. */
#ifndef TW_IR_EXPR_IMPL_H
#define TW_IR_EXPR_IMPL_H

#include "tilewright/ir.h"

/* Bounds that keep every walk over an expression cheap and every recursion shallow. An expression
 * beyond them becomes invalid. */
enum {
    TW_EXPR_MAX_TERMS = 96,
    TW_EXPR_MAX_DEPTH = 160,
    TW_EXPR_MAX_SIZE = 4096,
};

/* What the context stores: the public part and facts of the whole tree. */
typedef struct tw_expr_node {
    struct tw_expr_s base;
    uint32_t depth, size; /* of the tree */
    uint32_t dims;        /* largest dimension index plus one */
    bool symbols;         /* whether any occurs */
    uint64_t low_dims;    /* bit i: dimension i < 64 occurs */
} tw_expr_node;

static inline const tw_expr_node *tw_expr_node_of(tw_expr e)
{
    return (const tw_expr_node *)e;
}

/* The one node of that shape, no folding. */
tw_expr tw_expr_intern(tw_context *ctx, tw_expr_kind kind, int64_t value, const char *symbol,
                       tw_expr lhs, tw_expr rhs);

/* Total order of structure, the same in every run; 0 only for equal pointers. */
int tw_expr_compare(tw_expr a, tw_expr b);

typedef struct tw_term {
    tw_expr key; /* product of atoms */
    int64_t coef;
} tw_term;

/* A sum being made; start with n = constant = 0 and invalid = false. Terms stay ordered, with
 * distinct keys and coefficients other than 0. */
typedef struct tw_sum {
    size_t n;
    int64_t constant;
    bool invalid;
    tw_term terms[TW_EXPR_MAX_TERMS];
} tw_sum;

void tw_sum_init(tw_sum *s);
void tw_sum_add_term(tw_sum *s, tw_expr key, int64_t coef);
void tw_sum_add_const(tw_sum *s, int64_t value);
/* Adds factor * e. */
void tw_sum_add(tw_sum *s, tw_expr e, int64_t factor);
/* The canonical expression; joins c * (x floordiv c) + x mod c. */
tw_expr tw_sum_build(tw_context *ctx, tw_sum *s);

/* Coefficient and key of an expression that is one term. */
static inline tw_term tw_term_of(tw_expr e)
{
    if (e->kind == TW_EXPR_MUL && e->rhs->kind == TW_EXPR_CONST)
        return (tw_term){e->lhs, e->rhs->value};
    return (tw_term){e, 1};
}

/* Splits e into whole * by + rest, for `by` one term with a positive coefficient. Both sums are
 * started here; the constant of e stays in the rest. */
void tw_sum_split(tw_context *ctx, tw_expr e, tw_expr by, tw_sum *whole, tw_sum *rest);
/* The largest term that divides both terms: k*n for 2*k*n*m and 3*k*n. */
tw_expr tw_term_gcd(tw_context *ctx, tw_expr a, tw_expr b);

/* Interval arithmetic; the ends INT64_MIN and INT64_MAX are infinite. */
tw_range tw_range_add(tw_range a, tw_range b);
tw_range tw_range_mul(tw_range a, tw_range b);

/* Greatest common divisor of the absolute values. */
int64_t tw_gcd_i64(int64_t a, int64_t b);

#endif
