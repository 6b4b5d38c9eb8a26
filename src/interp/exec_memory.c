/* exec_memory.c: loads, stores, allocations and views of the interpreter, all checked. */
#include "interp/threads.h"

#include <string.h>

static const char *buffer_name(const tw_membuf *buffer)
{
    return buffer->value->name ? buffer->value->name : "buffer";
}

static inline bool holds(const tw_machine *m, const tw_condition *where, uint32_t lane)
{
    for (unsigned i = 0; i < where->n; i++)
        if (m->r[where->terms[i].slot + lane * where->terms[i].step].i < 0)
            return false;
    return true;
}

static _Noreturn void out_of_bounds(tw_machine *m, const tw_instr *in, const tw_membuf *buffer,
                                    unsigned axis, int64_t index)
{
    tw_machine_fail(m, in->op,
                    "%s of '%s' outside its memory: index %lld of axis %u, which has "
                    "%lld elements",
                    tw_is_loop(in->op, TW_LOOP_LOAD) ? "load" : "store", buffer_name(buffer),
                    (long long)index, axis, (long long)buffer->dims[axis]);
}

/* The element that a lane touches, counted from the start of the memory. */
static inline size_t element(tw_machine *m, const tw_instr *in, const tw_mem_access *access,
                             uint32_t lane)
{
    const tw_membuf *buffer = access->buffer;
    int64_t at = 0;
    for (unsigned i = 0; i < buffer->rank; i++) {
        int64_t index = m->r[access->index[i].slot + lane * access->index[i].step].i;
        if ((uint64_t)index >= (uint64_t)buffer->dims[i])
            out_of_bounds(m, in, buffer, i, index);
        at += index * buffer->strides[i];
    }
    if ((size_t)at >= buffer->limit - buffer->offset)
        tw_machine_fail(m, in->op, "element %lld of '%s' lies beyond its memory", (long long)at,
                        buffer_name(buffer));
    size_t own = buffer->thread_stride ? m->threads->current * buffer->thread_stride : 0;
    return buffer->offset + (size_t)at + own;
}

static inline void check_read(tw_machine *m, const tw_instr *in, const tw_membuf *buffer, size_t at)
{
    uint32_t stamp = buffer->written ? buffer->written[at] : 1;
    if (stamp == 0)
        tw_machine_fail(m, in->op, "load of '%s' reads element %zu, which was never written",
                        buffer_name(buffer), at - buffer->offset);
    if (stamp > m->parallel_base && stamp != m->stamp)
        tw_machine_fail(m, in->op,
                        "load of '%s' reads element %zu, which another iteration of "
                        "the parallel loop wrote",
                        buffer_name(buffer), at - buffer->offset);
    if (m->threads)
        tw_threads_touch(m, in, buffer, at, false);
}

static inline void mark_write(tw_machine *m, const tw_instr *in, const tw_membuf *buffer, size_t at)
{
    if (buffer->read_only)
        tw_machine_fail(m, in->op, "store to '%s', which is only read", buffer_name(buffer));
    if (m->threads)
        tw_threads_touch(m, in, buffer, at, true);
    if (!buffer->written)
        return;
    uint32_t stamp = buffer->written[at];
    if (stamp > m->parallel_base && stamp != m->stamp)
        tw_machine_fail(m, in->op,
                        "store to '%s' writes element %zu, which another iteration of "
                        "the parallel loop wrote",
                        buffer_name(buffer), at - buffer->offset);
    buffer->written[at] = m->stamp;
}

void tw_exec_load(tw_machine *m, const tw_instr *in)
{
    const tw_mem_access *access = in->extra;
    for (uint32_t l = 0; l < in->lanes; l++) {
        if (!holds(m, &access->where, l)) {
            m->r[in->dst + l] = m->r[access->value.slot + l * access->value.step];
            continue;
        }
        size_t at = element(m, in, access, l);
        if (access->any_lanes && access->buffer->written && !access->buffer->written[at]) {
            memset(&m->r[in->dst + l], 0xff, sizeof(tw_slot)); /* NaN: shows where it is used */
            continue;
        }
        check_read(m, in, access->buffer, at);
        m->r[in->dst + l] =
            tw_number_slot(in->elem, tw_scalar_load(in->elem, access->buffer->data, at));
    }
}

void tw_exec_load_f32(tw_machine *m, const tw_instr *in)
{
    const tw_mem_access *access = in->extra;
    if (!holds(m, &access->where, 0)) {
        m->r[in->dst] = m->r[access->value.slot];
        return;
    }
    size_t at = element(m, in, access, 0);
    check_read(m, in, access->buffer, at);
    memcpy(&m->r[in->dst].f, (const float *)access->buffer->data + at, sizeof(float));
}

void tw_exec_store(tw_machine *m, const tw_instr *in)
{
    const tw_mem_access *access = in->extra;
    for (uint32_t l = 0; l < in->lanes; l++) {
        if (!holds(m, &access->where, l))
            continue;
        size_t at = element(m, in, access, l);
        mark_write(m, in, access->buffer, at);
        tw_slot value = m->r[access->value.slot + l * access->value.step];
        tw_scalar_store(in->elem, access->buffer->data, at, tw_slot_number(in->elem, value));
    }
}

