/* op_loss.c: losses over classes: the negative of the target's entry along axis 1, weighted. */
#include "import/onnx/import.h"

#include <string.h>

typedef struct loss {
    tw_onnx_node *n;
    tw_gb *g;
    tw_value *target;  /* i64, [batch, space...] */
    tw_value *ignored; /* bool, where the target is ignore_index; NULL: never */
    const char *reduction;
} loss;

static bool read_loss(loss *l)
{
    bool ok = true;
    tw_onnx_node *n = l->n;
    tw_type x = n->in[0]->type, target = n->in[1]->type;
    int64_t ignore = tw_onnx_int(n, "ignore_index", 0, &ok);
    l->reduction = tw_onnx_string(n, "reduction", "mean", &ok);
    if (!ok || !tw_onnx_check_elem(n, 1, TW_ONNX_INDICES))
        return false;
    bool fits = x->rank >= 2 && target->rank == x->rank - 1;
    for (unsigned i = 0; fits && i < target->rank; i++)
        fits = !tw_gb_differ(l->g, target->dims[i], x->dims[i ? i + 1 : 0]);
    if (!fits)
        return tw_onnx_error(n, "scores %s and targets %s do not fit", tw_gb_type_text(l->g, x),
                             tw_gb_type_text(l->g, target));
    for (unsigned i = 0; i < target->rank; i++)
        if (!tw_gb_check_equal(l->g, x->dims[i ? i + 1 : 0], target->dims[i], "scores and targets"))
            return false;
    if (strcmp(l->reduction, "none") && strcmp(l->reduction, "sum") && strcmp(l->reduction, "mean"))
        return tw_onnx_error(n, "attribute 'reduction' is '%s'; accepted are none, sum, mean",
                             l->reduction);
    l->target = tw_gb_cast(l->g, n->in[1], TW_I64);
    if (tw_onnx_attr(n, "ignore_index")) {
        tw_value *index = tw_gb_reshape(l->g, tw_gb_ints(l->g, &ignore, 1), 0, NULL);
        l->ignored = tw_gb_binary(l->g, TW_GRAPH_EQUAL, l->target, index);
        l->target = tw_gb_where(l->g, l->ignored, tw_gb_scalar(l->g, TW_I64, 0), l->target);
    }
    return l->target != NULL;
}

static tw_value *sum_all(tw_gb *g, tw_graph_kind kind, tw_value *x)
{
    return x ? tw_gb_reduce(g, kind, x, (1u << x->type->rank) - 1, false) : NULL;
}

/* The weight of each target: of its class, 0 where it is ignored; NULL: 1 everywhere. */
static tw_value *target_weights(loss *l, tw_elem elem)
{
    tw_gb *g = l->g;
    tw_value *weights = tw_onnx_in(l->n, 2);
    if (weights)
        weights = tw_gb_gather(g, weights, l->target, 0);
    else if (l->ignored)
        weights = tw_gb_splat(g, elem, 1, l->target->type->rank, l->target->type->dims);
    return weights && l->ignored ? tw_gb_where(g, l->ignored, tw_gb_scalar(g, elem, 0), weights)
                                 : weights;
}

static tw_value *loss_of(loss *l, tw_value *log_probabilities)
{
    tw_gb *g = l->g;
    tw_value *x = log_probabilities;
    if (!x)
        return NULL;
    tw_value *index = tw_gb_unsqueeze(g, l->target, 2);
    tw_value *entry = index ? TW_GB_EMIT(g, GATHER_ELEMENTS, ((tw_value *[]){x, index}), 2,
                                         tw_type_tensor(g->ctx, x->type->elem, index->type->rank,
                                                        index->type->dims, NULL),
                                         {"axis", tw_attr_int(g->ctx, 1)})
                            : NULL;
    tw_value *y = tw_gb_unary(g, TW_GRAPH_NEG, tw_gb_squeeze(g, entry, 2));
    tw_value *weights = target_weights(l, x->type->elem);
    if ((tw_onnx_in(l->n, 2) || l->ignored) && !weights)
        return NULL;
    if (weights)
        y = tw_gb_binary(g, TW_GRAPH_MUL, y, weights);
    if (!strcmp(l->reduction, "none"))
        return y;
    if (!strcmp(l->reduction, "sum"))
        return sum_all(g, TW_GRAPH_REDUCE_SUM, y);
    if (!weights)
        return sum_all(g, TW_GRAPH_REDUCE_MEAN, y);
    return tw_gb_binary(g, TW_GRAPH_DIV, sum_all(g, TW_GRAPH_REDUCE_SUM, y),
                        sum_all(g, TW_GRAPH_REDUCE_SUM, weights));
}

bool tw_onnx_op_negative_log_likelihood_loss(tw_onnx_node *n)
{
    loss l = {.n = n, .g = n->g};
    return read_loss(&l) && tw_onnx_set(n, 0, loss_of(&l, n->in[0]));
}

bool tw_onnx_op_softmax_cross_entropy_loss(tw_onnx_node *n)
{
    loss l = {.n = n, .g = n->g};
    if (!read_loss(&l))
        return false;
    tw_value *x = tw_gb_softmax(n->g, TW_GRAPH_LOG_SOFTMAX, n->in[0], 1);
    return tw_onnx_set(n, 0, loss_of(&l, x)) && tw_onnx_set(n, 1, x);
}
