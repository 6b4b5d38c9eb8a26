/* step.c: what several primitives check and look up. */
#include "base/vec.h"
#include "schedule/schedule_impl.h"

#include <stdarg.h>
#include <string.h>

bool tw_step_refuse(const tw_step *step, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *why = tw_arena_vprintf(tw_context_arena(step->ctx), format, args);
    va_end(args);
    tw_error(step->ctx, step->op->loc, "%s: %s", step->op->def->name, why);
    tw_note(step->ctx, step->op->loc, "%s", tw_nest_text(step->ctx, step->s->kernel));
    return false;
}

const char *tw_block_name(const tw_op *block)
{
    return tw_op_string(block, "sym_name", "?");
}

void tw_step_name_block(const tw_step *step, tw_op *block, const char *name)
{
    tw_arena *arena = tw_context_arena(step->ctx);
    const char *unique = name;
    for (unsigned i = 1; tw_map_get_str(&step->s->blocks, unique); i++)
        unique = tw_arena_printf(arena, "%s_%u", name, i);
    tw_op_set_attr(block, "sym_name", tw_attr_string(step->ctx, unique));
    tw_map_put_str(&step->s->blocks, unique, block);
}

void tw_block_inherit(tw_op *block, const tw_op *from)
{
    tw_op_set_attr(block, "part", tw_op_attr(from, "part"));
}

void tw_step_replaced(const tw_step *step, const tw_op *from, tw_op *to)
{
    tw_map *refs = &step->s->refs;
    for (size_t i = 0; i < refs->len; i++)
        if (refs->entries[i].value == from)
            refs->entries[i].value = to;
    tw_map_put_str(&step->s->blocks, tw_block_name(from), to);
}

bool tw_step_block(const tw_step *step, tw_op *block, tw_block_info *out)
{
    const char *why = NULL;
    return tw_block_analyse(step->ctx, block, out, &why) ||
           tw_step_refuse(step, "block \"%s\" %s", tw_block_name(block), why);
}

tw_op *tw_step_own_loops(const tw_step *step, const tw_block_info *b)
{
    unsigned level = b->nest.n;
    tw_op *inner = b->op;
    bool bound[TW_MAX_NEST] = {false};
    for (unsigned i = 0; i < b->n_iters; i++) {
        tw_expr e = b->bindings[i];
        int64_t extent, loop_extent;
        if (e->kind != TW_EXPR_DIM || bound[e->value] ||
            !tw_expr_as_const(b->extents[i], &extent) ||
            !tw_loop_const_extent(b->nest.loops[e->value], &loop_extent) || loop_extent != extent) {
            tw_step_refuse(step,
                           "variable %u of block \"%s\" is not bound to a loop of its own of "
                           "constant extent",
                           i, b->name);
            return NULL;
        }
        bound[e->value] = true;
    }
    for (unsigned i = 0; i < b->n_iters; i++, level--) {
        tw_op *loop = level ? b->nest.loops[level - 1] : NULL;
        if (!loop || !bound[level - 1] || inner != loop->regions[0].first ||
            inner != loop->regions[0].last) {
            tw_step_refuse(step, "block \"%s\" does not stand in perfectly nested loops of its own",
                           b->name);
            return NULL;
        }
        if (!tw_step_serial(step, loop))
            return NULL;
        inner = loop;
    }
    return inner;
}

bool tw_step_whole(const tw_step *step, const tw_block_info *block)
{
    return !tw_op_attr(block->op, "part") ||
           tw_step_refuse(step,
                          "block \"%s\" runs only a part of its instances (do this before "
                          "loop_partition)",
                          block->name);
}

tw_value *tw_step_written(const tw_step *step, const tw_block_info *block)
{
    int64_t write = tw_op_int(step->op, "write", 0);
    tw_value *buffer =
        write >= 0 && write < INT32_MAX ? tw_block_written(block, (unsigned)write) : NULL;
    if (!buffer)
        tw_step_refuse(step, "block \"%s\" has no written buffer number %lld", block->name,
                       (long long)write);
    return buffer;
}

