/* runtime.h: loads compiled models and runs them.
 *
 *     tw_model *model;
 *     if (tw_model_load("net.tw", NULL, &model) != TW_STATUS_OK)
 *         return fail(tw_last_error());
 *     tw_session *session;
 *     tw_session_create(model, NULL, &session);
 *     tw_session_set_input(session, 0, pixels, sizeof pixels);
 *     tw_session_run(session);
 *     size_t size;
 *     const float *scores = tw_session_output(session, 0, &size);
 *     ...
 *     tw_session_destroy(session);
 *     tw_model_free(model);
 *
 * Threads: a model is immutable; all functions on one model may be called at once from any number
 * of threads, except tw_model_free, which comes last for its caller. A session belongs to one
 * thread at a time. Any number of sessions of one model may run at once, and share one pool.
 * Functions that fail return a status; tw_last_error says more, in the calling thread. Out
 * parameters are set to NULL on failure. No function prints, exits, or changes signal handlers. */
#ifndef TILEWRIGHT_RUNTIME_H
#define TILEWRIGHT_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tilewright/elem.h"
#include "tilewright/model.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

typedef struct tw_model tw_model;
typedef struct tw_session tw_session;
typedef struct tw_pool tw_pool;

typedef enum tw_status {
    TW_STATUS_OK = 0,
    TW_STATUS_INVALID,     /* an argument is out of range or of the wrong size */
    TW_STATUS_IO,          /* the file cannot be opened or read */
    TW_STATUS_CORRUPT,     /* not a compiled model, truncated, or changed */
    TW_STATUS_UNSUPPORTED, /* another version, another architecture, or no code for this CPU */
    TW_STATUS_MEMORY,      /* out of memory, or threads cannot be made */
    TW_STATUS_RUN,         /* the model itself reports an error (an index out of range …) */
} tw_status;

/* Why the last failing call in this thread failed; valid until the next one. Never NULL. */
const char *tw_last_error(void);

/* ---- Models ---------------------------------------------------------------------------------- */

enum {
    /* Check all constants while loading. By default those of a file above 16 MB are checked when
     * the first session is created, so that loading takes milliseconds; nothing ever runs with
     * unchecked constants. */
    TW_LOAD_VERIFY_ALL = 1,
    /* Never check the constants (the code is always checked): for files that cannot be damaged. */
    TW_LOAD_TRUST_CONSTANTS = 2,
};

/* Zero-initialise for the defaults. */
typedef struct tw_load_options {
    unsigned flags;  /* TW_LOAD_… */
    const char *cpu; /* use code for this level or below ("x86-64-v3"), or exactly the variant of
                        this name. NULL: the environment's TILEWRIGHT_CPU, else the best one */
} tw_load_options;

/* Loads a file. `options` may be NULL. The file must not change while the model is loaded:
 * replace a model by renaming a new file over it. */
tw_status tw_model_load(const char *path, const tw_load_options *options, tw_model **out);
/* The same from an open file, which may be nameless (memfd, O_TMPFILE). The descriptor is
 * duplicated, its position neither used nor changed. `name` is for messages, may be NULL. */
tw_status tw_model_load_fd(int fd, const char *name, const tw_load_options *options,
                           tw_model **out);
/* The same from memory, which is copied. */
tw_status tw_model_load_memory(const void *bytes, size_t size, const tw_load_options *options,
                               tw_model **out);
/* A model that is linked into the program (object form): `descriptor` is the PREFIX_model of the
 * generated header. Nothing is checked but versions. */
tw_status tw_model_load_linked(const void *descriptor, tw_model **out);

/* Lets go of the model; sessions that exist keep it alive until they are destroyed. NULL is fine.
 */
void tw_model_free(tw_model *model);

/* Checks the constants now, if that has not been done. */
tw_status tw_model_verify(tw_model *model);

