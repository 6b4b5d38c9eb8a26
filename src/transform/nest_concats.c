/* nest_concats.c: nest-concats: a concatenation that begins with the parts of an earlier one begins
 * with that one's result.
 *
 *   %1 = graph.concat %a, %b                    %1 = graph.concat %a, %b
 *   %2 = graph.concat %a, %b, %c         ->     %2 = graph.concat %1, %c
 *
 * Dense networks append to what they have at every layer. So each value is part of one
 * concatenation alone, and all of them can lie in the memory of the last. Linear in the number of
 * operands: prefixes are looked up by a hash that goes along with them, the longest first. */
#include "transform/transform.h"

#include "base/arena.h"
#include "base/map.h"
#include "dialect/graph/graph.h"

/* A concatenation as it was found. */
typedef struct found {
    tw_op *op;
    tw_value **parts;
    unsigned n;
} found;

typedef struct nesting {
    tw_pass_run *pass;
    tw_arena *arena;
    tw_map known; /* hash of axis and operands -> found, the last one */
} nesting;

/* hashes[i]: of the first i + 1 operands. */
static uint64_t *hash_prefixes(nesting *s, const tw_op *op)
{
    uint64_t *hashes = TW_NEW_ARRAY(s->arena, uint64_t, op->n_operands);
    uint64_t hash = (uint64_t)tw_op_int(op, "axis", 0);
    for (unsigned i = 0; i < op->n_operands; i++) {
        const tw_value *v = tw_operand(op, i);
        hashes[i] = hash = tw_hash_bytes(&v, sizeof v, hash);
    }
    return hashes;
}

/* What was found that the operation begins with `n` parts of, all it has. */
static const found *look_up(nesting *s, tw_op *op, uint64_t hash, unsigned n)
{
    const found *f = tw_map_get(&s->known, &hash, sizeof hash);
    if (!f || f->n != n || tw_op_attr(op, "axis") != tw_op_attr(f->op, "axis") ||
        !tw_value_dominates(&f->op->results[0], op))
        return NULL;
    for (unsigned i = 0; i < n; i++)
        if (tw_operand(op, i) != f->parts[i])
            return NULL;
    return f;
}

static void remember(nesting *s, tw_op *op, uint64_t hash)
{
    found *f = TW_NEW(s->arena, found);
    *f = (found){op, TW_NEW_ARRAY(s->arena, tw_value *, op->n_operands), op->n_operands};
    for (unsigned i = 0; i < op->n_operands; i++)
        f->parts[i] = tw_operand(op, i);
    tw_map_put(&s->known, &hash, sizeof hash, f);
}

/* Puts the result of `inner` in the place of the first `n` operands. */
static void nest(nesting *s, tw_op *op, tw_op *inner, unsigned n)
{
    tw_value **parts = TW_NEW_ARRAY(s->arena, tw_value *, op->n_operands);
    unsigned count = 0;
    parts[count++] = tw_result(inner, 0);
    for (unsigned i = n; i < op->n_operands; i++)
        parts[count++] = tw_operand(op, i);
    tw_op_set_operands(op, parts, count);
    s->pass->changes++;
}

static bool visit(tw_op *op, void *data)
{
    nesting *s = data;
    if (!tw_is_graph(op, TW_GRAPH_CONCAT) || s->pass->changes >= s->pass->max_changes)
        return true;
    uint64_t *hashes = hash_prefixes(s, op);
    const found *inner = NULL;
    unsigned n = op->n_operands;
    remember(s, op, hashes[n - 1]);
    while (!inner && --n > 1)
        inner = look_up(s, op, hashes[n - 1], n);
    if (inner)
        nest(s, op, inner->op, n);
    return true;
}

static bool run(tw_pass_run *pass)
{
    tw_arena *arena = tw_context_arena(pass->ctx);
    nesting s = {.pass = pass, .arena = arena, .known = tw_map_make(arena)};
    return tw_walk(pass->root, visit, &s);
}

const tw_pass tw_pass_nest_concats = {
    .name = "nest-concats",
    .summary = "concatenations that begin with an earlier one use its result",
    .anchor = "core.func",
    .optional = true,
    .run = run,
};
