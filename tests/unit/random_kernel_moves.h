/* random_kernel_moves.h: element-wise chains and operations that move data (random_kernel.h). */
#ifndef TW_TESTS_RANDOM_KERNEL_MOVES_H
#define TW_TESTS_RANDOM_KERNEL_MOVES_H

#include "random_kernel_text.h"

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

#endif
