/* poly.h: a dialect of polynomials, to show how one is added from outside of tilewright.
 *
 *     %p = poly.constant {coefficients = [1.0, 2.0]} : !poly.polynomial<1>      1 + 2 t
 *     %q = poly.mul %p, %p : !poly.polynomial<2>                                1 + 4 t + 4 t^2
 *     %y = poly.apply %q, %x : tensor<8xf32>
 *
 * Polynomials exist while compiling. The pass `poly-resolve` computes with them, and leaves of it
 *
 *     %y = poly.horner %x {coefficients = [1.0, 4.0, 4.0]} : tensor<8xf32>
 *
 * which has a lowering to loops, and so takes part in fusion and runs on every target. What is no
 * loop nest is computed by a function of the plugin that compiled models call (roots.c). */
#ifndef POLY_H
#define POLY_H

#include <tilewright/ir.h>
#include <tilewright/lower.h>

typedef enum poly_kind {
    POLY_CONSTANT,
    POLY_ADD,
    POLY_MUL,
    POLY_APPLY,
    POLY_HORNER,
    POLY_ROOTS,
} poly_kind;
extern const tw_op_def poly_ops[];

enum { POLY_MAX_TERMS = 32 }; /* of a polynomial: degree plus one */

/* !poly.polynomial<degree> */
tw_type poly_type(tw_context *ctx, unsigned degree);
/* Copies the coefficients of a poly.constant or poly.horner, lowest power first; their number. */
unsigned poly_coefficients(const tw_op *op, double out[POLY_MAX_TERMS]);

extern const tw_pass poly_raise, poly_resolve;
extern const tw_op_lowering poly_horner_lowering;

/* poly.roots: what a routine computes, and making that routine known. */
extern const tw_op_routine poly_roots_routine;
bool poly_register_roots(void);

#endif
