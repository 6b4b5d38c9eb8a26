/* op_spectral.c: Fourier transforms as products with constant matrices, and window functions. */
#include "import/onnx/spectral.h"

#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

enum { MAX_MATRIX = 1 << 24 }; /* elements of a transform's matrix */

/* A constant tensor of f32 or f64; values are the context's memory. */
static tw_value *matrix(tw_onnx_node *n, const double *values, tw_elem elem, unsigned rank,
                        const int64_t *dims)
{
    size_t count = 1;
    const void *data = values;
    for (unsigned i = 0; i < rank; i++)
        count *= (size_t)dims[i];
    if (elem == TW_F32) {
        float *narrow = tw_context_alloc(n->ctx, count * sizeof *narrow);
        for (size_t i = 0; i < count; i++)
            narrow[i] = (float)values[i];
        data = narrow;
    }
    return tw_gb_constant(n->g, tw_type_tensor_static(n->ctx, elem, rank, dims), data,
                          count * tw_elem_bits(elem) / 8, NULL);
}

/* ---- Matrices ---- */

/* What a transform turns into what. */
typedef struct transform {
    int64_t n_in, n_out, length; /* points; `length` is the period */
    int64_t c_in, c_out;         /* 1: real, 2: real and imaginary part */
    bool inverse, real_result;   /* real_result: from half a spectrum */
} transform;

/* The contribution of point i, part a, to point k, part b. */
static double weight(const transform *t, int64_t i, int64_t a, int64_t k, int64_t b)
{
    double angle = 2 * pi * (double)(i * k % t->length) / (double)t->length;
    double scale = t->inverse ? 1.0 / (double)t->length : 1;
    if (t->real_result) { /* points beyond the half are the conjugates of those before */
        bool alone = i == 0 || 2 * i == t->length;
        scale *= i > t->length / 2 ? 0 : alone ? 1 : 2;
        return scale * (a ? -sin(angle) : cos(angle));
    }
    if (i >= t->length)
        return 0;
    double s = t->inverse ? sin(angle) : -sin(angle);
    return scale * (a == b ? cos(angle) : a ? -s : s);
}

/* [n_in * c_in, n_out * c_out], or for a convolution [n_out * c_out, c_in, n_in]. */
static tw_value *transform_matrix(tw_onnx_node *n, const transform *t, tw_elem elem,
                                  bool convolution)
{
    int64_t rows = t->n_in * t->c_in, columns = t->n_out * t->c_out;
    if (t->n_in <= 0 || t->n_out <= 0 || t->length <= 0 || t->length > MAX_MATRIX ||
        t->n_in > MAX_MATRIX || rows * columns > MAX_MATRIX)
        return tw_gb_error(n->g, "a transform of %lld points", (long long)t->length);
    double *values = tw_context_alloc(n->ctx, (size_t)(rows * columns) * sizeof *values);
    for (int64_t i = 0; i < t->n_in; i++)
        for (int64_t a = 0; a < t->c_in; a++)
            for (int64_t k = 0; k < t->n_out; k++)
                for (int64_t b = 0; b < t->c_out; b++) {
                    int64_t column = k * t->c_out + b;
                    int64_t at = convolution ? (column * t->c_in + a) * t->n_in + i
                                             : (i * t->c_in + a) * columns + column;
                    values[at] = weight(t, i, a, k, b);
                }
    return convolution ? matrix(n, values, elem, 3, (int64_t[]){columns, t->c_in, t->n_in})
                       : matrix(n, values, elem, 2, (int64_t[]){rows, columns});
}

/* ---- DFT ---- */

/* The parts that the last axis of x has: 1 or 2. */
static bool read_parts(tw_onnx_node *n, tw_type x, int64_t *parts)
{
    if (x->rank >= 2 && tw_expr_as_const(x->dims[x->rank - 1], parts) && *parts >= 1 && *parts <= 2)
        return true;
    return tw_onnx_error(n, "input 0 is %s; a last axis of size 1 or 2 (real, imaginary) is needed",
                         tw_gb_type_text(n->g, x));
}

/* Input 0 with both parts when only the run knows how many it has: a real signal's imaginary part
 * is 0. NULL with an error. */
