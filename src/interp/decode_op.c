/* decode_op.c: the instructions of each operation of the loop dialect. */
#include "interp/decode.h"
#include "interp/threads.h"

#include "base/checked.h"
#include "dialect/core/core.h"
#include "ir/elem_data.h"

#include <string.h>

static uint32_t lanes_of(tw_type type)
{
    return type->kind == TW_TYPE_VECTOR ? (uint32_t)tw_type_dim(type, 0) : 1;
}

/* An instruction whose result is the operation's. */
static tw_instr *emit_result(tw_decoder *d, tw_instr_vec *out, tw_exec run, const tw_op *op)
{
    const tw_value *result = &op->results[0];
    tw_instr *in = tw_decode_emit(d, out, run, op, lanes_of(result->type));
    in->elem = result->type->elem;
    tw_decode_define(d, result, in->dst);
    return in;
}

static void decode_pure(tw_decoder *d, tw_instr_vec *out, const tw_op *op, tw_exec run)
{
    tw_place places[3] = {{0}};
    for (unsigned i = 0; i < op->n_operands && i < 3; i++)
        places[i] = tw_decode_place(d, op, tw_operand(op, i));
    tw_instr *in = emit_result(d, out, run, op);
    in->a = places[0];
    in->b = places[1];
    in->c = places[2];
    if (op->n_operands)
        in->from = tw_operand(op, 0)->type->elem;
}

static void decode_arithmetic(tw_decoder *d, tw_instr_vec *out, const tw_op *op)
{
    tw_elem elem = op->results[0].type->elem;
    tw_exec run = tw_exec_arithmetic(tw_loop_kind_of(op), elem);
    if (!run)
        tw_machine_fail(d->m, op, "the interpreter has no '%s' of %s", op->def->name,
                        tw_elem_name(elem));
    decode_pure(d, out, op, run);
}

/* Constants take slots and no instruction. */
static void decode_const(tw_decoder *d, const tw_op *op)
{
    tw_attr value = tw_op_attr(op, "value");
    tw_type type = op->results[0].type;
    tw_number number = {0};
    tw_elem from = TW_F64;
    if (value->kind == TW_ATTR_FLOAT)
        number.real = value->u.real;
    else
        number.integer = value->u.integer, from = TW_I64;
    number = tw_scalar_convert(number, from, type->elem, false);
    tw_place place = tw_decode_const(d, tw_number_slot(type->elem, number));
    tw_place *stored = TW_NEW(d->arena, tw_place);
    *stored = place; /* step 0: the same in all lanes */
    tw_map_put_ptr(&d->places, &op->results[0], stored);
}

static void decode_index(tw_decoder *d, tw_instr_vec *out, const tw_op *op)
{
    unsigned n;
    tw_place place = *tw_decode_map(d, out, op, tw_op_attr(op, "expr"), 0, &n);
    tw_instr *in = emit_result(d, out, tw_exec_copy, op);
    in->a = place;
}

static void decode_cmp(tw_decoder *d, tw_instr_vec *out, const tw_op *op)
{
    const char *pred = tw_op_string(op, "pred", "");
    int64_t i = 0;
    while (tw_cmp_preds[i] && strcmp(tw_cmp_preds[i], pred))
        i++;
    if (!tw_cmp_preds[i])
        tw_machine_fail(d->m, op, "unknown predicate '%s'", pred);
    decode_pure(d, out, op, tw_exec_cmp);
    out->data[out->len - 1].imm = i;
}

static void decode_cast(tw_decoder *d, tw_instr_vec *out, const tw_op *op)
{
    decode_pure(d, out, op, tw_exec_cast);
    out->data[out->len - 1].imm = tw_op_bool(op, "saturate", true);
}

