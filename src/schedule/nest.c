/* nest.c: loops around an operation, program order, and the text of a nest. */
#include "schedule/nest.h"

#include "base/arena.h"

#include <string.h>

static bool is_for(const tw_op *op)
{
    return tw_is_loop(op, TW_LOOP_FOR);
}

tw_expr tw_loop_lo(const tw_op *loop)
{
    return tw_op_attr(loop, "bounds")->u.map.exprs[0];
}

tw_expr tw_loop_hi(const tw_op *loop)
{
    return tw_op_attr(loop, "bounds")->u.map.exprs[1];
}

tw_expr tw_loop_extent(tw_context *ctx, const tw_op *loop)
{
    return tw_expr_sub(ctx, tw_loop_hi(loop), tw_loop_lo(loop));
}

bool tw_loop_const_extent(const tw_op *loop, int64_t *extent)
{
    int64_t lo;
    return tw_op_int(loop, "step", 1) == 1 && tw_expr_as_const(tw_loop_lo(loop), &lo) && lo == 0 &&
           tw_expr_as_const(tw_loop_hi(loop), extent);
}

const char *tw_loop_name(const tw_op *loop)
{
    const char *name = tw_loop_var(loop)->name;
    return name ? name : "loop";
}

/* ---- Nests --------------------------------------------------------------------------- */

int tw_nest_find(const tw_nest *nest, const tw_value *var)
{
    for (unsigned i = 0; i < nest->n; i++)
        if (nest->vars[i] == var)
            return (int)i;
    return -1;
}

/* Bounds of loop i over the variables of the loops around it. */
static void nest_bounds(tw_context *ctx, tw_nest *nest, unsigned i)
{
    tw_op *loop = nest->loops[i];
    tw_expr dims[TW_MAX_EXPR_DIMS];
    nest->known[i] = loop->n_operands <= TW_MAX_EXPR_DIMS && tw_op_int(loop, "step", 1) == 1;
    for (unsigned k = 0; nest->known[i] && k < loop->n_operands; k++) {
        int at = tw_nest_find(nest, tw_operand(loop, k));
        nest->known[i] = at >= 0;
        if (at >= 0)
            dims[k] = tw_expr_dim(ctx, (unsigned)at);
    }
    if (!nest->known[i])
        return;
    nest->lo[i] = tw_expr_substitute(ctx, tw_loop_lo(loop), dims, loop->n_operands);
    nest->hi[i] = tw_expr_substitute(ctx, tw_loop_hi(loop), dims, loop->n_operands);
}

bool tw_nest_of(tw_context *ctx, const tw_op *op, tw_nest *out)
{
    out->n = 0;
    for (const tw_region *r = op->region; r; r = r->parent->region)
        if (is_for(r->parent)) {
            if (out->n == TW_MAX_NEST)
                return false;
            out->loops[out->n++] = r->parent;
        }
    for (unsigned i = 0; i < out->n / 2; i++) {
        tw_op *swap = out->loops[i];
        out->loops[i] = out->loops[out->n - 1 - i];
        out->loops[out->n - 1 - i] = swap;
    }
    for (unsigned i = 0; i < out->n; i++) {
        out->vars[i] = tw_loop_var(out->loops[i]);
        out->ranges[i] = tw_value_range(ctx, out->vars[i]);
        nest_bounds(ctx, out, i);
    }
    return true;
}

/* ---- Program order ------------------------------------------------------------------- */

tw_op *tw_child_in(const tw_region *region, tw_op *op)
{
    while (op && op->region != region)
        op = op->region ? op->region->parent : NULL;
    return op;
}

tw_region *tw_common_region(tw_op *a, tw_op *b)
{
    for (tw_region *r = a->region; r; r = r->parent->region)
        if (tw_child_in(r, b))
            return r;
    return NULL;
}

