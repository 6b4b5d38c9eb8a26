/* map_threads.c: map-threads: what loops bound to threads mean one after another, on real threads.
 *
 *     loop.for %b = 0 to 4 blockIdx.x {
 *       loop.for %i = 0 to 32 threadIdx.x { block "load" { %S[…] = … } }
 *       block "first" { %Y[%b] = %S[0] … }
 *       loop.for %i = 0 to 32 threadIdx.x { block "use" { … = %S[31 - …] } } }
 * becomes
 *     loop.for %b = 0 to 4 blockIdx.x {
 *       loop.for %i = 0 to 32 threadIdx.x { block "load" … }
 *       loop.barrier
 *       loop.for %t = 0 to 1 threadIdx.x { block "first" … }
 *       loop.for %i = 0 to 32 threadIdx.x { block "use" … } }
 *
 * In a schedule, loops bound to threads run one after another, like other loops. On threads each
 * one goes through all of the kernel: what no loop of an axis is around is for the first thread of
 * that axis alone (unless it fills memory of the thread's own; local memory
 * that different loops use is made shared), and where one piece of code touches
 * memory that another one has touched, a barrier comes in between. Nothing orders blocks of
 * threads: what would have to wait for all of them is refused. */
#include "lower/flat.h"

#include "base/arena.h"
#include "base/vec.h"
#include "dialect/loop/loop.h"

#include <string.h>

enum { AXES = 3 };

typedef TW_VEC(const tw_value *) buffer_set;

typedef struct mapping {
    tw_context *ctx;
    int64_t threads[AXES], grid[AXES]; /* extents; 0: no loop is bound to it */
    bool good;
    uint64_t changes;
} mapping;

/* What the loops around a piece of code are bound to: a bit an axis. */
typedef struct around {
    unsigned threads, grid;
    const tw_op *narrow; /* a loop that fewer threads run than there are; or NULL */
} around;

static int axis_of(const tw_op *op, bool *grid)
{
    const char *kind = tw_is_loop(op, TW_LOOP_FOR) ? tw_loop_for_kind(op) : "";
    *grid = kind[0] == 'b';
    return tw_loop_kind_is_bound(kind) && kind[0] != 'v' ? kind[strlen(kind) - 1] - 'x' : -1;
}

static int64_t upper_of(const tw_op *loop)
{
    int64_t hi;
    return tw_expr_as_const(tw_op_attr(loop, "bounds")->u.map.exprs[1], &hi) ? hi : INT64_MAX;
}

static bool note_axis(tw_op *op, void *data)
{
    mapping *m = data;
    bool grid;
    int axis = axis_of(op, &grid);
    if (axis >= 0) {
        int64_t *extent = grid ? &m->grid[axis] : &m->threads[axis], hi = upper_of(op);
        *extent = hi > *extent ? hi : *extent;
    }
    return true;
}

static unsigned axes_of(const int64_t *extents)
{
    unsigned bits = 0;
    for (int i = 0; i < AXES; i++)
        bits |= (unsigned)(extents[i] > 1) << i;
    return bits;
}

static around inside(const mapping *m, around a, const tw_op *op)
{
    bool grid;
    int axis = axis_of(op, &grid);
    if (axis >= 0) {
        *(grid ? &a.grid : &a.threads) |= 1u << axis;
        if (!grid && upper_of(op) < m->threads[axis])
            a.narrow = op;
    }
    return a;
}

/* ---- Memory -------------------------------------------------------------------------- */

static const tw_value *root_of(const tw_value *buffer)
{
    while (buffer->op && tw_is_loop(buffer->op, TW_LOOP_VIEW))
        buffer = tw_operand(buffer->op, 0);
    return buffer;
}

static bool is_own(const tw_value *buffer)
{
    return !strcmp(buffer->type->scope, "local");
}

static bool has(const buffer_set *set, const tw_value *buffer)
{
    for (size_t i = 0; i < set->len; i++)
        if (set->data[i] == buffer)
            return true;
    return false;
}

