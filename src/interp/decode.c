/* decode.c: turns a kernel or function into instructions over slots, once per run.
 *
 *   %x = loop.load %X[%i * 2]       mul  s7, s3, s5      (s5: constant 2)
 *                              ->   load s8, X[s7] */
#include "interp/decode.h"

#include "base/checked.h"
#include "dialect/core/core.h"

#include <string.h>

enum { MAX_DEPTH = 1000 }; /* of nested regions */

static uint32_t new_slots(tw_decoder *d, int64_t lanes)
{
    uint32_t first = (uint32_t)d->slots.len;
    for (int64_t i = 0; i < lanes; i++)
        tw_vec_push(d->arena, &d->slots, (tw_slot){0});
    return first;
}

static uint32_t lanes_of(tw_type type)
{
    return type->kind == TW_TYPE_VECTOR ? (uint32_t)tw_type_dim(type, 0) : 1;
}

void tw_decode_define(tw_decoder *d, const tw_value *value, uint32_t slot)
{
    tw_place *place = TW_NEW(d->arena, tw_place);
    *place = (tw_place){slot, value->type->kind == TW_TYPE_VECTOR};
    tw_map_put_ptr(&d->places, value, place);
}

tw_place tw_decode_place(tw_decoder *d, const tw_op *user, const tw_value *value)
{
    const tw_place *place = tw_map_get_ptr(&d->places, value);
    if (!place)
        tw_machine_fail(d->m, user, "'%s' uses a value that the interpreter has not seen",
                        user->def->name);
    return *place;
}

tw_place tw_decode_const(tw_decoder *d, tw_slot value)
{
    void *known = tw_map_get(&d->constants, &value, sizeof value);
    if (!known) {
        uint32_t slot = new_slots(d, 1);
        d->slots.data[slot] = value;
        known = (void *)(uintptr_t)(slot + 1);
        tw_map_put(&d->constants, &value, sizeof value, known);
    }
    return (tw_place){(uint32_t)(uintptr_t)known - 1, 0};
}

tw_instr *tw_decode_emit(tw_decoder *d, tw_instr_vec *out, tw_exec run, const tw_op *op,
                         uint32_t lanes)
{
    tw_instr in = {.run = run, .lanes = lanes, .op = op, .dst = new_slots(d, lanes)};
    tw_vec_push(d->arena, out, in);
    return &out->data[out->len - 1];
}

/* ---- Expressions: their depth is bounded by construction ---- */

static tw_place decode_expr(tw_decoder *d, tw_instr_vec *out, const tw_op *op, tw_expr e,
                            unsigned first)
{
    if (e->kind == TW_EXPR_CONST)
        return tw_decode_const(d, (tw_slot){.i = e->value});
    if (e->kind == TW_EXPR_DIM) {
        if (first + (uint64_t)e->value >= op->n_operands)
            tw_machine_fail(d->m, op, "'%s': d%lld is no operand", op->def->name,
                            (long long)e->value);
        return tw_decode_place(d, op, tw_operand(op, first + (unsigned)e->value));
    }
    if (e->kind == TW_EXPR_SYM) {
        int64_t value;
        if (!tw_machine_size(d->m, e, &value))
            tw_machine_fail(d->m, op, "size '%s' is not known; fix it with --shape", e->symbol);
        return tw_decode_const(d, (tw_slot){.i = value});
    }
    if (!tw_exec_expr(e->kind))
        tw_machine_fail(d->m, op, "'%s' has an invalid expression", op->def->name);
    tw_place a = decode_expr(d, out, op, e->lhs, first);
    tw_place b = decode_expr(d, out, op, e->rhs, first);
    /* What the region has computed before it computes no second time. */
    const uint64_t key[] = {d->region, (uint64_t)e->kind, (uint64_t)a.slot << 32 | a.step,
                            (uint64_t)b.slot << 32 | b.step};
    tw_place *known = tw_map_get(&d->computed, key, sizeof key);
    if (known)
        return *known;
    uint32_t lanes = 1;
    for (unsigned i = first; i < op->n_operands && (a.step || b.step); i++)
        if (lanes_of(tw_operand(op, i)->type) > lanes)
            lanes = lanes_of(tw_operand(op, i)->type);
    tw_instr *in = tw_decode_emit(d, out, tw_exec_expr(e->kind), op, lanes);
    in->a = a;
    in->b = b;
    known = TW_NEW(d->arena, tw_place);
    *known = (tw_place){in->dst, a.step | b.step};
    tw_map_put(&d->computed, key, sizeof key, known);
    return *known;
}

const tw_place *tw_decode_map(tw_decoder *d, tw_instr_vec *out, const tw_op *op, tw_attr map,
                              unsigned first, unsigned *n)
{
    *n = map ? (unsigned)map->u.map.n : 0;
    tw_place *places = TW_NEW_ARRAY(d->arena, tw_place, *n);
    for (unsigned i = 0; i < *n; i++)
        places[i] = decode_expr(d, out, op, map->u.map.exprs[i], first);
    return places;
}

