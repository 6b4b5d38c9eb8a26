/* op_gather.c: reading and writing at computed positions. An index counts from the end when it is
 * negative; one outside the axis is moved to its nearest end, so that no memory outside is touched.
 * Of an axis that proves to be empty only while running, nothing is read (0 instead) or written.
 *
 *   graph.gather %x, %i {axis = 0}  ->  loop.block "gather": out[a, b] = x[i[a], b] */
#include "lower/lowering.h"

#include <limits.h>
#include <string.h>

/* The position that a loaded index means in an axis of that size. */
static tw_expr position(tw_stage *s, tw_value *value, tw_expr size)
{
    bool is_signed = tw_elem_is_signed(value->type->elem);
    tw_value *at = tw_stage_cast(s, value, TW_INDEX);
    if (is_signed) {
        tw_value *negative = tw_stage_compare(s, "lt", at, tw_stage_const(s, TW_INDEX, 0));
        tw_value *wrapped = tw_s2(s, TW_LOOP_ADD, at, tw_stage_size(s, TW_INDEX, size));
        at = tw_stage_select(s, negative, wrapped, at);
    }
    tw_expr any = tw_stage_dim(s, at, (tw_range){.lo = INT64_MIN, .hi = INT64_MAX});
    return tw_stage_clamp(s, any, tw_stage_int(s, 0), tw_expr_addc(s->l->ctx, size, -1));
}

/* Conditions that the axes are not empty, of those that may be. */
typedef struct presence {
    tw_expr where[TW_MAX_RANK];
    unsigned n;
} presence;

static void add_presence(tw_stage *s, presence *p, tw_expr size)
{
    if (tw_may_be_empty(size))
        p->where[p->n++] = tw_expr_addc(s->l->ctx, size, -1);
}

static tw_value *load_present(tw_stage *s, tw_value *x, const tw_expr *index, const presence *p)
{
    tw_value *none = p->n ? tw_stage_const(s, x->type->elem, 0) : NULL;
    return tw_stage_load_where(s, x, index, p->where, p->n, none);
}

bool tw_lower_gather(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    unsigned axis = (unsigned)tw_op_int(op, "axis", 0), n = in[1]->type->rank;
    tw_expr which[TW_MAX_RANK], index[TW_MAX_RANK];
    presence there = {.n = 0};
    tw_stage s;
    if (tw_is_empty(in[0]))
        return tw_lower_from_nothing(l, op, out[0]);
    tw_stage_elementwise(l, &s, "gather", out[0]);
    for (unsigned i = 0; i < n; i++)
        which[i] = tw_stage_axis(&s, axis + i);
    for (unsigned i = 0; i < in[0]->type->rank; i++)
        index[i] = tw_stage_axis(&s, i < axis ? i : i + n - 1);
    index[axis] = position(&s, tw_stage_load(&s, in[1], which), tw_size(in[0], axis));
    add_presence(&s, &there, tw_size(in[0], axis));
    tw_stage_store_here(&s, load_present(&s, in[0], index, &there), out[0]);
    return tw_stage_close(&s);
}

bool tw_lower_gather_elements(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    unsigned axis = (unsigned)tw_op_int(op, "axis", 0);
    tw_expr index[TW_MAX_RANK];
    presence there = {.n = 0};
    tw_stage s;
    if (tw_is_empty(in[0]))
        return tw_lower_from_nothing(l, op, out[0]);
    tw_stage_elementwise(l, &s, "gather_elements", out[0]);
    for (unsigned i = 0; i < out[0]->type->rank; i++)
        index[i] = tw_stage_axis(&s, i);
    index[axis] = position(&s, tw_stage_load(&s, in[1], index), tw_size(in[0], axis));
    add_presence(&s, &there, tw_size(in[0], axis));
    tw_stage_store_here(&s, load_present(&s, in[0], index, &there), out[0]);
    return tw_stage_close(&s);
}

/* Loads the tuple whose place the first axes of the stage are: positions in x from axis `first`. */
static void load_tuple(tw_stage *s, tw_value *indices, const tw_value *x, unsigned first,
                       tw_expr *index, presence *there)
{
    unsigned last = indices->type->rank - 1;
    tw_expr which[TW_MAX_RANK];
    for (unsigned i = 0; i < last; i++)
        which[i] = tw_stage_axis(s, i);
    for (unsigned i = 0; i < (unsigned)tw_size(indices, last)->value; i++) {
        which[last] = tw_stage_int(s, i);
        index[first + i] = position(s, tw_stage_load(s, indices, which), tw_size(x, first + i));
        add_presence(s, there, tw_size(x, first + i));
    }
}

