/* spectral_runtime.c: windows, Fourier transforms and mel filters whose sizes are known only when
 * the model runs: what op_spectral.c makes constants of is computed by the model, element by
 * element, in double precision. */
#include "import/onnx/arith.h"
#include "import/onnx/spectral.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

static tw_value *real(tw_gb *g, double value)
{
    return tw_gb_scalar(g, TW_F64, value);
}

/* ---- Windows ---- */

tw_value *tw_onnx_window_runtime(tw_onnx_node *n, bool periodic, tw_window_terms terms)
{
    tw_gb *g = n->g;
    tw_expr hint;
    tw_value *size = tw_onnx_index_scalar(n, 0);
    tw_onnx_declared_dims(n, 0, 1, &hint);
    tw_expr length = tw_onnx_bind_size(n, size, hint, "points of the window");
    if (!length)
        return NULL;
    tw_value *period = tw_gb_cast(g, size, TW_F64);
    if (!periodic)
        period = ADDC(period, -1);
    tw_value *turn = DIV(MULC(tw_gb_iota(g, TW_F64, 1, &length, 0), 2 * pi), period);
    tw_value *y = ADDC(MULC(tw_gb_unary(g, TW_GRAPH_COS, turn), terms.a1), terms.a0);
    if (terms.a2 != 0)
        y = ADD(y, MULC(tw_gb_unary(g, TW_GRAPH_COS, MULC(turn, 2)), terms.a2));
    return tw_gb_cast(g, y, TW_F32);
}

/* ---- The matrix of a transform ---- */

/* i64 positions along one of the axes [n_in, c_in, n_out, c_out]. */
static tw_value *position(tw_gb *g, tw_expr size, unsigned axis)
{
    tw_expr one = tw_gb_const(g, 1), dims[4] = {one, one, one, one};
    dims[axis] = size;
    return tw_gb_iota(g, TW_I64, 4, dims, axis);
}

/* Of half a spectrum's points those count twice that stand for their conjugates as well. */
static tw_value *times(tw_gb *g, tw_value *i, tw_value *length)
{
    tw_value *twice = MULC(i, 2);
    tw_value *alone =
        tw_gb_binary(g, TW_GRAPH_OR, EQUALC(i, 0), tw_gb_binary(g, TW_GRAPH_EQUAL, twice, length));
    tw_value *count = tw_gb_where(g, alone, real(g, 1), real(g, 2));
    return tw_gb_where(g, LESS(length, twice), real(g, 0), count);
}

tw_value *tw_onnx_transform_runtime(tw_gb *g, const tw_transform_sizes *t)
{
    tw_expr c_in = tw_gb_const(g, t->c_in), c_out = tw_gb_const(g, t->c_out);
    tw_value *i = position(g, t->n_in, 0), *a = position(g, c_in, 1);
    tw_value *k = position(g, t->n_out, 2), *b = position(g, c_out, 3);
    tw_value *step = tw_gb_binary(g, TW_GRAPH_MOD, MUL(i, k), t->length);
    tw_value *length = tw_gb_cast(g, t->length, TW_F64);
    tw_value *angle = DIV(MULC(tw_gb_cast(g, step, TW_F64), 2 * pi), length);
    tw_value *cosine = tw_gb_unary(g, TW_GRAPH_COS, angle);
    tw_value *sine = tw_gb_unary(g, TW_GRAPH_SIN, angle), *w;
    if (t->real_result) {
        w = tw_gb_where(g, EQUALC(a, 0), cosine, MULC(sine, -1));
        w = MUL(w, times(g, i, t->length));
    } else {
        tw_value *s = MULC(sine, t->inverse ? 1 : -1);
        tw_value *mixed = tw_gb_where(g, EQUALC(a, 0), s, MULC(s, -1));
        w = tw_gb_where(g, tw_gb_binary(g, TW_GRAPH_EQUAL, a, b), cosine, mixed);
        w = tw_gb_where(g, LESS(i, t->length), w, real(g, 0));
    }
    if (t->inverse)
        w = DIV(w, length);
    tw_expr rows = tw_expr_mulc(g->ctx, t->n_in, t->c_in);
    tw_expr columns = tw_expr_mulc(g->ctx, t->n_out, t->c_out);
    return tw_gb_reshape(g, tw_gb_cast(g, w, t->elem), 2, (tw_expr[]){rows, columns});
}

/* ---- DFT ---- */

/* Sizes of all axes before the axis, of it, and of those between it and the last. */
static const tw_expr *sizes_around(tw_onnx_node *n, tw_value *axis, tw_value *sizes)
{
    static const tw_graph_kind side[3] = {TW_GRAPH_LESS, TW_GRAPH_EQUAL, TW_GRAPH_GREATER};
    tw_gb *g = n->g;
    tw_value *parts[3], *one = tw_onnx_number(g, 1);
    tw_value *at = tw_gb_iota(g, TW_I64, 1, sizes->type->dims, 0);
    for (int i = 0; i < 3; i++)
        parts[i] =
            tw_gb_reduce(g, TW_GRAPH_REDUCE_PROD,
                         tw_gb_where(g, tw_gb_binary(g, side[i], at, axis), sizes, one), 1, false);
    return tw_onnx_bind_sizes(n, tw_onnx_join(g, parts, 3), NULL, "sizes around the axis");
}

