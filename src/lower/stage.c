/* stage.c: building blocks: the loops around them, their loads and stores.
 *
 * tw_stage_open(l, &s, "sum", {{"i", 4}, {"r", 8, true}}, 2) makes
 *
 *     loop.for %i = 0 to 4 {
 *       loop.for %r = 0 to 8 {
 *         loop.block "sum" (%vi: spatial 4 = %i, %vr: reduce 8 = %r) { … } */
#include "ir/scalar.h"
#include "lower/lowering.h"

#include <assert.h>

/* The name with a number behind it when it is taken. */
static const char *unique_name(tw_lowering *l, const char *name)
{
    uintptr_t count = (uintptr_t)tw_map_get_str(&l->names, name);
    tw_map_put_str(&l->names, name, (void *)(count + 1));
    return count ? unique_name(l, tw_arena_printf(l->arena, "%s_%zu", name, (size_t)count)) : name;
}

static tw_loop_iter iter_of(tw_stage *s, unsigned i)
{
    tw_context *ctx = s->l->ctx;
    return (tw_loop_iter){.name = tw_arena_printf(s->l->arena, "v%s", s->axes[i].name),
                          .reduce = s->axes[i].reduce,
                          .extent = s->axes[i].extent,
                          .binding = tw_expr_dim(ctx, i)};
}

void tw_stage_open(tw_lowering *l, tw_stage *s, const char *name, const tw_axis *axes, unsigned n)
{
    assert(n <= TW_STAGE_MAX_AXES);
    *s = (tw_stage){.l = l, .n_axes = n, .n_dims = n};
    tw_loop_iter iters[TW_STAGE_MAX_AXES];
    tw_value *variables[TW_STAGE_MAX_AXES];
    tw_builder b = tw_builder_at_end(l->ctx, tw_lowering_place(l), l->op->loc);
    for (unsigned i = 0; i < n; i++) {
        s->axes[i] = axes[i];
        iters[i] = iter_of(s, i);
        tw_op *loop = i < l->n_outer ? l->outer[i]
                                     : tw_loop_for(&b, tw_expr_const(l->ctx, 0), iters[i].extent,
                                                   NULL, 0, NULL, axes[i].name);
        if (i == l->n_outer)
            s->outer = loop;
        variables[i] = loop->regions[0].args[0];
        b.region = &loop->regions[0];
    }
    s->block = tw_loop_block(&b, unique_name(l, name), iters, n, variables, n);
    if (n == l->n_outer)
        s->outer = s->block;
    s->init = tw_builder_at_end(l->ctx, &s->block->regions[0], b.loc);
    s->b = tw_builder_at_end(l->ctx, &s->block->regions[1], b.loc);
    for (unsigned i = 0; i < n; i++) {
        s->dims[i] = s->block->regions[1].args[i];
        int64_t size = tw_expr_range(axes[i].extent, NULL, 0).hi;
        s->ranges[i].hi = size == INT64_MAX ? size : size > 0 ? size - 1 : 0;
        if (!tw_expr_is_const(axes[i].extent))
            s->ranges[i].top = tw_expr_addc(l->ctx, axes[i].extent, -1);
    }
}

void tw_stage_elementwise(tw_lowering *l, tw_stage *s, const char *name, const tw_value *buffer)
{
    tw_axis axes[TW_MAX_RANK];
    for (unsigned i = 0; i < buffer->type->rank; i++)
        axes[i] = (tw_axis){tw_arena_printf(l->arena, "i%u", i), tw_size(buffer, i), false};
    tw_stage_open(l, s, name, axes, buffer->type->rank);
}

void tw_stage_sequential(tw_stage *s)
{
    tw_op_set_attr(s->block, "order", tw_attr_string(s->l->ctx, "sequential"));
}

/* A reduction over nothing: its result everywhere, if `when` (NULL: it always) is >= 0. */
static void fill_empty(tw_stage *s, tw_expr when)
{
    unsigned n = 0;
    while (n < s->n_axes && !s->axes[n].reduce)
        n++;
    tw_stage fill;
    tw_stage_open(s->l, &fill, "empty", s->axes, n);
    tw_value *value = tw_stage_const(&fill, s->empty_buffer->type->elem, s->empty_value);
    tw_stage_store(&fill, value, s->empty_buffer, s->empty_index);
    if (when)
        tw_op_set_attr(fill.block, "where", tw_attr_map(s->l->ctx, n, &when, 1));
}