static void decode_reduce_lanes(tw_decoder *d, tw_instr_vec *out, const tw_op *op)
{
    static const struct {
        const char *name;
        tw_loop_kind kind;
    } table[] = {
        {"add", TW_LOOP_ADD}, {"mul", TW_LOOP_MUL}, {"max", TW_LOOP_MAX}, {"min", TW_LOOP_MIN}};
    const char *name = tw_op_string(op, "op", "");
    tw_exec run = NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, name))
            run = tw_exec_arithmetic(table[i].kind, op->results[0].type->elem);
    if (!run)
        tw_machine_fail(d->m, op, "the interpreter cannot reduce lanes by '%s'", name);
    decode_pure(d, out, op, tw_exec_reduce_lanes);
    tw_instr *in = &out->data[out->len - 1];
    tw_instr *combine = TW_NEW(d->arena, tw_instr);
    *combine = (tw_instr){.run = run, .dst = in->dst, .lanes = 1, .elem = in->elem, .op = op};
    combine->a = (tw_place){in->dst, 0};
    combine->b = (tw_place){in->a.slot, 0};
    in->imm = in->a.step ? lanes_of(tw_operand(op, 0)->type) : 1;
    in->extra = combine;
}

static void decode_access(tw_decoder *d, tw_instr_vec *out, const tw_op *op)
{
    tw_loop_access parts;
    tw_loop_get_access(op, &parts);
    tw_mem_access *access = TW_NEW(d->arena, tw_mem_access);
    unsigned n;
    access->buffer = tw_decode_buffer(d, op, parts.buffer);
    access->index = tw_decode_map(d, out, op, parts.index, parts.first_index, &n);
    access->where.terms =
        tw_decode_map(d, out, op, parts.where, parts.first_index, &access->where.n);
    if (n != access->buffer->rank)
        tw_machine_fail(d->m, op, "%u indices for a buffer of rank %u", n, access->buffer->rank);
    const tw_value *value = parts.value ? parts.value : parts.other;
    if (value)
        access->value = tw_decode_place(d, op, value);
    bool is_f32 = access->buffer->elem == TW_F32;
    tw_instr *in;
    if (tw_is_loop(op, TW_LOOP_LOAD)) {
        in = emit_result(d, out, tw_exec_load, op);
        access->any_lanes = tw_op_attr(op, "any_lanes") != NULL;
        if (is_f32 && in->lanes == 1 && !access->any_lanes)
            in->run = tw_exec_load_f32;
    } else {
        uint32_t lanes = lanes_of(parts.value->type);
        in =
            tw_decode_emit(d, out, is_f32 && lanes == 1 ? tw_exec_store_f32 : tw_exec_store, op, 0);
        in->lanes = lanes;
        in->elem = access->buffer->elem;
    }
    in->extra = access;
}

/* ---- Memory ---- */

/* A buffer that gets its memory, and with it its size, later on. */
static void decode_later(tw_decoder *d, const tw_op *op)
{
    tw_membuf *buffer = TW_NEW(d->arena, tw_membuf);
    *buffer = (tw_membuf){.value = &op->results[0], .elem = op->results[0].type->elem};
    tw_map_put_ptr(&d->buffers, &op->results[0], buffer);
}

/* Decided at once: views of the buffer come behind it. */
static void decode_renew(tw_decoder *d, const tw_op *op)
{
    tw_membuf *buffer = tw_decode_buffer(d, op, tw_operand(op, 0));
    tw_type type = tw_op_attr(op, "type")->u.type;
    int64_t count = 1, size;
    size_t bytes;
    for (unsigned i = 0; i < type->rank; i++)
        if (!tw_machine_size(d->m, type->dims[i], &size) || size < 0 ||
            !tw_mul_i64(count, size, &count))
            tw_machine_fail(d->m, op, "a size of %s is not known or negative",
                            tw_print_type(d->m->ctx, type));
    if (!tw_elem_bytes(buffer->elem, (uint64_t)count, &bytes))
        tw_machine_fail(d->m, op, "the buffer is too large");
    buffer->count = (size_t)count;
    buffer->data = tw_arena_alloc(d->arena, bytes);
    buffer->written = TW_NEW_ARRAY(d->arena, uint32_t, buffer->count);
}

