/* join_products.c: matrix products of one left operand with constant weights become one product.
 *
 *   %q = graph.add (graph.matmul %x, %wq), %bq         // Q, K and V of attention
 *   %k = graph.add (graph.matmul %x, %wk), %bk
 *     =>
 *   %w = graph.concat %wq, %wk {axis = 1}              // which fold-constants evaluates,
 *   %b = graph.concat %bq, %bk {axis = 0}
 *   %0 = graph.add (graph.matmul %x, %w), %b
 *   %q = graph.slice %0 …                              // an index map in what reads it
 *   %k = graph.slice %0 …
 *
 * Cost: joining saves reading x once for each product but the first, and as many kernels; it costs
 * nothing where a slice is but another index map. So each result, with the bias that only it has,
 * must be used by reshapes, transposes, slices and attention alone, and in the end by a transpose
 * or attention, which have a kernel that reads it in any case. Where a result's users are
 * element-wise they would be the product's epilogue, and another product would need the slice as a
 * copy: these stay. Convolutions: join_convolutions.c. */
#include "transform/transform.h"

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "dialect/graph/graph.h"
#include "transform/build.h"
#include "transform/constants.h"

enum { MAX_JOINED = 16, MAX_MOVES = 8 };

/* One product that may be joined. */
typedef struct part {
    tw_op *product;
    tw_value *bias;   /* of one axis, or NULL */
    tw_value *result; /* what the others use: the product or its sum with the bias */
} part;

/* Whether slices of the value cost nothing: see above. */
static bool reads_any_place(const tw_value *value, int depth)
{
    if (!value->uses || depth == MAX_MOVES)
        return false;
    for (const tw_use *u = value->uses; u; u = u->next)
        switch (tw_graph_kind_of(u->user)) {
        case TW_GRAPH_TRANSPOSE:
        case TW_GRAPH_ATTENTION:
            break;
        case TW_GRAPH_RESHAPE:
        case TW_GRAPH_SLICE:
            if (!reads_any_place(&u->user->results[0], depth + 1))
                return false;
            break;
        default:
            return false;
        }
    return true;
}

static bool is_bias(const tw_value *value, const tw_value *product)
{
    tw_type t = value->type;
    return t->rank == 1 && t->elem == product->type->elem &&
           t->dims[0] == product->type->dims[product->type->rank - 1] &&
           tw_depends_on_constants(value);
}

/* The product's own bias, or NULL. */
static tw_value *own_bias(const tw_value *product)
{
    const tw_op *add = tw_value_has_one_use(product) ? product->uses->user : NULL;
    for (unsigned i = 0; add && tw_is_graph(add, TW_GRAPH_ADD) && i < 2; i++)
        if (tw_operand(add, i) == product && add->results[0].type == product->type &&
            is_bias(tw_operand(add, 1 - i), product))
            return tw_operand(add, 1 - i);
    return NULL;
}

static bool find_part(tw_op *op, part *out)
{
    if (!tw_is_graph(op, TW_GRAPH_MATMUL) || tw_op_bool(op, "transpose_a", false) ||
        tw_op_attr(op, "b_panel") || tw_op_bool(op, "dot", false))
        return false;
    tw_value *w = tw_operand(op, 1), *product = tw_result(op, 0);
    if (w->type->rank != 2 || !tw_type_is_static(w->type) || !tw_depends_on_constants(w))
        return false;
    *out = (part){.product = op, .bias = own_bias(product), .result = product};
    if (out->bias)
        out->result = tw_result(product->uses->user, 0);
    return reads_any_place(out->result, 0);
}

/* Whether b can stand beside a in one product. */
static bool fits(const part *a, const part *b)
{
    const tw_op *p = a->product, *q = b->product;
    bool transposed = tw_op_bool(p, "transpose_b", false);
    return p->region == q->region && tw_operand(p, 0) == tw_operand(q, 0) &&
           transposed == tw_op_bool(q, "transpose_b", false) &&
           tw_operand(p, 1)->type->elem == tw_operand(q, 1)->type->elem &&
           p->results[0].type->elem == q->results[0].type->elem &&
           p->results[0].type->rank == q->results[0].type->rank && !a->bias == !b->bias;
}

