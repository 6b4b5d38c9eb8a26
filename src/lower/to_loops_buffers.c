/* to_loops_buffers.c: where the values of a function lie. */
#include "lower/to_loops_impl.h"

#include "lower/view_of.h"

#include <string.h>

tw_type tw_to_loops_buffer_of(tw_context *ctx, tw_type tensor)
{
    return tw_type_buffer(ctx, tensor->elem, tensor->rank, tensor->dims, "");
}

/* Strings are bytes in the constants, which a routine makes addresses of. */
static tw_value *text_buffer(tw_to_loops *t, tw_builder *at, tw_attr value, const char *name)
{
    tw_context *ctx = t->ctx;
    tw_type type = value->u.dense.type;
    char *const *texts = value->u.dense.data;
    int64_t dims[TW_MAX_RANK];
    size_t n = value->u.dense.size / sizeof *texts, size = 0;
    for (size_t i = 0; i < n; i++)
        size += strlen(texts[i]) + 1;
    char *bytes = tw_context_alloc(ctx, size + 1), *end = bytes;
    for (size_t i = 0; i < n; i++)
        end = stpcpy(end, texts[i]) + 1;
    for (unsigned i = 0; i < type->rank; i++)
        dims[i] = tw_type_dim(type, i);
    tw_type packed = tw_type_tensor_static(ctx, TW_U8, 1, (int64_t[]){(int64_t)size});
    tw_type buffer = tw_to_loops_buffer_of(ctx, packed), result = tw_to_loops_buffer_of(ctx, type);
    tw_op *op = tw_build(at, &tw_loop_ops[TW_LOOP_CONSTANT_BUFFER], NULL, 0, &buffer, 1, "value",
                         tw_attr_dense(ctx, packed, bytes, size), "name",
                         name ? tw_attr_string(ctx, name) : NULL, NULL);
    tw_value *from = tw_result(op, 0);
    return tw_result(tw_build(at, &tw_loop_ops[TW_LOOP_ROUTINE], &from, 1, &result, 1, "name",
                              tw_attr_string(ctx, "text"), "params",
                              tw_attr_ints(ctx, dims, type->rank), NULL),
                     0);
}

tw_value *tw_to_loops_constant_buffer(tw_to_loops *t, tw_attr value, const char *name)
{
    enum { SMALL = 1 << 12 };
    struct {
        const void *data;
        tw_type type;
        uint64_t hash;
    } key = {value->u.dense.data, value->u.dense.type, 0};
    if (value->u.dense.size <= SMALL) {
        key.hash = tw_hash_bytes(key.data, value->u.dense.size, 0) | 1;
        key.data = NULL;
    }
    tw_value *buffer = tw_map_get(&t->constants, &key, sizeof key);
    if (buffer)
        return buffer;
    tw_type type = tw_to_loops_buffer_of(t->ctx, value->u.dense.type);
    tw_builder at = t->depth ? t->outer : t->body; /* where all regions see it */
    at.loc = t->body.loc;
    if (type->elem == TW_STRING) {
        buffer = text_buffer(t, &at, value, name);
        tw_map_put(&t->constants, &key, sizeof key, buffer);
        return buffer;
    }
    tw_op *op = tw_build(&at, &tw_loop_ops[TW_LOOP_CONSTANT_BUFFER], NULL, 0, &type, 1, "value",
                         value, "name", name ? tw_attr_string(t->ctx, name) : NULL, NULL);
    buffer = tw_result(op, 0);
    tw_map_put(&t->constants, &key, sizeof key, buffer);
    return buffer;
}

/* A view of what a view shows is one of that one's memory. */
static tw_value *seen_by(tw_value *buffer, tw_type type, int64_t *offset)
{
    if (!buffer->op || !tw_is_loop(buffer->op, TW_LOOP_VIEW) || buffer->type->elem != type->elem ||
        tw_operand(buffer->op, 0)->type->elem != type->elem)
        return buffer;
    *offset += tw_op_int(buffer->op, "offset", 0);
    return tw_operand(buffer->op, 0);
}