static void decode_alloc(tw_decoder *d, tw_instr_vec *out, const tw_op *op)
{
    if (tw_op_attr(op, "later")) {
        decode_later(d, op);
        return;
    }
    tw_membuf *buffer = tw_decode_new_buffer(d, op, &op->results[0]);
    size_t bytes, copies = 1;
    if (d->m->threads && !strcmp(buffer->value->type->scope, "local")) {
        buffer->thread_stride = buffer->count + (buffer->count & 1); /* 4-bit ones share no byte */
        copies = d->m->threads->n;
    }
    size_t count = copies > 1 ? buffer->thread_stride * copies : buffer->count;
    if (!tw_elem_bytes(buffer->elem, count, &bytes))
        tw_machine_fail(d->m, op, "the buffer is too large");
    buffer->data = tw_arena_alloc(d->arena, bytes);
    buffer->written = TW_NEW_ARRAY(d->arena, uint32_t, count);
    tw_decode_emit(d, out, tw_exec_alloc, op, 0)->extra = buffer;
}

static void decode_constant_buffer(tw_decoder *d, const tw_op *op)
{
    tw_membuf *buffer = tw_decode_new_buffer(d, op, &op->results[0]);
    tw_attr value = tw_op_attr(op, "value");
    size_t bytes;
    if (!tw_elem_bytes(buffer->elem, buffer->count, &bytes) || bytes != value->u.dense.size)
        tw_machine_fail(d->m, op, "%zu bytes of data for a buffer of %zu elements",
                        value->u.dense.size, buffer->count);
    buffer->data = (void *)value->u.dense.data;
    buffer->read_only = true;
}

static void decode_view(tw_decoder *d, tw_instr_vec *out, const tw_op *op)
{
    tw_membuf **pair = TW_NEW_ARRAY(d->arena, tw_membuf *, 2);
    pair[0] = tw_decode_buffer(d, op, tw_operand(op, 0));
    pair[1] = tw_decode_new_buffer(d, op, &op->results[0]);
    bool whole_bytes = !(tw_elem_bits(pair[0]->elem) % 8 || tw_elem_bits(pair[1]->elem) % 8);
    if (pair[0]->elem != pair[1]->elem && !whole_bytes)
        tw_machine_fail(d->m, op, "a view of parts of bytes keeps the element type");
    tw_instr *in = tw_decode_emit(d, out, tw_exec_view, op, 0);
    in->extra = pair;
    in->imm = tw_op_int(op, "offset", 0);
}

/* ---- Sizes ---- */

static void decode_bind(tw_decoder *d, tw_instr_vec *out, const tw_op *op)
{
    tw_membuf *buffer = tw_decode_buffer(d, op, tw_operand(op, 0));
    tw_decode_emit(d, out, tw_exec_bind, op, 0)->extra = buffer;
}

/* Sizes are bound by now: the output is an argument like others. */
static void decode_provide(tw_decoder *d, const tw_op *op)
{
    const tw_value *output = tw_operand(op, 0);
    tw_machine_bind(d->m, d->program, output->index, tw_decode_new_buffer(d, op, output), false);
}

/* Decided at once: it is about symbols alone. */
static void decode_check(tw_decoder *d, const tw_op *op)
{
    int64_t value;
    tw_attr sets = tw_op_attr(op, "sets");
    for (size_t i = 0; i < sets->u.map.n; i++)
        if (!tw_machine_size(d->m, sets->u.map.exprs[i], &value) || value < 0)
            tw_machine_fail(d->m, op, "%s", tw_op_string(op, "message", ""));
}

/* ---- Control ---- */

static void decode_for(tw_decoder *d, tw_instr_vec *out, const tw_op *op)
{
    tw_loop_code *loop = TW_NEW(d->arena, tw_loop_code);
    const char *kind = tw_op_string(op, "kind", "serial");
    if (tw_is_loop(op, TW_LOOP_FOR)) {
        unsigned n;
        const tw_place *bounds = tw_decode_map(d, out, op, tw_op_attr(op, "bounds"), 0, &n);
        loop->lower = bounds[0];
        loop->upper = bounds[1];
    } else {
        loop->lower = tw_decode_place(d, op, tw_operand(op, 0));
        loop->upper = tw_decode_place(d, op, tw_operand(op, 1));
    }
    loop->step = tw_op_int(op, "step", 1);
    if (loop->step < 1)
        tw_machine_fail(d->m, op, "a loop's step is above 0, not %lld", (long long)loop->step);
    loop->parallel = !strcmp(kind, "parallel") || tw_loop_kind_is_bound(kind);
    loop->variable = tw_decode_variable(d, op->regions[0].args[0]);
    loop->body = tw_decode_region(d, &op->regions[0]);
    tw_decode_emit(d, out, tw_exec_for, op, 0)->extra = loop;
}

