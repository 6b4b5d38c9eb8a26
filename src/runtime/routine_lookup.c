/* routine_lookup.c: tw_rt_look_up: what a table of the model has for each element.
 *
 *   in   x, keys [n] of its type, values [n], the value for what is no key [1]
 *   out  values, of x's shape
 *
 * NaN is a key like others; of equal keys the last one counts. */
#include "runtime/routines.h"

#include <stdlib.h>
#include <string.h>

/* ---- Tables ---- */

typedef struct table {
    const tw_abi_value *keys;
    int64_t *order; /* keys by value, equal ones by number */
    int64_t n;
} table;

static int by_key(const void *a, const void *b, void *data)
{
    const table *t = data;
    int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
    int c = tw_rt_compare(t->keys->elem, t->keys->data, i, t->keys->data, j);
    return c ? c : (i > j) - (i < j);
}

/* The last of the keys that are x[i], or -1. */
static int64_t find(const table *t, const tw_abi_value *x, int64_t i)
{
    int64_t low = 0, high = t->n; /* the first that is above x[i] is in low..high */
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (tw_rt_compare(x->elem, t->keys->data, t->order[middle], x->data, i) > 0)
            high = middle;
        else
            low = middle + 1;
    }
    bool hit = low && !tw_rt_compare(x->elem, t->keys->data, t->order[low - 1], x->data, i);
    return hit ? t->order[low - 1] : -1;
}

int32_t tw_rt_look_up(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                      tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    (void)n_in;
    (void)n_out;
    (void)params;
    table t = {.keys = &in[1], .n = tw_rt_count(&in[1])};
    if (tw_rt_count(&in[2]) < t.n)
        t.n = tw_rt_count(&in[2]);
    for (uint32_t i = 0; i < in->rank; i++)
        out->dims[i] = in->dims[i];
    if (!tw_rt_provide(host, out))
        return 1;
    t.order = host->alloc(host, ((size_t)t.n + 1) * sizeof *t.order);
    if (!t.order)
        return tw_rt_no_memory(host);
    for (int64_t i = 0; i < t.n; i++)
        t.order[i] = i;
    if (t.n > 1)
        qsort_r(t.order, (size_t)t.n, sizeof *t.order, by_key, &t);
    size_t bytes = tw_rt_elem_bytes(out->elem);
    for (int64_t i = 0, n = tw_rt_count(in); i < n; i++) {
        int64_t at = find(&t, in, i);
        const uint8_t *value = at < 0 ? in[3].data : (uint8_t *)in[2].data + (size_t)at * bytes;
        memcpy((uint8_t *)out->data + (size_t)i * bytes, value, bytes);
    }
    host->free(host, t.order);
    return 0;
}
