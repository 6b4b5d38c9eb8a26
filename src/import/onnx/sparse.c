/* sparse.c: SparseTensorProto: constants of which only some elements are given, in order, become
 * ordinary ones. Their places are numbers in the whole tensor, or an index for each axis. */
#include "import/onnx/import.h"

#include "base/checked.h"
#include "ir/elem_data.h"

#include <string.h>

enum { MAX_DENSE_BYTES = 256 << 20 };

typedef struct sparse {
    tw_onnx *im;
    const Onnx__SparseTensorProto *proto;
    const char *name;
    tw_type type;        /* of the whole */
    size_t bytes;        /* of the whole */
    int64_t elements;    /* in the whole */
    const void *values;  /* n of them */
    const char *indices; /* i64, at any address: n, or n rows of one for each axis */
    int64_t n;
    bool linear;
} sparse;

static bool error(const sparse *s, const char *what)
{
    tw_gb_error(&s->im->g, "sparse tensor '%s': %s", s->name, what);
    return false;
}

static bool read_type(sparse *s, tw_elem elem)
{
    const Onnx__SparseTensorProto *p = s->proto;
    if (p->n_dims > TW_MAX_RANK)
        return error(s, "too many dimensions");
    for (size_t i = 0; i < p->n_dims; i++)
        if (p->dims[i] < 0)
            return error(s, "a negative size");
    if (!tw_product_i64(p->dims, (int)p->n_dims, &s->elements) ||
        !tw_elem_bytes(elem, (uint64_t)s->elements, &s->bytes) || s->bytes > MAX_DENSE_BYTES)
        return error(s, "with all its elements it takes more than 256 MB");
    if (elem == TW_STRING)
        return error(s, "strings are not supported");
    s->type = tw_type_tensor_static(s->im->ctx, elem, (unsigned)p->n_dims, p->dims);
    return true;
}

static bool read_parts(sparse *s)
{
    tw_type values, indices;
    size_t bytes;
    if (!s->proto->values || !s->proto->indices)
        return error(s, "values or indices are missing");
    s->values = tw_onnx_tensor_data(s->im, s->proto->values, s->name, &values, &bytes);
    if (!s->values || !read_type(s, values->elem))
        return false;
    s->indices = tw_onnx_tensor_data(s->im, s->proto->indices, s->name, &indices, &bytes);
    if (!s->indices)
        return false;
    if (values->rank != 1 || indices->elem != TW_I64 || indices->rank < 1 || indices->rank > 2)
        return error(s, "values are not [n], or indices not i64 of [n] or [n, rank]");
    s->linear = indices->rank == 1;
    tw_expr_as_const(values->dims[0], &s->n);
    if (indices->dims[0] != values->dims[0] ||
        (!s->linear && indices->dims[1] != tw_expr_const(s->im->ctx, s->type->rank)))
        return error(s, "the indices do not fit the values");
    return true;
}

static int64_t number(const sparse *s, int64_t i)
{
    int64_t n;
    memcpy(&n, s->indices + i * (int64_t)sizeof n, sizeof n);
    return n;
}

/* Where value i is in the whole, or -1. */
static int64_t place(const sparse *s, int64_t i)
{
    if (s->linear)
        return number(s, i) >= 0 && number(s, i) < s->elements ? number(s, i) : -1;
    int64_t at = 0;
    for (unsigned d = 0; d < s->type->rank; d++) {
        int64_t index = number(s, i * s->type->rank + d);
        if (index < 0 || index >= s->proto->dims[d])
            return -1;
        at = at * s->proto->dims[d] + index;
    }
    return at;
}

tw_value *tw_onnx_sparse_tensor(tw_onnx *im, const Onnx__SparseTensorProto *proto, const char *name)
{
    sparse s = {.im = im, .proto = proto, .name = name};
    if (!read_parts(&s))
        return NULL;
    unsigned char *data = tw_context_alloc(im->ctx, s.bytes + 1);
    memset(data, 0, s.bytes);
    for (int64_t i = 0, before = -1; i < s.n; i++) {
        int64_t at = place(&s, i);
        if (at <= before) {
            error(&s, at < 0 ? "an index out of range" : "the indices are not in ascending order");
            return NULL;
        }
        tw_elem_store(s.type->elem, data, (size_t)at,
                      tw_elem_load(s.type->elem, s.values, (size_t)i));
        before = at;
    }
    return tw_gb_constant(&im->g, s.type, data, s.bytes, *name ? name : NULL);
}
