/* order_calls.c: order-calls: a function's calls in an order that needs less memory.
 *
 *     call @big(%x, %a)     // a: 4 MB          call @big(%x, %a)
 *     call @big(%x, %b)     // b: 4 MB    ->    call @sum(%a, %s)
 *     call @sum(%a, %s)     // s: 4 B           call @big(%x, %b)
 *     call @sum(%b, %t)                         call @sum(%b, %t)
 *
 * List scheduling: of the calls whose operands are there, the next is the one after which the least
 * lives (or, in another attempt, during which the least does), the earliest of equal ones. Whatever
 * comes of it is kept only when the largest set that lives at once is smaller than it was; ties
 * keep the order of the model. Only for straight functions of known sizes. */
#include "lower/lower_passes.h"

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "dialect/core/core.h"
#include "dialect/loop/loop.h"
#include "lower/plan_memory.h"

/* Of the calls that could come next so many are looked at. */
enum { MOST_CANDIDATES = 64 };

/* Memory that calls read and write. */
typedef struct memory {
    double size;                   /* bytes of the arena; 0: an argument or constant */
    unsigned uses, left;           /* calls that touch it: all, those to come */
    struct call *writer;           /* the last one, while dependencies are found */
    TW_VEC(struct call *) readers; /* since then */
} memory;

typedef struct call {
    tw_op *op, *next; /* in the model's order */
    unsigned number;
    memory **touched; /* each once */
    unsigned n_touched;
    TW_VEC(struct call *) users; /* that come behind it */
    unsigned needs, waits;       /* calls it comes behind: all, those to come */
} call;

typedef enum aim { LEAST_AFTER, LEAST_DURING, N_AIMS } aim;

typedef struct ordering {
    tw_arena *arena;
    tw_op *func;
    tw_map memories; /* value -> memory */
    tw_map kernels;  /* name -> kernel */
    TW_VEC(memory *) all;
    TW_VEC(call *) calls;
} ordering;

/* ---- Reading ---- */

static tw_value *memory_of(tw_value *v)
{
    while (v->op && tw_is_loop(v->op, TW_LOOP_VIEW))
        v = tw_operand(v->op, 0);
    return v;
}

static memory *find_memory(ordering *o, tw_value *value)
{
    tw_value *v = memory_of(value);
    memory *m = tw_map_get_ptr(&o->memories, v);
    if (m)
        return m;
    m = TW_NEW(o->arena, memory);
    *m = (memory){0};
    int64_t count;
    if (v->op && tw_is_loop(v->op, TW_LOOP_ALLOC) && tw_type_static_count(v->type, &count))
        m->size = (double)count * tw_elem_bits(v->type->elem) / 8;
    tw_map_put_ptr(&o->memories, v, m);
    tw_vec_push(o->arena, &o->all, m);
    return m;
}

static void come_behind(ordering *o, call *later, call *earlier)
{
    if (!earlier || earlier == later)
        return;
    tw_vec_push(o->arena, &earlier->users, later);
    later->needs++;
}

/* What is read comes behind what was written, and what is written behind all before. */
static void touch(ordering *o, call *c, memory *m, bool writes)
{
    come_behind(o, c, m->writer);
    for (size_t i = 0; writes && i < m->readers.len; i++)
        come_behind(o, c, m->readers.data[i]);
    if (writes) {
        m->readers.len = 0;
        m->writer = c;
    } else {
        tw_vec_push(o->arena, &m->readers, c);
    }
    for (unsigned i = 0; i < c->n_touched; i++)
        if (c->touched[i] == m)
            return;
    c->touched[c->n_touched++] = m;
    m->uses++;
}

static bool add_call(ordering *o, tw_op *op)
{
    const tw_op *kernel = tw_map_get_str(&o->kernels, tw_op_string(op, "callee", ""));
    if (!kernel)
        return false;
    int64_t outputs = tw_op_int(kernel, "outputs", 0);
    call *c = TW_NEW(o->arena, call);
    *c = (call){.op = op,
                .next = op->next,
                .number = (unsigned)o->calls.len,
                .touched = TW_NEW_ARRAY(o->arena, memory *, op->n_operands + 1)};
    for (unsigned i = 0; i < op->n_operands; i++)
        touch(o, c, find_memory(o, tw_operand(op, i)), i + outputs >= op->n_operands);
    tw_vec_push(o->arena, &o->calls, c);
    return true;
}