static void decode_block(tw_decoder *d, tw_instr_vec *out, const tw_op *op)
{
    tw_block_code *block = TW_NEW(d->arena, tw_block_code);
    tw_attr extents = tw_op_attr(op, "extents");
    block->bindings = tw_decode_map(d, out, op, tw_op_attr(op, "bindings"), 0, &block->n);
    block->where.terms = tw_decode_map(d, out, op, tw_op_attr(op, "where"), 0, &block->where.n);
    int64_t *sizes = TW_NEW_ARRAY(d->arena, int64_t, block->n);
    bool *reduce = TW_NEW_ARRAY(d->arena, bool, block->n);
    for (unsigned i = 0; i < block->n; i++) {
        if (!tw_machine_size(d->m, extents->u.map.exprs[i], &sizes[i]))
            tw_machine_fail(d->m, op, "an extent of the block is not known");
        reduce[i] = tw_block_iter_reduces(op, i);
        uint32_t slot = tw_decode_variable(d, op->regions[1].args[i]);
        if (op->regions[0].n_args > i)
            tw_decode_define(d, op->regions[0].args[i], slot);
        if (i == 0)
            block->first = slot;
    }
    block->extents = sizes;
    block->reduce = reduce;
    block->init = tw_decode_region(d, &op->regions[0]);
    block->body = tw_decode_region(d, &op->regions[1]);
    tw_decode_emit(d, out, tw_exec_block, op, 0)->extra = block;
}

static void decode_if(tw_decoder *d, tw_instr_vec *out, const tw_op *op)
{
    tw_if_code *code = TW_NEW(d->arena, tw_if_code);
    code->where.terms = tw_decode_map(d, out, op, tw_op_attr(op, "where"), 0, &code->where.n);
    code->then = tw_decode_region(d, &op->regions[0]);
    code->other = tw_decode_region(d, &op->regions[1]);
    tw_decode_emit(d, out, tw_exec_if, op, 0)->extra = code;
}

static void decode_call(tw_decoder *d, tw_instr_vec *out, const tw_op *op)
{
    tw_call_code *call = TW_NEW(d->arena, tw_call_code);
    const char *name = tw_op_string(op, "callee", "");
    const tw_op *callee = tw_map_get_str(&d->m->symbols, name);
    if (!callee || !tw_is_loop(callee, TW_LOOP_KERNEL))
        tw_machine_fail(d->m, op, "there is no kernel '@%s'", name);
    call->callee = tw_decode(d->m, callee);
    call->n = op->n_operands;
    if (call->n != call->callee->n_args)
        tw_machine_fail(d->m, op, "%u arguments for kernel '@%s', which has %u", call->n, name,
                        call->callee->n_args);
    call->args = TW_NEW_ARRAY(d->arena, tw_membuf *, call->n);
    for (unsigned i = 0; i < call->n; i++)
        call->args[i] = tw_decode_buffer(d, op, tw_operand(op, i));
    tw_decode_emit(d, out, tw_exec_call, op, 0)->extra = call;
}

/* What may change sizes, or is decided when it is decoded. */
static bool may_wait(tw_op *op, void *data)
{
    (void)data;
    return !tw_is_loop(op, TW_LOOP_BIND) && !tw_is_loop(op, TW_LOOP_PROVIDE) &&
           !tw_is_loop(op, TW_LOOP_CHECK) && !tw_is_loop(op, TW_LOOP_RENEW);
}

