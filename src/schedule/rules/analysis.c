/* analysis.c: reads blocks: extents, accesses and their strides, by probing index expressions. */
#include "schedule/rules/analysis.h"

#include "base/arena.h"
#include "base/checked.h"
#include "base/vec.h"

/* Of a symbol at run time: an image's side after some strides, a sentence. No power of two, so that
 * tiles have a rest. */
enum { TYPICAL = 100 };

static bool typical(void *data, const char *symbol, int64_t *out)
{
    (void)data;
    (void)symbol;
    *out = TYPICAL;
    return true;
}

bool tw_typical_size(tw_expr e, int64_t *out)
{
    if (!tw_expr_eval(e, NULL, 0, typical, NULL, out))
        return false;
    if (*out < 0)
        *out = 0;
    return true;
}

/* The value of an access's flat index at a point of the iteration space; other values count as 0.
 */
static bool flat_index(const tw_rule_block *block, const tw_op *op, const tw_loop_access *a,
                       const int64_t *point, int64_t *out)
{
    int64_t dims[TW_MAX_EXPR_DIMS] = {0};
    for (unsigned i = 0; i < a->n_index; i++) {
        const tw_value *v = tw_operand(op, a->first_index + i);
        if (v->region && v->region->parent == block->op)
            dims[i] = point[v->index];
    }
    int64_t flat = 0;
    for (unsigned d = 0; d < a->buffer->type->rank; d++) {
        int64_t x, size;
        if (!tw_expr_eval(a->index->u.map.exprs[d], dims, a->n_index, typical, NULL, &x) ||
            !tw_typical_size(a->buffer->type->dims[d], &size) || !tw_mul_i64(flat, size, &flat) ||
            !tw_add_i64(flat, x, &flat))
            return false;
    }
    *out = flat;
    return true;
}

static void find_uses(const tw_rule_block *block, const tw_loop_access *a, tw_rule_access *out)
{
    for (unsigned i = 0; i < a->n_index; i++) {
        bool used = false;
        for (size_t d = 0; d < a->index->u.map.n; d++)
            used |= tw_expr_uses_dim(a->index->u.map.exprs[d], i);
        const tw_value *v = tw_operand(out->op, a->first_index + i);
        if (!used)
            continue;
        if (v->region && v->region->parent == block->op)
            out->uses |= UINT32_C(1) << v->index;
        else
            out->indirect = true;
    }
}

/* A block whose operations are being read. */
typedef struct reader {
    tw_arena *arena;
    tw_rule_block *block;
    TW_VEC(tw_rule_access) accesses;
} reader;

static bool add_access(reader *r, tw_op *op)
{
    tw_loop_access a;
    if (!tw_loop_get_access(op, &a))
        return true;
    tw_rule_block *block = r->block;
    tw_rule_access out = {
        .op = op, .buffer = a.buffer, .is_store = a.value != NULL, .masked = a.where != NULL};
    find_uses(block, &a, &out);
    int64_t point[TW_RULE_MAX_ITERS] = {0}, origin, at;
    int64_t *stride = TW_NEW_ARRAY(r->arena, int64_t, block->n_iters);
    if (!flat_index(block, op, &a, point, &origin))
        return false;
    for (unsigned i = 0; i < block->n_iters; i++) {
        point[i] = 1;
        if (!flat_index(block, op, &a, point, &at) || !tw_sub_i64(at, origin, &stride[i]))
            return false;
        point[i] = 0;
    }
    out.stride = stride;
    tw_vec_push(r->arena, &r->accesses, out);
    return true;
}

static bool scan_op(tw_op *op, void *data)
{
    reader *r = data;
    r->block->body_ops++;
    r->block->has_loops |= op->n_regions > 0;
    return add_access(r, op);
}

static bool analyze_block(tw_context *ctx, tw_op *op, tw_rule_block *out)
{
    tw_arena *arena = tw_context_arena(ctx);
    *out = (tw_rule_block){
        .op = op, .name = tw_op_string(op, "sym_name", ""), .work = tw_expr_const(ctx, 1)};
    tw_attr extents = tw_op_attr(op, "extents");
    out->n_iters = (unsigned)extents->u.map.n;
    out->sequential = tw_op_attr(op, "order") != NULL;
    out->has_init = op->regions[0].first != NULL;
    if (out->n_iters > TW_RULE_MAX_ITERS)
        return false;
    for (unsigned i = 0; i < out->n_iters; i++) {
        out->reduce[i] = tw_block_iter_reduces(op, i);
        out->n_spatial += !out->reduce[i];
        out->size[i] = extents->u.map.exprs[i];
        out->work = tw_expr_mul(ctx, out->work, out->size[i]);
        if (!tw_typical_size(out->size[i], &out->extent[i]))
            return false;
    }
    reader r = {.arena = arena, .block = out};
    for (tw_op *inner = op->regions[1].first; inner; inner = inner->next)
        if (!tw_walk(inner, scan_op, &r))
            return false;
    out->accesses = r.accesses.data;
    out->n_accesses = (unsigned)r.accesses.len;
    unsigned stores = 0;
    for (unsigned i = 0; i < out->n_accesses; i++)
        if (out->accesses[i].is_store) {
            out->store = &out->accesses[i];
            stores++;
        }
    if (stores != 1)
        out->store = NULL;
    out->work = tw_expr_mulc(ctx, out->work, out->body_ops);
    int64_t typical;
    return tw_typical_size(out->work, &typical);
}