/* False for functions that do more than call kernels on memory of known sizes. */
static bool read_function(ordering *o)
{
    const tw_op *module = tw_op_enclosing(o->func, &tw_core_ops[TW_CORE_MODULE]);
    for (tw_op *op = module ? tw_core_body((tw_op *)module)->first : NULL; op; op = op->next)
        if (tw_is_loop(op, TW_LOOP_KERNEL))
            tw_map_put_str(&o->kernels, tw_op_string(op, "sym_name", ""), op);
    for (tw_op *op = tw_core_body(o->func)->first; op; op = op->next) {
        bool place = tw_is_loop(op, TW_LOOP_ALLOC) || tw_is_loop(op, TW_LOOP_VIEW) ||
                     tw_is_loop(op, TW_LOOP_CONSTANT_BUFFER);
        if (tw_is_core(op, TW_CORE_CALL) ? !add_call(o, op)
            : place ? !tw_type_is_static(op->results[0].type) || tw_op_attr(op, "later")
                    : op->next != NULL)
            return false;
    }
    return true;
}

/* ---- Choosing ---- */

/* What a call takes before it runs and gives back behind it. */
static void effect_of(const call *c, double *takes, double *gives)
{
    *takes = *gives = 0;
    for (unsigned i = 0; i < c->n_touched; i++) {
        const memory *m = c->touched[i];
        *takes += m->left == m->uses ? m->size : 0;
        *gives += m->left == 1 ? m->size : 0;
    }
}

static bool is_better(const call *a, const call *b, aim what)
{
    double take_a, give_a, take_b, give_b;
    effect_of(a, &take_a, &give_a);
    effect_of(b, &take_b, &give_b);
    double after = (take_a - give_a) - (take_b - give_b), during = take_a - take_b;
    double first = what == LEAST_AFTER ? after : during;
    double second = what == LEAST_AFTER ? during : after;
    return first != 0 ? first < 0 : second != 0 ? second < 0 : a->number < b->number;
}

static void list_schedule(ordering *o, aim what, call **out)
{
    TW_VEC(call *) ready = {0};
    for (size_t i = 0; i < o->all.len; i++)
        o->all.data[i]->left = o->all.data[i]->uses;
    for (size_t i = 0; i < o->calls.len; i++) {
        call *c = o->calls.data[i];
        c->waits = c->needs;
        if (!c->waits)
            tw_vec_push(o->arena, &ready, c);
    }
    for (size_t n = 0; ready.len; n++) {
        size_t best = 0;
        for (size_t i = 1; i < ready.len && i < MOST_CANDIDATES; i++)
            if (is_better(ready.data[i], ready.data[best], what))
                best = i;
        call *c = out[n] = ready.data[best];
        ready.data[best] = ready.data[--ready.len];
        for (unsigned i = 0; i < c->n_touched; i++)
            c->touched[i]->left--;
        for (size_t i = 0; i < c->users.len; i++)
            if (!--c->users.data[i]->waits)
                tw_vec_push(o->arena, &ready, c->users.data[i]);
    }
}

/* ---- Rewriting ---- */

/* All that is no call comes first, which is where it may be: it depends on no call. */
static void apply(const ordering *o, call *const *order)
{
    tw_region *body = tw_core_body(o->func);
    for (size_t i = 0; i < o->calls.len; i++)
        tw_op_insert(order[i]->op, body, body->last);
}

static void restore(const ordering *o)
{
    for (size_t i = o->calls.len; i-- > 0;) {
        const call *c = o->calls.data[i];
        tw_op_insert(c->op, tw_core_body(o->func), c->next);
    }
}

static bool run(tw_pass_run *pass)
{
    tw_arena *arena = tw_context_arena(pass->ctx);
    ordering o = {.arena = arena,
                  .func = pass->root,
                  .memories = tw_map_make(arena),
                  .kernels = tw_map_make(arena)};
    if (!pass->max_changes || !tw_core_body(pass->root)->last || !read_function(&o))
        return true;
    call **best = NULL, **order = TW_NEW_ARRAY(arena, call *, o.calls.len + 1);
    int64_t least = tw_plan_bound(pass->root), now = least;
    for (aim what = LEAST_AFTER; what < N_AIMS; what++) {
        list_schedule(&o, what, order);
        apply(&o, order);
        now = tw_plan_bound(pass->root);
        if (now >= least)
            continue;
        least = now;
        best = order;
        order = TW_NEW_ARRAY(arena, call *, o.calls.len + 1);
        pass->changes++;
    }
    if (best)
        apply(&o, best);
    else
        restore(&o);
    return true;
}

const tw_pass tw_pass_order_calls = {
    .name = "order-calls",
    .summary = "call kernels in an order that needs less memory",
    .anchor = "core.func",
    .optional = true,
    .run = run,
};
