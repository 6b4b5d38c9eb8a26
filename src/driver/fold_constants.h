/* fold_constants.h: evaluation of what depends on constants alone. */
#ifndef TW_DRIVER_FOLD_CONSTANTS_H
#define TW_DRIVER_FOLD_CONSTANTS_H

#include "tilewright/ir.h"

/* fold-constants, on core.func: pure operations whose operands are constants are computed and
 * replaced by constants. Little work is done by the interpreter; more is compiled for this machine,
 * loaded and run, as any model is. A result much larger than what it is made from (a broadcast) is
 * left to be computed when the model runs. */
extern const tw_pass tw_pass_fold_constants;

#endif
