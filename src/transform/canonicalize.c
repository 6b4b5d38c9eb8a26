/* canonicalize.c: local rewrites to the simplest form of the same value.
 *
 *   %0 = graph.transpose %x {perm = [0, 2, 1]}
 *   %1 = graph.transpose %0 {perm = [0, 2, 1]}
 *   %2 = graph.mul %1, 1.0                        =>  %2 = %x
 *
 * Every line is right for all values of its domain, NaN, infinities and -0 included; what is only
 * nearly right (another order of rounding) says so and is a definition that a model wrote out. */
#include "transform/canonicalize.h"

#include "transform/rules.h"
#include "transform/transform.h"

/* ---- Identities ---- */

#define ANY TW_RULE_ANY
#define FLOAT TW_RULE_FLOAT
#define INT TW_RULE_INT
#define BOOL TW_RULE_BOOL

static const tw_rule identities[] = {
    {"add(x, 0)", "x", INT, "0 is neutral", 0},
    {"add(x, -0)", "x", FLOAT, "-0 is neutral for all x; +0 is not, for it turns -0 into +0", 0},
    {"sub(x, 0)", "x", ANY, "x - (+0) is x, for -0 too", 0},
    {"add(x, neg(y))", "sub(x, y)", ANY, "IEEE defines x - y as x + (-y)", 0},
    {"sub(x, neg(y))", "add(x, y)", ANY, "likewise", 0},
    {"sub(-0, x)", "neg(x)", FLOAT, "-0 - x is -x for both zeros", 0},
    {"sub(0, x)", "neg(x)", INT, "two's complement", 0},
    {"mul(x, 1)", "x", ANY, "1 is neutral", 0},
    {"mul(x, -1)", "neg(x)", FLOAT, "only the sign changes", 0},
    {"div(x, 1)", "x", ANY, "1 is neutral", 0},
    {"div(1, x)", "reciprocal(x)", FLOAT, "the definition", 0},
    {"pow(x, 1)", "x", ANY, "IEEE: pow(x, 1) is x", 0},
    {"pow(x, 2)", "mul(x, x)", ANY, "x^2 rounded once, as the product is", 0},
    {"pow(x, -1)", "reciprocal(x)", FLOAT, "1/x rounded once", 0},
    {"neg(neg(x))", "x", ANY, "the sign bit flips twice", 0},
    {"not(not(x))", "x", ANY, "bits flip twice", 0},
    {"abs(abs(x))", "abs(x)", ANY, "idempotent", 0},
    {"abs(neg(x))", "abs(x)", FLOAT, "the sign is dropped anyway", 0},
    {"relu(relu(x))", "relu(x)", ANY, "idempotent", 0},
    {"max(x, x)", "x", ANY, "idempotent", 0},
    {"min(x, x)", "x", ANY, "idempotent", 0},
    {"and(x, x)", "x", ANY, "idempotent", 0},
    {"or(x, x)", "x", ANY, "idempotent", 0},
    {"sign(sign(x))", "sign(x)", ANY, "idempotent", 0},
    {"floor(floor(x))", "floor(x)", FLOAT, "integers stay", 0},
    {"ceil(ceil(x))", "ceil(x)", FLOAT, "integers stay", 0},
    {"round(round(x))", "round(x)", FLOAT, "integers stay", 0},
    {"and(x, 1)", "x", BOOL, "true is neutral", 0},
    {"or(x, 0)", "x", BOOL, "false is neutral", 0},
    {"xor(x, 0)", "x", ANY, "0 is neutral", 0},
    {"where(1, x, y)", "x", ANY, "the condition is true everywhere", 0},
    {"where(0, x, y)", "y", ANY, "the condition is false everywhere", 0},
    {"where(c, x, x)", "x", ANY, "both sides are one", 0},
    {"where(not(c), x, y)", "where(c, y, x)", ANY, "c is boolean", 0},
    {"not(less(x, y))", "greater_equal(x, y)", INT, "a total order; floats have NaN", 0},
    {"not(greater(x, y))", "less_equal(x, y)", INT, "likewise", 0},
    {"not(less_equal(x, y))", "greater(x, y)", INT, "likewise", 0},
    {"not(greater_equal(x, y))", "less(x, y)", INT, "likewise", 0},
    {0},
};

/* ---- Forms that models write out ---- */

