/* random_kernel_sums.h: products, windows and rows (random_kernel.h). */
#ifndef TW_TESTS_RANDOM_KERNEL_SUMS_H
#define TW_TESTS_RANDOM_KERNEL_SUMS_H

#include "random_kernel_moves.h"

/* ---- Products ---- */

static rk_value rk_matmul(random_kernel *r)
{
    int64_t batch[2], size[3], a[4], b[4];
    unsigned n_batch = rk_below(r, 3);
    rk_dims(r, batch, n_batch, 6);
    rk_dims(r, size, 3, r->points / rk_product(batch, n_batch));
    bool ta = rk_chance(r, 4), tb = rk_chance(r, 3), shared = rk_chance(r, 2);
    const char *elem = rk_chance(r, 4) ? rk_elem(r) : "f32";
    for (unsigned i = 0; i < n_batch; i++) {
        a[i] = batch[i];
        b[i] = rk_chance(r, 3) ? 1 : batch[i];
    }
    a[n_batch] = size[ta ? 1 : 0];
    a[n_batch + 1] = size[ta ? 0 : 1];
    unsigned nb = shared ? 0 : n_batch;
    b[nb] = size[tb ? 2 : 1];
    b[nb + 1] = size[tb ? 1 : 2];
    rk_value x = rk_input(r, elem, n_batch + 2, a, 0), w = rk_input(r, elem, nb + 2, b, 0);
    rk_value y = rk_shape(elem, n_batch + 2, a);
    y.dims[n_batch] = size[0];
    y.dims[n_batch + 1] = size[2];
    x = rk_epilogue(r, x, 1);
    y = rk_emit(r, y, "matmul %s, %s {transpose_a = %s, transpose_b = %s}", rk_name(&x),
                rk_name(&w), ta ? "true" : "false", tb ? "true" : "false");
    return rk_epilogue(r, y, 3);
}

/* Weights in panels, as pack-weights makes them. */
static rk_value rk_packed_matmul(random_kernel *r)
{
    int64_t size[3], panel = rk_chance(r, 2) ? 8 : 16;
    rk_dims(r, size, 3, r->points);
    rk_value x = rk_input(r, "f32", 2, size, 0);
    rk_value w =
        rk_input(r, "f32", 3, (int64_t[]){(size[2] + panel - 1) / panel, size[1], panel}, 0);
    rk_value y = rk_shape("f32", 2, (int64_t[]){size[0], size[2]});
    y = rk_emit(r, y, "matmul %s, %s {b_panel = %lld}", rk_name(&x), rk_name(&w), (long long)panel);
    return rk_epilogue(r, y, 3);
}

/* ---- Windows ---- */

typedef struct rk_window {
    unsigned n; /* spatial axes */
    int64_t size[3], out[3], kernel[3], stride[3], dilation[3], begin[3], end[3];
    bool last; /* channels last */
    char attrs[400];
} rk_window;

/* Input sizes with at most `points` output points; some with padding as wide as the kernel. */
static void rk_make_window(random_kernel *r, rk_window *w, int64_t points)
{
    w->n = rk_chance(r, 5) ? 1 : rk_chance(r, 8) ? 3 : 2;
    w->last = rk_chance(r, 2);
    rk_dims(r, w->out, w->n, points);
    for (unsigned i = 0; i < w->n; i++) {
        w->kernel[i] = rk_between(r, 1, w->n == 3 ? 2 : 4);
        w->stride[i] = rk_chance(r, 2) ? 1 : rk_between(r, 1, 3);
        w->dilation[i] = rk_chance(r, 3) ? rk_between(r, 1, 3) : 1;
        int64_t reach = (w->kernel[i] - 1) * w->dilation[i];
        w->begin[i] = rk_chance(r, 2) ? 0 : rk_between(r, 0, reach);
        w->end[i] = rk_chance(r, 2) ? 0 : rk_between(r, 0, reach);
        int64_t span =
            (w->out[i] - 1) * w->stride[i] + reach + 1 + rk_below(r, (unsigned)w->stride[i]);
        w->size[i] = span - w->begin[i] - w->end[i];
        if (w->size[i] < 1) { /* no more padding than data */
            w->begin[i] = w->end[i] = 0;
            w->size[i] = span;
        }
    }
    snprintf(w->attrs, sizeof w->attrs,
             "strides = %s, dilations = %s, pads_begin = %s, pads_end = %s",
             rk_ints(w->stride, w->n), rk_ints(w->dilation, w->n), rk_ints(w->begin, w->n),
             rk_ints(w->end, w->n));
}