/* Whether each result of the operation is empty where the size is 0. */
static bool empties_results(const tw_op *op, tw_expr size)
{
    for (unsigned i = 0; i < op->n_results; i++) {
        tw_type type = op->results[i].type;
        unsigned d = 0;
        while (d < type->rank && type->dims[d] != size)
            d++;
        if (d == type->rank)
            return false;
    }
    return op->n_results > 0;
}

/* What is >= 0 when the reduction is over nothing although the operation has results; NULL when
 * that cannot be. */
static tw_expr when_empty(const tw_stage *s)
{
    tw_expr count = NULL;
    for (unsigned i = 0; i < s->n_axes; i++) {
        tw_expr size = s->axes[i].extent;
        if (s->axes[i].reduce && tw_may_be_empty(size) &&
            (s->read_when_empty || !empties_results(s->l->op, size)))
            count = count ? tw_expr_mul(s->l->ctx, count, size) : size;
    }
    return count ? tw_expr_mulc(s->l->ctx, count, -1) : NULL;
}

bool tw_stage_close(tw_stage *s)
{
    bool empty = false, empty_result = false;
    for (unsigned i = 0; i < s->n_axes; i++)
        if (tw_is_size(s->axes[i].extent, 0)) {
            empty = true;
            empty_result = empty_result || !s->axes[i].reduce;
        }
    if (empty) {
        tw_op_erase(s->outer);
        if (s->empty_buffer && !empty_result)
            fill_empty(s, NULL);
        return true;
    }
    tw_expr when = s->empty_buffer ? when_empty(s) : NULL;
    if (when)
        fill_empty(s, when);
    return true;
}

/* ---- Indices ---- */

tw_expr tw_stage_axis(const tw_stage *s, unsigned axis)
{
    return tw_expr_dim(s->l->ctx, axis);
}

tw_expr tw_stage_int(const tw_stage *s, int64_t value)
{
    return tw_expr_const(s->l->ctx, value);
}

tw_expr tw_stage_dim(tw_stage *s, tw_value *value, tw_range range)
{
    assert(s->n_dims < TW_STAGE_MAX_DIMS);
    s->dims[s->n_dims] = tw_stage_cast(s, value, TW_INDEX);
    s->ranges[s->n_dims] = range;
    return tw_expr_dim(s->l->ctx, s->n_dims++);
}

/* Which dimensions an access uses, in the order of their first appearance. */
typedef struct used_dims {
    tw_value *values[TW_STAGE_MAX_DIMS];
    tw_expr renumbered[TW_STAGE_MAX_DIMS]; /* by dimension of the stage; NULL: not used */
    unsigned n;
} used_dims;

/* The depth of expressions is bounded by construction. */
static void note_dims(const tw_stage *s, used_dims *used, tw_expr e)
{
    if (e->kind == TW_EXPR_DIM && !used->renumbered[e->value]) {
        used->values[used->n] = s->dims[e->value];
        used->renumbered[e->value] = tw_expr_dim(s->l->ctx, used->n++);
    } else if (e->lhs) {
        note_dims(s, used, e->lhs);
        note_dims(s, used, e->rhs);
    }
}

static void renumber(const tw_stage *s, used_dims *used, tw_expr *exprs, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        note_dims(s, used, exprs[i]);
    for (unsigned i = 0; i < n; i++)
        exprs[i] = tw_expr_substitute(s->l->ctx, exprs[i], used->renumbered, s->n_dims);
}

/* Axes stay what they are even where they have one value only: schedules look for them. */
static tw_expr simplify(const tw_stage *s, tw_expr e)
{
    if (e->kind == TW_EXPR_DIM)
        return e;
    return tw_expr_simplify(s->l->ctx, e, s->ranges, s->n_dims);
}

tw_value *tw_stage_index(tw_stage *s, tw_expr e)
{
    if (e->kind == TW_EXPR_DIM)
        return s->dims[e->value];
    tw_expr expr = simplify(s, e);
    used_dims used = {.n = 0};
    renumber(s, &used, &expr, 1);
    tw_type type = tw_type_scalar(s->l->ctx, TW_INDEX);
    return tw_result(tw_build(&s->b, &tw_loop_ops[TW_LOOP_INDEX], used.values, used.n, &type, 1,
                              "expr", tw_attr_map(s->l->ctx, used.n, &expr, 1), NULL),
                     0);
}

tw_expr tw_stage_linear(const tw_stage *s, tw_type shape, const tw_expr *index)
{
    tw_context *ctx = s->l->ctx;
    tw_expr position = tw_expr_const(ctx, 0);
    for (unsigned i = 0; i < shape->rank; i++)
        position = tw_expr_add(ctx, tw_expr_mul(ctx, position, shape->dims[i]), index[i]);
    return position;
}

