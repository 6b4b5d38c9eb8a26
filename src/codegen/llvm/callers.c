/* callers.c: what the module's functions say of kernels: which there are, how their arguments are
 * aligned in every call, and which arguments share memory in some call. */
#include "codegen/llvm/cg.h"

#include "dialect/core/core.h"
#include "tilewright/model.h"

#include <string.h>

/* Where a buffer lies: an interval of the arena, or of a memory of its own. */
typedef struct place {
    const tw_value *root; /* NULL: the arena */
    const tw_value *base; /* the buffer that it is a view of */
    int64_t begin, end;   /* bytes; end INT64_MAX when the size is not known */
    uint64_t align_bits;  /* lowest bit set: what the address is a multiple of */
    tw_type type;         /* of the view of a part that it is */
    tw_attr part;         /* that view's part, or NULL */
    int64_t element;      /* where that view begins in the root, in elements */
} place;

static int64_t buffer_bytes(tw_type type)
{
    int64_t count;
    if (!tw_type_static_count(type, &count) || count > INT64_MAX / 64)
        return INT64_MAX;
    return (count * tw_elem_bits(type->elem) + 7) / 8;
}

static uint64_t elem_align(tw_type type)
{
    return tw_elem_bits(type->elem) < 8 ? 1 : tw_elem_bits(type->elem) / 8;
}

/* Bounded: views of views do not go deeper than the verifier's limit of an expression; beyond the
 * bound the place is not known to be aligned or apart. */
static place find_place(tw_value *v)
{
    int64_t begin = 0;
    uint64_t bits = TW_ABI_ALIGN;
    tw_type type = v->type;
    place p = {.part = NULL};
    while (v->op && tw_is_loop(v->op, TW_LOOP_VIEW)) {
        int64_t offset = tw_op_int(v->op, "offset", 0) * tw_elem_bits(v->type->elem) / 8;
        begin += offset;
        bits |= (uint64_t)offset;
        if (!p.part) {
            p.part = tw_op_attr(v->op, "part");
            p.type = v->type;
            p.element = 0;
        }
        p.element += tw_op_int(v->op, "offset", 0);
        v = tw_operand(v->op, 0);
    }
    p.root = p.base = v;
    p.begin = begin;
    tw_attr offset = v->op ? tw_op_attr(v->op, "offset") : NULL;
    if (!v->op) {
        bits |= elem_align(v->type);
    } else if (tw_is_loop(v->op, TW_LOOP_CONSTANT_BUFFER)) {
        bits |= (uint64_t)tw_op_int(v->op, "const_offset", 0);
    } else if (offset && offset->kind == TW_ATTR_INT) {
        p.root = NULL;
        p.begin += offset->u.integer;
        bits |= (uint64_t)offset->u.integer;
    } else if (offset) {
        bits |= elem_align(v->type);
    }
    int64_t size = buffer_bytes(type), all = buffer_bytes(v->type);
    if (p.part && all != INT64_MAX && size > all - begin)
        size = all - begin; /* a view of a part may seem to go on behind the memory */
    p.end = size > INT64_MAX - p.begin ? INT64_MAX : p.begin + size;
    p.align_bits = bits;
    return p;
}

/* Whether two parts of one buffer, seen with the same sizes, have no element in common: along some
 * axis one ends where the other begins or before. */
static bool apart(const place *a, const place *b)
{
    int64_t size[TW_MAX_RANK], stride = 1, m, n;
    bool apart = false;
    if (!a->part || !b->part || a->base != b->base || a->type != b->type ||
        !tw_type_static_count(a->type, NULL))
        return false;
    for (unsigned i = a->type->rank; i-- > 0; stride *= size[i]) {
        size[i] = tw_type_dim(a->type, i);
        if (!size[i] || !tw_expr_as_const(a->part->u.map.exprs[i], &m) ||
            !tw_expr_as_const(b->part->u.map.exprs[i], &n))
            return false;
        int64_t x = a->element / stride % size[i], y = b->element / stride % size[i];
        if (m > size[i] - x || n > size[i] - y)
            return false; /* the part goes round the axis */
        apart = apart || x + m <= y || y + n <= x;
    }
    return apart;
}

static bool overlap(const place *a, const place *b)
{
    return a->root == b->root && a->begin < b->end && b->begin < a->end && !apart(a, b);
}

/* ---- Kernels ---- */

