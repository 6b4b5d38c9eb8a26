/* op_ml.c: operators of ai.onnx.ml that are arithmetic on rows of features. */
#include "import/onnx/ml.h"

#include "import/onnx/arith.h"

#include <math.h>
#include <string.h>

#define SELECT(c, a, b) tw_gb_where(g, c, a, b)
#define ABOVEC(a, c) tw_gb_binary_scalar(g, TW_GRAPH_GREATER, a, c)
#define UNARY(x, kind) tw_gb_unary(g, TW_GRAPH_##kind, x)

enum { PLAIN_NUMBERS = 1 << TW_F32 | 1 << TW_F64 | TW_ONNX_INDICES };

/* Columns of the last axis. */
bool tw_onnx_op_array_feature_extractor(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    tw_value *x = n->in[0];
    tw_type type = x->type;
    tw_expr all = tw_gb_product(g, n->in[1]->type->dims, n->in[1]->type->rank);
    if (type->rank == 0 || !tw_onnx_check_elem(n, 1, TW_ONNX_INDICES))
        return type->rank == 0 && tw_onnx_error(n, "input 0 is a scalar");
    tw_value *y = tw_gb_gather(g, x, tw_gb_reshape(g, n->in[1], 1, &all), type->rank - 1);
    return tw_onnx_set(n, 0, type->rank == 1 ? tw_gb_unsqueeze(g, y, 1) : y);
}

/* x > threshold ? 1 : 0 */
bool tw_onnx_op_binarizer(tw_onnx_node *n)
{
    bool ok = true;
    double threshold = tw_onnx_float(n, "threshold", 0, &ok);
    if (!ok || !tw_onnx_check_elem(n, 0, TW_ONNX_NUMBERS))
        return false;
    tw_value *above = tw_gb_binary_scalar(n->g, TW_GRAPH_GREATER, n->in[0], threshold);
    return tw_onnx_set(n, 0, tw_gb_cast(n->g, above, n->in[0]->type->elem));
}

/* ---- Features ---- */

/* Input 0 as rows [n, features]; NULL with an error. */
static tw_value *rows(tw_onnx_node *n)
{
    tw_value *x = n->in[0];
    if (!tw_onnx_check_elem(n, 0, PLAIN_NUMBERS))
        return NULL;
    if (x->type->rank == 1)
        x = tw_gb_unsqueeze(n->g, x, 1);
    if (x && x->type->rank != 2)
        return tw_gb_error(n->g, "input 0 is %s; rows of features are needed",
                           tw_gb_type_text(n->g, x->type));
    return x;
}

/* A list of floats as a tensor that broadcasts with x: one number, or one for each index of the
 * last axis; NULL with an error. */
static tw_value *per_feature(tw_onnx_node *n, const char *name, tw_type x)
{
    bool ok = true;
    size_t count;
    const float *list = tw_onnx_float_list(n, name, &count, &ok);
    if (!ok)
        return NULL;
    if (count == 0 || x->rank == 0 ||
        (count != 1 && tw_gb_differ(n->g, x->dims[x->rank - 1], tw_gb_const(n->g, (int64_t)count))))
        return tw_gb_error(n->g, "attribute '%s' has %zu entries for %s", name, count,
                           tw_gb_type_text(n->g, x));
    return tw_onnx_floats(n->g, list, count);
}

/* (x - offset) * scale */
bool tw_onnx_op_scaler(tw_onnx_node *n)
{
    tw_gb *g = n->g;
    if (!tw_onnx_check_elem(n, 0, PLAIN_NUMBERS))
        return false;
    tw_value *offset = per_feature(n, "offset", n->in[0]->type);
    tw_value *scale = offset ? per_feature(n, "scale", n->in[0]->type) : NULL;
    return scale && tw_onnx_set(n, 0, MUL(SUB(tw_gb_cast(g, n->in[0], TW_F32), offset), scale));
}

static tw_value *imputed_integers(tw_onnx_node *n)
{
    bool ok = true;
    size_t count;
    tw_gb *g = n->g;
    tw_type x = n->in[0]->type;
    const int64_t *list = tw_onnx_int_list(n, "imputed_value_int64s", &count, &ok);
    int64_t replaced = tw_onnx_int(n, "replaced_value_int64", 0, &ok);
    if (!ok || count == 0 || x->rank == 0 ||
        (count != 1 && tw_gb_differ(g, x->dims[x->rank - 1], tw_gb_const(g, (int64_t)count))))
        return ok ? tw_gb_error(g, "attribute 'imputed_value_int64s' has %zu entries for %s", count,
                                tw_gb_type_text(g, x))
                  : NULL;
    tw_value *is = tw_gb_binary(g, TW_GRAPH_EQUAL, n->in[0], tw_onnx_number(g, replaced));
    return SELECT(is, tw_gb_ints(g, list, count), n->in[0]);
}

