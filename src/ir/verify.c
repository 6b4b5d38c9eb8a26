/* verify.c: checks an operation and all inside in one walk.
 *
 * A value is visible from its definition to the end of its region; a table holds those that are
 * visible at the place of the walk, each with the isolated operation it was defined in, so that
 * every operand costs one look-up. An operation's own hook runs when it and all inside is sound
 * otherwise: hooks may rely on tables, types and links. */
#include "ir/scratch.h"
#include "ir/traverse.h"
#include "ir/verify_impl.h"

#include <string.h>

/* Of an operation whose inside is being walked. */
typedef struct frame {
    size_t errors;      /* before it */
    const void *island; /* that it stands in */
} frame;

typedef struct verifier {
    tw_context *ctx;
    tw_arena *arena;
    tw_op *root;
    tw_map visible;                 /* value -> island */
    TW_VEC(const tw_value *) shown; /* the keys, in the order of their definitions */
    TW_VEC(size_t) marks;           /* lengths of `shown` at the starts of open regions */
    const void *island; /* the innermost isolated operation; the verifier outside of all */
    TW_VEC(frame) frames;
    tw_piece_checker pieces;
    uint64_t operands, uses; /* of values defined inside the root */
    bool good;
} verifier;

/* ---- Values ---- */

static void show(verifier *v, const tw_value *value)
{
    tw_map_put_ptr(&v->visible, value, (void *)v->island);
    tw_vec_push(v->arena, &v->shown, value);
}

/* The value's uses are linked in both directions and each is an operand of its user. */
static void check_uses(verifier *v, const tw_op *op, const tw_value *value)
{
    const tw_use *prev = NULL;
    for (const tw_use *use = value->uses; use; prev = use, use = use->next) {
        const tw_op *user = use->user;
        bool good = use->prev == prev && use->value == value && user &&
                    use->index < user->n_operands && use == &user->operands[use->index];
        if (!good) {
            tw_error(v->ctx, op->loc, "%s: the use list of a value is broken", op->def->name);
            return;
        }
        v->uses++;
    }
}

static void check_value(verifier *v, const tw_op *op, const tw_value *value, const char *what,
                        unsigned i)
{
    if (!value->type)
        tw_error(v->ctx, op->loc, "%s: %s %u has no type", op->def->name, what, i);
    else
        tw_check_type(&v->pieces, op, value->type);
    check_uses(v, op, value);
}

static void check_results(verifier *v, tw_op *op)
{
    for (unsigned i = 0; i < op->n_results; i++) {
        const tw_value *value = &op->results[i];
        if (value->op != op || value->region || value->index != i)
            tw_error(v->ctx, op->loc, "%s: result %u does not know its place", op->def->name, i);
        check_value(v, op, value, "result", i);
    }
}

/* Operands of a root that stands somewhere may come from around it. */
static bool from_around(verifier *v, const tw_value *value)
{
    const tw_op *home = value->op ? value->op : value->region ? value->region->parent : NULL;
    return home && v->root->region && !tw_op_is_ancestor(v->root, home) &&
           tw_value_dominates(value, v->root);
}

static void check_visible(verifier *v, const tw_op *op, unsigned i, const tw_value *value)
{
    const void *island = tw_map_get_ptr(&v->visible, value);
    v->operands += island != NULL;
    if (island == v->island || (v->island == v && !island && from_around(v, value)))
        return;
    const char *problem = island ? "is from outside of an operation that uses no values from there"
                                 : "is not defined before, in this region or around it";
    tw_error(v->ctx, op->loc, "operand %u of %s %s", i, op->def->name, problem);
}

static void check_operands(verifier *v, tw_op *op)
{
    for (unsigned i = 0; i < op->n_operands; i++) {
        const tw_use *use = &op->operands[i];
        const tw_value *value = use->value;
        if (!value) {
            tw_error(v->ctx, op->loc, "operand %u of %s is missing", i, op->def->name);
            continue;
        }
        bool linked = use->user == op && use->index == i &&
                      (use->prev ? use->prev->next == use : value->uses == use);
        if (!linked)
            tw_error(v->ctx, op->loc, "operand %u of %s is not in the use list of its value", i,
                     op->def->name);
        check_visible(v, op, i, value);
        if (!value->type)
            tw_error(v->ctx, op->loc, "operand %u of %s has no type", i, op->def->name);
    }
}

