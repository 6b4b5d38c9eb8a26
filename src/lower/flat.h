/* flat.h: the passes that turn a scheduled kernel into flat loops, in the order of their run.
 *
 *   lower-blocks       blocks become their bodies: iteration variables are replaced by expressions
 *   vectorize-loops    loops marked so become vector operations
 *   unroll-loops       loops marked so become copies of their bodies
 *   specialize-loops   loops are cut, or their bodies doubled, so that the common case has no masks
 *   simplify-loops     ranges are used: masks, branches and loops that are decided disappear
 *   hoist-divisions    divisions by sizes known at run time move to where their loops begin
 *   place-allocs       buffers move into the parallel loop that owns them
 *
 * Each runs on loop.kernel and keeps the meaning: the interpreter runs the kernel before and after.
 */
#ifndef TW_LOWER_FLAT_H
#define TW_LOWER_FLAT_H

#include "tilewright/ir.h"

extern const tw_pass tw_pass_map_threads; /* before lower-blocks, for kernels bound to threads */
extern const tw_pass tw_pass_lower_blocks;
extern const tw_pass tw_pass_vectorize_loops;
extern const tw_pass tw_pass_unroll_loops;
extern const tw_pass tw_pass_specialize_loops;
extern const tw_pass tw_pass_simplify_loops;
extern const tw_pass tw_pass_place_allocs;
extern const tw_pass tw_pass_hoist_divisions;

/* Simplifies all below op with what is known of its loop variables; used by the other passes on
 * the pieces they make. */
void tw_simplify_loops(tw_context *ctx, tw_op *op);

#endif