bool tw_onnx_op_imputer(tw_onnx_node *n)
{
    bool ok = true;
    tw_gb *g = n->g;
    double replaced = tw_onnx_float(n, "replaced_value_float", 0, &ok);
    if (!ok || !tw_onnx_check_elem(n, 0, 1 << TW_F32 | 1 << TW_I64))
        return false;
    if (n->in[0]->type->elem == TW_I64)
        return tw_onnx_set(n, 0, imputed_integers(n));
    tw_value *value = per_feature(n, "imputed_value_floats", n->in[0]->type);
    tw_value *is = isnan(replaced) ? UNARY(n->in[0], IS_NAN) : EQUALC(n->in[0], replaced);
    return value && tw_onnx_set(n, 0, SELECT(is, value, n->in[0]));
}

/* Rows over their largest element, or over their norm, unless that is 0. */
bool tw_onnx_op_normalizer(tw_onnx_node *n)
{
    static const char *const norms[] = {"MAX", "L1", "L2"};
    tw_gb *g = n->g;
    int64_t norm = tw_onnx_choice(n, "norm", norms, 3, 0);
    tw_value *x = norm < 0 ? NULL : tw_gb_cast(g, rows(n), TW_F32);
    tw_value *by = norm == 0   ? tw_gb_reduce(g, TW_GRAPH_REDUCE_MAX, x, 2, true)
                   : norm == 1 ? tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, UNARY(x, ABS), 2, true)
                               : tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, MUL(x, x), 2, true);
    by = norm == 2 ? UNARY(by, SQRT) : by;
    tw_value *y = by ? DIV(x, SELECT(EQUALC(by, 0), tw_gb_scalar(g, TW_F32, 1), by)) : NULL;
    return y && tw_onnx_set(n, 0, tw_gb_reshape(g, y, n->in[0]->type->rank, n->in[0]->type->dims));
}

/* Inputs side by side, each cut or filled up with zeros to as many features as are declared. */
bool tw_onnx_op_feature_vectorizer(tw_onnx_node *n)
{
    bool ok = true;
    size_t count;
    tw_gb *g = n->g;
    const int64_t *wanted = tw_onnx_int_list(n, "inputdimensions", &count, &ok);
    tw_value **parts = TW_NEW_ARRAY(n->im->arena, tw_value *, n->n_in + 1);
    if (!ok || (count != n->n_in && tw_onnx_error(n, "%zu sizes for %u inputs", count, n->n_in)))
        return false;
    for (unsigned i = 0; i < n->n_in; i++) {
        int64_t has = 0;
        tw_value *x = n->in[i];
        if (!x || !tw_onnx_check_elem(n, i, PLAIN_NUMBERS))
            return x ? false : tw_onnx_error(n, "input %u is missing", i);
        if (x->type->rank != 2 || wanted[i] < 0)
            return tw_onnx_error(n, "input %u is %s; rows of features are needed", i,
                                 tw_gb_type_text(g, x->type));
        /* As many features as wanted, with zeros for what there may lack. */
        bool known = tw_expr_as_const(x->type->dims[1], &has);
        int64_t lacks = !known ? wanted[i] : wanted[i] > has ? wanted[i] - has : 0;
        tw_expr zero = tw_gb_const(g, 0), more = tw_gb_const(g, lacks);
        x = tw_gb_pad(g, tw_gb_cast(g, x, TW_F32), (tw_expr[]){zero, zero}, (tw_expr[]){zero, more},
                      "constant", NULL);
        parts[i] = tw_gb_slice_axis(g, x, 1, zero, 1, tw_gb_const(g, wanted[i]));
        if (!parts[i])
            return false;
    }
    return tw_onnx_set(n, 0, tw_gb_concat(g, parts, n->n_in, 1));
}

/* ---- Categories ---- */

/* Which of the categories each element is: [..., categories] of 0 and 1. */
bool tw_onnx_op_one_hot_encoder(tw_onnx_node *n)
{
    bool ok = true;
    size_t count;
    tw_gb *g = n->g;
    tw_value *x = n->in[0], *categories;
    const Onnx__AttributeProto *texts = tw_onnx_attr(n, "cats_strings");
    const int64_t *numbers = tw_onnx_int_list(n, "cats_int64s", &count, &ok);
    bool is_text = x->type->elem == TW_STRING;
    if (!ok || !tw_onnx_check_elem(n, 0, PLAIN_NUMBERS | 1 << TW_STRING))
        return false;
    if (is_text)
        count = texts ? texts->n_strings : 0;
    if (count == 0 || x->type->rank == TW_MAX_RANK)
        return tw_onnx_error(n, "no categories for %s", tw_gb_type_text(g, x->type));
    tw_expr size = tw_gb_const(g, (int64_t)count);
    if (is_text) { /* by their places in the list */
        categories = tw_gb_iota(g, TW_I64, 1, &size, 0);
        tw_value *keys = tw_onnx_text_constant(n, texts->strings, count, 1);
        tw_onnx_result result = {TW_I64, x->type->rank, {NULL}};
        for (unsigned i = 0; i < x->type->rank; i++)
            result.dims[i] = x->type->dims[i];
        tw_value *operands[4] = {x, keys, categories, tw_gb_scalar(g, TW_I64, -1)};
        if (!tw_onnx_routine(n, "look_up", operands, 4, NULL, 0, &result, 1, &x))
            return false;
    } else {
        categories = tw_gb_ints(g, numbers, count);
        x = tw_gb_cast(g, x, TW_I64);
    }
    tw_value *is =
        x ? tw_gb_binary(g, TW_GRAPH_EQUAL, tw_gb_unsqueeze(g, x, 1u << x->type->rank), categories)
          : NULL;
    return tw_onnx_set(n, 0, tw_gb_cast(g, is, TW_F32));
}

