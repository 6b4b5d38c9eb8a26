/* values.h: named arrays as the inputs and outputs of a session. A tensor has its own name; the
 * tensors of a sequence x are "x[0]", "x[1]" …, and an empty one is told by an array "x[]" of no
 * elements; an optional is what it holds, or nothing. */
#ifndef TW_DRIVER_VALUES_H
#define TW_DRIVER_VALUES_H

#include "base/npz.h"
#include "tilewright/runtime.h"

/* Whether an array of that name can belong to the input or output. */
bool tw_value_has(tw_context *ctx, const tw_tensor_info *info, const char *name);

/* Whether arrays are there for the input or output: those of a sequence, which may be none, and of
 * an optional are. */
bool tw_value_given(tw_context *ctx, const tw_tensor_info *info, const tw_arrays *arrays);

/* Sets input i; arrays must be there for a tensor. False with a diagnostic. */
bool tw_set_input(tw_context *ctx, tw_session *session, const tw_model *model, size_t i,
                  const tw_arrays *arrays);

/* Output i after a run: its arrays, whose data is the session's. */
tw_arrays tw_output_arrays(tw_context *ctx, const tw_session *session, const tw_model *model,
                           size_t i);

#endif
