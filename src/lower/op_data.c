/* op_data.c: operations that move elements: each is one block whose load has an index of its own.
 *
 *   graph.slice %x {starts = [9], steps = [-2]}  ->  loop.block "slice": out[i] = x[9 - 2*i] */
#include "dialect/graph/open_sizes.h"
#include "lower/lowering.h"

#include <string.h>

/* Opens a stage over the result. */
static void open_stage(tw_lowering *l, tw_op *op, tw_stage *s, tw_value *out)
{
    tw_stage_elementwise(l, s, tw_short_name(op), out);
}

/* Loads at the index and closes the stage. */
static bool move(tw_stage *s, tw_value *x, const tw_expr *index, tw_value *out)
{
    tw_stage_store_here(s, tw_stage_load(s, x, index), out);
    return tw_stage_close(s);
}

/* Each size is stored by a block of its own. */
static bool store_sizes(tw_lowering *l, const tw_expr *sizes, int64_t n, tw_value *out)
{
    for (int64_t i = 0; i < n; i++) {
        tw_stage s;
        tw_stage_open(l, &s, "shape", NULL, 0);
        tw_expr at = tw_stage_int(&s, i);
        tw_stage_store(&s, tw_stage_size(&s, TW_I64, sizes[i]), out, &at);
        tw_stage_close(&s);
    }
    return true;
}

