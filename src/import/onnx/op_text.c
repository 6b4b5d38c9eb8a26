/* op_text.c: operators on strings, and tables that elements are looked up in; routines of the
 * runtime compute them. */
#include "import/onnx/import.h"
#include "runtime/regex.h"

#include <string.h>

/* ---- Pieces ---- */

/* Strings of a list attribute; none when it is absent. */
static tw_value *text_list(tw_onnx_node *n, const char *name)
{
    const Onnx__AttributeProto *a = tw_onnx_attr(n, name);
    return tw_onnx_text_constant(n, a ? a->strings : NULL, a ? a->n_strings : 0, 1);
}

static bool check_text(tw_onnx_node *n, unsigned i)
{
    return tw_onnx_check_elem(n, i, 1 << TW_STRING);
}

/* Both operands at their common shape, and a routine's result of that shape. */
static tw_value *elementwise(tw_onnx_node *n, const char *routine, tw_elem elem)
{
    tw_value *operands[2], *out;
    tw_onnx_result result = {.elem = elem};
    if (!check_text(n, 0) || !check_text(n, 1) ||
        !tw_gb_broadcast_dims(n->g, n->in, 2, &result.rank, result.dims))
        return NULL;
    for (unsigned i = 0; i < 2; i++)
        operands[i] = tw_gb_expand(n->g, n->in[i], result.rank, result.dims);
    return tw_onnx_routine(n, routine, operands, 2, NULL, 0, &result, 1, &out) ? out : NULL;
}

tw_value *tw_onnx_equal_text(tw_onnx_node *n)
{
    return elementwise(n, "equal_text", TW_BOOL);
}

bool tw_onnx_op_string_concat(tw_onnx_node *n)
{
    return tw_onnx_set(n, 0, elementwise(n, "concat_text", TW_STRING));
}

bool tw_onnx_op_string_split(tw_onnx_node *n)
{
    bool ok = true;
    tw_type x = n->in[0]->type;
    int64_t most = tw_onnx_int(n, "maxsplit", -1, &ok);
    const Onnx__AttributeProto *a = tw_onnx_attr(n, "delimiter");
    static const ProtobufCBinaryData space;
    if (!ok || !check_text(n, 0))
        return false;
    if (x->rank == TW_MAX_RANK)
        return tw_onnx_error(n, "a tensor of more than %d dimensions", TW_MAX_RANK);
    tw_value *operands[2] = {n->in[0], tw_onnx_text_constant(n, a ? &a->s : &space, 1, 0)}, *out[2];
    tw_onnx_result results[2] = {{TW_STRING, x->rank + 1, {NULL}}, {TW_I64, x->rank, {NULL}}};
    for (unsigned i = 0; i < x->rank; i++)
        results[0].dims[i] = results[1].dims[i] = x->dims[i];
    results[0].dims[x->rank] = tw_onnx_new_size(n);
    if (!tw_onnx_routine(n, "split_text", operands, 2, &most, 1, results, 2, out))
        return false;
    tw_onnx_set(n, 1, out[1]);
    return tw_onnx_set(n, 0, out[0]);
}

bool tw_onnx_op_string_normalizer(tw_onnx_node *n)
{
    static const char *const actions[] = {"NONE", "LOWER", "UPPER"};
    bool ok = true;
    tw_type x = n->in[0]->type;
    const char *name = tw_onnx_string(n, "case_change_action", "NONE", &ok);
    int64_t params[2] = {3, tw_onnx_int(n, "is_case_sensitive", 0, &ok)};
    for (int i = 0; ok && i < 3; i++)
        if (!strcmp(name, actions[i]))
            params[0] = i;
    if (!ok || !check_text(n, 0))
        return false;
    if (params[0] == 3 || x->rank < 1 || x->rank > 2 ||
        (x->rank == 2 && tw_gb_differ(n->g, x->dims[0], tw_gb_const(n->g, 1))))
        return tw_onnx_error(n,
                             "input 0 is %s and case_change_action '%s'; strings [n] or [1, n] "
                             "and NONE, LOWER or UPPER are accepted",
                             tw_gb_type_text(n->g, x), name);
    tw_value *operands[2] = {n->in[0], text_list(n, "stopwords")}, *out;
    tw_onnx_result result = {TW_STRING, x->rank, {tw_gb_const(n->g, 1)}};
    result.dims[x->rank - 1] = tw_onnx_new_size(n);
    return tw_onnx_routine(n, "normalize_text", operands, 2, params, 2, &result, 1, &out) &&
           tw_onnx_set(n, 0, out);
}