/* Buffers that threads share, read and written by a piece of code. */
typedef struct traffic {
    tw_arena *arena;
    buffer_set reads, writes;
} traffic;

static bool note_access(tw_op *op, void *data)
{
    traffic *t = data;
    tw_loop_access a;
    if (!tw_loop_get_access(op, &a) || is_own(root_of(a.buffer)))
        return true;
    buffer_set *set = a.value ? &t->writes : &t->reads;
    if (!has(set, root_of(a.buffer)))
        tw_vec_push(t->arena, set, root_of(a.buffer));
    return true;
}

static traffic traffic_of(const mapping *m, tw_op *op)
{
    traffic t = {.arena = tw_context_arena(m->ctx)};
    tw_walk(op, note_access, &t);
    return t;
}

static bool is_global(const tw_value *buffer)
{
    return !buffer->type->scope[0];
}

static const tw_value *common(const buffer_set *a, const buffer_set *b, bool global)
{
    for (size_t i = 0; i < a->len; i++)
        if (has(b, a->data[i]) && (!global || is_global(a->data[i])))
            return a->data[i];
    return NULL;
}

/* A buffer (`global`: of those that all blocks share) that one of the two writes and the other
 * touches; or NULL. */
static const tw_value *conflict(const traffic *a, const traffic *b, bool global)
{
    const tw_value *found = common(&a->writes, &b->writes, global);
    found = found ? found : common(&a->writes, &b->reads, global);
    return found ? found : common(&a->reads, &b->writes, global);
}

static void add(traffic *to, const traffic *from)
{
    for (size_t i = 0; i < from->reads.len; i++)
        if (!has(&to->reads, from->reads.data[i]))
            tw_vec_push(to->arena, &to->reads, from->reads.data[i]);
    for (size_t i = 0; i < from->writes.len; i++)
        if (!has(&to->writes, from->writes.data[i]))
            tw_vec_push(to->arena, &to->writes, from->writes.data[i]);
}

/* ---- Barriers ------------------------------------------------------------------------ */

static const char *name_of(const tw_value *buffer)
{
    return buffer->name ? buffer->name : "buffer";
}

static bool passes_between(mapping *m, tw_loc loc, const tw_value *buffer)
{
    m->good = tw_error(m->ctx, loc,
                       "map-threads: %%%s passes between blocks of threads, for which no barrier "
                       "can wait: this takes two kernels",
                       name_of(buffer));
    return false;
}

/* A barrier in front of `before` (NULL: at the end of the region). */
static void place_barrier(mapping *m, tw_region *region, tw_op *before, around a,
                          const tw_value *buffer)
{
    tw_loc loc = before ? before->loc : region->parent->loc;
    if (a.narrow) {
        m->good = tw_error(m->ctx, loc,
                           "map-threads: %%%s needs a barrier in loop %%%s, which not all threads "
                           "run: give it the extent of the others",
                           name_of(buffer), a.narrow->regions[0].args[0]->name);
        return;
    }
    tw_builder b = {m->ctx, region, before, loc};
    tw_build(&b, &tw_loop_ops[TW_LOOP_BARRIER], NULL, 0, NULL, 0, NULL);
    m->changes++;
}

static void place_barriers(mapping *m, tw_region *region, around a)
{
    if (!(axes_of(m->threads) & ~a.threads) && !(axes_of(m->grid) & ~a.grid))
        return; /* code of one thread */
    traffic pending = {.arena = tw_context_arena(m->ctx)}, all = pending;
    bool grid_wide = axes_of(m->grid) & ~a.grid;
    for (tw_op *op = region->first; op; op = op->next) {
        traffic t = traffic_of(m, op);
        const tw_value *buffer = grid_wide ? conflict(&all, &t, true) : NULL;
        if (buffer) {
            passes_between(m, op->loc, buffer);
            return;
        }
        buffer = conflict(&pending, &t, false);
        if (buffer) {
            place_barrier(m, region, op, a, buffer);
            pending = (traffic){.arena = pending.arena};
        }
        add(&pending, &t);
        add(&all, &t);
        for (unsigned r = 0; r < op->n_regions && !tw_is_loop(op, TW_LOOP_BLOCK); r++)
            place_barriers(m, &op->regions[r], inside(m, a, op));
    }
    /* The next iteration comes behind this one. */
    bool grid,
        repeats = tw_is_loop(region->parent, TW_LOOP_FOR) && axis_of(region->parent, &grid) < 0;
    const tw_value *buffer = repeats && grid_wide ? conflict(&all, &all, true) : NULL;
    if (buffer)
        passes_between(m, region->parent->loc, buffer);
    else if (repeats && (buffer = conflict(&pending, &all, false)))
        place_barrier(m, region, NULL, a, buffer);
}

