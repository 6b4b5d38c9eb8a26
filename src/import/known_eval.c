/* known_eval.c: which known element of its operands each element of an operation's result is, or
 * is computed from. */
#include "import/known_eval.h"

#include "base/checked.h"

#include <math.h>
#include <string.h>

/* What the evaluation of one operation works on. */
typedef struct eval {
    tw_gb *g;
    const tw_op *op;
    tw_type type; /* of the result; static */
    const tw_known *in[3];
    tw_num *out;
    size_t n;
} eval;

/* Row-major position <-> coordinates of a static type. */
static void coordinates(tw_type type, size_t i, int64_t *at)
{
    for (unsigned a = type->rank; a-- > 0;) {
        int64_t size = type->dims[a]->value;
        at[a] = (int64_t)(i % (size_t)size);
        i /= (size_t)size;
    }
}

static size_t position(tw_type type, const int64_t *at)
{
    size_t i = 0;
    for (unsigned a = 0; a < type->rank; a++)
        i = i * (size_t)type->dims[a]->value + (size_t)at[a];
    return i;
}

static tw_type operand_type(const eval *e, unsigned i)
{
    return tw_operand(e->op, i)->type;
}

/* The element of operand `i` that is broadcast to `at` of the result. */
static tw_num broadcast(const eval *e, unsigned i, const int64_t *at)
{
    tw_type t = operand_type(e, i);
    int64_t own[TW_MAX_RANK];
    for (unsigned a = 0; a < t->rank; a++)
        own[a] = t->dims[a]->value == 1 ? 0 : at[e->type->rank - t->rank + a];
    return e->in[i]->items[position(t, own)];
}

static void eval_elementwise(eval *e)
{
    int64_t at[TW_MAX_RANK];
    tw_elem elem = operand_type(e, e->op->n_operands - 1)->elem;
    for (size_t i = 0; i < e->n; i++) {
        tw_num args[3];
        coordinates(e->type, i, at);
        for (unsigned k = 0; k < e->op->n_operands; k++)
            args[k] = broadcast(e, k, at);
        e->out[i] = tw_num_apply(e->g, e->op, elem, e->type->elem, args);
    }
}

/* ---- Movement: result element i is the operand's element at `from` ---- */

typedef bool (*mover)(const eval *e, const int64_t *at, int64_t *from);

static void eval_moved(eval *e, mover move)
{
    int64_t at[TW_MAX_RANK], from[TW_MAX_RANK];
    tw_type t = operand_type(e, 0);
    for (size_t i = 0; i < e->n; i++) {
        coordinates(e->type, i, at);
        if (move(e, at, from))
            e->out[i] = e->in[0]->items[position(t, from)];
    }
}

static bool move_transpose(const eval *e, const int64_t *at, int64_t *from)
{
    int64_t perm[TW_MAX_RANK];
    tw_op_ints(e->op, "perm", perm, TW_MAX_RANK);
    for (unsigned a = 0; a < e->type->rank; a++)
        from[perm[a]] = at[a];
    return true;
}

static bool move_expand(const eval *e, const int64_t *at, int64_t *from)
{
    tw_type t = operand_type(e, 0);
    for (unsigned a = 0; a < t->rank; a++)
        from[a] = t->dims[a]->value == 1 ? 0 : at[e->type->rank - t->rank + a];
    return true;
}

static bool move_slice(const eval *e, const int64_t *at, int64_t *from)
{
    tw_expr starts[TW_MAX_RANK];
    int64_t steps[TW_MAX_RANK], start;
    tw_graph_exprs(e->g->ctx, e->op, "starts", starts, TW_MAX_RANK);
    tw_op_ints(e->op, "steps", steps, TW_MAX_RANK);
    for (unsigned a = 0; a < e->type->rank; a++) {
        if (!tw_expr_as_const(starts[a], &start))
            return false;
        from[a] = start + at[a] * steps[a];
    }
    return true;
}

static bool move_tile(const eval *e, const int64_t *at, int64_t *from)
{
    tw_type t = operand_type(e, 0);
    for (unsigned a = 0; a < t->rank; a++)
        from[a] = at[a] % t->dims[a]->value;
    return true;
}

