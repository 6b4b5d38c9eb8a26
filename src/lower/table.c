/* table.c: which function lowers which operation of the graph dialect. */
#include "lower/lowering.h"

const char tw_op_lowering_iface = 0;
const char tw_op_routine_iface = 0;

/* Filled by hand, so that a new line does not move all others. */
/* clang-format off */
#define ELEMENTWISE(X) \
    X(NEG) X(ABS) X(SIGN) X(EXP) X(LOG) X(SQRT) X(RECIPROCAL) X(SIN) X(COS) X(TAN) X(ASIN) \
    X(ACOS) X(ATAN) X(SINH) X(COSH) X(TANH) X(ASINH) X(ACOSH) X(ATANH) X(ERF) X(FLOOR) X(CEIL) \
    X(ROUND) X(NOT) X(IS_NAN) X(IS_INF) X(CAST) X(BITCAST) X(RELU) X(LEAKY_RELU) X(ELU) \
    X(SOFTPLUS) X(SIGMOID) X(HARD_SIGMOID) X(HARD_SWISH) X(SILU) X(GELU) X(MISH) X(ADD) X(SUB) \
    X(MUL) X(DIV) X(MOD) X(POW) X(MAX) X(MIN) X(AND) X(OR) X(XOR) X(SHIFT_LEFT) X(SHIFT_RIGHT) \
    X(EQUAL) X(LESS) X(LESS_EQUAL) X(GREATER) X(GREATER_EQUAL) X(WHERE)
/* clang-format on */

/* X(graph operation, function) */
/* clang-format off */
#define OTHERS(X) \
    X(SHAPE, shape) X(WORDS, words) X(RESHAPE, reshape) X(TRANSPOSE, transpose) \
    X(EXPAND, expand) X(SLICE, slice) X(CONCAT, concat) X(PAD, pad) X(TILE, tile) \
    X(GATHER, gather) X(GATHER_ELEMENTS, gather_elements) X(GATHER_ND, gather_nd) \
    X(SCATTER_ELEMENTS, scatter_elements) X(SCATTER_ND, scatter_nd) X(IOTA, iota) \
    X(RANGE, range) X(RESIZE, resize) X(TRILU, trilu) X(REDUCE_SUM, reduce) \
    X(REDUCE_MEAN, reduce) X(REDUCE_MAX, reduce) X(REDUCE_MIN, reduce) X(REDUCE_PROD, reduce) \
    X(ARG_MAX, arg_reduce) X(ARG_MIN, arg_reduce) X(SOFTMAX, softmax) X(LOG_SOFTMAX, softmax) \
    X(CUMSUM, cumsum) X(TOP_K, top_k) X(MATMUL, matmul) X(MATMUL_BITS, matmul_bits) X(CONV, conv) \
    X(CONV_TRANSPOSE, conv_transpose) X(MAX_POOL, max_pool) X(AVG_POOL, avg_pool) \
    X(BATCH_NORM, batch_norm) X(LAYER_NORM, layer_norm) X(RMS_NORM, rms_norm) \
    X(INSTANCE_NORM, instance_norm) X(LRN, lrn) X(ATTENTION, attention)
/* clang-format on */

const tw_lower_fn tw_graph_lowerings[TW_GRAPH_COUNT] = {
#define X(KIND) [TW_GRAPH_##KIND] = tw_lower_elementwise,
    ELEMENTWISE(X)
#undef X
#define X(KIND, function) [TW_GRAPH_##KIND] = tw_lower_##function,
        OTHERS(X)
#undef X
};