/* ---- Memory of a thread's own -------------------------------------------------------- */

static around around_op(const mapping *m, const tw_op *op)
{
    around a = {0};
    for (const tw_op *up = op->region->parent; up->region; up = up->region->parent)
        a = inside(m, a, up);
    return a;
}

static bool is_alloc(const tw_op *op)
{
    return tw_is_loop(op, TW_LOOP_ALLOC);
}

static bool has_views(const tw_value *buffer)
{
    for (const tw_use *use = buffer->uses; use; use = use->next)
        if (tw_is_loop(use->user, TW_LOOP_VIEW))
            return true;
    return false;
}

/* The scope that a buffer has to have: what a loop bound to threads allocates is its thread's own;
 * what a loop over blocks allocates is the block's; and a "local" buffer made outside of loops
 * bound to threads in which it is used may pass from one thread to another. NULL: it cannot be had.
 */
static const char *scope_for(const mapping *m, const tw_op *alloc)
{
    const tw_value *buffer = &alloc->results[0];
    around a = around_op(m, alloc);
    unsigned need = axes_of(m->threads), used = 0;
    for (const tw_use *use = buffer->uses; use; use = use->next)
        used |= around_op(m, use->user).threads & need & ~a.threads;
    if (a.threads & need)
        return used ? NULL : "local";
    if (is_own(buffer))
        return used ? "shared" : "local";
    return a.grid & axes_of(m->grid) && is_global(buffer) ? "shared" : buffer->type->scope;
}

static bool set_scope(mapping *m, tw_op *alloc, const char *scope)
{
    tw_value *buffer = tw_result(alloc, 0);
    if (scope && !strcmp(scope, buffer->type->scope))
        return true;
    if (!scope || has_views(buffer))
        return m->good =
                   tw_error(m->ctx, alloc->loc,
                            "map-threads: %%%s is allocated by one thread and used by others, "
                            "or has views",
                            name_of(buffer));
    buffer->type =
        tw_type_buffer(m->ctx, buffer->type->elem, buffer->type->rank, buffer->type->dims, scope);
    m->changes++;
    return true;
}

typedef struct stores {
    tw_arena *arena;
    TW_VEC(tw_op *) own; /* allocations */
    bool others;
} stores;

static bool note_store(tw_op *op, void *data)
{
    stores *s = data;
    tw_loop_access a;
    if (!tw_loop_get_access(op, &a) || !a.value)
        return true;
    const tw_value *root = root_of(a.buffer);
    if (is_own(root) && root->op)
        tw_vec_push(s->arena, &s->own, root->op);
    else
        s->others = true;
    return true;
}

/* What a block for the first thread alone writes, others may read: no memory of its own. */
static bool share_mixed(mapping *m, tw_op *block)
{
    stores s = {.arena = tw_context_arena(m->ctx)};
    tw_walk(block, note_store, &s);
    if (!s.others || !(axes_of(m->threads) & ~around_op(m, block).threads))
        return true;
    for (size_t i = 0; i < s.own.len; i++)
        if (!set_scope(m, s.own.data[i], "shared"))
            return false;
    return true;
}

/* ---- Memory of one block ------------------------------------------------------------- */

/* The outermost loop over blocks around op, inside of the region; or NULL. */
static const tw_op *grid_loop_in(const tw_region *region, const tw_op *op)
{
    const tw_op *found = NULL;
    bool grid;
    for (const tw_op *up = op; up && up->region != region; up = up->region->parent)
        if (axis_of(up->region->parent, &grid) >= 0 && grid)
            found = up->region->parent;
    return found;
}

