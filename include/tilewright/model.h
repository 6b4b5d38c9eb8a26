/* model.h: the binary interface between a compiled model and whoever runs it.
 *
 * A compiled model is an ELF shared object that exports one symbol, `tw_model`, a tw_abi_model.
 * (An object file made for embedding exports PREFIX_model instead.) It has no undefined symbols:
 * what it needs from outside it gets through the tw_abi_host that is passed to its entry, and
 * through the imports that the host fills in before the first call. The runtime library
 * (tilewright/runtime.h) does all this; this header is for those who do without it.
 *
 * All structures have the same layout on every 64-bit target: 8-byte fields, or pairs of 4. */
#ifndef TILEWRIGHT_MODEL_H
#define TILEWRIGHT_MODEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TW_ABI_MAGIC 0x314c45444f4d5754u /* the bytes "TWMODEL1" */

enum {
    TW_ABI_VERSION = 2,   /* host and model must agree */
    TW_ABI_ALIGN = 64,    /* of arena, constants, each buffer in them, and host->alloc */
    TW_ABI_MAX_RANK = 16, /* dimensions of a tensor */
    TW_ABI_CPU_WORDS = 2, /* 64-bit words of a CPU feature set */
};

/* ---- What the host offers -------------------------------------------------------------------- */

typedef struct tw_abi_host tw_abi_host;

/* A piece of a parallel loop: iterations begin..end-1. */
typedef void (*tw_abi_body)(void *ctx, int64_t begin, int64_t end);

/* Callbacks for compiled code. All may be called from any thread that the host runs bodies on,
 * save kernel_begin, kernel_end and output, which are called by the thread that called the entry.
 */
struct tw_abi_host {
    uint64_t version; /* TW_ABI_VERSION */
    uint64_t threads; /* how many threads parallel_for spreads over, at least 1 */
    void *data;       /* the host's own */

    /* Calls body on disjoint pieces that together are 0..count-1, possibly at once on several
     * threads, and returns when all are done. From within a body it runs on the calling thread.
     * count <= 0 does nothing. */
    void (*parallel_for)(const tw_abi_host *host, int64_t count, tw_abi_body body, void *ctx);

    /* Memory aligned to TW_ABI_ALIGN, for sizes known only while running; NULL when there is none.
     * free takes what alloc gave, or NULL. */
    void *(*alloc)(const tw_abi_host *host, size_t size);
    void (*free)(const tw_abi_host *host, void *memory);

    /* The memory for output `index` whose sizes the data decides (TW_ABI_DYNAMIC): called once a
     * run with the actual dims (`rank` of them). NULL when there is no memory. */
    void *(*output)(const tw_abi_host *host, uint32_t index, const int64_t *dims);

    /* Around each kernel when profiling, else NULL; `kernel` is an index into variant->kernels. */
    void (*kernel_begin)(const tw_abi_host *host, uint32_t kernel);
    void (*kernel_end)(const tw_abi_host *host, uint32_t kernel);

    /* Records why the run fails; the first one counts. Returns `code`, so that compiled code can
     * return what this returns. `message` is copied. code > 0; or 0: the message is more text for
     * the failure that has been recorded (numbers, where in the model it arose), and goes right in
     * front of its message. */
    int32_t (*error)(const tw_abi_host *host, int32_t code, const char *message);

    /* Memory as of alloc that stays until the session runs again or ends, and is freed then: for
     * the text that elements of string outputs point to. */
    void *(*keep)(const tw_abi_host *host, size_t size);

    /* A place, NULL at first, for what the runtime's routines keep from call to call of one run:
     * its sequences. NULL: they are not to be had. Compiled code does not look at it. */
    void **run;
};

/* ---- Routines -------------------------------------------------------------------------------- */

/* A tensor as a routine sees it. */
typedef struct tw_abi_value {
    void *data;    /* row-major; of strings: pointers to text that ends with a zero byte */
    int64_t *dims; /* rank sizes */
    uint32_t elem; /* tw_elem */
    uint32_t rank;
} tw_abi_value;

/* A function for what is no loop nest, which a model calls by its name "tw_rt_…": sorting out
 * duplicates, text. The thread that runs the entry calls it. Of an output, elem, rank and room for
 * the dims are given; the routine sets the dims and the data, which it takes from host->alloc and
 * which the caller frees. `params` are numbers that belong to the operation. Returns 0, or a code
 * > 0 after host->error. The runtime has the routines of artifact/abi.h; a program or a plugin adds
 * its own by tw_routine_register (runtime.h). A further one, tw_rt_WORD_REST, is looked for in a
 * library libtilewright-WORD.so that exports it under that name (src/plugins/image). */
typedef int32_t (*tw_abi_routine)(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                                  tw_abi_value *out, uint32_t n_out, const int64_t *params);

/* ---- What the model is ----------------------------------------------------------------------- */