void tw_exec_store_f32(tw_machine *m, const tw_instr *in)
{
    const tw_mem_access *access = in->extra;
    if (!holds(m, &access->where, 0))
        return;
    size_t at = element(m, in, access, 0);
    mark_write(m, in, access->buffer, at);
    memcpy((float *)access->buffer->data + at, &m->r[access->value.slot].f, sizeof(float));
}

/* Memory is made when decoding; each execution makes it fresh, that is, unwritten. */
void tw_exec_alloc(tw_machine *m, const tw_instr *in)
{
    (void)m;
    const tw_membuf *buffer = in->extra;
    memset(buffer->written, 0, buffer->count * sizeof *buffer->written);
}

/* A view as another element type, which may only be read: all of it must be written. */
static void view_as(tw_machine *m, const tw_instr *in, const tw_membuf *from, tw_membuf *to)
{
    size_t from_size = tw_elem_bits(from->elem) / 8, to_size = tw_elem_bits(to->elem) / 8;
    size_t start = from->offset * from_size, first = from->offset, end = first + from->count;
    if (in->imm || start % to_size || to->count * to_size != from->count * from_size)
        tw_machine_fail(m, in->op, "%zu elements are no view of '%s' as another type", to->count,
                        buffer_name(from));
    for (size_t i = first; from->written && i < end; i++)
        if (!from->written[i])
            tw_machine_fail(m, in->op, "element %zu of '%s' was never written", i - first,
                            buffer_name(from));
    to->data = from->data;
    to->written = NULL;
    to->offset = start / to_size;
    to->limit = to->offset + to->count;
    to->read_only = true;
}

/* The elements up to the last one of the part that is touched. */
static size_t elements_of_part(tw_machine *m, const tw_instr *in, const tw_membuf *view)
{
    tw_attr part = tw_op_attr(in->op, "part");
    int64_t last = 0, size;
    for (unsigned i = 0; part && i < view->rank; i++) {
        if (!tw_machine_size(m, part->u.map.exprs[i], &size) || size < 0 || size > view->dims[i])
            tw_machine_fail(m, in->op, "the part is larger than the view along axis %u", i);
        if (!size)
            return 0;
        last += (size - 1) * view->strides[i];
    }
    return part ? (size_t)last + 1 : view->count;
}

void tw_exec_view(tw_machine *m, const tw_instr *in)
{
    tw_membuf *const *pair = in->extra;
    const tw_membuf *from = pair[0];
    tw_membuf *to = pair[1];
    if (from->elem != to->elem) {
        view_as(m, in, from, to);
        return;
    }
    size_t count = elements_of_part(m, in, to);
    bool beyond = (size_t)in->imm > from->count || count > from->count - (size_t)in->imm;
    if (in->imm < 0 || (count && beyond))
        tw_machine_fail(m, in->op, "view of %zu elements at %lld goes beyond the %zu of '%s'",
                        count, (long long)in->imm, from->count, buffer_name(from));
    to->data = from->data;
    to->written = from->written;
    to->offset = from->offset + (size_t)in->imm;
    to->limit = from->limit;
    to->thread_stride = from->thread_stride;
    to->read_only = from->read_only;
}

/* ---- Sizes ---- */

void tw_machine_set_size(tw_machine *m, const char *symbol, int64_t value)
{
    int64_t *known = tw_map_get_str(&m->sizes, symbol);
    if (known && *known == value)
        return;
    if (known)
        m->programs = tw_map_make(m->arena);
    int64_t *size = TW_NEW(m->arena, int64_t);
    *size = value;
    tw_map_put_str(&m->sizes, symbol, size);
}

static bool look_up(void *data, const char *name, int64_t *out)
{
    const int64_t *size = tw_map_get_str(&((const tw_machine *)data)->sizes, name);
    if (size)
        *out = *size;
    return size != NULL;
}

bool tw_machine_size(const tw_machine *m, tw_expr e, int64_t *out)
{
    return tw_expr_eval(e, NULL, 0, look_up, (void *)m, out);
}

void tw_exec_bind(tw_machine *m, const tw_instr *in)
{
    const tw_membuf *buffer = in->extra;
    tw_attr symbols = tw_op_attr(in->op, "symbols"), expect = tw_op_attr(in->op, "expect");
    for (size_t i = 0; i < symbols->u.array.n; i++) {
        const char *symbol = symbols->u.array.items[i]->u.string.text;
        size_t at = buffer->offset + i;
        check_read(m, in, buffer, at);
        int64_t value = tw_scalar_load(TW_I64, buffer->data, at).integer, wanted;
        if (*symbol && (value < 0 || value > INT32_MAX))
            tw_machine_fail(m, in->op, "%s: size '%s' is %lld",
                            tw_op_string(in->op, "what", "sizes"), symbol, (long long)value);
        if (*symbol)
            tw_machine_set_size(m, symbol, value);
        if (expect && (!tw_machine_size(m, expect->u.map.exprs[i], &wanted) || wanted != value))
            tw_machine_fail(m, in->op, "%s: number %zu is %lld, not %s",
                            tw_op_string(in->op, "what", "sizes"), i, (long long)value,
                            tw_print_expr(m->ctx, expect->u.map.exprs[i], NULL));
    }
}
