/* random_kernel.h: seeded random functions that become one or a few kernels, as text: element-wise
 * chains with broadcasts, matrix products and convolutions of odd sizes, windows, rows, reductions
 * over any axes, moved data. Sizes are 1 to 40, primes among them, few enough elements to be
 * interpreted often.
 *
 * Values are whole numbers and the operations of most families keep them so: sums are then exact in
 * any order, and results are compared bit by bit (`exact`). */
#ifndef TW_TESTS_RANDOM_KERNEL_H
#define TW_TESTS_RANDOM_KERNEL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { RK_MAX_RANK = 6, RK_MAX_INPUTS = 40, RK_MAX_RESULTS = 2 };

typedef struct rk_value {
    unsigned id;
    bool input; /* %xID, else %ID */
    const char *elem;
    unsigned rank;
    int64_t dims[RK_MAX_RANK];
} rk_value;

typedef struct random_kernel {
    uint64_t state, seed;
    int64_t points; /* of an iteration space, at most */
    char body[12000], inputs[3000];
    size_t n_body, n_text;
    unsigned n_values, n_inputs;
    int64_t limit[RK_MAX_INPUTS]; /* of indices: -limit..limit-1; 0 for plain numbers */
    bool exact;
    rk_value extra; /* a second result, when it has an element type */
    const char *family;
    char text[16000];
} random_kernel;

/* ---- Random numbers ---- */

static unsigned rk_below(random_kernel *r, unsigned n)
{
    r->state ^= r->state << 13;
    r->state ^= r->state >> 7;
    r->state ^= r->state << 17;
    return (unsigned)((r->state * 0x2545f4914f6cdd1dull >> 33) % n);
}

static int64_t rk_between(random_kernel *r, int64_t low, int64_t high)
{
    return low + (int64_t)rk_below(r, (unsigned)(high - low + 1));
}

static bool rk_chance(random_kernel *r, unsigned one_in)
{
    return rk_below(r, one_in) == 0;
}

/* A size of at most `most`: often 1, a vector's width, or a prime. */
static int64_t rk_size(random_kernel *r, int64_t most)
{
    static const int64_t sizes[] = {1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 19, 23, 31, 32, 33, 37};
    int64_t size =
        rk_chance(r, 3) ? rk_between(r, 1, 40) : sizes[rk_below(r, sizeof sizes / sizeof *sizes)];
    return size <= most ? size : most < 1 ? 1 : rk_between(r, 1, most);
}

static int64_t rk_product(const int64_t *dims, unsigned n)
{
    int64_t p = 1;
    for (unsigned i = 0; i < n; i++)
        p *= dims[i];
    return p;
}

/* Random sizes whose product stays within `points`, in random places. */
static void rk_dims(random_kernel *r, int64_t *dims, unsigned n, int64_t points)
{
    unsigned start = n ? rk_below(r, n) : 0;
    for (unsigned i = 0; i < n; i++) {
        int64_t size = rk_size(r, points);
        dims[(start + i) % n] = size;
        points /= size;
    }
}

/* ---- Text ---- */

static const char *rk_type(const rk_value *v)
{
    static char texts[4][160];
    static unsigned turn;
    char *text = texts[turn++ % 4];
    size_t n = (size_t)snprintf(text, 160, "tensor<");
    for (unsigned i = 0; i < v->rank; i++)
        n += (size_t)snprintf(text + n, 160 - n, "%lldx", (long long)v->dims[i]);
    snprintf(text + n, 160 - n, "%s>", v->elem);
    return text;
}

static const char *rk_name(const rk_value *v)
{
    static char texts[4][16];
    static unsigned turn;
    char *text = texts[turn++ % 4];
    snprintf(text, 16, v->input ? "%%x%u" : "%%%u", v->id);
    return text;
}

static const char *rk_ints(const int64_t *v, unsigned n)
{
    static char texts[4][160];
    static unsigned turn;
    char *text = texts[turn++ % 4];
    size_t at = (size_t)snprintf(text, 160, "[");
    for (unsigned i = 0; i < n; i++)
        at += (size_t)snprintf(text + at, 160 - at, i ? ", %lld" : "%lld", (long long)v[i]);
    snprintf(text + at, 160 - at, "]");
    return text;
}