static bool move_gather(const eval *e, const int64_t *at, int64_t *from)
{
    tw_type t = operand_type(e, 0), indices = operand_type(e, 1);
    unsigned axis = (unsigned)tw_op_int(e->op, "axis", 0);
    int64_t index;
    const tw_num *item = &e->in[1]->items[position(indices, at + axis)];
    if (item->kind != TW_NUM_RATIO || !tw_expr_as_const(item->num, &index))
        return false;
    if (index < 0)
        index += t->dims[axis]->value;
    for (unsigned a = 0; a < t->rank; a++)
        from[a] = a < axis ? at[a] : a == axis ? index : at[a + indices->rank - 1];
    return index >= 0 && index < t->dims[axis]->value;
}

/* ---- Others ---- */

static void eval_concat(eval *e)
{
    unsigned axis = (unsigned)tw_op_int(e->op, "axis", 0);
    int64_t at[TW_MAX_RANK], base = 0;
    for (unsigned k = 0; k < e->op->n_operands; k++) {
        tw_type t = operand_type(e, k);
        const tw_known *known = tw_known_of(e->g, tw_operand(e->op, k));
        for (size_t i = 0; known && i < known->n; i++) {
            coordinates(t, i, at);
            at[axis] += base;
            e->out[position(e->type, at)] = known->items[i];
        }
        base += t->dims[axis]->value;
    }
}

static void eval_shape(eval *e)
{
    tw_type t = operand_type(e, 0);
    int64_t start = tw_op_int(e->op, "start", 0);
    for (size_t i = 0; i < e->n; i++)
        e->out[i] = (tw_num){.kind = TW_NUM_RATIO, .num = t->dims[(size_t)start + i], .den = 1};
}

static void eval_iota(eval *e)
{
    int64_t at[TW_MAX_RANK], axis = tw_op_int(e->op, "axis", 0);
    for (size_t i = 0; i < e->n; i++) {
        coordinates(e->type, i, at);
        e->out[i] = tw_elem_is_float(e->type->elem) ? tw_num_real((double)at[axis])
                                                    : tw_num_int(e->g, at[axis]);
    }
}

/* start + i * delta, as i products and a sum in the element type. */
static void eval_range(eval *e)
{
    const tw_num *start = &e->in[0]->items[0], *delta = &e->in[2]->items[0];
    if (tw_elem_is_float(e->type->elem) || start->kind != TW_NUM_RATIO ||
        delta->kind != TW_NUM_RATIO)
        return;
    for (size_t i = 0; i < e->n; i++) {
        tw_expr value =
            tw_expr_add(e->g->ctx, start->num, tw_expr_mulc(e->g->ctx, delta->num, (int64_t)i));
        if (value->kind != TW_EXPR_INVALID)
            e->out[i] = (tw_num){.kind = TW_NUM_RATIO, .num = value, .den = 1};
    }
}

/* Sum, product, maximum and minimum of integers. */
static void eval_reduce(eval *e, tw_expr_kind join, int64_t neutral)
{
    int64_t axes[TW_MAX_RANK], at[TW_MAX_RANK], to[TW_MAX_RANK];
    tw_type t = operand_type(e, 0);
    bool keepdims = tw_op_bool(e->op, "keepdims", true);
    int n_axes = tw_op_ints(e->op, "axes", axes, TW_MAX_RANK);
    tw_expr *sums = TW_NEW_ARRAY(e->g->arena, tw_expr, e->n);
    if (tw_elem_is_float(t->elem) || tw_elem_bits(t->elem) < 32)
        return;
    for (size_t i = 0; i < e->in[0]->n; i++) {
        const tw_num *x = &e->in[0]->items[i];
        unsigned rank = 0;
        coordinates(t, i, at);
        for (unsigned a = 0; a < t->rank; a++) {
            bool reduced = false;
            for (int k = 0; k < n_axes; k++)
                reduced |= axes[k] == a;
            if (!reduced || keepdims)
                to[rank++] = reduced ? 0 : at[a];
        }
        tw_expr *sum = &sums[position(e->type, to)];
        tw_expr value = x->kind == TW_NUM_RATIO ? x->num : tw_expr_invalid(e->g->ctx);
        *sum = *sum ? tw_expr_binary(e->g->ctx, join, *sum, value) : value;
    }
    for (size_t i = 0; i < e->n; i++)
        if (sums[i] ? sums[i]->kind != TW_EXPR_INVALID : join == TW_EXPR_ADD || join == TW_EXPR_MUL)
            e->out[i] = sums[i] ? (tw_num){.kind = TW_NUM_RATIO, .num = sums[i], .den = 1}
                                : tw_num_int(e->g, neutral);
}

