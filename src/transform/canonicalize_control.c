/* canonicalize_control.c: rewrites of graph.if and graph.loop.
 *
 *   %r = graph.loop %n, %c, %x, %y do (%i, %a, %b) {      %r = graph.loop %n, %c, %y do (%i, %b) {
 *     %0 = graph.exp %a                                     …          // %a is always %x
 *     %1 = graph.add %0, %b                          =>     %1 = graph.add %0, %b
 *     graph.yield %c, %a, %1                                graph.yield %c, %1
 *   }                                                     }            // and %0 stands before it
 */
#include "transform/canonicalize.h"

#include "base/arena.h"
#include "base/map.h"
#include "dialect/graph/graph.h"

/* True when the value is a constant of one boolean or integer. */
static bool known_number(const tw_value *value, int64_t *out)
{
    tw_attr dense = tw_graph_constant_value(value);
    if (!dense)
        return false;
    *out = dense->u.dense.type->elem == TW_BOOL ? *(const uint8_t *)dense->u.dense.data
                                                : *(const int64_t *)dense->u.dense.data;
    return true;
}

static tw_value **values(tw_op *op, unsigned n)
{
    return TW_NEW_ARRAY(tw_context_arena(tw_op_context(op)), tw_value *, n + 1);
}

/* Whether each result that is used may give way to its value. A value whose sizes are told
 * otherwise may not: the result's are those that a bind behind the operation defines. */
static bool same_types(const tw_op *op, tw_value *const *instead)
{
    for (unsigned i = 0; i < op->n_results; i++)
        if (op->results[i].uses && op->results[i].type != instead[i]->type)
            return false;
    return true;
}

/* ---- if ---- */

bool tw_canon_if_known(tw_rewriter *rw, tw_op *op)
{
    int64_t taken;
    if (!known_number(tw_operand(op, 0), &taken))
        return false;
    tw_region *region = &op->regions[taken ? 0 : 1];
    tw_value **yielded = values(op, op->n_results);
    tw_op *last = region->last;
    for (unsigned i = 0; i < op->n_results; i++)
        yielded[i] = tw_operand(last, i);
    if (!same_types(op, yielded))
        return false;
    tw_rw_erase(rw, last);
    tw_builder *b = tw_rw_builder(rw, op);
    tw_region_splice(b->region, b->before, region);
    tw_rw_replace(rw, op, yielded);
    return true;
}

/* The value that both branches yield as result i, or NULL. */
static tw_value *common_result(const tw_op *op, unsigned i)
{
    tw_value *a = tw_operand(op->regions[0].last, i), *b = tw_operand(op->regions[1].last, i);
    return a == b && a->type == op->results[i].type ? a : NULL;
}

static void move_region(tw_region *from, tw_region *to)
{
    for (unsigned i = 0; i < from->n_args; i++) {
        tw_value *arg = from->args[i];
        tw_value_replace_all(arg, tw_region_add_arg(to, arg->type, arg->name));
    }
    tw_region_splice(to, NULL, from);
}

/* A region operation like op, its regions being moved, with the results that `kept` tells alone;
 * a result that is not kept gives way to instead[i]. The yields are the caller's. */
static tw_op *rebuild(tw_rewriter *rw, tw_op *op, tw_value *const *operands, unsigned n_operands,
                      const bool *kept, tw_value *const *instead)
{
    tw_context *ctx = tw_rw_context(rw);
    tw_type *types = TW_NEW_ARRAY(tw_context_arena(ctx), tw_type, op->n_results);
    unsigned n = 0;
    for (unsigned i = 0; i < op->n_results; i++)
        if (kept[i])
            types[n++] = op->results[i].type;
    tw_builder *b = tw_rw_builder(rw, op);
    tw_op *made = tw_op_create(ctx, op->def, op->loc, operands, n_operands, types, n, op->attrs,
                               op->n_attrs, op->n_regions);
    tw_op_insert(made, b->region, b->before);
    for (unsigned r = 0; r < op->n_regions; r++)
        move_region(&op->regions[r], &made->regions[r]);
    tw_value **replacements = values(op, op->n_results);
    n = 0;
    for (unsigned i = 0; i < op->n_results; i++)
        replacements[i] = kept[i]      ? tw_result(made, n++)
                          : instead[i] ? instead[i]
                                       : tw_operand(op, 0); /* of no use */
    tw_rw_replace(rw, op, replacements);
    return made;
}