static rk_value rk_shape(const char *elem, unsigned rank, const int64_t *dims)
{
    rk_value v = {.elem = elem, .rank = rank};
    for (unsigned i = 0; i < rank; i++)
        v.dims[i] = dims[i];
    return v;
}

/* Indices below `limit` (0: plain numbers). When there are enough inputs, one is used again. */
static rk_value rk_input(random_kernel *r, const char *elem, unsigned rank, const int64_t *dims,
                         int64_t limit)
{
    rk_value v = rk_shape(elem, rank, dims);
    v.input = true;
    v.id = r->n_inputs;
    r->limit[r->n_inputs++] = limit;
    r->n_text += (size_t)snprintf(r->inputs + r->n_text, sizeof r->inputs - r->n_text,
                                  "%s%%x%u: %s", v.id ? ", " : "", v.id, rk_type(&v));
    return v;
}

/* Appends `%N = graph.<text> : <type of result>`. */
static rk_value __attribute__((format(printf, 3, 4))) rk_emit(random_kernel *r, rk_value result,
                                                              const char *format, ...)
{
    va_list args;
    result.id = r->n_values++;
    result.input = false;
    r->n_body += (size_t)snprintf(r->body + r->n_body, sizeof r->body - r->n_body,
                                  "    %%%u = graph.", result.id);
    va_start(args, format);
    r->n_body += (size_t)vsnprintf(r->body + r->n_body, sizeof r->body - r->n_body, format, args);
    va_end(args);
    r->n_body += (size_t)snprintf(r->body + r->n_body, sizeof r->body - r->n_body, " : %s\n",
                                  rk_type(&result));
    return result;
}

/* ---- Element-wise ---- */

static bool rk_is_float(const rk_value *v)
{
    return strchr(v->elem, 'f') != NULL;
}

/* An input that broadcasts to v: some leading axes left out, some sizes 1. */
static rk_value rk_partner(random_kernel *r, const rk_value *v)
{
    int64_t dims[RK_MAX_RANK];
    unsigned drop = rk_chance(r, 3) ? rk_below(r, v->rank + 1) : 0, rank = v->rank - drop;
    bool keep = rk_chance(r, 2);
    for (unsigned i = 0; i < rank; i++)
        dims[i] = keep || rk_below(r, 2) ? v->dims[drop + i] : 1;
    return rk_input(r, v->elem, rank, dims, 0);
}

/* Zero to `most` element-wise operations behind v. */
static rk_value rk_epilogue(random_kernel *r, rk_value v, unsigned most)
{
    static const char *const binary[] = {"add", "sub", "max", "min", "mul"};
    static const char *const unary[] = {"relu", "neg", "abs"};
    for (unsigned n = rk_below(r, most + 1); n-- > 0;) {
        if (!v.input && rk_chance(r, 12))
            r->extra = v;
        if (r->n_inputs < 6 && rk_below(r, 2)) {
            rk_value p = rk_partner(r, &v);
            bool swap = rk_chance(r, 3);
            v = rk_emit(r, v, "%s %s, %s", binary[rk_below(r, 5)], rk_name(swap ? &p : &v),
                        rk_name(swap ? &v : &p));
        } else if (rk_is_float(&v) && rk_chance(r, 12)) {
            v = rk_emit(r, v, "%s %s", rk_chance(r, 2) ? "sigmoid" : "tanh", rk_name(&v));
            r->exact = false;
        } else {
            v = rk_emit(r, v, "%s %s", unary[rk_below(r, 3)], rk_name(&v));
        }
    }
    return v;
}

static const char *rk_elem(random_kernel *r)
{
    static const char *const elems[] = {"f32", "f32",  "f32", "f32", "f32", "f64",
                                        "f16", "bf16", "i32", "i64", "i8",  "i16"};
    return elems[rk_below(r, sizeof elems / sizeof *elems)];
}

static rk_value rk_any_input(random_kernel *r, unsigned low, unsigned high, int64_t points)
{
    int64_t dims[RK_MAX_RANK];
    unsigned rank = (unsigned)rk_between(r, low, high);
    rk_dims(r, dims, rank, points);
    return rk_input(r, rk_elem(r), rank, dims, 0);
}