/* ---- The table ---- */

/* True when the kind is one that is evaluated here. */
static bool eval_kind(eval *e)
{
    switch (tw_graph_kind_of(e->op)) {
    case TW_GRAPH_RESHAPE:
        if (e->n)
            memcpy(e->out, e->in[0]->items, e->n * sizeof *e->out);
        return true;
    case TW_GRAPH_TRANSPOSE:
        eval_moved(e, move_transpose);
        return true;
    case TW_GRAPH_EXPAND:
        eval_moved(e, move_expand);
        return true;
    case TW_GRAPH_SLICE:
        eval_moved(e, move_slice);
        return true;
    case TW_GRAPH_TILE:
        eval_moved(e, move_tile);
        return true;
    case TW_GRAPH_GATHER:
        eval_moved(e, move_gather);
        return true;
    case TW_GRAPH_RANGE:
        eval_range(e);
        return true;
    case TW_GRAPH_REDUCE_SUM:
        eval_reduce(e, TW_EXPR_ADD, 0);
        return true;
    case TW_GRAPH_REDUCE_PROD:
        eval_reduce(e, TW_EXPR_MUL, 1);
        return true;
    case TW_GRAPH_REDUCE_MAX:
        eval_reduce(e, TW_EXPR_MAX, 0);
        return true;
    case TW_GRAPH_REDUCE_MIN:
        eval_reduce(e, TW_EXPR_MIN, 0);
        return true;
    default:
        if (!(e->op->def->traits & TW_TRAIT_ELEMENTWISE))
            return false;
        eval_elementwise(e);
        return true;
    }
}

/* Operations whose result is known without the values of their operands. */
static bool eval_special(eval *e)
{
    switch (tw_graph_kind_of(e->op)) {
    case TW_GRAPH_SHAPE:
        eval_shape(e);
        return true;
    case TW_GRAPH_IOTA:
        eval_iota(e);
        return true;
    case TW_GRAPH_CONCAT:
        eval_concat(e);
        return true;
    default:
        return false;
    }
}

static bool find_operands(eval *e)
{
    if (e->op->n_operands == 0 || e->op->n_operands > 3)
        return false;
    for (unsigned i = 0; i < e->op->n_operands; i++) {
        e->in[i] = tw_known_of(e->g, tw_operand(e->op, i));
        if (!e->in[i] || !tw_type_is_static(operand_type(e, i)))
            return false;
    }
    return true;
}

bool tw_known_eval(tw_gb *g, const tw_op *op, tw_known *out)
{
    eval e = {.g = g, .op = op, .type = op->results[0].type};
    tw_graph_kind kind = tw_graph_kind_of(op);
    if (op->n_results != 1 || kind == TW_GRAPH_CONSTANT || !tw_known_countable(g, e.type, &e.n))
        return false;
    bool special = kind == TW_GRAPH_SHAPE || kind == TW_GRAPH_IOTA || kind == TW_GRAPH_CONCAT;
    if (!special && !find_operands(&e))
        return false;
    if (kind == TW_GRAPH_CONCAT)
        for (unsigned i = 0; i < op->n_operands; i++)
            if (!tw_type_is_static(operand_type(&e, i)))
                return false;
    e.out = tw_known_items(g, e.n);
    if (!(special ? eval_special(&e) : eval_kind(&e)))
        return false;
    bool any = e.n == 0;
    for (size_t i = 0; i < e.n; i++)
        any |= e.out[i].kind != TW_NUM_UNKNOWN;
    *out = (tw_known){e.n, e.out};
    return any;
}
