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

static const tw_rule identities[] = {
    TW_RULE("add(x, 0)", "x", INT, "0 is neutral"),
    TW_RULE("add(x, -0)", "x", FLOAT,
            "-0 is neutral for all x; +0 is not, for it turns -0 into +0"),
    TW_RULE("sub(x, 0)", "x", ANY, "x - (+0) is x, for -0 too"),
    TW_RULE("add(x, neg(y))", "sub(x, y)", ANY, "IEEE defines x - y as x + (-y)"),
    TW_RULE("sub(x, neg(y))", "add(x, y)", ANY, "likewise"),
    TW_RULE("sub(-0, x)", "neg(x)", FLOAT, "-0 - x is -x for both zeros"),
    TW_RULE("sub(0, x)", "neg(x)", INT, "two's complement"),
    TW_RULE("sub(x, x)", "expand(0)", INT, "floats have NaN"),
    TW_RULE("xor(x, x)", "expand(0)", INT, "each bit differs from itself nowhere"),
    TW_RULE("mul(x, 0)", "expand(0)", INT, "floats have NaN, infinities and -0"),
    TW_RULE("mul(x, 1)", "x", ANY, "1 is neutral"),
    TW_RULE("mul(x, -1)", "neg(x)", FLOAT, "only the sign changes"),
    TW_RULE("div(x, 1)", "x", ANY, "1 is neutral"),
    TW_RULE("div(1, x)", "reciprocal(x)", FLOAT, "the definition"),
    TW_RULE("pow(x, 1)", "x", ANY, "IEEE: pow(x, 1) is x"),
    TW_RULE("pow(x, 2)", "mul(x, x)", ANY, "x^2 rounded once, as the product is"),
    TW_RULE("pow(x, -1)", "reciprocal(x)", FLOAT, "1/x rounded once"),
    TW_RULE("neg(neg(x))", "x", ANY, "the sign bit flips twice"),
    TW_RULE("not(not(x))", "x", ANY, "bits flip twice"),
    TW_RULE("abs(abs(x))", "abs(x)", ANY, "idempotent"),
    TW_RULE("abs(neg(x))", "abs(x)", FLOAT, "the sign is dropped anyway"),
    TW_RULE("relu(relu(x))", "relu(x)", ANY, "idempotent"),
    TW_RULE("max(x, x)", "x", ANY, "idempotent"),
    TW_RULE("min(x, x)", "x", ANY, "idempotent"),
    TW_RULE("and(x, x)", "x", ANY, "idempotent"),
    TW_RULE("or(x, x)", "x", ANY, "idempotent"),
    TW_RULE("sign(sign(x))", "sign(x)", ANY, "idempotent"),
    TW_RULE("floor(floor(x))", "floor(x)", FLOAT, "integers stay"),
    TW_RULE("ceil(ceil(x))", "ceil(x)", FLOAT, "integers stay"),
    TW_RULE("round(round(x))", "round(x)", FLOAT, "integers stay"),
    TW_RULE("and(x, 1)", "x", BOOL, "true is neutral"),
    TW_RULE("or(x, 0)", "x", BOOL, "false is neutral"),
    TW_RULE("and(x, 0)", "expand(0)", BOOL, "false whatever x is"),
    TW_RULE("or(x, 1)", "expand(1)", BOOL, "true whatever x is"),
    TW_RULE("equal(x, x)", "not(is_nan(x))", FLOAT, "only NaN differs from itself"),
    TW_RULE("xor(x, 0)", "x", ANY, "0 is neutral"),
    TW_RULE("where(1, x, y)", "x", ANY, "the condition is true everywhere"),
    TW_RULE("where(0, x, y)", "y", ANY, "the condition is false everywhere"),
    TW_RULE("where(c, x, x)", "x", ANY, "both sides are one"),
    TW_RULE("where(not(c), x, y)", "where(c, y, x)", ANY, "c is boolean"),
    TW_RULE("not(less(x, y))", "greater_equal(x, y)", INT, "a total order; floats have NaN"),
    TW_RULE("not(greater(x, y))", "less_equal(x, y)", INT, "likewise"),
    TW_RULE("not(less_equal(x, y))", "greater(x, y)", INT, "likewise"),
    TW_RULE("not(greater_equal(x, y))", "less(x, y)", INT, "likewise"),
    {0},
};

/* ---- Moving data ---- */

