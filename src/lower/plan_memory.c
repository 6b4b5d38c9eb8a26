/* plan_memory.c: plan-memory: intermediate buffers get places in one arena.
 *
 *     %t = loop.alloc : buffer<16xf32>          %t = loop.alloc {offset = 0} : buffer<16xf32>
 *     call @k(%x, %t)                           call @k(%x, %t)
 *     %u = loop.alloc : buffer<16xf32>   ->     %u = loop.alloc {offset = 64} : buffer<16xf32>
 *     call @k(%t, %u)                           call @k(%t, %u)
 *
 * A buffer lives from the first to the last call that touches it or a view of it, operations of
 * regions being numbered in the order of the text: what is needed in one branch of an if may lie
 * where the other branch has something else. One from outside a loop lives for all of the loop.
 * Results of element-wise kernels lie where an operand was that dies (share_in_place.c). Buffers
 * are placed from the largest to the smallest, each into the smallest gap that holds it between the
 * placed buffers that live at the same time, else behind them (greedy by size: Pisarchyk and Lee,
 * "Efficient Memory Management for Deep Neural Net Inference", 2020); while that is above the
 * bound, other orders are tried. Buffers whose sizes binds define while the model runs get no
 * place: the host is asked for each. The function gets `arena_size`, and `arena_bound`: the largest
 * sum of sizes that live at once, below which no plan can be. Buffers of symbolic sizes are planned
 * by plan_slots.c. */
#include "lower/plan_memory.h"

#include "lower/lower_passes.h"

#include "base/arena.h"
#include "base/checked.h"
#include "base/map.h"
#include "base/vec.h"
#include "dialect/core/core.h"
#include "dialect/loop/loop.h"
#include "ir/traverse.h"
#include "lower/lifetimes.h"

#include <stdlib.h>
#include <string.h>

/* Where more placed buffers live at the same time, looking for a gap takes too long: the buffer,
 * which is one of the smaller ones then, goes behind all others. */
enum { ALIGNMENT = TW_PLAN_ALIGNMENT, MAX_NEIGHBOURS = TW_PLAN_MAX_NEIGHBOURS };

typedef tw_plan_buffer buffer;

/* The first and last step of a loop. */
typedef struct loop_span {
    size_t first, last;
} loop_span;

typedef struct planner {
    tw_context *ctx;
    tw_arena *arena;
    const tw_op *module; /* or NULL */
    tw_plan_lives lives;
    tw_map loops;     /* core.loop -> loop_span */
    buffer **planned; /* those that lie in no other one */
    size_t n;
    int64_t peak;
    bool symbolic; /* whether some buffer's size is */
} planner;

static bool buffer_size(tw_context *ctx, tw_op *alloc, int64_t *out)
{
    int64_t count;
    tw_type type = alloc->results[0].type;
    if (!tw_type_static_count(type, &count) ||
        !tw_mul_i64(count, tw_elem_bits(type->elem), &count) ||
        !tw_add_i64(count, 8 * ALIGNMENT - 1, &count))
        return tw_error(ctx, alloc->loc, "buffer of type %s is too large",
                        tw_print_type(ctx, type));
    *out = count / (8 * ALIGNMENT) * ALIGNMENT;
    return true;
}

/* The buffer is needed at `step`, by an operation in the region. */
static void use(planner *p, buffer *b, const tw_region *region, size_t step)
{
    loop_span span = {step, step};
    for (; region != b->alloc->region; region = region->parent->region) {
        const loop_span *loop = tw_map_get_ptr(&p->loops, region->parent);
        if (loop)
            span = *loop;
    }
    b->first = span.first < b->first ? span.first : b->first;
    b->last = span.last > b->last ? span.last : b->last;
}

/* Numbers operations and finds where loops begin and end. */
static void number_steps(planner *p, tw_op *func)
{
    tw_traversal t = {.root = func};
    for (tw_step step; (step = tw_traverse(&t)) != TW_STEP_DONE;) {
        loop_span *loop;
        if (step == TW_STEP_OP && tw_is_core(t.op, TW_CORE_LOOP)) {
            loop = TW_NEW(p->arena, loop_span);
            loop->first = p->lives.steps;
            tw_map_put_ptr(&p->loops, t.op, loop);
        }
        if (step == TW_STEP_OP)
            p->lives.steps++;
        if (step == TW_STEP_OP_END && (loop = tw_map_get_ptr(&p->loops, t.op)))
            loop->last = p->lives.steps - 1;
    }
}

static bool add_buffer(planner *p, tw_op *alloc)
{
    if (tw_op_attr(alloc, "later") ||
        (p->module && tw_core_is_bound_type(p->module, alloc->results[0].type)))
        return true;
    buffer *b = TW_NEW(p->arena, buffer);
    *b = (buffer){.alloc = alloc, .number = p->lives.buffers.len, .first = SIZE_MAX};
    tw_map_put_ptr(&p->lives.by_value, tw_result(alloc, 0), b);
    tw_vec_push(p->arena, &p->lives.buffers, b);
    bool symbolic = !tw_type_is_static(alloc->results[0].type);
    p->symbolic = p->symbolic || symbolic;
    return symbolic || buffer_size(p->ctx, alloc, &b->size);
}