/* ---- Traits ---- */

static void check_same_type(verifier *v, const tw_op *op)
{
    tw_type first = NULL;
    for (unsigned i = 0; i < op->n_operands + op->n_results; i++) {
        const tw_value *value =
            i < op->n_operands ? op->operands[i].value : &op->results[i - op->n_operands];
        if (!value || !value->type)
            return;
        if (!first)
            first = value->type;
        if (value->type == first)
            continue;
        tw_error(v->ctx, op->loc, "operands and results of %s have one type, not %s and %s",
                 op->def->name, tw_print_type(v->ctx, first), tw_print_type(v->ctx, value->type));
        return;
    }
}

static void check_traits(verifier *v, const tw_op *op)
{
    uint32_t traits = op->def->traits;
    if (traits & TW_TRAIT_SAME_TYPE)
        check_same_type(v, op);
    if (traits & TW_TRAIT_TERMINATOR && op != v->root && op->next)
        tw_error(v->ctx, op->loc, "%s ends its region: nothing can stand behind it", op->def->name);
    if (traits & TW_TRAIT_SYMBOL && !tw_op_string(op, "sym_name", NULL))
        tw_error(v->ctx, op->loc, "%s needs a name: attribute 'sym_name'", op->def->name);
}

/* ---- Regions ---- */

/* Parents and the list's links, which the walk relies on. */
static bool check_links(verifier *v, const tw_region *region)
{
    const tw_op *prev = NULL;
    bool good = true;
    for (const tw_op *op = region->first; op && good; prev = op, op = op->next)
        good = op->prev == prev && op->region == region;
    if (!good || prev != region->last)
        return tw_error(v->ctx, region->parent->loc,
                        "%s: the operations of a region are not linked "
                        "to one another",
                        region->parent->def->name);
    return true;
}

static void check_symbols(verifier *v, const tw_region *region)
{
    tw_map names = tw_map_make(v->arena);
    for (const tw_op *op = region->first; op; op = op->next) {
        bool symbol = op->def && op->def->traits & TW_TRAIT_SYMBOL;
        const char *name = symbol ? tw_op_string(op, "sym_name", NULL) : NULL;
        if (name && tw_map_put_str(&names, name, (void *)op))
            tw_error(v->ctx, op->loc, "the name @%s is given twice", name);
    }
}

static bool begin_region(verifier *v, tw_region *region)
{
    tw_op *op = region->parent;
    tw_vec_push(v->arena, &v->marks, v->shown.len);
    if (op->def->traits & TW_TRAIT_ISOLATED)
        v->island = op;
    for (unsigned i = 0; i < region->n_args; i++) {
        const tw_value *arg = region->args[i];
        if (!arg) {
            tw_error(v->ctx, op->loc, "%s: argument %u of a region is missing", op->def->name, i);
            continue;
        }
        if (arg->op || arg->region != region || arg->index != i)
            tw_error(v->ctx, op->loc, "%s: argument %u does not know its place", op->def->name, i);
        check_value(v, op, arg, "argument", i);
        show(v, arg);
    }
    if (!check_links(v, region))
        return false;
    check_symbols(v, region);
    return true;
}

static void end_region(verifier *v)
{
    size_t mark = v->marks.data[--v->marks.len];
    while (v->shown.len > mark)
        tw_map_put_ptr(&v->visible, v->shown.data[--v->shown.len], NULL);
    v->island = v->frames.data[v->frames.len - 1].island;
}

/* ---- Operations ---- */

static bool check_region_parents(verifier *v, const tw_op *op)
{
    for (unsigned i = 0; i < op->n_regions; i++)
        if (op->regions[i].parent != op || op->regions[i].index != i)
            return tw_error(v->ctx, op->loc, "%s: region %u does not know its place", op->def->name,
                            i);
    return true;
}