/* The length of the tuples; -1 with a diagnostic when it is not known. */
static int tuple_length(tw_lowering *l, const tw_op *op, const tw_value *indices)
{
    tw_expr size = tw_size(indices, indices->type->rank - 1);
    if (tw_expr_is_const(size))
        return (int)size->value;
    tw_error(l->ctx, op->loc, "'%s' needs a known number of indices in a tuple, not '%s'",
             op->def->name, tw_print_expr(l->ctx, size, NULL));
    return -1;
}

bool tw_lower_gather_nd(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    unsigned batch = (unsigned)tw_op_int(op, "batch_dims", 0), last = in[1]->type->rank - 1;
    int length = tuple_length(l, op, in[1]);
    unsigned n = (unsigned)length;
    tw_expr index[TW_MAX_RANK];
    presence there = {.n = 0};
    tw_stage s;
    if (length < 0)
        return false;
    if (tw_is_empty(in[0]))
        return tw_lower_from_nothing(l, op, out[0]);
    tw_stage_elementwise(l, &s, "gather_nd", out[0]);
    for (unsigned i = 0; i < batch; i++)
        index[i] = tw_stage_axis(&s, i);
    load_tuple(&s, in[1], in[0], batch, index, &there);
    for (unsigned i = batch + n; i < in[0]->type->rank; i++)
        index[i] = tw_stage_axis(&s, i - batch - n + last);
    tw_stage_store_here(&s, load_present(&s, in[0], index, &there), out[0]);
    return tw_stage_close(&s);
}

/* ---- Scattering: a copy of x, then updates one after the other ---- */

static void copy_first(tw_lowering *l, const tw_op *op, tw_value *x, tw_value *out)
{
    tw_stage s;
    tw_stage_elementwise(l, &s, tw_name(l, tw_short_name(op), "_copy"), out);
    tw_stage_store_here(&s, tw_stage_load_broadcast(&s, x, out->type->rank), out);
    tw_stage_close(&s);
}

/* The block runs only where the conditions, which are over symbols, hold. */
static void only_if_present(tw_stage *s, const presence *p)
{
    if (p->n)
        tw_op_set_attr(s->block, "where",
                       tw_attr_map(s->l->ctx, s->block->n_operands, p->where, p->n));
}

/* out[index] = update, or combined with what is there; the stage's first axes are the update's. */
static bool update(tw_stage *s, const tw_op *op, tw_value *updates, tw_value *out,
                   const tw_expr *index, const presence *there)
{
    const char *reduction = tw_op_string(op, "reduction", "none");
    tw_value *value = tw_stage_load_broadcast(s, updates, updates->type->rank);
    if (strcmp(reduction, "none")) {
        tw_elem elem = tw_compute_elem(out->type->elem);
        value =
            tw_stage_op(s, reduction, tw_load(s, out, index), tw_stage_cast(s, value, elem), NULL);
    }
    tw_stage_store(s, value, out, index);
    only_if_present(s, there);
    tw_stage_sequential(s);
    return tw_stage_close(s);
}

bool tw_lower_scatter_elements(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    unsigned axis = (unsigned)tw_op_int(op, "axis", 0);
    tw_expr index[TW_MAX_RANK];
    presence there = {.n = 0};
    tw_stage s;
    copy_first(l, op, in[0], out[0]);
    if (tw_is_empty(in[2]))
        return true;
    tw_stage_elementwise(l, &s, "scatter_elements", in[2]);
    add_presence(&s, &there, tw_size(out[0], axis));
    for (unsigned i = 0; i < out[0]->type->rank; i++)
        index[i] = tw_stage_axis(&s, i);
    index[axis] = position(&s, tw_stage_load(&s, in[1], index), tw_size(out[0], axis));
    return update(&s, op, in[2], out[0], index, &there);
}

bool tw_lower_scatter_nd(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
{
    int length = tuple_length(l, op, in[1]);
    unsigned last = in[1]->type->rank - 1, n = (unsigned)length;
    tw_expr index[TW_MAX_RANK];
    presence there = {.n = 0};
    tw_stage s;
    if (length < 0)
        return false;
    copy_first(l, op, in[0], out[0]);
    if (tw_is_empty(in[2]))
        return true;
    tw_stage_elementwise(l, &s, "scatter_nd", in[2]);
    load_tuple(&s, in[1], out[0], 0, index, &there);
    for (unsigned i = n; i < out[0]->type->rank; i++)
        index[i] = tw_stage_axis(&s, i - n + last);
    return update(&s, op, in[2], out[0], index, &there);
}
