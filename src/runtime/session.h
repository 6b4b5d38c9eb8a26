/* session.h: the state of a session. */
#ifndef TW_RUNTIME_SESSION_H
#define TW_RUNTIME_SESSION_H

#include "runtime/model.h"

typedef struct tw_bound_input {
    const void *data; /* NULL: not set yet; of a sequence or optional: the handle */
    int64_t *dims;
    tw_abi_value *elements; /* of a sequence or optional, as they were given */
    size_t n_elements;
    bool absent; /* an optional that holds nothing */
    uint64_t handle;
} tw_bound_input;

typedef struct tw_bound_output {
    void *user; /* where the user wants it, or NULL */
    size_t user_size;
    void *own; /* the session's memory for it */
    size_t own_size;
    void *data; /* of the last run */
    size_t size;
    int64_t *dims;
} tw_bound_output;

typedef struct tw_kernel_clock {
    uint64_t calls, ns, begun;
} tw_kernel_clock;

struct tw_session {
    tw_abi_host host; /* what compiled code gets; host.data is the session */
    tw_model *model;

    unsigned threads;
    tw_pool *pool;  /* NULL: the embedder's, or one thread */
    bool unaligned; /* data at any address is taken */
    bool shared;    /* the session holds a share of the shared pool */
    void (*parallel_for)(void *data, int64_t count,
                         void (*body)(void *ctx, int64_t begin, int64_t end), void *ctx);
    void *parallel_data;

    tw_bound_input *inputs;
    tw_bound_output *outputs;
    void **input_pointers, **output_pointers;
    int64_t *input_dims, *output_dims; /* of all tensors, one after another */
    int64_t *symbols;
    uint8_t *arena;
    size_t arena_size;
    tw_kernel_clock *times;
    int64_t *work; /* with symbols: operations and bytes of each kernel, at the sizes of the run */
    bool ran;
    uint64_t **handles; /* room for those of all outputs */
    void *sequences;    /* table of sequence.h: of the run, then of its outputs */
    void *kept;         /* list of memory that compiled code asked to keep */

    atomic_int error_code; /* the first that compiled code reports in a run; 0: none */
    char error_text[256];
};

/* " (batch = 2, seq = 7)": the sizes of the run, for messages; nothing when all are fixed. */
void tw_session_sizes(const tw_session *session, char *out, size_t size);

/* Finds the memory for output i of the dims that are set: sets its data and size. */
tw_status tw_session_provide_output(tw_session *session, size_t i);

/* Before the entry is called: handles for inputs that are sequences or optionals. After it: checks
 * those of the outputs, and drops what they do not need. False after host->error. */
bool tw_session_begin_sequences(tw_session *session);
bool tw_session_end_sequences(tw_session *session);

#endif
