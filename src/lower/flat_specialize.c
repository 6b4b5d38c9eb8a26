/* flat_specialize.c: specialize-loops: the common case runs without masks.
 *
 * The conditions inside a loop (edges of a convolution, the tail of a tile) are turned into
 * conditions on the loop's variable alone: the terms of inner variables are replaced by their least
 * value. Where they are linear in the variable the loop is cut into the part before, inside and
 * behind the interval in which all hold:
 *
 *     loop.for %i = 0 to 9 { … %X[%i * 6 + %j] where (48 - %i * 6 - %j) … }       %j in 0..5
 * becomes
 *     loop.for %i = 0 to 8 { … %X[%i * 6 + %j] … }
 *     … %X[48 + %j] where (-%j) …
 *
 * Else (parallel loops, fused variables) the body is doubled under a loop.if. */
#include "lower/flat.h"

#include "base/arena.h"
#include "base/checked.h"
#include "base/map.h"
#include "dialect/loop/index_map.h"
#include "dialect/loop/loop.h"
#include "dialect/loop/loop_ranges.h"

/* Copies stop when the kernel has grown to that many operations. */
enum { MAX_KERNEL_OPS = 6000, MAX_CONDITIONS = 16 };

/* Conditions (>= 0) on a loop's variable (dimension 0) and values from outside the loop. */
typedef struct conditions {
    tw_value *values[TW_MAX_EXPR_DIMS];
    tw_range ranges[TW_MAX_EXPR_DIMS];
    unsigned n_values;
    tw_expr exprs[MAX_CONDITIONS];
    unsigned n;
} conditions;

typedef struct specializer {
    tw_context *ctx;
    tw_op *loop; /* whose conditions are collected */
    conditions found;
    tw_map doubled; /* loops whose bodies have been doubled */
    size_t ops;     /* in the kernel */
    uint64_t changes;
} specializer;

static bool is_inside(const tw_op *loop, const tw_value *value)
{
    const tw_op *def = value->op ? value->op : value->region->parent;
    return def != loop && tw_op_is_ancestor(loop, def);
}

static int value_number(tw_context *ctx, conditions *c, tw_value *value)
{
    for (unsigned i = 0; i < c->n_values; i++)
        if (c->values[i] == value)
            return (int)i;
    if (c->n_values == TW_MAX_EXPR_DIMS)
        return -1;
    c->ranges[c->n_values] = tw_value_range(ctx, value);
    c->values[c->n_values] = value;
    return (int)c->n_values++;
}

static void add_condition(tw_context *ctx, conditions *c, tw_expr e)
{
    if (!tw_expr_uses_dim(e, 0) || tw_expr_at_least(ctx, e, 0, c->ranges, c->n_values) ||
        tw_expr_at_least(ctx, tw_expr_mulc(ctx, e, -1), 1, c->ranges, c->n_values) ||
        c->n == MAX_CONDITIONS)
        return;
    for (unsigned i = 0; i < c->n; i++)
        if (c->exprs[i] == e)
            return;
    c->exprs[c->n++] = e;
}

/* Restates one condition of `op` at the level of the loop's body, if its inner terms separate. */
static void restate(specializer *s, tw_op *op, unsigned first, unsigned n, tw_expr e,
                    const tw_range *ranges)
{
    tw_expr at_loop[TW_MAX_EXPR_DIMS], zero = tw_expr_const(s->ctx, 0);
    tw_expr dims[TW_MAX_EXPR_DIMS];
    for (unsigned i = 0; i < n; i++) {
        tw_value *value = tw_operand(op, first + i);
        at_loop[i] = dims[i] = tw_expr_dim(s->ctx, i);
        if (is_inside(s->loop, value) || value->type->kind == TW_TYPE_VECTOR) {
            at_loop[i] = zero; /* stands for its least value, in a vector that of all lanes */
        } else if (tw_expr_uses_dim(e, i)) {
            int number = value_number(s->ctx, &s->found, value);
            if (number < 0)
                return;
            dims[i] = tw_expr_dim(s->ctx, (unsigned)number);
        }
    }
    tw_expr outer = tw_expr_substitute(s->ctx, e, at_loop, n);
    tw_expr inner = tw_expr_sub(s->ctx, e, outer);
    int64_t coefficients[TW_MAX_EXPR_DIMS], constant;
    if (!tw_expr_linear(inner, coefficients, n, &constant))
        return;
    for (unsigned i = 0; i < n; i++)
        if (coefficients[i] && at_loop[i] != zero)
            return;
    int64_t least = tw_expr_range(inner, ranges, n).lo;
    if (least == INT64_MIN)
        return;
    add_condition(s->ctx, &s->found,
                  tw_expr_substitute(s->ctx, tw_expr_addc(s->ctx, outer, least), dims, n));
}

