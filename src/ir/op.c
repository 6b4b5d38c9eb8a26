/* op.c: operations, their operands' use lists, attributes, and their places in regions. */
#include "ir/context_impl.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The context is found through a header in front of each operation. */
typedef struct op_block {
    tw_context *ctx;
    _Alignas(16) tw_op op;
} op_block;

tw_context *tw_op_context(const tw_op *op)
{
    return ((const op_block *)(const void *)((const char *)op - offsetof(op_block, op)))->ctx;
}

/* ---- Uses ---- */

static void link_use(tw_use *use, tw_value *value)
{
    use->value = value;
    use->prev = NULL;
    use->next = value ? value->uses : NULL;
    if (!value)
        return;
    if (value->uses)
        value->uses->prev = use;
    value->uses = use;
}

static void unlink_use(tw_use *use)
{
    if (!use->value)
        return;
    if (use->prev)
        use->prev->next = use->next;
    else
        use->value->uses = use->next;
    if (use->next)
        use->next->prev = use->prev;
    use->value = NULL;
}

void tw_op_set_operand(tw_op *op, unsigned i, tw_value *value)
{
    assert(i < op->n_operands);
    unlink_use(&op->operands[i]);
    link_use(&op->operands[i], value);
}

static void make_operands(tw_context *ctx, tw_op *op, tw_value *const *operands, unsigned n)
{
    op->operands = TW_NEW_ARRAY(ctx->arena, tw_use, n);
    op->n_operands = n;
    for (unsigned i = 0; i < n; i++) {
        op->operands[i].user = op;
        op->operands[i].index = i;
        link_use(&op->operands[i], operands[i]);
    }
}

void tw_op_set_operands(tw_op *op, tw_value *const *operands, unsigned n)
{
    for (unsigned i = 0; i < op->n_operands; i++)
        unlink_use(&op->operands[i]);
    make_operands(tw_op_context(op), op, operands, n);
}

void tw_value_replace_all(tw_value *from, tw_value *to)
{
    assert(from != to);
    while (from->uses) {
        tw_use *use = from->uses;
        unlink_use(use);
        link_use(use, to);
    }
}

bool tw_value_has_one_use(const tw_value *value)
{
    return value->uses && !value->uses->next;
}

static tw_context *value_context(const tw_value *value)
{
    return tw_op_context(value->op ? value->op : value->region->parent);
}

void tw_value_set_name(tw_value *value, const char *name)
{
    value->name = name ? tw_intern(value_context(value), name, strlen(name)) : NULL;
}

/* ---- Creation ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const tw_named_attr *)a)->name, ((const tw_named_attr *)b)->name);
}

static void make_attrs(tw_context *ctx, tw_op *op, const tw_named_attr *attrs, unsigned n)
{
    op->attrs = TW_NEW_ARRAY(ctx->arena, tw_named_attr, n);
    op->n_attrs = n;
    for (unsigned i = 0; i < n; i++)
        op->attrs[i] =
            (tw_named_attr){tw_intern(ctx, attrs[i].name, strlen(attrs[i].name)), attrs[i].value};
    if (n > 1)
        qsort(op->attrs, n, sizeof *op->attrs, by_name);
}

tw_op *tw_op_create(tw_context *ctx, const tw_op_def *def, tw_loc loc, tw_value *const *operands,
                    unsigned n_operands, const tw_type *result_types, unsigned n_results,
                    const tw_named_attr *attrs, unsigned n_attrs, unsigned n_regions)
{
    op_block *block = TW_NEW(ctx->arena, op_block);
    block->ctx = ctx;
    tw_op *op = &block->op;
    op->def = def;
    op->loc = loc;
    make_operands(ctx, op, operands, n_operands);
    op->results = TW_NEW_ARRAY(ctx->arena, tw_value, n_results);
    op->n_results = n_results;
    for (unsigned i = 0; i < n_results; i++)
        op->results[i] = (tw_value){.type = result_types[i], .op = op, .index = i};
    make_attrs(ctx, op, attrs, n_attrs);
    op->regions = TW_NEW_ARRAY(ctx->arena, tw_region, n_regions);
    op->n_regions = n_regions;
    for (unsigned i = 0; i < n_regions; i++)
        op->regions[i] = (tw_region){.parent = op, .index = i};
    return op;
}

tw_value *tw_region_add_arg(tw_region *region, tw_type type, const char *name)
{
    tw_context *ctx = tw_op_context(region->parent);
    unsigned n = region->n_args;
    if ((n & (n - 1)) == 0) { /* room for the next power of two */
        tw_value **grown = TW_NEW_ARRAY(ctx->arena, tw_value *, n ? 2 * (size_t)n : 1);
        if (n)
            memcpy(grown, region->args, n * sizeof *grown);
        region->args = grown;
    }
    tw_value *arg = TW_NEW(ctx->arena, tw_value);
    *arg = (tw_value){.type = type, .region = region, .index = n};
    region->args[region->n_args++] = arg;
    tw_value_set_name(arg, name);
    return arg;
}

