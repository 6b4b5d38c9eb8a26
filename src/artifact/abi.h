/* abi.h: the model ABI as compiler and runtime see it: the public structures, and the functions
 * that compiled code may call by name.
 *
 * What the code generator must deliver in its objects (all symbols hidden, functions nounwind):
 *   - one entry of type tw_abi_entry per CPU level, and a tw_abi_plan each if there are symbols;
 *   - code that reaches constants through the `constants` argument and writes only to the arena,
 *     to outputs and to its own stack: no mutable globals, no thread-local storage;
 *   - no references to symbols that are neither defined in the objects, nor listed in TW_IMPORTS,
 *     nor routines, whose names begin with "tw_rt_".
 * Fields of tw_abi_host are addressed by offsetof. The linker stage (link/artifact.h) adds the
 * descriptor and, for each import used, a slot and a function that jumps through it. */
#ifndef TW_ARTIFACT_ABI_H
#define TW_ARTIFACT_ABI_H

#include "tilewright/elem.h"
#include "tilewright/model.h"

#define TW_ABI_SYMBOL "tw_model"

/* X(name, signature): functions with C semantics that the host provides. The signature is the
 * result and then the arguments: f float, d double, h half or bfloat (16 bits in a vector
 * register), p pointer, z size_t, i int32, v nothing. */
#define TW_LIBC_IMPORTS(X)                                                                         \
    X(memcpy, "pppz")                                                                              \
    X(memmove, "pppz")                                                                             \
    X(memset, "ppiz")                                                                              \
    X(memcmp, "ippz")                                                                              \
    X(strlen, "zp")                                                                                \
    X(strcmp, "ipp")                                                                               \
    X(sincos, "vdpp")                                                                              \
    X(sincosf, "vfpp")                                                                             \
    X(fma, "dddd")                                                                                 \
    X(fmaf, "ffff")                                                                                \
    X(ldexp, "ddi")                                                                                \
    X(ldexpf, "ffi")                                                                               \
    TW_MATH_1(X, acos)                                                                             \
    TW_MATH_1(X, acosh)                                                                            \
    TW_MATH_1(X, asin)                                                                             \
    TW_MATH_1(X, asinh)                                                                            \
    TW_MATH_1(X, atan)                                                                             \
    TW_MATH_1(X, atanh)                                                                            \
    TW_MATH_1(X, cbrt)                                                                             \
    TW_MATH_1(X, ceil)                                                                             \
    TW_MATH_1(X, cos)                                                                              \
    TW_MATH_1(X, cosh)                                                                             \
    TW_MATH_1(X, erf)                                                                              \
    TW_MATH_1(X, erfc)                                                                             \
    TW_MATH_1(X, exp)                                                                              \
    TW_MATH_1(X, exp2)                                                                             \
    TW_MATH_1(X, exp10)                                                                            \
    TW_MATH_1(X, expm1)                                                                            \
    TW_MATH_1(X, floor)                                                                            \
    TW_MATH_1(X, lgamma)                                                                           \
    TW_MATH_1(X, log)                                                                              \
    TW_MATH_1(X, log10)                                                                            \
    TW_MATH_1(X, log1p)                                                                            \
    TW_MATH_1(X, log2)                                                                             \
    TW_MATH_1(X, nearbyint)                                                                        \
    TW_MATH_1(X, rint)                                                                             \
    TW_MATH_1(X, round)                                                                            \
    TW_MATH_1(X, roundeven)                                                                        \
    TW_MATH_1(X, sin)                                                                              \
    TW_MATH_1(X, sinh)                                                                             \
    TW_MATH_1(X, sqrt)                                                                             \
    TW_MATH_1(X, tan)                                                                              \
    TW_MATH_1(X, tanh)                                                                             \
    TW_MATH_1(X, tgamma)                                                                           \
    TW_MATH_1(X, trunc)                                                                            \
    TW_MATH_2(X, atan2)                                                                            \
    TW_MATH_2(X, fmax)                                                                             \
    TW_MATH_2(X, fmin)                                                                             \
    TW_MATH_2(X, fmod)                                                                             \
    TW_MATH_2(X, pow)                                                                              \
    TW_MATH_2(X, remainder)

/* What compilers call on their own: conversions of 16-bit floats where the CPU has none, and memcmp
 * when only equality matters. */
#define TW_HELPER_IMPORTS(X)                                                                       \
    X(bcmp, "ippz")                                                                                \
    X(__extendhfsf2, "fh")                                                                         \
    X(__truncsfhf2, "hf")                                                                          \
    X(__truncdfhf2, "hd")                                                                          \
    X(__truncsfbf2, "hf")                                                                          \
    X(__truncdfbf2, "hd")

#define TW_IMPORTS(X) TW_LIBC_IMPORTS(X) TW_HELPER_IMPORTS(X)

/* X(name): routines of the runtime (tilewright/model.h), called as tw_rt_NAME. What they compute is
 * said where they are, in src/runtime. */
#define TW_ROUTINES(X)                                                                             \
    X(unique)                                                                                      \
    X(non_max_suppression)                                                                         \
    X(text)                                                                                        \
    X(equal_text)                                                                                  \
    X(concat_text)                                                                                 \
    X(split_text)                                                                                  \
    X(normalize_text)                                                                              \
    X(match_text)                                                                                  \
    X(write_numbers)                                                                               \
    X(read_numbers)                                                                                \
    X(look_up)                                                                                     \
    X(tree_ensemble)                                                                               \
    X(sequence_make)                                                                               \
    X(sequence_insert)                                                                             \
    X(sequence_erase)                                                                              \
    X(sequence_at)                                                                                 \
    X(sequence_length)                                                                             \
    X(sequence_held)                                                                               \
    X(sequence_concat)                                                                             \
    X(sequence_split)                                                                              \
    X(sequence_mark)                                                                               \
    X(sequence_keep)
#define TW_ROUTINE_PREFIX "tw_rt_"
#define TW_ROUTINE_SIGNATURE "ippipip"

/* A function of one or two floating arguments, for f64 and f32. */
#define TW_MATH_1(X, name) X(name, "dd") X(name##f, "ff")
#define TW_MATH_2(X, name) X(name, "ddd") X(name##f, "fff")

#endif