tw_value *tw_onnx_dft_runtime(tw_onnx_node *n, tw_value *axis, bool onesided, tw_transform_sizes t)
{
    static const int64_t swap[4] = {0, 2, 1, 3};
    tw_gb *g = n->g;
    tw_value *x = tw_gb_cast(g, n->in[0], t.elem);
    if (!x || !axis)
        return NULL;
    unsigned rank = x->type->rank;
    tw_expr hints[TW_MAX_RANK];
    axis = tw_gb_where(g, tw_gb_binary_scalar(g, TW_GRAPH_LESS, axis, 0), ADDC(axis, rank), axis);
    tw_expr some = tw_gb_const(g, rank - 1);
    tw_value *sizes = tw_gb_slice_axis(g, tw_onnx_sizes_of(g, x), 0, tw_gb_const(g, 0), 1, some);
    const tw_expr *around = sizes ? sizes_around(n, axis, sizes) : NULL;
    if (!around)
        return NULL;
    tw_value *in = tw_gb_reshape(g, tw_gb_gather(g, sizes, axis, 0), 0, NULL);
    t.length = tw_onnx_in(n, 1) ? tw_onnx_index_scalar(n, 1)
               : t.real_result  ? MULC(ADDC(in, -1), 2)
                                : in;
    tw_value *out = onesided && !t.inverse
                        ? ADDC(tw_gb_binary(g, TW_GRAPH_DIV, t.length, tw_onnx_number(g, 2)), 1)
                        : t.length;
    t.n_in = around[1];
    tw_value *place = tw_gb_iota(g, TW_I64, 1, &some, 0);
    tw_value *result = tw_gb_where(g, tw_gb_binary(g, TW_GRAPH_EQUAL, place, axis), out, sizes);
    tw_onnx_declared_dims(n, 0, rank, hints);
    const tw_expr *dims = tw_onnx_bind_sizes(n, result, hints, "sizes of the transform");
    t.n_out = dims ? tw_onnx_bind_size(n, out, NULL, "points of the transform") : NULL;
    if (!t.n_out)
        return NULL;
    tw_expr c_in = tw_gb_const(g, t.c_in), c_out = tw_gb_const(g, t.c_out);
    x = tw_gb_reshape(g, x, 4, (tw_expr[]){around[0], around[1], around[2], c_in});
    x = tw_gb_transpose(g, x, swap);
    tw_expr rest = tw_expr_mul(n->ctx, around[0], around[2]);
    tw_expr row = tw_expr_mul(n->ctx, around[1], c_in);
    x = tw_gb_matmul(g, tw_gb_reshape(g, x, 2, (tw_expr[]){rest, row}),
                     tw_onnx_transform_runtime(g, &t), false, false);
    x = tw_gb_reshape(g, x, 4, (tw_expr[]){around[0], around[2], t.n_out, c_out});
    for (unsigned i = 0; i + 1 < rank; i++)
        hints[i] = dims[i];
    hints[rank - 1] = c_out;
    return tw_gb_reshape(g, tw_gb_transpose(g, x, swap), rank, hints);
}

/* ---- STFT ---- */

/* Frames gathered from the signal [batch, time, parts], weighted, and multiplied by the matrix. */
tw_value *tw_onnx_stft_runtime(tw_onnx_node *n, tw_value *signal, bool onesided, int64_t parts,
                               tw_elem elem)
{
    tw_gb *g = n->g;
    tw_expr hints[4], one = tw_gb_const(g, 1);
    tw_value *step = tw_onnx_index_scalar(n, 1), *window = tw_onnx_in(n, 2);
    tw_value *frame = window ? tw_onnx_size_of(g, window, 0) : tw_onnx_index_scalar(n, 3);
    if (!step || !frame)
        return NULL;
    tw_transform_sizes t = {.c_in = parts, .c_out = 2, .length = frame, .elem = elem};
    tw_onnx_declared_dims(n, 0, 4, hints);
    tw_value *points = onesided ? ADDC(DIV(frame, tw_onnx_number(g, 2)), 1) : frame;
    tw_value *time = tw_onnx_size_of(g, signal, 1);
    tw_value *frames = ADDC(DIV(SUB(time, frame), step), 1);
    const tw_expr *sizes =
        tw_onnx_bind_sizes(n, tw_onnx_join(g, (tw_value *[]){frames, points, frame}, 3),
                           (tw_expr[]){hints[1], hints[2], NULL}, "frames, points and samples");
    if (!sizes)
        return NULL;
    t.n_in = sizes[2];
    t.n_out = sizes[1];
    tw_expr dims[2] = {sizes[0], t.n_in};
    tw_value *at = ADD(MUL(tw_gb_iota(g, TW_I64, 2, (tw_expr[]){sizes[0], one}, 0), step),
                       tw_gb_iota(g, TW_I64, 2, (tw_expr[]){one, t.n_in}, 1));
    tw_value *x = tw_gb_gather(g, tw_gb_cast(g, signal, elem), at, 1);
    if (window)
        x = MUL(x, tw_gb_reshape(g, tw_gb_cast(g, window, elem), 4,
                                 (tw_expr[]){one, one, t.n_in, one}));
    tw_expr batch = signal->type->dims[0], rows = tw_expr_mul(n->ctx, batch, dims[0]);
    x = tw_gb_matmul(g,
                     tw_gb_reshape(g, x, 2, (tw_expr[]){rows, tw_expr_mulc(n->ctx, t.n_in, parts)}),
                     tw_onnx_transform_runtime(g, &t), false, false);
    return tw_gb_reshape(g, x, 4, (tw_expr[]){batch, sizes[0], t.n_out, tw_gb_const(g, 2)});
}