/* ---- Buffers ---- */

tw_membuf *tw_decode_buffer(tw_decoder *d, const tw_op *user, const tw_value *value)
{
    tw_membuf *buffer = tw_map_get_ptr(&d->buffers, value);
    if (!buffer)
        tw_machine_fail(d->m, user, "'%s' uses a buffer that the interpreter has not seen",
                        user->def->name);
    return buffer;
}

tw_membuf *tw_decode_new_buffer(tw_decoder *d, const tw_op *op, const tw_value *value)
{
    int64_t count = 1;
    tw_type type = value->type;
    bool fine = type->kind == TW_TYPE_BUFFER;
    int64_t *dims = TW_NEW_ARRAY(d->arena, int64_t, type->rank);
    for (unsigned i = 0; fine && i < type->rank; i++)
        fine = tw_machine_size(d->m, type->dims[i], &dims[i]) && dims[i] >= 0 &&
               tw_mul_i64(count, dims[i], &count);
    if (!fine || count > INT64_MAX / 8)
        tw_machine_fail(d->m, op,
                        "the interpreter runs buffers of numbers, their sizes known, not %s",
                        tw_print_type(d->m->ctx, type));
    tw_membuf *buffer = TW_NEW(d->arena, tw_membuf);
    int64_t *strides = TW_NEW_ARRAY(d->arena, int64_t, type->rank);
    int64_t stride = 1;
    for (unsigned i = type->rank; i-- > 0;) {
        strides[i] = stride;
        stride *= dims[i] ? dims[i] : 1;
    }
    *buffer = (tw_membuf){.value = value,
                          .elem = type->elem,
                          .rank = type->rank,
                          .dims = dims,
                          .strides = strides,
                          .count = (size_t)count,
                          .limit = (size_t)count};
    tw_map_put_ptr(&d->buffers, value, buffer);
    return buffer;
}

/* ---- Regions ---- */

tw_code tw_decode_region(tw_decoder *d, const tw_region *region)
{
    tw_instr_vec out = {0};
    uint64_t outer = d->region;
    d->region = ++d->regions;
    if (++d->depth > MAX_DEPTH)
        tw_machine_fail(d->m, region->parent, "regions nest more than %d deep", MAX_DEPTH);
    for (const tw_op *op = region->first; op; op = op->next)
        tw_decode_op(d, &out, op);
    d->depth--;
    d->region = outer;
    return (tw_code){out.data, out.len};
}

uint32_t tw_decode_variable(tw_decoder *d, const tw_value *value)
{
    uint32_t slot = new_slots(d, lanes_of(value->type));
    tw_decode_define(d, value, slot);
    return slot;
}

/* Whether all sizes are known. */
static bool is_known(const tw_machine *m, tw_type type)
{
    int64_t size;
    for (unsigned i = 0; i < type->rank; i++)
        if (!tw_machine_size(m, type->dims[i], &size))
            return false;
    return true;
}

tw_program *tw_decode(tw_machine *m, const tw_op *op)
{
    tw_program *program = tw_map_get_ptr(&m->programs, op);
    if (program)
        return program;
    const tw_op *caller = m->kernel;
    m->kernel = op;
    program = TW_NEW(m->arena, tw_program);
    tw_decoder *d = TW_NEW(m->arena, tw_decoder);
    *d = (tw_decoder){.m = m,
                      .arena = m->arena,
                      .places = tw_map_make(m->arena),
                      .buffers = tw_map_make(m->arena),
                      .constants = tw_map_make(m->arena),
                      .computed = tw_map_make(m->arena),
                      .program = program};
    const tw_region *region = &op->regions[0];
    bool function = tw_is_core(op, TW_CORE_FUNC);
    program->op = op;
    program->n_args = region->n_args;
    program->args = TW_NEW_ARRAY(m->arena, tw_membuf *, region->n_args);
    for (unsigned i = 0; i < region->n_args; i++)
        if (!function || is_known(m, region->args[i]->type))
            program->args[i] = tw_decode_new_buffer(d, op, region->args[i]);
    if (function)
        program->function = d;
    else
        program->body = tw_decode_region(d, region);
    program->slots = d->slots.data;
    program->n_slots = d->slots.len;
    tw_map_put_ptr(&m->programs, op, program);
    m->kernel = caller;
    return program;
}

void tw_run_region(tw_machine *m, tw_decoder *d, const tw_region *region)
{
    for (const tw_op *op = region->first; op; op = op->next) {
        tw_instr_vec out = {0};
        tw_decode_op(d, &out, op);
        m->r = d->slots.data;
        tw_run_code(m, &(tw_code){out.data, out.len});
    }
}

void tw_run_function(tw_machine *m, tw_program *program)
{
    tw_run_region(m, program->function, &program->op->regions[0]);
}
