/* op_ms_nbits.c: MatMulNBits and GatherBlockQuantized, weights of 2, 4 or 8 bits in blocks that
 * each have a scale and a zero point.
 *
 * Constants of packed bits become constants of that element type, of the same bytes. */
#include "import/onnx/import.h"

#include <string.h>

/* Bytes as numbers of 2, 4 or 8 bits, of that shape; the first one in the lowest bits. */
static tw_value *unpack(tw_gb *g, tw_value *x, int64_t bits, unsigned rank, const tw_expr *dims)
{
    static const unsigned char shifts[] = {0, 2, 4, 6};
    if (!x || bits == 8)
        return tw_gb_reshape(g, x, rank, dims);
    tw_attr data = tw_graph_constant_value(x);
    tw_elem elem = bits == 4 ? TW_U4 : TW_U2;
    if (data)
        return tw_gb_constant(g, tw_type_tensor(g->ctx, elem, rank, dims, NULL), data->u.dense.data,
                              data->u.dense.size, NULL);
    unsigned step = bits == 4 ? 2 : 1, count = (unsigned)(8 / bits);
    unsigned char *list = tw_context_alloc(g->ctx, count);
    for (unsigned i = 0; i < count; i++)
        list[i] = shifts[i * step];
    tw_type type = tw_type_tensor_static(g->ctx, TW_U8, 1, (int64_t[]){count});
    x = tw_gb_unsqueeze(g, x, 1u << x->type->rank);
    x = tw_gb_binary(g, TW_GRAPH_SHIFT_RIGHT, x, tw_gb_constant(g, type, list, count, NULL));
    x = tw_gb_binary_scalar(g, TW_GRAPH_AND, x, (double)((1 << bits) - 1));
    return tw_gb_reshape(g, x, rank, dims);
}

/* ---- MatMulNBits ---- */

enum { A, B, SCALES, ZEROS, GROUPS, BIAS };

typedef struct nbits {
    tw_onnx_node *n;
    tw_gb *g;
    int64_t k, columns, bits, block, blocks;
    tw_elem elem;
} nbits;

static bool read_nbits(nbits *a)
{
    bool ok = true;
    tw_onnx_node *n = a->n;
    a->k = tw_onnx_int(n, "K", 0, &ok);
    a->columns = tw_onnx_int(n, "N", 0, &ok);
    a->bits = tw_onnx_int(n, "bits", 4, &ok);
    a->block = tw_onnx_int(n, "block_size", 0, &ok);
    if (!ok)
        return false;
    if (tw_onnx_int(n, "weight_prepacked", 0, &ok))
        return tw_onnx_error(n, "weights in the layout of another processor");
    if (a->k <= 0 || a->columns <= 0 || a->k > INT32_MAX || a->columns > INT32_MAX ||
        (a->bits != 2 && a->bits != 4 && a->bits != 8) || a->block < 8 || a->block > INT32_MAX ||
        a->block % 8)
        return tw_onnx_error(n, "K %lld, N %lld, %lld bits, blocks of %lld", (long long)a->k,
                             (long long)a->columns, (long long)a->bits, (long long)a->block);
    a->blocks = (a->k + a->block - 1) / a->block;
    a->elem = n->in[A]->type->elem;
    return ok;
}

/* Whether input i has `rows` entries for each column; vectors of all of them are accepted. */
static bool check_count(nbits *a, unsigned i, int64_t each)
{
    const tw_value *v = tw_onnx_in(a->n, i);
    tw_expr wanted = tw_gb_const(a->g, each * a->columns);
    return !v || !tw_gb_differ(a->g, tw_gb_product(a->g, v->type->dims, v->type->rank), wanted) ||
           tw_onnx_error(a->n, "input %u is %s; %lld elements for each of %lld columns are needed",
                         i, tw_gb_type_text(a->g, v->type), (long long)each, (long long)a->columns);
}

/* [columns, blocks, 1] zero points, in A's type: packed like the weights, each column in whole
 * bytes; as they are; or the middle. */
