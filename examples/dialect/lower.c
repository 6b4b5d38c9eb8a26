/* lower.c: how poly.horner computes, as one block of loop IR:
 *
 *     y[i] = (c2 * x[i] + c1) * x[i] + c0
 *
 * From this the interpreter, fusion, schedules and all code generators know the operation. */
#include "poly.h"

static bool lower_horner(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    double c[POLY_MAX_TERMS];
    unsigned n = poly_coefficients(op, c);
    tw_elem elem = tw_compute_elem(in[0]->type->elem);
    tw_stage s;
    tw_stage_elementwise(l, &s, "horner", out[0]);
    tw_value *x = tw_stage_cast(&s, tw_stage_load_broadcast(&s, in[0], out[0]->type->rank), elem);
    tw_value *y = tw_stage_const(&s, elem, c[n - 1]);
    for (unsigned i = n - 1; i-- > 0;) {
        y = tw_stage_op(&s, "mul", y, x, NULL);
        y = tw_stage_op(&s, "add", y, tw_stage_const(&s, elem, c[i]), NULL);
    }
    tw_stage_store_here(&s, y, out[0]);
    return tw_stage_close(&s);
}

const tw_op_lowering poly_horner_lowering = {lower_horner};
