/* loop.c: the tables of the loop dialect, generated from loop.def. */
#include "dialect/loop/loop.h"

#include "dialect/loop/loop_syntax.h"

#define A(name, kind, required, summary) {name, TW_ATTR_##kind, required, summary},
#define UNPACK(...) __VA_ARGS__
#define OP(ENUM, name, operands, results, regions, traits, attributes, summary)                    \
    static const tw_attr_spec attrs_##ENUM[] = {UNPACK attributes{NULL, 0, 0, NULL}};
#include "dialect/loop/loop.def"
#undef OP

enum {
    NONE = TW_TRAIT_NONE,
    PURE = TW_TRAIT_PURE,
    SYMBOL = TW_TRAIT_SYMBOL,
    ISOLATED = TW_TRAIT_ISOLATED,
    COMMUTATIVE = TW_TRAIT_COMMUTATIVE,
    EW = TW_TRAIT_PURE | TW_TRAIT_ELEMENTWISE | TW_TRAIT_SAME_TYPE,
};

#define OP(ENUM, op_name, operands, op_results, regions, op_traits, attributes, text)              \
    [TW_LOOP_##ENUM] = {.name = "loop." op_name,                                                   \
                        .summary = text,                                                           \
                        .n_operands = operands,                                                    \
                        .n_results = op_results,                                                   \
                        .n_regions = regions,                                                      \
                        .traits = op_traits,                                                       \
                        .attrs = attrs_##ENUM,                                                     \
                        .verify = tw_loop_verify,                                                  \
                        .print = tw_loop_print,                                                    \
                        .parse = tw_loop_parse,                                                    \
                        .kind = TW_LOOP_##ENUM},
const tw_op_def tw_loop_ops[TW_LOOP_COUNT] = {
#include "dialect/loop/loop.def"
};
#undef OP

const tw_dialect tw_loop_dialect = {
    .name = "loop",
    .summary = "kernels: loops, blocks and buffers",
    .ops = tw_loop_ops,
    .n_ops = TW_LOOP_COUNT,
};
