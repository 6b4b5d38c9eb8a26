/* patterns.c: rewrites, and the two passes that apply them.
 *
 * poly-raise finds polynomials in a graph; poly-resolve computes with them while compiling:
 *
 *   %y = graph.mul %x, %x                     ->  %p = poly.constant {coefficients = [0, 0, 1]}
 *                                                 %y = poly.apply %p, %x
 *   poly.add, poly.mul of two constants       ->  poly.constant
 *   poly.apply (poly.constant), %x            ->  poly.horner %x
 *   poly.horner q (poly.horner p %x)          ->  poly.horner (q after p) %x */
#include "poly.h"

typedef struct polynomial {
    double c[POLY_MAX_TERMS]; /* zeros behind the terms */
    unsigned n;
} polynomial;

/* The polynomial of a poly.constant or poly.horner that made the value. */
static bool polynomial_of(const tw_value *value, poly_kind kind, polynomial *out)
{
    *out = (polynomial){0};
    if (!value->op || value->op->def != &poly_ops[kind])
        return false;
    out->n = poly_coefficients(value->op, out->c);
    return true;
}

static polynomial sum(const polynomial *a, const polynomial *b)
{
    polynomial r = {.n = a->n > b->n ? a->n : b->n};
    for (unsigned i = 0; i < r.n; i++)
        r.c[i] = a->c[i] + b->c[i];
    return r;
}

/* The caller knows that the result fits. */
static polynomial product(const polynomial *a, const polynomial *b)
{
    polynomial r = {.n = a->n + b->n - 1};
    for (unsigned i = 0; i < a->n; i++)
        for (unsigned k = 0; k < b->n; k++)
            r.c[i + k] += a->c[i] * b->c[k];
    return r;
}

/* q(p(t)), by Horner's rule on polynomials. */
static polynomial composition(const polynomial *q, const polynomial *p)
{
    polynomial r = {{q->c[q->n - 1]}, 1};
    for (unsigned i = q->n - 1; i-- > 0;) {
        polynomial constant = {{q->c[i]}, 1};
        r = product(&r, p);
        r = sum(&r, &constant);
    }
    return r;
}

/* A poly.constant or, on x, a poly.horner. */
static tw_value *build(tw_rewriter *rw, tw_op *before, const polynomial *p, tw_value *x)
{
    tw_context *ctx = tw_rw_context(rw);
    tw_attr items[POLY_MAX_TERMS];
    for (unsigned i = 0; i < p->n; i++)
        items[i] = tw_attr_float(ctx, p->c[i]);
    const tw_op_def *def = &poly_ops[x ? POLY_HORNER : POLY_CONSTANT];
    tw_type type = x ? x->type : poly_type(ctx, p->n - 1);
    tw_op *op = tw_build(tw_rw_builder(rw, before), def, &x, x ? 1 : 0, &type, 1, "coefficients",
                         tw_attr_array(ctx, items, p->n), NULL);
    return tw_result(op, 0);
}

static bool replace(tw_rewriter *rw, tw_op *op, tw_value *value)
{
    tw_rw_replace(rw, op, &value);
    return true;
}

static bool fold(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    polynomial a, b;
    if (!polynomial_of(tw_operand(op, 0), POLY_CONSTANT, &a) ||
        !polynomial_of(tw_operand(op, 1), POLY_CONSTANT, &b))
        return false;
    polynomial r = op->def->kind == POLY_MUL ? product(&a, &b) : sum(&a, &b);
    return replace(rw, op, build(rw, op, &r, NULL));
}

static bool apply_constant(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    polynomial p;
    return polynomial_of(tw_operand(op, 0), POLY_CONSTANT, &p) &&
           replace(rw, op, build(rw, op, &p, tw_operand(op, 1)));
}

static bool compose(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    polynomial p, q = {0};
    q.n = poly_coefficients(op, q.c);
    if (!polynomial_of(tw_operand(op, 0), POLY_HORNER, &p) ||
        (p.n - 1) * (q.n - 1) >= POLY_MAX_TERMS)
        return false;
    polynomial r = composition(&q, &p);
    return replace(rw, op, build(rw, op, &r, tw_operand(tw_operand(op, 0)->op, 0)));
}

static bool raise_square(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    static const polynomial square = {{0, 0, 1}, 3};
    tw_value *x = tw_operand(op, 0);
    tw_type type = op->results[0].type;
    if (x != tw_operand(op, 1) || !tw_elem_is_float(type->elem))
        return false;
    tw_value *operands[] = {build(rw, op, &square, NULL), x};
    tw_op *apply =
        tw_build(tw_rw_builder(rw, op), &poly_ops[POLY_APPLY], operands, 2, &type, 1, NULL);
    return replace(rw, op, tw_result(apply, 0));
}

static bool run_resolve(tw_pass_run *run)
{
    const tw_pattern patterns[] = {
        {"poly-fold-add", &poly_ops[POLY_ADD], 1, fold, NULL},
        {"poly-fold-mul", &poly_ops[POLY_MUL], 1, fold, NULL},
        {"poly-apply-constant", &poly_ops[POLY_APPLY], 1, apply_constant, NULL},
        {"poly-compose", &poly_ops[POLY_HORNER], 1, compose, NULL},
    };
    tw_rewrite_greedily(run->ctx, run->root, patterns, sizeof patterns / sizeof *patterns,
                        run->max_changes, &run->changes);
    return true;
}

static bool run_raise(tw_pass_run *run)
{
    const tw_pattern pattern = {"poly-raise-square", tw_op_def_find(run->ctx, "graph.mul"), 1,
                                raise_square, NULL};
    tw_rewrite_greedily(run->ctx, run->root, &pattern, 1, run->max_changes, &run->changes);
    return true;
}

const tw_pass poly_raise = {
    .name = "poly-raise",
    .summary = "products of a tensor with itself to polynomials",
    .anchor = "core.module",
    .optional = true,
    .run = run_raise,
};

const tw_pass poly_resolve = {
    .name = "poly-resolve",
    .summary = "compute with polynomials while compiling",
    .anchor = "core.module",
    .run = run_resolve,
};
