/* run_module.h: computing a graph module's results while compiling. */
#ifndef TW_DRIVER_RUN_MODULE_H
#define TW_DRIVER_RUN_MODULE_H

#include "interp/interp.h"
#include "tilewright/compiler.h"

/* Both lower the module (which is used up) and run its @main on `n` buffers: inputs, then results.
 * The first one interprets; the second one compiles for this machine, loads and runs. */
bool tw_interpret_module(tw_context *ctx, tw_op *module, const tw_interp_buffer *buffers, size_t n);
bool tw_run_module(tw_context *ctx, tw_op *module, const tw_compile_options *options,
                   const tw_interp_buffer *buffers, size_t n);

#endif
