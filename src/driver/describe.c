/* describe.c: the descriptor of a compiled model, read off its modules. */
#include "driver/compilation.h"

#include "artifact/cpu.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "dialect/core/core.h"
#include "dialect/loop/loop.h"
#include "ir/mapped.h"

#include <string.h>

static const char *type_text(tw_context *ctx, tw_type type)
{
    tw_arena *arena = tw_context_arena(ctx);
    const char *text = "", *by = tw_type_is_static(type) ? "x" : " x ";
    for (unsigned i = 0; i < type->rank; i++)
        text = tw_arena_printf(arena, "%s%s%s", text, tw_print_expr(ctx, type->dims[i], NULL), by);
    return tw_arena_printf(arena, "%s%s", text, tw_elem_name(type->elem));
}

/* The number of a symbol in the module's list, or -1. */
static int32_t symbol_number(const tw_compilation *c, tw_expr e)
{
    for (size_t i = 0; e->kind == TW_EXPR_SYM && c->symbols && i < c->symbols->u.array.n; i++)
        if (!strcmp(c->symbols->u.array.items[i]->u.string.text, e->symbol))
            return (int32_t)i;
    return -1;
}

/* What is said of sizes that are not fixed. */
static void describe_symbols(tw_compilation *c, tw_type type, tw_abi_tensor *out)
{
    tw_arena *arena = tw_context_arena(c->ctx);
    if (tw_type_is_static(type))
        return;
    const char **texts = TW_NEW_ARRAY(arena, const char *, type->rank);
    int32_t *symbols = TW_NEW_ARRAY(arena, int32_t, type->rank);
    for (unsigned d = 0; d < type->rank; d++) {
        tw_expr size = type->dims[d];
        symbols[d] = symbol_number(c, size);
        texts[d] = tw_expr_is_const(size) ? NULL : tw_print_expr(c->ctx, size, NULL);
    }
    out->dim_symbols = symbols;
    out->dim_texts = texts;
}

static tw_abi_tensor describe_contents(tw_compilation *c, const tw_core_contents *contents)
{
    tw_arena *arena = tw_context_arena(c->ctx);
    int64_t *dims = TW_NEW_ARRAY(arena, int64_t, contents->rank + 1);
    const char **texts = TW_NEW_ARRAY(arena, const char *, contents->rank + 1);
    for (unsigned d = 0; d < contents->rank; d++) {
        dims[d] = contents->dims[d];
        texts[d] = dims[d] < 0 ? "?" : NULL;
    }
    return (tw_abi_tensor){.elem = contents->elem,
                           .rank = contents->rank,
                           .dims = contents->rank ? dims : NULL,
                           .dim_texts = contents->rank ? texts : NULL,
                           .flags = (contents->sequence ? TW_ABI_SEQUENCE : 0u) |
                                    (contents->optional ? TW_ABI_OPTIONAL : 0u) |
                                    (contents->any_rank ? TW_ABI_ANY_RANK : 0u)};
}

static tw_abi_tensor describe_tensor(tw_compilation *c, tw_type type)
{
    tw_arena *arena = tw_context_arena(c->ctx);
    int64_t *dims = TW_NEW_ARRAY(arena, int64_t, type->rank);
    for (unsigned d = 0; d < type->rank; d++)
        dims[d] = tw_expr_is_const(type->dims[d]) ? type->dims[d]->value : -1;
    tw_abi_tensor tensor = {.elem = type->elem,
                            .rank = type->rank,
                            .dims = type->rank ? dims : NULL,
                            .flags = tw_core_is_bound_type(c->graph, type) ? TW_ABI_DYNAMIC : 0};
    describe_symbols(c, type, &tensor);
    return tensor;
}

/* `side` is "input" or "output". */
static tw_abi_tensor *describe_tensors(tw_compilation *c, const tw_type *types, unsigned n,
                                       const char *side)
{
    tw_arena *arena = tw_context_arena(c->ctx);
    const tw_op *main = tw_core_lookup(c->variants[0].module, "main");
    const char *list = tw_arena_printf(arena, "%s_contents", side);
    tw_attr names = tw_op_attr(main, tw_arena_printf(arena, "%s_names", side));
    tw_abi_tensor *tensors = TW_NEW_ARRAY(arena, tw_abi_tensor, n);
    for (unsigned i = 0; i < n; i++) {
        tw_core_contents contents;
        tensors[i] = tw_core_contents_of(main, list, i, &contents) ? describe_contents(c, &contents)
                                                                   : describe_tensor(c, types[i]);
        tensors[i].name = names && i < names->u.array.n ? names->u.array.items[i]->u.string.text
                                                        : tw_arena_printf(arena, "%u", i);
    }
    return tensors;
}