static rk_value rk_elementwise(random_kernel *r)
{
    rk_value v = rk_epilogue(r, rk_any_input(r, 0, 5, r->points), 4);
    if (rk_chance(r, 4)) {
        rk_value c = rk_shape("bool", v.rank, v.dims);
        rk_value p = rk_partner(r, &v);
        c = rk_emit(r, c, "less %s, %s", rk_name(&v), rk_name(&p));
        v = rk_emit(r, v, "where %s, %s, %s", rk_name(&c), rk_name(&p), rk_name(&v));
    } else if (rk_chance(r, 4)) {
        rk_value c = rk_shape(rk_elem(r), v.rank, v.dims);
        v = rk_emit(r, c, "cast %s", rk_name(&v));
    }
    return rk_epilogue(r, v, 2);
}

/* More operands or operations than fit into one kernel. */
static rk_value rk_wide(random_kernel *r)
{
    rk_value v = rk_any_input(r, 1, 3, 200), p;
    for (unsigned n = (unsigned)rk_between(r, 5, 36); n-- > 0;) {
        p = rk_partner(r, &v);
        v = rk_emit(r, v, "%s %s, %s", rk_chance(r, 3) ? "sub" : "add", rk_name(&v), rk_name(&p));
    }
    return v;
}

static rk_value rk_deep(random_kernel *r)
{
    rk_value v = rk_any_input(r, 0, 4, 500);
    for (unsigned n = (unsigned)rk_between(r, 2, 12); n-- > 0;)
        v = rk_epilogue(r, v, 4);
    return v;
}

/* ---- Moving data ---- */

static rk_value rk_transpose_of(random_kernel *r, rk_value x)
{
    int64_t perm[RK_MAX_RANK];
    rk_value y = x;
    for (unsigned i = 0; i < x.rank; i++)
        perm[i] = i;
    for (unsigned i = x.rank; i > 1; i--) {
        unsigned k = rk_below(r, i);
        int64_t swap = perm[i - 1];
        perm[i - 1] = perm[k];
        perm[k] = swap;
    }
    for (unsigned i = 0; i < x.rank; i++)
        y.dims[i] = x.dims[perm[i]];
    return rk_emit(r, y, "transpose %s {perm = %s}", rk_name(&x), rk_ints(perm, x.rank));
}

static rk_value rk_pad_of(random_kernel *r, rk_value x)
{
    static const char *const modes[] = {"constant", "constant", "constant",
                                        "edge",     "reflect",  "wrap"};
    const char *mode = modes[rk_below(r, sizeof modes / sizeof *modes)];
    int64_t begin[RK_MAX_RANK], end[RK_MAX_RANK];
    rk_value y = x;
    for (unsigned i = 0; i < x.rank; i++) {
        int64_t most = x.dims[i] > 2 && strcmp(mode, "constant") ? 2 : mode[0] == 'c' ? 3 : 0;
        begin[i] =
            rk_chance(r, 2) ? 0 : rk_between(r, mode[0] == 'c' && x.dims[i] > 2 ? -1 : 0, most);
        end[i] = rk_chance(r, 2) ? 0 : rk_between(r, 0, most);
        y.dims[i] += begin[i] + end[i];
    }
    return rk_emit(r, y, "pad %s {mode = \"%s\", pads_begin = %s, pads_end = %s}", rk_name(&x),
                   mode, rk_ints(begin, x.rank), rk_ints(end, x.rank));
}

static rk_value rk_slice_of(random_kernel *r, rk_value x)
{
    int64_t starts[RK_MAX_RANK], steps[RK_MAX_RANK];
    rk_value y = x;
    for (unsigned i = 0; i < x.rank; i++) {
        int64_t step = rk_between(r, 1, 3), size = x.dims[i];
        bool back = rk_chance(r, 3);
        starts[i] = rk_chance(r, 2) ? (back ? size - 1 : 0) : rk_between(r, 0, size - 1);
        steps[i] = back ? -step : step;
        int64_t room = back ? starts[i] + 1 : size - starts[i];
        y.dims[i] = rk_between(r, 1, (room + step - 1) / step);
    }
    return rk_emit(r, y, "slice %s {starts = %s, steps = %s}", rk_name(&x), rk_ints(starts, x.rank),
                   rk_ints(steps, x.rank));
}