/* Facts about a model; strings and arrays live as long as the model. */
typedef struct tw_model_info {
    const char *name, *producer, *target;
    const char *cpu; /* level of the chosen code */
    size_t inputs, outputs, kernels, symbols, variants, constants, buffers;
    uint64_t constants_size; /* bytes */
    uint64_t arena_size;     /* bytes a session needs; 0 when it depends on symbols */
    uint64_t id;             /* equal for equal models */
} tw_model_info;
const tw_model_info *tw_model_get_info(const tw_model *model);

/* What an input or output is. Of all but a tensor, the info describes the tensors inside. */
typedef enum tw_value_kind {
    TW_VALUE_TENSOR = 0,
    TW_VALUE_SEQUENCE = 1,          /* any number of tensors */
    TW_VALUE_OPTIONAL = 2,          /* a tensor or nothing */
    TW_VALUE_OPTIONAL_SEQUENCE = 3, /* a sequence or nothing */
} tw_value_kind;

typedef struct tw_tensor_info {
    const char *name;
    tw_elem elem;
    unsigned rank;
    const int64_t *dims;          /* -1: not fixed, see dim_texts */
    const char *const *dim_texts; /* "batch", "2*seq"; NULL entries for fixed ones; or NULL */
    bool is_static;               /* a tensor whose dims are all fixed */
    size_t size;                  /* bytes, when is_static; else 0 */
    tw_value_kind kind;
    bool any_rank; /* the tensors inside may have any number of dimensions; rank is 0 */
} tw_tensor_info;
/* NULL when i is too large. */
const tw_tensor_info *tw_model_input(const tw_model *model, size_t i);
const tw_tensor_info *tw_model_output(const tw_model *model, size_t i);
/* Index by name, or -1. */
long tw_model_find_input(const tw_model *model, const char *name);
long tw_model_find_output(const tw_model *model, const char *name);

/* Kernels of the chosen code, in order of first call. */
typedef struct tw_kernel_info {
    const char *name, *operators;
    uint64_t flops, bytes; /* of one call; 0: not known */
} tw_kernel_info;
const tw_kernel_info *tw_model_kernel(const tw_model *model, size_t i);

/* Parts of the constants section, and of the arena (the memory plan). */
typedef struct tw_region_info {
    const char *name, *type; /* "1x64x56x56xf32" */
    uint64_t offset, size;   /* bytes */
    unsigned first, last;    /* kernels between which an arena buffer is in use */
} tw_region_info;
const tw_region_info *tw_model_constant(const tw_model *model, size_t i);
const tw_region_info *tw_model_buffer(const tw_model *model, size_t i);
/* CPU level of variant i; NULL when i is too large. */
const char *tw_model_variant(const tw_model *model, size_t i);

/* Storage bits and name of an element type ("f32"); 0 and NULL for a number that is none. */
unsigned tw_runtime_elem_bits(tw_elem elem);
const char *tw_runtime_elem_name(tw_elem elem);

/* ---- Routines -------------------------------------------------------------------------------- */

/* Makes a function known that models call by that name, which begins with "tw_rt_" (model.h).
 * Before models that call it are loaded; it must stay. TW_STATUS_INVALID when another function has
 * the name. */
tw_status tw_routine_register(const char *name, tw_abi_routine function);

/* ---- Threads --------------------------------------------------------------------------------- */

/* How many threads the process should use: TILEWRIGHT_NUM_THREADS if set (1…1024), else the CPUs
 * that affinity and cgroup quotas (v1, v2) leave it, at least 1. */
unsigned tw_default_threads(void);
/* The best psABI level of this machine: "x86-64-v3". */
const char *tw_host_cpu(void);

/* A pool of its own, for programs that want to keep models apart; `threads` (at most 1024) counts
 * the caller, 0: tw_default_threads(). It has fewer when the system gives no more. Sessions that
 * name no pool share one that lives while models do. In the child of a fork, pools of the parent
 * have no workers: all runs on the caller. */
tw_status tw_pool_create(unsigned threads, tw_pool **out);
/* No session uses it any more. NULL is fine. */
void tw_pool_destroy(tw_pool *pool);
unsigned tw_pool_threads(const tw_pool *pool);
/* Runs body(ctx, begin, end) on pieces of 0..count-1, on at most max_threads threads (0: all),
 * the caller among them; returns when all are done. Within a body it runs on the calling thread.
 * Several threads may call it at once: workers spread over the calls. */
