/* exec_threads.c: running all threads of a block in step; see threads.h. */
#include "interp/threads.h"

#include <string.h>

/* ---- Axes ---------------------------------------------------------------------------- */

/* The axis that a kind of loop is bound to: 0 to 2, x to z; -1 for none. `grid`: of blocks. */
static int axis_of(const char *kind, bool *grid)
{
    *grid = !strncmp(kind, "blockIdx.", 9);
    bool thread = !strncmp(kind, "threadIdx.", 10);
    return *grid || thread ? kind[strlen(kind) - 1] - 'x' : -1;
}

static bool note_axis(tw_op *op, void *data)
{
    struct tw_threads *t = data;
    bool grid;
    int axis = tw_is_loop(op, TW_LOOP_FOR) ? axis_of(tw_loop_for_kind(op), &grid) : -1;
    if (axis < 0)
        return true;
    int64_t hi, *extent = grid ? &t->grid[axis] : &t->block[axis];
    if (!tw_expr_as_const(tw_op_attr(op, "bounds")->u.map.exprs[1], &hi))
        hi = 0;
    *extent = hi > *extent ? hi : *extent;
    t->n = 1;
    return true;
}

struct tw_threads *tw_threads_of(tw_arena *arena, const tw_op *kernel)
{
    struct tw_threads *t = TW_NEW(arena, struct tw_threads);
    tw_walk((tw_op *)kernel, note_axis, t);
    if (!t->n)
        return NULL;
    for (unsigned i = 0; i < TW_THREAD_AXES; i++) {
        t->grid[i] = t->grid[i] ? t->grid[i] : 1;
        t->block[i] = t->block[i] ? t->block[i] : 1;
        t->n *= (uint32_t)(t->block[i] <= 1024 ? t->block[i] : 1024);
    }
    return t;
}

/* The running thread's number along an axis of its block. */
static int64_t number_along(const struct tw_threads *t, uint32_t thread, int axis)
{
    for (int i = 0; i < axis; i++)
        thread /= (uint32_t)t->block[i];
    return thread % t->block[axis];
}

static void switch_to(tw_machine *m, uint32_t thread)
{
    m->threads->current = thread;
    m->r = m->threads->registers[thread];
}

/* ---- Races --------------------------------------------------------------------------- */

static tw_shadow *shadow_of(tw_machine *m, const tw_membuf *buffer)
{
    struct tw_threads *t = m->threads;
    tw_shadow *s = tw_map_get_ptr(&t->shadows, buffer->data);
    if (!s) {
        s = TW_NEW(m->arena, tw_shadow);
        s->written = TW_NEW_ARRAY(m->arena, tw_touch, buffer->limit);
        s->read = TW_NEW_ARRAY(m->arena, tw_touch, buffer->limit);
        tw_map_put_ptr(&t->shadows, buffer->data, s);
    }
    return s;
}

static bool is_shared(const tw_membuf *buffer)
{
    return !strcmp(buffer->value->type->scope, "shared");
}

/* Whether another thread touched the element with nothing in between that orders the two: threads
 * of one block are ordered by barriers, blocks by nothing (but shared memory is each one's own). */
static bool meets(const struct tw_threads *t, const tw_touch *touch, bool shared)
{
    if (!touch->block)
        return false;
    if (touch->block != t->block_number)
        return !shared;
    return touch->epoch == t->epoch && (touch->thread != t->current || touch->several);
}

static void note(const struct tw_threads *t, tw_touch *touch)
{
    bool same = touch->block == t->block_number && touch->epoch == t->epoch;
    touch->several = same && (touch->several || touch->thread != t->current);
    touch->block = t->block_number;
    touch->thread = t->current;
    touch->epoch = t->epoch;
}

