/* op_ms_norm.c: com.microsoft's normalisations of sums. */
#include "import/onnx/import.h"

/* norm(x + skip + bias) * gamma + beta; param: LAYER_NORM, or RMS_NORM, which has no beta. */
bool tw_onnx_op_skip_layer_normalization(tw_onnx_node *n)
{
    bool ok = true;
    tw_gb *g = n->g;
    tw_graph_kind kind = (tw_graph_kind)n->op->param;
    bool centred = kind == TW_GRAPH_LAYER_NORM;
    double epsilon = tw_onnx_float(n, "epsilon", 1e-12f, &ok);
    tw_value *beta = centred ? tw_onnx_in(n, 3) : NULL, *bias = tw_onnx_in(n, centred ? 4 : 3);
    unsigned rank = n->in[0]->type->rank;
    if (!ok || !tw_onnx_check_elem(n, 0, TW_ONNX_FLOATS))
        return false;
    if (rank == 0 || n->in[1]->type->rank > rank)
        return tw_onnx_error(n, "input %s with a skip of %s", tw_gb_type_text(g, n->in[0]->type),
                             tw_gb_type_text(g, n->in[1]->type));
    tw_value *sum = tw_gb_binary(g, TW_GRAPH_ADD, n->in[0], n->in[1]);
    if (bias)
        sum = tw_gb_binary(g, TW_GRAPH_ADD, sum, bias);
    return tw_onnx_set(n, 0,
                       tw_onnx_last_axes_norm(n, kind, sum, n->in[2], beta, rank - 1, epsilon)) &&
           tw_onnx_norm_statistics(n, kind, sum, rank - 1, epsilon, 1, 2) && tw_onnx_set(n, 3, sum);
}

/* ---- EmbedLayerNormalization ---- */

enum { IDS, SEGMENTS, WORDS, PLACES, SEGMENT_TABLE, GAMMA, BETA, MASK, PLACE_IDS };

/* Rows of the table in input `table` for the positions in input PLACE_IDS, or for 0, 1, 2 … */
static tw_value *places(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_value *table = n->in[PLACES], *ids = tw_onnx_in(n, PLACE_IDS);
    if (ids)
        return tw_gb_gather(g, table, ids, 0);
    return tw_gb_slice_axis(g, table, 0, tw_gb_const(g, 0), 1, n->in[IDS]->type->dims[1]);
}

/* How many entries of each row of the mask are 1; 0 without a mask. */
static tw_value *lengths(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_value *mask = tw_onnx_in(n, MASK);
    if (!mask)
        return tw_gb_splat(g, TW_I32, 0, 1, n->in[IDS]->type->dims);
    tw_value *ones = tw_gb_cast(g, tw_gb_binary_scalar(g, TW_GRAPH_EQUAL, mask, 1), TW_I32);
    return tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, ones, 2, false);
}

static bool check_embedding(tw_onnx_node *n)
{
    static const struct {
        unsigned input, rank;
    } needed[] = {{IDS, 2}, {WORDS, 2}, {PLACES, 2}, {GAMMA, 1}, {BETA, 1}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        const tw_value *v = tw_onnx_in(n, needed[i].input);
        if (!v || v->type->rank != needed[i].rank)
            return tw_onnx_error(n, "input %u is %s; rank %u is needed", needed[i].input,
                                 v ? tw_gb_type_text(n->g, v->type) : "missing", needed[i].rank);
    }
    if (!tw_onnx_in(n, SEGMENTS) != !tw_onnx_in(n, SEGMENT_TABLE))
        return tw_onnx_error(n, "segments need both their numbers and their table");
    return tw_onnx_check_elem(n, IDS, TW_ONNX_INDICES);
}

bool tw_onnx_op_embed_layer_normalization(tw_onnx_node *n)
{
    bool ok = true;
    tw_gb *g = n->g;
    double epsilon = tw_onnx_float(n, "epsilon", 1e-12f, &ok);
    if (!ok || !check_embedding(n))
        return false;
    tw_value *sum =
        tw_gb_binary(g, TW_GRAPH_ADD, tw_gb_gather(g, n->in[WORDS], n->in[IDS], 0), places(n));
    if (tw_onnx_in(n, SEGMENTS))
        sum = tw_gb_binary(g, TW_GRAPH_ADD, sum,
                           tw_gb_gather(g, n->in[SEGMENT_TABLE], n->in[SEGMENTS], 0));
    tw_value *y =
        tw_onnx_last_axes_norm(n, TW_GRAPH_LAYER_NORM, sum, n->in[GAMMA], n->in[BETA], 2, epsilon);
    return tw_onnx_set(n, 0, y) && (!tw_onnx_wants(n, 1) || tw_onnx_set(n, 1, lengths(n))) &&
           tw_onnx_set(n, 2, sum);
}
