/* codegen.h: flat loop IR to machine code through LLVM.
 *
 * What is compiled. Each loop.kernel of the module becomes
 *
 *     int32_t NAME(const tw_abi_host *host, uint8_t *arena, const int64_t *symbols, args...)
 *
 * with a pointer for each buffer argument and int64_t for an index one; it returns 0, or a code
 * above 0 after host->error. Kernels hold no loop.block and no loop of kind vectorize or unroll.
 * A loop of kind parallel that is not inside another one goes through host->parallel_for.
 *
 * The function @main, whose arguments are buffers of which the last ones (attribute `outputs`) are
 * the model's outputs, becomes the tw_abi_entry "tw_entry". Its body holds core.call of kernels,
 * loop.constant_buffer (attribute `const_offset`: bytes into the constants section), loop.alloc,
 * loop.view, and may hold loops, conditions and arithmetic like a kernel.
 *
 * Symbols. An expression's symbol s is symbols[i], i being its place in the module's attribute
 * `symbols` (an array of strings).
 *
 * With symbols there is a tw_abi_plan "tw_plan" as well: the arena's bytes are @main's attribute
 * `arena_size` (a number, or a MAP of one expression).
 *
 * Memory. A loop.alloc with an attribute `offset` (a number, or a MAP of one expression over
 * symbols) lies that many bytes into the arena. Others are made once per call of the kernel, or per
 * call of the parallel loop's body that they stand in: on the stack while small, else by
 * host->alloc.
 * Arguments of a kernel do not overlap, save those that a kernel attribute `alias`, an array of
 * argument numbers, lists, and those that a call in the module's function passes as one memory.
 *
 * Output. Objects are position independent, all symbols hidden (suffix appended, and
 * "_kernel" to what is also the name of an import), and refer
 * outside themselves only to one another and to TW_IMPORTS of artifact/abi.h. */
#ifndef TW_CODEGEN_LLVM_CODEGEN_H
#define TW_CODEGEN_LLVM_CODEGEN_H

#include "base/target.h"
#include "tilewright/ir.h"

typedef enum tw_code_form {
    TW_CODE_OBJECT, /* ELF */
    TW_CODE_ASM,    /* assembly text */
    TW_CODE_LLVM,   /* LLVM IR text, after optimization */
} tw_code_form;

typedef struct tw_codegen_options {
    const tw_target *target;
    tw_code_form form;
    unsigned opt_level; /* 0: fast to compile; 1..3: fast to run */
    unsigned threads;   /* that compile; 0: as many as processors */
    bool precise;       /* loop.fma rounds once even where the target must emulate it */
    const char *suffix; /* appended to each symbol; NULL: "" */
} tw_codegen_options;

/* One piece of output. Pieces and their order depend on the module and the options, not on the
 * number of threads. */
typedef struct tw_code {
    const char *name; /* of its first symbol */
    const uint8_t *bytes;
    size_t size;
} tw_code;

typedef struct tw_codegen_result {
    tw_code *pieces; /* in the context's memory */
    size_t n_pieces;
    const char *entry; /* symbol of the tw_abi_entry, or NULL when the module has no @main */
    const char *plan;  /* of the tw_abi_plan; NULL without symbols */
    /* Its calls of kernels (core.call) in the order of their text: host->kernel_begin gets the
     * place in this list. */
    tw_op *const *calls;
    size_t n_calls;
} tw_codegen_result;

/* Compiles all kernels of the module and its function @main. False with diagnostics. `module` is
 * only read. */
bool tw_codegen_module(tw_context *ctx, tw_op *module, const tw_codegen_options *options,
                       tw_codegen_result *out);

#endif