void tw_threads_touch(tw_machine *m, const tw_instr *in, const tw_membuf *buffer, size_t at,
                      bool write)
{
    struct tw_threads *t = m->threads;
    const char *name = buffer->value->name ? buffer->value->name : "buffer";
    size_t bits = tw_elem_bits(buffer->elem);
    tw_thread_access access = {t->current, bits < 8 ? 1 : (uint32_t)bits / 8, at * bits / 8};
    if (buffer->thread_stride)
        return;
    tw_vec_push(m->arena, &t->accesses, access);
    if (!buffer->written)
        return; /* only read */
    tw_shadow *s = shadow_of(m, buffer);
    const tw_touch *other = meets(t, &s->written[at], is_shared(buffer))         ? &s->written[at]
                            : write && meets(t, &s->read[at], is_shared(buffer)) ? &s->read[at]
                                                                                 : NULL;
    if (other)
        tw_machine_fail(m, in->op,
                        "race: thread %u of block %u %s element %zu of '%s', which thread %u of "
                        "block %u %s with no barrier in between",
                        t->current, t->block_number - 1, write ? "writes" : "reads",
                        at - buffer->offset, name, other->thread, other->block - 1,
                        other == &s->written[at] ? "wrote" : "read");
    note(t, write ? &s->written[at] : &s->read[at]);
}

/* ---- What a warp does at once -------------------------------------------------------- */

typedef struct worst {
    unsigned value, ideal;
} worst;

/* Distinct values of address / unit among the accesses; `list` has room for them. */
static unsigned distinct(const tw_thread_access *a, size_t n, uint64_t unit, uint64_t *list)
{
    unsigned found = 0;
    for (size_t i = 0; i < n; i++)
        for (uint64_t u = a[i].address / unit; u <= (a[i].address + a[i].size - 1) / unit; u++) {
            unsigned k = 0;
            while (k < found && list[k] != u)
                k++;
            list[k] = u;
            found += k == found;
        }
    return found;
}

/* Words of one bank are served one after another: the largest number of any bank. */
static unsigned bank_passes(const uint64_t *words, unsigned n)
{
    unsigned passes[TW_BANKS] = {0}, most = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned *p = &passes[words[i] % TW_BANKS];
        most = ++*p > most ? *p : most;
    }
    return most;
}

static void remember(tw_machine *m, const tw_op *op, unsigned value, unsigned ideal)
{
    if (value <= ideal)
        return;
    worst *w = tw_map_get_ptr(&m->threads->worst, op);
    if (!w) {
        w = TW_NEW(m->arena, worst);
        tw_map_put_ptr(&m->threads->worst, op, w);
    }
    if (value - ideal > w->value - w->ideal)
        *w = (worst){value, ideal};
}

static void count_warp(tw_machine *m, const tw_instr *in, const tw_thread_access *a, size_t n)
{
    tw_interp_stats *stats = &m->threads->stats;
    const tw_mem_access *access = in->extra;
    uint64_t *list = TW_NEW_ARRAY(m->arena, uint64_t, n * 4);
    if (is_shared(access->buffer)) {
        unsigned words = distinct(a, n, 4, list), passes = bank_passes(list, words);
        unsigned ideal = (words + TW_BANKS - 1) / TW_BANKS;
        stats->shared_passes += passes;
        stats->bank_conflicts += passes - ideal;
        remember(m, in->op, passes, ideal);
        return;
    }
    unsigned sectors = distinct(a, n, TW_SECTOR, list), bytes = distinct(a, n, a->size, list);
    unsigned ideal = (bytes * a->size + TW_SECTOR - 1) / TW_SECTOR;
    stats->sectors += sectors;
    stats->ideal_sectors += ideal;
    remember(m, in->op, sectors, ideal);
}

/* Accounts for what all threads have done in one instruction. */
static void end_access(tw_machine *m, const tw_instr *in)
{
    struct tw_threads *t = m->threads;
    for (size_t i = 0; i < t->accesses.len;) {
        size_t end = i;
        while (end < t->accesses.len &&
               t->accesses.data[end].thread / TW_WARP == t->accesses.data[i].thread / TW_WARP)
            end++;
        count_warp(m, in, &t->accesses.data[i], end - i);
        i = end;
    }
    t->accesses.len = 0;
}

