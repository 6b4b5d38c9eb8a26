/* flat_vectorize.c: vectorize-loops: a loop marked `vectorize` becomes vector operations.
 *
 *     loop.for %j = 0 to 8 vectorize {
 *       %x = loop.load %X[%i, %j] : f32          %r = loop.ramp %zero : vec<8xindex>
 *       %y = loop.mul %x, %s : f32       becomes %x = loop.load %X[%i, %r] : vec<8xf32>
 *       loop.store %y, %Y[%i, %j]                %b = loop.broadcast %s : vec<8xf32> ...
 *     }
 * Values that do not depend on the variable stay scalar. A loop.if whose condition differs from
 * lane to lane turns into masks of the loads and stores inside. A store to one place for all lanes
 * is allowed in the form T = T op x with op add, mul, max or min when nothing else in the loop
 * touches T: the lanes of x are then reduced (a reassociation that the schedule asked for). What
 * does not fit stays a serial loop. That other accesses do not meet is the schedule's promise. */
#include "lower/flat.h"

#include "base/arena.h"
#include "base/map.h"
#include "dialect/loop/index_map.h"
#include "dialect/loop/loop.h"
#include "dialect/loop/loop_ranges.h"

enum { MAX_LANES = 256 };

typedef struct vectorizer {
    tw_context *ctx;
    tw_builder b;
    tw_cloner *values; /* scalar value -> what stands for it */
    int64_t lanes;
    tw_attr mask; /* MAP of conditions from loop.ifs that differ between lanes, or NULL */
    tw_value **mask_operands;
} vectorizer;

static bool is_vector(const tw_value *v)
{
    return v->type->kind == TW_TYPE_VECTOR;
}

static tw_value *mapped(vectorizer *v, const tw_op *op, unsigned i)
{
    return tw_cloner_lookup(v->values, tw_operand(op, i));
}

static tw_value *broadcast(vectorizer *v, tw_value *value)
{
    if (is_vector(value))
        return value;
    tw_type type = tw_type_vector(v->ctx, value->type->elem, v->lanes);
    return tw_loop_op(&v->b, TW_LOOP_BROADCAST, &value, 1, type);
}

/* ---- Which loops can be vectorised ---- */

/* Marks in `varying` the values that differ between lanes; false when something does not fit. */
typedef struct check {
    tw_map varying;
    tw_map reduced; /* buffer -> the store that reduces into it */
    tw_op *loop;
} check;

static bool varies(check *c, const tw_op *op, unsigned first, unsigned n)
{
    for (unsigned i = first; i < first + n; i++)
        if (tw_map_get_ptr(&c->varying, tw_operand(op, i)))
            return true;
    return false;
}

/* Whether a loop.if between op and the loop differs between lanes. */
static bool under_varying_guard(check *c, const tw_op *op)
{
    for (const tw_op *p = op->region->parent; p != c->loop; p = p->region->parent)
        if (tw_is_loop(p, TW_LOOP_IF) && varies(c, p, 0, p->n_operands))
            return true;
    return false;
}

static bool same_index(const tw_op *load, const tw_op *store)
{
    tw_loop_access a, b;
    if (!tw_loop_get_access(load, &a) || !tw_loop_get_access(store, &b))
        return false;
    if (a.buffer != b.buffer || a.index != b.index || a.n_index != b.n_index || a.where || b.where)
        return false;
    for (unsigned i = 0; i < a.n_index; i++)
        if (tw_operand(load, a.first_index + i) != tw_operand(store, b.first_index + i))
            return false;
    return true;
}

static const char *reduction_name(const tw_op *op)
{
    switch (tw_loop_kind_of(op)) {
    case TW_LOOP_ADD:
    case TW_LOOP_FMA:
        return "add";
    case TW_LOOP_MUL:
        return "mul";
    case TW_LOOP_MAX:
        return "max";
    case TW_LOOP_MIN:
        return "min";
    default:
        return NULL;
    }
}