/* Memory of one block that a loop over blocks fills must not be used outside of it. */
static bool check_block_memory(mapping *m, const tw_op *alloc)
{
    const tw_value *buffer = &alloc->results[0];
    const tw_op *filler = NULL;
    if (!buffer->type->scope[0])
        return true;
    for (const tw_use *use = buffer->uses; use && !filler; use = use->next)
        if (tw_is_loop(use->user, TW_LOOP_STORE))
            filler = grid_loop_in(alloc->region, use->user);
    for (const tw_use *use = buffer->uses; use && filler; use = use->next)
        if (!tw_op_is_ancestor(filler, use->user))
            return passes_between(m, use->user->loc, buffer);
    return true;
}

/* ---- Blocks for one thread ----------------------------------------------------------- */

static bool is_block(const tw_op *op)
{
    return tw_is_loop(op, TW_LOOP_BLOCK);
}

static void guard(mapping *m, tw_op *block, const char *kind)
{
    tw_builder b = tw_builder_before(m->ctx, block);
    tw_op *loop = tw_loop_for(&b, tw_expr_const(m->ctx, 0), tw_expr_const(m->ctx, 1), NULL, 0, kind,
                              kind[0] == 'b' ? "b" : "t");
    tw_op_insert(block, &loop->regions[0], NULL);
    m->changes++;
}

/* Leaves the block to the first thread of each axis that no loop around is bound to, and what
 * writes memory that all blocks of threads share to the first of them. */
static void guard_block(mapping *m, tw_op *block)
{
    static const char *const threads[AXES] = {"threadIdx.x", "threadIdx.y", "threadIdx.z"};
    static const char *const grid[AXES] = {"blockIdx.x", "blockIdx.y", "blockIdx.z"};
    around a = around_op(m, block);
    traffic t = traffic_of(m, block);
    bool global = false;
    for (size_t i = 0; i < t.writes.len; i++)
        global |= is_global(t.writes.data[i]);
    for (int axis = 0; axis < AXES; axis++) {
        if (global && (axes_of(m->grid) & ~a.grid) >> axis & 1)
            guard(m, block, grid[axis]);
        if (t.writes.len && (axes_of(m->threads) & ~a.threads) >> axis & 1)
            guard(m, block, threads[axis]);
    }
}

/* Gives all allocations the scopes that they need. */
static bool place_memory(mapping *m, const tw_loop_list *allocs, const tw_loop_list *blocks)
{
    for (size_t i = 0; i < allocs->n; i++)
        if (!set_scope(m, allocs->ops[i], scope_for(m, allocs->ops[i])))
            return false;
    for (uint64_t before = UINT64_MAX; before != m->changes;) {
        before = m->changes;
        for (size_t i = 0; i < blocks->n; i++)
            if (!share_mixed(m, blocks->ops[i]))
                return false;
    }
    for (size_t i = 0; i < allocs->n; i++)
        if (!check_block_memory(m, allocs->ops[i]))
            return false;
    return true;
}

static bool run(tw_pass_run *pass)
{
    mapping m = {.ctx = pass->ctx, .good = true};
    tw_walk(pass->root, note_axis, &m);
    if (!axes_of(m.threads) && !axes_of(m.grid))
        return true;
    tw_loop_list allocs = tw_loop_collect(pass->ctx, pass->root, is_alloc),
                 blocks = tw_loop_collect(pass->ctx, pass->root, is_block);
    if (!place_memory(&m, &allocs, &blocks))
        return false;
    for (size_t i = 0; i < blocks.n; i++)
        guard_block(&m, blocks.ops[i]);
    place_barriers(&m, &pass->root->regions[0], (around){0});
    pass->changes += m.changes;
    return m.good;
}

const tw_pass tw_pass_map_threads = {
    .name = "map-threads",
    .summary = "put barriers between loops bound to threads, and leave other blocks to one thread",
    .anchor = "loop.kernel",
    .run = run,
};
