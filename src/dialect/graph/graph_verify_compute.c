/* graph_verify_compute.c: rules of reductions, products, windows and normalisations. */
#include "dialect/graph/data_axes.h"
#include "dialect/graph/graph_verify_impl.h"

#include <string.h>

/* ---- Reductions ---- */

/* The shape of the operand with the axes of `mask` dropped, or kept as 1. */
static bool expect_reduced(const tw_graph_check *c, unsigned mask)
{
    tw_type in = tw_gv_in(c, 0);
    bool keep = tw_op_bool(c->op, "keepdims", false);
    int64_t sizes[TW_MAX_RANK];
    unsigned n = 0;
    for (unsigned i = 0; i < in->rank; i++)
        if (!(mask >> i & 1))
            sizes[n++] = tw_gv_size(in, i);
        else if (keep)
            sizes[n++] = 1;
    return tw_gv_expect_sizes(c, "the result", tw_gv_out(c, 0), n, sizes);
}

static bool check_reduce(const tw_graph_check *c)
{
    tw_type in = tw_gv_in(c, 0);
    tw_attr axes = tw_op_attr(c->op, "axes");
    int64_t list[TW_MAX_RANK];
    unsigned n = (unsigned)axes->u.array.n, mask = 0;
    if (axes->u.array.n > in->rank)
        return tw_gv_error(c, "'axes' has more entries than the operand has axes");
    if (!tw_gv_ints(c, "axes", n, list))
        return false;
    for (unsigned i = 0; i < n; i++) {
        if (list[i] < 0 || list[i] >= in->rank || (i && list[i] <= list[i - 1]))
            return tw_gv_error(c, "'axes' holds axes of the operand, in order, each once");
        mask |= 1u << list[i];
    }
    return tw_gv_expect_elem(c, "the result", tw_gv_out(c, 0), in->elem) && expect_reduced(c, mask);
}

static bool check_arg(const tw_graph_check *c)
{
    unsigned axis;
    return tw_gv_axis(c, tw_gv_in(c, 0)->rank, &axis) &&
           tw_gv_expect_elem(c, "the result", tw_gv_out(c, 0), TW_I64) &&
           expect_reduced(c, 1u << axis);
}

static bool check_along_axis(const tw_graph_check *c)
{
    unsigned axis;
    return tw_gv_axis(c, tw_gv_in(c, 0)->rank, &axis) && tw_gv_expect_result_like(c, 0);
}

static bool check_top_k(const tw_graph_check *c)
{
    tw_type in = tw_gv_in(c, 0), values = tw_gv_out(c, 0), indices = tw_gv_out(c, 1);
    int64_t sizes[TW_MAX_RANK];
    unsigned axis;
    if (!tw_gv_axis(c, in->rank, &axis) || !tw_gv_expect_elem(c, "the values", values, in->elem) ||
        !tw_gv_expect_elem(c, "the indices", indices, TW_I64))
        return false;
    for (unsigned i = 0; i < in->rank; i++)
        sizes[i] = i == axis ? TW_UNKNOWN_SIZE : tw_gv_size(in, i);
    if (!tw_gv_expect_sizes(c, "the values", values, in->rank, sizes))
        return false;
    sizes[axis] = tw_gv_size(values, axis);
    if (!tw_gv_expect_sizes(c, "the indices", indices, in->rank, sizes))
        return false;
    int64_t size = tw_gv_size(in, axis);
    return size == TW_UNKNOWN_SIZE || sizes[axis] <= size ||
           tw_gv_error(c, "%lld of only %lld elements are wanted", (long long)sizes[axis],
                       (long long)size);
}

/* ---- Matrix product ---- */

