/* plan_slots.c: a memory plan for all sizes at once.
 *
 * Buffers share slots: in one are buffers that live at different times. A slot is as large as the
 * largest of them, which only a run's sizes tell, and slots lie one behind the other:
 *
 *     %a: buffer<n x f32>, %b: buffer<8xf32> later      slot 0: max of both
 *     %c: buffer<n * 4 x f32> at the same time    ->    slot 1, offset = size of slot 0
 *
 * Buffers come from the largest to the smallest at typical sizes, so that a slot's first one is
 * mostly its largest, or in other orders, of which the best is kept; each goes into the smallest
 * slot that certainly holds it, behind buffers of the same time if need be; else into one that it
 * may make larger, else into a new one. What is certain are bounds of the difference of two sizes.
 * When there are too many slots, buffers stay without a place: the code takes memory for them. */
#include "lower/plan_memory.h"

#include "base/arena.h"
#include "lower/lifetimes.h"

#include <stdlib.h>

/* A slot is longer than its largest buffer by SLACK bytes: rounding up where one buffer ends behind
 * another must not keep them from fitting. */
enum {
    TYPICAL = 128,
    MAX_SLOTS = 64,
    MAX_LARGEST = 4,
    MAX_JOINED = 2,
    SLACK = 8 * TW_PLAN_ALIGNMENT
};

typedef struct slot {
    tw_expr largest[MAX_LARGEST]; /* sizes none of which is certainly the larger */
    unsigned n;
    int64_t size;   /* at a typical run */
    tw_expr offset; /* NULL: none */
    /* Of the buffers in it that live when the one being placed does: where they end, NULL: none;
     * `joined` ends, none of which is certainly the last, make it up, or `taken`: too many. */
    tw_expr end;
    unsigned joined;
    bool taken;
    bool nested; /* buffers lie behind others */
} slot;

/* Where a buffer lies. */
typedef struct place_in_slot {
    tw_expr start, end; /* bytes in the slot; the end is at most that */
    unsigned slot;
} place_in_slot;

typedef struct slots {
    tw_context *ctx;
    tw_arena *arena;
    slot slots[MAX_SLOTS];
    unsigned n;
    tw_lifetimes *placed;   /* tw_plan_buffer */
    place_in_slot **places; /* by the buffer's number; NULL: none */
} slots;

/* ---- Sizes ---- */

static tw_expr bytes_of(tw_context *ctx, tw_type type)
{
    unsigned bits = tw_elem_bits(type->elem);
    tw_expr count = tw_expr_const(ctx, 1);
    for (unsigned i = 0; i < type->rank; i++)
        count = tw_expr_mul(ctx, count, type->dims[i]);
    /* A size that comes out negative is found by a check; until then it must not move others. */
    if (tw_expr_range(count, NULL, 0).lo < 0)
        count = tw_expr_binary(ctx, TW_EXPR_MAX, count, tw_expr_const(ctx, 0));
    if (bits % 8 == 0)
        return tw_expr_mulc(ctx, count, bits / 8);
    return tw_expr_binary(ctx, TW_EXPR_CEILDIV, tw_expr_mulc(ctx, count, bits),
                          tw_expr_const(ctx, 8));
}

static tw_expr aligned(tw_context *ctx, tw_expr bytes)
{
    tw_expr unit = tw_expr_const(ctx, TW_PLAN_ALIGNMENT);
    return tw_expr_mulc(ctx, tw_expr_binary(ctx, TW_EXPR_CEILDIV, bytes, unit), TW_PLAN_ALIGNMENT);
}

static bool typical(void *data, const char *name, int64_t *out)
{
    (void)data, (void)name;
    *out = TYPICAL;
    return true;
}

static int64_t typical_size(tw_expr bytes)
{
    int64_t size;
    return tw_expr_eval(bytes, NULL, 0, typical, NULL, &size) && size > 0 ? size : 0;
}

/* Whether a >= b for all sizes. */
static bool certainly_holds(tw_context *ctx, tw_expr a, tw_expr b)
{
    return a == b || tw_expr_range(tw_expr_sub(ctx, a, b), NULL, 0).lo >= 0;
}

/* ---- Slots ---- */