static tw_value *zero_points(nbits *a)
{
    tw_gb *g = a->g;
    tw_value *zeros = tw_onnx_in(a->n, ZEROS);
    tw_expr columns = tw_gb_const(g, a->columns), one = tw_gb_const(g, 1);
    tw_expr blocks = tw_gb_const(g, a->blocks), dims[3] = {columns, blocks, one};
    if (!zeros)
        return tw_gb_scalar(g, a->elem, (double)(1 << (a->bits - 1)));
    if (zeros->type->elem != TW_U8)
        return check_count(a, ZEROS, a->blocks)
                   ? tw_gb_reshape(g, tw_gb_cast(g, zeros, a->elem), 3, dims)
                   : NULL;
    int64_t bytes = (a->blocks * a->bits + 7) / 8;
    if (!check_count(a, ZEROS, bytes))
        return NULL;
    tw_expr all[2] = {columns, tw_gb_const(g, bytes * 8 / a->bits)};
    zeros = tw_gb_slice_axis(g, unpack(g, zeros, a->bits, 2, all), 1, tw_gb_const(g, 0), 1, blocks);
    return tw_gb_reshape(g, tw_gb_cast(g, zeros, a->elem), 3, dims);
}

/* The numbers of blocks that the rows of the weights belong to, given by g_idx: scales or zero
 * points [columns, blocks, 1] as [columns, k]. */
static tw_value *by_group(nbits *a, tw_value *v)
{
    tw_gb *g = a->g;
    tw_value *groups = a->n->in[GROUPS];
    if (!v || v->type->rank == 0)
        return v;
    tw_expr dims[2] = {v->type->dims[0], v->type->dims[1]};
    groups = tw_gb_slice_axis(g, groups, 0, tw_gb_const(g, 0), 1, tw_gb_const(g, a->k));
    return tw_gb_gather(g, tw_gb_reshape(g, v, 2, dims), groups, 1);
}

/* The weights as numbers of A's type, [columns, k]. */
static tw_value *weights(nbits *a)
{
    tw_gb *g = a->g;
    tw_expr columns = tw_gb_const(g, a->columns), blocks = tw_gb_const(g, a->blocks);
    tw_expr dims[3] = {columns, blocks, tw_gb_const(g, a->block)};
    tw_expr flat[2] = {columns, tw_gb_const(g, a->blocks * a->block)};
    tw_expr k = tw_gb_const(g, a->k), zero = tw_gb_const(g, 0);
    if (!check_count(a, B, a->blocks * a->block * a->bits / 8) ||
        !check_count(a, SCALES, a->blocks))
        return NULL;
    tw_value *w = tw_gb_cast(g, unpack(g, a->n->in[B], a->bits, 3, dims), a->elem);
    tw_value *zeros = zero_points(a);
    tw_value *scales =
        tw_gb_reshape(g, a->n->in[SCALES], 3, (tw_expr[]){columns, blocks, tw_gb_const(g, 1)});
    bool grouped = tw_onnx_in(a->n, GROUPS);
    if (grouped) {
        w = tw_gb_slice_axis(g, tw_gb_reshape(g, w, 2, flat), 1, zero, 1, k);
        zeros = by_group(a, zeros);
        scales = by_group(a, scales);
    }
    w = tw_gb_binary(g, TW_GRAPH_MUL, tw_gb_binary(g, TW_GRAPH_SUB, w, zeros), scales);
    return grouped ? w : tw_gb_slice_axis(g, tw_gb_reshape(g, w, 2, flat), 1, zero, 1, k);
}

bool tw_onnx_op_matmul_nbits(tw_onnx_node *n)
{
    nbits a = {.n = n, .g = n->g};
    tw_gb *g = n->g;
    tw_value *x = n->in[A], *bias = tw_onnx_in(n, BIAS);
    if (!tw_onnx_check_elem(n, A, TW_ONNX_FLOATS) || !read_nbits(&a))
        return false;
    bool vector = x->type->rank == 1;
    if (vector)
        x = tw_gb_unsqueeze(g, x, 1);
    tw_value *y = tw_gb_matmul(g, x, weights(&a), false, true);
    if (vector && y)
        y = tw_gb_squeeze(g, y, 1);
    return tw_onnx_set(n, 0, bias ? tw_gb_binary(g, TW_GRAPH_ADD, y, bias) : y);
}

/* ---- GatherBlockQuantized ---- */

typedef struct blocks {
    tw_onnx_node *n;
    tw_gb *g;
    unsigned gather, axis; /* axes of the data: of the indices, and of the blocks */
    int64_t bits, block;
} blocks;