/* N, C and the sizes in the window's layout. */
static rk_value rk_image(const char *elem, const rk_window *w, int64_t n, int64_t c,
                         const int64_t *size)
{
    int64_t dims[5] = {n};
    dims[w->last ? w->n + 1 : 1] = c;
    for (unsigned i = 0; i < w->n; i++)
        dims[i + (w->last ? 1 : 2)] = size[i];
    rk_value v = rk_shape(elem, w->n + 2, dims);
    v.last = w->last;
    return v;
}

static rk_value rk_input_like(random_kernel *r, rk_value v)
{
    return rk_input_of(r, v, 0);
}

static rk_value rk_conv(random_kernel *r)
{
    rk_window w;
    const char *elem = rk_chance(r, 6) ? rk_elem(r) : "f32";
    rk_make_window(r, &w, 60);
    int64_t n = rk_size(r, 2), taps = rk_product(w.kernel, w.n);
    int64_t points = r->points * 2 / (rk_product(w.out, w.n) * taps * n);
    int64_t groups = rk_chance(r, 2) ? 1 : rk_size(r, points < 20 ? points : 20);
    int64_t each = rk_chance(r, 2) ? 1 : rk_size(r, points / groups < 9 ? points / groups : 9);
    int64_t outs = rk_size(r, points / groups / each < 40 ? points / groups / each : 40);
    bool depthwise = groups > 1 && rk_chance(r, 2), panel = groups == 1 && rk_chance(r, 3);
    if (depthwise)
        each = 1;
    rk_value x = rk_input_like(r, rk_image(elem, &w, n, groups * each, w.size)), k = x;
    char more[100] = "";
    k.rank = 0;
    k.last = false;
    if (panel)
        k.dims[k.rank++] = (outs + 7) / 8;
    if (!depthwise && !panel) {
        k.dims[k.rank++] = groups * outs;
        k.dims[k.rank++] = each;
    }
    for (unsigned i = 0; i < w.n; i++)
        k.dims[k.rank++] = w.kernel[i];
    if (depthwise) {
        k.dims[k.rank++] = groups * outs;
        snprintf(more, sizeof more, ", kernel_layout = \"depthwise\"");
    }
    if (panel) {
        k.dims[k.rank++] = each;
        k.dims[k.rank++] = 8;
        snprintf(more, sizeof more, ", kernel_layout = \"panel\", panel = 8");
    }
    k = rk_input_like(r, k);
    rk_value y = rk_image(elem, &w, n, groups * outs, w.out);
    y = rk_emit(r, y, "conv %s, %s {%s, groups = %lld%s}", rk_name(&x), rk_name(&k), w.attrs,
                (long long)groups, more);
    return rk_epilogue(r, y, 3);
}

static rk_value rk_conv_transpose(random_kernel *r)
{
    rk_window w;
    rk_make_window(r, &w, 30);
    int64_t groups = rk_chance(r, 2) ? 1 : rk_size(r, 4), in = rk_size(r, 4), out = rk_size(r, 5);
    rk_value x = rk_input_like(r, rk_image("f32", &w, 1, groups * in, w.out));
    rk_value y = rk_image("f32", &w, 1, groups * out, w.size), k = x;
    if (rk_product(y.dims, y.rank) * rk_product(w.kernel, w.n) * in > r->points * 4)
        return rk_epilogue(r, x, 2);
    k.rank = 0;
    k.last = false;
    k.dims[k.rank++] = groups * in;
    k.dims[k.rank++] = out;
    for (unsigned i = 0; i < w.n; i++)
        k.dims[k.rank++] = w.kernel[i];
    k = rk_input_like(r, k);
    y = rk_emit(r, y, "conv_transpose %s, %s {%s, groups = %lld}", rk_name(&x), rk_name(&k),
                w.attrs, (long long)groups);
    return rk_epilogue(r, y, 2);
}

static rk_value rk_pool(random_kernel *r)
{
    rk_window w;
    rk_make_window(r, &w, 100);
    int64_t taps = rk_product(w.kernel, w.n) * rk_product(w.out, w.n);
    rk_value x = rk_input_like(
        r, rk_image("f32", &w, rk_size(r, 2), rk_size(r, r->points / 2 / taps), w.size));
    bool mean = rk_chance(r, 3);
    r->exact &= !mean;
    x = rk_epilogue(r, x, 1);
    rk_value y = rk_image("f32", &w, x.dims[0], x.dims[w.last ? w.n + 1 : 1], w.out);
    y = rk_emit(r, y, "%s %s {%s, kernel = %s%s}", mean ? "avg_pool" : "max_pool", rk_name(&x),
                w.attrs, rk_ints(w.kernel, w.n),
                mean && rk_chance(r, 2) ? ", count_pad = true" : "");
    return rk_epilogue(r, y, 2);
}

