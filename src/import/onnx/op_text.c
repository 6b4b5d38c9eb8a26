/* op_text.c: operators on strings; routines of the runtime compute them. */
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