/* In front of the first part, as results of all others may be used from there on. */
static void join(tw_context *ctx, const part *parts, unsigned n)
{
    tw_op *first = parts[0].product;
    tw_value *weights[MAX_JOINED], *biases[MAX_JOINED];
    bool transposed = tw_op_bool(first, "transpose_b", false);
    for (unsigned i = 0; i < n; i++) {
        weights[i] = tw_operand(parts[i].product, 1);
        biases[i] = parts[i].bias;
        tw_move_constant(weights[i], first);
        if (biases[i])
            tw_move_constant(biases[i], first);
    }
    tw_builder b = tw_builder_before(ctx, first);
    tw_value *w = tw_build_concat(&b, weights, n, transposed ? 0 : 1);
    tw_type narrow = first->results[0].type;
    tw_expr dims[TW_MAX_RANK];
    for (unsigned i = 0; i < narrow->rank; i++)
        dims[i] = narrow->dims[i];
    dims[narrow->rank - 1] = w->type->dims[transposed ? 0 : 1];
    tw_type type = tw_type_tensor(ctx, narrow->elem, narrow->rank, dims, NULL);
    tw_value *joined =
        tw_graph_build(&b, TW_GRAPH_MATMUL, ((tw_value *[]){tw_operand(first, 0), w}), 2, type,
                       "transpose_b", transposed ? tw_attr_bool(ctx, true) : NULL, NULL);
    if (biases[0])
        joined = tw_build_binary(&b, TW_GRAPH_ADD, joined, tw_build_concat(&b, biases, n, 0));
    int64_t at = 0;
    for (unsigned i = 0; i < n; i++) {
        tw_value *result = parts[i].result;
        unsigned last = result->type->rank - 1;
        tw_value_replace_all(result, tw_build_part(&b, joined, last, at, result->type));
        at += tw_type_dim(result->type, last);
    }
    for (unsigned i = 0; i < n; i++) {
        if (parts[i].bias)
            tw_op_erase(parts[i].result->op);
        tw_op_erase(parts[i].product);
    }
}

static unsigned collect(tw_op *op, part *parts)
{
    unsigned n = 0;
    if (!find_part(op, &parts[n++]))
        return 0;
    /* Uses are in no order: the first product of the program stands first, as it calls. */
    for (const tw_use *u = tw_operand(op, 0)->uses; u && n < MAX_JOINED; u = u->next)
        if (u->user != op && u->index == 0 && find_part(u->user, &parts[n]) &&
            fits(&parts[0], &parts[n]) && tw_op_is_before(op, u->user)) {
            unsigned at = n++;
            for (; at > 1 && tw_op_is_before(parts[at].product, parts[at - 1].product); at--) {
                part swap = parts[at];
                parts[at] = parts[at - 1];
                parts[at - 1] = swap;
            }
        }
    return n;
}

typedef struct op_list {
    tw_arena *arena;
    tw_map seen; /* left operands whose products were looked at */
    TW_VEC(tw_op *) products;
} op_list;

/* The first product of each left operand and the others in program order: each operand's uses are
 * looked at once. */
static bool add_product(tw_op *op, void *data)
{
    op_list *list = data;
    if (tw_is_graph(op, TW_GRAPH_MATMUL) && !tw_map_get_ptr(&list->seen, tw_operand(op, 0))) {
        part p;
        if (!find_part(op, &p))
            return true;
        tw_map_put_ptr(&list->seen, tw_operand(op, 0), op);
        tw_vec_push(list->arena, &list->products, op);
    }
    return true;
}

static bool run(tw_pass_run *pass)
{
    tw_arena *arena = tw_context_arena(pass->ctx);
    op_list list = {.arena = arena, .seen = tw_map_make(arena)};
    tw_walk(pass->root, add_product, &list);
    for (size_t i = 0; i < list.products.len && pass->changes < pass->max_changes; i++) {
        part parts[MAX_JOINED];
        unsigned n = collect(list.products.data[i], parts);
        if (n < 2)
            continue;
        join(pass->ctx, parts, n);
        pass->changes++;
    }
    return true;
}

const tw_pass tw_pass_join_products = {
    .name = "join-products",
    .summary = "products of one left operand with constant weights become one",
    .anchor = "core.func",
    .optional = true,
    .run = run,
};