/* An operation at step p->lives.steps: the buffers that it touches live then. */
static bool visit(tw_op *op, void *data)
{
    planner *p = data;
    size_t step = p->lives.steps++;
    if (tw_is_loop(op, TW_LOOP_ALLOC))
        return add_buffer(p, op);
    for (unsigned i = 0; i < op->n_operands; i++) {
        buffer *b = tw_map_get_ptr(&p->lives.by_value, tw_operand(op, i));
        if (b && tw_is_loop(op, TW_LOOP_VIEW))
            tw_map_put_ptr(&p->lives.by_value, tw_result(op, 0), b);
        else if (b && tw_is_core(op, TW_CORE_LOOP))
            use(p, b, &op->regions[0], step);
        else if (b)
            use(p, b, op->region, step);
    }
    return true;
}

/* Lists the buffers with their lives. */
static bool collect(planner *p, tw_op *func)
{
    p->module = tw_op_enclosing(func, &tw_core_ops[TW_CORE_MODULE]);
    number_steps(p, func);
    p->lives.steps = 0;
    if (!tw_walk(func, visit, p))
        return false;
    for (size_t i = 0; i < p->lives.buffers.len; i++)
        if (p->lives.buffers.data[i]->first == SIZE_MAX) /* nobody's */
            p->lives.buffers.data[i]->first = 0;
    return true;
}

