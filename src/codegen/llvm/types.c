/* types.c: LLVM types, constants, intrinsics and attributes in the few forms that the code
 * generator needs. */
#include "codegen/llvm/cg.h"

#include <string.h>

LLVMTypeRef tw_cg_elem(tw_cg *cg, tw_elem elem)
{
    switch (elem) {
    case TW_F64:
        return cg->f64;
    case TW_F32:
        return cg->f32;
    case TW_F16:
        return cg->half;
    case TW_BOOL:
        return cg->i1;
    case TW_STRING: /* an address, which is only moved */
    case TW_I64:
    case TW_U64:
    case TW_INDEX:
        return cg->i64;
    case TW_I32:
    case TW_U32:
        return cg->i32;
    case TW_BF16:
    case TW_I16:
    case TW_U16:
        return cg->i16;
    default:
        return cg->i8;
    }
}

LLVMTypeRef tw_cg_storage(tw_cg *cg, tw_elem elem)
{
    return elem == TW_BOOL ? cg->i8 : tw_cg_elem(cg, elem);
}

LLVMTypeRef tw_cg_vector(LLVMTypeRef t, unsigned lanes)
{
    return lanes ? LLVMVectorType(t, lanes) : t;
}

unsigned tw_cg_llvm_lanes(LLVMTypeRef t)
{
    return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetVectorSize(t) : 0;
}

LLVMTypeRef tw_cg_like(LLVMTypeRef t, LLVMTypeRef like)
{
    return tw_cg_vector(t, tw_cg_llvm_lanes(like));
}

LLVMTypeRef tw_cg_scalar(LLVMTypeRef t)
{
    return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t;
}

unsigned tw_cg_lanes(tw_type type)
{
    return type->kind == TW_TYPE_VECTOR ? (unsigned)tw_type_dim(type, 0) : 0;
}

LLVMTypeRef tw_cg_type(tw_cg *cg, tw_type type)
{
    if (type->kind == TW_TYPE_BUFFER)
        return cg->ptr;
    return tw_cg_vector(tw_cg_elem(cg, type->elem), tw_cg_lanes(type));
}

/* ---- Constants ---- */

static LLVMValueRef splat_const(LLVMValueRef scalar, unsigned lanes)
{
    LLVMValueRef all[TW_CG_MAX_LANES];
    for (unsigned i = 0; i < lanes; i++)
        all[i] = scalar;
    return lanes ? LLVMConstVector(all, lanes) : scalar;
}

LLVMValueRef tw_cg_int(LLVMTypeRef t, int64_t value)
{
    LLVMValueRef scalar = LLVMConstInt(tw_cg_scalar(t), (uint64_t)value, true);
    return splat_const(scalar, tw_cg_llvm_lanes(t));
}

LLVMValueRef tw_cg_real(LLVMTypeRef t, double value)
{
    return splat_const(LLVMConstReal(tw_cg_scalar(t), value), tw_cg_llvm_lanes(t));
}

LLVMValueRef tw_cg_i64(tw_cg *cg, int64_t value)
{
    return LLVMConstInt(cg->i64, (uint64_t)value, true);
}

LLVMValueRef tw_cg_iota(LLVMTypeRef scalar, unsigned lanes, int64_t first, int64_t step)
{
    LLVMValueRef all[TW_CG_MAX_LANES];
    for (unsigned i = 0; i < lanes; i++)
        all[i] = LLVMConstInt(scalar, (uint64_t)first + i * (uint64_t)step, true);
    return LLVMConstVector(all, lanes);
}

LLVMValueRef tw_cg_splat(tw_cg *cg, LLVMValueRef scalar, unsigned lanes)
{
    if (!lanes || LLVMGetTypeKind(LLVMTypeOf(scalar)) == LLVMVectorTypeKind)
        return scalar;
    if (LLVMIsConstant(scalar))
        return splat_const(scalar, lanes);
    LLVMTypeRef type = LLVMVectorType(LLVMTypeOf(scalar), lanes);
    LLVMValueRef poison = LLVMGetPoison(type);
    LLVMValueRef first =
        LLVMBuildInsertElement(cg->b, poison, scalar, LLVMConstInt(cg->i32, 0, false), "");
    return LLVMBuildShuffleVector(cg->b, first, poison,
                                  tw_cg_int(LLVMVectorType(cg->i32, lanes), 0), "");
}

LLVMValueRef tw_cg_shuffle(tw_cg *cg, LLVMValueRef a, LLVMValueRef b, unsigned lanes, int first,
                           int step)
{
    return LLVMBuildShuffleVector(cg->b, a, b ? b : LLVMGetPoison(LLVMTypeOf(a)),
                                  tw_cg_iota(cg->i32, lanes, first, step), "");
}

/* ---- Intrinsics ---- */

LLVMValueRef tw_cg_intrinsic(tw_cg *cg, const char *name, const LLVMTypeRef *types, unsigned n,
                             LLVMValueRef *args, unsigned n_args)
{
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMTypeRef *overloads = (LLVMTypeRef *)types;
    LLVMValueRef function = LLVMGetIntrinsicDeclaration(cg->module, id, overloads, n);
    LLVMTypeRef type = LLVMIntrinsicGetType(cg->llvm, id, overloads, n);
    return LLVMBuildCall2(cg->b, type, function, args, n_args, "");
}

LLVMValueRef tw_cg_intrinsic1(tw_cg *cg, const char *name, LLVMValueRef a)
{
    return tw_cg_intrinsic(cg, name, (LLVMTypeRef[]){LLVMTypeOf(a)}, 1, &a, 1);
}

LLVMValueRef tw_cg_intrinsic2(tw_cg *cg, const char *name, LLVMValueRef a, LLVMValueRef b)
{
    return tw_cg_intrinsic(cg, name, (LLVMTypeRef[]){LLVMTypeOf(a)}, 1, (LLVMValueRef[]){a, b}, 2);
}

/* ---- Attributes ---- */

void tw_cg_attribute(tw_cg *cg, LLVMValueRef function, LLVMAttributeIndex at, const char *name,
                     uint64_t value)
{
    unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    LLVMAddAttributeAtIndex(function, at, LLVMCreateEnumAttribute(cg->llvm, kind, value));
}

static void text_attribute(tw_cg *cg, LLVMValueRef function, const char *name, const char *value)
{
    LLVMAttributeRef attribute = LLVMCreateStringAttribute(cg->llvm, name, (unsigned)strlen(name),
                                                           value, (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(function, LLVMAttributeFunctionIndex, attribute);
}

void tw_cg_function_attributes(tw_cg *cg, LLVMValueRef function)
{
    const tw_target *t = cg->target;
    const char *bits = tw_arena_printf(cg->arena, "%u", t->vector_bits);
    tw_cg_attribute(cg, function, LLVMAttributeFunctionIndex, "nounwind", 0);
    text_attribute(cg, function, "target-cpu", t->level);
    text_attribute(cg, function, "target-features", t->features);
    if (t->tune)
        text_attribute(cg, function, "tune-cpu", t->tune);
    /* Some processors prefer 256-bit vectors by LLVM's tables; the schedule has decided. */
    text_attribute(cg, function, "prefer-vector-width", bits);
    text_attribute(cg, function, "min-legal-vector-width", bits);
}
