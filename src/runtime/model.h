/* model.h: a loaded model, as sessions see it. */
#ifndef TW_RUNTIME_MODEL_H
#define TW_RUNTIME_MODEL_H

#include "runtime/image.h"
#include "runtime/pool.h"

#include <pthread.h>
#include <stdatomic.h>

struct tw_model {
    atomic_uint users; /* the owner and each session */
    tw_image image;    /* fd -1 for a linked model */
    const tw_abi_model *abi;
    const tw_abi_variant *variant;
    const uint8_t *constants;

    tw_model_info info;
    tw_tensor_info *inputs, *outputs;
    tw_kernel_info *kernels;
    tw_region_info *constant_table, *buffers;

    pthread_mutex_t lock; /* of the fields below */
    bool trusted;         /* constants need no check */
    bool verified;        /* constants have been checked */
    tw_pool *pool;        /* share in the shared pool, from the first session that needs it */
    char name[];          /* for messages */
};

/* Readies the model for running: constants checked. */
tw_status tw_model_prepare(tw_model *model);

/* The shared pool with at least `threads` threads. The caller gets a share, to be released; the
 * model keeps one, so that threads outlive sessions. */
tw_status tw_model_pool(tw_model *model, unsigned threads, tw_pool **pool);

void tw_model_retain(tw_model *model);

/* The variant to run: by name, or the best within a level; `cpu` NULL: the best. */
tw_status tw_variant_choose(const tw_abi_model *abi, const char *cpu, const tw_abi_variant **out);

/* Bytes of a tensor of these dims, all >= 0; false on overflow. */
bool tw_tensor_bytes(tw_elem elem, const int64_t *dims, unsigned rank, size_t *bytes);

#endif
