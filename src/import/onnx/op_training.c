/* op_training.c: steps of optimisers, ai.onnx.preview.training. Inputs are the rate R, the number T
 * of steps so far, and then, for any number of tensors, all of them, all gradients, and all of each
 * kind of state; outputs are the new tensors and states in the same order. */
#include "import/onnx/import.h"

#include <string.h>

typedef struct optimiser {
    tw_onnx_node *n;
    tw_gb *g;
    tw_value *rate, *steps;
    double norm;
} optimiser;

/* The new tensor x and states (in place) from its gradient. */
typedef tw_value *(*update)(optimiser *o, tw_value *x, tw_value *gradient, tw_value **states);

static tw_value *plus(optimiser *o, tw_value *a, tw_value *b)
{
    return tw_gb_binary(o->g, TW_GRAPH_ADD, a, b);
}

static tw_value *minus(optimiser *o, tw_value *a, tw_value *b)
{
    return tw_gb_binary(o->g, TW_GRAPH_SUB, a, b);
}

static tw_value *times(optimiser *o, tw_value *a, tw_value *b)
{
    return tw_gb_binary(o->g, TW_GRAPH_MUL, a, b);
}

static tw_value *over(optimiser *o, tw_value *a, tw_value *b)
{
    return tw_gb_binary(o->g, TW_GRAPH_DIV, a, b);
}

static tw_value *scaled(optimiser *o, tw_value *x, double factor)
{
    return tw_gb_binary_scalar(o->g, TW_GRAPH_MUL, x, factor);
}

static tw_value *root_plus(optimiser *o, tw_value *x, double epsilon)
{
    return tw_gb_binary_scalar(o->g, TW_GRAPH_ADD, tw_gb_unary(o->g, TW_GRAPH_SQRT, x), epsilon);
}

static double number(optimiser *o, const char *name, double absent, bool *ok)
{
    return tw_onnx_float(o->n, name, absent, ok);
}

/* The number in x's type. */
static tw_value *like(optimiser *o, tw_value *v, tw_value *x)
{
    return tw_gb_cast(o->g, v, x->type->elem);
}

/* base ^ T, in x's type */
static tw_value *power_of_steps(optimiser *o, double base, tw_value *x)
{
    return tw_gb_binary(o->g, TW_GRAPH_POW, tw_gb_scalar(o->g, x->type->elem, base),
                        like(o, o->steps, x));
}

/* ---- The rules ---- */

/* H += G * G;  X -= R / (1 + T * decay) * G / (sqrt(H) + epsilon) */
static tw_value *adagrad(optimiser *o, tw_value *x, tw_value *gradient, tw_value **states)
{
    bool ok = true;
    double decay = number(o, "decay_factor", 0, &ok), epsilon = number(o, "epsilon", 1e-6f, &ok);
    tw_value *late = scaled(o, like(o, o->steps, x), decay);
    tw_value *rate = over(o, like(o, o->rate, x), tw_gb_binary_scalar(o->g, TW_GRAPH_ADD, late, 1));
    states[0] = plus(o, states[0], times(o, gradient, gradient));
    tw_value *step = over(o, times(o, rate, gradient), root_plus(o, states[0], epsilon));
    return ok ? minus(o, x, step) : NULL;
}

/* V = alpha V + (1 - alpha) G;  H = beta H + (1 - beta) G * G;  X -= R' V / (sqrt(H) + epsilon),
 * R' = R sqrt(1 - beta^T) / (1 - alpha^T) for T > 0 */
