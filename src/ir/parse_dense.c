/* parse_dense.c: constant tensors (print_dense.c shows the forms). The type stands behind the
 * elements but says how to read them, so it is read first. */
#include "ir/elem_data.h"
#include "ir/parse_impl.h"

#include <string.h>

/* All constants of one text that are longer than it: a few characters must not take all memory. */
static const size_t max_splat_bytes = (size_t)1 << 30;

typedef struct dense_parser {
    tw_parser *p;
    tw_type type;
    size_t count, size;
    void *data;
    size_t next; /* element */
} dense_parser;

/* ---- Elements ---- */

static bool parse_string_element(dense_parser *d)
{
    const char *text;
    if (!tw_q_string(d->p, &text))
        return false;
    ((const char **)d->data)[d->next] = text;
    return true;
}

static bool parse_bool_element(dense_parser *d)
{
    bool value = tw_ps_is(d->p, "true");
    if (!value && !tw_ps_is(d->p, "false"))
        return tw_ps_expected(d->p, "true or false");
    tw_ps_advance(d->p);
    tw_elem_store(TW_BOOL, d->data, d->next, value);
    return true;
}

static bool parse_int_element(dense_parser *d, tw_elem elem)
{
    tw_parser *p = d->p;
    tw_loc loc = tw_q_loc(p);
    bool negative = tw_q_try(p, "-");
    uint64_t magnitude;
    if (!tw_ps_magnitude(p, &magnitude))
        return false;
    unsigned value_bits = tw_elem_bits(elem) - tw_elem_is_signed(elem);
    uint64_t largest = UINT64_MAX >> (64 - value_bits);
    if (negative && magnitude && !tw_elem_is_signed(elem))
        return tw_ps_error_at(p, loc, "%s has no numbers below 0", tw_elem_name(elem));
    if (magnitude > largest && !(negative && magnitude == largest + 1))
        return tw_ps_error_at(p, loc, "the number does not fit in %s", tw_elem_name(elem));
    tw_elem_store(elem, d->data, d->next, negative ? -magnitude : magnitude);
    return true;
}

static bool parse_element(dense_parser *d)
{
    tw_elem elem = d->type->elem;
    bool good;
    if (elem == TW_STRING) {
        good = parse_string_element(d);
    } else if (elem == TW_BOOL) {
        good = parse_bool_element(d);
    } else if (tw_elem_is_float(elem)) {
        uint64_t bits;
        bool negative = tw_q_try(d->p, "-");
        good = tw_ps_float(d->p, elem, negative, &bits);
        if (good)
            tw_elem_store(elem, d->data, d->next, bits);
    } else {
        good = parse_int_element(d, elem);
    }
    d->next++;
    return good;
}

/* ---- Forms ---- */

/* The list of one axis; recursion is as deep as the rank. */
static bool parse_list(dense_parser *d, unsigned axis)
{
    if (axis == d->type->rank)
        return parse_element(d);
    tw_loc loc = tw_q_loc(d->p);
    int64_t size = tw_type_dim(d->type, axis), n = 0;
    if (!tw_q_expect(d->p, "["))
        return false;
    do {
        if (n++ == size)
            return tw_q_error(d->p, "axis %u has more than %lld entries here", axis,
                              (long long)size);
        if (!parse_list(d, axis + 1))
            return false;
    } while (tw_q_try(d->p, ","));
    if (n < size)
        return tw_ps_error_at(d->p, loc, "axis %u has %lld of its %lld entries here", axis,
                              (long long)n, (long long)size);
    return tw_q_expect(d->p, "]");
}

static void allocate(dense_parser *d)
{
    d->data = tw_context_alloc(d->p->ctx, d->size);
}

/* Copies the element that was read first to all others. */
static void repeat(dense_parser *d)
{
    tw_elem elem = d->type->elem;
    char *bytes = d->data;
    if (tw_elem_bits(elem) < 8) {
        uint64_t bits = tw_elem_load(elem, bytes, 0);
        for (size_t i = 1; i < d->count; i++)
            tw_elem_store(elem, bytes, i, bits);
        return;
    }
    size_t size = tw_elem_bits(elem) / 8;
    static const char zeroes[8];
    if (memcmp(bytes, zeroes, size)) /* fresh memory is zeroed, and perhaps not yet there */
        for (size_t done = size; done < d->size; done *= 2)
            memcpy(bytes + done, bytes, done < d->size - done ? done : d->size - done);
}