/* "conv+add+relu" */
static const char *operators_of(tw_context *ctx, const tw_op *kernel)
{
    tw_attr ops = tw_op_attr(kernel, "ops");
    size_t n = ops ? ops->u.array.n : 0, size = 1;
    for (size_t i = 0; i < n; i++)
        size += ops->u.array.items[i]->u.string.len + 1;
    char *text = tw_context_alloc(ctx, size), *at = text;
    for (size_t i = 0; i < n; i++) {
        size_t len = ops->u.array.items[i]->u.string.len;
        if (i)
            *at++ = '+';
        memcpy(at, ops->u.array.items[i]->u.string.text, len);
        at += len;
    }
    return text;
}

typedef TW_VEC(tw_op *) op_list;

typedef struct listing {
    tw_arena *arena;
    op_list ops;
} listing;

static bool list_op(tw_op *op, void *data)
{
    listing *l = data;
    tw_vec_push(l->arena, &l->ops, op);
    return true;
}

/* Of a function, those of nested regions included, in the order of the text. */
static op_list operations_of(tw_compilation *c, tw_op *func)
{
    listing l = {.arena = tw_context_arena(c->ctx)};
    tw_walk(func, list_op, &l);
    return l.ops;
}

/* One entry a call, in order: the numbers that profiling uses. */
static void describe_kernels(tw_compilation *c, tw_op *module, tw_op *main, tw_abi_variant *out)
{
    tw_arena *arena = tw_context_arena(c->ctx);
    tw_map by_name = tw_map_make(arena);
    for (tw_op *op = tw_core_body(module)->first; op; op = op->next)
        if (tw_is_loop(op, TW_LOOP_KERNEL))
            tw_map_put_str(&by_name, tw_op_string(op, "sym_name", ""), op);
    TW_VEC(tw_abi_kernel) kernels = {0};
    op_list all = operations_of(c, main);
    for (size_t i = 0; i < all.len; i++) {
        const tw_op *op = all.data[i];
        if (!tw_is_core(op, TW_CORE_CALL))
            continue;
        const char *callee = tw_op_string(op, "callee", "");
        const tw_op *kernel = tw_map_get_str(&by_name, callee);
        tw_abi_kernel k = {.name = callee};
        if (kernel)
            k = (tw_abi_kernel){callee, operators_of(c->ctx, kernel),
                                (uint64_t)tw_op_int(kernel, "flops", 0),
                                (uint64_t)tw_op_int(kernel, "bytes", 0)};
        tw_vec_push(arena, &kernels, k);
    }
    out->kernels = kernels.data;
    out->n_kernels = (uint32_t)kernels.len;
}

/* Offset and size are 0 when they depend on symbols. */
static tw_abi_buffer describe_buffer(tw_context *ctx, const tw_op *alloc)
{
    tw_type type = alloc->results[0].type;
    int64_t count = 0;
    tw_type_static_count(type, &count);
    return (tw_abi_buffer){.name = alloc->results[0].name,
                           .type = type_text(ctx, type),
                           .offset = (uint64_t)tw_op_int(alloc, "offset", 0),
                           .size = ((uint64_t)count * tw_elem_bits(type->elem) + 7) / 8,
                           .first = UINT32_MAX};
}

/* The buffers and the numbers of the first and last call that use each or a view of it. */
static void describe_buffers(tw_compilation *c, tw_op *main, tw_abi_variant *out)
{
    tw_arena *arena = tw_context_arena(c->ctx);
    tw_map memory = tw_map_make(arena); /* value -> number of its buffer + 1 */
    TW_VEC(tw_abi_buffer) buffers = {0};
    op_list all = operations_of(c, main);
    uint32_t step = 0;
    for (size_t k = 0; k < all.len; k++) {
        tw_op *op = all.data[k];
        uintptr_t number = 0;
        if (tw_is_loop(op, TW_LOOP_ALLOC) && tw_op_attr(op, "offset")) {
            tw_vec_push(arena, &buffers, describe_buffer(c->ctx, op));
            number = buffers.len;
        } else if (tw_is_loop(op, TW_LOOP_VIEW)) {
            number = (uintptr_t)tw_map_get_ptr(&memory, tw_operand(op, 0));
        }
        if (number)
            tw_map_put_ptr(&memory, tw_result(op, 0), (void *)number);
        if (!tw_is_core(op, TW_CORE_CALL))
            continue;
        for (unsigned i = 0; i < op->n_operands; i++) {
            number = (uintptr_t)tw_map_get_ptr(&memory, tw_operand(op, i));
            if (!number)
                continue;
            tw_abi_buffer *b = &buffers.data[number - 1];
            b->first = step < b->first ? step : b->first;
            b->last = step;
        }
        step++;
    }
    out->buffers = buffers.data;
    out->n_buffers = (uint32_t)buffers.len;
}

static bool cpu_features(tw_compilation *c, const tw_target *target, uint64_t *features)
{
    tw_cpu_features need = {0};
    const char *unknown = NULL;
    if (target->arch == TW_ARCH_X86_64 &&
        !tw_cpu_parse(target->level, target->features, &need, &unknown))
        return tw_error(c->ctx, NULL, "'%s' of target '%s' is not known to the runtime",
                        unknown ? unknown : target->level, target->name);
    memcpy(features, need.words, sizeof need.words);
    return true;
}

