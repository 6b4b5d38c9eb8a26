/* arith.h: short forms for importers that compute much with tensors. The builder is the variable
 * `g` where they stand; private to the .c files of src/import/onnx, no header includes it. */
#ifndef TW_IMPORT_ONNX_ARITH_H
#define TW_IMPORT_ONNX_ARITH_H

#include "import/build.h"

/* Of two tensors. */
#define ADD(a, b) tw_gb_binary(g, TW_GRAPH_ADD, a, b)
#define SUB(a, b) tw_gb_binary(g, TW_GRAPH_SUB, a, b)
#define MUL(a, b) tw_gb_binary(g, TW_GRAPH_MUL, a, b)
#define DIV(a, b) tw_gb_binary(g, TW_GRAPH_DIV, a, b)
#define MOD(a, b) tw_gb_binary(g, TW_GRAPH_MOD, a, b)
#define MIN(a, b) tw_gb_binary(g, TW_GRAPH_MIN, a, b)
#define MAX(a, b) tw_gb_binary(g, TW_GRAPH_MAX, a, b)
#define LESS(a, b) tw_gb_binary(g, TW_GRAPH_LESS, a, b)
/* With a number on the right. */
#define ADDC(a, c) tw_gb_binary_scalar(g, TW_GRAPH_ADD, a, c)
#define MULC(a, c) tw_gb_binary_scalar(g, TW_GRAPH_MUL, a, c)
#define EQUALC(a, c) tw_gb_binary_scalar(g, TW_GRAPH_EQUAL, a, c)

#endif
