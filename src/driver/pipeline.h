/* pipeline.h: the passes of each level, in order. */
#ifndef TW_DRIVER_PIPELINE_H
#define TW_DRIVER_PIPELINE_H

/* From the graph to kernels (loop.kernel, unscheduled) and calls of them. */
const char *tw_lowering_pipeline(int opt_level);

/* From unscheduled to flat kernels, and the places of buffers, for one target. */
const char *tw_loop_pipeline(int opt_level);

#endif