static bool collect_conditions(tw_op *op, void *data)
{
    specializer *s = data;
    tw_attr where = tw_op_attr(op, "where");
    unsigned first, n;
    tw_range ranges[TW_MAX_EXPR_DIMS];
    if (op == s->loop || !where || !tw_index_operands(op, &first, &n) || n > TW_MAX_EXPR_DIMS)
        return true;
    tw_operand_ranges(s->ctx, op, ranges);
    for (size_t i = 0; i < where->u.map.n; i++)
        restate(s, op, first, n, where->u.map.exprs[i], ranges);
    return true;
}

static bool count_op(tw_op *op, void *data)
{
    (void)op;
    ++*(size_t *)data;
    return true;
}

static size_t size_of(tw_op *op)
{
    size_t n = 0;
    tw_walk(op, count_op, &n);
    return n;
}

/* Narrows [*first, *last] to where the condition holds for all outer values; false when it is not
 * linear in the variable. */
static bool narrow(const conditions *c, tw_expr e, tw_context *ctx, int64_t *first, int64_t *last)
{
    int64_t factor[1], rest_constant;
    tw_expr dims[TW_MAX_EXPR_DIMS] = {tw_expr_const(ctx, 0)};
    tw_expr rest = tw_expr_substitute(ctx, e, dims, 1);
    if (!tw_expr_linear(tw_expr_sub(ctx, e, rest), factor, 1, &rest_constant) || !factor[0])
        return false;
    int64_t least = tw_expr_range(rest, c->ranges, c->n_values).lo;
    if (least < -(INT64_C(1) << 40) || least > (INT64_C(1) << 40))
        return false;
    int64_t bound = tw_floordiv_i64(least, factor[0] > 0 ? factor[0] : -factor[0]);
    if (factor[0] > 0 && -bound > *first)
        *first = -bound; /* v >= ceil(-least / factor) */
    if (factor[0] < 0 && bound < *last)
        *last = bound;
    return true;
}

static void set_bounds(tw_context *ctx, tw_op *loop, int64_t lo, int64_t hi)
{
    tw_expr exprs[2] = {tw_expr_const(ctx, lo), tw_expr_const(ctx, hi)};
    tw_op_set_attr(loop, "bounds", tw_attr_map(ctx, loop->n_operands, exprs, 2));
    tw_index_compact(ctx, loop);
}

static tw_op *copy_before(tw_context *ctx, tw_op *loop, tw_op *before)
{
    tw_op *copy = tw_op_clone(tw_cloner_create(ctx), loop);
    tw_op_insert(copy, loop->region, before);
    return copy;
}

