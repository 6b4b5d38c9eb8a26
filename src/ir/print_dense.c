/* print_dense.c: constant tensors as text.
 *
 *     dense<1.5> : tensor<4x8xf32>                 all elements equal
 *     dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>    up to TW_DENSE_LIST_MAX elements
 *     dense<hex "0000803f…"> : tensor<1000xf32>    the bytes as they lie in memory */
#include "ir/elem_data.h"
#include "ir/print_impl.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* For tw_text_float: whether the decimal text gives the same element. */
typedef struct element {
    tw_elem elem;
    uint64_t bits;
} element;

static bool same_element(double parsed, const void *data)
{
    const element *e = data;
    return tw_elem_from_double(e->elem, parsed) == e->bits;
}

static void print_float(tw_printer *p, tw_elem elem, uint64_t bits)
{
    double value = tw_elem_to_double(elem, bits);
    if (isnan(value)) {
        if (bits == tw_elem_from_double(elem, NAN))
            tw_pr_text(p, "nan");
        else
            tw_p_text(p, "nan(\"0x%0*" PRIx64 "\")", (int)tw_elem_bits(elem) / 4, bits);
        return;
    }
    if (isinf(value)) {
        tw_pr_text(p, value < 0 ? "-inf" : "inf");
        return;
    }
    char text[TW_FLOAT_TEXT];
    tw_text_float(value, text, same_element, &(element){elem, bits});
    tw_pr_text(p, text);
}

void tw_pr_double(tw_printer *p, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    print_float(p, TW_F64, bits);
}

static void print_element(tw_printer *p, tw_attr attr, size_t i)
{
    tw_elem elem = attr->u.dense.type->elem;
    if (elem == TW_STRING) {
        const char *text = ((const char *const *)attr->u.dense.data)[i];
        tw_pr_string(p, text ? text : "", text ? strlen(text) : 0);
        return;
    }
    uint64_t bits = tw_elem_load(elem, attr->u.dense.data, i);
    if (elem == TW_BOOL)
        tw_pr_text(p, bits ? "true" : "false");
    else if (tw_elem_is_float(elem))
        print_float(p, elem, bits);
    else if (tw_elem_is_signed(elem))
        tw_p_text(p, "%" PRId64, tw_elem_to_int(elem, bits));
    else
        tw_p_text(p, "%" PRIu64, bits);
}

/* `[` for each dimension that begins at element i, and `]` for each that ends after it. */
static void print_list(tw_printer *p, tw_attr attr, size_t count)
{
    tw_type type = attr->u.dense.type;
    for (size_t i = 0; i < count; i++) {
        if (i)
            tw_pr_text(p, ", ");
        size_t block = 1;
        unsigned opening = 0, closing = 0;
        for (unsigned d = type->rank; d-- > 0;) {
            block *= (size_t)tw_type_dim(type, d);
            opening += i % block == 0;
            closing += (i + 1) % block == 0;
        }
        while (opening--)
            tw_pr_text(p, "[");
        print_element(p, attr, i);
        while (closing--)
            tw_pr_text(p, "]");
    }
}

static void print_hex(tw_printer *p, const unsigned char *bytes, size_t size)
{
    static const char digits[] = "0123456789abcdef";
    tw_pr_text(p, "hex \"");
    char chunk[512];
    for (size_t at = 0; at < size;) {
        size_t n = 0;
        for (; n < sizeof chunk && at < size; at++) {
            chunk[n++] = digits[bytes[at] >> 4];
            chunk[n++] = digits[bytes[at] & 15];
        }
        tw_pr_bytes(p, chunk, n);
    }
    tw_pr_text(p, "\"");
}

static bool is_splat(tw_attr attr, size_t count)
{
    tw_elem elem = attr->u.dense.type->elem;
    const char *data = attr->u.dense.data;
    if (elem == TW_STRING) {
        const char *const *strings = attr->u.dense.data;
        for (size_t i = 0; i < count; i++)
            if (!strings[i] || strcmp(strings[i], strings[0]))
                return false;
        return true;
    }
    if (tw_elem_bits(elem) >= 8) {
        size_t size = tw_elem_bits(elem) / 8;
        return !memcmp(data, data + size, (count - 1) * size);
    }
    for (size_t i = 1; i < count; i++)
        if (tw_elem_load(elem, data, i) != tw_elem_load(elem, data, 0))
            return false;
    return true;
}

/* Elements that no text stands for: a bool that is neither 0 nor 1, bits to spare in the last byte
 * that are not 0. */
static bool only_as_bytes(tw_attr attr, size_t count)
{
    const unsigned char *bytes = attr->u.dense.data;
    tw_elem elem = attr->u.dense.type->elem;
    if (elem == TW_BOOL)
        for (size_t i = 0; i < count; i++)
            if (bytes[i] > 1)
                return true;
    size_t used = tw_elem_bits(elem) < 8 ? count * tw_elem_bits(elem) % 8 : 0;
    return used && bytes[attr->u.dense.size - 1] >> used;
}

static void print_body(tw_printer *p, tw_attr attr)
{
    size_t size = attr->u.dense.size, count;
    bool whole = tw_dense_count(attr, &count);
    bool text = attr->u.dense.type && attr->u.dense.type->elem == TW_STRING;
    bool nothing = size && (!attr->u.dense.data || (text && !whole));
    if (nothing || (p->options.elide && size > p->options.elide))
        tw_pr_text(p, "elided");
    else if (whole && !count)
        tw_pr_text(p, "[]");
    else if (!whole || (!text && only_as_bytes(attr, count)))
        print_hex(p, attr->u.dense.data, size);
    else if (is_splat(attr, count))
        print_element(p, attr, 0);
    else if (text || count <= TW_DENSE_LIST_MAX)
        print_list(p, attr, count);
    else
        print_hex(p, attr->u.dense.data, size);
}

void tw_pr_dense(tw_printer *p, tw_attr attr)
{
    tw_pr_text(p, "dense<");
    print_body(p, attr);
    tw_pr_text(p, "> : ");
    tw_p_type(p, attr->u.dense.type);
}