/* False when the inside cannot be walked. */
static bool begin_op(verifier *v, tw_op *op)
{
    frame f = {tw_error_count(v->ctx), v->island};
    tw_vec_push(v->arena, &v->frames, f);
    if (!op->def)
        return tw_error(v->ctx, op->loc, "an operation has no definition");
    tw_verify_table(v->ctx, op);
    check_operands(v, op);
    check_results(v, op);
    for (unsigned i = 0; i < op->n_attrs; i++)
        if (op->attrs[i].value)
            tw_check_attr(&v->pieces, op, op->attrs[i].value);
        else
            tw_error(v->ctx, op->loc, "attribute '%s' of %s has no value", op->attrs[i].name,
                     op->def->name);
    check_traits(v, op);
    return check_region_parents(v, op);
}

static void end_op(verifier *v, tw_op *op)
{
    frame f = v->frames.data[--v->frames.len];
    v->island = f.island;
    if (op->def && op->def->verify && tw_error_count(v->ctx) == f.errors &&
        !op->def->verify(v->ctx, op) && tw_error_count(v->ctx) == f.errors)
        tw_error(v->ctx, op->loc, "%s is not valid", op->def->name);
    if (op != v->root)
        for (unsigned i = 0; i < op->n_results; i++)
            show(v, &op->results[i]);
}

/* ---- The walk ---- */

/* Values inside are used only inside: finds the ones that are not. */
static void report_stray_uses(verifier *v)
{
    tw_traversal t = {.root = v->root};
    for (tw_step step; (step = tw_traverse(&t)) != TW_STEP_DONE;) {
        for (unsigned i = 0; step == TW_STEP_OP && t.op != v->root && i < t.op->n_results; i++)
            for (tw_use *use = t.op->results[i].uses; use; use = use->next)
                if (!tw_op_is_ancestor(v->root, use->user))
                    tw_error(v->ctx, t.op->loc,
                             "a result of %s is used by a %s that does not stand in the IR",
                             t.op->def->name, use->user->def->name);
        for (unsigned i = 0; step == TW_STEP_REGION && i < t.region->n_args; i++)
            for (tw_use *use = t.region->args[i]->uses; use; use = use->next)
                if (!tw_op_is_ancestor(v->root, use->user))
                    tw_error(v->ctx, t.region->parent->loc,
                             "an argument of %s is used by a %s that does not stand in the IR",
                             t.region->parent->def->name, use->user->def->name);
    }
}

static void verify(tw_arena *scratch, void *data)
{
    verifier *v = data;
    size_t before = tw_error_count(v->ctx);
    v->arena = scratch;
    v->visible = tw_map_make(scratch);
    v->island = v;
    v->pieces = (tw_piece_checker){.ctx = v->ctx, .arena = scratch};
    v->pieces.seen = tw_map_make(scratch);
    v->pieces.exprs = tw_map_make(scratch);
    tw_traversal t = {.root = v->root};
    for (tw_step step; (step = tw_traverse(&t)) != TW_STEP_DONE;)
        if (step == TW_STEP_OP)
            t.skip = !begin_op(v, t.op);
        else if (step == TW_STEP_REGION)
            t.skip = !begin_region(v, t.region);
        else if (step == TW_STEP_REGION_END)
            end_region(v);
        else
            end_op(v, t.op);
    uint64_t own = 0; /* the root's results are used around it */
    for (unsigned i = 0; i < v->root->n_results; i++)
        for (const tw_use *use = v->root->results[i].uses; use; use = use->next)
            own++;
    if (tw_error_count(v->ctx) == before && v->uses - own != v->operands)
        report_stray_uses(v);
    v->good = tw_error_count(v->ctx) == before;
}

bool tw_verify(tw_context *ctx, tw_op *op)
{
    verifier v = {.ctx = ctx, .root = op};
    tw_with_scratch(ctx, verify, &v);
    return v.good;
}