/* Sizes of b's matrices and the number of axes that they take. */
static bool matrix_of_b(const tw_graph_check *c, tw_type b, int64_t *k, int64_t *n, unsigned *axes)
{
    int64_t panel = tw_op_int(c->op, "b_panel", 0);
    bool transposed = tw_op_bool(c->op, "transpose_b", false);
    *axes = panel ? 3 : 2;
    if (!tw_gv_expect_rank(c, "the second operand", b, *axes, TW_MAX_RANK))
        return false;
    if (!panel) {
        *k = tw_gv_size(b, b->rank - (transposed ? 1 : 2));
        *n = tw_gv_size(b, b->rank - (transposed ? 2 : 1));
        return true;
    }
    *k = tw_gv_size(b, b->rank - 2);
    *n = TW_UNKNOWN_SIZE; /* up to panel - 1 columns of the last panel are padding */
    if (transposed || !tw_gv_sizes_fit(tw_gv_size(b, b->rank - 1), panel))
        return tw_gv_error(c,
                           "a packed second operand is not transposed and ends with panels of %lld",
                           (long long)panel);
    int64_t panels = tw_gv_size(b, b->rank - 3);
    tw_type out = tw_gv_out(c, 0);
    int64_t columns = out->rank ? tw_gv_size(out, out->rank - 1) : TW_UNKNOWN_SIZE;
    if (panels == TW_UNKNOWN_SIZE || columns == TW_UNKNOWN_SIZE || panel < 1)
        return panel >= 1 || tw_gv_error(c, "'b_panel' is at least 1");
    return panels == columns / panel + (columns % panel != 0) ||
           tw_gv_error(c, "%lld panels of %lld do not hold %lld columns", (long long)panels,
                       (long long)panel, (long long)columns);
}

/* The leading axes of both operands broadcast to those of the result. */
static bool expect_batch(const tw_graph_check *c, tw_type t, unsigned n)
{
    tw_type out = tw_gv_out(c, 0);
    bool good = n + 2 <= out->rank;
    for (unsigned i = 0; good && i < n; i++) {
        int64_t size = tw_gv_size(t, i);
        good = size == 1 || tw_gv_sizes_fit(size, tw_gv_size(out, out->rank - 2 - n + i));
    }
    return good || tw_gv_error(c, "the leading axes of %s do not broadcast to those of %s",
                               tw_print_type(c->ctx, t), tw_print_type(c->ctx, out));
}

static bool check_matmul(const tw_graph_check *c)
{
    tw_type a = tw_gv_in(c, 0), b = tw_gv_in(c, 1), out = tw_gv_out(c, 0);
    int64_t k, n;
    unsigned b_axes;
    if (!tw_gv_expect_rank(c, "the first operand", a, 2, TW_MAX_RANK) ||
        !matrix_of_b(c, b, &k, &n, &b_axes) ||
        !tw_gv_expect_rank(c, "the result", out, 2, TW_MAX_RANK))
        return false;
    bool transposed = tw_op_bool(c->op, "transpose_a", false);
    int64_t ka = tw_gv_size(a, a->rank - (transposed ? 2 : 1));
    int64_t m = tw_gv_size(a, a->rank - (transposed ? 1 : 2));
    if (!tw_gv_sizes_fit(ka, k))
        return tw_gv_error(c, "%s and %s: %lld is summed with %lld", tw_print_type(c->ctx, a),
                           tw_print_type(c->ctx, b), (long long)ka, (long long)k);
    if (!tw_gv_sizes_fit(m, tw_gv_size(out, out->rank - 2)) ||
        !tw_gv_sizes_fit(n, tw_gv_size(out, out->rank - 1)))
        return tw_gv_error(c, "the result is %s, not %lld x %lld", tw_print_type(c->ctx, out),
                           (long long)m, (long long)n);
    return (!tw_elem_is_float(a->elem) || tw_gv_expect_elem(c, "the second operand", b, a->elem)) &&
           expect_batch(c, a, a->rank - 2) && expect_batch(c, b, b->rank - b_axes);
}