static rk_value rk_concat_of(random_kernel *r, rk_value x)
{
    unsigned axis = rk_below(r, x.rank), n = 1 + rk_below(r, 3);
    rk_value parts[3], y = x;
    char list[64];
    size_t len = (size_t)snprintf(list, sizeof list, "%s", rk_name(&x));
    for (unsigned i = 0; i < n; i++) {
        parts[i] = x;
        parts[i].dims[axis] = rk_size(r, 9);
        parts[i] = rk_input(r, x.elem, x.rank, parts[i].dims, 0);
        if (rk_chance(r, 3))
            parts[i] = rk_emit(r, parts[i], "neg %s", rk_name(&parts[i]));
        y.dims[axis] += parts[i].dims[axis];
        len += (size_t)snprintf(list + len, sizeof list - len, ", %s", rk_name(&parts[i]));
    }
    return rk_emit(r, y, "concat %s {axis = %u}", list, axis);
}

/* Axes joined, split or of size 1 added. */
static rk_value rk_reshape_of(random_kernel *r, rk_value x)
{
    rk_value y = rk_shape(x.elem, 0, NULL);
    for (unsigned i = 0; i < x.rank; i++) {
        unsigned what = rk_below(r, 4);
        if ((what == 0 && y.rank) || y.rank + 2 > RK_MAX_RANK) {
            y.dims[y.rank - 1] *= x.dims[i];
        } else if (what == 1 && x.dims[i] % 2 == 0) {
            y.dims[y.rank++] = x.dims[i] / 2;
            y.dims[y.rank++] = 2;
        } else {
            y.dims[y.rank++] = x.dims[i];
        }
    }
    if (y.rank < RK_MAX_RANK && rk_chance(r, 4))
        y.dims[y.rank++] = 1;
    return rk_emit(r, y, "reshape %s", rk_name(&x));
}

static rk_value rk_gather_of(random_kernel *r, rk_value x)
{
    unsigned axis = rk_below(r, x.rank), rank = rk_below(r, x.rank < 4 ? 3 : 2);
    int64_t dims[RK_MAX_RANK];
    rk_value y = rk_shape(x.elem, 0, NULL);
    rk_dims(r, dims, rank, 20);
    rk_value i = rk_input(r, rk_chance(r, 2) ? "i64" : "i32", rank, dims, x.dims[axis]);
    for (unsigned d = 0; d < x.rank; d++) {
        if (d != axis)
            y.dims[y.rank++] = x.dims[d];
        for (unsigned k = 0; d == axis && k < rank; k++)
            y.dims[y.rank++] = dims[k];
    }
    return rk_emit(r, y, "gather %s, %s {axis = %u}", rk_name(&x), rk_name(&i), axis);
}

static rk_value rk_gather_elements_of(random_kernel *r, rk_value x)
{
    unsigned axis = rk_below(r, x.rank);
    rk_value y = x;
    y.dims[axis] = rk_size(r, 9);
    rk_value i = rk_input(r, "i64", y.rank, y.dims, x.dims[axis]);
    return rk_emit(r, y, "gather_elements %s, %s {axis = %u}", rk_name(&x), rk_name(&i), axis);
}

static rk_value rk_tile_of(random_kernel *r, rk_value x)
{
    int64_t repeats[RK_MAX_RANK];
    rk_value y = x;
    for (unsigned i = 0; i < x.rank; i++) {
        repeats[i] = rk_between(r, 1, 2);
        y.dims[i] *= repeats[i];
    }
    return rk_emit(r, y, "tile %s {repeats = %s}", rk_name(&x), rk_ints(repeats, x.rank));
}

static rk_value rk_expand_of(random_kernel *r, rk_value x)
{
    rk_value y = x;
    for (unsigned i = 0; i < x.rank; i++)
        if (x.dims[i] == 1 && rk_product(y.dims, y.rank) < 500)
            y.dims[i] = rk_size(r, 5);
    return rk_emit(r, y, "expand %s", rk_name(&x));
}