/* The operand of `store`'s value operation that loads what the store writes, or -1. */
static int accumulator_operand(const tw_op *store)
{
    const tw_op *combine = tw_operand(store, 0)->op;
    if (!combine || !reduction_name(combine) || !tw_value_has_one_use(&combine->results[0]))
        return -1;
    unsigned last = tw_is_loop(combine, TW_LOOP_FMA) ? 2 : 1;
    unsigned first = tw_is_loop(combine, TW_LOOP_FMA) ? 2 : 0;
    for (unsigned i = first; i <= last; i++) {
        const tw_value *x = tw_operand(combine, i);
        if (x->op && tw_is_loop(x->op, TW_LOOP_LOAD) && same_index(x->op, store) &&
            tw_value_has_one_use(x))
            return (int)i;
    }
    return -1;
}

static tw_value *root_buffer(tw_value *buffer)
{
    while (buffer->op && tw_is_loop(buffer->op, TW_LOOP_VIEW))
        buffer = tw_operand(buffer->op, 0);
    return buffer;
}

/* A store to one place for all lanes must be a reduction, one for its buffer. */
static bool check_store(check *c, const tw_op *op)
{
    tw_loop_access a;
    tw_loop_get_access(op, &a);
    for (unsigned i = 0; i < a.n_index; i++)
        if (tw_map_get_ptr(&c->varying, tw_operand(op, a.first_index + i)))
            for (size_t d = 0; d < a.index->u.map.n; d++)
                if (tw_expr_uses_dim(a.index->u.map.exprs[d], i))
                    return true;
    return accumulator_operand(op) >= 0 && !under_varying_guard(c, op) &&
           !tw_map_put_ptr(&c->reduced, root_buffer(a.buffer), (tw_op *)op);
}

/* Of one operation inside the loop: false stops. */
static bool check_op(tw_op *op, void *data)
{
    check *c = data;
    if (op == c->loop)
        return true;
    bool lanes_differ = varies(c, op, 0, op->n_operands);
    for (unsigned i = 0; i < op->n_results; i++)
        if (is_vector(&op->results[i]))
            return false;
    switch (tw_loop_kind_of(op)) {
    case TW_LOOP_FOR:
        return !lanes_differ;
    case TW_LOOP_IF:
        return !lanes_differ || !op->regions[1].first;
    case TW_LOOP_STORE:
        return check_store(c, op);
    case TW_LOOP_ALLOC:
    case TW_LOOP_FOR_DYNAMIC:
    case TW_LOOP_BLOCK:
    case TW_LOOP_RAMP:
    case TW_LOOP_BROADCAST:
    case TW_LOOP_REDUCE_LANES:
        return false;
    case TW_LOOP_LOAD: /* under a mask it gives 0 in some lanes */
        lanes_differ |= under_varying_guard(c, op);
        break;
    default:
        break;
    }
    for (unsigned i = 0; lanes_differ && i < op->n_results; i++)
        tw_map_put_ptr(&c->varying, &op->results[i], op);
    return true;
}

/* Whether op leaves reductions alone: of their buffers only the stores and what they combine. */
static bool spares_reductions(tw_op *op, void *data)
{
    check *c = data;
    tw_loop_access a;
    if (!tw_loop_get_access(op, &a))
        return true;
    const tw_op *store = tw_map_get_ptr(&c->reduced, root_buffer(a.buffer));
    return !store || op == store ||
           tw_operand(tw_operand(store, 0)->op, (unsigned)accumulator_operand(store))->op == op;
}

static bool can_vectorize(tw_context *ctx, tw_op *loop, int64_t *lanes)
{
    tw_attr bounds = tw_op_attr(loop, "bounds");
    tw_expr trips = tw_expr_sub(ctx, bounds->u.map.exprs[1], bounds->u.map.exprs[0]);
    if (!tw_expr_as_const(trips, lanes) || *lanes < 2 || *lanes > MAX_LANES ||
        tw_op_int(loop, "step", 1) != 1)
        return false;
    tw_arena *arena = tw_context_arena(ctx);
    check c = {.varying = tw_map_make(arena), .reduced = tw_map_make(arena), .loop = loop};
    tw_map_put_ptr(&c.varying, loop->regions[0].args[0], loop);
    return tw_walk(loop, check_op, &c) && (!c.reduced.len || tw_walk(loop, spares_reductions, &c));
}