static bool read_blocks(blocks *b)
{
    bool ok = true;
    tw_onnx_node *n = b->n;
    unsigned rank = n->in[0]->type->rank;
    int64_t gather = tw_onnx_int(n, "gather_axis", 0, &ok);
    int64_t axis = tw_onnx_int(n, "quantize_axis", 1, &ok);
    b->bits = tw_onnx_int(n, "bits", 4, &ok);
    b->block = tw_onnx_int(n, "block_size", 128, &ok);
    if (!ok || !tw_onnx_axis(n, gather, rank, &b->gather) || !tw_onnx_axis(n, axis, rank, &b->axis))
        return false;
    if ((b->bits != 2 && b->bits != 4 && b->bits != 8) || b->block <= 0 || b->block > INT32_MAX ||
        b->gather == b->axis || n->in[2]->type->rank != rank ||
        (n->in[0]->type->elem == TW_U8 && b->gather + 1 == rank))
        return tw_onnx_error(n, "%lld bits, blocks of %lld along axis %u, data %s, scales %s",
                             (long long)b->bits, (long long)b->block, b->axis,
                             tw_gb_type_text(b->g, n->in[0]->type),
                             tw_gb_type_text(b->g, n->in[2]->type));
    return tw_onnx_check_elem(n, 0, 1 << TW_U8 | 1 << TW_U4 | 1 << TW_I4);
}

/* What the indices ask for of an input, as one number an element: u8 is packed along its last
 * axis. */
static tw_value *fetch(blocks *b, unsigned i)
{
    tw_expr dims[TW_MAX_RANK];
    tw_value *x = tw_onnx_in(b->n, i);
    x = x ? tw_gb_gather(b->g, x, b->n->in[1], b->gather) : NULL;
    if (!x || x->type->elem != TW_U8)
        return x;
    unsigned rank = x->type->rank;
    memcpy(dims, x->type->dims, rank * sizeof *dims);
    dims[rank - 1] = tw_expr_mulc(b->g->ctx, dims[rank - 1], 8 / b->bits);
    return unpack(b->g, x, b->bits, rank, dims);
}

/* Scales or zero points, repeated along the axis and cut to its size. */
static tw_value *spread(blocks *b, tw_value *v, unsigned axis, tw_expr size)
{
    tw_gb *g = b->g;
    tw_expr dims[TW_MAX_RANK + 1];
    tw_value *wide = v ? tw_gb_unsqueeze(g, v, 1u << (axis + 1)) : NULL;
    if (!wide)
        return NULL;
    unsigned rank = wide->type->rank;
    memcpy(dims, wide->type->dims, rank * sizeof *dims);
    dims[axis + 1] = tw_gb_const(g, b->block);
    wide = tw_gb_expand(g, wide, rank, dims);
    dims[axis] = tw_expr_mulc(g->ctx, dims[axis], b->block);
    memmove(dims + axis + 1, dims + axis + 2, (rank - axis - 2) * sizeof *dims);
    return tw_gb_slice_axis(g, tw_gb_reshape(g, wide, rank - 1, dims), axis, tw_gb_const(g, 0), 1,
                            size);
}

bool tw_onnx_op_gather_block_quantized(tw_onnx_node *n)
{
    blocks b = {.n = n, .g = n->g};
    tw_gb *g = n->g;
    if (!tw_onnx_check_elem(n, 1, TW_ONNX_INDICES) || !read_blocks(&b))
        return false;
    tw_elem elem = n->in[2]->type->elem;
    tw_value *x = fetch(&b, 0), *scales = fetch(&b, 2), *zeros = fetch(&b, 3);
    if (!x || !scales)
        return false;
    unsigned axis = b.axis < b.gather ? b.axis : b.axis - 1 + n->in[1]->type->rank;
    tw_expr size = x->type->dims[axis];
    bool packed = n->in[0]->type->elem == TW_U8;
    zeros = zeros ? spread(&b, tw_gb_cast(g, zeros, elem), axis, size)
                  : tw_gb_scalar(g, elem, packed ? (double)(1 << (b.bits - 1)) : 0);
    x = tw_gb_binary(g, TW_GRAPH_SUB, tw_gb_cast(g, x, elem), zeros);
    return tw_onnx_set(n, 0, tw_gb_binary(g, TW_GRAPH_MUL, x, spread(&b, scales, axis, size)));
}