/* Leaves out the operands of a yield that `kept` does not tell; the first `always` stay. */
static void trim_yield(tw_rewriter *rw, tw_op *last, unsigned always, const bool *kept)
{
    tw_value **left = values(last, last->n_operands);
    unsigned n = 0;
    for (unsigned i = 0; i < last->n_operands; i++)
        if (i < always || kept[i - always])
            left[n++] = tw_operand(last, i);
    for (unsigned i = 0; i < last->n_operands; i++)
        if (tw_operand(last, i)->op)
            tw_rw_changed(rw, tw_operand(last, i)->op); /* may be dead now */
    tw_op_set_operands(last, left, n);
}

static bool does_not_fail(tw_op *op, void *data)
{
    (void)data;
    return !tw_is_graph(op, TW_GRAPH_FAIL);
}

bool tw_canon_if_results(tw_rewriter *rw, tw_op *op)
{
    bool *kept = TW_NEW_ARRAY(tw_context_arena(tw_rw_context(rw)), bool, op->n_results);
    tw_value **instead = values(op, op->n_results);
    bool all = true;
    for (unsigned i = 0; i < op->n_results; i++) {
        instead[i] = common_result(op, i);
        kept[i] = op->results[i].uses && !instead[i];
        all = all && kept[i];
    }
    /* What a branch that fails yields is no value. */
    if (all || !tw_walk(op, does_not_fail, NULL))
        return false;
    tw_value *condition = tw_operand(op, 0);
    tw_op *made = rebuild(rw, op, &condition, 1, kept, instead);
    for (unsigned r = 0; r < 2; r++)
        trim_yield(rw, made->regions[r].last, 0, kept);
    return true;
}

/* ---- loop ---- */

static unsigned state_count(const tw_op *loop)
{
    return loop->n_operands - 2;
}

bool tw_canon_loop_never(tw_rewriter *rw, tw_op *op)
{
    int64_t trips, go;
    if (!(known_number(tw_operand(op, 0), &trips) && trips <= 0) &&
        !(known_number(tw_operand(op, 1), &go) && !go))
        return false;
    if (op->n_results != state_count(op))
        return false;
    tw_value **initial = values(op, op->n_results);
    for (unsigned i = 0; i < op->n_results; i++)
        initial[i] = tw_operand(op, 2 + i);
    if (!same_types(op, initial))
        return false;
    tw_rw_replace(rw, op, initial);
    return true;
}

/* A state that every trip leaves as it is, or that nothing reads: neither the body, save to hand it
 * on, nor what follows. */
static bool is_idle(const tw_op *op, unsigned i, bool *constant)
{
    const tw_region *body = &op->regions[0];
    const tw_value *arg = body->args[1 + i];
    *constant = tw_operand(body->last, 1 + i) == arg && tw_operand(op, 2 + i)->type == arg->type &&
                op->results[i].type == arg->type;
    if (*constant)
        return true;
    return !arg->uses && !op->results[i].uses;
}

bool tw_canon_loop_results(tw_rewriter *rw, tw_op *op)
{
    unsigned states = state_count(op), n = 2;
    tw_value **operands = values(op, op->n_operands), **instead = values(op, op->n_results);
    bool *kept = TW_NEW_ARRAY(tw_context_arena(tw_rw_context(rw)), bool, op->n_results), all = true;
    bool *idle = TW_NEW_ARRAY(tw_context_arena(tw_rw_context(rw)), bool, op->n_results);
    operands[0] = tw_operand(op, 0);
    operands[1] = tw_operand(op, 1);
    for (unsigned i = 0; i < op->n_results; i++) {
        bool constant = false;
        kept[i] = i < states ? !is_idle(op, i, &constant) : op->results[i].uses != NULL;
        idle[i] = !kept[i];
        all = all && kept[i];
        instead[i] = constant ? tw_operand(op, 2 + i) : NULL;
        if (kept[i] && i < states)
            operands[n++] = tw_operand(op, 2 + i);
    }
    if (all)
        return false;
    int64_t scans = 0;
    tw_region *body = &op->regions[0];
    trim_yield(rw, body->last, 1, kept);
    for (unsigned i = states; i-- > 0;) {
        if (instead[i])
            tw_value_replace_all(body->args[1 + i], instead[i]);
        if (idle[i])
            tw_region_remove_arg(body, 1 + i);
    }
    for (unsigned i = states; i < op->n_results; i++)
        scans += kept[i];
    tw_op_set_attr(op, "scans", scans ? tw_attr_int(tw_rw_context(rw), scans) : NULL);
    tw_op *made = rebuild(rw, op, operands, n, kept, instead);
    tw_rw_changed(rw, made);
    return true;
}

