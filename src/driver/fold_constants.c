/* fold_constants.c: fold-constants.
 *
 *     %p = graph.transpose %w {perm = [1, 0]}      %w a constant
 * becomes
 *     %p = graph.constant …                        with the data in the new order
 *
 * The foldable operations of a function and its inner regions, and no others, are moved into a
 * module of their own, whose
 * @main takes the constants as arguments and returns the values that the rest of the function uses.
 * That module goes the same way as every model: kernels, schedules, code, a file in memory, the
 * runtime. Constants are passed by address: the bytes of a mapped model are not copied.
 *
 * Of large models' operations those that hang together go in batches, one after another; large
 * results lie in temporary files, and pages of both are given back behind each batch. So no more
 * than a batch is in memory at a time, whatever the size of the model. */
#include "driver/fold_constants.h"

#include "base/arena.h"
#include "base/checked.h"
#include "base/map.h"
#include "base/vec.h"
#include "dialect/core/core.h"
#include "dialect/graph/graph.h"
#include "driver/compilation.h"
#include "driver/run_module.h"
#include "interp/interp.h"
#include "ir/mapped.h"
#include "ir/traverse.h"

/* A result may be GROWTH times as large as its operands together, or as large as SMALL. All results
 * together may be TOTAL_GROWTH times as large as all constants, or as large as ENOUGH: operations
 * that double what they get double it again and again. In bytes; GROWTH is that of bytes cast to
 * 32 bits. */
enum { GROWTH = 4, SMALL = 64 << 10, TOTAL_GROWTH = 8, ENOUGH = 64 << 20 };

/* A batch is as large as that in bytes, constants and results together, or what hangs together. */
enum { DEFAULT_BATCH = 48 << 20 };

/* Foldable operations that are computed together. */
typedef struct batch {
    TW_VEC(tw_op *) ops;        /* in order */
    TW_VEC(tw_value *) inputs;  /* constants that they use */
    TW_VEC(tw_value *) results; /* that something else uses */
} batch;

/* A foldable operation; those that use one another's results have one root. */
typedef struct fold_op {
    struct fold_op *root; /* NULL: itself */
    tw_op *op;
    int64_t bytes; /* of the root: constants and results of all */
    batch *batch;  /* of the root */
} fold_op;

typedef struct folder {
    tw_context *ctx;
    tw_arena *arena;
    tw_op *func;
    TW_VEC(tw_op *) all;   /* operations of the function, in order, but not those of groups */
    tw_map foldable;       /* operation -> fold_op */
    TW_VEC(fold_op *) ops; /* in order */
    TW_VEC(batch *) batches;
    int64_t left;  /* bytes that may still be computed */
    int64_t batch; /* bytes of one, see above */
} folder;

static bool byte_size(tw_type type, int64_t *out)
{
    int64_t bits;
    if (type->kind != TW_TYPE_TENSOR || !tw_type_static_count(type, &bits) ||
        !tw_mul_i64(bits, tw_elem_bits(type->elem), &bits) || !tw_add_i64(bits, 7, &bits))
        return false;
    *out = bits / 8;
    return true;
}

static bool is_constant(const tw_value *value)
{
    return tw_graph_constant_value(value) != NULL;
}

/* Whether it makes something of nothing, which may be a mistake that no run may come to. */
static bool needs_more(const tw_op *op)
{
    int64_t in = 1, out = 0;
    return op->n_operands && tw_type_static_count(tw_operand(op, 0)->type, &in) && !in &&
           tw_type_static_count(op->results[0].type, &out) && out;
}

/* Whether all operands are known and the results stay within the budget, which they are taken
 * from. */
static bool can_fold(folder *f, const tw_op *op)
{
    int64_t in = 0, out = 0, size;
    if (tw_graph_kind_of(op) == TW_GRAPH_COUNT || tw_is_graph(op, TW_GRAPH_CONSTANT) ||
        op->n_regions || !(op->def->traits & TW_TRAIT_PURE) || !op->n_results || needs_more(op))
        return false;
    for (unsigned i = 0; i < op->n_operands; i++) {
        const tw_value *v = tw_operand(op, i);
        if (!is_constant(v) && !(v->op && tw_map_get_ptr(&f->foldable, v->op)))
            return false;
        if (!byte_size(v->type, &size) || v->type->elem == TW_STRING || !tw_add_i64(in, size, &in))
            return false;
    }
    for (unsigned i = 0; i < op->n_results; i++)
        if (!byte_size(op->results[i].type, &size) || op->results[i].type->elem == TW_STRING ||
            (size > SMALL && size / GROWTH > in) || !tw_add_i64(out, size, &out))
            return false;
    if (out > f->left)
        return false;
    f->left -= out;
    return true;
}