/* The pattern is looked at now, so that a wrong one is told. */
bool tw_onnx_op_regex_full_match(tw_onnx_node *n)
{
    const char *error;
    tw_type x = n->in[0]->type;
    const Onnx__AttributeProto *a = tw_onnx_attr(n, "pattern");
    tw_value *pattern = a ? tw_onnx_text_constant(n, &a->s, 1, 0) : NULL, *out;
    if (!pattern || !check_text(n, 0))
        return a ? false : tw_onnx_error(n, "attribute 'pattern' is missing");
    const char *text = ((char *const *)tw_graph_constant_value(pattern)->u.dense.data)[0];
    tw_regex *re = tw_regex_compile(text, &error);
    if (!re)
        return tw_onnx_error(n, "attribute 'pattern', \"%s\": %s", text, error);
    tw_regex_free(re);
    tw_onnx_result result = {TW_BOOL, x->rank, {NULL}};
    for (unsigned i = 0; i < x->rank; i++)
        result.dims[i] = x->dims[i];
    return tw_onnx_routine(n, "match_text", (tw_value *[]){n->in[0], pattern}, 2, NULL, 0, &result,
                           1, &out) &&
           tw_onnx_set(n, 0, out);
}

/* ---- ai.onnx.ml ---- */

static tw_value *floats(tw_onnx_node *n, const char *name, size_t *count)
{
    bool ok = true;
    const float *list = tw_onnx_float_list(n, name, count, &ok);
    float *data = tw_context_alloc(n->ctx, (*count + 1) * sizeof *data);
    if (*count)
        memcpy(data, list, *count * sizeof *data);
    tw_type type = tw_type_tensor_static(n->ctx, TW_F32, 1, (int64_t[]){(int64_t)*count});
    return ok ? tw_gb_constant(n->g, type, data, *count * sizeof *data, NULL) : NULL;
}

/* "keys" or "values" in one of their forms; NULL with an error. */
static tw_value *read_column(tw_onnx_node *n, const char *what)
{
    bool ok = true;
    size_t count;
    const char *texts = tw_arena_printf(n->im->arena, "%s_strings", what);
    const char *ints = tw_arena_printf(n->im->arena, "%s_int64s", what);
    const char *reals = tw_arena_printf(n->im->arena, "%s_floats", what);
    const Onnx__AttributeProto *tensor =
        tw_onnx_attr(n, tw_arena_printf(n->im->arena, "%s_tensor", what));
    if (tensor && tensor->t)
        return tw_onnx_tensor(n->im, tensor->t, "");
    if (tw_onnx_attr(n, texts))
        return text_list(n, texts);
    if (tw_onnx_attr(n, ints)) {
        const int64_t *list = tw_onnx_int_list(n, ints, &count, &ok);
        return ok ? tw_gb_ints(n->g, list, count) : NULL;
    }
    if (tw_onnx_attr(n, reals))
        return floats(n, reals, &count);
    return tw_gb_error(n->g, "there are no %s", what);
}

/* What elements become that are no keys. */
static tw_value *read_default(tw_onnx_node *n, tw_elem elem)
{
    bool ok = true;
    static const ProtobufCBinaryData unused = {7, (uint8_t *)"_Unused"};
    const Onnx__AttributeProto *tensor = tw_onnx_attr(n, "default_tensor");
    const Onnx__AttributeProto *text = tw_onnx_attr(n, "default_string");
    if (tensor && tensor->t)
        return tw_onnx_tensor(n->im, tensor->t, "");
    if (elem == TW_STRING)
        return tw_onnx_text_constant(n, text ? &text->s : &unused, 1, 0);
    double value = tw_elem_is_float(elem) ? tw_onnx_float(n, "default_float", 0, &ok)
                                          : (double)tw_onnx_int(n, "default_int64", -1, &ok);
    return ok ? tw_gb_scalar(n->g, elem, value) : NULL;
}

bool tw_onnx_op_label_encoder(tw_onnx_node *n)
{
    tw_value *x = n->in[0], *out;
    tw_value *keys = read_column(n, "keys"), *values = keys ? read_column(n, "values") : NULL;
    tw_value *absent = values ? read_default(n, values->type->elem) : NULL;
    int64_t count = 0;
    if (!absent)
        return false;
    if (keys->type->elem != x->type->elem || absent->type->elem != values->type->elem ||
        !tw_type_static_count(absent->type, &count) || count != 1)
        return tw_onnx_error(n, "input %s, keys %s, values %s and default %s do not fit",
                             tw_gb_type_text(n->g, x->type), tw_gb_type_text(n->g, keys->type),
                             tw_gb_type_text(n->g, values->type),
                             tw_gb_type_text(n->g, absent->type));
    tw_onnx_result result = {values->type->elem, x->type->rank, {NULL}};
    for (unsigned i = 0; i < x->type->rank; i++)
        result.dims[i] = x->type->dims[i];
    return tw_onnx_routine(n, "look_up", (tw_value *[]){x, keys, values, absent}, 4, NULL, 0,
                           &result, 1, &out) &&
           tw_onnx_set(n, 0, out);
}

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