static tw_value *with_parts(tw_onnx_node *n, tw_value *x)
{
    tw_gb *g = n->g;
    int64_t known;
    if (!x || x->type->rank < 2 || tw_expr_as_const(x->type->dims[x->type->rank - 1], &known))
        return x;
    unsigned last = x->type->rank - 1;
    tw_expr d = x->type->dims[last];
    static const char message[] = "a last axis of size 1 or 2 (real, imaginary) is needed";
    if (!tw_gb_check(g, tw_expr_addc(n->ctx, d, -1), message) ||
        !tw_gb_check(g, tw_expr_sub(n->ctx, tw_gb_const(g, 2), d), message))
        return NULL;
    tw_value *size = tw_onnx_size_of(g, x, last);
    tw_value *end = tw_gb_binary_scalar(g, TW_GRAPH_ADD, size, -1);
    tw_value *imaginary = tw_gb_unsqueeze(g, tw_gb_gather(g, x, end, last), 1u << last);
    imaginary = tw_gb_where(g, tw_gb_binary_scalar(g, TW_GRAPH_EQUAL, size, 2), imaginary,
                            tw_gb_scalar(g, x->type->elem, 0));
    tw_value *real = tw_gb_slice_axis(g, x, last, tw_gb_const(g, 0), 1, tw_gb_const(g, 1));
    return tw_gb_concat(g, (tw_value *[]){real, imaginary}, 2, last);
}

/* A scalar input that must be a known number. */
static bool read_scalar(tw_onnx_node *n, unsigned i, int64_t *out)
{
    size_t count;
    const int64_t *value = tw_onnx_known_ints(n, i, &count);
    if (value && count != 1)
        return tw_onnx_error(n, "input %u must be a scalar", i);
    if (value)
        *out = *value;
    return value != NULL;
}

/* Whether input i is left out or a known number. */
static bool is_number(tw_onnx_node *n, unsigned i)
{
    size_t count;
    return !tw_onnx_in(n, i) || tw_known_ints(n->g, n->in[i], &count);
}

/* Whether the axis, which is known, has a known size. */
static bool is_axis_known(tw_onnx_node *n)
{
    bool ok = true;
    size_t count;
    int64_t size, axis = n->version < 20 ? tw_onnx_int(n, "axis", 1, &ok) : -2;
    const int64_t *given =
        n->version >= 20 && tw_onnx_in(n, 2) ? tw_known_ints(n->g, n->in[2], &count) : NULL;
    axis = given && count ? *given : axis;
    axis += axis < 0 ? n->in[0]->type->rank : 0;
    return axis < 0 || axis >= n->in[0]->type->rank ||
           tw_expr_as_const(n->in[0]->type->dims[axis], &size);
}

static bool dft_runtime(tw_onnx_node *n)
{
    bool ok = true, onesided = tw_onnx_int(n, "onesided", 0, &ok);
    tw_transform_sizes t = {
        .c_out = 2, .inverse = tw_onnx_int(n, "inverse", 0, &ok), .elem = TW_F64};
    int64_t given = n->version < 20 ? tw_onnx_int(n, "axis", 1, &ok) : -2;
    if (!ok || !read_parts(n, n->in[0]->type, &t.c_in))
        return false;
    tw_value *axis = n->version >= 20 && tw_onnx_in(n, 2) ? tw_onnx_index_scalar(n, 2)
                                                          : tw_onnx_number(n->g, given);
    t.real_result = t.inverse && onesided;
    t.c_out = t.real_result ? 1 : 2;
    tw_value *y = tw_onnx_dft_runtime(n, axis, onesided, t);
    return tw_onnx_set(n, 0, tw_gb_cast(n->g, y, n->in[0]->type->elem));
}

static bool read_dft(tw_onnx_node *n, transform *t, unsigned *axis)
{
    bool ok = true;
    tw_type x = n->in[0]->type;
    int64_t given = n->version < 20 ? tw_onnx_int(n, "axis", 1, &ok) : -2;
    bool onesided = tw_onnx_int(n, "onesided", 0, &ok);
    *t = (transform){.c_out = 2, .inverse = tw_onnx_int(n, "inverse", 0, &ok)};
    if (!ok || !read_parts(n, x, &t->c_in) ||
        (n->version >= 20 && tw_onnx_in(n, 2) && !read_scalar(n, 2, &given)) ||
        !tw_onnx_axis(n, given, x->rank, axis))
        return false;
    if (*axis == x->rank - 1 || !tw_expr_as_const(x->dims[*axis], &t->n_in))
        return tw_onnx_error(n, "axis %u of %s must have a known size and not be the last", *axis,
                             tw_gb_type_text(n->g, x));
    t->real_result = t->inverse && onesided;
    t->length = t->real_result ? 2 * (t->n_in - 1) : t->n_in;
    if (tw_onnx_in(n, 1) && !read_scalar(n, 1, &t->length))
        return false;
    t->n_out = onesided && !t->inverse ? t->length / 2 + 1 : t->length;
    if (t->real_result)
        t->c_out = 1;
    return true;
}

