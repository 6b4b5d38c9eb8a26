/* kernel_equal.c: comparing kernels without regard to names, and describing them.
 *
 * Values are numbered in the order of their definition, so that two kernels are equal when a walk
 * over both meets the same operations, attributes, types and numbers. */
#include "base/map.h"
#include "base/vec.h"
#include "lower/kernel.h"
#include "lower/lowering.h"

#include <string.h>

/* ---- Comparison ---- */

/* Attributes of no consequence for what a kernel computes. */
static bool is_name(const tw_op *op, const char *attr)
{
    return (tw_is_loop(op, TW_LOOP_KERNEL) && !strcmp(attr, "sym_name")) || !strcmp(attr, "ops");
}

typedef struct numbering {
    tw_map numbers; /* tw_value -> number + 1 */
    uintptr_t n;
} numbering;

static void number(numbering *n, const tw_value *value)
{
    tw_map_put_ptr(&n->numbers, value, (void *)++n->n);
}

static void number_all(numbering *n, const tw_op *op)
{
    for (unsigned i = 0; i < op->n_results; i++)
        number(n, &op->results[i]);
    for (unsigned r = 0; r < op->n_regions; r++)
        for (unsigned i = 0; i < op->regions[r].n_args; i++)
            number(n, op->regions[r].args[i]);
}

static uint64_t mix(uint64_t h, uint64_t v)
{
    return (h ^ v) * 0x9e3779b97f4a7c15u ^ (h >> 29);
}

typedef struct hash_walk {
    numbering n;
    uint64_t h;
} hash_walk;

static bool hash_op(tw_op *op, void *data)
{
    hash_walk *w = data;
    w->h = mix(w->h, (uintptr_t)op->def);
    for (unsigned i = 0; i < op->n_attrs; i++)
        if (!is_name(op, op->attrs[i].name))
            w->h = mix(w->h, op->attrs[i].value->hash);
    for (unsigned i = 0; i < op->n_operands; i++)
        w->h = mix(w->h, (uintptr_t)tw_map_get_ptr(&w->n.numbers, tw_operand(op, i)));
    for (unsigned i = 0; i < op->n_results; i++)
        w->h = mix(w->h, op->results[i].type->hash);
    for (unsigned r = 0; r < op->n_regions; r++)
        for (unsigned i = 0; i < op->regions[r].n_args; i++)
            w->h = mix(w->h, op->regions[r].args[i]->type->hash);
    number_all(&w->n, op);
    return true;
}

uint64_t tw_kernel_hash(const tw_op *kernel)
{
    tw_arena *arena = tw_context_arena(tw_op_context(kernel));
    hash_walk w = {.n = {.numbers = tw_map_make(arena)}};
    tw_walk((tw_op *)kernel, hash_op, &w);
    return w.h;
}

typedef TW_VEC(const tw_op *) op_list;

typedef struct collect {
    tw_arena *arena;
    op_list ops;
} collect;

static bool collect_op(tw_op *op, void *data)
{
    collect *c = data;
    tw_vec_push(c->arena, &c->ops, op);
    return true;
}

static bool same_attrs(const tw_op *a, const tw_op *b)
{
    if (a->n_attrs != b->n_attrs)
        return false;
    for (unsigned i = 0; i < a->n_attrs; i++)
        if (a->attrs[i].name != b->attrs[i].name ||
            (a->attrs[i].value != b->attrs[i].value && !is_name(a, a->attrs[i].name)))
            return false;
    return true;
}

static bool same_regions(const tw_op *a, const tw_op *b)
{
    if (a->n_regions != b->n_regions)
        return false;
    for (unsigned r = 0; r < a->n_regions; r++) {
        const tw_region *ra = &a->regions[r], *rb = &b->regions[r];
        if (ra->n_args != rb->n_args || !ra->first != !rb->first)
            return false;
        for (unsigned i = 0; i < ra->n_args; i++)
            if (ra->args[i]->type != rb->args[i]->type)
                return false;
    }
    return true;
}

/* Operands that have been numbered alike. */
static bool same_values(const tw_op *a, const tw_op *b, const tw_map *na, const tw_map *nb)
{
    if (a->n_operands != b->n_operands || a->n_results != b->n_results)
        return false;
    for (unsigned i = 0; i < a->n_operands; i++)
        if (tw_map_get_ptr(na, tw_operand(a, i)) != tw_map_get_ptr(nb, tw_operand(b, i)))
            return false;
    for (unsigned i = 0; i < a->n_results; i++)
        if (a->results[i].type != b->results[i].type)
            return false;
    return true;
}

bool tw_kernel_equal(const tw_op *a, const tw_op *b)
{
    tw_arena *arena = tw_context_arena(tw_op_context(a));
    collect ca = {.arena = arena}, cb = {.arena = arena};
    numbering na = {.numbers = tw_map_make(arena)}, nb = {.numbers = tw_map_make(arena)};
    tw_walk((tw_op *)a, collect_op, &ca);
    tw_walk((tw_op *)b, collect_op, &cb);
    if (ca.ops.len != cb.ops.len)
        return false;
    for (size_t i = 0; i < ca.ops.len; i++) {
        const tw_op *x = ca.ops.data[i], *y = cb.ops.data[i];
        /* The same operation around both: the walks nest alike. */
        bool nested = !i || !x->region || x->region->index == y->region->index;
        if (x->def != y->def || !nested || !same_attrs(x, y) || !same_regions(x, y) ||
            !same_values(x, y, &na.numbers, &nb.numbers))
            return false;
        number_all(&na, x);
        number_all(&nb, y);
    }
    return true;
}

/* ---- Description ---- */

