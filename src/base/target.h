/* target.h: the CPU that code is made for, with the figures that scheduling and code generation go
 * by. No LLVM here: codegen/llvm/target.h adds "host" and LLVM's objects. */
#ifndef TW_BASE_TARGET_H
#define TW_BASE_TARGET_H

#include "tilewright/diag.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum tw_arch { TW_ARCH_X86_64, TW_ARCH_AARCH64 } tw_arch;

/* Code for a target uses the instructions of `level` and of `features`, no others; `tune` only
 * orders and chooses among them. Strings live as long as the context or the program. */
typedef struct tw_target {
    const char *name; /* as the user gave it: "x86-64-v3", "host", "znver4" */
    tw_arch arch;
    const char *triple;   /* "x86_64-unknown-linux-gnu" */
    const char *level;    /* "x86-64-v3": LLVM's name of the instruction set */
    const char *features; /* beyond the level, in LLVM's form "+avx512vnni,+gfni"; "" for none */
    const char *tune;     /* LLVM's name of the processor, or NULL */
    unsigned vector_bits; /* of the widest vector registers: 128, 256, 512 */
    unsigned vector_registers;
    bool fma;                    /* multiply-add in one instruction, f32 and f64 */
    bool f16_convert;            /* f16 <-> f32 in vectors */
    bool f16_arithmetic;         /* f16 computes without conversion */
    bool masks;                  /* lane-masked loads and stores of all element sizes are cheap */
    bool dot_i8;                 /* u8 x i8 products added to i32 in one instruction */
    bool dot_bf16;               /* bf16 pair products added to f32 in one instruction */
    unsigned l1_bytes, l2_bytes; /* data caches of one core */
} tw_target;

/* Lanes of `bits`-wide elements in a register of the target; at least 1. */
static inline unsigned tw_target_lanes(const tw_target *target, unsigned bits)
{
    return target->vector_bits / bits ? target->vector_bits / bits : 1;
}

/* The target of a name: a psABI level ("x86-64" to "x86-64-v4"), an x86-64 processor as LLVM calls
 * it, "aarch64", or an AArch64 processor. False when the name is none of these; *out is then
 * unchanged. */
bool tw_target_find(const char *name, tw_target *out);

/* The x86-64 target of a machine with these features (LLVM's list: "+avx,-sse4a,+avx2": only what
 * has a plus counts, names of no interest are skipped). `name` and `tune` are kept. */
void tw_target_from_features(tw_context *ctx, const char *name, const char *tune,
                             const char *features, tw_target *out);

/* All names that tw_target_find knows, one after another; NULL behind the last. */
const char *tw_target_name(unsigned i);

#endif