void tw_pool_parallel_for(tw_pool *pool, unsigned max_threads, int64_t count,
                          void (*body)(void *ctx, int64_t begin, int64_t end), void *ctx);

/* ---- Sessions -------------------------------------------------------------------------------- */

/* Zero-initialise for the defaults. */
typedef struct tw_session_options {
    unsigned threads; /* at most this many at once, 1: only the caller; 0: tw_default_threads().
                         The shared pool grows to the largest number asked for */
    tw_pool *pool;    /* NULL: the shared pool */
    bool profile;     /* measure kernels, see tw_session_kernel_time */
    bool unaligned;   /* inputs and outputs may lie at any address: parts of mapped files. The
                         code of every target so far reads and writes unaligned data; routines that
                         a model calls get inputs as they are */
    /* The embedder's own pool instead: must call body on disjoint pieces that make up
     * 0..count-1, and return when all are done; may be called within a body. `threads` says how
     * many it spreads over (0 counts as 1). */
    void (*parallel_for)(void *data, int64_t count,
                         void (*body)(void *ctx, int64_t begin, int64_t end), void *ctx);
    void *parallel_data;
} tw_session_options;

/* What one run needs: arena, pointers. Keeps the model alive. `options` may be NULL. */
tw_status tw_session_create(tw_model *model, const tw_session_options *options, tw_session **out);
void tw_session_destroy(tw_session *session); /* NULL is fine */

/* Where input i lies: `size` bytes, row-major, aligned to the element size, read during runs, not
 * written, not copied. For inputs of fixed shape; `size` must be that of the shape. */
tw_status tw_session_set_input(tw_session *session, size_t i, const void *data, size_t size);
/* The same with the shape: checked against the model's, and defines the symbols in it. */
tw_status tw_session_set_input_shape(tw_session *session, size_t i, const void *data,
                                     const int64_t *dims, unsigned rank);
/* Where output i is to go: `size` bytes of room, checked at the run. NULL: the session's memory. */
tw_status tw_session_set_output(tw_session *session, size_t i, void *data, size_t size);

/* The same for inputs that are sequences, or optionals: `n` tensors, one for an optional tensor
 * (which tw_session_set_input_shape takes as well). Descriptions and dims are copied; data is not:
 * it is read during runs. Strings that outputs point to are the caller's, as they are for tensors.
 */
typedef struct tw_element {
    const void *data;
    const int64_t *dims;
    unsigned rank;
} tw_element;
tw_status tw_session_set_input_sequence(tw_session *session, size_t i, const tw_element *elements,
                                        size_t n);
/* An optional that holds nothing, as one does that is never set. */
tw_status tw_session_set_input_absent(tw_session *session, size_t i);

/* Runs the model on the inputs set. All inputs must have been set, but optionals. */
tw_status tw_session_run(tw_session *session);

/* After a run: output i, its bytes (`size` may be NULL), and its dims. Valid until the next run or
 * the session's end. NULL before the first run and after a failed one. */
const void *tw_session_output(const tw_session *session, size_t i, size_t *size);
const int64_t *tw_session_output_dims(const tw_session *session, size_t i);

/* After a run: of output i that is a sequence or optional, how many tensors it holds, -1 when it is
 * an optional that holds nothing, or there is no such output; tensor k of it, valid as above, false
 * when there is none. */
long tw_session_output_length(const tw_session *session, size_t i);
bool tw_session_output_element(const tw_session *session, size_t i, size_t k, tw_element *out);

/* Profile: calls of kernel i and their seconds since creation or the last reset. */
typedef struct tw_kernel_time {
    uint64_t calls;
    double seconds;
    uint64_t flops, bytes; /* of one call, at the sizes of the last run; 0: not known */
} tw_kernel_time;
tw_kernel_time tw_session_kernel_time(const tw_session *session, size_t i);
void tw_session_reset_profile(tw_session *session);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