static bool check_matmul_bits(const tw_graph_check *c)
{
    tw_type x = tw_gv_in(c, 0), words = tw_gv_in(c, 1), out = tw_gv_out(c, 0);
    int64_t bits = tw_op_int(c->op, "bits", 0), block = tw_op_int(c->op, "block", 0);
    int64_t sizes[TW_MAX_RANK];
    if ((bits != 2 && bits != 4 && bits != 8) || block < 1 || block > INT32_MAX ||
        block * bits % 32)
        return tw_gv_error(c, "%lld bits, blocks of %lld: a block takes whole words of 32 bits",
                           (long long)bits, (long long)block);
    if (c->op->n_operands > 4)
        return tw_gv_error(c, "has %u operands, not 3 or 4", c->op->n_operands);
    if (!tw_gv_expect_rank(c, "x", x, 2, TW_MAX_RANK) ||
        !tw_gv_expect_rank(c, "the words", words, 3, 3) ||
        !tw_gv_expect_elem(c, "the words", words, TW_I32) || !tw_type_is_static(words))
        return tw_type_is_static(words) ? false : tw_gv_error(c, "weights have constant sizes");
    int64_t panel = tw_gv_size(words, 2), blocks = tw_gv_size(words, 1) * 32 / bits / block;
    for (unsigned i = 2; i < c->op->n_operands; i++) {
        const int64_t part[3] = {tw_gv_size(words, 0), blocks, panel};
        const char *what = i == 2 ? "the scales" : "the zero points";
        if (!tw_gv_expect_sizes(c, what, tw_gv_in(c, i), 3, part))
            return false;
    }
    for (unsigned i = 0; i < x->rank; i++)
        sizes[i] = tw_gv_size(x, i);
    int64_t k = sizes[x->rank - 1], n = out->rank ? tw_gv_size(out, out->rank - 1) : 0;
    sizes[x->rank - 1] = TW_UNKNOWN_SIZE;
    bool fits = k == TW_UNKNOWN_SIZE || (k <= blocks * block && k > (blocks - 1) * block);
    if (!fits || n > tw_gv_size(words, 0) * panel || n <= (tw_gv_size(words, 0) - 1) * panel)
        return tw_gv_error(c, "%s times %lld blocks of %lld for %lld columns is not %s",
                           tw_print_type(c->ctx, x), (long long)blocks, (long long)block,
                           (long long)(tw_gv_size(words, 0) * panel), tw_print_type(c->ctx, out));
    return tw_gv_expect_sizes(c, "the result", out, x->rank, sizes) &&
           tw_gv_expect_elem(c, "the result", out, x->elem);
}

/* ---- Windows ---- */

typedef struct window {
    unsigned axes;      /* spatial ones */
    tw_data_axes x, to; /* of the operand and the result, which have as many */
    int64_t strides[TW_MAX_RANK], dilations[TW_MAX_RANK], begin[TW_MAX_RANK], end[TW_MAX_RANK];
    int64_t kernel[TW_MAX_RANK];
    bool known_begin[TW_MAX_RANK], known_end[TW_MAX_RANK];
} window;

/* Numbers beyond that are nonsense, and sums of a few within it do not overflow. */
static bool is_sane(int64_t value)
{
    return value > -((int64_t)1 << 30) && value < (int64_t)1 << 30;
}

static int64_t channels_of(tw_type t)
{
    tw_data_axes axes = tw_data_axes_of(t);
    int64_t n = tw_gv_size(t, axes.channel);
    return n == TW_UNKNOWN_SIZE || !is_sane(n) || !is_sane(axes.block) ? TW_UNKNOWN_SIZE
                                                                       : n * axes.block;
}

static bool read_window(const tw_graph_check *c, window *w)
{
    tw_type in = tw_gv_in(c, 0);
    if (!tw_gv_expect_rank(c, "the operand", in, in->layout ? 2 : 3, TW_MAX_RANK) ||
        !tw_gv_expect_rank(c, "the result", tw_gv_out(c, 0), in->rank, in->rank))
        return false;
    w->x = tw_data_axes_of(in);
    w->to = tw_data_axes_of(tw_gv_out(c, 0));
    w->axes = w->x.n_space;
    if (!w->axes)
        return tw_gv_error(c, "%s has no axis of space", tw_print_type(c->ctx, in));
    if (!tw_gv_ints(c, "strides", w->axes, w->strides) ||
        !tw_gv_ints(c, "dilations", w->axes, w->dilations) ||
        !tw_gv_ints_or_exprs(c, "pads_begin", w->axes, w->begin, w->known_begin) ||
        !tw_gv_ints_or_exprs(c, "pads_end", w->axes, w->end, w->known_end))
        return false;
    for (unsigned i = 0; i < w->axes; i++)
        if (w->strides[i] < 1 || w->dilations[i] < 1 || !is_sane(w->strides[i]) ||
            !is_sane(w->dilations[i]) || !is_sane(w->begin[i]) || !is_sane(w->end[i]))
            return tw_gv_error(c, "strides and dilations are at least 1, and all of modest size");
    return true;
}

/* Positions of the window along spatial axis i; with `partial` the last may reach beyond the
 * padding. */
static int64_t positions(const window *w, unsigned i, int64_t size, bool partial)
{
    if (!w->known_begin[i] || !w->known_end[i] || size == TW_UNKNOWN_SIZE ||
        w->kernel[i] == TW_UNKNOWN_SIZE || !is_sane(size) || !is_sane(w->kernel[i]))
        return TW_UNKNOWN_SIZE;
    int64_t room = size + w->begin[i] + w->end[i] - w->dilations[i] * (w->kernel[i] - 1) - 1;
    if (partial)
        room += w->strides[i] - 1;
    return room < 0 ? 0 : room / w->strides[i] + 1;
}