/* Cuts a serial loop; false when no interval is found that helps. */
static bool cut(specializer *s)
{
    tw_op *loop = s->loop;
    tw_attr bounds = tw_op_attr(loop, "bounds");
    int64_t lo, hi;
    if (!tw_expr_as_const(bounds->u.map.exprs[0], &lo) ||
        !tw_expr_as_const(bounds->u.map.exprs[1], &hi) || tw_op_int(loop, "step", 1) != 1)
        return false;
    int64_t first = lo, last = hi - 1;
    for (unsigned i = 0; i < s->found.n; i++) {
        int64_t f = first, l = last;
        if (narrow(&s->found, s->found.exprs[i], s->ctx, &f, &l) && f <= l) {
            first = f;
            last = l;
        }
    }
    if (first == lo && last == hi - 1)
        return false;
    s->ops += 2 * size_of(loop);
    if (last + 1 < hi) {
        tw_op *behind = copy_before(s->ctx, loop, loop->next);
        set_bounds(s->ctx, behind, last + 1, hi);
        tw_simplify_loops(s->ctx, behind);
    }
    if (first > lo) {
        tw_op *before = copy_before(s->ctx, loop, loop);
        set_bounds(s->ctx, before, lo, first);
        tw_simplify_loops(s->ctx, before);
    }
    set_bounds(s->ctx, loop, first, last + 1);
    tw_simplify_loops(s->ctx, loop);
    return true;
}

/* Doubles the body: `loop.if (conditions) { simplified } else { as it was }`. */
static void double_body(specializer *s)
{
    tw_region *body = &s->loop->regions[0];
    tw_op *first = body->first;
    s->ops += size_of(s->loop);
    tw_builder b = {s->ctx, body, first, s->loop->loc};
    tw_op *branch =
        tw_build(&b, &tw_loop_ops[TW_LOOP_IF], s->found.values, s->found.n_values, NULL, 0, "where",
                 tw_attr_map(s->ctx, s->found.n_values, s->found.exprs, s->found.n), NULL);
    tw_index_compact(s->ctx, branch);
    tw_cloner *cloner = tw_cloner_create(s->ctx);
    for (tw_op *op = first, *next; op; op = next) {
        next = op->next;
        tw_op_insert(tw_op_clone(cloner, op), &branch->regions[0], NULL);
        tw_op_insert(op, &branch->regions[1], NULL);
    }
    tw_simplify_loops(s->ctx, branch);
}

/* Specialises one loop; true when the region it stands in has to be looked at again. */
static bool specialize_loop(specializer *s, tw_op *loop)
{
    bool parallel = tw_is_for_kind(loop, "parallel");
    if ((!parallel && !tw_is_for_kind(loop, "serial")) ||
        s->ops + size_of(loop) * 2 > MAX_KERNEL_OPS)
        return false;
    s->loop = loop;
    s->found = (conditions){.n = 0};
    value_number(s->ctx, &s->found, loop->regions[0].args[0]);
    tw_walk(loop, collect_conditions, s);
    if (!s->found.n)
        return false;
    if (!parallel && cut(s)) {
        s->changes++;
        return true;
    }
    if (!tw_map_get_ptr(&s->doubled, loop)) {
        tw_map_put_ptr(&s->doubled, loop, loop);
        double_body(s);
        s->changes++;
    }
    return false;
}

/* Nests are as deep as a schedule made them: recursion is shallow. */
static void specialize_region(specializer *s, tw_region *region)
{
    for (tw_op *op = region->first; op;) {
        tw_op *before = op->prev;
        if (tw_is_loop(op, TW_LOOP_FOR) && specialize_loop(s, op)) {
            op = before ? before->next : region->first;
            continue;
        }
        for (unsigned r = 0; r < op->n_regions; r++)
            specialize_region(s, &op->regions[r]);
        op = op->next;
    }
}

static bool run(tw_pass_run *pass)
{
    specializer s = {.ctx = pass->ctx, .ops = size_of(pass->root)};
    s.doubled = tw_map_make(tw_context_arena(pass->ctx));
    specialize_region(&s, &pass->root->regions[0]);
    pass->changes += s.changes;
    return true;
}

const tw_pass tw_pass_specialize_loops = {
    .name = "specialize-loops",
    .summary = "run the common case of loops without masks",
    .anchor = "loop.kernel",
    .optional = true,
    .run = run,
};