/* ---- What every trip computes alike ---- */

/* The sizes that something within the operation defines, by name. */
typedef struct inner_sizes {
    tw_map names;
    bool known;
} inner_sizes;

static bool add_defined(tw_op *op, void *data)
{
    inner_sizes *inner = data;
    bool defines = tw_is_graph(op, TW_GRAPH_BIND) || tw_is_graph(op, TW_GRAPH_ROUTINE);
    tw_attr symbols = defines ? tw_op_attr(op, "symbols") : NULL;
    for (size_t i = 0; symbols && i < symbols->u.array.n; i++)
        tw_map_put_str(&inner->names, symbols->u.array.items[i]->u.string.text, op);
    return true;
}

static bool size_is_inner(const inner_sizes *inner, tw_expr size)
{
    if (size->lhs)
        return size_is_inner(inner, size->lhs) || size_is_inner(inner, size->rhs);
    return size->kind == TW_EXPR_SYM && tw_map_get_str(&inner->names, size->symbol);
}

static bool attr_is_inner(const inner_sizes *inner, tw_attr attr)
{
    bool uses = false;
    for (size_t i = 0; attr->kind == TW_ATTR_ARRAY && !uses && i < attr->u.array.n; i++)
        uses = attr_is_inner(inner, attr->u.array.items[i]);
    for (size_t i = 0; attr->kind == TW_ATTR_MAP && !uses && i < attr->u.map.n; i++)
        uses = size_is_inner(inner, attr->u.map.exprs[i]);
    return uses;
}

/* Whether the operation uses, in a result's type or an attribute, a size that a trip defines. */
static bool uses_inner(tw_rewriter *rw, inner_sizes *inner, const tw_op *op, tw_op *loop)
{
    bool uses = false;
    if (!inner->known) {
        *inner = (inner_sizes){tw_map_make(tw_context_arena(tw_rw_context(rw))), true};
        tw_walk(loop, add_defined, inner);
    }
    for (unsigned i = 0; !uses && i < op->n_results; i++)
        for (unsigned d = 0; !uses && d < op->results[i].type->rank; d++)
            uses = size_is_inner(inner, op->results[i].type->dims[d]);
    for (unsigned i = 0; !uses && i < op->n_attrs; i++)
        uses = attr_is_inner(inner, op->attrs[i].value);
    return uses;
}

/* Whether an operation of the body gives the same in every trip. What only spreads a number over a
 * shape is cheaper to do again within a kernel than to read from memory. */
static bool is_invariant(const tw_op *op, const tw_op *loop)
{
    tw_graph_kind kind = tw_graph_kind_of(op);
    if (!(op->def->traits & TW_TRAIT_PURE) || op->n_regions || kind == TW_GRAPH_EXPAND ||
        kind == TW_GRAPH_IOTA)
        return false;
    for (unsigned i = 0; i < op->n_operands; i++)
        if (!tw_value_dominates(tw_operand(op, i), (tw_op *)loop))
            return false;
    return true;
}

bool tw_canon_loop_invariant(tw_rewriter *rw, tw_op *op)
{
    bool any = false;
    inner_sizes sizes = {.known = false};
    for (tw_op *inner = op->regions[0].first, *next; inner; inner = next) {
        next = inner->next;
        if (!is_invariant(inner, op) || uses_inner(rw, &sizes, inner, op))
            continue;
        tw_op_insert(inner, op->region, op);
        tw_rw_changed(rw, inner);
        any = true;
    }
    return any;
}