static bool slot_holds(slots *p, const slot *s, tw_expr bytes)
{
    for (unsigned i = 0; i < s->n; i++)
        if (certainly_holds(p->ctx, s->largest[i], bytes))
            return true;
    return false;
}

/* Adds a size to those of a slot; those that it certainly covers go. */
static void enlarge(slots *p, slot *s, tw_expr bytes)
{
    unsigned n = 0;
    for (unsigned i = 0; i < s->n; i++)
        if (!certainly_holds(p->ctx, bytes, s->largest[i]))
            s->largest[n++] = s->largest[i];
    s->largest[n] = bytes;
    s->n = n + 1;
}

/* The slot holds a buffer that ends there at the time in question. */
static void mark(slots *p, slot *s, tw_expr end)
{
    if (!s->end || certainly_holds(p->ctx, end, s->end)) {
        s->end = end;
    } else if (!certainly_holds(p->ctx, s->end, end)) {
        s->taken = s->taken || s->joined++ == MAX_JOINED;
        s->end = tw_expr_binary(p->ctx, TW_EXPR_MAX, s->end, end);
    }
}

/* Marks the slots with what lives when b does. */
static void mark_all(slots *p, const tw_plan_buffer *b)
{
    void *around[TW_PLAN_MAX_NEIGHBOURS];
    size_t n;
    bool all = !tw_lifetimes_find(p->placed, b->first, b->last, TW_PLAN_MAX_NEIGHBOURS, around, &n);
    for (unsigned i = 0; i < p->n; i++) {
        p->slots[i].taken = all;
        p->slots[i].end = NULL;
        p->slots[i].joined = 0;
    }
    for (size_t i = 0; i < n && !all; i++) {
        const place_in_slot *at = p->places[((const tw_plan_buffer *)around[i])->number];
        mark(p, &p->slots[at->slot], at->end);
    }
}

/* Where a buffer ends at most that lies behind what lives at its time. */
static tw_expr end_behind(slots *p, const slot *s, tw_expr bytes)
{
    if (!s->end)
        return bytes;
    return tw_expr_add(p->ctx, s->end, tw_expr_addc(p->ctx, bytes, TW_PLAN_ALIGNMENT - 1));
}

/* The size that the slot must have to hold the buffer as well. */
static tw_expr needed_size(slots *p, const slot *s, tw_expr bytes)
{
    tw_expr end = end_behind(p, s, bytes);
    return s->end ? tw_expr_addc(p->ctx, end, -SLACK) : end;
}

/* The slot for a buffer, or NULL when there are too many. */
static slot *choose(slots *p, const tw_plan_buffer *b, tw_expr bytes)
{
    slot *best = NULL, *other = NULL;
    mark_all(p, b);
    for (unsigned i = 0; i < p->n; i++) {
        slot *s = &p->slots[i];
        if (s->taken)
            continue;
        tw_expr needed = needed_size(p, s, bytes);
        if (slot_holds(p, s, needed))
            best = !best || s->size < best->size ? s : best;
        else if (s->n < MAX_LARGEST && typical_size(needed) <= s->size)
            other = !other || s->size < other->size ? s : other;
    }
    if (best)
        return best;
    if (!other && p->n < MAX_SLOTS) {
        other = &p->slots[p->n++];
        *other = (slot){.size = b->size};
    }
    if (other)
        enlarge(p, other, needed_size(p, other, bytes));
    return other;
}

static void place(slots *p, tw_plan_buffer *b)
{
    tw_expr bytes = bytes_of(p->ctx, b->alloc->results[0].type);
    slot *s = choose(p, b, bytes);
    if (!s)
        return;
    place_in_slot *at = TW_NEW(p->arena, place_in_slot);
    *at = (place_in_slot){.start = s->end ? aligned(p->ctx, s->end) : tw_expr_const(p->ctx, 0),
                          .end = end_behind(p, s, bytes),
                          .slot = (unsigned)(s - p->slots)};
    s->nested = s->nested || s->end;
    p->places[b->number] = at;
    tw_lifetimes_add(p->placed, b->first, b->last, b);
}