static void set_budget(folder *f)
{
    int64_t all = 0, size;
    for (size_t i = 0; i < f->all.len; i++) {
        const tw_op *op = f->all.data[i];
        if (tw_is_graph(op, TW_GRAPH_CONSTANT) && byte_size(op->results[0].type, &size) &&
            !tw_add_i64(all, size, &all))
            all = INT64_MAX;
    }
    if (!tw_mul_i64(all, TOTAL_GROWTH, &f->left))
        f->left = INT64_MAX;
    f->left = f->left > ENOUGH ? f->left : ENOUGH;
}

static void list_all(folder *f)
{
    tw_traversal t = {.root = f->func};
    for (tw_step step; (step = tw_traverse(&t)) != TW_STEP_DONE;) {
        if (step != TW_STEP_OP)
            continue;
        t.skip = tw_is_graph(t.op, TW_GRAPH_GROUP);
        tw_vec_push(f->arena, &f->all, t.op);
    }
}

/* ---- Batches ---- */

static fold_op *root_of(fold_op *o)
{
    for (; o->root; o = o->root)
        if (o->root->root)
            o->root = o->root->root;
    return o;
}

static void add_bytes(fold_op *o, int64_t bytes)
{
    if (!tw_add_i64(o->bytes, bytes, &o->bytes))
        o->bytes = INT64_MAX / 2;
}

static void add_foldable(folder *f, tw_op *op)
{
    fold_op *o = TW_NEW(f->arena, fold_op);
    *o = (fold_op){.op = op};
    int64_t size;
    for (unsigned i = 0; i < op->n_results; i++)
        if (byte_size(op->results[i].type, &size))
            add_bytes(o, size);
    for (unsigned i = 0; i < op->n_operands; i++) {
        const tw_value *v = tw_operand(op, i);
        fold_op *from = v->op ? tw_map_get_ptr(&f->foldable, v->op) : NULL;
        if (!from && byte_size(v->type, &size))
            add_bytes(o, size);
        if (!from || root_of(from) == o)
            continue;
        from = root_of(from);
        add_bytes(o, from->bytes);
        from->root = o;
    }
    tw_map_put_ptr(&f->foldable, op, o);
    tw_vec_push(f->arena, &f->ops, o);
}

/* The batch of an operation's root: the one that is being filled, or a new one. */
static batch *batch_of(folder *f, fold_op *root, int64_t *filled)
{
    if (root->batch)
        return root->batch;
    if (!f->batches.len || root->bytes > f->batch - *filled) {
        tw_vec_push(f->arena, &f->batches, TW_NEW(f->arena, batch));
        *filled = 0;
    }
    *filled += root->bytes;
    return root->batch = f->batches.data[f->batches.len - 1];
}

static void add_to_batch(folder *f, batch *b, tw_op *op, tw_map *seen)
{
    tw_vec_push(f->arena, &b->ops, op);
    for (unsigned i = 0; i < op->n_operands; i++) {
        tw_value *v = tw_operand(op, i);
        const void *key[] = {b, v};
        if (is_constant(v) && !tw_map_put(seen, key, sizeof key, v))
            tw_vec_push(f->arena, &b->inputs, v);
    }
    for (unsigned i = 0; i < op->n_results; i++) {
        bool used_outside = false;
        for (const tw_use *use = op->results[i].uses; use && !used_outside; use = use->next)
            used_outside = !tw_map_get_ptr(&f->foldable, use->user);
        if (used_outside)
            tw_vec_push(f->arena, &b->results, &op->results[i]);
    }
}

/* At most so many operations. */
static void collect(folder *f, uint64_t most)
{
    list_all(f);
    set_budget(f);
    for (size_t i = 0; i < f->all.len && f->ops.len < most; i++)
        if (can_fold(f, f->all.data[i]))
            add_foldable(f, f->all.data[i]);
    tw_map seen = tw_map_make(f->arena);
    int64_t filled = 0;
    for (size_t k = 0; k < f->ops.len; k++)
        add_to_batch(f, batch_of(f, root_of(f->ops.data[k]), &filled), f->ops.data[k]->op, &seen);
}

static tw_type *types_of(folder *f, tw_value *const *values, size_t n)
{
    tw_type *types = TW_NEW_ARRAY(f->arena, tw_type, n);
    for (size_t i = 0; i < n; i++)
        types[i] = values[i]->type;
    return types;
}

