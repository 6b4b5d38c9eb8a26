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
 * Bounds over symbols are cut likewise, at expressions:
 *
 *     loop.for %i = 0 to (n + 5) floordiv 6 { … where (n - %i * 6 - %j - 1) … }
 * becomes
 *     loop.for %i = 0 to n floordiv 6 { … }
 *     loop.for %i = n floordiv 6 to (n + 5) floordiv 6 { … where (n - %i * 6 - %j - 1) … }
 *
 * Else (parallel loops, fused variables) the body is doubled under a loop.if. The rest of a tile of
 * few rows, %j being the variable of a loop that is to be unrolled, gets code for each number of
 * rows, as no row's condition is then left to be asked:
 *
 *     loop.if (n - %i * 6 - 6) { 6 rows } else { loop.if (n - %i * 6 - 5) { 5 rows } else { …
 *
 * A loop over tiles that is annotated "partition" takes care of its last one, which the loops
 * around leave to it, and which has one number of rows, that follows from the condition:
 *
 *     loop.for %i { … where (1023 - %b * 518 - %i * 14 - %j) … }                     %j in 0..13
 * becomes
 *     loop.for %i { loop.if (1010 - %b * 518 - %i * 14) { 14 rows }
 *                   else { loop.if (1022 - %b * 518 - %i * 14) { 2 rows } } }
 */
#include "lower/flat.h"

#include "base/arena.h"
#include "base/checked.h"
#include "base/map.h"
#include "dialect/loop/index_map.h"
#include "dialect/loop/loop.h"
#include "dialect/loop/loop_ranges.h"
#include "ir/expr_impl.h"

#include <string.h>

/* Copies stop when the kernel has grown to that many operations. */
enum { MAX_KERNEL_OPS = 6000, MAX_CONDITIONS = 16, MAX_ROWS = 8, MAX_ROW_OPS = 3000 };

/* Conditions (>= 0) on a loop's variable (dimension 0) and values from outside the loop. */
typedef struct conditions {
    tw_value *values[TW_MAX_EXPR_DIMS];
    tw_range ranges[TW_MAX_EXPR_DIMS];
    unsigned n_values;
    tw_expr exprs[MAX_CONDITIONS];
    unsigned n;
    tw_expr rows; /* of a tile: holds when all of them are there; or NULL */
    int64_t n_rows;
    tw_op *row_loops[MAX_CONDITIONS]; /* over so many rows of a tile, to be unrolled */
    unsigned n_row_loops;
} conditions;

typedef struct specializer {
    tw_context *ctx;
    tw_op *loop; /* whose conditions are collected */
    conditions found;
    tw_map doubled; /* loops whose bodies have been doubled */
    tw_map cuts;    /* loops that have been cut at expressions */
    tw_map edges;   /* the loops beside them that this has left */
    size_t ops;     /* in the kernel */
    size_t row_ops; /* in code for some of a tile's rows, when it is unrolled */
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

/* False when it holds anyway, or never. */
static bool add_condition(tw_context *ctx, conditions *c, tw_expr e)
{
    if (!tw_expr_uses_dim(e, 0) || tw_expr_at_least(ctx, e, 0, c->ranges, c->n_values) ||
        tw_expr_at_least(ctx, tw_expr_mulc(ctx, e, -1), 1, c->ranges, c->n_values) ||
        c->n == MAX_CONDITIONS)
        return false;
    for (unsigned i = 0; i < c->n; i++)
        if (c->exprs[i] == e)
            return true;
    c->exprs[c->n++] = e;
    return true;
}

/* Trips of the loop to be unrolled whose variable the value is, when they are known; else 0. */
static int64_t unrolled_trips(const tw_value *value)
{
    const tw_op *loop = value->region ? value->region->parent : NULL;
    int64_t lo, hi;
    if (!loop || !tw_is_for_kind(loop, "unroll"))
        return 0;
    tw_attr bounds = tw_op_attr(loop, "bounds");
    bool known = tw_expr_as_const(bounds->u.map.exprs[0], &lo) &&
                 tw_expr_as_const(bounds->u.map.exprs[1], &hi) && lo == 0;
    return known ? hi : 0;
}

static bool is_open(const tw_op *loop)
{
    return !tw_expr_is_const(tw_op_attr(loop, "bounds")->u.map.exprs[1]);
}

static bool is_partitioned(const tw_op *loop)
{
    tw_attr annotations = tw_op_attr(loop, "annotations");
    for (size_t i = 0; annotations && i < annotations->u.dict.n; i++)
        if (strcmp(annotations->u.dict.items[i].name, "partition") == 0)
            return true;
    return false;
}

/* Whether conditions that vary with the value are left to its own loop: of a window at the edges of
 * an image whose size is not known few steps are outside, and each step asks once for all it does.
 */
static bool asks_inside(const specializer *s, const tw_value *value)
{
    const tw_op *loop = value->region ? value->region->parent : NULL;
    return loop && tw_is_for_kind(loop, "serial") && (is_open(s->loop) || is_partitioned(loop));
}

/* Too many are noticed later. */
static void add_row_loop(conditions *c, tw_op *loop)
{
    for (unsigned i = 0; i < c->n_row_loops; i++)
        if (c->row_loops[i] == loop)
            return;
    if (c->n_row_loops < MAX_CONDITIONS)
        c->row_loops[c->n_row_loops++] = loop;
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
        if (coefficients[i] && (at_loop[i] != zero || asks_inside(s, tw_operand(op, first + i))))
            return;
    int64_t least = tw_expr_range(inner, ranges, n).lo, rows = 0;
    if (least == INT64_MIN)
        return;
    tw_expr at_least = tw_expr_substitute(s->ctx, tw_expr_addc(s->ctx, outer, least), dims, n);
    bool counts = add_condition(s->ctx, &s->found, at_least);
    for (unsigned i = 0; i < n; i++)
        if (coefficients[i])
            rows =
                rows == 0 && coefficients[i] == -1 ? unrolled_trips(tw_operand(op, first + i)) : -1;
    bool few = is_open(s->loop) && rows <= MAX_ROWS;
    if (counts && tw_is_loop(op, TW_LOOP_IF) && rows > s->found.n_rows &&
        (few || is_partitioned(s->loop))) {
        s->found.rows = at_least;
        s->found.n_rows = rows;
    }
    for (unsigned i = 0; i < n && is_partitioned(s->loop); i++)
        if (coefficients[i] == -1)
            add_row_loop(&s->found, tw_operand(op, first + i)->region->parent);
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

/* The number of operations when the loops marked so are unrolled. */
static size_t unrolled_size(const tw_region *region)
{
    size_t n = 0;
    for (const tw_op *op = region->first; op; op = op->next) {
        int64_t trips = tw_is_loop(op, TW_LOOP_FOR) ? unrolled_trips(op->regions[0].args[0]) : 0;
        size_t inside = 1;
        for (unsigned r = 0; r < op->n_regions; r++)
            inside += unrolled_size(&op->regions[r]);
        n += inside * (trips > 0 ? (size_t)trips : 1);
    }
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

static void set_bounds(tw_context *ctx, tw_op *loop, tw_expr lo, tw_expr hi)
{
    tw_expr exprs[2] = {lo, hi};
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
        set_bounds(s->ctx, behind, tw_expr_const(s->ctx, last + 1), tw_expr_const(s->ctx, hi));
        tw_simplify_loops(s->ctx, behind);
    }
    if (first > lo) {
        tw_op *before = copy_before(s->ctx, loop, loop);
        set_bounds(s->ctx, before, tw_expr_const(s->ctx, lo), tw_expr_const(s->ctx, first));
        tw_simplify_loops(s->ctx, before);
    }
    set_bounds(s->ctx, loop, tw_expr_const(s->ctx, first), tw_expr_const(s->ctx, last + 1));
    tw_simplify_loops(s->ctx, loop);
    return true;
}

/* A loop.if (conditions) at the builder's place. */
static tw_op *branch_on(specializer *s, tw_builder *b, const tw_expr *exprs, size_t n)
{
    tw_op *branch = tw_build(b, &tw_loop_ops[TW_LOOP_IF], s->found.values, s->found.n_values, NULL,
                             0, "where", tw_attr_map(s->ctx, s->found.n_values, exprs, n), NULL);
    tw_index_compact(s->ctx, branch);
    return branch;
}

/* ---- Cutting at expressions ---- */

/* An interval of the loop's variable, [first, end), over symbols. */
typedef struct interval {
    tw_expr first, end;
    tw_expr exprs[MAX_CONDITIONS]; /* the conditions that hold in it */
    unsigned n;
} interval;

/* Narrows the interval to where the condition holds; nothing when its ends would not be over
 * symbols. */
static void narrow_symbolic(const specializer *s, tw_expr e, interval *in)
{
    tw_context *ctx = s->ctx;
    int64_t factor[1], constant;
    tw_expr zero = tw_expr_const(ctx, 0), rest = tw_expr_substitute(ctx, e, &zero, 1);
    if (tw_expr_dim_count(rest) ||
        !tw_expr_linear(tw_expr_sub(ctx, e, rest), factor, 1, &constant) || !factor[0] ||
        factor[0] == INT64_MIN)
        return;
    tw_expr size = tw_expr_const(ctx, factor[0] > 0 ? factor[0] : -factor[0]);
    tw_expr bound = tw_expr_binary(ctx, TW_EXPR_FLOORDIV, rest, size);
    if (factor[0] > 0) /* v >= ceil(-rest / factor) */
        in->first = tw_expr_binary(ctx, TW_EXPR_MAX, in->first, tw_expr_mulc(ctx, bound, -1));
    else
        in->end = tw_expr_binary(ctx, TW_EXPR_MIN, in->end, tw_expr_addc(ctx, bound, 1));
    in->exprs[in->n++] = e;
}

/* A copy of the loop for another part of its range, unless that is empty for sure. */
static void add_piece(specializer *s, tw_op *before, tw_expr lo, tw_expr hi)
{
    if (lo == hi)
        return;
    s->ops += size_of(s->loop);
    tw_op *piece = copy_before(s->ctx, s->loop, before);
    tw_map_put_ptr(&s->edges, piece, piece);
    set_bounds(s->ctx, piece, lo, hi);
    tw_simplify_loops(s->ctx, piece);
}

/* Simplifies the loop's body, in which the conditions hold. */
static void assume(specializer *s, const tw_expr *exprs, size_t n)
{
    tw_region *body = &s->loop->regions[0];
    tw_op *first = body->first;
    tw_builder b = {s->ctx, body, first, s->loop->loc};
    tw_op *branch = branch_on(s, &b, exprs, n);
    for (tw_op *op = first, *next; op; op = next) {
        next = op->next;
        tw_op_insert(op, &branch->regions[0], NULL);
    }
    for (tw_op *op = branch->regions[0].first, *next; op; op = next) {
        next = op->next;
        tw_simplify_loops(s->ctx, op);
    }
    tw_region_splice(body, NULL, &branch->regions[0]);
    tw_op_erase(branch);
}

/* Cuts a serial loop at expressions over symbols; false when none is found. */
static bool cut_symbolic(specializer *s)
{
    tw_context *ctx = s->ctx;
    tw_op *loop = s->loop;
    tw_attr bounds = tw_op_attr(loop, "bounds");
    tw_expr lo = bounds->u.map.exprs[0], hi = bounds->u.map.exprs[1];
    interval in = {.first = lo, .end = hi};
    if (tw_map_get_ptr(&s->cuts, loop) || tw_map_get_ptr(&s->edges, loop) || !is_open(loop) ||
        tw_expr_dim_count(lo) || tw_expr_dim_count(hi) || tw_op_int(loop, "step", 1) != 1)
        return false;
    for (unsigned i = 0; i < s->found.n; i++)
        narrow_symbolic(s, s->found.exprs[i], &in);
    /* Wherever the ends are, each iteration is in one of the parts. */
    tw_expr first = tw_expr_binary(ctx, TW_EXPR_MIN, in.first, hi);
    tw_expr end = tw_expr_binary(ctx, TW_EXPR_MAX, in.end, first);
    if (!in.n || first->kind == TW_EXPR_INVALID || end->kind == TW_EXPR_INVALID)
        return false;
    add_piece(s, loop, lo, first);
    add_piece(s, loop->next, end, hi);
    tw_map_put_ptr(&s->cuts, loop, loop);
    set_bounds(ctx, loop, first, end);
    assume(s, in.exprs, in.n);
    return true;
}

/* Copies of the operations from `first` to the end of its region. */
static void copy_to(specializer *s, tw_op *first, tw_region *to)
{
    tw_cloner *cloner = tw_cloner_create(s->ctx);
    for (tw_op *op = first; op; op = op->next)
        tw_op_insert(tw_op_clone(cloner, op), to, NULL);
}

/* Doubles the body: `loop.if (conditions) { simplified } else { as it was }`; of a tile whose rows
 * may be fewer, more often. */
static void double_body(specializer *s)
{
    tw_region *body = &s->loop->regions[0];
    tw_op *first = body->first;
    size_t size = size_of(s->loop);
    int64_t n_rows = s->found.n_rows;
    if (n_rows)
        s->row_ops += unrolled_size(body) * (size_t)n_rows / 2;
    if (s->row_ops > MAX_ROW_OPS)
        n_rows = 0;
    tw_builder b = {s->ctx, body, first, s->loop->loc};
    tw_op *branch = branch_on(s, &b, s->found.exprs, s->found.n), *inner = branch;
    copy_to(s, first, &branch->regions[0]);
    s->ops += size;
    /* With other conditions than that of the rows, all rows may be there where the first fails. */
    for (int64_t missing = s->found.n == 1; missing < n_rows; missing++) {
        tw_builder at = tw_builder_at_end(s->ctx, &inner->regions[1], s->loop->loc);
        tw_expr enough = tw_expr_addc(s->ctx, s->found.rows, missing);
        inner = branch_on(s, &at, &enough, 1);
        copy_to(s, first, &inner->regions[0]);
        s->ops += size;
    }
    for (tw_op *op = first, *next; op; op = next) {
        next = op->next;
        tw_op_insert(op, &inner->regions[1], NULL);
    }
    tw_simplify_loops(s->ctx, branch);
}

/* The body for whole tiles and for the rest of one, when all conditions are about that, and how
 * many rows it has can be told; else false. */
static bool partition(specializer *s)
{
    tw_context *ctx = s->ctx;
    conditions *c = &s->found;
    if (!is_partitioned(s->loop) || c->n != 1 || !c->n_rows || c->n_row_loops == MAX_CONDITIONS)
        return false;
    for (unsigned i = 0; i < c->n_row_loops; i++)
        if (unrolled_trips(c->row_loops[i]->regions[0].args[0]) != c->n_rows)
            return false;
    tw_sum sum;
    tw_sum_init(&sum);
    tw_sum_add(&sum, c->rows, 1);
    for (size_t i = 0; i < sum.n; i++)
        if (sum.terms[i].coef % c->n_rows)
            return false;
    int64_t rest = tw_mod_i64(sum.constant, c->n_rows);
    tw_region *body = &s->loop->regions[0];
    tw_op *first = body->first;
    tw_builder b = {ctx, body, first, s->loop->loc};
    tw_op *branch = branch_on(s, &b, &c->rows, 1);
    copy_to(s, first, &branch->regions[0]);
    tw_builder at = tw_builder_at_end(ctx, &branch->regions[1], s->loop->loc);
    tw_expr enough = tw_expr_addc(ctx, c->rows, c->n_rows - rest);
    tw_region *to = &branch_on(s, &at, &enough, 1)->regions[0];
    s->ops += size_of(s->loop);
    for (unsigned i = 0; i < c->n_row_loops; i++)
        set_bounds(ctx, c->row_loops[i], tw_expr_const(ctx, 0), tw_expr_const(ctx, rest));
    for (tw_op *op = first, *next; op; op = next) {
        next = op->next;
        tw_op_insert(op, to, NULL);
    }
    tw_simplify_loops(ctx, branch);
    return true;
}

/* Whether the loop is, or stands in, an edge that cutting has left: little is done there. */
static bool is_at_edge(const specializer *s, const tw_op *loop)
{
    for (; loop; loop = loop->region ? loop->region->parent : NULL)
        if (tw_map_get_ptr(&s->edges, loop))
            return true;
    return false;
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
    if (!tw_map_get_ptr(&s->doubled, loop) && partition(s)) {
        tw_map_put_ptr(&s->doubled, loop, loop);
        s->changes++;
        return false;
    }
    if (!parallel && (cut(s) || cut_symbolic(s))) {
        s->changes++;
        return true;
    }
    if (!tw_map_get_ptr(&s->doubled, loop) && (!is_at_edge(s, loop) || s->found.n_rows)) {
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
    s.cuts = tw_map_make(tw_context_arena(pass->ctx));
    s.edges = tw_map_make(tw_context_arena(pass->ctx));
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