static int lower_first(const void *x, const void *y)
{
    const buffer *a = *(buffer *const *)x, *b = *(buffer *const *)y;
    return a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* The offset of the smallest gap of at least `size` bytes between buffers sorted by offset, or
 * their end. */
static int64_t best_gap(void *const *around, size_t n, int64_t size)
{
    int64_t end = 0, best = -1, least = INT64_MAX;
    for (size_t i = 0; i < n; i++) {
        const buffer *b = around[i];
        int64_t gap = b->offset - end, next = b->offset + b->size;
        if (gap >= size && gap < least) {
            best = end;
            least = gap;
        }
        end = next > end ? next : end;
    }
    return best >= 0 ? best : end;
}

/* Places the buffers in that order; stops when the peak comes to `limit`. */
static int64_t place_all(const planner *p, buffer **order, int64_t limit)
{
    tw_lifetimes *placed = tw_lifetimes_create(p->arena, p->lives.steps);
    void *around[MAX_NEIGHBOURS];
    int64_t peak = 0;
    for (size_t i = 0; i < p->n && peak < limit; i++) {
        buffer *b = order[i];
        size_t n;
        if (tw_lifetimes_find(placed, b->first, b->last, MAX_NEIGHBOURS, around, &n)) {
            qsort(around, n, sizeof *around, lower_first);
            b->offset = best_gap(around, n, b->size);
        } else {
            b->offset = peak;
        }
        tw_lifetimes_add(placed, b->first, b->last, b);
        if (b->offset + b->size > peak)
            peak = b->offset + b->size;
    }
    return peak;
}

/* The largest sum of sizes that live at one step. */
static int64_t lower_bound(const planner *p)
{
    int64_t *change = TW_NEW_ARRAY(p->arena, int64_t, p->lives.steps + 1), sum = 0, bound = 0;
    for (size_t i = 0; i < p->n; i++) {
        change[p->planned[i]->first] += p->planned[i]->size;
        change[p->planned[i]->last + 1] -= p->planned[i]->size;
    }
    for (size_t step = 0; step < p->lives.steps; step++) {
        sum += change[step];
        bound = sum > bound ? sum : bound;
    }
    return bound;
}

static bool total_fits(const planner *p)
{
    int64_t total = 0;
    for (size_t i = 0; i < p->lives.buffers.len; i++)
        if (!tw_add_i64(total, p->lives.buffers.data[i]->size, &total) || total > INT64_MAX / 4)
            return tw_error(p->ctx, p->lives.buffers.data[i]->alloc->loc,
                            "the intermediate values need more memory than can be addressed");
    return true;
}

/* ---- Orders ---- */

static int heavier_first(const void *x, const void *y)
{
    const buffer *a = *(buffer *const *)x, *b = *(buffer *const *)y;
    if (a->weight != b->weight)
        return a->weight < b->weight ? 1 : -1;
    if (a->size != b->size)
        return a->size < b->size ? 1 : -1;
    return a->number < b->number ? -1 : 1; /* for the same plan each time */
}

/* From 1 to below 2. */
static double chance(size_t number, unsigned order)
{
    uint64_t h = (number + 1) * 0x9e3779b97f4a7c15u ^ order * 0xd1b54a32d192ed03u;
    h = (h ^ (h >> 31)) * 0xbf58476d1ce4e5b9u;
    return 1 + (double)(h >> 11) / (double)(1ull << 53);
}

void tw_plan_sort(buffer **buffers, size_t n, unsigned order)
{
    for (size_t i = 0; i < n; i++) {
        buffer *b = buffers[i];
        b->weight = order == 2 ? -(double)b->first : (double)b->size;
        if (order == 1)
            b->weight *= (double)(b->last - b->first + 1);
        else if (order > 2)
            b->weight *= chance(b->number, order);
    }
    if (n)
        qsort(buffers, n, sizeof(buffer *), heavier_first);
}

/* Keeps the offsets of the best plan so far. */
typedef struct search {
    planner *p;
    int64_t bound;
    int64_t *best; /* offsets by number */
} search;

static bool is_good(const search *s)
{
    return s->p->peak <= s->bound;
}

/* Tries an order; true when it is the best so far. */
static bool try_order(search *s, buffer **order)
{
    int64_t peak = place_all(s->p, order, s->p->peak);
    if (peak >= s->p->peak)
        return false;
    s->p->peak = peak;
    for (size_t i = 0; i < s->p->n; i++)
        s->best[order[i]->number] = order[i]->offset;
    return true;
}

/* The first one that reaches above what would be best comes to the front, as long as that helps
 * every now and then: what is hard to place is placed early. */
static void mend(search *s, buffer **order)
{
    enum { PATIENCE = 48, MOST_WORK = 1 << 18 };
    size_t tries = s->p->n ? MOST_WORK / s->p->n : 0;
    for (int left = PATIENCE; left && tries && !is_good(s); left--, tries--) {
        int64_t limit = s->p->peak;
        size_t i = 0;
        place_all(s->p, order, INT64_MAX);
        while (i < s->p->n && order[i]->offset + order[i]->size < limit)
            i++;
        if (i == s->p->n || !i)
            return;
        buffer *hard = order[i];
        memmove(order + 1, order, i * sizeof(buffer *));
        order[0] = hard;
        if (try_order(s, order))
            left = PATIENCE;
    }
}

/* Several orders, until one comes to the bound. */
static void find_plan(planner *p, int64_t bound)
{
    search s = {.p = p, .bound = bound};
    if (!p->n)
        return;
    p->peak = INT64_MAX;
    s.best = TW_NEW_ARRAY(p->arena, int64_t, p->lives.buffers.len);
    for (unsigned k = 0; k < TW_PLAN_ORDERS && !is_good(&s); k++) {
        tw_plan_sort(p->planned, p->n, k);
        try_order(&s, p->planned);
    }
    for (unsigned k = 0; k < TW_PLAN_ORDERS && !is_good(&s); k++) {
        tw_plan_sort(p->planned, p->n, k);
        mend(&s, p->planned);
    }
    for (size_t i = 0; i < p->n; i++)
        p->planned[i]->offset = s.best[p->planned[i]->number];
}

static void list_planned(planner *p)
{
    p->planned = TW_NEW_ARRAY(p->arena, buffer *, p->lives.buffers.len + 1);
    for (size_t i = 0; i < p->lives.buffers.len; i++)
        if (!p->lives.buffers.data[i]->in)
            p->planned[p->n++] = p->lives.buffers.data[i];
}

/* What lies in another buffer is where that one is. */
static void copy_offsets(const planner *p)
{
    for (size_t i = 0; i < p->lives.buffers.len; i++) {
        const buffer *b = p->lives.buffers.data[i], *in = b;
        while (in->in)
            in = in->in;
        if (in != b)
            tw_op_set_attr(b->alloc, "offset", tw_op_attr(in->alloc, "offset"));
    }
}

/* Finds the buffers that are to be planned; false with a diagnostic. */
static bool prepare(planner *p, tw_op *func)
{
    *p = (planner){.ctx = tw_op_context(func), .arena = tw_context_arena(tw_op_context(func))};
    p->lives = (tw_plan_lives){.arena = p->arena, .by_value = tw_map_make(p->arena)};
    p->loops = tw_map_make(p->arena);
    if (!collect(p, func) || !total_fits(p))
        return false;
    tw_plan_share_in_place(&p->lives, func);
    list_planned(p);
    return true;
}

int64_t tw_plan_bound(tw_op *func)
{
    planner p;
    return prepare(&p, func) && !p.symbolic ? lower_bound(&p) : -1;
}

static bool run(tw_pass_run *pass)
{
    planner p;
    if (!prepare(&p, pass->root))
        return false;
    pass->changes += p.lives.buffers.len;
    if (p.symbolic) {
        bool fine = tw_plan_slots(pass->root, p.planned, p.n, p.lives.steps);
        copy_offsets(&p);
        return fine;
    }
    int64_t bound = lower_bound(&p);
    find_plan(&p, bound);
    for (size_t i = 0; i < p.n; i++)
        tw_op_set_attr(p.planned[i]->alloc, "offset", tw_attr_int(p.ctx, p.planned[i]->offset));
    copy_offsets(&p);
    tw_op_set_attr(pass->root, "arena_size", tw_attr_int(p.ctx, p.peak));
    tw_op_set_attr(pass->root, "arena_bound", tw_attr_int(p.ctx, bound));
    return true;
}

const tw_pass tw_pass_plan_memory = {
    .name = "plan-memory",
    .summary = "give intermediate buffers places in one arena",
    .anchor = "core.func",
    .run = run,
};
