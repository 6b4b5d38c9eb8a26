/* run_module.h: computing a graph module's results while compiling. */
#ifndef TW_DRIVER_RUN_MODULE_H
#define TW_DRIVER_RUN_MODULE_H

#include "interp/interp.h"
#include "tilewright/compiler.h"

/* Lowers the module (which is used up) and runs its @main on `n` buffers: inputs, then results.
 * Little work is interpreted; more is compiled for this machine, loaded and run. */
bool tw_run_module(tw_context *ctx, tw_op *module, const tw_compile_options *options,
                   const tw_interp_buffer *buffers, size_t n);

#endif