/* The axis goes beside the parts, both become one, are multiplied, and go back. In f64: terms of
 * opposite sign cancel, and what they leave in f32 is above the noise of a fast transform. */
bool tw_onnx_op_dft(tw_onnx_node *n)
{
    transform t;
    unsigned axis, k = 0;
    tw_gb *g = n->g;
    tw_expr dims[TW_MAX_RANK];
    int64_t perm[TW_MAX_RANK], back[TW_MAX_RANK];
    n->in[0] = with_parts(n, n->in[0]);
    if (!n->in[0])
        return false;
    if (!is_number(n, 1) || (n->version >= 20 && !is_number(n, 2)) || !is_axis_known(n))
        return dft_runtime(n);
    if (!read_dft(n, &t, &axis))
        return false;
    tw_elem elem = n->in[0]->type->elem;
    unsigned rank = n->in[0]->type->rank;
    for (unsigned i = 0; i + 1 < rank; i++)
        if (i != axis)
            perm[k++] = i;
    perm[rank - 2] = axis;
    perm[rank - 1] = rank - 1;
    for (unsigned i = 0; i < rank; i++)
        back[perm[i]] = i;
    tw_value *x = tw_gb_transpose(g, tw_gb_cast(g, n->in[0], TW_F64), perm);
    if (!x)
        return false;
    memcpy(dims, x->type->dims, rank * sizeof *dims);
    tw_expr rest = tw_gb_product(g, dims, rank - 2);
    x = tw_gb_reshape(g, x, 2, (tw_expr[]){rest, tw_gb_const(g, t.n_in * t.c_in)});
    x = tw_gb_matmul(g, x, transform_matrix(n, &t, TW_F64, false), false, false);
    dims[rank - 2] = tw_gb_const(g, t.n_out);
    dims[rank - 1] = tw_gb_const(g, t.c_out);
    x = tw_gb_transpose(g, tw_gb_reshape(g, x, rank, dims), back);
    return tw_onnx_set(n, 0, tw_gb_cast(g, x, elem));
}

/* ---- STFT: a convolution whose filters are the transform's rows, weighted by the window ---- */

static bool read_stft(tw_onnx_node *n, tw_type signal, transform *t, int64_t *step)
{
    bool ok = true;
    int64_t frame = -1, onesided = tw_onnx_int(n, "onesided", 1, &ok);
    tw_value *window = tw_onnx_in(n, 2);
    *t = (transform){.c_out = 2};
    if (!ok || !read_parts(n, signal, &t->c_in) || !read_scalar(n, 1, step) ||
        (tw_onnx_in(n, 3) && !read_scalar(n, 3, &frame)))
        return false;
    if (signal->rank != 3)
        return tw_onnx_error(n, "input 0 is %s; batch, time and parts are needed",
                             tw_gb_type_text(n->g, signal));
    if (window && (window->type->rank != 1 || !tw_expr_as_const(window->type->dims[0], &t->n_in)))
        return tw_onnx_error(n, "the window is %s; a vector of known size is needed",
                             tw_gb_type_text(n->g, window->type));
    if (!window)
        t->n_in = frame;
    if (t->n_in <= 0 || (frame >= 0 && frame != t->n_in) || *step <= 0 || *step > INT32_MAX)
        return tw_onnx_error(n, "frames of %lld points with a window of %lld, %lld apart",
                             (long long)frame, (long long)t->n_in, (long long)*step);
    t->length = t->n_in;
    t->n_out = onesided ? t->length / 2 + 1 : t->length;
    return true;
}

/* Whether it is known how long frames are. */
static bool is_frame_known(tw_onnx_node *n)
{
    int64_t count;
    const tw_value *window = tw_onnx_in(n, 2);
    return window ? tw_type_static_count(window->type, &count) : is_number(n, 3);
}

