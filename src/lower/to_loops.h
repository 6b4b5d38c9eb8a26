/* to_loops.h: the pass from graph to loop IR. */
#ifndef TW_LOWER_TO_LOOPS_H
#define TW_LOWER_TO_LOOPS_H

#include "tilewright/ir.h"

/* lower-to-loops, on core.module: functions of graph operations become functions that call
 * kernels on buffers; see to_loops.c. */
extern const tw_pass tw_pass_lower_to_loops;

#endif
