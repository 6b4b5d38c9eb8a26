/* eliminate_common_subexpr.c: an operation that computes what an earlier one has computed is
 * replaced by the earlier one.
 *
 *   %0 = graph.add %x, %y
 *   %1 = graph.add %y, %x      // operands of commutative operations count in any order
 *   %2 = graph.mul %0, %1      =>  %2 = graph.mul %0, %0
 *
 * Operations are equal when definition, operands, attributes and result types are. Constants are
 * equal when their bytes are, whatever their names. In nested regions outer operations count as
 * earlier ones, except across the border of an isolated operation.
 *
 * One walk with a hash table: an entry that does not dominate the operation at hand is of a region
 * that the walk has left, and is replaced. */
#include "transform/transform.h"

#include "base/map.h"
#include "base/vec.h"
#include "ir/mapped.h"

#include <string.h>

typedef struct cse {
    tw_pass_run *pass;
    tw_arena *arena;
    tw_map known; /* key -> tw_op */
    TW_VEC(uintptr_t) key;
} cse;

enum { SAMPLE = 256 }; /* bytes at either end of a constant that its key is made of */

static void add(cse *c, const void *word)
{
    tw_vec_push(c->arena, &c->key, (uintptr_t)word);
}

/* The isolated operation that op is in: values do not cross its border. */
static const tw_op *island(const tw_op *op)
{
    for (const tw_region *r = op->region; r; r = r->parent->region)
        if (r->parent->def->traits & TW_TRAIT_ISOLATED)
            return r->parent;
    return NULL;
}

/* Constants are known by type and a sample of their bytes; `full` takes all bytes, which reads the
 * whole constant from its file. */
static void add_dense(cse *c, tw_attr value, bool full)
{
    const char *bytes = value->u.dense.data;
    size_t size = value->u.dense.size, part = full || size < SAMPLE ? size : SAMPLE;
    add(c, value->u.dense.type);
    add(c, (const void *)tw_hash_bytes(bytes, part, full));
    add(c, (const void *)tw_hash_bytes(bytes + size - part, part, full));
    tw_mapped_give_back(c->pass->ctx, bytes, size);
}

static void add_operands(cse *c, const tw_op *op)
{
    const tw_value *first = op->n_operands > 0 ? tw_operand(op, 0) : NULL;
    const tw_value *second = op->n_operands > 1 ? tw_operand(op, 1) : NULL;
    bool swap = op->def->traits & TW_TRAIT_COMMUTATIVE && (uintptr_t)first > (uintptr_t)second;
    for (unsigned i = 0; i < op->n_operands; i++)
        add(c, swap && i < 2 ? (i ? first : second) : tw_operand(op, i));
}

/* What must be equal for two operations to be; operations with regions have no key. */
static void make_key(cse *c, const tw_op *op, bool full)
{
    c->key.len = 0;
    add(c, op->def);
    add(c, island(op));
    add(c, (const void *)(uintptr_t)op->n_operands);
    add_operands(c, op);
    for (unsigned i = 0; i < op->n_results; i++)
        add(c, op->results[i].type);
    bool constant = false;
    for (unsigned i = 0; i < op->n_attrs; i++)
        constant |= op->attrs[i].value->kind == TW_ATTR_DENSE;
    for (unsigned i = 0; i < op->n_attrs; i++) {
        tw_attr value = op->attrs[i].value;
        if (value->kind == TW_ATTR_DENSE) {
            add_dense(c, value, full);
        } else if (!constant || strcmp(op->attrs[i].name, "name") != 0) {
            add(c, op->attrs[i].name);
            add(c, value);
        }
    }
}

static tw_op *look_up(cse *c)
{
    return tw_map_get(&c->known, c->key.data, c->key.len * sizeof *c->key.data);
}

static void remember(cse *c, tw_op *op)
{
    tw_map_put(&c->known, c->key.data, c->key.len * sizeof *c->key.data, op);
}

/* Keys hold only samples of constants, so these are compared in full. */
static bool same_constants(const tw_op *a, const tw_op *b)
{
    for (unsigned i = 0; i < a->n_attrs; i++) {
        tw_attr x = a->attrs[i].value, y = tw_op_attr(b, a->attrs[i].name);
        if (x == y || x->kind != TW_ATTR_DENSE)
            continue;
        if (!y || y->kind != TW_ATTR_DENSE || x->u.dense.size != y->u.dense.size ||
            memcmp(x->u.dense.data, y->u.dense.data, x->u.dense.size) != 0)
            return false;
    }
    return true;
}

/* The earlier equal operation, or NULL after op has been noted as the one to use later. */
static tw_op *find_equal(cse *c, tw_op *op)
{
    for (int full = 0; full < 2; full++) {
        make_key(c, op, full);
        tw_op *earlier = look_up(c);
        if (!earlier || !tw_value_dominates(&earlier->results[0], op)) {
            remember(c, op);
            return NULL;
        }
        if (same_constants(earlier, op))
            return earlier;
    }
    return NULL; /* two constants with one 64-bit hash: left alone */
}

static bool visit(tw_op *op, void *data)
{
    cse *c = data;
    if (op == c->pass->root || !(op->def->traits & TW_TRAIT_PURE) || op->n_regions ||
        !op->n_results)
        return true;
    tw_op *earlier = find_equal(c, op);
    if (!earlier)
        return true;
    for (unsigned i = 0; i < op->n_results; i++) {
        if (!earlier->results[i].name)
            earlier->results[i].name = op->results[i].name;
        tw_value_replace_all(&op->results[i], &earlier->results[i]);
    }
    tw_op_erase(op);
    return ++c->pass->changes < c->pass->max_changes;
}

static bool run(tw_pass_run *pass)
{
    tw_arena *arena = tw_context_arena(pass->ctx);
    cse c = {.pass = pass, .arena = arena, .known = tw_map_make(arena)};
    if (pass->max_changes)
        tw_walk(pass->root, visit, &c);
    return true;
}

const tw_pass tw_pass_eliminate_common_subexpr = {
    .name = "eliminate-common-subexpr",
    .summary = "compute equal values once",
    .anchor = "core.func",
    .optional = true,
    .run = run,
};
