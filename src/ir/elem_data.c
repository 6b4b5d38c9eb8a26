/* elem_data.c: reading and writing single elements of constant data. */
#include "ir/elem_data.h"

#include "base/minifloat.h"

#include <string.h>

uint64_t tw_elem_load(tw_elem elem, const void *data, size_t i)
{
    unsigned bits = tw_elem_bits(elem);
    const unsigned char *bytes = data;
    if (bits < 8) {
        size_t per = 8 / bits;
        return (uint64_t)bytes[i / per] >> (i % per * bits) & ((1u << bits) - 1);
    }
    uint64_t value = 0;
    memcpy(&value, bytes + i * (bits / 8), bits / 8);
    return value;
}

void tw_elem_store(tw_elem elem, void *data, size_t i, uint64_t value)
{
    unsigned bits = tw_elem_bits(elem);
    unsigned char *bytes = data;
    if (bits < 8) {
        size_t per = 8 / bits;
        unsigned shift = (unsigned)(i % per) * bits, mask = (1u << bits) - 1;
        unsigned rest = bytes[i / per] & ~(mask << shift);
        bytes[i / per] = (unsigned char)(rest | ((unsigned)value & mask) << shift);
    } else {
        memcpy(bytes + i * (bits / 8), &value, bits / 8);
    }
}

static tw_minifloat format_of(tw_elem elem)
{
    switch (elem) {
    case TW_F16:
        return tw_minifloat_f16;
    case TW_BF16:
        return tw_minifloat_bf16;
    case TW_F8E4M3FN:
        return tw_minifloat_f8e4m3fn;
    case TW_F8E4M3FNUZ:
        return tw_minifloat_f8e4m3fnuz;
    case TW_F8E5M2FNUZ:
        return tw_minifloat_f8e5m2fnuz;
    case TW_F4E2M1FN:
        return tw_minifloat_f4e2m1fn;
    default:
        return tw_minifloat_f8e5m2;
    }
}

double tw_elem_to_double(tw_elem elem, uint64_t bits)
{
    if (elem == TW_F64) {
        double value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    if (elem == TW_F32) {
        float value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    if (elem == TW_F8E8M0FNU)
        return tw_e8m0_decode((uint32_t)bits);
    return tw_minifloat_decode(format_of(elem), (uint32_t)bits);
}

uint64_t tw_elem_from_double(tw_elem elem, double value)
{
    uint64_t bits = 0;
    if (elem == TW_F64) {
        memcpy(&bits, &value, sizeof value);
        return bits;
    }
    if (elem == TW_F32) {
        float narrow = (float)value;
        memcpy(&bits, &narrow, sizeof narrow);
        return bits;
    }
    if (elem == TW_F8E8M0FNU)
        return tw_e8m0_encode(value);
    return tw_minifloat_encode(format_of(elem), value);
}

int64_t tw_elem_to_int(tw_elem elem, uint64_t bits)
{
    unsigned width = tw_elem_bits(elem);
    if (!tw_elem_is_signed(elem) || width == 64)
        return (int64_t)bits;
    uint64_t sign = 1ull << (width - 1);
    return (int64_t)((bits ^ sign) - sign);
}

bool tw_elem_bytes(tw_elem elem, uint64_t count, size_t *out)
{
    uint64_t bits;
    if (__builtin_mul_overflow(count, tw_elem_bits(elem), &bits) || bits > SIZE_MAX - 7)
        return false;
    *out = (size_t)((bits + 7) / 8);
    return true;
}

bool tw_dense_count(tw_attr attr, size_t *count)
{
    tw_type type = attr->u.dense.type;
    int64_t n;
    size_t size;
    if (!type || type->kind != TW_TYPE_TENSOR || !tw_type_static_count(type, &n) || n < 0 ||
        !tw_elem_bytes(type->elem, (uint64_t)n, &size) || size != attr->u.dense.size)
        return false;
    *count = (size_t)n;
    return true;
}