tw_value *tw_step_own_written(const tw_step *step, const tw_block_info *block)
{
    tw_value *buffer = tw_step_written(step, block);
    if (!buffer)
        return NULL;
    if (!tw_buffer_alloc(buffer)) {
        tw_step_refuse(step, "%%%s is not allocated by the kernel", tw_buffer_name(buffer));
        return NULL;
    }
    for (const tw_use *use = buffer->uses; use; use = use->next)
        if (tw_is_loop(use->user, TW_LOOP_VIEW)) {
            tw_step_refuse(step, "%%%s has views", tw_buffer_name(buffer));
            return NULL;
        }
    return buffer;
}

typedef struct block_walk {
    const tw_step *step;
    TW_VEC(tw_block_info *) found;
} block_walk;

static bool analyse_one(tw_op *op, void *data)
{
    block_walk *w = data;
    if (!tw_is_loop(op, TW_LOOP_BLOCK))
        return true;
    tw_arena *arena = tw_context_arena(w->step->ctx);
    tw_block_info *info = TW_NEW(arena, tw_block_info);
    tw_vec_push(arena, &w->found, info);
    return tw_step_block(w->step, op, info);
}

bool tw_step_blocks(const tw_step *step, tw_op *root, tw_block_list *out)
{
    block_walk w = {.step = step};
    bool all = tw_walk(root, analyse_one, &w);
    *out = (tw_block_list){w.found.data, (unsigned)w.found.len};
    return all;
}

static bool is_harmless(tw_op *op, void *data)
{
    (void)data;
    return (op->def->traits & TW_TRAIT_PURE) || tw_is_loop(op, TW_LOOP_FOR) ||
           tw_is_loop(op, TW_LOOP_BLOCK) || tw_is_loop(op, TW_LOOP_ALLOC) || tw_block_around(op);
}

bool tw_step_only_blocks(const tw_step *step, tw_op *loop)
{
    return tw_walk(loop, is_harmless, NULL) ||
           tw_step_refuse(step, "loop %%%s holds operations outside of blocks", tw_loop_name(loop));
}

bool tw_step_serial(const tw_step *step, tw_op *loop)
{
    if (tw_op_int(loop, "step", 1) != 1)
        return tw_step_refuse(step, "loop %%%s has a step other than 1", tw_loop_name(loop));
    if (strcmp(tw_loop_for_kind(loop), "serial") != 0)
        return tw_step_refuse(step, "loop %%%s is marked %s; only serial loops can be transformed",
                              tw_loop_name(loop), tw_loop_for_kind(loop));
    return true;
}

bool tw_is_private(const tw_value *buffer, const tw_op *loop)
{
    const tw_op *alloc = tw_buffer_alloc(buffer);
    return alloc && alloc != loop && tw_op_is_ancestor(loop, alloc);
}

bool tw_is_perfect(const tw_op *a, const tw_op *b)
{
    return a->regions[0].first == b && a->regions[0].last == b;
}

/* Whether the loop or one around it runs in lanes, which leaves no place for other loops. */
static bool runs_in_lanes(tw_op *loop)
{
    for (tw_op *up = loop; up->region; up = up->region->parent)
        if (tw_is_loop(up, TW_LOOP_FOR) && !strcmp(tw_loop_for_kind(up), "vectorize"))
            return true;
    return false;
}

bool tw_step_target_loop(const tw_step *step, tw_op *block, tw_op *loop, tw_nest *nest)
{
    if (tw_op_is_ancestor(loop, block))
        return tw_step_refuse(step, "block \"%s\" is inside of loop %%%s already",
                              tw_block_name(block), tw_loop_name(loop));
    if (runs_in_lanes(loop))
        return tw_step_refuse(step, "loop %%%s runs in lanes", tw_loop_name(loop));
    if (!loop->regions[0].first || !tw_nest_of(step->ctx, loop->regions[0].first, nest))
        return tw_step_refuse(step, "loop %%%s is empty or nested too deep", tw_loop_name(loop));
    return true;
}