static bool stft_runtime(tw_onnx_node *n, tw_value *signal)
{
    bool ok = true, onesided = tw_onnx_int(n, "onesided", 1, &ok);
    int64_t parts;
    tw_elem work = signal->type->elem == TW_F64 ? TW_F64 : TW_F32;
    if (!ok || signal->type->rank != 3 || !read_parts(n, signal->type, &parts))
        return ok && tw_onnx_error(n, "input 0 is %s; batch, time and parts are needed",
                                   tw_gb_type_text(n->g, signal->type));
    tw_value *y = tw_onnx_stft_runtime(n, signal, onesided, parts, work);
    return tw_onnx_set(n, 0, tw_gb_cast(n->g, y, signal->type->elem));
}

bool tw_onnx_op_stft(tw_onnx_node *n)
{
    static const int64_t time_last[3] = {0, 2, 1}, frames_first[4] = {0, 3, 1, 2};
    transform t;
    int64_t step;
    tw_gb *g = n->g;
    tw_value *x = n->in[0];
    if (x->type->rank == 2) /* the parts of a real signal may be left out */
        x = tw_gb_unsqueeze(g, x, 1u << 2);
    x = with_parts(n, x);
    if (x && (!is_number(n, 1) || !is_frame_known(n)))
        return stft_runtime(n, x);
    if (!x || !read_stft(n, x->type, &t, &step))
        return false;
    tw_type signal = x->type;
    tw_elem work = signal->elem == TW_F64 ? TW_F64 : TW_F32;
    x = tw_gb_transpose(g, tw_gb_cast(g, x, work), time_last);
    tw_value *filters = transform_matrix(n, &t, work, true);
    if (tw_onnx_in(n, 2))
        filters = tw_gb_binary(g, TW_GRAPH_MUL, filters, tw_gb_cast(g, n->in[2], work));
    tw_expr frames = tw_expr_addc(n->ctx,
                                  tw_expr_binary(n->ctx, TW_EXPR_FLOORDIV,
                                                 tw_expr_addc(n->ctx, signal->dims[1], -t.n_in),
                                                 tw_gb_const(g, step)),
                                  1);
    tw_expr dims[3] = {signal->dims[0], tw_gb_const(g, t.n_out * 2), frames};
    int64_t zero = 0, one = 1;
    tw_value *y = TW_GB_EMIT(
        g, CONV, ((tw_value *[]){x, filters}), 2, tw_type_tensor(n->ctx, work, 3, dims, NULL),
        {"strides", tw_attr_ints(n->ctx, &step, 1)}, {"dilations", tw_attr_ints(n->ctx, &one, 1)},
        {"pads_begin", tw_attr_ints(n->ctx, &zero, 1)},
        {"pads_end", tw_attr_ints(n->ctx, &zero, 1)}, {"groups", tw_attr_int(n->ctx, 1)});
    tw_expr split[4] = {dims[0], tw_gb_const(g, t.n_out), tw_gb_const(g, 2), frames};
    y = tw_gb_transpose(g, tw_gb_reshape(g, y, 4, split), frames_first);
    return tw_onnx_set(n, 0, tw_gb_cast(g, y, signal->elem));
}

/* ---- Windows ---- */

/* By `param`: Hann, Hamming, Blackman. */
static const tw_window_terms window_terms[] = {
    {0.5, -0.5, 0}, {25.0 / 46, -21.0 / 46, 0}, {0.42, -0.5, 0.08}};

static double window_value(int kind, double turn)
{
    const tw_window_terms *t = &window_terms[kind];
    return t->a0 + t->a1 * cos(turn) + t->a2 * cos(2 * turn);
}

