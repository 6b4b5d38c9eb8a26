/* known_eval.h: evaluation of one graph operation on known elements; private to known*.c. */
#ifndef TW_IMPORT_KNOWN_EVAL_H
#define TW_IMPORT_KNOWN_EVAL_H

#include "import/known.h"

/* The elements of op's only result. False when none is known. */
bool tw_known_eval(tw_gb *g, const tw_op *op, tw_known *out);

/* Number of elements of a tensor that is small enough to be followed. */
bool tw_known_countable(const tw_gb *g, tw_type type, size_t *count);
/* Room for that many elements. */

tw_num tw_num_int(tw_gb *g, int64_t value);
tw_num tw_num_real(double value);

/* One element of an element-wise operation: `elem` is the operands' element type (of where: that
 * of the last two), `to` the result's. */
tw_num tw_num_apply(tw_gb *g, const tw_op *op, tw_elem elem, tw_elem to, const tw_num *args);

#endif
