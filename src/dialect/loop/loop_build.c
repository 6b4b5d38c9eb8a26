/* loop_build.c: builders and accessors of the loop dialect. */
#include "dialect/loop/loop.h"

#include "base/arena.h"
#include "base/vec.h"

#include <string.h>

tw_op *tw_loop_kernel(tw_builder *b, const char *name, const tw_type *buffers,
                      const char *const *names, unsigned n, unsigned outputs)
{
    tw_op *kernel =
        tw_build(b, &tw_loop_ops[TW_LOOP_KERNEL], NULL, 0, NULL, 0, "sym_name",
                 tw_attr_symbol(b->ctx, name), "outputs", tw_attr_int(b->ctx, outputs), NULL);
    for (unsigned i = 0; i < n; i++)
        tw_region_add_arg(&kernel->regions[0], buffers[i], names ? names[i] : NULL);
    return kernel;
}

tw_value *tw_loop_alloc(tw_builder *b, tw_type buffer, const char *name)
{
    tw_op *op = tw_build(b, &tw_loop_ops[TW_LOOP_ALLOC], NULL, 0, &buffer, 1, NULL);
    tw_value_set_name(tw_result(op, 0), name);
    return tw_result(op, 0);
}

tw_op *tw_loop_for(tw_builder *b, tw_expr lo, tw_expr hi, tw_value *const *operands, unsigned n,
                   const char *kind, const char *name)
{
    tw_attr bounds = tw_attr_map(b->ctx, n, (tw_expr[]){lo, hi}, 2);
    bool serial = !kind || !strcmp(kind, "serial");
    tw_op *op = tw_build(b, &tw_loop_ops[TW_LOOP_FOR], operands, n, NULL, 0, "bounds", bounds,
                         "kind", serial ? NULL : tw_attr_string(b->ctx, kind), NULL);
    tw_region_add_arg(&op->regions[0], tw_type_scalar(b->ctx, TW_INDEX), name);
    return op;
}

tw_op *tw_loop_block(tw_builder *b, const char *name, const tw_loop_iter *iters, unsigned n_iters,
                     tw_value *const *operands, unsigned n_operands)
{
    tw_arena *arena = tw_context_arena(b->ctx);
    tw_attr *kinds = TW_NEW_ARRAY(arena, tw_attr, n_iters);
    tw_expr *extents = TW_NEW_ARRAY(arena, tw_expr, n_iters);
    tw_expr *bindings = TW_NEW_ARRAY(arena, tw_expr, n_iters);
    for (unsigned i = 0; i < n_iters; i++) {
        kinds[i] = tw_attr_string(b->ctx, iters[i].reduce ? "reduce" : "spatial");
        extents[i] = iters[i].extent;
        bindings[i] = iters[i].binding;
    }
    tw_op *op =
        tw_build(b, &tw_loop_ops[TW_LOOP_BLOCK], operands, n_operands, NULL, 0, "sym_name",
                 tw_attr_string(b->ctx, name), "iters", tw_attr_array(b->ctx, kinds, n_iters),
                 "extents", tw_attr_map(b->ctx, 0, extents, n_iters), "bindings",
                 tw_attr_map(b->ctx, n_operands, bindings, n_iters), NULL);
    for (unsigned r = 0; r < 2; r++)
        for (unsigned i = 0; i < n_iters; i++)
            tw_region_add_arg(&op->regions[r], tw_type_scalar(b->ctx, TW_INDEX), iters[i].name);
    return op;
}

/* The lanes that an access has by its index operands: the type of what is moved. */
static tw_type access_type(tw_context *ctx, tw_elem elem, tw_value *const *operands, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (operands[i]->type->kind == TW_TYPE_VECTOR)
            return tw_type_vector(ctx, elem, tw_type_dim(operands[i]->type, 0));
    return tw_type_scalar(ctx, elem);
}

tw_value *tw_loop_load(tw_builder *b, tw_value *buffer, const tw_expr *index,
                       tw_value *const *operands, unsigned n_operands, const tw_expr *where,
                       unsigned n_where, tw_value *other)
{
    tw_value **all = TW_NEW_ARRAY(tw_context_arena(b->ctx), tw_value *, n_operands + 2u);
    unsigned n = 0;
    all[n++] = buffer;
    for (unsigned i = 0; i < n_operands; i++)
        all[n++] = operands[i];
    if (n_where)
        all[n++] = other;
    tw_type type = access_type(b->ctx, buffer->type->elem, operands, n_operands);
    tw_attr mask = n_where ? tw_attr_map(b->ctx, n_operands, where, n_where) : NULL;
    return tw_result(tw_build(b, &tw_loop_ops[TW_LOOP_LOAD], all, n, &type, 1, "index",
                              tw_attr_map(b->ctx, n_operands, index, buffer->type->rank), "where",
                              mask, NULL),
                     0);
}