static bool expect_windows(const tw_graph_check *c, const window *w, int64_t channels, bool partial)
{
    tw_type in = tw_gv_in(c, 0), out = tw_gv_out(c, 0);
    int64_t sizes[TW_MAX_RANK];
    if (channels != TW_UNKNOWN_SIZE && channels % w->to.block)
        return tw_gv_error(c, "%lld channels are no whole number of blocks of %s",
                           (long long)channels, tw_print_type(c->ctx, out));
    sizes[0] = tw_gv_size(in, 0);
    sizes[w->to.channel] = channels == TW_UNKNOWN_SIZE ? channels : channels / w->to.block;
    if (w->to.lane)
        sizes[w->to.lane] = w->to.block;
    for (unsigned i = 0; i < w->axes; i++) {
        unsigned axis = w->to.space + i;
        int64_t size = tw_gv_size(in, w->x.space + i), rounded_up = positions(w, i, size, true);
        bool up = partial && tw_gv_size(out, axis) == rounded_up;
        sizes[axis] = up ? rounded_up : positions(w, i, size, false);
    }
    return tw_gv_expect_sizes(c, "the result", out, in->rank, sizes);
}

/* Reads the kernel's sizes and the numbers of channels from the weights. */
static bool read_weights(const tw_graph_check *c, window *w, int64_t *in, int64_t *out)
{
    tw_type weights = tw_gv_in(c, 1);
    const char *layout = tw_op_string(c->op, "kernel_layout", "OI");
    int64_t groups = tw_op_int(c->op, "groups", 1), panel = tw_op_int(c->op, "panel", 0);
    bool oi = !strcmp(layout, "OI"), depthwise = !strcmp(layout, "depthwise");
    bool blocks = !strcmp(layout, "blocks");
    unsigned first = oi || blocks ? 2 : depthwise ? 0 : 1; /* spatial axis of the weights */
    unsigned rank = w->axes + (oi ? 2 : depthwise ? 1 : blocks ? 4 : 3);
    if (!tw_gv_word(c, "kernel_layout", "OI panel depthwise blocks") ||
        !tw_gv_expect_rank(c, "the weights", weights, rank, rank))
        return false;
    for (unsigned i = 0; i < w->axes; i++)
        w->kernel[i] = tw_gv_size(weights, first + i);
    if (groups < 1 || !is_sane(groups) || (!oi && !depthwise && panel < 1))
        return tw_gv_error(c, "groups are at least 1, and panels 1 wide");
    *in = oi ? tw_gv_size(weights, 1) : depthwise ? TW_UNKNOWN_SIZE : tw_gv_size(weights, rank - 2);
    *out = oi          ? tw_gv_size(weights, 0)
           : depthwise ? tw_gv_size(weights, rank - 1)
                       : TW_UNKNOWN_SIZE;
    if (!depthwise && *in != TW_UNKNOWN_SIZE && is_sane(*in))
        *in *= groups;
    if (blocks && *in != TW_UNKNOWN_SIZE && is_sane(tw_gv_size(weights, 1)))
        *in *= tw_gv_size(weights, 1);
    int64_t channels = channels_of(tw_gv_out(c, 0));
    return oi || depthwise || groups == 1 || channels == TW_UNKNOWN_SIZE ||
           channels / groups % panel == 0 ||
           tw_gv_error(c, "panels of %lld do not fit %lld groups of %lld channels",
                       (long long)panel, (long long)groups, (long long)channels);
}

static bool same_float_elem(const tw_graph_check *c)
{
    tw_elem elem = tw_gv_in(c, 0)->elem;
    return !tw_elem_is_float(elem) || tw_gv_expect_elem(c, "the weights", tw_gv_in(c, 1), elem);
}

static bool check_conv(const tw_graph_check *c)
{
    window w;
    int64_t in, out;
    if (!read_window(c, &w) || !read_weights(c, &w, &in, &out) || !same_float_elem(c))
        return false;
    int64_t channels = channels_of(tw_gv_in(c, 0));
    int64_t groups = tw_op_int(c->op, "groups", 1);
    if (!tw_gv_sizes_fit(channels, in) || (out != TW_UNKNOWN_SIZE && out % groups))
        return tw_gv_error(c, "weights %s in %lld groups do not fit %lld channels",
                           tw_print_type(c->ctx, tw_gv_in(c, 1)), (long long)groups,
                           (long long)channels);
    return expect_windows(c, &w, out, false);
}