/* Tells of each operation what its worst warp did. */
static void warn(tw_machine *m)
{
    const tw_map *worst_of = &m->threads->worst;
    for (size_t i = 0; i < worst_of->len; i++) {
        const tw_op *op;
        memcpy(&op, worst_of->entries[i].key, sizeof op);
        const worst *w = worst_of->entries[i].value;
        const tw_value *buffer = tw_operand(op, tw_is_loop(op, TW_LOOP_LOAD) ? 0 : 1);
        const char *name = buffer->name ? buffer->name : "buffer";
        const char *what = tw_is_loop(op, TW_LOOP_LOAD) ? "load" : "store";
        if (!strcmp(buffer->type->scope, "shared"))
            tw_warning(m->ctx, op->loc,
                       "%s of '%s': bank conflicts: a warp takes %u passes, %u would do", what,
                       name, w->value, w->ideal);
        else
            tw_warning(m->ctx, op->loc,
                       "%s of '%s' is not coalesced: a warp moves %u sectors of %d bytes, %u would "
                       "do",
                       what, name, w->value, TW_SECTOR, w->ideal);
    }
}

/* ---- In step ------------------------------------------------------------------------- */

static void run_in_step(tw_machine *m, const tw_code *code);

static bool *save_active(tw_machine *m)
{
    struct tw_threads *t = m->threads;
    bool *saved = TW_NEW_ARRAY(m->arena, bool, t->n);
    memcpy(saved, t->active, t->n * sizeof *saved);
    return saved;
}

static void restore_active(tw_machine *m, const bool *saved)
{
    memcpy(m->threads->active, saved, m->threads->n * sizeof *saved);
}

static bool any_active(const struct tw_threads *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (t->active[i])
            return true;
    return false;
}

static bool holds(const tw_slot *r, const tw_condition *where)
{
    for (unsigned i = 0; i < where->n; i++)
        if (r[where->terms[i].slot].i < 0)
            return false;
    return true;
}

/* A loop bound to an axis: the body once, in the threads that there are iterations for. */
static void bound_loop(tw_machine *m, const tw_instr *in, int axis, bool grid)
{
    struct tw_threads *t = m->threads;
    const tw_loop_code *loop = in->extra;
    for (uint32_t i = 0; i < t->n; i++) {
        tw_slot *r = t->registers[i];
        int64_t at = grid ? t->place[axis] : number_along(t, i, axis);
        t->active[i] &= at >= r[loop->lower.slot].i && at < r[loop->upper.slot].i;
        r[loop->variable].i = at;
    }
    if (any_active(t))
        run_in_step(m, &loop->body);
}

/* Other loops: round by round, with the threads that still have iterations. */
static void plain_loop(tw_machine *m, const tw_instr *in)
{
    struct tw_threads *t = m->threads;
    const tw_loop_code *loop = in->extra;
    const bool *outer = save_active(m);
    for (int64_t trip = 0;; trip++) {
        restore_active(m, outer);
        for (uint32_t i = 0; i < t->n; i++) {
            tw_slot *r = t->registers[i];
            if (!t->active[i])
                continue;
            int64_t at = r[loop->lower.slot].i + trip * loop->step;
            t->active[i] = at < r[loop->upper.slot].i;
            r[loop->variable].i = at;
        }
        if (!any_active(t))
            return;
        tw_machine_spend(m, in->op, loop->body.n + 1);
        run_in_step(m, &loop->body);
    }
}

static void run_loop(tw_machine *m, const tw_instr *in)
{
    bool grid;
    int axis = tw_is_loop(in->op, TW_LOOP_FOR) ? axis_of(tw_loop_for_kind(in->op), &grid) : -1;
    if (axis >= 0)
        bound_loop(m, in, axis, grid);
    else
        plain_loop(m, in);
}

static void run_block(tw_machine *m, const tw_instr *in)
{
    struct tw_threads *t = m->threads;
    const tw_block_code *block = in->extra;
    bool *first = TW_NEW_ARRAY(m->arena, bool, t->n);
    for (uint32_t i = 0; i < t->n; i++) {
        t->active[i] &= holds(t->registers[i], &block->where);
        switch_to(m, i);
        first[i] = t->active[i] && tw_block_enter(m, in);
    }
    const bool *all = save_active(m);
    restore_active(m, first);
    if (any_active(t))
        run_in_step(m, &block->init);
    restore_active(m, all);
    if (any_active(t))
        run_in_step(m, &block->body);
}

