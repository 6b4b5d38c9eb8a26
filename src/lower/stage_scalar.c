/* stage_scalar.c: scalars and memory of stages. */
#include "ir/scalar.h"
#include "lower/lowering.h"

#include <stdio.h>
#include <string.h>

tw_context *tw_lowering_context(tw_lowering *l)
{
    return l->ctx;
}

tw_value *tw_lowering_alloc(tw_lowering *l, tw_elem elem, unsigned rank, const tw_expr *dims,
                            const char *name)
{
    tw_region *place = tw_lowering_place(l);
    /* In loops it comes first, so that schedules may move blocks to and fro. */
    tw_builder b = {l->ctx, place, l->n_outer ? place->first : NULL, l->op->loc};
    return tw_loop_alloc(&b, tw_type_buffer(l->ctx, elem, rank, dims, ""), name);
}

tw_value *tw_lowering_table(tw_lowering *l, tw_elem elem, unsigned rank, const int64_t *dims,
                            const void *data, size_t size)
{
    tw_region *region = &l->kernel->regions[0];
    tw_builder b = {l->ctx, region, region->first, l->op->loc};
    tw_type tensor = tw_type_tensor_static(l->ctx, elem, rank, dims);
    tw_type type = tw_type_buffer(l->ctx, elem, rank, tensor->dims, "");
    /* Tables stand first in the kernel; they are few. */
    for (tw_op *op = region->first; op && tw_is_loop(op, TW_LOOP_CONSTANT_BUFFER); op = op->next) {
        tw_attr have = tw_op_attr(op, "value");
        if (op->results[0].type == type && !memcmp(have->u.dense.data, data, size))
            return tw_result(op, 0);
    }
    tw_op *op = tw_build(&b, &tw_loop_ops[TW_LOOP_CONSTANT_BUFFER], NULL, 0, &type, 1, "value",
                         tw_attr_dense(l->ctx, tensor, data, size), NULL);
    tw_value_set_name(tw_result(op, 0), "table");
    return tw_result(op, 0);
}

tw_value *tw_stage_op(tw_stage *s, const char *name, tw_value *a, tw_value *b, tw_value *c)
{
    char full[64];
    snprintf(full, sizeof full, "loop.%s", name);
    const tw_op_def *def = tw_op_def_find(s->l->ctx, full);
    tw_value *operands[] = {a, b, c};
    tw_type type = a->type;
    return tw_result(tw_build(&s->b, def, operands, c ? 3 : b ? 2 : 1, &type, 1, NULL), 0);
}

tw_value *tw_stage_compare(tw_stage *s, const char *predicate, tw_value *a, tw_value *b)
{
    return tw_loop_cmp(&s->b, predicate, a, b);
}

tw_value *tw_stage_select(tw_stage *s, tw_value *condition, tw_value *a, tw_value *b)
{
    return tw_loop_op(&s->b, TW_LOOP_SELECT, (tw_value *[]){condition, a, b}, 3, a->type);
}

tw_value *tw_stage_const(tw_stage *s, tw_elem elem, double value)
{
    tw_number v = tw_scalar_convert((tw_number){.real = value}, TW_F64, elem, false);
    tw_type type = tw_type_scalar(s->l->ctx, elem);
    return tw_elem_is_float(elem) ? tw_loop_const_float(&s->b, type, v.real)
                                  : tw_loop_const_int(&s->b, type, v.integer);
}

tw_value *tw_stage_size(tw_stage *s, tw_elem elem, tw_expr size)
{
    return tw_expr_is_const(size) ? tw_stage_const(s, elem, (double)size->value)
                                  : tw_stage_cast(s, tw_stage_index(s, size), elem);
}

tw_value *tw_stage_cast(tw_stage *s, tw_value *value, tw_elem elem)
{
    if (value->type->elem == elem)
        return value;
    tw_type type = tw_type_scalar(s->l->ctx, elem);
    return tw_loop_op(&s->b, TW_LOOP_CAST, &value, 1, type);
}

tw_elem tw_compute_elem(tw_elem elem)
{
    return tw_elem_is_float(elem) && tw_elem_bits(elem) < 32 ? TW_F32 : elem;
}

const char *tw_short_name(const tw_op *op)
{
    const char *dot = strchr(op->def->name, '.');
    return dot ? dot + 1 : op->def->name;
}

const char *tw_name(tw_lowering *l, const char *base, const char *suffix)
{
    return tw_arena_printf(l->arena, "%s%s", base, suffix);
}

tw_value *tw_lower_accumulator(tw_lowering *l, tw_value *buffer, tw_elem elem)
{
    if (buffer->type->elem == elem)
        return buffer;
    return tw_lowering_alloc(l, elem, buffer->type->rank, buffer->type->dims, "acc");
}

void tw_lower_finish(tw_lowering *l, const char *name, tw_value *accumulator, tw_value *buffer)
{
    if (accumulator == buffer)
        return;
    tw_stage s;
    tw_stage_elementwise(l, &s, tw_name(l, name, "_round"), buffer);
    tw_stage_store_here(&s, tw_stage_load_broadcast(&s, accumulator, buffer->type->rank), buffer);
    tw_stage_close(&s);
}