static const tw_rule moves[] = {
    TW_RULE("reshape(x)", "x", ANY, "the type is the same, so the shape is"),
    TW_RULE("expand(x)", "x", ANY, "likewise"),
    TW_RULE("reshape(x)", "x", ANY, "it only names another layout, which nothing asks for",
            .apply = tw_canon_layout_name),
    TW_RULE("expand(expand(x))", "expand(x)", ANY, "broadcasting composes"),
    TW_RULE("tile{*}(x)", "x", ANY, "the shape is the same, so each axis is repeated once"),
    TW_RULE("transpose(x)", "x or reshape(x)", ANY, "axes of size 1 apart, the order is unchanged",
            .apply = tw_canon_reshape_chain),
    TW_RULE("transpose(... x)", "reshape(x)", ANY, "the chain keeps all elements in order",
            .apply = tw_canon_reshape_chain),
    TW_RULE("reshape(... x)", "reshape(x)", ANY, "likewise", .apply = tw_canon_reshape_chain),
    TW_RULE("slice(x)", "x", ANY, "starts at 0 with step 1 and has the same type",
            .apply = tw_canon_slice_identity),
    TW_RULE("slice(slice(x))", "slice(x)", ANY, "index maps compose: s1 + t1 * (s2 + t2 * i)",
            .apply = tw_canon_slice_slice),
    TW_RULE("slice(concat(..., x, ...))", "slice(x)", ANY, "the range lies within one part",
            .apply = tw_canon_slice_concat),
    TW_RULE("concat(x)", "x", ANY, "one part", .apply = tw_canon_concat_one),
    TW_RULE("concat(x, empty)", "concat(x)", ANY, "a part of size 0 adds nothing",
            .apply = tw_canon_concat_empty),
    TW_RULE("concat(concat(x, y), z)", "concat(x, y, z)", ANY, "joining is associative",
            .apply = tw_canon_concat_concat),
    TW_RULE("slice(concat(..., x, y, ...))", "slice(concat(x, y))", ANY,
            "the other parts are not touched", .apply = tw_canon_slice_less_concat),
    TW_RULE("slice(pad(x))", "slice(x)", ANY, "the range lies within x",
            .apply = tw_canon_slice_pad),
    TW_RULE("concat(slice(x), slice(x))", "slice(x)", ANY,
            "the second goes on where the first ends, in step", .apply = tw_canon_concat_slices),
    TW_RULE("gather(x, constant)", "slice(x)", ANY,
            "indices within the axis, each as far from the one before",
            .apply = tw_canon_gather_slice),
    TW_RULE("slice(op(x))", "op(slice(x))", ANY,
            "each element of the result depends on few of x; an operation that does work does less",
            .apply = tw_canon_push_slice),
    TW_RULE("conv{strides}(op(x), w)", "conv(op(slice(x)), w)", ANY,
            "likewise: windows of one element in steps", .apply = tw_canon_push_slice),
    TW_RULE("pad(x)", "x", ANY, "all pads are 0", .apply = tw_canon_pad_nothing),
    TW_RULE("pad(x)", "slice(x)", ANY, "it only crops", .apply = tw_canon_pad_crop),
    TW_RULE("pad(pad(x))", "pad(x)", ANY, "pads of one constant add up", .apply = tw_canon_pad_pad),
    TW_RULE("*(expand(x), y)", "*(x, y)", ANY, "element-wise operations broadcast by themselves",
            .apply = tw_canon_expand_operand),
    TW_RULE("shape(x)", "constant", ANY, "all sizes are known", .apply = tw_canon_shape_static),
    {0},
};

/* ---- The rest ---- */

