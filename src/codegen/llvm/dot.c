/* dot.c: loop.dot4: products of bytes, four at a time, summed into 32 bits.
 *
 *     %d = loop.dot4 %a, %b, %c : vec<16xi32>   ->   vpdpbusd zmm_c, zmm_a, zmm_b
 *
 * x86-64 without that instruction multiplies 16-bit halves (pmaddwd), bytes widened first:
 * pmaddubsw would saturate its sums of two products. Elsewhere bytes are taken out by shifts. All
 * of it is exact modulo 2^32 (Intel SDM volume 2, VPDPBUSD and PMADDWD). */
#include "codegen/llvm/cg.h"

/* An x86 intrinsic of one vector width. */
typedef struct form {
    unsigned bits;
    const char *dot, *madd;
} form;
static const form forms[] = {
    {512, "llvm.x86.avx512.vpdpbusd.512", "llvm.x86.avx512.pmaddw.d.512"},
    {256, "llvm.x86.avx512.vpdpbusd.256", "llvm.x86.avx2.pmadd.wd"},
    {128, "llvm.x86.avx512.vpdpbusd.128", "llvm.x86.sse2.pmadd.wd"},
};

/* Byte i of each lane, at the low end. */
static LLVMValueRef byte_of(tw_cg *cg, LLVMValueRef v, unsigned i, bool is_signed)
{
    LLVMTypeRef type = LLVMTypeOf(v);
    LLVMValueRef up = LLVMBuildShl(cg->b, v, tw_cg_int(type, 24 - 8 * (int)i), "");
    LLVMValueRef down = tw_cg_int(type, 24);
    return is_signed ? LLVMBuildAShr(cg->b, up, down, "") : LLVMBuildLShr(cg->b, up, down, "");
}

static LLVMValueRef by_bytes(tw_cg *cg, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    for (unsigned i = 0; i < 4; i++)
        c = LLVMBuildAdd(cg->b, c,
                         LLVMBuildMul(cg->b, byte_of(cg, a, i, false), byte_of(cg, b, i, true), ""),
                         "");
    return c;
}

/* The bytes at even or odd places of a vector as 16-bit numbers. */
static LLVMValueRef halves(tw_cg *cg, LLVMValueRef v, unsigned lanes, bool odd, bool is_signed)
{
    LLVMTypeRef type = LLVMVectorType(LLVMInt16TypeInContext(cg->llvm), 2 * lanes);
    LLVMValueRef eight = tw_cg_int(type, 8);
    v = LLVMBuildBitCast(cg->b, v, type, "");
    if (!odd)
        v = LLVMBuildShl(cg->b, v, eight, "");
    return is_signed ? LLVMBuildAShr(cg->b, v, eight, "") : LLVMBuildLShr(cg->b, v, eight, "");
}

/* Whole vectors of a form's width. */
static LLVMValueRef by_vectors(tw_cg *cg, const form *f, LLVMValueRef a, LLVMValueRef b,
                               LLVMValueRef c)
{
    unsigned lanes = f->bits / 32;
    if (cg->target->dot_i8) {
        LLVMValueRef values[] = {c, a, b};
        return tw_cg_intrinsic(cg, f->dot, NULL, 0, values, 3);
    }
    for (unsigned odd = 0; odd < 2; odd++) {
        LLVMValueRef values[] = {halves(cg, a, lanes, odd, false), halves(cg, b, lanes, odd, true)};
        c = LLVMBuildAdd(cg->b, c, tw_cg_intrinsic(cg, f->madd, NULL, 0, values, 2), "");
    }
    return c;
}

/* The widest form that fits `lanes` lanes, halved some times; or NULL. */
static const form *form_for(const tw_cg *cg, unsigned lanes)
{
    bool fits = cg->target->arch == TW_ARCH_X86_64 && (lanes & (lanes - 1)) == 0;
    for (size_t i = 0; fits && i < sizeof forms / sizeof *forms; i++)
        if (forms[i].bits <= cg->target->vector_bits && forms[i].bits / 32 <= lanes)
            return &forms[i];
    return NULL;
}

LLVMValueRef tw_cg_dot4(tw_cg *cg, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    LLVMTypeRef type = LLVMTypeOf(c);
    unsigned lanes = LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetVectorSize(type) : 1;
    const form *f = form_for(cg, lanes);
    if (!f)
        return by_bytes(cg, a, b, c);
    if (f->bits / 32 == lanes)
        return by_vectors(cg, f, a, b, c);
    LLVMValueRef part[2];
    unsigned half = lanes / 2;
    for (unsigned i = 0; i < 2; i++) {
        int first = (int)(i * half);
        part[i] = tw_cg_dot4(cg, tw_cg_shuffle(cg, a, NULL, half, first, 1),
                             tw_cg_shuffle(cg, b, NULL, half, first, 1),
                             tw_cg_shuffle(cg, c, NULL, half, first, 1));
    }
    return tw_cg_shuffle(cg, part[0], part[1], lanes, 0, 1);
}
