/* resize_symbolic.h: resizing along an axis whose sizes are known only while running, or too large
 * for a table. */
#ifndef TW_LOWER_RESIZE_SYMBOLIC_H
#define TW_LOWER_RESIZE_SYMBOLIC_H

#include "lower/lowering.h"
#include "lower/resize_table.h"

typedef struct tw_resize_symbolic {
    tw_context *ctx;
    const tw_op *op;
    unsigned axis, taps; /* 1 nearest, 2 linear, 4 cubic; more with antialias */
    tw_expr in, out;
    double scale;  /* 0: out / in */
    double shrink; /* of the filter: the scale, with antialias; else 1 */
    bool row; /* antialias, or what lies outside is excluded: weights are divided by their sum */
} tw_resize_symbolic;

/* False with a diagnostic for what needs known sizes. */
bool tw_resize_symbolic_make(tw_context *ctx, const tw_op *op, unsigned axis, tw_expr in,
                             tw_expr out, tw_resize_symbolic *r);

/* The operand's positions that result position `o` is made of, and their weights in `elem` (none
 * for one tap). */
void tw_resize_symbolic_taps(const tw_resize_symbolic *r, tw_stage *s, tw_expr o, tw_expr *taps,
                             tw_value **weights, tw_elem elem);

/* The same of tap `t`, an index, for any number of taps: position and undivided weight, in f32. */
tw_value *tw_resize_symbolic_tap(const tw_resize_symbolic *r, tw_stage *s, tw_expr o, tw_expr t,
                                 tw_expr *position);

/* Of tf_crop_and_resize: whether position `o` lies outside the operand (bool). */
tw_value *tw_resize_symbolic_outside(const tw_resize_symbolic *r, tw_stage *s, tw_expr o);

#endif