/* ---- Conversion ---- */

static void convert_region(vectorizer *v, tw_region *region);

/* A copy of op with mapped operands and no regions filled, at the builder's place. */
static tw_op *copy_op(vectorizer *v, const tw_op *op, tw_type result)
{
    tw_value **operands = TW_NEW_ARRAY(tw_context_arena(v->ctx), tw_value *, op->n_operands);
    for (unsigned i = 0; i < op->n_operands; i++)
        operands[i] = mapped(v, op, i);
    tw_op *copy = tw_op_create(v->ctx, op->def, op->loc, operands, op->n_operands, &result,
                               op->n_results, op->attrs, op->n_attrs, op->n_regions);
    tw_op_insert(copy, v->b.region, v->b.before);
    if (op->n_results) {
        copy->results[0].name = op->results[0].name;
        tw_cloner_map(v->values, &op->results[0], tw_result(copy, 0));
    }
    return copy;
}

static bool any_vector(const vectorizer *v, const tw_op *op, unsigned first, unsigned n)
{
    for (unsigned i = first; i < first + n; i++)
        if (is_vector(tw_cloner_lookup(v->values, tw_operand(op, i))))
            return true;
    return false;
}

static tw_value *zero_of(vectorizer *v, tw_type type)
{
    return tw_elem_is_float(type->elem) ? tw_loop_const_float(&v->b, type, 0.0)
                                        : tw_loop_const_int(&v->b, type, 0);
}

/* Whether the copied load needs no mask: a buffer of the kernel's own is read inside its bounds.
 * The lanes that differ then are lanes of masked stores alone. */
static bool reads_own_memory(tw_context *ctx, const tw_op *load)
{
    tw_loop_access a;
    tw_range ranges[TW_MAX_EXPR_DIMS];
    tw_loop_get_access(load, &a);
    if (!a.buffer->op || !tw_is_loop(a.buffer->op, TW_LOOP_ALLOC) || a.where ||
        a.n_index > TW_MAX_EXPR_DIMS)
        return false;
    tw_operand_ranges(ctx, load, ranges);
    for (unsigned d = 0; d < a.buffer->type->rank; d++) {
        tw_expr at = a.index->u.map.exprs[d], left = tw_expr_sub(ctx, a.buffer->type->dims[d], at);
        if (!tw_expr_at_least(ctx, at, 0, ranges, a.n_index) ||
            !tw_expr_at_least(ctx, left, 1, ranges, a.n_index))
            return false;
    }
    return true;
}

static void convert_load(vectorizer *v, tw_op *op)
{
    tw_loop_access a;
    tw_loop_get_access(op, &a);
    bool vector = any_vector(v, op, a.first_index, a.n_index);
    tw_type scalar = op->results[0].type;
    tw_type lanes = tw_type_vector(v->ctx, scalar->elem, v->lanes);
    tw_value *other = a.other ? mapped(v, op, op->n_operands - 1) : NULL;
    if (vector && other)
        other = broadcast(v, other);
    tw_op *copy = copy_op(v, op, vector ? lanes : scalar);
    if (a.other)
        tw_op_set_operand(copy, copy->n_operands - 1, other);
    if (!v->mask)
        return;
    if (reads_own_memory(v->ctx, copy)) {
        tw_op_set_attr(copy, "any_lanes", tw_attr_unit(v->ctx));
        return;
    }
    /* Lanes differ by their mask, even where all would load one element. */
    tw_builder at = v->b;
    v->b.before = copy;
    other = other ? broadcast(v, other) : zero_of(v, lanes);
    v->b = at;
    if (a.other)
        tw_op_set_operand(copy, copy->n_operands - 1, other);
    tw_result(copy, 0)->type = lanes;
    tw_access_add_where(v->ctx, copy, v->mask, v->mask_operands, other);
}

