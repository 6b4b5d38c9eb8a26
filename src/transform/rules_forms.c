/* rules_forms.c: activations and normalisations that models spell out, as their exporters do.
 *
 *   %0 = graph.neg %x                                 %m = graph.reduce_mean %x {axes = [2], …}
 *   %1 = graph.exp %0                                 %d = graph.sub %x, %m
 *   %2 = graph.add %1, 1.0                            %q = graph.mul %d, %d
 *   %3 = graph.div %x, %2                             %v = graph.reduce_mean %q {axes = [2], …}
 *     =>                                              %e = graph.add %v, 1e-05
 *   %3 = graph.silu %x                                %r = graph.sqrt %e
 *                                                     %n = graph.div %d, %r
 *                                                       =>
 *                                                     %n = graph.layer_norm %x {axis = 2, …}
 *
 * One operation reads x from memory once, and is one step for vectors. Roundings are in another
 * order; an intermediate within a factor of 8 of overflow may not overflow. What differs further
 * has no line: log(1 + exp(x)) is infinite where softplus is not, exp(x) / sum(exp(x)) is NaN where
 * softmax is not, log(softmax(x)) is -inf where log_softmax is not, mean(x * x) - mean(x)^2 may be
 * negative.
 *
 * Sources: PyTorch's exporters (TorchScript and dynamo), tf2onnx, Keras, Hugging Face's models. */
#include "transform/canonicalize.h"

#include "dialect/graph/graph.h"

/* ---- Activations ---- */

#define SIX "min(relu(add(x, 3)), 6)"

/* x / 2 * (1 + F) in each order of the three factors. */
#define GELU(F, GELU_OF_X, WHY)                                                                    \
    TW_RULE("mul(mul(x, add(" F ", 1)), 0.5)", GELU_OF_X, FLOAT, WHY),                             \
        TW_RULE("mul(mul(x, 0.5), add(" F ", 1))", GELU_OF_X, FLOAT, WHY),                         \
        TW_RULE("mul(x, mul(add(" F ", 1), 0.5))", GELU_OF_X, FLOAT, WHY),                         \
        TW_RULE("mul(x, add(mul(" F ", 0.5), 0.5))", GELU_OF_X, FLOAT, WHY)
#define TANH "gelu{approximate=true}(x)"
#define K "~0.7978845608028654"
#define C "~0.044715"