bool tw_onnx_op_window(tw_onnx_node *n)
{
    bool ok = true;
    int64_t size, periodic = tw_onnx_int(n, "periodic", 1, &ok);
    int64_t type = tw_onnx_int(n, "output_datatype", 1, &ok);
    tw_elem elem;
    if (type < 0 || type > 255 || !tw_onnx_elem((int32_t)type, &elem) || elem == TW_STRING)
        return tw_onnx_error(n, "attribute 'output_datatype' is %lld, which is not supported",
                             (long long)type);
    if (ok && !is_number(n, 0)) {
        tw_value *y = tw_onnx_window_runtime(n, periodic, window_terms[n->op->param]);
        return tw_onnx_set(n, 0, tw_gb_cast(n->g, y, elem));
    }
    if (!ok || !read_scalar(n, 0, &size))
        return false;
    if (size < 0 || size > MAX_MATRIX)
        return tw_onnx_error(n, "a window of %lld points", (long long)size);
    double *values = tw_context_alloc(n->ctx, (size_t)size * sizeof *values);
    double period = (double)(periodic ? size : size - 1);
    for (int64_t i = 0; i < size; i++)
        values[i] = window_value(n->op->param, 2 * pi * (double)i / period);
    return tw_onnx_set(
        n, 0,
        tw_gb_cast(n->g, matrix(n, values, elem == TW_F64 ? TW_F64 : TW_F32, 1, &size), elem));
}

/* ---- Mel filters ---- */

static double hertz_to_mel(double hertz)
{
    return 2595 * log10(1 + hertz / 700);
}

/* Triangles over the spectrum, evenly spaced in mel; [bins, filters]. */
static void mel_filters(double *out, int64_t bins, int64_t filters, const int64_t *edges)
{
    for (int64_t i = 0; i < filters; i++) {
        int64_t left = edges[i], centre = edges[i + 1], right = edges[i + 2];
        for (int64_t j = left; j <= centre && j < bins; j++)
            out[j * filters + i] =
                centre == left ? 1 : (double)(j - left) / (double)(centre - left);
        for (int64_t j = centre; j < right && j < bins; j++)
            out[j * filters + i] = (double)(right - j) / (double)(right - centre);
    }
}

bool tw_onnx_op_mel_weight_matrix(tw_onnx_node *n)
{
    bool ok = true;
    int64_t filters, length, rate, type = tw_onnx_int(n, "output_datatype", 1, &ok);
    size_t count[2];
    const double *low, *high;
    tw_elem elem = TW_F32;
    if (!is_number(n, 0) || !is_number(n, 1) || !is_number(n, 2) ||
        !tw_known_reals(n->g, n->in[3], &count[0]) || !tw_known_reals(n->g, n->in[4], &count[1]))
        return ok && type > 0 && type < 255 && tw_onnx_elem((int32_t)type, &elem) &&
               tw_onnx_set(n, 0, tw_gb_cast(n->g, tw_onnx_mel_runtime(n), elem));
    if (!ok || !read_scalar(n, 0, &filters) || !read_scalar(n, 1, &length) ||
        !read_scalar(n, 2, &rate) || !(low = tw_onnx_known_reals(n, 3, &count[0])) ||
        !(high = tw_onnx_known_reals(n, 4, &count[1])))
        return false;
    if (type < 0 || type > 255 || !tw_onnx_elem((int32_t)type, &elem) || elem == TW_STRING)
        return tw_onnx_error(n, "attribute 'output_datatype' is %lld, which is not supported",
                             (long long)type);
    if (filters <= 0 || length <= 0 || rate <= 0 || filters > 65536 || length > 1 << 20 ||
        filters * (length / 2 + 1) > MAX_MATRIX || count[0] != 1 || count[1] != 1 || *low < 0 ||
        !(*high >= *low) || *high > 1e9)
        return tw_onnx_error(n, "%lld filters of %lld points", (long long)filters,
                             (long long)length);
    int64_t bins = length / 2 + 1;
    int64_t *edges = TW_NEW_ARRAY(n->im->arena, int64_t, (size_t)filters + 2);
    double start = hertz_to_mel(*low), step = (hertz_to_mel(*high) - start) / (double)(filters + 2);
    for (int64_t i = 0; i < filters + 2; i++) {
        double hertz = 700 * (pow(10, ((double)i * step + start) / 2595) - 1);
        edges[i] = (int64_t)floor((double)(length + 1) * hertz / (double)rate);
    }
    double *values = tw_context_alloc(n->ctx, (size_t)(bins * filters) * sizeof *values);
    mel_filters(values, bins, filters, edges);
    tw_value *y =
        matrix(n, values, elem == TW_F64 ? TW_F64 : TW_F32, 2, (int64_t[]){bins, filters});
    return tw_onnx_set(n, 0, tw_gb_cast(n->g, y, elem));
}