/* Runs the model. Returns 0, or a code > 0 after host->error.
 *   inputs     n_inputs pointers, row-major data, aligned to the element size
 *   outputs    n_outputs pointers likewise; NULL for a TW_ABI_DYNAMIC one, and those only
 *   constants  base of the constants section
 *   arena      arena_size bytes (or what plan returned) that hold nothing between runs
 *   symbols    n_symbols sizes; may be NULL when there are none
 * Inputs, outputs and arena must not overlap. Runs with different arenas may go on at once. */
typedef int32_t (*tw_abi_entry)(const tw_abi_host *host, void *const *inputs, void *const *outputs,
                                const uint8_t *constants, uint8_t *arena, const int64_t *symbols);

/* For models with symbols: checks the sizes, returns the arena bytes for them and writes the dims
 * of all outputs, one after another (-1 where the data decides). Negative when the sizes are not
 * possible. `work`, unless NULL, gets two numbers for each entry of variant->kernels: operations
 * and bytes of one call, 0 where the data decides. */
typedef int64_t (*tw_abi_plan)(const int64_t *symbols, int64_t *output_dims, int64_t *work);

/* Flags of inputs and outputs. With any but the first one, a pointer is to a handle (u64), and
 * elem, rank and dims are those of the tensors inside. */
enum {
    TW_ABI_DYNAMIC = 1,  /* an output whose sizes are known only after the run */
    TW_ABI_SEQUENCE = 2, /* a sequence of tensors */
    TW_ABI_OPTIONAL = 4, /* or nothing, which is the handle 0; without SEQUENCE: a tensor */
    TW_ABI_ANY_RANK = 8, /* tensors of any number of dimensions; rank is 0 */
};

typedef struct tw_abi_tensor {
    const char *name;
    uint32_t elem; /* tw_elem */
    uint32_t rank;
    const int64_t *dims;        /* rank sizes; -1: not fixed; NULL for rank 0 */
    const int32_t *dim_symbols; /* index of the symbol that the dimension is, or -1; NULL: all -1 */
    const char *const *dim_texts; /* "batch", "2*seq" for dimensions not fixed; NULL: none */
    uint64_t flags;
} tw_abi_tensor;

/* One kernel as profiles show it; operations and bytes of one call, 0 when not known. */
typedef struct tw_abi_kernel {
    const char *name;      /* symbol of the function */
    const char *operators; /* "Conv+Relu" */
    uint64_t flops;        /* both 0 where sizes are symbols: see tw_abi_plan */
    uint64_t bytes;        /* read and written, each buffer once */
} tw_abi_kernel;

/* A buffer of the arena, for people who look at the memory plan; steps are kernel indices. */
typedef struct tw_abi_buffer {
    const char *name;
    const char *type;      /* "1x64x56x56xf32" */
    uint64_t offset, size; /* 0 where they depend on symbols */
    uint32_t first, last;  /* kernels that write it first and read it last */
} tw_abi_buffer;

/* A constant of the constants section, likewise. */
typedef struct tw_abi_constant {
    const char *name;
    const char *type;
    uint64_t offset, size;
} tw_abi_constant;

/* The code for one CPU level. */
typedef struct tw_abi_variant {
    const char *cpu;                     /* as given to the compiler: "x86-64-v3", "znver4" */
    uint64_t features[TW_ABI_CPU_WORDS]; /* that it needs, bits of tw_cpu_feature */
    tw_abi_entry entry;
    tw_abi_plan plan;    /* NULL when there are no symbols */
    uint64_t arena_size; /* without plan */
    uint32_t n_kernels, n_buffers;
    const tw_abi_kernel *kernels;
    const tw_abi_buffer *buffers;
} tw_abi_variant;

/* A function of the host's C library that the code calls; the host sets *slot. */
typedef struct tw_abi_import {
    const char *name; /* "memcpy", "fmodf" */
    void **slot;
} tw_abi_import;

typedef struct tw_abi_model {
    uint64_t magic;
    uint32_t version; /* TW_ABI_VERSION of the compiler */
    uint32_t size;    /* of this structure */
    uint64_t id;      /* hash of what the model was made from; the file's trailer repeats it */
    const char *name;
    const char *producer; /* "tilewright 0.1.0" */
    const char *target;   /* "x86_64-unknown-linux-gnu" */
    uint32_t n_inputs, n_outputs, n_symbols, n_variants, n_imports, n_constants;
    const tw_abi_tensor *inputs;
    const tw_abi_tensor *outputs;
    const char *const *symbols;     /* names */
    const tw_abi_variant *variants; /* in order of preference, worst first */
    const tw_abi_import *imports;
    const tw_abi_constant *constant_table;
    uint64_t constants_size;
    const uint8_t *constants; /* in an embedded object; NULL: in the file, see its trailer */
} tw_abi_model;

#ifdef __cplusplus
}
#endif
#endif
