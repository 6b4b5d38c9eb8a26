/* math.h: what the files of mathematical functions share: short names for building LLVM code on a
 * vector (or scalar) of floats. */
#ifndef TW_CODEGEN_LLVM_MATH_H
#define TW_CODEGEN_LLVM_MATH_H

#include "codegen/llvm/cg.h"

typedef struct tw_math {
    tw_cg *cg;
    LLVMBuilderRef b;
    LLVMTypeRef real, integer; /* of one shape and width */
} tw_math;

tw_math tw_math_on(tw_cg *cg, LLVMTypeRef real);
LLVMValueRef tw_math_real(const tw_math *m, double value);
LLVMValueRef tw_math_int(const tw_math *m, int64_t value);
LLVMValueRef tw_math_bits(const tw_math *m, LLVMValueRef real);  /* as integers */
LLVMValueRef tw_math_float(const tw_math *m, LLVMValueRef bits); /* and back */
/* c[0] + x * (c[1] + x * (...)), n coefficients. */
LLVMValueRef tw_math_poly(const tw_math *m, LLVMValueRef x, const double *c, unsigned n);
/* x where the comparison `x pred bound` fails, NaN included; else bound. */
LLVMValueRef tw_math_clamp(const tw_math *m, LLVMValueRef x, LLVMRealPredicate pred, double bound);
LLVMValueRef tw_math_select(const tw_math *m, LLVMValueRef condition, LLVMValueRef a,
                            LLVMValueRef b);
LLVMValueRef tw_math_copysign(const tw_math *m, LLVMValueRef magnitude, LLVMValueRef sign);
/* x rounded to an integer, for |x| below 2^22 (f32) or 2^51 (f64); *bits gets the integer in the
 * low bits (NULL: not wanted). */
LLVMValueRef tw_math_round(const tw_math *m, LLVMValueRef x, LLVMValueRef *bits);

/* Own implementations for f32; a is m->real, the result too. */
LLVMValueRef tw_math_exp(const tw_math *m, LLVMValueRef x);
LLVMValueRef tw_math_log(const tw_math *m, LLVMValueRef x);
LLVMValueRef tw_math_tanh(const tw_math *m, LLVMValueRef x);
LLVMValueRef tw_math_erf(const tw_math *m, LLVMValueRef x);
LLVMValueRef tw_math_sin(const tw_math *m, LLVMValueRef x);
LLVMValueRef tw_math_cos(const tw_math *m, LLVMValueRef x);
LLVMValueRef tw_math_pow(const tw_math *m, LLVMValueRef x, LLVMValueRef y);

/* The host's function on each lane. */
LLVMValueRef tw_cg_libm(tw_cg *cg, tw_loop_kind kind, LLVMValueRef a, LLVMValueRef b);

#endif