/* ---- Rows ---- */

static rk_value rk_softmax(random_kernel *r)
{
    rk_value x = rk_any_input(r, 1, 4, r->points / 3);
    if (!rk_is_float(&x))
        return rk_epilogue(r, x, 3);
    r->exact = false;
    x = rk_epilogue(r, x, 1);
    rk_value y = rk_emit(r, x, "%s %s {axis = %u}", rk_chance(r, 3) ? "log_softmax" : "softmax",
                         rk_name(&x), rk_below(r, x.rank));
    return rk_epilogue(r, y, 2);
}

static rk_value rk_norm(random_kernel *r)
{
    int64_t dims[RK_MAX_RANK];
    unsigned rank = (unsigned)rk_between(r, 1, 4), axis = rk_below(r, rank), what = rk_below(r, 4);
    rk_dims(r, dims, rank, r->points / 3);
    rk_value x = rk_input(r, "f32", rank, dims, 0), y = x;
    unsigned n = 1 + rk_below(r, what == 0 ? 3 : 2);
    r->exact = false;
    if (what < 2) {
        char list[40] = "";
        size_t len = 0;
        for (unsigned i = 1; i < n; i++) {
            rk_value p = rk_input(r, "f32", rank - axis, dims + axis, 0);
            len += (size_t)snprintf(list + len, sizeof list - len, ", %s", rk_name(&p));
        }
        y = rk_emit(r, y, "%s %s%s {axis = %u, epsilon = 0.5}", what ? "rms_norm" : "layer_norm",
                    rk_name(&x), list, axis);
    } else if (what == 2 && rank >= 2) {
        rk_value s = rk_input(r, "f32", 1, dims + 1, 0), b = rk_input(r, "f32", 1, dims + 1, 0);
        y = rk_emit(r, y, "instance_norm %s, %s, %s {epsilon = 0.5}", rk_name(&x), rk_name(&s),
                    rk_name(&b));
    } else if (rank >= 2) {
        y = rk_emit(r, y, "lrn %s {size = %lld, alpha = 0.1, beta = 0.5, bias = 1.0}", rk_name(&x),
                    (long long)rk_between(r, 1, 5));
    }
    return rk_epilogue(r, y, 2);
}

static rk_value rk_reduce(random_kernel *r)
{
    static const char *const kinds[] = {"reduce_sum", "reduce_max", "reduce_min", "reduce_mean",
                                        "reduce_prod"};
    unsigned kind = rk_below(r, 5), n = 0;
    rk_value x = rk_any_input(r, 1, 5, r->points), y;
    int64_t axes[RK_MAX_RANK];
    bool keep = rk_chance(r, 2), prologue = kind < 3;
    r->exact &= kind < 3 || !rk_is_float(&x);
    if (prologue)
        x = rk_epilogue(r, x, 2);
    y = rk_shape(x.elem, 0, NULL);
    for (unsigned i = 0; i < x.rank; i++) {
        bool reduced = rk_chance(r, 2) || (i + 1 == x.rank && !n);
        if (reduced)
            axes[n++] = i;
        if (!reduced || keep)
            y.dims[y.rank++] = reduced ? 1 : x.dims[i];
    }
    y = rk_emit(r, y, "%s %s {axes = %s, keepdims = %s}", kinds[kind], rk_name(&x),
                rk_ints(axes, n), keep ? "true" : "false");
    return kind == 4 ? y : rk_epilogue(r, y, 2);
}

static rk_value rk_arg(random_kernel *r)
{
    rk_value x = rk_any_input(r, 1, 4, r->points / 2);
    unsigned axis = rk_below(r, x.rank);
    rk_value y = rk_shape("i64", 0, NULL);
    for (unsigned i = 0; i < x.rank; i++)
        if (i != axis)
            y.dims[y.rank++] = x.dims[i];
    y = rk_emit(r, y, "%s %s {axis = %u, keepdims = false, select_last = %s}",
                rk_chance(r, 2) ? "arg_max" : "arg_min", rk_name(&x), axis,
                rk_chance(r, 2) ? "true" : "false");
    return rk_epilogue(r, y, 1);
}

static rk_value rk_scan(random_kernel *r)
{
    rk_value x = rk_epilogue(r, rk_any_input(r, 1, 4, r->points / 2), 1);
    rk_value y = rk_emit(r, x, "cumsum %s {axis = %u, exclusive = %s, reverse = %s}", rk_name(&x),
                         rk_below(r, x.rank), rk_chance(r, 2) ? "true" : "false",
                         rk_chance(r, 2) ? "true" : "false");
    return rk_epilogue(r, y, 1);
}