/* T[uniform] = T[uniform] op x: scalar load, reduced lanes, scalar store. */
static void convert_reduction(vectorizer *v, tw_op *store, int accumulator)
{
    tw_op *combine = tw_operand(store, 0)->op;
    tw_value *acc = mapped(v, combine, (unsigned)accumulator), *x;
    if (tw_is_loop(combine, TW_LOOP_FMA)) {
        tw_value *factors[2] = {broadcast(v, mapped(v, combine, 0)),
                                broadcast(v, mapped(v, combine, 1))};
        x = tw_loop_op(&v->b, TW_LOOP_MUL, factors, 2, NULL);
    } else {
        x = broadcast(v, mapped(v, combine, 1 - (unsigned)accumulator));
    }
    const char *name = reduction_name(combine);
    tw_type scalar = acc->type;
    x = tw_result(tw_build(&v->b, &tw_loop_ops[TW_LOOP_REDUCE_LANES], &x, 1, &scalar, 1, "op",
                           tw_attr_string(v->ctx, name), NULL),
                  0);
    tw_loop_kind kind = tw_is_loop(combine, TW_LOOP_FMA) ? TW_LOOP_ADD : tw_loop_kind_of(combine);
    tw_value *sum = tw_loop_op(&v->b, kind, (tw_value *[]){acc, x}, 2, NULL);
    tw_cloner_map(v->values, &combine->results[0], sum);
    copy_op(v, store, NULL);
}

static void convert_store(vectorizer *v, tw_op *op)
{
    tw_loop_access a;
    tw_loop_get_access(op, &a);
    if (!any_vector(v, op, a.first_index, a.n_index)) {
        convert_reduction(v, op, accumulator_operand(op));
        return;
    }
    tw_value *value = broadcast(v, mapped(v, op, 0));
    tw_op *copy = copy_op(v, op, NULL);
    tw_op_set_operand(copy, 0, value);
    if (v->mask)
        tw_access_add_where(v->ctx, copy, v->mask, v->mask_operands, NULL);
}

static void convert_branch(vectorizer *v, tw_op *op)
{
    vectorizer inner = *v;
    if (!any_vector(v, op, 0, op->n_operands)) { /* the same for all lanes */
        tw_op *copy = copy_op(v, op, NULL);
        for (unsigned r = 0; r < 2; r++) {
            inner.b = tw_builder_at_end(v->ctx, &copy->regions[r], op->loc);
            convert_region(&inner, &op->regions[r]);
        }
        return;
    }
    /* Joins the condition to the mask: both over one list of operands. */
    tw_attr where = tw_op_attr(op, "where");
    tw_arena *arena = tw_context_arena(v->ctx);
    unsigned had = v->mask ? v->mask->u.map.n_dims : 0, dims = had + op->n_operands;
    size_t had_n = v->mask ? v->mask->u.map.n : 0, n = had_n + where->u.map.n;
    inner.mask_operands = TW_NEW_ARRAY(arena, tw_value *, dims);
    tw_expr *exprs = TW_NEW_ARRAY(arena, tw_expr, n);
    tw_expr *shifted = TW_NEW_ARRAY(arena, tw_expr, op->n_operands);
    for (unsigned i = 0; i < had; i++)
        inner.mask_operands[i] = v->mask_operands[i];
    for (size_t i = 0; i < had_n; i++)
        exprs[i] = v->mask->u.map.exprs[i];
    for (unsigned i = 0; i < op->n_operands; i++) {
        inner.mask_operands[had + i] = mapped(v, op, i);
        shifted[i] = tw_expr_dim(v->ctx, had + i);
    }
    for (size_t i = 0; i < where->u.map.n; i++)
        exprs[had_n + i] =
            tw_expr_substitute(v->ctx, where->u.map.exprs[i], shifted, op->n_operands);
    inner.mask = tw_attr_map(v->ctx, dims, exprs, n);
    convert_region(&inner, &op->regions[0]);
}

static void convert_for(vectorizer *v, tw_op *op)
{
    tw_op *copy = copy_op(v, op, NULL);
    const tw_value *variable = op->regions[0].args[0];
    tw_value *renamed = tw_region_add_arg(&copy->regions[0], variable->type, variable->name);
    tw_cloner_map(v->values, variable, renamed);
    vectorizer inner = *v;
    inner.b = tw_builder_at_end(v->ctx, &copy->regions[0], op->loc);
    convert_region(&inner, &op->regions[0]);
}