const tw_rule tw_rules_activations[] = {
    TW_RULE("max(x, 0)", "relu(x)", ANY, "the definition"),
    TW_RULE("relu(min(x, #c))", "min(relu(x), #c)", FLOAT,
            "both clamp to 0..c and keep NaN; the second order is the one below",
            .when = tw_when_positive),
    TW_RULE("div(1, add(exp(neg(x)), 1))", "sigmoid(x)", FLOAT, "the definition"),
    TW_RULE("reciprocal(add(exp(neg(x)), 1))", "sigmoid(x)", FLOAT, "the definition"),
    TW_RULE("mul(x, sigmoid(x))", "silu(x)", FLOAT, "the definition"),
    TW_RULE("div(x, add(exp(neg(x)), 1))", "silu(x)", FLOAT, "the definition"),
    TW_RULE("mul(x, tanh(softplus(x)))", "mish(x)", FLOAT, "the definition"),
    TW_RULE("mul(x, tanh(log(add(exp(x), 1))))", "mish(x)", FLOAT,
            "the definition; where exp overflows, tanh is 1 both ways"),
    TW_RULE("min(relu(add(mul(x, #a), #b)), 1)", "hard_sigmoid{alpha=#a beta=#b}(x)", FLOAT,
            "the definition, as Keras writes it"),
    TW_RULE("div(" SIX ", 6)", "hard_sigmoid{alpha=0.16666666666666667 beta=0.5}(x)", FLOAT,
            "relu6(x + 3) / 6 is max(0, min(1, x / 6 + 0.5)) up to rounding"),
    TW_RULE("mul(" SIX ", ~0.16666666666666667)",
            "hard_sigmoid{alpha=0.16666666666666667 beta=0.5}(x)", FLOAT, "likewise"),
    TW_RULE("mul(x, hard_sigmoid{alpha=0.16666666666666667 beta=0.5}(x))", "hard_swish(x)", FLOAT,
            "the definition"),
    TW_RULE("div(mul(x, " SIX "), 6)", "hard_swish(x)", FLOAT, "likewise: PyTorch"),
    TW_RULE("mul(mul(x, " SIX "), ~0.16666666666666667)", "hard_swish(x)", FLOAT,
            "likewise: TensorFlow"),
    TW_RULE("mul(mul(x, ~0.16666666666666667), " SIX ")", "hard_swish(x)", FLOAT, "likewise"),
    TW_RULE("mul(div(x, 6), " SIX ")", "hard_swish(x)", FLOAT, "likewise"),
    GELU("erf(div(x, ~1.4142135623730951))", "gelu(x)", "the definition: PyTorch, Keras"),
    GELU("erf(mul(x, ~0.7071067811865476))", "gelu(x)", "the definition: TensorFlow"),
    GELU("tanh(mul(add(x, mul(pow(x, 3), " C ")), " K "))", TANH,
         "the tanh form: GPT-2, TensorFlow"),
    GELU("tanh(mul(add(x, mul(mul(mul(x, x), x), " C ")), " K "))", TANH,
         "the tanh form: PyTorch's decomposition"),
    GELU("tanh(mul(add(x, mul(mul(mul(x, " C "), x), x)), " K "))", TANH,
         "the tanh form: Megatron, BLOOM"),
    GELU("tanh(mul(mul(x, " K "), add(mul(mul(x, " C "), x), 1)))", TANH,
         "the tanh form: gelu_fast of Hugging Face"),
    GELU("tanh(mul(mul(x, " K "), add(mul(mul(x, x), " C "), 1)))", TANH, "the tanh form: JAX"),
    {0},
};

/* ---- Normalisations ---- */

#define MEAN "reduce_mean{axes=A keepdims=true}"
#define D "d:sub(x, " MEAN "(x))"
#define VARIANCE "add(" MEAN "(mul(d, d)), #e)"
#define SQUARE "add(" MEAN "(mul(x, x)), #e)"
#define LAYER_NORM "layer_norm{axis=A[0] epsilon=#e}(x)"
#define RMS_NORM "rms_norm{axis=A[0] epsilon=#e}(x)"

/* tf.nn.batch_normalization: x * i + (b - m * i), i being 1 / deviation, with a scale or without.
 */
#define ROOT "reciprocal(sqrt(add(" MEAN "(mul(d:sub(x, m:" MEAN "(x)), d)), #e)))"
#define MOMENTS(I, NORM)                                                                           \
    TW_RULE("add(mul(x, i:" I "), sub(b, mul(m, i)))", "add(" NORM ", b)", FLOAT,                  \
            "(x - m) * i + b, multiplied out: TensorFlow", .when = tw_when_last_axes),             \
        TW_RULE("add(mul(x, i:" I "), add(mul(neg(m), i), b))", "add(" NORM ", b)", FLOAT,         \
                "likewise: Keras 3", .when = tw_when_last_axes),                                   \
        TW_RULE("sub(mul(x, i:" I "), mul(m, i))", NORM, FLOAT, "likewise, without b",             \
                .when = tw_when_last_axes),                                                        \
        TW_RULE("add(mul(x, i:" I "), mul(neg(m), i))", NORM, FLOAT, "likewise",                   \
                .when = tw_when_last_axes)

#define EXP "p:exp(sub(x, reduce_max{axes=A keepdims=true}(x)))"
#define SUM "reduce_sum{axes=A keepdims=true}(p)"