static bool parse_splat(dense_parser *d)
{
    tw_parser *p = d->p;
    if (!d->count)
        return tw_q_error(p, "a constant without elements is written dense<[]>");
    if (d->size > max_splat_bytes - p->splat_bytes)
        return tw_q_error(p, "constants with all elements equal take more than %zu bytes in all",
                          max_splat_bytes);
    p->splat_bytes += d->size;
    allocate(d);
    if (!parse_element(d))
        return false;
    repeat(d);
    return true;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_hex(dense_parser *d)
{
    tw_parser *p = d->p;
    tw_q_expect(p, "hex");
    if (p->token.kind != TW_TOKEN_STRING)
        return tw_ps_expected(p, "a string of hexadecimal digits");
    const char *digits = p->token.text + 1;
    size_t n = p->token.len - 2;
    if (d->type->elem == TW_STRING)
        return tw_q_error(p, "strings cannot be written as bytes");
    if (n % 2 || n / 2 != d->size)
        return tw_q_error(p, "expected %zu bytes (two digits each) for %s, not %zu digits", d->size,
                          tw_print_type(p->ctx, d->type), n);
    allocate(d);
    unsigned char *bytes = d->data;
    for (size_t i = 0; i < d->size; i++) {
        int high = hex_digit(digits[2 * i]), low = hex_digit(digits[2 * i + 1]);
        if (high < 0 || low < 0)
            return tw_q_error(p, "only digits 0-9 and a-f can stand in these bytes");
        bytes[i] = (unsigned char)(high * 16 + low);
    }
    tw_ps_advance(p);
    return true;
}

static bool parse_body(dense_parser *d)
{
    tw_parser *p = d->p;
    if (tw_ps_is(p, "elided"))
        return tw_q_error(p, "the elements were left out when this text was printed; print it "
                             "without eliding (--elide 0)");
    if (tw_ps_is(p, "hex"))
        return parse_hex(d);
    if (!tw_ps_is(p, "["))
        return parse_splat(d);
    if (!d->count)
        return tw_q_expect(p, "[") && tw_q_expect(p, "]");
    if (d->count >
        p->token.len + (size_t)(p->lexer.end - p->token.text)) /* a byte each, at least */
        return tw_q_error(p, "expected %zu elements for %s", d->count,
                          tw_print_type(p->ctx, d->type));
    if (!d->type->rank)
        return tw_q_error(p, "a constant of rank 0 is written without brackets");
    allocate(d);
    return parse_list(d, 0);
}

/* ---- The attribute ---- */

static bool skip_body(tw_parser *p)
{
    while (!tw_ps_is(p, ">")) {
        if (p->token.kind == TW_TOKEN_END || p->token.kind == TW_TOKEN_BAD)
            return tw_ps_expected(p, "'>' at the end of the constant");
        tw_ps_advance(p);
    }
    return true;
}

static bool parse_dense_type(dense_parser *d)
{
    tw_parser *p = d->p;
    tw_loc loc = tw_q_loc(p);
    int64_t count;
    if (!tw_q_type(p, &d->type))
        return false;
    if (d->type->kind != TW_TYPE_TENSOR || !tw_type_is_static(d->type))
        return tw_ps_error_at(p, loc, "the type of a constant is a tensor of known sizes");
    if (!tw_type_static_count(d->type, &count) ||
        !tw_elem_bytes(d->type->elem, (uint64_t)count, &d->size))
        return tw_ps_error_at(p, loc, "the constant is too large");
    d->count = (size_t)count;
    return true;
}

bool tw_ps_dense(tw_parser *p, tw_attr *out)
{
    dense_parser d = {.p = p};
    if (!tw_q_expect(p, "<"))
        return false;
    tw_parse_mark body = tw_ps_mark(p);
    if (!skip_body(p) || !tw_q_expect(p, ">") || !tw_q_expect(p, ":") || !parse_dense_type(&d))
        return false;
    tw_parse_mark behind = tw_ps_mark(p);
    tw_ps_reset(p, body);
    if (!parse_body(&d) || !tw_q_expect(p, ">"))
        return false;
    tw_ps_reset(p, behind);
    *out = tw_attr_dense(p->ctx, d.type, d.data, d.size);
    return true;
}
