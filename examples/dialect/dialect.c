/* dialect.c: the dialect's type and operations, and the plugin's entry. */
#include "poly.h"

#include <string.h>

/* ---- !poly.polynomial<degree> ---- */

static bool verify_polynomial(tw_context *ctx, tw_loc loc, tw_attr params)
{
    bool one = params && params->kind == TW_ATTR_ARRAY && params->u.array.n == 1;
    tw_attr degree = one ? params->u.array.items[0] : NULL;
    if (degree && degree->kind == TW_ATTR_INT && degree->u.integer >= 0 &&
        degree->u.integer < POLY_MAX_TERMS)
        return true;
    return tw_error(ctx, loc, "a polynomial has one parameter, its degree: 0 to %d",
                    POLY_MAX_TERMS - 1);
}

static const tw_type_def types[] = {{"poly.polynomial", verify_polynomial}, {0}};

tw_type poly_type(tw_context *ctx, unsigned degree)
{
    int64_t value = degree;
    return tw_type_dialect(ctx, types[0].name, tw_attr_ints(ctx, &value, 1));
}

/* -1 when the type is no polynomial. */
static int degree_of(tw_type type)
{
    bool is = type->kind == TW_TYPE_DIALECT && !strcmp(type->name, types[0].name);
    return is ? (int)type->params->u.array.items[0]->u.integer : -1;
}

/* ---- Operations ---- */

unsigned poly_coefficients(const tw_op *op, double out[POLY_MAX_TERMS])
{
    tw_attr list = tw_op_attr(op, "coefficients");
    unsigned n = (unsigned)list->u.array.n;
    for (unsigned i = 0; i < n; i++)
        out[i] = list->u.array.items[i]->u.real;
    return n;
}

static bool expect_degree(tw_context *ctx, const tw_op *op, int degree)
{
    if (degree >= POLY_MAX_TERMS)
        return tw_error(ctx, op->loc, "degree %d is above %d", degree, POLY_MAX_TERMS - 1);
    if (degree_of(op->results[0].type) == degree)
        return true;
    return tw_error(ctx, op->loc, "the result should be of type %s",
                    tw_print_type(ctx, poly_type(ctx, (unsigned)degree)));
}

static bool verify_coefficients(tw_context *ctx, const tw_op *op)
{
    tw_attr list = tw_op_attr(op, "coefficients");
    size_t n = list->u.array.n;
    if (n == 0 || n > POLY_MAX_TERMS)
        return tw_error(ctx, op->loc, "%zu coefficients; there are 1 to %d", n, POLY_MAX_TERMS);
    for (size_t i = 0; i < n; i++)
        if (list->u.array.items[i]->kind != TW_ATTR_FLOAT)
            return tw_error(ctx, op->loc, "coefficient %zu is no floating-point number", i);
    return true;
}

static bool verify_constant(tw_context *ctx, const tw_op *op)
{
    return verify_coefficients(ctx, op) &&
           expect_degree(ctx, op, (int)tw_op_attr(op, "coefficients")->u.array.n - 1);
}

static bool verify_binary(tw_context *ctx, const tw_op *op)
{
    int a = degree_of(tw_operand(op, 0)->type), b = degree_of(tw_operand(op, 1)->type);
    if (a < 0 || b < 0)
        return tw_error(ctx, op->loc, "the operands should be polynomials");
    if (op->def->kind == POLY_MUL)
        return expect_degree(ctx, op, a + b);
    return expect_degree(ctx, op, a > b ? a : b);
}

static bool verify_apply(tw_context *ctx, const tw_op *op)
{
    tw_type x = tw_operand(op, 1)->type;
    if (degree_of(tw_operand(op, 0)->type) < 0)
        return tw_error(ctx, op->loc, "the first operand should be a polynomial");
    if (x->kind != TW_TYPE_TENSOR || !tw_elem_is_float(x->elem) || x != op->results[0].type)
        return tw_error(ctx, op->loc,
                        "the second operand and the result should be of one floating-point type");
    return true;
}