/* Floating-point operations of one operation on scalars. */
static int64_t flops_of(const tw_op *op)
{
    tw_loop_kind kind = tw_loop_kind_of(op);
    if (!op->n_results || op->results[0].type->kind != TW_TYPE_SCALAR ||
        !tw_elem_is_float(op->results[0].type->elem) || kind < TW_LOOP_NEG || kind > TW_LOOP_FMA)
        return 0;
    return kind == TW_LOOP_FMA ? 2 : 1;
}

/* Stops at overflow, for a profile is all that suffers. */
static int64_t times(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX / 4 : product;
}

/* Per operation the number of times that it runs; 0 when a loop's bounds are not numbers. */
static int64_t runs_of(const tw_op *op, const tw_op *kernel)
{
    int64_t runs = 1, lo, hi;
    for (; op != kernel; op = op->region->parent) {
        tw_attr bounds = tw_is_loop(op, TW_LOOP_FOR) ? tw_op_attr(op, "bounds") : NULL;
        if (!bounds)
            continue;
        if (!tw_expr_as_const(bounds->u.map.exprs[0], &lo) ||
            !tw_expr_as_const(bounds->u.map.exprs[1], &hi))
            return 0;
        runs = hi > lo ? times(runs, hi - lo) : runs;
    }
    return runs;
}

/* The same as an expression over symbols; NULL when there is none. */
static tw_expr symbolic_runs(const tw_op *op, const tw_op *kernel)
{
    tw_context *ctx = tw_op_context(kernel);
    tw_expr runs = tw_expr_const(ctx, 1);
    for (; op != kernel; op = op->region->parent) {
        tw_attr bounds = tw_is_loop(op, TW_LOOP_FOR) ? tw_op_attr(op, "bounds") : NULL;
        tw_expr trips =
            bounds ? tw_expr_sub(ctx, bounds->u.map.exprs[1], bounds->u.map.exprs[0]) : NULL;
        if (trips && tw_expr_dim_count(trips))
            return NULL;
        runs = trips ? tw_expr_mul(ctx, runs, trips) : runs;
    }
    return runs;
}

typedef struct flops_walk {
    const tw_op *kernel;
    int64_t total;
    tw_expr symbolic; /* the same; NULL: not known */
} flops_walk;

static bool count_flops(tw_op *op, void *data)
{
    flops_walk *w = data;
    int64_t per_block = 0;
    if (!tw_is_loop(op, TW_LOOP_BLOCK))
        return true;
    for (tw_op *o = op->regions[1].first; o; o = o->next)
        per_block += flops_of(o);
    int64_t all = per_block ? times(per_block, runs_of(op, w->kernel)) : 0;
    if (__builtin_add_overflow(w->total, all, &w->total))
        w->total = INT64_MAX;
    tw_context *ctx = tw_op_context(w->kernel);
    tw_expr runs = per_block && w->symbolic ? symbolic_runs(op, w->kernel) : NULL;
    if (per_block)
        w->symbolic =
            runs ? tw_expr_add(ctx, w->symbolic, tw_expr_mulc(ctx, runs, per_block)) : NULL;
    return true;
}

static int64_t bytes_of(tw_type type)
{
    int64_t count = 0;
    tw_type_static_count(type, &count);
    return times(count, tw_elem_bits(type->elem)) / 8;
}

static tw_expr symbolic_bytes(tw_context *ctx, const tw_region *body)
{
    tw_expr all = tw_expr_const(ctx, 0);
    for (unsigned i = 0; i < body->n_args; i++) {
        tw_type type = body->args[i]->type;
        tw_expr bits = tw_expr_const(ctx, tw_elem_bits(type->elem));
        for (unsigned d = 0; d < type->rank; d++)
            bits = tw_expr_mul(ctx, bits, type->dims[d]);
        all = tw_expr_add(ctx, all,
                          tw_expr_binary(ctx, TW_EXPR_FLOORDIV, bits, tw_expr_const(ctx, 8)));
    }
    return all;
}

void tw_kernel_describe(tw_op *kernel, const tw_op *graph_op)
{
    tw_context *ctx = tw_op_context(kernel);
    tw_arena *arena = tw_context_arena(ctx);
    TW_VEC(tw_attr) names = {0};
    if (tw_is_graph(graph_op, TW_GRAPH_GROUP)) {
        for (tw_op *op = graph_op->regions[0].first; op; op = op->next)
            if (!tw_is_graph(op, TW_GRAPH_CONSTANT) && !tw_is_graph(op, TW_GRAPH_YIELD))
                tw_vec_push(arena, &names, tw_attr_string(ctx, tw_short_name(op)));
    } else {
        tw_vec_push(arena, &names, tw_attr_string(ctx, tw_short_name(graph_op)));
    }
    tw_op_set_attr(kernel, "ops", tw_attr_array(ctx, names.data, names.len));
    flops_walk w = {.kernel = kernel, .symbolic = tw_expr_const(ctx, 0)};
    tw_walk(kernel, count_flops, &w);
    int64_t bytes = 0;
    for (unsigned i = 0; i < kernel->regions[0].n_args; i++)
        if (__builtin_add_overflow(bytes, bytes_of(kernel->regions[0].args[i]->type), &bytes))
            bytes = INT64_MAX;
    tw_op_set_attr(kernel, "flops", tw_attr_int(ctx, w.total));
    tw_op_set_attr(kernel, "bytes", tw_attr_int(ctx, bytes));
    tw_expr work[2] = {w.symbolic ? w.symbolic : tw_expr_const(ctx, 0),
                       symbolic_bytes(ctx, &kernel->regions[0])};
    if (!tw_expr_is_const(work[0]) || !tw_expr_is_const(work[1]))
        tw_op_set_attr(kernel, "work", tw_attr_map(ctx, 0, work, 2));
}