/* Offsets one behind the other; a slot that would make expressions too large gets none. */
static tw_expr stack_slots(slots *p)
{
    tw_expr end = tw_expr_const(p->ctx, 0);
    for (unsigned i = 0; i < p->n; i++) {
        slot *s = &p->slots[i];
        tw_expr size = aligned(p->ctx, s->largest[0]);
        for (unsigned k = 1; k < s->n; k++)
            size = tw_expr_binary(p->ctx, TW_EXPR_MAX, size, aligned(p->ctx, s->largest[k]));
        if (s->nested)
            size = tw_expr_addc(p->ctx, size, SLACK);
        tw_expr next = tw_expr_add(p->ctx, end, size);
        if (next->kind == TW_EXPR_INVALID)
            continue;
        s->offset = end;
        end = next;
    }
    return end;
}

static tw_attr offset_attr(tw_context *ctx, tw_expr e)
{
    return tw_expr_is_const(e) ? tw_attr_int(ctx, e->value) : tw_attr_map(ctx, 0, &e, 1);
}

/* A plan that comes of placing the buffers in that order; *end is the size of the arena. */
static slots *plan_in_order(tw_context *ctx, tw_plan_buffer *const *buffers, size_t n, size_t steps,
                            tw_expr *end)
{
    tw_arena *arena = tw_context_arena(ctx);
    slots *p = TW_NEW(arena, slots);
    size_t numbers = 0;
    for (size_t i = 0; i < n; i++)
        numbers = buffers[i]->number >= numbers ? buffers[i]->number + 1 : numbers;
    *p = (slots){.ctx = ctx, .arena = arena, .placed = tw_lifetimes_create(arena, steps)};
    p->places = TW_NEW_ARRAY(arena, place_in_slot *, numbers);
    for (size_t i = 0; i < n; i++)
        place(p, buffers[i]);
    *end = stack_slots(p);
    return p;
}

static unsigned count_homeless(const slots *p, tw_plan_buffer *const *buffers, size_t n)
{
    unsigned homeless = 0;
    for (size_t i = 0; i < n; i++) {
        const place_in_slot *at = p->places[buffers[i]->number];
        homeless += !at || !p->slots[at->slot].offset;
    }
    return homeless;
}

/* The plan of that order which takes the least memory at a typical run; those that leave fewer
 * buffers without a place come first. */
static slots *best_plan(tw_context *ctx, tw_plan_buffer **buffers, size_t n, size_t steps,
                        tw_expr *end)
{
    enum { MOST_ORDERS = 24, MOST_WORK = 1 << 14 };
    slots *best = NULL;
    unsigned least = 0, orders = n ? (unsigned)(MOST_WORK / n) : 1;
    orders = orders > MOST_ORDERS ? MOST_ORDERS : orders < TW_PLAN_ORDERS ? TW_PLAN_ORDERS : orders;
    for (unsigned k = 0; k < orders; k++) {
        tw_expr size;
        tw_plan_sort(buffers, n, k);
        slots *p = plan_in_order(ctx, buffers, n, steps, &size);
        unsigned homeless = count_homeless(p, buffers, n);
        if (best &&
            (homeless > least || (homeless == least && typical_size(size) >= typical_size(*end))))
            continue;
        best = p;
        least = homeless;
        *end = size;
    }
    return best;
}

bool tw_plan_slots(tw_op *func, tw_plan_buffer **buffers, size_t n, size_t steps)
{
    tw_context *ctx = tw_op_context(func);
    for (size_t i = 0; i < n; i++) {
        tw_expr bytes = bytes_of(ctx, buffers[i]->alloc->results[0].type);
        if (bytes->kind == TW_EXPR_INVALID)
            return tw_error(ctx, buffers[i]->alloc->loc, "buffer of type %s is too large",
                            tw_print_type(ctx, buffers[i]->alloc->results[0].type));
        buffers[i]->size = typical_size(bytes);
    }
    tw_expr end;
    const slots *p = best_plan(ctx, buffers, n, steps, &end);
    for (size_t i = 0; i < n; i++) {
        const place_in_slot *at = p->places[buffers[i]->number];
        tw_expr base = at ? p->slots[at->slot].offset : NULL;
        tw_expr offset = base ? tw_expr_add(ctx, base, at->start) : NULL;
        if (offset && offset->kind != TW_EXPR_INVALID)
            tw_op_set_attr(buffers[i]->alloc, "offset", offset_attr(ctx, offset));
    }
    tw_op_set_attr(func, "arena_size", offset_attr(ctx, end));
    return true;
}