static bool check_conv_transpose(const tw_graph_check *c)
{
    window w;
    tw_type in = tw_gv_in(c, 0), weights = tw_gv_in(c, 1), out = tw_gv_out(c, 0);
    int64_t groups = tw_op_int(c->op, "groups", 1);
    if (!read_window(c, &w) || !same_float_elem(c) ||
        !tw_gv_expect_rank(c, "the weights", weights, w.axes + 2, w.axes + 2))
        return false;
    if (groups < 1 || !is_sane(groups))
        return tw_gv_error(c, "groups are at least 1");
    int64_t channels = tw_gv_size(weights, 1);
    if (channels != TW_UNKNOWN_SIZE && is_sane(channels))
        channels *= groups;
    return (tw_gv_sizes_fit(channels_of(in), tw_gv_size(weights, 0)) &&
            tw_gv_sizes_fit(channels_of(out), channels) &&
            tw_gv_sizes_fit(tw_gv_size(in, 0), tw_gv_size(out, 0))) ||
           tw_gv_error(c, "%s, weights %s in %lld groups and %s do not fit together",
                       tw_print_type(c->ctx, in), tw_print_type(c->ctx, weights), (long long)groups,
                       tw_print_type(c->ctx, out));
}

static bool check_pool(const tw_graph_check *c)
{
    window w;
    if (!read_window(c, &w) || !tw_gv_ints(c, "kernel", w.axes, w.kernel))
        return false;
    for (unsigned i = 0; i < w.axes; i++)
        if (w.kernel[i] < 1 || !is_sane(w.kernel[i]))
            return tw_gv_error(c, "'kernel' holds sizes of at least 1");
    return tw_gv_expect_elem(c, "the result", tw_gv_out(c, 0), tw_gv_in(c, 0)->elem) &&
           expect_windows(c, &w, channels_of(tw_gv_in(c, 0)), true);
}

/* ---- Normalisation ---- */

/* All operands but the first hold one number per channel. */
static bool check_channel_norm(const tw_graph_check *c)
{
    tw_type in = tw_gv_in(c, 0);
    if (!tw_gv_expect_rank(c, "the operand", in, 2, TW_MAX_RANK))
        return false;
    int64_t channels = channels_of(in);
    for (unsigned i = 1; i < c->op->n_operands; i++)
        if (!tw_gv_expect_sizes(c, "a parameter", tw_gv_in(c, i), 1, &channels))
            return false;
    return tw_gv_expect_result_like(c, 0);
}

/* Scale and bias broadcast to the normalised axes. */
static bool check_axis_norm(const tw_graph_check *c)
{
    tw_type in = tw_gv_in(c, 0);
    unsigned axis, most = tw_is_graph(c->op, TW_GRAPH_LAYER_NORM) ? 3 : 2;
    if (!tw_gv_axis(c, in->rank, &axis))
        return false;
    if (c->op->n_operands > most)
        return tw_gv_error(c, "has %u operands, not at most %u", c->op->n_operands, most);
    for (unsigned k = 1; k < c->op->n_operands; k++) {
        tw_type t = tw_gv_in(c, k);
        bool good = t->rank <= in->rank;
        for (unsigned i = 0; good && i < t->rank; i++) {
            int64_t size = tw_gv_size(t, i);
            good = size == 1 || tw_gv_sizes_fit(size, tw_gv_size(in, in->rank - t->rank + i));
        }
        if (!good)
            return tw_gv_error(c, "a parameter is %s, which does not broadcast to %s",
                               tw_print_type(c->ctx, t), tw_print_type(c->ctx, in));
    }
    return tw_gv_expect_result_like(c, 0);
}

/* ---- Attention ---- */

/* A mask broadcasts to the scores, [B, H, M, N]. */
static bool check_mask(const tw_graph_check *c, unsigned i, const int64_t *scores)
{
    tw_type t = tw_gv_in(c, i);
    bool good = t->rank <= 4 && (t->elem == TW_BOOL || t->elem == tw_gv_in(c, 0)->elem);
    for (unsigned axis = 0; good && axis < t->rank; axis++) {
        int64_t size = tw_gv_size(t, axis);
        good = size == 1 || tw_gv_sizes_fit(size, scores[4 - t->rank + axis]);
    }
    return good || tw_gv_error(c,
                               "mask %s does not broadcast to scores %lldx%lldx%lldx%lld of that "
                               "or the boolean type",
                               tw_print_type(c->ctx, t), (long long)scores[0], (long long)scores[1],
                               (long long)scores[2], (long long)scores[3]);
}