bool tw_program_before(tw_op *a, tw_op *b)
{
    tw_region *common = tw_common_region(a, b);
    if (!common)
        return a->region && b->region && a->region->index < b->region->index;
    return tw_op_is_before(tw_child_in(common, a), tw_child_in(common, b));
}

tw_op *tw_block_around(const tw_op *op)
{
    return tw_op_enclosing(op, &tw_loop_ops[TW_LOOP_BLOCK]);
}

typedef struct each_block {
    void (*visit)(tw_op *block, void *data);
    void *data;
} each_block;

static bool visit_block(tw_op *op, void *data)
{
    each_block *each = data;
    if (tw_is_loop(op, TW_LOOP_BLOCK))
        each->visit(op, each->data);
    return true;
}

void tw_each_block(tw_op *root, void (*visit)(tw_op *block, void *data), void *data)
{
    each_block each = {visit, data};
    tw_walk(root, visit_block, &each);
}

/* ---- Text ---------------------------------------------------------------------------- */

typedef struct text {
    tw_context *ctx;
    const char *so_far;
    const tw_op *root;
    unsigned lines;
} text;

enum { MAX_LINES = 40 };

static unsigned depth_below(const tw_op *root, const tw_op *op)
{
    unsigned depth = 0;
    for (; op != root && op->region; op = op->region->parent)
        depth++;
    return depth;
}

static const char *bounds_text(tw_context *ctx, const tw_op *loop)
{
    const char *names[TW_MAX_EXPR_DIMS] = {0};
    for (unsigned i = 0; i < loop->n_operands && i < TW_MAX_EXPR_DIMS; i++)
        names[i] = tw_operand(loop, i)->name ? tw_operand(loop, i)->name : "?";
    return tw_arena_printf(tw_context_arena(ctx), "%s to %s",
                           tw_print_expr(ctx, tw_loop_lo(loop), names),
                           tw_print_expr(ctx, tw_loop_hi(loop), names));
}

static bool add_line(tw_op *op, void *data)
{
    text *t = data;
    tw_arena *arena = tw_context_arena(t->ctx);
    bool loop = is_for(op), block = tw_is_loop(op, TW_LOOP_BLOCK);
    if ((!loop && !block) || tw_block_around(op))
        return true;
    if (t->lines++ == MAX_LINES) {
        t->so_far = tw_arena_printf(arena, "%s\n  ...", t->so_far);
        return false;
    }
    const char *kind = loop ? tw_loop_for_kind(op) : "serial";
    int indent = 2 * (int)depth_below(t->root, op) + 2;
    if (loop)
        t->so_far =
            tw_arena_printf(arena, "%s\n%*sfor %%%s = %s%s%s", t->so_far, indent, "",
                            tw_loop_name(op), bounds_text(t->ctx, op),
                            strcmp(kind, "serial") ? " " : "", strcmp(kind, "serial") ? kind : "");
    else
        t->so_far = tw_arena_printf(arena, "%s\n%*sblock \"%s\"", t->so_far, indent, "",
                                    tw_op_string(op, "sym_name", "?"));
    return true;
}

const char *tw_nest_text(tw_context *ctx, tw_op *root)
{
    text t = {ctx, "the loop nest is", root, 0};
    tw_walk(root, add_line, &t);
    return t.so_far;
}

/* ---- Removal ------------------------------------------------------------------------- */

void tw_erase_empty_loops(tw_op *loop)
{
    while (loop && is_for(loop)) {
        tw_region *body = &loop->regions[0];
        for (tw_op *op = body->first; op; op = op->next)
            if (op->n_regions > 0 || !(op->def->traits & TW_TRAIT_PURE))
                return;
        tw_op *parent = loop->region->parent;
        tw_op_erase(loop);
        loop = parent;
    }
}

bool tw_erase_if_unused(tw_value *buffer)
{
    if (buffer->uses || !buffer->op || !tw_is_loop(buffer->op, TW_LOOP_ALLOC))
        return false;
    tw_op_erase(buffer->op);
    return true;
}
