/* snapshots.h: what the graph of a model looks like after each pass, as JSON. */
#ifndef TW_TOOLS_SNAPSHOTS_H
#define TW_TOOLS_SNAPSHOTS_H

#include "base/map.h"
#include "base/vec.h"
#include "tilewright/ir.h"

/* The graph after a pass: the states of its operations, in order. */
typedef struct tw_snapshot {
    const char *pass; /* NULL: as imported */
    TW_VEC(size_t) states;
} tw_snapshot;

/* A call of a kernel in the lowered model, in the order of the profile's numbers. */
typedef struct tw_snapshot_call {
    const char *types; /* of its buffers: "1x64x56x56xf32, …" */
    const char *node;  /* of the model, or "" */
} tw_snapshot_call;

/* Texts live in `ctx`, which outlives the compiler's context. Zero-initialise, set ctx. */
typedef struct tw_snapshots {
    tw_context *ctx;
    TW_VEC(const char *) states; /* JSON objects: forms of operations, equal ones kept once */
    TW_VEC(tw_snapshot) stages;  /* each unlike the one before */
    TW_VEC(tw_snapshot_call) calls;
    tw_map ids;    /* operation or argument -> its number + 1 */
    tw_map latest; /* operation or argument -> its latest state + 1 */
    bool lowered;  /* the graph is gone */
} tw_snapshots;

/* For tw_pipeline_options.observe, with the tw_snapshots as data. */
void tw_snapshots_observe(void *data, const tw_pass *pass, tw_op *root, bool after);

#endif