static const tw_rule definitions[] = {
    {"max(x, 0)", "relu(x)", ANY, "the definition", 0},
    {"div(1, add(exp(neg(x)), 1))", "sigmoid(x)", FLOAT, "the definition", 0},
    {"reciprocal(add(exp(neg(x)), 1))", "sigmoid(x)", FLOAT, "the definition", 0},
    {"mul(x, sigmoid(x))", "silu(x)", FLOAT, "the definition", 0},
    {"log(add(exp(x), 1))", "softplus(x)", FLOAT, "the definition, which does not overflow", 0},
    {"mul(x, tanh(softplus(x)))", "mish(x)", FLOAT, "the definition", 0},
    {"mul(x, hard_sigmoid{alpha=0.16666667, beta=0.5}(x))", "hard_swish(x)", FLOAT,
     "the definition", 0},
    {"mul(x, div(min(relu(add(x, 3)), 6), 6))", "hard_swish(x)", FLOAT,
     "min(max(x + 3, 0), 6) / 6 is max(0, min(1, x / 6 + 0.5)) up to rounding", 0},
    {"div(mul(x, min(relu(add(x, 3)), 6)), 6)", "hard_swish(x)", FLOAT, "likewise", 0},
    {"mul(mul(x, min(relu(add(x, 3)), 6)), ~0.16666667)", "hard_swish(x)", FLOAT, "likewise", 0},
    {"mul(mul(x, add(erf(div(x, ~1.41421356)), 1)), 0.5)", "gelu(x)", FLOAT,
     "the definition as PyTorch's exporter writes it", 0},
    {"mul(mul(x, 0.5), add(erf(div(x, ~1.41421356)), 1))", "gelu(x)", FLOAT, "likewise", 0},
    {"mul(x, mul(add(erf(div(x, ~1.41421356)), 1), 0.5))", "gelu(x)", FLOAT, "likewise", 0},
    {"mul(mul(x, add(erf(mul(x, ~0.70710678)), 1)), 0.5)", "gelu(x)", FLOAT,
     "as TensorFlow's writes it", 0},
    {"mul(mul(x, 0.5), add(erf(mul(x, ~0.70710678)), 1))", "gelu(x)", FLOAT, "likewise", 0},
    {"mul(x, mul(add(erf(mul(x, ~0.70710678)), 1), 0.5))", "gelu(x)", FLOAT, "likewise", 0},
    {"mul(mul(x, 0.5), add(tanh(mul(add(x, mul(pow(x, 3), ~0.044715)), ~0.79788456)), 1))",
     "gelu{approximate=true}(x)", FLOAT, "the tanh form as GPT-2 writes it", 0},
    {"mul(mul(x, add(tanh(mul(add(x, mul(pow(x, 3), ~0.044715)), ~0.79788456)), 1)), 0.5)",
     "gelu{approximate=true}(x)", FLOAT, "likewise", 0},
    {"mul(x, mul(add(tanh(mul(add(x, mul(pow(x, 3), ~0.044715)), ~0.79788456)), 1), 0.5))",
     "gelu{approximate=true}(x)", FLOAT, "likewise", 0},
    {"div(d, sqrt(add(mean(mul(d, d)), e)))", "layer_norm(x)", ANY,
     "d being x - mean(x): the definition, along the last axes", tw_canon_layer_norm},
    {"mul(d, reciprocal(sqrt(add(mean(mul(d, d)), e))))", "layer_norm(x)", ANY, "likewise",
     tw_canon_layer_norm},
    {"div(x, sqrt(add(mean(mul(x, x)), e)))", "rms_norm(x)", ANY, "the definition",
     tw_canon_rms_norm},
    {"mul(x, reciprocal(sqrt(add(mean(mul(x, x)), e))))", "rms_norm(x)", ANY, "likewise",
     tw_canon_rms_norm},
    {"mul(layer_norm(x), s)", "layer_norm(x, s)", ANY, "the operation's own scale; rms_norm too",
     tw_canon_norm_scale},
    {"add(layer_norm(x, s), b)", "layer_norm(x, s, b)", ANY, "the operation's own bias",
     tw_canon_norm_bias},
    {"div(exp(sub(x, max(x))), sum(exp(sub(x, max(x)))))", "softmax(x)", ANY,
     "the definition, along one axis", tw_canon_softmax},
    {0},
};

/* ---- Moving data ---- */