tw_op *tw_loop_store(tw_builder *b, tw_value *value, tw_value *buffer, const tw_expr *index,
                     tw_value *const *operands, unsigned n_operands, const tw_expr *where,
                     unsigned n_where)
{
    tw_value **all = TW_NEW_ARRAY(tw_context_arena(b->ctx), tw_value *, n_operands + 2u);
    all[0] = value;
    all[1] = buffer;
    for (unsigned i = 0; i < n_operands; i++)
        all[i + 2] = operands[i];
    tw_attr mask = n_where ? tw_attr_map(b->ctx, n_operands, where, n_where) : NULL;
    return tw_build(b, &tw_loop_ops[TW_LOOP_STORE], all, n_operands + 2, NULL, 0, "index",
                    tw_attr_map(b->ctx, n_operands, index, buffer->type->rank), "where", mask,
                    NULL);
}

tw_value *tw_loop_const_int(tw_builder *b, tw_type type, int64_t value)
{
    tw_attr attr =
        type->elem == TW_BOOL ? tw_attr_bool(b->ctx, value != 0) : tw_attr_int(b->ctx, value);
    return tw_result(
        tw_build(b, &tw_loop_ops[TW_LOOP_CONST], NULL, 0, &type, 1, "value", attr, NULL), 0);
}

tw_value *tw_loop_const_float(tw_builder *b, tw_type type, double value)
{
    return tw_result(tw_build(b, &tw_loop_ops[TW_LOOP_CONST], NULL, 0, &type, 1, "value",
                              tw_attr_float(b->ctx, value), NULL),
                     0);
}

tw_value *tw_loop_op(tw_builder *b, tw_loop_kind kind, tw_value *const *operands, unsigned n,
                     tw_type type)
{
    if (!type)
        type = operands[0]->type;
    return tw_result(tw_build(b, &tw_loop_ops[kind], operands, n, &type, 1, NULL), 0);
}

tw_value *tw_loop_cmp(tw_builder *b, const char *pred, tw_value *a, tw_value *c)
{
    tw_type type = a->type->kind == TW_TYPE_VECTOR
                       ? tw_type_vector(b->ctx, TW_BOOL, tw_type_dim(a->type, 0))
                       : tw_type_scalar(b->ctx, TW_BOOL);
    return tw_result(tw_build(b, &tw_loop_ops[TW_LOOP_CMP], (tw_value *[]){a, c}, 2, &type, 1,
                              "pred", tw_attr_string(b->ctx, pred), NULL),
                     0);
}

bool tw_loop_get_access(const tw_op *op, tw_loop_access *out)
{
    bool load = tw_is_loop(op, TW_LOOP_LOAD);
    if (!load && !tw_is_loop(op, TW_LOOP_STORE))
        return false;
    *out = (tw_loop_access){.index = tw_op_attr(op, "index"), .where = tw_op_attr(op, "where")};
    out->buffer = tw_operand(op, load ? 0 : 1);
    out->first_index = load ? 1 : 2;
    unsigned around = out->first_index + (load && out->where);
    out->n_index = op->n_operands > around ? op->n_operands - around : 0;
    out->value = load ? NULL : tw_operand(op, 0);
    out->other = load && out->where ? tw_operand(op, op->n_operands - 1) : NULL;
    return true;
}

bool tw_block_iter_reduces(const tw_op *block, size_t i)
{
    return !strcmp(tw_op_attr(block, "iters")->u.array.items[i]->u.string.text, "reduce");
}

/* ---- Lists ---- */

typedef struct collector {
    tw_arena *arena;
    bool (*wanted)(const tw_op *op);
    TW_VEC(tw_op *) ops;
} collector;

static bool collect(tw_op *op, void *data)
{
    collector *c = data;
    if (!c->wanted || c->wanted(op))
        tw_vec_push(c->arena, &c->ops, op);
    return true;
}

tw_loop_list tw_loop_collect(tw_context *ctx, tw_op *root, bool (*wanted)(const tw_op *op))
{
    collector c = {.arena = tw_context_arena(ctx), .wanted = wanted};
    tw_walk(root, collect, &c);
    return (tw_loop_list){c.ops.data, c.ops.len};
}

bool tw_is_for_kind(const tw_op *op, const char *kind)
{
    return tw_is_loop(op, TW_LOOP_FOR) && !strcmp(tw_loop_for_kind(op), kind);
}

bool tw_loop_kind_is_bound(const char *kind)
{
    static const char *const axes[] = {"blockIdx.x",  "blockIdx.y",  "blockIdx.z", "threadIdx.x",
                                       "threadIdx.y", "threadIdx.z", "vthread"};
    for (size_t i = 0; i < sizeof axes / sizeof *axes; i++)
        if (!strcmp(kind, axes[i]))
            return true;
    return false;
}