/* core.if and core.loop; the operands before the condition are those of the loop. */
static void decode_control(tw_decoder *d, tw_instr_vec *out, const tw_op *op, tw_exec run)
{
    tw_control_code *code = TW_NEW(d->arena, tw_control_code);
    code->condition = tw_decode_buffer(d, op, tw_operand(op, op->n_operands - 1));
    if (op->n_operands > 1) {
        code->number = tw_decode_buffer(d, op, tw_operand(op, 0));
        code->trips = tw_decode_buffer(d, op, tw_operand(op, 1));
    }
    if (!tw_walk((tw_op *)op, may_wait, NULL))
        code->function = d;
    for (unsigned i = 0; i < op->n_regions && !code->function; i++)
        code->regions[i] = tw_decode_region(d, &op->regions[i]);
    tw_decode_emit(d, out, run, op, 0)->extra = code;
}

static bool decode_core(tw_decoder *d, tw_instr_vec *out, const tw_op *op)
{
    switch (tw_core_kind_of(op)) {
    case TW_CORE_CALL:
        decode_call(d, out, op);
        return true;
    case TW_CORE_RETURN:
        return true;
    case TW_CORE_IF:
        decode_control(d, out, op, tw_exec_core_if);
        return true;
    case TW_CORE_LOOP:
        decode_control(d, out, op, tw_exec_core_loop);
        return true;
    case TW_CORE_FAIL:
        tw_decode_emit(d, out, tw_exec_core_fail, op, 0);
        return true;
    default:
        return false;
    }
}

void tw_decode_op(tw_decoder *d, tw_instr_vec *out, const tw_op *op)
{
    switch (tw_loop_kind_of(op)) {
    case TW_LOOP_ALLOC:
        decode_alloc(d, out, op);
        return;
    case TW_LOOP_CONSTANT_BUFFER:
        decode_constant_buffer(d, op);
        return;
    case TW_LOOP_VIEW:
        decode_view(d, out, op);
        return;
    case TW_LOOP_BIND:
        decode_bind(d, out, op);
        return;
    case TW_LOOP_RENEW:
        decode_renew(d, op);
        return;
    case TW_LOOP_PROVIDE:
        decode_provide(d, op);
        return;
    case TW_LOOP_ROUTINE:
        tw_decode_routine(d, op);
        return;
    case TW_LOOP_CHECK:
        decode_check(d, op);
        return;
    case TW_LOOP_FOR:
    case TW_LOOP_FOR_DYNAMIC:
        decode_for(d, out, op);
        return;
    case TW_LOOP_BLOCK:
        decode_block(d, out, op);
        return;
    case TW_LOOP_IF:
        decode_if(d, out, op);
        return;
    case TW_LOOP_BARRIER:
        tw_decode_emit(d, out, tw_exec_barrier, op, 0);
        return;
    case TW_LOOP_LOAD:
    case TW_LOOP_STORE:
        decode_access(d, out, op);
        return;
    case TW_LOOP_CONST:
        decode_const(d, op);
        return;
    case TW_LOOP_INDEX:
        decode_index(d, out, op);
        return;
    case TW_LOOP_CMP:
        decode_cmp(d, out, op);
        return;
    case TW_LOOP_CAST:
        decode_cast(d, out, op);
        return;
    case TW_LOOP_REDUCE_LANES:
        decode_reduce_lanes(d, out, op);
        return;
    case TW_LOOP_RAMP:
        decode_pure(d, out, op, tw_exec_ramp);
        return;
    case TW_LOOP_BROADCAST:
        decode_pure(d, out, op, tw_exec_copy);
        return;
    case TW_LOOP_SELECT:
        decode_pure(d, out, op, tw_exec_select);
        return;
    case TW_LOOP_BITCAST:
        decode_pure(d, out, op, tw_exec_bitcast);
        return;
    case TW_LOOP_KERNEL:
    case TW_LOOP_COUNT:
        break;
    default:
        decode_arithmetic(d, out, op);
        return;
    }
    if (!decode_core(d, out, op))
        tw_machine_fail(d->m, op, "the interpreter does not run '%s'", op->def->name);
}