static bool verify_roots(tw_context *ctx, const tw_op *op)
{
    tw_type c = tw_operand(op, 0)->type, roots = op->results[0].type;
    if (c != tw_type_tensor_static(ctx, TW_F64, 1, (int64_t[]){3}))
        return tw_error(ctx, op->loc, "the operand should be tensor<3xf64>");
    return (roots->kind == TW_TYPE_TENSOR && roots->elem == TW_F64 && roots->rank == 1) ||
           tw_error(ctx, op->loc, "the result should be a vector of f64");
}

static const tw_attr_spec coefficients[] = {
    {"coefficients", TW_ATTR_ARRAY, true, "floats, lowest power first"}, {0}};
static const tw_attr_spec none[] = {{0}};
static const tw_attr_spec sizes[] = {
    {"symbols", TW_ATTR_ARRAY, true, "the symbol that is the number of roots"}, {0}};

const tw_op_def poly_ops[] = {
    [POLY_CONSTANT] = {.name = "poly.constant",
                       .summary = "a polynomial",
                       .n_results = 1,
                       .traits = TW_TRAIT_PURE,
                       .attrs = coefficients,
                       .verify = verify_constant,
                       .kind = POLY_CONSTANT},
    [POLY_ADD] = {.name = "poly.add",
                  .summary = "sum of polynomials",
                  .n_operands = 2,
                  .n_results = 1,
                  .traits = TW_TRAIT_PURE | TW_TRAIT_COMMUTATIVE,
                  .attrs = none,
                  .verify = verify_binary,
                  .kind = POLY_ADD},
    [POLY_MUL] = {.name = "poly.mul",
                  .summary = "product of polynomials",
                  .n_operands = 2,
                  .n_results = 1,
                  .traits = TW_TRAIT_PURE | TW_TRAIT_COMMUTATIVE,
                  .attrs = none,
                  .verify = verify_binary,
                  .kind = POLY_MUL},
    [POLY_APPLY] = {.name = "poly.apply",
                    .summary = "a polynomial at each element of a tensor",
                    .n_operands = 2,
                    .n_results = 1,
                    .traits = TW_TRAIT_PURE,
                    .attrs = none,
                    .verify = verify_apply,
                    .kind = POLY_APPLY},
    [POLY_HORNER] = {.name = "poly.horner",
                     .summary = "a known polynomial at each element of a tensor",
                     .n_operands = 1,
                     .n_results = 1,
                     .traits = TW_TRAIT_PURE | TW_TRAIT_SAME_TYPE | TW_TRAIT_ELEMENTWISE,
                     .fusion = TW_FUSE_ELEMENTWISE,
                     .attrs = coefficients,
                     .verify = verify_coefficients,
                     .kind = POLY_HORNER},
    [POLY_ROOTS] = {.name = "poly.roots",
                    .summary = "the real roots of c0 + c1 t + c2 t^2, ascending",
                    .n_operands = 1,
                    .n_results = 1,
                    .attrs = sizes,
                    .verify = verify_roots,
                    .kind = POLY_ROOTS},
};

static const tw_dialect dialect = {
    .name = "poly",
    .summary = "polynomials, an example of a plugin",
    .ops = poly_ops,
    .n_ops = sizeof poly_ops / sizeof *poly_ops,
    .types = types,
};

/* ---- The plugin ---- */

__attribute__((visibility("default"))) bool tw_plugin_register(tw_context *ctx, int api_version);

bool tw_plugin_register(tw_context *ctx, int api_version)
{
    if (api_version != TW_PLUGIN_API)
        return false;
    if (!tw_dialect_register(ctx, &dialect) || !tw_pass_register(ctx, &poly_raise) ||
        !tw_pass_register(ctx, &poly_resolve))
        return false;
    tw_iface_set(ctx, &poly_ops[POLY_HORNER], &tw_op_lowering_iface, &poly_horner_lowering);
    tw_iface_set(ctx, &poly_ops[POLY_ROOTS], &tw_op_routine_iface, &poly_roots_routine);
    return poly_register_roots();
}