static tw_value *adam(optimiser *o, tw_value *x, tw_value *gradient, tw_value **states)
{
    bool ok = true;
    tw_gb *g = o->g;
    double alpha = number(o, "alpha", 0.9f, &ok), beta = number(o, "beta", 0.999f, &ok);
    double epsilon = number(o, "epsilon", 1e-6f, &ok);
    double after = number(o, "norm_coefficient_post", 0, &ok);
    tw_value *one = tw_gb_scalar(g, x->type->elem, 1), *rate = like(o, o->rate, x);
    states[0] = plus(o, scaled(o, states[0], alpha), scaled(o, gradient, 1 - alpha));
    states[1] =
        plus(o, scaled(o, states[1], beta), scaled(o, times(o, gradient, gradient), 1 - beta));
    tw_value *unbiased = tw_gb_unary(g, TW_GRAPH_SQRT, minus(o, one, power_of_steps(o, beta, x)));
    unbiased = over(o, unbiased, minus(o, one, power_of_steps(o, alpha, x)));
    tw_value *begun = tw_gb_binary_scalar(g, TW_GRAPH_GREATER, o->steps, 0);
    rate = tw_gb_where(g, begun, times(o, rate, unbiased), rate);
    x = minus(o, x, over(o, times(o, rate, states[0]), root_plus(o, states[1], epsilon)));
    return ok ? scaled(o, x, 1 - after) : NULL;
}

/* V = alpha V + beta' G, beta' = T > 0 ? beta : 1;  X -= R V, or R (G + alpha V) for Nesterov's */
static tw_value *momentum(optimiser *o, tw_value *x, tw_value *gradient, tw_value **states)
{
    bool ok = true;
    tw_gb *g = o->g;
    double alpha = number(o, "alpha", 0, &ok), beta = number(o, "beta", 0, &ok);
    const char *mode = tw_onnx_string(o->n, "mode", "standard", &ok);
    bool nesterov = ok && !strcmp(mode, "nesterov");
    if (ok && !nesterov && strcmp(mode, "standard"))
        return tw_gb_error(g, "attribute 'mode' is '%s'; accepted are standard, nesterov", mode);
    tw_value *begun = tw_gb_binary_scalar(g, TW_GRAPH_GREATER, o->steps, 0);
    tw_value *factor = tw_gb_where(g, begun, tw_gb_scalar(g, x->type->elem, beta),
                                   tw_gb_scalar(g, x->type->elem, 1));
    states[0] = plus(o, scaled(o, states[0], alpha), times(o, factor, gradient));
    tw_value *step = nesterov ? plus(o, gradient, scaled(o, states[0], alpha)) : states[0];
    return ok ? minus(o, x, times(o, like(o, o->rate, x), step)) : NULL;
}

static const struct {
    update update;
    unsigned states;
} rules[] = {{adagrad, 1}, {adam, 2}, {momentum, 1}}; /* by `param` */

bool tw_onnx_op_optimiser(tw_onnx_node *n)
{
    enum { MAX_STATES = 2 };
    bool ok = true;
    optimiser o = {.n = n, .g = n->g};
    unsigned states = rules[n->op->param].states, kinds = states + 2;
    if (n->n_in < 2 + kinds || (n->n_in - 2) % kinds)
        return tw_onnx_error(n, "%u inputs; a rate, a count and %u for each tensor are needed",
                             n->n_in, kinds);
    unsigned count = (n->n_in - 2) / kinds;
    for (unsigned i = 0; i < n->n_in; i++)
        if (!n->in[i])
            return tw_onnx_error(n, "input %u is missing", i);
    double norm = tw_onnx_float(n, "norm_coefficient", 0, &ok);
    o.rate = tw_gb_reshape(n->g, n->in[0], 0, NULL);
    o.steps = tw_gb_reshape(n->g, n->in[1], 0, NULL);
    for (unsigned i = 0; ok && i < count; i++) {
        tw_value **in = n->in + 2 + i, *state[MAX_STATES];
        for (unsigned k = 0; k < states; k++)
            state[k] = in[(2 + k) * count];
        /* The gradient of norm / 2 * |x|^2 is added. */
        tw_value *gradient = plus(&o, in[count], scaled(&o, in[0], norm));
        if (!o.rate || !o.steps || !gradient ||
            !tw_onnx_set(n, i, rules[n->op->param].update(&o, in[0], gradient, state)))
            return false;
        for (unsigned k = 0; k < states; k++)
            if (!tw_onnx_set(n, (1 + k) * count + i, state[k]))
                return false;
    }
    return ok;
}