static rk_value rk_trilu_of(random_kernel *r, rk_value x)
{
    return x.rank < 2
               ? x
               : rk_emit(r, x, "trilu %s {upper = %s, k = %lld}", rk_name(&x),
                         rk_chance(r, 2) ? "true" : "false", (long long)rk_between(r, -2, 2));
}

/* Up to three moves with arithmetic between. */
static rk_value rk_moves(random_kernel *r)
{
    static rk_value (*const moves[])(random_kernel *r, rk_value x) = {
        rk_transpose_of, rk_pad_of,  rk_slice_of,           rk_concat_of, rk_reshape_of,
        rk_gather_of,    rk_tile_of, rk_gather_elements_of, rk_expand_of, rk_trilu_of};
    rk_value v = rk_epilogue(r, rk_any_input(r, 1, 4, 400), 1);
    for (unsigned n = 1 + rk_below(r, 3); n-- > 0;) {
        if (r->n_inputs > 6 || rk_product(v.dims, v.rank) > 1500 || v.rank == 0)
            break;
        v = moves[rk_below(r, sizeof moves / sizeof *moves)](r, v);
        v = rk_epilogue(r, v, 1);
    }
    return v;
}

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
             "strides = %s, dilations = %s, pads_begin = %s, pads_end = %s%s",
             rk_ints(w->stride, w->n), rk_ints(w->dilation, w->n), rk_ints(w->begin, w->n),
             rk_ints(w->end, w->n), w->last ? ", data_layout = \"NHWC\"" : "");
}

/* N, C and the sizes in the window's layout. */
static rk_value rk_image(const char *elem, const rk_window *w, int64_t n, int64_t c,
                         const int64_t *size)
{
    int64_t dims[5] = {n};
    dims[w->last ? w->n + 1 : 1] = c;
    for (unsigned i = 0; i < w->n; i++)
        dims[i + (w->last ? 1 : 2)] = size[i];
    return rk_shape(elem, w->n + 2, dims);
}

static rk_value rk_input_like(random_kernel *r, rk_value v)
{
    return rk_input(r, v.elem, v.rank, v.dims, 0);
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

/* ---- Whole functions ---- */

static inline void random_kernel_make(random_kernel *r, uint64_t seed)
{
    static const struct {
        const char *name;
        rk_value (*make)(random_kernel *r);
    } families[] = {
        {"elementwise", rk_elementwise},
        {"matmul", rk_matmul},
        {"conv", rk_conv},
        {"moves", rk_moves},
        {"reduce", rk_reduce},
        {"softmax", rk_softmax},
        {"norm", rk_norm},
        {"pool", rk_pool},
        {"conv", rk_conv},
        {"moves", rk_moves},
        {"arg", rk_arg},
        {"packed", rk_packed_matmul},
        {"scan", rk_scan},
        {"deep", rk_deep},
        {"transposed", rk_conv_transpose},
        {"attention", rk_attention},
        {"wide", rk_wide},
        {"elementwise", rk_elementwise},
        {"empty", rk_empty},
    };
    enum { FAMILIES = sizeof families / sizeof *families };
    *r = (random_kernel){.state = seed * 0x9e3779b97f4a7c15ull + 1, .seed = seed, .exact = true};
    r->points = rk_chance(r, 8) ? 24000 : 3000;
    r->family = families[seed % FAMILIES].name;
    rk_value v = families[seed % FAMILIES].make(r);
    if (v.input) /* a function computes something */
        v = rk_emit(r, v, "neg %s", rk_name(&v));
    bool two = r->extra.elem && r->extra.id != v.id;
    if (two)
        snprintf(r->text, sizeof r->text,
                 "module {\n  func @main(%s) -> (%s, %s) {\n%s    return %s, %s\n  }\n}\n",
                 r->inputs, rk_type(&r->extra), rk_type(&v), r->body, rk_name(&r->extra),
                 rk_name(&v));
    else
        snprintf(r->text, sizeof r->text,
                 "module {\n  func @main(%s) -> %s {\n%s    return %s\n  }\n}\n", r->inputs,
                 rk_type(&v), r->body, rk_name(&v));
}

#endif