void tw_stage_delinear(const tw_stage *s, tw_type shape, tw_expr position, tw_expr *index)
{
    tw_context *ctx = s->l->ctx;
    tw_expr stride = tw_expr_const(ctx, 1);
    for (unsigned i = shape->rank; i-- > 0;) {
        tw_expr size = shape->dims[i];
        tw_expr at = tw_expr_binary(ctx, TW_EXPR_FLOORDIV, position, stride);
        /* The first axis' quotient is below its size, which ranges show of numbers only. */
        tw_expr in = i || tw_expr_is_const(size) ? tw_expr_binary(ctx, TW_EXPR_MOD, at, size) : at;
        index[i] = simplify(s, tw_is_size(size, 1) ? tw_expr_const(ctx, 0) : in);
        stride = tw_expr_mul(ctx, stride, size);
    }
}

tw_expr tw_stage_clamp(const tw_stage *s, tw_expr e, tw_expr lo, tw_expr hi)
{
    tw_context *ctx = s->l->ctx;
    tw_expr above = tw_expr_binary(ctx, TW_EXPR_MAX, e, lo);
    return simplify(s, tw_expr_binary(ctx, TW_EXPR_MIN, above, hi));
}

/* ---- Access ---- */

/* The only element of a constant becomes a number in the code. */
static tw_value *constant_load(tw_stage *s, const tw_value *buffer)
{
    int64_t count;
    tw_elem elem = buffer->type->elem;
    if (!buffer->op || !tw_is_loop(buffer->op, TW_LOOP_CONSTANT_BUFFER) ||
        !tw_type_static_count(buffer->type, &count) || count != 1)
        return NULL;
    tw_number v = tw_scalar_load(elem, tw_op_attr(buffer->op, "value")->u.dense.data, 0);
    tw_type type = tw_type_scalar(s->l->ctx, elem);
    return tw_elem_is_float(elem) ? tw_loop_const_float(&s->b, type, v.real)
                                  : tw_loop_const_int(&s->b, type, v.integer);
}

/* Whether symbolic sizes show that e is at least 0; of numbers ranges tell. */
static bool never_below_0(const tw_stage *s, tw_expr e)
{
    bool symbolic = false;
    for (unsigned i = 0; i < s->n_dims; i++)
        symbolic = symbolic || s->ranges[i].top;
    return symbolic && tw_expr_at_least(s->l->ctx, e, 0, s->ranges, s->n_dims);
}

/* Drops what always holds; false when some condition never does. */
static bool possible(const tw_stage *s, const tw_expr *where, unsigned n, tw_expr *kept,
                     unsigned *n_kept)
{
    *n_kept = 0;
    for (unsigned i = 0; i < n; i++) {
        tw_expr e = simplify(s, where[i]);
        tw_range range = tw_expr_range(e, s->ranges, s->n_dims);
        if (range.hi < 0)
            return false;
        if (range.lo < 0 && !never_below_0(s, e))
            kept[(*n_kept)++] = e;
    }
    return true;
}

tw_value *tw_stage_load_where(tw_stage *s, tw_value *buffer, const tw_expr *index,
                              const tw_expr *where, unsigned n_where, tw_value *other)
{
    enum { MAX = 4 * TW_MAX_RANK };
    tw_expr exprs[MAX];
    unsigned rank = buffer->type->rank, n_kept;
    assert(rank + n_where <= MAX);
    if (!possible(s, where, n_where, exprs + rank, &n_kept))
        return other;
    tw_value *number = n_kept ? NULL : constant_load(s, buffer);
    if (number)
        return number;
    for (unsigned i = 0; i < rank; i++)
        exprs[i] = simplify(s, index[i]);
    used_dims used = {.n = 0};
    renumber(s, &used, exprs, rank + n_kept);
    return tw_loop_load(&s->b, buffer, exprs, used.values, used.n, exprs + rank, n_kept, other);
}

tw_value *tw_stage_load_or(tw_stage *s, tw_value *buffer, const tw_expr *index,
                           const tw_expr *where, unsigned n_where, double elsewhere)
{
    tw_value *number = tw_stage_const(s, buffer->type->elem, elsewhere);
    tw_value *x = tw_stage_load_where(s, buffer, index, where, n_where, number);
    if (x != number && !number->uses)
        tw_op_erase(number->op);
    return x;
}

tw_value *tw_stage_load(tw_stage *s, tw_value *buffer, const tw_expr *index)
{
    return tw_stage_load_where(s, buffer, index, NULL, 0, NULL);
}