/* Arithmetic: vector as soon as one operand is. */
static void convert_arithmetic(vectorizer *v, tw_op *op)
{
    tw_type type = op->n_results ? op->results[0].type : NULL;
    bool vector = any_vector(v, op, 0, op->n_operands);
    bool mixes = tw_is_loop(op, TW_LOOP_INDEX); /* takes scalars beside vectors */
    tw_value *operands[8];
    for (unsigned i = 0; i < op->n_operands && i < 8 && !mixes; i++)
        operands[i] = vector ? broadcast(v, mapped(v, op, i)) : mapped(v, op, i);
    tw_op *copy = copy_op(v, op, vector ? tw_type_vector(v->ctx, type->elem, v->lanes) : type);
    for (unsigned i = 0; vector && !mixes && i < op->n_operands && i < 8; i++)
        tw_op_set_operand(copy, i, operands[i]);
}

static void convert_op(vectorizer *v, tw_op *op)
{
    switch (tw_loop_kind_of(op)) {
    case TW_LOOP_LOAD:
        convert_load(v, op);
        break;
    case TW_LOOP_STORE:
        convert_store(v, op);
        break;
    case TW_LOOP_IF:
        convert_branch(v, op);
        break;
    case TW_LOOP_FOR:
        convert_for(v, op);
        break;
    default:
        convert_arithmetic(v, op);
        break;
    }
}

/* Whether op only feeds the reduction that a store of the same region is converted to. */
static bool part_of_reduction(vectorizer *v, const tw_op *op)
{
    if (!reduction_name(op) || !tw_value_has_one_use(&op->results[0]))
        return false;
    const tw_op *store = op->results[0].uses->user;
    tw_loop_access a;
    return tw_is_loop(store, TW_LOOP_STORE) && tw_loop_get_access(store, &a) &&
           tw_operand(store, 0) == &op->results[0] && accumulator_operand(store) >= 0 &&
           !any_vector(v, store, a.first_index, a.n_index);
}

static void convert_region(vectorizer *v, tw_region *region)
{
    for (tw_op *op = region->first; op; op = op->next) {
        v->b.loc = op->loc;
        if (!part_of_reduction(v, op))
            convert_op(v, op);
    }
}

static void vectorize(tw_context *ctx, tw_op *loop, int64_t lanes)
{
    vectorizer v = {.ctx = ctx,
                    .b = tw_builder_before(ctx, loop),
                    .values = tw_cloner_create(ctx),
                    .lanes = lanes};
    tw_value **operands = TW_NEW_ARRAY(tw_context_arena(ctx), tw_value *, loop->n_operands);
    for (unsigned i = 0; i < loop->n_operands; i++)
        operands[i] = tw_operand(loop, i);
    tw_expr lo = tw_op_attr(loop, "bounds")->u.map.exprs[0];
    tw_value *base = tw_index_materialize(&v.b, lo, operands, loop->n_operands);
    tw_value *ramp = tw_loop_op(&v.b, TW_LOOP_RAMP, &base, 1, tw_type_vector(ctx, TW_INDEX, lanes));
    tw_value_set_name(ramp, loop->regions[0].args[0]->name);
    tw_cloner_map(v.values, loop->regions[0].args[0], ramp);
    convert_region(&v, &loop->regions[0]);
    tw_op_erase(loop);
}

static bool is_vectorized(const tw_op *op)
{
    return tw_is_for_kind(op, "vectorize");
}

static bool run(tw_pass_run *pass)
{
    tw_loop_list loops = tw_loop_collect(pass->ctx, pass->root, is_vectorized);
    for (size_t i = loops.n; i-- > 0;) { /* inner ones first */
        tw_op *loop = loops.ops[i];
        int64_t lanes;
        if (can_vectorize(pass->ctx, loop, &lanes))
            vectorize(pass->ctx, loop, lanes);
        else
            tw_op_set_attr(loop, "kind", NULL);
        pass->changes++;
    }
    return true;
}

const tw_pass tw_pass_vectorize_loops = {
    .name = "vectorize-loops",
    .summary = "turn loops marked `vectorize` into vector operations",
    .anchor = "loop.kernel",
    .run = run,
};
