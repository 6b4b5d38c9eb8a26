/* elem.c: the table of element types. */
#include "tilewright/ir.h"

#include <string.h>

typedef enum { FLOATING, SIGNED, UNSIGNED, OTHER } category;

static const struct {
    const char *name;
    unsigned bits;
    category category;
} elems[TW_ELEM_COUNT] = {
    [TW_F64] = {"f64", 64, FLOATING},
    [TW_F32] = {"f32", 32, FLOATING},
    [TW_F16] = {"f16", 16, FLOATING},
    [TW_BF16] = {"bf16", 16, FLOATING},
    [TW_F8E4M3FN] = {"f8e4m3fn", 8, FLOATING},
    [TW_F8E5M2] = {"f8e5m2", 8, FLOATING},
    [TW_I64] = {"i64", 64, SIGNED},
    [TW_I32] = {"i32", 32, SIGNED},
    [TW_I16] = {"i16", 16, SIGNED},
    [TW_I8] = {"i8", 8, SIGNED},
    [TW_U64] = {"u64", 64, UNSIGNED},
    [TW_U32] = {"u32", 32, UNSIGNED},
    [TW_U16] = {"u16", 16, UNSIGNED},
    [TW_U8] = {"u8", 8, UNSIGNED},
    [TW_I4] = {"i4", 4, SIGNED},
    [TW_U4] = {"u4", 4, UNSIGNED},
    [TW_BOOL] = {"bool", 8, OTHER},
    [TW_STRING] = {"string", 64, OTHER},
    [TW_INDEX] = {"index", 64, SIGNED},
    [TW_F8E4M3FNUZ] = {"f8e4m3fnuz", 8, FLOATING},
    [TW_F8E5M2FNUZ] = {"f8e5m2fnuz", 8, FLOATING},
    [TW_F8E8M0FNU] = {"f8e8m0fnu", 8, FLOATING},
    [TW_F4E2M1FN] = {"f4e2m1fn", 4, FLOATING},
    [TW_I2] = {"i2", 2, SIGNED},
    [TW_U2] = {"u2", 2, UNSIGNED},
};

const char *tw_elem_name(tw_elem e)
{
    return elems[e].name;
}

bool tw_elem_parse(const char *text, size_t len, tw_elem *out)
{
    for (int e = 0; e < TW_ELEM_COUNT; e++)
        if (strlen(elems[e].name) == len && !memcmp(elems[e].name, text, len)) {
            *out = (tw_elem)e;
            return true;
        }
    return false;
}

unsigned tw_elem_bits(tw_elem e)
{
    return elems[e].bits;
}

bool tw_elem_is_float(tw_elem e)
{
    return elems[e].category == FLOATING;
}

bool tw_elem_is_int(tw_elem e)
{
    return elems[e].category == SIGNED || elems[e].category == UNSIGNED;
}

bool tw_elem_is_signed(tw_elem e)
{
    return elems[e].category == SIGNED || elems[e].category == FLOATING;
}
