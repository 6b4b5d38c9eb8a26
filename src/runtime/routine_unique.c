/* routine_unique.c: tw_rt_unique: the different elements of a tensor, or its different slices along
 * an axis.
 *
 *   in      x
 *   out     y; i64 vectors: where each first occurs in x, which of y each of x is, how often each
 *           occurs
 *   params  axis, or -1 for the elements of all of x; whether y is sorted (else: by first
 *           occurrence)
 *
 * Slices are compared element by element. NaN equals NaN and is above all else. */
#include "runtime/routines.h"

#include <stdlib.h>
#include <string.h>

typedef struct slices {
    const tw_abi_value *x;
    int64_t outer, n, inner; /* sizes before the axis, of it, and behind it */
    size_t bytes;            /* of an element */
} slices;

/* ---- Order ---- */

static int compare(const slices *s, int64_t a, int64_t b)
{
    for (int64_t o = 0; o < s->outer; o++)
        for (int64_t i = 0; i < s->inner; i++) {
            int c = tw_rt_compare(s->x->elem, s->x->data, (o * s->n + a) * s->inner + i, s->x->data,
                                  (o * s->n + b) * s->inner + i);
            if (c)
                return c;
        }
    return 0;
}

/* Equal ones in the order of x. */
static int by_value(const void *a, const void *b, void *data)
{
    int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
    int c = compare(data, i, j);
    return c ? c : (i > j) - (i < j);
}

static int by_first(const void *a, const void *b)
{
    int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
    return (i > j) - (i < j);
}

/* ---- Results ---- */

/* first[k]: where the k-th different one first occurs; group[i]: which of them slice i is. */
typedef struct groups {
    int64_t *sorted, *first, *group, *rank;
    int64_t n;
} groups;

static void find_groups(const slices *s, groups *g, bool keep_sorted)
{
    for (int64_t i = 0; i < s->n; i++)
        g->sorted[i] = i;
    if (s->n > 1)
        qsort_r(g->sorted, (size_t)s->n, sizeof *g->sorted, by_value, (void *)s);
    for (int64_t i = 0; i < s->n; i++) {
        if (i == 0 || compare(s, g->sorted[i - 1], g->sorted[i]))
            g->first[g->n++] = g->sorted[i];
        g->group[g->sorted[i]] = g->n - 1;
    }
    if (keep_sorted || g->n < 2)
        return;
    /* By first occurrence: rank[first] is the new number. */
    for (int64_t i = 0; i < s->n; i++)
        g->sorted[i] = g->first[g->group[i]];
    qsort(g->first, (size_t)g->n, sizeof *g->first, by_first);
    for (int64_t k = 0; k < g->n; k++)
        g->rank[g->first[k]] = k;
    for (int64_t i = 0; i < s->n; i++)
        g->group[i] = g->rank[g->sorted[i]];
}

static void copy_slices(const slices *s, const groups *g, tw_abi_value *y)
{
    size_t run = (size_t)s->inner * s->bytes;
    for (int64_t o = 0; o < s->outer; o++)
        for (int64_t k = 0; k < g->n; k++)
            memcpy((uint8_t *)y->data + (size_t)(o * g->n + k) * run,
                   (const uint8_t *)s->x->data + (size_t)(o * s->n + g->first[k]) * run, run);
}

static int32_t write(const tw_abi_host *host, const slices *s, const groups *g, int64_t axis,
                     tw_abi_value *out)
{
    for (uint32_t i = 0; i < out[0].rank; i++)
        out[0].dims[i] = axis < 0 || i == (uint32_t)axis ? g->n : s->x->dims[i];
    out[1].dims[0] = out[3].dims[0] = g->n;
    out[2].dims[0] = s->n;
    for (int i = 0; i < 4; i++)
        if (!tw_rt_provide(host, &out[i]))
            return 1;
    copy_slices(s, g, &out[0]);
    int64_t *first = out[1].data, *inverse = out[2].data, *counts = out[3].data;
    for (int64_t k = 0; k < g->n; k++) {
        first[k] = g->first[k];
        counts[k] = 0;
    }
    for (int64_t i = 0; i < s->n; i++) {
        inverse[i] = g->group[i];
        counts[g->group[i]]++;
    }
    return 0;
}

int32_t tw_rt_unique(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                     tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    int64_t axis = params[0];
    (void)n_in;
    (void)n_out;
    slices s = {.x = in, .outer = 1, .n = 1, .inner = 1, .bytes = tw_rt_elem_bytes(in->elem)};
    if (axis < 0)
        s.n = tw_rt_count(in);
    for (uint32_t i = 0; axis >= 0 && i < in->rank; i++)
        *(i < (uint32_t)axis ? &s.outer : i == (uint32_t)axis ? &s.n : &s.inner) *= in->dims[i];
    size_t room = (size_t)s.n + 1;
    int64_t *memory = host->alloc(host, 4 * room * sizeof *memory);
    if (!memory)
        return tw_rt_no_memory(host);
    groups g = {memory, memory + room, memory + 2 * room, memory + 3 * room, 0};
    find_groups(&s, &g, params[1]);
    int32_t status = write(host, &s, &g, axis, out);
    host->free(host, memory);
    return status;
}