void tw_region_remove_arg(tw_region *region, unsigned i)
{
    assert(i < region->n_args && !region->args[i]->uses);
    /* A fresh array keeps the capacity rule of tw_region_add_arg: powers of two. */
    memmove(&region->args[i], &region->args[i + 1],
            (region->n_args - i - 1) * sizeof *region->args);
    region->n_args--;
    for (; i < region->n_args; i++)
        region->args[i]->index = i;
}

/* ---- Attributes ---- */

static tw_named_attr *find_attr(const tw_op *op, const char *name)
{
    for (unsigned i = 0; i < op->n_attrs; i++)
        if (op->attrs[i].name == name || !strcmp(op->attrs[i].name, name))
            return &op->attrs[i];
    return NULL;
}

tw_attr tw_op_attr(const tw_op *op, const char *name)
{
    const tw_named_attr *found = find_attr(op, name);
    return found ? found->value : NULL;
}

void tw_op_set_attr(tw_op *op, const char *name, tw_attr value)
{
    tw_named_attr *found = find_attr(op, name);
    if (found && value) {
        found->value = value;
    } else if (found) {
        size_t at = (size_t)(found - op->attrs);
        memmove(found, found + 1, (op->n_attrs - at - 1) * sizeof *found);
        op->n_attrs--;
    } else if (value) {
        tw_named_attr *old = op->attrs;
        unsigned n = op->n_attrs;
        tw_context *ctx = tw_op_context(op);
        tw_named_attr *grown = TW_NEW_ARRAY(ctx->arena, tw_named_attr, n + 1);
        if (n)
            memcpy(grown, old, n * sizeof *grown);
        grown[n] = (tw_named_attr){name, value};
        make_attrs(ctx, op, grown, n + 1);
    }
}

int64_t tw_op_int(const tw_op *op, const char *name, int64_t absent)
{
    tw_attr a = tw_op_attr(op, name);
    return a && a->kind == TW_ATTR_INT ? a->u.integer : absent;
}

double tw_op_float(const tw_op *op, const char *name, double absent)
{
    tw_attr a = tw_op_attr(op, name);
    return a && a->kind == TW_ATTR_FLOAT ? a->u.real : absent;
}

bool tw_op_bool(const tw_op *op, const char *name, bool absent)
{
    tw_attr a = tw_op_attr(op, name);
    if (a && a->kind == TW_ATTR_UNIT)
        return true;
    return a && (a->kind == TW_ATTR_BOOL || a->kind == TW_ATTR_INT) ? a->u.integer != 0 : absent;
}

const char *tw_op_string(const tw_op *op, const char *name, const char *absent)
{
    tw_attr a = tw_op_attr(op, name);
    return a && (a->kind == TW_ATTR_STRING || a->kind == TW_ATTR_SYMBOL) ? a->u.string.text
                                                                         : absent;
}

int tw_op_ints(const tw_op *op, const char *name, int64_t *out, int max)
{
    tw_attr a = tw_op_attr(op, name);
    if (!a || a->kind != TW_ATTR_ARRAY)
        return -1;
    int n = 0;
    for (size_t i = 0; i < a->u.array.n && n < max; i++)
        out[n++] = a->u.array.items[i]->kind == TW_ATTR_INT ? a->u.array.items[i]->u.integer : 0;
    return n;
}

/* ---- Places ---- */

/* Order values leave gaps. Many operations put in front of one, one after another, take small steps
 * of the gap, so that it is rarely used up. */
static const uint64_t ORDER_STRIDE = (uint64_t)1 << 32, ORDER_STEP = 1 << 16;

static void renumber(tw_region *region)
{
    uint64_t order = ORDER_STRIDE;
    for (tw_op *op = region->first; op; op = op->next, order += ORDER_STRIDE)
        op->order = order;
}

static void give_order(tw_op *op)
{
    uint64_t low = op->prev ? op->prev->order : 0;
    if (!op->next)
        op->order = low + ORDER_STRIDE;
    else if (op->next->order - low > 2 * ORDER_STEP)
        op->order = low + ORDER_STEP;
    else if (op->next->order - low >= 2)
        op->order = low + (op->next->order - low) / 2;
    else
        renumber(op->region);
}

void tw_op_insert(tw_op *op, tw_region *region, tw_op *before)
{
    assert(!before || before->region == region);
    if (before == op)
        return;
    if (op->region)
        tw_op_remove(op);
    op->region = region;
    op->next = before;
    op->prev = before ? before->prev : region->last;
    if (op->prev)
        op->prev->next = op;
    else
        region->first = op;
    if (before)
        before->prev = op;
    else
        region->last = op;
    give_order(op);
}