/* ---- Mel filters ---- */

/* 2595 * log10(1 + hertz / 700) */
static tw_value *to_mel(tw_gb *g, tw_value *hertz)
{
    return MULC(tw_gb_unary(g, TW_GRAPH_LOG, ADDC(MULC(hertz, 1 / 700.0), 1)), 2595 / log(10));
}

/* Edge i of the triangles, as a whole number: floor((length + 1) * hertz / rate). */
static tw_value *edges(tw_gb *g, tw_value *start, tw_value *step, tw_value *length, tw_value *rate,
                       tw_value *i)
{
    tw_value *mel = ADD(MUL(tw_gb_cast(g, i, TW_F64), step), start);
    tw_value *power = tw_gb_unary(g, TW_GRAPH_EXP, MULC(mel, log(10) / 2595));
    tw_value *hertz = MULC(ADDC(power, -1), 700);
    tw_value *at =
        DIV(MUL(ADDC(tw_gb_cast(g, length, TW_F64), 1), hertz), tw_gb_cast(g, rate, TW_F64));
    return tw_gb_unary(g, TW_GRAPH_FLOOR, at);
}

tw_value *tw_onnx_mel_runtime(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_expr hints[2], one = tw_gb_const(g, 1);
    tw_value *filters = tw_onnx_index_scalar(n, 0), *length = tw_onnx_index_scalar(n, 1);
    tw_value *rate = tw_onnx_index_scalar(n, 2);
    tw_value *low = to_mel(g, tw_gb_cast(g, tw_gb_reshape(g, n->in[3], 0, NULL), TW_F64));
    tw_value *high = to_mel(g, tw_gb_cast(g, tw_gb_reshape(g, n->in[4], 0, NULL), TW_F64));
    if (!filters || !length || !rate || !low || !high)
        return NULL;
    tw_value *bins = ADDC(DIV(length, tw_onnx_number(g, 2)), 1);
    tw_onnx_declared_dims(n, 0, 2, hints);
    const tw_expr *dims = tw_onnx_bind_sizes(n, tw_onnx_join(g, (tw_value *[]){bins, filters}, 2),
                                             hints, "bins and filters");
    if (!dims)
        return NULL;
    tw_value *step = DIV(SUB(high, low), tw_gb_cast(g, ADDC(filters, 2), TW_F64));
    tw_value *i = tw_gb_iota(g, TW_I64, 2, (tw_expr[]){one, dims[1]}, 1);
    tw_value *j = tw_gb_iota(g, TW_F64, 2, (tw_expr[]){dims[0], one}, 0);
    tw_value *left = edges(g, low, step, length, rate, i);
    tw_value *centre = edges(g, low, step, length, rate, ADDC(i, 1));
    tw_value *right = edges(g, low, step, length, rate, ADDC(i, 2));
    tw_value *none = real(g, 0);
    tw_value *up = tw_gb_where(g, tw_gb_binary(g, TW_GRAPH_EQUAL, centre, left), real(g, 1),
                               DIV(SUB(j, left), SUB(centre, left)));
    tw_value *rises = tw_gb_binary(g, TW_GRAPH_AND, tw_gb_binary(g, TW_GRAPH_LESS_EQUAL, left, j),
                                   tw_gb_binary(g, TW_GRAPH_LESS_EQUAL, j, centre));
    tw_value *falls = tw_gb_binary(g, TW_GRAPH_AND, tw_gb_binary(g, TW_GRAPH_LESS_EQUAL, centre, j),
                                   LESS(j, right));
    tw_value *down = DIV(SUB(right, j), SUB(right, centre));
    return tw_gb_cast(g, tw_gb_where(g, falls, down, tw_gb_where(g, rises, up, none)), TW_F32);
}