tw_value *tw_to_loops_new_view(tw_to_loops *t, tw_value *buffer, tw_type type, int64_t offset)
{
    buffer = seen_by(buffer, type, &offset);
    return tw_result(tw_build(&t->body, &tw_loop_ops[TW_LOOP_VIEW], &buffer, 1, &type, 1, "offset",
                              offset ? tw_attr_int(t->ctx, offset) : NULL, NULL),
                     0);
}

tw_value *tw_to_loops_view_at(tw_to_loops *t, tw_value *buffer, tw_type type, int64_t offset)
{
    buffer = seen_by(buffer, type, &offset);
    return buffer->type == type && !offset ? buffer : tw_to_loops_new_view(t, buffer, type, offset);
}

tw_value *tw_to_loops_view(tw_to_loops *t, tw_value *buffer, tw_type tensor, int64_t offset)
{
    return tw_to_loops_view_at(t, buffer, tw_to_loops_buffer_of(t->ctx, tensor), offset);
}

bool tw_to_loops_is_slot(const tw_value *buffer)
{
    return buffer->op && tw_is_loop(buffer->op, TW_LOOP_ALLOC) && tw_op_attr(buffer->op, "later");
}

tw_value *tw_to_loops_buffer_for(tw_to_loops *t, tw_value *value)
{
    tw_value *buffer = tw_map_get_ptr(&t->buffers, value);
    if (buffer && tw_to_loops_is_slot(buffer))
        return tw_to_loops_view(t, buffer, value->type, 0);
    if (buffer)
        return buffer;
    tw_attr constant = tw_graph_constant_value(value);
    buffer = tw_to_loops_placed_buffer(t, value);
    if (buffer)
        ; /* in another value's memory */
    else if (constant)
        buffer = tw_to_loops_constant_buffer(t, constant, tw_op_string(value->op, "name", NULL));
    else
        buffer = tw_loop_alloc(&t->body, tw_to_loops_buffer_of(t->ctx, value->type), NULL);
    if (value->name)
        tw_value_set_name(buffer, value->name);
    tw_map_put_ptr(&t->buffers, value, buffer);
    return buffer;
}

bool tw_to_loops_is_bound(const tw_to_loops *t, const tw_value *output)
{
    return !output->op && tw_core_is_bound_type(t->module, output->type);
}

void tw_to_loops_provide(tw_to_loops *t, tw_value *output)
{
    if (tw_to_loops_is_bound(t, output) && !tw_map_put_ptr(&t->provided, output, t))
        tw_build(&t->body, &tw_loop_ops[TW_LOOP_PROVIDE], &output, 1, NULL, 0, NULL);
}

tw_value *tw_to_loops_renew(tw_to_loops *t, tw_value *slot, tw_type type)
{
    tw_build(&t->body, &tw_loop_ops[TW_LOOP_RENEW], &slot, 1, NULL, 0, "type",
             tw_attr_type(t->ctx, type), NULL);
    return tw_to_loops_view_at(t, slot, type, 0);
}

tw_value *tw_to_loops_result_buffer(tw_to_loops *t, tw_value *result)
{
    tw_value *planned = tw_map_get_ptr(&t->planned, result);
    if (planned && tw_to_loops_is_slot(planned))
        planned = tw_to_loops_renew(t, planned, tw_to_loops_buffer_of(t->ctx, result->type));
    if (planned && tw_to_loops_is_bound(t, planned)) {
        tw_to_loops_provide(t, planned);
        planned = tw_to_loops_view(t, planned, result->type, 0);
    }
    if (planned)
        tw_map_put_ptr(&t->buffers, result, planned);
    return planned ? planned : tw_to_loops_buffer_for(t, result);
}

tw_value *tw_to_loops_memory_of(tw_value *buffer)
{
    while (buffer->op && tw_is_loop(buffer->op, TW_LOOP_VIEW))
        buffer = tw_operand(buffer->op, 0);
    return buffer;
}