static bool is_block(const tw_op *op)
{
    return tw_is_loop(op, TW_LOOP_BLOCK);
}

bool tw_analyze_kernel(tw_context *ctx, tw_op *kernel, tw_kernel_blocks *out)
{
    tw_arena *arena = tw_context_arena(ctx);
    tw_loop_list list = tw_loop_collect(ctx, kernel, is_block);
    tw_rule_block *blocks = TW_NEW_ARRAY(arena, tw_rule_block, list.n);
    *out = (tw_kernel_blocks){blocks, (unsigned)list.n};
    for (size_t i = 0; i < list.n; i++)
        if (!analyze_block(ctx, list.ops[i], &blocks[i]))
            return false;
    return true;
}

int tw_contiguous_iter(const tw_rule_block *block, const tw_rule_access *access)
{
    int found = -1;
    for (unsigned i = 0; i < block->n_iters; i++)
        if (access->stride[i] == 1 && block->extent[i] > 1)
            found = (int)i;
    return found;
}

bool tw_access_reaches(tw_context *ctx, const tw_rule_block *block, const tw_rule_access *access,
                       unsigned iter, int64_t extent)
{
    tw_loop_access a;
    tw_range ranges[TW_MAX_EXPR_DIMS];
    if (!(access->uses >> iter & 1))
        return true;
    if (access->indirect || !tw_loop_get_access(access->op, &a))
        return false;
    for (unsigned i = 0; i < a.n_index; i++) {
        const tw_value *v = tw_operand(access->op, a.first_index + i);
        if (!v->region || v->region->parent != block->op)
            return false;
        tw_expr size = v->index == iter ? tw_expr_const(ctx, extent) : block->size[v->index];
        ranges[i] = (tw_range){.hi = INT64_MAX, .top = tw_expr_addc(ctx, size, -1)};
        if (tw_expr_as_const(ranges[i].top, &ranges[i].hi))
            ranges[i].top = NULL;
    }
    for (unsigned d = 0; d < a.buffer->type->rank; d++) {
        tw_expr at = a.index->u.map.exprs[d], left = tw_expr_sub(ctx, a.buffer->type->dims[d], at);
        bool along = false; /* masks guard the other axes */
        for (unsigned i = 0; i < a.n_index; i++)
            along |=
                tw_expr_uses_dim(at, i) && tw_operand(access->op, a.first_index + i)->index == iter;
        if (along && (!tw_expr_at_least(ctx, at, 0, ranges, a.n_index) ||
                      !tw_expr_at_least(ctx, left, 1, ranges, a.n_index)))
            return false;
    }
    return true;
}

bool tw_is_elementwise(const tw_rule_block *block)
{
    const tw_rule_access *store = block->store;
    if (!store || block->n_spatial != block->n_iters || block->sequential || block->has_init ||
        block->has_loops || store->indirect)
        return false;
    for (unsigned i = 0; i < block->n_accesses; i++)
        if (!block->accesses[i].is_store && block->accesses[i].buffer == store->buffer)
            return false;
    return true;
}

bool tw_is_injective(const tw_rule_block *block)
{
    return tw_is_elementwise(block) && !block->store->masked;
}

bool tw_is_internal(const tw_value *buffer)
{
    return buffer->op && tw_is_loop(buffer->op, TW_LOOP_ALLOC);
}

const tw_rule_block *tw_producer(const tw_kernel_blocks *k, const tw_value *buffer)
{
    for (unsigned i = k->n; i-- > 0;)
        for (unsigned a = 0; a < k->blocks[i].n_accesses; a++)
            if (k->blocks[i].accesses[a].is_store && k->blocks[i].accesses[a].buffer == buffer)
                return &k->blocks[i];
    return NULL;
}

unsigned tw_readers(const tw_kernel_blocks *k, const tw_value *buffer, const tw_rule_block **reader)
{
    unsigned n = 0;
    for (unsigned i = 0; i < k->n; i++) {
        bool reads = false, writes = false;
        for (unsigned a = 0; a < k->blocks[i].n_accesses; a++)
            if (k->blocks[i].accesses[a].buffer == buffer) {
                reads |= !k->blocks[i].accesses[a].is_store;
                writes |= k->blocks[i].accesses[a].is_store;
            }
        if (reads && !writes) {
            n++;
            *reader = &k->blocks[i];
        }
    }
    return n;
}