const tw_rule tw_rules_norms[] = {
    TW_RULE("reshape(reduce_mean{axes=A keepdims=false}(x))",
            "reduce_mean{axes=A keepdims=true}(x)", ANY, "the reshape puts the axes back",
            .when = tw_when_axes_come_back),
    TW_RULE("reshape(reduce_sum{axes=A keepdims=false}(x))", "reduce_sum{axes=A keepdims=true}(x)",
            ANY, "likewise", .when = tw_when_axes_come_back),
    TW_RULE("reshape(reduce_max{axes=A keepdims=false}(x))", "reduce_max{axes=A keepdims=true}(x)",
            ANY, "likewise", .when = tw_when_axes_come_back),
    TW_RULE("div(" D ", sqrt(" VARIANCE "))", LAYER_NORM, FLOAT, "the definition: PyTorch",
            .when = tw_when_last_axes),
    TW_RULE("mul(" D ", reciprocal(sqrt(" VARIANCE ")))", LAYER_NORM, FLOAT, "likewise",
            .when = tw_when_last_axes),
    TW_RULE("mul(" D ", pow(" VARIANCE ", -0.5))", LAYER_NORM, FLOAT,
            "likewise; e > 0, so neither a zero nor -inf is raised",
            .when = tw_when_last_axes_and_epsilon),
    TW_RULE("div(" D ", pow(" VARIANCE ", 0.5))", LAYER_NORM, FLOAT, "likewise",
            .when = tw_when_last_axes_and_epsilon),
    TW_RULE("mul(" D ", mul(reciprocal(sqrt(" VARIANCE ")), s))", "mul(" LAYER_NORM ", s)", FLOAT,
            "likewise, scaled", .when = tw_when_last_axes),
    MOMENTS("mul(" ROOT ", s)", "mul(" LAYER_NORM ", s)"),
    MOMENTS(ROOT, LAYER_NORM),
    TW_RULE("div(x, sqrt(" SQUARE "))", RMS_NORM, FLOAT, "the definition",
            .when = tw_when_last_axes),
    TW_RULE("mul(x, reciprocal(sqrt(" SQUARE ")))", RMS_NORM, FLOAT, "the definition: PyTorch",
            .when = tw_when_last_axes),
    TW_RULE("mul(x, pow(" SQUARE ", -0.5))", RMS_NORM, FLOAT, "likewise; e > 0, as above",
            .when = tw_when_last_axes_and_epsilon),
    TW_RULE("div(x, pow(" SQUARE ", 0.5))", RMS_NORM, FLOAT, "likewise",
            .when = tw_when_last_axes_and_epsilon),
    TW_RULE("mul(x, mul(reciprocal(sqrt(" SQUARE ")), s))", "mul(" RMS_NORM ", s)", FLOAT,
            "likewise, scaled: Keras", .when = tw_when_last_axes),
    TW_RULE("mul(layer_norm(x), s)", "layer_norm(x, s)", ANY,
            "the operation's own scale; rms_norm too", .apply = tw_canon_norm_scale),
    TW_RULE("add(layer_norm(x, s), b)", "layer_norm(x, s, b)", ANY, "the operation's own bias",
            .apply = tw_canon_norm_bias),
    TW_RULE("div(" EXP ", " SUM ")", "softmax{axis=A[0]}(x)", FLOAT, "the definition",
            .when = tw_when_one_axis),
    TW_RULE("mul(" EXP ", reciprocal(" SUM "))", "softmax{axis=A[0]}(x)", FLOAT, "likewise",
            .when = tw_when_one_axis),
    TW_RULE("sub(y:sub(x, reduce_max{axes=A keepdims=true}(x)), "
            "log(reduce_sum{axes=A keepdims=true}(exp(y))))",
            "log_softmax{axis=A[0]}(x)", FLOAT, "the definition", .when = tw_when_one_axis),
    {0},
};