static bool check_attention(const tw_graph_check *c)
{
    tw_type q = tw_gv_in(c, 0), k = tw_gv_in(c, 1), v = tw_gv_in(c, 2);
    if (!tw_elem_is_float(q->elem))
        return tw_gv_error(c, "the queries are no floating-point numbers");
    for (unsigned i = 0; i < 3; i++)
        if (!tw_gv_expect_rank(c, "an operand", tw_gv_in(c, i), 4, 4) ||
            !tw_gv_expect_elem(c, "an operand", tw_gv_in(c, i), q->elem))
            return false;
    int64_t heads = tw_gv_size(q, 1), groups = tw_gv_size(k, 1);
    int64_t scores[4] = {tw_gv_size(q, 0), heads, tw_gv_size(k, 2), tw_gv_size(q, 2)};
    int64_t keys[4] = {scores[0], groups, scores[2], tw_gv_size(q, 3)};
    int64_t values[4] = {scores[0], groups, scores[2], tw_gv_size(v, 3)};
    int64_t rows[4] = {scores[0], heads, scores[3], values[3]};
    if (heads != groups && heads != TW_UNKNOWN_SIZE && groups != TW_UNKNOWN_SIZE &&
        (groups < 1 || heads % groups))
        return tw_gv_error(c, "%lld heads of keys are no whole part of %lld heads of queries",
                           (long long)groups, (long long)heads);
    if (tw_op_bool(c->op, "rows_first", false)) {
        rows[1] = scores[3];
        rows[2] = heads;
    }
    int64_t causal;
    bool known;
    if (tw_op_attr(c->op, "causal") && !tw_gv_ints_or_exprs(c, "causal", 1, &causal, &known))
        return false;
    for (unsigned i = 3; i < c->op->n_operands; i++)
        if (!check_mask(c, i, scores))
            return false;
    return tw_gv_expect_sizes(c, "the keys", k, 4, keys) &&
           tw_gv_expect_sizes(c, "the values", v, 4, values) &&
           tw_gv_expect_elem(c, "the result", tw_gv_out(c, 0), q->elem) &&
           tw_gv_expect_sizes(c, "the result", tw_gv_out(c, 0), 4, rows);
}

static bool check_lrn(const tw_graph_check *c)
{
    return tw_gv_expect_rank(c, "the operand", tw_gv_in(c, 0), 2, TW_MAX_RANK) &&
           tw_gv_expect_result_like(c, 0);
}

tw_graph_rule tw_graph_compute_rule(tw_graph_kind kind)
{
    static const tw_graph_rule rules[TW_GRAPH_COUNT] = {
        [TW_GRAPH_REDUCE_SUM] = check_reduce,
        [TW_GRAPH_REDUCE_MEAN] = check_reduce,
        [TW_GRAPH_REDUCE_MAX] = check_reduce,
        [TW_GRAPH_REDUCE_MIN] = check_reduce,
        [TW_GRAPH_REDUCE_PROD] = check_reduce,
        [TW_GRAPH_ARG_MAX] = check_arg,
        [TW_GRAPH_ARG_MIN] = check_arg,
        [TW_GRAPH_SOFTMAX] = check_along_axis,
        [TW_GRAPH_LOG_SOFTMAX] = check_along_axis,
        [TW_GRAPH_CUMSUM] = check_along_axis,
        [TW_GRAPH_TOP_K] = check_top_k,
        [TW_GRAPH_MATMUL] = check_matmul,
        [TW_GRAPH_MATMUL_BITS] = check_matmul_bits,
        [TW_GRAPH_CONV] = check_conv,
        [TW_GRAPH_CONV_TRANSPOSE] = check_conv_transpose,
        [TW_GRAPH_MAX_POOL] = check_pool,
        [TW_GRAPH_AVG_POOL] = check_pool,
        [TW_GRAPH_BATCH_NORM] = check_channel_norm,
        [TW_GRAPH_INSTANCE_NORM] = check_channel_norm,
        [TW_GRAPH_LAYER_NORM] = check_axis_norm,
        [TW_GRAPH_RMS_NORM] = check_axis_norm,
        [TW_GRAPH_LRN] = check_lrn,
        [TW_GRAPH_ATTENTION] = check_attention,
    };
    return kind < TW_GRAPH_COUNT ? rules[kind] : NULL;
}
