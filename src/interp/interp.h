/* interp.h: the interpreter of loop IR: slow, exact, and suspicious. It is the oracle of every
 * transformation and evaluates constants.
 *
 * It runs kernels at any stage of scheduling (blocks or flat loops, scalars or vectors). Arithmetic
 * is that of loop.def: f32 in float, f64 in double, narrower formats rounded after each operation.
 * What it reports as an error, beyond what the verifier knows: an access outside a buffer, reading
 * what was never written, writing an argument that is only read, an iteration variable of a block
 * outside its extent, two iterations of a parallel loop that touch one element when one of them
 * writes it first, an output with an element that was not written, and too many steps.
 *
 * With `threads`, a kernel with loops bound to a GPU's threads runs on such: all go through the
 * whole kernel, each with registers and memory of scope "local" of its own, and wait at
 * loop.barrier. Then races between threads are errors, and so are barriers that some threads do not
 * reach; of conflicts in banks of shared memory and of accesses that are not coalesced a warning
 * tells. Without it, bound loops are parallel loops that run one after another. */
#ifndef TW_INTERP_INTERP_H
#define TW_INTERP_INTERP_H

#include "tilewright/ir.h"

/* Memory of one argument: row-major, 4-bit elements packed low first. */
typedef struct tw_interp_buffer {
    void *data;
    size_t size; /* bytes; must be what the argument's type takes */
} tw_interp_buffer;

/* The value of a symbol. */
typedef struct tw_interp_size {
    const char *symbol;
    int64_t value;
} tw_interp_size;

/* What threads of a GPU did, warp by warp (32 threads). */
typedef struct tw_interp_stats {
    uint64_t shared_passes, bank_conflicts; /* over shared memory; conflicts: passes too many */
    uint64_t sectors, ideal_sectors;        /* of 32 bytes of global memory: moved, and needed */
} tw_interp_stats;

typedef struct tw_interp_options {
    uint64_t max_steps;          /* operations and iterations; 0: no bound */
    bool reverse_parallel;       /* parallel loops from the last iteration to the first */
    bool partial_outputs;        /* outputs may stay unwritten in part */
    bool threads;                /* loops bound to threads run on them, with barriers */
    tw_interp_stats *stats;      /* of threads; may be NULL */
    bool outputs_hold;           /* outputs have values from the beginning, which may be read */
    const tw_interp_size *sizes; /* of symbols that the operation uses and does not bind */
    size_t n_sizes;
} tw_interp_options;

/* Runs a loop.kernel, or a function after lowering to loops that calls kernels of its module, on
 * `n` buffers: its arguments in order, of which the last ones (attribute "outputs") are written. An
 * output whose size the function itself binds gets a buffer of that size or more. `options` may be
 * NULL. False with a diagnostic at the operation that failed. */
bool tw_interp_run(tw_context *ctx, tw_op *op, const tw_interp_buffer *buffers, unsigned n,
                   const tw_interp_options *options);

#endif