void tw_op_remove(tw_op *op)
{
    tw_region *region = op->region;
    if (!region)
        return;
    if (op->prev)
        op->prev->next = op->next;
    else
        region->first = op->next;
    if (op->next)
        op->next->prev = op->prev;
    else
        region->last = op->prev;
    op->region = NULL;
    op->prev = op->next = NULL;
}

/* Cuts all operands below op, so that no use from a dead operation stays in a list. */
static bool drop_operands(tw_op *op, void *data)
{
    (void)data;
    for (unsigned i = 0; i < op->n_operands; i++)
        unlink_use(&op->operands[i]);
    return true;
}

void tw_op_erase(tw_op *op)
{
    tw_walk(op, drop_operands, NULL);
    for (unsigned i = 0; i < op->n_results; i++)
        assert(!op->results[i].uses);
    tw_op_remove(op);
}

void tw_region_splice(tw_region *to, tw_op *before, tw_region *from)
{
    while (from->first)
        tw_op_insert(from->first, to, before);
}

bool tw_op_is_before(tw_op *a, tw_op *b)
{
    assert(a->region == b->region);
    return a->order < b->order;
}

/* The operation of `region` that op is or stands in; NULL when it stands elsewhere. */
static tw_op *ancestor_in(tw_region *region, tw_op *op)
{
    while (op && op->region != region)
        op = op->region ? op->region->parent : NULL;
    return op;
}

bool tw_value_dominates(const tw_value *value, tw_op *user)
{
    if (value->region) {
        for (tw_region *r = user->region; r; r = r->parent->region)
            if (r == value->region)
                return true;
        return false;
    }
    if (!value->op->region)
        return false;
    tw_op *at = ancestor_in(value->op->region, user);
    return at && at != value->op && tw_op_is_before(value->op, at);
}

tw_op *tw_op_enclosing(const tw_op *op, const tw_op_def *def)
{
    for (tw_region *r = op->region; r; r = r->parent->region)
        if (r->parent->def == def)
            return r->parent;
    return NULL;
}

bool tw_op_is_ancestor(const tw_op *ancestor, const tw_op *op)
{
    while (op && op != ancestor)
        op = op->region ? op->region->parent : NULL;
    return op != NULL;
}

/* The next operation of a walk below `root` after all of the region, or after the operation that it
 * stands in. */
static tw_op *walk_after_region(const tw_op *root, const tw_region *region)
{
    for (;;) {
        tw_op *parent = region->parent;
        for (unsigned i = region->index + 1; i < parent->n_regions; i++)
            if (parent->regions[i].first)
                return parent->regions[i].first;
        if (parent == root)
            return NULL;
        if (parent->next)
            return parent->next;
        region = parent->region;
    }
}

static tw_op *walk_down(const tw_op *op)
{
    for (unsigned i = 0; i < op->n_regions; i++)
        if (op->regions[i].first)
            return op->regions[i].first;
    return NULL;
}

bool tw_walk(tw_op *root, bool (*visit)(tw_op *op, void *data), void *data)
{
    for (tw_op *op = root; op;) {
        tw_op *next = op->next; /* found first: visit may erase op */
        tw_region *place = op->region;
        if (!visit(op, data))
            return false;
        bool erased = op != root && op->region != place;
        tw_op *inside = erased ? NULL : walk_down(op);
        next = erased ? next : op->next;
        if (inside)
            op = inside;
        else if (op == root)
            return true;
        else
            op = next ? next : walk_after_region(root, place);
    }
    return true;
}

/* ---- Building ---- */

tw_builder tw_builder_at_end(tw_context *ctx, tw_region *region, tw_loc loc)
{
    return (tw_builder){ctx, region, NULL, loc};
}

tw_builder tw_builder_before(tw_context *ctx, tw_op *op)
{
    return (tw_builder){ctx, op->region, op, op->loc};
}

enum { MAX_BUILD_ATTRS = 32 };

tw_op *tw_build(tw_builder *b, const tw_op_def *def, tw_value *const *operands, unsigned n_operands,
                const tw_type *result_types, unsigned n_results, ...)
{
    tw_named_attr attrs[MAX_BUILD_ATTRS];
    unsigned n_attrs = 0;
    va_list args;
    va_start(args, n_results);
    for (const char *name; (name = va_arg(args, const char *));) {
        tw_attr value = va_arg(args, tw_attr);
        assert(n_attrs < MAX_BUILD_ATTRS);
        if (value)
            attrs[n_attrs++] = (tw_named_attr){name, value};
    }
    va_end(args);
    unsigned n_regions = def->n_regions > 0 ? (unsigned)def->n_regions : 0;
    tw_op *op = tw_op_create(b->ctx, def, b->loc, operands, n_operands, result_types, n_results,
                             attrs, n_attrs, n_regions);
    tw_op_insert(op, b->region, b->before);
    return op;
}
