/* abi.h: the model ABI as compiler and runtime see it: the public structures, and the functions
 * that compiled code may call by name.
 *
 * What the code generator must deliver in its objects (all symbols hidden, functions nounwind):
 *   - one entry of type tw_abi_entry per CPU level, and a tw_abi_plan each if there are symbols;
 *   - code that reaches constants through the `constants` argument and writes only to the arena,
 *     to outputs and to its own stack: no mutable globals, no thread-local storage;
 *   - no references to symbols that are neither defined in the objects nor listed in TW_IMPORTS.
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
#define TW_IMPORTS(X)                                                                              \
    X(memcpy, "pppz")                                                                              \
    X(memmove, "pppz")                                                                             \
    X(memset, "ppiz")                                                                              \
    X(memcmp, "ippz")                                                                              \
    X(bcmp, "ippz")                                                                                \
    X(strlen, "zp")                                                                                \
    X(strcmp, "ipp")                                                                               \
    X(__extendhfsf2, "fh")                                                                         \
    X(__truncsfhf2, "hf")                                                                          \
    X(__truncdfhf2, "hd")                                                                          \
    X(__truncsfbf2, "hf")                                                                          \
    X(__truncdfbf2, "hd")                                                                          \
    X(sincos, "vdpp")                                                                              \
    X(sincosf, "vfpp")                                                                             \
    TW_MATH_IMPORTS_1(X)                                                                           \
    TW_MATH_IMPORTS_2(X)                                                                           \
    X(fma, "dddd")                                                                                 \
    X(fmaf, "ffff")                                                                                \
    X(ldexp, "ddi")                                                                                \
    X(ldexpf, "ffi")

/* Of one and of two floating arguments, each for f64 and f32. */
#define TW_MATH_IMPORTS_1(X)                                                                       \
    X(acos, "dd") X(acosf, "ff") X(acosh, "dd") X(acoshf, "ff")                                    \
    X(asin, "dd") X(asinf, "ff") X(asinh, "dd") X(asinhf, "ff")                                    \
    X(atan, "dd") X(atanf, "ff") X(atanh, "dd") X(atanhf, "ff")                                    \
    X(cbrt, "dd") X(cbrtf, "ff") X(ceil, "dd") X(ceilf, "ff")                                      \
    X(cos, "dd") X(cosf, "ff") X(cosh, "dd") X(coshf, "ff")                                        \
    X(erf, "dd") X(erff, "ff") X(erfc, "dd") X(erfcf, "ff")                                        \
    X(exp, "dd") X(expf, "ff") X(exp2, "dd") X(exp2f, "ff")                                        \
    X(exp10, "dd") X(exp10f, "ff") X(expm1, "dd") X(expm1f, "ff")                                  \
    X(floor, "dd") X(floorf, "ff") X(lgamma, "dd") X(lgammaf, "ff")                                \
    X(log, "dd") X(logf, "ff") X(log10, "dd") X(log10f, "ff")                                      \
    X(log1p, "dd") X(log1pf, "ff") X(log2, "dd") X(log2f, "ff")                                    \
    X(nearbyint, "dd") X(nearbyintf, "ff") X(rint, "dd") X(rintf, "ff")                            \
    X(round, "dd") X(roundf, "ff") X(roundeven, "dd") X(roundevenf, "ff")                          \
    X(sin, "dd") X(sinf, "ff") X(sinh, "dd") X(sinhf, "ff")                                        \
    X(sqrt, "dd") X(sqrtf, "ff") X(tan, "dd") X(tanf, "ff")                                        \
    X(tanh, "dd") X(tanhf, "ff") X(tgamma, "dd") X(tgammaf, "ff")                                  \
    X(trunc, "dd") X(truncf, "ff")

#define TW_MATH_IMPORTS_2(X)                                                                       \
    X(atan2, "ddd") X(atan2f, "fff") X(fmax, "ddd") X(fmaxf, "fff")                                \
    X(fmin, "ddd") X(fminf, "fff") X(fmod, "ddd") X(fmodf, "fff")                                  \
    X(pow, "ddd") X(powf, "fff") X(remainder, "ddd") X(remainderf, "fff")

#endif