static const tw_rule others[] = {
    TW_RULE("add(constant, x)", "add(x, constant)", ANY, "commutative",
            .apply = tw_canon_constant_right),
    TW_RULE("mul(constant, x)", "mul(x, constant)", ANY, "commutative",
            .apply = tw_canon_constant_right),
    TW_RULE("max(constant, x)", "max(x, constant)", ANY, "commutative",
            .apply = tw_canon_constant_right),
    TW_RULE("min(constant, x)", "min(x, constant)", ANY, "commutative",
            .apply = tw_canon_constant_right),
    TW_RULE("and(constant, x)", "and(x, constant)", ANY, "commutative",
            .apply = tw_canon_constant_right),
    TW_RULE("or(constant, x)", "or(x, constant)", ANY, "commutative",
            .apply = tw_canon_constant_right),
    TW_RULE("xor(constant, x)", "xor(x, constant)", ANY, "commutative",
            .apply = tw_canon_constant_right),
    TW_RULE("equal(constant, x)", "equal(x, constant)", ANY, "commutative",
            .apply = tw_canon_constant_right),
    TW_RULE("cast{*}(x)", "x", ANY, "the element type is the same"),
    TW_RULE("cast(cast(x))", "cast(x)", ANY, "the inner cast loses nothing",
            .apply = tw_canon_cast_cast),
    TW_RULE("bitcast(bitcast(x))", "bitcast(x) or x", ANY, "the bits stay",
            .apply = tw_canon_cast_cast),
    TW_RULE("reduce_sum(x)", "reshape(x)", ANY, "one element for each",
            .apply = tw_canon_reduce_unit),
    TW_RULE("reduce_mean(x)", "reshape(x)", ANY, "one element for each",
            .apply = tw_canon_reduce_unit),
    TW_RULE("reduce_max(x)", "reshape(x)", ANY, "one element for each",
            .apply = tw_canon_reduce_unit),
    TW_RULE("reduce_min(x)", "reshape(x)", ANY, "one element for each",
            .apply = tw_canon_reduce_unit),
    TW_RULE("reduce_prod(x)", "reshape(x)", ANY, "one element for each",
            .apply = tw_canon_reduce_unit),
    TW_RULE("reduce_sum(transpose(x))", "reduce_sum(x)", ANY, "the axes that stay are in order",
            .apply = tw_canon_reduce_transpose),
    TW_RULE("reduce_mean(transpose(x))", "reduce_mean(x)", ANY, "the axes that stay are in order",
            .apply = tw_canon_reduce_transpose),
    TW_RULE("reduce_max(transpose(x))", "reduce_max(x)", ANY, "the axes that stay are in order",
            .apply = tw_canon_reduce_transpose),
    TW_RULE("reduce_min(transpose(x))", "reduce_min(x)", ANY, "the axes that stay are in order",
            .apply = tw_canon_reduce_transpose),
    TW_RULE("reduce_prod(transpose(x))", "reduce_prod(x)", ANY, "the axes that stay are in order",
            .apply = tw_canon_reduce_transpose),
    TW_RULE("max_pool(x)", "x", ANY, "windows of one element", .apply = tw_canon_pool_unit),
    TW_RULE("avg_pool(x)", "x", ANY, "windows of one element", .apply = tw_canon_pool_unit),
    TW_RULE("conv(pad(x), w)", "conv(x, w)", ANY, "a convolution pads with zeros itself",
            .apply = tw_canon_conv_pad),
    TW_RULE("max_pool(pad(x, -inf))", "max_pool(x)", ANY, "a pool pads with the lowest itself",
            .apply = tw_canon_pool_pad),
    TW_RULE("avg_pool(pad(x, 0))", "avg_pool{count_pad}(x)", ANY,
            "zeros that count are what the pool's own padding is", .apply = tw_canon_pool_pad),
    TW_RULE("matmul(transpose(x), y)", "matmul{transpose_a}(x, y)", ANY,
            "the product reads swapped axes itself", .apply = tw_canon_matmul_transpose),
    TW_RULE("matmul(w, reshape(x))", "reshape(conv(x, reshape(w)))", ANY,
            "sums over the channels at each position; only where it is faster",
            .apply = tw_canon_matmul_conv),
    {0},
};

/* ---- Control flow ---- */

static const tw_rule control[] = {
    TW_RULE("if(constant)", "one of its branches", ANY, "the condition is known",
            .apply = tw_canon_if_known),
    TW_RULE("if(c)", "if(c) with fewer results", ANY,
            "both branches give the same value, or nothing uses the result",
            .apply = tw_canon_if_results),
    TW_RULE("loop(n, c, x)", "x", ANY, "there is no trip", .apply = tw_canon_loop_never),
    TW_RULE("loop(n, c, x)", "loop(n, c)", ANY,
            "every trip leaves the state as it is, or nothing uses the result",
            .apply = tw_canon_loop_results),
    TW_RULE("loop(n, c)", "x, loop(n, c)", ANY, "every trip computes the same x",
            .apply = tw_canon_loop_invariant),
    {0},
};

static bool run(tw_pass_run *pass)
{
    static const tw_rule *const tables[] = {
        identities, tw_rules_activations, tw_rules_norms, moves, others, control};
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
