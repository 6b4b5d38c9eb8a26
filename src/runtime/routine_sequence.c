/* routine_sequence.c: routines over sequences, which are u64 scalars in the model (sequence.h).
 * Positions are i64, negative ones count from the end; a message names position and length.
 *
 *   tw_rt_sequence_make    any number of tensors -> sequence
 *   tw_rt_sequence_insert  sequence, tensor[, position] -> sequence; the end when it is left out
 *   tw_rt_sequence_erase   sequence[, position] -> sequence; the last one when it is left out
 *   tw_rt_sequence_at      sequence, position -> tensor
 *   tw_rt_sequence_length  sequence -> i64
 *   tw_rt_sequence_concat  sequence[, sizes of the result when it has none] -> tensor; params:
 * axis, whether it is a new one tw_rt_sequence_split   x[, sizes] -> sequence of parts of x, which
 * have that size (a scalar; the last one may be smaller) or these sizes (a vector), else 1; params:
 * axis, whether parts of size 1 keep it tw_rt_sequence_held    sequence -> itself; fails when it is
 * 0, an optional that holds nothing tw_rt_sequence_mark    -> i64, for: tw_rt_sequence_keep mark,
 * sequences -> mark, sequences; all others made since are dropped */
#include "runtime/model.h"
#include "runtime/routines.h"
#include "runtime/sequence.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- Tools ----------------------------------------------------------------------------------- */