static const tw_rule moves[] = {
    {"reshape(x)", "x", ANY, "the type is the same, so the shape is", 0},
    {"expand(x)", "x", ANY, "likewise", 0},
    {"expand(expand(x))", "expand(x)", ANY, "broadcasting composes", 0},
    {"tile{*}(x)", "x", ANY, "the shape is the same, so each axis is repeated once", 0},
    {"transpose(x)", "x or reshape(x)", ANY, "axes of size 1 apart, the order is unchanged",
     tw_canon_reshape_chain},
    {"transpose(... x)", "reshape(x)", ANY, "the chain keeps all elements in order",
     tw_canon_reshape_chain},
    {"reshape(... x)", "reshape(x)", ANY, "likewise", tw_canon_reshape_chain},
    {"slice(x)", "x", ANY, "starts at 0 with step 1 and has the same type",
     tw_canon_slice_identity},
    {"slice(slice(x))", "slice(x)", ANY, "index maps compose: s1 + t1 * (s2 + t2 * i)",
     tw_canon_slice_slice},
    {"slice(concat(..., x, ...))", "slice(x)", ANY, "the range lies within one part",
     tw_canon_slice_concat},
    {"concat(x)", "x", ANY, "one part", tw_canon_concat_one},
    {"concat(x, empty)", "concat(x)", ANY, "a part of size 0 adds nothing", tw_canon_concat_empty},
    {"concat(concat(x, y), z)", "concat(x, y, z)", ANY, "joining is associative",
     tw_canon_concat_concat},
    {"pad(x)", "x", ANY, "all pads are 0", tw_canon_pad_nothing},
    {"pad(pad(x))", "pad(x)", ANY, "pads of one constant add up", tw_canon_pad_pad},
    {"*(expand(x), y)", "*(x, y)", ANY, "element-wise operations broadcast by themselves",
     tw_canon_expand_operand},
    {"shape(x)", "constant", ANY, "all sizes are known", tw_canon_shape_static},
    {0},
};

/* ---- The rest ---- */

static const tw_rule others[] = {
    {"add(constant, x)", "add(x, constant)", ANY, "commutative", tw_canon_constant_right},
    {"mul(constant, x)", "mul(x, constant)", ANY, "commutative", tw_canon_constant_right},
    {"max(constant, x)", "max(x, constant)", ANY, "commutative", tw_canon_constant_right},
    {"min(constant, x)", "min(x, constant)", ANY, "commutative", tw_canon_constant_right},
    {"and(constant, x)", "and(x, constant)", ANY, "commutative", tw_canon_constant_right},
    {"or(constant, x)", "or(x, constant)", ANY, "commutative", tw_canon_constant_right},
    {"xor(constant, x)", "xor(x, constant)", ANY, "commutative", tw_canon_constant_right},
    {"equal(constant, x)", "equal(x, constant)", ANY, "commutative", tw_canon_constant_right},
    {"cast{*}(x)", "x", ANY, "the element type is the same", 0},
    {"cast(cast(x))", "cast(x)", ANY, "the inner cast loses nothing", tw_canon_cast_cast},
    {"bitcast(bitcast(x))", "bitcast(x) or x", ANY, "the bits stay", tw_canon_cast_cast},
    {"reduce_sum(x)", "reshape(x)", ANY, "one element for each", tw_canon_reduce_unit},
    {"reduce_mean(x)", "reshape(x)", ANY, "one element for each", tw_canon_reduce_unit},
    {"reduce_max(x)", "reshape(x)", ANY, "one element for each", tw_canon_reduce_unit},
    {"reduce_min(x)", "reshape(x)", ANY, "one element for each", tw_canon_reduce_unit},
    {"reduce_prod(x)", "reshape(x)", ANY, "one element for each", tw_canon_reduce_unit},
    {"max_pool(x)", "x", ANY, "windows of one element", tw_canon_pool_unit},
    {"avg_pool(x)", "x", ANY, "windows of one element", tw_canon_pool_unit},
    {"conv(pad(x), w)", "conv(x, w)", ANY, "a convolution pads with zeros itself",
     tw_canon_conv_pad},
    {"matmul(transpose(x), y)", "matmul{transpose_a}(x, y)", ANY,
     "the product reads swapped axes itself", tw_canon_matmul_transpose},
    {0},
};

/* ---- Control flow ---- */

static const tw_rule control[] = {
    {"if(constant)", "one of its branches", ANY, "the condition is known", tw_canon_if_known},
    {"if(c)", "if(c) with fewer results", ANY,
     "both branches give the same value, or nothing uses the result", tw_canon_if_results},
    {"loop(n, c, x)", "x", ANY, "there is no trip", tw_canon_loop_never},
    {"loop(n, c, x)", "loop(n, c)", ANY,
     "every trip leaves the state as it is, or nothing uses the result", tw_canon_loop_results},
    {"loop(n, c)", "x, loop(n, c)", ANY, "every trip computes the same x", tw_canon_loop_invariant},
    {0},
};

static bool run(tw_pass_run *pass)
{
    static const tw_rule *const tables[] = {identities, definitions, moves, others, control};
    tw_rule_set rules;
    if (!tw_rules_compile(pass->ctx, tables, sizeof tables / sizeof *tables, &rules))
        return false;
    tw_rewrite_greedily(pass->ctx, pass->root, rules.patterns, rules.n, pass->max_changes,
                        &pass->changes);
    return true;
}

const tw_pass tw_pass_canonicalize = {
    .name = "canonicalize",
    .summary = "rewrite to the simplest form of the same value",
    .anchor = "core.func",
    .optional = true,
    .run = run,
};