/* ---- Linear models ---- */

/* x * coefficients^T + intercepts, [rows, targets]. */
static tw_value *linear(tw_onnx_node *n, int64_t targets)
{
    bool ok = true;
    size_t count, n_intercepts;
    tw_gb *g = n->g;
    const float *list = tw_onnx_float_list(n, "coefficients", &count, &ok);
    const float *added = tw_onnx_float_list(n, "intercepts", &n_intercepts, &ok);
    tw_value *x = ok ? tw_gb_cast(g, rows(n), TW_F32) : NULL;
    if (!x)
        return NULL;
    if (targets <= 0 || count == 0 || count % (size_t)targets ||
        tw_gb_differ(g, x->type->dims[1], tw_gb_const(g, (int64_t)count / targets)))
        return tw_gb_error(g, "%zu coefficients for %lld targets of %s", count, (long long)targets,
                           tw_gb_type_text(g, x->type));
    if (n_intercepts && n_intercepts != (size_t)targets)
        return tw_gb_error(g, "%zu intercepts for %lld targets", n_intercepts, (long long)targets);
    tw_expr dims[2] = {tw_gb_const(g, targets), tw_gb_const(g, (int64_t)count / targets)};
    tw_value *w = tw_gb_reshape(g, tw_onnx_floats(g, list, count), 2, dims);
    tw_value *y = tw_gb_matmul(g, x, w, false, true);
    return n_intercepts ? ADD(y, tw_onnx_floats(g, added, n_intercepts)) : y;
}

bool tw_onnx_op_linear_regressor(tw_onnx_node *n)
{
    bool ok = true;
    int64_t targets = tw_onnx_int(n, "targets", 1, &ok), post = tw_onnx_read_transform(n);
    return ok && post >= 0 && tw_onnx_set(n, 0, tw_onnx_transform(n->g, post, linear(n, targets)));
}

/* The labels of the classes, or those of "not" and "is" of a single one; NULL with an error. */
static tw_value *class_labels(tw_onnx_node *n, int64_t classes)
{
    bool ok = true;
    size_t n_numbers;
    const Onnx__AttributeProto *texts = tw_onnx_attr(n, "classlabels_strings");
    const int64_t *numbers = tw_onnx_int_list(n, "classlabels_ints", &n_numbers, &ok);
    size_t count = texts && texts->n_strings ? texts->n_strings : n_numbers;
    if (!ok)
        return NULL;
    if (classes == 1 && count == 0)
        return tw_gb_ints(n->g, (const int64_t[]){0, 1}, 2);
    if (count != (classes == 1 ? 2 : (size_t)classes))
        return tw_gb_error(n->g, "%zu labels for %lld classes", count, (long long)classes);
    return texts && texts->n_strings ? tw_onnx_text_constant(n, texts->strings, count, 1)
                                     : tw_gb_ints(n->g, numbers, count);
}

bool tw_onnx_op_linear_classifier(tw_onnx_node *n)
{
    bool ok = true;
    size_t count, labelled;
    int64_t features = 0;
    tw_gb *g = n->g;
    const Onnx__AttributeProto *texts = tw_onnx_attr(n, "classlabels_strings");
    tw_onnx_float_list(n, "intercepts", &count, &ok);
    tw_onnx_int_list(n, "classlabels_ints", &labelled, &ok);
    int64_t post = tw_onnx_read_transform(n), classes = (int64_t)count;
    labelled = texts && texts->n_strings ? texts->n_strings : labelled;
    if (!ok || post < 0)
        return false;
    if (!classes) { /* without intercepts by the number of coefficients */
        tw_value *x = rows(n);
        tw_onnx_float_list(n, "coefficients", &count, &ok);
        if (!x || !tw_expr_as_const(x->type->dims[1], &features) || features == 0)
            return x && tw_onnx_error(n, "the number of features must be known");
        classes = (int64_t)count / features;
    }
    tw_value *scores = linear(n, classes), *labels = scores ? class_labels(n, classes) : NULL;
    if (!labels)
        return false;
    tw_value *at = classes > 1 ? tw_onnx_best(g, scores)
                               : tw_gb_cast(g, tw_gb_squeeze(g, ABOVEC(scores, 0), 2), TW_I64);
    if (classes == 1 && labelled == 2 && post == TW_ONNX_PROBIT)
        return tw_onnx_error(
            n, "post_transform PROBIT of a single score for two classes; engines do not say "
               "what the second score is");
    tw_value *z = classes == 1 && labelled == 2 ? tw_onnx_score_pair(g, post, scores, true)
                                                : tw_onnx_transform(g, post, scores);
    return tw_onnx_set(n, 0, tw_gb_gather(g, labels, at, 0)) && tw_onnx_set(n, 1, z);
}