static bool fail(const tw_abi_host *host, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool fail(const tw_abi_host *host, const char *format, ...)
{
    char text[200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    tw_rt_fail(host, text);
    return false;
}

static int64_t integer(const tw_abi_value *v)
{
    return *(const int64_t *)v->data;
}

/* Gives a scalar of 8 bytes. */
static int32_t give(const tw_abi_host *host, tw_abi_value *out, uint64_t value)
{
    if (!tw_rt_provide(host, out))
        return 1;
    memcpy(out->data, &value, sizeof value);
    return 0;
}

/* A handle, unless making it has failed. */
static int32_t give_handle(const tw_abi_host *host, tw_abi_value *out, uint64_t handle)
{
    return handle ? give(host, out, handle) : 1;
}

static bool find(const tw_abi_host *host, const tw_abi_value *in, tw_sequence *out)
{
    return tw_sequence_find(host, *(const uint64_t *)in->data, out);
}

/* A position among `count`, of which the sequence has n. */
static bool position(const tw_abi_host *host, const tw_abi_value *in, size_t n, size_t count,
                     size_t *out)
{
    int64_t at = integer(in), from = at < 0 ? at + (int64_t)n : at;
    if (from < 0 || (uint64_t)from >= count)
        return fail(host, "position %lld of a sequence of %zu", (long long)at, n);
    *out = (size_t)from;
    return true;
}

/* ---- Making ---------------------------------------------------------------------------------- */

int32_t tw_rt_sequence_make(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                            tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    (void)n_out;
    (void)params;
    tw_sequence none = {0};
    bool fine = true;
    tw_item **items = n_in ? host->alloc(host, n_in * sizeof *items) : NULL;
    if (n_in && !items)
        return tw_rt_no_memory(host);
    uint32_t made = 0;
    for (; fine && made < n_in; made++)
        fine = (items[made] = tw_item_copy(host, &in[made])) != NULL;
    uint64_t handle = fine ? tw_sequence_insert(host, &none, 0, items, n_in) : 0;
    for (uint32_t i = 0; i < made; i++)
        tw_item_release(host, items[i]);
    host->free(host, items);
    return give_handle(host, out, handle);
}

int32_t tw_rt_sequence_insert(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                              tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    (void)n_out;
    (void)params;
    tw_sequence s;
    if (!find(host, &in[0], &s))
        return 1;
    size_t at = s.n;
    if (n_in > 2 && !position(host, &in[2], s.n, s.n + 1, &at))
        return 1;
    if (s.n && s.list->items[0]->value.elem != in[1].elem)
        return tw_rt_fail(host, "a tensor of another element type than those of the sequence");
    tw_item *item = tw_item_copy(host, &in[1]);
    uint64_t handle = tw_sequence_insert(host, &s, at, &item, 1);
    tw_item_release(host, item);
    return give_handle(host, out, handle);
}

int32_t tw_rt_sequence_erase(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                             tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    (void)n_out;
    (void)params;
    static int64_t last = -1;
    tw_sequence s;
    size_t at;
    tw_abi_value end = {.data = &last};
    if (!find(host, &in[0], &s) || !position(host, n_in > 1 ? &in[1] : &end, s.n, s.n, &at))
        return 1;
    return give_handle(host, out, tw_sequence_erase(host, &s, at));
}

/* ---- Reading --------------------------------------------------------------------------------- */

int32_t tw_rt_sequence_at(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                          tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    (void)n_in;
    (void)n_out;
    (void)params;
    tw_sequence s;
    size_t at, bytes;
    if (!find(host, &in[0], &s) || !position(host, &in[1], s.n, s.n, &at))
        return 1;
    const tw_abi_value *item = &s.list->items[at]->value;
    if (item->elem != out->elem || item->rank != out->rank)
        return !fail(host,
                     "position %zu of a sequence of %zu has %u dimensions and elements %s; the "
                     "model is compiled for %u and %s",
                     at, s.n, item->rank, tw_runtime_elem_name((tw_elem)item->elem), out->rank,
                     tw_runtime_elem_name((tw_elem)out->elem));
    if (out->rank)
        memcpy(out->dims, item->dims, out->rank * sizeof *out->dims);
    if (!tw_rt_provide(host, out))
        return 1;
    if (tw_tensor_bytes((tw_elem)out->elem, out->dims, out->rank, &bytes) && bytes)
        memcpy(out->data, item->data, bytes);
    return 0;
}

int32_t tw_rt_sequence_length(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                              tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    (void)n_in;
    (void)n_out;
    (void)params;
    tw_sequence s;
    return find(host, in, &s) ? give(host, out, s.n) : 1;
}

int32_t tw_rt_sequence_held(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                            tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    (void)n_in;
    (void)n_out;
    (void)params;
    tw_sequence s;
    return find(host, in, &s) ? give(host, out, *(const uint64_t *)in->data) : 1;
}

/* ---- One tensor of all ----------------------------------------------------------------------- */

/* Number of elements of the axes from..to-1. */
static size_t product(const int64_t *dims, uint32_t from, uint32_t to)
{
    size_t n = 1;
    for (uint32_t i = from; i < to; i++)
        n *= (size_t)dims[i];
    return n;
}

/* The result's dims from those of the items, which must be the same but along an axis that is
 * there. Of no items they are `empty` (NULL: an error). */
static bool concat_dims(const tw_abi_host *host, const tw_sequence *s, uint32_t axis, bool fresh,
                        const tw_abi_value *empty, tw_abi_value *out)
{
    if (!s->n && empty) {
        memcpy(out->dims, empty->data, out->rank * sizeof *out->dims);
        return true;
    }
    if (!s->n)
        return fail(host, "there is nothing to join in a sequence of 0");
    const tw_abi_value *first = &s->list->items[0]->value;
    int64_t sum = 0;
    for (size_t i = 0; i < s->n; i++) {
        const tw_abi_value *v = &s->list->items[i]->value;
        bool same = v->elem == out->elem && v->rank + fresh == out->rank;
        for (uint32_t d = 0; same && d < v->rank; d++)
            same = v->dims[d] == first->dims[d] || (d == axis && !fresh);
        if (!same)
            return fail(host, "position %zu of a sequence of %zu has other sizes than the first", i,
                        s->n);
        if (__builtin_add_overflow(sum, fresh ? 1 : v->dims[axis], &sum))
            return fail(host, "the tensors of a sequence are too large together");
    }
    for (uint32_t d = 0; d < out->rank; d++)
        out->dims[d] = d == axis ? sum : first->dims[d - (fresh && d > axis)];
    return true;
}

int32_t tw_rt_sequence_concat(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                              tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    (void)n_out;
    tw_sequence s;
    const tw_abi_value *empty = n_in > 1 ? &in[1] : NULL;
    uint32_t axis = (uint32_t)params[0];
    bool fresh = params[1];
    if (!find(host, in, &s) || !concat_dims(host, &s, axis, fresh, empty, out) ||
        !tw_rt_provide(host, out))
        return 1;
    size_t outer = product(out->dims, 0, axis), bytes = tw_rt_elem_bytes(out->elem);
    size_t row = product(out->dims, axis, out->rank) * bytes, at = 0;
    for (size_t i = 0; i < s.n; i++) {
        const tw_abi_value *v = &s.list->items[i]->value;
        size_t piece = product(v->dims, axis, v->rank) * bytes;
        for (size_t k = 0; piece && k < outer; k++)
            memcpy((uint8_t *)out->data + k * row + at, (uint8_t *)v->data + k * piece, piece);
        at += piece;
    }
    return 0;
}

/* ---- Parts of a tensor ----------------------------------------------------------------------- */

/* x cut along an axis. */
typedef struct cut {
    const tw_abi_value *x;
    uint32_t axis;
    bool squeeze;
    const int64_t *sizes; /* of the parts; NULL: all `size`, save the last */
    int64_t size;
    size_t parts;
} cut;

static bool plan_parts(const tw_abi_host *host, const tw_abi_value *sizes, cut *c)
{
    int64_t all = c->x->dims[c->axis], sum = 0;
    c->size = 1;
    if (sizes && sizes->rank) {
        c->sizes = sizes->data;
        c->parts = (size_t)tw_rt_count(sizes);
        for (size_t i = 0; i < c->parts; i++)
            if (c->sizes[i] < 0 || c->sizes[i] > all - sum)
                return fail(host, "part %zu of %lld does not fit in a size of %lld", i,
                            (long long)c->sizes[i], (long long)all);
            else
                sum += c->sizes[i];
        return sum == all || fail(host, "parts that have %lld together, not %lld", (long long)sum,
                                  (long long)all);
    }
    if (sizes)
        c->size = integer(sizes);
    if (c->size < 1)
        return fail(host, "parts of %lld", (long long)c->size);
    c->parts = (size_t)(all / c->size + (all % c->size != 0));
    return true;
}

/* The part from `start` on; NULL after host->error. */
static tw_item *make_part(const tw_abi_host *host, const cut *c, int64_t start, int64_t size,
                          int64_t *dims)
{
    const tw_abi_value *x = c->x;
    uint32_t rank = 0;
    for (uint32_t d = 0; d < x->rank; d++)
        if (d != c->axis || !c->squeeze)
            dims[rank++] = d == c->axis ? size : x->dims[d];
    tw_abi_value part = {.dims = dims, .elem = x->elem, .rank = rank};
    tw_item *item = tw_item_new(host, &part, false);
    size_t inner = product(x->dims, c->axis + 1, x->rank) * tw_rt_elem_bytes(x->elem);
    size_t row = (size_t)x->dims[c->axis] * inner, piece = (size_t)size * inner;
    for (size_t k = 0, n = product(x->dims, 0, c->axis); item && piece && k < n; k++)
        memcpy((uint8_t *)item->value.data + k * piece,
               (uint8_t *)x->data + k * row + (size_t)start * inner, piece);
    return item;
}

int32_t tw_rt_sequence_split(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                             tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    (void)n_out;
    cut c = {.x = in, .axis = (uint32_t)params[0], .squeeze = n_in < 2 && !params[1]};
    if (!plan_parts(host, n_in > 1 ? &in[1] : NULL, &c))
        return 1;
    size_t made = 0;
    int64_t start = 0, all = in->dims[c.axis];
    tw_item **items = host->alloc(host, (c.parts + in->rank) * sizeof *items);
    if (!items)
        return tw_rt_no_memory(host);
    int64_t *dims = (int64_t *)(items + c.parts);
    for (bool fine = true; fine && made < c.parts; made += fine) {
        int64_t size = c.sizes ? c.sizes[made] : c.size < all - start ? c.size : all - start;
        fine = (items[made] = make_part(host, &c, start, size, dims)) != NULL;
        start += size;
    }
    tw_sequence none = {0};
    uint64_t handle = made == c.parts ? tw_sequence_insert(host, &none, 0, items, c.parts) : 0;
    for (size_t i = 0; i < made; i++)
        tw_item_release(host, items[i]);
    host->free(host, items);
    return give_handle(host, out, handle);
}

/* ---- Lifetimes ------------------------------------------------------------------------------- */

int32_t tw_rt_sequence_mark(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                            tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    (void)in;
    (void)n_in;
    (void)n_out;
    (void)params;
    return give(host, out, (uint64_t)tw_sequences_mark(host));
}

int32_t tw_rt_sequence_keep(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                            tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    (void)n_out;
    (void)params;
    for (uint32_t i = 0; i < n_in; i++)
        if (give(host, &out[i], *(const uint64_t *)in[i].data))
            return 1;
    uint64_t **handles = n_in > 1 ? host->alloc(host, n_in * sizeof *handles) : NULL;
    if (n_in > 1 && !handles)
        return tw_rt_no_memory(host);
    for (uint32_t i = 1; i < n_in; i++)
        handles[i - 1] = out[i].data;
    bool fine = tw_sequences_keep(host, integer(&in[0]), handles, n_in - 1);
    host->free(host, handles);
    return fine ? 0 : 1;
}
