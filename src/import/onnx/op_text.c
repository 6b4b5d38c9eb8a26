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

/* ---- Casts ---- */

/* The wide type that stands for an element type. */
static tw_elem wide_elem(tw_elem elem)
{
    return tw_elem_is_float(elem) ? TW_F64 : tw_elem_is_signed(elem) ? TW_I64 : TW_U64;
}

tw_value *tw_onnx_cast_text(tw_onnx_node *n, tw_value *x, tw_elem elem)
{
    bool reads = x->type->elem == TW_STRING;
    tw_elem wide = wide_elem(reads ? elem : x->type->elem);
    tw_onnx_result result = {reads ? wide : TW_STRING, x->type->rank, {NULL}};
    memcpy(result.dims, x->type->dims, x->type->rank * sizeof *result.dims);
    tw_value *from = reads ? x : tw_gb_cast(n->g, x, wide), *out;
    if (!tw_onnx_routine(n, reads ? "read_numbers" : "write_numbers", &from, 1, NULL, 0, &result, 1,
                         &out))
        return NULL;
    if (!reads)
        return out;
    if (wide == TW_F64 && elem != TW_F64) /* by way of f32 */
        out = tw_gb_cast(n->g, out, TW_F32);
    return tw_gb_cast(n->g, out, elem);
}

/* ---- Moving ---- */

/* Numbers from *start on in the shape of x; *start is what follows. */
static tw_value *places_of(tw_gb *g, const tw_value *x, tw_expr *start)
{
    tw_expr count = tw_gb_product(g, x->type->dims, x->type->rank);
    tw_value *places = tw_gb_binary(g, TW_GRAPH_ADD, tw_gb_iota(g, TW_I64, 1, &count, 0),
                                    tw_onnx_size_value(g, *start));
    *start = tw_expr_add(g->ctx, *start, count);
    return tw_gb_reshape(g, places, x->type->rank, x->type->dims);
}

bool tw_onnx_move_text(tw_onnx_node *n, const unsigned *list, unsigned count, tw_value *filler,
                       tw_onnx_handler handler)
{
    enum { MOST = 4 };
    tw_gb *g = n->g;
    static const ProtobufCBinaryData empty;
    tw_expr next = tw_gb_const(g, 1);
    tw_value *flat[MOST] = {filler ? filler : tw_onnx_text_constant(n, &empty, 1, 0)};
    flat[0] = tw_gb_reshape(g, flat[0], 1, &next);
    for (unsigned i = 0; i < count; i++) {
        tw_value **x = &n->in[list[i]];
        tw_expr size = tw_gb_product(g, (*x)->type->dims, (*x)->type->rank);
        flat[i + 1] = tw_gb_reshape(g, *x, 1, &size);
        *x = places_of(g, *x, &next);
        if (!*x)
            return false;
    }
    return handler(n) &&
           tw_onnx_set(n, 0, tw_gb_gather(g, tw_gb_concat(g, flat, count + 1, 0), n->out[0], 0));
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
