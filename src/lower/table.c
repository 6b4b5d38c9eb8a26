/* table.c: which function lowers which operation of the graph dialect. */
#include "lower/lowering.h"

const char tw_op_lowering_iface = 0;

#define ELEMENTWISE(X)                                                                             \
    X(NEG)                                                                                         \
    X(ABS) X(SIGN) X(EXP) X(LOG) X(SQRT) X(RECIPROCAL) X(SIN) X(COS) X(TAN) X(ASIN) X(ACOS)        \
        X(ATAN) X(SINH) X(COSH) X(TANH) X(ASINH) X(ACOSH) X(ATANH) X(ERF) X(FLOOR) X(CEIL)         \
            X(ROUND) X(NOT) X(IS_NAN) X(IS_INF) X(CAST) X(BITCAST) X(RELU) X(LEAKY_RELU) X(ELU)    \
                X(SOFTPLUS) X(SIGMOID) X(HARD_SIGMOID) X(HARD_SWISH) X(SILU) X(GELU) X(MISH)       \
                    X(ADD) X(SUB) X(MUL) X(DIV) X(MOD) X(POW) X(MAX) X(MIN) X(AND) X(OR) X(XOR)    \
                        X(SHIFT_LEFT) X(SHIFT_RIGHT) X(EQUAL) X(LESS) X(LESS_EQUAL) X(GREATER)     \
                            X(GREATER_EQUAL) X(WHERE)

const tw_lower_fn tw_graph_lowerings[TW_GRAPH_COUNT] = {
#define X(KIND) [TW_GRAPH_##KIND] = tw_lower_elementwise,
    ELEMENTWISE(X)
#undef X
        [TW_GRAPH_REDUCE_SUM] = tw_lower_reduce,
    [TW_GRAPH_REDUCE_MEAN] = tw_lower_reduce,
    [TW_GRAPH_REDUCE_MAX] = tw_lower_reduce,
    [TW_GRAPH_REDUCE_MIN] = tw_lower_reduce,
    [TW_GRAPH_REDUCE_PROD] = tw_lower_reduce,
    [TW_GRAPH_MATMUL] = tw_lower_matmul,
    [TW_GRAPH_CONV] = tw_lower_conv,
};
