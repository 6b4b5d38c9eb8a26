/* resize_table.h: where each position of a resized axis comes from. */
#ifndef TW_LOWER_RESIZE_TABLE_H
#define TW_LOWER_RESIZE_TABLE_H

#include "tilewright/ir.h"

/* Most entries of a table; larger ones are not made, what they would hold is computed while running
 * (resize_symbolic.h). */
enum { TW_RESIZE_MAX_ENTRIES = 1 << 16 };

/* Per position of the result `taps` positions of the operand (inside its axis) with weights. */
typedef struct tw_resize_axis {
    int64_t in, out;
    unsigned taps;
    int64_t *index; /* out x taps; NULL: too many entries, no table was made */
    float *weight;  /* out x taps; all 1 for mode nearest */
    bool *outside;  /* out: tf_crop_and_resize extrapolates there; NULL: nowhere */
} tw_resize_axis;

/* The tables of axis `axis` of a graph.resize, computed in float as ONNX Runtime does; in the
 * context's memory. False with a diagnostic when an attribute has no known value. */
bool tw_resize_table(tw_context *ctx, const tw_op *op, unsigned axis, int64_t in, int64_t out,
                     tw_resize_axis *table);

/* Whether column `tap` of the index is min(max((o * a + b) floordiv c, 0), in - 1) for all o. */
bool tw_resize_closed_form(const tw_resize_axis *table, unsigned tap, int64_t *a, int64_t *b,
                           int64_t *c);
/* The same of given numbers. */
bool tw_resize_fits(const tw_resize_axis *table, unsigned tap, int64_t a, int64_t b, int64_t c);

#endif