/* Sizes of 0: nothing to compute, or a reduction of nothing. */
static rk_value rk_empty(random_kernel *r)
{
    int64_t dims[RK_MAX_RANK], rank = rk_between(r, 1, 3);
    rk_dims(r, dims, (unsigned)rank, 60);
    dims[rk_below(r, (unsigned)rank)] = 0;
    rk_value x = rk_input(r, "f32", (unsigned)rank, dims, 0), y = x;
    unsigned axis = rk_below(r, (unsigned)rank);
    switch (rk_below(r, 5)) {
    case 0:
        y.dims[axis] = 1;
        y = rk_emit(r, y, "%s %s {axes = [%u], keepdims = true}",
                    rk_chance(r, 2) ? "reduce_sum" : "reduce_max", rk_name(&x), axis);
        break;
    case 1:
        y.dims[axis] = rk_size(r, 9);
        x.dims[axis] += y.dims[axis];
        y = rk_input(r, "f32", y.rank, y.dims, 0);
        y = rk_emit(r, x, "concat %%x0, %s {axis = %u}", rk_name(&y), axis);
        break;
    case 2: {
        int64_t m = rk_size(r, 9), n = rk_size(r, 9), k = rk_chance(r, 2) ? 0 : 3;
        rk_value a = rk_input(r, "f32", 2, (int64_t[]){k ? 0 : m, k}, 0);
        rk_value b = rk_input(r, "f32", 2, (int64_t[]){k, n}, 0);
        y = rk_shape("f32", 2, (int64_t[]){k ? 0 : m, n});
        y = rk_emit(r, y, "matmul %s, %s", rk_name(&a), rk_name(&b));
        break;
    }
    case 3:
        y = rk_emit(r, y, "softmax %s {axis = %u}", rk_name(&x), axis);
        break;
    default:
        y = rk_transpose_of(r, x);
        break;
    }
    return rk_epilogue(r, y, 2);
}

/* Several families in a row: kernels whose buffers the memory plan shares. */
static rk_value rk_attention(random_kernel *r)
{
    int64_t b = rk_size(r, 3), n = rk_size(r, 13), d = rk_size(r, 17), m = rk_size(r, 13);
    rk_value q = rk_input(r, "f32", 3, (int64_t[]){b, n, d}, 0);
    rk_value k = rk_input(r, "f32", 3, (int64_t[]){b, m, d}, 0);
    rk_value s = rk_shape("f32", 3, (int64_t[]){b, n, m});
    s = rk_emit(r, s, "matmul %s, %s {transpose_b = true}", rk_name(&q), rk_name(&k));
    s = rk_epilogue(r, s, 1);
    s = rk_emit(r, s, "softmax %s {axis = 2}", rk_name(&s));
    r->exact = false;
    return rk_emit(r, q, "matmul %s, %s", rk_name(&s), rk_name(&k));
}

/* Attention in its own kernel: heads in groups, masks, one tile of keys or several. */
static rk_value rk_heads(random_kernel *r)
{
    bool tiles = rk_chance(r, 4);
    int64_t b = rk_size(r, 2), g = tiles ? 1 : rk_size(r, 2), h = g * rk_size(r, 2);
    int64_t m = tiles ? rk_between(r, 257, 300) : rk_size(r, 60), n = rk_size(r, tiles ? 9 : 40);
    int64_t d = rk_size(r, 9), e = rk_size(r, tiles ? 5 : 17);
    rk_value q = rk_input(r, "f32", 4, (int64_t[]){b, h, n, d}, 0);
    rk_value k = rk_input(r, "f32", 4, (int64_t[]){b, g, m, d}, 0);
    rk_value v = rk_input(r, "f32", 4, (int64_t[]){b, g, m, e}, 0);
    bool rows_first = rk_chance(r, 2);
    rk_value y = rk_shape("f32", 4, (int64_t[]){b, rows_first ? n : h, rows_first ? h : n, e});
    char mask[40] = "";
    if (rk_chance(r, 2)) {
        rk_value a = rk_input(r, "f32", 3,
                              (int64_t[]){rk_chance(r, 2) ? 1 : h, m, rk_chance(r, 3) ? 1 : n}, 0);
        snprintf(mask, sizeof mask, ", %s", rk_name(&a));
    }
    r->exact = false;
    return rk_emit(r, y, "attention %s, %s, %s%s {scale = 0.5, rows_first = %s}", rk_name(&q),
                   rk_name(&k), rk_name(&v), mask, rows_first ? "true" : "false");
}

#endif
