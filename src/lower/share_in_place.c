/* share_in_place.c: results of element-wise kernels lie where an operand was that dies.
 *
 *     %a lives to the call, %b from it        %b lives where %a did
 *     call @relu(%a, %b)                ->
 *
 * The kernel's attribute `in_place` lists the arguments that allow it (in_place.c). The two must be
 * all of their buffers, in one region, and equally large. */
#include "lower/plan_memory.h"

#include "base/map.h"
#include "dialect/core/core.h"
#include "dialect/loop/loop.h"
#include "ir/traverse.h"

typedef struct sharing {
    tw_plan_lives *lives;
    tw_map kernels; /* name -> kernel with the attribute */
    size_t step;
} sharing;

/* The buffer that is planned for it. */
static tw_plan_buffer *root_of(tw_plan_buffer *b)
{
    while (b && b->in)
        b = b->in;
    return b;
}

/* The buffer that the value is all of, or NULL. */
static tw_plan_buffer *whole_buffer(const sharing *s, tw_value *value)
{
    tw_plan_buffer *b = tw_map_get_ptr(&s->lives->by_value, value);
    for (const tw_value *v = value; b && v != &b->alloc->results[0]; v = tw_operand(v->op, 0))
        if (tw_op_int(v->op, "offset", 0) || tw_op_attr(v->op, "part") ||
            v->type->elem != tw_operand(v->op, 0)->type->elem)
            return NULL;
    return root_of(b);
}

/* Whether an argument other than those two is in the buffer. */
static bool has_others(const sharing *s, const tw_op *call, unsigned one, unsigned two,
                       const tw_plan_buffer *buffer)
{
    for (unsigned i = 0; i < call->n_operands; i++)
        if (i != one && i != two &&
            root_of(tw_map_get_ptr(&s->lives->by_value, tw_operand(call, i))) == buffer)
            return true;
    return false;
}

static tw_expr elements(tw_context *ctx, tw_type type)
{
    tw_expr n = tw_expr_const(ctx, 1);
    for (unsigned i = 0; i < type->rank; i++)
        n = tw_expr_mul(ctx, n, type->dims[i]);
    return n;
}

static bool same_size(const tw_plan_buffer *a, const tw_plan_buffer *b)
{
    tw_type x = a->alloc->results[0].type, y = b->alloc->results[0].type;
    tw_context *ctx = tw_op_context(a->alloc);
    tw_expr n = elements(ctx, x);
    return x->elem == y->elem && n->kind != TW_EXPR_INVALID && n == elements(ctx, y);
}

static void share(sharing *s, const tw_op *call, const tw_op *kernel)
{
    tw_attr which = tw_op_attr(kernel, "in_place");
    int64_t outputs = tw_op_int(kernel, "outputs", 0), at = (int64_t)call->n_operands - outputs;
    tw_value *result = outputs > 0 && at >= 0 ? tw_operand(call, (unsigned)at) : NULL;
    tw_plan_buffer *to = result ? whole_buffer(s, result) : NULL;
    for (size_t i = 0; to && i < which->u.array.n; i++) {
        int64_t number = which->u.array.items[i]->u.integer;
        tw_plan_buffer *from =
            number >= 0 && number < at ? whole_buffer(s, tw_operand(call, (unsigned)number)) : NULL;
        if (!from || from == to || from->last != s->step || to->first != s->step ||
            from->alloc->region != call->region || to->alloc->region != call->region ||
            tw_operand(call, (unsigned)number)->type != result->type || !same_size(from, to) ||
            has_others(s, call, (unsigned)number, (unsigned)at, from))
            continue;
        to->in = from;
        from->last = to->last;
        return;
    }
}

static bool visit(tw_op *op, void *data)
{
    sharing *s = data;
    const tw_op *kernel = tw_is_core(op, TW_CORE_CALL)
                              ? tw_map_get_str(&s->kernels, tw_op_string(op, "callee", ""))
                              : NULL;
    if (kernel)
        share(s, op, kernel);
    s->step++;
    return true;
}

void tw_plan_share_in_place(tw_plan_lives *lives, tw_op *func)
{
    const tw_op *module = tw_op_enclosing(func, &tw_core_ops[TW_CORE_MODULE]);
    sharing s = {.lives = lives, .kernels = tw_map_make(lives->arena)};
    for (tw_op *op = module ? tw_core_body((tw_op *)module)->first : NULL; op; op = op->next)
        if (tw_is_loop(op, TW_LOOP_KERNEL) && tw_op_attr(op, "in_place"))
            tw_map_put_str(&s.kernels, tw_op_string(op, "sym_name", ""), op);
    if (s.kernels.len)
        tw_walk(func, visit, &s);
}