static bool describe_variant(tw_compilation *c, tw_variant *v, tw_abi_variant *out,
                             tw_artifact_code *code)
{
    tw_op *main = tw_core_lookup(v->module, "main");
    *out = (tw_abi_variant){.cpu = v->target.name};
    out->arena_size = (uint64_t)tw_op_int(main, "arena_size", 0);
    describe_kernels(c, v->module, main, out);
    describe_buffers(c, main, out);
    *code = (tw_artifact_code){.entry = v->code.entry, .plan = v->code.plan};
    return cpu_features(c, &v->target, out->features);
}

/* Constants once each, in the order of their offsets. */
static void describe_constants(tw_compilation *c, tw_op *main, tw_abi_model *out)
{
    tw_arena *arena = tw_context_arena(c->ctx);
    TW_VEC(tw_abi_constant) constants = {0};
    int64_t end = -1;
    for (tw_op *op = tw_core_body(main)->first; op; op = op->next) {
        if (!tw_is_loop(op, TW_LOOP_CONSTANT_BUFFER))
            continue;
        tw_attr value = tw_op_attr(op, "value");
        int64_t offset = tw_op_int(op, "const_offset", 0);
        if (offset <= end) /* placed with an equal one before */
            continue;
        end = offset;
        tw_abi_constant k = {tw_op_string(op, "name", ""), type_text(c->ctx, value->u.dense.type),
                             (uint64_t)offset, value->u.dense.size};
        tw_vec_push(arena, &constants, k);
    }
    out->constant_table = constants.data;
    out->n_constants = (uint32_t)constants.len;
    out->constants_size = (uint64_t)tw_op_int(main, "constants_size", 0);
}

static bool write_constants(void *data, tw_sink *sink)
{
    tw_compilation *c = data;
    tw_op *main = tw_core_lookup(c->variants[0].module, "main");
    int64_t end = -1;
    for (tw_op *op = tw_core_body(main)->first; op; op = op->next) {
        int64_t offset = tw_op_int(op, "const_offset", 0);
        if (!tw_is_loop(op, TW_LOOP_CONSTANT_BUFFER) || offset <= end)
            continue;
        end = offset;
        tw_attr value = tw_op_attr(op, "value");
        if (!tw_sink_pad(sink, (uint64_t)offset) ||
            !tw_sink_write(sink, value->u.dense.data, value->u.dense.size))
            return false;
        tw_mapped_give_back(c->ctx, value->u.dense.data, value->u.dense.size);
    }
    return tw_sink_pad(sink, (uint64_t)tw_op_int(main, "constants_size", 0));
}

static void gather_objects(tw_compilation *c, tw_artifact *out)
{
    TW_VEC(tw_bytes) objects = {0};
    for (size_t v = 0; v < c->n_variants; v++)
        for (size_t i = 0; i < c->variants[v].code.n_pieces; i++) {
            tw_code *piece = &c->variants[v].code.pieces[i];
            tw_bytes bytes = {piece->bytes, piece->size};
            tw_vec_push(tw_context_arena(c->ctx), &objects, bytes);
        }
    out->objects = objects.data;
    out->n_objects = objects.len;
}

bool tw_describe_artifact(tw_compilation *c, tw_artifact *out)
{
    tw_arena *arena = tw_context_arena(c->ctx);
    *out = (tw_artifact){.constants = write_constants, .constants_data = c};
    tw_abi_model *m = &out->model;
    m->name = c->name;
    m->target = c->variants[0].target.triple;
    m->n_inputs = c->signature->n_inputs;
    m->n_outputs = c->signature->n_results;
    c->symbols = tw_op_attr(c->variants[0].module, "symbols");
    m->n_symbols = (uint32_t)tw_core_input_symbols(c->variants[0].module);
    const char **symbols = TW_NEW_ARRAY(arena, const char *, m->n_symbols);
    for (uint32_t i = 0; i < m->n_symbols; i++)
        symbols[i] = c->symbols->u.array.items[i]->u.string.text;
    m->symbols = symbols;
    m->inputs = describe_tensors(c, c->signature->inputs, m->n_inputs, "input");
    m->outputs = describe_tensors(c, c->signature->results, m->n_outputs, "output");
    tw_abi_variant *variants = TW_NEW_ARRAY(arena, tw_abi_variant, c->n_variants);
    tw_artifact_code *code = TW_NEW_ARRAY(arena, tw_artifact_code, c->n_variants);
    for (size_t i = 0; i < c->n_variants; i++)
        if (!describe_variant(c, &c->variants[i], &variants[i], &code[i]))
            return false;
    m->variants = variants;
    m->n_variants = (uint32_t)c->n_variants;
    out->code = code;
    describe_constants(c, tw_core_lookup(c->variants[0].module, "main"), m);
    gather_objects(c, out);
    return true;
}