tw_value *tw_stage_load_broadcast(tw_stage *s, tw_value *buffer, unsigned result_rank)
{
    tw_expr index[TW_MAX_RANK];
    unsigned rank = buffer->type->rank;
    for (unsigned i = 0; i < rank; i++) {
        unsigned axis = result_rank - rank + i;
        bool repeated = tw_is_size(tw_size(buffer, i), 1) && !tw_is_size(s->axes[axis].extent, 1);
        index[i] = repeated ? tw_stage_int(s, 0) : tw_stage_axis(s, axis);
    }
    return tw_stage_load(s, buffer, index);
}

/* With the block's initialisation as its place, where iteration variables are other arguments, or
 * the body (which may have loops inside); where all conditions are >= 0. */
static void store_in(tw_stage *s, tw_builder *b, tw_value *value, tw_value *buffer,
                     const tw_expr *index, const tw_expr *where, unsigned n_where)
{
    enum { MAX = 2 * TW_MAX_RANK };
    tw_expr exprs[MAX];
    unsigned rank = buffer->type->rank, n_kept;
    assert(rank + n_where <= MAX);
    if (!possible(s, where, n_where, exprs + rank, &n_kept))
        return;
    for (unsigned i = 0; i < rank; i++)
        exprs[i] = simplify(s, index[i]);
    used_dims used = {.n = 0};
    renumber(s, &used, exprs, rank + n_kept);
    for (unsigned i = 0; i < used.n && b == &s->init; i++)
        used.values[i] = s->block->regions[0].args[used.values[i]->index];
    tw_loop_store(b, value, buffer, exprs, used.values, used.n, exprs + rank, n_kept);
}

void tw_stage_store(tw_stage *s, tw_value *value, tw_value *buffer, const tw_expr *index)
{
    tw_stage_store_where(s, value, buffer, index, NULL, 0);
}

void tw_stage_store_where(tw_stage *s, tw_value *value, tw_value *buffer, const tw_expr *index,
                          const tw_expr *where, unsigned n_where)
{
    value = tw_stage_cast(s, value, buffer->type->elem);
    store_in(s, &s->b, value, buffer, index, where, n_where);
}

static void here(const tw_stage *s, tw_expr *index, unsigned rank)
{
    for (unsigned i = 0; i < rank; i++)
        index[i] = tw_stage_axis(s, i);
}

void tw_stage_store_here(tw_stage *s, tw_value *value, tw_value *buffer)
{
    tw_expr index[TW_MAX_RANK];
    here(s, index, buffer->type->rank);
    tw_stage_store(s, value, buffer, index);
}

/* ---- Reductions ---- */

/* Stores the identity first and loads the running value. */
static tw_value *start_reduction(tw_stage *s, double identity, tw_value *buffer,
                                 const tw_expr *index)
{
    tw_stage into_init = *s;
    into_init.b = s->init;
    tw_value *start = tw_stage_const(&into_init, buffer->type->elem, identity);
    store_in(s, &s->init, start, buffer, index, NULL, 0);
    s->empty_buffer = buffer;
    s->empty_index = tw_arena_memdup(s->l->arena, index, buffer->type->rank * sizeof(tw_expr));
    s->empty_value = identity;
    return tw_stage_load(s, buffer, index);
}

void tw_stage_reduce(tw_stage *s, const char *combine, double identity, tw_value *value,
                     tw_value *buffer, const tw_expr *index)
{
    tw_value *running = start_reduction(s, identity, buffer, index);
    tw_stage_store(s, tw_stage_op(s, combine, running, value, NULL), buffer, index);
}

void tw_stage_reduce_product(tw_stage *s, tw_value *a, tw_value *b, tw_value *buffer,
                             const tw_expr *index)
{
    tw_elem elem = buffer->type->elem;
    tw_value *running = start_reduction(s, 0, buffer, index);
    tw_value *sum = elem == TW_F32 || elem == TW_F64
                        ? tw_loop_op(&s->b, TW_LOOP_FMA, (tw_value *[]){a, b, running}, 3, NULL)
                        : tw_s2(s, TW_LOOP_ADD, running, tw_s2(s, TW_LOOP_MUL, a, b));
    tw_stage_store(s, sum, buffer, index);
}

void tw_stage_reduce_dot(tw_stage *s, tw_value *a, tw_value *b, tw_value *buffer,
                         const tw_expr *index)
{
    tw_value *running = start_reduction(s, 0, buffer, index);
    tw_value *sum = tw_loop_op(&s->b, TW_LOOP_DOT4, (tw_value *[]){a, b, running}, 3, NULL);
    tw_stage_store(s, sum, buffer, index);
}