/* The module that computes the results from the inputs. */
static tw_op *make_module(folder *f, const batch *g)
{
    tw_op *module = tw_core_module(f->ctx, "constants", f->func->loc);
    tw_builder b = tw_builder_at_end(f->ctx, tw_core_body(module), f->func->loc);
    tw_type type =
        tw_type_func(f->ctx, types_of(f, g->inputs.data, g->inputs.len), (unsigned)g->inputs.len,
                     types_of(f, g->results.data, g->results.len), (unsigned)g->results.len);
    tw_op *func = tw_core_func(&b, "main", type, NULL);
    tw_cloner *cloner = tw_cloner_create(f->ctx);
    for (size_t i = 0; i < g->inputs.len; i++)
        tw_cloner_map(cloner, g->inputs.data[i], tw_core_body(func)->args[i]);
    for (size_t i = 0; i < g->ops.len; i++)
        tw_op_insert(tw_op_clone(cloner, g->ops.data[i]), tw_core_body(func), NULL);
    tw_value **results = TW_NEW_ARRAY(f->arena, tw_value *, g->results.len);
    for (size_t i = 0; i < g->results.len; i++)
        results[i] = tw_cloner_lookup(cloner, g->results.data[i]);
    tw_builder end = tw_builder_at_end(f->ctx, tw_core_body(func), f->func->loc);
    tw_core_return(&end, results, (unsigned)g->results.len);
    return module;
}

/* What a result is called: by its own name, or by that of the constant it is made from. */
static const char *name_of(const tw_value *value)
{
    enum { FAR = 64 };
    for (int i = 0; i < FAR && value && !value->name && value->op; i++) {
        const char *symbol = tw_op_string(value->op, "name", NULL);
        if (symbol && *symbol)
            return symbol;
        value = value->op->n_operands ? tw_operand(value->op, 0) : NULL;
    }
    return value ? value->name : NULL;
}

/* Memory for the results of a batch, one behind the other in one piece. */
static void place_results(folder *f, const batch *g, tw_interp_buffer *buffers)
{
    enum { ALIGNMENT = 64 };
    size_t end = 0;
    for (size_t i = 0; i < g->results.len; i++) {
        int64_t size = 0;
        byte_size(g->results.data[i]->type, &size); /* within the budget: no sum overflows */
        buffers[i].size = (size_t)size;
        end += (buffers[i].size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    char *memory = tw_mapped_alloc(f->ctx, end);
    for (size_t i = 0; i < g->results.len; i++) {
        buffers[i].data = memory;
        memory += (buffers[i].size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
}

static bool evaluate(folder *f, const batch *g, const tw_compile_options *options)
{
    size_t n = g->inputs.len + g->results.len;
    tw_interp_buffer *buffers = TW_NEW_ARRAY(f->arena, tw_interp_buffer, n);
    for (size_t i = 0; i < g->inputs.len; i++) {
        tw_attr value = tw_graph_constant_value(g->inputs.data[i]);
        buffers[i] = (tw_interp_buffer){(void *)value->u.dense.data, value->u.dense.size};
    }
    place_results(f, g, buffers + g->inputs.len);
    if (!tw_run_module(f->ctx, make_module(f, g), options, buffers, n))
        return false;
    for (size_t i = 0; i < n; i++)
        tw_mapped_give_back(f->ctx, buffers[i].data, buffers[i].size);
    for (size_t i = 0; i < g->results.len; i++) {
        tw_value *result = g->results.data[i];
        tw_builder b = tw_builder_before(f->ctx, result->op);
        const tw_interp_buffer *data = &buffers[g->inputs.len + i];
        tw_value *constant =
            tw_graph_constant(&b, result->type, data->data, data->size, name_of(result));
        tw_value_replace_all(result, constant);
    }
    for (size_t i = g->ops.len; i-- > 0;) /* users first */
        tw_op_erase(g->ops.data[i]);
    return true;
}

static bool run(tw_pass_run *pass)
{
    folder f = {.ctx = pass->ctx, .arena = tw_context_arena(pass->ctx), .func = pass->root};
    const tw_compilation *compilation = pass->user;
    static const tw_compile_options defaults = {.opt_level = 1};
    f.foldable = tw_map_make(f.arena);
    f.batch = tw_pass_int(pass, "batch", DEFAULT_BATCH);
    collect(&f, pass->max_changes);
    pass->changes += f.ops.len;
    for (size_t i = 0; i < f.batches.len; i++)
        if (f.batches.data[i]->results.len &&
            !evaluate(&f, f.batches.data[i], compilation ? compilation->options : &defaults))
            return false;
    return true;
}

static const tw_attr_spec options[] = {
    {"batch", TW_ATTR_INT, false, "bytes that are computed from and to at a time; default 48 MiB"},
    {0},
};

const tw_pass tw_pass_fold_constants = {
    .name = "fold-constants",
    .summary = "compute what depends on constants alone",
    .anchor = "core.func",
    .optional = true,
    .run = run,
    .options = options,
};
