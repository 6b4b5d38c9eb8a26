/* elem.h: element types of tensors, shared by compiler, runtime and compiled models. */
#ifndef TILEWRIGHT_ELEM_H
#define TILEWRIGHT_ELEM_H

/* X(enum suffix, name, bits of storage). The numbers are part of the model ABI: append only. */
#define TW_ELEMS(X)                                                                                \
    X(F64, "f64", 64)                                                                              \
    X(F32, "f32", 32)                                                                              \
    X(F16, "f16", 16)                                                                              \
    X(BF16, "bf16", 16)                                                                            \
    X(F8E4M3FN, "f8e4m3fn", 8)                                                                     \
    X(F8E5M2, "f8e5m2", 8)                                                                         \
    X(I64, "i64", 64)                                                                              \
    X(I32, "i32", 32)                                                                              \
    X(I16, "i16", 16)                                                                              \
    X(I8, "i8", 8)                                                                                 \
    X(U64, "u64", 64)                                                                              \
    X(U32, "u32", 32)                                                                              \
    X(U16, "u16", 16)                                                                              \
    X(U8, "u8", 8)                                                                                 \
    X(I4, "i4", 4) /* two in a byte, the first one in the low half */                              \
    X(U4, "u4", 4)                                                                                 \
    X(BOOL, "bool", 8)             /* one byte, 0 or 1 */                                          \
    X(STRING, "string", 64)        /* a pointer to zero-terminated UTF-8 */                        \
    X(INDEX, "index", 64)          /* 64-bit signed size or index; inside the compiler only */     \
    X(F8E4M3FNUZ, "f8e4m3fnuz", 8) /* one zero, one NaN, no infinities */                          \
    X(F8E5M2FNUZ, "f8e5m2fnuz", 8)                                                                 \
    X(F8E8M0FNU, "f8e8m0fnu", 8) /* a power of two, without sign */                                \
    X(F4E2M1FN, "f4e2m1fn", 4)   /* finite */                                                      \
    X(I2, "i2", 2)               /* four in a byte, the first one lowest */                        \
    X(U2, "u2", 2)

typedef enum tw_elem {
#define TW_ELEM_ENUM(suffix, name, bits) TW_##suffix,
    TW_ELEMS(TW_ELEM_ENUM)
#undef TW_ELEM_ENUM
        TW_ELEM_COUNT,
} tw_elem;

#endif