bool tw_lower_shape(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    int64_t n = tw_size(out[0], 0)->value, start = tw_op_int(op, "start", 0);
    const tw_expr *dims = in[0]->type->dims + start;
    int64_t *sizes = TW_NEW_ARRAY(l->arena, int64_t, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        if (!tw_expr_as_const(dims[i], &sizes[i]))
            return store_sizes(l, dims, n, out[0]);
    tw_value *table = tw_lowering_table(l, TW_I64, 1, &n, sizes, (size_t)n * sizeof *sizes);
    tw_stage s;
    open_stage(l, op, &s, out[0]);
    tw_expr at = tw_stage_axis(&s, 0);
    return move(&s, table, &at, out[0]);
}

bool tw_lower_reshape(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    tw_stage s;
    tw_expr here[TW_MAX_RANK], index[TW_MAX_RANK];
    open_stage(l, op, &s, out[0]);
    for (unsigned i = 0; i < out[0]->type->rank; i++)
        here[i] = tw_stage_axis(&s, i);
    if (tw_op_bool(op, "same_sizes", false))
        return move(&s, in[0], here, out[0]);
    tw_stage_delinear(&s, in[0]->type, tw_stage_linear(&s, out[0]->type, here), index);
    return move(&s, in[0], index, out[0]);
}

/* Four bytes, the first lowest. Mostly a view does. */
bool tw_lower_words(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    tw_stage s;
    tw_expr index[TW_MAX_RANK];
    open_stage(l, op, &s, out[0]);
    unsigned last = out[0]->type->rank - 1;
    for (unsigned i = 0; i < last; i++)
        index[i] = tw_stage_axis(&s, i);
    tw_value *word = NULL;
    for (unsigned i = 0; i < 4; i++) {
        index[last] = tw_expr_addc(l->ctx, tw_expr_mulc(l->ctx, tw_stage_axis(&s, last), 4), i);
        tw_value *byte = tw_stage_cast(&s, tw_stage_load(&s, in[0], index), TW_I32);
        byte = tw_s2(&s, TW_LOOP_AND, byte, tw_like(&s, byte, 255));
        byte = tw_s2(&s, TW_LOOP_SHL, byte, tw_like(&s, byte, 8 * i));
        word = word ? tw_s2(&s, TW_LOOP_OR, word, byte) : byte;
    }
    tw_stage_store_here(&s, word, out[0]);
    return tw_stage_close(&s);
}

bool tw_lower_transpose(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    tw_stage s;
    tw_expr index[TW_MAX_RANK];
    int64_t perm[TW_MAX_RANK];
    int n = tw_op_ints(op, "perm", perm, TW_MAX_RANK);
    open_stage(l, op, &s, out[0]);
    for (int i = 0; i < n; i++)
        index[perm[i]] = tw_stage_axis(&s, (unsigned)i);
    return move(&s, in[0], index, out[0]);
}

/* Where an axis is read that is expanded. One that is left open is read at i * b, b being 0 for the
 * size 1 and 1 for others. */
static tw_expr expanded_at(tw_stage *s, tw_expr from, unsigned axis)
{
    tw_context *ctx = s->l->ctx;
    tw_expr here = tw_stage_axis(s, axis), zero = tw_stage_int(s, 0), to = s->axes[axis].extent;
    if (tw_is_size(from, 1) && !tw_is_size(to, 1))
        return zero;
    if (!tw_is_open_size(from, to))
        return here;
    tw_expr rest = tw_expr_binary(ctx, TW_EXPR_MAX, tw_expr_addc(ctx, from, -1), zero);
    return tw_expr_mul(ctx, here, tw_expr_binary(ctx, TW_EXPR_MIN, rest, tw_stage_int(s, 1)));
}

bool tw_lower_expand(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    tw_stage s;
    tw_expr index[TW_MAX_RANK];
    unsigned rank = in[0]->type->rank, added = out[0]->type->rank - rank;
    open_stage(l, op, &s, out[0]);
    for (unsigned i = 0; i < rank; i++)
        index[i] = expanded_at(&s, tw_size(in[0], i), added + i);
    return move(&s, in[0], index, out[0]);
}

bool tw_lower_slice(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    tw_stage s;
    tw_expr index[TW_MAX_RANK], starts[TW_MAX_RANK];
    int64_t steps[TW_MAX_RANK];
    int n = tw_graph_exprs(l->ctx, op, "starts", starts, TW_MAX_RANK);
    tw_op_ints(op, "steps", steps, TW_MAX_RANK);
    open_stage(l, op, &s, out[0]);
    for (int i = 0; i < n; i++)
        index[i] = tw_expr_add(
            l->ctx, tw_expr_mulc(l->ctx, tw_stage_axis(&s, (unsigned)i), steps[i]), starts[i]);
    return move(&s, in[0], index, out[0]);
}

bool tw_lower_tile(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    tw_stage s;
    tw_expr index[TW_MAX_RANK];
    open_stage(l, op, &s, out[0]);
    for (unsigned i = 0; i < out[0]->type->rank; i++)
        index[i] = tw_expr_binary(l->ctx, TW_EXPR_MOD, tw_stage_axis(&s, i), tw_size(in[0], i));
    return move(&s, in[0], index, out[0]);
}

/* ---- Concatenation ---- */

/* Input k, which begins at `begin` of the axis: a block of its own that fills its part. */
static void copy_part(tw_lowering *l, tw_value *x, tw_value *out, unsigned axis, tw_expr begin)
{
    tw_stage s;
    tw_expr from[TW_MAX_RANK], to[TW_MAX_RANK];
    tw_stage_elementwise(l, &s, "concat", x);
    for (unsigned i = 0; i < x->type->rank; i++)
        from[i] = to[i] = tw_stage_axis(&s, i);
    to[axis] = tw_expr_add(l->ctx, from[axis], begin);
    tw_stage_store(&s, tw_stage_load(&s, x, from), out, to);
    tw_stage_close(&s);
}

/* The values so far where the position is in front of `begin`, else those of x. */
static tw_value *choose_part(tw_stage *s, tw_value *x, unsigned axis, tw_expr begin,
                             tw_value *before)
{
    tw_context *ctx = s->l->ctx;
    tw_expr index[TW_MAX_RANK], at = tw_stage_axis(s, axis);
    for (unsigned i = 0; i < x->type->rank; i++)
        index[i] = tw_stage_axis(s, i);
    index[axis] = tw_expr_sub(ctx, at, begin);
    tw_expr last = tw_expr_addc(ctx, tw_expr_add(ctx, begin, tw_size(x, axis)), -1);
    tw_expr where[] = {index[axis], tw_expr_sub(ctx, last, at)};
    return tw_stage_load_where(s, x, index, where, 2, before);
}

/* Several blocks that copy when nothing in the kernel reads the result; else one block of masked
 * loads, which can be inlined into what reads it. */
bool tw_lower_concat(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    unsigned axis = (unsigned)tw_op_int(op, "axis", 0);
    tw_expr begin = tw_expr_const(l->ctx, 0);
    tw_stage s;
    if (!l->is_last)
        open_stage(l, op, &s, out[0]);
    tw_value *value = l->is_last ? NULL : tw_stage_const(&s, out[0]->type->elem, 0);
    for (unsigned i = 0; i < op->n_operands; i++) {
        if (tw_is_size(tw_size(in[i], axis), 0))
            continue;
        if (l->is_last)
            copy_part(l, in[i], out[0], axis, begin);
        else
            value = choose_part(&s, in[i], axis, begin, value);
        begin = tw_expr_add(l->ctx, begin, tw_size(in[i], axis));
    }
    if (!l->is_last) {
        tw_stage_store_here(&s, value, out[0]);
        tw_stage_close(&s);
    }
    return true;
}

/* ---- Padding ---- */

/* max(0, -pad): how many elements a pad takes away. */
static tw_expr cropped(const tw_stage *s, tw_expr pad)
{
    tw_context *ctx = s->l->ctx;
    return tw_expr_range(pad, NULL, 0).lo >= 0
               ? tw_stage_int(s, 0)
               : tw_expr_binary(ctx, TW_EXPR_MAX, tw_expr_mulc(ctx, pad, -1), tw_stage_int(s, 0));
}

/* What negative pads leave of the axis repeats; where they leave nothing, any element is read. */
static tw_expr wrap_index(const tw_stage *s, tw_expr at, tw_expr size, tw_expr begin, tw_expr end)
{
    tw_context *ctx = s->l->ctx;
    tw_expr low = cropped(s, begin), away = tw_expr_add(ctx, low, cropped(s, end));
    tw_expr period = tw_expr_sub(ctx, size, away);
    bool nothing = !tw_is_size(away, 0) && tw_expr_range(period, NULL, 0).lo < 1;
    if (nothing)
        period = tw_expr_binary(ctx, TW_EXPR_MAX, period, tw_stage_int(s, 1));
    at = tw_expr_binary(ctx, TW_EXPR_MOD, tw_expr_sub(ctx, at, low), period);
    at = tw_expr_add(ctx, low, at);
    tw_expr last = tw_expr_addc(ctx, size, -1);
    return nothing ? tw_stage_clamp(s, at, tw_stage_int(s, 0), last) : at;
}

/* The position in the operand of position `at` (from the operand's beginning) outside it. */
static tw_expr pad_index(const tw_stage *s, const char *mode, tw_expr at, tw_expr size,
                         tw_expr begin, tw_expr end)
{
    tw_context *ctx = s->l->ctx;
    tw_expr last = tw_expr_addc(ctx, size, -1);
    if (!strcmp(mode, "edge"))
        return tw_stage_clamp(s, at, tw_stage_int(s, 0), last);
    if (!strcmp(mode, "wrap"))
        return wrap_index(s, at, size, begin, end);
    if (tw_is_size(size, 1))
        return tw_stage_int(s, 0);
    tw_expr period = tw_expr_mulc(ctx, last, 2);
    tw_expr forward = tw_expr_binary(ctx, TW_EXPR_MAX, at, tw_expr_mulc(ctx, at, -1));
    bool once = tw_expr_range(tw_expr_sub(ctx, last, begin), NULL, 0).lo >= 0 &&
                tw_expr_range(tw_expr_sub(ctx, last, end), NULL, 0).lo >= 0;
    if (!once) { /* reflected more than once; of one element all is that one */
        tw_expr divisor = tw_expr_binary(ctx, TW_EXPR_MAX, period, tw_stage_int(s, 1));
        forward = tw_expr_binary(ctx, TW_EXPR_MOD, at, divisor);
    }
    return tw_expr_binary(ctx, TW_EXPR_MIN, forward, tw_expr_sub(ctx, period, forward));
}

bool tw_lower_pad(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    tw_stage s;
    tw_expr index[TW_MAX_RANK], where[2 * TW_MAX_RANK], begin[TW_MAX_RANK], end[TW_MAX_RANK];
    const char *mode = tw_op_string(op, "mode", "constant");
    bool constant = !strcmp(mode, "constant");
    unsigned n = 0;
    if (tw_is_empty(in[0]) && !constant)
        return tw_lower_from_nothing(l, op, out[0]);
    tw_graph_exprs(l->ctx, op, "pads_begin", begin, TW_MAX_RANK);
    tw_graph_exprs(l->ctx, op, "pads_end", end, TW_MAX_RANK);
    open_stage(l, op, &s, out[0]);
    for (unsigned i = 0; i < out[0]->type->rank; i++) {
        tw_expr size = tw_size(in[0], i), last = tw_expr_addc(l->ctx, size, -1);
        tw_expr at = tw_expr_sub(l->ctx, tw_stage_axis(&s, i), begin[i]);
        index[i] = constant ? at : pad_index(&s, mode, at, size, begin[i], end[i]);
        if (constant) {
            where[n++] = at;
            where[n++] = tw_expr_sub(l->ctx, last, at);
        } else if (tw_may_be_empty(size)) { /* there is nothing to repeat */
            where[n++] = last;
        }
    }
    tw_value *other = NULL;
    if (constant && op->n_operands > 1)
        other = tw_stage_load(&s, in[1], NULL);
    else if (constant || n)
        other = tw_stage_const(&s, out[0]->type->elem, 0);
    tw_value *x = tw_stage_load_where(&s, in[0], index, where, n, other);
    tw_stage_store_here(&s, x, out[0]);
    return tw_stage_close(&s);
}

/* ---- Made of nothing ---- */

bool tw_lower_iota(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    (void)in;
    tw_stage s;
    open_stage(l, op, &s, out[0]);
    tw_expr at = tw_stage_axis(&s, (unsigned)tw_op_int(op, "axis", 0));
    tw_stage_store_here(&s, tw_stage_index(&s, at), out[0]);
    return tw_stage_close(&s);
}

bool tw_lower_range(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    tw_stage s;
    open_stage(l, op, &s, out[0]);
    tw_value *start = tw_load(&s, in[0], NULL), *delta = tw_load(&s, in[2], NULL);
    tw_value *i = tw_stage_cast(&s, tw_stage_index(&s, tw_stage_axis(&s, 0)), start->type->elem);
    tw_value *x = tw_s2(&s, TW_LOOP_ADD, start, tw_s2(&s, TW_LOOP_MUL, i, delta));
    tw_stage_store_here(&s, x, out[0]);
    return tw_stage_close(&s);
}

bool tw_lower_trilu(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    tw_stage s;
    tw_expr index[TW_MAX_RANK];
    unsigned rank = out[0]->type->rank;
    open_stage(l, op, &s, out[0]);
    for (unsigned i = 0; i < rank; i++)
        index[i] = tw_stage_axis(&s, i);
    tw_expr above = tw_expr_addc(l->ctx, tw_expr_sub(l->ctx, index[rank - 1], index[rank - 2]),
                                 -tw_op_int(op, "k", 0));
    tw_expr where = tw_op_bool(op, "upper", true) ? above : tw_expr_mulc(l->ctx, above, -1);
    tw_stage_store_here(&s, tw_stage_load_or(&s, in[0], index, &where, 1, 0), out[0]);
    return tw_stage_close(&s);
}