static void run_if(tw_machine *m, const tw_instr *in)
{
    struct tw_threads *t = m->threads;
    const tw_if_code *code = in->extra;
    bool *other = TW_NEW_ARRAY(m->arena, bool, t->n);
    for (uint32_t i = 0; i < t->n; i++) {
        bool then = t->active[i] && holds(t->registers[i], &code->where);
        other[i] = t->active[i] && !then;
        t->active[i] = then;
    }
    if (any_active(t))
        run_in_step(m, &code->then);
    restore_active(m, other);
    if (any_active(t))
        run_in_step(m, &code->other);
}

static void run_barrier(tw_machine *m, const tw_instr *in)
{
    struct tw_threads *t = m->threads;
    for (uint32_t i = 0; i < t->n; i++)
        if (!t->active[i])
            tw_machine_fail(m, in->op, "thread %u of block %u does not reach the barrier", i,
                            t->block_number - 1);
    t->epoch++;
}

/* Memory of a thread's own gets fresh for the threads that come by. */
static void run_alloc(tw_machine *m, const tw_instr *in)
{
    struct tw_threads *t = m->threads;
    const tw_membuf *buffer = in->extra;
    for (uint32_t i = 0; buffer->thread_stride && i < t->n; i++)
        if (t->active[i])
            memset(buffer->written + i * buffer->thread_stride, 0,
                   buffer->count * sizeof *buffer->written);
    if (!buffer->thread_stride)
        in->run(m, in);
}

static void run_one(tw_machine *m, const tw_instr *in)
{
    struct tw_threads *t = m->threads;
    tw_machine_spend(m, in->op, 1);
    for (uint32_t i = 0; i < t->n; i++)
        if (t->active[i]) {
            switch_to(m, i);
            in->run(m, in);
        }
    if (t->accesses.len)
        end_access(m, in);
}

static void run_in_step(tw_machine *m, const tw_code *code)
{
    static const struct {
        tw_exec run;
        void (*in_step)(tw_machine *m, const tw_instr *in);
    } control[] = {{tw_exec_for, run_loop},
                   {tw_exec_block, run_block},
                   {tw_exec_if, run_if},
                   {tw_exec_barrier, run_barrier},
                   {tw_exec_alloc, run_alloc}};
    for (const tw_instr *in = code->ins, *end = in + code->n; in < end; in++) {
        size_t k = 0;
        while (k < sizeof control / sizeof *control && control[k].run != in->run)
            k++;
        if (k == sizeof control / sizeof *control) {
            run_one(m, in);
            continue;
        }
        const bool *saved = save_active(m);
        control[k].in_step(m, in);
        restore_active(m, saved);
    }
}

void tw_threads_run(tw_machine *m, tw_program *program)
{
    struct tw_threads *t = m->threads;
    t->shadows = tw_map_make(m->arena);
    t->worst = tw_map_make(m->arena);
    t->registers = TW_NEW_ARRAY(m->arena, tw_slot *, t->n);
    t->active = TW_NEW_ARRAY(m->arena, bool, t->n);
    for (uint32_t i = 0; i < t->n; i++)
        t->registers[i] = TW_NEW_ARRAY(m->arena, tw_slot, program->n_slots);
    int64_t *p = t->place;
    for (p[2] = 0; p[2] < t->grid[2]; p[2]++)
        for (p[1] = 0; p[1] < t->grid[1]; p[1]++)
            for (p[0] = 0; p[0] < t->grid[0]; p[0]++) {
                t->block_number++;
                t->epoch++;
                for (uint32_t i = 0; i < t->n; i++) {
                    memcpy(t->registers[i], program->slots, program->n_slots * sizeof(tw_slot));
                    t->active[i] = true;
                }
                run_in_step(m, &program->body);
            }
    warn(m);
}