static void add_kernel(tw_arena *arena, tw_op *kernel, tw_cg_program *out)
{
    const tw_region *body = &kernel->regions[0];
    unsigned outputs = (unsigned)tw_op_int(kernel, "outputs", 0);
    tw_cg_buffer *args = TW_NEW_ARRAY(arena, tw_cg_buffer, body->n_args + 1);
    for (unsigned i = 0; i < body->n_args; i++)
        args[i] = (tw_cg_buffer){.root = body->args[i],
                                 .written = i + outputs >= body->n_args,
                                 .align = (unsigned)elem_align(body->args[i]->type)};
    tw_attr alias = tw_op_attr(kernel, "alias");
    for (size_t i = 0; alias && i < alias->u.array.n; i++) {
        int64_t at = alias->u.array.items[i]->u.integer;
        if (at >= 0 && at < body->n_args)
            args[at].aliased = true;
    }
    tw_map_put_str(&out->kernels, tw_op_string(kernel, "sym_name", ""), kernel);
    tw_map_put_ptr(&out->args, kernel, args);
}

/* ---- Calls ---- */

typedef struct scan {
    tw_context *ctx;
    tw_cg_program *out;
    tw_map aligned; /* kernel -> its alignments so far: array of bits */
    TW_VEC(tw_op *) calls;
    bool failed;
} scan;

static bool check_call(scan *s, const tw_op *call, tw_op **kernel)
{
    const char *name = tw_op_string(call, "callee", "");
    *kernel = tw_map_get_str(&s->out->kernels, name);
    if (!*kernel)
        return tw_error(s->ctx, call->loc, "call of @%s, which is no kernel of the module", name);
    const tw_region *body = &(*kernel)->regions[0];
    if (body->n_args != call->n_operands)
        return tw_error(s->ctx, call->loc, "kernel @%s takes %u arguments, not %u", name,
                        body->n_args, call->n_operands);
    return true;
}

static bool scan_call(tw_op *op, void *data)
{
    scan *s = data;
    tw_op *kernel;
    if (!tw_is_core(op, TW_CORE_CALL))
        return true;
    if (!check_call(s, op, &kernel))
        return false;
    tw_arena *arena = tw_context_arena(s->ctx);
    unsigned n = op->n_operands;
    tw_cg_buffer *args = tw_map_get_ptr(&s->out->args, kernel);
    uint64_t *aligned = tw_map_get_ptr(&s->aligned, kernel);
    if (!aligned) {
        aligned = TW_NEW_ARRAY(arena, uint64_t, n + 1);
        tw_map_put_ptr(&s->aligned, kernel, aligned);
    }
    place *places = TW_NEW_ARRAY(arena, place, n + 1);
    for (unsigned i = 0; i < n; i++) {
        if (tw_operand(op, i)->type->kind != TW_TYPE_BUFFER)
            continue;
        places[i] = find_place(tw_operand(op, i));
        aligned[i] |= places[i].align_bits;
        args[i].align = (unsigned)(aligned[i] & -aligned[i]);
        for (unsigned k = 0; k < i; k++)
            if (overlap(&places[i], &places[k]) && (args[i].written || args[k].written))
                args[i].aliased = args[k].aliased = true;
    }
    tw_vec_push(arena, &s->calls, op);
    return true;
}

bool tw_cg_program_fill(tw_context *ctx, tw_op *module, const tw_op *entry, tw_cg_program *out)
{
    tw_arena *arena = tw_context_arena(ctx);
    *out = (tw_cg_program){.symbols = tw_op_attr(module, "symbols"),
                           .input_symbols = tw_core_input_symbols(module),
                           .symbol_places = tw_map_make(arena),
                           .kernels = tw_map_make(arena),
                           .args = tw_map_make(arena)};
    for (size_t i = 0; out->symbols && i < out->symbols->u.array.n; i++)
        tw_map_put_str(&out->symbol_places, out->symbols->u.array.items[i]->u.string.text,
                       (void *)(uintptr_t)(i + 1));
    for (unsigned r = 0; r < module->n_regions && !tw_is_loop(module, TW_LOOP_KERNEL); r++)
        for (tw_op *op = module->regions[r].first; op; op = op->next)
            if (tw_is_loop(op, TW_LOOP_KERNEL))
                add_kernel(arena, op, out);
    if (tw_is_loop(module, TW_LOOP_KERNEL))
        add_kernel(arena, module, out);
    scan s = {.ctx = ctx, .out = out, .aligned = tw_map_make(arena)};
    if (entry && !tw_walk((tw_op *)entry, scan_call, &s))
        return false;
    out->calls = s.calls.data;
    out->n_calls = s.calls.len;
    return true;
}
